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

#include "compiler/driver/child_process.h"
#include "compiler/driver/graph_judge.h"
#include "compiler/driver/random_graph.h"
#include "compiler/driver/session.h"
#include "compiler/driver/shrink_graph.h"
#include "compiler/package/file_names.h"
#include "compiler/proto/tensor_proto.h"
#include "compiler/tensor/value.h"
#include "isa/output.h"
#include "isa/progress.h"

namespace kodama::compiler {
namespace {

namespace fs = std::filesystem;

constexpr int kMostShrinkingTries = 150;

std::string to_text(const Verdict& verdict) {
  return nlohmann::json{static_cast<int>(verdict.outcome), verdict.kind, verdict.reason, verdict.host_reasons}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}
Verdict verdict_of(const ChildResult& result) {
  if (!result.death.empty()) return {Outcome::kFailed, result.death, result.death};
  const nlohmann::json json = nlohmann::json::parse(result.text);
  return {static_cast<Outcome>(json[0].get<int>()), json[1], json[2], json[3]};
}

/// The command that runs a failure again as it is shrunk.
std::string write_problem(const GraphProblem& problem, const Setting& setting, const std::string& directory) {
  fs::create_directories(directory);
  const std::string file = directory + "/model.onnx";
  isa::write_output(file, problem.model.SerializeAsString());
  std::string command = fmt::format("kodama run {} {}", file, command_line(setting));
  for (const auto& [name, value] : problem.inputs) {
    const std::string path = fmt::format("{}/{}.pb", directory, file_stem(name));
    isa::write_output(path, value_to_bytes(value, name));
    command += fmt::format(" --input {}={}", name, path);
  }
  return command;
}

class GraphFuzzer {
 public:
  GraphFuzzer(const GraphFuzzRequest& request, std::ostream& out) : request_(request), out_(out) {
    chips_ = request.chips;
    if (chips_.empty()) chips_.emplace_back("tiny");
    if (request.chips.empty() && kind() == GraphKind::kNetwork) chips_.emplace_back("mncore2");
    precisions_ =
        request.precisions.empty() ? std::vector<std::string>{"gfloat", "half", "float"} : request.precisions;
    for (const std::string& chip : chips_) isa::find_chip(chip);
    for (const std::string& precision : precisions_) parse_matrix_precision(precision);
  }

  int run() {
    if (request_.only_write) return write_all();
    const int64_t runs = request_.count * runs_per_graph();
    isa::ProgressBar bar("random graphs");
    run_in_children(
        runs, request_.jobs, request_.seconds,
        [&](int64_t k) { return to_text(judge_run(seed_of(k), setting_of(k))); },
        [&](int64_t k, const ChildResult& result) {
          bar.update(k, runs, "");
          take(k, verdict_of(result));
        });
    bar.finish();
    print_totals(runs);
    return failures_ == 0 ? isa::kExitOk : isa::kExitInternalError;
  }

 private:
  GraphKind kind() const { return request_.operators ? GraphKind::kOperators : GraphKind::kNetwork; }
  int64_t combinations() const { return static_cast<int64_t>(chips_.size() * precisions_.size()); }
  int64_t runs_per_graph() const { return request_.operators ? 1 : combinations(); }
  uint64_t seed_of(int64_t run) const {
    return request_.seed + static_cast<uint64_t>(run / runs_per_graph());
  }
  Setting setting_of(int64_t run) const {
    const auto k =
        static_cast<size_t>(request_.operators ? seed_of(run) % static_cast<uint64_t>(combinations())
                                               : static_cast<uint64_t>(run % runs_per_graph()));
    return random_setting(seed_of(run), chips_[k / precisions_.size()], precisions_[k % precisions_.size()],
                          request_.operators);
  }
  Verdict judge_run(uint64_t seed, const Setting& setting) const {
    GraphProblem problem;
    try {
      problem = random_problem(seed, kind());
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
                        random_problem(seed, kind()).model.SerializeAsString());
    }
    return isa::kExitOk;
  }
  /// In a process.
  Verdict judge_apart(const GraphProblem& problem, const Setting& setting) const {
    Verdict verdict;
    run_in_children(
        1, 1, request_.seconds, [&](int64_t) { return to_text(judge(problem, setting)); },
        [&](int64_t, const ChildResult& result) { verdict = verdict_of(result); });
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
    fmt::print(out_, "FAILED: {}\n  kodama onnx-fuzz{} --count 1 --seed {} --chip {} --precision {}\n",
               verdict.reason, request_.operators ? " --operators" : "", seed_of(run), setting.chip,
               setting.precision);
    if (verdict.kind != "generator") report(random_problem(seed_of(run), kind()), setting, verdict, name);
    out_.flush();
  }

  /// Prints a failure with as few nodes and options as it needs.
  void report(GraphProblem problem, Setting setting, const Verdict& verdict, const std::string& name) {
    if (request_.shrink) {
      try {
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
        simplify([](Setting& each) { each.passes.options = {}; });
        simplify([](Setting& each) { each.passes.scheduler = ""; });
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
    const ValueMap values = run_graph_on_values(problem.model, problem.inputs, {.keep_intermediates = true});
    for (const onnx::NodeProto& node : problem.model.graph().node()) print_node(node, values);
    if (!request_.directory.empty())
      fmt::print(out_, "  {}\n", write_problem(problem, setting, request_.directory + "/" + name));
  }

  void print_node(const onnx::NodeProto& node, const ValueMap& values) {
    const auto shape_of = [&](const std::string& name) -> std::string {
      const auto found = values.find(name);
      if (found == values.end()) return "";
      return (found->second.is_tensor() ? ":" : "=") + found->second.describe();
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
