#include "layout/algebra/bits.h"

#include <gtest/gtest.h>

#include <set>

namespace kodama::layout {
namespace {

const isa::Chip& chip() {
  static const isa::Chip mncore2 = isa::find_chip("mncore2");
  return mncore2;
}
std::optional<BitView> view_of(const char* from, const char* to, const Lengths& lengths, int bits,
                               std::string* why = nullptr) {
  return bit_view(Layout::parse(from), Layout::parse(to), lengths, bits, chip(), why);
}

TEST(Bits, TheExampleOfTheHeader) {
  const auto view = view_of("((8_L2B:1, 8_L1B:1), (16_MAB:1, 4_PE:1))@LM0",
                            "((16_MAB:1, 4_PE:1), (8_L2B:1, 8_L1B:1))@LM0", {64, 64}, 64);
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->bit_count(), 12);
  // Slots: PE 0-1, MAB 2-5, L1B 6-8, L2B 9-11. Bits 0-5 are the row's, from the least significant.
  EXPECT_EQ(view->from.slots, (SlotState{6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(view->to.slots, (SlotState{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(view->address_bits(view->from.slots), 0U);
}

TEST(Bits, DigitsAreCutAtBothLayoutsBoundaries) {
  const auto view = view_of("((4_PE:1, 6:1))@LM0", "((2_PE:1, 4:3, 3:1))@LM1", {24}, 64);
  ASSERT_TRUE(view.has_value());
  ASSERT_EQ(view->digits.size(), 4U);
  EXPECT_EQ(view->digits[0].size, 3);
  EXPECT_EQ(view->digits[1].size, 2);
  EXPECT_EQ(view->digits[2].size, 2);
  EXPECT_EQ(view->digits[3].size, 2);
  // The third value of three that two bits can have besides is no value.
  EXPECT_EQ(view->values(0b11).size(), 3U);
  EXPECT_EQ(view->value_count(0b111), 6);
  EXPECT_FALSE(view->is_valid(0b11, 0b11));
  EXPECT_TRUE(view->has_gaps(0));
  EXPECT_FALSE(view->has_gaps(2));
}

TEST(Bits, EveryValueHasThePlaceOfItsElement) {
  const Layout from = Layout::parse("((3:8, 2_MAB:1, 4:2), (2_L1B:2, 2_W:1))@LM0");
  const Layout to = Layout::parse("((3_PE:1, 8:4), (2_W:1, 2:2))@LM1");
  const Lengths lengths{22, 4};
  const auto view = bit_view(from, to, lengths, 32, chip());
  ASSERT_TRUE(view.has_value());
  std::set<std::vector<int64_t>> seen;
  for (const BitMask value : view->values((BitMask{1} << view->bit_count()) - 1)) {
    std::vector<int64_t> index(2, 0);
    for (int bit = 0; bit < view->bit_count(); ++bit) {
      const Digit& digit = view->digits[static_cast<size_t>(view->bits[static_cast<size_t>(bit)].digit)];
      if ((value >> bit & 1) != 0)
        index[static_cast<size_t>(digit.axis)] += digit.weight << view->bits[static_cast<size_t>(bit)].power;
    }
    EXPECT_TRUE(seen.insert(index).second);
    for (const auto& [layout, placement] : {std::pair{&from, &view->from}, std::pair{&to, &view->to}}) {
      const Coordinates place = layout->place(index);
      EXPECT_EQ(address(*placement, value), place[Level::kAddress]);
      for (int slot = 0; slot < view->shape.count(); ++slot) {
        const int bit = placement->slots[static_cast<size_t>(slot)];
        const int64_t one = place[view->shape.level(slot)] >> view->shape.power(slot) & 1;
        EXPECT_EQ(bit >= 0 ? static_cast<int64_t>(value >> bit & 1) : 0, one);
      }
    }
  }
  EXPECT_EQ(seen.size(), 24U * 4);
}

TEST(Bits, WhatCannotBeWrittenSoSaysWhy) {
  std::string why;
  EXPECT_FALSE(view_of("((4_PE:1, 3:1))@LM0", "((3:1, 4_PE:1))@LM0", {12}, 64, &why));
  EXPECT_EQ(why, "axis 0: the digits of the two layouts cross (3 and 4)");
  EXPECT_FALSE(view_of("((2_PE:1, 3_MAB:3))@LM0", "((6:1))@LM0", {6}, 64, &why));
  EXPECT_EQ(why, "MAB counts in steps of 3");
}

}  // namespace
}  // namespace kodama::layout
