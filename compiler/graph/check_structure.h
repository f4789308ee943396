#pragma once

#include <onnx/onnx_pb.h>

#include <string>

namespace kodama::compiler {

/// UserError, beginning with `where`, that names the node and what is wrong, unless in every graph of the
/// model (functions and sub-graphs, too) each value is made once, and before it is read. Nothing is asked of
/// libonnx: operators needn't be known.
void check_structure(const onnx::ModelProto& model, const std::string& where);

/// UserError, beginning with `where`, for what the ONNX checker refuses. It asks every graph output for type
/// and shape, which exporters leave out where they aren't known: those are allowed here. The model is
/// as before.
void check_with_onnx(onnx::ModelProto& model, const std::string& where);

}  // namespace kodama::compiler
