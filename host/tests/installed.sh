#!/bin/bash
# installed.sh CMAKE BUILD HOST CC CXX: the examples, built as users do against an installed copy.
set -euo pipefail
cmake=$1 build=$2 host=$3 cc=$4 cxx=$5
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
"$cmake" --install "$build" --component host --prefix "$prefix" >"$prefix/log"
export PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name mnc2.pc)") MNC2_EMU_CONFIG=1
libraries=$(pkg-config --variable=libdir mnc2)
mkdir "$prefix/programs"
cp "$host"/examples/*.[cv]* "$prefix/programs"
cd "$prefix/programs"
warnings="-Wall -Wextra -Wpedantic -Werror"
for example in *.c; do
  name=${example%.c}
  "$cc" -std=c11 $warnings "$example" -o "$name" $(pkg-config --cflags --libs mnc2)
  LD_LIBRARY_PATH=$libraries "./$name" 2>"$prefix/log"
done
echo "--- C++, shared"
"$cxx" -std=c++17 $warnings -x c++ vector_add.c -x none -o cpp_shared $(pkg-config --cflags --libs mnc2)
LD_LIBRARY_PATH=$libraries ./cpp_shared
others=$(pkg-config --static --libs mnc2 | sed 's/-lmnc2 //')
for way in "-Wl,-Bstatic $(pkg-config --libs mnc2) -Wl,-Bdynamic $others" "$(pkg-config --libs mnc2-static)"; do
  echo "--- C and C++, static: $way"
  "$cc" -std=c11 $warnings tags.c -o c_static $(pkg-config --cflags mnc2) $way
  "$cxx" -std=c++17 $warnings -x c++ vector_add.c -x none -o cpp_static $(pkg-config --cflags mnc2) $way
  ./c_static
  ./cpp_static
  if ldd ./c_static | grep -q mnc2; then echo "c_static needs the shared library"; exit 1; fi
done
echo "--- CMake"
mkdir project
cat >project/CMakeLists.txt <<'P'
cmake_minimum_required(VERSION 3.16)
project(user LANGUAGES C)
find_package(mnc2 REQUIRED)
add_executable(user ../endian.c)
target_link_libraries(user PRIVATE mnc2::mnc2)
P
"$cmake" -S project -B project/build -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" >"$prefix/log"
"$cmake" --build project/build >"$prefix/log"
project/build/user
echo "the installed copy is complete"
