#include "compiler/reference/kernels/kernel.h"

#include <algorithm>
#include <iterator>

#include "compiler/reference/kernels/strided.h"

namespace kodama::compiler::reference {

NodeContext::NodeContext(const Node& node, const std::vector<const Value*>& inputs,
                         SubgraphRunner run_subgraph)
    : node_(node), inputs_(inputs), run_subgraph_(std::move(run_subgraph)) {}

const Value& NodeContext::value(size_t index) const {
  if (!has_input(index)) fail("input {} is missing", index);
  return *inputs_[index];
}

const Tensor& NodeContext::input(size_t index) const {
  require(value(index).is_tensor(), "input {} is {}; allowed is a tensor", index, value(index).describe());
  return value(index).tensor();
}

std::vector<const Tensor*> NodeContext::inputs() const {
  std::vector<const Tensor*> tensors;
  for (size_t i = 0; i < inputs_.size(); ++i) tensors.push_back(&input(i));
  return tensors;
}

std::vector<int64_t> NodeContext::integers(size_t index) const {
  const Tensor& tensor = input(index);
  require(tensor.rank() <= 1, "input {} has shape {}; allowed is rank 0 or 1", index,
          shape_to_string(tensor.shape()));
  if (tensor.type() == DataType::kInt32) {
    const auto data = tensor.data<int32_t>();
    return {data.begin(), data.end()};
  }
  require(tensor.type() == DataType::kInt64, "input {} is {}; allowed are int32 and int64", index,
          data_type_name(tensor.type()));
  const auto data = tensor.data<int64_t>();
  return {data.begin(), data.end()};
}

double NodeContext::scalar(size_t index) const {
  const Tensor& tensor = input(index);
  require(tensor.size() == 1, "input {} has shape {}; allowed is one element", index,
          shape_to_string(tensor.shape()));
  if (!visit_number_or_bool_type(tensor.type(), [](auto) {})) fail_unsupported_type(tensor.type());
  return element_as_double(tensor, 0);
}

int64_t NodeContext::integer_scalar(size_t index) const {
  const std::vector<int64_t> values = integers(index);
  require(values.size() == 1, "input {} has {} elements; allowed is one", index, values.size());
  return values[0];
}

bool NodeContext::has_output(size_t index) const {
  return index < output_count() && !node_.outputs[index].empty();
}

double NodeContext::number_attribute(const std::string& name) const {
  const auto found = node_.attributes.find(name);
  if (found != node_.attributes.end() && std::holds_alternative<int64_t>(found->second))
    return static_cast<double>(int_attribute(name));
  return float_attribute(name);
}

std::vector<Value> NodeContext::run_subgraph(const std::string& attribute,
                                             const std::vector<Value>& inputs) const {
  isa::check_internal(run_subgraph_ != nullptr, "reference", "{} has nobody to run its graph", where());
  const Graph& graph = graph_attribute(attribute);
  require(inputs.size() == graph.inputs.size(), "graph '{}' has {} inputs; {} values are passed to it",
          graph.name, graph.inputs.size(), inputs.size());
  return run_subgraph_(attribute, inputs);
}

void NodeContext::fail_unsupported_type(DataType type) const {
  fail("{} elements are not allowed here", data_type_name(type));
}

size_t NodeContext::axis(int64_t axis, int64_t rank) const {
  require(axis >= -rank && axis < rank, "axis {} is out of range; allowed is {} to {}", axis, -rank,
          rank - 1);
  return static_cast<size_t>(axis < 0 ? axis + rank : axis);
}

std::vector<bool> NodeContext::axis_flags(const std::vector<int64_t>& axes, int64_t rank) const {
  std::vector<bool> flags(static_cast<size_t>(rank), false);
  for (const int64_t given : axes) {
    const size_t normalized = axis(given, rank);
    require(!flags[normalized], "axis {} is named twice", given);
    flags[normalized] = true;
  }
  return flags;
}

Shape NodeContext::broadcast_shape(const std::vector<const Tensor*>& tensors) const {
  Shape result;
  for (const Tensor* tensor : tensors) {
    const Shape& shape = tensor->shape();
    if (shape.size() > result.size()) result.insert(result.begin(), shape.size() - result.size(), 1);
    const size_t missing = result.size() - shape.size();
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      int64_t& extent = result[missing + axis];
      if (extent == 1) {
        extent = shape[axis];
      } else if (shape[axis] != 1 && shape[axis] != extent) {
        std::string shapes;
        for (const Tensor* each : tensors) shapes += fmt::format(" {}", shape_to_string(each->shape()));
        fail("shapes{} can't be broadcast together", shapes);
      }
    }
  }
  return result;
}

void NodeContext::require_same_type(const Tensor& a, const Tensor& b) const {
  require(a.type() == b.type(), "the inputs are {} and {}; they must have the same type",
          data_type_name(a.type()), data_type_name(b.type()));
}

const KernelRegistry& KernelRegistry::instance() {
  static const KernelRegistry registry = [] {
    KernelRegistry filled;
    register_arithmetic(filled);
    register_unary(filled);
    register_logic(filled);
    register_reduce(filled);
    register_convolution(filled);
    register_pool(filled);
    register_loss(filled);
    register_matmul(filled);
    register_normalization(filled);
    register_movement(filled);
    register_indexing(filled);
    register_cast(filled);
    register_generator(filled);
    register_control_flow(filled);
    register_quantize(filled);
    register_random(filled);
    register_recurrent(filled);
    register_resize(filled);
    register_region(filled);
    register_signal(filled);
    register_text(filled);
    register_training(filled);
    register_unique(filled);
    register_sequence(filled);
    return filled;
  }();
  return registry;
}

void KernelRegistry::add(const std::string& domain, const std::string& op_type, Kernel kernel) {
  const auto of_values = [kernel = std::move(kernel)](const NodeContext& context) {
    std::vector<Tensor> tensors = kernel(context);
    return std::vector<Value>(std::make_move_iterator(tensors.begin()),
                              std::make_move_iterator(tensors.end()));
  };
  const bool added = kernels_.emplace(std::pair(domain, op_type), of_values).second;
  isa::check_internal(added, "KernelRegistry", "{} has two kernels", op_type);
}

std::vector<std::pair<std::string, std::string>> KernelRegistry::names() const {
  std::vector<std::pair<std::string, std::string>> list;
  for (const auto& [name, kernel] : kernels_) list.push_back(name);
  return list;
}

void KernelRegistry::add_of_values(const std::string& op_type, ValueKernel kernel) {
  const bool added = kernels_.emplace(std::pair("", op_type), std::move(kernel)).second;
  isa::check_internal(added, "KernelRegistry", "{} has two kernels", op_type);
}

const ValueKernel* KernelRegistry::find(const std::string& domain, const std::string& op_type) const {
  const auto found = kernels_.find({domain, op_type});
  return found != kernels_.end() ? &found->second : nullptr;
}

}  // namespace kodama::compiler::reference
