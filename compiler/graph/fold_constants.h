#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/tensor/tensor.h"

namespace kodama::compiler {

/// How many bytes a folded output may have if it is larger than the constants it is computed from: folding
/// may move work from run time to compile time, but must not turn a small model into a large one (a
/// ConstantOfShape or Expand of a few bytes may make gigabytes). 1 MiB.
inline constexpr int64_t kDefaultFoldLimit = 1 << 20;
/// How many bytes all constants of a model may have for folding to make more of them. A chain of Concats of a
/// value with itself doubles it every time and never makes an output larger than its inputs. For outputs
/// within the limit, only constants within it count.
inline constexpr int64_t kFoldTotal = int64_t{64} << 20;

/// Evaluates with the CPU reference every node whose inputs are all constant, and Shape and Size of static
/// shapes, and makes their outputs initializers. Left alone are random operators, nodes that the reference
/// can't run or that fail in it (the failure is then the run's), and outputs beyond the limit: bytes larger
/// than both `limit` and the sum of the node's constant inputs, or such that the model's constants, without
/// those that nobody reads any more, would grow beyond `total`. A graph output that becomes constant is
/// made by an Identity of an initializer. UserError for a value that hasn't the shape that the model says.
/// Works on any opset, and where types are only partly known. Returns whether anything changed; value_info
/// may then name values that are initializers.
bool fold_constants(onnx::ModelProto& model, int64_t limit = kDefaultFoldLimit, int64_t total = kFoldTotal);

/// The same of nodes alone that make int32 or int64, as shapes and positions are: what the model has of
/// numbers, which may be trained, stays as it is.
bool fold_shapes(onnx::ModelProto& model);

/// The value of a Shape or Size node whose operand has this type; nullopt for other nodes and open types.
std::optional<Tensor> value_of_shape(const onnx::NodeProto& node, const onnx::TypeProto& input);

/// Infers the types of all values, folding constants where a shape depends on one, until every type is known
/// or nothing changes any more. Errors are those of infer_types().
void settle_types(onnx::ModelProto& model);

/// Removes nodes that pass their input on unchanged: Identity, Dropout in inference, Cast to the same type,
/// Transpose that permutes nothing, and Reshape, Flatten, Squeeze, Unsqueeze, Expand, Tile and forward Slice
/// that keep the shape, Concat and sums of one input. Types must be inferred. Names of graph outputs are kept
/// (where nothing else can carry the name, an Identity stays). Opset 17 only.
bool remove_no_ops(onnx::ModelProto& model);

}  // namespace kodama::compiler
