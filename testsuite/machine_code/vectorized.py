#!/usr/bin/env python3
"""Looks at what the compiler made of the engine's kernels: vectorized.py LIBRARY, or --damaged COMPILER

For every target that has vectors:

- Each kernel stores vectors in a loop; those of the ALU, whose loops the compiler vectorizes, the widest ones.
- No innermost loop works on memory beyond the stack without vectors: that is a loop over elements. Calls of memset
  and the like, and of functions that are looked at themselves, count as vectors.
- No loop has floating-point arithmetic on one element.

A loop that the vectorizer gave up is five to ten times slower without a word from the compiler.

With --damaged the check is checked: it has to find what is wrong with kernels compiled here.
"""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile

# Target of Highway -> the registers of its stores of whole vectors.
WIDE = {"SSE4": "x", "AVX2": "[yz]", "AVX3": "[yz]"}

# Kernels beside those of the ALU, which are instances of alu<>. Each has to be there.
KERNELS = """
    rotate_pes zero_all bfn_float bfn_gfloat bfn_half bfn_double
    vector_mau vector_double
    decode_float decode_gfloat decode_half decode_double
    matrix_float matrix_gfloat matrix_half matrix_double half_cycle_in_double
    sign_flags flip widen_half widen_float narrow_float copy_rows masked_copy
    sum_fours sum_rows
    deal_longs collect_longs gather spread_longs
""".split()
FEWEST_ALU_KERNELS = 100

# Functions that run once, or for the few lanes that no vector code is for.
NO_KERNELS = re.compile(r"add_\w+_kernels|get_table|rare_lanes")

# Target, function, complaint, why it may be so.
ALLOWED = [
    ("SSE4", r"\balu<.*\b(OpLsl|OpLsr|OpLsrU|OpBsl|OpBsr|OpFloor|OpFtoi|OpFtoiU)<", "a loop over elements",
     "SSE4 has no shift of lanes by counts of their own"),
    ("SSE4", r"^sign_flags\(", "stores no vectors", "four lanes have four bytes of flags"),
] + [
    (target, r"^gather\(", "a loop over elements", "lanes with addresses of their own: pairs of loads take 3/4 of vpgatherdd's time")
    for target in ("SSE4", "AVX2", "AVX3")
]

# What --damaged compiles: the bodies of loops over i < n, and what is to be found about each.
DAMAGED = {
    "alu<int>": ("out[i] = in[i] ^ pattern;", None),
    "flip": ("out[i] = in[i] + pattern;", None),
    "integers": ("out[i] = out[i - 1] * 3 ^ in[i];", "a loop over elements"),
    "floats": ("numbers[i] = numbers[i - 1] * numbers[i];", "in a loop"),
    "calls": ("out[i] = one(in[i]);", "a loop over elements"),
    "bytes": ("out[i] = table[in[i] & 15];", "a loop over elements"),
    "single": ("if (i == 0) out[i] = pattern;", "stores no vectors"),
    "mixed": ("out[i] = in[i] ^ pattern; } for (int i = 1; i < n; ++i) { out[i] = out[i - 1] * 3 ^ in[i];",
              "a loop over elements"),
}

FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\t(?:(?:notrack|bnd|rep|repz|repnz|data16|lock) )*(\S+)\s*([^#<]*)(.*)")
RELOCATION = re.compile(r"^\s+[0-9a-f]+: R_\w+\s+(.*)")
SCALAR_FLOAT = re.compile(r"v?(add|sub|mul|div|sqrt|min|max|u?comi|cvt|round|fn?m(add|sub))\w*s[sd]$")
# Of vector registers, but for one element. Eight bytes of one are two.
ONE_ELEMENT = re.compile(r"v?(movd|pextr\w|pinsr\w|\w+s[sd])$")

# symbol: what a jump or a call names.
Instruction = collections.namedtuple("Instruction", "address name operands symbol")


def is_vector(i, target):
    if i.name == "call":
        return re.match(r"mem(set|cpy|move)\b", i.symbol) or f"::N_{target}::" in i.symbol
    return re.search(r"%[xyz]mm", i.operands) is not None and not ONE_ELEMENT.match(i.name)


def stores_vector(i, registers):
    if i.name == "call":
        return re.match(r"mem(set|cpy|move)\b", i.symbol)
    is_move = re.match(r"vp?mov\w+$|mov\w+$", i.name)
    return is_move and not ONE_ELEMENT.match(i.name) and re.match(rf"%{registers}mm\d+,[^%,]*\((?!%rsp)", i.operands)


def touches_memory(i):
    """Beyond the stack."""
    if i.name.startswith(("lea", "nop", "prefetch", "j", "call")):
        return False
    return re.search(r"\((?!%rsp|%rbp)", i.operands) is not None


def blocks_of(body):
    """Basic blocks of a function: first address -> (instructions, addresses of followers)."""
    known = {i.address for i in body}
    targets = {}
    for i in body:
        if i.name.startswith("j") and re.match(r"[0-9a-f]+$", i.operands):
            target = int(i.operands, 16)
            targets[i.address] = target if target in known else None
    starts = {body[0].address} | {t for t in targets.values() if t is not None}
    blocks, block = {}, []
    for i, after in zip(body, body[1:] + [None]):
        block.append(i)
        is_jump = i.name.startswith("j") or i.name.startswith("ret")
        if not is_jump and after is not None and after.address not in starts:
            continue
        followers = [targets[i.address]] if targets.get(i.address) is not None else []
        if after is not None and not i.name.startswith(("jmp", "ret", "ud2")):
            followers.append(after.address)
        blocks[block[0].address] = (block, followers)
        block = []
    return blocks


def components(nodes, followers):
    """Strongly connected sets of nodes that are loops (Tarjan, without recursion)."""
    index, low, on_stack, stack, found = {}, {}, set(), [], []
    for root in sorted(nodes):
        if root in index:
            continue
        work = [(root, iter(followers(root)))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in nodes:
                    continue
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(followers(other))))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    members = set()
                    while node not in members:
                        members.add(stack.pop())
                    on_stack -= members
                    if len(members) > 1 or node in followers(node):
                        found.append(members)
    return found


def loops_of(blocks):
    """Sets of blocks, each with whether it has no other loop in it."""
    followers = lambda node: blocks[node][1]
    result, pending = [], [set(blocks)]
    while pending:
        nodes = pending.pop()
        for loop in components(nodes, followers):
            entries = {f for b in blocks if b not in loop for f in followers(b) if f in loop} or loop
            inner = loop - {min(entries)}
            result.append((loop, not components(inner, followers)))
            pending.append(inner)
    return result


def functions_of(library):
    """(target, name, instructions) of every function that is compiled for a target with vectors."""
    listing = subprocess.run(["objdump", "--disassemble", "--reloc", "--demangle", "--no-show-raw-insn", library],
                             check=True, capture_output=True, text=True).stdout
    found, body = [], None
    for line in listing.splitlines():
        start = FUNCTION.match(line)
        if start:
            target = re.search(r"kodama::simulator::N_(\w+?)::", start[1])
            body = None
            if target and target[1] in WIDE:
                name = re.sub(r"^(void|unsigned int) |kodama::simulator::(N_\w+?::)?|\(anonymous namespace\)::", "", start[1])
                body = []
                found.append((target[1], name, body))
        elif body is not None and (i := INSTRUCTION.match(line)):
            body.append(Instruction(int(i[1], 16), i[2], i[3].strip(), i[4]))
        elif body and (relocation := RELOCATION.match(line)) and body[-1].name.startswith(("j", "call")):
            body[-1] = body[-1]._replace(symbol=relocation[1], operands="")
    return found


def complaints_about(target, body, registers):
    """`registers`: of the stores that it needs; None if it is no kernel."""
    blocks = blocks_of(body)
    loops = loops_of(blocks)
    inside = {b for loop, _ in loops for b in loop}
    in_loops = [i for b in inside for i in blocks[b][0]]
    if registers and not any(stores_vector(i, registers) for i in in_loops):
        yield "stores no vectors in a loop"
    for i in in_loops:
        if SCALAR_FLOAT.match(i.name):
            yield f"{i.name} in a loop, at {i.address:x}"
            break
    for loop, is_innermost in loops:
        code = [i for b in sorted(loop) for i in blocks[b][0]]
        if is_innermost and not any(is_vector(i, target) for i in code) and any(map(touches_memory, code)):
            yield f"a loop over elements, {len(code)} instructions at {code[0].address:x}"


def check(library, targets=tuple(WIDE), kernels=tuple(KERNELS), fewest_alu=FEWEST_ALU_KERNELS):
    """Prints and returns what is wrong."""
    errors, excused = [], 0
    seen = {target: collections.Counter() for target in targets}
    for target, name, body in functions_of(library):
        if NO_KERNELS.search(name) or not body:
            continue
        base = re.search(r"(\w+)[<(]", name)[1]
        is_kernel = (base == "alu" or base in kernels) and ".cold" not in name
        if is_kernel:
            seen[target][base] += 1
        registers = None if not is_kernel else WIDE[target] if base == "alu" else "[xyz]"
        for complaint in complaints_about(target, body, registers):
            if any(target == t and re.search(function, name) and what in complaint for t, function, what, _ in ALLOWED):
                excused += 1
            else:
                errors.append(f"{target}: {name.partition('(')[0]}: {complaint}")
    for target, counts in seen.items():
        errors += [f"{target}: there is no {kernel}" for kernel in kernels if counts[kernel] == 0]
        if counts["alu"] < fewest_alu:
            errors.append(f"{target}: {counts['alu']} ALU kernels; {fewest_alu} at least are expected")
    print("\n".join(sorted(errors) + [f"{sum(sum(counts.values()) for counts in seen.values())} kernels, "
                                      f"{len(errors)} complaints, {excused} allowed ones"]))
    return errors


FUNCTION_TEXT = """
void NAME(int n, const unsigned* __restrict in, unsigned* __restrict out, float* __restrict numbers, unsigned pattern) {
  (void)numbers, (void)pattern;
  for (int i = 1; i < n; ++i) { BODY }
}
"""
SOURCE_TEXT = """
unsigned one(unsigned);
extern const unsigned char table[16];
namespace kodama::simulator::N_AVX2 {
namespace { FUNCTIONS }
void* const kernels[] = { POINTERS };
const void* first(int k) { return kernels[k]; }
}
"""


def check_damaged(compiler):
    """Whether what is damaged is found, and nothing else."""
    functions = ""
    for name, (body, _) in DAMAGED.items():
        text = FUNCTION_TEXT.replace("NAME", name.partition("<")[0]).replace("BODY", body)
        functions += "template <class U>" + text if "<" in name else text
    pointers = ", ".join(f"(void*)&{name}" for name in DAMAGED)
    with tempfile.TemporaryDirectory() as folder:
        source, library = pathlib.Path(folder, "damaged.cpp"), pathlib.Path(folder, "damaged.o")
        source.write_text(SOURCE_TEXT.replace("FUNCTIONS", functions).replace("POINTERS", pointers))
        subprocess.run([compiler, "-std=c++20", "-O3", "-mavx2", "-c", source, "-o", library], check=True)
        errors = check(library, ["AVX2"], [name for name in DAMAGED if "<" not in name] + ["missing"], 2)
    expected = [(f"AVX2: {name}:", complaint) for name, (_, complaint) in DAMAGED.items() if complaint]
    expected += [("AVX2: there is no missing", ""), ("AVX2: 1 ALU kernels", "")]
    wrong = [f"not expected: {error}" for error in errors if not any(error.startswith(start) for start, _ in expected)]
    wrong += [f"not found: {start} {complaint}" for start, complaint in expected
              if not any(error.startswith(start) and complaint in error for error in errors)]
    print("\n".join(wrong or ["all of them expected"]))
    return not wrong


def main() -> int:
    if sys.argv[1] == "--damaged":
        return 0 if check_damaged(sys.argv[2]) else 1
    return 1 if check(sys.argv[1]) else 0


if __name__ == "__main__":
    sys.exit(main())
