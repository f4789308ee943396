#include "simulator/golden/differential.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "assembler/assembler.h"
#include "isa/error.h"
#include "isa/rounds_test_util.h"
#include "simulator/engine/kernels/kernels.h"
#include "simulator/test_chip.h"

/// A little of what `kodama fuzz` does at length, and on every vector target.
namespace kodama::simulator::golden {
namespace {

void expect_no_difference(uint64_t seed, int64_t steps) {
  FuzzOptions options;
  options.chip = small_memories(small_chip());
  options.seed = seed;
  options.steps = steps;
  for (const FuzzFailure& failure : fuzz(options).failures) {
    ADD_FAILURE() << "seed " << failure.seed << ":\n" << failure.text;
  }
}

TEST(Differential, EngineEqualsGoldenModel) {
  expect_no_difference(1, 1000);
}

TEST(Differential, EveryHighwayTargetEqualsGoldenModel) {
  for (const std::string& target : kernel_targets()) {
    choose_vector_target(target);
    SCOPED_TRACE(best_kernels().target);
    expect_no_difference(1000, 400);
  }
  choose_vector_target("");
}

/// Transfers and L2BM instructions that have addresses in common, and others that haven't: the engine may do
/// them in another order.
TEST(Differential, TransfersBetweenStepsThatUseTheL2bm) {
  const isa::Chip chip = [] {
    isa::Chip small = small_memories(isa::find_chip("tiny"));
    small.memory.l2bm_lw = 512;
    return small;
  }();
  for (unsigned seed = 1; seed <= isa::rounds(160U, 400U); ++seed) {
    std::mt19937 random(seed);
    const auto place = [&] { return 64 * (random() % 8); };
    std::string text;
    for (int k = 0; k < 24; ++k) {
      switch (random() % 6) {
        case 0:
          text += fmt::format("mvp/n64 $d{}@0 $lc{}@0.0\n", place(), place());
          break;
        case 1:
          text += fmt::format("mvp/n64 $lc{}@0.0 $d{}@0\n", place(), place());
          break;
        case 2:
          text += fmt::format("mvb/n64i01 $d{}@0 $lc{}\n", place(), place());
          break;
        case 3:
          text += fmt::format("l2bmb $lc{} $lb{}\n", place(), place() % 128);
          break;
        case 4:
          text += fmt::format("l2bmd $lb{} $lc{}\n", place() % 128, place());
          break;
        default:
          text += random() % 2 == 0 ? "nop; wait i01\n" : "l1bmm $lb0 $lm0v; wait i01\n";
          break;
      }
    }
    const isa::Program program = assembler::assemble(text, "transfers.vsm", chip);
    Machine machine(chip);
    GoldenMachine golden(chip);
    fill_with_edge_values(chip, seed, machine, golden);
    machine.run(program);
    golden.run(program, {});
    ASSERT_EQ(memory_difference(chip, machine, golden), "") << "seed " << seed << "\n" << text;
  }
}

/// A loop is its text, also where no memory is addressed.
TEST(Differential, CountersOfLoopsReachMaskEntriesAndConstants) {
  const isa::Chip chip = small_memories(small_chip());
  const auto loop_of = [&](int64_t count) {
    isa::Program program = assembler::assemble("iinc $l2bid $omr1\n", "loop.vsm", chip);
    isa::Instruction& instruction = std::get<isa::Step>(program.statements[0].kind).instructions.own()[0];
    instruction.sources[0].loop_strides = {1};
    instruction.destinations[0].loop_strides = {2};
    program.statements = {{isa::Loop{count, program.statements}}};
    return program;
  };
  const isa::Program loop = loop_of(5);
  const isa::Program text = assembler::assemble(assembler::print(loop), "text.vsm", chip);
  ASSERT_EQ(text.statements.size(), 5u);
  for (const auto& [of_engine, of_golden] : {std::pair(&loop, &text), std::pair(&text, &loop)}) {
    Machine machine(chip);
    GoldenMachine golden(chip);
    fill_with_edge_values(chip, 3, machine, golden);
    machine.run(*of_engine);
    golden.run(*of_golden, {});
    EXPECT_EQ(memory_difference(chip, machine, golden), "");
  }
  Machine machine(chip);
  EXPECT_THROW(machine.run(loop_of(9)), isa::UserError);  // the last constant is the sixth
}

/// What the fuzzer finds, it must be able to say.
TEST(Differential, NamesThePlaceThatDiffers) {
  const isa::Chip chip = small_memories(small_chip());
  Machine machine(chip);
  GoldenMachine golden(chip);
  fill_with_edge_values(chip, 7, machine, golden);
  EXPECT_EQ(memory_difference(chip, machine, golden), "");
  machine.write(isa::Space::kLm1, {1, 0, 1, 2, 3}, 6, 0x123);
  golden.write(isa::Space::kLm1, {1, 0, 1, 2, 3}, 6, 0x124);
  EXPECT_EQ(memory_difference(chip, machine, golden),
            "LM1 of n1c0b1m2p3, address 6: engine 0000000000000123, golden model 0000000000000124\n");
}

}  // namespace
}  // namespace kodama::simulator::golden
