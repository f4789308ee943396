#include "isa/program.h"

#include <gtest/gtest.h>

#include <limits>

namespace kodama::isa {
namespace {

Program sample() {
  Instruction pass;
  pass.opcode = Opcode::kPassa;
  Instruction copy;
  copy.opcode = Opcode::kMvp;
  Loop inner{3, {Statement{Step{{pass, pass}}}, Statement{Nop{2, 0}}}};
  Loop outer{4, {Statement{Mv{copy}}, Statement{inner}, Statement{RegionMark{}}}};
  Program program;
  program.statements = {Statement{Step{{pass}}}, Statement{outer}, Statement{Nop{1, 5}}};
  return program;
}

TEST(Instructions, CopiesOfAStepShareItsInstructionsUntilTheyChange) {
  Instruction pass;
  pass.opcode = Opcode::kPassa;
  Step step{{pass, pass}};
  Step copy = step;
  EXPECT_EQ(copy.instructions.data(), step.instructions.data());
  copy.instructions.own()[0].tag = 2;
  EXPECT_EQ(step.instructions[0].tag, 0);
  EXPECT_EQ(copy.instructions[0].tag, 2);
  EXPECT_FALSE(copy == step);
  const Instruction* own = copy.instructions.data();
  EXPECT_EQ(copy.instructions.own().data(), own) << "nobody else has them";
  EXPECT_TRUE(Instructions().empty());
}

TEST(ProgramCounts, MultiplyThroughLoops) {
  const ProgramCounts counts = count(sample());
  EXPECT_EQ(counts.steps, 1 + 4 * 3 * 3 + 1);
  EXPECT_EQ(counts.nops, 4 * 3 * 2 + 1);
  EXPECT_EQ(counts.mvs, 4);
  EXPECT_EQ(counts.instructions, 1 + 4 * (1 + 3 * 2) + 1);
  EXPECT_EQ(counts.statements, 1 + 4 * (1 + 3 * 2 + 1) + 1);
}

TEST(ProgramCounts, HugeLoopsCostNothing) {
  Program program;
  program.statements = {Statement{Loop{1'000'000, {Statement{Loop{1'000'000, {Statement{Nop{1, 0}}}}}}}}};
  EXPECT_EQ(count(program).steps, 1'000'000'000'000);
}

TEST(ProgramCounts, Saturate) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  Program program;
  program.statements = {Statement{Loop{kHuge, {Statement{Loop{kHuge, {Statement{Nop{kHuge, 0}}}}}}}}};
  EXPECT_EQ(count(program).steps, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(count(program).statements, std::numeric_limits<int64_t>::max());
}

TEST(Execution, VisitsInOrderWithCounters) {
  Operand operand;
  operand.base = 100;
  operand.loop_strides = {10, 1};
  std::vector<int64_t> bases;
  std::vector<int64_t> counters;
  const bool finished =
      for_each_executed(sample().statements, counters, [&](const Statement& s, const auto& c) {
        if (std::holds_alternative<Step>(s.kind)) bases.push_back(resolved_base(operand, c));
        return bases.size() < 9;
      });
  EXPECT_FALSE(finished);
  EXPECT_TRUE(counters.empty());
  EXPECT_EQ(bases, (std::vector<int64_t>{100, 100, 101, 102, 110, 111, 112, 120, 121}));
}

TEST(Execution, IdleLoopsTakeNoTime) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  const Loop idle{kHuge, {Statement{Loop{kHuge, {}}}, Statement{Loop{0, {Statement{Nop{}}}}}}};
  EXPECT_TRUE(is_idle(idle));
  EXPECT_FALSE(is_idle(Loop{1, {Statement{idle}, Statement{Nop{}}}}));
  std::vector<int64_t> counters;
  EXPECT_TRUE(
      for_each_executed({Statement{idle}}, counters, [](const Statement&, const auto&) { return false; }));
}

TEST(Statements, CompareWithoutLines) {
  Program a = sample();
  Program b = sample();
  b.statements[0].line = 7;
  EXPECT_EQ(a, b);
  std::get<Loop>(b.statements[1].kind).count = 5;
  EXPECT_FALSE(a == b);
}

}  // namespace
}  // namespace kodama::isa
