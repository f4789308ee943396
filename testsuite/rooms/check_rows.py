#!/usr/bin/python3
"""check_rows.py ROOT: what an L1BM, L2BM or MV instruction moves is known to its row alone.

Fails on a source of isa/, assembler/ or simulator/ that names the opcode of such an instruction, but for tests, benchmarks and
the golden model, which has words of its own.
"""
import pathlib
import re
import sys

FOLDERS = ("isa", "assembler", "simulator")


def main():
    root = pathlib.Path(sys.argv[1])
    rows = (root / "isa/instruction_rows.def").read_text()
    movers = re.findall(r"INSTRUCTION\(\s*(k(?:L1bm|L2bm|Mv)\w*)", rows)
    if len(movers) < 20:
        sys.exit("check_rows.py: the rows of the instruction table are not where they were")
    name = re.compile(r"Opcode::(%s)\b" % "|".join(movers))
    faults = []
    for folder in FOLDERS:
        for source in sorted((root / folder).rglob("*")):
            if source.suffix not in (".h", ".cpp") or re.search(r"_(test|bench)\.", source.name):
                continue
            if "golden" in source.parts:
                continue
            for number, line in enumerate(source.read_text().splitlines(), 1):
                found = name.search(line)
                if found:
                    faults.append(f"{source.relative_to(root)}:{number}: {found[1]}: ask its row instead")
    if faults:
        sys.exit("\n".join(faults))
    print(f"{len(movers)} instructions that move data are known by their rows")


main()
