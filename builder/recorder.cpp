#include "builder/recorder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <onnx/defs/data_type_utils.h>
#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <deque>

#include "builder/undo.h"
#include "compiler/graph/infer_types.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/graph/operator_rules.h"
#include "compiler/proto/tensor_proto.h"

namespace kodama::builder {

namespace {

using onnx::OpSchema;
using onnx::OpSchemaRegistry;

/// Operands that decide shapes are lists with an element per axis, or one number.
constexpr int64_t kMostKnownElements = 1024;

const char* kind_name(ValueKind kind) {
  switch (kind) {
    case ValueKind::kInput:
      return "an input";
    case ValueKind::kParameter:
      return "a parameter";
    case ValueKind::kBuffer:
      return "a buffer";
    case ValueKind::kConstant:
      return "a constant";
    default:
      return "an output";
  }
}

/// What the schema says of an operand; of the last one there may be many. There is one.
const OpSchema::FormalParameter& formal_of(const OpSchema& schema, size_t operand) {
  return schema.inputs()[std::min(operand, schema.inputs().size() - 1)];
}

bool is_many(const OpSchema::FormalParameter& formal) {
  return formal.GetOption() == OpSchema::Variadic;
}

/// Whether operands of this type variable all have the same type.
bool binds_type(const OpSchema::FormalParameter& formal) {
  return !is_many(formal) || formal.GetIsHomogeneous();
}

bool is_known(const onnx::TypeProto& type) {
  return type.value_case() != onnx::TypeProto::VALUE_NOT_SET;
}

bool is_known_tensor(const onnx::TypeProto& type) {
  return type.has_tensor_type() && type.tensor_type().elem_type() != onnx::TensorProto_DataType_UNDEFINED;
}

/// The element types of tensors that the schema allows.
std::vector<DataType> element_types(const OpSchema::FormalParameter& formal) {
  std::vector<DataType> types;
  for (const auto* text : formal.GetTypes()) {
    const onnx::TypeProto type = onnx::Utils::DataTypeUtils::ToTypeProto(text);
    if (type.has_tensor_type()) types.push_back(static_cast<DataType>(type.tensor_type().elem_type()));
  }
  return types;
}

/// What a number is if no other operand says it: the first of these that is allowed.
std::vector<DataType> natural_types(const Operand::Numbers& numbers) {
  const auto all = [&](auto what) { return std::ranges::all_of(numbers, what); };
  if (!numbers.empty() && all([](const Number& each) { return each.is_bool(); })) return {kBool};
  if (all([](const Number& each) { return each.is_integer(); }))
    return {kInt64, kInt32, kFloat32, kFloat64, kUInt8, kInt8};
  return {kFloat32, kFloat64, kFloat16, kBFloat16};
}

}  // namespace

// -------------------------------------------------------------------------------------------- names

size_t Recorder::push_scope(const std::string& name) {
  const size_t outer = scope_.size();
  scope_ += name + ".";
  return outer;
}

std::string Recorder::claim(const std::string& wish, bool own, int id, Here here) {
  if (!own) return value_names_.make_unique(wish);
  if (wish.empty()) fail(here, "a name is empty; it must have at least one letter");
  if (const auto holder = by_name_.find(wish); holder != by_name_.end() && holder->second != id) {
    ValueRecord& other = at(holder->second);
    if (other.has_own_name)
      fail(here, fmt::format("the name '{}' is that of {}; another one is allowed", wish,
                             other.is_output ? "an output" : kind_name(other.kind)));
    // A name that we have made gives way.
    const int moved = holder->second;
    by_name_.erase(holder);
    other.name = value_names_.make_unique(wish);
    by_name_[other.name] = moved;
  }
  value_names_.reserve(wish);
  return wish;
}

int Recorder::add_value(ValueRecord record, const std::string& name, bool own, Here here) {
  const int id = static_cast<int>(values_.size());
  record.name = claim(name, own, id, here);
  record.has_own_name = own;
  by_name_[record.name] = id;
  values_.push_back(std::move(record));
  return id;
}

Value Recorder::add(ValueRecord record, const std::string& name, bool in_scope, Here here) {
  const bool own = record.kind != ValueKind::kConstant;
  if (own && name.empty()) fail(here, "a name is empty; it must have at least one letter");
  if (record.elements != nullptr) {
    record.type = compiler::make_tensor_type(record.elements->type(), record.elements->shape());
    // Parameters change.
    if (record.kind != ValueKind::kParameter && record.elements->size() <= kMostKnownElements)
      record.known = record.elements;
  }
  return handle(add_value(std::move(record), (in_scope ? scope_ : "") + name, own, here));
}

void Recorder::make_output(const Value& value, const std::string& name, Here here) {
  int id = use(value, here);
  if (block_ != 0) fail(here, "an output is made in the body of a node; return it from the body");
  const bool is_result = record_of(id).kind == ValueKind::kResult;
  const std::string wish = name.empty() ? record_of(id).name : name;
  if (record_of(id).is_output && record_of(id).name == wish)
    fail(here, fmt::format("'{}' is an output already; an output has one name, and it is listed once", wish));
  if (!is_result || record_of(id).is_output) {
    if (name.empty()) {
      fail(here, fmt::format("'{}' is {}; as an output it needs another name", wish,
                             kind_name(record_of(id).kind)));
    }
    (void)claim(name, true, -1, here);  // so that nothing is recorded if it is taken
    value_names_.release(name);
    NodeRequest identity;
    identity.schema = OpSchemaRegistry::Schema("Identity", compiler::kOpsetVersion, "");
    identity.here = here;
    identity.operands = {Operand(value, here)};
    id = id_of(record(identity).front());
  }
  const std::string claimed = claim(wish, true, id, here);
  ValueRecord& output = at(id);
  if (output.name != claimed) {
    value_names_.release(output.name);
    by_name_.erase(output.name);
    output.name = claimed;
  }
  by_name_[claimed] = id;
  output.has_own_name = true;
  output.is_output = true;
  blocks_[0].outputs.push_back(id);
}

int Recorder::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? -1 : found->second;
}

std::vector<int> Recorder::of_kind(ValueKind kind) const {
  std::vector<int> ids;
  for (size_t id = 0; id < values_.size(); ++id) {
    if (values_[id].kind == kind) ids.push_back(static_cast<int>(id));
  }
  return ids;
}

// ----------------------------------------------------------------------------------------- operands

int Recorder::use(const Value& value, Here here) {
  if (!value.has_value()) fail(here, "a default Value was given; a value of the graph is needed");
  const int id = id_of(value);
  if (of(value).get() != this) {
    fail(here, fmt::format("'{}' is a value of another graph, '{}'; values of '{}' are allowed", value.name(),
                           of(value)->name_, name_));
  }
  if (id >= static_cast<int>(values_.size()))
    fail(here, "a value was given that was recorded by a call that failed");
  const int home = at(id).block;
  for (int block = block_; block != home; block = blocks_[static_cast<size_t>(block)].parent) {
    if (block < 0) {
      fail(here,
           fmt::format("'{}' belongs to the body of another node; values of the graph around a body, and "
                       "what the node returns, are allowed",
                       at(id).name));
    }
  }
  (void)this->value(id, here);
  return id;
}

const ValueRecord& Recorder::value(int id, Here here) {
  if (id >= static_cast<int>(values_.size()))
    fail(here, "a value was given that was recorded by a call that failed");
  if (!at(id).is_used) {
    at(id).is_used = true;
    NodeRecord& node = nodes_[static_cast<size_t>(at(id).node)];
    try {
      infer(node, here);
    } catch (...) {
      at(id).is_used = false;
      throw;
    }
  }
  return at(id);
}

std::vector<int> Recorder::resolve_operands(const NodeRequest& request, const std::string& node_name) {
  const OpSchema& schema = *request.schema;
  const std::string node = fmt::format("node '{}' ({})", node_name, schema.Name());
  std::vector<int> inputs(request.operands.size(), -1);
  std::map<std::string, DataType> bound;  // element types of the schema's type variables
  for (size_t k = 0; k < request.operands.size(); ++k) {
    const Operand& operand = request.operands[k];
    const auto& formal = formal_of(schema, k);
    if (operand.is_left_out()) {
      if (formal.GetOption() != OpSchema::Optional)
        fail(request.here, fmt::format("{}: input {} is missing; it must be given", node, formal.GetName()));
      continue;
    }
    if (operand.value() == nullptr) continue;
    inputs[k] = use(*operand.value(), request.here);
    const onnx::TypeProto& type = at(inputs[k]).type;
    if (binds_type(formal) && is_known_tensor(type))
      bound.emplace(formal.GetTypeStr(), static_cast<DataType>(type.tensor_type().elem_type()));
  }
  for (size_t k = 0; k < request.operands.size(); ++k) {
    const Operand& operand = request.operands[k];
    if (operand.is_left_out() || operand.value() != nullptr) continue;
    const auto& formal = formal_of(schema, k);
    const std::string name = is_many(formal) ? std::to_string(k) : formal.GetName();
    Tensor tensor;
    if (operand.tensor() != nullptr) {
      tensor = *operand.tensor();
    } else {
      const std::vector<DataType> allowed = element_types(formal);
      std::vector<DataType> wanted =
          natural_types(operand.numbers() ? *operand.numbers() : Operand::Numbers{*operand.number()});
      if (const auto found = bound.find(formal.GetTypeStr()); binds_type(formal) && found != bound.end())
        wanted = {found->second};
      const auto type =
          std::ranges::find_if(wanted, [&](DataType each) { return std::ranges::count(allowed, each) > 0; });
      if (type == wanted.end()) {
        fail(request.here, fmt::format("{}: input {} is a number that would be {}; a value is needed", node,
                                       name, compiler::data_type_name(wanted.front())));
      }
      with_line(request.here, [&] { tensor = constant_of(operand, *type, node + ": input " + name); });
    }
    if (binds_type(formal)) bound.emplace(formal.GetTypeStr(), tensor.type());
    ValueRecord record;
    record.kind = ValueKind::kConstant;
    record.elements = std::make_shared<const Tensor>(std::move(tensor));
    record.type = compiler::make_tensor_type(record.elements->type(), record.elements->shape());
    if (record.elements->size() <= kMostKnownElements) record.known = record.elements;
    inputs[k] = add_value(std::move(record), node_name + "." + name, false, request.here);
  }
  while (!inputs.empty() && inputs.back() < 0) inputs.pop_back();
  return inputs;
}

/// Of values that are no tensors; the compiler's rules are for tensors.
void Recorder::check_kinds(const NodeRequest& request, const NodeRecord& node) const {
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    if (node.inputs[k] < 0) continue;
    const ValueRecord& value = record_of(node.inputs[k]);
    if (!is_known(value.type) || value.type.has_tensor_type()) continue;
    const auto& formal = formal_of(*request.schema, k);
    if (formal.GetTypes().contains(onnx::Utils::DataTypeUtils::ToType(value.type))) continue;
    std::set<std::string> allowed;
    for (const auto* each : formal.GetTypes()) allowed.insert(*each);
    fail(request.here, fmt::format("node '{}' ({}): input {} '{}' is {}; allowed are {}", node.name,
                                   node.schema->Name(), formal.GetName(), value.name,
                                   compiler::type_to_string(value.type), fmt::join(allowed, ", ")));
  }
}

// -------------------------------------------------------------------------------------------- nodes

std::vector<Value> Recorder::record(const NodeRequest& request) {
  const OpSchema& schema = *request.schema;
  Undo undo(*this);
  NodeRecord node;
  node.schema = &schema;
  node.name = undo.node_name(node_names_.make_unique(scope_ + schema.Name()));
  node.attributes = request.attributes;
  node.names = request.names;
  node.block = block_;
  node.inputs = resolve_operands(request, node.name);
  check_kinds(request, node);
  record_bodies(request, node);
  for (const auto& attribute : node.attributes)
    node.keeps_outputs |= attribute.name() == "training_mode" && attribute.i() != 0;

  const auto& formals = schema.outputs();
  const bool many = !formals.empty() && formals.back().GetOption() == OpSchema::Variadic;
  const size_t count = many ? static_cast<size_t>(count_outputs(request, node)) : formals.size();
  for (size_t k = 0; k < count; ++k) {
    const bool is_optional = !many && formals[k].GetOption() == OpSchema::Optional;
    std::string name = node.name;
    if (count > 1) name += "." + (many ? std::to_string(k) : formals[k].GetName());
    if (k < request.output_names.size()) name = request.output_names[k];
    ValueRecord record;
    record.block = block_;
    record.node = static_cast<int>(nodes_.size());
    record.is_used = !is_optional || k == 0 || node.keeps_outputs;
    node.outputs.push_back(add_value(std::move(record), name, false, request.here));
  }
  infer(node, request.here);
  std::vector<Value> results;
  for (const int output : node.outputs) results.push_back(handle(output));
  blocks_[static_cast<size_t>(block_)].nodes.push_back(static_cast<int>(nodes_.size()));
  nodes_.push_back(std::move(node));
  undo.keep();
  return results;
}

// -------------------------------------------------------------------------------------------- types

void Recorder::infer(NodeRecord& node, Here here) {
  const onnx::NodeProto proto = node_proto(node, nullptr);
  const compiler::Surroundings around = {
      [&](const std::string& name) {
        const auto found = by_name_.find(name);
        return found != by_name_.end() && is_known(at(found->second).type) ? &at(found->second).type
                                                                           : nullptr;
      },
      [&](const std::string& name) {
        const auto found = by_name_.find(name);
        return found == by_name_.end() ? nullptr : at(found->second).known.get();
      }};
  const auto is_no_tensor = [&](int id) {
    return id >= 0 && is_known(at(id).type) && !at(id).type.has_tensor_type();
  };
  bool is_by_compiler = std::ranges::none_of(node.inputs, is_no_tensor) && !has_others(node.bodies);
  for (int k = 0; k < proto.output_size(); ++k)
    is_by_compiler &= compiler::non_tensor_output(*node.schema, k).empty();
  compiler::InferredResults results;
  with_line(here, [&] {
    if (is_by_compiler) {
      results = compiler::infer_node(versions(), proto, around);
    } else {
      results.types = infer_others(proto, node);
    }
    for (size_t k = 0; k < results.types.size(); ++k) {
      if (!is_known(results.types[k]) && !node.bodies.empty()) results.types[k] = type_by_body(node, k);
    }
  });
  for (size_t k = 0; k < results.types.size(); ++k) {
    if (proto.output(static_cast<int>(k)).empty()) continue;
    ValueRecord& output = at(node.outputs[k]);
    output.type = results.types[k];
    if (k < results.values.size() && results.values[k])
      output.known = std::make_shared<const Tensor>(std::move(*results.values[k]));
  }
}

std::vector<onnx::TypeProto> Recorder::infer_others(onnx::NodeProto proto, const NodeRecord& node) const {
  std::vector<onnx::TypeProto> types(static_cast<size_t>(proto.output_size()));
  std::vector<const onnx::TypeProto*> tensors;
  std::vector<const Tensor*> constants;
  std::unordered_map<std::string, onnx::TypeProto> all;
  for (const int input : node.inputs) {
    const ValueRecord* const value = input < 0 ? nullptr : &record_of(input);
    tensors.push_back(value != nullptr && is_known_tensor(value->type) ? &value->type : nullptr);
    constants.push_back(value == nullptr ? nullptr : value->known.get());
    if (value != nullptr) all[value->name] = value->type;
  }
  compiler::check_operands({proto, *node.schema, tensors, constants});
  if (!node.bodies.empty() || !node.schema->has_type_and_shape_inference_function()) return types;
  std::unordered_map<std::string, onnx::TypeProto*> given;
  for (auto& [name, type] : all) {
    if (!is_known(type)) return types;
    given[name] = &type;
  }
  std::unordered_map<std::string, const onnx::TensorProto*> data;
  std::deque<onnx::TensorProto> elements;
  for (size_t k = 0; k < constants.size(); ++k) {
    const std::string& name = proto.input(static_cast<int>(k));
    if (constants[k] != nullptr)
      data[name] = &elements.emplace_back(compiler::tensor_to_proto(*constants[k], name));
  }
  onnx::shape_inference::InferenceContextImpl context(proto, given, data, {});
  try {
    node.schema->GetTypeAndShapeInferenceFunction()(context);
  } catch (const std::exception& error) {
    const std::string message = compiler::clean_onnx_message(error.what());
    throw isa::UserError(fmt::format("{}: {}", compiler::describe_node(proto),
                                     message.empty() ? "its types contradict each other" : message));
  }
  for (size_t k = 0; k < types.size(); ++k) types[k] = *context.getOutputType(k);
  return types;
}

}  // namespace kodama::builder
