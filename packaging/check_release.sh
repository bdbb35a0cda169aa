#!/usr/bin/env bash
# Unpacks and runs each part of a release in a clean Debian of its own, as root; debootstrap makes it:
#   packaging/check_release.sh BUILDDIR/release [FOLDER]
# The source is built there as README says. Ten minutes on two cores; all that is in FOLDER, some GB, is gone at the end.
# Exit code 77 without root or debootstrap.
set -euo pipefail

release=$(cd "$1" && pwd)
if ((EUID != 0)) || ! command -v debootstrap >/dev/null; then
  echo "SKIP: this needs root and debootstrap" >&2
  exit 77
fi
folder=$(mktemp -d "${2:-${TMPDIR:-/tmp}}/busbar-release.XXXXXX")
remove() {
  for mounted in "$folder"/*/proc "$folder"/*/sys "$folder"/*/dev/shm; do umount "$mounted" 2>/dev/null || true; done
  rm -rf --one-file-system "$folder"
}
trap remove EXIT

(cd "$release" && sha256sum --check --quiet SHA256SUMS)
debootstrap --variant=minbase bookworm "$folder/clean" >"$folder/log" || { tail "$folder/log"; exit 1; }
printf '#!/bin/sh\nexit 101\n' >"$folder/clean/usr/sbin/policy-rc.d"
chmod 755 "$folder/clean/usr/sbin/policy-rc.d"

fresh() {  # a root of its own, with what is to be tried in /release
  cp -a "$folder/clean" "$folder/$1"
  mkdir "$folder/$1/release"
  cp "$release"/* "$folder/$1/release/"
  mkdir -p "$folder/$1/dev/shm"
  mount -t proc proc "$folder/$1/proc"
  mount -t sysfs -o ro sys "$folder/$1/sys"
  mount -t tmpfs shm "$folder/$1/dev/shm"
}
inside() { chroot "$folder/$1" /usr/bin/env -i PATH="$PATH" HOME=/root LC_ALL=C.UTF-8 bash -ec "cd /release; $2" </dev/null; }
measures() {  # the table has the sizes 8 and 64, without a wrong element
  inside "$1" "$2 all_reduce_perf -b 8 -e 64 -f 8 $3" | tee "$folder/table"
  [[ $(grep -cE '^ +(8|64) ' "$folder/table") == 2 ]] && grep -q 'Out of bounds values : 0 OK' "$folder/table"
}

fresh with_mpi
inside with_mpi 'apt-get install -y -qq xz-utils >/dev/null; tar -xf busbar-*-openmpi-linux-*.tar.xz'
measures with_mpi './busbar-*-openmpi-*/busbar-run mpirun --allow-run-as-root --oversubscribe -n 2' ''
inside with_mpi './busbar-*-openmpi-*/busbar-run busbar --version'

fresh no_mpi
inside no_mpi 'apt-get install -y -qq xz-utils >/dev/null; tar -xf busbar-*-no-mpi-linux-*.tar.xz'
measures no_mpi './busbar-*-no-mpi-*/busbar-run' '-g 2'
inside no_mpi './busbar-*-no-mpi-*/busbar-run busbar --version'

fresh package
inside package 'apt-get update -qq; apt-get install -y -qq ./busbar_*.deb openmpi-bin >/dev/null'
measures package 'OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n 2' ''
inside package 'busbar doctor --local >doctor || test $? -eq 7; head -5 doctor'

fresh source
# shellcheck disable=SC2016  # expanded in that root
inside source 'apt-get update -qq; apt-get install -y -qq make xz-utils ca-certificates >/dev/null
  for tarball in busbar-*.tar.xz; do case $tarball in *-linux-*) ;; *) tar -xf "$tarball" ;; esac; done
  cd busbar-*[0-9]/ && make run 2>&1 | tail -15 | tee /table && grep -q "Out of bounds values : 0 OK" /table'
echo "each part of the release was unpacked and runs"
