#!/usr/bin/env bash
# The long experiments of docs/evidence (performance.md, locate_rates.md, statistics.md): `run-experiments.sh BUILDDIR
# [NAME...]` with the names below, by default all of them that end within about half an hour on a quiet machine. `peers`
# and `comparisons` take hours, `field` and `nested` one each, `healthy` six minutes; they go on with
# BUILDDIR/NAME.jsonl. OSU and IMB name the folders of the peers. Nothing here passes or fails by a figure.
set -euo pipefail

builddir=$1
shift
here=$(cd "$(dirname "$0")" && pwd)/experiments
export BUSBAR_MPIRUN=${BUSBAR_MPIRUN:-mpirun}

names=("$@")
if ((${#names[@]} == 0)); then
  names=(crossover foreign_cpu acceptance locate statistics)
fi

for name in "${names[@]}"; do
  options=()
  case $name in
    crossover | foreign_cpu) ;;
    comparisons | field | healthy | nested) options=(--rows "$builddir/$name.jsonl") ;;
    peers) options=(${OSU:+--osu "$OSU"} ${IMB:+--imb "$IMB"} --rows "$builddir/peers.jsonl") ;;
    acceptance | locate | statistics)
      echo
      echo "== $name"
      case $name in
        acceptance | statistics) "$builddir/test/${name}_tables" ;;
        locate) "$builddir/test/locate_simulation" ;;
      esac
      continue
      ;;
    *)
      echo "no such experiment: $name; there are: crossover foreign_cpu comparisons field healthy nested peers acceptance locate statistics" >&2
      exit 2
      ;;
  esac
  echo
  echo "== $name"
  python3 "$here/$name.py" "$builddir" "${options[@]}"
done
