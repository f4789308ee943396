#include "compiler/compile/compile_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "compiler/compile/dram_placement.h"
#include "compiler/compile/fetch_ahead.h"
#include "compiler/compile/keep_results.h"
#include "compiler/compile/keep_windows.h"
#include "compiler/compile/local_memory.h"
#include "compiler/compile/plan_slices.h"
#include "compiler/compile/resident.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/graph/passes.h"
#include "compiler/kernels/fill_rows.h"
#include "compiler/kernels/fuse_normalizations.h"
#include "compiler/kernels/lowering.h"
#include "compiler/kernels/pad_channels.h"
#include "compiler/kernels/split_axes.h"
#include "compiler/kernels/split_columns.h"
#include "compiler/kernels/split_gathers.h"
#include "compiler/kernels/split_products.h"
#include "compiler/kernels/split_reductions.h"
#include "compiler/layers/batch.h"
#include "compiler/layers/fusion.h"
#include "compiler/lowering/lowering.h"
#include "compiler/package/compiled_model.h"
#include "compiler/plan/problem_bound.h"
#include "compiler/tensor/fresh_names.h"
#include "isa/parallel.h"
#include "passes/registry.h"
#include "scheduler/machine/passes.h"
#include "scheduler/verify/verify.h"

namespace kodama::compiler {
namespace {

/// The operations of a relayout as they were written, before they were packed into steps.
scheduler::MachineProgram one_after_the_other(const std::string& name,
                                              std::vector<layout::PackedItem> items) {
  scheduler::Block block;
  for (layout::PackedItem& item : items) {
    isa::Instruction instruction;
    if (const auto* wait = std::get_if<layout::WaitFor>(&item)) {
      instruction.opcode = isa::Opcode::kWait;
      instruction.tag = wait->tag;
    } else {
      instruction = std::move(std::get<layout::PackedInstruction>(item).instruction);
    }
    block.operations.push_back({std::move(instruction), "relayout"});
  }
  return {name, {}, {{std::move(block)}}};
}

class ModelCompiler {
 public:
  ModelCompiler(SlicedPlan planned, const isa::Chip& chip, const CompileOptions& options,
                CompiledModel& result)
      : chip_(chip),
        options_(options),
        result_(result),
        planned_(std::move(planned)),
        graph_(*planned_.graph),
        plan_(planned_.plan) {}

  void run() {
    ModelPlanner& planner = *planned_.planner;
    result_.name = graph_.name;
    result_.slices = planned_.slices;
    result_.keeps_inputs = options_.keeps_inputs && planned_.slices == 1;
    if (result_.keeps_inputs) result_.ties = add_ties(planned_.plan, graph_, options_.ties);
    verify_model_plan(plan_, graph_);
    result_.plan = plan_.summary;
    if (options_.wants_dump("plan"))
      options_.dump("plan", graph_.name, "json", to_json(plan_, graph_, planner));
    find_segments();
    try {
      make_stages(planner);
    } catch (const DramOverflow&) {
      // Images of a segment don't share DRAM; those of stages that run one by one do.
      for (size_t k = 0; k < segment_end_.size(); ++k)
        segment_begin_[k] = segment_end_[k] = static_cast<int>(k);
      make_stages(planner);
    }
    find_host_relayouts();
    result_.tensors = graph_.tensors;
    result_.inputs = graph_.inputs;
    result_.outputs = graph_.outputs;
    result_.outputs.resize(graph_.outputs.size() - graph_.checks.size());
    result_.checks = graph_.checks;
    result_.slice_axes = planned_.axes;
    result_.slice_axes.resize(result_.tensors.size(), Batch::kSame);
    drop_unread_constants();
  }

 private:
  const Layer& layer_of(const PlannedStage& stage) const {
    return graph_.layers[static_cast<size_t>(stage.layer)];
  }
  /// Relayouts of ties are the last stages.
  bool is_tie(size_t stage) const {
    return !result_.ties.empty() && static_cast<int>(stage) >= result_.ties.front().first_stage;
  }
  int last_stage() const { return static_cast<int>(plan_.stages.size()) - 1; }

  void make_stages(ModelPlanner& planner) {
    result_.preparation = {};
    result_.work = network_work();
    kept_.clear();
    result_.preloads.clear();
    result_.stages.clear();
    result_.segments.clear();
    drafts_.clear();
    backwards_.clear();
    relayouts_.clear();
    part_names_ = {};
    place_images();
    choose_weights(planner);
    const auto last = static_cast<int64_t>(plan_.stages.size());
    for (int64_t index = 0; index < last; ++index) {
      const PlannedStage& stage = plan_.stages[static_cast<size_t>(index)];
      if (options_.progress) options_.progress(index, last, layer_of(stage).name);
      result_.stages.push_back(make_stage(stage, static_cast<int>(index)));
    }
    make_relayouts(planner);
    make_segments();
    if (options_.progress) options_.progress(last, last, "");
  }

  /// The first and the last stage of the segment of each stage. What the host sends is there before a segment
  /// begins, and what it fetches comes after it: a stage that needs back what one before it made begins
  /// another.
  void find_segments() {
    const size_t count = plan_.stages.size();
    segment_begin_.resize(count);
    segment_end_.resize(count);
    std::set<TensorId> made;
    const auto is_chip = [&](size_t k) {
      return plan_.stages[k].kind == PlannedStage::Kind::kKernel ||
             plan_.stages[k].kind == PlannedStage::Kind::kRelayout;
    };
    const auto storage = [&](int image) {
      return graph_.storage(plan_.images[static_cast<size_t>(image)].placement.access.tensor);
    };
    for (size_t k = 0; k < count; ++k) {
      const PlannedStage& stage = plan_.stages[k];
      const bool returns = std::ranges::any_of(stage.operands, [&](int number) {
        const PlannedImage& image = plan_.images[static_cast<size_t>(number)];
        return image.kind == PlannedImage::Kind::kSent && image.first_stage == static_cast<int>(k) &&
               made.contains(storage(number));
      });
      // What ties write over is read in the segments before them.
      const bool ties_begin = is_tie(k) && !is_tie(k - 1);
      const bool continues = k > 0 && is_chip(k) && is_chip(k - 1) && !returns && !ties_begin;
      if (!continues) made.clear();
      segment_begin_[k] = continues ? segment_begin_[k - 1] : static_cast<int>(k);
      if (is_chip(k)) made.insert(storage(stage.result));
    }
    for (size_t k = count; k-- > 0;) {
      const bool continues = k + 1 < count && segment_begin_[k + 1] == segment_begin_[k];
      segment_end_[k] = continues ? segment_end_[k + 1] : static_cast<int>(k);
    }
  }

  /// A chip stage before it has a program, or one that no others are woven into.
  struct Draft {
    size_t stage = 0;  ///< of the result
    std::string name = {};
    std::optional<TileProgram> tiles = std::nullopt;
    isa::Program program = {};  ///< without tiles
    bool is_alone = false;      ///< has no room for what others load ahead
    int64_t needs_lw = 0;       ///< LW of LM0 and LM1 that must be left to it besides what is known
    bool keeps_windows = true;  ///< may have those of its neighbours
    bool keeps_results = true;  ///< may have those of others
  };
  /// A stage whose values turned out to have no room beside what others keep: its draft has been told.
  struct NoRoom {};

  /// The programs of all segments. Where a stage has no room, all of them are made anew.
  void make_segments() {
    while (true) {
      result_.segments.clear();
      try {
        std::vector<std::optional<TileProgram>> tiles;
        for (const Draft& draft : drafts_) tiles.push_back(draft.tiles);
        if (has_kept_weights_) keep_weights(tiles, lw_of_results());
        for_each_segment(
            [&](size_t first, size_t count) { make_segment(first, std::span(tiles).subspan(first, count)); });
        return;
      } catch (const NoRoom&) {
      }
    }
  }

  /// Calls work(first, count) for the drafts of every segment.
  template <typename Work>
  void for_each_segment(Work&& work) const {
    const auto segment_of = [&](size_t k) { return segment_begin_[drafts_[k].stage]; };
    for (size_t first = 0, end = 0; first < drafts_.size(); first = end) {
      while (end < drafts_.size() && segment_of(end) == segment_of(first)) ++end;
      work(first, end - first);
    }
  }

  /// Whether constants stay, and how much of LM0 relayouts then have: the more, the faster they are, and the
  /// less there is for constants.
  void choose_weights(ModelPlanner& planner) {
    const int64_t all = chip_.memory.lm_words / isa::kWordsPerLong;
    relayouts_lw_ = all;
    has_kept_weights_ = options_.weights != Weights::kStream;
    if (!has_kept_weights_) return;
    std::vector<TileProgram> tiles;
    std::vector<ResidentStage> stages;
    std::vector<const PlannedStage*> relayouts;
    tiles.reserve(plan_.stages.size());
    for (size_t k = 0; k < plan_.stages.size(); ++k) {
      const PlannedStage& planned = plan_.stages[k];
      if (planned.kind == PlannedStage::Kind::kRelayout) relayouts.push_back(&planned);
      if (planned.kind != PlannedStage::Kind::kKernel) continue;
      const ChipStage stage = planned_part(planned, static_cast<int>(k));
      tiles.push_back(emit_tiles(planned.candidate, stream_addresses(planned.candidate, stage), chip_));
      stages.push_back({.tiles = &tiles.back(), .constant_streams = constant_streams(stage)});
    }
    ResidentStage& relayout_stage = stages.emplace_back();
    const auto is_worthwhile = [&](int64_t saved) {
      // Of a run's cycles; below, the transfers' schedule decides by chance what is faster.
      constexpr int64_t kWorthwhile = 25;
      return options_.weights != Weights::kAuto ||
             saved * kWorthwhile >= plan_.summary.kernel_cycles + plan_.summary.relayout_cycles;
    };
    // Relayouts take from that, but their problems are the largest of what there is to look at.
    has_kept_weights_ = is_worthwhile(cycles_of_kept_constants(stages, chip_));
    if (!has_kept_weights_ || relayouts.empty()) return;
    constexpr int64_t kParts = 8;
    struct Relayouts {
      int64_t cycles = 0, lm1_lw = 0;
    };
    std::array<Relayouts, kParts + 1> with_part{};
    int64_t least_part = 1;
    for (const PlannedStage* planned : relayouts) {
      layout::GatherProblem relayout = planner.gather(plan_, *planned, addresses_);
      for (int64_t part = kParts; part >= least_part; --part) {
        relayout.lm0_lw = all * part / kParts;
        try {
          const layout::Gather gather(relayout, chip_);
          Relayouts& sum = with_part[static_cast<size_t>(part)];
          sum.cycles += gather.estimated_cycles();
          sum.lm1_lw = std::max(sum.lm1_lw, gather.lm1_lw());
        } catch (const isa::UnsupportedError&) {
          least_part = part + 1;
        }
      }
    }
    std::optional<int64_t> most_saved;  // predicted cycles
    for (int64_t part = kParts; part >= least_part; --part) {
      const Relayouts& sum = with_part[static_cast<size_t>(part)];
      const int64_t lw = all * part / kParts;
      relayout_stage.taken = {{0, lw, isa::Space::kLm0}, {0, sum.lm1_lw, isa::Space::kLm1}};
      const int64_t saved = cycles_of_kept_constants(stages, chip_) + with_part[kParts].cycles - sum.cycles;
      if (!most_saved || saved > *most_saved) {
        most_saved = saved;
        relayouts_lw_ = lw;
      }
    }
    has_kept_weights_ = is_worthwhile(most_saved.value_or(0));
    if (!has_kept_weights_) relayouts_lw_ = all;
  }

  std::vector<bool> constant_streams(const Draft& draft) const {
    return constant_streams(std::get<ChipStage>(result_.stages[draft.stage].body));
  }
  static std::vector<bool> constant_streams(const ChipStage& stage) {
    std::vector<bool> constant;
    for (const StreamBinding& operand : stage.operands)
      constant.push_back(operand.origin == StreamBinding::Origin::kPreloaded);
    constant.push_back(false);
    return constant;
  }

  /// What stays on the chip, and the program that brings it there.
  void keep_weights(std::vector<std::optional<TileProgram>>& tiles, const std::vector<int64_t>& results_lw) {
    result_.preparation = {};
    unbuilt_preparation_.reset();
    kept_.clear();
    std::vector<ResidentStage> stages;
    std::vector<const TileProgram*> before, after;
    for (size_t k = 0; k < drafts_.size(); ++k) {
      ResidentStage& stage = stages.emplace_back();
      if (tiles[k]) {
        stage.tiles = &*tiles[k];
        stage.constant_streams = constant_streams(drafts_[k]);
        stage.needs_lw = drafts_[k].needs_lw;
        stage.results_lw = results_lw[k];
      } else {
        stage.taken = written_local_memory(drafts_[k].program, chip_);
      }
      before.push_back(tiles[k] ? &*drafts_[k].tiles : nullptr);
      after.push_back(tiles[k] ? &*tiles[k] : nullptr);
    }
    const std::optional<TileProgram> preparation = keep_constants(stages, chip_);
    count_work_without_kept(before, after);
    if (!preparation) return;
    kept_ = preparation->kept;
    verify_resident(before, after, *preparation, stages);
    unbuilt_preparation_ = preparation;
  }
  void build_preparation(const TileProgram& preparation) {
    const scheduler::ProgramPart part{preparation.name, build(preparation.name, preparation, nullptr)};
    const scheduler::ScheduledParts scheduled = scheduler::schedule_transfers(
        {part}, chip_, {options_.passes.transfers, options_.passes.options, {}});
    verify::verify_segment({part}, scheduled, chip_);
    result_.preparation = scheduled.program;
    result_.preparation.source_name = graph_.name;
  }

  /// Nobody loads what stays; of a constant that several stages read only what stays for all of them.
  void count_work_without_kept(const std::vector<const TileProgram*>& before,
                               const std::vector<const TileProgram*>& after) {
    ResidentShares of_network;
    for (size_t k = 0; k < drafts_.size(); ++k) {
      const size_t number = drafts_[k].stage;
      auto& stage = std::get<ChipStage>(result_.stages[number].body);
      ResidentShares of_stage;
      const auto has = [&](const StreamBinding& operand, double share) {
        if (operand.origin != StreamBinding::Origin::kPreloaded) return;
        const TensorId id = graph_.storage(operand.placement.access.tensor);
        for (ResidentShares* shares : {&of_stage, &of_network}) {
          const auto [known, is_new] = shares->emplace(id, share);
          known->second = std::min(known->second, share);
        }
      };
      if (before[k] == nullptr) {
        for (const StreamBinding& operand : stage.operands) has(operand, 0);
        continue;
      }
      const std::vector<double> shares = shares_kept(*before[k], *after[k]);
      for (size_t j = 0; j < stage.operands.size(); ++j) has(stage.operands[j], shares[stream_of(number, j)]);
      stage.work = layer_work(layer_of(plan_.stages[number]), of_stage);
    }
    result_.work = network_work(of_network);
  }
  ProblemWork layer_work(const Layer& layer, const ResidentShares& resident = {}) const {
    return work_of_slices(resident, [&](const ResidentShares& shares) {
      return problem_work(layer, graph_, chip_, options_.precision, shares);
    });
  }
  ProblemWork network_work(const ResidentShares& resident = {}) const {
    return work_of_slices(resident, [&](const ResidentShares& shares) {
      return problem_work(graph_, chip_, options_.precision, shares);
    });
  }
  /// All slices need what one needs, and the same constants.
  template <typename WorkOfSlice>
  ProblemWork work_of_slices(const ResidentShares& resident, const WorkOfSlice& work_of_slice) const {
    ResidentShares all_constants;
    for (size_t id = 0; id < graph_.tensors.size(); ++id) {
      if (graph_.tensors[id].constant) all_constants[static_cast<TensorId>(id)] = 1;
    }
    const auto slices = static_cast<double>(planned_.slices);
    ProblemWork work = work_of_slice(resident);
    const double of_images = work_of_slice(all_constants).dram_bytes;
    work.products *= slices;
    work.mau_operations *= slices;
    work.alu_operations *= slices;
    work.dram_bytes += (slices - 1) * of_images;
    return work;
  }
  /// Which stream of its program a stage's operand is.
  size_t stream_of(size_t stage, size_t operand) const {
    const std::vector<StreamPlacement>& placements = plan_.stages[stage].candidate.placements;
    size_t stream = 0;
    for (size_t inputs = 0; inputs <= operand; ++stream) inputs += placements[stream].is_output ? 0 : 1;
    return stream - 1;
  }

  /// Programs of a segment's stages, of which the first is draft number `first`.
  std::vector<scheduler::ProgramPart> make_parts(size_t first, std::span<std::optional<TileProgram>> tiles) {
    const std::vector<bool> has_results = share_results(first, tiles);
    const std::vector<bool> has_windows = share_windows(first, tiles);
    const std::vector<std::optional<TileProgram>> loaded_by_themselves(tiles.begin(), tiles.end());
    std::vector<AheadStage> stages;
    std::vector<const TileProgram*> before, after;
    for (size_t k = 0; k < tiles.size(); ++k) {
      const Draft& draft = drafts_[first + k];
      AheadStage& stage = stages.emplace_back();
      stage.is_alone = draft.is_alone || !tiles[k];
      stage.taken = tiles[k] ? tiles[k]->kept : kept_;
      if (tiles[k]) {
        stage.tiles = &*tiles[k];
        stage.cycles = std::get<ChipStage>(result_.stages[draft.stage].body).predicted_cycles;
        stage.constant_streams = constant_streams(draft);
      }
      before.push_back(tiles[k] ? &*loaded_by_themselves[k] : nullptr);
      after.push_back(tiles[k] ? &*tiles[k] : nullptr);
    }
    fetch_ahead(stages, chip_);
    verify_fetch_ahead(before, after);
    std::vector<scheduler::ProgramPart> parts(tiles.size());
    for (size_t k = 0; k < tiles.size(); ++k) {
      const Draft& draft = drafts_[first + k];
      parts[k] = {draft.name, draft.program, scratch_of(draft.stage)};
    }
    struct Refused {
      size_t part;
      std::exception_ptr error;
    };
    try {
      // The first segment's programs have the preparation beside them.
      const std::optional<TileProgram> preparation = std::exchange(unbuilt_preparation_, std::nullopt);
      const size_t before_parts = preparation ? 1 : 0;
      for_each_program(before_parts + tiles.size(), [&](size_t number) {
        if (number < before_parts) return build_preparation(*preparation);
        const size_t k = number - before_parts;
        if (!tiles[k]) return;
        Stage& stage = result_.stages[drafts_[first + k].stage];
        try {
          parts[k].program = build(stage.name, *tiles[k], &std::get<ChipStage>(stage.body).proofs);
        } catch (const isa::UnsupportedError&) {
          throw Refused{k, std::current_exception()};
        }
      });
    } catch (const Refused& refused) {
      Draft& draft = drafts_[first + refused.part];
      const bool had_windows = has_windows[refused.part] && std::exchange(draft.keeps_windows, false);
      const bool had_results =
          !had_windows && has_results[refused.part] && std::exchange(draft.keeps_results, false);
      if (!had_windows && !had_results && !make_room(draft, *tiles[refused.part]))
        std::rethrow_exception(refused.error);
      throw NoRoom{};
    }
    return parts;
  }
  /// In parallel, but where plugins take part or somebody looks on: these are called one after the other.
  void for_each_program(size_t count, const std::function<void(size_t)>& work) const {
    if (passes::RegisteringPlugin::any() || options_.dump || options_.observe_stage) {
      for (size_t k = 0; k < count; ++k) work(k);
    } else {
      isa::for_each_in_parallel(count, work);
    }
  }
  /// By draft, LW of LM0 that results will have where constants leave them room.
  std::vector<int64_t> lw_of_results() {
    kept_.clear();
    std::vector<std::optional<TileProgram>> tiles;
    for (const Draft& draft : drafts_) tiles.push_back(draft.tiles);
    for_each_segment(
        [&](size_t first, size_t count) { share_results(first, std::span(tiles).subspan(first, count)); });
    std::vector<int64_t> lw(tiles.size(), 0);
    for (size_t k = 0; k < tiles.size(); ++k) {
      if (!tiles[k]) continue;
      for (const TileProgram::Kept& each : tiles[k]->kept) lw[k] += each.size_lw;
    }
    return lw;
  }
  /// Results that later stages of a segment add to theirs stay in the PEs. Returns whose programs keep some.
  std::vector<bool> share_results(size_t first, std::span<std::optional<TileProgram>> tiles) const {
    std::vector<std::optional<TileProgram>> own(tiles.begin(), tiles.end());
    std::vector<ResultStage> stages, before;
    std::vector<const TileProgram*> after;
    for (size_t k = 0; k < tiles.size(); ++k) {
      const Draft& draft = drafts_[first + k];
      ResultStage& stage = stages.emplace_back();
      stage.may_keep = draft.keeps_results;
      if (tiles[k]) {
        stage.tiles = &*tiles[k];
        stage.images = stream_images(draft);
      } else {
        stage.taken = written_local_memory(draft.program, chip_);
        stage.taken.insert(stage.taken.end(), kept_.begin(), kept_.end());
      }
      before.push_back(stage);
      before.back().tiles = tiles[k] ? &*own[k] : nullptr;
      after.push_back(stage.tiles);
    }
    std::vector<bool> changed = keep_results(stages, chip_);
    verify_keep_results(before, after, chip_);
    return changed;
  }
  /// The plan's images by stream of a stage's program.
  std::vector<int> stream_images(const Draft& draft) const {
    const PlannedStage& planned = plan_.stages[draft.stage];
    std::vector<int> images;
    auto operand = planned.operands.begin();
    for (const StreamPlacement& placement : planned.candidate.placements)
      images.push_back(placement.is_output ? planned.result : *operand++);
    return images;
  }
  /// Windows that several of a segment's stages load stay. Returns whose programs have some.
  std::vector<bool> share_windows(size_t first, std::span<std::optional<TileProgram>> tiles) const {
    const std::vector<std::optional<TileProgram>> own(tiles.begin(), tiles.end());
    std::vector<TileProgram*> stages;
    std::vector<const TileProgram*> before, after;
    for (size_t k = 0; k < tiles.size(); ++k) {
      const bool may_keep = tiles[k] && drafts_[first + k].keeps_windows;
      stages.push_back(may_keep ? &*tiles[k] : nullptr);
      before.push_back(tiles[k] ? &*own[k] : nullptr);
      after.push_back(tiles[k] ? &*tiles[k] : nullptr);
    }
    std::vector<bool> changed = keep_windows(stages, chip_);
    verify_keep_windows(before, after);
    return changed;
  }
  /// Where a stage's result is in DRAM, if only stages of its segment read it.
  std::vector<std::pair<int64_t, int64_t>> scratch_of(size_t stage) const {
    const PlannedStage& planned = plan_.stages[stage];
    if (options_.store_layers || planned.fetch || planned.result < 0 || is_tie(stage)) return {};
    // What a plugin computes is compared with the reference.
    const auto kernel = std::ranges::find(kernels(), planned.candidate.kernel, &Kernel::name);
    if (kernel != kernels().end() && !kernel->plugin.empty()) return {};
    const PlannedImage& image = plan_.images[static_cast<size_t>(planned.result)];
    const auto last = static_cast<size_t>(image.last_stage);
    if (segment_end_[last] != segment_end_[stage]) return {};
    const int64_t begin = addresses_[static_cast<size_t>(planned.result)];
    return {{begin, begin + stream_group_lw(image.placement)}};
  }
  /// Whether others can leave more to a stage: a little of what stays, as most need no more; then what comes
  /// early, then more and more of what stays.
  bool make_room(Draft& draft, const TileProgram& tiles) const {
    constexpr int64_t kLittleLw = 64;
    if (tiles.kept.empty() || draft.needs_lw >= chip_.memory.lm_words / isa::kWordsPerLong) return false;
    if (!draft.is_alone && (draft.needs_lw > 0 || !has_kept_weights_)) {
      draft.is_alone = true;
    } else {
      draft.needs_lw = std::max(kLittleLw, 2 * draft.needs_lw);
    }
    return true;
  }

  isa::Program build(const std::string& name, const TileProgram& tiles, scheduler::ScheduleProofs* proofs) {
    if (options_.wants_dump("tile")) options_.dump("tile", name, "txt", to_string(tiles));
    scheduler::MachineProgram machine = lower_tile_program(tiles, chip_);
    if (options_.wants_dump("machine")) options_.dump("machine", name, "txt", scheduler::to_string(machine));
    isa::Program program = scheduler::build_program(
        std::move(machine), chip_, options_.passes,
        {[&](const std::string& point) { return options_.wants_dump(point); },
         [&](const std::string& point, const std::string& extension, const std::string& text) {
           options_.dump(point, name, extension, text);
         },
         options_.observe_stage,
         [&](const scheduler::ScheduleProofs& found) {
           if (proofs != nullptr) *proofs = found;
         }},
        &known_schedules_);
    return without_mark(name, std::move(program));
  }

  /// The stages' programs as one, their transfers scheduled.
  void make_segment(size_t first, std::span<std::optional<TileProgram>> tiles) {
    const std::vector<scheduler::ProgramPart> parts = make_parts(first, tiles);
    scheduler::TransferChoice choice{options_.passes.transfers, options_.passes.options, {}};
    const std::string& pass = scheduler::find_transfer_scheduler(options_.passes.transfers).name;
    if (options_.wants_dump(pass)) {
      choice.observe = [&](const scheduler::TransferProblem& problem,
                           const scheduler::TransferSchedule& found) {
        options_.dump(pass, parts.front().name, "json", scheduler::to_json(problem, &found));
      };
    }
    Segment segment;
    segment.first_stage = static_cast<int>(drafts_[first].stage);
    segment.parts = scheduler::schedule_transfers(parts, chip_, choice);
    verify::verify_segment(parts, segment.parts, chip_);
    if (options_.observe_segment) options_.observe_segment(parts, segment.parts);
    for (size_t k = 0; k < parts.size(); ++k) {
      auto& stage = std::get<ChipStage>(result_.stages[drafts_[first + k].stage].body);
      const auto stores = [&](std::span<const isa::Statement> statements) {
        return count_stores(statements, parts[k].scratch);
      };
      const std::span all(segment.parts.program.statements);
      const size_t begin = segment.parts.begin[k];
      stage.stored = stores(parts[k].program.statements) ==
                     stores(all.subspan(begin, segment.parts.begin[k + 1] - begin));
    }
    segment.parts.program.source_name = graph_.name;
    result_.segments.push_back(std::move(segment));
  }
  /// MVs to ranges of DRAM.
  static size_t count_stores(std::span<const isa::Statement> statements,
                             const std::vector<std::pair<int64_t, int64_t>>& ranges) {
    size_t count = 0;
    for (const isa::Statement& statement : statements) {
      if (const auto* loop = std::get_if<isa::Loop>(&statement.kind))
        count += count_stores(loop->body, ranges);
      const auto* mv = std::get_if<isa::Mv>(&statement.kind);
      if (mv == nullptr) continue;
      for (const isa::Operand& to : mv->instruction.destinations) {
        count += to.space == isa::Space::kDram && std::ranges::any_of(ranges, [&](const auto& range) {
                   return range.first <= to.base && to.base < range.second;
                 });
      }
    }
    return count;
  }
  /// It becomes a region of its name in any case.
  static isa::Program without_mark(const std::string& name, isa::Program program) {
    std::vector<isa::Statement>& statements = program.statements;
    const auto is_mark = [&](const isa::Statement& statement, const isa::RegionMark& mark) {
      const auto* found = std::get_if<isa::RegionMark>(&statement.kind);
      return found != nullptr && *found == mark;
    };
    if (statements.size() > 1 && is_mark(statements.front(), {true, name}) &&
        is_mark(statements.back(), {false, {}})) {
      statements.pop_back();
      statements.erase(statements.begin());
    }
    return program;
  }
  /// Of the stage that is being made. Regions of one name would be one in reports.
  Draft draft_of(const std::string& name) {
    return {.stage = result_.stages.size(), .name = part_names_.make_unique(name)};
  }

  void place_images() {
    std::map<int, int> in_place_of;
    for (const Tie& tie : result_.ties) {
      for (size_t k = 0; k < tie.made.size(); ++k) in_place_of[tie.made[k]] = tie.targets[k];
      if (tie.in_place) in_place_of[tie.source] = tie.targets.front();
    }
    std::vector<DramBuffer> buffers;
    std::vector<int> owners;
    for (int number = 0; number < static_cast<int>(plan_.images.size()); ++number) {
      if (in_place_of.contains(number)) continue;
      const PlannedImage& image = plan_.images[static_cast<size_t>(number)];
      const bool stays = image.kind == PlannedImage::Kind::kConstant ||
                         (result_.keeps_inputs && is_sent_input(image, graph_));
      owners.push_back(number);
      buffers.push_back({fmt::format("tensor '{}' ({}) of layer '{}'", tensor_of(image).name,
                                     image.placement.name, first_reader(image)),
                         stream_group_lw(image.placement), stays ? 0 : first_needed(image),
                         stays ? last_stage() : segment_end_[static_cast<size_t>(image.last_stage)]});
    }
    dram_.emplace(buffers, chip_.memory.dram_lw, kImageAlignmentLw);
    addresses_.assign(plan_.images.size(), 0);
    for (size_t k = 0; k < owners.size(); ++k)
      addresses_[static_cast<size_t>(owners[k])] = dram_->addresses()[k];
    for (const auto& [image, place] : in_place_of)
      addresses_[static_cast<size_t>(image)] = addresses_[static_cast<size_t>(place)];
    std::vector<size_t> constants;
    for (size_t k = 0; k < plan_.images.size(); ++k) {
      if (plan_.images[k].kind == PlannedImage::Kind::kConstant) constants.push_back(k);
    }
    result_.preloads.resize(constants.size());
    isa::for_each_in_parallel(constants.size(), [&](size_t number) {
      const size_t k = constants[number];
      const StreamPlacement& placement = plan_.images[k].placement;
      const LayerTensor& storage =
          graph_.tensors[static_cast<size_t>(graph_.storage(placement.access.tensor))];
      result_.preloads[number] = {
          fmt::format("{}/{}", first_reader(plan_.images[k]), placement.name), addresses_[k],
          pack_stream(placement, storage.constant->reshaped(tensor_of(plan_.images[k]).shape), chip_)};
    });
  }

  const LayerTensor& tensor_of(const PlannedImage& image) const {
    return graph_.tensors[static_cast<size_t>(image.placement.access.tensor)];
  }
  const std::string& first_reader(const PlannedImage& image) const {
    return layer_of(plan_.stages[static_cast<size_t>(image.first_stage)]).name;
  }
  /// What is sent comes before the segment.
  int first_needed(const PlannedImage& image) const {
    return image.kind == PlannedImage::Kind::kSent ? segment_begin_[static_cast<size_t>(image.first_stage)]
                                                   : image.first_stage;
  }

  Stage make_stage(const PlannedStage& planned, int index) {
    const Layer& layer = layer_of(planned);
    Stage stage;
    stage.name = layer.name;
    stage.kind = layer.kind();
    stage.onnx_ops = layer.onnx_ops;
    stage.onnx_nodes = layer.onnx_nodes;
    stage.outputs = layer.outputs;
    stage.operation = summary(layer, graph_);
    switch (planned.kind) {
      case PlannedStage::Kind::kHostRearrange: {
        const auto& rearrange = std::get<RearrangeLayer>(layer.body);
        for (const RearrangeLayer::Piece& piece : rearrange.pieces)
          stage.inputs.push_back(piece.input.tensor);
        stage.body = RearrangeStage{rearrange};
        break;
      }
      case PlannedStage::Kind::kHost: {
        const auto& host = std::get<HostLayer>(layer.body);
        stage.inputs = layer.host_inputs;
        stage.body = HostStage{host.node, host.reason};
        break;
      }
      case PlannedStage::Kind::kKernel:
        stage.inputs = layer_inputs(layer);
        stage.body = kernel_stage(planned, index);
        break;
      case PlannedStage::Kind::kRelayout:
        make_relayout(planned, index, stage);
        break;
    }
    return stage;
  }

  /// The part of a chip stage that the plan knows.
  ChipStage planned_part(const PlannedStage& planned, int index) const {
    ChipStage stage;
    std::set<int> seen;
    for (const int image : planned.operands) {
      stage.operands.push_back(binding(image, index));
      // Two operands may share an image, which comes once.
      StreamBinding& operand = stage.operands.back();
      if (!seen.insert(image).second && operand.origin == StreamBinding::Origin::kSent)
        operand.origin = StreamBinding::Origin::kOnChip;
    }
    stage.result = binding(planned.result, index);
    stage.fetch = planned.fetch;
    return stage;
  }
  /// Whether the last rows come first: the largest operand is more than L2BM holds well, and was made with
  /// the last rows last.
  bool goes_backwards(const PlannedStage& planned) const {
    if (!planned.candidate.emit_backwards) return false;
    int64_t most = chip_.memory.l2bm_lw * 2 / 5;
    bool backwards = false;
    for (const int number : planned.operands) {
      const PlannedImage& image = plan_.images[static_cast<size_t>(number)];
      const int64_t lw = stream_group_lw(image.placement) / chip_.l2b_per_group;
      if (image.kind != PlannedImage::Kind::kMade || lw <= most) continue;
      most = lw;
      backwards = !backwards_.contains(number);
    }
    return backwards;
  }
  StreamBinding binding(int number, int index) const {
    const PlannedImage& image = plan_.images[static_cast<size_t>(number)];
    StreamBinding binding;
    binding.placement = image.placement;
    binding.dram_address = addresses_[static_cast<size_t>(number)];
    using Origin = StreamBinding::Origin;
    if (image.kind == PlannedImage::Kind::kConstant) binding.origin = Origin::kPreloaded;
    if (image.kind == PlannedImage::Kind::kSent && image.first_stage == index) binding.origin = Origin::kSent;
    return binding;
  }

  ChipStage kernel_stage(const PlannedStage& planned, int index) {
    const Layer& layer = layer_of(planned);
    const Candidate& candidate = planned.candidate;
    ChipStage stage = planned_part(planned, index);
    stage.kernel = candidate.kernel;
    stage.description = candidate.description;
    stage.predicted_cycles = candidate.predicted_cycles;
    stage.work = layer_work(layer);
    Draft draft = draft_of(layer.name);
    const bool backwards = goes_backwards(planned);
    if (backwards) backwards_.insert(planned.result);
    draft.tiles = emit_tiles(candidate, stream_addresses(candidate, stage), chip_, backwards);
    drafts_.push_back(std::move(draft));
    return stage;
  }

  /// In DRAM, of the candidate's streams.
  static std::vector<int64_t> stream_addresses(const Candidate& candidate, const ChipStage& stage) {
    std::vector<int64_t> addresses;
    auto operand = stage.operands.begin();
    for (const StreamPlacement& placement : candidate.placements)
      addresses.push_back(placement.is_output ? stage.result.dram_address : (operand++)->dram_address);
    return addresses;
  }

  /// But for its program.
  void make_relayout(const PlannedStage& planned, int index, Stage& stage) {
    const Layer& layer = layer_of(planned);
    const StreamPlacement& to = plan_.images[static_cast<size_t>(planned.result)].placement;
    if (is_tie(static_cast<size_t>(index)) ||
        layer.kind() != LayerKind::kRearrange) {  // not what the layer makes
      stage.name = fmt::format("{}.{}", layer.name, to.name);
      stage.outputs.clear();
    }
    stage.kind = LayerKind::kRearrange;
    stage.onnx_ops.clear();
    stage.onnx_nodes.clear();
    for (const int through : planned.rearrange_layers) {
      const Layer& rearrange = graph_.layers[static_cast<size_t>(through)];
      stage.onnx_ops.insert(stage.onnx_ops.end(), rearrange.onnx_ops.begin(), rearrange.onnx_ops.end());
      stage.onnx_nodes.insert(stage.onnx_nodes.end(), rearrange.onnx_nodes.begin(),
                              rearrange.onnx_nodes.end());
    }
    stage.inputs = planned.roots;
    ChipStage chip = planned_part(planned, index);
    stage.operation = fmt::format("Relayout to {} {}", to.layout.to_string(), to.transport.to_string());
    chip.kernel = "gather";
    relayouts_.push_back({&planned, drafts_.size()});
    drafts_.push_back(draft_of(stage.name));
    stage.body = std::move(chip);
  }

  /// The programs of all relayouts, some at a time: what they are made from is large.
  void make_relayouts(ModelPlanner& planner) {
    constexpr size_t kAtATime = 8;
    struct Work {
      layout::GatherProblem problem = {};
      std::optional<layout::Gather> gather = std::nullopt;
      int64_t tables_at = 0;
      layout::GatherCode code = {};
    };
    for (size_t first = 0; first < relayouts_.size(); first += kAtATime) {
      std::vector<Work> works(std::min(kAtATime, relayouts_.size() - first));
      const auto draft_of_work = [&](size_t k) -> Draft& { return drafts_[relayouts_[first + k].draft]; };
      const auto stage_of = [&](size_t k) -> Stage& { return result_.stages[draft_of_work(k).stage]; };
      for (size_t k = 0; k < works.size(); ++k) {
        works[k].problem = planner.gather(plan_, *relayouts_[first + k].planned, addresses_);
        works[k].problem.lm0_lw = relayouts_lw_;
      }
      isa::for_each_in_parallel(works.size(),
                                [&](size_t k) { works[k].gather.emplace(works[k].problem, chip_); });
      for (size_t k = 0; k < works.size(); ++k) {
        works[k].tables_at =
            dram_->append(works[k].gather->tables_lw(), fmt::format("tables of '{}'", stage_of(k).name));
      }
      for_each_program(works.size(), [&](size_t k) {
        Work& work = works[k];
        const std::string& name = stage_of(k).name;
        work.code = work.gather->emit(work.tables_at);
        auto& chip = std::get<ChipStage>(stage_of(k).body);
        chip.description = work.gather->describe();
        chip.predicted_cycles = work.code.cycles;
        chip.dram_cycles = work.gather->dram_cycles();
        const scheduler::MachineProgram operations = one_after_the_other(name, std::move(work.code.items));
        verify::verify_schedule(operations, work.code.program, chip_);
        if (options_.observe_stage) options_.observe_stage(operations, work.code.program);
        draft_of_work(k).program = without_mark(name, std::move(work.code.program));
      });
      for (size_t k = 0; k < works.size(); ++k) {
        result_.preloads.push_back(
            {stage_of(k).name + "/tables", works[k].tables_at, {std::move(works[k].code.tables)}});
      }
    }
  }

  /// Marks what the host sends and fetches only to change a layout.
  void find_host_relayouts() {
    std::set<TensorId> of_host;  // it needs them anyway
    for (const TensorId id : graph_.inputs) of_host.insert(graph_.storage(id));
    for (const TensorId id : graph_.outputs) of_host.insert(graph_.storage(id));
    for (const Stage& stage : result_.stages) {
      if (!std::holds_alternative<HostStage>(stage.body)) continue;
      for (const std::vector<TensorId>& ids : {stage.inputs, stage.outputs}) {
        for (const TensorId id : ids) {
          if (id >= 0) of_host.insert(graph_.storage(id));
        }
      }
    }
    const auto sent_tensor = [&](const StreamBinding& operand) {
      return operand.origin == StreamBinding::Origin::kSent ? graph_.storage(operand.placement.access.tensor)
                                                            : -1;
    };
    // What is packed as halves is packed for each that reads it: no layout of floats changes.
    std::set<TensorId> packed;
    for (const Stage& stage : result_.stages) {
      const auto* chip = std::get_if<ChipStage>(&stage.body);
      if (chip == nullptr) continue;
      for (const StreamBinding& operand : chip->operands) {
        if (operand.placement.element == StreamElement::kHalf) packed.insert(sent_tensor(operand));
      }
    }
    std::set<TensorId> sent;
    std::set<TensorId> made;
    for (Stage& stage : result_.stages) {
      auto* chip = std::get_if<ChipStage>(&stage.body);
      if (chip == nullptr) continue;
      for (StreamBinding& operand : chip->operands) {
        const TensorId tensor = sent_tensor(operand);
        if (tensor < 0 || packed.contains(tensor)) continue;
        // What a kernel made, or what was sent already in another layout.
        operand.host_relayout = made.contains(tensor) || !sent.insert(tensor).second;
      }
      const TensorId result = graph_.storage(chip->result.placement.access.tensor);
      chip->result.host_relayout = chip->fetch && !of_host.contains(result);
      made.insert(result);
    }
  }

  /// Constants that only chip stages read are in the preloads already.
  void drop_unread_constants() {
    std::set<TensorId> read;
    for (const Stage& stage : result_.stages) {
      if (stage.on_chip()) continue;
      for (TensorId id : stage.inputs) {
        if (id >= 0) read.insert(graph_.storage(id));
      }
    }
    for (TensorId id : result_.outputs) read.insert(graph_.storage(id));
    for (size_t id = 0; id < result_.tensors.size(); ++id) {
      if (!read.contains(static_cast<TensorId>(id))) result_.tensors[id].constant.reset();
    }
  }

  const isa::Chip& chip_;
  const CompileOptions& options_;
  CompiledModel& result_;
  SlicedPlan planned_;
  const LayerGraph& graph_;  ///< of a slice
  const ModelPlan& plan_;
  std::optional<DramPlacement> dram_;
  scheduler::KnownSchedules known_schedules_;
  std::optional<TileProgram> unbuilt_preparation_;
  std::vector<int64_t> addresses_;       ///< of the plan's images
  std::vector<int> segment_begin_;       ///< by stage: the first of its segment
  std::vector<int> segment_end_;         ///< by stage: the last
  std::set<int> backwards_;              ///< images that were made so (goes_backwards)
  bool has_kept_weights_ = false;        ///< constants may stay in the PEs
  std::vector<TileProgram::Kept> kept_;  ///< by what stays
  int64_t relayouts_lw_ = 0;             ///< of LM0, that relayouts may have
  std::vector<Draft> drafts_;            ///< of all chip stages
  struct Relayout {
    const PlannedStage* planned = nullptr;
    size_t draft = 0;
  };
  std::vector<Relayout> relayouts_;
  FreshNames part_names_;
};

}  // namespace

onnx::ModelProto prepared_model(onnx::ModelProto graph_model, const CompileOptions& options) {
  GraphPassOptions pass_options;
  pass_options.direct_operators.insert(directly_lowered_operators().begin(),
                                       directly_lowered_operators().end());
  pass_options.given = options.passes.options;
  run_graph_passes(graph_model, pass_options, [&](const GraphPass& pass, const onnx::ModelProto& result) {
    if (options.wants_dump(pass.name))
      options.dump(pass.name, result.graph().name(), "onnx",
                   serialize_model(result, "--dump-after " + pass.name));
  });
  return graph_model;
}

LayerGraph lowered_layers(onnx::ModelProto model, const CompileOptions& options, onnx::ModelProto* prepared) {
  onnx::ModelProto graph_model = prepared_model(std::move(model), options);
  LayerGraph layers =
      lower_to_layers(graph_model, options.lowering, [&](const std::string& pass, const LayerGraph& graph) {
        if (options.wants_dump(pass)) options.dump(pass, graph_model.graph().name(), "json", to_json(graph));
      });
  if (prepared != nullptr) *prepared = std::move(graph_model);
  return layers;
}

void finish_layers(LayerGraph& layers, const isa::Chip& chip, const CompileOptions& options) {
  const auto check = [&](const char* pass) {
    verify_layer_graph(layers, pass);
    if (options.wants_dump(pass)) options.dump(pass, layers.name, "json", to_json(layers));
  };
  if (options.lowering.fuse) {
    constexpr int64_t kSumsPerPe = 8;  // of a matrix of gfloat, a vector
    fuse_sums(layers, kSumsPerPe * chip.pe_count());
    check("fuse-sums");
  }
  if (precision_of_made_matrices(options.precision)) {
    split_columns(layers, chip);
    check("split-columns");
  }
  add_fill_rows(layers);
  check("fill-rows");
  if (options.lowering.fuse) {
    fuse_transposed_epilogues(layers);
    check("fuse-transposed-epilogues");
    split_products(layers, chip);
    check("split-products");
    pad_channels(layers, chip);
    check("pad-channels");
    fuse_normalizations(layers, chip);
    check("fuse-normalizations");
    split_axes(layers, chip);
    check("split-axes");
  }
  split_gathers(layers, chip);
  check("split-gathers");
  split_reductions(layers, chip);
  check("split-reductions");
}

CompiledModel compile_model(onnx::ModelProto model, const isa::Chip& chip, const CompileOptions& options,
                            onnx::ModelProto* prepared) {
  CompiledModel result;
  result.chip = chip;
  result.precision = options.precision;
  ModelCompiler(plan_model(std::move(model), chip, options, prepared), chip, options, result).run();
  return result;
}

}  // namespace kodama::compiler
