#include "simulator/engine/l2b_moves.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "isa/error.h"
#include "isa/move_places.h"
#include "simulator/engine/scalar_arithmetic.h"

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
  std::vector<uint64_t> data;
};

void keep_old(const L2bWrite& write, int l2b, int64_t step, LateWrites& late) {
  std::vector<uint64_t> old(write.data.size());
  for (size_t i = 0; i < old.size(); ++i)
    old[i] = write.memory[wrap(write.address + static_cast<int64_t>(i), write.size)];
  if (write.l1b != nullptr) {
    write.l1b->stale()->before_l1bm_write(isa::Agent::kL2bmToL1bm, write.address, std::move(old));
  } else {
    late.before_l2bm_write(l2b, step, write.address, std::move(old));
  }
}

void read_l2b_operation(const MicroOp& op, int l2b, const Counters& counters, ChipMemories& memories,
                        std::vector<L2bWrite>& writes) {
  const isa::Chip& chip = memories.chip;
  const std::span<L1b> l1bs = memories.l1bs_of(l2b);
  if (op.movement->way == Way::kL2bmToDarStage || op.movement->way == Way::kDarStageToDar) return;
  const int count = chip.l1b_per_l2b;
  const int64_t from = op.sources[0].resolve(counters);
  const int64_t to = op.destinations[0].resolve(counters);
  uint64_t* l2bm = memories.l2bm[l2b].longs();
  auto l2bm_at = [&](int64_t address) {
    return memories.late ? memories.l2bm_seen(l2b, address, chip.hazard.l1bm_to_l2bm_read)
                         : l2bm[wrap(address, chip.memory.l2bm_lw)];
  };
  auto l1bm_at = [&](int b, int64_t address) {
    address = wrap(address, chip.memory.l1bm_lw);
    const uint64_t value = l1bs[b].l1bm()[address];
    return memories.late ? l1bs[b].stale()->look_l1bm(isa::Agent::kL1bmToL2bm, address, value) : value;
  };
  auto write_l1bm = [&](int b, int64_t address, std::vector<uint64_t> data) {
    writes.push_back({&l1bs[b], l1bs[b].l1bm(), chip.memory.l1bm_lw, address, std::move(data)});
  };
  auto write_l2bm = [&](int64_t address, std::vector<uint64_t> data) {
    writes.push_back({nullptr, l2bm, chip.memory.l2bm_lw, address, std::move(data)});
  };
  const isa::L2bmLayout layout = isa::l2bm_layout(*op.movement, chip);
  const int64_t lw = layout.l1bm_lw();
  const int64_t run = layout.lw_per_cycle;
  const Rule rule = op.movement->rule;
  switch (op.movement->way) {
    case Way::kL2bmToL1bm:
      for (int b = 0; b < count; ++b) {
        if (!op.l1b_set.contains(b, count)) continue;
        std::vector<uint64_t> data(static_cast<size_t>(lw));
        for (int c = 0; c < isa::kCyclesPerStep; ++c) {
          const int64_t begin = from + layout.offset(c, b / layout.l1bs_per_part);
          for (int64_t i = 0; i < run; ++i) data[static_cast<size_t>(run * c + i)] = l2bm_at(begin + i);
        }
        write_l1bm(b, to, std::move(data));
      }
      break;
    case Way::kL1bmToL2bm: {
      std::vector<uint64_t> data(static_cast<size_t>(layout.l2bm_lw()));
      for (int part = 0; part < layout.parts; ++part) {
        const int first = part * layout.l1bs_per_part;
        for (int64_t i = 0; i < lw; ++i) {
          const int c = static_cast<int>(i) / layout.lw_per_cycle;
          uint64_t& target = data[static_cast<size_t>(layout.offset(c, part) + i - run * c)];
          if (rule != Rule::kReduced) {
            target = l1bm_at(first + (rule == Rule::kOneOf ? op.unit_number : 0), from + i);
            continue;
          }
          std::array<uint64_t, 64> values;
          size_t used = 0;
          for (int b = first; b < first + layout.l1bs_per_part; ++b) {
            if (op.l1b_set.contains(b, count)) values[used++] = l1bm_at(b, from + i);
          }
          if (used > 0) target = reduce_long({values.data(), used}, op.reduce_op, op.precision);
        }
      }
      write_l2bm(to, std::move(data));
      break;
    }
    case Way::kL1bmToL1bm: {
      const int ignore = op.l1b_set.ignore_mask;
      for (int s = 0; s < count; ++s) {
        if (!op.l1b_set.contains(s, count)) continue;
        std::vector<uint64_t> data(static_cast<size_t>(lw));
        for (int64_t i = 0; i < lw; ++i) data[static_cast<size_t>(i)] = l1bm_at(s, from + i);
        for (int d = 0; d < count; ++d) {
          if ((d & ignore) == (s & ignore)) write_l1bm(d, to, data);
        }
      }
      break;
    }
    default:
      throw isa::InternalError("internal error in simulator: not an L2BM instruction");
  }
}

}  // namespace

void run_step_in_l2b(const Node& node, int l2b, const Counters& counters, ChipMemories& memories,
                     Scratch& scratch) {
  const std::span<L1b> l1bs = memories.l1bs_of(l2b);
  std::vector<L2bWrite> writes;
  for (const MicroOp& op : node.l2b_ops) read_l2b_operation(op, l2b, counters, memories, writes);
  for (L1b& l1b : l1bs) l1b.run_step(node, counters, scratch);
  for (const L2bWrite& write : writes) {
    if (memories.late) keep_old(write, l2b, l1bs[0].stale()->step(), *memories.late);
    for (size_t i = 0; i < write.data.size(); ++i) {
      write.memory[wrap(write.address + static_cast<int64_t>(i), write.size)] = write.data[i];
    }
  }
  if (!memories.late) return;
  for (L1b& l1b : l1bs) l1b.stale()->end_steps(1);
  memories.late->forget_l2bm(l2b, l1bs[0].stale()->step());
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
