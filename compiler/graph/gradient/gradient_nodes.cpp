#include "compiler/graph/gradient/gradient_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "compiler/graph/gradient/gradient.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/graph/passes.h"
#include "compiler/graph/walk.h"

namespace kodama::compiler {

namespace {

bool is_gradient_node(const onnx::NodeProto& node) {
  return node.op_type() == "Gradient" && node.domain() == "ai.onnx.preview.training";
}

std::vector<std::string> names_in(const onnx::NodeProto& node, const char* attribute) {
  const auto* found = find_attribute(node, attribute);
  if (found == nullptr) return {};
  return {found->strings().begin(), found->strings().end()};
}

class GradientNode {
 public:
  GradientNode(onnx::ModelProto& model, onnx::NodeProto node, const std::string& where)
      : model_(model),
        graph_(*model.mutable_graph()),
        node_(std::move(node)),
        where_(fmt::format("{}: {}", where, describe_node(node_))),
        xs_(names_in(node_, "xs")),
        leaves_(xs_),
        y_(find_attribute(node_, "y")->s()) {
    const std::vector<std::string> zs = names_in(node_, "zs");
    leaves_.insert(leaves_.end(), zs.begin(), zs.end());
    for (int k = 0; k < graph_.node_size(); ++k) {
      for (const std::string& output : graph_.node(k).output()) {
        if (!output.empty()) makers_[output] = k;
      }
    }
    check_names();
  }

  /// Finds the nodes that make y of the leaves. False if there is a Gradient node among them, which must be
  /// replaced first.
  bool find_part() {
    std::vector<std::string> open = {y_};
    std::set<std::string> seen(leaves_.begin(), leaves_.end());
    while (!open.empty()) {
      const std::string name = open.back();
      open.pop_back();
      if (name.empty() || !seen.insert(name).second) continue;
      const auto maker = makers_.find(name);
      if (maker == makers_.end()) {
        check_constant(name);
        continue;
      }
      const onnx::NodeProto& node = graph_.node(maker->second);
      if (is_gradient_node(node)) return false;
      part_.insert(maker->second);
      open.insert(open.end(), node.input().begin(), node.input().end());
    }
    return true;
  }

  void replace() {
    GradientRequest request{.loss = y_, .wrt = xs_, .stop = {leaves_.begin() + count(xs_), leaves_.end()}};
    if (!is_at_the_named_values()) {
      const std::map<std::string, std::string> copies = copy_part();
      for (auto* names : {&request.wrt, &request.stop}) {
        for (std::string& name : *names) name = copies.at(name);
      }
      request.loss = copies.at(y_);
    }
    const GradientNames gradients = add_gradients(model_, request, where_);
    auto& nodes = *graph_.mutable_node();
    nodes.erase(std::find_if(nodes.begin(), nodes.end(),
                             [&](const auto& node) { return node.name() == node_.name(); }));
    for (int k = 0; k < node_.output_size(); ++k) {
      if (!node_.output(k).empty()) add_identity(gradients[static_cast<size_t>(k)].second, node_.output(k));
    }
    sort_nodes(graph_);
    reestablish(model_, "gradient nodes");
  }

 private:
  static ptrdiff_t count(const std::vector<std::string>& list) { return static_cast<ptrdiff_t>(list.size()); }

  bool has_constant(const std::string& name) const {
    return std::ranges::any_of(graph_.initializer(), [&](const auto& each) { return each.name() == name; });
  }
  bool has_input(const std::string& name) const {
    return std::ranges::any_of(graph_.input(), [&](const auto& each) { return each.name() == name; });
  }

  void check_names() const {
    std::vector<std::string> names = leaves_;
    names.push_back(y_);
    for (const std::string& name : names) {
      if (!makers_.contains(name) && !has_input(name) && !has_constant(name))
        throw isa::UserError(
            fmt::format("{}: it names '{}'; there is no such value in the graph", where_, name));
    }
  }

  void check_constant(const std::string& name) const {
    if (has_constant(name)) return;
    throw isa::UserError(fmt::format(
        "{}: '{}' depends on the input '{}', which is in neither of its lists xs and zs", where_, y_, name));
  }

  /// Then derivatives are added to what computes y in any case.
  bool is_at_the_named_values() const {
    for (size_t k = 0; k < leaves_.size(); ++k) {
      if (node_.input(static_cast<int>(k)) != leaves_[k]) return false;
    }
    // The derivative by an x that is computed of another one is at a fixed value of this.
    return std::ranges::none_of(xs_, [&](const auto& name) { return makers_.contains(name); });
  }

  void add_identity(const std::string& from, const std::string& to) {
    onnx::NodeProto& node = *graph_.add_node();
    node.set_op_type("Identity");
    node.add_input(from);
    node.add_output(to);
  }

  /// Computes the part once more, of the operands; the copies of its values by their names.
  std::map<std::string, std::string> copy_part() {
    FreshNames names = names_of(graph_);
    std::map<std::string, std::string> copies;
    const auto copy_of = [&](const std::string& name) {
      return copies[name] = names.make_unique(node_.name() + "/" + name);
    };
    for (size_t k = 0; k < leaves_.size(); ++k)
      add_identity(node_.input(static_cast<int>(k)), copy_of(leaves_[k]));
    for (const int k : part_) {
      onnx::NodeProto copy = graph_.node(k);
      copy.clear_name();
      for (std::string& input : *copy.mutable_input()) {
        if (const auto found = copies.find(input); found != copies.end()) input = found->second;
      }
      for (std::string& output : *copy.mutable_output()) {
        // A leaf that this node makes, too, is what it was given.
        if (!output.empty()) output = copies.contains(output) ? names.make_unique(output) : copy_of(output);
      }
      *graph_.add_node() = std::move(copy);
    }
    sort_nodes(graph_);
    reestablish(model_, "gradient nodes");
    // A y that nothing computes of the leaves is refused by who differentiates it.
    copies.try_emplace(y_, y_);
    return copies;
  }

  onnx::ModelProto& model_;
  onnx::GraphProto& graph_;
  const onnx::NodeProto node_;
  const std::string where_;
  const std::vector<std::string> xs_;
  std::vector<std::string> leaves_;  ///< xs and zs, in the order of the operands
  const std::string y_;
  std::map<std::string, int> makers_;  ///< nodes by what they make
  std::set<int> part_;                 ///< nodes, in the order of the graph
};

/// Replaces the first Gradient node whose part has none. False if there is no Gradient node.
bool replace_one(onnx::ModelProto& model, const std::string& where) {
  std::optional<std::string> last;
  for (const onnx::NodeProto& each : model.graph().node()) {
    if (!is_gradient_node(each)) continue;
    last = describe_node(each);
    GradientNode node(model, each, where);
    if (!node.find_part()) continue;
    node.replace();
    return true;
  }
  if (last)
    throw isa::UserError(
        fmt::format("{}: {}: what it differentiates depends on its own result", where, *last));
  return false;
}

}  // namespace

bool has_gradient_nodes(const onnx::ModelProto& model) {
  bool found = false;
  for_each_node(model, [&](const onnx::NodeProto& node) { found |= is_gradient_node(node); });
  return found;
}

void expand_gradient_nodes(onnx::ModelProto& model, const std::string& where) {
  while (replace_one(model, where)) {
  }
}

void expand_gradient_nodes(ImportedModel& imported, const std::string& where) {
  if (!has_gradient_nodes(imported.model)) return;
  if (!imported.open_reason.empty())
    throw isa::UnsupportedError(fmt::format(
        "{}: Gradient needs a model of which all shapes are known before it runs (--dim, --bind), "
        "without control flow; {}",
        where, imported.open_reason));
  expand_gradient_nodes(imported.model, where);
}

}  // namespace kodama::compiler
