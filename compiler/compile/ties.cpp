#include "compiler/compile/ties.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/plan/placement_key.h"

namespace kodama::compiler {

namespace {

TensorId find_tensor(const LayerGraph& graph, const std::vector<TensorId>& ids, const std::string& name,
                     const char* role) {
  for (const TensorId id : ids) {
    if (graph.tensors[static_cast<size_t>(id)].name == name) return id;
  }
  throw isa::UserError(
      fmt::format("a tie names '{}', but model '{}' has no such {}", name, graph.name, role));
}

/// Tensors (storage) that layers on the host read or make.
std::set<TensorId> tensors_of_host(const ModelPlan& plan, const LayerGraph& graph) {
  std::set<TensorId> tensors;
  for (const PlannedStage& stage : plan.stages) {
    if (stage.kind == PlannedStage::Kind::kKernel || stage.kind == PlannedStage::Kind::kRelayout) continue;
    const Layer& layer = graph.layers[static_cast<size_t>(stage.layer)];
    const bool is_host = stage.kind == PlannedStage::Kind::kHost;
    for (const TensorId id : is_host ? layer.host_inputs : layer_inputs(layer)) {
      if (id >= 0) tensors.insert(graph.storage(id));
    }
    for (const TensorId id : layer.outputs) {
      if (id >= 0) tensors.insert(graph.storage(id));
    }
  }
  return tensors;
}

/// Whether a stage may write its result where an image is: it reads each place before it writes there, and
/// nobody reads the image behind it.
bool is_made_in_place(const ModelPlan& plan, int stage, int target) {
  const PlannedStage& maker = plan.stages[static_cast<size_t>(stage)];
  const PlannedImage& image = plan.images[static_cast<size_t>(target)];
  const PlannedImage& result = plan.images[static_cast<size_t>(maker.result)];
  if (image.last_stage > stage) return false;
  // Who runs a stage of the host may begin anew there, with other inputs (RunnerOptions::mean_of_shares).
  const auto is_host = [](const PlannedStage& each) { return each.kind == PlannedStage::Kind::kHost; };
  if (std::any_of(plan.stages.begin() + stage, plan.stages.end(), is_host)) return false;
  for (size_t k = 0; k < maker.operands.size(); ++k) {
    if (maker.operands[k] == target && std::ranges::count(maker.candidate.elementwise, k) == 0) return false;
  }
  // What is made of padding is anything. The local memory that a kernel takes words to is its own matter.
  if (image.placement.layout.padding() != layout::Padding::kUndefined) return false;
  const auto key = [](StreamPlacement placement) {
    placement.is_output = true;
    placement.layout = layout::Layout(placement.layout.axes(), layout::Memory::kLm0,
                                      placement.layout.replication(), layout::Padding::kUndefined);
    return key_of(essential(placement));
  };
  return key(image.placement) == key(result.placement);
}

}  // namespace

std::vector<StateTensor> states_of(const LayerGraph& graph, const std::vector<TieRequest>& requests) {
  std::vector<StateTensor> states;
  for (const TieRequest& request : requests) {
    const StateTensor state{find_tensor(graph, graph.outputs, request.output, "output"),
                            find_tensor(graph, graph.inputs, request.input, "input")};
    if (!request.fetch) states.push_back(state);
  }
  return states;
}

bool is_sent_input(const PlannedImage& image, const LayerGraph& graph) {
  const TensorId storage = graph.storage(image.placement.access.tensor);
  return image.kind == PlannedImage::Kind::kSent &&
         std::ranges::any_of(graph.inputs, [&](TensorId id) { return graph.storage(id) == storage; });
}

std::vector<Tie> add_ties(ModelPlan& plan, const LayerGraph& graph, const std::vector<TieRequest>& requests) {
  std::vector<Tie> ties;
  const std::set<TensorId> of_host = tensors_of_host(plan, graph);
  const auto storage_of = [&](int image) {
    return graph.storage(plan.images[static_cast<size_t>(image)].placement.access.tensor);
  };
  // What the host sends to later layers it has to fetch.
  const auto is_sent = [&](TensorId storage) {
    for (int k = 0; k < static_cast<int>(plan.images.size()); ++k) {
      if (plan.images[static_cast<size_t>(k)].kind == PlannedImage::Kind::kSent && storage_of(k) == storage)
        return true;
    }
    return false;
  };
  const auto outputs_of = [&](TensorId storage) {
    return std::ranges::count_if(graph.outputs, [&](TensorId id) { return graph.storage(id) == storage; });
  };
  for (const TieRequest& request : requests) {
    Tie tie;
    tie.output = find_tensor(graph, graph.outputs, request.output, "output");
    tie.input = find_tensor(graph, graph.inputs, request.input, "input");
    const LayerTensor& output = graph.tensors[static_cast<size_t>(tie.output)];
    const LayerTensor& input = graph.tensors[static_cast<size_t>(tie.input)];
    const TensorId from = graph.storage(tie.output);
    const TensorId to = graph.storage(tie.input);
    const bool fits = from != to && is_exact_word(output.type) && input.type == output.type &&
                      input.shape == output.shape && !of_host.contains(from) && !of_host.contains(to) &&
                      !is_sent(from) && outputs_of(to) == 0;
    if (!fits) continue;
    tie.fetch = request.fetch || outputs_of(from) > 1;
    const PlannedStage* maker = nullptr;
    for (const PlannedStage& stage : plan.stages) {
      if (stage.result >= 0 && stage.fetch && storage_of(stage.result) == from) maker = &stage;
    }
    if (maker == nullptr) continue;
    const bool by_kernel = maker->kind == PlannedStage::Kind::kKernel;
    PlannedStage relayout;
    relayout.kind = PlannedStage::Kind::kRelayout;
    relayout.layer = maker->layer;
    relayout.operands = by_kernel ? std::vector<int>{maker->result} : maker->operands;
    relayout.roots = by_kernel ? std::vector<TensorId>{from} : maker->roots;
    tie.source = maker->result;
    bool floats = true;
    for (int k = 0; k < static_cast<int>(plan.images.size()); ++k) {
      const PlannedImage& image = plan.images[static_cast<size_t>(k)];
      if (image.kind != PlannedImage::Kind::kSent || storage_of(k) != to) continue;
      tie.targets.push_back(k);
      floats &= image.placement.element == StreamElement::kFloat &&
                graph.tensors[static_cast<size_t>(image.placement.access.tensor)].shape == output.shape;
    }
    floats &= std::ranges::all_of(relayout.operands, [&](int operand) {
      const PlannedImage& image = plan.images[static_cast<size_t>(operand)];
      return image.placement.element == StreamElement::kFloat && image.kind != PlannedImage::Kind::kSent;
    });
    if (tie.targets.empty() || !floats) continue;
    tie.first_stage = static_cast<int>(plan.stages.size());
    tie.in_place = by_kernel && !tie.fetch && tie.targets.size() == 1 &&
                   is_made_in_place(plan, static_cast<int>(maker - plan.stages.data()), tie.targets.front());
    if (tie.in_place) {
      plan.images[static_cast<size_t>(tie.source)].last_stage = static_cast<int>(plan.stages.size()) - 1;
      ties.push_back(std::move(tie));
      continue;
    }
    for (const int target : tie.targets) {
      const auto stage_number = static_cast<int>(plan.stages.size());
      PlannedImage made = plan.images[static_cast<size_t>(target)];
      made.kind = PlannedImage::Kind::kRelaid;
      made.placement.access.tensor = tie.output;
      made.first_stage = made.last_stage = stage_number;
      tie.made.push_back(static_cast<int>(plan.images.size()));
      plan.images.push_back(std::move(made));
      plan.images[static_cast<size_t>(tie.source)].last_stage = stage_number;
      for (const int operand : relayout.operands) {
        PlannedImage& image = plan.images[static_cast<size_t>(operand)];
        image.last_stage = std::max(image.last_stage, stage_number);
      }
      plan.stages.push_back(relayout);
      plan.stages.back().result = tie.made.back();
    }
    ties.push_back(std::move(tie));
  }
  return ties;
}

}  // namespace kodama::compiler
