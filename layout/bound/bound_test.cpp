#include "layout/bound/bound.h"

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
  // Of the 448 elements that an L2B is to hold from elsewhere, 128 come three groups far to those at the
  // ends.
  EXPECT_EQ(bytes(result, "into the L2Bs"), 128 * 8);
  EXPECT_EQ(bytes(result, "out of the L2Bs"), 128 * 8);
  // 448 elements up, and 504 down: those of 7 other L2Bs, and of the L2B's own 7 other L1Bs. Of these 56, 32
  // go to an L1B whose number differs in two or three bits, and pass twice.
  EXPECT_EQ(bytes(result, "L2BM and L1BMs"), (448 + 504 + 32) * 8);
  // 63 of an L1B's 64 elements leave it and are replaced.
  EXPECT_EQ(bytes(result, "L1BM and PEs"), (63 + 63) * 8);
  // One double long word.
  EXPECT_EQ(bytes(result, "PEs writing"), 16);
  const double ways = (1 + 2 + 1 + 1) * 4 + (1 + 1 + 1) * 4;
  for (const LevelBound& level : result.levels) {
    if (level.name == "into the L2Bs") {
      EXPECT_DOUBLE_EQ(level.cycles(), ways + 64 + 3 * 32 + 8);
    }
  }
  // From group 0 to group 3 and back there are 8 pairs of L2Bs. A transfer each: the last starts 7 * 16
  // cycles after the first. Or one of them has a stop on its way: twice 64 cycles and 4 for 64 long words,
  // besides the way of 3 * 32 cycles between the groups.
  EXPECT_DOUBLE_EQ(result.cycles(), ways + 2 * (64 + 4) + 3 * 32);
  EXPECT_EQ(result.name(), "pairs of L2Bs");
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
  // Addresses 0, 9, 18, … of a transposed square stay where they are, but each shares its double long word.
  EXPECT_DOUBLE_EQ(bound("((64:1))@LM0", "((8:1, 8:8))@LM0", {64}, 64).cycles(), 64 * 8 / 16.0);
  // Every second long word: as many accesses as for all of them.
  EXPECT_DOUBLE_EQ(bound("((32:2))@LM0", "((32:2))@LM1", {32}, 64).cycles(), 32.0);
}

TEST(Bound, DistancesAreCounted) {
  // From MAB 0 to the others: 60 long words at 8 per cycle are two steps, and a third brings the last ones
  // in.
  EXPECT_DOUBLE_EQ(bound("((16:1), (4_PE:1))@LM0", "((16_MAB:1), (4_PE:1))@LM1", {16, 4}, 64).cycles(), 12.0);
  // One long word to another L1B: up, two steps, across, one step, down.
  EXPECT_DOUBLE_EQ(bound("((2_L1B:1, 2:1))@LM0", "((2:1, 2_L1B:1))@LM0", {4}, 64).cycles(), 24.0);
  // To the next PE of the MAB a step; to the one after it, or both ways, two.
  EXPECT_DOUBLE_EQ(bound("((2_PE:1))@LM0", "((2:1))@LM1", {2}, 64).cycles(), 8.0);
  EXPECT_DOUBLE_EQ(bound("((1:1))@LM0", "((1:1)) x [2_PE:2]@LM0", {1}, 64).cycles(), 8.0);
  // To another PE of another MAB.
  EXPECT_DOUBLE_EQ(bound("((2_MAB:1, 2:1))@LM0", "((2:1, 2_PE:1))@LM1", {4}, 64).cycles(), 12.0);
  // Addresses that differ from PE to PE: T is set, and read two steps later.
  EXPECT_DOUBLE_EQ(
      bound("((512:1)) x [8_L2B, 8_L1B, 16_MAB, 4_PE]@LM0", "((8_L2B:1, 8_L1B:1, 8_MAB:1))@LM1", {512}, 64)
          .cycles(),
      12.0);
  // Across the chip: three groups further on.
  EXPECT_DOUBLE_EQ(bound("((2_L2B:7, 2:1))@LM0", "((2:1, 2_L2B:7))@LM0", {4}, 64).cycles(),
                   20.0 + 64 + 96 + 4 + 12 + 16);
}

TEST(Bound, FarL1bsTakeTwoHops) {
  const auto port = [](const char* from, const char* to, const Lengths& lengths) {
    return bytes(bound(from, to, lengths, 64), "L2BM and L1BMs");
  };
  // One long word to the L1Bs 1, 3 and 7 of its L2B, and there and back.
  EXPECT_EQ(port("((1:1))@LM0", "((1:1)) x [2_L1B:1]@LM0", {1}), 8);
  EXPECT_EQ(port("((1:1))@LM0", "((1:1)) x [2_L1B:3]@LM0", {1}), 2 * 8);
  EXPECT_EQ(port("((2_L1B:7, 2:1))@LM0", "((2:1, 2_L1B:7))@LM0", {4}), 2 * 2 * 8);
  // To all L1Bs, of which some are far; from L1Bs 0 and 7 none is.
  EXPECT_EQ(port("((1:1))@LM0", "((1:1)) x [8_L1B:1]@LM0", {1}), 2 * 8);
  EXPECT_EQ(port("((1:1)) x [2_L1B:7]@LM0", "((1:1)) x [8_L1B:1]@LM0", {1}), 8);
  // What leaves the L2B is in L2BM anyhow.
  EXPECT_EQ(port("((1:1))@LM0", "((1:1)) x [2_L2B:1, 2_L1B:7]@LM0", {1}), 2 * 8);
  // 3 of 8 L1Bs are one hop away, 4 are two.
  EXPECT_EQ(port("((8_L1B:1, 8:1))@LM0", "((8:1, 8_L1B:1))@LM0", {64}), 8 * (3 + 2 * 4) * 8);
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
