#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "assembler/assembler.h"
#include "isa/error.h"

namespace kodama::assembler {
namespace {

using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::Space;
using isa::Width;

const isa::Chip& chip() {
  static const isa::Chip chip = isa::find_chip("mncore2");
  return chip;
}

std::vector<isa::Statement> statements(std::string_view text) {
  return assemble(text, "test.vsm", chip()).statements;
}

isa::Statement statement(std::string_view text) {
  const auto all = statements(text);
  EXPECT_EQ(all.size(), 1u) << text;
  return all.empty() ? isa::Statement{} : all[0];
}

isa::Instruction instruction(std::string_view text) {
  const isa::Statement one = statement(text);
  if (const auto* mv = std::get_if<isa::Mv>(&one.kind)) return mv->instruction;
  const auto& step = std::get<isa::Step>(one.kind);
  EXPECT_EQ(step.instructions.size(), 1u) << text;
  return step.instructions[0];
}

/// The first source of a copy from `text`.
Operand source(std::string_view text) {
  return instruction("lpassa " + std::string(text) + " $t").sources[0];
}
Operand mau_source(std::string_view text) {
  return instruction("fvpassa " + std::string(text) + " $t").sources[0];
}
Operand destination(std::string_view text) {
  return instruction("lpassa $aluf " + std::string(text)).destinations[0];
}

Operand strided(Space space, Width width, int64_t base, int32_t stride = 0) {
  Operand operand;
  operand.space = space;
  operand.width = width;
  operand.base = base;
  operand.stride = stride;
  return operand;
}

Operand flat(Space space, Width width, std::array<int32_t, 4> addresses) {
  Operand operand = strided(space, width, 0);
  operand.flat = true;
  operand.flat_addresses = addresses;
  return operand;
}

/// The text of the only statement after a trip through the program.
std::string normal(std::string_view text) {
  return print_statement(statement(text));
}

TEST(Operands, AreReadInEveryForm) {
  EXPECT_EQ(source("$m0"), strided(Space::kLm0, Width::kWord, 0));
  EXPECT_EQ(source("$lm8v"), strided(Space::kLm0, Width::kLong, 8, 2));
  EXPECT_EQ(source("$lm8v16"), strided(Space::kLm0, Width::kLong, 8, 16));
  EXPECT_EQ(source("$lm8v0"), strided(Space::kLm0, Width::kLong, 8));
  EXPECT_EQ(source("$llr16v"), strided(Space::kGrf0, Width::kDoubleLong, 16, 4));
  EXPECT_EQ(source("$n3v"), strided(Space::kLm1, Width::kWord, 3, 1));
  EXPECT_EQ(source("$ls4v2"), strided(Space::kGrf1, Width::kLong, 4, 2));
  EXPECT_EQ(source("$lm0x10v"), strided(Space::kLm0, Width::kLong, 16, 2));
  EXPECT_EQ(source("$lr[0,2,4,6]"), flat(Space::kGrf0, Width::kLong, {0, 2, 4, 6}));
  EXPECT_EQ(source("$m[ 3 , 2,1 ,0 ]"), flat(Space::kLm0, Width::kWord, {3, 2, 1, 0}));

  Operand expected = strided(Space::kLm1, Width::kWord, 0, 4);
  expected.j = 0;
  EXPECT_EQ(source("$n0v4j0"), expected);
  expected = flat(Space::kLm0, Width::kLong, {0, 2, 4, 6});
  expected.j = 3;
  EXPECT_EQ(source("$lm[0,2,4,6]j3"), expected);

  expected = strided(Space::kLm0, Width::kLong, 0);
  expected.t_indirect = true;
  EXPECT_EQ(source("$lmt"), expected);
  EXPECT_EQ(source("$lmt0"), expected);
  expected.stride = 32;
  EXPECT_EQ(source("$lmt0v32"), expected);
  expected = flat(Space::kLm0, Width::kLong, {0, 2, 4, 6});
  expected.t_indirect = true;
  EXPECT_EQ(source("$lmt[0,2,4,6]"), expected);
  expected = strided(Space::kLm0, Width::kWord, 16);
  expected.t_indirect = true;
  EXPECT_EQ(source("$mt16"), expected);

  EXPECT_EQ(source("$t").space, Space::kT);
  EXPECT_EQ(source("$t").width, Width::kWord);
  EXPECT_EQ(source("$lt").width, Width::kLong);
  EXPECT_EQ(source("$llt").width, Width::kDoubleLong);
  EXPECT_EQ(source("$aluf").space, Space::kAluf);
  EXPECT_EQ(source("$mauf").space, Space::kMauf);
  EXPECT_EQ(source("$lbf").space, Space::kLbf);
  EXPECT_EQ(source("$mreadf").space, Space::kMreadf);
  const std::string_view constants[] = {"$l2bid", "$l1bid", "$mabid", "$peid", "$subpeid", "$msb1"};
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(source(constants[i]).space, Space::kConstant);
    EXPECT_EQ(source(constants[i]).base, i);
  }
}

TEST(Operands, TakeConversions) {
  EXPECT_TRUE(mau_source("-$lr0v").negate);
  EXPECT_TRUE(mau_source("$lr0ve").extend);
  EXPECT_TRUE(mau_source("-$aluf").negate);
  EXPECT_TRUE(mau_source("$maufe").extend);
  EXPECT_TRUE(mau_source("$lte").extend);
  EXPECT_TRUE(mau_source("$lmte").extend);
  EXPECT_TRUE(mau_source("$lr[0,2,4,6]e").extend);
  EXPECT_TRUE(instruction("hpassa $llr0vr $lm0v").sources[0].reduce);
  EXPECT_TRUE(instruction("hvpassa $llr0r $llm0v").sources[0].reduce);
  EXPECT_TRUE(instruction("hbfe/9 $peidr $lm0v").sources[0].reduce);
  EXPECT_TRUE(instruction("l1bmrffaddr $lr0e $lb0").sources[0].extend);
  EXPECT_TRUE(instruction("hvfma $lr0v $ls0v $llm0ve $lln0v").sources[2].extend);
}

TEST(Operands, AreDestinationsWithMasks) {
  using Kind = isa::Mask::Kind;
  EXPECT_EQ(destination("$lr0v/1000").mask, (isa::Mask{Kind::kPattern, 8, false, 0}));
  EXPECT_EQ(destination("$llr0v/ll0111").mask, (isa::Mask{Kind::kPattern, 7, true, 0}));
  EXPECT_EQ(destination("$lr0/$imr3").mask, (isa::Mask{Kind::kRegister, 3, false, 0}));
  EXPECT_EQ(destination("$llr0/$llimr31").mask, (isa::Mask{Kind::kRegister, 31, true, 0}));
  EXPECT_EQ(destination("$lr0/1000t").mask, (isa::Mask{Kind::kPattern, 8, false, 't'}));
  EXPECT_EQ(destination("$lr0/$imr3p").mask, (isa::Mask{Kind::kRegister, 3, false, 'p'}));
  EXPECT_EQ(destination("$lr[0,2,4,6]/1100").mask.value, 12);
  EXPECT_EQ(destination("$omr15").base, 15);
  EXPECT_EQ(destination("$omr1/$imr1").mask.value, 1);
  EXPECT_EQ(destination("$mb").space, Space::kBar0);
  EXPECT_EQ(destination("$lnb").space, Space::kBar1);
  EXPECT_EQ(destination("$lnb").width, Width::kLong);
  EXPECT_EQ(destination("$nowrite").space, Space::kNoWrite);
  EXPECT_EQ(destination("$lmt0v").t_indirect, true);
  const isa::Instruction several = instruction("lpassa $lr0v $ls0v $t $lm0v/0011 $omr2");
  EXPECT_EQ(several.destinations.size(), 4u);
}

TEST(Instructions, CarryTheirSuffixes) {
  EXPECT_EQ(instruction("lpassa/$imr1 $lr0 $ls0").zero_flush.value, 1);
  EXPECT_EQ(instruction("fvadd/1000 $lr0 $ls0 $t").zero_flush.value, 8);
  EXPECT_EQ(instruction("l1bmp/ll1100 $lb0 $lr0").zero_flush.double_long, true);
  EXPECT_EQ(instruction("hbfn/6 $lr0 $ls0").block_bits, 6);
  EXPECT_EQ(instruction("hbfn $lr0 $ls0").block_bits, -1);
  EXPECT_EQ(instruction("hbfe/9/1000 $lr0 $ls0").block_bits, 9);
  EXPECT_EQ(instruction("hbfe/9/1000 $lr0 $ls0").zero_flush.value, 8);
  EXPECT_EQ(instruction("l1bmm@15 $lr0 $lb0").unit, 15);
  EXPECT_EQ(instruction("l1bmm4@3 $lr0 $llb0").unit, 3);
  EXPECT_EQ(instruction("l2bm@7 $lb0 $lc0").unit, 7);
  EXPECT_EQ(instruction("l1bmd+1 $lb0 $lr0v").rotation, 1);
  EXPECT_EQ(instruction("l1bmd-1 $lb0 $lr0v").rotation, -1);
  EXPECT_EQ(instruction("l1bmrdfadd $lr0v $llb0").reduce_op, isa::ReduceOp::kFadd);
  EXPECT_EQ(instruction("l2bmriiadd@[0,2, 4] $lb0 $lc0").l1b_set.list, 0b10101u);
  EXPECT_EQ(instruction("l2bmb@0/6 $lc0 $lb0").l1b_set.ignore_mask, 6);
  EXPECT_EQ(instruction("l2bmd@5 $lc0 $lb0").l1b_set.k, 5);
  EXPECT_EQ(instruction("dvfmadr $lr0 $ls0 $t $lr2").half_select, 'd');
  EXPECT_EQ(instruction("dvfmadr $lr0 $ls0 $t $lr2").round_output, true);
  EXPECT_EQ(instruction("uilsr $lr0 $ls0 $lr2").unsigned_op, true);
  EXPECT_EQ(instruction("gmmul $lx $lr0v $ls0v").sources[0].space, Space::kMatX);
  EXPECT_EQ(instruction("hmwrite $llr0v $lly8").destinations[0].base, 8);
  EXPECT_EQ(instruction("hmread $llx8 $llr0v").sources[0].width, Width::kDoubleLong);
  EXPECT_EQ(instruction("l1bmm $llbi $ln0").sources[0].space, Space::kTurnaround);
  EXPECT_EQ(instruction("l2bmdars $lc16@.1 $dar8").sources[0].unit, 1);
  EXPECT_EQ(instruction("noforward").opcode, Opcode::kNoForward);
}

TEST(Instructions, ImmediatesAreBitPatterns) {
  auto payload = [](std::string text) { return instruction("imm " + text + " $lr0").sources[0].base; };
  EXPECT_EQ(payload("i\"5\""), 5);
  EXPECT_EQ(payload("i\"-3\""), 0xfffffffd);
  EXPECT_EQ(payload("i\"0x1F\""), 0x1f);
  EXPECT_EQ(payload("i\"0b101\""), 5);
  EXPECT_EQ(payload("i\"0xffffffff\""), 0xffffffff);
  EXPECT_EQ(payload("ui\"0xFF000000\""), 0xff000000);
  EXPECT_EQ(payload("s\"8\""), 0x00080008);
  EXPECT_EQ(payload("s\"-1\""), 0xffffffff);
  EXPECT_EQ(payload("us\"65535\""), 0xffffffff);
  EXPECT_EQ(payload("f\"1.5\""), 0x3fc00000);
  EXPECT_EQ(payload("f\"-1.0\""), 0xbf800000);
  EXPECT_EQ(payload("f\"-0\""), 0x80000000);
  EXPECT_EQ(payload("f\"inf\""), 0x7f800000);
  EXPECT_EQ(payload("h\"2.0\""), 0x40004000);
  EXPECT_EQ(payload("d\"1.0\""), 0x3ff00000);
  EXPECT_EQ(payload("l\"-1\""), 0xffffffff);
  EXPECT_EQ(instruction("immu l\"0x500000000\" $lr0").sources[0].base, 5);
  EXPECT_TRUE(instruction("immu i\"1\" $lr0").unsigned_op);
}

TEST(Transfers, AreReadInEveryForm) {
  isa::Instruction mv = instruction("mvp/n64i1fnd4p3 $di5@1 $lc0@2.1");
  EXPECT_EQ(mv.size_lw, 64);
  EXPECT_EQ(mv.tag, 0x1f);
  EXPECT_EQ(mv.indirect_n, 4);
  EXPECT_EQ(mv.priority, 3);
  EXPECT_EQ(mv.sources[0].space, Space::kDramIndirect);
  EXPECT_EQ(mv.sources[0].group, 1);
  EXPECT_EQ(mv.destinations[0].group, 2);
  EXPECT_EQ(mv.destinations[0].unit, 1);
  EXPECT_EQ(instruction("mvp/n64 $p0 $lc0@.1").destinations[0].group, -1);
  EXPECT_EQ(instruction("mvb/n128i0d $p0@3 $lc0").tag, 0x0d);
  for (const char* text :
       {"mvb2/n64 $d0 $lc0", "mvb4/n64 $d0 $lc0", "mvd/n64 $p0@0 $d0", "mvd/n64 $d0 $p0@0",
        "mvd/n64 $p0@0 $lc0", "mvd/n64i01 $lc0 $p0@0", "mvrdfadd/n64 $lc0 $d0", "mvrliadd/n64 $lc0 $p0@0",
        "mvr2ffadd/n64 $lc0 $d0", "mvr4hmax/n64 $lc0 $d0", "mvnop", "mvnop/n0i01", "mvnop/n64p1"}) {
    EXPECT_EQ(normal(text), text);
  }
}

TEST(Transfers, TakeTheirOptionsInAnyOrder) {
  EXPECT_EQ(normal("mvp/i02n64 $p0 $lc0@.1"), "mvp/n64i02 $p0 $lc0@.1");
  EXPECT_EQ(normal("mvp/p3nd4i1fn64 $di5@1 $lc0@2.1"), "mvp/n64i1fnd4p3 $di5@1 $lc0@2.1");
  EXPECT_EQ(normal("mvp/nd4n64 $di5@1 $lc0@2.1"), "mvp/n64nd4 $di5@1 $lc0@2.1");
  EXPECT_EQ(normal("mvnop/p1i01n64"), "mvnop/n64i01p1");
}

TEST(Statements, DebugGetTakesWordsAndShowsTheirLongWords) {
  EXPECT_EQ(statement("d getf $s269 1"),
            (isa::Statement{isa::DebugGet{"d getf $s269 1", 'f', Space::kGrf1, 268, 1}}));
  EXPECT_EQ(statement("d get $m7p1 2"),
            (isa::Statement{isa::DebugGet{"d get $m7p1 2", 0, Space::kLm0, 6, 2, {-1, -1, -1, -1, 1}}}));
  EXPECT_EQ(statement("d getd $n0n1 1"),
            (isa::Statement{isa::DebugGet{"d getd $n0n1 1", 'd', Space::kLm1, 0, 1, {1, -1, -1, -1, -1}}}));
  EXPECT_EQ(normal("d getf $r3 1"), "d getf $r3 1");
  EXPECT_EQ(
      statement("d getf $tn0c0b0m0p0 12"),
      (isa::Statement{isa::DebugGet{"d getf $ltn0c0b0m0p0 12", 'f', Space::kT, 0, 12, {0, 0, 0, 0, 0}}}));
}

TEST(Statements, AreOfEveryKind) {
  EXPECT_EQ(statement("nop"), isa::Statement{isa::Nop{}});
  EXPECT_EQ(statement("nop/0x10;"), (isa::Statement{isa::Nop{16, 0}}));
  EXPECT_EQ(statement("nop/4294967296"), (isa::Statement{isa::Nop{4294967296, 0}}));
  EXPECT_EQ(statement("nop; wait i3f"), (isa::Statement{isa::Nop{1, 0x3f}}));
  EXPECT_EQ(statement("wait i1; nop"), (isa::Statement{isa::Nop{1, 1}}));
  EXPECT_EQ(statement("mask 0"), isa::Statement{isa::MaskControl{}});
  EXPECT_EQ(statement("masklltk 3"), (isa::Statement{isa::MaskControl{true, true, 0b100100, 3}}));
  EXPECT_EQ(statement("maskln 1"), (isa::Statement{isa::MaskControl{false, true, 0b010000, 1}}));
  EXPECT_EQ(statement("maskrstmnk 16"), (isa::Statement{isa::MaskControl{false, false, 63, 16}}));
  EXPECT_EQ(
      statement("d getf $lm4n0c0b0m0p1 1 # expect"),
      (isa::Statement{isa::DebugGet{"d getf $lm4n0c0b0m0p1 1", 'f', Space::kLm0, 4, 1, {0, 0, 0, 0, 1}}}));
  EXPECT_EQ(statement("d  get  $tp3   2"),
            (isa::Statement{isa::DebugGet{"d get $ltp3 2", 0, Space::kT, 0, 2, {-1, -1, -1, -1, 3}}}));
  EXPECT_EQ(
      statement("d getbh $lb0b1 1"),
      (isa::Statement{isa::DebugGet{"d getbh $lb0b1 1", 'H', Space::kL1bm, 0, 1, {-1, -1, 1, -1, -1}}}));
  EXPECT_EQ(statement("d set $lm0n1 2 l3FF0000000000000 l0000000000000001"),
            (isa::Statement{isa::DebugSet{Space::kLm0, 0, {1, -1, -1, -1, -1}, {0x3ff0000000000000, 1}}}));
  EXPECT_EQ(statement("d set $d16 2 3ff00000000000000000000000000001"),
            (isa::Statement{isa::DebugSet{Space::kDram, 16, {-1, -1, -1, -1, -1}, {0x3ff0000000000000, 1}}}));
  EXPECT_EQ(statement("r 2 00000001f 001 0123456789abcdef"),
            (isa::Statement{isa::DramPreload{2, 0x1f, {0x0123456789abcdef}}}));
  EXPECT_EQ(statement("# region conv1 (3x3) "), (isa::Statement{isa::RegionMark{true, "conv1 (3x3)"}}));
  EXPECT_EQ(statement("  #endregion"), (isa::Statement{isa::RegionMark{false, ""}}));
}

TEST(Statements, IgnoreCommentsBlanksHostLinesAndWhatFollowsQuit) {
  EXPECT_TRUE(statements("").empty());
  EXPECT_TRUE(statements("\n\r\n  \t# just a comment\nc host line\nc\n").empty());
  const auto all = statements("nop # one\r\n\r\n\tnop/2 ;# two\nquit\nthis is ignored\n");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].line, 1);
  EXPECT_EQ(all[1].line, 3);
  EXPECT_EQ(std::get<isa::Nop>(all[1].kind).count, 2);
  EXPECT_TRUE(std::holds_alternative<isa::Quit>(all[2].kind));
}

TEST(Statements, KeepTheirLineWhenRepeated) {
  const auto all = statements("linc $lr0 $lr0\nnop\nlinc $lr0 $lr0\n");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0], all[2]);
  EXPECT_EQ(all[2].line, 3);
}

TEST(Steps, JoinInstructions) {
  const auto step = std::get<isa::Step>(
      statement("fvfma $lm0v $ln8v4 -$lr0v $ls0v $llr16v/1000; l1bmd $lb0 $t ; wait i01;").kind);
  ASSERT_EQ(step.instructions.size(), 3u);
  const isa::Instruction& fma = step.instructions[0];
  EXPECT_EQ(fma.opcode, Opcode::kVfma);
  EXPECT_EQ(fma.precision, Precision::kFloat);
  EXPECT_EQ(fma.sources[1], strided(Space::kLm1, Width::kLong, 8, 4));
  EXPECT_TRUE(fma.sources[2].negate);
  EXPECT_EQ(fma.destinations[1].mask.value, 8);
  EXPECT_EQ(step.instructions[1].opcode, Opcode::kL1bmd);
  EXPECT_EQ(step.instructions[2].tag, 1);
}

TEST(NormalForm, IsWhatOneWouldWrite) {
  const std::pair<std::string, std::string> cases[] = {
      {"lpassa   $lm8v2\t$lr[ 0,2,  4,6];", "lpassa $lm8v $lr[0,2,4,6]"},
      {"lpassa $lmt0 $lr0v0/1000", "lpassa $lmt $lr0/1000"},
      {"fvmul $lm0v $ln0v4 $nowrite;l1bmd $lb64 $lr0v", "fvmul $lm0v $ln0v4 $nowrite; l1bmd $lb64 $lr0v"},
      {"gmmul $lx0 $lr0v $ls0v", "gmmul $lx $lr0v $ls0v"},
      {"frelu0 $lr0v $lr0v $ls0v", "frelu $lr0v $lr0v $ls0v"},
      {"imm i\"0x5\" $lr0", "imm i\"5\" $lr0"},
      {"imm i\"305419896\" $lr0", "imm i\"0x12345678\" $lr0"},
      {"imm f\"1\" $lr0", "imm f\"1.0\" $lr0"},
      {"imm f\"0.1\" $lr0", "imm f\"0.1\" $lr0"},
      {"imm h\"-0.5\" $lr0", "imm h\"-0.5\" $lr0"},
      {"imm f\"-inf\" $lr0", "imm f\"-inf\" $lr0"},
      {"mvp/n64i3 $d0@0 $lc0@0.0", "mvp/n64i03 $d0@0 $lc0@0.0"},
      {"wait i3 ; nop", "nop; wait i03"},
      {"nop/1", "nop"},
      {"maskknm 3", "maskmnk 3"},
      {"l2bmb@[3,1] $lc0 $lb0", "l2bmb@[1,3] $lc0 $lb0"},
      {"d set $lm0n0 1 l3ff0000000000000", "d set $lm0n0 1 3FF0000000000000"},
      {"r 0 10 1 l3ff0000000000000", "r 0 000000010 001 3FF0000000000000"},
      {"#   region  conv1", "# region conv1"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(normal(text), expected);
    EXPECT_EQ(normal(expected), expected);
  }
}

TEST(NormalForm, UnrollsLoops) {
  Operand l1bm = strided(Space::kL1bm, Width::kLong, 0);
  l1bm.loop_strides = {256};
  Operand lm = strided(Space::kLm0, Width::kLong, 0, 2);
  lm.loop_strides = {8};
  isa::Instruction load = *isa::parse_mnemonic("l1bmd");
  load.sources = {l1bm};
  load.destinations = {lm};
  isa::Program program;
  program.statements.push_back({isa::RegionMark{true, "load"}});
  program.statements.push_back({isa::Loop{2, {{isa::Step{{load}}}, {isa::Nop{2, 0}}}}});
  program.statements.push_back({isa::RegionMark{false, ""}});
  EXPECT_EQ(print(program),
            "# region load\n"
            "l1bmd $lb0 $lm0v\nnop/2\n"
            "l1bmd $lb256 $lm8v\nnop/2\n"
            "# endregion\n");
  EXPECT_EQ(print_statement(program.statements[1]), "l1bmd $lb0 $lm0v\nnop/2\nl1bmd $lb256 $lm8v\nnop/2");
  EXPECT_THROW(print_instruction(load), isa::InternalError);
}

// The worked examples of the ISA page, section 13.
TEST(Examples, Assemble) {
  const std::string text = R"(
ladd $lr0v $ls0v $lr8v $omr1
lpassa $peid $lr0
nop
l1bmrliadd $lr0 $lbi
l1bmm $lbi $ln0
lpassa $l1bid $lr4
nop
l1bmd $lr4 $lb0
nop/2
l2bmd $lb0 $lc0
fbfn $lr0v $ls0v
d getf $lm4n0c0b0m0p1 1
frsqrt $lr0v $ls0v
hvpassa $lm12 $llr12
linc $lr0 $lr0
lsub $lr0v $ls0v $omr1
lsub $lr2v $ls2v $omr1/$imr1
dvmulu $lr0 $ls0 $nowrite
dvfmad $lr0 $ls0 $mauf $lr2
lpassa $lmt $ln0v
)";
  EXPECT_EQ(print(assemble(text, "example.vsm", chip())), text.substr(1));
}

TEST(Files, AreReadOrRefused) {
  EXPECT_THROW(assemble_file("/nonexistent/a.vsm", chip()), isa::UserError);
  EXPECT_THROW(assemble_file("/tmp", chip()), isa::UserError);
}

}  // namespace
}  // namespace kodama::assembler
