#include <algorithm>
#include <queue>

#include "compiler/graph/onnx_model.h"
#include "compiler/graph/passes.h"
#include "compiler/proto/tensor_proto.h"

namespace kodama::compiler {

namespace {

void remove_unused_nodes(onnx::GraphProto& graph) {
  std::unordered_map<std::string, int> producer;
  for (int i = 0; i < graph.node_size(); ++i) {
    for (const auto& output : graph.node(i).output()) {
      if (!output.empty()) producer[output] = i;
    }
  }
  std::vector<bool> used(graph.node_size(), false);
  std::vector<int> work;
  const auto need = [&](const std::string& name) {
    const auto it = producer.find(name);
    if (it == producer.end() || used[it->second]) return;
    used[it->second] = true;
    work.push_back(it->second);
  };
  for (const auto& output : graph.output()) need(output.name());
  while (!work.empty()) {
    const int node = work.back();
    work.pop_back();
    for (const auto& input : graph.node(node).input()) need(input);
  }
  remove_nodes(graph, [&](int i) { return !used[i]; });
}

void remove_unused_initializers(onnx::GraphProto& graph) {
  std::unordered_set<std::string> used;
  for (const auto& node : graph.node()) used.insert(node.input().begin(), node.input().end());
  for (const auto& output : graph.output()) used.insert(output.name());
  auto& initializers = *graph.mutable_initializer();
  initializers.erase(std::remove_if(initializers.begin(), initializers.end(),
                                    [&](const auto& tensor) { return !used.contains(tensor.name()); }),
                     initializers.end());
}

void merge_equal_initializers(onnx::GraphProto& graph) {
  std::unordered_set<std::string> outputs;
  for (const auto& output : graph.output()) outputs.insert(output.name());
  // Only tensors of the same type and shape can be equal; only those are decoded.
  std::map<std::pair<int, Shape>, std::vector<int>> groups;
  for (int i = 0; i < graph.initializer_size(); ++i) {
    const auto& tensor = graph.initializer(i);
    if (outputs.contains(tensor.name())) continue;  // its name must stay
    groups[{tensor.data_type(), Shape(tensor.dims().begin(), tensor.dims().end())}].push_back(i);
  }
  std::unordered_map<std::string, std::string> renames;
  for (const auto& [type, members] : groups) {
    if (members.size() < 2) continue;
    std::unordered_multimap<size_t, int> seen;
    const auto decoded = [&](int index) {
      const auto& proto = graph.initializer(index);
      return tensor_from_proto(proto, "initializer '" + proto.name() + "'");
    };
    for (int index : members) {
      const Tensor tensor = decoded(index);
      size_t hash = std::hash<std::string_view>()(
          {reinterpret_cast<const char*>(tensor.bytes().data()), tensor.bytes().size()});
      for (const auto& text : tensor.strings()) hash = hash * 31 + std::hash<std::string>()(text);
      const auto [first, last] = seen.equal_range(hash);
      const auto equal =
          std::find_if(first, last, [&](const auto& other) { return decoded(other.second) == tensor; });
      if (equal != last) {
        renames[graph.initializer(index).name()] = graph.initializer(equal->second).name();
      } else {
        seen.emplace(hash, index);
      }
    }
  }
  for (auto& node : *graph.mutable_node()) {
    for (auto& input : *node.mutable_input()) {
      const auto it = renames.find(input);
      if (it != renames.end()) input = it->second;
    }
  }
}

}  // namespace

// Kahn's algorithm.
void sort_nodes(onnx::GraphProto& graph) {
  const int count = graph.node_size();
  std::unordered_map<std::string, int> producer;
  for (int i = 0; i < count; ++i) {
    for (const auto& output : graph.node(i).output()) producer[output] = i;
  }
  std::vector<std::vector<int>> successors(count);
  std::vector<int> missing(count, 0);
  for (int i = 0; i < count; ++i) {
    for (const auto& input : graph.node(i).input()) {
      const auto it = producer.find(input);
      if (input.empty() || it == producer.end()) continue;
      successors[it->second].push_back(i);
      ++missing[i];
    }
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < count; ++i) {
    if (missing[i] == 0) ready.push(i);
  }
  google::protobuf::RepeatedPtrField<onnx::NodeProto> sorted;
  sorted.Reserve(count);
  while (!ready.empty()) {
    const int node = ready.top();
    ready.pop();
    *sorted.Add() = std::move(*graph.mutable_node(node));
    for (int next : successors[node]) {
      if (--missing[next] == 0) ready.push(next);
    }
  }
  isa::check_internal(sorted.size() == count, "sorting nodes", "the graph has a cycle");
  *graph.mutable_node() = std::move(sorted);
}

void eliminate_dead(onnx::ModelProto& model) {
  auto& graph = *model.mutable_graph();
  remove_unused_nodes(graph);
  remove_unused_initializers(graph);
  merge_equal_initializers(graph);
  remove_unused_initializers(graph);
  sort_nodes(graph);
}

}  // namespace kodama::compiler
