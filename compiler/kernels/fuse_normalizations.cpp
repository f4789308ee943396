#include "compiler/kernels/fuse_normalizations.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "compiler/kernels/builtin_kernels.h"

namespace kodama::compiler {

namespace {

constexpr size_t kMaxNormalizeInputs = 6;
constexpr size_t kMaxNormalizeSteps = 16;

/// Who makes and who reads tensors.
struct TensorUses {
  explicit TensorUses(const LayerGraph& graph)
      : producer(graph.tensors.size(), -1), readers(graph.tensors.size()) {
    for (size_t k = 0; k < graph.layers.size(); ++k) {
      for (const TensorId id : graph.layers[k].outputs) {
        if (id >= 0) producer[static_cast<size_t>(id)] = static_cast<int>(k);
      }
      for (const TensorId id : layer_inputs(graph.layers[k]))
        readers[static_cast<size_t>(graph.storage(id))].insert(static_cast<int>(k));
    }
    // Outputs have a reader that is in no layer.
    for (const TensorId id : graph.outputs) readers[static_cast<size_t>(graph.storage(id))].insert(-1);
  }
  std::vector<int> producer;
  std::vector<std::set<int>> readers;
};

/// The part of an expression that ends in `node`.
ScalarExpr part_of(const ScalarExpr& expr, int node) {
  ScalarExpr part = expr;
  part.set_result(node);
  return part;
}

/// A Map and what is fused into it.
class NormalizeFusion {
 public:
  NormalizeFusion(const LayerGraph& graph, const TensorUses& uses, int map_layer)
      : graph_(graph), uses_(uses), members_{map_layer} {
    const auto& map = std::get<MapLayer>(graph.layers[static_cast<size_t>(map_layer)].body);
    layer_.extents = map.extents;
    layer_.reduced.assign(map.extents.size(), false);
    layer_.inputs = map.inputs;
    layer_.steps = {{{}, map.expr}};
  }

  /// Takes in whatever it can. Whether that makes a normalization.
  bool grow() {
    while (grow_once()) {
    }
    return std::ranges::count(layer_.reduced, true) > 0 && layer_.inputs.size() <= kMaxNormalizeInputs &&
           layer_.steps.size() <= kMaxNormalizeSteps;
  }
  const std::set<int>& members() const { return members_; }

  Layer result() {
    hoist();
    Layer fused = graph_.layers[static_cast<size_t>(*members_.rbegin())];
    fused.onnx_ops.clear();
    fused.onnx_nodes.clear();
    for (const int member : members_) {
      const Layer& layer = graph_.layers[static_cast<size_t>(member)];
      // A node may have become several layers.
      for (size_t k = 0; k < layer.onnx_nodes.size(); ++k) {
        if (std::ranges::count(fused.onnx_nodes, layer.onnx_nodes[k]) > 0) continue;
        fused.onnx_ops.push_back(layer.onnx_ops[k]);
        fused.onnx_nodes.push_back(layer.onnx_nodes[k]);
      }
    }
    fused.body = std::move(layer_);
    return fused;
  }

 private:
  /// Takes in the layer that makes one of the inputs.
  bool grow_once() {
    for (size_t number = 0; number < layer_.inputs.size(); ++number) {
      const TensorAccess input = layer_.inputs[number];
      const int producer = uses_.producer[static_cast<size_t>(input.tensor)];
      if (producer < 0 || graph_.tensors[static_cast<size_t>(input.tensor)].type != DataType::kFloat32)
        continue;
      const std::set<int>& readers = uses_.readers[static_cast<size_t>(input.tensor)];
      const auto is_same_tensor = [&](const TensorAccess& other) {
        return graph_.storage(other.tensor) == input.tensor;
      };
      if (!std::ranges::includes(members_, readers) ||
          std::ranges::count_if(layer_.inputs, is_same_tensor) > 1)
        continue;
      const Layer& layer = graph_.layers[static_cast<size_t>(producer)];
      const bool taken = layer.kind() == LayerKind::kMap ? take(number, std::get<MapLayer>(layer.body))
                         : layer.kind() == LayerKind::kReduce
                             ? take(number, std::get<ReduceLayer>(layer.body))
                             : false;
      if (!taken) continue;
      members_.insert(producer);
      return true;
    }
    return false;
  }

  bool take(size_t number, const MapLayer& map) {
    // All of it, point by point; axes of one point may be written in any way.
    const AffineMap& access = layer_.inputs[number].map;
    if (map.extents != layer_.extents) return false;
    for (size_t axis = 0; axis < access.axes(); ++axis) {
      if (access.offset(axis) != 0) return false;
      for (size_t dim = 0; dim < access.dims(); ++dim) {
        if (layer_.extents[dim] > 1 && access.coefficient(axis, dim) != (axis == dim ? 1 : 0)) return false;
      }
    }
    insert(number, map.inputs, {{{}, map.expr}});
    return true;
  }

  bool take(size_t number, const ReduceLayer& reduce) {
    if (reduced_kind(reduce) != ScalarKind::kFloat) return false;
    const AffineMap& access = layer_.inputs[number].map;
    const size_t rank = layer_.extents.size();
    const size_t outputs = reduce.output_extents.size();
    // Which axis of the rows every dim of the reduction is.
    AffineMap space(outputs + reduce.reduction_extents.size(), rank);
    std::vector<bool> reduced(rank);
    for (size_t axis = 0; axis < rank; ++axis) reduced[axis] = layer_.extents[axis] > 1;
    for (size_t axis = 0; axis < outputs; ++axis) {
      if (access.offset(axis) != 0) return false;
      if (reduce.output_extents[axis] == 1) continue;
      std::optional<size_t> found;
      for (size_t dim = 0; dim < rank; ++dim) {
        if (access.coefficient(axis, dim) == 0 || layer_.extents[dim] == 1) continue;
        if (found || access.coefficient(axis, dim) != 1) return false;
        found = dim;
      }
      if (!found || !reduced[*found] || layer_.extents[*found] != reduce.output_extents[axis]) return false;
      reduced[*found] = false;
      space.set(axis, *found, 1);
    }
    size_t next = 0;
    for (size_t dim = 0; dim < reduce.reduction_extents.size(); ++dim) {
      if (reduce.reduction_extents[dim] == 1) continue;
      while (next < rank && !reduced[next]) ++next;
      if (next == rank || layer_.extents[next] != reduce.reduction_extents[dim]) return false;
      space.set(outputs + dim, next++, 1);
    }
    while (next < rank && !reduced[next]) ++next;
    if (next < rank) return false;
    const bool is_first = std::ranges::count(layer_.reduced, true) == 0;
    if (std::ranges::count(reduced, true) == 0 || (!is_first && reduced != layer_.reduced)) return false;
    layer_.reduced = reduced;

    AffineMap place(outputs, rank);
    for (size_t axis = 0; axis < outputs; ++axis) {
      for (size_t dim = 0; dim < rank; ++dim) place.set(axis, dim, space.coefficient(axis, dim));
    }
    std::vector<TensorAccess> inputs;
    for (const TensorAccess& input : reduce.inputs)
      inputs.push_back({input.tensor, input.map.after(space), input.fill});
    std::vector<NormalizeLayer::Step> steps = {{reduce.op, reduce.expr}};
    if (reduce.epilogue != ScalarExpr::identity()) {
      // Input 0 is the value of the step before, the others follow the inputs of the reduction.
      const size_t own = inputs.size();
      const size_t all = own + reduce.epilogue_inputs.size();
      for (const TensorAccess& input : reduce.epilogue_inputs)
        inputs.push_back({input.tensor, input.map.after(place), input.fill});
      std::vector<int> numbers(1 + reduce.epilogue_inputs.size());
      numbers[0] = static_cast<int>(all);
      for (size_t k = 1; k < numbers.size(); ++k) numbers[k] = static_cast<int>(own + k - 1);
      steps.push_back({{}, reduce.epilogue.renumbered(numbers)});
    }
    insert(number, inputs, steps);
    return true;
  }

  /// Input `number` becomes the value of the last of `steps`, over `inputs` and each other, which come first.
  void insert(size_t number, const std::vector<TensorAccess>& inputs,
              const std::vector<NormalizeLayer::Step>& steps) {
    std::vector<TensorAccess> all;
    const auto place_of = [&](const TensorAccess& access) {
      const auto found = std::ranges::find(all, access);
      if (found == all.end()) all.push_back(access);
      return static_cast<int>(std::ranges::find(all, access) - all.begin());
    };
    std::vector<int> new_numbers, old_numbers;
    for (const TensorAccess& access : inputs) new_numbers.push_back(place_of(access));
    for (size_t k = 0; k < layer_.inputs.size(); ++k)
      old_numbers.push_back(k == number ? -1 : place_of(layer_.inputs[k]));
    const auto first = static_cast<int>(all.size());
    for (size_t k = 0; k < steps.size(); ++k) new_numbers.push_back(first + static_cast<int>(k));
    const int behind = first + static_cast<int>(steps.size());
    old_numbers[number] = behind - 1;
    for (size_t k = 0; k < layer_.steps.size(); ++k) old_numbers.push_back(behind + static_cast<int>(k));
    std::vector<NormalizeLayer::Step> joined;
    for (const auto& [op, expr] : steps) joined.push_back({op, expr.renumbered(new_numbers)});
    for (const auto& [op, expr] : layer_.steps) joined.push_back({op, expr.renumbered(old_numbers)});
    layer_.inputs = std::move(all);
    layer_.steps = std::move(joined);
  }

  /// What depends on rows alone becomes steps of its own.
  void hoist() {
    const auto inputs = static_cast<int>(layer_.inputs.size());
    std::vector<NormalizeLayer::Step> steps;
    std::vector<int> numbers(static_cast<size_t>(inputs));
    std::iota(numbers.begin(), numbers.end(), 0);
    const auto add_step = [&](NormalizeLayer::Step step) {
      const auto number = inputs + static_cast<int>(steps.size());
      for (size_t k = 0; k < steps.size(); ++k) {
        if (!step.op && !steps[k].op && steps[k].expr == step.expr) return inputs + static_cast<int>(k);
      }
      steps.push_back(std::move(step));
      return number;
    };
    for (size_t k = 0; k < layer_.steps.size(); ++k) {
      const bool is_last = k + 1 == layer_.steps.size();
      const std::optional<ReduceLayer::Op> op = layer_.steps[k].op;
      const ScalarExpr expr = with_reciprocals(layer_.steps[k].expr.renumbered(numbers), steps);
      if (!op && !is_last && depends_on_rows(expr, steps)[static_cast<size_t>(expr.result())]) {
        numbers.push_back(add_step({op, expr}));
        continue;
      }
      const std::vector<bool> of_rows = depends_on_rows(expr, steps);
      ScalarExpr rest;
      std::vector<int> node_of(expr.nodes().size(), -1);
      for (size_t node = 0; node < expr.nodes().size(); ++node) {
        const ScalarNode& old = expr.nodes()[node];
        if (scalar_op_arity(old.op) == 0) {
          node_of[node] = rest.leaf(old);
        } else if (of_rows[node]) {
          // Only where something else reads it.
          bool is_read = static_cast<int>(node) == expr.result();
          for (size_t reader = node + 1; reader < expr.nodes().size(); ++reader) {
            for (int arg = 0; arg < scalar_op_arity(expr.nodes()[reader].op); ++arg)
              is_read = is_read ||
                        (expr.nodes()[reader].args.at(static_cast<size_t>(arg)) == static_cast<int>(node) &&
                         !of_rows[reader]);
          }
          if (is_read) node_of[node] = rest.input(add_step({{}, part_of(expr, static_cast<int>(node))}));
        } else {
          std::array<int, 3> args{-1, -1, -1};
          for (int arg = 0; arg < scalar_op_arity(old.op); ++arg)
            args.at(static_cast<size_t>(arg)) =
                node_of[static_cast<size_t>(old.args.at(static_cast<size_t>(arg)))];
          node_of[node] = rest.apply(old.op, args[0], args[1], args[2]);
        }
      }
      rest.set_result(node_of[static_cast<size_t>(expr.result())]);
      // The last step stands behind all it needs, and an equal one isn't it.
      steps.push_back({op, rest});
      numbers.push_back(inputs + static_cast<int>(steps.size()) - 1);
    }
    layer_.steps = std::move(steps);
  }

  /// Of each node, whether it is no more than constants and values that rows have, one of these at least.
  std::vector<bool> depends_on_rows(const ScalarExpr& expr,
                                    const std::vector<NormalizeLayer::Step>& steps) const {
    const std::vector<bool> step_of_rows = steps_of_rows(steps, layer_.inputs.size());
    std::vector<bool> of_rows, constant;
    for (const ScalarNode& node : expr.nodes()) {
      const auto number = static_cast<size_t>(std::max(node.input, 0));
      bool rows = node.op == ScalarOp::kInput && number >= layer_.inputs.size() &&
                  step_of_rows[number - layer_.inputs.size()];
      bool is_constant = node.op != ScalarOp::kInput;
      if (scalar_op_arity(node.op) > 0) {
        is_constant = true;
        bool all = true;
        for (int arg = 0; arg < scalar_op_arity(node.op); ++arg) {
          const auto of = static_cast<size_t>(node.args.at(static_cast<size_t>(arg)));
          all = all && (of_rows[of] || constant[of]);
          is_constant = is_constant && constant[of];
        }
        rows = all && !is_constant;
      }
      of_rows.push_back(rows);
      constant.push_back(is_constant);
    }
    return of_rows;
  }

  /// a / b, where b depends on rows alone and a doesn't, as a * (1 / b).
  ScalarExpr with_reciprocals(const ScalarExpr& expr, const std::vector<NormalizeLayer::Step>& steps) const {
    const std::vector<bool> of_rows = depends_on_rows(expr, steps);
    ScalarExpr result;
    std::vector<int> node_of;
    for (const ScalarNode& node : expr.nodes()) {
      const auto argument = [&](size_t k) { return node_of[static_cast<size_t>(node.args.at(k))]; };
      if (scalar_op_arity(node.op) == 0) {
        node_of.push_back(result.leaf(node));
      } else if (node.op == ScalarOp::kDiv && of_rows[static_cast<size_t>(node.args[1])] &&
                 !of_rows[node_of.size()]) {
        node_of.push_back(
            result.apply(ScalarOp::kMul, argument(0), result.apply(ScalarOp::kReciprocal, argument(1))));
      } else {
        const int arity = scalar_op_arity(node.op);
        node_of.push_back(
            result.apply(node.op, argument(0), arity > 1 ? argument(1) : -1, arity > 2 ? argument(2) : -1));
      }
    }
    result.set_result(node_of.back());
    return result;
  }

  const LayerGraph& graph_;
  const TensorUses& uses_;
  std::set<int> members_;  ///< layers, the Map last
  NormalizeLayer layer_;
};

}  // namespace

void fuse_normalizations(LayerGraph& graph, const isa::Chip& chip) {
  const TensorUses uses(graph);
  std::vector<bool> gone(graph.layers.size(), false);
  std::vector<std::pair<size_t, Layer>> found;
  for (size_t k = graph.layers.size(); k-- > 0;) {
    if (gone[k] || graph.layers[k].kind() != LayerKind::kMap) continue;
    NormalizeFusion fusion(graph, uses, static_cast<int>(k));
    if (!fusion.grow()) continue;
    Layer fused = fusion.result();
    if (normalize_rows_kernel().run(fused, graph, chip, {}).empty()) continue;
    for (const int member : fusion.members()) gone[static_cast<size_t>(member)] = true;
    gone[k] = false;
    found.emplace_back(k, std::move(fused));
  }
  for (auto& [k, layer] : found) graph.layers[k] = std::move(layer);
  std::vector<Layer> kept;
  for (size_t k = 0; k < graph.layers.size(); ++k) {
    if (!gone[k]) kept.push_back(std::move(graph.layers[k]));
  }
  graph.layers = std::move(kept);
}

}  // namespace kodama::compiler
