#include "simulator/engine/chip_memories.h"

#include "isa/error.h"
#include "simulator/debug_text.h"

/// Where the memories lie, how each is read and written by its place, and what fills them.
namespace kodama::simulator {
namespace {

using isa::Space;

uint64_t next_random(uint64_t& state) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return state;
}

void fill(const MappedMemory& memory, uint64_t& state) {
  for (size_t i = 0; i < memory.bytes() / 8; ++i) {
    const uint64_t next = next_random(state);
    memory.longs()[i] = next ^ (next >> 29);
  }
}

}  // namespace

ChipMemories::ChipMemories(const isa::Chip& of, const KernelTable& kernels) : chip(of) {
  if (chip.mab_per_l1b > 64 || chip.l1b_per_l2b > 64 || chip.l2b_count() > 64) {
    throw isa::UnsupportedError(fmt::format(
        "the simulator handles up to 64 MABs per L1B, L1Bs per L2B and L2Bs; chip '{}' has {}, {} and {}",
        chip.name, chip.mab_per_l1b, chip.l1b_per_l2b, chip.l2b_count()));
  }
  for (int g = 0; g < chip.groups; ++g) {
    dram.emplace_back(static_cast<size_t>(chip.memory.dram_lw) * 8);
    pdm.emplace_back(static_cast<size_t>(chip.memory.pdm_lw) * 8);
    dar.emplace_back(static_cast<size_t>(chip.memory.dar_entries));
    dar_stage.emplace_back();
  }
  const size_t l1b_bytes = L1b::storage_bytes(chip);
  l1b_storage = MappedMemory(static_cast<size_t>(chip.l2b_count()) * chip.l1b_per_l2b * l1b_bytes);
  auto* next = static_cast<unsigned char*>(l1b_storage.data());
  for (int l2b = 0; l2b < chip.l2b_count(); ++l2b) {
    l2bm.emplace_back(static_cast<size_t>(chip.memory.l2bm_lw) * 8);
    for (int l1b = 0; l1b < chip.l1b_per_l2b; ++l1b, next += l1b_bytes)
      l1bs.emplace_back(chip, kernels, l2b, l1b, next);
  }
}

void ChipMemories::prefer_large_pages() {
  l1b_storage.prefer_large_pages();
  for (MappedMemory& memory : l2bm) memory.prefer_large_pages();
  for (MappedMemory& memory : pdm) memory.prefer_large_pages();
}

uint64_t ChipMemories::read(Space space, const Place& place, int64_t address) const {
  check_place(space, place, address, chip);
  return long_at(space, place, address);
}
void ChipMemories::write(Space space, const Place& place, int64_t address, uint64_t value) {
  check_place(space, place, address, chip);
  set_long(space, place, address, value);
}
void ChipMemories::read(Space space, const Place& place, int64_t address, std::span<uint64_t> data) const {
  check_range(space, place, address, data.size(), chip);
  const int step = address_step(space);
  for (uint64_t& value : data) {
    value = long_at(space, place, address);
    address += step;
  }
}
void ChipMemories::write(Space space, const Place& place, int64_t address, std::span<const uint64_t> data) {
  check_range(space, place, address, data.size(), chip);
  const int step = address_step(space);
  for (const uint64_t value : data) {
    set_long(space, place, address, value);
    address += step;
  }
}

uint64_t ChipMemories::long_at(Space space, const Place& place, int64_t address) const {
  switch (space) {
    case Space::kDram:
      return dram[place.group].longs()[address];
    case Space::kPdm:
      return pdm[place.group].longs()[address];
    case Space::kDar:
      return dar[place.group][address];
    case Space::kL2bm:
      return l2bm[l2b_number(place)].longs()[address];
    default:
      return l1b_at(place).read(space, place.mab, place.pe, address);
  }
}

int64_t ChipMemories::operand_address(const isa::Operand& operand, const Place& place, int cycle) const {
  return l1b_at(place).operand_address(operand, place.mab, place.pe, cycle);
}

void ChipMemories::set_long(Space space, const Place& place, int64_t address, uint64_t value) {
  switch (space) {
    case Space::kDram:
      dram[place.group].longs()[address] = value;
      break;
    case Space::kPdm:
      pdm[place.group].longs()[address] = value;
      break;
    case Space::kDar:
      dar[place.group][address] = static_cast<uint32_t>(value);
      break;
    case Space::kL2bm:
      l2bm[l2b_number(place)].longs()[address] = value;
      break;
    default:
      l1b_at(place).write(space, place.mab, place.pe, address, value);
  }
}

uint64_t* ChipMemories::host_range(Space space, int group, int64_t address, size_t count) const {
  const int64_t size = space_size(space, chip);
  const char* name = space == Space::kDram ? "DRAM" : "PDM";
  if (group < 0 || group >= chip.groups) {
    throw isa::UserError(fmt::format("{} of group {}; allowed are 0 to {}", name, group, chip.groups - 1));
  }
  if (address < 0 || address > size || static_cast<int64_t>(count) > size - address) {
    throw isa::UserError(fmt::format("{} addresses {} to {}; allowed are 0 to {}", name, address,
                                     address + static_cast<int64_t>(count) - 1, size - 1));
  }
  return (space == Space::kDram ? dram : pdm)[group].longs() + address;
}

void ChipMemories::fill_pseudo_random(uint64_t seed, ThreadPool& pool) {
  prefer_large_pages();
  pool.run(static_cast<int>(l1bs.size()), [&](int i, int) { l1bs[i].fill_pseudo_random(seed); });
  uint64_t state = seed;
  for (const MappedMemory& memory : l2bm) fill(memory, state);
  for (const MappedMemory& memory : pdm) fill(memory, state);
  // DRAM is too large to be written; it shows one pattern again and again, which all machines share.
  static const std::unique_ptr<const PatternFile> pattern = [] {
    auto made = std::make_unique<PatternFile>(size_t{1} << 24);
    uint64_t own = 0;
    fill(made->memory(), own);
    return made;
  }();
  for (MappedMemory& memory : dram) memory.show(*pattern, next_random(state) >> 32);
  for (std::vector<uint32_t>& entries : dar)
    for (uint32_t& entry : entries) entry = static_cast<uint32_t>(next_random(state) >> 32);
}

void ChipMemories::show_stale(bool stale) {
  for (L1b& l1b : l1bs) l1b.show_stale(stale);
  if (!stale && late) late->finish_transfers(LateWrites::kAllTags);
  late = stale ? std::make_unique<LateWrites>(chip) : nullptr;
}

void ChipMemories::end_step() {
  if (!late) return;
  for (L1b& l1b : l1bs) l1b.stale()->end_steps(1);
}

uint64_t ChipMemories::l2bm_seen(int l2b, int64_t address, int64_t gap) const {
  address = wrap(address, chip.memory.l2bm_lw);
  const uint64_t value = l2bm[l2b].longs()[address];
  if (!late) return value;
  return late->look_l2bm(l2b, address, value,
                         l1bs[static_cast<size_t>(l2b * chip.l1b_per_l2b)].stale()->step(), gap);
}

}  // namespace kodama::simulator
