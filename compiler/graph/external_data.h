#pragma once

#include <onnx/onnx_pb.h>

#include <string>

namespace kodama::compiler {

/// Brings the data that tensors of the model keep in other files (data_location EXTERNAL) into the model:
/// initializers and attributes, also in functions and sub-graphs. Locations are relative to `directory`, the
/// model file's folder, and must be regular files in it: no path and no symbolic link may lead out of it.
/// Together the tensors may be larger than the 2 GiB that a protobuf file can have; such a model can't be
/// serialized any more (serialize_model() says so).
///
/// UserError, beginning with `where`, with tensor, file, what was found and what is needed, for a location
/// that isn't allowed, a file that is missing, and data that are too short or of another length than type and
/// shape say.
void load_external_data(onnx::ModelProto& model, const std::string& directory, const std::string& where);

}  // namespace kodama::compiler
