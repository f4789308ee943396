#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compiler/tensor/tensor.h"

/// Affine views of tensors: how an iteration space reads (or writes) a tensor.
///
/// An AffineMap takes a point d of an iteration space to an index of a tensor, axis by axis:
///
///     index[a] = offset[a] + sum over dims of coefficient[a][dim] * d[dim]
///
/// A point whose index leaves the tensor on some axis reads the access' fill value. Broadcast is
/// coefficient 0, transposition a permutation matrix, a strided slice an offset and a coefficient,
/// padding an offset below zero, and a convolution's window
/// `h = oh * stride + kh * dilation - pad` one row with two coefficients.
namespace kodama::compiler {

class AffineMap {
 public:
  AffineMap() = default;
  /// All offsets and coefficients zero.
  AffineMap(size_t axes, size_t dims)
      : dims_(dims), offsets_(axes, 0), coefficients_(axes, std::vector<int64_t>(dims, 0)) {}

  size_t axes() const { return offsets_.size(); }
  /// Rank of the iteration space (kept even if the tensor has no axes).
  size_t dims() const { return dims_; }
  int64_t offset(size_t axis) const { return offsets_[axis]; }
  int64_t coefficient(size_t axis, size_t dim) const { return coefficients_[axis][dim]; }
  /// Whether the index is another one somewhere along a dim.
  bool depends_on(size_t dim) const;
  AffineMap& set_offset(size_t axis, int64_t value);
  AffineMap& set(size_t axis, size_t dim, int64_t coefficient);

  /// index[a] = d[a].
  static AffineMap identity(size_t rank);
  /// Reads a tensor of shape `from` as if it had shape `to` by numpy's (ONNX's multidirectional)
  /// broadcasting; the iteration space has shape `to`.
  static AffineMap broadcast(const Shape& from, const Shape& to);

  std::vector<int64_t> apply(const std::vector<int64_t>& point) const;
  /// Smallest and largest index on `axis` over the iteration space `extents` (0-extent spaces: {0, -1}).
  std::pair<int64_t, int64_t> range(size_t axis, const Shape& extents) const;
  /// The same over the box [begin, end) of the iteration space.
  std::pair<int64_t, int64_t> range(size_t axis, const std::vector<int64_t>& begin,
                                    const std::vector<int64_t>& end) const;
  /// Whether every point of the iteration space stays inside `tensor_shape`.
  bool stays_inside(const Shape& extents, const Shape& tensor_shape) const;
  bool stays_inside(const std::vector<int64_t>& begin, const std::vector<int64_t>& end,
                    const Shape& tensor_shape) const;
  /// This map after `inner`: point -> this(inner(point)); inner.axes() == dims of this.
  AffineMap after(const AffineMap& inner) const;
  /// With more axes and dims behind its own, all of it zero.
  AffineMap extended(size_t axes, size_t dims) const;
  /// "(d0, 2*d1 + d3 - 1)".
  std::string to_string() const;
  bool operator==(const AffineMap&) const = default;

 private:
  size_t dims_ = 0;
  std::vector<int64_t> offsets_;
  std::vector<std::vector<int64_t>> coefficients_;
};

}  // namespace kodama::compiler
