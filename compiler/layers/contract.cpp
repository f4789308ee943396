#include <algorithm>

#include "compiler/layers/node_lowering.h"

/// Sums of products: matrix products and convolutions as one Contract each.
namespace kodama::compiler {

namespace {

using Role = ContractLayer::Role;

/// Collects dims, then reads them by number.
class DimList {
 public:
  size_t add(std::string name, int64_t extent, Role role) {
    dims_.push_back({std::move(name), extent, role});
    return dims_.size() - 1;
  }
  size_t size() const { return dims_.size(); }
  std::vector<ContractLayer::Dim> take() { return std::move(dims_); }

 private:
  std::vector<ContractLayer::Dim> dims_;
};

HostReason lower_conv(NodeLowering& lowering) {
  const Shape& x = lowering.input_shape(0);
  const Shape& w = lowering.input_shape(1);
  const Shape& y = lowering.output_shape();
  lowering.require(x.size() >= 3 && w.size() == x.size() && y.size() == x.size(),
                   "X is {} and W is {}; both need the same rank, at least 3", shape_to_string(x),
                   shape_to_string(w));
  const int64_t groups = lowering.int_attribute("group");
  lowering.require(groups >= 1 && w[0] % groups == 0 && x[1] == w[1] * groups,
                   "X is {} and W is {} with group {}; X needs {} channels, W a multiple of {} on axis 0",
                   shape_to_string(x), shape_to_string(w), groups, w[1] * groups, groups);
  const size_t spatial = x.size() - 2;
  const Shape kernel(w.begin() + 2, w.end());
  if (const auto stated = lowering.ints_attribute("kernel_shape")) {
    lowering.require(*stated == kernel, "kernel_shape is {}, but W is {}", shape_to_string(*stated),
                     shape_to_string(w));
  }
  const Window window =
      window_of(lowering, kernel, Shape(x.begin() + 2, x.end()), Shape(y.begin() + 2, y.end()));

  static const char* const kAxisNames[] = {"d", "h", "w"};
  const auto axis_name = [&](const char* prefix, size_t axis) {
    return spatial <= 3 ? std::string(prefix) + kAxisNames[3 - spatial + axis]
                        : fmt::format("{}{}", prefix, axis);
  };
  const int64_t group_channels = w[0] / groups;
  DimList dims;
  const size_t g = groups > 1 ? dims.add("g", groups, Role::kBatch) : 0;
  const size_t oc = dims.add("oc", group_channels, Role::kM);
  const size_t b = dims.add("b", x[0], Role::kN);
  const size_t o = dims.size();
  for (size_t axis = 0; axis < spatial; ++axis) dims.add(axis_name("o", axis), y[2 + axis], Role::kN);
  const size_t ic = dims.add("ic", w[1], Role::kK);
  const size_t k = dims.size();
  for (size_t axis = 0; axis < spatial; ++axis) dims.add(axis_name("k", axis), kernel[axis], Role::kK);

  AffineMap w_map(w.size(), dims.size());
  AffineMap x_map(x.size(), dims.size());
  AffineMap y_map(y.size(), dims.size());
  if (groups > 1) {
    w_map.set(0, g, group_channels);
    x_map.set(1, g, w[1]);
    y_map.set(1, g, group_channels);
  }
  w_map.set(0, oc, 1).set(1, ic, 1);
  x_map.set(0, b, 1).set(1, ic, 1);
  y_map.set(0, b, 1).set(1, oc, 1);
  for (size_t axis = 0; axis < spatial; ++axis) {
    w_map.set(2 + axis, k + axis, 1);
    window.read(x_map, 2 + axis, axis, o + axis, k + axis);
    y_map.set(2 + axis, o + axis, 1);
  }

  ContractLayer contract;
  contract.a = {lowering.input(1), w_map, 0};
  contract.b = {lowering.input(0), x_map, 0};
  contract.output = y_map;
  contract.output_shape = y;
  contract.epilogue = ScalarExpr::identity();
  if (lowering.has_input(2)) {
    lowering.require(lowering.input_shape(2) == Shape{w[0]}, "B is {}; [{}] is needed",
                     shape_to_string(lowering.input_shape(2)), w[0]);
    AffineMap bias_map(1, dims.size());
    if (groups > 1) bias_map.set(0, g, group_channels);
    bias_map.set(0, oc, 1);
    Formula epilogue;
    contract.epilogue = epilogue.result(epilogue.x(0) + epilogue.x(1));
    contract.epilogue_inputs = {{lowering.input(2), bias_map, 0}};
  }
  contract.dims = dims.take();
  lowering.add_layer("", std::move(contract), lowering.output());
  return kLowered;
}

HostReason lower_matmul(NodeLowering& lowering) {
  const Shape& a = lowering.input_shape(0);
  const Shape& b = lowering.input_shape(1);
  const Shape& y = lowering.output_shape();
  lowering.require(!a.empty() && !b.empty(), "a scalar operand: A is {}, B is {}", shape_to_string(a),
                   shape_to_string(b));
  // A vector has no M (no N), and no batch.
  const bool has_m = a.size() > 1;
  const bool has_n = b.size() > 1;
  const size_t a_batch = has_m ? a.size() - 2 : 0;
  const size_t b_batch = has_n ? b.size() - 2 : 0;
  const size_t batch = y.size() - has_m - has_n;
  DimList dims;
  for (size_t axis = 0; axis < batch; ++axis) {
    const bool in_a = axis + a_batch >= batch && a[axis + a_batch - batch] != 1;
    const bool in_b = axis + b_batch >= batch && b[axis + b_batch - batch] != 1;
    dims.add(fmt::format("b{}", axis), y[axis], in_a == in_b ? Role::kBatch : in_a ? Role::kM : Role::kN);
  }
  const size_t m = has_m ? dims.add("m", a[a.size() - 2], Role::kM) : 0;
  const size_t n = has_n ? dims.add("n", b.back(), Role::kN) : 0;
  const size_t k = dims.add("k", a.back(), Role::kK);

  AffineMap a_map(a.size(), dims.size());
  AffineMap b_map(b.size(), dims.size());
  AffineMap y_map(y.size(), dims.size());
  for (size_t axis = 0; axis < batch; ++axis) {
    y_map.set(axis, axis, 1);
    if (axis + a_batch >= batch && a[axis + a_batch - batch] != 1) a_map.set(axis + a_batch - batch, axis, 1);
    if (axis + b_batch >= batch && b[axis + b_batch - batch] != 1) b_map.set(axis + b_batch - batch, axis, 1);
  }
  a_map.set(a.size() - 1, k, 1);
  b_map.set(has_n ? b.size() - 2 : 0, k, 1);
  if (has_m) {
    a_map.set(a.size() - 2, m, 1);
    y_map.set(batch, m, 1);
  }
  if (has_n) {
    b_map.set(b.size() - 1, n, 1);
    y_map.set(y.size() - 1, n, 1);
  }
  ContractLayer contract;
  contract.a = {lowering.input(0), a_map, 0};
  contract.b = {lowering.input(1), b_map, 0};
  contract.output = y_map;
  contract.output_shape = y;
  contract.epilogue = ScalarExpr::identity();
  contract.dims = dims.take();
  lowering.add_layer("", std::move(contract), lowering.output());
  return kLowered;
}

HostReason lower_gemm(NodeLowering& lowering) {
  const Shape& a = lowering.input_shape(0);
  const Shape& b = lowering.input_shape(1);
  const Shape& y = lowering.output_shape();
  lowering.require(a.size() == 2 && b.size() == 2 && y.size() == 2,
                   "A is {} and B is {}; matrices are needed", shape_to_string(a), shape_to_string(b));
  const size_t a_k = lowering.int_attribute("transA") != 0 ? 0 : 1;
  const size_t b_k = lowering.int_attribute("transB") != 0 ? 1 : 0;
  DimList dims;
  const size_t m = dims.add("m", a[1 - a_k], Role::kM);
  const size_t n = dims.add("n", b[1 - b_k], Role::kN);
  const size_t k = dims.add("k", a[a_k], Role::kK);
  ContractLayer contract;
  contract.a = {lowering.input(0), AffineMap(2, dims.size()).set(1 - a_k, m, 1).set(a_k, k, 1), 0};
  contract.b = {lowering.input(1), AffineMap(2, dims.size()).set(1 - b_k, n, 1).set(b_k, k, 1), 0};
  contract.output = AffineMap(2, dims.size()).set(0, m, 1).set(1, n, 1);
  contract.output_shape = y;

  const float alpha = lowering.float_attribute("alpha");
  const float beta = lowering.float_attribute("beta");
  Formula epilogue;
  Term result = epilogue.x(0);
  if (alpha != 1) result = result * alpha;
  if (lowering.has_input(2) && beta != 0) {
    const Shape& c = lowering.input_shape(2);
    const bool fits =
        c.size() <= 2 && std::equal(c.rbegin(), c.rend(), y.rbegin(),
                                    [](int64_t from, int64_t to) { return from == 1 || from == to; });
    lowering.require(fits, "C is {}; it can't be broadcast to {}", shape_to_string(c), shape_to_string(y));
    Term addend = epilogue.x(1);
    if (beta != 1) addend = addend * beta;
    result = result + addend;
    contract.epilogue_inputs = {{lowering.input(2), AffineMap::broadcast(c, y).after(contract.output), 0}};
  }
  contract.epilogue = epilogue.result(result);
  contract.dims = dims.take();
  lowering.add_layer("", std::move(contract), lowering.output());
  return kLowered;
}

}  // namespace

void register_contract(OperatorTable& table) {
  table.push_back({"Conv", lower_conv, ElementTypes::kChipFloats});
  table.push_back({"MatMul", lower_matmul, ElementTypes::kChipFloats});
  table.push_back({"Gemm", lower_gemm, ElementTypes::kChipFloats});
}

}  // namespace kodama::compiler
