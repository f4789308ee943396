#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "compiler/layers/doubles.h"
#include "compiler/lowering/node_lowering.h"
#include "compiler/lowering/pool.h"

/// Operators whose indices are data, or results: Gather and Scatter in all forms, OneHot, ArgMax, TopK.
///
/// What an index names is found by a Gather layer. Where it is the result that isn't known, which update is
/// for a place and which element comes at a rank, every result looks at all that may be for it: a Reduce of
/// many results over the same elements.
namespace kodama::compiler {

namespace {

constexpr DataType kInt32 = DataType::kInt32;
constexpr double kNoIndex = std::numeric_limits<int32_t>::min();  ///< a fill that names no place

/// The words of a tensor reduced over some axes of its own, or of others: every point of `extents` has the
/// word of a point of `reduced`, which a condition picks.
class Selection {
 public:
  /// Of elements of `type`.
  Selection(NodeLowering& lowering, DataType type, const Shape& extents, Shape reduced)
      : lowering_(lowering),
        extents_(is_long(type) ? words_shape(extents) : extents),
        reduced_(std::move(reduced)),
        rank_(extents.size()) {}

  /// A map from the iteration space; dims are the axes of the result, then those of `reduced`.
  AffineMap map(size_t axes) const { return {axes, extents_.size() + reduced_.size()}; }
  size_t reduction(size_t axis) const { return extents_.size() + axis; }

  /// A word as it is.
  Term number(TensorId id, AffineMap map) { return read(id, std::move(map), 0); }
  /// An integer, of 64 bits the lower word; `outside`: what is read outside the tensor.
  Term index(TensorId id, AffineMap map, double outside = 0) {
    const bool is_word = lowering_.words_of(id) == id;
    return read_word(id, is_word ? std::move(map) : map.extended(1, 0), outside);
  }
  /// Of an element of two words the upper one.
  Term upper(TensorId id, const AffineMap& map) {
    return read_word(id, map.extended(1, 0).set_offset(map.axes(), 1), 0);
  }
  /// The place along a dim.
  Term place(size_t dim) {
    const int64_t extent = dim < extents_.size() ? extents_[dim] : reduced_[dim - extents_.size()];
    return read(lowering_.add_numbers("places", kInt32, {extent}), map(1).set(0, dim, 1), 0);
  }
  Term integer(int32_t value) { return formula_.integer(value); }
  Term constant(double value) { return formula_.constant(value); }

  /// `op` of `value` over what is reduced.
  void reduce(const std::string& suffix, ReduceLayer::Op op, Term value, ScalarExpr epilogue,
              std::vector<TensorAccess> epilogue_inputs, TensorId output) {
    ReduceLayer layer{op,
                      extents_,
                      reduced_,
                      inputs_,
                      formula_.result(value),
                      std::move(epilogue),
                      std::move(epilogue_inputs)};
    tidy_inputs(layer.expr, layer.inputs);
    lowering_.add_layer(suffix, std::move(layer), output);
  }
  /// An operand of an epilogue, over the result's extents.
  TensorAccess beside(TensorId id, const AffineMap& map) const {
    const TensorId words = lowering_.words_of(id);
    if (words == id) return {id, map.extended(0, extents_.size() - rank_), 0};
    return {words, map.extended(1, 1).set(map.axes(), rank_, 1), 0};
  }

 private:
  Term read(TensorId id, AffineMap map, double outside) {
    return read_input(formula_, inputs_, {id, std::move(map), outside});
  }
  /// A word of the tensor's words.
  Term read_word(TensorId id, AffineMap map, double outside) {
    Shape points = extents_;
    points.insert(points.end(), reduced_.begin(), reduced_.end());
    return read_input(formula_, inputs_,
                      lowering_.read_through({lowering_.words_of(id), std::move(map), outside}, points));
  }

  NodeLowering& lowering_;
  Shape extents_, reduced_;
  size_t rank_;
  Formula formula_;
  std::vector<TensorAccess> inputs_;
};

Term same(Term a, Term b) {
  return a.apply(ScalarOp::kXor, b).apply(ScalarOp::kIsZero);
}
Term both(Term a, Term b) {
  return a.apply(ScalarOp::kAnd, b);
}
Term either(Term a, Term b) {
  return a.apply(ScalarOp::kOr, b);
}
/// a < b, with signs.
Term below(Term a, Term b) {
  return less(integer_of_word(a, {32, true}), integer_of_word(b, {32, true}));
}
/// An index that counts from the end where it is negative.
Term from_front(Term index, int64_t extent) {
  const Term turned = index.apply(ScalarOp::kIntAdd, index.integer(static_cast<int32_t>(extent)));
  return where(below(index, index.integer(0)), turned, index);
}

/// A Gather layer: every point of `extents` has the word of a tensor at a place that an index names.
class Lookup {
 public:
  /// Of elements of `type`.
  Lookup(NodeLowering& lowering, DataType type, const Shape& extents, int64_t places)
      : lowering_(lowering), type_(type), rank_(extents.size()) {
    layer_.extents = is_long(type) ? words_shape(extents) : extents;
    layer_.places = places;
  }

  /// A map from the points; dims are the axes of the result, and in one of data the place behind them.
  AffineMap map(size_t axes) const { return {axes, layer_.extents.size()}; }
  AffineMap data_map(size_t axes) const { return {axes, layer_.extents.size() + 1}; }
  size_t place() const { return layer_.extents.size(); }

  /// An integer of the index, of 64 bits its lower word.
  Term index(TensorId id, AffineMap map) {
    const TensorId words = lowering_.words_of(id);
    return read_input(formula_, layer_.index_inputs,
                      lowering_.read_through({words, words == id ? std::move(map) : map.extended(1, 0), 0},
                                             layer_.extents));
  }

  /// What the index names in `data`.
  void find(const std::string& suffix, Term index, TensorId data, AffineMap map, TensorId output) {
    layer_.epilogue = ScalarExpr::identity();
    finish(suffix, index, data, std::move(map), output);
  }
  /// The same where `index`, the place itself, isn't negative; elsewhere elements of `otherwise`.
  void find_or(const std::string& suffix, TensorId index, const AffineMap& index_map, TensorId data,
               AffineMap map, TensorId otherwise, TensorId output) {
    const bool is_float = has_float_arithmetic(type_);
    const auto bits = [&](Term x) { return is_float ? x.apply(ScalarOp::kFloatBits) : x; };
    layer_.epilogue_inputs = {
        {index, index_map, 0},
        of_words(otherwise, AffineMap::identity(rank_).extended(0, layer_.extents.size() - rank_))};
    Formula epilogue;
    const Term has_none = below(epilogue.x(1), epilogue.integer(0));
    const Term word = where(has_none, bits(epilogue.x(2)), bits(epilogue.x(0)));
    layer_.epilogue = epilogue.result(is_float ? word.apply(ScalarOp::kFromBits) : word);
    finish(suffix, this->index(index, index_map), data, std::move(map), output);
  }

 private:
  TensorAccess of_words(TensorId id, AffineMap map) const {
    const TensorId words = lowering_.words_of(id);
    if (words == id) return {id, std::move(map), 0};
    const size_t axis = map.axes();
    return {words, map.extended(1, 0).set(axis, rank_, 1), 0};
  }
  void finish(const std::string& suffix, Term index, TensorId data, AffineMap map, TensorId output) {
    layer_.index = formula_.result(index);
    tidy_inputs(layer_.index, layer_.index_inputs);
    layer_.data = of_words(data, std::move(map));
    lowering_.add_layer(suffix, layer_, lowering_.words_of(output));
  }

  NodeLowering& lowering_;
  DataType type_;
  size_t rank_;
  GatherLayer layer_;
  Formula formula_;
};

/// Tables that LM0 has no room for are cut, and every slice has all results: no more than tensors on the chip
/// may have elements.
HostReason too_long_a_table(int64_t places, const Shape& results) {
  constexpr int64_t kSlice = 1024, kMostResults = int64_t{1} << 25;
  const int64_t slices = (places + kSlice - 1) / kSlice;
  if (slices <= 1 || element_count(results) <= kMostResults / slices) return kLowered;
  return fmt::format("{} results from {} places, in slices of {}, are more than {}", element_count(results),
                     places, kSlice, kMostResults);
}

/// Where every result looks at all elements that may be for it.
HostReason too_many_looks(int64_t results, int64_t elements) {
  constexpr int64_t kMostLooks = int64_t{1} << 27;
  if (elements == 0 || results <= kMostLooks / elements) return kLowered;
  return fmt::format("{} results look at {} elements each: more than {} looks", results, elements,
                     kMostLooks);
}

/// Operand `operand` has integers from -extent to extent - 1.
void check_range(NodeLowering& lowering, int operand, TensorId indices, int64_t extent,
                 const std::string& suffix = "range") {
  check_bounds(lowering, operand, indices, -extent, extent - 1, suffix);
}

Shape around_axis(const Shape& shape, size_t axis) {
  return {element_count({shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis)}), shape[axis],
          element_count({shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape.end()})};
}

bool is_movable_type(DataType type) {
  return word_kind(type) || is_long(type);
}
HostReason not_movable(DataType type) {
  return fmt::format("{} is no word of the chip", data_type_name(type));
}

/// result[p, i, q] = data[p, indices[i], q] for data [pre, n, post].
void gather_along(NodeLowering& lowering, TensorId data, TensorId indices, TensorId output) {
  const Shape shape = lowering.tensor(data).shape;
  Lookup lookup(lowering, lowering.tensor(data).type, lowering.tensor(output).shape, shape[1]);
  const Term index = from_front(lookup.index(indices, lookup.map(1).set(0, 1, 1)), shape[1]);
  lookup.find("", index, data, lookup.data_map(3).set(0, 0, 1).set(1, lookup.place(), 1).set(2, 2, 1),
              output);
}

/// A tensor of the node's output under another shape, to be written by a layer.
TensorId output_as(NodeLowering& lowering, const std::string& suffix, const Shape& shape) {
  if (shape == lowering.output_shape()) return lowering.output();
  const TensorId result = lowering.add_tensor(suffix, lowering.output_type(), shape);
  lowering.bind_output(result);
  return result;
}

HostReason lower_gather_of_data(NodeLowering& lowering) {
  const Shape& from = lowering.input_shape(0);
  const size_t axis = lowering.axis(lowering.int_attribute("axis"), from.size());
  if (auto reason = too_long_a_table(from[axis], lowering.output_shape())) return reason;
  const TensorId indices = lowering.input(1);
  check_range(lowering, 1, indices, from[axis]);
  const Shape shape = around_axis(from, axis);
  const int64_t count = element_count(lowering.input_shape(1));
  const TensorId data = lowering.add_alias("data", lowering.input(0), shape);
  const TensorId list = lowering.add_alias("list", indices, {count});
  gather_along(lowering, data, list, output_as(lowering, "gathered", {shape[0], count, shape[2]}));
  return kLowered;
}

HostReason lower_gather_elements(NodeLowering& lowering) {
  if (!is_movable_type(lowering.input_type(0))) return not_movable(lowering.input_type(0));
  const Shape& from = lowering.input_shape(0);
  const Shape& to = lowering.output_shape();
  const size_t axis = lowering.axis(lowering.int_attribute("axis"), from.size());
  if (auto reason = too_long_a_table(from[axis], to)) return reason;
  check_range(lowering, 1, lowering.input(1), from[axis]);
  Lookup lookup(lowering, lowering.output_type(), to, from[axis]);
  AffineMap own = lookup.map(to.size()), data = lookup.data_map(to.size());
  for (size_t k = 0; k < to.size(); ++k) {
    own.set(k, k, 1);
    data.set(k, k == axis ? lookup.place() : k, 1);
  }
  const Term index = from_front(lookup.index(lowering.input(1), own), from[axis]);
  lookup.find("", index, lowering.input(0), data, lowering.output());
  return kLowered;
}

/// Indices [..., k] of the first k of some axes as places in these axes taken as one, counted from the front.
TensorId linear_indices(NodeLowering& lowering, int operand, const Shape& axes) {
  const TensorId indices = lowering.input(operand);
  Shape extents = lowering.input_shape(operand);
  extents.pop_back();
  MapLayer map;
  map.extents = extents;
  Formula formula;
  std::optional<Term> place;
  int64_t stride = element_count(axes);
  for (size_t k = 0; k < axes.size(); ++k) {
    stride /= axes[k];
    TensorAccess access{lowering.words_of(indices), AffineMap(extents.size() + 1, extents.size()), 0};
    for (size_t axis = 0; axis < extents.size(); ++axis) access.map.set(axis, axis, 1);
    access.map.set_offset(extents.size(), static_cast<int64_t>(k));
    if (is_long(lowering.tensor(indices).type)) access.map = access.map.extended(1, 0);
    map.inputs.push_back(std::move(access));
    const Integer index = integer_of_word(from_front(formula.x(static_cast<int>(k)), axes[k]), {32, true});
    const Term part = stride == 1 ? index.low : (index * integer_constant(index.low, stride, index.type)).low;
    place = place ? place->apply(ScalarOp::kIntAdd, part) : part;
  }
  map.expr = formula.result(*place);
  const TensorId linear = lowering.add_tensor("places", kInt32, extents);
  lowering.add_layer("places", std::move(map), linear);
  return linear;
}

/// Every coordinate of indices [..., k] is in range of its axis.
void check_coordinates(NodeLowering& lowering, int operand, const Shape& axes) {
  const Shape& shape = lowering.input_shape(operand);
  if (std::ranges::count(axes, axes[0]) == std::ssize(axes)) {
    check_range(lowering, operand, lowering.input(operand), axes[0]);
    return;
  }
  Shape extents = shape;
  extents.back() = 1;
  for (size_t k = 0; k < axes.size(); ++k) {
    const std::string suffix = fmt::format("coordinate{}", k);
    const TensorId column = lowering.add_tensor(suffix, lowering.input_type(operand), extents);
    AffineMap map = AffineMap::identity(shape.size());
    map.set_offset(shape.size() - 1, static_cast<int64_t>(k));
    RearrangeLayer rearrange;
    rearrange.extents = extents;
    rearrange.pieces = {
        {{lowering.input(operand), map, 0}, std::vector<int64_t>(extents.size(), 0), extents}};
    lowering.add_layer(suffix, std::move(rearrange), column);
    check_range(lowering, operand, column, axes[k], fmt::format("range{}", k));
  }
}

HostReason lower_gather_nd(NodeLowering& lowering) {
  if (!is_movable_type(lowering.input_type(0))) return not_movable(lowering.input_type(0));
  const Shape& from = lowering.input_shape(0);
  const Shape& indices = lowering.input_shape(1);
  const auto batch = static_cast<size_t>(lowering.int_attribute("batch_dims", 0));
  const auto depth = static_cast<size_t>(indices.back());
  const auto at = [](const Shape& shape, size_t k) { return shape.begin() + static_cast<std::ptrdiff_t>(k); };
  const Shape axes(at(from, batch), at(from, batch + depth));
  if (axes.empty()) return "indices without coordinates";
  const int64_t images = element_count({from.begin(), at(from, batch)});
  const int64_t places = element_count(axes);
  const int64_t rest = element_count({at(from, batch + depth), from.end()});
  if (auto reason = too_long_a_table(places, lowering.output_shape())) return reason;
  check_coordinates(lowering, 1, axes);
  const TensorId linear = linear_indices(lowering, 1, axes);
  const int64_t count = element_count(lowering.tensor(linear).shape) / images;
  const Shape result = {images, count, rest};
  Lookup lookup(lowering, lowering.output_type(), result, places);
  const TensorId list = lowering.add_alias("list", linear, {images, count});
  const TensorId data = lowering.add_alias("data", lowering.input(0), {images, places, rest});
  const Term index = lookup.index(list, lookup.map(2).set(0, 0, 1).set(1, 1, 1));
  lookup.find("", index, data, lookup.data_map(3).set(0, 0, 1).set(1, lookup.place(), 1).set(2, 2, 1),
              output_as(lowering, "gathered", result));
  return kLowered;
}

/// What a Scatter does with updates: `targets` says for every point (result, update) whether it is for it.
/// The last one counts, or they are all added to what is there.
struct Scatter {
  TensorId data, updates;
  Shape extents;  ///< of the result
  int64_t count;  ///< of updates that may be for it
  /// Axes along which all results have the same targets.
  std::vector<bool> is_alike;
  /// Fills in a map to an update; `number` is the dim of its number.
  std::function<AffineMap(AffineMap, size_t number)> update;
  std::function<Term(Selection&)> targets;
};

HostReason scatter(NodeLowering& lowering, const Scatter& scatter, const std::string& reduction,
                   TensorId output) {
  const DataType type = lowering.output_type();
  const size_t rank = scatter.extents.size();
  const bool is_float = has_float_arithmetic(type);
  Shape own = scatter.extents;
  for (size_t k = 0; k < rank; ++k) own[k] = scatter.is_alike[k] && reduction == "none" ? 1 : own[k];
  if (auto reason = too_many_looks(element_count(own), scatter.count)) return reason;
  if (auto reason = too_long_a_table(scatter.count, scatter.extents)) return reason;
  if (reduction == "add" && (is_float || !is_long(type))) {
    Selection sum(lowering, type, scatter.extents, {scatter.count});
    const Term wanted = scatter.targets(sum);
    const Term update = sum.number(scatter.updates, scatter.update(sum.map(rank), sum.reduction(0)));
    const Term none = is_float ? sum.constant(0) : sum.integer(0);
    Formula epilogue;
    const Term total =
        is_float ? epilogue.x(0) + epilogue.x(1)
                 : convert(integer_of_word(epilogue.x(0).apply(ScalarOp::kIntAdd, epilogue.x(1)), {32, true}),
                           *integer_type(type))
                       .low;
    sum.reduce("", is_float ? ReduceLayer::Op::kSum : ReduceLayer::Op::kIntSum, where(wanted, update, none),
               epilogue.result(total), {sum.beside(scatter.data, AffineMap::identity(rank))}, output);
    return kLowered;
  }
  if (reduction == "mul" && is_float) {
    Selection product(lowering, type, scatter.extents, {scatter.count});
    const Term wanted = scatter.targets(product);
    const Term update =
        product.number(scatter.updates, scatter.update(product.map(rank), product.reduction(0)));
    Formula epilogue;
    product.reduce("", ReduceLayer::Op::kProd, where(wanted, update, product.constant(1)),
                   epilogue.result(epilogue.x(0) * epilogue.x(1)),
                   {product.beside(scatter.data, AffineMap::identity(rank))}, output);
    return kLowered;
  }
  if (reduction != "none") return fmt::format("reduction {} of {}", reduction, data_type_name(type));
  // The last update of every place, or -1; then its word.
  const TensorId last = lowering.add_tensor("last", kInt32, own);
  {
    Selection find(lowering, kInt32, own, {scatter.count});
    const Term wanted = scatter.targets(find);
    find.reduce("last", ReduceLayer::Op::kIntMax,
                where(wanted, find.place(find.reduction(0)), find.integer(-1)), ScalarExpr::identity(), {},
                last);
  }
  Lookup lookup(lowering, type, scatter.extents, scatter.count);
  AffineMap of_last = lookup.map(rank);
  for (size_t k = 0; k < rank; ++k) of_last.set(k, k, scatter.is_alike[k] ? 0 : 1);
  const AffineMap of_updates = scatter.update(lookup.data_map(rank), lookup.place());
  const std::optional<double> all = lowering.uniform_constant(0);
  if (all == 0.0 && !std::signbit(*all)) {
    lookup.find("", lookup.index(last, of_last), scatter.updates, of_updates, output);
  } else {
    lookup.find_or("", last, of_last, scatter.updates, of_updates, scatter.data, output);
  }
  return kLowered;
}

std::string reduction_of(const NodeLowering& lowering) {
  const std::string name = lowering.string_attribute("reduction");
  return name.empty() ? "none" : name;
}

HostReason lower_scatter_elements(NodeLowering& lowering) {
  if (const onnx::NodeProto* pool = scattered_pool(lowering.view(), lowering.node()))
    return lower_pool_gradient(lowering, *pool);
  if (!is_movable_type(lowering.input_type(0))) return not_movable(lowering.input_type(0));
  const Shape& shape = lowering.output_shape();
  const Shape& updates = lowering.input_shape(1);
  const size_t axis = lowering.axis(lowering.int_attribute("axis"), shape.size());
  if (element_count(updates) == 0) {
    lowering.bind_output(lowering.input(0));
    return kLowered;
  }
  check_range(lowering, 1, lowering.input(1), shape[axis]);
  const auto update_map = [&](AffineMap map, size_t number) {
    for (size_t k = 0; k < shape.size(); ++k) map.set(k, k == axis ? number : k, 1);
    return map;
  };
  const auto targets = [&](Selection& selection) {
    // Where there are fewer updates than places, none is outside them.
    const AffineMap map = update_map(selection.map(shape.size()), selection.reduction(0));
    const Term index = selection.index(lowering.input(1), map, kNoIndex);
    const Term inside = negation(same(index, selection.integer(static_cast<int32_t>(kNoIndex))));
    const Term place = selection.place(axis);
    return both(inside, same(from_front(index, shape[axis]), place));
  };
  // Indices that an Expand repeats are the same for whole slices.
  const TensorId words = lowering.words_of(lowering.input(1));
  const AffineMap own = AffineMap::identity(updates.size());
  const AffineMap list =
      lowering.read_through({words, words == lowering.input(1) ? own : own.extended(1, 0), 0}, updates).map;
  std::vector<bool> is_alike;
  for (size_t k = 0; k < shape.size(); ++k)
    is_alike.push_back(k != axis && !list.depends_on(k) && updates[k] == shape[k]);
  return scatter(lowering,
                 {lowering.input(0), lowering.input(2), shape, updates[axis], is_alike, update_map, targets},
                 reduction_of(lowering), lowering.output());
}

HostReason lower_scatter_nd(NodeLowering& lowering) {
  if (!is_movable_type(lowering.input_type(0))) return not_movable(lowering.input_type(0));
  const Shape& shape = lowering.output_shape();
  const auto depth = static_cast<size_t>(lowering.input_shape(1).back());
  const auto split = shape.begin() + static_cast<std::ptrdiff_t>(depth);
  const Shape axes(shape.begin(), split);
  if (axes.empty()) return "indices without coordinates";
  if (element_count(lowering.input_shape(1)) == 0) {
    lowering.bind_output(lowering.input(0));
    return kLowered;
  }
  const int64_t places = element_count(axes);
  const int64_t rest = element_count({split, shape.end()});
  check_coordinates(lowering, 1, axes);
  const TensorId linear = linear_indices(lowering, 1, axes);
  const int64_t count = element_count(lowering.tensor(linear).shape);
  const TensorId list = lowering.add_alias("list", linear, {count});
  const TensorId data = lowering.add_alias("data", lowering.input(0), {places, rest});
  const TensorId updates = lowering.add_alias("updates", lowering.input(2), {count, rest});
  const auto update_map = [](AffineMap map, size_t number) { return map.set(0, number, 1).set(1, 1, 1); };
  const auto targets = [&](Selection& selection) {
    return same(selection.index(list, selection.map(1).set(0, selection.reduction(0), 1)),
                selection.place(0));
  };
  return scatter(lowering, {data, updates, {places, rest}, count, {false, true}, update_map, targets},
                 reduction_of(lowering), output_as(lowering, "scattered", {places, rest}));
}

HostReason lower_one_hot(NodeLowering& lowering) {
  const Shape& shape = lowering.output_shape();
  const size_t axis = lowering.axis(lowering.int_attribute("axis"), shape.size());
  const DataType type = lowering.output_type();
  if (!is_movable_type(type)) return not_movable(type);
  // The indices, with an axis to be repeated along.
  Shape places = lowering.input_shape(0);
  places.insert(places.begin() + static_cast<std::ptrdiff_t>(axis), 1);
  Shape own(shape.size(), 1);
  own[axis] = shape[axis];
  const TensorId number = lowering.add_numbers("places", kInt32, own);
  MapBuilder map(lowering, shape);
  const TensorId indices = lowering.add_alias("indices", lowering.input(0), places);
  const auto whole = [](Term number) {
    const IntegerType type = {64, true};
    return number.is_double() ? double_to_integer(number, type) : to_integer(number, type);
  };
  const Integer index =
      integer_type(lowering.input_type(0)) ? map.integer(indices) : whole(map.operand(indices));
  const Integer wide = convert(index, {64, true});
  const auto value = [&](int64_t constant) { return integer_constant(wide.low, constant, wide.type); };
  const Integer turned = where(less(wide, value(0)), wide + value(shape[axis]), wide);
  const Term is_it = equal(turned, convert(integer_of_word(map.operand(number), {32, true}), {64, true}));
  const auto chosen = [&](int64_t which) {
    // Off, on.
    const TensorId values = lowering.input(2);
    const TensorId one = lowering.add_tensor(fmt::format("value{}", which), type, Shape(shape.size(), 1));
    RearrangeLayer rearrange;
    rearrange.extents = Shape(shape.size(), 1);
    AffineMap from(1, shape.size());
    from.set_offset(0, which);
    rearrange.pieces = {{{values, from, 0}, std::vector<int64_t>(shape.size(), 0), rearrange.extents}};
    lowering.add_layer(fmt::format("value{}", which), std::move(rearrange), one);
    return one;
  };
  const TensorId off = chosen(0), on = chosen(1);
  if (integer_type(type)) {
    const Integer yes = map.integer(on);
    map.finish("", where(is_it, yes, map.integer(off)), lowering.output());
  } else {
    const Term yes = map.operand(on);
    map.finish("", where(is_it, yes, map.operand(off)), lowering.output());
  }
  return kLowered;
}

/// An element as words with signs that order as it does, the upper one first. A float is itself.
using Order = std::vector<Term>;

/// The words of a double, as those of an integer.
Order order_of_double(Term high, Term low) {
  // -0 is 0. Of negative numbers, larger bits are less.
  const Term magnitude = high.apply(ScalarOp::kShiftLeft, high.integer(1)).apply(ScalarOp::kOr, low);
  const Term upper = where(magnitude, high, high.integer(0));
  const Term sign = upper.apply(ScalarOp::kShiftRightSigned, high.integer(31));
  const Term most = high.integer(std::numeric_limits<int32_t>::max());
  return {upper.apply(ScalarOp::kXor, both(sign, most)), low.apply(ScalarOp::kXor, sign)};
}

Order ordered(Selection& selection, const NodeLowering& lowering, TensorId id, const AffineMap& map) {
  const DataType element = lowering.tensor(id).type;
  const auto type = integer_type(element);
  if (!type && !is_double(element)) return {selection.number(id, map)};
  // Without a sign, the highest bit is the least number with one.
  const auto with_sign = [](Term word) { return word.apply(ScalarOp::kXor, word.integer(kNoIndex)); };
  const Term low = selection.index(id, map);
  if (type && !type->is_wide()) return {*type == IntegerType{32, false} ? with_sign(low) : low};
  const Term high = selection.upper(id, map);
  Order order = type ? Order{type->is_signed ? high : with_sign(high), low} : order_of_double(high, low);
  order[1] = with_sign(order[1]);
  return order;
}

Term same_order(const Order& a, const Order& b, bool is_float) {
  Term result = is_float ? equal(a[0], b[0]) : same(a[0], b[0]);
  for (size_t k = 1; k < a.size(); ++k) result = both(result, same(a[k], b[k]));
  return result;
}
Term less_order(const Order& a, const Order& b, bool is_float) {
  if (is_float) return less(a[0], b[0]);
  if (a.size() == 1) return below(a[0], b[0]);
  return either(below(a[0], b[0]), both(same(a[0], b[0]), below(a[1], b[1])));
}

/// Elements that are compared as floats, not as words.
bool has_float_order(DataType type) {
  return !integer_type(type) && !is_double(type);
}

/// Where data [pre, n, post] has its largest (or smallest) element along n, for the first or the last time:
/// int32 [pre, post].
TensorId place_of_extreme(NodeLowering& lowering, TensorId data, bool largest, bool last) {
  const Shape shape = lowering.tensor(data).shape;
  const DataType type = lowering.tensor(data).type;
  const bool is_float = has_float_order(type);
  const Shape result = {shape[0], shape[2]};
  const DataType order = is_float ? DataType::kFloat32 : kInt32;
  const auto read = [&](const Selection& selection) {
    return selection.map(3).set(0, 0, 1).set(1, selection.reduction(0), 1).set(2, 1, 1);
  };
  using Op = ReduceLayer::Op;
  const Op op = is_float ? (largest ? Op::kMax : Op::kMin) : (largest ? Op::kIntMax : Op::kIntMin);
  // Word by word: the lower one of those elements whose upper one is the best.
  std::vector<TensorId> extremes;
  const auto best = [&](Selection& find) {
    Order words;
    for (const TensorId extreme : extremes)
      words.push_back(find.number(extreme, find.map(2).set(0, 0, 1).set(1, 1, 1)));
    return words;
  };
  for (const char* suffix : {"extreme", "lower_extreme"}) {
    Selection find(lowering, order, result, {shape[1]});
    const Order value = ordered(find, lowering, data, read(find));
    if (extremes.size() == value.size()) break;
    Term word = value[extremes.size()];
    if (!extremes.empty())
      word = where(same(value[0], best(find)[0]), word, find.integer(static_cast<int32_t>(identity_of(op))));
    const TensorId extreme = lowering.add_tensor(suffix, order, result);
    find.reduce(suffix, op, word, ScalarExpr::identity(), {}, extreme);
    extremes.push_back(extreme);
  }
  Selection find(lowering, kInt32, result, {shape[1]});
  const Term is_it = same_order(ordered(find, lowering, data, read(find)), best(find), is_float);
  const TensorId place = lowering.add_tensor("place", kInt32, result);
  find.reduce("place", last ? Op::kIntMax : Op::kIntMin,
              where(is_it, find.place(find.reduction(0)),
                    find.integer(last ? -1 : std::numeric_limits<int32_t>::max())),
              ScalarExpr::identity(), {}, place);
  return place;
}

template <bool largest>
HostReason lower_arg(NodeLowering& lowering) {
  const Shape& from = lowering.input_shape(0);
  const size_t axis = lowering.axis(lowering.int_attribute("axis"), from.size());
  const TensorId data = lowering.add_alias("data", lowering.input(0), around_axis(from, axis));
  const TensorId place =
      place_of_extreme(lowering, data, largest, lowering.int_attribute("select_last_index") != 0);
  const Shape result = lowering.tensor(place).shape;
  MapBuilder map(lowering, result);
  map.finish("whole", convert(map.integer(place), {64, true}), output_as(lowering, "places", result));
  return kLowered;
}

/// 1 where an axis has its largest element for the first time, else 0.
HostReason lower_hardmax(NodeLowering& lowering) {
  const Shape& from = lowering.input_shape(0);
  const size_t axis = lowering.axis(lowering.int_attribute("axis"), from.size());
  const Shape shape = around_axis(from, axis);
  const TensorId data = lowering.add_alias("data", lowering.input(0), shape);
  const TensorId place = place_of_extreme(lowering, data, true, false);
  const TensorId number = lowering.add_numbers("numbers", kInt32, {shape[1], 1});
  MapBuilder map(lowering, shape);
  const Term first = map.operand(lowering.add_alias("first", place, {shape[0], 1, shape[2]}));
  const Term is_first = same(map.operand(number), first);
  map.finish("", where(is_first, map.constant(1), map.constant(0)), output_as(lowering, "one", shape));
  return kLowered;
}

HostReason lower_top_k(NodeLowering& lowering) {
  const Shape& from = lowering.input_shape(0);
  const bool is_float = has_float_order(lowering.input_type(0));
  const size_t axis = lowering.axis(lowering.int_attribute("axis"), from.size());
  if (auto reason = too_many_looks(element_count(from), from[axis])) return reason;
  const bool largest = lowering.int_attribute("largest") != 0;
  const Shape shape = around_axis(from, axis);
  const Shape result = around_axis(lowering.output_shape(0), axis);
  const TensorId data = lowering.add_alias("data", lowering.input(0), shape);
  // How many come before each: those that are better, and of equal ones those in front.
  const TensorId rank = lowering.add_tensor("rank", kInt32, shape);
  {
    Selection count(lowering, kInt32, shape, {shape[1]});
    const AffineMap own = count.map(3).set(0, 0, 1).set(1, 1, 1).set(2, 2, 1);
    const AffineMap other = count.map(3).set(0, 0, 1).set(1, count.reduction(0), 1).set(2, 2, 1);
    const Order mine = ordered(count, lowering, data, own);
    const Order its = ordered(count, lowering, data, other);
    const Term better = largest ? less_order(mine, its, is_float) : less_order(its, mine, is_float);
    const Term equals = same_order(mine, its, is_float);
    // Places are no large numbers: their difference has their order's sign.
    const Term in_front = count.place(count.reduction(0))
                              .apply(ScalarOp::kIntSub, count.place(1))
                              .apply(ScalarOp::kShiftRight, count.integer(31));
    count.reduce("rank", ReduceLayer::Op::kIntSum, either(better, both(equals, in_front)),
                 ScalarExpr::identity(), {}, rank);
  }
  // Where the one of each rank is; then what is there.
  const TensorId place = lowering.add_tensor("place", kInt32, result);
  {
    Selection find(lowering, kInt32, result, {shape[1]});
    const AffineMap map = find.map(3).set(0, 0, 1).set(1, find.reduction(0), 1).set(2, 2, 1);
    const Term is_it = same(find.index(rank, map), find.place(1));
    find.reduce("place", ReduceLayer::Op::kIntSum,
                where(is_it, find.place(find.reduction(0)), find.integer(0)), ScalarExpr::identity(), {},
                place);
  }
  const auto result_tensor = [&](const std::string& suffix, int index) {
    if (result == lowering.output_shape(index)) return lowering.output(index);
    const TensorId id = lowering.add_tensor(suffix, lowering.output_type(index), result);
    lowering.bind_output(id, index);
    return id;
  };
  if (lowering.has_output(0)) {
    Lookup lookup(lowering, lowering.output_type(0), result, shape[1]);
    const Term index = lookup.index(place, lookup.map(3).set(0, 0, 1).set(1, 1, 1).set(2, 2, 1));
    lookup.find("", index, data, lookup.data_map(3).set(0, 0, 1).set(1, lookup.place(), 1).set(2, 2, 1),
                result_tensor("values", 0));
  }
  if (lowering.has_output(1)) {
    MapBuilder map(lowering, result);
    map.finish("places", convert(map.integer(place), {64, true}), result_tensor("places", 1));
  }
  return kLowered;
}

}  // namespace

void check_bounds(NodeLowering& lowering, int operand, TensorId indices, int64_t lowest, int64_t highest,
                  const std::string& suffix) {
  const std::string what = fmt::format("{}: an index in '{}' is out of range; allowed are {} to {}",
                                       lowering.where(), lowering.node().input(operand), lowest, highest);
  const LayerTensor tensor = lowering.tensor(indices);
  if (tensor.constant) {
    for (int64_t k = 0; k < tensor.constant->size(); ++k) {
      const double value = element_as_double(*tensor.constant, k);
      if (value < static_cast<double>(lowest) || value > static_cast<double>(highest))
        throw isa::UserError(fmt::format("{}, found is {}", what, value));
    }
    return;
  }
  if (lowering.is_given(indices) && is_index_type(tensor.type)) {
    lowering.add_check(indices, what, lowest, highest);
    return;
  }
  const TensorId words = lowering.words_of(indices);
  const bool is_wide = words != indices;
  const size_t rank = tensor.shape.size();
  const AffineMap own = AffineMap::identity(rank);
  const TensorAccess source =
      lowering.read_through({words, is_wide ? own.extended(1, 0) : own, 0}, tensor.shape);
  // What is repeated is looked at once. The first axis may be a batch that is worked through in slices.
  Shape reduced = tensor.shape;
  for (size_t axis = 0; axis < rank; ++axis) reduced[axis] = source.map.depends_on(axis) ? reduced[axis] : 1;
  Shape extents = {1};
  if (rank > 1) std::swap(extents[0], reduced[0]);
  AffineMap spread(rank, 1 + rank);
  for (size_t axis = 0; axis < rank; ++axis) spread.set(axis, axis + 1, 1);
  if (rank > 1) spread.set(0, 0, 1);
  ReduceLayer layer;
  layer.op = ReduceLayer::Op::kIntMin;
  layer.output_extents = extents;
  layer.reduction_extents = reduced.empty() ? Shape{1} : reduced;
  TensorAccess low{source.tensor, source.map.after(spread), 0};
  if (reduced.empty()) low.map = low.map.extended(0, 1);
  layer.inputs = {low};
  // Without a sign, whatever is below the lowest is beyond the highest.
  Formula formula;
  const Term word = formula.x(0);
  const Term beyond = word.apply(ScalarOp::kIntSub, formula.integer(static_cast<int32_t>(lowest)));
  const Term most = formula.integer(static_cast<int32_t>(highest - lowest));
  Term wrong = beyond.apply(ScalarOp::kUnsignedMax, most).apply(ScalarOp::kXor, most);
  if (is_wide) {
    const size_t axis = lowering.tensor(source.tensor).shape.size() - 1;
    TensorAccess high = low;
    high.map.set_offset(axis, 1);
    layer.inputs.push_back(high);
    const Term sign = word.apply(ScalarOp::kShiftRightSigned, formula.integer(31));
    wrong = wrong.apply(ScalarOp::kOr, formula.x(1).apply(ScalarOp::kXor, sign));
  }
  layer.expr = formula.result(wrong.apply(ScalarOp::kIsZero));
  Formula epilogue;
  layer.epilogue = epilogue.result(epilogue.x(0).apply(ScalarOp::kIsZero));
  const TensorId flags = lowering.add_tensor(suffix, kInt32, extents);
  lowering.add_layer(suffix, std::move(layer), flags);
  lowering.add_check(flags, what);
}

HostReason lower_gather_by_data(NodeLowering& lowering) {
  if (!is_movable_type(lowering.input_type(0))) return not_movable(lowering.input_type(0));
  return lower_gather_of_data(lowering);
}

void register_indexing(OperatorTable& table) {
  constexpr auto kAny = ElementTypes::kAny, kAnyFirst = ElementTypes::kAnyFirst;
  constexpr const char* kTables = "results times slices of 1024 places up to 2^25";
  constexpr const char* kUpdates = "elements times updates that may be for them up to 2^27";
  table.push_back({"GatherElements", lower_gather_elements, kAny, kTables});
  table.push_back({"GatherND", lower_gather_nd, kAny, kTables});
  table.push_back({"ScatterElements", lower_scatter_elements, kAnyFirst, kUpdates});
  table.push_back({"Scatter", lower_scatter_elements, kAnyFirst, kUpdates});
  table.push_back({"ScatterND", lower_scatter_nd, kAnyFirst, kUpdates});
  table.push_back({"OneHot", lower_one_hot, kAny});
  table.push_back({"ArgMax", lower_arg<true>, ElementTypes::kAllNumbers});
  table.push_back({"ArgMin", lower_arg<false>, ElementTypes::kAllNumbers});
  table.push_back({"Hardmax", lower_hardmax, ElementTypes::kChipFloats});
  table.push_back(
      {"TopK", lower_top_k, ElementTypes::kAllNumbers, "elements times the axis' length up to 2^27"});
}

}  // namespace kodama::compiler
