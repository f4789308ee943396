#pragma once

#include <cstdint>
#include <optional>

#include "compiler/layers/formula.h"
#include "compiler/tensor/tensor.h"

/// ONNX's integers as formulas on words of 32 bits.
///
/// An Integer is a number of any of ONNX's integer types, or bool, as two words in two's complement: the
/// lower one, and the upper one that extends it. Of types up to 32 bits the upper word is the sign or zero,
/// and what is computed of it is dropped where nobody reads it. Results wrap as ONNX's do.
///
///     Formula f;
///     const Integer a = integer_of_word(f.x(0), {8, true});
///     ScalarExpr expr = f.result((a + a).low);       // shift_right_signed(shift_left(…, 24), 24)
namespace kodama::compiler {

struct IntegerType {
  int bits = 32;  ///< 1: bool
  bool is_signed = true;
  bool is_wide() const { return bits > 32; }
  bool operator==(const IntegerType&) const = default;
};
/// Nothing for types of other numbers.
std::optional<IntegerType> integer_type(DataType type);

struct Integer {
  Term low, high;
  IntegerType type;
};

/// A word that already is a number of this type, of at most 32 bits.
Integer integer_of_word(Term word, IntegerType type);
/// A constant of the formula that `any` belongs to; its last bits if the type has fewer.
Integer integer_constant(Term any, int64_t value, IntegerType type);
/// The last bits of a number, as one of another type; to bool, whether it isn't zero.
Integer convert(const Integer& a, IntegerType to);

// Operands of one type, which the result has, too.
Integer operator+(const Integer& a, const Integer& b);
Integer operator-(const Integer& a, const Integer& b);
Integer operator*(const Integer& a, const Integer& b);
Integer operator&(const Integer& a, const Integer& b);
Integer operator|(const Integer& a, const Integer& b);
Integer operator^(const Integer& a, const Integer& b);
Integer operator-(const Integer& a);
Integer absolute(const Integer& a);
Integer minimum(const Integer& a, const Integer& b);
Integer maximum(const Integer& a, const Integer& b);
/// By `count` bits, which is unsigned; by as many as there are or more: zero. To the right zeros come in.
Integer shift_left(const Integer& a, const Integer& count);
Integer shift_right(const Integer& a, const Integer& count);
struct Division {
  Integer quotient;   ///< toward zero; by zero: 0
  Integer remainder;  ///< a - quotient * b
};
Division divide(const Integer& a, const Integer& b);

// Conditions: 0 or 1.
Term less(const Integer& a, const Integer& b);
Term equal(const Integer& a, const Integer& b);
Term is_zero(const Integer& a);
Term negation(Term condition);
Integer where(Term condition, const Integer& yes, const Integer& no);

/// Rounded to the nearest, ties to even.
Term to_float(const Integer& a);
/// A float rounded to the nearest that float16 or bfloat16 has, ties to even; of other types it stays as it
/// is.
Term round_to_type(Term x, DataType type);
/// Toward zero. What the type can't hold is undefined, as in ONNX; of a float beyond 2^63 it is some number.
Integer to_integer(Term x, IntegerType to);

}  // namespace kodama::compiler
