#include "compiler/graph/gradient/gradient.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "compiler/graph/expand_functions.h"
#include "compiler/graph/fold_constants.h"
#include "compiler/graph/gradient/gradient_rules.h"
#include "compiler/graph/gradient/pool_first.h"
#include "compiler/graph/graph_view.h"
#include "compiler/graph/inner_graphs.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/reference/executor.h"

namespace kodama::compiler {

namespace gradient {

Term NodeTerms::term(const std::string& name) const {
  const ValueInfo& value = view_.value(name);
  return {&graph_, name, value.type, value.shape};
}

const Tensor& NodeTerms::constant(int input) const {
  const Tensor* tensor = view_.constant(node_.input(input));
  if (tensor == nullptr)
    refuse(fmt::format("is differentiated only where its input {} ('{}') is constant", input,
                       node_.input(input)));
  return *tensor;
}

Ints NodeTerms::integers(int input) const {
  const Tensor& tensor = constant(input);
  Ints values;
  for (int64_t i = 0; i < tensor.size(); ++i)
    values.push_back(tensor.type() == DataType::kInt32 ? tensor.data<int32_t>()[static_cast<size_t>(i)]
                                                       : tensor.data<int64_t>()[static_cast<size_t>(i)]);
  return values;
}

Ints NodeTerms::axes(Ints list) const {
  for (int64_t& axis : list) axis = view_.normalize_axis(node_, axis, x().rank());
  std::ranges::sort(list);
  return list;
}

void NodeTerms::refuse(const std::string& what) const {
  throw isa::UnsupportedError(fmt::format("{} {}", describe_node(node_), what));
}

Term NodeGradient::dy(int output) {
  if (!GraphView::has_output(node_, output)) return {};
  const auto found = gradients_.find(node_.output(output));
  if (found == gradients_.end()) return {};
  std::vector<Term>& terms = found->second;
  terms = {sum(terms)};
  return terms.front();
}

Term NodeGradient::dy_or_zeros(int output) {
  const Term gradient = dy(output);
  if (gradient) return gradient;
  const Term result = y(output);
  return graph_.filled(0, result.type, result.shape);
}

void NodeGradient::give(int input, const Term& gradient) {
  if (!wants(input)) return;
  given_.insert(input);
  give_value(node_.input(input), gradient);
}

void NodeGradient::give_value(const std::string& name, const Term& gradient) {
  const Term operand = value(name);
  isa::check_internal(gradient.type == operand.type, "gradient rule", "{}: a gradient of another type",
                      describe_node(node_));
  const Term summed = sum_to(gradient, operand.shape);
  gradients_[operand.name].push_back(expand(summed, operand.shape));
}

Term NodeGradient::output(int index, DataType type, const Shape& shape) {
  while (node_.output_size() <= index) node_.add_output("");
  if (node_.output(index).empty()) {
    const std::string name = graph_.names().make_unique(node_.output(0) + "_extra");
    node_.set_output(index, name);
    auto& info = *graph_.graph().add_value_info();
    info.set_name(name);
    *info.mutable_type() = make_tensor_type(type, shape);
  }
  return {&graph_, node_.output(index), type, shape};
}

void NodeParts::finish(int output, const Term& term) {
  if (!wants_output(output)) return;
  onnx::NodeProto& node = *graph_.graph().add_node();
  node.set_op_type("Identity");
  node.add_input(term.name);
  node.add_output(node_.output(output));
  isa::check_internal(term.shape == output_shape(output) && term.type == view_.type(node_.output(output)),
                      "parts of an operator", "{}: output {} of another type or shape", describe_node(node_),
                      output);
}

const std::vector<GradientRow>& gradient_rows() {
  static const std::vector<GradientRow> kRows = [] {
    std::vector<GradientRow> rows;
    for (const auto& family :
         {element_gradients, movement_gradients, index_gradients, reduction_gradients, matrix_gradients,
          convolution_gradients, pool_gradients, normalization_gradients, loss_gradients, resize_gradients,
          region_gradients, recurrent_gradients, signal_gradients, control_gradients}) {
      const auto more = family();
      rows.insert(rows.end(), more.begin(), more.end());
    }
    return rows;
  }();
  return kRows;
}

const GradientRow* find_gradient_row(const onnx::NodeProto& node) {
  if (!node.domain().empty()) return nullptr;
  static const std::map<std::string, const GradientRow*> kByName = [] {
    std::map<std::string, const GradientRow*> rows;
    for (const GradientRow& row : gradient_rows()) rows[row.op] = &row;
    return rows;
  }();
  const auto row = kByName.find(node.op_type());
  return row == kByName.end() ? nullptr : row->second;
}

void fold_around(onnx::ModelProto& model, const std::set<std::string>& variables) {
  onnx::GraphProto& graph = *model.mutable_graph();
  google::protobuf::RepeatedPtrField<onnx::TensorProto> constants, aside;
  for (auto& tensor : *graph.mutable_initializer())
    (variables.contains(tensor.name()) ? aside : constants).Add()->Swap(&tensor);
  graph.mutable_initializer()->Swap(&constants);
  const int inputs = graph.input_size();
  for (const auto& tensor : aside) {
    auto& input = *graph.add_input();
    input.set_name(tensor.name());
    *input.mutable_type() = make_tensor_type(static_cast<DataType>(tensor.data_type()),
                                             {tensor.dims().begin(), tensor.dims().end()});
  }
  fold_constants(model);
  graph.mutable_input()->DeleteSubrange(inputs, graph.input_size() - inputs);
  graph.mutable_initializer()->MergeFrom(aside);
  prune_value_info(graph);
}

namespace {

/// Names that a node reads, each once; of control flow, also what its graphs do.
std::vector<std::string> operands_of(const onnx::NodeProto& node) {
  const std::set<std::string> names = names_read(node);
  return {names.begin(), names.end()};
}

/// Of a value without a known shape the type isn't known either.
bool may_be_float(const GraphView& view, const std::string& name) {
  return !name.empty() && (!view.has_value(name) || is_float(view.type(name)));
}

}  // namespace

std::set<std::string> dependents(const GraphView& view, std::set<std::string> wrt,
                                 const std::set<std::string>& stop) {
  for (const auto& node : view.nodes()) {
    const GradientRow* row = find_gradient_row(node);
    if (row != nullptr && row->is_zero) continue;
    if (std::ranges::none_of(operands_of(node), [&](const auto& name) { return wrt.contains(name); }))
      continue;
    for (const std::string& output : node.output()) {
      if (may_be_float(view, output) && !stop.contains(output)) wrt.insert(output);
    }
  }
  return wrt;
}

namespace {

/// A value to differentiate, and the one that has its gradient; empty: ones.
struct Target {
  std::string value;
  std::string seed;
};

class Differentiation {
 public:
  Differentiation(onnx::ModelProto& model, const GradientRequest& request, const std::string& where)
      : model_(model), request_(request), targets_({{request.loss, ""}}), where_(where) {}
  /// Of a graph in a node.
  Differentiation(onnx::ModelProto& model, std::vector<Target> targets, std::vector<std::string> wrt,
                  const std::string& where)
      : model_(model), targets_(std::move(targets)), where_(where), wrt_(std::move(wrt)) {
    request_.loss = targets_.empty() ? "" : targets_.front().value;
  }

  GradientNames run() {
    check_request();
    prepare();
    const GraphView view(model_);
    check_reached(view);
    return finish(view, add_nodes(view));
  }

  /// Without gradients that are zero.
  std::map<std::string, std::string> run_inside() {
    prepare();
    const GraphView view(model_);
    std::map<std::string, std::string> names;
    auto gradients = add_nodes(view);
    FreshNames in_use = names_of(model_.graph());
    TermGraph terms(*model_.mutable_graph(), in_use);
    for (const std::string& name : wrt_) {
      const auto found = gradients.find(name);
      if (found == gradients.end()) continue;
      for (Term& term : found->second) term.graph = &terms;
      names[name] = sum(found->second).name;
    }
    return names;
  }

 private:
  void prepare() {
    fold_around(model_, {wrt_.begin(), wrt_.end()});
    std::set<std::string> named(wrt_.begin(), wrt_.end());
    named.insert(request_.stop.begin(), request_.stop.end());
    for (const Target& target : targets_) named.insert(target.value);
    pool_first(model_, named);
    // Parts may have parts of their own.
    while (write_in_parts()) {
    }
    find_active(GraphView(model_));
  }

  [[noreturn]] void user_error(const std::string& message) const {
    throw isa::UserError(where_ + ": " + message);
  }

  void check_request() {
    const GraphView view(model_);
    const auto check = [&](const std::string& name, const char* what) {
      if (!view.has_value(name))
        user_error(fmt::format("there is no value '{}' in the graph, which {}", name, what));
    };
    check(request_.loss, "is to be differentiated");
    const ValueInfo& loss = view.value(request_.loss);
    if (!is_float(loss.type))
      user_error(fmt::format("'{}' has elements of type {}; only floating point is differentiated",
                             request_.loss, data_type_name(loss.type)));
    for (const std::string& name : request_.stop) check(name, "is to count as a constant");
    stop_.insert(request_.stop.begin(), request_.stop.end());
    std::set<std::string> seen;
    for (const std::string& name : request_.wrt) {
      check(name, "is to be differentiated by");
      if (!is_float(view.type(name)))
        user_error(fmt::format("'{}' has elements of type {}; only floating point is differentiated by", name,
                               data_type_name(view.type(name))));
      if (!seen.insert(name).second) user_error(fmt::format("'{}' is to be differentiated by twice", name));
    }
    wrt_ = request_.wrt;
    if (!wrt_.empty()) return;
    takes_all_ = true;
    for (const auto& tensor : model_.graph().initializer()) {
      if (is_float(static_cast<DataType>(tensor.data_type()))) wrt_.push_back(tensor.name());
    }
  }

  /// Operands through which a gradient may pass.
  static bool is_open(const GradientRow* row, int input) {
    return row == nullptr || (!row->is_zero && !row->constants.contains(input));
  }

  /// Values between those differentiated by and the loss.
  void find_active(const GraphView& view) {
    depends_ = dependents(view, {wrt_.begin(), wrt_.end()}, stop_);
    active_.clear();
    for (const Target& target : targets_) {
      if (depends_.contains(target.value)) active_.insert(target.value);
    }
    for (int i = model_.graph().node_size() - 1; i >= 0; --i) {
      const auto& node = model_.graph().node(i);
      const GradientRow* row = find_gradient_row(node);
      if (row != nullptr && row->is_zero) continue;
      if (std::ranges::none_of(node.output(), [&](const auto& name) { return active_.contains(name); }))
        continue;
      for (int k = 0; k < node.input_size(); ++k) {
        if (!depends_.contains(node.input(k)) || stop_.contains(node.input(k))) continue;
        if (!is_open(row, k)) refuse_operand(view, node, k);
        active_.insert(node.input(k));
      }
      if (has_subgraph(node)) activate_captured(node);
    }
    for (const auto& node : model_.graph().node()) check_shapes(view, node);
  }

  void activate_captured(const onnx::NodeProto& node) {
    for (const std::string& name : operands_of(node)) {
      if (depends_.contains(name) && !stop_.contains(name)) active_.insert(name);
    }
  }

  /// Only where control flow is can shapes be open.
  void check_shapes(const GraphView& view, const onnx::NodeProto& node) const {
    if (!is_active(node)) return;
    for (const std::string& output : node.output()) {
      if (active_.contains(output) && !view.has_value(output))
        refuse(view, node,
               fmt::format("isn't differentiated: the shape of its result '{}' isn't known before the model "
                           "runs (of a Loop: give it a constant trip count, and a condition that stays true)",
                           output));
    }
  }

  bool is_active(const onnx::NodeProto& node) const {
    const auto is_on = [&](const auto& name) { return active_.contains(name); };
    return std::ranges::any_of(node.output(), is_on) && std::ranges::any_of(operands_of(node), is_on);
  }

  void check_reached(const GraphView& view) {
    if (takes_all_) {
      std::erase_if(wrt_, [&](const auto& name) { return !active_.contains(name); });
      if (wrt_.empty())
        user_error(
            fmt::format("'{}' depends on no initializer that could be differentiated by; name the "
                        "values with --wrt",
                        request_.loss));
      return;
    }
    for (const std::string& name : wrt_) {
      if (!active_.contains(name)) check_zero(view, name);
    }
  }

  /// A value on which the loss depends only by way of operators whose derivative is zero has zeros as its
  /// gradient. A way through integers or truth values is none.
  void check_zero(const GraphView& view, const std::string& name) const {
    std::set<std::string> floats = {name};
    std::map<std::string, const onnx::NodeProto*> others;  // to the node that left floating point
    for (const auto& node : model_.graph().node()) {
      const onnx::NodeProto* leaver = nullptr;
      bool reads_floats = false;
      for (const std::string& input : operands_of(node)) {
        if (floats.contains(input)) reads_floats = true;
        if (const auto other = others.find(input); other != others.end()) leaver = other->second;
      }
      for (const std::string& output : node.output()) {
        if (output.empty() || stop_.contains(output)) continue;
        if (reads_floats && may_be_float(view, output)) {
          floats.insert(output);
        } else if (reads_floats || leaver != nullptr) {
          others[output] = reads_floats ? &node : leaver;
        }
      }
    }
    if (floats.contains(request_.loss)) return;
    if (const auto other = others.find(request_.loss); other != others.end())
      refuse(view, *other->second,
             fmt::format("isn't differentiable, and '{}' depends on '{}' by it alone", request_.loss, name));
    user_error(fmt::format("'{}' doesn't depend on '{}'", request_.loss, name));
  }

  /// "node 'a' (Add) <- node 'b' (Mul)": the nodes from the loss to this one.
  std::string path_to(const GraphView& view, const onnx::NodeProto& node) const {
    for (const Target& target : targets_) {
      const std::string path = path_from(view, target.value, node);
      if (!path.empty()) return path;
    }
    return "";
  }

  static std::string path_from(const GraphView& view, const std::string& begin,
                               const onnx::NodeProto& target) {
    std::map<const onnx::NodeProto*, const onnx::NodeProto*> next;  // towards the loss
    std::vector<const onnx::NodeProto*> open;
    if (const auto* maker = view.producer(begin)) {
      open.push_back(maker);
      next[maker] = nullptr;
    }
    for (size_t i = 0; i < open.size() && open[i] != &target; ++i) {
      for (const std::string& input : operands_of(*open[i])) {
        const auto* maker = view.producer(input);
        if (maker != nullptr && next.try_emplace(maker, open[i]).second) open.push_back(maker);
      }
    }
    std::vector<std::string> path;
    constexpr size_t kMost = 6;
    if (!next.contains(&target)) return "";
    for (const auto* node = &target; node != nullptr; node = next.at(node))
      path.push_back(describe_node(*node));
    std::ranges::reverse(path);
    if (path.size() > kMost)
      path = {path[0], path[1], fmt::format(".. {} nodes ..", path.size() - 4), path.end()[-2], path.back()};
    return fmt::format("'{}' <- {}", begin, fmt::join(path, " <- "));
  }

  [[noreturn]] void refuse(const GraphView& view, const onnx::NodeProto& node,
                           const std::string& what) const {
    throw isa::UnsupportedError(fmt::format(
        "{}: {} {}; the path from the loss: {}. If no gradient shall pass it, name its result with --stop",
        where_, describe_node(node), what, path_to(view, node)));
  }

  /// Runs a rule; what it refuses is told with the path to the node.
  void with_path(const GraphView& view, const onnx::NodeProto& node,
                 const std::function<void()>& rule) const {
    try {
      rule();
    } catch (const isa::UnsupportedError& error) {
      throw isa::UnsupportedError(
          fmt::format("{}: {}; the path from the loss: {}", where_, error.what(), path_to(view, node)));
    }
  }

  [[noreturn]] void refuse_operand(const GraphView& view, const onnx::NodeProto& node, int input) const {
    throw isa::UnsupportedError(
        fmt::format("{}: {} isn't differentiable by its input {} ('{}'); the path from the loss: {}. If no "
                    "gradient shall pass there, name this value with --stop",
                    where_, describe_node(node), input, node.input(input), path_to(view, node)));
  }

  /// Writes active nodes that have no rule in other operators. Whether there were any.
  bool write_in_parts() {
    {
      const GraphView view(model_);
      find_active(view);
    }
    std::set<std::string> bodies;  // first outputs of nodes whose body ONNX has
    bool has_parts = false;
    for (const auto& node : model_.graph().node()) {
      if (!is_active(node)) continue;
      const GradientRow* row = find_gradient_row(node);
      if (row != nullptr) {
        has_parts |= row->parts != nullptr;
        continue;
      }
      const onnx::OpSchema* schema = find_schema(model_, node);
      if (schema != nullptr && (schema->HasFunction() || schema->HasContextDependentFunction()))
        bodies.insert(node.output(0));
    }
    if (!bodies.empty()) {
      const int before = model_.graph().node_size();
      expand_schema_functions(model_, [&](const onnx::NodeProto& node) {
        return node.output_size() == 0 || !bodies.contains(node.output(0));
      });
      if (model_.graph().node_size() != before) return true;  // else ONNX's body isn't for these types
    }
    if (!has_parts) return false;
    const GraphView view(model_);
    onnx::GraphProto& graph = *model_.mutable_graph();
    FreshNames names = names_of(graph);
    onnx::GraphProto made;
    TermGraph terms(made, names);
    google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
    for (auto& node : *graph.mutable_node()) {
      const GradientRow* row = find_gradient_row(node);
      if (!is_active(node) || row == nullptr || row->parts == nullptr) {
        *nodes.Add() = node;
        continue;
      }
      terms.set_prefix(node.name() + "/");
      NodeParts parts(view, node, terms);
      with_path(view, node, [&] { row->parts(parts); });
      nodes.MergeFrom(made.node());
      made.clear_node();
    }
    graph.mutable_node()->Swap(&nodes);
    graph.mutable_initializer()->MergeFrom(made.initializer());
    graph.mutable_value_info()->MergeFrom(made.value_info());
    name_nodes(graph);
    return true;
  }

  std::map<std::string, std::vector<Term>> add_nodes(const GraphView& view) {
    onnx::GraphProto& graph = *model_.mutable_graph();
    FreshNames names = names_of(graph);
    TermGraph terms(graph, names);
    std::map<std::string, std::vector<Term>> gradients;
    terms.set_prefix("grad/");
    for (const Target& target : targets_) {
      if (!active_.contains(target.value)) continue;
      const ValueInfo& value = view.value(target.value);
      gradients[target.value].push_back(target.seed.empty()
                                            ? terms.filled(1, value.type, value.shape)
                                            : Term{&terms, target.seed, value.type, value.shape});
    }
    for (int i = graph.node_size() - 1, last = i; i >= 0; --i) {
      isa::check_internal(last < graph.node_size(), "gradient", "nodes were lost");
      onnx::NodeProto& node = *graph.mutable_node(i);
      if (std::ranges::none_of(node.output(), [&](const auto& name) { return gradients.contains(name); }))
        continue;
      if (!is_active(node)) continue;
      const GradientRow* row = find_gradient_row(node);
      if (row == nullptr || row->rule == nullptr) refuse(view, node, "isn't differentiable");
      terms.set_prefix("grad/" + node.name() + "/");
      NodeGradient rule(view, node, terms, gradients, active_);
      with_path(view, node, [&] { row->rule(rule); });
      for (int k = 0; k < node.input_size(); ++k) {
        isa::check_internal(!rule.wants(k) || rule.has_given(k), "gradient rule",
                            "{}: no gradient for input {}", describe_node(node), k);
      }
    }
    return gradients;
  }

  /// Gives the gradients their names.
  GradientNames finish(const GraphView& view, std::map<std::string, std::vector<Term>> gradients) {
    onnx::GraphProto& graph = *model_.mutable_graph();
    FreshNames names = names_of(graph);
    TermGraph terms(graph, names);
    GradientNames result;
    for (const std::string& name : wrt_) {
      const ValueInfo& value = view.value(name);
      const auto found = gradients.find(name);
      if (found != gradients.end()) {
        for (Term& term : found->second) term.graph = &terms;
      }
      const Term total =
          found == gradients.end() ? terms.filled(0, value.type, value.shape) : sum(found->second);
      const std::string output = names.make_unique(name + ".grad");
      onnx::NodeProto& node = *graph.add_node();
      node.set_op_type("Identity");
      node.set_name(output);
      node.add_input(total.name);
      node.add_output(output);
      auto& info = *graph.add_value_info();
      info.set_name(output);
      *info.mutable_type() = make_tensor_type(value.type, value.shape);
      result.emplace_back(name, output);
    }
    return result;
  }

  onnx::ModelProto& model_;
  GradientRequest request_;
  std::vector<Target> targets_;
  const std::string& where_;
  std::vector<std::string> wrt_;
  bool takes_all_ = false;
  std::set<std::string> stop_;
  std::set<std::string> depends_;  ///< values that depend on those differentiated by
  std::set<std::string> active_;   ///< of these, those that the loss depends on
};

}  // namespace

std::map<std::string, std::string> add_inner_gradients(
    onnx::ModelProto& model, const std::vector<std::pair<std::string, std::string>>& seeds,
    const std::vector<std::string>& wrt, const std::string& where) {
  std::vector<Target> targets;
  for (const auto& [output, seed] : seeds) targets.push_back({output, seed});
  return Differentiation(model, std::move(targets), wrt, where).run_inside();
}

}  // namespace gradient

GradientNames add_gradients(onnx::ModelProto& model, const GradientRequest& request,
                            const std::string& where) {
  return gradient::Differentiation(model, request, where).run();
}

GradientNames make_gradient_model(onnx::ModelProto& model, const GradientRequest& request,
                                  const std::string& where) {
  GradientNames names = add_gradients(model, request, where);
  onnx::GraphProto& graph = *model.mutable_graph();
  const TypeMap types = collect_types(graph);
  for (const auto& [value, gradient] : names) {
    auto& output = *graph.add_output();
    output.set_name(gradient);
    *output.mutable_type() = types.at(gradient);
  }
  reestablish(model, "gradient");
  return names;
}

std::vector<DifferentiableOperator> differentiable_operators() {
  std::vector<DifferentiableOperator> list;
  for (const auto& row : gradient::gradient_rows())
    list.push_back({row.op, row.is_zero ? "zero" : row.parts != nullptr ? "by its parts" : "rule"});
  std::ranges::sort(list, {}, &DifferentiableOperator::op);
  return list;
}

}  // namespace kodama::compiler
