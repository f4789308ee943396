#include "compiler/runtime/runner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>

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
  bytes_to_chip += other.bytes_to_chip;
  bytes_from_chip += other.bytes_from_chip;
  bytes_permuted += other.bytes_permuted;
  host_relayouts += other.host_relayouts;
  host_layers += other.host_layers;
  host_bytes += other.host_bytes;
  host_seconds += other.host_seconds;
  link_cycles += other.link_cycles;
  wall_seconds += other.wall_seconds;
  return *this;
}

ModelRunner::ModelRunner(const CompiledModel& model, const RunnerOptions& options)
    : model_(model), options_(options), machine_(model.chip, options.machine) {
  for (const CompiledModel::Preload& preload : model_.preloads) {
    write_image(preload.image, preload.dram_address);
    preload_bytes_ += image_bytes(preload.image);
  }
}

void ModelRunner::write_image(const StreamImage& image, int64_t address) {
  for (size_t group = 0; group < image.groups.size(); ++group) {
    if (!image.groups[group].empty())
      machine_.write_dram(static_cast<int>(group), address, image.groups[group]);
  }
}

void ModelRunner::prepare() {
  if (is_prepared_ || model_.preparation.statements.empty()) return;
  simulator::RunOptions run;
  run.timing = options_.timing;
  run.hazards = options_.hazards;
  simulator::Profile profile;
  if (run.timing) run.profile = &profile;
  preparation_.chip = machine_.run(model_.preparation, run);
  if (run.timing)
    preparation_.dram_bytes =
        simulator::statistics(profile, model_.chip).total.bytes(simulator::Level::kDram);
  is_prepared_ = true;
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
    Tensor view = tensor.reshaped(model_.tensors[other].shape);
    observe(other_id, view);
    values_[other_id] = std::move(view);
  }
  values_[id] = std::move(tensor);
}

RunOutcome ModelRunner::run(const TensorMap& inputs, simulator::RunReport* report) {
  check_inputs(model_, inputs);
  prepare();
  RunOutcome outcome;
  outcome.preparation = preparation_;
  outcome.preload_bytes = preload_bytes_;
  outcome.preload_link_cycles = preload_bytes_ > 0 ? isa::host_link_cycles(preload_bytes_, model_.chip) : 0;
  outcome.stages.resize(model_.stages.size());
  observed_.clear();
  for (slice_ = 0; slice_ < model_.slices; ++slice_) run_slice(inputs, report, outcome);
  for (const auto& [id, tensor] : observed_)
    options_.observe(model_.tensors[static_cast<size_t>(id)].name, tensor);
  const auto all = static_cast<int64_t>(model_.stages.size()) * model_.slices;
  if (options_.progress) options_.progress(all, all, "");
  return outcome;
}

void ModelRunner::run_slice(const TensorMap& inputs, simulator::RunReport* report, RunOutcome& outcome) {
  values_.clear();
  for (size_t id = 0; id < model_.tensors.size(); ++id) {
    if (model_.tensors[id].constant) set_value(static_cast<TensorId>(id), *model_.tensors[id].constant);
  }
  for (const TensorId id : model_.inputs) {
    const Tensor& whole = inputs.at(model_.tensors[static_cast<size_t>(id)].name);
    set_value(id, model_.slice_of(id, slice_, whole));
  }
  const auto count = static_cast<int64_t>(model_.stages.size());
  auto segment = model_.segments.begin();
  for (int64_t index = 0; index < count;) {
    const Stage& stage = model_.stages[static_cast<size_t>(index)];
    show_progress(index);
    const auto start = std::chrono::steady_clock::now();
    std::vector<StageStats> stats;
    try {
      if (stage.on_chip()) {
        isa::check_internal(segment != model_.segments.end() && segment->first_stage == index, "ModelRunner",
                            "stage {} has no segment", index);
        stats = run_segment(*segment++, report);
      } else if (const auto* rearrange = std::get_if<RearrangeStage>(&stage.body)) {
        run_rearrange_stage(stage, *rearrange, stats.emplace_back());
      } else {
        stats.emplace_back();
        run_host_stage(stage, std::get<HostStage>(stage.body));
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
          if (id >= 0) stats.back().host_bytes += static_cast<int64_t>(value(id).byte_size());
        }
      }
    }
    int64_t steps = 0;
    for (const StageStats& each : stats) steps += each.chip.steps + 1;
    for (StageStats& each : stats) {
      // Of a segment only the whole is measured.
      each.wall_seconds = seconds * static_cast<double>(each.chip.steps + 1) / static_cast<double>(steps);
      outcome.total += each;
      outcome.stages[static_cast<size_t>(index++)] += each;
    }
  }
  for (const TensorId id : model_.outputs)
    model_.add_slice(id, slice_, value(id), outcome.outputs[model_.tensors[static_cast<size_t>(id)].name]);
}

void ModelRunner::show_progress(int64_t stage) const {
  if (!options_.progress) return;
  const auto count = static_cast<int64_t>(model_.stages.size());
  options_.progress(slice_ * count + stage, model_.slices * count,
                    model_.stages[static_cast<size_t>(stage)].name);
}

void ModelRunner::send(const StreamBinding& operand, StageStats& stats) {
  const StreamImage image =
      pack_stream(operand.placement, value(operand.placement.access.tensor), model_.chip);
  write_image(image, operand.dram_address);
  const int64_t bytes = image_bytes(image);
  stats.bytes_to_chip += bytes;
  stats.chip.causes.host_input += isa::host_link_cycles(bytes, model_.chip);
  if (operand.host_relayout) {
    stats.bytes_permuted += bytes;
    ++stats.host_relayouts;
  }
}

std::vector<StageStats> ModelRunner::run_segment(const Segment& segment, simulator::RunReport* report) {
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
      if (operand.origin != StreamBinding::Origin::kSent) continue;
      const int64_t before = stats[k].bytes_to_chip;
      send(operand, stats[k]);
      run.host_input.push_back(stats[k].bytes_to_chip - before);
    }
    if (chip_stage(k).fetch) {
      const int64_t bytes = image_bytes(empty_stream(chip_stage(k).result.placement, model_.chip));
      run.host_output.push_back(bytes);
      stats[k].chip.causes.host_output += isa::host_link_cycles(bytes, model_.chip);
    }
  }
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
  if (report != nullptr) report->attach("", run);
  if (run.timing && run.profile == nullptr) run.profile = &own_profile;
  const simulator::RunStats total = machine_.run(segment.parts.program, run);
  if (run.timing) {
    add_usage(segment, simulator::statistics(*run.profile, model_.chip), stats);
    // The last transfers belong to no statement.
    stats.back().chip.causes.drain += total.causes.drain;
    int64_t cycles = 0;
    for (const StageStats& each : stats) cycles += each.chip.cycles();
    isa::check_internal(cycles == total.cycles(), "ModelRunner", "the stages of '{}' have {} of {} cycles",
                        segment.parts.program.source_name, cycles, total.cycles());
  } else {
    for (StageStats& each : stats) each.chip.causes = {};
  }
  for (size_t k = 0; k < count; ++k) {
    stats[k].link_cycles = stats[k].chip.causes.host_input + stats[k].chip.causes.host_output;
    take_result(model_.stages[static_cast<size_t>(segment.first_stage) + k], chip_stage(k), stats[k]);
  }
  return stats;
}

void ModelRunner::take_result(const Stage& stage, const ChipStage& chip, StageStats& stats) {
  // Watching a tensor costs the model nothing.
  if (stage.outputs.empty() || (!chip.fetch && (!options_.observe || !chip.stored))) return;
  StreamImage image = empty_stream(chip.result.placement, model_.chip);
  for (size_t group = 0; group < image.groups.size(); ++group) {
    if (!image.groups[group].empty()) {
      machine_.read_dram(static_cast<int>(group), chip.result.dram_address, image.groups[group]);
    }
  }
  if (chip.fetch) {
    const int64_t bytes = image_bytes(image);
    stats.bytes_from_chip += bytes;
    if (chip.result.host_relayout) {
      stats.bytes_permuted += bytes;
      ++stats.host_relayouts;
    }
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
  ++stats.host_relayouts;
  set_value(id, std::move(result));
}

void ModelRunner::run_host_stage(const Stage& stage, const HostStage& host) {
  OperatorSets operators(model_.opset.contains("") ? model_.opset.at("") : 17);
  std::map<std::string, const Tensor*> known;
  for (TensorId id : stage.inputs) {
    if (id >= 0) known[model_.tensors[static_cast<size_t>(id)].name] = &value(id);
  }
  std::map<std::string, Tensor> made;
  for (const onnx::NodeProto& node : host.nodes) {
    std::vector<const Tensor*> inputs;
    for (const std::string& name : node.input()) {
      if (name.empty()) {
        inputs.push_back(nullptr);
        continue;
      }
      const auto found = known.find(name);
      isa::check_internal(found != known.end(), "ModelRunner", "Host layer '{}' reads unknown value '{}'",
                          stage.name, name);
      inputs.push_back(found->second);
    }
    std::vector<Tensor> outputs = run_node(node, inputs, operators);
    for (int k = 0; k < node.output_size() && k < static_cast<int>(outputs.size()); ++k) {
      if (node.output(k).empty()) continue;
      made[node.output(k)] = std::move(outputs[static_cast<size_t>(k)]);
      known[node.output(k)] = &made[node.output(k)];
    }
  }
  for (TensorId id : stage.outputs) {
    if (id < 0) continue;
    const LayerTensor& info = model_.tensors[static_cast<size_t>(id)];
    const auto found = known.find(info.name);
    if (found == known.end() || found->second->type() != info.type || found->second->shape() != info.shape)
      throw isa::UserError(
          fmt::format("Host layer '{}': found {} for output '{}', allowed: {} of shape {}", stage.name,
                      found == known.end() ? "nothing"
                                           : data_type_name(found->second->type()) + " of shape " +
                                                 shape_to_string(found->second->shape()),
                      info.name, data_type_name(info.type), shape_to_string(info.shape)));
    set_value(id, *found->second);
  }
}

std::vector<int64_t> predict_stages(const CompiledModel& model) {
  std::vector<int64_t> cycles(model.stages.size(), 0);
  for (const Segment& segment : model.segments) {
    isa::CyclePredictor predictor(model.chip);
    for (int stage = segment.first_stage; stage < segment.end_stage(); ++stage) {
      for (const StreamBinding& operand :
           std::get<ChipStage>(model.stages[static_cast<size_t>(stage)].body).operands) {
        if (operand.origin == StreamBinding::Origin::kSent)
          predictor.host_input(image_bytes(empty_stream(operand.placement, model.chip)));
      }
    }
    const auto until_now = [&](bool is_end) {
      const isa::CycleCauses causes = isa::CyclePredictor(predictor).finish();
      return causes.total() - causes.host_input - (is_end ? 0 : causes.drain);
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

void check_inputs(const CompiledModel& model, const TensorMap& inputs) {
  std::vector<std::string> names;
  for (TensorId id : model.inputs) names.push_back(model.tensors[static_cast<size_t>(id)].name);
  for (const auto& [name, tensor] : inputs) {
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
  for (const std::string& name : names) {
    if (!inputs.contains(name))
      throw isa::UserError(fmt::format("model '{}': input '{}' is not given", model.name, name));
  }
}

}  // namespace kodama::compiler
