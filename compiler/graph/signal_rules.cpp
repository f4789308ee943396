#include "compiler/graph/operator_checks.h"

namespace kodama::compiler::rules {

namespace {

/// The only element of a constant operand of integers.
std::optional<int64_t> known_integer(const NodeOperands& o, int input) {
  const auto values = o.integers(input);
  return values && values->size() == 1 ? std::optional(values->front()) : std::nullopt;
}

/// A number of elements.
Check length(int input) {
  return [=](const NodeOperands& o) {
    one_element(input)(o);
    if (const auto value = known_integer(o, input)) check_extents(o, {*value}, 1, o.describe(input));
  };
}

/// Real or complex numbers along the last axis.
void check_parts(const NodeOperands& o) {
  const auto rank = o.rank(0);
  const auto parts = rank ? o.extent(0, *rank - 1) : std::nullopt;
  if (parts) {
    o.require(*parts == 1 || *parts == 2,
              "the last axis of {} has {} elements; 1 (real) and 2 (complex) are allowed", o.describe(0),
              *parts);
  }
}

int64_t bins_of(int64_t length, bool onesided) {
  return onesided ? length / 2 + 1 : length;
}

/// Everywhere but along the last axis, counted from either end.
int64_t dft_axis(const NodeOperands& o, int64_t rank) {
  const int64_t axis = o.integer("axis").value_or(1);
  o.require(axis >= -rank && axis < rank - 1 && axis != -1,
            "attribute axis is {}; an axis of {} other than the last is allowed", axis, o.describe(0));
  return axis < 0 ? axis + rank : axis;
}

void check_dft(const NodeOperands& o) {
  rank_at_least(0, 2)(o);
  check_parts(o);
  length(1)(o);
  flag("inverse")(o);
  flag("onesided")(o);
  const auto rank = o.rank(0);
  if (rank) dft_axis(o, *rank);
  if (o.integer("onesided").value_or(0) == 0) return;
  o.require(o.integer("inverse").value_or(0) == 0, "attributes onesided and inverse exclude each other");
  if (rank) extent_is(0, *rank - 1, 1, "since onesided is for real numbers")(o);
}

std::map<int, Shape> infer_dft(const NodeOperands& o) {
  auto shape = o.shape(0);
  if (!shape || (o.has(1) && !known_integer(o, 1))) return {};
  const auto axis = static_cast<size_t>(dft_axis(o, std::ssize(*shape)));
  const int64_t count = known_integer(o, 1).value_or((*shape)[axis]);
  (*shape)[axis] = bins_of(count, o.integer("onesided").value_or(0) != 0);
  shape->back() = 2;
  return {{0, *shape}};
}

std::optional<int64_t> frame_length(const NodeOperands& o) {
  return o.has(3) ? known_integer(o, 3) : o.extent(2, 0);
}

void check_stft(const NodeOperands& o) {
  rank_of(0, 3)(o);
  check_parts(o);
  length(1)(o);
  rank_of(2, 1)(o);
  length(3)(o);
  flag("onesided")(o);
  o.require(o.has(2) || o.has(3), "neither window nor frame_length is given");
  const auto window = o.extent(2, 0);
  const auto frame = frame_length(o);
  const auto samples = o.extent(0, 1);
  if (!frame) return;
  o.require(!window || *window == *frame, "{} has {} elements, but {} says {}", o.describe(2),
            window.value_or(0), o.describe(3), *frame);
  o.require(*frame >= 1 && (!samples || *frame <= *samples),
            "a frame has {} elements; 1 to {}, those of {}, are allowed", *frame,
            samples ? std::to_string(*samples) : "?", o.describe(0));
}

std::map<int, Shape> infer_stft(const NodeOperands& o) {
  const auto shape = o.shape(0);
  const auto step = known_integer(o, 1);
  const auto frame = frame_length(o);
  if (!shape || !step || !frame) return {};
  // Of complex numbers there is no half to leave out.
  const bool onesided = o.integer("onesided").value_or(1) != 0 && shape->back() == 1;
  return {{0, {(*shape)[0], ((*shape)[1] - *frame) / *step + 1, bins_of(*frame, onesided), 2}}};
}

void check_mel_weight_matrix(const NodeOperands& o) {
  for (int i = 0; i < 3; ++i) length(i)(o);
  one_element(3)(o);
  one_element(4)(o);
  element_type("output_datatype")(o);
}

std::map<int, Shape> infer_mel_weight_matrix(const NodeOperands& o) {
  const auto bands = known_integer(o, 0);
  const auto count = known_integer(o, 1);
  if (!bands || !count) return {};
  return {{0, {bins_of(*count, true), *bands}}};
}

}  // namespace

void add_signal_rules(RuleTable& rules) {
  rules["DFT"] = {{check_dft}, {1}, infer_dft, kNotByLibrary};
  rules["STFT"] = {{check_stft}, {1, 3}, infer_stft, kNotByLibrary};
  rules["MelWeightMatrix"] = {{check_mel_weight_matrix}, {0, 1}, infer_mel_weight_matrix, kNotByLibrary};
}

}  // namespace kodama::compiler::rules
