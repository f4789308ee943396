#include "compiler/kernels/split_reductions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "compiler/kernels/builtin_kernels.h"
#include "compiler/kernels/fill_rows.h"
#include "compiler/kernels/picture_sums.h"
#include "compiler/kernels/rows_windows.h"
#include "compiler/kernels/spread.h"
#include "compiler/tensor/fresh_names.h"
#include "isa/arithmetic.h"

namespace kodama::compiler {
namespace {

/// Below this many elements per output a split costs more than it saves.
constexpr int64_t kShortList = 64;

/// A reduction dim's extent as outer * inner (outer * inner >= extent).
struct DimSplit {
  int64_t outer = 1;
  int64_t inner = 1;
};

/// The divisor of `extent` nearest to `target` by ratio if one is within a factor of two, else the
/// split with about `target` parts, the last one shorter.
DimSplit split_extent(int64_t extent, int64_t target) {
  target = std::clamp<int64_t>(target, 1, extent);
  int64_t best = 0;
  for (int64_t divisor = (target + 1) / 2; divisor <= std::min(extent, target * 2); ++divisor) {
    if (extent % divisor != 0) continue;
    const auto distance = [&](int64_t d) {
      return std::abs(std::log(static_cast<double>(d) / static_cast<double>(target)));
    };
    if (best == 0 || distance(divisor) < distance(best)) best = divisor;
  }
  if (best > 0) return {best, extent / best};
  const int64_t inner = (extent + target - 1) / target;
  return {(extent + inner - 1) / inner, inner};
}

/// How each reduction dim is divided into a moved (outer) and a kept (inner) part; empty = leave alone.
std::vector<DimSplit> choose_split(const ReduceLayer& reduce, const isa::Chip& chip) {
  const int64_t outputs = element_count(reduce.output_extents);
  const int64_t elements = element_count(reduce.reduction_extents);
  if (outputs == 0 || elements < kShortList) return {};
  const int64_t lanes = int64_t{chip.pe_count()} * kFloatsPerVector;
  const auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(elements)));
  const int64_t target = std::min(root, lanes / outputs);
  if (target < 2) return {};
  std::vector<DimSplit> splits;
  int64_t moved = 1;
  for (int64_t extent : reduce.reduction_extents) {
    const DimSplit split = split_extent(extent, target / moved);
    splits.push_back(split);
    moved *= split.outer;
  }
  return moved > 1 && moved < elements ? splits : std::vector<DimSplit>{};
}

/// The access over the new iteration space: outputs, moved parts, kept parts.
AffineMap split_map(const AffineMap& map, size_t output_dims, const std::vector<DimSplit>& splits) {
  AffineMap result(map.axes(), output_dims + 2 * splits.size());
  for (size_t axis = 0; axis < map.axes(); ++axis) {
    result.set_offset(axis, map.offset(axis));
    for (size_t d = 0; d < output_dims; ++d) result.set(axis, d, map.coefficient(axis, d));
    for (size_t r = 0; r < splits.size(); ++r) {
      const int64_t coefficient = map.coefficient(axis, output_dims + r);
      result.set(axis, output_dims + r, coefficient * splits[r].inner);
      result.set(axis, output_dims + splits.size() + r, coefficient);
    }
  }
  return result;
}

/// Replaces elements beyond a dim's extent by the identity: a constant of ones over the extent reads 0
/// outside.
void guard_dim(LayerGraph& graph, const std::string& name, ReduceLayer& first, size_t output_dims, size_t r,
               size_t dim_count, const DimSplit& split, int64_t extent) {
  LayerTensor ones;
  ones.name = name;
  ones.shape = {extent};
  ones.constant = Tensor::from_values<float>(DataType::kFloat32, {extent},
                                             std::vector<float>(static_cast<size_t>(extent), 1.0f));
  TensorAccess access;
  access.tensor = static_cast<TensorId>(graph.tensors.size());
  graph.tensors.push_back(std::move(ones));
  access.map = AffineMap(1, output_dims + 2 * dim_count);
  access.map.set(0, output_dims + r, split.inner).set(0, output_dims + dim_count + r, 1);

  const int number = static_cast<int>(first.inputs.size());
  first.inputs.push_back(std::move(access));
  const int value = first.expr.result();
  const int valid = first.expr.input(number);
  const int sign = first.expr.apply(ScalarOp::kSub, valid, first.expr.constant(0.5));
  const double identity = identity_of(first.op);
  first.expr.set_result(first.expr.apply(ScalarOp::kSelectNotNegative, sign, value,
                                         reduce_kind(first.op) == ScalarKind::kFloat
                                             ? first.expr.constant(identity)
                                             : first.expr.int_constant(static_cast<int32_t>(identity))));
}

/// Both halves may be split again, and a model may have a node of any name.
struct Names {
  FreshNames layers, tensors;
  FillRows zeros;
};

/// Cycles of a layer on images of rows, before conversions; nothing where it isn't one.
std::optional<int64_t> cycles_on_rows(const Layer& layer, const LayerGraph& graph, const isa::Chip& chip) {
  std::optional<int64_t> least;
  for (const Candidate& candidate : reduce_rows_kernel().run(layer, graph, chip, {}))
    least = std::min(least.value_or(candidate.predicted_cycles), candidate.predicted_cycles);
  return least;
}

/// Both halves of a reduction of whole images: of parts, and of those. The sums of parts are an image of four
/// columns, as lanes are, and some rows.
struct ImageHalves {
  Layer first, second;
  LayerTensor parts;
};

/// With parts of `rows` rows. Columns beyond the last are read as `fill`.
ImageHalves image_halves(const Layer& layer, const Shape& shape, int64_t rows, double fill) {
  const auto& whole = std::get<ReduceLayer>(layer.body);
  ImageHalves halves{layer, layer, {}};
  const int64_t columns = isa::ceil_div(shape[3], int64_t{isa::kCyclesPerStep});
  halves.parts.shape = {shape[0], shape[1], shape[2] / rows, isa::kCyclesPerStep};
  auto& first = std::get<ReduceLayer>(halves.first.body);
  first.epilogue = ScalarExpr::identity();
  first.output_extents = halves.parts.shape;
  first.reduction_extents = {rows, columns};
  first.inputs[0].fill = fill;
  AffineMap& map = first.inputs[0].map = AffineMap(4, 6);
  map.set(0, 0, 1).set(1, 1, 1).set(2, 2, rows).set(2, 4, 1).set(3, 3, columns).set(3, 5, 1);
  auto& second = std::get<ReduceLayer>(halves.second.body);
  const size_t outer = whole.output_extents.size();
  second.expr = ScalarExpr::identity();
  second.reduction_extents = {halves.parts.shape[2], halves.parts.shape[3]};
  second.inputs[0].fill = 0;
  second.inputs[0].map = AffineMap(4, outer + 2);
  second.inputs[0].map.set(0, 0, 1).set(1, 1, 1).set(2, outer, 1).set(3, outer + 1, 1);
  return halves;
}

/// Whole images in the way that takes fewest cycles: at once or by halves. Nothing where at once is best, or
/// the layer is something else.
std::optional<ImageHalves> best_image_halves(const Layer& layer, const LayerGraph& graph,
                                             const isa::Chip& chip) {
  const auto& reduce = std::get<ReduceLayer>(layer.body);
  const auto problem = pool_problem(reduce, layer.outputs.at(0), graph);
  if (!problem || reduce.inputs.size() != 1 || !reduce.epilogue_inputs.empty() ||
      problem->window.kernel != std::array{problem->in.rows, problem->in.columns} ||
      problem->window.pad != std::array<int64_t, 2>{} || reduce.reduction_extents.size() != 2) {
    return std::nullopt;
  }
  const double fill = identity_of(reduce.op);
  const Shape shape = graph.tensors[static_cast<size_t>(reduce.inputs[0].tensor)].shape;
  if (shape[3] % isa::kCyclesPerStep != 0 && problem->expr.evaluate(std::vector{fill}) != fill)
    return std::nullopt;
  std::optional<int64_t> least = cycles_on_rows(layer, graph, chip);
  std::optional<ImageHalves> best;
  for (int64_t rows = 1; rows < shape[2]; ++rows) {
    if (shape[2] % rows != 0) continue;
    // What the kernels promise, in a graph of these layers alone.
    ImageHalves halves = image_halves(layer, shape, rows, fill);
    LayerGraph trial;
    trial.tensors = {graph.tensors[static_cast<size_t>(reduce.inputs[0].tensor)], halves.parts,
                     graph.tensors[static_cast<size_t>(layer.outputs[0])]};
    const auto with = [](Layer half, TensorId input, TensorId output) {
      std::get<ReduceLayer>(half.body).inputs[0].tensor = input;
      half.outputs = {output};
      return half;
    };
    const auto first = cycles_on_rows(with(halves.first, 0, 1), trial, chip);
    const auto second = cycles_on_rows(with(halves.second, 1, 2), trial, chip);
    if (!first || !second || (least && *first + *second >= *least)) continue;
    least = *first + *second;
    best = std::move(halves);
  }
  return best;
}

/// A layer's sums over pictures become those of parts and of these, at `index` and behind it, with a layer
/// for terms before them if they need one. Says how many layers there are now; 0: as before.
size_t split_picture_sums(LayerGraph& graph, size_t index, const isa::Chip& chip, Names& names) {
  const Layer whole = graph.layers[index];
  auto halves = picture_sum_halves(
      std::get<ReduceLayer>(whole.body),
      [&](TensorId tensor) -> const Shape& { return graph.tensors[static_cast<size_t>(tensor)].shape; },
      chip);
  if (!halves) return 0;
  std::vector<Layer> layers;
  const auto add_layer = [&](const char* what, auto body, const Shape& made) {
    LayerTensor tensor;
    tensor.name = names.tensors.make_unique(graph.tensors[static_cast<size_t>(whole.outputs[0])].name + what);
    tensor.shape = made;
    Layer layer = whole;
    layer.name = names.layers.make_unique(whole.name + what);
    layer.body = std::move(body);
    layer.outputs = {static_cast<TensorId>(graph.tensors.size())};
    graph.tensors.push_back(std::move(tensor));
    layers.push_back(std::move(layer));
    return layers.back().outputs[0];
  };
  if (halves->terms) {
    const Shape made = halves->terms->extents;
    halves->first.inputs[0].tensor = add_layer("/terms", std::move(*halves->terms), made);
  }
  names.zeros.add(graph, names.tensors, halves->first.epilogue_inputs, halves->first.output_extents.size());
  const Shape parts = halves->first.output_extents;
  halves->second.inputs[0].tensor = add_layer("/parts", std::move(halves->first), parts);
  graph.layers[index].body = std::move(halves->second);
  graph.layers.insert(graph.layers.begin() + static_cast<std::ptrdiff_t>(index), layers.begin(),
                      layers.end());
  return layers.size() + 1;
}

enum class Split { kNone, kImage, kLists };

/// Splits layer `index` if that helps; the second half stands at index + 1 then.
Split split_layer(LayerGraph& graph, size_t index, const isa::Chip& chip, Names& names) {
  const auto* reduce = std::get_if<ReduceLayer>(&graph.layers[index].body);
  // Parts of doubles are no words: who adds such a layer adds two (compiler/layers/fold.cpp).
  if (reduce == nullptr || reduced_kind(*reduce) == ScalarKind::kDouble) return Split::kNone;
  const auto parts_of = [&](LayerTensor parts, const Layer& layer) {
    parts.name =
        names.tensors.make_unique(graph.tensors[static_cast<size_t>(layer.outputs[0])].name + "/parts");
    graph.tensors.push_back(std::move(parts));
    return static_cast<TensorId>(graph.tensors.size()) - 1;
  };
  const auto insert_first = [&](Layer first) {
    graph.layers.insert(graph.layers.begin() + static_cast<std::ptrdiff_t>(index), std::move(first));
  };
  if (auto halves = best_image_halves(graph.layers[index], graph, chip)) {
    const TensorId parts = parts_of(std::move(halves->parts), graph.layers[index]);
    halves->first.name = names.layers.make_unique(graph.layers[index].name + "/parts");
    halves->first.outputs = {parts};
    std::get<ReduceLayer>(halves->second.body).inputs[0].tensor = parts;
    graph.layers[index] = std::move(halves->second);
    insert_first(std::move(halves->first));
    return Split::kImage;
  }
  const std::vector<DimSplit> splits = choose_split(*reduce, chip);
  // Images that are best at once.
  if (splits.empty() || cycles_on_rows(graph.layers[index], graph, chip)) return Split::kNone;
  const size_t output_dims = reduce->output_extents.size();

  Layer first_layer;
  first_layer.name = names.layers.make_unique(graph.layers[index].name + "/parts");
  first_layer.onnx_ops = graph.layers[index].onnx_ops;
  first_layer.onnx_nodes = graph.layers[index].onnx_nodes;
  ReduceLayer first;
  first.op = reduce->op;
  first.expr = reduce->expr;
  first.epilogue = ScalarExpr::identity();
  first.output_extents = reduce->output_extents;
  for (const DimSplit& split : splits) first.output_extents.push_back(split.outer);
  for (const DimSplit& split : splits) first.reduction_extents.push_back(split.inner);
  for (const TensorAccess& input : reduce->inputs) {
    first.inputs.push_back({input.tensor, split_map(input.map, output_dims, splits), input.fill});
  }
  for (size_t r = 0; r < splits.size(); ++r) {
    const int64_t extent = reduce->reduction_extents[r];
    if (splits[r].outer * splits[r].inner > extent) {
      const std::string name = names.tensors.make_unique(fmt::format("{}/valid{}", first_layer.name, r));
      guard_dim(graph, name, first, output_dims, r, splits.size(), splits[r], extent);
    }
  }

  LayerTensor parts;
  if (reduce_kind(first.op) == ScalarKind::kInteger) parts.type = DataType::kInt32;
  parts.shape = first.output_extents;
  const TensorId parts_id = parts_of(std::move(parts), graph.layers[index]);
  first_layer.outputs = {parts_id};

  auto& second = std::get<ReduceLayer>(graph.layers[index].body);
  second.inputs = {{parts_id, AffineMap::identity(first.output_extents.size()), 0}};
  second.expr = ScalarExpr::identity();
  second.reduction_extents.assign(first.output_extents.begin() + static_cast<std::ptrdiff_t>(output_dims),
                                  first.output_extents.end());
  first_layer.body = std::move(first);
  insert_first(std::move(first_layer));
  return Split::kLists;
}

}  // namespace

void split_reductions(LayerGraph& graph, const isa::Chip& chip) {
  Names names;
  for (const Layer& layer : graph.layers) names.layers.reserve(layer.name);
  for (const LayerTensor& tensor : graph.tensors) names.tensors.reserve(tensor.name);
  for (size_t index = 0; index < graph.layers.size();) {
    // What is done for every image by itself, "reduce-rows" does.
    const auto* reduce = std::get_if<ReduceLayer>(&graph.layers[index].body);
    if (reduce != nullptr && !pool_problem(*reduce, graph.layers[index].outputs.at(0), graph)) {
      // What is left is a list of sums, which may be split again.
      if (const size_t made = split_picture_sums(graph, index, chip, names); made > 0) index += made - 1;
    }
    switch (split_layer(graph, index, chip, names)) {
      case Split::kNone:
        ++index;
        break;
      case Split::kImage:
        index += 2;
        break;
      case Split::kLists:
        break;  // both halves are looked at again
    }
  }
}

}  // namespace kodama::compiler
