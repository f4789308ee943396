#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "compiler/compile/ties.h"
#include "compiler/kernels/kernel.h"
#include "compiler/kernels/stream_image.h"
#include "compiler/layers/layer_graph.h"
#include "compiler/plan/model_plan.h"
#include "compiler/plan/problem_bound.h"
#include "isa/chip.h"
#include "isa/program.h"
#include "scheduler/pipeline/pipeline.h"
#include "scheduler/segment/transfer_scheduling.h"

/// A compiled model: what `kodama compile` writes and `kodama sim` and `kodama run` execute.
///
/// The model is a sequence of stages. A chip stage is a kernel or a relayout that makes one image in DRAM
/// from others. Chip stages with nothing between them that the host must do form a *segment*, which is one
/// program: its transfers are scheduled over all of them (scheduler/segment/transfer_scheduling.h). Constant
/// operands are in DRAM before the first stage runs; what comes from the host is sent before the segment that
/// reads it; what the host reads is fetched behind the segment that makes it. Host stages run ONNX nodes on
/// the CPU reference. Rearranges of types that the chip doesn't keep (compiler/plan/model_plan.h) permute on
/// the host.
namespace kodama::compiler {

/// A stream of a chip stage and where it is in every group's DRAM.
struct StreamBinding {
  enum class Origin : uint8_t {
    kPreloaded,  ///< constant
    kSent,       ///< by the host, before this stage's segment
    kOnChip,     ///< since an earlier stage
  };
  StreamPlacement placement;  ///< placement.access.tensor names the tensor
  int64_t dram_address = 0;   ///< LW
  Origin origin = Origin::kOnChip;
  /// The host changes the layout of a tensor between layers: it sends what it has fetched, or the reverse.
  bool host_relayout = false;
};

struct ChipStage {
  std::string kernel;
  std::string description;
  int64_t predicted_cycles = 0;
  int64_t dram_cycles = 0;  ///< of relayouts: what their DRAM traffic alone takes (layout::Gather)
  std::vector<StreamBinding> operands;
  StreamBinding result;
  bool fetch = false;  ///< the host reads the result
  bool stored =
      true;  ///< the result is in DRAM behind the segment; else those who read it have it on the chip
  /// Of kernels: what the layer must do in a run, all slices together, without constants that stay on the
  /// chip; relayouts are no part of the problem.
  ProblemWork work;
  /// Of kernels. Not in packages: what a file claims is no proof.
  scheduler::ScheduleProofs proofs = {};
};
/// Consecutive chip stages: their programs as one.
struct Segment {
  int first_stage = 0;
  scheduler::ScheduledParts parts;  ///< a part per stage

  int stage_count() const { return static_cast<int>(parts.begin.size()) - 1; }
  int end_stage() const { return first_stage + stage_count(); }
  /// The statements of a stage. Transfers for it may be in stages before it.
  isa::Program slice(int stage) const;
};
/// On the host.
struct RearrangeStage {
  RearrangeLayer rearrange;
};
struct HostStage {
  std::vector<onnx::NodeProto> nodes;
  std::string reason;
};

struct Stage {
  std::string name;
  LayerKind kind = LayerKind::kHost;
  std::vector<std::string> onnx_ops;
  std::vector<std::string> onnx_nodes;
  std::vector<TensorId> inputs;  ///< Rearrange: one per piece; Host: of all nodes by name; -1 = omitted
  std::vector<TensorId> outputs;
  std::string operation;  ///< one line: what it computes
  std::variant<ChipStage, RearrangeStage, HostStage> body;

  bool on_chip() const { return std::holds_alternative<ChipStage>(body); }
};
/// The layer's kind; "Relayout" of a stage that makes an image on the chip, of Rearrange layers or of none.
std::string stage_kind_name(const Stage& stage);

struct CompiledModel {
  std::string name;
  isa::Chip chip;
  MatrixPrecision precision = MatrixPrecision::kGFloat;
  std::map<std::string, int64_t> opset;
  /// Types, shapes, aliases and constants (those that some stage reads on the host).
  std::vector<LayerTensor> tensors;
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;
  std::vector<Check> checks;  ///< of every run
  std::vector<Stage> stages;
  std::vector<Segment> segments;  ///< of all chip stages, in their order
  /// Tensors and stages are those of a slice of the batch (compiler/layers/batch.h), and run so many times, a
  /// slice after the other.
  int64_t slices = 1;
  std::vector<int> slice_axes;  ///< by tensor: the axis of which a slice has a part; Batch::kSame: it has all
  PlanSummary plan;
  /// What the network must do in a run, all slices together, but for constants that stay on the chip.
  ProblemWork work;
  /// Contents of DRAM that are written once, before the first stage.
  struct Preload {
    std::string name;
    int64_t dram_address = 0;
    StreamImage image;
  };
  std::vector<Preload> preloads;
  /// Runs once, when the preloads are in DRAM: brings to the PEs the constants that stay there
  /// (compiler/compile/resident.h). Without statements where none do.
  isa::Program preparation;

  /// Images of inputs stay in DRAM from run to run (CompileOptions::keeps_inputs).
  bool keeps_inputs = false;
  /// Those of CompileOptions::ties that could be made; packages have only what a run needs of them.
  std::vector<Tie> ties = {};

  TensorId storage(TensorId id) const;
  /// A tensor's shape over all slices.
  Shape whole_shape(TensorId id) const;
  /// What a slice has of it.
  Tensor slice_of(TensorId id, int64_t slice, const Tensor& whole) const;
  /// Puts that into the whole, which is made with the first.
  void add_slice(TensorId id, int64_t slice, const Tensor& part, Tensor& whole) const;
};

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
