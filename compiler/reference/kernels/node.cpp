#include "compiler/reference/kernels/node.h"

#include <fmt/format.h>

#include <array>

namespace kodama::compiler::reference {

std::string attribute_kind(size_t index) {
  constexpr std::array<const char*, std::variant_size_v<Attribute>> kKinds = {
      "of a kind that no operator takes",
      "an integer",
      "a float",
      "a string",
      "a tensor",
      "a graph",
      "a type",
      "a list of integers",
      "a list of floats",
      "a list of strings"};
  return kKinds.at(index);
}

std::string place_of(const std::string& name, const std::string& op_type, const std::string& first_output) {
  if (name.empty() && !first_output.empty()) return fmt::format("node '-> {}' ({})", first_output, op_type);
  return fmt::format("node '{}' ({})", name, op_type);
}

std::string place_of(const Node& node) {
  return place_of(node.name, node.op_type, node.outputs.empty() ? "" : node.outputs.front());
}

Value as_declared(const Declared& declared, const Value& value) {
  return declared.type && declared.type->is_optional && !value.is_optional() ? Value::optional(value) : value;
}

}  // namespace kodama::compiler::reference
