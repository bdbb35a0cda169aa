#!/usr/bin/env bash
# A benchmark as torchrun starts PyTorch's programs. On every host the same line, with the name of the first host and
# the number of hosts:
#   PROCESSES=8 torchrun.sh node1 2 all_reduce_perf -b 8 -e 8G -f 2
# PROCESSES: on each host (8), one for each GPU. RDZV_PORT: where the agents meet (29400).
set -euo pipefail

first=${1:?the first host} nnodes=${2:?the number of hosts}
shift 2
# A benchmark that failed is no worker to start again. --no-python: it is no script of Python's.
exec torchrun --nnodes "$nnodes" --nproc_per_node "${PROCESSES:-8}" --rdzv_backend c10d \
  --rdzv_endpoint "$first:${RDZV_PORT:-29400}" --rdzv_id busbar --max_restarts 0 --no_python "$@"
