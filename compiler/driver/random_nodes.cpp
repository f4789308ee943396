#include "compiler/driver/random_nodes.h"

#include <fmt/format.h>
#include <onnx/defs/data_type_utils.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include "compiler/graph/onnx_model.h"
#include "compiler/proto/tensor_proto.h"

namespace kodama::compiler {
namespace {

constexpr std::array<int64_t, 22> kExtents = {1,  2,  3,  4,  5,  6,  7,  8,  9,  12, 15,
                                              16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100};
constexpr int64_t kMostRank = 6;
constexpr int kMostInputs = 6;
constexpr const char* kTrainingDomain = "ai.onnx.preview.training";

const OperatorSets& operator_sets() {
  static const OperatorSets sets(std::map<std::string, int64_t>{{"", kOpsetVersion}, {kTrainingDomain, 1}});
  return sets;
}

bool is_number(DataType type) {
  return is_float_type(type) || is_integer_type(type);
}

/// Whether numbers of these make a value that can be compared; fills in what RandomValue says of it.
bool measure(RandomValue& value) {
  if (!value.is_tensor()) return true;
  const Tensor& tensor = value.tensor();
  if (!is_number(tensor.type())) return true;
  bool is_first = true, is_good = true;
  for (int64_t k = 0; k < tensor.size(); ++k) {
    const double element = element_as_double(tensor, k);
    if (!std::isfinite(element)) {
      value.has_special = true;
      continue;
    }
    if (is_float_type(tensor.type())) {
      is_good &= element == 0 || std::abs(element) >= kSmallestFloat;
      is_good &= std::abs(element) <= (tensor.type() == DataType::kFloat16 ? 2e4 : kLargestFloat);
      // Half floats' subnormal numbers are no subnormal numbers of floats.
    }
    value.low = is_first ? element : std::min(value.low, element);
    value.high = is_first ? element : std::max(value.high, element);
    is_first = false;
  }
  return is_good;
}

}  // namespace

void set_element(Tensor& tensor, int64_t k, double value) {
  const auto at = static_cast<size_t>(k);
  switch (tensor.type()) {
    case DataType::kFloat32:
      tensor.data<float>()[at] = static_cast<float>(value);
      break;
    case DataType::kFloat64:
      tensor.data<double>()[at] = value;
      break;
    case DataType::kFloat16:
      tensor.data<uint16_t>()[at] = float_to_half(static_cast<float>(value));
      break;
    case DataType::kBfloat16:
      tensor.data<uint16_t>()[at] = float_to_bfloat16(static_cast<float>(value));
      break;
    case DataType::kComplex64:
      tensor.data<std::array<float, 2>>()[at] = {static_cast<float>(value), 0.5F};
      break;
    case DataType::kComplex128:
      tensor.data<std::array<double, 2>>()[at] = {value, 0.5};
      break;
    default: {
      const auto whole = static_cast<uint64_t>(static_cast<int64_t>(value));
      std::memcpy(tensor.bytes().data() + at * element_size(tensor.type()), &whole,
                  element_size(tensor.type()));
    }
  }
}

bool is_float_type(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat64 || type == DataType::kFloat16 ||
         type == DataType::kBfloat16;
}
bool is_integer_type(DataType type) {
  switch (type) {
    case DataType::kInt8:
    case DataType::kInt16:
    case DataType::kInt32:
    case DataType::kInt64:
    case DataType::kUint8:
    case DataType::kUint16:
    case DataType::kUint32:
    case DataType::kUint64:
      return true;
    default:
      return false;
  }
}
double lowest_of(DataType type) {
  switch (type) {
    case DataType::kInt8:
    case DataType::kInt16:
    case DataType::kInt32:
    case DataType::kInt64:
      return -std::ldexp(1, static_cast<int>(8 * element_size(type)) - 1);
    default:
      return 0;
  }
}
double largest_of(DataType type) {
  const int bits = static_cast<int>(8 * element_size(type)) - (lowest_of(type) < 0 ? 1 : 0);
  return std::ldexp(1, bits) - 1;
}
int64_t product_of(const Shape& shape, size_t begin, size_t end) {
  int64_t product = 1;
  for (size_t k = begin; k < std::min(end, shape.size()); ++k) product *= shape[k];
  return product;
}

double RandomValue::magnitude() const {
  return std::max(std::abs(low), std::abs(high));
}

// ---- choices

int64_t RandomChoices::extent(int64_t most) {
  const auto end = std::upper_bound(kExtents.begin(), kExtents.end(), most);
  return kExtents[static_cast<size_t>(number(0, std::max<int64_t>(0, end - kExtents.begin() - 1)))];
}

std::vector<int64_t> RandomChoices::some_axes(int64_t rank) {
  std::vector<int64_t> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  shuffle(axes);
  axes.resize(static_cast<size_t>(number(1, rank)));
  std::sort(axes.begin(), axes.end());
  return axes;
}

Shape RandomChoices::fitting(Shape shape, int64_t most) {
  while (element_count(shape) > most) {
    int64_t& largest = *std::max_element(shape.begin(), shape.end());
    largest = extent(largest - 1);
  }
  return shape;
}

Shape RandomChoices::broadcast_shape(Shape shape) {
  for (int64_t& each : shape) each = chance(40) ? 1 : each;
  while (!shape.empty() && chance(20)) shape.erase(shape.begin());
  return shape;
}

// ---- attributes

onnx::AttributeProto& Attributes::add(const std::string& name, onnx::AttributeProto_AttributeType type) {
  list_.emplace_back();
  list_.back().set_name(name);
  list_.back().set_type(type);
  return list_.back();
}
Attributes& Attributes::set(const std::string& name, double value) {
  add(name, onnx::AttributeProto::FLOAT).set_f(static_cast<float>(value));
  return *this;
}
Attributes& Attributes::set(const std::string& name, const std::string& value) {
  add(name, onnx::AttributeProto::STRING).set_s(value);
  return *this;
}
Attributes& Attributes::set(const std::string& name, const std::vector<int64_t>& values) {
  auto& attribute = add(name, onnx::AttributeProto::INTS);
  for (const int64_t value : values) attribute.add_ints(value);
  return *this;
}
Attributes& Attributes::set(const std::string& name, const std::vector<double>& values) {
  auto& attribute = add(name, onnx::AttributeProto::FLOATS);
  for (const double value : values) attribute.add_floats(static_cast<float>(value));
  return *this;
}
Attributes& Attributes::set(const std::string& name, const std::vector<std::string>& values) {
  auto& attribute = add(name, onnx::AttributeProto::STRINGS);
  for (const std::string& value : values) attribute.add_strings(value);
  return *this;
}
Attributes& Attributes::set(const std::string& name, const Tensor& value) {
  *add(name, onnx::AttributeProto::TENSOR).mutable_t() = tensor_to_proto(value, "");
  return *this;
}
Attributes& Attributes::set(const std::string& name, const onnx::GraphProto& value) {
  *add(name, onnx::AttributeProto::GRAPH).mutable_g() = value;
  return *this;
}
Attributes& Attributes::set(const std::string& name, const onnx::TypeProto& value) {
  *add(name, onnx::AttributeProto::TYPE_PROTO).mutable_tp() = value;
  return *this;
}

// ---- running nodes

onnx::ValueInfoProto declare_value(const std::string& name, const Value& value) {
  onnx::ValueInfoProto declared;
  declared.set_name(name);
  *declared.mutable_type() = type_to_proto(value.type());
  return declared;
}

std::vector<Value> run_any_node(const onnx::NodeProto& node,
                                const std::function<const Value&(const std::string&)>& find) {
  if (!has_subgraph(node)) {
    std::vector<const Value*> operands;
    for (const std::string& name : node.input()) operands.push_back(name.empty() ? nullptr : &find(name));
    return run_node_on_values(node, operands, operator_sets(), nullptr);
  }
  onnx::ModelProto model;
  model.set_ir_version(kIrVersion);
  model.add_opset_import()->set_version(kOpsetVersion);
  auto& graph = *model.mutable_graph();
  graph.set_name("node");
  *graph.add_node() = node;
  ValueMap inputs;
  for (const std::string& name : names_read(node)) {
    if (name.empty()) continue;
    inputs[name] = find(name);
    *graph.add_input() = declare_value(name, inputs[name]);
  }
  for (const std::string& name : node.output()) {
    if (!name.empty()) graph.add_output()->set_name(name);
  }
  ValueMap outputs = run_graph_on_values(model, inputs);
  std::vector<Value> results;
  for (const std::string& name : node.output()) results.push_back(name.empty() ? Value() : outputs.at(name));
  return results;
}

RandomNodes::RandomNodes(uint64_t seed, const RandomSizes& sizes) : RandomChoices(seed), sizes_(sizes) {
  model_.set_ir_version(kIrVersion);
  model_.add_opset_import()->set_version(kOpsetVersion);
  model_.mutable_graph()->set_name(fmt::format("random{}", seed));
}

RandomNodes::RandomNodes(RandomNodes& outer, const std::string& prefix)
    : RandomChoices(outer.bits()), sizes_(outer.sizes_), prefix_(prefix), outer_(&outer) {
  model_.mutable_graph()->set_name(prefix);
}

// ---- types

std::vector<DataType> RandomNodes::types(const std::string& op, int input, const std::string& domain) {
  const auto* const schema =
      onnx::OpSchemaRegistry::Schema(op, static_cast<int>(operator_sets().version(domain)), domain);
  isa::check_internal(schema != nullptr, "RandomNodes::types", "no operator {}", op);
  const auto& formals = schema->inputs();
  std::vector<DataType> list;
  for (const auto* text : formals[std::min(static_cast<size_t>(input), formals.size() - 1)].GetTypes()) {
    const onnx::TypeProto& type = onnx::Utils::DataTypeUtils::ToTypeProto(text);
    if (type.has_tensor_type()) list.push_back(static_cast<DataType>(type.tensor_type().elem_type()));
  }
  std::sort(list.begin(), list.end());  // the schema's set is ordered by address
  return list;
}

std::vector<DataType> RandomNodes::only_floats(std::vector<DataType> types) {
  std::erase_if(types, [](DataType type) { return !is_float_type(type); });
  return types;
}
std::vector<DataType> RandomNodes::only_integers(std::vector<DataType> types) {
  std::erase_if(types, [](DataType type) { return !is_integer_type(type); });
  return types;
}

DataType RandomNodes::pick_type(const std::vector<DataType>& types) {
  const auto has = [&](DataType type) { return std::find(types.begin(), types.end(), type) != types.end(); };
  if (has(DataType::kFloat32) && chance(45)) return DataType::kFloat32;
  DataType type = pick(types);
  const bool is_rare =
      type == DataType::kString || type == DataType::kComplex64 || type == DataType::kComplex128;
  return is_rare && !chance(25) ? pick(types) : type;
}

// ---- values

RandomValue RandomNodes::pick_value() {
  const auto count = static_cast<int64_t>(values_.size());
  for (int tries = 0; tries < 20 && count > 0; ++tries) {
    const int64_t first = number(0, count - 1);
    const int64_t last = chance(50) ? count - 1 : std::max(first, number(0, count - 1));
    const RandomValue& value = values_[static_cast<size_t>(last)];
    if (value.is_tensor()) return value;
  }
  throw Misfit();
}

bool RandomNodes::fits(const RandomValue& value, const Wanted& wanted, DataType type) const {
  if (!value.is_tensor() || value.type() != type) return false;
  if (value.rank() < wanted.least_rank || value.rank() > wanted.most_rank) return false;
  if (wanted.shape && value.shape() != *wanted.shape) return false;
  if (wanted.fits && !wanted.fits(value.shape())) return false;
  if (value.has_special && !wanted.may_be_special) return false;
  return !is_number(type) || (value.low >= wanted.low && value.high <= wanted.high);
}

std::optional<RandomValue> RandomNodes::converted(const Wanted& wanted, DataType type) {
  const RandomValue x = pick_value();
  Wanted any_number = wanted;
  any_number.low = -std::numeric_limits<double>::infinity();
  any_number.high = std::numeric_limits<double>::infinity();
  const bool is_of_numbers = is_number(x.type()) || x.type() == DataType::kBool;
  if (!is_of_numbers || !fits(x, any_number, x.type()) || x.has_special) return std::nullopt;
  if (!is_number(type) && type != DataType::kBool) return std::nullopt;
  double low = wanted.low, high = wanted.high;
  if (is_integer_type(type)) {
    low = std::max(low, std::ceil(lowest_of(type)));
    high = std::min(high, largest_of(type));
  }
  RandomValue result = x;
  // Neither the rounding of a conversion nor that of a result may leave the range.
  const bool narrows =
      type != DataType::kBool && is_number(x.type()) && (result.low < low || result.high > high);
  const bool is_clippable = x.type() == DataType::kFloat32 || x.type() == DataType::kFloat64 ||
                            x.type() == DataType::kInt32 || x.type() == DataType::kInt64;
  if (narrows && (!is_clippable || low < -1e9 || high > 1e9 || low > 1e9 || high < -1e9)) {
    if (is_integer_type(x.type()) && is_integer_type(type) && low <= lowest_of(type) &&
        high >= largest_of(type)) {
      // wraps
    } else {
      return std::nullopt;
    }
  } else if (narrows) {
    if (is_integer_type(x.type())) low = std::ceil(low), high = std::floor(high);
    if (lowest_of(x.type()) > low && is_integer_type(x.type())) return std::nullopt;
    result = add_one("Clip", {x.name, scalar(low, x.type()), scalar(high, x.type())});
  }
  if (result.type() != type) result = add_one("Cast", {result.name}, Attributes().set("to", type));
  if (!fits(result, wanted, type)) throw Misfit();
  return result;
}

RandomValue RandomNodes::want(const Wanted& wanted) {
  if (wanted.types.empty()) throw Misfit();
  const DataType type = pick_type(wanted.types);
  const bool one_type = chance(50);
  if (chance(80)) {
    std::vector<const RandomValue*> found;
    for (const RandomValue& value : values_) {
      const bool is_allowed =
          one_type ? value.type() == type
                   : std::find(wanted.types.begin(), wanted.types.end(), value.type()) != wanted.types.end();
      if (is_allowed && fits(value, wanted, value.type())) found.push_back(&value);
    }
    if (!found.empty()) {
      const auto last = static_cast<int64_t>(found.size()) - 1;
      const int64_t first = number(0, last);
      return *found[static_cast<size_t>(chance(40) ? last : std::max(first, number(0, last)))];
    }
  }
  if (chance(50) && !values_.empty()) {
    if (const std::optional<RandomValue> made = converted(wanted, type)) return *made;
  }
  Shape shape;
  if (wanted.shape) {
    shape = *wanted.shape;
  } else {
    for (int tries = 0;; ++tries) {
      if (tries == 30) throw Misfit();
      if (wanted.make_shape) {
        shape = wanted.make_shape(*this);
      } else {
        shape.assign(static_cast<size_t>(number(wanted.least_rank, std::min<int64_t>(wanted.most_rank, 4))),
                     1);
        for (int64_t& each : shape) each = extent(sizes_.elements > 1000 ? 65 : 17);
        shape = fitting(shape, sizes_.elements / 4);
      }
      if (!wanted.fits || wanted.fits(shape)) break;
    }
  }
  if (product_of(shape) > sizes_.elements) throw Misfit();
  return fresh(type, shape, wanted.low, wanted.high);
}

RandomValue RandomNodes::want_for(const std::string& op, Wanted wanted) {
  if (wanted.types.empty()) wanted.types = types(op, 0);
  return want(wanted);
}

RandomValue RandomNodes::partner(const RandomValue& x, Wanted wanted, bool one_way) {
  if (wanted.types.empty()) wanted.types = {x.type()};
  wanted.fits = [&](const Shape& shape) {
    if (one_way && shape.size() > x.shape().size()) return false;
    Shape both = shape.size() > x.shape().size() ? shape : x.shape();
    const size_t common = std::min(shape.size(), x.shape().size());
    for (size_t k = 1; k <= common; ++k) {
      const int64_t a = x.shape()[x.shape().size() - k];
      const int64_t b = shape[shape.size() - k];
      if (a != b && b != 1 && (one_way || a != 1)) return false;
      both[both.size() - k] = std::max(a, b);
    }
    return product_of(both) <= sizes_.elements;
  };
  wanted.make_shape = [&](RandomChoices& choices) {
    Shape shape = choices.broadcast_shape(x.shape());
    if (one_way) return shape;
    for (size_t k = 0; k < shape.size(); ++k) {
      if (shape[k] == 1 && choices.chance(20)) shape[k] = choices.number(1, 5);
    }
    return shape;
  };
  return want(wanted);
}

RandomValue RandomNodes::indices(const Shape& shape, int64_t low, int64_t high, bool only_64_bits) {
  Wanted wanted{
      .types = {DataType::kInt64}, .low = static_cast<double>(low), .high = static_cast<double>(high - 1)};
  if (!only_64_bits) wanted.types.push_back(DataType::kInt32);
  wanted.shape = shape;
  return want(wanted);
}

RandomValue RandomNodes::want_sequence() {
  std::vector<RandomValue> found;
  for (const RandomValue& value : values_) {
    if (value.value.is_sequence()) found.push_back(value);
  }
  if (found.empty()) throw Misfit();
  return pick(found);
}

RandomValue RandomNodes::want_optional() {
  std::vector<RandomValue> found;
  for (const RandomValue& value : values_) {
    if (value.value.is_optional()) found.push_back(value);
  }
  if (found.empty()) throw Misfit();
  return pick(found);
}

const Value& RandomNodes::value_of(const std::string& name) const {
  const auto found = known_.find(name);
  if (found != known_.end()) return found->second;
  isa::check_internal(outer_ != nullptr, "RandomNodes", "no value {}", name);
  return outer_->value_of(name);
}

std::string RandomNodes::fresh_name(const char* letter) {
  return fmt::format("{}{}{}", prefix_, letter, names_++);
}

void RandomNodes::add_value(const std::string& name, Value value, bool is_hidden, bool may_be_special) {
  RandomValue added{.name = name, .value = value};
  if (!measure(added) || (added.has_special && !may_be_special)) throw Misfit();
  known_[name] = std::move(value);
  if (!is_hidden) values_.push_back(std::move(added));
}

// ---- inputs and constants

Tensor RandomNodes::random_tensor(DataType type, const Shape& shape, double low, double high) {
  Tensor tensor(type, shape);
  if (type == DataType::kString) {
    for (std::string& element : tensor.strings())
      element = word({"a", "B", "the", "Cat", "is", "", "x y", "7"});
    return tensor;
  }
  if (is_integer_type(type)) {
    low = std::max(low, lowest_of(type));
    high = std::min(high, largest_of(type));
    const bool has_any = chance(15) && low == lowest_of(type) && high == largest_of(type);
    const double first = std::ceil(std::max(low, std::min(-9.0, high - 18)));
    const double last = std::floor(std::min(high, first + 18));
    for (int64_t k = 0; k < tensor.size(); ++k) {
      set_element(tensor, k,
                  static_cast<double>(number(static_cast<int64_t>(first), static_cast<int64_t>(last))));
      if (!has_any) continue;
      const uint64_t any = chance(20) ? (chance(50) ? uint64_t{1} << 63U : ~uint64_t{0}) : bits();
      const size_t width = element_size(type);
      std::memcpy(tensor.bytes().data() + static_cast<size_t>(k) * width,
                  reinterpret_cast<const char*>(&any) + 8 - width, width);
    }
    return tensor;
  }
  if (type == DataType::kBool) low = 0, high = 1;
  const double first = std::max(low, std::min(-4.0, high - 8));
  const double last = std::min(high, first + 8);
  const bool is_whole = type == DataType::kBool || (chance(10) && last - first >= 2);
  for (int64_t k = 0; k < tensor.size(); ++k) {
    const double element = first + (last - first) * static_cast<double>(number(0, 2000)) / 2000;
    set_element(tensor, k,
                is_whole ? std::clamp(std::round(element), std::ceil(first), std::floor(last)) : element);
  }
  return tensor;
}

RandomValue RandomNodes::add_input(const Value& value) {
  const std::string name = fresh_name("x");
  *model_.mutable_graph()->add_input() = declare_value(name, value);
  add_value(name, value, false, true);
  values_.back().is_input = true;
  return values_.back();
}

void RandomNodes::add_body_input(const std::string& name, const Value& value) {
  auto& input = *model_.mutable_graph()->add_input();
  input = declare_value(name, value);
  add_value(name, value, false, false);
}

RandomValue RandomNodes::fresh(DataType type, const Shape& shape, double low, double high) {
  const Tensor tensor = random_tensor(type, shape, low, high);
  if (outer_ == nullptr && inputs() < kMostInputs && chance(40)) return add_input(tensor);
  RandomValue value{.name = add_constant(tensor), .value = tensor};
  measure(value);
  return value;
}

std::string RandomNodes::add_constant(const Tensor& tensor) {
  const std::string name = fresh_name("c");
  *model_.mutable_graph()->add_initializer() = tensor_to_proto(tensor, name);
  known_[name] = tensor;
  return name;
}

std::string RandomNodes::constant(const Shape& shape, double high, std::optional<double> low, DataType type) {
  const double first = low.value_or(-high);
  if (chance(15)) {
    for (const auto& each : model_.graph().initializer()) {
      if (each.data_type() != type) continue;
      RandomValue value{.name = each.name(), .value = value_of(each.name())};
      measure(value);
      if (value.shape() == shape && value.low >= first && value.high <= high && value.low < value.high)
        return each.name();
    }
  }
  Tensor tensor(type, shape);
  for (int64_t k = 0; k < tensor.size(); ++k)
    set_element(tensor, k, first + (high - first) * static_cast<double>(number(0, 2000)) / 2000);
  return add_constant(tensor);
}

std::string RandomNodes::scalar(double value, DataType type) {
  Tensor tensor(type, {});
  set_element(tensor, 0, value);
  return add_constant(tensor);
}

std::string RandomNodes::integers(const std::vector<int64_t>& numbers) {
  return add_constant(
      Tensor::from_values<int64_t>(DataType::kInt64, {static_cast<int64_t>(numbers.size())}, numbers));
}

std::string RandomNodes::integer(int64_t number) {
  return add_constant(Tensor::from_values<int64_t>(DataType::kInt64, {}, {number}));
}

std::string RandomNodes::list(const std::vector<int64_t>& numbers) {
  if (!is_dynamic_ || outer_ != nullptr || inputs() >= kMostInputs || !chance(30)) return integers(numbers);
  const Shape shape{static_cast<int64_t>(numbers.size())};
  return add_input(Tensor::from_values<int64_t>(DataType::kInt64, shape, numbers)).name;
}

// ---- nodes

std::vector<std::string> RandomNodes::run(const std::string& op, const std::vector<std::string>& inputs,
                                          const Attributes& attributes, int outputs, bool is_hidden,
                                          const std::string& domain) {
  onnx::NodeProto node;
  node.set_op_type(op);
  node.set_domain(domain);
  node.set_name(fmt::format("{}{}_{}", prefix_, op, names_));
  bool has_special = false;
  for (const std::string& input : inputs) node.add_input(input);
  while (node.input_size() > 0 && node.input(node.input_size() - 1).empty())
    node.mutable_input()->RemoveLast();
  for (const auto& each : attributes.list()) *node.add_attribute() = each;
  for (RandomValue& value : values_) {
    const int readers = static_cast<int>(std::count(inputs.begin(), inputs.end(), value.name));
    value.readers += readers;
    has_special |= readers > 0 && value.has_special;
  }
  const auto* const schema =
      onnx::OpSchemaRegistry::Schema(op, static_cast<int>(operator_sets().version(domain)), domain);
  isa::check_internal(schema != nullptr, "RandomNodes", "no operator {}", op);
  if (outputs == kAsTheSchema) {
    outputs = 0;
    int last = -1;
    for (size_t k = 0; k < schema->outputs().size(); ++k) {
      const bool is_optional = schema->outputs()[k].GetOption() == onnx::OpSchema::Optional;
      const bool is_there = !is_optional || chance(50);
      node.add_output(is_there ? fresh_name("v") : "");
      if (is_there) last = static_cast<int>(k);
    }
    if (last < 0) node.set_output(last = 0, fresh_name("v"));
    while (node.output_size() > last + 1) node.mutable_output()->RemoveLast();
  }
  for (int k = 0; k < outputs; ++k) node.add_output(fresh_name("v"));
  if (!domain.empty() && model_.opset_import_size() < 2) {
    auto* const import = model_.add_opset_import();
    import->set_domain(domain);
    import->set_version(operator_sets().version(domain));
  }
  std::vector<Value> results =
      run_any_node(node, [&](const std::string& name) -> const Value& { return value_of(name); });
  std::vector<std::string> names;
  for (int k = 0; k < node.output_size(); ++k) {
    if (node.output(k).empty()) continue;
    Value& result = results[static_cast<size_t>(k)];
    if (result.is_tensor() && (result.tensor().size() == 0 || result.tensor().size() > sizes_.elements ||
                               result.tensor().rank() > kMostRank))
      throw Misfit();
    add_value(node.output(k), std::move(result), is_hidden, has_special);
    names.push_back(node.output(k));
  }
  *model_.mutable_graph()->add_node() = std::move(node);
  return names;
}

std::vector<RandomValue> RandomNodes::add(const std::string& op, const std::vector<std::string>& inputs,
                                          const Attributes& attributes, int outputs,
                                          const std::string& domain) {
  const size_t count = run(op, inputs, attributes, outputs, false, domain).size();
  return {values_.end() - static_cast<std::ptrdiff_t>(count), values_.end()};
}

std::vector<std::string> RandomNodes::steps(const std::string& op, const std::vector<std::string>& inputs,
                                            int outputs, const Attributes& attributes) {
  return run(op, inputs, attributes, outputs, true, "");
}

std::string RandomNodes::cast(const std::string& from, DataType type) {
  return step("Cast", {from}, Attributes().set("to", type));
}

bool RandomNodes::attempt(const std::function<void()>& work) {
  const onnx::ModelProto model = model_;
  const std::vector<RandomValue> values = values_;
  const std::map<std::string, Value> known = known_;
  try {
    work();
    return true;
  } catch (const Misfit&) {
    model_ = model;
    values_ = values;
    known_ = known;
    return false;
  }
}

onnx::GraphProto RandomNodes::finish_graph(const std::vector<std::string>& outputs) {
  for (const std::string& name : outputs)
    *model_.mutable_graph()->add_output() = declare_value(name, value_of(name));
  return std::move(*model_.mutable_graph());
}

onnx::ModelProto RandomNodes::finish_model(const std::vector<std::string>& outputs) {
  *model_.mutable_graph() = finish_graph(outputs);
  return std::move(model_);
}

ValueMap RandomNodes::input_values() const {
  ValueMap values;
  for (const auto& input : model_.graph().input()) values[input.name()] = value_of(input.name());
  return values;
}

}  // namespace kodama::compiler
