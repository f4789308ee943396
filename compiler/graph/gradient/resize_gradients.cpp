#include <numeric>

#include "compiler/graph/gradient/gradient_rules.h"
#include "compiler/reference/executor.h"

/// Resize is linear, axis by axis: what it does to an axis is a matrix, which the reference says.
namespace kodama::compiler::gradient {

namespace {

/// [from, to]: the node's results along one axis for each unit vector.
Tensor matrix_of_axis(const NodeGradient& n, int64_t axis, int64_t from, int64_t to) {
  const int64_t rank = n.x().rank();
  onnx::NodeProto node = n.node();
  if (auto* value = const_cast<onnx::AttributeProto*>(find_attribute(node, "extrapolation_value")))
    value->set_f(0);  // a constant that no gradient knows
  std::vector<double> units(static_cast<size_t>(from * from));
  for (int64_t i = 0; i < from; ++i) units[static_cast<size_t>(i * (from + 1))] = 1;
  const Tensor identity = tensor_of(kDouble, {from, from}, units);
  Tensor roi;
  Tensor scales;
  Tensor sizes;
  std::vector<const Tensor*> inputs = {&identity, nullptr, nullptr};
  if (n.has(1) && n.constant(1).size() > 0) {
    const Tensor& given = n.constant(1);
    roi = tensor_of(kDouble, {4},
                    {0, element_as_double(given, axis), 1, element_as_double(given, rank + axis)});
    inputs[1] = &roi;
  }
  if (n.has(2) && n.constant(2).size() > 0) {
    scales = Tensor::from_values<float>(kFloat, {2},
                                        {1, static_cast<float>(element_as_double(n.constant(2), axis))});
    inputs[2] = &scales;
  } else {
    sizes = Tensor::from_values<int64_t>(kInt64, {2}, {from, to});
    inputs.push_back(&sizes);
  }
  node.clear_input();
  for (const Tensor* input : inputs) node.add_input(input == nullptr ? "" : "operand");
  return run_node(node, inputs, OperatorSets(kOpsetVersion)).front();
}

void resize(NodeGradient& n) {
  const Term x = n.x();
  Term dx = n.dy();
  const bool crops = n.text("coordinate_transformation_mode") == "tf_crop_and_resize";
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    const int64_t from = x.extent(axis);
    const int64_t to = dx.extent(axis);
    if (from == to && !crops) continue;
    const Tensor doubles = matrix_of_axis(n, axis, from, to);
    const auto values = doubles.data<double>();
    const Term matrix = n.graph().constant(tensor_of(x.type, {from, to}, {values.begin(), values.end()}));
    const int64_t before =
        std::accumulate(dx.shape.begin(), dx.shape.begin() + axis, int64_t{1}, std::multiplies<>());
    const int64_t behind =
        std::accumulate(dx.shape.begin() + axis + 1, dx.shape.end(), int64_t{1}, std::multiplies<>());
    Shape shape = dx.shape;
    shape[static_cast<size_t>(axis)] = from;
    const Term rows = behind == 1 ? matmul(reshape(dx, {before, to}), transpose_matrix(matrix))
                                  : matmul(matrix, reshape(dx, {before, to, behind}));
    dx = reshape(rows, shape);
  }
  n.give(0, dx);
}

}  // namespace

std::vector<GradientRow> resize_gradients() {
  return {{"Resize", resize, nullptr, {1, 2}}};
}

}  // namespace kodama::compiler::gradient
