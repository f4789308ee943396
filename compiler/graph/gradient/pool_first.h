#pragma once

#include <onnx/onnx_pb.h>

#include <set>
#include <string>

namespace kodama::compiler::gradient {

/// Makes a Relu behind a MaxPool of one before it: MaxPool(Relu(x)) = Relu(MaxPool(x)), as the larger of two
/// numbers stays it. To differentiate, that is less: the Relu's gradient is one of as many elements as the
/// pool makes. It comes to the same elements, for where a window has several maxima, they are zero, or were
/// the same before.
///
/// Only where nobody else reads what the Relu makes, or the pool's Indices, and it isn't one of `kept`.
void pool_first(onnx::ModelProto& model, const std::set<std::string>& kept);

}  // namespace kodama::compiler::gradient
