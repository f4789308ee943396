#include "compiler/graph/shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/graph/onnx_model.h"
#include "compiler/reference/executor.h"
#include "compiler/reference/kernels/shares.h"
#include "isa/error.h"

namespace kodama::compiler {

void join_shares(onnx::ModelProto& model, const std::vector<std::string>& outputs, const std::string& where) {
  onnx::GraphProto& graph = *model.mutable_graph();
  FreshNames names = names_of(graph);
  onnx::NodeProto mean;
  mean.set_name(names.make_unique("mean_of_shares"));
  mean.set_domain(kSharesDomain);
  mean.set_op_type(kMeanOfShares);
  onnx::FunctionProto body;
  body.set_name(kMeanOfShares);
  body.set_domain(kSharesDomain);
  auto& import = *body.add_opset_import();
  import.set_domain("");
  import.set_version(kOpsetVersion);
  for (const std::string& output : outputs) {
    const auto maker = std::ranges::find_if(graph.node(), [&](const onnx::NodeProto& node) {
      return node.op_type() == "Identity" && node.output_size() == 1 && node.output(0) == output;
    });
    if (maker == graph.node().end())
      throw isa::UserError(
          fmt::format("{}: no Identity node makes '{}', whose mean over chips or shares is wanted; "
                      "kodama train-step makes such models",
                      where, output));
    mean.add_input(maker->input(0));
    mean.add_output(output);
    body.add_input(fmt::format("x{}", body.input_size()));
    body.add_output(fmt::format("y{}", body.output_size()));
    onnx::NodeProto& same = *body.add_node();
    same.set_op_type("Identity");
    same.add_input(body.input(body.input_size() - 1));
    same.add_output(body.output(body.output_size() - 1));
  }

  const std::set<std::string> joined(outputs.begin(), outputs.end());
  std::set<std::string> needed(mean.input().begin(), mean.input().end());
  std::vector<bool> comes_first(static_cast<size_t>(graph.node_size()), false);
  for (int i = graph.node_size() - 1; i >= 0; --i) {
    const onnx::NodeProto& node = graph.node(i);
    if (std::ranges::none_of(node.output(), [&](const auto& name) { return needed.contains(name); }))
      continue;
    isa::check_internal(!joined.contains(node.output(0)), "join_shares", "'{}' depends on the mean itself",
                        node.output(0));
    comes_first[static_cast<size_t>(i)] = true;
    needed.merge(names_read(node));
    needed.erase("");  // operands that are left out
  }
  google::protobuf::RepeatedPtrField<onnx::NodeProto> first;
  google::protobuf::RepeatedPtrField<onnx::NodeProto> then;
  for (int i = 0; i < graph.node_size(); ++i) {
    onnx::NodeProto& node = *graph.mutable_node(i);
    if (node.output_size() == 1 && joined.contains(node.output(0))) continue;
    (comes_first[static_cast<size_t>(i)] ? first : then).Add()->Swap(&node);
  }
  *first.Add() = mean;
  first.MergeFrom(then);
  graph.mutable_node()->Swap(&first);
  *model.add_functions() = body;
  auto& own = *model.add_opset_import();
  own.set_domain(kSharesDomain);
  own.set_version(1);
  reestablish(model, "join_shares");
}

}  // namespace kodama::compiler
