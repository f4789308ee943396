#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/lowering/node_lowering.h"

/// Operators that only rearrange elements: aliases where the order stays, else Rearrange layers. They work on
/// any element type.
namespace kodama::compiler {

namespace {

/// A Rearrange of one piece that fills the whole output.
RearrangeLayer whole_rearrange(TensorId source, AffineMap map, const Shape& extents) {
  RearrangeLayer rearrange;
  rearrange.extents = extents;
  rearrange.pieces = {{{source, std::move(map), 0}, std::vector<int64_t>(extents.size(), 0), extents}};
  return rearrange;
}

/// Output `index` (of shape `extents` up to a reshape) = a permutation of the axes of `source`.
void add_permutation(NodeLowering& lowering, TensorId source, const std::vector<size_t>& permutation) {
  const Shape from = lowering.tensor(source).shape;
  AffineMap map(from.size(), from.size());
  Shape extents;
  bool keeps_order = true;
  size_t last = 0;
  for (size_t axis = 0; axis < permutation.size(); ++axis) {
    map.set(permutation[axis], axis, 1);
    extents.push_back(from[permutation[axis]]);
    if (extents.back() == 1) continue;  // such an axis may be anywhere
    keeps_order = keeps_order && permutation[axis] >= last;
    last = permutation[axis];
  }
  if (keeps_order) {
    lowering.bind_output(source);
  } else if (extents == lowering.output_shape()) {
    lowering.add_layer("", whole_rearrange(source, std::move(map), extents), lowering.output());
  } else {
    const TensorId moved = lowering.add_tensor("moved", lowering.tensor(source).type, extents);
    lowering.add_layer("", whole_rearrange(source, std::move(map), extents), moved);
    lowering.bind_output(moved);
  }
}

HostReason lower_alias(NodeLowering& lowering) {
  lowering.bind_output(lowering.input(0));
  return kLowered;
}

HostReason lower_transpose(NodeLowering& lowering) {
  const size_t rank = lowering.input_shape(0).size();
  std::vector<size_t> permutation(rank);
  std::iota(permutation.rbegin(), permutation.rend(), 0);
  if (const auto perm = lowering.ints_attribute("perm")) {
    lowering.require(perm->size() == rank, "perm has {} entries; the input has rank {}", perm->size(), rank);
    (void)lowering.axis_flags(*perm, rank);  // each axis once
    for (size_t axis = 0; axis < rank; ++axis) permutation[axis] = lowering.axis((*perm)[axis], rank);
  }
  add_permutation(lowering, lowering.input(0), permutation);
  return kLowered;
}

/// [N, C, H, W] split into blocks of pixels, which go into the channels, or the other way round.
HostReason lower_depth_to_space(NodeLowering& lowering) {
  const Shape& x = lowering.input_shape(0);
  const int64_t size = lowering.int_attribute("blocksize");
  lowering.require(x.size() == 4 && size >= 1 && x[1] % (size * size) == 0,
                   "the input is {} with blocksize {}; [N, C, H, W] with C a multiple of {} is needed",
                   shape_to_string(x), size, size * size);
  const bool depth_first = lowering.string_attribute("mode") == "DCR";
  const int64_t depth = x[1] / (size * size);
  const Shape split =
      depth_first ? Shape{x[0], size, size, depth, x[2], x[3]} : Shape{x[0], depth, size, size, x[2], x[3]};
  const std::vector<size_t> permutation =
      depth_first ? std::vector<size_t>{0, 3, 4, 1, 5, 2} : std::vector<size_t>{0, 1, 4, 2, 5, 3};
  add_permutation(lowering, lowering.add_alias("split", lowering.input(0), split), permutation);
  return kLowered;
}

HostReason lower_space_to_depth(NodeLowering& lowering) {
  const Shape& x = lowering.input_shape(0);
  const int64_t size = lowering.int_attribute("blocksize");
  lowering.require(x.size() == 4 && size >= 1 && x[2] % size == 0 && x[3] % size == 0,
                   "the input is {} with blocksize {}; [N, C, H, W] with H and W multiples of it is needed",
                   shape_to_string(x), size);
  const Shape split = {x[0], x[1], x[2] / size, size, x[3] / size, size};
  add_permutation(lowering, lowering.add_alias("split", lowering.input(0), split), {0, 3, 5, 1, 2, 4});
  return kLowered;
}

HostReason lower_expand(NodeLowering& lowering) {
  const Shape& from = lowering.input_shape(0);
  const Shape& to = lowering.output_shape();
  if (element_count(from) == element_count(to)) return lower_alias(lowering);
  lowering.add_layer("", whole_rearrange(lowering.input(0), AffineMap::broadcast(from, to), to),
                     lowering.output());
  return kLowered;
}

/// An axis that is repeated r times is two axes, r (not read) and its own.
HostReason lower_tile(NodeLowering& lowering) {
  const Shape& from = lowering.input_shape(0);
  const auto repeats = lowering.constant_integers(1);
  if (!repeats) return "the repeats aren't constant";
  lowering.require(repeats->size() == from.size(), "{} repeats for an input of rank {}", repeats->size(),
                   from.size());
  Shape extents;
  AffineMap map(from.size(), 2 * from.size());
  for (size_t axis = 0; axis < from.size(); ++axis) {
    extents.push_back((*repeats)[axis]);
    extents.push_back(from[axis]);
    map.set(axis, 2 * axis + 1, 1);
  }
  if (element_count(extents) == element_count(from)) return lower_alias(lowering);
  const TensorId tiled = lowering.add_tensor("tiled", lowering.output_type(), extents);
  lowering.add_layer("", whole_rearrange(lowering.input(0), map, extents), tiled);
  lowering.bind_output(tiled);
  return kLowered;
}

HostReason lower_concat(NodeLowering& lowering) {
  const Shape& extents = lowering.output_shape();
  const size_t axis = lowering.axis(lowering.int_attribute("axis"), extents.size());
  if (lowering.input_count() == 1) return lower_alias(lowering);
  RearrangeLayer rearrange;
  rearrange.extents = extents;
  int64_t position = 0;
  for (int i = 0; i < lowering.input_count(); ++i) {
    RearrangeLayer::Piece piece{{lowering.input(i), AffineMap::identity(extents.size()), 0},
                                std::vector<int64_t>(extents.size(), 0),
                                extents};
    piece.input.map.set_offset(axis, -position);
    piece.begin[axis] = position;
    position += lowering.input_shape(i)[axis];
    piece.end[axis] = position;
    rearrange.pieces.push_back(std::move(piece));
  }
  lowering.add_layer("", std::move(rearrange), lowering.output());
  return kLowered;
}

HostReason lower_slice(NodeLowering& lowering) {
  const Shape& from = lowering.input_shape(0);
  const Shape& to = lowering.output_shape();
  const auto starts = lowering.constant_integers(1);
  const auto ends = lowering.constant_integers(2);
  if (!starts || !ends) return "starts and ends aren't constant";
  std::vector<int64_t> axes(starts->size());
  std::iota(axes.begin(), axes.end(), 0);
  if (lowering.has_input(3)) {
    const auto values = lowering.constant_integers(3);
    if (!values) return "the axes aren't constant";
    axes = *values;
  }
  std::vector<int64_t> steps(starts->size(), 1);
  if (lowering.has_input(4)) {
    const auto values = lowering.constant_integers(4);
    if (!values) return "the steps aren't constant";
    steps = *values;
  }
  lowering.require(axes.size() == starts->size() && steps.size() == starts->size(),
                   "{} starts, {} axes and {} steps; one of each per axis is needed", starts->size(),
                   axes.size(), steps.size());
  (void)lowering.axis_flags(axes, from.size());  // each axis once
  // The type inference has worked out how many elements `ends` leaves.
  AffineMap map = AffineMap::identity(from.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = lowering.axis(axes[i], from.size());
    const int64_t extent = from[axis];
    const int64_t step = steps[i];
    lowering.require(step != 0, "a step is 0");
    int64_t start = (*starts)[i] < 0 ? (*starts)[i] + extent : (*starts)[i];
    start = std::clamp<int64_t>(start, 0, step > 0 ? extent : extent - 1);
    // Beyond the first element a step's length doesn't matter, and it may be huge.
    map.set(axis, axis, to[axis] > 1 ? step : 1).set_offset(axis, start);
  }
  if (map == AffineMap::identity(from.size()) && from == to) return lower_alias(lowering);
  isa::check_internal(map.stays_inside(to, from), "lower", "{}: {} of {} leaves {}", lowering.where(),
                      map.to_string(), shape_to_string(to), shape_to_string(from));
  lowering.add_layer("", whole_rearrange(lowering.input(0), map, to), lowering.output());
  return kLowered;
}

HostReason lower_split(NodeLowering& lowering) {
  const Shape& from = lowering.input_shape(0);
  const size_t axis = lowering.axis(lowering.int_attribute("axis"), from.size());
  int64_t position = 0;
  for (int i = 0; i < lowering.node().output_size(); ++i) {
    lowering.require(lowering.has_output(i), "output {} is omitted", i);
    const Shape& to = lowering.output_shape(i);
    if (to == from) {
      lowering.bind_output(lowering.input(0), i);
      continue;
    }
    AffineMap map = AffineMap::identity(from.size()).set_offset(axis, position);
    position += to[axis];
    lowering.add_layer(fmt::format("{}", i), whole_rearrange(lowering.input(0), map, to), lowering.output(i));
  }
  return kLowered;
}

/// One axis of a padded tensor: output indices [begin, end) read offset + coefficient * index.
struct PadPart {
  int64_t begin, end, coefficient, offset;
};

/// More pieces than this (of Pad 3 to the power of the padded axes) are left to the host.
constexpr size_t kMaxPieces = 81;

HostReason lower_pad(NodeLowering& lowering) {
  const Shape& from = lowering.input_shape(0);
  const Shape& to = lowering.output_shape();
  const size_t rank = from.size();
  const auto pads = lowering.constant_integers(1);
  if (!pads) return "the pads aren't constant";
  lowering.require(pads->size() == 2 * rank, "{} pads for an input of rank {}; {} are needed", pads->size(),
                   rank, 2 * rank);
  if (std::all_of(pads->begin(), pads->end(), [](int64_t pad) { return pad == 0; }))
    return lower_alias(lowering);
  const std::string mode = lowering.string_attribute("mode");
  double fill = 0;
  if (mode == "constant" && lowering.has_input(2)) {
    const auto value = lowering.uniform_constant(2);
    if (!value) return "the value isn't constant";
    // Values pass through double precision, which holds every other type's exactly.
    if (std::fabs(*value) > 9007199254740992.0 && element_size(lowering.output_type()) == 8 &&
        lowering.output_type() != DataType::kFloat64) {
      return "the value needs more than 53 bits";
    }
    fill = *value;
  }
  lowering.require(mode == "constant" || mode == "edge" || mode == "reflect",
                   "mode is '{}'; constant, edge and reflect are allowed", mode);
  std::vector<std::vector<PadPart>> parts(rank);
  size_t pieces = 1;
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t before = (*pads)[axis];
    const int64_t extent = from[axis];
    const int64_t begin = std::clamp<int64_t>(before, 0, to[axis]);
    const int64_t end = std::clamp<int64_t>(before + extent, begin, to[axis]);
    parts[axis].push_back({begin, end, 1, -before});
    if (mode == "edge") {
      if (begin > 0) parts[axis].push_back({0, begin, 0, 0});
      if (end < to[axis]) parts[axis].push_back({end, to[axis], 0, extent - 1});
    } else if (mode == "reflect") {
      if (begin >= extent || to[axis] - end >= extent) return "it reflects more than the axis holds";
      if (begin > 0) parts[axis].push_back({0, begin, -1, before});
      if (end < to[axis]) parts[axis].push_back({end, to[axis], -1, before + 2 * (extent - 1)});
    }
    pieces *= parts[axis].size();
  }
  if (pieces > kMaxPieces) return fmt::format("{} pieces; at most {} are made", pieces, kMaxPieces);

  RearrangeLayer rearrange;
  rearrange.extents = to;
  rearrange.fill = fill;
  for (size_t number = 0; number < pieces; ++number) {
    RearrangeLayer::Piece piece{{lowering.input(0), AffineMap(rank, rank), fill}, {}, {}};
    size_t rest = number;
    bool empty = false;
    for (size_t axis = 0; axis < rank; ++axis) {
      const PadPart& part = parts[axis][rest % parts[axis].size()];
      rest /= parts[axis].size();
      piece.begin.push_back(part.begin);
      piece.end.push_back(part.end);
      piece.input.map.set(axis, axis, part.coefficient).set_offset(axis, part.offset);
      empty = empty || part.begin >= part.end;
    }
    if (!empty) rearrange.pieces.push_back(std::move(piece));
  }
  lowering.add_layer("", std::move(rearrange), lowering.output());
  return kLowered;
}

/// More constant indices than this are a gather, not a few slices.
constexpr int64_t kMaxGatherPieces = 64;

/// Constant indices: a piece each.
HostReason lower_gather(NodeLowering& lowering) {
  const Shape& from = lowering.input_shape(0);
  const auto indices = lowering.constant_integers(1);
  if (!indices) return lower_gather_by_data(lowering);
  const auto count = static_cast<int64_t>(indices->size());
  if (count > kMaxGatherPieces) return lower_gather_by_data(lowering);
  const size_t axis = lowering.axis(lowering.int_attribute("axis"), from.size());
  RearrangeLayer rearrange;
  rearrange.extents = from;
  rearrange.extents[axis] = count;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t index = (*indices)[i];
    lowering.require(index >= -from[axis] && index < from[axis], "index {} on axis {} of {}", index, axis,
                     shape_to_string(from));
    RearrangeLayer::Piece piece{{lowering.input(0), AffineMap::identity(from.size()), 0},
                                std::vector<int64_t>(from.size(), 0),
                                rearrange.extents};
    piece.input.map.set(axis, axis, 0).set_offset(axis, index < 0 ? index + from[axis] : index);
    piece.begin[axis] = i;
    piece.end[axis] = i + 1;
    rearrange.pieces.push_back(std::move(piece));
  }
  if (rearrange.extents == lowering.output_shape()) {
    lowering.add_layer("", std::move(rearrange), lowering.output());
    return kLowered;
  }
  const TensorId gathered = lowering.add_tensor("gathered", lowering.output_type(), rearrange.extents);
  lowering.add_layer("", std::move(rearrange), gathered);
  lowering.bind_output(gathered);
  return kLowered;
}

/// Constant lengths: of samples with the same one, what is reversed and what stays behind it.
HostReason lower_reverse_sequence(NodeLowering& lowering) {
  const Shape& shape = lowering.input_shape(0);
  const size_t rank = shape.size();
  const size_t batch = lowering.axis(lowering.int_attribute("batch_axis"), rank);
  const size_t time = lowering.axis(lowering.int_attribute("time_axis"), rank);
  const auto lengths = lowering.constant_integers(1);
  if (!lengths) return "the lengths aren't constant";
  lowering.require(batch != time && static_cast<int64_t>(lengths->size()) == shape[batch],
                   "{} lengths for an input {} with batch_axis {} and time_axis {}", lengths->size(),
                   shape_to_string(shape), batch, time);
  RearrangeLayer rearrange;
  rearrange.extents = shape;
  for (size_t first = 0; first < lengths->size();) {
    const int64_t length = (*lengths)[first];
    lowering.require(length >= 0 && length <= shape[time], "a length is {}; 0 to {} is allowed", length,
                     shape[time]);
    size_t last = first;
    while (last < lengths->size() && (*lengths)[last] == length) ++last;
    RearrangeLayer::Piece piece{
        {lowering.input(0), AffineMap::identity(rank), 0}, std::vector<int64_t>(rank, 0), shape};
    piece.begin[batch] = static_cast<int64_t>(first);
    piece.end[batch] = static_cast<int64_t>(last);
    RearrangeLayer::Piece reversed = piece;
    reversed.end[time] = length;
    reversed.input.map.set(time, time, -1).set_offset(time, length - 1);
    piece.begin[time] = length;
    if (length > 0) rearrange.pieces.push_back(std::move(reversed));
    if (length < shape[time]) rearrange.pieces.push_back(std::move(piece));
    first = last;
  }
  if (rearrange.pieces.size() > kMaxPieces)
    return fmt::format("{} pieces; at most {} are made", rearrange.pieces.size(), kMaxPieces);
  lowering.add_layer("", std::move(rearrange), lowering.output());
  return kLowered;
}

}  // namespace

void register_movement(OperatorTable& table) {
  constexpr auto kAny = ElementTypes::kAny;
  table.push_back({"Identity", lower_alias, kAny});
  table.push_back({"Reshape", lower_alias, kAny});
  table.push_back({"Flatten", lower_alias, kAny});
  table.push_back({"Squeeze", lower_alias, kAny});
  table.push_back({"Unsqueeze", lower_alias, kAny});
  table.push_back({"Transpose", lower_transpose, kAny});
  table.push_back({"DepthToSpace", lower_depth_to_space, kAny});
  table.push_back({"SpaceToDepth", lower_space_to_depth, kAny});
  table.push_back({"Expand", lower_expand, kAny});
  table.push_back({"Tile", lower_tile, kAny, "constant repeats"});
  table.push_back({"Concat", lower_concat, kAny});
  table.push_back({"Slice", lower_slice, kAny, "constant starts, ends, axes, steps"});
  table.push_back({"Split", lower_split, kAny});
  table.push_back({"Pad", lower_pad, kAny, "constant pads and value"});
  table.push_back({"Gather", lower_gather, kAny,
                   "few constant indices; else results times slices of 1024 places up to 2^25"});
  table.push_back({"ReverseSequence", lower_reverse_sequence, kAny});
}

}  // namespace kodama::compiler
