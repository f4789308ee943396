#include "compiler/runtime/runner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "compiler/reference/kernels/interpreter.h"
#include "compiler/reference/kernels/shares.h"
#include "compiler/runtime/host_cost.h"
#include "isa/arithmetic.h"
#include "isa/costs.h"
#include "isa/sequencer.h"

namespace kodama::compiler {
namespace {

int64_t image_bytes(const StreamImage& image) {
  int64_t bytes = 0;
  for (const auto& group : image.groups) bytes += static_cast<int64_t>(group.size() * sizeof(uint64_t));
  return bytes;
}

isa::HostTransfer host_transfer(const StreamImage& image, int64_t address) {
  isa::HostTransfer transfer;
  transfer.dram_address = address;
  for (const auto& words : image.groups) transfer.group_lw.push_back(static_cast<int64_t>(words.size()));
  return transfer;
}
/// Of constants it is known which groups have the same words.
isa::HostTransfer constant_transfer(const StreamImage& image, int64_t address) {
  isa::HostTransfer transfer = host_transfer(image, address);
  for (auto group = image.groups.begin(); group != image.groups.end(); ++group)
    transfer.same_as.push_back(
        static_cast<int>(std::find(image.groups.begin(), group, *group) - image.groups.begin()));
  return transfer;
}

/// LW of PDM 0 from 0 on that statements use. Where counters of loops change the address: all of it.
int64_t pdm_used(const std::vector<isa::Statement>& statements, const isa::Chip& chip) {
  int64_t used = 0;
  for (const isa::Statement& statement : statements) {
    if (const auto* loop = std::get_if<isa::Loop>(&statement.kind))
      used = std::max(used, pdm_used(loop->body, chip));
    const auto* mv = std::get_if<isa::Mv>(&statement.kind);
    if (mv == nullptr) continue;
    for (const auto* operands : {&mv->instruction.sources, &mv->instruction.destinations}) {
      for (const isa::Operand& operand : *operands) {
        if (operand.space != isa::Space::kPdm || operand.group > 0) continue;
        const bool moves =
            std::ranges::any_of(operand.loop_strides, [](int64_t stride) { return stride != 0; });
        used = std::max(used, moves ? chip.memory.pdm_lw : operand.base + mv->instruction.size_lw);
      }
    }
  }
  return std::min(used, chip.memory.pdm_lw);
}

/// Adds what each stage of a segment used: its region's share.
void add_usage(const Segment& segment, const simulator::Statistics& found, std::vector<StageStats>& stats) {
  for (size_t k = 0; k < stats.size(); ++k) {
    const auto& statement = segment.parts.program.statements[segment.parts.begin[k]];
    const std::string& name = std::get<isa::RegionMark>(statement.kind).name;
    for (const auto& region : found.regions) {
      if (region.path != name) continue;
      stats[k].chip.causes += region.usage.cycles;
      stats[k].chip.alu_ops = region.usage.alu;
      stats[k].chip.mau_ops = region.usage.mau;
      stats[k].chip.l1bm_ops = region.usage.l1bm;
      stats[k].chip.l2bm_ops = region.usage.l2bm;
      stats[k].dram_bytes = region.usage.bytes(simulator::Level::kDram);
    }
  }
}

/// The cycles of a segment's data, by the stages that they are for, in proportion to their bytes. What passes
/// the link for others is the last one's.
void share_host_cycles(const isa::CycleCauses& all, std::vector<StageStats>& stats) {
  const auto share = [&](int64_t isa::CycleCauses::*cycles, int64_t StageStats::*bytes) {
    double left_bytes = 0;
    for (const StageStats& each : stats) left_bytes += static_cast<double>(each.*bytes);
    int64_t left = all.*cycles;
    for (StageStats& each : stats) {
      const auto own = static_cast<double>(each.*bytes);
      const int64_t part = own > 0 ? std::llround(static_cast<double>(left) * own / left_bytes) : 0;
      each.chip.causes.*cycles += part;
      left -= part;
      left_bytes -= own;
    }
    stats.back().chip.causes.*cycles += left;
  };
  share(&isa::CycleCauses::host_input, &StageStats::bytes_to_chip);
  share(&isa::CycleCauses::host_output, &StageStats::bytes_from_chip);
}

/// `what` it is for: a tensor, a layer.
[[noreturn]] void throw_no_memory(const std::string& what) {
  throw isa::UnsupportedError(
      fmt::format("{}: this needs more memory than the process may have; set smaller dimensions (--dim), or "
                  "raise the limit",
                  what));
}

}  // namespace

StageStats& StageStats::operator+=(const StageStats& other) {
  chip += other.chip;
  dram_bytes += other.dram_bytes;
  host_dram_cycles += other.host_dram_cycles;
  bytes_to_chip += other.bytes_to_chip;
  bytes_from_chip += other.bytes_from_chip;
  bytes_permuted += other.bytes_permuted;
  host_relayouts += other.host_relayouts;
  host_layers += other.host_layers;
  host_bytes += other.host_bytes;
  host_operations += other.host_operations;
  host_seconds += other.host_seconds;
  wall_seconds += other.wall_seconds;
  return *this;
}

ModelRunner::ModelRunner(const CompiledModel& model, const RunnerOptions& options)
    : ModelRunner(model, options, std::make_shared<ChipInUse>(model.chip, options.machine)) {}

ModelRunner::ModelRunner(const CompiledModel& model, const RunnerOptions& options,
                         std::shared_ptr<ChipInUse> chip)
    : model_(model), options_(options), chip_(std::move(chip)) {
  std::vector<isa::HostTransfer> constants;
  expect_constants();
  for (const CompiledModel::Preload& preload : model_.preloads) {
    write_image(preload.image, preload.dram_address);
    constants.push_back(constant_transfer(preload.image, preload.dram_address));
  }
  preload_bytes_ = 8 * isa::link_lw(constants);
  if (preload_bytes_ > 0 && options_.timing) preload_cycles_ = isa::host_input_cycles(constants, model_.chip);
  for (const Segment& segment : model_.segments)
    chip_->pdm_used_lw =
        std::max(chip_->pdm_used_lw, pdm_used(segment.parts.program.statements, model_.chip));
}

void ModelRunner::expect_constants() {
  struct Extent {
    int64_t begin = INT64_MAX, end = 0;
  };
  std::vector<Extent> extents(static_cast<size_t>(model_.chip.groups));
  for (const CompiledModel::Preload& preload : model_.preloads) {
    for (size_t group = 0; group < preload.image.groups.size(); ++group) {
      const auto count = static_cast<int64_t>(preload.image.groups[group].size());
      if (count == 0) continue;
      extents[group].begin = std::min(extents[group].begin, preload.dram_address);
      extents[group].end = std::max(extents[group].end, preload.dram_address + count);
    }
  }
  for (size_t group = 0; group < extents.size(); ++group) {
    const auto [begin, end] = extents[group];
    if (end > 0) chip_->machine.expect_dram(static_cast<int>(group), begin, end - begin);
  }
}

void ModelRunner::write_image(const StreamImage& image, int64_t address) {
  for (size_t group = 0; group < image.groups.size(); ++group) {
    if (!image.groups[group].empty())
      chip_->machine.write_dram(static_cast<int>(group), address, image.groups[group]);
  }
}

const StageStats& ModelRunner::prepare() {
  if (is_prepared_ || model_.preparation.statements.empty()) return preparation_;
  simulator::RunOptions run;
  run.timing = options_.timing;
  run.hazards = options_.hazards;
  simulator::Profile profile;
  if (run.timing) run.profile = &profile;
  preparation_.chip = chip_->machine.run(model_.preparation, run);
  if (run.timing)
    preparation_.dram_bytes =
        simulator::statistics(profile, model_.chip).total.bytes(simulator::Level::kDram);
  is_prepared_ = true;
  return preparation_;
}

const Tensor& ModelRunner::value(TensorId id) const {
  const auto found = values_.find(id);
  isa::check_internal(found != values_.end(), "ModelRunner", "tensor '{}' is read before it is made",
                      model_.tensors[static_cast<size_t>(id)].name);
  return found->second;
}

void ModelRunner::set_value(TensorId id, Tensor tensor) {
  const auto observe = [&](TensorId observed, const Tensor& value) {
    if (options_.observe) model_.add_slice(observed, slice_, value, observed_[observed]);
  };
  observe(id, tensor);
  // Aliases are other shapes of the same elements; make those that exist now, so that value() stays a
  // look-up.
  const TensorId storage = model_.storage(id);
  for (size_t other = 0; other < model_.tensors.size(); ++other) {
    const auto other_id = static_cast<TensorId>(other);
    if (other_id == id || model_.storage(other_id) != storage) continue;
    Tensor view = tensor.reinterpreted(model_.tensors[other].type, model_.tensors[other].shape);
    observe(other_id, view);
    values_[other_id] = std::move(view);
  }
  values_[id] = std::move(tensor);
}

RunOutcome ModelRunner::run(TensorMap inputs, simulator::RunReport* report, bool next) {
  check_inputs(model_, inputs);
  there_.clear();
  following_.reset();
  if (next) following_ = {first_input(), 0};
  inputs_ = std::move(inputs);
  fetches_ties_ = true;
  return run_all_slices(report);
}

RunOutcome ModelRunner::run(TensorMap inputs, const std::optional<Following>& following) {
  check_inputs(model_, inputs);
  there_.clear();
  following_ = following;
  inputs_ = std::move(inputs);
  fetches_ties_ = true;
  return run_all_slices(nullptr);
}

std::vector<isa::HostTransfer> ModelRunner::first_input() const {
  if (model_.segments.empty() || model_.segments.front().first_stage != 0) return {};
  return early_input(model_.segments.front(), true);
}

RunOutcome ModelRunner::run_again(const TensorMap& changed, simulator::RunReport* report) {
  isa::check_internal(model_.keeps_inputs, "ModelRunner", "'{}' keeps no inputs", model_.name);
  const bool is_first = inputs_.empty();
  for (const auto& [name, tensor] : changed) inputs_[name] = tensor;
  check_inputs(model_, inputs_);
  following_.reset();
  chip_->next_is_there = false;  // it was of other inputs
  there_.clear();
  for (const TensorId id : model_.inputs) {
    if (!is_first && !changed.contains(model_.tensors[static_cast<size_t>(id)].name))
      there_.insert(model_.storage(id));
  }
  fetches_ties_ = false;
  return run_all_slices(report);
}

Tensor ModelRunner::fetch_tied(const Tie& tie, StageStats& stats) {
  for (const Stage& stage : model_.stages) {
    const auto* chip = std::get_if<ChipStage>(&stage.body);
    if (chip == nullptr || !chip->fetch ||
        model_.storage(chip->result.placement.access.tensor) != model_.storage(tie.output))
      continue;
    StageStats own;
    take_result(stage, *chip, own);
    const isa::HostTransfer transfer =
        host_transfer(empty_stream(chip->result.placement, model_.chip), chip->result.dram_address);
    own.bytes_from_chip = 8 * transfer.link_lw();
    if (options_.timing) own.chip.causes.host_output = isa::host_input_cycles({transfer}, model_.chip);
    stats += own;
    return value(tie.output);
  }
  throw isa::InternalError("internal error in ModelRunner: nothing makes the output of a tie");
}

bool ModelRunner::is_there(TensorId tensor) const {
  return there_.contains(model_.storage(tensor));
}

bool ModelRunner::stays_on_chip(TensorId tensor) const {
  return std::ranges::any_of(model_.ties, [&](const Tie& tie) {
    return !tie.fetch && model_.storage(tie.output) == model_.storage(tensor);
  });
}

RunOutcome ModelRunner::run_all_slices(simulator::RunReport* report) {
  prepare();
  RunOutcome outcome;
  outcome.preparation = preparation_;
  outcome.preload_bytes = preload_bytes_;
  outcome.preload_link_cycles = preload_cycles_;
  outcome.stages.resize(model_.stages.size());
  observed_.clear();
  cycles_ = 0;
  try {
    for (slice_ = 0; slice_ < model_.slices; ++slice_) run_slice(report, outcome);
  } catch (...) {
    chip_->is_queued = chip_->next_is_there = false;
    chip_->leaving = 0;
    throw;
  }
  if (!following_) chip_->is_queued = false;
  const bool host_is_last = !model_.stages.empty() && !model_.stages.back().on_chip();
  if (host_is_last || outcome.results_there == 0) outcome.results_there = cycles_;
  for (const auto& [id, tensor] : observed_)
    options_.observe(model_.tensors[static_cast<size_t>(id)].name, tensor);
  const auto all = static_cast<int64_t>(model_.stages.size()) * model_.slices;
  if (options_.progress) options_.progress(all, all, "");
  return outcome;
}

void ModelRunner::begin_slice() {
  values_.clear();
  for (size_t id = 0; id < model_.tensors.size(); ++id) {
    if (model_.tensors[id].constant) set_value(static_cast<TensorId>(id), *model_.tensors[id].constant);
  }
  // Whether no other slice, share or run looks at the inputs of this one.
  const bool is_last_look = model_.slices == 1 && !model_.keeps_inputs && !options_.mean_of_shares;
  for (const TensorId id : model_.inputs) {
    Tensor& whole = inputs_.at(model_.tensors[static_cast<size_t>(id)].name);
    set_value(id, is_last_look ? std::move(whole) : model_.slice_of(id, slice_, whole));
  }
}

void ModelRunner::begin_share(const TensorMap& changed, int64_t stage) {
  for (const auto& [name, tensor] : changed) inputs_[name] = tensor;
  check_inputs(model_, inputs_);
  if (model_.keeps_inputs) {
    // What only later stages get hasn't been sent yet.
    std::set<TensorId> later;
    for (size_t k = static_cast<size_t>(stage); k < model_.stages.size(); ++k) {
      const auto* chip = std::get_if<ChipStage>(&model_.stages[k].body);
      if (chip == nullptr) continue;
      for (const StreamBinding& operand : chip->operands) {
        if (operand.origin == StreamBinding::Origin::kSent)
          later.insert(model_.storage(operand.placement.access.tensor));
      }
    }
    for (const TensorId id : model_.inputs) {
      const TensorId storage = model_.storage(id);
      if (changed.contains(model_.tensors[static_cast<size_t>(id)].name)) {
        there_.erase(storage);
      } else if (!later.contains(storage)) {
        there_.insert(storage);
      }
    }
  }
  begin_slice();
}

void ModelRunner::run_slice(simulator::RunReport* report, RunOutcome& outcome) {
  begin_slice();
  const auto count = static_cast<int64_t>(model_.stages.size());
  auto segment = model_.segments.begin();
  for (int64_t index = 0; index < count;) {
    const Stage& stage = model_.stages[static_cast<size_t>(index)];
    show_progress(index);
    const auto start = std::chrono::steady_clock::now();
    std::vector<StageStats> stats;
    TensorMap changed;
    bool ends_share = false;
    try {
      if (stage.on_chip()) {
        isa::check_internal(segment != model_.segments.end() && segment->first_stage == index, "ModelRunner",
                            "stage {} has no segment", index);
        stats = run_segment(*segment++, report, outcome);
      } else if (const auto* rearrange = std::get_if<RearrangeStage>(&stage.body)) {
        run_rearrange_stage(stage, *rearrange, stats.emplace_back());
      } else {
        const auto& host = std::get<HostStage>(stage.body);
        stats.emplace_back();
        if (options_.mean_of_shares && is_mean_of_shares(host.node.domain, host.node.op_type)) {
          ends_share = !run_mean_of_shares(stage, changed, stats.back());
        } else {
          run_host_stage(stage, host, stats.back());
        }
      }
    } catch (const std::bad_alloc&) {
      throw_no_memory(fmt::format("layer '{}' of model '{}'", stage.name, model_.name));
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!stage.on_chip()) {
      stats.back().host_layers = 1;
      stats.back().host_seconds = seconds;
      for (const std::vector<TensorId>& ids : {stage.inputs, stage.outputs}) {
        for (const TensorId id : ids) {
          if (id >= 0 && values_.contains(id))
            stats.back().host_bytes += static_cast<int64_t>(value(id).byte_size());
        }
      }
      chip_->is_queued = false;  // what comes behind it is called when its values are there
      if (options_.timing)
        stats.back().chip.causes.host_compute =
            isa::host_computation_cycles(stats.back().host_bytes, stats.back().host_operations, model_.chip);
      cycles_ += stats.back().chip.cycles();
      // Results leave the chip meanwhile.
      chip_->leaving = std::max<int64_t>(chip_->leaving - stats.back().chip.cycles(), 0);
    }
    int64_t steps = 0;
    for (const StageStats& each : stats) steps += each.chip.steps + 1;
    for (StageStats& each : stats) {
      // Of a segment only the whole is measured.
      each.wall_seconds = seconds * static_cast<double>(each.chip.steps + 1) / static_cast<double>(steps);
      outcome.total += each;
      outcome.stages[static_cast<size_t>(index++)] += each;
    }
    if (ends_share) {
      begin_share(changed, index);
      segment = model_.segments.begin();
      index = 0;
    }
  }
  for (const Check& check : model_.checks) throw_if_failed(check, value(check.tensor));
  for (const TensorId id : model_.outputs) {
    if (!fetches_ties_ && stays_on_chip(id)) continue;
    const Tensor& found = value(id);
    Tensor& output = outcome.outputs[model_.tensors[static_cast<size_t>(id)].name];
    if (model_.slices == 1) {
      output = std::move(values_.at(id));  // the run is over
    } else {
      model_.add_slice(id, slice_, found, output);
    }
  }
}

void ModelRunner::show_progress(int64_t stage) const {
  if (!options_.progress) return;
  const auto count = static_cast<int64_t>(model_.stages.size());
  options_.progress(slice_ * count + stage, model_.slices * count,
                    model_.stages[static_cast<size_t>(stage)].name);
}

isa::HostTransfer ModelRunner::send(const StreamBinding& operand, StageStats& stats) {
  const StreamImage image =
      pack_stream(operand.placement, value(operand.placement.access.tensor), model_.chip);
  write_image(image, operand.dram_address);
  isa::HostTransfer transfer = host_transfer(image, operand.dram_address);
  stats.bytes_to_chip += 8 * transfer.link_lw();
  if (operand.host_relayout) {
    stats.bytes_permuted += image_bytes(image);
    ++stats.host_relayouts;
  }
  return transfer;
}

std::vector<isa::HostTransfer> ModelRunner::early_input(const Segment& segment, bool of_next_slice) const {
  std::vector<isa::HostTransfer> input;
  for (int stage = segment.first_stage; stage < segment.end_stage(); ++stage) {
    const auto& chip = std::get<ChipStage>(model_.stages[static_cast<size_t>(stage)].body);
    for (const StreamBinding& operand : chip.operands) {
      if (operand.origin != StreamBinding::Origin::kSent) continue;
      const TensorId id = operand.placement.access.tensor;
      if (is_there(id)) continue;
      const bool of_input = std::ranges::any_of(
          model_.inputs, [&](TensorId input) { return model_.storage(input) == model_.storage(id); });
      const bool known = of_input || model_.tensors[static_cast<size_t>(id)].constant.has_value() ||
                         (!of_next_slice && values_.contains(id));
      if (!known) return {};
      input.push_back(host_transfer(empty_stream(operand.placement, model_.chip), operand.dram_address));
    }
  }
  return input;
}

const std::vector<isa::HostTransfer>& ModelRunner::planned(const Segment& segment, const isa::HostWork& host,
                                                           std::vector<isa::HostTransfer> next) {
  Planned& planned = planned_[segment.first_stage];
  if (planned.next != next || planned.output != host.output) {
    planned.result = next;
    isa::plan_places(planned.result, segment.parts.program, host.output, model_.chip);
    planned.next = std::move(next);
    planned.output = host.output;
  }
  return planned.result;
}

void ModelRunner::plan_host(const Segment& segment, isa::HostWork& host) {
  host.launch = !chip_->is_queued;
  if (!options_.host_overlaps) return;
  chip_->is_queued = true;
  host.pdm_from = chip_->pdm_used_lw;
  host.leaving_until = chip_->leaving;
  if (std::exchange(chip_->next_is_there, false)) host.input.clear();
  const bool is_last = segment.end_stage() == static_cast<int>(model_.stages.size());
  const bool is_last_slice = slice_ + 1 == model_.slices;
  const auto next = std::ranges::find(model_.segments, segment.end_stage(), &Segment::first_stage);
  // Only what comes right behind: what the host computes in between would have to wait for results first.
  if (next != model_.segments.end()) {
    host.next = planned(segment, host, early_input(*next, false));
  } else if (is_last && !is_last_slice) {
    host.next = planned(segment, host, first_input());
  } else if (is_last && following_) {
    host.next = planned(segment, host, following_->input);
    host.next_from = following_->from - cycles_;
  }
  const isa::ProgramCounts counts = isa::count(segment.parts.program);
  host.words = counts.steps + counts.mvs;
  if (is_last && (!is_last_slice || following_))
    host.kept_lw = std::min(isa::host_half_lw(model_.chip, host.pdm_from), isa::link_lw(host.output));
}

std::vector<StageStats> ModelRunner::run_segment(const Segment& segment, simulator::RunReport* report,
                                                 RunOutcome& outcome) {
  const auto count = static_cast<size_t>(segment.stage_count());
  const auto chip_stage = [&](size_t k) -> const ChipStage& {
    return std::get<ChipStage>(model_.stages[static_cast<size_t>(segment.first_stage) + k].body);
  };
  std::vector<StageStats> stats(count);
  simulator::RunOptions run;
  run.timing = options_.timing;
  run.hazards = options_.hazards;
  for (size_t k = 0; k < count; ++k) {
    for (const StreamBinding& operand : chip_stage(k).operands) {
      if (operand.origin == StreamBinding::Origin::kSent && !is_there(operand.placement.access.tensor))
        run.host.input.push_back(send(operand, stats[k]));
    }
    const StreamBinding& result = chip_stage(k).result;
    if (!is_fetched(chip_stage(k))) continue;
    isa::HostTransfer transfer =
        host_transfer(empty_stream(result.placement, model_.chip), result.dram_address);
    stats[k].bytes_from_chip += 8 * transfer.link_lw();
    run.host.output.push_back(std::move(transfer));
  }
  plan_host(segment, run.host);
  // What a stage's own statements are; transfers for it may be in those before it.
  std::vector<int64_t> steps_before{0};
  for (size_t k = 0; k < count; ++k) {
    const isa::ProgramCounts counts = isa::count(segment.slice(segment.first_stage + static_cast<int>(k)));
    stats[k].chip.steps = counts.steps;
    stats[k].chip.nops = counts.nops;
    stats[k].chip.mvs = counts.mvs;
    steps_before.push_back(steps_before.back() + counts.steps);
  }
  if (options_.progress) {
    run.progress = [&](int64_t steps) {
      const auto behind = std::ranges::upper_bound(steps_before, steps) - steps_before.begin();
      const int64_t stage =
          segment.first_stage + std::min<int64_t>(behind - 1, static_cast<int64_t>(count) - 1);
      show_progress(stage);
    };
  }
  simulator::Profile own_profile;
  if (report != nullptr) report->attach(options_.name, run);
  if (run.timing && run.profile == nullptr) run.profile = &own_profile;
  const simulator::RunStats total = chip_->machine.run(segment.parts.program, run);
  if (run.timing) {
    chip_->next_is_there = total.host.next_there >= 0;
    outcome.following_there = chip_->next_is_there ? cycles_ + total.host.next_there : -1;
    const int64_t leave = std::max(total.host.results_there, run.host.leaving_until);
    chip_->leaving = std::max<int64_t>(leave - total.cycles(), 0);
    if (!run.host.output.empty()) outcome.results_there = cycles_ + total.host.results_there;
    cycles_ += total.cycles();
    add_usage(segment, simulator::statistics(*run.profile, model_.chip), stats);
    stats.back().host_dram_cycles += run.profile->host_dram_cycles;  // of the segment as a whole
    // The last transfers belong to no statement.
    stats.back().chip.causes.drain += total.causes.drain;
    stats.front().chip.causes.launch += total.causes.launch;
    share_host_cycles(total.causes, stats);
    int64_t cycles = 0;
    for (const StageStats& each : stats) cycles += each.chip.cycles();
    isa::check_internal(cycles == total.cycles(), "ModelRunner", "the stages of '{}' have {} of {} cycles",
                        segment.parts.program.source_name, cycles, total.cycles());
  } else {
    for (StageStats& each : stats) each.chip.causes = {};
  }
  for (size_t k = 0; k < count; ++k) {
    const ChipStage& chip = chip_stage(k);
    // Watching a tensor costs the model nothing.
    if (is_fetched(chip) || (options_.observe && chip.stored))
      take_result(model_.stages[static_cast<size_t>(segment.first_stage) + k], chip, stats[k]);
  }
  return stats;
}

bool ModelRunner::is_fetched(const ChipStage& chip) const {
  return chip.fetch && (fetches_ties_ || !stays_on_chip(chip.result.placement.access.tensor));
}

void ModelRunner::take_result(const Stage& stage, const ChipStage& chip, StageStats& stats) {
  if (stage.outputs.empty()) return;
  StreamImage image = empty_stream(chip.result.placement, model_.chip);
  for (size_t group = 0; group < image.groups.size(); ++group) {
    if (!image.groups[group].empty()) {
      chip_->machine.read_dram(static_cast<int>(group), chip.result.dram_address, image.groups[group]);
    }
  }
  if (chip.fetch && chip.result.host_relayout) {
    stats.bytes_permuted += image_bytes(image);
    ++stats.host_relayouts;
  }
  const TensorId id = stage.outputs.at(0);
  const LayerTensor& info = model_.tensors[static_cast<size_t>(id)];
  Tensor result(info.type, info.shape);
  unpack_stream(chip.result.placement, image, result, model_.chip);
  set_value(id, std::move(result));
}

void ModelRunner::run_rearrange_stage(const Stage& stage, const RearrangeStage& rearrange,
                                      StageStats& stats) {
  std::vector<const Tensor*> pieces;
  for (TensorId id : stage.inputs) pieces.push_back(&value(id));
  const TensorId id = stage.outputs.at(0);
  Tensor result = run_rearrange(rearrange.rearrange, model_.tensors[static_cast<size_t>(id)].type, pieces);
  stats.bytes_permuted += static_cast<int64_t>(result.byte_size());
  stats.host_operations += result.size();
  ++stats.host_relayouts;
  set_value(id, std::move(result));
}

void ModelRunner::run_host_stage(const Stage& stage, const HostStage& host, StageStats& stats) {
  std::vector<const Tensor*> inputs;
  for (const TensorId id : stage.inputs) inputs.push_back(id >= 0 ? &value(id) : nullptr);
  std::vector<Tensor> outputs = reference::run_node(host.node, inputs);
  stats.host_operations += host_operations(host.node.op_type, inputs, outputs);
  for (size_t k = 0; k < stage.outputs.size(); ++k) {
    if (stage.outputs[k] < 0) continue;
    const LayerTensor& info = model_.tensors[static_cast<size_t>(stage.outputs[k])];
    const Tensor& found = outputs[k];
    if (found.type() != info.type || found.shape() != info.shape)
      throw isa::UserError(
          fmt::format("Host layer '{}': found {} of shape {} for output '{}', allowed: {} of "
                      "shape {}",
                      stage.name, data_type_name(found.type()), shape_to_string(found.shape()), info.name,
                      data_type_name(info.type), shape_to_string(info.shape)));
    set_value(stage.outputs[k], std::move(outputs[k]));
  }
}

bool ModelRunner::run_mean_of_shares(const Stage& stage, TensorMap& changed, StageStats& stats) {
  std::vector<const Tensor*> operands;
  for (const TensorId id : stage.inputs) {
    operands.push_back(&value(id));
    stats.host_operations += operands.back()->size();
  }
  std::optional<std::vector<Tensor>> means = options_.mean_of_shares(operands, changed);
  if (!means) return false;
  for (size_t k = 0; k < stage.outputs.size(); ++k) {
    if (stage.outputs[k] >= 0) set_value(stage.outputs[k], std::move(means->at(k)));
  }
  return true;
}

std::vector<int64_t> predict_stages(const CompiledModel& model) {
  std::vector<int64_t> cycles(model.stages.size(), 0);
  for (const Segment& segment : model.segments) {
    isa::CyclePredictor predictor(model.chip);
    isa::HostWork host;
    for (int stage = segment.first_stage; stage < segment.end_stage(); ++stage) {
      const auto& chip = std::get<ChipStage>(model.stages[static_cast<size_t>(stage)].body);
      for (const StreamBinding& operand : chip.operands) {
        if (operand.origin == StreamBinding::Origin::kSent)
          host.input.push_back(
              host_transfer(empty_stream(operand.placement, model.chip), operand.dram_address));
      }
    }
    host.launch = true;
    predictor.host_begin(host);
    const auto until_now = [&](bool is_end) {
      const isa::CycleCauses causes = isa::CyclePredictor(predictor).finish();
      return causes.total() - causes.of_host() - (is_end ? 0 : causes.drain);
    };
    int64_t before = 0;
    for (int stage = segment.first_stage; stage < segment.end_stage(); ++stage) {
      predictor.run(segment.slice(stage).statements);
      const int64_t now = until_now(stage + 1 == segment.end_stage());
      cycles[static_cast<size_t>(stage)] = (now - before) * model.slices;
      before = now;
    }
  }
  return cycles;
}

void check_input(const CompiledModel& model, const std::string& name, const Tensor& tensor) {
  std::vector<std::string> names;
  for (TensorId id : model.inputs) names.push_back(model.tensors[static_cast<size_t>(id)].name);
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    throw isa::UserError(fmt::format("model '{}' has no input '{}'; its inputs are: {}", model.name, name,
                                     names.empty() ? "(none)" : fmt::format("{}", fmt::join(names, ", "))));
  }
  const TensorId id = model.inputs[static_cast<size_t>(found - names.begin())];
  const LayerTensor& info = model.tensors[static_cast<size_t>(id)];
  if (tensor.type() != info.type) {
    throw isa::UserError(fmt::format("input '{}' of model '{}': found type {}, allowed is {}", name,
                                     model.name, data_type_name(tensor.type()), data_type_name(info.type)));
  }
  const Shape shape = model.whole_shape(id);
  if (tensor.shape() != shape) {
    throw isa::UserError(fmt::format("input '{}' of model '{}': found shape {}, allowed is {}", name,
                                     model.name, shape_to_string(tensor.shape()), shape_to_string(shape)));
  }
}

void check_inputs(const CompiledModel& model, const TensorMap& inputs) {
  for (const auto& [name, tensor] : inputs) check_input(model, name, tensor);
  for (const TensorId id : model.inputs) {
    const std::string& name = model.tensors[static_cast<size_t>(id)].name;
    if (!inputs.contains(name))
      throw isa::UserError(fmt::format("model '{}': input '{}' is not given", model.name, name));
  }
}

}  // namespace kodama::compiler
