#include <algorithm>
#include <cmath>

#include "compiler/reference/kernels/kernel.h"
#include "compiler/reference/kernels/strided.h"

/// Operators that make tensors from attributes and shapes.
namespace kodama::compiler::reference {

namespace {

std::vector<Tensor> run_constant(const NodeContext& context) {
  const auto& attributes = context.node().attributes;
  context.require(attributes.size() == 1, "has {} attributes; allowed is exactly one of the values",
                  attributes.size());
  const std::string& name = attributes.begin()->first;
  if (name == "value") return {context.tensor_attribute(name)};
  if (name == "value_float")
    return {Tensor::from_values<float>(DataType::kFloat32, {}, {context.float_attribute(name)})};
  if (name == "value_int")
    return {Tensor::from_values<int64_t>(DataType::kInt64, {}, {context.int_attribute(name)})};
  const auto list = [](const auto& values) { return Shape{static_cast<int64_t>(values.size())}; };
  if (name == "value_floats") {
    const std::vector<float>& values = context.floats_attribute(name);
    return {Tensor::from_values<float>(DataType::kFloat32, list(values), values)};
  }
  if (name == "value_ints") {
    const std::vector<int64_t>& values = context.ints_attribute(name);
    return {Tensor::from_values<int64_t>(DataType::kInt64, list(values), values)};
  }
  if (name == "value_string" || name == "value_strings") {
    const bool is_list = name == "value_strings";
    Tensor result(DataType::kString, is_list ? list(context.strings_attribute(name)) : Shape{});
    if (is_list)
      result.strings() = context.strings_attribute(name);
    else
      result.strings() = {context.string_attribute(name)};
    return {result};
  }
  throw isa::UnsupportedError(context.where() + ": attribute " + name + " has no CPU reference");
}

std::vector<Tensor> run_constant_of_shape(const NodeContext& context) {
  Tensor value = Tensor(DataType::kFloat32, {1});
  if (context.has_attribute("value")) value = context.tensor_attribute("value");
  context.require(value.size() == 1, "value has shape {}; allowed is one element",
                  shape_to_string(value.shape()));
  const Shape shape = context.integers(0);
  return {take(value, shape, strided_offsets(shape, Strides(shape.size(), 0)))};
}

std::vector<Tensor> run_shape(const NodeContext& context) {
  const Shape& shape = context.input(0).shape();
  const auto rank = static_cast<int64_t>(shape.size());
  const auto place = [&](int64_t index) {
    return std::clamp<int64_t>(index < 0 ? index + rank : index, 0, rank);
  };
  const int64_t begin = place(context.int_attribute("start", 0));
  const int64_t end = std::max(begin, place(context.int_attribute("end", rank)));
  return {Tensor::from_values<int64_t>(DataType::kInt64, {end - begin},
                                       std::vector<int64_t>(shape.begin() + begin, shape.begin() + end))};
}

std::vector<Tensor> run_size(const NodeContext& context) {
  return {Tensor::from_values<int64_t>(DataType::kInt64, {}, {context.input(0).size()})};
}

std::vector<Tensor> run_range(const NodeContext& context) {
  const Tensor& start = context.input(0);
  const double step = context.scalar(2);
  context.require(step != 0, "delta is 0");
  const double exact = std::ceil((context.scalar(1) - context.scalar(0)) / step);
  context.require(exact < 0x1p33, "start {}, limit {} and delta {} give too many elements", context.scalar(0),
                  context.scalar(1), step);
  const auto count = static_cast<int64_t>(std::max(0.0, exact));
  Tensor result(start.type(), {count});
  for_number_type(context, start.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto first = static_cast<Compute<T>>(start.data<T>()[0]);
    const auto delta = static_cast<Compute<T>>(context.input(2).data<T>()[0]);
    const auto to = result.data<T>();
    for (size_t i = 0; i < to.size(); ++i) {
      to[i] = to_element<T>(wrapping_add(first, wrapping_multiply(static_cast<Compute<T>>(i), delta)));
    }
  });
  return {result};
}

std::vector<Tensor> run_eye_like(const NodeContext& context) {
  const Tensor& like = context.input(0);
  context.require(like.rank() == 2, "the input has shape {}; allowed is a matrix",
                  shape_to_string(like.shape()));
  const auto type = static_cast<DataType>(context.int_attribute("dtype", like.type()));
  const int64_t diagonal = context.int_attribute("k");
  Tensor result(type, like.shape());
  for_number_or_bool_type(context, type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto to = result.data<T>();
    for (int64_t row = 0; row < like.shape()[0]; ++row) {
      int64_t column = 0;
      if (__builtin_add_overflow(row, diagonal, &column) || column < 0 || column >= like.shape()[1]) continue;
      to[static_cast<size_t>(row * like.shape()[1] + column)] = to_element<T>(1.0f);
    }
  });
  return {result};
}

}  // namespace

void register_generator(KernelRegistry& registry) {
  registry.add("Constant", run_constant);
  registry.add("ConstantOfShape", run_constant_of_shape);
  registry.add("Shape", run_shape);
  registry.add("Size", run_size);
  registry.add("Range", run_range);
  registry.add("EyeLike", run_eye_like);
}

}  // namespace kodama::compiler::reference
