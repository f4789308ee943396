#include <fmt/format.h>

#include "compiler/graph/gradient/gradient_nodes.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/reference/executor.h"
#include "compiler/tensor/comparison.h"
#include "library/states.h"

namespace kodama {
namespace {

compiler::ImportOptions import_options(const ImportSettings& settings) {
  return {settings.dims, library::to_map(settings.bind)};
}

std::shared_ptr<const library::ModelState> make_state(compiler::ImportedModel imported, std::string where) {
  compiler::expand_gradient_nodes(imported, where);
  auto state = std::make_shared<library::ModelState>();
  state->where = std::move(where);
  state->name = imported.model.graph().name();
  state->imported = std::move(imported);
  return state;
}

}  // namespace

namespace library {

std::vector<ValueInfo> describe(const google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& values) {
  std::vector<ValueInfo> result;
  for (const auto& value : values) {
    ValueInfo info{value.name(), std::nullopt, {}};
    if (value.type().has_tensor_type()) {
      info.type = static_cast<ElementType>(value.type().tensor_type().elem_type());
      for (const auto& dim : value.type().tensor_type().shape().dim())
        info.shape.push_back(dim.has_dim_value() ? dim.dim_value() : -1);
    }
    result.push_back(std::move(info));
  }
  return result;
}

}  // namespace library

Model Model::from_file(const std::string& file, const ImportSettings& settings) {
  Model model;
  const compiler::ImportOptions options = import_options(settings);
  model.state_ =
      make_state(settings.allows_open ? compiler::import_any_model(file, options)
                                      : compiler::ImportedModel{compiler::import_model(file, options), ""},
                 file);
  return model;
}

Model Model::from_bytes(std::string_view bytes, const ImportSettings& settings, const std::string& name) {
  Model model;
  const compiler::ImportOptions options = import_options(settings);
  onnx::ModelProto parsed = compiler::parse_model(std::string(bytes), name);
  model.state_ =
      make_state(settings.allows_open
                     ? compiler::import_any_model(std::move(parsed), options, name)
                     : compiler::ImportedModel{compiler::import_model(std::move(parsed), options, name), ""},
                 name);
  return model;
}

const std::string& Model::name() const {
  return state_->name;
}
std::vector<ValueInfo> Model::inputs() const {
  return library::describe(state_->imported.model.graph().input());
}
std::vector<ValueInfo> Model::outputs() const {
  return library::describe(state_->imported.model.graph().output());
}
const std::string& Model::open_reason() const {
  return state_->imported.open_reason;
}

Tensors Model::random_inputs(uint64_t seed) const {
  Tensors tensors;
  for (const auto& input : state_->imported.model.graph().input()) {
    const auto shape = compiler::static_shape(input.type());
    if (!shape)
      throw UserError(fmt::format("{}: input '{}' has no fixed shape, so that no values can be made for it",
                                  state_->where, input.name()));
    const auto type = static_cast<compiler::DataType>(input.type().tensor_type().elem_type());
    tensors.emplace(input.name(),
                    library::TensorAccess::wrap(compiler::random_input(input.name(), type, *shape, seed)));
  }
  return tensors;
}

Tensors Model::reference(const Tensors& inputs) const {
  compiler::ValueMap values;
  for (const auto& [name, tensor] : inputs)
    values.emplace(name, compiler::Value::borrowed(library::TensorAccess::get(tensor)));
  return library::from_map(
      compiler::to_tensors(compiler::run_graph_on_values(state_->imported.model, values), "output"));
}

}  // namespace kodama
