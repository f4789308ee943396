#include "compiler/kernels/split_reductions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/graph/fresh_names.h"
#include "compiler/kernels/builtin_kernels.h"
#include "compiler/kernels/spread.h"

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
  ones.constant = Tensor::from_values<float>(onnx::TensorProto_DataType_FLOAT, {extent},
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
  first.expr.set_result(first.expr.apply(ScalarOp::kSelectNotNegative, sign, value,
                                         first.expr.constant(identity_of(first.op))));
}

/// Both halves may be split again, and a model may have a node of any name.
struct Names {
  FreshNames layers, tensors;
};

/// Splits layer `index` if that helps; the second half stands at index + 1 then.
bool split_layer(LayerGraph& graph, size_t index, const isa::Chip& chip, Names& names) {
  const auto* reduce = std::get_if<ReduceLayer>(&graph.layers[index].body);
  if (reduce == nullptr) return false;
  const std::vector<DimSplit> splits = choose_split(*reduce, chip);
  if (splits.empty()) return false;
  // Images are reduced whole.
  if (!reduce_rows_kernel().run(graph.layers[index], graph, chip, {}).empty()) return false;
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
  parts.name = names.tensors.make_unique(
      graph.tensors[static_cast<size_t>(graph.layers[index].outputs[0])].name + "/parts");
  parts.shape = first.output_extents;
  const auto parts_id = static_cast<TensorId>(graph.tensors.size());
  graph.tensors.push_back(std::move(parts));
  first_layer.outputs = {parts_id};

  auto& second = std::get<ReduceLayer>(graph.layers[index].body);
  second.inputs = {{parts_id, AffineMap::identity(first.output_extents.size()), 0}};
  second.expr = ScalarExpr::identity();
  second.reduction_extents.assign(first.output_extents.begin() + static_cast<std::ptrdiff_t>(output_dims),
                                  first.output_extents.end());
  first_layer.body = std::move(first);
  graph.layers.insert(graph.layers.begin() + static_cast<std::ptrdiff_t>(index), std::move(first_layer));
  return true;
}

}  // namespace

void split_reductions(LayerGraph& graph, const isa::Chip& chip) {
  Names names;
  for (const Layer& layer : graph.layers) names.layers.reserve(layer.name);
  for (const LayerTensor& tensor : graph.tensors) names.tensors.reserve(tensor.name);
  for (size_t index = 0; index < graph.layers.size();) {
    // Both halves are looked at again.
    if (!split_layer(graph, index, chip, names)) ++index;
  }
}

}  // namespace kodama::compiler
