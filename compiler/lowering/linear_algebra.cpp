#include <algorithm>
#include <cmath>
#include <numbers>

#include "compiler/lowering/node_lowering.h"

/// Triangles and determinants of matrices, and transforms that are products with a constant matrix.
namespace kodama::compiler {

namespace {

HostReason lower_trilu(NodeLowering& lowering) {
  const Shape& shape = lowering.input_shape(0);
  lowering.require(shape.size() >= 2, "the input is {}; matrices are needed", shape_to_string(shape));
  int64_t k = 0;
  if (lowering.has_input(1)) {
    const auto values = lowering.constant_integers(1);
    if (!values) return "k isn't constant";
    lowering.require(values->size() == 1, "k has {} elements; 1 is needed", values->size());
    k = (*values)[0];
  }
  const bool upper = lowering.int_attribute("upper") != 0;
  const int64_t rows = shape[shape.size() - 2];
  const int64_t columns = shape.back();
  // Beyond the matrix all diagonals are alike.
  k = std::clamp(k, -rows - 1, columns + 1);
  const DataType type = lowering.input_type(0);
  if (!word_kind(type) && !is_long(type)) return data_type_name(type);
  Tensor kept(DataType::kFloat32, {rows, columns});
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const bool keeps = upper ? column - row >= k : column - row <= k;
      kept.data<float>()[row * columns + column] = keeps ? 1.0F : -1.0F;
    }
  }
  MapBuilder map(lowering, shape);
  const Term is_kept = map.operand(lowering.add_constant("kept", std::move(kept)));
  if (integer_type(type)) {
    const Integer x = map.integer_of_input(0);
    const Term zero = x.low.integer(0);
    map.finish("", {select(is_kept, x.low, zero), select(is_kept, x.high, zero), x.type}, lowering.output());
  } else if (is_double(type)) {
    const Integer x = bits_of_double(map.operand_of_input(0));
    const Term zero = x.low.integer(0);
    map.finish("", {select(is_kept, x.low, zero), select(is_kept, x.high, zero), x.type}, lowering.output());
  } else {
    const Term x = map.operand_of_input(0);
    map.finish("", select(is_kept, x, x.constant(0)), lowering.output());
  }
  return kLowered;
}

/// Matrices of up to 3 rows, by Leibniz' formula.
HostReason lower_det(NodeLowering& lowering) {
  const Shape& shape = lowering.input_shape(0);
  lowering.require(shape.size() >= 2 && shape[shape.size() - 2] == shape.back(),
                   "the input is {}; square matrices are needed", shape_to_string(shape));
  const int64_t rows = shape.back();
  constexpr int64_t kMostRows = 3;
  if (rows > kMostRows) return fmt::format("matrices of {} rows; at most {} are done", rows, kMostRows);
  const Shape& extents = lowering.output_shape();
  Formula formula;
  MapLayer map{extents, {}, {}};
  const auto element = [&](int64_t row, int64_t column) {
    AffineMap access(shape.size(), extents.size());
    for (size_t axis = 0; axis < extents.size(); ++axis) access.set(axis, axis, 1);
    access.set_offset(shape.size() - 2, row).set_offset(shape.size() - 1, column);
    map.inputs.push_back({lowering.input(0), access, 0});
    return formula.x(static_cast<int>(map.inputs.size()) - 1);
  };
  const auto minor = [&](int64_t first, int64_t second) {
    return element(rows - 2, first) * element(rows - 1, second) -
           element(rows - 2, second) * element(rows - 1, first);
  };
  const Term result =
      rows == 1   ? element(0, 0)
      : rows == 2 ? minor(0, 1)
                  : element(0, 0) * minor(1, 2) - element(0, 1) * minor(0, 2) + element(0, 2) * minor(0, 1);
  map.expr = formula.result(result);
  tidy_inputs(map.expr, map.inputs);
  lowering.add_layer("", std::move(map), lowering.output());
  return kLowered;
}

/// A constant of more elements than this is worse than the host.
constexpr int64_t kMostTransformElements = int64_t{1} << 24;

/// [frequencies, 2, positions, parts]: real and imaginary part of a transform of `length` positions, of
/// numbers with a real (and an imaginary) part; `weight_of` is multiplied into a position.
template <typename Weight>
Tensor fourier_matrix(int64_t frequencies, int64_t positions, int64_t parts, int64_t length, bool inverse,
                      Weight&& weight_of) {
  Tensor matrix(DataType::kFloat32, {frequencies, 2, positions, parts});
  float* const elements = matrix.data<float>().data();
  for (int64_t k = 0; k < frequencies; ++k) {
    for (int64_t n = 0; n < positions; ++n) {
      // Whole turns taken away before they cost accuracy.
      const auto turn = static_cast<double>((k * n) % length) / static_cast<double>(length);
      const double angle = (inverse ? 2 : -2) * std::numbers::pi * turn;
      const double weight = weight_of(n) / (inverse ? static_cast<double>(length) : 1);
      const double cosine = std::cos(angle) * weight;
      const double sine = std::sin(angle) * weight;
      const auto at = [&](int64_t result, int64_t part) -> float& {
        return elements[((k * 2 + result) * positions + n) * parts + part];
      };
      at(0, 0) = static_cast<float>(cosine);
      at(1, 0) = static_cast<float>(sine);
      if (parts == 1) continue;
      at(0, 1) = static_cast<float>(-sine);
      at(1, 1) = static_cast<float>(cosine);
    }
  }
  return matrix;
}

HostReason lower_dft(NodeLowering& lowering) {
  using Role = ContractLayer::Role;
  const Shape& x = lowering.input_shape(0);
  const Shape& y = lowering.output_shape();
  const size_t rank = x.size();
  const size_t axis = lowering.axis(lowering.int_attribute("axis"), rank);
  const int64_t parts = x.back();
  lowering.require(rank >= 2 && axis + 1 < rank && (parts == 1 || parts == 2) && y.size() == rank,
                   "the input is {} with axis {}; the last axis has the parts, 1 or 2", shape_to_string(x),
                   axis);
  int64_t length = x[axis];
  if (lowering.has_input(1)) {
    const auto given = lowering.constant_integers(1);
    if (!given) return "dft_length isn't constant";
    lowering.require(given->size() == 1 && (*given)[0] >= 1, "dft_length isn't one positive number");
    length = (*given)[0];
  }
  const int64_t positions = std::min(x[axis], length);
  if (y[axis] * positions > kMostTransformElements / 4)
    return fmt::format("a transform of {} positions to {}", positions, y[axis]);
  const bool inverse = lowering.int_attribute("inverse") != 0;

  const size_t dims = rank + 2;  // the axes of the result, then position and part
  ContractLayer contract;
  AffineMap x_map(rank, dims);
  AffineMap y_map(rank, dims);
  for (size_t k = 0; k < rank; ++k) {
    const bool is_made = k == axis || k + 1 == rank;
    contract.dims.push_back({k == axis       ? "k"
                             : k + 1 == rank ? "c"
                                             : fmt::format("n{}", k),
                             y[k], is_made ? Role::kM : Role::kN});
    y_map.set(k, k, 1);
    x_map.set(k, k == axis ? rank : k + 1 == rank ? rank + 1 : k, 1);
  }
  contract.dims.push_back({"p", positions, Role::kK});
  contract.dims.push_back({"part", parts, Role::kK});
  const TensorId matrix = lowering.add_constant(
      "matrix", fourier_matrix(y[axis], positions, parts, length, inverse, [](int64_t) { return 1.0; }));
  contract.a = {
      matrix, AffineMap(4, dims).set(0, axis, 1).set(1, rank - 1, 1).set(2, rank, 1).set(3, rank + 1, 1), 0};
  contract.b = {lowering.input(0), x_map, 0};
  contract.output = y_map;
  contract.output_shape = y;
  contract.epilogue = ScalarExpr::identity();
  lowering.add_layer("", std::move(contract), lowering.output());
  return kLowered;
}

/// Frames of a signal, each weighted by the window and transformed.
HostReason lower_stft(NodeLowering& lowering) {
  using Role = ContractLayer::Role;
  const Shape& x = lowering.input_shape(0);
  const Shape& y = lowering.output_shape();
  lowering.require((x.size() == 2 || (x.size() == 3 && x[2] <= 2)) && y.size() == 4,
                   "the signal is {}; [batch, length, 1 or 2] is needed", shape_to_string(x));
  const auto step = lowering.constant_integers(1);
  if (!step) return "frame_step isn't constant";
  lowering.require(step->size() == 1 && (*step)[0] >= 1, "frame_step isn't one positive number");
  const Tensor* window = lowering.constant_input(2);
  if (lowering.has_input(2) && window == nullptr) return "the window isn't constant";
  int64_t length = window == nullptr ? 0 : window->size();
  if (lowering.has_input(3)) {
    const auto given = lowering.constant_integers(3);
    if (!given) return "frame_length isn't constant";
    lowering.require(given->size() == 1, "frame_length has {} elements; 1 is needed", given->size());
    length = (*given)[0];
  }
  lowering.require(length >= 1 && (window == nullptr || window->size() == length),
                   "frames have {} positions, the window {}", length, window == nullptr ? 0 : window->size());
  const int64_t frames = y[1];
  const int64_t frequencies = y[2];
  const int64_t parts = x.size() == 3 ? x[2] : 1;
  if (frequencies * length > kMostTransformElements / 4)
    return fmt::format("a transform of {} positions to {}", length, frequencies);
  enum : size_t { kBatch, kFrame, kFrequency, kResult, kPosition, kPart, kDims };
  ContractLayer contract;
  contract.dims = {{"b", x[0], Role::kN}, {"f", frames, Role::kN}, {"k", frequencies, Role::kM},
                   {"c", 2, Role::kM},    {"p", length, Role::kK}, {"part", parts, Role::kK}};
  AffineMap signal(x.size(), kDims);
  signal.set(0, kBatch, 1).set(1, kFrame, (*step)[0]).set(1, kPosition, 1);
  if (x.size() == 3) signal.set(2, kPart, 1);
  const TensorId matrix = lowering.add_constant(
      "matrix", fourier_matrix(frequencies, length, parts, length, false, [&](int64_t n) {
        return window == nullptr ? 1.0 : element_as_double(*window, n);
      }));
  contract.a = {
      matrix,
      AffineMap(4, kDims).set(0, kFrequency, 1).set(1, kResult, 1).set(2, kPosition, 1).set(3, kPart, 1), 0};
  contract.b = {lowering.input(0), signal, 0};
  contract.output = AffineMap(4, kDims);
  for (const size_t axis : {kBatch, kFrame, kFrequency, kResult}) contract.output.set(axis, axis, 1);
  contract.output_shape = y;
  contract.epilogue = ScalarExpr::identity();
  lowering.add_layer("", std::move(contract), lowering.output());
  return kLowered;
}

}  // namespace

void register_linear_algebra(OperatorTable& table) {
  constexpr auto kFloats = ElementTypes::kChipFloats;
  table.push_back({"Trilu", lower_trilu, ElementTypes::kAnyFirst});
  table.push_back({"Det", lower_det, kFloats});
  table.push_back({"DFT", lower_dft, kFloats});
  table.push_back({"STFT", lower_stft, kFloats});
}

}  // namespace kodama::compiler
