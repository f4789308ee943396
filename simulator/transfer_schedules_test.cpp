#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "assembler/assembler.h"
#include "isa/sequencer.h"
#include "isa/transfer_timeline.h"
#include "simulator/timing/chip_timing.h"

/// Schedules of transfers, computed by hand from configs/mncore2.yaml and section 6.3 of the ISA page, never
/// from the cost tables. The figures that they use:
///
///     64        cycles of start-up
///     32        cycles per group crossed
///     16        cycles from start to start; also the LW per cycle of a PDM port, an L2BM port, a path
///     256 in 15 LW of a DRAM and cycles: 64 LW 3.75, 1024 LW 60
///     256       LW of a row; the next one is in the next of 16 banks
///     22.5      cycles of a row miss, from the last use of its bank on
///     7.5       cycles from reading to writing or back
///     2925, 210 cycles from refresh to refresh, and of a refresh
///
/// A transfer is done at the next whole cycle. Chunks are of 1024 LW of the wide side.
namespace kodama::simulator {
namespace {

/// Words of instructions are there when they are wanted, so that nop/<n> is 4n cycles and an MV none.
isa::Chip refreshed_chip(const std::string& name = "mncore2") {
  isa::Chip chip = isa::find_chip(name);
  chip.host_link.bytes_per_second = 1e18;
  return chip;
}
isa::Chip calm_chip(const std::string& name = "mncore2") {
  isa::Chip chip = refreshed_chip(name);
  chip.transfer.dram_refresh_ns = 0;
  return chip;
}

struct Schedule {
  std::string text;            ///< a program; its last statement is a transfer
  std::vector<int64_t> done;   ///< per transfer, in order of the program
  int64_t held = 0;            ///< cycles for which transfers stood at full groups
  std::vector<int64_t> dar{};  ///< addresses of blocks of `$di`, the same in all groups; empty: unknown
};

/// What the SystemC model and the timeline alone make of a program.
void expect_schedule(const isa::Chip& chip, const Schedule& schedule) {
  SCOPED_TRACE(schedule.text);
  const isa::Program program = assembler::assemble(schedule.text, "schedule.vsm", chip);
  std::vector<isa::TransferRecord> records(schedule.done.size());
  ChipTiming timing(chip);
  timing.begin();
  timing.on_transfer(
      [&](const isa::TransferRecord& record) { records.at(static_cast<size_t>(record.id)) = record; });
  isa::CycleCauses causes;
  {
    const ChipTiming::Turn turn(timing);
    isa::Sequencer& sequencer = timing.sequencer();
    for (const isa::Statement& statement : program.statements) {
      if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) {
        isa::TransferRequest request;
        request.mv = mv->instruction;
        for (int g = 0; g < chip.groups && !schedule.dar.empty(); ++g) request.blocks[g] = schedule.dar;
        sequencer.mv(std::move(request));
        continue;
      }
      const auto& nop = std::get<isa::Nop>(statement.kind);
      if (nop.wait_tag != 0) sequencer.wait(nop.wait_tag);
      sequencer.steps(nop.count);
    }
    sequencer.finish();
    causes = sequencer.causes();
  }
  std::vector<int64_t> done;
  for (const isa::TransferRecord& record : records) done.push_back(record.done);
  EXPECT_EQ(done, schedule.done);
  EXPECT_EQ(causes.mv_queue, schedule.held);
  EXPECT_EQ(causes.total(), std::ranges::max(schedule.done));
  if (schedule.dar.empty()) {
    EXPECT_EQ(isa::predict_cycles(program, chip), causes);
  }

  std::vector<int64_t> alone(records.size(), -1);
  isa::TransferTimeline timeline(chip, isa::TransferTimeline::standard_service(chip));
  timeline.on_done = [&](const isa::TransferRecord& record) {
    alone.at(static_cast<size_t>(record.id)) = record.done;
  };
  for (const isa::TransferRecord& record : records) {
    timeline.advance(static_cast<double>(record.issued));
    timeline.issue(record.request, record.parts, record.issued);
  }
  timeline.advance(1e9);
  EXPECT_EQ(alone, schedule.done);
}
void expect_schedules(const isa::Chip& chip, const std::vector<Schedule>& schedules) {
  for (const Schedule& schedule : schedules) expect_schedule(chip, schedule);
}

/// `text` so many times.
std::string times(int count, const std::string& text) {
  std::string result;
  for (int k = 0; k < count; ++k) result += text;
  return result;
}

TEST(TransferSchedules, MvpAlone) {
  const std::vector<Schedule> schedules = {
      // 64 + 1024 / 16; the DRAM needs only 60 cycles.
      {"mvp/n1024 $p0@0 $d0@0\n", {64 + 64}},
      {"mvp/n1024 $d0@2 $p0@2\n", {64 + 64}},
      {"mvp/n1024 $p0@1 $lc0@1.1\n", {64 + 64}},
      {"mvp/n1024 $lc0@3.0 $p0@3\n", {64 + 64}},
      {"mvp/n4096 $lc0@0.1 $d0@0\n", {64 + 256}},
      {"mvp/n64 $d0@0 $lc0@0.0\n", {64 + 4}},
      // A whole chunk and 64 LW; 256 chunks.
      {"mvp/n1088 $p0@0 $d0@0\n", {64 + 68}},
      {"mvp/n262144 $p0@0 $d0@0\n", {64 + 16384}},
      // Both ends are ports of their own: reading and writing of a PDM, of an L2BM.
      {"mvp/n1024 $p0@0 $p4096@0\n", {64 + 64}},
      {"mvp/n1024 $lc0@0.0 $lc4096@0.1\n", {64 + 64}},
      {"mvp/n1024 $lc0@0.0 $lc4096@0.0\n", {64 + 64}},
      // One DRAM reads 60 cycles, turns, writes 60: 127.5.
      {"mvp/n1024 $d0@0 $d65536@0\n", {64 + 128}},
      // Four chunks, each reads and writes: 8 * 60, 7 turns: 532.5.
      {"mvp/n4096 $d0@0 $d65536@0\n", {64 + 533}},
      // Over one, two, three groups; the path takes as long as a PDM port.
      {"mvp/n1024 $d0@0 $d0@1\n", {64 + 32 + 64}},
      {"mvp/n1024 $lc0@2.1 $d0@1\n", {64 + 32 + 64}},
      {"mvp/n1024 $p0@3 $p0@1\n", {64 + 64 + 64}},
      {"mvp/n1024 $p0@0 $lc0@3.0\n", {64 + 96 + 64}},
      // Without groups: each inside itself, beside the others.
      {"mvp/n2048 $p0 $d0\n", {64 + 128}},
      {"mvp/n2048 $d0 $lc0@.1\n", {64 + 128}},
      {"mvp/n1024 $d0 $d65536\n", {64 + 128}},
  };
  expect_schedules(calm_chip(), schedules);
}

TEST(TransferSchedules, TheOtherKindsAlone) {
  const std::vector<Schedule> schedules = {
      // To all L2BMs, 1024 LW each, over at most 3 groups from group 0, 2 from group 1.
      {"mvb/n1024 $p0@0 $lc0\n", {64 + 96 + 64}},
      {"mvb/n1024 $d0@1 $lc0\n", {64 + 64 + 64}},
      {"mvb/n64 $p0@2 $lc0\n", {64 + 64 + 4}},
      // Groups by themselves.
      {"mvb2/n1024 $d0 $lc0\n", {64 + 64}},
      {"mvb2/n64 $d0 $lc0\n", {64 + 4}},
      // A DRAM gives a quarter, an L2BM receives all.
      {"mvb4/n1024 $d0 $lc0\n", {64 + 96 + 64}},
      {"mvb4/n64 $d0 $lc0\n", {64 + 96 + 4}},
      // The PDM moves all: 4096 / 16. A DRAM has 1024 LW, 60 cycles; a path 1024, 64.
      {"mvd/n4096 $p0@0 $d0\n", {64 + 96 + 256}},
      {"mvd/n4096 $d0 $p0@1\n", {64 + 64 + 256}},
      {"mvd/n64 $p0@3 $d0\n", {64 + 96 + 4}},
      // An L2BM has 512 LW, 32 cycles.
      {"mvd/n4096 $p0@0 $lc0\n", {64 + 96 + 256}},
      {"mvd/n4096 $lc0 $p0@2\n", {64 + 64 + 256}},
      // Four units of 16 LW: those of the L2Bs of groups 0 and 1. From group 3 that is 3 and 2 groups.
      {"mvd/n64 $p0@0 $lc0\n", {64 + 32 + 4}},
      {"mvd/n64 $lc0 $p0@3\n", {64 + 96 + 4}},
      // From group 1 that is one.
      {"mvd/n64 $lc0 $p0@1\n", {64 + 32 + 4}},
      // Every L2BM is read, 1024 LW, and as much goes over each path.
      {"mvrdfadd/n1024 $lc0 $p0@0\n", {64 + 96 + 64}},
      {"mvrdfadd/n1024 $lc0 $d0@1\n", {64 + 64 + 64}},
      {"mvrliadd/n1024 $lc0 $d0\n", {64 + 96 + 64}},  // to group 0
      {"mvr2dfadd/n1024 $lc0 $d0\n", {64 + 64}},
      // An L2BM of each group is read; a DRAM gets 256 LW.
      {"mvr4dfadd/n1024 $lc0 $d0\n", {64 + 96 + 64}},
      {"mvnop\n", {64}},
  };
  expect_schedules(calm_chip(), schedules);
  const std::vector<Schedule> of_tiny = {
      // Two groups: one is crossed.
      {"mvb/n1024 $p0@0 $lc0\n", {64 + 32 + 64}},
      {"mvb4/n1024 $d0 $lc0\n", {64 + 32 + 64}},
      {"mvd/n4096 $p0@1 $d0\n", {64 + 32 + 256}},
      {"mvr4dfadd/n1024 $lc0 $d0\n", {64 + 32 + 64}},
  };
  expect_schedules(calm_chip("tiny"), of_tiny);
}

TEST(TransferSchedules, ThroughTheDar) {
  std::vector<int64_t> neighbours, banks;
  for (int k = 0; k < 64; ++k) neighbours.push_back(16 * k);
  for (int k = 0; k < 32; ++k) banks.push_back(256 * k);
  const std::vector<Schedule> schedules = {
      // Blocks of 16 LW, 0.9375 cycles. Unknown ones are rows of one bank: 64 blocks, 63 misses: 60 + 1417.5.
      {"mvp/n1024 $di0@0 $p0@0\n", {64 + 1478}},
      {"mvp/n1024 $p0@0 $di0@0\n", {64 + 1478}},
      // Blocks of 256 LW: 4 blocks, 3 misses: 60 + 67.5.
      {"mvp/n1024nd16 $di0@0 $p0@0\n", {64 + 128}},
      // 16 blocks in each group: 15 + 15 * 22.5 = 352.5.
      {"mvb2/n256 $di0 $lc0\n", {64 + 353}},
      // A DRAM gives 4 blocks: 3.75 + 67.5 = 71.25.
      {"mvb4/n256 $di0 $lc0\n", {64 + 96 + 72}},
      // Blocks one behind the other are a stream; the PDM takes 64 cycles.
      {"mvp/n1024 $di0@0 $p0@0\n", {64 + 64}, 0, neighbours},
      // A block in each of 16 banks: no miss shows, and the PDM takes 16 cycles.
      {"mvp/n256 $di0@0 $p0@0\n", {64 + 16}, 0, banks},
      // Then the next row of each. The first 16 blocks end after 15 cycles, that of bank 0 after 0.9375.
      // Its next row is open at 23.4375, those of the other banks each 0.9375 later: until 38.4375.
      {"mvp/n512 $di0@0 $p0@0\n", {64 + 39}, 0, banks},
  };
  expect_schedules(calm_chip(), schedules);
}

TEST(TransferSchedules, RowsAndTurnsOfADram) {
  const std::vector<Schedule> schedules = {
      // The first reads from 64 until 67.75. The second could move from 80 on: the same row,
      // another bank.
      {"mvp/n64 $d0@0 $p0@0\n mvp/n64 $d64@0 $p64@0\n", {68, 80 + 4}},
      {"mvp/n64 $d0@0 $p0@0\n mvp/n64 $d256@0 $p64@0\n", {68, 80 + 4}},
      // Another row of the bank: open at 67.75 + 22.5 = 90.25, done 3.75 later.
      {"mvp/n64 $d0@0 $p0@0\n mvp/n64 $d4096@0 $p64@0\n", {68, 94}},
      // The same, later: nothing is left of the miss at 44 + 64.
      {"mvp/n64 $d0@0 $p0@0\n nop/11\n mvp/n64 $d4096@0 $p64@0\n", {68, 108 + 4}},
      // The next bank's row is opened while the first 64 LW come, from 68 - 3.75 on.
      {"mvp/n128 $d192@0 $p0@0\n", {64 + 8}},
      // A turn: 7.5 + 3.75 from 80 on.
      {"mvp/n64 $d0@0 $p0@0\n mvp/n64 $p64@0 $d256@0\n", {68, 92}},
      {"mvp/n64 $p0@0 $d0@0\n mvp/n64 $d256@0 $p64@0\n", {68, 92}},
      // A miss and a turn: the turn ends at 87.5, the row is open at 90.25.
      {"mvp/n64 $d0@0 $p0@0\n mvp/n64 $p64@0 $d4096@0\n", {68, 94}},
      // A copy from row to row of one bank: read until 67.75, row open at 90.25, 3.75.
      {"mvp/n64 $d0@0 $d4096@0\n", {94}},
      // To another bank: 3.75 + 7.5 + 3.75.
      {"mvp/n64 $d0@0 $d256@0\n", {64 + 15}},
      // Two groups have two DRAMs.
      {"mvp/n64 $d0@0 $p0@0\n mvp/n64 $p64@1 $d4096@1\n", {68, 80 + 4}},
  };
  expect_schedules(calm_chip(), schedules);
}

TEST(TransferSchedules, Refreshes) {
  const std::vector<Schedule> schedules = {
      // 2860 to 2924: before the first one.
      {"nop/699\n mvp/n1024 $d0@0 $p0@0\n", {2796 + 128}},
      // From 2864 on: 61 cycles before the refresh, and 3 behind it.
      {"nop/700\n mvp/n1024 $d0@0 $p0@0\n", {3135 + 3}},
      // The second chunk begins at 3138. Its rows are opened again: 3135 + 22.5 = 3157.5, and 60.
      {"nop/700\n mvp/n2048 $d0@0 $p0@0\n", {3218}},
      // Ready at 3024, in the refresh, whose end opens the row: 3157.5 + 60.
      {"nop/740\n mvp/n1024 $p0@0 $d0@0\n", {3218}},
      // Ready when it is over, at 3136; the row is open at 3157.5.
      {"nop/768\n mvp/n1024 $p0@0 $d0@0\n", {3218}},
      // Ready at 3156: 1.5 + 60 is less than the PDM's 64.
      {"nop/773\n mvp/n1024 $p0@0 $d0@0\n", {3092 + 64 + 64}},
      // The second one's row was open until the refresh: 3157.5 + 3.75.
      {"mvp/n64 $d0@0 $p0@0\n nop/768\n mvp/n64 $d0@0 $p0@0\n", {68, 3162}},
      // Whoever leaves the DRAMs alone doesn't notice.
      {"nop/731\n mvp/n1024 $p0@0 $lc0@0.0\n", {2924 + 128}},
      // All groups refresh together: 61 cycles before, 3 behind.
      {"nop/700\n mvp/n1024 $d0 $p0\n", {3138}},
      // 65536 LW: 4096 cycles. Chunk 45 is cut at 2925, 19 cycles before its end, which is then
      // 3154. The rows of the next one are open at 3157.5; 3.5 + 60 is less than the PDM's 64.
      {"mvp/n65536 $d0@0 $p0@0\n", {64 + 4096 + 210}},
      // While the first one's DRAM is away, the second one has the PDM's port: 2925 until 2989.
      // The first one's second chunk begins at 3138 and takes 19.5 + 60; then two of 64: 3345.5.
      {"nop/700\n mvp/n4096 $p0@0 $d0@0\n mvp/n1024 $p8192@0 $lc0@0.0\n", {3346, 2989}},
  };
  expect_schedules(refreshed_chip(), schedules);
}

TEST(TransferSchedules, MeetingAtOnePort) {
  const std::vector<Schedule> schedules = {
      // The PDM's read port: one after the other.
      {"mvp/n1024 $p0@0 $d0@0\n mvp/n256 $p4096@0 $lc0@0.0\n", {128, 144}},
      {"mvp/n1024 $p0@0 $d0@0\n mvp/n1024 $p4096@0 $lc0@0.0\n mvp/n1024 $p8192@0 $lc0@0.1\n",
       {128, 192, 256}},
      // Its write port is another one: the second one is only 16 cycles behind.
      {"mvp/n1024 $p0@0 $d0@0\n mvp/n1024 $lc0@0.0 $p4096@0\n", {128, 144}},
      // An L2BM's write port.
      {"mvp/n1024 $p0@0 $lc0@0.0\n mvp/n1024 $d0@0 $lc4096@0.0\n", {128, 192}},
      {"mvp/n1024 $p0@0 $lc0@0.0\n mvp/n1024 $d0@0 $lc4096@0.1\n", {128, 144}},
      // The first one has the DRAM for 60 of 64 cycles. The second one gets 4 of 64 from 80 to
      // 128: 3 of its 60 cycles. The other 57 / 60 it moves alone: 60.8 cycles.
      {"mvp/n1024 $d0@0 $p0@0\n mvp/n1024 $d1024@0 $lc0@0.0\n", {128, 189}},
      // The same with a turn: 67.5 cycles, 3 of them before 128, 64.5 behind.
      {"mvp/n1024 $d0@0 $lc0@0.0\n mvp/n1024 $p0@0 $d1024@0\n", {128, 193}},
      // One path. The first one moves from 96 on, the second one could at 112.
      {"mvp/n1024 $p0@0 $p0@1\n mvp/n1024 $d0@0 $d0@1\n", {160, 224}},
      // The other way, and to another group, are other paths.
      {"mvp/n1024 $p0@0 $p0@1\n mvp/n1024 $p4096@1 $p4096@0\n", {160, 16 + 160}},
      {"mvp/n1024 $p0@0 $p0@1\n mvp/n1024 $d0@0 $d0@2\n", {160, 16 + 192}},
      // A copy inside the DRAM needs 127.5 of it, all until 191.5; the second one 7.5 (it reads) + 60.
      {"mvp/n1024 $d0@0 $d65536@0\n mvp/n1024 $d2048@0 $p0@0\n", {192, 259}},
  };
  expect_schedules(calm_chip(), schedules);
}

TEST(TransferSchedules, Priorities) {
  const std::vector<Schedule> schedules = {
      // The urgent one takes the port at 80, for 64 cycles.
      {"mvp/n4096 $p0@0 $d0@0\n mvp/n1024p3 $p8192@0 $lc0@0.0\n", {64 + 256 + 64, 80 + 64}},
      {"mvp/n4096p3 $p0@0 $d0@0\n mvp/n1024 $p8192@0 $lc0@0.0\n", {64 + 256, 64 + 256 + 64}},
      // Equal ones: in order.
      {"mvp/n4096p2 $p0@0 $d0@0\n mvp/n1024p2 $p8192@0 $lc0@0.0\n", {64 + 256, 64 + 256 + 64}},
      // 64 to 80 the first, 80 to 96 the second, 96 to 160 the third, until 208 the second,
      // until 448 the first.
      {"mvp/n4096 $p0@0 $d0@0\n mvp/n1024p1 $p8192@0 $lc0@0.0\n mvp/n1024p3 $p16384@0 $lc0@0.1\n",
       {448, 208, 160}},
      // The last one overtakes the one that waits, not the one that is as urgent: until 128 the
      // first, 192 the third, 256 the second.
      {"mvp/n1024p2 $p0@0 $d0@0\n mvp/n1024p1 $p8192@0 $lc0@0.0\n mvp/n1024p2 $p16384@0 $lc0@0.1\n",
       {128, 256, 192}},
      // It doesn't start earlier: starts are in order of issue.
      {"mvp/n64 $p0@0 $d0@0\n mvp/n64p3 $p0@1 $d0@1\n", {68, 84}},
      // From 160 on the first one has the DRAM of group 1 for 15 of 64 cycles: 256 LW of each chunk.
      // The second one: a chunk from 80 to 144, a quarter of the next until 160, the rest with 49 of 64
      // cycles of the DRAM, 60 * 64 / 49 = 78.37 per chunk: 160 + 1.75 * 78.37 = 297.14.
      {"mvd/n4096 $p0@0 $d0\n mvp/n3072 $p0@1 $d1024@1\n", {64 + 96 + 256, 298}},
      // Urgent, it takes 192 cycles. Until 272 it leaves mvd 4 of 64, for its 15: 112 / 240 of a chunk.
      // The rest: 8 / 15 of 64 cycles, and three chunks of 64: 272 + 34.13 + 192 = 498.13.
      {"mvd/n4096 $p0@0 $d0\n mvp/n3072p3 $p0@1 $d1024@1\n", {499, 80 + 192}},
  };
  expect_schedules(calm_chip(), schedules);
}

TEST(TransferSchedules, MeetingAtTwoPorts) {
  const std::vector<Schedule> schedules = {
      // The first one meets the second at the PDM, the third at the L2BM; those don't meet.
      {"mvp/n1024 $p0@0 $lc0@0.0\n mvp/n1024 $p4096@0 $lc0@0.1\n mvp/n1024 $d0@0 $lc4096@0.0\n",
       {128, 192, 192}},
      // The second one waits for the PDM, so the third one has the L2BM's port from 96 until 128.
      {"mvp/n1024 $p0@0 $d0@0\n mvp/n1024 $p4096@0 $lc0@0.0\n mvp/n512 $lc0@0.1 $lc4096@0.0\n",
       {128, 192, 128}},
      // Half of it, if it is longer: then the second one goes before.
      {"mvp/n1024 $p0@0 $d0@0\n mvp/n1024 $p4096@0 $lc0@0.0\n mvp/n1024 $lc0@0.1 $lc4096@0.0\n",
       {128, 192, 224}},
      // One after the other at PDM 1's write port. The second one, whose path the first one has,
      // too, goes before the third.
      {"mvp/n1024 $p0@0 $p0@1\n mvp/n1024 $d0@0 $p4096@1\n mvp/n1024 $lc0@1.0 $p8192@1\n", {160, 224, 288}},
      // mvb has every L2BM from 160 to 224. The other one moves from 80 to 144, or is cut at
      // 160, 48 cycles early.
      {"mvb/n1024 $p0@0 $lc0\n mvp/n1024 $d0@3 $lc4096@3.1\n", {224, 144}},
      {"mvb/n1024 $p0@0 $lc0\n mvp/n2048 $d0@3 $lc4096@3.1\n", {224, 272}},
      // mvr reads all L2BMs from 160 to 224. mvd moves from 16 + 64 + 64 on; 240 of its 256
      // cycles come later.
      {"mvrdfadd/n1024 $lc0 $p0@0\n mvd/n4096 $lc4096 $p0@1\n", {224, 464}},
      // Urgent, it leaves 7 of 8 cycles of an L2BM: 64 * 8 / 7 = 73.14.
      {"mvrdfadd/n1024 $lc0 $p0@0\n mvd/n4096p1 $lc4096 $p0@1\n", {160 + 74, 144 + 256}},
  };
  expect_schedules(calm_chip(), schedules);
}

TEST(TransferSchedules, GroupsDontDisturbEachOther) {
  const std::vector<Schedule> schedules = {
      // Only starts are 16 cycles apart.
      {"mvp/n1024 $p0@0 $d0@0\n mvp/n1024 $p0@1 $d0@1\n mvp/n1024 $p0@2 $d0@2\n mvp/n1024 $p0@3 $d0@3\n",
       {128, 144, 160, 176}},
      // A transfer of all groups is as late as the latest: group 2's PDM port is taken until 128.
      {"mvp/n1024 $p0@2 $d0@2\n mvp/n1024 $p8192 $lc0\n", {128, 192}},
      {"mvp/n1024 $p0 $d0\n mvp/n1024 $p8192@2 $lc0@2.0\n mvp/n1024 $lc4096@1.0 $p8192@1\n", {128, 192, 160}},
      // From start to start 16 cycles, also if steps stand between; later ones start when they issue.
      {"mvp/n64 $p0@0 $d0@0\n nop/3\n mvp/n64 $p0@1 $d0@1\n", {68, 16 + 68}},
      {"mvp/n64 $p0@0 $d0@0\n nop/4\n mvp/n64 $p0@1 $d0@1\n", {68, 16 + 68}},
      {"mvp/n64 $p0@0 $d0@0\n nop/5\n mvp/n64 $p0@1 $d0@1\n", {68, 20 + 68}},
      // The step of the wait begins at 128.
      {"mvp/n1024i01 $p0@0 $d0@0\n nop; wait i01\n mvp/n1024 $p0@0 $lc0@0.0\n", {128, 132 + 128}},
      // Of two with a tag, the wait is for both: 144.
      {"mvp/n1024i01 $p0@0 $d0@0\n mvp/n1024i01 $p0@1 $d0@1\n nop; wait i01\n mvp/n64 $p0@0 $lc0@0.0\n",
       {128, 144, 148 + 68}},
  };
  expect_schedules(calm_chip(), schedules);
}

TEST(TransferSchedules, FullGroups) {
  // The first 16 are done one after the other; then the others.
  const auto done = [](int64_t first, int64_t apart, std::initializer_list<int64_t> more) {
    std::vector<int64_t> result;
    for (int k = 0; k < 16; ++k) result.push_back(first + apart * k);
    result.insert(result.end(), more);
    return result;
  };
  const std::string small = "mvp/n64 $p0@0 $d0@0\n";       // 4 cycles: starts are 16 apart
  const std::string large = "mvp/n4096 $p0@0 $lc0@0.0\n";  // 256 cycles at the PDM
  const std::string other = "mvp/n64 $p0@1 $d0@1\n";
  const std::vector<Schedule> schedules = {
      // The 17th issues at 68, when the first one is done, and starts behind the 16th, at 256.
      {times(17, small), done(68, 16, {256 + 68}), 68},
      // The 18th issues when the second one is done.
      {times(18, small), done(68, 16, {256 + 68, 272 + 68}), 84},
      // Another group has room, but not before its turn.
      {times(16, small) + other, done(68, 16, {256 + 68}), 0},
      {times(17, small) + other, done(68, 16, {256 + 68, 272 + 68}), 68},
      // Issues and starts at 320; the port is free at 64 + 16 * 256.
      {times(17, large), done(320, 256, {4160 + 256}), 320},
      // Steps in between: 200 cycles, or 400, when there is room.
      {times(16, large) + "nop/50\n" + large, done(320, 256, {4160 + 256}), 120},
      {times(16, large) + "nop/100\n" + large, done(320, 256, {4160 + 256}), 0},
      // From group 0 to 1: 64 + 32 + 4. Both are full then, group 2 isn't.
      {times(16, "mvp/n64 $p0@0 $p0@1\n") + other, done(100, 16, {256 + 68}), 100},
      {times(16, "mvp/n64 $p0@0 $p0@1\n") + "mvp/n64 $p0@2 $d0@2\n", done(100, 16, {256 + 68}), 0},
      // mvb has all groups: 64 + 96 + 4.
      {times(16, "mvb/n64 $p0@0 $lc0\n") + "mvp/n64 $p0@3 $d0@3\n", done(164, 16, {256 + 68}), 164},
      // 8 and 8.
      {times(8, small + other) + "mvp/n64 $p0@0 $p0@1\n", done(68, 16, {256 + 100}), 0},
      // The urgent one is held like any other. It issues at 320; 64 later it takes the PDM's port.
      {times(16, large) + "mvp/n1024p3 $p8192@0 $lc8192@0.1\n",
       [&] {
         std::vector<int64_t> all = done(320, 256, {320 + 64 + 64});
         for (size_t k = 1; k < 16; ++k) all[k] += 64;
         return all;
       }(),
       320},
  };
  expect_schedules(calm_chip(), schedules);
}

}  // namespace
}  // namespace kodama::simulator
