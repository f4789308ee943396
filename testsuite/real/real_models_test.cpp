/// Trained networks and real data from ../shared/data on the simulated chip. Skipped, with a line, where the
/// folder is absent.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "compiler/compile/plan_slices.h"
#include "compiler/graph/import.h"
#include "compiler/proto/tensor_file.h"
#include "compiler/reference/executor.h"
#include "compiler/report/report.h"
#include "compiler/runtime/comparison.h"
#include "compiler/runtime/runner.h"
#include "compiler/tensor/largest.h"
#include "isa/file.h"

namespace kodama::compiler {
namespace {

namespace fs = std::filesystem;

const fs::path kData = isa::source_path("../shared/data");

#define REQUIRE_DATA(name)                                                    \
  if (!fs::exists(kData / (name))) {                                          \
    GTEST_SKIP() << "skipped: " << (kData / (name)).string() << " is absent"; \
  }

struct Prepared {
  onnx::ModelProto imported;
  CompiledModel model;
};

Prepared prepare(const fs::path& file, MatrixPrecision precision, const ImportOptions& import = {}) {
  Prepared prepared;
  prepared.imported = import_model(file.string(), import);
  CompileOptions options;
  options.precision = precision;
  prepared.model = compile_model(prepared.imported, isa::find_chip("mncore2"), options);
  return prepared;
}

int64_t chip_stages(const CompiledModel& model) {
  return std::count_if(model.stages.begin(), model.stages.end(),
                       [](const Stage& stage) { return stage.on_chip(); });
}

/// Contents of a gz file in the IDX format: header of `header` bytes, then data.
std::vector<uint8_t> read_idx(const fs::path& path, size_t header, size_t count) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw isa::UserError(path.string() + ": can't be opened");
  std::vector<uint8_t> bytes(header + count);
  const int found = gzread(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
  if (found != static_cast<int>(bytes.size())) throw isa::UserError(path.string() + ": is truncated");
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(header));
  return bytes;
}

/// Runs the model on random inputs and compares its outputs with the reference.
void run_and_compare(const fs::path& file, MatrixPrecision precision) {
  const Prepared prepared = prepare(file, precision);
  ASSERT_GT(chip_stages(prepared.model), 0);
  TensorMap inputs;
  for (TensorId id : prepared.model.inputs) {
    const LayerTensor& info = prepared.model.tensors[static_cast<size_t>(id)];
    inputs[info.name] = random_input(info.name, info.type, info.shape, 3);
  }
  const RunOutcome outcome = ModelRunner(prepared.model).run(inputs);
  const TensorMap expected = run_graph(prepared.imported, inputs);
  for (const auto& [name, tensor] : outcome.outputs) {
    const Comparison comparison = compare_tensors(tensor, expected.at(name));
    fmt::print("{} {}: {} steps, {} cycles, error over magnitude {:.1e}\n", file.filename().string(),
               matrix_precision_name(precision), outcome.total.chip.steps, outcome.total.chip.cycles(),
               comparison.max_relative);
    EXPECT_TRUE(within(comparison, default_tolerance(precision)))
        << name << ": " << comparison.max_relative << comparison.problem;
  }
}

class RealModel : public testing::TestWithParam<std::tuple<const char*, MatrixPrecision>> {};

TEST_P(RealModel, AgreesWithReference) {
  const auto& [name, precision] = GetParam();
  REQUIRE_DATA(name);
  run_and_compare(kData / name, precision);
}

INSTANTIATE_TEST_SUITE_P(
    Models, RealModel,
    testing::Combine(testing::Values("onnx_mlir_mnist/mnist.onnx", "models/mlp.onnx", "models/lenet.onnx"),
                     testing::Values(MatrixPrecision::kGFloat, MatrixPrecision::kFloat)));

/// No layout is changed by the host, and the planner that minimizes is never worse than the others: in all,
/// and in the relayouts alone.
void check_plans(const fs::path& file) {
  const isa::Chip chip = isa::find_chip("mncore2");
  const SlicedPlan planned = plan_model(import_model(file.string(), {}), chip, {});
  ModelPlanner& planner = *planned.planner;
  const ModelPlan& best = planned.plan;
  for (const PlannedStage& stage : best.stages) EXPECT_NE(stage.kind, PlannedStage::Kind::kHostRearrange);
  for (const char* other : {"greedy", "first", "host"}) {
    const PlanSummary summary = planner.plan(other).summary;
    fmt::print("{}: {} {} cycles, {} of them in {} relayouts; pbqp {}, {} in {}\n", file.filename().string(),
               other, summary.total(), summary.relayout_cycles, summary.relayouts, best.summary.total(),
               best.summary.relayout_cycles, best.summary.relayouts);
    EXPECT_LE(best.summary.total(), summary.total());
    if (summary.planner == "host") continue;
    EXPECT_LE(best.summary.relayout_cycles, summary.relayout_cycles);
  }
  EXPECT_TRUE(best.summary.proven);
}

class Plans : public testing::TestWithParam<const char*> {};

TEST_P(Plans, TheBestIsNeverWorse) {
  REQUIRE_DATA(GetParam());
  check_plans(kData / GetParam());
}

INSTANTIATE_TEST_SUITE_P(Small, Plans,
                         testing::Values("mnist8/model.onnx", "trained/lenet_mnist_trained.onnx",
                                         "onnx_mlir_mnist/mnist.onnx", "models/mlp.onnx",
                                         "models/lenet.onnx"));
INSTANTIATE_TEST_SUITE_P(Large, Plans,
                         testing::Values("trained/gcn_cora_trained.onnx", "models/squeezenet1_1.onnx",
                                         "models/resnet18.onnx"));

class LargeModel : public testing::TestWithParam<const char*> {};

TEST_P(LargeModel, AgreesWithReference) {
  REQUIRE_DATA(GetParam());
  run_and_compare(kData / GetParam(), MatrixPrecision::kGFloat);
}

INSTANTIATE_TEST_SUITE_P(Models, LargeModel,
                         testing::Values("models/squeezenet1_1.onnx", "models/resnet18.onnx"));

/// Classes of the first 256 MNIST test images in batches of 32: chip against reference.
int lenet_agreements(MatrixPrecision precision) {
  constexpr int64_t kImages = 256;
  constexpr int64_t kBatch = 32;
  constexpr size_t kPixels = 28 * 28;
  const std::vector<uint8_t> pixels =
      read_idx(kData / "mnist_t10k/t10k-images-idx3-ubyte.gz", 16, kImages * kPixels);
  const std::vector<uint8_t> labels = read_idx(kData / "mnist_t10k/t10k-labels-idx1-ubyte.gz", 8, kImages);
  const Prepared prepared =
      prepare(kData / "trained/lenet_mnist_trained.onnx", precision, {{{"x:0", kBatch}}});
  ModelRunner runner(prepared.model);
  int agreements = 0;
  int correct = 0;
  RunOutcome outcome;
  for (int64_t first = 0; first < kImages; first += kBatch) {
    Tensor x(DataType::kFloat32, {kBatch, 1, 28, 28});
    for (size_t k = 0; k < kBatch * kPixels; ++k) {
      x.data<float>()[k] = static_cast<float>(pixels[static_cast<size_t>(first) * kPixels + k]) / 255.0f;
    }
    const TensorMap inputs = {{"x", x}};
    outcome = runner.run(inputs);
    const std::vector<int64_t> found = largest_per_row(outcome.outputs.at("y"));
    const std::vector<int64_t> expected = largest_per_row(run_graph(prepared.imported, inputs).at("y"));
    for (size_t k = 0; k < found.size(); ++k) {
      agreements += found[k] == expected[k];
      correct += found[k] == labels[static_cast<size_t>(first) + k];
    }
  }
  fmt::print("lenet {}: {} of {} as the reference, {} right; {} steps and {} cycles per batch of {}\n",
             matrix_precision_name(precision), agreements, kImages, correct, outcome.total.chip.steps,
             outcome.total.chip.cycles(), kBatch);
  return agreements;
}

TEST(Lenet, TestImagesGFloat) {
  REQUIRE_DATA("mnist_t10k");
  EXPECT_GE(lenet_agreements(MatrixPrecision::kGFloat), 255);
}
TEST(Lenet, TestImagesFloat) {
  REQUIRE_DATA("mnist_t10k");
  EXPECT_EQ(lenet_agreements(MatrixPrecision::kFloat), 256);
}

/// Features (rows sum to 1) and adjacency with self loops, D^-1/2 (A + I) D^-1/2, as Kipf and Welling's GCN
/// has them.
TensorMap cora_inputs(const fs::path& file) {
  const auto read = [&](const char* member) { return read_tensor_file(file.string(), member); };
  const Tensor shape = read("shape");
  const int64_t nodes = shape.data<int32_t>()[0];
  const int64_t features = shape.data<int32_t>()[1];
  Tensor x(DataType::kFloat32, {nodes, features});
  const Tensor rows = read("feat_row");
  const Tensor columns = read("feat_col");
  std::vector<float> counts(static_cast<size_t>(nodes), 0);
  for (int32_t row : rows.data<int32_t>()) counts[static_cast<size_t>(row)] += 1;
  for (int64_t k = 0; k < rows.size(); ++k) {
    const auto row = static_cast<size_t>(rows.data<int32_t>()[static_cast<size_t>(k)]);
    x.data<float>()[row * static_cast<size_t>(features) +
                    static_cast<size_t>(columns.data<int32_t>()[static_cast<size_t>(k)])] = 1 / counts[row];
  }
  Tensor adjacency(DataType::kFloat32, {nodes, nodes});
  auto a = adjacency.data<float>();
  const auto at = [&](int64_t i, int64_t j) -> float& { return a[static_cast<size_t>(i * nodes + j)]; };
  for (int64_t i = 0; i < nodes; ++i) at(i, i) = 1;
  const Tensor edges = read("edges");
  for (int64_t k = 0; k < edges.shape()[0]; ++k) {
    const int32_t i = edges.data<int32_t>()[static_cast<size_t>(2 * k)];
    const int32_t j = edges.data<int32_t>()[static_cast<size_t>(2 * k + 1)];
    at(i, j) = at(j, i) = 1;
  }
  std::vector<float> scale(static_cast<size_t>(nodes));
  for (int64_t i = 0; i < nodes; ++i) {
    float degree = 0;
    for (int64_t j = 0; j < nodes; ++j) degree += at(i, j);
    scale[static_cast<size_t>(i)] = 1 / std::sqrt(degree);
  }
  for (int64_t i = 0; i < nodes; ++i) {
    for (int64_t j = 0; j < nodes; ++j)
      at(i, j) *= scale[static_cast<size_t>(i)] * scale[static_cast<size_t>(j)];
  }
  return {{"x", x}, {"adj", adjacency}};
}

struct CoraLabels {
  std::vector<int64_t> classes;
  std::vector<int64_t> test_nodes;
};
CoraLabels cora_labels(const fs::path& file) {
  CoraLabels labels;
  const Tensor classes = read_tensor_file(file.string(), "label");
  const Tensor test = read_tensor_file(file.string(), "test_idx");
  for (uint8_t label : classes.data<uint8_t>()) labels.classes.push_back(label);
  for (int32_t node : test.data<int32_t>()) labels.test_nodes.push_back(node);
  return labels;
}

/// Accuracy on Cora's 1000 test nodes, two matrix products with a 2708 x 2708 matrix among the layers.
TEST(LargeGcn, CoraAccuracy) {
  REQUIRE_DATA("cora");
  const Prepared prepared = prepare(kData / "trained/gcn_cora_trained.onnx", MatrixPrecision::kGFloat);
  const TensorMap inputs = cora_inputs(kData / "cora/cora.npz");
  const RunOutcome outcome = ModelRunner(prepared.model).run(inputs);
  const Tensor& y = outcome.outputs.at("y");
  const Comparison comparison = compare_tensors(y, run_graph(prepared.imported, inputs).at("y"));
  const std::vector<int64_t> found = largest_per_row(y);
  const CoraLabels labels = cora_labels(kData / "cora/cora.npz");
  int64_t correct = 0;
  for (int64_t node : labels.test_nodes)
    correct += found[static_cast<size_t>(node)] == labels.classes[static_cast<size_t>(node)];
  const double accuracy = static_cast<double>(correct) / static_cast<double>(labels.test_nodes.size());
  fmt::print("gcn cora: {:.1f} % of {} test nodes, {} steps, {} cycles, error over magnitude {:.1e}\n",
             accuracy * 100, labels.test_nodes.size(), outcome.total.chip.steps, outcome.total.chip.cycles(),
             comparison.max_relative);
  EXPECT_GE(accuracy, 0.82);
  EXPECT_TRUE(within(comparison, default_tolerance(MatrixPrecision::kGFloat))) << comparison.max_relative;
}

}  // namespace
}  // namespace kodama::compiler
