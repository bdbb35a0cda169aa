#!/usr/bin/env bash
# Builds packaging/Containerfile from this tree without a registry, and runs what is in it: debootstrap makes the base,
# buildah builds in a chroot, so that neither a daemon nor namespaces are needed. As root; five minutes on two cores:
#   packaging/check_container.sh [FOLDER]
# All that is in FOLDER, some GB, is gone at the end. Exit code 77 without root, debootstrap or buildah.
set -euo pipefail
cd "$(dirname "$0")/.."

for tool in debootstrap buildah; do
  if ((EUID != 0)) || ! command -v "$tool" >/dev/null; then
    echo "SKIP: this needs root, debootstrap and buildah" >&2
    exit 77
  fi
done
folder=$(mktemp -d "${1:-${TMPDIR:-/tmp}}/busbar-container.XXXXXX")
buildah() {
  command buildah --root "$folder/storage" --runroot "$folder/run" --storage-driver overlay "$@"
}
remove() {
  buildah rm --all >/dev/null 2>&1 || true
  buildah rmi --all --force >/dev/null 2>&1 || true
  umount -R "$folder"/storage/overlay 2>/dev/null || true
  rm -rf --one-file-system "$folder"
}
trap remove EXIT
export TMPDIR=$folder
echo '{"default": [{"type": "insecureAcceptAnything"}]}' >"$folder/policy.json"

debootstrap --variant=minbase bookworm "$folder/root"
# As in Debian's own image, so that no daemon starts while packages are installed.
printf '#!/bin/sh\nexit 101\n' >"$folder/root/usr/sbin/policy-rc.d"
chmod 755 "$folder/root/usr/sbin/policy-rc.d"
rm -rf "$folder/root/var/cache/apt/archives"/*.deb
tar -C "$folder/root" -cf "$folder/root.tar" .
rm -rf --one-file-system "$folder/root"
base=$(buildah from scratch)
buildah add --quiet "$base" "$folder/root.tar" / >/dev/null
buildah commit --quiet --signature-policy "$folder/policy.json" "$base" localhost/base >/dev/null
buildah rm "$base" >/dev/null
rm "$folder/root.tar"

buildah build --isolation chroot --signature-policy "$folder/policy.json" --pull-never \
  --build-arg BASE=localhost/base -f packaging/Containerfile -t localhost/busbar .

# Without MPI: no libmpi in it, and ranks that start by themselves.
buildah build --isolation chroot --signature-policy "$folder/policy.json" --pull-never \
  --build-arg BASE=localhost/base --build-arg MPI=none -f packaging/Containerfile -t localhost/busbar-no-mpi .
container=$(buildah from --signature-policy "$folder/policy.json" --pull-never localhost/busbar-no-mpi)
buildah run --isolation chroot "$container" -- all_reduce_perf -g 2 -b 8 -e 1M -f 32
buildah run --isolation chroot "$container" -- bash -c '! find / -xdev -name "libmpi*.so*" | grep .'

container=$(buildah from --signature-policy "$folder/policy.json" --pull-never localhost/busbar)
inside() { buildah run --isolation chroot "$container" -- "$@"; }
inside busbar --version
inside test -x /usr/share/busbar/slurm/prolog.sh
inside bash -c 'busbar doctor --local || test $? -eq 7'
[[ $(inside id -u) == 1001 ]]
inside mpirun -n 2 --oversubscribe all_reduce_perf -b 8 -e 1M -f 32
# As mpi-operator does: keys in .ssh, the server without root, ssh as mpirun calls it.
# shellcheck disable=SC2016  # expanded in the container
inside bash -ec 'mkdir -p .ssh && ssh-keygen -q -t rsa -N "" -f .ssh/id_rsa && cp .ssh/id_rsa.pub .ssh/authorized_keys
  /usr/sbin/sshd -De -f /etc/ssh/sshd_busbar & server=$!
  trap "kill $server" EXIT
  ssh -o ConnectionAttempts=10 127.0.0.1 busbar --version'
du -sh "$folder/storage"
echo "the container was built and runs"
