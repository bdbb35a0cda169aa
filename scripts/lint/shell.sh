#!/usr/bin/env bash
# Shell fails silently on what shellcheck finds: unquoted blanks, lost exit codes, typing errors in names.
set -euo pipefail

git ls-files -co --exclude-standard '*.sh' '*.sbatch' .ci/run scripts | xargs grep -lE '^#!.*\b(ba)?sh$' | sort -u | xargs -r shellcheck
