#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "simulator/engine/kernels/kernels.h"
#include "simulator/engine/kernels/scalar_arithmetic.h"

/// The vector kernels of double precision against the scalar arithmetic, on operands that are hard to round.
namespace kodama::simulator {
namespace {

constexpr uint64_t kSeed = 20261125;
constexpr int kStride = kRowGranule;
constexpr int kWords = 4 * kStride;
constexpr uint64_t kSign = uint64_t{1} << 63;
constexpr uint64_t kMantissa = (uint64_t{1} << 52) - 1;

/// One row of doubles, in the form of the kernels.
struct DoubleRow {
  std::vector<uint32_t> upper = std::vector<uint32_t>(kWords);
  std::vector<uint32_t> lower = std::vector<uint32_t>(kWords);

  void set(int i, uint64_t bits) {
    upper[i] = static_cast<uint32_t>(bits >> 32);
    lower[i] = static_cast<uint32_t>(bits);
  }
  uint64_t get(int i) const { return uint64_t{upper[i]} << 32 | lower[i]; }
  Rows rows() const { return {{upper.data(), lower.data()}}; }
  Results results() { return {{upper.data(), lower.data()}, nullptr}; }
};

class Operands {
 public:
  explicit Operands(uint64_t seed) : random_(seed) {}

  uint64_t bits() { return random_(); }
  int below(int limit) { return static_cast<int>(random_() % static_cast<uint64_t>(limit)); }
  template <class Range>
  auto one_of(const Range& range) {
    return range[below(static_cast<int>(std::size(range)))];
  }
  uint64_t sign() { return bits() & kSign; }
  uint64_t mantissa() {
    switch (below(9)) {
      case 0:
        return 0;
      case 1:
        return kMantissa - static_cast<uint64_t>(below(3));
      case 2:
        return bits() & kMantissa & ~uint64_t{0xffff};
      case 3:
        return bits() & 0xffff;
      case 4:  // few bits
        return ((bit() | bit()) ^ bit()) & kMantissa;
      case 5:
        return (uint64_t{0} - bit()) & kMantissa;
      case 6:  // half a unit of a float, or next to it
        return ((bits() << 29) + (uint64_t{1} << 28) + static_cast<uint64_t>(below(3)) - 1) & kMantissa;
      case 7:  // a short factor, so that products have a tail of zeros or ones
        return (bits() & (bit() | (bit() - 1))) << 20 & kMantissa;
      default:
        return bits() & kMantissa;
    }
  }
  uint64_t number(int exponent) { return sign() | static_cast<uint64_t>(exponent) << 52 | mantissa(); }
  uint64_t ordinary() { return number(1023 - 30 + below(61)); }
  /// Any number, mostly where the fast way begins and ends.
  uint64_t extreme() {
    static constexpr int kExponents[] = {0,    1,    2,    10,   30,   60,   90,   121,  122,  123,
                                         124,  125,  470,  505,  520,  560,  622,  623,  624,  625,
                                         700,  896,  1150, 1421, 1422, 1423, 1424, 1425, 1480, 1520,
                                         1540, 1570, 1921, 1922, 1923, 1924, 1925, 2045, 2046, 2047};
    return below(4) == 0 ? bits() : number(one_of(kExponents));
  }
  uint64_t near(uint64_t pattern) { return pattern + static_cast<uint64_t>(below(5)) - 2; }
  /// A number that interferes with one of the exponent of `other` in a sum.
  uint64_t beside(uint64_t other) {
    static constexpr int kDistances[] = {0,  1,  2,  23, 24, 25,  26,  51,  52,  53,  54,  55, 76,
                                         77, 78, 79, 80, 90, 103, 104, 105, 106, 107, 108, 109};
    const int distance = one_of(kDistances);
    const int exponent = static_cast<int>(other >> 52 & 2047) + (below(2) == 0 ? distance : -distance);
    return number(std::min(std::max(exponent, 0), 2047));
  }
  /// What cancels a value of the rounding `rounded`, or nearly, or rounds badly with it.
  uint64_t addend(uint64_t rounded, bool anywhere) {
    const uint64_t bits = any_addend(rounded);
    const int exponent = static_cast<int>(bits >> 52 & 2047);
    return anywhere || exponent == 0 || (exponent >= 123 && exponent <= 1923) ? bits : ordinary();
  }

 private:
  uint64_t any_addend(uint64_t rounded) {
    switch (below(6)) {
      case 0:
        return rounded ^ kSign;
      case 1:
        return near(rounded ^ kSign);
      case 2:
        return (rounded ^ kSign) + (static_cast<uint64_t>(below(3)) << 52) - (uint64_t{1} << 52);
      case 3:
        return below(4) == 0 ? sign() : ordinary();
      default:
        return beside(rounded);
    }
  }
  uint64_t bit() { return uint64_t{1} << below(53); }
  std::mt19937_64 random_;
};

/// Runs `check` on every target of this host.
void on_every_target(const std::function<void(const KernelTable&)>& check) {
  for (const std::string& target : kernel_targets()) {
    choose_kernels(target);
    SCOPED_TRACE(testing::Message() << best_kernels().target << ", seed " << kSeed);
    check(best_kernels());
  }
  choose_kernels("");
}

/// Result i of a kernel whose `rounded` is as given.
uint64_t result_at(const DoubleRow& row, int i, bool rounded) {
  return rounded ? row.upper[i] : row.get(i);
}

TEST(DoubleKernels, VectorsEqualScalarArithmetic) {
  constexpr int kRows = 1500;
  on_every_target([](const KernelTable& kernels) {
    Operands operands(kSeed);
    for (int n = 0; n < kRows; ++n) {
      DoubleRow x;
      DoubleRow y;
      DoubleRow z;
      // Rows of ordinary numbers alone show the fast way, the others that it keeps out of the rest.
      const bool extremes = n % 3 == 0;
      for (int i = 0; i < kWords; ++i) {
        const bool extreme = extremes && operands.below(4) == 0;
        const uint64_t a = extreme ? operands.extreme() : operands.ordinary();
        const uint64_t b = extreme && operands.below(2) == 0 ? operands.extreme() : operands.ordinary();
        const bool product = operands.below(4) != 0;
        x.set(i, a);
        y.set(i, b);
        z.set(i, extremes && operands.below(8) == 0
                     ? operands.extreme()
                     : operands.addend(multiply_add_double(a, product ? &b : nullptr, 0, false), extremes));
      }
      for (const bool round : {false, true}) {
        for (const bool mul : {false, true}) {
          for (const bool add : {false, true}) {
            DoubleRow out;
            kernels.vector_double[round]({kStride}, x.rows(), mul ? y.rows() : Rows{},
                                         add ? z.rows() : Rows{}, out.results());
            for (int i = 0; i < kWords; ++i) {
              const uint64_t factor = y.get(i);
              const uint64_t expected =
                  multiply_add_double(x.get(i), mul ? &factor : nullptr, add ? z.get(i) : 0, round);
              ASSERT_EQ(result_at(out, i, round), expected)
                  << std::hex << x.get(i) << " * " << factor << " + " << z.get(i) << " mul " << mul << " add "
                  << add << " rounded " << round;
            }
          }
        }
      }
    }
  });
}

TEST(DoubleKernels, FloatsBecomeDoubles) {
  constexpr int kRows = 500;
  on_every_target([](const KernelTable& kernels) {
    Operands operands(kSeed);
    for (int n = 0; n < kRows; ++n) {
      std::vector<uint32_t> in(kWords);
      for (uint32_t& word : in) {
        static constexpr uint32_t kPatterns[] = {0,          1,          0x7fffff,  0x800000,
                                                 0x7f7fffff, 0x7f800000, 0x7fffffff};
        word = static_cast<uint32_t>(operands.bits());
        if (operands.below(4) == 0) word = operands.one_of(kPatterns) | (word & 0x80000000);
      }
      DoubleRow out;
      kernels.widen_float({kStride}, in.data(), out.upper.data(), out.lower.data());
      for (int i = 0; i < kWords; ++i) {
        ASSERT_EQ(out.get(i), isa::convert(in[i], isa::kFloatFormat, isa::kDoubleFormat))
            << std::hex << in[i];
      }
    }
  });
}

/// Four elements with one exponent, some of them zero.
std::array<uint64_t, 4> block_of(Operands& operands, int exponent) {
  std::array<uint64_t, 4> block;
  for (uint64_t& element : block) element = operands.number(operands.below(8) == 0 ? 0 : exponent);
  return block;
}

uint64_t dot_product(const std::array<uint64_t, 4>& row, const std::array<uint64_t, 4>& v, uint64_t z,
                     bool round) {
  return round_dot_product(block_dot_product(row, v, isa::Precision::kDouble), z, isa::kDoubleFormat,
                           round ? isa::kFloatFormat : isa::kDoubleFormat);
}

TEST(DoubleKernels, MatricesEqualScalarArithmetic) {
  constexpr int kRuns = 1500;
  on_every_target([](const KernelTable& kernels) {
    Operands operands(kSeed);
    for (int n = 0; n < kRuns; ++n) {
      const bool extremes = n % 4 == 0;
      const auto exponent = [&] {
        static constexpr int kExponents[] = {0,    505,  520,  560,  622,  623, 624,
                                             1422, 1423, 1424, 1540, 1560, 2047};
        // All blocks have to be regular to be computed here.
        if (extremes && operands.below(30) == 0) return operands.one_of(kExponents);
        return operands.below(20) == 0 ? (operands.below(2) == 0 ? 623 : 1423)
                                       : 1023 - 30 + operands.below(61);
      };
      std::array<std::array<std::array<uint64_t, 4>, kStride>, 4> a;
      std::array<std::array<uint64_t, 4>, kStride> v;
      DoubleRow vector;
      DoubleRow z;
      for (int m = 0; m < kStride; ++m) {
        v[m] = block_of(operands, exponent());
        if (extremes && operands.below(60) == 0) v[m][1] = operands.extreme();
        for (int j = 0; j < 4; ++j) vector.set(j * kStride + m, v[m][j]);
        for (int i = 0; i < 4; ++i) {
          auto& row = a[i][m];
          row = block_of(operands, exponent());
          // Products that cancel.
          if (operands.below(4) == 0) v[m][1] = v[m][0] ^ (operands.below(2) == 0 ? kSign : 1);
          if (operands.below(4) == 0) row[1] = row[0];
          for (int j = 0; j < 4; ++j) vector.set(j * kStride + m, v[m][j]);
        }
      }
      std::vector<double> decoded(size_t{128} * kStride);
      std::array<uint32_t, 4> kind;
      for (int i = 0; i < 4; ++i) {
        std::vector<uint32_t> raw(2 * kWords);
        for (int m = 0; m < kStride; ++m) {
          for (int j = 0; j < 4; ++j) {
            raw[j * kStride + m] = static_cast<uint32_t>(a[i][m][j] >> 32);
            raw[kWords + j * kStride + m] = static_cast<uint32_t>(a[i][m][j]);
          }
          z.set(i * kStride + m, extremes && operands.below(60) == 0
                                     ? operands.extreme()
                                     : operands.addend(dot_product(a[i][m], v[m], 0, false), false));
        }
        kind[i] = kernels.decode_double({kStride}, raw.data(), i, decoded.data());
      }
      for (const int first : {0, 2}) {
        for (const bool round : {false, true}) {
          for (const bool add : {false, true}) {
            DoubleRow out;
            const uint32_t how = kind[first] | kind[first + 1] |
                                 kernels.matrix_double[round]({kStride}, decoded.data(), first, vector.rows(),
                                                              add ? z.rows() : Rows{}, out.results());
            if (how != kBlockUniform) {
              ASSERT_TRUE(extremes);
              continue;
            }
            for (int i = first * kStride; i < (first + 2) * kStride; ++i) {
              const auto& row = a[i / kStride][i % kStride];
              const auto& factor = v[i % kStride];
              ASSERT_EQ(result_at(out, i, round), dot_product(row, factor, add ? z.get(i) : 0, round))
                  << std::hex << row[0] << ' ' << row[1] << ' ' << row[2] << ' ' << row[3] << " * "
                  << factor[0] << ' ' << factor[1] << ' ' << factor[2] << ' ' << factor[3] << " + "
                  << z.get(i) << " add " << add << " rounded " << round;
            }
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace kodama::simulator
