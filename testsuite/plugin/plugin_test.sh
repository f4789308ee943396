#!/usr/bin/env bash
# Plugins, built against installed headers only. plugin_test.sh CASE, with in the environment: KODAMA (the program),
# BUILD and SOURCE (of the project), WORK (a folder of ours), CXX and FLAGS (the compiler and what it must be given).
set -euo pipefail
test_case=$1
mkdir -p "$WORK"
cd "$WORK"
prefix=$WORK/prefix
model=$SOURCE/testsuite/golden/models/linear.onnx
here=$SOURCE/testsuite/plugin

fail() {
  echo "FAILED: $*"
  exit 1
}
# The command's output is in $output, its exit code must be the first argument.
expect_exit() {
  local expected=$1 code=0
  shift
  output=$("$@" 2>&1) || code=$?
  [ "$code" = "$expected" ] || fail "exit code $code instead of $expected of: $*"$'\n'"$output"
}
expect_text() {
  [[ $output == *"$1"* ]] || fail "no '$1' in:"$'\n'"$output"
}
expect_no_text() {
  [[ $output != *"$1"* ]] || fail "'$1' in:"$'\n'"$output"
}
install_headers() {
  rm -rf "$prefix"
  cmake --install "$BUILD" --prefix "$prefix" --component plugin > /dev/null
}
# build_plugin SOURCE LIBRARY FLAG...: the command of docs/write-a-pass.md.
build_plugin() {
  local source=$1 library=$2
  shift 2
  # shellcheck disable=SC2086
  "$CXX" -std=c++20 -O2 -Wall -Wextra -Werror -shared -fPIC $FLAGS "$@" -I"$prefix/include/kodama" "$source" -o "$library"
}
run_tiny() {
  expect_exit "$1" "$KODAMA" run "$model" --chip tiny --seed 3 "${@:2}"
}
# What the model computes, and in how many steps: the lines of the output that don't depend on the machine.
results() {
  grep -E '^(y |chip tiny)' <<< "$output"
}

example=$SOURCE/docs/examples/critical_path_scheduler.cpp
case $test_case in
  example)
    install_headers
    build_plugin "$example" libmine.so
    run_tiny 0
    without=$(results | grep '^y ')
    run_tiny 0 --plugin ./libmine.so --scheduler mine
    [ "$(results | grep '^y ')" = "$without" ] || fail "other results than without the plugin: $output"
    expect_text ": ok"
    run_tiny 0 --plugin libmine.so --scheduler mine --pass-option mine-urgency=source
    [ "$(results | grep '^y ')" = "$without" ] || fail "other results than without the plugin: $output"
    run_tiny 2 --plugin libmine.so --scheduler mine --pass-option mine-urgency=now
    expect_text "option mine-urgency: found 'now', allowed: path, source"
    run_tiny 2 --plugin libmine.so --pass-option mine-urgency=path
    expect_text "found pass option 'mine-urgency', allowed for the chosen passes"
    run_tiny 2 --scheduler mine
    expect_text "found scheduler 'mine', allowed: list"
    expect_exit 0 "$KODAMA" passes --plugin ./libmine.so
    expect_text "the operations on the longest way first (plugin ./libmine.so)"
    expect_text "mine-urgency=path"
    expect_exit 0 "$KODAMA" compile "$model" --chip tiny -o package --plugin ./libmine.so --scheduler mine
    expect_exit 0 "$KODAMA" check package
    expect_exit 0 "$KODAMA" plan "$model" --chip tiny --plugin ./libmine.so
    # A network of many kinds of blocks, with loops.
    expect_exit 0 "$KODAMA" run "$SOURCE/testsuite/models/mnist8/model.onnx" --chip tiny \
      --plugin ./libmine.so --scheduler mine
    expect_text ": ok"
    ;;
  guide)
    # The guide quotes the example, and the commands in it are those above.
    /usr/bin/python3 - "$SOURCE" << 'PYTHON'
import pathlib, sys
source = pathlib.Path(sys.argv[1])
guide = (source / "docs/write-a-pass.md").read_text()
example = (source / "docs/examples/critical_path_scheduler.cpp").read_text()
if "```cpp\n" + example + "```\n" not in guide:
    sys.exit("docs/write-a-pass.md doesn't quote docs/examples/critical_path_scheduler.cpp as it is")
if len(example.splitlines()) >= 100:
    sys.exit("docs/examples/critical_path_scheduler.cpp has 100 lines or more")
for line in ["-shared -fPIC", "--plugin ./libmine.so --scheduler mine", "--component plugin"]:
    if line not in guide:
        sys.exit(f"docs/write-a-pass.md doesn't say '{line}'")
PYTHON
    ;;
  cmake_package)
    install_headers
    # shellcheck disable=SC2086
    cmake --fresh -G Ninja -S "$SOURCE/docs/examples" -B cmake-build -DCMAKE_CXX_COMPILER="$CXX" -DCMAKE_CXX_FLAGS="$FLAGS" \
      -DCMAKE_PREFIX_PATH="$prefix" > /dev/null
    cmake --build cmake-build > /dev/null
    run_tiny 0 --plugin cmake-build/libmine.so --scheduler mine
    expect_text ": ok"
    ;;
  headers)
    # Every public header stands alone, nothing else is installed, and the program has what they declare.
    install_headers
    find "$prefix/include/kodama" -name '*.h' > headers.txt
    while read -r header; do
      echo "#include \"${header#"$prefix"/include/kodama/}\"" > alone.cpp
      # shellcheck disable=SC2086
      "$CXX" -std=c++20 -Wall -Wextra -Werror -fsyntax-only $FLAGS -I"$prefix/include/kodama" alone.cpp
    done < headers.txt
    for header in isa/file.h scheduler/machine/builtin_passes.h scheduler/machine/machine_problem.h layout/search; do
      [ ! -e "$prefix/include/kodama/$header" ] || fail "$header is installed"
    done
    nm -D --defined-only "$KODAMA" | awk '{print $3}' | sort -u > exported.txt
    nm -g --defined-only "$BUILD"/{isa/libkodama_isa,passes/libkodama_passes}.a \
        "$BUILD"/scheduler/{problem,packing,machine,segment,optimizer}/*.a "$BUILD"/layout/{algebra,moves,primitives}/*.a |
      awk '$2 == "T" {print $3}' | grep -E '^_ZNK?6kodama(3isa|6layout|6passes|9scheduler)' | sort -u > declared.txt
    [ "$(wc -l < declared.txt)" -gt 100 ] || fail "no symbols found"
    missing=$(comm -23 declared.txt exported.txt | c++filt)
    [ -z "$missing" ] || fail "not exported: $missing"
    ! grep -E '^_ZNK?6kodama' exported.txt | grep -vE '^_ZNK?6kodama(3isa|6layout|6passes|9scheduler)' ||
      fail "exported is more than plugins need"
    ;;
  bad_schedule)
    install_headers
    build_plugin "$here/bad_scheduler.cpp" libbad.so
    bad() {
      expect_exit 70 "$KODAMA" run "$2" --chip tiny --plugin ./libbad.so --scheduler bad --pass-option bad-ignores="$1"
      expect_text "scheduler 'bad' of plugin ./libbad.so is at fault: $3"
      expect_no_text "bug in kodama"
      echo "$1: $output" | tail -1
    }
    wrong="its schedule of a block of "
    bad dependences "$model" "$wrong"
    expect_text "is wrong: dependence: operation "
    bad resources "$model" "$wrong"
    expect_text "is wrong: resource '"
    bad separations "$model" "$wrong"
    expect_text "is wrong: separation of '"
    bad size "$model" "$wrong"
    expect_text "issue steps for"
    bad range "$model" "$wrong"
    expect_text "is wrong: range: operation "
    bad throws "$model" "it throws: a bug of the plugin"
    bad throws-int "$model" "it throws something that is no std::exception"
    run_tiny 0 --plugin ./libbad.so --scheduler bad --pass-option bad-ignores=nothing
    expect_exit 70 "$KODAMA" run "$SOURCE/testsuite/models/mnist8/model.onnx" --chip tiny --plugin ./libbad.so \
      --loop-scheduler bad-loop
    expect_text "scheduler 'bad-loop' of plugin ./libbad.so is at fault: its schedule of a loop of "
    run_tiny 70 --plugin ./libbad.so --coalescer bad-coalescer
    expect_text "coalescer 'bad-coalescer' of plugin ./libbad.so is at fault: "
    expect_text "internal error found by verify_copies: program "
    run_tiny 70 --plugin ./libbad.so --spiller bad-spiller
    expect_text "spiller 'bad-spiller' of plugin ./libbad.so is at fault: "
    run_tiny 70 --plugin ./libbad.so --allocator bad-allocator
    expect_text "allocator 'bad-allocator' of plugin ./libbad.so is at fault: "
    ;;
  primitive)
    # A move primitive: chosen where it is cheap; what it gets wrong is found by simulating the program.
    install_headers
    convert() {
      expect_exit "$1" "$KODAMA" layout convert '((4_PE:1), (16:1, 2_W:1))@LM0' '((4_PE:1), (2_W:1, 16:1))@LM1' \
        --shape 4,32 --chip tiny --plugin ./libprimitive.so "${@:2}"
    }
    build_plugin "$here/move_primitive.cpp" libprimitive.so
    convert 0
    expect_text "path: word-by-word"
    expect_text "simulated: every element is in its place"
    expect_exit 0 "$KODAMA" passes --plugin ./libprimitive.so
    expect_text "word-by-word             the word bit <-> an address bit, word by word (plugin ./libprimitive.so)"
    wrong() {
      build_plugin "$here/move_primitive.cpp" libprimitive.so "-DWRONG=$1"
      convert 70 --no-run
      expect_text "move primitive 'word-by-word' of plugin ./libprimitive.so is at fault: $2"
      expect_no_text "bug in kodama"
    }
    wrong 1 ""
    expect_text "element "
    wrong 2 "it throws: a bug of the plugin"
    wrong 3 "internal error in move proposals: bit "
    wrong 4 "internal error in conversion: "
    ;;
  refused)
    install_headers
    refused() {
      run_tiny 2 --plugin "$1"
      expect_text "--plugin $1: found $2"
      expect_text "allowed: "
      # The same from every command that takes plugins.
      expect_exit 2 "$KODAMA" passes --plugin "$1"
      expect_text "--plugin $1: found $2"
      echo "$output"
    }
    refused ./absent.so "no such file"
    refused "$WORK" "something that is no file"
    : > empty.so
    refused empty.so "a file that is no 64-bit shared library"
    echo "this is a text of some length, and certainly longer than the header of an ELF file is" > text.so
    refused text.so "a file that is no 64-bit shared library"
    echo 'extern "C" int nothing() { return 1; }' > empty.cpp
    build_plugin empty.cpp libnoplugin.so
    refused ./libnoplugin.so "a library without the constant kodama_plugin_abi"
    head -c 5000 libnoplugin.so > libcut.so
    refused ./libcut.so "a shared library that is cut off after 5000 bytes"
    "$CXX" -c empty.cpp -o empty.o
    refused empty.o "an object file or program, no shared library"
    numbers() {
      echo "extern \"C\" { extern const int kodama_plugin_abi, kodama_plugin_layout;"
      echo "const int kodama_plugin_abi = $1; const int kodama_plugin_layout = $2; }"
    }
    numbers 999 1 > other_abi.cpp
    build_plugin other_abi.cpp libother.so
    refused ./libother.so "a plugin with ABI 999, this Kodama has "
    numbers kodama::passes::kPluginAbi 1 | sed '1i #include "passes/plugin.h"' > other_layout.cpp
    build_plugin other_layout.cpp liblayout.so
    refused ./liblayout.so "a plugin with data layout 1, this Kodama has "
    # Another layout for real: the standard library's debug mode.
    build_plugin "$example" libdebug.so -D_GLIBCXX_DEBUG
    refused ./libdebug.so "a plugin with data layout "
    numbers "kodama::passes::kPluginAbi" "kodama::passes::plugin_layout()" |
      sed '1i #include "passes/plugin.h"' > no_entry.cpp
    build_plugin no_entry.cpp libnoentry.so
    refused ./libnoentry.so "a library without the function kodama_register_passes"
    registers() {
      echo '#include "passes/plugin.h"'
      echo '#include "scheduler/problem/schedule_problem.h"'
      echo 'using namespace kodama::passes;'
      echo 'using namespace kodama::scheduler;'
      echo '[[maybe_unused]] static Schedule none(const ScheduleProblem&, const PassOptions&) { return {}; }'
      echo "$2"
      echo "KODAMA_PLUGIN() { $1 }"
    }
    registers "" "" > nothing.cpp
    build_plugin nothing.cpp libnothing.so
    refused ./libnothing.so "a plugin that registers no pass"
    registers 'register_pass(BlockScheduler{.name = "list", .description = "", .run = none});' "" > taken.cpp
    build_plugin taken.cpp libtaken.so
    refused ./libtaken.so "a second scheduler 'list' (the first is Kodama's own)"
    registers 'register_pass(BlockScheduler{.name = "hollow", .description = ""});' "" > hollow.cpp
    build_plugin hollow.cpp libhollow.so -Wno-missing-field-initializers
    refused ./libhollow.so "scheduler 'hollow' without a function"
    registers 'register_pass(BlockScheduler{.name = "idle", .description = "", .for_blocks = false, .run = none});' "" > idle.cpp
    build_plugin idle.cpp libidle.so
    refused ./libidle.so "scheduler 'idle' for neither blocks nor loops"
    registers 'kodama::isa::absent(); register_pass(BlockScheduler{.name = "a", .description = "", .run = none});' \
      'namespace kodama::isa { void absent(); }' > undefined.cpp
    build_plugin undefined.cpp libundefined.so
    refused ./libundefined.so "a library that can't be loaded: it needs 'kodama::isa::absent()', which Kodama doesn't have"
    # Given twice.
    build_plugin "$example" libmine.so
    run_tiny 2 --plugin ./libmine.so --plugin ./libmine.so
    expect_text "--plugin ./libmine.so: found a second scheduler 'mine' (the first is of plugin ./libmine.so); allowed: "
    ;;
  *)
    fail "no case '$test_case'"
    ;;
esac
