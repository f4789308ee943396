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

TEST(Timing, HostDataIsCharged) {
  const isa::Chip chip = chip_with_small_memories("tiny");
  Machine machine(chip);
  RunOptions options;
  options.host_input = {25000, 50000};
  options.host_output = {100000};
  const isa::Program program = assembler::assemble("nop/10\n", "nop.vsm", chip);
  const RunStats stats = machine.run(program, options);
  EXPECT_EQ(stats.causes.host_input, 2 * 750 + 750 + 1500);
  EXPECT_EQ(stats.causes.host_output, 750 + 3000);
  EXPECT_EQ(stats.cycles(), 3750 + 3750 + 40);
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
