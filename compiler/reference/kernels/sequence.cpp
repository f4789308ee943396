#include <algorithm>
#include <numeric>

#include "compiler/reference/kernels/kernel.h"
#include "compiler/reference/kernels/strided.h"

/// Operators that make and take sequences of tensors and optional values.
namespace kodama::compiler::reference {

namespace {

const Value& sequence_input(const NodeContext& context, size_t index) {
  const Value& value = context.value(index);
  context.require(value.is_sequence(), "input {} is {}; allowed is a sequence", index, value.describe());
  return value;
}

std::vector<Value> elements_of(const Value& sequence) {
  std::vector<Value> elements;
  for (size_t k = 0; k < sequence.size(); ++k) elements.push_back(sequence.value_at(k));
  return elements;
}

/// A position in a sequence, counted from the front; `limit` is the first that isn't allowed.
size_t position(const NodeContext& context, size_t input, size_t length, size_t limit) {
  const int64_t given = context.integer_scalar(input);
  const auto size = static_cast<int64_t>(length);
  context.require(given >= -size && given < static_cast<int64_t>(limit),
                  "position {} in a sequence of {} tensors; allowed is {} to {}", given, size, -size,
                  static_cast<int64_t>(limit) - 1);
  return static_cast<size_t>(given < 0 ? given + size : given);
}

std::vector<Value> run_sequence_empty(const NodeContext& context) {
  return {Value::sequence(static_cast<DataType>(context.int_attribute("dtype", DataType::kFloat32)), {})};
}

std::vector<Value> run_sequence_construct(const NodeContext& context) {
  std::vector<Value> elements;
  for (size_t i = 0; i < context.input_count(); ++i) {
    context.require_same_type(context.input(0), context.input(i));
    elements.push_back(context.value(i));
  }
  return {Value::sequence(context.input(0).type(), std::move(elements))};
}

std::vector<Value> run_sequence_at(const NodeContext& context) {
  const Value& sequence = sequence_input(context, 0);
  return {sequence.value_at(position(context, 1, sequence.size(), sequence.size()))};
}

std::vector<Value> run_sequence_insert(const NodeContext& context) {
  const Value& sequence = sequence_input(context, 0);
  const Tensor& tensor = context.input(1);
  context.require(tensor.type() == sequence.element_type(), "a {} tensor for a sequence of {}",
                  data_type_name(tensor.type()), data_type_name(sequence.element_type()));
  const size_t at =
      context.has_input(2) ? position(context, 2, sequence.size(), sequence.size() + 1) : sequence.size();
  std::vector<Value> elements = elements_of(sequence);
  elements.insert(elements.begin() + static_cast<ptrdiff_t>(at), context.value(1));
  return {Value::sequence(sequence.element_type(), std::move(elements))};
}

std::vector<Value> run_sequence_erase(const NodeContext& context) {
  const Value& sequence = sequence_input(context, 0);
  context.require(sequence.size() > 0, "the sequence is empty; allowed is one with a tensor to erase");
  const size_t at =
      context.has_input(1) ? position(context, 1, sequence.size(), sequence.size()) : sequence.size() - 1;
  std::vector<Value> elements = elements_of(sequence);
  elements.erase(elements.begin() + static_cast<ptrdiff_t>(at));
  return {Value::sequence(sequence.element_type(), std::move(elements))};
}

std::vector<Value> run_sequence_length(const NodeContext& context) {
  const auto length = static_cast<int64_t>(sequence_input(context, 0).size());
  return {Tensor::from_values<int64_t>(DataType::kInt64, {}, {length})};
}

std::vector<Value> run_split_to_sequence(const NodeContext& context) {
  const Tensor& x = context.input(0);
  context.require(x.rank() >= 1, "input 0 is a scalar; allowed is rank 1 and more");
  const size_t axis = context.axis(context.int_attribute("axis", 0), x.rank());
  const int64_t extent = x.shape()[axis];
  const bool drops_axis = !context.has_input(1) && context.int_attribute("keepdims", 1) == 0;
  std::vector<int64_t> sizes;
  if (!context.has_input(1) || context.input(1).rank() == 0) {  // equal chunks; the last may be smaller
    const int64_t chunk = context.has_input(1) ? context.integer_scalar(1) : 1;
    context.require(chunk >= 1, "split is {}; allowed is 1 and more", chunk);
    for (int64_t begin = 0; begin < extent; begin += std::min(chunk, extent - begin))
      sizes.push_back(std::min(chunk, extent - begin));
  } else {
    sizes = context.integers(1);
    int64_t sum = 0;
    for (const int64_t size : sizes) {
      context.require(size >= 0 && size <= extent - sum,
                      "split holds {}; the parts must have {} elements together, those of axis {}", size,
                      extent, axis);
      sum += size;
    }
    context.require(sum == extent, "split has the sum {}; allowed is {}, the extent of axis {}", sum, extent,
                    axis);
  }
  std::vector<Value> parts;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    parts.emplace_back(drops_axis ? element_along(x, axis, begin) : slice(x, axis, begin, size));
    begin += size;
  }
  return {Value::sequence(x.type(), std::move(parts))};
}

std::vector<Value> run_concat_from_sequence(const NodeContext& context) {
  const Value& sequence = sequence_input(context, 0);
  context.require(sequence.size() > 0, "the sequence is empty; allowed is one tensor at least");
  const bool new_axis = context.int_attribute("new_axis", 0) != 0;
  const size_t axis = context.axis(context.int_attribute("axis"), sequence.at(0).rank() + (new_axis ? 1 : 0));
  std::vector<Tensor> with_axis;
  std::vector<const Tensor*> parts;
  with_axis.reserve(sequence.size());
  for (size_t k = 0; k < sequence.size(); ++k) {
    const Tensor& tensor = sequence.at(k);
    if (new_axis) {
      Shape shape = tensor.shape();
      shape.insert(shape.begin() + static_cast<ptrdiff_t>(std::min(axis, shape.size())), 1);
      with_axis.push_back(tensor.reshaped(shape));
    }
    parts.push_back(new_axis ? &with_axis.back() : &tensor);
  }
  return {concatenate(parts, axis)};
}

/// The body once for every element of the first sequence. Other sequences are as long; tensors go to all.
std::vector<Value> run_sequence_map(const NodeContext& context) {
  const Graph& body = context.graph_attribute("body");
  const size_t length = sequence_input(context, 0).size();
  std::vector<std::vector<Value>> results(body.outputs.size());
  for (size_t i = 0; i < length; ++i) {
    std::vector<Value> inputs;
    for (size_t k = 0; k < context.input_count(); ++k) {
      const Value& value = context.value(k);
      context.require(!value.is_sequence() || value.size() == length,
                      "input {} is {}; a sequence as long as the first, {}, is allowed", k, value.describe(),
                      length);
      inputs.push_back(value.is_sequence() ? value.value_at(i) : value);
    }
    const std::vector<Value> outputs = context.run_subgraph("body", inputs);
    for (size_t k = 0; k < outputs.size(); ++k) results[k].push_back(outputs[k]);
  }
  std::vector<Value> sequences;
  for (size_t k = 0; k < results.size(); ++k) {
    DataType type = body.outputs[k].type.value_or(ValueType()).element;
    if (!results[k].empty()) type = results[k][0].element_type();
    for (const Value& element : results[k]) {
      context.require(element.is_tensor() && element.element_type() == type,
                      "the body's output {} is {}; allowed is a {} tensor in all iterations", k,
                      element.describe(), data_type_name(type));
    }
    sequences.push_back(Value::sequence(type, std::move(results[k])));
  }
  return sequences;
}

std::vector<Value> run_optional(const NodeContext& context) {
  if (context.has_input(0)) return {Value::optional(context.value(0))};
  context.require(context.has_attribute("type"), "neither a value nor the attribute type; one is allowed");
  const ValueType& type = context.type_attribute("type");
  return {Value::empty_optional(type.element, type.is_sequence)};
}

std::vector<Value> run_optional_has_element(const NodeContext& context) {
  const Value& value = context.value(0);
  return {Tensor::from_values<uint8_t>(DataType::kBool, {}, {!value.is_optional() || value.has_element()})};
}

std::vector<Value> run_optional_get_element(const NodeContext& context) {
  const Value& value = context.value(0);
  if (!value.is_optional()) return {value};
  context.require(value.has_element(), "the optional is empty; allowed is one that holds a value");
  return {value.element()};
}

}  // namespace

void register_sequence(KernelRegistry& registry) {
  registry.add_of_values("SequenceEmpty", run_sequence_empty);
  registry.add_of_values("SequenceConstruct", run_sequence_construct);
  registry.add_of_values("SequenceAt", run_sequence_at);
  registry.add_of_values("SequenceInsert", run_sequence_insert);
  registry.add_of_values("SequenceErase", run_sequence_erase);
  registry.add_of_values("SequenceLength", run_sequence_length);
  registry.add_of_values("SplitToSequence", run_split_to_sequence);
  registry.add_of_values("ConcatFromSequence", run_concat_from_sequence);
  registry.add_of_values("SequenceMap", run_sequence_map);
  registry.add_of_values("Optional", run_optional);
  registry.add_of_values("OptionalHasElement", run_optional_has_element);
  registry.add_of_values("OptionalGetElement", run_optional_get_element);
}

}  // namespace kodama::compiler::reference
