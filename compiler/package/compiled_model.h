#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "compiler/layers/layer_graph.h"
#include "compiler/streams/stream_image.h"
#include "isa/chip.h"
#include "isa/program.h"
#include "scheduler/machine/program_scheduling.h"
#include "scheduler/segment/transfer_scheduling.h"

/// A compiled model: what `kodama compile` writes and `kodama sim` and `kodama run` execute.
///
/// The model is a sequence of stages. A chip stage is a kernel or a relayout that makes one image in DRAM
/// from others. Chip stages with nothing between them that the host must do form a *segment*, which is one
/// program: its transfers are scheduled over all of them (scheduler/segment/transfer_scheduling.h). Constant
/// operands are in DRAM before the first stage runs; what comes from the host is sent before the segment that
/// reads it; what the host reads is fetched behind the segment that makes it. Host stages run nodes on the
/// CPU reference. Rearranges of types that the chip doesn't keep (compiler/plan/model_plan.h) permute on
/// the host.
namespace kodama::compiler {

/// Counts, as doubles: extents of a model may multiply to more than 63 bits. All zero for Host layers and for
/// Rearranges that the host makes.
struct ProblemWork {
  /// Multiply-adds of Contract layers, points of padding included.
  double products = 0;
  /// Operations of expressions (of Maps, before and after reductions, after products) and of reductions as
  /// the layers write them, by the unit that has them: sums and products, where a product that only a sum
  /// reads is one operation with it, and functions, which take several, as one; and
  double mau_operations = 0;
  /// comparisons and the like. Signs cost nothing.
  double alu_operations = 0;
  /// What DRAM holds before or after, and what doesn't fit into the chip.
  double dram_bytes = 0;
};

/// An output whose values are an input's in the next run (compiler/compile/ties.h).
struct Tie {
  TensorId output = -1;
  TensorId input = -1;
  int source = -1;           ///< image of the plan: of the output, as the host would fetch it
  std::vector<int> targets;  ///< images that the host sends of the input
  std::vector<int> made;     ///< the same as relayouts make them: at the addresses of `targets`
  int first_stage = -1;      ///< of these relayouts
  bool in_place = false;     ///< `source` is where the one target is; nothing is made
  bool fetch = false;        ///< the output goes to the host in every run, too, at least under another name
};

/// What the planner found. Planners make `total` least: the cycles of a run. Constants (weights, and the
/// tables of relayouts) are in no plan's objective, since they are sent once and then serve any number of
/// runs.
struct PlanSummary {
  std::string planner;
  int64_t kernel_cycles = 0;    ///< with what constants take of DRAM, where none stay in the PEs
  int64_t link_cycles = 0;      ///< of what is sent and fetched by the planner's choice
  int64_t relayout_cycles = 0;  ///< estimated
  int64_t relayouts = 0;
  int64_t constant_bytes = 0;   ///< sent before the first run
  int64_t constant_cycles = 0;  ///< of the host link, for these
  int64_t total() const { return kernel_cycles + link_cycles + relayout_cycles; }
  double bound = 0;  ///< no plan is cheaper; pbqp only
  bool proven = false;
  std::string problem = {};  ///< why the planner can't plan the model; then nothing else is set
};

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
  reference::Node node;
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

}  // namespace kodama::compiler
