#include <fmt/format.h>

#include <cstring>

#include "compiler/tensor/largest.h"
#include "compiler/tensor/numpy_file.h"
#include "library/runtime/states.h"

namespace kodama {

using compiler::DataType;

// The public header has the types once more, for programs that don't see the compiler's.
static_assert(static_cast<int>(ElementType::kFloat32) == DataType::kFloat32);
static_assert(static_cast<int>(ElementType::kUint8) == DataType::kUint8);
static_assert(static_cast<int>(ElementType::kInt8) == DataType::kInt8);
static_assert(static_cast<int>(ElementType::kUint16) == DataType::kUint16);
static_assert(static_cast<int>(ElementType::kInt16) == DataType::kInt16);
static_assert(static_cast<int>(ElementType::kInt32) == DataType::kInt32);
static_assert(static_cast<int>(ElementType::kInt64) == DataType::kInt64);
static_assert(static_cast<int>(ElementType::kString) == DataType::kString);
static_assert(static_cast<int>(ElementType::kBool) == DataType::kBool);
static_assert(static_cast<int>(ElementType::kFloat16) == DataType::kFloat16);
static_assert(static_cast<int>(ElementType::kFloat64) == DataType::kFloat64);
static_assert(static_cast<int>(ElementType::kUint32) == DataType::kUint32);
static_assert(static_cast<int>(ElementType::kUint64) == DataType::kUint64);
static_assert(static_cast<int>(ElementType::kComplex64) == DataType::kComplex64);
static_assert(static_cast<int>(ElementType::kComplex128) == DataType::kComplex128);
static_assert(static_cast<int>(ElementType::kBfloat16) == DataType::kBfloat16);

namespace {

DataType onnx_type(ElementType type) {
  return static_cast<DataType>(type);
}

}  // namespace

std::string element_type_name(ElementType type) {
  return compiler::data_type_name(onnx_type(type));
}

ElementType parse_element_type(const std::string& name) {
  std::string names;
  for (int number = 1; number <= static_cast<int>(ElementType::kBfloat16); ++number) {
    const auto type = static_cast<ElementType>(number);
    if (element_type_name(type) == name) return type;
    names += (names.empty() ? "" : ", ") + element_type_name(type);
  }
  throw UserError(fmt::format("element type: found '{}', allowed: {}", name, names));
}

Tensor::Tensor(ElementType type, std::vector<int64_t> shape)
    : state_(std::make_shared<State>(State{{onnx_type(type), std::move(shape)}})) {}

Tensor Tensor::copy_of(ElementType type, std::vector<int64_t> shape, const void* elements) {
  if (type == ElementType::kString)
    throw UserError("Tensor::copy_of: strings are made by Tensor::of_strings");
  Tensor tensor(type, std::move(shape));
  const std::span<std::byte> bytes = tensor.bytes();
  if (!bytes.empty()) std::memcpy(bytes.data(), elements, bytes.size());
  return tensor;
}

Tensor Tensor::of_strings(std::vector<int64_t> shape, std::vector<std::string> elements) {
  Tensor tensor(ElementType::kString, std::move(shape));
  if (std::ssize(elements) != tensor.size())
    throw UserError(fmt::format("Tensor::of_strings: {} elements for shape {}", elements.size(),
                                compiler::shape_to_string(tensor.shape())));
  tensor.state_->tensor.strings() = std::move(elements);
  return tensor;
}

Tensor Tensor::read(const std::string& file, const std::string& member) {
  return library::TensorAccess::wrap(compiler::read_numpy_file(file, member));
}
void Tensor::write(const std::string& file) const {
  compiler::write_numpy_file(file, state_->tensor);
}

ElementType Tensor::type() const {
  return static_cast<ElementType>(state_->tensor.type());
}
const std::vector<int64_t>& Tensor::shape() const {
  return state_->tensor.shape();
}
int64_t Tensor::size() const {
  return state_->tensor.size();
}
std::span<const std::byte> Tensor::bytes() const {
  return std::as_const(state_->tensor).bytes();
}
std::span<std::byte> Tensor::bytes() {
  return state_->tensor.bytes();
}
std::span<const std::string> Tensor::strings() const {
  return state_->tensor.strings();
}

double Tensor::number(int64_t index) const {
  check_numbers("Tensor::number");
  if (index < 0 || index >= size())
    throw UserError(fmt::format("Tensor::number: index {} of {} elements", index, size()));
  return compiler::element_as_double(state_->tensor, index);
}
std::vector<int64_t> Tensor::largest_per_row() const {
  check_numbers("Tensor::largest_per_row");
  return compiler::largest_per_row(state_->tensor);
}

void Tensor::check_numbers(const char* where) const {
  if (type() == ElementType::kString || type() == ElementType::kComplex64 ||
      type() == ElementType::kComplex128)
    throw UserError(fmt::format("{}: elements of {} are no real numbers", where, element_type_name(type())));
}
const std::byte* Tensor::checked_bytes(size_t element_size) const {
  const size_t own = compiler::element_size(state_->tensor.type());
  if (own != element_size)
    throw UserError(fmt::format("Tensor::data: elements of {} bytes are asked for, those of {} have {}",
                                element_size, element_type_name(type()), own));
  return bytes().data();
}

namespace library {

Tensor TensorAccess::wrap(compiler::Tensor tensor) {
  return Tensor(std::make_shared<Tensor::State>(Tensor::State{std::move(tensor)}));
}
const compiler::Tensor& TensorAccess::get(const Tensor& tensor) {
  return tensor.state_->tensor;
}
compiler::Tensor TensorAccess::take(Tensor tensor) {
  if (tensor.state_.use_count() == 1) return std::move(tensor.state_->tensor);
  return tensor.state_->tensor;
}

compiler::TensorMap to_map(Tensors tensors) {
  compiler::TensorMap map;
  for (auto& [name, tensor] : tensors) map.emplace(name, TensorAccess::take(std::move(tensor)));
  return map;
}
Tensors from_map(compiler::TensorMap map) {
  Tensors tensors;
  for (auto& [name, tensor] : map) tensors.emplace(name, TensorAccess::wrap(std::move(tensor)));
  return tensors;
}

}  // namespace library
}  // namespace kodama
