#include "compiler/kernels/rows_division.h"

#include <algorithm>

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
      pitch(std::max(window.pad[1] + in_picture.columns, window.columns_under(out_picture.columns))),
      columns(out_picture.columns) {
  for (const Picture& part : in_picture.parts) parts.emplace_back(part, in_split, chip);
}

std::vector<RowsDivision::Run> RowsDivision::runs() const {
  std::vector<Run> runs;
  int64_t chunk = 0;
  for (size_t part = 0; part < parts.size(); ++part) {
    const bool is_alike = part > 0 && parts[part].chunks() == parts[part - 1].chunks() &&
                          parts[part].row_lw() == parts[part - 1].row_lw();
    if (is_alike) {
      ++runs.back().count;
    } else {
      runs.push_back({part, 1, chunk});
    }
    chunk += parts[part].chunks();
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
  load.first_chunk = run.first_chunk * ways;
  load.columns = image.picture().columns;
  load.row_lw = image.row_lw();
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
  int64_t lw = 0;
  for (size_t before = 0; before < part; ++before) lw += ways * region_rows * parts[before].row_lw();
  return lw;
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
  return in.is_even() && out.is_even() && std::ranges::all_of(parts, &RowsImage::is_even);
}

bool RowsDivision::can_share_chunks(int64_t chunks) const {
  return runs().size() == 1 && (parts[0].chunks() % chunks == 0 || chunks % parts[0].chunks() == 0);
}

void RowsDivision::share_chunks(LoadRows& load, int64_t chunks, int64_t sharing_l1bs) const {
  load.l1b_at.clear();
  for (int64_t b = 0; b < sharing_l1bs; ++b) {
    const int64_t chunk = b * chunks;
    load.l1b_at.push_back(chunk / load.chunks * load.part_lw +
                          chunk % load.chunks * load.columns * kColumnLw);
  }
  load.parts = ceil_div(chunks, load.chunks);
  load.chunks = chunks / load.parts;
}

void RowsDivision::share_columns(int64_t most_l1bs) {
  const int64_t all = out.picture().columns;
  columns = std::min(all, std::max<int64_t>(ceil_div(all, most_l1bs), isa::kCyclesPerStep));
  l1bs = ceil_div(all, columns);
  pitch = window.columns_under(columns);
  left = window.pad[1];
  right = std::max<int64_t>(0, first_input(l1bs - 1) + pitch - in.picture().columns);
}

bool RowsDivision::has_columns() const {
  if (l1bs < 2 || pitch < isa::kCyclesPerStep || left + right >= pitch) return false;
  for (int64_t b = 0; b < l1bs; ++b) {
    const int64_t first = first_input(b);
    if (b > 0 && first < 0) return false;
    if (b + 1 < l1bs && first + pitch > in.picture().columns) return false;
  }
  return first_input(l1bs - 1) < in.picture().columns;
}

int64_t RowsDivision::first_result(int64_t l1b) const {
  return std::min(l1b * columns, out.picture().columns - columns);
}

int64_t RowsDivision::first_input(int64_t l1b) const {
  return first_result(l1b) * window.stride[1] - window.pad[1];
}

std::vector<int64_t> RowsDivision::column_places() const {
  std::vector<int64_t> places;
  for (int64_t b = 0; b < l1bs; ++b) places.push_back(first_result(b) * kColumnLw);
  return places;
}

void RowsDivision::share_columns_of(LoadRows& load) const {
  load.l1b_at.clear();
  for (int64_t b = 0; b < l1bs; ++b) load.l1b_at.push_back(std::max<int64_t>(0, first_input(b)) * kColumnLw);
  load.columns = pitch;
  load.first_column = 0;
  load.chunk_lw = in.picture().columns * kColumnLw;
  load.left = left;
  load.right = right;
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

int64_t load_rows_steps(int64_t parts, int64_t rows, int64_t chunks, int64_t columns, int64_t sets,
                        int64_t each, int64_t fill) {
  const int64_t blocks = ceil_div(chunks * columns * kColumnLw, isa::kL2bmBlockLw) * sets;
  const int64_t takes = chunks * static_cast<int64_t>(column_groups(columns).size()) * each;
  return parts * rows * (std::max(blocks, takes) + fill);
}

int64_t own_rows_cycles(int64_t lw, const isa::Chip& chip) {
  return static_cast<int64_t>(static_cast<double>(chip.l2b_per_group * lw) /
                              chip.transfer.dram_lw_per_cycle) +
         chip.transfer.startup_cycles;
}

const char* rows_or_channels(bool channels) {
  return channels ? "channels" : "rows";
}

}  // namespace kodama::compiler
