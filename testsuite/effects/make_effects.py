#!/usr/bin/env python3
"""Writes the effect tests of this directory: a file per instruction and precision, and an empty answer, so that
`kodama judge --dir` runs them.

Each expectation is computed here, by exact arithmetic on integers and fractions, from what the ISA page says of the
instruction. Nothing is taken from a simulator, and no code is shared with one. Run it after a change and commit what it
writes.
"""

import os
import random
import sys
from fractions import Fraction

ROOT = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
MARKER = "# ======= YOUR VSM WILL BE INSERTED HERE ======="
MAB0 = "n0c0b0m0"
PE0 = "n0c0b0m0p0"
PES, MABS, L1BS, L2BS, GROUPS = 4, 16, 8, 8, 4  # mncore2
ALL = (1 << 64) - 1


class Format:
    """A floating-point format (8.1): no subnormals, no NaN."""

    def __init__(self, exponent_bits, mantissa_bits):
        self.m = mantissa_bits
        self.width = 1 + exponent_bits + mantissa_bits
        self.top = (1 << exponent_bits) - 1
        self.bias = self.top // 2
        self.sign = 1 << (self.width - 1)

    def unpack(self, bits):
        return bits >> (self.width - 1) & 1, bits >> self.m & self.top, bits & ((1 << self.m) - 1)

    def pack(self, sign, exponent, mantissa):
        return sign << (self.width - 1) | exponent << self.m | mantissa

    def significand(self, bits):
        """(signed significand with its hidden bit, power of two of its last place); infinity is a number, too."""
        sign, exponent, mantissa = self.unpack(bits)
        if exponent == 0:
            return 0, 0
        value = 1 << self.m | mantissa
        return (-value if sign else value), exponent - self.bias - self.m

    def value(self, bits):
        significand, exponent = self.significand(bits)
        return Fraction(significand) * Fraction(2) ** exponent

    def round(self, value):
        """Nearest even at full precision, then infinity or +0."""
        if value == 0:
            return 0
        sign, magnitude = (1, -value) if value < 0 else (0, value)
        exponent = 0
        while magnitude >= Fraction(2) ** (exponent + 1):
            exponent += max(1, (magnitude.numerator.bit_length() - magnitude.denominator.bit_length() - exponent) // 2)
        while magnitude < Fraction(2) ** exponent:
            exponent -= 1
        while magnitude >= Fraction(2) ** (exponent + 1):
            exponent += 1
        scaled = magnitude / Fraction(2) ** (exponent - self.m)
        whole = scaled.numerator // scaled.denominator
        rest = scaled - whole
        if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole & 1):
            whole += 1
        if whole == 2 << self.m:
            whole >>= 1
            exponent += 1
        field = exponent + self.bias
        if field >= self.top:
            return self.pack(sign, self.top, 0)
        return 0 if field <= 0 else self.pack(sign, field, whole - (1 << self.m))


D, F, H = Format(11, 52), Format(8, 23), Format(6, 9)
FORMATS = {"d": D, "f": F, "g": F, "h": H}
WIDTHS = {"l": 64, "i": 32, "s": 16, "d": 64, "f": 32, "g": 32, "h": 16}


def lanes(word, width):
    return [word >> (64 - width * (i + 1)) & ((1 << width) - 1) for i in range(64 // width)]


def join(values, width):
    word = 0
    for value in values:
        word = word << width | value & ((1 << width) - 1)
    return word


def signed(value, width):
    return value - (1 << width) if value >> (width - 1) & 1 else value


def flag_bits(flags):
    """5: lane flags fill four bits."""
    per = 4 // len(flags)
    result = 0
    for flag in flags:
        for _ in range(per):
            result = result << 1 | int(flag)
    return result


# --- files ------------------------------------------------------------------------------------------------------


class Test:
    def __init__(self, name, note):
        self.name = name
        self.random = random.Random(name)
        self.before = [f"# {note}"]
        self.after = []

    def set(self, place, words):
        for i in range(0, len(words), 32):
            part = words[i : i + 32]
            self.before.append(f"d set {moved(place, i)} {len(part)} " + "".join(f"{w & ALL:016X}" for w in part))

    def preload(self, group, address, words):
        self.before.append(f"r {group} {address:09X} {len(words):03X} " + "".join(f"{w:016X}" for w in words))

    def run(self, *lines):
        self.after += lines

    def expect(self, place, words, count=None):
        for i in range(0, len(words), 16):
            part = words[i : i + 16]
            text = ", ".join("_" if w is None else f"0x{w & ALL:x}" for w in part)
            self.after.append(f"d get {moved(place, i)} {count or len(part)} # expect=[{text}] / ULong")

    def expect_mask(self, entry, flags, place=PE0):
        text = ", ".join(str(f) for f in flags)
        self.after.append(f"d get $omr{entry}{place} 1 # expect=[{text}] / ULong")

    def write(self):
        with open(os.path.join(ROOT, self.name + ".vsm"), "w", encoding="ascii") as out:
            out.write("\n".join(self.before + [MARKER] + self.after) + "\n")


def moved(place, words):
    space = place[: 3 if place[1] == "l" else 2]
    digits = ""
    for c in place[len(space) :]:
        if not c.isdigit():
            break
        digits += c
    unit = 2 if space in ("$lm", "$ln", "$lr", "$ls") else 1
    return f"{space}{int(digits) + unit * words}{place[len(space) + len(digits):]}"


# --- operands with something in them ------------------------------------------------------------------------------


def integer_edges(generator, width):
    top = 1 << (width - 1)
    edges = [0, 1, 2, top - 1, top, top + 1, 2 * top - 1, 2 * top - 2, width, width - 1, width + 3]
    return edges + [generator.getrandbits(width) for _ in range(5)]


def float_edges(generator, fmt):
    one = fmt.bias << fmt.m
    ones = (1 << fmt.m) - 1
    largest = fmt.pack(0, fmt.top - 1, ones)
    edges = [0, one, one + 1, one - 1, one | ones, largest, fmt.pack(0, 1, 0), fmt.pack(0, fmt.top, 0),
             fmt.pack(0, fmt.bias + fmt.m - 1, 1), fmt.pack(0, fmt.bias - 1, 0), fmt.pack(0, fmt.bias - 1, 1)]
    edges += [fmt.sign | e for e in edges]
    near = [fmt.pack(generator.getrandbits(1), fmt.bias + generator.randint(-4, 6), generator.getrandbits(fmt.m))
            for _ in range(10)]
    return edges + near


def operand_words(generator, precision, count):
    width = WIDTHS[precision]
    edges = float_edges(generator, FORMATS[precision]) if precision in FORMATS else integer_edges(generator, width)
    return [join([generator.choice(edges) for _ in range(64 // width)], width) for _ in range(count)]


STEPS = 6

# --- ALU (section 7) ----------------------------------------------------------------------------------------------


def alu_test(name, precision, function, operands, unsigned=False, has_flag=True):
    """function(*lanes, width) -> (result, flag). x is a 2LW, whose lower half passes."""
    mnemonic = ("u" if unsigned else "") + precision + name
    test = Test("alu_" + mnemonic, f"{mnemonic}, lane by lane; the LSB long word is that of x.")
    width = WIDTHS[precision]
    x = operand_words(test.random, precision, 8 * STEPS)
    y = operand_words(test.random, precision, 4 * STEPS)
    test.set(f"$lm0{PE0}", x)
    test.set(f"$ln0{PE0}", y)
    for step in range(STEPS):
        expected, masks = [], []
        for c in range(4):
            high, low = x[8 * step + 2 * c : 8 * step + 2 * c + 2]
            arguments = [lanes(high, width), lanes(y[4 * step + c], width)][:operands]
            results = [function(*values, width) for values in zip(*arguments)]
            expected += [join([r[0] for r in results], width), low]
            masks.append(flag_bits([r[1] for r in results]))
        second = f" $ln{8 * step}v" if operands == 2 else ""
        destination = f"$llr{16 * step}v" + (f" $omr{step + 1}" if has_flag else "")
        test.run(f"{mnemonic} $llm{16 * step}v{second} {destination}")
        test.expect(f"$lr{16 * step}{PE0}", expected)
        if has_flag:
            test.expect_mask(step + 1, masks)
    test.write()


def wrap(value, width):
    return value & ((1 << width) - 1)


def signed_result(value, width):
    return wrap(value, width), wrap(value, width) >> (width - 1) == 0


def zero_flag(value, width):
    return wrap(value, width), wrap(value, width) == 0


def rotate(x, by, width):
    by %= width
    return x << by | x >> (width - by)


INTEGERS = "lis"
for prec in INTEGERS:
    alu_test("inc", prec, lambda x, w: signed_result(x + 1, w), 1)
    alu_test("dec", prec, lambda x, w: signed_result(x - 1, w), 1)
    alu_test("add", prec, lambda x, y, w: signed_result(x + y, w), 2)
    alu_test("sub", prec, lambda x, y, w: signed_result(x - y, w), 2)
    alu_test("inc", prec, lambda x, w: (x + 1, x + 1 < 1 << w), 1, unsigned=True)
    alu_test("dec", prec, lambda x, w: (x - 1, x >= 1), 1, unsigned=True)
    alu_test("add", prec, lambda x, y, w: (x + y, x + y < 1 << w), 2, unsigned=True)
    alu_test("sub", prec, lambda x, y, w: (x - y, x >= y), 2, unsigned=True)
    alu_test("not", prec, lambda x, w: zero_flag(~x, w), 1)
    alu_test("lnot", prec, lambda x, w: zero_flag(int(x == 0), w), 1)
    alu_test("and", prec, lambda x, y, w: zero_flag(x & y, w), 2)
    alu_test("or", prec, lambda x, y, w: zero_flag(x | y, w), 2)
    alu_test("xor", prec, lambda x, y, w: zero_flag(x ^ y, w), 2)
    alu_test("lsl", prec, lambda x, y, w: zero_flag(x << y % w, w), 2)
    alu_test("lsr", prec, lambda x, y, w: zero_flag(signed(x, w) >> y % w, w), 2)
    alu_test("lsr", prec, lambda x, y, w: zero_flag(x >> y % w, w), 2, unsigned=True)
    alu_test("bsl", prec, lambda x, y, w: zero_flag(rotate(x, y, w), w), 2)
    alu_test("bsr", prec, lambda x, y, w: zero_flag(rotate(x, -y, w), w), 2)
    alu_test("max", prec, lambda x, y, w: (x, True) if signed(x, w) >= signed(y, w) else (y, False), 2)
    alu_test("min", prec, lambda x, y, w: (x, True) if signed(x, w) <= signed(y, w) else (y, False), 2)
    alu_test("max", prec, lambda x, y, w: (x, True) if x >= y else (y, False), 2, unsigned=True)
    alu_test("min", prec, lambda x, y, w: (x, True) if x <= y else (y, False), 2, unsigned=True)
for prec in INTEGERS + "dfh":
    alu_test("packbit", prec, lambda x, y, w: (x << 1 | y >> (w - 1), y >> (w - 1) == 0), 2)
    alu_test("passa", prec, lambda x, w: (x, x == 0), 1)


def float_extreme(fmt, largest):
    def function(x, y, _):
        if fmt.unpack(x)[1] == 0 and fmt.unpack(y)[1] == 0:
            return x, True
        key = lambda bits: -(bits & ~fmt.sign) if bits & fmt.sign else bits
        chosen = key(x) >= key(y) if largest else key(x) <= key(y)
        return (x, True) if chosen or x == y else (y, False)

    return function


def shifted_exponent(fmt, y, by):
    sign, exponent, mantissa = fmt.unpack(y)
    if exponent in (0, fmt.top):
        return y
    exponent += by
    if exponent <= 0:
        return 0
    return fmt.pack(sign, fmt.top, 0) if exponent >= fmt.top else fmt.pack(sign, exponent, mantissa)


def rsqrt(fmt):
    def function(x, _):
        sign, exponent, mantissa = fmt.unpack(x)
        if exponent == 0:
            return fmt.pack(0, fmt.top, 0), not sign
        if exponent == fmt.top:
            return 0, not sign
        power = exponent - fmt.bias
        h = power // 2
        t = Fraction(2) ** (power - 2 * h) * (1 + Fraction(mantissa >> (fmt.m - 4), 16))
        n = 64
        while n * n * t > 64 * 64:
            n -= 1
        return fmt.round(Fraction(n, 64) / Fraction(2) ** h), not sign

    return function


def floor(fmt):
    def function(x, _):
        if fmt.unpack(x)[1] in (0, fmt.top):
            return x, False
        value = fmt.value(x)
        return fmt.round(Fraction(value.numerator // value.denominator)), False

    return function


def to_integer(fmt, of_magnitude):
    def function(x, w):
        value = fmt.value(x)
        whole = abs(value).numerator // abs(value).denominator
        if of_magnitude:
            return min(whole, (1 << w) - 1), False
        return (max(-whole, -(1 << (w - 1))) if value < 0 else min(whole, (1 << (w - 1)) - 1)), False

    return function


for prec in "dfh":
    fmt = FORMATS[prec]
    alu_test("max", prec, float_extreme(fmt, True), 2)
    alu_test("min", prec, float_extreme(fmt, False), 2)
    for which in range(4):
        alu_test(f"relu{which or ''}", prec, lambda x, y, w, b=which: (
            (1 << (w - 1), False) if x >> (w - 1 - b) & 1 else (y, True)), 2)
    for op, by in (("lrelud", -1), ("lreluo", -3), ("ilrelud", 1)):
        alu_test(op, prec, lambda x, y, w, f=fmt, e=by: (
            (shifted_exponent(f, y, e), False) if x >> (w - 1) else (y, True)), 2)
    alu_test("rsqrt", prec, rsqrt(fmt), 1)
    alu_test("floor", prec, floor(fmt), 1, has_flag=False)
    alu_test("ftoi", prec, to_integer(fmt, False), 1, has_flag=False)
    alu_test("ftoi", prec, to_integer(fmt, True), 1, unsigned=True, has_flag=False)

test = Test("alu_zero_imm", "zero, imm and immu with every kind of payload.")
test.set(f"$lr0{PE0}", [ALL] * 100)
payloads = [('i"5"', 5), ('i"-3"', -3), ('i"0x1F"', 0x1F), ('i"0b101"', 5), ('ui"0xFF000000"', 0xFF000000),
            ('s"8"', 0x00080008), ('us"0x1234"', 0x12341234), ('f"1.5"', 0x3FC00000), ('f"-1.0"', 0xBF800000),
            ('f"inf"', 0x7F800000), ('h"2.0"', 0x40004000), ('d"1.0"', 0x3FF00000)]
test.run("zero $llr0v")
test.expect(f"$lr0{PE0}", [0] * 8)
for i, (text, payload) in enumerate(payloads):
    payload &= 0xFFFFFFFF
    test.run(f"imm {text} $llr{16 + 8 * i}", f"immu {text} $llr{20 + 8 * i}")
    test.expect(f"$lr{16 + 8 * i}{PE0}", [payload << 32 | payload] * 2 + [payload << 32] * 2)
test.write()

test = Test("alu_msl_msr", "msl and msr: the MSB long word of the neighbour; the LSB long word stays.")
data = [[test.random.getrandbits(64) for _ in range(8)] for _ in range(PES)]
for pe in range(PES):
    test.set(f"$lm0{MAB0}p{pe}", data[pe])
test.run("msl $llm0v $llr0v", "msr $llm0v $llr16v")
for pe in range(PES):
    for base, source in ((0, (pe + 3) & 3), (16, (pe + 1) & 3)):
        test.expect(f"$lr{base}{MAB0}p{pe}", [v for c in range(4) for v in (data[source][2 * c], data[pe][2 * c + 1])])
test.write()

test = Test("alu_constants", "The constants as first input, and $msb1, in every integer precision.")
place = "n2c1b3m9p2"
numbers = {"$l2bid": 5, "$l1bid": 3, "$mabid": 9, "$peid": 38, "$subpeid": 2}
for i, prec in enumerate(INTEGERS):
    width = WIDTHS[prec]
    for k, (constant, value) in enumerate(list(numbers.items()) + [("$msb1", 1 << (width - 1))]):
        at = 24 * i + 4 * k
        test.run(f"{prec}passa {constant} $llr{at}")
        test.expect(f"$lr{at}{place}", [join([value] * (64 // width), width)] * 2)
test.write()

# --- block floats (8.5) -------------------------------------------------------------------------------------------


def normalize(fmt, block, b=0, extended=False):
    """bfn; extended: bfe, which stores small elements with exponent 0, meaning six less than the block's."""
    parts = [fmt.unpack(x) for x in block]
    emax = max(e for _, e, _ in parts)
    if emax == 0:
        return [fmt.pack(s, 0, 0) for s, _, _ in parts]
    kept = fmt.m - b
    top_ones = any(e == emax and mantissa >> b == (1 << kept) - 1 for _, e, mantissa in parts)
    common = emax + b + (1 if top_ones else 0)
    if common >= fmt.top:
        return [fmt.pack(s, fmt.top, 0) for s, _, _ in parts]
    result = []
    for s, e, mantissa in parts:
        m = 0
        field = common
        if e > 0:
            shift = common - e + 1
            ones = mantissa >> b == (1 << kept) - 1
            if extended and (common - e > 6 + b or (common - e == 6 + b and not ones)):
                shift -= 6
                field = 0
            full = 1 << fmt.m | mantissa
            m, rest = full >> shift, full & ((1 << shift) - 1)
            half = 1 << (shift - 1)
            if rest > half or (rest == half and m & 1):
                m += 1
        if extended and m == 0:
            field = 0
        result.append(fmt.pack(s, field, m))
    return result


def blocks_of(precision, words):
    """Lane lists of the blocks that one long word per PE holds, with the way back."""
    width = WIDTHS[precision]
    all_lanes = [lanes(w, width) for w in words]
    if precision == "f":
        return [[all_lanes[p][k] for p in range(PES)] for k in range(2)]
    return [[lane for p in range(PES) for lane in all_lanes[p]]]


def words_of(precision, blocks):
    width = WIDTHS[precision]
    if precision == "f":
        return [join([blocks[0][p], blocks[1][p]], width) for p in range(PES)]
    per = 64 // width
    return [join(blocks[0][per * p : per * p + per], width) for p in range(PES)]


def moderate(generator, fmt, spread=3):
    if generator.random() < 0.1:
        return 0
    mantissa = generator.choice([0, (1 << fmt.m) - 1, generator.getrandbits(fmt.m), generator.getrandbits(fmt.m)])
    return fmt.pack(generator.getrandbits(1), fmt.bias + generator.randint(-spread, spread), mantissa)


for prec in "dfgh":
    fmt = FORMATS[prec]
    width = WIDTHS[prec]
    forms = [("bfn", None)]
    if prec == "h":
        forms += [(operation, k) for operation in ("bfn", "bfe") for k in (6, 7, 8, 9)]
    for operation, k in forms:
        name = f"{prec}{operation}" + (f"/{k}" if k else "")
        test = Test(f"alu_{prec}{operation}{k or ''}", f"{name}: one exponent for the elements of each block of the MAB.")
        words = [[join([moderate(test.random, fmt, 12 if prec != "h" else 5 if operation == "bfn" else 9) for _ in range(64 // width)], width)
                  for _ in range(8)] for _ in range(PES)]
        words[0][0] = join([fmt.pack(0, fmt.top - 1, (1 << fmt.m) - 1)] * (64 // width), width)  # overflows
        for p in range(PES):
            words[p][1] = 0  # a block of zeros
            test.set(f"$lm0{MAB0}p{p}", words[p])
        test.run(f"{name} $lm0v $lr0v", f"{name} $lm8v $lr8v")
        expected = [[] for _ in range(PES)]
        for c in range(8):
            blocks = [normalize(fmt, block, 9 - k if k else 0, operation == "bfe") for block in blocks_of(prec, [words[p][c] for p in range(PES)])]
            for p, word in enumerate(words_of(prec, blocks)):
                expected[p].append(word)
        for p in range(PES):
            test.expect(f"$lr0{MAB0}p{p}", expected[p])
        test.write()

# --- vector operations of the MAU (8.2, 8.6) -----------------------------------------------------------------------

DROPPED = {"d": 16, "f": 5, "h": 0}


def product(fmt, precision, x, y):
    a, ea = fmt.significand(x)
    b, eb = fmt.significand(y)
    unit = 1 << DROPPED[precision]
    low_a, low_b = abs(a) % unit, abs(b) % unit
    p = abs(a) * abs(b) - low_a * low_b + (unit * unit // 4 if low_a and low_b else 0)
    return Fraction(-p if (a < 0) != (b < 0) else p) * Fraction(2) ** (ea + eb)


def vector_lanes(operation, precision, x, y, z, output, multiplies=True):
    fmt = FORMATS[precision]
    one = fmt.bias << fmt.m
    z_format = F if precision == "h" else fmt
    results = []
    for i, lane in enumerate(x):
        factor = y[i] if operation in ("vfma", "vmul") else one
        value = product(fmt, precision, lane, factor) if multiplies else Fraction(0)
        if operation in ("vfma", "vadd"):
            value += z_format.value(z[i])
        results.append(output.round(value))
    return results


OPERANDS = {"vfma": "xyz", "vmul": "xy", "vadd": "xz", "vpassa": "x"}
for prec in "dfh":
    fmt = FORMATS[prec]
    width = WIDTHS[prec]
    for operation, used in OPERANDS.items():
        for rounds in (False, True):
            for half in ("u", "d") if prec == "d" and "y" in used else ("",):
                mnemonic = prec + operation + half + ("r" if rounds else "")
                test = Test("mau_" + mnemonic, f"{mnemonic}: products without their lowest parts, one rounding, flags of signs.")
                z_precision = "f" if prec == "h" else prec
                x = operand_words(test.random, prec, 4 * STEPS)
                y = operand_words(test.random, prec, 4 * STEPS)
                z = operand_words(test.random, z_precision, 4 * STEPS * (2 if prec == "h" else 1))
                test.set(f"$lm0{MAB0}", x)
                test.set(f"$ln0{MAB0}", y)
                test.set(f"$ls0{MAB0}", z)
                output = {"d": F, "f": H, "h": H}[prec] if rounds else (F if prec == "h" else fmt)
                for step in range(STEPS):
                    sources = f"$lm{8 * step}v"
                    if "y" in used:
                        sources += f" $ln{8 * step}v"
                    if "z" in used:
                        sources += f" $lls{16 * step}v" if prec == "h" else f" $ls{8 * step}v"
                    test.run(f"{mnemonic} {sources} $llr{16 * step}v $omr{step + 1}")
                    for pe in (0, 2) if half else (0,):
                        expected, masks = [], []
                        for c in range(4):
                            at = 4 * step + c
                            z_words = z[2 * at : 2 * at + 2] if prec == "h" else [z[at]]
                            z_lanes = [lane for w in z_words for lane in lanes(w, WIDTHS[z_precision])]
                            active = not half or (half == "u") == (pe < 2)
                            results = vector_lanes(operation, prec, lanes(x[at], width), lanes(y[at], width), z_lanes, output, active)
                            bits = join(results, output.width)
                            size = output.width * len(results)
                            while size < 128:  # narrower results are repeated
                                bits, size = bits << size | bits, 2 * size
                            expected += [bits >> 64, bits & ALL]
                            masks.append(flag_bits([r >> (output.width - 1) == 0 for r in results]))
                        test.expect(f"$lr{16 * step}{MAB0}p{pe}", expected)
                        test.expect_mask(step + 1, masks, f"{MAB0}p{pe}")
                test.write()

test = Test("mau_conversions", "Sources with -, e (one precision lower, widened) and r (floats to halves).")


def widened(bits, narrow, wide):
    """The same number; infinity becomes infinity."""
    sign, exponent, _ = narrow.unpack(bits)
    return wide.pack(sign, wide.top, 0) if exponent == narrow.top else wide.round(narrow.value(bits))


f_words = operand_words(test.random, "f", 8)
h_words = operand_words(test.random, "h", 4)
test.set(f"$lm0{PE0}", f_words)
test.set(f"$ln0{PE0}", h_words)
test.run("fvpassa -$lm0v $lr0v", "dvpassa $lm0ve $lr8v", "fvpassa $ln0ve $lr16v", "hvpassa $llm0vr $llr24v",
         "hvadd $ln0v -$llm0v $llr40v", "hvadd $ln0v $ln0ve $llr56v")
test.expect(f"$lr0{PE0}", [join([F.round(-F.value(v)) for v in lanes(w, 32)], 32) for w in f_words[:4]])
test.expect(f"$lr8{PE0}", [D.round(F.value(lanes(w, 32)[0])) for w in f_words[:4]])
test.expect(f"$lr16{PE0}", [join([widened(v, H, F) for v in lanes(w, 16)[:2]], 32) for w in h_words])
for c in range(4):
    wide = [v for w in f_words[2 * c : 2 * c + 2] for v in lanes(w, 32)]
    narrow = [H.round(F.value(v)) for v in wide]
    own = lanes(h_words[c], 16)
    for base, values in ((24, [F.round(H.value(v)) for v in narrow]),
                         (40, [F.round(H.value(h) - F.value(v)) for h, v in zip(own, wide)]),
                         (56, [F.round(H.value(h) + F.value(widened(h, H, F))) for h in own])):
        test.expect(f"$lr{base + 4 * c}{PE0}", [join(values[:2], 32), join(values[2:], 32)])
test.write()

# --- matrix operations (8.3, 8.4) -----------------------------------------------------------------------------------


def element(fmt, precision, bits):
    """A block-float element: no hidden bit."""
    sign, exponent, mantissa = fmt.unpack(bits)
    if exponent == 0:
        return 0, 0
    if precision == "g":
        mantissa &= ~31
    return (-mantissa if sign else mantissa), exponent - fmt.bias - (fmt.m - 1)


def matrix_row(precision, row, vector):
    fmt = FORMATS[precision]
    unit = 1 << DROPPED.get(precision, 0)
    total = Fraction(0)
    for r, v in zip(row, vector):
        (a, ea), (b, eb) = element(fmt, precision, r), element(fmt, precision, v)
        low_a, low_b = abs(a) % unit, abs(b) % unit
        p = abs(a) * abs(b) - low_a * low_b + (unit * unit // 4 if low_a and low_b else 0)
        total += Fraction(-p if (a < 0) != (b < 0) else p) * Fraction(2) ** (ea + eb)
    return total


for prec in "dfgh":
    fmt = FORMATS[prec]
    width = WIDTHS[prec]
    per = 64 // width  # elements of a long word
    size = 4 * per
    rows = {"d": 4, "f": 8, "g": 8, "h": 16}[prec]
    z_format = D if prec == "d" else F
    for register in "xy":
        for has_z in (False, True):
            for rounds in (False, True):
                for half in ("u", "d") if prec == "d" else ("",):
                    mnemonic = prec + ("mfma" if has_z else "mmul") + half + ("r" if rounds else "")
                    test = Test(f"matrix_{mnemonic}_{register}", f"{mnemonic} of ${'l' + register}: exact sums, one rounding.")
                    # Four vectors, then the rows; every block has one exponent already.
                    raw = [[moderate(test.random, fmt) for _ in range(size)] for _ in range(4 + rows)]
                    lines = []
                    for line in raw:
                        if prec == "f":
                            parts = [normalize(fmt, line[k::2]) for k in range(2)]
                            lines.append([parts[j % 2][j // 2] for j in range(size)])
                        else:
                            lines.append(normalize(fmt, line))
                    z = [[moderate(test.random, z_format, 8) for _ in range(rows)] for _ in range(4)]
                    out_per = rows // 4  # results of a PE
                    for p in range(PES):
                        words = [join(line[per * p : per * p + per], width) for line in lines]
                        test.set(f"$lm0{MAB0}p{p}", words)
                        z_words = [
                            join(z[c][out_per * p + i : out_per * p + i + 64 // z_format.width], z_format.width)
                            for c in range(4) for i in range(0, out_per, 64 // z_format.width)]
                        test.set(f"$ls0{MAB0}p{p}", z_words)
                    for k in range(rows // 4):
                        test.run(f"{prec}mwrite $lm{8 + 8 * k}v $l{register}{4 * k}")
                    wide = prec == "h"
                    z_text = (" $lls0v" if wide else " $ls0v") if has_z else ""
                    test.run(f"{mnemonic} $l{register} $lm0v{z_text} $llr0v")
                    output = {"d": F, "f": H, "g": H, "h": H}[prec] if rounds else z_format
                    for p in range(PES):
                        expected = []
                        for c in range(4):
                            values = []
                            for i in range(out_per * p, out_per * p + out_per):
                                columns = range(0, size, 2) if prec == "f" else range(size)
                                total = matrix_row(prec, [lines[4 + i][j] for j in columns], [lines[c][j] for j in columns])
                                if half and (half == "u") != (p < 2):
                                    total = Fraction(0)
                                if has_z:
                                    total += z_format.value(z[c][i])
                                values.append(output.round(total))
                            bits, length = join(values, output.width), output.width * len(values)
                            while length < 128:
                                bits, length = bits << length | bits, 2 * length
                            expected += [bits >> 64, bits & ALL]
                        test.expect(f"$lr0{MAB0}p{p}", expected)
                    test.write()

for prec in "dfgh":
    width = WIDTHS[prec]
    per = 64 // width
    size = 4 * per
    for register in "xy":
        test = Test(f"matrix_{prec}mread_{register}", f"{prec}mwrite and {prec}mread of $l{register}: bits unchanged, rows to columns.")
        a = [[test.random.getrandbits(width) for _ in range(size)] for _ in range(size)]
        for p in range(PES):
            test.set(f"$lm0{MAB0}p{p}", [join(a[i][per * p : per * p + per], width) for i in range(size)])
        for k in range(0, size, 4):
            test.run(f"{prec}mwrite $lm{2 * k}v $l{register}{k}")
        for k in range(0, size, 4):
            if prec != "h":
                test.run(f"{prec}mread $l{register}{k} $lr{2 * k}v")
            elif k % 8 == 0:  # two columns a cycle
                test.run(f"hmread $ll{register}{k} $llr{2 * k}v")
        if prec == "h":
            test.run(f"hmread $ll{register}8 $llr64v", f"hmwrite $llm0v $ll{register}0", f"hmread $ll{register}0 $llr96v")
        for p in range(PES):
            test.expect(f"$lr0{MAB0}p{p}", [join([a[per * p + i][j] for i in range(per)], width) for j in range(size)])
            if prec == "h":
                test.expect(f"$lr64{MAB0}p{p}", [join([a[per * p + i][j] for i in range(per)], width) for j in range(8, 16)])
                # $llx<a>: row a + 2c from h, a + 2c + 1 from l: the same rows as they lie in LM0.
                test.expect(f"$lr96{MAB0}p{p}", [join([a[per * p + i][j] for i in range(per)], width) for j in range(8)])
        test.write()

# --- L1BM (6.1) ------------------------------------------------------------------------------------------------------

L1B0 = "n0c0b0"
EVERY = [(m, p) for m in range(MABS) for p in range(PES)]
SAMPLE = EVERY[::11] + [(15, 3)]


def l1bm_load(name, text, high, low, wide):
    """high(c, m, p), low(c, m, p): which long word of L1BM, from its address on."""
    test = Test("l1bm_" + name, f"{text}: L1BM to PEs.")
    base = 64
    data = [test.random.getrandbits(64) for _ in range(256)]
    test.set(f"$lb{base}{L1B0}", data)
    test.set(f"$lr0{L1B0}", [ALL] * 8)
    test.run(f"{text.replace('ADDRESS', str(base))} ${'llr' if wide else 'lr'}0v")
    for m, p in SAMPLE:
        expected = []
        for c in range(4):
            expected.append(data[high(c, m, p)])
            if wide:
                expected.append(data[low(c, m, p)])
        test.expect(f"$lr0{L1B0}m{m}p{p}", expected)
    test.write()


l1bm_load("p_load", "l1bmp $lbADDRESS", lambda c, m, p: c, None, False)
l1bm_load("p_load_ll", "l1bmp $llbADDRESS", lambda c, m, p: c, lambda c, m, p: 4 + c, True)
l1bm_load("m_load", "l1bmm $lbADDRESS", lambda c, m, p: 4 * c + p, None, False)
l1bm_load("m_load_ll", "l1bmm $llbADDRESS", lambda c, m, p: 8 * c + p, lambda c, m, p: 8 * c + 4 + p, True)
l1bm_load("m4_load", "l1bmm4 $lbADDRESS", lambda c, m, p: 16 * c + 4 * (m >> 2) + p, None, False)
l1bm_load("m4_load_ll", "l1bmm4 $llbADDRESS", lambda c, m, p: 32 * c + 8 * (m >> 2) + p,
          lambda c, m, p: 32 * c + 8 * (m >> 2) + 4 + p, True)
l1bm_load("d_load", "l1bmd $lbADDRESS", lambda c, m, p: 64 * c + 4 * m + p, None, False)
l1bm_load("d_load_up", "l1bmd+1 $lbADDRESS", lambda c, m, p: 64 * c + 4 * ((m - 1) & 15) + p, None, False)
l1bm_load("d_load_down", "l1bmd-1 $lbADDRESS", lambda c, m, p: 64 * c + 4 * ((m + 1) & 15) + p, None, False)

REDUCTIONS = {"iadd": lambda x, y, w: wrap(x + y, w), "band": lambda x, y, w: x & y, "bor": lambda x, y, w: x | y,
              "and": lambda x, y, w: int(x != 0 and y != 0), "or": lambda x, y, w: int(x != 0 or y != 0)}


def fadd_stage(fmt, values, output):
    """8.7: alignment to the largest exponent with three more bits, nearest even at both roundings."""
    largest = max(fmt.unpack(v)[1] for v in values)
    if largest == 0:
        return 0
    total = 0
    for v in values:
        significand, _ = fmt.significand(v)
        shift = largest - fmt.unpack(v)[1]
        extended = abs(significand) << 3
        whole, rest = extended >> shift, extended & ((1 << shift) - 1)
        if significand and shift and (2 * rest > 1 << shift or (2 * rest == 1 << shift and whole & 1)):
            whole += 1
        total += -whole if significand < 0 else whole
    return output.round(Fraction(total) * Fraction(2) ** (largest - fmt.bias - fmt.m - 3))


def reduce_words(precision, operation, words, stages):
    """Lane by lane over long words; `stages`: sizes of the groups, one after the other."""
    width = WIDTHS[precision]
    result = []
    for lane in zip(*[lanes(w, width) for w in words]):
        values = list(lane)
        for group in stages:
            values = [reduce_lane(precision, operation, values[i : i + group]) for i in range(0, len(values), group)]
        result.append(values[0])
    return join(result, width)


def reduce_lane(precision, operation, values):
    if operation == "fadd":
        return fadd_stage(FORMATS[precision], values, FORMATS[precision])
    if operation in ("max", "min"):
        fmt = FORMATS[precision]
        key = lambda bits: -1 - (bits & ~fmt.sign) if bits & fmt.sign else bits
        return (max if operation == "max" else min)(values, key=key)
    result = values[0]
    for value in values[1:]:
        result = REDUCTIONS[operation](result, value, WIDTHS[precision])
    return result


def reduction_codes():
    for precision in "dfh":
        for operation in ("fadd", "max", "min"):
            yield precision, operation
    for precision in INTEGERS:
        for operation in ("iadd", "band", "and", "bor", "or"):
            yield precision, operation


def reduction_operands(generator, precision, operation, count):
    width = WIDTHS[precision]
    if precision in FORMATS:
        fmt = FORMATS[precision]
        return [join([moderate(generator, fmt, 5) for _ in range(64 // width)], width) for _ in range(count)]
    if operation in ("and", "band"):  # ones that survive
        return [generator.getrandbits(64) | generator.getrandbits(64) | generator.getrandbits(64) for _ in range(count)]
    if operation in ("or", "bor"):
        return [generator.getrandbits(64) & generator.getrandbits(64) & generator.getrandbits(64) if generator.random() < 0.2
                else 0 for _ in range(count)]
    return [generator.getrandbits(64) for _ in range(count)]


for prec, operation in reduction_codes():
    test = Test(f"l1bm_r_{prec}{operation}", f"l1bmr{prec}{operation} and l1bmr4{prec}{operation}: over the MABs of the L1B, and of each quad.")
    # One long word per PE; cycle 3 of the second half uses another.
    data = {k: reduction_operands(test.random, prec, operation, 8) for k in EVERY}
    for m, p in EVERY:
        test.set(f"$lm0{L1B0}m{m}p{p}", data[m, p])
    test.run(f"l1bmr4{prec}{operation} $lm0v $lb128", f"l1bmr4{prec}{operation} $llm0v $llb256")
    column = lambda p, i, mabs: [data[m, p][i] for m in mabs]
    over_all = lambda p, i: reduce_words(prec, operation, column(p, i, range(MABS)), (4, 4))
    over_quad = lambda q, p, i: reduce_words(prec, operation, column(p, i, range(4 * q, 4 * q + 4)), (4,))
    if (prec, operation) != ("h", "fadd"):  # l1bmrhfadd is another instruction, below
        test.run(f"l1bmr{prec}{operation} $lm0v $lb0", f"l1bmr{prec}{operation} $llm0v $llb64")
        test.expect(f"$lb0{L1B0}", [over_all(p, c) for c in range(4) for p in range(PES)])
        test.expect(f"$lb64{L1B0}", [over_all(p, 2 * c + k) for c in range(4) for k in range(2) for p in range(PES)])
    test.expect(f"$lb128{L1B0}", [over_quad(q, p, c) for c in range(4) for q in range(4) for p in range(PES)])
    test.expect(f"$lb256{L1B0}", [over_quad(q, p, 2 * c + k) for c in range(4) for q in range(4) for k in range(2)
                                  for p in range(PES)])
    test.write()

test = Test("l1bm_stores", "l1bmm@k, l1bmm4@k and l1bmd: PEs to L1BM.")
data = {k: [test.random.getrandbits(64) for _ in range(8)] for k in EVERY}
for m, p in EVERY:
    test.set(f"$lm0{L1B0}m{m}p{p}", data[m, p])
test.run("l1bmm@9 $lm0v $lb0", "l1bmm@15 $llm0v $llb32", "l1bmm4@2 $lm0v $lb64", "l1bmm4@3 $llm0v $llb128", "l1bmd $lm0v $lb256")
test.expect(f"$lb0{L1B0}", [data[9, p][c] for c in range(4) for p in range(PES)])
test.expect(f"$lb32{L1B0}", [data[15, p][2 * c + k] for c in range(4) for k in range(2) for p in range(PES)])
test.expect(f"$lb64{L1B0}", [data[4 * q + 2, p][c] for c in range(4) for q in range(4) for p in range(PES)])
test.expect(f"$lb128{L1B0}", [data[4 * q + 3, p][2 * c + k] for c in range(4) for q in range(4) for k in range(2)
                              for p in range(PES)])
test.expect(f"$lb256{L1B0}", [data[m, p][c] for c in range(4) for m in range(MABS) for p in range(PES)])
test.write()

test = Test("l1bm_turnaround", "$lbi: the data of the latest transfer from PEs, for a transfer of the same kind to PEs; one that only goes there writes no L1BM.")
data = {k: [test.random.getrandbits(64) for _ in range(4)] for k in EVERY}
for m, p in EVERY:
    test.set(f"$lm0{L1B0}m{m}p{p}", data[m, p])
test.run("l1bmm@3 $lm0v $lbi", "l1bmm $lbi $lr0v", "l1bmd $lm0v $lbi", "l1bmd+1 $lbi $lr8v", "nop/3", "l1bmd-1 $lbi $lr16v",
         "l1bmm@2 $lm0v $lb512", "l1bmm $lbi $lr24v")
for m, p in SAMPLE:
    test.expect(f"$lr0{L1B0}m{m}p{p}", data[3, p])
    test.expect(f"$lr8{L1B0}m{m}p{p}", data[(m - 1) & 15, p])
    test.expect(f"$lr16{L1B0}m{m}p{p}", data[(m + 1) & 15, p])
    test.expect(f"$lr24{L1B0}m{m}p{p}", data[2, p])
test.expect(f"$lb0{L1B0}", [0] * 16)
test.write()

for name, suffix in (("l1bmrffaddr", ""), ("l1bmrffaddr", "e"), ("l1bmrhfadd", "")):
    halves_in = suffix == "e" or name == "l1bmrhfadd"
    test = Test(f"l1bm_{name}{suffix}", f"{name} with {'halves' if halves_in else 'floats'}: sums in single precision, rounded to halves once.")
    words = {k: [join([moderate(test.random, H, 3) for _ in range(4)], 16) for _ in range(4)] if halves_in else
             [join([moderate(test.random, F, 3) for _ in range(2)], 32) for _ in range(8)] for k in EVERY}
    for m, p in EVERY:
        test.set(f"$lm0{L1B0}m{m}p{p}", words[m, p])
    test.run(f"{name} {'$lm0v' if halves_in else '$llm0v'}{suffix} $lb0")
    expected = []
    for c in range(4):
        floats_of = {}
        for m, p in EVERY:
            if halves_in:
                floats_of[m, p] = [F.round(H.value(v)) for v in lanes(words[m, p][c], 16)]
            else:
                floats_of[m, p] = [v for w in words[m, p][2 * c : 2 * c + 2] for v in lanes(w, 32)]
        w = []
        for p in range(PES):
            for i in range(4):
                column = [floats_of[m, p][i] for m in range(MABS)]
                groups = [fadd_stage(F, column[k : k + 4], F) for k in range(0, 16, 4)]
                w.append(fadd_stage(F, groups, H))
        for order in ((0, 1, 8, 9), (2, 3, 10, 11), (4, 5, 12, 13), (6, 7, 14, 15)):
            expected.append(join([w[i] for i in order], 16))
    test.expect(f"$lb0{L1B0}", expected)
    test.write()

# --- L2BM (6.2) ------------------------------------------------------------------------------------------------------

L2B = "n1c1"
SETS = {"": range(8), "@3": [3], "@1/6": [1, 3, 5, 7], "@[0,5,6]": [0, 5, 6]}


def l2bm_load(name, mnemonic, source, count):
    """source(b, c, i): which long word of L2BM lands at y + `count` c + i of L1B b."""
    for k, (text, members) in enumerate(SETS.items()):
        test = Test(f"l2bm_{name}{k}", f"{mnemonic}{text}: L2BM to L1BMs.")
        data = [test.random.getrandbits(64) for _ in range(256)]
        test.set(f"$lc32{L2B}", data)
        test.set(f"$lb16{L2B}", [7] * 64)
        test.run(f"{mnemonic}{text} $lc32 $lb16")
        for b in range(L1BS):
            total = 64 if name == "b" else 4 * count
            expected = [data[source(b, i // count, i % count)] for i in range(total)] if b in members else [7] * 8
            test.expect(f"$lb16{L2B}b{b}", expected)
        test.write()


l2bm_load("b", "l2bmb", lambda b, c, i: 16 * c + i, 16)
l2bm_load("b2", "l2bmb2", lambda b, c, i: 64 * c + 16 * (b >> 1) + i, 16)
l2bm_load("d", "l2bmd", lambda b, c, i: 64 * c + 8 * b + i, 8)

test = Test("l2bm_stores", "l2bmd and l2bm@k: L1BMs to L2BM.")
data = [[test.random.getrandbits(64) for _ in range(64)] for _ in range(L1BS)]
for b in range(L1BS):
    test.set(f"$lb16{L2B}b{b}", data[b])
test.run("l2bmd $lb16 $lc0", "l2bm@5 $lb16 $lc512")
test.expect(f"$lc0{L2B}", [data[b][8 * c + i] for c in range(4) for b in range(L1BS) for i in range(8)])
test.expect(f"$lc512{L2B}", data[5])
test.write()

for prec, operation in reduction_codes():
    test = Test(f"l2bm_r_{prec}{operation}", f"l2bmr{prec}{operation} over the L1Bs, over a set of them, and l2bmr2{prec}{operation} over pairs.")
    data = [reduction_operands(test.random, prec, operation, 64) for _ in range(L1BS)]
    for b in range(L1BS):
        test.set(f"$lb16{L2B}b{b}", data[b])
    test.run(f"l2bmr{prec}{operation} $lb16 $lc0", f"l2bmr{prec}{operation}@[1,4,7] $lb16 $lc64", f"l2bmr2{prec}{operation} $lb16 $lc128")
    test.expect(f"$lc0{L2B}", [reduce_words(prec, operation, [data[b][i] for b in range(L1BS)], (8,)) for i in range(16)])
    test.expect(f"$lc64{L2B}", [reduce_words(prec, operation, [data[b][i] for b in (1, 4, 7)], (8,)) for i in range(16)])
    test.expect(f"$lc128{L2B}", [reduce_words(prec, operation, [data[2 * q + k][i] for k in range(2)], (2,))
                                 for q in range(4) for i in range(16)])
    test.write()

test = Test("l2bm_i", "l2bmi: from each L1B of the set to those that agree with it in the bits of im.")
data = [[test.random.getrandbits(64) for _ in range(64)] for _ in range(L1BS)]
for b in range(L1BS):
    test.set(f"$lb0{L2B}b{b}", data[b])
test.run("l2bmi@2/1 $lb0 $lb64", "l2bmi@5/6 $lb0 $lb128")
for b in range(L1BS):
    # @2/1 = 2 and 3, for those that agree with them in bit 0; @5/6 = 1, 3, 5, 7, for those with the same upper bits.
    test.expect(f"$lb64{L2B}b{b}", data[2 + b % 2][:16])
    test.expect(f"$lb128{L2B}b{b}", data[b | 1][:16])
test.write()

# --- MV (6.3) ---------------------------------------------------------------------------------------------------------

CHIP = [(g, c) for g in range(GROUPS) for c in range(2)]


def mv_data(generator, count):
    return [generator.getrandbits(64) for _ in range(count)]


test = Test("mv_p", "mvp between all memories, in one group, from group to group, and inside every group.")
dram = [mv_data(test.random, 128) for _ in range(GROUPS)]
pdm = [mv_data(test.random, 64) for _ in range(GROUPS)]
l2bm = {k: mv_data(test.random, 64) for k in CHIP}
for g in range(GROUPS):
    test.preload(g, 64, dram[g])
    test.set(f"$p0n{g}", pdm[g])
for g, c in CHIP:
    test.set(f"$lc0n{g}c{c}", l2bm[g, c])
test.run("mvp/n128i01 $d64@2 $p64@0", "nop; wait i01", "mvp/n64i02 $p0@3 $d512@1", "mvp/n64i03 $lc0@2.1 $d1024@0",
         "mvp/n64i04 $d64@3 $lc64@0.1", "mvp/n64i05 $lc0@1.0 $lc128@3.1", "mvp/n64i06 $d64 $p256", "mvp/n64i3f $d128 $lc256@.1",
         "nop; wait i3f")
test.expect("$p64n0", dram[2])
test.expect("$d512n1", pdm[3])
test.expect("$d1024n0", l2bm[2, 1])
test.expect("$lc64n0c1", dram[3][:64])
test.expect("$lc128n3c1", l2bm[1, 0])
for g in range(GROUPS):
    test.expect(f"$p256n{g}", dram[g][:64])
    test.expect(f"$lc256n{g}c1", dram[g][64:])
    test.expect(f"$lc256n{g}c0", [0] * 16)
test.write()

test = Test("mv_b", "mvb, mvb2, mvb4.")
dram = [mv_data(test.random, 64) for _ in range(GROUPS)]
pdm = mv_data(test.random, 128)
for g in range(GROUPS):
    test.preload(g, 0, dram[g])
test.set("$p0n2", pdm)
test.run("mvb/n128i01 $p0@2 $lc0", "mvb/n64i02 $d0@3 $lc128", "mvb2/n64i03 $d0 $lc192", "mvb4/n64i04 $d0 $lc256", "mvnop", "nop; wait i04")
for g, c in CHIP:
    test.expect(f"$lc0n{g}c{c}", pdm)
    test.expect(f"$lc128n{g}c{c}", dram[3][:32])
    test.expect(f"$lc192n{g}c{c}", dram[g][:32])
    test.expect(f"$lc256n{g}c{c}", [dram[h][i] for h in range(GROUPS) for i in range(16)])
test.write()

test = Test("mv_d", "mvd in its four directions.")
pdm = mv_data(test.random, 128)
l2bm = {k: mv_data(test.random, 16) for k in CHIP}
dram = [mv_data(test.random, 32) for _ in range(GROUPS)]
test.set("$p0n1", pdm)
for g, c in CHIP:
    test.set(f"$lc64n{g}c{c}", l2bm[g, c])
for g in range(GROUPS):
    test.preload(g, 256, dram[g])
test.run("mvd/n128i01 $p0@1 $d0", "mvd/n128i02 $d256 $p128@2", "mvd/n128i03 $p0@1 $lc0", "mvd/n128i04 $lc64 $p256@3", "nop; wait i04")
for g in range(GROUPS):
    test.expect(f"$d0n{g}", [pdm[64 * u + 16 * g + i] for u in range(2) for i in range(16)])
test.expect("$p128n2", [dram[g][16 * u + i] for u in range(2) for g in range(GROUPS) for i in range(16)])
for g, c in CHIP:
    test.expect(f"$lc0n{g}c{c}", pdm[16 * (2 * g + c) : 16 * (2 * g + c) + 16])
test.expect("$p256n3", [l2bm[k][i] for k in CHIP for i in range(16)])
test.write()

for prec, operation in reduction_codes():
    test = Test(f"mv_r_{prec}{operation}", f"mvr{prec}{operation} over all L2Bs, mvr2 inside groups, mvr4 over groups.")
    data = {k: reduction_operands(test.random, prec, operation, 64) for k in CHIP}
    for g, c in CHIP:
        test.set(f"$lc0n{g}c{c}", data[g, c])
    test.run(f"mvr{prec}{operation}/n64i01 $lc0 $p0@2", f"mvr{prec}{operation}/n64i02 $lc0 $d0@1",
             f"mvr2{prec}{operation}/n64i03 $lc0 $d64", f"mvr4{prec}{operation}/n64i04 $lc0 $d128", "nop; wait i04")
    over_all = [reduce_words(prec, operation, [data[k][i] for k in CHIP], (2, 4)) for i in range(16)]
    test.expect("$p0n2", over_all)
    test.expect("$d0n1", over_all)
    for g in (0, 3):
        test.expect(f"$d64n{g}", [reduce_words(prec, operation, [data[g, c][i] for c in range(2)], (2,)) for i in range(16)])
        test.expect(f"$d128n{g}", [reduce_words(prec, operation, [data[h, 0][16 * g + i] for h in range(GROUPS)], (4,))
                                   for i in range(16)])
    test.write()

test = Test("mv_indirect", "l2bmdars, l2bmdarw, and transfers through DAR in both directions, with nd.")
rows = mv_data(test.random, 16 * 64)
for i in range(0, len(rows), 64):
    test.preload(0, i, rows[i : i + 64])
addresses = [test.random.randrange(60) for _ in range(128)]
test.set("$lc0n0c0", [addresses[2 * i] << 32 | addresses[2 * i + 1] for i in range(64)])
test.run("l2bmdars $lc0@.0 $dar0", "nop/8", *["l2bmdarw"] * 32, "mvp/n128i01 $di4@0 $p0@0", "mvp/n128i02nd4 $di0@0 $p128@0",
         "nop; wait i02")
test.expect("$p0n0", [rows[16 * addresses[4 + u] + i] for u in range(8) for i in range(16)])
test.expect("$p128n0", [rows[16 * addresses[u // 4] + 16 * (u % 4) + i] for u in range(8) for i in range(16)])
test.write()

# --- masks, addresses, forwarding (3, 5) -------------------------------------------------------------------------------

test = Test("masks", "Write masks of both lengths on every width, and what they leave.")
old = mv_data(test.random, 64)
new = mv_data(test.random, 8)
test.set(f"$lm0{PE0}", new)
test.set(f"$lr0{PE0}", old)
test.run("ipassa $lm0 $omr2", "lpassa $lm0v $lr0v/1010", "lpassa $lm0v $r9v2/0110", "lpassa $llm0v $llr16v/ll0011")
test.expect(f"$lr0{PE0}", [new[0], old[1], new[2], old[3]])
test.expect(f"$lr8{PE0}", [old[4]])
test.expect(f"$lr10{PE0}", [(old[5] >> 32 << 32) | new[1] >> 32, (old[6] >> 32 << 32) | new[2] >> 32, old[7]])
test.expect(f"$lr16{PE0}", old[8:12] + new[4:8])
test.write()

test = Test("masks_register", "A mask register: bits 3..0 are half words of the MSB long word (l), or words of the 2LW (ll); writing one under a mask clears.")
values = [0x8000000080000000, 0x0000000080000000, 0x8000000000000000, 0]
old = [ALL] * 24
test.set(f"$lm0{PE0}", values)
test.set(f"$ln0{PE0}", mv_data(test.random, 16))
data = [int(line.split()[-1][16 * i : 16 * i + 16], 16) for line in test.before if "$ln0" in line for i in range(16)]
test.set(f"$lr0{PE0}", old)
test.run("zero $ls0", "nop", "iadd $lm0v $ls0 $omr1", "sadd $lm0v $ls0 $omr2", "lpassa $ln0v $lr0v/$imr1", "lpassa $lln0v $llr8v/$llimr1",
         "iadd $lm0v $ls0 $omr3/$imr2", "ladd $lm0v $ls0 $omr4/1100")
for c in range(4):
    upper, lower = values[c] >> 63, values[c] >> 31 & 1  # sign bits of the two ints
    keep = (0 if upper else 0xFFFFFFFF << 32) | (0 if lower else 0xFFFFFFFF)
    test.expect(f"$lr{2 * c}{PE0}", [data[c] & keep | ALL & ~keep])
    wide = [data[2 * c] if not upper else ALL, data[2 * c + 1] if not lower else ALL]
    test.expect(f"$lr{8 + 4 * c}{PE0}", wide)
i_flags = [flag_bits([v >> 63 == 0, v >> 31 & 1 == 0]) for v in values]
s_flags = [flag_bits([v >> (63 - 16 * k) & 1 == 0 for k in range(4)]) for v in values]
l_flags = [flag_bits([v >> 63 == 0]) for v in values]
test.expect_mask(1, i_flags)
test.expect_mask(2, s_flags)
test.expect_mask(3, [a & b for a, b in zip(i_flags, s_flags)])
test.expect_mask(4, l_flags[:2] + [0, 0])
test.write()

test = Test("masks_flush", "Zero flush: bits outside the mask become zero, in the destinations and in the forwarded value; flags do not change.")
new = mv_data(test.random, 4)
test.set(f"$lm0{PE0}", new)
test.set(f"$lr0{PE0}", [ALL] * 16)
test.run("lpassa/1001 $lm0v $lr0v", "lpassa $aluf $lr8v")
flushed = [new[0], 0, 0, new[3]]
test.expect(f"$lr0{PE0}", flushed + flushed)
test.write()

test = Test("masks_block", "mask statements: for later writes to the listed spaces, unless a destination of the step has its own mask.")
new = mv_data(test.random, 4)
test.set(f"$lm0{PE0}", new)
test.run("maskrn 24", "lpassa $lm0v $lr0v $ls0v $ln0v", "lpassa $lm0v $lr8v $ls8v/0001", "mask 0", "lpassa $lm0v $lr16v")
test.expect(f"$lr0{PE0}", [new[0], 0, 0, 0] + new + new)
test.expect(f"$ls0{PE0}", new + [0, 0, 0, new[3]])
test.expect(f"$ln0{PE0}", [new[0], 0, 0, 0])
test.write()

test = Test("addresses", "Strides, flat addresses, words, T-indirect addresses, j, base addresses, wrapping.")
memory = mv_data(test.random, 32)
test.set(f"$lm0{MAB0}", memory)
test.set(f"$lm4088{MAB0}", [101, 102, 103, 104])
words = [half for w in memory for half in (w >> 32, w & 0xFFFFFFFF)]
test.run("lpassa $lm0v4 $lr0v", "lpassa $lm[6,0,2,10] $lr8v", "ipassa $m1v $lr16v", "lpassa $lm4092v $lr24v", "ipassa $subpeid $lr40",
         "nop", "imm i\"2\" $ls0", "nop", "ilsl $lr40 $ls0 $lr42 $lmb", "lpassa $lm0 $lr32", "zero $mb",
         "ladd $lr42 $lr42 $t/1000", "lpassa $lm8 $t/0111", "nop", "lpassa $lmt0 $lr50/1000", "lpassa $lm4j1 $lr52")
for p in range(PES):
    place = f"{MAB0}p{p}"
    test.expect(f"$lr0{place}", [memory[2 * c] for c in range(4)])
    test.expect(f"$lr8{place}", [memory[k] for k in (3, 0, 1, 5)])
    test.expect(f"$lr16{place}", [words[1 + c] << 32 for c in range(4)])
    test.expect(f"$lr24{place}", [103, 104, memory[0], memory[1]])
    test.expect(f"$lr32{place}", [memory[2 * p]])
    # T of cycle 0 holds 8p in both halves: word 8p of LM0.
    test.expect(f"$lr50{place}", [memory[4 * p]])
    test.expect(f"$lr52{place}", [memory[3 if p <= 1 else 2]])
test.write()

test = Test("forwarding", "$aluf $mauf $lbf $mreadf: results of the previous step, kept over nop, not replaced by a step with noforward.")
a = mv_data(test.random, 4)
x = operand_words(random.Random(5), "f", 4)
plain = [join([moderate(test.random, F) for _ in range(2)], 32) for _ in range(4)]
test.set(f"$lm0{PE0}", a)
test.set(f"$ln0{PE0}", plain)
test.set(f"$lb0{L1B0}", mv_data(test.random, 4))
test.run("lpassa $lm0v $nowrite", "nop/2", "lpassa $aluf $lr0v", "fvpassa $ln0v $nowrite", "lpassa $mauf $lr8v", "l1bmp $lb0 $nowrite",
         "lpassa $lbf $lr16v", "lpassa $lm0v $nowrite", "noforward; lpassa $ln0v $nowrite", "lpassa $aluf $lr24v",
         "gmwrite $lm0v $lx0", "gmread $lx0 $nowrite", "lpassa $mreadf $lr32v")
test.expect(f"$lr0{PE0}", a)
test.expect(f"$lr8{PE0}", [join([F.round(F.value(v)) for v in lanes(w, 32)], 32) for w in plain])
lb = [int(line.split()[-1][16 * i : 16 * i + 16], 16) for line in test.before if "$lb0" in line for i in range(4)]
test.expect(f"$lr16{PE0}", lb)
test.expect(f"$lr24{PE0}", a)
test.write()

if __name__ == "__main__":
    with open(os.path.join(ROOT, "answer.vsm"), "w", encoding="ascii"):
        pass
