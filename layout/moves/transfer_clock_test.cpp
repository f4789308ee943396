#include "layout/moves/transfer_clock.h"

#include <gtest/gtest.h>

#include "layout/moves/move_code.h"

namespace kodama::layout {
namespace {

isa::Instruction mvp(int64_t lw, isa::Operand source, isa::Operand destination) {
  isa::Instruction mv =
      make_instruction(isa::Opcode::kMvp, isa::Precision::kNone, std::move(source), std::move(destination));
  mv.size_lw = lw;
  return mv;
}

TEST(TransferClock, TheExampleOfTheHeader) {
  const isa::Chip chip = isa::find_chip("mncore2");
  TransferClock clock(chip);
  const isa::Operand pdm = Code::outside(Memory::kPdm, 0, 0);
  EXPECT_DOUBLE_EQ(clock.issue(mvp(1024, pdm, Code::l2bm(0, 0, 0)), 0), 128);
  EXPECT_DOUBLE_EQ(clock.next_start(), 16);
  EXPECT_DOUBLE_EQ(clock.issue(mvp(1024, pdm, Code::l2bm(0, 0, 1)), 0), 192);
  // Another port, a start later, and two groups away.
  EXPECT_DOUBLE_EQ(clock.issue(mvp(1024, Code::l2bm(0, 1, 0), Code::l2bm(0, 3, 0)), 0),
                   32 + 64 + 2 * 32 + 64);
}

}  // namespace
}  // namespace kodama::layout
