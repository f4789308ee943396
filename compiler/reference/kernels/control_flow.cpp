#include <algorithm>
#include <limits>

#include "compiler/reference/kernels/kernel.h"
#include "compiler/reference/kernels/strided.h"

/// If, Loop and Scan on tensors.
namespace kodama::compiler::reference {

namespace {

bool truth(const NodeContext& context, const Tensor& tensor) {
  context.require(tensor.type() == DataType::kBool && tensor.size() == 1,
                  "a condition is {} {}; allowed is one bool", data_type_name(tensor.type()),
                  shape_to_string(tensor.shape()));
  return tensor.data<bool>()[0];
}

std::vector<Value> run_if(const NodeContext& context) {
  const bool condition = truth(context, context.input(0));
  return context.run_subgraph(condition ? "then_branch" : "else_branch", {});
}

const Tensor& as_tensor(const NodeContext& context, const char* what, const Value& value) {
  context.require(value.is_tensor(), "{} is {}; allowed is a tensor", what, value.describe());
  return value.tensor();
}

/// Slices along `axis`, in order, become one tensor. Of no slices only the body's declaration says what they
/// would be: extents that it leaves open are 0.
Tensor stack(const NodeContext& context, const std::vector<Value>& slices, size_t axis, bool reverse,
             const Declared& declared) {
  if (slices.empty()) {
    const ValueType type = declared.type.value_or(ValueType());
    context.require(!type.is_sequence && !type.is_optional && type.element != DataType::kUndefined,
                    "without a single iteration the type of '{}' isn't known: the body doesn't declare it",
                    declared.name);
    Shape shape;
    for (const int64_t extent : type.shape.value_or(Shape())) shape.push_back(std::max<int64_t>(extent, 0));
    shape.insert(shape.begin() + static_cast<ptrdiff_t>(std::min(axis, shape.size())), 0);
    return {type.element, shape};
  }
  const Tensor& first = as_tensor(context, "a scan output", slices[0]);
  Shape shape = first.shape();
  shape.insert(shape.begin() + static_cast<ptrdiff_t>(axis), static_cast<int64_t>(slices.size()));
  Tensor result(first.type(), shape);
  Strides strides = strides_of(shape);
  const int64_t step = strides[axis];
  strides.erase(strides.begin() + static_cast<ptrdiff_t>(axis));
  for (size_t i = 0; i < slices.size(); ++i) {
    const Tensor& slice = as_tensor(context, "a scan output", slices[i]);
    context.require(slice.shape() == first.shape() && slice.type() == result.type(),
                    "scan output '{}' changes its shape from {} to {}", declared.name,
                    shape_to_string(first.shape()), shape_to_string(slice.shape()));
    const auto place = static_cast<int64_t>(reverse ? slices.size() - 1 - i : i);
    put(slice, strided_offsets(first.shape(), strides, place * step), result);
  }
  return result;
}

/// More iterations than anybody waits for: the condition never becomes false.
constexpr int64_t kMostIterations = int64_t{1} << 24;

std::vector<Value> run_loop(const NodeContext& context) {
  const Graph& body = context.graph_attribute("body");
  int64_t trips = std::numeric_limits<int64_t>::max();
  if (context.has_input(0)) trips = context.integer_scalar(0);
  bool condition = !context.has_input(1) || truth(context, context.input(1));
  std::vector<Value> carried;
  for (size_t i = 2; i < context.input_count(); ++i) carried.push_back(context.value(i));
  context.require(
      body.outputs.size() > carried.size(),
      "the body has {} outputs for {} carried values; allowed is one more at least, the condition",
      body.outputs.size(), carried.size());
  const size_t scans = body.outputs.size() - 1 - carried.size();
  std::vector<std::vector<Value>> slices(scans);
  for (int64_t i = 0; i < trips && condition; ++i) {
    context.require(i < kMostIterations,
                    "the condition is still true after {} iterations, which are allowed: give a trip count",
                    kMostIterations);
    std::vector<Value> inputs = {Tensor::from_values<int64_t>(DataType::kInt64, {}, {i}),
                                 Tensor::from_values<uint8_t>(DataType::kBool, {}, {condition})};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    carried.clear();  // so that what only the body has needs no copy
    std::vector<Value> outputs = context.run_subgraph("body", inputs);
    condition = truth(context, as_tensor(context, "the condition", outputs[0]));
    const auto first_scan = outputs.end() - static_cast<ptrdiff_t>(scans);
    carried.assign(outputs.begin() + 1, first_scan);
    for (size_t k = 0; k < scans; ++k) slices[k].push_back(*(first_scan + static_cast<ptrdiff_t>(k)));
  }
  for (size_t k = 0; k < scans; ++k) {
    const size_t output = body.outputs.size() - (scans - k);
    carried.push_back(context.has_output(carried.size())
                          ? Value(stack(context, slices[k], 0, false, body.outputs[output]))
                          : Value());
  }
  return carried;
}

struct ScanAxes {
  std::vector<int64_t> axes;
  std::vector<int64_t> directions;
};

ScanAxes scan_axes(const NodeContext& context, const std::string& role, size_t count) {
  ScanAxes result;
  result.axes =
      context.ints_attribute_if_present("scan_" + role + "_axes").value_or(std::vector<int64_t>(count, 0));
  result.directions = context.ints_attribute_if_present("scan_" + role + "_directions")
                          .value_or(std::vector<int64_t>(count, 0));
  context.require(result.axes.size() == count && result.directions.size() == count,
                  "scan_{}_axes and scan_{}_directions must have {} values", role, role, count);
  return result;
}

/// One sequence (opset 9 and later).
std::vector<Value> scan(const NodeContext& context, const std::vector<Value>& values, const ScanAxes& in,
                        size_t states) {
  const Graph& body = context.graph_attribute("body");
  const size_t scans = values.size() - states;
  context.require(body.outputs.size() >= states, "the body has {} outputs for {} states", body.outputs.size(),
                  states);
  const size_t outputs_count = body.outputs.size() - states;
  const ScanAxes out = scan_axes(context, "output", outputs_count);
  std::vector<Value> state(values.begin(), values.begin() + static_cast<ptrdiff_t>(states));
  std::vector<std::vector<Value>> slices(outputs_count);
  int64_t length = -1;
  std::vector<size_t> axes;
  for (size_t k = 0; k < scans; ++k) {
    const Tensor& sequence = as_tensor(context, "a scan input", values[states + k]);
    context.require(sequence.rank() > 0, "a scan input is a scalar; allowed is rank 1 and more");
    axes.push_back(context.axis(in.axes[k], sequence.rank()));
    const int64_t own = sequence.shape()[axes.back()];
    context.require(length < 0 || own == length, "scan inputs have lengths {} and {}; they must be the same",
                    length, own);
    length = own;
  }
  for (int64_t i = 0; i < length; ++i) {
    std::vector<Value> inputs = state;
    for (size_t k = 0; k < scans; ++k) {
      inputs.emplace_back(
          element_along(values[states + k].tensor(), axes[k], in.directions[k] != 0 ? length - 1 - i : i));
    }
    const std::vector<Value> outputs = context.run_subgraph("body", inputs);
    std::copy(outputs.begin(), outputs.begin() + static_cast<ptrdiff_t>(states), state.begin());
    for (size_t k = 0; k < outputs_count; ++k) slices[k].push_back(outputs[states + k]);
  }
  for (size_t k = 0; k < outputs_count; ++k) {
    const Declared& declared = body.outputs[states + k];
    const ValueType type = declared.type.value_or(ValueType());
    const int64_t rank = 1 + (slices[k].empty() ? static_cast<int64_t>(type.shape.value_or(Shape()).size())
                                                : as_tensor(context, "a scan output", slices[k][0]).rank());
    state.emplace_back(
        stack(context, slices[k], context.axis(out.axes[k], rank), out.directions[k] != 0, declared));
  }
  return state;
}

std::vector<Value> run_scan(const NodeContext& context) {
  const bool batched = context.since_version() < 9;
  const size_t first = batched ? 1 : 0;
  const auto scans = context.int_attribute("num_scan_inputs");
  const auto values_count = static_cast<int64_t>(context.input_count() - first);
  context.require(scans >= 1 && scans <= values_count, "num_scan_inputs is {}; allowed is 1 to {}", scans,
                  values_count);
  const auto states = static_cast<size_t>(values_count - scans);
  std::vector<Value> values;
  for (size_t i = first; i < context.input_count(); ++i) values.emplace_back(context.value(i));
  if (!batched) return scan(context, values, scan_axes(context, "input", static_cast<size_t>(scans)), states);

  // Version 8: a batch axis in front of everything, sequences of full length only, directions as one
  // attribute.
  if (context.has_input(0)) {
    throw isa::UnsupportedError(context.where() +
                                ": sequence_lens has no CPU reference; use opset 9 or later");
  }
  ScanAxes in{std::vector<int64_t>(static_cast<size_t>(scans), 0),
              context.ints_attribute_if_present("directions")
                  .value_or(std::vector<int64_t>(static_cast<size_t>(scans), 0))};
  context.require(in.directions.size() == static_cast<size_t>(scans), "directions must have {} values",
                  scans);
  const auto batch_of = [&](const Value& value) {
    const Tensor& tensor = as_tensor(context, "an input", value);
    context.require(tensor.rank() >= 1, "an input is a scalar; allowed is [batch, ...]");
    return tensor.shape()[0];
  };
  const int64_t batch = batch_of(values[0]);
  context.require(batch > 0, "the batch is 0; allowed is 1 and more");
  std::vector<std::vector<Value>> results;
  for (int64_t n = 0; n < batch; ++n) {
    std::vector<Value> sample;
    for (const Value& value : values) {
      context.require(batch_of(value) == batch, "an input is {}; allowed is [{}, ...]", value.describe(),
                      batch);
      sample.emplace_back(element_along(value.tensor(), 0, n));
    }
    const std::vector<Value> outputs = scan(context, sample, in, states);
    results.resize(outputs.size());
    for (size_t k = 0; k < outputs.size(); ++k) results[k].push_back(outputs[k]);
  }
  std::vector<Value> stacked;
  for (const auto& each : results) stacked.emplace_back(stack(context, each, 0, false, {}));
  return stacked;
}

}  // namespace

void register_control_flow(KernelRegistry& registry) {
  registry.add_of_values("If", run_if);
  registry.add_of_values("Loop", run_loop);
  registry.add_of_values("Scan", run_scan);
}

}  // namespace kodama::compiler::reference
