#pragma once

#include <cstdint>
#include <vector>

#include "compiler/tensor/tensor.h"

/// Index arithmetic on dense row-major tensors: offsets count elements.
namespace kodama::compiler::reference {

using Strides = std::vector<int64_t>;

/// Row-major strides.
Strides strides_of(const Shape& shape);
/// Strides that read a tensor of `shape` as if broadcast to `target` (to which it must be broadcastable).
Strides broadcast_strides(const Shape& shape, const Shape& target);

/// Elements in shape[begin, end).
int64_t count_between(const Shape& shape, size_t begin, size_t end);

/// Steps through all indices of a shape in row-major order.
///   for (IndexIterator it(shape); it.valid(); it.next()) use(it.index());
class IndexIterator {
 public:
  explicit IndexIterator(Shape shape);
  bool valid() const { return valid_; }
  void next();
  const std::vector<int64_t>& index() const { return index_; }

 private:
  Shape shape_;
  std::vector<int64_t> index_;
  bool valid_;
};

/// offset + Σ index[axis] * strides[axis] for every index of `shape` in row-major order.
/// UserError for more elements than the reference will handle.
std::vector<int64_t> strided_offsets(const Shape& shape, const Strides& strides, int64_t offset = 0);

/// The tensor of `shape` whose element i is source[offsets[i]], of any element type. Offset -1 takes the
/// only element of `fill`, or zero if that is null.
Tensor take(const Tensor& source, const Shape& shape, const std::vector<int64_t>& offsets,
            const Tensor* fill = nullptr);
/// The tensor whose element [i, j, ...] is source[maps[0][i], maps[1][j], ...]; `fill` (or zero) where one of
/// the maps says -1.
Tensor take_by_axes(const Tensor& source, const std::vector<std::vector<int64_t>>& maps,
                    const Tensor* fill = nullptr);
/// Copies source element i over target[offsets[i]].
void put(const Tensor& source, const std::vector<int64_t>& offsets, Tensor& target);

/// The tensors one behind the other along `axis`. UserError if they don't fit; there is one at least.
Tensor concatenate(const std::vector<const Tensor*>& tensors, size_t axis);
/// Elements [begin, begin + count) of `axis`.
Tensor slice(const Tensor& tensor, size_t axis, int64_t begin, int64_t count);
/// Element `index` of `axis`, without that axis.
Tensor element_along(const Tensor& tensor, size_t axis, int64_t index);

/// `tensor` repeated along axes of extent 1 so that it has `shape`; itself if it has that shape already.
Tensor broadcast_to(const Tensor& tensor, const Shape& shape);
/// Axes reordered: axis i of the result is axis permutation[i] of the tensor.
Tensor transpose(const Tensor& tensor, const std::vector<size_t>& permutation);

}  // namespace kodama::compiler::reference
