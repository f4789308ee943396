#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/reference/kernels/kernel.h"
#include "compiler/reference/kernels/resize.h"
#include "compiler/reference/kernels/strided.h"

/// What detectors do with pictures and boxes: RoiAlign, MaxRoiPool, GridSample, NonMaxSuppression.
namespace kodama::compiler::reference {

namespace {

/// One channel of one picture.
template <typename T>
struct Plane {
  std::span<const T> elements;
  int64_t height;
  int64_t width;

  double at(int64_t y, int64_t x) const {
    return static_cast<double>(elements[static_cast<size_t>(y * width + x)]);
  }
};

template <typename T>
Plane<T> plane_of(const Tensor& x, int64_t picture, int64_t channel) {
  const int64_t height = x.shape()[2];
  const int64_t width = x.shape()[3];
  const auto begin = static_cast<size_t>((picture * x.shape()[1] + channel) * height * width);
  return {x.data<T>().subspan(begin, static_cast<size_t>(height * width)), height, width};
}

void require_pictures(const NodeContext& context, const Tensor& x) {
  context.require(x.rank() == 4, "X has shape {}; allowed is [N, C, H, W]", shape_to_string(x.shape()));
}

/// The pictures that regions are of, as numbers.
void require_picture(const NodeContext& context, double picture, const Tensor& x) {
  context.require(
      picture >= 0 && picture < static_cast<double>(x.shape()[0]) && picture == std::floor(picture),
      "a region is of picture {}; there are {}", picture, x.shape()[0]);
}

void require_region(const NodeContext& context, const double (&corners)[4]) {
  for (const double corner : corners) {
    context.require(std::fabs(corner) < 0x1p31, "a corner of a region is at {}; less than 2^31 is allowed",
                    corner);
  }
}

// ------------------------------------------------------------------------------------------ RoiAlign

/// Between the four elements around a point; 0 a pixel or more outside.
template <typename T>
double bilinear(const Plane<T>& plane, double y, double x) {
  if (plane.height == 0 || plane.width == 0) return 0;
  if (y < -1 || y > static_cast<double>(plane.height) || x < -1 || x > static_cast<double>(plane.width))
    return 0;
  const double inside_y = std::clamp(y, 0.0, static_cast<double>(plane.height - 1));
  const double inside_x = std::clamp(x, 0.0, static_cast<double>(plane.width - 1));
  const auto top = static_cast<int64_t>(inside_y);
  const auto left = static_cast<int64_t>(inside_x);
  const int64_t bottom = std::min(top + 1, plane.height - 1);
  const int64_t right = std::min(left + 1, plane.width - 1);
  const double dy = inside_y - static_cast<double>(top);
  const double dx = inside_x - static_cast<double>(left);
  return (1 - dy) * ((1 - dx) * plane.at(top, left) + dx * plane.at(top, right)) +
         dy * ((1 - dx) * plane.at(bottom, left) + dx * plane.at(bottom, right));
}

/// The samples of an axis of a region: `count` in each of its bins.
struct SampledAxis {
  double start = 0;
  double bin = 0;
  int64_t count = 0;

  double position(int64_t which_bin, int64_t sample) const {
    return start + bin * (static_cast<double>(which_bin) +
                          (static_cast<double>(sample) + 0.5) / static_cast<double>(count));
  }
};

/// The mean or the maximum of samples, each of which is interpolated first, as ONNX's page says (some
/// runtimes take the largest of the weighted corners).
std::vector<Tensor> run_roi_align(const NodeContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& rois = context.input(1);
  require_pictures(context, x);
  context.require(rois.rank() == 2 && rois.shape()[1] == 4, "rois has shape {}; allowed is [regions, 4]",
                  shape_to_string(rois.shape()));
  const std::vector<int64_t> pictures = context.integers(2);
  context.require(std::ssize(pictures) == rois.shape()[0], "batch_indices has {} elements for {} regions",
                  pictures.size(), rois.shape()[0]);
  const int64_t height = context.int_attribute("output_height");
  const int64_t width = context.int_attribute("output_width");
  const int64_t sampling_ratio = context.int_attribute("sampling_ratio");
  const double scale = context.float_attribute("spatial_scale");
  const std::string mode = context.string_attribute("mode");
  context.require(mode == "avg" || mode == "max", "mode is '{}'; allowed are avg and max", mode);
  context.require(height > 0 && width > 0, "the output is {} x {}; positive extents are allowed", height,
                  width);
  constexpr int64_t kMostSamples = 1 << 16;  // of a bin, on an axis
  context.require(sampling_ratio >= 0 && sampling_ratio <= kMostSamples,
                  "sampling_ratio is {}; 0 to {} is allowed", sampling_ratio, kMostSamples);
  // Before opset 16 there was no shift by half a pixel.
  const std::string coordinates = context.since_version() < 16
                                      ? "output_half_pixel"
                                      : context.string_attribute("coordinate_transformation_mode");
  context.require(coordinates == "half_pixel" || coordinates == "output_half_pixel",
                  "coordinate_transformation_mode is '{}'; allowed are half_pixel and output_half_pixel",
                  coordinates);
  const bool half_pixel = coordinates == "half_pixel";
  const auto sampled_axis = [&](double from, double to, int64_t bins) {
    SampledAxis axis;
    axis.start = from - (half_pixel ? 0.5 : 0);
    double length = to - from;
    if (!half_pixel) length = std::max(length, 1.0);
    axis.bin = length / static_cast<double>(bins);
    const double samples = sampling_ratio > 0 ? static_cast<double>(sampling_ratio) : std::ceil(axis.bin);
    context.require(samples <= static_cast<double>(kMostSamples),
                    "a bin of a region is {} pixels long; {} are allowed", axis.bin, kMostSamples);
    axis.count = std::max<int64_t>(static_cast<int64_t>(samples), 0);
    return axis;
  };
  Tensor result(x.type(), {rois.shape()[0], x.shape()[1], height, width});
  for_float_type(context, x.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    auto to = result.data<T>().begin();
    for (size_t region = 0; region < pictures.size(); ++region) {
      require_picture(context, static_cast<double>(pictures[region]), x);
      double corners[4];  // x1, y1, x2, y2
      for (size_t k = 0; k < 4; ++k) corners[k] = static_cast<double>(rois.data<T>()[region * 4 + k]) * scale;
      require_region(context, corners);
      const SampledAxis rows = sampled_axis(corners[1], corners[3], height);
      const SampledAxis columns = sampled_axis(corners[0], corners[2], width);
      for (int64_t channel = 0; channel < x.shape()[1]; ++channel) {
        const Plane<T> plane = plane_of<T>(x, pictures[region], channel);
        for (int64_t bin = 0; bin < height * width; ++bin) {
          double sum = 0;
          double highest = -std::numeric_limits<double>::infinity();
          for (int64_t row = 0; row < rows.count; ++row) {
            for (int64_t column = 0; column < columns.count; ++column) {
              const double value =
                  bilinear(plane, rows.position(bin / width, row), columns.position(bin % width, column));
              sum += value;
              highest = maximum(highest, value);
            }
          }
          const int64_t samples = rows.count * columns.count;
          const double average = sum / static_cast<double>(std::max<int64_t>(samples, 1));
          *to++ = to_element<T>(mode == "avg" || samples == 0 ? average : highest);
        }
      }
    }
  });
  return {result};
}

// ---------------------------------------------------------------------------------------- MaxRoiPool

/// Regions [picture, x1, y1, x2, y2] with both corners inside, rounded to pixels; bins overlap where they
/// don't divide them.
std::vector<Tensor> run_max_roi_pool(const NodeContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& rois = context.input(1);
  require_pictures(context, x);
  context.require(rois.rank() == 2 && rois.shape()[1] == 5, "rois has shape {}; allowed is [regions, 5]",
                  shape_to_string(rois.shape()));
  const std::vector<int64_t> pooled = context.ints_attribute("pooled_shape");
  context.require(pooled.size() == 2 && pooled[0] > 0 && pooled[1] > 0,
                  "pooled_shape is {}; two positive extents are allowed", shape_to_string(pooled));
  const double scale = context.float_attribute("spatial_scale");
  /// The pixels of a bin, which may be none.
  struct Range {
    int64_t begin;
    int64_t end;
  };
  const auto range_of = [](double from, double to, int64_t bin, int64_t bins, int64_t extent) {
    const double length = std::max(to - from + 1, 1.0);
    // Both are whole numbers: a quotient is rounded, but never over one.
    const double begin = from + std::floor(static_cast<double>(bin) * length / static_cast<double>(bins));
    const double end = from + std::ceil(static_cast<double>(bin + 1) * length / static_cast<double>(bins));
    const auto bounded = [&](double value) {
      return static_cast<int64_t>(std::clamp(value, 0.0, static_cast<double>(extent)));
    };
    return Range{bounded(begin), bounded(end)};
  };
  Tensor result(x.type(), {rois.shape()[0], x.shape()[1], pooled[0], pooled[1]});
  for_float_type(context, x.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    auto to = result.data<T>().begin();
    for (size_t region = 0; region < static_cast<size_t>(rois.shape()[0]); ++region) {
      const auto roi = rois.data<T>().subspan(region * 5, 5);
      const auto picture = static_cast<double>(roi[0]);
      require_picture(context, picture, x);
      double corners[4];
      for (size_t k = 0; k < 4; ++k) corners[k] = std::round(static_cast<double>(roi[k + 1]) * scale);
      require_region(context, corners);
      for (int64_t channel = 0; channel < x.shape()[1]; ++channel) {
        const Plane<T> plane = plane_of<T>(x, static_cast<int64_t>(picture), channel);
        for (int64_t bin = 0; bin < pooled[0] * pooled[1]; ++bin) {
          const Range rows = range_of(corners[1], corners[3], bin / pooled[1], pooled[0], plane.height);
          const Range columns = range_of(corners[0], corners[2], bin % pooled[1], pooled[1], plane.width);
          const bool is_empty = rows.begin >= rows.end || columns.begin >= columns.end;
          double highest = is_empty ? 0 : -std::numeric_limits<double>::infinity();
          for (int64_t row = rows.begin; row < rows.end; ++row) {
            for (int64_t column = columns.begin; column < columns.end; ++column) {
              highest = maximum(highest, plane.at(row, column));
            }
          }
          *to++ = to_element<T>(highest);
        }
      }
    }
  });
  return {result};
}

// ---------------------------------------------------------------------------------------- GridSample

enum class Padding { kZeros, kBorder, kReflection };

/// An axis of the sampled picture.
struct SampledExtent {
  int64_t extent;
  bool align_corners;
  Padding padding;

  /// -1 and 1 are the centers of the first and last element, or their outer edges.
  double pixel_of(double normalized) const {
    const auto length = static_cast<double>(extent);
    return align_corners ? (normalized + 1) / 2 * (length - 1) : ((normalized + 1) * length - 1) / 2;
  }

  /// Where the element at a position is taken from; with zeros a position outside stays outside.
  double padded(double position) const {
    const auto last = static_cast<double>(extent - 1);
    if (padding == Padding::kZeros) return position;
    if (padding == Padding::kReflection) {
      const double low = align_corners ? 0 : -0.5;
      const double span = align_corners ? last : last + 1;
      if (span <= 0) return 0;
      const double distance = std::fabs(position - low);
      const double rest = std::fmod(distance, span);
      const bool is_flipped = std::fmod(std::floor(distance / span), 2) != 0;
      position = low + (is_flipped ? span - rest : rest);
    }
    return std::clamp(position, 0.0, last);
  }
};

/// An element (or -1, a zero) and its weight.
struct Tap {
  int64_t index;
  double weight;
};

std::vector<Tap> taps_of(const SampledExtent& axis, double normalized, const std::string& mode) {
  const double position = axis.pixel_of(normalized);
  const auto tap = [&](double at, double weight) {
    const bool is_inside = at >= 0 && at < static_cast<double>(axis.extent);
    return Tap{is_inside ? static_cast<int64_t>(at) : -1, weight};
  };
  if (!std::isfinite(position)) return {tap(axis.padding == Padding::kZeros ? -1 : 0, 1)};
  if (mode == "nearest") return {tap(std::nearbyint(axis.padded(position)), 1)};
  if (mode == "bilinear") {
    const double padded = axis.padded(position);
    const double below = std::floor(padded);
    return {tap(below, 1 - (padded - below)), tap(below + 1, padded - below)};
  }
  // Bicubic pads each of the four elements on its own, around a position that isn't padded.
  constexpr double kA = -0.75;
  const double below = std::floor(position);
  std::vector<Tap> taps;
  for (int k = -1; k <= 2; ++k) {
    taps.push_back(tap(axis.padded(below + k), cubic_weight(position - (below + k), kA)));
  }
  return taps;
}

std::vector<Tensor> run_grid_sample(const NodeContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& grid = context.input(1);
  require_pictures(context, x);
  context.require(grid.rank() == 4 && grid.shape()[3] == 2 && grid.shape()[0] == x.shape()[0],
                  "grid has shape {}; allowed is [{}, H, W, 2]", shape_to_string(grid.shape()), x.shape()[0]);
  const std::string mode = context.string_attribute("mode");
  context.require(mode == "bilinear" || mode == "nearest" || mode == "bicubic",
                  "mode is '{}'; allowed are bilinear, nearest and bicubic", mode);
  const std::string padding_mode = context.string_attribute("padding_mode");
  context.require(padding_mode == "zeros" || padding_mode == "border" || padding_mode == "reflection",
                  "padding_mode is '{}'; allowed are zeros, border and reflection", padding_mode);
  const Padding padding = padding_mode == "zeros"    ? Padding::kZeros
                          : padding_mode == "border" ? Padding::kBorder
                                                     : Padding::kReflection;
  const bool align_corners = context.int_attribute("align_corners") != 0;
  const SampledExtent rows{x.shape()[2], align_corners, padding};
  const SampledExtent columns{x.shape()[3], align_corners, padding};
  const int64_t positions = grid.shape()[1] * grid.shape()[2];
  Tensor result(x.type(), {x.shape()[0], x.shape()[1], grid.shape()[1], grid.shape()[2]});
  context.require(result.size() == 0 || rows.extent * columns.extent > 0,
                  "X has shape {}: there is nothing to sample", shape_to_string(x.shape()));
  for_float_type(context, x.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto coordinates = grid.data<T>();
    const auto to = result.data<T>();
    for (int64_t picture = 0; picture < x.shape()[0]; ++picture) {
      for (int64_t position = 0; position < positions; ++position) {
        const auto at = static_cast<size_t>((picture * positions + position) * 2);
        const std::vector<Tap> across = taps_of(columns, static_cast<double>(coordinates[at]), mode);
        const std::vector<Tap> down = taps_of(rows, static_cast<double>(coordinates[at + 1]), mode);
        for (int64_t channel = 0; channel < x.shape()[1]; ++channel) {
          const Plane<T> plane = plane_of<T>(x, picture, channel);
          double sum = 0;
          for (const Tap& row : down) {
            for (const Tap& column : across) {
              if (row.index < 0 || column.index < 0) continue;
              sum += row.weight * column.weight * plane.at(row.index, column.index);
            }
          }
          to[static_cast<size_t>((picture * x.shape()[1] + channel) * positions + position)] =
              to_element<T>(sum);
        }
      }
    }
  });
  return {result};
}

// --------------------------------------------------------------------------------- NonMaxSuppression

struct Box {
  float top;
  float left;
  float bottom;
  float right;

  float area() const { return (bottom - top) * (right - left); }
};

/// Common area over joint area.
float overlap(const Box& a, const Box& b) {
  const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const float width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (height <= 0 || width <= 0 || a.area() <= 0 || b.area() <= 0) return 0;
  const float common = height * width;
  return common / (a.area() + b.area() - common);
}

/// Per picture and class: boxes by falling score (the first of equals first), each unless it overlaps one
/// already chosen by more than the threshold.
std::vector<Tensor> run_non_max_suppression(const NodeContext& context) {
  const Tensor& boxes = context.input(0);
  const Tensor& scores = context.input(1);
  context.require(boxes.rank() == 3 && boxes.shape()[2] == 4,
                  "boxes has shape {}; allowed is [batch, boxes, 4]", shape_to_string(boxes.shape()));
  context.require(
      scores.rank() == 3 && scores.shape()[0] == boxes.shape()[0] && scores.shape()[2] == boxes.shape()[1],
      "scores has shape {}; allowed is [{}, classes, {}]", shape_to_string(scores.shape()), boxes.shape()[0],
      boxes.shape()[1]);
  const int64_t most = context.has_input(2) ? context.integer_scalar(2) : 0;
  const double iou_threshold = context.has_input(3) ? context.scalar(3) : 0;
  context.require(iou_threshold >= 0 && iou_threshold <= 1, "iou_threshold is {}; 0 to 1 is allowed",
                  iou_threshold);
  const int64_t center_point_box = context.int_attribute("center_point_box");
  context.require(center_point_box == 0 || center_point_box == 1,
                  "center_point_box is {}; 0 and 1 are allowed", center_point_box);
  const auto count = static_cast<size_t>(boxes.shape()[1]);
  const auto box_of = [&](size_t picture, size_t index) {
    const auto values = boxes.data<float>().subspan((picture * count + index) * 4, 4);
    if (center_point_box != 0) {  // x and y of the center, width, height
      return Box{values[1] - values[3] / 2, values[0] - values[2] / 2, values[1] + values[3] / 2,
                 values[0] + values[2] / 2};
    }
    return Box{std::min(values[0], values[2]), std::min(values[1], values[3]), std::max(values[0], values[2]),
               std::max(values[1], values[3])};
  };
  std::vector<int64_t> selected;
  for (size_t picture = 0; picture < static_cast<size_t>(scores.shape()[0]); ++picture) {
    for (size_t kind = 0; kind < static_cast<size_t>(scores.shape()[1]); ++kind) {
      const auto of_kind = scores.data<float>().subspan(
          (picture * static_cast<size_t>(scores.shape()[1]) + kind) * count, count);
      std::vector<size_t> candidates;
      for (size_t i = 0; i < count; ++i) {
        if (std::isnan(of_kind[i])) continue;
        if (!context.has_input(4) || static_cast<double>(of_kind[i]) > context.scalar(4))
          candidates.push_back(i);
      }
      std::ranges::stable_sort(candidates, [&](size_t a, size_t b) { return of_kind[a] > of_kind[b]; });
      std::vector<Box> chosen;
      for (const size_t candidate : candidates) {
        if (std::ssize(chosen) >= most) break;
        const Box box = box_of(picture, candidate);
        const auto hides = [&](const Box& other) {
          return static_cast<double>(overlap(box, other)) > iou_threshold;
        };
        if (std::ranges::any_of(chosen, hides)) continue;
        chosen.push_back(box);
        for (const size_t index : {picture, kind, candidate}) selected.push_back(static_cast<int64_t>(index));
      }
    }
  }
  return {Tensor::from_values<int64_t>(DataType::kInt64, {std::ssize(selected) / 3, 3}, selected)};
}

}  // namespace

void register_region(KernelRegistry& registry) {
  registry.add("RoiAlign", run_roi_align);
  registry.add("MaxRoiPool", run_max_roi_pool);
  registry.add("GridSample", run_grid_sample);
  registry.add("NonMaxSuppression", run_non_max_suppression);
}

}  // namespace kodama::compiler::reference
