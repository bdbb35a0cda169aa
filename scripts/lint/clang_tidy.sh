#!/usr/bin/env bash
# Bugs that compilers accept; .clang-tidy says which. Only src/: the tests' macros drown everything else.
set -uo pipefail

mapfile -t files < <(git ls-files -co --exclude-standard 'src/*.cpp')
# A file that is not built here (the NCCL backend without CUDA) has no compile command and is left out.
known=()
for file in "${files[@]}"; do
  if grep -qF "\"$PWD/$file\"" "$1/compile_commands.json"; then
    known+=("$file")
  fi
done

if ((${#known[@]} < ${#files[@]} / 2)); then
  echo "only ${#known[@]} of ${#files[@]} files have a compile command in $1: is it configured with -DBUSBAR_UNITY=OFF?"
  exit 1
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
printf '%s\n' "${known[@]}" | xargs -P "$(nproc)" -n 2 clang-tidy --quiet -p "$1" >"$log" 2>/dev/null
status=$?
# A finding in a header is repeated by every file that includes it.
awk '/(error|warning): / {show = !seen[$0]++} show' "$log"
exit "$status"
