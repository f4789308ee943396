#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <unordered_map>

#include "compiler/report/traced_run.h"
#include "isa/arithmetic.h"
#include "isa/costs.h"

/// What the memories hold over a run.
///
/// The programs of the run are walked through, statement by statement, with the cycles that the timeline has.
/// A word of memory holds something from when it is written until it is last read before it is written again;
/// what nobody reads isn't counted. Words that move keep the name of the tensor that DRAM had them under; so
/// do values that one operand alone gives, and constants that stay in the PEs, which are converted before the
/// first run. What is computed otherwise is named by its layer. All PEs, L1Bs and L2Bs do the same: a level
/// is one of its memories, in whose L2BM transfers to several L2Bs stand side by side at the same addresses.
/// Addresses out of T may be any that the layer has written.
namespace kodama::compiler {
namespace {

using isa::HazardResource;
using nlohmann::ordered_json;
using simulator::Timeline;

constexpr int64_t kMemoryBins = 400;
/// Tensors that a level names; the others are one.
constexpr size_t kNamedTensors = 60;
/// Statements of a run that are walked through: about a minute.
constexpr int64_t kMostStatements = int64_t{1} << 26;

/// LW of a level by name and part of the run.
class LevelUse {
 public:
  LevelUse(std::string name, std::string per, int64_t capacity_lw, int64_t cycles)
      : name_(std::move(name)),
        per_(std::move(per)),
        capacity_lw_(capacity_lw),
        cycles_(std::max<int64_t>(cycles, 1)),
        bin_cycles_(isa::ceil_div(cycles_, kMemoryBins)) {}

  /// `lw` are there from `begin` to `end`.
  void add(const std::string& tensor, double lw, int64_t begin, int64_t end) {
    end = std::min(end, cycles_);
    if (begin >= end || !counts_) return;
    changes_[begin] += lw;
    changes_[end] -= lw;
    Content& content = contents_[tensor];
    if (content.bins.empty()) content.bins.resize(static_cast<size_t>(isa::ceil_div(cycles_, bin_cycles_)));
    content.first = std::min(content.first, begin);
    content.last = std::max(content.last, end);
    content.all += lw * static_cast<double>(end - begin);
    for (int64_t bin = begin / bin_cycles_; begin < end; ++bin) {
      const int64_t until = std::min(end, (bin + 1) * bin_cycles_);
      content.bins[static_cast<size_t>(bin)] += lw * static_cast<double>(until - begin);
      begin = until;
    }
  }
  /// Nothing is counted before the run.
  void start() { counts_ = true; }
  ordered_json json() const {
    double present = 0;
    double peak = 0;
    int64_t peak_cycle = 0;
    for (const auto& [cycle, change] : changes_) {
      present += change;
      if (present > peak) {
        peak = present;
        peak_cycle = cycle;
      }
    }
    std::vector<std::pair<std::string, Content>> contents(contents_.begin(), contents_.end());
    std::ranges::stable_sort(contents,
                             [](const auto& a, const auto& b) { return a.second.all > b.second.all; });
    if (contents.size() > kNamedTensors) {
      Content& others = contents[kNamedTensors - 1].second;
      contents[kNamedTensors - 1].first = std::to_string(contents.size() - kNamedTensors + 1) + " others";
      for (size_t k = kNamedTensors; k < contents.size(); ++k) {
        others.first = std::min(others.first, contents[k].second.first);
        others.last = std::max(others.last, contents[k].second.last);
        for (size_t bin = 0; bin < others.bins.size(); ++bin)
          others.bins[bin] += contents[k].second.bins[bin];
      }
      contents.resize(kNamedTensors);
    }
    ordered_json list = ordered_json::array();
    for (const auto& [tensor, content] : contents) {
      ordered_json lw = ordered_json::array();
      for (size_t bin = 0; bin < content.bins.size(); ++bin) {
        const int64_t length = std::min(bin_cycles_, cycles_ - static_cast<int64_t>(bin) * bin_cycles_);
        lw.push_back(std::llround(content.bins[bin] / static_cast<double>(length)));
      }
      list.push_back({{"tensor", tensor},
                      {"first_cycle", content.first},
                      {"last_cycle", content.last},
                      {"lw", std::move(lw)}});
    }
    return {{"level", name_},
            {"per", per_},
            {"capacity_lw", capacity_lw_},
            {"peak_lw", std::llround(std::ceil(peak))},
            {"peak_cycle", peak_cycle},
            {"bin_cycles", bin_cycles_},
            {"tensors", std::move(list)}};
  }

 private:
  struct Content {
    int64_t first = INT64_MAX;
    int64_t last = 0;
    double all = 0;
    std::vector<double> bins;
  };
  std::string name_;
  std::string per_;
  int64_t capacity_lw_;
  int64_t cycles_;
  int64_t bin_cycles_;
  bool counts_ = false;
  std::map<int64_t, double> changes_;
  std::map<std::string, Content> contents_;
};

/// One memory, unit by unit (words of PEs, LW of the others).
class Cells {
 public:
  Cells(int64_t size, double lw_per_cell, LevelUse& level)
      : cells_(static_cast<size_t>(size)), lw_per_cell_(lw_per_cell), level_(level) {}

  int64_t size() const { return static_cast<int64_t>(cells_.size()); }
  int tag(int64_t at) const { return cell(at).tag; }
  void read(int64_t at, int64_t cycle) { cell(at).read = std::max(cell(at).read, cycle); }
  void write(int64_t at, int tag, int64_t cycle, const std::vector<std::string>& names) {
    Cell& changed = cell(at);
    // Transfers to several L2Bs, one after the other, are one content.
    if (changed.tag == tag && changed.read < changed.written) return;
    changed.read = std::min(changed.read, std::max(cycle, changed.written));
    close(changed, names);
    changed = {tag, cycle, -1};
  }
  /// An address that isn't known: all that was written since.
  void read_all_since(int64_t since, int64_t cycle) {
    for (Cell& each : cells_) {
      if (each.tag >= 0 && each.written >= since) each.read = std::max(each.read, cycle);
    }
  }
  /// The run begins: what is there stays unless it is written over, or is forgotten.
  void start(bool keeps) {
    for (Cell& each : cells_) {
      const int tag = each.tag;
      each = {};
      if (keeps && tag >= 0) each = {tag, 0, kStays};
    }
    count_ = 0;
  }
  void finish(const std::vector<std::string>& names) {
    for (Cell& each : cells_) close(each, names);
    flush(names);
  }

 private:
  static constexpr int64_t kStays = INT64_MAX;
  struct Cell {
    int tag = -1;
    int64_t written = -1;
    int64_t read = -1;
  };
  Cell& cell(int64_t at) { return cells_[static_cast<size_t>(index(at))]; }
  const Cell& cell(int64_t at) const { return cells_[static_cast<size_t>(index(at))]; }
  int64_t index(int64_t at) const {
    const int64_t in = at % size();
    return in < 0 ? in + size() : in;
  }
  /// Neighbours mostly have the same period: they are added together.
  void close(const Cell& old, const std::vector<std::string>& names) {
    if (old.tag < 0 || old.read <= old.written) return;
    if (old.tag == run_.tag && old.written == run_.written && old.read == run_.read) {
      ++count_;
      return;
    }
    flush(names);
    run_ = old;
    count_ = 1;
  }
  void flush(const std::vector<std::string>& names) {
    if (count_ > 0)
      level_.add(names[static_cast<size_t>(run_.tag)], static_cast<double>(count_) * lw_per_cell_,
                 run_.written, run_.read);
    count_ = 0;
  }

  std::vector<Cell> cells_;
  double lw_per_cell_;
  LevelUse& level_;
  Cell run_;
  int64_t count_ = 0;
};

class MemoryWalk {
 public:
  MemoryWalk(const TracedRun& run, const DramImages& images)
      : run_(run),
        images_(images),
        chip_(run.model().chip),
        lm_("LM", "PE", 2 * chip_.memory.lm_words / isa::kWordsPerLong, run.cycles()),
        grf_("GRF", "PE", 2 * chip_.memory.grf_words / isa::kWordsPerLong, run.cycles()),
        l1bm_("L1BM", "L1B", chip_.memory.l1bm_lw, run.cycles()),
        l2bm_("L2BM", "L2B", chip_.memory.l2bm_lw, run.cycles()),
        dram_("DRAM", "group", chip_.memory.dram_lw, run.cycles()) {
    const double word = 1.0 / isa::kWordsPerLong;
    memories_.try_emplace(HazardResource::kLm0, chip_.memory.lm_words, word, lm_);
    memories_.try_emplace(HazardResource::kLm1, chip_.memory.lm_words, word, lm_);
    memories_.try_emplace(HazardResource::kGrf0, chip_.memory.grf_words, word, grf_);
    memories_.try_emplace(HazardResource::kGrf1, chip_.memory.grf_words, word, grf_);
    memories_.try_emplace(HazardResource::kL1bm, chip_.memory.l1bm_lw, 1.0, l1bm_);
    memories_.try_emplace(HazardResource::kL2bm, chip_.memory.l2bm_lw, 1.0, l2bm_);
  }

  ordered_json json() {
    walk_preparation();
    for (size_t program = 0; program < run_.programs() && !truncated_; ++program) walk_program(program);
    for (auto& [resource, cells] : memories_) cells.finish(names_);
    add_dram();
    ordered_json levels = ordered_json::array();
    for (const LevelUse* level : {&lm_, &grf_, &l1bm_, &l2bm_, &dram_}) levels.push_back(level->json());
    return {{"cycles", run_.cycles()},
            {"truncated", truncated_ || run_.timeline().truncated()},
            {"levels", std::move(levels)}};
  }

 private:
  void walk_preparation() {
    stage_ = -1;
    computed_ = tag("computed before the first run");
    now_ = 0;
    stage_begin_ = 0;
    walk(run_.model().preparation.statements);
    for (auto& [resource, cells] : memories_) {
      const bool is_local = resource == HazardResource::kLm0 || resource == HazardResource::kLm1;
      cells.start(is_local);
    }
    for (LevelUse* level : {&lm_, &grf_, &l1bm_, &l2bm_, &dram_}) level->start();
  }

  void walk_program(size_t program) {
    const Segment& segment = run_.segment(program);
    now_ = run_.program_begin(program);
    stalls_.clear();
    const int64_t end = run_.program_begin(program + 1);
    for (const Timeline::Span& span : run_.timeline().spans()) {
      const int64_t begin = span.begin - run_.begin();
      if (span.track == Timeline::kSequencer && begin >= now_ && begin < end)
        stalls_.push_back({begin, span.end - span.begin});
    }
    std::ranges::stable_sort(stalls_);
    next_stall_ = 0;
    for (int stage = segment.first_stage; stage < segment.end_stage(); ++stage) {
      const auto part = static_cast<size_t>(stage - segment.first_stage);
      stage_ = stage;
      stage_begin_ = now_;
      computed_ = tag("computed in " + run_.model().stages[static_cast<size_t>(stage)].name);
      const std::span all(segment.parts.program.statements);
      const size_t from = segment.parts.begin[part];
      walk(all.subspan(from, segment.parts.begin[part + 1] - from));
    }
  }

  void walk(std::span<const isa::Statement> statements) {
    for (const isa::Statement& each : statements) {
      if (truncated_) return;
      if (const auto* loop = std::get_if<isa::Loop>(&each.kind)) {
        if (isa::is_idle(*loop)) continue;
        counters_.push_back(0);
        for (int64_t i = 0; i < loop->count && !truncated_; ++i) {
          counters_.back() = i;
          walk(loop->body);
        }
        counters_.pop_back();
      } else {
        statement(each);
      }
    }
  }

  void statement(const isa::Statement& statement) {
    truncated_ = ++statements_ > kMostStatements;
    while (next_stall_ < stalls_.size() && stalls_[next_stall_].first <= now_)
      now_ += stalls_[next_stall_++].second;
    if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) {
      instruction(mv->instruction);
      write_all();
    } else if (const auto* nop = std::get_if<isa::Nop>(&statement.kind)) {
      now_ += nop->count * isa::kCyclesPerStep;
    } else if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
      // All of a step is read before anything is written.
      for (const isa::Instruction& each : step->instructions) instruction(each);
      write_all();
      now_ += isa::kCyclesPerStep;
    }
  }

  /// Calls visit(cell) for what an access touches; PE memories by words.
  template <typename Visit>
  void for_each_cell(const isa::Access& access, Visit&& visit) const {
    int64_t moved = 0;
    for (size_t d = 0; d < access.loop_strides.size() && d < counters_.size(); ++d)
      moved += access.loop_strides[d] * counters_[d];
    for (int cycle = 0; cycle < access.cycles; ++cycle) {
      if (access.cycles > 1 && (access.active_cycles >> cycle & 1) == 0) continue;
      for (int64_t k = 0; k < access.length; ++k) visit(access.begin[static_cast<size_t>(cycle)] + moved + k);
    }
  }

  void instruction(const isa::Instruction& instruction) {
    auto known = accesses_.find(&instruction);
    if (known == accesses_.end())
      known = accesses_.emplace(&instruction, isa::accesses(instruction, chip_)).first;
    sources_.clear();
    for (const isa::Access& access : known->second) {
      if (access.write) continue;
      if (access.resource == HazardResource::kDram) {
        sources_.push_back(access.whole ? computed_ : dram_tag(access));
        continue;
      }
      if (access.resource == HazardResource::kMatX || access.resource == HazardResource::kMatY) {
        sources_.push_back(computed_);
        continue;
      }
      if (isa::is_forwarding_register(access.resource)) {
        const auto forwarded = forwarded_.find(access.resource);
        sources_.push_back(forwarded != forwarded_.end() ? forwarded->second : computed_);
        continue;
      }
      const auto memory = memories_.find(access.resource);
      if (memory == memories_.end()) continue;
      Cells& cells = memory->second;
      if (access.whole) {
        cells.read_all_since(stage_begin_, now_ + isa::kCyclesPerStep);
        sources_.push_back(computed_);
        continue;
      }
      bool first = true;
      for_each_cell(access, [&](int64_t at) {
        if (std::exchange(first, false)) sources_.push_back(cells.tag(at));
        cells.read(at, now_ + isa::kCyclesPerStep);
      });
    }
    const int written = tag_of_result();
    for (const isa::Access& access : known->second) {
      if (!access.write) continue;
      if (isa::is_forwarding_register(access.resource)) forwarding_.emplace_back(access.resource, written);
      const auto memory = memories_.find(access.resource);
      if (access.whole || memory == memories_.end()) continue;
      writes_.push_back({&access, &memory->second, written});
    }
  }
  /// Of what sources_ are the tags.
  int tag_of_result() const {
    if (stage_ < 0) {  // numbers that go with a constant have no name
      int found = computed_;
      for (const int source : sources_) {
        if (source < 0 || source == computed_ || source == found) continue;
        if (found != computed_) return computed_;
        found = source;
      }
      return found;
    }
    return sources_.size() == 1 && sources_[0] >= 0 ? sources_[0] : computed_;
  }
  void write_all() {
    for (const auto& [resource, tag] : forwarding_) forwarded_[resource] = tag;
    forwarding_.clear();
    for (const Write& write : writes_)
      for_each_cell(*write.access, [&](int64_t at) { write.cells->write(at, write.tag, now_, names_); });
    writes_.clear();
  }

  int dram_tag(const isa::Access& access) {
    int64_t address = access.begin[0];
    for (size_t d = 0; d < access.loop_strides.size() && d < counters_.size(); ++d)
      address += access.loop_strides[d] * counters_[d];
    const DramImage* image = images_.find(address, stage_);
    return image != nullptr ? tag(image->name) : -1;
  }
  int tag(const std::string& name) {
    const auto [known, is_new] = tags_.try_emplace(name, static_cast<int>(names_.size()));
    if (is_new) names_.push_back(name);
    return known->second;
  }

  /// Images, from the beginning of the stage that makes them to the end of the last that reads them.
  void add_dram() {
    const size_t stages = run_.model().stages.size();
    std::vector<std::vector<TracedRun::Band>> slices;
    for (const TracedRun::Band& band : run_.bands()) {
      if (slices.empty() || band.stage <= slices.back().back().stage) slices.emplace_back();
      slices.back().push_back(band);
    }
    for (const DramImage& image : images_.all()) {
      const auto lw = static_cast<double>(image.end - image.begin);
      if (image.constant) {
        dram_.add(image.name, lw, 0, run_.cycles());
        continue;
      }
      if (!image.stored) continue;
      for (const auto& bands : slices) {
        int64_t begin = INT64_MAX;
        int64_t end = 0;
        for (const TracedRun::Band& band : bands) {
          if (band.stage < image.first_stage || band.stage > image.last_stage) continue;
          begin = std::min(begin, band.begin);
          end = std::max(end, band.end);
        }
        if (image.last_stage + 1 == static_cast<int>(stages)) end = std::max(end, bands.back().end);
        if (begin < end) dram_.add(image.name, lw, begin, end);
      }
    }
  }

  struct Write {
    const isa::Access* access;
    Cells* cells;
    int tag;
  };

  const TracedRun& run_;
  const DramImages& images_;
  const isa::Chip& chip_;
  LevelUse lm_, grf_, l1bm_, l2bm_, dram_;
  std::map<HazardResource, Cells> memories_;
  std::unordered_map<const isa::Instruction*, std::vector<isa::Access>> accesses_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, int> tags_;
  std::vector<std::pair<int64_t, int64_t>> stalls_;  ///< begin, cycles
  size_t next_stall_ = 0;
  std::vector<int64_t> counters_;
  std::vector<Write> writes_;
  std::vector<int> sources_;                                ///< tags of what the instruction reads
  std::map<HazardResource, int> forwarded_;                 ///< tags of forwarding registers
  std::vector<std::pair<HazardResource, int>> forwarding_;  ///< of the present step
  int stage_ = -1;
  int computed_ = -1;
  int64_t now_ = 0;
  int64_t stage_begin_ = 0;
  int64_t statements_ = 0;
  bool truncated_ = false;
};

}  // namespace

ordered_json memory_json(const TracedRun& run, const DramImages& images) {
  return MemoryWalk(run, images).json();
}

}  // namespace kodama::compiler
