#!/usr/bin/env bash
# Builds and writes the tables of docs/timing.md.
source "$(dirname "${BASH_SOURCE[0]}")/prepare.sh"
install_packages
build release kodama_simulator_bench kodama

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
say "bandwidths"
build/release/tools/kodama bench bandwidth > "$results/bandwidths"
say "what timing costs"
build/release/simulator/kodama_simulator_bench --benchmark_filter='timing|hundred' --benchmark_format=json > "$results/costs.json"
/usr/bin/python3 tools/timing_tables.py configs/mncore2.yaml "$results/bandwidths" "$results/costs.json" docs/timing.md
say "docs/timing.md is written"
