#pragma once

#include <fmt/format.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/graph/gradient/terms.h"
#include "compiler/graph/graph_view.h"
#include "isa/error.h"

/// What a rule sees of a node. Private to compiler/graph/gradient.
namespace kodama::compiler::gradient {

/// A node, its operands and results as terms, and its attributes.
class NodeTerms {
 public:
  NodeTerms(const GraphView& view, onnx::NodeProto& node, TermGraph& graph)
      : view_(view), node_(node), graph_(graph) {}

  const onnx::NodeProto& node() const { return node_; }
  TermGraph& graph() const { return graph_; }

  int input_count() const { return node_.input_size(); }
  int output_count() const { return node_.output_size(); }
  bool has(int input) const { return GraphView::has_input(node_, input); }
  /// An operand; without a graph if it is left out.
  Term x(int input = 0) const { return has(input) ? term(node_.input(input)) : Term(); }
  /// The elements of an operand that is constant; UnsupportedError if it isn't.
  const Tensor& constant(int input) const;
  Ints integers(int input) const;

  int64_t integer(const char* name) const { return view_.get_int(node_, name); }
  int64_t integer(const char* name, int64_t absent) const { return view_.get_int(node_, name, absent); }
  double number(const char* name) const { return view_.get_float(node_, name); }
  double number(const char* name, float absent) const { return view_.get_float(node_, name, absent); }
  std::string text(const char* name) const { return view_.get_string(node_, name); }
  std::string text(const char* name, const char* absent) const {
    return view_.get_string(node_, name, absent);
  }
  /// nullopt where the node itself hasn't the attribute.
  std::optional<Ints> ints(const char* name) const {
    return has_attribute(name) ? view_.find_ints(node_, name) : std::nullopt;
  }
  bool has_attribute(const char* name) const { return find_attribute(node_, name) != nullptr; }
  /// The attribute "axis", of operand `input`.
  int64_t axis(int input = 0, const char* name = "axis") const {
    return view_.normalize_axis(node_, integer(name), x(input).rank());
  }
  /// Axes of operand 0 from a list that may count from the end; sorted.
  Ints axes(Ints list) const;

  /// UnsupportedError that names the node.
  [[noreturn]] void refuse(const std::string& what) const;

 protected:
  Term term(const std::string& name) const;

  const GraphView& view_;
  onnx::NodeProto& node_;
  TermGraph& graph_;
};

/// For a rule: what arrives at the node's outputs, and what it has to give to its operands.
class NodeGradient : public NodeTerms {
 public:
  NodeGradient(const GraphView& view, onnx::NodeProto& node, TermGraph& graph,
               std::map<std::string, std::vector<Term>>& gradients, const std::set<std::string>& active)
      : NodeTerms(view, node, graph), gradients_(gradients), active_(active) {}

  /// A result.
  Term y(int output = 0) const { return term(node_.output(output)); }
  /// The gradient of a result; without a graph if none arrives.
  Term dy(int output = 0);
  /// The same, zeros if none arrives.
  Term dy_or_zeros(int output);
  /// Whether the operand's gradient is asked for.
  bool wants(int input) const { return has(input) && active_.contains(node_.input(input)); }
  /// Adds to the gradient of an operand, if it is asked for; what is broadcast is summed to its shape.
  void give(int input, const Term& gradient);
  bool has_given(int input) const { return given_.contains(input); }
  /// A result that the node may leave out and gets now.
  Term output(int index, DataType type, const Shape& shape);

  /// Of control flow, whose graphs read values that are no operands of the node.
  const GraphView& view() const { return view_; }
  onnx::NodeProto& mutable_node() { return node_; }
  Term value(const std::string& name) const { return term(name); }
  bool wants_value(const std::string& name) const { return active_.contains(name); }
  void give_value(const std::string& name, const Term& gradient);

 private:
  std::map<std::string, std::vector<Term>>& gradients_;
  const std::set<std::string>& active_;
  std::set<int> given_;
};

/// For an operator that is written in others.
class NodeParts : public NodeTerms {
 public:
  using NodeTerms::NodeTerms;

  int64_t output_extent(int output, int64_t axis) const {
    return view_.shape(node_.output(output)).at(static_cast<size_t>(axis));
  }
  const Shape& output_shape(int output = 0) const { return view_.shape(node_.output(output)); }
  bool wants_output(int output) const { return GraphView::has_output(node_, output); }
  /// The term is this output; nothing, if it isn't there.
  void finish(int output, const Term& term);
};

struct GradientRow {
  const char* op;
  /// Gives gradients to the operands that want one.
  std::function<void(NodeGradient&)> rule = nullptr;
  /// Or: writes the node in other operators.
  std::function<void(NodeParts&)> parts = nullptr;
  /// Operands by which the operator is never differentiated, though they may be floats.
  std::set<int> constants = {};
  /// The derivative is zero wherever there is one.
  bool is_zero = false;
};

/// nullptr if there is no row.
const GradientRow* find_gradient_row(const onnx::NodeProto& node);
const std::vector<GradientRow>& gradient_rows();

/// Folds what is constant, so that rules know the elements of axes, sizes and the like; initializers among
/// `variables` count as if they weren't constant.
void fold_around(onnx::ModelProto& model, const std::set<std::string>& variables);

/// Adds the gradients of a model that stands for a graph in a node: `seeds` are pairs of an output and of the
/// input that holds its gradient. By each of `wrt` that an output depends on, the name of its gradient.
/// Values have types and static shapes. Errors as those of add_gradients().
std::map<std::string, std::string> add_inner_gradients(
    onnx::ModelProto& model, const std::vector<std::pair<std::string, std::string>>& seeds,
    const std::vector<std::string>& wrt, const std::string& where);
/// Values of floats that depend on those of `wrt`, these included; those of unknown shape count as floats.
std::set<std::string> dependents(const GraphView& view, std::set<std::string> wrt,
                                 const std::set<std::string>& stop);

// Rows of the families, each in a file of its own.
std::vector<GradientRow> element_gradients();
std::vector<GradientRow> movement_gradients();
std::vector<GradientRow> index_gradients();
std::vector<GradientRow> reduction_gradients();
std::vector<GradientRow> matrix_gradients();
std::vector<GradientRow> convolution_gradients();
std::vector<GradientRow> pool_gradients();
std::vector<GradientRow> normalization_gradients();
std::vector<GradientRow> loss_gradients();
std::vector<GradientRow> resize_gradients();
std::vector<GradientRow> region_gradients();
std::vector<GradientRow> recurrent_gradients();
std::vector<GradientRow> signal_gradients();
std::vector<GradientRow> control_gradients();

}  // namespace kodama::compiler::gradient
