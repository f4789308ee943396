#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <tuple>

#include "isa/hazards.h"
#include "layout/moves/element_router.h"
#include "layout/moves/gateway.h"
#include "layout/moves/masked_writes.h"
#include "simulator/golden/differential.h"

/// The parts of conversions that conversions use without showing them: masked writes, the element router, and
/// gateways. Each one's code runs on the engine and on the golden model, from memories full of edge values,
/// and what it does is compared place by place with what its header says.
namespace kodama::layout {
namespace {

using isa::Space;
using simulator::Machine;
using simulator::Place;
using simulator::golden::GoldenMachine;
using ::testing::HasSubstr;

const isa::Chip& chip() {
  static const isa::Chip tiny = [] {
    isa::Chip small = isa::find_chip("tiny");
    small.memory.dram_lw = 1 << 11;
    small.memory.pdm_lw = 1 << 11;
    small.memory.l2bm_lw = 1 << 11;
    small.memory.l1bm_lw = 1 << 10;
    small.memory.lm_words = 1 << 10;
    return small;
  }();
  return tiny;
}
Space space_of(Memory memory) {
  static const std::map<Memory, Space> kSpaces{{Memory::kLm0, Space::kLm0},   {Memory::kLm1, Space::kLm1},
                                               {Memory::kGrf0, Space::kGrf0}, {Memory::kGrf1, Space::kGrf1},
                                               {Memory::kL1bm, Space::kL1bm}, {Memory::kL2bm, Space::kL2bm},
                                               {Memory::kPdm, Space::kPdm},   {Memory::kDram, Space::kDram}};
  return kSpaces.at(memory);
}

/// Both machines, before and after a program.
class Pair {
 public:
  explicit Pair(const isa::Program& program) : before_(chip()), engine_(chip()), golden_(chip()) {
    GoldenMachine other(chip());
    simulator::golden::fill_with_edge_values(chip(), 5, before_, other);
    simulator::golden::fill_with_edge_values(chip(), 5, engine_, golden_);
    const auto hazards = isa::find_hazards(program, chip());
    EXPECT_TRUE(hazards.empty()) << hazards[0].text;
    engine_.run(program);
    golden_.run(program);
    EXPECT_EQ(simulator::golden::memory_difference(chip(), engine_, golden_), "");
  }
  /// A long word; `pe` as in PePlace.
  uint64_t before(int64_t pe, Memory memory, int64_t lw) const {
    return before_.read(space_of(memory), place(pe), 2 * lw);
  }
  uint64_t after(int64_t pe, Memory memory, int64_t lw) const {
    return engine_.read(space_of(memory), place(pe), 2 * lw);
  }
  /// Of memories above the PEs.
  uint64_t upper(bool is_after, Memory memory, const Place& at, int64_t lw) const {
    return (is_after ? engine_ : before_).read(space_of(memory), at, lw);
  }

 private:
  static Place place(int64_t pe) {
    const auto take = [&](int64_t count) {
      const auto part = static_cast<int>(pe % count);
      pe /= count;
      return part;
    };
    Place at;
    at.pe = take(isa::kPePerMab);
    at.mab = take(chip().mab_per_l1b);
    at.l1b = take(chip().l1b_per_l2b);
    at.l2b = take(chip().l2b_per_group);
    at.group = static_cast<int>(pe);
    return at;
  }

  Machine before_;
  Machine engine_;
  GoldenMachine golden_;
};

/// The code of a test, and memory to work in that doesn't touch the first `reserved` LW of LM0 and LM1.
struct Shop {
  explicit Shop(int64_t reserved = 64) : scratch(chip()), code(chip(), scratch) {
    for (const Memory memory : {Memory::kLm0, Memory::kLm1}) scratch.reserve({memory, 0, reserved});
  }
  Pair run() {
    code.wait_all();
    return Pair(code.pack());
  }
  ScratchSpace scratch;
  Code code;
};

/// Bits of the elements `words` of a long word, counted from the top.
uint64_t bits_of(uint32_t words, int element_bits) {
  uint64_t bits = 0;
  for (int word = 0; word < 64 / element_bits; ++word) {
    if ((words >> word & 1) == 0) continue;
    const int low = 64 - element_bits * (word + 1);
    bits |= (element_bits == 64 ? ~uint64_t{0} : (uint64_t{1} << element_bits) - 1) << low;
  }
  return bits;
}

TEST(MaskedWritesTest, OnlyTheElementsOfOnePe) {
  constexpr uint64_t kValue = 0x1234567812345678;
  // Of the last PE of an L1B, of another L1B, L2B and group; some and all elements of every size.
  for (const auto& [pe, element_bits, words] :
       {std::tuple{15, 16, 0b0101U}, {16, 16, 0b1000U}, {37, 32, 0b01U}, {127, 32, 0b10U}, {64, 64, 0b1U}}) {
    SCOPED_TRACE(testing::Message() << "PE " << pe << ", elements of " << element_bits << " bits");
    Shop shop;
    MaskedWrites writes(shop.code, element_bits);
    const isa::Operand source = shop.code.new_register(Memory::kGrf0);
    shop.code.load(0x12345678, source);
    writes.write(source, Memory::kLm0, {0, 3, 5, 6}, writes.mask_of_pe(pe, words));
    const Pair pair = shop.run();
    for (int64_t each = 0; each < 128; ++each) {
      for (int64_t lw = 0; lw < 8; ++lw) {
        const bool written = each == pe && (lw == 0 || lw == 3 || lw == 5 || lw == 6);
        const uint64_t bits = written ? bits_of(words, element_bits) : 0;
        const uint64_t old = pair.before(each, Memory::kLm0, lw);
        ASSERT_EQ(pair.after(each, Memory::kLm0, lw), (old & ~bits) | (kValue & bits)) << each << ", " << lw;
      }
    }
  }
}

/// Bits of the number that don't count choose many PEs.
TEST(MaskedWritesTest, SetsOfPes) {
  Shop shop;
  MaskedWrites writes(shop.code, 32);
  const isa::Operand source = shop.code.new_register(Memory::kGrf0);
  shop.code.load(7, source);
  // Four bits of PE and MAB, one of L1B, two of L2B: all second MABs, and all PEs of the first L2B's second
  // L1B.
  writes.write(source, Memory::kLm1, {0, 0, 0, 0}, writes.mask(0b0000100, 0b0001100, 0b11));
  writes.write(source, Memory::kLm1, {1, 1, 1, 1}, writes.mask(0b0010000, 0b1110000, 0b11));
  writes.write(source, Memory::kLm1, {2, 2, 2, 2}, 0);
  const Pair pair = shop.run();
  for (int64_t pe = 0; pe < 128; ++pe) {
    for (const auto& [lw, chosen] :
         {std::pair{0, pe / 4 % 4 == 1}, {1, pe / 16 == 1}, {2, true}, {3, false}}) {
      const uint64_t old = pair.before(pe, Memory::kLm1, lw);
      ASSERT_EQ(pair.after(pe, Memory::kLm1, lw), chosen ? 0x0000000700000007 : old) << pe << ", " << lw;
    }
  }
}

/// PEs of one MAB are told apart by fewer bits; those that aren't named may be written, too.
TEST(MaskedWritesTest, ToldApart) {
  Shop shop;
  MaskedWrites writes(shop.code, 64);
  writes.tell_apart({21, 22});
  const isa::Operand source = shop.code.new_register(Memory::kGrf0);
  shop.code.load(1, source);
  writes.write(source, Memory::kLm0, {0, 0, 0, 0}, writes.mask_of_pe(21, 1));
  const Pair pair = shop.run();
  EXPECT_EQ(pair.after(21, Memory::kLm0, 0), 0x0000000100000001U);
  EXPECT_EQ(pair.after(22, Memory::kLm0, 0), pair.before(22, Memory::kLm0, 0));
}

TEST(MaskedWritesTest, FillLeavesElementsAlone) {
  for (const int element_bits : {16, 32, 64}) {
    SCOPED_TRACE(element_bits);
    const uint64_t pattern = *padding_pattern(Padding::kMinusInfinity, element_bits);
    const int64_t count = 64 / element_bits;
    std::vector<PePlace> padding;
    std::vector<PePlace> elements;
    // A triangle: the further a PE, the fewer elements; and a long word that is padding everywhere.
    for (int64_t pe = 0; pe < 128; ++pe) {
      for (int64_t lw = 0; lw < 6; ++lw) {
        for (int64_t word = 0; word < count; ++word)
          (lw * count + word >= 5 * count - pe / 16 ? padding : elements).push_back({pe, lw, word});
      }
    }
    Shop shop;
    MaskedWrites(shop.code, element_bits).fill(padding, elements, Memory::kLm1, pattern);
    const Pair pair = shop.run();
    const auto differences = [&](const std::vector<PePlace>& places, bool padded) {
      int64_t found = 0;
      for (const PePlace& place : places) {
        const uint64_t bits = bits_of(1U << place.word, element_bits);
        const uint64_t wanted = padded ? pattern : pair.before(place.pe, Memory::kLm1, place.address);
        found += ((pair.after(place.pe, Memory::kLm1, place.address) ^ wanted) & bits) != 0 ? 1 : 0;
      }
      return found;
    };
    EXPECT_EQ(differences(padding, true), 0);
    EXPECT_EQ(differences(elements, false), 0);
  }
  EXPECT_EQ(padding_pattern(Padding::kUndefined, 32), std::nullopt);
  EXPECT_EQ(padding_pattern(Padding::kOne, 16), 0x3e003e003e003e00U);
  EXPECT_EQ(padding_pattern(Padding::kPlusInfinity, 32), 0x7f8000007f800000U);
}

/// Elements, from LM0 to LM1: within a PE, to another PE of the MAB, another MAB, L1B, L2B and group, with a
/// turn in the long word and without, one to two places and two to one long word.
TEST(ElementRouterTest, EveryDistance) {
  for (const int element_bits : {16, 32, 64}) {
    SCOPED_TRACE(element_bits);
    const int64_t last = 64 / element_bits - 1;
    const std::vector<ElementMove> near{{{3, 0, 0}, {3, 9, last}},  {{3, 0, 0}, {2, 1, 0}},
                                        {{5, 2, last}, {14, 2, 0}}, {{5, 3, last}, {14, 3, last}},
                                        {{20, 1, 0}, {4, 4, last}}, {{33, 7, 0}, {63, 0, 0}}};
    std::vector<ElementMove> far = near;
    far.insert(far.end(),
               {{{1, 1, last}, {40, 6, 0}}, {{1, 1, 0}, {100, 6, 0}}, {{127, 9, 0}, {0, 5, last}}});
    for (const std::vector<ElementMove>& moves : {near, far}) {
      Shop shop;
      emit_routes(moves, Memory::kLm0, Memory::kLm1, element_bits, shop.code);
      const Pair pair = shop.run();
      std::map<std::pair<int64_t, int64_t>, uint64_t> expected;
      for (const ElementMove& move : moves) {
        const auto shift = [&](const PePlace& place) {
          return 64 - element_bits * (static_cast<int>(place.word) + 1);
        };
        const uint64_t element =
            pair.before(move.from.pe, Memory::kLm0, move.from.address) >> shift(move.from);
        const auto [lw, is_new] = expected.try_emplace({move.to.pe, move.to.address}, 0);
        if (is_new) lw->second = pair.before(move.to.pe, Memory::kLm1, move.to.address);
        const uint64_t bits = bits_of(1U << move.to.word, element_bits);
        lw->second = (lw->second & ~bits) | (element << shift(move.to) & bits);
      }
      for (int64_t pe = 0; pe < 128; ++pe) {
        for (int64_t lw = 0; lw < 16; ++lw) {
          ASSERT_EQ(pair.after(pe, Memory::kLm0, lw), pair.before(pe, Memory::kLm0, lw)) << "the source";
          const auto known = expected.find({pe, lw});
          const bool is_target =
              std::ranges::any_of(moves, [&](const auto& move) { return move.to.address == lw; });
          if (known == expected.end() && is_target && element_bits == 64) continue;  // it may be anything
          ASSERT_EQ(pair.after(pe, Memory::kLm1, lw),
                    known != expected.end() ? known->second : pair.before(pe, Memory::kLm1, lw))
              << "PE " << pe << ", LW " << lw;
        }
      }
    }
  }
}

TEST(ElementRouterTest, WhereSourceAndTargetOverlap) {
  // Two elements change places: both are read before one is written.
  const std::vector<ElementMove> exchange{{{3, 0, 0}, {17, 0, 0}}, {{17, 0, 0}, {3, 0, 0}}};
  Shop shop;
  ASSERT_TRUE(routes_read_before_they_write(exchange, shop.code));
  emit_routes(exchange, Memory::kLm0, Memory::kLm0, 64, shop.code);
  const Pair pair = shop.run();
  EXPECT_EQ(pair.after(3, Memory::kLm0, 0), pair.before(17, Memory::kLm0, 0));
  EXPECT_EQ(pair.after(17, Memory::kLm0, 0), pair.before(3, Memory::kLm0, 0));
}

/// One axis of 2^bits doubles in order in a memory above the PEs.
BitView view_of(const std::string& from, const std::string& to, int64_t length) {
  std::string why;
  auto view = bit_view(Layout::parse(from), Layout::parse(to), {length}, 64, chip(), &why);
  EXPECT_TRUE(view.has_value()) << why;
  return std::move(*view);
}
/// A place of the PEs for what a gateway leaves in the address, in order.
Placement pe_placement(const BitView& view, const Gateway& gateway) {
  Placement at;
  at.memory = Memory::kLm0;
  at.slots = gateway.slots;
  at.stride.assign(static_cast<size_t>(view.bit_count()), 0);
  int64_t next = 1;
  for (int bit = 0; bit < view.bit_count(); ++bit) {
    if ((view.address_bits(at.slots) >> bit & 1) == 0) continue;
    at.stride[static_cast<size_t>(bit)] = next;
    next *= 2;
  }
  return at;
}
/// Calls visit(upper place, upper LW, PE, its LW) for every place of every element.
void for_each_place(const BitView& view, const Placement& upper, const Placement& pe,
                    const std::function<void(const Coordinates&, int64_t, int64_t, int64_t)>& visit) {
  const auto coordinates = [&](const Placement& at, BitMask value) {
    std::vector<Coordinates> all(1);
    for (int slot = 0; slot < view.shape.count(); ++slot) {
      const int bit = at.slots[static_cast<size_t>(slot)];
      const int64_t step = int64_t{1} << view.shape.power(slot);
      const size_t size = all.size();
      if (bit >= 0 && (value >> bit & 1) != 0) {
        for (Coordinates& each : all) each[view.shape.level(slot)] += step;
      } else if (bit == kEverywhere) {
        for (size_t k = 0; k < size; ++k) {
          all.push_back(all[k]);
          all.back()[view.shape.level(slot)] += step;
        }
      }
    }
    return all;
  };
  for (BitMask value = 0; value < BitMask{1} << view.bit_count(); ++value) {
    for (const Coordinates& above : coordinates(upper, value)) {
      for (const Coordinates& below : coordinates(pe, value)) {
        visit(above, address(upper, value & view.address_bits(upper.slots)), pe_place(below, chip()).pe,
              address(pe, value & view.address_bits(pe.slots)));
      }
    }
  }
}
Place upper_place(const Coordinates& at) {
  Place place;
  place.group = static_cast<int>(at[Level::kL2b]) / chip().l2b_per_group;
  place.l2b = static_cast<int>(at[Level::kL2b]) % chip().l2b_per_group;
  place.l1b = static_cast<int>(at[Level::kL1b]);
  return place;
}

struct Way {
  const char* name;
  std::string upper;
  std::string pe;
};
/// A tensor in order in each memory above the PEs; where it could be in the PEs.
const std::vector<Way>& ways() {
  static const std::vector<Way> kWays{
      {"L1BM", "((256:1))@L1BM", "((256:1))@LM1"},
      {"L1BM, an L1B each", "((2_L1B:1, 128:1))@L1BM", "((2_L1B:1, 128:1))@LM1"},
      {"L2BM", "((512:1))@L2BM", "((512:1))@LM1"},
      {"PDM", "((512:1))@PDM", "((512:1))@LM1"},
      {"DRAM", "((512:1))@DRAM", "((512:1))@LM1"},
      {"DRAM, over the L2Bs", "((512:1))@DRAM", "((4_L2B:1, 128:1))@LM1"},
  };
  return kWays;
}

TEST(GatewayTest, EntryBringsEveryElement) {
  for (const Way& way : ways()) {
    SCOPED_TRACE(way.name);
    const int64_t length =
        way.upper.find("256") != std::string::npos || way.upper.find("128") != std::string::npos ? 256 : 512;
    const BitView view = view_of(way.upper, way.pe, length);
    std::string why;
    const auto found = gateway(view, view.from, view.to.slots, chip(), false, &why);
    ASSERT_TRUE(found.has_value()) << why;
    const Placement pe = pe_placement(view, *found);
    Shop shop(256);
    shop.scratch.reserve({view.from.memory, 0, 512});
    emit_entry(view, *found, pe, shop.code);
    const Pair pair = shop.run();
    for_each_place(view, view.from, pe, [&](const Coordinates& above, int64_t from, int64_t to, int64_t lw) {
      ASSERT_EQ(pair.after(to, Memory::kLm0, lw),
                pair.upper(false, view.from.memory, upper_place(above), from))
          << "LW " << from << " to PE " << to;
    });
  }
}

TEST(GatewayTest, ExitBringsEveryElementAndLeavesTheRest) {
  for (const Way& way : ways()) {
    SCOPED_TRACE(way.name);
    const int64_t length =
        way.upper.find("256") != std::string::npos || way.upper.find("128") != std::string::npos ? 256 : 512;
    const BitView view = view_of(way.pe, way.upper, length);
    std::string why;
    const auto found = gateway(view, view.to, view.from.slots, chip(), true, &why);
    ASSERT_TRUE(found.has_value()) << why;
    const Placement pe = pe_placement(view, *found);
    const int64_t end = upper_end(view, *found, chip());
    Shop shop(256);
    shop.scratch.reserve({view.to.memory, 0, 1 << 10});
    emit_exit(view, *found, pe, shop.code);
    const Pair pair = shop.run();
    for_each_place(view, view.to, pe, [&](const Coordinates& above, int64_t to, int64_t from, int64_t lw) {
      ASSERT_EQ(pair.upper(true, view.to.memory, upper_place(above), to), pair.before(from, Memory::kLm0, lw))
          << "PE " << from << " to LW " << to;
    });
    ASSERT_GE(end, length / 2);
    for (int64_t lw = end; lw < 1 << 10; ++lw) {
      ASSERT_EQ(pair.upper(true, view.to.memory, {}, lw), pair.upper(false, view.to.memory, {}, lw)) << lw;
    }
  }
}

/// What the instructions make of an address: l1bmd deals the lowest bits of L1BM to the PEs of an L1B, l2bmd
/// those above the third of L2BM to the L1Bs.
TEST(GatewayTest, AddressBitsChooseTheSlots) {
  const BitView l1bm = view_of("((256:1))@L1BM", "((256:1))@LM1", 256);
  const SlotState slots = gateway(l1bm, l1bm.from, l1bm.to.slots, chip(), false)->slots;
  for (int k = 0; k < l1bm.shape.lane_bits(); ++k)
    EXPECT_EQ(slots[static_cast<size_t>(l1bm.shape.first(Level::kPe) + k)], k);
  const BitView l2bm = view_of("((512:1))@L2BM", "((512:1))@LM1", 512);
  const SlotState below = gateway(l2bm, l2bm.from, l2bm.to.slots, chip(), false)->slots;
  for (int k = 0; k < 3; ++k) EXPECT_EQ(below[static_cast<size_t>(l2bm.shape.first(Level::kPe) + k)], k);
  EXPECT_EQ(below[static_cast<size_t>(l2bm.shape.first(Level::kL1b))], 3);
  EXPECT_EQ(below[static_cast<size_t>(l2bm.shape.first(Level::kPe) + 3)], 4);
}

TEST(GatewayTest, SaysWhyNot) {
  // In DRAM with a gap after every double, no run of long words has them.
  const BitView view = view_of("((512:3))@DRAM", "((512:1))@LM1", 512);
  std::string why;
  EXPECT_FALSE(gateway(view, view.from, view.to.slots, chip(), false, &why).has_value());
  EXPECT_NE(why, "");
}

}  // namespace
}  // namespace kodama::layout
