#include <algorithm>

#include "simulator/engine/l1b.h"

/// The memories and registers of an L1B: where they lie, how they are read and written from outside.
namespace kodama::simulator {
namespace {

using isa::Space;

/// Rows of a result: four words of four cycles, and as many again for what zero flush leaves of them.
constexpr int kResultRows = 32;

}  // namespace

Scratch::Scratch(const RowShape& shape, int mabs)
    : row_words_(static_cast<size_t>(shape.words())),
      rows_(kSlots * 16 * row_words_),
      flags_(kResultUnits * 4 * row_words_) {
  const size_t window = static_cast<size_t>(std::max(64, 16 * mabs));
  l1bm_data_.resize(window);
  l1bm_window_.resize(window);
}

RowShape L1b::row_shape(const isa::Chip& chip) {
  return {(chip.mab_per_l1b + kRowGranule - 1) / kRowGranule * kRowGranule};
}

int64_t L1b::window_lw(const isa::Chip& chip) {
  return std::max(64, 16 * chip.mab_per_l1b);
}

namespace {

/// Where an L1B has what in its storage, in bytes. Pieces are multiples of a cache line.
struct StorageLayout {
  explicit StorageLayout(const isa::Chip& chip)
      : row(static_cast<size_t>(L1b::row_shape(chip).words()) * sizeof(uint32_t)),
        decoded_matrix(kDecodedBytes * static_cast<size_t>(L1b::row_shape(chip).stride)) {
    for (size_t& at : lm) at = piece(chip.memory.lm_words * row);
    for (size_t& at : grf) at = piece(chip.memory.grf_words * row);
    t = piece(16 * row);
    masks = piece(static_cast<size_t>(chip.memory.mask_entries) * row);
    for (size_t& at : bar) at = piece(row);
    for (size_t& at : raw) at = piece(32 * row);
    for (size_t& at : decoded) at = piece(decoded_matrix);
    l1bm = piece(static_cast<size_t>(chip.memory.l1bm_lw) * 8);
    for (size_t& at : turnaround) at = piece(static_cast<size_t>(L1b::window_lw(chip)) * 8);
    zero = piece(row);
    for (auto& unit : results)
      for (size_t& at : unit) at = piece(kResultRows * row);
  }

  size_t row, decoded_matrix;  ///< sizes
  std::array<size_t, 2> lm, grf, bar, raw, decoded, turnaround;
  size_t t, masks, l1bm, zero;
  std::array<std::array<size_t, 2>, kResultUnits> results;
  size_t bytes = 0;  ///< of all

 private:
  size_t piece(size_t size) {
    const size_t at = bytes;
    bytes += (size + 63) / 64 * 64;
    return at;
  }
};

}  // namespace

size_t L1b::storage_bytes(const isa::Chip& chip) {
  return StorageLayout(chip).bytes;
}

L1b::L1b(const isa::Chip& chip, const KernelTable& kernels, int l2b, int l1b, void* storage)
    : chip_(&chip),
      kernels_(&kernels),
      shape_(row_shape(chip)),
      words_(shape_.words()),
      mabs_(chip.mab_per_l1b),
      l2b_number_(l2b),
      l1b_number_(l1b) {
  const StorageLayout layout(chip);
  auto* start = static_cast<unsigned char*>(storage);
  auto words_at = [start](size_t offset) { return reinterpret_cast<uint32_t*>(start + offset); };
  auto longs_at = [start](size_t offset) { return reinterpret_cast<uint64_t*>(start + offset); };
  for (size_t k = 0; k < 2; ++k) {
    lm_[k] = words_at(layout.lm[k]);
    grf_[k] = words_at(layout.grf[k]);
    bar_[k] = words_at(layout.bar[k]);
    matrix_[k].raw = words_at(layout.raw[k]);
    matrix_[k].decoded = start + layout.decoded[k];
  }
  t_ = words_at(layout.t);
  masks_ = start + layout.masks;
  l1bm_ = longs_at(layout.l1bm);
  turnaround_ = longs_at(layout.turnaround[0]);
  next_turnaround_ = longs_at(layout.turnaround[1]);
  zero_row_ = words_at(layout.zero);
  for (size_t unit = 0; unit < kResultUnits; ++unit)
    for (size_t k = 0; k < 2; ++k) results_[unit][k] = words_at(layout.results[unit][k]);
  for (Rows& rows : zeros_) rows.word.fill(zero_row_);
}

uint32_t* L1b::memory_of(Space space) const {
  switch (space) {
    case Space::kLm0:
      return lm_[0];
    case Space::kLm1:
      return lm_[1];
    case Space::kGrf0:
      return grf_[0];
    case Space::kGrf1:
      return grf_[1];
    default:
      return nullptr;
  }
}

int64_t L1b::size_of(Space space) const {
  return space == Space::kLm0 || space == Space::kLm1 ? chip_->memory.lm_words : chip_->memory.grf_words;
}

uint64_t L1b::read(Space space, int mab, int pe, int64_t address) const {
  const int lane = pe * shape_.stride + mab;
  switch (space) {
    case Space::kLm0:
    case Space::kLm1:
    case Space::kGrf0:
    case Space::kGrf1: {
      const uint32_t* rows = memory_of(space) + address * words_;
      return long_at(rows, rows + words_, lane);
    }
    case Space::kT: {
      const uint32_t* rows = t_ + ((address & 3) * 4 + (address >> 2) * 2) * words_;
      return long_at(rows, rows + words_, lane);
    }
    case Space::kAluf:
    case Space::kMauf:
    case Space::kLbf:
    case Space::kMreadf: {
      const size_t which = space == Space::kAluf   ? 0
                           : space == Space::kMauf ? 1
                           : space == Space::kLbf  ? 2
                                                   : 3;
      const Rows& rows = forwarded(which)[static_cast<size_t>(address & 3)];
      const auto first = static_cast<size_t>(address >> 2) * 2;
      return long_at(rows.word[first], rows.word[first + 1], lane);
    }
    case Space::kTurnaround:
      return turnaround_[address];
    case Space::kOmr:
      return masks_[address * words_ + lane];
    case Space::kBar0:
    case Space::kBar1:
      return bar_[space == Space::kBar1][lane];
    case Space::kMatX:
    case Space::kMatY: {
      const uint32_t* rows = matrix_[space == Space::kMatY].raw + (address >> 2) * 2 * words_;
      return long_at(rows, rows + words_, static_cast<int>(address & 3) * shape_.stride + mab);
    }
    default:
      return l1bm_[address];
  }
}

void L1b::write(Space space, int mab, int pe, int64_t address, uint64_t value) {
  const int lane = pe * shape_.stride + mab;
  auto store = [&](uint32_t* rows, int at) {
    rows[at] = static_cast<uint32_t>(value >> 32);
    rows[words_ + at] = static_cast<uint32_t>(value);
  };
  switch (space) {
    case Space::kLm0:
    case Space::kLm1:
    case Space::kGrf0:
    case Space::kGrf1:
      store(memory_of(space) + address * words_, lane);
      break;
    case Space::kT:
      store(t_ + ((address & 3) * 4 + (address >> 2) * 2) * words_, lane);
      break;
    case Space::kOmr:
      masks_[address * words_ + lane] = static_cast<uint8_t>(value & 15);
      break;
    case Space::kBar0:
    case Space::kBar1:
      bar_[space == Space::kBar1][lane] = static_cast<uint32_t>(value & 0xfff);
      bar_used_[space == Space::kBar1] = true;
      break;
    case Space::kMatX:
    case Space::kMatY: {
      Matrix& matrix = matrix_[space == Space::kMatY];
      store(matrix.raw + (address >> 2) * 2 * words_, static_cast<int>(address & 3) * shape_.stride + mab);
      matrix.valid = 0;
      break;
    }
    default:
      l1bm_[address] = value;
  }
}

void L1b::fill_pseudo_random(uint64_t seed) {
  uint64_t state =
      seed * 0x9e3779b97f4a7c15ull + static_cast<uint64_t>(l2b_number_ * chip_->l1b_per_l2b + l1b_number_);
  auto next = [&state] {
    state += 0x9e3779b97f4a7c15ull;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  };
  // Rows are multiples of two words.
  auto fill = [&](uint32_t* begin, int64_t rows) {
    for (int64_t i = 0; i < rows * words_; i += 2) {
      const uint64_t two = next();
      begin[i] = static_cast<uint32_t>(two);
      begin[i + 1] = static_cast<uint32_t>(two >> 32);
    }
  };
  for (int k = 0; k < 2; ++k) {
    fill(lm_[k], chip_->memory.lm_words);
    fill(grf_[k], chip_->memory.grf_words);
    fill(matrix_[k].raw, 32);
    matrix_[k].valid = 0;
  }
  fill(t_, 16);
  for (int64_t i = 0; i < chip_->memory.mask_entries * 4 * words_; ++i)
    masks_[i] = static_cast<uint8_t>(next() & 15);
  for (int64_t i = 0; i < chip_->memory.l1bm_lw; ++i) l1bm_[i] = next();
}

}  // namespace kodama::simulator
