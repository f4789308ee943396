#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/graph/downgrade_rules.h"
#include "compiler/proto/tensor_proto.h"

/// Pools, pictures and paddings of opset 18 to 21.
namespace kodama::compiler::downgrade {

namespace {

/// Keeps sums and products of extents far from overflow.
constexpr int64_t kLargestExtent = int64_t{1} << 31;

std::string concat(NodeDowngrade& n, const std::vector<std::string>& lists) {
  return n.add("Concat", lists, {along(0)});
}
std::string shape_from(NodeDowngrade& n, const std::string& x, int64_t start) {
  return n.add("Shape", {x}, {onnx::MakeAttribute("start", start)});
}
/// A tensor of one number; `shape` is a list.
std::string filled(NodeDowngrade& n, const std::string& shape, const Tensor& value) {
  return n.add("ConstantOfShape", {shape}, {onnx::MakeAttribute("value", tensor_to_proto(value, ""))});
}
Tensor one_integer(int64_t value) {
  return Tensor::from_values<int64_t>(kInt64, {1}, {value});
}
Tensor one_float(float value) {
  return Tensor::from_values<float>(kFloat, {1}, {value});
}
/// A list with a 1 for every axis of x: its length is the rank.
std::string rank_of(NodeDowngrade& n, const std::string& x) {
  return n.add("Shape", {n.add("Shape", {x})});
}

/// The window of a pool; lists have a value per spatial axis, pads two.
struct PoolWindow {
  std::vector<int64_t> kernel, strides, dilations, pads;
  std::string auto_pad;
  bool rounds_up = false;

  bool is_explicit() const { return auto_pad == "NOTSET" || auto_pad == "VALID"; }
  bool has_dilations() const {
    return std::ranges::any_of(dilations, [](int64_t value) { return value != 1; });
  }
};

PoolWindow window_of(NodeDowngrade& n) {
  PoolWindow window;
  const auto kernel = n.integers("kernel_shape");
  n.require(kernel && !kernel->empty(), "attribute kernel_shape is missing");
  window.kernel = *kernel;
  const size_t rank = window.kernel.size();
  const auto list = [&](const char* name, size_t length, int64_t absent) {
    const auto values = n.integers(name).value_or(std::vector<int64_t>(length, absent));
    n.require(values.size() == length, "attribute {} has {} values; {} are needed", name, values.size(),
              length);
    for (int64_t value : values)
      n.require(value >= absent && value < kLargestExtent,
                "attribute {} holds {}; it must be from {} to 2^31", name, value, absent);
    return values;
  };
  for (int64_t extent : window.kernel)
    n.require(extent >= 1, "attribute kernel_shape holds {}; it must be positive", extent);
  window.strides = list("strides", rank, 1);
  window.dilations = list("dilations", rank, 1);
  window.pads = list("pads", 2 * rank, 0);
  window.auto_pad = n.text("auto_pad", "NOTSET");
  if (window.auto_pad != "NOTSET") window.pads.assign(2 * rank, 0);
  window.rounds_up = n.integer("ceil_mode", 0) != 0;
  return window;
}

/// Sums over windows, as a convolution of pictures with one channel, [m, 1, spatial...], with ones.
std::string window_sums(NodeDowngrade& n, const PoolWindow& window, const std::string& pictures,
                        bool has_pads = true) {
  Shape ones_shape = {1, 1};
  ones_shape.insert(ones_shape.end(), window.kernel.begin(), window.kernel.end());
  constexpr int64_t kLargest = int64_t{1} << 20;
  const int64_t count = element_count(ones_shape);
  n.require(count <= kLargest, "a window of {} elements; at most {} are supported", count, kLargest);
  const std::string ones =
      n.add("CastLike", {n.constant(Tensor::from_values<float>(
                             kFloat, ones_shape, std::vector<float>(static_cast<size_t>(count), 1.0F))),
                         pictures});
  NodeDowngrade::Attributes attributes = {onnx::MakeAttribute("strides", window.strides),
                                          onnx::MakeAttribute("dilations", window.dilations)};
  if (window.is_explicit()) {
    std::vector<int64_t> pads = has_pads ? window.pads : std::vector<int64_t>(window.pads.size(), 0);
    // Rounding the number of windows up is one more wherever a stride isn't full.
    for (size_t k = 0; window.rounds_up && k < window.strides.size(); ++k)
      pads[window.strides.size() + k] += window.strides[k] - 1;
    attributes.push_back(onnx::MakeAttribute("pads", pads));
  } else {
    attributes.push_back(onnx::MakeAttribute("auto_pad", window.auto_pad));
  }
  return n.add("Conv", {pictures, ones}, attributes);
}

/// x [N, C, spatial...] as [N * C, 1, spatial...].
std::string as_pictures(NodeDowngrade& n, const std::string& x) {
  return n.add("Reshape", {x, concat(n, {n.integers_constant({-1, 1}), shape_from(n, x, 2)})});
}

/// Back to N and C of x.
void finish_pictures(NodeDowngrade& n, const std::string& pictures, const std::string& x) {
  const std::string leading = n.add("Shape", {x}, {onnx::MakeAttribute("end", int64_t{2})});
  n.finish("Reshape", {pictures, concat(n, {leading, shape_from(n, pictures, 2)})});
}

/// A list scattered over the places `axes` of `base`, along its last axis.
std::string scatter_over_axes(NodeDowngrade& n, const std::string& base, const std::vector<int64_t>& axes,
                              const std::string& values, int64_t rows = 0) {
  std::vector<int64_t> indices;
  for (int64_t row = 0; row < std::max<int64_t>(rows, 1); ++row)
    indices.insert(indices.end(), axes.begin(), axes.end());
  Shape shape = {static_cast<int64_t>(axes.size())};
  if (rows > 0) shape.insert(shape.begin(), rows);
  const std::string places = n.constant(Tensor::from_values<int64_t>(kInt64, shape, indices));
  return n.add("ScatterElements", {base, places, values}, {along(rows > 0 ? 1 : 0)});
}

}  // namespace

void average_pool(NodeDowngrade& n) {
  const PoolWindow window = window_of(n);
  if (!window.has_dilations()) {
    n.remove("dilations");
    return n.keep();
  }
  const std::string x = n.input(0);
  const bool counts_pads = n.integer("count_include_pad", 0) != 0;
  const std::string pictures = as_pictures(n, x);
  std::string sums = window_sums(n, window, pictures);
  std::string counts;
  if (counts_pads && (!window.rounds_up || !window.is_explicit())) {
    double count = 1;
    for (int64_t extent : window.kernel) count *= static_cast<double>(extent);
    counts = n.number_like(count, x);
  } else {
    const std::string shape = concat(n, {n.integers_constant({1, 1}), shape_from(n, x, 2)});
    std::string ones = n.add("CastLike", {filled(n, shape, one_float(1)), x});
    if (counts_pads) {
      const size_t rank = window.kernel.size();
      std::vector<int64_t> pads(2 * rank + 4, 0);
      std::copy_n(window.pads.begin(), rank, pads.begin() + 2);
      std::copy_n(window.pads.begin() + static_cast<int64_t>(rank), rank,
                  pads.begin() + 4 + static_cast<int64_t>(rank));
      ones = n.add("Pad", {ones, n.integers_constant(pads), n.number_like(1, x)});
    }
    counts = window_sums(n, window, ones, !counts_pads);
  }
  std::string means = n.add("Div", {sums, counts});
  if (window.rounds_up && window.is_explicit()) {
    // Windows that would begin in the padding behind the picture don't count.
    const size_t rank = window.kernel.size();
    std::vector<int64_t> before, axes;
    for (size_t k = 0; k < rank; ++k) {
      before.push_back(window.pads[k] - 1);
      axes.push_back(static_cast<int64_t>(k) + 2);
    }
    const std::string last = n.add("Div", {n.add("Add", {shape_from(n, x, 2), n.integers_constant(before)}),
                                           n.integers_constant(window.strides)});
    const std::string ends = n.add("Add", {last, n.integer_constant(1)});
    means = n.add("Slice", {means, n.integers_constant(std::vector<int64_t>(rank, 0)), ends,
                            n.integers_constant(axes)});
  }
  finish_pictures(n, means, x);
}

void lp_pool(NodeDowngrade& n) {
  const PoolWindow window = window_of(n);
  if (!window.has_dilations() && !window.rounds_up) {
    n.remove("dilations");
    n.remove("ceil_mode");
    return n.keep();
  }
  const std::string x = n.input(0);
  const int64_t p = n.integer("p", 2);
  n.require(p >= 1, "p is {}; it must be positive", p);
  const std::string powers =
      n.add("Pow", {n.add("Abs", {as_pictures(n, x)}), n.number_like(static_cast<double>(p), x)});
  const std::string sums = window_sums(n, window, powers);
  finish_pictures(n, n.add("Pow", {sums, n.number_like(1.0 / static_cast<double>(p), x)}), x);
}

void col2im(NodeDowngrade& n) {
  const std::string x = n.input(0);
  const std::vector<int64_t> image = n.integers(1);
  const std::vector<int64_t> block = n.integers(2);
  const size_t rank = image.size();
  n.require(rank >= 1 && block.size() == rank,
            "image_shape has {} elements, block_shape {}; both need one per spatial axis", rank,
            block.size());
  const auto list = [&](const char* name, size_t length, int64_t absent) {
    const auto values = n.integers(name).value_or(std::vector<int64_t>(length, absent));
    n.require(values.size() == length, "attribute {} has {} values; {} are needed", name, values.size(),
              length);
    for (int64_t value : values)
      n.require(value >= absent && value < kLargestExtent, "attribute {} holds {}", name, value);
    return values;
  };
  const std::vector<int64_t> strides = list("strides", rank, 1);
  const std::vector<int64_t> dilations = list("dilations", rank, 1);
  const std::vector<int64_t> pads = list("pads", 2 * rank, 0);
  // Blocks as the pixels of a small picture, their elements as its channels: the transposed convolution adds
  // each to its place. N and C are one axis.
  std::vector<int64_t> grid, missing;
  int64_t elements = 1;
  for (size_t k = 0; k < rank; ++k) {
    constexpr int64_t kLargest = 1 << 12;
    n.require(block[k] >= 1 && image[k] >= 1 && image[k] < kLargestExtent,
              "image_shape {} and block_shape {} must be positive, and below {}", shape_to_string(image),
              shape_to_string(block), kLargestExtent);
    n.require(block[k] <= kLargest && (elements *= block[k]) <= kLargest,
              "a block of shape {} is too large; at most {} elements are supported", shape_to_string(block),
              kLargest);
    const int64_t reach = dilations[k] * (block[k] - 1) + 1;
    const int64_t room = image[k] + pads[k] + pads[rank + k] - reach;
    n.require(room >= 0, "a block of shape {} is larger than the image {}", shape_to_string(block),
              shape_to_string(image));
    grid.push_back(room / strides[k] + 1);
    missing.push_back(room % strides[k]);
  }
  Shape weight_shape = {elements, 1};
  weight_shape.insert(weight_shape.end(), block.begin(), block.end());
  std::vector<float> weights(static_cast<size_t>(elements * elements), 0.0F);
  for (int64_t k = 0; k < elements; ++k) weights[static_cast<size_t>(k * elements + k)] = 1;
  std::vector<int64_t> small = {-1, elements};
  small.insert(small.end(), grid.begin(), grid.end());
  const std::string pixels = n.add("Reshape", {x, n.integers_constant(small)});
  const std::string placing =
      n.add("CastLike", {n.constant(Tensor::from_values<float>(kFloat, weight_shape, weights)), x});
  const std::string images =
      n.add("ConvTranspose", {pixels, placing},
            {onnx::MakeAttribute("strides", strides), onnx::MakeAttribute("dilations", dilations),
             onnx::MakeAttribute("pads", pads), onnx::MakeAttribute("output_padding", missing)});
  const std::string batch = n.add("Shape", {x}, {onnx::MakeAttribute("end", int64_t{1})});
  std::vector<int64_t> rest = {-1};
  rest.insert(rest.end(), image.begin(), image.end());
  n.finish("Reshape", {images, concat(n, {batch, n.integers_constant(rest)})});
}

void affine_grid(NodeDowngrade& n) {
  const std::string theta = n.input(0);
  const std::vector<int64_t> size = n.integers(1);
  n.require(size.size() == 4 || size.size() == 5, "its operand size has {} elements; 4 and 5 are allowed",
            size.size());
  const bool has_corners = n.integer("align_corners", 0) != 0;
  const std::vector<int64_t> extents(size.begin() + 2, size.end());
  const size_t rank = extents.size();
  // Homogeneous positions, x first: a row of points, and a column of theta each.
  std::vector<std::string> coordinates;
  for (size_t k = rank; k-- > 0;) {
    const int64_t extent = extents[k];
    n.require(extent >= 1 && extent <= (1 << 20), "its operand size holds {}", extent);
    std::vector<double> places;
    for (int64_t i = 0; i < extent; ++i) {
      const auto at = static_cast<double>(i);
      const auto all = static_cast<double>(extent);
      places.push_back(!has_corners ? (2 * at + 1) / all - 1 : extent == 1 ? 0 : 2 * at / (all - 1) - 1);
    }
    Shape shape(rank + 1, 1);
    shape[k] = extent;
    Shape whole = extents;
    whole.push_back(1);
    const std::string line =
        n.add("CastLike", {n.constant(Tensor::from_values<double>(kDouble, shape, places)), theta});
    coordinates.push_back(n.add("Expand", {line, n.integers_constant(whole)}));
  }
  Shape whole = extents;
  whole.push_back(1);
  coordinates.push_back(n.add("CastLike", {filled(n, n.integers_constant(whole), one_float(1)), theta}));
  const std::string positions = n.add("Concat", coordinates, {along(-1)});
  const std::string rows =
      n.add("Reshape", {positions, n.integers_constant({1, -1, static_cast<int64_t>(rank) + 1})});
  const std::string columns =
      n.add("Transpose", {theta}, {onnx::MakeAttribute("perm", std::vector<int64_t>{0, 2, 1})});
  std::vector<int64_t> result = {size[0]};
  result.insert(result.end(), extents.begin(), extents.end());
  result.push_back(static_cast<int64_t>(rank));
  n.finish("Reshape", {n.add("MatMul", {rows, columns}), n.integers_constant(result)});
}

void resize(NodeDowngrade& n) {
  const std::string x = n.input(0);
  onnx::NodeProto& node = n.node();
  const auto operand = [&](int index) { return n.has_input(index) ? node.input(index) : std::string(); };
  std::string roi = operand(1);
  std::string scales = operand(2);
  std::string sizes = operand(3);
  const auto known_scales = scales.empty() ? nullptr : n.values().constant(scales);
  const auto all_scales = [&](auto holds) {
    if (known_scales == nullptr || element_size(known_scales->type()) == 0) return false;
    for (int64_t i = 0; i < known_scales->size(); ++i) {
      if (!holds(element_as_double(*known_scales, i))) return false;
    }
    return true;
  };
  if (n.integer("antialias", 0) != 0 && n.text("mode", "nearest") != "nearest" &&
      !all_scales([](double scale) { return scale >= 1; })) {
    n.refuse("antialias=1 where a picture may shrink", "export with antialias=0, or resize before the model");
  }
  n.remove("antialias");
  const std::string mode = n.text("coordinate_transformation_mode", "half_pixel");
  if (mode == "half_pixel_symmetric") {
    // They differ only where the scaled extent is no whole number.
    const bool is_whole = all_scales([](double scale) { return scale >= 1 && scale == std::floor(scale); });
    if (sizes.empty() && !is_whole)
      n.refuse("coordinate_transformation_mode half_pixel_symmetric with scales that aren't whole",
               "give sizes instead of scales, or use half_pixel");
    set_attribute(node, "coordinate_transformation_mode", onnx::AttributeProto_AttributeType_STRING)
        .set_s("half_pixel");
  }
  const auto axes = n.integers("axes");
  n.remove("axes");
  const std::string policy = n.text("keep_aspect_ratio_policy", "stretch");
  n.require(policy == "stretch" || policy == "not_larger" || policy == "not_smaller",
            "keep_aspect_ratio_policy is '{}'; stretch, not_larger and not_smaller are allowed", policy);
  n.remove("keep_aspect_ratio_policy");
  const std::string rank = axes ? rank_of(n, x) : "";
  const std::string shape = axes || policy != "stretch" ? n.add("Shape", {x}) : "";
  if (!sizes.empty() && policy != "stretch") {
    // Coordinates then follow from both extents, as the operator's page says (scale = length_resized /
    // length_original); onnxruntime takes the ratio before rounding.
    const std::string own = axes ? n.add("Gather", {shape, n.integers_constant(*axes)}) : shape;
    const std::string from = n.add("Cast", {own}, {to_type(kDouble)});
    const std::string ratios = n.add("Div", {n.add("Cast", {sizes}, {to_type(kDouble)}), from});
    const std::string ratio = n.add(policy == "not_larger" ? "ReduceMin" : "ReduceMax", {ratios},
                                    {onnx::MakeAttribute("keepdims", int64_t{0})});
    const std::string halves_up = n.add("Add", {n.add("Mul", {from, ratio}), n.number(0.5)});
    sizes = n.add("Cast", {n.add("Floor", {halves_up})}, {to_type(kInt64)});
  }
  if (axes) {
    if (!scales.empty()) scales = scatter_over_axes(n, filled(n, rank, one_float(1)), *axes, scales);
    if (!sizes.empty()) sizes = scatter_over_axes(n, shape, *axes, sizes);
    if (!roi.empty() && mode == "tf_crop_and_resize") {
      const std::string pairs = n.add("Reshape", {roi, n.integers_constant({2, -1})});
      const std::string row = concat(n, {n.integers_constant({1}), rank});
      const std::string all = concat(n, {filled(n, row, one_float(0)), filled(n, row, one_float(1))});
      const std::string spread = scatter_over_axes(n, n.add("CastLike", {all, roi}), *axes, pairs, 2);
      roi = n.add("Reshape", {spread, n.integers_constant({-1})});
    } else {
      roi.clear();
    }
  }
  node.clear_input();
  for (const std::string& name : {x, roi, scales, sizes}) node.add_input(name);
  while (node.input(node.input_size() - 1).empty()) node.mutable_input()->RemoveLast();
  n.keep();
}

void pad(NodeDowngrade& n) {
  onnx::NodeProto& node = n.node();
  const std::string x = n.input(0);
  if (n.text("mode", "constant") == "wrap") {
    // The tensor as a torus: along each axis, element (i - begin) modulo its extent.
    const std::vector<int64_t> pads = n.integers(1);
    n.require(pads.size() % 2 == 0, "its operand pads has {} elements; two per axis are needed", pads.size());
    const size_t count = pads.size() / 2;
    for (int64_t pad : pads) {
      n.require(pad > -kLargestExtent && pad < kLargestExtent, "its operand pads holds {}", pad);
    }
    std::vector<int64_t> axes(count);
    std::iota(axes.begin(), axes.end(), 0);
    if (n.has_input(3)) axes = n.integers(3);
    n.require(axes.size() == count, "its operand pads has {} elements for {} axes", pads.size(), axes.size());
    std::string padded = x;
    for (size_t k = 0; k < count; ++k) {
      if (pads[k] == 0 && pads[count + k] == 0) continue;
      const std::string extent = n.add("Gather", {n.add("Shape", {x}), n.integer_constant(axes[k])});
      const std::string places = n.add(
          "Range", {n.integer_constant(-pads[k]), n.add("Add", {extent, n.integer_constant(pads[count + k])}),
                    n.integer_constant(1)});
      padded = n.add("Gather", {padded, n.add("Mod", {places, extent})}, {along(axes[k])});
    }
    return n.finish("Identity", {padded});
  }
  if (n.has_input(3)) {
    const std::vector<int64_t> axes = n.integers(3);
    const std::string pairs = n.add("Reshape", {n.input(1), n.integers_constant({2, -1})});
    const std::string none = filled(n, concat(n, {n.integers_constant({2}), rank_of(n, x)}), one_integer(0));
    const std::string spread = scatter_over_axes(n, none, axes, pairs, 2);
    node.set_input(1, n.add("Reshape", {spread, n.integers_constant({-1})}));
  }
  while (node.input_size() > 3) node.mutable_input()->RemoveLast();
  n.keep();
}

void center_crop_pad(NodeDowngrade& n) {
  const std::string x = n.input(0);
  const auto axes = n.integers("axes");
  const std::string shape = n.add("Shape", {x});
  const std::string from = axes ? n.add("Gather", {shape, n.integers_constant(*axes)}) : shape;
  const std::string to = n.add("Cast", {n.input(1)}, {to_type(kInt64)});
  const std::string zero = n.integers_constant({0});
  const std::string two = n.integers_constant({2});
  const auto excess = [&](const std::string& a, const std::string& b) {
    return n.add("Max", {n.add("Sub", {a, b}), zero});
  };
  const std::string start = n.add("Div", {excess(from, to), two});
  std::vector<std::string> window = {x, start, n.add("Add", {start, n.add("Min", {from, to})})};
  if (axes) window.push_back(n.integers_constant(*axes));
  const std::string cropped = n.add("Slice", window);
  const std::string lacking = excess(to, from);
  const auto spread = [&](const std::string& values) {
    return axes ? scatter_over_axes(n, filled(n, rank_of(n, x), one_integer(0)), *axes, values) : values;
  };
  const std::string before = n.add("Div", {lacking, two});
  const std::string after = n.add("Sub", {lacking, before});
  n.finish("Pad", {cropped, concat(n, {spread(before), spread(after)})});
}

}  // namespace kodama::compiler::downgrade
