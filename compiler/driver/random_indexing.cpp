#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "compiler/driver/random_rows.h"

namespace kodama::compiler {
namespace {

RandomValue table_for(RandomNodes& nodes, const std::string& op, int64_t least_rank = 1) {
  constexpr double kAny = std::numeric_limits<double>::infinity();
  return nodes.want_for(
      op, {.least_rank = least_rank, .most_rank = 4, .low = -kAny, .high = kAny, .may_be_special = true});
}

RandomValue numbers_for(RandomNodes& nodes, const std::string& op, int64_t least_rank = 1) {
  constexpr double kAny = std::numeric_limits<double>::infinity();
  return nodes.want_for(op, {.least_rank = least_rank, .most_rank = 4, .low = -kAny, .high = kAny});
}

void add_gather(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = table_for(nodes, op);
  const int64_t axis = nodes.number(0, x.rank() - 1);
  const int64_t size = x.shape()[static_cast<size_t>(axis)];
  Wanted wanted{.types = {DataType::kInt64, DataType::kInt32},
                .most_rank = 2,
                .low = static_cast<double>(-size),
                .high = static_cast<double>(size - 1)};
  wanted.fits = [&](const Shape& shape) {
    return product_of(shape) <= 64 && product_of(shape) * x.size() / size <= nodes.sizes().elements;
  };
  const RandomValue places = nodes.want(wanted);
  nodes.add(op, {x.name, places.name}, Attributes().set("axis", nodes.either(axis, x.rank())));
}

void add_gather_elements(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = table_for(nodes, op);
  const auto axis = static_cast<size_t>(nodes.number(0, x.rank() - 1));
  Shape shape = x.shape();
  shape[axis] = nodes.chance(50) ? shape[axis] : nodes.number(1, shape[axis] + 2);
  const int64_t size = x.shape()[axis];
  const RandomValue places = nodes.indices(shape, -size, size);
  nodes.add(op, {x.name, places.name},
            Attributes().set("axis", nodes.either(static_cast<int64_t>(axis), x.rank())));
}

/// Tuples of indices, all different if they must be, of the first `depth` axes.
Tensor random_tuples(RandomNodes& nodes, Shape shape, const Shape& data, int64_t depth, bool are_distinct) {
  const int64_t count = product_of(shape);
  const int64_t places = product_of(data, 0, static_cast<size_t>(depth));
  if (are_distinct && count > places) throw RandomNodes::Misfit();
  shape.push_back(depth);
  Tensor tuples(DataType::kInt64, shape);
  std::vector<int64_t> order(static_cast<size_t>(places));
  std::iota(order.begin(), order.end(), 0);
  nodes.shuffle(order);
  for (int64_t k = 0; k < count; ++k) {
    int64_t place = are_distinct ? order[static_cast<size_t>(k)] : nodes.number(0, places - 1);
    for (int64_t axis = depth - 1; axis >= 0; --axis) {
      const int64_t size = data[static_cast<size_t>(axis)];
      tuples.data<int64_t>()[static_cast<size_t>(k * depth + axis)] =
          place % size - (nodes.chance(10) ? size : 0);
      place /= size;
    }
  }
  return tuples;
}

std::string given(RandomNodes& nodes, const Tensor& tensor) {
  return nodes.inputs() < 4 && nodes.chance(50) ? nodes.add_input(tensor).name : nodes.add_constant(tensor);
}

void add_gather_nd(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = table_for(nodes, op);
  const int64_t batch = x.rank() > 1 && nodes.chance(25) ? 1 : 0;
  const int64_t depth = nodes.number(1, x.rank() - batch);
  Shape shape(x.shape().begin(), x.shape().begin() + batch);
  shape.push_back(nodes.number(1, 6));
  const Shape data(x.shape().begin() + batch, x.shape().end());
  nodes.add(op, {x.name, given(nodes, random_tuples(nodes, shape, data, depth, false))},
            batch > 0 ? Attributes().set("batch_dims", batch) : Attributes());
}

/// Only what can be added up or multiplied has a reduction; without one every place is written once at most,
/// as the order isn't defined.
std::string reduction_for(RandomNodes& nodes, const RandomValue& x) {
  const bool is_number = (is_float_type(x.type()) || is_integer_type(x.type())) && !x.has_special;
  return is_number && nodes.chance(40) ? nodes.word({"add", "mul"}) : "none";
}

void add_scatter_elements(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = table_for(nodes, op);
  const auto axis = static_cast<size_t>(nodes.number(0, x.rank() - 1));
  const std::string reduction = reduction_for(nodes, x);
  Shape shape = x.shape();
  for (int64_t& each : shape) each = nodes.chance(50) ? each : nodes.number(1, each);
  Tensor places(nodes.chance(50) ? DataType::kInt64 : DataType::kInt32, shape);
  const int64_t size = x.shape()[axis];
  const int64_t after = product_of(shape, axis + 1);
  for (int64_t line = 0; line < product_of(shape) / shape[axis]; ++line) {
    std::vector<int64_t> order(static_cast<size_t>(size));
    std::iota(order.begin(), order.end(), 0);
    nodes.shuffle(order);
    for (int64_t k = 0; k < shape[axis]; ++k) {
      int64_t place = reduction == "none" ? order[static_cast<size_t>(k)] : nodes.number(0, size - 1);
      if (nodes.chance(10)) place -= size;
      const auto at = static_cast<size_t>(line / after * after * shape[axis] + k * after + line % after);
      if (places.type() == DataType::kInt64) {
        places.data<int64_t>()[at] = place;
      } else {
        places.data<int32_t>()[at] = static_cast<int32_t>(place);
      }
    }
  }
  Attributes attributes = Attributes().set("axis", nodes.either(static_cast<int64_t>(axis), x.rank()));
  if (reduction != "none") attributes.set("reduction", reduction);
  const RandomValue updates = nodes.want({.types = {x.type()}, .shape = shape});
  nodes.add(op, {x.name, given(nodes, places), updates.name}, attributes);
}

void add_scatter_nd(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = table_for(nodes, op);
  const std::string reduction = reduction_for(nodes, x);
  const int64_t depth = nodes.number(1, x.rank());
  const Shape count{nodes.number(1, 5)};
  const Tensor places = random_tuples(nodes, count, x.shape(), depth, reduction == "none");
  Shape shape = count;
  shape.insert(shape.end(), x.shape().begin() + depth, x.shape().end());
  const RandomValue updates = nodes.want({.types = {x.type()}, .shape = shape});
  nodes.add(op, {x.name, given(nodes, places), updates.name},
            reduction == "none" ? Attributes() : Attributes().set("reduction", reduction));
}

void add_one_hot(RandomNodes& nodes, const std::string& op) {
  const int64_t depth = nodes.number(1, 9);
  const RandomValue x = nodes.want_for(
      op, {.least_rank = 1,
           .most_rank = 3,
           .low = static_cast<double>(-2 * depth),
           .high = static_cast<double>(2 * depth),
           .fits = [&](const Shape& shape) { return product_of(shape) * depth <= nodes.sizes().elements; }});
  const Tensor values = nodes.random_tensor(nodes.pick_type(RandomNodes::types(op, 2)), {2}, -4, 4);
  Attributes attributes;
  if (nodes.chance(60)) attributes.set("axis", nodes.number(-x.rank() - 1, x.rank()));
  nodes.add(op,
            {x.name,
             nodes.scalar(static_cast<double>(depth),
                          nodes.word({"a", "b"}) == "a" ? DataType::kInt64 : DataType::kFloat32),
             nodes.add_constant(values)},
            attributes);
}

void add_arg_extreme(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = numbers_for(nodes, op);
  Attributes attributes;
  if (nodes.chance(80)) attributes.set("axis", nodes.number(-x.rank(), x.rank() - 1));
  if (nodes.chance(50)) attributes.set("keepdims", nodes.number(0, 1));
  if (nodes.chance(30)) attributes.set("select_last_index", 1);
  nodes.add(op, {x.name}, attributes);
}

void add_top_k(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = numbers_for(nodes, op);
  const auto axis = static_cast<size_t>(nodes.number(0, x.rank() - 1));
  Attributes attributes = Attributes().set("axis", nodes.either(static_cast<int64_t>(axis), x.rank()));
  if (nodes.chance(50)) attributes.set("largest", nodes.number(0, 1));
  nodes.add(op, {x.name, nodes.integers({nodes.number(1, x.shape()[axis])})}, attributes);
}

void add_compress(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = table_for(nodes, op);
  const bool has_axis = nodes.chance(60);
  const auto axis = static_cast<size_t>(nodes.number(0, x.rank() - 1));
  const int64_t size = has_axis ? x.shape()[axis] : x.size();
  const RandomValue condition = nodes.want(
      {.types = {DataType::kBool}, .shape = Shape{nodes.chance(70) ? size : nodes.number(1, size)}});
  nodes.add(
      op, {x.name, condition.name},
      has_axis ? Attributes().set("axis", nodes.either(static_cast<int64_t>(axis), x.rank())) : Attributes());
}

void add_non_zero(RandomNodes& nodes, const std::string& op) {
  nodes.add(op, {numbers_for(nodes, op, 0).name});
}

void add_unique(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = numbers_for(nodes, op);
  Attributes attributes;
  if (nodes.chance(40)) attributes.set("axis", nodes.number(-x.rank(), x.rank() - 1));
  if (nodes.chance(60)) attributes.set("sorted", nodes.number(0, 1));
  nodes.add(op, {x.name}, attributes);
}

void add_non_max_suppression(RandomNodes& nodes, const std::string& op) {
  const int64_t batch = nodes.number(1, 2), boxes = nodes.number(2, 8), classes = nodes.number(1, 3);
  const RandomValue where = nodes.want({.types = {DataType::kFloat32}, .shape = Shape{batch, boxes, 4}});
  const RandomValue scores =
      nodes.want({.types = {DataType::kFloat32}, .shape = Shape{batch, classes, boxes}});
  std::vector<std::string> inputs{where.name, scores.name, nodes.integer(nodes.number(1, 4)),
                                  nodes.chance(70) ? nodes.scalar(nodes.real(0.1, 0.9)) : "",
                                  nodes.chance(50) ? nodes.scalar(nodes.real(-1, 1)) : ""};
  nodes.add(op, inputs,
            nodes.chance(40) ? Attributes().set("center_point_box", nodes.number(0, 1)) : Attributes());
}

}  // namespace

std::vector<RandomRow> indexing_rows() {
  const auto exact = RowErrors::kNone;
  const auto sums = RowErrors::kSums;
  return {
      {"ArgMax", add_arg_extreme, exact, true},
      {"ArgMin", add_arg_extreme, exact, true},
      {"Compress", add_compress, exact, false, true},
      {"Gather", add_gather, exact},
      {"GatherElements", add_gather_elements, exact},
      {"GatherND", add_gather_nd, exact},
      {"NonMaxSuppression", add_non_max_suppression, exact, true, true},
      {"NonZero", add_non_zero, exact, true, true},
      {"OneHot", add_one_hot, exact, true},
      {"ScatterElements", add_scatter_elements, sums},
      {"ScatterND", add_scatter_nd, sums},
      {"TopK", add_top_k, exact, true},
      {"Unique", add_unique, exact, true, true},
  };
}

}  // namespace kodama::compiler
