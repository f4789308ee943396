#include <algorithm>
#include <cmath>
#include <complex>
#include <numeric>

#include "compiler/reference/kernels/kernel.h"
#include "compiler/reference/kernels/strided.h"

/// Operators whose addresses or order depend on data.
namespace kodama::compiler::reference {

namespace {

/// Indices (int32 or int64, any shape) into an axis of `extent`; negative ones count from the end.
std::vector<int64_t> indices_into(const NodeContext& context, const Tensor& tensor, int64_t extent) {
  std::vector<int64_t> indices(static_cast<size_t>(tensor.size()));
  const bool known = visit_type_among<int32_t, int64_t>(tensor.type(), [&](auto tag) {
    const auto data = tensor.data<typename decltype(tag)::Type>();
    std::copy(data.begin(), data.end(), indices.begin());
  });
  if (!known) context.fail_unsupported_type(tensor.type());
  for (int64_t& index : indices) {
    context.require(index >= -extent && index < extent, "index {} is out of range; allowed is {} to {}",
                    index, -extent, extent - 1);
    if (index < 0) index += extent;
  }
  return indices;
}

std::vector<Tensor> run_gather(const NodeContext& context) {
  const Tensor& data = context.input(0);
  const Tensor& indices = context.input(1);
  const size_t axis = context.axis(context.int_attribute("axis"), data.rank());
  std::vector<std::vector<int64_t>> maps;
  for (const int64_t extent : data.shape()) {
    maps.emplace_back(static_cast<size_t>(extent));
    std::iota(maps.back().begin(), maps.back().end(), 0);
  }
  maps[axis] = indices_into(context, indices, data.shape()[axis]);
  Shape shape(data.shape().begin(), data.shape().begin() + static_cast<ptrdiff_t>(axis));
  shape.insert(shape.end(), indices.shape().begin(), indices.shape().end());
  shape.insert(shape.end(), data.shape().begin() + static_cast<ptrdiff_t>(axis) + 1, data.shape().end());
  return {take_by_axes(data, maps).reshaped(shape)};
}

/// Offsets into `data` of the elements that an index tensor of the same rank names along `axis`.
std::vector<int64_t> element_offsets(const NodeContext& context, const Tensor& data,
                                     const Tensor& index_tensor) {
  const size_t axis = context.axis(context.int_attribute("axis"), data.rank());
  context.require(index_tensor.rank() == data.rank(), "indices has shape {}; allowed is the rank of data {}",
                  shape_to_string(index_tensor.shape()), shape_to_string(data.shape()));
  Strides strides = strides_of(data.shape());
  for (size_t i = 0; i < strides.size(); ++i) {
    context.require(i == axis || index_tensor.shape()[i] <= data.shape()[i],
                    "indices has shape {}, larger than data {}", shape_to_string(index_tensor.shape()),
                    shape_to_string(data.shape()));
  }
  const int64_t axis_stride = strides[axis];
  strides[axis] = 0;
  const std::vector<int64_t> indices = indices_into(context, index_tensor, data.shape()[axis]);
  std::vector<int64_t> offsets = strided_offsets(index_tensor.shape(), strides);
  for (size_t i = 0; i < offsets.size(); ++i) offsets[i] += indices[i] * axis_stride;
  return offsets;
}

std::vector<Tensor> run_gather_elements(const NodeContext& context) {
  return {take(context.input(0), context.input(1).shape(),
               element_offsets(context, context.input(0), context.input(1)))};
}

/// target[offsets[i]] = update i, added to or multiplied with what is there, one after the other.
void scatter(const NodeContext& context, const Tensor& updates, const std::vector<int64_t>& offsets,
             Tensor& target) {
  const std::string reduction =
      context.has_attribute("reduction") ? context.string_attribute("reduction") : "none";
  context.require_same_type(updates, target);
  if (reduction == "none") {
    put(updates, offsets, target);
    return;
  }
  context.require(reduction == "add" || reduction == "mul",
                  "reduction is '{}'; allowed are none, add and mul", reduction);
  for_number_type(context, target.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto from = updates.data<T>();
    const auto to = target.data<T>();
    for (size_t i = 0; i < offsets.size(); ++i) {
      T& element = to[static_cast<size_t>(offsets[i])];
      const auto old = static_cast<Compute<T>>(element);
      const auto update = static_cast<Compute<T>>(from[i]);
      element =
          to_element<T>(reduction == "add" ? wrapping_add(old, update) : wrapping_multiply(old, update));
    }
  });
}

std::vector<Tensor> run_scatter_elements(const NodeContext& context) {
  Tensor result = context.input(0);
  const Tensor& updates = context.input(2);
  context.require(updates.shape() == context.input(1).shape(),
                  "updates has shape {} and indices {}; they must be the same",
                  shape_to_string(updates.shape()), shape_to_string(context.input(1).shape()));
  scatter(context, updates, element_offsets(context, result, context.input(1)), result);
  return {result};
}

/// The last axis of indices names leading axes of data (after batch_dims common ones): the shape of what is
/// gathered, and the offsets of its elements.
std::pair<Shape, std::vector<int64_t>> nd_offsets(const NodeContext& context, const Tensor& data,
                                                  const Tensor& indices, int64_t batch_dims) {
  context.require(data.rank() >= 1 && indices.rank() >= 1 && batch_dims >= 0 &&
                      batch_dims < std::min(data.rank(), indices.rank()),
                  "data {}, indices {} and batch_dims {} don't fit", shape_to_string(data.shape()),
                  shape_to_string(indices.shape()), batch_dims);
  const auto batch = static_cast<size_t>(batch_dims);
  const auto depth = static_cast<size_t>(indices.shape().back());
  context.require(
      batch + depth <= data.shape().size() &&
          std::equal(data.shape().begin(), data.shape().begin() + batch_dims, indices.shape().begin()),
      "data {}, indices {} and batch_dims {} don't fit", shape_to_string(data.shape()),
      shape_to_string(indices.shape()), batch_dims);
  const Strides strides = strides_of(data.shape());
  Shape shape(indices.shape().begin(), indices.shape().end() - 1);
  const int64_t tuples = element_count(shape);
  const int64_t tuples_per_batch = count_between(shape, batch, shape.size());
  const int64_t batch_stride = count_between(data.shape(), batch, data.shape().size());
  const int64_t slice = count_between(data.shape(), batch + depth, data.shape().size());
  const auto index = indices.data<int64_t>();
  std::vector<int64_t> offsets;
  for (int64_t tuple = 0; tuple < tuples; ++tuple) {
    int64_t begin = tuple / tuples_per_batch * batch_stride;
    for (size_t i = 0; i < depth; ++i) {
      int64_t value = index[static_cast<size_t>(tuple) * depth + i];
      const int64_t extent = data.shape()[batch + i];
      context.require(value >= -extent && value < extent, "index {} is out of range; allowed is {} to {}",
                      value, -extent, extent - 1);
      if (value < 0) value += extent;
      begin += value * strides[batch + i];
    }
    for (int64_t i = 0; i < slice; ++i) offsets.push_back(begin + i);
  }
  shape.insert(shape.end(), data.shape().begin() + static_cast<ptrdiff_t>(batch + depth), data.shape().end());
  return {shape, offsets};
}

std::vector<Tensor> run_gather_nd(const NodeContext& context) {
  const auto [shape, offsets] =
      nd_offsets(context, context.input(0), context.input(1), context.int_attribute("batch_dims", 0));
  return {take(context.input(0), shape, offsets)};
}

std::vector<Tensor> run_scatter_nd(const NodeContext& context) {
  Tensor result = context.input(0);
  const auto [shape, offsets] = nd_offsets(context, result, context.input(1), 0);
  context.require(context.input(2).shape() == shape, "updates has shape {}; allowed is {}",
                  shape_to_string(context.input(2).shape()), shape_to_string(shape));
  scatter(context, context.input(2), offsets, result);
  return {result};
}

/// An axis of `depth` is inserted, all off_value but on_value at the index.
std::vector<Tensor> run_one_hot(const NodeContext& context) {
  const Tensor& indices = context.input(0);
  const Tensor& values = context.input(2);
  const double given_depth = context.scalar(1);
  context.require(given_depth >= 1 && given_depth < 0x1p31, "depth is {}; allowed is 1 to 2^31-1",
                  given_depth);
  const auto depth = static_cast<int64_t>(given_depth);
  context.require(values.shape() == Shape{2}, "values has shape {}; allowed is [2]",
                  shape_to_string(values.shape()));
  const size_t axis = context.axis(context.int_attribute("axis"), indices.rank() + 1);
  Shape shape = indices.shape();
  shape.insert(shape.begin() + static_cast<ptrdiff_t>(axis), depth);
  const int64_t inner = count_between(indices.shape(), axis, indices.shape().size());
  std::vector<int64_t> choice = strided_offsets(shape, Strides(shape.size(), 0));
  for (int64_t i = 0; i < indices.size(); ++i) {
    const double given = std::trunc(element_as_double(indices, i));
    if (!(given >= -static_cast<double>(depth) && given < static_cast<double>(depth))) continue;  // all off
    const auto index = static_cast<int64_t>(given);
    const int64_t at = ((i / inner) * depth + (index < 0 ? index + depth : index)) * inner + i % inner;
    choice[static_cast<size_t>(at)] = 1;
  }
  return {take(values, shape, choice)};
}

/// The coordinates of elements that aren't zero, a column each.
std::vector<Tensor> run_non_zero(const NodeContext& context) {
  const Tensor& x = context.input(0);
  std::vector<int64_t> found;
  const auto find = [&](const auto& data, auto is_zero) {
    for (size_t i = 0; i < data.size(); ++i) {
      if (!is_zero(data[i])) found.push_back(static_cast<int64_t>(i));
    }
  };
  if (x.type() == DataType::kString) {  // as in numpy, what is empty is zero
    find(x.strings(), [](const std::string& text) { return text.empty(); });
  } else if (x.type() == DataType::kComplex64) {
    find(x.data<std::complex<float>>(), [](const auto& value) { return value == 0.0f; });
  } else if (x.type() == DataType::kComplex128) {
    find(x.data<std::complex<double>>(), [](const auto& value) { return value == 0.0; });
  } else {
    for_number_or_bool_type(context, x.type(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      find(x.data<T>(), [](T value) { return static_cast<Compute<T>>(value) == 0; });
    });
  }
  const Strides strides = strides_of(x.shape());
  std::vector<int64_t> coordinates;
  for (size_t axis = 0; axis < strides.size(); ++axis) {
    for (const int64_t offset : found) coordinates.push_back(offset / strides[axis] % x.shape()[axis]);
  }
  return {Tensor::from_values<int64_t>(DataType::kInt64, {x.rank(), static_cast<int64_t>(found.size())},
                                       coordinates)};
}

/// Keeps the slices (elements of the flattened input without an axis) whose condition holds.
std::vector<Tensor> run_compress(const NodeContext& context) {
  Tensor x = context.input(0);
  if (!context.has_attribute("axis")) x = x.reshaped({x.size()});
  const size_t axis = context.axis(context.int_attribute("axis", 0), x.rank());
  const Tensor& condition = context.input(1);
  context.require(condition.rank() == 1, "condition has shape {}; allowed is rank 1",
                  shape_to_string(condition.shape()));
  std::vector<std::vector<int64_t>> maps;
  for (size_t i = 0; i < x.shape().size(); ++i) {
    maps.emplace_back();
    for (int64_t k = 0; k < x.shape()[i]; ++k) {
      if (i != axis || (k < condition.size() && condition.data<bool>()[static_cast<size_t>(k)]))
        maps.back().push_back(k);
    }
  }
  return {take_by_axes(x, maps)};
}

std::vector<Tensor> run_top_k(const NodeContext& context) {
  const Tensor& x = context.input(0);
  const size_t axis = context.axis(context.int_attribute("axis"), x.rank());
  const int64_t extent = x.shape()[axis];
  const int64_t k = context.since_version() < 10 ? context.int_attribute("k") : context.integer_scalar(1);
  context.require(k >= 0 && k <= extent, "k is {}; allowed is 0 to {}", k, extent);
  const bool largest = context.int_attribute("largest", 1) != 0;  // always sorted, which sorted = 0 allows
  Shape shape = x.shape();
  shape[axis] = k;
  const int64_t inner = count_between(x.shape(), axis + 1, x.shape().size());
  const int64_t outer = count_between(x.shape(), 0, axis);
  Tensor indices(DataType::kInt64, shape);
  std::vector<int64_t> offsets(static_cast<size_t>(indices.size()));
  std::vector<int64_t> order(static_cast<size_t>(extent));
  for_number_type(context, x.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto data = x.data<T>();
    for (int64_t i = 0; i < outer; ++i) {
      for (int64_t j = 0; j < inner; ++j) {
        const auto at = [&](int64_t index) { return (i * extent + index) * inner + j; };
        const auto value = [&](int64_t index) {
          return static_cast<Compute<T>>(data[static_cast<size_t>(at(index))]);
        };
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
          // NaN sorts last either way; a comparison with it alone would be no order.
          if (is_nan(value(a)) || is_nan(value(b))) return !is_nan(value(a)) && is_nan(value(b));
          return largest ? value(a) > value(b) : value(a) < value(b);
        });
        for (int64_t n = 0; n < k; ++n) {
          const auto to = static_cast<size_t>((i * k + n) * inner + j);
          indices.data<int64_t>()[to] = order[static_cast<size_t>(n)];
          offsets[to] = at(order[static_cast<size_t>(n)]);
        }
      }
    }
  });
  return {take(x, shape, offsets), indices};
}

}  // namespace

void register_indexing(KernelRegistry& registry) {
  registry.add("Gather", run_gather);
  registry.add("GatherElements", run_gather_elements);
  registry.add("GatherND", run_gather_nd);
  registry.add("Scatter", run_scatter_elements);
  registry.add("ScatterElements", run_scatter_elements);
  registry.add("ScatterND", run_scatter_nd);
  registry.add("OneHot", run_one_hot);
  registry.add("NonZero", run_non_zero);
  registry.add("Compress", run_compress);
  registry.add("TopK", run_top_k);
}

}  // namespace kodama::compiler::reference
