#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "compiler/graph/import.h"
#include "compiler/graph/test_models.h"
#include "compiler/runtime/comparison.h"
#include "compiler/runtime/runner.h"

/// Random small networks, compiled with every planner: outputs as the CPU reference computes them, no
/// hazards, and no layout changed by the host.
namespace kodama::compiler {
namespace {

/// Writes a network in ONNX's textual form, operator by operator.
class RandomNetwork {
 public:
  explicit RandomNetwork(uint64_t seed) : engine_(seed) {
    const Shape shape{1, number(1, 5), number(3, 9), number(3, 9)};
    values_.push_back({"x", shape});
    const int64_t operators = number(2, 7);
    for (int64_t k = 0; k < operators; ++k) add();
    if (values_.size() == 1) push("Relu", "x", "", shape);
  }

  std::string text() {
    std::vector<std::string> outputs{declared(values_.back())};
    const Value& other = values_[static_cast<size_t>(number(1, static_cast<int64_t>(values_.size()) - 1))];
    if (other.name != values_.back().name) outputs.push_back(declared(other));
    return fmt::format("agraph ({}) => ({}) <{}> {{ {} }}", declared(values_.front()),
                       fmt::join(outputs, ", "), fmt::join(constants_, ", "), fmt::join(statements_, " "));
  }

 private:
  struct Value {
    std::string name;
    Shape shape;
  };

  int64_t number(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  static std::string declared(const Value& value) {
    return fmt::format("float[{}] {}", fmt::join(value.shape, ","), value.name);
  }
  std::string constant(const Shape& shape) {
    std::vector<std::string> numbers;
    for (int64_t k = 0; k < element_count(shape); ++k)
      numbers.push_back(fmt::format("{:.2f}", static_cast<double>(number(-200, 200)) / 100));
    const std::string name = fmt::format("c{}", constants_.size());
    constants_.push_back(
        fmt::format("float[{}] {} = {{{}}}", fmt::join(shape, ","), name, fmt::join(numbers, ",")));
    return name;
  }
  std::string integers(const std::vector<int64_t>& numbers) {
    const std::string name = fmt::format("c{}", constants_.size());
    constants_.push_back(fmt::format("int64[{}] {} = {{{}}}", numbers.size(), name, fmt::join(numbers, ",")));
    return name;
  }
  void push(const std::string& op, const std::string& inputs, const std::string& attributes, Shape shape) {
    const std::string name = fmt::format("v{}", values_.size());
    statements_.push_back(
        fmt::format("{} = {}{}({})", name, op, attributes.empty() ? "" : "<" + attributes + ">", inputs));
    values_.push_back({name, std::move(shape)});
  }

  void add() {
    const auto recent = std::min<int64_t>(3, static_cast<int64_t>(values_.size()));
    const Value from = values_[values_.size() - static_cast<size_t>(number(1, recent))];
    const Shape& shape = from.shape;
    const auto rank = static_cast<int64_t>(shape.size());
    Shape result = shape;
    const auto axis = static_cast<size_t>(number(0, rank - 1));
    constexpr int64_t kLargest = 20000;
    switch (number(0, 12)) {
      case 0: {
        if (rank != 4) return;
        const int64_t kernel = number(0, 1) == 0 ? 1 : 3;
        const int64_t pad = number(0, kernel / 2);
        const int64_t stride = number(1, 2);
        if (std::min(shape[2], shape[3]) + 2 * pad < kernel) return;
        result[1] = number(1, 6);
        for (size_t k : {2U, 3U}) result[k] = (shape[k] + 2 * pad - kernel) / stride + 1;
        return push("Conv", from.name + ", " + constant({result[1], shape[1], kernel, kernel}),
                    fmt::format("pads = [{0}, {0}, {0}, {0}], strides = [{1}, {1}]", pad, stride), result);
      }
      case 1:
        if (rank != 4 || std::min(shape[2], shape[3]) < 3) return;
        for (size_t k : {2U, 3U}) result[k] = (shape[k] - 1) / 2 + 1;
        return push("MaxPool", from.name, "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]",
                    result);
      case 2:
        if (rank != 4) return;
        result[2] = result[3] = 1;
        return push("GlobalAveragePool", from.name, "", result);
      case 3: {
        std::vector<int64_t> order(shape.size());
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), engine_);
        for (size_t k = 0; k < order.size(); ++k) result[k] = shape[static_cast<size_t>(order[k])];
        return push("Transpose", from.name, fmt::format("perm = [{}]", fmt::join(order, ", ")), result);
      }
      case 4:
      case 5: {
        if (2 * element_count(shape) > kLargest) return;
        result[axis] *= 2;
        const std::string other = number(0, 1) == 0 ? from.name : constant(shape);
        return push("Concat", other + ", " + from.name, fmt::format("axis = {}", axis), result);
      }
      case 6: {
        if (shape[axis] < 2) return;
        const int64_t begin = number(0, shape[axis] - 2);
        result[axis] -= begin;
        return push("Slice",
                    fmt::format("{}, {}, {}, {}", from.name, integers({begin}), integers({shape[axis]}),
                                integers({static_cast<int64_t>(axis)})),
                    "", result);
      }
      case 7: {
        std::vector<int64_t> pads;
        for (int64_t k = 0; k < 2 * rank; ++k) pads.push_back(number(0, 2));
        for (size_t k = 0; k < shape.size(); ++k) result[k] += pads[k] + pads[k + shape.size()];
        if (element_count(result) > kLargest) return;
        return push("Pad", from.name + ", " + integers(pads), "", result);
      }
      case 8:
        result.back() = number(1, 9);
        return push("MatMul", from.name + ", " + constant({shape.back(), result.back()}), "", result);
      case 9:
        return push("Softmax", from.name, "axis = -1", result);
      case 10:
        result = {std::accumulate(shape.begin(), shape.begin() + rank / 2, int64_t{1}, std::multiplies<>()),
                  std::accumulate(shape.begin() + rank / 2, shape.end(), int64_t{1}, std::multiplies<>())};
        return push("Reshape", from.name + ", " + integers(result), "", result);
      case 11: {
        std::vector<std::string> same;
        for (const Value& value : values_) {
          if (value.shape == shape) same.push_back(value.name);
        }
        return push(
            "Add",
            from.name + ", " + same[static_cast<size_t>(number(0, static_cast<int64_t>(same.size()) - 1))],
            "", result);
      }
      default:
        result.back() = 1;
        return push("ReduceSum", from.name + ", " + integers({rank - 1}), "keepdims = 1", result);
    }
  }

  std::mt19937_64 engine_;
  std::vector<Value> values_;
  std::vector<std::string> constants_;
  std::vector<std::string> statements_;
};

TEST(PlannerFuzz, EveryPlannerComputesTheSame) {
  const isa::Chip chip = isa::find_chip("tiny");
  int64_t relayouts = 0, prepared = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const std::string text = RandomNetwork(seed).text();
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, text));
    const onnx::ModelProto model = import_model(testing::parse_model(text), {}, "fuzz");
    TensorMap inputs;
    for (const onnx::ValueInfoProto& input : model.graph().input()) {
      Shape shape;
      for (const auto& dim : input.type().tensor_type().shape().dim()) shape.push_back(dim.dim_value());
      inputs[input.name()] = random_input(input.name(), onnx::TensorProto_DataType_FLOAT, shape, seed);
    }
    const TensorMap expected = run_graph(model, inputs);
    for (const std::string& planner : ModelPlanner::planner_names()) {
      CompileOptions options;
      options.planner = planner;
      options.weights = seed % 2 == 0 ? Weights::kStream : Weights::kResident;
      const CompiledModel compiled = compile_model(model, chip, options);
      RunnerOptions run;
      run.hazards = simulator::Hazards::kError;
      run.machine.memory = simulator::MachineOptions::Memory::kDirty;
      ModelRunner runner(compiled, run);
      const RunOutcome outcome = runner.run(inputs);
      if (!compiled.preparation.statements.empty()) {
        ++prepared;
        EXPECT_TRUE(runner.run(inputs).outputs == outcome.outputs) << planner;
      }
      if (planner != "host") {
        EXPECT_EQ(outcome.total.host_relayouts, 0) << planner;
      }
      relayouts += compiled.plan.relayouts;
      for (const auto& [name, tensor] : outcome.outputs) {
        const Comparison comparison = compare_tensors(tensor, expected.at(name));
        EXPECT_TRUE(within(comparison, default_tolerance(MatrixPrecision::kGFloat)))
            << planner << ", " << name << ": " << comparison.max_relative << comparison.problem;
      }
    }
  }
  EXPECT_GT(relayouts, 200);
  EXPECT_GT(prepared, 40);
}

}  // namespace
}  // namespace kodama::compiler
