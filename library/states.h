#pragma once

#include <kodama/kodama.h>

#include <memory>
#include <optional>
#include <string>

#include "compiler/driver/session.h"
#include "compiler/dynamic/dynamic_executor.h"
#include "compiler/graph/import.h"
#include "compiler/runtime/runner.h"
#include "compiler/tensor/value.h"

/// What the classes of kodama.h refer to. Private to library.
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

struct ModelState {
  std::string where;  ///< begins messages
  compiler::ImportedModel imported;
  std::string name;
};

/// Of a program that is compiled while it runs.
struct OpenProgram {
  std::shared_ptr<const ModelState> model;
  compiler::SessionOptions options;
};
struct ProgramState {
  std::string name;
  isa::Chip chip;
  std::vector<ValueInfo> inputs, outputs;
  std::optional<compiler::CompiledModel> compiled;
  std::optional<OpenProgram> open;  ///< the one that there is
};

std::vector<ValueInfo> describe(const google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& values);

}  // namespace library
}  // namespace kodama
