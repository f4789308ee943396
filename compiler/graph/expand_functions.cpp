#include "compiler/graph/expand_functions.h"

#include <onnx/defs/function.h>

#include <algorithm>
#include <map>
#include <optional>

#include "compiler/graph/fold_constants.h"
#include "compiler/graph/infer_types.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/graph/upgrade.h"
#include "compiler/graph/walk.h"
#include "compiler/reference/executor.h"

namespace kodama::compiler {

namespace {

[[noreturn]] void too_many_nodes(const std::string& where) {
  throw isa::UnsupportedError(fmt::format(
      "{}: with its functions expanded, the model has more than {} nodes; call fewer functions, or split the "
      "model",
      where, kMaxExpandedNodes));
}

/// A call's callee, and the values of its attributes where the caller gives none.
struct Callee {
  onnx::FunctionProto function;
  std::map<std::string, onnx::AttributeProto> defaults = {};
};

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

void infer_what_is_known(onnx::ModelProto& model) {
  try {
    infer_types(model);
  } catch (const isa::UserError&) {
  } catch (const isa::UnsupportedError&) {
  }
}

class FunctionExpander {
 public:
  FunctionExpander(onnx::ModelProto& model, std::string where) : model_(model), where_(std::move(where)) {
    for_each_graph(model_, [&](const onnx::GraphProto& graph) { reserve_names(graph, names_); });
  }

  using Find = std::function<std::optional<Callee>(const onnx::NodeProto&)>;

  /// Replaces every node for which `find` returns a callee, but those in sub-graphs. Returns whether there
  /// was one.
  bool expand_calls(const Find& find) {
    types_.clear();
    return expand_calls(*model_.mutable_graph()->mutable_node(), find);
  }
  /// The same in the graphs that nodes carry.
  bool expand_inner_calls(const Find& find) {
    bool any = false;
    for_each_graph(model_, [&](onnx::GraphProto& graph) {
      if (&graph != &model_.graph()) any |= expand_calls(*graph.mutable_node(), find);
    });
    return any;
  }

  const TypeMap& types() {
    if (types_.empty()) types_ = collect_types(model_.graph());
    return types_;
  }

 private:
  bool expand_calls(Nodes& nodes, const Find& find) {
    bool any = false;
    Nodes result;
    for (auto& node : nodes) {
      if (auto callee = find(node)) {
        any = true;
        for (auto& inner : instantiate(node, std::move(*callee))) *result.Add() = std::move(inner);
      } else {
        *result.Add() = std::move(node);
      }
      if (result.size() > kMaxExpandedNodes) too_many_nodes(where_);
    }
    nodes = std::move(result);
    return any;
  }

  std::string describe(const onnx::NodeProto& node) const { return where_ + ": " + describe_node(node); }

  Nodes instantiate(const onnx::NodeProto& call, Callee callee) {
    onnx::FunctionProto& function = callee.function;
    if (call.input_size() > function.input_size() || call.output_size() > function.output_size()) {
      throw isa::UserError(fmt::format("{}: {} inputs and {} outputs; the function has {} and {}",
                                       describe(call), call.input_size(), call.output_size(),
                                       function.input_size(), function.output_size()));
    }
    bind_attributes(call, callee);
    drop_missing_inputs(call, function);
    fit_opset(call, function);

    // Formal names to names in the caller's graph.
    std::unordered_map<std::string, std::string> actual{{"", ""}};
    const auto prefix = (call.name().empty() ? call.op_type() : call.name()) + "/";
    for (int i = 0; i < call.input_size(); ++i) actual[function.input(i)] = call.input(i);
    Nodes nodes;
    std::unordered_set<std::string> made;
    for (const auto& node : function.node()) made.insert(node.output().begin(), node.output().end());
    for (int i = 0; i < function.output_size(); ++i) {
      const std::string& formal = function.output(i);
      const bool wanted = i < call.output_size() && !call.output(i).empty();
      if (!wanted) continue;
      if (made.contains(formal) && !actual.contains(formal)) {
        actual[formal] = call.output(i);
        continue;
      }
      // The output is an input of the function, or the same value as an output before.
      if (!actual.contains(formal)) {
        throw isa::UserError(
            fmt::format("{}: nothing in the function makes its output '{}'", describe(call), formal));
      }
      onnx::NodeProto& identity = *nodes.Add();
      identity.set_op_type("Identity");
      identity.set_name(names_.make_unique(prefix + formal));
      identity.add_input(actual.at(formal));
      identity.add_output(call.output(i));
    }
    const int identities = nodes.size();
    for (auto& node : *function.mutable_node()) {
      for (auto& input : *node.mutable_input()) {
        const auto it = actual.find(input);
        if (it == actual.end()) {
          throw isa::UserError(fmt::format("{}: in the function, {} reads '{}' before it is made",
                                           describe(call), describe_node(node), input));
        }
        input = it->second;
      }
      for (auto& attribute : *node.mutable_attribute()) {
        if (attribute.has_g()) rename_graph(*attribute.mutable_g(), prefix, actual);
      }
      for (auto& output : *node.mutable_output()) {
        auto [it, is_new] = actual.try_emplace(output);
        if (is_new) it->second = names_.make_unique(prefix + output);
        output = it->second;
      }
      while (node.input_size() > 0 && node.input(node.input_size() - 1).empty()) {
        node.mutable_input()->RemoveLast();
      }
      node.set_name(names_.make_unique(prefix + (node.name().empty() ? node.op_type() : node.name())));
      *nodes.Add() = std::move(node);
    }
    std::rotate(nodes.pointer_begin(), nodes.pointer_begin() + identities,
                nodes.pointer_end());  // they read what the rest makes
    return nodes;
  }

  using Names = std::unordered_map<std::string, std::string>;

  /// A graph in a node of a function: what it makes gets names that nothing around the call has; what it
  /// reads of the function has those of the caller's graph.
  void rename_graph(onnx::GraphProto& graph, const std::string& prefix, Names actual) {
    const auto make = [&](std::string& name) {
      if (name.empty()) return;
      std::string& renamed = actual[name];
      renamed = names_.make_unique(prefix + name);
      name = renamed;
    };
    const auto read = [&](std::string& name) {
      if (const auto known = actual.find(name); known != actual.end()) name = known->second;
    };
    for (auto& input : *graph.mutable_input()) make(*input.mutable_name());
    for (auto& tensor : *graph.mutable_initializer()) {
      // Of an old model it is an input, too.
      const bool is_input = std::ranges::any_of(
          graph.input(), [&](const auto& input) { return input.name() == actual[tensor.name()]; });
      if (is_input) {
        read(*tensor.mutable_name());
      } else {
        make(*tensor.mutable_name());
      }
    }
    for (auto& node : *graph.mutable_node()) {
      for (auto& input : *node.mutable_input()) read(input);
      for (auto& attribute : *node.mutable_attribute()) {
        if (attribute.has_g()) rename_graph(*attribute.mutable_g(), prefix, actual);
      }
      for (auto& output : *node.mutable_output()) make(output);
      node.set_name(names_.make_unique(prefix + (node.name().empty() ? node.op_type() : node.name())));
    }
    for (auto& output : *graph.mutable_output()) read(*output.mutable_name());
    graph.clear_value_info();
  }

  /// Attributes of the body that refer to the call's.
  void bind_attributes(const onnx::NodeProto& call, Callee& callee) {
    for_each_node_in(*callee.function.mutable_node(), [&](onnx::NodeProto& node) {
      auto& attributes = *node.mutable_attribute();
      for (int i = attributes.size() - 1; i >= 0; --i) {
        auto& attribute = attributes[i];
        if (attribute.ref_attr_name().empty()) continue;
        const onnx::AttributeProto* value = find_attribute(call, attribute.ref_attr_name());
        if (!value) {
          const auto it = callee.defaults.find(attribute.ref_attr_name());
          if (it != callee.defaults.end()) value = &it->second;
        }
        if (value) {
          const std::string name = attribute.name();
          attribute = *value;
          attribute.set_name(name);
          attribute.clear_ref_attr_name();
        } else {
          attributes.DeleteSubrange(i, 1);  // optional, and absent in the call
        }
      }
    });
  }

  static void drop_missing_inputs(const onnx::NodeProto& call, onnx::FunctionProto& function) {
    std::unordered_set<std::string> missing;
    for (int i = 0; i < function.input_size(); ++i) {
      if (i >= call.input_size() || call.input(i).empty()) missing.insert(function.input(i));
    }
    for_each_node_in(*function.mutable_node(), [&](onnx::NodeProto& node) {
      for (auto& input : *node.mutable_input()) {
        if (missing.contains(input)) input.clear();
      }
    });
  }

  /// Brings the body to the model's versions of all operator sets.
  void fit_opset(const onnx::NodeProto& call, onnx::FunctionProto& function) {
    for (const auto& import : function.opset_import()) {
      const int64_t version = opset_version(model_, import.domain());
      if (version == 0) {
        auto& added = *model_.add_opset_import();
        added.set_domain(import.domain());
        added.set_version(import.version());
      } else if (version != import.version() && import.domain().empty()) {
        for (const auto& node : function.node()) {
          for (const auto& attribute : node.attribute()) {
            if (!needs_upgrade(attribute.g().node(), import.version(), version)) continue;
            throw isa::UnsupportedError(
                fmt::format("{}: in the function, {} has a graph that is written in opset {}, the model in "
                            "opset {}; they "
                            "must be the same",
                            describe(call), describe_node(node), import.version(), version));
          }
        }
        if (needs_upgrade(function.node(), import.version(), version)) {
          convert(call, function, import.version(), version);
        }
      } else if (version != import.version()) {
        throw isa::UnsupportedError(
            fmt::format("{}: the function imports version {} of the operator set '{}', the "
                        "model version {}; they must be the same",
                        describe(call), import.version(), import.domain(), version));
      }
    }
  }

  void convert(const onnx::NodeProto& call, onnx::FunctionProto& function, int64_t from, int64_t to) {
    if (from > to) {
      throw isa::UnsupportedError(fmt::format(
          "{}: the function is written in opset {}, the model in opset {}", describe(call), from, to));
    }
    onnx::ModelProto body;
    body.set_ir_version(kIrVersion);
    *body.mutable_opset_import() = function.opset_import();
    auto& graph = *body.mutable_graph();
    graph.set_name(function.name());
    *graph.mutable_node() = function.node();
    for (int i = 0; i < call.input_size(); ++i) {
      if (call.input(i).empty()) continue;
      auto& input = *graph.add_input();
      input.set_name(function.input(i));
      const auto type = types().find(call.input(i));
      if (type != types().end()) *input.mutable_type() = type->second;
    }
    // A body made for its node may leave out optional outputs; libonnx's converter crashes on an output
    // that nothing makes.
    std::unordered_set<std::string> made;
    for (const auto& node : function.node()) made.insert(node.output().begin(), node.output().end());
    for (const auto& output : function.output()) {
      if (made.contains(output)) graph.add_output()->set_name(output);
    }
    infer_what_is_known(body);  // adapters that don't find the shapes that they need say so
    upgrade_opset(body, to, describe(call));
    Nodes nodes;
    for (auto& tensor : *graph.mutable_initializer()) {
      onnx::NodeProto& constant = *nodes.Add();
      constant.set_op_type("Constant");
      constant.add_output(tensor.name());
      *set_attribute(constant, "value", onnx::AttributeProto_AttributeType_TENSOR).mutable_t() =
          std::move(tensor);
    }
    for (auto& node : *graph.mutable_node()) *nodes.Add() = std::move(node);
    *function.mutable_node() = std::move(nodes);
  }

  onnx::ModelProto& model_;
  std::string where_;
  FreshNames names_;
  TypeMap types_;
};

using FunctionKey = std::pair<std::string, std::string>;  // domain, name

/// Measures what calls expand to.
class CallCounter {
 public:
  CallCounter(const onnx::ModelProto& model, const std::string& where) : where_(where) {
    for (const auto& function : model.functions())
      functions_[{function.domain(), function.name()}] = &function;
  }

  void check(const Nodes& nodes) { check(measure(nodes, 0)); }
  void check(const onnx::FunctionProto& function) { check(measure(function, 0)); }

 private:
  struct Size {
    int64_t nodes = 0;  ///< more than kMaxExpandedNodes is one more than that
    int depth = 0;      ///< of nested calls; -1: is being measured
  };

  static void add(const Size& part, Size& sum) {
    sum = {std::min(sum.nodes + part.nodes, kMaxExpandedNodes + 1), std::max(sum.depth, part.depth)};
  }
  void check(const Size& size) const {
    if (size.nodes > kMaxExpandedNodes) too_many_nodes(where_);
    if (size.depth > kMaxCallDepth) too_deep();
  }
  [[noreturn]] void too_deep() const {
    throw isa::UnsupportedError(fmt::format(
        "{}: calls of the model's functions are nested more than {} deep; put the bodies of some into "
        "their callers",
        where_, kMaxCallDepth));
  }
  Size measure(const Nodes& nodes, int outer) {
    if (outer > kMaxCallDepth) too_deep();
    Size sum;
    for (const auto& node : nodes) {
      const auto callee = functions_.find({node.domain(), node.op_type()});
      const Size own = callee == functions_.end() ? Size{1, 0} : measure(*callee->second, outer);
      add(own, sum);
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) add(measure(attribute.g().node(), outer), sum);
        for (const auto& graph : attribute.graphs()) add(measure(graph.node(), outer), sum);
      }
    }
    return sum;
  }
  Size measure(const onnx::FunctionProto& function, int outer) {
    const auto [known, is_new] = sizes_.try_emplace(&function, Size{0, -1});
    if (!is_new && known->second.depth < 0) {
      throw isa::UserError(
          fmt::format("{}: function '{}.{}' calls itself", where_, function.domain(), function.name()));
    }
    if (is_new) {
      const Size body = measure(function.node(), outer + 1);
      known->second = {body.nodes, body.depth + 1};
    }
    return known->second;
  }

  const std::string& where_;
  std::map<FunctionKey, const onnx::FunctionProto*> functions_;
  std::map<const onnx::FunctionProto*, Size> sizes_;
};

/// Whether ONNX's body of an operator is wrong for the element type of its data, which the operator allows:
/// such a node is left whole for the reference.
bool body_misses_type(const onnx::NodeProto& node, const TypeMap& types) {
  const auto type = node.input_size() == 0 ? types.end() : types.find(node.input(0));
  if (type == types.end()) return false;
  const auto element = type->second.tensor_type().elem_type();
  // Its constants are float32.
  if (node.op_type() == "MeanVarianceNormalization") return element != DataType::kFloat32;
  // It calls NegativeLogLikelihoodLoss, which doesn't allow the type.
  return node.op_type() == "SoftmaxCrossEntropyLoss" && element == DataType::kBfloat16;
}

}  // namespace

void check_local_functions(const onnx::ModelProto& model, const std::string& where) {
  CallCounter counter(model, where);
  counter.check(model.graph().node());
  for (const auto& function : model.functions()) counter.check(function);  // those that nobody calls, too
}

void expand_local_functions(onnx::ModelProto& model, const std::string& where) {
  if (model.functions_size() == 0) return;
  name_nodes(*model.mutable_graph());
  const auto find_function = [&](const onnx::NodeProto& node) -> std::optional<Callee> {
    for (const auto& function : model.functions()) {
      if (function.name() == node.op_type() && function.domain() == node.domain()) return Callee{function};
    }
    return std::nullopt;
  };
  // Types matter only to a body in another opset; what can't be inferred is reported there.
  const int64_t version = opset_version(model);
  const bool needs_types =
      std::any_of(model.functions().begin(), model.functions().end(), [&](const auto& function) {
        return std::any_of(
            function.opset_import().begin(), function.opset_import().end(),
            [&](const auto& import) { return import.domain().empty() && import.version() != version; });
      });
  for (;;) {
    if (needs_types) infer_what_is_known(model);
    FunctionExpander expander(model, where);
    const bool outside = expander.expand_calls(find_function);
    if (!expander.expand_inner_calls(find_function) && !outside) break;
  }
  model.clear_functions();
  // The domains of the functions mean nothing any more.
  std::unordered_set<std::string> used{""};
  for_each_node(model, [&](const onnx::NodeProto& node) { used.insert(node.domain()); });
  auto& imports = *model.mutable_opset_import();
  imports.erase(std::remove_if(imports.begin(), imports.end(),
                               [&](const auto& import) { return !used.contains(import.domain()); }),
                imports.end());
}

void expand_schema_functions(onnx::ModelProto& model,
                             const std::function<bool(const onnx::NodeProto&)>& keep) {
  for (;;) {
    FunctionExpander expander(model, "model");
    const auto find_function = [&](const onnx::NodeProto& node) -> std::optional<Callee> {
      const onnx::OpSchema* schema = find_schema(model, node);
      if (!schema || !(schema->HasFunction() || schema->HasContextDependentFunction()) || keep(node)) {
        return std::nullopt;
      }
      if (body_misses_type(node, expander.types())) return std::nullopt;
      // What a random operator draws depends on its name, which the nodes of its body don't have.
      if (is_random(node)) return std::nullopt;
      Callee callee;
      if (schema->HasFunction()) {
        callee.function = *schema->GetFunction();
      } else {
        std::vector<onnx::TypeProto> input_types;
        for (const std::string& input : node.input()) {
          const auto type = expander.types().find(input);
          input_types.push_back(type == expander.types().end() ? onnx::TypeProto() : type->second);
        }
        const onnx::FunctionBodyBuildContextImpl context(node, input_types);
        if (!schema->BuildContextDependentFunction(context, callee.function)) return std::nullopt;
      }
      // Control flow can't be expanded, and a Range would have a length that depends on data: such a node
      // is left whole for the reference.
      if (std::any_of(callee.function.node().begin(), callee.function.node().end(),
                      [](const auto& inner) { return has_subgraph(inner) || inner.op_type() == "Range"; })) {
        return std::nullopt;
      }
      for (const auto& [name, attribute] : schema->attributes()) {
        if (attribute.default_value.type() != onnx::AttributeProto_AttributeType_UNDEFINED) {
          callee.defaults[name] = attribute.default_value;
        }
      }
      return callee;
    };
    if (!expander.expand_calls(find_function)) return;
    try {
      settle_types(model);
    } catch (const isa::Error& error) {
      isa::check_internal(false, "graph pass expand-functions", "types after expansion: {}", error.what());
    }
  }
}

}  // namespace kodama::compiler
