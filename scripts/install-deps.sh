#!/usr/bin/env bash
# Installs what is missing to build and test; with --test, --lint, --bundle or --deb, what `make test` and so on need as
# well; with --docs only what `make docs` needs. MPI=mpich in the environment: MPICH instead of Open MPI; MPI=none
# or MPI_HOME: neither. Does nothing, and needs neither root nor a network, where everything is there.
set -euo pipefail

packages=(g++ cmake ninja-build pkg-config python3 catch2 libyaml-cpp-dev nlohmann-json3-dev libfmt-dev libre2-dev
          libarchive-dev libboost-math-dev libbenchmark-dev libhwloc-dev libsqlite3-dev libssl-dev)
if [[ -z "${MPI_HOME:-}" ]]; then
  case ${MPI:-} in
    mpich) packages+=(libmpich-dev mpich) ;;
    none) ;;
    *) packages+=(libopenmpi-dev openmpi-bin) ;;
  esac
fi
useful=(libgloo-dev)  # a backend is left out, or tests skip themselves, without these
case "${1:-}" in
  # The virtual cluster's, a browser for the report, and what reads the manifest for Kubernetes.
  --test) useful+=(iproute2 util-linux procps nftables munge slurm-wlm chromium python3-yaml python3-jsonschema) ;;
  --lint) packages+=(clang-format clang-tidy shellcheck git python3-yaml) useful+=(ccache) ;;
  --bundle) packages+=(patchelf binutils xz-utils) ;;
  --docs) packages=(mkdocs) useful=() ;;
  --deb) packages+=(dpkg-dev file) ;;
esac

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "This is not a Debian system. Please see to it that these, or what they are called here, are installed:" >&2
  echo "  ${packages[*]} ${useful[*]}" >&2
  exit 0  # they may well be there; CMake says what is not
fi

as_root=()
if ((EUID != 0)); then
  as_root=(sudo)
fi
updated=0
# ROOT: another one than /, for the test.
guard=${ROOT:-}/usr/sbin/policy-rc.d
guard_note="# Made by busbar's install-deps.sh, which removes it: pid"

missing_of() {  # those of the packages that are not installed
  # dpkg-query fails as soon as one package is unknown to it, and still lists the others.
  local package installed
  installed=$({ dpkg-query -W -f '${Status} ${Package}\n' "$@" 2>/dev/null || true; } |
    sed -n 's/^install ok installed //p')
  for package in "$@"; do
    grep -qxF "$package" <<<"$installed" || echo "$package"
  done
}

may_install() { ((EUID == 0)) || command -v sudo >/dev/null; }

install_packages() {
  if ! may_install; then
    echo "Missing, and neither root nor sudo to install them. Please ask for: $*" >&2
    return 1
  fi
  echo "Installing what is missing: $*"
  if ((!updated)); then
    "${as_root[@]}" apt-get update -qq || return 1
    updated=1
  fi
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null
}

# The guard of this run, or of one that was killed: that of one that lives stays.
remove_guard() {
  local pid
  pid=$(sed -n "s/^$guard_note //p" "$guard" 2>/dev/null) || return 0
  if [[ -n $pid && ($pid == "$$" || ! -d /proc/$pid) ]] && may_install; then
    "${as_root[@]}" rm -f "$guard"
  fi
}

trap remove_guard EXIT
remove_guard

mapfile -t missing < <(missing_of "${packages[@]}")
if ((${#missing[@]} > 0)); then
  install_packages "${missing[@]}"
fi

if ((${#useful[@]} > 0)); then
  mapfile -t missing < <(missing_of "${useful[@]}")
fi
if ((${#useful[@]} > 0 && ${#missing[@]} > 0)) && ! may_install; then
  echo "Missing, and neither root nor sudo to install them: ${missing[*]}. What needs them is left out." >&2
elif ((${#useful[@]} > 0 && ${#missing[@]} > 0)); then
  # The tests run Slurm's daemons themselves: none is to be started by its package.
  if [[ ! -e $guard ]] && printf '#!/bin/sh\n%s %s\nexit 101\n' "$guard_note" "$$" | "${as_root[@]}" tee "$guard" >/dev/null 2>&1; then
    "${as_root[@]}" chmod 755 "$guard"
  fi
  if ! install_packages "${missing[@]}"; then  # one that is unknown here must not keep the others away
    for package in "${missing[@]}"; do
      install_packages "$package" || echo "What needs $package is left out." >&2
    done
  fi
fi

# Debian has no package of it.
if [[ ${1:-} == --test ]] && ((EUID == 0)) && ! command -v py-spy >/dev/null; then
  timeout 120 python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore py-spy >/dev/null 2>&1 ||
    echo "What needs py-spy (PyPI) is left out." >&2
fi
