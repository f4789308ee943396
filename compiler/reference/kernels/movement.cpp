#include <algorithm>
#include <numeric>

#include "compiler/reference/kernels/kernel.h"
#include "compiler/reference/kernels/strided.h"

/// Operators that move elements and change shapes, without looking at the elements.
namespace kodama::compiler::reference {

namespace {

std::vector<int64_t> counting(int64_t begin, int64_t count, int64_t step = 1) {
  std::vector<int64_t> result(static_cast<size_t>(count));
  for (size_t i = 0; i < result.size(); ++i) result[i] = begin + static_cast<int64_t>(i) * step;
  return result;
}

/// For take_by_axes: every axis as it is.
std::vector<std::vector<int64_t>> identity_maps(const Shape& shape) {
  std::vector<std::vector<int64_t>> maps;
  for (const int64_t extent : shape) maps.push_back(counting(0, extent));
  return maps;
}

/// Integers that are an attribute in old versions and an input in new ones; nullopt if omitted.
std::optional<std::vector<int64_t>> integers_from(const NodeContext& context, size_t input,
                                                  const char* attribute) {
  if (context.has_input(input)) return context.integers(input);
  return context.ints_attribute_if_present(attribute);
}

std::vector<Value> run_identity(const NodeContext& context) {
  return {context.value(0)};
}

std::vector<Tensor> run_reshape(const NodeContext& context) {
  const Tensor& x = context.input(0);
  Shape shape = context.since_version() < 5 ? context.ints_attribute("shape") : context.integers(1);
  const bool zero_is_zero = context.int_attribute("allowzero", 0) != 0;
  std::optional<size_t> unknown;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == -1) {
      context.require(!unknown, "shape {} has two -1; allowed is one", shape_to_string(shape));
      unknown = axis;
    } else if (shape[axis] == 0 && !zero_is_zero) {
      context.require(axis < x.shape().size(), "shape {} copies axis {} of the input, which has shape {}",
                      shape_to_string(shape), axis, shape_to_string(x.shape()));
      shape[axis] = x.shape()[axis];
    }
    context.require(shape[axis] >= -1, "shape {} has a negative extent", shape_to_string(shape));
  }
  if (unknown) {
    shape[*unknown] = 1;
    const int64_t known = element_count(shape);
    context.require(known != 0 && x.size() % known == 0,
                    "shape {} can't be completed for an input of shape {}", shape_to_string(shape),
                    shape_to_string(x.shape()));
    shape[*unknown] = x.size() / known;
  }
  context.require(element_count(shape) == x.size(),
                  "the input has shape {} with {} elements, the new shape {} has {}",
                  shape_to_string(x.shape()), x.size(), shape_to_string(shape), element_count(shape));
  return {x.reshaped(shape)};
}

std::vector<Tensor> run_flatten(const NodeContext& context) {
  const Tensor& x = context.input(0);
  const int64_t given = context.int_attribute("axis");
  const size_t axis = given == x.rank() ? static_cast<size_t>(given) : context.axis(given, x.rank());
  return {x.reshaped({count_between(x.shape(), 0, axis), count_between(x.shape(), axis, x.shape().size())})};
}

std::vector<Tensor> run_squeeze(const NodeContext& context) {
  const Tensor& x = context.input(0);
  const std::optional<std::vector<int64_t>> axes = integers_from(context, 1, "axes");
  const std::vector<bool> squeezed = context.axis_flags(axes.value_or(std::vector<int64_t>()), x.rank());
  Shape shape;
  for (size_t axis = 0; axis < x.shape().size(); ++axis) {
    context.require(!squeezed[axis] || x.shape()[axis] == 1,
                    "axis {} of shape {} has extent {}; only 1 can be removed", axis,
                    shape_to_string(x.shape()), x.shape()[axis]);
    if (axes ? !squeezed[axis] : x.shape()[axis] != 1) shape.push_back(x.shape()[axis]);
  }
  return {x.reshaped(shape)};
}

std::vector<Tensor> run_unsqueeze(const NodeContext& context) {
  const Tensor& x = context.input(0);
  const std::optional<std::vector<int64_t>> axes = integers_from(context, 1, "axes");
  context.require(axes.has_value(), "axes is missing");
  const std::vector<bool> inserted = context.axis_flags(*axes, x.rank() + static_cast<int64_t>(axes->size()));
  Shape shape;
  size_t next = 0;
  for (const bool is_new : inserted) shape.push_back(is_new ? 1 : x.shape()[next++]);
  return {x.reshaped(shape)};
}

std::vector<Tensor> run_transpose(const NodeContext& context) {
  const Tensor& x = context.input(0);
  std::vector<int64_t> given(x.shape().size());
  std::iota(given.rbegin(), given.rend(), 0);
  given = context.ints_attribute_if_present("perm").value_or(given);
  context.require(static_cast<int64_t>(given.size()) == x.rank(), "perm has {} axes for an input of rank {}",
                  given.size(), x.rank());
  context.axis_flags(given, x.rank());  // no axis twice
  std::vector<size_t> permutation;
  for (const int64_t axis : given) permutation.push_back(context.axis(axis, x.rank()));
  return {transpose(x, permutation)};
}

std::vector<Tensor> run_concat(const NodeContext& context) {
  const std::vector<const Tensor*> inputs = context.inputs();
  return {concatenate(inputs, context.axis(context.int_attribute("axis", 1), inputs[0]->rank()))};
}

/// Before opset 10 starts, ends and axes are attributes and the step is 1.
std::vector<Tensor> run_slice(const NodeContext& context) {
  const Tensor& x = context.input(0);
  const bool by_inputs = context.since_version() >= 10;
  const std::vector<int64_t> starts = by_inputs ? context.integers(1) : context.ints_attribute("starts");
  const std::vector<int64_t> ends = by_inputs ? context.integers(2) : context.ints_attribute("ends");
  const std::vector<int64_t> axes =
      integers_from(context, 3, "axes").value_or(counting(0, static_cast<int64_t>(starts.size())));
  const std::vector<int64_t> steps =
      context.has_input(4) ? context.integers(4) : std::vector<int64_t>(starts.size(), 1);
  context.require(
      starts.size() == ends.size() && starts.size() == axes.size() && starts.size() == steps.size(),
      "starts, ends, axes and steps have {}, {}, {} and {} elements; they must have as many", starts.size(),
      ends.size(), axes.size(), steps.size());
  context.axis_flags(axes, x.rank());  // no axis twice
  std::vector<std::vector<int64_t>> maps = identity_maps(x.shape());
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = context.axis(axes[i], x.rank());
    const int64_t extent = x.shape()[axis];
    context.require(steps[i] != 0, "the step of axis {} is 0", axis);
    // A larger step takes the same elements and could overflow.
    const int64_t step = std::clamp(steps[i], -extent - 1, extent + 1);
    const int64_t lowest = step > 0 ? 0 : -1;
    const int64_t highest = step > 0 ? extent : extent - 1;
    const auto place = [&](int64_t index, int64_t low) {
      return std::clamp(index < 0 ? index + extent : index, low, std::max(low, highest));
    };
    const int64_t start = place(starts[i], 0);
    const int64_t end = place(ends[i], lowest);
    const int64_t distance = step > 0 ? end - start : start - end;
    const int64_t length = step > 0 ? step : -step;
    maps[axis] = counting(start, extent == 0 || distance <= 0 ? 0 : (distance + length - 1) / length, step);
  }
  return {take_by_axes(x, maps)};
}

/// Before opset 11 pads and value are attributes. Negative padding removes.
std::vector<Tensor> run_pad(const NodeContext& context) {
  const Tensor& x = context.input(0);
  const int version = context.since_version();
  const std::vector<int64_t> pads =
      version >= 11 ? context.integers(1) : context.ints_attribute(version == 1 ? "paddings" : "pads");
  const size_t rank = x.shape().size();
  context.require(pads.size() == 2 * rank, "pads has {} elements; allowed is {}", pads.size(), 2 * rank);
  const std::string mode = context.string_attribute("mode");
  context.require(mode == "constant" || mode == "reflect" || mode == "edge",
                  "mode is '{}'; allowed are constant, reflect and edge", mode);
  std::optional<Tensor> fill;
  if (context.has_input(2)) {
    context.require(context.input(2).size() == 1, "constant_value has shape {}; allowed is a scalar",
                    shape_to_string(context.input(2).shape()));
    context.require_same_type(x, context.input(2));
    fill = context.input(2);
  } else if (version < 11) {
    fill = Tensor(x.type(), {});
    for_float_type(context, x.type(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      fill->data<T>()[0] = to_element<T>(context.float_attribute("value"));
    });
  }
  std::vector<std::vector<int64_t>> maps;
  for (size_t axis = 0; axis < rank; ++axis) {
    constexpr int64_t kLargest = int64_t{1} << 33;
    context.require(std::abs(std::clamp(pads[axis], -kLargest, kLargest)) < kLargest &&
                        std::abs(std::clamp(pads[rank + axis], -kLargest, kLargest)) < kLargest,
                    "pads holds {} and {}, which is too large", pads[axis], pads[rank + axis]);
    const int64_t extent = x.shape()[axis];
    const int64_t padded = extent + pads[axis] + pads[rank + axis];
    context.require(padded >= 0, "pads {} and {} remove more than the {} elements of axis {}", pads[axis],
                    pads[rank + axis], extent, axis);
    context.require(mode == "constant" || extent > 0 || padded == 0,
                    "axis {} is empty: there is nothing to repeat", axis);
    std::vector<int64_t> map = counting(-pads[axis], padded);
    for (int64_t& index : map) {
      if (index >= 0 && index < extent) continue;
      if (mode == "constant") {
        index = -1;
      } else if (mode == "edge") {
        index = std::clamp<int64_t>(index, 0, extent - 1);
      } else {
        const int64_t period = std::max<int64_t>(1, 2 * (extent - 1));
        index = ((index % period) + period) % period;
        if (index >= extent) index = period - index;
      }
    }
    maps.push_back(std::move(map));
  }
  return {take_by_axes(x, maps, fill ? &*fill : nullptr)};
}

std::vector<Tensor> run_expand(const NodeContext& context) {
  const Tensor& x = context.input(0);
  Shape shape = context.integers(1);
  element_count(shape);  // refuses negative extents
  // The given shape and the input's broadcast to each other.
  const size_t rank = std::max(shape.size(), x.shape().size());
  shape.insert(shape.begin(), rank - shape.size(), 1);
  const size_t missing = rank - x.shape().size();
  for (size_t axis = 0; axis < x.shape().size(); ++axis) {
    int64_t& extent = shape[missing + axis];
    const int64_t own = x.shape()[axis];
    context.require(own == extent || own == 1 || extent == 1, "shape {} can't be broadcast to {}",
                    shape_to_string(x.shape()), shape_to_string(context.integers(1)));
    if (extent == 1) extent = own;
  }
  return {broadcast_to(x, shape)};
}

/// Version 1 repeats one axis; from 6 on there is a factor per axis.
std::vector<Tensor> run_tile(const NodeContext& context) {
  const Tensor& x = context.input(0);
  std::vector<int64_t> repeats(x.shape().size(), 1);
  if (context.since_version() < 6) {
    const double tiles = context.scalar(1);
    const size_t axis = context.axis(static_cast<int64_t>(context.scalar(2)), x.rank());
    repeats[axis] = static_cast<int64_t>(tiles);
  } else {
    repeats = context.integers(1);
  }
  context.require(static_cast<int64_t>(repeats.size()) == x.rank(), "repeats has {} elements; allowed is {}",
                  repeats.size(), x.rank());
  Shape shape = x.shape();
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    context.require(repeats[axis] >= 0 && repeats[axis] < (int64_t{1} << 33), "repeats holds {}",
                    repeats[axis]);
    shape[axis] = element_count({shape[axis], repeats[axis]});
  }
  std::vector<std::vector<int64_t>> maps;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    maps.push_back(element_count(shape) == 0 ? std::vector<int64_t>() : counting(0, shape[axis]));
    for (int64_t& index : maps.back()) index %= x.shape()[axis];
  }
  if (element_count(shape) == 0) return {Tensor(x.type(), shape)};
  return {take_by_axes(x, maps)};
}

/// The sizes come from an attribute (2, 11) or an input (1, 13), or are equal.
std::vector<Tensor> run_split(const NodeContext& context) {
  const Tensor& x = context.input(0);
  const size_t axis = context.axis(context.int_attribute("axis", 0), x.rank());
  const int64_t extent = x.shape()[axis];
  const auto parts = static_cast<int64_t>(context.output_count());
  std::optional<std::vector<int64_t>> sizes = integers_from(context, 1, "split");
  if (!sizes) {
    context.require(parts > 0 && extent % parts == 0,
                    "axis {} of extent {} can't be split into {} equal parts", axis, extent, parts);
    sizes = std::vector<int64_t>(static_cast<size_t>(parts), extent / parts);
  }
  int64_t sum = 0;
  for (const int64_t size : *sizes) {
    context.require(size >= 0 && size <= extent, "split holds {}; allowed is 0 to {}", size, extent);
    sum += size;
  }
  context.require(static_cast<int64_t>(sizes->size()) == parts && sum == extent,
                  "split has {} sizes with sum {}; allowed are {} with sum {}", sizes->size(), sum, parts,
                  extent);
  std::vector<Tensor> results;
  int64_t begin = 0;
  for (const int64_t size : *sizes) {
    std::vector<std::vector<int64_t>> maps = identity_maps(x.shape());
    maps[axis] = counting(begin, size);
    results.push_back(take_by_axes(x, maps));
    begin += size;
  }
  return results;
}

struct Blocks {
  int64_t n, c, h, w, size;
};

Blocks blocks_of(const NodeContext& context) {
  const Tensor& x = context.input(0);
  context.require(x.rank() == 4, "the input has shape {}; allowed is [N, C, H, W]",
                  shape_to_string(x.shape()));
  const int64_t size = context.int_attribute("blocksize");
  context.require(size >= 1 && size < (int64_t{1} << 20), "blocksize is {}", size);
  return {x.shape()[0], x.shape()[1], x.shape()[2], x.shape()[3], size};
}

std::vector<Tensor> run_depth_to_space(const NodeContext& context) {
  const auto [n, c, h, w, b] = blocks_of(context);
  context.require(c % (b * b) == 0, "{} channels are no multiple of blocksize squared, {}", c, b * b);
  const bool column_row_depth = context.has_attribute("mode") && context.string_attribute("mode") == "CRD";
  const int64_t depth = c / (b * b);
  const Shape split = column_row_depth ? Shape{n, depth, b, b, h, w} : Shape{n, b, b, depth, h, w};
  const std::vector<size_t> order =
      column_row_depth ? std::vector<size_t>{0, 1, 4, 2, 5, 3} : std::vector<size_t>{0, 3, 4, 1, 5, 2};
  return {transpose(context.input(0).reshaped(split), order).reshaped({n, depth, h * b, w * b})};
}

std::vector<Tensor> run_space_to_depth(const NodeContext& context) {
  const auto [n, c, h, w, b] = blocks_of(context);
  context.require(h % b == 0 && w % b == 0, "height {} and width {} must be multiples of blocksize {}", h, w,
                  b);
  const Tensor split = context.input(0).reshaped({n, c, h / b, b, w / b, b});
  return {transpose(split, {0, 3, 5, 1, 2, 4}).reshaped({n, c * b * b, h / b, w / b})};
}

std::vector<Tensor> run_reverse_sequence(const NodeContext& context) {
  const Tensor& x = context.input(0);
  const int64_t batch_axis = context.int_attribute("batch_axis");
  const int64_t time_axis = context.int_attribute("time_axis");
  context.require(
      x.rank() >= 2 && ((batch_axis == 0 && time_axis == 1) || (batch_axis == 1 && time_axis == 0)),
      "batch_axis {} and time_axis {}; allowed are 0 and 1 in either order on rank 2 and more", batch_axis,
      time_axis);
  const std::vector<int64_t> lengths = context.integers(1);
  const auto batch = static_cast<size_t>(batch_axis);
  const auto time = static_cast<size_t>(time_axis);
  context.require(static_cast<int64_t>(lengths.size()) == x.shape()[batch],
                  "sequence_lens has {} elements; allowed is {}", lengths.size(), x.shape()[batch]);
  const Strides strides = strides_of(x.shape());
  std::vector<int64_t> offsets = strided_offsets(x.shape(), strides);
  for (int64_t& offset : offsets) {
    const int64_t length = lengths[static_cast<size_t>(offset / strides[batch] % x.shape()[batch])];
    context.require(length >= 0 && length <= x.shape()[time], "a sequence has length {}; allowed is 0 to {}",
                    length, x.shape()[time]);
    const int64_t at = offset / strides[time] % x.shape()[time];
    if (at < length) offset += (length - 1 - 2 * at) * strides[time];
  }
  return {take(x, x.shape(), offsets)};
}

std::vector<Tensor> run_trilu(const NodeContext& context) {
  const Tensor& x = context.input(0);
  context.require(x.rank() >= 2, "the input has shape {}; allowed is rank 2 and more",
                  shape_to_string(x.shape()));
  const bool upper = context.int_attribute("upper") != 0;
  const int64_t diagonal = context.has_input(1) ? context.integer_scalar(1) : 0;
  const int64_t columns = x.shape().back();
  const int64_t rows = x.shape()[x.shape().size() - 2];
  std::vector<int64_t> offsets = strided_offsets(x.shape(), strides_of(x.shape()));
  // Beyond the matrix's corners a diagonal makes no difference.
  const int64_t shift = std::clamp(diagonal, -rows - 1, columns + 1);
  for (int64_t& offset : offsets) {
    const int64_t distance = offset % columns - offset / columns % rows - shift;
    if (upper ? distance < 0 : distance > 0) offset = -1;
  }
  return {take(x, x.shape(), offsets)};
}

}  // namespace

void register_movement(KernelRegistry& registry) {
  registry.add_of_values("Identity", run_identity);
  registry.add("Reshape", run_reshape);
  registry.add("Flatten", run_flatten);
  registry.add("Squeeze", run_squeeze);
  registry.add("Unsqueeze", run_unsqueeze);
  registry.add("Transpose", run_transpose);
  registry.add("Concat", run_concat);
  registry.add("Slice", run_slice);
  registry.add("Pad", run_pad);
  registry.add("Expand", run_expand);
  registry.add("Tile", run_tile);
  registry.add("Split", run_split);
  registry.add("DepthToSpace", run_depth_to_space);
  registry.add("SpaceToDepth", run_space_to_depth);
  registry.add("ReverseSequence", run_reverse_sequence);
  registry.add("Trilu", run_trilu);
}

}  // namespace kodama::compiler::reference
