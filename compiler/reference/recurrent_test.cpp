#include <gmock/gmock.h>

#include "compiler/reference/reference_test_util.h"

/// Expected numbers are those of PyTorch 1.13 (LSTM and GRU with biases in both directions, packed
/// sequences), or of the equations in numpy (what PyTorch hasn't).
namespace kodama::compiler {
namespace {

using namespace testing;  // NOLINT
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const Tensor kX = pattern({3, 2, 2}, 3, 5, 4);
const Tensor kInitialH = pattern({2, 2, 2}, 13, 4, 8);
const Tensor kInitialC = pattern({2, 2, 2}, 17, 6, 8);

Tensor first_half(const Tensor& tensor, Shape shape) {
  Tensor half(tensor.type(), std::move(shape));
  std::copy_n(tensor.data<float>().begin(), half.size(), half.data<float>().begin());
  return half;
}

TEST(Lstm, BothDirections) {
  const Tensor w = pattern({2, 8, 2}, 7, 1);
  const Tensor r = pattern({2, 8, 2}, 5, 3);
  const Tensor b = pattern({2, 16}, 11, 2);
  const char* const node =
      "y, yh, yc = LSTM<hidden_size=2, direction=\"bidirectional\">(x, w, r, b, l, h, c)";
  auto out = run_all(node, {&kX, &w, &r, &b, nullptr, &kInitialH, &kInitialC});
  EXPECT_EQ(out[0].shape(), (Shape{3, 2, 2, 2}));
  EXPECT_EQ(out[1].shape(), (Shape{2, 2, 2}));
  expect_near(out[0], {-0.1358328, -0.1600139, -0.0885853,  -0.2212588, 0.07719601,  -0.3594018,
                       0.117819,   -0.1978599, -0.09399644, -0.2755306, -0.1524243,  0.01846778,
                       0.06332643, -0.2618609, 0.0176715,   -0.1431489, 0.01219154,  -0.1560226,
                       -0.1030645, -0.1970444, 0.3254378,   -0.2076009, -0.01506533, -0.1315358});
  expect_near(out[1],
              {0.01219154, -0.1560226, -0.1030645, -0.1970444, 0.07719601, -0.3594018, 0.117819, -0.1978599});
  expect_near(out[2],
              {0.01769887, -0.2388695, -0.3253974, -0.5701231, 0.1963718, -0.7124413, 0.2296554, -0.4656405});

  const Tensor lengths = int32s({2}, {3, 1});
  out = run_all(node, {&kX, &w, &r, &b, &lengths, &kInitialH, &kInitialC});
  expect_near(out[0], {-0.1358328, -0.1600139,  -0.0885853,  -0.2212588, 0.07719601, -0.3594018,
                       0.1369518,  -0.04146955, -0.09399644, -0.2755306, 0,          0,
                       0.06332643, -0.2618609,  0,           0,          0.01219154, -0.1560226,
                       0,          0,           0.3254378,   -0.2076009, 0,          0});
  expect_near(out[1], {0.01219154, -0.1560226, -0.0885853, -0.2212588, 0.07719601, -0.3594018, 0.1369518,
                       -0.04146955});
  expect_near(out[2], {0.01769887, -0.2388695, -0.1279795, -0.3212706, 0.1963718, -0.7124413, 0.3022341,
                       -0.08723556});
}

TEST(Lstm, PeepholesClipInputForgetAndActivations) {
  const Tensor w = pattern({1, 8, 2}, 7, 1);
  const Tensor r = pattern({1, 8, 2}, 5, 3);
  const Tensor p = pattern({1, 6}, 3, 2, 8);
  const Tensor h = first_half(kInitialH, {1, 2, 2});
  const Tensor c = first_half(kInitialC, {1, 2, 2});
  const auto run = [&](int input_forget) {
    const std::string node = fmt::format(
        "y, yh, yc = LSTM<hidden_size=2, clip=0.5, input_forget={}, "
        "activations=[\"HardSigmoid\", \"Softsign\", \"ScaledTanh\"], activation_alpha=[0.3, 1.5], "
        "activation_beta=[0.4, 0.5]>(x, w, r, b, l, h, c, p)",
        input_forget);
    return run_all(node, {&kX, &w, &r, nullptr, nullptr, &h, &c, &p});
  };
  auto out = run(0);
  expect_near(out[1], {0.03258799, -0.02223591, -0.02191344, -0.03111701});
  expect_near(out[2], {0.0790423, -0.06716921, -0.117005, -0.1663399});
  out = run(1);
  expect_near(out[1], {0.008230514, -0.07255167, -0.04650026, -0.0557204});
  expect_near(out[2], {0.01995342, -0.2260233, -0.2492844, -0.2993919});
}

TEST(Gru, ResetBeforeAndAfterTheProduct) {
  const Tensor w = pattern({2, 6, 2}, 7, 1);
  const Tensor r = pattern({2, 6, 2}, 5, 3);
  const Tensor b = pattern({2, 12}, 11, 2);
  auto out = run_all(
      "y, yh = GRU<hidden_size=2, direction=\"bidirectional\", linear_before_reset=1>(x, w, r, b, l, h)",
      {&kX, &w, &r, &b, nullptr, &kInitialH});
  expect_near(out[0], {-0.07800066, 0.1039017,  -0.0709102, -0.5769598, -0.09439311, 0.3676841,
                       0.06160671,  0.2517068,  -0.513001,  0.2247052,  0.2466439,   -0.5277601,
                       -0.2715702,  0.02912672, -0.3109234, 0.1143619,  -0.1540975,  -0.3868956,
                       -0.37281,    -0.2036246, 0.7420876,  0.5025299,  -0.669344,   -0.4727906});
  expect_near(out[1],
              {-0.1540975, -0.3868956, -0.37281, -0.2036246, -0.09439311, 0.3676841, 0.06160671, 0.2517068});
  const Tensor w1 = first_half(w, {1, 6, 2});
  const Tensor r1 = first_half(r, {1, 6, 2});
  const Tensor b1 = first_half(b, {1, 12});
  const Tensor h1 = first_half(kInitialH, {1, 2, 2});
  out = run_all("y, yh = GRU<hidden_size=2>(x, w, r, b, l, h)", {&kX, &w1, &r1, &b1, nullptr, &h1});
  expect_near(out[1], {0.007198208, -0.372577, -0.1363723, -0.2029695});
}

TEST(Rnn, Activations) {
  // One step from a state of zeros: Y = f(X).
  const Tensor x = floats({1, 4, 1}, {-1.5, -0.25, 0.5, 2});
  const Tensor w = floats({1, 1, 1}, {1});
  const std::vector<std::pair<const char*, std::vector<float>>> expected = {
      {"Relu", {0, 0, 0.5, 2}},
      {"Affine", {-1.5, -0.25, 0.5, 2}},
      {"LeakyRelu", {-0.015, -0.0025, 0.5, 2}},
      {"ThresholdedRelu", {0, 0, 0, 2}},
      {"ScaledTanh", {-0.9051483, -0.2449187, 0.4621172, 0.9640276}},
      {"HardSigmoid", {0.2, 0.45, 0.6, 0.9}},
      {"Elu", {-0.7768698, -0.2211992, 0.5, 2}},
      {"Softsign", {-0.6, -0.2, 0.3333333, 0.6666667}},
      {"Softplus", {0.2014133, 0.5759394, 0.974077, 2.126928}},
      {"Sigmoid", {0.1824255, 0.4378235, 0.6224594, 0.8807971}},
      {"Tanh", {-0.9051483, -0.2449187, 0.4621172, 0.9640276}},
  };
  for (const auto& [name, values] : expected) {
    SCOPED_TRACE(name);
    const std::string node = fmt::format("y = RNN<hidden_size=1, activations=[\"{}\"]>(x, w, r)", name);
    expect_near(run_one(node, {x, w, w}), values);
  }
  EXPECT_THAT(
      [&] {
        run_one("y = RNN<hidden_size=1, activations=[\"Sine\"]>(x, w, r)", {x, w, w});
      },
      ThrowsMessage<isa::UserError>(HasSubstr("'Sine'")));
}

TEST(Rnn, ReverseIsForwardOfTheReversedSequence) {
  const Tensor w = pattern({1, 2, 2}, 7, 1);
  const Tensor r = pattern({1, 2, 2}, 5, 3);
  const Tensor reversed =
      run_one("y = ReverseSequence<time_axis=0, batch_axis=1>(x, l)", {kX, ints({2}, {3, 3})});
  const Tensor forward = run_one("y = RNN<hidden_size=2>(x, w, r)", {reversed, w, r});
  const Tensor backward = run_one("y = RNN<hidden_size=2, direction=\"reverse\">(x, w, r)", {kX, w, r});
  EXPECT_EQ(run_one("y = ReverseSequence<time_axis=0, batch_axis=1>(x, l)",
                    {forward.reshaped({3, 2, 2}), ints({2}, {3, 3})}),
            backward.reshaped({3, 2, 2}));
}

TEST(Rnn, LayoutOneHasTheBatchFirst) {
  const Tensor w = pattern({2, 2, 2}, 7, 1);
  const Tensor r = pattern({2, 2, 2}, 5, 3);
  const Tensor x = run_one("y = Transpose<perm=[1,0,2]>(x)", {kX});
  const Tensor h = run_one("y = Transpose<perm=[1,0,2]>(x)", {kInitialH});
  const auto steps = run_all("y, yh = RNN<hidden_size=2, direction=\"bidirectional\">(x, w, r, b, l, h)",
                             {&kX, &w, &r, nullptr, nullptr, &kInitialH});
  const auto batch =
      run_all("y, yh = RNN<hidden_size=2, direction=\"bidirectional\", layout=1>(x, w, r, b, l, h)",
              {&x, &w, &r, nullptr, nullptr, &h});
  EXPECT_EQ(run_one("y = Transpose<perm=[2,0,1,3]>(x)", {steps[0]}), batch[0]);
  EXPECT_EQ(run_one("y = Transpose<perm=[1,0,2]>(x)", {steps[1]}), batch[1]);
}

TEST(Rnn, HalfAndDouble) {
  const Tensor w = pattern({1, 2, 2}, 7, 1);
  const Tensor r = pattern({1, 2, 2}, 5, 3);
  const Tensor y = run_one("y = RNN<hidden_size=2>(x, w, r)", {kX, w, r});
  std::vector<float> expected(y.data<float>().begin(), y.data<float>().end());
  const auto check = [&](int type, double tolerance) {
    const auto cast = [&](const Tensor& x) { return run_one(fmt::format("y = Cast<to={}>(x)", type), {x}); };
    expect_near(run_one("y = RNN<hidden_size=2>(x, w, r)", {cast(kX), cast(w), cast(r)}), expected,
                tolerance);
  };
  check(DataType::kFloat64, 1e-6);
  check(DataType::kFloat16, 1e-3);
}

TEST(Rnn, WrongShapes) {
  const Tensor w = pattern({1, 2, 2}, 7, 1);
  const auto run = [](const char* node, const std::vector<Tensor>& inputs) {
    return [=] { run_one(node, inputs); };
  };
  EXPECT_THAT(run("y = RNN<hidden_size=3>(x, w, r)", {kX, w, w}),
              ThrowsMessage<isa::UserError>(HasSubstr("[1, 3, 2]")));
  EXPECT_THAT(run("y = RNN<hidden_size=2>(x, w, r)", {pattern({3, 2}, 1, 1), w, w}),
              ThrowsMessage<isa::UserError>(HasSubstr("rank 3")));
  EXPECT_THAT(
      run("y = RNN<hidden_size=2>(x, w, r, b, l)", {kX, w, w, pattern({1, 4}, 1, 1), int32s({2}, {4, 1})}),
      ThrowsMessage<isa::UserError>(HasSubstr("sequence_lens holds 4")));
}

}  // namespace
}  // namespace kodama::compiler
