#include "compiler/layers/integer.h"

#include <array>
#include <limits>

#include "compiler/layers/doubles.h"
#include "isa/error.h"

namespace kodama::compiler {
namespace {

constexpr int kWordBits = 32;

// Operations on words.

Term add(Term a, Term b) {
  return a.apply(ScalarOp::kIntAdd, b);
}
Term sub(Term a, Term b) {
  return a.apply(ScalarOp::kIntSub, b);
}
Term bit_and(Term a, Term b) {
  return a.apply(ScalarOp::kAnd, b);
}
Term bit_or(Term a, Term b) {
  return a.apply(ScalarOp::kOr, b);
}
Term bit_xor(Term a, Term b) {
  return a.apply(ScalarOp::kXor, b);
}
Term left(Term a, Term count) {
  return a.apply(ScalarOp::kShiftLeft, count);
}
Term left(Term a, int count) {
  return left(a, a.integer(count));
}
Term right(Term a, Term count) {
  return a.apply(ScalarOp::kShiftRight, count);
}
Term right(Term a, int count) {
  return right(a, a.integer(count));
}
Term sign_of(Term a) {
  return a.apply(ScalarOp::kShiftRightSigned, a.integer(kWordBits - 1));
}
Term mask(Term a, uint32_t bits) {
  return bit_and(a, a.integer(static_cast<int32_t>(bits)));
}
Term is_zero_word(Term a) {
  return a.apply(ScalarOp::kIsZero);
}
Term same_word(Term a, Term b) {
  return is_zero_word(bit_xor(a, b));
}
/// a < b: the larger one isn't a.
Term unsigned_less(Term a, Term b) {
  return negation(same_word(a.apply(ScalarOp::kUnsignedMax, b), a));
}
Term signed_less(Term a, Term b) {
  return negation(same_word(a.apply(ScalarOp::kIntMax, b), a));
}

/// Two words that are some number of 64 bits, as one of a type: of narrow ones the last bits, extended.
Integer wrapped(Term low, Term high, IntegerType type) {
  if (type.is_wide()) return {low, high, type};
  if (type.bits == kWordBits) return integer_of_word(low, type);
  const int spare = kWordBits - type.bits;
  const Term extended = type.is_signed
                            ? left(low, spare).apply(ScalarOp::kShiftRightSigned, low.integer(spare))
                            : mask(low, (uint32_t{1} << type.bits) - 1);
  return integer_of_word(extended, type);
}

/// A number from 0 to 2^23 - 1 as a float: the bits of 2^23 + n, less 2^23. There is no such operation.
Term small_to_float(Term a) {
  constexpr int32_t kBits = 0x4b000000;
  return bit_or(a, a.integer(kBits)).apply(ScalarOp::kFromBits) - 0x1p23;
}
/// The same from -2^22 to 2^22 - 1.
Term small_signed_to_float(Term a) {
  constexpr int32_t kBits = 0x4b400000;  // 1.5 * 2^23
  return add(a, a.integer(kBits)).apply(ScalarOp::kFromBits) - 0x1.8p23;
}

/// Products of digits of 11 bits are exact in single precision, and so are sums of four of them.
constexpr int kDigitBits = 11;
constexpr int kExactProducts = 4;
constexpr uint32_t kDigitMask = (1U << kDigitBits) - 1;

/// Digit k of 64 bits, as a float.
Term digit(const Integer& a, int k) {
  const int at = k * kDigitBits;
  Term bits = at < kWordBits ? right(a.low, at) : right(a.high, at - kWordBits);
  if (a.type.is_wide() && at < kWordBits && at + kDigitBits > kWordBits)
    bits = bit_or(bits, left(a.high, kWordBits - at));
  return small_to_float(mask(bits, kDigitMask));
}

/// Of numbers of `bits` bits.
Integer product(const Integer& a, const Integer& b, int bits) {
  const int digits = (bits + kDigitBits - 1) / kDigitBits;
  const IntegerType wide{64, a.type.is_signed};
  Integer sum = integer_constant(a.low, 0, wide);
  for (int column = 0; column < digits; ++column) {
    Term total = a.low.integer(0);
    for (int first = 0; first <= column; first += kExactProducts) {
      std::optional<Term> part;
      for (int k = first; k <= column && k < first + kExactProducts; ++k) {
        const Term next = digit(a, k) * digit(b, column - k);
        part = part ? *part + next : next;
      }
      total = add(total, part->apply(ScalarOp::kToInt));
    }
    const int at = column * kDigitBits;
    if (bits <= kWordBits) {
      sum.low = add(sum.low, left(total, at));
    } else if (at >= kWordBits) {
      sum.high = add(sum.high, left(total, at - kWordBits));
    } else {
      sum = sum + Integer{left(total, at), at == 0 ? total.integer(0) : right(total, kWordBits - at), wide};
    }
  }
  return sum;
}

/// A number from 0 to 2^40 - 1 as a float: two exact parts, rounded once, in their sum.
Term forty_bits_to_float(Term low, Term high) {
  const Term upper = bit_or(right(low, 16), left(high, 16));
  const Term exact = small_to_float(right(upper, 8)) * 0x1p8 + small_to_float(mask(upper, 0xff));
  return exact * 0x1p16 + small_to_float(mask(low, 0xffff));
}

Term unsigned_to_float(Term low, Term high) {
  // Of larger numbers the last bit says whether what is left out isn't zero; there are at least 28 bits, so
  // that it is far below the one that decides how to round.
  const auto without = [&](int bits, double scale) {
    const Term left_out = negation(is_zero_word(mask(low, (1U << bits) - 1)));
    const Term lower = bit_or(bit_or(right(low, bits), left(high, kWordBits - bits)), left_out);
    return forty_bits_to_float(lower, right(high, bits)) * scale;
  };
  const auto is_below = [&](int32_t bound) { return unsigned_less(high, high.integer(bound)); };
  return where(is_below(1 << 8), forty_bits_to_float(low, high),
               where(is_below(1 << 20), without(12, 0x1p12), without(24, 0x1p24)));
}

/// Of 64 bits, whose type has a sign or not: x or -x, whichever isn't negative, read without a sign.
Integer magnitude_of(const Integer& a) {
  if (!a.type.is_signed) return a;
  const Term sign = sign_of(a.high);
  const IntegerType wide{64, false};
  if (a.type.is_wide()) {
    const Integer flipped{bit_xor(a.low, sign), bit_xor(a.high, sign), wide};
    return flipped - Integer{sign, sign, wide};
  }
  return {sub(bit_xor(a.low, sign), sign), a.low.integer(0), wide};
}

struct WordDivision {
  Term quotient, remainder;
};
/// Of words without a sign. An estimate in single precision, never too large, leaves a remainder that is
/// smaller by at least 2^20, or to a divisor or two; the third of them is left one or two at most, since the
/// first is cut off at 2^31.
WordDivision divide_words(Term a, Term b) {
  constexpr IntegerType kWord{kWordBits, false};
  constexpr int kEstimates = 3, kCorrections = 2;
  const Term reciprocal_of_b = reciprocal(unsigned_to_float(b, b.integer(0))) * (1 - 0x1p-20);
  const Integer divisor = integer_of_word(b, kWord);
  Term quotient = a.integer(0), remainder = a;
  for (int step = 0; step < kEstimates; ++step) {
    const Term estimate =
        (unsigned_to_float(remainder, a.integer(0)) * reciprocal_of_b).apply(ScalarOp::kToInt);
    remainder = sub(remainder, product(integer_of_word(estimate, kWord), divisor, kWordBits).low);
    quotient = add(quotient, estimate);
  }
  for (int step = 0; step < kCorrections; ++step) {
    const Term fits = negation(unsigned_less(remainder, b));
    remainder = sub(remainder, bit_and(b, sub(a.integer(0), fits)));
    quotient = add(quotient, fits);
  }
  return {quotient, remainder};
}

/// Of numbers of 64 bits without a sign, by estimates in double precision that are never too large: of the
/// first at most 2^15 are left, of the second one.
Division divide_longs(const Integer& a, const Integer& b) {
  constexpr IntegerType kLong{64, false};
  const Term reciprocal_of_b = reciprocal(to_double(b)) * (1 - 0x1p-50);
  Integer quotient = integer_constant(a.low, 0, kLong), remainder = a;
  for (int step = 0; step < 2; ++step) {
    const Integer estimate = double_to_integer(to_double(remainder) * reciprocal_of_b, kLong);
    remainder = remainder - estimate * b;
    quotient = quotient + estimate;
  }
  const Term fits = negation(less(remainder, b));
  const Integer one = convert(integer_of_word(fits, {1, false}), kLong);
  return {quotient + one, where(fits, remainder - b, remainder)};
}

/// `a` or, where the sign (0 or -1) says so, -a.
Term with_sign(Term a, Term sign) {
  return sub(bit_xor(a, sign), sign);
}

}  // namespace

std::optional<IntegerType> integer_type(DataType type) {
  switch (type) {
    case DataType::kBool:
      return IntegerType{1, false};
    case DataType::kInt8:
      return IntegerType{8, true};
    case DataType::kUint8:
      return IntegerType{8, false};
    case DataType::kInt16:
      return IntegerType{16, true};
    case DataType::kUint16:
      return IntegerType{16, false};
    case DataType::kInt32:
      return IntegerType{32, true};
    case DataType::kUint32:
      return IntegerType{32, false};
    case DataType::kInt64:
      return IntegerType{64, true};
    case DataType::kUint64:
      return IntegerType{64, false};
    default:
      return std::nullopt;
  }
}

Integer integer_of_word(Term word, IntegerType type) {
  return {word, type.is_signed ? sign_of(word) : word.integer(0), type};
}

Integer integer_constant(Term any, int64_t value, IntegerType type) {
  const auto bits = static_cast<uint64_t>(value);
  const auto word = [&](int shift) { return any.integer(static_cast<int32_t>(bits >> shift)); };
  return wrapped(word(0), word(kWordBits), type);
}

Integer convert(const Integer& a, IntegerType to) {
  if (a.type == to) return a;
  if (to.bits == 1) return integer_of_word(negation(is_zero(a)), to);
  return wrapped(a.low, a.high, to);
}

Integer operator+(const Integer& a, const Integer& b) {
  const Term low = add(a.low, b.low);
  if (!a.type.is_wide()) return wrapped(low, low, a.type);
  return {low, add(add(a.high, b.high), unsigned_less(low, a.low)), a.type};
}
Integer operator-(const Integer& a, const Integer& b) {
  const Term low = sub(a.low, b.low);
  if (!a.type.is_wide()) return wrapped(low, low, a.type);
  return {low, sub(sub(a.high, b.high), unsigned_less(a.low, b.low)), a.type};
}
Integer operator*(const Integer& a, const Integer& b) {
  const Integer result = product(a, b, a.type.bits);
  return wrapped(result.low, result.high, a.type);
}
Integer operator&(const Integer& a, const Integer& b) {
  return {bit_and(a.low, b.low), bit_and(a.high, b.high), a.type};
}
Integer operator|(const Integer& a, const Integer& b) {
  return {bit_or(a.low, b.low), bit_or(a.high, b.high), a.type};
}
Integer operator^(const Integer& a, const Integer& b) {
  return {bit_xor(a.low, b.low), bit_xor(a.high, b.high), a.type};
}
Integer operator-(const Integer& a) {
  return integer_constant(a.low, 0, a.type) - a;
}
Integer absolute(const Integer& a) {
  if (!a.type.is_signed) return a;
  const Term sign = sign_of(a.high);
  return (a ^ Integer{sign, sign, a.type}) - Integer{sign, sign, a.type};
}
Integer minimum(const Integer& a, const Integer& b) {
  if (!a.type.is_wide() && a.type != IntegerType{32, false})
    return integer_of_word(a.low.apply(ScalarOp::kIntMin, b.low), a.type);
  return where(less(b, a), b, a);
}
Integer maximum(const Integer& a, const Integer& b) {
  if (!a.type.is_wide() && a.type != IntegerType{32, false})
    return integer_of_word(a.low.apply(ScalarOp::kIntMax, b.low), a.type);
  return where(less(a, b), b, a);
}

Integer shift_left(const Integer& a, const Integer& count) {
  const Term zero = a.low.integer(0);
  const Term too_many = negation(unsigned_less(count.low, a.low.integer(a.type.bits)));
  const Term gone = bit_or(too_many, negation(is_zero_word(count.high)));
  const Term low = left(a.low, count.low);
  if (!a.type.is_wide()) return wrapped(where(gone, zero, low), zero, a.type);
  // Shifts are modulo 32: by 32 - n it goes in two steps.
  const Term rest = bit_xor(count.low, a.low.integer(kWordBits - 1));
  const Term high = bit_or(left(a.high, count.low), right(right(a.low, 1), rest));
  const Term far = mask(count.low, kWordBits);
  return {where(bit_or(gone, far), zero, low), where(gone, zero, where(far, low, high)), a.type};
}
Integer shift_right(const Integer& a, const Integer& count) {
  const Term zero = a.low.integer(0);
  const Term too_many = negation(unsigned_less(count.low, a.low.integer(a.type.bits)));
  const Term gone = bit_or(too_many, negation(is_zero_word(count.high)));
  if (!a.type.is_wide()) return wrapped(where(gone, zero, right(a.low, count.low)), zero, a.type);
  const Term rest = bit_xor(count.low, a.low.integer(kWordBits - 1));
  const Term low = bit_or(right(a.low, count.low), left(left(a.high, 1), rest));
  const Term high = right(a.high, count.low);
  const Term far = mask(count.low, kWordBits);
  return {where(gone, zero, where(far, high, low)), where(bit_or(gone, far), zero, high), a.type};
}

/// Of 64 bits.
Division divide_wide(const Integer& a, const Integer& b) {
  const Division magnitudes = divide_longs(magnitude_of(a), magnitude_of(b));
  const auto with_sign_of = [&](const Integer& value, Term sign) {
    const Integer signs{sign, sign, a.type};
    return (Integer{value.low, value.high, a.type} ^ signs) - signs;
  };
  const Term zero = a.low.integer(0);
  const Term of_quotient = a.type.is_signed ? sign_of(bit_xor(a.high, b.high)) : zero;
  const Term of_remainder = a.type.is_signed ? sign_of(a.high) : zero;
  const Term by_zero = is_zero(b);
  return {where(by_zero, integer_constant(zero, 0, a.type), with_sign_of(magnitudes.quotient, of_quotient)),
          where(by_zero, a, with_sign_of(magnitudes.remainder, of_remainder))};
}

Division divide(const Integer& a, const Integer& b) {
  if (a.type.is_wide()) return divide_wide(a, b);
  const Term zero = a.low.integer(0);
  Term quotient = zero, remainder = zero;
  if (a.type.bits <= 16) {
    // Both are exact in single precision, and their quotient is never rounded up to a whole number.
    quotient = (to_float(a) / to_float(b)).apply(ScalarOp::kToInt);
    remainder = sub(a.low, product(integer_of_word(quotient, {32, true}), b, kWordBits).low);
  } else {
    const WordDivision words = divide_words(magnitude_of(a).low, magnitude_of(b).low);
    quotient = with_sign(words.quotient, a.type.is_signed ? bit_xor(sign_of(a.low), sign_of(b.low)) : zero);
    remainder = with_sign(words.remainder, a.type.is_signed ? sign_of(a.low) : zero);
  }
  const Term by_zero = is_zero_word(b.low);
  return {wrapped(where(by_zero, zero, quotient), zero, a.type),
          wrapped(where(by_zero, a.low, remainder), zero, a.type)};
}

Term less(const Integer& a, const Integer& b) {
  if (!a.type.is_wide())
    return a.type.bits == kWordBits && !a.type.is_signed ? unsigned_less(a.low, b.low)
                                                         : signed_less(a.low, b.low);
  const Term by_high = a.type.is_signed ? signed_less(a.high, b.high) : unsigned_less(a.high, b.high);
  return where(same_word(a.high, b.high), unsigned_less(a.low, b.low), by_high);
}
Term equal(const Integer& a, const Integer& b) {
  return is_zero(a ^ b);
}
Term is_zero(const Integer& a) {
  return is_zero_word(a.type.is_wide() ? bit_or(a.low, a.high) : a.low);
}
Term negation(Term condition) {
  return bit_xor(condition, condition.integer(1));
}
Integer where(Term condition, const Integer& yes, const Integer& no) {
  return {where(condition, yes.low, no.low), where(condition, yes.high, no.high), yes.type};
}

Term to_float(const Integer& a) {
  constexpr int kSmallBits = 22;
  if (a.type.bits <= kSmallBits)
    return a.type.is_signed ? small_signed_to_float(a.low) : small_to_float(a.low);
  const Integer magnitude = magnitude_of(a);
  const Term value = unsigned_to_float(magnitude.low, magnitude.high);
  if (!a.type.is_signed) return value;
  const Term sign = mask(a.high, 0x80000000U);
  return bit_xor(value.apply(ScalarOp::kFloatBits), sign).apply(ScalarOp::kFromBits);
}

Term round_to_type(Term x, DataType type) {
  const bool is_half = type == DataType::kFloat16;
  if (!is_half && type != DataType::kBfloat16) return x;
  const Term bits = x.apply(ScalarOp::kFloatBits);
  // The bits left out, as a carry into those that stay: a half and more, or a half where the last one is odd.
  const int left_out = is_half ? 13 : 16;
  const auto half = static_cast<int32_t>((1U << (left_out - 1)) - 1);
  const Term is_odd = bit_and(right(bits, left_out), x.integer(1));
  const Term rounded = mask(add(add(bits, x.integer(half)), is_odd), ~((1U << left_out) - 1));
  if (!is_half) return rounded.apply(ScalarOp::kFromBits);
  // From 65520 on it is infinity; below 2^-14 the numbers of float16 are the multiples of 2^-24.
  constexpr double kInfinite = 65520, kLeastNormal = 0x1p-14, kLeast = 0x1p-24;
  const Term sign = mask(bits, 0x80000000U);
  const auto signed_bits = [&](Term magnitude) {
    return bit_or(magnitude.apply(ScalarOp::kFloatBits), sign);
  };
  const Term magnitude = abs(x);
  const Term few = signed_bits(round_to_even(magnitude * (1 / kLeast)) * kLeast);
  const Term infinite = signed_bits(x.constant(std::numeric_limits<double>::infinity()));
  const Term is_small = less(magnitude, x.constant(kLeastNormal));
  const Term is_finite = less(magnitude, x.constant(kInfinite));
  return where(is_finite, where(is_small, few, rounded), infinite).apply(ScalarOp::kFromBits);
}

Integer to_integer(Term x, IntegerType to) {
  if (to.bits == 1) return integer_of_word(negation(equal(x, x.constant(0))), to);
  const Integer word = integer_of_word(x.apply(ScalarOp::kToInt), {32, true});
  if (to.bits < kWordBits || to == IntegerType{32, true}) return convert(word, to);
  // From 2^31 on: the significand, of 24 bits, shifted to its place.
  const IntegerType wide{64, true};
  const Term bits = x.apply(ScalarOp::kFloatBits);
  const Term significand = bit_or(mask(bits, 0x7fffff), x.integer(0x800000));
  const Term places = sub(mask(right(bits, 23), 0xff), x.integer(127 + 23));
  const Integer shifted = shift_left({significand, x.integer(0), wide}, integer_of_word(places, {32, false}));
  const Term sign = sign_of(bits);
  const Integer flipped = shifted ^ Integer { sign, sign, wide };
  const Term fits = less(abs(x), x.constant(0x1p31));
  return convert(where(fits, convert(word, wide), flipped - Integer{sign, sign, wide}), to);
}

}  // namespace kodama::compiler
