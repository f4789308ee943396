#include <algorithm>
#include <numeric>

#include "compiler/graph/gradient/gradient_rules.h"

/// Operators that read pictures at places which are data.
namespace kodama::compiler::gradient {

namespace {

/// x and y of the corners of boxes [R, 4], each [R, 1, 1].
Term corner(const Term& boxes, int64_t column) {
  return reshape(slice(boxes, 1, column, column + 1), {boxes.extent(0), 1, 1});
}

/// How much of each row (or column) of a picture is in each bin of each box: [R, bins, extent].
Term bin_weights(NodeParts& n, const Term& begin, const Term& end, int64_t bins, int64_t samples,
                 int64_t extent) {
  const DataType type = begin.type;
  Term length = end - begin;
  if (n.text("coordinate_transformation_mode") != "half_pixel")
    length = maximum(length, n.graph().number(1, type));
  // Samples stand in the middle of equal parts.
  const int64_t count = bins * samples;
  std::vector<double> middles;
  for (int64_t i = 0; i < count; ++i)
    middles.push_back((static_cast<double>(i) + 0.5) / static_cast<double>(count));
  const Term at = begin + length * n.graph().constant(tensor_of(type, {1, count, 1}, middles));
  // A sample between two rows has a share of both; one far outside has none.
  const Term inside = negated(either(less(at, -1.0), greater(at, static_cast<double>(extent))));
  const Term clamped = minimum(maximum(at, n.graph().number(0, type)),
                               n.graph().number(static_cast<double>(extent - 1), type));
  const Term rows = reshape(counting(n.graph(), extent, type), {1, 1, extent});
  const Term share = maximum(1.0 - abs(clamped - rows), n.graph().number(0, type));
  const Term used = select(inside, share, 0.0);
  const Term apart = reshape(used, {used.extent(0), bins, samples, extent});
  return reduce("ReduceMean", apart, {2}, false);
}

/// The mean of bilinear samples is a product with the weights of rows and of columns.
void roi_align(NodeParts& n) {
  if (n.text("mode") != "avg") n.refuse("is differentiated only in mode avg");
  const int64_t samples = n.integer("sampling_ratio");
  if (samples <= 0) n.refuse("is differentiated only with a sampling_ratio that isn't 0");
  const Term x = n.x(0);
  const double scale = n.number("spatial_scale");
  const double offset = n.text("coordinate_transformation_mode") == "half_pixel" ? 0.5 : 0;
  const Term boxes = n.x(1) * scale - offset;
  const Term by_rows =
      bin_weights(n, corner(boxes, 1), corner(boxes, 3), n.integer("output_height"), samples, x.extent(2));
  const Term by_columns =
      bin_weights(n, corner(boxes, 0), corner(boxes, 2), n.integer("output_width"), samples, x.extent(3));
  const int64_t count = boxes.extent(0), channels = x.extent(1), height = x.extent(2), width = x.extent(3);
  if (x.extent(0) == 1) {
    // All boxes are in the one picture: one product with its rows, and none of it for each box.
    const int64_t bins = by_rows.extent(1);
    const Term picture =
        reshape(transpose(reshape(x, {channels, height, width}), {1, 0, 2}), {height, channels * width});
    const Term rows = matmul(reshape(by_rows, {count * bins, height}), picture);
    const Term all = matmul(reshape(rows, {count, bins * channels, width}), transpose_matrix(by_columns));
    n.finish(0, transpose(reshape(all, {count, bins, channels, by_columns.extent(1)}), {0, 2, 1, 3}));
    return;
  }
  const Term pictures = n.graph().add("Gather", {x, n.x(2)}, x.type, {count, channels, height, width},
                                      {onnx::MakeAttribute("axis", int64_t{0})});
  const Term rows = matmul(unsqueeze(by_rows, {1}), pictures);
  n.finish(0, matmul(rows, unsqueeze(transpose_matrix(by_columns), {1})));
}

/// Which elements of an axis are in each bin of each box, of whole numbers: [R, bins, extent].
Term bin_mask(NodeParts& n, const Term& begin, const Term& end, int64_t bins, int64_t extent) {
  const DataType type = begin.type;
  const Term length = maximum(end - begin + 1.0, n.graph().number(1, type));
  const Term numbers = reshape(counting(n.graph(), bins, type), {1, bins, 1});
  const Term bin = length / static_cast<double>(bins);
  const Term first = map("Floor", numbers * bin) + begin;
  const Term last = map("Ceil", (numbers + 1.0) * bin) + begin;
  const Term places = reshape(counting(n.graph(), extent, type), {1, 1, extent});
  return both(negated(less(places, first)), less(places, last));
}

/// The largest element of every bin, 0 for empty ones.
void max_roi_pool(NodeParts& n) {
  const Term x = n.x(0);
  const Term boxes = n.x(1);
  const Ints pooled = *n.ints("pooled_shape");
  const int64_t count = boxes.extent(0);
  const Term picture = cast(reshape(slice(boxes, 1, 0, 1), {count}), kInt64);
  const Term corners = map("Round", boxes * n.number("spatial_scale"));
  const Term rows = bin_mask(n, corner(corners, 2), corner(corners, 4), pooled[0], x.extent(2));
  const Term columns = bin_mask(n, corner(corners, 1), corner(corners, 3), pooled[1], x.extent(3));
  const Term pictures =
      n.graph().add("Gather", {x, picture}, x.type, {count, x.extent(1), x.extent(2), x.extent(3)},
                    {onnx::MakeAttribute("axis", int64_t{0})});
  // Columns of every bin first: [R, C, H, bins, W] to [R, C, H, bins]. What is far below everything
  // is of no bin.
  const double lowest = x.type == DataType::kFloat16 ? -6e4 : -3e38;
  const Term by_columns = reduce(
      "ReduceMax",
      select(reshape(columns, {count, 1, 1, pooled[1], x.extent(3)}), unsqueeze(pictures, {3}), lowest), {4},
      false);
  const Term turned = transpose(by_columns, {0, 1, 3, 2});  // [R, C, bins, H]
  const Term found =
      reduce("ReduceMax",
             select(reshape(rows, {count, 1, pooled[0], 1, x.extent(2)}), unsqueeze(turned, {2}), lowest),
             {4}, false);
  const Term is_empty = negated(greater(found, lowest));
  n.finish(0, select(is_empty, 0.0, found));
}

/// GridSample: places in [-1, 1] to those in pixels.
class GridPlaces {
 public:
  GridPlaces(NodeParts& n, int64_t extent)
      : n_(n),
        extent_(static_cast<double>(extent)),
        aligned_(n.integer("align_corners") != 0),
        padding_(n.text("padding_mode")) {}

  Term pixels(const Term& place) const {
    return aligned_ ? (place + 1.0) * ((extent_ - 1) / 2) : (place + 1.0) * (extent_ / 2) - 0.5;
  }

  /// Places outside, as the padding mode has them.
  Term inside(const Term& at) const {
    if (padding_ == "zeros") return at;
    return clamp(padding_ == "reflection" ? reflect(at) : at);
  }

  /// Of whole numbers: an index that is allowed, and what is read there counts only where this says so.
  Term index(const Term& at) const { return cast(clamp(at), kInt64); }
  Term counts(const Term& at) const { return negated(either(less(at, 0.0), greater(at, extent_ - 1))); }

 private:
  Term clamp(const Term& at) const {
    return minimum(maximum(at, n_.graph().number(0, at.type)), n_.graph().number(extent_ - 1, at.type));
  }
  Term reflect(const Term& at) const {
    const double low = aligned_ ? 0 : -0.5;
    const double span = aligned_ ? extent_ - 1 : extent_;
    if (span == 0) return at * 0.0;
    const Term distance = abs(at - low);
    const Term turns = map("Floor", distance / span);
    const Term rest = distance - turns * span;
    const Term is_even = equal(turns - map("Floor", turns * 0.5) * 2.0, 0.0);
    return select(is_even, rest + low, (span + low) - rest);
  }

  NodeParts& n_;
  double extent_;
  bool aligned_;
  std::string padding_;
};

/// The weights of four neighbours at -1, 0, 1, 2 of a place that is `t` behind the second.
std::vector<Term> cubic_weights(const Term& t) {
  constexpr double kA = -0.75;
  const auto near = [&](const Term& d) { return ((kA + 2) * d - (kA + 3)) * d * d + 1.0; };
  const auto far = [&](const Term& d) { return ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA; };
  return {far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)};
}

void grid_sample(NodeParts& n) {
  const Term x = n.x(0);
  const Term grid = n.x(1);
  if (x.rank() != 4) n.refuse("is differentiated for pictures of two axes");
  const std::string mode = n.text("mode");
  const int64_t batch = x.extent(0), channels = x.extent(1), height = x.extent(2), width = x.extent(3);
  const int64_t count = grid.extent(1) * grid.extent(2);
  const GridPlaces in_rows(n, height);
  const GridPlaces in_columns(n, width);
  const auto coordinate = [&](int64_t column, const GridPlaces& places) {
    return places.pixels(cast(reshape(slice(grid, 3, column, column + 1), {batch, 1, count}), x.type));
  };
  const Term flat = reshape(x, {batch, channels, height * width});
  /// The elements at whole places [N, 1, count], zero outside.
  const auto read = [&](const Term& row, const Term& column) {
    const Term index = in_rows.index(row) * static_cast<double>(width) + in_columns.index(column);
    const Term read_there =
        n.graph().add("GatherElements", {flat, expand(index, {batch, channels, count})}, x.type,
                      {batch, channels, count}, {onnx::MakeAttribute("axis", int64_t{2})});
    return select(both(in_rows.counts(row), in_columns.counts(column)), read_there, 0.0);
  };
  Term row = coordinate(1, in_rows);
  Term column = coordinate(0, in_columns);
  Term result;
  if (mode == "bicubic") {
    const Term row_floor = map("Floor", row);
    const Term column_floor = map("Floor", column);
    const auto row_weights = cubic_weights(row - row_floor);
    const auto column_weights = cubic_weights(column - column_floor);
    std::vector<Term> parts;
    for (int i = 0; i < 4; ++i) {
      std::vector<Term> line;
      for (int k = 0; k < 4; ++k)
        line.push_back(
            read(in_rows.inside(row_floor + (i - 1.0)), in_columns.inside(column_floor + (k - 1.0))) *
            column_weights[static_cast<size_t>(k)]);
      parts.push_back(sum(line) * row_weights[static_cast<size_t>(i)]);
    }
    result = sum(parts);
  } else {
    row = in_rows.inside(row);
    column = in_columns.inside(column);
    if (mode == "nearest") {
      result = read(map("Round", row), map("Round", column));
    } else {
      const Term row_floor = map("Floor", row);
      const Term column_floor = map("Floor", column);
      const Term down = row - row_floor;
      const Term right = column - column_floor;
      result = (read(row_floor, column_floor) * (1.0 - right) + read(row_floor, column_floor + 1.0) * right) *
                   (1.0 - down) +
               (read(row_floor + 1.0, column_floor) * (1.0 - right) +
                read(row_floor + 1.0, column_floor + 1.0) * right) *
                   down;
    }
  }
  n.finish(0, reshape(result, n.output_shape()));
}

}  // namespace

std::vector<GradientRow> region_gradients() {
  return {
      {"GridSample", nullptr, grid_sample},
      {"MaxRoiPool", nullptr, max_roi_pool},
      {"RoiAlign", nullptr, roi_align},
  };
}

}  // namespace kodama::compiler::gradient
