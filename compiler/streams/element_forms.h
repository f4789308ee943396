#pragma once

#include <array>
#include <cstdint>
#include <string>

/// What numbers look like in streams and in products.
namespace kodama::compiler {

/// Block-float form of matrix products (`--precision`).
enum class MatrixPrecision : uint8_t { kGFloat, kFloat, kHalf };
std::string matrix_precision_name(MatrixPrecision precision);     ///< "gfloat", …
MatrixPrecision parse_matrix_precision(const std::string& name);  ///< UserError lists the names

/// What the elements of a stream are.
enum class StreamElement : uint8_t {
  kFloat,  ///< two to a LW
  kHalf,   ///< of the chip (isa/number_formats.h), four to a LW: operands of products at kHalf
};
inline constexpr std::array<const char*, 2> kStreamElementNames = {"float", "half"};

}  // namespace kodama::compiler
