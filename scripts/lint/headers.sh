#!/usr/bin/env bash
# A header that compiles only after others breaks whoever includes it first: each is compiled alone.
set -euo pipefail

log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! cmake --build "$1" --parallel --target self_contained_headers -- -k 0 >"$log" 2>&1; then
  grep -vE '^\[[0-9]+/[0-9]+\] Building' "$log"
  exit 1
fi
