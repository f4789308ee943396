#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "compiler/kernels/builtin_kernels.h"
#include "compiler/kernels/rows_windows.h"
#include "compiler/kernels/zero_rows.h"

/// "reduce-rows": pooling on images of rows.
namespace kodama::compiler {

namespace {

constexpr const char* kPoolKernel = "reduce-rows";

/// Whether the operand may have so few columns that its image has more: their values are anything.
bool has_all_columns(const Picture& in) {
  return in.shape.back() >= isa::kCyclesPerStep;
}

}  // namespace

std::optional<WindowsProblem> pool_problem(const ReduceLayer& reduce, TensorId output,
                                           const LayerGraph& graph) {
  // Without the axes that are reduced, the result of one image is like one of a row and a column.
  Shape results = reduce.output_extents;
  const size_t outer = results.size();
  if (outer == 2 && results[0] == 1) results.insert(results.end(), {1, 1});
  if (reduce.inputs.size() != 1 || results.size() != 4 || reduce.reduction_extents.size() > 2)
    return std::nullopt;
  if (reduced_kind(reduce) != ScalarKind::kFloat) return std::nullopt;
  WindowsProblem problem;
  std::vector<TensorAccess> inputs = reduce.epilogue_inputs;
  // Of the epilogue's inputs, of which the result is number 0, the last may be a row of zeros.
  if (!inputs.empty() && reduce.epilogue.input_count() <= std::ssize(inputs) &&
      is_zero_row(inputs.back(), graph)) {
    problem.zeros = std::move(inputs.back());
    problem.zero_rows = true;
    inputs.pop_back();
  }
  problem.op = reduce.op;
  problem.expr = reduce.expr;
  problem.epilogue = reduce.epilogue;
  const TensorAccess& access = reduce.inputs[0];
  problem.fill = access.fill;
  const Shape& shape = graph.tensors[static_cast<size_t>(access.tensor)].shape;
  const auto in = picture_of(access.tensor, shape, 1);
  const auto out = picture_of(output, reduce.output_extents, 1);
  if (!in || !out || in->tokens || !has_all_columns(*in)) return std::nullopt;
  problem.in = *in;
  problem.out = *out;
  const AffineMap& map = access.map;
  for (size_t axis = 0; axis < 4; ++axis) {
    for (size_t dim = 0; dim < map.dims(); ++dim) {
      const bool inner = dim >= outer;
      const int64_t extent = inner ? reduce.reduction_extents[dim - outer] : results[dim];
      const int64_t coefficient = map.coefficient(axis, dim);
      if (coefficient == 0 || extent == 1) continue;
      if (coefficient < 0 || (!inner && dim != axis) || (inner && axis < 2)) return std::nullopt;
      if (inner) {
        const size_t way = axis - 2;
        if (problem.window.kernel.at(way) > 1) return std::nullopt;
        problem.window.kernel.at(way) = extent;
        problem.window.dilation.at(way) = coefficient;
      } else if (axis >= 2) {
        problem.window.stride.at(axis - 2) = coefficient;
      } else if (coefficient != 1) {
        return std::nullopt;
      }
    }
    if (axis < 2 && (map.offset(axis) != 0 || shape[axis] != results[axis])) return std::nullopt;
    if (axis >= 2) problem.window.pad.at(axis - 2) = -map.offset(axis);
  }
  const RowsWindow& window = problem.window;
  int64_t positions = 1;
  for (const int64_t extent : reduce.reduction_extents) positions *= extent;
  if (positions != window.kernel[0] * window.kernel[1] || window.pad[0] < 0 || window.pad[1] < 0)
    return std::nullopt;
  const double neutral = identity_of(reduce.op);
  const auto is_neutral = [&](double value) { return problem.expr.evaluate(std::vector{value}) == neutral; };
  // A row outside is zeros, or becomes a copy of the one next to it: the same maximum, if that one is in the
  // window.
  const int64_t below = window.rows_under(problem.out.rows) - window.pad[0] - problem.in.rows;
  const bool has_outside = window.pad[0] > 0 || below > 0;
  if (problem.zeros && (!has_outside || access.fill != 0)) return std::nullopt;
  if (has_outside && !problem.zeros) {
    const bool extreme = reduce.op == ReduceLayer::Op::kMax || reduce.op == ReduceLayer::Op::kMin;
    if (!extreme || window.dilation[0] != 1 || !is_neutral(access.fill) ||
        window.pad[0] >= window.kernel[0] || below >= window.kernel[0]) {
      return std::nullopt;
    }
  }
  problem.whole_rows = results[3] == 1 && window.kernel[1] == problem.in.columns && window.pad[1] == 0 &&
                       window.dilation[1] == 1 &&
                       (is_neutral(neutral) || problem.in.columns % isa::kCyclesPerStep == 0);
  if (inputs.empty() && !problem.zeros) return problem;
  if (problem.whole_rows || outer != 4) return std::nullopt;
  problem.extents = results;
  problem.channel_dim = 1;
  for (const TensorAccess& input : inputs) {
    const auto found = windows_input(fmt::format("e{}", problem.inputs.size()), input, problem,
                                     AffineMap::identity(outer), graph);
    if (!found) return std::nullopt;
    problem.inputs.push_back(*found);
  }
  return problem;
}

namespace {

std::vector<Candidate> pool_candidates(const Layer& layer, const LayerGraph& graph, const isa::Chip& chip,
                                       const KernelOptions& options) {
  auto problem = pool_problem(std::get<ReduceLayer>(layer.body), layer.outputs.at(0), graph);
  if (!problem) return {};
  problem->constants_stay = options.constants_stay;
  return windows_candidates(*problem, layer.name, graph, chip);
}

}  // namespace

Kernel reduce_rows_kernel() {
  Kernel kernel;
  kernel.name = kPoolKernel;
  kernel.description = "pooling, on images of rows";
  kernel.kind = LayerKind::kReduce;
  kernel.run = pool_candidates;
  return kernel;
}

}  // namespace kodama::compiler
