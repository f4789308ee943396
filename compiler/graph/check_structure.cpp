#include "compiler/graph/check_structure.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compiler/graph/onnx_model.h"

namespace kodama::compiler {

namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

/// The values of a graph that are made so far, and those of the graphs around it.
class Scope {
 public:
  Scope(const std::string& where, const Scope* outer) : where_(where), outer_(outer) {}

  void check(const onnx::GraphProto& graph) {
    std::unordered_set<std::string> inputs;
    for (const auto& input : graph.input()) {
      if (!inputs.insert(input.name()).second) fail("the graph's input '{}' is listed twice", input.name());
      makers_[input.name()] = "the graph's inputs";
    }
    std::unordered_set<std::string> tensors;
    const auto add_tensor = [&](const std::string& name) {
      if (name.empty()) fail("an initializer has no name");
      if (!tensors.insert(name).second) fail("initializer '{}' is there twice", name);
      makers_[name] = "the initializers";  // that of an input is its default
    };
    for (const auto& tensor : graph.initializer()) add_tensor(tensor.name());
    for (const auto& tensor : graph.sparse_initializer()) add_tensor(tensor.values().name());
    check(graph.node());
  }

  void check(const onnx::FunctionProto& function) {
    for (const auto& input : function.input()) {
      if (!makers_.try_emplace(input, "the function's inputs").second)
        fail("the function's input '{}' is listed twice", input);
    }
    check(function.node());
  }

 private:
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw isa::UserError(where_ + ": " + fmt::format(format, std::forward<Args>(args)...));
  }

  bool has(const std::string& value) const {
    return makers_.contains(value) || (outer_ != nullptr && outer_->has(value));
  }

  void check(const Nodes& nodes) {
    for (int i = 0; i < nodes.size(); ++i) {
      const auto& node = nodes[i];
      for (const std::string& input : node.input()) {
        if (!input.empty() && !has(input)) explain_missing(nodes, i, input);
      }
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) Scope(where_, this).check(attribute.g());
        for (const auto& graph : attribute.graphs()) Scope(where_, this).check(graph);
      }
      for (const std::string& output : node.output()) {
        if (output.empty()) continue;
        const auto [maker, is_new] = makers_.try_emplace(output, "");
        if (!is_new) {
          fail("{} makes the value '{}', which {} makes, too; a value has one maker", describe_node(node),
               output, maker->second.empty() ? describe_maker(nodes, output) : maker->second);
        }
      }
    }
  }

  static std::string describe_maker(const Nodes& nodes, const std::string& value) {
    for (const auto& node : nodes) {
      if (std::ranges::find(node.output(), value) != node.output().end()) return describe_node(node);
    }
    return "nobody";
  }

  /// Node `reader` reads a value that nothing before it makes.
  [[noreturn]] void explain_missing(const Nodes& nodes, int reader, const std::string& value) const {
    std::unordered_map<std::string, int> makers;
    for (int i = reader; i < nodes.size(); ++i) {
      for (const std::string& output : nodes[i].output()) makers.try_emplace(output, i);
    }
    const auto maker = makers.find(value);
    if (maker == makers.end()) {
      fail("{} reads '{}', which no input, initializer or node makes", describe_node(nodes[reader]), value);
    }
    // Backwards from the maker: a way to the reader is a cycle.
    std::unordered_map<int, int> read_by = {{maker->second, -1}};
    std::vector<int> work = {maker->second};
    while (!work.empty() && !read_by.contains(reader)) {
      const int node = work.back();
      work.pop_back();
      for (const std::string& input : nodes[node].input()) {
        const auto found = makers.find(input);
        if (found != makers.end() && read_by.try_emplace(found->second, node).second)
          work.push_back(found->second);
      }
    }
    if (!read_by.contains(reader)) {
      fail(
          "{} reads '{}', which {} makes only later; sort the nodes such that each comes after those whose "
          "results it reads",
          describe_node(nodes[reader]), value, describe_node(nodes[maker->second]));
    }
    std::vector<std::string> cycle;
    constexpr size_t kMostNamed = 6;
    for (int node = reader; node >= 0 && cycle.size() < kMostNamed; node = read_by.at(node))
      cycle.push_back(describe_node(nodes[node]));
    fail("the graph has a cycle: {} reads the result of {}{}", describe_node(nodes[reader]),
         cycle.size() == 1 ? "itself" : describe_node(nodes[maker->second]),
         cycle.size() <= 1 ? ""
                           : fmt::format(", which depends on it ({}{})", fmt::join(cycle, " -> "),
                                         cycle.size() == kMostNamed ? " -> ..." : ""));
  }

  const std::string& where_;
  const Scope* outer_;
  /// Who makes each value, as text; empty for a node.
  std::unordered_map<std::string, std::string> makers_;
};

}  // namespace

void check_structure(const onnx::ModelProto& model, const std::string& where) {
  Scope(where, nullptr).check(model.graph());
  for (const auto& function : model.functions()) {
    const std::string place = fmt::format("{}: function '{}.{}'", where, function.domain(), function.name());
    Scope(place, nullptr).check(function);
  }
}

void check_with_onnx(onnx::ModelProto& model, const std::string& where) {
  std::vector<onnx::TypeProto_Tensor*> without_shape;
  std::vector<onnx::ValueInfoProto*> without_type;
  std::unordered_set<std::string> made;  // whose types will be inferred
  for (const auto& node : model.graph().node()) made.insert(node.output().begin(), node.output().end());
  for (auto& output : *model.mutable_graph()->mutable_output()) {
    if (output.type().value_case() == onnx::TypeProto::VALUE_NOT_SET && made.contains(output.name())) {
      without_type.push_back(&output);
      output.mutable_type()->mutable_tensor_type()->set_elem_type(DataType::kFloat32);
    }
    if (output.type().has_tensor_type() && !output.type().tensor_type().has_shape()) {
      without_shape.push_back(output.mutable_type()->mutable_tensor_type());
      without_shape.back()->mutable_shape();
    }
  }
  const std::string message = check_onnx(model);
  for (auto* type : without_shape) type->clear_shape();
  for (auto* output : without_type) output->clear_type();
  if (!message.empty()) throw isa::UserError(fmt::format("{}: not a valid ONNX model: {}", where, message));
}

}  // namespace kodama::compiler
