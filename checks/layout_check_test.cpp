#include "checks/layout_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "isa/error.h"
#include "isa/rounds_test_util.h"
#include "layout/search/random_problem.h"

namespace kodama::checks {
namespace {

using layout::Conversion;
using layout::ConversionProblem;
using layout::Layout;
using ::testing::HasSubstr;

const isa::Chip& chip() {
  static const isa::Chip tiny = [] {
    isa::Chip small = isa::find_chip("tiny");
    small.memory.dram_lw = 1 << 16;
    return small;
  }();
  return tiny;
}
ConversionProblem problem(const char* from, const char* to, const layout::Lengths& lengths, int bits = 64) {
  return {Layout::parse(from), Layout::parse(to), lengths, bits};
}
/// Converts, checks, and returns the conversion.
Conversion checked(const ConversionProblem& each) {
  const Conversion conversion = convert(each, chip());
  int64_t cycles = -1;
  EXPECT_EQ(conversion_difference(each, conversion, chip(), 1, &cycles), "");
  EXPECT_EQ(cycles, conversion.cycles);
  EXPECT_GE(static_cast<double>(cycles), conversion.bound.cycles());
  EXPECT_TRUE(conversion.keeps_source);
  return conversion;
}

TEST(Conversion, TheExampleOfTheHeader) {
  const Conversion transposed =
      checked(problem("((4_PE:1), (8:8), (8:1))@LM0", "((4_PE:1), (8:1), (8:8))@LM1", {4, 8, 8}));
  EXPECT_EQ(transposed.steps, 16);
  EXPECT_DOUBLE_EQ(transposed.bound.cycles(), 32);
}

TEST(Conversion, NeighboursGoTogether) {
  const Conversion copy = checked(problem("((64:1))@LM0", "((64:1))@GRF1", {64}));
  EXPECT_EQ(copy.steps, 8);
  EXPECT_EQ(static_cast<double>(copy.cycles), copy.bound.cycles());
  EXPECT_EQ(copy.path, std::vector<std::string>{"copy"});
}

TEST(Conversion, InsideOneMemoryByWayOfAnother) {
  const Conversion turned = checked(problem("((8:8), (8:1))@LM0", "((8:1), (8:8))@LM0", {8, 8}));
  EXPECT_EQ(turned.path, (std::vector<std::string>{"copy", "copy"}));
  EXPECT_EQ(turned.scratch.size(), 2U);
  // Nothing has to be done when the layouts are one.
  EXPECT_EQ(checked(problem("((8:8), (8:1))@LM0", "((2:32, 4:8), (8:1))@LM0", {8, 8})).steps, 0);
}

TEST(Conversion, WordsAndPadding) {
  checked(problem("((4_PE:1, 6:1, 2_W:1))@LM0", "((4_PE:1, 3:1, 2:3, 2_W:1))@LM1", {48}, 32));
  // Elements in upper words leave the lower ones alone.
  checked(problem("((4_PE:1, 6:1))@LM0", "((4_PE:1, 6:2))@LM1", {24}, 32));
  // Padding that goes along, padding that is written.
  checked(problem("((3:1, 4_PE:1))@LM0", "((3:2, 4_PE:1))@LM1", {11}));
  for (const char* to : {"((8:1))@LM1", "((8:1))@LM1 pad one", "((8:1))@LM1 pad -inf",
                         "((8:1))@LM1 pad undefined", "((8:1))@LM0 pad +inf"}) {
    for (const int bits : {32, 64}) checked(problem("((5:3))@LM0", to, {5}, bits));
  }
}

std::string path_of(const Conversion& conversion) {
  return fmt::format("{}", fmt::join(conversion.path, ", "));
}

TEST(Conversion, EveryPrimitiveIsTaken) {
  // tiny: 2 groups x 2 L2Bs x 2 L1Bs x 4 MABs x 4 PEs.
  const auto path = [](const char* from, const char* to, const layout::Lengths& lengths, int bits = 64) {
    return path_of(checked(problem(from, to, lengths, bits)));
  };
  EXPECT_EQ(path("((4_PE:1, 16:1))@LM0", "((16:1, 4_PE:1))@LM1", {64}), "matrix");
  EXPECT_THAT(path("((4_PE:1), (16:1, 2_W:1))@LM0", "((4_PE:1), (2_W:1, 16:1))@LM1", {4, 32}, 32),
              HasSubstr("words"));
  EXPECT_THAT(path("((4_PE:1, 16:1, 4_W:1))@LM0", "((4_W:1, 16:1, 4_PE:1))@LM1", {256}, 16),
              HasSubstr("matrix-words"));
  EXPECT_THAT(path("((4_MAB:1, 16:1), (4_PE:1))@LM0", "((16:1, 4_MAB:1), (4_PE:1))@LM1", {64, 4}),
              HasSubstr("skew"));
  EXPECT_EQ(path("((16:1), (4_PE:1))@LM0", "((4:1, 4_MAB:1), (4_PE:1))@LM1", {16, 4}), "deal-mab");
  EXPECT_THAT(path("((4_MAB:1, 8:1))@LM0", "((32:1)) x [4_MAB]@LM1", {32}), HasSubstr("all-gather-mab"));
  EXPECT_THAT(path("((4_MAB:1, 4_PE:1, 8:1))@LM0", "((128:1)) x [4_MAB, 4_PE]@LM1", {128}),
              HasSubstr("all-gather-pe"));
  EXPECT_EQ(path("((32:1)) x [4_MAB]@LM0", "((8:1, 4_MAB:1))@LM1", {32}), "select");
  EXPECT_THAT(
      path("((2_L1B:1, 16:1), (4_MAB:1, 4_PE:1))@LM0", "((16:1, 2_L1B:1), (4_MAB:1, 4_PE:1))@LM1", {32, 16}),
      HasSubstr("swap-l1b"));
  EXPECT_THAT(path("((4_MAB:1, 4_PE:1, 2:1))@LM0", "((2_L1B:1, 16:1))@LM1", {32}), HasSubstr("shuffle-l1b"));
  EXPECT_THAT(path("((2_L1B:1, 16:1))@LM0", "((32:1)) x [2_L1B]@LM1", {32}), HasSubstr("broadcast-l1b"));
  EXPECT_THAT(path("((2_L1B:1, 4_MAB:1, 4_PE:1))@LM0", "((32:1)) x [2_L1B, 4_MAB, 4_PE]@LM1", {32}),
              HasSubstr("broadcast-l1b, all-gather-pe"));
  EXPECT_EQ(path("((4_MAB:1, 4_PE:1))@LM0", "((4_MAB:1, 4_PE:1)) x [2_L1B]@LM1", {16}), "broadcast-l1b");
  EXPECT_EQ(path("((16:1))@DRAM", "((4_MAB:1, 4_PE:1)) x [2_L1B]@LM0", {16}), "from DRAM, all-gather-l1b");
  EXPECT_THAT(path("((4_L2B:1, 16:1), (2_L1B:1, 4_MAB:1, 4_PE:1))@LM0",
                   "((16:1, 4_L2B:1), (2_L1B:1, 4_MAB:1, 4_PE:1))@LM1", {64, 32}),
              HasSubstr("exchange-l2b"));
  EXPECT_THAT(path("((4_L2B:1, 2_L1B:1, 4_MAB:1, 4_PE:1))@LM0",
                   "((4:1, 2_L1B:1, 4_MAB:1, 4_PE:1)) x [4_L2B]@LM1", {128}),
              HasSubstr("all-gather-l2b"));
  EXPECT_EQ(path("((2_L1B:1, 4_MAB:1, 4_PE:1))@LM0", "((2_L1B:1, 4_MAB:1, 4_PE:1)) x [4_L2B]@LM1", {32}),
            "spread-l2b");
}

TEST(Conversion, ThroughEveryMemory) {
  for (const char* memory : {"L1BM", "L2BM", "PDM", "DRAM"}) {
    const std::string upper = fmt::format("((256:1, 2_W:1))@{}", memory);
    const char* lower = "((4_PE:1, 4_MAB:1, 16:1, 2_W:1))@LM0";
    checked(problem(upper.c_str(), lower, {512}, 32));
    checked(problem(lower, upper.c_str(), {512}, 32));
    for (const char* other : {"L1BM", "L2BM", "PDM", "DRAM"}) {
      const std::string turned = fmt::format("((8:1), (64:8))@{}", other);
      const std::string given = fmt::format("((8:64), (64:1))@{}", memory);
      checked(problem(given.c_str(), turned.c_str(), {8, 64}));
    }
  }
  // DRAM of both groups.
  checked(problem("((2_L2B:2, 512:1))@DRAM", "((4_L2B:1, 2_L1B:1, 4_MAB:1, 4_PE:1, 8:1))@LM1", {1024}));
  checked(problem("((4_L2B:1, 2_L1B:1, 4_MAB:1, 4_PE:1, 8:1))@LM1", "((512:1, 2_L2B:2))@PDM", {1024}));
}

TEST(Conversion, DigitsThatCrossGoElementByElement) {
  const Conversion dealt = checked(problem("((4_PE:1, 3:1))@LM0", "((3:1, 4_PE:1))@LM0", {12}));
  EXPECT_EQ(path_of(dealt), "elements");
  EXPECT_EQ(dealt.why_by_elements, "axis 0: the digits of the two layouts cross (3 and 4)");
  checked(problem("((4_L2B:1, 3:1))@LM0", "((3:1, 4_L2B:1)) x [2_PE]@GRF0 pad one", {11}, 32));
  checked(problem("((3:1, 4_W:1))@L2BM", "((2_L1B:1, 3_MAB:1, 2:1))@LM1 pad -inf", {11}, 16));
}

TEST(Conversion, FullMemories) {
  // Within one memory a stop elsewhere is needed; there is one.
  checked(problem("((2:1), (1024:2))@LM0", "((2:1024), (1024:1))@LM0", {2, 1024}));
  checked(problem("((4_PE:1, 2047:1))@LM0", "((2047:1, 4_PE:1))@LM1", {8188}));
  // No room is left for copies: the source may be overwritten.
  const ConversionProblem full = problem("((4_MAB:1, 1024:1))@LM0", "((1024:1, 4_MAB:1))@LM0", {4096});
  const Conversion conversion = convert(full, chip());
  EXPECT_EQ(conversion_difference(full, conversion, chip(), 1), "");
  // Copies by the million, one by one, are refused.
  EXPECT_THROW(convert(problem("((3:1, 349526:3))@DRAM", "((349526:1, 3:349526))@PDM", {1048578}), chip()),
               isa::Error);
}

TEST(Conversion, RandomOnesAreRight) {
  const uint64_t count = isa::rounds(12, 60);  // layout.fuzz has more
  int by_primitives = 0;
  for (uint64_t seed = 1; seed <= count; ++seed) {
    const ConversionProblem each = layout::random_problem(seed, chip(), 256);
    SCOPED_TRACE(fmt::format("kodama layout fuzz --seed {} --count 1 --elements 256: {} to {}", seed,
                             each.from.to_string(), each.to.to_string()));
    const Conversion conversion = convert(each, chip());
    by_primitives += conversion.why_by_elements.empty() ? 1 : 0;
    int64_t cycles = 0;
    ASSERT_EQ(conversion_difference(each, conversion, chip(), seed, &cycles), "");
    ASSERT_EQ(cycles, conversion.cycles);
    ASSERT_GE(static_cast<double>(cycles), conversion.bound.cycles());
  }
  EXPECT_GT(by_primitives, static_cast<int>(count) / 3);
}

}  // namespace
}  // namespace kodama::checks
