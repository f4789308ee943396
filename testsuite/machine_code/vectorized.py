#!/usr/bin/env python3
"""Looks at what the compiler made of the engine's ALU kernels: vectorized.py LIBRARY

Every kernel of a target with wide vectors has to store its results as whole vectors, once for its values and, as the
flags are bytes, the narrower ones for those. A loop that the vectorizer gave up stores words, and is five to ten
times slower without a word from the compiler.
"""

import re
import subprocess
import sys

# Target of Highway -> the registers of its stores.
WIDE = {"AVX2": "[yz]mm", "AVX3": "[yz]mm"}

KERNEL = re.compile(r"N_(\w+?)::\(anonymous namespace\)::alu<(.*)>\(")


def main() -> int:
    listing = subprocess.run(["objdump", "--disassemble", "--demangle", "--no-show-raw-insn", sys.argv[1]],
                             check=True, capture_output=True, text=True).stdout
    vector_stores: dict[tuple[str, str], int] = {}
    kernel = None
    for line in listing.splitlines():
        if line.endswith(">:"):
            found = KERNEL.search(line)
            kernel = (found[1], found[2].replace(f"kodama::simulator::N_{found[1]}::(anonymous namespace)::", "")) \
                if found and found[1] in WIDE else None
            if kernel:
                vector_stores.setdefault(kernel, 0)
        elif kernel and re.search(rf"\tv?mov[dua]\w*\s+%{WIDE[kernel[0]]}\d+,[^%,]*\(", line):
            vector_stores[kernel] += 1
    scalar = sorted(kernel for kernel, stores in vector_stores.items() if stores == 0)
    for target, name in scalar:
        print(f"{target}: {name} is not vectorized")
    print(f"{len(vector_stores) - len(scalar)} of {len(vector_stores)} ALU kernels are vectorized")
    return 1 if scalar or not vector_stores else 0


if __name__ == "__main__":
    sys.exit(main())
