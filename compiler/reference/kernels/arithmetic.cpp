#include "compiler/reference/kernels/kernel.h"
#include "compiler/reference/kernels/strided.h"

/// Operators of two or more tensors, element by element, with broadcasting.
namespace kodama::compiler::reference {

namespace {

/// Before opset 7 broadcasting was asked for by attributes and lined B up with A at `axis`: B's shape gets
/// the 1s that make it numpy's broadcasting.
Tensor align_second_operand(const NodeContext& context, const Tensor& a, const Tensor& b) {
  if (context.since_version() >= 7) return b;
  if (context.int_attribute("broadcast", 0) == 0) {
    context.require(a.shape() == b.shape(), "shapes {} and {} differ, and broadcast is 0",
                    shape_to_string(a.shape()), shape_to_string(b.shape()));
    return b;
  }
  const int64_t start = context.has_attribute("axis") && b.rank() < a.rank()
                            ? static_cast<int64_t>(context.axis(context.int_attribute("axis"), a.rank()))
                            : a.rank() - b.rank();
  context.require(start >= 0 && start + b.rank() <= a.rank(), "shape {} doesn't fit into {} at axis {}",
                  shape_to_string(b.shape()), shape_to_string(a.shape()), start);
  Shape shape = b.shape();
  shape.resize(static_cast<size_t>(a.rank() - start), 1);
  Tensor aligned = b.reshaped(shape);
  context.require(context.broadcast_shape({&a, &aligned}) == a.shape(), "shape {} can't be broadcast to {}",
                  shape_to_string(b.shape()), shape_to_string(a.shape()));
  return aligned;
}

/// Calls f(result index, a index, b index) for every element of the broadcast result.
template <typename F>
void for_each_pair(const Tensor& a, const Tensor& b, const Shape& shape, F&& f) {
  const auto count = static_cast<size_t>(element_count(shape));
  if (a.shape() == b.shape()) {
    for (size_t i = 0; i < count; ++i) f(i, i, i);
    return;
  }
  const std::vector<int64_t> a_offsets = strided_offsets(shape, broadcast_strides(a.shape(), shape));
  const std::vector<int64_t> b_offsets = strided_offsets(shape, broadcast_strides(b.shape(), shape));
  for (size_t i = 0; i < count; ++i) {
    f(i, static_cast<size_t>(a_offsets[i]), static_cast<size_t>(b_offsets[i]));
  }
}

/// result[i] = op(a[i], b[i]) in the compute type of the operands' type T.
template <typename T, typename Op>
Tensor map_pair(const NodeContext& context, const Tensor& a, const Tensor& b, Op op) {
  const Shape shape = context.broadcast_shape({&a, &b});
  Tensor result(a.type(), shape);
  const auto x = a.data<T>();
  const auto y = b.data<T>();
  const auto z = result.data<T>();
  for_each_pair(a, b, shape, [&](size_t i, size_t j, size_t k) {
    z[i] = to_element<T>(op(static_cast<Compute<T>>(x[j]), static_cast<Compute<T>>(y[k])));
  });
  return result;
}

template <typename Op>
Kernel binary(Op op) {
  return [op](const NodeContext& context) -> std::vector<Tensor> {
    const Tensor& a = context.input(0);
    const Tensor b = align_second_operand(context, a, context.input(1));
    context.require_same_type(a, b);
    Tensor result;
    for_number_type(context, a.type(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      result = map_pair<T>(context, a, b, op);
    });
    return {result};
  };
}

/// A binary operator applied from left to right to any number of inputs.
template <typename Op>
Kernel variadic(Op op) {
  return [op](const NodeContext& context) -> std::vector<Tensor> {
    Tensor result = context.input(0);
    for (size_t i = 1; i < context.input_count(); ++i) {
      const Tensor& next = context.input(i);
      context.require(context.since_version() >= 8 || next.shape() == result.shape(),
                      "shapes {} and {} differ; before opset 8 there is no broadcasting",
                      shape_to_string(result.shape()), shape_to_string(next.shape()));
      for_number_type(context, result.type(), [&](auto tag) {
        using T = typename decltype(tag)::Type;
        result = map_pair<T>(context, result, next, op);
      });
    }
    return {result};
  };
}

/// Sum and Mean accumulate in double and round once.
Kernel variadic_sum(bool mean) {
  return [mean](const NodeContext& context) -> std::vector<Tensor> {
    const std::vector<const Tensor*> inputs = context.inputs();
    const Shape shape = context.broadcast_shape(inputs);
    Tensor result(inputs[0]->type(), shape);
    for_float_type(context, result.type(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      std::vector<double> sums(static_cast<size_t>(result.size()), 0.0);
      for (const Tensor* input : inputs) {
        const Tensor whole = broadcast_to(*input, shape);
        const auto x = whole.data<T>();
        for (size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(x[i]);
      }
      const double divisor = mean ? static_cast<double>(inputs.size()) : 1.0;
      const auto z = result.data<T>();
      for (size_t i = 0; i < sums.size(); ++i) z[i] = to_element<T>(sums[i] / divisor);
    });
    return {result};
  };
}

/// Base and exponent may differ in type; the result has the base's. Integer powers of integers are exact
/// (modulo 2^n).
template <typename Base, typename Exponent>
Base power(Base base, Exponent exponent) {
  if constexpr (std::is_integral_v<Base> && std::is_integral_v<Exponent>) {
    if constexpr (std::is_signed_v<Exponent>) {
      if (exponent < 0) {  // 1 / base^n, truncated
        if (base == 1) return 1;
        if constexpr (std::is_signed_v<Base>) {
          if (base == -1) return exponent % 2 == 0 ? Base{1} : Base{-1};
        }
        return 0;
      }
    }
    Base result = 1;
    Base square = base;
    for (auto bits = static_cast<uint64_t>(exponent); bits != 0; bits >>= 1) {
      if ((bits & 1) != 0) result = wrapping_multiply(result, square);
      square = wrapping_multiply(square, square);
    }
    return result;
  } else if constexpr (std::is_integral_v<Base>) {
    const double value = std::pow(static_cast<double>(base), static_cast<double>(exponent));
    if (!(value >= static_cast<double>(std::numeric_limits<Base>::lowest())))
      return std::numeric_limits<Base>::lowest();
    if (value >= static_cast<double>(std::numeric_limits<Base>::max()))
      return std::numeric_limits<Base>::max();
    return static_cast<Base>(value);
  } else {
    return static_cast<Base>(std::pow(base, static_cast<Base>(exponent)));
  }
}

std::vector<Tensor> run_pow(const NodeContext& context) {
  const Tensor& base = context.input(0);
  const Tensor exponent = align_second_operand(context, base, context.input(1));
  const Shape shape = context.broadcast_shape({&base, &exponent});
  Tensor result(base.type(), shape);
  for_number_type(context, base.type(), [&](auto base_tag) {
    using B = typename decltype(base_tag)::Type;
    const auto x = base.data<B>();
    const auto z = result.data<B>();
    const auto run = [&](const auto y) {
      for_each_pair(base, exponent, shape, [&](size_t i, size_t j, size_t k) {
        z[i] = to_element<B>(power(static_cast<Compute<B>>(x[j]), y[k]));
      });
    };
    // Three exponent types are enough: all others convert to one of them exactly.
    const auto count = static_cast<size_t>(exponent.size());
    if (exponent.type() == DataType::kUint64) {
      run(exponent.data<uint64_t>());
    } else if (visit_integer_type(exponent.type(), [](auto) {})) {
      std::vector<int64_t> values(count);
      visit_integer_type(exponent.type(), [&](auto tag) {
        const auto y = exponent.data<typename decltype(tag)::Type>();
        for (size_t i = 0; i < count; ++i) values[i] = static_cast<int64_t>(y[i]);
      });
      run(std::span<const int64_t>(values));
    } else {
      std::vector<double> values(count);
      for (size_t i = 0; i < count; ++i) values[i] = element_as_double(exponent, static_cast<int64_t>(i));
      run(std::span<const double>(values));
    }
  });
  return {result};
}

/// fmod = 1: the sign of the dividend (C's fmod); 0: the sign of the divisor (Python's %), integers only.
std::vector<Tensor> run_mod(const NodeContext& context) {
  const Tensor& a = context.input(0);
  const Tensor& b = context.input(1);
  const bool fmod = context.int_attribute("fmod") != 0;
  Tensor result;
  for_number_type(context, a.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    result = map_pair<T>(context, a, b, [&](auto x, auto y) -> Compute<T> {
      if constexpr (kIsFloat<T>) {
        context.require(fmod, "fmod must be 1 for {}", data_type_name(a.type()));
        return std::fmod(x, y);
      } else {
        if (y == 0) return 0;
        if constexpr (std::is_signed_v<T>) {
          if (y == -1) return 0;
        }
        const auto remainder = static_cast<T>(x % y);
        if constexpr (std::is_signed_v<T>) {
          if (!fmod && remainder != 0 && (remainder < 0) != (y < 0)) return static_cast<T>(remainder + y);
        }
        return remainder;
      }
    });
  });
  return {result};
}

std::vector<Tensor> run_prelu(const NodeContext& context) {
  const Tensor& x = context.input(0);
  Tensor slope = context.input(1);
  if (context.since_version() < 7 && slope.size() > 1 && slope.rank() == 1 && x.rank() >= 2) {
    Shape shape(static_cast<size_t>(x.rank() - 1), 1);  // one slope per channel
    shape[0] = slope.size();
    slope = slope.reshaped(shape);
  }
  context.require(context.broadcast_shape({&x, &slope}) == x.shape(), "slope {} can't be broadcast to {}",
                  shape_to_string(slope.shape()), shape_to_string(x.shape()));
  Tensor result;
  for_number_type(context, x.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    result = map_pair<T>(context, x, slope, [](auto value, auto by) {
      return value < 0 ? wrapping_multiply(value, by) : value;
    });
  });
  return {result};
}

std::vector<Tensor> run_bit_shift(const NodeContext& context) {
  const std::string direction = context.string_attribute("direction");
  context.require(direction == "LEFT" || direction == "RIGHT",
                  "direction is '{}'; allowed are LEFT and RIGHT", direction);
  const Tensor& a = context.input(0);
  Tensor result;
  for_integer_type(context, a.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    result = map_pair<T>(context, a, context.input(1), [&](T value, T by) -> T {
      if (static_cast<uint64_t>(by) >= 8 * sizeof(T)) return 0;
      const auto wide = static_cast<uint64_t>(value);
      return static_cast<T>(direction == "LEFT" ? wide << by : wide >> by);
    });
  });
  return {result};
}

/// Before opset 11 the bounds are attributes; in 11 and later optional inputs.
std::vector<Tensor> run_clip(const NodeContext& context) {
  const Tensor& x = context.input(0);
  Tensor result(x.type(), x.shape());
  for_number_type(context, x.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    Compute<T> low = lowest_value<T>();
    Compute<T> high = highest_value<T>();
    if (context.since_version() < 11) {
      if (context.has_attribute("min")) low = static_cast<Compute<T>>(context.float_attribute("min"));
      if (context.has_attribute("max")) high = static_cast<Compute<T>>(context.float_attribute("max"));
    } else {
      for (const size_t i : {size_t{1}, size_t{2}}) {
        if (!context.has_input(i)) continue;
        context.require(context.input(i).size() == 1, "input {} has shape {}; allowed is a scalar", i,
                        shape_to_string(context.input(i).shape()));
        (i == 1 ? low : high) = static_cast<Compute<T>>(context.input(i).data<T>()[0]);
      }
    }
    const auto from = x.data<T>();
    const auto to = result.data<T>();
    for (size_t i = 0; i < to.size(); ++i) {
      to[i] = to_element<T>(minimum(maximum(static_cast<Compute<T>>(from[i]), low), high));
    }
  });
  return {result};
}

}  // namespace

void register_arithmetic(KernelRegistry& registry) {
  registry.add("Add", binary([](auto a, auto b) { return wrapping_add(a, b); }));
  registry.add("Sub", binary([](auto a, auto b) { return wrapping_subtract(a, b); }));
  registry.add("Mul", binary([](auto a, auto b) { return wrapping_multiply(a, b); }));
  registry.add("Div", binary([](auto a, auto b) { return wrapping_divide(a, b); }));
  registry.add("Max", variadic([](auto a, auto b) { return maximum(a, b); }));
  registry.add("Min", variadic([](auto a, auto b) { return minimum(a, b); }));
  registry.add("Sum", variadic_sum(false));
  registry.add("Mean", variadic_sum(true));
  registry.add("Pow", run_pow);
  registry.add("Mod", run_mod);
  registry.add("PRelu", run_prelu);
  registry.add("BitShift", run_bit_shift);
  registry.add("Clip", run_clip);
}

}  // namespace kodama::compiler::reference
