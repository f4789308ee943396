#include <cmath>

#include "compiler/lowering/node_lowering.h"

/// Operators that compute every element from the elements at the same place: one Map.
namespace kodama::compiler {

namespace {

template <ScalarOp op>
HostReason lower_unary_op(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering&, Term x) { return x.apply(op); });
}
template <Term (*function)(Term)>
HostReason lower_function(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering&, Term x) { return function(x); });
}

/// A Map over input 0, of integers.
template <typename F>
HostReason lower_unary_integer(NodeLowering& lowering, F&& formula) {
  MapBuilder map(lowering, lowering.output_shape());
  map.finish("", formula(map.integer_of_input(0)), lowering.output());
  return kLowered;
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

HostReason lower_celu(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering& l, Term x) {
    const double alpha = l.float_attribute("alpha");
    return select(x, x, exp_minus_one(min(x, 0) * (1 / alpha)) * alpha);
  });
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

HostReason lower_round(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering&, Term x) { return round_to_even(x); });
}

/// The remainder, with the sign of the dividend (fmod) or of the divisor.
HostReason lower_integer_mod(NodeLowering& lowering) {
  const bool of_dividend = lowering.int_attribute("fmod") != 0;
  MapBuilder map(lowering, lowering.output_shape());
  const Integer a = map.integer_of_input(0);
  const Integer b = map.integer_of_input(1);
  // By zero it is zero, as the reference has it.
  const Integer zero = integer_constant(a.low, 0, a.type);
  const Integer rest = where(is_zero(b), zero, divide(a, b).remainder);
  const Term other_sign = less(rest ^ b, zero);
  const Term turns = negation(is_zero(rest)).apply(ScalarOp::kAnd, other_sign);
  map.finish("", of_dividend ? rest : where(turns, rest + b, rest), lowering.output());
  return kLowered;
}

/// fmod: a less the whole number of b's that is nearest to a / b from 0's side. In two steps, so that each
/// number has up to 12 bits and what is left is exact for quotients below 2^24, of doubles 2^36; a quotient
/// that was rounded up takes one b too many.
HostReason lower_mod(NodeLowering& lowering) {
  if (makes_integers(lowering)) return lower_integer_mod(lowering);
  lowering.require(lowering.int_attribute("fmod") != 0, "fmod is 0; of floating-point numbers it must be 1");
  MapBuilder map(lowering, lowering.output_shape());
  const Term a = abs(map.operand_of_input(0));
  const Term b = abs(map.operand_of_input(1));
  const auto step = [](Term rest, Term divisor) {
    const Term left = rest - floor(rest / divisor) * divisor;
    return select(left, select(left - divisor, left - divisor, left), left + divisor);
  };
  const Term rest = step(step(a, b * (a.is_double() ? 0x1p18 : 4096)), b);
  map.finish("", select(map.operand_of_input(0), rest, -rest), lowering.output());
  return kLowered;
}

/// Powers up to this are products.
constexpr int64_t kMaxPower = 16;

/// The base to a power from 0 to 2^bits - 1, from the highest bit of the exponent down; constants have few
/// bits.
Integer power(const Integer& base, const Integer& exponent, int bits) {
  Integer result = integer_constant(base.low, 1, base.type);
  for (int bit = bits - 1; bit >= 0; --bit) {
    if (bit + 1 < bits) result = result * result;
    const Term is_set = exponent.low.apply(ScalarOp::kShiftRight, exponent.low.integer(bit))
                            .apply(ScalarOp::kAnd, exponent.low.integer(1));
    result = where(is_set, bit + 1 < bits ? result * base : base, result);
  }
  return result;
}

/// Integers to the power of integers, which wraps; to a negative power the reciprocal, toward zero.
HostReason lower_integer_pow(NodeLowering& lowering) {
  const auto constant = lowering.uniform_constant(1);
  const bool is_small =
      constant && *constant >= 0 && *constant <= kMaxPower && *constant == std::floor(*constant);
  const auto exponent_type = integer_type(lowering.input_type(1));
  MapBuilder map(lowering, lowering.output_shape());
  const Integer base = map.integer_of_input(0);
  if (is_small) {
    const Integer exponent = integer_constant(base.low, static_cast<int64_t>(*constant), {32, true});
    map.finish("", power(base, exponent, 5), lowering.output());
    return kLowered;
  }
  if (!exponent_type) {
    // In double precision, and toward zero; what isn't whole for lack of the last places is.
    Term exponent = map.operand_of_input(1);
    if (!exponent.is_double()) exponent = widen(exponent);
    const Term exact = pow(to_double(base), exponent);
    const Term nearest = floor(exact + 0.5);
    const Term is_whole = less(abs(exact - nearest), abs(exact) * 0x1p-42);
    const Term value = where(is_whole, nearest, exact);
    const double limit = std::ldexp(1.0, base.type.bits - 1);
    const Term bounded = base.type.is_wide() ? value : min(max(value, -limit), limit - 1);
    map.finish("", double_to_integer(bounded, base.type), lowering.output());
    return kLowered;
  }
  if (base.type.is_wide()) return "64-bit integers to a power that isn't a small constant";
  const Integer exponent = map.integer_of_input(1);
  const auto number = [&](int64_t value) { return integer_constant(base.low, value, base.type); };
  const auto limit = [&](int64_t value) { return integer_constant(base.low, value, exponent.type); };
  // Powers in 32 bits repeat every 2^30 for odd bases, and are zero from 2^5 on for even ones. So exponents
  // of 31 bits do for all.
  constexpr int kExponentBits = 31;
  const Integer most = limit((int64_t{1} << kExponentBits) - 1);
  const Integer highest = limit(int64_t{1} << (kExponentBits - 1));
  const Integer alike = (exponent & limit((int64_t{1} << (kExponentBits - 1)) - 1)) | highest;
  const bool can_exceed = exponent.type.bits - (exponent.type.is_signed ? 1 : 0) > kExponentBits;
  const Integer capped = can_exceed ? where(less(most, exponent), alike, exponent) : exponent;
  const Integer positive = power(base, convert(capped, {32, true}), kExponentBits);
  const Term is_one = equal(base, number(1));
  const Integer minus_one = where(is_zero(exponent & limit(1)), number(1), number(-1));
  const Integer negative = where(is_one, number(1), where(equal(base, number(-1)), minus_one, number(0)));
  const Term below_zero = exponent.type.is_signed ? less(exponent, limit(0)) : base.low.integer(0);
  map.finish("", where(below_zero, negative, positive), lowering.output());
  return kLowered;
}

HostReason lower_pow(NodeLowering& lowering) {
  if (makes_integers(lowering)) return lower_integer_pow(lowering);
  MapBuilder map(lowering, lowering.output_shape());
  // Where one of them is a double, both are.
  const auto type = integer_type(lowering.input_type(1));
  const bool in_double = is_double(lowering.input_type(0)) || is_double(lowering.input_type(1));
  const auto as_operand = [&](Term value) { return in_double && !value.is_double() ? widen(value) : value; };
  const Term x = as_operand(map.operand_of_input(0));
  const auto finish = [&](Term result) {
    const bool narrows = in_double && !is_double(lowering.output_type());
    map.finish("", narrows ? narrow(result, lowering.output_type()) : result, lowering.output());
  };
  const auto exponent = lowering.uniform_constant(1);
  const double magnitude = exponent ? std::fabs(*exponent) : 0;
  const bool is_product = magnitude >= 1 && magnitude <= kMaxPower && magnitude == std::floor(magnitude);
  if (!is_product && magnitude != 0.5) {
    const Term power_of = exponent && !std::isnan(*exponent) ? x.constant(*exponent)
                          : !type                            ? as_operand(map.operand_of_input(1))
                          : in_double                        ? to_double(map.integer_of_input(1))
                                                             : to_float(map.integer_of_input(1));
    finish(pow(x, power_of));
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
  finish(*exponent < 0 ? reciprocal(result) : result);
  return kLowered;
}

}  // namespace

void register_elementwise(OperatorTable& table) {
  constexpr auto kReals = ElementTypes::kReals;
  constexpr auto kAllNumbers = ElementTypes::kAllNumbers;
  table.push_back({"Add", lower_add, kAllNumbers});
  table.push_back({"Sub", lower_sub, kAllNumbers});
  table.push_back({"Mul", lower_mul, kAllNumbers});
  table.push_back({"Div", lower_div, kAllNumbers});
  table.push_back({"Sum", lower_sum, kReals});
  table.push_back({"Mean", lower_mean, kReals});
  table.push_back({"Max", lower_max, kAllNumbers});
  table.push_back({"Min", lower_min, kAllNumbers});
  table.push_back({"Neg", lower_neg, kAllNumbers});
  table.push_back({"Abs", lower_abs, kAllNumbers});
  table.push_back({"Relu", lower_relu, kAllNumbers});
  table.push_back({"Reciprocal", lower_unary_op<ScalarOp::kReciprocal>, kReals});
  table.push_back({"Sqrt", lower_unary_op<ScalarOp::kSqrt>, kReals});
  table.push_back({"Exp", lower_function<exp>, kReals});
  table.push_back({"Log", lower_function<log>, kReals});
  table.push_back({"Tanh", lower_function<tanh>, kReals});
  table.push_back({"Sigmoid", lower_function<sigmoid>, kReals});
  table.push_back({"Erf", lower_unary_op<ScalarOp::kErf>, ElementTypes::kChipFloats});
  table.push_back({"Floor", lower_unary_op<ScalarOp::kFloor>, kReals});
  table.push_back({"Ceil", lower_ceil, kReals});
  table.push_back({"Sign", lower_sign, kAllNumbers});
  table.push_back({"Clip", lower_clip, kAllNumbers});
  table.push_back({"LeakyRelu", lower_leaky_relu, kReals});
  table.push_back({"PRelu", lower_prelu, kReals});
  table.push_back({"Elu", lower_elu, kReals});
  table.push_back({"Celu", lower_celu, kReals});
  table.push_back({"Selu", lower_selu, kReals});
  table.push_back({"Softplus", lower_softplus, kReals});
  table.push_back({"Softsign", lower_softsign, kReals});
  table.push_back({"HardSigmoid", lower_hard_sigmoid, kReals});
  table.push_back({"ThresholdedRelu", lower_thresholded_relu, kReals});
  table.push_back({"Shrink", lower_shrink, kReals});
  table.push_back({"Round", lower_round, kReals});
  table.push_back({"Mod", lower_mod, kAllNumbers});
  table.push_back({"Pow", lower_pow, kAllNumbers});
}

}  // namespace kodama::compiler
