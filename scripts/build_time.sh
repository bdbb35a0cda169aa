#!/usr/bin/env bash
# How long a newcomer waits: the build of all_reduce_perf from nothing, of all programs and of the tests, and of one
# benchmark after one file was edited; then the ten dearest objects. Without ccache, in a folder of its own, with the
# machine otherwise idle: `scripts/build_time.sh [FOLDER]`. Seconds of the clock, and of CPU in brackets.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-$(mktemp -d)/build}
jobs=$(nproc)
export CCACHE_DISABLE=1

TIMEFORMAT='%R (%U + %S CPU)'
measure() {  # WORDS COMMAND...
  local words=$1
  shift
  local spent
  spent=$({ time "$@" >"$folder/build_time.log" 2>&1; } 2>&1) || { tail -20 "$folder/build_time.log"; exit 1; }
  printf '%-58s %s s\n' "$words" "$spent"
}
target() { cmake --build "$folder" --parallel "$jobs" --target "$@"; }

mkdir -p "$folder"
echo "$jobs cores, load $(cut -d' ' -f1 /proc/loadavg), $(c++ --version | head -1)"
measure "configure" env CMAKE_GENERATOR=Ninja cmake -B "$folder" --preset release
measure "all_reduce_perf from nothing" target all_reduce_perf
measure "all programs after that" target programs
measure "tests after that" cmake --build "$folder" --parallel "$jobs"
measure "what people measure with, after that" target benches
# As who edits has it: each file by itself. Its first build is not what is measured.
single=$folder-single
env CMAKE_GENERATOR=Ninja cmake -B "$single" --preset release -DBUSBAR_UNITY=OFF >"$folder/build_time.log" 2>&1
cmake --build "$single" --parallel "$jobs" --target all_reduce_perf >>"$folder/build_time.log" 2>&1
for file in src/common/measure/timed_loop.cpp src/common/output/table.cpp; do
  for kind in "$single" "$folder"; do
    touch "$file"
    words="$file edited, all_reduce_perf again"
    [[ $kind == "$folder" ]] && words+=", BUSBAR_UNITY on"
    measure "$words" cmake --build "$kind" --parallel "$jobs" --target all_reduce_perf
  done
done
echo "The ten dearest objects [s]:"
awk 'NR > 1 && $4 ~ /\.o$/ { printf "%8.1f  %s\n", ($2 - $1) / 1000, $4 }' "$folder/.ninja_log" | sort -rn | head -10
