#include "isa/transfer_timeline.h"

#include <gtest/gtest.h>

#include "isa/error.h"
#include "isa/sequencer.h"

namespace kodama::isa {
namespace {

/// mncore2 without refresh, so that times are round.
Chip calm_chip() {
  Chip chip = find_chip("mncore2");
  chip.transfer.dram_refresh_ns = 0;
  return chip;
}

Operand at(Space space, int64_t base, int group, int unit = -1) {
  Operand operand;
  operand.space = space;
  operand.base = base;
  operand.group = static_cast<int8_t>(group);
  operand.unit = static_cast<int8_t>(unit);
  return operand;
}
Instruction mv(int64_t lw, const Operand& source, const Operand& destination, int tag = 0, int priority = 0) {
  Instruction instruction;
  instruction.opcode = Opcode::kMvp;
  instruction.size_lw = lw;
  instruction.tag = static_cast<int8_t>(tag);
  instruction.priority = static_cast<int8_t>(priority);
  instruction.sources = {source};
  instruction.destinations = {destination};
  return instruction;
}

/// The cycles at which transfers issued at the given cycles are done.
std::vector<int64_t> done(const Chip& chip, const std::vector<std::pair<int64_t, Instruction>>& transfers) {
  std::vector<int64_t> result(transfers.size(), -1);
  TransferTimeline timeline(chip, TransferTimeline::standard_service(chip));
  timeline.on_done = [&](const TransferRecord& record) {
    result[static_cast<size_t>(record.id)] = record.done;
  };
  for (const auto& [cycle, instruction] : transfers) {
    TransferRequest request;
    request.mv = instruction;
    timeline.issue(request, transfer_parts(instruction, chip), cycle);
  }
  timeline.advance(1e9);
  EXPECT_EQ(timeline.next_event(), TransferTimeline::kNever);
  return result;
}

TEST(TransferTimeline, ALoneTransferTakesTheTimeOfTheCostTables) {
  const Chip chip = calm_chip();
  for (const int64_t lw : {64, 1024, 4096, 65536}) {
    for (const Instruction& instruction :
         {mv(lw, at(Space::kPdm, 0, 0), at(Space::kDram, 0, 0)),
          mv(lw, at(Space::kDram, 0, 1), at(Space::kPdm, 0, 3)),
          mv(lw % 32768, at(Space::kPdm, 0, 2), at(Space::kL2bm, 0, 2, 1))}) {
      if (instruction.size_lw == 0) continue;
      EXPECT_EQ(done(chip, {{100, instruction}})[0], 100 + transfer_cycles(instruction, chip)) << lw;
    }
  }
}

TEST(TransferTimeline, TheExampleOfTheHeader) {
  const Chip chip = calm_chip();
  EXPECT_EQ(done(chip, {{0, mv(1024, at(Space::kPdm, 0, 0), at(Space::kDram, 0, 0))},
                        {0, mv(256, at(Space::kPdm, 4096, 0), at(Space::kL2bm, 0, 0, 0))}}),
            (std::vector<int64_t>{128, 144}));
}

TEST(TransferTimeline, PriorityGoesBeforeOrder) {
  const Chip chip = calm_chip();
  const Operand pdm = at(Space::kPdm, 0, 0);
  // The second one, more urgent, is ready at 80; it takes the port at once, the first one goes on afterwards.
  EXPECT_EQ(done(chip, {{0, mv(4096, pdm, at(Space::kDram, 0, 0))},
                        {0, mv(1024, pdm, at(Space::kL2bm, 0, 0, 0), 0, 3)}}),
            (std::vector<int64_t>{64 + 256 + 64, 80 + 64}));
  EXPECT_EQ(
      done(chip, {{0, mv(4096, pdm, at(Space::kDram, 0, 0))}, {0, mv(1024, pdm, at(Space::kL2bm, 0, 0, 0))}}),
      (std::vector<int64_t>{64 + 256, 64 + 256 + 64}));
}

TEST(TransferTimeline, WhatASlowTransferLeavesOthersUse) {
  Chip chip = calm_chip();
  chip.transfer.l2bm_mv_lw_per_cycle = 4;
  const Operand pdm = at(Space::kPdm, 0, 0);
  // 4 LW per cycle to the L2BM leave 12 of the PDM's 16, from 80 on; the first ends at 64 + 256.
  EXPECT_EQ(done(chip, {{0, mv(1024, pdm, at(Space::kL2bm, 0, 0, 0))},
                        {0, mv(1024, pdm, at(Space::kDram, 0, 0))}})[1],
            80 + 86);
}

TEST(TransferTimeline, RefreshStopsTheDram) {
  const Chip chip = find_chip("mncore2");  // 3900 ns = 2925 cycles, 280 ns = 210 cycles
  const Instruction transfer = mv(1024, at(Space::kDram, 0, 0), at(Space::kPdm, 0, 0));
  EXPECT_EQ(done(chip, {{2000, transfer}})[0], 2000 + 128);
  EXPECT_EQ(done(chip, {{2925 - 64 - 32, transfer}})[0], 2925 + 210 + 32);
  EXPECT_EQ(done(chip, {{2925, mv(1024, at(Space::kPdm, 0, 0), at(Space::kL2bm, 0, 0, 0))}})[0], 2925 + 128);
}

TEST(TransferTimeline, SlotsAndTags) {
  const Chip chip = calm_chip();
  TransferTimeline timeline(chip, TransferTimeline::standard_service(chip));
  const Instruction transfer = mv(64, at(Space::kPdm, 0, 0), at(Space::kDram, 0, 0), 5);
  const auto parts = transfer_parts(transfer, chip);
  TransferRequest request;
  request.mv = transfer;
  for (int64_t k = 0; k < chip.transfer.max_in_flight; ++k) {
    EXPECT_TRUE(timeline.has_slot(parts));
    timeline.issue(request, parts, 0);
  }
  EXPECT_FALSE(timeline.has_slot(parts));
  EXPECT_TRUE(timeline.has_slot(transfer_parts(mv(64, at(Space::kPdm, 0, 1), at(Space::kDram, 0, 1)), chip)));
  EXPECT_EQ(timeline.in_flight(5), chip.transfer.max_in_flight);
  timeline.advance(68);
  EXPECT_TRUE(timeline.has_slot(parts));
  EXPECT_EQ(timeline.last_done(5), 68);
  EXPECT_EQ(timeline.in_flight(5), chip.transfer.max_in_flight - 1);
  timeline.advance(1e6);
  EXPECT_EQ(timeline.last_done(5), 16 * (chip.transfer.max_in_flight - 1) + 68);  // a start per 4 steps
  EXPECT_EQ(timeline.in_flight(5), 0);
}

TEST(InstructionFeed, AFastLinkIsNeverWaitedFor) {
  const Chip chip = find_chip("mncore2");
  InstructionFeed feed(chip);
  EXPECT_EQ(feed.take_steps(0, 100000), 4 * 99999);
  EXPECT_EQ(feed.take_steps(400000, 1000000), 400000 + 4 * 999999);
}

TEST(InstructionFeed, ASlowLinkSetsThePace) {
  Chip chip = find_chip("mncore2");
  chip.host_link.bytes_per_second = kInstructionBytes * chip.clock_hz / 10;  // a word per 10 cycles
  InstructionFeed feed(chip);
  EXPECT_EQ(feed.take_steps(0, 11), 100);
  // The link goes on while the sequencer waits.
  EXPECT_EQ(feed.take_steps(104, 1), 110);
  EXPECT_EQ(feed.take_steps(1000, 5), 1016);
  chip.host_link.instruction_buffer_steps = 4;
  InstructionFeed small(chip);
  EXPECT_EQ(small.take_steps(1000, 1), 1000);
  // Three more words were waiting; the buffer was full, so the link sends the next one from 1000 on.
  EXPECT_EQ(small.take_steps(1004, 3), 1012);
  EXPECT_EQ(small.take_steps(1016, 1), 1016);
  EXPECT_EQ(small.take_steps(1020, 1), 1020);
}

TEST(Sequencer, TheExampleOfTheHeader) {
  const Chip chip = find_chip("mncore2");
  Program program;
  Nop wait;
  wait.wait_tag = 1;
  program.statements = {{Mv{mv(1024, at(Space::kPdm, 0, 0), at(Space::kDram, 0, 0), 1)}, 1},
                        {Nop{10, 0}, 2},
                        {wait, 3},
                        {Nop{}, 4}};
  const CycleCauses causes = predict_cycles(program, chip);
  EXPECT_EQ(causes.steps, 48);
  EXPECT_EQ(causes.host_link, 2);
  EXPECT_EQ(causes.wait, 86);
  EXPECT_EQ(causes.total(), 136);
}

TEST(Sequencer, LoopsOfStepsArePredictedInNoTime) {
  const Chip chip = find_chip("mncore2");
  Program program;
  Loop inner{int64_t{1} << 20, {{Nop{}, 1}}};
  program.statements = {{Loop{int64_t{1} << 20, {{inner, 1}}}, 1}};
  EXPECT_EQ(predict_cycles(program, chip).total(), int64_t{4} << 40);
}

}  // namespace
}  // namespace kodama::isa
