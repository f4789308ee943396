#include "simulator/golden/differential.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

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
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    SCOPED_TRACE(best_kernels().target);
    expect_no_difference(1000, 400);
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
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
