#include "compiler/reference/operator_sets.h"

#include <fmt/format.h>

#include "compiler/reference/kernels/kernel.h"

namespace kodama::compiler {

using isa::UnsupportedError;
using isa::UserError;

std::string canonical_domain(const std::string& domain) {
  return domain == "ai.onnx" ? "" : domain;
}

std::string domain_text(const std::string& domain) {
  return domain.empty() ? "ai.onnx" : domain;
}

const onnx::OpSchema* find_schema(const onnx::NodeProto& node, const OperatorSets& operators) {
  return onnx::OpSchemaRegistry::Schema(node.op_type(), static_cast<int>(operators.version(node.domain())),
                                        canonical_domain(node.domain()));
}

std::string unknown_operator(const onnx::NodeProto& node, const OperatorSets& operators,
                             const onnx::OpSchema* schema) {
  const std::string domain = canonical_domain(node.domain());
  const int64_t version = operators.version(domain);
  if (version == 0)
    return fmt::format("the model imports no operator set of domain '{}'", domain_text(domain));
  if (schema == nullptr) {
    return fmt::format("operator {} is unknown in domain '{}', version {}", node.op_type(),
                       domain_text(domain), version);
  }
  if (schema->deprecated()) {
    return fmt::format("operator {} no longer exists in domain '{}', version {}", node.op_type(),
                       domain_text(domain), version);
  }
  return "";
}

onnx::FunctionProto schema_function(const onnx::OpSchema& schema) {
  onnx::FunctionProto function = *schema.GetFunction();
  if (function.opset_import_size() == 0) {  // a body is written in the operator set that introduced it
    auto* const import = function.add_opset_import();
    import->set_domain(schema.domain());
    import->set_version(schema.since_version());
  }
  return function;
}

bool has_kernel(const std::string& domain, const std::string& op_type) {
  return reference::KernelRegistry::instance().find(domain, op_type) != nullptr;
}

void check_no_sparse_initializers(const onnx::GraphProto& graph) {
  if (graph.sparse_initializer_size() > 0) {
    throw UnsupportedError(
        fmt::format("graph '{}': sparse initializers have no CPU reference; make them dense", graph.name()));
  }
}

OperatorSets::OperatorSets(const onnx::ModelProto& model) {
  for (const onnx::OperatorSetIdProto& import : model.opset_import()) {
    const auto [known, is_new] = versions_.emplace(canonical_domain(import.domain()), import.version());
    if (!is_new && known->second != import.version()) {
      throw UserError(fmt::format("the model imports versions {} and {} of domain '{}'; allowed is one",
                                  known->second, import.version(), domain_text(known->first)));
    }
  }
  if (model.opset_import_size() == 0) versions_[""] = 1;  // models of IR version 1 and 2
  for (const onnx::FunctionProto& function : model.functions()) {
    functions_[{canonical_domain(function.domain()), function.name()}] = &function;
  }
}

OperatorSets OperatorSets::with_imports_of(const onnx::FunctionProto& function) const {
  OperatorSets result;
  result.functions_ = functions_;
  for (const onnx::OperatorSetIdProto& import : function.opset_import()) {
    result.versions_[canonical_domain(import.domain())] = import.version();
  }
  return result;
}

int64_t OperatorSets::version(const std::string& domain) const {
  const auto found = versions_.find(canonical_domain(domain));
  return found != versions_.end() ? found->second : 0;
}

const onnx::FunctionProto* OperatorSets::function(const onnx::NodeProto& node) const {
  const auto found = functions_.find({canonical_domain(node.domain()), node.op_type()});
  return found != functions_.end() ? found->second : nullptr;
}

}  // namespace kodama::compiler
