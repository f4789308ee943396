#include "compiler/compile/resident.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <compare>
#include <map>
#include <set>
#include <utility>

#include "compiler/compile/local_memory.h"
#include "compiler/kernels/predict.h"
#include "compiler/tile/buffer_use.h"
#include "isa/arithmetic.h"
#include "isa/error.h"

namespace kodama::compiler {

using isa::round_up;
using isa::Space;

namespace {

/// Alignment of what has words of its own, as values of a program have.
constexpr int64_t kResidentAlignmentLw = 2;

/// Of a copy, a step for four LW, until somebody may read the last of it.
constexpr int64_t kCopyLatencyCycles = 4 * isa::kCyclesPerStep;

constexpr std::array<Space, 2> kMemories = {Space::kLm0, Space::kLm1};
size_t number_of(Space memory) {
  return memory == Space::kLm0 ? 0 : 1;
}

/// Numbers [begin, end) of a stream in DRAM as PEs have them, and in which memories. Stages may share them.
struct Source {
  int64_t dram = 0, begin = 0, end = 0;
  int form = -1;
  scheduler::HomeSet homes = 0;
  std::string transport;
  auto operator<=>(const Source&) const = default;
};
/// Where something stays.
struct Place {
  Space memory = Space::kLm0;
  int64_t address_lw = -1;
};
/// What stays in a memory that its buffer may not be in is copied to the buffer where it would be loaded.
bool is_copied(const Source& source, Space memory) {
  return (source.homes & isa::space_bit(memory)) == 0;
}
/// Predicted cycles, over all iterations.
struct Cost {
  int64_t load = 0;
  int64_t copy = 0;  ///< instead
  int64_t saved(bool copied) const { return copied ? load - copy : load; }
};
/// The numbers of all iterations of a load; `counts` are those of the loops around it.
Source source_of(const TileProgram& program, const LoadTile& load, const std::vector<int64_t>& counts) {
  const TileStream& stream = program.streams[static_cast<size_t>(load.stream)];
  int64_t low = load.from.base, high = load.from.base;
  for (size_t d = 0; d < load.from.strides.size(); ++d) {
    const int64_t reach = load.from.strides[d] * (counts[d] - 1);
    (reach < 0 ? low : high) += reach;
  }
  return {stream.dram_address,
          low,
          high + load.count,
          load.normalize ? static_cast<int>(*load.normalize) : -1,
          program.buffers[static_cast<size_t>(load.buffer)].homes &
              (isa::space_bit(Space::kLm0) | isa::space_bit(Space::kLm1)),
          stream.transport.to_string()};
}
/// Where a load's first number is in a buffer that has all of its source.
TileIndex place_in_source(const LoadTile& load, const Source& source) {
  const int64_t shrink = load.stream_lw();
  TileIndex place{(load.from.base - source.begin) / shrink, load.from.strides};
  for (int64_t& stride : place.strides) stride /= shrink;
  return place;
}
bool is_fixed(const TileIndex& index) {
  return std::ranges::all_of(index.strides, [](int64_t stride) { return stride == 0; });
}
void add_to(TileIndex& index, const TileIndex& more) {
  index.base += more.base;
  if (index.strides.size() < more.strides.size()) index.strides.resize(more.strides.size(), 0);
  for (size_t d = 0; d < more.strides.size(); ++d) index.strides[d] += more.strides[d];
}

/// What a buffer has between a load and the next write to it.
struct Contents {
  Source source;
  TileIndex place;
};

/// The loads of a program whose buffers could be another one that has all of it all the time: those of
/// constants, where everybody reads what the last load before it in the same or a surrounding loop brought.
class Loads {
 public:
  Loads(const TileProgram& program, const std::vector<bool>& constant_streams, const isa::Chip& chip)
      : program_(program), constant_streams_(constant_streams), chip_(chip) {
    count_writers(program.body);
    walk(program.body, {}, 1);
    for (const int buffer : others_) costs_.erase(buffer);
  }

  /// By buffer, what the loads of each source take.
  const std::map<int, std::map<Source, Cost>>& costs() const { return costs_; }
  /// A load of each source, of which `from` is not the first number.
  const std::map<Source, LoadTile>& examples() const { return examples_; }

 private:
  using Open = std::map<int, Contents>;

  void count_writers(const std::vector<TileNode>& nodes) {
    for_each_node(nodes, [&](const TileNode& node) {
      for (const int buffer : buffers_of(node).writes) ++writers_[buffer];
    });
  }
  bool could_stay(const LoadTile& load) const {
    if (!constant_streams_[static_cast<size_t>(load.stream)] || load.at.base != 0 || !is_fixed(load.at))
      return false;
    const int64_t shrink = load.stream_lw();
    const int64_t unit = shrink * isa::kCyclesPerStep;
    const auto is_whole = [&](int64_t number) { return number % unit == 0; };
    const TileBuffer& buffer = program_.buffers[static_cast<size_t>(load.buffer)];
    const bool is_local = (buffer.homes & (isa::space_bit(Space::kLm0) | isa::space_bit(Space::kLm1))) != 0;
    return is_local && is_whole(load.from.base) && std::ranges::all_of(load.from.strides, is_whole) &&
           (writers_.at(load.buffer) == 1 || load.count / shrink == buffer.size_lw);
  }
  void walk(const std::vector<TileNode>& nodes, Open open, int64_t times) {
    for (TileNode node : nodes) {
      if (const auto* loop = std::get_if<TileLoop>(&node.kind)) {
        for (const int buffer : buffers_of(node).writes) open.erase(buffer);
        counts_.push_back(loop->count);
        if (loop->count > 0) walk(loop->body, open, times * loop->count);
        counts_.pop_back();
        continue;
      }
      for (const BufferRead& read : reads_of(node)) {
        const auto found = open.find(*read.buffer);
        if (found == open.end() || (read.at == nullptr && !is_fixed(found->second.place)))
          others_.insert(*read.buffer);
      }
      for (const int buffer : buffers_of(node).writes) {
        const auto* load = std::get_if<LoadTile>(&node.kind);
        if (load == nullptr || !could_stay(*load)) {
          others_.insert(buffer);
          continue;
        }
        const Source source = source_of(program_, *load, counts_);
        open[buffer] = {source, place_in_source(*load, source)};
        const layout::Transport& transport = program_.streams[static_cast<size_t>(load->stream)].transport;
        Cost& cost = costs_[buffer][source];
        cost.load += times * load_cycles(transport, load->count, chip_, load->normalize.has_value());
        cost.copy += times * (load->count / load->stream_lw() + kCopyLatencyCycles);
        examples_.emplace(source, *load);
      }
    }
  }

  const TileProgram& program_;
  const std::vector<bool>& constant_streams_;
  const isa::Chip& chip_;
  std::map<int, int> writers_;
  std::vector<int64_t> counts_;
  std::set<int> others_;  ///< buffers that are something else, too
  std::map<int, std::map<Source, Cost>> costs_;
  std::map<Source, LoadTile> examples_;
};

/// Makes readers of loads that stay read what stays.
class Rewriter {
 public:
  /// `places`: of what stays; `buffers`: those of `program` whose loads may fall away.
  Rewriter(TileProgram& program, const std::map<Source, Place>& places, std::set<int> buffers)
      : program_(program), places_(places), buffers_(std::move(buffers)) {}
  void run() { walk(program_.body, {}); }

 private:
  struct Kept {
    int buffer = 0;
    TileIndex place;
  };
  using Open = std::map<int, Kept>;

  void walk(std::vector<TileNode>& nodes, Open open) {
    std::vector<TileNode> rest;
    for (TileNode& node : nodes) {
      if (auto* loop = std::get_if<TileLoop>(&node.kind)) {
        for (const int buffer : buffers_of(node).writes) open.erase(buffer);
        counts_.push_back(loop->count);
        walk(loop->body, open);
        counts_.pop_back();
        if (!loop->body.empty()) rest.push_back(std::move(node));
        continue;
      }
      for (const BufferRead& read : reads_of(node)) {
        const auto found = open.find(*read.buffer);
        if (found == open.end()) continue;
        *read.buffer = found->second.buffer;
        if (read.at != nullptr) add_to(*read.at, found->second.place);
      }
      const auto* load = std::get_if<LoadTile>(&node.kind);
      if (load == nullptr || !buffers_.contains(load->buffer)) {
        rest.push_back(std::move(node));
        continue;
      }
      const Source source = source_of(program_, *load, counts_);
      const auto place = places_.find(source);
      if (place == places_.end()) {
        open.erase(load->buffer);
        rest.push_back(std::move(node));
        continue;
      }
      const int buffer = buffer_of(*load, source, place->second);
      if (!is_copied(source, place->second.memory)) {
        open[load->buffer] = {buffer, place_in_source(*load, source)};
        continue;
      }
      MapTile copy;
      copy.expr = ScalarExpr::identity();
      copy.inputs = {{buffer, place_in_source(*load, source)}};
      copy.out = load->buffer;
      copy.out_at = load->at;
      copy.count = load->count / load->stream_lw();
      open.erase(load->buffer);
      rest.push_back({std::move(copy)});
    }
    nodes = std::move(rest);
  }
  int buffer_of(const LoadTile& load, const Source& source, const Place& place) {
    const auto [made, is_new] = made_.emplace(source, static_cast<int>(program_.buffers.size()));
    if (is_new) {
      TileBuffer buffer = program_.buffers[static_cast<size_t>(load.buffer)];
      buffer.size_lw = (source.end - source.begin) / load.stream_lw();
      buffer.homes = isa::space_bit(place.memory);
      buffer.address_lw = place.address_lw;
      buffer.memory = place.memory;
      program_.buffers.push_back(std::move(buffer));
    }
    return made->second;
  }

  TileProgram& program_;
  const std::map<Source, Place>& places_;
  std::set<int> buffers_;
  std::vector<int64_t> counts_;
  std::map<Source, int> made_;
};

class ResidentPlanner {
 public:
  ResidentPlanner(std::vector<ResidentStage>& stages, const isa::Chip& chip)
      : stages_(stages), chip_(chip), capacity_(chip.memory.lm_words / isa::kWordsPerLong) {
    for (size_t k = 0; k < stages.size(); ++k) find(static_cast<int>(k));
  }

  /// That the loads take of what is chosen.
  int64_t cycles() {
    choose();
    int64_t sum = 0;
    for (const auto& [source, memory] : chosen_)
      sum += offers_.at(source).cost.saved(is_copied(source, memory));
    return sum;
  }

  std::optional<TileProgram> run() {
    choose();
    if (chosen_.empty()) return std::nullopt;
    std::map<Source, Place> places;
    std::vector<TileProgram::Kept> kept;
    for (const Space memory : kMemories) {
      const TileProgram::Kept& hole = holes_.at(number_of(memory));
      const int64_t all = hole.begin_lw + hole.size_lw;
      int64_t end = all;
      for (const auto& [source, home] : chosen_) {
        if (home != memory) continue;
        end -= offers_.at(source).size_lw;
        places[source] = {memory, end};
      }
      if (end < all) kept.push_back({end, all - end, memory});
    }
    TileProgram preparation = prepare(places);
    preparation.kept = kept;
    for (size_t k = 0; k < stages_.size(); ++k) {
      if (stages_[k].tiles == nullptr) continue;
      std::set<int> buffers;
      for (const auto& [buffer, sources] : stage_buffers_[k]) buffers.insert(buffer);
      Rewriter(*stages_[k].tiles, places, std::move(buffers)).run();
      stages_[k].tiles->kept.insert(stages_[k].tiles->kept.end(), kept.begin(), kept.end());
    }
    return preparation;
  }

 private:
  /// Something that could stay.
  struct Offer {
    int64_t size_lw = 0;
    Cost cost;
    std::set<int> stages = {};
    LoadTile load = {};  ///< one of them, in the first of the stages
    double density(bool copied) const {
      return static_cast<double>(cost.saved(copied)) / static_cast<double>(size_lw);
    }
  };

  void find(int number) {
    const auto k = static_cast<size_t>(number);
    const ResidentStage& stage = stages_[k];
    stage_buffers_.emplace_back();
    own_.push_back({});
    if (stage.tiles == nullptr) return;
    const Loads loads(*stage.tiles, stage.constant_streams, chip_);
    std::set<int> buffers;
    for (const auto& [buffer, sources] : loads.costs()) {
      buffers.insert(buffer);
      for (const auto& [source, cost] : sources) {
        const LoadTile& load = loads.examples().at(source);
        Offer& offer = offers_[source];
        if (offer.stages.empty()) offer.load = load;
        offer.size_lw = round_up((source.end - source.begin) / load.stream_lw(), kResidentAlignmentLw);
        offer.cost.load += cost.load;
        offer.cost.copy += cost.copy;
        offer.stages.insert(number);
        stage_buffers_[k][buffer].insert(source);
      }
    }
    for (const Space memory : kMemories) {
      own_.back().at(number_of(memory)) = own_local_memory_lw(*stage.tiles, memory, buffers, chip_) +
                                          stage.needs_lw + (memory == Space::kLm0 ? stage.results_lw : 0);
    }
  }

  using Chosen = std::map<Source, Space>;

  /// LW of a memory that a stage has for itself, what it still loads among that: the larger part of what may
  /// be in either counts in both.
  int64_t needed_lw(size_t stage, Space memory, const Chosen& chosen) const {
    if (stages_[stage].tiles == nullptr) return 0;
    int64_t lw = own_[stage].at(number_of(memory));
    for (const auto& [buffer, sources] : stage_buffers_[stage]) {
      const TileBuffer& own = stages_[stage].tiles->buffers[static_cast<size_t>(buffer)];
      const bool stays = std::ranges::all_of(sources, [&](const Source& each) {
        const auto found = chosen.find(each);
        return found != chosen.end() && !is_copied(each, found->second);
      });
      if (!stays && (own.homes & isa::space_bit(memory)) != 0) lw += own.size_lw;
    }
    return lw;
  }

  /// The longest range of a memory that no relayout writes.
  TileProgram::Kept find_hole(Space memory) const {
    std::vector<bool> taken(static_cast<size_t>(capacity_), false);
    for (const ResidentStage& stage : stages_) {
      for (const TileProgram::Kept& each : stage.taken) {
        if (each.memory == memory) std::fill_n(taken.begin() + each.begin_lw, each.size_lw, true);
      }
    }
    TileProgram::Kept longest, now;
    for (int64_t lw = 0; lw < capacity_; ++lw) {
      now = taken[static_cast<size_t>(lw)] ? TileProgram::Kept{lw + 1, 0}
                                           : TileProgram::Kept{now.begin_lw, now.size_lw + 1};
      if (now.size_lw > longest.size_lw) longest = now;
    }
    const int64_t end = (longest.begin_lw + longest.size_lw) / kResidentAlignmentLw * kResidentAlignmentLw;
    return {longest.begin_lw, std::max<int64_t>(0, end - longest.begin_lw), memory};
  }

  /// What needs no copies first.
  void choose() {
    for (const Space memory : kMemories) holes_.at(number_of(memory)) = find_hole(memory);
    std::vector<const std::pair<const Source, Offer>*> order;
    for (const auto& each : offers_) order.push_back(&each);
    std::array<int64_t, 2> sizes{};
    for (const bool copied : {false, true}) {
      std::ranges::stable_sort(order, std::ranges::greater{},
                               [&](const auto* each) { return each->second.density(copied); });
      for (const auto* each : order) {
        if (chosen_.contains(each->first) || each->second.cost.saved(copied) <= 0) continue;
        for (const Space memory : kMemories) {
          if (is_copied(each->first, memory) != copied || !fits(*each, memory, sizes)) continue;
          chosen_.emplace(each->first, memory);
          sizes.at(number_of(memory)) += each->second.size_lw;
          break;
        }
      }
    }
  }
  /// Whether there is room for one more beside what is chosen, which has `sizes` of the memories.
  bool fits(const std::pair<const Source, Offer>& offer, Space memory, std::array<int64_t, 2> sizes) const {
    const size_t number = number_of(memory);
    sizes.at(number) += offer.second.size_lw;
    if (sizes.at(number) > holes_.at(number).size_lw) return false;
    Chosen chosen = chosen_;
    chosen.emplace(offer.first, memory);
    for (size_t k = 0; k < stages_.size(); ++k) {
      if (sizes.at(number) + needed_lw(k, memory, chosen) > capacity_) return false;
    }
    return true;
  }

  TileProgram prepare(const std::map<Source, Place>& places) const {
    TileProgram program;
    program.name = kPreparationName;
    for (const auto& [source, place] : places) {
      const Offer& offer = offers_.at(source);
      const TileProgram& of = *stages_[static_cast<size_t>(*offer.stages.begin())].tiles;
      TileStream stream = of.streams[static_cast<size_t>(offer.load.stream)];
      TileBuffer buffer = of.buffers[static_cast<size_t>(offer.load.buffer)];
      stream.name = fmt::format("{} of {}", stream.name, of.name);
      buffer.name = fmt::format("{} of {}", buffer.name, of.name);
      buffer.size_lw = (source.end - source.begin) / offer.load.stream_lw();
      buffer.homes = isa::space_bit(place.memory);
      buffer.address_lw = place.address_lw;
      buffer.memory = place.memory;
      LoadTile load = offer.load;
      load.stream = static_cast<int>(program.streams.size());
      load.from = {source.begin, {}};
      load.buffer = static_cast<int>(program.buffers.size());
      load.at = {};
      load.count = source.end - source.begin;
      program.streams.push_back(std::move(stream));
      program.buffers.push_back(std::move(buffer));
      program.body.push_back({std::move(load)});
    }
    return program;
  }

  std::vector<ResidentStage>& stages_;
  const isa::Chip& chip_;
  int64_t capacity_;  ///< LW of each memory
  std::vector<std::map<int, std::set<Source>>> stage_buffers_;
  std::vector<std::array<int64_t, 2>> own_;  ///< LW that each stage needs without what could stay
  std::map<Source, Offer> offers_;
  std::array<TileProgram::Kept, 2> holes_;
  Chosen chosen_;
};

}  // namespace

std::vector<double> shares_kept(const TileProgram& before, const TileProgram& after) {
  const auto numbers = [&](const TileProgram& program) {
    std::vector<std::set<std::pair<int64_t, int64_t>>> ranges(before.streams.size());
    std::vector<int64_t> counts;
    const auto visit = [&](const auto& self, const std::vector<TileNode>& nodes) -> void {
      for (const TileNode& node : nodes) {
        if (const auto* loop = std::get_if<TileLoop>(&node.kind)) {
          counts.push_back(loop->count);
          self(self, loop->body);
          counts.pop_back();
        } else if (const auto* load = std::get_if<LoadTile>(&node.kind)) {
          const Source source = source_of(program, *load, counts);
          ranges[static_cast<size_t>(load->stream)].emplace(source.begin, source.end);
        }
      }
    };
    visit(visit, program.body);
    std::vector<double> sums;
    for (const auto& list : ranges) {
      int64_t sum = 0, done = 0;
      for (const auto& [begin, end] : list) {
        sum += std::max<int64_t>(0, end - std::max(begin, done));
        done = std::max(done, end);
      }
      sums.push_back(static_cast<double>(sum));
    }
    return sums;
  };
  const std::vector<double> loaded = numbers(before), left = numbers(after);
  std::vector<double> shares;
  for (size_t k = 0; k < loaded.size(); ++k) shares.push_back(loaded[k] > 0 ? 1 - left[k] / loaded[k] : 0);
  return shares;
}

int64_t cycles_of_kept_constants(std::vector<ResidentStage> stages, const isa::Chip& chip) {
  return ResidentPlanner(stages, chip).cycles();
}

std::optional<TileProgram> keep_constants(std::vector<ResidentStage>& stages, const isa::Chip& chip) {
  return ResidentPlanner(stages, chip).run();
}

}  // namespace kodama::compiler
