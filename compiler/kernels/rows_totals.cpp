#include "compiler/kernels/rows_totals.h"

#include <algorithm>
#include <utility>

#include "compiler/kernels/rows_division.h"
#include "isa/arithmetic.h"

namespace kodama::compiler {

using isa::ceil_div;
using layout::Factor;
using layout::Level;

RowsTotals::RowsTotals(const Picture& result, int64_t inputs, const isa::Chip& chip)
    : image_(result, {}, chip), chip_(chip), inputs_(inputs), chunks_(image_.chunks()) {
  const int64_t share = chunk_share(chunks_, chip.l1b_per_l2b);
  const int64_t rows = ceil_div(image_.rows(), chip.l1b_per_l2b);
  by_chunks_ = image_.order().can_share(share) && share * image_.rows() <= chunks_ * rows;
  if (by_chunks_) {
    l1bs_ = chunks_ / share;
    chunks_ = share;
    l1b_rows_ = image_.rows();
  } else {
    l1b_rows_ = rows;
    l1bs_ = l1bs_of_rows_ = ceil_div(image_.rows(), rows);
  }
}

int64_t RowsTotals::input_lw() const {
  return chunks_ * l1b_rows_ * image_.order().groups * isa::kCyclesPerStep;
}

bool RowsTotals::fits() const {
  const int64_t local = chip_.memory.lm_words / isa::kWordsPerLong - kRowsReserveLw;
  const RowsStaging staging = rows_staging(chip_);
  return (1 + inputs_) * input_lw() <= local && l1b_rows_ * staged().lw() <= staging.results_lw &&
         image_.order().width() * image_.order().groups * kUnitLw <= staging.windows_lw &&
         (2 + inputs_) * rows_lw() + isa::kL2bmBlockLw <= chip_.memory.l2bm_lw;
}

int64_t RowsTotals::cycles(int64_t operations) const {
  const int64_t blocks = l1b_rows_ * staged().chunks * staged().groups;
  const int64_t load = load_rows_steps(1, l1b_rows_, staged().chunks, staged().groups, l1bs_, 1);
  const int64_t steps = (1 + inputs_) * load + blocks * operations + l1bs_ * blocks + kRowsFillSteps;
  return image_.images() * (steps * isa::kCyclesPerStep + (2 + inputs_) * own_rows_cycles(rows_lw(), chip_));
}

layout::Transport RowsTotals::values_transport() const {
  return {chip_, image_.channel_mode(),
          by_chunks_ ? layout::L1bMode::kDistribute : layout::L1bMode::kBroadcast,
          layout::MabMode::kDistribute};
}

std::vector<Factor> RowsTotals::value_channels() const {
  std::vector<Factor> factors;
  if (by_chunks_) factors.push_back({l1bs_, Level::kL1b, 1});
  factors.insert(factors.end(),
                 {{chunks_, Level::kAddress, 1}, {kBlocksPerChunk, Level::kMab, kBlocksPerChunk}});
  return factors;
}

std::vector<Factor> RowsTotals::value_copies() const {
  std::vector<Factor> copies = image_.row_way_factors();
  if (!by_chunks_) copies.push_back({chip_.l1b_per_l2b, Level::kL1b, 1});
  copies.push_back({kBlocksPerChunk, Level::kMab, 1});
  return copies;
}

SumL2bs RowsTotals::sum(int stream, int64_t image, int64_t row, int64_t count, int64_t l2bm) const {
  SumL2bs sum{stream, {}};
  const int64_t part = isa::round_up(image_.part_lw(), isa::kMvUnitLw);
  const int64_t end = std::min(row + count, image_.picture().rows);
  for (int64_t from = row; from < end;) {
    const int64_t stop = std::min(end, (from / image_.rows() + 1) * image_.rows());
    const int owner = image_.l2b_of(0, image, from);
    RowsTransfer transfer;
    transfer.to_all = true;
    transfer.l2b = owner;
    transfer.group = owner / chip_.l2b_per_group;
    transfer.dram = owner % chip_.l2b_per_group * part + image_.offset(image, from);
    transfer.l2bm = l2bm + (from - row) * image_.row_lw();
    transfer.count = (stop - from) * image_.row_lw();
    sum.transfers.push_back(transfer);
    from = stop;
  }
  return sum;
}

void RowsTotals::finish(TileProgram& program, const ScalarExpr& epilogue,
                        const std::vector<RowsInput>& inputs, const std::vector<int>& streams,
                        int totals) const {
  const RowOrder order = image_.order();
  const std::vector<int64_t> places =
      by_chunks_ ? l1b_chunk_places(l1bs_, order, chunks_) : l1b_places(l1bs_, l1b_rows_ * order.lw());
  for (int64_t image = 0; image < image_.images(); ++image) {
    int64_t l2bm = 0;
    const auto own_rows = [&](int stream) {
      RowsTransfer own;
      own.stream = stream;
      own.dram = image_.offset(image, 0);
      own.l2bm = l2bm;
      own.count = image_.rows() * order.lw();
      return own;
    };
    const auto load = [&](int stream, int buffer) {
      LoadRows load;
      load.stream = stream;
      load.transfers = {own_rows(stream)};
      load.l2bm = l2bm;
      load.part_lw = rows_lw();
      load.order = order;
      load.chunks = chunks_;
      load.columns = load.pitch = order.groups * isa::kCyclesPerStep;
      load.rows = load.buffer_rows = l1b_rows_;
      load.l1b_at = places;
      load.buffer = buffer;
      program.body.push_back({std::move(load)});
      l2bm += rows_lw();
    };
    load(streams.back(), totals);
    auto stream = streams.begin();
    for (const RowsInput& input : inputs) {
      if (input.of_rows) load(*stream++, input.buffer);
    }
    FinishRows finish;
    finish.order = staged();
    finish.rows = finish.buffer_rows = l1b_rows_;
    finish.epilogue = epilogue;
    finish.inputs = {{totals, true}};
    finish.inputs.insert(finish.inputs.end(), inputs.begin(), inputs.end());
    for (finish.chunk = 0; finish.chunk < chunks_; ++finish.chunk)
      program.body.push_back({FinishRows(finish)});
    StoreRows store;
    store.stream = streams.back();
    store.l2bm = l2bm;
    store.transfers = {own_rows(streams.back())};
    store.transfers[0].stream = -1;
    store.l1b_at = places;
    store.rows = l1b_rows_;
    store.row_lw = order.lw();
    set_segments(store, order, chunks_);
    program.body.push_back({std::move(store)});
  }
}

}  // namespace kodama::compiler
