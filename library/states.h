#pragma once

#include <kodama/kodama.h>

#include <memory>
#include <optional>
#include <string>

#include "compiler/driver/session.h"
#include "compiler/dynamic/dynamic_executor.h"
#include "compiler/graph/import.h"
#include "compiler/package/compiled_model.h"
#include "compiler/runtime/runner.h"
#include "library/runtime/states.h"

/// What the classes of kodama.h refer to. Private to library.
namespace kodama {

namespace library {

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
