#pragma once

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/graph/graph_view.h"
#include "compiler/layers/doubles.h"
#include "compiler/layers/formula.h"
#include "compiler/layers/integer.h"
#include "compiler/layers/layer_graph.h"
#include "compiler/tensor/fresh_names.h"

/// How operators are decomposed into layers. Private to compiler/layers.
///
/// A decomposition is a function of a NodeLowering: it reads the node's operands and attributes and adds
/// layers that compute its outputs. It is registered with one line in its family's register_ function.
namespace kodama::compiler {

/// What a decomposition returns: why the node has to stay on the host, or kLowered. What it has added before
/// it gives up is taken back.
using HostReason = std::optional<std::string>;
inline constexpr std::nullopt_t kLowered = std::nullopt;

/// The tensors that the model's values have become.
using ValueTable = std::unordered_map<std::string, TensorId>;

class NodeLowering {
 public:
  NodeLowering(const GraphView& view, const onnx::NodeProto& node, LayerGraph& graph, ValueTable& values,
               FreshNames& layer_names)
      : view_(view), node_(node), graph_(graph), values_(values), layer_names_(layer_names) {}

  const onnx::NodeProto& node() const { return node_; }
  const GraphView& view() const { return view_; }
  /// That of another node, which may have been lowered already.
  NodeLowering at(const onnx::NodeProto& node) const { return {view_, node, graph_, values_, layer_names_}; }
  /// "node 'conv1' (Conv)"
  std::string where() const { return view_.describe(node_); }
  template <typename... Args>
  void require(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (!condition) throw isa::UserError(where() + ": " + fmt::format(format, std::forward<Args>(args)...));
  }

  int input_count() const { return node_.input_size(); }
  bool has_input(int index) const { return GraphView::has_input(node_, index); }
  bool has_output(int index) const { return GraphView::has_output(node_, index); }
  /// The tensor of an operand; constants get theirs at their first use.
  TensorId input(int index);
  /// The same of any value that something makes, or that is constant.
  TensorId value(const std::string& name);
  const Shape& input_shape(int index) const { return view_.shape(node_.input(index)); }
  DataType input_type(int index) const { return view_.type(node_.input(index)); }
  const Shape& output_shape(int index = 0) const { return view_.shape(node_.output(index)); }
  DataType output_type(int index = 0) const { return view_.type(node_.output(index)); }

  /// The elements of an operand that is constant (and not omitted), else nullptr.
  const Tensor* constant_input(int index) const;
  /// The only value in a constant operand, however often it is there.
  std::optional<double> uniform_constant(int index) const;
  /// The elements of a constant integer operand.
  std::optional<std::vector<int64_t>> constant_integers(int index) const;

  int64_t int_attribute(const char* name) const { return view_.get_int(node_, name); }
  int64_t int_attribute(const char* name, int64_t absent) const { return view_.get_int(node_, name, absent); }
  float float_attribute(const char* name) const { return view_.get_float(node_, name); }
  std::string string_attribute(const char* name) const { return view_.get_string(node_, name); }
  std::optional<std::vector<int64_t>> ints_attribute(const char* name) const {
    return view_.find_ints(node_, name);
  }
  /// An axis from [-rank, rank) counted from the front.
  size_t axis(int64_t axis, size_t rank) const {
    return static_cast<size_t>(view_.normalize_axis(node_, axis, static_cast<int64_t>(rank)));
  }
  /// A flag per axis.
  std::vector<bool> axis_flags(const std::vector<int64_t>& axes, size_t rank) const;

  const LayerTensor& tensor(TensorId id) const { return graph_.tensors[id]; }
  /// New tensors. Their names begin with the node's.
  TensorId add_tensor(const std::string& suffix, DataType type, Shape shape);
  TensorId add_constant(const std::string& suffix, Tensor value);
  /// A constant of 0, 1, 2, … in row-major order, float or int32.
  TensorId add_numbers(const std::string& suffix, DataType type, const Shape& shape);
  TensorId add_alias(const std::string& suffix, TensorId source, Shape shape);
  /// The tensor of an output, to be written by a layer.
  TensorId output(int index = 0);
  /// An output that has the elements of `source`, in the same order.
  void bind_output(TensorId source, int index = 0);
  void add_layer(const std::string& suffix, decltype(Layer::body) body, TensorId output);
  /// A Check of the tensor.
  void add_check(TensorId tensor, std::string message, int64_t lowest = 0, int64_t highest = 0) {
    graph_.checks.push_back({tensor, std::move(message), lowest, highest});
  }
  /// Whether a tensor has the elements of an input of the model, so that the host has them.
  bool is_given(TensorId id) const {
    const auto is_it = [&](TensorId input) { return graph_.storage(input) == graph_.storage(id); };
    return std::ranges::any_of(graph_.inputs, is_it);
  }
  /// LayerGraph::words_of.
  TensorId words_of(TensorId id) { return graph_.words_of(id); }
  /// The same elements, over points of these extents, as an access of what Rearrange layers made them of,
  /// where every one of these is a single piece.
  TensorAccess read_through(TensorAccess access, const Shape& extents) const;

  /// Reads a tensor with the broadcast that numpy (ONNX) would apply to reach `to`.
  TensorAccess broadcast(TensorId id, const Shape& to) const {
    return {id, AffineMap::broadcast(tensor(id).shape, to), 0};
  }

 private:
  std::string inner_name(const std::string& suffix) const;
  /// Results of 16 bits are rounded where they are made, so that they are as they would be in memory.
  static void round_result(decltype(Layer::body)& body, DataType type);
  /// Of elements of two words: makes it one of their words.
  void move_words(RearrangeLayer& rearrange);

  const GraphView& view_;
  const onnx::NodeProto& node_;
  LayerGraph& graph_;
  ValueTable& values_;
  FreshNames& layer_names_;
};

inline bool is_double(DataType type) {
  return type == DataType::kFloat64;
}
/// Of its first output.
inline bool makes_integers(const NodeLowering& lowering) {
  return integer_type(lowering.output_type()).has_value();
}

/// An access as a term of a formula over `inputs`, where it is, or is put at the end.
Term read_input(Formula& formula, std::vector<TensorAccess>& inputs, TensorAccess access);

/// Collects the operands of a Map over `extents` and writes its formula.
class MapBuilder {
 public:
  MapBuilder(NodeLowering& lowering, Shape extents) : lowering_(lowering), extents_(std::move(extents)) {}

  /// A tensor, broadcast to the extents; a constant with one element becomes part of the formula. Doubles are
  /// one term.
  Term operand(TensorId id);
  Term operand_of_input(int index) { return operand(lowering_.input(index)); }
  /// The same of a tensor of integers, or bool.
  Integer integer(TensorId id);
  Integer integer_of_input(int index) { return integer(lowering_.input(index)); }
  /// The same read by a map of one's own, with what is outside the tensor.
  Term operand_at(TensorId id, const AffineMap& map, double outside = 0);
  Integer integer_at(TensorId id, const AffineMap& map, int64_t outside = 0);
  Term word_at(TensorId id, const AffineMap& map) { return read({id, map, 0}); }
  size_t input_count() const { return inputs_.size(); }
  Term constant(double value) { return formula_.constant(value); }
  Term double_constant(double value) { return formula_.double_constant(value); }
  Term word(int32_t value) { return formula_.integer(value); }
  /// Adds the layer that computes `result` into `output`.
  void finish(const std::string& suffix, Term result, TensorId output);
  void finish(const std::string& suffix, const Integer& result, TensorId output);

 private:
  Term read(TensorAccess access) { return read_input(formula_, inputs_, std::move(access)); }
  /// The words of elements that are two, of which the lower and the upper one are so outside.
  Integer words_at(TensorId id, const AffineMap& map, uint64_t outside, IntegerType type);
  void finish_words(const std::string& suffix, const Integer& result, TensorId output);

  NodeLowering& lowering_;
  Shape extents_;
  Formula formula_;
  std::vector<TensorAccess> inputs_;
};

/// One Map over input 0; F: (NodeLowering&, Term x) -> Term.
template <typename F>
HostReason lower_unary(NodeLowering& lowering, F&& formula) {
  MapBuilder map(lowering, lowering.output_shape());
  const Term x = map.operand_of_input(0);
  map.finish("", formula(lowering, x), lowering.output());
  return kLowered;
}

using Decomposition = HostReason (*)(NodeLowering&);

/// What a decomposition can take; everything else goes to the host before it is asked.
enum class ElementTypes : uint8_t {
  kChipFloats,  ///< floats that Map, Reduce and Contract compute on
  kAny,         ///< it only moves elements
  kReals,       ///< floats and doubles
  kAllNumbers,  ///< these, integers, and bool
  kAnyFirst,    ///< it moves elements of its first operand; the others, which may be empty, say how
};

struct OperatorRow {
  const char* name;  ///< with its domain in front, unless that is ai.onnx
  Decomposition decompose;
  ElementTypes types;
  const char* condition = "";  ///< what else the node must be, for docs/operators.md; empty: nothing
};
using OperatorTable = std::vector<OperatorRow>;

// The families, a file each.
void register_elementwise(OperatorTable& table);
void register_trigonometry(OperatorTable& table);
void register_resize(OperatorTable& table);
void register_recurrent(OperatorTable& table);
void register_scan(OperatorTable& table);
void register_einsum(OperatorTable& table);
void register_linear_algebra(OperatorTable& table);
void register_random(OperatorTable& table);
void register_training(OperatorTable& table);
void register_reduce(OperatorTable& table);
void register_contract(OperatorTable& table);
void register_movement(OperatorTable& table);
void register_normalization(OperatorTable& table);
void register_pool(OperatorTable& table);
void register_logic(OperatorTable& table);
void register_indexing(OperatorTable& table);
void register_quantized(OperatorTable& table);
void register_regions(OperatorTable& table);

/// Operand `operand`, or what `indices` has of it, has integers from `lowest` to `highest`, or the run ends
/// in an error. Of constants it is known now.
void check_bounds(NodeLowering& lowering, int operand, TensorId indices, int64_t lowest, int64_t highest,
                  const std::string& suffix = "range");
/// Gather with indices that are data.
HostReason lower_gather_by_data(NodeLowering& lowering);

/// The p-norm of elements as a sum: what is summed of an element, and what is made of the sum. UserError for
/// a p below 1.
Term norm_term(const NodeLowering& lowering, Term x);
Term norm_of_sum(const NodeLowering& lowering, Term sum);

/// The sliding window of Conv and the pools over the spatial axes.
struct Window {
  Shape kernel;
  std::vector<int64_t> stride, dilation, pad_begin, pad_end;

  /// Index read on spatial axis `axis` at output position `o`, kernel position `k`: into `map`'s row `row`.
  void read(AffineMap& map, size_t row, size_t axis, size_t output_dim, size_t kernel_dim) const {
    map.set(row, output_dim, stride[axis])
        .set(row, kernel_dim, dilation[axis])
        .set_offset(row, -pad_begin[axis]);
  }
};
/// From attributes (strides, dilations where the operator has them, pads, auto_pad) with their defaults.
/// UserError if they contradict each other.
Window window_of(const NodeLowering& lowering, const Shape& kernel, const Shape& spatial_input,
                 const Shape& spatial_output, bool has_dilations = true);

}  // namespace kodama::compiler
