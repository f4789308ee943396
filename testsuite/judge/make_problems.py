#!/usr/bin/env python3
"""Writes the problems of this directory: NAME/test.vsm and NAME/answer.vsm.

The expected values are computed here from what the problem asks, the answers are written by hand against the ISA page;
neither comes from a simulator. Run it after a change and commit what it writes.
"""

import math
import os
import random
import struct
import sys

# Where to write; another folder to compare with what is committed.
ROOT = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
MARKER = "# ======= YOUR VSM WILL BE INSERTED HERE ======="
OUTPUT = "# ======= Output ======="
GROUPS, L2BS, L1BS, MABS, PES = 4, 2, 8, 16, 4  # mncore2


# --- number formats ---------------------------------------------------------------------------------------------


def float_bits(x):
    return struct.unpack(">I", struct.pack(">f", x))[0]


def double_bits(x):
    return struct.unpack(">Q", struct.pack(">d", x))[0]


def half_bits(x):
    """1-6-9, for numbers that it holds exactly."""
    if x == 0:
        return 0
    mantissa, exponent = math.frexp(abs(x))  # 0.5 <= mantissa < 1
    field = (mantissa * 2 - 1) * 512
    assert field == int(field) and 0 < exponent - 1 + 31 < 63, x
    return (0x8000 if x < 0 else 0) | (exponent - 1 + 31) << 9 | int(field)


def pack(lanes, bits):
    """Lanes of `bits` bits, the first on top, as long words."""
    per_word = 64 // bits
    assert len(lanes) % per_word == 0
    words = []
    for i in range(0, len(lanes), per_word):
        word = 0
        for lane in lanes[i : i + per_word]:
            word = word << bits | lane & ((1 << bits) - 1)
        words.append(word)
    return words


def longs(values):
    return pack(values, 64)


def ints(values):
    return pack(values, 32)


def floats(values):
    return pack([float_bits(v) for v in values], 32)


def doubles(values):
    return pack([double_bits(v) for v in values], 64)


def halves(values):
    return pack([half_bits(v) for v in values], 16)


# --- problems ---------------------------------------------------------------------------------------------------

PE0 = "n0c0b0m0p0"
L1B0 = "n0c0b0"
problems = []


class Problem:
    def __init__(self, name, description, chip=None):
        self.name, self.description, self.chip = name, description, chip
        self.inputs, self.outputs = [], []
        self.code = ""
        self.random = random.Random(name)
        problems.append(self)

    def set(self, place, words):
        for i in range(0, len(words), 64):  # lines of readable length
            part = words[i : i + 64]
            self.inputs.append(f"d set {shifted(place, i)} {len(part)} " + "".join(f"{w:016X}" for w in part))

    def preload(self, group, address, words):
        for i in range(0, len(words), 64):
            part = words[i : i + 64]
            text = "".join(f"{w:016X}" for w in part)
            self.inputs.append(f"r {group} {address + i:09X} {len(part):03X} {text}")

    def get(self, place, values, kind, letter="d", options=""):
        lanes = {"Int": 2, "UInt": 2, "Float": 2, "Half": 4, "Short": 4}.get(kind, 1)
        count = -(-len(values) // lanes)
        text = ", ".join("_" if v is None else number(v) for v in values)
        self.outputs.append(f"d get{letter} {place} {count} # expect=[{text}] / {kind}{options and ' ' + options}")

    def answer(self, code):
        self.code = "\n".join(line.strip() for line in code.strip().split("\n")) + "\n"

    def write(self):
        folder = os.path.join(ROOT, self.name)
        os.makedirs(folder, exist_ok=True)
        head = [f"# {line}" for line in self.description.split("\n")]
        if self.chip:
            head.append(f"# chip={self.chip}")
        text = "\n".join(head + self.inputs + [MARKER, OUTPUT] + self.outputs) + "\n"
        for file, content in (("test.vsm", text), ("answer.vsm", self.code)):
            with open(os.path.join(folder, file), "w", encoding="ascii") as out:
                out.write(content)


def number(value):
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else ("-inf" if value < 0 else "inf")
    return str(value)


def shifted(place, words):
    """The place `words` long words further on."""
    if words == 0:
        return place
    space = place[: 3 if place[1] in "l" else 2]
    digits = ""
    for c in place[len(space) :]:
        if not c.isdigit():
            break
        digits += c
    unit = 2 if space in ("$lm", "$ln", "$lr", "$ls") else 1
    return f"{space}{int(digits) + unit * words}{place[len(space) + len(digits):]}"


def signed(value, bits):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


# One PE ---------------------------------------------------------------------------------------------------------

p = Problem("pe_add", "Add eight ints of LM0 and LM1, into GRF0. Sums wrap.")
a = [p.random.randint(-(2**31), 2**31 - 1) for _ in range(8)]
b = [p.random.randint(-(2**31), 2**31 - 1) for _ in range(8)]
p.set(f"$lm0{PE0}", ints(a))
p.set(f"$ln0{PE0}", ints(b))
p.get(f"$lr0{PE0}", [signed(x + y, 32) for x, y in zip(a, b)], "Int")
p.answer("iadd $lm0v $ln0v $lr0v")

p = Problem("pe_multiply_add", "x * y + z of eight floats: x in LM0, y in LM1, z in GRF0; the result goes to GRF1.")
x = [p.random.randint(-1000, 1000) / 8 for _ in range(8)]
y = [p.random.randint(-1000, 1000) / 4 for _ in range(8)]
z = [p.random.randint(-1000, 1000) / 2 for _ in range(8)]
p.set(f"$lm0{PE0}", floats(x))
p.set(f"$ln0{PE0}", floats(y))
p.set(f"$lr0{PE0}", floats(z))
p.get(f"$ls0{PE0}", [i * j + k for i, j, k in zip(x, y, z)], "Float", "f")
p.answer("fvfma $lm0v $ln0v $lr0v $ls0v")

p = Problem("pe_polynomial", "2 x^3 - 3 x^2 + x - 5 of eight floats in LM0, by Horner's rule, into LM1.")
x = [p.random.randint(-40, 40) / 4 for _ in range(8)]
p.set(f"$lm0{PE0}", floats(x))
p.get(f"$ln0{PE0}", [2 * v**3 - 3 * v**2 + v - 5 for v in x], "Float", "f")
p.answer("""
    imm f"2.0" $lr0
    imm f"-3.0" $ls0
    imm f"1.0" $ls2
    imm f"-5.0" $ls4
    fvfma $lm0v $lr0 $ls0 $nowrite
    fvfma $lm0v $mauf $ls2 $nowrite
    fvfma $lm0v $mauf $ls4 $ln0v
""")

p = Problem("pe_relu", "max(x, 0) of eight floats in LM0, into LM1.")
x = [p.random.randint(-100, 100) / 16 for _ in range(8)]
p.set(f"$lm0{PE0}", floats(x))
p.get(f"$ln0{PE0}", [max(v, 0.0) for v in x], "Float", "f")
p.answer("frelu $lm0v $lm0v $ln0v")

p = Problem("pe_clamp", "Eight floats of LM0 limited to [-1, 1], into LM1.")
x = [p.random.randint(-40, 40) / 16 for _ in range(6)] + [float("inf"), float("-inf")]
p.set(f"$lm0{PE0}", floats(x))
p.get(f"$ln0{PE0}", [min(max(v, -1.0), 1.0) for v in x], "Float", "f")
p.answer("""
    imm f"-1.0" $ls0
    imm f"1.0" $lr0
    nop
    fmax $lm0v $ls0 $nowrite
    fmin $aluf $lr0 $ln0v
""")

p = Problem("pe_absolute", "The magnitudes of sixteen halves in LM0, into LM1.")
x = [p.random.randint(-100, 100) / 32 for _ in range(16)]
p.set(f"$lm0{PE0}", halves(x))
p.get(f"$ln0{PE0}", [abs(v) for v in x], "Half", "h")
p.answer("""
    immu us"0x7fff" $ls0
    imm ui"0x7fff7fff" $ls0
    nop/2
    sand $lm0v $ls0 $ln0v
""")

p = Problem("pe_argmax", "The largest of four longs in LM0 (GRF0 word 0), and the index of its first place, as an int in\nGRF1 word 0.")
x = [-7, 12, 3, 12]
p.set(f"$lm0{PE0}", longs(x))
p.get(f"$lr0{PE0}", [max(x)], "Long")
p.get(f"$ls0{PE0}", [x.index(max(x))], "Int")
p.answer("""
    lpassa $lm0 $lr0
    zero $ls0
    nop
    lsub $lm2 $lr0 $nowrite
    ldec $aluf $omr1
    lpassa $lm2 $lr0/$imr1
    imm i"1" $ls0/$imr1
    nop
    lsub $lm4 $lr0 $nowrite
    ldec $aluf $omr1
    lpassa $lm4 $lr0/$imr1
    imm i"2" $ls0/$imr1
    nop
    lsub $lm6 $lr0 $nowrite
    ldec $aluf $omr1
    lpassa $lm6 $lr0/$imr1
    imm i"3" $ls0/$imr1
""")

p = Problem("pe_dot_double", "The scalar product of two vectors of four doubles, LM0 and LM1, in every PE of MAB 0, into GRF0.")
for pe in range(4):
    x = [p.random.randint(-50, 50) / 2 for _ in range(4)]
    y = [p.random.randint(-50, 50) / 4 for _ in range(4)]
    place = f"n0c0b0m0p{pe}"
    p.set(f"$lm0{place}", doubles(x))
    p.set(f"$ln0{place}", doubles(y))
    p.get(f"$lr0{place}", [sum(i * j for i, j in zip(x, y))], "Double")
p.answer("\n".join(["zero $lr0"] + [f"""dvmulu $lm{k} $ln{k} $nowrite
    dvfmad $lm{k} $ln{k} $mauf $nowrite
    dvadd $mauf $lr0 $lr0""" for k in (0, 2, 4, 6)]))

p = Problem("pe_gather", "LM1 long word i = LM0 long word INDEX[i], for the four indices (longs) in GRF0.")
table = [p.random.getrandbits(64) for _ in range(16)]
index = [13, 0, 7, 7]
p.set(f"$lm0{PE0}", table)
p.set(f"$lr0{PE0}", longs(index))
p.get(f"$ln0{PE0}", [table[i] for i in index], "ULong")
p.answer("""
    lpassa $lr0v $ls0v
    nop
    ladd $lr0v $ls0v $t
    nop
    lpassa $lmt $ln0v
""")

p = Problem("pe_scatter", "LM0 long word INDEX[i] = LM1 long word i, for the four different indices (longs) in GRF0; the others stay.")
table = [p.random.getrandbits(64) for _ in range(8)]
values = [p.random.getrandbits(64) for _ in range(4)]
index = [6, 1, 0, 4]
p.set(f"$lm0{PE0}", table)
p.set(f"$ln0{PE0}", values)
p.set(f"$lr0{PE0}", longs(index))
result = list(table)
for i, v in zip(index, values):
    result[i] = v
p.get(f"$lm0{PE0}", result, "ULong")
p.answer("""
    lpassa $lr0v $ls8v
    nop
    ladd $lr0v $ls8v $t
    nop
    lpassa $ln0v $lmt
""")

p = Problem("pe_histogram", "How often each of the numbers 0 to 3 is among the eight longs in LM1: four longs in LM0 from word 16 on.")
x = [p.random.randrange(4) for _ in range(8)]
p.set(f"$ln0{PE0}", longs(x))
p.get(f"$lm16{PE0}", [x.count(v) for v in range(4)], "Long")
p.answer("\n".join(f"""ladd $ln{2 * k} $ln{2 * k} $t
    nop
    linc $lmt16 $lmt16/1000
    nop/2""" for k in range(8)))

p = Problem("pe_sort", "Four longs in LM0, in ascending order, into GRF0.")
x = [p.random.randint(-1000, 1000) for _ in range(4)]
p.set(f"$lm0{PE0}", longs(x))
p.get(f"$lr0{PE0}", sorted(x), "Long")
p.answer("\n".join(["lpassa $lm0v $lr0v $ls0v", "nop"] + [f"""lmin $lr{2 * i} $ls{2 * j} $ln0
    lmax $lr{2 * i} $ls{2 * j} $lr{2 * j} $ls{2 * j}
    nop
    lpassa $ln0 $lr{2 * i} $ls{2 * i}
    nop/2""" for i, j in ((0, 1), (2, 3), (0, 2), (1, 3), (1, 2))]))

p = Problem("pe_select", "Four longs: LM1[i] = GRF0[i] where LM0[i] >= 0, else GRF1[i].")
x = [5, -1, 0, -(2**63)]
u = [p.random.getrandbits(64) for _ in range(4)]
v = [p.random.getrandbits(64) for _ in range(4)]
p.set(f"$lm0{PE0}", longs(x))
p.set(f"$lr0{PE0}", u)
p.set(f"$ls0{PE0}", v)
p.get(f"$ln0{PE0}", [i if c >= 0 else j for c, i, j in zip(x, u, v)], "ULong")
p.answer("""
    zero $lr8
    nop/2
    ladd $lm0v $lr8 $omr1
    lpassa $ls0v $ln0v
    lpassa $lr0v $ln0v/$imr1
""")

p = Problem("pe_add_128", "The sum of two 128-bit integers, each two longs with the upper one first: LM0 and LM1, into GRF0.")
a = (p.random.getrandbits(127) | 1 << 63) & ~(1 << 126)
b = (p.random.getrandbits(126) | 1 << 63)
p.set(f"$lm0{PE0}", longs([a >> 64, a & (2**64 - 1)]))
p.set(f"$ln0{PE0}", longs([b >> 64, b & (2**64 - 1)]))
p.get(f"$lr0{PE0}", [(a + b) >> 64 & (2**64 - 1), (a + b) & (2**64 - 1)], "ULong")
p.answer("""
    uladd $lm2 $ln2 $lr2 $omr1
    ladd $lm0 $ln0 $nowrite
    linc $aluf $lr0
    ladd $lm0 $ln0 $lr0/$imr1
""")

p = Problem("pe_popcount", "The number of ones in each of eight 32-bit words in LM0, into LM1.")
x = [p.random.getrandbits(32) for _ in range(7)] + [2**32 - 1]
p.set(f"$lm0{PE0}", ints(x))
p.get(f"$ln0{PE0}", [bin(v).count("1") for v in x], "Int")
p.answer("""
    imm ui"0x55555555" $ls0
    imm ui"0x33333333" $ls2
    imm ui"0x0f0f0f0f" $ls4
    imm i"1" $ls6
    imm i"2" $ls8
    imm i"4" $ls10
    imm i"8" $ls12
    imm i"16" $ls14
    imm i"0x3f" $ls16
    uilsr $lm0v $ls6 $nowrite
    iand $aluf $ls0 $nowrite
    isub $lm0v $aluf $lr0v
    nop
    iand $lr0v $ls2 $lr8v
    uilsr $lr0v $ls8 $nowrite
    iand $aluf $ls2 $nowrite
    iadd $aluf $lr8v $lr0v
    nop
    uilsr $lr0v $ls10 $nowrite
    iadd $aluf $lr0v $nowrite
    iand $aluf $ls4 $lr0v
    nop
    uilsr $lr0v $ls12 $nowrite
    iadd $aluf $lr0v $lr0v
    nop
    uilsr $lr0v $ls14 $nowrite
    iadd $aluf $lr0v $nowrite
    iand $aluf $ls16 $ln0v
""")

p = Problem("pe_xorshift", "Four steps of the generator x ^= x << 13, x ^= x >> 17, x ^= x << 5 from eight 32-bit seeds in GRF0, in place.")
x = [p.random.getrandbits(32) for _ in range(8)]
p.set(f"$lr0{PE0}", ints(x))


def xorshift(v):
    v ^= v << 13 & (2**32 - 1)
    v ^= v >> 17
    return v ^ (v << 5 & (2**32 - 1))


for _ in range(4):
    x = [xorshift(v) for v in x]
p.get(f"$lr0{PE0}", x, "UInt")
p.answer("""
    imm i"13" $ls0
    imm i"17" $ls2
    imm i"5" $ls4
""" + """
    ilsl $lr0v $ls0 $nowrite
    ixor $aluf $lr0v $lr0v
    nop
    uilsr $lr0v $ls2 $nowrite
    ixor $aluf $lr0v $lr0v
    nop
    ilsl $lr0v $ls4 $nowrite
    ixor $aluf $lr0v $lr0v
    nop
""" * 4)

p = Problem("pe_bit_reverse", "Each of four 64-bit words in GRF0 with its bits in reverse order, into LM1.")
x = [p.random.getrandbits(64) for _ in range(4)]
p.set(f"$lr0{PE0}", longs(x))
p.get(f"$ln0{PE0}", [int(f"{v:064b}"[::-1], 2) for v in x], "ULong")
# 64-bit shifts need the amount in the low bits of a long: GRF1 words 20.. hold 1, 2, 4, 8, 16, 32 as longs.
amounts = "".join(f"""
    zero $ls{20 + 2 * i}
    imm i"{1 << i}" $s{21 + 2 * i}
""" for i in range(6))
swap = "".join(f"""
    ullsr $lr0v $ls{20 + 2 * i} $nowrite
    land $aluf $ls{8 + 2 * i} $lm0v
    land $lr0v $ls{8 + 2 * i} $nowrite
    llsl $aluf $ls{20 + 2 * i} $nowrite
    lor $aluf $lm0v $lr0v
    nop
""" for i in range(5))
p.answer("""
    imm ui"0x55555555" $ls8
    imm ui"0x33333333" $ls10
    imm ui"0x0f0f0f0f" $ls12
    imm ui"0x00ff00ff" $ls14
    imm ui"0x0000ffff" $ls16
""" + amounts + swap + """
    lbsl $lr0v $ls30 $ln0v
""")

p = Problem("pe_fibonacci", "The Fibonacci numbers F(1) to F(8) (1, 1, 2, 3, ...) as longs in LM1; LM0 holds the long 1.")
p.set(f"$lm0{PE0}", longs([1]))
p.get(f"$ln0{PE0}", [1, 1, 2, 3, 5, 8, 13, 21], "Long")
p.answer("lpassa $lm0 $lr0 $ln0\nlpassa $lm0 $ls0 $ln2\n" + "".join(
    f"nop/2\nladd $lr0 $ls0 ${'lr' if k % 2 else 'ls'}0 $ln{2 * (k + 1)}\n" for k in range(1, 7)))

p = Problem("pe_prefix_sum", "The running sums of four longs in LM0, into GRF0 words 8 to 15.")
x = [p.random.randint(-(10**12), 10**12) for _ in range(4)]
p.set(f"$lm0{PE0}", longs(x))
p.get(f"$lr8{PE0}", [sum(x[: i + 1]) for i in range(4)], "Long")
p.answer("""
    zero $ls0v
    lpassa $lm0v $lr8v $ls8v
    nop
    ladd $lr8v $ls6v $lr8v $ls8v
    nop
    ladd $lr8v $ls4v $lr8v
""")

p = Problem("pe_complex", "Products of two complex numbers x, y, each a (real, imaginary) pair of float words: x in LM0, y in LM1;\nthe result's real parts go to GRF0 words 0, 2, ..., its imaginary parts to GRF0 words 16, 18, ...")
x = [(p.random.randint(-9, 9) / 2, p.random.randint(-9, 9) / 2) for _ in range(4)]
y = [(p.random.randint(-9, 9) / 2, p.random.randint(-9, 9) / 2) for _ in range(4)]
p.set(f"$lm0{PE0}", floats([v for pair in x for v in pair]))
p.set(f"$ln0{PE0}", floats([v for pair in y for v in pair]))
real = [a * c - b * d for (a, b), (c, d) in zip(x, y)]
imaginary = [a * d + b * c for (a, b), (c, d) in zip(x, y)]
p.get(f"$lr0{PE0}", [v for r in real for v in (r, None)], "Float", "f")
p.get(f"$lr16{PE0}", [v for r in imaginary for v in (r, None)], "Float", "f")
p.answer("""
    fvmul $m0v2 $n0v2 $nowrite
    fvfma -$m1v2 $n1v2 $mauf $lr0v
    fvmul $m0v2 $n1v2 $nowrite
    fvfma $m1v2 $n0v2 $mauf $lr16v
""")

p = Problem("pe_reciprocal_root", "1 / sqrt(x) of eight floats in LM0, to 1e-6, into LM1: the table and three Newton steps.")
x = [p.random.uniform(0.01, 1000) for _ in range(8)]
x = [struct.unpack(">f", struct.pack(">f", v))[0] for v in x]
p.set(f"$lm0{PE0}", floats(x))
p.get(f"$ln0{PE0}", [1 / math.sqrt(v) for v in x], "Float", "f", "rtol=1e-6")
p.answer("""
    imm f"0.5" $ls0
    imm f"1.5" $ls2
    frsqrt $lm0v $lr0v
    fvmul $lm0v $ls0 $lr8v
""" + """
    nop
    fvmul $lr0v $lr0v $nowrite
    fvmul $mauf $lr8v $nowrite
    fvadd $ls2 -$mauf $nowrite
    fvmul $mauf $lr0v $lr0v
""" * 3 + """
    nop
    lpassa $lr0v $ln0v
""")

p = Problem("pe_floor_fraction", "x = floor(x) + fraction of eight floats in LM0: the floor as an int in LM1, the fraction in GRF0.")
x = [p.random.randint(-100, 100) / 8 for _ in range(8)]
p.set(f"$lm0{PE0}", floats(x))
p.get(f"$ln0{PE0}", [math.floor(v) for v in x], "Int")
p.get(f"$lr0{PE0}", [v - math.floor(v) for v in x], "Float", "f")
p.answer("""
    ffloor $lm0v $nowrite
    fftoi $aluf $ln0v
    ffloor $lm0v $ls0v
    nop
    fvadd $lm0v -$ls0v $lr0v
""")

p = Problem("pe_signs", "The signs of four longs in LM0, the first on top, as the low four bits of a long in GRF0.")
x = [-3, 4, -1, 0]
p.set(f"$lm0{PE0}", longs(x))
p.get(f"$lr0{PE0}", [0b1010], "Long")
p.answer("zero $lr0\nnop/2\n" + "\nnop/2\n".join(f"lpackbit $lr0 $lm{2 * k} $lr0" for k in range(4)))

p = Problem("pe_half_to_float", "Eight halves in LM0 as eight floats in LM1, and their sums with 0.5 as halves in GRF0.")
x = [p.random.randint(-100, 100) / 16 for _ in range(8)]
p.set(f"$lm0{PE0}", halves(x))
p.get(f"$ln0{PE0}", x, "Float", "f")
p.get(f"$lr0{PE0}", [v + 0.5 for v in x], "Half", "h")
p.answer("""
    imm f"0.5" $ls0
    imm f"0.5" $ls2
    hvpassa $lm0v $lln0v
    nop
    hvaddr $lm0v $lls0 $lr0v
""")

p = Problem("pe_block_mask", "LM1 = LM0 in cycles 1 and 3 only, for four longs, with a mask statement; then all of GRF0 = LM0.")
x = [p.random.getrandbits(64) for _ in range(4)]
old = [p.random.getrandbits(64) for _ in range(4)]
p.set(f"$lm0{PE0}", x)
p.set(f"$ln0{PE0}", old)
p.get(f"$ln0{PE0}", [old[0], x[1], old[2], x[3]], "ULong")
p.get(f"$lr0{PE0}", x, "ULong")
p.answer("""
    maskn 21
    lpassa $lm0v $ln0v $lr0v
    mask 0
""")

p = Problem("pe_zero_flush", "LM1 = LM0 where LM0 is not negative, else 0, for four longs, without a branch of two writes.")
x = [9, -9, 2**62, -1]
p.set(f"$lm0{PE0}", longs(x))
p.set(f"$ln0{PE0}", longs([1, 2, 3, 4]))
p.get(f"$ln0{PE0}", [max(v, 0) for v in x], "Long")
p.answer("""
    zero $lr0
    nop/2
    ladd $lm0v $lr0 $omr3
    lpassa/$imr3 $lm0v $ln0v
""")

# One MAB and one L1B --------------------------------------------------------------------------------------------

p = Problem("mab_rotate", "In MAB 0: GRF0 of PE p = LM0 of PE (p + 1) mod 4, GRF1 of PE p = LM0 of PE (p - 1) mod 4.")
x = [p.random.getrandbits(64) for _ in range(4)]
for pe in range(4):
    p.set(f"$lm0n0c0b0m0p{pe}", [x[pe]])
    p.get(f"$lr0n0c0b0m0p{pe}", [x[(pe + 1) % 4]], "ULong")
    p.get(f"$ls0n0c0b0m0p{pe}", [x[(pe - 1) % 4]], "ULong")
p.answer("msr $lm0 $lr0\nmsl $lm0 $ls0")

p = Problem("mab_sort", "The longs in GRF0 of the four PEs of MAB 0, in ascending order over the PEs, in place.")
x = [p.random.randint(-100, 100) for _ in range(4)]
for pe in range(4):
    p.set(f"$lr0n0c0b0m0p{pe}", longs([x[pe]]))
    p.get(f"$lr0n0c0b0m0p{pe}", [sorted(x)[pe]], "Long")
EVEN, ODD = (1, 2), (3, 4)
p.answer("""
    zero $ls8
    imm i"1" $s9
    zero $ls10
    imm i"2" $s11
    nop
    land $subpeid $ls8 $omr1
    lxor $aluf $ls8 $omr2
    lsub $subpeid $ls8 $nowrite
    lpassa $aluf $omr3
    lsub $subpeid $ls10 $nowrite
    lpassa $aluf $omr4
""" + "".join(f"""
    msr $lr0 $nowrite
    lmin $aluf $lr0 $ls2
    msl $lr0 $nowrite
    lmax $aluf $lr0 $ls4
    lpassa $ls2 $lr0/$imr{low}
    nop
    lpassa $ls4 $lr0/$imr{high}
    nop/2
""" for low, high in (EVEN, ODD, EVEN, ODD)))

p = Problem("mab_transpose", "In MAB 0: long word c of GRF0 of PE p = long word p of LM0 of PE c.")
x = [[p.random.getrandbits(64) for _ in range(4)] for _ in range(4)]
for pe in range(4):
    p.set(f"$lm0n0c0b0m0p{pe}", x[pe])
    p.get(f"$lr0n0c0b0m0p{pe}", [x[c][pe] for c in range(4)], "ULong")
p.answer("""
    zero $ls0v
    imm i"1" $s3
    imm i"2" $s5
    imm i"3" $s7
    nop
""" + "".join(f"""
    lsub $subpeid $ls{2 * k} $nowrite
    lpassa $aluf $omr{k + 1}
""" for k in range(4)) + """
    l1bmm@0 $lm0v $lb0
    nop/2
""" + "".join(f"""
    l1bmp $lb{4 * k} $lr0v/$imr{k + 1}
""" for k in range(4)))

p = Problem("mab_stencil", "In MAB 0: x[p - 1] - 2 x[p] + x[p + 1] of floats around the ring of PEs, from LM0 into LM1.")
x = [p.random.randint(-64, 64) / 4 for _ in range(8)]  # two rings: the two words
for pe in range(4):
    p.set(f"$lm0n0c0b0m0p{pe}", floats(x[2 * pe : 2 * pe + 2]))
    p.get(f"$ln0n0c0b0m0p{pe}",
          [x[2 * ((pe - 1) % 4) + w] - 2 * x[2 * pe + w] + x[2 * ((pe + 1) % 4) + w] for w in range(2)], "Float", "f")
p.answer("""
    imm f"-2.0" $ls0
    msl $lm0 $lr0
    nop/2
    fvfma $lm0 $ls0 $lr0 $lr2
    msr $lm0 $nowrite
    nop
    fvadd $aluf $lr2 $ln0
""")


def matrix(generator, rows, columns):
    return [[float(generator.randint(-7, 7)) for _ in range(columns)] for _ in range(rows)]


def times(a, v):
    return [sum(i * j for i, j in zip(row, v)) for row in a]


p = Problem("matrix_double", "MAB 0: A x of doubles. Row i of the 4 x 4 matrix A is long word i of LM0 over the PEs, x is in LM1,\nthe result goes to GRF0.")
a, v = matrix(p.random, 4, 4), [float(p.random.randint(-7, 7)) for _ in range(4)]
for pe in range(4):
    p.set(f"$lm0n0c0b0m0p{pe}", doubles([a[i][pe] for i in range(4)]))
    p.set(f"$ln0n0c0b0m0p{pe}", doubles([v[pe]]))
    p.get(f"$lr0n0c0b0m0p{pe}", [times(a, v)[pe]], "Double")
p.answer("""
    dbfn $lm0v $lr8v
    nop
    dmwrite $lr8v $lx0
    dbfn $ln0 $ls0
    nop/2
    dmmulu $lx $ls0 $nowrite
    dmfmad $lx $ls0 $mauf $lr0
""")

p = Problem("matrix_float", "MAB 0: A x of floats with all 24 bits of the elements. A is 8 x 4: its row i is the upper word of long word i of\nLM0 over the PEs; x is the upper word of LM1; the result goes to GRF0, element 2p + w in word w of PE p.")
a, v = matrix(p.random, 8, 4), [float(p.random.randint(-7, 7)) for _ in range(4)]
for pe in range(4):
    p.set(f"$lm0n0c0b0m0p{pe}", floats([w for i in range(8) for w in (a[i][pe], 0.0)]))
    p.set(f"$ln0n0c0b0m0p{pe}", floats([v[pe], 0.0]))
    p.get(f"$lr0n0c0b0m0p{pe}", times(a, v)[2 * pe : 2 * pe + 2], "Float", "f")
p.answer("""
    fbfn $lm0v $lr8v
    fbfn $lm8v $lr16v
    fmwrite $lr8v $lx0
    fmwrite $lr16v $lx4
    fbfn $ln0 $ls0
    nop/2
    fmmul $lx $ls0 $lr0
""")

p = Problem("matrix_gfloat", "MAB 0: A x + z of floats, A 8 x 8. Row i of A is long word i of LM0 over the PEs (element 2p + w in word w of PE p);\nx is in LM1 words 0 and 1, z in words 2 and 3; the result goes to GRF0.")
a, v = matrix(p.random, 8, 8), [float(p.random.randint(-7, 7)) for _ in range(8)]
z = [float(p.random.randint(-70, 70)) for _ in range(8)]
for pe in range(4):
    p.set(f"$lm0n0c0b0m0p{pe}", floats([a[i][2 * pe + w] for i in range(8) for w in range(2)]))
    p.set(f"$ln0n0c0b0m0p{pe}", floats(v[2 * pe : 2 * pe + 2] + z[2 * pe : 2 * pe + 2]))
    p.get(f"$lr0n0c0b0m0p{pe}", [s + t for s, t in zip(times(a, v), z)][2 * pe : 2 * pe + 2], "Float", "f")
p.answer("""
    gbfn $lm0v $lr8v
    gbfn $lm8v $lr16v
    gmwrite $lr8v $ly0
    gmwrite $lr16v $ly4
    gbfn $ln0 $ls0
    nop/2
    gmfma $ly $ls0 $ln2 $lr0
""")

p = Problem("matrix_half", "MAB 0: A x of halves with single-precision sums, A 16 x 16. Row i of A is long word i of LM0 over the PEs\n(element 4p + k in half word k of PE p), x is in LM1; the result goes to GRF0 words 0 to 3, element 4p + k in word k.")
a, v = matrix(p.random, 16, 16), [float(p.random.randint(-7, 7)) for _ in range(16)]
for pe in range(4):
    p.set(f"$lm0n0c0b0m0p{pe}", halves([a[i][4 * pe + k] for i in range(16) for k in range(4)]))
    p.set(f"$ln0n0c0b0m0p{pe}", halves(v[4 * pe : 4 * pe + 4]))
    p.get(f"$lr0n0c0b0m0p{pe}", times(a, v)[4 * pe : 4 * pe + 4], "Float", "f")
p.answer("".join(f"""
    hbfn $lm{8 * k}v $lr{8 * (k + 1)}v
""" for k in range(4)) + """
    nop
""" + "".join(f"""
    hmwrite $lr{8 * (k + 1)}v $lx{4 * k}
""" for k in range(4)) + """
    hbfn $ln0 $ls0
    nop/2
    hmmul $lx $ls0 $llr0
""")

p = Problem("matrix_transpose", "MAB 0: the 8 x 8 matrix of 32-bit words in LM0 (row i is long word i over the PEs, element 2p + w in word w of PE p),\ntransposed, into LM1.")
a = [[p.random.getrandbits(32) for _ in range(8)] for _ in range(8)]
for pe in range(4):
    p.set(f"$lm0n0c0b0m0p{pe}", ints([a[i][2 * pe + w] for i in range(8) for w in range(2)]))
    p.get(f"$ln0n0c0b0m0p{pe}", [a[2 * pe + w][i] for i in range(8) for w in range(2)], "UInt")
p.answer("""
    gmwrite $lm0v $lx0
    gmwrite $lm8v $lx4
    gmread $lx0 $ln0v
    gmread $lx4 $ln8v
""")

p = Problem("matrix_transpose_half", "MAB 0: a 16 x 16 matrix of 16-bit words, transposed, from LM0 into LM1 (row i is long word i over the PEs).")
a = [[p.random.getrandbits(16) for _ in range(16)] for _ in range(16)]
for pe in range(4):
    p.set(f"$lm0n0c0b0m0p{pe}", pack([a[i][4 * pe + k] for i in range(16) for k in range(4)], 16))
    p.get(f"$ln0n0c0b0m0p{pe}", pack([a[4 * pe + k][i] for i in range(16) for k in range(4)], 16), "ULong")
p.answer("".join(f"hmwrite $lm{8 * k}v $lx{4 * k}\n" for k in range(4)) +
         "".join(f"hmread $llx{8 * k} $lln{16 * k}v\n" for k in range(2)))

ALL_PES = [(m, pe) for m in range(MABS) for pe in range(PES)]

p = Problem("l1b_sum", "L1B 0: the sum over the MABs of LM0, for each of the four PEs and four long words, into L1BM: B[4c + p].")
x = {(m, pe): [p.random.randint(-(10**15), 10**15) for _ in range(4)] for m, pe in ALL_PES}
for m, pe in ALL_PES:
    p.set(f"$lm0n0c0b0m{m}p{pe}", longs(x[m, pe]))
p.get("$lb0n0c0b0", [sum(x[m, pe][c] for m in range(MABS)) for c in range(4) for pe in range(PES)], "Long")
p.answer("l1bmrliadd $lm0v $lb0")

p = Problem("l1b_maximum", "L1B 0: the largest float over the MABs of LM0, back in every MAB's GRF0.")
x = {(m, pe): [p.random.uniform(-10, 10) for _ in range(2)] for m, pe in ALL_PES}
x = {k: [struct.unpack(">f", struct.pack(">f", v))[0] for v in w] for k, w in x.items()}
for m, pe in ALL_PES:
    p.set(f"$lm0n0c0b0m{m}p{pe}", floats(x[m, pe]))
for m, pe in ALL_PES[::5]:
    p.get(f"$lr0n0c0b0m{m}p{pe}", [max(x[k, pe][w] for k in range(MABS)) for w in range(2)], "Float", "f")
p.answer("l1bmrfmax $lm0 $lbi\nl1bmm $lbi $lr0")

p = Problem("l1b_float_sum", "L1B 0: the sum over the MABs of small whole floats in LM0, in every MAB's GRF0.")
x = {(m, pe): [float(p.random.randint(-1000, 1000)) for _ in range(2)] for m, pe in ALL_PES}
for m, pe in ALL_PES:
    p.set(f"$lm0n0c0b0m{m}p{pe}", floats(x[m, pe]))
for m, pe in ALL_PES[::7]:
    p.get(f"$lr0n0c0b0m{m}p{pe}", [sum(x[k, pe][w] for k in range(MABS)) for w in range(2)], "Float", "f")
p.answer("l1bmrffadd $lm0 $lb0\nnop/2\nl1bmm $lb0 $lr0")

p = Problem("l1b_rotate", "L1B 0: GRF0 of MAB m = LM0 of MAB (m - 1) mod 16, GRF1 of MAB m = LM0 of MAB (m + 1) mod 16.")
x = {(m, pe): p.random.getrandbits(64) for m, pe in ALL_PES}
for m, pe in ALL_PES:
    p.set(f"$lm0n0c0b0m{m}p{pe}", [x[m, pe]])
    if pe == m % 4:
        p.get(f"$lr0n0c0b0m{m}p{pe}", [x[(m - 1) % 16, pe]], "ULong")
        p.get(f"$ls0n0c0b0m{m}p{pe}", [x[(m + 1) % 16, pe]], "ULong")
p.answer("l1bmd $lm0 $lb0\nnop/2\nl1bmd+1 $lb0 $lr0\nl1bmd-1 $lb0 $ls0")

p = Problem("l1b_broadcast", "L1B 0: the four long words of LM0 of PE 0 of MAB 5, in every PE's GRF0.")
x = [p.random.getrandbits(64) for _ in range(4)]
p.set("$lm0n0c0b0m5p0", x)
for m, pe in ALL_PES[::9]:
    p.get(f"$lr0n0c0b0m{m}p{pe}", x, "ULong")
p.answer("""
    l1bmm@5 $lm0v $lb0
    nop/2
    l1bmp $lb0 $lr0/1000
    l1bmp $lb4 $lr2/1000
    l1bmp $lb8 $lr4/1000
    l1bmp $lb12 $lr6/1000
""")

p = Problem("l1b_quads", "L1B 0: GRF0 of PE p of MAB m = B[4 (m div 4) + p], for the sixteen long words B of L1BM 32 to 47.")
x = [p.random.getrandbits(64) for _ in range(16)]
p.set("$lb32n0c0b0", x)
for m, pe in ALL_PES[::3]:
    p.get(f"$lr0n0c0b0m{m}p{pe}", [x[4 * (m // 4) + pe]], "ULong")
p.answer("l1bmm4 $lb32 $lr0/1000")

p = Problem("l1b_quad_sum", "L1B 0: the sums of LM0 over each quad of MABs, into L1BM: B[4q + p].")
x = {(m, pe): p.random.randint(-(10**15), 10**15) for m, pe in ALL_PES}
for m, pe in ALL_PES:
    p.set(f"$lm0n0c0b0m{m}p{pe}", longs([x[m, pe]]))
p.get("$lb0n0c0b0", [sum(x[4 * q + k, pe] for k in range(4)) for q in range(4) for pe in range(PES)], "Long")
p.answer("l1bmr4liadd $lm0 $lb0")

p = Problem("l1b_number", "Every PE of L1B 0 of L2B 1 of group 2: the int 4m + p of its place, plus 100 times the number of its L2B, in LM1.")
for m, pe in ALL_PES[::5]:
    p.get(f"$ln0n2c1b0m{m}p{pe}", [4 * m + pe + 100 * 5] * 2, "Int")
p.answer("""
    ipassa $l2bid $lr0
    imm i"6" $ls0
    imm i"5" $ls2
    imm i"2" $ls4
    ilsl $lr0 $ls0 $lm0
    ilsl $lr0 $ls2 $nowrite
    nop
    iadd $aluf $lm0 $lr4
    ilsl $lr0 $ls4 $nowrite
    nop
    iadd $aluf $lr4 $lm4
    ipassa $peid $lr2
    nop/2
    iadd $lm4 $lr2 $ln0
""")

p = Problem("pe_base_address", "Every PE p of MAB 0: GRF0 = long word p of its own LM0, through the base address register.")
x = [p.random.getrandbits(64) for _ in range(4)]
p.set("$lm0n0c0b0m0", x)
for pe in range(4):
    p.get(f"$lr0n0c0b0m0p{pe}", [x[pe]], "ULong")
p.answer("""
    imm i"1" $ls0
    ipassa $subpeid $lr2
    nop/2
    ilsl $lr2 $ls0 $lmb
    nop/2
    lpassa $lm0 $lr0
""")

p = Problem("pe_step_aside", "MAB 0: PEs 0 and 1 take long word 1 of LM0 into GRF0, PEs 2 and 3 long word 0.")
x = [p.random.getrandbits(64) for _ in range(2)]
p.set("$lm0n0c0b0m0", x)
for pe in range(4):
    p.get(f"$lr0n0c0b0m0p{pe}", [x[1 if pe <= 1 else 0]], "ULong")
p.answer("lpassa $lm0j1 $lr0")

# L2B ------------------------------------------------------------------------------------------------------------

L2B = "n1c1"
p = Problem("l2b_broadcast", "L2B 1 of group 1: long words 64 to 127 of L2BM in L1BM 16 to 79 of each L1B.")
x = [p.random.getrandbits(64) for _ in range(64)]
p.set(f"$lc64{L2B}", x)
for b in (0, 3, 7):
    p.get(f"$lb16{L2B}b{b}", x[: 8 * (b + 1)], "ULong")
p.answer("l2bmb $lc64 $lb16")

p = Problem("l2b_deal", "L2B 1 of group 1: 256 long words of L2BM, dealt out in runs of 8 to the L1Bs: L1BM 0 to 31 of each.")
x = [p.random.getrandbits(64) for _ in range(256)]
p.set(f"$lc0{L2B}", x)
for b in range(L1BS):
    p.get(f"$lb0{L2B}b{b}", [x[64 * c + 8 * b + i] for c in range(4) for i in range(8)], "ULong")
p.answer("l2bmd $lc0 $lb0")

p = Problem("l2b_collect", "L2B 1 of group 1: L1BM 0 to 31 of the L1Bs, in runs of 8, into L2BM 256 to 511.")
x = {b: [p.random.getrandbits(64) for _ in range(32)] for b in range(L1BS)}
for b in range(L1BS):
    p.set(f"$lb0{L2B}b{b}", x[b])
p.get(f"$lc256{L2B}", [x[b][8 * c + i] for c in range(4) for b in range(L1BS) for i in range(8)], "ULong")
p.answer("l2bmd $lb0 $lc256")

p = Problem("l2b_sum", "L2B 1 of group 1: the sums over the L1Bs of L1BM 0 to 63, into L2BM 0 to 63.")
x = {b: [p.random.randint(-(2**60), 2**60) for _ in range(64)] for b in range(L1BS)}
for b in range(L1BS):
    p.set(f"$lb0{L2B}b{b}", longs(x[b]))
p.get(f"$lc0{L2B}", [signed(sum(x[b][i] for b in range(L1BS)), 64) for i in range(64)], "Long")
p.answer("l2bmrliadd $lb0 $lc0")

p = Problem("l2b_pick", "L2B 1 of group 1: L1BM 0 to 63 of L1B 6 in L1BM 64 to 127 of the L1Bs with an even number.")
x = [p.random.getrandbits(64) for _ in range(64)]
old = [p.random.getrandbits(64) for _ in range(4)]
p.set(f"$lb0{L2B}b6", x)
for b in range(L1BS):
    p.set(f"$lb64{L2B}b{b}", old)
    p.get(f"$lb64{L2B}b{b}", x[:8] if b % 2 == 0 else old, "ULong")
p.answer("l2bm@6 $lb0 $lc0\nnop/3\nl2bmb@0/6 $lc0 $lb64")

# Whole chip -----------------------------------------------------------------------------------------------------

CHIP = [(g, c) for g in range(GROUPS) for c in range(L2BS)]

p = Problem("chip_count", "The number of PEs, 4096, as a long in PDM 0 of group 0: a sum over all of them.")
p.get("$p0n0", [4096], "Long")
p.answer("""
    zero $lr0
    imm i"1" $r1
    nop/2
    l1bmrliadd $lr0 $lb0
    nop/2
    l1bmp $lb0 $lr8v $ls8v
    nop
    ladd $lr8 $ls10 $nowrite
    ladd $aluf $ls12 $nowrite
    ladd $aluf $ls14 $lm0
    nop/2
    l1bmm@0 $lm0 $lb16
    nop/2
    l2bmrliadd $lb16 $lc0
    nop
    mvrliadd/n64i01 $lc0 $p0@0
    nop; wait i01
""")

p = Problem("chip_names", "Every PE's own number, 512 q + 64 b + 4 m + p for L2B q = 2n + c of the chip, as an int in LM1.")
for i in range(0, 4096, 131):
    q, b, m, pe = i >> 9, i >> 6 & 7, i >> 2 & 15, i & 3
    p.get(f"$ln0n{q >> 1}c{q & 1}b{b}m{m}p{pe}", [i, i], "Int")
p.answer("""
    imm i"9" $ls0
    imm i"6" $ls2
    ipassa $l2bid $lr0
    ipassa $l1bid $lr2
    ipassa $peid $lr4
    ilsl $lr0 $ls0 $lr6
    ilsl $lr2 $ls2 $nowrite
    nop
    iadd $aluf $lr6 $nowrite
    iadd $aluf $lr4 $ln0
""")

p = Problem("chip_copy", "Groups: 128 long words of DRAM 0 of group 1 to PDM 64 of group 3, and on to L2BM 0 of L2B 1 of group 3.")
x = [p.random.getrandbits(64) for _ in range(128)]
p.preload(1, 0, x)
p.get("$p64n3", x, "ULong")
p.get("$lc0n3c1", x, "ULong")
p.answer("""
    mvp/n128i01 $d0@1 $p64@3
    nop; wait i01
    mvp/n128i02 $p64@3 $lc0@3.1
    nop; wait i02
""")

p = Problem("chip_broadcast", "PDM 0 to 63 of group 2 in LM0 long word 0 of all PEs: PE p of MAB m takes long word 4m + p.")
x = [p.random.getrandbits(64) for _ in range(64)]
p.set("$p0n2", x)
for i in range(0, 4096, 307):
    q, b, m, pe = i >> 9, i >> 6 & 7, i >> 2 & 15, i & 3
    p.get(f"$lm0n{q >> 1}c{q & 1}b{b}m{m}p{pe}", [x[4 * m + pe]], "ULong")
p.answer("""
    mvb/n64i01 $p0@2 $lc0
    nop; wait i01
    l2bmb $lc0 $lb0
    nop
    l1bmd $lb0 $lm0/1000
""")

p = Problem("chip_group_broadcast", "DRAM 0 to 63 of each group in L2BM 64 to 127 of both of its L2Bs.")
x = {g: [p.random.getrandbits(64) for _ in range(64)] for g in range(GROUPS)}
for g in range(GROUPS):
    p.preload(g, 0, x[g])
for g, c in CHIP:
    p.get(f"$lc64n{g}c{c}", x[g][:16], "ULong")
p.answer("mvb2/n64i01 $d0 $lc64\nnop; wait i01")

p = Problem("chip_gather_groups", "DRAM 0 to 15 of the four groups, one after the other, in L2BM 0 to 63 of every L2B.")
x = {g: [p.random.getrandbits(64) for _ in range(16)] for g in range(GROUPS)}
for g in range(GROUPS):
    p.preload(g, 0, x[g])
everything = [v for g in range(GROUPS) for v in x[g]]
for g, c in CHIP:
    p.get(f"$lc0n{g}c{c}", everything, "ULong")
p.answer("mvb4/n64i01 $d0 $lc0\nnop; wait i01")

p = Problem("chip_deal_groups", "PDM 0 to 63 of group 0 dealt out to the groups' DRAM 128 on, 16 long words each; and back to PDM 64 on.")
x = [p.random.getrandbits(64) for _ in range(64)]
p.set("$p0n0", x)
for g in range(GROUPS):
    p.get(f"$d128n{g}", x[16 * g : 16 * g + 16], "ULong")
p.get("$p64n0", x, "ULong")
p.answer("""
    mvd/n64i01 $p0@0 $d128
    nop; wait i01
    mvd/n64i02 $d128 $p64@0
    nop; wait i02
""")

p = Problem("chip_deal_l2b", "PDM 0 to 127 of group 1 dealt out to the L2Bs, 16 long words each, and back to PDM 128 of group 3.")
x = [p.random.getrandbits(64) for _ in range(128)]
p.set("$p0n1", x)
for g, c in CHIP:
    p.get(f"$lc16n{g}c{c}", x[16 * (2 * g + c) : 16 * (2 * g + c) + 16], "ULong")
p.get("$p128n3", x, "ULong")
p.answer("""
    mvd/n128i01 $p0@1 $lc16
    nop; wait i01
    mvd/n128i02 $lc16 $p128@3
    nop; wait i02
""")

p = Problem("chip_sum_pairs", "L2BM 0 to 63 of the two L2Bs of each group added (ints), into DRAM 64 on of the group.")
x = {k: [p.random.randint(-(2**31), 2**31 - 1) for _ in range(128)] for k in CHIP}
for g, c in CHIP:
    p.set(f"$lc0n{g}c{c}", ints(x[g, c]))
for g in range(GROUPS):
    p.get(f"$d64n{g}", [signed(u + v, 32) for u, v in zip(x[g, 0], x[g, 1])][:32], "Int")
p.answer("mvr2iiadd/n64i01 $lc0 $d64\nnop; wait i01")

p = Problem("chip_maximum", "The largest of the floats at each of L2BM 0 to 63 over all L2Bs, into PDM 0 on of group 0.")
x = {k: [float(p.random.randint(-1000, 1000)) for _ in range(128)] for k in CHIP}
for g, c in CHIP:
    p.set(f"$lc0n{g}c{c}", floats(x[g, c]))
p.get("$p0n0", [max(x[k][i] for k in CHIP) for i in range(128)], "Float", "f")
p.answer("mvrfmax/n64i01 $lc0 $p0@0\nnop; wait i01")

p = Problem("chip_gather_rows", "Rows of 16 long words of DRAM of group 0, in the order 5, 2, 7, 0 (as indices), into PDM 0 to 63 of group 0:\nthe indices are 32-bit words in L2BM 0 of L2B 0 of group 0.")
x = [p.random.getrandbits(64) for _ in range(128)]
order = [5, 2, 7, 0]
p.preload(0, 0, x)
p.set("$lc0n0c0", ints(order))
p.get("$p0n0", [x[16 * row + i] for row in order for i in range(16)], "ULong")
p.answer("""
    l2bmdars $lc0@.0 $dar0
    nop/4
    l2bmdarw
    nop/40
    mvp/n64i01 $di0@0 $p0@0
    nop; wait i01
""")


if __name__ == "__main__":
    names = [problem.name for problem in problems]
    assert len(set(names)) == len(names)
    for problem in problems:
        problem.write()
    print(f"{len(problems)} problems")
    sys.exit(0)
