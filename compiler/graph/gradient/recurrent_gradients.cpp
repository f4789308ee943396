#include <algorithm>

#include "compiler/graph/gradient/gradient_rules.h"

/// RNN, GRU and LSTM, step by step. Names are those of ONNX's pages.
namespace kodama::compiler::gradient {

namespace {

/// An activation with its parameters.
struct Activation {
  std::string name;
  double alpha = 0, beta = 0;

  Term operator()(const Term& x) const {
    TermGraph& g = *x.graph;
    const auto with_alpha = [&](const char* op) {
      return g.add(op, {x}, x.type, x.shape, {onnx::MakeAttribute("alpha", static_cast<float>(alpha))});
    };
    if (name == "Affine") return x * alpha + beta;
    if (name == "ScaledTanh") return map("Tanh", x * beta) * alpha;
    if (name == "LeakyRelu" || name == "Elu") return with_alpha(name.c_str());
    if (name == "ThresholdedRelu") return select(less(x, alpha), 0.0, x);
    if (name == "HardSigmoid")
      return g.add(name, {x}, x.type, x.shape,
                   {onnx::MakeAttribute("alpha", static_cast<float>(alpha)),
                    onnx::MakeAttribute("beta", static_cast<float>(beta))});
    return map(name, x);  // Relu, Sigmoid, Softplus, Softsign, Tanh
  }
};

struct Parameters {
  std::optional<double> alpha, beta;
};

Parameters default_parameters(const std::string& name) {
  if (name == "Affine") return {1.0, 0.0};
  if (name == "ScaledTanh") return {1.0, 1.0};
  if (name == "LeakyRelu") return {0.01, {}};
  if (name == "HardSigmoid") return {0.2, 0.5};
  if (name == "Elu" || name == "ThresholdedRelu") return {1.0, {}};
  return {};
}

std::vector<Activation> activations_of(const NodeParts& n, const std::vector<std::string>& defaults,
                                       int64_t directions) {
  std::vector<std::string> names;
  if (const auto* given = find_attribute(n.node(), "activations"))
    names.assign(given->strings().begin(), given->strings().end());
  const size_t count = defaults.size() * static_cast<size_t>(directions);
  if (names.size() < count) {
    names.clear();
    for (int64_t d = 0; d < directions; ++d) names.insert(names.end(), defaults.begin(), defaults.end());
  }
  // Those that have a parameter take the values of the attribute in turn.
  std::map<std::string, int> next;
  const auto take = [&](const char* list, std::optional<double> otherwise) {
    if (!otherwise) return 0.0;
    const auto* values = find_attribute(n.node(), list);
    const int at = next[list]++;
    return values != nullptr && at < values->floats_size() ? static_cast<double>(values->floats(at))
                                                           : *otherwise;
  };
  std::vector<Activation> activations;
  for (size_t i = 0; i < count; ++i) {
    const Parameters defaults_of = default_parameters(names[i]);
    const double alpha = take("activation_alpha", defaults_of.alpha);
    const double beta = take("activation_beta", defaults_of.beta);
    activations.push_back({names[i], alpha, beta});
  }
  return activations;
}

/// What a step of one direction computes with: rows are [batch, hidden].
struct Direction {
  int64_t hidden = 0;
  std::vector<Activation> activations;
  Term recurrence;       ///< R^T, [hidden, gates * hidden]
  Term recurrence_bias;  ///< [gates * hidden], if there is one
  Term peepholes;        ///< [3 * hidden], if there are some
  double clip = 0;       ///< 0: none

  Term gate(const Term& rows, int64_t number) const {
    return slice(rows, rows.rank() - 1, number * hidden, (number + 1) * hidden);
  }
  Term activate(size_t which, const Term& x) const {
    if (clip == 0) return activations[which](x);
    TermGraph& g = *x.graph;
    return activations[which](
        g.add("Clip", {x, g.number(-clip, x.type), g.number(clip, x.type)}, x.type, x.shape));
  }
  /// h R^T + Rb
  Term recurrent(const Term& h) const {
    const Term product = matmul(h, recurrence);
    return recurrence_bias ? product + recurrence_bias : product;
  }
};

struct State {
  Term h, c;
};

/// `x` is X W^T + Wb of the step.
using OneStep = State (*)(const NodeParts& n, const Direction& d, const Term& x, const State& before);

State rnn_step(const NodeParts& /*n*/, const Direction& d, const Term& x, const State& before) {
  return {d.activate(0, x + d.recurrent(before.h)), {}};
}

State gru_step(const NodeParts& n, const Direction& d, const Term& x, const State& before) {
  const Term& h = before.h;
  const Term all = d.recurrent(h);
  const Term z = d.activate(0, d.gate(x, 0) + d.gate(all, 0));
  const Term r = d.activate(0, d.gate(x, 1) + d.gate(all, 1));
  Term rest;
  if (n.integer("linear_before_reset") != 0) {
    rest = r * d.gate(all, 2);
  } else {
    rest = matmul(r * h, d.gate(d.recurrence, 2));
    if (d.recurrence_bias) rest = rest + d.gate(d.recurrence_bias, 2);
  }
  const Term candidate = d.activate(1, d.gate(x, 2) + rest);
  return {(1.0 - z) * candidate + z * h, {}};
}

State lstm_step(const NodeParts& n, const Direction& d, const Term& x, const State& before) {
  const Term gates = x + d.recurrent(before.h);
  const auto input_of = [&](int64_t gate, const Term& cell) {
    const Term sum = d.gate(gates, gate);
    return d.peepholes ? sum + d.gate(d.peepholes, gate) * cell : sum;
  };
  const Term input = d.activate(0, input_of(0, before.c));
  const Term forget = n.integer("input_forget", 0) != 0 ? 1.0 - input : d.activate(0, input_of(2, before.c));
  const Term cell = forget * before.c + input * d.activate(1, d.gate(gates, 3));
  const Term output = d.activate(0, input_of(1, cell));
  return {output * d.activate(2, cell), cell};
}

/// The steps of a node one after the other.
void recur(NodeParts& n, int64_t gates, const std::vector<std::string>& default_activations, OneStep step) {
  const bool batch_first = n.integer("layout") != 0;
  const Term x = batch_first ? transpose(n.x(0), {1, 0, 2}) : n.x(0);  // [steps, batch, width]
  const int64_t steps = x.extent(0), batch = x.extent(1), width = x.extent(2);
  const int64_t directions = n.x(1).extent(0);
  const int64_t hidden = n.x(2).extent(2);
  const std::string direction = n.text("direction");
  const auto activations = activations_of(n, default_activations, directions);
  TermGraph& g = n.graph();
  const Term lengths = n.has(4) ? reshape(cast(n.x(4), kInt64), {batch, 1}) : Term();

  std::vector<Term> all_y, all_h, all_c;
  for (int64_t d = 0; d < directions; ++d) {
    const auto own = [&](int input, const Shape& shape) {
      return n.has(input) ? reshape(slice(n.x(input), 0, d, d + 1), shape) : Term();
    };
    const int64_t rows = gates * hidden;
    Direction use;
    use.hidden = hidden;
    const auto first = activations.begin() + d * static_cast<int64_t>(default_activations.size());
    use.activations.assign(first, first + static_cast<int64_t>(default_activations.size()));
    use.recurrence = transpose_matrix(own(2, {rows, hidden}));
    use.clip = n.number("clip", 0.0F);
    if (gates == 4) use.peepholes = own(7, {3 * hidden});
    const Term weights = transpose_matrix(own(1, {rows, width}));
    Term products = matmul(reshape(x, {steps * batch, width}), weights);
    if (n.has(3)) {
      const Term biases = own(3, {2 * rows});
      products = products + slice(biases, 0, 0, rows);
      use.recurrence_bias = slice(biases, 0, rows, 2 * rows);
    }
    products = reshape(products, {steps, batch, rows});
    const auto initial = [&](int input) {
      if (!n.has(input)) return g.filled(0, x.type, {batch, hidden});
      return reshape(slice(n.x(input), batch_first ? 1 : 0, d, d + 1), {batch, hidden});
    };
    State state = {initial(5), gates == 4 ? initial(6) : Term()};
    std::vector<Term> outputs(static_cast<size_t>(steps));
    const bool is_reversed = direction == "reverse" || d == 1;
    for (int64_t k = 0; k < steps; ++k) {
      const int64_t t = is_reversed ? steps - 1 - k : k;
      const Term row = reshape(slice(products, 0, t, t + 1), {batch, rows});
      State next = step(n, use, row, state);
      Term output = next.h;
      if (lengths) {
        // Behind its end a sample's state stays, and its result is zero.
        const Term is_on = greater(lengths, static_cast<double>(t));
        output = select(is_on, next.h, 0.0);
        next.h = select(is_on, next.h, state.h);
        if (next.c) next.c = select(is_on, next.c, state.c);
      }
      outputs[static_cast<size_t>(t)] = reshape(output, {1, 1, batch, hidden});
      state = next;
    }
    all_y.push_back(concat(outputs, 0));
    all_h.push_back(reshape(state.h, {1, batch, hidden}));
    if (state.c) all_c.push_back(reshape(state.c, {1, batch, hidden}));
  }
  const auto state_of = [&](const std::vector<Term>& parts) {
    const Term whole = concat(parts, 0);
    return batch_first ? transpose(whole, {1, 0, 2}) : whole;
  };
  const Term y = concat(all_y, 1);
  n.finish(0, batch_first ? transpose(y, {2, 0, 1, 3}) : y);
  n.finish(1, state_of(all_h));
  if (!all_c.empty()) n.finish(2, state_of(all_c));
}

void rnn(NodeParts& n) {
  recur(n, 1, {"Tanh"}, rnn_step);
}
void gru(NodeParts& n) {
  recur(n, 3, {"Sigmoid", "Tanh"}, gru_step);
}
void lstm(NodeParts& n) {
  recur(n, 4, {"Sigmoid", "Tanh", "Tanh"}, lstm_step);
}

}  // namespace

std::vector<GradientRow> recurrent_gradients() {
  return {
      {"GRU", nullptr, gru},
      {"LSTM", nullptr, lstm},
      {"RNN", nullptr, rnn},
  };
}

}  // namespace kodama::compiler::gradient
