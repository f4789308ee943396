#pragma once

#include <onnx/onnx_pb.h>

#include <functional>

#include "compiler/reference/executor.h"

/// Makes a model that shows a fault smaller.
namespace kodama::compiler {

/// A model and what it is run on.
struct GraphProblem {
  onnx::ModelProto model;
  ValueMap inputs;
};

/// Drops outputs and nodes while `fails` holds; it is called at most `most_tries` times. What nodes that are
/// gone have made becomes an input, with the values that the CPU reference computes. `problem` itself is
/// expected to fail.
GraphProblem shrink_graph(GraphProblem problem, const std::function<bool(const GraphProblem&)>& fails,
                          int most_tries);

}  // namespace kodama::compiler
