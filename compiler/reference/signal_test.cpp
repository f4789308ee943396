#include <gmock/gmock.h>

#include "compiler/reference/reference_test_util.h"

/// Expected numbers are those of numpy.
namespace kodama::compiler {
namespace {

using namespace testing;  // NOLINT
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Dft, LengthsSidesAndInverse) {
  const Tensor x = pattern({1, 5, 2, 1}, 7, 2, 1);
  Tensor y = run_one("y = DFT(x)", {x});
  EXPECT_EQ(y.shape(), (Shape{1, 5, 2, 2}));
  expect_near(y, {-9,        0,         7,         0,        -6.5,      -17.20477, -12.37132,
                  0.8652998, -6.5,      -4.061496, 8.871323, 7.106423,  -6.5,      4.061496,
                  8.871323,  -7.106423, -6.5,      17.20477, -12.37132, -0.8652998});
  y = run_one("y = DFT<onesided=1>(x, n)", {x, ints({}, {6})});  // a zero is added
  EXPECT_EQ(y.shape(), (Shape{1, 4, 2, 2}));
  expect_near(y,
              {-9, 0, 7, 0, 2.5, -14.72243, -10.5, -4.330127, -10.5, 2.598076, 2.5, 12.99038, -17, 0, 9, 0});
  expect_near(run_one("y = DFT<axis=-3>(x, n)", {x, int32s({}, {3})}),  // the rest is left out
              {2, 0, 4, 0, -11.5, -4.330127, -2, 12.12436, -11.5, 4.330127, -2, -12.12436});
  expect_near(run_one("y = DFT<inverse=1>(x)", {pattern({1, 6, 2}, 7, 2, 1)}),
              {-0.5, 0.1666667, -0.6710466, -0.6622868, -0.9509619, -0.3823714, -3.833333, 2.5, -3.549038,
               2.215705, 2.50438, -3.837713});
}

TEST(Dft, InverseGivesBackWhatWasTransformed) {
  for (const int64_t length : {1, 2, 7, 12, 64, 90}) {
    const Tensor x = pattern({2, length, 2}, 7, 2, 1);
    const Tensor back = run_one("y = DFT<inverse=1>(x)", {run_one("y = DFT(x)", {x})});
    expect_near(back, {x.data<float>().begin(), x.data<float>().end()});
  }
}

TEST(Dft, WrongOperands) {
  const auto says = [](const char* text) { return ThrowsMessage<isa::UserError>(HasSubstr(text)); };
  const Tensor real = pattern({1, 4, 1}, 7, 2, 1);
  const auto run = [](const char* node, const std::vector<Tensor>& inputs) {
    return [=] { run_one(node, inputs); };
  };
  EXPECT_THAT(run("y = DFT(x)", {pattern({1, 4, 3}, 1, 1)}), says("[1, 4, 3]"));
  EXPECT_THAT(run("y = DFT<axis=2>(x)", {real}), says("last axis"));
  EXPECT_THAT(run("y = DFT<onesided=1>(x)", {pattern({1, 4, 2}, 1, 1)}), says("complex"));
  EXPECT_THAT(run("y = DFT<onesided=1, inverse=1>(x)", {real}), says("inverse"));
  EXPECT_THAT(run("y = DFT(x, n)", {real, ints({}, {0})}), says("dft_length is 0"));
}

TEST(Stft, ComplexSignalWithWindow) {
  const Tensor y =
      run_one("y = STFT(x, s, w)", {pattern({1, 7, 2}, 5, 2, 1), ints({}, {2}), floats({3}, {0.5, 1, 0.25})});
  EXPECT_EQ(y.shape(), (Shape{1, 3, 3, 2}));  // of complex numbers both sides
  expect_near(y, {-2, 6.75, 2.89471, -8.772115, -11.39471, -0.9778857, -0.25, 8.5, 3.419229, -9.546634,
                  -12.16923, -0.4533666, 1.5, -8.75, -12.51073, -0.8211524, 3.510735, 9.571153});
  EXPECT_THAT(
      [] {
        run_one("y = STFT(x, s)", {pattern({1, 7, 1}, 5, 2), ints({}, {2})});
      },
      ThrowsMessage<isa::UserError>(HasSubstr("neither window nor frame_length")));
  EXPECT_THAT(
      [] {
        run_one("y = STFT(x, s, w)", {pattern({1, 2, 1}, 5, 2), ints({}, {2}), floats({3}, {0.5, 1, 0.25})});
      },
      ThrowsMessage<isa::UserError>(HasSubstr("3 elements")));
}

TEST(MelWeightMatrix, WrongOperands) {
  const auto run = [](int bands, int length, int rate, float low, float high) {
    return [=] {
      return run_one("y = MelWeightMatrix(b, d, s, l, u)",
                     {int32s({}, {bands}), int32s({}, {length}), int32s({}, {rate}), floats({}, {low}),
                      floats({}, {high})});
    };
  };
  EXPECT_EQ(run(8, 16, 8192, 0, 4096)().shape(), (Shape{9, 8}));
  EXPECT_THAT(run(8, 16, 8192, 0, 1e6), ThrowsMessage<isa::UserError>(HasSubstr("a spectrum of 9 bins")));
  EXPECT_THAT(run(8, 16, 8192, -1000, 4096),
              ThrowsMessage<isa::UserError>(HasSubstr("frequencies of 0 and more")));
  EXPECT_THAT(run(0, 16, 8192, 0, 4096), ThrowsMessage<isa::UserError>(HasSubstr("num_mel_bins is 0")));
}

TEST(Det, PivotsAndSingularMatrices) {
  expect_near(run_one("y = Det(x)", {pattern({2, 3, 3}, 7, 2, 2)}), {33.25, 23.75});
  EXPECT_EQ(run_one("y = Det(x)", {floats({2, 2}, {0, 1, 1, 0})}), floats({}, {-1}));
  EXPECT_EQ(run_one("y = Det(x)", {floats({2, 2}, {1, 2, 2, 4})}), floats({}, {0}));
  EXPECT_EQ(run_one("y = Det(x)", {floats({1, 0, 0}, {})}), floats({1}, {1}));
  EXPECT_THAT(
      [] {
        run_one("y = Det(x)", {floats({1, 2}, {1, 2})});
      },
      ThrowsMessage<isa::UserError>(HasSubstr("square")));
}

}  // namespace
}  // namespace kodama::compiler
