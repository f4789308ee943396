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

L1b::L1b(const isa::Chip& chip, const KernelTable& kernels, int l2b, int l1b)
    : chip_(&chip),
      kernels_(&kernels),
      shape_(row_shape(chip)),
      words_(shape_.words()),
      mabs_(chip.mab_per_l1b),
      l2b_number_(l2b),
      l1b_number_(l1b) {
  const auto words = static_cast<size_t>(words_);
  const auto decoded_bytes = kDecodedBytes * static_cast<size_t>(shape_.stride);
  // One mapping, taken apart in pieces that are multiples of a cache line.
  size_t total = 0;
  auto piece = [&total](size_t bytes) {
    const size_t offset = total;
    total += (bytes + 63) / 64 * 64;
    return offset;
  };
  const size_t row_bytes = words * sizeof(uint32_t);
  const size_t lm0 = piece(chip.memory.lm_words * row_bytes);
  const size_t lm1 = piece(chip.memory.lm_words * row_bytes);
  const size_t grf0 = piece(chip.memory.grf_words * row_bytes);
  const size_t grf1 = piece(chip.memory.grf_words * row_bytes);
  const size_t t = piece(16 * row_bytes);
  const size_t masks = piece(static_cast<size_t>(chip.memory.mask_entries) * 4 * words);
  const size_t bar = piece(2 * row_bytes);
  const size_t raw = piece(2 * 32 * row_bytes);
  const size_t decoded = piece(2 * decoded_bytes);
  const size_t l1bm = piece(static_cast<size_t>(chip.memory.l1bm_lw) * 8);
  const size_t turnaround = piece(static_cast<size_t>(window_lw(chip)) * 8);
  const size_t next_turnaround = piece(static_cast<size_t>(window_lw(chip)) * 8);
  const size_t zero = piece(row_bytes);
  const size_t results = piece(static_cast<size_t>(kResultUnits) * 2 * kResultRows * row_bytes);
  storage_ = MappedMemory(total);
  auto* start = static_cast<unsigned char*>(storage_.data());
  auto at = [start](size_t offset) { return reinterpret_cast<uint32_t*>(start + offset); };
  lm_ = {at(lm0), at(lm1)};
  grf_ = {at(grf0), at(grf1)};
  t_ = at(t);
  masks_ = start + masks;
  bar_ = {at(bar), at(bar + row_bytes)};
  for (size_t i = 0; i < 2; ++i) {
    matrix_[i].raw = at(raw + i * 32 * row_bytes);
    matrix_[i].decoded = start + decoded + i * decoded_bytes;
  }
  l1bm_ = reinterpret_cast<uint64_t*>(start + l1bm);
  turnaround_ = reinterpret_cast<uint64_t*>(start + turnaround);
  next_turnaround_ = reinterpret_cast<uint64_t*>(start + next_turnaround);
  zero_row_ = at(zero);
  for (size_t unit = 0; unit < kResultUnits; ++unit) {
    for (size_t k = 0; k < 2; ++k) results_[unit][k] = at(results + (unit * 2 + k) * kResultRows * row_bytes);
  }
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
  auto fill = [&](uint32_t* begin, int64_t rows) {
    for (int64_t i = 0; i < rows * words_; ++i) begin[i] = static_cast<uint32_t>(next());
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
