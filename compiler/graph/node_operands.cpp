#include "compiler/graph/node_operands.h"

#include "compiler/graph/onnx_model.h"

namespace kodama::compiler {

const onnx::TensorShapeProto* NodeOperands::known_shape(int input) const {
  if (!has(input)) return nullptr;
  const auto* type = types_[static_cast<size_t>(input)];
  if (type == nullptr || !type->has_tensor_type() || !type->tensor_type().has_shape()) return nullptr;
  return &type->tensor_type().shape();
}

std::optional<DataType> NodeOperands::type(int input) const {
  if (!has(input)) return std::nullopt;
  const auto* type = types_[static_cast<size_t>(input)];
  if (type == nullptr || !type->has_tensor_type()) return std::nullopt;
  if (type->tensor_type().elem_type() == DataType::kUndefined) return std::nullopt;
  return static_cast<DataType>(type->tensor_type().elem_type());
}

std::optional<int64_t> NodeOperands::rank(int input) const {
  const auto* shape = known_shape(input);
  return shape == nullptr ? std::nullopt : std::optional<int64_t>(shape->dim_size());
}

std::optional<int64_t> NodeOperands::extent(int input, int64_t axis) const {
  const auto* shape = known_shape(input);
  if (shape == nullptr || axis < 0 || axis >= shape->dim_size()) return std::nullopt;
  const auto& dim = shape->dim(static_cast<int>(axis));
  return dim.has_dim_value() && dim.dim_value() >= 0 ? std::optional(dim.dim_value()) : std::nullopt;
}

std::optional<Shape> NodeOperands::shape(int input) const {
  return known_shape(input) == nullptr ? std::nullopt : static_shape(*types_[static_cast<size_t>(input)]);
}

std::optional<int64_t> NodeOperands::size(int input) const {
  const auto extents = shape(input);
  return extents ? std::optional(element_count(*extents)) : std::nullopt;
}

const Tensor* NodeOperands::constant(int input) const {
  return has(input) ? constants_[static_cast<size_t>(input)] : nullptr;
}

std::optional<std::vector<int64_t>> NodeOperands::integers(int input) const {
  const Tensor* tensor = constant(input);
  if (tensor == nullptr) return std::nullopt;
  if (tensor->type() == DataType::kInt64) {
    const auto data = tensor->data<int64_t>();
    return std::vector<int64_t>(data.begin(), data.end());
  }
  if (tensor->type() == DataType::kInt32) {
    const auto data = tensor->data<int32_t>();
    return std::vector<int64_t>(data.begin(), data.end());
  }
  return std::nullopt;
}

const onnx::AttributeProto* NodeOperands::attribute(const char* name) const {
  if (const auto* own = find_attribute(node_, name)) return own;
  const auto declared = schema_.attributes().find(name);
  if (declared == schema_.attributes().end() || !declared->second.default_value.has_name()) return nullptr;
  return &declared->second.default_value;
}

std::optional<int64_t> NodeOperands::integer(const char* name) const {
  const auto* found = attribute(name);
  return found == nullptr ? std::nullopt : std::optional<int64_t>(found->i());
}

std::optional<std::vector<int64_t>> NodeOperands::integers(const char* name) const {
  const auto* found = attribute(name);
  if (found == nullptr) return std::nullopt;
  return std::vector<int64_t>(found->ints().begin(), found->ints().end());
}

std::optional<std::string> NodeOperands::text(const char* name) const {
  const auto* found = attribute(name);
  return found == nullptr ? std::nullopt : std::optional<std::string>(found->s());
}

bool NodeOperands::has_attribute(const char* name) const {
  return find_attribute(node_, name) != nullptr;
}

std::string NodeOperands::describe(int input) const {
  const auto& formals = schema_.inputs();
  std::string text = fmt::format("input {}", input);
  if (!formals.empty()) {
    const auto& formal = formals[std::min<size_t>(static_cast<size_t>(input), formals.size() - 1)];
    if (formal.GetOption() != onnx::OpSchema::Variadic) text = "input " + formal.GetName();
  }
  if (!has(input)) return text;
  text += fmt::format(" '{}'", node_.input(input));
  const auto* type = types_[static_cast<size_t>(input)];
  return type == nullptr ? text : text + " (" + type_to_string(*type) + ")";
}

void NodeOperands::fail(const std::string& message) const {
  throw isa::UserError(describe_node(node_) + ": " + message);
}

}  // namespace kodama::compiler
