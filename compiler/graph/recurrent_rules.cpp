#include "compiler/graph/onnx_model.h"
#include "compiler/graph/operator_checks.h"

namespace kodama::compiler::rules {

namespace {

/// RNN, GRU and LSTM, with this many gates.
struct RecurrentRule {
  int64_t gates;
  int64_t activations;  ///< of a direction

  void operator()(const NodeOperands& o) const {
    for (int i = 0; i < 3; ++i) rank_of(i, 3)(o);
    o.require(o.has_attribute("hidden_size"),
              "attribute hidden_size is missing; it must be the number of elements of the hidden state");
    integer_between("hidden_size", 1, kLargestParameter / 8)(o);
    // The first schema of GRU misspells its default.
    if (o.has_attribute("direction")) one_of("direction", {"forward", "reverse", "bidirectional"})(o);
    flag("layout")(o);
    flag("input_forget")(o);
    flag("linear_before_reset")(o);
    const int64_t hidden = *o.integer("hidden_size");
    const int64_t directions = o.text("direction").value_or("forward") == "bidirectional" ? 2 : 1;
    if (const auto* names = find_attribute(o.node(), "activations")) {
      // More don't matter: for RNN the schema itself names two, for either number of directions.
      const auto wanted = activations * directions;
      o.require(names->strings_size() >= wanted,
                "attribute activations has {} values; {}, {} for each direction, are needed",
                names->strings_size(), wanted, activations);
    }
    for (int i : {1, 2}) {
      extent_is(i, 0, directions, "the directions")(o);
      extent_is(i, 1, gates * hidden, "a row for each gate and element of the state")(o);
    }
    extent_is(2, 2, hidden, "the elements of the state")(o);
    same_extent(1, 2, 0, 2, "as many as X has")(o);
    rank_of(3, 2)(o);
    extent_is(3, 0, directions, "the directions")(o);
    extent_is(3, 1, 2 * gates * hidden, "two for each row of W")(o);
    const bool batch_first = o.integer("layout").value_or(0) != 0;
    const int64_t batch_axis = batch_first ? 0 : 1;
    rank_of(4, 1)(o);
    same_extent(4, 0, 0, batch_axis, "the batch")(o);
    const auto check_state = [&](int input) {
      rank_of(input, 3)(o);
      extent_is(input, batch_first ? 1 : 0, directions, "the directions")(o);
      same_extent(input, batch_axis, 0, batch_axis, "the batch")(o);
      extent_is(input, 2, hidden, "the elements of the state")(o);
    };
    check_state(5);
    if (gates != 4) return;
    check_state(6);
    rank_of(7, 2)(o);
    extent_is(7, 0, directions, "the directions")(o);
    extent_is(7, 1, 3 * hidden, "three for each element of the state")(o);
  }
};

/// Y, Y_h and Y_c.
std::map<int, Shape> infer_recurrent(const NodeOperands& o) {
  const auto x = o.shape(0);
  if (!x) return {};
  const int64_t hidden = *o.integer("hidden_size");
  const int64_t directions = o.text("direction").value_or("forward") == "bidirectional" ? 2 : 1;
  const bool batch_first = o.integer("layout").value_or(0) != 0;
  const Shape y =
      batch_first ? Shape{(*x)[0], (*x)[1], directions, hidden} : Shape{(*x)[0], directions, (*x)[1], hidden};
  const Shape state = batch_first ? Shape{(*x)[0], directions, hidden} : Shape{directions, (*x)[1], hidden};
  return {{0, y}, {1, state}, {2, state}};
}

}  // namespace

void add_recurrent_rules(RuleTable& rules) {
  rules["RNN"] = {{RecurrentRule{.gates = 1, .activations = 1}}, {}, infer_recurrent};
  rules["GRU"] = {{RecurrentRule{.gates = 3, .activations = 2}}, {}, infer_recurrent};
  rules["LSTM"] = {{RecurrentRule{.gates = 4, .activations = 3}}, {}, infer_recurrent};
}

}  // namespace kodama::compiler::rules
