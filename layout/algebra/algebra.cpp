#include "layout/algebra/algebra.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "isa/error.h"

namespace kodama::layout {
namespace {

using isa::UserError;

int64_t product(const std::vector<int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), int64_t{1}, std::multiplies<>());
}

void check_axis(const Layout& layout, int axis, const char* what) {
  if (axis < 0 || axis >= static_cast<int>(layout.axes().size())) {
    throw UserError(fmt::format("{} {}: axis {}, allowed: 0 to {}", what, layout.to_string(), axis,
                                static_cast<int>(layout.axes().size()) - 1));
  }
}

Layout with_axes(const Layout& layout, std::vector<std::vector<Factor>> axes) {
  return Layout(std::move(axes), layout.memory(), layout.replication(), layout.padding());
}

/// Cuts factors, from most to least significant, at `inner`, the number of indices that belong to the second
/// part. The parts' extents are extent / inner and inner.
std::pair<std::vector<Factor>, std::vector<Factor>> cut(const std::vector<Factor>& factors, int64_t inner,
                                                        const Layout& layout, int axis, const char* what) {
  std::vector<Factor> outside = factors;
  std::vector<Factor> inside;
  int64_t left = inner;
  while (left > 1) {
    if (outside.empty()) {
      throw UserError(fmt::format("{} {}: axis {} has {} indices, found a part of {}", what,
                                  layout.to_string(), axis, layout.extent(static_cast<size_t>(axis)), inner));
    }
    const Factor factor = outside.back();
    if (left % factor.size == 0) {
      inside.insert(inside.begin(), factor);
      outside.pop_back();
      left /= factor.size;
    } else if (factor.size % left == 0) {
      inside.insert(inside.begin(), {left, factor.level, factor.stride});
      outside.back() = {factor.size / left, factor.level, factor.stride * left};
      left = 1;
    } else {
      throw UserError(fmt::format(
          "{} {}: the boundary of a part of {} indices falls into factor {} of axis {} ({}): {} is no "
          "multiple or "
          "divisor of {}",
          what, layout.to_string(), inner, outside.size() - 1, axis, factor.to_string(), left, factor.size));
    }
  }
  return {outside, inside};
}

}  // namespace

void check_lengths(const Layout& layout, const Lengths& lengths) {
  if (lengths.size() != layout.axes().size()) {
    throw UserError(fmt::format("layout {} has {} axes, found shape ({})", layout.to_string(),
                                layout.axes().size(), fmt::join(lengths, ", ")));
  }
  for (size_t axis = 0; axis < lengths.size(); ++axis) {
    if (lengths[axis] < 1 || lengths[axis] > layout.extent(axis)) {
      throw UserError(fmt::format(
          "layout {}: axis {} of shape ({}) has length {}, allowed: 1 to {}, the product of its factors",
          layout.to_string(), axis, fmt::join(lengths, ", "), lengths[axis], layout.extent(axis)));
    }
  }
}

// ---- views -----------------------------------------------------------------------------------------------

Layout transposed(const Layout& layout, const std::vector<int>& permutation) {
  std::vector<int> sorted = permutation;
  std::ranges::sort(sorted);
  std::vector<int> expected(layout.axes().size());
  std::iota(expected.begin(), expected.end(), 0);
  if (sorted != expected) {
    throw UserError(fmt::format("transpose {}: found ({}), allowed: an order of its {} axes",
                                layout.to_string(), fmt::join(permutation, ", "), layout.axes().size()));
  }
  std::vector<std::vector<Factor>> axes;
  for (const int axis : permutation) axes.push_back(layout.axes()[static_cast<size_t>(axis)]);
  return with_axes(layout, std::move(axes));
}

Layout split(const Layout& layout, int axis, const std::vector<int64_t>& sizes) {
  check_axis(layout, axis, "split");
  if (sizes.empty() || std::ranges::any_of(sizes, [](int64_t size) { return size < 1; }))
    throw UserError(fmt::format("split {}: found sizes ({}), allowed: one or more positive numbers",
                                layout.to_string(), fmt::join(sizes, ", ")));
  std::vector<std::vector<Factor>> parts;
  std::vector<Factor> rest = layout.axes()[static_cast<size_t>(axis)];
  for (size_t k = sizes.size(); k-- > 1;) {
    auto [outside, inside] = cut(rest, sizes[k], layout, axis, "split");
    parts.insert(parts.begin(), std::move(inside));
    rest = std::move(outside);
  }
  int64_t extent = 1;
  for (const Factor& factor : rest) extent *= factor.size;
  if (extent < sizes[0]) {
    throw UserError(fmt::format("split {}: axis {} has {} indices, found sizes ({})", layout.to_string(),
                                axis, layout.extent(static_cast<size_t>(axis)), fmt::join(sizes, ", ")));
  }
  parts.insert(parts.begin(), std::move(rest));
  std::vector<std::vector<Factor>> axes = layout.axes();
  axes.erase(axes.begin() + axis);
  axes.insert(axes.begin() + axis, parts.begin(), parts.end());
  return with_axes(layout, std::move(axes));
}

Layout merged(const Layout& layout, const Lengths& lengths, int axis) {
  check_lengths(layout, lengths);
  check_axis(layout, axis, "merge");
  check_axis(layout, axis + 1, "merge");
  const auto second = static_cast<size_t>(axis + 1);
  // Padding behind an axis of length 1 is behind the merged one, too, unless there is more than one row of
  // it.
  if (lengths[second] != layout.extent(second) && lengths[second - 1] > 1) {
    throw UserError(
        fmt::format("merge {}: axis {} is padded from {} to {}, so the merged axis would have padding inside",
                    layout.to_string(), axis + 1, lengths[second], layout.extent(second)));
  }
  std::vector<std::vector<Factor>> axes = layout.axes();
  axes[second - 1].insert(axes[second - 1].end(), axes[second].begin(), axes[second].end());
  axes.erase(axes.begin() + axis + 1);
  return with_axes(layout, std::move(axes));
}

Layout reshaped(const Layout& layout, const Lengths& from, const Lengths& to) {
  check_lengths(layout, from);
  if (product(from) != product(to) || std::ranges::any_of(to, [](int64_t n) { return n < 1; })) {
    throw UserError(fmt::format("reshape {}: ({}) has {} elements, found ({})", layout.to_string(),
                                fmt::join(from, ", "), product(from), fmt::join(to, ", ")));
  }
  // Equal axes stay as they are, padding and all. Between them, runs of axes on both sides with equal
  // products are reshaped on their own: merged to one, then split.
  Layout result = layout;
  Lengths lengths = from;
  size_t source = 0;
  size_t target = 0;
  while (target < to.size() || source < lengths.size()) {
    if (target < to.size() && source < lengths.size() && to[target] == lengths[source]) {
      ++source;
      ++target;
      continue;
    }
    size_t target_end = target;
    int64_t wanted = 1;
    int64_t found = 1;
    size_t source_end = source;
    do {
      if ((found <= wanted && source_end < lengths.size()) || target_end == to.size()) {
        found *= lengths[source_end++];
      } else {
        wanted *= to[target_end++];
      }
    } while (found != wanted || (found == 1 && source_end == source && target_end == target));
    if (source_end == source) {
      std::vector<std::vector<Factor>> axes = result.axes();
      axes.insert(axes.begin() + static_cast<ptrdiff_t>(source), std::vector<Factor>{});
      result = with_axes(result, std::move(axes));
      lengths.insert(lengths.begin() + static_cast<ptrdiff_t>(source), 1);
      source_end = source + 1;
    }
    while (source_end - source > 1) {
      result = merged(result, lengths, static_cast<int>(source));
      lengths[source] *= lengths[source + 1];
      lengths.erase(lengths.begin() + static_cast<ptrdiff_t>(source) + 1);
      --source_end;
    }
    const std::vector<int64_t> sizes(to.begin() + static_cast<ptrdiff_t>(target),
                                     to.begin() + static_cast<ptrdiff_t>(target_end));
    if (sizes.empty()) {
      // An axis of length 1 that nobody asks for: its places beyond index 0 are padding of nothing.
      std::vector<std::vector<Factor>> axes = result.axes();
      if (!axes[source].empty() && result.extent(source) > 1) {
        throw UserError(fmt::format("reshape {}: axis {} of length 1 is padded to {}; it can't be left out",
                                    layout.to_string(), source, result.extent(source)));
      }
      axes.erase(axes.begin() + static_cast<ptrdiff_t>(source));
      result = with_axes(result, std::move(axes));
      lengths.erase(lengths.begin() + static_cast<ptrdiff_t>(source));
    } else {
      result = split(result, static_cast<int>(source), sizes);
      lengths.erase(lengths.begin() + static_cast<ptrdiff_t>(source));
      lengths.insert(lengths.begin() + static_cast<ptrdiff_t>(source), sizes.begin(), sizes.end());
      source += sizes.size();
    }
    target = target_end;
  }
  return result;
}

Part slice(const Layout& layout, int axis, int64_t begin, int64_t count, int64_t step) {
  check_axis(layout, axis, "slice");
  const int64_t extent = layout.extent(static_cast<size_t>(axis));
  if (begin < 0 || count < 1 || step < 1 || begin >= extent || (count - 1) > (extent - 1 - begin) / step) {
    throw UserError(
        fmt::format("slice {}: found {} indices of axis {} from {} by {}, allowed: inside 0 to {}",
                    layout.to_string(), count, axis, begin, step, extent - 1));
  }
  Part part{layout, layout.contribution(static_cast<size_t>(axis), begin)};
  const std::vector<Factor>& factors = layout.axes()[static_cast<size_t>(axis)];
  std::vector<Factor> kept;
  int64_t at = begin;     // what is left of the first index, in units of the present factor's digit
  int64_t stride = step;  // the same of the step
  int64_t left = count;
  for (size_t k = factors.size(); k-- > 0;) {
    const Factor& factor = factors[k];
    const int64_t digit = at % factor.size;
    if (left > 1) {
      if (stride % factor.size == 0) {
        stride /= factor.size;  // this digit never changes
      } else {
        // The digit runs from its first value by the step, and either ends in this factor or fills it up.
        const int64_t here = (factor.size - digit + stride - 1) / stride;
        const bool ends = left <= here;
        if (!ends && (digit != 0 || factor.size % stride != 0 || left % here != 0)) {
          throw UserError(fmt::format(
              "slice {}: indices {} to {} by {} of axis {} run over the end of factor {} ({}) in the middle",
              layout.to_string(), begin, begin + (count - 1) * step, step, axis, k, factor.to_string()));
        }
        kept.insert(kept.begin(), {ends ? left : here, factor.level, factor.stride * stride});
        left = ends ? 1 : left / here;
        stride = 1;
      }
    }
    at /= factor.size;
  }
  std::vector<std::vector<Factor>> axes = layout.axes();
  axes[static_cast<size_t>(axis)] = std::move(kept);
  part.layout = with_axes(layout, std::move(axes));
  return part;
}

// ---- comparisons -----------------------------------------------------------------------------------------

namespace {

/// A digit of an index: (index / weight % size) * stride on one level.
struct IndexDigit {
  int64_t weight;
  int64_t size;
  int64_t stride;
  bool operator==(const IndexDigit&) const = default;
};

/// An axis' contribution to one level, in a form that is equal for equal functions: the digits from the least
/// significant on, neighbours merged that are one number, the last one without its end (the index doesn't
/// reach it).
std::vector<IndexDigit> digits_of(const std::vector<Factor>& factors, Level level) {
  std::vector<IndexDigit> digits;
  int64_t weight = 1;
  for (size_t k = factors.size(); k-- > 0; weight *= factors[k].size) {
    const Factor& factor = factors[k];
    if (factor.level == level && factor.size > 1) {
      if (!digits.empty() && digits.back().weight * digits.back().size == weight &&
          digits.back().stride * digits.back().size == factor.stride) {
        digits.back().size *= factor.size;
      } else {
        digits.push_back({weight, factor.size, factor.stride});
      }
    }
  }
  return digits;
}

int64_t value_at(const std::vector<IndexDigit>& digits, int64_t index) {
  int64_t value = 0;
  for (const IndexDigit& digit : digits) value += index / digit.weight % digit.size * digit.stride;
  return value;
}

/// Axes whose factors differ are compared index by index up to here; beyond, they count as different.
constexpr int64_t kComparedIndices = int64_t{1} << 22;

std::string_view shown_name(Level level) {
  return level == Level::kAddress ? "address" : level == Level::kWord ? "word" : level_name(level);
}

}  // namespace

std::string why_incompatible(const Layout& left, const Layout& right) {
  if (left.axes().size() != right.axes().size())
    return fmt::format("{} axes on the left, {} on the right", left.axes().size(), right.axes().size());
  for (const Level level : {Level::kL2b, Level::kL1b, Level::kMab, Level::kPe, Level::kWord}) {
    // Where one side has one element along an axis, it must be wherever the other side's are.
    std::vector<Factor> left_spread = left.replication();
    std::vector<Factor> right_spread = right.replication();
    for (size_t axis = 0; axis < left.axes().size(); ++axis) {
      const auto& a = left.axes()[axis];
      const auto& b = right.axes()[axis];
      const bool left_is_one = left.extent(axis) == 1;
      const bool right_is_one = right.extent(axis) == 1;
      if (left_is_one != right_is_one) {
        (left_is_one ? right_spread : left_spread)
            .insert((left_is_one ? right_spread : left_spread).end(), left_is_one ? b.begin() : a.begin(),
                    left_is_one ? b.end() : a.end());
        continue;
      }
      const std::vector<IndexDigit> of_a = digits_of(a, level);
      const std::vector<IndexDigit> of_b = digits_of(b, level);
      if (of_a == of_b) continue;
      // Different digits may still be the same function up to the shorter extent.
      const int64_t end = std::min(left.extent(axis), right.extent(axis));
      for (int64_t index = 0; index < std::min(end, kComparedIndices); ++index) {
        const int64_t at_left = value_at(of_a, index);
        const int64_t at_right = value_at(of_b, index);
        if (at_left != at_right) {
          return fmt::format("axis {}: index {} is at {} {} on the left, at {} {} on the right", axis, index,
                             shown_name(level), at_left, shown_name(level), at_right);
        }
      }
      if (end > kComparedIndices)
        return fmt::format("axis {}: different factors, which agree on {} in the first {} indices", axis,
                           shown_name(level), kComparedIndices);
    }
    const std::set<int64_t> a = digit_sums(left_spread, level);
    const std::set<int64_t> b = digit_sums(right_spread, level);
    for (const int64_t value : a) {
      if (!b.contains(value)) {
        return fmt::format("the left has copies or elements at {} {} of which the right has none",
                           shown_name(level), value);
      }
    }
    for (const int64_t value : b) {
      if (!a.contains(value)) {
        return fmt::format("the right has copies or elements at {} {} of which the left has none",
                           shown_name(level), value);
      }
    }
  }
  return {};
}

bool is_plain_copy(const Layout& from, const Layout& to) {
  const auto kind = [](Memory memory) {
    switch (memory) {
      case Memory::kL1bm:
        return 1;
      case Memory::kL2bm:
        return 2;
      case Memory::kPdm:
      case Memory::kDram:
        return 3;
      default:
        return 0;
    }
  };
  if (kind(from.memory()) != kind(to.memory())) return false;
  const Layout moved(from.axes(), to.memory(), from.replication(),
                     to.padding() == Padding::kUndefined ? Padding::kUndefined : from.padding());
  return moved.equivalent(to);
}

Footprint footprint(const Layout& layout, int element_bits) {
  Footprint result;
  result.elements = 1;
  for (size_t axis = 0; axis < layout.axes().size(); ++axis) result.elements *= layout.extent(axis);
  for (const Factor& factor : layout.replication()) result.elements *= factor.size;
  result.long_words = layout.level_extent(Level::kAddress);
  const auto used = [&](Level level) { return static_cast<int64_t>(layout.coordinates(level).size()); };
  result.l2bs = used(Level::kL2b);
  result.l1bs = used(Level::kL1b);
  result.mabs = used(Level::kMab);
  result.pes = used(Level::kPe);
  result.density = static_cast<double>(result.elements) * element_bits /
                   (64.0 * static_cast<double>(result.long_words) * static_cast<double>(result.instances()));
  return result;
}

}  // namespace kodama::layout
