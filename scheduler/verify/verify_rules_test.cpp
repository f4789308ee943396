#include <gtest/gtest.h>

#include <random>

#include "isa/error.h"
#include "isa/hazards.h"
#include "scheduler/machine/test_programs.h"
#include "scheduler/verify/verify.h"

/// The rules of whole programs, against the checker of isa/hazards.h, which runs through all iterations.
namespace kodama::verify {
namespace {

using namespace scheduler::test_programs;
using isa::Statement;
using scheduler::Operation;

std::string fault(const isa::Program& program, const isa::Chip& chip) {
  try {
    verify_rules(program, chip);
  } catch (const isa::InternalError& error) {
    return error.what();
  }
  return {};
}

Operand at(Space space, int64_t base, int stride, std::vector<int64_t> loops) {
  Operand operand = real(space, base, stride);
  operand.loop_strides = std::move(loops);
  return operand;
}
Statement step(std::vector<Operation> operations) {
  isa::Step result;
  for (Operation& each : operations) result.instructions.push_back(std::move(each.instruction));
  return {result};
}
Statement looped(int64_t count, std::vector<Statement> body) {
  return {isa::Loop{count, std::move(body)}};
}
Statement pause(int64_t steps) {
  return {isa::Nop{steps, 0}};
}

/// Random code of adds, loads, stores and transfers in loops up to three deep, with strides that make some
/// iterations meet and others not.
class RandomLoops {
 public:
  explicit RandomLoops(uint32_t seed) : random_(seed) {}

  isa::Program make() {
    isa::Program program;
    program.statements = statements(0, 3 + below(3));
    for (const int tag : under_way_) program.statements.push_back({isa::Nop{1, static_cast<int8_t>(tag)}});
    return program;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  std::vector<Statement> statements(size_t depth, int count) {
    std::vector<Statement> list;
    for (int k = 0; k < count; ++k) {
      switch (below(depth < 3 ? 8 : 6)) {
        case 0:
          list.push_back(pause(1 + below(4)));
          break;
        case 1: {
          const int tag = 1 + below(3);
          under_way_.insert(tag);
          Operand from = at(Space::kDram, 64 * below(8), 0, strides(depth, 64));
          Operand to = at(Space::kL2bm, 64 * below(4), 0, strides(depth, 64));
          from.group = to.group = 0;
          to.unit = static_cast<int8_t>(below(2));
          list.push_back({isa::Mv{mv(from, to, 64, tag).instruction}});
          break;
        }
        case 2:
          list.push_back({isa::Nop{1, static_cast<int8_t>(1 + below(3))}});
          break;
        case 6:
        case 7:
          list.push_back(looped(1 + below(7), statements(depth + 1, 1 + below(3))));
          break;
        default:
          list.push_back(step({operation(depth)}));
      }
    }
    return list;
  }

  std::vector<int64_t> strides(size_t depth, int64_t unit) {
    std::vector<int64_t> list;
    for (size_t d = 0; d < depth; ++d) list.push_back(unit * (below(4) - 1));
    return list;
  }

  Operation operation(size_t depth) {
    const auto memory = [&](Space space) { return at(space, 2 * below(12), 2, strides(depth, 2)); };
    switch (below(5)) {
      case 0:
        return load(256 * below(4), memory(Space::kGrf0), strides(depth, 64));
      case 1:
        return store(memory(Space::kGrf1), 256 * below(4), strides(depth, 64));
      case 2: {
        Operand l2bm = at(Space::kL2bm, 64 * below(4), 0, strides(depth, 64));
        Operand l1bm = at(Space::kL1bm, 64 * below(8), 0, strides(depth, 64));
        return op(Opcode::kL2bmb, isa::Precision::kNone, {l2bm}, {l1bm});
      }
      case 3:
        return add(memory(Space::kLm0), memory(Space::kGrf1), memory(Space::kGrf0));
      default:
        return add(memory(Space::kGrf0), memory(Space::kGrf1), memory(Space::kLm1));
    }
  }

  std::mt19937 random_;
  std::set<int> under_way_;
};

TEST(Rules, AreThoseOfTheCheckerThatRunsAllIterations) {
  int bad = 0;
  int good = 0;
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    isa::Chip chip = test_chip();
    // Long latencies, so that distances reach over several iterations.
    if (seed % 3 == 1) chip.hazard.pe_write_complete_cycles = 30;
    if (seed % 3 == 2) chip.hazard.pe_to_l1bm_read = chip.hazard.l2bm_to_l1bm_pe = 11;
    const isa::Program program = RandomLoops(seed).make();
    const std::vector<isa::HazardViolation> found = isa::find_hazards(program, chip);
    // Waits for tags that no transfer has are harmless.
    const bool expected = std::ranges::any_of(found, [](const isa::HazardViolation& each) {
      return each.kind != isa::HazardViolation::Kind::kTagNeverUsed;
    });
    const std::string text = fault(program, chip);
    EXPECT_EQ(text.empty(), !expected) << "seed " << seed << "\n"
                                       << text << "\n"
                                       << (found.empty() ? std::string() : found.front().text);
    (expected ? bad : good) += 1;
  }
  EXPECT_GT(bad, 250);
  EXPECT_GT(good, 250);
}

/// Iteration 500 of 1000 is the one in which two accesses meet.
TEST(Rules, OneIterationOfManyIsFound) {
  const isa::Chip chip = test_chip();
  const auto program = [&](int64_t base) {
    isa::Program result;
    Operation writes = add(real(Space::kGrf0, 500), real(Space::kGrf0, 500), at(Space::kGrf1, 0, 2, {8}));
    Operation reads = add(at(Space::kGrf1, base, 2, {0}), real(Space::kGrf0, 500), real(Space::kLm0, 0, 2));
    result.statements = {looped(40, {step({writes}), step({reads}), pause(4)})};
    return result;
  };
  EXPECT_NE(fault(program(8 * 20), chip), "");
  EXPECT_EQ(fault(program(8 * 40), chip), "");  // the loop ends before
  EXPECT_NE(fault(program(8 * 39), chip), "");
}

TEST(Rules, TimeDoesNotGrowWithIterations) {
  const isa::Chip chip = test_chip();
  isa::Program program;
  // 10^15 iterations of nested loops; nobody could run them.
  program.statements = {looped(
      100000, {looped(100000, {looped(100000, {step({load(0, at(Space::kGrf0, 0, 2, {0, 0, 0}))}), pause(2),
                                               step({store(real(Space::kGrf0, 0, 2), 1024)})})})})};
  EXPECT_EQ(fault(program, chip), "");
  std::get<isa::Loop>(
      std::get<isa::Loop>(std::get<isa::Loop>(program.statements[0].kind).body[0].kind).body[0].kind)
      .body.erase(
          std::get<isa::Loop>(
              std::get<isa::Loop>(std::get<isa::Loop>(program.statements[0].kind).body[0].kind).body[0].kind)
              .body.begin() +
          1);
  EXPECT_NE(fault(program, chip), "");
}

TEST(Rules, StepsObeyTheIssueRulesInEveryIteration) {
  const isa::Chip chip = test_chip();
  const auto program = [&](std::vector<int64_t> strides) {
    isa::Program result;
    // Two reads of GRF0 share its port where they name the same words.
    Operation sum = add(at(Space::kGrf0, 8, 2, {8}), real(Space::kGrf1), real(Space::kLm0, 0, 2));
    Operation product = fma(at(Space::kGrf0, 8, 2, std::move(strides)), real(Space::kGrf1),
                            real(Space::kGrf1), real(Space::kLm1, 0, 2));
    result.statements = {looped(5, {step({sum, product}), pause(4)})};
    return result;
  };
  EXPECT_EQ(fault(program({8}), chip), "");
  EXPECT_NE(fault(program({16}), chip), "");  // the same words in the first iteration only
}

TEST(Rules, ForwardingRegistersHoldSomething) {
  const isa::Chip chip = test_chip();
  const Operation reads = add(real(Space::kAluf), real(Space::kGrf1), real(Space::kLm0, 0, 2));
  const Operation writes = add(real(Space::kGrf0), real(Space::kGrf1), real(Space::kNoWrite));
  isa::Program program;
  program.statements = {step({reads})};
  EXPECT_NE(fault(program, chip), "");
  program.statements = {step({writes}), pause(3), step({reads})};
  EXPECT_EQ(fault(program, chip), "");
  program.statements = {step({writes}), step({load(0, real(Space::kLm1, 0, 2))}), step({reads})};
  EXPECT_NE(fault(program, chip), "");
  EXPECT_NO_THROW(verify_rules(program, chip, Forwards::kKept));
  // In a loop, of the iteration before.
  program.statements = {step({writes}), looped(9, {step({reads})})};
  EXPECT_EQ(fault(program, chip), "");
  program.statements = {step({writes}), looped(9, {step({reads}), step({load(0, real(Space::kLm1, 0, 2))})})};
  EXPECT_NE(fault(program, chip), "");
}

TEST(Rules, WhatMovesBetweenL1bmAndL2bmIsAligned) {
  const isa::Chip chip = test_chip();
  isa::Program program;
  Instruction move;
  move.opcode = isa::Opcode::kL2bmb;
  move.sources = {real(Space::kL2bm)};
  move.destinations = {real(Space::kL1bm)};
  const auto fault_at = [&](int64_t l2bm, int64_t l1bm, int64_t stride) {
    Instruction moved = move;
    moved.sources[0].base = l2bm;
    moved.destinations[0].base = l1bm;
    moved.destinations[0].loop_strides = {stride};
    isa::Step step;
    step.instructions = {moved};
    program.statements = {{isa::Loop{2, {{step}}}}};
    return fault(program, chip);
  };
  EXPECT_EQ(fault_at(16, 32, 48), "");
  EXPECT_NE(fault_at(8, 32, 48).find("multiples of 16"), std::string::npos);
  EXPECT_NE(fault_at(16, 56, 48), "");
  EXPECT_NE(fault_at(16, 32, 8), "");
}

TEST(Rules, TransfersAreOverAtTheEnd) {
  const isa::Chip chip = test_chip();
  isa::Program program;
  program.statements = {{isa::Mv{mv(real(Space::kDram), real(Space::kL2bm), 64, 3).instruction}}};
  EXPECT_NE(fault(program, chip), "");
  program.statements.push_back({isa::Nop{1, 3}});
  EXPECT_EQ(fault(program, chip), "");
  std::get<isa::Mv>(program.statements[0].kind).instruction.tag = 0;
  EXPECT_NE(fault(program, chip), "");
}

}  // namespace
}  // namespace kodama::verify
