#include <algorithm>
#include <cmath>

#include "compiler/reference/kernels/kernel.h"
#include "compiler/reference/kernels/strided.h"

/// RNN, GRU and LSTM. Names are those of ONNX's pages: X, W, R, B, P, the gates and the activations f, g and
/// h.
namespace kodama::compiler::reference {

namespace {

/// What activations there are, with the defaults of their parameters; nullopt for a parameter that they lack.
struct ActivationKind {
  const char* name;
  double (*function)(double x, double alpha, double beta);
  std::optional<double> alpha = std::nullopt;
  std::optional<double> beta = std::nullopt;
};

constexpr ActivationKind kActivations[] = {
    {"Sigmoid", [](double x, double, double) { return 1 / (1 + std::exp(-x)); }},
    {"Tanh", [](double x, double, double) { return std::tanh(x); }},
    {"Relu", [](double x, double, double) { return maximum(x, 0.0); }},
    {"Affine", [](double x, double alpha, double beta) { return alpha * x + beta; }, 1, 0},
    {"LeakyRelu", [](double x, double alpha, double) { return x < 0 ? alpha * x : x; }, 0.01},
    {"ThresholdedRelu", [](double x, double alpha, double) { return x < alpha ? 0 : x; }, 1},
    {"ScaledTanh", [](double x, double alpha, double beta) { return alpha * std::tanh(beta * x); }, 1, 1},
    {"HardSigmoid",
     [](double x, double alpha, double beta) { return minimum(maximum(alpha * x + beta, 0.0), 1.0); }, 0.2,
     0.5},
    {"Elu", [](double x, double alpha, double) { return x < 0 ? alpha * std::expm1(x) : x; }, 1},
    {"Softsign", [](double x, double, double) { return x / (1 + std::fabs(x)); }},
    {"Softplus",
     [](double x, double, double) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }},
};

struct Activation {
  const ActivationKind* kind;
  double alpha = 0;
  double beta = 0;

  double operator()(double x) const { return kind->function(x, alpha, beta); }
};

/// The activations of all directions: `defaults` for each, unless the node names others. Those that have an
/// alpha (a beta) take the values of activation_alpha (activation_beta) in turn, then their defaults.
std::vector<Activation> activations_of(const NodeContext& context, const std::vector<std::string>& defaults,
                                       int64_t directions) {
  std::vector<std::string> names;
  if (context.has_attribute("activations")) names = context.strings_attribute("activations");
  const size_t count = defaults.size() * static_cast<size_t>(directions);
  if (names.empty()) {
    for (int64_t d = 0; d < directions; ++d) names.insert(names.end(), defaults.begin(), defaults.end());
  }
  // The schema's default for RNN names two, for either number of directions.
  context.require(names.size() >= count, "activations has {} values; {} are needed", names.size(), count);
  const auto values_of = [&](const char* name) {
    return context.has_attribute(name) ? context.floats_attribute(name) : std::vector<float>();
  };
  const std::vector<float> alphas = values_of("activation_alpha");
  const std::vector<float> betas = values_of("activation_beta");
  size_t next_alpha = 0;
  size_t next_beta = 0;
  const auto take_next = [](const std::vector<float>& values, size_t& next, double otherwise) {
    return next < values.size() ? static_cast<double>(values[next++]) : otherwise;
  };
  std::vector<Activation> result;
  for (size_t i = 0; i < count; ++i) {
    const auto* const kind =
        std::ranges::find_if(kActivations, [&](const auto& each) { return names[i] == each.name; });
    context.require(kind != std::end(kActivations), "activations names '{}'; ONNX's page lists those allowed",
                    names[i]);
    Activation activation{kind};
    if (kind->alpha) activation.alpha = take_next(alphas, next_alpha, *kind->alpha);
    if (kind->beta) activation.beta = take_next(betas, next_beta, *kind->beta);
    result.push_back(activation);
  }
  return result;
}

/// Extents and options of a node.
struct Recurrence {
  int64_t gates = 0;
  int64_t hidden = 0;
  int64_t directions = 1;
  bool first_reversed = false;
  bool batch_first = false;
  int64_t steps = 0;
  int64_t batch = 0;
  int64_t width = 0;
  std::vector<int64_t> lengths;  ///< per sample

  bool is_reversed(int64_t direction) const { return first_reversed || direction == 1; }
};

Recurrence recurrence_of(const NodeContext& context, int64_t gates) {
  const Tensor& x = context.input(0);
  const Tensor& w = context.input(1);
  const Tensor& r = context.input(2);
  context.require(x.rank() == 3 && w.rank() == 3 && r.rank() == 3,
                  "X, W and R have shapes {}, {} and {}; allowed is rank 3", shape_to_string(x.shape()),
                  shape_to_string(w.shape()), shape_to_string(r.shape()));
  Recurrence result;
  result.gates = gates;
  result.hidden = context.int_attribute("hidden_size", r.shape()[2]);
  const std::string direction = context.string_attribute("direction");
  context.require(direction == "forward" || direction == "reverse" || direction == "bidirectional",
                  "direction is '{}'; allowed are forward, reverse and bidirectional", direction);
  result.directions = direction == "bidirectional" ? 2 : 1;
  result.first_reversed = direction == "reverse";
  result.batch_first = context.int_attribute("layout", 0) != 0;
  result.steps = x.shape()[result.batch_first ? 1 : 0];
  result.batch = x.shape()[result.batch_first ? 0 : 1];
  result.width = x.shape()[2];
  const auto require_shape = [&](const char* name, const Tensor& tensor, const Shape& shape) {
    context.require(tensor.shape() == shape, "{} has shape {}; allowed is {}", name,
                    shape_to_string(tensor.shape()), shape_to_string(shape));
  };
  int64_t rows = 0;
  context.require(result.hidden >= 0 && !__builtin_mul_overflow(result.hidden, 2 * gates, &rows),
                  "hidden_size is {}", result.hidden);
  rows /= 2;
  require_shape("W", w, {result.directions, rows, result.width});
  require_shape("R", r, {result.directions, rows, result.hidden});
  if (context.has_input(3)) require_shape("B", context.input(3), {result.directions, 2 * rows});
  const Shape state = result.batch_first ? Shape{result.batch, result.directions, result.hidden}
                                         : Shape{result.directions, result.batch, result.hidden};
  if (context.has_input(5)) require_shape("initial_h", context.input(5), state);
  if (gates == 4 && context.has_input(6)) require_shape("initial_c", context.input(6), state);
  if (gates == 4 && context.has_input(7)) {
    require_shape("P", context.input(7), {result.directions, 3 * result.hidden});
  }
  result.lengths.assign(static_cast<size_t>(result.batch), result.steps);
  if (context.has_input(4)) {
    require_shape("sequence_lens", context.input(4), {result.batch});
    result.lengths = context.integers(4);
    for (const int64_t length : result.lengths) {
      context.require(length >= 0 && length <= result.steps, "sequence_lens holds {}; 0 to {} is allowed",
                      length, result.steps);
    }
  }
  return result;
}

/// What one direction has: its part of every operand, in the type that is computed in.
template <typename C>
struct Direction {
  std::vector<C> w;   ///< [width, gates * hidden]
  std::vector<C> r;   ///< [hidden, gates * hidden]
  std::vector<C> wb;  ///< [gates * hidden]
  std::vector<C> rb;  ///< [gates * hidden]
  std::vector<C> p;   ///< [3 * hidden]; empty without peepholes
  std::vector<Activation> activations;
};

template <typename T>
std::vector<Compute<T>> part_of(const Tensor& tensor, int64_t direction, int64_t directions) {
  const size_t size = static_cast<size_t>(tensor.size() / directions);
  const auto from = tensor.data<T>().subspan(static_cast<size_t>(direction) * size, size);
  return {from.begin(), from.end()};
}

/// [directions, n, m] -> [m, n] of one direction.
template <typename T>
std::vector<Compute<T>> transposed_part_of(const Tensor& tensor, int64_t direction) {
  return part_of<T>(transpose(tensor, {0, 2, 1}), direction, tensor.shape()[0]);
}

/// rows[j] += Σ x[k] * matrix[k, j]
template <typename C>
void add_product(const C* x, size_t count, const std::vector<C>& matrix, std::vector<double>& row) {
  for (size_t k = 0; k < count; ++k) {
    const C* const weights = matrix.data() + k * row.size();
    for (size_t j = 0; j < row.size(); ++j)
      row[j] += static_cast<double>(x[k]) * static_cast<double>(weights[j]);
  }
}

/// What a step of one sample sees. `x` and `h_products` are X W^T and H R^T, a row of `hidden` per gate,
/// without biases.
template <typename C>
struct Step {
  const Direction<C>& direction;
  size_t hidden;
  const std::vector<double>& x;
  const std::vector<double>& h_products;
  C* h;
  C* c;
  double clip;

  /// Number of gate and element in rows.
  size_t at(size_t gate, size_t i) const { return gate * hidden + i; }
  /// X W^T + Wb + H R^T + Rb
  double input_of(size_t gate, size_t i) const {
    const size_t k = at(gate, i);
    return x[k] + h_products[k] + static_cast<double>(direction.wb[k]) + static_cast<double>(direction.rb[k]);
  }
  C activate(size_t which, double value) const {
    return static_cast<C>(
        direction.activations[which](std::isnan(value) ? value : std::clamp(value, -clip, clip)));
  }
};

/// Runs all steps of all directions: `step` turns h and c of one sample into those after the step. Returns Y,
/// Y_h and Y_c.
template <typename T, typename OneStep>
std::vector<Tensor> recur(const NodeContext& context, const Recurrence& plan,
                          const std::vector<std::string>& default_activations, OneStep one_step) {
  using C = Compute<T>;
  const Tensor& x = context.input(0);
  const auto hidden = static_cast<size_t>(plan.hidden);
  const auto rows = static_cast<size_t>(plan.gates) * hidden;
  const std::vector<Activation> activations = activations_of(context, default_activations, plan.directions);
  const float clip = context.float_attribute("clip", std::numeric_limits<float>::infinity());
  context.require(clip >= 0, "clip is {}; 0 or more is allowed", clip);

  // Positions in X and Y, by step, sample and direction.
  const auto place_in_x = [&](int64_t t, int64_t n) {
    return static_cast<size_t>((plan.batch_first ? n * plan.steps + t : t * plan.batch + n) * plan.width);
  };
  const auto place_in_y = [&](int64_t t, int64_t d, int64_t n) {
    return static_cast<size_t>(plan.batch_first ? (n * plan.steps + t) * plan.directions + d
                                                : (t * plan.directions + d) * plan.batch + n) *
           hidden;
  };
  const auto place_in_state = [&](int64_t d, int64_t n) {
    return static_cast<size_t>(plan.batch_first ? n * plan.directions + d : d * plan.batch + n) * hidden;
  };
  const Shape state_shape = plan.batch_first ? Shape{plan.batch, plan.directions, plan.hidden}
                                             : Shape{plan.directions, plan.batch, plan.hidden};
  Tensor y(x.type(), plan.batch_first ? Shape{plan.batch, plan.steps, plan.directions, plan.hidden}
                                      : Shape{plan.steps, plan.directions, plan.batch, plan.hidden});
  Tensor y_h(x.type(), state_shape);
  Tensor y_c(x.type(), state_shape);
  const auto all_x = x.data<T>();
  std::vector<C> sample(static_cast<size_t>(plan.width));
  std::vector<double> x_products(rows);
  std::vector<double> h_products(rows);
  for (int64_t d = 0; d < plan.directions; ++d) {
    Direction<C> direction;
    direction.w = transposed_part_of<T>(context.input(1), d);
    direction.r = transposed_part_of<T>(context.input(2), d);
    direction.wb.assign(rows, C{0});
    direction.rb.assign(rows, C{0});
    if (context.has_input(3)) {
      const std::vector<C> biases = part_of<T>(context.input(3), d, plan.directions);
      std::copy_n(biases.begin(), rows, direction.wb.begin());
      std::copy_n(biases.begin() + static_cast<ptrdiff_t>(rows), rows, direction.rb.begin());
    }
    if (plan.gates == 4 && context.has_input(7)) {
      direction.p = part_of<T>(context.input(7), d, plan.directions);
    }
    const auto of_direction = static_cast<ptrdiff_t>(default_activations.size());
    direction.activations.assign(activations.begin() + d * of_direction,
                                 activations.begin() + (d + 1) * of_direction);
    for (int64_t n = 0; n < plan.batch; ++n) {
      const auto initial = [&](size_t input) {
        std::vector<C> values(hidden, C{0});
        if (!context.has_input(input)) return values;
        const auto from = context.input(input).data<T>().subspan(place_in_state(d, n), hidden);
        std::copy(from.begin(), from.end(), values.begin());
        return values;
      };
      std::vector<C> h = initial(5);
      std::vector<C> c = plan.gates == 4 ? initial(6) : std::vector<C>(hidden);
      const int64_t length = plan.lengths[static_cast<size_t>(n)];
      for (int64_t k = 0; k < length; ++k) {
        const int64_t t = plan.is_reversed(d) ? length - 1 - k : k;
        const auto from = all_x.subspan(place_in_x(t, n), sample.size());
        std::copy(from.begin(), from.end(), sample.begin());
        std::ranges::fill(x_products, 0.0);
        std::ranges::fill(h_products, 0.0);
        add_product(sample.data(), sample.size(), direction.w, x_products);
        add_product(h.data(), hidden, direction.r, h_products);
        one_step(Step<C>{direction, hidden, x_products, h_products, h.data(), c.data(), clip});
        for (size_t i = 0; i < hidden; ++i) y.data<T>()[place_in_y(t, d, n) + i] = to_element<T>(h[i]);
      }
      for (size_t i = 0; i < hidden; ++i) {
        y_h.data<T>()[place_in_state(d, n) + i] = to_element<T>(h[i]);
        y_c.data<T>()[place_in_state(d, n) + i] = to_element<T>(c[i]);
      }
    }
  }
  std::vector<Tensor> outputs = {std::move(y), std::move(y_h)};
  if (plan.gates == 4) outputs.push_back(std::move(y_c));
  return outputs;
}

/// Ht = f(Xt Wi^T + Ht-1 Ri^T + Wbi + Rbi)
std::vector<Tensor> run_rnn(const NodeContext& context) {
  const Recurrence plan = recurrence_of(context, 1);
  std::vector<Tensor> outputs;
  for_float_type(context, context.input(0).type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    outputs = recur<T>(context, plan, {"Tanh"}, [](const Step<Compute<T>>& step) {
      for (size_t i = 0; i < step.hidden; ++i) step.h[i] = step.activate(0, step.input_of(0, i));
    });
  });
  return outputs;
}

/// Gates z, r, h. linear_before_reset: the reset gate r multiplies H R^T + Rb, not H.
std::vector<Tensor> run_gru(const NodeContext& context) {
  const Recurrence plan = recurrence_of(context, 3);
  const bool linear_before_reset = context.int_attribute("linear_before_reset", 0) != 0;
  std::vector<Tensor> outputs;
  for_float_type(context, context.input(0).type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using C = Compute<T>;
    std::vector<C> z(static_cast<size_t>(plan.hidden));
    std::vector<C> r(static_cast<size_t>(plan.hidden));
    std::vector<C> reset_h(static_cast<size_t>(plan.hidden));
    std::vector<double> products(static_cast<size_t>(3 * plan.hidden));
    outputs = recur<T>(context, plan, {"Sigmoid", "Tanh"}, [&](const Step<C>& step) {
      for (size_t i = 0; i < step.hidden; ++i) {
        z[i] = step.activate(0, step.input_of(0, i));
        r[i] = step.activate(0, step.input_of(1, i));
        reset_h[i] = r[i] * step.h[i];
      }
      if (!linear_before_reset) {
        std::ranges::fill(products, 0.0);
        add_product(reset_h.data(), step.hidden, step.direction.r, products);
      }
      for (size_t i = 0; i < step.hidden; ++i) {
        const size_t k = step.at(2, i);
        const auto rb = static_cast<double>(step.direction.rb[k]);
        const double recurrent =
            linear_before_reset ? static_cast<double>(r[i]) * (step.h_products[k] + rb) : products[k] + rb;
        const C candidate =
            step.activate(1, step.x[k] + static_cast<double>(step.direction.wb[k]) + recurrent);
        step.h[i] = (1 - z[i]) * candidate + z[i] * step.h[i];
      }
    });
  });
  return outputs;
}

/// Gates i, o, f, c; peepholes of i, o, f. input_forget: the forget gate is 1 - i.
std::vector<Tensor> run_lstm(const NodeContext& context) {
  const Recurrence plan = recurrence_of(context, 4);
  const bool input_forget = context.int_attribute("input_forget", 0) != 0;
  std::vector<Tensor> outputs;
  for_float_type(context, context.input(0).type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using C = Compute<T>;
    outputs = recur<T>(context, plan, {"Sigmoid", "Tanh", "Tanh"}, [&](const Step<C>& step) {
      const auto peephole = [&](size_t gate, size_t i, C c) {
        const std::vector<C>& p = step.direction.p;
        return p.empty() ? 0 : static_cast<double>(p[step.at(gate, i)]) * static_cast<double>(c);
      };
      for (size_t i = 0; i < step.hidden; ++i) {
        const C before = step.c[i];
        const C input = step.activate(0, step.input_of(0, i) + peephole(0, i, before));
        const C forget =
            input_forget ? 1 - input : step.activate(0, step.input_of(2, i) + peephole(2, i, before));
        const C cell = forget * before + input * step.activate(1, step.input_of(3, i));
        const C output = step.activate(0, step.input_of(1, i) + peephole(1, i, cell));
        step.c[i] = cell;
        step.h[i] = output * step.activate(2, static_cast<double>(cell));
      }
    });
  });
  return outputs;
}

}  // namespace

void register_recurrent(KernelRegistry& registry) {
  registry.add("RNN", run_rnn);
  registry.add("GRU", run_gru);
  registry.add("LSTM", run_lstm);
}

}  // namespace kodama::compiler::reference
