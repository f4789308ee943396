#include <algorithm>
#include <numeric>

#include "compiler/graph/gradient/gradient_rules.h"

/// Operators that move elements: the gradient goes back where they came from.
namespace kodama::compiler::gradient {

namespace {

void to_shape_of_operand(NodeGradient& n) {
  n.give(0, reshape(n.dy(), n.x().shape));
}

void broadcast(NodeGradient& n) {
  n.give(0, n.dy());
}

void transposition(NodeGradient& n) {
  const int64_t rank = n.x().rank();
  Ints permutation(static_cast<size_t>(rank));
  std::iota(permutation.rbegin(), permutation.rend(), 0);
  permutation = n.ints("perm").value_or(permutation);
  Ints inverse(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i)
    inverse[static_cast<size_t>(permutation[i])] = static_cast<int64_t>(i);
  n.give(0, transpose(n.dy(), inverse));
}

void concatenation(NodeGradient& n) {
  const int64_t axis = n.axis();
  int64_t begin = 0;
  for (int i = 0; i < n.input_count(); ++i) {
    const int64_t extent = n.x(i).extent(axis);
    if (n.wants(i)) n.give(i, slice(n.dy(), axis, begin, begin + extent));
    begin += extent;
  }
}

void split(NodeGradient& n) {
  std::vector<Term> parts;
  for (int i = 0; i < n.output_count(); ++i) {
    if (!n.node().output(i).empty()) parts.push_back(n.dy_or_zeros(i));
  }
  n.give(0, concat(parts, n.axis()));
}

/// What Slice takes of an axis.
struct Range {
  int64_t begin = 0;
  int64_t step = 1;
};

void slicing(NodeGradient& n) {
  const Term x = n.x();
  const Ints starts = n.integers(1);
  Ints axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (n.has(3)) axes = n.integers(3);
  const Ints steps = n.has(4) ? n.integers(4) : Ints(starts.size(), 1);
  Term dx = n.dy();
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t axis = axes[i] < 0 ? axes[i] + x.rank() : axes[i];
    const int64_t extent = x.extent(axis);
    const int64_t count = dx.extent(axis);
    if (count == 0) {
      dx = pad(dx, axis, 0, extent);
      continue;
    }
    const bool is_backward = steps[i] < 0;
    int64_t begin = starts[i] < 0 ? starts[i] + extent : starts[i];
    begin = std::clamp<int64_t>(begin, 0, is_backward ? extent - 1 : extent);
    if (is_backward) {
      dx = reverse(dx, axis);
      begin += (count - 1) * steps[i];
    }
    dx = spread(dx, axis, begin, std::abs(steps[i]), extent);
  }
  n.give(0, dx);
}

void tiling(NodeGradient& n) {
  const Term x = n.x();
  Shape shape;
  Ints repeated;
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    repeated.push_back(static_cast<int64_t>(shape.size()));
    shape.push_back(x.extent(axis) == 0 ? 1 : n.dy().extent(axis) / x.extent(axis));
    shape.push_back(x.extent(axis));
  }
  n.give(0, reduce_sum(reshape(n.dy(), shape), repeated, false));
}

/// Elements of an axis that were read at other places come back and are added there.
Term add_at(const Term& sum, const Term& part, int64_t axis, int64_t begin) {
  return sum + pad(part, axis, begin, sum.extent(axis) - begin - part.extent(axis));
}

void padding(NodeGradient& n) {
  const Term x = n.x();
  const std::string mode = n.text("mode");
  const Ints pads = n.integers(1);
  const Term dy = n.dy();
  Term dx = dy;
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    const int64_t before = pads[static_cast<size_t>(axis)];
    const int64_t behind = pads[static_cast<size_t>(axis + x.rank())];
    const int64_t extent = x.extent(axis);
    const int64_t padded = dx.extent(axis);
    const Term inner = pad(dx, axis, -before, -behind);
    Term total = inner;
    if (mode != "constant" && extent > 0) {
      const int64_t first = std::max<int64_t>(before, 0);
      const int64_t last = std::max<int64_t>(behind, 0);
      const Term front = slice(dx, axis, 0, first);
      const Term back = slice(dx, axis, padded - last, padded);
      if (mode == "edge") {
        if (first > 0) total = add_at(total, reduce_sum(front, {axis}), axis, 0);
        if (last > 0) total = add_at(total, reduce_sum(back, {axis}), axis, extent - 1);
      } else {
        if (first > 0) total = add_at(total, reverse(front, axis), axis, 1);
        if (last > 0) total = add_at(total, reverse(back, axis), axis, extent - 1 - last);
      }
    }
    dx = total;
  }
  n.give(0, dx);
  // Everything that isn't of x.
  if (n.wants(2)) n.give(2, reshape(sum_all(dy) - sum_all(dx), n.x(2).shape));
}

void depth_to_space(NodeGradient& n) {
  const int64_t block = n.integer("blocksize");
  const Term dy = n.dy();
  if (n.text("mode") == "DCR") {
    n.give(0, dy.graph->add("SpaceToDepth", {dy}, dy.type, n.x().shape,
                            {onnx::MakeAttribute("blocksize", block)}));
    return;
  }
  const Shape& x = n.x().shape;
  const Term apart = reshape(dy, {x[0], x[1] / (block * block), x[2], block, x[3], block});
  n.give(0, reshape(transpose(apart, {0, 1, 3, 5, 2, 4}), x));
}

void space_to_depth(NodeGradient& n) {
  const Term dy = n.dy();
  n.give(0, dy.graph->add("DepthToSpace", {dy}, dy.type, n.x().shape,
                          {onnx::MakeAttribute("blocksize", n.integer("blocksize"))}));
}

/// The node itself, on the gradient: it is its own adjoint.
void same_again(NodeGradient& n) {
  std::vector<Term> inputs = {n.dy()};
  for (int i = 1; i < n.input_count(); ++i) inputs.push_back(n.x(i));
  Attributes attributes(n.node().attribute().begin(), n.node().attribute().end());
  n.give(0, n.graph().add(n.node().op_type(), inputs, n.dy().type, n.dy().shape, attributes));
}

void running_sum(NodeGradient& n) {
  const Attributes attributes = {onnx::MakeAttribute("exclusive", n.integer("exclusive")),
                                 onnx::MakeAttribute("reverse", int64_t{1} - n.integer("reverse"))};
  n.give(0, n.graph().add("CumSum", {n.dy(), n.x(1)}, n.dy().type, n.dy().shape, attributes));
}

}  // namespace

std::vector<GradientRow> movement_gradients() {
  return {
      {"Concat", concatenation},
      {"CumSum", running_sum},
      {"DepthToSpace", depth_to_space},
      {"Expand", broadcast},
      {"Flatten", to_shape_of_operand},
      {"Pad", padding},
      {"Reshape", to_shape_of_operand},
      {"ReverseSequence", same_again},
      {"Slice", slicing},
      {"SpaceToDepth", space_to_depth},
      {"Split", split},
      {"Squeeze", to_shape_of_operand},
      {"Tile", tiling},
      {"Transpose", transposition},
      {"Trilu", same_again},
      {"Unsqueeze", to_shape_of_operand},
  };
}

}  // namespace kodama::compiler::gradient
