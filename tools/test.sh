#!/usr/bin/env bash
# Installs what is needed, builds, and passes the tests. test.sh [PRESET...] (default: release); KODAMA_LONG=1 adds
# the long suite. Presets: release, dev, asan, clang; for CI ci, which is release less optimized, and clang-part,
# isa and assembler with clang, not optimized.
source "$(dirname "${BASH_SOURCE[0]}")/prepare.sh"
presets=("${@:-release}")
packages=(tools/packages.txt)
if [[ " ${presets[*]} " == *" clang"* ]]; then packages+=(tools/packages-clang.txt); fi
install_packages "${packages[@]}"

say "formatting"
git ls-files '*.h' '*.cpp' | xargs clang-format-14 --dry-run -Werror

for preset in "${presets[@]}"; do
  build "$preset"
  say "tests (preset $preset)"
  if [ -n "${KODAMA_LONG:-}" ]; then
    ctest --test-dir "build/$preset" --output-on-failure
  else
    ctest --preset "$preset"
  fi
done
