#!/bin/bash
# exports.sh LIBRARY HEADER: the library exports the header's calls and nothing else, and each call has a test in C.
set -euo pipefail
exported=$(nm -D --defined-only "$1" | awk '{ print $3 }' | sort)
# A declaration begins a line with its type; comments show calls, too.
declared=$(grep -oE '^[a-z][a-z0-9_ *]*\bmnc2_[a-z_]+\(' "$2" | grep -oE 'mnc2_[a-z_]+\($' | tr -d '(' | sort)
diff <(echo "$exported") <(echo "$declared") || { echo "exported (<) and declared (>) differ"; exit 1; }
for name in $declared; do
  grep -q "\b$name\b" "$(dirname "$0")"/*_test.c || { echo "no test calls $name"; exit 1; }
done
echo "$(echo "$declared" | wc -l) calls"
