#!/usr/bin/env bash
# Runs every lint, says how long each took, and fails if one failed. `lint-all.sh BUILDDIR [NAME...]`; BUILDDIR is
# configured (compile_commands.json).
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

builddir=$1
shift
names=("$@")
if ((${#names[@]} == 0)); then
  names=(file_names machine_paths size rooms one_definition remarks tests docs words shell clang_format headers clang_tidy)
fi

failed=()
for name in "${names[@]}"; do
  started=$SECONDS
  script=(scripts/lint/"$name".*)
  if "${script[0]}" "$builddir"; then
    verdict=ok
  else
    verdict=FAILED
    failed+=("$name")
  fi
  printf '%-14s %s (%d s)\n' "$name" "$verdict" $((SECONDS - started))
done

if ((${#failed[@]} > 0)); then
  echo "lint failed: ${failed[*]}"
  exit 1
fi
echo "lint passed"
