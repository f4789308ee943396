#pragma once

#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>

#include <string>

#include "compiler/reference/executor.h"

/// What names of operators mean, for resolve.cpp and executor.cpp.
namespace kodama::compiler {

/// Functions may call functions; deeper than this it's a recursion, which ONNX forbids.
inline constexpr int kMaxFunctionDepth = 64;

std::string canonical_domain(const std::string& domain);  ///< "" for "ai.onnx"
std::string domain_text(const std::string& domain);       ///< "ai.onnx" for ""
/// nullptr if there is none.
const onnx::OpSchema* find_schema(const onnx::NodeProto& node, const OperatorSets& operators);
/// Why a node names no operator of its operator set; empty if it does.
std::string unknown_operator(const onnx::NodeProto& node, const OperatorSets& operators,
                             const onnx::OpSchema* schema);
/// The function body of a schema that has one, with its imports filled in.
onnx::FunctionProto schema_function(const onnx::OpSchema& schema);
bool has_kernel(const std::string& domain, const std::string& op_type);
/// UnsupportedError.
void check_no_sparse_initializers(const onnx::GraphProto& graph);

}  // namespace kodama::compiler
