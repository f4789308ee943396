#include "builder/graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "builder/recorder.h"
#include "compiler/graph/check_structure.h"
#include "compiler/graph/gradient/gradient_nodes.h"
#include "compiler/graph/infer_types.h"
#include "compiler/graph/node_operands.h"
#include "compiler/graph/onnx_model.h"
#include "isa/file.h"

namespace kodama::builder {

namespace {

/// The dimensions that inputs have by name.
std::set<std::string> dimension_names(const onnx::GraphProto& graph) {
  std::set<std::string> names;
  for (const auto& input : graph.input()) {
    for (const auto& dim : input.type().tensor_type().shape().dim()) {
      if (dim.has_dim_param()) names.insert(dim.dim_param());
    }
  }
  return names;
}

void set_extents(onnx::GraphProto& graph, const Extents& extents) {
  const auto set_in = [&](onnx::TypeProto& type) {
    if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return;
    for (auto& dim : *type.mutable_tensor_type()->mutable_shape()->mutable_dim()) {
      const auto found = dim.has_dim_param() ? extents.find(dim.dim_param()) : extents.end();
      if (found != extents.end()) dim.set_dim_value(found->second);
    }
  };
  for (auto* values : {graph.mutable_input(), graph.mutable_output(), graph.mutable_value_info()}) {
    for (auto& value : *values) set_in(*value.mutable_type());
  }
  for (auto& node : *graph.mutable_node()) {
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) set_extents(*attribute.mutable_g(), extents);
    }
  }
}

bool has_only_tensors(const onnx::GraphProto& graph) {
  for (const auto* values : {&graph.input(), &graph.output(), &graph.value_info()}) {
    for (const auto& value : *values) {
      if (!value.type().has_tensor_type()) return false;
    }
  }
  return true;
}

void check_extents(const onnx::GraphProto& graph, const Extents& extents, Here here) {
  const std::set<std::string> names = dimension_names(graph);
  for (const auto& [name, extent] : extents) {
    if (!names.contains(name)) {
      fail(here, fmt::format("the inputs have no dimension '{}'; they have {}", name,
                             names.empty() ? "none with a name" : fmt::format("{}", fmt::join(names, ", "))));
    }
    if (extent < 1) fail(here, fmt::format("the dimension '{}' is {}; at least 1 is allowed", name, extent));
  }
}

void check_dims(const std::vector<Dim>& dims, const std::string& name, Here here) {
  for (const Dim& dim : dims) {
    if (dim.is_open() && dim.name().empty()) {
      fail(here,
           fmt::format("'{}' has an extent of {}; 0 and more, or a name, are allowed", name, dim.extent()));
    }
  }
}

Value add_elements(Recorder& recorder, ValueKind kind, const std::string& name, Tensor elements, Here here) {
  ValueRecord record;
  record.kind = kind;
  record.elements = std::make_shared<const Tensor>(std::move(elements));
  return recorder.add(std::move(record), name, true, here);
}

Value add_drawn(Recorder& recorder, ValueKind kind, const std::string& name, const Shape& shape,
                const Initial& initial, DataType type, Here here) {
  check_dims(Dims(shape).list(), name, here);
  ValueRecord record;
  record.kind = kind;
  with_line(here, [&] {
    if (compiler::element_count(shape) > compiler::kMaxTensorElements) {
      throw isa::UserError(fmt::format("'{}' is {}; a tensor of at most {} elements is allowed", name,
                                       compiler::shape_to_string(shape), compiler::kMaxTensorElements));
    }
    (void)initial.draw(type, {1}, 0, name);  // whether the type can hold such elements
  });
  record.initial = initial;
  record.type = compiler::make_tensor_type(type, shape);
  return recorder.add(std::move(record), name, true, here);
}

}  // namespace

Graph::Graph(std::string name, uint64_t seed)
    : recorder_(std::make_shared<Recorder>(std::move(name), seed)) {}

Value Graph::input(const std::string& name, DataType type, const Dims& dims, Here here) {
  check_dims(dims.list(), name, here);
  onnx::TypeProto proto;
  proto.mutable_tensor_type()->set_elem_type(type);
  auto& shape = *proto.mutable_tensor_type()->mutable_shape();
  for (const Dim& dim : dims.list()) {
    auto& added = *shape.add_dim();
    if (dim.is_open()) {
      added.set_dim_param(dim.name());
    } else {
      added.set_dim_value(dim.extent());
    }
  }
  return input(name, proto, here);
}

Value Graph::input(const std::string& name, const onnx::TypeProto& type, Here here) {
  if (type.value_case() == onnx::TypeProto::VALUE_NOT_SET ||
      (type.has_tensor_type() && (type.tensor_type().elem_type() == onnx::TensorProto_DataType_UNDEFINED ||
                                  !onnx::TensorProto_DataType_IsValid(type.tensor_type().elem_type())))) {
    fail(here, fmt::format("input '{}' has no type; an element type is needed", name));
  }
  if (type.has_tensor_type() && !type.tensor_type().has_shape())
    fail(here, fmt::format("input '{}' has no shape; its dimensions, open ones by a name, are needed", name));
  ValueRecord record;
  record.kind = ValueKind::kInput;
  record.type = type;
  return recorder_->add(std::move(record), name, false, here);
}

Value Graph::parameter(const std::string& name, const Shape& shape, const Initial& initial, DataType type,
                       Here here) {
  return add_drawn(*recorder_, ValueKind::kParameter, name, shape, initial, type, here);
}

Value Graph::parameter(const std::string& name, Tensor elements, Here here) {
  return add_elements(*recorder_, ValueKind::kParameter, name, std::move(elements), here);
}

Value Graph::buffer(const std::string& name, const Shape& shape, const Initial& initial, DataType type,
                    Here here) {
  return add_drawn(*recorder_, ValueKind::kBuffer, name, shape, initial, type, here);
}

Value Graph::buffer(const std::string& name, Tensor elements, Here here) {
  return add_elements(*recorder_, ValueKind::kBuffer, name, std::move(elements), here);
}

Value Graph::constant(const Operand& numbers, DataType type, Here here) {
  if (numbers.number() == nullptr && numbers.numbers() == nullptr)
    fail(here, "constant: numbers are allowed here");
  return constant(with_line(here, [&] { return constant_of(numbers, type, "a constant"); }), here);
}

Value Graph::constant(Tensor elements, Here here) {
  return add_elements(*recorder_, ValueKind::kConstant, "constant", std::move(elements), here);
}

void Graph::output(const Value& value, const std::string& name, Here here) {
  recorder_->make_output(value, name, here);
}

std::vector<Value> Graph::parameters() const {
  std::vector<Value> values;
  for (const int id : recorder_->of_kind(ValueKind::kParameter)) values.push_back(recorder_->handle(id));
  return values;
}

Value Graph::find(const std::string& name, Here here) const {
  const int id = recorder_->find(name);
  if (id < 0) fail(here, fmt::format("the graph has no value '{}'", name));
  return recorder_->handle(id);
}

onnx::ModelProto Graph::model(const Extents& extents, Here here) const {
  if (recorder_->outputs().empty()) fail(here, "the graph has no output; Graph::output() makes them");
  return finished_model(*recorder_, recorder_->outputs(), extents, here);
}

void Graph::save(const std::string& path, const Extents& extents, Here here) const {
  const onnx::ModelProto model = this->model(extents, here);
  with_line(here, [&] { isa::write_file_atomically(path, compiler::serialize_model(model, path)); });
}

onnx::ModelProto finished_model(const Recorder& recorder, const std::vector<int>& outputs,
                                const Extents& extents, Here here) {
  onnx::ModelProto model = with_line(here, [&] { return recorder.export_model(outputs); });
  onnx::GraphProto& graph = *model.mutable_graph();
  check_extents(graph, extents, here);
  if (!extents.empty()) {
    set_extents(graph, extents);
    // What follows from the extents is inferred anew.
    if (has_only_tensors(graph)) with_line(here, [&] { compiler::infer_types(model); });
  }
  const bool is_static = std::ranges::all_of(
      graph.input(), [](const auto& input) { return compiler::static_shape(input.type()).has_value(); });
  if (is_static && compiler::has_gradient_nodes(model))
    model = with_line(here, [&] { return with_gradients(std::move(model), "gradients"); });
  compiler::check_with_onnx(model, here.location().to_string());
  return model;
}

// ------------------------------------------------------------------------------------------- values

Recorder& Value::recorder(Here here) const {
  if (!has_value()) fail(here, "a default Value was given; a value of a graph is needed");
  return *recorder_;
}

std::string Value::name() const {
  return has_value() && id_ < recorder_->count() ? recorder_->record_of(id_).name : "";
}

onnx::TypeProto Value::type(Here here) const {
  return recorder(here).value(id_, here).type;
}

DataType Value::element_type(Here here) const {
  const onnx::TypeProto known = type(here);
  if (!known.has_tensor_type() || known.tensor_type().elem_type() == onnx::TensorProto_DataType_UNDEFINED)
    fail(here, fmt::format("'{}' is {}; a tensor with a known element type is needed", name(),
                           compiler::type_to_string(known)));
  return static_cast<DataType>(known.tensor_type().elem_type());
}

int64_t Value::rank(Here here) const {
  const onnx::TypeProto known = type(here);
  if (!known.has_tensor_type() || !known.tensor_type().has_shape())
    fail(here, fmt::format("'{}' is {}; a tensor with a known number of axes is needed", name(),
                           compiler::type_to_string(known)));
  return known.tensor_type().shape().dim_size();
}

Shape Value::shape(Here here) const {
  const onnx::TypeProto known = type(here);
  const auto shape = known.has_tensor_type() ? compiler::static_shape(known) : std::nullopt;
  if (!shape) {
    fail(here, fmt::format("'{}' is {}; a tensor of which all extents are known is needed", name(),
                           compiler::type_to_string(known)));
  }
  return *shape;
}

bool Value::has_extent(int64_t axis, Here here) const {
  const int64_t rank = this->rank(here);
  if (axis < -rank || axis >= rank) {
    fail(here, fmt::format("axis {} of '{}', which is {}; {} to {} is allowed", axis, name(),
                           compiler::type_to_string(type(here)), -rank, rank - 1));
  }
  const onnx::TypeProto known = type(here);
  return known.tensor_type().shape().dim(static_cast<int>(axis < 0 ? axis + rank : axis)).has_dim_value();
}

int64_t Value::extent(int64_t axis, Here here) const {
  if (!has_extent(axis, here)) {
    fail(here, fmt::format("axis {} of '{}', which is {}: its extent isn't known", axis, name(),
                           compiler::type_to_string(type(here))));
  }
  const onnx::TypeProto known = type(here);
  const int64_t rank = known.tensor_type().shape().dim_size();
  return known.tensor_type().shape().dim(static_cast<int>(axis < 0 ? axis + rank : axis)).dim_value();
}

std::vector<Value> Value::backward(Here here) const {
  return recorder(here).backward(id_, here);
}

Value Value::gradient(Here here) const {
  (void)recorder(here).value(id_, here);
  return recorder_->gradient(id_, here);
}

bool Operand::is_left_out() const {
  return std::holds_alternative<std::monostate>(content_) || (value() != nullptr && !value()->has_value());
}

// ------------------------------------------------------------------------------------------- scopes

Scope::Scope(Graph& graph, const std::string& name, Here here) : recorder_(graph.recorder_) {
  if (name.empty()) fail(here, "the name of a scope is empty; it must have at least one letter");
  outer_ = recorder_->push_scope(name);
}

Scope::~Scope() {
  recorder_->pop_scope(outer_);
}

}  // namespace kodama::builder
