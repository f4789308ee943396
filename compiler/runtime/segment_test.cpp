#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "compiler/compile/compile_model.h"
#include "compiler/graph/import.h"
#include "compiler/graph/test_models.h"
#include "compiler/runtime/comparison.h"
#include "compiler/runtime/runner.h"
#include "isa/file.h"
#include "isa/rounds_test_util.h"

namespace kodama::compiler {
namespace {

/// LW of DRAM up to the highest that images, weights and tables use.
int64_t dram_in_use(const CompiledModel& model) {
  int64_t end = 0;
  for (const auto& preload : model.preloads) {
    for (const auto& group : preload.image.groups)
      end = std::max(end, preload.dram_address + static_cast<int64_t>(group.size()));
  }
  for (const Stage& stage : model.stages) {
    const auto* chip = std::get_if<ChipStage>(&stage.body);
    if (chip == nullptr) continue;
    end = std::max(end, chip->result.dram_address + stream_group_lw(chip->result.placement));
  }
  return end;
}

TensorMap inputs_of(const CompiledModel& model) {
  TensorMap inputs;
  for (const TensorId id : model.inputs) {
    const LayerTensor& info = model.tensors[static_cast<size_t>(id)];
    inputs[info.name] = random_input(info.name, info.type, model.whole_shape(id), 5);
  }
  return inputs;
}
TensorMap run(const CompiledModel& model) {
  return ModelRunner(model, {}).run(inputs_of(model)).outputs;
}

// What stages that run one after the other have in common: DRAM, and what stays in the PEs.

/// Images of stages that are one program don't share DRAM. Where it is too small for that, they are several.
TEST(Segments, ShareDramWhereTheyMust) {
  isa::Chip chip = isa::find_chip("mncore2");
  const onnx::ModelProto model = import_model(isa::source_path("testsuite/models/mnist8/model.onnx"), {});
  const CompiledModel joined = compile_model(model, chip, {});
  ASSERT_EQ(joined.segments.size(), 1U);
  chip.memory.dram_lw = dram_in_use(joined) - 1;
  const CompiledModel apart = compile_model(model, chip, {});
  EXPECT_GT(apart.segments.size(), 1U);
  EXPECT_LE(dram_in_use(apart), chip.memory.dram_lw);
  const TensorMap expected = run(joined);
  EXPECT_TRUE(run(apart) == expected);  // bit for bit
  chip.memory.dram_lw = dram_in_use(apart) / 4;
  EXPECT_THROW(compile_model(model, chip, {}), isa::UnsupportedError);
}

/// What stays in the PEs is there for every run, whatever was in memories before, and nobody reads it too
/// early.
TEST(Weights, ThatStayMakeTheSameBits) {
  const onnx::ModelProto model = import_model(isa::source_path("testsuite/models/mnist8/model.onnx"), {});
  for (const MatrixPrecision precision : {MatrixPrecision::kGFloat, MatrixPrecision::kHalf}) {
    CompileOptions options;
    options.precision = precision;
    options.planned_weights = Weights::kResident;
    const CompiledModel stream = compile_model(model, isa::find_chip("mncore2"), options);
    EXPECT_TRUE(stream.preparation.statements.empty());
    const TensorMap expected = run(stream);
    options.weights = Weights::kResident;
    const CompiledModel resident = compile_model(model, isa::find_chip("mncore2"), options);
    EXPECT_FALSE(resident.preparation.statements.empty());
    EXPECT_LT(resident.work.dram_bytes, stream.work.dram_bytes);
    EXPECT_EQ(resident.work.products, stream.work.products);
    const TensorMap inputs = inputs_of(resident);
    RunnerOptions run_options;
    run_options.machine.memory = simulator::MachineOptions::Memory::kDirty;
    run_options.hazards = simulator::Hazards::kError;
    ModelRunner runner(resident, run_options);
    std::optional<RunOutcome> first;
    for (int number = 0; number < 3; ++number) {
      const RunOutcome outcome = runner.run(inputs);
      EXPECT_TRUE(outcome.outputs == expected) << "run " << number;
      EXPECT_GT(outcome.preparation.chip.cycles(), 0);
      if (!first) first = outcome;
      EXPECT_EQ(outcome.total.chip.cycles(), first->total.chip.cycles());
      EXPECT_EQ(outcome.first_cycles(), first->first_cycles());
    }
  }
}

/// Of output y, at most: on the chip, whose memory begins dirty and where hazards are errors, and on the
/// reference.
double difference_of(const CompiledModel& compiled, const onnx::ModelProto& model) {
  RunnerOptions options;
  options.machine.memory = simulator::MachineOptions::Memory::kDirty;
  options.hazards = simulator::Hazards::kError;
  const TensorMap inputs = inputs_of(compiled);
  const Tensor found = ModelRunner(compiled, options).run(inputs).outputs.at("y");
  const Tensor expected = run_graph(model, inputs).at("y");
  double difference = 0;
  for (int64_t k = 0; k < expected.size(); ++k)
    difference = std::max<double>(difference, std::abs(found.data<float>()[k] - expected.data<float>()[k]));
  return difference;
}

/// What a block adds to its sums stays where its PEs have made it, in every way that they are divided.
TEST(Results, ThatStayAreAdded) {
  onnx::ModelProto model = testing::parse_model(
      "g (float[2, 64, 14, 14] x) => (float[2, 64, 14, 14] y) {"
      "a0 = Conv <pads = [1, 1, 1, 1]> (x, w0) a = Relu (a0)"
      "b0 = Conv <pads = [1, 1, 1, 1]> (a, w1) b1 = Add (b0, a) b = Relu (b1)"
      "c0 = Conv (b, w2) c = Relu (c0) d0 = Conv <pads = [1, 1, 1, 1]> (c, w3) d1 = Add (d0, b) d = Relu (d1)"
      "e0 = Conv <pads = [1, 1, 1, 1]> (d, w4) e1 = Add (e0, d) y = Sigmoid (e1) }");
  for (const char* name : {"w0", "w1", "w3", "w4"})
    testing::add_random(model, name, {64, 64, 3, 3}, -0.1, 0.1);
  testing::add_random(model, "w2", {64, 64, 1, 1}, -0.2, 0.2);
  model = import_model(std::move(model), {}, "t");
  for (const MatrixPrecision precision :
       {MatrixPrecision::kGFloat, MatrixPrecision::kHalf, MatrixPrecision::kFloat}) {
    for (const Weights weights : {Weights::kStream, Weights::kResident}) {
      // By default, of half and float one each.
      const bool is_usual = (weights == Weights::kStream) == (precision == MatrixPrecision::kHalf);
      if (precision != MatrixPrecision::kGFloat && !is_usual && isa::rounds(true, false)) continue;
      SCOPED_TRACE(matrix_precision_name(precision));
      CompileOptions options;
      options.precision = precision;
      options.weights = weights;
      options.planned_weights = weights;
      int makers = 0, readers = 0;
      options.dump_after = {"tile"};
      options.dump = [&](const std::string&, const std::string&, const std::string&,
                         const std::string& text) {
        makers += text.find("buffer results that stay") != std::string::npos ? 1 : 0;
        readers += text.find("buffer results of") != std::string::npos ? 1 : 0;
      };
      const CompiledModel compiled = compile_model(model, isa::find_chip("mncore2"), options);
      EXPECT_GE(makers, 2);
      EXPECT_EQ(readers, makers);
      EXPECT_LT(difference_of(compiled, model), default_tolerance(precision));
    }
  }
}

/// Normalizations keep their rows, and add others' rows: of one column at a time, and spread.
TEST(Results, OfNormalizations) {
  for (const int64_t rows : {256, 2048}) {
    SCOPED_TRACE(rows);
    onnx::ModelProto model = testing::parse_model(
        fmt::format("g (float[{0}, 64] x) => (float[{0}, 64] y) {{"
                    "a = LayerNormalization (x, g) b = MatMul (a, w) s = Softmax (b) t = Add (s, a)"
                    "y = LayerNormalization (t, g) }}",
                    rows));
    testing::add_random(model, "w", {64, 64}, -0.2, 0.2);
    testing::add_random(model, "g", {64}, 0.5, 1.5);
    model = import_model(std::move(model), {}, "t");
    CompileOptions options;
    bool keeps = false, reads = false;
    options.dump_after = {"tile"};
    options.dump = [&](const std::string&, const std::string&, const std::string&, const std::string& text) {
      const size_t at = text.find("normalize rows");
      if (at == std::string::npos) return;
      keeps = keeps || text.find("kept in results that stay", at) != std::string::npos;
      reads = reads || text.find("results of", at) != std::string::npos;
    };
    const CompiledModel compiled = compile_model(model, isa::find_chip("mncore2"), options);
    EXPECT_TRUE(keeps && reads);
    EXPECT_LT(difference_of(compiled, model),
              4 * default_tolerance(MatrixPrecision::kGFloat));  // of values up to 4
  }
}

/// A table that stays is read where indices say, as one that comes again: T points from its own words.
TEST(Weights, TablesThatStayAreReadByIndices) {
  const onnx::ModelProto model =
      import_model(testing::parse_model(
                       "g (int64[5] i) => (float[5, 6] y) { w = Constant <value = float[4, 6] {"
                       "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23"
                       "}> () y = Gather (w, i) }"),
                   {}, "t");
  CompileOptions options;
  options.weights = Weights::kStream;
  const CompiledModel stream = compile_model(model, isa::find_chip("tiny"), options);
  options.weights = Weights::kResident;
  const CompiledModel resident = compile_model(model, isa::find_chip("tiny"), options);
  EXPECT_TRUE(stream.preparation.statements.empty());
  EXPECT_FALSE(resident.preparation.statements.empty());
  const TensorMap inputs = {{"i", Tensor::from_values<int64_t>(DataType::kInt64, {5}, {3, -4, 1, -1, 2})}};
  RunnerOptions run_options;
  run_options.machine.memory = simulator::MachineOptions::Memory::kDirty;
  run_options.hazards = simulator::Hazards::kError;
  const TensorMap expected = run_graph(model, inputs);
  EXPECT_TRUE(ModelRunner(stream, run_options).run(inputs).outputs == expected);
  ModelRunner runner(resident, run_options);
  for (int number = 0; number < 2; ++number) EXPECT_TRUE(runner.run(inputs).outputs == expected) << number;
}

/// The host computes a layer between two segments: what stays is there for both.
TEST(Weights, StayOverSegments) {
  isa::Chip chip = isa::find_chip("mncore2");
  const onnx::ModelProto model = import_model(isa::source_path("testsuite/models/mnist8/model.onnx"), {});
  CompileOptions options;
  options.weights = Weights::kResident;
  const CompiledModel joined = compile_model(model, chip, options);
  chip.memory.dram_lw = dram_in_use(joined) - 1;
  const CompiledModel apart = compile_model(model, chip, options);
  EXPECT_GT(apart.segments.size(), 1U);
  EXPECT_FALSE(apart.preparation.statements.empty());
  EXPECT_TRUE(run(apart) == run(joined));
}

/// A batch in slices is what it is at once, with constants that stay or come again.
TEST(Slices, MakeWhatTheBatchMakes) {
  onnx::ModelProto source = testing::parse_model(
      "g (float[6,4,8,8] x) => (float[6,16] y) {"
      " a = Conv <pads = [1,1,1,1]> (x, w) b = Relu (a) c = GlobalAveragePool (b) y = Flatten (c) }");
  testing::add_initializer(source, "w", testing::random_tensor(DataType::kFloat32, {16, 4, 3, 3}, 7));
  const onnx::ModelProto model = import_model(source, {}, "test");
  std::set<std::string> values;
  for (const onnx::NodeProto& node : model.graph().node()) values.insert(node.output(0));
  const isa::Chip chip = isa::find_chip("mncore2");
  for (const Weights weights : {Weights::kStream, Weights::kResident}) {
    CompileOptions options;
    options.weights = weights;
    options.store_layers = true;
    const CompiledModel whole = compile_model(model, chip, options);
    EXPECT_EQ(whole.slices, 1);
    const TensorMap inputs = inputs_of(whole);
    std::map<std::string, Shape> shapes;
    RunnerOptions run_options;
    run_options.host_overlaps = false;  // as predict_stages says
    run_options.observe = [&](const std::string& name, const Tensor& tensor) {
      // What passes make themselves is cut as suits a slice, and nobody compares it.
      if (values.contains(name)) {
        EXPECT_TRUE(shapes.try_emplace(name, tensor.shape()).first->second == tensor.shape()) << name;
      }
    };
    const RunOutcome expected = ModelRunner(whole, run_options).run(inputs);
    for (const int64_t slices : {2, 6}) {
      options.slices = slices;
      const CompiledModel model_of_slice = compile_model(model, chip, options);
      EXPECT_EQ(model_of_slice.slices, slices);
      ModelRunner runner(model_of_slice, run_options);
      const RunOutcome first = runner.run(inputs);
      EXPECT_LE(compare_tensors(first.outputs.at("y"), expected.outputs.at("y")).max_relative, 1e-3);
      EXPECT_TRUE(runner.run(inputs).outputs == first.outputs);
      EXPECT_EQ(model_of_slice.work.products, whole.work.products);
      EXPECT_LE(model_of_slice.work.dram_bytes, whole.work.dram_bytes * 1.01);
      int64_t predicted = 0;
      for (const int64_t cycles : predict_stages(model_of_slice)) predicted += cycles;
      EXPECT_EQ(first.total.chip_cycles(), predicted);
      EXPECT_EQ(first.stages.size(), model_of_slice.stages.size());
    }
  }
  CompileOptions options;
  options.slices = 4;
  EXPECT_THROW(compile_model(model, chip, options), isa::UserError);  // of six
}

/// What passes the host link beside programs changes no bit, and of runs in a row only what can't be hidden
/// shows.
TEST(Host, OverlapsRunsInARow) {
  onnx::ModelProto source = testing::parse_model(
      "g (float[4,4,32,32] x) => (float[4,8,32,32] y) {"
      " a = Conv <pads = [1,1,1,1]> (x, w) b = Relu (a) c = Conv <pads = [1,1,1,1]> (b, v) y = Relu (c) }");
  const auto weights = [&](const std::string& name, const Shape& shape) {
    testing::add_initializer(source, name, testing::random_tensor(DataType::kFloat32, shape, 7));
  };
  weights("w", {8, 4, 3, 3});
  weights("v", {8, 8, 3, 3});
  const onnx::ModelProto model = import_model(source, {}, "test");
  for (const int64_t slices : {1, 4}) {
    CompileOptions options;
    options.slices = slices;
    const CompiledModel compiled = compile_model(model, isa::find_chip("mncore2"), options);
    const TensorMap inputs = inputs_of(compiled);
    const auto runs = [&](bool overlaps) {
      RunnerOptions run_options;
      run_options.host_overlaps = overlaps;
      ModelRunner runner(compiled, run_options);
      std::vector<RunOutcome> outcomes;
      for (int k = 0; k < 3; ++k) outcomes.push_back(runner.run(inputs, nullptr, k < 2));
      return outcomes;
    };
    const std::vector<RunOutcome> serial = runs(false);
    const std::vector<RunOutcome> overlapped = runs(true);
    const auto host = [](const RunOutcome& outcome) { return outcome.total.chip.causes; };
    for (const RunOutcome& outcome : overlapped) EXPECT_TRUE(outcome.outputs == serial[0].outputs);
    EXPECT_EQ(host(serial[0]).of_host(), host(serial[2]).of_host());
    EXPECT_EQ(host(serial[0]).launch, 750 * slices);
    EXPECT_EQ(host(overlapped[0]).launch, 750);
    EXPECT_EQ(host(overlapped[1]).launch, 0);
    EXPECT_LT(host(overlapped[1]).of_host(), host(serial[1]).of_host());
    // The first has to wait for its data, the last one's results for the link.
    EXPECT_GT(host(overlapped[0]).host_input, host(overlapped[1]).host_input);
    EXPECT_GT(host(overlapped[2]).host_output, host(overlapped[1]).host_output);
    for (const std::vector<RunOutcome>* outcomes : {&serial, &overlapped}) {
      for (const RunOutcome& outcome : *outcomes) {
        int64_t cycles = 0;
        for (const StageStats& stage : outcome.stages) cycles += stage.chip.cycles();
        EXPECT_EQ(cycles, outcome.total.chip.cycles());
      }
    }
  }
}

/// A slice's passes give tensors other shapes: a product of one picture makes a picture, and the output,
/// which is another view of it, has the whole batch.
TEST(Slices, OfViews) {
  onnx::ModelProto source = testing::parse_model(
      "g (float[3,8,5,6] x) => (float[3,10] y, float[3,2,5] z) <int64[3] two = {-1, 2, 5}> {"
      " a = Conv <pads = [1,1,1,1]> (x, w) b = Relu (a) f = Flatten (b) y = MatMul (f, m)"
      " g = MatMul (f, m) h = Relu (g) z = Reshape (h, two) }");
  testing::add_initializer(source, "w", testing::random_tensor(DataType::kFloat32, {16, 8, 3, 3}, 7));
  testing::add_initializer(source, "m", testing::random_tensor(DataType::kFloat32, {480, 10}, 8));
  const onnx::ModelProto model = import_model(source, {}, "test");
  const isa::Chip chip = isa::find_chip("mncore2");
  CompileOptions options;
  const CompiledModel whole = compile_model(model, chip, options);
  const TensorMap inputs = inputs_of(whole);
  const RunOutcome expected = ModelRunner(whole, {}).run(inputs);
  options.slices = 3;
  const CompiledModel model_of_slice = compile_model(model, chip, options);
  const RunOutcome outcome = ModelRunner(model_of_slice, {}).run(inputs);
  for (const char* name : {"y", "z"}) {
    EXPECT_EQ(outcome.outputs.at(name).shape(), expected.outputs.at(name).shape());
    EXPECT_LE(compare_tensors(outcome.outputs.at(name), expected.outputs.at(name)).max_relative, 1e-3);
  }
}

}  // namespace
}  // namespace kodama::compiler
