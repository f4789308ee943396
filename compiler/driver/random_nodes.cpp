#include "compiler/driver/random_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "compiler/graph/onnx_model.h"

namespace kodama::compiler {
namespace {

constexpr std::array<int64_t, 22> kExtents = {1,  2,  3,  4,  5,  6,  7,  8,  9,  12, 15,
                                              16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100};
constexpr int64_t kMostRank = 6;

}  // namespace

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

void set_int(onnx::NodeProto& node, const std::string& name, int64_t value) {
  set_attribute(node, name, onnx::AttributeProto_AttributeType_INT).set_i(value);
}
void set_real(onnx::NodeProto& node, const std::string& name, double value) {
  set_attribute(node, name, onnx::AttributeProto_AttributeType_FLOAT).set_f(static_cast<float>(value));
}
void set_text(onnx::NodeProto& node, const std::string& name, const std::string& value) {
  set_attribute(node, name, onnx::AttributeProto_AttributeType_STRING).set_s(value);
}

RandomNodes::RandomNodes(uint64_t seed) : RandomChoices(seed), operators_(kOpsetVersion) {
  model_.set_ir_version(kIrVersion);
  model_.add_opset_import()->set_version(kOpsetVersion);
  model_.mutable_graph()->set_name(fmt::format("random{}", seed));
}

size_t RandomNodes::pick_index() {
  const auto count = static_cast<int64_t>(values_.size());
  if (chance(60)) return values_.size() - 1;
  const int64_t first = number(0, count - 1);
  return static_cast<size_t>(std::max(first, number(0, count - 1)));
}

void RandomNodes::add_input(const Shape& shape) {
  RandomValue value{.name = fmt::format("x{}", inputs_++),
                    .tensor = Tensor(onnx::TensorProto_DataType_FLOAT, shape),
                    .magnitude = 4,
                    .is_input = true};
  auto* input = model_.mutable_graph()->add_input();
  input->set_name(value.name);
  *input->mutable_type() = make_tensor_type(onnx::TensorProto_DataType_FLOAT, shape);
  values_.push_back(std::move(value));
}

std::string RandomNodes::add_constant(const Tensor& tensor) {
  const std::string name = fmt::format("c{}", constants_.size());
  *model_.mutable_graph()->add_initializer() = tensor_to_proto(tensor, name);
  constants_.push_back({name, tensor});
  return name;
}

std::string RandomNodes::constant(const Shape& shape, double high, std::optional<double> low) {
  const double first = low.value_or(-high);
  if (chance(15)) {
    for (const Constant& each : constants_) {
      if (each.high > each.low && each.tensor.shape() == shape && each.low == first && each.high == high)
        return each.name;
    }
  }
  Tensor tensor(onnx::TensorProto_DataType_FLOAT, shape);
  for (float& element : tensor.data<float>())
    element = static_cast<float>(first + (high - first) * static_cast<double>(number(0, 2000)) / 2000);
  const std::string name = add_constant(tensor);
  constants_.back().low = first;
  constants_.back().high = high;
  return name;
}

std::string RandomNodes::scalar(double value) {
  return add_constant(
      Tensor::from_values<float>(onnx::TensorProto_DataType_FLOAT, {}, {static_cast<float>(value)}));
}

std::string RandomNodes::integers(const std::vector<int64_t>& numbers) {
  return add_constant(Tensor::from_values<int64_t>(onnx::TensorProto_DataType_INT64,
                                                   {static_cast<int64_t>(numbers.size())}, numbers));
}

const Tensor* RandomNodes::find_tensor(const std::string& name) const {
  for (const auto* list : {&values_, &hidden_}) {
    for (const RandomValue& value : *list) {
      if (value.name == name) return &value.tensor;
    }
  }
  for (const Constant& each : constants_) {
    if (each.name == name) return &each.tensor;
  }
  return nullptr;
}

std::vector<RandomValue> RandomNodes::run(const std::string& op, const std::vector<std::string>& inputs,
                                          int outputs, const NodeAttributes& attributes) {
  onnx::NodeProto node;
  node.set_op_type(op);
  node.set_name(fmt::format("{}_{}", op, numbers_));
  std::vector<const Tensor*> tensors;
  for (const std::string& input : inputs) {
    node.add_input(input);
    tensors.push_back(input.empty() ? nullptr : find_tensor(input));
  }
  std::vector<RandomValue> made;
  for (int k = 0; k < outputs; ++k) {
    made.push_back({.name = fmt::format("v{}", numbers_ + k)});
    node.add_output(made.back().name);
  }
  if (attributes) attributes(node);
  std::vector<Tensor> results = run_node(node, tensors, operators_);
  for (size_t k = 0; k < made.size(); ++k) {
    if (results[k].size() == 0 || results[k].size() > kMostElements || results[k].rank() > kMostRank)
      return {};
    made[k].tensor = std::move(results[k]);
  }
  numbers_ += outputs;
  *model_.mutable_graph()->add_node() = std::move(node);
  for (const std::string& input : inputs) {
    for (RandomValue& value : values_) value.readers += value.name == input ? 1 : 0;
  }
  return made;
}

std::vector<std::string> RandomNodes::steps(const std::string& op, const std::vector<std::string>& inputs,
                                            int outputs, const NodeAttributes& attributes) {
  const std::vector<RandomValue> made = run(op, inputs, outputs, attributes);
  if (made.empty()) throw TooLarge();
  std::vector<std::string> names;
  for (const RandomValue& each : made) {
    names.push_back(each.name);
    hidden_.push_back(each);
  }
  return names;
}

bool RandomNodes::finish_all(const std::string& op, const std::vector<std::string>& inputs, int outputs,
                             double magnitude, const NodeAttributes& attributes, bool is_positive) {
  std::vector<RandomValue> made = run(op, inputs, outputs, attributes);
  for (RandomValue& each : made) {
    each.magnitude = magnitude;
    each.is_positive = is_positive;
    values_.push_back(std::move(each));
  }
  return !made.empty();
}

void RandomNodes::attempt(const std::function<bool()>& add) {
  const onnx::GraphProto graph = model_.graph();
  const std::vector<RandomValue> values = values_;
  const std::vector<RandomValue> hidden = hidden_;
  bool is_done = false;
  try {
    is_done = add();
  } catch (const TooLarge&) {
  }
  if (is_done) return;
  *model_.mutable_graph() = graph;
  values_ = values;
  hidden_ = hidden;
  while (static_cast<int>(constants_.size()) > graph.initializer_size()) constants_.pop_back();
}

onnx::ModelProto RandomNodes::finish_model(const std::vector<std::string>& outputs) {
  for (const std::string& name : outputs) {
    auto* output = model_.mutable_graph()->add_output();
    output->set_name(name);
    *output->mutable_type() = make_tensor_type(onnx::TensorProto_DataType_FLOAT, find_tensor(name)->shape());
  }
  return std::move(model_);
}

}  // namespace kodama::compiler
