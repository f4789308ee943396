#!/usr/bin/env bash
# package_equals_run.sh KODAMA MODEL WORKDIR [run options]: `kodama compile` then `kodama sim` gives the bits of `kodama run`.
set -euo pipefail
kodama=$1 model=$2 work=$3
shift 3
rm -rf "$work"
mkdir -p "$work"
"$kodama" run "$model" --no-compare --seed 7 --output-dir "$work/run" "$@" >"$work/run.txt"
"$kodama" compile "$model" -o "$work/package" "$@"
"$kodama" sim "$work/package" --seed 7 --output-dir "$work/sim" >"$work/sim.txt"
diff -r "$work/run" "$work/sim"
echo "equal: $(ls "$work/run" | wc -l) outputs"
rm -rf "$work"
