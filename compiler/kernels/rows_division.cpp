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
      window(rows_window),
      rows(share.rows),
      l1bs(share.by_rows ? share.l1bs : chip.l1b_per_l2b),
      window_rows(window.rows_under(rows)),
      pass_rows(rows * (share.by_rows ? l1bs : 1)),
      region_rows(window.rows_under(pass_rows)),
      passes(ceil_div(out.rows(), pass_rows)),
      pitch(std::max(window.pad[1] + in_picture.columns, window.columns_under(out_picture.columns))) {}

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

RowsTransfer RowsDivision::own_rows(int64_t image, int64_t number) const {
  RowsTransfer own;
  own.dram = out.offset(image, number * pass_rows);
  own.count = std::min(pass_rows, out.rows() - number * pass_rows) * out.row_lw();
  return own;
}

int64_t load_rows_steps(int64_t parts, int64_t rows, int64_t chunks, int64_t columns, int64_t sets,
                        int64_t each) {
  const int64_t blocks = ceil_div(chunks * columns * kColumnLw, isa::kL2bmBlockLw) * sets;
  const int64_t takes = chunks * static_cast<int64_t>(column_groups(columns).size()) * each;
  return parts * rows * (std::max(blocks, takes) + kRowsFillSteps);
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
