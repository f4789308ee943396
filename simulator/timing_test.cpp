#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <random>
#include <thread>

#include "assembler/assembler.h"
#include "assembler/program_file.h"
#include "isa/costs.h"
#include "isa/file.h"
#include "isa/sequencer.h"
#include "simulator/machine.h"
#include "simulator/timing/chip_timing.h"

namespace kodama::simulator {
namespace {

isa::Chip chip_with_small_memories(const std::string& name = "mncore2") {
  isa::Chip chip = isa::find_chip(name);
  chip.memory.dram_lw = 1 << 20;
  return chip;
}

/// Random lines: steps, nops, and, if asked for, transfers of every mode with waits.
std::string random_text(std::mt19937& random, int lines, bool transfers) {
  const auto pick = [&](int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); };
  std::string text;
  std::vector<int> open;
  for (int line = 0; line < lines; ++line) {
    const int kind = pick(transfers ? 10 : 4);
    const int64_t lw = 64 * (1 + (pick(3) == 0 ? pick(60) : pick(6)));
    const int tag = 1 + pick(63);
    const std::string options =
        fmt::format("n{}i{:02x}{}", lw, tag, pick(3) == 0 ? fmt::format("p{}", pick(4)) : "");
    const auto any_end = [&] {
      const int group = pick(2);
      switch (pick(3)) {
        case 0:
          return fmt::format("$p{}@{}", 64 * pick(100), group);
        case 1:
          return fmt::format("$d{}@{}", 64 * pick(10000), group);
        default:
          return fmt::format("$lc{}@{}.{}", 64 * pick(100), group, pick(2));
      }
    };
    switch (kind) {
      case 0:
        text += fmt::format("nop/{}\n", 1 + pick(200));
        break;
      case 1:
        text += "lpassa $lm0v $ln0v\n";
        break;
      case 2:
        text += "linc $lr0v $lr8v; l1bmd $lb0 $lm8v\n";
        break;
      case 3:
        text += "nop\n";
        break;
      case 4:
      case 5:
        if (open.empty()) break;
        text += fmt::format("nop; wait i{:02x}\n",
                            open[static_cast<size_t>(pick(static_cast<int>(open.size())))]);
        break;
      default:
        switch (pick(7)) {
          case 0:
            text += fmt::format("mvb/{} $p0@0 $lc0\n", options);
            break;
          case 1:
            text += fmt::format("mvb2/{} $d{} $lc0\n", options, 64 * pick(1000));
            break;
          case 2:
            text += fmt::format("mvd/{} $p0@0 $d{}\n", options, 64 * pick(1000));
            break;
          case 3:
            text += fmt::format("mvrdfadd/{} $lc0 $d{}@1\n", options, 64 * pick(1000));
            break;
          case 4:
            text += fmt::format("mvd/{} $lc0 $p0@1\n", options);
            break;
          default:
            text += fmt::format("mvp/{} {} {}\n", options, any_end(), any_end());
            break;
        }
        open.push_back(tag);
        break;
    }
  }
  return text;
}

isa::CycleCauses simulated(const isa::Program& program, const isa::Chip& chip, int threads = 1) {
  MachineOptions options;
  options.threads = threads;
  Machine machine(chip, options);
  return machine.run(program).causes;
}

TEST(Timing, StraightLineProgramsTakeThePredictedTimeExactly) {
  std::mt19937 random(1);
  isa::Chip chip = chip_with_small_memories("tiny");
  for (const double rate : {25e9, 5e9, 0.9e9}) {
    chip.host_link.bytes_per_second = rate;
    for (const int64_t buffer : {65536, 7}) {
      chip.host_link.instruction_buffer_steps = buffer;
      for (int k = 0; k < 20; ++k) {
        const isa::Program program =
            assembler::assemble(random_text(random, 1 + k * 5, false), "random.vsm", chip);
        const isa::CycleCauses causes = simulated(program, chip);
        EXPECT_EQ(causes, isa::predict_cycles(program, chip)) << rate << " " << buffer << " " << k;
        EXPECT_EQ(causes.steps, 4 * isa::count(program).steps);
        if (rate > 6.94e9) {
          EXPECT_EQ(causes.total(), causes.steps);
        }
      }
    }
  }
}

TEST(Timing, ProgramsWithTransfersTakeThePredictedTime) {
  std::mt19937 random(2);
  for (const char* name : {"tiny", "mncore2", "mncore2,transfer.dram_model=banks"}) {
    const isa::Chip chip = chip_with_small_memories(name);
    for (int k = 0; k < 60; ++k) {
      const isa::Program program =
          assembler::assemble(random_text(random, 20 + k * 3, true), "random.vsm", chip);
      const isa::CycleCauses causes = simulated(program, chip);
      const isa::CycleCauses predicted = isa::predict_cycles(program, chip);
      EXPECT_NEAR(static_cast<double>(causes.total()), static_cast<double>(predicted.total()),
                  0.02 * static_cast<double>(causes.total()));
      // One model: not only near.
      EXPECT_EQ(causes, predicted) << name << " " << k;
    }
  }
}

TEST(Timing, IsAFunctionOfProgramAndChipAlone) {
  std::mt19937 random(3);
  const isa::Chip chip = chip_with_small_memories("tiny");
  const isa::Program program = assembler::assemble(random_text(random, 300, true), "random.vsm", chip);
  const isa::CycleCauses once = simulated(program, chip);
  EXPECT_EQ(simulated(program, chip), once);
  EXPECT_EQ(simulated(program, chip, 2), once);
  EXPECT_GT(once.wait, 0);
}

TEST(Timing, AFullGroupHoldsTheNextTransfer) {
  const isa::Chip chip = chip_with_small_memories();
  std::string text;
  for (int k = 0; k < 20; ++k) text += "mvp/n4096 $p0@0 $d0@0\n";
  const isa::CycleCauses causes = simulated(assembler::assemble(text, "full.vsm", chip), chip);
  EXPECT_GT(causes.mv_queue, 0);
  // 20 * 4096 LW at 16 per cycle, a refresh of 210 cycles every 2925, and a row to be opened behind it: 22.5
  // cycles, of which 4 don't show, because the DRAM is faster than the PDM: 60 cycles of 64 per chunk.
  EXPECT_EQ(causes.total(), 64 + 20 * 256 + 210 + 19);
}

TEST(Timing, TheScheduleOnPaper) {
  // docs/timing.md computes it.
  const isa::Chip chip = chip_with_small_memories();
  const isa::CycleCauses causes =
      simulated(assembler::assemble(isa::read_file(isa::source_path("testsuite/timing/overlap.vsm")),
                                    "overlap.vsm", chip),
                chip);
  EXPECT_EQ(causes.steps, 37 * 4);
  EXPECT_EQ(causes.host_link, 3);
  EXPECT_EQ(causes.wait, 109 + 20);
  EXPECT_EQ(causes.drain, 128);
  EXPECT_EQ(causes.total(), 408);
}

// ---- the host, by hand: 25 GB/s are 33.33 bytes per cycle, a transfer shows 750 cycles of latency
// -------------

/// mncore2 without refreshes; 16 LW per cycle between PDM and DRAM, 64 cycles of start-up, 32 per group.
isa::CycleCauses around_nops(const isa::HostWork& host, const std::string& changes = "", int nops = 10) {
  const isa::Chip chip = isa::find_chip("mncore2,transfer.dram_refresh_ns=0" + changes);
  RunOptions options;
  options.host = host;
  Machine machine(chip);
  return machine.run(assembler::assemble(fmt::format("nop/{}\n", nops), "nop.vsm", chip), options).causes;
}
isa::HostTransfer image(std::vector<int64_t> group_lw, std::vector<int> same_as = {}) {
  return {.dram_address = 4096, .group_lw = std::move(group_lw), .same_as = std::move(same_as)};
}

TEST(HostWay, ThroughPdmAndAnMv) {
  // The example of isa/host_work.h.
  isa::HostWork work;
  work.input = {image({4096, 0, 0, 0})};
  EXPECT_EQ(isa::host_input_cycles(work.input, isa::find_chip("mncore2,transfer.dram_refresh_ns=0")), 2055);
  const isa::CycleCauses causes = around_nops(work);
  EXPECT_EQ(causes.host_input, 2055);  // 750 + 32805 / 33.33 = 1734.15, 64 + 256
  EXPECT_EQ(causes.total(), 2055 + 40);
}

TEST(HostWay, ADirectLinkTakesOneTransferAfterTheOther) {
  isa::HostWork work;
  work.input = {image({3125, 0, 0, 0}), image({3125, 3125, 0, 0})};
  work.output = {image({12500, 0, 0, 0})};
  const isa::CycleCauses causes = around_nops(work, ",host_link.way=direct");
  EXPECT_EQ(causes.host_input, 2 * 750 + 750 + 1500);
  EXPECT_EQ(causes.host_output, 750 + 3000);
}

TEST(HostWay, WordsOfSeveralGroupsPassTheLinkOnce) {
  isa::HostWork alike;
  alike.input = {image({4096, 4096, 4096, 4096}, {0, 0, 0, 0})};
  EXPECT_EQ(isa::link_lw(alike.input), 4096);
  // Four MVs leave PDM 0 by one port: 64 + 4 * 256, and the words of three more.
  EXPECT_EQ(around_nops(alike).host_input, 2055 + 3 * 256 + 3);
  isa::HostWork other;
  other.input = {image({4096, 4096, 4096, 4096})};
  // 750 + 4 * 32805 / 33.33 = 4686.6, then the last MV, three groups away: 64 + 96 + 256.
  EXPECT_EQ(around_nops(other).host_input, 4687 + 416);
}

TEST(HostWay, ResultsGoTheOtherWay) {
  isa::HostWork work;
  work.output = {image({4096, 4096, 0, 0})};
  // Both MVs want PDM 0's write port: the second is there at 64 + 2 * 256. The link takes 984.15 for each.
  EXPECT_NEAR(around_nops(work).host_output, std::max(750.0, 320.0) + 2 * 984.15, 2);
}

/// A run of nops, with refreshes of the DRAM switched off.
RunStats run_around(const isa::HostWork& host, const std::string& text) {
  const isa::Chip chip = isa::find_chip("mncore2,transfer.dram_refresh_ns=0");
  RunOptions options;
  options.host = host;
  Machine machine(chip);
  const isa::Program program = assembler::assemble(text, "text.vsm", chip);
  const isa::ProgramCounts counts = isa::count(program);
  options.host.words = counts.steps + counts.mvs;
  isa::plan_places(options.host.next, program, host.output, chip);
  return machine.run(program, options);
}

TEST(HostWay, TheNextProgramsDataComeBesideAProgram) {
  isa::HostWork work;
  work.next = {image({12500, 0, 0, 0})};
  const double words = 37 / 33.3333;
  // The example of isa/host_work.h: behind the words three chunks of 984.15 cycles, then two MVs at PDM's
  // port.
  const auto expected = [&](int steps) { return steps * words + 750 + 3 * 984.15 + 64 + 256 + 16; };
  const RunStats some = run_around(work, "nop/100\n");
  EXPECT_NEAR(static_cast<double>(some.cycles()), expected(100), 2);
  EXPECT_EQ(some.causes.host_input, some.cycles() - 400);
  EXPECT_EQ(some.host.program_over, 400);
  EXPECT_EQ(some.host.next_there, some.cycles());
  // A long program hides all of it.
  const RunStats many = run_around(work, "nop/3000\n");
  EXPECT_EQ(many.cycles(), 12000);
  EXPECT_EQ(many.causes.host_input, 0);
  EXPECT_EQ(many.host.next_there, 12000);
}

TEST(HostWay, ThePlaceOfTheNextDataIsFreeBehindItsLastReader) {
  isa::HostWork work;
  work.next = {image({4096, 0, 0, 0})};
  const auto planned = [&](const std::string& text) {
    const isa::Chip chip = isa::find_chip("mncore2");
    std::vector<isa::HostTransfer> next = work.next;
    isa::plan_places(next, assembler::assemble(text, "text.vsm", chip), work.output, chip);
    return next[0].free_after;
  };
  constexpr int64_t kEnd = isa::HostTransfer::kAtTheEnd;
  EXPECT_EQ(planned("nop/100\n"), 0);
  EXPECT_EQ(
      planned("mvp/n64i01 $d8191@0 $lc0@0.0\nmvp/n64i02 $d8192@0 $lc64@0.0\nnop; wait i02\nnop; wait i01\n"),
      2);
  EXPECT_EQ(planned("mvp/n64i01 $d4032@0 $lc0@0.0\nnop; wait i01\n"), 0);     // ends before it
  EXPECT_EQ(planned("mvp/n64i01 $d4096@1 $lc0@1.0\nnop; wait i01\n"), 0);     // in another group
  EXPECT_EQ(planned("mvp/n64i01 $lc0@0.0 $d4096@0\nnop; wait i01\n"), 1);     // writes
  EXPECT_EQ(planned("mvp/n64i01 $d4096@0 $lc0@0.0\nnop; wait i02\n"), kEnd);  // nobody waits for it
  EXPECT_EQ(planned("mvp/n64 $d4096@0 $lc0@0.0\nnop; wait i02\n"), kEnd);
  work.output = {image({1, 0, 0, 0})};
  EXPECT_EQ(planned("nop/100\n"), kEnd);
  work.output = {image({0, 1, 0, 0})};
  EXPECT_EQ(planned("nop/100\n"), 0);

  // All of 4096 LW have come at 1734 + words, but 2990 steps are over before the program has read the place.
  work.output = {};
  const std::string reads = "mvp/n64i01 $d4096@0 $lc0@0.0\nnop; wait i01\n";
  EXPECT_EQ(run_around(work, reads + "nop/3000\n").causes.host_input, 0);
  EXPECT_EQ(run_around(work, "nop/3000\n" + reads).causes.host_input, 320);
  EXPECT_EQ(run_around(work, "nop/3000\n" + reads + "nop/80\n").causes.host_input, 0);
}

TEST(HostWay, WhatComesBesideAProgramTakesPortsFromItsTransfers) {
  isa::HostWork work;
  work.next = {image({65536, 0, 0, 0})};
  // 100 transfers of 4096 LW from the same DRAM, one after the other, beside 4096 cycles of the host's.
  std::string text;
  for (int k = 0; k < 100; ++k) text += "mvp/n4096i01 $d131072@0 $lc0@0.0\nnop; wait i01\n";
  const RunStats alone = run_around({}, text);
  const RunStats both = run_around(work, text);
  EXPECT_EQ(both.causes.host_input, 0);
  EXPECT_GT(both.causes.wait, alone.causes.wait);
  EXPECT_LT(both.causes.wait, alone.causes.wait + 4096 + 16 * 64);
}

TEST(HostWay, DataThatTheHostGetsTooLateDontHoldARun) {
  isa::HostWork work;
  work.next = {image({4096, 0, 0, 0})};
  work.next_from = 401;
  const RunStats late = run_around(work, "nop/100\n");
  EXPECT_EQ(late.cycles(), 400);
  EXPECT_EQ(late.host.next_there, -1);
  work.next_from = 300;
  const RunStats in_time = run_around(work, "nop/100\n");
  // The words have passed by then.
  EXPECT_EQ(in_time.cycles(), 300 + 2055);
  work.output = {image({0, 64, 0, 0})};
  const RunStats behind_results = run_around(work, "nop/100\n");
  EXPECT_LT(behind_results.host.results_there, behind_results.host.next_there);
}

TEST(HostWay, MoreThanPdmHoldsComesInTurn) {
  for (const char* changes : {"", ",memory.pdm_lw=1024", ",transfer.max_in_flight=1"}) {
    isa::HostWork work;
    work.next = {image({300000, 0, 5000, 300000}, {0, 1, 2, 0})};
    work.next[0].free_after = 0;
    const isa::Chip chip = isa::find_chip(std::string("mncore2") + changes);
    const isa::CycleCauses all = around_nops(work, changes, 10);
    const isa::CycleCauses none = around_nops(work, changes, 1000000);
    EXPECT_GE(static_cast<double>(all.total()), 8 * 305000 / chip.host_link.bytes_per_second * chip.clock_hz)
        << changes;
    EXPECT_EQ(none.host_input, 0) << changes;
    EXPECT_EQ(none.total(), 4000000) << changes;
  }
}

/// Beside random programs: all of it comes, in DRAM's interfaces is what both move, and no cycle is lost.
TEST(HostWay, AnyProgramLetsTheNextDataCome) {
  std::mt19937 random(11);
  const isa::Chip chip = chip_with_small_memories("tiny");
  for (int round = 0; round < 60; ++round) {
    const isa::Program program =
        assembler::assemble(random_text(random, 150, round % 3 > 0), "random.vsm", chip);
    isa::HostWork work;
    for (int k = 0; k <= round % 3; ++k) {
      isa::HostTransfer transfer{.dram_address = 64 * static_cast<int64_t>(random() % 10000), .group_lw = {}};
      for (int group = 0; group < chip.groups; ++group)
        transfer.group_lw.push_back(64 * static_cast<int64_t>(random() % 300));
      work.next.push_back(transfer);
    }
    work.next_from = static_cast<int64_t>(random() % 1000);
    work.pdm_from = static_cast<int64_t>(random() % static_cast<unsigned>(chip.memory.pdm_lw / 2));
    const isa::ProgramCounts counts = isa::count(program);
    work.words = counts.steps + counts.mvs;
    isa::plan_places(work.next, program, work.output, chip);
    const auto run = [&](const isa::HostWork& host, Profile& profile) {
      RunOptions options;
      options.host = host;
      options.profile = &profile;
      return Machine(chip).run(program, options);
    };
    Profile profile;
    Profile profile_alone;
    const RunStats both = run(work, profile);
    const RunStats alone = run({}, profile_alone);
    Profile again;
    EXPECT_EQ(run(work, again).causes, both.causes) << round;
    EXPECT_EQ(both.causes.steps, alone.causes.steps) << round;
    if (both.host.next_there < 0) {
      EXPECT_EQ(both.causes, alone.causes) << round;
      EXPECT_LT(alone.cycles(), work.next_from) << round;
      continue;
    }
    EXPECT_EQ(both.host.next_there, both.cycles()) << round;
    EXPECT_GE(static_cast<double>(both.cycles()), static_cast<double>(8 * isa::link_lw(work.next)) /
                                                      chip.host_link.bytes_per_second * chip.clock_hz)
        << round;
    for (int group = 0; group < chip.groups; ++group) {
      int64_t lw = profile_alone.ports[static_cast<size_t>(group)].lw;
      for (const isa::HostTransfer& transfer : work.next) lw += transfer.group_lw[static_cast<size_t>(group)];
      EXPECT_EQ(profile.ports[static_cast<size_t>(group)].lw, lw) << round;
    }
  }
}

TEST(HostWay, WhatTheRunBeforeHasKeptLeavesFirst) {
  isa::HostWork work;
  work.output = {image({4096, 0, 0, 0})};
  const int64_t alone = run_around(work, "nop/100\n").cycles();
  work.leaving_until = 300;
  EXPECT_EQ(run_around(work, "nop/100\n").cycles(), alone);
  work.leaving_until = 1000;
  EXPECT_EQ(run_around(work, "nop/100\n").cycles(), alone + 600);
}

TEST(HostWay, WhatMayStayIsNotWaitedFor) {
  isa::HostWork work;
  work.output = {image({4096, 0, 0, 0})};
  const RunStats waits = run_around(work, "nop/10\n");
  work.kept_lw = 4096;
  const RunStats goes_on = run_around(work, "nop/10\n");
  EXPECT_EQ(goes_on.causes.host_output, 64 + 256);
  EXPECT_EQ(goes_on.host.results_there, waits.host.results_there);
  EXPECT_EQ(waits.host.results_there, waits.cycles());
}

TEST(HostWay, LaunchesAreCharged) {
  isa::HostWork work;
  work.launch = true;
  EXPECT_EQ(around_nops(work).launch, 750);
  EXPECT_EQ(around_nops(work, ",host_link.launch_seconds=0").launch, 0);
  EXPECT_EQ(around_nops({}).of_host(), 0);
}

TEST(HostWay, ImagesOfAnySizeAndAnyPdm) {
  for (const int64_t lw : {1, 64, 4095, 1000000, 20000000}) {
    for (const char* changes :
         {"", ",memory.pdm_lw=1024", ",host_link.bytes_per_second=1e12", ",transfer.pdm_lw_per_cycle=0.1"}) {
      if (std::string(changes).find("0.1") != std::string::npos && lw > 1000000) continue;
      isa::HostWork work;
      work.input = work.output = {image({lw, 0, lw, lw}, {0, 1, 2, 0})};
      const isa::Chip chip = isa::find_chip(std::string("mncore2") + changes);
      const isa::CycleCauses causes = around_nops(work, changes);
      // Two thirds pass the link; all pass PDM 0's ports.
      const double link = static_cast<double>(2 * lw * 8) / chip.host_link.bytes_per_second * chip.clock_hz;
      const double ports = static_cast<double>(lw) / chip.transfer.pdm_lw_per_cycle;
      EXPECT_GE(static_cast<double>(causes.host_input), std::max(link, 3 * ports)) << lw << changes;
      EXPECT_GE(static_cast<double>(causes.host_output), std::max(link, 2 * ports)) << lw << changes;
    }
  }
}

TEST(HostWay, HostLayersCostTheirBytesOrOperations) {
  const isa::Chip chip = isa::find_chip("mncore2");
  EXPECT_EQ(isa::host_computation_cycles(10000000, 5, chip), 750000);  // 1 ms
  EXPECT_EQ(isa::host_computation_cycles(5, 10000000, chip), 750000);
  EXPECT_EQ(isa::host_computation_cycles(0, 0, chip), 0);
}

TEST(Timing, WithoutTimingNothingIsCounted) {
  const isa::Chip chip = chip_with_small_memories("tiny");
  Machine machine(chip);
  RunOptions options;
  options.timing = false;
  const RunStats stats = machine.run(
      assembler::assemble("nop/10\nmvp/n64i01 $p0@0 $d0@0\nnop; wait i01\n", "nop.vsm", chip), options);
  EXPECT_EQ(stats.steps, 11);
  EXPECT_EQ(stats.cycles(), 0);
}

TEST(Timing, NothingHappensNothingIsComputed) {
  ChipTiming timing(isa::find_chip("tiny"));
  timing.begin();
  const ChipTiming::Turn turn(timing);
  for (int k = 0; k < 1000; ++k) timing.sequencer().steps(1000000);
  EXPECT_EQ(timing.kernel_starts(), 0);
  EXPECT_EQ(timing.sequencer().now(), 4000000000);
}

TEST(Timing, EveryRunBeginsAnew) {
  std::mt19937 random(4);
  const isa::Chip chip = chip_with_small_memories("tiny");
  const isa::Program program = assembler::assemble(random_text(random, 200, true), "random.vsm", chip);
  Machine one(chip);
  Machine other(chip);
  const isa::CycleCauses first = one.run(program).causes;
  for (Machine* machine : {&one, &other, &one, &other, &one}) EXPECT_EQ(machine->run(program).causes, first);
}

TEST(Timing, ThreadsTakeTurns) {
  std::mt19937 random(5);
  const isa::Chip chip = chip_with_small_memories("tiny");
  const isa::Program program = assembler::assemble(random_text(random, 200, true), "random.vsm", chip);
  const isa::CycleCauses expected = isa::predict_cycles(program, chip);
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) right += simulated(program, chip) == expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 20);
}

/// A run doesn't keep others from running until it is over: each waits here in the middle until the other one
/// is there, too.
TEST(Timing, RunsOfAProcessOverlap) {
  const isa::Chip chip = chip_with_small_memories("tiny");
  const isa::Program program =
      assembler::assemble("nop\nmvp/n64i01 $p0@0 $d0@0\nnop; wait i01\n", "overlap.vsm", chip);
  std::barrier<> middle(2);
  std::array<int64_t, 2> cycles{};
  const auto run = [&](size_t k) {
    Machine machine(chip);
    RunOptions options;
    int statements = 0;
    options.before_statement = [&](const isa::Statement&) {
      if (++statements == 2) middle.arrive_and_wait();
      return true;
    };
    cycles[k] = machine.run(program, options).cycles();
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  EXPECT_EQ(cycles[0], Machine(chip).run(program).cycles());
  EXPECT_EQ(cycles[1], cycles[0]);
}

TEST(Timing, ErrorsGiveTheContextBack) {
  const isa::Chip chip = chip_with_small_memories("tiny");
  Machine machine(chip);
  isa::Program program = assembler::assemble("nop\nmvp/n64 $d0@0 $p0@0\n", "bad.vsm", chip);
  std::get<isa::Mv>(program.statements[1].kind).instruction.sources[0].base = chip.memory.dram_lw;
  EXPECT_THROW(machine.run(program), isa::UserError);
  EXPECT_EQ(machine.run(assembler::assemble("nop\n", "good.vsm", chip)).cycles(), 4);
}

}  // namespace
}  // namespace kodama::simulator
