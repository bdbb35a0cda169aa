#!/usr/bin/env bash
# Puts the oldest and the newest NCCL that the suite knows, of Python's packages, where test/e2e/nccl_wheels_test.py asks
# them: BUSBAR_NCCL_WHEELS, or ~/.cache/busbar/nccl. 250 MB each, once. Without pip or network it says so and fails: the
# test is then skipped, or asks what lies there.
set -euo pipefail

folder=${BUSBAR_NCCL_WHEELS:-$HOME/.cache/busbar/nccl}
for version in 2.28.9 2.32.3; do
  compgen -G "$folder/nvidia_nccl_cu13-$version-*.whl" >/dev/null && continue
  echo "fetching NCCL $version into $folder" >&2
  mkdir -p "$folder"
  timeout 300 python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --dest "$folder" "nvidia-nccl-cu13==$version"
done
