#!/usr/bin/env bash
# Installs what is needed, builds, and passes the tests. test.sh [PRESET...] (default: release); KODAMA_LONG=1 adds
# the long suite.
source "$(dirname "${BASH_SOURCE[0]}")/prepare.sh"
install_packages

say "formatting"
git ls-files '*.h' '*.cpp' | xargs clang-format-14 --dry-run -Werror

for preset in "${@:-release}"; do
  build "$preset"
  say "tests (preset $preset)"
  if [ -n "${KODAMA_LONG:-}" ]; then
    ctest --test-dir "build/$preset" --output-on-failure
  else
    ctest --preset "$preset"
  fi
done
