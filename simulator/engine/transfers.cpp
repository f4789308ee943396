#include "simulator/engine/transfers.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>

#include "isa/arithmetic.h"
#include "isa/error.h"
#include "simulator/engine/scalar_arithmetic.h"

namespace kodama::simulator {
namespace {

using isa::Opcode;
using isa::Space;

/// Reduces `per_group` neighbours first, then the results.
void reduce_chunk(const isa::Instruction& mv, const std::vector<const uint64_t*>& values, int per_group,
                  uint64_t* out) {
  std::array<uint64_t, 64> stage;
  std::array<uint64_t, 64> members;
  std::array<uint64_t, kMvUnit> result;
  for (int64_t i = 0; i < kMvUnit; ++i) {
    size_t count = 0;
    for (size_t first = 0; first < values.size(); first += static_cast<size_t>(per_group)) {
      for (int k = 0; k < per_group; ++k) members[k] = values[first + k][i];
      stage[count++] =
          reduce_long({members.data(), static_cast<size_t>(per_group)}, mv.reduce_op, mv.precision);
    }
    result[i] = count == 1 ? stage[0] : reduce_long({stage.data(), count}, mv.reduce_op, mv.precision);
  }
  std::copy(result.begin(), result.end(), out);
}

}  // namespace

Transfers::Transfers(ChipMemories& memories, int64_t most_dram_bytes)
    : memories_(&memories),
      most_blocks_(isa::ceil_div(most_dram_bytes, kDramBlockLw * 8)),
      written_(static_cast<size_t>(memories.chip.groups)) {}

std::string Transfers::place_of(const Node& node) const {
  return isa::SourceLocation{source_name_.empty() ? "program" : source_name_, node.line, 0}.to_string();
}

/// One side of a transfer: 16 LW of memory at the i-th LW of the side.
uint64_t* Transfers::mv_chunk(const Node& node, const MicroOperand& side, int group, int l2b, int64_t base,
                              int64_t i) const {
  const MappedMemory* memory = nullptr;
  int64_t size = 0;
  int64_t address = base + i;
  switch (side.space) {
    case Space::kPdm:
      memory = &memories_->pdm[group];
      size = memories_->chip.memory.pdm_lw;
      break;
    case Space::kL2bm:
      memory = &memories_->l2bm[group * memories_->chip.l2b_per_group + l2b];
      size = memories_->chip.memory.l2bm_lw;
      break;
    case Space::kDramIndirect: {
      const int64_t n = std::max(node.mv->indirect_n, 1);
      const int64_t block = i / kMvUnit;
      const int64_t entry = memories_->dar[group][wrap(base + block / n, memories_->chip.memory.dar_entries)];
      address = kMvUnit * entry + (block % n) * kMvUnit + i % kMvUnit;
      memory = &memories_->dram[group];
      size = memories_->chip.memory.dram_lw;
      break;
    }
    case Space::kDram:
      memory = &memories_->dram[group];
      size = memories_->chip.memory.dram_lw;
      break;
    default:
      throw isa::InternalError("internal error in simulator: not a side of an MV");
  }
  if (address < 0 || address + kMvUnit > size) {
    throw isa::UserError(fmt::format("{}: '{}' touches LW {} to {} of {} of group {}; allowed are 0 to {}",
                                     place_of(node), isa::mnemonic(*node.mv), address, address + kMvUnit - 1,
                                     side.space == Space::kPdm    ? "the PDM"
                                     : side.space == Space::kL2bm ? "an L2BM"
                                                                  : "the DRAM",
                                     group, size - 1));
  }
  return memory->longs() + address;
}

void Transfers::check(const Node& node, const Counters& counters) {
  const isa::Instruction& mv = *node.mv;
  if (mv.size_lw > memories_->chip.longest_transfer_lw()) {
    throw isa::UserError(fmt::format("{}: '{}' of {} LW; the DRAM of the chip has {}", place_of(node),
                                     isa::mnemonic(mv), mv.size_lw, memories_->chip.longest_transfer_lw()));
  }
  if (most_blocks_ > 0) {
    // What is kept of a transfer whose addresses are in no order, or that nobody has waited for.
    const int64_t late = memories_->late ? memories_->late->transfers_lw() : 0;
    const bool keeps = memories_->late || node.mv_source.space == Space::kDramIndirect ||
                       node.mv_destination.space == Space::kDramIndirect;
    const int64_t most = most_blocks_ * kDramBlockLw;
    if (keeps && late + mv.size_lw > most) refuse_memory(node);
  }
  if (mv.size_lw <= 0 || mv.size_lw % kMvUnit != 0) {
    throw isa::UserError(fmt::format("{}: '{}' of {} LW; allowed are multiples of 64", place_of(node),
                                     isa::mnemonic(mv), mv.size_lw));
  }
  transfer(node, counters, true);
}

void Transfers::run(const Node& node, const Counters& counters) {
  transfer(node, counters, false);
}

/// Counts the blocks of DRAM that hold something since a transfer wrote them.
void Transfers::limit_dram(const Node& node, Space space, int group, const uint64_t* chunk) {
  if (space != Space::kDram && space != Space::kDramIndirect) return;
  const auto block = static_cast<size_t>(chunk - memories_->dram[group].longs()) / kDramBlockLw;
  std::vector<bool>& written = written_[static_cast<size_t>(group)];
  if (written.size() <= block) written.resize(block + 1, false);
  if (written[block]) return;
  written[block] = true;
  if (++blocks_ > most_blocks_) refuse_memory(node);
}
void Transfers::refuse_memory(const Node& node) const {
  throw isa::UserError(fmt::format("{}: '{}' takes more memory than {} MB, the limit", place_of(node),
                                   isa::mnemonic(*node.mv), most_blocks_ * kDramBlockLw * 8 / 1'000'000));
}

void Transfers::transfer(const Node& node, const Counters& counters, bool check_only) {
  const isa::Instruction& mv = *node.mv;
  const MicroOperand& source = node.mv_source;
  const MicroOperand& destination = node.mv_destination;
  const int64_t from = source.resolve(counters);
  const int64_t to = destination.resolve(counters);
  const int64_t n = mv.size_lw;
  const int groups = memories_->chip.groups;
  const int per_group = memories_->chip.l2b_per_group;
  const int l2bs = memories_->chip.l2b_count();
  const int source_group = std::max<int>(source.group, 0);
  const int destination_group = std::max<int>(destination.group, 0);
  const int source_l2b = std::max<int>(source.unit, 0);
  const int destination_l2b = std::max<int>(destination.unit, 0);
  std::deque<std::array<uint64_t, kMvUnit>> seen;  // of stale L2BMs
  auto in = [&](int group, int l2b, int64_t i) -> const uint64_t* {
    const uint64_t* chunk = mv_chunk(node, source, group, l2b, from, i);
    if (!memories_->late || check_only || source.space != Space::kL2bm) return chunk;
    std::array<uint64_t, kMvUnit>& copy = seen.emplace_back();
    for (int64_t k = 0; k < kMvUnit; ++k)
      copy[static_cast<size_t>(k)] =
          memories_->l2bm_seen(group * per_group + l2b, from + i + k, memories_->chip.hazard.l1bm_to_l2bm_mv);
    return copy.data();
  };
  auto out = [&](int group, int l2b, int64_t i) {
    uint64_t* const chunk = mv_chunk(node, destination, group, l2b, to, i);
    if (check_only && most_blocks_ > 0) limit_dram(node, destination.space, group, chunk);
    return chunk;
  };
  auto late = [&](uint64_t* target) { return memories_->late->add_transfer(mv.tag, target); };
  auto copy = [&](uint64_t* target, const uint64_t* data) {
    if (!check_only) std::memmove(memories_->late ? late(target) : target, data, kMvUnit * 8);
  };
  auto reduce = [&](const std::vector<const uint64_t*>& values, int stage, uint64_t* target) {
    if (!check_only) reduce_chunk(mv, values, stage, memories_->late ? late(target) : target);
  };

  switch (mv.opcode) {
    case Opcode::kMvp: {
      const bool everywhere = source.group < 0 && destination.group < 0;
      // Source and destination may overlap: what is read must not be written before. Addresses out of the
      // DAR are in no order: there, all is read first.
      const bool in_order = source.space != Space::kDramIndirect && destination.space != Space::kDramIndirect;
      const bool backwards = in_order && from < to && !check_only;
      std::vector<uint64_t> data;
      for (int g = 0; g < (everywhere ? groups : 1); ++g) {
        const int into = everywhere ? g : destination_group;
        if (!check_only && !in_order) {
          data.resize(static_cast<size_t>(n));
          for (int64_t i = 0; i < n; i += kMvUnit)
            std::memcpy(data.data() + i, in(everywhere ? g : source_group, source_l2b, i), kMvUnit * 8);
        }
        for (int64_t k = 0; k < n; k += kMvUnit) {
          const int64_t i = backwards ? n - kMvUnit - k : k;
          const uint64_t* chunk = data.empty() ? in(everywhere ? g : source_group, source_l2b, i) : &data[i];
          copy(out(into, destination_l2b, i), chunk);
        }
      }
      break;
    }
    case Opcode::kMvb:
      for (int64_t i = 0; i < n; i += kMvUnit) {
        const uint64_t* data = in(source_group, 0, i);
        for (int q = 0; q < l2bs; ++q) copy(out(q / per_group, q % per_group, i), data);
      }
      break;
    case Opcode::kMvb2:
      for (int64_t i = 0; i < n; i += kMvUnit) {
        for (int q = 0; q < l2bs; ++q) copy(out(q / per_group, q % per_group, i), in(q / per_group, 0, i));
      }
      break;
    case Opcode::kMvb4:
      for (int64_t i = 0; i < n; i += kMvUnit) {
        const int64_t unit = i / kMvUnit;
        const uint64_t* data = in(static_cast<int>(unit % groups), 0, unit / groups * kMvUnit);
        for (int q = 0; q < l2bs; ++q) copy(out(q / per_group, q % per_group, i), data);
      }
      break;
    case Opcode::kMvd: {
      // The PDM side is linear; units go round over the groups (DRAM) or the L2Bs.
      const bool gathers = destination.space == Space::kPdm;
      const bool over_l2bs = (gathers ? source : destination).space == Space::kL2bm;
      const int parts = over_l2bs ? l2bs : groups;
      for (int64_t i = 0; i < n; i += kMvUnit) {
        const int64_t unit = i / kMvUnit;
        const int part = static_cast<int>(unit % parts);
        const int group = over_l2bs ? part / per_group : part;
        const int l2b = over_l2bs ? part % per_group : 0;
        const int64_t narrow = unit / parts * kMvUnit;
        if (gathers) {
          copy(out(destination_group, 0, i), in(group, l2b, narrow));
        } else {
          copy(out(group, l2b, narrow), in(source_group, 0, i));
        }
      }
      break;
    }
    case Opcode::kMvr:
      for (int64_t i = 0; i < n; i += kMvUnit) {
        std::vector<const uint64_t*> values;
        for (int q = 0; q < l2bs; ++q) values.push_back(in(q / per_group, q % per_group, i));
        reduce(values, per_group, out(destination_group, 0, i));
      }
      break;
    case Opcode::kMvr2:
      for (int g = 0; g < groups; ++g) {
        for (int64_t i = 0; i < n; i += kMvUnit) {
          std::vector<const uint64_t*> values;
          for (int l = 0; l < per_group; ++l) values.push_back(in(g, l, i));
          reduce(values, per_group, out(g, 0, i));
        }
      }
      break;
    case Opcode::kMvr4:
      for (int64_t i = 0; i < n; i += kMvUnit) {
        const int64_t unit = i / kMvUnit;
        std::vector<const uint64_t*> values;
        for (int g = 0; g < groups; ++g) values.push_back(in(g, 0, i));
        reduce(values, groups, out(static_cast<int>(unit % groups), 0, unit / groups * kMvUnit));
      }
      break;
    default:
      throw isa::InternalError("internal error in simulator: not an MV");
  }
}

}  // namespace kodama::simulator
