/// Schedulers and allocators decide when and where, never what: every combination of them computes the same
/// bits.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "compiler/compile/compile_model.h"
#include "compiler/graph/import.h"
#include "compiler/runtime/runner.h"
#include "isa/file.h"
#include "isa/rounds_test_util.h"
#include "scheduler/machine/passes.h"
#include "scheduler/pipeline/pipeline.h"
#include "scheduler/problem/transfer_problem.h"

namespace kodama::compiler {
namespace {

namespace fs = std::filesystem;

/// Chooses what a test is to look at.
enum class Coverage {
  kEveryPass,         ///< every pass beside the defaults of the others
  kEveryCombination,  ///< of homes, allocators, schedulers and transfers
};

/// Whether at most one of the passes is another than the default, or none of the first comparison is.
bool differs_little(const scheduler::PipelineChoice& choice) {
  const bool is_simple = choice.scheduler == "sequential" && choice.loop_scheduler == "acyclic" &&
                         choice.transfers == "on-demand";
  const int others = int{choice.home_assigner != scheduler::home_assigners().front().name} +
                     int{choice.allocator != scheduler::allocators().front().name};
  if (is_simple) return others == 0;
  return others + int{choice.scheduler != scheduler::find_block_scheduler("", false).name} +
             int{choice.loop_scheduler != scheduler::find_block_scheduler("", true).name} +
             int{choice.transfers != scheduler::find_transfer_scheduler("").name} <=
         1;
}

bool has_first_places(const scheduler::PipelineChoice& choice) {
  return choice.home_assigner == scheduler::home_assigners().front().name &&
         choice.allocator == scheduler::allocators().front().name;
}
bool is_default(const scheduler::PipelineChoice& choice) {
  return has_first_places(choice) && choice.scheduler == scheduler::find_block_scheduler("", false).name &&
         choice.loop_scheduler == scheduler::find_block_scheduler("", true).name &&
         choice.transfers == scheduler::find_transfer_scheduler("").name;
}

bool is_simple(const scheduler::PipelineChoice& choice) {
  return has_first_places(choice) && choice.scheduler == "sequential" && choice.loop_scheduler == "acyclic" &&
         choice.transfers == "on-demand";
}

/// Each as a choice; "sequential", "acyclic" and "on-demand" first, which are what to compare with.
std::vector<scheduler::PipelineChoice> combinations(Coverage coverage) {
  std::vector<scheduler::PipelineChoice> all;
  for (const auto& homes : scheduler::home_assigners()) {
    for (const auto& allocator : scheduler::allocators()) {
      for (const auto& loops : scheduler::block_schedulers()) {
        if (!loops.for_loops) continue;
        for (const auto& blocks : scheduler::block_schedulers()) {
          if (!blocks.for_blocks) continue;
          for (const auto& transfers : scheduler::transfer_schedulers()) {
            // Transfers know nothing of addresses in PE memories.
            const bool is_first = allocator.name == scheduler::allocators().front().name;
            if (!is_first && transfers.name != scheduler::find_transfer_scheduler("").name) continue;
            scheduler::PipelineChoice choice{.home_assigner = homes.name,
                                             .allocator = allocator.name,
                                             .scheduler = blocks.name,
                                             .loop_scheduler = loops.name,
                                             .transfers = transfers.name};
            // Kernels have blocks that the exact scheduler could look at for hours.
            if (blocks.name == "exact") choice.options["exact-nodes"] = "2000";
            if (coverage == Coverage::kEveryPass && !differs_little(choice)) continue;
            all.push_back(std::move(choice));
          }
        }
      }
    }
  }
  // These leave most programs as they are.
  for (const auto& coalescer : scheduler::coalescers()) all.push_back({.coalescer = coalescer.name});
  for (const auto& spiller : scheduler::spillers()) all.push_back({.spiller = spiller.name});
  return all;
}

/// Those that are named.
std::string passes_of(const scheduler::PipelineChoice& choice) {
  std::string names;
  for (const std::string& name : {choice.coalescer, choice.home_assigner, choice.spiller, choice.allocator,
                                  choice.scheduler, choice.loop_scheduler, choice.transfers}) {
    if (!name.empty()) names += (names.empty() ? "" : " ") + name;
  }
  return names;
}

/// By default of `share` combinations one, and those whose cycles are compared.
void compare_combinations(const fs::path& file, MatrixPrecision precision, Coverage coverage, size_t share) {
  const isa::Chip chip = isa::find_chip("mncore2");
  const onnx::ModelProto model = import_model(file.string(), {});
  std::optional<TensorMap> expected;
  int number = 0;
  // What there was first: an operation per step, iterations and transfers one after the other.
  int64_t simple_cycles = 0;
  int64_t default_cycles = 0;
  TensorMap inputs;
  for (size_t which = 0; const scheduler::PipelineChoice& choice : combinations(coverage)) {
    if (expected && !is_simple(choice) && !is_default(choice) && !isa::one_of(share, which++)) continue;
    CompileOptions options;
    options.precision = precision;
    options.passes = choice;
    options.planned_weights = Weights::kStream;
    // Some of them with constants that stay in the PEs; neither is what cycles are compared of.
    if (expected && number++ % 2 == 0 && passes_of(choice).find("on-demand") == std::string::npos &&
        !is_default(choice))
      options.weights = Weights::kResident;
    const CompiledModel compiled = compile_model(model, chip, options);
    for (const TensorId id : compiled.inputs) {
      const LayerTensor& info = compiled.tensors[static_cast<size_t>(id)];
      inputs[info.name] = random_input(info.name, info.type, info.shape, 5);
    }
    RunnerOptions run;
    run.hazards = simulator::Hazards::kError;
    const RunOutcome outcome = ModelRunner(compiled, run).run(inputs);
    // What the host sends and fetches takes as long whatever the passes do.
    const int64_t cycles = outcome.total.chip_cycles();
    fmt::print("{} {}: {}: {} steps, {} cycles\n", file.stem().string(), matrix_precision_name(precision),
               passes_of(choice), outcome.total.chip.steps, cycles);
    if (is_simple(choice)) simple_cycles = cycles;
    if (is_default(choice)) default_cycles = cycles;
    if (!expected) expected = outcome.outputs;
    EXPECT_TRUE(outcome.outputs == *expected) << "other bits";
  }
  const double ratio = static_cast<double>(simple_cycles) / static_cast<double>(default_cycles);
  fmt::print("{} {}: simple {} cycles, default {}, {:.2f} times\n", file.stem().string(),
             matrix_precision_name(precision), simple_cycles, default_cycles, ratio);
  if (precision == MatrixPrecision::kGFloat) {
    EXPECT_GE(ratio, 1.6);
  }
}

constexpr const char* kDemo = "testsuite/models/mnist8/model.onnx";

TEST(PassCombinations, EveryPassOfTheDemo) {
  compare_combinations(isa::source_path(kDemo), MatrixPrecision::kGFloat, Coverage::kEveryPass, 1);
  compare_combinations(isa::source_path(kDemo), MatrixPrecision::kHalf, Coverage::kEveryPass, 4);
}
TEST(PassCombinations, NightlyEveryCombinationForTheDemo) {
  compare_combinations(isa::source_path(kDemo), MatrixPrecision::kGFloat, Coverage::kEveryCombination, 1);
}

class SharedModels : public ::testing::TestWithParam<const char*> {
 protected:
  static void compare(Coverage coverage, size_t share) {
    const fs::path file = fs::path(isa::source_path("../shared/data")) / GetParam();
    if (!fs::exists(file)) GTEST_SKIP() << "skipped: " << file.string() << " is absent";
    compare_combinations(file, MatrixPrecision::kGFloat, coverage, share);
  }
};
TEST_P(SharedModels, EveryPass) {
  compare(Coverage::kEveryPass, 3);
}
TEST_P(SharedModels, NightlyEveryCombination) {
  compare(Coverage::kEveryCombination, 1);
}
INSTANTIATE_TEST_SUITE_P(Real, SharedModels,
                         ::testing::Values("models/lenet.onnx", "models/mlp.onnx",
                                           "onnx_mlir_mnist/mnist.onnx"));

}  // namespace
}  // namespace kodama::compiler
