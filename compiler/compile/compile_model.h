#pragma once

#include <onnx/onnx_pb.h>

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/compile/ties.h"
#include "compiler/lowering/lowering.h"
#include "compiler/package/compiled_model.h"
#include "compiler/plan/model_plan.h"
#include "scheduler/pipeline/pipeline.h"
#include "scheduler/segment/transfer_scheduling.h"

/// From ONNX to compiled models.
namespace kodama::compiler {

/// Where constants are between two runs (`--weights`).
enum class Weights : uint8_t {
  kStream,    ///< in DRAM
  kResident,  ///< in the PEs, as many as there is room for
  kAuto,      ///< in the PEs, if what the loads take is predicted to be 4 % of a run at least
};
std::string weights_name(Weights weights);       ///< "stream", …
Weights parse_weights(const std::string& name);  ///< UserError lists the names

struct CompileOptions {
  MatrixPrecision precision = MatrixPrecision::kGFloat;
  std::string planner = "pbqp";            ///< of ModelPlanner::planner_names()
  layout::SolutionCache* cache = nullptr;  ///< of solved conversions
  scheduler::PipelineChoice passes;
  LoweringOptions lowering;
  Weights weights = Weights::kStream;
  std::optional<Weights> planned_weights = {};  ///< the plan is made for these instead
  bool store_layers = false;                    ///< all results are in DRAM behind their segment
  /// Images of inputs keep their place in DRAM, so that a run may leave out what hasn't changed
  /// (ModelRunner::run_again). Not with slices.
  bool keeps_inputs = false;
  /// Outputs that are inputs of the next run (ties.h), as far as that can be done; needs keeps_inputs.
  std::vector<TieRequest> ties = {};
  /// In how many slices of the batch a run is made; nothing: in as many as plan_slices.h finds best.
  std::optional<int64_t> slices = 1;
  /// Names of graph passes, layer passes, "plan", "tile", "machine", or scheduler passes whose result
  /// `dump` receives; "all" = every one.
  std::set<std::string> dump_after;
  /// (pass, what: layer or model name, extension, text or bytes).
  std::function<void(const std::string&, const std::string&, const std::string&, const std::string&)> dump;
  bool wants_dump(const std::string& point) const {
    return dump && (dump_after.contains(point) || dump_after.contains("all"));
  }
  /// Receive what verifiers have accepted; may be empty. Of a stage: its operations in their order, values
  /// with addresses, and the program made of them. Of a segment: the programs of its stages, and the one that
  /// runs.
  std::function<void(const scheduler::MachineProgram&, const isa::Program&)> observe_stage = {};
  std::function<void(const std::vector<scheduler::ProgramPart>&, const scheduler::ScheduledParts&)>
      observe_segment = {};
  /// (done, total, what) while compiling.
  std::function<void(int64_t, int64_t, const std::string&)> progress;
};

/// Compiles a model that import_model has made. `prepared`, if not null, receives the model after the graph
/// passes, whose value names the layers' tensors carry.
CompiledModel compile_model(onnx::ModelProto model, const isa::Chip& chip, const CompileOptions& options,
                            onnx::ModelProto* prepared = nullptr);

/// A model after the graph passes.
onnx::ModelProto prepared_model(onnx::ModelProto model, const CompileOptions& options);

/// The layers of a model without those passes that look at the chip.
LayerGraph lowered_layers(onnx::ModelProto model, const CompileOptions& options,
                          onnx::ModelProto* prepared = nullptr);
/// These passes, on them or on those of a slice.
void finish_layers(LayerGraph& layers, const isa::Chip& chip, const CompileOptions& options);

/// Names that dump_after understands, in pipeline order: with a choice of passes those that run then.
std::vector<std::string> dump_points(const scheduler::PipelineChoice* choice = nullptr);
/// Those of them that plan_model has.
std::vector<std::string> planning_dump_points();

/// What the graph passes, the kernels and this planner (empty: any) declare, for PipelineChoice::others.
std::vector<const std::vector<passes::PassOptionInfo>*> planning_options(const std::string& planner);

}  // namespace kodama::compiler
