#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kodama::compiler::testing {

/// A small graph whose gradients are tested: one operator with one choice of attributes, mostly.
struct GradientVariant {
  std::string name;
  std::string inputs;  ///< in ONNX's textual form: "double[2,3] x, int64[2] i"
  std::string nodes;   ///< "y = Relu (x)"
  /// Inputs of floats are drawn from here, and differentiated by unless they are among `constants`.
  double low = -1, high = 1;
  std::vector<std::string> outputs = {"y"};
  int64_t indices = 1;  ///< int64 inputs are from least_index to least_index + indices - 1
  int64_t least_index = 0;
  std::vector<std::string> constants = {};
  double tolerance = 1e-6;
  double width = 1e-5;  ///< of differences, relative; larger where the reference computes in single precision
};

const std::vector<GradientVariant>& gradient_variants();
std::vector<GradientVariant> control_variants();  ///< of these, control flow

}  // namespace kodama::compiler::testing
