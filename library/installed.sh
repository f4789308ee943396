#!/bin/bash
# installed.sh CMAKE BUILD EXAMPLE CXX CC MODEL HOST_MODEL: programs outside of the tree, built against installed copies that were moved.
# HOST_MODEL: something of it is computed on the host.
set -euo pipefail
cmake=$1 build=$2 example=$3 cxx=$4 cc=$5 model=$6 host_model=$7
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for component in runtime library; do "$cmake" --install "$build" --component $component --prefix "$folder/first" >"$folder/log"; done
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
add_executable(run_program $example/run_program.cpp)
foreach(program run_model run_program)
  target_link_libraries(\${program} PRIVATE kodama::kodama)
endforeach()
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
printf 'imm i"7" $lr0v\nnop/3\nd get $lr0n0c0b0m0p0 1\n' >program.vsm
project/build/run_program program.vsm tiny
for part in isa assembler simulator layout scheduler; do project/build/use_$part; done
echo "--- the runtime alone"
"$build/tools/kodama" compile "$model" --chip tiny -o chip.package >"$folder/log"
"$build/tools/kodama" compile "$host_model" --chip tiny -o host.package >"$folder/log"
"$cmake" --install "$build" --component runtime --prefix "$folder/second" >"$folder/log"
mv "$folder/second" "$folder/runtime"
export PKG_CONFIG_PATH=$(dirname "$(find "$folder/runtime" -name kodama-runtime.pc)")
libraries=$(pkg-config --variable=libdir kodama-runtime)
flags=$(pkg-config --cflags --libs kodama-runtime)
"$cxx" -std=c++20 -Wall -Wextra -Werror "$example/run_package.cpp" -o in_cxx $flags
"$cc" -std=c99 -pedantic -Wall -Wextra -Werror "$example/run_package.c" -o in_c $flags
mkdir runner
cat >runner/CMakeLists.txt <<P
cmake_minimum_required(VERSION 3.16)
project(user LANGUAGES C CXX)
find_package(kodama REQUIRED)
add_executable(in_cxx $example/run_package.cpp)
add_executable(in_c $example/run_package.c)
foreach(program in_cxx in_c)
  target_link_libraries(\${program} PRIVATE kodama::runtime)
endforeach()
P
"$cmake" -S runner -B runner/build -DCMAKE_PREFIX_PATH="$folder/runtime" -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_C_COMPILER="$cc" >"$folder/log"
"$cmake" --build runner/build >"$folder/log" || { cat "$folder/log"; exit 1; }
for package in chip host; do
  LD_LIBRARY_PATH=$libraries ./in_cxx $package.package | tee in_cxx.txt
  LD_LIBRARY_PATH=$libraries ./in_c $package.package | sort | cmp - <(sort in_cxx.txt)
  runner/build/in_cxx $package.package | cmp - in_cxx.txt
  runner/build/in_c $package.package | sort | cmp - <(sort in_cxx.txt)
done
if LD_LIBRARY_PATH=$libraries ldd ./in_cxx "$libraries"/libkodama-runtime.so | grep -E "onnx|protobuf|libkodama\.|not found"; then
  echo "the runtime needs what it must not, or something isn't there"
  exit 1
fi
echo "the installed copies are complete"
