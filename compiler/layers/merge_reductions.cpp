#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/layers/fusion.h"

namespace kodama::compiler {
namespace {

/// An input without what may be written in two ways: axes and dims of one place.
struct PlainAccess {
  TensorId storage = -1;
  Shape shape;
  std::vector<int64_t> map;  ///< by axis: offset, coefficients
  double fill = 0;
  auto operator<=>(const PlainAccess&) const = default;
};

PlainAccess plain(const TensorAccess& access, const Shape& extents, const LayerGraph& graph) {
  PlainAccess result;
  result.storage = graph.storage(access.tensor);
  result.fill = access.fill;
  const Shape& shape = graph.tensors[static_cast<size_t>(access.tensor)].shape;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    std::vector<int64_t> row = {access.map.offset(axis)};
    for (size_t dim = 0; dim < extents.size(); ++dim) {
      if (extents[dim] > 1) row.push_back(access.map.coefficient(axis, dim));
    }
    if (shape[axis] == 1 && std::ranges::all_of(row, [](int64_t value) { return value == 0; })) continue;
    result.shape.push_back(shape[axis]);
    result.map.insert(result.map.end(), row.begin(), row.end());
  }
  return result;
}

/// What a Reduce sums up, whatever its epilogue makes of it.
struct PlainSum {
  ReduceLayer::Op op = ReduceLayer::Op::kSum;
  Shape outputs, reduced;
  std::vector<PlainAccess> inputs;
  std::string expr;
  auto operator<=>(const PlainSum&) const = default;
};

PlainSum plain(const ReduceLayer& reduce, const LayerGraph& graph) {
  PlainSum result;
  result.op = reduce.op;
  Shape extents = reduce.output_extents;
  extents.insert(extents.end(), reduce.reduction_extents.begin(), reduce.reduction_extents.end());
  std::ranges::copy_if(reduce.output_extents, std::back_inserter(result.outputs),
                       [](int64_t extent) { return extent > 1; });
  std::ranges::copy_if(reduce.reduction_extents, std::back_inserter(result.reduced),
                       [](int64_t extent) { return extent > 1; });
  // Inputs in the order of what they read.
  std::vector<std::pair<PlainAccess, int>> order;
  for (const TensorAccess& input : reduce.inputs)
    order.emplace_back(plain(input, extents, graph), static_cast<int>(order.size()));
  std::ranges::stable_sort(order, {}, [](const auto& entry) { return entry.first; });
  std::vector<int> numbers(order.size());
  for (size_t k = 0; k < order.size(); ++k) {
    numbers[static_cast<size_t>(order[k].second)] = static_cast<int>(k);
    result.inputs.push_back(std::move(order[k].first));
  }
  result.expr = reduce.expr.renumbered(numbers).to_string();
  return result;
}

/// An expression of input 0 as one of what `part` makes of input 0; nothing where it needs more.
class ExprOver {
 public:
  ExprOver(const ScalarExpr& whole, const ScalarExpr& part) : whole_(whole), part_(part) {}

  std::optional<ScalarExpr> run() {
    const auto result = moved(whole_.result());
    if (!result) return std::nullopt;
    made_.set_result(*result);
    return made_;
  }

 private:
  bool is_same(int in_whole, int in_part) const {
    const ScalarNode& a = whole_.nodes()[static_cast<size_t>(in_whole)];
    const ScalarNode& b = part_.nodes()[static_cast<size_t>(in_part)];
    ScalarNode alike = b;
    alike.args = a.args;
    if (a != alike) return false;
    for (size_t k = 0; k < a.args.size(); ++k) {
      if ((a.args.at(k) < 0) != (b.args.at(k) < 0)) return false;
      if (a.args.at(k) >= 0 && !is_same(a.args.at(k), b.args.at(k))) return false;
    }
    return true;
  }
  std::optional<int> moved(int node) {
    if (is_same(node, part_.result())) return made_.input(0);
    const ScalarNode& own = whole_.nodes()[static_cast<size_t>(node)];
    if (own.input >= 0) return std::nullopt;
    if (own.args[0] < 0) return made_.leaf(own);
    std::array<int, 3> args{-1, -1, -1};
    for (size_t k = 0; k < args.size(); ++k) {
      if (own.args.at(k) < 0) continue;
      const auto argument = moved(own.args.at(k));
      if (!argument) return std::nullopt;
      args.at(k) = *argument;
    }
    return made_.apply(own.op, args[0], args[1], args[2]);
  }

  const ScalarExpr& whole_;
  const ScalarExpr& part_;
  ScalarExpr made_;
};

}  // namespace

void merge_reductions(LayerGraph& graph) {
  std::map<PlainSum, size_t> first;  // the layer
  std::vector<size_t> merged;
  for (size_t index = 0; index < graph.layers.size(); ++index) {
    const auto* reduce = std::get_if<ReduceLayer>(&graph.layers[index].body);
    if (reduce == nullptr || !reduce->epilogue_inputs.empty() || reduced_kind(*reduce) != ScalarKind::kFloat)
      continue;
    const auto [found, is_new] = first.emplace(plain(*reduce, graph), index);
    if (is_new) continue;
    const auto& earlier = std::get<ReduceLayer>(graph.layers[found->second].body);
    const TensorId made = graph.layers[found->second].outputs[0];
    const TensorId result = graph.layers[index].outputs[0];
    LayerTensor& tensor = graph.tensors[static_cast<size_t>(result)];
    if (tensor.type != graph.tensors[static_cast<size_t>(made)].type || tensor.type != DataType::kFloat32)
      continue;
    const auto rest = ExprOver(reduce->epilogue, earlier.epilogue).run();
    if (!rest) continue;
    if (*rest == ScalarExpr::identity() && made < result && std::ranges::count(graph.outputs, result) == 0) {
      tensor.alias_of = made;
      merged.push_back(index);
      continue;
    }
    MapLayer map;
    map.extents = reduce->output_extents;
    map.expr = *rest;
    map.inputs = {{seen_as(graph, made, map.extents), AffineMap::identity(map.extents.size()), 0}};
    graph.layers[index].body = std::move(map);
  }
  for (; !merged.empty(); merged.pop_back())
    graph.layers.erase(graph.layers.begin() + static_cast<std::ptrdiff_t>(merged.back()));
}

}  // namespace kodama::compiler
