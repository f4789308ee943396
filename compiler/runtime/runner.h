#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/package/compiled_model.h"
#include "compiler/tensor/comparison.h"
#include "compiler/tensor/value.h"
#include "isa/host_work.h"
#include "simulator/machine.h"
#include "simulator/run_report.h"
#include "simulator/statistics.h"

/// Runs compiled models on the simulated chip.
namespace kodama::compiler {

struct StageStats {
  simulator::RunStats chip;     ///< of Rearrange and Host stages: causes.host_compute alone
  double dram_bytes = 0;        ///< that transfers read from the chip's DRAM and write to it; needs timing
  double host_dram_cycles = 0;  ///< that the host's data take of DRAM interfaces, all groups together
  int64_t bytes_to_chip = 0;    ///< operands sent over the host link
  int64_t bytes_from_chip = 0;  ///< result fetched
  int64_t bytes_permuted = 0;   ///< by the host in its moves
  int64_t host_relayouts = 0;   ///< layout changes between layers that the host makes
  int64_t host_layers = 0;      ///< 1 for a stage that the host computes
  int64_t host_bytes = 0;       ///< that these read and write in the host's memory
  int64_t host_operations = 0;  ///< of these: host_cost.h
  double host_seconds = 0;      ///< of this machine, for these
  /// Chip cycles that wait for the host's data, both ways; part of chip.cycles().
  int64_t link_cycles() const { return chip.causes.host_input + chip.causes.host_output; }
  double wall_seconds = 0;
  /// Cycles of the program alone.
  int64_t chip_cycles() const { return chip.cycles() - chip.causes.of_host(); }
  StageStats& operator+=(const StageStats& other);
};

struct RunOutcome {
  TensorMap outputs;
  std::vector<StageStats> stages;
  StageStats total;
  // Once, before the first run; in no stage and not in the total:
  int64_t preload_bytes = 0;  ///< constants that are sent
  int64_t preload_link_cycles = 0;
  StageStats preparation;  ///< brings constants that stay to the PEs
  // When things happened, in cycles from the begin of the run; all zero without timing.
  int64_t results_there = 0;  ///< the host has all outputs; where a run follows, at any time around the end
  /// What follows has its data in DRAM; -1: it hasn't (Following).
  int64_t following_there = -1;
  /// Of the first run, all of this included.
  int64_t first_cycles() const {
    return preload_link_cycles + preparation.chip.cycles() + total.chip.cycles();
  }
};

struct RunnerOptions {
  simulator::MachineOptions machine;
  bool timing = true;
  simulator::Hazards hazards = simulator::Hazards::kIgnore;
  /// Programs are queued, and data pass beside those that run: the next one's come into DRAM, the last one's
  /// results leave (isa/host_work.h). Otherwise the host does one thing after the other.
  bool host_overlaps = true;
  std::string name;  ///< of a region around its runs in reports; empty: none
  /// (stages done, stages in total, each once for every slice, name of the next)
  std::function<void(int64_t, int64_t, const std::string&)> progress;
  /// Called where a model waits for other shares (compiler/graph/shares.h), with what this one has: returns
  /// the means. Or nothing: the run begins anew for one more share, with other values of some inputs, which
  /// it puts into `changed`; state on the chip is still that of before. Without it every mean is the operand.
  std::function<std::optional<std::vector<Tensor>>(const std::vector<const Tensor*>& operands,
                                                   TensorMap& changed)>
      mean_of_shares;
  /// Receives every tensor a stage made, as far as it is in DRAM.
  std::function<void(const std::string& name, const Tensor&)> observe;
};

/// A simulated chip, and what the host has on the way between two runs. Models that share one have DRAM of
/// their own each (compiler/runtime/device.h).
struct ChipInUse {
  explicit ChipInUse(const isa::Chip& chip, const simulator::MachineOptions& options = {})
      : machine(chip, options) {}
  simulator::Machine machine;
  int64_t pdm_used_lw = 0;  ///< of group 0, by programs of all models
  // While host_overlaps:
  bool is_queued = false;      ///< the next program, behind one that runs
  bool next_is_there = false;  ///< its data, in DRAM
  int64_t leaving = 0;         ///< cycles until the last results are with the host
};

/// What the chip runs next, as far as it may come beside the present run.
struct Following {
  std::vector<isa::HostTransfer> input;  ///< of its first program (ModelRunner::first_input)
  int64_t from = 0;                      ///< cycles from the begin of the present run until the host has it
};

/// A chip with a model's constants loaded; run() may be called any number of times. What stays on the chip
/// comes there before the first run.
class ModelRunner {
 public:
  explicit ModelRunner(const CompiledModel& model, const RunnerOptions& options = {});
  /// On a chip that others use, too, one at a time.
  ModelRunner(const CompiledModel& model, const RunnerOptions& options, std::shared_ptr<ChipInUse> chip);

  /// `inputs` by name; UserError if one is missing, unknown, or has the wrong type or shape.
  /// `report`, if not null, has the chip stages under their names; it needs timing. `next` says that another
  /// run of this model follows at once: with host_overlaps its inputs come beside this one.
  RunOutcome run(TensorMap inputs, simulator::RunReport* report = nullptr, bool next = false);
  /// The same with anything behind it.
  RunOutcome run(TensorMap inputs, const std::optional<Following>& following);

  /// What the model gets before its first program; empty when that isn't known before the host has computed,
  /// or nothing can come early.
  std::vector<isa::HostTransfer> first_input() const;
  /// Brings the constants that stay on the chip there, once; else the first run does.
  const StageStats& prepare();
  int64_t preload_link_cycles() const { return preload_cycles_; }

  /// For models that keep their inputs (CompileOptions::keeps_inputs). Inputs that are left out are on the
  /// chip, or the host has them, from the last run: what it was given, or for a tie's input what its output
  /// was. Of ties the outputs aren't fetched. UserError for an input that is left out in the first run.
  RunOutcome run_again(const TensorMap& changed, simulator::RunReport* report = nullptr);
  /// The output of a tie behind run_again; `stats` gets what fetching it costs.
  Tensor fetch_tied(const Tie& tie, StageStats& stats);

 private:
  RunOutcome run_all_slices(simulator::RunReport* report);
  /// Whether an operand of the host's is there already.
  bool is_there(TensorId tensor) const;
  bool stays_on_chip(TensorId tensor) const;
  /// Whether the host fetches a stage's result in this run.
  bool is_fetched(const ChipStage& chip) const;
  /// Of slice_: adds to the outcome's stats, and puts its part into the outputs.
  void run_slice(simulator::RunReport* report, RunOutcome& outcome);
  /// Forgets all values but those of constants and inputs.
  void begin_slice();
  /// The same for one more share, at a stage where the last one ended.
  void begin_share(const TensorMap& changed, int64_t stage);
  /// False: the run is to begin anew, with what is in `changed`.
  bool run_mean_of_shares(const Stage& stage, TensorMap& changed, StageStats& stats);
  void show_progress(int64_t stage) const;
  /// The stats of its stages, in their order.
  std::vector<StageStats> run_segment(const Segment& segment, simulator::RunReport* report,
                                      RunOutcome& outcome);
  isa::HostTransfer send(const StreamBinding& operand, StageStats& stats);
  /// What the host does around a segment besides its data: launch, what passes the link beside it.
  void plan_host(const Segment& segment, isa::HostWork& host);
  /// What can be sent for a segment of this slice, or the next, before the present one is over; empty when
  /// what it gets isn't known by then.
  std::vector<isa::HostTransfer> early_input(const Segment& segment, bool of_next_slice) const;
  /// That, with the places that it waits for beside a program.
  const std::vector<isa::HostTransfer>& planned(const Segment& segment, const isa::HostWork& host,
                                                std::vector<isa::HostTransfer> next);
  void take_result(const Stage& stage, const ChipStage& chip, StageStats& stats);
  void run_rearrange_stage(const Stage& stage, const RearrangeStage& rearrange, StageStats& stats);
  void run_host_stage(const Stage& stage, const HostStage& host, StageStats& stats);
  const Tensor& value(TensorId id) const;
  void set_value(TensorId id, Tensor tensor);
  void expect_constants();
  void write_image(const StreamImage& image, int64_t address);

  const CompiledModel& model_;
  RunnerOptions options_;
  std::shared_ptr<ChipInUse> chip_;
  int64_t preload_bytes_ = 0;
  int64_t preload_cycles_ = 0;
  bool is_prepared_ = false;
  StageStats preparation_;
  TensorMap inputs_;          ///< of this run; while inputs are kept, of runs before it
  std::set<TensorId> there_;  ///< inputs (storage) that are left out
  bool fetches_ties_ = true;
  int64_t slice_ = 0;  ///< that runs
  std::optional<Following> following_;
  int64_t cycles_ = 0;  ///< of this run until now
  /// By segment: what came beside it last, before and after plan_places.
  struct Planned {
    std::vector<isa::HostTransfer> next;
    std::vector<isa::HostTransfer> output;
    std::vector<isa::HostTransfer> result;
  };
  std::map<int, Planned> planned_;
  std::map<TensorId, Tensor> values_;    ///< by tensor, aliases with their own shape made on demand
  std::map<TensorId, Tensor> observed_;  ///< of all slices until now
};

/// Chip cycles of the stages (StageStats::chip_cycles) of a run, all slices together, without its values and
/// with the host doing one thing after the other: exact, but where addresses of transfers are known at run
/// time only.
std::vector<int64_t> predict_stages(const CompiledModel& model);

/// Checks one input, or all, against what the model wants (see ModelRunner::run).
void check_input(const CompiledModel& model, const std::string& name, const Tensor& tensor);
void check_inputs(const CompiledModel& model, const TensorMap& inputs);

}  // namespace kodama::compiler
