#include "compiler/plan/placement_key.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "isa/parallel.h"

namespace kodama::compiler {
namespace {

/// The axes of a placement's layout, cut at the bounds of the dims that stand in one, and without what has
/// one place: kernels describe the same image in several ways, as all tokens of a tensor or as entries of
/// tokens.
std::map<std::vector<int>, std::vector<layout::Factor>> axes_of_dims(const StreamPlacement& placement) {
  std::map<std::vector<int>, std::vector<layout::Factor>> axes;
  const layout::Layout layout = placement.layout.normalized();
  const auto extent = [&](int dim) { return placement.extents[static_cast<size_t>(dim)]; };
  for (size_t axis = 0; axis < placement.axis_dims.size(); ++axis) {
    std::vector<int> dims = placement.axis_dims[axis];
    std::erase_if(dims, [&](int dim) { return extent(dim) == 1; });
    std::vector<layout::Factor> factors = layout.axes()[axis];
    while (dims.size() > 1) {
      std::vector<layout::Factor> left = factors, own;
      int64_t wanted = extent(dims.back());
      while (wanted > 1 && !left.empty()) {
        layout::Factor& last = left.back();
        if (wanted % last.size == 0) {
          wanted /= last.size;
          own.insert(own.begin(), last);
          left.pop_back();
        } else if (last.size % wanted == 0) {
          own.insert(own.begin(), {wanted, last.level, last.stride});
          last = {last.size / wanted, last.level, last.stride * wanted};
          wanted = 1;
        } else {
          break;
        }
      }
      if (wanted > 1) break;
      axes[{dims.back()}] = std::move(own);
      factors = std::move(left);
      dims.pop_back();
    }
    if (!dims.empty() || !factors.empty()) axes[dims] = std::move(factors);
  }
  return axes;
}

}  // namespace

std::string key_of(const StreamPlacement& placement) {
  std::string places;
  for (const auto& [dims, factors] : axes_of_dims(placement)) {
    places += fmt::format("{}", dims);
    for (const layout::Factor& factor : factors) places += " " + factor.to_string();
  }
  const layout::Layout around({}, placement.layout.memory(), placement.layout.replication(),
                              placement.layout.padding());
  std::string map;
  for (size_t axis = 0; axis < placement.access.map.axes(); ++axis) {
    map += fmt::format("{};", placement.access.map.offset(axis));
    for (size_t dim = 0; dim < placement.extents.size(); ++dim)
      map += fmt::format("{},", placement.access.map.coefficient(axis, dim));
  }
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}{}", map, placement.access.fill, placement.extents, places,
                     around.to_string(), static_cast<int>(placement.layout.padding()),
                     placement.transport.to_string(), placement.length_lw, placement.is_output,
                     placement.element == StreamElement::kHalf ? "|halves" : "");
}

StreamPlacement essential(const StreamPlacement& placement) {
  std::vector<int> number(placement.extents.size(), -1);
  StreamPlacement result = placement;
  result.extents.clear();
  for (size_t dim = 0; dim < number.size(); ++dim) {
    bool says = std::ranges::any_of(placement.axis_dims, [&](const std::vector<int>& dims) {
      return std::ranges::count(dims, static_cast<int>(dim)) > 0;
    });
    for (size_t axis = 0; axis < placement.access.map.axes(); ++axis)
      says = says || placement.access.map.coefficient(axis, dim) != 0;
    if (!says) continue;
    number[dim] = static_cast<int>(result.extents.size());
    result.extents.push_back(placement.extents[dim]);
  }
  AffineMap map(placement.access.map.axes(), result.extents.size());
  for (size_t axis = 0; axis < map.axes(); ++axis) {
    map.set_offset(axis, placement.access.map.offset(axis));
    for (size_t dim = 0; dim < number.size(); ++dim) {
      if (number[dim] >= 0)
        map.set(axis, static_cast<size_t>(number[dim]), placement.access.map.coefficient(axis, dim));
    }
  }
  result.access.map = map;
  for (std::vector<int>& dims : result.axis_dims) {
    for (int& dim : dims) dim = number[static_cast<size_t>(dim)];
  }
  return result;
}

bool is_whole(const StreamPlacement& image, const Shape& shape) {
  return image.extents == shape && image.access.map == AffineMap::identity(shape.size());
}

namespace {

/// Dims that follow one another in a whole tensor and on an axis of the layout as one.
StreamPlacement merged(const StreamPlacement& placement) {
  StreamPlacement result = placement;
  result.extents.clear();
  std::vector<int> number;
  for (size_t dim = 0; dim < placement.extents.size(); ++dim) {
    const bool follows = std::ranges::any_of(placement.axis_dims, [&](const std::vector<int>& dims) {
      const auto found = std::ranges::find(dims, static_cast<int>(dim));
      return found != dims.end() && found != dims.begin() && *(found - 1) == static_cast<int>(dim) - 1;
    });
    if (follows) {
      result.extents.back() *= placement.extents[dim];
    } else {
      result.extents.push_back(placement.extents[dim]);
    }
    number.push_back(static_cast<int>(result.extents.size()) - 1);
  }
  for (std::vector<int>& dims : result.axis_dims) {
    for (int& dim : dims) dim = number[static_cast<size_t>(dim)];
    dims.erase(std::unique(dims.begin(), dims.end()), dims.end());
  }
  result.access.map = AffineMap::identity(result.extents.size());
  result.layout.set_padding(layout::Padding::kUndefined);
  result.is_output = true;
  return result;
}

}  // namespace

bool are_alike(const StreamPlacement& a, const StreamPlacement& b) {
  return key_of(merged(a)) == key_of(merged(b));
}

void NumberedPlacements::expect(const std::vector<std::vector<Candidate>>& candidates) {
  std::vector<const StreamPlacement*> placements;
  for (const std::vector<Candidate>& of_layer : candidates) {
    for (const Candidate& candidate : of_layer) {
      for (const StreamPlacement& placement : candidate.placements) placements.push_back(&placement);
    }
  }
  std::vector<std::string> keys(placements.size());
  isa::for_each_in_parallel(keys.size(), [&](size_t k) { keys[k] = key_of(*placements[k]); });
  for (size_t k = 0; k < keys.size(); ++k) expected_[placements[k]] = std::move(keys[k]);
}

int NumberedPlacements::number_of(const StreamPlacement& placement) {
  const auto expected = expected_.find(&placement);
  const auto [found, is_new] = numbers_.try_emplace(
      {placement.access.tensor, expected != expected_.end() ? expected->second : key_of(placement)},
      static_cast<int>(placements_.size()));
  if (is_new) {
    placements_.push_back(placement);
    keys_.push_back(&found->first.second);
  }
  return found->second;
}

const std::string& NumberedPlacements::key_as(int number, layout::Padding padding, bool is_output,
                                              bool is_essential) {
  const auto [found, is_new] = keys_as_.try_emplace({number, padding, is_output, is_essential});
  if (is_new) {
    StreamPlacement other = (*this)[number];
    other.layout.set_padding(padding);
    other.is_output = is_output;
    found->second = key_of(is_essential ? essential(other) : other);
  }
  return found->second;
}

}  // namespace kodama::compiler
