#include "layout/bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "isa/costs.h"
#include "isa/error.h"

namespace kodama::layout {
namespace {

constexpr double kLwBytes = 8;
/// What a port of a PE memory passes per cycle: 2LW.
constexpr double kPePortBytes = 16;
/// LW per cycle that one L1B takes from or gives to its L2B at most (l2bmb, l2bm).
constexpr double kL1bLw = 16;

/// How deep in the tree a memory is: the levels of which it has an instance each.
enum Depth : int { kGroup, kL2b, kL1b, kMab, kPe };

Depth depth_of(Memory memory) {
  switch (memory) {
    case Memory::kDram:
    case Memory::kPdm:
      return kGroup;
    case Memory::kL2bm:
      return kL2b;
    case Memory::kL1bm:
      return kL1b;
    default:
      return kPe;
  }
}

/// The instance of a level in which a place is, numbered over the chip.
int64_t instance(const Coordinates& place, Depth depth, const isa::Chip& chip) {
  const int64_t l2b = place[Level::kL2b];
  if (depth == kGroup) return l2b / chip.l2b_per_group;
  if (depth == kL2b) return l2b;
  const int64_t l1b = l2b * chip.l1b_per_l2b + place[Level::kL1b];
  if (depth == kL1b) return l1b;
  const int64_t mab = l1b * chip.mab_per_l1b + place[Level::kMab];
  return depth == kMab ? mab : mab * isa::kPePerMab + place[Level::kPe];
}

/// Bits per instance.
class Traffic {
 public:
  void add(int64_t instance, int bits) {
    if (instance >= static_cast<int64_t>(bits_.size())) bits_.resize(static_cast<size_t>(instance) + 1);
    bits_[static_cast<size_t>(instance)] += bits;
  }
  double most_bytes() const {
    return bits_.empty() ? 0 : static_cast<double>(*std::ranges::max_element(bits_)) / 8;
  }

 private:
  std::vector<int64_t> bits_;
};

/// Places by axis and index, summed up on the way.
std::vector<std::vector<Coordinates>> contributions(const Layout& layout, const Lengths& lengths) {
  std::vector<std::vector<Coordinates>> all;
  for (size_t axis = 0; axis < lengths.size(); ++axis) {
    std::vector<Coordinates>& own = all.emplace_back();
    for (int64_t index = 0; index < lengths[axis]; ++index) own.push_back(layout.contribution(axis, index));
  }
  return all;
}

/// Cycles of the ways to a port and from it.
class Ways {
 public:
  Ways(Depth from, Depth to, const isa::Chip& chip) : from_(from), to_(to), chip_(chip) {}

  /// Of the MV ports, and of DRAM and PDM.
  double transfers() const {
    const isa::HazardGaps& gaps = chip_.hazard;
    double steps = 0;
    if (from_ >= kMab) steps += static_cast<double>(1 + gaps.pe_to_l1bm_l2bm);
    if (from_ >= kL1b) steps += static_cast<double>(1 + gaps.l1bm_to_l2bm_mv);
    if (to_ >= kL1b) ++steps;
    if (to_ >= kMab) steps += static_cast<double>(gaps.l2bm_to_l1bm_pe + 1);
    return steps * isa::kCyclesPerStep + static_cast<double>(chip_.transfer.startup_cycles);
  }
  /// Of the port between L2BM and L1BMs.
  double l2bm() const {
    const isa::HazardGaps& gaps = chip_.hazard;
    double steps = 0;
    double cycles = 0;
    if (from_ >= kMab) steps += static_cast<double>(1 + gaps.pe_to_l1bm_l2bm);
    if (from_ == kGroup) cycles += static_cast<double>(chip_.transfer.startup_cycles);
    if (to_ >= kMab) steps += static_cast<double>(gaps.l2bm_to_l1bm_pe + 1);
    if (to_ == kGroup)
      cycles +=
          static_cast<double>(chip_.transfer.startup_cycles + gaps.l1bm_to_l2bm_mv * isa::kCyclesPerStep);
    return steps * isa::kCyclesPerStep + cycles;
  }
  /// Of the port between L1BM and PEs.
  double l1bm() const {
    const isa::HazardGaps& gaps = chip_.hazard;
    double steps = 0;
    double cycles = 0;
    if (from_ <= kL2b) steps += static_cast<double>(1 + gaps.l2bm_to_l1bm_pe);
    if (from_ == kGroup) cycles += static_cast<double>(chip_.transfer.startup_cycles);
    if (to_ <= kL2b) steps += static_cast<double>(gaps.pe_to_l1bm_l2bm + 1);
    if (to_ == kGroup)
      cycles +=
          static_cast<double>(chip_.transfer.startup_cycles + gaps.l1bm_to_l2bm_mv * isa::kCyclesPerStep);
    return steps * isa::kCyclesPerStep + cycles;
  }

 private:
  Depth from_;
  Depth to_;
  const isa::Chip& chip_;
};

/// A few numbers without repetition.
class Few {
 public:
  void clear() { numbers_.clear(); }
  void insert(int64_t number) {
    if (!contains(number)) numbers_.push_back(number);
  }
  bool contains(int64_t number) const { return std::ranges::find(numbers_, number) != numbers_.end(); }
  const std::vector<int64_t>& all() const { return numbers_; }

 private:
  std::vector<int64_t> numbers_;
};

}  // namespace

double ConversionBound::cycles() const {
  double most = 0;
  for (const LevelBound& level : levels) most = std::max(most, level.cycles());
  return most;
}

std::string ConversionBound::name() const {
  const auto most =
      std::ranges::max_element(levels, {}, [](const LevelBound& level) { return level.cycles(); });
  return most == levels.end() ? "" : most->name;
}

ConversionBound conversion_bound(const Layout& from, const Layout& to, const Lengths& lengths,
                                 int element_bits, const isa::Chip& chip) {
  check_lengths(from, lengths);
  check_lengths(to, lengths);
  from.validate(chip, element_bits);
  to.validate(chip, element_bits);
  const std::vector<Coordinates> from_copies = from.replica_offsets();
  const std::vector<Coordinates> to_copies = to.replica_offsets();
  constexpr double kMostPlaces = 67108864;
  double places = static_cast<double>(from_copies.size() + to_copies.size());
  for (const int64_t length : lengths) places *= static_cast<double>(length);
  if (places > kMostPlaces)
    throw isa::UserError(fmt::format("bound: {:.0f} places, allowed: up to {:.0f}", places, kMostPlaces));

  const Depth from_depth = depth_of(from.memory());
  const Depth to_depth = depth_of(to.memory());
  const bool same_memory = from.memory() == to.memory();
  Traffic into_l2b;
  Traffic out_of_l2b;
  Traffic l2bm_port;
  Traffic l1bm_port;
  Traffic into_mab;
  Traffic out_of_mab;
  Traffic pe_reads;
  Traffic pe_writes;
  Traffic top_reads;
  Traffic top_writes;
  bool anything = false;

  const auto from_parts = contributions(from, lengths);
  const auto to_parts = contributions(to, lengths);
  std::vector<int64_t> index(lengths.size(), 0);
  std::vector<Coordinates> sources;
  std::vector<Coordinates> targets;
  std::array<Few, kMab + 1> holders;
  std::array<Few, kMab + 1> takers;
  for (;;) {
    Coordinates source{};
    Coordinates target{};
    for (size_t axis = 0; axis < index.size(); ++axis) {
      source = source + from_parts[axis][static_cast<size_t>(index[axis])];
      target = target + to_parts[axis][static_cast<size_t>(index[axis])];
    }
    sources.clear();
    targets.clear();
    for (const Coordinates& offset : from_copies) sources.push_back(source + offset);
    for (const Coordinates& offset : to_copies) targets.push_back(target + offset);
    // Copies that are where they are wanted stay.
    std::erase_if(targets, [&](const Coordinates& place) {
      return same_memory && std::ranges::find(sources, place) != sources.end();
    });
    anything = anything || !targets.empty();
    // Which copy goes is open, unless there is one.
    std::array<bool, kMab + 1> leaves{};
    for (const int depth : {kL2b, kL1b, kMab}) {
      const auto level = static_cast<Depth>(depth);
      Few& own = holders[static_cast<size_t>(depth)];
      Few& wanted = takers[static_cast<size_t>(depth)];
      own.clear();
      wanted.clear();
      if (from_depth >= level) {
        for (const Coordinates& place : sources) own.insert(instance(place, level, chip));
      }
      bool goes = false;
      if (to_depth >= level) {
        for (const Coordinates& place : targets) {
          const int64_t taker = instance(place, level, chip);
          if (own.contains(taker)) continue;
          wanted.insert(taker);
          goes = true;
        }
      } else {
        goes = !targets.empty();
      }
      leaves[static_cast<size_t>(depth)] = goes && own.all().size() == 1;
    }
    for (const int64_t taker : takers[kL2b].all()) into_l2b.add(taker, element_bits);
    if (leaves[kL2b]) out_of_l2b.add(holders[kL2b].all()[0], element_bits);
    // L2BM and its L1Bs: once up if it has to leave the L2B (or to be in L2BM), once down or across.
    {
      Few down;
      for (const int64_t taker : takers[kL1b].all()) down.insert(taker / chip.l1b_per_l2b);
      for (const int64_t l2b : down.all()) l2bm_port.add(l2b, element_bits);
      if (holders[kL1b].all().size() == 1 && from_depth >= kL1b &&
          (leaves[kL2b] || (to_depth <= kL2b && !targets.empty())))
        l2bm_port.add(holders[kL1b].all()[0] / chip.l1b_per_l2b, element_bits);
    }
    // L1BM and its PEs.
    {
      Few down;
      bool next_only = leaves[kMab];
      const int64_t mabs = chip.mab_per_l1b;
      for (const int64_t taker : takers[kMab].all()) {
        down.insert(taker / mabs);
        if (!leaves[kMab]) continue;
        const int64_t holder = holders[kMab].all()[0];
        const int64_t distance = ((taker - holder) % mabs + mabs) % mabs;
        next_only = next_only && taker / mabs == holder / mabs && (distance == 1 || distance == mabs - 1);
      }
      if (to_depth < kMab) next_only = false;
      if (leaves[kMab]) l1bm_port.add(holders[kMab].all()[0] / mabs, element_bits);
      if (!next_only) {
        for (const int64_t l1b : down.all()) l1bm_port.add(l1b, element_bits);
      }
    }
    for (const int64_t taker : takers[kMab].all()) into_mab.add(taker, element_bits);
    if (leaves[kMab]) out_of_mab.add(holders[kMab].all()[0], element_bits);
    if (to_depth == kPe) {
      for (const Coordinates& place : targets) pe_writes.add(instance(place, kPe, chip), element_bits);
    }
    if (from_depth == kPe && !targets.empty() && sources.size() == 1)
      pe_reads.add(instance(sources[0], kPe, chip), element_bits);
    if (to_depth == kGroup) {
      Few groups;
      for (const Coordinates& place : targets) groups.insert(instance(place, kGroup, chip));
      for (const int64_t group : groups.all()) top_writes.add(group, element_bits);
    }
    if (from_depth == kGroup && !targets.empty()) {
      Few groups;
      for (const Coordinates& place : sources) groups.insert(instance(place, kGroup, chip));
      if (groups.all().size() == 1) top_reads.add(groups.all()[0], element_bits);
    }
    size_t axis = index.size();
    while (axis > 0 && ++index[axis - 1] == lengths[axis - 1]) index[--axis] = 0;
    if (axis == 0) break;
  }

  const Ways ways(from_depth, to_depth, chip);
  ConversionBound bound;
  const auto add = [&](const std::string& name, const Traffic& traffic, double bytes_per_cycle, double way) {
    const double bytes = traffic.most_bytes();
    if (bytes > 0) bound.levels.push_back({name, bytes, bytes_per_cycle, way});
  };
  const auto top_rate = [&](Memory memory, bool write) {
    const isa::TransferPort port = memory == Memory::kDram ? isa::TransferPort::kDram
                                   : write                 ? isa::TransferPort::kPdmWrite
                                                           : isa::TransferPort::kPdmRead;
    return kLwBytes * isa::transfer_rate(port, chip);
  };
  add(fmt::format("out of the {}s", memory_name(from.memory())), top_reads, top_rate(from.memory(), false),
      ways.transfers());
  add(fmt::format("into the {}s", memory_name(to.memory())), top_writes, top_rate(to.memory(), true),
      ways.transfers());
  const double mv = kLwBytes * chip.transfer.l2bm_mv_lw_per_cycle;
  add("out of the L2Bs", out_of_l2b, mv, ways.transfers());
  add("into the L2Bs", into_l2b, mv, ways.transfers());
  // l2bmd moves 8 LW per cycle for each L1B, the others 16 for one or all.
  add("L2BM and L1BMs", l2bm_port, kLwBytes * std::max(8.0 * chip.l1b_per_l2b, kL1bLw), ways.l2bm());
  add("L1BM and PEs", l1bm_port, kLwBytes * isa::kPePerMab * chip.mab_per_l1b, ways.l1bm());
  // A MAB has four PEs, each with one LW per cycle in l1bmd, two in the ll forms.
  add("out of the MABs", out_of_mab, kLwBytes * 2 * isa::kPePerMab, 0);
  add("into the MABs", into_mab, kLwBytes * 2 * isa::kPePerMab, 0);
  add("PEs reading", pe_reads, kPePortBytes, 0);
  add("PEs writing", pe_writes, kPePortBytes, 0);
  // Whatever moves takes a step; between MABs it is written to L1BM in one and read in another.
  if (anything) {
    const bool between_mabs = out_of_mab.most_bytes() > 0 && into_mab.most_bytes() > 0;
    const bool between_l1bs = l2bm_port.most_bytes() > 0;
    bound.levels.push_back({"steps", 0, 1, between_mabs && !between_l1bs ? 8.0 : 4.0});
  }
  return bound;
}

}  // namespace kodama::layout
