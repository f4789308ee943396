#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "isa/error.h"
#include "scheduler/machine/loop_expansion.h"
#include "scheduler/machine/passes.h"
#include "scheduler/machine/program_scheduling.h"
#include "scheduler/machine/test_programs.h"
#include "scheduler/pipeline/pipeline.h"
#include "scheduler/verify/verify.h"

/// Values whose home is a mask register.
namespace kodama::scheduler {
namespace {

using namespace test_programs;
using ::testing::HasSubstr;

Value mask_value(const std::string& name) {
  Value v = value(name, 1, space_bit(Space::kOmr));
  v.alignment_words = 1;
  return v;
}
Operand mask_target(int mask) {
  Operand operand = virt(mask, 0, 0);
  operand.width = Width::kWord;
  return operand;
}
Operand under(Operand operand, int mask) {
  operand.mask.kind = isa::Mask::Kind::kVirtual;
  operand.mask.virtual_value = mask;
  return operand;
}
/// The flags of x - y.
Operation compare(Operand x, Operand y, int mask) {
  return op(Opcode::kSub, isa::Precision::kInt, {std::move(x), std::move(y)}, {mask_target(mask)});
}

/// to[k] = x[k] < y[k] ? y[k] : x[k] for `count` places, all comparisons first if `at_once`.
MachineProgram selections(int count, bool at_once) {
  MachineProgram program;
  program.name = "selections";
  program.values = {value("x", 8 * count, space_bit(Space::kLm0)),
                    value("y", 8 * count, space_bit(Space::kLm1)),
                    value("to", 8 * count, space_bit(Space::kGrf0))};
  for (int k = 0; k < count; ++k) program.values.push_back(mask_value("m" + std::to_string(k)));
  std::vector<Operation> first;
  for (int k = 0; k < count; ++k) {
    first.push_back(load(256 * k, virt(0, 8 * k)));
    first.push_back(load(2048 + 64 * k, virt(1, 8 * k)));
  }
  std::vector<Operation> second;
  for (int k = 0; k < count; ++k) {
    (at_once ? first : second).push_back(compare(virt(0, 8 * k), virt(1, 8 * k), 3 + k));
    second.push_back(copy(virt(0, 8 * k), virt(2, 8 * k)));
    second.push_back(copy(virt(1, 8 * k), under(virt(2, 8 * k), 3 + k)));
  }
  for (int k = 0; k < count; ++k) second.push_back(store(virt(2, 8 * k), 3072 + 16 * k));
  program.body = {block(first), block(second)};
  return program;
}

MachineProgram allocated(MachineProgram program, const isa::Chip& chip, const Allocator& allocator) {
  home_assigners().front().run(program, chip, {});
  verify::verify_homes(program, chip);
  allocator.run(program, chip, {});
  return program;
}
std::vector<Operation>& operations_of(MachineProgram& program, size_t b) {
  return std::get<Block>(program.body.at(b).kind).operations;
}

TEST(MaskValues, LiveInRegistersThatNobodyNames) {
  const isa::Chip chip = test_chip();
  MachineProgram program = selections(6, true);
  // $imr3 is the kernel's own.
  operations_of(program, 0)
      .push_back(op(Opcode::kSub, isa::Precision::kInt, {virt(0), virt(1)}, {real(Space::kOmr, 3, 0)}));
  for (const Allocator& allocator : allocators()) {
    SCOPED_TRACE(allocator.name);
    const MachineProgram placed = allocated(program, chip, allocator);
    EXPECT_NO_THROW(verify::verify_allocation(placed, chip));
    for (size_t v = 3; v < placed.values.size(); ++v) {
      EXPECT_EQ(placed.values[v].home, Space::kOmr);
      EXPECT_GT(placed.values[v].address, 0);
      EXPECT_LT(placed.values[v].address, isa::kMaskRegisters);
      EXPECT_NE(placed.values[v].address, 3);
    }
    EXPECT_NO_THROW(verify::verify_schedule(placed, schedule_program(placed, chip), chip));
  }
  EXPECT_THAT(to_string(program), HasSubstr("/%m0"));
}

TEST(MaskValues, ShareRegistersByLifetime) {
  const isa::Chip chip = test_chip();
  EXPECT_NO_THROW(build_program(selections(15, true), chip));
  EXPECT_NO_THROW(build_program(selections(20, false), chip));
  try {
    build_program(selections(16, true), chip);
    FAIL();
  } catch (const isa::UnsupportedError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("mask registers needs 16 words at once, it has 16 of which 1 are used"));
  }
}

TEST(MaskValues, TheProgramNamesRegisters) {
  const isa::Program program = build_program(selections(2, true), test_chip());
  int written = 0;
  int used = 0;
  for (const isa::Statement& statement : program.statements) {
    const auto* step = std::get_if<isa::Step>(&statement.kind);
    if (step == nullptr) continue;
    for (const Instruction& instruction : step->instructions) {
      for (const Operand& operand : instruction.destinations) {
        EXPECT_NE(operand.space, Space::kVirtual);
        EXPECT_NE(operand.mask.kind, isa::Mask::Kind::kVirtual);
        written += operand.space == Space::kOmr;
        used += operand.mask.kind == isa::Mask::Kind::kRegister;
      }
    }
  }
  EXPECT_EQ(written, 2);
  EXPECT_EQ(used, 2);
}

TEST(MaskValues, CopiesOfLoopBodiesHaveTheirOwn) {
  const isa::Chip chip = test_chip();
  MachineProgram program = selections(1, false);
  std::vector<Operation> body = operations_of(program, 0);
  for (const Operation& operation : operations_of(program, 1)) body.push_back(operation);
  for (Operation& operation : body) {  // other data in every iteration
    for (auto* operands : {&operation.instruction.sources, &operation.instruction.destinations}) {
      for (Operand& operand : *operands) {
        if (operand.space == Space::kL1bm) operand.loop_strides = {16};
      }
    }
  }
  program.body = {loop(8, {block(body)})};
  MachineProgram expanded = program;
  ASSERT_TRUE(expand_loops(expanded, chip, 4));
  EXPECT_NO_THROW(verify::verify_expansion(program, expanded, chip));
  EXPECT_THAT(to_string(expanded), HasSubstr("/%m0.1"));
  EXPECT_NO_THROW(build_program(program, chip));
  // A copy under the mask of another one.
  auto& operations = std::get<Block>(std::get<CountedLoop>(expanded.body[0].kind).body[0].kind).operations;
  for (Operation& operation : operations) {
    isa::Mask& mask = operation.instruction.destinations[0].mask;
    if (mask.kind == isa::Mask::Kind::kVirtual && mask.virtual_value != 3) mask.virtual_value = 3;
  }
  EXPECT_THROW(verify::verify_expansion(program, expanded, chip), isa::InternalError);
}

TEST(MaskValues, VerifiersSeeWrongOnes) {
  const isa::Chip chip = test_chip();
  const MachineProgram good = allocated(selections(3, true), chip, allocators().front());
  const isa::Program schedule = schedule_program(good, chip);
  // Two that are needed at one time, in one register; all ones; a register that there is not.
  for (const int64_t address : {good.values[4].address, int64_t{0}, int64_t{16}}) {
    MachineProgram damaged = good;
    damaged.values[3].address = address;
    EXPECT_THROW(verify::verify_allocation(damaged, chip), isa::InternalError) << address;
  }
  // The schedule uses another register than the one that holds the comparison.
  MachineProgram other = good;
  std::swap(other.values[3].address, other.values[4].address);
  EXPECT_THROW(verify::verify_schedule(other, schedule, chip), isa::InternalError);
  MachineProgram wrong_mask = good;
  operations_of(wrong_mask, 1)[1].instruction.destinations[0].mask.virtual_value = 4;
  EXPECT_THROW(verify::verify_schedule(wrong_mask, schedule, chip), isa::InternalError);
  MachineProgram not_a_mask = good;
  operations_of(not_a_mask, 1)[1].instruction.destinations[0].mask.virtual_value = 0;
  EXPECT_THROW(verify::verify_homes(not_a_mask, chip), isa::InternalError);
}

}  // namespace
}  // namespace kodama::scheduler
