#include <limits>

#include "compiler/lowering/node_lowering.h"

/// Comparisons, boolean operators, choices, bits, and conversions among the types of elements.
namespace kodama::compiler {

namespace {

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
  if (lowering.output_type() == DataType::kFloat64) {
    // The words as they are.
    const Integer yes = bits_of_double(map.operand_of_input(1));
    map.finish("", where(condition, yes, bits_of_double(map.operand_of_input(2))), lowering.output());
  } else if (is_float_operand(lowering, 1)) {
    const Term yes = map.operand_of_input(1);
    map.finish("", where(condition, yes, map.operand_of_input(2)), lowering.output());
  } else {
    const Integer yes = map.integer_of_input(1);
    map.finish("", where(condition, yes, map.integer_of_input(2)), lowering.output());
  }
  return kLowered;
}

/// The bits of a float or double, as an integer with a sign.
Integer float_bits(Term x) {
  return x.is_double() ? bits_of_double(x) : integer_of_word(x.apply(ScalarOp::kFloatBits), {32, true});
}
/// Those of its magnitude, which order as the magnitudes do.
Integer magnitude_bits(Term x) {
  const Integer bits = float_bits(x);
  const int64_t all =
      x.is_double() ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int32_t>::max();
  return bits & integer_constant(x, all, bits.type);
}
Integer infinity_bits(Term x) {
  return magnitude_bits(x.constant(std::numeric_limits<double>::infinity()));
}

HostReason lower_is_nan(NodeLowering& lowering) {
  MapBuilder map(lowering, lowering.output_shape());
  const Term x = map.operand_of_input(0);
  finish_condition(lowering, map, less(infinity_bits(x), magnitude_bits(x)));
  return kLowered;
}
HostReason lower_is_inf(NodeLowering& lowering) {
  MapBuilder map(lowering, lowering.output_shape());
  const Term x = map.operand_of_input(0);
  const Term infinite = equal(magnitude_bits(x), infinity_bits(x));
  const Integer whole = float_bits(x);
  const Term negative = less(whole, integer_constant(x, 0, whole.type));
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
  const auto is_number = [](DataType type) { return is_long(type) || word_kind(type).has_value(); };
  if (!is_number(from) || !is_number(to))
    return fmt::format("no conversion from {} to {} on the chip", data_type_name(from), data_type_name(to));
  MapBuilder map(lowering, lowering.output_shape());
  const bool to_double_type = to == DataType::kFloat64;
  if (from_integer) {
    const Integer a = map.integer_of_input(0);
    if (to_type) {
      map.finish("", convert(a, *to_type), lowering.output());
    } else {
      map.finish("", to_double_type ? to_double(a) : to_float(a), lowering.output());
    }
    return kLowered;
  }
  const Term x = map.operand_of_input(0);
  if (to_type) {
    map.finish("", x.is_double() ? double_to_integer(x, *to_type) : to_integer(x, *to_type),
               lowering.output());
  } else {
    map.finish("", x.is_double() ? narrow(x, to) : to_double_type ? widen(x) : x, lowering.output());
  }
  return kLowered;
}

}  // namespace

void register_logic(OperatorTable& table) {
  constexpr auto kNumbers = ElementTypes::kAllNumbers;
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
