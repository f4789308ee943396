#include "layout/algebra/algebra.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>
#include <set>

#include "isa/error.h"
#include "isa/rounds_test_util.h"

namespace kodama::layout {
namespace {

using ::testing::HasSubstr;
using Index = std::vector<int64_t>;

Layout parse(const std::string& text) {
  return Layout::parse(text);
}

template <typename Call>
std::string user_error(Call&& call) {
  try {
    call();
  } catch (const isa::UserError& error) {
    return error.what();
  }
  return "no error";
}

/// Calls visit(index) for all indices of a tensor, the last axis fastest.
template <typename Visit>
void for_each_index(const Lengths& lengths, Visit&& visit) {
  Index index(lengths.size(), 0);
  for (;;) {
    visit(index);
    size_t axis = index.size();
    while (axis > 0 && ++index[axis - 1] == lengths[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}
int64_t number_of(const Index& index, const Lengths& lengths) {
  int64_t number = 0;
  for (size_t axis = 0; axis < index.size(); ++axis) number = number * lengths[axis] + index[axis];
  return number;
}
Index index_of(int64_t number, const Lengths& lengths) {
  Index index(lengths.size());
  for (size_t axis = lengths.size(); axis-- > 0;) {
    index[axis] = number % lengths[axis];
    number /= lengths[axis];
  }
  return index;
}
Lengths extents(const Layout& layout) {
  Lengths lengths;
  for (size_t axis = 0; axis < layout.axes().size(); ++axis) lengths.push_back(layout.extent(axis));
  return lengths;
}
Coordinates plus(Coordinates a, const Coordinates& b) {
  for (size_t level = 0; level < kLevelCount; ++level) a.at[level] += b.at[level];
  return a;
}

// ---- the examples of docs/layouts.md

TEST(Examples, TwelveElementsOnFourPes) {
  const Layout blocks = parse("((4_PE:1, 3:1))@LM0");
  const Layout dealt = parse("((3:1, 4_PE:1))@LM0");
  EXPECT_EQ(blocks.place({7})[Level::kPe], 2);
  EXPECT_EQ(dealt.place({7})[Level::kPe], 3);
  EXPECT_EQ(why_incompatible(blocks, dealt), "axis 0: index 1 is at PE 0 on the left, at PE 1 on the right");
  // Dealt out means: split into (3, 4), the inner axis over the PEs.
  EXPECT_EQ(split(dealt, 0, {3, 4}).to_string(), "((3:1), (4_PE:1))@LM0");
  EXPECT_EQ(split(blocks, 0, {4, 3}).to_string(), "((4_PE:1), (3:1))@LM0");
}

TEST(Examples, RowsAndBlocksOfFourBySix) {
  const Layout rows = parse("((4_PE:1), (6:1))@LM0");
  const Layout blocks = parse("((2_PE:2, 2:3), (2_PE:1, 3:1))@LM0");
  EXPECT_EQ(split(rows, 1, {2, 3}).to_string(), "((4_PE:1), (2:3), (3:1))@LM0");
  EXPECT_EQ(transposed(rows, {1, 0}).to_string(), "((6:1), (4_PE:1))@LM0");
  EXPECT_EQ(why_incompatible(rows, blocks), "axis 0: index 1 is at PE 1 on the left, at PE 0 on the right");
  EXPECT_EQ(why_incompatible(blocks, blocks), "");
  // The same places at other addresses are compatible; a copy is not needed to add them.
  EXPECT_EQ(why_incompatible(blocks, parse("((2_PE:2, 2:1), (2_PE:1, 3:2))@LM1")), "");
  EXPECT_FALSE(is_plain_copy(blocks, parse("((2_PE:2, 2:1), (2_PE:1, 3:2))@LM1")));
  EXPECT_TRUE(is_plain_copy(blocks, parse("((2_PE:2, 2:3), (2_PE:1, 3:1))@GRF0")));
}

TEST(Examples, ChannelsSplitOverTwoLevels) {
  // N H W C/c c with c over the PEs and the words: shape (1, 28, 28, 512) of 32-bit elements as NCHWc.
  const Layout nchwc = parse("((), (8_L2B:1, 8_L1B:1), (28:28), (28:1), (4_PE:1, 2_W:1))@LM0");
  const Layout merged_c = merged(transposed(nchwc, {0, 2, 3, 1, 4}), {1, 28, 28, 64, 8}, 3);
  EXPECT_EQ(merged_c.to_string(), "((), (28:28), (28:1), (8_L2B:1, 8_L1B:1, 4_PE:1, 2_W:1))@LM0");
  EXPECT_EQ(split(merged_c, 3, {64, 8}).axes()[3], nchwc.axes()[1]);
  const Footprint size = footprint(nchwc, 32);
  EXPECT_EQ(size.long_words, 28 * 28);
  EXPECT_EQ(size.instances(), 8 * 8 * 4);
  EXPECT_DOUBLE_EQ(size.density, 1);
}

TEST(Examples, AMatrixOperandOfTheMau) {
  // Section 8.3 of the ISA page: element j of a row in single precision is at PE j / 2, word j % 2.
  const Layout rows = parse("((8:1), (4_PE:1, 2_W:1)) x [16_MAB:1]@LM0");
  EXPECT_EQ(rows.place({3, 5})[Level::kPe], 2);
  EXPECT_EQ(rows.place({3, 5})[Level::kWord], 1);
  EXPECT_EQ(footprint(rows, 32).mabs, 16);
  // A vector that every MAB has can be added to what the product leaves.
  EXPECT_EQ(why_incompatible(parse("((16_MAB:1), (4_PE:1, 2_W:1))@LM0"),
                             parse("((), (4_PE:1, 2_W:1)) x [16_MAB:1]@LM1")),
            "");
  EXPECT_THAT(
      why_incompatible(parse("((16_MAB:1), (4_PE:1, 2_W:1))@LM0"), parse("((), (4_PE:1, 2_W:1))@LM1")),
      HasSubstr("at MAB 1 of which the right has none"));
}

// ---- views

TEST(Views, PaddingStaysAtTheEnd) {
  const Layout padded = parse("((4_PE:1, 4:1))@LM0");  // 16 places for 14 elements
  EXPECT_EQ(split(padded, 0, {7, 2}).to_string(), "((4_PE:1, 2:2), (2:1))@LM0");
  EXPECT_THAT(user_error([&] {
                merged(parse("((2:4), (4_PE:1))@LM0"), {2, 3}, 0);
              }),
              HasSubstr("axis 1 is padded from 3 to 4"));
  EXPECT_EQ(merged(parse("((2:4), (4_PE:1))@LM0"), {1, 3}, 0).to_string(), "((2:4, 4_PE:1))@LM0");
}

TEST(Views, ErrorsNameTheFactor) {
  const Layout layout = parse("((2_MAB:1, 6_PE:1, 2:1))@LM0");
  EXPECT_THAT(user_error([&] {
                split(layout, 0, {3, 8});
              }),
              HasSubstr("falls into factor 1 of axis 0 (6_PE:1): 4 is no multiple or divisor of 6"));
  EXPECT_THAT(user_error([&] { split(layout, 0, {3, 48}); }), HasSubstr("has 24 indices"));
  EXPECT_THAT(user_error([&] { transposed(layout, {1}); }), HasSubstr("allowed: an order of its 1 axes"));
  EXPECT_THAT(user_error([&] { slice(layout, 0, 3, 6); }), HasSubstr("over the end of factor 2 (2:1)"));
  EXPECT_THAT(user_error([&] { slice(layout, 0, 20, 6); }), HasSubstr("inside 0 to 23"));
  EXPECT_THAT(user_error([&] { reshaped(layout, {24}, {5, 5}); }), HasSubstr("has 24 elements"));
  EXPECT_THAT(user_error([&] { check_lengths(layout, {25}); }), HasSubstr("allowed: 1 to 24"));
}

// ---- against brute force

/// A random layout whose places are different: strides of a level grow with the factors already made.
Layout random_layout(std::mt19937& random, int most_axes = 3) {
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  std::array<int64_t, kLevelCount> next;
  next.fill(1);
  int64_t places = 1;
  constexpr int64_t kMostPlaces = 100;  // all of them are looked at
  const auto make_factor = [&] {
    Factor factor;
    factor.size = pick(0, 3) == 0 ? pick(1, 6) : int64_t{1} << pick(0, 2);
    if (places * factor.size > kMostPlaces) factor.size = 1;
    places *= factor.size;
    factor.level = static_cast<Level>(pick(0, kLevelCount - 1));
    factor.stride = next[static_cast<size_t>(factor.level)] * (pick(0, 3) == 0 ? 2 : 1);
    next[static_cast<size_t>(factor.level)] = factor.stride * factor.size;
    return factor;
  };
  std::vector<std::vector<Factor>> axes(static_cast<size_t>(pick(0, most_axes)));
  for (auto& factors : axes) {
    for (int64_t k = pick(0, 3); k > 0; --k) factors.push_back(make_factor());
    if (pick(0, 1) == 0) std::ranges::shuffle(factors, random);
  }
  std::vector<Factor> replication;
  for (int64_t k = pick(0, 5) - 3; k > 0; --k) replication.push_back(make_factor());
  return Layout(axes, static_cast<Memory>(pick(0, 3)), replication, static_cast<Padding>(pick(0, 4)));
}
Lengths random_lengths(const Layout& layout, std::mt19937& random) {
  Lengths lengths = extents(layout);
  for (int64_t& length : lengths) {
    if (random() % 3 == 0) length = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(length));
  }
  return lengths;
}
/// The same mapping in other words: factors split in two, factors of one added.
Layout other_words(const Layout& layout, std::mt19937& random) {
  std::vector<std::vector<Factor>> axes;
  for (const auto& factors : layout.axes()) {
    axes.emplace_back();
    for (const Factor& factor : factors) {
      if (factor.size % 2 == 0 && random() % 2 == 0) {
        axes.back().push_back({2, factor.level, factor.stride * (factor.size / 2)});
        axes.back().push_back({factor.size / 2, factor.level, factor.stride});
      } else {
        axes.back().push_back(factor);
      }
      if (random() % 4 == 0) axes.back().push_back({1, Level::kMab, 7});
    }
  }
  return Layout(axes, layout.memory(), layout.replication(), layout.padding());
}

const int kRandomLayouts = isa::random_cases(8000, 1000, 20000);

TEST(BruteForce, PlacesElementsAndEquality) {
  std::mt19937 random(1);
  for (int round = 0; round < kRandomLayouts; ++round) {
    const Layout layout = random_layout(random);
    ASSERT_EQ(Layout::parse(layout.to_string()), layout);
    std::map<std::array<int64_t, kLevelCount>, Index> owner;
    const std::vector<Coordinates> replicas = layout.replica_offsets();
    Coordinates largest;
    for_each_index(extents(layout), [&](const Index& index) {
      for (const Coordinates& offset : replicas) {
        const Coordinates place = plus(layout.place(index), offset);
        ASSERT_TRUE(owner.emplace(place.at, index).second) << layout.to_string();
        for (size_t level = 0; level < kLevelCount; ++level)
          largest.at[level] = std::max(largest.at[level], place.at[level]);
      }
    });
    for (const auto& [place, index] : owner) {
      const auto found = layout.element(Coordinates{place});
      ASSERT_TRUE(found.has_value()) << layout.to_string();
      ASSERT_EQ(*found, index) << layout.to_string();
    }
    for (size_t level = 0; level < kLevelCount; ++level) {
      ASSERT_EQ(layout.level_extent(static_cast<Level>(level)), largest.at[level] + 1);
      Coordinates outside = largest;
      outside.at[level] += 1;
      ASSERT_EQ(layout.element(outside), std::nullopt) << layout.to_string();
    }
    ASSERT_TRUE(layout.equivalent(other_words(layout, random)));
    ASSERT_TRUE(layout.normalized().equivalent(layout));
    const Layout other = random_layout(random);
    bool same = layout.memory() == other.memory() && layout.padding() == other.padding() &&
                extents(layout) == extents(other);
    if (same) {
      const auto places = [](const Layout& each, const Index& index) {
        std::set<std::array<int64_t, kLevelCount>> result;
        for (const Coordinates& offset : each.replica_offsets())
          result.insert(plus(each.place(index), offset).at);
        return result;
      };
      for_each_index(extents(layout), [&](const Index& index) {
        same = same && places(layout, index) == places(other, index);
      });
    }
    ASSERT_EQ(layout.equivalent(other), same) << layout.to_string() << " and " << other.to_string();
  }
}

TEST(BruteForce, Footprints) {
  std::mt19937 random(2);
  for (int round = 0; round < kRandomLayouts / 4; ++round) {
    const Layout layout = random_layout(random);
    std::array<std::set<int64_t>, kLevelCount> used;
    int64_t elements = 0;
    for_each_index(extents(layout), [&](const Index& index) {
      for (const Coordinates& offset : layout.replica_offsets()) {
        ++elements;
        const Coordinates place = plus(layout.place(index), offset);
        for (size_t level = 0; level < kLevelCount; ++level) used[level].insert(place.at[level]);
      }
    });
    const Footprint size = footprint(layout, 32);
    ASSERT_EQ(size.elements, elements);
    ASSERT_EQ(size.long_words, *used[static_cast<size_t>(Level::kAddress)].rbegin() + 1);
    ASSERT_EQ(size.pes, static_cast<int64_t>(used[static_cast<size_t>(Level::kPe)].size()));
    ASSERT_EQ(size.l2bs, static_cast<int64_t>(used[static_cast<size_t>(Level::kL2b)].size()));
  }
}

TEST(BruteForce, TransposeAndSlice) {
  std::mt19937 random(3);
  int slices = 0;
  for (int round = 0; round < kRandomLayouts; ++round) {
    const Layout layout = random_layout(random);
    const size_t rank = layout.axes().size();
    if (rank == 0) continue;
    std::vector<int> order(rank);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, random);
    const Layout turned = transposed(layout, order);
    const auto axis = static_cast<int>(random() % rank);
    const int64_t extent = layout.extent(static_cast<size_t>(axis));
    const auto begin = static_cast<int64_t>(random() % static_cast<uint64_t>(extent));
    const int64_t step = 1 + static_cast<int64_t>(random() % 4);
    const int64_t most = (extent - 1 - begin) / step + 1;
    const int64_t count = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(most));
    std::optional<Part> part;
    try {
      part = slice(layout, axis, begin, count, step);
      ++slices;
    } catch (const isa::UserError&) {
      // Only where no list of factors can say it: the places of the slice are not those of any digits.
    }
    for_each_index(extents(layout), [&](const Index& index) {
      Index turned_index;
      for (const int from : order) turned_index.push_back(index[static_cast<size_t>(from)]);
      ASSERT_EQ(turned.place(turned_index), layout.place(index));
      if (!part) return;
      const int64_t offset = index[static_cast<size_t>(axis)] - begin;
      if (offset < 0 || offset % step != 0 || offset / step >= count) return;
      Index in_part = index;
      in_part[static_cast<size_t>(axis)] = offset / step;
      ASSERT_EQ(plus(part->layout.place(in_part), part->base), layout.place(index))
          << layout.to_string() << " axis " << axis << " from " << begin << " by " << step;
    });
    if (part) {
      ASSERT_EQ(part->layout.extent(static_cast<size_t>(axis)), count);
    }
  }
  EXPECT_GT(slices, kRandomLayouts / 4);
}

TEST(BruteForce, Reshape) {
  std::mt19937 random(4);
  int done = 0;
  for (int round = 0; round < kRandomLayouts; ++round) {
    const Layout layout = random_layout(random);
    const Lengths from = random_lengths(layout, random);
    // Some factorization of the number of elements.
    int64_t left = std::accumulate(from.begin(), from.end(), int64_t{1}, std::multiplies<>());
    Lengths to;
    while (left > 1) {
      int64_t size = 1 + static_cast<int64_t>(random() % 8);
      while (left % size != 0) --size;
      if (size == 1 && random() % 3 != 0) size = left;
      to.push_back(size);
      left /= size;
    }
    if (random() % 4 == 0) to.push_back(1);
    std::optional<Layout> result;
    try {
      result = reshaped(layout, from, to);
    } catch (const isa::UserError&) {
      continue;
    }
    ++done;
    ASSERT_EQ(result->axes().size(), to.size());
    for_each_index(from, [&](const Index& index) {
      ASSERT_EQ(result->place(index_of(number_of(index, from), to)), layout.place(index))
          << layout.to_string() << " as " << result->to_string();
    });
    // What was padding stays padding: no element of the new shape lies there.
    for (size_t axis = 0; axis < to.size(); ++axis) ASSERT_GE(result->extent(axis), to[axis]);
  }
  EXPECT_GT(done, kRandomLayouts / 3);
}

TEST(BruteForce, CompatibleOperandsAndPlainCopies) {
  std::mt19937 random(5);
  int compatible = 0;
  for (int round = 0; round < kRandomLayouts; ++round) {
    const Layout left = random_layout(random, 2);
    Layout right = other_words(left, random);
    switch (random() % 4) {
      case 0:  // other addresses
      {
        std::vector<std::vector<Factor>> axes = right.axes();
        for (auto& factors : axes) {
          for (Factor& factor : factors) factor.stride *= factor.level == Level::kAddress ? 3 : 1;
        }
        right = Layout(axes, Memory::kGrf1, right.replication(), right.padding());
      } break;
      case 1:  // one factor elsewhere
      {
        std::vector<std::vector<Factor>> axes = right.axes();
        for (auto& factors : axes) {
          for (Factor& factor : factors) {
            if (random() % 4 == 0) factor.level = static_cast<Level>(random() % kLevelCount);
          }
        }
        right = Layout(axes, right.memory(), right.replication(), right.padding());
      } break;
      case 2:
        right = random_layout(random, 2);
        break;
      default:
        break;
    }
    if (left.axes().size() != right.axes().size()) {
      ASSERT_NE(why_incompatible(left, right), "");
      continue;
    }
    // All (element, PE and word) pairs of each side, elements broadcast to the common shape.
    Lengths shape;
    bool comparable = true;
    for (size_t axis = 0; axis < left.axes().size(); ++axis) {
      const int64_t a = left.extent(axis);
      const int64_t b = right.extent(axis);
      comparable = comparable && (a == b || a == 1 || b == 1);
      shape.push_back(std::max(a, b));
    }
    if (!comparable) continue;
    const auto without_address = [](Coordinates place) {
      place[Level::kAddress] = 0;
      return place.at;
    };
    bool same = true;
    for_each_index(shape, [&](const Index& index) {
      std::array<std::set<std::array<int64_t, kLevelCount>>, 2> places;
      for (const Layout* each : std::initializer_list<const Layout*>{&left, &right}) {
        Index own = index;
        for (size_t axis = 0; axis < own.size(); ++axis) {
          if (each->extent(axis) == 1) own[axis] = 0;
        }
        for (const Coordinates& offset : each->replica_offsets())
          places[each == &right].insert(without_address(plus(each->place(own), offset)));
      }
      // A side that is broadcast has more than this element needs.
      const bool left_is_one = [&] {
        for (size_t axis = 0; axis < shape.size(); ++axis)
          if (left.extent(axis) == 1 && shape[axis] > 1) return true;
        return false;
      }();
      const bool right_is_one = [&] {
        for (size_t axis = 0; axis < shape.size(); ++axis)
          if (right.extent(axis) == 1 && shape[axis] > 1) return true;
        return false;
      }();
      if (!left_is_one && !right_is_one) {
        same = same && places[0] == places[1];
      } else if (right_is_one && !left_is_one) {
        same = same && std::ranges::includes(places[1], places[0]);
      } else if (left_is_one && !right_is_one) {
        same = same && std::ranges::includes(places[0], places[1]);
      }
    });
    const std::string why = why_incompatible(left, right);
    if (why.empty()) {
      ++compatible;
      ASSERT_TRUE(same) << left.to_string() << " and " << right.to_string();
    } else {
      // Broadcast sides may have spare copies that a stricter reader wouldn't mind.
      bool broadcast = false;
      for (size_t axis = 0; axis < shape.size(); ++axis)
        broadcast = broadcast || left.extent(axis) != right.extent(axis);
      ASSERT_TRUE(broadcast || !same) << left.to_string() << " and " << right.to_string() << ": " << why;
    }
    if (is_plain_copy(left, right)) {
      for_each_index(extents(left),
                     [&](const Index& index) { ASSERT_EQ(left.place(index), right.place(index)); });
    }
  }
  EXPECT_GT(compatible, kRandomLayouts / 4);
}

}  // namespace
}  // namespace kodama::layout
