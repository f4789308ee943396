#include <algorithm>
#include <array>
#include <limits>

#include "compiler/graph/onnx_model.h"
#include "compiler/lowering/node_lowering.h"

/// RNN, GRU and LSTM, unrolled: the input's product X W^T of all steps is one Contract before them, each step
/// is a Contract with the state, H R^T, and the Maps of its gates. Both directions of a bidirectional
/// operator are one more axis of every layer: step k is at time k of the one and steps - 1 - k of the other.
namespace kodama::compiler {

namespace {

constexpr DataType kFloat = DataType::kFloat32;

/// An activation with the parameters that it takes.
struct ActivationKind {
  const char* name;
  Term (*function)(Term x, double alpha, double beta);
  std::optional<double> alpha = std::nullopt;  ///< the default
  std::optional<double> beta = std::nullopt;
};
constexpr std::array<ActivationKind, 11> kActivations = {{
    {"Sigmoid", [](Term x, double, double) { return sigmoid(x); }},
    {"Tanh", [](Term x, double, double) { return tanh(x); }},
    {"Relu", [](Term x, double, double) { return relu(x); }},
    {"Affine", [](Term x, double alpha, double beta) { return x * alpha + beta; }, 1, 0},
    {"LeakyRelu", [](Term x, double alpha, double) { return leaky_relu(x, alpha); }, 0.01},
    {"ThresholdedRelu", [](Term x, double alpha, double) { return thresholded_relu(x, alpha); }, 1},
    {"ScaledTanh", [](Term x, double alpha, double beta) { return tanh(x * beta) * alpha; }, 1, 1},
    {"HardSigmoid", [](Term x, double alpha, double beta) { return hard_sigmoid(x, alpha, beta); }, 0.2, 0.5},
    {"Elu", [](Term x, double alpha, double) { return elu(x, alpha); }, 1},
    {"Softsign", [](Term x, double, double) { return softsign(x); }},
    {"Softplus", [](Term x, double, double) { return softplus(x); }},
}};

struct Activation {
  const ActivationKind* kind = nullptr;
  double alpha = 0, beta = 0;
  double clip = std::numeric_limits<double>::infinity();

  Term operator()(Term x) const {
    return kind->function(clip < std::numeric_limits<double>::infinity() ? max(min(x, clip), -clip) : x,
                          alpha, beta);
  }
  bool operator==(const Activation&) const = default;
};

/// Directions that the same formulas compute: all, unless they have other activations.
struct DirectionGroup {
  int64_t first = 0, count = 1;
  std::vector<Activation> activations;
};

/// A Map whose operands are read with any access.
class PointMap {
 public:
  Term read(const TensorAccess& access) {
    inputs_.push_back(access);
    return formula_.x(static_cast<int>(inputs_.size()) - 1);
  }
  Term zero() { return formula_.constant(0); }
  MapLayer finish(const Shape& extents, Term result) {
    MapLayer map{extents, inputs_, formula_.result(result)};
    tidy_inputs(map.expr, map.inputs);
    return map;
  }

 private:
  Formula formula_;
  std::vector<TensorAccess> inputs_;
};

class Recurrence {
 public:
  Recurrence(NodeLowering& lowering, int64_t gates) : lowering_(lowering), gates_(gates) {
    const Shape& x = lowering.input_shape(0);
    const Shape& r = lowering.input_shape(2);
    lowering.require(x.size() == 3 && lowering.input_shape(1).size() == 3 && r.size() == 3,
                     "X, W and R are {}, {} and {}; rank 3 is needed", shape_to_string(x),
                     shape_to_string(lowering.input_shape(1)), shape_to_string(r));
    batch_first_ = lowering.int_attribute("layout", 0) != 0;
    steps_ = x[batch_first_ ? 1 : 0];
    batch_ = x[batch_first_ ? 0 : 1];
    hidden_ = r[2];
    const std::string direction = lowering.string_attribute("direction");
    lowering.require(direction == "forward" || direction == "reverse" || direction == "bidirectional",
                     "direction is '{}'; forward, reverse and bidirectional are allowed", direction);
    directions_ = direction == "bidirectional" ? 2 : 1;
    first_reversed_ = direction == "reverse";
    const auto require_shape = [&](int index, const Shape& shape) {
      if (lowering.has_input(index))
        lowering.require(lowering.input_shape(index) == shape, "input {} is {}; {} is needed", index,
                         shape_to_string(lowering.input_shape(index)), shape_to_string(shape));
    };
    require_shape(1, {directions_, gates_ * hidden_, x[2]});
    require_shape(2, {directions_, gates_ * hidden_, hidden_});
    require_shape(3, {directions_, 2 * gates_ * hidden_});
    require_shape(4, {batch_});
    const Shape state =
        batch_first_ ? Shape{batch_, directions_, hidden_} : Shape{directions_, batch_, hidden_};
    require_shape(5, state);
    if (gates == 4) {
      require_shape(6, state);
      require_shape(7, {directions_, 3 * hidden_});
    }
  }

  /// Reads what says how long samples are, and activations. A reason if they can't be unrolled.
  HostReason prepare(const std::vector<std::string>& default_activations) {
    if (steps_ > kMostSteps) return fmt::format("{} steps; at most {} are unrolled", steps_, kMostSteps);
    lengths_.assign(static_cast<size_t>(batch_), steps_);
    if (lowering_.has_input(4)) {
      const auto lengths = lowering_.constant_integers(4);
      if (!lengths) {
        take_lengths_of_data();
        read_activations(default_activations);
        return kLowered;
      }
      for (const int64_t length : *lengths)
        lowering_.require(length >= 0 && length <= steps_, "sequence_lens holds {}; 0 to {} is allowed",
                          length, steps_);
      lengths_ = *lengths;
    }
    if (std::ranges::any_of(lengths_, [&](int64_t length) { return length < steps_; })) {
      Tensor valid(kFloat, {steps_, batch_});
      for (int64_t t = 0; t < steps_; ++t) {
        for (int64_t b = 0; b < batch_; ++b)
          valid.data<float>()[t * batch_ + b] = t < lengths_[static_cast<size_t>(b)] ? 1.0F : -1.0F;
      }
      valid_ = lowering_.add_constant("valid", std::move(valid));
    }
    read_activations(default_activations);
    return kLowered;
  }

  /// Every sample may be over at any step.
  void take_lengths_of_data() {
    constexpr DataType kLength = DataType::kInt32;
    check_bounds(lowering_, 4, lowering_.input(4), 0, steps_);
    lengths_.assign(static_cast<size_t>(batch_), 0);
    valid_ = lowering_.add_tensor("valid", kFloat, {steps_, batch_});
    MapBuilder map(lowering_, {steps_, batch_});
    const Integer time = map.integer(lowering_.add_numbers("times", kLength, {steps_, 1}));
    const Term is_valid = less(time, map.integer_of_input(4));
    map.finish("valid", where(is_valid, map.constant(1), map.constant(-1)), valid_);
  }

  const std::vector<DirectionGroup>& groups() const { return groups_; }
  int64_t steps() const { return steps_; }
  int64_t hidden() const { return hidden_; }
  int64_t gates() const { return gates_; }
  DataType type() const { return lowering_.input_type(0); }
  Shape state_extents(const DirectionGroup& group) const { return {group.count, batch_, hidden_}; }

  /// [steps, batch, directions, gates * hidden]: X W^T and the biases, those of the state as well if they are
  /// `with_state_bias`.
  TensorId input_products(const DirectionGroup& group, const std::string& prefix, bool with_state_bias) {
    using Role = ContractLayer::Role;
    enum : size_t { kStep, kBatch, kDirection, kRow, kInner, kDims };
    const int64_t width = lowering_.input_shape(0)[2];
    const int64_t rows = gates_ * hidden_;
    ContractLayer contract;
    contract.dims = {{"t", steps_, Role::kN},
                     {"b", batch_, Role::kN},
                     {"d", group.count, Role::kM},
                     {"m", rows, Role::kM},
                     {"k", width, Role::kK}};
    AffineMap w(3, kDims);
    w.set(0, kDirection, 1).set_offset(0, group.first).set(1, kRow, 1).set(2, kInner, 1);
    AffineMap x(3, kDims);
    x.set(batch_first_ ? 1 : 0, kStep, 1).set(batch_first_ ? 0 : 1, kBatch, 1).set(2, kInner, 1);
    contract.a = {lowering_.input(1), w, 0};
    contract.b = {lowering_.input(0), x, 0};
    contract.output = AffineMap(4, kDims);
    for (const size_t axis : {kStep, kBatch, kDirection, kRow}) contract.output.set(axis, axis, 1);
    contract.output_shape = {steps_, batch_, group.count, rows};
    Formula epilogue;
    Term sum = epilogue.x(0);
    for (int part = 0; lowering_.has_input(3) && part < (with_state_bias ? 2 : 1); ++part) {
      AffineMap bias(2, kDims);
      bias.set(0, kDirection, 1).set_offset(0, group.first).set(1, kRow, 1).set_offset(1, part * rows);
      contract.epilogue_inputs.push_back({lowering_.input(3), bias, 0});
      sum = sum + epilogue.x(1 + part);
    }
    contract.epilogue = epilogue.result(sum);
    const TensorId result = lowering_.add_tensor(prefix + "x_products", kFloat, contract.output_shape);
    lowering_.add_layer(prefix + "x_products", std::move(contract), result);
    return result;
  }

  /// Of input_products, rows from a gate's first on, at a step; over points (direction, batch, row...) of
  /// `dims` dims.
  TensorAccess input_product(const DirectionGroup& group, TensorId products, int64_t step, int64_t gate,
                             size_t dims) const {
    AffineMap map(4, dims);
    set_time(map, 0, group, step);
    map.set(1, 1, 1).set(2, 0, 1).set(3, 2, 1).set_offset(3, gate * hidden_);
    return {products, map, 0};
  }
  /// Whether samples of a step are beyond their end, and the access that says which aren't: a number that
  /// isn't negative.
  std::optional<TensorAccess> validity(const DirectionGroup& group, int64_t step) const {
    if (valid_ < 0) return std::nullopt;
    bool any = false;
    for (int64_t d = 0; d < group.count; ++d) {
      const int64_t t = time_of(group, d, step);
      any = any || std::ranges::any_of(lengths_, [&](int64_t length) { return length <= t; });
    }
    if (!any) return std::nullopt;
    AffineMap map(2, 3);
    set_time(map, 0, group, step);
    map.set(1, 1, 1);
    return TensorAccess{valid_, map, 0};
  }

  /// The elements of operand 3 or 7, [directions, n], from `first` on, over points (direction, batch,
  /// row...).
  TensorAccess per_row(const DirectionGroup& group, int index, int64_t first, size_t dims) {
    AffineMap map(2, dims);
    map.set(0, 0, 1).set_offset(0, group.first).set(1, 2, 1).set_offset(1, first);
    return {lowering_.input(index), map, 0};
  }

  /// A state that the node gives, as a tensor over (direction, batch, row); nullopt where it is zero.
  std::optional<TensorAccess> initial_state(const DirectionGroup& group, int index) {
    if (!lowering_.has_input(index) || lowering_.uniform_constant(index) == 0.0) return std::nullopt;
    AffineMap map(3, 3);
    const size_t direction = batch_first_ ? 1 : 0;
    map.set(direction, 0, 1).set_offset(direction, group.first).set(1 - direction, 1, 1).set(2, 2, 1);
    return TensorAccess{lowering_.input(index), map, 0};
  }
  static TensorAccess state_access(TensorId state) { return {state, AffineMap::identity(3), 0}; }

  /// H R^T for the rows of `gate_count` gates from `first` on, as [directions, batch, rows]; `finish` makes
  /// the result of the sum and of what it reads.
  template <typename Finish>
  TensorId state_products(const DirectionGroup& group, const std::string& name, const TensorAccess& state,
                          int64_t first, int64_t gate_count, Finish&& finish) {
    using Role = ContractLayer::Role;
    constexpr size_t kDims = 4;  // direction, batch, row, inner
    const int64_t rows = gate_count * hidden_;
    ContractLayer contract;
    contract.dims = {{"d", group.count, Role::kBatch},
                     {"b", batch_, Role::kN},
                     {"m", rows, Role::kM},
                     {"k", hidden_, Role::kK}};
    AffineMap r(3, kDims);
    r.set(0, 0, 1).set_offset(0, group.first).set(1, 2, 1).set_offset(1, first * hidden_).set(2, 3, 1);
    contract.a = {lowering_.input(2), r, 0};
    // The state's rows are what is summed over.
    AffineMap inner(3, kDims);
    inner.set(0, 0, 1).set(1, 1, 1).set(2, 3, 1);
    contract.b = {state.tensor, state.map.after(inner), 0};
    contract.output = AffineMap(3, kDims).set(0, 0, 1).set(1, 1, 1).set(2, 2, 1);
    contract.output_shape = {group.count, batch_, rows};
    Formula epilogue;
    const auto read = [&](const TensorAccess& access) {
      contract.epilogue_inputs.push_back(access);
      return epilogue.x(static_cast<int>(contract.epilogue_inputs.size()));
    };
    contract.epilogue = epilogue.result(finish(epilogue.x(0), read));
    const TensorId result = lowering_.add_tensor(name, kFloat, contract.output_shape);
    lowering_.add_layer(name, std::move(contract), result);
    return result;
  }
  static constexpr size_t kProductDims = 4;  ///< dims of a state product's epilogue

  /// A gate's rows of what state_products made of several.
  TensorAccess gate_of(const DirectionGroup& group, TensorId products, int64_t gate) {
    const Shape shape = {group.count, batch_, lowering_.tensor(products).shape[2] / hidden_, hidden_};
    AffineMap map(4, 3);
    map.set(0, 0, 1).set(1, 1, 1).set_offset(2, gate).set(3, 2, 1);
    return {lowering_.add_alias("gates", products, shape), map, 0};
  }

  TensorId add_map(const DirectionGroup& group, const std::string& name, PointMap& map, Term result) {
    const TensorId id = lowering_.add_tensor(name, type(), state_extents(group));
    lowering_.add_layer(name, map.finish(state_extents(group), result), id);
    return id;
  }
  /// A new state, or the old one for samples that are over.
  Term while_valid(const DirectionGroup& group, PointMap& map, int64_t step, Term state,
                   const std::optional<TensorAccess>& before) const {
    const auto valid = validity(group, step);
    if (!valid) return state;
    return select(map.read(*valid), state, before ? map.read(*before) : map.zero());
  }

  /// Output 0, of the states after every step of every group.
  void write_sequence(const std::vector<std::vector<TensorId>>& states) {
    if (!lowering_.has_output(0)) return;
    RearrangeLayer rearrange;
    rearrange.extents = lowering_.output_shape(0);
    const size_t time = batch_first_ ? 1 : 0;
    const size_t batch = batch_first_ ? 0 : 2;
    const size_t direction = batch_first_ ? 2 : 1;
    for (size_t g = 0; g < groups_.size(); ++g) {
      const DirectionGroup& group = groups_[g];
      for (int64_t step = 0; step < steps_; ++step) {
        for (int64_t d = 0; d < group.count; ++d) {
          AffineMap map(3, 4);
          map.set(0, direction, 1).set_offset(0, -group.first).set(1, batch, 1).set(2, 3, 1);
          RearrangeLayer::Piece piece{
              {states[g][static_cast<size_t>(step)], map, 0}, std::vector<int64_t>(4, 0), rearrange.extents};
          piece.begin[time] = time_of(group, d, step);
          piece.end[time] = piece.begin[time] + 1;
          piece.begin[direction] = group.first + d;
          piece.end[direction] = piece.begin[direction] + 1;
          rearrange.pieces.push_back(std::move(piece));
        }
      }
    }
    const Shape extents = rearrange.extents;
    if (valid_ < 0) {
      lowering_.add_layer("y", std::move(rearrange), lowering_.output(0));
      return;
    }
    const TensorId all = lowering_.add_tensor("y", type(), extents);
    lowering_.add_layer("y", std::move(rearrange), all);
    PointMap map;
    AffineMap valid(2, 4);
    valid.set(0, time, 1).set(1, batch, 1);
    const Term is_valid = map.read({valid_, valid, 0});
    const Term value = map.read({all, AffineMap::identity(4), 0});
    lowering_.add_layer("valid y", map.finish(extents, select(is_valid, value, map.zero())),
                        lowering_.output(0));
  }
  /// Output 1 or 2, of the last state of every group.
  void write_state(int output, const std::vector<TensorId>& states) {
    if (!lowering_.has_output(output)) return;
    if (groups_.size() == 1 && !batch_first_) {
      lowering_.bind_output(states[0], output);
      return;
    }
    RearrangeLayer rearrange;
    rearrange.extents = lowering_.output_shape(output);
    const size_t direction = batch_first_ ? 1 : 0;
    for (size_t g = 0; g < groups_.size(); ++g) {
      AffineMap map(3, 3);
      map.set(0, direction, 1).set_offset(0, -groups_[g].first).set(1, 1 - direction, 1).set(2, 2, 1);
      RearrangeLayer::Piece piece{{states[g], map, 0}, std::vector<int64_t>(3, 0), rearrange.extents};
      piece.begin[direction] = groups_[g].first;
      piece.end[direction] = groups_[g].first + groups_[g].count;
      rearrange.pieces.push_back(std::move(piece));
    }
    lowering_.add_layer(output == 1 ? "y_h" : "y_c", std::move(rearrange), lowering_.output(output));
  }

  /// What names of a group's layers begin with.
  std::string prefix(const DirectionGroup& group) const {
    return groups_.size() == 1 ? "" : fmt::format("direction{} ", group.first);
  }
  NodeLowering& lowering() { return lowering_; }

 private:
  /// As programs get longer with every step.
  static constexpr int64_t kMostSteps = 1024;

  int64_t time_of(const DirectionGroup& group, int64_t direction, int64_t step) const {
    return first_reversed_ || group.first + direction == 1 ? steps_ - 1 - step : step;
  }
  /// Row `axis` of a map whose dim 0 is the direction: the time of a step.
  void set_time(AffineMap& map, size_t axis, const DirectionGroup& group, int64_t step) const {
    const int64_t first = time_of(group, 0, step);
    map.set_offset(axis, first);
    if (group.count > 1) map.set(axis, 0, time_of(group, 1, step) - first);
  }

  void read_activations(const std::vector<std::string>& defaults) {
    std::vector<std::string> names;
    if (const auto* given = find_attribute(lowering_.node(), "activations"))
      names.assign(given->strings().begin(), given->strings().end());
    const size_t count = defaults.size() * static_cast<size_t>(directions_);
    if (names.empty()) {
      for (int64_t d = 0; d < directions_; ++d) names.insert(names.end(), defaults.begin(), defaults.end());
    }
    lowering_.require(names.size() >= count, "activations has {} values; {} are needed", names.size(), count);
    const auto values_of = [&](const char* name) {
      const auto* given = find_attribute(lowering_.node(), name);
      return given == nullptr ? std::vector<float>()
                              : std::vector<float>(given->floats().begin(), given->floats().end());
    };
    // Those that have a parameter take the values in turn.
    const std::vector<float> alphas = values_of("activation_alpha");
    const std::vector<float> betas = values_of("activation_beta");
    size_t next_alpha = 0;
    size_t next_beta = 0;
    const auto take = [](const std::vector<float>& values, size_t& next,
                         const std::optional<double>& absent) {
      if (!absent) return 0.0;
      return next < values.size() ? static_cast<double>(values[next++]) : *absent;
    };
    Activation activation;
    if (const auto* given = find_attribute(lowering_.node(), "clip")) activation.clip = given->f();
    std::vector<Activation> all;
    for (size_t i = 0; i < count; ++i) {
      const auto kind = std::ranges::find(kActivations, names[i], &ActivationKind::name);
      lowering_.require(kind != kActivations.end(),
                        "activations names '{}'; the operator's page lists those "
                        "allowed",
                        names[i]);
      activation.kind = &*kind;
      activation.alpha = take(alphas, next_alpha, kind->alpha);
      activation.beta = take(betas, next_beta, kind->beta);
      all.push_back(activation);
    }
    const auto of_direction = static_cast<ptrdiff_t>(defaults.size());
    for (int64_t d = 0; d < directions_; ++d) {
      const std::vector<Activation> own(all.begin() + d * of_direction, all.begin() + (d + 1) * of_direction);
      if (!groups_.empty() && groups_.back().activations == own) {
        ++groups_.back().count;
      } else {
        groups_.push_back({d, 1, own});
      }
    }
  }

  NodeLowering& lowering_;
  int64_t gates_;
  int64_t steps_ = 0, batch_ = 0, hidden_ = 0, directions_ = 1;
  bool batch_first_ = false, first_reversed_ = false;
  std::vector<int64_t> lengths_;  ///< of each sample
  TensorId valid_ = -1;  ///< [steps, batch]: 1, or -1 beyond a sample's end; none if there are no such
  std::vector<DirectionGroup> groups_;
};

std::string step_name(const std::string& prefix, int64_t step, const char* what) {
  return fmt::format("{}step{} {}", prefix, step, what);
}

/// H = f(X W^T + H R^T + biases)
HostReason lower_rnn(NodeLowering& lowering) {
  Recurrence plan(lowering, 1);
  if (auto reason = plan.prepare({"Tanh"})) return reason;
  std::vector<std::vector<TensorId>> all_states;
  std::vector<TensorId> last_states;
  for (const DirectionGroup& group : plan.groups()) {
    const std::string prefix = plan.prefix(group);
    const TensorId products = plan.input_products(group, prefix, true);
    auto h = plan.initial_state(group, 5);
    std::vector<TensorId> states;
    for (int64_t step = 0; step < plan.steps(); ++step) {
      PointMap map;
      Term sum{nullptr, -1};
      if (h) {
        const TensorId product = plan.state_products(
            group, step_name(prefix, step, "products"), *h, 0, 1, [&](Term product_sum, const auto& read) {
              return product_sum +
                     read(plan.input_product(group, products, step, 0, Recurrence::kProductDims));
            });
        sum = map.read(Recurrence::state_access(product));
      } else {
        sum = map.read(plan.input_product(group, products, step, 0, 3));
      }
      const Term state = plan.while_valid(group, map, step, group.activations[0](sum), h);
      states.push_back(plan.add_map(group, step_name(prefix, step, "h"), map, state));
      h = Recurrence::state_access(states.back());
    }
    last_states.push_back(states.back());
    all_states.push_back(std::move(states));
  }
  plan.write_sequence(all_states);
  plan.write_state(1, last_states);
  return kLowered;
}

/// Gates z, r, h. H = (1 - z) g(X Wh^T + (r H) Rh^T + biases) + z H; with linear_before_reset r multiplies
/// H Rh^T and its bias instead.
class GruStep {
 public:
  GruStep(Recurrence& plan, const DirectionGroup& group, TensorId products, int64_t step,
          const std::string& prefix)
      : plan_(plan), group_(group), products_(products), step_(step), prefix_(prefix) {}

  /// r multiplies the state before its product.
  TensorId reset_first(const std::optional<TensorAccess>& h) {
    PointMap map;
    if (!h) {
      const Term z = f()(map.read(input(0, 3)));
      const Term candidate = g()(map.read(input(2, 3)));
      return finish(map, z, candidate, h);
    }
    const TensorId gates = plan_.state_products(
        group_, name("gates"), *h, 0, 2,
        [&](Term sum, const auto& read) { return f()(sum + read(input(0, Recurrence::kProductDims))); });
    PointMap reset_map;
    const Term reset = reset_map.read(plan_.gate_of(group_, gates, 1)) * reset_map.read(*h);
    const TensorId reset_state = plan_.add_map(group_, name("reset"), reset_map, reset);
    const TensorId candidate = plan_.state_products(
        group_, name("candidate"), Recurrence::state_access(reset_state), 2, 1,
        [&](Term sum, const auto& read) { return g()(sum + read(input(2, Recurrence::kProductDims))); });
    const Term value = map.read(Recurrence::state_access(candidate));
    return finish(map, map.read(plan_.gate_of(group_, gates, 0)), value, h);
  }

  /// r multiplies the product, whose bias is no part of X's products then.
  TensorId reset_last(const std::optional<TensorAccess>& h) {
    PointMap map;
    const auto with_bias = [&](Term sum, const auto& read, int64_t gate, size_t dims) {
      if (!plan_.lowering().has_input(3)) return sum;
      return sum + read(plan_.per_row(group_, 3, (plan_.gates() + gate) * plan_.hidden(), dims));
    };
    const auto read_here = [&](const TensorAccess& access) { return map.read(access); };
    if (!h) {
      const auto gate = [&](int64_t number) {
        return f()(with_bias(map.read(input(number, 3)), read_here, number, 3));
      };
      const Term z = gate(0);
      const Term part = gate(1) * with_bias(map.zero(), read_here, 2, 3);
      return finish(map, z, g()(map.read(input(2, 3)) + part), h);
    }
    constexpr size_t kDims = Recurrence::kProductDims;
    const TensorId gates =
        plan_.state_products(group_, name("gates"), *h, 0, 2, [&](Term sum, const auto& read) {
          return f()(with_bias(sum + read(input(0, kDims)), read, 0, kDims));
        });
    const TensorId products =
        plan_.state_products(group_, name("products"), *h, 2, 1,
                             [&](Term sum, const auto& read) { return with_bias(sum, read, 2, kDims); });
    const Term part =
        map.read(plan_.gate_of(group_, gates, 1)) * map.read(Recurrence::state_access(products));
    const Term candidate = g()(map.read(input(2, 3)) + part);
    return finish(map, map.read(plan_.gate_of(group_, gates, 0)), candidate, h);
  }

 private:
  const Activation& f() const { return group_.activations[0]; }
  const Activation& g() const { return group_.activations[1]; }
  std::string name(const char* what) const { return step_name(prefix_, step_, what); }
  TensorAccess input(int64_t gate, size_t dims) const {
    return plan_.input_product(group_, products_, step_, gate, dims);
  }
  TensorId finish(PointMap& map, Term z, Term candidate, const std::optional<TensorAccess>& h) {
    // (1 - z) c + z h, as c + z (h - c).
    const Term state = h ? candidate + z * (map.read(*h) - candidate) : candidate - z * candidate;
    return plan_.add_map(group_, name("h"), map, plan_.while_valid(group_, map, step_, state, h));
  }

  Recurrence& plan_;
  const DirectionGroup& group_;
  TensorId products_;
  int64_t step_;
  const std::string& prefix_;
};

HostReason lower_gru(NodeLowering& lowering) {
  Recurrence plan(lowering, 3);
  if (auto reason = plan.prepare({"Sigmoid", "Tanh"})) return reason;
  const bool resets_last = lowering.int_attribute("linear_before_reset", 0) != 0;
  std::vector<std::vector<TensorId>> all_states;
  std::vector<TensorId> last_states;
  for (const DirectionGroup& group : plan.groups()) {
    const std::string prefix = plan.prefix(group);
    const TensorId products = plan.input_products(group, prefix, !resets_last);
    auto h = plan.initial_state(group, 5);
    std::vector<TensorId> states;
    for (int64_t step = 0; step < plan.steps(); ++step) {
      GruStep one(plan, group, products, step, prefix);
      states.push_back(resets_last ? one.reset_last(h) : one.reset_first(h));
      h = Recurrence::state_access(states.back());
    }
    last_states.push_back(states.back());
    all_states.push_back(std::move(states));
  }
  plan.write_sequence(all_states);
  plan.write_state(1, last_states);
  return kLowered;
}

/// Gates i, o, f, c; peepholes of i, o, f. C = f C + i g(c), H = o h(C); with input_forget f is 1 - i.
HostReason lower_lstm(NodeLowering& lowering) {
  Recurrence plan(lowering, 4);
  if (auto reason = plan.prepare({"Sigmoid", "Tanh", "Tanh"})) return reason;
  const bool couples = lowering.int_attribute("input_forget", 0) != 0;
  const bool has_peepholes = lowering.has_input(7) && lowering.uniform_constant(7) != 0.0;
  std::vector<std::vector<TensorId>> all_states;
  std::vector<TensorId> last_states;
  std::vector<TensorId> last_cells;
  for (const DirectionGroup& group : plan.groups()) {
    const std::string prefix = plan.prefix(group);
    const Activation& f = group.activations[0];
    const Activation& g = group.activations[1];
    const Activation& h_activation = group.activations[2];
    const TensorId products = plan.input_products(group, prefix, true);
    auto h = plan.initial_state(group, 5);
    auto c = plan.initial_state(group, 6);
    std::vector<TensorId> states;
    TensorId cell_id = -1;
    for (int64_t step = 0; step < plan.steps(); ++step) {
      TensorId gates = -1;
      if (h) {
        gates = plan.state_products(
            group, step_name(prefix, step, "gates"), *h, 0, 4, [&](Term sum, const auto& read) {
              return sum + read(plan.input_product(group, products, step, 0, Recurrence::kProductDims));
            });
      }
      enum : int64_t { kInput, kOutput, kForget, kCell };
      const auto gate = [&](PointMap& map, int64_t number) {
        if (gates < 0) return map.read(plan.input_product(group, products, step, number, 3));
        return map.read(plan.gate_of(group, gates, number));
      };
      const auto with_peephole = [&](PointMap& map, int64_t number, std::optional<Term> state) {
        const Term sum = gate(map, number);
        if (!has_peepholes || !state) return sum;
        return sum + map.read(plan.per_row(group, 7, number * plan.hidden(), 3)) * *state;
      };
      PointMap cell_map;
      std::optional<Term> before;
      if (c) before = cell_map.read(*c);
      const Term input = f(with_peephole(cell_map, kInput, before));
      Term cell = input * g(gate(cell_map, kCell));
      if (before) {
        const Term forget = couples ? 1 - input : f(with_peephole(cell_map, kForget, before));
        cell = cell + forget * *before;
      }
      cell_id = plan.add_map(group, step_name(prefix, step, "c"), cell_map,
                             plan.while_valid(group, cell_map, step, cell, c));
      c = Recurrence::state_access(cell_id);

      PointMap state_map;
      const Term now = state_map.read(*c);
      const Term state = f(with_peephole(state_map, kOutput, now)) * h_activation(now);
      states.push_back(plan.add_map(group, step_name(prefix, step, "h"), state_map,
                                    plan.while_valid(group, state_map, step, state, h)));
      h = Recurrence::state_access(states.back());
    }
    last_states.push_back(states.back());
    last_cells.push_back(cell_id);
    all_states.push_back(std::move(states));
  }
  plan.write_sequence(all_states);
  plan.write_state(1, last_states);
  plan.write_state(2, last_cells);
  return kLowered;
}

}  // namespace

void register_recurrent(OperatorTable& table) {
  table.push_back({"RNN", lower_rnn, ElementTypes::kChipFloats});
  table.push_back({"GRU", lower_gru, ElementTypes::kChipFloats});
  table.push_back({"LSTM", lower_lstm, ElementTypes::kChipFloats});
}

}  // namespace kodama::compiler
