#include "compiler/graph/newer_fields.h"

#include <google/protobuf/unknown_field_set.h>

#include <map>
#include <utility>
#include <vector>

#include "compiler/graph/onnx_model.h"
#include "compiler/graph/walk.h"

namespace kodama::compiler {

namespace {

// Numbers of fields in onnx.proto.
constexpr int kNodeOverload = 8;
constexpr int kFunctionOverload = 13;
constexpr int kFunctionAttributeProto = 11;

std::vector<std::string> texts_of(const google::protobuf::Message& message, int number) {
  std::vector<std::string> texts;
  const auto& fields = message.GetReflection()->GetUnknownFields(message);
  for (int i = 0; i < fields.field_count(); ++i) {
    const auto& field = fields.field(i);
    if (field.number() == number && field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
      texts.push_back(field.length_delimited());
  }
  return texts;
}

/// Appends the overload that `number` holds, if there is one, to a name.
std::string with_overload(const google::protobuf::Message& message, int number, const std::string& name) {
  const std::vector<std::string> texts = texts_of(message, number);
  return texts.empty() || texts.back().empty() ? name : name + ":" + texts.back();
}

}  // namespace

void resolve_newer_fields(onnx::ModelProto& model, const std::string& where) {
  std::map<std::pair<std::string, std::string>, std::vector<onnx::AttributeProto>> defaults;
  for (auto& function : *model.mutable_functions()) {
    function.set_name(with_overload(function, kFunctionOverload, function.name()));
    for (const std::string& bytes : texts_of(function, kFunctionAttributeProto)) {
      onnx::AttributeProto attribute;
      if (!attribute.ParseFromString(bytes) || attribute.name().empty()) {
        throw isa::UserError(fmt::format("{}: function '{}.{}': the default of an attribute is broken", where,
                                         function.domain(), function.name()));
      }
      function.add_attribute(attribute.name());
      defaults[{function.domain(), function.name()}].push_back(std::move(attribute));
    }
  }
  for_each_node(model, [&](onnx::NodeProto& node) {
    node.set_op_type(with_overload(node, kNodeOverload, node.op_type()));
    const auto found = defaults.find({node.domain(), node.op_type()});
    if (found == defaults.end()) return;
    for (const auto& attribute : found->second) {
      if (find_attribute(node, attribute.name()) == nullptr) *node.add_attribute() = attribute;
    }
  });
  model.DiscardUnknownFields();
}

}  // namespace kodama::compiler
