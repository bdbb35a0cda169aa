#!/usr/bin/env bash
# Jobs without MPI on virtual hosts, by RANK and WORLD_SIZE and by a plain srun; prints what came out of each.
#   scripts/vcluster/vcluster sandbox scripts/experiments/launch_hosts.sh [BUILD]      # VC_LIMIT=900: some minutes
# docs/evidence/launch.md has a run of it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${1:-build}
export PATH=$PWD/scripts/vcluster:$PATH
out=/run/vcluster/launch_hosts
small=(--backend gloo -b 8 -e 64K -f 64 -n 3 -w 1)

start() { # HOSTS RANKS ADDRESS NAME=VALUE... -- PROGRAM...: RANKS processes on each host, without waiting for them
  local hosts=$1 ranks=$2 place=(MASTER_ADDR="$3" WORLD_SIZE=$(($1 * $2)) MASTER_PORT=29500) host
  shift 3
  while [[ $1 != -- ]]; do
    place+=("$1")
    shift
  done
  shift
  rm -rf "$out"
  mkdir "$out"
  jobs=()
  for ((host = 0; host < hosts; host++)); do
    # shellcheck disable=SC2016  # expanded by the inner shell
    vcluster exec "node$host" env "${place[@]}" bash -c '
      first=$1 ranks=$2 code=0 pids=()
      shift 2
      for ((i = 0; i < ranks; i++)); do
        RANK=$((first + i)) "$@" & pids+=($!)
      done
      for pid in "${pids[@]}"; do wait "$pid" || code=$?; done
      exit "$code"' loop $((host * ranks)) "$ranks" "$@" >"$out/$host.out" 2>"$out/$host.err" &
    jobs+=($!)
  done
}

finish() { # WHAT: waits, and shows exit codes, rows and messages
  local job status codes=()
  for job in "${jobs[@]}"; do
    status=0
    wait "$job" || status=$?
    codes+=("$status")
  done
  echo "== $1: exit codes ${codes[*]}, $(($(date +%s) - begun)) s"
  grep -E '^# [0-9]+ processes|^ ' "$out/0.out" || true
  # Killed is the shell's word for what was killed here.
  cat "$out"/*.err | grep -E '^busbar: [^ ]|^ompi|^mpi' | cut -c 1-200 || true
}

job() { # WHAT, then as start
  local what=$1
  shift
  begun=$(date +%s)
  start "$@"
  finish "$what"
}

perf=("$build/all_reduce_perf" "${small[@]}")
vcluster up 8 none
job "8 hosts x 32 ranks" 8 32 node0 -- "${perf[@]}" -T 170

begun=$(date +%s)
start 8 4 node0 -- "$build/all_reduce_perf" --backend gloo -b 1K -e 1K -n 20 -w 1 -N 0 -T 60
sleep 8
kill -KILL "$(vcluster pids node5 all_reduce_perf | head -n 1)"
finish "8 hosts x 4 ranks, one killed after 8 s"

job "no MASTER_PORT" 8 4 node0 MASTER_PORT= -- "${perf[@]}"
vcluster down

# Two networks; on eth0 nobody connects.
vcluster up 3 1gbit
for host in node0 node1 node2; do
  vcluster nic "$host"
  vcluster nic_block "$host" eth0
done
job "eth0 closed, MASTER_ADDR on eth1" 3 2 198.18.8.1 -- "${perf[@]}" -T 20
job "the same with NCCL_SOCKET_IFNAME=eth1" 3 2 198.18.8.1 NCCL_SOCKET_IFNAME=eth1 -- "${perf[@]}" -T 20
job "MASTER_ADDR on eth0" 3 2 198.18.7.1 NCCL_SOCKET_IFNAME=eth1 -- "${perf[@]}" -T 20
vcluster exec node0 nft flush ruleset
job "eth0 open on node0 alone, MASTER_ADDR on it, NCCL_SOCKET_IFNAME=eth1" 3 2 198.18.7.1 NCCL_SOCKET_IFNAME=eth1 -- \
  "${perf[@]}" -T 20
job "the same without NCCL_SOCKET_IFNAME" 3 2 198.18.7.1 -- "${perf[@]}" -T 20
job "an interface that is not there" 3 2 198.18.8.1 NCCL_SOCKET_IFNAME=eth9 -- "${perf[@]}" -T 20
vcluster down

vcluster up 3 1gbit
vcluster slurm start 2
echo "== packaging/slurm/plain_srun.sbatch, 3 nodes, 2 tasks on each"
vcluster salloc -N 3 --ntasks-per-node=2 packaging/slurm/plain_srun.sbatch "${perf[@]}" 2>&1 |
  grep -E '^# [0-9]+ processes|^ |busbar: ' || true
vcluster slurm stop
