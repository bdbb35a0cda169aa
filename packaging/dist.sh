#!/usr/bin/env bash
# Makes BUILDDIR/busbar-VERSION.tar.xz of what is committed: it builds without git and without a network,
# and `rpmbuild -tb` takes it. `dist.sh BUILDDIR`; BUILDDIR must be configured.
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$1/CMakeCache.txt")
name=busbar-$version
if ! git diff --quiet HEAD; then
  echo "dist: what is not committed is left out" >&2
fi
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
sed "s/@VERSION@/$version/" packaging/busbar.spec.in >"$made/busbar.spec"
git archive --format=tar --prefix="$name/" --add-file="$made/busbar.spec" HEAD | xz -T0 >"$1/$name.tar.xz"
echo "$1/$name.tar.xz"
