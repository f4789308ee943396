#include "compiler/layers/integer.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

namespace kodama::compiler {
namespace {

/// Numbers around every limit, and random ones.
std::vector<int64_t> edge_numbers(uint32_t seed) {
  std::vector<int64_t> values;
  for (const int bit : {0, 1, 7, 8, 11, 15, 16, 22, 24, 31, 32, 33, 40, 52, 62}) {
    const int64_t power = int64_t{1} << bit;
    for (const int64_t value : {power - 1, power, power + 1}) values.insert(values.end(), {value, -value});
  }
  values.push_back(std::numeric_limits<int64_t>::min());
  values.push_back(std::numeric_limits<int64_t>::max());
  std::mt19937_64 random(seed);
  for (int k = 0; k < 40; ++k) values.push_back(static_cast<int64_t>(random()) >> (random() % 64));
  return values;
}

constexpr IntegerType kTypes[] = {{8, true},  {8, false},  {16, true}, {16, false},
                                  {32, true}, {32, false}, {64, true}, {64, false}};

/// The number as one of this type, in an int64 that has its bits.
int64_t cut(int64_t value, IntegerType type) {
  if (type.is_wide()) return value;
  const uint64_t mask = (uint64_t{1} << type.bits) - 1;
  const uint64_t bits = static_cast<uint64_t>(value) & mask;
  const bool negative = type.is_signed && (bits >> (type.bits - 1)) != 0;
  return static_cast<int64_t>(negative ? bits | ~mask : bits);
}

double low_word(int64_t value) {
  return static_cast<int32_t>(static_cast<uint32_t>(value));
}
double high_word(int64_t value) {
  return static_cast<int32_t>(static_cast<uint64_t>(value) >> 32);
}

/// Inputs 0 to 3: lower and upper words of a and b.
Integer words_operand(Formula& f, int number, IntegerType type) {
  if (!type.is_wide()) return integer_of_word(f.x(2 * number), type);
  return {f.x(2 * number), f.x(2 * number + 1), type};
}

int64_t value_of(Formula& f, const Integer& result, int64_t a, int64_t b) {
  const std::vector<double> inputs = {low_word(a), high_word(a), low_word(b), high_word(b)};
  const auto word = [&](Term term) {
    return static_cast<uint64_t>(
        static_cast<uint32_t>(static_cast<int64_t>(f.result(term).evaluate(inputs))));
  };
  return static_cast<int64_t>(word(result.high) << 32 | word(result.low));
}

using Operation = std::function<Integer(const Integer&, const Integer&)>;
using Expected = std::function<int64_t(int64_t, int64_t, IntegerType)>;

void expect_operation(const char* name, const Operation& operation, const Expected& expected) {
  const std::vector<int64_t> values = edge_numbers(1);
  std::mt19937 random(2);
  for (const IntegerType type : kTypes) {
    Formula f;
    const Integer result = operation(words_operand(f, 0, type), words_operand(f, 1, type));
    for (size_t k = 0; k < 300; ++k) {
      const int64_t a = cut(values[random() % values.size()], type);
      const int64_t b = cut(values[random() % values.size()], type);
      ASSERT_EQ(value_of(f, result, a, b), cut(expected(a, b, type), result.type))
          << name << " of " << a << " and " << b << ", " << type.bits << (type.is_signed ? " signed" : "");
    }
  }
}

uint64_t u(int64_t value) {
  return static_cast<uint64_t>(value);
}
int64_t s(uint64_t value) {
  return static_cast<int64_t>(value);
}
bool is_less(int64_t a, int64_t b, IntegerType type) {
  return type.is_signed ? a < b : u(a) < u(b);
}

TEST(Integer, Arithmetic) {
  expect_operation("+", std::plus<Integer>(),
                   [](int64_t a, int64_t b, IntegerType) { return s(u(a) + u(b)); });
  expect_operation("-", std::minus<Integer>(),
                   [](int64_t a, int64_t b, IntegerType) { return s(u(a) - u(b)); });
  expect_operation("*", std::multiplies<Integer>(),
                   [](int64_t a, int64_t b, IntegerType) { return s(u(a) * u(b)); });
  expect_operation("&", std::bit_and<Integer>(), [](int64_t a, int64_t b, IntegerType) { return a & b; });
  expect_operation("^", std::bit_xor<Integer>(), [](int64_t a, int64_t b, IntegerType) { return a ^ b; });
  expect_operation(
      "abs", [](const Integer& a, const Integer&) { return absolute(a); },
      [](int64_t a, int64_t, IntegerType type) { return type.is_signed && a < 0 ? s(-u(a)) : a; });
  expect_operation("min", minimum,
                   [](int64_t a, int64_t b, IntegerType type) { return is_less(a, b, type) ? a : b; });
  expect_operation("max", maximum,
                   [](int64_t a, int64_t b, IntegerType type) { return is_less(a, b, type) ? b : a; });
}

TEST(Integer, Conditions) {
  const auto as_bool = [](Term condition) { return integer_of_word(condition, {1, false}); };
  expect_operation(
      "<", [&](const Integer& a, const Integer& b) { return as_bool(less(a, b)); }, is_less);
  expect_operation(
      "==", [&](const Integer& a, const Integer& b) { return as_bool(equal(a, b)); },
      [](int64_t a, int64_t b, IntegerType) { return a == b; });
}

TEST(Integer, Shifts) {
  const auto counted = [](bool to_left) {
    return [=](int64_t a, int64_t b, IntegerType type) -> int64_t {
      if (u(b) >= static_cast<uint64_t>(type.bits)) return 0;
      const int64_t bits = type.is_wide() ? a : s(u(a) & ((uint64_t{1} << type.bits) - 1));
      return s(to_left ? u(bits) << b : u(bits) >> b);
    };
  };
  const auto few = [](const Integer& count) { return count & integer_constant(count.low, 127, count.type); };
  const auto of_few = [](auto expected) {
    return [=](int64_t a, int64_t b, IntegerType type) { return expected(a, b & 127, type); };
  };
  const auto as_unsigned = [](const Integer& a) { return convert(a, {a.type.bits, false}); };
  expect_operation(
      "<<",
      [&](const Integer& a, const Integer& b) { return shift_left(as_unsigned(a), as_unsigned(few(b))); },
      of_few(counted(true)));
  expect_operation(
      ">>",
      [&](const Integer& a, const Integer& b) { return shift_right(as_unsigned(a), as_unsigned(few(b))); },
      of_few(counted(false)));
}

TEST(Integer, Division) {
  const auto quotient = [](int64_t a, int64_t b, IntegerType type) {
    if (b == 0) return int64_t{0};
    if (!type.is_signed) return s(u(a) / u(b));
    return b == -1 ? s(-u(a)) : a / b;
  };
  expect_operation(
      "/", [](const Integer& a, const Integer& b) { return divide(a, b).quotient; }, quotient);
  expect_operation(
      "%", [](const Integer& a, const Integer& b) { return divide(a, b).remainder; },
      [&](int64_t a, int64_t b, IntegerType type) { return s(u(a) - u(quotient(a, b, type)) * u(b)); });
}

TEST(Integer, Conversions) {
  for (const IntegerType to : kTypes) {
    expect_operation(
        "convert", [&](const Integer& a, const Integer&) { return convert(a, to); },
        [](int64_t a, int64_t, IntegerType) { return a; });
  }
  expect_operation(
      "to bool",
      [](const Integer& a, const Integer&) {
        return convert(a, {1, false});
      },
      [](int64_t a, int64_t, IntegerType) { return a != 0; });
}

TEST(Integer, ToFloatRoundsOnce) {
  for (const IntegerType type : kTypes) {
    Formula f;
    const ScalarExpr expr = f.result(to_float(words_operand(f, 0, type)));
    for (int64_t a : edge_numbers(3)) {
      a = cut(a, type);
      // What evaluate computes in double precision is exact up to the last sum.
      const auto found = static_cast<float>(expr.evaluate(std::vector<double>{low_word(a), high_word(a)}));
      EXPECT_EQ(found, type.is_signed ? static_cast<float>(a) : static_cast<float>(u(a))) << a;
    }
  }
}

TEST(Integer, ShortFloatsAreRoundedAsTheHostRounds) {
  std::mt19937 random(9);
  Formula f, g;
  const ScalarExpr half = f.result(round_to_type(f.x(0), DataType::kFloat16));
  const ScalarExpr brain = g.result(round_to_type(g.x(0), DataType::kBfloat16));
  for (int k = 0; k < 3000; ++k) {
    const float x =
        std::ldexp(static_cast<float>(random() >> 8) * 0x1p-24F + 1, static_cast<int>(random() % 50) - 30) *
        ((random() & 1) != 0 ? -1 : 1);
    const std::vector<double> inputs = {x};
    EXPECT_EQ(half.evaluate(inputs), half_to_float(float_to_half(x))) << x;
    EXPECT_EQ(brain.evaluate(inputs), bfloat16_to_float(float_to_bfloat16(x))) << x;
  }
  for (const float x :
       {65519.0F, 65520.0F, 1e30F, -1e30F, 0x1p-24F, 0x1p-25F, 0x1.8p-24F, 0x1.ffep-15F, 0.0F})
    EXPECT_EQ(half.evaluate(std::vector<double>{x}), half_to_float(float_to_half(x))) << x;
}

TEST(Integer, FromFloat) {
  for (const IntegerType type : kTypes) {
    Formula f;
    const Integer result = to_integer(f.x(0), type);
    const double most = std::ldexp(1.0, type.bits - (type.is_signed ? 1 : 0));
    std::mt19937 random(5);
    for (int k = 0; k < 200; ++k) {
      const auto x = static_cast<float>(
          std::ldexp(static_cast<double>(random()) / 0x1p32, static_cast<int>(random() % 66)) *
          (type.is_signed && (random() & 1) != 0 ? -1 : 1));
      if (std::abs(x) >= most) continue;
      const auto word = [&](Term term) {
        return static_cast<uint64_t>(
            static_cast<uint32_t>(static_cast<int64_t>(f.result(term).evaluate(std::vector<double>{x}))));
      };
      const auto found = static_cast<int64_t>(word(result.high) << 32 | word(result.low));
      EXPECT_EQ(found, x < 0 ? static_cast<int64_t>(x) : s(static_cast<uint64_t>(x))) << x;
    }
  }
}

}  // namespace
}  // namespace kodama::compiler
