#include <functional>
#include <map>
#include <vector>

#include "compiler/lowering/node_lowering.h"

/// The optimizers of ai.onnx.preview.training: a Map for every tensor and state. Operands are R (the learning
/// rate), T (the number of updates so far), then all X, all gradients, and all of each state.
namespace kodama::compiler {

namespace {

/// A number of one element, made of R and T, in double: sums near 1 would lose too much in single precision.
template <typename F>
TensorId add_rate(NodeLowering& lowering, const std::string& suffix, DataType type, F&& formula) {
  const TensorId result = lowering.add_tensor(suffix, type, {});
  MapBuilder map(lowering, {});
  const Term rate = map.operand(lowering.add_alias("R", lowering.input(0), {}));
  const Integer updates = map.integer(lowering.add_alias("T", lowering.input(1), {}));
  const Term value = formula(rate.is_double() ? rate : widen(rate), updates);
  map.finish(suffix, is_double(type) ? value : narrow(value, type), result);
  return result;
}

using Terms = std::vector<Term>;
/// What an optimizer makes of x, its gradient, the states and numbers that all elements have in common: the
/// new states, then the new x.
using Update = std::function<Terms(Term x, Term gradient, const Terms& states, const Terms& common)>;
/// These numbers, for tensors of a type.
using Common = std::function<std::vector<TensorId>(DataType)>;

HostReason update_all(NodeLowering& lowering, int states, const Common& common_of, const Update& update) {
  constexpr int kFirst = 2;
  const int roles = 2 + states;
  const int tensors = (lowering.input_count() - kFirst) / roles;
  std::map<DataType, std::vector<TensorId>> common;
  for (int tensor = 0; tensor < tensors; ++tensor) {
    const DataType type = lowering.input_type(kFirst + tensor);
    if (!common.contains(type)) common[type] = common_of(type);
    for (int output = 0; output <= states; ++output) {
      if (!lowering.has_output(output * tensors + tensor)) continue;
      MapBuilder map(lowering, lowering.input_shape(kFirst + tensor));
      const auto operand = [&](int role) { return map.operand_of_input(kFirst + role * tensors + tensor); };
      const Term x = operand(0), gradient = operand(1);
      Terms old, numbers;
      for (int state = 0; state < states; ++state) old.push_back(operand(2 + state));
      for (const TensorId id : common[type]) numbers.push_back(map.operand(id));
      const Terms made = update(x, gradient, old, numbers);
      const Term result = output == 0 ? made.back() : made[static_cast<size_t>(output) - 1];
      map.finish(fmt::format("{}_{}", output == 0 ? "X" : "state", output * tensors + tensor), result,
                 lowering.output(output * tensors + tensor));
    }
  }
  return kLowered;
}

HostReason lower_adagrad(NodeLowering& lowering) {
  const double decay = lowering.float_attribute("decay_factor");
  const double norm = lowering.float_attribute("norm_coefficient");
  const double epsilon = lowering.float_attribute("epsilon");
  const auto rate = [&](DataType type) -> std::vector<TensorId> {
    return {add_rate(lowering, "rate", type,
                     [&](Term r, const Integer& updates) { return r / (to_double(updates) * decay + 1.0); })};
  };
  return update_all(lowering, 1, rate,
                    [=](Term x, Term gradient, const Terms& states, const Terms& common) -> Terms {
                      const Term regularized = x * norm + gradient;
                      const Term squares = states[0] + regularized * regularized;
                      return {squares, x - common[0] * regularized / (sqrt(squares) + epsilon)};
                    });
}

HostReason lower_adam(NodeLowering& lowering) {
  const double alpha = lowering.float_attribute("alpha");
  const double beta = lowering.float_attribute("beta");
  const double norm = lowering.float_attribute("norm_coefficient");
  const double norm_post = lowering.float_attribute("norm_coefficient_post");
  const double epsilon = lowering.float_attribute("epsilon");
  const auto rate = [&](DataType type) -> std::vector<TensorId> {
    return {add_rate(lowering, "rate", type, [&](Term r, const Integer& updates) {
      const Term count = to_double(updates);
      const auto rest = [&](double base) { return 1.0 - pow(count.constant(base), count); };
      const Term scaled = r * sqrt(rest(beta)) / rest(alpha);
      return where(less(count.constant(0), count), scaled, r);
    })};
  };
  return update_all(lowering, 2, rate,
                    [=](Term x, Term gradient, const Terms& states, const Terms& common) -> Terms {
                      const Term regularized = x * norm + gradient;
                      const Term mean = states[0] * alpha + regularized * (1 - alpha);
                      const Term squares = states[1] * beta + regularized * regularized * (1 - beta);
                      const Term next = x - common[0] * mean / (sqrt(squares) + epsilon);
                      return {mean, squares, next * (1 - norm_post)};
                    });
}

HostReason lower_momentum(NodeLowering& lowering) {
  const double alpha = lowering.float_attribute("alpha");
  const double beta = lowering.float_attribute("beta");
  const double norm = lowering.float_attribute("norm_coefficient");
  const std::string mode = lowering.string_attribute("mode");
  lowering.require(mode == "standard" || mode == "nesterov",
                   "mode is '{}'; standard and nesterov are allowed", mode);
  // The rate, and how much of a gradient counts: all of the first one.
  const auto rate = [&](DataType type) -> std::vector<TensorId> {
    return {add_rate(lowering, "rate", type, [](Term r, const Integer&) { return r; }),
            add_rate(lowering, "share", type, [&](Term r, const Integer& updates) {
              const Term has_some = less(integer_constant(updates.low, 0, updates.type), updates);
              return where(has_some, r.constant(beta), r.constant(1));
            })};
  };
  return update_all(lowering, 1, rate,
                    [=](Term x, Term gradient, const Terms& states, const Terms& common) -> Terms {
                      const Term regularized = x * norm + gradient;
                      const Term momentum = states[0] * alpha + common[1] * regularized;
                      const Term step = mode == "nesterov" ? regularized + momentum * alpha : momentum;
                      return {momentum, x - common[0] * step};
                    });
}

}  // namespace

void register_training(OperatorTable& table) {
  constexpr auto kReals = ElementTypes::kReals;
  table.push_back({"ai.onnx.preview.training.Adagrad", lower_adagrad, kReals});
  table.push_back({"ai.onnx.preview.training.Adam", lower_adam, kReals});
  table.push_back({"ai.onnx.preview.training.Momentum", lower_momentum, kReals});
}

}  // namespace kodama::compiler
