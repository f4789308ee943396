#include "compiler/kernels/contract_problem.h"

namespace kodama::compiler {

ContractProblem contract_problem(const ContractLayer& contract, TensorId output, bool swapped) {
  using Role = ContractLayer::Role;
  ContractProblem problem;
  problem.contract = &contract;
  problem.swapped = swapped;
  problem.output = output;
  problem.extents.fill(1);
  for (size_t d = 0; d < contract.dims.size(); ++d) {
    const ContractLayer::Dim& dim = contract.dims[d];
    problem.all_extents.push_back(dim.extent);
    const auto index = static_cast<int>(d);
    if (dim.role == Role::kK) {
      problem.k_dims.push_back(index);
      problem.k *= dim.extent;
      continue;
    }
    const ContractAxis axis = dim.role == Role::kBatch             ? kBatchAxis
                              : (dim.role == Role::kM) == !swapped ? kRowAxis
                                                                   : kColumnAxis;
    problem.dims[axis].push_back(index);
    problem.extents[axis] *= dim.extent;
  }
  return problem;
}

AxisSet dependence(const TensorAccess& access, const ContractProblem& problem) {
  AxisSet depends{};
  for (size_t axis = 0; axis < kAxisCount; ++axis) {
    for (int dim : problem.dims[axis]) {
      for (size_t a = 0; a < access.map.axes(); ++a) {
        depends[axis] = depends[axis] || access.map.coefficient(a, static_cast<size_t>(dim)) != 0;
      }
    }
  }
  return depends;
}

}  // namespace kodama::compiler
