#!/usr/bin/env bash
# Accepts the present output of the golden tests: rebase.sh [build directory] [FILE.t...]; all without a name
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${1:-$here/../../build/release}
shift || true
export KODAMA_CACHE=off PATH="$(cd "$build" && pwd)/tools:$PATH" KODAMA_CONFIG_DIR="$here/../../configs"
cd "$here"
[ $# -gt 0 ] || set -- *.t
exec cram3 --preserve-env --shell=/bin/bash -i -y "$@"
