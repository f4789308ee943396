#include "compiler/reference/kernels/kernel.h"
#include "compiler/reference/kernels/strided.h"

/// Comparisons, boolean operators and Where.
namespace kodama::compiler::reference {

namespace {

/// The two operands of the same shape. Before opset 7 broadcasting lines B up with A at `axis`.
std::pair<Tensor, Tensor> broadcast_operands(const NodeContext& context) {
  const Tensor& a = context.input(0);
  Tensor b = context.input(1);
  if (context.since_version() < 7 && context.int_attribute("broadcast", 0) != 0 &&
      context.has_attribute("axis") && b.rank() < a.rank()) {
    const size_t start = context.axis(context.int_attribute("axis"), a.rank());
    context.require(static_cast<int64_t>(start) + b.rank() <= a.rank(),
                    "shape {} doesn't fit into {} at axis {}", shape_to_string(b.shape()),
                    shape_to_string(a.shape()), start);
    Shape shape = b.shape();
    shape.resize(static_cast<size_t>(a.rank()) - start, 1);
    b = b.reshaped(shape);
  }
  const Shape shape = context.broadcast_shape({&a, &b});
  return {broadcast_to(a, shape), broadcast_to(b, shape)};
}

template <typename Op>
Kernel comparison(Op op) {
  return [op](const NodeContext& context) -> std::vector<Tensor> {
    const auto [a, b] = broadcast_operands(context);
    context.require_same_type(a, b);
    Tensor result(DataType::kBool, a.shape());
    const auto to = result.data<bool>();
    if (a.type() == DataType::kString) {
      for (size_t i = 0; i < to.size(); ++i) to[i] = op(a.strings()[i], b.strings()[i]);
      return {result};
    }
    for_number_or_bool_type(context, a.type(), [&, &x_tensor = a, &y_tensor = b](auto tag) {
      using T = typename decltype(tag)::Type;
      const auto x = x_tensor.template data<T>();
      const auto y = y_tensor.template data<T>();
      for (size_t i = 0; i < to.size(); ++i) {
        to[i] = op(static_cast<Compute<T>>(x[i]), static_cast<Compute<T>>(y[i]));
      }
    });
    return {result};
  };
}

template <typename Op>
Kernel boolean(Op op) {
  return [op](const NodeContext& context) -> std::vector<Tensor> {
    const auto [a, b] = broadcast_operands(context);
    Tensor result(DataType::kBool, a.shape());
    const auto x = a.data<bool>();
    const auto y = b.data<bool>();
    const auto to = result.data<bool>();
    for (size_t i = 0; i < to.size(); ++i) to[i] = op(x[i], y[i]);
    return {result};
  };
}

std::vector<Tensor> run_not(const NodeContext& context) {
  Tensor result = context.input(0);
  for (bool& value : result.data<bool>()) value = !value;
  return {result};
}

std::vector<Tensor> run_where(const NodeContext& context) {
  const Shape shape = context.broadcast_shape({&context.input(0), &context.input(1), &context.input(2)});
  const Tensor condition = broadcast_to(context.input(0), shape);
  const Tensor yes = broadcast_to(context.input(1), shape);
  Tensor result = broadcast_to(context.input(2), shape);
  const auto chosen = condition.data<bool>();
  const size_t width = element_size(result.type());
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (!chosen[i]) continue;
    if (result.type() == DataType::kString) {
      result.strings()[i] = yes.strings()[i];
    } else {
      const auto from = yes.bytes().subspan(i * width, width);
      std::copy(from.begin(), from.end(), result.bytes().begin() + static_cast<ptrdiff_t>(i * width));
    }
  }
  return {result};
}

}  // namespace

void register_logic(KernelRegistry& registry) {
  registry.add("Equal", comparison([](const auto& a, const auto& b) { return a == b; }));
  registry.add("Less", comparison([](const auto& a, const auto& b) { return a < b; }));
  registry.add("Greater", comparison([](const auto& a, const auto& b) { return a > b; }));
  registry.add("LessOrEqual", comparison([](const auto& a, const auto& b) { return a <= b; }));
  registry.add("GreaterOrEqual", comparison([](const auto& a, const auto& b) { return a >= b; }));
  registry.add("And", boolean([](bool a, bool b) { return a && b; }));
  registry.add("Or", boolean([](bool a, bool b) { return a || b; }));
  registry.add("Xor", boolean([](bool a, bool b) { return a != b; }));
  registry.add("Not", run_not);
  registry.add("Where", run_where);
}

}  // namespace kodama::compiler::reference
