/// A graph pass as a plugin: the Relu of a Relu is that Relu. docs/write-a-pass.md explains it.
#include <map>
#include <string>

#include "compiler/graph/passes.h"
#include "passes/plugin.h"

using namespace kodama::compiler;

namespace {

/// Relus of Relus read what the first one reads; who isn't read any more is removed by eliminate-dead.
void merge_relus(onnx::ModelProto& model, const GraphPassOptions&) {
  std::map<std::string, std::string> input_of;  // of a Relu, by its output
  for (onnx::NodeProto& node : *model.mutable_graph()->mutable_node()) {
    if (node.op_type() != "Relu" || !node.domain().empty()) continue;
    const auto inner = input_of.find(node.input(0));
    if (inner != input_of.end()) node.set_input(0, inner->second);
    input_of[node.output(0)] = node.input(0);
  }
}

}  // namespace

KODAMA_PLUGIN() {
  register_pass(GraphPass{.name = "merge-relus",
                          .description = "the Relu of a Relu is that Relu",
                          .run = merge_relus,
                          .after = "fold-constants"});
}
