#include <algorithm>

#include "compiler/graph/fold_constants.h"
#include "compiler/graph/gradient/gradient_rules.h"
#include "compiler/graph/inner_graphs.h"
#include "compiler/reference/executor.h"

/// If, Loop and Scan. The gradient of a graph in a node is a graph that computes what the forward one does
/// once more and then its gradients. What it begins with in each iteration, the state, further outputs of the
/// forward node keep; it runs over the iterations in reverse:
///
///     s, ys = Loop (n, , s0) { body }
///     s, ys, states = Loop (n, , s0) { body }                      state before every iteration, too
///     ds0, dw = Loop (n, , ds, 0) { i = n - 1 - number,
///                                   ds, dw += gradient of the body at states[i] by dys[i] }
namespace kodama::compiler::gradient {

namespace {

/// What a rule of control flow knows of the values around its node.
class Around {
 public:
  explicit Around(const NodeGradient& n) {
    for (const std::string& name : names_read(n.node())) {
      if (!n.view().has_value(name)) continue;
      const ValueInfo& value = n.view().value(name);
      types_[name] = make_tensor_type(value.type, value.shape);
      // What is differentiated by is no constant, even if it has a value.
      if (!n.wants_value(name)) values_[name] = n.view().constant(name);
    }
  }

  Surroundings surroundings() const {
    return {[this](const std::string& name) {
              const auto found = types_.find(name);
              return found == types_.end() ? nullptr : &found->second;
            },
            [this](const std::string& name) {
              const auto found = values_.find(name);
              return found == values_.end() ? nullptr : found->second;
            }};
  }

 private:
  std::map<std::string, onnx::TypeProto> types_;
  std::map<std::string, const Tensor*> values_;
};

onnx::GraphProto& graph_in(onnx::NodeProto& node, const std::string& name) {
  auto& attributes = *node.mutable_attribute();
  const auto found = std::ranges::find(attributes, name, &onnx::AttributeProto::name);
  isa::check_internal(found != attributes.end(), "gradient of control flow", "{} has no graph '{}'",
                      describe_node(node), name);
  return *found->mutable_g();
}

std::set<std::string> wanted_captures(const NodeGradient& n, const onnx::GraphProto& graph) {
  std::set<std::string> wanted;
  for (const std::string& name : names_from_outside(graph)) {
    if (n.wants_value(name)) wanted.insert(name);
  }
  return wanted;
}

/// A gradient that arrives at an output of a graph in a node.
struct Seed {
  int output = 0;
  std::string name;  ///< of the value that has it
  DataType type = kFloat;
  Shape shape;
};

/// The forward nodes of a graph and behind them those of its gradients, as far as these need them. All of its
/// own values have names that nothing else has; inputs and outputs are to be added.
struct Backward {
  onnx::GraphProto graph;
  std::map<std::string, std::string> gradients;  ///< by the names in the forward graph
  Renames names;                                 ///< of its own values, by those in the forward graph

  /// Whether the value, an input of the forward graph, is read; then `name` is what it is called.
  bool reads(const std::string& input) const { return read.contains(name(input)); }
  std::string name(const std::string& value) const {
    const auto found = names.find(value);
    return found == names.end() ? value : found->second;
  }
  std::set<std::string> read;
};

onnx::ModelProto settled_model(NodeGradient& n, onnx::ModelProto model) {
  settle_types(model);
  if (const auto untyped = find_untyped_value(model.graph()); untyped && !has_control_flow(model))
    n.refuse(
        fmt::format("isn't differentiated: inside it, the shape of '{}' ({}) isn't known before the model "
                    "runs",
                    untyped->name, untyped->type));
  return model;
}

/// Only nodes that the values need; what they read is the result.
std::set<std::string> keep_needed(onnx::GraphProto& graph, std::set<std::string> needed) {
  std::vector<bool> dead(static_cast<size_t>(graph.node_size()));
  for (int i = graph.node_size() - 1; i >= 0; --i) {
    const auto& node = graph.node(i);
    dead[static_cast<size_t>(i)] =
        std::ranges::none_of(node.output(), [&](const auto& name) { return needed.contains(name); });
    if (!dead[static_cast<size_t>(i)]) needed.merge(names_read(node));
  }
  remove_nodes(graph, [&](int i) { return dead[static_cast<size_t>(i)]; });
  auto& constants = *graph.mutable_initializer();
  constants.erase(std::remove_if(constants.begin(), constants.end(),
                                 [&](const auto& tensor) { return !needed.contains(tensor.name()); }),
                  constants.end());
  return needed;
}

/// `inputs`: what the graph's own inputs are. By `wrt`: names of inputs and captured values.
Backward differentiate(NodeGradient& n, const Around& around, const onnx::GraphProto& graph,
                       const std::vector<InnerInput>& inputs, const std::vector<Seed>& seeds,
                       const std::vector<std::string>& wrt) {
  onnx::ModelProto model = inner_model(n.view().model(), graph, inputs, around.surroundings());
  std::vector<std::pair<std::string, std::string>> pairs;
  std::set<std::string> outside = names_from_outside(graph);
  for (const Seed& seed : seeds) {
    pairs.emplace_back(graph.output(seed.output).name(), seed.name);
    if (!outside.insert(seed.name).second) continue;
    auto& input = *model.mutable_graph()->add_input();
    input.set_name(seed.name);
    *input.mutable_type() = make_tensor_type(seed.type, seed.shape);
  }
  model = settled_model(n, std::move(model));
  Backward result;
  const auto gradients =
      add_inner_gradients(model, pairs, wrt, fmt::format("inside {}", describe_node(n.node())));
  result.graph.Swap(model.mutable_graph());
  result.graph.clear_input();
  result.graph.clear_output();
  result.graph.clear_value_info();
  std::set<std::string> needed;
  for (const auto& [value, gradient] : gradients) needed.insert(gradient);
  keep_needed(result.graph, std::move(needed));
  auto& constants = *result.graph.mutable_initializer();
  constants.erase(std::remove_if(constants.begin(), constants.end(),
                                 [&](const auto& tensor) { return outside.contains(tensor.name()); }),
                  constants.end());
  // Inputs are renamed with the rest.
  for (const auto& input : graph.input()) result.graph.add_input()->set_name(input.name());
  result.names = rename_own_values(result.graph, outside, n.graph().names());
  result.graph.clear_input();
  for (const auto& [value, gradient] : gradients) result.gradients[value] = result.name(gradient);
  for (const auto& node : result.graph.node()) result.read.merge(names_read(node));
  // A gradient may be an input itself.
  for (const auto& [value, gradient] : result.gradients) result.read.insert(gradient);
  return result;
}

/// A graph that becomes an attribute.
class GraphMaker {
 public:
  GraphMaker(const std::string& name, FreshNames& names) : names_(names), terms_(graph_, names) {
    graph_.set_name(name);
    terms_.set_prefix("grad/" + name + "/");
  }

  TermGraph& terms() { return terms_; }
  /// A value from around the graph, or one that is made otherwise.
  Term value(const std::string& name, DataType type, const Shape& shape) {
    return {&terms_, name, type, shape};
  }
  Term outer(const Term& term) { return value(term.name, term.type, term.shape); }

  Term input(const std::string& wish, DataType type, const Shape& shape) {
    return input_named(names_.make_unique(wish), type, shape);
  }
  Term input_named(const std::string& name, DataType type, const Shape& shape) {
    auto& input = *graph_.add_input();
    input.set_name(name);
    *input.mutable_type() = make_tensor_type(type, shape);
    return value(name, type, shape);
  }
  void output(const Term& term) {
    const Term named = map("Identity", term);
    auto& output = *graph_.add_output();
    output.set_name(named.name);
    *output.mutable_type() = make_tensor_type(term.type, term.shape);
  }
  void name_value(const Term& term, const std::string& name) {
    auto& node = *graph_.add_node();
    node.set_op_type("Identity");
    node.set_name(name);
    node.add_input(term.name);
    node.add_output(name);
  }
  void append(const onnx::GraphProto& graph) {
    graph_.mutable_node()->MergeFrom(graph.node());
    graph_.mutable_initializer()->MergeFrom(graph.initializer());
  }
  onnx::AttributeProto attribute(const char* name) {
    graph_.clear_value_info();
    return onnx::MakeAttribute(name, graph_);
  }

 private:
  FreshNames& names_;
  onnx::GraphProto graph_;
  TermGraph terms_;
};

/// Both branches give all gradients, zeros where they don't read the value.
void if_rule(NodeGradient& n) {
  const Around around(n);
  std::set<std::string> wanted;
  for (const char* branch : {"then_branch", "else_branch"})
    wanted.merge(wanted_captures(n, graph_in(n.mutable_node(), branch)));
  std::vector<Seed> seeds;
  for (int k = 0; k < n.output_count(); ++k) {
    if (const Term dy = n.dy(k)) seeds.push_back({k, dy.name, dy.type, dy.shape});
  }
  const std::vector<std::string> wrt(wanted.begin(), wanted.end());
  if (wrt.empty()) return;
  std::vector<std::pair<DataType, Shape>> types;
  for (const std::string& name : wrt) types.emplace_back(n.value(name).type, n.value(name).shape);
  Attributes branches;
  for (const char* branch : {"then_branch", "else_branch"}) {
    const Backward inside = differentiate(n, around, graph_in(n.mutable_node(), branch), {}, seeds, wrt);
    GraphMaker maker(n.node().name() + "/" + branch, n.graph().names());
    maker.append(inside.graph);
    for (size_t i = 0; i < wrt.size(); ++i) {
      const auto found = inside.gradients.find(wrt[i]);
      const auto& [type, shape] = types[i];
      maker.output(found == inside.gradients.end() ? maker.terms().filled(0, type, shape)
                                                   : maker.value(found->second, type, shape));
    }
    branches.push_back(maker.attribute(branch));
  }
  const std::vector<Term> gradients = n.graph().add("If", {n.x(0)}, types, branches);
  for (size_t i = 0; i < wrt.size(); ++i) n.give_value(wrt[i], gradients[i]);
}

/// What Loop and Scan have in common.
class Iterations {
 public:
  explicit Iterations(NodeGradient& n)
      : n_(n),
        is_loop_(n.node().op_type() == "Loop"),
        body_(graph_in(n.mutable_node(), "body")),
        around_(n),
        types_(body_types(n.view().model(), n.node(), around_.surroundings())) {
    first_ = is_loop_ ? 2 : 0;
    first_output_ = is_loop_ ? 1 : 0;
    scans_ = is_loop_ ? 0 : static_cast<int>(n.integer("num_scan_inputs"));
    states_ = n.input_count() - first_ - scans_;
    outputs_ = body_.output_size() - first_output_ - states_;
    // Outputs that nobody reads are left out at the end; more will follow.
    while (n.output_count() < states_ + outputs_)
      n.mutable_node().add_output(n.graph().names().make_unique(n.node().name() + "_unread"));
  }

  void run() {
    find_wanted();
    add_seeds();
    inside_ = differentiate(n_, around_, body_, inner_inputs(true), seeds_, wrt_);
    keep_states();
    if (is_loop_) {
      add_loop();
    } else {
      add_scan();
    }
  }

 private:
  const std::string& state(int j) const { return body_.input(first_ + j).name(); }
  const std::string& slice(int k) const { return body_.input(states_ + k).name(); }
  DataType type_of(int input) const {
    return static_cast<DataType>(types_.inputs[static_cast<size_t>(input)].tensor_type().elem_type());
  }
  Shape shape_of(int input) const {
    const auto shape = static_shape(types_.inputs[static_cast<size_t>(input)]);
    if (!shape)
      n_.refuse(fmt::format("isn't differentiated: the shape of '{}' ({}) changes between iterations",
                            body_.input(input).name(),
                            type_to_string(types_.inputs[static_cast<size_t>(input)])));
    return *shape;
  }

  std::vector<InnerInput> inner_inputs(bool is_running) const {
    std::vector<InnerInput> inputs;
    for (const auto& type : types_.inputs) inputs.push_back({type});
    // In an iteration the condition is true.
    if (is_loop_ && is_running) inputs[1].value = Tensor::from_values<uint8_t>(kBool, {}, {1});
    return inputs;
  }

  /// States that depend on what is differentiated by: at first, or by way of others.
  void find_wanted() {
    captures_ = wanted_captures(n_, body_);
    std::set<std::string> wanted = captures_;
    for (int k = 0; k < scans_; ++k) {
      if (n_.wants(states_ + k)) wanted.insert(slice(k));
    }
    for (int j = 0; j < states_; ++j) {
      if (n_.wants(first_ + j)) wanted.insert(state(j));
    }
    const onnx::ModelProto model =
        settled_model(n_, inner_model(n_.view().model(), body_, inner_inputs(true), around_.surroundings()));
    const GraphView view(model);
    for (bool is_settled = false; !is_settled;) {
      is_settled = true;
      const std::set<std::string> depends = dependents(view, wanted, {});
      for (int j = 0; j < states_; ++j) {
        if (is_float(type_of(first_ + j)) && depends.contains(body_.output(first_output_ + j).name()))
          is_settled &= !wanted.insert(state(j)).second;
      }
    }
    wrt_.assign(wanted.begin(), wanted.end());
    for (int j = 0; j < states_; ++j) {
      if (wanted.contains(state(j))) active_states_.push_back(j);
    }
  }

  void add_seeds() {
    for (const int j : active_states_) {
      adjoints_[j] = n_.graph().names().make_unique(n_.node().name() + "/" + state(j) + "_gradient");
      seeds_.push_back({first_output_ + j, adjoints_[j], type_of(first_ + j), shape_of(first_ + j)});
    }
    for (int k = 0; k < outputs_; ++k) {
      const Term dy = n_.dy(states_ + k);
      if (!dy) continue;
      Shape shape = dy.shape;
      shape.erase(shape.begin() + output_axis(k, dy.rank()));
      slices_[k] = n_.graph().names().make_unique(
          n_.node().name() + "/" + body_.output(first_output_ + states_ + k).name() + "_gradient");
      seeds_.push_back({first_output_ + states_ + k, slices_[k], dy.type, shape});
    }
  }

  int64_t output_axis(int k, int64_t rank) const { return axis_of("scan_output_axes", k, rank); }
  int64_t axis_of(const char* list, int k, int64_t rank) const {
    const auto axes = n_.ints(list);
    const int64_t axis = axes ? axes->at(static_cast<size_t>(k)) : 0;
    return axis < 0 ? axis + rank : axis;
  }
  int64_t direction_of(const char* list, int k) const {
    const auto directions = n_.ints(list);
    return directions ? directions->at(static_cast<size_t>(k)) : 0;
  }

  /// One more output of the node, which has what `value` of the body is in every iteration. A Loop whose
  /// length isn't known has outputs of open extent; as a term that is 0.
  Term keep(const std::string& value, DataType type, const Shape& shape) {
    FreshNames& names = n_.graph().names();
    auto& node = *body_.add_node();
    node.set_op_type("Identity");
    node.add_input(value);
    node.add_output(names.make_unique(value + "_kept"));
    node.set_name(node.output(0));
    auto& output = *body_.add_output();
    output.set_name(node.output(0));
    *output.mutable_type() = make_tensor_type(type, shape);
    const std::string name = names.make_unique(n_.node().name() + "/" + value + "_kept");
    n_.mutable_node().add_output(name);
    Shape all = shape;
    all.insert(all.begin(), types_.length.value_or(0));
    auto& info = *n_.graph().graph().add_value_info();
    info.set_name(name);
    *info.mutable_type() = make_tensor_type(type, all);
    if (!types_.length) info.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->Clear();
    return {&n_.graph(), name, type, all};
  }

  void keep_states() {
    if (!is_loop_) extend_lists();
    for (int j = 0; j < states_; ++j) {
      if (inside_.reads(state(j))) kept_[j] = keep(state(j), type_of(first_ + j), shape_of(first_ + j));
    }
  }

  /// The outputs that follow are stacked along axis 0.
  void extend_lists() {
    for (const char* name : {"scan_output_axes", "scan_output_directions"}) {
      Ints list = n_.ints(name).value_or(Ints(static_cast<size_t>(outputs_)));
      for (int j = 0; j < states_; ++j) {
        if (inside_.reads(state(j))) list.push_back(0);
      }
      set_ints(n_.mutable_node(), name, list);
    }
  }

  Term first_adjoint(int j) {
    const Term dy = n_.dy(j);
    return dy ? dy : n_.graph().filled(0, type_of(first_ + j), shape_of(first_ + j));
  }
  /// Captured values that get a gradient.
  std::vector<std::string> summed() const {
    std::vector<std::string> names;
    for (const std::string& name : captures_) {
      if (inside_.gradients.contains(name)) names.push_back(name);
    }
    return names;
  }

  /// Inputs of the backward body that are its state, and what they are at first.
  std::vector<Term> add_state_inputs(GraphMaker& maker) {
    std::vector<Term> first;
    for (const int j : active_states_) {
      maker.input_named(adjoints_.at(j), type_of(first_ + j), shape_of(first_ + j));
      first.push_back(first_adjoint(j));
    }
    for (const std::string& name : summed()) {
      const Term value = n_.value(name);
      sums_.push_back(maker.input(name + "_sum", value.type, value.shape));
      first.push_back(n_.graph().filled(0, value.type, value.shape));
    }
    return first;
  }

  void add_state_outputs(GraphMaker& maker) {
    for (const int j : active_states_) {
      const DataType type = type_of(first_ + j);
      const auto found = inside_.gradients.find(state(j));
      maker.output(found == inside_.gradients.end() ? maker.terms().filled(0, type, shape_of(first_ + j))
                                                    : maker.value(found->second, type, shape_of(first_ + j)));
    }
    const std::vector<std::string> names = summed();
    for (size_t i = 0; i < names.size(); ++i)
      maker.output(sums_[i] + maker.value(inside_.gradients.at(names[i]), sums_[i].type, sums_[i].shape));
  }

  /// Types of the backward node's first outputs.
  std::vector<std::pair<DataType, Shape>> state_outputs() const {
    std::vector<std::pair<DataType, Shape>> types;
    for (const int j : active_states_) types.emplace_back(type_of(first_ + j), shape_of(first_ + j));
    for (const Term& each : sums_) types.emplace_back(each.type, each.shape);
    return types;
  }

  void give_states(const std::vector<Term>& gradients) {
    size_t at = 0;
    for (const int j : active_states_) n_.give(first_ + j, gradients[at++]);
    for (const std::string& name : summed()) n_.give_value(name, gradients[at++]);
  }

  void add_loop() {
    TermGraph& outer = n_.graph();
    Term trips;
    if (types_.length) {
      trips = outer.constant(Tensor::from_values<int64_t>(kInt64, {}, {*types_.length}));
    } else {
      trips = outer.add("Size", {keep(body_.input(0).name(), kInt64, {})}, kInt64, {});
    }
    const Term last = trips - 1.0;
    GraphMaker maker(n_.node().name() + "/body", outer.names());
    const Term number = maker.input("iteration", kInt64, {});
    const Term condition = maker.input("condition", kBool, {});
    std::vector<Term> inputs = {trips, Term()};
    for (const Term& term : add_state_inputs(maker)) inputs.push_back(term);
    const Term at = maker.outer(last) - number;
    const auto pick = [&](const Term& all, const std::string& name) {
      maker.name_value(maker.terms().add("Gather", {maker.outer(all), at}, all.type,
                                         Shape(all.shape.begin() + 1, all.shape.end())),
                       name);
    };
    if (inside_.reads(body_.input(0).name())) maker.name_value(at, inside_.name(body_.input(0).name()));
    for (const auto& [j, all] : kept_) pick(all, inside_.name(state(j)));
    for (const auto& [k, name] : slices_) pick(n_.dy(states_ + k), name);
    maker.append(inside_.graph);
    maker.output(condition);
    add_state_outputs(maker);
    if (!state_outputs().empty())
      give_states(outer.add("Loop", inputs, state_outputs(), {maker.attribute("body")}));
  }

  void add_scan() {
    TermGraph& outer = n_.graph();
    GraphMaker maker(n_.node().name() + "/body", outer.names());
    std::vector<Term> inputs = add_state_inputs(maker);
    Ints axes, directions, output_axes, output_directions;
    const auto add_input = [&](const Term& all, int64_t axis, int64_t direction, const std::string& name) {
      inputs.push_back(all);
      axes.push_back(axis);
      directions.push_back(1 - direction);  // the last iteration comes first
      Shape shape = all.shape;
      shape.erase(shape.begin() + axis);
      maker.input_named(name, all.type, shape);
    };
    for (int k = 0; k < scans_; ++k) {
      const Term all = n_.x(states_ + k);
      add_input(all, axis_of("scan_input_axes", k, all.rank()), direction_of("scan_input_directions", k),
                inside_.name(slice(k)));
    }
    for (const auto& [j, all] : kept_) add_input(all, 0, 0, inside_.name(state(j)));
    for (const auto& [k, name] : slices_) {
      const Term dy = n_.dy(states_ + k);
      add_input(dy, output_axis(k, dy.rank()), direction_of("scan_output_directions", k), name);
    }
    maker.append(inside_.graph);
    add_state_outputs(maker);
    auto types = state_outputs();
    std::vector<int> given;
    for (int k = 0; k < scans_; ++k) {
      const auto found = inside_.gradients.find(slice(k));
      if (found == inside_.gradients.end()) continue;
      const Term all = n_.x(states_ + k);
      const int64_t axis = axis_of("scan_input_axes", k, all.rank());
      Shape shape = all.shape;
      shape.erase(shape.begin() + axis);
      maker.output(maker.value(found->second, all.type, shape));
      output_axes.push_back(axis);
      output_directions.push_back(1 - direction_of("scan_input_directions", k));
      types.emplace_back(all.type, all.shape);
      given.push_back(k);
    }
    Attributes attributes = {maker.attribute("body"),
                             onnx::MakeAttribute("num_scan_inputs", static_cast<int64_t>(axes.size())),
                             onnx::MakeAttribute("scan_input_axes", axes),
                             onnx::MakeAttribute("scan_input_directions", directions)};
    if (!given.empty()) {
      attributes.push_back(onnx::MakeAttribute("scan_output_axes", output_axes));
      attributes.push_back(onnx::MakeAttribute("scan_output_directions", output_directions));
    }
    const std::vector<Term> results =
        types.empty() ? std::vector<Term>() : outer.add("Scan", inputs, types, attributes);
    give_states(results);
    for (size_t i = 0; i < given.size(); ++i)
      n_.give(states_ + given[i], results[results.size() - given.size() + i]);
    for (int k = 0; k < scans_; ++k) {
      if (!n_.wants(states_ + k) || n_.has_given(states_ + k)) continue;
      const Term all = n_.x(states_ + k);
      n_.give(states_ + k, outer.filled(0, all.type, all.shape));
    }
  }

  NodeGradient& n_;
  const bool is_loop_;
  onnx::GraphProto& body_;
  const Around around_;
  const BodyTypes types_;
  int first_ = 0;         ///< input that is the first state
  int first_output_ = 0;  ///< output of the body that is the first state
  int states_ = 0;
  int scans_ = 0;    ///< inputs of slices
  int outputs_ = 0;  ///< that are stacked
  std::set<std::string> captures_;
  std::vector<std::string> wrt_;    ///< states, slices and captured values
  std::vector<int> active_states_;  ///< states that get gradients
  std::vector<Seed> seeds_;
  std::map<int, std::string> adjoints_;  ///< by state: the value of the backward body
  std::map<int, std::string> slices_;    ///< by stacked output: the same
  Backward inside_;
  std::map<int, Term> kept_;  ///< by state
  std::vector<Term> sums_;    ///< in the backward body, of captured values
};

void iterations_rule(NodeGradient& n) {
  Iterations(n).run();
}

}  // namespace

std::vector<GradientRow> control_gradients() {
  return {{"If", if_rule}, {"Loop", iterations_rule}, {"Scan", iterations_rule}};
}

}  // namespace kodama::compiler::gradient
