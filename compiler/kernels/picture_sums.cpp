#include "compiler/kernels/picture_sums.h"

#include <algorithm>
#include <utility>

#include "compiler/kernels/columns.h"

namespace kodama::compiler {
namespace {

/// Dims of a layer that are the places of pictures, -1 where there is one place: images, channels, rows,
/// columns.
using PlaceDims = std::array<int, 4>;

/// An access that reads a picture's places as dims tell them; nothing where it is something else.
std::optional<PlaceDims> place_dims(const TensorAccess& access, const Shape& shape, const Shape& extents) {
  if (shape.size() != 4) return std::nullopt;
  PlaceDims dims{-1, -1, -1, -1};
  for (size_t axis = 0; axis < 4; ++axis) {
    int64_t places = 1;
    for (size_t dim = 0; dim < extents.size(); ++dim) {
      if (extents[dim] == 1 || access.map.coefficient(axis, dim) == 0) continue;
      if (dims.at(axis) >= 0 || access.map.coefficient(axis, dim) != 1 ||
          std::ranges::count(dims, static_cast<int>(dim)) > 0)
        return std::nullopt;
      dims.at(axis) = static_cast<int>(dim);
      places = extents[dim];
    }
    if (places != shape[axis] || access.map.offset(axis) != 0) return std::nullopt;
  }
  return dims;
}

/// Whether nothing but a dim (or none) tells what is read.
bool is_value_for(const TensorAccess& access, int channel_dim, const Shape& extents) {
  for (size_t axis = 0; axis < access.map.axes(); ++axis) {
    for (size_t dim = 0; dim < extents.size(); ++dim) {
      if (static_cast<int>(dim) != channel_dim && extents[dim] > 1 && access.map.coefficient(axis, dim) != 0)
        return false;
    }
  }
  return true;
}

Shape joined(Shape shape, const Shape& more) {
  shape.insert(shape.end(), more.begin(), more.end());
  return shape;
}

/// Whether a sum's terms are 0 where all pictures are.
bool is_neutral_outside(const ScalarExpr& expr, const std::vector<bool>& is_picture) {
  for (const double value : {1.0, -0.75, 3.5}) {
    std::vector<double> inputs;
    for (const bool picture : is_picture)
      inputs.push_back(picture ? 0 : value + static_cast<double>(inputs.size()));
    if (expr.evaluate(inputs) != 0) return false;
  }
  return true;
}

}  // namespace

bool PictureSums::is_full() const {
  return parts[0] * part_size[0] == picture.shape[0] && parts[1] * part_size[1] == picture.shape[2] &&
         part_size[0] * part_size[1] % kColumnSlots == 0 && picture.shape[3] % isa::kCyclesPerStep == 0;
}

std::optional<PictureSums> picture_sums(const ReduceLayer& reduce, TensorId output, const ShapeOf& shape_of) {
  if (reduce.op != ReduceLayer::Op::kSum || reduced_kind(reduce) != ScalarKind::kFloat ||
      reduce.epilogue != ScalarExpr::identity() || reduce.output_extents.size() != 3 ||
      reduce.reduction_extents.size() != 3)
    return std::nullopt;
  PictureSums problem;
  problem.expr = reduce.expr;
  problem.parts = {reduce.output_extents[0], reduce.output_extents[1]};
  problem.part_size = {reduce.reduction_extents[0], reduce.reduction_extents[1]};
  const Shape extents = joined(reduce.output_extents, reduce.reduction_extents);
  for (const TensorAccess& input : reduce.inputs) {
    if (input.fill != 0) return std::nullopt;
    problem.is_picture.push_back(!is_value_for(input, 2, extents));
    if (!problem.is_picture.back()) continue;
    const Shape& shape = shape_of(input.tensor);
    const auto picture = picture_of(input.tensor, shape, 1);
    AffineMap places(4, extents.size());
    places.set(0, 0, problem.part_size[0]).set(0, 3, 1).set(1, 2, 1);
    places.set(2, 1, problem.part_size[1]).set(2, 4, 1).set(3, 5, 1);
    if (!picture || picture->tokens || input.map != places) return std::nullopt;
    if (problem.pictures() == 1) {
      problem.picture = *picture;
    } else if (shape != problem.picture.shape) {
      return std::nullopt;
    }
  }
  if (problem.pictures() == 0 ||
      (!problem.is_full() && !is_neutral_outside(problem.expr, problem.is_picture)))
    return std::nullopt;
  const Shape& shape = problem.picture.shape;
  const auto covers = [&](size_t which, int64_t size) {
    const int64_t all = problem.parts.at(which) * problem.part_size.at(which);
    return all >= size && all - size < problem.part_size.at(which);
  };
  if (!covers(0, shape[0]) || !covers(1, shape[2]) || shape[1] != reduce.output_extents[2] ||
      shape[3] != reduce.reduction_extents[2])
    return std::nullopt;
  Picture::Tokens tokens;
  tokens.channel = 2;
  tokens.entries = {0, 1};
  problem.sums = token_picture(output, reduce.output_extents, tokens);
  return problem;
}

std::optional<PictureSumHalves> picture_sum_halves(const ReduceLayer& reduce, const ShapeOf& shape_of,
                                                   const isa::Chip& chip) {
  // Pictures of fewer elements, or mostly empty chunks, are as well off with lists.
  constexpr int64_t kLeastElements = 1 << 13, kLeastChannels = 8;
  if (reduce.op != ReduceLayer::Op::kSum || reduced_kind(reduce) != ScalarKind::kFloat) return std::nullopt;
  const Shape extents = joined(reduce.output_extents, reduce.reduction_extents);
  const auto outputs = static_cast<int>(reduce.output_extents.size());
  std::optional<PlaceDims> dims;
  Shape shape;
  std::vector<bool> is_picture;
  for (const TensorAccess& input : reduce.inputs) {
    const auto own = place_dims(input, shape_of(input.tensor), extents);
    // Else it must be a value for a channel, which is seen when that is known.
    is_picture.push_back(own && std::ranges::any_of(*own, [&](int dim) { return dim >= outputs; }));
    if (!is_picture.back()) continue;
    if (input.fill != 0 || (dims && *dims != *own)) return std::nullopt;
    dims = own;
    shape = shape_of(input.tensor);
  }
  if (!dims || dims->at(1) < 0 || dims->at(1) >= outputs || shape[1] < kLeastChannels ||
      element_count(shape) < kLeastElements)
    return std::nullopt;
  const int channel_dim = dims->at(1);
  // What else there is of dims is summed over, all of it.
  for (size_t dim = 0; dim < extents.size(); ++dim) {
    const bool is_output = static_cast<int>(dim) < outputs;
    if (extents[dim] == 1 || static_cast<int>(dim) == channel_dim) continue;
    if (is_output || std::ranges::count(*dims, static_cast<int>(dim)) == 0) return std::nullopt;
  }
  for (size_t k = 0; k < is_picture.size(); ++k) {
    if (!is_picture[k] && !is_value_for(reduce.inputs[k], channel_dim, extents)) return std::nullopt;
  }

  /// An input over other dims: places of a picture are `places`.
  const auto over = [&](size_t k, const AffineMap& places, size_t channel) {
    TensorAccess access = reduce.inputs[k];
    access.map = is_picture[k] ? places : AffineMap(reduce.inputs[k].map.axes(), places.dims());
    for (size_t axis = 0; !is_picture[k] && axis < access.map.axes(); ++axis) {
      access.map.set_offset(axis, reduce.inputs[k].map.offset(axis));
      access.map.set(axis, channel, reduce.inputs[k].map.coefficient(axis, static_cast<size_t>(channel_dim)));
    }
    return access;
  };
  const ShapeOf shape_with_terms = [&](TensorId tensor) -> const Shape& {
    return tensor < 0 ? shape : shape_of(tensor);
  };
  PictureSumHalves halves;
  const auto picture = picture_of(-1, shape, 1);
  const RowsImage image(*picture, RowsSplit{}, chip);
  AffineMap places(4, 6);
  places.set(0, 0, image.images()).set(0, 3, 1).set(1, 2, 1);
  places.set(2, 1, image.rows()).set(2, 4, 1).set(3, 5, 1);
  halves.first.op = reduce.op;
  halves.first.output_extents = {image.image_ways(), image.row_ways(), shape[1]};
  halves.first.reduction_extents = {image.images(), image.rows(), shape[3]};
  halves.first.epilogue = ScalarExpr::identity();
  halves.first.expr = reduce.expr;
  for (size_t k = 0; k < is_picture.size(); ++k) halves.first.inputs.push_back(over(k, places, 2));
  auto problem = picture_sums(halves.first, -1, shape_with_terms);
  if (!problem) {
    halves.terms.emplace();
    halves.terms->extents = shape;
    halves.terms->expr = reduce.expr;
    for (size_t k = 0; k < is_picture.size(); ++k)
      halves.terms->inputs.push_back(over(k, AffineMap::identity(4), 1));
    halves.first.expr = ScalarExpr::identity();
    halves.first.inputs = {{-1, places, 0}};
    problem = picture_sums(halves.first, -1, shape_with_terms);
  }
  if (!problem || !picture_sums_cycles(*problem, RowsSplit{}, chip)) return std::nullopt;

  halves.second = reduce;
  halves.second.expr = ScalarExpr::identity();
  halves.second.reduction_extents = {image.image_ways(), image.row_ways()};
  AffineMap parts(3, reduce.output_extents.size() + 2);
  parts.set(0, reduce.output_extents.size(), 1).set(1, reduce.output_extents.size() + 1, 1);
  parts.set(2, static_cast<size_t>(channel_dim), 1);
  halves.second.inputs = {{-1, parts, 0}};
  return halves;
}

}  // namespace kodama::compiler
