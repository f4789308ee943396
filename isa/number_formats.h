#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "isa/instruction.h"

/// Number formats of the chip (section 8 of the ISA page) and conversions. Bit patterns are held in
/// uint64_t, right aligned.
///
///   format   sign exponent (bias) mantissa
///   double   1    11 (1023)       52
///   single   1     8 (127)        23
///   half     1     6 (31)          9        1.0 = 0x3e00
///
/// No subnormals and no NaN: exponent 0 is zero, exponent all ones is infinity, whatever the mantissa.
/// A block float has the same fields but no hidden bit: value = (-1)^s * M * 2^(E - bias - (m - 1)).
namespace kodama::isa {

struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  constexpr int width() const { return 1 + exponent_bits + mantissa_bits; }
  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr int max_exponent() const { return (1 << exponent_bits) - 1; }
  constexpr uint64_t mantissa_mask() const { return (uint64_t{1} << mantissa_bits) - 1; }
  constexpr uint64_t sign_bit() const { return uint64_t{1} << (width() - 1); }
  constexpr uint64_t infinity() const { return static_cast<uint64_t>(max_exponent()) << mantissa_bits; }
};
inline constexpr FloatFormat kDoubleFormat{11, 52};
inline constexpr FloatFormat kFloatFormat{8, 23};
inline constexpr FloatFormat kHalfFormat{6, 9};
/// Format of the lanes of a floating precision (g has float lanes).
FloatFormat format_of(Precision precision);

struct Unpacked {
  bool sign = false;
  int exponent = 0;       ///< biased
  uint64_t mantissa = 0;  ///< field, without hidden bit
};
Unpacked unpack(uint64_t bits, FloatFormat format);
uint64_t pack(Unpacked value, FloatFormat format);
bool is_zero(uint64_t bits, FloatFormat format);
bool is_infinity(uint64_t bits, FloatFormat format);
/// Output normalisation: infinity has mantissa 0, zero is +0.
uint64_t normalize(uint64_t bits, FloatFormat format);

/// The value as a double (exact for half and single; zero and infinity as the chip sees them). NaN
/// never results.
double to_double(uint64_t bits, FloatFormat format);
/// Nearest even at the format's precision, then overflow to infinity and underflow to +0. NaN becomes
/// infinity with its sign, as the chip would read its pattern.
uint64_t from_double(double value, FloatFormat format);
/// Rounds (-1)^sign * significand * 2^exponent to the format: nearest even at the format's full precision,
/// then overflow to infinity and underflow to +0. `sticky` says that the magnitude is larger than given by
/// something less than one unit of the significand; the significand must then have at least one bit more than
/// the format keeps (mantissa_bits + 2 bits), or the rounding isn't known (InternalError).
uint64_t round_to_format(bool sign, unsigned __int128 significand, int exponent, bool sticky,
                         FloatFormat format);
/// Conversion between formats: exact when widening, one rounding when narrowing. Infinities keep their
/// sign, every zero becomes +0.
uint64_t convert(uint64_t bits, FloatFormat from, FloatFormat to);
/// The same from single to half, quicker: for all elements of a tensor.
uint16_t half_of(float value);

/// Exponent distance of the extended range of `bfe`: exponent 0 in a block with exponent E means E - 6.
inline constexpr int kBlockExtension = 6;

/// Block-float normalisation (`bfn`, and `bfe` with `extended`) of one block in place. `mantissa_bits_cut`
/// is b = 9 - k of `hbfn/k`, else 0. Returns the exponent E of the block (0 when all elements are zero,
/// max_exponent() when it is infinite).
int block_normalize(std::span<uint64_t> block, FloatFormat format, int mantissa_bits_cut, bool extended);
/// The value of one block-float element as a double (exact; infinity for exponent all ones). An element with
/// exponent 0 is 0, unless the exponent E of its block is given and its mantissa field M isn't 0: then it is
/// an element of the extended range, M at exponent E - 6.
double block_float_to_double(uint64_t bits, FloatFormat format, int block_exponent = 0);

}  // namespace kodama::isa
