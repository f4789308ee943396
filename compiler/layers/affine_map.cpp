#include "compiler/layers/affine_map.h"

#include <fmt/format.h>

#include <algorithm>

#include "isa/error.h"

namespace kodama::compiler {

bool AffineMap::depends_on(size_t dim) const {
  return std::ranges::any_of(coefficients_, [&](const auto& row) { return row[dim] != 0; });
}

AffineMap& AffineMap::set_offset(size_t axis, int64_t value) {
  isa::check_internal(axis < axes(), "AffineMap", "axis {} of {}", axis, axes());
  offsets_[axis] = value;
  return *this;
}

AffineMap& AffineMap::set(size_t axis, size_t dim, int64_t coefficient) {
  isa::check_internal(axis < axes() && dim < dims(), "AffineMap", "axis {} of {}, dim {} of {}", axis, axes(),
                      dim, dims());
  coefficients_[axis][dim] = coefficient;
  return *this;
}

AffineMap AffineMap::extended(size_t axes, size_t dims) const {
  AffineMap result(this->axes() + axes, dims_ + dims);
  for (size_t axis = 0; axis < this->axes(); ++axis) {
    result.offsets_[axis] = offsets_[axis];
    std::ranges::copy(coefficients_[axis], result.coefficients_[axis].begin());
  }
  return result;
}

AffineMap AffineMap::identity(size_t rank) {
  AffineMap map(rank, rank);
  for (size_t axis = 0; axis < rank; ++axis) map.set(axis, axis, 1);
  return map;
}

AffineMap AffineMap::broadcast(const Shape& from, const Shape& to) {
  isa::check_internal(from.size() <= to.size(), "AffineMap::broadcast", "shape {} can't be broadcast to {}",
                      shape_to_string(from), shape_to_string(to));
  AffineMap map(from.size(), to.size());
  const size_t shift = to.size() - from.size();
  for (size_t axis = 0; axis < from.size(); ++axis) {
    const int64_t target = to[axis + shift];
    isa::check_internal(from[axis] == target || from[axis] == 1, "AffineMap::broadcast",
                        "shape {} can't be broadcast to {}", shape_to_string(from), shape_to_string(to));
    // An axis of extent 1 has only index 0: coefficient 0, so that equal accesses compare equal.
    if (from[axis] != 1) map.set(axis, axis + shift, 1);
  }
  return map;
}

std::vector<int64_t> AffineMap::apply(const std::vector<int64_t>& point) const {
  isa::check_internal(point.size() == dims(), "AffineMap::apply", "a point of rank {} in a space of rank {}",
                      point.size(), dims());
  std::vector<int64_t> index = offsets_;
  for (size_t axis = 0; axis < axes(); ++axis) {
    for (size_t dim = 0; dim < dims(); ++dim) index[axis] += coefficients_[axis][dim] * point[dim];
  }
  return index;
}

std::pair<int64_t, int64_t> AffineMap::range(size_t axis, const std::vector<int64_t>& begin,
                                             const std::vector<int64_t>& end) const {
  isa::check_internal(begin.size() == dims() && end.size() == dims(), "AffineMap::range",
                      "a box of rank {} in a space of rank {}", begin.size(), dims());
  int64_t low = offsets_[axis];
  int64_t high = low;
  for (size_t dim = 0; dim < dims(); ++dim) {
    if (end[dim] <= begin[dim]) return {0, -1};
    const int64_t coefficient = coefficients_[axis][dim];
    const int64_t first = coefficient * begin[dim];
    const int64_t last = coefficient * (end[dim] - 1);
    low += std::min(first, last);
    high += std::max(first, last);
  }
  return {low, high};
}

std::pair<int64_t, int64_t> AffineMap::range(size_t axis, const Shape& extents) const {
  return range(axis, std::vector<int64_t>(extents.size(), 0), extents);
}

bool AffineMap::stays_inside(const std::vector<int64_t>& begin, const std::vector<int64_t>& end,
                             const Shape& tensor_shape) const {
  for (size_t axis = 0; axis < axes(); ++axis) {
    const auto [low, high] = range(axis, begin, end);
    if (low > high) return true;  // no points
    if (low < 0 || high >= tensor_shape[axis]) return false;
  }
  return true;
}

bool AffineMap::stays_inside(const Shape& extents, const Shape& tensor_shape) const {
  return stays_inside(std::vector<int64_t>(extents.size(), 0), extents, tensor_shape);
}

AffineMap AffineMap::after(const AffineMap& inner) const {
  isa::check_internal(inner.axes() == dims(), "AffineMap::after", "{} after {}", to_string(),
                      inner.to_string());
  AffineMap map(axes(), inner.dims());
  for (size_t axis = 0; axis < axes(); ++axis) {
    map.offsets_[axis] = offsets_[axis];
    for (size_t middle = 0; middle < dims(); ++middle) {
      const int64_t coefficient = coefficients_[axis][middle];
      map.offsets_[axis] += coefficient * inner.offsets_[middle];
      for (size_t dim = 0; dim < inner.dims(); ++dim) {
        map.coefficients_[axis][dim] += coefficient * inner.coefficients_[middle][dim];
      }
    }
  }
  return map;
}

std::string AffineMap::to_string() const {
  std::string text = "(";
  for (size_t axis = 0; axis < axes(); ++axis) {
    if (axis > 0) text += ", ";
    std::string sum;
    for (size_t dim = 0; dim < dims(); ++dim) {
      const int64_t coefficient = coefficients_[axis][dim];
      if (coefficient == 0) continue;
      const int64_t magnitude = coefficient < 0 ? -coefficient : coefficient;
      if (sum.empty()) {
        if (coefficient < 0) sum += "-";
      } else {
        sum += coefficient < 0 ? " - " : " + ";
      }
      sum += magnitude == 1 ? fmt::format("d{}", dim) : fmt::format("{}*d{}", magnitude, dim);
    }
    if (sum.empty()) {
      sum = fmt::format("{}", offsets_[axis]);
    } else if (offsets_[axis] != 0) {
      sum +=
          offsets_[axis] < 0 ? fmt::format(" - {}", -offsets_[axis]) : fmt::format(" + {}", offsets_[axis]);
    }
    text += sum;
  }
  return text + ")";
}

}  // namespace kodama::compiler
