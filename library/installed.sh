#!/bin/bash
# installed.sh CMAKE BUILD EXAMPLE CXX MODEL: a program outside of the tree, built against an installed copy that was moved.
set -euo pipefail
cmake=$1 build=$2 example=$3 cxx=$4 model=$5
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$cmake" --install "$build" --component library --prefix "$folder/first" >"$folder/log"
mv "$folder/first" "$folder/moved"
[ -s "$folder/moved/share/man/man1/kodama-run.1" ] || { echo "there are no man pages"; exit 1; }
export PKG_CONFIG_PATH=$(dirname "$(find "$folder/moved" -name kodama.pc)") KODAMA_CACHE=off
cd "$folder"
echo "--- pkg-config"
"$cxx" -std=c++20 -Wall -Wextra -Werror "$example/run_model.cpp" -o by_pkg_config $(pkg-config --cflags --libs kodama)
LD_LIBRARY_PATH=$(pkg-config --variable=libdir kodama) ./by_pkg_config "$model" tiny
echo "--- CMake"
mkdir project
cat >project/CMakeLists.txt <<P
cmake_minimum_required(VERSION 3.16)
project(user LANGUAGES CXX)
find_package(kodama REQUIRED)
add_executable(run_model $example/run_model.cpp)
target_link_libraries(run_model PRIVATE kodama::kodama)
foreach(part isa assembler simulator layout scheduler)
  add_executable(use_\${part} use_\${part}.cpp)
  target_link_libraries(use_\${part} PRIVATE kodama::\${part})
endforeach()
P
# A header of each part, and something of it that has to be linked.
cat >project/use_isa.cpp <<'P'
#include "isa/chip.h"
int main() { return kodama::isa::find_chip("tiny").groups == 2 ? 0 : 1; }
P
cat >project/use_assembler.cpp <<'P'
#include "assembler/assembler.h"
#include "isa/chip.h"
int main() { return kodama::assembler::assemble("nop\n", "x.vsm", kodama::isa::find_chip("tiny")).statements.size() == 1 ? 0 : 1; }
P
cat >project/use_simulator.cpp <<'P'
#include "simulator/machine.h"
int main() { kodama::simulator::Machine machine(kodama::isa::find_chip("tiny")); return 0; }
P
cat >project/use_layout.cpp <<'P'
#include "layout/algebra/layout.h"
int main() { return kodama::layout::Layout::parse("((2:1, 2_W:1))@LM0").to_string().empty() ? 1 : 0; }
P
cat >project/use_scheduler.cpp <<'P'
#include "scheduler/pipeline/pipeline.h"
int main() { kodama::scheduler::check_options({}); return 0; }
P
"$cmake" -S project -B project/build -DCMAKE_PREFIX_PATH="$folder/moved" -DCMAKE_CXX_COMPILER="$cxx" >"$folder/log"
"$cmake" --build project/build >"$folder/log" || { cat "$folder/log"; exit 1; }
project/build/run_model "$model" tiny
for part in isa assembler simulator layout scheduler; do project/build/use_$part; done
echo "the installed copy is complete"
