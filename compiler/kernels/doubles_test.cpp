/// Formulas of doubles on the simulator's double unit, against the host's.
#include "compiler/layers/doubles.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "compiler/kernels/kernel_test_util.h"

namespace kodama::compiler {
namespace {

using testing::int_tensor;
using testing::run_map;

/// What the chip makes of doubles: both words of a formula of two of them.
std::vector<double> run_doubles(const std::function<Term(Term, Term)>& formula, const std::vector<double>& a,
                                const std::vector<double>& b) {
  std::vector<Tensor> inputs;
  for (const std::vector<double>& values : {a, b}) {
    for (const int shift : {32, 0}) {
      std::vector<int32_t> words;
      for (const double value : values)
        words.push_back(static_cast<int32_t>(std::bit_cast<uint64_t>(value) >> shift));
      inputs.push_back(int_tensor(words));
    }
  }
  Formula f;
  const Term x = pair(f.x(0), f.x(1)), y = pair(f.x(2), f.x(3));
  const Integer bits = bits_of_double(formula(x, y));
  const auto word = [&](Term term) {
    ScalarExpr expr = f.result(term);
    std::vector<int> numbers(4);
    std::vector<Tensor> used;
    for (int k = 0; k < 4; ++k) {
      const bool is_used =
          std::ranges::any_of(expr.nodes(), [&](const auto& node) { return node.input == k; });
      if (is_used) used.push_back(inputs[static_cast<size_t>(k)]);
      numbers[static_cast<size_t>(k)] = static_cast<int>(used.size()) - 1;
    }
    return run_map(expr.renumbered(numbers), used, DataType::kInt32);
  };
  const Tensor high = word(bits.high), low = word(bits.low);
  std::vector<double> result;
  for (size_t k = 0; k < a.size(); ++k) {
    const auto part = [&](const Tensor& words) { return uint64_t{words.data<uint32_t>()[k]}; };
    result.push_back(std::bit_cast<double>(part(high) << 32 | part(low)));
  }
  return result;
}
std::vector<double> spread_doubles(size_t count, int low, int high, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> values(count);
  for (double& value : values) {
    const int exponent = low + static_cast<int>(random() % static_cast<uint64_t>(high - low + 1));
    value = std::ldexp(1 + static_cast<double>(random() >> 12) * 0x1p-52, exponent);
    if ((random() & 1) != 0) value = -value;
  }
  return values;
}
void expect_doubles(const std::function<Term(Term, Term)>& formula,
                    const std::function<double(double, double)>& expected, const std::vector<double>& a,
                    const std::vector<double>& b, double units) {
  const std::vector<double> found = run_doubles(formula, a, b);
  double worst = 0;
  for (size_t k = 0; k < a.size(); ++k) {
    const double wanted = expected(a[k], b[k]);
    if (found[k] == wanted) continue;
    const double off = std::abs(found[k] - wanted) / std::ldexp(1.0, std::ilogb(wanted) - 52);
    worst = std::max(worst, off);
    EXPECT_LE(off, units) << a[k] << ", " << b[k] << ": " << found[k] << ", not " << wanted;
  }
  Formula f;
  const std::string text =
      f.result(bits_of_double(formula(pair(f.x(0), f.x(1)), pair(f.x(2), f.x(3)))).low).to_string();
  fmt::print("{:.60}: {:.2f} ulp\n", text, worst);
}

TEST(DoubleUnit, Operations) {
  const std::vector<double> a = spread_doubles(160, -60, 60, 1), b = spread_doubles(160, -60, 60, 2);
  expect_doubles([](Term x, Term y) { return x + y; }, std::plus<>(), a, b, 0);
  expect_doubles([](Term x, Term y) { return x - y; }, std::minus<>(), a, b, 0);
  expect_doubles([](Term x, Term y) { return x * y; }, std::multiplies<>(), a, b, 1);
  expect_doubles([](Term x, Term y) { return x * y + x; },
                 [](double x, double y) { return std::fma(x, y, x); }, a, b, 1);
  expect_doubles([](Term x, Term y) { return x - x * y; },
                 [](double x, double y) { return std::fma(-x, y, x); }, a, b, 1);
  expect_doubles([](Term x, Term y) { return x / y; }, std::divides<>(), a, b, 1);
  expect_doubles([](Term x, Term) { return sqrt(abs(x)); },
                 [](double x, double) { return std::sqrt(std::abs(x)); }, a, b, 1);
  expect_doubles([](Term x, Term) { return -x; }, [](double x, double) { return -x; }, a, b, 0);
  expect_doubles([](Term x, Term) { return floor(x); }, [](double x, double) { return std::floor(x); }, a, b,
                 0);
  expect_doubles([](Term x, Term) { return relu(x); }, [](double x, double) { return std::max(x, 0.0); }, a,
                 b, 0);
  expect_doubles([](Term x, Term y) { return max(x, y); }, [](double x, double y) { return std::max(x, y); },
                 a, b, 0);
  expect_doubles([](Term x, Term y) { return min(x, y); }, [](double x, double y) { return std::min(x, y); },
                 a, b, 0);
  expect_doubles([](Term x, Term y) { return select(x, y, x); },
                 [](double x, double y) { return x >= 0 ? y : x; }, a, b, 0);
  expect_doubles([](Term x, Term y) { return where(less(x, y), y, x); },
                 [](double x, double y) { return x < y ? y : x; }, a, b, 0);
  expect_doubles([](Term x, Term y) { return where(equal(x, y), x, y + y); },
                 [](double x, double y) { return x == y ? x : y + y; }, a, a, 0);
  expect_doubles([](Term x, Term) { return widen(narrow(x, DataType::kFloat32)); },
                 [](double x, double) { return static_cast<float>(x); }, a, b, 0);
  expect_doubles(
      [](Term x, Term) {
        return to_double(double_to_integer(x, {64, true}));
      },
      [](double x, double) { return static_cast<double>(static_cast<int64_t>(x)); }, a, b, 0);
  const std::vector<double> small = spread_doubles(160, -20, 8, 3);
  expect_doubles([](Term x, Term) { return exp(x); }, [](double x, double) { return std::exp(x); }, small, b,
                 4);
  expect_doubles([](Term x, Term) { return log(abs(x)); },
                 [](double x, double) { return std::log(std::abs(x)); }, a, b, 4);
  expect_doubles([](Term x, Term) { return tanh(x); }, [](double x, double) { return std::tanh(x); }, small,
                 b, 6);
}

TEST(DoubleUnit, EndsOfTheRange) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto quotient =
      run_doubles([](Term x, Term y) { return x / y; }, {1, -1, 0, 5, 1e300, 1e-300, kInfinity, 3},
                  {0, 0, 3, kInfinity, 1e-10, 1e300, 2, 3});
  EXPECT_EQ(quotient, (std::vector<double>{kInfinity, -kInfinity, 0, 0, kInfinity, 0, kInfinity, 1}));
  const auto root =
      run_doubles([](Term x, Term) { return sqrt(x); }, {0, kInfinity, 1e-300, 4}, {0, 0, 0, 0});
  EXPECT_EQ(root, (std::vector<double>{0, kInfinity, 1e-150, 2}));
}

}  // namespace
}  // namespace kodama::compiler
