#include "compiler/layers/layer_graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

namespace kodama::compiler {

namespace {

template <typename LayerType, typename Access>
std::vector<Access*> collect_accesses(LayerType& layer) {
  std::vector<Access*> accesses;
  const auto add_all = [&](auto& list) {
    for (auto& access : list) accesses.push_back(&access);
  };
  std::visit(
      [&](auto& body) {
        using Body = std::remove_cvref_t<decltype(body)>;
        if constexpr (std::is_same_v<Body, MapLayer>) {
          add_all(body.inputs);
        } else if constexpr (std::is_same_v<Body, ReduceLayer>) {
          add_all(body.inputs);
          add_all(body.epilogue_inputs);
        } else if constexpr (std::is_same_v<Body, ContractLayer>) {
          accesses = {&body.a, &body.b};
          add_all(body.epilogue_inputs);
        } else if constexpr (std::is_same_v<Body, NormalizeLayer>) {
          add_all(body.inputs);
        } else if constexpr (std::is_same_v<Body, GatherLayer>) {
          add_all(body.index_inputs);
          accesses.push_back(&body.data);
          add_all(body.epilogue_inputs);
        } else if constexpr (std::is_same_v<Body, RearrangeLayer>) {
          for (auto& piece : body.pieces) accesses.push_back(&piece.input);
        }
      },
      layer.body);
  return accesses;
}

Shape concatenate(const Shape& a, const Shape& b) {
  Shape joined = a;
  joined.insert(joined.end(), b.begin(), b.end());
  return joined;
}

}  // namespace

std::string layer_kind_name(LayerKind kind) {
  return kLayerKindNames.at(static_cast<size_t>(kind));
}

std::vector<bool> steps_of_rows(const std::vector<NormalizeLayer::Step>& steps, size_t inputs) {
  std::vector<bool> of_rows;
  for (const NormalizeLayer::Step& step : steps) {
    const auto depends_on_rows = [&](const ScalarNode& node) {
      return node.op != ScalarOp::kInput ||
             (static_cast<size_t>(node.input) >= inputs && of_rows[static_cast<size_t>(node.input) - inputs]);
    };
    of_rows.push_back(step.op.has_value() || std::ranges::all_of(step.expr.nodes(), depends_on_rows));
  }
  return of_rows;
}

std::string role_name(ContractLayer::Role role) {
  constexpr const char* kNames[] = {"batch", "M", "N", "K"};
  return kNames[static_cast<size_t>(role)];
}

std::string reduce_op_name(ReduceLayer::Op op) {
  constexpr const char* kNames[] = {"sum", "max", "min", "prod", "int sum", "int max", "int min"};
  return kNames[static_cast<size_t>(op)];
}

double identity_of(ReduceLayer::Op op) {
  switch (op) {
    case ReduceLayer::Op::kSum:
      return 0;
    case ReduceLayer::Op::kMax:
      return -std::numeric_limits<double>::infinity();
    case ReduceLayer::Op::kMin:
      return std::numeric_limits<double>::infinity();
    case ReduceLayer::Op::kProd:
      return 1;
    case ReduceLayer::Op::kIntSum:
      return 0;
    case ReduceLayer::Op::kIntMax:
      return std::numeric_limits<int32_t>::min();
    case ReduceLayer::Op::kIntMin:
      return std::numeric_limits<int32_t>::max();
  }
  return 0;
}

ScalarKind reduce_kind(ReduceLayer::Op op) {
  return op >= ReduceLayer::Op::kIntSum ? ScalarKind::kInteger : ScalarKind::kFloat;
}

ScalarKind reduced_kind(const ReduceLayer& reduce) {
  return reduce.expr.is_double(reduce.expr.result()) ? ScalarKind::kDouble : reduce_kind(reduce.op);
}

std::optional<ScalarKind> word_kind(DataType type) {
  switch (type) {
    case DataType::kFloat32:
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return ScalarKind::kFloat;
    case DataType::kBool:
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kInt16:
    case DataType::kUint16:
    case DataType::kInt32:
    case DataType::kUint32:
      return ScalarKind::kInteger;
    default:
      return std::nullopt;
  }
}

uint32_t word_of(double value, DataType type) {
  return word_kind(type) == ScalarKind::kInteger ? static_cast<uint32_t>(static_cast<int64_t>(value))
                                                 : std::bit_cast<uint32_t>(static_cast<float>(value));
}

bool has_float_arithmetic(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBfloat16;
}

bool is_exact_word(DataType type) {
  return has_float_arithmetic(type) || word_kind(type) == ScalarKind::kInteger;
}

bool is_long(DataType type) {
  return type == DataType::kInt64 || type == DataType::kUint64 || type == DataType::kFloat64;
}
bool is_index_type(DataType type) {
  return type == DataType::kInt32 || type == DataType::kInt64;
}
Shape words_shape(Shape shape) {
  shape.push_back(2);
  return shape;
}
bool is_alias(const LayerTensor& tensor, const LayerTensor& other) {
  const int64_t elements = element_count(tensor.shape);
  if (is_long(tensor.type) && other.type == DataType::kInt32)
    return 2 * elements == element_count(other.shape);
  return tensor.type == other.type && elements == element_count(other.shape);
}

void throw_if_failed(const Check& check, const Tensor& value) {
  const auto look = [&](auto elements) {
    if (std::ranges::any_of(elements,
                            [&](int64_t each) { return each < check.lowest || each > check.highest; }))
      throw isa::UserError(check.message);
  };
  if (value.type() == DataType::kInt64) {
    look(value.data<int64_t>());
  } else {
    look(value.data<int32_t>());
  }
}

TensorId LayerGraph::add(LayerTensor tensor) {
  if (is_long(tensor.type) && !tensor.constant && tensor.alias_of < 0) {
    LayerTensor words{tensor.name + "/words", DataType::kInt32, words_shape(tensor.shape), {}, -1};
    tensor.alias_of = static_cast<TensorId>(tensors.size());
    tensors.push_back(std::move(words));
  }
  tensors.push_back(std::move(tensor));
  return static_cast<TensorId>(tensors.size()) - 1;
}

TensorId LayerGraph::words_of(TensorId id) {
  const LayerTensor& tensor = tensors[static_cast<size_t>(id)];
  if (!is_long(tensor.type)) return id;
  LayerTensor words{tensor.name + "/words", DataType::kInt32, words_shape(tensor.shape), {}, -1};
  if (tensor.constant) {
    words.constant = tensor.constant->reinterpreted(words.type, words.shape);
  } else {
    words.alias_of = storage(id);
    if (tensors[static_cast<size_t>(words.alias_of)].shape == words.shape) return words.alias_of;
  }
  tensors.push_back(std::move(words));
  return static_cast<TensorId>(tensors.size()) - 1;
}

bool LayerGraph::is_constant(TensorId id) const {
  return tensors[static_cast<size_t>(storage(id))].constant.has_value();
}

bool LayerGraph::is_packed(TensorId id) const {
  const auto is_it = [&](TensorId input) { return storage(input) == storage(id); };
  return is_constant(id) || std::ranges::any_of(inputs, is_it);
}

TensorId LayerGraph::storage(TensorId id) const {
  while (tensors.at(id).alias_of >= 0) id = tensors[id].alias_of;
  return id;
}

std::vector<const TensorAccess*> layer_accesses(const Layer& layer) {
  return collect_accesses<const Layer, const TensorAccess>(layer);
}
std::vector<TensorAccess*> layer_accesses(Layer& layer) {
  return collect_accesses<Layer, TensorAccess>(layer);
}

std::vector<TensorId> layer_inputs(const Layer& layer) {
  if (layer.kind() == LayerKind::kHost) {
    std::vector<TensorId> inputs;
    for (TensorId id : layer.host_inputs) {
      if (id >= 0) inputs.push_back(id);
    }
    return inputs;
  }
  std::vector<TensorId> inputs;
  for (const TensorAccess* access : layer_accesses(layer)) inputs.push_back(access->tensor);
  return inputs;
}

Shape contract_extents(const ContractLayer& contract) {
  Shape extents;
  for (const auto& dim : contract.dims) extents.push_back(dim.extent);
  return extents;
}

namespace {

/// The inputs of a Rearrange that puts them one after the other along an axis; empty where it doesn't.
std::vector<TensorId> concatenated_by(const RearrangeLayer& rearrange, size_t axis, const LayerGraph& graph) {
  std::vector<const RearrangeLayer::Piece*> pieces;
  for (const RearrangeLayer::Piece& piece : rearrange.pieces) pieces.push_back(&piece);
  std::ranges::sort(pieces, {}, [&](const auto* piece) { return piece->begin[axis]; });
  std::vector<TensorId> tensors;
  int64_t at = 0;
  for (const RearrangeLayer::Piece* piece : pieces) {
    Shape extents = rearrange.extents;
    extents[axis] = piece->end[axis] - piece->begin[axis];
    std::vector<int64_t> begin(extents.size(), 0);
    begin[axis] = at;
    AffineMap map = AffineMap::identity(extents.size());
    map.set_offset(axis, -at);
    at += extents[axis];
    std::vector<int64_t> end = extents;
    end[axis] = at;
    if (piece->begin != begin || piece->end != end || piece->input.map != map ||
        graph.tensors[static_cast<size_t>(piece->input.tensor)].shape != extents)
      return {};
    tensors.push_back(piece->input.tensor);
  }
  if (at != rearrange.extents[axis]) return {};
  return tensors;
}

}  // namespace

std::vector<TensorId> concatenated_of(const LayerGraph& graph, TensorId tensor, size_t axis) {
  for (const Layer& layer : graph.layers) {
    const auto* rearrange = std::get_if<RearrangeLayer>(&layer.body);
    if (rearrange == nullptr || layer.outputs.at(0) != tensor || axis >= rearrange->extents.size()) continue;
    std::vector<TensorId> all;
    for (const TensorId part : concatenated_by(*rearrange, axis, graph)) {
      const std::vector<TensorId> parts = concatenated_of(graph, part, axis);
      all.insert(all.end(), parts.begin(), parts.end());
    }
    if (!all.empty()) return all;
  }
  return {tensor};
}

std::vector<AccessBox> layer_access_boxes(const Layer& layer) {
  std::vector<AccessBox> boxes;
  const auto whole = [&](const Shape& extents, size_t count) {
    boxes.insert(boxes.end(), count, AccessBox{std::vector<int64_t>(extents.size(), 0), extents});
  };
  if (const auto* map = std::get_if<MapLayer>(&layer.body)) {
    whole(map->extents, map->inputs.size());
  } else if (const auto* reduce = std::get_if<ReduceLayer>(&layer.body)) {
    whole(concatenate(reduce->output_extents, reduce->reduction_extents), reduce->inputs.size());
    whole(reduce->output_extents, reduce->epilogue_inputs.size());
  } else if (const auto* contract = std::get_if<ContractLayer>(&layer.body)) {
    whole(contract_extents(*contract), 2 + contract->epilogue_inputs.size());
  } else if (const auto* normalize = std::get_if<NormalizeLayer>(&layer.body)) {
    whole(normalize->extents, normalize->inputs.size());
  } else if (const auto* gather = std::get_if<GatherLayer>(&layer.body)) {
    whole(gather->extents, gather->index_inputs.size());
    whole(concatenate(gather->extents, {gather->places}), 1);
    whole(gather->extents, gather->epilogue_inputs.size());
  } else if (const auto* rearrange = std::get_if<RearrangeLayer>(&layer.body)) {
    for (const auto& piece : rearrange->pieces) boxes.push_back({piece.begin, piece.end});
  }
  return boxes;
}

// ---------------------------------------------------------------------------------------------- verify

namespace {

class Verifier {
 public:
  Verifier(const LayerGraph& graph, const std::string& pass)
      : graph_(graph), pass_(pass), available_(graph.tensors.size(), false) {}

  void run() {
    check_tensors();
    for (size_t i = 0; i < graph_.tensors.size(); ++i) available_[i] = graph_.tensors[i].constant.has_value();
    for (TensorId id : graph_.inputs) {
      require(is_id(id) && own_storage(id) && !available_[graph_.storage(id)],
              "graph input {} is a constant, an alias, or listed twice", id);
      available_[graph_.storage(id)] = true;
    }
    std::set<std::string> names;
    for (const Layer& layer : graph_.layers) {
      where_ = fmt::format("layer '{}' ({}): ", layer.name, layer_kind_name(layer.kind()));
      require(names.insert(layer.name).second, "the name isn't unique");
      require(layer.onnx_ops.size() == layer.onnx_nodes.size() && !layer.onnx_ops.empty(),
              "{} operators, {} nodes", layer.onnx_ops.size(), layer.onnx_nodes.size());
      check_inputs(layer);
      check_outputs(layer);
      std::visit([&](const auto& body) { check(layer, body); }, layer.body);
    }
    where_ = "";
    require(graph_.checks.size() <= graph_.outputs.size(), "{} checks, {} outputs", graph_.checks.size(),
            graph_.outputs.size());
    for (size_t k = 0; k < graph_.checks.size(); ++k) {
      const TensorId id = graph_.checks[k].tensor;
      require(graph_.outputs[graph_.outputs.size() - graph_.checks.size() + k] == id,
              "the tensor of a check isn't the output that it should be");
      require(is_id(id) && is_index_type(tensor(id).type), "a check of tensor {}", id);
    }
    for (TensorId id : graph_.outputs) {
      require(is_id(id), "graph output {} doesn't exist", id);
      require(available_[graph_.storage(id)], "graph output '{}' is computed by no layer",
              graph_.tensors[id].name);
    }
  }

 private:
  template <typename... Args>
  void require(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (condition) return;
    isa::check_internal(false, "layer pass " + pass_, "{}{}", where_,
                        fmt::format(format, std::forward<Args>(args)...));
  }

  bool is_id(TensorId id) const { return id >= 0 && static_cast<size_t>(id) < graph_.tensors.size(); }
  const LayerTensor& tensor(TensorId id) const { return graph_.tensors[id]; }
  /// Whether it is no other name of a tensor but of its own words.
  bool own_storage(TensorId id) const {
    const TensorId words = tensor(id).alias_of;
    return words < 0 || (is_long(tensor(id).type) && tensor(words).alias_of < 0 &&
                         tensor(words).shape == words_shape(tensor(id).shape));
  }

  void check_tensors() {
    for (size_t i = 0; i < graph_.tensors.size(); ++i) {
      const LayerTensor& tensor = graph_.tensors[i];
      where_ = fmt::format("tensor {} '{}': ", i, tensor.name);
      if (tensor.constant) {
        require(tensor.constant->type() == tensor.type && tensor.constant->shape() == tensor.shape,
                "its constant is {} {}, it is {} {}", data_type_name(tensor.constant->type()),
                shape_to_string(tensor.constant->shape()), data_type_name(tensor.type),
                shape_to_string(tensor.shape));
        require(tensor.alias_of < 0, "a constant is an alias");
      }
      if (tensor.alias_of < 0) continue;
      // Aliases of earlier tensors only: no cycles.
      require(is_id(tensor.alias_of) && static_cast<size_t>(tensor.alias_of) < i, "alias of tensor {}",
              tensor.alias_of);
      const LayerTensor& other = graph_.tensors[tensor.alias_of];
      require(is_alias(tensor, other), "{} {} is an alias of {} {}", data_type_name(tensor.type),
              shape_to_string(tensor.shape), data_type_name(other.type), shape_to_string(other.shape));
    }
  }

  void check_inputs(const Layer& layer) const {
    for (TensorId id : layer_inputs(layer)) {
      require(is_id(id), "reads tensor {}, which doesn't exist", id);
      require(available_[graph_.storage(id)], "reads '{}' before it is computed", tensor(id).name);
    }
    const auto accesses = layer_accesses(layer);
    const auto boxes = layer_access_boxes(layer);
    for (size_t i = 0; i < accesses.size(); ++i) {
      const TensorAccess& access = *accesses[i];
      require(access.map.axes() == tensor(access.tensor).shape.size() &&
                  access.map.dims() == boxes[i].begin.size(),
              "access {} of '{}' {} has {} axes and {} dims where the iteration space has {}",
              access.map.to_string(), tensor(access.tensor).name,
              shape_to_string(tensor(access.tensor).shape), access.map.axes(), access.map.dims(),
              boxes[i].begin.size());
    }
  }

  void check_outputs(const Layer& layer) {
    require(layer.kind() == LayerKind::kHost ? !layer.outputs.empty() : layer.outputs.size() == 1,
            "{} outputs", layer.outputs.size());
    require(layer.kind() == LayerKind::kHost || layer.host_inputs.empty(),
            "host inputs in a layer of the chip");
    for (TensorId id : layer.outputs) {
      if (id == -1 && layer.kind() == LayerKind::kHost) continue;
      require(is_id(id), "writes tensor {}, which doesn't exist", id);
      require(own_storage(id) && !available_[graph_.storage(id)],
              "writes '{}', which is a constant, an alias, a graph input or written before", tensor(id).name);
      available_[graph_.storage(id)] = true;
    }
  }

  ScalarKind kind_of(TensorId id) const {
    const std::optional<ScalarKind> kind = word_kind(tensor(id).type);
    require(kind.has_value(), "computes on '{}' of type {}", tensor(id).name,
            data_type_name(tensor(id).type));
    return *kind;
  }
  std::vector<ScalarKind> kinds_of(const std::vector<TensorAccess>& accesses) const {
    std::vector<ScalarKind> kinds;
    for (const TensorAccess& access : accesses) kinds.push_back(kind_of(access.tensor));
    return kinds;
  }
  /// That the last of a layer's expressions makes what its output is.
  void check_result(const Layer& layer, ScalarKind made) const {
    require(made == kind_of(layer.outputs[0]), "makes {}, its output '{}' is {}",
            made == ScalarKind::kFloat ? "floats" : "integers", tensor(layer.outputs[0]).name,
            data_type_name(tensor(layer.outputs[0]).type));
  }
  /// Of an epilogue, of which input 0 is what the layer has computed.
  ScalarKind epilogue_kind(const ScalarExpr& epilogue, ScalarKind computed,
                           const std::vector<TensorAccess>& inputs) const {
    std::vector<ScalarKind> kinds = kinds_of(inputs);
    kinds.insert(kinds.begin(), computed);
    return epilogue.kind(kinds);
  }

  void check_output_shape(const Layer& layer, const Shape& extents) const {
    const LayerTensor& output = tensor(layer.outputs[0]);
    require(output.shape == extents, "computes {}, its output '{}' is {}", shape_to_string(extents),
            output.name, shape_to_string(output.shape));
  }

  void check_expr(const ScalarExpr& expr, size_t inputs, const char* what) const {
    require(!expr.nodes().empty(), "its {} is empty", what);
    if (static_cast<size_t>(expr.input_count()) <= inputs) return;  // formulas are long
    require(false, "its {} {} has {} inputs", what, expr.to_string(), inputs);
  }

  void check_reduced(const ScalarExpr& expr, ScalarKind kind, ScalarKind wanted, ReduceLayer::Op op) const {
    if (kind == wanted) return;  // formulas are long
    require(false, "'{}' reduces {}", expr.to_string(), reduce_op_name(op));
  }

  void check(const Layer& layer, const MapLayer& map) const {
    check_output_shape(layer, map.extents);
    check_expr(map.expr, map.inputs.size(), "expression");
    check_result(layer, map.expr.kind(kinds_of(map.inputs)));
    require(!map.inputs.empty(), "no inputs: it is a constant");
  }

  void check(const Layer& layer, const ReduceLayer& reduce) const {
    check_output_shape(layer, reduce.output_extents);
    check_expr(reduce.expr, reduce.inputs.size(), "expression");
    check_expr(reduce.epilogue, 1 + reduce.epilogue_inputs.size(), "epilogue");
    const ScalarKind kind = reduced_kind(reduce);
    require(reduce_kind(reduce.op) == ScalarKind::kFloat || kind != ScalarKind::kDouble,
            "'{}' reduces doubles", reduce_op_name(reduce.op));
    check_reduced(reduce.expr, reduce.expr.kind(kinds_of(reduce.inputs)), kind, reduce.op);
    check_result(layer, epilogue_kind(reduce.epilogue, kind, reduce.epilogue_inputs));
    require(!reduce.inputs.empty(), "no inputs: it is a constant");
    require(element_count(reduce.reduction_extents) > 0, "nothing to reduce: {}",
            shape_to_string(reduce.reduction_extents));
  }

  void check(const Layer& layer, const NormalizeLayer& normalize) const {
    check_output_shape(layer, normalize.extents);
    require(!normalize.inputs.empty(), "no inputs: it is a constant");
    require(normalize.reduced.size() == normalize.extents.size() && element_count(normalize.extents) > 0 &&
                std::ranges::count(normalize.reduced, true) > 0,
            "{} of the axes of {} are reduced", std::ranges::count(normalize.reduced, true),
            shape_to_string(normalize.extents));
    std::vector<ScalarKind> kinds = kinds_of(normalize.inputs);
    for (size_t k = 0; k < normalize.steps.size(); ++k) {
      const auto& [op, expr] = normalize.steps[k];
      check_expr(expr, normalize.inputs.size() + k, "step");
      kinds.push_back(expr.kind(kinds));
      if (op) check_reduced(expr, kinds.back(), reduce_kind(*op), *op);
    }
    check_result(layer, kinds.back());
    require(!normalize.steps.empty() && !normalize.steps.back().op, "the last of its {} steps is no map",
            normalize.steps.size());
  }

  void check(const Layer& layer, const GatherLayer& gather) const {
    check_output_shape(layer, gather.extents);
    check_expr(gather.index, gather.index_inputs.size(), "index");
    check_expr(gather.epilogue, 1 + gather.epilogue_inputs.size(), "epilogue");
    require(gather.places > 0, "{} places", gather.places);
    require(!gather.index_inputs.empty(), "its index is a constant");
    require(gather.index.kind(kinds_of(gather.index_inputs)) == ScalarKind::kInteger,
            "the index '{}' is a float", gather.index.to_string());
    check_result(layer, epilogue_kind(gather.epilogue, kind_of(gather.data.tensor), gather.epilogue_inputs));
  }

  void check(const Layer& layer, const ContractLayer& contract) const {
    using Role = ContractLayer::Role;
    check_output_shape(layer, contract.output_shape);
    check_expr(contract.epilogue, 1 + contract.epilogue_inputs.size(), "epilogue");
    for (const TensorAccess* operand : {&contract.a, &contract.b})
      require(kind_of(operand->tensor) == ScalarKind::kFloat, "multiplies '{}' of type {}",
              tensor(operand->tensor).name, data_type_name(tensor(operand->tensor).type));
    check_result(layer, epilogue_kind(contract.epilogue, ScalarKind::kFloat, contract.epilogue_inputs));
    require(contract.output.axes() == contract.output_shape.size() &&
                contract.output.dims() == contract.dims.size(),
            "the output's map is {}", contract.output.to_string());
    const auto reads = [](const AffineMap& map, size_t dim) {
      for (size_t axis = 0; axis < map.axes(); ++axis) {
        if (map.coefficient(axis, dim) != 0) return true;
      }
      return false;
    };
    for (size_t dim = 0; dim < contract.dims.size(); ++dim) {
      const auto& [name, extent, role] = contract.dims[dim];
      require(extent >= 1, "dim {} has extent {}", name, extent);
      const bool in_output = reads(contract.output, dim);
      if (role == Role::kK) {
        require(!in_output, "dim {} is summed over and in the output", name);
        for (const auto& access : contract.epilogue_inputs) {
          require(!reads(access.map, dim), "the epilogue reads '{}' over the summed dim {}",
                  tensor(access.tensor).name, name);
        }
      }
      if (extent == 1) continue;  // its only index is 0, wherever it appears or doesn't
      const bool in_a = reads(contract.a.map, dim);
      const bool in_b = reads(contract.b.map, dim);
      const bool fits = role == Role::kK       ? in_a || in_b
                        : role == Role::kBatch ? in_a && in_b && in_output
                        : role == Role::kM     ? in_a && !in_b && in_output
                                               : !in_a && in_b && in_output;
      require(fits, "dim {} has role {}, but is {} a, {} b and {} the output", name, role_name(role),
              in_a ? "in" : "not in", in_b ? "in" : "not in", in_output ? "in" : "not in");
    }
    check_coverage(contract);
  }

  /// Every output element is computed exactly once: the dims of an axis are the digits of its index.
  void check_coverage(const ContractLayer& contract) const {
    std::vector<int> axes_of_dim(contract.dims.size(), 0);
    for (size_t axis = 0; axis < contract.output_shape.size(); ++axis) {
      std::vector<std::pair<int64_t, int64_t>> digits;  // stride, extent
      for (size_t dim = 0; dim < contract.dims.size(); ++dim) {
        const int64_t stride = contract.output.coefficient(axis, dim);
        if (stride == 0 || contract.dims[dim].extent == 1) continue;
        ++axes_of_dim[dim];
        digits.emplace_back(stride, contract.dims[dim].extent);
      }
      std::sort(digits.begin(), digits.end());
      int64_t covered = 1;
      bool exact = contract.output.offset(axis) == 0;
      for (const auto& [stride, extent] : digits) {
        exact = exact && stride == covered;
        covered *= extent;
      }
      require(exact && covered == contract.output_shape[axis], "axis {} of the output {} isn't covered by {}",
              axis, shape_to_string(contract.output_shape), contract.output.to_string());
    }
    for (size_t dim = 0; dim < contract.dims.size(); ++dim) {
      require(axes_of_dim[dim] <= 1, "dim {} is in several axes of the output", contract.dims[dim].name);
    }
  }

  void check(const Layer& layer, const RearrangeLayer& rearrange) const {
    check_output_shape(layer, rearrange.extents);
    for (const auto& piece : rearrange.pieces) {
      require(piece.begin.size() == rearrange.extents.size() && piece.end.size() == rearrange.extents.size(),
              "a piece of rank {} and {}", piece.begin.size(), piece.end.size());
      for (size_t axis = 0; axis < rearrange.extents.size(); ++axis) {
        require(0 <= piece.begin[axis] && piece.begin[axis] <= piece.end[axis] &&
                    piece.end[axis] <= rearrange.extents[axis],
                "the piece [{}] to [{}] isn't inside {}", fmt::join(piece.begin, ", "),
                fmt::join(piece.end, ", "), shape_to_string(rearrange.extents));
      }
      require(tensor(piece.input.tensor).type == tensor(layer.outputs[0]).type, "moves {} into {}",
              data_type_name(tensor(piece.input.tensor).type), data_type_name(tensor(layer.outputs[0]).type));
    }
  }

  void check(const Layer& layer, const HostLayer& host) const {
    require(layer.host_inputs.size() == host.node.inputs.size() &&
                layer.outputs.size() == host.node.outputs.size(),
            "{} inputs and {} outputs for a node with {} and {}", layer.host_inputs.size(),
            layer.outputs.size(), host.node.inputs.size(), host.node.outputs.size());
    require(!host.reason.empty(), "no reason is given");
  }

  const LayerGraph& graph_;
  const std::string& pass_;
  std::vector<bool> available_;  ///< by storage
  std::string where_;
};

}  // namespace

void verify_layer_graph(const LayerGraph& graph, const std::string& pass) {
  Verifier(graph, pass).run();
}

// ------------------------------------------------------------------------------------------------ text

namespace {

using Json = nlohmann::ordered_json;

/// Constants up to this many elements are written out.
constexpr int64_t kMaxPrintedElements = 16;

/// JSON has no infinities.
Json number_json(double value) {
  return std::isfinite(value) ? Json(value) : Json(fmt::format("{}", value));
}

std::string tensor_label(const LayerGraph& graph, TensorId id) {
  return id < 0 ? "" : fmt::format("{} {}", graph.tensors[id].name, shape_to_string(graph.tensors[id].shape));
}

Json access_json(const LayerGraph& graph, const TensorAccess& access) {
  return {{"tensor", access.tensor},
          {"name", graph.tensors[access.tensor].name},
          {"map", access.map.to_string()},
          {"fill", number_json(access.fill)}};
}

Json accesses_json(const LayerGraph& graph, const std::vector<TensorAccess>& accesses) {
  Json list = Json::array();
  for (const auto& access : accesses) list.push_back(access_json(graph, access));
  return list;
}

Json body_json(const LayerGraph& graph, const MapLayer& map) {
  return {
      {"extents", map.extents}, {"inputs", accesses_json(graph, map.inputs)}, {"expr", map.expr.to_string()}};
}
Json body_json(const LayerGraph& graph, const ReduceLayer& reduce) {
  return {{"op", reduce_op_name(reduce.op)},
          {"output_extents", reduce.output_extents},
          {"reduction_extents", reduce.reduction_extents},
          {"inputs", accesses_json(graph, reduce.inputs)},
          {"expr", reduce.expr.to_string()},
          {"epilogue", reduce.epilogue.to_string()},
          {"epilogue_inputs", accesses_json(graph, reduce.epilogue_inputs)}};
}
Json body_json(const LayerGraph& graph, const ContractLayer& contract) {
  Json dims = Json::array();
  for (const auto& dim : contract.dims) {
    dims.push_back({{"name", dim.name}, {"extent", dim.extent}, {"role", role_name(dim.role)}});
  }
  return {{"dims", dims},
          {"a", access_json(graph, contract.a)},
          {"b", access_json(graph, contract.b)},
          {"output", contract.output.to_string()},
          {"output_shape", contract.output_shape},
          {"epilogue", contract.epilogue.to_string()},
          {"epilogue_inputs", accesses_json(graph, contract.epilogue_inputs)}};
}
Json body_json(const LayerGraph& graph, const NormalizeLayer& normalize) {
  Json steps = Json::array();
  for (const auto& step : normalize.steps) {
    Json entry = {{"expr", step.expr.to_string()}};
    if (step.op) entry["op"] = reduce_op_name(*step.op);
    steps.push_back(entry);
  }
  return {{"extents", normalize.extents},
          {"reduced", normalize.reduced},
          {"inputs", accesses_json(graph, normalize.inputs)},
          {"steps", steps}};
}
Json body_json(const LayerGraph& graph, const GatherLayer& gather) {
  return {{"extents", gather.extents},
          {"places", gather.places},
          {"index_inputs", accesses_json(graph, gather.index_inputs)},
          {"index", gather.index.to_string()},
          {"data", access_json(graph, gather.data)},
          {"epilogue", gather.epilogue.to_string()},
          {"epilogue_inputs", accesses_json(graph, gather.epilogue_inputs)}};
}
Json body_json(const LayerGraph& graph, const RearrangeLayer& rearrange) {
  Json pieces = Json::array();
  for (const auto& piece : rearrange.pieces) {
    pieces.push_back(
        {{"input", access_json(graph, piece.input)}, {"begin", piece.begin}, {"end", piece.end}});
  }
  return {{"extents", rearrange.extents}, {"fill", number_json(rearrange.fill)}, {"pieces", pieces}};
}
Json body_json(const LayerGraph&, const HostLayer& host) {
  return {{"node", {{"name", host.node.name}, {"operator", host.node.op_type}}}, {"reason", host.reason}};
}

std::string body_summary(const MapLayer& map) {
  return fmt::format("{} over {}", map.expr.to_string(), shape_to_string(map.extents));
}
std::string body_summary(const ReduceLayer& reduce) {
  std::string text =
      fmt::format("{} of {} over {} x {}", reduce_op_name(reduce.op), reduce.expr.to_string(),
                  shape_to_string(reduce.output_extents), shape_to_string(reduce.reduction_extents));
  if (reduce.epilogue != ScalarExpr::identity()) text += ", then " + reduce.epilogue.to_string();
  return text;
}
std::string body_summary(const ContractLayer& contract) {
  std::string text;
  for (const auto& dim : contract.dims) {
    text += fmt::format("{}{}:{} ({})", text.empty() ? "" : " ", dim.name, dim.extent, role_name(dim.role));
  }
  if (contract.epilogue != ScalarExpr::identity()) text += ", then " + contract.epilogue.to_string();
  return text;
}
std::string body_summary(const NormalizeLayer& normalize) {
  std::string text;
  for (size_t k = 0; k < normalize.steps.size(); ++k) {
    const auto& [op, expr] = normalize.steps[k];
    const std::string value =
        k + 1 < normalize.steps.size() ? fmt::format("x{} = ", normalize.inputs.size() + k) : "";
    text += value + (op ? reduce_op_name(*op) + " of " : "") + expr.to_string() + "; ";
  }
  std::vector<size_t> axes;
  for (size_t axis = 0; axis < normalize.reduced.size(); ++axis) {
    if (normalize.reduced[axis]) axes.push_back(axis);
  }
  return fmt::format("{}over {}, rows along {}", text, shape_to_string(normalize.extents), axes);
}
std::string body_summary(const GatherLayer& gather) {
  std::string text = fmt::format("place {} of {} over {}", gather.index.to_string(), gather.places,
                                 shape_to_string(gather.extents));
  if (gather.epilogue != ScalarExpr::identity()) text += ", then " + gather.epilogue.to_string();
  return text;
}
std::string body_summary(const RearrangeLayer& rearrange) {
  if (rearrange.pieces.size() != 1) return fmt::format("{} pieces", rearrange.pieces.size());
  return "1 piece " + rearrange.pieces[0].input.map.to_string();
}
std::string body_summary(const HostLayer& host) {
  return host.reason;
}

}  // namespace

std::string to_json(const LayerGraph& graph) {
  Json tensors = Json::array();
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    const LayerTensor& tensor = graph.tensors[i];
    Json entry = {
        {"id", i}, {"name", tensor.name}, {"type", data_type_name(tensor.type)}, {"shape", tensor.shape}};
    if (tensor.alias_of >= 0) entry["alias_of"] = tensor.alias_of;
    if (tensor.constant) {
      entry["constant"] = true;
      const bool is_complex = tensor.type == DataType::kComplex64 || tensor.type == DataType::kComplex128;
      if (tensor.constant->size() <= kMaxPrintedElements && element_size(tensor.type) > 0 && !is_complex) {
        Json elements = Json::array();
        for (int64_t k = 0; k < tensor.constant->size(); ++k) {
          elements.push_back(number_json(element_as_double(*tensor.constant, k)));
        }
        entry["elements"] = elements;
      }
    }
    tensors.push_back(entry);
  }
  Json layers = Json::array();
  for (const Layer& layer : graph.layers) {
    Json entry = {{"name", layer.name},
                  {"kind", layer_kind_name(layer.kind())},
                  {"onnx_ops", layer.onnx_ops},
                  {"onnx_nodes", layer.onnx_nodes},
                  {"inputs", layer.kind() == LayerKind::kHost ? layer.host_inputs : layer_inputs(layer)},
                  {"outputs", layer.outputs},
                  {"summary", summary(layer, graph)}};
    entry["body"] = std::visit([&](const auto& body) { return body_json(graph, body); }, layer.body);
    layers.push_back(entry);
  }
  Json json = {{"name", graph.name},
               {"inputs", graph.inputs},
               {"outputs", graph.outputs},
               {"tensors", tensors},
               {"layers", layers}};
  for (const Check& check : graph.checks)
    json["checks"].push_back({{"tensor", check.tensor},
                              {"message", check.message},
                              {"lowest", check.lowest},
                              {"highest", check.highest}});
  // Names in a model may hold any bytes.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string summary(const Layer& layer, const LayerGraph& graph) {
  std::vector<std::string> inputs;
  for (TensorId id : layer_inputs(layer)) inputs.push_back(tensor_label(graph, id));
  std::vector<std::string> outputs;
  for (TensorId id : layer.outputs) outputs.push_back(tensor_label(graph, id));
  return fmt::format("{} {} [{}]: {} <- {}: {}", layer_kind_name(layer.kind()), layer.name,
                     fmt::join(layer.onnx_ops, "+"), fmt::join(outputs, ", "), fmt::join(inputs, ", "),
                     std::visit([](const auto& body) { return body_summary(body); }, layer.body));
}

void tidy_inputs(ScalarExpr& expr, std::vector<TensorAccess>& inputs, int first) {
  std::vector<bool> used(first + inputs.size(), false);
  for (const ScalarNode& node : expr.nodes()) {
    if (node.input >= 0) used[node.input] = true;
  }
  std::vector<int> numbers(used.size(), -1);
  for (int i = 0; i < first; ++i) numbers[i] = i;
  std::vector<TensorAccess> kept;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!used[first + i]) continue;
    auto found = std::find(kept.begin(), kept.end(), inputs[i]);
    if (found == kept.end()) found = kept.insert(kept.end(), inputs[i]);
    numbers[first + i] = first + static_cast<int>(found - kept.begin());
  }
  inputs = std::move(kept);
  expr = expr.renumbered(numbers);
}

}  // namespace kodama::compiler
