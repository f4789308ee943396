#include <algorithm>

#include "compiler/graph/onnx_model.h"
#include "compiler/graph/operator_checks.h"

namespace kodama::compiler::rules {

namespace {

/// Windows of Conv and the pools: x is the data, w the filter or -1.
struct WindowRule {
  int x = 0;
  int w = -1;
  bool transposed = false;

  void operator()(const NodeOperands& o) const {
    one_of("auto_pad", {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"})(o);
    rank_at_least(x, 3)(o);
    if (w >= 0) same_rank(w, x)(o);
    const auto rank = o.rank(x);
    const auto given = o.integers("kernel_shape");
    const auto stated = [&](const char* name, size_t count, int64_t lowest) {
      const auto values = o.integers(name);
      if (!values) return Shape();
      o.require(!rank || values->size() == count, "attribute {} has {} values; {} are needed for {}", name,
                values->size(), count, o.describe(x));
      for (int64_t value : *values) {
        o.require(value >= lowest && value < kLargestParameter,
                  "attribute {} holds {}; {} to 2^31-1 is allowed", name, value, lowest);
      }
      return *values;
    };
    const size_t spatial = rank ? static_cast<size_t>(*rank) - 2 : 0;
    Shape kernel = stated("kernel_shape", spatial, 1);
    Shape strides = stated("strides", spatial, 1);
    Shape dilations = stated("dilations", spatial, 1);
    Shape pads = stated("pads", 2 * spatial, 0);
    stated("output_padding", spatial, 0);
    stated("output_shape", spatial, 1);
    if (!rank) return;
    if (w >= 0 && o.rank(w)) {
      Shape filter;
      for (size_t k = 0; k < spatial; ++k) {
        const auto extent = o.extent(w, static_cast<int64_t>(k) + 2);
        if (!extent) return;
        o.require(*extent >= 1, "{} is an empty filter", o.describe(w));
        filter.push_back(*extent);
      }
      o.require(kernel.empty() || kernel == filter, "attribute kernel_shape is {}, but {} has extents {}",
                shape_to_string(kernel), o.describe(w), shape_to_string(filter));
      kernel = filter;
    }
    if (kernel.empty()) return;
    check_window_size(o, kernel);
    if (strides.empty()) strides.assign(spatial, 1);
    if (dilations.empty()) dilations.assign(spatial, 1);
    if (pads.empty()) pads.assign(2 * spatial, 0);
    const std::string auto_pad = o.text("auto_pad").value_or("NOTSET");
    if (auto_pad == "VALID") pads.assign(2 * spatial, 0);
    const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
    for (size_t k = 0; k < spatial; ++k) {
      const auto extent = o.extent(x, static_cast<int64_t>(k) + 2);
      const int64_t reach = (kernel[k] - 1) * dilations[k] + 1;
      if (!extent || same || transposed) continue;
      const int64_t room = std::min(*extent, kLargestParameter) + pads[k] + pads[spatial + k];
      o.require(room >= reach,
                "the kernel reaches over {} elements of spatial axis {}, but {} has {} there{}", reach, k,
                o.describe(x), *extent, room == *extent ? "" : fmt::format(" ({} with pads)", room));
    }
  }

  static void check_window_size(const NodeOperands& o, const Shape& kernel) {
    int64_t elements = 1;
    for (int64_t extent : kernel) {
      o.require(!__builtin_mul_overflow(elements, extent, &elements) && elements <= kMaxTensorElements,
                "the kernel is {}; a window of at most {} elements is allowed", shape_to_string(kernel),
                kMaxTensorElements);
    }
  }
};

/// Channels and groups of a convolution. `transposed`: the filter is [C, M / group, ...].
struct ChannelRule {
  int x = 0;
  int w = 1;
  int bias = 2;
  bool transposed = false;

  void operator()(const NodeOperands& o) const {
    positive("group")(o);
    const int64_t group = o.integer("group").value_or(1);
    if (!o.rank(x) || !o.rank(w)) return;
    const auto channels = o.extent(x, 1);
    const auto first = o.extent(w, 0);
    const auto second = o.extent(w, 1);
    if (!channels || !first || !second) return;
    if (transposed) {
      o.require(*channels == *first, "{} has {} channels, {} is for {}", o.describe(x), *channels,
                o.describe(w), *first);
    } else {
      int64_t expected = 0;
      o.require(!__builtin_mul_overflow(*second, group, &expected) && *channels == expected,
                "{} has {} channels, {} is for {} in each of {} groups", o.describe(x), *channels,
                o.describe(w), *second, group);
    }
    o.require(*first % group == 0, "axis 0 of {} isn't a multiple of attribute group, which is {}",
              o.describe(w), group);
    if (bias < 0 || !o.has(bias)) return;
    rank_of(bias, 1)(o);
    int64_t outputs = *first;
    if (transposed && __builtin_mul_overflow(*second, group, &outputs)) return;
    if (const auto size = o.extent(bias, 0)) {
      o.require(*size == outputs, "{} has {} elements; {}, the number of output channels, are allowed",
                o.describe(bias), *size, outputs);
    }
  }
};

void check_max_unpool(const NodeOperands& o) {
  WindowRule{.x = 0, .transposed = true}(o);
  check_same_shape(o, 0, 1);
  list_of_integers(2)(o);
  check_one_per_axis(o, o.size(2), 0, o.describe(2));
  if (const auto extents = o.integers(2)) check_extents(o, *extents, 0, o.describe(2));
}

/// With auto_pad SAME_*: as many times the input's extents as the strides say. libonnx makes them smaller
/// where kernels are smaller than strides.
std::map<int, Shape> infer_conv_transpose(const NodeOperands& o) {
  const std::string auto_pad = o.text("auto_pad").value_or("NOTSET");
  const auto rank = o.rank(0);
  const auto features = o.extent(1, 1);
  const bool has_shape = o.integers("output_shape").has_value();
  if ((auto_pad != "SAME_UPPER" && auto_pad != "SAME_LOWER") || has_shape || !rank || !features) return {};
  const Shape strides = o.integers("strides").value_or(Shape(static_cast<size_t>(*rank) - 2, 1));
  Shape shape;
  for (int64_t axis = 0; axis < *rank; ++axis) {
    const auto extent = o.extent(0, axis);
    if (!extent || (axis > 1 && *extent > kLargestParameter)) return {};
    shape.push_back(axis == 0   ? *extent
                    : axis == 1 ? *features * o.integer("group").value_or(1)
                                : *extent * strides[static_cast<size_t>(axis) - 2]);
  }
  return {{0, shape}};
}

}  // namespace

void add_window_rules(RuleTable& rules) {
  rules["Conv"] = {{WindowRule{.x = 0, .w = 1}, ChannelRule{.x = 0, .w = 1, .bias = 2}}};
  rules["ConvInteger"] = {{WindowRule{.x = 0, .w = 1}, ChannelRule{.x = 0, .w = 1, .bias = -1},
                           one_element(2), rank_between(3, 0, 1)}};
  rules["QLinearConv"] = {{WindowRule{.x = 0, .w = 3}, ChannelRule{.x = 0, .w = 3, .bias = 8}, one_element(1),
                           one_element(2), one_element(6), one_element(7), rank_between(4, 0, 1),
                           rank_between(5, 0, 1)}};
  rules["ConvTranspose"] = {{WindowRule{.x = 0, .w = 1, .transposed = true},
                             ChannelRule{.x = 0, .w = 1, .bias = 2, .transposed = true}},
                            {},
                            infer_conv_transpose};
  for (const char* op : {"MaxPool", "AveragePool"}) rules[op] = {{WindowRule{.x = 0}}};
  rules["LpPool"] = {{WindowRule{.x = 0}, [](const NodeOperands& o) {
                        if (o.since_version() >= 2) positive("p")(o);  // before, it was a float
                      }}};
  for (const char* op : {"GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"})
    rules[op] = {{rank_at_least(0, 3)}};
  rules["MaxUnpool"] = {{check_max_unpool}, {2}};
}

}  // namespace kodama::compiler::rules
