#include "layout/bound.h"

#include <gtest/gtest.h>

#include "isa/error.h"

namespace kodama::layout {
namespace {

const isa::Chip& chip() {
  static const isa::Chip mncore2 = isa::find_chip("mncore2");
  return mncore2;
}
ConversionBound bound(const char* from, const char* to, const Lengths& lengths, int bits) {
  return conversion_bound(Layout::parse(from), Layout::parse(to), lengths, bits, chip());
}
double bytes(const ConversionBound& bound, const std::string& name) {
  for (const LevelBound& level : bound.levels) {
    if (level.name == name) return level.bytes;
  }
  return 0;
}

TEST(Bound, TheExampleOfTheHeader) {
  const ConversionBound result = bound("((8_L2B:1, 8_L1B:1), (16_MAB:1, 4_PE:1))@LM0",
                                       "((16_MAB:1, 4_PE:1), (8_L2B:1, 8_L1B:1))@LM0", {64, 64}, 64);
  EXPECT_EQ(bytes(result, "into the L2Bs"), 448 * 8);
  EXPECT_EQ(bytes(result, "out of the L2Bs"), 448 * 8);
  // 448 elements up, and 504 down: those of 7 other L2Bs, and of the L2B's own 7 other L1Bs.
  EXPECT_EQ(bytes(result, "L2BM and L1BMs"), (448 + 504) * 8);
  // 63 of an L1B's 64 elements leave it and are replaced.
  EXPECT_EQ(bytes(result, "L1BM and PEs"), (63 + 63) * 8);
  EXPECT_EQ(bytes(result, "PEs writing"), 8);
  EXPECT_DOUBLE_EQ(result.cycles(), (1 + 2 + 1 + 1) * 4 + 64 + 28 + (1 + 1 + 1) * 4);
  EXPECT_EQ(result.name(), "out of the L2Bs");
}

TEST(Bound, NothingMovesWhenTheLayoutsAreOne) {
  const ConversionBound result = bound("((4_PE:1, 6:1))@LM0", "((2_PE:2, 2_PE:1, 3:2, 2:1))@LM0", {24}, 64);
  EXPECT_EQ(result.cycles(), 0);
  EXPECT_EQ(result.name(), "");
}

TEST(Bound, InsideAPeOnlyItsPortsCount) {
  const ConversionBound result = bound("((4_PE:1, 64:1))@LM0", "((4_PE:1, 8:1, 8:8))@LM1", {256}, 64);
  ASSERT_EQ(result.levels.size(), 3U);  // reading, writing, and a step at least
  EXPECT_DOUBLE_EQ(result.cycles(), 64 * 8 / 16.0);
  // Addresses 0, 9, 18, … of a transposed square stay where they are.
  EXPECT_DOUBLE_EQ(bound("((64:1))@LM0", "((8:1, 8:8))@LM0", {64}, 64).cycles(), 56 * 8 / 16.0);
}

TEST(Bound, BlocksToDealtOutInAMabNeedNoL1bm) {
  const ConversionBound result = bound("((4_PE:1, 3:1))@LM0", "((3:1, 4_PE:1))@LM0", {12}, 64);
  EXPECT_EQ(bytes(result, "into the MABs"), 0);
  EXPECT_GT(bytes(result, "PEs writing"), 0);
}

TEST(Bound, ReplicasComeInOncePerInstance) {
  // A vector of one PE to every PE of the chip: each L2B but the first takes it in once.
  const ConversionBound result =
      bound("((256:1))@LM0", "((256:1)) x [8_L2B, 8_L1B, 16_MAB, 4_PE]@LM1", {256}, 64);
  EXPECT_EQ(bytes(result, "into the L2Bs"), 2048);
  EXPECT_EQ(bytes(result, "out of the L2Bs"), 2048);
  EXPECT_EQ(bytes(result, "into the MABs"), 2048);
  EXPECT_EQ(bytes(result, "PEs writing"), 2048);
  // And back: the first PE has one.
  EXPECT_EQ(bytes(bound("((256:1)) x [8_L2B, 8_L1B, 16_MAB, 4_PE]@LM0", "((256:1))@LM1", {256}, 64),
                  "into the L2Bs"),
            0);
}

TEST(Bound, DramToPesPassesEveryLevel) {
  const ConversionBound result =
      bound("((65536:1))@DRAM", "((8_L2B:1, 8_L1B:1, 16_MAB:1, 4_PE:1, 16:1))@LM0", {65536}, 64);
  EXPECT_EQ(bytes(result, "out of the DRAMs"), 65536 * 8);
  EXPECT_EQ(bytes(result, "into the L2Bs"), 65536);
  EXPECT_EQ(bytes(result, "L2BM and L1BMs"), 65536);
  EXPECT_EQ(bytes(result, "into the MABs"), 512);
  EXPECT_EQ(bytes(result, "PEs writing"), 128);
  // Start-up, and after the last long word a step to L1BM, one between, and one to the PEs.
  EXPECT_NEAR(result.cycles(), 65536 / chip().transfer.dram_lw_per_cycle + 64 + 12, 1e-9);
  EXPECT_EQ(result.name(), "out of the DRAMs");
}

TEST(Bound, TheNextMabIsNearerThanTheOthers) {
  // By the turnaround register what goes to the next MAB passes L1BM's port once, all else twice.
  const ConversionBound next = bound("((2_MAB:1), (64:1))@LM0", "((2_MAB:1), (64:1))@LM1", {2, 64}, 64);
  EXPECT_EQ(bytes(next, "L1BM and PEs"), 0);
  EXPECT_EQ(bytes(bound("((2_MAB:1), (2:1))@LM0", "((2:1), (2_MAB:1))@LM1", {2, 2}, 64), "L1BM and PEs"),
            2 * 8);
  EXPECT_EQ(bytes(bound("((2_MAB:2), (2:1))@LM0", "((2:1), (2_MAB:2))@LM1", {2, 2}, 64), "L1BM and PEs"),
            4 * 8);
}

TEST(Bound, WrongQuestionsAreRefused) {
  EXPECT_THROW(bound("((4:1))@LM0", "((3:1))@LM0", {4}, 64), isa::UserError);
  EXPECT_THROW(bound("((4:1))@LM0", "((9_PE:1))@LM0", {4}, 64), isa::UserError);
  EXPECT_THROW(bound("((67108865:1))@DRAM", "((67108865:1))@DRAM", {67108865}, 64), isa::UserError);
}

}  // namespace
}  // namespace kodama::layout
