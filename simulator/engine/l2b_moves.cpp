#include "simulator/engine/l2b_moves.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "isa/error.h"
#include "isa/move_places.h"
#include "simulator/engine/kernels/scalar_arithmetic.h"

namespace kodama::simulator {
namespace {

using Rule = isa::Movement::Rule;
using Way = isa::Movement::Way;

/// What an L2BM instruction read, waiting for the rest of the step.
struct L2bWrite {
  L1b* l1b;  ///< whose L1BM it is; null = the L2BM
  uint64_t* memory;
  int64_t size;
  int64_t address;
  const uint64_t* data;
  int64_t count;
};

void keep_old(const L2bWrite& write, int l2b, int64_t step, LateWrites& late) {
  std::vector<uint64_t> old(static_cast<size_t>(write.count));
  for (size_t i = 0; i < old.size(); ++i)
    old[i] = write.memory[wrap(write.address + static_cast<int64_t>(i), write.size)];
  if (write.l1b != nullptr) {
    write.l1b->stale()->before_l1bm_write(isa::Agent::kL2bmToL1bm, write.address, std::move(old));
  } else {
    late.before_l2bm_write(l2b, step, write.address, std::move(old));
  }
}

/// Copies of what a step's L2BM instructions read.
class L2bReads {
 public:
  L2bReads(int l2b, ChipMemories& memories, Scratch& scratch)
      : l2b_(l2b),
        memories_(memories),
        chip_(memories.chip),
        l1bs_(memories.l1bs_of(l2b)),
        scratch_(scratch) {}

  void run(const MicroOp& op, const Counters& counters) {
    if (op.movement->way == Way::kL2bmToDarStage || op.movement->way == Way::kDarStageToDar) return;
    const int64_t from = op.sources[0].resolve(counters);
    const int64_t to = op.destinations[0].resolve(counters);
    const isa::L2bmLayout layout = isa::l2bm_layout(*op.movement, chip_);
    switch (op.movement->way) {
      case Way::kL2bmToL1bm:
        to_l1bms(op, layout, from, to);
        break;
      case Way::kL1bmToL2bm:
        to_l2bm(op, layout, from, to);
        break;
      case Way::kL1bmToL1bm:
        between_l1bms(op, layout.l1bm_lw(), from, to);
        break;
      default:
        throw isa::InternalError("internal error in simulator: not an L2BM instruction");
    }
  }
  const std::vector<L2bWrite>& writes() const { return writes_; }

 private:
  void to_l1bms(const MicroOp& op, const isa::L2bmLayout& layout, int64_t from, int64_t to) {
    const int64_t run = layout.lw_per_cycle, lw = layout.l1bm_lw();
    const uint64_t* part_data = nullptr;
    for (int b = 0, last_part = -1; b < chip_.l1b_per_l2b; ++b) {
      if (!op.l1b_set.contains(b, chip_.l1b_per_l2b)) continue;
      // L1Bs of a part get the same.
      const int part = b / layout.l1bs_per_part;
      if (part != last_part) {
        uint64_t* data = scratch_.l2b_data(lw);
        for (int c = 0; c < isa::kCyclesPerStep; ++c)
          read_l2bm(from + layout.offset(c, part), run, data + run * c);
        part_data = data;
        last_part = part;
      }
      writes_.push_back({&l1bs_[b], l1bs_[b].l1bm(), chip_.memory.l1bm_lw, to, part_data, lw});
    }
  }
  void to_l2bm(const MicroOp& op, const isa::L2bmLayout& layout, int64_t from, int64_t to) {
    const int64_t run = layout.lw_per_cycle, lw = layout.l1bm_lw();
    const Rule rule = op.movement->rule;
    uint64_t* data = scratch_.l2b_data(layout.l2bm_lw());
    uint64_t* own = scratch_.l2b_data(lw);
    for (int part = 0; part < layout.parts; ++part) {
      const int first = part * layout.l1bs_per_part;
      if (rule == Rule::kReduced) {
        reduce(op, first, layout.l1bs_per_part, from, lw, own);
      } else {
        read_l1bm(first + (rule == Rule::kOneOf ? op.unit_number : 0), from, lw, own);
      }
      for (int c = 0; c < isa::kCyclesPerStep; ++c)
        std::memcpy(data + layout.offset(c, part), own + run * c,
                    static_cast<size_t>(run) * sizeof(uint64_t));
    }
    uint64_t* l2bm = memories_.l2bm[l2b_].longs();
    writes_.push_back({nullptr, l2bm, chip_.memory.l2bm_lw, to, data, layout.l2bm_lw()});
  }
  void between_l1bms(const MicroOp& op, int64_t lw, int64_t from, int64_t to) {
    const int count = chip_.l1b_per_l2b;
    const int ignore = op.l1b_set.ignore_mask;
    for (int s = 0; s < count; ++s) {
      if (!op.l1b_set.contains(s, count)) continue;
      uint64_t* data = scratch_.l2b_data(lw);
      read_l1bm(s, from, lw, data);
      for (int d = 0; d < count; ++d) {
        if ((d & ignore) == (s & ignore))
          writes_.push_back({&l1bs_[d], l1bs_[d].l1bm(), chip_.memory.l1bm_lw, to, data, lw});
      }
    }
  }

  /// What the L1Bs of a set have at an address, reduced; zeros where there are none.
  void reduce(const MicroOp& op, int first, int l1bs, int64_t from, int64_t lw, uint64_t* out) {
    std::array<const uint64_t*, 64> rows;
    size_t used = 0;
    for (int b = first; b < first + l1bs; ++b) {
      if (!op.l1b_set.contains(b, chip_.l1b_per_l2b)) continue;
      uint64_t* row = scratch_.l2b_data(lw);
      read_l1bm(b, from, lw, row);
      rows[used++] = row;
    }
    std::fill_n(out, lw, 0);
    if (used == 0) return;
    const bool is_sum = op.reduce_op == isa::ReduceOp::kFadd && op.precision == isa::Precision::kFloat;
    if (is_sum && used <= kMostSummedRows && 2 * lw % kRowGranule == 0) {
      std::array<const uint32_t*, kMostSummedRows> words;
      for (size_t k = 0; k < used; ++k) words[k] = reinterpret_cast<const uint32_t*>(rows[k]);
      l1bs_[0].kernels().sum_rows(words.data(), static_cast<int>(used), static_cast<int>(2 * lw),
                                  reinterpret_cast<uint32_t*>(out));
      return;
    }
    for (int64_t i = 0; i < lw; ++i) {
      std::array<uint64_t, 64> values;
      for (size_t k = 0; k < used; ++k) values[k] = rows[k][i];
      out[i] = reduce_long({values.data(), used}, op.reduce_op, op.precision);
    }
  }

  void read_l2bm(int64_t address, int64_t count, uint64_t* out) const {
    if (memories_.late) {
      for (int64_t i = 0; i < count; ++i)
        out[i] = memories_.l2bm_seen(l2b_, address + i, chip_.hazard.l1bm_to_l2bm_read);
      return;
    }
    copy_wrapped(memories_.l2bm[l2b_].longs(), chip_.memory.l2bm_lw, address, count, out);
  }
  void read_l1bm(int b, int64_t address, int64_t count, uint64_t* out) const {
    copy_wrapped(l1bs_[b].l1bm(), chip_.memory.l1bm_lw, address, count, out);
    if (!memories_.late) return;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = wrap(address + i, chip_.memory.l1bm_lw);
      out[i] = l1bs_[b].stale()->look_l1bm(isa::Agent::kL1bmToL2bm, at, out[i]);
    }
  }
  static void copy_wrapped(const uint64_t* memory, int64_t size, int64_t address, int64_t count,
                           uint64_t* out) {
    const int64_t begin = wrap(address, size);
    if (begin + count <= size) {
      std::memcpy(out, memory + begin, static_cast<size_t>(count) * sizeof(uint64_t));
      return;
    }
    for (int64_t i = 0; i < count; ++i) out[i] = memory[wrap(begin + i, size)];
  }

  int l2b_;
  ChipMemories& memories_;
  const isa::Chip& chip_;
  std::span<L1b> l1bs_;
  Scratch& scratch_;
  std::vector<L2bWrite> writes_;
};

void put(const L2bWrite& write) {
  const int64_t begin = wrap(write.address, write.size);
  if (begin + write.count <= write.size) {
    std::memcpy(write.memory + begin, write.data, static_cast<size_t>(write.count) * sizeof(uint64_t));
    return;
  }
  for (int64_t i = 0; i < write.count; ++i) write.memory[wrap(begin + i, write.size)] = write.data[i];
}

}  // namespace

void run_step_in_l2b(const Node& node, int l2b, const Counters& counters, ChipMemories& memories,
                     Scratch& scratch) {
  const std::span<L1b> l1bs = memories.l1bs_of(l2b);
  scratch.reset_l2b();
  L2bReads reads(l2b, memories, scratch);
  for (const MicroOp& op : node.l2b_ops) reads.run(op, counters);
  for (L1b& l1b : l1bs) l1b.run_step(node, counters, scratch);
  for (const L2bWrite& write : reads.writes()) {
    if (memories.late) keep_old(write, l2b, l1bs[0].stale()->step(), *memories.late);
    put(write);
  }
  if (!memories.late) return;
  for (L1b& l1b : l1bs) l1b.stale()->end_steps(1);
  memories.late->forget_l2bm(l2b, l1bs[0].stale()->step());
}

void fetch_from_l2bm(const MicroOp& op, int number, const Counters& counters, ChipMemories& memories) {
  const isa::Chip& chip = memories.chip;
  const int l2b = number / chip.l1b_per_l2b, b = number % chip.l1b_per_l2b;
  if (!op.l1b_set.contains(b, chip.l1b_per_l2b)) return;
  const isa::L2bmLayout layout = isa::l2bm_layout(*op.movement, chip);
  const int64_t run = layout.lw_per_cycle;
  const uint64_t* l2bm = memories.l2bm[l2b].longs();
  uint64_t* l1bm = memories.l1bs[static_cast<size_t>(number)].l1bm();
  const int64_t from = op.sources[0].resolve(counters), to = op.destinations[0].resolve(counters);
  for (int c = 0; c < isa::kCyclesPerStep; ++c) {
    const int64_t begin = wrap(from + layout.offset(c, b / layout.l1bs_per_part), chip.memory.l2bm_lw);
    const int64_t end = wrap(to + run * c, chip.memory.l1bm_lw);
    if (begin + run <= chip.memory.l2bm_lw && end + run <= chip.memory.l1bm_lw) {
      std::memcpy(l1bm + end, l2bm + begin, static_cast<size_t>(run) * sizeof(uint64_t));
      continue;
    }
    for (int64_t i = 0; i < run; ++i)
      l1bm[wrap(end + i, chip.memory.l1bm_lw)] = l2bm[wrap(begin + i, chip.memory.l2bm_lw)];
  }
}

void run_dar_operations(const Node& node, const Counters& counters, ChipMemories& memories) {
  const isa::Chip& chip = memories.chip;
  // The writer sees the stage as it was before this step.
  for (const MicroOp& op : node.l2b_ops) {
    if (op.movement->way != Way::kDarStageToDar) continue;
    for (int g = 0; g < chip.groups; ++g) {
      DarStage& stage = memories.dar_stage[g];
      for (int c = 0; c < isa::kCyclesPerStep && stage.position < kDarStageEntries; ++c, ++stage.position) {
        memories.dar[g][wrap(stage.destination + stage.position, chip.memory.dar_entries)] =
            stage.entries[stage.position];
      }
    }
  }
  for (const MicroOp& op : node.l2b_ops) {
    if (op.movement->way != Way::kL2bmToDarStage) continue;
    const int64_t from = op.sources[0].resolve(counters);
    const int l = std::max<int>(op.sources[0].unit, 0);
    for (int g = 0; g < chip.groups; ++g) {
      DarStage& stage = memories.dar_stage[g];
      for (int i = 0; i < kDarStageEntries / 2; ++i) {
        const uint64_t value =
            memories.l2bm_seen(g * chip.l2b_per_group + l, from + i, chip.hazard.l1bm_to_l2bm_read);
        stage.entries[2 * i] = static_cast<uint32_t>(value >> 32);
        stage.entries[2 * i + 1] = static_cast<uint32_t>(value);
      }
      stage.destination = op.destinations[0].resolve(counters);
      stage.position = 0;
    }
  }
}

}  // namespace kodama::simulator
