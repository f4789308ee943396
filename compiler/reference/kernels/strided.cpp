#include "compiler/reference/kernels/strided.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

namespace kodama::compiler::reference {

Strides strides_of(const Shape& shape) {
  Strides strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

Strides broadcast_strides(const Shape& shape, const Shape& target) {
  const Strides own = strides_of(shape);
  Strides strides(target.size(), 0);
  const size_t missing = target.size() - shape.size();
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    strides[missing + axis] = shape[axis] == 1 ? 0 : own[axis];
  }
  return strides;
}

int64_t count_between(const Shape& shape, size_t begin, size_t end) {
  return std::accumulate(shape.begin() + static_cast<ptrdiff_t>(begin),
                         shape.begin() + static_cast<ptrdiff_t>(end), int64_t{1}, std::multiplies<>());
}

IndexIterator::IndexIterator(Shape shape)
    : shape_(std::move(shape)), index_(shape_.size(), 0), valid_(element_count(shape_) > 0) {}

void IndexIterator::next() {
  for (size_t axis = shape_.size(); axis-- > 0;) {
    if (++index_[axis] < shape_[axis]) return;
    index_[axis] = 0;
  }
  valid_ = false;
}

std::vector<int64_t> strided_offsets(const Shape& shape, const Strides& strides, int64_t offset) {
  constexpr int64_t kMaxElements = int64_t{1} << 33;
  const int64_t count = element_count(shape);
  if (count > kMaxElements) {
    throw isa::UserError(
        fmt::format("a tensor of shape {} is too large for the CPU reference ({} elements at most)",
                    shape_to_string(shape), kMaxElements));
  }
  std::vector<int64_t> offsets(static_cast<size_t>(count));
  if (offsets.empty()) return offsets;
  offsets[0] = offset;
  // From the innermost axis outwards, each axis repeats what is there already.
  size_t filled = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    const auto extent = static_cast<size_t>(shape[axis]);
    for (size_t i = 1; i < extent; ++i) {
      for (size_t k = 0; k < filled; ++k) {
        offsets[i * filled + k] = offsets[k] + static_cast<int64_t>(i) * strides[axis];
      }
    }
    filled *= extent;
  }
  return offsets;
}

namespace {

template <size_t kWidth>
void copy_elements(const std::byte* source, const std::byte* fill, const std::vector<int64_t>& offsets,
                   std::byte* target) {
  for (const int64_t offset : offsets) {
    std::memcpy(target, offset < 0 ? fill : source + static_cast<size_t>(offset) * kWidth, kWidth);
    target += kWidth;
  }
}

void check_offsets(const std::vector<int64_t>& offsets, int64_t lowest, int64_t size) {
  for (const int64_t offset : offsets) {
    isa::check_internal(offset >= lowest && offset < size, "reference indexing", "offset {} of {} elements",
                        offset, size);
  }
}

}  // namespace

Tensor take(const Tensor& source, const Shape& shape, const std::vector<int64_t>& offsets,
            const Tensor* fill) {
  Tensor result(source.type(), shape);
  isa::check_internal(static_cast<size_t>(result.size()) == offsets.size(), "take", "{} offsets for shape {}",
                      offsets.size(), shape_to_string(shape));
  check_offsets(offsets, -1, source.size());
  isa::check_internal(fill == nullptr || (fill->type() == source.type() && fill->size() == 1), "take",
                      "a fill value of another type");
  if (source.type() == DataType::kString) {
    for (size_t i = 0; i < offsets.size(); ++i) {
      if (offsets[i] >= 0) {
        result.strings()[i] = source.strings()[static_cast<size_t>(offsets[i])];
      } else if (fill != nullptr) {
        result.strings()[i] = fill->strings()[0];
      }
    }
    return result;
  }
  constexpr std::byte kZero[16] = {};
  const std::byte* const fill_bytes = fill != nullptr ? fill->bytes().data() : kZero;
  const std::byte* const from = source.bytes().data();
  std::byte* const to = result.bytes().data();
  switch (element_size(source.type())) {
    case 1:
      copy_elements<1>(from, fill_bytes, offsets, to);
      break;
    case 2:
      copy_elements<2>(from, fill_bytes, offsets, to);
      break;
    case 4:
      copy_elements<4>(from, fill_bytes, offsets, to);
      break;
    case 8:
      copy_elements<8>(from, fill_bytes, offsets, to);
      break;
    default:
      copy_elements<16>(from, fill_bytes, offsets, to);
  }
  return result;
}

Tensor take_by_axes(const Tensor& source, const std::vector<std::vector<int64_t>>& maps, const Tensor* fill) {
  const Strides strides = strides_of(source.shape());
  Shape shape;
  for (const auto& map : maps) shape.push_back(static_cast<int64_t>(map.size()));
  // From the innermost axis outwards, as in strided_offsets.
  std::vector<int64_t> offsets = strided_offsets(shape, Strides(shape.size(), 0));
  if (!offsets.empty()) {
    size_t filled = 1;
    for (size_t axis = shape.size(); axis-- > 0;) {
      const auto& map = maps[axis];
      for (size_t i = map.size(); i-- > 0;) {  // backwards: block 0, which the others copy, changes last
        for (size_t k = 0; k < filled; ++k) {
          offsets[i * filled + k] = map[i] < 0 || offsets[k] < 0 ? -1 : offsets[k] + map[i] * strides[axis];
        }
      }
      filled *= map.size();
    }
  }
  return take(source, shape, offsets, fill);
}

void put(const Tensor& source, const std::vector<int64_t>& offsets, Tensor& target) {
  isa::check_internal(static_cast<size_t>(source.size()) == offsets.size() && source.type() == target.type(),
                      "put", "{} offsets for shape {}", offsets.size(), shape_to_string(source.shape()));
  check_offsets(offsets, 0, target.size());
  const size_t width = element_size(source.type());
  for (size_t i = 0; i < offsets.size(); ++i) {
    const auto offset = static_cast<size_t>(offsets[i]);
    if (source.type() == DataType::kString) {
      target.strings()[offset] = source.strings()[i];
    } else {
      std::memcpy(target.bytes().data() + offset * width, source.bytes().data() + i * width, width);
    }
  }
}

Tensor concatenate(const std::vector<const Tensor*>& tensors, size_t axis) {
  const Tensor& first = *tensors.at(0);
  Shape shape = first.shape();
  for (size_t i = 1; i < tensors.size(); ++i) {
    const Shape& other = tensors[i]->shape();
    bool fits = other.size() == shape.size();
    for (size_t k = 0; fits && k < shape.size(); ++k) fits = k == axis || other[k] == shape[k];
    if (!fits) {
      throw isa::UserError(fmt::format("shapes {} and {} can't be concatenated along axis {}",
                                       shape_to_string(first.shape()), shape_to_string(other), axis));
    }
    shape[axis] += other[axis];
  }
  Tensor result(first.type(), shape);
  const Strides strides = strides_of(shape);
  int64_t begin = 0;
  for (const Tensor* tensor : tensors) {
    put(*tensor, strided_offsets(tensor->shape(), strides, begin * strides[axis]), result);
    begin += tensor->shape()[axis];
  }
  return result;
}

Tensor slice(const Tensor& tensor, size_t axis, int64_t begin, int64_t count) {
  Shape shape = tensor.shape();
  const Strides strides = strides_of(shape);
  shape[axis] = count;
  return take(tensor, shape, strided_offsets(shape, strides, begin * strides[axis]));
}

Tensor element_along(const Tensor& tensor, size_t axis, int64_t index) {
  Shape shape = tensor.shape();
  shape.erase(shape.begin() + static_cast<ptrdiff_t>(axis));
  return slice(tensor, axis, index, 1).reshaped(shape);
}

Tensor broadcast_to(const Tensor& tensor, const Shape& shape) {
  if (tensor.shape() == shape) return tensor;
  return take(tensor, shape, strided_offsets(shape, broadcast_strides(tensor.shape(), shape)));
}

Tensor transpose(const Tensor& tensor, const std::vector<size_t>& permutation) {
  const Strides strides = strides_of(tensor.shape());
  Shape shape;
  Strides permuted;
  for (const size_t axis : permutation) {
    shape.push_back(tensor.shape()[axis]);
    permuted.push_back(strides[axis]);
  }
  return take(tensor, shape, strided_offsets(shape, permuted));
}

}  // namespace kodama::compiler::reference
