#include "compiler/layers/doubles.h"

#include <array>
#include <cmath>
#include <limits>
#include <numbers>

namespace kodama::compiler {
namespace {

constexpr int kExponentShift = 20;  ///< of the upper word
constexpr int kBias = 1023;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Term int_add(Term a, Term b) {
  return a.apply(ScalarOp::kIntAdd, b);
}
Term int_and(Term a, uint32_t bits) {
  return a.apply(ScalarOp::kAnd, a.integer(static_cast<int32_t>(bits)));
}
Term shifted(ScalarOp op, Term a, int count) {
  return a.apply(op, a.integer(count));
}
Term high_word(Term x) {
  return x.apply(ScalarOp::kHighWord);
}
Term low_word(Term x) {
  return x.apply(ScalarOp::kLowWord);
}
/// A double with a whole value as an integer of 32 bits.
Term whole(Term x) {
  return low_word(x.apply(ScalarOp::kToLong));
}
/// Of a word, without a sign: the bits of 2^52 + n, less 2^52.
Term unsigned_word(Term word) {
  return pair(word.integer(0x43300000), word) - 0x1p52;
}
Term signed_word(Term word) {
  const Term flipped = word.apply(ScalarOp::kXor, word.integer(std::numeric_limits<int32_t>::min()));
  return pair(word.integer(0x43300000), flipped) - (0x1p52 + 0x1p31);
}
/// 2^n for a word from -1022 to 1023.
Term power_of_two(Term n) {
  return pair(shifted(ScalarOp::kShiftLeft, int_add(n, n.integer(kBias)), kExponentShift), n.integer(0));
}

constexpr double kLn2High = 0x1.62e42feep-1;  // times a number of 20 bits it is exact
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

struct ExpParts {
  Term power;  ///< n, a word
  Term expm1;  ///< e^r - 1
};
/// x = n ln 2 + r with |r| <= ln 2 / 2, by the series of e^r - 1.
ExpParts exp_parts(Term x) {
  constexpr int kTerms = 13;
  const Term n = floor(x * std::numbers::log2e + 0.5);
  const Term r = (x - n * kLn2High) - n * kLn2Low;
  Term sum = x.constant(1.0 / kTerms);
  for (int k = kTerms - 1; k >= 1; --k) sum = (r * sum + 1) * (1.0 / k);
  return {whole(n), r * sum};
}

/// 2^n times a number near 1, by its exponent.
Term scaled(Term mantissa, Term n) {
  const Term high = int_add(high_word(mantissa), shifted(ScalarOp::kShiftLeft, n, kExponentShift));
  return pair(high, low_word(mantissa));
}

Term exp_of_double(Term x) {
  constexpr double kLeast = -708.3, kMost = 709.782712893384;  // of normal numbers
  const ExpParts parts = exp_parts(min(max(x, kLeast), kMost));
  const Term result = scaled(parts.expm1 + 1, parts.power);
  const Term finite = where(less(x.constant(kMost), x), x.constant(kInfinity), result);
  return where(less(x, x.constant(kLeast)), x.constant(0), finite);
}

/// x = 2^e (1 + f) with 1 + f between the roots of 1/2 and 2; log(1 + f) = 2 artanh(f / (2 + f)).
Term log_of_double(Term x) {
  constexpr int kTerms = 12;
  constexpr uint32_t kRootHalf = 0x3fe6a09e;
  const Term offset = high_word(x).apply(ScalarOp::kIntSub, x.integer(kRootHalf));
  const Term e = signed_word(shifted(ScalarOp::kShiftRightSigned, offset, kExponentShift));
  const Term mantissa = int_add(int_and(offset, 0xfffff), x.integer(kRootHalf));
  const Term f = pair(mantissa, low_word(x)) - 1;
  const Term s = f / (f + 2);
  const Term square = s * s;
  Term sum = x.constant(1.0 / (2 * kTerms + 1));
  for (int k = kTerms - 1; k >= 1; --k) sum = sum * square + 1.0 / (2 * k + 1);
  // 2 s = f - f s, so that f stays what it is.
  const Term rest = s * (square * sum * 2.0 - f) + e * kLn2Low;
  const Term result = e * kLn2High + (f + rest);
  const Term positive = where(less(x, x.constant(kInfinity)), result, x.constant(kInfinity));
  return where(less(x.constant(0), x), positive, x.constant(-kInfinity));
}

/// m / (m + 2) with m = e^2x - 1 = 2^n (e^r - 1) + (2^n - 1).
Term tanh_of_double(Term x) {
  constexpr double kOne = 20;
  const ExpParts parts = exp_parts(min(max(x, -kOne), kOne) * 2.0);
  const Term scale = power_of_two(parts.power);
  const Term m = scale * parts.expm1 + (scale - 1);
  return m / (m + 2);
}

/// x^y by products, which are exact while they have 53 bits, for whole y below 2^kProductBits.
constexpr int kProductBits = 6;
Term power_by_products(Term x, Term y) {
  const Term n = whole(y);
  Term result = x.constant(1);
  for (int bit = kProductBits - 1; bit >= 0; --bit) {
    if (bit + 1 < kProductBits) result = result * result;
    const Term is_set = int_and(shifted(ScalarOp::kShiftRight, n, bit), 1);
    result = where(is_set, bit + 1 < kProductBits ? result * x : x, result);
  }
  return result;
}

/// Else e^(y log|x|), negative where x is and y is an odd number; x^0 and 1^y are 1.
Term pow_of_double(Term x, Term y) {
  const Term magnitude = exp_of_double(y * log_of_double(abs(x)));
  const Term half = y * 0.5;
  const Term is_odd = negation(equal(floor(half), half));
  const Term is_whole = equal(floor(y), y);
  const Term turns = is_odd.apply(ScalarOp::kAnd, is_whole).apply(ScalarOp::kAnd, less(x, x.constant(0)));
  const Term result = where(turns, -magnitude, magnitude);
  const Term is_few =
      less(abs(y - y.constant((1 << kProductBits) / 2 - 0.5)), y.constant((1 << kProductBits) / 2));
  return where(is_whole.apply(ScalarOp::kAnd, is_few), power_by_products(x, y), result);
}

}  // namespace

Term pair(Term high, Term low) {
  return high.apply(ScalarOp::kPair, low);
}
Integer bits_of_double(Term x) {
  return {low_word(x), high_word(x), {64, true}};
}

Term widen(Term x) {
  return x.apply(ScalarOp::kWiden);
}

Term narrow(Term x, DataType type) {
  if (type == DataType::kFloat32) return x.apply(ScalarOp::kNarrow);
  // To odd: what a float can't hold is cut off, and its last bit says whether there was any.
  constexpr uint32_t kCutOff = 0x1fffffff;
  const Term low = low_word(x);
  const Term is_exact = int_and(low, kCutOff).apply(ScalarOp::kIsZero);
  const Term last = where(is_exact, x.integer(0), x.integer(kCutOff + 1));
  const Term rounded = int_and(low, ~kCutOff).apply(ScalarOp::kOr, last);
  return pair(high_word(x), rounded).apply(ScalarOp::kNarrow);
}

Term to_double(const Integer& a) {
  if (!a.type.is_wide()) return a.type.is_signed ? signed_word(a.low) : unsigned_word(a.low);
  // 2^84 + 2^32 high, less what is too much; then the lower word: one rounding.
  const int32_t sign = a.type.is_signed ? std::numeric_limits<int32_t>::min() : 0;
  const Term high = a.high.apply(ScalarOp::kXor, a.high.integer(sign));
  const double excess = 0x1p84 + 0x1p52 + (a.type.is_signed ? 0x1p63 : 0);
  return (pair(high.integer(0x45300000), high) - excess) + pair(high.integer(0x43300000), a.low);
}

Integer double_to_integer(Term x, IntegerType to) {
  if (to.bits == 1) return integer_of_word(negation(equal(x, x.constant(0))), to);
  const auto as_long = [](Term value) { return bits_of_double(value.apply(ScalarOp::kToLong)); };
  if (to != IntegerType{64, false}) return convert(as_long(x), to);
  const Integer high =
      as_long(x - 0x1p63) ^ integer_constant(x, std::numeric_limits<int64_t>::min(), {64, true});
  return convert(where(less(x, x.constant(0x1p63)), as_long(x), high), to);
}

Term exp(Term a) {
  return a.is_double() ? exp_of_double(a) : a.apply(ScalarOp::kExp);
}
Term log(Term a) {
  return a.is_double() ? log_of_double(a) : a.apply(ScalarOp::kLog);
}
Term tanh(Term a) {
  return a.is_double() ? tanh_of_double(a) : a.apply(ScalarOp::kTanh);
}
Term sigmoid(Term a) {
  return a.is_double() ? reciprocal(exp_of_double(-a) + 1) : a.apply(ScalarOp::kSigmoid);
}
Term pow(Term a, Term b) {
  return a.is_double() ? pow_of_double(a, b) : a.apply(ScalarOp::kPow, b);
}

}  // namespace kodama::compiler
