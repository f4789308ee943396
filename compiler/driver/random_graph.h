#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>

/// Random ONNX models, for `kodama onnx-fuzz`.
namespace kodama::compiler {

/// A small valid model of operators that run on the chip: pictures of one to three dimensions under
/// convolutions and pooling, tokens under attention and normalization, and whatever else fits between,
/// with values that other values' rounding errors don't grow in. A function of the seed alone, on every
/// machine: the random numbers and the choices made of them are integers.
///
/// Every node is run on the CPU reference as it is added, which says its shape; what the reference throws
/// comes out of here.
onnx::ModelProto random_graph(uint64_t seed);

}  // namespace kodama::compiler
