# kodama_library(NAME [PUBLIC lib...] [PRIVATE lib...] [COLD] [TESTS_APART] [SHARDS n])
#   One static library kodama_NAME from every *.cpp of the calling folder but the *_test.cpp and
#   *_bench.cpp, and, where there are *_test.cpp, one test program kodama_NAME_test.
#   COLD: compiled faster, -O1 in release builds: runs and large models spend no time there.
#   TESTS_APART: tests are never compiled together, since their helpers have the same names.
#   SHARDS: as many CTest tests share its cases.
#   Cases named Nightly... are a test of the long suite.
#   Shared libraries (host/, python/) contain them, so all are position independent.
#   Headers are included as "folder/header.h" from the root of the project.
add_library(kodama_options INTERFACE)
target_include_directories(kodama_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(kodama_options INTERFACE -Wall -Wextra -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports members of inactive std::variant alternatives as uninitialized (GCC bug 105562 and
  # kin) and impossible overlaps in std::string concatenation (GCC bug 105651). clang 14 checks both.
  target_compile_options(kodama_options INTERFACE -Wno-maybe-uninitialized -Wno-restrict)
endif()
# A tenth of g++'s time is collecting garbage that would fit the memory.
target_compile_options(kodama_options INTERFACE
    "$<$<CXX_COMPILER_ID:GNU>:SHELL:--param ggc-min-expand=400 --param ggc-min-heapsize=524288>")
target_compile_definitions(kodama_options INTERFACE
    $<$<BOOL:${KODAMA_ASSERTIONS}>:_GLIBCXX_ASSERTIONS>)
if(KODAMA_SANITIZE OR KODAMA_FUZZ)
  target_compile_options(kodama_options INTERFACE
      -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_link_options(kodama_options INTERFACE -fsanitize=address,undefined)
  target_compile_definitions(kodama_options INTERFACE KODAMA_SANITIZED)  # ten times slower: tests make fewer random cases
endif()
if(KODAMA_FUZZ)
  target_compile_options(kodama_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# What programs that compile models allocate with: a sixth less time than with the C library's. Sanitizers bring their own.
if(KODAMA_SANITIZE OR KODAMA_FUZZ)
  set(kodama_allocator)
else()
  add_library(kodama_allocator_settings OBJECT ${CMAKE_CURRENT_LIST_DIR}/allocator.c)
  set(kodama_allocator PkgConfig::jemalloc $<TARGET_OBJECTS:kodama_allocator_settings>)
endif()

# Most of the time of a build is reading the same headers again. Precompiled sets: for the parts below the
# compiler and for those that see ONNX, each for libraries and for tests (which are not optimized: they
# check, the libraries compute).
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled.cpp CONTENT "// Carries precompiled headers.\n")  # written only once
set(kodama_test_options $<$<OR:$<CONFIG:Release>,$<BOOL:${KODAMA_SANITIZE}>>:-O0>)
# Nobody replaces a function of a library from outside: it is inlined and called directly, as in an executable.
set(kodama_library_options $<$<CXX_COMPILER_ID:GNU>:-fno-semantic-interposition>)
function(kodama_precompiled_set name)
  cmake_parse_arguments(ARG "" "" "LINK;HEADERS;TEST_HEADERS" ${ARGN})
  foreach(kind library test)
    add_library(kodama_pch_${name}_${kind} OBJECT ${CMAKE_BINARY_DIR}/precompiled.cpp)
    target_link_libraries(kodama_pch_${name}_${kind} PRIVATE kodama_options fmt::fmt ${ARG_LINK})
    target_precompile_headers(kodama_pch_${name}_${kind} PRIVATE <algorithm> <array> <bit> <cmath> <cstdint> <cstring>
        <deque> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <set> <span> <sstream> <stdexcept>
        <string> <string_view> <tuple> <unordered_map> <unordered_set> <utility> <variant> <vector> <fmt/format.h>
        <fmt/ranges.h> ${ARG_HEADERS})
  endforeach()
  set_target_properties(kodama_pch_${name}_library PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_options(kodama_pch_${name}_library PRIVATE ${kodama_library_options})
  target_link_libraries(kodama_pch_${name}_test PRIVATE GTest::gmock)
  target_compile_options(kodama_pch_${name}_test PRIVATE ${kodama_test_options})
  target_precompile_headers(kodama_pch_${name}_test PRIVATE <filesystem> <fstream> <random> <gmock/gmock.h> <gtest/gtest.h>
                            ${ARG_TEST_HEADERS})
endfunction()
kodama_precompiled_set(base)
kodama_precompiled_set(onnx LINK onnx onnx_proto HEADERS <nlohmann/json.hpp> <onnx/onnx_pb.h> <onnx/defs/schema.h>
                       TEST_HEADERS <onnx/defs/parser.h>)

# Parts of the compiler that know nothing of ONNX; nor do the tests of some.
set(kodama_library_without_onnx compiler_tensor compiler_reference_kernels compiler_layers compiler_streams compiler_package
    compiler_tile compiler_kernels compiler_plan compiler_runtime)
set(kodama_test_without_onnx compiler_tensor compiler_layers)
# kodama_precompile(TARGET NAME library|test): the set that fits the part NAME.
function(kodama_precompile target name kind)
  if(name MATCHES "^(compiler_|builder)" AND NOT name IN_LIST kodama_${kind}_without_onnx)
    target_precompile_headers(${target} REUSE_FROM kodama_pch_onnx_${kind})
  else()
    target_precompile_headers(${target} REUSE_FROM kodama_pch_base_${kind})
  endif()
endfunction()

function(kodama_library name)
  cmake_parse_arguments(ARG "COLD;TESTS_APART" "SHARDS" "PUBLIC;PRIVATE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  set(tests ${sources})
  set(benches ${sources})
  list(FILTER sources EXCLUDE REGEX "_(test|bench)\\.cpp$")
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  add_library(kodama_${name} STATIC ${sources})
  set_property(GLOBAL APPEND PROPERTY kodama_libraries kodama_${name})  # cmake/install.cmake
  target_link_libraries(kodama_${name} PUBLIC kodama_options ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  set_target_properties(kodama_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON
                        UNITY_BUILD ${KODAMA_UNITY} UNITY_BUILD_BATCH_SIZE 16)
  target_compile_options(kodama_${name} PRIVATE ${kodama_library_options})
  if(ARG_COLD)
    target_compile_options(kodama_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  kodama_precompile(kodama_${name} ${name} library)
  if(tests)
    add_executable(kodama_${name}_test ${tests})
    target_link_libraries(kodama_${name}_test PRIVATE kodama_${name} ${ARG_PRIVATE} GTest::gmock GTest::gtest_main ${kodama_allocator})
    target_compile_options(kodama_${name}_test PRIVATE ${kodama_test_options})
    kodama_precompile(kodama_${name}_test ${name} test)
    if(NOT ARG_TESTS_APART)
      set_target_properties(kodama_${name}_test PROPERTIES UNITY_BUILD ${KODAMA_UNITY} UNITY_BUILD_BATCH_SIZE 8)
    endif()
    set(filter "GTEST_FILTER=-*.Nightly*")
    if(ARG_SHARDS)
      foreach(shard RANGE 1 ${ARG_SHARDS})
        math(EXPR index "${shard} - 1")
        add_test(NAME unit.${name}.${shard} COMMAND kodama_${name}_test)
        set_tests_properties(unit.${name}.${shard} PROPERTIES
            ENVIRONMENT "${filter};GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${index}")
      endforeach()
    else()
      add_test(NAME unit.${name} COMMAND kodama_${name}_test)
      set_tests_properties(unit.${name} PROPERTIES ENVIRONMENT "${filter}")
    endif()
    foreach(file ${tests})
      file(STRINGS ${file} nightly REGEX "^TEST(_[FP])?\\([A-Za-z]+, Nightly")
      if(nightly)
        add_test(NAME unit.${name}.nightly COMMAND kodama_${name}_test --gtest_filter=*.Nightly*)
        set_tests_properties(unit.${name}.nightly PROPERTIES LABELS long TIMEOUT 7200)
        break()
      endif()
    endforeach()
  endif()
endfunction()
