#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "isa/error.h"
#include "scheduler/machine/loop_expansion.h"
#include "scheduler/machine/passes.h"
#include "scheduler/machine/program_scheduling.h"
#include "scheduler/machine/test_programs.h"
#include "scheduler/pipeline/pipeline.h"
#include "scheduler/verify/verify.h"

/// What a pass has made right is damaged; the verifiers have to see it.
namespace kodama::scheduler {
namespace {

using namespace test_programs;
using ::testing::HasSubstr;

/// s += x[k] + y[k], z[k] = x[k] + y[k] over 9 places of L1BM. x, y and their sum are values of one
/// iteration.
MachineProgram running_sum() {
  MachineProgram program;
  program.name = "running sum";
  program.values = {value("x", 8, space_bit(Space::kLm0)), value("y", 8, space_bit(Space::kLm1)),
                    value("z", 8, space_bit(Space::kGrf0)), value("s", 8, space_bit(Space::kGrf1)),
                    value("w", 8, space_bit(Space::kLm0))};
  program.body = {
      block({imm(0, virt(3)), imm(5, virt(4))}),
      loop(9, {block({load(0, virt(0), {16}), load(1024, virt(1), {16}), add(virt(0), virt(1), virt(2)),
                      add(virt(3), virt(2), virt(3)), store(virt(2), 2048, {16})})}),
      block({store(virt(3), 3072), store(virt(4), 3328)})};
  return program;
}

CountedLoop& loop_of(MachineProgram& program) {
  for (Node& node : program.body) {
    if (auto* found = std::get_if<CountedLoop>(&node.kind)) return *found;
  }
  throw isa::InternalError("the program has no loop");
}
std::vector<Operation>& body_of(MachineProgram& program) {
  return std::get<Block>(loop_of(program).body.at(0).kind).operations;
}

// ---- copies of loop bodies -------------------------------------------------------------------------------

std::string expansion_fault(const MachineProgram& before, const MachineProgram& after,
                            const isa::Chip& chip) {
  try {
    verify::verify_expansion(before, after, chip);
  } catch (const isa::InternalError& error) {
    return error.what();
  }
  return {};
}

class DamagedExpansion : public ::testing::Test {
 protected:
  void SetUp() override {
    before_ = running_sum();
    after_ = before_;
    ASSERT_TRUE(expand_loops(after_, chip_, 4));
    ASSERT_EQ(loop_of(after_).count, 4) << to_string(after_);  // two copies, and one iteration behind them
    ASSERT_EQ(body_of(after_).size(), 10u);
    ASSERT_GT(after_.values.size(), before_.values.size());
    ASSERT_EQ(expansion_fault(before_, after_, chip_), "");
  }
  /// The fault after `damage`.
  std::string fault(const std::function<void(MachineProgram&)>& damage) const {
    MachineProgram damaged = after_;
    damage(damaged);
    return expansion_fault(before_, damaged, chip_);
  }

  const isa::Chip chip_ = interpreted_chip();
  MachineProgram before_;
  MachineProgram after_;
};

TEST_F(DamagedExpansion, ACopyReadsAnothersValue) {
  int places = 0;
  for (size_t k = 0; k < body_of(after_).size(); ++k) {
    for (size_t s = 0; s < body_of(after_)[k].instruction.sources.size(); ++s) {
      const Operand& source = body_of(after_)[k].instruction.sources[s];
      if (source.space != Space::kVirtual || source.value < static_cast<int32_t>(before_.values.size()))
        continue;
      ++places;
      // The value of the body itself: as the name says, without the number of the copy.
      const std::string& name = after_.values[static_cast<size_t>(source.value)].name;
      const auto original = std::ranges::find(before_.values, name.substr(0, name.find('.')), &Value::name);
      ASSERT_NE(original, before_.values.end()) << name;
      EXPECT_NE(fault([&](MachineProgram& damaged) {
                  body_of(damaged)[k].instruction.sources[s].value =
                      static_cast<int32_t>(original - before_.values.begin());
                }),
                "")
          << to_string(after_) << k << " " << s;
    }
  }
  EXPECT_EQ(places, 4);  // x + y, s + z and the store of z
}

TEST_F(DamagedExpansion, AnOperationIsMissing) {
  for (size_t k = 0; k < body_of(after_).size(); ++k) {
    EXPECT_NE(fault([&](MachineProgram& damaged) {
                body_of(damaged).erase(body_of(damaged).begin() + static_cast<std::ptrdiff_t>(k));
              }),
              "")
        << k;
  }
  // The iteration behind the loop.
  EXPECT_NE(fault([](MachineProgram& damaged) { damaged.body.erase(damaged.body.begin() + 2); }), "");
}

TEST_F(DamagedExpansion, CountAndStride) {
  EXPECT_THAT(fault([](MachineProgram& damaged) { --loop_of(damaged).count; }), HasSubstr("another address"));
  EXPECT_NE(fault([](MachineProgram& damaged) { ++loop_of(damaged).count; }), "");
  for (size_t k = 0; k < body_of(after_).size(); ++k) {
    const auto change = [&](MachineProgram& damaged, const std::function<void(Operand&)>& how) {
      for (auto* list :
           {&body_of(damaged)[k].instruction.sources, &body_of(damaged)[k].instruction.destinations}) {
        for (Operand& operand : *list) {
          if (!operand.loop_strides.empty()) how(operand);
        }
      }
    };
    if (k % 5 == 2 || k % 5 == 3) continue;  // the sums have no strides
    EXPECT_NE(fault([&](MachineProgram& damaged) {
                change(damaged, [](Operand& operand) { operand.loop_strides[0] = 16; });
              }),
              "")
        << k;
    EXPECT_NE(fault([&](MachineProgram& damaged) {
                change(damaged, [](Operand& operand) { operand.base += 16; });
              }),
              "")
        << k;
  }
}

TEST_F(DamagedExpansion, CopiesInAnotherOrder) {
  EXPECT_NE(fault([](MachineProgram& damaged) { std::swap(body_of(damaged)[3], body_of(damaged)[8]); }), "");
  EXPECT_THAT(fault([](MachineProgram& damaged) { damaged.values.resize(3); }),
              HasSubstr("values are missing"));
}

TEST(DamagedMatrixExpansion, ACopyMultipliesByTheOtherMatrix) {
  const isa::Chip chip = test_chip();
  MachineProgram before = plain_product(isa::Precision::kGFloat, 8, 4);
  before.body.push_back(
      block({store(virt(2), 0), store(virt(2, 8), 256), store(virt(2, 16), 512), store(virt(2, 24), 768)}));
  EXPECT_NO_THROW(build_program(before, chip));
  MachineProgram after = before;
  ASSERT_TRUE(expand_loops(after, chip, 2));
  ASSERT_EQ(expansion_fault(before, after, chip), "");
  int places = 0;
  for (size_t k = 0; k < body_of(after).size(); ++k) {
    for (const bool written : {false, true}) {
      MachineProgram damaged = after;
      Instruction& instruction = body_of(damaged)[k].instruction;
      for (Operand& operand : written ? instruction.destinations : instruction.sources) {
        if (operand.space != Space::kMatY) continue;
        operand.space = Space::kMatX;
        ++places;
        EXPECT_NE(expansion_fault(before, damaged, chip), "") << to_string(damaged);
      }
    }
  }
  EXPECT_EQ(places, 6);  // two parts of the matrix, four vectors
}

// ---- what shows after some iterations ---------------------------------------------------------------------

/// Values that hand data on, one place per iteration: a, b, c, d.
MachineProgram shift_register() {
  MachineProgram program;
  program.name = "shift register";
  for (const char* name : {"a", "b", "c", "d"}) program.values.push_back(value(name, 8, kGrfs));
  std::vector<Operation> start;
  for (int v = 0; v < 4; ++v) start.push_back(imm(v, virt(v)));
  program.body = {block(start),
                  loop(9, {block({store(virt(3), 2048, {256}), copy(virt(2), virt(3)), copy(virt(1), virt(2)),
                                  copy(virt(0), virt(1)), load(0, virt(0), {16})})})};
  return program;
}

TEST(DamagedCopies, ShowAfterSomeIterations) {
  const isa::Chip chip = interpreted_chip();
  const MachineProgram before = shift_register();
  EXPECT_NO_THROW(verify::verify_copies(before, before, chip));
  MachineProgram late = before;
  // The new a is handed on, not the old: d sees it in the fourth iteration.
  std::swap(body_of(late)[3], body_of(late)[4]);
  EXPECT_THROW(verify::verify_copies(before, late, chip), isa::InternalError);
  EXPECT_THROW(verify::verify_expansion(before, late, chip), isa::InternalError);
}

TEST(DamagedAllocation, AWordIsLostSomeIterationsLater) {
  const isa::Chip chip = interpreted_chip();
  MachineProgram program;
  program.name = "delay line";
  // x[i] is written in iteration i and read in iteration i + 5; y lives in one iteration.
  program.values = {value("x", 8 * 12, space_bit(Space::kGrf0)), value("y", 8, space_bit(Space::kGrf0))};
  program.body = {
      loop(7, {block({load(0, virt(0, 40, 2, {8}), {16}), load(2048, virt(1)), store(virt(1), 1024)})}),
      loop(7, {block({store(virt(0, 40, 2, {8}), 3072, {16})})})};
  for (Value& each : program.values) each.home = Space::kGrf0;
  program.values[0].address = 0;
  program.values[1].address = 96;
  EXPECT_NO_THROW(verify::verify_allocation(program, chip));
  for (const int64_t address : {40, 56, 80}) {
    program.values[1].address = address;  // on words 0, 2 and 5 of those that are read
    EXPECT_THROW(verify::verify_allocation(program, chip), isa::InternalError) << address;
  }
  program.values[1].address = 0;  // nobody has written these words of x
  EXPECT_NO_THROW(verify::verify_allocation(program, chip));
}

// ---- loops that overlap ----------------------------------------------------------------------------------

isa::Loop& steady_loop(isa::Program& schedule) {
  return const_cast<isa::Loop&>(*first_loop(schedule));
}

/// A damaged schedule is refused, or means the same and keeps the rules all the same.
class DamagedLoop : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    program_ = running_sum();
    if (GetParam()) {
      ASSERT_TRUE(expand_loops(program_, chip_, 2));
    }
    expected_ = run_virtual(program_);
    home_assigners().front().run(program_, chip_, {});
    allocators().front().run(program_, chip_, {});
    schedule_ = schedule_program(program_, chip_);
    ASSERT_NE(first_loop(schedule_), nullptr);
    ASSERT_LT(first_loop(schedule_)->count, loop_of(program_).count) << "iterations don't overlap";
    ASSERT_FALSE(is_refused(schedule_));
    ASSERT_EQ(run_schedule(schedule_), expected_);
  }

  bool is_refused(const isa::Program& schedule) const {
    try {
      verify::verify_schedule(program_, schedule, chip_);
    } catch (const isa::InternalError&) {
      return true;
    }
    return false;
  }
  /// Refused; a failure when it is accepted and wrong.
  bool check(const isa::Program& schedule, const std::string& what) const {
    if (is_refused(schedule)) return true;
    EXPECT_EQ(unrolled_fault(schedule, chip_), "") << what;
    EXPECT_TRUE(run_schedule(schedule) == expected_) << what << ": accepted, but computes something else";
    return false;
  }
  /// The instructions of a step of the loop; nothing for a nop.
  static std::vector<Instruction>* step_of(isa::Loop& loop, size_t k) {
    auto* step = std::get_if<isa::Step>(&loop.body[k].kind);
    return step == nullptr ? nullptr : &step->instructions.own();
  }

  const isa::Chip chip_ = interpreted_chip();
  MachineProgram program_;
  isa::Program schedule_;
  std::vector<uint64_t> expected_;
};

TEST_P(DamagedLoop, TwoOperationsChangePlaces) {
  const size_t size = first_loop(schedule_)->body.size();
  int tried = 0;
  int refused = 0;
  for (size_t a = 0; a < size; ++a) {
    for (size_t b = a + 1; b < size; ++b) {
      isa::Program damaged = schedule_;
      isa::Loop& loop = steady_loop(damaged);
      auto* first = step_of(loop, a);
      auto* second = step_of(loop, b);
      if (first == nullptr || second == nullptr) continue;
      for (size_t i = 0; i < first->size(); ++i) {
        for (size_t j = 0; j < second->size(); ++j) {
          std::swap((*first)[i], (*second)[j]);
          ++tried;
          refused += check(damaged, "swap") ? 1 : 0;
          std::swap((*first)[i], (*second)[j]);
        }
      }
    }
  }
  EXPECT_GT(tried, 5);
  EXPECT_GT(refused, tried * 3 / 4);  // the others, as two loads, don't depend on each other
}

TEST_P(DamagedLoop, OneIterationTooFewOrTooMany) {
  for (const int change : {-1, 1}) {
    isa::Program damaged = schedule_;
    steady_loop(damaged).count += change;
    EXPECT_TRUE(check(damaged, "count"));
  }
}

TEST_P(DamagedLoop, ADistanceIsShorter) {
  int refused = 0;
  for (size_t k = 0; k < first_loop(schedule_)->body.size(); ++k) {
    // A step less between what is before and behind a nop.
    isa::Program damaged = schedule_;
    auto& body = steady_loop(damaged).body;
    if (auto* nop = std::get_if<isa::Nop>(&body[k].kind)) {
      if (--nop->count == 0) body.erase(body.begin() + static_cast<std::ptrdiff_t>(k));
      refused += check(damaged, "nop") ? 1 : 0;
      continue;
    }
    // One operation a step earlier.
    const size_t n = step_of(steady_loop(damaged), k)->size();
    for (size_t i = 0; k > 0 && i < n; ++i) {
      isa::Program earlier = schedule_;
      isa::Loop& loop = steady_loop(earlier);
      auto* from = step_of(loop, k);
      const Instruction moved = (*from)[i];
      from->erase(from->begin() + static_cast<std::ptrdiff_t>(i));
      if (from->empty()) loop.body[k].kind = isa::Nop{1, 0};
      if (auto* to = step_of(loop, k - 1)) {
        to->push_back(moved);
      } else {
        loop.body[k - 1].kind = isa::Step{{moved}};
      }
      refused += check(earlier, "earlier") ? 1 : 0;
    }
  }
  EXPECT_GT(refused, 0);
}

TEST_P(DamagedLoop, AnAddressOrItsStrideIsWrong) {
  int tried = 0;
  for (size_t k = 0; k < first_loop(schedule_)->body.size(); ++k) {
    isa::Program copy = schedule_;
    const auto* instructions = step_of(steady_loop(copy), k);
    if (instructions == nullptr) continue;
    for (size_t i = 0; i < instructions->size(); ++i) {
      for (const bool written : {false, true}) {
        for (const int64_t change : {-16, 16}) {
          for (const bool stride : {false, true}) {
            isa::Program damaged = schedule_;
            Instruction& instruction = (*step_of(steady_loop(damaged), k))[i];
            bool changed = false;
            for (Operand& operand : written ? instruction.destinations : instruction.sources) {
              if (operand.loop_strides.empty()) continue;
              (stride ? operand.loop_strides[0] : operand.base) += change;
              changed = true;
            }
            if (!changed) continue;
            ++tried;
            EXPECT_TRUE(check(damaged, "address"));
          }
        }
      }
    }
  }
  EXPECT_GE(tried, 12);  // two loads and a store
}

TEST_P(DamagedLoop, AnOperationIsMissing) {
  for (size_t k = 0; k < schedule_.statements.size(); ++k) {
    isa::Program damaged = schedule_;
    auto& kind = damaged.statements[k].kind;
    auto* step = std::get_if<isa::Step>(&kind);
    if (auto* loop = std::get_if<isa::Loop>(&kind)) {
      for (size_t s = 0; s < loop->body.size() && step == nullptr; ++s)
        step = std::get_if<isa::Step>(&loop->body[s].kind);
    }
    if (step == nullptr) continue;
    step->instructions.own().pop_back();
    EXPECT_TRUE(check(damaged, "missing")) << k;
  }
}

/// An iteration in the middle, between right ones.
TEST_P(DamagedLoop, OneIterationInTheMiddle) {
  const isa::Loop loop = *first_loop(schedule_);
  const auto at = std::ranges::find_if(schedule_.statements, [](const isa::Statement& statement) {
    return std::holds_alternative<isa::Loop>(statement.kind);
  });
  const auto index = at - schedule_.statements.begin();
  for (int64_t split = 1; split + 1 < loop.count; ++split) {
    // Loops before and behind it, addresses shifted.
    const auto from = [&](int64_t first, int64_t count) {
      isa::Loop part{count, loop.body};
      for (isa::Statement& statement : part.body) {
        if (auto* step = std::get_if<isa::Step>(&statement.kind)) {
          for (Instruction& instruction : step->instructions.own()) {
            for (auto* list : {&instruction.sources, &instruction.destinations}) {
              for (Operand& operand : *list) {
                if (!operand.loop_strides.empty()) operand.base += operand.loop_strides[0] * first;
              }
            }
          }
        }
      }
      return isa::Statement{part};
    };
    isa::Program damaged = schedule_;
    isa::Statement wrong = from(split, 1);
    for (isa::Statement& statement : std::get<isa::Loop>(wrong.kind).body) {
      auto* step = std::get_if<isa::Step>(&statement.kind);
      if (step == nullptr) continue;
      for (Instruction& instruction : step->instructions.own()) {
        for (Operand& operand : instruction.sources) {
          if (operand.space == Space::kL1bm) operand.base += 64;
        }
      }
    }
    const std::vector<isa::Statement> three{from(0, split), wrong, from(split + 1, loop.count - split - 1)};
    damaged.statements.erase(damaged.statements.begin() + index);
    damaged.statements.insert(damaged.statements.begin() + index, three.begin(), three.end());
    EXPECT_TRUE(is_refused(damaged)) << split;
  }
}

INSTANTIATE_TEST_SUITE_P(Bodies, DamagedLoop, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Copied" : "AsWritten"; });

}  // namespace
}  // namespace kodama::scheduler
