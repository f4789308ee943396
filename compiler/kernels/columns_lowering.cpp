#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "compiler/kernels/lowering.h"
#include "compiler/kernels/rows.h"
#include "compiler/kernels/rows_lowering.h"
#include "isa/arithmetic.h"
#include "isa/error.h"

/// Sums over columns of two pictures: rows to the PEs, their places side by side in vectors, and products.
namespace kodama::compiler {

using isa::ceil_div;
using isa::kCyclesPerStep;
using isa::kWordsPerLong;
using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::round_up;
using isa::Space;

namespace {

constexpr isa::SpaceSet kColumnRegisters = isa::space_bit(Space::kGrf0) | isa::space_bit(Space::kGrf1);

class ColumnsLoader {
 public:
  ColumnsLoader(TileLoweringContext& context, const LoadColumns& op)
      : context_(context),
        builder_(context.builder),
        op_(op),
        width_(op.order.width()),
        first_pair_(op.read_chunks().first / width_),
        pairs_(op.read_chunks().second / width_ - first_pair_),
        own_units_(
            round_up(std::max(op.order.groups * width_, is_packed() ? ceil_div(op.line_lw(), kColumnLw) : 0),
                     kCyclesPerStep)),
        left_units_(round_up(op.left() * width_, kCyclesPerStep)),
        right_units_(round_up(op.right() * width_, kCyclesPerStep)),
        origin_("load " + context.program.streams[static_cast<size_t>(op.stream)].name) {}

  void run() {
    if (!op_.has_lanes()) {
      one_by_one();
      return;
    }
    const int64_t units = pairs_ * (own_units_ + left_units_ + right_units_);
    const int64_t slots = rows_staging(builder_.chip()).windows_lw / kColumnLw / units;
    isa::check_internal(slots > 0, "columns lowering", "{} units of a row don't fit into L1BM", units);
    // What follows is fetched while this is taken.
    staged_ = (2 * op_.mab + (op_.all_blocks ? 0 : 1)) % slots * units;
    for (int64_t odd = 0; odd < 2; ++odd) fetch(odd);
    if (op_.all_blocks) {
      take_columns();
    } else {
      take_own_blocks();
    }
  }

 private:
  bool is_packed() const { return op_.packed_lw > 0; }
  /// Where the units of a pair of chunks begin: its own ones, and those from the lanes beside.
  int64_t own_at(int64_t pair) const { return staged_ + (pair - first_pair_) * own_units_; }
  int64_t left_at(int64_t pair) const {
    return staged_ + pairs_ * own_units_ + (pair - first_pair_) * left_units_;
  }
  int64_t right_at(int64_t pair) const {
    return staged_ + pairs_ * (own_units_ + left_units_) + (pair - first_pair_) * right_units_;
  }

  void fetch(int64_t odd) {
    const int64_t row = op_.l2bm.at(static_cast<size_t>(odd));
    for (int64_t pair = first_pair_; pair < first_pair_ + pairs_; ++pair) {
      const int64_t first = row + op_.order.at(pair * width_, 0);
      const int64_t units = op_.order.groups * width_;
      fetch_units(odd, first, own_at(pair), units);
      if (op_.left() > 0) {
        fetch_units(odd, first + first_left_unit() * kUnitLw - kColumnLw, left_at(pair),
                    units - first_left_unit());
      }
      if (op_.right() > 0) {
        fetch_units(odd, first + kColumnLw, right_at(pair),
                    std::max(op_.right() * width_, std::min<int64_t>(units, kCyclesPerStep)));
      }
    }
  }
  /// Of a pair's units, the first one that is fetched for the lane behind it: a step has four.
  int64_t first_left_unit() const {
    const int64_t units = op_.order.groups * width_;
    return units - std::max(op_.left() * width_, std::min<int64_t>(units, kCyclesPerStep));
  }
  /// Four at a time, some twice rather than any behind them (RowRegions::beside_lw), where there are four.
  void fetch_units(int64_t odd, int64_t from, int64_t to, int64_t units) {
    for (int64_t next = 0; next < units; next += kCyclesPerStep) {
      const int64_t unit = std::max<int64_t>(0, std::min(next, units - kCyclesPerStep));
      isa::Instruction move;
      move.opcode = Opcode::kL2bmb2;
      move.l1b_set.kind = isa::L1bSet::Kind::kMasked;
      move.l1b_set.k = static_cast<uint8_t>(odd);
      move.l1b_set.ignore_mask = static_cast<uint8_t>(builder_.chip().l1b_per_l2b - 2);
      move.sources = {space_operand(Space::kL2bm, from + unit * kUnitLw)};
      move.destinations = {space_operand(Space::kL1bm, (to + unit) * kColumnLw)};
      builder_.emit(std::move(move), origin_);
    }
  }

  /// The staged unit of a chunk's column, counted from the lane's first one.
  int64_t unit_of(int64_t chunk, int64_t column) const {
    const int64_t pair = chunk / width_, side = chunk % width_;
    if (column < 0) return left_at(pair) + (op_.order.groups + column) * width_ + side - first_left_unit();
    if (column < op_.order.groups) return own_at(pair) + column * width_ + side;
    return right_at(pair) + (column - op_.order.groups) * width_ + side;
  }
  /// The L1Bs whose lanes have a column inside the tensor.
  std::pair<int64_t, int64_t> inside(int64_t column) const {
    const int64_t lanes = kCyclesPerStep;
    const int64_t first = column < 0 ? ceil_div(-column, op_.lane) : 0;
    const int64_t left = op_.columns - column;
    const int64_t last = left <= 0 ? -1 : std::min(lanes, ceil_div(left, op_.lane)) - 1;
    if (first > last) return {builder_.chip().l1b_per_l2b, -1};
    return {2 * first, 2 * last + 1};
  }
  /// `to`, in the MABs that take the row.
  Operand own(int64_t lw) const {
    const int buffer = context_.buffer_values[static_cast<size_t>(op_.buffer)];
    return masked(MachineBuilder::operand(buffer, lw * kWordsPerLong),
                  mab_mask(context_, kBlocksPerChunk - 1, op_.mab));
  }
  /// What a step brought to LW `lw` and on becomes zeros again in L1Bs outside the ranges of its cycles.
  void clear_outside(int64_t lw, const TileLoweringContext::Inside& inside) const {
    const int64_t l1bs = builder_.chip().l1b_per_l2b;
    const std::pair<int64_t, int64_t> none = {l1bs, -1};
    TileLoweringContext::Inside below, above;
    for (size_t c = 0; c < inside.size(); ++c) {
      const auto [first, last] = inside.at(c);
      below.at(c) = first > 0 ? std::pair<int64_t, int64_t>(0, std::min(first, l1bs) - 1) : none;
      above.at(c) = first < l1bs && last + 1 < l1bs ? std::pair(last + 1, l1bs - 1) : none;
    }
    const int buffer = context_.buffer_values[static_cast<size_t>(op_.buffer)];
    for (const TileLoweringContext::Inside& outside : {below, above}) {
      if (std::ranges::count(outside, none) == kCyclesPerStep) continue;
      builder_.emit(
          Opcode::kZero, Precision::kNone, {},
          {masked(MachineBuilder::operand(buffer, lw * kWordsPerLong), l1b_mask(context_, outside))},
          origin_);
    }
  }

  /// A column of a chunk at a time: its four blocks.
  void take_columns() {
    for (int64_t chunk = 0; chunk < op_.chunks; ++chunk) {
      for (int64_t k = 0; k < op_.count; ++k) {
        const int64_t number = op_.first_chunk + chunk;
        take_column(chunk, k,
                    is_packed() ? (own_at(0) + number) * kColumnLw + k * op_.packed_lw
                                : unit_of(number, op_.first + k) * kColumnLw);
      }
    }
  }
  /// From LW `l1bm` on.
  void take_column(int64_t chunk, int64_t k, int64_t l1bm) {
    const auto range = inside(op_.first + k);
    if (!is_packed() && range.first > range.second) return;
    const int64_t to = op_.at + (chunk * op_.pitch + k) * kBlocksPerChunk;
    builder_.emit(Opcode::kL1bmm, Precision::kNone, {space_operand(Space::kL1bm, l1bm)}, {own(to)}, origin_);
    // Lines have zeros outside.
    if (is_packed()) return;
    TileLoweringContext::Inside all;
    all.fill(range);
    clear_outside(to, all);
  }

  /// Columns whose lanes aren't those of the order: every L1B fetches its own, each with the four columns of
  /// its unit, to such a place that the one that is wanted is where all have it.
  void one_by_one() {
    const int64_t room = rows_staging(builder_.chip()).windows_lw / kUnitLw - 1;
    int64_t number = op_.mab * op_.count;
    for (int64_t chunk = 0; chunk < op_.chunks; ++chunk) {
      for (int64_t k = 0; k < op_.count; ++k) {
        const int64_t slot = number++ % room;
        const int64_t last_lane = kCyclesPerStep - 1;
        const int64_t unit = slot * kCyclesPerStep + last_lane;
        for (int64_t l1b = 0; l1b < builder_.chip().l1b_per_l2b; ++l1b) {
          const int64_t column = l1b / 2 * op_.lane + op_.first + k;
          if (column < 0 || column >= op_.columns) continue;
          isa::Instruction move;
          move.opcode = Opcode::kL2bmb;
          move.l1b_set = {isa::L1bSet::Kind::kOne, static_cast<uint8_t>(l1b)};
          const int64_t from = op_.l2bm.at(static_cast<size_t>(l1b % 2)) +
                               op_.order.at(op_.first_chunk + chunk, column % op_.order.groups);
          move.sources = {space_operand(Space::kL2bm, from)};
          move.destinations = {space_operand(Space::kL1bm, (unit - column / op_.order.groups) * kColumnLw)};
          builder_.emit(std::move(move), origin_);
        }
        take_column(chunk, k, unit * kColumnLw);
      }
    }
  }

  /// Four units at a time: of each the block of the quad.
  void take_own_blocks() {
    const int64_t units = op_.order.groups * width_;
    for (int64_t pair = 0; pair < pairs_; ++pair) {
      for (int64_t unit = 0; unit < units; unit += kCyclesPerStep) {
        // The last step may take some once more; what it takes from behind a short row is nowhere inside.
        const int64_t begin = std::max<int64_t>(0, std::min(unit, units - kCyclesPerStep));
        TileLoweringContext::Inside ranges;
        for (int64_t c = 0; c < kCyclesPerStep; ++c) {
          ranges.at(static_cast<size_t>(c)) =
              begin + c < units ? inside((begin + c) / width_)
                                : std::pair<int64_t, int64_t>(builder_.chip().l1b_per_l2b, -1);
        }
        const int64_t to = op_.at + pair * op_.pitch * width_ + begin;
        builder_.emit(Opcode::kL1bmm4, Precision::kNone,
                      {space_operand(Space::kL1bm, (own_at(first_pair_ + pair) + begin) * kColumnLw)},
                      {own(to)}, origin_);
        clear_outside(to, ranges);
      }
    }
  }

  TileLoweringContext& context_;
  MachineBuilder& builder_;
  const LoadColumns& op_;
  int64_t width_;                                 ///< chunks side by side in a row
  int64_t first_pair_, pairs_;                    ///< that have the chunks
  int64_t own_units_, left_units_, right_units_;  ///< of such a pair, in L1BM: places of 16 LW
  std::string origin_;
  int64_t staged_ = 0;
};

/// The x and y registers in turn, so that one is written while the other is used.
Operand matrix_register(size_t number, int64_t row) {
  return space_operand(number % 2 == 0 ? Space::kMatX : Space::kMatY, row);
}

}  // namespace

void lower_load_columns(TileLoweringContext& context, const LoadColumns& op) {
  emit_rows_transfers(context, op.stream, true,
                      "load " + context.program.streams[static_cast<size_t>(op.stream)].name, op.transfers);
  ColumnsLoader(context, op).run();
}

void lower_transpose_columns(TileLoweringContext& context, const TransposeColumns& op) {
  MachineBuilder& builder = context.builder;
  const Precision precision = matrix_instruction_precision(op.precision);
  const std::string origin = "columns";
  const int raw = context.buffer_values[static_cast<size_t>(op.raw)];
  const int out = context.buffer_values[static_cast<size_t>(op.out)];
  for (size_t run = 0; run < op.runs.size(); ++run) {
    const auto& [from, to] = op.runs[run];
    // Places as rows, which are read by columns: bits are copied as they are.
    for (int64_t half = 0; half < 2; ++half) {
      builder.emit(Opcode::kMwrite, precision,
                   {MachineBuilder::operand(raw, (from + half * op.step[0]) * kWordsPerLong,
                                            static_cast<int32_t>(op.step[1] * kWordsPerLong))},
                   {matrix_register(run, half * kCyclesPerStep)}, origin);
    }
    for (int64_t half = 0; half < 2; ++half) {
      const Operand column =
          MachineBuilder::operand(builder.value("column", kCyclesPerStep * kWordsPerLong, kColumnRegisters));
      builder.emit(Opcode::kMread, precision, {matrix_register(run, half * kCyclesPerStep)}, {column},
                   origin);
      emit_normalize(builder, op.precision, StreamElement::kFloat, column,
                     MachineBuilder::operand(out, (to + half * kCyclesPerStep) * kWordsPerLong), origin);
    }
  }
}

void lower_column_product(TileLoweringContext& context, const ColumnProduct& op) {
  MachineBuilder& builder = context.builder;
  const Precision precision = matrix_instruction_precision(op.precision);
  const std::string origin = "product";
  const int matrices = context.buffer_values[static_cast<size_t>(op.matrices)];
  const int windows = context.buffer_values[static_cast<size_t>(op.windows)];
  const int sums = context.buffer_values[static_cast<size_t>(op.sums)];
  const int work = context.buffer_values[static_cast<size_t>(op.work)];
  const int64_t count = op.vectors * kCyclesPerStep;
  const auto parked = [&](const ColumnProduct::Group& group, size_t target, int64_t first) {
    return MachineBuilder::operand(sums, (group.sums[target] + first * op.step) * kWordsPerLong,
                                   static_cast<int32_t>(op.step * kWordsPerLong));
  };
  const auto at_work = [&](size_t target, int64_t first) {
    return MachineBuilder::operand(work, (static_cast<int64_t>(target) * count + first) * kWordsPerLong);
  };
  size_t number = 0;
  for (const ColumnProduct::Group& group : op.groups) {
    const auto for_vectors = [&](auto&& take) {
      for (size_t target = 0; target < group.sums.size(); ++target) {
        for (int64_t first = 0; first < count; first += kCyclesPerStep) take(target, first);
      }
    };
    for (size_t use = 0; use < group.uses.size(); ++use, ++number) {
      const ColumnProduct::Use& own = group.uses[use];
      for (int64_t row = 0; row < matrix_form(op.precision).rows; row += kCyclesPerStep) {
        builder.emit(Opcode::kMwrite, precision,
                     {MachineBuilder::operand(matrices, (own.matrix + row) * kWordsPerLong)},
                     {matrix_register(number, row)}, origin);
      }
      const bool is_last = use > 0 && use + 1 == group.uses.size();
      for_vectors([&](size_t target, int64_t first) {
        builder.emit(Opcode::kMfma, precision,
                     {matrix_register(number, 0),
                      MachineBuilder::operand(windows, (own.windows[target] + first) * kWordsPerLong),
                      use == 0 ? parked(group, target, first) : at_work(target, first)},
                     {is_last ? parked(group, target, first) : at_work(target, first)}, origin);
      });
    }
    if (group.uses.size() != 1) continue;
    for_vectors([&](size_t target, int64_t first) {
      builder.emit(Opcode::kPassa, Precision::kLong, {at_work(target, first)}, {parked(group, target, first)},
                   origin);
    });
  }
}

void lower_add_columns(TileLoweringContext& context, const AddColumns& op) {
  MachineBuilder& builder = context.builder;
  const auto [groups, chunks] = op.order;
  const int64_t width = op.order.width();
  const int sums = context.buffer_values[static_cast<size_t>(op.sums)];
  const auto sums_from = [&](int64_t lw, int64_t step) {
    return MachineBuilder::operand(sums, lw * kWordsPerLong, static_cast<int32_t>(step * kWordsPerLong));
  };
  // The term and then, as another input, what it is added to.
  const auto inputs = static_cast<int>(op.inputs.size());
  ScalarExpr addition = op.expr;
  const int term = addition.result();
  addition.set_result(addition.apply(ScalarOp::kAdd, term, addition.input(inputs)));
  const auto add = [&](int64_t chunk, int64_t column, const Operand& to, const Operand& result) {
    std::vector<Operand> operands;
    for (const RowsInput& input : op.inputs) {
      const int buffer = context.buffer_values[static_cast<size_t>(input.buffer)];
      const int64_t place = input.at + (chunk / width * op.pitch + column) * width + chunk % width;
      operands.push_back(input.of_rows ? MachineBuilder::operand(buffer, place * kWordsPerLong,
                                                                 static_cast<int32_t>(width * kWordsPerLong))
                                       : MachineBuilder::operand(buffer, chunk * kWordsPerLong, 0));
    }
    operands.push_back(to);
    lower_scalar(builder, addition, operands, result);
  };
  // Columns behind the last of a lane are no places: the sums of these cycles stay.
  const int64_t rest = groups % kCyclesPerStep;
  for (int64_t chunk = 0; rest > 0 && chunk < chunks; ++chunk) {
    Operand result = sums_from(chunk, chunks);
    result.mask = first_cycles(rest);
    add(chunk, groups - rest, sums_from(chunk, chunks), result);
  }
  // Chunks in turn, since a sum waits for the one before.
  std::vector<Operand> totals;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) totals.push_back(sums_from(chunk, chunks));
  for (int64_t column = 0; column + kCyclesPerStep <= groups; column += kCyclesPerStep) {
    const bool is_last = column + 2 * kCyclesPerStep > groups;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      Operand& total = totals[static_cast<size_t>(chunk)];
      const Operand next = is_last ? sums_from(chunk, chunks)
                                   : MachineBuilder::operand(builder.value(
                                         "total", kCyclesPerStep * kWordsPerLong, kColumnRegisters));
      add(chunk, column, total, next);
      total = next;
    }
  }
  if (!op.fold) return;
  ScalarExpr both;
  both.apply(ScalarOp::kAdd, both.input(0), both.input(1));
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    std::vector<Operand> halves;
    for (int64_t half = 0; half < 2; ++half)
      halves.push_back(lower_scalar(
          builder, both,
          {sums_from(2 * half * chunks + chunk, 0), sums_from((2 * half + 1) * chunks + chunk, 0)}));
    lower_scalar(builder, both, halves, sums_from(chunk, chunks));
  }
}

}  // namespace kodama::compiler
