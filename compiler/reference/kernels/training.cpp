#include <algorithm>
#include <cmath>

#include "compiler/reference/kernels/kernel.h"

/// The optimizers of ai.onnx.preview.training. Operands are R (the learning rate), T (the number of updates
/// so far), and for any number of tensors X first all X, then all gradients G, then all of each state.
namespace kodama::compiler::reference {

namespace {

constexpr size_t kFirstTensor = 2;

/// Calls update(x, g, states) for each element in double, which changes x and the states; returns all new X,
/// then all new states.
template <typename Update>
std::vector<Tensor> update_all(const NodeContext& context, size_t states, Update update) {
  const size_t roles = 2 + states;
  const size_t operands = context.input_count() - std::min(context.input_count(), kFirstTensor);
  context.require(operands > 0 && operands % roles == 0,
                  "has {} operands after R and T; a multiple of {} is allowed", operands, roles);
  const size_t tensors = operands / roles;
  const auto operand = [&](size_t role, size_t tensor) -> const Tensor& {
    return context.input(kFirstTensor + role * tensors + tensor);
  };
  std::vector<Tensor> outputs(tensors * (1 + states));
  for (size_t tensor = 0; tensor < tensors; ++tensor) {
    const Tensor& x = operand(0, tensor);
    for (size_t role = 1; role < roles; ++role) {
      const Tensor& other = operand(role, tensor);
      context.require(other.type() == x.type() && other.shape() == x.shape(),
                      "input {} is {} {}, but belongs to one that is {} {}",
                      kFirstTensor + role * tensors + tensor, data_type_name(other.type()),
                      shape_to_string(other.shape()), data_type_name(x.type()), shape_to_string(x.shape()));
    }
    outputs[tensor] = x;
    for (size_t state = 0; state < states; ++state)
      outputs[(1 + state) * tensors + tensor] = operand(2 + state, tensor);
    for_float_type(context, x.type(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      const Tensor& gradient = operand(1, tensor);
      std::vector<double> values(states);
      for (size_t i = 0; i < static_cast<size_t>(x.size()); ++i) {
        T& result = outputs[tensor].data<T>()[i];
        const auto state = [&](size_t k) -> T& { return outputs[(1 + k) * tensors + tensor].data<T>()[i]; };
        auto value = static_cast<double>(result);
        for (size_t k = 0; k < states; ++k) values[k] = static_cast<double>(state(k));
        update(value, static_cast<double>(gradient.data<T>()[i]), values);
        result = to_element<T>(value);
        for (size_t k = 0; k < states; ++k) state(k) = to_element<T>(values[k]);
      }
    });
  }
  return outputs;
}

std::vector<Tensor> run_adagrad(const NodeContext& context) {
  const double decay = context.float_attribute("decay_factor");
  const double rate = context.scalar(0) / (1 + context.scalar(1) * decay);
  const double norm = context.float_attribute("norm_coefficient");
  const double epsilon = context.float_attribute("epsilon");
  return update_all(context, 1, [=](double& x, double g, std::vector<double>& states) {
    double& squares = states[0];
    const double regularized = norm * x + g;
    squares += regularized * regularized;
    x -= rate * regularized / (std::sqrt(squares) + epsilon);
  });
}

std::vector<Tensor> run_adam(const NodeContext& context) {
  const double alpha = context.float_attribute("alpha");
  const double beta = context.float_attribute("beta");
  const double norm = context.float_attribute("norm_coefficient");
  const double norm_post = context.float_attribute("norm_coefficient_post");
  const double epsilon = context.float_attribute("epsilon");
  const double updates = context.scalar(1);
  double rate = context.scalar(0);
  if (updates > 0) rate *= std::sqrt(1 - std::pow(beta, updates)) / (1 - std::pow(alpha, updates));
  return update_all(context, 2, [=](double& x, double g, std::vector<double>& states) {
    double& mean = states[0];
    double& squares = states[1];
    const double regularized = norm * x + g;
    mean = alpha * mean + (1 - alpha) * regularized;
    squares = beta * squares + (1 - beta) * regularized * regularized;
    x -= rate * mean / (std::sqrt(squares) + epsilon);
    x *= 1 - norm_post;
  });
}

std::vector<Tensor> run_momentum(const NodeContext& context) {
  const double alpha = context.float_attribute("alpha");
  const double beta = context.scalar(1) > 0 ? static_cast<double>(context.float_attribute("beta")) : 1;
  const double norm = context.float_attribute("norm_coefficient");
  const double rate = context.scalar(0);
  const std::string mode = context.string_attribute("mode");
  context.require(mode == "standard" || mode == "nesterov", "mode is '{}'; allowed are standard and nesterov",
                  mode);
  const bool nesterov = mode == "nesterov";
  return update_all(context, 1, [=](double& x, double g, std::vector<double>& states) {
    double& momentum = states[0];
    const double regularized = norm * x + g;
    momentum = alpha * momentum + beta * regularized;
    x -= rate * (nesterov ? regularized + alpha * momentum : momentum);
  });
}

}  // namespace

void register_training(KernelRegistry& registry) {
  constexpr const char* kDomain = "ai.onnx.preview.training";
  registry.add(kDomain, "Adagrad", run_adagrad);
  registry.add(kDomain, "Adam", run_adam);
  registry.add(kDomain, "Momentum", run_momentum);
}

}  // namespace kodama::compiler::reference
