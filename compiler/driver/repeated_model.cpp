#include "compiler/driver/repeated_model.h"

#include <map>
#include <optional>
#include <ostream>
#include <utility>

#include "compiler/driver/session_parts.h"
#include "compiler/dynamic/dynamic_executor.h"
#include "compiler/dynamic/dynamic_report.h"
#include "compiler/graph/inner_graphs.h"
#include "compiler/report/report.h"
#include "isa/error.h"
#include "isa/progress.h"

namespace kodama::compiler {
namespace {

/// Compiled as a whole; state stays on the chip from run to run.
class ResidentModel : public RepeatedModel {
 public:
  ResidentModel(const onnx::ModelProto& model, const SessionOptions& options,
                const std::vector<StepModel::Tie>& ties, const std::string& what,
                MeanOfShares mean_of_shares) {
    CompileOptions compile = compile_options(options, dump_points(&options.passes), options.planner);
    compile.keeps_inputs = true;
    compile.slices = 1;
    for (const auto& each : ties) compile.ties.push_back({each.output, each.input, false});
    layout::SolutionCache cache(options.cache);
    if (!options.cache.empty()) compile.cache = &cache;
    isa::ProgressBar bar("compiling " + what);
    compile.progress = [&](int64_t done, int64_t total, const std::string& name) {
      bar.update(done, total, name);
    };
    compiled_ = compile_model(model, isa::find_chip(options.chip), compile);
    bar.finish();
    RunnerOptions run = runner_options(options);
    run.mean_of_shares = std::move(mean_of_shares);
    runner_.emplace(compiled_, run);
    for (const Tie& tie : compiled_.ties) tied_[name_of(tie.input)] = &tie;
  }

  RepeatedOutcome run(const TensorMap& changed) override {
    RunOutcome outcome = runner_->run_again(changed);
    if (first_cycles_ == 0) {
      first_cycles_ = outcome.first_cycles();
      first_dram_bytes_ = outcome.preparation.dram_bytes + outcome.total.dram_bytes;
    }
    ++runs_;
    TensorMap outputs = std::move(outcome.outputs);
    last_ = std::move(outcome);
    return {std::move(outputs), last_.total.chip.cycles()};
  }
  bool is_tied(const std::string& input) const override { return tied_.contains(input); }
  Tensor fetch(const std::string& input) override {
    StageStats stats;
    return runner_->fetch_tied(*tied_.at(input), stats);
  }
  void print_layers(std::ostream& out) const override {
    print_layer_table(compiled_, {runs_, first_cycles_, first_dram_bytes_, last_}, {}, out);
    print_relayouts(compiled_, last_, out);
    print_host_layers(compiled_, out);
  }

 private:
  std::string name_of(TensorId id) const { return compiled_.tensors[static_cast<size_t>(id)].name; }

  CompiledModel compiled_;
  std::optional<ModelRunner> runner_;
  std::map<std::string, const Tie*> tied_;
  RunOutcome last_;  ///< without its outputs
  int64_t runs_ = 0, first_cycles_ = 0;
  double first_dram_bytes_ = 0;
};

/// With control flow: compiled in parts while it runs; all state passes the link.
class DynamicModel : public RepeatedModel {
 public:
  DynamicModel(const onnx::ModelProto& model, const SessionOptions& options) : cache_(options.cache) {
    DynamicOptions dynamic;
    dynamic.compile = compile_options(options, dump_points(&options.passes), options.planner);
    if (!options.cache.empty()) dynamic.compile.cache = &cache_;
    dynamic.runner = runner_options(options);
    executor_.emplace(model, isa::find_chip(options.chip), std::move(dynamic));
  }

  RepeatedOutcome run(const TensorMap& changed) override {
    for (const auto& [name, tensor] : changed) inputs_.insert_or_assign(name, Value(tensor));
    last_ = executor_->run(inputs_);
    return {to_tensors(last_.outputs, "output"), last_.total.stats.chip.cycles()};
  }
  bool is_tied(const std::string& /*input*/) const override { return false; }
  Tensor fetch(const std::string& input) override { return inputs_.at(input).tensor(); }
  void print_layers(std::ostream& out) const override { print_dynamic_report(last_, out); }

 private:
  layout::SolutionCache cache_;
  std::optional<DynamicExecutor> executor_;
  ValueMap inputs_;
  DynamicOutcome last_;
};

}  // namespace

std::unique_ptr<RepeatedModel> repeated_model(const onnx::ModelProto& model, const SessionOptions& options,
                                              const std::vector<StepModel::Tie>& ties,
                                              const std::string& what, MeanOfShares mean_of_shares) {
  if (!has_control_flow(model))
    return std::make_unique<ResidentModel>(model, options, ties, what, std::move(mean_of_shares));
  if (mean_of_shares)
    throw isa::UnsupportedError(
        "training in shares (--chips, --accumulate) of a model with If, Loop or Scan; train it with one chip "
        "and whole batches");
  return std::make_unique<DynamicModel>(model, options);
}

RepeatedStep::RepeatedStep(const StepModel& step, std::unique_ptr<RepeatedModel> model)
    : names_(step), model_(std::move(model)), state_(step.initial), changed_(step.initial), done_(step.done) {
  names_.model.Clear();
  names_.initial.clear();
}

RepeatedStep::Outcome RepeatedStep::run(TensorMap batch) {
  TensorMap changed = std::move(batch);
  for (const auto& [name, tensor] : changed_) changed[name] = tensor;
  changed[names_.step] = Tensor::from_values<int64_t>(DataType::kInt64, {}, {done_});
  const RepeatedOutcome outcome = model_->run(changed);
  changed_.clear();
  for (const auto& each : names_.state) {
    if (!model_->is_tied(each.input))
      changed_[each.input] = state_[each.input] = outcome.outputs.at(each.output);
  }
  has_run_ = true;
  ++done_;
  return {element_as_double(outcome.outputs.at(names_.loss), 0),
          element_as_double(outcome.outputs.at(names_.rate), 0), outcome.cycles};
}

const TensorMap& RepeatedStep::state() {
  for (const auto& each : names_.state) {
    if (has_run_ && model_->is_tied(each.input)) state_[each.input] = model_->fetch(each.input);
  }
  return state_;
}

}  // namespace kodama::compiler
