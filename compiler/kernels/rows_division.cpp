#include "compiler/kernels/rows_division.h"

#include <algorithm>
#include <numeric>

#include "isa/arithmetic.h"

namespace kodama::compiler {

using isa::ceil_div;

RowsDivision::RowsDivision(const Picture& in_picture, RowsSplit in_split, const Picture& out_picture,
                           RowsSplit out_split, const RowsWindow& rows_window, const RowsShare& share,
                           const isa::Chip& chip)
    : in(in_picture, in_split, chip),
      out(out_picture, out_split, chip),
      parts(in_picture.parts.empty() ? std::vector{in} : std::vector<RowsImage>()),
      window(rows_window),
      rows(share.rows),
      l1bs(share.by_rows ? share.l1bs : chip.l1b_per_l2b),
      window_rows(window.rows_under(rows)),
      pass_rows(rows * (share.by_rows ? l1bs : 1)),
      region_rows(window.rows_under(pass_rows)),
      passes(ceil_div(out.rows(), pass_rows)),
      pitch(std::max(window.pad[1] + in.order().groups * isa::kCyclesPerStep,
                     window.columns_under(out.order().groups * isa::kCyclesPerStep))) {
  for (const Picture& part : in_picture.parts) parts.emplace_back(part, in_split, chip);
}

std::vector<RowsDivision::Run> RowsDivision::runs() const {
  std::vector<Run> runs;
  int64_t places = 0;
  for (size_t part = 0; part < parts.size(); ++part) {
    const bool is_alike = part > 0 && parts[part].chunks() == parts[part - 1].chunks() &&
                          parts[part].row_lw() == parts[part - 1].row_lw();
    if (is_alike) {
      ++runs.back().count;
    } else {
      runs.push_back({part, 1, places});
    }
    places += ceil_div(parts[part].chunks(), stack) * stack_places;
  }
  return runs;
}

LoadRows RowsDivision::load(const Run& run, int first_stream, int64_t ways,
                            const std::function<std::vector<RowsTransfer>(size_t part)>& transfers) const {
  const RowsImage& image = parts[run.first];
  LoadRows load;
  load.stream = first_stream + static_cast<int>(run.first);
  load.l2bm = part_l2bm(run.first, ways);
  load.parts = static_cast<int64_t>(run.count) * ways;
  load.part_lw = region_rows * image.row_lw();
  load.chunks = image.chunks();
  load.first_chunk = run.first_place * ways;
  load.stack = stack;
  load.columns = image.picture().columns;
  load.order = image.order();
  load.rows = load.buffer_rows = window_rows;
  load.pitch = pitch;
  load.first_column = window.pad[1];
  for (size_t part = run.first; part < run.first + run.count; ++part) {
    for (RowsTransfer transfer : transfers(part)) {
      if (part > run.first && transfer.stream < 0) transfer.stream = first_stream + static_cast<int>(part);
      transfer.l2bm += part_l2bm(part, ways);
      load.transfers.push_back(transfer);
    }
  }
  return load;
}

int64_t RowsDivision::part_l2bm(size_t part, int64_t ways) const {
  if (parts_in_turn) return part < parts.size() ? 0 : ways * region_rows * longest_row_lw();
  int64_t lw = 0;
  for (size_t before = 0; before < part; ++before) lw += ways * region_rows * parts[before].row_lw();
  return lw;
}

bool RowsDivision::fits_in_ranges(int64_t lw) const {
  const auto fits = [&](const RowsImage& image) {
    return std::max(image.order().width(), std::min(stack, image.order().chunks)) * image.order().groups *
               kUnitLw <=
           lw;
  };
  return fits(out) && std::ranges::all_of(parts, fits);
}

int64_t RowsDivision::in_row_lw() const {
  int64_t lw = 0;
  for (const RowsImage& part : parts) lw += part.row_lw();
  return lw;
}

int64_t RowsDivision::longest_row_lw() const {
  int64_t lw = 0;
  for (const RowsImage& part : parts) lw = std::max(lw, part.row_lw());
  return lw;
}

bool RowsDivision::is_even() const {
  // Of several parts, a matrix has no place for what is behind the last channel of one.
  if (parts.size() > 1) return out.is_nearly_even() && std::ranges::all_of(parts, &RowsImage::is_even);
  return in.is_nearly_even() && out.is_nearly_even();
}

bool RowsDivision::has_outside_columns() const {
  return window.pad[1] > 0 || window.columns_under(out.picture().columns) > in.picture().columns;
}

bool RowsDivision::can_share_chunks(int64_t chunks) const {
  if (runs().size() != 1) return false;
  const RowOrder order = parts[0].order();
  return chunks % order.chunks == 0 || (order.chunks % chunks == 0 && order.can_share(chunks));
}

void RowsDivision::share_chunks(LoadRows& load, int64_t chunks, int64_t sharing_l1bs) const {
  load.l1b_at.clear();
  for (int64_t b = 0; b < sharing_l1bs; ++b) {
    const int64_t chunk = b * chunks;
    load.l1b_at.push_back(chunk / load.chunks * load.part_lw + load.order.at(chunk % load.chunks, 0));
  }
  load.parts = ceil_div(chunks, load.chunks);
  load.chunks = chunks / load.parts;
}

int64_t RowsDivision::l1bs_in(int64_t pass) const {
  return std::min(ceil_div(out.rows() - pass * pass_rows, rows), pass_rows / rows);
}

RowsPass RowsDivision::pass(int64_t image, int64_t number) const {
  return {.image = image,
          .pass = number,
          .pass_rows = pass_rows,
          .rows = l1bs_in(number) * rows,
          .region_rows = region_rows};
}

std::vector<RowsTransfer> RowsDivision::own_rows(int64_t image, int64_t number, int64_t l2bm, int64_t first,
                                                 int64_t count) const {
  const int64_t row = number * pass_rows + first;
  RowsTransfer own;
  own.l2bm = l2bm;
  own.dram = out.offset(image, row);
  own.count = std::min(count, out.rows() - row) * out.row_lw();
  if (own.count <= 0) return {};
  return {own};
}

int64_t load_rows_steps(int64_t parts, int64_t rows, int64_t chunks, int64_t groups, int64_t sets,
                        int64_t each, int64_t fill) {
  return parts * rows * (chunks * groups * std::max(sets, each) + fill);
}

std::vector<int64_t> in_turn(int64_t count, bool backwards) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), int64_t{0});
  if (backwards) std::ranges::reverse(numbers);
  return numbers;
}

std::vector<RowsPiece> pieces_of(int64_t first, int64_t last, int64_t most) {
  std::vector<RowsPiece> list;
  for (int64_t row = first; row < last; row += most) list.push_back({row, std::min(most, last - row)});
  return list;
}

int64_t passes_cycles(int64_t passes, int64_t step_cycles, int64_t transfer_cycles, int64_t l2bm_lw,
                      const isa::Chip& chip) {
  const int64_t alone = step_cycles + transfer_cycles;
  constexpr int64_t kSeveral = 4;
  const int64_t room = chip.memory.l2bm_lw;
  if (2 * l2bm_lw > room || passes * l2bm_lw <= kSeveral * room) return passes * alone;
  // A third to two fifths of the shorter was seen to be in the way of the longer (32 x 64 x 56 x 56).
  const int64_t beside = std::min(step_cycles, transfer_cycles) * 3 / 5;
  return alone + (passes - 1) * (alone - beside);
}

int64_t own_rows_cycles(int64_t lw, const isa::Chip& chip) {
  return static_cast<int64_t>(static_cast<double>(chip.l2b_per_group * lw) /
                              chip.transfer.dram_lw_per_cycle) +
         chip.transfer.startup_cycles;
}

int64_t chunk_share(int64_t chunks, int64_t l1bs) {
  int64_t share = ceil_div(chunks, l1bs);
  while (chunks % share != 0) ++share;
  return share;
}

void set_segments(StoreRows& store, const RowOrder& order, int64_t chunks) {
  const bool is_dense = order.is_dense(chunks);
  store.segments = is_dense ? 1 : order.groups;
  store.segment_lw = chunks * (is_dense ? order.groups : 1) * kUnitLw;
  store.chunk_lw = is_dense ? 0 : order.width() * kUnitLw;
  store.l1b_row_lw = chunks * order.groups * kUnitLw;
}

void set_spread_segments(StoreRows& store, int64_t chunks, int64_t staged_rows) {
  store.segments = chunks;
  store.segment_lw = store.l1b_row_lw = store.chunk_lw = kUnitLw;
  store.l1b_segment_lw = staged_rows * kUnitLw;
}

const char* rows_or_channels(bool channels) {
  return channels ? "channels" : "rows";
}

}  // namespace kodama::compiler
