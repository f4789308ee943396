#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compiler/kernels/lowering.h"
#include "compiler/kernels/rows.h"
#include "compiler/kernels/rows_lowering.h"
#include "isa/arithmetic.h"

/// Lanes of images of rows: every pair of an L2B's L1Bs has a quarter of the columns, and of the two, each
/// half of every chunk of results. Halos are the same units, one lane further: 16 LW, as l2bmb2 deals them.
namespace kodama::compiler {

using isa::ceil_div;
using isa::Instruction;
using isa::kCyclesPerStep;
using isa::kWordsPerLong;
using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::round_up;
using isa::Space;

namespace {

constexpr isa::SpaceSet kLaneRegisters = isa::space_bit(Space::kGrf0) | isa::space_bit(Space::kGrf1);
/// LW of a unit that an L1B has.
constexpr int64_t kHalfLw = kColumnLw / 2;

std::string load_origin(const TileLoweringContext& context, int stream) {
  return "load " + context.program.streams[static_cast<size_t>(stream)].name;
}

/// Units of a segment that a step begins at: four each, of which the last may overlap those before.
std::vector<int64_t> unit_steps(int64_t units) {
  std::vector<int64_t> steps;
  for (int64_t unit = 0; unit < units; unit += kCyclesPerStep)
    steps.push_back(std::max<int64_t>(0, std::min(unit, units - kCyclesPerStep)));
  return steps;
}

/// Where the mask `under` is (-1: everywhere), but for the first `left` cycles of the first pair of L1Bs and
/// the last `right` of the last pair.
int edge_mask(TileLoweringContext& context, int64_t left, int64_t right, int under) {
  std::array<std::pair<int64_t, int64_t>, kCyclesPerStep> inside;
  const int64_t last = context.builder.chip().l1b_per_l2b - 1;
  for (int64_t c = 0; c < kCyclesPerStep; ++c)
    inside.at(static_cast<size_t>(c)) = {c < left ? 2 : 0, c >= kCyclesPerStep - right ? last - 2 : last};
  return l1b_mask(context, inside, under);
}

class LanesLoader {
 public:
  LanesLoader(TileLoweringContext& context, const LoadLanes& op)
      : context_(context),
        builder_(context.builder),
        op_(op),
        buffer_(context.buffer_values[static_cast<size_t>(op.buffer)]),
        sides_(op.shift > 0 || op.side_chunks > 0
                   ? std::vector<Side>{{op.shift, mab_mask(context, kUpperQuads, 0)},
                                       {0, mab_mask(context, kUpperQuads, kUpperQuads)}}
                   : std::vector<Side>{{0, -1}}),
        origin_(load_origin(context, op.stream)) {
    const int64_t width = op.order.width();
    const int64_t pairs = op.order.chunks / width;
    row_units_ = op.order.chunks * op.order.groups;
    left_units_ = round_up(op.left * width, kCyclesPerStep);
    right_units_ = round_up(op.right * width, kCyclesPerStep);
    left_at_ = round_up(row_units_, kCyclesPerStep);
    right_at_ = left_at_ + pairs * left_units_;
    staged_units_ = right_at_ + pairs * right_units_;
    // The last windows of a line may be read further than it goes.
    if (op.packed) {
      const LoadLanes::Packed& packed = *op.packed;
      const int64_t read_lw = (packed.columns - 1) * packed.lw + packed.chunks() * kColumnLw;
      staged_units_ = std::max(staged_units_, ceil_div(read_lw, kColumnLw));
    }
  }

  void run() {
    const int64_t room = rows_staging(builder_.chip()).windows_lw / kColumnLw;
    const bool is_flat = !op_.packed && op_.left == 0 && op_.right == 0 && op_.pitch == op_.order.groups;
    int64_t number = 0;
    for (int64_t part = 0; part < op_.parts; ++part) {
      if (!is_flat) {
        for (int64_t row = 0; row < op_.rows; ++row) {
          const int64_t staged = number++ % (room / staged_units_) * staged_units_;
          fetch_with_halo(part, row, staged);
          take(part, row, op_.columns(), [&](int64_t chunk, int64_t column) {
            if (op_.packed) return (staged + chunk) * kColumnLw + column * op_.packed->lw;
            return (staged + staged_unit(chunk, column)) * kColumnLw;
          });
        }
        continue;
      }
      // Rows that follow one another are one; half of the room is for those that come next.
      const int64_t together = std::clamp<int64_t>((room / 2 - kCyclesPerStep) / row_units_, 1, op_.rows);
      const int64_t slot_units = round_up(together * row_units_, kCyclesPerStep);
      for (int64_t row = 0; row < op_.rows; row += together) {
        const int64_t rows = std::min(together, op_.rows - row);
        const int64_t staged = number++ % std::max<int64_t>(1, room / slot_units) * slot_units;
        fetch(l2bm(part, row), staged, rows * row_units_);
        take(part, row, rows * op_.order.groups, [&](int64_t chunk, int64_t place) {
          const int64_t unit = op_.order.at(chunk, place % op_.order.groups) / kUnitLw;
          return (staged + place / op_.order.groups * row_units_ + unit) * kColumnLw;
        });
      }
    }
  }

 private:
  /// Quads that have columns at one place: how far behind, and their mask.
  struct Side {
    int64_t shift = 0;
    int mask = -1;
  };

  int64_t l2bm(int64_t part, int64_t row) const {
    return op_.l2bm + part * op_.part_lw + row * op_.order.lw();
  }

  /// `units` units to L1BM, of each what is at `from` in the first.
  void fetch(int64_t from, int64_t staged, int64_t units) {
    for (int64_t unit = 0; unit < units; unit += kCyclesPerStep) {
      builder_.emit(Opcode::kL2bmb2, Precision::kNone, {space_operand(Space::kL2bm, from + unit * kUnitLw)},
                    {space_operand(Space::kL1bm, (staged + unit) * kColumnLw)}, origin_);
    }
  }

  void fetch_with_halo(int64_t part, int64_t row, int64_t staged) {
    const RowOrder& order = op_.order;
    const int64_t width = order.width();
    const int64_t from = l2bm(part, row);
    fetch(from, staged, row_units_);
    for (int64_t pair = 0; pair < order.chunks / width; ++pair) {
      const int64_t first = from + order.at(pair * width, 0);
      const int64_t behind = from + order.at(pair * width, order.groups - op_.left);
      if (op_.left > 0) fetch(behind - kColumnLw, staged + left_at_ + pair * left_units_, op_.left * width);
      if (op_.right > 0)
        fetch(first + kColumnLw, staged + right_at_ + pair * right_units_, op_.right * width);
    }
  }

  /// The staged unit of a column of the windows.
  int64_t staged_unit(int64_t chunk, int64_t column) const {
    const RowOrder& order = op_.order;
    const int64_t width = order.width(), pair = chunk / width, side = chunk % width;
    if (column < op_.left) return left_at_ + pair * left_units_ + column * width + side;
    const int64_t own = column - op_.left;
    if (own < order.groups) return order.at(chunk, own) / kUnitLw;
    return right_at_ + pair * right_units_ + (own - order.groups) * width + side;
  }

  /// Words of a packed window's last chunk.
  int64_t last_words() const { return op_.packed->words - (op_.packed->chunks() - 1) * kChunkChannels; }
  /// Whether a chunk of a packed column is read further than its lane's line goes.
  bool is_behind_line(int64_t chunk, int64_t column) const {
    if (!op_.packed || chunk + 1 < op_.chunks()) return false;
    return column * op_.packed->lw + (chunk + 1) * kColumnLw > op_.order.groups * kColumnLw;
  }
  /// The place of the buffer that a chunk's is, and in which quads.
  std::pair<int64_t, std::vector<Side>> place_of(int64_t chunk) const {
    if (op_.side_chunks == 0) return {chunk, sides_};
    const int64_t section = chunk / op_.side_chunks;
    return {section / 2 * op_.side_chunks + chunk % op_.side_chunks,
            {sides_[static_cast<size_t>(section % 2)]}};
  }

  /// `columns` columns of all chunks to a row of windows and those behind it.
  template <typename Staged>
  void take(int64_t part, int64_t row, int64_t columns, Staged&& staged) {
    const int64_t stacks = ceil_div(op_.chunks(), op_.stack);
    for (int64_t stack = 0; stack < stacks; ++stack) {
      const auto [place, sides] = place_of(op_.first_place + part * op_.part_places() + stack * op_.places());
      const int64_t to = place * op_.place_lw + (op_.first_row + row) * op_.pitch;
      for (const int64_t first : unit_steps(columns)) {
        const int64_t count = std::min<int64_t>(kCyclesPerStep, columns - first);
        BlockColumns from{op_.normalize, op_.stack, std::min(op_.stack, op_.chunks() - stack * op_.stack),
                          count};
        // Of the last chunk.
        if (is_behind_line(stack * op_.stack + from.chunks - 1, first + count - 1))
          from.channels = last_words();
        from.at = [&](int64_t above, int64_t column) {
          return staged(stack * op_.stack + above, first + column);
        };
        const std::vector<Operand> raw = take_blocks(context_, from, origin_);
        const bool has_edges = op_.left > 0 || op_.right > 0;
        const int64_t left = has_edges ? std::clamp<int64_t>(op_.left - first, 0, kCyclesPerStep) : 0;
        const int64_t right =
            has_edges ? std::clamp<int64_t>(first + kCyclesPerStep - (op_.left + op_.last), 0, kCyclesPerStep)
                      : 0;
        for (const auto& [shift, side] : sides) {
          Operand target = MachineBuilder::operand(buffer_, (to + shift + first) * kWordsPerLong);
          if (left + right > 0) {
            target = masked(target, edge_mask(context_, left, right, side));
          } else if (side >= 0) {
            target = masked(target, side);
          } else if (count < kCyclesPerStep) {
            target.mask = first_cycles(count);
          }
          for (const Operand& each : raw) {
            emit_normalize(builder_, op_.normalize, StreamElement::kFloat, each, target, origin_);
            target.base += op_.place_lw * kWordsPerLong;
          }
        }
      }
    }
  }

  TileLoweringContext& context_;
  MachineBuilder& builder_;
  const LoadLanes& op_;
  int buffer_;
  /// The bit of a MAB's number that tells quads 2 and 3 from the others.
  static constexpr int64_t kUpperQuads = 8;
  std::vector<Side> sides_;
  std::string origin_;
  // Staged in L1BM, in places of 16 LW: a row's own columns, those of the lanes beside, of every pair of
  // chunks.
  int64_t row_units_ = 0, left_units_ = 0, right_units_ = 0;
  int64_t left_at_ = 0, right_at_ = 0, staged_units_ = 0;
};

/// Moves an L1B's places of rows and sets of chunks between L2BM and L1BM, where sets begin at `l1bm(set)`.
template <typename At>
void move_places(MachineBuilder& builder, const LanePlaces& places, int64_t first_set, int64_t sets,
                 int64_t l2bm, At&& l1bm, bool to_l1bm, const std::string& origin) {
  const RowOrder& order = places.order;
  const int64_t width = order.width(), row_units = order.groups * width;
  const int64_t row_lw = places.row_places * width * kHalfLw;
  // Rows of a single set follow one another, and so do these where all is in order: what a step brings too
  // much, the next one brings as it is.
  const bool overlaps = places.sets() > 1 && !places.in_order();
  const bool is_one = places.sets() == 1 && places.row_places == order.groups;
  for (int64_t row = 0; row < (is_one ? 1 : places.rows); ++row) {
    for (int64_t set = first_set; set < first_set + sets; ++set) {
      const int64_t from_l2bm = l2bm + row * order.lw() + order.at(set * width, 0);
      const int64_t from_l1bm = l1bm(set) + row * row_lw;
      const int64_t units = row_units * (is_one ? places.rows : 1);
      for (int64_t unit = 0; unit < units; unit += kCyclesPerStep) {
        const int64_t at = overlaps ? std::min(unit, units - kCyclesPerStep) : unit;
        const Operand far = space_operand(Space::kL2bm, from_l2bm + at * kUnitLw);
        const Operand near = space_operand(Space::kL1bm, from_l1bm + at * kHalfLw);
        builder.emit(Opcode::kL2bmd, Precision::kNone, {to_l1bm ? far : near}, {to_l1bm ? near : far},
                     origin);
      }
    }
  }
}

}  // namespace

void lower_load_lanes(TileLoweringContext& context, const LoadLanes& op) {
  emit_rows_transfers(context, op.stream, true, load_origin(context, op.stream), op.transfers);
  LanesLoader(context, op).run();
}

void lower_load_places(TileLoweringContext& context, const LoadPlaces& op) {
  MachineBuilder& builder = context.builder;
  const std::string origin = load_origin(context, op.stream);
  emit_rows_transfers(context, op.stream, true, origin, op.transfers);
  const int buffer = context.buffer_values[static_cast<size_t>(op.buffer)];
  const int64_t set_lw = op.places.spread_lw();
  for (int64_t set = 0; set < op.places.sets(); ++set) {
    const int64_t staged = set % 2 * op.places.staged_lw();
    move_places(
        builder, op.places, set, 1, op.l2bm, [&](int64_t) { return staged; }, true, origin);
    for (int64_t lw = 0; lw < set_lw; lw += kCyclesPerStep) {
      builder.emit(Opcode::kL1bmd, Precision::kNone, {space_operand(Space::kL1bm, staged + lw * kUnitLw)},
                   {MachineBuilder::operand(buffer, (set * set_lw + lw) * kWordsPerLong)}, origin);
    }
  }
}

void lower_finish_lanes(TileLoweringContext& context, const FinishLanes& op) {
  MachineBuilder& builder = context.builder;
  const RowsStaging staging = rows_staging(builder.chip());
  const auto staged_at = [&](int64_t set) {
    return staging.results + set % op.places.slots() * op.places.staged_lw();
  };
  const int64_t staged = staged_at(op.set);
  const int64_t place_lw = op.places.order.width() * kHalfLw;
  const int sums = context.buffer_values[static_cast<size_t>(op.sums)];
  for (size_t v = 0; v < op.starts.size(); ++v) {
    Instruction reduce;
    reduce.opcode = Opcode::kL1bmr4;
    reduce.precision = Precision::kFloat;
    reduce.reduce_op = isa::ReduceOp::kFadd;
    reduce.sources = {sums_of_vector(sums, op.of_sums, static_cast<int64_t>(v))};
    reduce.destinations = {space_operand(Space::kL1bm, staged + op.starts[v] * place_lw)};
    builder.emit(std::move(reduce), "sum of quads");
  }
  const int64_t set_lw = op.places.spread_lw();
  for (int64_t lw = 0; lw < set_lw && op.epilogue != ScalarExpr::identity(); lw += kCyclesPerStep) {
    const Operand at = space_operand(Space::kL1bm, staged + lw * kUnitLw);
    std::vector<Operand> inputs = {
        MachineBuilder::operand(builder.value("total", kCyclesPerStep * kWordsPerLong, kLaneRegisters))};
    builder.emit(Opcode::kL1bmd, Precision::kNone, {at}, {inputs[0]}, "sum of quads");
    for (const RowsInput& input : op.inputs) {
      const int buffer = context.buffer_values[static_cast<size_t>(input.buffer)];
      inputs.push_back(
          input.of_rows ? MachineBuilder::operand(buffer, (input.at + op.set * set_lw + lw) * kWordsPerLong)
                        : MachineBuilder::operand(buffer, op.set * kWordsPerLong, 0));
    }
    const Operand result = lower_scalar(builder, op.epilogue, inputs);
    if (op.kept.buffer >= 0) {
      const int buffer = context.buffer_values[static_cast<size_t>(op.kept.buffer)];
      keep(builder, result,
           MachineBuilder::operand(buffer, (op.kept.at + op.set * set_lw + lw) * kWordsPerLong));
    }
    builder.emit(Opcode::kL1bmd, Precision::kNone, {result}, {at}, "result");
  }
  if (!op.places.in_order()) {
    move_places(builder, op.places, op.set, 1, op.l2bm, staged_at, false, "result");
  } else if (op.set + 1 == op.places.sets()) {
    move_places(builder, op.places, 0, op.places.sets(), op.l2bm, staged_at, false, "result");
  }
}

}  // namespace kodama::compiler
