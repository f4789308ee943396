#pragma once

#include <onnx/onnx_pb.h>

#include <string>

namespace kodama::compiler {

/// Fields of IR versions 9 and 10 that libonnx's messages don't have, in words of IR version 8, before
/// anything else looks at the model:
///
///  * overloads (NodeProto.overload, FunctionProto.overload) become part of the names of functions and calls:
///    "Foo:half",
///  * defaults of a function's attributes (FunctionProto.attribute_proto) are written into the calls that
///    leave them out.
///
/// What only describes (metadata_props, value_info of functions) is dropped. UserError for a default that is
/// no attribute.
void resolve_newer_fields(onnx::ModelProto& model, const std::string& where);

}  // namespace kodama::compiler
