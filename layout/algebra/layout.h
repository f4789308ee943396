#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "isa/chip.h"

/// Layouts: where each element of a tensor lives in the tree of memories.
///
/// A layout has one bracket per tensor axis. A bracket lists factors from most to least significant;
/// an index along the axis is written in the mixed radix of the factors' sizes, and each digit adds
/// digit * stride to the coordinate of the factor's level:
///
///     ((8_L2B:1, 32:1), (8_MAB:2, 8_L1B:1, 2_MAB:1, 4_PE:1, 2_W:1))@LM0
///
/// places element (i, j) of a (256, 1024) tensor of 32-bit elements: i = 32 * d0 + d1 gives L2B d0 and
/// address d1 (long words); j = digits (e0, e1, e2, e3, e4) of sizes (8, 8, 2, 4, 2) gives MAB
/// 2 * e0 + e2, L1B e1, PE e3 and word e4 of the long word.
///
/// Worked example, shape (12) on 4 PEs, one 64-bit element per long word:
///
///     ((4_PE:1, 3:1))@LM0     blocks:     PE 0 holds 0 1 2, PE 1 holds 3 4 5, …
///     ((3:1, 4_PE:1))@LM0     dealt out:  PE 0 holds 0 4 8, PE 1 holds 1 5 9, …
///
/// L2B counts over the whole chip. A level that no factor names holds the tensor at coordinate 0 only;
/// `x [16_MAB, 8_L1B:1]` after the brackets replicates it over digits of those levels (stride 1 unless
/// written). An axis whose length is less than the product of its factors is padded at the end; padded
/// places hold zero unless the notation ends in ` pad undefined|-inf|+inf|one`.
namespace kodama::layout {

enum class Level : uint8_t { kL2b, kL1b, kMab, kPe, kAddress, kWord };
inline constexpr int kLevelCount = 6;
std::string_view level_name(Level level);  ///< "L2B", …; "" for the address

enum class Memory : uint8_t { kLm0, kLm1, kGrf0, kGrf1, kL1bm, kL2bm, kPdm, kDram };
std::string_view memory_name(Memory memory);

/// Whether every PE has one of its own.
constexpr bool is_pe_memory(Memory memory) {
  return memory <= Memory::kGrf1;
}
/// Long words of one instance.
int64_t memory_size_lw(Memory memory, const isa::Chip& chip);

/// What padded places hold.
enum class Padding : uint8_t { kUndefined, kZero, kMinusInfinity, kPlusInfinity, kOne };
std::string_view padding_name(Padding padding);  ///< "undefined", "zero", "-inf", "+inf", "one"

struct Factor {
  int64_t size = 1;
  Level level = Level::kAddress;
  int64_t stride = 1;
  bool operator==(const Factor&) const = default;
  std::string to_string() const;  ///< as in the notation: "16_MAB:1"
};

/// Coordinates of one element: index by Level.
struct Coordinates {
  std::array<int64_t, kLevelCount> at{};
  int64_t& operator[](Level level) { return at[static_cast<int>(level)]; }
  int64_t operator[](Level level) const { return at[static_cast<int>(level)]; }
  bool operator==(const Coordinates&) const = default;
};
Coordinates operator+(Coordinates a, const Coordinates& b);
/// The number over the chip of the PE that a place is in, and the way back.
inline int64_t pe_number(const Coordinates& place, const isa::Chip& chip) {
  const int64_t l1b = place[Level::kL2b] * chip.l1b_per_l2b + place[Level::kL1b];
  return (l1b * chip.mab_per_l1b + place[Level::kMab]) * isa::kPePerMab + place[Level::kPe];
}
inline Coordinates place_of_pe(int64_t number, const isa::Chip& chip) {
  Coordinates place;
  place[Level::kPe] = number % isa::kPePerMab;
  place[Level::kMab] = number / isa::kPePerMab % chip.mab_per_l1b;
  place[Level::kL1b] = number / chip.pe_per_l1b() % chip.l1b_per_l2b;
  place[Level::kL2b] = number / chip.pe_per_l1b() / chip.l1b_per_l2b;
  return place;
}

/// The sums that the digits of the factors of one level can have.
std::set<int64_t> digit_sums(const std::vector<Factor>& factors, Level level);

class Layout {
 public:
  Layout() = default;
  Layout(std::vector<std::vector<Factor>> axes, Memory memory, std::vector<Factor> replication = {},
         Padding padding = Padding::kZero);

  /// Reads the notation above; UserError names the column and the factor that is wrong.
  static Layout parse(std::string_view text);
  std::string to_string() const;

  const std::vector<std::vector<Factor>>& axes() const { return axes_; }
  const std::vector<Factor>& replication() const { return replication_; }
  Memory memory() const { return memory_; }
  Padding padding() const { return padding_; }
  void set_padding(Padding padding) { padding_ = padding; }

  /// Product of the sizes of an axis' factors: the padded length.
  int64_t extent(size_t axis) const;
  /// Contribution of index `index` along `axis`; the place of an element is the sum over the axes.
  Coordinates contribution(size_t axis, int64_t index) const;
  /// Place of replica 0 of an element.
  Coordinates place(const std::vector<int64_t>& index) const;
  /// Offsets of all replicas (one zero entry when there is no replication).
  std::vector<Coordinates> replica_offsets() const;
  /// The element at a place, if any (replicas map back to the same element).
  std::optional<std::vector<int64_t>> element(const Coordinates& place) const;

  /// Number of distinct coordinates needed on a level (largest coordinate + 1), replicas included.
  int64_t level_extent(Level level) const;
  /// The coordinates of a level at which something is, padding and replicas included. For levels of the tree;
  /// the addresses of a large tensor are many.
  std::set<int64_t> coordinates(Level level) const;
  /// UserError if coordinates exceed the chip, two elements share a place, or a factor is not positive.
  void validate(const isa::Chip& chip, int element_bits) const;

  /// The same mapping with factors of size 1 dropped and adjacent factors merged where possible.
  Layout normalized() const;
  /// Same mapping (not merely same text), memory and padding, so that no conversion is needed.
  bool equivalent(const Layout& other) const;
  bool operator==(const Layout&) const = default;

 private:
  std::vector<std::vector<Factor>> axes_;
  std::vector<Factor> replication_;
  Memory memory_ = Memory::kLm0;
  Padding padding_ = Padding::kZero;
};

}  // namespace kodama::layout
