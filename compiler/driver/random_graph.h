#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/driver/shrink_graph.h"

/// Random ONNX models, for `kodama onnx-fuzz`.
namespace kodama::compiler {

/// What a model is like.
enum class GraphKind : uint8_t {
  kNetwork,    ///< few large layers: pictures of one to three dimensions under convolutions and pooling,
               ///< tokens under attention and normalization, and what else fits between; static
  kOperators,  ///< 10 to 60 nodes of all operators and types, on small tensors
};

/// A small valid model, with inputs for which every value in it is a number that can be compared. Each node
/// is made by the row of its operator (random_rows.h), and run on the CPU reference as it is added; what that
/// throws comes out of here. A function of the seed alone, wherever the reference computes the same: random
/// numbers and the choices made of them are integers.
GraphProblem random_problem(uint64_t seed, GraphKind kind);

/// An attempt to add one node, for tests: whether there is one now.
bool can_add(const std::string& op, uint64_t seed);

}  // namespace kodama::compiler
