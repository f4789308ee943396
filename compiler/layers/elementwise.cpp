#include <cmath>

#include "compiler/layers/node_lowering.h"

/// Operators that compute every element from the elements at the same place: one Map.
namespace kodama::compiler {

namespace {

template <ScalarOp op>
HostReason lower_unary_op(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering&, Term x) { return x.apply(op); });
}

/// A Map over input 0, of integers.
template <typename F>
HostReason lower_unary_integer(NodeLowering& lowering, F&& formula) {
  MapBuilder map(lowering, lowering.output_shape());
  map.finish("", formula(map.integer_of_input(0)), lowering.output());
  return kLowered;
}

bool makes_integers(const NodeLowering& lowering) {
  return integer_type(lowering.output_type()).has_value();
}

/// Floats by an operation of the chip, integers by a formula.
using IntegerFormula = Integer (*)(const Integer&, const Integer&);
HostReason lower_arithmetic(NodeLowering& lowering, ScalarOp op, IntegerFormula integers) {
  MapBuilder map(lowering, lowering.output_shape());
  if (makes_integers(lowering)) {
    const Integer a = map.integer_of_input(0);
    map.finish("", integers(a, map.integer_of_input(1)), lowering.output());
    return kLowered;
  }
  const Term a = map.operand_of_input(0);
  const Term b = map.operand_of_input(1);
  map.finish("", a.apply(op, b), lowering.output());
  return kLowered;
}

HostReason lower_add(NodeLowering& lowering) {
  return lower_arithmetic(lowering, ScalarOp::kAdd, operator+);
}
HostReason lower_sub(NodeLowering& lowering) {
  return lower_arithmetic(lowering, ScalarOp::kSub, operator-);
}
HostReason lower_mul(NodeLowering& lowering) {
  return lower_arithmetic(lowering, ScalarOp::kMul, operator*);
}

/// op over any number of operands, `scale` times the result, in as many Maps as the limit on operands asks
/// for.
HostReason lower_variadic(NodeLowering& lowering, ScalarOp op, double scale,
                          IntegerFormula integers = nullptr) {
  const Shape& extents = lowering.output_shape();
  int next = 1;
  TensorId partial = lowering.input(0);
  if (lowering.input_count() == 1) {
    lowering.bind_output(partial);
    return kLowered;
  }
  for (int part = 0; next < lowering.input_count(); ++part) {
    MapBuilder map(lowering, extents);
    const auto rest = [&] { return next < lowering.input_count() && map.input_count() < kMaxLayerInputs; };
    const auto target = [&](const std::string& suffix) {
      return suffix.empty() ? lowering.output()
                            : lowering.add_tensor(suffix, lowering.output_type(), extents);
    };
    const auto suffix_now = [&] {
      return next == lowering.input_count() ? std::string() : fmt::format("part{}", part);
    };
    if (makes_integers(lowering)) {
      Integer result = map.integer(partial);
      while (rest()) result = integers(result, map.integer_of_input(next++));
      const std::string suffix = suffix_now();
      map.finish(suffix, result, partial = target(suffix));
      continue;
    }
    Term result = map.operand(partial);
    while (rest()) result = result.apply(op, map.operand_of_input(next++));
    const std::string suffix = suffix_now();
    if (suffix.empty() && scale != 1) result = result * scale;
    map.finish(suffix, result, partial = target(suffix));
  }
  return kLowered;
}

HostReason lower_sum(NodeLowering& lowering) {
  return lower_variadic(lowering, ScalarOp::kAdd, 1);
}
HostReason lower_mean(NodeLowering& lowering) {
  return lower_variadic(lowering, ScalarOp::kAdd, 1.0 / lowering.input_count());
}
HostReason lower_max(NodeLowering& lowering) {
  return lower_variadic(lowering, ScalarOp::kMax, 1, maximum);
}
HostReason lower_min(NodeLowering& lowering) {
  return lower_variadic(lowering, ScalarOp::kMin, 1, minimum);
}

HostReason lower_clip(NodeLowering& lowering) {
  if (!lowering.has_input(1) && !lowering.has_input(2)) {
    lowering.bind_output(lowering.input(0));
    return kLowered;
  }
  MapBuilder map(lowering, lowering.output_shape());
  if (makes_integers(lowering)) {
    Integer result = map.integer_of_input(0);
    if (lowering.has_input(1)) result = maximum(result, map.integer_of_input(1));
    if (lowering.has_input(2)) result = minimum(result, map.integer_of_input(2));
    map.finish("", result, lowering.output());
    return kLowered;
  }
  Term result = map.operand_of_input(0);
  if (lowering.has_input(1)) {
    result = lowering.uniform_constant(1) == 0.0 ? relu(result) : max(result, map.operand_of_input(1));
  }
  if (lowering.has_input(2)) result = min(result, map.operand_of_input(2));
  map.finish("", result, lowering.output());
  return kLowered;
}

HostReason lower_leaky_relu(NodeLowering& lowering) {
  return lower_unary(lowering,
                     [](NodeLowering& l, Term x) { return leaky_relu(x, l.float_attribute("alpha")); });
}

HostReason lower_prelu(NodeLowering& lowering) {
  MapBuilder map(lowering, lowering.output_shape());
  const Term x = map.operand_of_input(0);
  map.finish("", select(x, x, x * map.operand_of_input(1)), lowering.output());
  return kLowered;
}

HostReason lower_elu(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering& l, Term x) { return elu(x, l.float_attribute("alpha")); });
}

HostReason lower_selu(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering& l, Term x) {
    return elu(x, l.float_attribute("alpha")) * l.float_attribute("gamma");
  });
}

HostReason lower_softplus(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering&, Term x) { return softplus(x); });
}

HostReason lower_softsign(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering&, Term x) { return softsign(x); });
}

HostReason lower_hard_sigmoid(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering& l, Term x) {
    return hard_sigmoid(x, l.float_attribute("alpha"), l.float_attribute("beta"));
  });
}

HostReason lower_thresholded_relu(NodeLowering& lowering) {
  return lower_unary(lowering,
                     [](NodeLowering& l, Term x) { return thresholded_relu(x, l.float_attribute("alpha")); });
}

HostReason lower_shrink(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering& l, Term x) {
    const double lambd = l.float_attribute("lambd");
    const double bias = l.float_attribute("bias");
    return select(x + lambd, select(lambd - x, x.constant(0), x - bias), x + bias);
  });
}

HostReason lower_neg(NodeLowering& lowering) {
  if (makes_integers(lowering)) return lower_unary_integer(lowering, [](const Integer& a) { return -a; });
  return lower_unary_op<ScalarOp::kNeg>(lowering);
}
HostReason lower_abs(NodeLowering& lowering) {
  if (makes_integers(lowering)) return lower_unary_integer(lowering, absolute);
  return lower_unary_op<ScalarOp::kAbs>(lowering);
}
HostReason lower_relu(NodeLowering& lowering) {
  if (makes_integers(lowering)) {
    return lower_unary_integer(
        lowering, [](const Integer& a) { return maximum(a, integer_constant(a.low, 0, a.type)); });
  }
  return lower_unary_op<ScalarOp::kRelu>(lowering);
}
HostReason lower_div(NodeLowering& lowering) {
  const auto type = integer_type(lowering.output_type());
  if (type && type->is_wide()) return "a division of 64-bit integers";
  return lower_arithmetic(lowering, ScalarOp::kDiv,
                          [](const Integer& a, const Integer& b) { return divide(a, b).quotient; });
}

HostReason lower_sign(NodeLowering& lowering) {
  if (makes_integers(lowering)) {
    return lower_unary_integer(lowering, [](const Integer& a) {
      const auto number = [&](int64_t value) { return integer_constant(a.low, value, a.type); };
      return where(is_zero(a), number(0), where(less(a, number(0)), number(-1), number(1)));
    });
  }
  return lower_unary(lowering, [](NodeLowering&, Term x) {
    return select(x, select(-x, x.constant(0), x.constant(1)), x.constant(-1));
  });
}

HostReason lower_ceil(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering&, Term x) { return -floor(-x); });
}

/// Half to even: up where more than a half is missing to the number below, or a half and that is odd.
HostReason lower_round(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering&, Term x) {
    const Term below = floor(x);
    const Term missing = x - below;
    const Term is_odd = below - floor(below * 0.5) * 2 - 1;
    const Term from_odd = select(missing - 0.5, x.constant(1), x.constant(0));
    const Term from_even = select(0.5 - missing, x.constant(0), x.constant(1));
    return below + select(is_odd, from_odd, from_even);
  });
}

/// fmod: a less the whole number of b's that is nearest to a / b from 0's side. In two steps, so that each
/// number has up to 12 bits and what is left is exact for quotients below 2^24; a quotient that was rounded
/// up takes one b too many.
HostReason lower_mod(NodeLowering& lowering) {
  lowering.require(lowering.int_attribute("fmod") != 0, "fmod is 0; of floating-point numbers it must be 1");
  MapBuilder map(lowering, lowering.output_shape());
  const Term a = abs(map.operand_of_input(0));
  const Term b = abs(map.operand_of_input(1));
  const auto step = [](Term rest, Term divisor) {
    const Term left = rest - floor(rest / divisor) * divisor;
    return select(left, select(left - divisor, left - divisor, left), left + divisor);
  };
  const Term rest = step(step(a, b * 4096), b);
  map.finish("", select(map.operand_of_input(0), rest, -rest), lowering.output());
  return kLowered;
}

/// Powers up to this are products.
constexpr int64_t kMaxPower = 16;

HostReason lower_pow(NodeLowering& lowering) {
  MapBuilder map(lowering, lowering.output_shape());
  const Term x = map.operand_of_input(0);
  const auto exponent = lowering.uniform_constant(1);
  const double magnitude = exponent ? std::fabs(*exponent) : 0;
  const bool is_product = magnitude >= 1 && magnitude <= kMaxPower && magnitude == std::floor(magnitude);
  if (!is_product && magnitude != 0.5) {
    if (!has_float_arithmetic(lowering.input_type(1)))
      return fmt::format("the exponent is {}", data_type_name(lowering.input_type(1)));
    map.finish("", pow(x, map.operand_of_input(1)), lowering.output());
    return kLowered;
  }
  Term result = x;
  if (is_product) {
    // Square and multiply, from the highest bit down.
    const auto power = static_cast<int64_t>(magnitude);
    int64_t bit = 1;
    while (bit * 2 <= power) bit *= 2;
    for (bit /= 2; bit > 0; bit /= 2) {
      result = result * result;
      if ((power & bit) != 0) result = result * x;
    }
  } else {
    result = sqrt(x);
  }
  map.finish("", *exponent < 0 ? reciprocal(result) : result, lowering.output());
  return kLowered;
}

}  // namespace

void register_elementwise(OperatorTable& table) {
  constexpr auto kFloats = ElementTypes::kChipFloats;
  constexpr auto kNumbers = ElementTypes::kNumbers;
  table.push_back({"Add", lower_add, kNumbers});
  table.push_back({"Sub", lower_sub, kNumbers});
  table.push_back({"Mul", lower_mul, kNumbers});
  table.push_back({"Div", lower_div, kNumbers});
  table.push_back({"Sum", lower_sum, kFloats});
  table.push_back({"Mean", lower_mean, kFloats});
  table.push_back({"Max", lower_max, kNumbers});
  table.push_back({"Min", lower_min, kNumbers});
  table.push_back({"Neg", lower_neg, kNumbers});
  table.push_back({"Abs", lower_abs, kNumbers});
  table.push_back({"Relu", lower_relu, kNumbers});
  table.push_back({"Reciprocal", lower_unary_op<ScalarOp::kReciprocal>, kFloats});
  table.push_back({"Sqrt", lower_unary_op<ScalarOp::kSqrt>, kFloats});
  table.push_back({"Exp", lower_unary_op<ScalarOp::kExp>, kFloats});
  table.push_back({"Log", lower_unary_op<ScalarOp::kLog>, kFloats});
  table.push_back({"Tanh", lower_unary_op<ScalarOp::kTanh>, kFloats});
  table.push_back({"Sigmoid", lower_unary_op<ScalarOp::kSigmoid>, kFloats});
  table.push_back({"Erf", lower_unary_op<ScalarOp::kErf>, kFloats});
  table.push_back({"Floor", lower_unary_op<ScalarOp::kFloor>, kFloats});
  table.push_back({"Ceil", lower_ceil, kFloats});
  table.push_back({"Sign", lower_sign, kNumbers});
  table.push_back({"Clip", lower_clip, kNumbers});
  table.push_back({"LeakyRelu", lower_leaky_relu, kFloats});
  table.push_back({"PRelu", lower_prelu, kFloats});
  table.push_back({"Elu", lower_elu, kFloats});
  table.push_back({"Selu", lower_selu, kFloats});
  table.push_back({"Softplus", lower_softplus, kFloats});
  table.push_back({"Softsign", lower_softsign, kFloats});
  table.push_back({"HardSigmoid", lower_hard_sigmoid, kFloats});
  table.push_back({"ThresholdedRelu", lower_thresholded_relu, kFloats});
  table.push_back({"Shrink", lower_shrink, kFloats});
  table.push_back({"Round", lower_round, kFloats});
  table.push_back({"Mod", lower_mod, kFloats});
  table.push_back({"Pow", lower_pow, kFloats});
}

}  // namespace kodama::compiler
