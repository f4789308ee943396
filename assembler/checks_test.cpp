#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "assembler/assembler.h"
#include "isa/error.h"
#include "isa/user_errors.h"

namespace kodama::assembler {
namespace {

const isa::Chip& chip() {
  static const isa::Chip chip = isa::find_chip("mncore2");
  return chip;
}

std::string error_of(std::string_view text) {
  try {
    assemble(text, "a.vsm", chip());
  } catch (const isa::UserError& error) {
    return error.what();
  }
  return "";
}

struct Case {
  std::string text;
  std::string message;
};

void expect_messages(std::initializer_list<Case> cases) {
  for (const Case& c : cases) EXPECT_EQ(error_of(c.text), "a.vsm:" + c.message) << c.text;
}

TEST(SyntaxErrors, SayWhereAndWhatIsAllowed) {
  expect_messages({
      {"fvfam $lm0v $ln0v $lr0v $ls0v", "1:1: unknown instruction 'fvfam'; did you mean 'fvfma'?"},
      {"frobnicate", "1:1: unknown instruction 'frobnicate'"},
      {"linc", "1:1: 'linc' takes 1 source operand, found 0 (syntax: [u]<l|i|s>inc x dst...)"},
      {"linc $lr0 $lr0 foo", "1:16: expected an operand such as $lm0v, found 'foo'"},
      {"linc $lr0 $lr0,", "1:15: unexpected ',' after the operand $lr0"},
      {"linc $lrx $lr0",
       "1:6: unknown operand '$lrx'; e.g. $lm0v, $r3, $ls[0,2,4,6], $lmt, $t, $aluf, $lb0, $lc0@0.0, $d0@0, "
       "$peid, $omr1"},
      {"linc $lq0 $lr0",
       "1:6: unknown operand '$lq0'; e.g. $lm0v, $r3, $ls[0,2,4,6], $lmt, $t, $aluf, $lb0, $lc0@0.0, $d0@0, "
       "$peid, $omr1"},
      {"linc $lr $lr0",
       "1:6: unknown operand '$lr'; e.g. $lm0v, $r3, $ls[0,2,4,6], $lmt, $t, $aluf, $lb0, $lc0@0.0, $d0@0, "
       "$peid, $omr1"},
      {"linc $lr0v- $lr0", "1:11: unexpected '-' after the operand $lr0v"},
      {"linc $lr[0,1,2] $lr0", "1:15: expected ',', found ']'; a list has 4 addresses, one per cycle"},
      {"linc $lr[0,2,4,6,8] $lr0", "1:17: expected ']', found ',8]'; a list has 4 addresses, one per cycle"},
      {"linc $lr99999999999999999999 $lr0", "1:9: the number 99999999999999999999 is too large"},
      {"linc $lm0b1 $lr0", "1:10: unexpected 'b1' after the operand $lm0"},
      {"linc;; nop", "1:6: expected an instruction, found ';'"},
      {"; nop", "1:1: expected an instruction, found ';'"},
      {"nop/0", "1:1: nop/0: a number of steps is at least 1"},
      {"nop/4294967297", "1:1: nop/4294967297: a number of steps is 1 to 4294967296"},
      {"nop/x", "1:5: expected a number of steps, found 'x'"},
      {"nop/99999999999999999999", "1:5: the number 99999999999999999999 is too large"},
      {"nop; nop", "1:6: nop is given twice; write nop/N for N steps"},
      {"nop; linc $lr0 $lr0", "1:6: only wait may stand beside nop, not linc"},
      {"nop/2; wait i01", "1:1: wait stands beside a single nop, not beside nop/2"},
      {"wait 5", "1:6: expected a tag, e.g. wait i01, found '5'"},
      {"wait i0", "1:7: '0' is no tag; allowed: 01 to 3f (hexadecimal)"},
      {"wait i40", "1:7: '40' is no tag; allowed: 01 to 3f (hexadecimal)"},
      {"nop; wait i01; wait i02", "1:16: wait is given twice; one tag per step"},
      {"linc/100 $lr0 $lr0",
       "1:6: '100' is no mask; allowed: four digits 0 or 1, one per cycle (/1000, /ll1000), or /$imr<k>, "
       "/$llimr<k>"},
      {"linc/$imx1 $lr0 $lr0", "1:6: '$imx1' is no mask; allowed: /1000, /ll1000, /$imr<k>, /$llimr<k>"},
      {"linc $lr0 $lr0/10",
       "1:16: '10' is no mask; allowed: four digits 0 or 1, one per cycle (/1000, /ll1000), or /$imr<k>, "
       "/$llimr<k>"},
      {"linc@3 $lr0 $lr0", "1:5: linc takes no @"},
      {"maskz 1",
       "1:5: unknown statement 'maskz'; a mask statement is mask[l|ll] and any of the spaces r s t m n k, "
       "then an entry"},
      {"maskrr 1", "1:6: space r is named twice"},
      {"mask", "1:5: expected a mask entry, found the end of the line"},
      {"quit now", "1:6: unexpected 'now' after the statement"},
      {"imm 5 $lr0", R"(1:5: expected a payload, e.g. i"5", ui"0xff", s"8", f"1.5" or h"2.0", found '5')"},
      {R"(imm q"5" $lr0)",
       R"(1:5: unknown kind of payload 'q'; allowed: i ui s us f h d l, e.g. i"5" or f"1.5")"},
      {R"(imm i"5 $lr0)", R"(1:5: the payload has no closing '"')"},
      {R"(imm i"five" $lr0)", R"(1:5: "five" is not an integer; write e.g. 5, -3, 0x1f or 0b101)"},
      {R"(imm i"4294967296" $lr0)", "1:5: 4294967296 is out of range; allowed: -2147483648 to 4294967295"},
      {R"(imm s"70000" $lr0)", "1:5: 70000 is out of range; allowed: -32768 to 65535"},
      {R"(imm ui"-1" $lr0)", "1:5: -1 is out of range; allowed: 0 to 4294967295"},
      {R"(imm f"nan" $lr0)", R"(1:5: the chip has no NaN; write the bit pattern as i"0x…" if that is meant)"},
      {R"(imm f"1e50" $lr0)",
       "1:5: 1e50 is outside the range of the format; write inf or 0 if that is meant"},
      {R"(imm h"1e30" $lr0)",
       "1:5: 1e30 is outside the range of the format; write inf or 0 if that is meant"},
      {R"(imm f"" $lr0)", R"(1:5: "" is not a number; write e.g. 1.5, -2, 1e-3 or inf)"},
      {R"(imm f"+-1" $lr0)", R"(1:5: "+-1" is not a number; write e.g. 1.5, -2, 1e-3 or inf)"},
      {R"(imm l"5" $lr0)", "1:5: 5 can't be made by one imm, which gives equal upper and lower words"},
      {R"(immu l"5" $lr0)", "1:6: 5 can't be made by one immu, which gives a lower word of 0"},
      {"l2bmb@[0,0] $lc0 $lb0", "1:10: L1B 0 is listed twice"},
      {"l2bmb@[0 $lc0 $lb0", "1:10: expected ',' or ']', found '$lc0'"},
      {"l2bmb@[32] $lc0 $lb0", "1:8: L1B 32 is too large; allowed: at most 31"},
  });
}

TEST(OperandErrors, SayWhereAndWhatIsAllowed) {
  expect_messages({
      {"linc $lr3 $lr0",
       "1:6: address 3 of $lr3 is misaligned: a long-word (l) access needs a multiple of 2 words"},
      {"linc $llm2v $lr0",
       "1:6: address 2 of $llm2v is misaligned: a double-long-word (ll) access needs a multiple of 4 words"},
      {"linc $lr0v3 $lr0",
       "1:6: stride 3 of $lr0v3 is misaligned: a long-word (l) access needs a multiple of 2 words"},
      {"linc $lr[0,2,4,5] $lr0",
       "1:6: address 5 of $lr[0,2,4,5] is misaligned: a long-word (l) access needs a multiple of 2 words"},
      {"linc $lr512 $lr0", "1:6: address 512 is out of range; allowed: 0..511 (words)"},
      {"linc $lm4096 $lr0", "1:6: address 4096 is out of range; allowed: 0..4095 (words)"},
      {"linc $lr0v512 $lr0", "1:6: stride 512 is out of range; allowed: 0..511 (words)"},
      {"linc $lm0v[0,1,2,3] $lr0", "1:11: unexpected '[0,1,2,3]' after the operand $lm0v"},
      {"linc $lmt0j1 $lr0", "1:6: j and T-indirect addressing exclude each other"},
      {"linc $lnt $lr0",
       "1:6: unknown operand '$lnt'; e.g. $lm0v, $r3, $ls[0,2,4,6], $lmt, $t, $aluf, $lb0, $lc0@0.0, $d0@0, "
       "$peid, $omr1"},
      {"linc $lr0j1 $lr0", "1:6: j applies to local memory only ($m and $n)"},
      {"linc $lm0j4 $lr0", "1:6: j4 names no PE of a MAB; allowed: j0..j3"},
      {"linc $peid $omr0", "1:12: mask entry 0 can't be written; allowed: $omr1..$omr15"},
      {"linc $peid $omr16", "1:12: mask entry 16 can't be written; allowed: $omr1..$omr15"},
      {"ladd $lr0 $peid $ls0",
       "1:11: source 2 of 'ladd' can't be a constant; allowed: $m (LM0), $n (LM1), $r (GRF0), $s (GRF1), $t, "
       "$aluf, $mauf, $lbf"},
      {"ladd $lr0 $mreadf $ls0",
       "1:11: source 2 of 'ladd' can't be $mreadf; allowed: $m (LM0), $n (LM1), $r (GRF0), $s (GRF1), $t, "
       "$aluf, $mauf, $lbf"},
      {"fvadd $peid $lr0 $ls0",
       "1:7: source 1 of 'fvadd' can't be a constant; allowed: $m (LM0), $n (LM1), $r (GRF0), $s (GRF1), $t, "
       "$aluf, $mauf, $lbf"},
      {"linc $mb $lr0",
       "1:6: source 1 of 'linc' can't be $mb (BAR of LM0); allowed: $m (LM0), $n (LM1), $r (GRF0), $s "
       "(GRF1), $t, $aluf, $mauf, $lbf, $mreadf, a constant"},
      {"linc $nowrite $lr0",
       "1:6: source 1 of 'linc' can't be $nowrite; allowed: $m (LM0), $n (LM1), $r (GRF0), $s (GRF1), $t, "
       "$aluf, $mauf, $lbf, $mreadf, a constant"},
      {"linc $lr0 $aluf",
       "1:11: destination of 'linc' can't be $aluf; allowed here: $m (LM0), $n (LM1), $r (GRF0), $s (GRF1), "
       "$t, $omr, $mb (BAR of LM0), $nb (BAR of LM1), $nowrite"},
      {"linc $lr0 $nowrite $ls0", "1:1: '$nowrite' must be the only destination of 'linc'"},
      {"linc $lr0", "1:1: 'linc' needs a destination (syntax: [u]<l|i|s>inc x dst...)"},
      {"ladd $lr0 $ls0", "1:1: 'ladd' needs a destination (syntax: [u]<l|i|s>add x y dst...)"},
      {"linc -$lr0 $ls0", "1:6: '-' on source 1 of 'linc': only MAU sources can be negated"},
      {"linc $lr0e $ls0",
       "1:6: 'e' on source 1 of 'linc': allowed on double and float sources of the MAU, on the addend of "
       "half operations and for l1bmrffaddr"},
      {"linc $lr0r $ls0", "1:6: 'r' on source 1 of 'linc': allowed only where the input is halves"},
      {"fvadd $lr0r $ls0 $t", "1:7: 'r' on source 1 of 'fvadd': allowed only where the input is halves"},
      {"hvadd $lr0e $ls0 $t",
       "1:7: 'e' on source 1 of 'hvadd': allowed on double and float sources of the MAU, on the addend of "
       "half operations and for l1bmrffaddr"},
      {"hvfma $lr0 $ls0 $t $lr0r", "1:20: a destination of 'hvfma' takes no '-', 'e' or 'r'"},
      {"hvadd $lr0 $ls0re $t", "1:16: unexpected 're' after the operand $ls0"},
      {"linc $lr0/1000 $lr0", "1:6: a source of 'linc' takes no mask"},
      {"linc $lr0 $lr0/$imr32",
       "1:11: mask entry 32 does not exist; allowed: 0..31 (0 = all ones, 1..15 variable, 16 and up constant "
       "patterns)"},
      {"linc/$imr32 $lr0 $lr0",
       "1:1: mask entry 32 does not exist; allowed: 0..31 (0 = all ones, 1..15 variable, 16 and up constant "
       "patterns)"},
      {"hbfn/5 $lr0 $ls0", "1:1: 'hbfn/5': k must be 6 to 9"},
      {"fbfn/9 $lr0 $ls0", "1:1: 'fbfn' takes no '/k'; only hbfn and hbfe do"},
      {"dvmul $lr0 $ls0 $t", "1:1: unknown instruction 'dvmul'; did you mean 'dvmulu'?"},
      {"gmmul $lx4 $lr0v $ls0v", "1:7: gmmul uses the whole register; write $lx or $ly"},
      {"gmwrite $lr0v $lx", "1:15: $lx needs a row or column here, e.g. $lx0"},
      {"gmwrite $lr0v $lx2", "1:15: row 2 does not exist for gmwrite; allowed: 0, 4"},
      {"gmwrite $lr0v $lx8", "1:15: row 8 does not exist for gmwrite; allowed: 0, 4"},
      {"gmwrite $lr0v $llx0", "1:15: gmwrite moves one row or column per cycle; write $lx or $ly"},
      {"hmread $lx0 $lr0v", "1:8: hmread gives two columns per cycle; write $llx or $lly"},
      {"hmwrite $lr0v $lx16", "1:15: row 16 does not exist for hmwrite; allowed: 0, 4, 8, 12"},
      {"l1bmm $lr0 $lb0", "1:1: 'l1bmm' to L1BM needs the MAB: 'l1bmm@<k>'"},
      {"l1bmm@16 $lr0 $lb0", "1:1: MAB 16 does not exist; allowed: l1bmm@0 to l1bmm@15"},
      {"l1bmm@0 $lb0 $lr0", "1:1: 'l1bmm' from L1BM takes no '@'"},
      {"l1bmd@0 $lr0 $lb0", "1:1: l1bmd names no MAB; leave out @0"},
      {"l1bmp $lr0 $lb0", "1:7: source 1 of 'l1bmp' can't be $r (GRF0); allowed: $lb (L1BM)"},
      {"l1bmd $lb0 $lb8",
       "1:12: destination of 'l1bmd' can't be $lb (L1BM); allowed here: $m (LM0), $n (LM1), $r (GRF0), $s "
       "(GRF1), $t, $mb (BAR of LM0), $nb (BAR of LM1), $nowrite"},
      {"l1bmd $llb0 $lr0", "1:7: l1bmd moves one LW per PE and cycle; write $lb or $lbi"},
      {"l1bmd $lb8192 $lr0", "1:7: address 8192 is out of range; allowed: 0..8191 (LW of L1BM)"},
      {"l1bmd+1 $lr0 $lb0", "1:1: 'l1bmd+1' exists only from L1BM to the PE"},
      {"l1bmd/1000 $lr0 $lb0",
       "1:1: 'l1bmd' has no zero flush here; it exists for ALU, MAU calculation, mread and L1BM -> PE"},
      {"l1bmd $lr0 $lb0/1000", "1:12: $lb (L1BM) as destination of 'l1bmd' can't be masked"},
      {"l2bmb $lc8 $lb0", "1:7: address 8 is misaligned: l2bmb needs multiples of 16 LW"},
      {"l2bmb $lc0 $lb8", "1:12: address 8 is misaligned: l2bmb needs multiples of 16 LW"},
      {"l2bmb $lc32768 $lb0", "1:7: address 32768 is out of range; allowed: 0..32767 (LW of L2BM)"},
      {"l2bmb $lc0@.1 $lb0", "1:7: l2bmb runs in every L2B; leave out the L2B"},
      {"l2bmb $lc0@1.1 $lb0", "1:7: l2bmb runs in every group; leave out the group"},
      {"l2bmb@8 $lc0 $lb0", "1:1: L1B 8 does not exist; allowed: 0..7"},
      {"l2bmb@0/8 $lc0 $lb0", "1:1: don't-care mask 8 is out of range; allowed: 0..7"},
      {"l2bmb@[7,8] $lc0 $lb0", "1:1: the list names an L1B that does not exist; allowed: 0..7"},
      {"l2bmd@1 $lb0 $lc0", "1:1: l2bmd to L2BM always works on all L1Bs; leave out the set after @"},
      {"l2bm $lb0 $lc0", "1:1: 'l2bm' needs the L1B: 'l2bm@<k>'"},
      {"l2bm@8 $lb0 $lc0", "1:1: L1B 8 does not exist; allowed: l2bm@0 to l2bm@7"},
      {"l2bmi $lb0 $lb64", "1:1: l2bmi names its sources, l2bmi@<k> or l2bmi@<k>/<don't-care mask>"},
      {"l2bmi@0/7 $lb0 $lb64", "1:1: l2bmi can't take all L1Bs as sources; allowed: don't-care masks 0..6"},
      {"l2bmi@[0] $lb0 $lb64", "1:1: l2bmi names its sources, l2bmi@<k> or l2bmi@<k>/<don't-care mask>"},
      {"l2bmdars $lc0 $dar0", "1:10: l2bmdars names the L2B of its group; write $lc<a>@.<l2b>"},
      {"l2bmdars $lc0@.0 $dar1024", "1:18: entry 1024 is out of range; allowed: 0..1023 (entries of DAR)"},
      {"linc $lr0@1 $lr0", "1:10: only $lc, $p, $d and $di take an @"},
      {"mask 3",
       "1:1: mask 3 names no space; write e.g. maskr 3 (spaces: r s t m n k), or mask 0 to end masking"},
      {"maskr 32", "1:1: mask entry 32 does not exist; allowed: 0..31"},
  });
}

TEST(StepErrors, SayWhereAndWhatIsAllowed) {
  expect_messages({
      {"wait i01", "1:1: wait never stands alone; write nop; wait i<tag>"},
      {"mvp/n64 $d0@0 $lc0@0.0; linc $lr0 $lr0",
       "1:1: a transfer is a statement of its own; write it on a line by itself"},
      {"linc $lr0 $lr0; ldec $ls0 $ls0",
       "1:17: 'linc' and 'ldec' both belong to the group alu; a step has at most one of each group"},
      {"noforward; noforward",
       "1:12: 'noforward' and 'noforward' both belong to the group noforward; a step has at most one of each "
       "group"},
      {"nop; noforward", "1:6: only wait may stand beside nop, not noforward"},
      {"fvadd $lr0 $ls0 $t; gmwrite $lr2 $lx0",
       "1:21: 'fvadd' and 'gmwrite' have different precisions; MAU instructions of one step need the same "
       "precision letter"},
      {"fvadd $lr0 $ls0 $t; fmwrite $lr0 $lx0; fmread $ly0 $lm0",
       "1:40: 'fvadd', 'fmwrite' and 'fmread' are three MAU instructions; a step has at most two of "
       "calculation, mwrite and mread"},
      {"hvmul $lr0 $ls0 $t; hmwrite $lr0 $lx0",
       "1:21: the second input of 'hvmul' must be the source of 'hmwrite' (same operand, same '-', 'e' and "
       "'r')"},
      {"fmmul $lx $lr0 $lm0; fmwrite $lr0 $lx0",
       "1:22: 'fmmul' and 'fmwrite' use the same matrix register $lx; a step uses each at most once"},
      {"fvadd $lr0 $ls0 $lm0; linc $aluf $lm8",
       "1:23: two writes to $m (LM0) by 'fvadd' and 'linc'; a step writes each space at most once"},
      {"fvadd $lr0 $lr2 $lm0",
       "1:1: two reads of $r (GRF0) with different addresses by 'fvadd'; all reads of a space in a step must "
       "have the same width and addresses"},
      {"linc $lm0 $lm8",
       "1:1: 'linc' read and write $m (LM0) at different addresses; an LM has one port, so both need the "
       "same width and addresses"},
      {R"(imm i"5" $lm0)", "1:1: 'imm' can't be in a step that accesses $m (LM0), here by 'imm'"},
      {R"(imm i"5" $lr0; fvadd $lm0 $ls0 $t)",
       "1:16: 'imm' can't be in a step that accesses $m (LM0), here by 'fvadd'"},
      {"linc/$imr1 $lr0 $ls0; fvadd/$imr2 $lr0 $ln0 $t",
       "1:23: different masks in 'linc' and 'fvadd'; all write masks and zero flushes of a step must name "
       "the same mask"},
      {"linc/1000 $lr0 $ls0; fvadd $lr0 $ln0 $t/ll1000",
       "1:22: masks of different lengths (l and ll) in 'linc' and 'fvadd'; all masks of a step have the same "
       "length"},
      {"linc/$imr1 $lr0 $ls0/$imr2",
       "1:1: different masks in 'linc'; all write masks and zero flushes of a step must name the same mask"},
      {"linc $lr0 $ls0/$imr1 $lm0/$imr2",
       "1:1: different masks in 'linc'; all write masks and zero flushes of a step must name the same mask"},
      {"l1bmd $lb0 $lr0; l1bmd $lb8 $ls0",
       "1:18: 'l1bmd' and 'l1bmd' both belong to the group l1bm; a step has at most one of each group"},
      {"l2bmb $lc0 $lb0; l2bmd $lc0 $lb0",
       "1:18: 'l2bmb' and 'l2bmd' both belong to the group l2bm; a step has at most one of each group"},
      {"linc $lr0 $omr1; ldec $ls0 $t",
       "1:18: 'linc' and 'ldec' both belong to the group alu; a step has at most one of each group"},
  });
}

TEST(TransferErrors, SayWhereAndWhatIsAllowed) {
  expect_messages({
      {"mvp $d0@0 $lc0@0.0", "1:4: mvp needs a size in LW, e.g. mvp/n64"},
      {"mvp/64 $d0@0 $lc0@0.0", "1:5: expected the size, e.g. mvp/n64, found '64'"},
      {"mvp/n65 $d0@0 $lc0@0.0", "1:1: size 65 of mvp is not a positive multiple of 64 LW"},
      {"mvp/n0 $d0@0 $lc0@0.0", "1:1: size 0 of mvp is not a positive multiple of 64 LW"},
      {"mvp/n64i40 $d0@0 $lc0@0.0", "1:9: '40' is no tag; allowed: 01 to 3f (hexadecimal)"},
      {"mvp/n64i00 $d0@0 $lc0@0.0", "1:9: '00' is no tag; allowed: 01 to 3f (hexadecimal)"},
      {"mvp/n64p4 $d0@0 $lc0@0.0", "1:9: priority 4 is too large; allowed: at most 3"},
      {"mvp/n64nd2 $d0@0 $lc0@0.0", "1:1: nd is for transfers with $di"},
      {"mvp/n64nd0 $di0@0 $lc0@0.0", "1:1: nd needs a number of at least 1"},
      {"mvp/n64 $d0@4 $lc0@0.0", "1:9: group 4 does not exist; mncore2 has groups 0..3"},
      {"mvp/n64 $d0@0 $lc0@0.2", "1:15: L2B 2 does not exist; a group of mncore2 has L2Bs 0..1"},
      {"mvp/n64 $d0@0 $lc0@0",
       "1:19: an L2BM place is $lc<a>@<group>.<l2b>, or $lc<a>@.<l2b> for every group"},
      {"mvp/n64 $d0@0 $lc0",
       "1:15: mvp names the group of both sides or of none; $d0@0 has one, $lc0 has not"},
      {"mvp/n64 $d0@0 $lm0",
       "1:15: destination of 'mvp' can't be $m (LM0); allowed here: $lc (L2BM), $p (PDM), $d (DRAM), $di "
       "(indirect DRAM)"},
      {"mvp/n64 $p524288@0 $d0@0", "1:9: address 524288 is out of range; allowed: 0..524287 (LW of PDM)"},
      {"mvp/n64 $d536870912@0 $p0@0",
       "1:9: address 536870912 is out of range; allowed: 0..536870911 (LW of DRAM)"},
      {"mvb/n64 $p0 $lc0", "1:9: mvb needs the group of $p0; write $p0@<group>"},
      {"mvb/n64 $p0@0 $lc0@0.0", "1:15: mvb works on all groups here; leave out the @ of $lc0@0.0"},
      {"mvb2/n64 $d0@1 $lc0", "1:10: mvb2 works on all groups here; leave out the @ of $d0@1"},
      {"mvd/n64 $d0 $lc0", "1:13: destination of 'mvd' can't be $lc (L2BM); allowed here: $p (PDM)"},
      {"mvd/n64 $p0 $lc0", "1:9: mvd needs the group of $p0; write $p0@<group>"},
      {"mvd/n64 $p0@0 $p64@1",
       "1:15: destination of 'mvd' can't be $p (PDM); allowed here: $lc (L2BM), $d (DRAM), $di (indirect "
       "DRAM)"},
      {"mvradd/n64 $lc0 $d0", "1:1: unknown instruction 'mvradd'; did you mean 'mvrdfadd'?"},
      {"mvrdfadd/n64 $lc0@0.0 $d0", "1:14: mvrdfadd works on all groups here; leave out the @ of $lc0@0.0"},
  });
}

TEST(DebugErrors, SayWhereAndWhatIsAllowed) {
  expect_messages({
      {"d", "1:2: expected get or set after d, found the end of the line"},
      {"d put $lm0 1",
       "1:3: unknown debug statement 'd put'; allowed: d set, d get, d getd, d getf, d geth, d getbd, d "
       "getbf, d getbg, d getbh"},
      {"d getx $lm0 1",
       "1:3: unknown debug statement 'd getx'; allowed: d set, d get, d getd, d getf, d geth, d getbd, d "
       "getbf, d getbg, d getbh"},
      {"d set $m0 1 0000000000000000",
       "1:7: expected a place, found '$m0'; allowed: $lm $ln $lr $ls $lt $lb $lc $d $p, for d get also $omr "
       "$m $n "
       "$r $s, with an address and any of n c b m p"},
      {"d get $lm 1", "1:10: expected an address, found a blank"},
      {"d get $lm0x1 1", "1:11: unexpected 'x1' in a place; allowed: n c b m p, each with a number"},
      {"d get $lm0n0n1 1", "1:13: level n is given twice"},
      {"d get $lm0n4 1", "1:7: n4 does not exist on mncore2; allowed: n0..n3"},
      {"d get $lm0p4 1", "1:7: p4 does not exist on mncore2; allowed: p0..p3"},
      {"d get $lb0m1 1", "1:7: $lb (L1BM) has no level m; allowed: ncb"},
      {"d get $d0c0 1", "1:7: $d (DRAM) has no level c; allowed: n"},
      {"d get $lm1 1", "1:7: address 1 is misaligned: a long word starts at an even word"},
      {"d get $lm0", "1:11: expected a number of LW, found the end of the line"},
      {"d get $lm0 0", "1:7: the count is at least 1"},
      {"d get $lm4094 2", "1:7: 2 LW from address 4094 go beyond $m (LM0), which ends at 4095"},
      {"d get $lm4096 1", "1:7: 1 LW from address 4096 go beyond $m (LM0), which ends at 4095"},
      {"d get $lc0 9223372036854775807",
       "1:7: 9223372036854775807 LW from address 0 go beyond $lc (L2BM), which ends at 32767"},
      {"d get $omr1 2", "1:7: a mask entry is read one at a time; the count is 1"},
      {"d get $omr32 1", "1:7: mask entry 32 does not exist; allowed: 0..31"},
      {"d get $lm0 1 1", "1:14: unexpected '1' after the statement"},
      {"d set $omr1 1 0000000000000000", "1:7: d set can't write mask entries"},
      {"d set $lm0 2 0000000000000000", "1:12: the count is 2, but 1 LW follow"},
      {"d set $lm0 1 00000000", "1:14: a long word is 16 hexadecimal digits"},
      {"d set $lm0 1 000000000000000g", "1:14: a long word is 16 hexadecimal digits"},
      {"d set $lm0 1", "1:12: the count is 1, but 0 LW follow"},
      {"r 4 0 1 0000000000000000", "1:1: group 4 does not exist; mncore2 has groups 0..3"},
      {"r 0 1234567890 1 0000000000000000",
       "1:5: expected an address of up to 9 hexadecimal digits, found '1234567890'"},
      {"r 0 zz 1 0000000000000000", "1:5: expected an address of up to 9 hexadecimal digits, found 'zz'"},
      {"r 1f 1 0000000000000000", "1:4: expected a blank, found 'f'"},
      {"r 0 0 2 0000000000000000", "1:7: the count is 2, but 1 LW follow"},
  });
}

TEST(Errors, CountLinesAndColumns) {
  EXPECT_EQ(error_of("nop\n\n  linc $lr0 $lr1\n").substr(0, 16), "a.vsm:3:13: addr");
  EXPECT_EQ(error_of("nop; linc").substr(0, 10), "a.vsm:1:6:");
}

TEST(Errors, AreAllFound) {
  try {
    assemble("nop\nfoo\nlinc $lr0 $lr0\n  linc $lr0 $lr1\nmvp/n64\nquit\nbar\n", "a.vsm", chip());
    FAIL();
  } catch (const isa::UserErrors& errors) {
    ASSERT_EQ(errors.messages().size(), 3U);
    EXPECT_TRUE(errors.messages()[0].starts_with("a.vsm:2:1: "));
    EXPECT_TRUE(errors.messages()[1].starts_with("a.vsm:4:13: "));
    EXPECT_TRUE(errors.messages()[2].starts_with("a.vsm:5:1: "));
  }
  std::string many;
  for (int k = 0; k < 5000; ++k) many += "bar\n";
  try {
    assemble(many, "a.vsm", chip());
    FAIL();
  } catch (const isa::UserErrors& errors) {
    EXPECT_EQ(errors.messages().back(), "a.vsm: 1000 errors; what follows line 1000 is not read");
  }
  EXPECT_EQ(error_of("mvp/n64n64 $d0@0 $p0@0"), "a.vsm:1:8: n is given twice after mvp/");
  EXPECT_EQ(error_of("mvp/i01 $d0@0 $p0@0"), "a.vsm:1:5: expected the size, e.g. mvp/n64, found 'i01'");
  EXPECT_EQ(error_of("mvp/n64x $d0@0 $p0@0"),
            "a.vsm:1:8: expected n, i, nd or p with its number, e.g. mvp/n64i01, found 'x'");
  EXPECT_EQ(error_of("d set $m0 1 0000000000000000").substr(0, 10), "a.vsm:1:7:");
  EXPECT_EQ(error_of("d get $t 1025"), "a.vsm:1:7: 1025 LW of T; allowed: at most 1024");
}

TEST(Errors, StayReadableForHugeInput) {
  const std::string message = error_of(std::string(1 << 20, 'x'));
  EXPECT_LT(message.size(), 200u);
  EXPECT_LT(error_of("imm f\"" + std::string(1 << 20, '9') + "\" $lr0").size(), 200u);
}

TEST(CheckStatement, RefusesWhatHasNoSpelling) {
  isa::Instruction add = *isa::parse_mnemonic("iadd");
  add.precision = isa::Precision::kDouble;
  const isa::Statement statement{isa::Step{{add}}};
  EXPECT_THROW(check_statement(statement, chip(), {"x", 1, 1}), isa::UserError);
}

TEST(CheckStatement, WantsConcreteAddresses) {
  isa::Instruction copy = *isa::parse_mnemonic("lpassa");
  copy.sources.resize(1);
  copy.destinations.resize(1);
  copy.sources[0].space = isa::Space::kLm0;
  copy.destinations[0].space = isa::Space::kLm1;
  const isa::Statement good{isa::Step{{copy}}};
  EXPECT_NO_THROW(check_statement(good, chip(), {"x", 1, 1}));
  copy.sources[0].loop_strides = {2};
  const isa::Statement bad{isa::Step{{copy}}};
  EXPECT_THROW(check_statement(bad, chip(), {"x", 1, 1}), isa::InternalError);
}

}  // namespace
}  // namespace kodama::assembler
