#include <optional>
#include <utility>
#include <vector>

#include "compiler/kernels/builtin_kernels.h"
#include "compiler/kernels/rows_windows.h"

/// "depthwise-rows": convolutions of every channel with a kernel of its own, on images of rows.
namespace kodama::compiler {

namespace {

constexpr const char* kDepthwiseKernel = "depthwise-rows";

/// The dim of the extents above 1 that an axis depends on, outside K and in it; -1 = none. Nothing where
/// there are more.
std::optional<std::pair<int, int>> dims_of(const AffineMap& map, size_t axis, const ContractLayer& contract) {
  std::pair<int, int> found(-1, -1);
  for (size_t dim = 0; dim < contract.dims.size(); ++dim) {
    if (map.coefficient(axis, dim) == 0 || contract.dims[dim].extent == 1) continue;
    int& slot = contract.dims[dim].role == ContractLayer::Role::kK ? found.second : found.first;
    if (slot >= 0) return std::nullopt;
    slot = static_cast<int>(dim);
  }
  return found;
}

}  // namespace

std::optional<WindowsProblem> depthwise_problem(const ContractLayer& contract, TensorId output,
                                                const LayerGraph& graph) {
  const auto shape_of = [&](TensorId tensor) -> const Shape& {
    return graph.tensors[static_cast<size_t>(tensor)].shape;
  };
  const auto is_constant = [&](const TensorAccess& access) { return graph.is_constant(access.tensor); };
  const auto extent = [&](int dim) { return dim < 0 ? 1 : contract.dims[static_cast<size_t>(dim)].extent; };
  if (is_constant(contract.a) == is_constant(contract.b)) return std::nullopt;
  const TensorAccess& weights = is_constant(contract.a) ? contract.a : contract.b;
  const TensorAccess& operand = is_constant(contract.a) ? contract.b : contract.a;
  const auto in = picture_of(operand.tensor, shape_of(operand.tensor), 1);
  const auto out = picture_of(output, contract.output_shape, 1);
  if (!in || !out || in->tokens || out->tokens || operand.fill != 0 || in->shape.back() < isa::kCyclesPerStep)
    return std::nullopt;
  WindowsProblem problem;
  problem.in = *in;
  problem.out = *out;
  problem.operand_name = is_constant(contract.a) ? "b" : "a";
  problem.has_weights = problem.has_rows = true;
  problem.extents = contract_extents(contract);
  // What of the iteration space the weights may depend on: the channel, and the kernel's positions.
  std::vector<bool> of_weights(contract.dims.size(), false);
  size_t inner_dims = 0;
  for (size_t axis = 0; axis < 4; ++axis) {
    const auto read = dims_of(operand.map, axis, contract);
    const auto made = dims_of(contract.output, axis, contract);
    if (!read || !made || read->first != made->first || made->second >= 0 ||
        contract.output.offset(axis) != 0 || extent(made->first) != contract.output_shape[axis])
      return std::nullopt;
    const auto coefficient = [&](const AffineMap& map, int dim) {
      return dim < 0 ? 1 : map.coefficient(axis, static_cast<size_t>(dim));
    };
    const int64_t stride = coefficient(operand.map, read->first);
    if (coefficient(contract.output, made->first) != 1 || stride < 1) return std::nullopt;
    if (axis < 2) {
      if (read->second >= 0 || operand.map.offset(axis) != 0 || stride != 1 ||
          in->shape[axis] != contract.output_shape[axis])
        return std::nullopt;
      if (axis == 1) problem.channel_dim = read->first;
      continue;
    }
    const size_t way = axis - 2;
    problem.window.stride.at(way) = stride;
    problem.window.pad.at(way) = -operand.map.offset(axis);
    if (problem.window.pad.at(way) < 0) return std::nullopt;
    if (read->second < 0) continue;
    ++inner_dims;
    problem.kernel_dims.at(way) = read->second;
    problem.window.kernel.at(way) = extent(read->second);
    problem.window.dilation.at(way) = coefficient(operand.map, read->second);
    if (problem.window.dilation.at(way) < 1) return std::nullopt;
    of_weights[static_cast<size_t>(read->second)] = true;
  }
  if (problem.channel_dim < 0) return std::nullopt;
  of_weights[static_cast<size_t>(problem.channel_dim)] = true;
  for (size_t dim = 0; dim < contract.dims.size(); ++dim) {
    if (contract.dims[dim].extent == 1) continue;
    if (contract.dims[dim].role == ContractLayer::Role::kK && inner_dims-- == 0) return std::nullopt;
    for (size_t axis = 0; axis < weights.map.axes() && !of_weights[dim]; ++axis) {
      if (weights.map.coefficient(axis, dim) != 0) return std::nullopt;
    }
  }
  problem.expr = {};
  problem.expr.apply(ScalarOp::kMul, problem.expr.input(0), problem.expr.input(1));
  problem.epilogue = contract.epilogue;
  problem.inputs.push_back({is_constant(contract.a) ? "a" : "b", weights, false});
  for (size_t k = 0; k < contract.epilogue_inputs.size(); ++k) {
    const auto input =
        windows_input("x" + std::to_string(k), contract.epilogue_inputs[k], problem, contract.output, graph);
    if (!input) return std::nullopt;
    problem.inputs.push_back(*input);
  }
  return problem;
}

namespace {

std::vector<Candidate> depthwise_candidates(const Layer& layer, const LayerGraph& graph,
                                            const isa::Chip& chip, const KernelOptions& options) {
  auto problem = depthwise_problem(std::get<ContractLayer>(layer.body), layer.outputs.at(0), graph);
  if (!problem) return {};
  problem->constants_stay = options.constants_stay;
  return windows_candidates(*problem, layer.name, graph, chip);
}

}  // namespace

Kernel depthwise_rows_kernel() {
  Kernel kernel;
  kernel.name = kDepthwiseKernel;
  kernel.description = "convolutions of every channel by itself, on images of rows";
  kernel.kind = LayerKind::kContract;
  kernel.run = depthwise_candidates;
  return kernel;
}

}  // namespace kodama::compiler
