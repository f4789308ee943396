#include "compiler/compile/plan_slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/layers/batch.h"
#include "isa/arithmetic.h"
#include "isa/error.h"

namespace kodama::compiler {
namespace {

SlicedPlan plan_of(LayerGraph graph, const isa::Chip& chip, const CompileOptions& options) {
  SlicedPlan plan;
  plan.graph = std::make_unique<LayerGraph>(std::move(graph));
  finish_layers(*plan.graph, chip, options);
  const KernelOptions kernels{options.precision, options.passes.options,
                              options.planned_weights.value_or(options.weights) != Weights::kStream};
  plan.planner = std::make_unique<ModelPlanner>(
      *plan.graph, chip, kernels, options.cache,
      options.keeps_inputs ? states_of(*plan.graph, options.ties) : std::vector<StateTensor>());
  plan.plan = plan.planner->plan(options.planner);
  return plan;
}

/// LW of an image's tensors that one layer reads and makes, at most; two floats each.
int64_t most_lw_of_image(const LayerGraph& graph, const Batch& batch) {
  int64_t most = 0;
  for (const Layer& layer : graph.layers) {
    std::set<TensorId> used;
    for (const std::vector<TensorId>& ids : {layer_inputs(layer), layer.outputs}) {
      for (const TensorId id : ids) {
        if (batch.axes[static_cast<size_t>(id)] != Batch::kSame) used.insert(graph.storage(id));
      }
    }
    int64_t elements = 0;
    for (const TensorId id : used)
      elements += element_count(graph.tensors[static_cast<size_t>(id)].shape) / batch.images;
    most = std::max(most, isa::ceil_div(elements, 2));
  }
  return most;
}

/// Slices as large as L2BM holds what a layer reads and makes.
int64_t slices_in_l2bm(const LayerGraph& graph, const Batch& batch, const isa::Chip& chip) {
  const int64_t room = chip.memory.l2bm_lw * chip.l2b_count();
  const int64_t image = most_lw_of_image(graph, batch);
  int64_t slices = 1;
  while (batch.images % slices != 0 || (slices < batch.images && batch.images / slices * image > room))
    ++slices;
  return slices;
}

/// The axes of a slice's graph after the passes behind the slicing, which gave tensors other shapes and made
/// views of them. `before`: shapes of those that were there already, with the batch on `axes`.
std::vector<int> axes_after_passes(const LayerGraph& graph, const std::vector<Shape>& before,
                                   const std::vector<int>& axes) {
  std::vector<int> result;
  for (size_t id = 0; id < graph.tensors.size(); ++id) {
    const Shape& shape = graph.tensors[id].shape;
    const size_t of = id < before.size() ? id : static_cast<size_t>(graph.storage(static_cast<TensorId>(id)));
    result.push_back(of < before.size() ? axes[of] : Batch::kSame);
    if (result.back() == Batch::kSame || shape == before[of]) continue;
    // The axis with as many elements before it.
    const auto count = [](const Shape& list, int axis) {
      return element_count(Shape(list.begin(), list.begin() + axis));
    };
    const int64_t outer = count(before[of], axes[of]);
    int axis = 0;
    while (axis < std::ssize(shape) && count(shape, axis) != outer) ++axis;
    isa::check_internal(axis < std::ssize(shape), "plan_slices", "the batch of tensor '{}' is on no axis",
                        graph.tensors[id].name);
    result.back() = axis;
  }
  return result;
}

}  // namespace

SlicedPlan plan_model(onnx::ModelProto model, const isa::Chip& chip, const CompileOptions& options,
                      onnx::ModelProto* prepared) {
  LayerGraph whole = lowered_layers(std::move(model), options, prepared);
  std::string why_not;
  const std::optional<Batch> batch = options.slices == 1 ? std::nullopt : find_batch(whole, &why_not);
  if (!batch) {
    if (options.slices.value_or(1) != 1)
      throw isa::UserError(fmt::format("the batch of model '{}' has no slices: {}", whole.name, why_not));
    return plan_of(std::move(whole), chip, options);
  }
  const int64_t slices = options.slices ? *options.slices : slices_in_l2bm(whole, *batch, chip);
  if (slices < 1 || batch->images % slices != 0)
    throw isa::UserError(
        fmt::format("found {} slices of a batch of {}, allowed: its divisors", slices, batch->images));
  LayerGraph slice = slice_of(whole, *batch, batch->images / slices);
  std::vector<Shape> shapes;
  for (const LayerTensor& tensor : slice.tensors) shapes.push_back(tensor.shape);
  SlicedPlan plan = plan_of(std::move(slice), chip, options);
  plan.slices = slices;
  plan.axes = axes_after_passes(*plan.graph, shapes, batch->axes);
  return plan;
}

std::optional<int64_t> parse_slices(const std::string& text) {
  if (text == "auto") return {};
  if (text == "off") return 1;
  int64_t slices = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slices);
  if (error != std::errc() || end != text.data() + text.size() || slices < 1)
    throw isa::UserError(fmt::format("--slices {}: allowed are auto, off, and a number from 1 on", text));
  return slices;
}

}  // namespace kodama::compiler
