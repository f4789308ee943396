#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "compiler/graph/import.h"
#include "compiler/runtime/runner.h"
#include "isa/file.h"

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

TensorMap run(const CompiledModel& model) {
  TensorMap inputs;
  for (const TensorId id : model.inputs) {
    const LayerTensor& info = model.tensors[static_cast<size_t>(id)];
    inputs[info.name] = random_input(info.name, info.type, info.shape, 5);
  }
  return ModelRunner(model, {}).run(inputs).outputs;
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
    TensorMap inputs;
    for (const TensorId id : resident.inputs) {
      const LayerTensor& info = resident.tensors[static_cast<size_t>(id)];
      inputs[info.name] = random_input(info.name, info.type, info.shape, 5);
    }
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

}  // namespace
}  // namespace kodama::compiler
