#include "layout/algebra/bits.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>

namespace kodama::layout {
namespace {

/// -1 if it is no power of two.
int log2_exact(int64_t value) {
  return is_power_of_two(value) ? std::countr_zero(static_cast<uint64_t>(value)) : -1;
}

class Builder {
 public:
  Builder(const Layout& from, const Layout& to, const Lengths& lengths, int element_bits,
          const isa::Chip& chip)
      : from_(from), to_(to), lengths_(lengths), element_bits_(element_bits), chip_(chip) {}

  std::optional<BitView> run(std::string* why) {
    std::string reason = build();
    if (reason.empty()) return std::move(view_);
    if (why != nullptr) *why = std::move(reason);
    return std::nullopt;
  }

 private:
  std::string build() {
    SlotShape& shape = view_.shape;
    shape.word = log2_exact(64 / element_bits_);
    shape.mab = log2_exact(chip_.mab_per_l1b);
    shape.l1b = log2_exact(chip_.l1b_per_l2b);
    shape.l2b = log2_exact(chip_.l2b_count());
    if (shape.mab < 1 || shape.l1b < 0 || shape.l2b < 0 || log2_exact(chip_.l2b_per_group) < 0)
      return "a count of the chip is no power of two";
    const auto& transfer = chip_.transfer;
    view_.transfer = {.start = static_cast<double>(transfer.startup_cycles + transfer.group_hop_cycles) /
                               isa::kCyclesPerStep,
                      .issue = static_cast<double>(transfer.issue_interval_steps),
                      .lw_per_step = isa::kCyclesPerStep * std::min(transfer.l2bm_mv_lw_per_cycle,
                                                                    transfer.group_link_lw_per_cycle),
                      .group_bits = log2_exact(chip_.groups)};
    for (size_t axis = 0; axis < lengths_.size(); ++axis) {
      view_.extents.push_back(to_.extent(axis));
      std::string reason = cut(axis);
      if (!reason.empty()) return reason;
    }
    for (int digit = 0; digit < static_cast<int>(view_.digits.size()); ++digit) {
      const int count = bits_for(view_.digits[static_cast<size_t>(digit)].size);
      for (int power = 0; power < count; ++power) view_.bits.push_back({digit, power});
    }
    if (view_.bits.size() > 60) return "more than 60 index bits";
    std::string reason = place(from_, view_.from);
    if (reason.empty()) reason = place(to_, view_.to);
    if (!reason.empty()) return reason;
    bool whole = from_.padding() == to_.padding() || to_.padding() == Padding::kUndefined;
    for (size_t axis = 0; axis < lengths_.size(); ++axis)
      whole = whole && (to_.extent(axis) == lengths_[axis] || from_.extent(axis) == to_.extent(axis) ||
                        to_.padding() == Padding::kUndefined);
    view_.padding_goes_along = whole;
    return {};
  }

  /// The digits of an axis, at the boundaries of both layouts.
  std::string cut(size_t axis) {
    std::set<int64_t> boundaries{1};
    for (const Layout* layout : {&from_, &to_}) {
      int64_t weight = 1;
      const std::vector<Factor>& factors = layout->axes()[axis];
      for (auto factor = factors.rbegin(); factor != factors.rend(); ++factor) {
        boundaries.insert(weight);
        weight *= factor->size;
      }
    }
    const int64_t extent = to_.extent(axis);
    std::vector<int64_t> all(boundaries.begin(), boundaries.end());
    while (!all.empty() && all.back() >= extent && all.size() > 1) all.pop_back();
    for (size_t k = 0; k < all.size(); ++k) {
      const bool last = k + 1 == all.size();
      if (!last && all[k + 1] % all[k] != 0)
        return fmt::format("axis {}: the digits of the two layouts cross ({} and {})", axis, all[k],
                           all[k + 1]);
      const int64_t size = last ? (extent + all[k] - 1) / all[k] : all[k + 1] / all[k];
      if (size > 1) view_.digits.push_back({static_cast<int>(axis), all[k], size});
    }
    return {};
  }

  std::string place(const Layout& layout, Placement& placement) {
    placement.memory = layout.memory();
    placement.slots.assign(static_cast<size_t>(view_.shape.count()), kNothing);
    placement.stride.assign(view_.bits.size(), 0);
    for (size_t k = 0; k < view_.bits.size(); ++k) {
      const Bit& bit = view_.bits[k];
      const Digit& digit = view_.digits[static_cast<size_t>(bit.digit)];
      const std::vector<Factor>& factors = layout.axes()[static_cast<size_t>(digit.axis)];
      int64_t weight = 1;
      auto factor = factors.rbegin();
      for (; factor != factors.rend(); ++factor) {
        // The factor that the digit lies in; the first one takes what is beyond it, too.
        if (digit.weight < weight * factor->size || std::next(factor) == factors.rend()) break;
        weight *= factor->size;
      }
      if (factor == factors.rend()) return "an axis without factors";
      const int64_t stride = factor->stride * (digit.weight / weight) << bit.power;
      if (factor->level == Level::kAddress) {
        placement.stride[k] = stride;
        continue;
      }
      const int power = log2_exact(stride);
      if (power < 0) return fmt::format("{} counts in steps of {}", level_name(factor->level), stride);
      if (power >= view_.shape.count(factor->level)) return "a digit that is larger than its level";
      int8_t& slot = placement.slots[static_cast<size_t>(view_.shape.first(factor->level) + power)];
      if (slot != kNothing) return "two digits in one bit of a coordinate";
      slot = static_cast<int8_t>(k);
    }
    for (const Factor& factor : layout.replication()) {
      if (factor.size == 1) continue;
      const int power = log2_exact(factor.stride);
      const int bits = log2_exact(factor.size);
      if (power < 0 || bits < 0 || factor.level == Level::kAddress)
        return "replication that isn't over bits of a level";
      for (int bit = power; bit < power + bits; ++bit) {
        if (bit >= view_.shape.count(factor.level)) return "replication that is larger than its level";
        int8_t& slot = placement.slots[static_cast<size_t>(view_.shape.first(factor.level) + bit)];
        if (slot != kNothing) return "replication over digits of the tensor";
        slot = kEverywhere;
      }
    }
    return {};
  }

  const Layout& from_;
  const Layout& to_;
  const Lengths& lengths_;
  int element_bits_;
  const isa::Chip& chip_;
  BitView view_;
};

}  // namespace

int bits_for(int64_t size) {
  return size <= 1 ? 0 : std::bit_width(static_cast<uint64_t>(size - 1));
}

int SlotShape::first(Level level) const {
  switch (level) {
    case Level::kWord:
      return 0;
    case Level::kPe:
      return word;
    case Level::kMab:
      return word + kPeBits;
    case Level::kL1b:
      return word + kPeBits + mab;
    default:
      return word + kPeBits + mab + l1b;
  }
}
int SlotShape::count(Level level) const {
  switch (level) {
    case Level::kWord:
      return word;
    case Level::kPe:
      return kPeBits;
    case Level::kMab:
      return mab;
    case Level::kL1b:
      return l1b;
    case Level::kL2b:
      return l2b;
    default:
      return 0;
  }
}
Level SlotShape::level(int slot) const {
  for (const Level level : {Level::kWord, Level::kPe, Level::kMab, Level::kL1b}) {
    if (slot < first(level) + count(level)) return level;
  }
  return Level::kL2b;
}

BitMask BitView::address_bits(const SlotState& slots) const {
  BitMask all = (BitMask{1} << bits.size()) - 1;
  for (const int8_t bit : slots) {
    if (bit >= 0) all &= ~(BitMask{1} << bit);
  }
  return all;
}

std::vector<BitMask> BitView::values(BitMask of) const {
  std::vector<BitMask> all{0};
  size_t bit = 0;
  size_t digit = 0;
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    // The axis' values, with the index that they come to.
    std::vector<std::pair<BitMask, int64_t>> own{{0, 0}};
    for (; digit < digits.size() && digits[digit].axis == static_cast<int>(axis); ++digit) {
      std::vector<std::pair<BitMask, int64_t>> choices{{0, 0}};
      for (; bit < bits.size() && bits[bit].digit == static_cast<int>(digit); ++bit) {
        if ((of >> bit & 1) == 0) continue;
        const size_t size = choices.size();
        for (size_t k = 0; k < size; ++k)
          choices.emplace_back(choices[k].first | BitMask{1} << bit,
                               choices[k].second + (int64_t{1} << bits[bit].power));
      }
      std::vector<std::pair<BitMask, int64_t>> product;
      for (const auto& [mask, value] : choices) {
        if (value >= digits[digit].size) continue;
        for (const auto& [before, index] : own) {
          const int64_t sum = index + value * digits[digit].weight;
          if (sum < extents[axis]) product.emplace_back(before | mask, sum);
        }
      }
      own = std::move(product);
    }
    std::vector<BitMask> product;
    product.reserve(all.size() * own.size());
    for (const auto& [mask, index] : own) {
      for (const BitMask before : all) product.push_back(before | mask);
    }
    all = std::move(product);
  }
  return all;
}

bool BitView::has_gaps(int bit) const {
  const Digit& digit = digits[static_cast<size_t>(bits[static_cast<size_t>(bit)].digit)];
  int64_t product = 1;
  for (const Digit& each : digits) product *= each.axis == digit.axis ? each.size : 1;
  return !is_power_of_two(digit.size) || product > extents[static_cast<size_t>(digit.axis)];
}

bool BitView::is_valid(BitMask value, BitMask of) const {
  value &= of;
  size_t bit = 0;
  size_t digit = 0;
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    int64_t index = 0;
    for (; digit < digits.size() && digits[digit].axis == static_cast<int>(axis); ++digit) {
      int64_t number = 0;
      for (; bit < bits.size() && bits[bit].digit == static_cast<int>(digit); ++bit) {
        if ((value >> bit & 1) != 0) number += int64_t{1} << bits[bit].power;
      }
      if (number >= digits[digit].size) return false;
      index += number * digits[digit].weight;
    }
    if (index >= extents[axis]) return false;
  }
  return true;
}

int64_t BitView::largest_sum(BitMask of, const std::vector<int64_t>& numbers) const {
  int64_t sum = 0;
  BitMask rest = (BitMask{1} << bits.size()) - 1;
  for (size_t digit = 0; digit < digits.size(); ++digit) {
    BitMask own = 0;
    for (BitMask left = rest; left != 0; left &= left - 1) {
      const int bit = std::countr_zero(left);
      if (bits[static_cast<size_t>(bit)].digit == static_cast<int>(digit)) own |= BitMask{1} << bit;
    }
    rest &= ~own;
    int64_t most = 0;
    for (const BitMask value : values(own & of)) {
      int64_t here = 0;
      for (BitMask left = value; left != 0; left &= left - 1)
        here += numbers[static_cast<size_t>(std::countr_zero(left))];
      most = std::max(most, here);
    }
    sum += most;
  }
  return sum;
}

int64_t BitView::value_count(BitMask of) const {
  const auto known = counts.find(of);
  if (known != counts.end()) return known->second;
  int64_t count = 1;
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    BitMask own = 0;
    for (size_t bit = 0; bit < bits.size(); ++bit) {
      if (digits[static_cast<size_t>(bits[bit].digit)].axis == static_cast<int>(axis))
        own |= BitMask{1} << bit;
    }
    // The other axes have one value then.
    count *= static_cast<int64_t>(values(own & of).size());
  }
  counts[of] = count;
  return count;
}

std::optional<BitView> bit_view(const Layout& from, const Layout& to, const Lengths& lengths,
                                int element_bits, const isa::Chip& chip, std::string* why) {
  return Builder(from, to, lengths, element_bits, chip).run(why);
}

int64_t address(const Placement& placement, BitMask value) {
  int64_t sum = placement.base;
  for (; value != 0; value &= value - 1)
    sum += placement.stride[static_cast<size_t>(std::countr_zero(value))];
  return sum;
}

}  // namespace kodama::layout
