#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/reference/kernels/node.h"

/// Executes nodes (node.h), with the graphs inside them.
namespace kodama::compiler::reference {

/// Values by name. Names that aren't here are looked up in the surrounding graph's scope.
class Scope {
 public:
  explicit Scope(const Scope* parent = nullptr) : parent_(parent) {}

  const Value* find(const std::string& name) const {
    const auto found = values_.find(name);
    if (found != values_.end()) return &found->second;
    return parent_ != nullptr ? parent_->find(name) : nullptr;
  }
  bool has_own(const std::string& name) const { return values_.contains(name); }
  void set(const std::string& name, Value value) { values_.insert_or_assign(name, std::move(value)); }
  void forget(const std::string& name) { values_.erase(name); }
  std::unordered_map<std::string, Value>& values() { return values_; }

 private:
  const Scope* parent_;
  std::unordered_map<std::string, Value> values_;
};

/// Executes the graph that is a node's attribute of this name, with values for its inputs. Returns its
/// outputs in order.
using SubgraphRunner =
    std::function<std::vector<Value>(const std::string& attribute, const std::vector<Value>& inputs)>;

/// One value per output of the node, in order. `inputs`: one per input, nullptr for an omitted one. UserError
/// for what contradicts the operator, UnsupportedError for what has no kernel.
std::vector<Value> run_node(const Node& node, const std::vector<const Value*>& inputs,
                            const SubgraphRunner& run_subgraph);
/// The same; graphs in the node see no names but their own.
std::vector<Value> run_node(const Node& node, const std::vector<const Value*>& inputs);
/// The same for tensors; UnsupportedError where an output is none.
std::vector<Tensor> run_node(const Node& node, const std::vector<const Tensor*>& inputs);
/// With values of `scope`, which receives the outputs.
void run_node_in(const Node& node, Scope& scope);

}  // namespace kodama::compiler::reference
