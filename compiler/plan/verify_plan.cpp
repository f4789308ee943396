#include <algorithm>
#include <map>
#include <set>

#include "compiler/plan/model_plan.h"
#include "isa/error.h"

/// The verifier of plans. It looks at stages and images alone, and knows nothing of how they were chosen.
namespace kodama::compiler {
namespace {

constexpr const char* kVerifyPlanPart = "verify plan";

class Verifier {
 public:
  Verifier(const ModelPlan& plan, const LayerGraph& graph) : plan_(plan), graph_(graph) {}

  void run() {
    for (size_t number = 0; number < plan_.stages.size(); ++number) {
      stage_ = static_cast<int>(number);
      const PlannedStage& stage = plan_.stages[number];
      isa::check_internal(stage.layer >= 0 && stage.layer < static_cast<int>(graph_.layers.size()),
                          kVerifyPlanPart, "stage {} is of layer {} of {}", stage_, stage.layer,
                          graph_.layers.size());
      for (const int image : stage.operands) read(image);
      switch (stage.kind) {
        case PlannedStage::Kind::kKernel:
          kernel(stage);
          break;
        case PlannedStage::Kind::kRelayout:
          make(stage.result, PlannedImage::Kind::kRelaid);
          isa::check_internal(stage.roots.size() == stage.operands.size(), kVerifyPlanPart,
                              "stage {}: {} roots in {} images", stage_, stage.roots.size(),
                              stage.operands.size());
          for (size_t k = 0; k < stage.roots.size(); ++k) {
            isa::check_internal(tensor_of(stage.operands[k]) == graph_.storage(stage.roots[k]),
                                kVerifyPlanPart, "stage {}: image {} is of another tensor", stage_,
                                stage.operands[k]);
          }
          break;
        default:
          isa::check_internal(stage.operands.empty() && stage.result < 0, kVerifyPlanPart,
                              "stage {} of the host has images", stage_);
          once(stage);
      }
    }
    for (size_t k = 0; k < graph_.layers.size(); ++k) {
      const LayerKind kind = graph_.layers[k].kind();
      isa::check_internal(kind == LayerKind::kRearrange || done_.contains(static_cast<int>(k)),
                          kVerifyPlanPart, "layer '{}' has no stage", graph_.layers[k].name);
    }
  }

 private:
  const PlannedImage& image(int number) const {
    isa::check_internal(number >= 0 && number < static_cast<int>(plan_.images.size()), kVerifyPlanPart,
                        "stage {} names image {} of {}", stage_, number, plan_.images.size());
    return plan_.images[static_cast<size_t>(number)];
  }
  TensorId tensor_of(int number) const { return graph_.storage(image(number).placement.access.tensor); }

  void once(const PlannedStage& stage) {
    isa::check_internal(done_.insert(stage.layer).second, kVerifyPlanPart, "layer '{}' has two stages",
                        graph_.layers[static_cast<size_t>(stage.layer)].name);
  }
  /// DRAM holds an image from its first stage to its last.
  void is_held(int number) const {
    const PlannedImage& held = image(number);
    isa::check_internal(held.first_stage <= stage_ && stage_ <= held.last_stage, kVerifyPlanPart,
                        "image {} is held in stages {} to {}, used in {}", number, held.first_stage,
                        held.last_stage, stage_);
  }
  void read(int number) {
    is_held(number);
    const PlannedImage::Kind kind = image(number).kind;
    const bool is_made = kind == PlannedImage::Kind::kMade || kind == PlannedImage::Kind::kRelaid;
    isa::check_internal(!is_made || made_.contains(number), kVerifyPlanPart,
                        "stage {} reads image {} before it is made", stage_, number);
    const bool constant = graph_.tensors[static_cast<size_t>(tensor_of(number))].constant.has_value();
    isa::check_internal((kind == PlannedImage::Kind::kConstant) == constant, kVerifyPlanPart,
                        "image {} of tensor '{}': who writes it?", number,
                        graph_.tensors[static_cast<size_t>(tensor_of(number))].name);
  }
  void make(int number, PlannedImage::Kind kind) {
    is_held(number);
    isa::check_internal(image(number).kind == kind && made_.insert(number).second, kVerifyPlanPart,
                        "stage {} makes image {}", stage_, number);
  }
  void kernel(const PlannedStage& stage) {
    once(stage);
    make(stage.result, PlannedImage::Kind::kMade);
    auto operand = stage.operands.begin();
    for (const StreamPlacement& wanted : stage.candidate.placements) {
      const bool there = wanted.is_output || operand != stage.operands.end();
      isa::check_internal(there, kVerifyPlanPart, "stage {}: no image for operand {}", stage_, wanted.name);
      const StreamPlacement& found = image(wanted.is_output ? stage.result : *operand++).placement;
      // A kernel reads all of its stream; what is in it is the planner's business, unless it is its own.
      isa::check_internal(stream_group_lw(found) >= stream_group_lw(wanted) &&
                              found.transport.groups_used() >= wanted.transport.groups_used(),
                          kVerifyPlanPart, "stage {}: image of {} LW for operand {} of {} LW", stage_,
                          stream_group_lw(found), wanted.name, stream_group_lw(wanted));
    }
    isa::check_internal(operand == stage.operands.end(), kVerifyPlanPart, "stage {}: too many images",
                        stage_);
  }

  const ModelPlan& plan_;
  const LayerGraph& graph_;
  int stage_ = 0;
  std::set<int> made_;
  std::set<int> done_;
};

}  // namespace

void verify_model_plan(const ModelPlan& plan, const LayerGraph& graph) {
  Verifier(plan, graph).run();
}

}  // namespace kodama::compiler
