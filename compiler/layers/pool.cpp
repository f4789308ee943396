#include <algorithm>
#include <limits>

#include "compiler/layers/node_lowering.h"

/// Pooling over windows: a Reduce whose access has two coefficients per spatial axis.
namespace kodama::compiler {

namespace {

struct Pool {
  Window window;
  ReduceLayer layer;  ///< without op, expressions and fill
};

Pool pool_of(NodeLowering& lowering, bool has_dilations) {
  const Shape& input = lowering.input_shape(0);
  const Shape& output = lowering.output_shape();
  lowering.require(input.size() >= 3 && output.size() == input.size(),
                   "the input is {}; batch, channel and spatial axes are needed", shape_to_string(input));
  const Shape kernel = lowering.ints_attribute("kernel_shape").value_or(Shape{});
  Pool pool;
  pool.window = window_of(lowering, kernel, Shape(input.begin() + 2, input.end()),
                          Shape(output.begin() + 2, output.end()), has_dilations);
  AffineMap map(input.size(), input.size() + kernel.size());
  map.set(0, 0, 1).set(1, 1, 1);
  for (size_t axis = 0; axis < kernel.size(); ++axis) {
    pool.window.read(map, 2 + axis, axis, 2 + axis, input.size() + axis);
  }
  pool.layer.output_extents = output;
  pool.layer.reduction_extents = kernel;
  pool.layer.inputs = {{lowering.input(0), map, 0}};
  pool.layer.expr = ScalarExpr::identity();
  pool.layer.epilogue = ScalarExpr::identity();
  return pool;
}

HostReason lower_max_pool(NodeLowering& lowering) {
  if (lowering.has_output(1)) return "the output Indices is asked for";
  Pool pool = pool_of(lowering, true);
  pool.layer.op = ReduceLayer::Op::kMax;
  pool.layer.inputs[0].fill = -std::numeric_limits<double>::infinity();
  lowering.add_layer("", std::move(pool.layer), lowering.output());
  return kLowered;
}

/// Per output position of one axis, how many of the kernel's positions count.
std::vector<int64_t> window_counts(const Window& window, size_t axis, int64_t input, int64_t output,
                                   bool include_pad) {
  // With ceil_mode a window may hang over the padding: what is beyond it never counts.
  const int64_t begin = include_pad ? -window.pad_begin[axis] : 0;
  const int64_t end = include_pad ? input + window.pad_end[axis] : input;
  std::vector<int64_t> counts;
  for (int64_t o = 0; o < output; ++o) {
    int64_t count = 0;
    for (int64_t k = 0; k < window.kernel[axis]; ++k) {
      const int64_t position = o * window.stride[axis] + k * window.dilation[axis] - window.pad_begin[axis];
      if (position >= begin && position < end) ++count;
    }
    counts.push_back(count);
  }
  return counts;
}

HostReason lower_average_pool(NodeLowering& lowering) {
  Pool pool = pool_of(lowering, false);
  pool.layer.op = ReduceLayer::Op::kSum;
  const bool include_pad = lowering.int_attribute("count_include_pad") != 0;
  const Shape& input = lowering.input_shape(0);
  const Shape& output = lowering.output_shape();
  const size_t spatial = pool.window.kernel.size();
  // The count of a window is the product of its axes' counts.
  std::vector<float> scales = {1.0F};
  for (size_t axis = 0; axis < spatial; ++axis) {
    const auto counts = window_counts(pool.window, axis, input[2 + axis], output[2 + axis], include_pad);
    std::vector<float> wider;
    wider.reserve(scales.size() * counts.size());
    for (float scale : scales) {
      for (int64_t count : counts) wider.push_back(scale * static_cast<float>(count));
    }
    scales = std::move(wider);
  }
  // A window with nothing in it averages to 0.
  for (float& scale : scales) scale = scale == 0 ? 0.0F : 1.0F / scale;
  Formula epilogue;
  if (std::adjacent_find(scales.begin(), scales.end(), std::not_equal_to<>()) == scales.end()) {
    pool.layer.epilogue = epilogue.result(epilogue.x(0) * scales[0]);
  } else {
    const Shape shape(output.begin() + 2, output.end());
    const TensorId id =
        lowering.add_constant("scale", Tensor::from_values(onnx::TensorProto_DataType_FLOAT, shape, scales));
    pool.layer.epilogue = epilogue.result(epilogue.x(0) * epilogue.x(1));
    pool.layer.epilogue_inputs = {lowering.broadcast(id, output)};
  }
  lowering.add_layer("", std::move(pool.layer), lowering.output());
  return kLowered;
}

}  // namespace

void register_pool(OperatorTable& table) {
  table.push_back({"MaxPool", lower_max_pool, ElementTypes::kChipFloats});
  table.push_back({"AveragePool", lower_average_pool, ElementTypes::kChipFloats});
}

}  // namespace kodama::compiler
