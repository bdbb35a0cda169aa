#!/usr/bin/env bash
# A file is found by its name alone, so no two sources may share one, nor two headers a type. (The two test runners are
# both main.cpp.)
set -euo pipefail

duplicates=$(git ls-files -co --exclude-standard 'src/*' 'test/*' ':!test/frozen/recorded' ':!test/frozen/expect' \
  ':!test/logs/real' |
  grep -vE '/(main\.cpp|CMakeLists\.txt|README\.md|__init__\.py)$' |
  sed 's|.*/||' | sort | uniq -d)
if [[ -n "$duplicates" ]]; then
  echo "More than one file is called:"
  echo "$duplicates"
  exit 1
fi

# One type, one name: the linker keeps one of two definitions of busbar::Name and says nothing.
types=$(git ls-files -co --exclude-standard 'src/*.h' | xargs grep -hoP '^(struct|class|enum class) \K\w+(?=( final)?( :.*)? \{)' | sort | uniq -d)
if [[ -n "$types" ]]; then
  echo "More than one header defines a type called:"
  echo "$types"
  exit 1
fi
