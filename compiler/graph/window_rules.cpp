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
  WindowRule{.x = 0}(o);
  check_same_shape(o, 0, 1);
  list_of_integers(2)(o);
  check_one_per_axis(o, o.size(2), 0, o.describe(2));
  if (const auto extents = o.integers(2)) check_extents(o, *extents, 0, o.describe(2));
}

/// Resize and Upsample: factors or extents, an operand or an attribute.
void check_resize(const NodeOperands& o) {
  one_of("mode", {"nearest", "linear", "cubic", "bilinear"})(o);
  const bool with_roi = o.node().op_type() == "Resize" && o.since_version() >= 11;
  const auto rank = o.rank(0);
  std::vector<double> scales;
  std::string what = "attribute scales";
  if (const auto* given = find_attribute(o.node(), "scales")) {
    scales.assign(given->floats().begin(), given->floats().end());
  }
  const int at = with_roi ? 2 : 1;
  for (int i = 1; i < o.input_count(); ++i) rank_of(i, 1)(o);
  if (o.has(at)) {
    what = o.describe(at);
    const Tensor* values = o.constant(at);
    for (int64_t k = 0; values != nullptr && k < values->size(); ++k) {
      scales.push_back(element_as_double(*values, k));
    }
  }
  if (with_roi) {
    if (const auto sizes = o.integers(3); sizes && rank) {
      check_one_per_axis(o, static_cast<int64_t>(sizes->size()), 0, o.describe(3));
      check_extents(o, *sizes, 1, o.describe(3));
    }
  }
  if (!rank || scales.empty()) return;
  check_one_per_axis(o, static_cast<int64_t>(scales.size()), 0, what);
  for (size_t k = 0; k < scales.size(); ++k) {
    const auto extent = o.extent(0, static_cast<int64_t>(k));
    const double result = scales[k] * static_cast<double>(extent.value_or(1));
    o.require(scales[k] > 0 && result <= static_cast<double>(kMaxTensorElements),
              "{} holds {}; positive factors that give at most {} elements are allowed", what, scales[k],
              kMaxTensorElements);
  }
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
                             ChannelRule{.x = 0, .w = 1, .bias = 2, .transposed = true}}};
  for (const char* op : {"MaxPool", "AveragePool"}) rules[op] = {{WindowRule{.x = 0}}};
  rules["LpPool"] = {{WindowRule{.x = 0}, positive("p")}};
  for (const char* op : {"GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"})
    rules[op] = {{rank_at_least(0, 3)}};
  rules["MaxUnpool"] = {{check_max_unpool}, {2}};
  rules["Resize"] = {{rank_at_least(0, 1), check_resize}, {2, 3}};
  rules["Upsample"] = {{rank_at_least(0, 1), check_resize}};
  rules["RoiAlign"] = {{rank_of(0, 4), rank_of(1, 2), rank_of(2, 1), positive("output_height"),
                        positive("output_width"), one_of("mode", {"avg", "max"})}};
  rules["MaxRoiPool"] = {
      {rank_of(0, 4), rank_of(1, 2), extents_attribute("pooled_shape"), [](const NodeOperands& o) {
         const auto pooled = o.integers("pooled_shape");
         o.require(pooled && pooled->size() == 2, "attribute pooled_shape must have 2 values");
       }}};
  rules["NonMaxSuppression"] = {
      {rank_of(0, 3), rank_of(1, 3), one_element(2), one_element(3), one_element(4)}, {0}};
  rules["GridSample"] = {{rank_of(0, 4), rank_of(1, 4)}};
}

}  // namespace kodama::compiler::rules
