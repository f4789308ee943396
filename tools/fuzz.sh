#!/usr/bin/env bash
# Builds the libFuzzer targets of testsuite/fuzz (preset fuzz: clang, AddressSanitizer, UBSan) and runs each.
# fuzz.sh [SECONDS [TARGET...]] (default: 60, all). Fails when an input breaks something; the input is then in
# build/fuzz/artifacts, and belongs into testsuite/fuzz/seeds/TARGET once it is understood.
source "$(dirname "${BASH_SOURCE[0]}")/prepare.sh"
install_packages tools/packages.txt tools/packages-clang.txt
seconds=${1:-60}
shift || true
build fuzz

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for file in testsuite/fuzz/*_target.cpp; do targets+=("$(basename "$file" _target.cpp)"); done
fi
broken=()
for target in "${targets[@]}"; do
  say "fuzzing $target for $seconds seconds"
  mkdir -p "build/fuzz/corpus/$target" build/fuzz/artifacts
  log=build/fuzz/$target.log
  # New inputs go to the first folder. A slow input or one that takes much memory is as bad as a crash.
  dictionary=()
  if [ -e "testsuite/fuzz/$target.dict" ]; then dictionary=("-dict=testsuite/fuzz/$target.dict"); fi
  # Debian's libraries aren't instrumented: vectors that they fill look overflown.
  if ASAN_OPTIONS=detect_container_overflow=0 UBSAN_OPTIONS=print_stacktrace=1 "build/fuzz/testsuite/fuzz/kodama_fuzz_$target" \
      -max_total_time="$seconds" -timeout=20 -rss_limit_mb=3000 -max_len=4096 -print_final_stats=1 \
      "${dictionary[@]}" -artifact_prefix="build/fuzz/artifacts/$target-" \
      "build/fuzz/corpus/$target" "testsuite/fuzz/seeds/$target" >"$log" 2>&1; then
    grep -E '^Done|number_of_executed_units|peak_rss_mb' "$log"
  else
    tail -n 60 "$log"
    broken+=("$target")
  fi
done
if [ ${#broken[@]} -gt 0 ]; then
  say "broken: ${broken[*]}"
  exit 1
fi
say "nothing broke"
