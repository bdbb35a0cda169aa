#!/usr/bin/env bash
# One format, so that diffs show only what was meant; `make format` applies it.
set -uo pipefail

mapfile -t files < <(git ls-files -co --exclude-standard '*.h' '*.cpp' '*.cu' '*.cuh')
unformatted=$(clang-format --dry-run --Werror "${files[@]}" 2>&1 | sed -n 's/^\([^:]*\):[0-9]*:.*error.*/\1/p' | sort -u)
if [[ -n "$unformatted" ]]; then
  echo "Not formatted (make format):"
  echo "$unformatted"
  exit 1
fi
