#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "compiler/package/file_names.h"
#include "compiler/proto/tensor_file.h"
#include "compiler/proto/tensor_proto.h"
#include "compiler/reference/onnx_backend_test.h"
#include "compiler/tensor/numpy_file.h"
#include "isa/output.h"
#include "library/states.h"

namespace kodama {

using library::TensorAccess;
using library::ValueAccess;

namespace library {

Value ValueAccess::wrap(compiler::Value value) {
  if (value.is_tensor()) return TensorAccess::wrap(std::move(value).take_tensor());
  return Value(std::make_shared<const ValueState>(ValueState{std::nullopt, std::move(value)}));
}
compiler::Value ValueAccess::borrow(const Value& value) {
  const ValueState& state = *value.state_;
  return state.tensor ? compiler::Value::borrowed(TensorAccess::get(*state.tensor)) : state.value;
}

compiler::ValueMap borrow(const Values& values) {
  compiler::ValueMap map;
  for (const auto& [name, value] : values) map.emplace(name, ValueAccess::borrow(value));
  return map;
}
Tensors tensors_of(const Values& values) {
  Tensors tensors;
  for (const auto& [name, value] : values) {
    if (!value.is_tensor())
      throw UnsupportedError(
          fmt::format("'{}' is {}: only models that are compiled while they run have such inputs", name,
                      value.describe()));
    tensors.emplace(name, value.tensor());
  }
  return tensors;
}

namespace {

std::string numpy_file(const std::string& path) {
  return std::filesystem::path(path).replace_extension(".npy").string();
}

}  // namespace

OutputFiles::OutputFiles(const std::vector<ValueInfo>& outputs, const std::string& directory) {
  if (directory.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw UserError(directory + ": can't be created: " + error.message());
  std::vector<std::string> names;
  for (const ValueInfo& output : outputs) names.push_back(output.name);
  std::vector<std::string> paths;
  const std::vector<std::string> stems = compiler::distinct_file_stems(names);
  for (size_t k = 0; k < names.size(); ++k) {
    paths.push_back((std::filesystem::path(directory) / (stems[k] + ".pb")).string());
    files_[names[k]] = paths.back();
    paths.push_back(numpy_file(paths.back()));
  }
  isa::check_outputs(paths);
}

void OutputFiles::write(const compiler::ValueMap& outputs) const {
  for (const auto& [name, path] : files_) {
    const compiler::Value& value = outputs.at(name);
    isa::write_file_atomically(path, compiler::value_to_bytes(value, name));
    isa::say_wrote(path, fmt::format("output '{}'", name));
    if (!value.is_tensor() || !compiler::is_numpy_type(value.tensor().type())) continue;
    compiler::write_tensor_file(numpy_file(path), value.tensor(), name);
  }
}

}  // namespace library

Value::Value(Tensor tensor)
    : state_(std::make_shared<const library::ValueState>(library::ValueState{std::move(tensor), {}})) {}

Value Value::sequence(ElementType type, std::vector<Tensor> elements) {
  std::vector<compiler::Value> values;
  for (Tensor& element : elements) {
    if (element.type() != type)
      throw UserError(fmt::format("Value::sequence of {}: found an element of {}", element_type_name(type),
                                  element_type_name(element.type())));
    values.emplace_back(TensorAccess::take(std::move(element)));
  }
  return ValueAccess::wrap(
      compiler::Value::sequence(static_cast<compiler::DataType>(type), std::move(values)));
}

Value Value::optional(const Value& value) {
  if (!value.is_tensor() && value.state_->value.is_optional())
    throw UserError(
        fmt::format("Value::optional of {}: allowed are tensors and sequences", value.describe()));
  return ValueAccess::wrap(compiler::Value::optional(
      value.is_tensor() ? compiler::Value(TensorAccess::get(value.tensor())) : value.state_->value));
}

bool Value::is_tensor() const {
  return state_->tensor.has_value();
}
bool Value::is_sequence() const {
  return !is_tensor() && state_->value.is_sequence();
}
const Tensor& Value::tensor() const {
  if (!is_tensor()) throw UserError(fmt::format("Value::tensor: this is {}", describe()));
  return *state_->tensor;
}
std::vector<Tensor> Value::elements() const {
  if (is_tensor()) return {tensor()};
  const compiler::Value& value = state_->value;
  if (value.is_optional() && !value.has_element()) return {};
  const compiler::Value held = value.is_optional() ? value.element() : value;
  if (held.is_tensor()) return {TensorAccess::wrap(held.tensor())};
  std::vector<Tensor> elements;
  for (size_t k = 0; k < held.size(); ++k) elements.push_back(TensorAccess::wrap(held.at(k)));
  return elements;
}
std::string Value::describe() const {
  return ValueAccess::borrow(*this).describe();
}

std::vector<DataSet> read_data_sets(const std::string& directory) {
  const auto wrap = [](compiler::ValueMap map) {
    Values values;
    for (auto& [name, value] : map) values.emplace(name, ValueAccess::wrap(std::move(value)));
    return values;
  };
  std::vector<DataSet> sets;
  compiler::BackendTestCase test = compiler::load_backend_test(directory);
  for (compiler::BackendTestData& data : test.data_sets) {
    for (const std::string& name : test.random_outputs) data.outputs.erase(name);
    sets.push_back({data.name, wrap(std::move(data.inputs)), wrap(std::move(data.outputs))});
  }
  return sets;
}

Tensor read_tensor(const std::string& file, const std::string& member) {
  return TensorAccess::wrap(compiler::read_tensor_file(file, member));
}
void write_tensor(const std::string& file, const Tensor& tensor, const std::string& name) {
  compiler::write_tensor_file(file, TensorAccess::get(tensor), name);
}

}  // namespace kodama
