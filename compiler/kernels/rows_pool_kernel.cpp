#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/kernels/builtin_kernels.h"
#include "compiler/kernels/fill_rows.h"
#include "compiler/kernels/rows_windows.h"

/// "reduce-rows": pooling on images of rows.
namespace kodama::compiler {

namespace {

constexpr const char* kPoolKernel = "reduce-rows";

/// Numbers of positions and phases: a program has operations for each.
constexpr int64_t kMostNumbers = 1024;

/// Whether the operand may have so few columns that its image has more: their values are anything.
bool has_all_columns(const Picture& in) {
  return in.shape.back() >= isa::kCyclesPerStep;
}

}  // namespace

namespace {

/// The dims of a reduction, as windows have them.
struct PoolDims {
  Shape results;                         ///< [N, C, rows, columns] of places
  std::array<int, 4> outer{0, 1, 2, 3};  ///< their dims
  std::array<int64_t, 2> phases{1, 1};   ///< of a place
  std::array<int, 2> phase_dims{-1, -1};
  std::array<int, 2> kernel_dims{-1, -1};  ///< -1: one position
  Shape extents;                           ///< of all dims
};

/// Without the axes that are reduced, the result of one image is like one of a row and a column. Those of six
/// axes are [N, C, rows, phases, columns, phases].
std::optional<PoolDims> dims_of(const ReduceLayer& reduce) {
  PoolDims dims;
  dims.results = dims.extents = reduce.output_extents;
  if (dims.results.size() == 2 && dims.results[0] == 1) dims.results.insert(dims.results.end(), {1, 1});
  if (dims.results.size() == 6) {
    dims.outer = {0, 1, 2, 4};
    dims.phase_dims = {3, 5};
    dims.phases = {dims.results[3], dims.results[5]};
    dims.results = {dims.results[0], dims.results[1], dims.results[2], dims.results[4]};
  }
  if (dims.results.size() != 4 || reduce.reduction_extents.size() > 2) return std::nullopt;
  dims.extents.insert(dims.extents.end(), reduce.reduction_extents.begin(), reduce.reduction_extents.end());
  return dims;
}

/// The window that an access reads, of images of the results' rows; what it makes of dims of the kernel goes
/// to `dims`.
std::optional<RowsWindow> window_of(const TensorAccess& access, const Shape& shape, const ReduceLayer& reduce,
                                    PoolDims& dims) {
  RowsWindow window;
  const AffineMap& map = access.map;
  const size_t outer = reduce.output_extents.size();
  if (shape.size() != 4) return std::nullopt;
  for (size_t axis = 0; axis < 4; ++axis) {
    for (size_t dim = 0; dim < map.dims(); ++dim) {
      const bool inner = dim >= outer;
      const int64_t coefficient = map.coefficient(axis, dim);
      if (coefficient == 0 || dims.extents[dim] == 1) continue;
      if (coefficient < 0 || (!inner && static_cast<int>(dim) != dims.outer.at(axis)) || (inner && axis < 2))
        return std::nullopt;
      if (inner) {
        const size_t way = axis - 2;
        if (dims.kernel_dims.at(way) >= 0) return std::nullopt;
        window.kernel.at(way) = dims.extents[dim];
        window.dilation.at(way) = coefficient;
        dims.kernel_dims.at(way) = static_cast<int>(dim);
      } else if (axis >= 2) {
        window.stride.at(axis - 2) = coefficient;
      } else if (coefficient != 1) {
        return std::nullopt;
      }
    }
    if (axis < 2 && (map.offset(axis) != 0 || shape[axis] != dims.results[axis])) return std::nullopt;
    if (axis >= 2) window.pad.at(axis - 2) = -map.offset(axis);
  }
  int64_t positions = 1;
  for (const int64_t extent : reduce.reduction_extents) positions *= extent;
  if (positions != window.kernel[0] * window.kernel[1] || window.pad[0] < 0 || window.pad[1] < 0)
    return std::nullopt;
  return window;
}

/// What a constant has for the positions of the kernel, phase by phase; nothing where it depends on others.
std::optional<WindowsProblem::Numbers> numbers_of(std::string name, const TensorAccess& access,
                                                  const PoolDims& dims, const LayerGraph& graph) {
  const LayerTensor& tensor = graph.tensors[static_cast<size_t>(access.tensor)];
  const auto kind = word_kind(tensor.type);
  if (!graph.is_constant(access.tensor) || !kind) return std::nullopt;
  std::vector<int> known(dims.phase_dims.begin(), dims.phase_dims.end());
  known.insert(known.end(), dims.kernel_dims.begin(), dims.kernel_dims.end());
  for (size_t dim = 0; dim < dims.extents.size(); ++dim) {
    if (dims.extents[dim] > 1 && access.map.depends_on(dim) &&
        std::ranges::find(known, static_cast<int>(dim)) == known.end())
      return std::nullopt;
  }
  const Tensor& value = *graph.tensors[static_cast<size_t>(graph.storage(access.tensor))].constant;
  WindowsProblem::Numbers numbers{std::move(name), access, dims.extents, *kind, {}};
  std::vector<int64_t> point(dims.extents.size(), 0);
  const auto along = [&](size_t k, const auto& next) -> void {
    if (k < known.size()) {
      if (known[k] < 0) return next(k + 1, next);
      int64_t& at = point[static_cast<size_t>(known[k])];
      for (at = 0; at < dims.extents[static_cast<size_t>(known[k])]; ++at) next(k + 1, next);
      at = 0;
      return;
    }
    const std::vector<int64_t> index = access.map.apply(point);
    int64_t place = 0;
    bool is_inside = true;
    for (size_t axis = 0; axis < index.size(); ++axis) {
      is_inside = is_inside && index[axis] >= 0 && index[axis] < tensor.shape[axis];
      place = place * tensor.shape[axis] + index[axis];
    }
    numbers.words.push_back(word_of(is_inside ? element_as_double(value, place) : access.fill, tensor.type));
  };
  along(0, along);
  if (std::ssize(numbers.words) > kMostNumbers) return std::nullopt;
  return numbers;
}

/// The same access over results alone; nothing where it depends on what is reduced.
std::optional<TensorAccess> over_results(const TensorAccess& access, size_t outer, const Shape& extents) {
  TensorAccess result{access.tensor, AffineMap(access.map.axes(), outer), access.fill};
  for (size_t axis = 0; axis < access.map.axes(); ++axis) {
    result.map.set_offset(axis, access.map.offset(axis));
    for (size_t dim = 0; dim < access.map.dims(); ++dim) {
      const int64_t coefficient = access.map.coefficient(axis, dim);
      if (dim < outer) {
        result.map.set(axis, dim, coefficient);
      } else if (coefficient != 0 && extents[dim] > 1) {
        return std::nullopt;
      }
    }
  }
  return result;
}

bool is_integer(TensorId tensor, const LayerGraph& graph) {
  return word_kind(graph.tensors[static_cast<size_t>(tensor)].type) != ScalarKind::kFloat;
}

}  // namespace

std::optional<WindowsProblem> pool_problem(const ReduceLayer& reduce, TensorId output,
                                           const LayerGraph& graph) {
  auto dims = dims_of(reduce);
  if (!dims || reduced_kind(reduce) == ScalarKind::kDouble || reduce.inputs.empty()) return std::nullopt;
  const size_t outer = reduce.output_extents.size();
  WindowsProblem problem;
  std::vector<TensorAccess> inputs = reduce.epilogue_inputs;
  // Of the epilogue's inputs, of which the result is number 0, the last may be what rows outside are.
  if (!inputs.empty() && reduce.epilogue.input_count() <= std::ssize(inputs) &&
      fill_of_rows(inputs.back(), graph)) {
    problem.zeros = std::move(inputs.back());
    problem.has_rows = true;
    inputs.pop_back();
    problem.zeros_name = fmt::format("e{}", inputs.size());
  }
  // The first operand that has windows, and those that are read with it.
  const auto shape_of = [&](const TensorAccess& access) -> const Shape& {
    return graph.tensors[static_cast<size_t>(access.tensor)].shape;
  };
  const auto first = std::ranges::find_if(reduce.inputs, [&](const TensorAccess& access) {
    PoolDims found = *dims;
    return !graph.is_constant(access.tensor) && shape_of(access).size() == 4 &&
           window_of(access, shape_of(access), reduce, found);
  });
  if (first == reduce.inputs.end()) return std::nullopt;
  problem.window = *window_of(*first, shape_of(*first), reduce, *dims);
  problem.fill = first->fill;
  problem.operand_name = fmt::format("x{}", first - reduce.inputs.begin());
  const auto in = picture_of(first->tensor, shape_of(*first), 1);
  if (!in || in->tokens || !has_all_columns(*in)) return std::nullopt;
  problem.in = *in;
  problem.phases = dims->phases;
  if (outer == 6) {
    problem.out = *picture_of(output, dims->results, 1);
    problem.made = apart_picture(output, reduce.output_extents);
    // A place's results are in its lane.
    const auto groups = [](const Picture& picture) {
      return isa::ceil_div(picture.columns, int64_t{isa::kCyclesPerStep});
    };
    if (groups(*problem.made) != groups(problem.out) * problem.phases[1]) return std::nullopt;
  } else {
    const auto out = picture_of(output, reduce.output_extents, 1);
    if (!out) return std::nullopt;
    problem.out = *out;
  }
  problem.op = reduce.op;

  // Numbers of the layer's inputs in the expression: windows, number, others.
  problem.extents = outer == 6 ? reduce.output_extents : dims->results;
  problem.channel_dim = 1;
  std::vector<int> numbers(reduce.inputs.size(), 0);
  std::vector<std::pair<size_t, TensorAccess>> rest;
  size_t with_number = reduce.inputs.size();
  for (size_t k = 0; k < reduce.inputs.size(); ++k) {
    const TensorAccess& access = reduce.inputs[k];
    if (&access == &*first) continue;
    if (access.map == first->map && access.fill == first->fill && shape_of(access) == shape_of(*first) &&
        !graph.is_constant(access.tensor)) {
      problem.others.push_back(*picture_of(access.tensor, shape_of(access), 1));
      problem.other_names.push_back(fmt::format("x{}", k));
      numbers[k] = static_cast<int>(problem.others.size());
    } else if (auto found = numbers_of(fmt::format("x{}", k), access, *dims, graph);
               found && !problem.numbers) {
      problem.numbers = std::move(found);
      with_number = k;
    } else if (auto over = over_results(access, outer, dims->extents)) {
      rest.emplace_back(k, std::move(*over));
    } else {
      return std::nullopt;
    }
  }
  int next = 1 + static_cast<int>(problem.others.size());
  if (problem.numbers) numbers[with_number] = next++;
  for (const auto& [k, access] : rest) numbers[k] = next++;
  problem.expr = reduce.expr.renumbered(numbers);
  const bool is_plain = reduce.inputs.size() == 1 && outer != 6;
  // Other terms of several operands are sums over pictures mostly, which have kernels of their own.
  if (!problem.numbers && (!is_plain || reduced_kind(reduce) != ScalarKind::kFloat)) return std::nullopt;
  if (outer == 6 && (!rest.empty() || !inputs.empty())) return std::nullopt;

  const bool has_integers =
      is_integer(first->tensor, graph) || std::ranges::any_of(problem.others, [&](const Picture& other) {
        return is_integer(other.tensor, graph);
      });
  if (has_integers && problem.fill != 0) return std::nullopt;
  const RowsWindow& window = problem.window;
  const double neutral = identity_of(reduce.op);
  const auto is_nothing = [&](double value) { return problem.expr.evaluate(std::vector{value}) == neutral; };
  // A row outside is what the operand is filled with, or becomes a copy of the one next to it: the same
  // maximum, if that one is in the window.
  const int64_t below = window.rows_under(problem.out.rows) - window.pad[0] - problem.in.rows;
  const bool has_outside = window.pad[0] > 0 || below > 0;
  if (problem.zeros && (!has_outside || first->fill != *fill_of_rows(*problem.zeros, graph)))
    return std::nullopt;
  if (has_outside && !problem.zeros) {
    const bool extreme = reduce.op == ReduceLayer::Op::kMax || reduce.op == ReduceLayer::Op::kMin;
    if (!extreme || !is_plain || window.dilation[0] != 1 || !is_nothing(first->fill) ||
        window.pad[0] >= window.kernel[0] || below >= window.kernel[0]) {
      return std::nullopt;
    }
  }
  problem.whole_rows = is_plain && dims->results[3] == 1 && window.kernel[1] == problem.in.columns &&
                       window.pad[1] == 0 && window.dilation[1] == 1 && !has_integers &&
                       (is_nothing(neutral) || problem.in.columns % isa::kCyclesPerStep == 0);
  problem.epilogue = reduce.epilogue;
  if (is_plain && inputs.empty() && !problem.zeros) return problem;
  if (problem.whole_rows || outer == 2) return std::nullopt;
  const auto add_input = [&](std::string name, const TensorAccess& access) {
    const auto found = windows_input(std::move(name), access, problem, AffineMap::identity(outer), graph);
    if (found) problem.inputs.push_back(*found);
    return found.has_value();
  };
  std::vector<int> of_epilogue = {0};
  for (const auto& [k, access] : rest) {
    if (!add_input(fmt::format("x{}", k), access)) return std::nullopt;
  }
  for (size_t k = 0; k < inputs.size(); ++k) {
    of_epilogue.push_back(static_cast<int>(problem.inputs.size()) + 1);
    if (!add_input(fmt::format("e{}", k), inputs[k])) return std::nullopt;
  }
  if (problem.zeros) of_epilogue.push_back(static_cast<int>(problem.inputs.size()) + 1);
  problem.epilogue = reduce.epilogue.renumbered(of_epilogue);
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
