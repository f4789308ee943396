#include "simulator/engine/transfers.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>

#include "isa/arithmetic.h"
#include "isa/error.h"
#include "isa/move_places.h"
#include "simulator/engine/kernels/scalar_arithmetic.h"

namespace kodama::simulator {
namespace {

using isa::Space;

bool is_dram(Space space) {
  return space == Space::kDram || space == Space::kDramIndirect;
}

/// Reduces `per_group` neighbours first, then the results.
void reduce_chunk(const isa::Instruction& mv, const std::vector<const uint64_t*>& values, int per_group,
                  uint64_t* out) {
  std::array<uint64_t, 64> stage;
  std::array<uint64_t, 64> members;
  std::array<uint64_t, isa::kSpreadUnit> result;
  for (int64_t i = 0; i < isa::kSpreadUnit; ++i) {
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
      const int64_t block = i / isa::kSpreadUnit;
      const int64_t entry = memories_->dar[group][wrap(base + block / n, memories_->chip.memory.dar_entries)];
      address = isa::kSpreadUnit * entry + (block % n) * isa::kSpreadUnit + i % isa::kSpreadUnit;
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
  if (address < 0 || address + isa::kSpreadUnit > size) {
    throw isa::UserError(fmt::format("{}: '{}' touches LW {} to {} of {} of group {}; allowed are 0 to {}",
                                     place_of(node), isa::mnemonic(*node.mv), address,
                                     address + isa::kSpreadUnit - 1,
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
  if (mv.size_lw <= 0 || mv.size_lw % isa::kSpreadUnit != 0) {
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
  if (!is_dram(space)) return;
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
  const int per_group = memories_->chip.l2b_per_group;
  std::deque<std::array<uint64_t, isa::kSpreadUnit>> seen;  // of stale L2BMs
  auto in = [&](int group, int l2b, int64_t i) -> const uint64_t* {
    const uint64_t* chunk = mv_chunk(node, source, group, l2b, from, i);
    if (!memories_->late || check_only || source.space != Space::kL2bm) return chunk;
    std::array<uint64_t, isa::kSpreadUnit>& copy = seen.emplace_back();
    for (int64_t k = 0; k < isa::kSpreadUnit; ++k)
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
    if (!check_only) std::memmove(memories_->late ? late(target) : target, data, isa::kSpreadUnit * 8);
  };
  auto reduce = [&](const std::vector<const uint64_t*>& values, int stage, uint64_t* target) {
    if (!check_only) reduce_chunk(mv, values, stage, memories_->late ? late(target) : target);
  };

  const isa::MvPlaces places(mv, memories_->chip);
  const bool reduces = isa::movement(mv).rule == isa::Movement::Rule::kReduced;
  // Source and destination may overlap: what is read must not be written before. Backwards that holds of
  // linear copies; addresses out of the DAR, and those dealt out, are in no order: there, all is read first.
  const bool same_kind =
      is_dram(source.space) ? is_dram(destination.space) : source.space == destination.space;
  const bool in_order = source.space != Space::kDramIndirect && destination.space != Space::kDramIndirect &&
                        places.source.is_linear() && places.destination.is_linear();
  const bool backwards = same_kind && in_order && from < to && !check_only;
  const bool reads_first = same_kind && !in_order && !check_only;
  std::vector<const uint64_t*> values;
  std::vector<uint64_t> first;
  for (int transfer = 0; transfer < places.transfers; ++transfer) {
    const auto read = [&](int64_t i) {
      values.clear();
      places.source.for_each_place(
          transfer, i, [&](int group, int l2b, int64_t at) { values.push_back(in(group, l2b, at)); });
    };
    if (reads_first) {
      first.resize(static_cast<size_t>(n));
      for (int64_t i = 0; i < n; i += isa::kSpreadUnit) {
        read(i);
        std::memcpy(first.data() + i, values.front(), isa::kSpreadUnit * 8);
      }
    }
    for (int64_t k = 0; k < n; k += isa::kSpreadUnit) {
      const int64_t i = backwards ? n - isa::kSpreadUnit - k : k;
      if (reads_first) {
        values.assign(1, first.data() + i);
      } else {
        read(i);
      }
      places.destination.for_each_place(transfer, i, [&](int group, int l2b, int64_t at) {
        uint64_t* const target = out(group, l2b, at);
        if (reduces) {
          reduce(values, places.source.reduced_first(), target);
        } else {
          copy(target, values.front());
        }
      });
    }
  }
}

}  // namespace kodama::simulator
