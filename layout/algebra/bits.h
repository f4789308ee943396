#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "isa/chip.h"
#include "layout/algebra/algebra.h"
#include "layout/algebra/layout.h"

/// Two layouts of one tensor, written in the bits of its indices.
///
/// The digits of both layouts are cut at each other's boundaries, and each digit is written in binary. Then a
/// layout is a statement about bits: this bit of this digit chooses bit 1 of the MAB, that one adds 64 to the
/// address. A conversion moves bits between *slots*, the bits of the coordinates of word, PE, MAB, L1B and
/// L2B, and the address.
///
/// Example, (64, 64) doubles on mncore2, rows over the L1Bs to columns over the L1Bs:
///
///     bit          i0 i1 i2 i3 i4 i5   j0 j1 j2 j3 j4 j5
///     from         B0 B1 B2 C0 C1 C2   P0 P1 M0 M1 M2 M3
///     to           P0 P1 M0 M1 M2 M3   B0 B1 B2 C0 C1 C2
///
/// A digit whose size is no power of two has values that mean nothing; wherever only whole digits lie in the
/// address they are left out, and elsewhere they are carried along as garbage.
namespace kodama::layout {

constexpr bool is_power_of_two(int64_t value) {
  return value > 0 && (value & (value - 1)) == 0;
}
/// Bits that the numbers below `size` have.
int bits_for(int64_t size);

/// index of an axis = sum of value * weight over its digits; 0 <= value < size.
struct Digit {
  int axis = 0;
  int64_t weight = 1;
  int64_t size = 1;
};
struct Bit {
  int digit = 0;
  int power = 0;  ///< adds 2^power to the digit
};
/// A set of bits, or one value for each of them: bit k of the number is bit k of the tensor.
using BitMask = uint64_t;

/// The slots of a chip: word, PE, MAB, L1B and L2B bits, in this order.
struct SlotShape {
  int word = 0;
  int mab = 0;
  int l1b = 0;
  int l2b = 0;
  static constexpr int kPeBits = 2;
  int first(Level level) const;  ///< slot of the least significant bit
  int count(Level level) const;
  int count() const { return word + kPeBits + mab + l1b + l2b; }
  Level level(int slot) const;
  int power(int slot) const { return slot - first(level(slot)); }
  /// Slots of PE and MAB together, which number the PEs of an L1B.
  int lane_bits() const { return kPeBits + mab; }
  bool operator==(const SlotShape&) const = default;
};

/// What a slot holds when it is no bit.
inline constexpr int8_t kNothing = -1;     ///< the tensor is at coordinate 0 of the bit
inline constexpr int8_t kEverywhere = -2;  ///< both coordinates hold the same
/// By slot: the number of a bit, kNothing or kEverywhere. Bits in no slot are in the address.
using SlotState = std::vector<int8_t>;

/// A state, and where in a memory its address bits lie.
struct Placement {
  Memory memory = Memory::kLm0;
  SlotState slots;
  int64_t base = 0;
  std::vector<int64_t> stride;  ///< by bit: LW; 0 where the bit is in a slot
};

/// What transfers between L2Bs cost on a chip, in steps.
struct TransferSteps {
  double start = 0;        ///< of one, to another group
  double issue = 0;        ///< from one to the next
  double lw_per_step = 1;  ///< through the narrowest port on the way
  int group_bits = 0;      ///< of the L2B slots, the upper ones
};

/// Both layouts of a conversion in bits.
struct BitView {
  std::vector<Digit> digits;
  std::vector<Bit> bits;
  SlotShape shape;
  TransferSteps transfer;
  Placement from;
  Placement to;
  /// By axis: indices from here on have no place in the target.
  std::vector<int64_t> extents;
  /// Whether every padded place of the target is a padded place of the source with the same content.
  bool padding_goes_along = false;

  int bit_count() const { return static_cast<int>(bits.size()); }
  /// Bits that are in no slot.
  BitMask address_bits(const SlotState& slots) const;
  /// All values of these bits that can mean something, the others 0.
  std::vector<BitMask> values(BitMask of) const;
  /// Whether a value of this bit, with others of its axis, may have no place in the target.
  bool has_gaps(int bit) const;
  /// Whether values(of) has it.
  bool is_valid(BitMask value, BitMask of) const;
  /// The largest sum of numbers[bit] over the bits of one of values(of).
  int64_t largest_sum(BitMask of, const std::vector<int64_t>& numbers) const;
  /// Number of values(of).
  int64_t value_count(BitMask of) const;

  mutable std::unordered_map<BitMask, int64_t> counts;  ///< that value_count has found
};

/// Nothing, and why, when the two can't be written so: a digit of one crosses a digit of the other, a
/// coordinate counts in a step that is no power of two, or the chip has a count that is none.
std::optional<BitView> bit_view(const Layout& from, const Layout& to, const Lengths& lengths,
                                int element_bits, const isa::Chip& chip, std::string* why = nullptr);

int64_t address(const Placement& placement, BitMask value);

// ---- Sets of bits

inline BitMask mask_of(int bit) {
  return bit >= 0 ? BitMask{1} << bit : 0;
}
inline BitMask mask_of(const std::vector<int>& bits) {
  BitMask mask = 0;
  for (const int bit : bits) mask |= mask_of(bit);
  return mask;
}

/// The value whose k-th binary digit is bit bits[k] of `value`.
inline int64_t extract_bits(BitMask value, const std::vector<int>& bits) {
  int64_t number = 0;
  for (size_t k = 0; k < bits.size(); ++k) {
    if (bits[k] >= 0 && (value >> bits[k] & 1) != 0) number |= int64_t{1} << k;
  }
  return number;
}
/// The inverse; nothing when a place that holds no bit would have to be 1.
inline std::optional<BitMask> spread_bits(int64_t number, const std::vector<int>& bits) {
  BitMask value = 0;
  for (size_t k = 0; k < bits.size(); ++k) {
    if ((number >> k & 1) == 0) continue;
    if (bits[k] < 0) return std::nullopt;
    value |= BitMask{1} << bits[k];
  }
  return value;
}

/// What the slots of a range hold; -1 for what is no bit.
inline std::vector<int> contents(const SlotState& slots, int first, int count) {
  std::vector<int> result;
  for (int slot = first; slot < first + count; ++slot)
    result.push_back(std::max<int>(slots[static_cast<size_t>(slot)], -1));
  return result;
}

inline std::vector<int> bits_of(BitMask mask) {
  std::vector<int> bits;
  for (; mask != 0; mask &= mask - 1) bits.push_back(std::countr_zero(mask));
  return bits;
}

}  // namespace kodama::layout
