#include "compiler/dynamic/decide_branches.h"

#include "compiler/graph/inner_graphs.h"
#include "compiler/graph/onnx_model.h"

namespace kodama::compiler {

onnx::GraphProto with_branches(const GraphInfo& graph, const std::vector<bool>& done,
                               const std::map<int, bool>& decided) {
  onnx::GraphProto result;
  result.set_name(graph.proto().name());
  *result.mutable_output() = graph.proto().output();
  for (int k = 0; k < static_cast<int>(done.size()); ++k) {
    const onnx::NodeProto& node = *graph.nodes()[static_cast<size_t>(k)].proto;
    if (done[static_cast<size_t>(k)]) continue;
    const auto branch = decided.find(k);
    if (branch == decided.end()) {
      *result.add_node() = node;
    } else {
      put_branch(node, branch->second, result);
    }
  }
  return result;
}

}  // namespace kodama::compiler
