#include "compiler/reference/kernel.h"
#include "compiler/reference/strided.h"

/// If, Loop and Scan on tensors.
namespace kodama::compiler::reference {

using onnx::TensorProto;

namespace {

bool truth(const NodeContext& context, const Tensor& tensor) {
  context.require(tensor.type() == TensorProto::BOOL && tensor.size() == 1,
                  "a condition is {} {}; allowed is one bool", data_type_name(tensor.type()),
                  shape_to_string(tensor.shape()));
  return tensor.data<bool>()[0];
}

std::vector<Tensor> run_if(const NodeContext& context) {
  const bool condition = truth(context, context.input(0));
  return context.run_subgraph(context.attribute(condition ? "then_branch" : "else_branch").g(), {});
}

/// Slices along `axis`, in order, become one tensor.
Tensor stack(const NodeContext& context, const std::vector<Tensor>& slices, size_t axis, bool reverse) {
  context.require(!slices.empty(), "without a single iteration the shape of a scan output isn't known");
  const Shape& inner = slices[0].shape();
  Shape shape = inner;
  shape.insert(shape.begin() + static_cast<ptrdiff_t>(axis), static_cast<int64_t>(slices.size()));
  Tensor result(slices[0].type(), shape);
  Strides strides = strides_of(shape);
  const int64_t step = strides[axis];
  strides.erase(strides.begin() + static_cast<ptrdiff_t>(axis));
  for (size_t i = 0; i < slices.size(); ++i) {
    context.require(slices[i].shape() == inner && slices[i].type() == result.type(),
                    "a scan output changes its shape from {} to {}", shape_to_string(inner),
                    shape_to_string(slices[i].shape()));
    const auto place = static_cast<int64_t>(reverse ? slices.size() - 1 - i : i);
    put(slices[i], strided_offsets(inner, strides, place * step), result);
  }
  return result;
}

std::vector<Tensor> run_loop(const NodeContext& context) {
  const onnx::GraphProto& body = context.attribute("body").g();
  int64_t trips = std::numeric_limits<int64_t>::max();
  if (context.has_input(0)) trips = context.integer_scalar(0);
  bool condition = !context.has_input(1) || truth(context, context.input(1));
  std::vector<Tensor> carried;
  for (size_t i = 2; i < context.input_count(); ++i) carried.push_back(context.input(i));
  context.require(body.output_size() > static_cast<int>(carried.size()),
                  "the body has {} outputs for {} carried values", body.output_size(), carried.size());
  const size_t scans = static_cast<size_t>(body.output_size()) - 1 - carried.size();
  std::vector<std::vector<Tensor>> slices(scans);
  for (int64_t i = 0; i < trips && condition; ++i) {
    std::vector<Tensor> inputs = {Tensor::from_values<int64_t>(TensorProto::INT64, {}, {i}),
                                  Tensor::from_values<uint8_t>(TensorProto::BOOL, {}, {condition})};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    const std::vector<Tensor> outputs = context.run_subgraph(body, inputs);
    condition = truth(context, outputs[0]);
    for (size_t k = 0; k < carried.size(); ++k) carried[k] = outputs[1 + k];
    for (size_t k = 0; k < scans; ++k) slices[k].push_back(outputs[1 + carried.size() + k]);
  }
  for (size_t k = 0; k < scans; ++k) {
    if (context.has_output(carried.size())) {
      carried.push_back(
          slices[k].empty()
              ? Tensor(
                    static_cast<DataType>(
                        body.output(static_cast<int>(carried.size()) + 1).type().tensor_type().elem_type()),
                    {0})
              : stack(context, slices[k], 0, false));
    } else {
      carried.emplace_back();
    }
  }
  return carried;
}

/// Element `index` of `axis`, with the axis removed.
Tensor slice_of(const Tensor& tensor, size_t axis, int64_t index) {
  Shape shape = tensor.shape();
  Strides strides = strides_of(shape);
  const int64_t begin = strides[axis] * index;
  shape.erase(shape.begin() + static_cast<ptrdiff_t>(axis));
  strides.erase(strides.begin() + static_cast<ptrdiff_t>(axis));
  return take(tensor, shape, strided_offsets(shape, strides, begin));
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
std::vector<Tensor> scan(const NodeContext& context, std::vector<Tensor> values, const ScanAxes& in,
                         size_t states) {
  const onnx::GraphProto& body = context.attribute("body").g();
  const size_t scans = values.size() - states;
  context.require(body.output_size() >= static_cast<int>(states), "the body has {} outputs for {} states",
                  body.output_size(), states);
  const size_t outputs_count = static_cast<size_t>(body.output_size()) - states;
  const ScanAxes out = scan_axes(context, "output", outputs_count);
  std::vector<Tensor> state(values.begin(), values.begin() + static_cast<ptrdiff_t>(states));
  std::vector<std::vector<Tensor>> slices(outputs_count);
  int64_t length = -1;
  std::vector<size_t> axes;
  for (size_t k = 0; k < scans; ++k) {
    const Tensor& sequence = values[states + k];
    axes.push_back(context.axis(in.axes[k], sequence.rank()));
    const int64_t own = sequence.shape()[axes.back()];
    context.require(length < 0 || own == length, "scan inputs have lengths {} and {}; they must be the same",
                    length, own);
    length = own;
  }
  for (int64_t i = 0; i < length; ++i) {
    std::vector<Tensor> inputs = state;
    for (size_t k = 0; k < scans; ++k) {
      inputs.push_back(slice_of(values[states + k], axes[k], in.directions[k] != 0 ? length - 1 - i : i));
    }
    const std::vector<Tensor> outputs = context.run_subgraph(body, inputs);
    std::copy(outputs.begin(), outputs.begin() + static_cast<ptrdiff_t>(states), state.begin());
    for (size_t k = 0; k < outputs_count; ++k) slices[k].push_back(outputs[states + k]);
  }
  for (size_t k = 0; k < outputs_count; ++k) {
    const int64_t rank = slices[k].empty() ? 1 : slices[k][0].rank() + 1;
    state.push_back(stack(context, slices[k], context.axis(out.axes[k], rank), out.directions[k] != 0));
  }
  return state;
}

std::vector<Tensor> run_scan(const NodeContext& context) {
  const bool batched = context.since_version() < 9;
  const size_t first = batched ? 1 : 0;
  const auto scans = context.int_attribute("num_scan_inputs");
  const auto values_count = static_cast<int64_t>(context.input_count() - first);
  context.require(scans >= 1 && scans <= values_count, "num_scan_inputs is {}; allowed is 1 to {}", scans,
                  values_count);
  const auto states = static_cast<size_t>(values_count - scans);
  std::vector<Tensor> values;
  for (size_t i = first; i < context.input_count(); ++i) values.push_back(context.input(i));
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
  context.require(values[0].rank() >= 1, "input 1 is a scalar; allowed is [batch, ...]");
  const int64_t batch = values[0].shape()[0];
  std::vector<std::vector<Tensor>> results;
  for (int64_t n = 0; n < batch; ++n) {
    std::vector<Tensor> sample;
    for (const Tensor& value : values) {
      context.require(value.rank() >= 1 && value.shape()[0] == batch,
                      "an input has shape {}; allowed is [{}, ...]", shape_to_string(value.shape()), batch);
      sample.push_back(slice_of(value, 0, n));
    }
    const std::vector<Tensor> outputs = scan(context, sample, in, states);
    results.resize(outputs.size());
    for (size_t k = 0; k < outputs.size(); ++k) results[k].push_back(outputs[k]);
  }
  std::vector<Tensor> stacked;
  for (const auto& each : results) stacked.push_back(stack(context, each, 0, false));
  return stacked;
}

}  // namespace

void register_control_flow(KernelRegistry& registry) {
  registry.add("If", run_if);
  registry.add("Loop", run_loop);
  registry.add("Scan", run_scan);
}

}  // namespace kodama::compiler::reference
