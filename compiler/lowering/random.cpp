#include "compiler/reference/kernels/random.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numbers>

#include "compiler/lowering/fold.h"
#include "compiler/reference/resolve.h"

/// Random operators draw what the reference draws (compiler/reference/random.h): the words of an element are
/// a function of the node's key and the element's place.
namespace kodama::compiler {

namespace {

constexpr IntegerType kDrawnWord{32, false};

Term word_sum(Term a, Term b) {
  return a.apply(ScalarOp::kIntAdd, b);
}
Term shifted_down(Term a, int count) {
  return a.apply(ScalarOp::kShiftRight, a.integer(count));
}

struct RandomWords {
  Term first, second;
};
/// Threefry-2x32-20 (compiler/reference/threefry.h) of a counter whose upper word is 0.
RandomWords random_words(const NodeLowering& lowering, Term counter) {
  constexpr int kRounds = 20, kRoundsPerKey = 4;
  constexpr std::array<int, 8> kRotations = {13, 15, 26, 6, 17, 29, 16, 24};
  const auto key = reference::random_key(plain_node(lowering.node()));
  const std::array<uint32_t, 3> keys = {key[0], key[1], 0x1BD11BDAU ^ key[0] ^ key[1]};
  const auto word = [&](uint32_t bits) { return counter.integer(static_cast<int32_t>(bits)); };
  Term a = word_sum(counter, word(keys[0]));
  Term b = word(keys[1]);
  for (uint32_t round = 0; round < kRounds; ++round) {
    const int rotation = kRotations.at(round % kRotations.size());
    a = word_sum(a, b);
    b = b.apply(ScalarOp::kShiftLeft, b.integer(rotation))
            .apply(ScalarOp::kOr, shifted_down(b, 32 - rotation));
    b = b.apply(ScalarOp::kXor, a);
    if ((round + 1) % kRoundsPerKey != 0) continue;
    const uint32_t injection = (round + 1) / kRoundsPerKey;
    a = word_sum(a, word(keys.at(injection % 3)));
    b = word_sum(b, word(keys.at((injection + 1) % 3) + injection));
  }
  return {a, b};
}

/// The place of an element of a tensor of this shape, row major, from the places along the axes.
Term element_number(NodeLowering& lowering, MapBuilder& map, const Shape& shape) {
  Term number = map.word(0);
  int64_t stride = element_count(shape);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    stride /= shape[axis];
    if (shape[axis] == 1) continue;
    std::vector<int32_t> places;
    for (int64_t k = 0; k < shape[axis]; ++k) places.push_back(static_cast<int32_t>(k * stride));
    const TensorId id = lowering.add_constant(
        "places", Tensor::from_values<int32_t>(DataType::kInt32, {shape[axis]}, places));
    number = word_sum(number, map.word_at(id, AffineMap(1, shape.size()).set(0, axis, 1)));
  }
  return number;
}
/// Places are words.
bool has_many_elements(const Shape& shape) {
  return element_count(shape) > std::numeric_limits<int32_t>::max();
}
constexpr const char* kTooMany = "more than 2^31 random numbers";

/// In [0, 1): the upper 24 bits of the first word.
Term uniform(const RandomWords& words) {
  const auto part = [](Term bits) { return to_float(integer_of_word(bits, {16, false})); };
  const Term low = shifted_down(words.first, 8).apply(ScalarOp::kAnd, words.first.integer(0xfff));
  return (part(shifted_down(words.first, 20)) * 0x1p12 + part(low)) * 0x1p-24;
}
/// The upper 53 bits of both.
Term uniform_double(const RandomWords& words) {
  return to_double(integer_of_word(words.first, kDrawnWord)) * 0x1p-32 +
         to_double(integer_of_word(shifted_down(words.second, 11), kDrawnWord)) * 0x1p-53;
}

/// cos(2 pi v) for v in [0, 1): the nearest quarter of a turn, and from there at most an eighth, by the
/// series of sine and cosine.
Term cosine_of_turns(Term v) {
  constexpr int kTerms = 9;
  const Term quarter = floor(v * 4.0 + 0.5);
  const Term angle = (v - quarter * 0.25) * (2 * std::numbers::pi);
  const Term square = angle * angle;
  const auto series = [&](int first) {
    Term sum = v.constant(1);
    for (int k = kTerms; k >= 1; --k) {
      const int n = 2 * k + first;
      sum = 1.0 - square * sum * (1.0 / ((n - 1) * n));
    }
    return sum;
  };
  const Term cosine = series(0), sine = angle * series(1);
  const Term number = double_to_integer(quarter, {32, true}).low;
  const auto bit = [&](Term of, int at) { return shifted_down(of, at).apply(ScalarOp::kAnd, of.integer(1)); };
  const Term magnitude = where(bit(number, 0), sine, cosine);
  return where(bit(word_sum(number, number.integer(1)), 1), -magnitude, magnitude);
}
/// Of mean 0 and deviation 1, after Box and Muller, in double.
Term normal(const RandomWords& words) {
  const Term u = (to_double(integer_of_word(words.first, kDrawnWord)) + 1.0) * 0x1p-32;
  const Term v = to_double(integer_of_word(words.second, kDrawnWord)) * 0x1p-32;
  return sqrt(log(u) * -2.0) * cosine_of_turns(v);
}

bool is_chip_float(DataType type) {
  return has_float_arithmetic(type) || is_double(type);
}

/// An error of the user's where a condition holds of any point of a Map.
template <typename F>
void check_elements(NodeLowering& lowering, const std::string& suffix, const Shape& shape,
                    const std::string& message, F&& condition) {
  TensorId flags = lowering.add_tensor(suffix, DataType::kInt32, shape);
  MapBuilder map(lowering, shape);
  map.finish(suffix, condition(map), flags);
  if (shape.size() > 1) {
    // One for each place along the first axis, which may be a batch that is worked through in slices.
    const TensorId any = lowering.add_tensor("any_" + suffix, DataType::kInt32, {shape[0]});
    lowering.add_layer("any_" + suffix,
                       ReduceLayer{ReduceLayer::Op::kIntMax,
                                   {shape[0]},
                                   {shape.begin() + 1, shape.end()},
                                   {{flags, AffineMap::identity(shape.size()), 0}},
                                   ScalarExpr::identity(),
                                   ScalarExpr::identity(),
                                   {}},
                       any);
    flags = any;
  }
  lowering.add_check(flags, lowering.where() + ": " + message);
}

HostReason lower_random_uniform(NodeLowering& lowering) {
  const Shape& shape = lowering.output_shape();
  const DataType type = lowering.output_type();
  if (has_many_elements(shape)) return kTooMany;
  if (!is_chip_float(type)) return data_type_name(type);
  const float low = lowering.float_attribute("low"), high = lowering.float_attribute("high");
  MapBuilder map(lowering, shape);
  const RandomWords words = random_words(lowering, element_number(lowering, map, shape));
  const Term number = is_double(type) ? uniform_double(words) * (double{high} - low) + double{low}
                                      : uniform(words) * double{high - low} + double{low};
  map.finish("", number, lowering.output());
  return kLowered;
}

HostReason lower_random_normal(NodeLowering& lowering) {
  const Shape& shape = lowering.output_shape();
  const DataType type = lowering.output_type();
  if (has_many_elements(shape)) return kTooMany;
  if (!is_chip_float(type)) return data_type_name(type);
  MapBuilder map(lowering, shape);
  const RandomWords words = random_words(lowering, element_number(lowering, map, shape));
  const Term number =
      normal(words) * double{lowering.float_attribute("scale")} + double{lowering.float_attribute("mean")};
  map.finish("", is_double(type) ? number : narrow(number, type), lowering.output());
  return kLowered;
}

/// A condition as a number of any type.
void finish_condition_as(NodeLowering& lowering, MapBuilder& map, Term condition) {
  const DataType type = lowering.output_type();
  if (const auto integer = integer_type(type)) {
    map.finish("", convert(integer_of_word(condition, {8, false}), *integer), lowering.output());
  } else if (is_double(type)) {
    map.finish("", where(condition, map.double_constant(1), map.double_constant(0)), lowering.output());
  } else {
    map.finish("", where(condition, map.constant(1), map.constant(0)), lowering.output());
  }
}

HostReason lower_bernoulli(NodeLowering& lowering) {
  const Shape& shape = lowering.output_shape();
  if (has_many_elements(shape)) return kTooMany;
  check_elements(lowering, "range", shape, "a probability is outside 0 to 1", [&](MapBuilder& map) {
    const Term p = map.operand_of_input(0);
    return less(p, p.constant(0)).apply(ScalarOp::kOr, less(p.constant(1), p));
  });
  MapBuilder map(lowering, shape);
  const Term p = map.operand_of_input(0);
  const Term drawn = uniform(random_words(lowering, element_number(lowering, map, shape)));
  finish_condition_as(lowering, map, less(p.is_double() ? widen(drawn) : drawn, p));
  return kLowered;
}

/// Of probabilities up to each class, how many are not above the number drawn.
HostReason lower_multinomial(NodeLowering& lowering) {
  const Shape& x = lowering.input_shape(0);
  const Shape& y = lowering.output_shape();
  lowering.require(x.size() == 2, "input is {}; [batch, classes] is needed", shape_to_string(x));
  if (has_many_elements(y)) return kTooMany;
  const std::vector<bool> classes = {false, true};
  TensorId input = lowering.input(0);
  if (!is_double(lowering.input_type(0))) {
    const TensorId wide = lowering.add_tensor("wide", DataType::kFloat64, x);
    MapBuilder map(lowering, x);
    map.finish("wide", widen(map.operand(input)), wide);
    input = wide;
  }
  const TensorId most = add_fold(lowering, "most", input, classes, FoldOp::kMax);
  const TensorId weights = lowering.add_tensor("weights", DataType::kFloat64, x);
  {
    MapBuilder map(lowering, x);
    map.finish("weights", exp(map.operand(input) - map.operand(most)), weights);
  }
  const TensorId sums = add_scan_by_steps(lowering, weights, {1, false, false});
  const Shape extents = {y[0], y[1], x[1]};
  const TensorId passed = lowering.add_tensor("passed", DataType::kInt32, extents);
  {
    MapBuilder map(lowering, extents);
    const auto sum_at = [&](bool last) {
      AffineMap at = AffineMap(2, 3).set(0, 0, 1);
      return map.operand_at(sums, last ? at.set_offset(1, x[1] - 1) : at.set(1, 2, 1));
    };
    const TensorId place = lowering.add_numbers("classes", DataType::kInt32, {x[1]});
    const Term number = element_number(lowering, map, {y[0], y[1], 1});
    const Term drawn = uniform_double(random_words(lowering, number)) * sum_at(true);
    // The last class takes what is left.
    const Term is_last = map.word_at(place, AffineMap(1, 3).set(0, 2, 1))
                             .apply(ScalarOp::kXor, number.integer(static_cast<int32_t>(x[1] - 1)))
                             .apply(ScalarOp::kIsZero);
    const Term is_above = less(drawn, sum_at(false)).apply(ScalarOp::kOr, is_last);
    map.finish("passed", negation(is_above), passed);
  }
  const TensorId chosen = lowering.add_tensor("chosen", DataType::kInt32, y);
  lowering.add_layer("chosen",
                     ReduceLayer{ReduceLayer::Op::kIntSum,
                                 y,
                                 {x[1]},
                                 {{passed, AffineMap::identity(3), 0}},
                                 ScalarExpr::identity(),
                                 ScalarExpr::identity(),
                                 {}},
                     chosen);
  MapBuilder map(lowering, y);
  map.finish("", convert(map.integer(chosen), *integer_type(lowering.output_type())), lowering.output());
  return kLowered;
}

/// Zeroes elements with the probability `ratio` and scales the others, if the operand training_mode says so.
HostReason lower_dropout(NodeLowering& lowering) {
  const bool drops_nothing = lowering.has_input(1) && lowering.uniform_constant(1) == 0.0;
  const bool trains = lowering.has_input(2) && lowering.uniform_constant(2) != 0.0 && !drops_nothing;
  const DataType type = lowering.input_type(0);
  const Shape& shape = lowering.input_shape(0);
  if (!trains) {
    if (lowering.has_output(1)) {
      Tensor kept(DataType::kBool, lowering.output_shape(1));
      std::ranges::fill(kept.data<uint8_t>(), uint8_t{1});
      lowering.bind_output(lowering.add_constant("mask", std::move(kept)), 1);
    }
    if (lowering.has_output(0)) lowering.bind_output(lowering.input(0));
    return kLowered;
  }
  if (has_many_elements(shape)) return kTooMany;
  if (!is_chip_float(type)) return data_type_name(type);
  const bool has_ratio = lowering.has_input(1);
  const auto as_scalar = [&](int operand) {
    return lowering.add_alias(fmt::format("operand{}", operand), lowering.input(operand), {});
  };
  const auto ratio_in = [&](MapBuilder& map) {
    return has_ratio ? map.operand(as_scalar(1)) : map.constant(0.5);
  };
  if (has_ratio) {
    check_elements(lowering, "range", {}, "ratio is outside 0 to less than 1", [&](MapBuilder& map) {
      const Term ratio = ratio_in(map);
      return less(ratio, ratio.constant(0)).apply(ScalarOp::kOr, negation(less(ratio, ratio.constant(1))));
    });
  }
  const auto keeps = [&](MapBuilder& map) {
    const Term ratio = ratio_in(map);
    const Term drawn = uniform(random_words(lowering, element_number(lowering, map, shape)));
    const Term is_kept = negation(less(ratio.is_double() ? widen(drawn) : drawn, ratio));
    return is_kept.apply(ScalarOp::kOr, negation(map.operand(as_scalar(2))));
  };
  if (lowering.has_output(1)) {
    MapBuilder map(lowering, shape);
    map.finish("mask", keeps(map), lowering.output(1));
  }
  if (!lowering.has_output(0)) return kLowered;
  MapBuilder map(lowering, shape);
  const Term x = map.operand_of_input(0);
  Term ratio = ratio_in(map);
  if (x.is_double() && !ratio.is_double()) ratio = widen(ratio);
  if (!x.is_double() && ratio.is_double()) ratio = narrow(ratio, DataType::kFloat32);
  const Term scaled = where(map.operand(as_scalar(2)), x * reciprocal(1.0 - ratio), x);
  map.finish("", where(keeps(map), scaled, x.constant(0)), lowering.output());
  return kLowered;
}

}  // namespace

void register_random(OperatorTable& table) {
  constexpr auto kAny = ElementTypes::kAny;
  table.push_back({"RandomUniform", lower_random_uniform, kAny, "floats and doubles"});
  table.push_back({"RandomUniformLike", lower_random_uniform, kAny, "floats and doubles"});
  table.push_back({"RandomNormal", lower_random_normal, kAny, "floats and doubles"});
  table.push_back({"RandomNormalLike", lower_random_normal, kAny, "floats and doubles"});
  table.push_back({"Bernoulli", lower_bernoulli, ElementTypes::kAllNumbers});
  table.push_back({"Multinomial", lower_multinomial, ElementTypes::kAllNumbers});
  table.push_back({"Dropout", lower_dropout, kAny});
}

}  // namespace kodama::compiler
