#include "layout/moves/step_packer.h"

#include <gtest/gtest.h>

#include "isa/error.h"
#include "isa/hazards.h"
#include "layout/moves/move_code.h"

namespace kodama::layout {
namespace {

using isa::Instruction;
using isa::Opcode;
using isa::Precision;

const isa::Chip& chip() {
  static const isa::Chip mncore2 = isa::find_chip("mncore2");
  return mncore2;
}
isa::Operand pe(Memory memory, int64_t base) {
  return Code::pe(memory, {base, base + 1, base + 2, base + 3}, isa::Width::kLong, chip());
}
isa::Operand matrix(isa::Space space) {
  isa::Operand result;
  result.space = space;
  return result;
}
isa::Program packed(const std::vector<PackedItem>& items) {
  isa::Program program = pack_steps(items, chip());
  EXPECT_TRUE(find_hazards(program, chip()).empty());
  return program;
}

TEST(StepPacker, TheExampleOfTheHeader) {
  const isa::Operand x = matrix(isa::Space::kMatX);
  const isa::Operand y = matrix(isa::Space::kMatY);
  const isa::Program program =
      packed({make_instruction(Opcode::kMwrite, Precision::kDouble, pe(Memory::kLm0, 0), x),
              make_instruction(Opcode::kMread, Precision::kDouble, x, pe(Memory::kLm1, 0)),
              make_instruction(Opcode::kMwrite, Precision::kDouble, pe(Memory::kLm0, 4), y),
              make_instruction(Opcode::kMread, Precision::kDouble, y, pe(Memory::kLm1, 4))});
  EXPECT_EQ(isa::count(program).steps, 3);
  EXPECT_EQ(isa::count(program).nops, 0);
}

TEST(StepPacker, DistancesAreKept) {
  // LM0 to L1BM, two steps, L1BM to LM1, two steps, LM1 to LM0.
  const isa::Program program =
      packed({make_instruction(Opcode::kL1bmd, Precision::kNone, pe(Memory::kLm0, 0), Code::l1bm(0)),
              make_instruction(Opcode::kL1bmd, Precision::kNone, Code::l1bm(64), pe(Memory::kLm1, 0)),
              make_instruction(Opcode::kPassa, Precision::kLong, pe(Memory::kLm1, 0), pe(Memory::kLm0, 8))});
  EXPECT_EQ(isa::count(program).steps, 3 + 4);
}

TEST(StepPacker, WhatDoesNotDependFillsTheGaps) {
  std::vector<PackedItem> items{
      make_instruction(Opcode::kL1bmd, Precision::kNone, pe(Memory::kLm0, 0), Code::l1bm(0)),
      make_instruction(Opcode::kL1bmd, Precision::kNone, Code::l1bm(0), pe(Memory::kLm1, 0))};
  for (int64_t k = 0; k < 2; ++k)
    items.emplace_back(make_instruction(Opcode::kPassa, Precision::kLong, pe(Memory::kGrf0, 4 * k),
                                        pe(Memory::kGrf1, 4 * k)));
  EXPECT_EQ(isa::count(packed(items)).steps, 4);
}

TEST(StepPacker, TransfersAreWaitedFor) {
  Instruction mv =
      make_instruction(Opcode::kMvp, Precision::kNone, Code::l2bm(0, 0, 0), Code::l2bm(4096, 0, 1));
  mv.size_lw = 256;
  mv.tag = 1;
  const Instruction down =
      make_instruction(Opcode::kL2bmd, Precision::kNone, Code::l2bm(4096), Code::l1bm(0));
  packed({make_instruction(Opcode::kL2bmd, Precision::kNone, Code::l1bm(0), Code::l2bm(0)), mv, WaitFor{1},
          down});
  EXPECT_THROW(pack_steps({mv, down}, chip()), isa::InternalError);
  // A tag is used again behind its wait.
  packed({mv, WaitFor{1}, mv, WaitFor{1}});
}

TEST(StepPacker, WhatIsWrittenLaterFillsTheStepsBeforeAWait) {
  Instruction mv =
      make_instruction(Opcode::kMvp, Precision::kNone, Code::l2bm(0, 0, 0), Code::l2bm(4096, 0, 1));
  mv.size_lw = 256;
  mv.tag = 1;
  std::vector<PackedItem> items{
      mv, WaitFor{1}, make_instruction(Opcode::kL2bmd, Precision::kNone, Code::l2bm(4096), Code::l1bm(0))};
  // Over at 64 + 256 / 16 cycles: the wait is in step 20, and so is what needs the transfer.
  EXPECT_EQ(isa::count(packed(items)).steps, 21);
  for (int64_t k = 0; k < 8; ++k)
    items.emplace_back(
        make_instruction(Opcode::kPassa, Precision::kLong, pe(Memory::kLm0, 4 * k), pe(Memory::kLm1, 4 * k)));
  EXPECT_EQ(isa::count(packed(items)).steps, 21);
  // Where transfers are moved afterwards, no step is kept free for them.
  const isa::Program behind = pack_steps(items, chip(), WaitPlace::kBehindAll);
  EXPECT_EQ(isa::count(behind).nops, 0);
  EXPECT_LE(isa::count(behind).steps, 9);
}

TEST(StepPacker, APortOfAnLmServesOneAtATime) {
  // Between a write and a read of LM0 there are two steps, whatever the addresses and whichever was written
  // first: the read of the last instruction has room only before the write of the second.
  const isa::Program program =
      packed({make_instruction(Opcode::kL1bmd, Precision::kNone, pe(Memory::kLm1, 0), Code::l1bm(0)),
              make_instruction(Opcode::kL1bmd, Precision::kNone, Code::l1bm(0), pe(Memory::kLm0, 0)),
              make_instruction(Opcode::kPassa, Precision::kLong, pe(Memory::kLm0, 8), pe(Memory::kGrf0, 0))});
  EXPECT_EQ(isa::count(program).steps, 4);
}

TEST(StepPacker, OffsetsTellAddressesThroughTApart) {
  const auto through_t = [](int64_t base, std::vector<int64_t> offsets) {
    PackedInstruction item(make_instruction(
        Opcode::kPassa, Precision::kLong, pe(Memory::kGrf0, 0),
        Code::pe(Memory::kLm0, {base, base + 1, base + 2, base + 3}, isa::Width::kLong, chip(), true)));
    item.t = std::make_shared<const std::vector<int64_t>>(std::move(offsets));
    return item;
  };
  const PackedItem set_t =
      make_instruction(Opcode::kPassa, Precision::kInt, Code::constant(isa::FixedConstant::kPeid), Code::t());
  const PackedItem read =
      make_instruction(Opcode::kL1bmd, Precision::kNone, pe(Memory::kLm0, 16), Code::l1bm(0));
  // The read is of what may have been written through T, or comes before it.
  EXPECT_EQ(isa::count(packed({set_t, through_t(0, {0, 16}), read})).steps, 6);
  EXPECT_EQ(isa::count(packed({set_t, through_t(0, {0, 8}), read})).steps, 3);
  PackedInstruction anywhere = through_t(0, {});
  anywhere.t = nullptr;
  EXPECT_EQ(isa::count(packed({set_t, anywhere, read})).steps, 6);
}

}  // namespace
}  // namespace kodama::layout
