#!/usr/bin/env bash
# The bugs this catches, without a GPU: NCCL calls in the wrong group (a hypercube step that forwards what has not arrived,
# a window registered rank after rank: a hang), wrong offsets or roots, threads that share what is one lane's, and exit
# codes of machines whose GPUs do not suffice. Arithmetic and speed are NCCL's own: they need a GPU (gpu_check.sh).
set -uo pipefail

readonly test_dir=$1/test
if [[ ! -x $test_dir/fake_gpu_perf ]]; then
  echo "SKIP: built without CUDA and NCCL headers"
  exit 77
fi
export NCCL_HOME=$test_dir/fake_nccl
failures=0

mapfile -t collectives < <(sed -nE 's/^ +COLLECTIVE\(([a-z_0-9]+),.*/\1/p' "$(dirname "$0")/../../src/collectives/collective_list.h")
if ((${#collectives[@]} == 0)); then
  echo "FAILED: no collectives in collective_list.h"
  exit 1
fi

# expect CODE COLLECTIVE OPTIONS...
expect() {
  local want=$1 got=0 out
  shift
  out=$(timeout -k 5 60 "$test_dir/fake_gpu_perf" "$@" -T 30 2>&1) || got=$?
  if ((got != want)); then
    printf 'FAILED with %d instead of %d: %s\n%s\n' "$got" "$want" "$*" "$out"
    failures=$((failures + 1))
  fi
  last=$out
}

# expect_text TEXT [absent]
expect_text() {
  local got=absent
  if grep -qF -e "$1" <<<"$last"; then got=there; fi
  if [[ $got != "${2:-there}" ]]; then
    printf 'FAILED: "%s" is %s in:\n%s\n' "$1" "$got" "$last"
    failures=$((failures + 1))
  fi
}

number=0
for c in "${collectives[@]}"; do
  number=$((number + 1))
  for options in "-g 4" "-t 2 -g 2" "-t 4 -p 1 -m 3" "-g 2 -m 3 -G 2" "-g 4 -R 2 -I 1 -z 3" "-t 2 -R 1 -M 1 -C 1 -y 1"; do
    number=$((number + 1))
    # A third of them, others for the next collective; `make test-more` runs all.
    if [[ -z ${BUSBAR_MORE:-} ]] && ((number % 3 != 0)); then continue; fi
    # shellcheck disable=SC2086  # several options in one text
    expect 0 "$c" $options -b 64 -e 64K -f 32 -n 2 -d int32
  done
done
for c in all_reduce reduce_scatter reduce reduce_scatterv; do
  expect 0 "$c" -g 3 -b 4K -e 4K -n 1 -d all -o all -r all
done
for c in broadcast gather scatter alltoallv all_gatherv gatherv scatterv; do
  expect 0 "$c" -g 3 -b 4K -e 4K -n 1 -d all -r all
done
# Blocks of nothing at either end and in the middle.
matrix=$(mktemp)
printf '0 64 0\n1600 0 0\n0 3200 16\n' >"$matrix"
for c in alltoallv all_gatherv reduce_scatterv gatherv scatterv; do
  NCCL_TESTS_ALLTOALLV_MATRIX_FILE=$matrix expect 0 "$c" -g 3 -b 8 -e 8 -n 2 -d int32,int8 -r all
  NCCL_TESTS_ALLTOALLV_SPREAD=0 expect 0 "$c" -t 3 -b 4K -e 4K -n 2 -m 2
done
rm -f "$matrix"
expect 0 hypercube -g 3 -b 4K -e 4K

# Both halves of these are timed, from the receive buffer to the receive buffer in place, and that one is not checked.
report=$(mktemp -u --suffix .json)
for c in alltoall alltoallv sendrecv; do
  expect 0 "$c" -g 3 -b 4K -e 64K -f 16 -n 2 -d int32 -I 1 -J "$report"
  python3 - "$report" "$c" <<'EOF' || failures=$((failures + 1))
import json, sys
for row in json.load(open(sys.argv[1], encoding="utf-8"))["results"]:
    half = row["in_place"]
    good = half["time"] > 0 and half["bus_bw"] > 0 and half["nwrong"] is None and row["out_of_place"]["nwrong"] == 0
    if not good or not row["in_place_per_iter"]["times_us"]:
        sys.exit(f"FAILED: {sys.argv[2]} in place: {half}")
EOF
  rm -f "$report"
  expect 0 "$c" -g 2 -b 4K -e 4K --stat --max-time 0.5
  expect 0 compare "$c" -t 2 --sizes 1K -d int32 --max-time 2 --placement in --vary nccl.ctas=2
  expect_text "0 WRONG"
done
expect 0 alltoall -g 2 -b 4K -e 4K
if ! sed -n 2p <<<"$last" |
  grep -qE '^# nccl-tests version 2\.19\.6 nccl-headers=[0-9]{5} nccl-library=22809 \(format of; printed by busbar\)$'; then
  printf 'FAILED: the second line over NCCL in:\n%s\n' "$last"
  failures=$((failures + 1))
fi

# The oldest NCCL: no alltoall, gather, scatter, windows, device API, shrink and types of 8 bits.
newest=$NCCL_HOME
export NCCL_HOME=$test_dir/fake_nccl_old
for c in all_reduce alltoall gather scatter; do
  expect 0 "$c" -g 3 -b 64 -e 64K -f 32 -n 2 -d int32 -R 1
  expect 0 "$c" -t 2 -b 4K -e 4K -n 2 -m 2
done
expect 0 scatter -g 2 -b 4K -e 4K -J "$report"
last=$(cat "$report")
expect_text "NCCL has scatter from 2.28 on, and this is 2.19.4: sends and receives, in a group"
rm -f "$report"
expect 0 all_gather -g 2 -b 4K -e 4K -n 1 -d f8e4m3,int32
expect_text "NCCL has f8e4m3 from 2.24.0 on, and this is 2.19.4"
expect 5 all_reduce -g 2 -b 4K -e 4K -R 2
expect_text "-R 2 needs the windows of NCCL 2.27.0 and newer, and this is 2.19.4"
expect 5 all_reduce -g 2 -b 4K -e 4K -R 2 -D 1
expect 0 comm -g 2 -n 2
expect_text "NCCL 2.19.4 has no ncclCommShrink, which came with 2.27"
NCCL_HOME=$newest

# Pairs: every pattern and round over lanes and groups; a communicator of its own per variant.
for options in "-g 4" "-t 2 -g 2" "-t 4 -m 3" "-g 2 -G 2" "-t 2 -R 2 --stat --max-time 0.5"; do
  for pattern in "--pattern latency" "--pattern oneway --window 5" "--pattern both --window 64 --pairs all"; do
    # shellcheck disable=SC2086  # several options in one text
    expect 0 pingpong $options $pattern -b 64 -e 64K -f 32 -n 2 -d int32
  done
done
expect 0 pingpong -g 3 -b 4K -e 4K
expect_text "pingpong needs an even number of ranks, so that each has a peer, not 3"
expect 0 compare pingpong -t 2 --sizes 1K -d int32 --max-time 2 --pattern both --window 3 --pairs all --vary nccl.ctas=2
expect_text "pingpong int32 round 0"

# What NCCL cannot do on one rank is skipped with the reason; the rest of the sweep runs.
for c in all_reduce reduce_scatter reduce; do
  expect 0 "$c" -g 1 -b 4K -e 4K -n 1 -d f8e4m3,f8e5m2 -o all
  for dtype in f8e4m3 f8e5m2; do
    for op in avg mulsum; do expect_text "NCCL has no $op of $dtype on one rank"; done
  done
done

FAKE_CAPABILITY=80 expect 0 all_reduce -g 2 -b 4K -e 4K -n 1 -d f8e4m3
expect_text "NCCL reduces f8e4m3 from compute capability 9.0 on, and the oldest GPU here has 8.0"

FAKE_CAPABILITY=70 expect 5 all_reduce -g 2 -b 4K -e 4K -n 1
expect_text "this build has no kernels for GPU 0, of compute capability 7.0"
expect_text "NVCC_GENCODE=-gencode=arch=compute_70,code=sm_70"

# One process per GPU (compute mode Exclusive_Process), and one of them has it.
held=$(mktemp -d)
FAKE_EXCLUSIVE=$held expect 0 all_reduce -g 2 -b 4K -e 4K -n 1
exec {lock}>"$held/1"
flock "$lock"
FAKE_EXCLUSIVE=$held expect 5 all_reduce -g 2 -b 4K -e 4K -n 1
expect_text "GPU 1 takes no further process: its compute mode is Exclusive_Process"
exec {lock}>&-
rm -rf "$held"

# NCCL's threads beside ours on one CPU, as Open MPI binds one or two ranks.
if (($(nproc) > 1)); then
  last=$(taskset -c 0 "$test_dir/fake_gpu_perf" all_reduce -g 2 -b 4K -e 4K -n 1 2>&1)
  expect_text "# a process is bound to 1 CPU, which NCCL's threads need too"
fi

# A broken communicator, and its peers' word of it or silence, until all are aborted.
for how in "" :silent; do
  FAKE_NCCL_BREAKS=1:7$how expect 3 all_reduce -t 2 -b 4K -e 4K
  expect_text "NCCL: rank 1 on GPU 1: unhandled system error"
done

# A communicator that is never destroyed ends at the watchdog's limit; the table is whole.
FAKE_NCCL_ENDLESS=1 expect 4 all_reduce -g 2 -b 4K -e 4K
expect_text "freeing the communicators"
expect_text "Collective test concluded"

# Copy engines over windows, which take no NULL stream.
for c in all_gather alltoall gather scatter; do expect 0 "$c" -g 2 -b 4K -e 4K -n 1 -x 2 -R 2; done
expect 5 all_gather -g 2 -b 4K -e 4K -n 1 -x 2 -R 2 -y 1
expect_text "copy engines (-x 2 over windows, -R 2) take no NULL stream"

# Device API kernels (-D): over windows, with communicators of their own that go before NCCL's; in every order of lanes.
for c in all_reduce alltoall; do
  for options in "-D 1 -g 4" "-D 2 -t 2 -g 2 -u 3" "-D 1 -g 2 -m 3 -G 2 -V 64" "-D 2 -t 4 -I 1 -y 1" "-D 1 -g 1" \
    "-D 2 -g 2 --stat --max-time 0.5"; do
    # shellcheck disable=SC2086  # several options in one text
    expect 0 "$c" $options -R 2 -b 64 -e 64K -f 32 -n 2 -d int32
  done
done
expect_text "# device API kernels: LSA_VECTOR, 16 blocks of 512 threads"
expect 0 all_reduce -g 3 -D 4 -R 2 -b 4K -e 4K -n 1 -d all -o all --show-algo
for text in "device API kernels: MULTIMEM_VECTOR" "device API kernels (-D) add, they have no max" \
  "device API kernels (-D) do not add f8e4m3" "switches (-D 4) do not add int8"; do expect_text "$text"; done
for d in 3 4; do
  FAKE_NCCL_GIN=1 expect 0 alltoall -g 2 -D $d -R 2 -b 4K -e 4K -n 1 -d all
  expect 5 alltoall -g 2 -D $d -R 2 -b 4K -e 4K -n 1
  expect_text "-D $d needs a network that GPUs drive (GIN)"
  FAKE_NCCL_NO_MULTIMEM=1 expect 5 all_reduce -g 2 -D $d -R 2 -b 4K -e 4K -n 1
  expect_text "-D $d needs switches that add (multimem)"
done
# Kernels that were compiled with another header, and a library that is newer than the header.
FAKE_DEVICE_HEADER=22700:192 expect 5 all_reduce -g 2 -D 1 -R 2 -b 4K -e 4K -n 1
expect_text "this build's kernels were compiled with the header of NCCL 2.27.0"
FAKE_DEVICE_HEADER=22700:192 expect 0 all_reduce -g 2 -R 2 -b 4K -e 4K -n 1
FAKE_NCCL_HOST=2 expect 5 all_reduce -g 4 -D 1 -R 2 -b 4K -e 4K -n 1
expect_text "and rank 0 reaches 2 of 4"
# GPUs of one host that do not load and store in each other's memory: NCCL refuses at the end of all, and makes windows
# that are none (from 2.29 on it says so).
FAKE_NCCL_ASYMMETRIC=1 expect 5 alltoall -g 4 -D 2 -R 2 -b 4K -e 4K -n 1
expect_text "-D 2 needs GPUs that all load and store in each other's memory: NCCL: invalid usage"
FAKE_NCCL_ASYMMETRIC=1 expect 0 all_reduce -g 2 -R 2 -b 4K -e 4K -n 2
NCCL_HOME=$test_dir/fake_nccl_grows FAKE_NCCL_ASYMMETRIC=1 expect 0 all_reduce -g 2 -R 2 -b 4K -e 4K -n 2
expect_text "# -R 2: NCCL makes no windows here, because"
NCCL_HOME=$test_dir/fake_nccl_grows expect 0 all_reduce -g 2 -R 2 -b 4K -e 4K -n 2
expect_text "NCCL makes no windows" absent
expect 5 all_reduce -g 2 -D 1 -R 2 -V 65 -b 4K -e 4K -n 1
expect_text "-V 65: the blocks wait for each other, and GPU 0 runs 64 of them at once"
expect 5 all_gather -g 2 -D 1 -R 2 -b 4K -e 4K -n 1
expect_text "device API kernels (-D) run only in all_reduce_perf and alltoall_perf"
expect 5 all_reduce --ranks-per-gpu 2 -D 1 -R 2 -b 4K -e 4K -n 1
expect_text "those of one GPU run in turn"
# Beside NCCL's own, each over windows of its own communicator on the same buffers.
expect 0 compare all_reduce -t 2 -g 2 -R 2 --sizes 1K,64K -d int32 --max-time 2 --vary device=1,2
expect_text "# n/a device=" absent
expect_text "the winners as settings of every launch" absent
expect 255 compare all_reduce -t 2 -R 2 --sizes 1K --vary device=1 --emit-env file
expect_text "no environment variable sets device"
expect 0 compare alltoall -t 2 -R 2 --sizes 1K -d int32 --max-time 2 --vary device=2,3
expect_text "# n/a device=3, all sizes: -D 3 needs a network that GPUs drive (GIN)"
expect 255 compare all_reduce -g 2 --sizes 1K --vary device=1
expect_text "device kernels work in symmetric windows: add -R 2"
expect 5 compare all_reduce,alltoall -g 2 -D 1 -R 2 --sizes 1K --vary nccl.ctas=2
expect_text "device API kernels (-D) run only in all_reduce_perf and alltoall_perf"

# Ranks with different versions would wait for each other for ever.
got=0
last=$(timeout -k 5 60 "${BUSBAR_MPIRUN:-mpirun}" -n 1 "$test_dir/fake_gpu_perf" all_reduce -b 8 -e 8 : \
  -n 1 env FAKE_NCCL_VERSION=23007 "$test_dir/fake_gpu_perf" all_reduce -b 8 -e 8 2>&1) || got=$?
((got == 5)) || last="ended with $got instead of 5: $last"
expect_text "rank 1 on "
expect_text "NCCL 2.30.7 is loaded here, and 2.28.9 on rank 0"

# Settings that nccl-tests has: a rank of sendrecv has two peers, which NCCL knows from 2.30 on.
FAKE_NCCL_VERSION=23007 FAKE_NCCL_COUNTS=1 expect 0 sendrecv -g 2 -b 8 -e 8
expect_text "nvlinkCentricSched 1, maxP2pPeers 2"
FAKE_NCCL_VERSION=23007 FAKE_NCCL_COUNTS=1 expect 0 alltoall -g 2 -b 8 -e 8
expect_text "maxP2pPeers 2" absent
FAKE_NCCL_COUNTS=1 expect 0 all_reduce -g 2 -b 8 -e 8
expect_text "nvlinkCentricSched 1"
expect_text "library=NCCL 2.28.9"
expect_text "device  1 [0000:a1:00] Fake GPU"

# A communicator per variant on the same GPUs and lanes; what has no kernel is not tried, what cannot be varied said.
expect 0 compare all_reduce -t 2 -g 2 --sizes 1K -d int32 --max-time 2 --vary NCCL_ALGO=Ring,PAT --vary nccl.ctas=2
expect_text "# n/a PAT/ctas=2, all sizes: NCCL has no PAT kernel for all_reduce"
expect_text "# cells: 1 compared with the default"
# Each variant is a communicator more, and leaves less for buffers.
FAKE_NCCL_COMM_MIB=1024 expect 0 compare all_reduce -t 2 --sizes 1G,1900M --dry-run --vary nccl.ctas=2,4
expect_text "Reducing maxBytes to 16"
expect_text "- 3 communicators of the variants, 1 GiB each = 3 GiB"
FAKE_NCCL_COMM_MIB=1024 expect 0 compare all_reduce -t 2 --sizes 1G,1900M --dry-run --vary nccl.ctas=2
expect_text "# all_reduce: 2 rows, 2 variants"
# What NCCL refuses at its first call is n/a, the default as well, with which all else would be compared.
FAKE_NCCL_REFUSES=1 expect 0 compare all_reduce -t 2 --sizes 1K,4K -d int32 --max-time 2 --vary nccl.ctas=2
expect_text "# n/a default, all sizes: rank 0 on"
expect 255 compare all_reduce -g 2 --sizes 1K --vary ompi.algorithm=ring
expect_text "ompi.algorithm is MPI's, and this job measures NCCL"
expect 255 compare all_reduce -g 2 --sizes 1K --vary NCCL_BUFFSIZE=4M
expect_text "once per process"

export FAKE_GPUS=2
expect 5 all_reduce -g 3 -b 8 -e 8
expect_text "3 ranks but 2 usable GPUs"
expect 5 all_reduce -g 2 -b 8 -e 8 --nonblocking
expect_text "NCCL's calls never block"
expect 5 all_reduce -g 1 -b 8 -e 8 -y 1 -G 1
expect 5 all_reduce -g 1 -b 8 -e 8 -z 1 -G 1
NCCL_TESTS_DEVICE=1 expect 5 all_reduce -g 2 -b 8 -e 8
expect_text "NCCL_TESTS_DEVICE"
NCCL_TESTS_DEVICE=1 expect 0 all_reduce -g 1 -b 8 -e 8
expect_text "device  1 [0000:a1:00]"
expect 0 all_reduce --backend mpi -b 8 -e 8
expect_text "host memory"
export FAKE_GPUS=0
expect 5 all_reduce --backend nccl -b 8 -e 8
expect_text "no NVIDIA GPU"

exit $((failures > 0))
