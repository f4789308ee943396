#include "compiler/reference/kernels/resize.h"

#include <algorithm>
#include <cmath>

#include "compiler/reference/kernels/kernel.h"
#include "compiler/reference/kernels/strided.h"

/// Resize and Upsample. Interpolation is separable: an axis is resized after the other, in double precision.
namespace kodama::compiler::reference {

namespace {

/// Where on the original axis element x of the resized one lies.
double original_coordinate(const ResizedAxis& axis, const std::string& mode, int64_t x) {
  const auto at = static_cast<double>(x);
  const auto original = static_cast<double>(axis.original);
  // Not (x + 0.5) / scale: the quotient of two integers is exact where it is an integer.
  const auto unscaled = [&](double value) { return value * original / axis.exact; };
  if (mode == "half_pixel") return unscaled(at + 0.5) - 0.5;
  if (mode == "pytorch_half_pixel") return axis.resized > 1 ? unscaled(at + 0.5) - 0.5 : 0;
  if (mode == "asymmetric") return unscaled(at);
  if (mode == "tf_half_pixel_for_nn") return unscaled(at + 0.5);  // opset 11 only
  // The length of the resized axis is that before it was rounded down, as in ONNX's test data.
  if (mode == "align_corners") return axis.exact == 1 ? 0 : at * (original - 1) / (axis.exact - 1);
  if (mode == "tf_crop_and_resize") {
    const double start = axis.roi_start * (original - 1);
    const double end = axis.roi_end * (original - 1);
    return axis.resized > 1 ? start + at * (end - start) / (static_cast<double>(axis.resized) - 1)
                            : 0.5 * (start + end);
  }
  throw isa::UserError(
      fmt::format("coordinate_transformation_mode is '{}'; allowed are half_pixel, pytorch_half_pixel, "
                  "align_corners, asymmetric and tf_crop_and_resize",
                  mode));
}

double nearest(double coordinate, const std::string& mode) {
  if (mode == "round_prefer_floor") return std::ceil(coordinate - 0.5);
  if (mode == "round_prefer_ceil") return std::floor(coordinate + 0.5);
  if (mode == "floor") return std::floor(coordinate);
  if (mode == "ceil") return std::ceil(coordinate);
  throw isa::UserError(fmt::format(
      "nearest_mode is '{}'; allowed are round_prefer_floor, round_prefer_ceil, floor and ceil", mode));
}

/// Neighbours of the coordinate with their weights, some perhaps beyond the ends.
std::vector<ResizeTap> neighbours(double coordinate, const ResizeOptions& options) {
  const double below = std::floor(coordinate);
  const auto first = static_cast<int64_t>(below);
  const double distance = coordinate - below;
  if (options.mode == "linear") return {{first, 1 - distance}, {first + 1, distance}};
  std::vector<ResizeTap> taps;
  for (int64_t k = -1; k <= 2; ++k) {
    taps.push_back({first + k, cubic_weight(distance - static_cast<double>(k), options.cubic_coeff_a)});
  }
  return taps;
}

/// Options and axes of a node, of any version.
struct ResizePlan {
  ResizeOptions options;
  std::vector<ResizedAxis> axes;
  double extrapolation_value = 0;
};

std::vector<double> numbers(const NodeContext& context, size_t input) {
  const Tensor& tensor = context.input(input);
  context.require(tensor.rank() == 1, "input {} has shape {}; allowed is a list", input,
                  shape_to_string(tensor.shape()));
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.size(); ++i) values.push_back(element_as_double(tensor, i));
  return values;
}

/// The factors of Upsample and Resize until version 10, then the operands roi, scales and sizes.
ResizePlan plan_of(const NodeContext& context) {
  const Shape& shape = context.input(0).shape();
  const bool is_upsample = context.node().op_type == "Upsample";
  const bool with_roi = !is_upsample && context.since_version() >= 11;
  ResizePlan plan;
  plan.options.mode = context.string_attribute("mode");
  if (plan.options.mode == "bilinear") plan.options.mode = "linear";  // Upsample 1
  if (with_roi) {
    plan.options.coordinate_transformation_mode = context.string_attribute("coordinate_transformation_mode");
    plan.options.nearest_mode = context.string_attribute("nearest_mode");
    plan.options.cubic_coeff_a = context.float_attribute("cubic_coeff_a");
    plan.options.exclude_outside = context.int_attribute("exclude_outside") != 0;
    plan.extrapolation_value = context.float_attribute("extrapolation_value");
  } else {
    plan.options.coordinate_transformation_mode = "asymmetric";
    plan.options.nearest_mode = "floor";
  }
  const bool crops = plan.options.coordinate_transformation_mode == "tf_crop_and_resize";
  std::vector<double> roi;
  if (crops) {
    roi = numbers(context, 1);
    context.require(roi.size() == 2 * shape.size(),
                    "roi has {} elements; allowed is {}, a start and an end per axis", roi.size(),
                    2 * shape.size());
  }
  const auto require_one_per_axis = [&](size_t count, const char* name) {
    context.require(count == shape.size(), "{} has {} elements; allowed is {}, one per axis", name, count,
                    shape.size());
  };
  // An operand of no elements stood for one that is left out before that was allowed.
  const auto is_given = [&](size_t input) {
    return context.has_input(input) && context.input(input).size() > 0;
  };
  if (with_roi && is_given(3)) {
    context.require(!is_given(2), "scales and sizes are given; one of them is allowed");
    const std::vector<int64_t> sizes = context.integers(3);
    require_one_per_axis(sizes.size(), "sizes");
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      context.require(sizes[axis] > 0 || (sizes[axis] == 0 && shape[axis] == 0),
                      "sizes holds {}; positive extents are allowed", sizes[axis]);
      plan.axes.push_back(axis_of_size(shape[axis], sizes[axis]));
    }
  } else {
    std::vector<double> scales;
    if (is_upsample && context.since_version() < 7) {
      require_one_per_axis(4, "Upsample");
      scales = {1, 1, context.float_attribute("height_scale"), context.float_attribute("width_scale")};
    } else if (is_upsample && context.since_version() < 9) {
      const std::vector<float> values = context.floats_attribute("scales");
      scales.assign(values.begin(), values.end());
    } else {
      context.require(!with_roi || is_given(2), "neither scales nor sizes are given");
      scales = numbers(context, with_roi ? 2 : 1);
    }
    require_one_per_axis(scales.size(), "scales");
    for (size_t axis = 0; axis < scales.size(); ++axis) {
      // A region is as long as the part of the axis that it covers.
      const double part = crops ? roi[shape.size() + axis] - roi[axis] : 1;
      context.require(
          scales[axis] > 0 && part >= 0 && scales[axis] * part * static_cast<double>(shape[axis]) < 0x1p31,
          "scales holds {}; positive factors that give less than 2^31 elements are allowed", scales[axis]);
      plan.axes.push_back(axis_of_scale(shape[axis], static_cast<float>(scales[axis] * part)));
    }
  }
  for (size_t axis = 0; crops && axis < shape.size(); ++axis) {
    plan.axes[axis].roi_start = roi[axis];
    plan.axes[axis].roi_end = roi[shape.size() + axis];
  }
  return plan;
}

Shape shape_of(const std::vector<ResizedAxis>& axes) {
  Shape shape;
  for (const ResizedAxis& axis : axes) shape.push_back(axis.resized);
  return shape;
}

/// Whether each element is that of the original axis of the same length.
bool is_identity(const std::vector<ResizeSource>& sources, int64_t original) {
  for (size_t k = 0; k < sources.size(); ++k) {
    for (const ResizeTap& tap : sources[k].taps) {
      if (tap.weight != 0 && tap.index != static_cast<int64_t>(k)) return false;
    }
  }
  return std::ssize(sources) == original;
}

/// Replaces one axis of `values`, which has the shape `shape`.
std::vector<double> interpolate(const std::vector<double>& values, const Shape& shape, size_t axis,
                                const std::vector<ResizeSource>& sources) {
  const auto inner = static_cast<size_t>(count_between(shape, axis + 1, shape.size()));
  const auto outer = static_cast<size_t>(count_between(shape, 0, axis));
  const auto extent = static_cast<size_t>(shape[axis]);
  std::vector<double> result(outer * sources.size() * inner, 0);
  for (size_t i = 0; i < outer; ++i) {
    for (size_t k = 0; k < sources.size(); ++k) {
      double* const to = result.data() + (i * sources.size() + k) * inner;
      for (const auto& [index, weight] : sources[k].taps) {
        const double* const from = values.data() + (i * extent + static_cast<size_t>(index)) * inner;
        for (size_t j = 0; j < inner; ++j) to[j] += weight * from[j];
      }
    }
  }
  return result;
}

std::vector<Tensor> run_resize(const NodeContext& context) {
  const Tensor& x = context.input(0);
  const ResizePlan plan = plan_of(context);
  std::vector<std::vector<ResizeSource>> sources;
  for (const ResizedAxis& axis : plan.axes) sources.push_back(resize_sources(axis, plan.options));
  const Shape shape = shape_of(plan.axes);

  if (plan.options.mode == "nearest") {  // of any element type
    std::vector<std::vector<int64_t>> maps;
    for (const auto& axis : sources) {
      auto& map = maps.emplace_back();
      for (const ResizeSource& source : axis) map.push_back(source.is_outside ? -1 : source.taps[0].index);
    }
    Tensor fill(x.type(), {1});
    visit_number_type(x.type(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      fill.data<T>()[0] = to_element<T>(plan.extrapolation_value);
    });
    return {take_by_axes(x, maps, &fill)};
  }

  Tensor result(x.type(), shape);
  for_number_type(context, x.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto from = x.data<T>();
    std::vector<double> values(from.begin(), from.end());
    Shape so_far = x.shape();
    for (size_t axis = 0; axis < sources.size(); ++axis) {
      if (!is_identity(sources[axis], so_far[axis]))
        values = interpolate(values, so_far, axis, sources[axis]);
      so_far[axis] = shape[axis];
    }
    const auto to = result.data<T>();
    size_t i = 0;
    for (IndexIterator index(shape); index.valid(); index.next(), ++i) {
      bool is_outside = false;
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        is_outside |= sources[axis][static_cast<size_t>(index.index()[axis])].is_outside;
      }
      to[i] = to_element<T>(is_outside ? plan.extrapolation_value : values[i]);
    }
  });
  return {result};
}

}  // namespace

double cubic_weight(double distance, double a) {
  const double x = std::fabs(distance);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

ResizedAxis axis_of_scale(int64_t original, float scale) {
  ResizedAxis axis;
  axis.original = original;
  axis.resized = static_cast<int64_t>(std::floor(static_cast<float>(original) * scale));
  axis.exact = static_cast<double>(original) * scale;
  return axis;
}

ResizedAxis axis_of_size(int64_t original, int64_t resized) {
  ResizedAxis axis;
  axis.original = original;
  axis.resized = resized;
  axis.exact = static_cast<double>(resized);
  return axis;
}

std::vector<ResizeSource> resize_sources(const ResizedAxis& axis, const ResizeOptions& options) {
  const bool is_nearest = options.mode == "nearest";
  if (!is_nearest && options.mode != "linear" && options.mode != "cubic") {
    throw isa::UserError(fmt::format("mode is '{}'; allowed are nearest, linear and cubic", options.mode));
  }
  if (axis.original == 0 && axis.resized > 0) {
    throw isa::UserError(fmt::format("an axis of no elements can't be resized to {}", axis.resized));
  }
  const bool crops = options.coordinate_transformation_mode == "tf_crop_and_resize";
  const auto last = static_cast<double>(axis.original - 1);
  std::vector<ResizeSource> sources;
  for (int64_t x = 0; x < axis.resized; ++x) {
    const double coordinate = original_coordinate(axis, options.coordinate_transformation_mode, x);
    ResizeSource source;
    source.is_outside = crops && !(coordinate >= 0 && coordinate <= last);
    // Beyond the ends all is as at the ends; the margin is for the neighbours that exclude_outside leaves
    // out.
    const double bounded = std::isnan(coordinate) ? 0 : std::clamp(coordinate, -3.0, last + 3);
    source.taps = is_nearest
                      ? std::vector<ResizeTap>{{static_cast<int64_t>(nearest(bounded, options.nearest_mode))}}
                      : neighbours(bounded, options);
    double sum = 0;
    for (ResizeTap& tap : source.taps) {
      const bool is_inside = tap.index >= 0 && tap.index < axis.original;
      if (options.exclude_outside && !is_nearest && !is_inside) tap.weight = 0;
      tap.index = std::clamp<int64_t>(tap.index, 0, axis.original - 1);
      sum += tap.weight;
    }
    if (options.exclude_outside && sum != 0) {
      for (ResizeTap& tap : source.taps) tap.weight /= sum;
    }
    // What comes from one element alone is that element: its weights are one in all, but for their rounding.
    const ResizeTap first = source.taps.front();
    if (sum != 0 &&
        std::ranges::all_of(source.taps, [&](const ResizeTap& tap) { return tap.index == first.index; }))
      source.taps = {{first.index, 1}};
    sources.push_back(std::move(source));
  }
  return sources;
}

void register_resize(KernelRegistry& registry) {
  registry.add("Resize", run_resize);
  registry.add("Upsample", run_resize);
}

}  // namespace kodama::compiler::reference
