#include <algorithm>
#include <functional>
#include <limits>

#include "compiler/layers/node_lowering.h"

/// Operators whose indices are data, or results: Gather and Scatter in all forms, OneHot, ArgMax, TopK.
///
/// The chip has no branch and few addresses that data decide. Here every result looks at all places that its
/// index may name and keeps the word of the one it does name: a Reduce, whose sum has one term that isn't
/// zero. It is exact for words of any type, and costs the length of the axis for each result.
namespace kodama::compiler {

namespace {

using onnx::TensorProto;

constexpr DataType kInt32 = TensorProto::INT32;
constexpr double kNoIndex = std::numeric_limits<int32_t>::min();  ///< a fill that names no place

/// The words of a tensor reduced over some axes of its own, or of others: every point of `extents` has the
/// word of a point of `reduced`, which a condition picks.
class Selection {
 public:
  /// Of elements of `type`.
  Selection(NodeLowering& lowering, DataType type, const Shape& extents, Shape reduced)
      : lowering_(lowering),
        type_(type),
        extents_(is_long(type) ? words_shape(extents) : extents),
        reduced_(std::move(reduced)),
        rank_(extents.size()) {}

  /// A map from the iteration space; dims are the axes of the result, then those of `reduced`.
  AffineMap map(size_t axes) const { return {axes, extents_.size() + reduced_.size()}; }
  size_t reduction(size_t axis) const { return extents_.size() + axis; }

  /// The bits of an element, or of the one of its words that the point is for.
  Term bits(TensorId id, AffineMap map) {
    const TensorId words = lowering_.words_of(id);
    if (words != id) map = map.extended(1, 0).set(map.axes(), rank_, 1);
    const Term word = read(words, std::move(map), 0);
    return lowering_.tensor(words).type == kInt32 || integer_type(type_) ? word
                                                                         : word.apply(ScalarOp::kFloatBits);
  }
  /// A word as it is.
  Term number(TensorId id, AffineMap map) { return read(id, std::move(map), 0); }
  /// An integer, of 64 bits the lower word; `outside`: what is read outside the tensor.
  Term index(TensorId id, AffineMap map, double outside = 0) {
    const TensorId words = lowering_.words_of(id);
    return read(words, words == id ? std::move(map) : map.extended(1, 0), outside);
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
  /// The bits where the condition holds, which is at one place at most.
  void pick(const std::string& suffix, Term condition, Term bits, TensorId output) {
    Formula epilogue;
    const Term sum = epilogue.x(0);
    reduce(suffix, ReduceLayer::Op::kIntSum, where(condition, bits, integer(0)),
           epilogue.result(is_integer() ? sum : sum.apply(ScalarOp::kFromBits)), {},
           lowering_.words_of(output));
  }
  bool is_integer() const { return !has_float_arithmetic(type_); }
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

  NodeLowering& lowering_;
  DataType type_;
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

/// Every result looks at every place. Of long tables the host does it sooner, unless it had to fetch them:
/// about what both ways take on a chip of thousands of PEs, in cycles.
HostReason looks_too_often(const NodeLowering& lowering, int64_t places, const Shape& results) {
  constexpr int64_t kMostLooks = int64_t{1} << 22;  // words of an operand's stream
  constexpr int64_t kLooksPerCycle = 6;
  constexpr int64_t kHostCycles = 2500;  // a launch, and the ways of the link
  constexpr int64_t kLinkWordsPerCycle = 1;
  const int64_t count = element_count(results);
  const int64_t looks = places > kMostLooks ? kMostLooks : count * places;
  const int64_t fetched = lowering.constant_input(0) != nullptr ? 0 : element_count(lowering.input_shape(0));
  const int64_t host = kHostCycles + (fetched + count) / kLinkWordsPerCycle;
  if (looks < kMostLooks && looks / kLooksPerCycle <= host) return kLowered;
  return fmt::format("{} results, each from {} places, are found sooner there", count, places);
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
  const Shape result = lowering.tensor(output).shape;
  Selection selection(lowering, lowering.tensor(data).type, result, {shape[1]});
  const Term index = from_front(selection.index(indices, selection.map(1).set(0, 1, 1)), shape[1]);
  AffineMap map = selection.map(3);
  map.set(0, 0, 1).set(1, selection.reduction(0), 1).set(2, 2, 1);
  selection.pick("", same(index, selection.place(selection.reduction(0))), selection.bits(data, map), output);
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
  if (auto reason = looks_too_often(lowering, from[axis], lowering.output_shape())) return reason;
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
  if (auto reason = looks_too_often(lowering, from[axis], to)) return reason;
  check_range(lowering, 1, lowering.input(1), from[axis]);
  Selection selection(lowering, lowering.output_type(), to, {from[axis]});
  AffineMap own = selection.map(to.size()), data = selection.map(to.size());
  for (size_t k = 0; k < to.size(); ++k) {
    own.set(k, k, 1);
    data.set(k, k == axis ? selection.reduction(0) : k, 1);
  }
  const Term index = from_front(selection.index(lowering.input(1), own), from[axis]);
  selection.pick("", same(index, selection.place(selection.reduction(0))),
                 selection.bits(lowering.input(0), data), lowering.output());
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
  if (auto reason = looks_too_often(lowering, places, lowering.output_shape())) return reason;
  check_coordinates(lowering, 1, axes);
  const TensorId linear = linear_indices(lowering, 1, axes);
  const int64_t count = element_count(lowering.tensor(linear).shape) / images;
  const Shape result = {images, count, rest};
  Selection selection(lowering, lowering.output_type(), result, {places});
  const TensorId list = lowering.add_alias("list", linear, {images, count});
  const TensorId data = lowering.add_alias("data", lowering.input(0), {images, places, rest});
  const Term index = selection.index(list, selection.map(2).set(0, 0, 1).set(1, 1, 1));
  AffineMap map = selection.map(3);
  map.set(0, 0, 1).set(1, selection.reduction(0), 1).set(2, 2, 1);
  selection.pick("", same(index, selection.place(selection.reduction(0))), selection.bits(data, map),
                 output_as(lowering, "gathered", result));
  return kLowered;
}

/// What a Scatter does with updates: `targets` says for every point (result, update) whether it is for it.
/// The last one counts, or they are all added to what is there.
struct Scatter {
  TensorId data, updates;
  Shape extents;  ///< of the result
  Shape reduced;  ///< one axis: updates that may be for it
  std::function<AffineMap(const Selection&)> update;
  std::function<Term(Selection&)> targets;
};

HostReason scatter(NodeLowering& lowering, const Scatter& scatter, const std::string& reduction,
                   TensorId output) {
  const DataType type = lowering.output_type();
  const size_t rank = scatter.extents.size();
  const bool is_float = has_float_arithmetic(type);
  if (reduction == "add" && (is_float || !is_long(type))) {
    Selection sum(lowering, type, scatter.extents, scatter.reduced);
    const Term wanted = scatter.targets(sum);
    const Term update = sum.number(scatter.updates, scatter.update(sum));
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
    Selection product(lowering, type, scatter.extents, scatter.reduced);
    const Term wanted = scatter.targets(product);
    const Term update = product.number(scatter.updates, scatter.update(product));
    Formula epilogue;
    product.reduce("", ReduceLayer::Op::kProd, where(wanted, update, product.constant(1)),
                   epilogue.result(epilogue.x(0) * epilogue.x(1)),
                   {product.beside(scatter.data, AffineMap::identity(rank))}, output);
    return kLowered;
  }
  if (reduction != "none") return fmt::format("reduction {} of {}", reduction, data_type_name(type));
  // The last update of every place, or -1; then its word.
  const TensorId last = lowering.add_tensor("last", kInt32, scatter.extents);
  {
    Selection find(lowering, kInt32, scatter.extents, scatter.reduced);
    const Term wanted = scatter.targets(find);
    find.reduce("last", ReduceLayer::Op::kIntMax,
                where(wanted, find.place(find.reduction(0)), find.integer(-1)), ScalarExpr::identity(), {},
                last);
  }
  Selection pick(lowering, type, scatter.extents, scatter.reduced);
  AffineMap own = pick.map(rank);
  for (size_t k = 0; k < rank; ++k) own.set(k, k, 1);
  const Term wanted = same(pick.index(last, own), pick.place(pick.reduction(0)));
  Formula epilogue;
  const auto as_bits = [&](Term x) { return is_float ? x.apply(ScalarOp::kFloatBits) : x; };
  const Term has_none = below(epilogue.x(1), epilogue.integer(0));
  const Term word = where(has_none, as_bits(epilogue.x(2)), epilogue.x(0));
  pick.reduce(
      "", ReduceLayer::Op::kIntSum,
      where(wanted, pick.bits(scatter.updates, scatter.update(pick)), pick.integer(0)),
      epilogue.result(is_float ? word.apply(ScalarOp::kFromBits) : word),
      {pick.beside(last, AffineMap::identity(rank)), pick.beside(scatter.data, AffineMap::identity(rank))},
      lowering.words_of(output));
  return kLowered;
}

std::string reduction_of(const NodeLowering& lowering) {
  const std::string name = lowering.string_attribute("reduction");
  return name.empty() ? "none" : name;
}

HostReason lower_scatter_elements(NodeLowering& lowering) {
  if (!is_movable_type(lowering.input_type(0))) return not_movable(lowering.input_type(0));
  const Shape& shape = lowering.output_shape();
  const Shape& updates = lowering.input_shape(1);
  const size_t axis = lowering.axis(lowering.int_attribute("axis"), shape.size());
  if (auto reason = looks_too_often(lowering, updates[axis], shape)) return reason;
  if (element_count(updates) == 0) {
    lowering.bind_output(lowering.input(0));
    return kLowered;
  }
  check_range(lowering, 1, lowering.input(1), shape[axis]);
  const auto update_map = [&](const Selection& selection) {
    AffineMap map = selection.map(shape.size());
    for (size_t k = 0; k < shape.size(); ++k) map.set(k, k == axis ? selection.reduction(0) : k, 1);
    return map;
  };
  const auto targets = [&](Selection& selection) {
    // Where there are fewer updates than places, none is outside them.
    const Term index = selection.index(lowering.input(1), update_map(selection), kNoIndex);
    const Term inside = negation(same(index, selection.integer(static_cast<int32_t>(kNoIndex))));
    const Term place = selection.place(axis);
    return both(inside, same(from_front(index, shape[axis]), place));
  };
  return scatter(lowering,
                 {lowering.input(0), lowering.input(2), shape, {updates[axis]}, update_map, targets},
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
  const Shape& indices = lowering.input_shape(1);
  if (auto reason = looks_too_often(lowering, element_count({indices.begin(), indices.end() - 1}), shape))
    return reason;
  check_coordinates(lowering, 1, axes);
  const TensorId linear = linear_indices(lowering, 1, axes);
  const int64_t count = element_count(lowering.tensor(linear).shape);
  const TensorId list = lowering.add_alias("list", linear, {count});
  const TensorId data = lowering.add_alias("data", lowering.input(0), {places, rest});
  const TensorId updates = lowering.add_alias("updates", lowering.input(2), {count, rest});
  const auto update_map = [&](const Selection& selection) {
    return selection.map(2).set(0, selection.reduction(0), 1).set(1, 1, 1);
  };
  const auto targets = [&](Selection& selection) {
    return same(selection.index(list, selection.map(1).set(0, selection.reduction(0), 1)),
                selection.place(0));
  };
  return scatter(lowering, {data, updates, {places, rest}, {count}, update_map, targets},
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
  const Integer index = integer_type(lowering.input_type(0)) ? map.integer(indices)
                                                             : to_integer(map.operand(indices), {64, true});
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

/// Floats, and integers of a word as words that order as they do.
Term ordered(Selection& selection, const NodeLowering& lowering, TensorId id, AffineMap map) {
  const auto type = integer_type(lowering.tensor(id).type);
  if (!type) return selection.number(id, std::move(map));
  const Term word = selection.index(id, std::move(map));
  return *type == IntegerType{32, false} ? word.apply(ScalarOp::kXor, word.integer(kNoIndex)) : word;
}

/// Where data [pre, n, post] has its largest (or smallest) element along n, for the first or the last time:
/// int32 [pre, post]. InternalError for elements of 64 bits.
TensorId place_of_extreme(NodeLowering& lowering, TensorId data, bool largest, bool last) {
  const Shape shape = lowering.tensor(data).shape;
  const auto type = integer_type(lowering.tensor(data).type);
  isa::check_internal(!type || !type->is_wide(), "lower", "{}: an order of 64 bits", lowering.where());
  const Shape result = {shape[0], shape[2]};
  const DataType order = type ? kInt32 : TensorProto::FLOAT;
  const auto read = [&](const Selection& selection) {
    return selection.map(3).set(0, 0, 1).set(1, selection.reduction(0), 1).set(2, 1, 1);
  };
  using Op = ReduceLayer::Op;
  const TensorId extreme = lowering.add_tensor("extreme", order, result);
  {
    Selection find(lowering, order, result, {shape[1]});
    const Op op = type ? (largest ? Op::kIntMax : Op::kIntMin) : (largest ? Op::kMax : Op::kMin);
    find.reduce("extreme", op, ordered(find, lowering, data, read(find)), ScalarExpr::identity(), {},
                extreme);
  }
  Selection find(lowering, kInt32, result, {shape[1]});
  const Term value = ordered(find, lowering, data, read(find));
  const Term best = find.number(extreme, find.map(2).set(0, 0, 1).set(1, 1, 1));
  const Term is_it = type ? same(value, best) : equal(value, best);
  const TensorId place = lowering.add_tensor("place", kInt32, result);
  find.reduce("place", last ? Op::kIntMax : Op::kIntMin,
              where(is_it, find.place(find.reduction(0)),
                    find.integer(last ? -1 : std::numeric_limits<int32_t>::max())),
              ScalarExpr::identity(), {}, place);
  return place;
}

constexpr const char* kWideOrder = "integers of 64 bits have no order in one word";
bool has_wide_order(const NodeLowering& lowering) {
  const auto type = integer_type(lowering.input_type(0));
  return type && type->is_wide();
}

template <bool largest>
HostReason lower_arg(NodeLowering& lowering) {
  if (has_wide_order(lowering)) return kWideOrder;
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
  if (has_wide_order(lowering)) return kWideOrder;
  const Shape& from = lowering.input_shape(0);
  const auto type = integer_type(lowering.input_type(0));
  const size_t axis = lowering.axis(lowering.int_attribute("axis"), from.size());
  if (auto reason = looks_too_often(lowering, from[axis], from)) return reason;
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
    const Term mine = ordered(count, lowering, data, own);
    const Term its = ordered(count, lowering, data, other);
    const Term better = type ? (largest ? below(mine, its) : below(its, mine))
                             : (largest ? less(mine, its) : less(its, mine));
    const Term equals = type ? same(mine, its) : equal(mine, its);
    const Term in_front = below(count.place(count.reduction(0)), count.place(1));
    count.reduce("rank", ReduceLayer::Op::kIntSum, either(better, both(equals, in_front)),
                 ScalarExpr::identity(), {}, rank);
  }
  const auto pick = [&](DataType of, const std::string& suffix, TensorId output, auto&& word) {
    Selection selection(lowering, of, result, {shape[1]});
    const AffineMap map = selection.map(3).set(0, 0, 1).set(1, selection.reduction(0), 1).set(2, 2, 1);
    selection.pick(suffix, same(selection.index(rank, map), selection.place(1)), word(selection, map),
                   output);
  };
  const auto result_tensor = [&](const std::string& suffix, int index) {
    if (result == lowering.output_shape(index)) return lowering.output(index);
    const TensorId id = lowering.add_tensor(suffix, lowering.output_type(index), result);
    lowering.bind_output(id, index);
    return id;
  };
  if (lowering.has_output(0)) {
    pick(lowering.output_type(0), "", result_tensor("values", 0),
         [&](Selection& selection, const AffineMap& map) { return selection.bits(data, map); });
  }
  if (lowering.has_output(1)) {
    const TensorId place = lowering.add_tensor("place", kInt32, result);
    pick(kInt32, "place", place,
         [&](Selection& selection, const AffineMap&) { return selection.place(selection.reduction(0)); });
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
  // The first axis may be a batch that is worked through in slices.
  const bool keeps_first = tensor.shape.size() > 1;
  const Shape extents = keeps_first ? Shape{tensor.shape[0]} : Shape{1};
  const Shape reduced(tensor.shape.begin() + (keeps_first ? 1 : 0), tensor.shape.end());
  const IntegerType type = integer_type(tensor.type).value();
  const TensorId words = lowering.words_of(indices);
  AffineMap map(tensor.shape.size(), 1 + reduced.size());
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis) map.set(axis, keeps_first ? axis : axis + 1, 1);
  ReduceLayer layer;
  layer.op = ReduceLayer::Op::kIntMax;
  layer.output_extents = extents;
  layer.reduction_extents = reduced.empty() ? Shape{1} : reduced;
  if (reduced.empty()) map = map.extended(0, 1);
  Formula formula;
  Integer index = integer_of_word(formula.x(0), {32, true});
  layer.inputs = {{words, map, 0}};
  if (type.is_wide()) {
    layer.inputs = {{words, map.extended(1, 0), 0}, {words, map.extended(1, 0), 0}};
    layer.inputs[1].map.set_offset(map.axes(), 1);
    index = {formula.x(0), formula.x(1), {64, true}};
  }
  const auto bound = [&](int64_t value) { return integer_constant(index.low, value, index.type); };
  layer.expr = formula.result(either(less(index, bound(lowest)), less(bound(highest), index)));
  layer.epilogue = ScalarExpr::identity();
  tidy_inputs(layer.expr, layer.inputs);
  const TensorId flags = lowering.add_tensor(suffix, kInt32, extents);
  lowering.add_layer(suffix, std::move(layer), flags);
  lowering.add_check(flags, what);
}

HostReason lower_gather_by_data(NodeLowering& lowering) {
  if (!is_movable_type(lowering.input_type(0))) return not_movable(lowering.input_type(0));
  return lower_gather_of_data(lowering);
}

void register_indexing(OperatorTable& table) {
  constexpr auto kAny = ElementTypes::kAny;
  table.push_back(
      {"GatherElements", lower_gather_elements, kAny, "short axes: every result looks at all places"});
  table.push_back({"GatherND", lower_gather_nd, kAny, "short axes: every result looks at all places"});
  table.push_back({"ScatterElements", lower_scatter_elements, ElementTypes::kAnyFirst,
                   "short axes: every result looks at all places"});
  table.push_back({"Scatter", lower_scatter_elements, ElementTypes::kAnyFirst,
                   "short axes: every result looks at all places"});
  table.push_back({"ScatterND", lower_scatter_nd, ElementTypes::kAnyFirst,
                   "short axes: every result looks at all places"});
  table.push_back({"OneHot", lower_one_hot, kAny});
  table.push_back({"ArgMax", lower_arg<true>, ElementTypes::kNumbers, "not of 64-bit integers"});
  table.push_back({"ArgMin", lower_arg<false>, ElementTypes::kNumbers, "not of 64-bit integers"});
  table.push_back({"Hardmax", lower_hardmax, ElementTypes::kChipFloats});
  table.push_back({"TopK", lower_top_k, ElementTypes::kNumbers,
                   "short axes: every place looks at all others; not of 64-bit integers"});
}

}  // namespace kodama::compiler
