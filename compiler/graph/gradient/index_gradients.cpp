#include <algorithm>
#include <numeric>

#include "compiler/graph/gradient/gradient_rules.h"

/// Operators whose indices are data. What is read from several places is scattered back and added.
namespace kodama::compiler::gradient {

namespace {

/// Indices of [-extent, extent) as those of [0, extent), of int64.
Term from_the_front(const Term& indices, int64_t extent) {
  const Term wide = cast(indices, kInt64);
  return select(less(wide, 0.0), wide + static_cast<double>(extent), wide);
}

Term zeros(const Term& like) {
  return like.graph->filled(0, like.type, like.shape);
}

Term scatter_rows(const Term& data, const Term& indices, const Term& updates, const char* reduction) {
  return data.graph->add("ScatterND", {data, indices, updates}, data.type, data.shape,
                         {onnx::MakeAttribute("reduction", std::string(reduction))});
}

Term scatter_elements(const Term& data, const Term& indices, const Term& updates, int64_t axis,
                      const char* reduction) {
  return data.graph->add(
      "ScatterElements", {data, indices, updates}, data.type, data.shape,
      {onnx::MakeAttribute("axis", axis), onnx::MakeAttribute("reduction", std::string(reduction))});
}

Term gather_elements(const Term& data, const Term& indices, int64_t axis) {
  return data.graph->add("GatherElements", {data, indices}, data.type, indices.shape,
                         {onnx::MakeAttribute("axis", axis)});
}

int64_t product(const Shape& shape, int64_t begin, int64_t end) {
  return std::accumulate(shape.begin() + begin, shape.begin() + end, int64_t{1}, std::multiplies<>());
}

void gather(NodeGradient& n) {
  const Term x = n.x();
  const Term indices = n.x(1);
  const int64_t axis = n.axis();
  const int64_t before = product(x.shape, 0, axis);
  const int64_t behind = product(x.shape, axis + 1, x.rank());
  const int64_t extent = x.extent(axis);
  // Rows of what stands before and behind the axis, one per index.
  const Term rows = reshape(transpose(reshape(n.dy(), {before, indices.size(), behind}), {1, 0, 2}),
                            {indices.size(), before * behind});
  const Term places = reshape(from_the_front(indices, extent), {indices.size(), 1});
  const Term sums = scatter_rows(n.graph().filled(0, x.type, {extent, before * behind}), places, rows, "add");
  n.give(0, reshape(transpose(reshape(sums, {extent, before, behind}), {1, 0, 2}), x.shape));
}

void gather_by_elements(NodeGradient& n) {
  n.give(0, scatter_elements(zeros(n.x()), n.x(1), n.dy(), n.axis(), "add"));
}

void gather_rows(NodeGradient& n) {
  const Term x = n.x();
  const Term indices = cast(n.x(1), kInt64);
  const int64_t batch = n.integer("batch_dims");
  if (batch == 0) return n.give(0, scatter_rows(zeros(x), indices, n.dy(), "add"));
  // The places in the batch become part of the indices.
  std::vector<Term> parts;
  Shape shape = indices.shape;
  shape.back() = 1;
  for (int64_t axis = 0; axis < batch; ++axis) {
    Shape own(shape.size(), 1);
    own[static_cast<size_t>(axis)] = x.extent(axis);
    parts.push_back(expand(reshape(counting(n.graph(), x.extent(axis), kInt64), own), shape));
  }
  parts.push_back(indices);
  n.give(0, scatter_rows(zeros(x), concat(parts, -1), n.dy(), "add"));
}

std::string additive(NodeGradient& n) {
  const std::string reduction = n.text("reduction", "none");
  if (reduction != "none" && reduction != "add")
    n.refuse(fmt::format("is not differentiated with reduction {}; none and add are", reduction));
  return reduction;
}

void scatter_by_elements(NodeGradient& n) {
  const int64_t axis = n.axis();
  const bool adds = additive(n) == "add";
  if (n.wants(0)) n.give(0, adds ? n.dy() : scatter_elements(n.dy(), n.x(1), zeros(n.x(2)), axis, "none"));
  if (n.wants(2)) n.give(2, gather_elements(n.dy(), n.x(1), axis));
}

void scatter_by_rows(NodeGradient& n) {
  const bool adds = additive(n) == "add";
  if (n.wants(0)) n.give(0, adds ? n.dy() : scatter_rows(n.dy(), n.x(1), zeros(n.x(2)), "none"));
  if (n.wants(2)) n.give(2, n.graph().add("GatherND", {n.dy(), n.x(1)}, n.dy().type, n.x(2).shape));
}

/// y = off + (on - off) * hot: the gradients of both values are sums over the places that have them.
void one_hot(NodeGradient& n) {
  const Term depth = n.x(1);
  const Term values = n.graph().constant(tensor_of(n.dy().type, {2}, {0, 1}));
  Attributes attributes(n.node().attribute().begin(), n.node().attribute().end());
  const Term hot = n.graph().add("OneHot", {n.x(0), depth, values}, n.dy().type, n.dy().shape, attributes);
  const Term on = sum_all(n.dy() * hot);
  const Term off = sum_all(n.dy()) - on;
  n.give(2, concat({reshape(off, {1}), reshape(on, {1})}, 0));
}

void largest(NodeGradient& n) {
  const Term places = n.output(1, kInt64, n.y().shape);
  n.give(0, scatter_elements(zeros(n.x()), places, n.dy(), n.axis(), "add"));
}

void compress(NodeGradient& n) {
  const Term x = n.x();
  const Tensor& condition = n.constant(1);
  Ints taken;
  for (int64_t i = 0; i < condition.size(); ++i) {
    if (condition.data<uint8_t>()[static_cast<size_t>(i)] != 0) taken.push_back(i);
  }
  const bool is_flat = !n.has_attribute("axis");
  const int64_t axis = is_flat ? 0 : n.axis();
  const Term flat = is_flat ? reshape(x, {x.size()}) : x;
  Shape ones(flat.shape.size(), 1);
  ones[static_cast<size_t>(axis)] = static_cast<int64_t>(taken.size());
  const Term places = expand(reshape(n.graph().integers(taken), ones), n.dy().shape);
  n.give(0, reshape(scatter_elements(zeros(flat), places, n.dy(), axis, "none"), x.shape));
}

}  // namespace

std::vector<GradientRow> index_gradients() {
  return {
      {"Compress", compress},
      {"Gather", gather},
      {"GatherElements", gather_by_elements},
      {"GatherND", gather_rows},
      {"OneHot", one_hot, nullptr, {0, 1}},
      {"ScatterElements", scatter_by_elements},
      {"ScatterND", scatter_by_rows},
      {"TopK", largest},
  };
}

}  // namespace kodama::compiler::gradient
