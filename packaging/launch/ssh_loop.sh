#!/usr/bin/env bash
# One process on each host, over ssh and without MPI. All hosts have the program, and reach the first one by its name:
#   ssh_loop.sh node1 node2 -- all_reduce_perf -g 8 -b 8 -e 8G -f 2
# The exit code is that of the first host whose process failed, in their order.
set -euo pipefail

hosts=()
while (($# > 0)) && [[ $1 != -- ]]; do
  hosts+=("$1")
  shift
done
if ((${#hosts[@]} == 0 || $# < 2)); then
  echo "usage: ssh_loop.sh HOST... -- PROGRAM [ARGUMENT...]" >&2
  exit 255
fi
shift
printf -v command ' %q' "$@"

place="WORLD_SIZE=${#hosts[@]} MASTER_ADDR=${hosts[0]#*@} MASTER_PORT=${MASTER_PORT:-29500}"
pids=()
for rank in "${!hosts[@]}"; do
  ssh -o BatchMode=yes "${hosts[rank]}" "RANK=$rank $place exec$command" </dev/null &
  pids+=($!)
done
code=0
for pid in "${pids[@]}"; do
  status=0
  wait "$pid" || status=$?
  ((code != 0)) || code=$status
done
exit "$code"
