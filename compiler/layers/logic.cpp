#include "compiler/layers/node_lowering.h"

/// Comparisons, boolean operators, choices, bits, and conversions among the types of elements.
namespace kodama::compiler {

namespace {

using onnx::TensorProto;

bool is_float_operand(const NodeLowering& lowering, int index) {
  return !integer_type(lowering.input_type(index)).has_value();
}

/// A Map to bool.
void finish_condition(NodeLowering& lowering, MapBuilder& map, Term condition) {
  map.finish("", condition, lowering.output());
}

/// floats, integers: of operands 0 and 1.
HostReason lower_comparison(NodeLowering& lowering, Term (*floats)(Term, Term),
                            Term (*integers)(const Integer&, const Integer&), bool swaps, bool negates) {
  MapBuilder map(lowering, lowering.output_shape());
  const int first = swaps ? 1 : 0;
  const Term condition = is_float_operand(lowering, 0)
                             ? floats(map.operand_of_input(first), map.operand_of_input(1 - first))
                             : integers(map.integer_of_input(first), map.integer_of_input(1 - first));
  finish_condition(lowering, map, negates ? negation(condition) : condition);
  return kLowered;
}
HostReason lower_equal(NodeLowering& lowering) {
  return lower_comparison(lowering, equal, equal, false, false);
}
HostReason lower_less(NodeLowering& lowering) {
  return lower_comparison(lowering, less, less, false, false);
}
HostReason lower_greater(NodeLowering& lowering) {
  return lower_comparison(lowering, less, less, true, false);
}
HostReason lower_less_or_equal(NodeLowering& lowering) {
  return lower_comparison(lowering, less, less, true, true);
}
HostReason lower_greater_or_equal(NodeLowering& lowering) {
  return lower_comparison(lowering, less, less, false, true);
}

template <ScalarOp op>
HostReason lower_boolean(NodeLowering& lowering) {
  MapBuilder map(lowering, lowering.output_shape());
  const Term a = map.operand_of_input(0);
  finish_condition(lowering, map, a.apply(op, map.operand_of_input(1)));
  return kLowered;
}
HostReason lower_not(NodeLowering& lowering) {
  MapBuilder map(lowering, lowering.output_shape());
  finish_condition(lowering, map, negation(map.operand_of_input(0)));
  return kLowered;
}

HostReason lower_where(NodeLowering& lowering) {
  MapBuilder map(lowering, lowering.output_shape());
  const Term condition = map.operand_of_input(0);
  if (is_float_operand(lowering, 1)) {
    const Term yes = map.operand_of_input(1);
    map.finish("", where(condition, yes, map.operand_of_input(2)), lowering.output());
  } else {
    const Integer yes = map.integer_of_input(1);
    map.finish("", where(condition, yes, map.integer_of_input(2)), lowering.output());
  }
  return kLowered;
}

constexpr int32_t kInfinityBits = 0x7f800000;
constexpr int32_t kMagnitudeBits = 0x7fffffff;

/// The bits of a float's magnitude, which order as the magnitudes do.
Integer magnitude_bits(Term x) {
  const Term bits = x.apply(ScalarOp::kFloatBits);
  return integer_of_word(bits.apply(ScalarOp::kAnd, x.integer(kMagnitudeBits)), {32, true});
}

HostReason lower_is_nan(NodeLowering& lowering) {
  MapBuilder map(lowering, lowering.output_shape());
  const Integer bits = magnitude_bits(map.operand_of_input(0));
  finish_condition(lowering, map, less(integer_constant(bits.low, kInfinityBits, bits.type), bits));
  return kLowered;
}
HostReason lower_is_inf(NodeLowering& lowering) {
  MapBuilder map(lowering, lowering.output_shape());
  const Term x = map.operand_of_input(0);
  const Integer bits = magnitude_bits(x);
  const Term infinite = equal(bits, integer_constant(bits.low, kInfinityBits, bits.type));
  const Integer whole = integer_of_word(x.apply(ScalarOp::kFloatBits), {32, true});
  const Term negative = less(whole, integer_constant(bits.low, 0, whole.type));
  Term wanted = x.integer(0);
  if (lowering.int_attribute("detect_negative") != 0) wanted = negative;
  if (lowering.int_attribute("detect_positive") != 0)
    wanted = wanted.apply(ScalarOp::kOr, negation(negative));
  finish_condition(lowering, map, infinite.apply(ScalarOp::kAnd, wanted));
  return kLowered;
}

HostReason lower_bit_shift(NodeLowering& lowering) {
  MapBuilder map(lowering, lowering.output_shape());
  const Integer a = map.integer_of_input(0);
  const Integer count = map.integer_of_input(1);
  const std::string direction = lowering.string_attribute("direction");
  lowering.require(direction == "LEFT" || direction == "RIGHT",
                   "direction is '{}'; LEFT and RIGHT are allowed", direction);
  map.finish("", direction == "LEFT" ? shift_left(a, count) : shift_right(a, count), lowering.output());
  return kLowered;
}

HostReason lower_cast(NodeLowering& lowering) {
  const DataType from = lowering.input_type(0);
  const DataType to = lowering.output_type();
  if (from == to) {
    lowering.bind_output(lowering.input(0));
    return kLowered;
  }
  const auto from_integer = integer_type(from);
  const auto to_type = integer_type(to);
  const auto is_number = [](DataType type) { return integer_type(type) || word_kind(type).has_value(); };
  if (!is_number(from) || !is_number(to) || (from_integer && to == TensorProto::DOUBLE) ||
      (to_type && from == TensorProto::DOUBLE))
    return fmt::format("no conversion from {} to {} on the chip", data_type_name(from), data_type_name(to));
  MapBuilder map(lowering, lowering.output_shape());
  if (from_integer) {
    const Integer a = map.integer_of_input(0);
    if (to_type) {
      map.finish("", convert(a, *to_type), lowering.output());
    } else {
      map.finish("", to_float(a), lowering.output());
    }
  } else if (to_type) {
    map.finish("", to_integer(map.operand_of_input(0), *to_type), lowering.output());
  } else {
    // The conversion is the operand's or the result's own: a double is narrowed on its way to the chip (so
    // that nothing is rounded twice), or widened on its way back.
    map.finish("", map.operand_of_input(0), lowering.output());
  }
  return kLowered;
}

}  // namespace

void register_logic(OperatorTable& table) {
  constexpr auto kNumbers = ElementTypes::kNumbers;
  table.push_back({"Equal", lower_equal, kNumbers});
  table.push_back({"Less", lower_less, kNumbers});
  table.push_back({"Greater", lower_greater, kNumbers});
  table.push_back({"LessOrEqual", lower_less_or_equal, kNumbers});
  table.push_back({"GreaterOrEqual", lower_greater_or_equal, kNumbers});
  table.push_back({"And", lower_boolean<ScalarOp::kAnd>, kNumbers});
  table.push_back({"Or", lower_boolean<ScalarOp::kOr>, kNumbers});
  table.push_back({"Xor", lower_boolean<ScalarOp::kXor>, kNumbers});
  table.push_back({"Not", lower_not, kNumbers});
  table.push_back({"Where", lower_where, kNumbers});
  table.push_back({"IsNaN", lower_is_nan, kNumbers});
  table.push_back({"IsInf", lower_is_inf, kNumbers});
  table.push_back({"BitShift", lower_bit_shift, kNumbers});
  table.push_back({"Cast", lower_cast, ElementTypes::kAny});
}

}  // namespace kodama::compiler
