#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "isa/chip.h"
#include "isa/instruction.h"
#include "simulator/engine/l1b.h"
#include "simulator/engine/late_writes.h"
#include "simulator/engine/mapped_memory.h"
#include "simulator/machine.h"
#include "simulator/thread_pool.h"

/// All memories of the simulated chip, and access to them from outside a program.
namespace kodama::simulator {

inline constexpr int kDarStageEntries = 128;

/// Where l2bmdars leaves its entries for l2bmdarw.
struct DarStage {
  std::array<uint32_t, kDarStageEntries> entries{};
  int64_t destination = 0;
  int position = kDarStageEntries;  ///< of the next entry to write
};

struct ChipMemories {
  /// UnsupportedError for a chip that is too large for the engine or the host.
  ChipMemories(const isa::Chip& chip, const KernelTable& kernels);
  ChipMemories(const ChipMemories&) = delete;
  ChipMemories& operator=(const ChipMemories&) = delete;

  void fill_pseudo_random(uint64_t seed, ThreadPool& pool);
  /// A program will write most of the memories, DRAM apart: see MappedMemory.
  void prefer_large_pages();

  /// As the functions of Machine.
  uint64_t read(isa::Space space, const Place& place, int64_t address) const;
  void write(isa::Space space, const Place& place, int64_t address, uint64_t value);
  void read(isa::Space space, const Place& place, int64_t address, std::span<uint64_t> data) const;
  void write(isa::Space space, const Place& place, int64_t address, std::span<const uint64_t> data);
  int64_t operand_address(const isa::Operand& operand, const Place& place, int cycle) const;
  /// `count` LW of a DRAM or PDM. UserError outside the memory.
  uint64_t* host_range(isa::Space space, int group, int64_t address, size_t count) const;

  std::span<L1b> l1bs_of(int l2b) {
    return {l1bs.data() + static_cast<ptrdiff_t>(l2b) * chip.l1b_per_l2b,
            static_cast<size_t>(chip.l1b_per_l2b)};
  }

  /// From now on readers that come too early see what was there before; see Hazards::kStale.
  void show_stale(bool stale);
  /// A step is over in all L1Bs, if anybody has to know.
  void end_step();
  /// What a reader of an L2BM sees that needs `gap` steps after a write from below.
  uint64_t l2bm_seen(int l2b, int64_t address, int64_t gap) const;

  isa::Chip chip;
  std::vector<MappedMemory> dram;  ///< per group
  std::vector<MappedMemory> pdm;
  std::vector<std::vector<uint32_t>> dar;
  std::vector<DarStage> dar_stage;
  std::vector<MappedMemory> l2bm;    ///< per L2B
  MappedMemory l1b_storage;          ///< of all L1Bs, one behind another
  std::vector<L1b> l1bs;             ///< L2B by L2B
  std::unique_ptr<LateWrites> late;  ///< null = not stale

 private:
  int l2b_number(const Place& place) const { return place.group * chip.l2b_per_group + place.l2b; }
  L1b& l1b_at(const Place& place) { return l1bs[l2b_number(place) * chip.l1b_per_l2b + place.l1b]; }
  const L1b& l1b_at(const Place& place) const {
    return l1bs[l2b_number(place) * chip.l1b_per_l2b + place.l1b];
  }
  /// The place exists.
  uint64_t long_at(isa::Space space, const Place& place, int64_t address) const;
  void set_long(isa::Space space, const Place& place, int64_t address, uint64_t value);
};

}  // namespace kodama::simulator
