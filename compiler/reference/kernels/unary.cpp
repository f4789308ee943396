#include <cmath>

#include "compiler/reference/kernels/kernel.h"

/// Operators of one tensor, element by element.
namespace kodama::compiler::reference {

namespace {

template <typename T, typename Op>
Tensor map_elements(const Tensor& x, Op op) {
  Tensor result(x.type(), x.shape());
  const auto from = x.data<T>();
  const auto to = result.data<T>();
  for (size_t i = 0; i < to.size(); ++i) to[i] = to_element<T>(op(static_cast<Compute<T>>(from[i])));
  return result;
}

/// An operator on floating point: op(float) or op(double).
template <typename Op>
Kernel on_floats(Op op) {
  return [op](const NodeContext& context) -> std::vector<Tensor> {
    Tensor result;
    for_float_type(context, context.input(0).type(), [&](auto tag) {
      result = map_elements<typename decltype(tag)::Type>(context.input(0), op);
    });
    return {result};
  };
}

/// An operator on all numbers.
template <typename Op>
Kernel on_numbers(Op op) {
  return [op](const NodeContext& context) -> std::vector<Tensor> {
    Tensor result;
    for_number_type(context, context.input(0).type(), [&](auto tag) {
      result = map_elements<typename decltype(tag)::Type>(context.input(0), op);
    });
    return {result};
  };
}

/// An operator on floating point with parameters from attributes: op(x, first, second).
template <typename Op>
Kernel with_attributes(std::string first, std::string second, Op op) {
  return [=](const NodeContext& context) -> std::vector<Tensor> {
    const float a = first.empty() ? 0.0f : context.float_attribute(first);
    const float b = second.empty() ? 0.0f : context.float_attribute(second);
    Tensor result;
    for_float_type(context, context.input(0).type(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      result = map_elements<T>(context.input(0), [&](auto x) {
        return op(x, static_cast<Compute<T>>(a), static_cast<Compute<T>>(b));
      });
    });
    return {result};
  };
}

template <typename T>
T absolute(T x) {
  if constexpr (std::is_unsigned_v<T>) {
    return x;
  } else if constexpr (std::is_integral_v<T>) {
    return x < 0 ? wrapping_subtract(T{0}, x) : x;
  } else {
    return std::fabs(x);
  }
}

template <typename T>
T negated(T x) {
  if constexpr (std::is_integral_v<T>) {
    return wrapping_subtract(T{0}, x);
  } else {
    return -x;
  }
}

template <typename T>
T sigmoid(T x) {
  // exp of a negative number only, so that nothing overflows.
  const T e = std::exp(-std::fabs(x));
  return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}

template <typename T>
T softplus(T x) {
  return maximum(x, T{0}) + std::log1p(std::exp(-std::fabs(x)));
}

/// IsNaN and IsInf: floating point to bool.
template <typename Op>
std::vector<Tensor> classify(const NodeContext& context, Op op) {
  const Tensor& x = context.input(0);
  Tensor result(DataType::kBool, x.shape());
  for_float_type(context, x.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto from = x.data<T>();
    const auto to = result.data<bool>();
    for (size_t i = 0; i < to.size(); ++i) to[i] = op(static_cast<Compute<T>>(from[i]));
  });
  return {result};
}

std::vector<Tensor> run_is_inf(const NodeContext& context) {
  const bool positive = context.int_attribute("detect_positive") != 0;
  const bool negative = context.int_attribute("detect_negative") != 0;
  return classify(context, [=](auto x) { return std::isinf(x) && (x > 0 ? positive : negative); });
}

/// y = x + bias if x < -lambd, x - bias if x > lambd, else 0.
std::vector<Tensor> run_shrink(const NodeContext& context) {
  const float bias = context.float_attribute("bias");
  const float lambd = context.float_attribute("lambd");
  Tensor result;
  for_number_type(context, context.input(0).type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    result = map_elements<T>(context.input(0), [&](auto x) -> Compute<T> {
      const auto value = static_cast<double>(x);
      const double shrunk = value < -lambd ? value + bias : value > lambd ? value - bias : 0.0;
      return static_cast<Compute<T>>(shrunk);
    });
  });
  return {result};
}

}  // namespace

void register_unary(KernelRegistry& registry) {
  registry.add("Abs", on_numbers([](auto x) { return absolute(x); }));
  registry.add("Neg", on_numbers([](auto x) { return negated(x); }));
  registry.add("Relu", on_numbers([](auto x) { return maximum(x, decltype(x){0}); }));
  registry.add("Sign", on_numbers([](auto x) {
                 return is_nan(x) ? x : static_cast<decltype(x)>(x > 0 ? 1 : x == 0 ? 0 : -1);
               }));
  registry.add("Reciprocal", on_floats([](auto x) { return 1 / x; }));
  registry.add("Floor", on_floats([](auto x) { return std::floor(x); }));
  registry.add("Ceil", on_floats([](auto x) { return std::ceil(x); }));
  registry.add("Round", on_floats([](auto x) { return std::nearbyint(x); }));  // halves to even
  registry.add("Sqrt", on_floats([](auto x) { return std::sqrt(x); }));
  registry.add("Exp", on_floats([](auto x) { return std::exp(x); }));
  registry.add("Log", on_floats([](auto x) { return std::log(x); }));
  registry.add("Sin", on_floats([](auto x) { return std::sin(x); }));
  registry.add("Cos", on_floats([](auto x) { return std::cos(x); }));
  registry.add("Tan", on_floats([](auto x) { return std::tan(x); }));
  registry.add("Asin", on_floats([](auto x) { return std::asin(x); }));
  registry.add("Acos", on_floats([](auto x) { return std::acos(x); }));
  registry.add("Atan", on_floats([](auto x) { return std::atan(x); }));
  registry.add("Sinh", on_floats([](auto x) { return std::sinh(x); }));
  registry.add("Cosh", on_floats([](auto x) { return std::cosh(x); }));
  registry.add("Tanh", on_floats([](auto x) { return std::tanh(x); }));
  registry.add("Asinh", on_floats([](auto x) { return std::asinh(x); }));
  registry.add("Acosh", on_floats([](auto x) { return std::acosh(x); }));
  registry.add("Atanh", on_floats([](auto x) { return std::atanh(x); }));
  registry.add("Erf", on_numbers([](auto x) {
                 if constexpr (std::is_integral_v<decltype(x)>) {
                   return static_cast<decltype(x)>(std::erf(static_cast<double>(x)));
                 } else {
                   return std::erf(x);
                 }
               }));
  registry.add("Sigmoid", on_floats([](auto x) { return sigmoid(x); }));
  registry.add("Softplus", on_floats([](auto x) { return softplus(x); }));
  registry.add("Softsign", on_floats([](auto x) { return x / (1 + std::fabs(x)); }));
  registry.add("LeakyRelu",
               with_attributes("alpha", "", [](auto x, auto alpha, auto) { return x < 0 ? alpha * x : x; }));
  registry.add("ThresholdedRelu",
               with_attributes("alpha", "", [](auto x, auto alpha, auto) { return x > alpha ? x : 0; }));
  registry.add("Elu", with_attributes("alpha", "", [](auto x, auto alpha, auto) {
                 return x < 0 ? alpha * std::expm1(x) : x;
               }));
  // Its body in ONNX makes a list of one element of a scalar.
  registry.add("Celu", with_attributes("alpha", "", [](auto x, auto alpha, auto) {
                 return x < 0 ? alpha * std::expm1(x / alpha) : x;
               }));
  registry.add("Selu", with_attributes("alpha", "gamma", [](auto x, auto alpha, auto gamma) {
                 return gamma * (x > 0 ? x : alpha * std::expm1(x));
               }));
  registry.add("HardSigmoid", with_attributes("alpha", "beta", [](auto x, auto alpha, auto beta) {
                 using T = decltype(x);
                 return minimum(maximum(alpha * x + beta, T{0}), T{1});
               }));
  registry.add("IsNaN", [](const NodeContext& context) {
    return classify(context, [](auto x) { return std::isnan(x); });
  });
  registry.add("IsInf", run_is_inf);
  registry.add("Shrink", run_shrink);
}

}  // namespace kodama::compiler::reference
