#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "builder/functions.h"
#include "builder/operator_call_test.h"
#include "compiler/graph/import.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/proto/tensor_proto.h"
#include "compiler/reference/executor.h"
#include "isa/file.h"

/// Networks written with the builder, beside models of the same that others have written: tools/zoo.py and
/// PyTorch's exporter.
namespace kodama::builder::testing {
namespace {

namespace fs = std::filesystem;

/// Models that twins_test.py writes, once for all tests.
class Twins : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = fs::temp_directory_path() / fmt::format("kodama_twins_{}", getpid());
    fs::create_directories(folder_);
    const std::string command =
        fmt::format("/usr/bin/python3 {} {} {} > {}/log 2>&1", isa::source_path("builder/twins_test.py"),
                    isa::source_path("tools"), folder_.string(), folder_.string());
    written_ = std::system(command.c_str()) == 0;
  }
  static void TearDownTestSuite() { fs::remove_all(folder_); }

  static std::string path_of(const std::string& name) {
    if (fs::path(name).is_absolute()) return name;
    EXPECT_TRUE(written_ || fs::exists(folder_ / name)) << isa::read_file((folder_ / "log").string());
    return (folder_ / name).string();
  }

 private:
  static inline fs::path folder_;
  static inline bool written_ = false;
};

/// A program that builds the twin, with the twin's weights.
class Program {
 public:
  explicit Program(const onnx::ModelProto& twin) : graph_("twin") {
    for (const auto& tensor : twin.graph().initializer()) {
      weights_[tensor.name()] = compiler::tensor_from_proto(tensor, tensor.name());
      // PyTorch's exporter names transposed weights by numbers.
      if (tensor.name().starts_with("onnx::")) numbered_.push_back(tensor.name());
    }
    const auto& input = twin.graph().input(0);
    x_ = graph_.input(input.name(), input.type());
  }

  onnx::ModelProto lenet() {
    const auto conv = [&](const Value& x, const std::string& name, int64_t padding) {
      return F::conv2d(x, weight(name + ".weight"), weight(name + ".bias"), {.padding = padding});
    };
    const auto linear = [&](const Value& x, const std::string& name) {
      return F::linear(x, weight(name + ".weight"), weight(name + ".bias"));
    };
    Value x = F::max_pool2d(F::relu(conv(x_, "c1", 2)), 2);
    x = F::max_pool2d(F::relu(conv(x, "c2", 0)), 2);
    x = F::relu(linear(F::flatten(x), "f1"));
    x = F::softmax(linear(F::relu(linear(x, "f2")), "f3"));
    graph_.output(x, "y");
    return graph_.model();
  }

  /// With normalization first, as zoo.py has it.
  onnx::ModelProto zoo_encoder(int64_t layers, int64_t heads) {
    Value x = x_;
    for (int64_t layer = 0; layer < layers; ++layer) {
      const std::string name = fmt::format("layers.{}", layer);
      const Scope scope(graph_, name);
      {
        const Scope attention(graph_, "self_attn");
        scope_ = name + ".self_attn.";
        x = x + zoo_attention(norm(x, "norm"), heads);
      }
      scope_ = name + ".";
      const Value inner = F::gelu(dense(norm(x, "norm2"), "linear1"));
      x = x + dense(inner, "linear2");
    }
    graph_.output(x, "y");
    return graph_.model();
  }

  /// torch.nn.TransformerEncoder: normalization last, the batch in the middle, parts by computed places.
  /// The exporter leaves out a transposition where the batch is in the middle already.
  onnx::ModelProto torch_encoder(int64_t layers, int64_t heads, bool batch_first) {
    Value x = x_;
    for (int64_t layer = 0; layer < layers; ++layer) {
      const std::string prefix = layers > 1 ? fmt::format("layers.{}.", layer) : "";
      const auto named = [&](const std::string& of) { return weight(prefix + of); };
      // Of layers that are copies of one another's vectors the exporter keeps one: those of a single layer.
      const bool shares = !weights_.contains(prefix + "norm1.bias");
      const auto norm_of = [&](const Value& of, const std::string& norm) {
        const Value scale = named(shares ? "norm1.weight" : norm + ".weight");
        const Value bias = named(shares ? "self_attn.out_proj.bias" : norm + ".bias");
        if (!shares) return F::layer_norm(of, scale, bias);
        return F::layer_norm(of, norm == "norm1" ? scale : norm2_scale_,
                             norm == "norm1" ? norm1_bias_ : norm2_bias_);
      };
      if (shares) {
        norm2_bias_ = op::Identity(named("self_attn.out_proj.bias"));
        norm2_scale_ = op::Identity(named("norm1.weight"));
        norm1_bias_ = op::Identity(named("self_attn.out_proj.bias"));
      }
      Value tokens = batch_first ? F::permute(x, {1, 0, 2}) : x;
      tokens = torch_attention(tokens, prefix + "self_attn.", heads);
      if (batch_first) tokens = F::permute(tokens, {1, 0, 2});
      x = norm_of(x + tokens, "norm1");
      Value inner = named("linear1.bias") + F::matmul(x, numbered());
      inner = named("linear2.bias") + F::matmul(F::relu(inner), numbered());
      x = norm_of(x + inner, "norm2");
    }
    graph_.output(x, "y");
    return graph_.model();
  }

 private:
  Value weight(const std::string& name) {
    Value& value = values_[name];
    if (!value.has_value()) value = graph_.parameter(name, weights_.at(name));
    return value;
  }
  Value numbered() { return weight(numbered_.at(next_numbered_++)); }

  Value dense(const Value& x, const std::string& name) {
    return F::matmul(x, scoped(name + ".weight")) + scoped(name + ".bias");
  }
  Value norm(const Value& x, const std::string& name) {
    return F::layer_norm(x, scoped(name + ".weight"), scoped(name + ".bias"));
  }
  /// A weight whose name begins with the open scopes, which the graph adds itself.
  Value scoped(const std::string& name) { return graph_.parameter(name, weights_.at(scope_ + name)); }

  Value zoo_attention(const Value& x, int64_t heads) {
    const int64_t width = x.extent(-1);
    const int64_t inner = width / heads;
    std::vector<Value> parts = F::split(dense(x, "in_proj"), {width, width, width}, -1);
    for (Value& part : parts) part = F::reshape(part, {x.extent(0), x.extent(1), heads, inner});
    const Value query = F::permute(parts[0], {0, 2, 1, 3}) * (1 / std::sqrt(static_cast<double>(inner)));
    const Value weights = F::softmax(F::matmul(query, F::permute(parts[1], {0, 2, 3, 1})));
    const Value mixed = F::matmul(weights, F::permute(parts[2], {0, 2, 1, 3}));
    return dense(F::reshape(F::permute(mixed, {0, 2, 1, 3}), x.shape()), "out_proj");
  }

  /// What the exporter makes of a part: it computes where it begins and ends.
  Value torch_attention(const Value& x, const std::string& prefix, int64_t heads) {
    const int64_t length = x.extent(0), batch = x.extent(1), width = x.extent(2);
    const auto shaped = [&](const Value& of, const std::vector<int64_t>& shape) {
      return op::Reshape(of, shape, {.allowzero = 0});
    };
    const Value all = weight(prefix + "in_proj_bias") + F::matmul(x, numbered());
    const Value last = graph_.constant({-1}, kInt64);
    const Value third = op::Div(op::Add(op::Gather(op::Shape(all), last, {.axis = 0}), {2}), {3});
    const Value first_end = op::Mul(third, {1});
    const Value query_part = op::Slice(all, {0}, first_end, last);
    const Value second_end = op::Mul(third, {2});
    const Value key_part = op::Slice(all, first_end, second_end, last);
    const Value value_part = op::Slice(all, second_end, op::Mul(third, {3}), last);
    const std::vector<int64_t> by_head = {length, batch * heads, width / heads};
    Value query = F::permute(shaped(query_part, by_head), {1, 0, 2});
    const Value key = shaped(key_part, by_head);
    const Value value = F::permute(shaped(value_part, by_head), {1, 0, 2});
    query = query / std::sqrt(static_cast<double>(width / heads));
    const Value weights = F::softmax(F::matmul(query, F::permute(key, {1, 2, 0})));
    const Value mixed = F::permute(F::matmul(weights, value), {1, 0, 2});
    const Value projected = F::linear(shaped(mixed, {length * batch, width}),
                                      weight(prefix + "out_proj.weight"), weight(prefix + "out_proj.bias"));
    return shaped(projected, {length, batch, width});
  }

  Graph graph_;
  Value x_;
  std::string scope_;
  Value norm1_bias_, norm2_bias_, norm2_scale_;
  std::map<std::string, Tensor> weights_;
  std::map<std::string, Value> values_;
  std::vector<std::string> numbered_;
  size_t next_numbered_ = 0;
};

void expect_twins(const onnx::ModelProto& twin, const onnx::ModelProto& built) {
  EXPECT_EQ(difference(twin, built), "");
  EXPECT_EQ(compiler::type_to_string(twin.graph().output(0).type()),
            compiler::type_to_string(built.graph().output(0).type()));
  EXPECT_EQ(compiler::check_onnx(built), "");
  // Parameters are all of the twin's weights.
  EXPECT_GE(built.graph().initializer_size(), 5);
  const onnx::ModelProto expected = compiler::import_model(twin, {}, "twin");
  const onnx::ModelProto actual = compiler::import_model(built, {}, "built");
  const Shape shape = *compiler::static_shape(expected.graph().input(0).type());
  for (const uint64_t seed : {1, 2, 3}) {
    const compiler::TensorMap inputs = {{"x", Initial::normal(1).draw(kFloat32, shape, seed, "x")}};
    const auto outputs = compiler::run_graph(expected, inputs);
    EXPECT_GT(std::abs(compiler::element_as_double(outputs.at("y"), 0)), 0);
    EXPECT_EQ(outputs, compiler::run_graph(actual, inputs)) << "not the same bits";
  }
}

TEST_F(Twins, LeNetOfTheZoo) {
  const onnx::ModelProto twin = compiler::read_model(path_of("lenet.onnx"));
  expect_twins(twin, Program(twin).lenet());
}

TEST_F(Twins, LeNetOfPyTorch) {
  if (!fs::exists(path_of("torch_lenet.onnx"))) GTEST_SKIP() << "PyTorch (python3-torch) isn't installed";
  const onnx::ModelProto twin = compiler::read_model(path_of("torch_lenet.onnx"));
  expect_twins(twin, Program(twin).lenet());
}

TEST_F(Twins, LeNetBesideTheProject) {
  const std::string path = isa::source_path("../shared/data/models/lenet.onnx");
  if (!fs::exists(path)) GTEST_SKIP() << path << " isn't there";
  const onnx::ModelProto twin = compiler::read_model(path);
  expect_twins(twin, Program(twin).lenet());
}

TEST_F(Twins, TransformerOfTwoLayersOfTheZoo) {
  const onnx::ModelProto twin = compiler::read_model(path_of("encoder2.onnx"));
  expect_twins(twin, Program(twin).zoo_encoder(2, 4));
}

TEST_F(Twins, TransformerOfTwoLayersOfPyTorch) {
  if (!fs::exists(path_of("torch_encoder2.onnx"))) GTEST_SKIP() << "PyTorch (python3-torch) isn't installed";
  const onnx::ModelProto twin = compiler::read_model(path_of("torch_encoder2.onnx"));
  expect_twins(twin, Program(twin).torch_encoder(2, 4, false));
}

TEST_F(Twins, TransformerBesideTheProject) {
  const std::string path = isa::source_path("../shared/data/models/transformer_encoder.onnx");
  if (!fs::exists(path)) GTEST_SKIP() << path << " isn't there";
  const onnx::ModelProto twin = compiler::read_model(path);
  expect_twins(twin, Program(twin).torch_encoder(1, 4, true));
}

}  // namespace
}  // namespace kodama::builder::testing
