#!/usr/bin/env bash
# Installs what is missing to build and test; with --lint or --bundle, what `make lint` or `make bundle` needs as well.
# Does nothing, and needs neither root nor a network, where everything is there.
set -euo pipefail

packages=(g++ cmake ninja-build pkg-config python3 catch2 libyaml-cpp-dev nlohmann-json3-dev libfmt-dev
          libbenchmark-dev libhwloc-dev)
if [[ -z "${MPI_HOME:-}" ]]; then
  packages+=(libopenmpi-dev openmpi-bin)
fi
case "${1:-}" in
  --lint) packages+=(clang-format clang-tidy shellcheck git) ;;
  --bundle) packages+=(patchelf binutils xz-utils) ;;
esac

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "This is not a Debian system. Please see to it that these, or what they are called here, are installed:" >&2
  echo "  ${packages[*]}" >&2
  exit 0  # they may well be there; CMake says what is not
fi

# dpkg-query fails as soon as one package is unknown to it, and still lists the others.
installed=$({ dpkg-query -W -f '${Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true; } |
  sed -n 's/^install ok installed //p')
missing=()
for package in "${packages[@]}"; do
  if ! grep -qxF "$package" <<<"$installed"; then
    missing+=("$package")
  fi
done
if ((${#missing[@]} == 0)); then
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "Missing, and neither root nor sudo to install them. Please ask for: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "Installing what is missing: ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null
