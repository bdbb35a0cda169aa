#!/usr/bin/env bash
# Tries the recipe of docs/development/how_to_add.md for a new collective: copies the tree, derives one more from
# all_gather, builds its benchmark, and sees that its data are right on 1 to 4 ranks and that a fault in them is found.
# By hand:
#   scripts/try_collective.sh [FOLDER]        a new folder (build/try_collective); about as long as `make all_reduce_perf`
# In the repository's own folder ccache knows what did not change.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly name=one_more_gather constant=OneMoreGather
folder=${1:-build/try_collective}
if [[ -e $folder ]]; then
  echo "try_collective.sh: $folder exists; remove it or name another folder" >&2
  exit 255
fi
mkdir -p "$folder"
git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- --create | tar --extract --directory="$folder"
cd "$folder"

# The list, which the build, the tests and the scripts read.
sed -i "s/^  COLLECTIVE(all_reduce,/  COLLECTIVE($name, $constant) \\\\\n&/" src/collectives/collective_list.h
# What it means: a constant after the last one.
meaning=src/collectives/equal_collectives.cpp
derived=$(sed -n '/^const Collective kAllGather{/,/^};/p' "$meaning" |
  sed "s/kAllGather/k$constant/; s/CollectiveId::all_gather/CollectiveId::$name/; s/\"all_gather\"/\"$name\"/")
sed -i '$d' "$meaning"
printf '%s\n\n}  // namespace busbar\n' "$derived" >>"$meaning"
# How the libraries run it: every switch that -Werror=switch would name.
mapfile -t switches < <(grep -rl 'case CollectiveId::all_gather:' src)
sed -i "s/^\( *\)case CollectiveId::all_gather:/&\n\1case CollectiveId::$name:/" "${switches[@]}"
# And a function of its name where the list itself makes the switch.
sed -i "s/^void barrier(const MpiCall/void $name(const MpiCall\& c) { all_gather(c); }\n\n&/" \
  src/common/backends/mpi/library/mpi_collectives.cpp
sed -i "s/^  void all_gatherv(void/  void $name(void* send, void* recv) { all_gather(send, recv); }\n\n&/" \
  src/common/backends/gloo/library/gloo_module.cpp
printf 'one more collective: collective_list.h, equal_collectives.cpp, functions of its name and the switches of\n'
printf '  %s\n' "${switches[@]}"

make --no-print-directory configure BUILDDIR=build
cmake --build build --parallel "${JOBS:-$(nproc)}" --target "${name}_perf"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
run() { mpirun -n "$1" --oversubscribe "build/${name}_perf" --backend mpi -b 8 -e 64K -f 8 -n 2 -d all -T 60 "${@:2}" </dev/null; }

for nranks in 1 2 3 4; do
  run "$nranks" >table.txt
  grep -q '^# Out of bounds values : 0 OK' table.txt || { cat table.txt; exit 1; }
  echo "$nranks ranks: $(grep -cE '^ +[0-9]' table.txt) rows, 0 wrong"
done
# Of one size that every rank has data of: a fault in an empty operation is nothing.
got=0
run 3 -b 64K -d float -m 1 -n 1 -w 0 --inject rank=1,op=3,kind=flip >table.txt 2>&1 || got=$?
if ((got == 0)) || ! grep -q '^# Out of bounds values : [1-9][0-9]* FAILED' table.txt; then
  cat table.txt
  echo "try_collective.sh: a flipped bit was not found (exit code $got)" >&2
  exit 1
fi
echo "a flipped bit: found, exit code $got"
