#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <functional>
#include <string>

namespace kodama::compiler {

/// How many nodes a model may have once its functions are expanded. Nested calls multiply: 31 functions of
/// two calls each are 2^30 nodes.
inline constexpr int64_t kMaxExpandedNodes = 1 << 17;
/// How deep calls of functions may be nested.
inline constexpr int kMaxCallDepth = 100;

/// UserError for functions that call themselves, UnsupportedError for a model that is too large or too deep
/// once its functions are expanded. Takes time by the model as it is written; libonnx's checks and type
/// inference go into every call and must not see such a model.
void check_local_functions(const onnx::ModelProto& model, const std::string& where);

/// Expands the functions that the model itself defines (ModelProto.functions), also nested ones and those
/// that sub-graphs call, and removes their definitions. They have passed check_local_functions. `where`
/// begins the messages. UserError for calls that don't fit, UnsupportedError where a function's operator set
/// can't be brought to the model's. New nodes have names below their caller's ("call/node"); types are to be
/// inferred again.
void expand_local_functions(onnx::ModelProto& model, const std::string& where);

/// Expands the operators whose ONNX schema carries a function body, fixed or made for the node's types, until
/// none is left but those for which `keep` says so and those whose body needs control flow (Range,
/// SequenceMap: they stay as they are). The types of all values must be inferred; those of new values are,
/// too.
void expand_schema_functions(onnx::ModelProto& model,
                             const std::function<bool(const onnx::NodeProto&)>& keep);

}  // namespace kodama::compiler
