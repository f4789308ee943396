#include <algorithm>

#include "compiler/driver/random_rows.h"

namespace kodama::compiler {
namespace {

// ---- graphs in nodes

/// Some nodes on `from`, of operators that are defined for all operands; the last result has its type and
/// shape.
std::string grow_body(RandomNodes& body, const RandomValue& from) {
  std::string last = from.name;
  std::vector<const RandomRow*> rows;
  for (const RandomRow& row : random_rows()) {
    const std::vector<DataType> types =
        row.in_bodies ? RandomNodes::types(row.name, 0) : std::vector<DataType>();
    if (std::find(types.begin(), types.end(), from.type()) != types.end()) rows.push_back(&row);
  }
  for (int64_t count = body.number(1, 4); count > 0 && !rows.empty(); --count) {
    const RandomRow& row = *body.pick(rows);
    if (row.name == "Clip" || row.name == "Identity" || body.chance(60)) {
      last = body.step(row.name, {last});
    } else {
      const RandomValue other = body.fresh(from.type(), from.shape(), -1, 1);
      last = body.step(body.word({"Max", "Min"}), {last, other.name});
    }
  }
  return last == from.name ? body.step("Identity", {last}) : last;
}

std::string body_prefix(RandomNodes& nodes, const char* kind) {
  return std::string(kind) + std::to_string(nodes.nodes()) + "_" + std::to_string(nodes.number(0, 9999)) +
         "_";
}

/// Numbers whose Max and Min there are.
RandomValue state_for(RandomNodes& nodes) {
  std::vector<DataType> types = RandomNodes::types("Max", 0);
  return nodes.want({.types = types, .low = -1e3, .high = 1e3});
}

std::string condition_for(RandomNodes& nodes) {
  Wanted wanted{.types = {DataType::kBool}};
  wanted.fits = [](const Shape& shape) { return product_of(shape) == 1; };
  wanted.make_shape = [](RandomChoices&) { return Shape{}; };
  const RandomValue condition = nodes.want(wanted);
  return condition.rank() == 0 ? condition.name : nodes.step("Reshape", {condition.name, nodes.integers({})});
}

void add_if(RandomNodes& nodes, const std::string& op) {
  const std::string condition = condition_for(nodes);
  const RandomValue captured = state_for(nodes);
  Attributes attributes;
  for (const char* branch : {"then_branch", "else_branch"}) {
    RandomNodes body(nodes, body_prefix(nodes, branch));
    const std::string result = grow_body(body, captured);
    attributes.set(branch, body.finish_graph({result}));
  }
  nodes.add(op, {condition}, attributes, 1);
}

void add_loop(RandomNodes& nodes, const std::string& op) {
  const RandomValue state = state_for(nodes);
  const RandomValue captured =
      nodes.partner(state, {.types = {state.type()}, .low = -100, .high = 100}, true);
  RandomNodes body(nodes, body_prefix(nodes, "loop"));
  const std::string prefix = body_prefix(nodes, "in");
  const Tensor counter = Tensor::from_values<int64_t>(DataType::kInt64, {}, {0});
  Tensor goes_on(DataType::kBool, {});
  goes_on.data<uint8_t>()[0] = 1;
  body.add_body_input(prefix + "i", counter);
  body.add_body_input(prefix + "c", goes_on);
  body.add_body_input(prefix + "s", state.value);
  RandomValue inner = state;
  inner.name = body.step(body.word({"Max", "Min"}), {prefix + "s", captured.name});
  const std::string result = grow_body(body, inner);
  // It ends when the counter is large enough, or with the trip count.
  const std::string condition = body.chance(50)
                                    ? body.step("Less", {prefix + "i", body.integer(body.number(0, 3))})
                                    : body.step("Identity", {prefix + "c"});
  std::vector<std::string> outputs{condition, result};
  const bool scans = body.chance(50);
  if (scans) outputs.push_back(body.step("Neg", {is_float_type(state.type()) ? result : prefix + "i"}));
  const std::string trips = nodes.integer(nodes.number(1, 4));
  nodes.add(op, {trips, nodes.chance(60) ? nodes.scalar(1, DataType::kBool) : "", state.name},
            Attributes().set("body", body.finish_graph(outputs)), scans ? 2 : 1);
}

void add_scan(RandomNodes& nodes, const std::string& op) {
  std::vector<DataType> types = RandomNodes::types("Max", 0);
  const RandomValue x = nodes.want({.types = types,
                                    .least_rank = 2,
                                    .most_rank = 3,
                                    .low = -1e3,
                                    .high = 1e3,
                                    .fits = [](const Shape& shape) { return shape[0] <= 6; },
                                    .make_shape =
                                        [](RandomChoices& choices) {
                                          return Shape{choices.number(1, 4), choices.extent(9)};
                                        }});
  const Shape row(x.shape().begin() + 1, x.shape().end());
  const RandomValue state = nodes.want({.types = {x.type()}, .low = -1e3, .high = 1e3, .shape = row});
  RandomNodes body(nodes, body_prefix(nodes, "scan"));
  const std::string prefix = body_prefix(nodes, "in");
  body.add_body_input(prefix + "s", state.value);
  body.add_body_input(prefix + "x", Tensor(x.type(), row));
  RandomValue inner = state;
  inner.name = body.step(body.word({"Max", "Min"}), {prefix + "s", prefix + "x"});
  const std::string result = grow_body(body, inner);
  const std::string scanned = body.step("Identity", {result});
  Attributes attributes =
      Attributes().set("body", body.finish_graph({result, scanned})).set("num_scan_inputs", 1);
  if (nodes.chance(30)) attributes.set("scan_input_directions", std::vector<int64_t>{1});
  if (nodes.chance(30)) attributes.set("scan_output_directions", std::vector<int64_t>{1});
  nodes.add(op, {state.name, x.name}, attributes, 2);
}

// ---- sequences and optionals

void add_sequence_construct(RandomNodes& nodes, const std::string& op) {
  const RandomValue first = nodes.want_for(op);
  std::vector<std::string> inputs{first.name};
  for (int64_t more = nodes.number(0, 2); more > 0; --more)
    inputs.push_back(nodes.want({.types = {first.type()}}).name);
  nodes.add(op, inputs);
}

void add_sequence_empty(RandomNodes& nodes, const std::string& op) {
  nodes.add(op, {},
            nodes.chance(60)
                ? Attributes().set("dtype", nodes.pick_type(RandomNodes::types("SequenceConstruct", 0)))
                : Attributes());
}

/// A place in a sequence; "" means the last or one behind it.
std::string place_in(RandomNodes& nodes, int64_t low, int64_t high) {
  if (nodes.chance(30)) return "";
  const DataType type = nodes.chance(50) ? DataType::kInt64 : DataType::kInt32;
  return nodes.scalar(static_cast<double>(nodes.number(low, high)), type);
}

void add_sequence_insert(RandomNodes& nodes, const std::string& op) {
  const RandomValue sequence = nodes.want_sequence();
  const auto size = static_cast<int64_t>(sequence.value.size());
  const RandomValue x = nodes.want({.types = {sequence.type()}});
  nodes.add(op, {sequence.name, x.name, place_in(nodes, -size, size)});
}

RandomValue filled_sequence(RandomNodes& nodes) {
  const RandomValue sequence = nodes.want_sequence();
  if (sequence.value.size() == 0) throw RandomNodes::Misfit();
  return sequence;
}

void add_sequence_erase(RandomNodes& nodes, const std::string& op) {
  const RandomValue sequence = filled_sequence(nodes);
  const auto size = static_cast<int64_t>(sequence.value.size());
  nodes.add(op, {sequence.name, place_in(nodes, -size, size - 1)});
}

void add_sequence_at(RandomNodes& nodes, const std::string& op) {
  const RandomValue sequence = filled_sequence(nodes);
  const auto size = static_cast<int64_t>(sequence.value.size());
  nodes.add(op, {sequence.name, nodes.integer(nodes.number(-size, size - 1))});
}

void add_sequence_length(RandomNodes& nodes, const std::string& op) {
  nodes.add(op, {nodes.want_sequence().name});
}

void add_split_to_sequence(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = nodes.want_for(op, {.least_rank = 1});
  const auto axis = static_cast<size_t>(nodes.number(0, x.rank() - 1));
  Attributes attributes = Attributes().set("axis", nodes.either(static_cast<int64_t>(axis), x.rank()));
  if (nodes.chance(50)) {
    attributes.set("keepdims", nodes.number(0, 1));
    nodes.add(op, {x.name}, attributes);
    return;
  }
  const int64_t size = x.shape()[axis];
  const int64_t cut = nodes.number(1, size);
  const bool is_list = cut < size && nodes.chance(50);
  nodes.add(op, {x.name, is_list ? nodes.integers({cut, size - cut}) : nodes.integer(cut)}, attributes);
}

void add_concat_from_sequence(RandomNodes& nodes, const std::string& op) {
  const RandomValue sequence = filled_sequence(nodes);
  const Shape& first = sequence.value.at(0).shape();
  const auto rank = static_cast<int64_t>(first.size());
  const bool is_new = nodes.chance(40);
  if (!is_new && rank == 0) throw RandomNodes::Misfit();
  const int64_t axis = is_new ? nodes.number(0, rank) : nodes.number(0, rank - 1);
  for (size_t k = 1; k < sequence.value.size(); ++k) {
    Shape shape = sequence.value.at(k).shape();
    if (shape.size() != first.size()) throw RandomNodes::Misfit();
    if (!is_new) shape[static_cast<size_t>(axis)] = first[static_cast<size_t>(axis)];
    if (shape != first) throw RandomNodes::Misfit();
  }
  Attributes attributes = Attributes().set("axis", axis);
  if (is_new) attributes.set("new_axis", 1);
  nodes.add(op, {sequence.name}, attributes);
}

/// The same for every tensor, whatever its shape.
void add_sequence_map(RandomNodes& nodes, const std::string& op) {
  const RandomValue sequence = filled_sequence(nodes);
  const std::vector<DataType> types = RandomNodes::types("Abs", 0);
  const bool is_number = std::find(types.begin(), types.end(), sequence.type()) != types.end();
  RandomNodes body(nodes, body_prefix(nodes, "map"));
  const std::string prefix = body_prefix(nodes, "in");
  body.add_body_input(prefix + "x", sequence.value.value_at(0));
  std::string result = body.step(is_number ? "Abs" : "Identity", {prefix + "x"});
  if (is_float_type(sequence.type()) && body.chance(50)) result = body.step("Neg", {result});
  onnx::GraphProto graph = body.finish_graph({result});
  graph.mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  graph.mutable_output(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  nodes.add(op, {sequence.name}, Attributes().set("body", graph), 1);
}

void add_optional(RandomNodes& nodes, const std::string& op) {
  if (nodes.chance(20)) {
    onnx::TypeProto type;
    type.mutable_tensor_type()->set_elem_type(DataType::kFloat32);
    nodes.add(op, {}, Attributes().set("type", type));
    return;
  }
  std::string x;
  if (nodes.chance(50)) x = nodes.want_for(op).name;
  nodes.add(op, {x.empty() ? nodes.want_sequence().name : x});
}

void add_optional_get(RandomNodes& nodes, const std::string& op) {
  const RandomValue optional = nodes.want_optional();
  if (!optional.value.has_element()) throw RandomNodes::Misfit();
  nodes.add(op, {optional.name});
}

void add_optional_has(RandomNodes& nodes, const std::string& op) {
  nodes.add(op, {nodes.want_optional().name});
}

}  // namespace

std::vector<RandomRow> control_rows() {
  const auto exact = RowErrors::kNone;
  const auto rounds = RowErrors::kRounds;
  return {
      {"ConcatFromSequence", add_concat_from_sequence, exact, false, true},
      {"If", add_if, rounds, false, true},
      {"Loop", add_loop, rounds, false, true},
      {"Optional", add_optional, exact, false, true},
      {"OptionalGetElement", add_optional_get, exact, false, true},
      {"OptionalHasElement", add_optional_has, exact, false, true},
      {"Scan", add_scan, rounds, false, true},
      {"SequenceAt", add_sequence_at, exact, false, true},
      {"SequenceConstruct", add_sequence_construct, exact, false, true},
      {"SequenceEmpty", add_sequence_empty, exact, false, true},
      {"SequenceErase", add_sequence_erase, exact, false, true},
      {"SequenceInsert", add_sequence_insert, exact, false, true},
      {"SequenceLength", add_sequence_length, exact, false, true},
      {"SequenceMap", add_sequence_map, rounds, false, true},
      {"SplitToSequence", add_split_to_sequence, exact, false, true},
  };
}

}  // namespace kodama::compiler
