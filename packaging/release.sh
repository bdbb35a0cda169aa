#!/usr/bin/env bash
# Collects what a release consists of in BUILDDIR/release, with its checksums: `release.sh BUILDDIR NO_MPI_BUILDDIR`, after
# make dist, deb and bundle in the first and bundle MPI=0 in the second (`make release` does all that).
set -euo pipefail

of_build() { sed -n "s/^$1:[A-Z]*=//p" "$builddir/CMakeCache.txt"; }
builddir=$(cd "$1" && pwd)
no_mpi=$(cd "$2" && pwd)
version=$(of_build CMAKE_PROJECT_VERSION)
mpi=$(of_build BUSBAR_MPI_NAME)
machine=$(uname -m)

release=$builddir/release
rm -rf "$release"
mkdir "$release"
cp "$builddir/busbar-$version.tar.xz" "$builddir"/busbar_"$version"_*.deb \
   "$builddir/busbar-$version-$mpi-linux-$machine.tar.xz" "$no_mpi/busbar-$version-no-mpi-linux-$machine.tar.xz" "$release/"
cd "$release"
sha256sum -- * >SHA256SUMS
echo "$release:"
cat SHA256SUMS
