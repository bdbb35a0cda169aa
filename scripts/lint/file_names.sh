#!/usr/bin/env bash
# A file is found by its name alone, so no two sources may share one. (The two test runners are both main.cpp.)
set -euo pipefail

duplicates=$(git ls-files -co --exclude-standard 'src/*' 'test/*' | grep -vE '/(main\.cpp|CMakeLists\.txt|README\.md|__init__\.py)$' |
  sed 's|.*/||' | sort | uniq -d)
if [[ -n "$duplicates" ]]; then
  echo "More than one file is called:"
  echo "$duplicates"
  exit 1
fi
