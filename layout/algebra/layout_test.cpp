#include "layout/algebra/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "isa/error.h"

namespace kodama::layout {
namespace {

using ::testing::HasSubstr;

isa::Chip test_chip() {
  isa::Chip chip;
  chip.name = "test";
  chip.groups = 4;
  chip.l2b_per_group = 2;
  chip.l1b_per_l2b = 8;
  chip.mab_per_l1b = 16;
  chip.memory = {.dram_lw = 1 << 20,
                 .pdm_lw = 1 << 19,
                 .dar_entries = 1024,
                 .l2bm_lw = 1 << 15,
                 .l1bm_lw = 1 << 13,
                 .lm_words = 4096,
                 .grf_words = 512,
                 .mask_entries = 16};
  return chip;
}

Coordinates coordinates(int64_t l2b, int64_t l1b, int64_t mab, int64_t pe, int64_t address, int64_t word) {
  return {{l2b, l1b, mab, pe, address, word}};
}

template <typename Call>
std::string notation_error(Call&& call) {
  try {
    call();
  } catch (const isa::UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Layout, PlacesTheElementsOfTheHeadersExample) {
  const std::string text = "((8_L2B:1, 32:1), (8_MAB:2, 8_L1B:1, 2_MAB:1, 4_PE:1, 2_W:1))@LM0";
  const Layout layout = Layout::parse(text);
  EXPECT_EQ(layout.to_string(), text);
  EXPECT_EQ(layout.extent(0), 256);
  EXPECT_EQ(layout.extent(1), 1024);
  EXPECT_EQ(layout.memory(), Memory::kLm0);
  layout.validate(test_chip(), 32);
  // j = ((((e0 * 8 + e1) * 2 + e2) * 4 + e3) * 2 + e4) with digits 5, 3, 1, 2, 1.
  const int64_t j = (((5 * 8 + 3) * 2 + 1) * 4 + 2) * 2 + 1;
  EXPECT_EQ(layout.place({32 * 6 + 17, j}), coordinates(6, 3, 2 * 5 + 1, 2, 17, 1));
}

TEST(Layout, BlocksAndDealtOut) {
  const Layout blocks = Layout::parse("((4_PE:1, 3:1))@LM0");
  const Layout dealt = Layout::parse("((3:1, 4_PE:1))@LM0");
  for (int64_t i = 0; i < 12; ++i) {
    EXPECT_EQ(blocks.place({i}), coordinates(0, 0, 0, i / 3, i % 3, 0));
    EXPECT_EQ(dealt.place({i}), coordinates(0, 0, 0, i % 4, i / 4, 0));
  }
  EXPECT_FALSE(blocks.equivalent(dealt));
}

TEST(Layout, ReplicationAndPaddingRoundTrip) {
  const Layout layout = Layout::parse("((16:1), (4_PE:1, 2_W:1)) x [16_MAB, 8_L1B:1]@LM0");
  EXPECT_EQ(layout.to_string(), "((16:1), (4_PE:1, 2_W:1)) x [16_MAB:1, 8_L1B:1]@LM0");
  EXPECT_EQ(layout.replica_offsets().size(), 128u);
  EXPECT_EQ(layout.level_extent(Level::kMab), 16);
  EXPECT_EQ(layout.level_extent(Level::kL1b), 8);
  EXPECT_EQ(layout.element(coordinates(0, 7, 15, 3, 5, 1)), (std::vector<int64_t>{5, 7}));
  EXPECT_EQ(layout.element(coordinates(1, 7, 15, 3, 5, 1)), std::nullopt);
  for (const char* text : {"()@DRAM", "(())@GRF1 pad -inf", "((), (3:1)) x [2:3]@L2BM pad undefined",
                           "((8_L2B:1, 4:2, 8_L1B:1), (2:1, 4_PE:1, 2_W:1))@LM0 pad one"}) {
    EXPECT_EQ(Layout::parse(text).to_string(), text);
    EXPECT_EQ(Layout::parse(Layout::parse(text).to_string()), Layout::parse(text));
  }
}

TEST(Layout, ErrorsNameColumnAndFactor) {
  const auto error = [](const char* text) { return notation_error([&] { Layout::parse(text); }); };
  EXPECT_THAT(error("((8_L2B:1, 32))@LM0"),
              HasSubstr("column 14: factor 1 of axis 0: found ')', expected ':'"));
  EXPECT_THAT(error("((8_L3B:1))@LM0"), HasSubstr("column 5: factor 0 of axis 0: found level 'L3B'"));
  EXPECT_THAT(error("((2:1), (0:1))@LM0"), HasSubstr("column 10: factor 0 of axis 1: found size 0"));
  EXPECT_THAT(error("((2:-1))@LM0"), HasSubstr("column 5: factor 0 of axis 0: found stride -1"));
  EXPECT_THAT(error("((99999999999999999999:1))@LM0"), HasSubstr("column 3"));
  EXPECT_THAT(error("((1000000000:1, 1000000000:1))@LM0"), HasSubstr("column 17: factor 1 of axis 0"));
  EXPECT_THAT(error("((2:1))@LM2"), HasSubstr("column 9: found memory 'LM2', allowed: LM0, LM1"));
  EXPECT_THAT(error("((2:1))"), HasSubstr("column 8: found the end, expected '@'"));
  EXPECT_THAT(error("((2:1)) x [2_]@LM0"),
              HasSubstr("column 14: factor 0 of the replication: found level ''"));
  EXPECT_THAT(error("((2:1))@LM0 pad two"), HasSubstr("column 17: found padding 'two'"));
  EXPECT_THAT(error("((2:1))@LM0 x"), HasSubstr("column 13: found 'x'"));
  EXPECT_THAT(error(""), HasSubstr("column 1: found the end, expected '('"));
}

TEST(Layout, ValidateFindsWhatDoesNotFit) {
  const auto error = [](const char* text, int bits) {
    return notation_error([&] { Layout::parse(text).validate(test_chip(), bits); });
  };
  EXPECT_EQ(error("((8_L2B:1, 2048:1, 2_W:1))@LM1", 32), "no error");
  EXPECT_THAT(error("((9_L2B:1))@LM0", 32), HasSubstr("L2B coordinates up to 8, allowed: 0 to 7"));
  EXPECT_THAT(error("((2049:1))@LM0", 32), HasSubstr("address coordinates up to 2048"));
  EXPECT_THAT(error("((4_W:1))@LM0", 32), HasSubstr("W coordinates up to 3, allowed: 0 to 1"));
  EXPECT_THAT(error("((4_PE:1))@L1BM", 32), HasSubstr("PE coordinates"));
  EXPECT_THAT(error("((4:1), (3:2))@LM0", 64), HasSubstr("share address coordinate"));
  EXPECT_THAT(error("((4:1)) x [2:2]@LM0", 64), HasSubstr("share address coordinate"));
  EXPECT_EQ(error("((2:3), (3:2))@LM0", 64), "no error");  // 0 2 4 3 5 7: interleaved but different
}

TEST(Layout, NormalizedMergesAndIsCanonical) {
  EXPECT_EQ(Layout::parse("((2:12, 1_PE:7, 3:4, 4:1))@LM0").normalized().to_string(), "((24:1))@LM0");
  EXPECT_EQ(Layout::parse("((1:5)) x [2_MAB:1, 8_MAB:2]@LM0").normalized().to_string(),
            "(()) x [16_MAB:1]@LM0");
  EXPECT_TRUE(
      Layout::parse("((4_PE:1, 6:2))@LM0").equivalent(Layout::parse("((2_PE:2, 2_PE:1, 3:4, 2:2))@LM0")));
  EXPECT_FALSE(Layout::parse("((6:1))@LM0").equivalent(Layout::parse("((6:1))@LM1")));
  EXPECT_FALSE(Layout::parse("((6:1))@LM0").equivalent(Layout::parse("((6:1))@LM0 pad undefined")));
}

/// A random layout whose places are different: strides of a level grow with the factors already made.
Layout random_notation(std::mt19937& random) {
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  std::array<int64_t, kLevelCount> next;
  next.fill(1);
  const auto make_factor = [&] {
    Factor factor;
    factor.size = pick(1, 4);
    factor.level = static_cast<Level>(pick(0, kLevelCount - 1));
    factor.stride = next[static_cast<int>(factor.level)] * pick(1, 2);
    next[static_cast<int>(factor.level)] = factor.stride * factor.size;
    return factor;
  };
  std::vector<std::vector<Factor>> axes(pick(0, 3));
  for (auto& factors : axes) {
    const int64_t count = pick(0, 3);
    for (int64_t k = 0; k < count; ++k) factors.push_back(make_factor());
    std::shuffle(factors.begin(), factors.end(), random);
  }
  std::vector<Factor> replication;
  for (int64_t k = pick(0, 2); k > 0; --k) replication.push_back(make_factor());
  return Layout(axes, Memory::kLm0, replication);
}

template <typename Visit>
void for_each_index(const Layout& layout, Visit&& visit) {
  std::vector<int64_t> index(layout.axes().size(), 0);
  for (;;) {
    visit(index);
    size_t axis = index.size();
    while (axis > 0 && ++index[axis - 1] == layout.extent(axis - 1)) index[--axis] = 0;
    if (axis == 0) return;
  }
}

TEST(Layout, AgreesWithBruteForce) {
  std::mt19937 random(1);
  isa::Chip big = test_chip();
  big.groups = big.l1b_per_l2b = big.mab_per_l1b = 1 << 20;
  big.memory.lm_words = 1 << 30;
  for (int round = 0; round < 300; ++round) {
    const Layout layout = random_notation(random);
    SCOPED_TRACE(layout.to_string());
    EXPECT_EQ(Layout::parse(layout.to_string()), layout);
    std::map<std::array<int64_t, kLevelCount>, std::vector<int64_t>> owner;
    std::array<int64_t, kLevelCount> largest{};
    const std::vector<Coordinates> replicas = layout.replica_offsets();
    for_each_index(layout, [&](const std::vector<int64_t>& index) {
      // Digit by digit, independently of contribution().
      Coordinates expected;
      for (size_t axis = 0; axis < index.size(); ++axis) {
        int64_t weight = layout.extent(axis);
        for (const Factor& factor : layout.axes()[axis]) {
          weight /= factor.size;
          expected[factor.level] += index[axis] / weight % factor.size * factor.stride;
        }
      }
      ASSERT_EQ(layout.place(index), expected);
      for (const Coordinates& replica : replicas) {
        Coordinates at = expected;
        for (int level = 0; level < kLevelCount; ++level) {
          at.at[level] += replica.at[level];
          largest[level] = std::max(largest[level], at.at[level]);
        }
        ASSERT_TRUE(owner.emplace(at.at, index).second);
        ASSERT_EQ(layout.element(at), index);
      }
    });
    for (int level = 0; level < kLevelCount; ++level) {
      EXPECT_EQ(layout.level_extent(static_cast<Level>(level)), largest[level] + 1);
    }
    // Places that nobody owns have no element.
    for (int probe = 0; probe < 50; ++probe) {
      Coordinates at;
      for (int level = 0; level < kLevelCount; ++level) {
        at.at[level] = std::uniform_int_distribution<int64_t>(0, largest[level] + 1)(random);
      }
      const auto found = owner.find(at.at);
      EXPECT_EQ(layout.element(at),
                found == owner.end() ? std::nullopt : std::optional<std::vector<int64_t>>(found->second));
    }
    if (layout.level_extent(Level::kPe) <= 4 && layout.level_extent(Level::kWord) <= 64) {
      EXPECT_NO_THROW(layout.validate(big, 1));
    }
    const Layout normal = layout.normalized();
    EXPECT_TRUE(normal.equivalent(layout));
    for_each_index(layout, [&](const std::vector<int64_t>& index) {
      ASSERT_EQ(normal.place(index), layout.place(index));
    });
  }
}

TEST(Layout, EquivalentAgreesWithBruteForce) {
  // All ways to write an axis of 12 with two or three factors on two levels.
  std::vector<Layout> all;
  for (const std::vector<int64_t>& sizes :
       std::vector<std::vector<int64_t>>{{12}, {3, 4}, {4, 3}, {2, 3, 2}}) {
    std::vector<Factor> factors(sizes.size());
    const int64_t strides[] = {1, 2, 3, 4, 6};
    const int64_t choices = 10;
    int64_t total = 1;
    for (size_t k = 0; k < sizes.size(); ++k) total *= choices;
    for (int64_t code = 0; code < total; ++code) {
      int64_t rest = code;
      for (size_t k = 0; k < sizes.size(); ++k, rest /= choices) {
        factors[k] = {sizes[k], rest % 2 == 0 ? Level::kAddress : Level::kPe, strides[rest % choices / 2]};
      }
      all.emplace_back(std::vector<std::vector<Factor>>{factors}, Memory::kLm0);
    }
  }
  std::map<std::vector<std::array<int64_t, kLevelCount>>, std::string> normal_of;
  for (const Layout& layout : all) {
    std::vector<std::array<int64_t, kLevelCount>> mapping;
    for (int64_t i = 0; i < 12; ++i) mapping.push_back(layout.place({i}).at);
    const auto [entry, is_new] = normal_of.emplace(mapping, layout.normalized().to_string());
    EXPECT_EQ(entry->second, layout.normalized().to_string()) << layout.to_string();
  }
}

}  // namespace
}  // namespace kodama::layout
