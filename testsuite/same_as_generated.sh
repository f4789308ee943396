#!/usr/bin/env bash
# same_as_generated.sh SCRIPT DIRECTORY: what SCRIPT writes is what is committed beside it.
set -euo pipefail
if [ ! -x /usr/bin/python3 ]; then
  echo "skipped: /usr/bin/python3 is missing"
  exit 0
fi
rm -rf "$2"
mkdir -p "$2"
/usr/bin/python3 "$1" "$2" > /dev/null
diff -r --exclude="$(basename "$1")" --exclude=__pycache__ "$(dirname "$1")" "$2"
