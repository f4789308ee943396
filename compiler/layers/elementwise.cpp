#include <cmath>

#include "compiler/layers/node_lowering.h"

/// Operators that compute every element from the elements at the same place: one Map.
namespace kodama::compiler {

namespace {

/// One Map over input 0; F: (NodeLowering&, Term x) -> Term.
template <typename F>
HostReason lower_unary(NodeLowering& lowering, F&& formula) {
  MapBuilder map(lowering, lowering.output_shape());
  const Term x = map.operand_of_input(0);
  map.finish("", formula(lowering, x), lowering.output());
  return kLowered;
}

template <ScalarOp op>
HostReason lower_unary_op(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering&, Term x) { return x.apply(op); });
}

template <ScalarOp op>
HostReason lower_binary_op(NodeLowering& lowering) {
  MapBuilder map(lowering, lowering.output_shape());
  const Term a = map.operand_of_input(0);
  const Term b = map.operand_of_input(1);
  map.finish("", a.apply(op, b), lowering.output());
  return kLowered;
}

/// op over any number of operands, `scale` times the result, in as many Maps as the limit on operands asks
/// for.
HostReason lower_variadic(NodeLowering& lowering, ScalarOp op, double scale) {
  const Shape& extents = lowering.output_shape();
  int next = 1;
  TensorId partial = lowering.input(0);
  if (lowering.input_count() == 1) {
    lowering.bind_output(partial);
    return kLowered;
  }
  for (int part = 0; next < lowering.input_count(); ++part) {
    MapBuilder map(lowering, extents);
    Term result = map.operand(partial);
    while (next < lowering.input_count() && map.input_count() < kMaxLayerInputs) {
      result = result.apply(op, map.operand_of_input(next++));
    }
    const bool last = next == lowering.input_count();
    if (last && scale != 1) result = result * scale;
    const std::string suffix = last ? "" : fmt::format("part{}", part);
    partial = last ? lowering.output() : lowering.add_tensor(suffix, lowering.output_type(), extents);
    map.finish(suffix, result, partial);
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
  return lower_variadic(lowering, ScalarOp::kMax, 1);
}
HostReason lower_min(NodeLowering& lowering) {
  return lower_variadic(lowering, ScalarOp::kMin, 1);
}

HostReason lower_clip(NodeLowering& lowering) {
  if (!lowering.has_input(1) && !lowering.has_input(2)) {
    lowering.bind_output(lowering.input(0));
    return kLowered;
  }
  MapBuilder map(lowering, lowering.output_shape());
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
                     [](NodeLowering& l, Term x) { return select(x, x, x * l.float_attribute("alpha")); });
}

HostReason lower_prelu(NodeLowering& lowering) {
  MapBuilder map(lowering, lowering.output_shape());
  const Term x = map.operand_of_input(0);
  map.finish("", select(x, x, x * map.operand_of_input(1)), lowering.output());
  return kLowered;
}

/// exp(x) - 1 for x <= 0, without an overflow where x > 0 and the result isn't used.
Term exp_minus_one_below_zero(Term x) {
  return exp(min(x, 0)) - 1;
}

HostReason lower_elu(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering& l, Term x) {
    return select(x, x, exp_minus_one_below_zero(x) * l.float_attribute("alpha"));
  });
}

HostReason lower_selu(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering& l, Term x) {
    return select(x, x, exp_minus_one_below_zero(x) * l.float_attribute("alpha")) *
           l.float_attribute("gamma");
  });
}

/// log(1 + exp(x)), written so that exp never overflows.
HostReason lower_softplus(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering&, Term x) { return relu(x) + log(exp(-abs(x)) + 1); });
}

HostReason lower_softsign(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering&, Term x) { return x / (abs(x) + 1); });
}

HostReason lower_hard_sigmoid(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering& l, Term x) {
    return min(relu(x * l.float_attribute("alpha") + l.float_attribute("beta")), 1);
  });
}

HostReason lower_thresholded_relu(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering& l, Term x) {
    return select(l.float_attribute("alpha") - x, x.constant(0), x);
  });
}

HostReason lower_shrink(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering& l, Term x) {
    const double lambd = l.float_attribute("lambd");
    const double bias = l.float_attribute("bias");
    return select(x + lambd, select(lambd - x, x.constant(0), x - bias), x + bias);
  });
}

HostReason lower_sign(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering&, Term x) {
    return select(x, select(-x, x.constant(0), x.constant(1)), x.constant(-1));
  });
}

HostReason lower_ceil(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering&, Term x) { return -floor(-x); });
}

/// Powers up to this are products.
constexpr int64_t kMaxPower = 16;

HostReason lower_pow(NodeLowering& lowering) {
  const auto exponent = lowering.uniform_constant(1);
  if (!exponent) return "the exponent isn't a constant";
  if (lowering.input_shape(0) != lowering.output_shape()) return "the exponent's shape widens the base";
  const double magnitude = std::fabs(*exponent);
  const bool is_product = magnitude >= 1 && magnitude <= kMaxPower && magnitude == std::floor(magnitude);
  if (!is_product && magnitude != 0.5) {
    return fmt::format("the exponent {} is neither a whole number from 1 to {} nor 0.5", *exponent,
                       kMaxPower);
  }
  return lower_unary(lowering, [&](NodeLowering&, Term x) {
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
    return *exponent < 0 ? reciprocal(result) : result;
  });
}

HostReason lower_cast(NodeLowering& lowering) {
  const DataType from = lowering.input_type(0);
  const DataType to = lowering.output_type();
  if (from == to) {
    lowering.bind_output(lowering.input(0));
    return kLowered;
  }
  // The conversion is the operand's or the result's own: a double is narrowed on its way to the chip (so that
  // nothing is rounded twice), or widened on its way back.
  if (!has_chip_form(from) || !has_chip_form(to)) {
    return fmt::format("no conversion from {} to {} on the chip", data_type_name(from), data_type_name(to));
  }
  return lower_unary(lowering, [](NodeLowering&, Term x) { return x; });
}

}  // namespace

void register_elementwise(OperatorTable& table) {
  constexpr auto kFloats = ElementTypes::kChipFloats;
  table.push_back({"Add", lower_binary_op<ScalarOp::kAdd>, kFloats});
  table.push_back({"Sub", lower_binary_op<ScalarOp::kSub>, kFloats});
  table.push_back({"Mul", lower_binary_op<ScalarOp::kMul>, kFloats});
  table.push_back({"Div", lower_binary_op<ScalarOp::kDiv>, kFloats});
  table.push_back({"Sum", lower_sum, kFloats});
  table.push_back({"Mean", lower_mean, kFloats});
  table.push_back({"Max", lower_max, kFloats});
  table.push_back({"Min", lower_min, kFloats});
  table.push_back({"Neg", lower_unary_op<ScalarOp::kNeg>, kFloats});
  table.push_back({"Abs", lower_unary_op<ScalarOp::kAbs>, kFloats});
  table.push_back({"Relu", lower_unary_op<ScalarOp::kRelu>, kFloats});
  table.push_back({"Reciprocal", lower_unary_op<ScalarOp::kReciprocal>, kFloats});
  table.push_back({"Sqrt", lower_unary_op<ScalarOp::kSqrt>, kFloats});
  table.push_back({"Exp", lower_unary_op<ScalarOp::kExp>, kFloats});
  table.push_back({"Log", lower_unary_op<ScalarOp::kLog>, kFloats});
  table.push_back({"Tanh", lower_unary_op<ScalarOp::kTanh>, kFloats});
  table.push_back({"Sigmoid", lower_unary_op<ScalarOp::kSigmoid>, kFloats});
  table.push_back({"Erf", lower_unary_op<ScalarOp::kErf>, kFloats});
  table.push_back({"Floor", lower_unary_op<ScalarOp::kFloor>, kFloats});
  table.push_back({"Ceil", lower_ceil, kFloats});
  table.push_back({"Sign", lower_sign, kFloats});
  table.push_back({"Clip", lower_clip, kFloats});
  table.push_back({"LeakyRelu", lower_leaky_relu, kFloats});
  table.push_back({"PRelu", lower_prelu, kFloats});
  table.push_back({"Elu", lower_elu, kFloats});
  table.push_back({"Selu", lower_selu, kFloats});
  table.push_back({"Softplus", lower_softplus, kFloats});
  table.push_back({"Softsign", lower_softsign, kFloats});
  table.push_back({"HardSigmoid", lower_hard_sigmoid, kFloats});
  table.push_back({"ThresholdedRelu", lower_thresholded_relu, kFloats});
  table.push_back({"Shrink", lower_shrink, kFloats});
  table.push_back({"Pow", lower_pow, kFloats});
  table.push_back({"Cast", lower_cast, ElementTypes::kAny});
}

}  // namespace kodama::compiler
