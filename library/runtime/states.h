#pragma once

#include <kodama/runtime.h>

#include <functional>
#include <string>
#include <vector>

#include "compiler/package/compiled_model.h"
#include "compiler/runtime/runner.h"
#include "compiler/tensor/value.h"

/// What the classes of runtime.h refer to. Private to library.
namespace kodama {

struct Tensor::State {
  compiler::Tensor tensor;
};

namespace library {

struct TensorAccess {
  static Tensor wrap(compiler::Tensor tensor);
  static const compiler::Tensor& get(const Tensor& tensor);
  /// A copy, unless nobody else has it.
  static compiler::Tensor take(Tensor tensor);
};
/// Copies the elements of tensors that somebody else has, too.
compiler::TensorMap to_map(Tensors tensors);
/// Moves.
Tensors from_map(compiler::TensorMap map);

struct PackageState {
  compiler::CompiledModel model;
  std::vector<ValueInfo> inputs, outputs;
};

/// The tensors with these numbers, over all slices.
std::vector<ValueInfo> describe(const compiler::CompiledModel& model,
                                const std::vector<compiler::TensorId>& ids);
/// UserError for an unknown name of hazards, and for hazards that need timing.
compiler::RunnerOptions runner_options(const SessionSettings& settings);
/// (done, total, what), as the compiler and the runner report it.
std::function<void(int64_t, int64_t, const std::string&)> to_counts(
    const std::function<void(double, const std::string&)>& progress);

}  // namespace library
}  // namespace kodama
