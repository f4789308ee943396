#!/bin/bash
# check_man.sh KODAMA DIR: a man page for each command, which mandoc and man read without a complaint.
set -euo pipefail
kodama=$1 directory=$2
command -v mandoc >/dev/null || { echo "skipped: mandoc isn't installed"; exit 77; }
rm -rf "$directory"
"$kodama" --quiet help --man "$directory"
# Not complained about: pages without a date, and names of other pages, which aren't installed here.
if mandoc -T lint -W warning "$directory"/*.1 | grep -v "missing date"; then exit 1; fi
for page in "$directory"/*.1; do
  MANWIDTH=80 man --warnings=all -l "$page" 2>&1 >/dev/null | grep -v "^man: " && { echo "$page: groff warns"; exit 1; }
done
# Every command has one, with its options.
"$kodama" --help | sed -n '/^Subcommands:/,$s/^  \([a-z][a-z-]*\) .*/\1/p' >"$directory/commands"
[ "$(wc -l <"$directory/commands")" -gt 25 ]
while read -r name; do
  [ -s "$directory/kodama-$name.1" ] || { echo "kodama-$name.1 is missing"; exit 1; }
done <"$directory/commands"
man -l "$directory/kodama-run.1" | grep -q -- "--precision"
man -l "$directory/kodama.1" | grep -q "is out of tolerance"
echo "$(ls "$directory" | grep -c "[.]1$") man pages"
