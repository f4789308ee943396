#include "builder/operators.h"

/// What C++ writes between values: operators at the line of the left operand.
namespace kodama::builder {

Value operator+(const Operand& a, const Operand& b) {
  return op::Add(a, b, a.here());
}

Value operator-(const Operand& a, const Operand& b) {
  return op::Sub(a, b, a.here());
}

Value operator*(const Operand& a, const Operand& b) {
  return op::Mul(a, b, a.here());
}

Value operator/(const Operand& a, const Operand& b) {
  return op::Div(a, b, a.here());
}

Value operator-(const Operand& a) {
  return op::Neg(a, a.here());
}

Value operator<(const Operand& a, const Operand& b) {
  return op::Less(a, b, a.here());
}

Value operator<=(const Operand& a, const Operand& b) {
  return op::LessOrEqual(a, b, a.here());
}

Value operator>(const Operand& a, const Operand& b) {
  return op::Greater(a, b, a.here());
}

Value operator>=(const Operand& a, const Operand& b) {
  return op::GreaterOrEqual(a, b, a.here());
}

Value Value::operator[](const Operand& place) const {
  return op::Gather(*this, place, {.axis = 0}, place.here());
}

}  // namespace kodama::builder
