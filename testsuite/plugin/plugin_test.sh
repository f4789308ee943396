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
# build_plugin SOURCE LIBRARY FLAG...: the command of docs/write-a-pass.md, but for the first example not optimized,
# which takes half the time.
build_plugin() {
  local source=$1 library=$2 optimize=-O0
  shift 2
  if [ "$test_case" = example ]; then optimize=-O2; fi
  # shellcheck disable=SC2086
  "$CXX" -std=c++20 "$optimize" -Wall -Wextra -Werror -shared -fPIC -DONNX_ML=1 -DONNX_NAMESPACE=onnx $FLAGS "$@" -I"$prefix/include/kodama" \
    "$source" -o "$library"
}
run_tiny() {
  expect_exit "$1" "$KODAMA" run "$model" --chip tiny --seed 3 "${@:2}"
}
# What the model computes, and in how many steps: the lines of the output that don't depend on the machine.
results() {
  grep -E '^(y |chip tiny)' <<< "$output"
}

examples=$SOURCE/docs/examples
example=$examples/critical_path_scheduler.cpp
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
    # The guide quotes the examples, and the commands in it are those above.
    /usr/bin/python3 - "$SOURCE" << 'PYTHON'
import pathlib, sys
source = pathlib.Path(sys.argv[1])
guide = (source / "docs/write-a-pass.md").read_text()
examples = sorted((source / "docs/examples").glob("*.cpp"))
if len(examples) != 7:
    sys.exit(f"{len(examples)} examples")
for example in examples:
    text = example.read_text()
    if "```cpp\n" + text + "```\n" not in guide:
        sys.exit(f"docs/write-a-pass.md doesn't quote {example} as it is")
    if len(text.splitlines()) >= 100:
        sys.exit(f"{example} has 100 lines or more")
for line in ["-shared -fPIC", "--plugin ./libmine.so --scheduler mine", "--component plugin", "-DONNX_ML=1 -DONNX_NAMESPACE=onnx"]:
    if line not in guide:
        sys.exit(f"docs/write-a-pass.md doesn't say '{line}'")
PYTHON
    ;;
  dram)
    # The example, in a program of its own and in a whole network: what is predicted is what it takes.
    install_headers
    build_plugin "$examples/fixed_cost_dram.cpp" libdram.so -DSC_CPLUSPLUS=201703L -lsystemc
    printf 'mvp/n1024i01 $d0@0 $lc0@0.0\nnop; wait i01\n' > dram.vsm
    expect_exit 0 "$KODAMA" sim dram.vsm --chip mncore2,transfer.dram_model=fixed-cost --plugin ./libdram.so
    expect_text "143 cycles" # 64 start-up, 15 for the transaction, 60 for the data, 4 for the step
    expect_exit 2 "$KODAMA" sim dram.vsm --chip mncore2,transfer.dram_model=fixed-cost
    expect_text "'transfer.dram_model' is fixed-cost; allowed: rows, banks, or one of a plugin that is loaded"
    expect_exit 0 "$KODAMA" passes --plugin ./libdram.so
    expect_text "the same time for every transaction (plugin ./libdram.so)"
    for chip in tiny tiny,transfer.dram_model=fixed-cost mncore2,transfer.dram_model=banks; do
      expect_exit 0 "$KODAMA" run "$SOURCE/testsuite/models/mnist8/model.onnx" --chip "$chip" --seed 3 --plugin ./libdram.so \
        --json "run-$chip.json"
      expect_text ": ok"
    done
    /usr/bin/python3 - << 'PYTHON'
import json
cycles = [json.load(open(f"run-{chip}.json"))["total"]["cycles"] for chip in ("tiny", "tiny,transfer.dram_model=fixed-cost")]
if cycles[0] == cycles[1]:
    raise SystemExit("the plugin's DRAM takes the same time")
PYTHON
    expect_exit 0 "$KODAMA" compile "$model" --chip tiny,transfer.dram_model=fixed-cost --plugin ./libdram.so -o package
    expect_exit 0 "$KODAMA" sim package --plugin ./libdram.so
    expect_exit 2 "$KODAMA" sim package
    expect_text "or one of a plugin"
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
    # Every public header stands alone.
    install_headers
    find "$prefix/include/kodama" -name '*.h' > headers.txt
    # What takes longest, ONNX's and fmt's own headers, is compiled once for those that are made of them.
    printf '#include <%s>\n' fmt/format.h onnx/onnx_pb.h > onnx_first.h
    # shellcheck disable=SC2206
    compile=("$CXX" -std=c++20 -Wall -Wextra -Werror -DONNX_ML=1 -DONNX_NAMESPACE=onnx $FLAGS -I"$prefix/include/kodama" -I.)
    "${compile[@]}" -x c++-header onnx_first.h -o onnx_first.h.gch
    alone() {
      local header
      while read -r header; do
        echo "#include \"${header#"$prefix"/include/kodama/}\"" > "$1.cpp"
        "${compile[@]}" "${@:2}" -fsyntax-only "$1.cpp"
      done
    }
    grep /compiler/ headers.txt | alone with_onnx -include onnx_first.h &
    grep -v /compiler/ headers.txt | alone without
    wait $! || fail "a header of compiler/ doesn't stand alone"
    ;;
  installed)
    # Nothing else is installed, and the program has what the headers declare.
    install_headers
    for header in isa/file.h scheduler/machine/builtin_passes.h scheduler/machine/machine_problem.h layout/search compiler/compile \
        scheduler/optimizer/segment_search.h; do
      [ ! -e "$prefix/include/kodama/$header" ] || fail "$header is installed"
    done
    spaces='(3isa|6passes|9scheduler|6layout|8compiler)'
    nm -D --defined-only "$KODAMA" | awk '{print $3}' | sort -u > exported.txt
    nm -g --defined-only "$BUILD"/{isa/libkodama_isa,passes/libkodama_passes}.a \
        "$BUILD"/scheduler/{problem,packing,machine,segment,optimizer}/*.a \
        "$BUILD"/layout/{algebra,moves,primitives,plan}/*.a "$BUILD"/compiler/{tensor,graph,layers,tile,kernels}/*.a |
      awk '$2 == "T" {print $3}' | grep -E "^_ZNK?6kodama$spaces" | sort -u > declared.txt
    [ "$(wc -l < declared.txt)" -gt 100 ] || fail "no symbols found"
    missing=$(comm -23 declared.txt exported.txt | c++filt)
    [ -z "$missing" ] || fail "not exported: $missing"
    ! grep -E '^_ZNK?6kodama' exported.txt | grep -vE "^_ZNK?6kodama($spaces|9simulator(13register_pass|12dram_targets))" ||
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
    # Its headers are read once for all that are wrong.
    grep '^#include' "$here/move_primitive.cpp" > first.h
    build_plugin first.h first.h.gch -x c++-header
    build_plugin "$here/move_primitive.cpp" libprimitive.so
    convert 0
    expect_text "path: word-by-word"
    expect_text "simulated: every element is in its place"
    expect_exit 0 "$KODAMA" passes --plugin ./libprimitive.so
    expect_text "word-by-word             the word bit <-> an address bit, word by word (plugin ./libprimitive.so)"
    wrong() {
      build_plugin "$here/move_primitive.cpp" libprimitive.so -include ./first.h "-DWRONG=$1"
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
  graph_pass)
    install_headers
    build_plugin "$examples/relu_pass.cpp" librelu.so
    /usr/bin/python3 "$here/make_relus.py" relus.onnx
    expect_exit 0 "$KODAMA" run relus.onnx --chip tiny
    expect_text "Neg+Relu+Relu "
    without=$(results | grep '^y ')
    expect_exit 0 "$KODAMA" run relus.onnx --chip tiny --plugin ./librelu.so --dump-after merge-relus
    expect_text "Neg+Relu "
    [ "$(results | grep '^y ')" = "$without" ] || fail "other results than without the plugin: $output"
    [ -n "$(ls kodama-dump/*.merge-relus.relus.onnx)" ] || fail "no dump"
    expect_exit 0 "$KODAMA" passes --plugin ./librelu.so
    expect_text "fold-constants, merge-relus, fold-batch-normalization"
    expect_text "the Relu of a Relu is that Relu, after fold-constants (plugin ./librelu.so)"
    ;;
  planner)
    install_headers
    build_plugin "$examples/descent_planner.cpp" libplanner.so
    run_tiny 0 --plugin ./libplanner.so --planner descent --pass-option descent-rounds=2
    expect_text "planner descent: "
    expect_text ": ok"
    run_tiny 2 --plugin ./libplanner.so --planner descent --pass-option descent-rounds=0
    expect_text "option descent-rounds: found '0', allowed: a whole number from 1"
    run_tiny 2 --plugin ./libplanner.so --pass-option descent-rounds=1
    expect_text "found pass option 'descent-rounds', allowed for the chosen passes"
    expect_exit 0 "$KODAMA" plan "$model" --chip tiny --plugin ./libplanner.so --pass-option descent-rounds=1
    expect_text "descent "
    expect_exit 2 "$KODAMA" plan "$model" --chip tiny --planner descent
    expect_text "there is no planner 'descent'; allowed are pbqp, greedy, first, host"
    ;;
  packer)
    install_headers
    build_plugin "$examples/longest_first_packer.cpp" libpacker.so
    printf 'id,lower,upper,size\na,0,4,8\nb,2,6,4\nc,4,8,8\nd,0,2,4\n' > four.12.csv
    expect_exit 0 "$KODAMA" pack four.12.csv --plugin ./libpacker.so --packer longest-first
    expect_text "solved (the longest lives first)"
    expect_exit 0 "$KODAMA" bench packing --plugin ./libpacker.so --packer longest-first --count 5
    expect_exit 2 "$KODAMA" pack four.12.csv --packer longest-first
    expect_text "found packer 'longest-first', allowed: "
    ;;
  kernel)
    install_headers
    build_plugin "$examples/one_tile_kernel.cpp" libkernel.so
    /usr/bin/python3 "$here/make_relus.py" relus.onnx
    expect_exit 0 "$KODAMA" run relus.onnx --chip tiny
    without=$(results | grep '^y ')
    expect_exit 0 "$KODAMA" run relus.onnx --chip tiny --plugin ./libkernel.so --pass-option one-tile-percent=1 --json run.json
    [ "$(results | grep '^y ')" = "$without" ] || fail "other results than without the plugin: $output"
    expect_text ": ok"
    grep -q '"kernel": "map-one-tile"' run.json || fail "the kernel isn't chosen"
    expect_exit 0 "$KODAMA" passes --plugin ./libkernel.so
    expect_text "Map: element-wise layers in one piece (plugin ./libkernel.so)"
    # A network with layers that don't fit into one tile, or that are of other kinds; the package needs no plugin.
    expect_exit 0 "$KODAMA" compile "$SOURCE/testsuite/models/mnist8/model.onnx" --chip tiny --plugin ./libkernel.so -o package
    expect_exit 0 "$KODAMA" sim package
    ;;
  change)
    install_headers
    build_plugin "$examples/copies_change.cpp" libcopies.so
    # Two readers of a copy: only one of them can come right behind it.
    printf 'fvadd $lm0v $lm0v $lr16v\nnop/4\nlpassa $lr16v $ln8v\nnop/4\nfvadd $ln8v $ls8v $lm0v\nfvadd $ln8v $ls16v $lm8v\n' > in.vsm
    expect_exit 0 "$KODAMA" opt in.vsm -o out.vsm
    expect_text "12 steps before, 5 after"
    expect_exit 0 "$KODAMA" opt in.vsm -o out.vsm --plugin ./libcopies.so
    expect_text "12 steps before, 4 after"
    expect_text "0 values renamed, 1 by 'copies'"
    expect_exit 0 "$KODAMA" opt --fuzz 40 --plugin ./libcopies.so
    expect_exit 0 "$KODAMA" passes --plugin ./libcopies.so
    expect_text "who reads a copy reads the original (plugin ./libcopies.so)"
    ;;
  bad_passes)
    install_headers
    build_plugin "$here/bad_passes.cpp" libbad.so
    /usr/bin/python3 "$here/make_relus.py" relus.onnx
    bad() {
      expect_exit 70 "$KODAMA" run relus.onnx --chip tiny --plugin ./libbad.so --pass-option bad="$1" "${@:3}"
      expect_text "of plugin ./libbad.so is at fault: "
      expect_text "$2"
      expect_no_text "bug in kodama"
      echo "$1: $output" | tail -1
    }
    expect_exit 0 "$KODAMA" run relus.onnx --chip tiny --plugin ./libbad.so --planner bad-planner
    bad graph-throws "graph pass 'bad-graph' of plugin ./libbad.so is at fault: it throws: a bug of the plugin"
    bad graph-invalid "the pass left an invalid model: "
    bad graph-interface "graph pass 'bad-graph'"
    bad graph-value "output 'y' is another: on random inputs, max abs "
    bad plan-size "planner 'bad-planner' of plugin ./libbad.so is at fault: its plan is wrong: " --planner bad-planner
    bad plan-range "candidate 1000 of node " --planner bad-planner
    bad plan-cost "the cost is " --planner bad-planner
    bad plan-bound "no plan is cheaper than " --planner bad-planner
    bad kernel-streams "kernel 'bad-kernel' of plugin ./libbad.so is at fault: "
    expect_text "the streams aren't those of the layer's operands"
    bad kernel-layout "stream 'x0': the "
    bad kernel-emit "a candidate without emit"
    bad kernel-tiles "verify_tile_program"
    expect_exit 1 "$KODAMA" run relus.onnx --chip tiny --plugin ./libbad.so --pass-option bad=kernel-value
    expect_text "by kernel 'bad-kernel' of plugin ./libbad.so: max abs "
    printf 'id,lower,upper,size\na,0,4,8\nb,2,6,4\n' > two.12.csv
    expect_exit 70 "$KODAMA" pack two.12.csv --plugin ./libbad.so --packer bad-packer
    expect_text "packer 'bad-packer' of plugin ./libbad.so is at fault: "
    expect_text "buffers 'a' [0, 8) and 'b' [0, 4) overlap at moment 2"
    printf '%s\n' 'lpassa $lm0v $lr0v' 'ilsl $ln8v $ln8v $ls8v' 'lpassa $lm0v $lr16v' 'ilsl $ln8v $ln8v $ls16v' nop > in.vsm
    expect_exit 0 "$KODAMA" opt in.vsm -o out.vsm --plugin ./libbad.so
    for what in range throws value; do
      expect_exit 70 "$KODAMA" opt in.vsm -o out.vsm --plugin ./libbad.so --pass-option bad=change-$what
      expect_text "opt change 'bad-change' of plugin ./libbad.so is at fault: "
      echo "$output"
    done
    expect_text "the program does something else with it: "
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
    # Read once for all of them.
    printf '#include "%s"\n' passes/plugin.h scheduler/problem/schedule_problem.h > registers.h
    build_plugin registers.h registers.h.gch -x c++-header
    registers() {
      echo '#include "registers.h"'
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
