#!/bin/bash
# Writes the tables of docs/layouts.md anew: the move primitives and the suite of conversions.
# usage: tools/layouts_page.sh [KODAMA]
set -euo pipefail
cd "$(dirname "$0")/.."
kodama=${1:-build/release/tools/kodama}
page=docs/layouts.md
replace() { # replace NAME FILE: the lines between <!-- NAME --> and <!-- /NAME -->
  awk -v name="$1" -v file="$2" '
    $0 == "<!-- " name " -->" { print; print ""; while ((getline line < file) > 0) print line; print ""; skip = 1 }
    $0 == "<!-- /" name " -->" { skip = 0 }
    !skip { print }
  ' "$page" > "$page.new"
  mv "$page.new" "$page"
}
table=$(mktemp)
trap 'rm -f "$table"' EXIT
"$kodama" layout primitives > "$table"
replace primitives "$table"
"$kodama" layout bench --markdown > "$table"
replace suite "$table"
