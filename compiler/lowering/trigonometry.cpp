#include <array>
#include <numbers>

#include "compiler/lowering/node_lowering.h"

/// Trigonometric and hyperbolic functions as formulas, within a few units in the last place: an argument is
/// brought near zero, where a polynomial (minimax fits as in scalar_lowering.cpp) has the function.
namespace kodama::compiler {

namespace {

constexpr double kHalfPi = std::numbers::pi / 2;
constexpr double kLn2 = std::numbers::ln2;

/// pi / 2 in parts of up to 12 bits: their products with whole numbers of up to 12 bits are exact, and so is
/// what is left of an angle when those of the first parts are taken away.
constexpr std::array<double, 5> kHalfPiParts = {0x1.92p+0, 0x1.fb4p-12, 0x1.444p-24, 0x1.68p-39,
                                                0x1.8469898cp-48};

/// x + x^3 * polynomial(x^2).
template <size_t N>
Term odd_function(const Term& x, const std::array<double, N>& coefficients) {
  const Term square = x * x;
  Term value = square * coefficients[N - 1] + coefficients[N - 2];
  for (size_t k = N - 2; k-- > 0;) value = value * square + coefficients[k];
  return (square * x) * value + x;
}

/// Relative errors of the polynomials themselves: below 3e-9.
Term sine_near_zero(const Term& x) {  // up to pi / 2
  return odd_function<5>(x, {-0.166666672, 0.00833334774, -0.000198426045, 2.76001288e-06, -2.50294256e-08});
}
Term cosine_near_zero(const Term& x) {  // up to pi / 4
  const Term square = x * x;
  const Term tail = (square * 2.44325674e-05 - 0.00138873106) * square + 0.0416666456;
  return 1 - square * 0.5 + square * square * tail;
}
Term arc_tangent_near_zero(const Term& x) {  // up to 1
  return odd_function<10>(x, {-0.333333284, 0.199997172, -0.142803714, 0.110614479, -0.0882232487,
                              0.0676568896, -0.0450125933, 0.0228028689, -0.00743732974, 0.00113692402});
}
Term arc_sine_near_zero(const Term& x) {  // up to 1/2
  return odd_function<6>(x,
                         {0.166666597, 0.0750051662, 0.0445149951, 0.0318218209, 0.0143912556, 0.0375766829});
}
Term hyperbolic_sine_near_zero(const Term& x) {  // up to 1
  return odd_function<4>(x, {0.166666672, 0.00833331514, 0.000198416659, 2.78998391e-06});
}
Term area_sine_near_zero(const Term& x) {  // up to 1/2
  return odd_function<6>(
      x, {-0.166666657, 0.0749990717, -0.0446160957, 0.0300335698, -0.0200495869, 0.00925663859});
}
Term area_tangent_near_zero(const Term& x) {  // up to 1/2
  return odd_function<7>(
      x, {0.333333373, 0.199996501, 0.142965838, 0.109486461, 0.1038564, 0.0216608346, 0.179089084});
}

Term with_sign_of(const Term& x, const Term& magnitude) {
  return select(x, magnitude, -magnitude);
}

/// An angle less whole turns, in two steps, so that each number of quarter turns has up to 12 bits. Angles
/// beyond 2^24, where neighbouring numbers are further apart than a radian, lose what is left of them.
class Angle {
 public:
  explicit Angle(const Term& x) : turns_(floor(x * (1 / (kHalfPi * kStep)) + 0.5) * kStep) {
    rest_ = less(less(x, turns_, 0), turns_, 1);
    estimate_ = less(rest_, turns_, 2);
  }

  /// The angle, in quarter turns, up to a whole number of kStep.
  Term quarters() const { return estimate_ * (1 / kHalfPi); }
  /// The angle less `count` quarter turns, which leave it at about zero.
  Term less_quarters(const Term& count) const {
    const Term coarse = less(less(rest_, count, 0), count, 1);
    const Term fine = less(less(coarse, turns_, 2), count, 2);
    const Term finer = less(less(fine, turns_, 3), count, 3);
    return max(min(less(less(finer, turns_, 4), count, 4), 2), -2);
  }

 private:
  static constexpr double kStep = 4096;
  static Term less(const Term& x, const Term& count, size_t part) { return x - count * kHalfPiParts[part]; }

  Term turns_;  ///< quarter turns, a multiple of kStep: whole turns
  Term rest_{nullptr, -1};
  Term estimate_{nullptr, -1};
};

/// Whether a whole number is odd: 1 or 0.
Term oddness(const Term& whole) {
  return whole - floor(whole * 0.5) * 2;
}

HostReason lower_sin(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering&, Term x) {
    const Angle angle(x);
    const Term halves = floor(angle.quarters() * 0.5 + 0.5);
    return sine_near_zero(angle.less_quarters(halves * 2)) * (1 - oddness(halves) * 2);
  });
}

/// Of an angle of 2 n + 1 quarter turns and a rest r: sin((n + 1) pi + r).
HostReason lower_cos(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering&, Term x) {
    const Angle angle(x);
    const Term halves = floor(angle.quarters() * 0.5);
    return sine_near_zero(angle.less_quarters(halves * 2 + 1)) * (oddness(halves) * 2 - 1);
  });
}

HostReason lower_tan(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering&, Term x) {
    const Angle angle(x);
    const Term quarters = floor(angle.quarters() + 0.5);
    const Term rest = angle.less_quarters(quarters);
    const Term sine = sine_near_zero(rest);
    const Term cosine = cosine_near_zero(rest);
    const Term is_odd = oddness(quarters) - 1;
    return select(is_odd, -cosine, sine) / select(is_odd, sine, cosine);
  });
}

HostReason lower_atan(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering&, Term x) {
    const Term magnitude = abs(x);
    const Term near = arc_tangent_near_zero(min(magnitude, 1) / max(magnitude, 1));
    return with_sign_of(x, select(magnitude - 1, kHalfPi - near, near));
  });
}

/// asin of |x| up to 1/2, and beyond of the half of what is missing to a right angle, by
/// asin x = pi/2 - 2 asin(sqrt((1 - x) / 2)).
struct ArcSine {
  explicit ArcSine(const Term& magnitude) : is_large(magnitude - 0.5), value(is_large) {
    const Term halved = sqrt(max((1 - magnitude) * 0.5, 0));
    value = arc_sine_near_zero(select(is_large, halved, magnitude));
  }
  Term is_large;  ///< not negative where it is
  Term value;
};

HostReason lower_asin(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering&, Term x) {
    const ArcSine part(abs(x));
    return with_sign_of(x, select(part.is_large, kHalfPi - part.value * 2, part.value));
  });
}

HostReason lower_acos(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering&, Term x) {
    const ArcSine part(abs(x));
    const Term large = part.value * 2;
    return select(part.is_large, select(x, large, 2 * kHalfPi - large),
                  kHalfPi - with_sign_of(x, part.value));
  });
}

/// e^|x| / 2, infinite only where sinh and cosh are.
Term half_exp(const Term& magnitude) {
  const Term root = exp(magnitude * 0.5);
  return root * 0.5 * root;
}

HostReason lower_sinh(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering&, Term x) {
    const Term magnitude = abs(x);
    const Term half = half_exp(magnitude);
    const Term far = with_sign_of(x, half - reciprocal(half) * 0.25);
    return select(magnitude - 1, far, hyperbolic_sine_near_zero(max(min(x, 1), -1)));
  });
}

HostReason lower_cosh(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering&, Term x) {
    const Term half = half_exp(abs(x));
    return half + reciprocal(half) * 0.25;
  });
}

/// From here on 1 is nothing beside a number's square, which might overflow.
constexpr double kOneVanishes = 0x1p32;

HostReason lower_asinh(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering&, Term x) {
    const Term magnitude = abs(x);
    const Term is_huge = magnitude - kOneVanishes;
    const Term bounded = min(magnitude, kOneVanishes);
    const Term argument = select(is_huge, magnitude, bounded + sqrt(bounded * bounded + 1));
    const Term far = log(argument) + select(is_huge, x.constant(kLn2), x.constant(0));
    return select(magnitude - 0.5, with_sign_of(x, far), area_sine_near_zero(max(min(x, 0.5), -0.5)));
  });
}

/// log(x + sqrt(x^2 - 1)); near 1 by what x has more than 1, which is exact.
HostReason lower_acosh(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering&, Term x) {
    const Term is_huge = x - kOneVanishes;
    const Term excess = min(x, kOneVanishes) - 1;
    const Term argument_excess = excess + sqrt(excess * (excess + 2));
    const Term rounded = argument_excess + 1;
    // log(1 + u) = log(w) + log(1 + (u - (w - 1)) / w), where w is 1 + u rounded.
    const Term near = log(rounded) + (argument_excess - (rounded - 1)) / rounded;
    return select(is_huge, log(x) + kLn2, near);
  });
}

HostReason lower_atanh(NodeLowering& lowering) {
  return lower_unary(lowering, [](NodeLowering&, Term x) {
    const Term magnitude = abs(x);
    const Term far = log((magnitude + 1) / (1 - magnitude)) * 0.5;
    return select(magnitude - 0.5, with_sign_of(x, far), area_tangent_near_zero(max(min(x, 0.5), -0.5)));
  });
}

}  // namespace

void register_trigonometry(OperatorTable& table) {
  constexpr auto kFloats = ElementTypes::kChipFloats;
  table.push_back({"Sin", lower_sin, kFloats});
  table.push_back({"Cos", lower_cos, kFloats});
  table.push_back({"Tan", lower_tan, kFloats});
  table.push_back({"Asin", lower_asin, kFloats});
  table.push_back({"Acos", lower_acos, kFloats});
  table.push_back({"Atan", lower_atan, kFloats});
  table.push_back({"Sinh", lower_sinh, kFloats});
  table.push_back({"Cosh", lower_cosh, kFloats});
  table.push_back({"Asinh", lower_asinh, kFloats});
  table.push_back({"Acosh", lower_acosh, kFloats});
  table.push_back({"Atanh", lower_atanh, kFloats});
}

}  // namespace kodama::compiler
