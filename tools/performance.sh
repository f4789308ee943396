#!/usr/bin/env bash
# Builds, runs the benchmarks of simulator and assembler, and writes the table of docs/performance.md.
source "$(dirname "${BASH_SOURCE[0]}")/prepare.sh"
install_packages
build release kodama_simulator_bench kodama_assembler_bench kodama

say "benchmarks"
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
build/release/simulator/kodama_simulator_bench --benchmark_format=json --benchmark_min_time=1 > "$results/simulator.json"
build/release/assembler/kodama_assembler_bench --benchmark_format=json > "$results/assembler.json"
/usr/bin/python3 tools/performance_table.py "$results"/simulator.json "$results"/assembler.json docs/performance.md
say "docs/performance.md is written"
