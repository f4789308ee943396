#include "compiler/graph/gradient/train_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "compiler/graph/gradient/terms.h"
#include "compiler/graph/import.h"
#include "compiler/graph/test_models.h"
#include "isa/file.h"

namespace kodama::compiler::testing {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

using gradient::kFloat;
using gradient::kInt64;

/// y = w x + b for 2 numbers, as a model with parameters of type `type`.
onnx::ModelProto line_model(DataType type = kFloat) {
  const char* const name = type == kFloat ? "float" : "float16";
  onnx::ModelProto model = parse_model(
      fmt::format("agraph ({0}[4,2] x) => ({0}[4,3] y) {{ a = MatMul (x, w) y = Add (a, b) }}", name));
  add_random(model, "w", {2, 3}, -1, 1, type);
  add_random(model, "b", {3}, -1, 1, type);
  return import_model(model, {}, "line");
}

/// Runs steps on the reference; returns the losses. `state` changes.
std::vector<double> run_steps(const StepModel& step, TensorMap& state, const TensorMap& batch, int64_t count,
                              int64_t first = 0) {
  std::vector<double> losses;
  for (int64_t i = first; i < first + count; ++i) {
    TensorMap inputs = batch;
    for (const auto& [name, tensor] : state) inputs[name] = tensor;
    inputs[step.step] = Tensor::from_values<int64_t>(kInt64, {}, {i});
    const TensorMap outputs = run_graph(step.model, inputs);
    losses.push_back(element_as_double(outputs.at(step.loss), 0));
    for (const auto& each : step.state) state[each.input] = outputs.at(each.output);
  }
  return losses;
}

TensorMap line_batch() {
  return {{"x", random_tensor(kFloat, {4, 2}, 3)}, {"targets", random_tensor(kFloat, {4, 3}, 4)}};
}

/// The same steps by hand, in double: mean of squares, one optimizer.
class LineByHand {
 public:
  explicit LineByHand(const TensorMap& initial) : batch_(line_batch()) {
    for (const char* name : {"w", "b"}) {
      for (int64_t i = 0; i < initial.at(name).size(); ++i)
        parameters_.push_back(element_as_double(initial.at(name), i));
    }
    mean_.assign(parameters_.size(), 0);
    square_.assign(parameters_.size(), 0);
  }

  double step(const std::function<double(size_t, double gradient, double parameter)>& update) {
    double loss = 0;
    std::vector<double> gradient(parameters_.size());
    for (int64_t n = 0; n < 4; ++n) {
      for (int64_t k = 0; k < 3; ++k) {
        const auto x = [&](int64_t j) { return element_as_double(batch_.at("x"), n * 2 + j); };
        const double y = x(0) * parameters_[static_cast<size_t>(k)] +
                         x(1) * parameters_[static_cast<size_t>(3 + k)] +
                         parameters_[static_cast<size_t>(6 + k)];
        const double error = y - element_as_double(batch_.at("targets"), n * 3 + k);
        loss += error * error / 12;
        for (int64_t j = 0; j < 2; ++j) gradient[static_cast<size_t>(j * 3 + k)] += 2 * error * x(j) / 12;
        gradient[static_cast<size_t>(6 + k)] += 2 * error / 12;
      }
    }
    ++steps_;
    for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i] = update(i, gradient[i], parameters_[i]);
    return loss;
  }

  std::vector<double> mean_, square_;
  int steps_ = 0;

 private:
  TensorMap batch_;
  std::vector<double> parameters_;
};

TEST(TrainStep, OptimizersAreThoseOfTheBooks) {
  using Update = std::function<double(LineByHand&, size_t, double, double)>;
  const auto adam = [](LineByHand& l, size_t i, double g, double p, double rate) {
    l.mean_[i] = 0.9 * l.mean_[i] + 0.1 * g;
    l.square_[i] = 0.999 * l.square_[i] + 0.001 * g * g;
    const double m = l.mean_[i] / (1 - std::pow(0.9, l.steps_));
    const double v = l.square_[i] / (1 - std::pow(0.999, l.steps_));
    return p - rate * m / (std::sqrt(v) + 1e-8);
  };
  const std::vector<std::pair<std::string, Update>> optimizers = {
      {"sgd:lr=0.1", [](LineByHand&, size_t, double g, double p) { return p - 0.1 * g; }},
      {"sgd:lr=0.1,decay=0.01",
       [](LineByHand&, size_t, double g, double p) { return p - 0.1 * (g + 0.01 * p); }},
      {"momentum:lr=0.1,momentum=0.8",
       [](LineByHand& l, size_t i, double g, double p) {
         l.mean_[i] = 0.8 * l.mean_[i] + g;
         return p - 0.1 * l.mean_[i];
       }},
      {"momentum:lr=0.1,momentum=0.8,nesterov=1",
       [](LineByHand& l, size_t i, double g, double p) {
         l.mean_[i] = 0.8 * l.mean_[i] + g;
         return p - 0.1 * (g + 0.8 * l.mean_[i]);
       }},
      {"adam:lr=0.05", [&](LineByHand& l, size_t i, double g, double p) { return adam(l, i, g, p, 0.05); }},
      {"adamw:lr=0.05,decay=0.1",
       [&](LineByHand& l, size_t i, double g, double p) { return adam(l, i, g, p * (1 - 0.005), 0.05); }},
      {"adagrad:lr=0.1",
       [](LineByHand& l, size_t i, double g, double p) {
         l.square_[i] += g * g;
         return p - 0.1 * g / (std::sqrt(l.square_[i]) + 1e-10);
       }},
  };
  for (const auto& [name, by_hand] : optimizers) {
    const Update& update = by_hand;  // clang 14 captures no structured bindings
    TrainStepRequest request;
    request.loss = "mse";
    request.optimizer = name;
    const StepModel step = make_train_step(line_model(), request, "line");
    TensorMap state = step.initial;
    LineByHand hand(step.initial);
    const std::vector<double> losses = run_steps(step, state, line_batch(), 10);
    for (const double loss : losses) {
      const double expected = hand.step([&](size_t i, double g, double p) { return update(hand, i, g, p); });
      EXPECT_NEAR(loss, expected, 2e-5 * expected) << name;
    }
    EXPECT_LT(losses.back(), losses.front()) << name;
  }
}

TEST(TrainStep, SchedulesChangeTheRate) {
  const auto rates = [](const std::string& schedule, const std::vector<int64_t>& steps) {
    TrainStepRequest request;
    request.loss = "mse";
    request.optimizer = "sgd:lr=0.5";
    request.schedule = schedule;
    const StepModel step = make_train_step(line_model(), request, "line");
    std::vector<double> found;
    for (const int64_t at : steps) {
      TensorMap inputs = line_batch();
      for (const auto& [name, tensor] : step.initial) inputs[name] = tensor;
      inputs[step.step] = Tensor::from_values<int64_t>(kInt64, {}, {at});
      found.push_back(element_as_double(run_graph(step.model, inputs).at(step.rate), 0));
    }
    return found;
  };
  using ::testing::DoubleNear;
  using ::testing::ElementsAre;
  EXPECT_THAT(rates("constant", {0, 1000}), ElementsAre(0.5, 0.5));
  EXPECT_THAT(rates("steps:every=10,factor=0.5", {0, 9, 10, 25}), ElementsAre(0.5, 0.5, 0.25, 0.125));
  EXPECT_THAT(rates("linear:steps=10,least=0.2,warmup=2", {0, 5, 10, 20}),
              ElementsAre(DoubleNear(0.25, 1e-6), DoubleNear(0.3, 1e-6), DoubleNear(0.1, 1e-6),
                          DoubleNear(0.1, 1e-6)));
  EXPECT_THAT(rates("cosine:steps=10", {0, 5, 10}),
              ElementsAre(DoubleNear(0.5, 1e-6), DoubleNear(0.25, 1e-6), DoubleNear(0, 1e-6)));
}

/// The lengths of what all parameters change by.
double length_of_change(const TrainStepRequest& request) {
  const StepModel step = make_train_step(line_model(), request, "line");
  TensorMap state = step.initial;
  run_steps(step, state, line_batch(), 1);
  double squares = 0;
  for (const auto& each : step.state) {
    if (!each.is_parameter) continue;
    for (int64_t i = 0; i < state.at(each.input).size(); ++i)
      squares += std::pow(
          element_as_double(state.at(each.input), i) - element_as_double(step.initial.at(each.input), i), 2);
  }
  return std::sqrt(squares);
}

TEST(TrainStep, GradientsAreClipped) {
  TrainStepRequest request;
  request.loss = "mse";
  request.optimizer = "sgd:lr=1";
  const double whole = length_of_change(request);
  request.clip = fmt::format("norm:at={}", whole / 2);
  EXPECT_NEAR(length_of_change(request), whole / 2, 1e-4);
  request.clip = fmt::format("norm:at={}", whole * 2);
  EXPECT_NEAR(length_of_change(request), whole, 1e-5);
  request.clip = "value:at=0.01";
  EXPECT_LE(length_of_change(request), 0.0301);
}

TEST(TrainStep, LossesAreScaledAgainstUnderflow) {
  TrainStepRequest request;
  request.loss = "mse";
  request.optimizer = "sgd:lr=0.1";
  const double expected = length_of_change(request);
  request.loss_scale = "static:by=4096";
  EXPECT_NEAR(length_of_change(request), expected, 1e-6);
  request.loss_scale = "dynamic:first=4096";
  EXPECT_NEAR(length_of_change(request), expected, 1e-6);
  // Too large: nothing changes but the scale.
  request.loss_scale = "dynamic:first=1e38,every=2";
  const StepModel step = make_train_step(line_model(), request, "line");
  TensorMap state = step.initial;
  TensorMap batch = line_batch();
  for (float& value : batch.at("targets").data<float>()) value *= 1000;
  run_steps(step, state, batch, 1);
  EXPECT_EQ(state.at("w"), step.initial.at("w"));
  EXPECT_NEAR(element_as_double(state.at("loss_scale"), 0), 5e37, 1e31);
}

TEST(TrainStep, ShortParametersHaveMastersInSinglePrecision) {
  TrainStepRequest request;
  request.loss = "mse";
  const StepModel step = make_train_step(line_model(DataType::kFloat16), request, "line");
  ASSERT_EQ(step.initial.size(), 2U);
  for (const auto& [name, tensor] : step.initial) {
    EXPECT_THAT(name, HasSubstr(".master"));
    EXPECT_EQ(tensor.type(), kFloat);
  }
}

onnx::ModelProto normalized_model(const std::string& dropout = "") {
  onnx::ModelProto model = parse_model(
      "agraph (float[8,3] x) => (float[8,4] y) { a = MatMul (x, w) "
      "n = BatchNormalization <momentum = 0.75> (a, s, t, m, v) r = Relu (n) " +
      (dropout.empty() ? "y = Identity (r)" : dropout) + " }");
  add_random(model, "w", {3, 4});
  for (const char* name : {"s", "t", "m", "v"}) add_random(model, name, {4}, 0.5, 1.5);
  return import_model(model, {}, "normalized");
}

TEST(TrainStep, RunningStatisticsAreState) {
  TrainStepRequest request;
  request.loss = "mse";
  const StepModel step = make_train_step(normalized_model(), request, "normalized");
  TensorMap state = step.initial;
  const TensorMap batch = {{"x", random_tensor(kFloat, {8, 3}, 3)},
                           {"targets", random_tensor(kFloat, {8, 4}, 4)}};
  std::map<std::string, bool> parameters;
  for (const auto& each : step.state) parameters[each.input] = each.is_parameter;
  EXPECT_EQ(parameters,
            (std::map<std::string, bool>{{"w", true}, {"s", true}, {"t", true}, {"m", false}, {"v", false}}));
  const std::vector<double> losses = run_steps(step, state, batch, 40);
  EXPECT_LT(losses.back(), losses.front());
  EXPECT_FALSE(state.at("m") == step.initial.at("m"));

  request.trains_normalization = false;
  const StepModel frozen = make_train_step(normalized_model(), request, "normalized");
  EXPECT_EQ(frozen.initial.size(), 3U);
}

TEST(TrainStep, EveryStepDropsOthers) {
  TrainStepRequest request;
  request.loss = "mse";
  request.optimizer = "sgd:lr=0";
  const std::string dropout = "q = Constant <value = float {0.25}> () y = Dropout (r, q)";
  const StepModel step = make_train_step(normalized_model(dropout), request, "normalized");
  const TensorMap batch = {{"x", random_tensor(kFloat, {8, 3}, 3)},
                           {"targets", random_tensor(kFloat, {8, 4}, 4)}};
  TensorMap state = step.initial;
  const std::vector<double> losses = run_steps(step, state, batch, 6);
  EXPECT_EQ(std::set<double>(losses.begin(), losses.end()).size(), 6U);
  state = step.initial;
  EXPECT_EQ(run_steps(step, state, batch, 6), losses);
  request.seed = 2;
  state = step.initial;
  EXPECT_NE(run_steps(make_train_step(normalized_model(dropout), request, "n"), state, batch, 6), losses);
  request.drops_out = false;
  state = step.initial;
  const auto whole = run_steps(make_train_step(normalized_model(dropout), request, "n"), state, batch, 2);
  EXPECT_NEAR(whole[0], whole[1], 1e-6);
}

/// Of many elements the asked share is dropped, and neighbours have nothing to do with each other.
TEST(TrainStep, DropsTheShareThatIsAskedFor) {
  onnx::ModelProto model = parse_model(
      "agraph (float[64,100] x) => (float[64,100] y) { q = Constant <value = float {0.3}> () "
      "a = Mul (x, w) d = Dropout (a, q) y = Identity (d) }");
  add_random(model, "w", {100}, 1, 1);
  TrainStepRequest request;
  request.loss = "l1";
  request.optimizer = "sgd:lr=0";
  const StepModel step = make_train_step(import_model(model, {}, "m"), request, "m");
  for (int64_t at = 0; at < 4; ++at) {
    TensorMap inputs = step.initial;
    inputs["x"] = Tensor(kFloat, {64, 100});
    std::ranges::fill(inputs["x"].data<float>(), 0.7F);
    inputs["targets"] = Tensor(kFloat, {64, 100});
    inputs[step.step] = Tensor::from_values<int64_t>(kInt64, {}, {at});
    const Tensor dropped = run_graph(step.model, inputs, {.keep_intermediates = true}).at("d");
    std::vector<int> kept;
    for (float value : dropped.data<float>()) kept.push_back(value > 0.5F ? 1 : 0);
    const auto count = static_cast<double>(kept.size());
    const double share = std::accumulate(kept.begin(), kept.end(), 0) / count;
    EXPECT_NEAR(share, 0.7, 0.02);
    int pairs = 0;
    for (size_t i = 1; i < kept.size(); ++i) pairs += kept[i] * kept[i - 1];
    EXPECT_NEAR(pairs / count, share * share, 0.02);
  }
}

TEST(TrainStep, SurvivesAFile) {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("kodama_step_{}.onnx", getpid());
  TrainStepRequest request;
  request.loss = "mse";
  request.optimizer = "adam";
  StepModel step = make_train_step(line_model(), request, "line");
  TensorMap state = step.initial;
  const std::vector<double> losses = run_steps(step, state, line_batch(), 3);
  step.initial = state;
  step.done = 3;
  write_train_step(step, path.string());
  const StepModel again = read_train_step(path.string());
  EXPECT_EQ(again.done, 3);
  EXPECT_EQ(again.batch, step.batch);
  TensorMap other = again.initial;
  EXPECT_EQ(run_steps(again, other, line_batch(), 2, 3), run_steps(step, state, line_batch(), 2, 3));

  write_train_step(step, path.string());
  auto broken = read_model(path.string());
  broken.mutable_metadata_props(0)->set_value("{");
  isa::write_file_atomically(path.string(), broken.SerializeAsString());
  EXPECT_THAT(error_of<isa::UserError>([&] { read_train_step(path.string()); }), HasSubstr("can't be read"));
  broken.clear_metadata_props();
  isa::write_file_atomically(path.string(), broken.SerializeAsString());
  EXPECT_THAT(error_of<isa::UserError>([&] { read_train_step(path.string()); }),
              HasSubstr("no training step"));
  std::filesystem::remove(path);
}

TEST(TrainStep, SaysWhatIsWrong) {
  const auto message = [](const std::function<void(TrainStepRequest&)>& change) {
    TrainStepRequest request;
    request.loss = "mse";
    change(request);
    return error_of<isa::UserError>([&] { make_train_step(line_model(), request, "m.onnx"); });
  };
  EXPECT_THAT(message([](auto& r) { r.loss = "none"; }), HasSubstr("--loss: 'none' is neither"));
  EXPECT_THAT(message([](auto& r) { r.loss = "y"; }), HasSubstr("'y' has shape [4, 3]; a single number"));
  EXPECT_THAT(message([](auto& r) { r.output = "q"; }), HasSubstr("no value 'q'"));
  EXPECT_THAT(message([](auto& r) { r.optimizer = "sgd:rate=1"; }), HasSubstr("'rate=1' isn't KEY=NUMBER"));
  EXPECT_THAT(message([](auto& r) { r.optimizer = "sgd:lr="; }), HasSubstr("'lr=' isn't KEY=NUMBER"));
  EXPECT_THAT(message([](auto& r) { r.optimizer = "sgd:lr=1x"; }), HasSubstr("'lr=1x' isn't KEY=NUMBER"));
  EXPECT_THAT(message([](auto& r) { r.optimizer = "best"; }),
              HasSubstr("--optimizer: 'best' is none of: sgd:lr="));
  EXPECT_THAT(message([](auto& r) { r.schedule = "x"; }),
              HasSubstr("--lr-schedule: 'x' is none of: constant |"));
  EXPECT_THAT(message([](auto& r) { r.clip = "x"; }), HasSubstr("--clip: 'x'"));
  EXPECT_THAT(message([](auto& r) { r.train = {"q"}; }),
              HasSubstr("--train: 'q' is no initializer of floats"));
  EXPECT_THAT(message([](auto& r) { r.freeze = {"x"}; }), HasSubstr("--freeze: 'x' is no initializer"));
  EXPECT_THAT(message([](auto& r) { r.freeze = {"w", "b"}; }), HasSubstr("no parameter"));
  EXPECT_THAT(message([](auto& r) { r.train = {"w"}, r.freeze = {"w"}; }),
              HasSubstr("to be trained and to stay"));
  EXPECT_THAT(message([](auto& r) {
                r.freeze = {"w*", "q[0-9]"};
              }),
              HasSubstr("--freeze: no initializer of floats is like 'q[0-9]'"));
}

TEST(TrainStep, ParametersAreNamedByPatterns) {
  const auto parameters = [](const std::function<void(TrainStepRequest&)>& change) {
    onnx::ModelProto model = parse_model(R"(agraph (float[4,2] x) => (float[4,2] y) {
      a = Mul (x, layer_bn1_weight) b = Add (a, layer_bn1_bias) c = MatMul (b, layer_fc) y = Add (c, last) })");
    model.mutable_graph()->mutable_node(3)->set_input(1, "*");
    for (const char* name : {"layer_bn1_weight", "layer_bn1_bias", "*"}) add_random(model, name, {2}, -1, 1);
    add_random(model, "layer_fc", {2, 2}, -1, 1);
    TrainStepRequest request;
    request.loss = "mse";
    change(request);
    std::vector<std::string> names;
    for (const auto& tie : make_train_step(import_model(model, {}, "m"), request, "m").state) {
      if (tie.is_parameter) names.push_back(tie.input);
    }
    return names;
  };
  EXPECT_THAT(parameters([](auto& r) { r.freeze = {"*_bn?_*"}; }), UnorderedElementsAre("layer_fc", "*"));
  EXPECT_THAT(parameters([](auto& r) {
                r.train = {"layer_fc", "layer_*_w*", "*_fc"};
              }),
              ElementsAre("layer_fc", "layer_bn1_weight"));
  // What is there by this name is meant itself.
  EXPECT_THAT(parameters([](auto& r) { r.train = {"*"}; }), ElementsAre("*"));
}

}  // namespace
}  // namespace kodama::compiler::testing
