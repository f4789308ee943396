#include "layout/bound/bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>

#include "isa/arithmetic.h"
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
  if (depth == kGroup) return place[Level::kL2b] / chip.l2b_per_group;
  if (depth == kL2b) return place[Level::kL2b];
  const int64_t pe = pe_number(place, chip);
  return depth == kL1b ? pe / chip.pe_per_l1b() : depth == kMab ? pe / isa::kPePerMab : pe;
}

/// How far an element has to go at least, in the order of what that takes. kOtherL2b + h: to an L2B (or DRAM,
/// or PDM) h groups further on.
enum Way : int { kNear, kOpposite, kOtherMab, kOtherMabAndPe, kOtherL1b, kOtherL2b };
constexpr int kWays = kOtherL2b + 16;

/// Bits per instance, and how far they go.
class Traffic {
 public:
  void add(int64_t instance, int bits, int way = kNear) {
    if (instance >= static_cast<int64_t>(bits_.size())) bits_.resize(static_cast<size_t>(instance) + 1);
    bits_[static_cast<size_t>(instance)][static_cast<size_t>(way)] += bits;
  }
  /// Bytes at the instance that has most, of what goes at least as far as `way`.
  double most_bytes(int way = kNear) const {
    int64_t most = 0;
    for (const auto& own : bits_) {
      most = std::max(most, std::accumulate(own.begin() + way, own.end(), int64_t{0}));
    }
    return static_cast<double>(most) / 8;
  }

 private:
  std::vector<std::array<int64_t, kWays>> bits_;
};

/// Double long words of a PE memory that have to be read, or written, and how far what they hold goes.
class Accesses {
 public:
  void add(int64_t pe, int64_t address, int way) {
    std::vector<int8_t>& own = at(pe);
    const auto place = static_cast<size_t>(address / 2);
    if (place >= own.size()) own.resize(place + 1, -1);
    own[place] = std::max(own[place], static_cast<int8_t>(way));
  }
  /// The same as bytes of the PE that has most.
  double most_bytes(int way = kNear) const {
    int64_t most = 0;
    for (const std::vector<int8_t>& own : pes_)
      most = std::max<int64_t>(most, std::ranges::count_if(own, [&](int8_t each) { return each >= way; }));
    return static_cast<double>(most) * kPePortBytes;
  }
  /// Addresses of double long words that some PE has to access.
  int64_t different() const {
    std::vector<bool> any;
    for (const std::vector<int8_t>& own : pes_) {
      if (own.size() > any.size()) any.resize(own.size());
      for (size_t k = 0; k < own.size(); ++k) any[k] = any[k] || own[k] >= 0;
    }
    return std::ranges::count(any, true);
  }

 private:
  std::vector<int8_t>& at(int64_t pe) {
    if (pe >= static_cast<int64_t>(pes_.size())) pes_.resize(static_cast<size_t>(pe) + 1);
    return pes_[static_cast<size_t>(pe)];
  }
  std::vector<std::vector<int8_t>> pes_;
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

/// Cycles of the ways to a port and from it. Each is the least number of steps between one step and the one
/// that depends on it, as the hazard tables have it, and start-ups of transfers.
class Ways {
 public:
  Ways(Depth from, Depth to, int element_bits, const isa::Chip& chip)
      : from_(from), to_(to), element_bits_(element_bits), chip_(chip) {}

  /// From source to target.
  Way between(const Coordinates& source, const Coordinates& target) const {
    const int64_t from_l2b = source[Level::kL2b];
    const int64_t to_l2b = target[Level::kL2b];
    const int64_t groups = std::abs(from_l2b / chip_.l2b_per_group - to_l2b / chip_.l2b_per_group);
    if (from_ == kGroup || to_ == kGroup || from_l2b != to_l2b)
      return static_cast<Way>(kOtherL2b + std::min<int64_t>(groups, kWays - 1 - kOtherL2b));
    if (from_ == kL2b || to_ == kL2b || source[Level::kL1b] != target[Level::kL1b]) return kOtherL1b;
    if (from_ == kL1b || to_ == kL1b) return kNear;
    const int64_t turn = (target[Level::kPe] - source[Level::kPe]) & (isa::kPePerMab - 1);
    if (source[Level::kMab] != target[Level::kMab]) return turn == 0 ? kOtherMab : kOtherMabAndPe;
    return turn == 2 ? kOpposite : kNear;
  }

  /// From the step that takes an element from a PE, or from L1BM, to the end.
  double rest(Way way) const {
    const isa::HazardGaps& gaps = chip_.hazard;
    switch (way) {
      case kNear:
        return 0;
      case kOpposite:
        return steps(opposite());
      case kOtherMab:
        return steps(other_mab());
      case kOtherMabAndPe:
        return steps(other_mab_and_pe());
      case kOtherL1b:
        return (from_ == kPe ? steps(gaps.pe_to_l1bm_l2bm + 1) : 0) + (to_ == kPe ? down() : 0);
      default:
        return before_transfer() - (from_ >= kL1b ? steps(1) : 0) + transfer(way) + after_transfer();
    }
  }
  /// From the beginning to the step that puts an element into a PE, or into L1BM.
  double lead(Way way) const {
    if (way < kOtherL1b) return rest(way);
    if (way == kOtherL1b)
      return (from_ == kPe ? to_l2bm() : 0) + steps(1) + (to_ == kPe ? down() : 0) - last();
    return before_transfer() + transfer(way) + after_transfer() - last();
  }

  /// The same of the step that moves something up from the PEs, or down to them.
  double after_up(Way way) const { return way == kOtherMabAndPe ? rest(kOtherMab) : rest(way); }
  double before_down(Way way) const { return way == kOtherMabAndPe ? lead(kOtherMab) : lead(way); }

  /// Of the port between L2BM and L1BMs.
  double l2bm() const {
    double cycles = from_ == kPe ? to_l2bm() : 0;
    if (from_ == kGroup) cycles += transfer(kOtherL2b);
    if (to_ == kPe) cycles += down();
    if (to_ == kGroup) cycles += steps(chip_.hazard.l1bm_to_l2bm_mv) + transfer(kOtherL2b);
    return cycles;
  }
  /// Of the port between L1BM and PEs, where the other end is above it.
  double l1bm() const {
    double cycles = 0;
    if (from_ <= kL2b) cycles += down();
    if (from_ == kGroup) cycles += transfer(kOtherL2b);
    if (to_ <= kL2b) cycles += to_l2bm();
    if (to_ == kGroup) cycles += steps(chip_.hazard.l1bm_to_l2bm_mv) + transfer(kOtherL2b);
    return cycles;
  }
  /// Before a transfer, and after it.
  double around_transfer() const { return before_transfer() + after_transfer(); }
  /// Until the first long word of a transfer moves.
  double start(Way way) const {
    return static_cast<double>(chip_.transfer.startup_cycles +
                               (way - kOtherL2b) * chip_.transfer.group_hop_cycles);
  }
  /// What the least transfer takes from or brings to an L2BM.
  static double granule_bytes() { return kLwBytes * isa::kMvUnitLw; }
  double granule_cycles() const { return granule_bytes() / (kLwBytes * chip_.transfer.l2bm_mv_lw_per_cycle); }

  int64_t opposite() const { return 1 + std::min(chip_.hazard.forward, chip_.hazard.matrix_write_read); }

 private:
  static double steps(int64_t count) { return static_cast<double>(count * isa::kCyclesPerStep); }
  int64_t other_mab() const { return 1 + std::min(chip_.hazard.turnaround, chip_.hazard.pe_to_l1bm_read); }
  int64_t other_mab_and_pe() const {
    // A reduction that rounds single to half precision deals halves to other PEs on its way.
    if (element_bits_ < 32) return other_mab();
    return std::min(1 + chip_.hazard.pe_to_l1bm_read, other_mab() + 1 + chip_.hazard.forward);
  }
  /// The step from L2BM (or another L1BM) is over; to the end of the one that writes PEs.
  double down() const { return steps(chip_.hazard.l2bm_to_l1bm_pe + 1); }
  /// From the step that takes from PEs to the one that reads L1BM for L2BM.
  double to_l2bm() const { return steps(1 + chip_.hazard.pe_to_l1bm_l2bm); }
  double before_transfer() const {
    return (from_ == kPe ? to_l2bm() : 0) + (from_ >= kL1b ? steps(1 + chip_.hazard.l1bm_to_l2bm_mv) : 0);
  }
  double after_transfer() const { return (to_ >= kL1b ? steps(1) : 0) + (to_ == kPe ? down() : 0); }
  double transfer(int way) const { return start(static_cast<Way>(way)) + granule_cycles(); }
  double last() const { return to_ >= kL1b ? steps(1) : 0; }

  Depth from_;
  Depth to_;
  int element_bits_;
  const isa::Chip& chip_;
};

/// Transfers that bring elements from L2BM to L2BM without a stop.
class DirectTransfers {
 public:
  explicit DirectTransfers(const isa::Chip& chip) : chip_(chip) {}
  void add(int64_t from, int64_t to) {
    const int64_t from_group = from / chip_.l2b_per_group;
    const int64_t to_group = to / chip_.l2b_per_group;
    // One transfer of all groups serves the same pair of each.
    if (from_group == to_group) {
      from %= chip_.l2b_per_group;
      to %= chip_.l2b_per_group;
    }
    const int64_t key =
        ((from_group == to_group ? 1 : 0) * chip_.l2b_count() + from) * chip_.l2b_count() + to;
    if (key >= static_cast<int64_t>(known_.size())) known_.resize(static_cast<size_t>(key) + 1);
    if (known_[static_cast<size_t>(key)]) return;
    known_[static_cast<size_t>(key)] = true;
    const auto hops =
        static_cast<size_t>(std::min<int64_t>(std::abs(from_group - to_group), kWays - 1 - kOtherL2b));
    ++count_[hops];
  }
  /// That go at least `hops` groups far.
  int64_t count(int hops) const { return std::accumulate(count_.begin() + hops, count_.end(), int64_t{0}); }

 private:
  const isa::Chip& chip_;
  std::vector<bool> known_;
  std::array<int64_t, kWays - kOtherL2b> count_{};
};

/// Instances without repetition, each with the shortest way that was named for it.
class Instances {
 public:
  void clear() {
    for (const int64_t number : numbers_) ways_[static_cast<size_t>(number)] = -1;
    numbers_.clear();
  }
  void insert(int64_t number, int way = kNear) {
    if (number >= static_cast<int64_t>(ways_.size())) ways_.resize(static_cast<size_t>(number) + 1, -1);
    int8_t& own = ways_[static_cast<size_t>(number)];
    if (own < 0) {
      numbers_.push_back(number);
      own = static_cast<int8_t>(way);
    }
    own = std::min(own, static_cast<int8_t>(way));
  }
  bool contains(int64_t number) const {
    return number < static_cast<int64_t>(ways_.size()) && ways_[static_cast<size_t>(number)] >= 0;
  }
  int way(int64_t number) const { return ways_[static_cast<size_t>(number)]; }
  const std::vector<int64_t>& all() const { return numbers_; }

 private:
  std::vector<int64_t> numbers_;
  std::vector<int8_t> ways_;
};

/// Whether an L1B can't have what these L1Bs hold unless it passes the port between L2BM and L1BMs twice:
/// they are all in its L2B, and the number of each differs from its own in more than one bit.
bool is_far_l1b(const std::vector<int64_t>& holders, int64_t taker, const isa::Chip& chip) {
  const int64_t count = chip.l1b_per_l2b;
  if (holders.empty() || !std::has_single_bit(static_cast<uint64_t>(count))) return false;
  return std::ranges::all_of(holders, [&](int64_t holder) {
    return holder / count == taker / count && std::popcount(static_cast<uint64_t>(holder ^ taker)) > 1;
  });
}

}  // namespace

double LevelBound::cycles() const {
  double rate = bytes_per_cycle;
  if (whole_steps) rate *= isa::kCyclesPerStep;
  const double units = bytes / rate;
  return way + (whole_steps ? std::ceil(units) * isa::kCyclesPerStep : units);
}

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
  const Ways ways(from_depth, to_depth, element_bits, chip);
  Traffic into_l2b;
  Traffic out_of_l2b;
  Traffic l2bm_port;
  Traffic l1bm_port;
  Traffic l1bm_up;
  Traffic l1bm_down;
  Traffic into_mab;
  Traffic out_of_mab;
  Accesses pe_reads;
  Accesses pe_writes;
  Accesses any_reads;
  Traffic top_reads;
  Traffic top_writes;
  DirectTransfers direct(chip);
  bool anything = false;
  bool copies_move = false;  // copies of the source lie at other addresses
  for (const Coordinates& offset : from_copies) copies_move = copies_move || offset[Level::kAddress] != 0;
  std::array<bool, isa::kPePerMab> turns{};  // inside a MAB, of elements that are in one place

  const auto from_parts = contributions(from, lengths);
  const auto to_parts = contributions(to, lengths);
  std::vector<int64_t> index(lengths.size(), 0);
  std::vector<Coordinates> sources;
  std::vector<Coordinates> targets;
  std::array<Instances, kMab + 1> holders;
  std::array<Instances, kMab + 1> takers;
  Instances down;
  Instances again;
  std::vector<int> target_ways;
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
    // Of every target from the nearest copy.
    int farthest = kNear;
    target_ways.clear();
    for (const Coordinates& place : targets) {
      int way = kWays;
      for (const Coordinates& each : sources) way = std::min<int>(way, ways.between(each, place));
      farthest = std::max(farthest, way);
      target_ways.push_back(way);
      if (to_depth == kPe) pe_writes.add(instance(place, kPe, chip), place[Level::kAddress], way);
    }
    if (from_depth == kPe && !targets.empty()) {
      if (sources.size() == 1) {
        const Coordinates& only = sources[0];
        pe_reads.add(instance(only, kPe, chip), only[Level::kAddress], farthest);
        for (const Coordinates& place : targets) {
          if (to_depth != kPe || instance(place, kMab, chip) != instance(only, kMab, chip)) continue;
          turns[static_cast<size_t>((place[Level::kPe] - only[Level::kPe]) & (isa::kPePerMab - 1))] = true;
        }
      }
      any_reads.add(0, sources[0][Level::kAddress], kNear);
    }
    // Which copy goes is open, unless there is one.
    std::array<bool, kMab + 1> leaves{};
    for (const int depth : {kL2b, kL1b, kMab}) {
      const auto level = static_cast<Depth>(depth);
      Instances& own = holders[static_cast<size_t>(depth)];
      Instances& wanted = takers[static_cast<size_t>(depth)];
      own.clear();
      wanted.clear();
      if (from_depth >= level) {
        for (const Coordinates& place : sources) own.insert(instance(place, level, chip));
      }
      bool goes = false;
      if (to_depth >= level) {
        for (size_t k = 0; k < targets.size(); ++k) {
          const int64_t taker = instance(targets[k], level, chip);
          if (own.contains(taker)) continue;
          wanted.insert(taker, target_ways[k]);
          goes = true;
        }
      } else {
        goes = !targets.empty();
      }
      leaves[static_cast<size_t>(depth)] = goes && own.all().size() == 1;
    }
    for (const int64_t taker : takers[kL2b].all()) {
      into_l2b.add(taker, element_bits, takers[kL2b].way(taker));
      if (leaves[kL2b]) direct.add(holders[kL2b].all()[0], taker);
    }
    if (leaves[kL2b]) out_of_l2b.add(holders[kL2b].all()[0], element_bits, farthest);
    // L2BM and its L1Bs: once up if it has to leave the L2B (or to be in L2BM), once down or across, and once
    // more to an L1B that l2bmi doesn't reach in one step at full width.
    {
      down.clear();
      again.clear();
      const std::vector<int64_t>& l1bs = holders[kL1b].all();
      for (const int64_t taker : takers[kL1b].all()) {
        down.insert(taker / chip.l1b_per_l2b);
        if (!leaves[kL2b] && is_far_l1b(l1bs, taker, chip)) again.insert(taker / chip.l1b_per_l2b);
      }
      for (const Instances* l2bs : {&down, &again}) {
        for (const int64_t l2b : l2bs->all()) l2bm_port.add(l2b, element_bits);
      }
      if (l1bs.size() == 1 && from_depth >= kL1b && (leaves[kL2b] || (to_depth <= kL2b && !targets.empty())))
        l2bm_port.add(l1bs[0] / chip.l1b_per_l2b, element_bits);
    }
    // L1BM and its PEs.
    {
      down.clear();
      bool next_only = leaves[kMab];
      const int64_t mabs = chip.mab_per_l1b;
      for (const int64_t taker : takers[kMab].all()) {
        down.insert(taker / mabs, takers[kMab].way(taker));
        if (!leaves[kMab]) continue;
        const int64_t holder = holders[kMab].all()[0];
        const int64_t distance = ((taker - holder) % mabs + mabs) % mabs;
        next_only = next_only && taker / mabs == holder / mabs && (distance == 1 || distance == mabs - 1);
      }
      if (to_depth < kMab) next_only = false;
      if (leaves[kMab]) {
        l1bm_port.add(holders[kMab].all()[0] / mabs, element_bits);
        l1bm_up.add(holders[kMab].all()[0] / mabs, element_bits, farthest);
        out_of_mab.add(holders[kMab].all()[0], element_bits, farthest);
      }
      for (const int64_t l1b : down.all()) {
        if (!next_only) l1bm_port.add(l1b, element_bits);
        l1bm_down.add(l1b, element_bits, down.way(l1b));
      }
      for (const int64_t taker : takers[kMab].all())
        into_mab.add(taker, element_bits, takers[kMab].way(taker));
    }
    if (to_depth == kGroup) {
      down.clear();
      for (size_t k = 0; k < targets.size(); ++k)
        down.insert(instance(targets[k], kGroup, chip), target_ways[k]);
      for (const int64_t group : down.all()) top_writes.add(group, element_bits, down.way(group));
    }
    if (from_depth == kGroup && !targets.empty()) {
      down.clear();
      for (const Coordinates& place : sources) down.insert(instance(place, kGroup, chip));
      if (down.all().size() == 1) top_reads.add(down.all()[0], element_bits, farthest);
    }
    size_t axis = index.size();
    while (axis > 0 && ++index[axis - 1] == lengths[axis - 1]) index[--axis] = 0;
    if (axis == 0) break;
  }

  ConversionBound bound;
  // The distance that takes longest, of those for which something passes.
  const auto add = [&](const std::string& name, const auto& traffic, double bytes_per_cycle, bool whole_steps,
                       const auto& way_cycles) {
    LevelBound most;
    for (int way = kNear; way < kWays; ++way) {
      const double bytes = traffic.most_bytes(way);
      if (bytes == 0) break;
      const LevelBound level{name, bytes, bytes_per_cycle, way_cycles(static_cast<Way>(way)), whole_steps};
      if (most.bytes == 0 || level.cycles() > most.cycles()) most = level;
    }
    if (most.bytes > 0) bound.levels.push_back(most);
  };
  const auto top_rate = [&](Memory memory, bool write) {
    const isa::TransferPort port = memory == Memory::kDram ? isa::TransferPort::kDram
                                   : write                 ? isa::TransferPort::kPdmWrite
                                                           : isa::TransferPort::kPdmRead;
    return kLwBytes * isa::transfer_rate(port, chip);
  };
  const auto of_transfer = [&](Way way) {
    return ways.around_transfer() + ways.start(std::max(way, kOtherL2b));
  };
  add(fmt::format("out of the {}s", memory_name(from.memory())), top_reads, top_rate(from.memory(), false),
      false, of_transfer);
  add(fmt::format("into the {}s", memory_name(to.memory())), top_writes, top_rate(to.memory(), true), false,
      of_transfer);
  const double mv = kLwBytes * chip.transfer.l2bm_mv_lw_per_cycle;
  add("out of the L2Bs", out_of_l2b, mv, false, of_transfer);
  add("into the L2Bs", into_l2b, mv, false, of_transfer);
  // Pairs of L2Bs: a transfer each, or for one of the far ones two, the second after the first.
  LevelBound pairs{"pairs of L2Bs", 0, 1, 0, false};
  for (int hops = 0; direct.count(hops) > 0; ++hops) {
    const auto last = static_cast<double>((direct.count(hops) - 1) * chip.transfer.issue_interval_steps *
                                          isa::kCyclesPerStep);
    const double again = static_cast<double>(chip.transfer.startup_cycles) + ways.granule_cycles();
    pairs.way = std::max(pairs.way, of_transfer(static_cast<Way>(kOtherL2b + hops)) + ways.granule_cycles() +
                                        std::min(last, again));
  }
  if (pairs.way > 0) bound.levels.push_back(pairs);
  // l2bmd moves 8 LW per cycle for each L1B, the others 16 for one or all.
  add("L2BM and L1BMs", l2bm_port, kLwBytes * std::max(8.0 * chip.l1b_per_l2b, kL1bLw), true,
      [&](Way) { return ways.l2bm(); });
  const double lines = kLwBytes * isa::kPePerMab * chip.mab_per_l1b;
  add("L1BM and PEs", l1bm_port, lines, true, [&](Way) { return ways.l1bm(); });
  const auto after_up = [&](Way way) { return ways.after_up(way); };
  const auto before_down = [&](Way way) { return ways.before_down(way); };
  if (from_depth == kPe) add("PEs to L1BM", l1bm_up, lines, true, after_up);
  if (to_depth == kPe) add("L1BM to PEs", l1bm_down, lines, true, before_down);
  // A MAB has four PEs, each with one LW per cycle in l1bmd, two in the ll forms.
  if (from_depth == kPe) add("out of the MABs", out_of_mab, kLwBytes * 2 * isa::kPePerMab, true, after_up);
  if (to_depth == kPe) add("into the MABs", into_mab, kLwBytes * 2 * isa::kPePerMab, true, before_down);
  add("PEs reading", pe_reads, kPePortBytes, true, [&](Way way) { return ways.rest(way); });
  add("PEs writing", pe_writes, kPePortBytes, true, [&](Way way) { return ways.lead(way); });
  // Whatever moves takes a step. In one step only one instruction of the ALU brings something from a PE to
  // another of its MAB, or into another address, all by the same turn. Addresses that differ between PEs need
  // T (or a base register) written and, after its distance, used; until then, all PEs read and write the same
  // double long words, but for one step of an address inside a MAB: 8 a step.
  int64_t least_steps = 1;
  if (std::ranges::count(turns, true) > 1) least_steps = 2;
  if (turns[2]) least_steps = std::max(least_steps, 1 + ways.opposite());
  constexpr int64_t kSamePerStep = 2 * isa::kCyclesPerStep;
  const int64_t with_t = 2 + chip.hazard.pe_gap(0, 0);
  for (const int64_t different : {copies_move ? 0 : any_reads.different(), pe_writes.different()})
    least_steps = std::max(least_steps, std::min(isa::ceil_div(different, kSamePerStep), with_t));
  if (anything)
    bound.levels.push_back({"steps", 0, 1, isa::kCyclesPerStep * static_cast<double>(least_steps), false});
  return bound;
}

}  // namespace kodama::layout
