#pragma once

#include <onnx/onnx_pb.h>

#include <iosfwd>
#include <string>

#include "compiler/driver/session.h"
#include "compiler/driver/training.h"

/// What the commands of training.h have in common. Private to compiler/driver.
namespace kodama::compiler {

/// Imports a model; the first axis of every input gets extent `batch`, unless that is 0.
onnx::ModelProto import_with_batch(const std::string& file, const SessionOptions& options, int64_t batch);

/// `common` with the options of the recomputer among those that --pass-option may set.
SessionOptions with_recomputer(SessionOptions common, const StepMemoryOptions& memory);
/// Keeps a step within the limit, if there is one, and says what it was and is. `common` as
/// with_recomputer() has made it.
void limit_memory(StepModel& step, const SessionOptions& common, const StepMemoryOptions& memory,
                  std::ostream& out);

}  // namespace kodama::compiler
