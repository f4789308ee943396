#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/kernels/kernel.h"
#include "compiler/layers/layer_graph.h"
#include "compiler/package/compiled_model.h"
#include "compiler/plan/element_origins.h"
#include "isa/chip.h"
#include "layout/plan/planner.h"
#include "layout/search/solution_cache.h"

/// The plan of a model: one kernel candidate per layer, and the images of tensors that DRAM holds.
///
/// Between kernels, tensors stay in DRAM. A kernel writes its result as an image (a StreamPlacement at an
/// address) and reads its operands as images. Where the image that is there is not the one a kernel wants, a
/// relayout on the chip makes it (layout/gather/gather.h). The planner (layout/plan/planner.h) chooses the
/// candidates so that kernels and relayouts together take least:
///
///   - node per kernel layer: its candidates, cost = predicted cycles, and those of the host link where the
///     host fetches the result;
///   - node per tensor that comes from the host: row-major, or as any operand image that a kernel could want;
///     cost = cycles of sending it, once;
///   - a conversion between two images costs what the gather is estimated to take, 0 if they are the same.
///
/// Rearrange layers have no node: who reads their output reads through it (element_origins.h).
///
/// Tensors of other types than float are not kept on the chip between layers: 16-bit floats are rounded when
/// the host fetches them, int64 and double exist in the chip's 32-bit words only inside a layer. Their
/// layouts are changed by the host.
namespace kodama::compiler {

/// Images start on a row of DRAM, or at least on an MV unit.
inline constexpr int64_t kImageAlignmentLw = 256;

struct PlannedImage {
  enum class Kind : uint8_t {
    kConstant,  ///< sent before the first stage
    kSent,      ///< by the host, before the first stage that reads it
    kMade,      ///< a kernel's result
    kRelaid,    ///< a relayout's
  };
  Kind kind = Kind::kConstant;
  StreamPlacement placement;
  int first_stage = -1;  ///< that writes or, for kSent and kConstant, reads it
  int last_stage = -1;
};

struct PlannedStage {
  enum class Kind : uint8_t {
    kKernel,
    kRelayout,       ///< on the chip
    kHostRearrange,  ///< of a type that the chip doesn't keep
    kHost,
  };
  Kind kind = Kind::kHost;
  int layer = -1;             ///< of the graph; kRelayout: whose operand it makes, or the Rearrange layer
  std::vector<int> operands;  ///< images: of a kernel's operands in their order, or of a relayout's sources
  int result = -1;            ///< image
  bool fetch = false;         ///< the host reads the result
  Candidate candidate;        ///< kKernel
  std::set<int> rearrange_layers;  ///< kRelayout: the Rearrange layers it does on its way
  std::vector<TensorId> roots;     ///< kRelayout: the tensor of each operand
  int64_t estimated_cycles = 0;    ///< of a kernel or relayout
};

struct ModelPlan {
  std::vector<PlannedImage> images;
  std::vector<PlannedStage> stages;
  PlanSummary summary;
};

/// InternalError when a layer has no stage or two, an image is read before it is made or while DRAM doesn't
/// hold it, is made twice, or is smaller than the stream that a kernel reads.
void verify_model_plan(const ModelPlan& plan, const LayerGraph& graph);

inline constexpr const char* kHostPlanner = "host";

/// An output that is an input's value in the next run, and doesn't leave the chip (compiler/compile/ties.h).
/// Neither passes the host link in a run, and the output had best lie as the input does.
struct StateTensor {
  TensorId output = -1;
  TensorId input = -1;
};

class ModelPlanner {
 public:
  /// `graph` must outlive the planner. `cache`, if not null, keeps what conversions cost.
  ModelPlanner(const LayerGraph& graph, const isa::Chip& chip, const KernelOptions& options,
               layout::SolutionCache* cache = nullptr, std::vector<StateTensor> states = {});
  ~ModelPlanner();

  /// kHostPlanner, and those of layout::planners(). The first takes each layer's fastest candidate and leaves
  /// every layout to the host: what there was before planners, to compare with.
  static std::vector<std::string> planner_names();
  /// UserError for another name. May be called several times: costs are remembered. `observe`, if not empty,
  /// sees the problem and its solution.
  using Observer = std::function<void(const layout::PlanProblem&, const layout::Plan&)>;
  ModelPlan plan(const std::string& planner, const Observer& observe = {});

  const std::vector<Candidate>& candidates(int layer) const;
  /// The gather of a kRelayout stage, with images at these addresses (one per image of the plan, LW).
  layout::GatherProblem gather(const ModelPlan& plan, const PlannedStage& stage,
                               const std::vector<int64_t>& addresses);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// The plan with the candidates it chose from: images and stages, which name each other by number.
std::string to_json(const ModelPlan& plan, const LayerGraph& graph, const ModelPlanner& planner);

}  // namespace kodama::compiler
