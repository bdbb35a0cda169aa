#!/usr/bin/env bash
# Measures the suite itself: `run-bench.sh BUILDDIR [NAME...]` with the names below, all of them by default, within a few
# minutes. Nothing here passes or fails by a figure; docs/evidence/performance.md says what they mean and which to expect.
set -euo pipefail

builddir=$1
shift
programs=$builddir/test
here=$(cd "$(dirname "$0")/.." && pwd)
export BUSBAR_MPIRUN=${BUSBAR_MPIRUN:-mpirun} OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe

names=("$@")
if ((${#names[@]} == 0)); then
  names=(data reduce loop flight session logs workload readers acceptance memory library)
fi

on_ranks() {
  timeout -k 5 300 "$BUSBAR_MPIRUN" -n "$1" "${@:2}" </dev/null
}

measure_data() { timeout -k 5 600 "$programs/data_bench"; }

measure_reduce() { timeout -k 5 300 "$programs/reduce_bench" --benchmark_min_time=0.1; }

measure_loop() {
  timeout -k 5 300 "$programs/loop_overhead_bench"
  on_ranks 2 "$programs/loop_overhead_bench"
  python3 "$here/test/bench/loop_bench.py" "$builddir"
}

measure_flight() { timeout -k 5 300 "$programs/flight_record_bench"; }

measure_session() { python3 "$here/test/bench/session_bench.py" "$builddir"; }

measure_logs() { timeout -k 5 300 "$programs/log_reader_bench"; }

measure_workload() { timeout -k 5 300 "$programs/workload_reader_bench"; }

measure_readers() { python3 "$here/test/bench/readers_bench.py" "$builddir"; }

measure_acceptance() { timeout -k 5 300 "$programs/acceptance_bench"; }

measure_memory() { python3 "$here/test/bench/memory_bench.py" "$builddir"; }

# Other rank counts take other algorithms; needs 5 GiB.
measure_library() {
  for nranks in 2 3 8 16; do
    on_ranks "$nranks" "$programs/library_temporaries_bench" 64
  done
}

echo "machine: $(lscpu | sed -n 's/^Model name: *//p' | head -1), $(nproc) cores," \
  "last-level cache $(lscpu -C=NAME,ALL-SIZE 2>/dev/null | tail -1 | awk '{print $2}')"
echo "load: $(cut -d ' ' -f 1-3 /proc/loadavg) (other work spoils the figures)"
for name in "${names[@]}"; do
  if ! declare -F "measure_$name" >/dev/null; then
    echo "no such measurement: $name; there are: data reduce loop flight session logs workload readers acceptance memory library" >&2
    exit 2
  fi
  echo
  echo "== $name"
  "measure_$name"
done
