#include "compiler/streams/element_forms.h"

#include <fmt/ranges.h>

#include <string_view>

#include "isa/error.h"

namespace kodama::compiler {

namespace {

constexpr std::array<std::string_view, 3> kPrecisionNames = {"gfloat", "float", "half"};

}  // namespace

std::string matrix_precision_name(MatrixPrecision precision) {
  return std::string(kPrecisionNames.at(static_cast<size_t>(precision)));
}

MatrixPrecision parse_matrix_precision(const std::string& name) {
  for (size_t k = 0; k < kPrecisionNames.size(); ++k) {
    if (kPrecisionNames[k] == name) return static_cast<MatrixPrecision>(k);
  }
  throw isa::UserError(
      fmt::format("precision '{}' is unknown, allowed: {}", name, fmt::join(kPrecisionNames, ", ")));
}

}  // namespace kodama::compiler
