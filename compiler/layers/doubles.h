#pragma once

#include "compiler/layers/integer.h"

/// Numbers of double precision as formulas: a double is two words, and inside an expression one value of the
/// chip's double unit (ScalarOp::kPair). Sums, products, quotients and square roots are rounded once, or as
/// good as that; functions are within a few units in the last place, powers within 1e-13 of themselves, or as
/// products are. There are no subnormal numbers and no NaN, as for floats.
namespace kodama::compiler {

/// A double of its words.
Term pair(Term high, Term low);
/// Its words, as an integer of 64 bits.
Integer bits_of_double(Term x);

Term widen(Term x);  ///< of a float
/// As a float, and `type` says to what it is rounded next: float, or one of 16 bits. Nothing is rounded
/// twice.
Term narrow(Term x, DataType type);
/// Rounded to the nearest, ties to even.
Term to_double(const Integer& a);
/// Toward zero; beyond the type's range undefined, as in ONNX.
Integer double_to_integer(Term x, IntegerType to);

}  // namespace kodama::compiler
