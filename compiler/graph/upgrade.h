#pragma once

#include <onnx/onnx_pb.h>

#include <string>

namespace kodama::compiler {

/// Converts a model's nodes to version `target` of ONNX's own operator set, with libonnx's version
/// converter and corrections of ours where release 1.12 of it is wrong. The model must be checked, without
/// functions and control flow, its initializers must not be graph inputs, and its types inferred: several
/// adapters read shapes. Its value_info is dropped (it may not fit the new nodes); graph inputs and outputs
/// keep names and types.
///
/// Throws UnsupportedError, beginning with `where`, that names operator and versions if a node can't be
/// expressed.
void upgrade_opset(onnx::ModelProto& model, int64_t target, const std::string& where);

/// Whether any node of `nodes` means something else (another version of its schema) in version `to` of
/// ONNX's own operator set than in version `from`.
bool needs_upgrade(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, int64_t from,
                   int64_t to);

}  // namespace kodama::compiler
