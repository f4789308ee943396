#include "compiler/report/traced_run.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "compiler/streams/stream_image.h"
#include "isa/arithmetic.h"
#include "isa/costs.h"

namespace kodama::compiler {

using nlohmann::ordered_json;
using simulator::Timeline;

DramImages::DramImages(const CompiledModel& model) {
  std::map<int64_t, size_t> preloads;
  for (const CompiledModel::Preload& preload : model.preloads) {
    int64_t lw = 0;
    for (const auto& words : preload.image.groups) lw = std::max(lw, static_cast<int64_t>(words.size()));
    preloads[preload.dram_address] =
        add({preload.name, preload.dram_address, preload.dram_address + lw, -1, -1, true});
  }
  std::map<int64_t, size_t> present;  // by address
  std::map<size_t, int> maker;        // by image
  for (size_t k = 0; k < model.stages.size(); ++k) {
    const auto* chip = std::get_if<ChipStage>(&model.stages[k].body);
    if (chip == nullptr) continue;
    const auto stage = static_cast<int>(k);
    const auto image_of = [&](const StreamBinding& binding, bool stored) {
      const int64_t lw = stream_group_lw(binding.placement);
      return DramImage{model.tensors[static_cast<size_t>(binding.placement.access.tensor)].name,
                       binding.dram_address,
                       binding.dram_address + lw,
                       stage,
                       stage,
                       false,
                       stored};
    };
    for (size_t number = 0; number < chip->operands.size(); ++number) {
      const StreamBinding& operand = chip->operands[number];
      const bool is_constant = operand.origin == StreamBinding::Origin::kPreloaded;
      if (is_constant && preloads.contains(operand.dram_address)) {
        DramImage& image = images_[preloads[operand.dram_address]];
        image.name = model.tensors[static_cast<size_t>(operand.placement.access.tensor)].name;
        image.last_stage = stage;
        continue;
      }
      if (operand.origin == StreamBinding::Origin::kSent || !present.contains(operand.dram_address))
        present[operand.dram_address] = add(image_of(operand, true));
      const size_t image = present[operand.dram_address];
      images_[image].last_stage = stage;
      makers_[{stage, number}] = maker.contains(image) ? maker[image] : -1;
    }
    const size_t made = add(image_of(chip->result, chip->stored));
    if (chip->fetch) {
      for (const Segment& segment : model.segments) {
        if (segment.first_stage <= stage && stage < segment.end_stage())
          images_[made].last_stage = segment.end_stage() - 1;
      }
    }
    present[chip->result.dram_address] = made;
    maker[made] = stage;
  }
  // Constants stay.
  for (DramImage& image : images_) {
    if (image.constant) image.last_stage = static_cast<int>(model.stages.size()) - 1;
  }
}

size_t DramImages::add(DramImage image) {
  longest_ = std::max(longest_, image.end - image.begin);
  by_begin_.emplace(image.begin, images_.size());
  images_.push_back(std::move(image));
  return images_.size() - 1;
}

const DramImage* DramImages::find(int64_t address, int stage) const {
  const DramImage* found = nullptr;
  for (auto at = by_begin_.upper_bound(address); at != by_begin_.begin();) {
    --at;
    if (at->first <= address - longest_) break;
    const DramImage& image = images_[at->second];
    if (address >= image.end || stage < image.first_stage || stage > image.last_stage) continue;
    // Who writes an image in the place of what he reads is named by the new one.
    if (found == nullptr || image.first_stage > found->first_stage) found = &image;
  }
  return found;
}

int DramImages::maker(int stage, size_t operand) const {
  const auto found = makers_.find({stage, operand});
  return found != makers_.end() ? found->second : -1;
}

TracedRun::TracedRun(const CompiledModel& model, const Timeline& timeline, size_t first_program,
                     size_t programs, std::string around)
    : model_(model), timeline_(timeline), around_(around.empty() ? "" : around + "/") {
  const std::vector<int64_t> begins = timeline.program_begins();
  isa::check_internal(first_program + programs < begins.size() && !model.segments.empty(), "TracedRun",
                      "{} programs from {} on, of {}", programs, first_program, begins.size() - 1);
  const auto from = begins.begin() + static_cast<ptrdiff_t>(first_program);
  begins_.assign(from, from + static_cast<ptrdiff_t>(programs) + 1);
  begin_ = begins_.front();
  end_ = begins_.back();
  for (size_t k = 0; k < model.stages.size(); ++k)
    stage_by_name_.emplace(model.stages[k].name, static_cast<int>(k));

  // Regions end in another order than they begin in.
  struct Found {
    int64_t begin, end;
    const std::string* name;
  };
  std::vector<Found> regions;
  for (const Timeline::Span& span : timeline.spans()) {
    if (span.track == Timeline::kRegions && has(span.begin))
      regions.push_back({span.begin, span.end, &span.name});
  }
  std::ranges::stable_sort(regions, [](const Found& a, const Found& b) {
    return std::tuple(a.begin, -a.end) < std::tuple(b.begin, -b.end);
  });
  auto next = regions.begin();
  for (size_t program = 0; program < this->programs(); ++program) {
    const Segment& own = segment(program);
    for (int stage = own.first_stage; stage < own.end_stage(); ++stage) {
      const std::string& name = model.stages[static_cast<size_t>(stage)].name;
      const auto found = std::find_if(next, regions.end(), [&](const Found& region) {
        return region.begin >= begins_[program + 1] || *region.name == name;
      });
      if (found == regions.end() || found->begin >= begins_[program + 1]) continue;
      bands_.push_back({stage, found->begin - begin_, found->end - begin_});
      next = found + 1;
    }
  }
}

const Segment& TracedRun::segment(size_t program) const {
  return model_.segments[program % model_.segments.size()];
}

int TracedRun::stage_of(const std::string& region) const {
  const auto [known, is_new] = stage_by_region_.try_emplace(region, -1);
  if (!is_new) return known->second;
  const std::string path = region.starts_with(around_) ? region.substr(around_.size()) : region;
  // Names of layers have slashes of their own.
  for (size_t length = path.size(); length != std::string::npos && length > 0;
       length = path.rfind('/', length - 1)) {
    const auto stage = stage_by_name_.find(path.substr(0, length));
    if (stage != stage_by_name_.end()) {
      known->second = stage->second;
      break;
    }
  }
  return known->second;
}

namespace {

/// Numbers for names, in the order in which they are first used.
class Names {
 public:
  int operator[](const std::string& name) {
    const auto [known, is_new] = numbers_.try_emplace(name, static_cast<int>(names_.size()));
    if (is_new) names_.push_back(name);
    return known->second;
  }
  const std::vector<std::string>& all() const { return names_; }

 private:
  std::unordered_map<std::string, int> numbers_;
  std::vector<std::string> names_;
};

/// Busy cycles of a track by bin, and of which names they are.
class TrackBins {
 public:
  TrackBins(std::string name, std::string kind, int64_t bins, int64_t bin_cycles)
      : name_(std::move(name)),
        kind_(std::move(kind)),
        bin_cycles_(bin_cycles),
        bins_(static_cast<size_t>(bins)) {}

  void add(int64_t begin, int64_t end, int name) {
    busy_ += end - begin;
    for (int64_t bin = begin / bin_cycles_; begin < end; ++bin) {
      const int64_t until = std::min(end, (bin + 1) * bin_cycles_);
      bins_[static_cast<size_t>(bin)][name] += until - begin;
      begin = until;
    }
  }
  ordered_json json() const {
    ordered_json runs = ordered_json::array();
    int64_t first = 0;
    std::optional<std::pair<int64_t, int>> present;
    const auto finish = [&](int64_t bin) {
      if (present && present->first > 0)
        runs.push_back({first, bin - first, present->first, present->second});
    };
    for (size_t bin = 0; bin < bins_.size(); ++bin) {
      std::pair<int64_t, int> found{0, -1};
      int64_t most = 0;
      for (const auto& [name, cycles] : bins_[bin]) {
        found.first += cycles;
        if (cycles > most) {
          most = cycles;
          found.second = name;
        }
      }
      if (present == found) continue;
      finish(static_cast<int64_t>(bin));
      first = static_cast<int64_t>(bin);
      present = found;
    }
    finish(static_cast<int64_t>(bins_.size()));
    return {{"name", name_}, {"kind", kind_}, {"busy_cycles", busy_}, {"runs", std::move(runs)}};
  }

 private:
  std::string name_;
  std::string kind_;
  int64_t bin_cycles_;
  int64_t busy_ = 0;
  std::vector<std::map<int, int64_t>> bins_;
};

/// An end of an MV as people call it, and the tensor there if it is DRAM.
struct MvEnd {
  std::string memory;
  std::string tensor;
};
MvEnd end_of(const isa::Operand& operand, const DramImages& images, int stage) {
  switch (operand.space) {
    case isa::Space::kDram: {
      const DramImage* image = images.find(operand.base, stage);
      return {"DRAM", image != nullptr ? image->name : ""};
    }
    case isa::Space::kDramIndirect:
      return {"DRAM by addresses", ""};
    case isa::Space::kPdm:
      return {"PDM", ""};
    case isa::Space::kL2bm:
      return {"L2BM", ""};
    default:
      return {std::string(isa::space_name(operand.space)), ""};
  }
}
struct MvEnds {
  MvEnd from;
  MvEnd to;
  const std::string& tensor() const { return from.tensor.empty() ? to.tensor : from.tensor; }
};
MvEnds ends_of(const isa::Instruction& mv, const DramImages& images, int stage) {
  MvEnds ends;
  if (!mv.sources.empty()) ends.from = end_of(mv.sources[0], images, stage);
  if (!mv.destinations.empty()) ends.to = end_of(mv.destinations[0], images, stage);
  return ends;
}

}  // namespace

ordered_json timeline_json(const TracedRun& run, const DramImages& images) {
  const int64_t cycles = std::max<int64_t>(run.cycles(), 1);
  const int64_t bin_cycles =
      isa::round_up(isa::ceil_div(cycles, kTimelineBins), int64_t{isa::kCyclesPerStep});
  const int64_t bins = isa::ceil_div(cycles, bin_cycles);
  Names names;
  std::vector<TrackBins> tracks;
  tracks.emplace_back("stalls", "stall", bins, bin_cycles);
  for (const char* slot : {"L2BM", "L1BM", "MAU", "ALU"}) tracks.emplace_back(slot, "slot", bins, bin_cycles);
  for (const Timeline::Span& span : run.timeline().spans()) {
    if (span.track == Timeline::kRegions || !run.has(span.begin)) continue;
    tracks[static_cast<size_t>(span.track - Timeline::kSequencer)].add(
        span.begin - run.begin(), std::min(span.end - run.begin(), cycles), names[span.name]);
  }
  // An engine is busy while a transfer is under way; of several at a time the one that came first names it.
  const int groups = run.model().chip.groups;
  std::vector<int64_t> free_from(static_cast<size_t>(groups), 0);
  std::vector<TrackBins> engines;
  for (int group = 0; group < groups; ++group)
    engines.emplace_back("transfers, group " + std::to_string(group), "engine", bins, bin_cycles);
  std::vector<const Timeline::Transfer*> transfers;
  for (const Timeline::Transfer& transfer : run.timeline().transfers()) {
    if (run.has(transfer.issued)) transfers.push_back(&transfer);
  }
  std::ranges::stable_sort(transfers, {}, [](const auto* transfer) { return transfer->issued; });
  for (const Timeline::Transfer* transfer : transfers) {
    const int stage = run.stage_of(transfer->region);
    const std::string tensor = ends_of(transfer->mv, images, stage).tensor();
    const int name = names[tensor.empty() ? isa::mnemonic(transfer->mv) : tensor];
    const int64_t end = std::min(transfer->done - run.begin(), cycles);
    for (int group = 0; group < groups; ++group) {
      if ((transfer->groups >> group & 1) == 0) continue;
      int64_t& free = free_from[static_cast<size_t>(group)];
      const int64_t begin = std::max(transfer->issued - run.begin(), free);
      if (begin >= end) continue;
      engines[static_cast<size_t>(group)].add(begin, end, name);
      free = end;
    }
  }
  ordered_json layers = ordered_json::array();
  for (const TracedRun::Band& band : run.bands()) layers.push_back({band.stage, band.begin, band.end});
  ordered_json all = ordered_json::array();
  for (const std::vector<TrackBins>& part : {tracks, engines}) {
    for (const TrackBins& track : part) all.push_back(track.json());
  }
  return {
      {"cycles", run.cycles()},      {"bin_cycles", bin_cycles}, {"truncated", run.timeline().truncated()},
      {"layers", std::move(layers)}, {"names", names.all()},     {"tracks", std::move(all)}};
}

std::vector<ordered_json> transfers_json(const TracedRun& run, const DramImages& images) {
  struct Sum {
    int64_t count = 0;
    int64_t lw = 0;
    int64_t first = 0;
    int64_t last = 0;
  };
  using Key = std::tuple<std::string, std::string, std::string, std::string>;
  std::vector<std::map<Key, Sum>> sums(run.model().stages.size());
  for (const Timeline::Transfer& transfer : run.timeline().transfers()) {
    if (!run.has(transfer.issued)) continue;
    const int stage = run.stage_of(transfer.region);
    if (stage < 0) continue;
    const MvEnds ends = ends_of(transfer.mv, images, stage);
    const auto [sum, is_new] = sums[static_cast<size_t>(stage)].try_emplace(
        Key{ends.tensor(), ends.from.memory, ends.to.memory, isa::mnemonic(transfer.mv)});
    const int64_t issued = transfer.issued - run.begin();
    const int64_t done = transfer.done - run.begin();
    sum->second.first = is_new ? issued : std::min(sum->second.first, issued);
    sum->second.last = std::max(sum->second.last, done);
    ++sum->second.count;
    sum->second.lw += transfer.mv.size_lw;
  }
  std::vector<ordered_json> result;
  for (const auto& of_stage : sums) {
    ordered_json& list = result.emplace_back(ordered_json::array());
    for (const auto& [key, sum] : of_stage) {
      const auto& [tensor, from, to, mv] = key;
      list.push_back({{"tensor", tensor},
                      {"from", from},
                      {"to", to},
                      {"instruction", mv},
                      {"count", sum.count},
                      {"lw", sum.lw},
                      {"first_cycle", sum.first},
                      {"last_cycle", sum.last}});
    }
  }
  return result;
}

std::optional<TracedRun> traced_run(const CompiledModel& model, const simulator::RunReport& report,
                                    size_t first_program) {
  const simulator::Timeline* timeline = report.timeline();
  if (timeline == nullptr || model.segments.empty()) return {};
  return TracedRun(model, *timeline, first_program, timeline->program_begins().size() - 1 - first_program);
}

}  // namespace kodama::compiler
