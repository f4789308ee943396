#pragma once

#include <cstdint>
#include <span>

#include "isa/number_formats.h"

/// Exact scalar arithmetic of the engine, for what its vector kernels leave aside: double precision,
/// matrix operands whose exponents differ inside a block, and reductions. The golden model does not use it.
namespace kodama::simulator {

__extension__ using UInt128 = unsigned __int128;
__extension__ using SInt128 = __int128;

/// (-1)^negative * significand * 2^exponent.
struct Term {
  bool negative = false;
  UInt128 significand = 0;
  int exponent = 0;
};

/// Bits dropped by the multiplier (section 8.6).
inline int truncated_bits(isa::Precision precision) {
  switch (precision) {
    case isa::Precision::kDouble:
      return 16;
    case isa::Precision::kFloat:
      return 5;
    default:
      return 0;
  }
}

/// Product of two significands without the product of their low `k` bits, which 2^(2k-2) replaces.
inline UInt128 truncated_product(uint64_t a, uint64_t b, int k) {
  const uint64_t mask = (uint64_t{1} << k) - 1;
  UInt128 product = UInt128{a} * b;
  if (k > 0 && (a & mask) != 0 && (b & mask) != 0) {
    product -= UInt128{a & mask} * (b & mask);
    product += UInt128{1} << (2 * k - 2);
  }
  return product;
}

/// A number with its hidden bit; infinity counts as a number with the top exponent.
Term value_term(uint64_t bits, isa::FloatFormat format);
/// Vector multiplier: x*y.
Term product_term(uint64_t x, uint64_t y, isa::FloatFormat format, int k);
/// The exact sum, rounded once.
uint64_t round_sum(std::span<const Term> terms, isa::FloatFormat format);
/// x*y + z of doubles, rounded to a double or a float; x + z if there is no y.
uint64_t multiply_add_double(uint64_t x, const uint64_t* y, uint64_t z, bool to_float);

/// One output of the matrix unit before the addition of z: `row` and `vector` are block floats of
/// `format`. An element with exponent zero is zero but in half precision, where it has the exponent of
/// its block less six. A block with an infinity makes the result infinite (then `infinite` is set).
struct DotProduct {
  std::array<Term, 16> terms;
  int count = 0;
  bool infinite = false;
  bool negative = false;  ///< sign of the infinity
};
DotProduct block_dot_product(std::span<const uint64_t> row, std::span<const uint64_t> vector,
                             isa::Precision precision);
/// y + z rounded to `format`; z in `z_format`.
uint64_t round_dot_product(const DotProduct& y, uint64_t z, isa::FloatFormat z_format,
                           isa::FloatFormat format);

/// One stage of a floating-point addition of section 8.7.
uint64_t reduce_fadd_stage(std::span<const uint64_t> values, isa::FloatFormat format,
                           isa::FloatFormat output);
/// One lane of any other reduction of two values, of `width` bits.
uint64_t reduce_pair(isa::ReduceOp op, isa::Precision precision, uint64_t a, uint64_t b);
/// One stage over whole LWs, lane by lane.
uint64_t reduce_long(std::span<const uint64_t> values, isa::ReduceOp op, isa::Precision precision);
/// As reduce_long, in stages of four values and then the rest (L1BM reductions).
uint64_t reduce_long_by_fours(std::span<const uint64_t> values, isa::ReduceOp op, isa::Precision precision);

}  // namespace kodama::simulator
