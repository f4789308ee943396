#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/reference/kernels/element_types.h"
#include "compiler/reference/kernels/interpreter.h"
#include "compiler/reference/kernels/node.h"
#include "compiler/tensor/value.h"

/// What an operator's implementation sees of its node, and the table of implementations. Private to
/// compiler/reference/kernels.
namespace kodama::compiler::reference {

/// One execution of one node. Before a kernel sees it, the node has been checked against its ONNX schema
/// (number of inputs, their types, attribute names and kinds); shapes and values are the kernel's to check.
class NodeContext {
 public:
  NodeContext(const Node& node, const std::vector<const Value*>& inputs,
              SubgraphRunner run_subgraph = nullptr);

  const Node& node() const { return node_; }
  int64_t since_version() const { return node_.since_version; }
  int64_t opset() const { return node_.opset; }

  size_t input_count() const { return inputs_.size(); }
  bool has_input(size_t index) const { return index < inputs_.size() && inputs_[index] != nullptr; }
  /// UserError if it is omitted, or no tensor.
  const Tensor& input(size_t index) const;
  const Tensor* optional_input(size_t index) const { return has_input(index) ? &input(index) : nullptr; }
  /// A tensor, a sequence or an optional. UserError if it is omitted.
  const Value& value(size_t index) const;
  /// All inputs of a variadic operator.
  std::vector<const Tensor*> inputs() const;
  /// The elements of an integer input (int32 or int64) of rank 0 or 1.
  std::vector<int64_t> integers(size_t index) const;
  /// The only element of an input as a number; UserError if there isn't exactly one.
  double scalar(size_t index) const;
  int64_t integer_scalar(size_t index) const;

  size_t output_count() const { return node_.outputs.size(); }
  bool has_output(size_t index) const;

  /// UserError where there is no such attribute or it is of another kind; but without _if_present.
  bool has_attribute(const std::string& name) const { return node_.attributes.contains(name); }
  int64_t int_attribute(const std::string& name) const { return attribute<int64_t>(name); }
  int64_t int_attribute(const std::string& name, int64_t otherwise) const {
    return has_attribute(name) ? int_attribute(name) : otherwise;
  }
  float float_attribute(const std::string& name) const { return attribute<float>(name); }
  float float_attribute(const std::string& name, float otherwise) const {
    return has_attribute(name) ? float_attribute(name) : otherwise;
  }
  /// An integer or a float.
  double number_attribute(const std::string& name) const;
  const std::string& string_attribute(const std::string& name) const { return attribute<std::string>(name); }
  const std::vector<int64_t>& ints_attribute(const std::string& name) const {
    return attribute<std::vector<int64_t>>(name);
  }
  std::optional<std::vector<int64_t>> ints_attribute_if_present(const std::string& name) const {
    if (!has_attribute(name)) return std::nullopt;
    return ints_attribute(name);
  }
  const std::vector<std::string>& strings_attribute(const std::string& name) const {
    return attribute<std::vector<std::string>>(name);
  }
  const std::vector<float>& floats_attribute(const std::string& name) const {
    return attribute<std::vector<float>>(name);
  }
  const Tensor& tensor_attribute(const std::string& name) const {
    return *attribute<std::shared_ptr<const Tensor>>(name);
  }
  const ValueType& type_attribute(const std::string& name) const { return attribute<ValueType>(name); }
  const Graph& graph_attribute(const std::string& name) const {
    return *attribute<std::shared_ptr<const Graph>>(name);
  }
  std::vector<Value> run_subgraph(const std::string& attribute, const std::vector<Value>& inputs) const;

  std::string where() const { return place_of(node_); }
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw isa::UserError(where() + ": " + fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void require(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (!condition) fail(format, std::forward<Args>(args)...);
  }
  [[noreturn]] void fail_unsupported_type(DataType type) const;

  /// `axis` counted from the front; UserError outside [-rank, rank).
  size_t axis(int64_t axis, int64_t rank) const;
  /// Normalized axes as a flag per axis; UserError out of range or twice.
  std::vector<bool> axis_flags(const std::vector<int64_t>& axes, int64_t rank) const;
  /// The common shape of numpy's broadcasting; UserError if there is none.
  Shape broadcast_shape(const std::vector<const Tensor*>& tensors) const;
  void require_same_type(const Tensor& a, const Tensor& b) const;

 private:
  template <typename T>
  const T& attribute(const std::string& name) const {
    const auto found = node_.attributes.find(name);
    require(found != node_.attributes.end(), "attribute '{}' is missing", name);
    const T* const value = std::get_if<T>(&found->second);
    require(value != nullptr, "attribute '{}' is {}; allowed is {}", name,
            attribute_kind(found->second.index()), attribute_kind(Attribute(T()).index()));
    return *value;
  }

  const Node& node_;
  const std::vector<const Value*>& inputs_;
  SubgraphRunner run_subgraph_;
};

/// Of operators on tensors, and of those that take or make sequences, optionals, or anything at all.
using Kernel = std::function<std::vector<Tensor>(const NodeContext&)>;
using ValueKernel = std::function<std::vector<Value>(const NodeContext&)>;

/// One kernel for all versions of an operator; what differs between versions the kernel asks its context.
class KernelRegistry {
 public:
  /// The registry of all kernels.
  static const KernelRegistry& instance();

  void add(const std::string& op_type, Kernel kernel) { add("", op_type, std::move(kernel)); }
  void add(const std::string& domain, const std::string& op_type, Kernel kernel);
  void add_of_values(const std::string& op_type, ValueKernel kernel);
  /// nullptr if there is none.
  const ValueKernel* find(const std::string& domain, const std::string& op_type) const;
  /// Domain and operator of each.
  std::vector<std::pair<std::string, std::string>> names() const;

 private:
  std::map<std::pair<std::string, std::string>, ValueKernel> kernels_;
};

/// The families, a file each.
void register_arithmetic(KernelRegistry& registry);
void register_unary(KernelRegistry& registry);
void register_logic(KernelRegistry& registry);
void register_reduce(KernelRegistry& registry);
void register_convolution(KernelRegistry& registry);
void register_pool(KernelRegistry& registry);
void register_loss(KernelRegistry& registry);
void register_matmul(KernelRegistry& registry);
void register_normalization(KernelRegistry& registry);
void register_movement(KernelRegistry& registry);
void register_indexing(KernelRegistry& registry);
void register_cast(KernelRegistry& registry);
void register_generator(KernelRegistry& registry);
void register_control_flow(KernelRegistry& registry);
void register_quantize(KernelRegistry& registry);
void register_random(KernelRegistry& registry);
void register_recurrent(KernelRegistry& registry);
void register_resize(KernelRegistry& registry);
void register_region(KernelRegistry& registry);
void register_signal(KernelRegistry& registry);
void register_text(KernelRegistry& registry);
void register_training(KernelRegistry& registry);
void register_unique(KernelRegistry& registry);
void register_sequence(KernelRegistry& registry);

/// Calls f(TypeTag<T>) for the element type; UserError if it isn't one of the family.
template <typename F>
void for_float_type(const NodeContext& context, DataType type, F&& f) {
  if (!visit_float_type(type, f)) context.fail_unsupported_type(type);
}
template <typename F>
void for_integer_type(const NodeContext& context, DataType type, F&& f) {
  if (!visit_integer_type(type, f)) context.fail_unsupported_type(type);
}
template <typename F>
void for_number_type(const NodeContext& context, DataType type, F&& f) {
  if (!visit_number_type(type, f)) context.fail_unsupported_type(type);
}
template <typename F>
void for_number_or_bool_type(const NodeContext& context, DataType type, F&& f) {
  if (!visit_number_or_bool_type(type, f)) context.fail_unsupported_type(type);
}

}  // namespace kodama::compiler::reference
