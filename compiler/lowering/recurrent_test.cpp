#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/lowering/lowering.h"
#include "compiler/lowering/lowering_test_util.h"
#include "compiler/proto/tensor_proto.h"

namespace kodama::compiler {
namespace {

using namespace testing;  // NOLINT

double sigmoid_of(double x) {
  return 1 / (1 + std::exp(-x));
}

/// An operator of two directions over 3 steps, 2 samples, of which the second is 2 long, from given states.
struct Recurrent {
  static constexpr int64_t kSteps = 3, kBatch = 2, kWidth = 3, kHidden = 2;
  explicit Recurrent(const std::string& op, int64_t gate_count, const std::string& attributes)
      : gates(gate_count) {
    model = parse_model(fmt::format(
        "g (float[3,2,3] x, float[2,2,2] h, float[2,2,2] c) => (float[3,2,2,2] y, float[2,2,2] y_h{}) {{ "
        "y, y_h{} = {} <hidden_size = 2, direction = \"bidirectional\"{}> (x, w, r, b, lengths, h{}) }}",
        gates == 4 ? ", float[2,2,2] y_c" : "", gates == 4 ? ", y_c" : "", op, attributes,
        gates == 4 ? ", c" : ""));
    add_random(model, "w", {2, gates * kHidden, kWidth});
    add_random(model, "r", {2, gates * kHidden, kHidden});
    add_random(model, "b", {2, 2 * gates * kHidden});
    add_initializer(model, "lengths", Tensor::from_values<int32_t>(DataType::kInt32, {2}, {3, 2}));
    model = import_model(model, {}, "test");
    inputs = random_inputs(model);
    for (const auto& tensor : model.graph().initializer())
      constants[tensor.name()] = tensor_from_proto(tensor, tensor.name());
    outputs = interpret_layer_graph(lower_to_layers(model), inputs);
  }
  float weight(const char* name, int64_t d, int64_t row, int64_t column) const {
    const Tensor& tensor = constants.at(name);
    return tensor.data<float>()[(d * tensor.shape()[1] + row) * tensor.shape()[2] + column];
  }
  float bias(int64_t d, int64_t row) const {
    return constants.at("b").data<float>()[d * 2 * gates * kHidden + row];
  }
  double products(const char* name, int64_t d, int64_t row, const std::vector<double>& values) const {
    double sum = 0;
    for (size_t k = 0; k < values.size(); ++k)
      sum += weight(name, d, row, static_cast<int64_t>(k)) * values[k];
    return sum;
  }
  /// Runs `step(direction, x, h, c)` as ONNX says and compares.
  template <typename Step>
  void check(Step&& step) const {
    for (int64_t d = 0; d < 2; ++d) {
      for (int64_t b = 0; b < kBatch; ++b) {
        const int64_t length = b == 0 ? 3 : 2;
        const auto state = [&](const char* name) {
          std::vector<double> values;
          for (int64_t j = 0; j < kHidden; ++j)
            values.push_back(inputs.at(name).data<float>()[(d * kBatch + b) * kHidden + j]);
          return values;
        };
        std::vector<double> h = state("h");
        std::vector<double> c = state("c");
        for (int64_t t = length; t < kSteps; ++t) expect_y(t, d, b, std::vector<double>(kHidden, 0));
        for (int64_t k = 0; k < length; ++k) {
          const int64_t t = d == 0 ? k : length - 1 - k;
          std::vector<double> x;
          for (int64_t i = 0; i < kWidth; ++i)
            x.push_back(inputs.at("x").data<float>()[(t * kBatch + b) * kWidth + i]);
          step(d, x, h, c);
          expect_y(t, d, b, h);
        }
        for (int64_t j = 0; j < kHidden; ++j) {
          const auto at = static_cast<size_t>((d * kBatch + b) * kHidden + j);
          EXPECT_NEAR(outputs.at("y_h").data<float>()[at], h[static_cast<size_t>(j)], 1e-5);
          if (gates != 4) continue;
          EXPECT_NEAR(outputs.at("y_c").data<float>()[at], c[static_cast<size_t>(j)], 1e-5);
        }
      }
    }
  }
  void expect_y(int64_t t, int64_t d, int64_t b, const std::vector<double>& h) const {
    for (int64_t j = 0; j < kHidden; ++j)
      EXPECT_NEAR(outputs.at("y").data<float>()[((t * 2 + d) * kBatch + b) * kHidden + j],
                  h[static_cast<size_t>(j)], 1e-5)
          << fmt::format("time {} direction {} sample {} element {}", t, d, b, j);
  }

  int64_t gates;
  onnx::ModelProto model;
  TensorMap inputs, outputs;
  std::map<std::string, Tensor> constants;
};

TEST(LowerRecurrent, Rnn) {
  const Recurrent test("RNN", 1, ", activations = [\"Relu\", \"Tanh\"]");
  test.check([&](int64_t d, const auto& x, auto& h, auto&) {
    const std::vector<double> before = h;
    for (int64_t j = 0; j < 2; ++j) {
      const double sum = test.products("w", d, j, x) + test.products("r", d, j, before) + test.bias(d, j) +
                         test.bias(d, 2 + j);
      h[static_cast<size_t>(j)] = d == 0 ? std::max(sum, 0.0) : std::tanh(sum);
    }
  });
}

TEST(LowerRecurrent, Gru) {
  for (const bool resets_last : {false, true}) {
    SCOPED_TRACE(resets_last);
    const Recurrent test("GRU", 3, resets_last ? ", linear_before_reset = 1" : "");
    test.check([&](int64_t d, const auto& x, auto& h, auto&) {
      const std::vector<double> before = h;
      const auto input = [&](int64_t row) { return test.products("w", d, row, x) + test.bias(d, row); };
      const auto recurrent = [&](int64_t row, const std::vector<double>& state) {
        return test.products("r", d, row, state) + test.bias(d, 6 + row);
      };
      std::vector<double> r;
      std::vector<double> reset = before;
      for (int64_t j = 0; j < 2; ++j) {
        r.push_back(sigmoid_of(input(2 + j) + recurrent(2 + j, before)));
        reset[static_cast<size_t>(j)] *= r.back();
      }
      for (int64_t j = 0; j < 2; ++j) {
        const auto at = static_cast<size_t>(j);
        const double z = sigmoid_of(input(j) + recurrent(j, before));
        const double part = resets_last ? r[at] * recurrent(4 + j, before) : recurrent(4 + j, reset);
        h[at] = (1 - z) * std::tanh(input(4 + j) + part) + z * before[at];
      }
    });
  }
}

TEST(LowerRecurrent, Lstm) {
  const Recurrent test("LSTM", 4, ", clip = 0.6");
  test.check([&](int64_t d, const auto& x, auto& h, auto& c) {
    const std::vector<double> before = h;
    for (int64_t j = 0; j < 2; ++j) {
      const auto at = static_cast<size_t>(j);
      const auto gate = [&](int64_t number) {
        const int64_t row = number * 2 + j;
        return std::clamp(test.products("w", d, row, x) + test.products("r", d, row, before) +
                              test.bias(d, row) + test.bias(d, 8 + row),
                          -0.6, 0.6);
      };
      c[at] = sigmoid_of(gate(2)) * c[at] + sigmoid_of(gate(0)) * std::tanh(gate(3));
      h[at] = sigmoid_of(gate(1)) * std::tanh(std::clamp(c[at], -0.6, 0.6));
    }
  });
}

}  // namespace
}  // namespace kodama::compiler
