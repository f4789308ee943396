// Real models, where the shared data folder is there.
#include <gtest/gtest.h>

#include <filesystem>

#include "compiler/graph/graph_view.h"
#include "compiler/graph/import.h"
#include "compiler/graph/passes.h"
#include "compiler/graph/test_models.h"
#include "compiler/proto/tensor_file.h"
#include "isa/file.h"

namespace kodama::compiler {
namespace {

namespace fs = std::filesystem;

fs::path data_folder() {
  return isa::source_path("../shared/data");
}

struct SharedModel {
  const char* path;
  std::map<std::string, int64_t> dims = {};
  /// Compare with the reference before import and after all passes (the larger ones only pass through).
  bool run = true;
};

class SharedModels : public ::testing::TestWithParam<SharedModel> {};

TEST_P(SharedModels, ImportAndPassThroughAllPasses) {
  const fs::path path = data_folder() / GetParam().path;
  if (!fs::exists(path)) GTEST_SKIP() << path << " isn't there";
  const onnx::ModelProto original = read_model(path);
  onnx::ModelProto model = import_model(path, {GetParam().dims});
  run_graph_passes(model);
  const GraphView view(model);
  EXPECT_EQ(find_untyped_value(model.graph()), std::nullopt);
  for (const char* gone : {"Constant", "Identity", "Shape", "BatchNormalization"}) {
    EXPECT_EQ(testing::count_nodes(model, gone), 0) << gone;
  }
  if (!GetParam().run) return;
  const TensorMap inputs = testing::random_inputs(model);
  TensorMap expected;
  try {
    expected = run_graph(original, inputs);
  } catch (const isa::UnsupportedError& error) {
    GTEST_SKIP() << "imported, but not compared: " << error.what();
  }
  testing::expect_close(run_graph(model, inputs), expected, 1e-4);
}

TEST_P(SharedModels, RecordedOutputs) {
  const fs::path path = data_folder() / GetParam().path;
  if (!fs::exists(path.parent_path() / "test_data_set_0")) GTEST_SKIP() << "no recorded outputs for " << path;
  onnx::ModelProto model = import_model(path, {GetParam().dims});
  run_graph_passes(model);
  for (int set = 0;; ++set) {
    const fs::path folder = path.parent_path() / fmt::format("test_data_set_{}", set);
    if (!fs::exists(folder)) break;
    const TensorMap inputs{{model.graph().input(0).name(), read_tensor_file(folder / "input_0.pb")}};
    const TensorMap expected{{model.graph().output(0).name(), read_tensor_file(folder / "output_0.pb")}};
    testing::expect_close(run_graph(model, inputs), expected, 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Data, SharedModels,
    ::testing::Values(SharedModel{"mnist8/model.onnx"}, SharedModel{"onnx_mlir_mnist/mnist.onnx"},
                      SharedModel{"super_resolution_10/model.onnx", {{"batch_size", 1}}},
                      SharedModel{"trained/lenet_mnist_trained.onnx"},
                      SharedModel{"trained/gcn_cora_trained.onnx", {}, false}, SharedModel{"models/mlp.onnx"},
                      SharedModel{"models/mlp_dynbatch.onnx", {{"N", 3}}}, SharedModel{"models/lenet.onnx"},
                      SharedModel{"models/gcn_dense.onnx"}, SharedModel{"models/gpt2_tiny.onnx"},
                      SharedModel{"models/gru_bi2.onnx"}, SharedModel{"models/lstm.onnx"},
                      SharedModel{"models/mobilenet_v3_small.onnx"}, SharedModel{"models/resnet18.onnx"},
                      SharedModel{"models/squeezenet1_1.onnx"},
                      SharedModel{"models/transformer_encoder.onnx"}, SharedModel{"models/unet_tiny.onnx"},
                      SharedModel{"models/vit_tiny.onnx"}),
    [](const auto& info) {
      std::string name = fs::path(info.param.path).stem().string();
      if (name == "model") name = fs::path(info.param.path).parent_path().string();
      return name;
    });

}  // namespace
}  // namespace kodama::compiler
