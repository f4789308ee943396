#pragma once

#include <onnx/onnx_pb.h>

#include <map>

#include "compiler/dynamic/graph_info.h"

namespace kodama::compiler {

/// The nodes of `graph` that aren't done, with the nodes of a branch in the place of each If of `decided`
/// (node of GraphInfo::nodes(), whether its condition is true). Values inside a branch get names of their
/// own.
onnx::GraphProto with_branches(const GraphInfo& graph, const std::vector<bool>& done,
                               const std::map<int, bool>& decided);

}  // namespace kodama::compiler
