#!/usr/bin/python3
"""check_includes.py ROOT: holds the direction of #include between the folders, what the commands on the library see, the map of docs/overview.md,
and the length of sources.

Fails on an include that the table doesn't allow, on one that names no file from the root, on a folder with sources
that is not in the table, on a permission that nobody uses, and on a source that is too long.
"""
import collections
import os
import pathlib
import re
import sys

# Folder: what its sources may include besides it; after '|' what its tests and benchmarks may besides. The order is the
# direction: a row may name only rows above it, but for tests.
TABLE = """
isa:
passes: isa
assembler: isa
simulator/timing: isa passes
simulator/engine/kernels: isa
simulator: isa assembler simulator/timing | simulator/golden simulator/engine/kernels docs/examples
simulator/engine: isa simulator simulator/engine/kernels simulator/timing
simulator/golden: isa assembler simulator
simulator/debug: isa assembler simulator
host/include:
host: isa assembler simulator host/include
host/tests:
layout/algebra: isa
layout/bound: isa layout/algebra
layout/moves: isa passes layout/algebra
layout/primitives: isa passes layout/moves
layout/search: isa passes layout/algebra layout/bound layout/moves layout/primitives
layout/gather: isa layout/moves
layout/plan: isa passes
scheduler/problem: isa passes
scheduler/packing: isa passes scheduler/problem
scheduler/recompute: isa passes scheduler/problem scheduler/packing
scheduler/machine: isa passes scheduler/problem scheduler/packing | scheduler/verify scheduler/pipeline
scheduler/segment: isa passes scheduler/problem | assembler scheduler/verify
scheduler/optimizer: isa passes scheduler/problem scheduler/machine | assembler
scheduler/verify: isa scheduler/machine scheduler/segment
scheduler/pipeline: isa passes scheduler/problem scheduler/machine scheduler/verify
checks: isa passes assembler layout/moves layout/search scheduler/problem scheduler/optimizer simulator simulator/debug | layout/gather scheduler/verify simulator/golden
compiler/tensor: isa
compiler/reference/kernels: compiler/tensor
compiler/proto: isa compiler/tensor
compiler/reference: compiler/tensor compiler/proto compiler/reference/kernels
compiler/graph: isa passes compiler/reference compiler/tensor compiler/proto compiler/reference/kernels
compiler/graph/gradient: isa compiler/graph compiler/reference compiler/tensor compiler/proto
compiler/layers: isa compiler/tensor compiler/reference/kernels
compiler/lowering: compiler/graph compiler/reference compiler/reference/kernels compiler/tensor compiler/layers compiler/proto
compiler/streams: isa layout/algebra compiler/tensor compiler/layers
compiler/package: isa assembler scheduler/machine scheduler/segment compiler/reference/kernels compiler/layers compiler/streams | compiler/graph compiler/compile
compiler/tile: isa layout/algebra scheduler/machine compiler/layers compiler/streams
compiler/kernels: isa passes layout/algebra scheduler/machine compiler/tensor compiler/layers compiler/streams compiler/tile | compiler/lowering scheduler/pipeline simulator
compiler/plan: isa layout/gather layout/search layout/plan compiler/layers compiler/streams compiler/package compiler/tile compiler/kernels | compiler/graph compiler/lowering
compiler/compile: isa passes scheduler/packing scheduler/machine scheduler/segment scheduler/pipeline scheduler/verify compiler/graph compiler/kernels compiler/layers compiler/lowering compiler/package compiler/tile compiler/plan compiler/tensor
compiler/recompute: isa scheduler/recompute compiler/graph compiler/graph/gradient compiler/reference compiler/plan compiler/compile
compiler/runtime: isa simulator compiler/tensor compiler/reference/kernels compiler/streams compiler/package | scheduler/problem scheduler/machine scheduler/pipeline compiler/graph compiler/compile
compiler/report/page:
compiler/report: isa simulator layout/algebra compiler/kernels compiler/plan compiler/runtime compiler/report/page compiler/streams compiler/package
compiler/dynamic: isa passes layout/search compiler/tensor compiler/graph compiler/reference compiler/compile compiler/runtime compiler/report compiler/proto compiler/package
compiler/driver: isa scheduler/problem scheduler/machine compiler/tensor compiler/graph compiler/graph/gradient compiler/layers compiler/reference compiler/plan compiler/compile compiler/recompute compiler/runtime compiler/report compiler/dynamic compiler/proto compiler/package compiler/lowering
builder: isa compiler/tensor compiler/reference compiler/graph compiler/graph/gradient compiler/proto compiler/reference/kernels | compiler/driver
builder/generate:
builder/example: builder
library/include/kodama: isa
library/runtime: isa simulator compiler/tensor compiler/package compiler/runtime
library: isa passes assembler simulator simulator/debug compiler/tensor compiler/reference compiler/graph compiler/graph/gradient compiler/kernels compiler/compile compiler/runtime compiler/report compiler/dynamic compiler/driver compiler/package compiler/proto library/runtime
library/example:
tools/help: isa
tools: isa passes simulator compiler/report compiler/driver tools/help
tools/commands: isa assembler simulator simulator/golden simulator/debug layout/algebra layout/bound layout/primitives layout/search layout/plan scheduler/problem scheduler/packing scheduler/recompute scheduler/machine scheduler/optimizer checks compiler/graph compiler/package compiler/report compiler/driver tools/help tools
python/module: isa passes assembler simulator layout/algebra layout/bound layout/search layout/plan scheduler/problem scheduler/packing scheduler/recompute checks compiler/graph compiler/graph/gradient compiler/driver library tools
docs/examples: isa passes simulator/timing layout/plan scheduler/problem scheduler/packing scheduler/optimizer compiler/graph compiler/kernels
testsuite/fuzz: isa assembler simulator simulator/debug scheduler/problem scheduler/packing compiler/graph compiler/package
testsuite/plugin: passes layout/moves layout/primitives layout/plan scheduler/problem scheduler/packing scheduler/machine scheduler/optimizer compiler/graph compiler/kernels
testsuite/real: | isa compiler/tensor compiler/graph compiler/compile compiler/runtime compiler/report compiler/proto compiler/reference
testsuite/robustness:
"""
# Commands that use the library alone, as programs outside of the project do: of the compiler they see nothing, nor do the headers that they include.
ON_LIBRARY = ["tools/commands/run_command.cpp", "tools/commands/sim_command.cpp", "tools/commands/result_text.cpp", "tools/commands/result_text.h"]
HIDDEN = ("compiler/", "scheduler/", "layout/", "simulator/", "assembler/", "library/")
MOST_LINES = 1000
GENERATED = {"passes/plugin_abi.h", "builder/operators.h"}  # by the build, from public headers and ONNX's schemas

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def is_test(path):
    return re.search(r"(_test|_bench)\.cpp$|/(\w+_)?test_\w+\.h$|_test(_util)?\.h$", path) is not None


def read_table():
    allowed = {}
    for line in TABLE.strip().splitlines():
        folder, _, rest = line.partition(":")
        always, _, in_tests = rest.partition("|")
        for target in always.split():
            if target not in allowed and target != folder:
                sys.exit(f"table: {folder} names {target}, which is not above it")
        allowed[folder] = (set(always.split()), set(in_tests.split()))
    return allowed


def sources(root):
    for folder, inside, files in os.walk(root):
        inside[:] = [name for name in inside if not re.fullmatch(r"\..*|build([-_].*)?", name)]
        relative = pathlib.Path(folder).relative_to(root)
        for name in files:
            if name.endswith((".h", ".cpp")):
                yield (relative / name).as_posix()


def all_includes(root, name, seen):
    """(file, line, included): of the file and all headers that it includes."""
    if name in seen:
        return
    seen.add(name)
    text = (root / name).read_text()
    for match in INCLUDE.finditer(text):
        included = match.group(1)
        yield name, text.count("\n", 0, match.start()) + 1, included
        if (root / included).is_file():
            yield from all_includes(root, included, seen)


def main():
    root = pathlib.Path(sys.argv[1])
    allowed = read_table()
    used = collections.defaultdict(set)
    errors = []
    for name in sorted(sources(root)):
        folder = name.rpartition("/")[0]
        text = (root / name).read_text()
        length = text.count("\n")
        if length > MOST_LINES:
            errors.append(f"{name}: {length} lines; allowed are {MOST_LINES}: it has several subjects")
        if folder not in allowed:
            errors.append(f"{name}: folder {folder} is not in the table of testsuite/rooms/check_includes.py")
            continue
        always, in_tests = allowed[folder]
        for match in INCLUDE.finditer(text):
            included = match.group(1)
            target = included.rpartition("/")[0]
            line = text.count("\n", 0, match.start()) + 1
            if included in GENERATED:
                continue
            if not (root / included).is_file():
                errors.append(f"{name}:{line}: {included} is not a file, seen from the root of the project")
            elif target == folder:
                continue
            elif target in always:
                used[folder, False].add(target)
            elif target in in_tests and is_test(name):
                used[folder, True].add(target)
            else:
                may = sorted(always | (in_tests if is_test(name) else set()))
                errors.append(f"{name}:{line}: {folder} may not include {target}; it may: {', '.join(may) or 'nothing'}")
    for command in ON_LIBRARY:
        if not (root / command).is_file():
            errors.append(f"table: there is no {command}")
            continue
        for name, line, included in all_includes(root, command, set()):
            if included.startswith(HIDDEN):
                errors.append(f"{name}:{line}: {command} may use only the library; it sees {included}")
    for folder, permissions in allowed.items():
        if not (root / folder).is_dir():
            errors.append(f"table: there is no folder {folder}")
        for tests, targets in enumerate(permissions):
            for target in sorted(targets - used[folder, bool(tests)]):
                where = "tests of " if tests else ""
                errors.append(f"table: {where}{folder} may include {target}, which it doesn't use")
    overview = (root / "docs/overview.md").read_text()
    listed = re.findall(r"^\| `([^`]+)/` \|", overview, re.MULTILINE)
    expected = [folder for folder in allowed if not folder.startswith(("docs/", "testsuite/"))]
    if [folder for folder in listed if folder != "testsuite"] != expected:
        errors.append(f"docs/overview.md: the map of folders has {', '.join(listed)}; expected, in this order: {', '.join(expected)}")
    print("\n".join(errors) if errors else f"{len(allowed)} folders include in one direction")
    return 1 if errors else 0


sys.exit(main())
