#include "compiler/driver/graph_judge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <random>
#include <regex>
#include <set>

#include "compiler/driver/chip_operands.h"
#include "compiler/driver/random_graph.h"
#include "compiler/driver/random_rows.h"
#include "compiler/dynamic/compare_values.h"
#include "compiler/dynamic/dynamic_executor.h"
#include "compiler/graph/expand_functions.h"
#include "compiler/graph/import.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/graph/operator_rules.h"
#include "compiler/lowering/lowering.h"
#include "compiler/proto/tensor_proto.h"
#include "compiler/runtime/comparison.h"
#include "compiler/runtime/runner.h"
#include "isa/arithmetic.h"
#include "isa/hazards.h"
#include "isa/number_formats.h"
#include "scheduler/machine/passes.h"
#include "scheduler/problem/schedule_problem.h"
#include "scheduler/problem/transfer_problem.h"

namespace kodama::compiler {
namespace {

/// The exact scheduler could look at a kernel's blocks for hours.
constexpr const char* kExactNodes = "2000";

struct Failure {
  std::string kind;
  std::string reason;
};

template <typename Passes>
std::vector<std::string> names_of(const Passes& passes) {
  std::vector<std::string> names;
  for (const auto& pass : passes) names.push_back(pass.name);
  return names;
}

/// Half the distance between neighbouring numbers of a type, relative to them.
double rounding_of(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return 0x1.0p-11;
    case DataType::kBfloat16:
      return 0x1.0p-8;
    default:
      return 0x1.0p-24;
  }
}

/// Errors as large as these parts of each element, and of the largest one, and as `least` itself.
void disturb(Tensor& tensor, double relative, double absolute, double least, std::mt19937_64& engine) {
  if (!is_float_type(tensor.type())) return;
  const auto random = [&] { return 2 * (static_cast<double>(engine() >> 11) * 0x1.0p-53) - 1; };
  double largest = 0;
  for (int64_t k = 0; k < tensor.size(); ++k) {
    const double element = element_as_double(tensor, k);
    if (std::isfinite(element)) largest = std::max(largest, std::abs(element));
  }
  for (int64_t k = 0; k < tensor.size(); ++k) {
    const double element = element_as_double(tensor, k);
    const double value =
        element + element * relative * random() + largest * absolute * random() + least * random();
    set_element(tensor, k, value);
  }
}

/// Operands of products that are smaller count as zeros. Half's numbers end far above single precision's.
double least_of(MatrixPrecision precision) {
  return precision == MatrixPrecision::kHalf ? std::ldexp(1.0, 1 - isa::kHalfFormat.bias()) : 0;
}

/// How a chip errs in what an operator computes: by rounding that looks random.
struct Errors {
  MatrixPrecision precision = MatrixPrecision::kFloat;
  std::mt19937_64 engine;

  double product_error() const {
    return precision == MatrixPrecision::kHalf     ? 0x1.0p-9
           : precision == MatrixPrecision::kGFloat ? 0x1.0p-18
                                                   : 0x1.0p-23;
  }
  void disturb_operand(RowErrors kind, Tensor& tensor) {
    if (kind == RowErrors::kProducts || kind == RowErrors::kWeights)
      disturb(tensor, 0, product_error(), least_of(precision), engine);
    if (kind == RowErrors::kSums) disturb(tensor, 0, 0x1.0p-23, 0, engine);
  }
  /// By the rounding of terms of which each element is the sum.
  void disturb_by_terms(Tensor& tensor, const Tensor& terms) {
    for (int64_t k = 0; k < tensor.size(); ++k) {
      const double random = 2 * (static_cast<double>(engine() >> 11) * 0x1.0p-53) - 1;
      const double error = 4 * rounding_of(tensor.type()) * element_as_double(terms, k);
      set_element(tensor, k, element_as_double(tensor, k) + error * random);
    }
  }
  void disturb_result(RowErrors kind, Tensor& tensor) {
    if (kind == RowErrors::kNone) return;
    // Weights are rounded one by one: rows that depend on each other needn't any more.
    disturb(tensor, 4 * rounding_of(tensor.type()), kind == RowErrors::kWeights ? product_error() : 0, 0,
            engine);
  }
};

/// What the terms of Leibniz' formula are together at most, of each matrix: the product of its rows' sums.
/// The determinant of rows that depend on each other is the rounding of its terms.
Tensor terms_of_determinants(const Tensor& matrices, const Shape& shape) {
  Tensor terms(DataType::kFloat64, shape);
  const int64_t size = matrices.shape().back();
  for (int64_t number = 0; number < terms.size(); ++number) {
    double product = 1;
    for (int64_t row = 0; row < size; ++row) {
      double sum = 0;
      for (int64_t column = 0; column < size; ++column)
        sum += std::abs(element_as_double(matrices, (number * size + row) * size + column));
      product *= sum;
    }
    terms.data<double>()[static_cast<size_t>(number)] = product;
  }
  return terms;
}

using FindValue = std::function<const Value&(const std::string&)>;

/// The body of a node that ONNX defines by others, and that the chip computes by them, on these operands.
std::optional<GraphProblem> body_of(const onnx::NodeProto& node, const FindValue& find) {
  const std::vector<std::string>& direct = directly_lowered_operators();
  const auto is_direct = [&](const onnx::NodeProto& each) {
    return !each.domain().empty() || std::ranges::find(direct, each.op_type()) != direct.end();
  };
  if (is_direct(node) || has_subgraph(node) || is_random(node)) return std::nullopt;
  GraphProblem body;
  body.model.set_ir_version(kIrVersion);
  body.model.add_opset_import()->set_version(kOpsetVersion);
  const onnx::OpSchema* const schema = find_schema(body.model, node);
  if (schema == nullptr || !(schema->HasFunction() || schema->HasContextDependentFunction()))
    return std::nullopt;
  onnx::GraphProto& graph = *body.model.mutable_graph();
  graph.set_name("body");
  *graph.add_node() = node;
  const std::vector<int> of_shape = shape_inputs(node);
  for (int k = 0; k < node.input_size(); ++k) {
    const std::string& name = node.input(k);
    if (name.empty() || !body.inputs.emplace(name, find(name)).second) continue;
    if (std::ranges::find(of_shape, k) != of_shape.end()) {
      *graph.add_initializer() = tensor_to_proto(find(name).tensor(), name);
    } else {
      *graph.add_input() = declare_value(name, find(name));
    }
  }
  for (const std::string& name : node.output()) {
    if (!name.empty()) graph.add_output()->set_name(name);
  }
  body.model = import_model(std::move(body.model), {}, "random graph");
  expand_schema_functions(body.model, is_direct);
  // Bodies with control flow aren't expanded.
  const bool is_whole = std::ranges::any_of(
      body.model.graph().node(), [&](const auto& each) { return each.op_type() == node.op_type(); });
  if (is_whole) return std::nullopt;
  return body;
}

ValueMap outputs_with_errors(const GraphProblem& problem, const ValueMap& of_chip, Errors& errors);

/// What a node computes whose body errs.
std::vector<Value> run_with_errors(const onnx::NodeProto& node, const FindValue& find, Errors& errors) {
  const std::optional<GraphProblem> body = body_of(node, find);
  if (!body) return run_any_node(node, find);
  const ValueMap outputs = outputs_with_errors(*body, {}, errors);
  std::vector<Value> results;
  for (const std::string& name : node.output()) results.push_back(name.empty() ? Value() : outputs.at(name));
  return results;
}

/// outputs_of_chip_operands() of a chip that errs.
ValueMap outputs_with_errors(const GraphProblem& problem, const ValueMap& of_chip, Errors& errors) {
  ValueMap values = problem.inputs;
  const onnx::GraphProto& graph = problem.model.graph();
  for (const auto& initializer : graph.initializer())
    values[initializer.name()] = tensor_from_proto(initializer, "initializer");
  ValueMap outputs;
  std::set<std::string> shown_names;
  for (const auto& output : graph.output()) shown_names.insert(output.name());
  for (const onnx::NodeProto& node : graph.node()) {
    const RowErrors kind = random_row(node.op_type()).errors;
    std::map<std::string, Value> disturbed;
    const std::vector<int> of_shape = shape_inputs(node);
    for (int k = 0; k < node.input_size(); ++k) {
      const std::string& name = node.input(k);
      const bool decides_shapes = k > 0 && std::ranges::find(of_shape, k) != of_shape.end();
      if (name.empty() || decides_shapes || !values.at(name).is_tensor()) continue;
      Tensor tensor = values.at(name).tensor();
      errors.disturb_operand(kind, tensor);
      disturbed[name] = std::move(tensor);
    }
    const auto find = [&](const std::string& name) -> const Value& {
      const auto own = disturbed.find(name);
      return own == disturbed.end() ? values.at(name) : own->second;
    };
    std::vector<Value> results = run_with_errors(node, find, errors);
    for (int k = 0; k < node.output_size(); ++k) {
      const std::string& name = node.output(k);
      if (name.empty()) continue;
      Value& result = results[static_cast<size_t>(k)];
      if (result.is_tensor()) {
        Tensor tensor = result.tensor();
        errors.disturb_result(kind, tensor);
        if (kind == RowErrors::kDeterminants)
          errors.disturb_by_terms(tensor,
                                  terms_of_determinants(find(node.input(0)).tensor(), tensor.shape()));
        result = Value(std::move(tensor));
      }
      if (shown_names.contains(name)) outputs[name] = result;
      values[name] = operand_of_chip(name, result, of_chip);
    }
  }
  return outputs;
}

Comparison compare_value(const std::string& name, const Value& actual, const Value& expected) {
  return compare_values({{name, actual}}, {{name, expected}}, {}, 0)[0].worst;
}

void check_hazards(const isa::Program& program, const isa::Chip& chip, const std::string& where) {
  const std::vector<isa::HazardViolation> found = isa::find_hazards(program, chip);
  if (!found.empty()) throw Failure{"hazard", fmt::format("hazard in {}: {}", where, found.front().text)};
}

CompileOptions options_of(const Setting& setting) {
  CompileOptions options;
  options.precision = parse_matrix_precision(setting.precision);
  options.planner = setting.planner;
  options.weights = setting.weights;
  options.lowering.fuse = setting.fuse;
  options.passes = setting.passes;
  options.passes.others = planning_options(setting.planner);
  return options;
}

bool is_host_type(DataType type) {
  return type == DataType::kFloat64 || type == DataType::kString || type == DataType::kComplex64 ||
         type == DataType::kComplex128;
}

/// A model on the chip: compiled at once, or in parts while it runs.
class ChipModel {
 public:
  ChipModel(const ImportedModel& imported, const Setting& setting, const CompileOptions& options)
      : setting_(setting) {
    const isa::Chip chip = isa::find_chip(setting.chip);
    RunnerOptions runner;
    runner.timing = false;
    runner.machine.threads = 1;
    if (setting.is_dirty) runner.machine.memory = simulator::MachineOptions::Memory::kDirty;
    if (!imported.open_reason.empty()) {
      DynamicOptions dynamic;
      dynamic.compile = options;
      dynamic.runner = runner;
      dynamic.runner.hazards = simulator::Hazards::kError;
      executor_ = std::make_unique<DynamicExecutor>(imported.model, chip, std::move(dynamic));
      return;
    }
    compiled_ = std::make_unique<CompiledModel>(compile_model(imported.model, chip, options));
    for (const auto& [name, type] : collect_types(imported.model.graph()))
      has_host_types_ |= is_host_type(static_cast<DataType>(type.tensor_type().elem_type()));
    for (const Stage& stage : compiled_->stages) {
      if (const auto* host = std::get_if<HostStage>(&stage.body))
        host_reasons_.push_back(fmt::format("{}: {}", fmt::join(stage.onnx_ops, "+"), host->reason));
    }
    if (!compiled_->preparation.statements.empty())
      check_hazards(compiled_->preparation, chip, "the preparation");
    for (const Segment& segment : compiled_->segments)
      check_hazards(segment.parts.program, chip,
                    compiled_->stages[static_cast<size_t>(segment.first_stage)].name);
    runner_ = std::make_unique<ModelRunner>(*compiled_, runner);
  }

  ValueMap run(const ValueMap& inputs) {
    if (executor_) {
      DynamicOutcome outcome = executor_->run(inputs);
      host_reasons_.clear();
      for (const RegionRuns& region : outcome.regions)
        host_reasons_.insert(host_reasons_.end(), region.reasons.begin(), region.reasons.end());
      return std::move(outcome.outputs);
    }
    RunOutcome outcome = runner_->run(to_tensors(inputs, "input"));
    if (setting_.planner != "host" && !has_host_types_ && outcome.total.host_relayouts > 0)
      throw Failure{"host relayout", "the host changes a layout of floats"};
    return to_values(std::move(outcome.outputs));
  }

  const std::vector<std::string>& host_reasons() const { return host_reasons_; }

 private:
  Setting setting_;
  bool has_host_types_ = false;  ///< tensors that the chip can't hold
  std::unique_ptr<CompiledModel> compiled_;
  std::unique_ptr<ModelRunner> runner_;
  std::unique_ptr<DynamicExecutor> executor_;
  std::vector<std::string> host_reasons_;
};

/// Throws Failure for outputs that are wrong.
void compare_outputs(const GraphProblem& problem, const ValueMap& outputs, MatrixPrecision precision,
                     Verdict& verdict) {
  // Enough that the largest error of a single number is near the largest there can be.
  constexpr uint64_t kRuns = 16;
  constexpr double kFactor = 4;
  const ValueMap expected = outputs_of_chip_operands(problem, outputs);
  std::vector<ValueMap> with_errors;
  for (const auto& [name, value] : expected) {
    const Comparison comparison = compare_value(name, outputs.at(name), value);
    const double tolerance = std::max(default_tolerance(precision), 2 * rounding_of(value.element_type()));
    if (within(comparison, tolerance)) continue;
    verdict.reason = fmt::format(
        "{}: max abs {:.2e}, over largest magnitude {:.2e}{} {}", name, comparison.max_absolute,
        comparison.max_relative,
        comparison.unequal > 0 ? fmt::format(", {} elements not comparable", comparison.unequal) : "",
        comparison.problem);
    if (!comparison.problem.empty() || comparison.unequal > 0) throw Failure{"difference", verdict.reason};
    for (uint64_t run = with_errors.size(); run < kRuns; ++run) {
      Errors errors{precision, std::mt19937_64(run + 1)};
      with_errors.push_back(outputs_with_errors(problem, outputs, errors));
    }
    double largest = 0;
    for (const ValueMap& other : with_errors)
      largest = std::max(largest, compare_value(name, other.at(name), value).max_absolute);
    if (comparison.max_absolute > kFactor * largest) throw Failure{"difference", verdict.reason};
    verdict.outcome = Outcome::kRounding;
  }
}

/// Floats in another order; what decides shapes and places stays as it is.
ValueMap other_inputs(const ValueMap& inputs) {
  ValueMap others = inputs;
  for (auto& [name, value] : others) {
    if (!value.is_tensor() || value.element_type() != DataType::kFloat32) continue;
    Tensor tensor = value.tensor();
    std::reverse(tensor.data<float>().begin(), tensor.data<float>().end());
    value = Value(std::move(tensor));
  }
  return others;
}

/// Compiles and runs. Failure, or an exception of anybody.
Verdict check_problem(const GraphProblem& given, const Setting& setting) {
  Verdict verdict;
  const GraphProblem problem = with_outputs_to_compare(given);
  const ImportedModel imported = import_any_model(problem.model, {}, "random graph");
  const CompileOptions options = options_of(setting);
  ChipModel model(imported, setting, options);
  const ValueMap outputs = model.run(problem.inputs);
  verdict.host_reasons = model.host_reasons();
  try {
    compare_outputs(problem, outputs, options.precision, verdict);
  } catch (const isa::UnsupportedError& error) {  // it is there that everything is supported
    throw Failure{"reference", error.what()};
  }
  if (setting.repeats) {
    try {
      model.run(other_inputs(problem.inputs));
    } catch (const isa::UserError&) {  // an index that was computed of them is out of range
    }
    if (model.run(problem.inputs) != outputs)
      throw Failure{"repeated run", "a later run with the same inputs has other bits"};
  }
  if (setting.compares_passes) {
    CompileOptions defaults = options;
    defaults.passes = {};
    defaults.passes.others = options.passes.others;
    if (ChipModel(imported, setting, defaults).run(problem.inputs) != outputs)
      throw Failure{"other passes", "the default passes give other bits"};
  }
  return verdict;
}

}  // namespace

Setting random_setting(uint64_t seed, const std::string& chip, const std::string& precision, bool is_quick) {
  std::mt19937_64 engine(seed ^ isa::hash(chip + " " + precision));
  const auto number = [&](size_t count) { return static_cast<size_t>(engine() % count); };
  const auto pick = [&](const std::vector<std::string>& names) { return names[number(names.size())]; };
  const auto seldom = [&](const std::vector<std::string>& names) {
    return number(4) == 0 ? pick(names) : std::string();
  };
  Setting setting{.chip = chip, .precision = precision};
  if (number(3) == 0) setting.planner = pick(ModelPlanner::planner_names());
  setting.weights = std::array{Weights::kStream, Weights::kResident, Weights::kAuto}[number(3)];
  setting.fuse = number(6) != 0;
  setting.passes.coalescer = seldom(names_of(scheduler::coalescers()));
  setting.passes.home_assigner = seldom(names_of(scheduler::home_assigners()));
  setting.passes.allocator = seldom(names_of(scheduler::allocators()));
  setting.passes.transfers = seldom(names_of(scheduler::transfer_schedulers()));
  std::vector<std::string> blocks, loops;
  for (const scheduler::BlockScheduler& each : scheduler::block_schedulers()) {
    if (each.for_blocks) blocks.push_back(each.name);
    if (each.for_loops) loops.push_back(each.name);
  }
  setting.passes.scheduler = seldom(blocks);
  setting.passes.loop_scheduler = seldom(loops);
  if (setting.passes.scheduler == "exact") setting.passes.options["exact-nodes"] = kExactNodes;
  setting.repeats = number(3) == 0;
  setting.compares_passes = number(4) == 0;
  setting.is_dirty = number(3) == 0;
  if (is_quick && number(8) != 0) {
    // Loops of long formulas take most of the time: fewer tries make longer programs, that are as right.
    if (setting.passes.loop_scheduler.empty()) setting.passes.loop_scheduler = "modulo";
    if (setting.passes.loop_scheduler == "modulo")
      setting.passes.options.insert({{"modulo-orders", "1"}, {"modulo-budget", "3"}});
    setting.compares_passes = false;
  }
  return setting;
}

std::string command_line(const Setting& setting) {
  std::string text = fmt::format("--chip {} --precision {} --planner {} --weights {}", setting.chip,
                                 setting.precision, setting.planner, weights_name(setting.weights));
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) text += fmt::format(" {} {}", option, value);
  };
  if (!setting.fuse) text += " --no-fuse";
  add("--coalescer", setting.passes.coalescer);
  add("--home-assigner", setting.passes.home_assigner);
  add("--allocator", setting.passes.allocator);
  add("--transfers", setting.passes.transfers);
  add("--scheduler", setting.passes.scheduler);
  add("--loop-scheduler", setting.passes.loop_scheduler);
  for (const auto& [name, value] : setting.passes.options)
    text += fmt::format(" --pass-option {}={}", name, value);
  return text;
}

std::string in_general(const std::string& reason) {
  static const std::regex kNames("'[^']*'|[0-9]+");
  return std::regex_replace(reason.substr(0, 400), kNames, "#");
}

Verdict judge(const GraphProblem& problem, const Setting& setting) {
  try {
    return check_problem(problem, setting);
  } catch (const Failure& failure) {
    return {Outcome::kFailed, failure.kind, failure.reason};
  } catch (const isa::UnsupportedError& error) {
    return {Outcome::kUnsupported, "", error.what()};
  } catch (const isa::UserError& error) {
    return {Outcome::kFailed, in_general(error.what()), error.what()};
  } catch (const std::exception& error) {
    return {Outcome::kFailed, in_general(error.what()), error.what()};
  }
}

}  // namespace kodama::compiler
