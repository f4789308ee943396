#include "compiler/driver/layout_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "isa/error.h"

namespace kodama::compiler {
namespace {

using layout::Conversion;
using layout::ConversionProblem;
using layout::Factor;
using layout::Layout;
using layout::Level;
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
  EXPECT_EQ(static_cast<double>(copy.cycles()), copy.bound.cycles());
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

TEST(Conversion, WhatIsNotThereYetIsNamed) {
  const auto refused = [](const char* from, const char* to, const layout::Lengths& lengths,
                          int bits = 64) -> std::string {
    try {
      convert(problem(from, to, lengths, bits), chip());
    } catch (const isa::UnsupportedError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refused("((4_PE:1, 3:1))@LM0", "((3:1, 4_PE:1))@LM0", {12}),
              HasSubstr("element (1) goes from PE 0 to PE 1; supported so far"));
  EXPECT_THAT(refused("((12:1))@DRAM", "((12:1))@LM0", {12}), HasSubstr("it moves from DRAM to LM0"));
  EXPECT_THAT(refused("((6:1, 2_W:1))@LM0", "((2_W:1, 6:1))@LM0", {12}, 32),
              HasSubstr("from word 1 to word 0"));
  EXPECT_THAT(refused("((4:1))@LM0", "((4:1)) x [2_MAB]@LM0", {4}), HasSubstr("goes from MAB 0 to MAB 1"));
}

TEST(Conversion, RandomOnesAreRight) {
  std::mt19937 random(1);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  int done = 0;
#if defined(__SANITIZE_ADDRESS__)
  constexpr int kRounds = 20;
#else
  constexpr int kRounds = 200;
#endif
  for (int round = 0; round < kRounds; ++round) {
    // Factors with a position keep it; addresses get strides in two random orders, with gaps.
    std::array<int64_t, layout::kLevelCount> next;
    next.fill(1);
    const std::array<int64_t, layout::kLevelCount> most{4, 2, 4, 4, 64, 2};
    std::vector<std::vector<Factor>> from_axes(static_cast<size_t>(pick(1, 3)));
    for (auto& axis : from_axes) {
      for (int64_t k = pick(1, 3); k > 0; --k) {
        Factor factor;
        factor.level =
            pick(0, 1) == 0 ? Level::kAddress : static_cast<Level>(pick(0, layout::kLevelCount - 1));
        int64_t& used = next[static_cast<size_t>(factor.level)];
        factor.size = pick(1, 4);
        if (used * factor.size > most[static_cast<size_t>(factor.level)]) continue;
        factor.stride = used;
        used *= factor.size;
        axis.push_back(factor);
      }
    }
    std::vector<std::vector<Factor>> to_axes = from_axes;
    for (auto* axes : {&from_axes, &to_axes}) {
      std::vector<Factor*> addresses;
      for (auto& axis : *axes) {
        for (Factor& factor : axis) {
          if (factor.level == Level::kAddress) addresses.push_back(&factor);
        }
      }
      std::ranges::shuffle(addresses, random);
      int64_t stride = pick(1, 2);
      for (Factor* factor : addresses) {
        factor->stride = stride;
        stride *= factor->size * (pick(0, 3) == 0 ? 2 : 1);
      }
    }
    layout::Lengths lengths;
    for (const auto& axis : from_axes) {
      int64_t extent = 1;
      for (const Factor& factor : axis) extent *= factor.size;
      lengths.push_back(pick(0, 2) == 0 ? pick(1, extent) : extent);
    }
    const auto padding = static_cast<layout::Padding>(pick(0, 4));
    ConversionProblem each{Layout(from_axes, static_cast<layout::Memory>(pick(0, 3)), {}, padding),
                           Layout(to_axes, static_cast<layout::Memory>(pick(0, 3)), {}, padding), lengths,
                           next[static_cast<size_t>(Level::kWord)] > 1 ? 32 : 64};
    SCOPED_TRACE(fmt::format("{} to {}", each.from.to_string(), each.to.to_string()));
    Conversion conversion;
    try {
      each.from.validate(chip(), each.element_bits);
      each.to.validate(chip(), each.element_bits);
      conversion = convert(each, chip());
    } catch (const isa::UserError&) {
      continue;  // too large
    } catch (const isa::UnsupportedError&) {
      continue;  // padding that differs from PE to PE
    }
    ++done;
    ASSERT_EQ(conversion_difference(each, conversion, chip(), static_cast<uint64_t>(round)), "");
  }
  EXPECT_GT(done, kRounds / 2);
}

}  // namespace
}  // namespace kodama::compiler
