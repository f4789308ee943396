#pragma once

#include <string>
#include <vector>

#include "compiler/tensor/tensor.h"

/// Where the elements of a resized tensor come from: what Resize and Upsample compute, axis by axis, from
/// extents and attributes alone.
namespace kodama::compiler::reference {

/// The attributes of Resize (opset 13), and for tf_crop_and_resize the operand roi.
struct ResizeOptions {
  std::string mode = "nearest";  ///< nearest, linear, cubic
  std::string coordinate_transformation_mode = "half_pixel";
  std::string nearest_mode = "round_prefer_floor";
  double cubic_coeff_a = -0.75;
  bool exclude_outside = false;
};

/// How long an axis is and becomes.
struct ResizedAxis {
  int64_t original = 0;
  int64_t resized = 0;
  double exact = 0;      ///< original * scale, before it was made an integer
  double roi_start = 0;  ///< tf_crop_and_resize: of the axis, which is from 0 to 1
  double roi_end = 1;
};

/// An element of the original axis and its weight in an element of the resized one.
struct ResizeTap {
  int64_t index = 0;
  double weight = 1;
};

/// What one element of a resized axis is made of.
struct ResizeSource {
  std::vector<ResizeTap> taps;
  bool is_outside = false;  ///< tf_crop_and_resize: the element is extrapolation_value
};

/// The convolution kernel of cubic interpolation (Keys, 1981), at a distance from the element.
double cubic_weight(double distance, double a);

/// The axis of which `scale` makes so many elements: floor(original * scale), in single precision as ONNX's
/// shape inference has it.
ResizedAxis axis_of_scale(int64_t original, float scale);
ResizedAxis axis_of_size(int64_t original, int64_t resized);

/// The sources of all elements of the resized axis. UserError for an unknown mode (without the node's name).
std::vector<ResizeSource> resize_sources(const ResizedAxis& axis, const ResizeOptions& options);

}  // namespace kodama::compiler::reference
