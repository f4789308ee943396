#include "compiler/kernels/rows_lowering.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "compiler/kernels/lowering.h"
#include "compiler/kernels/rows.h"
#include "isa/arithmetic.h"
#include "isa/error.h"

/// Images of rows: from DRAM to windows in the PEs, products of windows, and back.
namespace kodama::compiler {

using isa::ceil_div;
using isa::Instruction;
using isa::kCyclesPerStep;
using isa::kL2bmBlockLw;
using isa::kWordsPerLong;
using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::Space;
using isa::Width;

namespace {

/// Tags behind those of loads and stores of tiles.
constexpr int kFirstRowsTag = 16;
constexpr int kRowsTags = 40;
/// Operations of a block at most, where loops allow less: the scheduler's time grows with them.
constexpr int64_t kBlockOperations = 1600;
/// The same for rows that are loaded. Without a loop, steps that take an L2B's own rows and those that take
/// others' are different ones, so that its own may stay in L2BM where the layer before made them.
constexpr int64_t kUnrolledRows = 2400;
/// Rows of four columns that a matrix of every MAB takes.
constexpr int64_t kRowsOfMatrices = 8;
/// Elements of windows that are combined without a loop over chunks.
constexpr int64_t kUnrolledElements = 1500;
constexpr isa::SpaceSet kRegisters = isa::space_bit(Space::kGrf0) | isa::space_bit(Space::kGrf1);

/// Strides of a loop that was opened inside the operation, behind the loops around it.
std::vector<int64_t> innermost(const MachineBuilder& builder, const std::vector<int64_t>& strides) {
  std::vector<int64_t> all(static_cast<size_t>(builder.depth()) - strides.size(), 0);
  all.insert(all.end(), strides.begin(), strides.end());
  return all;
}

bool is_identity(const ScalarExpr& expr) {
  return expr == ScalarExpr::identity();
}

/// One MV of each transfer, or one per L2B of a group where every group does the same, and a wait for each.
/// What all L2Bs send to DRAM at once is added up.
class Transfers {
 public:
  Transfers(TileLoweringContext& context, int stream, bool to_chip, std::string origin)
      : builder_(context.builder),
        program_(context.program),
        stream_(stream),
        to_chip_(to_chip),
        origin_(std::move(origin)) {}

  void run(const std::vector<RowsTransfer>& list) {
    const isa::Chip& chip = builder_.chip();
    for (const RowsTransfer& transfer : list) {
      const TileStream& stream =
          program_.streams[static_cast<size_t>(transfer.stream < 0 ? stream_ : transfer.stream)];
      const int64_t first = stream.dram_address + transfer.dram;
      if (transfer.l2b >= 0) {
        mv(transfer, first, transfer.group, transfer.l2b / chip.l2b_per_group,
           transfer.l2b % chip.l2b_per_group);
        continue;
      }
      for (int unit = 0; unit < chip.l2b_per_group; ++unit)
        mv(transfer, first + unit * stream.transport.part_lw(stream.length_lw), -1, -1, unit);
    }
    for (int tag = kFirstRowsTag; tag < kFirstRowsTag + std::min(issued_, kRowsTags); ++tag) wait(tag);
  }

 private:
  void mv(const RowsTransfer& transfer, int64_t address, int group, int l2bm_group, int unit) {
    const int tag = kFirstRowsTag + issued_ % kRowsTags;
    if (issued_ >= kRowsTags) wait(tag);
    ++issued_;
    Operand dram = space_operand(Space::kDram, address);
    dram.group = static_cast<int8_t>(group);
    Operand l2bm = space_operand(Space::kL2bm, transfer.l2bm);
    l2bm.group = static_cast<int8_t>(l2bm_group);
    l2bm.unit = static_cast<int8_t>(unit);
    Instruction mv;
    mv.opcode = Opcode::kMvp;
    if (transfer.to_all) {
      mv.opcode = to_chip_ ? Opcode::kMvb : Opcode::kMvr;
      if (!to_chip_) {
        mv.precision = Precision::kFloat;
        mv.reduce_op = isa::ReduceOp::kFadd;
      }
      l2bm.group = l2bm.unit = -1;
    }
    mv.size_lw = transfer.count;
    mv.tag = static_cast<int8_t>(tag);
    mv.sources = {to_chip_ ? dram : l2bm};
    mv.destinations = {to_chip_ ? l2bm : dram};
    builder_.emit(std::move(mv), origin_);
  }
  void wait(int tag) { builder_.emit_wait(tag, origin_, true); }

  MachineBuilder& builder_;
  const TileProgram& program_;
  int stream_;
  bool to_chip_;
  std::string origin_;
  int issued_ = 0;
};

}  // namespace

void emit_rows_transfers(TileLoweringContext& context, int stream, bool to_chip, const std::string& origin,
                         const std::vector<RowsTransfer>& list) {
  Transfers(context, stream, to_chip, origin).run(list);
}

Operand sums_of_vector(int sums, const StackedSums& of, int64_t vector) {
  return MachineBuilder::operand(sums, (vector * kCyclesPerStep * of.step + of.first) * kWordsPerLong,
                                 static_cast<int32_t>(of.step * kWordsPerLong));
}

isa::Mask first_cycles(int64_t count) {
  isa::Mask mask;
  mask.kind = isa::Mask::Kind::kPattern;
  mask.value = static_cast<uint8_t>(0xf0 >> count & 0xf);
  return mask;
}

Operand masked(Operand operand, int mask) {
  operand.mask.kind = isa::Mask::Kind::kVirtual;
  operand.mask.virtual_value = mask;
  return operand;
}

void keep(MachineBuilder& builder, const Operand& result, const Operand& place) {
  builder.emit(Opcode::kPassa, Precision::kLong, {result}, {place}, "result that stays");
}

int mab_mask(TileLoweringContext& context, int64_t bits, int64_t value) {
  const auto [known, is_new] = context.mab_masks.try_emplace({bits, value}, -1);
  if (!is_new) return known->second;
  MachineBuilder& builder = context.builder;
  const std::string origin = "MABs of rows";
  const Operand own =
      MachineBuilder::operand(builder.value("mab", kCyclesPerStep * kWordsPerLong, kRegisters));
  builder.emit(Opcode::kAnd, Precision::kInt,
               {space_operand(Space::kConstant, static_cast<int64_t>(isa::FixedConstant::kMabid)),
                MachineBuilder::operand(builder.constant_bits(static_cast<uint32_t>(bits)), 0, 0)},
               {own}, origin);
  const int mask = builder.value("mabs", 1, isa::space_bit(Space::kOmr), 1);
  builder.emit(Opcode::kXor, Precision::kInt,
               {own, MachineBuilder::operand(builder.constant_bits(static_cast<uint32_t>(value)), 0, 0)},
               {MachineBuilder::operand(mask, 0, 0, Width::kWord)}, origin);
  return context.mab_masks[{bits, value}] = mask;
}

namespace {

/// A mask in which cycle c is set where inside[c].first <= number <= inside[c].second, of numbers up to
/// `last`; only where the mask `under` is, if there is one.
int range_mask(MachineBuilder& builder, const Operand& number, int64_t last,
               const TileLoweringContext::Inside& inside, int under) {
  const std::string origin = "columns outside";
  const int mask = builder.value("inside", 1, isa::space_bit(Space::kOmr), 1);
  // The flag of a sum is that it isn't negative.
  const auto side = [&](Opcode opcode, auto&& limit) {
    const int limits = builder.value("limits", kCyclesPerStep * kWordsPerLong, kRegisters);
    for (int64_t c = 0; c < kCyclesPerStep; ++c) {
      const int64_t bound = limit(inside.at(static_cast<size_t>(c)));
      builder.emit(integer_immediate(static_cast<uint32_t>(bound),
                                     MachineBuilder::operand(limits, c * kWordsPerLong, 0)),
                   origin);
    }
    Operand to = MachineBuilder::operand(mask, 0, 0, Width::kWord);
    if (under >= 0) to = masked(to, under);
    under = mask;
    builder.emit(opcode, Precision::kInt, {MachineBuilder::operand(limits), number}, {to}, origin);
  };
  if (std::ranges::any_of(inside, [](const auto& range) { return range.first > 0; }))
    side(Opcode::kAdd, [](const auto& range) { return -range.first; });
  if (std::ranges::any_of(inside, [&](const auto& range) { return range.second < last; }))
    side(Opcode::kSub, [](const auto& range) { return range.second; });
  return mask;
}

}  // namespace

int l1b_mask(TileLoweringContext& context, const TileLoweringContext::Inside& inside, int under) {
  const auto [known, is_new] = context.l1b_masks.try_emplace({inside, under}, -1);
  if (!is_new) return known->second;
  return known->second =
             range_mask(context.builder,
                        space_operand(Space::kConstant, static_cast<int64_t>(isa::FixedConstant::kL1bid)),
                        context.builder.chip().l1b_per_l2b - 1, inside, under);
}

int lane_mask(TileLoweringContext& context, const TileLoweringContext::Inside& inside) {
  const auto [known, is_new] = context.lane_masks.try_emplace(inside, -1);
  if (!is_new) return known->second;
  MachineBuilder& builder = context.builder;
  const isa::Chip& chip = builder.chip();
  if (context.lane_mabs < 0) {
    const std::string origin = "MABs of lanes";
    const auto vector = [&] {
      return MachineBuilder::operand(builder.value("mab", kCyclesPerStep * kWordsPerLong, kRegisters));
    };
    const auto constant = [](isa::FixedConstant which) {
      return space_operand(Space::kConstant, static_cast<int64_t>(which));
    };
    // The lane is half of the L1B's number.
    Operand number = vector();
    const auto last = static_cast<uint32_t>(chip.l1b_per_l2b - 1);
    builder.emit(Opcode::kAnd, Precision::kInt,
                 {constant(isa::FixedConstant::kL1bid),
                  MachineBuilder::operand(builder.constant_bits(last - 1), 0, 0)},
                 {number}, origin);
    for (int64_t times = 2; times < chip.mab_per_l1b; times *= 2) {
      const Operand twice = vector();
      builder.emit(Opcode::kAdd, Precision::kInt, {number, number}, {twice}, origin);
      number = twice;
    }
    context.lane_mabs = builder.value("mabs of lanes", kCyclesPerStep * kWordsPerLong, kRegisters);
    builder.emit(Opcode::kAdd, Precision::kInt, {constant(isa::FixedConstant::kMabid), number},
                 {MachineBuilder::operand(context.lane_mabs)}, origin);
  }
  const int64_t last = chip.l1b_per_l2b / 2 * chip.mab_per_l1b - 1;
  return known->second = range_mask(builder, MachineBuilder::operand(context.lane_mabs), last, inside, -1);
}

namespace {

class RowsLoader {
 public:
  RowsLoader(TileLoweringContext& context, const LoadRows& op)
      : context_(context),
        builder_(context.builder),
        op_(op),
        buffer_(context.buffer_values[static_cast<size_t>(op.buffer)]),
        staged_order_{op.order.groups, op.chunks},
        is_dense_(op.order.is_dense(op.chunks)),
        units_(op.chunks * op.order.groups),
        origin_("load " + context.program.streams[static_cast<size_t>(op.stream)].name) {
    // Not in loops.
    if (op.normalize && op.form != RowsForm::kMatrixColumns)
      make_block_masks(context, *op.normalize, op.stack, std::min(op.stack, op.chunks), op.last_channels);
    for (size_t b = 0; b < op.l1b_at.size(); ++b) {
      const auto is_same = [&](const Takers& takers) { return takers.at == op.l1b_at[b]; };
      const auto known = std::ranges::find_if(takers_, is_same);
      if (known == takers_.end()) {
        takers_.push_back({op.l1b_at[b], {b}});
      } else {
        known->l1bs.push_back(b);
      }
    }
    if (op.form == RowsForm::kVectors || op.form == RowsForm::kSpread) return;
    for (int64_t set = 0; set < kBlocksPerChunk; ++set) {
      mab_masks_.push_back(
          op.form == RowsForm::kMatrixRows
              ? mab_mask(context, kBlocksPerChunk * (kBlocksPerChunk - 1), kBlocksPerChunk * set)
              : mab_mask(context, kBlocksPerChunk - 1, set));
    }
  }

  void run() {
    const isa::Chip& chip = builder_.chip();
    const int64_t operations =
        units_ * std::max<int64_t>(1, std::ssize(takers_)) + units_ * (kCyclesPerStep + 1);
    const int64_t room = rows_staging(chip).windows_lw / kUnitLw;
    const int64_t fit = room / units_;
    if (fit == 0) {
      for (int64_t part = 0; part < op_.parts; ++part) {
        for (int64_t j = 0; j < op_.rows; ++j) in_ranges(part, j, room);
      }
      return;
    }
    const int64_t unit = op_.form == RowsForm::kMatrixColumns ? 2 : 1;
    for (int64_t part = 0; part < op_.parts; ++part) {
      int64_t j = 0;
      if (op_.rows > 1 && op_.rows * operations > kUnrolledRows) {
        // Rows in pairs, so that one is fetched while the other is taken; those of matrices by 32 columns.
        const int64_t slots = std::min<int64_t>(2, fit);
        const int64_t together =
            op_.form == RowsForm::kVectors || op_.form == RowsForm::kSpread ? slots : kRowsOfMatrices;
        if (op_.rows / together > 1) {
          builder_.begin_loop(op_.rows / together);
          for (; j < together; j += unit) rows(part, j, unit, slots, together, 0);
          builder_.end_loop();
          j = op_.rows / together * together;
        }
        for (; j < op_.rows; j += unit) rows(part, j, unit, slots, 0, 0);
        continue;
      }
      for (; j < op_.rows; j += unit) rows(part, j, unit, fit, 0, op_.first_row);
    }
  }

 private:
  /// L1Bs whose rows begin at one place.
  struct Takers {
    int64_t at = 0;
    std::vector<size_t> l1bs;
  };

  /// `count` rows of a part from row j on by way of `slots` places in L1BM, the first of row -`first`;
  /// `by_loop`: rows per iteration of the loop around, or 0.
  void rows(int64_t part, int64_t j, int64_t count, int64_t slots, int64_t by_loop, int64_t first) {
    count = std::min(count, op_.rows - j);
    by_loop_ = by_loop;
    std::array<int64_t, 2> staged{};
    for (int64_t k = 0; k < count; ++k) {
      staged.at(static_cast<size_t>(k)) = (first + j + k) % slots * units_ * kUnitLw;
      fetch_row(part, j + k, staged.at(static_cast<size_t>(k)), 0, units_);
    }
    if (op_.form == RowsForm::kMatrixColumns) {
      for (int64_t chunk = 0; chunk < op_.chunks; ++chunk) matrix_columns(chunk, j, count, staged);
    } else {
      take_row(part, j, staged[0], 0, op_.chunks);
    }
  }

  /// A row that L1BM has no room for as a whole: some chunks after others.
  void in_ranges(int64_t part, int64_t j, int64_t room) {
    const int64_t width = op_.order.width();
    const int64_t unit = std::max(width, op_.stack);
    const int64_t most = std::max(unit, room / 2 / op_.order.groups / unit * unit);
    int64_t staged = 0;
    for (int64_t chunk = 0; chunk < op_.chunks; chunk += most) {
      const int64_t count = std::min(most, op_.chunks - chunk);
      const int64_t begin = staged_order_.at(chunk, 0);
      fetch_row(part, j, staged, begin, count * op_.order.groups);
      take_row(part, j, staged - begin, chunk, count);
      if (2 * most * op_.order.groups <= room) staged = room / 2 * kUnitLw - staged;
    }
  }

  /// Strides of the loop around for something that advances by `unit` with every row.
  std::vector<int64_t> strides(int64_t unit) const {
    return by_loop_ > 0 ? innermost(builder_, {by_loop_ * unit}) : std::vector<int64_t>{};
  }

  /// `units` units, from `begin` LW of them on.
  void fetch_row(int64_t part, int64_t j, int64_t staged, int64_t begin, int64_t units) {
    const int64_t from = op_.l2bm + part * op_.part_lw + j * op_.order.lw() + begin;
    const auto fetch = [&](int64_t source, const isa::L1bSet& set) {
      for (int64_t unit = 0; unit < units; ++unit) {
        Instruction move;
        move.opcode = Opcode::kL2bmb;
        move.l1b_set = set;
        const int64_t at = is_dense_ ? unit * kUnitLw : op_.order.at(0, unit);
        move.sources = {space_operand(Space::kL2bm, source + at, strides(op_.order.lw()))};
        move.destinations = {space_operand(Space::kL1bm, staged + unit * kUnitLw)};
        builder_.emit(std::move(move), origin_);
      }
    };
    if (op_.l1b_at.empty()) fetch(from, {});
    for (const auto& [at, l1bs] : takers_) {
      isa::L1bSet set{isa::L1bSet::Kind::kOne, static_cast<uint8_t>(l1bs[0])};
      if (l1bs.size() > 1) {
        set = {isa::L1bSet::Kind::kList};
        for (const size_t b : l1bs) set.list |= uint32_t{1} << b;
      }
      fetch(from + at, set);
    }
  }

  void take_row(int64_t part, int64_t j, int64_t staged, int64_t first_chunk, int64_t chunks) {
    if (op_.form == RowsForm::kSpread) {
      const int64_t row_lw = ceil_div(op_.chunks, kCyclesPerStep) * kCyclesPerStep;
      for (int64_t chunk = 0; chunk < op_.chunks; chunk += kCyclesPerStep) {
        const int64_t to = (op_.first_row + j) * row_lw + chunk;
        builder_.emit(Opcode::kL1bmd, Precision::kNone,
                      {space_operand(Space::kL1bm, staged + chunk * kUnitLw)},
                      {MachineBuilder::operand(buffer_, to * kWordsPerLong, kWordsPerLong, Width::kLong,
                                               strides(row_lw * kWordsPerLong))},
                      origin_);
      }
      return;
    }
    for (int64_t chunk = first_chunk; chunk < first_chunk + chunks; chunk += op_.stack) {
      const int64_t place = chunk / op_.stack * op_.places();
      for (int64_t group = 0; group < op_.order.groups; ++group) {
        if (op_.form == RowsForm::kMatrixRows) {
          own_blocks(part, staged, chunk, group, matrix_target(place, op_.first_row + j));
          continue;
        }
        const int64_t to =
            ((op_.first_chunk + part * op_.part_places() + place) * op_.buffer_rows + op_.first_row + j) *
                op_.pitch +
            op_.first_column + group;
        Operand target = MachineBuilder::operand(buffer_, to * kWordsPerLong,
                                                 static_cast<int32_t>(op_.order.groups * kWordsPerLong),
                                                 Width::kLong, strides(op_.pitch * kWordsPerLong));
        // Lanes that have this column.
        const int64_t lanes = ceil_div(op_.columns - group, op_.order.groups);
        if (lanes < kCyclesPerStep) target.mask = first_cycles(lanes);
        if (op_.normalize) {
          own_blocks(part, staged, chunk, group, target);
        } else {
          builder_.emit(Opcode::kL1bmm4, Precision::kNone,
                        {space_operand(Space::kL1bm, staged + staged_order_.at(chunk, group))}, {target},
                        origin_);
        }
      }
    }
  }

  /// Four rows of matrices that columns of row `row` of the buffer become, in the MABs of a quad.
  Operand matrix_target(int64_t chunk, int64_t row) const {
    const int64_t to = ((row / kRowsOfMatrices * op_.chunks + chunk) * 2 + row % 2) * kCyclesPerStep;
    // With every row as if they came in order: a loop advances by all rows of matrices.
    return masked(MachineBuilder::operand(buffer_, to * kWordsPerLong, kWordsPerLong, Width::kLong,
                                          strides(op_.chunks * kWordsPerLong)),
                  mab_masks_[static_cast<size_t>(row / 2 % kBlocksPerChunk)]);
  }

  /// Four columns of the stack that begins with a chunk, its first place to `target`.
  void own_blocks(int64_t part, int64_t staged, int64_t chunk, int64_t group, const Operand& target) {
    BlockColumns from{*op_.normalize, op_.stack, std::min(op_.stack, op_.chunks - chunk)};
    if (part + 1 == op_.parts && chunk + from.chunks == op_.chunks) from.channels = op_.last_channels;
    from.at = [&](int64_t above, int64_t column) {
      return staged + staged_order_.at(chunk + above, group) + column * kColumnLw;
    };
    Operand to = target;
    for (const Operand& place : take_blocks(context_, from, origin_)) {
      emit_normalize(builder_, *op_.normalize, StreamElement::kFloat, place, to, origin_);
      to.base += op_.buffer_rows * op_.pitch * kWordsPerLong;
    }
  }

  /// Eight columns of a chunk, the block of every quad: as rows of a matrix that is read by columns.
  void matrix_columns(int64_t chunk, int64_t j, int64_t count, const std::array<int64_t, 2>& staged) {
    const Precision precision = matrix_instruction_precision(*op_.normalize);
    for (int64_t half = 0; half < 2; ++half) {
      Operand rows = MachineBuilder::operand(builder_.constant_float(0), 0, 0);
      if (half < count) {
        rows = MachineBuilder::operand(builder_.value("raw", kCyclesPerStep * kWordsPerLong, kRegisters));
        Operand to = rows;
        if (op_.first_row + j + half + 1 == op_.buffer_rows && op_.last_columns < kCyclesPerStep) {
          builder_.emit(Opcode::kZero, Precision::kNone, {}, {rows}, origin_);
          to.mask = first_cycles(op_.last_columns);
        }
        builder_.emit(Opcode::kL1bmm4, Precision::kNone,
                      {space_operand(Space::kL1bm, staged.at(static_cast<size_t>(half)) + chunk * kUnitLw)},
                      {to}, origin_);
      }
      builder_.emit(Opcode::kMwrite, precision, {rows}, {space_operand(Space::kMatX, half * kCyclesPerStep)},
                    origin_);
    }
    const int64_t row = op_.first_row + j;
    const int64_t matrices = ceil_div(op_.buffer_rows, kRowsOfMatrices);
    for (int64_t half = 0; half < 2; ++half) {
      const Operand columns =
          MachineBuilder::operand(builder_.value("columns", kCyclesPerStep * kWordsPerLong, kRegisters));
      builder_.emit(Opcode::kMread, precision, {space_operand(Space::kMatX, half * kCyclesPerStep)},
                    {columns}, origin_);
      const int64_t to = ((chunk * matrices + row / kRowsOfMatrices) * 2 + half) * kCyclesPerStep;
      emit_normalize(builder_, *op_.normalize, StreamElement::kFloat, columns,
                     masked(MachineBuilder::operand(buffer_, to * kWordsPerLong, kWordsPerLong, Width::kLong,
                                                    strides(kWordsPerLong)),
                            mab_masks_[static_cast<size_t>(row / 2 % kBlocksPerChunk)]),
                     origin_);
    }
  }

  TileLoweringContext& context_;
  MachineBuilder& builder_;
  const LoadRows& op_;
  int buffer_;
  std::vector<int> mab_masks_;  ///< of the MABs that a row of matrices is for
  std::vector<Takers> takers_;
  RowOrder staged_order_;  ///< in L1BM
  bool is_dense_;
  int64_t units_;  ///< of a row
  std::string origin_;
  int64_t by_loop_ = 0;  ///< rows per iteration of the loop around, 0 without one
};

/// Matrices go to the x and y registers in turn, so that one is written while the other is used.
class WindowProductLowering {
 public:
  WindowProductLowering(TileLoweringContext& context, const WindowProduct& op)
      : context_(context),
        builder_(context.builder),
        op_(op),
        form_(matrix_form(op.precision)),
        precision_(matrix_instruction_precision(op.precision)),
        matrices_(context.buffer_values[static_cast<size_t>(op.matrices)]),
        windows_(context.buffer_values[static_cast<size_t>(op.windows)]),
        sums_(context.buffer_values[static_cast<size_t>(op.sums)]) {}

  void run() {
    // Digits of a matrix' number, the last fastest; those at the end are unrolled as far as a block allows.
    const std::array<int64_t, 3> extents = {op_.places, op_.kernel[0], op_.kernel[1]};
    const std::array<int64_t, 3> window = {op_.window_rows * op_.pitch, op_.dilation[0] * op_.pitch,
                                           op_.dilation[1]};
    const int64_t vectors = form_.products * (op_.rows * std::ssize(op_.starts) + form_.write_steps);
    std::array<int64_t, 3> unrolled = {1, 1, 1};
    int64_t operations = vectors;
    for (size_t digit = extents.size(); digit-- > 0;) {
      int64_t& factor = unrolled.at(digit);
      for (int64_t f = 1; f <= extents.at(digit); ++f) {
        const bool fits = operations * f <= kBlockOperations;
        if (extents.at(digit) % f == 0 && (fits || f == 1)) factor = f;
      }
      operations *= factor;
      if (factor < extents.at(digit)) break;
    }
    std::vector<int64_t> matrix_strides, window_strides;
    const int64_t matrix_words = form_.rows * kWordsPerLong;
    size_t loops = 0;
    is_first_ = unrolled == extents;
    if (!is_first_)
      lower_fill(context_,
                 {op_.sums, {}, op_.rows * std::ssize(op_.starts) * kCyclesPerStep * form_.result_lw, 0});
    int64_t matrix_unit = op_.places * op_.kernel[0] * op_.kernel[1];
    for (size_t digit = 0; digit < extents.size(); ++digit) {
      matrix_unit /= extents.at(digit);
      const int64_t count = extents.at(digit) / unrolled.at(digit);
      if (count == 1) continue;
      builder_.begin_loop(count);
      ++loops;
      matrix_strides.push_back(unrolled.at(digit) * matrix_unit * matrix_words);
      window_strides.push_back(unrolled.at(digit) * window.at(digit) * kWordsPerLong);
    }
    struct Position {
      int64_t matrix, window;
    };
    std::vector<Position> list;
    for (int64_t place = 0; place < unrolled[0]; ++place) {
      for (int64_t kh = 0; kh < unrolled[1]; ++kh) {
        for (int64_t kw = 0; kw < unrolled[2]; ++kw) {
          for (int64_t word = 0; word < form_.products; ++word)
            list.push_back({((place * op_.kernel[0] + kh) * op_.kernel[1] + kw) * matrix_words + word,
                            (place * window[0] + kh * window[1] + kw * window[2]) * kWordsPerLong + word});
        }
      }
    }
    write(0, list[0].matrix, matrix_strides);
    for (size_t k = 0; k < list.size(); ++k) {
      if (k + 1 < list.size()) write(k + 1, list[k + 1].matrix, matrix_strides);
      multiply(k, list[k].window, window_strides);
    }
    for (; loops > 0; --loops) builder_.end_loop();
  }

 private:
  static Operand matrix(size_t number, int64_t row) {
    return space_operand(number % 2 == 0 ? Space::kMatX : Space::kMatY, row);
  }

  void write(size_t number, int64_t words, const std::vector<int64_t>& strides) {
    // A step takes four rows, or eight of half precision.
    const int64_t rows = form_.rows / form_.write_steps;
    const int64_t lw = rows / kCyclesPerStep;
    for (int64_t step = 0; step < form_.write_steps; ++step) {
      Operand to = matrix(number, step * rows);
      to.width = lw == 2 ? Width::kDoubleLong : Width::kLong;
      builder_.emit(Opcode::kMwrite, precision_,
                    {builder_.operand_at(matrices_, op_.matrices_at, words + step * rows * kWordsPerLong,
                                         static_cast<int32_t>(lw * kWordsPerLong),
                                         form_.products == 2 ? Width::kWord : to.width, strides)},
                    {to}, "product");
    }
  }

  void multiply(size_t number, int64_t words, const std::vector<int64_t>& strides) {
    int64_t at = 0;
    for (int64_t row = 0; row < op_.rows; ++row) {
      for (const int64_t first : op_.starts) {
        const Operand vector = builder_.operand_at(
            windows_, {},
            words + ((op_.first_place * op_.window_rows + (op_.first_row + row) * op_.stride[0]) * op_.pitch +
                     op_.first_column + first * op_.stride[1]) *
                        kWordsPerLong,
            static_cast<int32_t>(op_.step * op_.stride[1] * kWordsPerLong),
            form_.products == 2 ? Width::kWord : Width::kLong, strides);
        const int64_t sum_words = form_.result_lw * kWordsPerLong;
        const Operand sum = MachineBuilder::operand(sums_, at, static_cast<int32_t>(sum_words),
                                                    form_.result_lw == 2 ? Width::kDoubleLong : Width::kLong);
        if (is_first_) {
          builder_.emit(Opcode::kMmul, precision_, {matrix(number, 0), vector}, {sum}, "product");
        } else {
          builder_.emit(Opcode::kMfma, precision_, {matrix(number, 0), vector, sum}, {sum}, "product");
        }
        at += kCyclesPerStep * sum_words;
      }
    }
    is_first_ = false;
  }

  TileLoweringContext& context_;
  MachineBuilder& builder_;
  const WindowProduct& op_;
  const MatrixForm& form_;
  Precision precision_;
  int matrices_, windows_, sums_;
  bool is_first_ = false;  ///< no sums yet
};

/// Windows of floats.
class WindowReduction {
 public:
  WindowReduction(TileLoweringContext& context, const ReduceWindows& op)
      : context_(context),
        builder_(context.builder),
        op_(op),
        staged_(rows_staging(context.builder.chip()).results),
        positions_(op.kernel[0] * op.kernel[1]),
        made_{op.order.groups * op.numbers.phases[1], op.order.chunks},
        numbers_(op.numbers, positions_, op.op, op.expr, number_input(op)),
        fold_(context.builder, op.op, op.expr) {}

  void run() {
    const auto& [groups, chunks] = op_.order;
    const int64_t vectors = op_.rows * groups;
    // Over chunks that stand side by side.
    const int64_t width = op_.order.width();
    const bool looped = chunks > width && vectors * numbers_.count() * chunks > kUnrolledElements;
    if (looped) builder_.begin_loop(chunks / width);
    looped_ = looped;
    for (int64_t chunk = 0; chunk < (looped ? width : chunks); ++chunk) {
      for (int64_t row = 0; row < op_.rows; ++row) {
        for (int64_t group = 0; group < groups; ++group) {
          for (int64_t down = 0; down < op_.numbers.phases[0]; ++down) {
            for (int64_t along = 0; along < op_.numbers.phases[1]; ++along)
              result(chunk, row, group, {down, along});
          }
        }
      }
    }
    if (looped) builder_.end_loop();
  }

 private:
  /// Strides of the loop over chunks, for what advances by `unit` with every chunk.
  std::vector<int64_t> by_chunk(int64_t unit) const {
    return looped_ ? innermost(builder_, {op_.order.width() * unit}) : std::vector<int64_t>{};
  }
  /// LW `at` of what chunk 0 has in a buffer.
  Operand in_chunk(int buffer, int64_t chunk, int64_t chunk_lw, int64_t at, int64_t stride) const {
    return MachineBuilder::operand(
        context_.buffer_values[static_cast<size_t>(buffer)], (chunk * chunk_lw + at) * kWordsPerLong,
        static_cast<int32_t>(stride * kWordsPerLong), Width::kLong, by_chunk(chunk_lw * kWordsPerLong));
  }

  /// Four columns of results of a phase: that one of every lane.
  void result(int64_t chunk, int64_t row, int64_t group, const std::array<int64_t, 2>& phase) {
    const int64_t groups = op_.order.groups;
    const int64_t chunk_lw = op_.window_rows * op_.pitch;
    std::vector<Operand> more;
    for (const RowsInput& input : op_.inputs) {
      const int64_t columns = groups * kCyclesPerStep;
      more.push_back(input.of_rows ? in_chunk(input.buffer, chunk, op_.buffer_rows * columns,
                                              input.at + (op_.first_row + row) * columns + group, groups)
                                   : in_chunk(input.buffer, chunk, 1, 0, 0));
    }
    for (int64_t kh = 0; kh < op_.kernel[0]; ++kh) {
      const int64_t begin = ((op_.first_row + row) * op_.stride[0] + kh * op_.dilation[0]) * op_.pitch;
      if (op_.whole_rows) {
        for (int64_t column = 0; column < op_.pitch; column += kCyclesPerStep)
          fold_.take({in_chunk(op_.windows, chunk, chunk_lw, begin + column, 1)});
        continue;
      }
      for (int64_t kw = 0; kw < op_.kernel[1]; ++kw) {
        const int64_t position = kh * op_.kernel[1] + kw;
        if (numbers_.is_passed(phase, position)) continue;
        const auto window = [&](int buffer) {
          return in_chunk(buffer, chunk, chunk_lw, begin + group * op_.stride[1] + kw * op_.dilation[1],
                          groups * op_.stride[1]);
        };
        std::vector<Operand> element = {window(op_.windows)};
        for (const int other : op_.others) element.push_back(window(other));
        if (op_.weights >= 0) element.push_back(in_chunk(op_.weights, chunk, positions_, position, 0));
        numbers_.add_to(element, builder_, phase, position);
        element.insert(element.end(), more.begin(), more.end());
        fold_.take(std::move(element));
      }
    }
    Operand total = fold_.total();
    if (op_.whole_rows) total = over_columns(total);
    more.insert(more.begin(), total);
    if (!is_identity(op_.epilogue)) total = lower_scalar(builder_, op_.epilogue, more);
    Instruction up;
    up.opcode = Opcode::kL1bmm4;
    up.unit = 0;
    up.sources = {total};
    up.destinations = {space_operand(Space::kL1bm,
                                     staged_ + (row * op_.numbers.phases[0] + phase[0]) * made_.lw() +
                                         made_.at(chunk, group * op_.numbers.phases[1] + phase[1]),
                                     by_chunk(made_.groups * kUnitLw))};
    builder_.emit(std::move(up), "result");
  }

  /// What the columns of a vector combine to, in each of them.
  Operand over_columns(const Operand& vector) {
    const int value = builder_.value("columns", kCyclesPerStep * kWordsPerLong, kRegisters);
    builder_.emit(Opcode::kVpassa, Precision::kFloat, {vector}, {MachineBuilder::operand(value)}, "columns");
    std::array<Operand, 2> pairs;
    for (size_t pair = 0; pair < pairs.size(); ++pair) {
      const auto column = [&](size_t number) {
        return MachineBuilder::operand(value, static_cast<int64_t>(2 * pair + number) * kWordsPerLong, 0);
      };
      pairs.at(pair) = fold_.combine(column(0), column(1));
    }
    return fold_.combine(pairs[0], pairs[1]);
  }

  TileLoweringContext& context_;
  MachineBuilder& builder_;
  const ReduceWindows& op_;
  int64_t staged_;
  int64_t positions_;
  RowOrder made_;  ///< of staged rows
  WindowNumbers numbers_;
  WindowFold fold_;
  bool looped_ = false;
};

}  // namespace

WindowNumbers::WindowNumbers(const PositionNumbers& numbers, int64_t positions, ReduceLayer::Op op,
                             const ScalarExpr& expr, int input)
    : numbers_(numbers), positions_(positions) {
  for (const uint32_t word : numbers.words) {
    const ScalarExpr known = expr.with_constant(input, numbers.kind, word);
    const ScalarNode& result = known.nodes()[static_cast<size_t>(known.result())];
    is_passed_.push_back((result.op == ScalarOp::kConstant || result.op == ScalarOp::kIntConstant) &&
                         result.value == identity_of(op));
  }
}

int64_t WindowNumbers::count() const {
  return numbers_.phase_count() * positions_ - std::ranges::count(is_passed_, true);
}

void WindowNumbers::add_to(std::vector<Operand>& element, MachineBuilder& builder,
                           const std::array<int64_t, 2>& phase, int64_t position) const {
  if (numbers_.words.empty()) return;
  element.push_back(
      MachineBuilder::operand(builder.constant_bits(numbers_.words[at(phase, position)]), 0, 0));
}

WindowFold::WindowFold(MachineBuilder& builder, ReduceLayer::Op op, const ScalarExpr& expr)
    : builder_(builder), op_(op), expr_(expr) {
  combine_.apply(combining_op(op), combine_.input(0), combine_.input(1));
  // The first of the inputs is what was combined so far.
  std::vector<int> element(static_cast<size_t>(expr.input_count()));
  std::iota(element.begin(), element.end(), 1);
  constexpr std::array<int, 2> kOwn = {0, 1};
  step_ = combine_.substitute(1, expr, element, kOwn);
}

void WindowFold::take(std::vector<Operand> element) {
  if (halves_.size() < 2) {
    halves_.push_back(is_identity(expr_) ? element[0] : lower_scalar(builder_, expr_, element));
  } else {
    Operand& half = halves_[number_ % 2];
    element.insert(element.begin(), half);
    half = lower_scalar(builder_, step_, element);
  }
  ++number_;
}

Operand WindowFold::total() {
  if (halves_.empty()) {
    const DataType type = reduce_kind(op_) == ScalarKind::kFloat ? DataType::kFloat32 : DataType::kInt32;
    return MachineBuilder::operand(builder_.constant_bits(word_of(identity_of(op_), type)), 0, 0);
  }
  const Operand total = halves_.size() == 2 ? combine(halves_[0], halves_[1]) : halves_[0];
  halves_.clear();
  number_ = 0;
  return total;
}

Operand WindowFold::combine(const Operand& a, const Operand& b) {
  return lower_scalar(builder_, combine_, {a, b});
}

void lower_load_rows(TileLoweringContext& context, const LoadRows& op) {
  emit_rows_transfers(context, op.stream, true,
                      "load " + context.program.streams[static_cast<size_t>(op.stream)].name, op.transfers);
  RowsLoader(context, op).run();
}

void lower_window_product(TileLoweringContext& context, const WindowProduct& op) {
  WindowProductLowering(context, op).run();
}

void lower_reduce_windows(TileLoweringContext& context, const ReduceWindows& op) {
  WindowReduction(context, op).run();
}

namespace {

/// Sums go to where the results will be; four rows at a time are finished there.
void finish_spread_rows(TileLoweringContext& context, const FinishRows& op) {
  MachineBuilder& builder = context.builder;
  const int64_t chunk_at = rows_staging(builder.chip()).results + op.chunk * op.rows * kUnitLw;
  const int sums = context.buffer_values[static_cast<size_t>(op.sums)];
  const int64_t input_lw = ceil_div(op.order.chunks, kCyclesPerStep) * kCyclesPerStep;
  for (int64_t first = 0; first < op.rows; first += kCyclesPerStep) {
    for (int64_t row = first; row < std::min(op.rows, first + kCyclesPerStep); ++row) {
      Instruction reduce;
      reduce.opcode = Opcode::kL1bmr4;
      reduce.precision = Precision::kFloat;
      reduce.reduce_op = isa::ReduceOp::kFadd;
      reduce.sources = {sums_of_vector(sums, op.of_sums, op.first_vector + row)};
      reduce.destinations = {space_operand(Space::kL1bm, chunk_at + row * kUnitLw)};
      builder.emit(std::move(reduce), "sum of quads");
    }
    const Operand place = space_operand(Space::kL1bm, chunk_at + first * kUnitLw);
    std::vector<Operand> inputs = {
        MachineBuilder::operand(builder.value("total", kCyclesPerStep * kWordsPerLong, kRegisters))};
    builder.emit(Opcode::kL1bmd, Precision::kNone, {place}, {inputs[0]}, "sum of quads");
    // Behind the last row a vector reads what the last one has.
    const auto rows_of = [&](int number, int64_t at) {
      const int64_t row = op.first_row + first;
      return MachineBuilder::operand(context.buffer_values[static_cast<size_t>(number)],
                                     (at + row * input_lw + op.chunk) * kWordsPerLong,
                                     static_cast<int32_t>(input_lw * kWordsPerLong));
    };
    for (const RowsInput& input : op.inputs) {
      const int buffer = context.buffer_values[static_cast<size_t>(input.buffer)];
      inputs.push_back(input.of_rows ? rows_of(input.buffer, input.at)
                                     : MachineBuilder::operand(buffer, op.chunk * kWordsPerLong, 0));
    }
    const Operand result = lower_scalar(builder, op.epilogue, inputs);
    if (op.kept.buffer >= 0) keep(builder, result, rows_of(op.kept.buffer, op.kept.at));
    builder.emit(Opcode::kL1bmd, Precision::kNone, {result}, {place}, "result");
  }
}

}  // namespace

void lower_finish_rows(TileLoweringContext& context, const FinishRows& op) {
  if (op.spread) {
    finish_spread_rows(context, op);
    return;
  }
  MachineBuilder& builder = context.builder;
  const RowsStaging staging = rows_staging(builder.chip());
  const std::string origin = "sum of quads";
  const int sums = op.sums < 0 ? -1 : context.buffer_values[static_cast<size_t>(op.sums)];
  const bool direct = sums >= 0 && is_identity(op.epilogue) && op.kept.buffer < 0;
  int64_t number = op.first_vector;
  for (int64_t row = 0; row < op.rows; ++row) {
    for (int64_t group = 0; group < op.order.groups; ++group) {
      const int64_t to = staging.results + row * op.order.lw() + op.order.at(op.chunk, group);
      const int64_t slot = staging.sums + number % staging.sum_slots * kUnitLw;
      std::vector<Operand> inputs;
      if (sums >= 0) {
        Instruction reduce;
        reduce.opcode = Opcode::kL1bmr4;
        reduce.precision = Precision::kFloat;
        reduce.reduce_op = isa::ReduceOp::kFadd;
        reduce.sources = {sums_of_vector(sums, op.of_sums, number)};
        reduce.destinations = {space_operand(Space::kL1bm, direct ? to : slot)};
        builder.emit(std::move(reduce), origin);
        ++number;
        if (direct) continue;
        inputs.push_back(
            MachineBuilder::operand(builder.value("total", kCyclesPerStep * kWordsPerLong, kRegisters)));
        builder.emit(Opcode::kL1bmm4, Precision::kNone, {space_operand(Space::kL1bm, slot)}, {inputs[0]},
                     origin);
      }
      const auto row_of = [&](int number, int64_t at) {
        const int64_t groups = op.order.groups;
        const int64_t place =
            (op.chunk * op.buffer_rows + op.first_row + row) * groups * kCyclesPerStep + group;
        return MachineBuilder::operand(context.buffer_values[static_cast<size_t>(number)],
                                       (at + place) * kWordsPerLong,
                                       static_cast<int32_t>(groups * kWordsPerLong));
      };
      for (const RowsInput& input : op.inputs) {
        const int buffer = context.buffer_values[static_cast<size_t>(input.buffer)];
        inputs.push_back(input.of_rows ? row_of(input.buffer, input.at)
                                       : MachineBuilder::operand(buffer, op.chunk * kWordsPerLong, 0));
      }
      const Operand result = lower_scalar(builder, op.epilogue, inputs);
      if (op.kept.buffer >= 0) keep(builder, result, row_of(op.kept.buffer, op.kept.at));
      Instruction up;
      up.opcode = Opcode::kL1bmm4;
      up.unit = 0;
      up.sources = {result};
      up.destinations = {space_operand(Space::kL1bm, to)};
      builder.emit(std::move(up), "result");
    }
  }
}

void lower_sum_rows(TileLoweringContext& context, const SumRows& op) {
  const int64_t from = rows_staging(context.builder.chip()).results;
  for (int64_t row = 0; row < op.rows; ++row) {
    for (int64_t at = 0; at < op.l1b_row_lw; at += kL2bmBlockLw) {
      Instruction sum;
      sum.opcode = Opcode::kL2bmr;
      sum.precision = Precision::kFloat;
      sum.reduce_op = isa::ReduceOp::kFadd;
      sum.sources = {space_operand(Space::kL1bm, from + row * op.l1b_row_lw + at)};
      sum.destinations = {space_operand(Space::kL2bm, op.l2bm + row * op.row_lw + at)};
      context.builder.emit(std::move(sum), "sum of L1Bs");
    }
  }
}

void lower_sum_l2bs(TileLoweringContext& context, const SumL2bs& op) {
  emit_rows_transfers(context, op.stream, false, "sum of L2Bs", op.transfers);
}

void lower_store_rows(TileLoweringContext& context, const StoreRows& op) {
  MachineBuilder& builder = context.builder;
  const std::string origin = "store " + context.program.streams[static_cast<size_t>(op.stream)].name;
  const int64_t from = rows_staging(builder.chip()).results;
  // In the order of their addresses: a block may reach beyond an L1B's part, where the next one's begins.
  struct Segment {
    int64_t to, from;
    size_t l1b;
  };
  std::vector<Segment> segments;
  for (size_t b = 0; b < op.l1b_at.size(); ++b) {
    for (int64_t row = 0; row < op.rows; ++row) {
      for (int64_t k = 0; k < op.segments; ++k)
        segments.push_back(
            {op.l1b_at[b] + row * op.row_lw + k * op.chunk_lw,
             row * op.l1b_row_lw + k * (op.l1b_segment_lw > 0 ? op.l1b_segment_lw : op.segment_lw), b});
    }
  }
  std::ranges::stable_sort(segments, {}, &Segment::to);
  for (const Segment& segment : segments) {
    for (int64_t at = 0; at < op.segment_lw; at += kL2bmBlockLw) {
      Instruction move;
      move.opcode = Opcode::kL2bm;
      move.unit = static_cast<int8_t>(segment.l1b);
      move.sources = {space_operand(Space::kL1bm, from + segment.from + at)};
      move.destinations = {space_operand(Space::kL2bm, op.l2bm + segment.to + at)};
      builder.emit(std::move(move), origin);
    }
  }
  emit_rows_transfers(context, op.stream, false, origin, op.transfers);
}

}  // namespace kodama::compiler
