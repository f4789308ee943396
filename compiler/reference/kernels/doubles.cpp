#include "compiler/reference/kernels/doubles.h"

namespace kodama::compiler::reference {

std::vector<double> as_doubles(const NodeContext& context, const Tensor& tensor) {
  std::vector<double> values;
  for_float_type(context, tensor.type(), [&](auto tag) {
    const auto from = tensor.data<typename decltype(tag)::Type>();
    values.assign(from.begin(), from.end());
  });
  return values;
}

Tensor from_doubles(const NodeContext& context, DataType type, const Shape& shape,
                    const std::vector<double>& values) {
  Tensor result(type, shape);
  for_float_type(context, type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto to = result.data<T>();
    for (size_t i = 0; i < to.size(); ++i) to[i] = to_element<T>(values[i]);
  });
  return result;
}

}  // namespace kodama::compiler::reference
