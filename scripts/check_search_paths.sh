#!/usr/bin/env bash
# Fails where an ELF file below the given folders looks for libraries in a place that depends on the working directory:
# an empty or relative element of its RPATH or RUNPATH, or a needed library named by a relative path. Anybody who can
# write there would run code as whoever starts the program. `check_search_paths.sh FOLDER...`
set -euo pipefail

is_elf() { [[ $(head -c 4 "$1" | tr -d '\0') == $'\x7fELF' ]]; }

# $ORIGIN is the file's own folder, ${ORIGIN} too.
unsafe_entries() {
  readelf -d "$1" 2>/dev/null | awk -F'[][]' '
    /\((RPATH|RUNPATH)\)/ {
      n = split($2, folders, ":")
      for (i = 1; i <= n; ++i) if (folders[i] !~ /^(\/|\$ORIGIN|\$\{ORIGIN\})/) { print "search path [" $2 "]"; next }
    }
    /\(NEEDED\)/ && $2 ~ /\// && $2 !~ /^\// { print "needed library [" $2 "]" }'
}

looked_at=0
failed=0
while IFS= read -r -d '' file; do
  is_elf "$file" || continue
  looked_at=$((looked_at + 1))
  while IFS= read -r entry; do
    echo "$file: $entry depends on the working directory" >&2
    failed=1
  done < <(unsafe_entries "$file")
done < <(find "$@" -type f -size +3c ! -name '*.o' ! -name '*.a' -print0)
echo "$looked_at ELF files looked at"
exit "$failed"
