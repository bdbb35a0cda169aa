#!/usr/bin/env bash
# A path of one developer's machine in the tree works nowhere else.
set -euo pipefail

# Bracketed so that this file does not find itself.
if git grep -nIE '/wor[k]/|/tmp/(n[t]|buil[d]-|bas[h])|/hom[e]/[a-z]|/\.librar[y]' -- . ; then
  echo "Paths of one machine, above, do not belong in the project."
  exit 1
fi
