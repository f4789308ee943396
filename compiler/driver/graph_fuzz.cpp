#include "compiler/driver/graph_fuzz.h"

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>

#include "compiler/compile/file_names.h"
#include "compiler/driver/child_process.h"
#include "compiler/driver/random_graph.h"
#include "compiler/driver/session.h"
#include "compiler/driver/shrink_graph.h"
#include "compiler/graph/import.h"
#include "compiler/report/progress.h"
#include "compiler/runtime/comparison.h"
#include "compiler/runtime/runner.h"
#include "isa/arithmetic.h"
#include "isa/hazards.h"
#include "isa/output.h"
#include "scheduler/machine/passes.h"
#include "scheduler/problem/schedule_problem.h"
#include "scheduler/problem/transfer_problem.h"

namespace kodama::compiler {
namespace {

namespace fs = std::filesystem;

constexpr int kMostShrinkingTries = 150;
/// The exact scheduler could look at a kernel's blocks for hours.
constexpr const char* kExactNodes = "2000";

/// What a graph is compiled for, and how.
struct Setting {
  std::string chip;
  std::string precision;
  std::string planner = ModelPlanner::planner_names().front();
  Weights weights = Weights::kAuto;
  bool fuse = true;
  scheduler::PipelineChoice passes = {};
  bool repeats = false;          ///< runs once more, with other inputs between
  bool is_dirty = false;         ///< memories hold anything at first
  bool compares_passes = false;  ///< with the bits of the default passes
};

template <typename Passes>
std::vector<std::string> names_of(const Passes& passes) {
  std::vector<std::string> names;
  for (const auto& pass : passes) names.push_back(pass.name);
  return names;
}

Setting random_setting(uint64_t seed, const std::string& chip, const std::string& precision) {
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
  return setting;
}

/// As options of `kodama run`.
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

enum class Outcome : uint8_t {
  kPassed,
  kRounding,     ///< out of tolerance, but the network makes rounding errors that large
  kUnsupported,  ///< the reason says what
  kFailed,
};
struct Verdict {
  Outcome outcome = Outcome::kPassed;
  std::string kind;  ///< of a failure: shrinking keeps it
  std::string reason;
  std::vector<std::string> host_reasons = {};  ///< of layers on the host

  std::string to_text() const {
    return nlohmann::json{static_cast<int>(outcome), kind, reason, host_reasons}.dump(
        -1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  static Verdict from(const ChildResult& result) {
    if (!result.death.empty()) return {Outcome::kFailed, result.death, result.death};
    const nlohmann::json json = nlohmann::json::parse(result.text);
    return {static_cast<Outcome>(json[0].get<int>()), json[1], json[2], json[3]};
  }
};
struct Failure {
  std::string kind;
  std::string reason;
};

/// Runs a model as a chip of this precision might, off by errors of rounding that are random: of operands of
/// products, and of what a normalization takes the mean of, relative to the largest, and of all results.
TensorMap run_with_errors(const onnx::ModelProto& model, const TensorMap& inputs, MatrixPrecision precision,
                          uint64_t seed) {
  const double product_error = precision == MatrixPrecision::kHalf     ? 0x1.0p-9
                               : precision == MatrixPrecision::kGFloat ? 0x1.0p-18
                                                                       : 0x1.0p-23;
  constexpr double kResultError = 0x1.0p-22;
  // A mean of floats, which is subtracted from numbers that may be much nearer to it than to zero.
  constexpr double kMeanError = 0x1.0p-23;
  std::mt19937_64 engine(seed);
  const auto random = [&] { return 2 * (static_cast<double>(engine() >> 11) * 0x1.0p-53) - 1; };
  const auto disturb = [&](Tensor& tensor, double relative, double absolute) {
    if (tensor.type() != onnx::TensorProto_DataType_FLOAT) return;
    float largest = 0;
    for (const float element : tensor.data<float>()) {
      if (std::isfinite(element)) largest = std::max(largest, std::abs(element));
    }
    for (float& element : tensor.data<float>()) {
      const double value = element;
      element = static_cast<float>(value + value * relative * random() +
                                   static_cast<double>(largest) * absolute * random());
    }
  };
  TensorMap values = inputs;
  for (const auto& initializer : model.graph().initializer())
    values[initializer.name()] = tensor_from_proto(initializer, "initializer");
  const OperatorSets operators(model);
  for (const onnx::NodeProto& node : model.graph().node()) {
    const bool is_product = node.op_type() == "Conv" || node.op_type() == "ConvTranspose" ||
                            node.op_type() == "MatMul" || node.op_type() == "Gemm";
    const bool has_mean = node.op_type() == "LayerNormalization" || node.op_type() == "InstanceNormalization";
    std::vector<Tensor> operands;
    for (const std::string& name : node.input()) {
      operands.push_back(name.empty() ? Tensor() : values.at(name));
      if (is_product) disturb(operands.back(), 0, product_error);
    }
    if (has_mean) disturb(operands[0], 0, kMeanError);
    std::vector<const Tensor*> pointers;
    for (int k = 0; k < node.input_size(); ++k)
      pointers.push_back(node.input(k).empty() ? nullptr : &operands[static_cast<size_t>(k)]);
    std::vector<Tensor> results = run_node(node, pointers, operators);
    for (int k = 0; k < node.output_size(); ++k) {
      Tensor& result = results[static_cast<size_t>(k)];
      disturb(result, kResultError, 0);
      if (!node.output(k).empty()) values[node.output(k)] = std::move(result);
    }
  }
  return values;
}

/// Whether errors of rounding make an output that wrong.
bool is_rounding(const GraphProblem& problem, const std::string& output, const Tensor& expected,
                 const Comparison& comparison, MatrixPrecision precision) {
  constexpr uint64_t kRuns = 4;
  constexpr double kFactor = 4;
  if (!comparison.problem.empty() || comparison.unequal > 0) return false;
  double largest = 0;
  for (uint64_t run = 1; run <= kRuns; ++run) {
    const TensorMap values = run_with_errors(problem.model, problem.inputs, precision, run);
    largest = std::max(largest, compare_tensors(values.at(output), expected).max_absolute);
  }
  return comparison.max_absolute <= kFactor * largest;
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

bool same_bits(const TensorMap& a, const TensorMap& b) {
  return a == b;
}

/// Compiles and runs. Failure, or an exception of anybody.
Verdict check_problem(const GraphProblem& problem, const Setting& setting) {
  Verdict verdict;
  const isa::Chip chip = isa::find_chip(setting.chip);
  const onnx::ModelProto model = import_model(problem.model, {}, "random graph");
  const TensorMap expected = run_graph(model, problem.inputs);
  const CompileOptions options = options_of(setting);
  const CompiledModel compiled = compile_model(model, chip, options);
  for (const Stage& stage : compiled.stages) {
    if (const auto* host = std::get_if<HostStage>(&stage.body))
      verdict.host_reasons.push_back(fmt::format("{}: {}", fmt::join(stage.onnx_ops, "+"), host->reason));
  }
  if (!compiled.preparation.statements.empty()) check_hazards(compiled.preparation, chip, "the preparation");
  for (const Segment& segment : compiled.segments)
    check_hazards(segment.parts.program, chip,
                  compiled.stages[static_cast<size_t>(segment.first_stage)].name);

  RunnerOptions runner_options;
  runner_options.timing = false;
  runner_options.machine.threads = 1;
  if (setting.is_dirty) runner_options.machine.memory = simulator::MachineOptions::Memory::kDirty;
  ModelRunner runner(compiled, runner_options);
  const RunOutcome outcome = runner.run(problem.inputs);
  if (setting.planner != "host" && outcome.total.host_relayouts > 0)
    throw Failure{"host relayout", "the host changes a layout of floats"};
  for (const auto& [name, tensor] : outcome.outputs) {
    const Comparison comparison = compare_tensors(tensor, expected.at(name));
    if (within(comparison, default_tolerance(options.precision))) continue;
    verdict.reason = fmt::format(
        "{}: max abs {:.2e}, over largest magnitude {:.2e}{} {}", name, comparison.max_absolute,
        comparison.max_relative,
        comparison.unequal > 0 ? fmt::format(", {} elements not comparable", comparison.unequal) : "",
        comparison.problem);
    if (!is_rounding({model, problem.inputs}, name, expected.at(name), comparison, options.precision))
      throw Failure{"difference", verdict.reason};
    verdict.outcome = Outcome::kRounding;
  }
  if (setting.repeats) {
    TensorMap others;
    for (const auto& [name, tensor] : problem.inputs)
      others[name] = random_input(name, tensor.type(), tensor.shape(), isa::hash(name));
    runner.run(others);
    if (!same_bits(runner.run(problem.inputs).outputs, outcome.outputs))
      throw Failure{"repeated run", "a later run with the same inputs has other bits"};
  }
  if (setting.compares_passes) {
    CompileOptions defaults = options;
    defaults.passes = {};
    defaults.passes.others = options.passes.others;
    const CompiledModel by_default = compile_model(model, chip, defaults);
    if (!same_bits(ModelRunner(by_default, runner_options).run(problem.inputs).outputs, outcome.outputs))
      throw Failure{"other passes", "the default passes give other bits"};
  }
  return verdict;
}

/// Never throws.
Verdict judge(const GraphProblem& problem, const Setting& setting) {
  try {
    return check_problem(problem, setting);
  } catch (const Failure& failure) {
    return {Outcome::kFailed, failure.kind, failure.reason};
  } catch (const isa::UnsupportedError& error) {
    return {Outcome::kUnsupported, "", error.what()};
  } catch (const isa::UserError& error) {
    return {Outcome::kFailed, "user error", error.what()};
  } catch (const isa::InternalError& error) {
    return {Outcome::kFailed, "internal error", error.what()};
  } catch (const std::exception& error) {
    return {Outcome::kFailed, "exception", error.what()};
  }
}

GraphProblem random_problem(uint64_t seed) {
  GraphProblem problem{random_graph(seed), {}};
  for (const auto& input : problem.model.graph().input()) {
    Shape shape;
    for (const auto& dim : input.type().tensor_type().shape().dim()) shape.push_back(dim.dim_value());
    problem.inputs[input.name()] = random_input(input.name(), onnx::TensorProto_DataType_FLOAT, shape, seed);
  }
  return problem;
}

/// The command that runs a failure again as it is shrunk.
std::string write_problem(const GraphProblem& problem, const Setting& setting, const std::string& directory) {
  fs::create_directories(directory);
  const std::string file = directory + "/model.onnx";
  isa::write_output(file, problem.model.SerializeAsString());
  std::string command = fmt::format("kodama run {} {}", file, command_line(setting));
  for (const auto& [name, tensor] : problem.inputs) {
    const std::string path = fmt::format("{}/{}.pb", directory, file_stem(name));
    write_tensor_file(path, tensor, name);
    command += fmt::format(" --input {}={}", name, path);
  }
  return command;
}

class GraphFuzzer {
 public:
  GraphFuzzer(const GraphFuzzRequest& request, std::ostream& out) : request_(request), out_(out) {
    chips_ = request.chips.empty() ? std::vector<std::string>{"tiny", "mncore2"} : request.chips;
    precisions_ =
        request.precisions.empty() ? std::vector<std::string>{"gfloat", "half", "float"} : request.precisions;
    for (const std::string& chip : chips_) isa::find_chip(chip);
    for (const std::string& precision : precisions_) parse_matrix_precision(precision);
  }

  int run() {
    if (request_.only_write) return write_all();
    const int64_t runs = request_.count * runs_per_graph();
    ProgressBar bar("random graphs");
    run_in_children(
        runs, request_.jobs, request_.seconds,
        [&](int64_t k) { return judge_run(seed_of(k), setting_of(k)).to_text(); },
        [&](int64_t k, const ChildResult& result) {
          bar.update(k, runs, "");
          take(k, Verdict::from(result));
        });
    bar.finish();
    print_totals(runs);
    return failures_ == 0 ? kExitOk : kExitInternalError;
  }

 private:
  int64_t runs_per_graph() const { return static_cast<int64_t>(chips_.size() * precisions_.size()); }
  uint64_t seed_of(int64_t run) const {
    return request_.seed + static_cast<uint64_t>(run / runs_per_graph());
  }
  Setting setting_of(int64_t run) const {
    const auto k = static_cast<size_t>(run % runs_per_graph());
    return random_setting(seed_of(run), chips_[k / precisions_.size()], precisions_[k % precisions_.size()]);
  }
  static Verdict judge_run(uint64_t seed, const Setting& setting) {
    GraphProblem problem;
    try {
      problem = random_problem(seed);
    } catch (const std::exception& error) {
      return {Outcome::kFailed, "generator", fmt::format("the graph can't be made: {}", error.what())};
    }
    return judge(problem, setting);
  }
  int write_all() {
    fs::create_directories(request_.directory);
    for (int64_t k = 0; k < request_.count; ++k) {
      const uint64_t seed = request_.seed + static_cast<uint64_t>(k);
      isa::write_output(fmt::format("{}/{}.onnx", request_.directory, seed),
                        random_graph(seed).SerializeAsString());
    }
    return kExitOk;
  }
  /// In a process.
  Verdict judge_apart(const GraphProblem& problem, const Setting& setting) const {
    Verdict verdict;
    run_in_children(
        1, 1, request_.seconds, [&](int64_t) { return judge(problem, setting).to_text(); },
        [&](int64_t, const ChildResult& result) { verdict = Verdict::from(result); });
    return verdict;
  }

  void take(int64_t run, const Verdict& verdict) {
    const Setting setting = setting_of(run);
    ++outcomes_[static_cast<size_t>(verdict.outcome)];
    for (const std::string& reason : verdict.host_reasons) ++host_[in_general(reason)];
    if (verdict.outcome == Outcome::kUnsupported) ++unsupported_[in_general(verdict.reason)];
    if (request_.verbose) {
      constexpr std::array<const char*, 4> kNames = {"passed", "rounding", "not supported", "failed"};
      fmt::print(out_, "seed {} {} {}: {}{}{}\n", seed_of(run), setting.chip, setting.precision,
                 kNames[static_cast<size_t>(verdict.outcome)], verdict.reason.empty() ? "" : ": ",
                 verdict.reason);
      out_.flush();
    }
    if (verdict.outcome != Outcome::kFailed) return;
    ++failures_;
    const std::string name = fmt::format("{}.{}.{}", seed_of(run), setting.chip, setting.precision);
    fmt::print(out_, "FAILED: {}\n  kodama onnx-fuzz --count 1 --seed {} --chip {} --precision {}\n",
               verdict.reason, seed_of(run), setting.chip, setting.precision);
    if (verdict.kind != "generator") report(random_problem(seed_of(run)), setting, verdict, name);
    out_.flush();
  }

  /// Prints a failure with as few nodes and options as it needs.
  void report(GraphProblem problem, Setting setting, const Verdict& verdict, const std::string& name) {
    if (request_.shrink) {
      try {
        problem.model = import_model(problem.model, {}, "random graph");
        const auto fails = [&](const GraphProblem& part, const Setting& with) {
          const Verdict again = judge_apart(part, with);
          return again.outcome == Outcome::kFailed && again.kind == verdict.kind;
        };
        problem = shrink_graph(
            std::move(problem), [&](const GraphProblem& part) { return fails(part, setting); },
            kMostShrinkingTries);
        const auto simplify = [&](const std::function<void(Setting&)>& change) {
          Setting simpler = setting;
          change(simpler);
          if (command_line(simpler) != command_line(setting) && fails(problem, simpler)) setting = simpler;
        };
        simplify([](Setting& each) { each.passes = {}; });
        simplify([](Setting& each) { each.passes.scheduler = "", each.passes.options = {}; });
        simplify([](Setting& each) { each.passes.loop_scheduler = ""; });
        simplify([](Setting& each) { each.passes.coalescer = ""; });
        simplify([](Setting& each) { each.passes.home_assigner = ""; });
        simplify([](Setting& each) { each.passes.allocator = ""; });
        simplify([](Setting& each) { each.passes.transfers = ""; });
        simplify([](Setting& each) { each.planner = ModelPlanner::planner_names().front(); });
        simplify([](Setting& each) { each.weights = Weights::kStream; });
        simplify([](Setting& each) { each.fuse = true; });
      } catch (const isa::Error&) {  // what the reference or the import throws is the failure itself
      }
    }
    fmt::print(out_, "  {}\n", command_line(setting));
    for (const onnx::NodeProto& node : problem.model.graph().node()) print_node(problem.model, node);
    if (!request_.directory.empty())
      fmt::print(out_, "  {}\n", write_problem(problem, setting, request_.directory + "/" + name));
  }

  void print_node(const onnx::ModelProto& model, const onnx::NodeProto& node) {
    const auto shape_of = [&](const std::string& name) -> std::string {
      for (const auto& list : {model.graph().input(), model.graph().value_info(), model.graph().output()}) {
        for (const auto& value : list) {
          if (value.name() != name) continue;
          std::vector<int64_t> shape;
          for (const auto& dim : value.type().tensor_type().shape().dim()) shape.push_back(dim.dim_value());
          return fmt::format("[{}]", fmt::join(shape, ","));
        }
      }
      for (const auto& initializer : model.graph().initializer()) {
        if (initializer.name() == name)
          return fmt::format("={}[{}]",
                             initializer.data_type() == onnx::TensorProto_DataType_INT64 ? "int64" : "",
                             fmt::join(initializer.dims(), ","));
      }
      return "";
    };
    std::vector<std::string> inputs, outputs, attributes;
    for (const std::string& input : node.input()) inputs.push_back(input + shape_of(input));
    for (const std::string& output : node.output()) outputs.push_back(output + shape_of(output));
    for (const auto& attribute : node.attribute()) {
      attributes.push_back(fmt::format("{}={}", attribute.name(),
                                       attribute.has_s()   ? attribute.s()
                                       : attribute.has_f() ? fmt::format("{}", attribute.f())
                                       : attribute.has_i()
                                           ? fmt::format("{}", attribute.i())
                                           : fmt::format("[{}]", fmt::join(attribute.ints(), ","))));
    }
    fmt::print(out_, "    {} = {}({}) {}\n", fmt::join(outputs, ", "), node.op_type(),
               fmt::join(inputs, ", "), fmt::join(attributes, " "));
  }

  /// Without names and numbers.
  static std::string in_general(const std::string& reason) {
    static const std::regex kNames("'[^']*'|[0-9]+");
    return std::regex_replace(reason.substr(0, 400), kNames, "#");
  }

  void print_totals(int64_t runs) {
    const auto print_tally = [&](const char* what, const std::map<std::string, int64_t>& tally) {
      for (const auto& [reason, count] : tally) fmt::print(out_, "{} {}: {}\n", count, what, reason);
    };
    print_tally("not supported", unsupported_);
    print_tally("layers on the host", host_);
    fmt::print(out_,
               "{} graphs from seed {} in {} runs ({}; {}): {} passed, {} of them by more than the "
               "tolerance but as rounding explains, {} not supported, {} failed\n",
               request_.count, request_.seed, runs, fmt::join(chips_, ", "), fmt::join(precisions_, ", "),
               outcomes_[0] + outcomes_[1], outcomes_[1], outcomes_[2], outcomes_[3]);
  }

  GraphFuzzRequest request_;
  std::ostream& out_;
  std::vector<std::string> chips_;
  std::vector<std::string> precisions_;
  std::array<int64_t, 4> outcomes_{};
  int64_t failures_ = 0;
  std::map<std::string, int64_t> unsupported_;
  std::map<std::string, int64_t> host_;
};

}  // namespace

int graph_fuzz_command(const GraphFuzzRequest& request, std::ostream& out) {
  return GraphFuzzer(request, out).run();
}

}  // namespace kodama::compiler
