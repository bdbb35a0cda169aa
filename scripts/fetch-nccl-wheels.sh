#!/usr/bin/env bash
# Puts the oldest and the newest NCCL that the suite knows, of Python's packages, where test/e2e/nccl_wheels_test.py asks
# them: BUSBAR_NCCL_WHEELS, or ~/.cache/busbar/nccl. 250 MB each, once. With BUSBAR_MORE=1 some of those between, too.
# Without pip or network it says so and fails: the test is then skipped, or asks what lies there.
set -euo pipefail

folder=${BUSBAR_NCCL_WHEELS:-$HOME/.cache/busbar/nccl}
packages=(cu12==2.19.3 cu13==2.32.3)
if [[ -n ${BUSBAR_MORE:-} ]]; then
  packages+=(cu12==2.21.5 cu12==2.23.4 cu12==2.26.5 cu12==2.27.7 cu13==2.28.9 cu13==2.30.7)
fi
for package in "${packages[@]}"; do
  compgen -G "$folder/nvidia_nccl_${package/==/-}-*.whl" >/dev/null && continue
  echo "fetching NCCL ${package#*==} into $folder" >&2
  mkdir -p "$folder"
  timeout 300 python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --dest "$folder" "nvidia-nccl-$package"
done
