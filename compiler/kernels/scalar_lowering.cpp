/// Scalar expressions as PE operations, one vector of 4 LW (8 floats) per PE at a time.
///
/// The PEs have multiply-add, min/max, integer and shift operations, a coarse table of 1/sqrt(x) (about 4
/// bits) and floor; everything else is made of those. The recipes below keep intermediate results inside the
/// range of single precision, so that their results are within a few units in the last place over the whole
/// range, zeros and infinities included. A step's word is an integer as well as a float. Polynomial
/// coefficients are minimax fits on the stated interval (iteratively reweighted least squares in double
/// precision, rounded to single).
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "compiler/kernels/lowering.h"
#include "isa/error.h"

namespace kodama::compiler {
namespace {

using isa::Opcode;
using isa::Operand;
using isa::Precision;

constexpr uint32_t kInfinityBits = 0x7f800000;
constexpr uint32_t kAbsMask = 0x7fffffff;
constexpr uint32_t kSignMask = 0x80000000;
constexpr uint32_t kMantissaMask = 0x007fffff;
constexpr uint64_t kDoubleInfinity = 0x7ff0000000000000;
constexpr uint64_t kDoubleSign = 0x8000000000000000;
constexpr uint64_t kUpperWord = 0xffffffff00000000;
constexpr uint64_t kLowerWord = 0x00000000ffffffff;

// expm1(r) / r on |r| <= 0.35, relative error 2.5e-10.
constexpr std::array<float, 7> kExpm1OverR = {1.0f,
                                              0.5f,
                                              0.1666666716337204f,
                                              0.041666340082883835f,
                                              0.008333265781402588f,
                                              0.0013942162040621042f,
                                              0.00019917367899324745f};
// (log(1 + f) - f + f^2/2) / f^3 on [sqrt(1/2) - 1, sqrt(2) - 1], error 5.9e-9 relative to f.
constexpr std::array<float, 8> kLogTail = {
    0.33333316445350647f, -0.25000810623168945f, 0.2000228613615036f,  -0.16624552011489868f,
    0.14181196689605713f, -0.13128773868083954f, 0.12881618738174438f, -0.07859524339437485f};
// erf(x) = x * P(x^2) / Q(x^2) on |x| <= 4, relative error 2.5e-8.
constexpr std::array<float, 6> kErfNumerator = {1.1283791065216064f,     0.19353999197483063f,
                                                0.053101036697626114f,   0.0038831180427223444f,
                                                0.00028455944266170263f, 1.986802544706734e-06f};
constexpr std::array<float, 6> kErfDenominator = {1.0f,
                                                  0.5048528909683228f,
                                                  0.11534786969423294f,
                                                  0.015206797048449516f,
                                                  0.001185513916425407f,
                                                  3.742004628293216e-05f};
constexpr float kLog2E = 1.44269504f;
// ln 2 split so that n * kLn2High is exact for |n| < 2^9.
constexpr float kLn2High = 0.693359375f;
constexpr float kLn2Low = -2.12194440e-4f;
// For |n| < 2^7; what is left is smaller.
constexpr float kLn2Most = 0.693145752f;
constexpr float kLn2Rest = 1.42860677e-6f;

class ScalarLowering {
 public:
  ScalarLowering(MachineBuilder& builder, const ScalarExpr& expr, const std::vector<Operand>& inputs,
                 const std::optional<Operand>& destination)
      : builder_(builder), expr_(expr), inputs_(inputs), destination_(destination) {}

  Operand run() {
    lower_nodes();
    const Operand& result = values_.back();
    if (destination_ && !(result == *destination_)) {
      // The result is an input, a constant or shared: it still has to go where the caller wants it.
      Operand target = *destination_;
      emit(Opcode::kPassa, Precision::kLong, {result}, {target});
      return target;
    }
    return result;
  }

  /// Of an expression that makes doubles.
  void run_to_words(const Operand& high, const Operand& low) {
    lower_nodes();
    const Pair& result = doubles_.back();
    emit(Opcode::kOr, Precision::kLong, {upper_word(result[0]), long_shift(Opcode::kLsr, result[1], 32)},
         {high});
    emit(Opcode::kOr, Precision::kLong, {long_shift(Opcode::kLsl, result[0], 32), lower_word(result[1])},
         {low});
  }

 private:
  void lower_nodes() {
    const auto& nodes = expr_.nodes();
    isa::check_internal(!nodes.empty(), "lower_scalar", "empty expression");
    count_uses();
    values_.resize(nodes.size());
    doubles_.resize(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      node_ = static_cast<int>(i);
      if (is_fused_[i]) continue;
      if (expr_.is_double(node_)) {
        doubles_[i] = lower_double(nodes[i]);
      } else {
        values_[i] = lower(nodes[i]);
      }
    }
  }

  // --- emission helpers -------------------------------------------------------------------------------

  void emit(Opcode opcode, Precision precision, std::vector<Operand> sources,
            std::vector<Operand> destinations) {
    builder_.emit(opcode, precision, std::move(sources), std::move(destinations),
                  scalar_op_name(current().op));
  }
  const ScalarNode& current() const { return expr_.nodes()[static_cast<size_t>(node_)]; }

  /// Where the next operation's result goes: the caller's destination for the last operation of the last
  /// node, else a fresh value.
  Operand fresh() {
    const int id = builder_.value(scalar_op_name(current().op), 8, kAnyPeMemory);
    return MachineBuilder::operand(id);
  }
  Operand final_target() {
    if (destination_ && node_ == expr_.result()) return *destination_;
    return fresh();
  }
  Operand constant(float value) { return MachineBuilder::operand(builder_.constant_float(value), 0, 0); }
  Operand bits(uint32_t payload) { return MachineBuilder::operand(builder_.constant_bits(payload), 0, 0); }
  static Operand minus(Operand operand) {
    operand.negate = !operand.negate;
    return operand;
  }

  Operand binary(Opcode opcode, Precision precision, const Operand& a, const Operand& b, const Operand& to) {
    emit(opcode, precision, {a, b}, {to});
    return to;
  }
  Operand mul(const Operand& a, const Operand& b) {
    return binary(Opcode::kVmul, Precision::kFloat, a, b, fresh());
  }
  Operand add(const Operand& a, const Operand& b) {
    return binary(Opcode::kVadd, Precision::kFloat, a, b, fresh());
  }
  Operand fma(const Operand& a, const Operand& b, const Operand& c, const Operand& to) {
    emit(Opcode::kVfma, Precision::kFloat, {a, b, c}, {to});
    return to;
  }
  Operand fma(const Operand& a, const Operand& b, const Operand& c) { return fma(a, b, c, fresh()); }
  Operand alu(Opcode opcode, Precision precision, const Operand& a, const Operand& b) {
    return binary(opcode, precision, a, b, fresh());
  }
  Operand alu(Opcode opcode, Precision precision, const Operand& a) {
    Operand to = fresh();
    emit(opcode, precision, {a}, {to});
    return to;
  }
  Operand abs_bits(const Operand& a) { return alu(Opcode::kAnd, Precision::kInt, a, bits(kAbsMask)); }

  /// A mask register for a comparison.
  Operand next_mask() {
    const int mask = builder_.value("mask", 1, isa::space_bit(isa::Space::kOmr), 1);
    return builder_.operand(mask, 0, 0, isa::Width::kWord);
  }
  static Operand under(Operand destination, const Operand& omr) {
    destination.mask.kind = isa::Mask::Kind::kVirtual;
    destination.mask.virtual_value = omr.value;
    return destination;
  }
  /// to = condition ? `when` : `otherwise`, where the mask holds the condition's lanes.
  Operand select(const Operand& omr, const Operand& when, const Operand& otherwise, const Operand& to) {
    emit(Opcode::kPassa, Precision::kLong, {otherwise}, {to});
    emit(Opcode::kPassa, Precision::kLong, {when}, {under(to, omr)});
    return to;
  }
  /// Mask: the lane is a finite number.
  Operand finite_mask(const Operand& a) {
    Operand omr = next_mask();
    Operand magnitude = abs_bits(a);
    // kInfinity - 1 - |a| is not negative exactly for finite patterns.
    emit(Opcode::kSub, Precision::kInt, {bits(kInfinityBits - 1), magnitude}, {omr});
    return omr;
  }

  template <size_t N>
  Operand polynomial(const std::array<float, N>& coefficients, const Operand& x) {
    Operand value = fma(x, constant(coefficients[N - 1]), constant(coefficients[N - 2]));
    for (size_t k = N - 2; k-- > 0;) value = fma(value, x, constant(coefficients[k]));
    return value;
  }

  // --- recipes ----------------------------------------------------------------------------------------

  /// 1/sqrt|x|: table (relative error below 2^-3.5), then three Newton steps r += r/2 (1 - |x| r^2), which
  /// leave it below 2^-23. x r is formed first, so nothing overflows. 0 -> inf, inf -> 0.
  Operand reciprocal_sqrt(const Operand& magnitude) {
    Operand r = alu(Opcode::kRsqrt, Precision::kFloat, magnitude);
    for (int iteration = 0; iteration < 3; ++iteration) {
      Operand xr = mul(magnitude, r);
      Operand error = fma(minus(xr), r, constant(1.0f));
      Operand half = mul(r, constant(0.5f));
      r = fma(half, error, r);
    }
    return r;
  }

  /// a / b = ((a r) r) with r = 1/sqrt|b|, one residual correction where dividend and quotient are finite,
  /// b's sign put in at the end. Elsewhere the result is a times infinity: an infinite operand behaves as the
  /// number 2^128 on this chip, so a product with it need not be infinite. a/0 is infinity of a's and b's
  /// signs, 0/0 and a/inf are 0 (there is no NaN).
  Operand divide(const Operand& a, const Operand& b, const Operand& to) {
    Operand magnitude = abs_bits(b);
    Operand r = reciprocal_sqrt(magnitude);
    Operand quotient = mul(mul(a, r), r);
    Operand finite = finite_mask(alu(Opcode::kMax, Precision::kInt, abs_bits(a), abs_bits(quotient)));
    Operand remainder = fma(minus(quotient), magnitude, a);
    Operand correction = mul(mul(remainder, r), r);
    Operand result = fresh();
    emit(Opcode::kVmul, Precision::kFloat, {a, constant(std::numeric_limits<float>::infinity())}, {result});
    emit(Opcode::kVadd, Precision::kFloat, {quotient, correction}, {under(result, finite)});
    Operand sign = alu(Opcode::kAnd, Precision::kInt, b, bits(kSignMask));
    return binary(Opcode::kXor, Precision::kInt, result, sign, to);
  }

  struct ExpParts {
    Operand expm1;  ///< e^r - 1, |r| <= ln2/2
    Operand power;  ///< n as an integer
  };
  /// x = n ln2 + r for x already clamped to where n fits; r takes what x was rounded by, if that is given.
  ExpParts exp_parts(const Operand& x, const std::optional<Operand>& rest = {}) {
    Operand shifted = fma(x, constant(kLog2E), constant(0.5f));
    Operand n = alu(Opcode::kFloor, Precision::kFloat, shifted);
    Operand r = fma(minus(n), constant(kLn2High), x);
    r = fma(minus(n), constant(kLn2Low), r);
    if (rest) r = add(r, *rest);
    Operand ratio = polynomial(kExpm1OverR, r);
    return {mul(ratio, r), alu(Opcode::kFtoi, Precision::kFloat, n)};
  }

  /// e^x. The result's exponent is built by an integer addition: below 2^-126 it becomes exponent 0, which is
  /// zero, above the largest float exponent 255, which is infinity; the last operation normalizes both.
  Operand exp(const Operand& x, const Operand& to) {
    Operand clamped = alu(Opcode::kMax, Precision::kFloat, x, constant(-87.5f));
    clamped = alu(Opcode::kMin, Precision::kFloat, clamped, constant(89.0f));
    return scaled_exp(exp_parts(clamped), to);
  }
  Operand scaled_exp(const ExpParts& parts, const Operand& to) {
    Operand mantissa = add(parts.expm1, constant(1.0f));
    Operand exponent = alu(Opcode::kLsl, Precision::kInt, parts.power, bits(23));
    Operand scaled = alu(Opcode::kAdd, Precision::kInt, mantissa, exponent);
    emit(Opcode::kVpassa, Precision::kFloat, {scaled}, {to});
    return to;
  }

  /// tanh x = m / (m + 2), m = e^2x - 1 = 2^n (e^r - 1) + (2^n - 1): no cancellation near zero. tanh of |x|
  /// >= 10 is 1.
  Operand tanh(const Operand& x, const Operand& to) {
    Operand clamped = alu(Opcode::kMax, Precision::kFloat, x, constant(-10.0f));
    clamped = alu(Opcode::kMin, Precision::kFloat, clamped, constant(10.0f));
    ExpParts parts = exp_parts(add(clamped, clamped));
    Operand biased = alu(Opcode::kAdd, Precision::kInt, parts.power, bits(127));
    Operand scale = alu(Opcode::kLsl, Precision::kInt, biased, bits(23));
    Operand m = fma(scale, parts.expm1, add(scale, constant(-1.0f)));
    return divide(m, add(m, constant(2.0f)), to);
  }

  Operand sigmoid(const Operand& x, const Operand& to) {
    Operand decay = exp(negated(x), fresh());
    // 1 / (1 + inf) is 0, as it should be.
    return divide(constant(1.0f), add(decay, constant(1.0f)), to);
  }

  /// x = 2^e (1 + f) with 1 + f in [sqrt 1/2, sqrt 2), found by integer arithmetic on the pattern of a
  /// positive number.
  struct LogParts {
    Operand e, f;
    Operand square;  ///< f^2
    Operand cubic;   ///< log(1 + f) - f + f^2/2
    Operand normal;  ///< mask: x is at least the smallest normal number
    Operand finite;  ///< mask: x is less than infinity
  };
  LogParts log_parts(const Operand& x) {
    constexpr uint32_t kSqrtHalfBits = 0x3f3504f3;
    LogParts parts;
    Operand offset = alu(Opcode::kSub, Precision::kInt, x, bits(kSqrtHalfBits));
    Operand exponent = alu(Opcode::kLsr, Precision::kInt, offset, bits(23));
    Operand mantissa = alu(Opcode::kAnd, Precision::kInt, offset, bits(kMantissaMask));
    parts.f = add(alu(Opcode::kAdd, Precision::kInt, mantissa, bits(kSqrtHalfBits)), constant(-1.0f));
    // There is no integer-to-float: e added to the pattern of 1.5 * 2^23 is the float 1.5 * 2^23 + e.
    parts.e = add(alu(Opcode::kAdd, Precision::kInt, exponent, bits(0x4b400000)), constant(-12582912.0f));
    parts.square = mul(parts.f, parts.f);
    parts.cubic = mul(mul(polynomial(kLogTail, parts.f), parts.f), parts.square);
    // Patterns from the smallest normal number to the largest finite one, read as integers, are logarithm's
    // domain.
    parts.normal = next_mask();
    emit(Opcode::kSub, Precision::kInt, {x, bits(0x00800000)}, {parts.normal});
    parts.finite = next_mask();
    emit(Opcode::kSub, Precision::kInt, {bits(kInfinityBits - 1), x}, {parts.finite});
    return parts;
  }

  /// log 0 = -inf; log of a negative number is -inf too (the chip has no NaN); log inf = inf.
  Operand log(const Operand& x, const Operand& to) {
    LogParts parts = log_parts(x);
    Operand tail = fma(parts.e, constant(kLn2Low), parts.cubic);
    tail = fma(minus(parts.square), constant(0.5f), tail);
    Operand result = fma(parts.e, constant(kLn2High), add(parts.f, tail));
    Operand with_zero =
        select(parts.normal, result, constant(-std::numeric_limits<float>::infinity()), fresh());
    return select(parts.finite, with_zero, constant(std::numeric_limits<float>::infinity()), to);
  }

  /// |x|^y = e^(y log|x|), with log|x| as the sum of two numbers, high + low: what is rounded away of it
  /// would be y times as large in the exponent. The multiply-add's product is all but exact, so that it gives
  /// the rounding error of a product. The result has x's sign where y is an odd number. x^0 and 1^y are 1.
  Operand pow(const Operand& x, const Operand& y, const Operand& to) {
    const float infinity = std::numeric_limits<float>::infinity();
    LogParts parts = log_parts(abs_bits(x));
    // Each sum with its rounding error: f - f^2/2, with the rest of log(1 + f), with e ln2.
    Operand half = mul(parts.f, constant(-0.5f));
    Operand square = fma(half, parts.f, parts.f);
    Operand square_error = fma(half, parts.f, add(parts.f, minus(square)));
    Operand near = add(square, parts.cubic);
    Operand near_error = add(add(square, minus(near)), parts.cubic);
    Operand far = mul(parts.e, constant(kLn2Most));
    Operand high = add(far, near);
    Operand high_error = add(add(far, minus(high)), near);
    Operand low = fma(parts.e, constant(kLn2Rest), add(square_error, near_error));
    low = add(low, high_error);
    high = select(parts.normal, high, constant(-infinity), fresh());
    high = select(parts.finite, high, constant(infinity), fresh());
    Operand exponent = mul(y, high);
    Operand rest = fma(y, low, fma(y, high, minus(exponent)));
    // Where the result is a number, the rest is far smaller than this.
    rest = alu(Opcode::kMax, Precision::kFloat, rest, constant(-0x1p-10f));
    rest = alu(Opcode::kMin, Precision::kFloat, rest, constant(0x1p-10f));
    exponent = alu(Opcode::kMax, Precision::kFloat, exponent, constant(-87.5f));
    exponent = alu(Opcode::kMin, Precision::kFloat, exponent, constant(89.0f));
    Operand magnitude = scaled_exp(exp_parts(exponent, rest), fresh());
    // y - 2 floor(y / 2) is 1 of odd numbers alone.
    Operand pairs = alu(Opcode::kFloor, Precision::kFloat, mul(y, constant(0.5f)));
    Operand from_odd = add(fma(minus(pairs), constant(2.0f), y), constant(-1.0f));
    Operand odd = next_mask();
    emit(Opcode::kSub, Precision::kInt, {bits(0), abs_bits(from_odd)}, {odd});
    Operand sign = alu(Opcode::kAnd, Precision::kInt, x, bits(kSignMask));
    Operand with_sign = alu(Opcode::kXor, Precision::kInt, magnitude, sign);
    return select(odd, with_sign, magnitude, to);
  }

  /// sqrt x = x r with one correction; infinity passes. Negative numbers give -sqrt|x| (no NaN).
  Operand sqrt(const Operand& x, const Operand& to) {
    Operand r = reciprocal_sqrt(abs_bits(x));
    Operand root = mul(x, r);
    Operand residual = fma(minus(root), root, x);
    Operand half = mul(r, constant(0.5f));
    // r is infinite at zero, where the residual is zero; 0 * inf = 0 on this chip.
    Operand corrected = fma(residual, half, root);
    Operand finite = finite_mask(x);
    return select(finite, corrected, x, to);
  }

  Operand erf(const Operand& x, const Operand& to) {
    Operand clamped = alu(Opcode::kMax, Precision::kFloat, x, constant(-4.0f));
    clamped = alu(Opcode::kMin, Precision::kFloat, clamped, constant(4.0f));
    Operand square = mul(clamped, clamped);
    Operand numerator = mul(polynomial(kErfNumerator, square), clamped);
    return divide(numerator, polynomial(kErfDenominator, square), to);
  }

  /// Equal numbers have equal patterns once zeros have lost their signs. A subtraction in floating point
  /// would not do: differences below 2^-126 are zero.
  Operand equal(const Operand& a, const Operand& b, const Operand& to) {
    emit(Opcode::kLnot, Precision::kInt, {difference(a, b, fresh())}, {to});
    return to;
  }
  /// 0 where they are equal.
  Operand difference(const Operand& a, const Operand& b, const Operand& to) {
    return binary(Opcode::kXor, Precision::kInt, add(a, constant(0.0f)), add(b, constant(0.0f)), to);
  }
  /// The larger of a and b isn't a. Of two zeros max takes the first.
  Operand less(const Operand& a, const Operand& b, const Operand& to) {
    Operand difference = alu(Opcode::kXor, Precision::kInt, alu(Opcode::kMax, Precision::kFloat, a, b), a);
    Operand same = alu(Opcode::kLnot, Precision::kInt, difference);
    return binary(Opcode::kXor, Precision::kInt, same, bits(1), to);
  }
  Operand unsigned_alu(Opcode opcode, Precision precision, const Operand& a, const Operand& b,
                       const Operand& to) {
    isa::Instruction instruction;
    instruction.opcode = opcode;
    instruction.precision = precision;
    instruction.unsigned_op = true;
    instruction.sources = {a, b};
    instruction.destinations = {to};
    builder_.emit(std::move(instruction), scalar_op_name(current().op));
    return to;
  }

  Operand negated(const Operand& x) {
    Operand to = fresh();
    emit(Opcode::kVpassa, Precision::kFloat, {minus(x)}, {to});
    return to;
  }

  // --- nodes ------------------------------------------------------------------------------------------

  void count_uses() {
    const auto& nodes = expr_.nodes();
    uses_.assign(nodes.size(), 0);
    is_fused_.assign(nodes.size(), false);
    for (const ScalarNode& node : nodes) {
      for (int k = 0; k < scalar_op_arity(node.op); ++k)
        ++uses_[static_cast<size_t>(node.args[static_cast<size_t>(k)])];
    }
    // A product whose only use is a sum becomes part of one multiply-add.
    for (const ScalarNode& node : nodes) {
      if (node.op != ScalarOp::kAdd && node.op != ScalarOp::kSub) continue;
      if (int k = product_argument(node); k >= 0)
        is_fused_[static_cast<size_t>(node.args[static_cast<size_t>(k)])] = true;
    }
    // A condition whose only use is a selection of words is the flags of its last operation.
    for (const ScalarNode& node : nodes) {
      if (node.op != ScalarOp::kSelect || expr_.is_double(node.args[1])) continue;
      const auto condition = static_cast<size_t>(node.args[0]);
      if (uses_[condition] == 1 && has_flags(nodes[condition])) is_fused_[condition] = true;
    }
  }
  bool has_flags(const ScalarNode& condition) const {
    switch (condition.op) {
      case ScalarOp::kEqual:
      case ScalarOp::kLess:
        return !expr_.is_double(condition.args[0]);
      case ScalarOp::kIsZero:
      case ScalarOp::kAnd:
      case ScalarOp::kOr:
      case ScalarOp::kXor:
        return true;
      default:
        return false;
    }
  }
  /// Which argument of a sum is a product used nowhere else; -1 = none.
  int product_argument(const ScalarNode& sum) const {
    if (sum.args[0] == sum.args[1]) return -1;
    for (int k = 0; k < 2; ++k) {
      const auto argument = static_cast<size_t>(sum.args[static_cast<size_t>(k)]);
      if (expr_.nodes()[argument].op == ScalarOp::kMul && uses_[argument] == 1) return k;
    }
    return -1;
  }

  const Operand& argument(int k) const {
    return values_[static_cast<size_t>(current().args[static_cast<size_t>(k)])];
  }

  Operand lower_sum(const ScalarNode& node) {
    const bool subtract = node.op == ScalarOp::kSub;
    const int k = product_argument(node);
    if (k < 0) {
      return binary(Opcode::kVadd, Precision::kFloat, argument(0),
                    subtract ? minus(argument(1)) : argument(1), final_target());
    }
    const ScalarNode& product = expr_.nodes()[static_cast<size_t>(node.args[static_cast<size_t>(k)])];
    Operand x = values_[static_cast<size_t>(product.args[0])];
    Operand z = argument(1 - k);
    if (subtract) (k == 1 ? x : z).negate ^= true;
    return fma(x, values_[static_cast<size_t>(product.args[1])], z, final_target());
  }

  Operand integer(Opcode opcode) {
    return binary(opcode, Precision::kInt, argument(0), argument(1), final_target());
  }

  // --- doubles ----------------------------------------------------------------------------------------

  /// A vector of doubles: those of the first words of all LW, and those of the second ones, a LW each. What
  /// words they are made of, and which they become, are vectors of words as all others are.
  using Pair = std::array<Operand, 2>;

  Operand double_constant(uint64_t payload) {
    return MachineBuilder::operand(builder_.constant_long(payload), 0, 0);
  }
  Operand double_constant(double value) { return double_constant(std::bit_cast<uint64_t>(value)); }
  Operand long_shift(Opcode opcode, const Operand& a, int count) {
    const Operand by = bits(static_cast<uint32_t>(count));
    // There is no other shift to the left.
    return opcode == Opcode::kLsl ? alu(opcode, Precision::kLong, a, by)
                                  : unsigned_alu(opcode, Precision::kLong, a, by, fresh());
  }
  Operand upper_word(const Operand& a) {
    return alu(Opcode::kAnd, Precision::kLong, a, double_constant(kUpperWord));
  }
  Operand lower_word(const Operand& a) {
    return alu(Opcode::kAnd, Precision::kLong, a, double_constant(kLowerWord));
  }
  Operand joined(const Operand& a, const Operand& b) { return alu(Opcode::kOr, Precision::kLong, a, b); }
  Pair pair(const Operand& high, const Operand& low) {
    return {joined(upper_word(high), long_shift(Opcode::kLsr, low, 32)),
            joined(long_shift(Opcode::kLsl, high, 32), lower_word(low))};
  }
  /// Words of which the upper ones in their LW are those of the first, the lower ones of the second.
  Operand words(const Operand& first_upper, const Operand& second_lower) {
    const Operand to = final_target();
    emit(Opcode::kOr, Precision::kLong, {first_upper, second_lower}, {to});
    return to;
  }
  Operand high_words(const Pair& a) { return words(upper_word(a[0]), long_shift(Opcode::kLsr, a[1], 32)); }
  Operand low_words(const Pair& a) { return words(long_shift(Opcode::kLsl, a[0], 32), lower_word(a[1])); }
  /// Of conditions that are whole LW, 0 or 1.
  Operand condition_words(const Operand& first, const Operand& second) {
    return words(long_shift(Opcode::kLsl, first, 32), second);
  }
  /// What is made of every half of the operands.
  template <typename F, typename... Pairs>
  static Pair halves(F&& f, const Pairs&... pairs) {
    return {f(pairs[0]...), f(pairs[1]...)};
  }

  Operand add_doubles(const Operand& a, const Operand& b) {
    return binary(Opcode::kVadd, Precision::kDouble, a, b, fresh());
  }
  /// A product is made on half of the PEs at a time; on the others the addend passes.
  Operand half_product(char half, const Operand& a, const Operand& b, const std::optional<Operand>& c) {
    isa::Instruction instruction;
    instruction.opcode = c ? Opcode::kVfma : Opcode::kVmul;
    instruction.precision = Precision::kDouble;
    instruction.half_select = half;
    instruction.sources = {a, b};
    if (c) instruction.sources.push_back(*c);
    instruction.destinations = {fresh()};
    const Operand to = instruction.destinations[0];
    builder_.emit(std::move(instruction), scalar_op_name(current().op));
    return to;
  }
  Operand multiply_doubles(const Operand& a, const Operand& b, const std::optional<Operand>& c = {}) {
    return half_product('d', a, b, half_product('u', a, b, c));
  }
  Operand abs_double(const Operand& a) {
    return alu(Opcode::kAnd, Precision::kLong, a, double_constant(~kDoubleSign));
  }
  /// As reciprocal_sqrt, with as many steps as double precision needs.
  Operand reciprocal_sqrt_of_double(const Operand& magnitude) {
    Operand r = alu(Opcode::kRsqrt, Precision::kDouble, magnitude);
    for (int iteration = 0; iteration < 5; ++iteration) {
      const Operand xr = multiply_doubles(magnitude, r);
      const Operand error = multiply_doubles(minus(xr), r, double_constant(1.0));
      r = multiply_doubles(multiply_doubles(r, double_constant(0.5)), error, r);
    }
    return r;
  }
  Operand finite_double_mask(const Operand& magnitude) {
    Operand omr = next_mask();
    emit(Opcode::kSub, Precision::kLong, {double_constant(kDoubleInfinity - 1), magnitude}, {omr});
    return omr;
  }
  /// As divide.
  Operand divide_doubles(const Operand& a, const Operand& b) {
    const Operand magnitude = abs_double(b);
    const Operand r = reciprocal_sqrt_of_double(magnitude);
    const Operand quotient = multiply_doubles(multiply_doubles(a, r), r);
    const Operand finite =
        finite_double_mask(alu(Opcode::kMax, Precision::kLong, abs_double(a), abs_double(quotient)));
    const Operand remainder = multiply_doubles(minus(quotient), magnitude, a);
    const Operand correction = multiply_doubles(multiply_doubles(remainder, r), r);
    const Operand far = multiply_doubles(a, double_constant(kDoubleInfinity));
    const Operand result = select(finite, add_doubles(quotient, correction), far, fresh());
    const Operand sign = alu(Opcode::kAnd, Precision::kLong, b, double_constant(kDoubleSign));
    return alu(Opcode::kXor, Precision::kLong, result, sign);
  }
  /// As sqrt.
  Operand sqrt_of_double(const Operand& x) {
    const Operand magnitude = abs_double(x);
    const Operand r = reciprocal_sqrt_of_double(magnitude);
    const Operand root = multiply_doubles(x, r);
    const Operand residual = multiply_doubles(minus(root), root, x);
    const Operand corrected = multiply_doubles(residual, multiply_doubles(r, double_constant(0.5)), root);
    return select(finite_double_mask(magnitude), corrected, x, fresh());
  }
  /// LW that are 1 where the lower of two doubles is the first, and isn't the second.
  Operand less_doubles(const Operand& a, const Operand& b) {
    const Operand larger = alu(Opcode::kMax, Precision::kDouble, a, b);
    const Operand same = alu(Opcode::kLnot, Precision::kLong, alu(Opcode::kXor, Precision::kLong, larger, a));
    return alu(Opcode::kLnot, Precision::kLong, same);
  }
  Operand equal_doubles(const Operand& a, const Operand& b) {
    const Operand zero = double_constant(0.0);
    const Operand difference =
        alu(Opcode::kXor, Precision::kLong, add_doubles(a, zero), add_doubles(b, zero));
    return alu(Opcode::kLnot, Precision::kLong, difference);
  }
  /// The words of a vector, each as the upper one of a LW, whose lower one is 0.
  Pair as_upper_words(const Operand& a) { return {upper_word(a), long_shift(Opcode::kLsl, a, 32)}; }

  bool takes_doubles(int argument) const {
    return expr_.is_double(current().args.at(static_cast<size_t>(argument)));
  }
  const Pair& double_argument(int k) const {
    return doubles_[static_cast<size_t>(current().args[static_cast<size_t>(k)])];
  }

  Pair lower_double_sum(const ScalarNode& node) {
    const bool subtract = node.op == ScalarOp::kSub;
    const int k = product_argument(node);
    return pair_of([&](size_t half) {
      if (k < 0) {
        const Operand& b = double_argument(1)[half];
        return add_doubles(double_argument(0)[half], subtract ? minus(b) : b);
      }
      const ScalarNode& product = expr_.nodes()[static_cast<size_t>(node.args[static_cast<size_t>(k)])];
      Operand x = doubles_[static_cast<size_t>(product.args[0])][half];
      Operand z = double_argument(1 - k)[half];
      if (subtract) (k == 1 ? x : z).negate ^= true;
      return multiply_doubles(x, doubles_[static_cast<size_t>(product.args[1])][half], z);
    });
  }
  template <typename F>
  static Pair pair_of(F&& f) {
    return {f(size_t{0}), f(size_t{1})};
  }

  Pair lower_double(const ScalarNode& node) {
    const auto by = [&](Opcode opcode) {
      return halves([&](const Operand& a, const Operand& b) { return alu(opcode, Precision::kDouble, a, b); },
                    double_argument(0), double_argument(1));
    };
    const auto of = [&](auto&& f) { return halves(f, double_argument(0)); };
    const auto of_both = [&](auto&& f) { return halves(f, double_argument(0), double_argument(1)); };
    switch (node.op) {
      case ScalarOp::kDoubleConstant: {
        const Operand value = double_constant(node.value);
        return {value, value};
      }
      case ScalarOp::kPair:
        return pair(argument(0), argument(1));
      case ScalarOp::kWiden:
        return halves(
            [&](Operand word) {
              word.extend = true;
              const Operand to = fresh();
              emit(Opcode::kVpassa, Precision::kDouble, {word}, {to});
              return to;
            },
            as_upper_words(argument(0)));
      case ScalarOp::kToLong:
        return of([&](const Operand& a) { return alu(Opcode::kFtoi, Precision::kDouble, a); });
      case ScalarOp::kAdd:
      case ScalarOp::kSub:
        return lower_double_sum(node);
      case ScalarOp::kMul:
        return of_both([&](const Operand& a, const Operand& b) { return multiply_doubles(a, b); });
      case ScalarOp::kDiv:
        return of_both([&](const Operand& a, const Operand& b) { return divide_doubles(a, b); });
      case ScalarOp::kReciprocal:
        return of([&](const Operand& a) { return divide_doubles(double_constant(1.0), a); });
      case ScalarOp::kNeg:
        return of([&](const Operand& a) {
          const Operand to = fresh();
          emit(Opcode::kVpassa, Precision::kDouble, {minus(a)}, {to});
          return to;
        });
      case ScalarOp::kAbs:
        return of([&](const Operand& a) { return abs_double(a); });
      case ScalarOp::kMax:
        return by(Opcode::kMax);
      case ScalarOp::kMin:
        return by(Opcode::kMin);
      case ScalarOp::kRelu:
        return of(
            [&](const Operand& a) { return alu(Opcode::kMax, Precision::kDouble, a, double_constant(0.0)); });
      case ScalarOp::kSqrt:
        return of([&](const Operand& a) { return sqrt_of_double(a); });
      case ScalarOp::kFloor:
        return of([&](const Operand& a) { return alu(Opcode::kFloor, Precision::kDouble, a); });
      case ScalarOp::kSelectNotNegative: {
        const bool of_doubles = takes_doubles(0);
        Pair condition;
        if (of_doubles) {
          condition = double_argument(0);
        } else {
          // The sign of a float, -0's lost, is that of a LW which it is the upper word of.
          const Operand plain = fresh();
          emit(Opcode::kVpassa, Precision::kFloat, {argument(0)}, {plain});
          condition = as_upper_words(plain);
        }
        return halves(
            [&](const Operand& a, const Operand& yes, const Operand& no) {
              const Operand omr = next_mask();
              if (of_doubles) {
                emit(Opcode::kVpassa, Precision::kDouble, {a}, {omr});
              } else {
                emit(Opcode::kSub, Precision::kLong, {a, double_constant(0.0)}, {omr});
              }
              return select(omr, yes, no, fresh());
            },
            condition, double_argument(1), double_argument(2));
      }
      case ScalarOp::kSelect:
        return halves(
            [&](const Operand& a, const Operand& yes, const Operand& no) {
              const Operand is_zero = next_mask();
              emit(Opcode::kPassa, Precision::kLong, {a}, {is_zero});
              return select(is_zero, no, yes, fresh());
            },
            as_upper_words(argument(0)), double_argument(1), double_argument(2));
      default:
        throw isa::InternalError("internal error in lower_scalar: operation on doubles without a recipe");
    }
  }

  /// Makes a mask of a condition (has_flags): of the lanes where it holds, or else, of the others.
  bool lower_flags(const ScalarNode& condition, const Operand& omr) {
    const auto argument_of = [&](size_t k) -> const Operand& {
      return values_[static_cast<size_t>(condition.args.at(k))];
    };
    switch (condition.op) {
      case ScalarOp::kEqual:
        difference(argument_of(0), argument_of(1), omr);
        return true;
      case ScalarOp::kLess:
        // The flag of max is that the first is chosen, or the same.
        binary(Opcode::kMax, Precision::kFloat, argument_of(0), argument_of(1), omr);
        return false;
      case ScalarOp::kIsZero:
        emit(Opcode::kPassa, Precision::kInt, {argument_of(0)}, {omr});
        return true;
      default: {
        const Opcode opcode = condition.op == ScalarOp::kAnd  ? Opcode::kAnd
                              : condition.op == ScalarOp::kOr ? Opcode::kOr
                                                              : Opcode::kXor;
        binary(opcode, Precision::kInt, argument_of(0), argument_of(1), omr);
        return false;
      }
    }
  }

  Operand lower(const ScalarNode& node) {
    switch (node.op) {
      case ScalarOp::kInput:
        isa::check_internal(node.input >= 0 && static_cast<size_t>(node.input) < inputs_.size(),
                            "lower_scalar", "input {} of {}", node.input, inputs_.size());
        return inputs_[static_cast<size_t>(node.input)];
      case ScalarOp::kConstant:
        return constant(static_cast<float>(node.value));
      case ScalarOp::kAdd:
      case ScalarOp::kSub:
        return lower_sum(node);
      case ScalarOp::kMul:
        return binary(Opcode::kVmul, Precision::kFloat, argument(0), argument(1), final_target());
      case ScalarOp::kDiv:
        return divide(argument(0), argument(1), final_target());
      case ScalarOp::kReciprocal:
        return divide(constant(1.0f), argument(0), final_target());
      case ScalarOp::kNeg: {
        Operand to = final_target();
        emit(Opcode::kVpassa, Precision::kFloat, {minus(argument(0))}, {to});
        return to;
      }
      case ScalarOp::kAbs:
        return binary(Opcode::kAnd, Precision::kInt, argument(0), bits(kAbsMask), final_target());
      case ScalarOp::kMax:
        return binary(Opcode::kMax, Precision::kFloat, argument(0), argument(1), final_target());
      case ScalarOp::kMin:
        return binary(Opcode::kMin, Precision::kFloat, argument(0), argument(1), final_target());
      case ScalarOp::kRelu:
        // max with +0 rather than the relu operation, which makes -0 of negative numbers.
        return binary(Opcode::kMax, Precision::kFloat, argument(0), constant(0.0f), final_target());
      case ScalarOp::kSqrt:
        return sqrt(argument(0), final_target());
      case ScalarOp::kExp:
        return exp(argument(0), final_target());
      case ScalarOp::kLog:
        return log(argument(0), final_target());
      case ScalarOp::kTanh:
        return tanh(argument(0), final_target());
      case ScalarOp::kSigmoid:
        return sigmoid(argument(0), final_target());
      case ScalarOp::kErf:
        return erf(argument(0), final_target());
      case ScalarOp::kPow:
        return pow(argument(0), argument(1), final_target());
      case ScalarOp::kFloor: {
        Operand to = final_target();
        emit(Opcode::kFloor, Precision::kFloat, {argument(0)}, {to});
        return to;
      }
      case ScalarOp::kSelectNotNegative: {
        Operand omr = next_mask();
        if (takes_doubles(0)) {
          // Their upper words have the sign; -0 has become +0 before.
          const Pair plain = halves([&](const Operand& a) { return add_doubles(a, double_constant(0.0)); },
                                    double_argument(0));
          emit(Opcode::kVpassa, Precision::kFloat,
               {joined(upper_word(plain[0]), long_shift(Opcode::kLsr, plain[1], 32))}, {omr});
          return select(omr, argument(1), argument(2), final_target());
        }
        // The flag of a MAU result is "sign bit clear", after -0 has become +0.
        emit(Opcode::kVpassa, Precision::kFloat, {argument(0)}, {omr});
        return select(omr, argument(1), argument(2), final_target());
      }
      case ScalarOp::kEqual:
        if (takes_doubles(0)) {
          const Pair same = halves([&](const Operand& a, const Operand& b) { return equal_doubles(a, b); },
                                   double_argument(0), double_argument(1));
          return condition_words(same[0], same[1]);
        }
        return equal(argument(0), argument(1), final_target());
      case ScalarOp::kLess:
        if (takes_doubles(0)) {
          const Pair is_less = halves([&](const Operand& a, const Operand& b) { return less_doubles(a, b); },
                                      double_argument(0), double_argument(1));
          return condition_words(is_less[0], is_less[1]);
        }
        return less(argument(0), argument(1), final_target());
      case ScalarOp::kIntConstant:
        return bits(static_cast<uint32_t>(static_cast<int32_t>(node.value)));
      case ScalarOp::kIntAdd:
        return integer(Opcode::kAdd);
      case ScalarOp::kIntSub:
        return integer(Opcode::kSub);
      case ScalarOp::kIntMax:
        return integer(Opcode::kMax);
      case ScalarOp::kIntMin:
        return integer(Opcode::kMin);
      case ScalarOp::kAnd:
        return integer(Opcode::kAnd);
      case ScalarOp::kOr:
        return integer(Opcode::kOr);
      case ScalarOp::kXor:
        return integer(Opcode::kXor);
      case ScalarOp::kShiftLeft:
        return integer(Opcode::kLsl);
      case ScalarOp::kShiftRightSigned:
        return integer(Opcode::kLsr);
      case ScalarOp::kShiftRight:
        return unsigned_alu(Opcode::kLsr, Precision::kInt, argument(0), argument(1), final_target());
      case ScalarOp::kUnsignedMax:
        return unsigned_alu(Opcode::kMax, Precision::kInt, argument(0), argument(1), final_target());
      case ScalarOp::kIsZero: {
        Operand to = final_target();
        emit(Opcode::kLnot, Precision::kInt, {argument(0)}, {to});
        return to;
      }
      case ScalarOp::kSelect: {
        const auto condition = static_cast<size_t>(node.args[0]);
        const Operand omr = next_mask();
        if (!is_fused_[condition]) {
          emit(Opcode::kPassa, Precision::kInt, {argument(0)}, {omr});
        } else if (lower_flags(expr_.nodes()[condition], omr)) {
          return select(omr, argument(1), argument(2), final_target());
        }
        return select(omr, argument(2), argument(1), final_target());
      }
      case ScalarOp::kToInt: {
        Operand to = final_target();
        emit(Opcode::kFtoi, Precision::kFloat, {argument(0)}, {to});
        return to;
      }
      case ScalarOp::kFloatBits:
      case ScalarOp::kFromBits:
        return argument(0);
      case ScalarOp::kHighWord:
        return high_words(double_argument(0));
      case ScalarOp::kLowWord:
        return low_words(double_argument(0));
      case ScalarOp::kNarrow: {
        // The float is in the upper word; in the lower one, it is again.
        const Pair narrow = halves(
            [&](const Operand& a) {
              isa::Instruction instruction;
              instruction.opcode = Opcode::kVpassa;
              instruction.precision = Precision::kDouble;
              instruction.round_output = true;
              instruction.sources = {a};
              instruction.destinations = {fresh()};
              const Operand to = instruction.destinations[0];
              builder_.emit(std::move(instruction), scalar_op_name(current().op));
              return to;
            },
            double_argument(0));
        return words(upper_word(narrow[0]), long_shift(Opcode::kLsr, narrow[1], 32));
      }
      case ScalarOp::kDoubleConstant:
      case ScalarOp::kDoubleInput:
      case ScalarOp::kPair:
      case ScalarOp::kWiden:
      case ScalarOp::kToLong:
        break;  // lower_double
    }
    throw isa::InternalError("internal error in lower_scalar: operation without a recipe");
  }

  static constexpr scheduler::HomeSet kAnyPeMemory =
      isa::space_bit(isa::Space::kGrf0) | isa::space_bit(isa::Space::kGrf1) |
      isa::space_bit(isa::Space::kLm0) | isa::space_bit(isa::Space::kLm1);

  MachineBuilder& builder_;
  const ScalarExpr& expr_;
  const std::vector<Operand>& inputs_;
  const std::optional<Operand>& destination_;
  std::vector<Operand> values_;
  std::vector<Pair> doubles_;  ///< of nodes that are doubles
  std::vector<int> uses_;
  std::vector<bool> is_fused_;  ///< lowered with the node that uses it
  int node_ = 0;
};

}  // namespace

void lower_double(MachineBuilder& builder, const ScalarExpr& expr, const std::vector<Operand>& inputs,
                  const Operand& high, const Operand& low) {
  ScalarLowering(builder, expr, inputs, std::nullopt).run_to_words(high, low);
}

Operand lower_scalar(MachineBuilder& builder, const ScalarExpr& expr, const std::vector<Operand>& inputs,
                     const std::optional<Operand>& destination) {
  return ScalarLowering(builder, expr, inputs, destination).run();
}

}  // namespace kodama::compiler
