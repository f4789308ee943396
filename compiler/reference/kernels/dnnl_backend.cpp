#include "compiler/reference/kernels/dnnl_backend.h"

#include <algorithm>
#include <dnnl.hpp>
#include <unordered_map>

namespace kodama::compiler::reference {

namespace {

using dnnl::memory;

dnnl::engine& cpu_engine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

/// Plain row-major layout.
memory::desc dense(const Shape& shape) {
  memory::dims strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return {memory::dims(shape.begin(), shape.end()), memory::data_type::f32, strides};
}

/// oneDNN wants a mutable pointer also for what it only reads.
memory view(const memory::desc& description, const Tensor& tensor) {
  return {description, cpu_engine(), const_cast<std::byte*>(tensor.bytes().data())};
}

Shape result_shape(const Window& window, int64_t batch, int64_t channels) {
  Shape shape = {batch, channels};
  shape.insert(shape.end(), window.output.begin(), window.output.end());
  return shape;
}

memory::dims less_one(const Shape& dilations) {
  memory::dims result(dilations.begin(), dilations.end());
  for (auto& value : result) --value;
  return result;
}

/// The padding at the end that the last window reaches: oneDNN derives the output's extent from it.
memory::dims reached_padding(const Window& window) {
  memory::dims pads;
  for (size_t axis = 0; axis < window.rank(); ++axis) {
    const int64_t reach = (window.kernel[axis] - 1) * window.dilations[axis] + 1;
    pads.push_back((window.output[axis] - 1) * window.strides[axis] + reach - window.input[axis] -
                   window.pads_begin[axis]);
  }
  return pads;
}

template <typename Primitive, typename Description>
void execute(const Description& description, const std::unordered_map<int, memory>& arguments) {
  dnnl::stream stream(cpu_engine());
  Primitive(description).execute(stream, arguments);
  stream.wait();
}

}  // namespace

void dnnl_matmul(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a,
                 const float* b, float* c) {
  const dnnl::status status = dnnl::sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1.0f, a,
                                          transpose_a ? m : k, b, transpose_b ? k : n, 0.0f, c, n);
  isa::check_internal(status == dnnl::status::success, "dnnl_matmul", "status {} for {}x{}x{}",
                      static_cast<int>(status), m, n, k);
}

bool dnnl_supports(const Window& window, const Tensor& x) {
  return window.rank() >= 1 && window.rank() <= 3 && x.size() > 0 && x.type() == DataType::kFloat32;
}

Tensor dnnl_convolution(const Window& window, int64_t groups, const Tensor& x, const Tensor& weights,
                        const Tensor* bias) {
  Tensor result(x.type(), result_shape(window, x.shape()[0], weights.shape()[0]));
  Shape weight_shape = weights.shape();
  if (groups > 1) {
    weight_shape[0] /= groups;
    weight_shape.insert(weight_shape.begin(), groups);
  }
  const memory::desc source = dense(x.shape());
  const memory::desc filter = dense(weight_shape);
  const memory::desc target = dense(result.shape());
  const memory::desc offsets = bias != nullptr ? dense(bias->shape()) : memory::desc();
  const dnnl::convolution_forward::desc operation(
      dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, source, filter, offsets,
      target, memory::dims(window.strides.begin(), window.strides.end()), less_one(window.dilations),
      memory::dims(window.pads_begin.begin(), window.pads_begin.end()), reached_padding(window));
  std::unordered_map<int, memory> arguments = {{DNNL_ARG_SRC, view(source, x)},
                                               {DNNL_ARG_WEIGHTS, view(filter, weights)},
                                               {DNNL_ARG_DST, view(target, result)}};
  if (bias != nullptr) arguments.emplace(DNNL_ARG_BIAS, view(offsets, *bias));
  execute<dnnl::convolution_forward>(dnnl::convolution_forward::primitive_desc(operation, cpu_engine()),
                                     arguments);
  return result;
}

Tensor dnnl_pool(const Window& window, PoolKind kind, const Tensor& x) {
  Tensor result(x.type(), result_shape(window, x.shape()[0], x.shape()[1]));
  const dnnl::algorithm algorithm = kind == PoolKind::kMax ? dnnl::algorithm::pooling_max
                                    : kind == PoolKind::kAverage
                                        ? dnnl::algorithm::pooling_avg_exclude_padding
                                        : dnnl::algorithm::pooling_avg_include_padding;
  const memory::desc source = dense(x.shape());
  const memory::desc target = dense(result.shape());
  const dnnl::pooling_v2_forward::desc operation(
      dnnl::prop_kind::forward_inference, algorithm, source, target,
      memory::dims(window.strides.begin(), window.strides.end()),
      memory::dims(window.kernel.begin(), window.kernel.end()), less_one(window.dilations),
      memory::dims(window.pads_begin.begin(), window.pads_begin.end()), reached_padding(window));
  execute<dnnl::pooling_v2_forward>(dnnl::pooling_v2_forward::primitive_desc(operation, cpu_engine()),
                                    {{DNNL_ARG_SRC, view(source, x)}, {DNNL_ARG_DST, view(target, result)}});
  return result;
}

}  // namespace kodama::compiler::reference
