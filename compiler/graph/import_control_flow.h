#pragma once

#include "compiler/graph/import.h"

namespace kodama::compiler {

/// import_model() for a model that may have If, Loop and Scan, which then stay: opset 17, inputs of static
/// shape; other values have a type as far as it follows from these. Constants of graphs in nodes become the
/// model's own, Ifs with a constant condition their branch.
onnx::ModelProto import_with_control_flow(onnx::ModelProto model, const ImportOptions& options,
                                          const std::string& where);

}  // namespace kodama::compiler
