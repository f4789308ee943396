#include <algorithm>
#include <cmath>

#include "compiler/driver/random_rows.h"

namespace kodama::compiler {
namespace {

int64_t wide(RandomNodes& nodes) {
  return nodes.extent(nodes.sizes().elements > 1000 ? 100 : 17);
}

/// Weights of a product over `inner` elements.
std::string weights_for(RandomNodes& nodes, DataType type, const Shape& shape, int64_t inner) {
  if (product_of(shape) > 20000) throw RandomNodes::Misfit();
  if (is_integer_type(type)) return nodes.fresh(type, shape, lowest_of(type), largest_of(type)).name;
  return nodes.constant(shape, 1.7 / std::sqrt(static_cast<double>(inner)), std::nullopt, type);
}

void add_mat_mul(RandomNodes& nodes, const std::string& op) {
  const RandomValue a = nodes.want_for(op, {.least_rank = 1, .low = -1e3, .high = 1e3});
  const int64_t inner = a.shape().back();
  if (nodes.chance(35)) {  // with a value
    Wanted wanted{.types = {a.type()}, .low = -30, .high = 30};
    wanted.fits = [&](const Shape& shape) {
      return shape.size() >= 2 && a.rank() >= 2 && shape[shape.size() - 2] == inner &&
             (shape.size() == 2 || a.rank() == 2 ||
              std::equal(a.shape().rbegin() + 2, a.shape().rend(), shape.rbegin() + 2, shape.rend())) &&
             a.size() * product_of(shape) / inner <= nodes.sizes().products;
    };
    wanted.make_shape = [&](RandomChoices& choices) { return Shape{inner, choices.extent(17)}; };
    nodes.add(op, {a.name, nodes.want(wanted).name});
    return;
  }
  if (nodes.chance(12) && a.rank() >= 2) {  // the constant first
    const int64_t depth = a.shape()[a.shape().size() - 2];
    const int64_t count = wide(nodes);
    if (count * a.size() > nodes.sizes().products) throw RandomNodes::Misfit();
    nodes.add(op, {weights_for(nodes, a.type(), {count, depth}, depth), a.name});
    return;
  }
  Shape shape{inner, wide(nodes)};
  if (nodes.chance(8)) shape = {inner};
  if (nodes.chance(10) && a.rank() > 2 && shape.size() == 2)
    shape.insert(shape.begin(), a.shape().begin(), a.shape().end() - 2);  // a matrix each
  if (a.size() / inner * product_of(shape) > nodes.sizes().products * (shape.size() > 2 ? a.shape()[0] : 1))
    throw RandomNodes::Misfit();
  nodes.add(op, {a.name, weights_for(nodes, a.type(), shape, inner)});
}

void add_gemm(RandomNodes& nodes, const std::string& op) {
  const RandomValue a = nodes.want_for(op, {.least_rank = 2, .most_rank = 2, .low = -1e3, .high = 1e3});
  const bool transposes_a = nodes.chance(30), transposes_b = nodes.chance(50);
  const int64_t rows = a.shape()[transposes_a ? 1 : 0];
  const int64_t inner = a.shape()[transposes_a ? 0 : 1];
  const int64_t columns = wide(nodes);
  if (rows * inner * columns > nodes.sizes().products) throw RandomNodes::Misfit();
  const Shape shape = transposes_b ? Shape{columns, inner} : Shape{inner, columns};
  std::vector<std::string> inputs{a.name, weights_for(nodes, a.type(), shape, inner)};
  if (nodes.chance(70)) {
    const Shape bias =
        nodes.pick(std::vector<Shape>{{columns}, {1, columns}, {rows, 1}, {}, {rows, columns}});
    inputs.push_back(weights_for(nodes, a.type(), bias, 1));
  }
  Attributes attributes;
  if (transposes_a) attributes.set("transA", 1);
  if (transposes_b) attributes.set("transB", 1);
  if (nodes.chance(25)) attributes.set("alpha", 0.5);
  if (nodes.chance(25)) attributes.set("beta", 2.0);
  nodes.add(op, inputs, attributes);
}

void add_mat_mul_integer(RandomNodes& nodes, const std::string& op) {
  const RandomValue a = nodes.want_for(op, {.least_rank = 2});
  const int64_t inner = a.shape().back();
  const DataType type = nodes.pick_type(RandomNodes::types(op, 1));
  const RandomValue b = nodes.fresh(type, {inner, wide(nodes)}, -128, 255);
  std::vector<std::string> inputs{a.name, b.name};
  if (nodes.chance(60)) inputs.push_back(nodes.scalar(static_cast<double>(nodes.number(0, 9)), a.type()));
  if (inputs.size() == 3 && nodes.chance(60))
    inputs.push_back(nodes.scalar(static_cast<double>(nodes.number(0, 9)), b.type()));
  nodes.add(op, inputs);
}

void add_qlinear_mat_mul(RandomNodes& nodes, const std::string& op) {
  const RandomValue a = nodes.want_for(op, {.least_rank = 2});
  const int64_t inner = a.shape().back();
  const DataType type = nodes.pick_type(RandomNodes::types(op, 3));
  const RandomValue b = nodes.fresh(type, {inner, wide(nodes)}, -128, 255);
  const DataType result = nodes.pick_type(RandomNodes::types(op, 7));
  const auto scale = [&](int64_t low, int64_t high) {
    return nodes.scalar(std::ldexp(1, static_cast<int>(nodes.number(low, high))));
  };
  const auto zero = [&](DataType type) {
    return nodes.scalar(static_cast<double>(nodes.number(0, 9)), type);
  };
  const std::string a_scale = scale(-3, 0), a_zero = zero(a.type());
  const std::string b_scale = scale(-3, 0), b_zero = zero(b.type());
  const std::string y_scale = scale(-2, 2), y_zero = zero(result);
  nodes.add(op, {a.name, a_scale, a_zero, b.name, b_scale, b_zero, y_scale, y_zero});
}

void add_einsum(RandomNodes& nodes, const std::string& op) {
  const RandomValue a = nodes.want_for(op, {.least_rank = 2, .most_rank = 4, .low = -1e3, .high = 1e3});
  const int64_t rows = a.shape()[a.shape().size() - 2], columns = a.shape().back();
  const int64_t count = wide(nodes);
  if (a.size() * count > nodes.sizes().products) throw RandomNodes::Misfit();
  const auto with = [&](const Shape& shape, int64_t inner, const char* equation) {
    nodes.add(op, {a.name, weights_for(nodes, a.type(), shape, inner)},
              Attributes().set("equation", equation));
  };
  switch (nodes.number(0, 7)) {
    case 0:
      return with({count, columns}, columns, "...j,kj->...k");
    case 1:
      return with({rows, count}, rows, "...ij,ik->...jk");
    case 2:
      return with({columns}, columns, "...j,j->...");
    case 3:
      return with({count}, 1, "...i,k->...ik");
    case 4:
      nodes.add(op, {a.name}, Attributes().set("equation", "...ij->...ji"));
      return;
    case 5:
      nodes.add(op, {a.name}, Attributes().set("equation", "...ij->...i"));
      return;
    case 6:
      if (rows != columns) throw RandomNodes::Misfit();
      nodes.add(op, {a.name}, Attributes().set("equation", nodes.word({"...ii->...i", "...ii->..."})));
      return;
    default: {
      if (a.rank() != 2) throw RandomNodes::Misfit();
      const std::string equation = nodes.word({"ij,jk", "ij,jk->ki", "ab,bc->a"});
      with({columns, count}, columns, equation.c_str());
    }
  }
}

void add_det(RandomNodes& nodes, const std::string& op) {
  const auto is_square = [](const Shape& shape) {
    return shape.size() >= 2 && shape.back() <= 4 && shape[shape.size() - 2] == shape.back();
  };
  const RandomValue x = nodes.want_for(op, {.least_rank = 2,
                                            .most_rank = 4,
                                            .low = -30,
                                            .high = 30,
                                            .fits = is_square,
                                            .make_shape = [](RandomChoices& choices) {
                                              const int64_t size = choices.number(1, 4);
                                              Shape shape{size, size};
                                              if (choices.chance(60))
                                                shape.insert(shape.begin(), choices.number(1, 6));
                                              return shape;
                                            }});
  nodes.add(op, {x.name});
}

// ---- recurrent

/// As many samples' lengths as there are samples.
std::string lengths_for(RandomNodes& nodes, int64_t batch, int64_t steps) {
  return nodes.add_constant(nodes.random_tensor(DataType::kInt32, {batch}, 1, static_cast<double>(steps)));
}

void add_recurrent(RandomNodes& nodes, const std::string& op) {
  const bool batch_first = nodes.chance(20);
  const RandomValue x =
      nodes.want_for(op, {.least_rank = 3,
                          .most_rank = 3,
                          .low = -30,
                          .high = 30,
                          .fits = [&](const Shape& shape) { return shape[batch_first ? 1 : 0] <= 5; },
                          .make_shape =
                              [&](RandomChoices& choices) {
                                Shape shape{choices.number(1, 4), choices.number(1, 4), choices.extent(9)};
                                return shape;
                              }});
  const int64_t steps = x.shape()[batch_first ? 1 : 0], batch = x.shape()[batch_first ? 0 : 1];
  const int64_t gates = op == "RNN" ? 1 : op == "GRU" ? 3 : 4;
  const int64_t hidden = nodes.extent(nodes.sizes().elements > 1000 ? 33 : 9);
  const std::string direction = nodes.word({"forward", "reverse", "bidirectional"});
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  const double scale = 1 / std::sqrt(static_cast<double>(hidden));
  const auto constant = [&](const Shape& shape, double high) {
    return nodes.constant(shape, high, std::nullopt, x.type());
  };
  const Shape state = batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
  std::vector<std::string> inputs = {x.name, constant({directions, gates * hidden, x.shape()[2]}, scale),
                                     constant({directions, gates * hidden, hidden}, scale)};
  inputs.push_back(nodes.chance(60) ? constant({directions, 2 * gates * hidden}, 0.5) : "");
  inputs.push_back(nodes.chance(30) ? lengths_for(nodes, batch, steps) : "");
  inputs.push_back(
      nodes.chance(40) ? nodes.want({.types = {x.type()}, .low = -4, .high = 4, .shape = state}).name : "");
  if (op == "LSTM") {
    inputs.push_back(nodes.chance(40) ? constant(state, 1) : "");
    inputs.push_back(nodes.chance(30) ? constant({directions, 3 * hidden}, 0.5) : "");
  }
  Attributes attributes = Attributes().set("hidden_size", hidden);
  if (direction != "forward" || nodes.chance(30)) attributes.set("direction", direction);
  if (batch_first) attributes.set("layout", 1);
  if (nodes.chance(20)) attributes.set("clip", nodes.real(0.5, 3));
  if (op == "GRU" && nodes.chance(50)) attributes.set("linear_before_reset", 1);
  if (op == "LSTM" && nodes.chance(20)) attributes.set("input_forget", 1);
  if (nodes.chance(25)) {
    std::vector<std::string> activations;
    for (int64_t k = 0; k < directions * (gates == 1 ? 1 : gates - 1); ++k)
      activations.push_back(nodes.word({"Tanh", "Sigmoid", "Relu", "Softsign", "HardSigmoid"}));
    attributes.set("activations", activations);
  }
  nodes.add(op, inputs, attributes);
}

// ---- signals

void add_dft(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = nodes.want_for(
      op, {.least_rank = 3,
           .most_rank = 4,
           .fits = [](const Shape& shape) { return shape.back() <= 2; },
           .make_shape =
               [](RandomChoices& choices) {
                 return Shape{choices.number(1, 3), choices.number(1, 9), choices.number(1, 2)};
               }});
  const int64_t axis = nodes.number(1, x.rank() - 2);
  const bool is_inverse = x.shape().back() == 2 && nodes.chance(30);
  Attributes attributes = Attributes().set("axis", axis);
  if (is_inverse) attributes.set("inverse", 1);
  if (x.shape().back() == 1 && nodes.chance(40)) attributes.set("onesided", 1);
  const std::string length = nodes.chance(40) ? nodes.integer(nodes.number(1, 9)) : "";
  nodes.add(op, {x.name, length}, attributes);
}

void add_stft(RandomNodes& nodes, const std::string& op) {
  const int64_t size = nodes.number(8, 24), frame = nodes.number(3, 7);
  const RandomValue signal = nodes.want_for(op, {.shape = Shape{nodes.number(1, 2), size, 1}});
  const bool has_window = nodes.chance(50);
  Attributes attributes;
  if (nodes.chance(50)) attributes.set("onesided", nodes.number(0, 1));
  nodes.add(op,
            {signal.name, nodes.integer(nodes.number(1, 4)),
             has_window ? nodes.constant({frame}, 1, 0.1, signal.type()) : "", nodes.integer(frame)},
            attributes);
}

void add_window(RandomNodes& nodes, const std::string& op) {
  Attributes attributes;
  if (nodes.chance(50)) attributes.set("periodic", nodes.number(0, 1));
  if (nodes.chance(40))
    attributes.set("output_datatype", nodes.pick(std::vector<DataType>{DataType::kFloat32, DataType::kFloat64,
                                                                       DataType::kFloat16}));
  const DataType type = nodes.chance(50) ? DataType::kInt64 : DataType::kInt32;
  nodes.add(op, {nodes.scalar(static_cast<double>(nodes.number(3, 12)), type)}, attributes);
}

void add_mel_weights(RandomNodes& nodes, const std::string& op) {
  const int64_t rate = nodes.pick(std::vector<int64_t>{8000, 16000});
  nodes.add(op, {nodes.integer(nodes.number(2, 8)),
                 nodes.integer(nodes.pick(std::vector<int64_t>{8, 16, 32})), nodes.integer(rate),
                 nodes.scalar(nodes.real(0, 100)), nodes.scalar(static_cast<double>(rate) / 2)});
}

}  // namespace

std::vector<RandomRow> product_rows() {
  const auto exact = RowErrors::kNone;
  const auto products = RowErrors::kProducts;
  return {
      {"BlackmanWindow", add_window},
      {"DFT", add_dft, RowErrors::kWeights},
      {"Det", add_det, RowErrors::kDeterminants},
      {"Einsum", add_einsum, products},
      {"GRU", add_recurrent, products},
      {"Gemm", add_gemm, products},
      {"HammingWindow", add_window},
      {"HannWindow", add_window},
      {"LSTM", add_recurrent, products},
      {"MatMul", add_mat_mul, products},
      {"MatMulInteger", add_mat_mul_integer, exact},
      {"MelWeightMatrix", add_mel_weights},
      {"QLinearMatMul", add_qlinear_mat_mul, exact},
      {"RNN", add_recurrent, products},
      {"STFT", add_stft, RowErrors::kWeights},
  };
}

}  // namespace kodama::compiler
