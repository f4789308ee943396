#include "compiler/layers/fusion.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "compiler/layers/formula.h"
#include "isa/error.h"

namespace kodama::compiler {

namespace {

/// Nodes of a fused expression: each may need a temporary in the PE's registers. Formulas on pairs of words
/// have more of them, and more operands, than what they save by not being stored and loaded again.
constexpr size_t kMaxExprNodes = 48;
constexpr size_t kMaxWordNodes = 128;
constexpr size_t kMaxWordInputs = 9;

/// Who makes and who reads each storage.
class Uses {
 public:
  explicit Uses(const LayerGraph& graph)
      : graph_(graph),
        producer_(graph.tensors.size(), -1),
        readers_(graph.tensors.size()),
        is_output_(graph.tensors.size(), false) {
    for (size_t i = 0; i < graph.layers.size(); ++i) {
      for (TensorId id : graph.layers[i].outputs) {
        if (id >= 0) producer_[id] = static_cast<int>(i);
      }
      for (TensorId id : layer_inputs(graph.layers[i])) {
        auto& readers = readers_[graph.storage(id)];
        if (readers.empty() || readers.back() != static_cast<int>(i)) readers.push_back(static_cast<int>(i));
      }
    }
    for (TensorId id : graph.outputs) is_output_[graph.storage(id)] = true;
  }

  /// The layer that writes `id` itself (not what it is an alias of); -1 if none does.
  int producer(TensorId id) const { return producer_[id]; }
  /// The layers that read the storage, each once.
  const std::vector<int>& readers(TensorId id) const { return readers_[graph_.storage(id)]; }
  bool is_output(TensorId id) const { return is_output_[graph_.storage(id)]; }

 private:
  const LayerGraph& graph_;
  std::vector<int> producer_;
  std::vector<std::vector<int>> readers_;
  std::vector<bool> is_output_;
};

/// Whether `map`, over the whole space `extents`, reads the tensor of the same shape point by point. (Axes
/// of extent 1 may be written with any coefficient.)
bool is_pointwise(const AffineMap& map, const Shape& extents, const Shape& tensor_shape) {
  if (extents != tensor_shape) return false;
  for (size_t axis = 0; axis < map.axes(); ++axis) {
    if (map.offset(axis) != 0) return false;
    for (size_t dim = 0; dim < map.dims(); ++dim) {
      if (extents[dim] != 1 && map.coefficient(axis, dim) != (axis == dim ? 1 : 0)) return false;
    }
  }
  return true;
}

/// Whether `map` reads, at every point, one of both words of the element there: of a tensor with one axis
/// more than its elements have, the last. The space may have such an axis, too.
bool is_word_of_point(const AffineMap& map, const Shape& extents, const Shape& words) {
  if (words.empty() || words.back() != 2 || map.axes() != words.size()) return false;
  const size_t rank = words.size() - 1;
  if (extents.size() < rank) return false;
  for (size_t axis = 0; axis <= rank; ++axis) {
    if (axis < rank && (map.offset(axis) != 0 || extents[axis] != words[axis])) return false;
    for (size_t dim = 0; dim < map.dims(); ++dim) {
      if (extents[dim] != 1 && map.coefficient(axis, dim) != (axis == dim && axis < rank ? 1 : 0))
        return false;
    }
  }
  return element_count(extents) <= element_count(words);
}

/// Operands that are one integer of a constant become part of the expression.
void take_constants(const LayerGraph& graph, const std::vector<TensorAccess>& inputs, int first,
                    ScalarExpr& expr) {
  for (size_t k = 0; k < inputs.size(); ++k) {
    const auto& [tensor, map, fill] = inputs[k];
    const LayerTensor& source = graph.tensors[static_cast<size_t>(tensor)];
    if (!source.constant || word_kind(source.type) != ScalarKind::kInteger) continue;
    int64_t place = 0;
    bool is_one = true;
    for (size_t axis = 0; axis < map.axes(); ++axis) {
      place = place * source.shape[axis] + map.offset(axis);
      is_one = is_one && map.offset(axis) >= 0 && map.offset(axis) < source.shape[axis];
      for (size_t dim = 0; dim < map.dims(); ++dim) is_one = is_one && map.coefficient(axis, dim) == 0;
    }
    if (!is_one) continue;
    const uint32_t word = word_of(element_as_double(*source.constant, place), source.type);
    expr = expr.with_constant(first + static_cast<int>(k), ScalarKind::kInteger, word);
  }
}

/// A value that would have been rounded to a narrower type than the result has must be: Cast to float16 and
/// back is not the identity.
bool loses_rounding(const LayerGraph& graph, TensorId between, TensorId result) {
  return !is_exact_word(graph.tensors[between].type) &&
         graph.tensors[between].type != graph.tensors[result].type;
}

void join_origins(Layer& into, const Layer& first) {
  into.onnx_ops.insert(into.onnx_ops.begin(), first.onnx_ops.begin(), first.onnx_ops.end());
  into.onnx_nodes.insert(into.onnx_nodes.begin(), first.onnx_nodes.begin(), first.onnx_nodes.end());
}

/// `expr` over `inputs` with every read of `producer_output` replaced by `producer` over its inputs.
/// `first`: the number of inputs[0] in `expr` (1 for an epilogue).
struct Substituted {
  ScalarExpr expr;
  std::vector<TensorAccess> inputs;
};
Substituted substitute_map(const LayerGraph& graph, const ScalarExpr& expr,
                           const std::vector<TensorAccess>& inputs, int first, TensorId producer_output,
                           const MapLayer& producer) {
  Substituted result{expr, inputs};
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].tensor != producer_output) continue;
    // Operands of the producer are appended; the replaced one is no longer used and goes at the end.
    std::vector<int> producer_numbers;
    for (const TensorAccess& access : producer.inputs) {
      producer_numbers.push_back(first + static_cast<int>(result.inputs.size()));
      result.inputs.push_back({access.tensor, access.map.after(inputs[i].map), access.fill});
    }
    std::vector<int> own_numbers(first + result.inputs.size());
    for (size_t k = 0; k < own_numbers.size(); ++k) own_numbers[k] = static_cast<int>(k);
    result.expr =
        result.expr.substitute(first + static_cast<int>(i), producer.expr, producer_numbers, own_numbers);
  }
  take_constants(graph, result.inputs, first, result.expr);
  tidy_inputs(result.expr, result.inputs, first);
  return result;
}

/// Tries to make the Map `producer` part of `consumer`, which alone reads it.
bool fuse_map_into(LayerGraph& graph, const Layer& producer, Layer& consumer) {
  const auto& map = std::get<MapLayer>(producer.body);
  const TensorId between = producer.outputs[0];
  if (loses_rounding(graph, between, consumer.outputs[0])) return false;
  std::vector<TensorAccess>* inputs = nullptr;
  ScalarExpr* expr = nullptr;
  if (auto* next = std::get_if<MapLayer>(&consumer.body)) {
    inputs = &next->inputs;
    expr = &next->expr;
  } else if (auto* reduce = std::get_if<ReduceLayer>(&consumer.body)) {
    for (const auto& access : reduce->epilogue_inputs) {
      if (graph.storage(access.tensor) == between) return false;
    }
    inputs = &reduce->inputs;
    expr = &reduce->expr;
  } else {
    return false;
  }
  const auto accesses = layer_accesses(std::as_const(consumer));
  const auto boxes = layer_access_boxes(consumer);
  bool in_words = false;
  for (size_t i = 0; i < inputs->size(); ++i) {
    const TensorAccess& access = *accesses[i];
    if (graph.storage(access.tensor) != between) continue;
    if (access.tensor != between) return false;  // as another shape
    const Shape& points = boxes[i].end;
    if (is_word_of_point(access.map, points, map.extents)) {
      in_words = true;
      continue;
    }
    if (consumer.kind() == LayerKind::kMap ? !is_pointwise(access.map, points, map.extents)
                                           // A window that overlaps would compute values again.
                                           : !access.map.stays_inside(points, map.extents) ||
                                                 element_count(points) > element_count(map.extents)) {
      return false;
    }
  }
  Substituted fused = substitute_map(graph, *expr, *inputs, 0, between, map);
  if (fused.inputs.empty() || fused.inputs.size() > (in_words ? kMaxWordInputs : kMaxLayerInputs) ||
      fused.expr.nodes().size() > (in_words ? kMaxWordNodes : kMaxExprNodes)) {
    return false;
  }
  *expr = std::move(fused.expr);
  *inputs = std::move(fused.inputs);
  join_origins(consumer, producer);
  return true;
}

/// Tries to make the Map `consumer` the epilogue of `producer`; the fused layer takes the Map's place in the
/// order, where all operands of both are there.
bool fuse_epilogue_into(LayerGraph& graph, const Layer& producer, Layer& consumer) {
  const auto& map = std::get<MapLayer>(consumer.body);
  const TensorId between = producer.outputs[0];
  if (loses_rounding(graph, between, consumer.outputs[0])) return false;
  Layer fused = producer;
  ScalarExpr* epilogue = nullptr;
  std::vector<TensorAccess>* epilogue_inputs = nullptr;
  AffineMap to_output;  // iteration point of the epilogue's inputs -> output index
  if (auto* contract = std::get_if<ContractLayer>(&fused.body)) {
    epilogue = &contract->epilogue;
    epilogue_inputs = &contract->epilogue_inputs;
    to_output = contract->output;
  } else if (auto* reduce = std::get_if<ReduceLayer>(&fused.body)) {
    epilogue = &reduce->epilogue;
    epilogue_inputs = &reduce->epilogue_inputs;
    to_output = AffineMap::identity(reduce->output_extents.size());
  } else {
    return false;
  }
  for (const TensorAccess& access : map.inputs) {
    if (graph.storage(access.tensor) != between) continue;
    if (access.tensor != between || !is_pointwise(access.map, map.extents, graph.tensors[between].shape)) {
      return false;
    }
  }
  // Epilogue input 0 is the layer's own value; its other inputs, then the Map's.
  std::vector<TensorAccess> inputs = *epilogue_inputs;
  std::vector<int> map_numbers;
  int replaced = -1;
  for (size_t i = 0; i < map.inputs.size(); ++i) {
    const TensorAccess& access = map.inputs[i];
    if (access.tensor == between) {
      // Equal accesses are one input, but an axis of extent 1 can be written in two ways.
      if (replaced >= 0) return false;
      replaced = static_cast<int>(i);
      map_numbers.push_back(-1);
      continue;
    }
    map_numbers.push_back(1 + static_cast<int>(inputs.size()));
    inputs.push_back({access.tensor, access.map.after(to_output), access.fill});
  }
  std::vector<int> epilogue_numbers(1 + epilogue_inputs->size());
  for (size_t k = 0; k < epilogue_numbers.size(); ++k) epilogue_numbers[k] = static_cast<int>(k);
  ScalarExpr expr = map.expr.substitute(replaced, *epilogue, epilogue_numbers, map_numbers);
  tidy_inputs(expr, inputs, 1);
  if (inputs.size() > kMaxLayerInputs || expr.nodes().size() > kMaxExprNodes) return false;
  *epilogue = std::move(expr);
  *epilogue_inputs = std::move(inputs);
  fused.outputs = consumer.outputs;
  fused.onnx_ops.insert(fused.onnx_ops.end(), consumer.onnx_ops.begin(), consumer.onnx_ops.end());
  fused.onnx_nodes.insert(fused.onnx_nodes.end(), consumer.onnx_nodes.begin(), consumer.onnx_nodes.end());
  consumer = std::move(fused);
  return true;
}

/// After an operand of a Contract changed, dims may have become another's: what was batch in an expanded
/// operand is now M or N. False if a dim fits no role any more.
bool assign_roles(ContractLayer& contract) {
  using Role = ContractLayer::Role;
  const auto reads = [](const AffineMap& map, size_t dim) {
    for (size_t axis = 0; axis < map.axes(); ++axis) {
      if (map.coefficient(axis, dim) != 0) return true;
    }
    return false;
  };
  for (size_t dim = 0; dim < contract.dims.size(); ++dim) {
    auto& [name, extent, role] = contract.dims[dim];
    const bool in_a = reads(contract.a.map, dim);
    const bool in_b = reads(contract.b.map, dim);
    if (extent == 1) continue;
    if (!in_a && !in_b) return false;
    if (role == Role::kK) continue;
    role = in_a && in_b ? Role::kBatch : in_a ? Role::kM : Role::kN;
  }
  return true;
}

/// By axis of a tensor, the dim of the space that is its index, which has the same extent, or -1 for axes of
/// extent 1; nothing where the access is something else, or a dim of extent 2 or more has no axis of its own.
std::optional<std::vector<int>> dims_of_axes(const AffineMap& map, const Shape& space, const Shape& shape) {
  std::vector<int> dims(shape.size(), -1);
  std::vector<bool> taken(space.size(), false);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (map.offset(axis) != 0) return std::nullopt;
    for (size_t dim = 0; dim < space.size(); ++dim) {
      if (map.coefficient(axis, dim) == 0 || space[dim] == 1) continue;
      if (map.coefficient(axis, dim) != 1 || dims[axis] >= 0 || taken[dim] || space[dim] != shape[axis])
        return std::nullopt;
      dims[axis] = static_cast<int>(dim);
      taken[dim] = true;
    }
    if (dims[axis] < 0 && shape[axis] != 1) return std::nullopt;
  }
  for (size_t dim = 0; dim < space.size(); ++dim) {
    if (space[dim] != 1 && !taken[dim]) return std::nullopt;
  }
  return dims;
}

/// Of an access over `space` that reads a tensor transposed, the axis that each dim is; nothing for others.
std::optional<std::vector<int>> axes_of_dims(const AffineMap& map, const Shape& space, const Shape& shape) {
  const auto dims = dims_of_axes(map, space, shape);
  if (!dims || shape.size() != space.size()) return std::nullopt;
  std::vector<int> axes(shape.size(), -1);
  std::vector<int> ones;  // axes of extent 1 stand for any dim of extent 1
  for (size_t axis = 0; axis < dims->size(); ++axis) {
    if ((*dims)[axis] >= 0) {
      axes[static_cast<size_t>((*dims)[axis])] = static_cast<int>(axis);
    } else {
      ones.push_back(static_cast<int>(axis));
    }
  }
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (*axis >= 0) continue;
    *axis = ones.back();
    ones.pop_back();
  }
  return axes;
}

/// Tries to make the sum `consumer` part of the Contract `producer`.
bool fuse_sum_into(LayerGraph& graph, const Layer& producer, Layer& consumer) {
  using Role = ContractLayer::Role;
  const auto& reduce = std::get<ReduceLayer>(consumer.body);
  const TensorId between = producer.outputs[0];
  Layer fused = producer;
  auto& contract = std::get<ContractLayer>(fused.body);
  if (reduce.op != ReduceLayer::Op::kSum || reduce.inputs.size() != 1 || reduce.inputs[0].tensor != between ||
      reduce.expr != ScalarExpr::identity() || contract.epilogue != ScalarExpr::identity() ||
      !contract.epilogue_inputs.empty() || loses_rounding(graph, between, consumer.outputs[0])) {
    return false;
  }
  Shape space = reduce.output_extents;
  space.insert(space.end(), reduce.reduction_extents.begin(), reduce.reduction_extents.end());
  Shape extents;
  for (const ContractLayer::Dim& dim : contract.dims)
    extents.push_back(dim.role == Role::kK ? 1 : dim.extent);
  const auto read = dims_of_axes(reduce.inputs[0].map, space, contract.output_shape);
  const auto made = dims_of_axes(contract.output, extents, contract.output_shape);
  if (!read || !made) return false;
  AffineMap output(reduce.output_extents.size(), contract.dims.size());
  for (size_t axis = 0; axis < read->size(); ++axis) {
    if ((*read)[axis] < 0) continue;
    const auto from = static_cast<size_t>((*made)[axis]);
    const auto to = static_cast<size_t>((*read)[axis]);
    if (to < reduce.output_extents.size()) {
      output.set(to, from, 1);
    } else if (contract.dims[from].role != Role::kBatch) {
      return false;
    } else {
      contract.dims[from].role = Role::kK;
    }
  }
  contract.output = output;
  contract.output_shape = reduce.output_extents;
  contract.epilogue = reduce.epilogue;
  for (const TensorAccess& access : reduce.epilogue_inputs)
    contract.epilogue_inputs.push_back({access.tensor, access.map.after(output), access.fill});
  fused.outputs = consumer.outputs;
  fused.onnx_ops.insert(fused.onnx_ops.end(), consumer.onnx_ops.begin(), consumer.onnx_ops.end());
  fused.onnx_nodes.insert(fused.onnx_nodes.end(), consumer.onnx_nodes.begin(), consumer.onnx_nodes.end());
  consumer = std::move(fused);
  return true;
}

/// The Contract with its output's axes in another order: axis k is `axes[k]` of what it was.
ContractLayer transposed(const ContractLayer& contract, const std::vector<int>& axes, const Shape& shape) {
  ContractLayer result = contract;
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    for (size_t dim = 0; dim < contract.dims.size(); ++dim)
      result.output.set(axis, dim, contract.output.coefficient(static_cast<size_t>(axes[axis]), dim));
  }
  result.output_shape = shape;
  return result;
}

/// A Map of one tensor, times or divided by a constant.
bool is_scale(const Layer& layer) {
  const auto* map = std::get_if<MapLayer>(&layer.body);
  if (map == nullptr || map->inputs.size() != 1 || map->expr.nodes().size() != 3) return false;
  const ScalarNode& scale = map->expr.nodes().back();
  if (scale.op != ScalarOp::kMul && scale.op != ScalarOp::kDiv) return false;
  const auto is = [&](size_t arg, ScalarOp op) {
    return map->expr.nodes()[static_cast<size_t>(scale.args.at(arg))].op == op;
  };
  return (is(0, ScalarOp::kInput) && is(1, ScalarOp::kConstant)) ||
         (scale.op == ScalarOp::kMul && is(0, ScalarOp::kConstant) && is(1, ScalarOp::kInput));
}

/// Tries to make the scale `producer` part of the epilogue of `consumer`, a Contract that alone reads it.
bool fuse_scale_into(LayerGraph& graph, const Layer& producer, Layer& consumer) {
  const auto& map = std::get<MapLayer>(producer.body);
  const TensorId between = producer.outputs[0];
  if (graph.tensors[between].type != DataType::kFloat32) return false;
  ContractLayer fused = std::get<ContractLayer>(consumer.body);
  // Once, and as an operand of the product.
  int reads = 0;
  for (const TensorAccess* access : layer_accesses(std::as_const(consumer)))
    reads += graph.storage(access->tensor) == between ? 1 : 0;
  TensorAccess& operand = fused.a.tensor == between ? fused.a : fused.b;
  const TensorAccess& source = map.inputs[0];
  if (reads != 1 || operand.tensor != between || operand.fill != 0 ||
      !source.map.stays_inside(map.extents, graph.tensors[source.tensor].shape))
    return false;
  // What is outside the Map's space must be outside the source, too.
  const auto boxes = layer_access_boxes(consumer);
  const AccessBox& box = boxes[&operand == &fused.a ? 0 : 1];
  if (!operand.map.stays_inside(box.begin, box.end, map.extents)) return false;
  operand = {source.tensor, source.map.after(operand.map), 0};
  if (!assign_roles(fused)) return false;
  std::vector<int> own(1 + fused.epilogue_inputs.size());
  std::iota(own.begin(), own.end(), 0);
  constexpr std::array<int, 1> kProduct = {0};
  fused.epilogue = fused.epilogue.substitute(0, map.expr, kProduct, own);
  if (fused.epilogue.nodes().size() > kMaxExprNodes) return false;
  consumer.body = std::move(fused);
  join_origins(consumer, producer);
  return true;
}

/// Calls try_fuse(producer, consumer) for layers of which `consumer` alone reads what `producer` makes, in
/// execution order and until nothing changes; where it says true, the producer is gone.
template <typename CanProduce, typename CanConsume, typename TryFuse>
void fuse_pairs(LayerGraph& graph, CanProduce&& can_produce, CanConsume&& can_consume, TryFuse&& try_fuse) {
  const Uses uses(graph);
  std::vector<bool> gone(graph.layers.size(), false);
  // The uses are those before the pass: what a fused layer read, the layer that it is in reads now.
  std::vector<int> now_in(graph.layers.size());
  std::iota(now_in.begin(), now_in.end(), 0);
  const auto reader_now = [&](int layer) {
    while (now_in[layer] != layer) layer = now_in[layer];
    return layer;
  };
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    if (!can_consume(graph.layers[i])) continue;
    // What was fused into this layer brings its own operands, whose producers come next.
    for (bool changed = true; changed;) {
      changed = false;
      const auto inputs = layer_inputs(graph.layers[i]);
      // The last one first: its value is the youngest, so it needs to live the shortest.
      std::vector<int> producers;
      for (TensorId id : inputs) producers.push_back(uses.producer(id));
      std::sort(producers.rbegin(), producers.rend());
      producers.erase(std::unique(producers.begin(), producers.end()), producers.end());
      for (int producer : producers) {
        if (producer < 0 || gone[producer] || !can_produce(graph.layers[producer])) continue;
        const TensorId between = graph.layers[producer].outputs[0];
        const auto& readers = uses.readers(between);
        const bool alone = !uses.is_output(between) &&
                           std::all_of(readers.begin(), readers.end(),
                                       [&](int reader) { return reader_now(reader) == static_cast<int>(i); });
        if (!alone || !try_fuse(graph.layers[producer], graph.layers[i])) continue;
        gone[producer] = true;
        now_in[producer] = static_cast<int>(i);
        changed = can_consume(graph.layers[i]);
        break;
      }
    }
  }
  std::vector<Layer> kept;
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    if (!gone[i]) kept.push_back(std::move(graph.layers[i]));
  }
  graph.layers = std::move(kept);
}

bool is_map(const Layer& layer) {
  return layer.kind() == LayerKind::kMap;
}

/// What a Rearrange with one piece does to those who read it.
struct SimpleRearrange {
  TensorAccess source;  ///< over the Rearrange's output indices
  Shape extents;
  double fill = 0;         ///< outside the piece
  bool fills_all = false;  ///< the piece is the whole output and stays inside its source
  /// Each output axis is the source axis of the same number, shifted, and the piece is all of the source: so
  /// what is outside the source is exactly what is outside the piece.
  bool is_padding = false;
};

std::optional<SimpleRearrange> simple_rearrange(const LayerGraph& graph, const Layer& layer) {
  const auto* rearrange = std::get_if<RearrangeLayer>(&layer.body);
  if (rearrange == nullptr || rearrange->pieces.size() != 1) return std::nullopt;
  const auto& piece = rearrange->pieces[0];
  const Shape& source = graph.tensors[piece.input.tensor].shape;
  const size_t rank = rearrange->extents.size();
  SimpleRearrange simple{piece.input, rearrange->extents, rearrange->fill, false, source.size() == rank};
  simple.fills_all = piece.begin == std::vector<int64_t>(rank, 0) && piece.end == rearrange->extents &&
                     piece.input.map.stays_inside(rearrange->extents, source);
  for (size_t axis = 0; axis < rank && simple.is_padding; ++axis) {
    const AffineMap& map = piece.input.map;
    for (size_t dim = 0; dim < rank; ++dim) {
      if (map.coefficient(axis, dim) != (axis == dim ? 1 : 0)) simple.is_padding = false;
    }
    if (piece.begin[axis] != -map.offset(axis) || piece.end[axis] != source[axis] - map.offset(axis)) {
      simple.is_padding = false;
    }
  }
  if (!simple.fills_all && !simple.is_padding) return std::nullopt;
  return simple;
}

/// The access to the Rearrange's source that reads what `access` (at the points of `box`) reads from the
/// Rearrange; nullopt if there is none.
std::optional<TensorAccess> through_rearrange(const SimpleRearrange& rearrange, const TensorAccess& access,
                                              const AccessBox& box) {
  TensorAccess composed{rearrange.source.tensor, rearrange.source.map.after(access.map), access.fill};
  const bool inside = access.map.stays_inside(box.begin, box.end, rearrange.extents);
  if (rearrange.fills_all) {
    if (inside) return composed;
    return std::nullopt;
  }
  // Outside the source lies the padding, and outside of that whatever the reader fills with.
  if (!inside && access.fill != rearrange.fill) return std::nullopt;
  composed.fill = rearrange.fill;
  return composed;
}

}  // namespace

void fuse_maps(LayerGraph& graph) {
  fuse_pairs(graph, is_map, is_map, [&](const Layer& producer, Layer& consumer) {
    return fuse_map_into(graph, producer, consumer);
  });
}

void fuse_reductions(LayerGraph& graph) {
  fuse_pairs(
      graph, is_map, [](const Layer& layer) { return layer.kind() == LayerKind::kReduce; },
      [&](const Layer& producer, Layer& consumer) { return fuse_map_into(graph, producer, consumer); });
}

void fuse_epilogues(LayerGraph& graph) {
  fuse_pairs(
      graph,
      [](const Layer& layer) {
        return layer.kind() == LayerKind::kContract || layer.kind() == LayerKind::kReduce;
      },
      is_map,
      [&](const Layer& producer, Layer& consumer) { return fuse_epilogue_into(graph, producer, consumer); });
}

void fuse_sums(LayerGraph& graph, int64_t least) {
  fuse_pairs(
      graph, [](const Layer& layer) { return layer.kind() == LayerKind::kContract; },
      [&](const Layer& layer) {
        const auto* reduce = std::get_if<ReduceLayer>(&layer.body);
        return reduce != nullptr && element_count(reduce->output_extents) >= least;
      },
      [&](const Layer& producer, Layer& consumer) { return fuse_sum_into(graph, producer, consumer); });
  drop_unused_tensors(graph);
}

void fuse_transposed_epilogues(LayerGraph& graph) {
  const Uses uses(graph);
  const auto is_made = [&](const TensorAccess& access) {
    return uses.producer(graph.storage(access.tensor)) >= 0;
  };
  std::vector<bool> gone(graph.layers.size(), false);
  for (Layer& layer : graph.layers) {
    if (!is_map(layer)) continue;
    const auto inputs = std::get<MapLayer>(layer.body).inputs;
    for (size_t k = 0; k < inputs.size(); ++k) {
      const TensorId between = inputs[k].tensor;
      const int first = uses.producer(between);
      if (first < 0 || uses.is_output(between) || uses.readers(between).size() != 1) continue;
      const Layer& maker = graph.layers[static_cast<size_t>(first)];
      const auto* contract = std::get_if<ContractLayer>(&maker.body);
      if (contract == nullptr || !contract->epilogue_inputs.empty() || !is_made(contract->a) ||
          !is_made(contract->b)) {
        continue;
      }
      Shape& shape = graph.tensors[static_cast<size_t>(between)].shape;
      const Shape extents = std::get<MapLayer>(layer.body).extents;
      const auto axes = axes_of_dims(inputs[k].map, extents, shape);
      if (!axes || std::ranges::is_sorted(*axes)) continue;
      // The tensor as it would be, which is nowhere then.
      Layer producer = maker;
      producer.body = transposed(*contract, *axes, extents);
      Layer consumer = layer;
      std::get<MapLayer>(consumer.body).inputs[k].map = AffineMap::identity(extents.size());
      const Shape before = std::exchange(shape, extents);
      if (!fuse_epilogue_into(graph, producer, consumer)) {
        graph.tensors[static_cast<size_t>(between)].shape = before;
        continue;
      }
      layer = std::move(consumer);
      gone[static_cast<size_t>(first)] = true;
      break;
    }
  }
  std::vector<Layer> kept;
  for (size_t k = 0; k < graph.layers.size(); ++k) {
    if (!gone[k]) kept.push_back(std::move(graph.layers[k]));
  }
  graph.layers = std::move(kept);
  drop_unused_tensors(graph);
}

void fuse_scales(LayerGraph& graph) {
  fuse_pairs(
      graph, is_scale, [](const Layer& layer) { return layer.kind() == LayerKind::kContract; },
      [&](const Layer& producer, Layer& consumer) { return fuse_scale_into(graph, producer, consumer); });
}

void fold_rearranges(LayerGraph& graph) {
  const Uses uses(graph);
  // In execution order: a Rearrange's own source has been folded before those who read the Rearrange ask for
  // it.
  for (Layer& layer : graph.layers) {
    const auto accesses = layer_accesses(layer);
    const auto boxes = layer_access_boxes(layer);
    for (size_t i = 0; i < accesses.size(); ++i) {
      const int producer = uses.producer(accesses[i]->tensor);
      if (producer < 0) continue;
      const auto rearrange = simple_rearrange(graph, graph.layers[producer]);
      if (!rearrange) continue;
      const auto composed = through_rearrange(*rearrange, *accesses[i], boxes[i]);
      if (!composed) continue;
      const TensorAccess before = *accesses[i];
      *accesses[i] = *composed;
      auto* contract = std::get_if<ContractLayer>(&layer.body);
      if (contract != nullptr && i < 2) {
        const auto dims = contract->dims;
        if (!assign_roles(*contract)) {
          *accesses[i] = before;
          contract->dims = dims;
        }
      }
    }
  }
  drop_unread_rearranges(graph);
}

void drop_unread_rearranges(LayerGraph& graph) {
  // Backwards, so that a chain of Rearranges goes at once.
  std::vector<int> reads(graph.tensors.size(), 0);
  for (TensorId id : graph.outputs) ++reads[graph.storage(id)];
  for (const Layer& layer : graph.layers) {
    for (TensorId id : layer_inputs(layer)) ++reads[graph.storage(id)];
  }
  std::vector<Layer> kept;
  for (auto layer = graph.layers.rbegin(); layer != graph.layers.rend(); ++layer) {
    if (layer->kind() == LayerKind::kRearrange && reads[layer->outputs[0]] == 0) {
      for (TensorId id : layer_inputs(*layer)) --reads[graph.storage(id)];
    } else {
      kept.push_back(std::move(*layer));
    }
  }
  std::reverse(kept.begin(), kept.end());
  graph.layers = std::move(kept);
}

void drop_unused_tensors(LayerGraph& graph) {
  std::vector<bool> used(graph.tensors.size(), false);
  const auto use = [&](TensorId id) {
    for (; id >= 0; id = graph.tensors[id].alias_of) used[id] = true;
  };
  for (TensorId id : graph.inputs) use(id);
  for (TensorId id : graph.outputs) use(id);
  for (const Layer& layer : graph.layers) {
    for (TensorId id : layer_inputs(layer)) use(id);
    for (TensorId id : layer.outputs) use(id);
  }
  std::vector<TensorId> numbers(graph.tensors.size(), -1);
  std::vector<LayerTensor> kept;
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    if (!used[i]) continue;
    numbers[i] = static_cast<TensorId>(kept.size());
    kept.push_back(std::move(graph.tensors[i]));
  }
  const auto renumber = [&](TensorId& id) {
    if (id >= 0) id = numbers[id];
  };
  for (LayerTensor& tensor : kept) renumber(tensor.alias_of);
  for (TensorId& id : graph.inputs) renumber(id);
  for (TensorId& id : graph.outputs) renumber(id);
  for (Check& check : graph.checks) renumber(check.tensor);
  for (Layer& layer : graph.layers) {
    for (TensorAccess* access : layer_accesses(layer)) renumber(access->tensor);
    for (TensorId& id : layer.host_inputs) renumber(id);
    for (TensorId& id : layer.outputs) renumber(id);
  }
  graph.tensors = std::move(kept);
}

TensorId seen_as(LayerGraph& graph, TensorId tensor, const Shape& shape) {
  LayerTensor alias;
  alias.name = graph.tensors[static_cast<size_t>(tensor)].name;
  alias.type = graph.tensors[static_cast<size_t>(tensor)].type;
  alias.shape = shape;
  alias.alias_of = graph.storage(tensor);
  graph.tensors.push_back(std::move(alias));
  return static_cast<TensorId>(graph.tensors.size() - 1);
}

void make_as(LayerGraph& graph, TensorId result, const Shape& shape) {
  const TensorId before = seen_as(graph, result, graph.tensors[static_cast<size_t>(result)].shape);
  graph.tensors[static_cast<size_t>(result)].shape = shape;
  for (Layer& reader : graph.layers) {
    for (TensorAccess* access : layer_accesses(reader)) {
      if (access->tensor == result) access->tensor = before;
    }
    std::ranges::replace(reader.host_inputs, result, before);
  }
  std::ranges::replace(graph.outputs, result, before);
}

}  // namespace kodama::compiler
