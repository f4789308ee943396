#include "compiler/kernels/split_gathers.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "compiler/kernels/builtin_kernels.h"
#include "compiler/layers/formula.h"
#include "compiler/tensor/fresh_names.h"
#include "isa/arithmetic.h"

namespace kodama::compiler {
namespace {

/// A Gather and a Reduce, and the tensors between and beside them.
struct GatherHalves {
  Layer first, second;
  LayerTensor begins;  ///< the first place of each slice
  LayerTensor parts;
};

/// The map with a dim for the slice in front, of which it knows nothing.
AffineMap behind_slice(const AffineMap& map) {
  AffineMap result(map.axes(), map.dims() + 1);
  for (size_t axis = 0; axis < map.axes(); ++axis) {
    result.set_offset(axis, map.offset(axis));
    for (size_t dim = 0; dim < map.dims(); ++dim) result.set(axis, dim + 1, map.coefficient(axis, dim));
  }
  return result;
}

/// `first_tensor`: the number that `begins` will have; `parts` comes behind it.
GatherHalves gather_halves(const Layer& layer, const LayerGraph& graph, int64_t slices,
                           TensorId first_tensor) {
  GatherHalves halves{layer, layer, {}, {}};
  const auto& whole = std::get<GatherLayer>(layer.body);
  const int64_t length = isa::ceil_div(whole.places, slices);
  const size_t rank = whole.extents.size();

  std::vector<int32_t> begins;
  for (int64_t k = 0; k < slices; ++k) begins.push_back(static_cast<int32_t>(k * length));
  halves.begins.type = halves.parts.type = DataType::kInt32;
  halves.begins.shape = {slices};
  halves.begins.constant = Tensor::from_values(DataType::kInt32, {slices}, begins);
  const LayerTensor& data = graph.tensors[static_cast<size_t>(whole.data.tensor)];
  const bool is_float = word_kind(data.type) == ScalarKind::kFloat;
  if (is_float) halves.parts.type = DataType::kFloat32;

  auto& first = std::get<GatherLayer>(halves.first.body);
  first.extents.insert(first.extents.begin(), slices);
  first.places = length;
  for (TensorAccess& access : first.index_inputs) access.map = behind_slice(access.map);
  const int begin = first.index.input(static_cast<int>(first.index_inputs.size()));
  first.index_inputs.push_back({first_tensor, AffineMap(1, rank + 1).set(0, 0, 1), 0});
  first.data.map = behind_slice(whole.data.map);
  for (size_t axis = 0; axis < first.data.map.axes(); ++axis)
    first.data.map.set(axis, 0, whole.data.map.coefficient(axis, rank) * length);
  first.epilogue = ScalarExpr::identity();
  first.epilogue_inputs.clear();
  // The result of the index was the last node before the input of begins.
  const int index = whole.index.result();
  first.index.set_result(first.index.apply(ScalarOp::kIntSub, index, begin));
  halves.parts.shape = first.extents;

  ReduceLayer second;
  second.op = ReduceLayer::Op::kIntSum;
  second.output_extents = whole.extents;
  second.reduction_extents = {slices};
  AffineMap of_parts(rank + 1, rank + 1);
  of_parts.set(0, rank, 1);
  for (size_t axis = 0; axis < rank; ++axis) of_parts.set(axis + 1, axis, 1);
  second.inputs = {{first_tensor + 1, of_parts, 0}};
  Formula expr, sum;
  second.expr = expr.result(is_float ? expr.x(0).apply(ScalarOp::kFloatBits) : expr.x(0));
  const ScalarExpr word = sum.result(is_float ? sum.x(0).apply(ScalarOp::kFromBits) : sum.x(0));
  std::vector<int> own;
  for (size_t k = 0; k <= whole.epilogue_inputs.size(); ++k) own.push_back(static_cast<int>(k));
  second.epilogue = whole.epilogue.substitute(0, word, std::vector<int>{0}, own);
  second.epilogue_inputs = whole.epilogue_inputs;
  halves.second.body = std::move(second);
  halves.first.outputs = {first_tensor + 1};
  return halves;
}

std::optional<int64_t> least_cycles(const Kernel& kernel, const Layer& layer, const LayerGraph& graph,
                                    const isa::Chip& chip) {
  std::optional<int64_t> least;
  for (const Candidate& candidate : kernel.run(layer, graph, chip, {}))
    least = std::min(least.value_or(candidate.predicted_cycles), candidate.predicted_cycles);
  return least;
}

/// The halves that the kernels promise fewest cycles for; nothing where the whole has room.
std::optional<GatherHalves> best_gather_halves(const Layer& layer, const LayerGraph& graph,
                                               const isa::Chip& chip) {
  const auto* gather = std::get_if<GatherLayer>(&layer.body);
  if (gather == nullptr || element_count(gather->extents) == 0) return std::nullopt;
  const Kernel whole = gather_kernel(), sums = reduce_kernel();
  if (least_cycles(whole, layer, graph, chip)) return std::nullopt;
  std::optional<GatherHalves> best;
  std::optional<int64_t> least;
  const auto next = static_cast<TensorId>(graph.tensors.size());
  for (int64_t slices = 2; slices <= gather->places; slices *= 2) {
    GatherHalves halves = gather_halves(layer, graph, slices, next);
    // A graph of these layers alone.
    LayerGraph trial;
    const auto add = [&](TensorAccess& access) {
      const auto id = static_cast<TensorId>(trial.tensors.size());
      trial.tensors.push_back(access.tensor == next ? halves.begins
                              : access.tensor == next + 1
                                  ? halves.parts
                                  : graph.tensors[static_cast<size_t>(access.tensor)]);
      trial.tensors.back().alias_of = -1;
      access.tensor = id;
    };
    const auto cycles = [&](Layer half, const LayerTensor& result, const Kernel& kernel) {
      for (TensorAccess* access : layer_accesses(half)) add(*access);
      half.outputs = {static_cast<TensorId>(trial.tensors.size())};
      trial.tensors.push_back(result);
      return least_cycles(kernel, half, trial, chip);
    };
    const auto first = cycles(halves.first, halves.parts, whole);
    const auto second = cycles(halves.second, graph.tensors[static_cast<size_t>(layer.outputs[0])], sums);
    if (!first || !second) continue;
    if (least && *first + *second >= *least) break;
    least = *first + *second;
    best = std::move(halves);
  }
  return best;
}

}  // namespace

void split_gathers(LayerGraph& graph, const isa::Chip& chip) {
  FreshNames layers, tensors;
  for (const Layer& layer : graph.layers) layers.reserve(layer.name);
  for (const LayerTensor& tensor : graph.tensors) tensors.reserve(tensor.name);
  for (size_t index = 0; index < graph.layers.size(); ++index) {
    auto halves = best_gather_halves(graph.layers[index], graph, chip);
    if (!halves) continue;
    const std::string& result = graph.tensors[static_cast<size_t>(graph.layers[index].outputs[0])].name;
    halves->begins.name = tensors.make_unique(result + "/slices");
    halves->parts.name = tensors.make_unique(result + "/parts");
    graph.tensors.push_back(std::move(halves->begins));
    graph.tensors.push_back(std::move(halves->parts));
    halves->first.name = layers.make_unique(graph.layers[index].name + "/slices");
    graph.layers[index] = std::move(halves->second);
    graph.layers.insert(graph.layers.begin() + static_cast<std::ptrdiff_t>(index), std::move(halves->first));
    ++index;
  }
}

}  // namespace kodama::compiler
