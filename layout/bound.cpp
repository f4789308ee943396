#include "layout/bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

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
  void add(int64_t instance, int bits) { bits_[instance] += bits; }
  double most_bytes() const {
    int64_t most = 0;
    for (const auto& [instance, bits] : bits_) most = std::max(most, bits);
    return static_cast<double>(most) / 8;
  }

 private:
  std::map<int64_t, int64_t> bits_;
};

Coordinates plus(Coordinates a, const Coordinates& b) {
  for (size_t level = 0; level < kLevelCount; ++level) a.at[level] += b.at[level];
  return a;
}

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
  // By depth: what an instance must take in from above, and give out upwards. Inside a MAB data needs
  // neither.
  std::array<Traffic, kMab + 1> in;
  std::array<Traffic, kMab + 1> out;
  Traffic pe_reads;
  Traffic pe_writes;
  Traffic top_reads;
  Traffic top_writes;

  std::vector<int64_t> index(lengths.size(), 0);
  for (;;) {
    const Coordinates source = from.place(index);
    const Coordinates target = to.place(index);
    std::vector<Coordinates> sources;
    std::vector<Coordinates> targets;
    for (const Coordinates& offset : from_copies) sources.push_back(plus(source, offset));
    for (const Coordinates& offset : to_copies) targets.push_back(plus(target, offset));
    // Copies that are where they are wanted stay.
    const bool same_memory = from.memory() == to.memory();
    std::erase_if(targets, [&](const Coordinates& place) {
      return same_memory && std::ranges::find(sources, place) != sources.end();
    });
    for (const int depth : {kL2b, kL1b, kMab}) {
      const auto level = static_cast<Depth>(depth);
      std::set<int64_t> holders;
      if (from_depth >= level) {
        for (const Coordinates& place : sources) holders.insert(instance(place, level, chip));
      }
      bool leaves = false;
      if (to_depth >= level) {
        std::set<int64_t> takers;
        for (const Coordinates& place : targets) takers.insert(instance(place, level, chip));
        for (const int64_t taker : takers) {
          if (holders.contains(taker)) continue;
          in[static_cast<size_t>(level)].add(taker, element_bits);
          leaves = true;
        }
      } else {
        leaves = !targets.empty();
      }
      // Which copy goes is open, unless there is one.
      if (leaves && holders.size() == 1) out[static_cast<size_t>(level)].add(*holders.begin(), element_bits);
    }
    if (to_depth == kPe) {
      for (const Coordinates& place : targets) pe_writes.add(instance(place, kPe, chip), element_bits);
    }
    if (from_depth == kPe && !targets.empty() && sources.size() == 1)
      pe_reads.add(instance(sources[0], kPe, chip), element_bits);
    if (to_depth == kGroup) {
      std::set<int64_t> groups;
      for (const Coordinates& place : targets) groups.insert(instance(place, kGroup, chip));
      for (const int64_t group : groups) top_writes.add(group, element_bits);
    }
    if (from_depth == kGroup && !targets.empty()) {
      std::set<int64_t> groups;
      for (const Coordinates& place : sources) groups.insert(instance(place, kGroup, chip));
      if (groups.size() == 1) top_reads.add(*groups.begin(), element_bits);
    }
    size_t axis = index.size();
    while (axis > 0 && ++index[axis - 1] == lengths[axis - 1]) index[--axis] = 0;
    if (axis == 0) break;
  }

  ConversionBound bound;
  const auto add = [&](const std::string& name, const Traffic& traffic, double bytes_per_cycle) {
    const double bytes = traffic.most_bytes();
    if (bytes > 0) bound.levels.push_back({name, bytes, bytes_per_cycle});
  };
  const auto top_rate = [&](Memory memory, bool write) {
    const isa::TransferPort port = memory == Memory::kDram ? isa::TransferPort::kDram
                                   : write                 ? isa::TransferPort::kPdmWrite
                                                           : isa::TransferPort::kPdmRead;
    return kLwBytes * isa::transfer_rate(port, chip);
  };
  add(fmt::format("out of the {}s", memory_name(from.memory())), top_reads, top_rate(from.memory(), false));
  add(fmt::format("into the {}s", memory_name(to.memory())), top_writes, top_rate(to.memory(), true));
  const double mv = kLwBytes * chip.transfer.l2bm_mv_lw_per_cycle;
  add("out of the L2Bs", out[kL2b], mv);
  add("into the L2Bs", in[kL2b], mv);
  add("out of the L1Bs", out[kL1b], kLwBytes * kL1bLw);
  add("into the L1Bs", in[kL1b], kLwBytes * kL1bLw);
  // A MAB has four PEs, each with one LW per cycle in l1bmd, two in the ll forms.
  add("out of the MABs", out[kMab], kLwBytes * 2 * isa::kPePerMab);
  add("into the MABs", in[kMab], kLwBytes * 2 * isa::kPePerMab);
  add("PEs reading", pe_reads, kPePortBytes);
  add("PEs writing", pe_writes, kPePortBytes);
  return bound;
}

}  // namespace kodama::layout
