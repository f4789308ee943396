#include "isa/instruction.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "isa/error.h"

namespace kodama::isa {
namespace {

// ---- operand sets --------------------------------------------------------------------------------------

template <typename... Spaces>
constexpr SpaceSet set_of(Spaces... spaces) {
  return (space_bit(spaces) | ...);
}
constexpr SpaceSet kPeMemories = set_of(Space::kLm0, Space::kLm1, Space::kGrf0, Space::kGrf1);
constexpr SpaceSet kPeSource = kPeMemories | set_of(Space::kT, Space::kAluf, Space::kMauf, Space::kLbf);
/// The matrix-read forwarding register and the constants reach only the first ALU input.
constexpr SpaceSet kFirstAlu = kPeSource | set_of(Space::kMreadf, Space::kConstant);
constexpr SpaceSet kPeResult = kPeMemories | set_of(Space::kT, Space::kBar0, Space::kBar1, Space::kNoWrite);
/// Only ALU and MAU calculations make flags.
constexpr SpaceSet kFlagResult = kPeResult | set_of(Space::kOmr);
constexpr SpaceSet kMatrix = set_of(Space::kMatX, Space::kMatY);
constexpr SpaceSet kL1bmSide = set_of(Space::kL1bm, Space::kTurnaround);
constexpr SpaceSet kDramSide = set_of(Space::kDram, Space::kDramIndirect);
constexpr SpaceSet kMvSide = kDramSide | set_of(Space::kPdm, Space::kL2bm);

const OperandForm kAlu0{{}, kFlagResult};
const OperandForm kAlu1{{kFirstAlu}, kFlagResult};
const OperandForm kAlu2{{kFirstAlu, kPeSource}, kFlagResult};
const OperandForm kMau1{{kPeSource}, kFlagResult};
const OperandForm kMau2{{kPeSource, kPeSource}, kFlagResult};
const OperandForm kMau3{{kPeSource, kPeSource, kPeSource}, kFlagResult};
const OperandForm kL1bmToPe{{kL1bmSide}, kPeResult};
const OperandForm kPeToL1bm{{kPeSource}, kL1bmSide};
const OperandForm kL2bmToL1bm{{set_of(Space::kL2bm)}, set_of(Space::kL1bm)};
const OperandForm kL1bmToL2bm{{set_of(Space::kL1bm)}, set_of(Space::kL2bm)};

// ---- the table -----------------------------------------------------------------------------------------

InstructionInfo alu(Opcode opcode, std::string_view name, std::string_view precisions,
                    const OperandForm& form, FlagRule flags, std::string_view syntax, std::string_view effect,
                    std::string_view reference, std::string_view unsigned_precisions = {}) {
  return {.opcode = opcode,
          .name = name,
          .group = IssueGroup::kAlu,
          .precisions = precisions,
          .unsigned_precisions = unsigned_precisions,
          .forms = {form},
          .variadic_destinations = true,
          .allows_zero_flush = true,
          .flags = flags,
          .syntax = syntax,
          .effect = effect,
          .reference = reference};
}

InstructionInfo mau(Opcode opcode, std::string_view name, std::string_view precisions, bool half_select,
                    const OperandForm& form, std::string_view syntax, std::string_view effect,
                    std::string_view reference) {
  return {.opcode = opcode,
          .name = name,
          .group = IssueGroup::kMauCalc,
          .precisions = precisions,
          .half_select = half_select,
          .forms = {form},
          .variadic_destinations = true,
          .allows_zero_flush = true,
          .allows_round_output = true,
          .allows_extend = true,
          .flags = FlagRule::kNotNegative,
          .syntax = syntax,
          .effect = effect,
          .reference = reference};
}

InstructionInfo l1bm(Opcode opcode, std::string_view name, std::string_view precisions, bool reduces,
                     std::vector<OperandForm> forms, std::string_view syntax, std::string_view effect,
                     std::string_view reference) {
  const bool to_pe = std::any_of(forms.begin(), forms.end(),
                                 [](const OperandForm& f) { return f.destinations == kPeResult; });
  return {.opcode = opcode,
          .name = name,
          .group = IssueGroup::kL1bm,
          .precisions = precisions,
          .reduces = reduces,
          .rotates = opcode == Opcode::kL1bmd,
          .forms = std::move(forms),
          .variadic_destinations = to_pe,
          .allows_zero_flush = to_pe,
          .syntax = syntax,
          .effect = effect,
          .reference = reference};
}

InstructionInfo plain(Opcode opcode, std::string_view name, IssueGroup group, bool reduces,
                      std::vector<OperandForm> forms, std::string_view syntax, std::string_view effect,
                      std::string_view reference) {
  return {.opcode = opcode,
          .name = name,
          .group = group,
          .precisions = reduces ? "dfhlis" : "",
          .reduces = reduces,
          .forms = std::move(forms),
          .syntax = syntax,
          .effect = effect,
          .reference = reference};
}

std::vector<InstructionInfo> build_table() {
  using enum FlagRule;
  using O = Opcode;
  using G = IssueGroup;
  std::vector<InstructionInfo> t;

  t.push_back(plain(O::kNoForward, "noforward", G::kNoForward, false, {{}}, "noforward",
                    "the forwarding registers keep their values in this step", "3.4 M"));
  t.push_back(plain(O::kWait, "wait", G::kWait, false, {{}}, "wait i<tag>",
                    "stalls until the MV with this tag (hexadecimal, 01..3f) is done", "6.3 V"));

  // MAU. Rows with half_select: in double precision the product exists on two of the four PEs only.
  t.push_back(
      mau(O::kVfma, "vfma", "dfh", true, kMau3, "<d|f|h>vfma[u|d][r] x y z dst...",
          "per lane x * y + z, one rounding; d: suffix u multiplies on PEs 0, 1, suffix d on PEs 2, 3, "
          "elsewhere z; h: x, y are 4 halves, z and the result 4 floats (2LW)",
          "8.2 V"));
  t.push_back(mau(O::kVmul, "vmul", "dfh", true, kMau2, "<d|f|h>vmul[u|d][r] x y dst...",
                  "per lane x * y; d: as vfma, elsewhere 0", "8.2 V"));
  t.push_back(mau(O::kVadd, "vadd", "dfh", false, kMau2, "<d|f|h>vadd[r] x z dst...",
                  "per lane x * 1 + z; h: x is 4 halves, z and the result 4 floats", "8.2 V"));
  t.push_back(mau(O::kVpassa, "vpassa", "dfh", false, kMau1, "<d|f|h>vpassa[r] x dst...",
                  "per lane x * 1 + 0 (normalises)", "8.2 V"));
  t.push_back(
      mau(O::kMmul, "mmul", "dfgh", true, {{kMatrix, kPeSource}, kFlagResult},
          "<d|f|g|h>mmul[u|d][r] $lx|$ly v dst...",
          "y_i = sum_j A[i][j] * v_j per cycle, exact sum, one rounding; d: suffix u gives rows 0, 1, "
          "suffix d rows 2, 3, elsewhere 0; f: columns 0, 2, 4, 6 only; g: 8 columns; h: 16",
          "8.4 V, f M"));
  t.push_back(mau(O::kMfma, "mfma", "dfgh", true, {{kMatrix, kPeSource, kPeSource}, kFlagResult},
                  "<d|f|g|h>mfma[u|d][r] $lx|$ly v z dst...", "as mmul, plus z_i before the rounding",
                  "8.4 V, f M"));
  t.push_back(
      {.opcode = O::kMwrite,
       .name = "mwrite",
       .group = G::kMauMwrite,
       .precisions = "dfgh",
       .forms = {{{kPeSource}, kMatrix}},
       .allows_extend = true,
       .syntax = "<d|f|g|h>mwrite src $lx<a>|$ly<a> ($llx<a>, $lly<a> for h)",
       .effect = "writes rows: d row c; f, g row a+c; h row a+c from v.h, or with $llx row a+2c from v.h and "
                 "a+2c+1 from v.l. Element j of a row: d j=p; f, g j=2p+w; h j=4p+k",
       .reference = "8.3 V"});
  t.push_back({.opcode = O::kMread,
               .name = "mread",
               .group = G::kMauMread,
               .precisions = "dfgh",
               .forms = {{{kMatrix}, kPeResult}},
               .variadic_destinations = true,
               .allows_zero_flush = true,
               .syntax = "<d|f|g|h>mread $lx<a>|$ly<a> dst... ($llx<a>, $lly<a> for h)",
               .effect =
                   "reads columns: lane i of PE p = A[l*p+i][a+c], l lanes per LW; h with $llx: columns a+2c "
                   "(v.h) and a+2c+1 (v.l). Bits are copied unchanged",
               .reference = "8.3 V"});

  // ALU.
  t.push_back(alu(O::kZero, "zero", "", kAlu0, kNone, "zero dst...", "2LW of 0", "7 V"));
  t.push_back(alu(O::kImm, "imm", "", {{set_of(Space::kImmediate)}, kFlagResult}, kNone,
                  "imm[u] payload dst...",
                  "32-bit payload in all 4 words; immu: in words 0 and 2, the others 0", "7 V"));
  t.push_back(
      alu(O::kMsl, "msl", "", kAlu1, kNone, "msl x dst...", "h of PE p = h of PE (p+3)&3 of the MAB", "7 V"));
  t.push_back(
      alu(O::kMsr, "msr", "", kAlu1, kNone, "msr x dst...", "h of PE p = h of PE (p+1)&3 of the MAB", "7 V"));
  t.push_back(
      alu(O::kPassa, "passa", "dfhlis", kAlu1, kZeroResult, "<p>passa x dst...", "copy of h and l", "7 V"));
  t.push_back(alu(O::kInc, "inc", "lis", kAlu1, kNotNegative, "[u]<l|i|s>inc x dst...", "x + 1, wrapping",
                  "7 V, u M", "lis"));
  t.push_back(alu(O::kDec, "dec", "lis", kAlu1, kNotNegative, "[u]<l|i|s>dec x dst...", "x - 1, wrapping",
                  "7 V, u M", "lis"));
  t.push_back(alu(O::kNot, "not", "lis", kAlu1, kZeroResult, "<l|i|s>not x dst...", "~x", "7 V"));
  t.push_back(
      alu(O::kLnot, "lnot", "lis", kAlu1, kZeroResult, "<l|i|s>lnot x dst...", "1 if x == 0 else 0", "7 V"));
  t.push_back(
      alu(O::kMax, "max", "dfhlis", kAlu2, kChosen, "[u]<p>max x y dst...",
          "larger: integer order, or order of sign and magnitude for floats (x if both exponents are 0)",
          "7 V", "lis"));
  t.push_back(alu(O::kMin, "min", "dfhlis", kAlu2, kChosen, "[u]<p>min x y dst...", "smaller, orders as max",
                  "7 V", "lis"));
  t.push_back(alu(O::kPackbit, "packbit", "dfhlis", kAlu2, kMsbOfSecond, "<p>packbit x y dst...",
                  "(x << 1) | top bit of y", "7 V"));
  t.push_back(alu(O::kAnd, "and", "lis", kAlu2, kZeroResult, "<l|i|s>and x y dst...", "x & y", "7 V"));
  t.push_back(alu(O::kOr, "or", "lis", kAlu2, kZeroResult, "<l|i|s>or x y dst...", "x | y", "7 V"));
  t.push_back(alu(O::kXor, "xor", "lis", kAlu2, kZeroResult, "<l|i|s>xor x y dst...", "x ^ y", "7 V"));
  t.push_back(alu(O::kAdd, "add", "lis", kAlu2, kNotNegative, "[u]<l|i|s>add x y dst...", "x + y, wrapping",
                  "7 V, u M", "lis"));
  t.push_back(alu(O::kSub, "sub", "lis", kAlu2, kNotNegative, "[u]<l|i|s>sub x y dst...", "x - y, wrapping",
                  "7 V, u M", "lis"));
  t.push_back(alu(O::kLsl, "lsl", "lis", kAlu2, kZeroResult, "<l|i|s>lsl x y dst...",
                  "x << (y mod lane width)", "7 V"));
  t.push_back(alu(O::kLsr, "lsr", "lis", kAlu2, kZeroResult, "[u]<l|i|s>lsr x y dst...",
                  "x >> (y mod lane width), arithmetic; with u logical", "7 V", "lis"));
  t.push_back(alu(O::kBsl, "bsl", "lis", kAlu2, kZeroResult, "<l|i|s>bsl x y dst...",
                  "x rotated left by y mod lane width", "7 V"));
  t.push_back(alu(O::kBsr, "bsr", "lis", kAlu2, kZeroResult, "<l|i|s>bsr x y dst...",
                  "x rotated right by y mod lane width", "7 M"));
  t.push_back(alu(O::kRelu, "relu", "dfh", kAlu2, kBitOfFirst, "<d|f|h>relu x y dst... (alias relu0)",
                  "top bit of x: 0 -> y, 1 -> -0", "7 V"));
  t.push_back(alu(O::kRelu1, "relu1", "dfh", kAlu2, kBitOfFirst, "<d|f|h>relu1 x y dst...",
                  "second bit of x from the top: 0 -> y, 1 -> -0", "7 M"));
  t.push_back(alu(O::kRelu2, "relu2", "dfh", kAlu2, kBitOfFirst, "<d|f|h>relu2 x y dst...",
                  "third bit of x from the top: 0 -> y, 1 -> -0", "7 M"));
  t.push_back(alu(O::kRelu3, "relu3", "dfh", kAlu2, kBitOfFirst, "<d|f|h>relu3 x y dst...",
                  "fourth bit of x from the top: 0 -> y, 1 -> -0", "7 M"));
  t.push_back(alu(O::kLrelud, "lrelud", "dfh", kAlu2, kTopBitClear, "<d|f|h>lrelud x y dst...",
                  "sign(x) = 0 -> y, else y with exponent - 1", "7 M"));
  t.push_back(alu(O::kLreluo, "lreluo", "dfh", kAlu2, kTopBitClear, "<d|f|h>lreluo x y dst...",
                  "sign(x) = 0 -> y, else y with exponent - 3", "7 M"));
  t.push_back(alu(O::kIlrelud, "ilrelud", "dfh", kAlu2, kTopBitClear, "<d|f|h>ilrelud x y dst...",
                  "sign(x) = 0 -> y, else y with exponent + 1", "7 V"));
  t.push_back(alu(O::kRsqrt, "rsqrt", "dfh", kAlu1, kTopBitClear, "<d|f|h>rsqrt x dst...",
                  "table: |x| = 4^h * t, 1 <= t < 4, mantissa cut to 4 bits gives t'; "
                  "floor(64 / sqrt(t')) / 64 * 2^-h",
                  "7 V partly"));
  t.push_back(alu(O::kFloor, "floor", "dfh", kAlu1, kNone, "<d|f|h>floor x dst...",
                  "toward minus infinity; zero and infinity pass", "7 V"));
  t.push_back(alu(O::kFtoi, "ftoi", "dfh", kAlu1, kNone, "[u]<d|f|h>ftoi x dst...",
                  "toward 0 to an integer of the same width, saturating; with u: of |x|", "7 V", "dfh"));
  t.push_back(
      alu(O::kBfn, "bfn", "dfgh", kAlu1, kNone, "<d|f|g>bfn x dst... or hbfn[/k] x dst..., k = 6..9",
          "block-float normalisation over the MAB: d 4 values; f two blocks of 4 (upper words, lower words); "
          "g 8; h 16, h and l as two blocks",
          "8.5 V"));
  t.push_back(alu(
      O::kBfe, "bfe", "h", kAlu1, kNone, "hbfe[/k] x dst..., k = 6..9",
      "as bfn; elements more than 6 binary places below the block's exponent E are stored with exponent 0, "
      "meaning E - 6",
      "8.5 M"));

  // L1BM <-> PE.
  t.push_back(l1bm(O::kL1bmp, "l1bmp", "", false, {{{set_of(Space::kL1bm)}, kPeResult}},
                   "l1bmp $lb<a>|$llb<a> dst...",
                   "v.h = B[a+c], same for all PEs of the L1B; ll: also v.l = B[a+4+c]", "6.1 V"));
  t.push_back(l1bm(O::kL1bmm, "l1bmm", "", false, {kL1bmToPe, kPeToL1bm},
                   "l1bmm $lb<a>|$llb<a>|$lbi dst... or l1bmm@<k> src $lb<a>|$llb<a>|$lbi",
                   "v.h = B[a+4c+p], same for every MAB; ll: v.h = B[a+8c+p], v.l = B[a+8c+4+p]. "
                   "@k: the inverse from MAB k",
                   "6.1 V"));
  t.push_back(l1bm(
      O::kL1bmr, "l1bmr", "dfhlis", true, {kPeToL1bm}, "l1bmr<op> src $lb<a>|$llb<a>|$lbi",
      "B[a+4c+p] = reduction of v.h over the M MABs of the L1B (quads of consecutive MABs, then the quads); "
      "ll: layout of l1bmm",
      "6.1 V, ll M"));
  t.push_back(l1bm(
      O::kL1bmrffadd, "l1bmrffaddr", "fh", false, {kPeToL1bm},
      "l1bmrffaddr src[e] $lb<a>|$lbi or l1bmrhfadd src $lb<a>|$lbi",
      "sum over the MABs in single precision, rounded once to half. Source: 2LW of floats; with e, and "
      "always for l1bmrhfadd, an LW of halves. Per cycle, words w0..wf (w4p..w4p+3 from PE p) become 4 LW "
      "B[a+4c..]: (w0 w1 w8 w9)(w2 w3 wa wb)(w4 w5 wc wd)(w6 w7 we wf)",
      "6.1 M"));
  t.push_back(
      l1bm(O::kL1bmm4, "l1bmm4", "", false, {kL1bmToPe, kPeToL1bm},
           "l1bmm4 $lb<a>|$llb<a>|$lbi dst... or l1bmm4@<k> src $lb<a>|$llb<a>|$lbi",
           "v.h = B[a+Mc+4*(m>>2)+p]; ll: v.h = B[a+2Mc+8*(m>>2)+p], v.l = B[..+4]. @k: the inverse from MAB "
           "4*quad+k of each quad",
           "6.1 M, ll A"));
  t.push_back(l1bm(O::kL1bmr4, "l1bmr4", "dfhlis", true, {kPeToL1bm}, "l1bmr4<op> src $lb<a>|$llb<a>|$lbi",
                   "inverse of l1bmm4: reduces the 4 MABs of each quad", "6.1 M, ll A"));
  t.push_back(
      l1bm(O::kL1bmd, "l1bmd", "", false, {kL1bmToPe, kPeToL1bm},
           "l1bmd[+1|-1] $lb<a>|$lbi dst... or l1bmd src $lb<a>|$lbi",
           "v.h = B[a+4Mc+4m+p]; +1: m-1, -1: m+1 instead of m, modulo M. From the PE: B[a+4Mc+4m+p] = v.h",
           "6.1 V"));

  // L2BM <-> L1BM. Each in every L2B.
  t.push_back(plain(O::kL2bmb, "l2bmb", G::kL2bm, false, {kL2bmToL1bm}, "l2bmb[@set] $lc<x> $lb<y>",
                    "B_b[y+i] = C[x+i], i < 64", "6.2 V"));
  t.push_back(plain(O::kL2bmb2, "l2bmb2", G::kL2bm, false, {kL2bmToL1bm}, "l2bmb2[@set] $lc<x> $lb<y>",
                    "B_b[y+16c+i] = C[x+8Nc+16*(b>>1)+i], i < 16", "6.2 M, pairing A"));
  t.push_back(plain(O::kL2bmd, "l2bmd", G::kL2bm, false, {kL2bmToL1bm, kL1bmToL2bm},
                    "l2bmd[@set] $lc<x> $lb<y> or l2bmd $lb<y> $lc<x>",
                    "B_b[y+8c+i] = C[x+8Nc+8b+i], i < 8; or the inverse", "6.2 V"));
  t.push_back(plain(O::kL2bm, "l2bm", G::kL2bm, false, {kL1bmToL2bm}, "l2bm@<k> $lb<y> $lc<x>",
                    "C[x+i] = B_k[y+i], i < 64", "6.2 V"));
  t.push_back(plain(O::kL2bmr, "l2bmr", G::kL2bm, true, {kL1bmToL2bm}, "l2bmr<op>[@set] $lb<y> $lc<x>",
                    "C[x+i] = reduction of B_b[y+i] over b, i < 64", "6.2 V"));
  t.push_back(plain(O::kL2bmr2, "l2bmr2", G::kL2bm, true, {kL1bmToL2bm}, "l2bmr2<op> $lb<y> $lc<x>",
                    "C[x+8Nc+16r+i] = op(B_2r[y+16c+i], B_2r+1[y+16c+i]), r < N/2, i < 16",
                    "6.2 M, pairing A"));
  t.push_back(plain(
      O::kL2bmi, "l2bmi", G::kL2bm, false, {{{set_of(Space::kL1bm)}, set_of(Space::kL1bm)}},
      "l2bmi@<set> $lb<y> $lb<z>",
      "for each source s in the set k/im, each d with (d & im) == (s & im): B_d[z+i] = B_s[y+i], i < 64",
      "6.2 M"));
  t.push_back(plain(O::kL2bmdars, "l2bmdars", G::kL2bm, false,
                    {{{set_of(Space::kL2bm)}, set_of(Space::kDar)}}, "l2bmdars $lc<x>@.<l> $dar<e>",
                    "stages C[x+i], i < 64, as 128 addresses in the DAR buffer",
                    "6.2 M, amount and order A"));
  t.push_back(plain(O::kL2bmdarw, "l2bmdarw", G::kL2bmDarw, false, {{}}, "l2bmdarw",
                    "DAR buffer to DAR, 1 entry per cycle", "6.2 M"));

  // MV. n = LW on the wide side; u counts units.
  t.push_back(plain(
      O::kMvp, "mvp", G::kMv, false, {{{kMvSide}, kMvSide}}, "mvp/n<n>[i<tag>][nd<N>][p<0..3>] src dst",
      "linear copy of n LW between $p, $d, $di and $lc; without groups every group copies inside itself",
      "6.3 V"));
  t.push_back(plain(O::kMvb, "mvb", G::kMv, false,
                    {{{kDramSide | set_of(Space::kPdm)}, set_of(Space::kL2bm)}},
                    "mvb/n<n>... $p<a>@<g>|$d<a>@<g> $lc<x>", "every L2BM[x+i] = source[a+i], i < n",
                    "6.3 V from PDM, M from DRAM"));
  t.push_back(plain(O::kMvb2, "mvb2", G::kMv, false, {{{kDramSide}, set_of(Space::kL2bm)}},
                    "mvb2/n<n>... $d<a> $lc<x>", "every L2BM[x+i] of group g = DRAM_g[a+i], i < n", "6.3 V"));
  t.push_back(plain(O::kMvb4, "mvb4", G::kMv, false, {{{kDramSide}, set_of(Space::kL2bm)}},
                    "mvb4/n<n>... $d<a> $lc<x>", "every L2BM[x+16Gu+16g+i] = DRAM_g[a+16u+i], i < 16",
                    "6.3 V for one unit, more A"));
  t.push_back(plain(O::kMvd, "mvd", G::kMv, false,
                    {{{set_of(Space::kPdm)}, kDramSide | set_of(Space::kL2bm)},
                     {{kDramSide | set_of(Space::kL2bm)}, set_of(Space::kPdm)}},
                    "mvd/n<n>... $p<a>@<g> $d<y>|$lc<x>, or destination and source exchanged",
                    "DRAM_h[y+16u+i] = PDM_g[a+16Gu+16h+i]; L2BM_q[x+16u+i] = PDM_g[a+16Lu+16q+i], i < 16; "
                    "or the inverse. n = LW on the PDM side",
                    "6.3 V"));
  t.push_back(plain(O::kMvr, "mvr", G::kMv, true, {{{set_of(Space::kL2bm)}, kDramSide | set_of(Space::kPdm)}},
                    "mvr<op>/n<n>... $lc<x> $p<a>@<g>|$d<a>@<g>",
                    "dst[a+i] = reduction of all L2BM[x+i], i < n", "6.3 V"));
  t.push_back(plain(O::kMvr2, "mvr2", G::kMv, true, {{{set_of(Space::kL2bm)}, kDramSide}},
                    "mvr2<op>/n<n>... $lc<x> $d<a>",
                    "DRAM_g[a+i] = reduction of the L2BM[x+i] of group g, i < n", "6.3 V for g = 0"));
  t.push_back(plain(O::kMvr4, "mvr4", G::kMv, true, {{{set_of(Space::kL2bm)}, kDramSide}},
                    "mvr4<op>/n<n>... $lc<x> $d<a>",
                    "DRAM_h[a+16u+i] = reduction over g of L2BM_{g,0}[x+16Gu+16h+i], i < 16",
                    "6.3 V for n = 64, role of the other L2Bs A"));
  t.push_back(plain(O::kMvnop, "mvnop", G::kMv, false, {{}}, "mvnop", "nothing", "6.3 M"));

  for (InstructionInfo& row : t) {
    for (const OperandForm& form : row.forms) {
      for (size_t i = 0; i < form.sources.size(); ++i) {
        row.sources[i] |= form.sources[i];
        if (form.sources[i] != 0) row.source_count = std::max<uint8_t>(row.source_count, i + 1);
      }
      row.destinations |= form.destinations;
    }
    row.allows_unsigned = !row.unsigned_precisions.empty() || row.opcode == O::kImm;
  }
  check_internal(static_cast<int>(t.size()) == kOpcodeCount - 1, "the instruction table",
                 "{} rows for {} opcodes", t.size(), kOpcodeCount - 1);
  for (size_t i = 0; i < t.size(); ++i) {
    check_internal(static_cast<size_t>(t[i].opcode) == i + 1, "the instruction table",
                   "row {} ('{}') is not in the order of the opcodes", i, t[i].name);
  }
  return t;
}

const std::vector<InstructionInfo>& table() {
  static const std::vector<InstructionInfo> rows = build_table();
  return rows;
}

// ---- mnemonics -----------------------------------------------------------------------------------------

/// Whether the mnemonic `<row><code>` exists. The sum of halves over MABs runs in single precision and has a
/// row of its own.
bool reduction_exists(const InstructionInfo& row, ReduceOp op, Precision precision) {
  if (row.opcode == Opcode::kL1bmr && op == ReduceOp::kFadd && precision == Precision::kHalf) return false;
  return reduce_op_allows(op, precision);
}

struct Mnemonics {
  std::vector<Instruction> list;
  std::unordered_map<std::string, size_t> index;

  void add(const Instruction& instruction) {
    const std::string text = mnemonic(instruction);
    const bool is_new = index.emplace(text, list.size()).second;
    check_internal(is_new, "the instruction table", "two meanings of '{}'", text);
    list.push_back(instruction);
  }

  /// The mnemonic of `row` in one precision with every combination of prefixes and suffixes.
  void add_variants(const InstructionInfo& row, Instruction instruction) {
    const char letter = precision_letter(instruction.precision);
    if (row.opcode == Opcode::kL1bmrffadd) instruction.reduce_op = ReduceOp::kFadd;
    if (row.reduces) {
      for (int op = 1; op < kReduceOpCount; ++op) {
        instruction.reduce_op = static_cast<ReduceOp>(op);
        if (reduction_exists(row, instruction.reduce_op, instruction.precision)) add(instruction);
      }
      return;
    }
    std::string_view selects;
    if (row.half_select && instruction.precision == Precision::kDouble) selects = "ud";
    const bool has_unsigned = row.opcode == Opcode::kImm ||
                              (letter != 0 && row.unsigned_precisions.find(letter) != std::string_view::npos);
    for (size_t s = 0; s < std::max<size_t>(selects.size(), 1); ++s) {
      instruction.half_select = selects.empty() ? '\0' : selects[s];
      for (int round = 0; round <= (row.allows_round_output ? 1 : 0); ++round) {
        instruction.round_output = round != 0;
        for (int is_unsigned = 0; is_unsigned <= (has_unsigned ? 1 : 0); ++is_unsigned) {
          instruction.unsigned_op = is_unsigned != 0;
          for (const int rotation : {0, 1, -1}) {
            if (rotation != 0 && !row.rotates) continue;
            instruction.rotation = static_cast<int8_t>(rotation);
            add(instruction);
          }
        }
      }
    }
  }

  Mnemonics() {
    for (const InstructionInfo& row : table()) {
      Instruction instruction;
      instruction.opcode = row.opcode;
      if (row.precisions.empty()) add_variants(row, instruction);
      for (const char letter : row.precisions) {
        instruction.precision = precision_of_letter(letter);
        add_variants(row, instruction);
      }
    }
    // Aliases: other spellings of a mnemonic above.
    for (const std::string precision : {"d", "f", "h"}) {
      index.emplace(precision + "relu0", index.at(precision + "relu"));
    }
  }
};

const Mnemonics& mnemonics() {
  static const Mnemonics all;
  return all;
}

bool any_operand(const std::vector<Operand>& operands, SpaceSet spaces) {
  return std::any_of(operands.begin(), operands.end(),
                     [&](const Operand& operand) { return (space_bit(operand.space) & spaces) != 0; });
}

bool fits(const Operand& operand, SpaceSet allowed) {
  if (operand.space == Space::kVirtual) return (allowed & kPeMemories) != 0;
  return (allowed & space_bit(operand.space)) != 0;
}

std::string list_spaces(SpaceSet spaces) {
  std::string text;
  for (int i = 1; i < static_cast<int>(Space::kVirtual); ++i) {
    const auto space = static_cast<Space>(i);
    if ((spaces & space_bit(space)) == 0) continue;
    if (!text.empty()) text += ", ";
    text += space_name(space);
  }
  return text;
}

}  // namespace

// ---- small vocabularies --------------------------------------------------------------------------------

char precision_letter(Precision precision) {
  return "\0dfghlis"[static_cast<int>(precision)];
}

Precision precision_of_letter(char letter) {
  const size_t at = std::string_view("dfghlis").find(letter);
  return at == std::string_view::npos ? Precision::kNone : static_cast<Precision>(at + 1);
}

int lanes(Precision precision) {
  switch (precision) {
    case Precision::kFloat:
    case Precision::kGFloat:
    case Precision::kInt:
      return 2;
    case Precision::kHalf:
    case Precision::kShort:
      return 4;
    default:
      return 1;
  }
}

std::string_view issue_group_name(IssueGroup group) {
  static constexpr std::string_view kNames[] = {
      "noforward", "l2bm", "l2bmdarw", "l1bm", "l1bm-turnaround", "mau-calc", "mau-mwrite",
      "mau-mread", "alu",  "wait",     "mv"};
  return kNames[static_cast<int>(group)];
}

std::string_view fixed_constant_name(FixedConstant constant) {
  static constexpr std::string_view kNames[] = {"l2bid", "l1bid", "mabid", "peid", "subpeid", "msb1"};
  static_assert(std::size(kNames) == kFixedConstantCount);
  return kNames[static_cast<int>(constant)];
}

std::string_view reduce_op_name(ReduceOp op) {
  static constexpr std::string_view kNames[] = {"", "fadd", "max", "min", "iadd", "band", "and", "bor", "or"};
  static_assert(std::size(kNames) == kReduceOpCount);
  return kNames[static_cast<int>(op)];
}

bool reduce_op_allows(ReduceOp op, Precision precision) {
  const bool is_float =
      precision == Precision::kDouble || precision == Precision::kFloat || precision == Precision::kHalf;
  const bool is_integer =
      precision == Precision::kLong || precision == Precision::kInt || precision == Precision::kShort;
  switch (op) {
    case ReduceOp::kNone:
      return false;
    case ReduceOp::kFadd:
    case ReduceOp::kMax:
    case ReduceOp::kMin:
      return is_float;
    default:
      return is_integer;
  }
}

bool is_pe_memory(Space space) {
  return (space_bit(space) & kPeMemories) != 0;
}

std::string_view space_name(Space space) {
  static constexpr std::string_view kNames[] = {"no operand",
                                                "$m (LM0)",
                                                "$n (LM1)",
                                                "$r (GRF0)",
                                                "$s (GRF1)",
                                                "$t",
                                                "$omr",
                                                "$mb (BAR of LM0)",
                                                "$nb (BAR of LM1)",
                                                "$nowrite",
                                                "$aluf",
                                                "$mauf",
                                                "$lbf",
                                                "$mreadf",
                                                "a constant",
                                                "an immediate",
                                                "$lx (matrix register)",
                                                "$ly (matrix register)",
                                                "$lb (L1BM)",
                                                "$lbi (turnaround)",
                                                "$lc (L2BM)",
                                                "$dar",
                                                "$p (PDM)",
                                                "$d (DRAM)",
                                                "$di (indirect DRAM)",
                                                "a value"};
  static_assert(std::size(kNames) == static_cast<size_t>(Space::kVirtual) + 1);
  return kNames[static_cast<int>(space)];
}

bool L1bSet::contains(int b, int count) const {
  if (b < 0 || b >= count) return false;
  switch (kind) {
    case Kind::kAll:
      return true;
    case Kind::kOne:
      return b == k;
    case Kind::kMasked:
      return ((b ^ k) & ~int{ignore_mask} & (count - 1)) == 0;
    case Kind::kList:
      return (list >> b & 1) != 0;
  }
  return false;
}

// ---- table access --------------------------------------------------------------------------------------

const InstructionInfo& info(Opcode opcode) {
  const int index = static_cast<int>(opcode);
  check_internal(index > 0 && index < kOpcodeCount, "the instruction table", "opcode {} has no row", index);
  return table()[static_cast<size_t>(index) - 1];
}

std::span<const InstructionInfo> instruction_table() {
  return table();
}

std::string mnemonic(const Instruction& instruction) {
  const InstructionInfo& row = info(instruction.opcode);
  if (row.opcode == Opcode::kL1bmrffadd && instruction.precision == Precision::kHalf) return "l1bmrhfadd";
  std::string text;
  const char letter = precision_letter(instruction.precision);
  const bool letter_first = letter != 0 && !row.reduces && row.opcode != Opcode::kL1bmrffadd;
  if (letter_first) {
    if (instruction.unsigned_op) text += 'u';
    text += letter;
  }
  text += row.name;
  if (row.reduces) {
    if (letter != 0) text += letter;
    text += reduce_op_name(instruction.reduce_op);
  }
  if (!letter_first && instruction.unsigned_op) text += 'u';
  if (instruction.half_select != 0) text += instruction.half_select;
  if (instruction.round_output) text += 'r';
  if (instruction.rotation != 0) text += instruction.rotation > 0 ? "+1" : "-1";
  return text;
}

std::optional<Instruction> parse_mnemonic(std::string_view text) {
  const Mnemonics& all = mnemonics();
  const auto found = all.index.find(std::string(text));
  if (found == all.index.end()) return std::nullopt;
  return all.list[found->second];
}

std::span<const Instruction> all_mnemonics() {
  return mnemonics().list;
}

IssueGroup issue_group(const Instruction& instruction) {
  const IssueGroup group = info(instruction.opcode).group;
  if (group == IssueGroup::kL1bm && any_operand(instruction.sources, space_bit(Space::kTurnaround))) {
    return IssueGroup::kL1bmTurnaround;
  }
  return group;
}

FlagRule flag_rule(const Instruction& instruction) {
  const FlagRule rule = info(instruction.opcode).flags;
  return rule == FlagRule::kNotNegative && instruction.unsigned_op ? FlagRule::kNoCarry : rule;
}

bool is_l1bm_to_pe(const Instruction& instruction) {
  return info(instruction.opcode).group == IssueGroup::kL1bm && any_operand(instruction.sources, kL1bmSide);
}

bool is_pe_to_l1bm(const Instruction& instruction) {
  return info(instruction.opcode).group == IssueGroup::kL1bm &&
         any_operand(instruction.destinations, kL1bmSide);
}

std::string operand_error(const Instruction& instruction, int* culprit) {
  int unused = -1;
  int& at_fault = culprit != nullptr ? *culprit : unused;
  at_fault = -1;
  const InstructionInfo& row = info(instruction.opcode);
  const std::string name = mnemonic(instruction);
  const auto& sources = instruction.sources;
  const auto& destinations = instruction.destinations;
  if (sources.size() != row.source_count) {
    return fmt::format("'{}' takes {} source operand{}, found {} (syntax: {})", name, row.source_count,
                       row.source_count == 1 ? "" : "s", sources.size(), row.syntax);
  }
  if (row.destinations == 0 && !destinations.empty()) {
    return fmt::format("'{}' has no destination, found {} (syntax: {})", name, destinations.size(),
                       row.syntax);
  }
  if (row.destinations != 0 && destinations.empty()) {
    return fmt::format("'{}' needs a destination (syntax: {})", name, row.syntax);
  }

  // The form is the one that the sources fit; a row never has two forms that fit the same sources.
  const OperandForm* form = nullptr;
  for (const OperandForm& candidate : row.forms) {
    bool all = true;
    for (size_t i = 0; i < sources.size(); ++i) all = all && fits(sources[i], candidate.sources[i]);
    if (all) form = &candidate;
  }
  if (form == nullptr) {
    for (size_t i = 0; i < sources.size(); ++i) {
      if (!fits(sources[i], row.sources[i])) {
        at_fault = static_cast<int>(i);
        return fmt::format("source {} of '{}' can't be {}; allowed: {}", i + 1, name,
                           space_name(sources[i].space), list_spaces(row.sources[i]));
      }
    }
    return fmt::format("'{}' can't combine these sources (syntax: {})", name, row.syntax);
  }
  for (size_t i = 0; i < destinations.size(); ++i) {
    const Operand& destination = destinations[i];
    if (!fits(destination, form->destinations)) {
      at_fault = static_cast<int>(sources.size() + i);
      return fmt::format("destination of '{}' can't be {}; allowed here: {}", name,
                         space_name(destination.space), list_spaces(form->destinations));
    }
  }
  const bool to_pe = (form->destinations & kPeMemories) != 0;
  if (destinations.size() > 1) {
    if (!row.variadic_destinations || !to_pe) {
      return fmt::format("'{}' has one destination, found {}", name, destinations.size());
    }
    if (any_operand(destinations, space_bit(Space::kNoWrite))) {
      return fmt::format("'$nowrite' must be the only destination of '{}'", name);
    }
  }
  if (instruction.zero_flush.kind != Mask::Kind::kNone && !(row.allows_zero_flush && to_pe)) {
    return fmt::format(
        "'{}' has no zero flush here; it exists for ALU, MAU calculation, mread and L1BM -> PE", name);
  }
  const bool is_transfer_out = row.group == IssueGroup::kL1bm && !to_pe;
  const bool is_moving_out_one =
      instruction.opcode == Opcode::kL1bmm || instruction.opcode == Opcode::kL1bmm4;
  if (is_moving_out_one && is_transfer_out != (instruction.unit >= 0)) {
    return is_transfer_out ? fmt::format("'{}' to L1BM needs the MAB: '{}@<k>'", name, name)
                           : fmt::format("'{}' from L1BM takes no '@'", name);
  }
  if (instruction.rotation != 0 && is_transfer_out)
    return fmt::format("'{}' exists only from L1BM to the PE", name);
  if (instruction.opcode == Opcode::kL2bm && instruction.unit < 0) return "'l2bm' needs the L1B: 'l2bm@<k>'";
  if (instruction.block_bits != -1) {
    const bool is_block = instruction.opcode == Opcode::kBfn || instruction.opcode == Opcode::kBfe;
    if (!is_block || instruction.precision != Precision::kHalf) {
      return fmt::format("'{}' takes no '/k'; only hbfn and hbfe do", name);
    }
    if (instruction.block_bits < 6 || instruction.block_bits > 9) {
      return fmt::format("'{}/{}': k must be 6 to 9", name, instruction.block_bits);
    }
  }

  for (size_t i = 0; i < destinations.size(); ++i) {
    const Operand& destination = destinations[i];
    at_fault = static_cast<int>(sources.size() + i);
    if (destination.negate || destination.extend || destination.reduce) {
      return fmt::format("a destination of '{}' takes no '-', 'e' or 'r'", name);
    }
    if (destination.mask.kind == Mask::Kind::kNone) continue;
    if (!to_pe || destination.space == Space::kNoWrite) {
      return fmt::format("{} as destination of '{}' can't be masked", space_name(destination.space), name);
    }
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    const Operand& source = sources[i];
    at_fault = static_cast<int>(i);
    const bool is_pe_side = fits(source, kFirstAlu);
    if (source.mask.kind != Mask::Kind::kNone) return fmt::format("a source of '{}' takes no mask", name);
    if (source.negate && !(row.allows_extend && is_pe_side)) {
      return fmt::format("'-' on source {} of '{}': only MAU sources can be negated", i + 1, name);
    }
    const bool is_half = instruction.precision == Precision::kHalf;
    // In half precision x, y and v are halves, the addend z is floats.
    const bool is_addend = (instruction.opcode == Opcode::kVfma && i == 2) ||
                           (instruction.opcode == Opcode::kVadd && i == 1) ||
                           (instruction.opcode == Opcode::kMfma && i == 2);
    if (source.extend) {
      const bool is_widening_sum =
          instruction.opcode == Opcode::kL1bmrffadd && instruction.precision == Precision::kFloat;
      const bool is_mau = row.allows_extend && is_pe_side && (!is_half || is_addend);
      if (!is_mau && !is_widening_sum) {
        return fmt::format(
            "'e' on source {} of '{}': allowed on double and float sources of the MAU, on the addend "
            "of half operations and for l1bmrffaddr",
            i + 1, name);
      }
    }
    if (source.reduce) {
      const bool is_unit = row.group == IssueGroup::kAlu || row.allows_extend;
      if (!is_unit || !is_half || is_addend || !is_pe_side) {
        return fmt::format("'r' on source {} of '{}': allowed only where the input is halves", i + 1, name);
      }
    }
    if (source.extend && source.reduce)
      return fmt::format("source {} of '{}' has both 'e' and 'r'", i + 1, name);
  }
  at_fault = -1;
  return {};
}

}  // namespace kodama::isa
