#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/kernels/builtin_kernels.h"
#include "compiler/kernels/rows_windows.h"

/// "map-rows" and "normalize-rows": expressions of elements, and of elements with what the channels of their
/// column were reduced to, on images of rows.
namespace kodama::compiler {

namespace {

constexpr const char* kMapRowsKernel = "map-rows";
constexpr const char* kNormalizeRowsKernel = "normalize-rows";

/// A picture made of `accesses` over its elements; one of these is the operand, whose number in the problem's
/// expressions is 0. Nothing where none has its elements where the result has them.
struct PlaceProblem {
  WindowsProblem windows;
  std::vector<int> numbers;  ///< of accesses, in the problem's expressions
};
std::optional<PlaceProblem> place_problem(const std::vector<TensorAccess>& accesses, const Picture& out,
                                          size_t channel_axis, const LayerGraph& graph) {
  const Shape& extents = out.shape;
  if (element_count(extents) == 0) return std::nullopt;
  PlaceProblem problem;
  WindowsProblem& windows = problem.windows;
  windows.out = out;
  windows.extents = extents;
  windows.channel_dim = static_cast<int>(channel_axis);
  const AffineMap identity = AffineMap::identity(extents.size());
  const auto is_operand = [&](const TensorAccess& access) {
    const auto input = windows_input("", access, windows, identity, graph);
    return input && input->of_rows && !input->by_place;
  };
  const auto operand = std::ranges::find_if(accesses, is_operand);
  if (operand == accesses.end()) return std::nullopt;
  windows.in = out;
  windows.in.tensor = operand->tensor;
  const auto number = operand - accesses.begin();
  windows.operand_name = "x" + std::to_string(number);
  for (auto access = accesses.begin(); access != accesses.end(); ++access) {
    if (access == operand) {
      problem.numbers.push_back(0);
      continue;
    }
    const auto input =
        windows_input("x" + std::to_string(access - accesses.begin()), *access, windows, identity, graph);
    if (!input) return std::nullopt;
    windows.inputs.push_back(*input);
    problem.numbers.push_back(static_cast<int>(windows.inputs.size()));
  }
  return problem;
}

std::vector<Candidate> map_rows_candidates(const Layer& layer, const LayerGraph& graph, const isa::Chip& chip,
                                           const KernelOptions& options) {
  const auto& map = std::get<MapLayer>(layer.body);
  std::vector<Candidate> candidates;
  for (size_t axis = 0; axis < map.extents.size(); ++axis) {
    for (const Picture& picture : pictures_with_entries(layer.outputs.at(0), map.extents, axis, chip)) {
      auto problem = place_problem(map.inputs, picture, axis, graph);
      if (!problem) continue;
      problem->windows.constants_stay = options.constants_stay;
      problem->windows.epilogue = map.expr.renumbered(problem->numbers);
      std::ranges::move(windows_candidates(problem->windows, layer.name, graph, chip),
                        std::back_inserter(candidates));
    }
  }
  for (Candidate& candidate : candidates) {
    candidate.elementwise.resize(candidate.placements.size() - 1);
    std::iota(candidate.elementwise.begin(), candidate.elementwise.end(), size_t{0});
  }
  return candidates;
}

std::vector<Candidate> normalize_rows_candidates(const Layer& layer, const LayerGraph& graph,
                                                 const isa::Chip& chip, const KernelOptions& /*options*/) {
  const auto& normalize = std::get<NormalizeLayer>(layer.body);
  // One axis is a row.
  std::vector<size_t> axes;
  for (size_t axis = 0; axis < normalize.reduced.size(); ++axis) {
    if (normalize.reduced[axis] && normalize.extents[axis] > 1) axes.push_back(axis);
  }
  if (axes.size() != 1) return {};
  std::vector<Candidate> candidates;
  for (const Picture& picture :
       pictures_with_entries(layer.outputs.at(0), normalize.extents, axes[0], chip)) {
    auto problem = place_problem(normalize.inputs, picture, axes[0], graph);
    if (!problem) continue;
    for (size_t k = 0; k < normalize.steps.size(); ++k) {
      const auto& [op, expr] = normalize.steps[k];
      if (op == ReduceLayer::Op::kProd || (op && reduce_kind(*op) == ScalarKind::kInteger)) return {};
      problem->windows.steps.push_back({op, expr.renumbered(problem->numbers)});
      problem->numbers.push_back(static_cast<int>(normalize.inputs.size() + k));
    }
    std::ranges::move(windows_candidates(problem->windows, layer.name, graph, chip),
                      std::back_inserter(candidates));
  }
  return candidates;
}

}  // namespace

Kernel map_rows_kernel() {
  Kernel kernel;
  kernel.name = kMapRowsKernel;
  kernel.description = "element-wise expressions, on images of rows";
  kernel.kind = LayerKind::kMap;
  kernel.run = map_rows_candidates;
  return kernel;
}

Kernel normalize_rows_kernel() {
  Kernel kernel;
  kernel.name = kNormalizeRowsKernel;
  kernel.description = "elements mapped with what their row is reduced to, on images of rows";
  kernel.kind = LayerKind::kNormalize;
  kernel.run = normalize_rows_candidates;
  return kernel;
}

}  // namespace kodama::compiler
