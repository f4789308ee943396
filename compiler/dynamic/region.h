#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <string>
#include <vector>

#include "compiler/dynamic/graph_info.h"

namespace kodama::compiler {

/// Nodes of a graph that can be compiled together now: the shapes of all that they read and make are known.
struct Region {
  std::vector<int> nodes;  ///< of GraphInfo::nodes(), in their order; empty: there is no such region
  /// Ifs whose condition follows from shapes, with its value; then there is no region yet: their branches may
  /// be part of it (decide_branches.h).
  std::map<int, bool> decided;
  std::vector<std::string> inputs;  ///< values that it is given in every run
  /// Values of lists and numbers that decide shapes in it: constants of its program.
  std::vector<std::string> bound;
  struct Output {
    std::string name;
    bool from_shapes = false;  ///< see Frame::Known
  };
  std::vector<Output> outputs;  ///< what other nodes, or the graph's outputs, need of it
  onnx::ModelProto model;       ///< for import_model()
  /// Of its nodes those whose shapes are decided by lists that come from data, not from shapes.
  std::vector<int> by_data;
  /// Nodes that aren't in it though all that they read is there: their shapes can't be told from it.
  std::vector<int> unknown;
};

struct RegionOptions {
  /// Nodes that are the host's, with the reason.
  std::map<int, std::string> refused;
  /// If not negative: only the first so many nodes of the region.
  int most_nodes = -1;
};

/// The largest region of the nodes that aren't done, with the values that `frame` has. Of lists and numbers
/// that decide shapes (shape_inputs()) the elements count, of all else the type.
///
/// UserError for operands that contradict each other.
Region plan_region(const onnx::ModelProto& model, const GraphInfo& graph, const std::vector<bool>& done,
                   const Frame& frame, const RegionOptions& options);

}  // namespace kodama::compiler
