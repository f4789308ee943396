#include <algorithm>
#include <limits>
#include <numeric>

#include "compiler/driver/random_rows.h"

namespace kodama::compiler {
namespace {

/// Any elements: bits are moved.
RandomValue something(RandomNodes& nodes, const std::string& op, int64_t least_rank = 0,
                      int64_t most_rank = 5) {
  constexpr double kAny = std::numeric_limits<double>::infinity();
  return nodes.want_for(
      op,
      {.least_rank = least_rank, .most_rank = most_rank, .low = -kAny, .high = kAny, .may_be_special = true});
}

int64_t any_axis(RandomNodes& nodes, const RandomValue& x) {
  return nodes.number(0, x.rank() - 1);
}

void add_identity(RandomNodes& nodes, const std::string& op) {
  nodes.add(op, {something(nodes, op).name});
}

void add_transpose(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = something(nodes, op);
  std::vector<int64_t> order(x.shape().size());
  std::iota(order.begin(), order.end(), 0);
  nodes.shuffle(order);
  nodes.add(op, {x.name}, nodes.chance(90) && x.rank() > 0 ? Attributes().set("perm", order) : Attributes());
}

void add_reshape(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = something(nodes, op, 1);
  Shape shape = x.shape();
  for (int64_t changes = nodes.number(1, 3); changes > 0; --changes) {
    if (shape.size() > 1 && nodes.chance(50)) {  // two axes become one
      const auto k = static_cast<size_t>(nodes.number(0, static_cast<int64_t>(shape.size()) - 2));
      shape[k] *= shape[k + 1];
      shape.erase(shape.begin() + static_cast<ptrdiff_t>(k) + 1);
    } else if (shape.size() < 5) {
      const auto k = static_cast<size_t>(nodes.number(0, static_cast<int64_t>(shape.size()) - 1));
      int64_t factor = nodes.number(1, std::max<int64_t>(1, shape[k] / 2));
      while (shape[k] % factor != 0) --factor;
      shape[k] /= factor;
      shape.insert(shape.begin() + static_cast<ptrdiff_t>(k) + nodes.number(0, 1), factor);
    }
  }
  if (nodes.chance(15)) {  // the list is computed
    for (const RandomValue& other : nodes.values()) {
      if (!other.is_tensor() || other.size() != x.size() || other.name == x.name) continue;
      nodes.add(op, {x.name, nodes.step("Shape", {other.name})});
      return;
    }
  }
  std::vector<int64_t> target = shape;
  if (nodes.chance(30))
    target[static_cast<size_t>(nodes.number(0, static_cast<int64_t>(shape.size()) - 1))] = -1;
  if (target[0] == x.shape()[0] && nodes.chance(30)) target[0] = 0;
  nodes.add(op, {x.name, nodes.list(target)});
}

void add_flatten(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = something(nodes, op);
  const bool has_axis = x.rank() == 0 || nodes.chance(80);
  const int64_t axis = x.rank() == 0 ? 0 : nodes.number(-x.rank(), x.rank());
  nodes.add(op, {x.name}, has_axis ? Attributes().set("axis", axis) : Attributes());
}

void add_squeeze(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = something(nodes, op);
  std::vector<int64_t> axes;
  for (int64_t k = 0; k < x.rank(); ++k) {
    if (x.shape()[static_cast<size_t>(k)] == 1 && nodes.chance(70)) axes.push_back(nodes.either(k, x.rank()));
  }
  if (axes.empty() || (nodes.chance(15) && !nodes.is_dynamic())) {
    nodes.add(op, {x.name});
  } else {
    nodes.add(op, {x.name, nodes.list(axes)});
  }
}

void add_unsqueeze(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = something(nodes, op, 0, 4);
  const int64_t count = nodes.number(1, 2);
  const int64_t rank = x.rank() + count;
  std::vector<int64_t> places(static_cast<size_t>(rank));
  std::iota(places.begin(), places.end(), 0);
  nodes.shuffle(places);
  places.resize(static_cast<size_t>(count));
  for (int64_t& each : places) each = nodes.either(each, rank);
  nodes.add(op, {x.name, nodes.list(places)});
}

void add_slice(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = something(nodes, op, 1);
  std::vector<int64_t> begins, ends, steps, axes;
  for (const int64_t axis : nodes.some_axes(x.rank())) {
    const int64_t size = x.shape()[static_cast<size_t>(axis)];
    const int64_t begin = nodes.number(0, size - 1);
    const int64_t end = nodes.number(begin + 1, size);
    const int64_t stride = nodes.chance(70) ? 1 : nodes.number(2, 3);
    const bool falls = nodes.chance(15);
    begins.push_back(falls ? end - 1 : nodes.chance(20) ? begin - size : begin);
    ends.push_back(falls ? begin - 1 - size : nodes.chance(10) ? std::numeric_limits<int64_t>::max() : end);
    if (falls && begin == 0) ends.back() = std::numeric_limits<int64_t>::min();
    steps.push_back(falls ? -stride : stride);
    axes.push_back(nodes.either(axis, x.rank()));
  }
  const bool needs_steps = std::any_of(steps.begin(), steps.end(), [](int64_t step) { return step != 1; });
  std::vector<std::string> inputs{x.name, nodes.list(begins), nodes.list(ends), nodes.list(axes)};
  if (needs_steps || nodes.chance(30)) inputs.push_back(nodes.list(steps));
  nodes.add(op, inputs);
}

void add_split(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = something(nodes, op, 1);
  const int64_t axis = any_axis(nodes, x);
  const int64_t size = x.shape()[static_cast<size_t>(axis)];
  if (size < 2) throw RandomNodes::Misfit();
  const Attributes attributes = Attributes().set("axis", nodes.either(axis, x.rank()));
  const int64_t parts = nodes.number(2, std::min<int64_t>(size, 4));
  if (size % parts == 0 && nodes.chance(40)) {
    nodes.add(op, {x.name}, attributes, static_cast<int>(parts));
    return;
  }
  std::vector<int64_t> lengths(static_cast<size_t>(parts), 1);
  for (int64_t left = size - parts; left > 0; --left)
    ++lengths[static_cast<size_t>(nodes.number(0, parts - 1))];
  nodes.add(op, {x.name, nodes.integers(lengths)}, attributes, static_cast<int>(parts));
}

void add_concat(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = something(nodes, op, 1);
  const auto axis = static_cast<size_t>(any_axis(nodes, x));
  std::vector<std::string> inputs{x.name};
  for (const RandomValue& value : nodes.values()) {
    if (!value.is_tensor() || value.type() != x.type() || value.rank() != x.rank() || inputs.size() > 3 ||
        !nodes.chance(60))
      continue;
    bool fits = true;
    for (size_t k = 0; k < value.shape().size(); ++k) fits &= k == axis || value.shape()[k] == x.shape()[k];
    if (fits) inputs.push_back(value.name);
  }
  if (inputs.size() < 2 && nodes.chance(90)) {
    Shape shape = x.shape();
    shape[axis] = nodes.number(1, 5);
    inputs.push_back(product_of(shape) > nodes.sizes().elements / 2 ? x.name
                                                                    : nodes.fresh(x.type(), shape).name);
  }
  nodes.shuffle(inputs);
  nodes.add(op, inputs, Attributes().set("axis", nodes.either(static_cast<int64_t>(axis), x.rank())));
}

void add_pad(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = something(nodes, op, 1);
  std::vector<int64_t> pads;
  for (int64_t k = 0; k < 2 * x.rank(); ++k) pads.push_back(nodes.chance(50) ? 0 : nodes.number(0, 3));
  const std::string mode = nodes.word({"constant", "constant", "reflect", "edge"});
  for (size_t k = 0; k < pads.size(); ++k) {
    const int64_t size = x.shape()[k % x.shape().size()];
    if (mode == "reflect") pads[k] = std::min(pads[k], size - 1);  // no more than there is to mirror
    // Negative pads take away.
    if (mode == "constant" && nodes.chance(5) && size > 2) pads[k] = -1;
  }
  std::vector<std::string> inputs{x.name, nodes.list(pads)};
  const bool is_number = is_float_type(x.type()) || is_integer_type(x.type());
  if (mode == "constant" && is_number && nodes.chance(50)) inputs.push_back(nodes.scalar(3, x.type()));
  nodes.add(op, inputs,
            mode == "constant" && nodes.chance(50) ? Attributes() : Attributes().set("mode", mode));
}

void add_expand(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = something(nodes, op);
  Shape target = x.shape();
  for (int64_t& each : target)
    each = each == 1 && nodes.chance(60) ? nodes.number(2, 5) : nodes.chance(20) ? 1 : each;
  if (nodes.chance(30) || target.empty()) target.insert(target.begin(), nodes.number(1, 3));
  nodes.add(op, {x.name, nodes.list(target)});
}

void add_tile(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = something(nodes, op, 1);
  std::vector<int64_t> repeats(x.shape().size());
  for (int64_t& each : repeats) each = nodes.chance(60) ? 1 : nodes.number(2, 3);
  nodes.add(op, {x.name, nodes.list(repeats)});
}

void add_depth_to_space(RandomNodes& nodes, const std::string& op) {
  const int64_t block = nodes.number(2, 3);
  const RandomValue x =
      nodes.want_for(op, {.least_rank = 4,
                          .most_rank = 4,
                          .fits = [&](const Shape& shape) { return shape[1] % (block * block) == 0; },
                          .make_shape =
                              [&](RandomChoices& choices) {
                                return Shape{choices.number(1, 2), block * block * choices.number(1, 2),
                                             choices.number(1, 4), choices.number(1, 4)};
                              }});
  Attributes attributes = Attributes().set("blocksize", block);
  if (nodes.chance(60)) attributes.set("mode", nodes.word({"DCR", "CRD"}));
  nodes.add(op, {x.name}, attributes);
}

void add_space_to_depth(RandomNodes& nodes, const std::string& op) {
  const int64_t block = nodes.number(2, 3);
  const RandomValue x = nodes.want_for(
      op, {.least_rank = 4,
           .most_rank = 4,
           .fits = [&](const Shape& shape) { return shape[2] % block == 0 && shape[3] % block == 0; },
           .make_shape =
               [&](RandomChoices& choices) {
                 return Shape{choices.number(1, 2), choices.number(1, 3), block * choices.number(1, 3),
                              block * choices.number(1, 3)};
               }});
  nodes.add(op, {x.name}, Attributes().set("blocksize", block));
}

void add_reverse_sequence(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = something(nodes, op, 2);
  const int64_t batch = nodes.chance(50) ? 1 : 0;
  const int64_t time = 1 - batch;
  const Shape lengths{x.shape()[static_cast<size_t>(batch)]};
  const RandomValue lens = nodes.indices(lengths, 1, x.shape()[static_cast<size_t>(time)] + 1, true);
  nodes.add(op, {x.name, lens.name}, Attributes().set("batch_axis", batch).set("time_axis", time));
}

void add_trilu(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = something(nodes, op, 2);
  const std::string k = nodes.chance(50) ? nodes.integer(nodes.number(-3, 3)) : "";
  nodes.add(op, {x.name, k}, nodes.chance(60) ? Attributes().set("upper", nodes.number(0, 1)) : Attributes());
}

// ---- shapes and constants

void add_shape(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = something(nodes, op, 1);
  Attributes attributes;
  if (nodes.chance(30)) attributes.set("start", nodes.number(0, x.rank() - 1));
  nodes.add(op, {x.name}, attributes);
}

void add_size(RandomNodes& nodes, const std::string& op) {
  nodes.add(op, {something(nodes, op).name});
}

void add_constant_node(RandomNodes& nodes, const std::string& op) {
  Attributes attributes;
  switch (nodes.number(0, 5)) {
    case 0:
      attributes.set("value_float", nodes.real(-2, 2));
      break;
    case 1:
      attributes.set("value_int", nodes.number(-5, 5));
      break;
    case 2:
      attributes.set("value_floats", std::vector<double>{nodes.real(-2, 2), nodes.real(-2, 2)});
      break;
    case 3:
      attributes.set("value_ints", std::vector<int64_t>{nodes.number(-9, 9), 1, 2});
      break;
    default: {
      const DataType type = nodes.pick_type(RandomNodes::types("Identity", 0));
      attributes.set("value", nodes.random_tensor(type, {nodes.number(1, 3), nodes.extent(9)}, -4, 4));
    }
  }
  nodes.add(op, {}, attributes);
}

void add_constant_of_shape(RandomNodes& nodes, const std::string& op) {
  const std::vector<int64_t> shape{nodes.number(1, 4), nodes.extent(9)};
  Attributes attributes;
  if (nodes.chance(80)) {
    const std::vector<DataType> types = {DataType::kFloat32, DataType::kFloat16, DataType::kFloat64,
                                         DataType::kInt8,    DataType::kInt16,   DataType::kInt32,
                                         DataType::kInt64,   DataType::kUint8,   DataType::kUint16,
                                         DataType::kUint32,  DataType::kUint64,  DataType::kBool};
    attributes.set("value", nodes.random_tensor(nodes.pick(types), {1}, -4, 4));
  }
  const std::string list =
      nodes.chance(40) ? nodes.step("Shape", {nodes.pick_value().name}) : nodes.list(shape);
  if (nodes.value_of(list).tensor().size() == 0) throw RandomNodes::Misfit();
  nodes.add(op, {list}, attributes);
}

void add_eye_like(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = nodes.want_for(op, {.least_rank = 2, .most_rank = 2});
  Attributes attributes;
  if (nodes.chance(50)) attributes.set("k", nodes.number(-2, 2));
  if (nodes.chance(50)) attributes.set("dtype", nodes.pick_type(RandomNodes::types(op, 0)));
  nodes.add(op, {x.name}, attributes);
}

void add_range(RandomNodes& nodes, const std::string& op) {
  const DataType type = nodes.pick_type(RandomNodes::types(op, 0));
  const int64_t step = nodes.pick(std::vector<int64_t>{1, 1, 2, 3, -1, -2});
  const int64_t first = nodes.number(-5, 5);
  const int64_t last = first + step * nodes.number(1, 12);
  nodes.add(op,
            {nodes.scalar(static_cast<double>(first), type), nodes.scalar(static_cast<double>(last), type),
             nodes.scalar(static_cast<double>(step), type)});
}

void add_resize(RandomNodes& nodes, const std::string& op) {
  const std::string mode = nodes.word({"nearest", "linear", "cubic"});
  std::vector<DataType> types = RandomNodes::types(op, 0);
  // Weights between neighbours are numbers.
  if (mode != "nearest")
    types = nodes.chance(80) ? RandomNodes::only_floats(types) : RandomNodes::only_integers(types);
  const RandomValue x = nodes.want({.types = types, .least_rank = 1, .most_rank = 4});
  const bool crops = mode != "nearest" && nodes.chance(10) && is_float_type(x.type());
  Attributes attributes = Attributes().set("mode", mode);
  attributes.set("coordinate_transformation_mode",
                 crops ? "tf_crop_and_resize"
                       : nodes.word({"half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"}));
  if (mode == "nearest" && nodes.chance(80))
    attributes.set("nearest_mode", nodes.word({"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"}));
  if (mode == "cubic" && nodes.chance(50)) attributes.set("cubic_coeff_a", -0.5);
  if (mode == "cubic" && nodes.chance(30)) attributes.set("exclude_outside", 1);
  std::vector<int64_t> sizes = x.shape();
  std::vector<double> scales(sizes.size(), 1);
  // Linear and cubic along at most two axes.
  for (size_t k = sizes.size() > 2 ? sizes.size() - 2 : 0; k < sizes.size(); ++k) {
    const int64_t factor = nodes.number(1, 3);
    sizes[k] = nodes.chance(50) ? sizes[k] * factor : nodes.number(1, 2 * sizes[k] + 1);
    scales[k] = nodes.pick(std::vector<double>{0.5, 1, 1.5, 2, 2.5, 3});
  }
  std::string roi;
  if (crops) {
    Tensor list(DataType::kFloat32, {2 * x.rank()});
    for (int64_t k = 0; k < 2 * x.rank(); ++k)
      list.data<float>()[static_cast<size_t>(k)] = k < x.rank() ? 0 : k % 2 == 0 ? 0.75F : 1;
    roi = nodes.add_constant(list);
  }
  if (nodes.chance(60)) {
    nodes.add(op, {x.name, roi, "", nodes.integers(sizes)}, attributes);
  } else {
    Tensor list(DataType::kFloat32, {x.rank()});
    for (size_t k = 0; k < scales.size(); ++k) list.data<float>()[k] = static_cast<float>(scales[k]);
    nodes.add(op, {x.name, roi, nodes.add_constant(list)}, attributes);
  }
}

}  // namespace

std::vector<RandomRow> movement_rows() {
  const auto exact = RowErrors::kNone;
  return {
      {"Concat", add_concat, exact},
      {"Constant", add_constant_node, exact},
      {"ConstantOfShape", add_constant_of_shape, exact},
      {"DepthToSpace", add_depth_to_space, exact},
      {"Expand", add_expand, exact},
      {"EyeLike", add_eye_like, exact},
      {"Flatten", add_flatten, exact},
      {"Identity", add_identity, exact, false, false, true},
      {"Pad", add_pad, exact},
      {"Range", add_range},
      {"Reshape", add_reshape, exact},
      {"Resize", add_resize, RowErrors::kWeights},
      {"ReverseSequence", add_reverse_sequence, exact},
      {"Shape", add_shape, exact},
      {"Size", add_size, exact},
      {"Slice", add_slice, exact},
      {"SpaceToDepth", add_space_to_depth, exact},
      {"Split", add_split, exact},
      {"Squeeze", add_squeeze, exact},
      {"Tile", add_tile, exact},
      {"Transpose", add_transpose, exact},
      {"Trilu", add_trilu, exact},
      {"Unsqueeze", add_unsqueeze, exact},
  };
}

}  // namespace kodama::compiler
