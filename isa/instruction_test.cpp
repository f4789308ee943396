#include "isa/instruction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "isa/error.h"

namespace kodama::isa {
namespace {

using ::testing::HasSubstr;

Operand at(Space space, Width width = Width::kLong) {
  Operand operand;
  operand.space = space;
  operand.width = width;
  return operand;
}

Instruction make(std::string_view text, std::vector<Operand> sources, std::vector<Operand> destinations) {
  Instruction instruction = parse_mnemonic(text).value();
  instruction.sources = std::move(sources);
  instruction.destinations = std::move(destinations);
  return instruction;
}

TEST(InstructionTable, HasOneRowPerOpcodeInOrder) {
  ASSERT_EQ(instruction_table().size(), static_cast<size_t>(kOpcodeCount) - 1);
  for (int i = 1; i < kOpcodeCount; ++i) {
    const InstructionInfo& row = info(static_cast<Opcode>(i));
    EXPECT_EQ(row.opcode, static_cast<Opcode>(i));
    EXPECT_FALSE(row.name.empty());
    EXPECT_FALSE(row.syntax.empty()) << row.name;
    EXPECT_FALSE(row.effect.empty()) << row.name;
    EXPECT_FALSE(row.reference.empty()) << row.name;
    EXPECT_FALSE(row.forms.empty()) << row.name;
  }
  EXPECT_THROW(info(Opcode::kInvalid), InternalError);
}

TEST(InstructionTable, SaysOfEachFormWhatItMoves) {
  using Way = Movement::Way;
  for (const InstructionInfo& row : instruction_table()) {
    const bool may_move = row.group == IssueGroup::kL1bm || row.group == IssueGroup::kL2bm ||
                          row.group == IssueGroup::kL2bmDarw || row.group == IssueGroup::kMv;
    for (const OperandForm& form : row.forms) {
      const Movement& movement = form.movement;
      if (!may_move || (row.group == IssueGroup::kMv && row.source_count == 0)) {
        EXPECT_EQ(movement.way, Way::kNone) << row.name;
        continue;
      }
      EXPECT_NE(movement.way, Way::kNone) << row.name;
      EXPECT_EQ(row.group == IssueGroup::kMv, movement.way == Way::kTransfer) << row.name;
      EXPECT_EQ(row.reduces, movement.rule == Movement::Rule::kReduced) << row.name;
      EXPECT_GE(movement.shared_by, 0) << row.name;
      EXPECT_EQ(movement.shared_by & (movement.shared_by - 1), 0) << row.name;
    }
  }
}

TEST(Mnemonics, AreInvertibleAndDistinct) {
  std::set<std::string> seen;
  std::set<Opcode> opcodes;
  for (const Instruction& instruction : all_mnemonics()) {
    const std::string text = mnemonic(instruction);
    EXPECT_TRUE(seen.insert(text).second) << text;
    const auto parsed = parse_mnemonic(text);
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(*parsed, instruction) << text;
    opcodes.insert(instruction.opcode);
  }
  EXPECT_EQ(opcodes.size(), static_cast<size_t>(kOpcodeCount) - 1);
}

// Enumerates what the rows promise, without the generator behind all_mnemonics().
TEST(Mnemonics, ExistForEveryRowAndPrecision) {
  for (const InstructionInfo& row : instruction_table()) {
    if (row.reduces || row.opcode == Opcode::kL1bmrffadd) continue;
    std::vector<std::string> words;
    for (const char letter : row.precisions) {
      const bool needs_select = row.half_select && letter == 'd';
      for (const std::string select : {"", "u", "d"}) {
        const std::string word = std::string(1, letter) + std::string(row.name) + select;
        EXPECT_EQ(parse_mnemonic(word).has_value(), needs_select == !select.empty()) << word;
        if (needs_select == !select.empty()) words.push_back(word);
      }
    }
    if (row.precisions.empty()) words.emplace_back(row.name);
    for (const std::string& word : words) {
      const auto parsed = parse_mnemonic(word);
      ASSERT_TRUE(parsed) << word;
      EXPECT_EQ(parsed->opcode, row.opcode) << word;
      EXPECT_EQ(mnemonic(*parsed), word);
      EXPECT_EQ(parse_mnemonic(word + "r").has_value(), row.allows_round_output) << word;
      EXPECT_EQ(parse_mnemonic("u" + word).has_value(),
                row.unsigned_precisions.find(word[0]) != std::string_view::npos && !row.precisions.empty())
          << word;
    }
  }
}

TEST(Mnemonics, KnownSpellings) {
  const auto expect = [](std::string_view text, Opcode opcode, Precision precision) {
    const auto parsed = parse_mnemonic(text);
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(parsed->opcode, opcode) << text;
    EXPECT_EQ(parsed->precision, precision) << text;
    return;
  };
  expect("fvfma", Opcode::kVfma, Precision::kFloat);
  expect("gmfma", Opcode::kMfma, Precision::kGFloat);
  expect("lpassa", Opcode::kPassa, Precision::kLong);
  expect("linc", Opcode::kInc, Precision::kLong);
  expect("lnot", Opcode::kNot, Precision::kLong);
  expect("llnot", Opcode::kLnot, Precision::kLong);
  expect("llsl", Opcode::kLsl, Precision::kLong);
  expect("filrelud", Opcode::kIlrelud, Precision::kFloat);
  expect("flrelud", Opcode::kLrelud, Precision::kFloat);
  expect("frelu0", Opcode::kRelu, Precision::kFloat);
  expect("zero", Opcode::kZero, Precision::kNone);
  expect("imm", Opcode::kImm, Precision::kNone);
  expect("msl", Opcode::kMsl, Precision::kNone);
  expect("hbfn", Opcode::kBfn, Precision::kHalf);
  expect("l1bmrffaddr", Opcode::kL1bmrffadd, Precision::kFloat);
  expect("l1bmrhfadd", Opcode::kL1bmrffadd, Precision::kHalf);
  expect("l1bmrffadd", Opcode::kL1bmr, Precision::kFloat);
  expect("l1bmrliadd", Opcode::kL1bmr, Precision::kLong);
  expect("l1bmr4hfadd", Opcode::kL1bmr4, Precision::kHalf);
  expect("l2bmr2ior", Opcode::kL2bmr2, Precision::kInt);
  expect("mvr4dfadd", Opcode::kMvr4, Precision::kDouble);
  expect("l2bm", Opcode::kL2bm, Precision::kNone);
  EXPECT_EQ(parse_mnemonic("uilsr")->unsigned_op, true);
  EXPECT_EQ(parse_mnemonic("immu")->unsigned_op, true);
  EXPECT_EQ(parse_mnemonic("dvfmadr")->half_select, 'd');
  EXPECT_EQ(parse_mnemonic("dvfmadr")->round_output, true);
  EXPECT_EQ(parse_mnemonic("l1bmd+1")->rotation, 1);
  EXPECT_EQ(parse_mnemonic("l1bmd-1")->rotation, -1);
  EXPECT_EQ(parse_mnemonic("l1bmrsband")->reduce_op, ReduceOp::kBand);
  for (const char* wrong : {"", "vfma", "gvfma", "ufmax", "dvfma", "fvfmau", "imax0", "l1bmr", "l1bmrimax",
                            "limm", "l1bmp+1", "nop", "FVFMA", "l1bmrsfadd", "hmreadr", "uimm"}) {
    EXPECT_FALSE(parse_mnemonic(wrong)) << wrong;
  }
}

TEST(Operands, FormsOfTransfersAreChecked) {
  EXPECT_EQ(operand_error(make("l1bmd", {at(Space::kL1bm)}, {at(Space::kLm0), at(Space::kGrf0)})), "");
  EXPECT_EQ(operand_error(make("l1bmd", {at(Space::kLm0)}, {at(Space::kL1bm)})), "");
  EXPECT_THAT(
      operand_error(make("l1bmd", {at(Space::kLm0)}, {at(Space::kLm1)})),
      HasSubstr("destination of 'l1bmd' can't be $n (LM1); allowed here: $lb (L1BM), $lbi (turnaround)"));
  EXPECT_THAT(operand_error(make("l1bmd", {at(Space::kL2bm)}, {at(Space::kLm1)})),
              HasSubstr("source 1 of 'l1bmd'"));
  EXPECT_THAT(operand_error(make("l1bmp", {at(Space::kLm0)}, {at(Space::kL1bm)})), HasSubstr("source 1"));
  EXPECT_THAT(operand_error(make("l1bmm", {at(Space::kLm0)}, {at(Space::kL1bm)})), HasSubstr("l1bmm@<k>"));
  EXPECT_THAT(operand_error(make("mvd", {at(Space::kDram)}, {at(Space::kL2bm)})),
              HasSubstr("destination of 'mvd'"));
  EXPECT_EQ(operand_error(make("mvd", {at(Space::kDram)}, {at(Space::kPdm)})), "");
}

TEST(Operands, SuffixesAndCounts) {
  Operand negative = at(Space::kGrf0);
  negative.negate = true;
  Operand reduced = at(Space::kGrf0, Width::kDoubleLong);
  reduced.reduce = true;
  Operand extended = at(Space::kGrf0);
  extended.extend = true;
  EXPECT_EQ(operand_error(make("fvadd", {negative, at(Space::kLm0)}, {at(Space::kOmr)})), "");
  EXPECT_THAT(operand_error(make("iadd", {negative, at(Space::kLm0)}, {at(Space::kT)})),
              HasSubstr("'-' on source 1"));
  EXPECT_EQ(operand_error(make("hvmul", {reduced, at(Space::kLm0)}, {at(Space::kT)})), "");
  EXPECT_EQ(operand_error(make("hbfe", {reduced}, {at(Space::kT)})), "");
  EXPECT_THAT(operand_error(make("fvmul", {reduced, at(Space::kLm0)}, {at(Space::kT)})),
              HasSubstr("'r' on source 1"));
  EXPECT_EQ(operand_error(make("hvadd", {at(Space::kLm0), extended}, {at(Space::kT)})), "");
  EXPECT_THAT(operand_error(make("hvadd", {extended, at(Space::kLm0)}, {at(Space::kT)})),
              HasSubstr("'e' on source 1"));
  EXPECT_EQ(operand_error(make("l1bmrffaddr", {extended}, {at(Space::kL1bm)})), "");
  EXPECT_THAT(operand_error(make("fvadd", {at(Space::kLm0)}, {at(Space::kT)})),
              HasSubstr("takes 2 source operands"));
  EXPECT_THAT(operand_error(make("fvadd", {at(Space::kLm0), at(Space::kMreadf)}, {at(Space::kT)})),
              HasSubstr("source 2 of 'fvadd' can't be $mreadf"));
  EXPECT_EQ(operand_error(make("lpassa", {at(Space::kMreadf)}, {at(Space::kT)})), "");
  EXPECT_THAT(operand_error(make("lpassa", {at(Space::kT)}, {at(Space::kNoWrite), at(Space::kT)})),
              HasSubstr("only destination"));
  EXPECT_THAT(operand_error(make("gmread", {at(Space::kMatX)}, {at(Space::kOmr)})),
              HasSubstr("can't be $omr"));
}

TEST(Groups, TurnaroundReaderIsItsOwnGroup) {
  const Instruction writer = make("l1bmrliadd", {at(Space::kGrf0)}, {at(Space::kTurnaround)});
  const Instruction reader = make("l1bmm", {at(Space::kTurnaround)}, {at(Space::kLm1)});
  EXPECT_EQ(issue_group(writer), IssueGroup::kL1bm);
  EXPECT_EQ(issue_group(reader), IssueGroup::kL1bmTurnaround);
  EXPECT_TRUE(is_pe_to_l1bm(writer));
  EXPECT_TRUE(is_l1bm_to_pe(reader));
  EXPECT_FALSE(is_l1bm_to_pe(writer));
}

TEST(Flags, UnsignedArithmeticHasCarryFlags) {
  EXPECT_EQ(flag_rule(*parse_mnemonic("iadd")), FlagRule::kNotNegative);
  EXPECT_EQ(flag_rule(*parse_mnemonic("uiadd")), FlagRule::kNoCarry);
  EXPECT_EQ(flag_rule(*parse_mnemonic("uilsr")), FlagRule::kZeroResult);
}

TEST(L1bSets, Contain) {
  L1bSet set;
  EXPECT_TRUE(set.contains(7, 8));
  EXPECT_FALSE(set.contains(8, 8));
  set.kind = L1bSet::Kind::kMasked;
  set.ignore_mask = 6;  // 0/6 = 0, 2, 4, 6
  for (int b = 0; b < 8; ++b) EXPECT_EQ(set.contains(b, 8), b % 2 == 0) << b;
  set.ignore_mask = 7;
  for (int b = 0; b < 8; ++b) EXPECT_TRUE(set.contains(b, 8));
  set.kind = L1bSet::Kind::kList;
  set.list = 0b101;
  EXPECT_TRUE(set.contains(2, 8));
  EXPECT_FALSE(set.contains(1, 8));
}

}  // namespace
}  // namespace kodama::isa
