#!/usr/bin/env bash
# Builds, runs the benchmarks of simulator and assembler, and writes the table of docs/performance.md.
# With a commit, its engine runs the simulator's benchmarks, too, in turns with the present one:
#   tools/performance.sh [COMMIT]
source "$(dirname "${BASH_SOURCE[0]}")/prepare.sh"
install_packages
build release kodama_simulator_bench kodama_assembler_bench kodama

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
if [ $# -gt 0 ]; then
  say "engine of $1"
  git worktree add --quiet --detach "$results/before" "$1"
  trap 'git worktree remove --force "$results/before"; rm -rf "$results"' EXIT
  cp simulator/simulator_bench.cpp "$results/before/simulator/"
  (cd "$results/before" && cmake --preset release > /dev/null && cmake --build --preset release --target kodama_simulator_bench)
fi

say "benchmarks"
rounds=5
for ((k = 1; k <= rounds; ++k)); do
  for which in before now; do
    bench=$([ $which = now ] && echo . || echo "$results/before")/build/release/simulator/kodama_simulator_bench
    [ -x "$bench" ] || continue
    "$bench" --benchmark_format=json --benchmark_min_time=0.1 > "$results/$which.$k.json"
  done
done
build/release/assembler/kodama_assembler_bench --benchmark_format=json > "$results/assembler.json"
/usr/bin/python3 tools/performance_table.py "$results" docs/performance.md "${1:-}"
say "docs/performance.md is written"
