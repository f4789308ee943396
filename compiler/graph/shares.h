#pragma once

#include <onnx/onnx_pb.h>

#include <string>
#include <vector>

/// Where a model waits for others that compute the same of other data: chips that train together, or the
/// shares of a batch that one chip takes one after the other.
namespace kodama::compiler {

/// Makes of a node `output = Identity(value)` for each of these outputs a single node kodama.MeanOfShares of
/// all: every output is the mean of its operand over all shares. What it needs comes before it, all else
/// behind, so that a share changes no state. It is a function of the model's own, whose body are these
/// Identity nodes: other runtimes compute a single share. UserError, beginning with `where`, for an output
/// that no Identity node makes.
void join_shares(onnx::ModelProto& model, const std::vector<std::string>& outputs, const std::string& where);

}  // namespace kodama::compiler
