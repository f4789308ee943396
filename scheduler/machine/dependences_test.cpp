#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "isa/chip.h"
#include "scheduler/machine/machine_problem.h"

/// Dependences of long blocks: no more than there must be, or the time that they take grows with their
/// square.
namespace kodama::scheduler {
namespace {

using isa::Instruction;
using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::Space;

const isa::Chip& mncore2() {
  static const isa::Chip kChip = isa::find_chip("mncore2");
  return kChip;
}

Operand at(Space space, int64_t base, int32_t stride = 0) {
  Operand operand;
  operand.space = space;
  operand.base = base;
  operand.stride = stride;
  return operand;
}
Operand at_l2b(int64_t base, int8_t group, int8_t unit) {
  Operand operand = at(Space::kL2bm, base);
  operand.group = group;
  operand.unit = unit;
  return operand;
}

class Operations {
 public:
  void add(Opcode opcode, Precision precision, std::vector<Operand> sources, Operand destination,
           int64_t size_lw = 0, int8_t tag = 0) {
    Instruction instruction;
    instruction.opcode = opcode;
    instruction.precision = precision;
    instruction.sources = std::move(sources);
    instruction.destinations = {std::move(destination)};
    instruction.size_lw = size_lw;
    instruction.tag = tag;
    list_.push_back(make_machine_operation(std::move(instruction), "", mncore2(), {}));
  }
  ScheduleProblem problem() const { return block_problem("test", list_, Distances(mncore2()), {}); }
  int last() const { return static_cast<int>(list_.size()) - 1; }

 private:
  std::vector<MachineOperation> list_;
};

bool depends(const ScheduleProblem& problem, int from, int to) {
  return std::ranges::any_of(problem.dependences, [&](const ScheduleProblem::Dependence& edge) {
    return edge.from == from && edge.to == to;
  });
}

/// Matrices in one register, each written in two parts and used three times.
Operations products(int count) {
  Operations operations;
  for (int k = 0; k < count; ++k) {
    for (const int64_t row : {0, 4})
      operations.add(Opcode::kMwrite, Precision::kGFloat, {at(Space::kGrf0, 8 * row, 2)},
                     at(Space::kMatX, row));
    for (int64_t use = 0; use < 3; ++use) {
      operations.add(Opcode::kMmul, Precision::kGFloat, {at(Space::kMatX, 0), at(Space::kLm0, 8 * use, 2)},
                     at(Space::kGrf1, 8 * use, 2));
    }
  }
  return operations;
}

TEST(Dependences, OnAMatrixThatIsThereAreAll) {
  const ScheduleProblem problem = products(3).problem();
  for (int k = 0; k < 3; ++k) {
    const int first = 5 * k;
    for (int use = 2; use < 5; ++use) {
      for (int part = 0; part < 2; ++part) {
        EXPECT_TRUE(depends(problem, first + part, first + use));
        if (k == 2) continue;
        EXPECT_TRUE(depends(problem, first + use, first + 5 + part)) << k << ' ' << use;
      }
    }
  }
  EXPECT_FALSE(depends(problem, 2, 10));
}

TEST(Dependences, OnMatricesGrowWithTheBlock) {
  const size_t some = products(100).problem().dependences.size();
  EXPECT_LE(products(200).problem().dependences.size(), 2 * some + 100);
}

/// Every L2B gets a block of its own at one address; then all read it.
Operations blocks(int count) {
  Operations operations;
  for (int k = 0; k < count; ++k) {
    for (int8_t group = 0; group < mncore2().groups; ++group) {
      for (int8_t unit = 0; unit < mncore2().l2b_per_group; ++unit) {
        Operand from = at(Space::kDram, 64 * k);
        from.group = group;
        operations.add(Opcode::kMvp, Precision::kNone, {from}, at_l2b(0, group, unit), 64, 1);
      }
    }
    operations.add(Opcode::kL2bmb, Precision::kNone, {at(Space::kL2bm, 0)}, at(Space::kL1bm, 64 * (k % 4)));
  }
  return operations;
}

TEST(Dependences, OnWhatAllL2bsReplaceGrowWithTheBlock) {
  const int l2bs = mncore2().l2b_count();
  const ScheduleProblem problem = blocks(3).problem();
  for (int l2b = 0; l2b < l2bs; ++l2b) {
    EXPECT_TRUE(depends(problem, l2bs, l2bs + 1 + l2b)) << l2b;
    EXPECT_TRUE(depends(problem, l2bs + 1 + l2b, 2 * l2bs + 1)) << l2b;
    EXPECT_FALSE(depends(problem, l2bs, 2 * l2bs + 2 + l2b)) << l2b;
  }
  // Of an L2B that gets nothing, what was read before is still there.
  Operations some = blocks(1);
  Operand from = at(Space::kDram, 0);
  from.group = 0;
  for (int k = 0; k < 2; ++k) some.add(Opcode::kMvp, Precision::kNone, {from}, at_l2b(0, 0, 0), 64, 1);
  some.add(Opcode::kMvp, Precision::kNone, {from}, at_l2b(0, 0, 1), 64, 1);
  EXPECT_TRUE(depends(some.problem(), l2bs, some.last()));
  const size_t few = blocks(100).problem().dependences.size();
  EXPECT_LE(blocks(200).problem().dependences.size(), 2 * few + 100);
}

}  // namespace
}  // namespace kodama::scheduler
