#pragma once

#include <onnx/onnx_pb.h>

#include <string>

#include "compiler/driver/session.h"

/// What the commands of training.h have in common. Private to compiler/driver.
namespace kodama::compiler {

/// Imports a model; the first axis of every input gets extent `batch`, unless that is 0.
onnx::ModelProto import_with_batch(const std::string& file, const SessionOptions& options, int64_t batch);

}  // namespace kodama::compiler
