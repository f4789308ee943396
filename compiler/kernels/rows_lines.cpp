#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/kernels/lowering.h"
#include "compiler/kernels/rows.h"
#include "compiler/kernels/rows_lowering.h"
#include "isa/arithmetic.h"

/// Lines of lanes (LaneLines, compiler/tile/tile_program.h): windows of floats, channel by channel, where
/// `l2bmd` brings every L1B its half of its pair's lane, and `l1bmd` every PE a column of it.
namespace kodama::compiler {

using isa::kCyclesPerStep;
using isa::kWordsPerLong;
using isa::Opcode;
using isa::Operand;
using isa::Precision;

namespace {

/// Vectors of four slots, of which the last may have fewer.
struct Vector {
  int64_t slot = 0, count = kCyclesPerStep;
};
std::vector<Vector> vectors_of(int64_t slots) {
  std::vector<Vector> list;
  for (int64_t slot = 0; slot < slots; slot += kCyclesPerStep)
    list.push_back({slot, std::min<int64_t>(kCyclesPerStep, slots - slot)});
  return list;
}

Operand in_buffer(int value, int64_t lw, int64_t stride = 1) {
  return MachineBuilder::operand(value, lw * kWordsPerLong, static_cast<int32_t>(stride * kWordsPerLong));
}

/// A step between L2BM and L1BM: four units from one address on in both.
void move_units(MachineBuilder& builder, int64_t l2bm, int64_t l1bm, bool to_l1bm,
                const std::string& origin) {
  const Operand far = space_operand(isa::Space::kL2bm, l2bm), near = space_operand(isa::Space::kL1bm, l1bm);
  builder.emit(Opcode::kL2bmd, Precision::kNone, {to_l1bm ? far : near}, {to_l1bm ? near : far}, origin);
}

/// Where a vector's columns, so much further on, are inside the tensor; nothing: everywhere it matters.
std::optional<TileLoweringContext::Inside> inside_of(const LoadLines& op, const Vector& vector,
                                                     int64_t further, const isa::Chip& chip) {
  const int64_t mabs = chip.mab_per_l1b, last_lane = chip.l1b_per_l2b / 2 - 1;
  const bool left = further < op.left, right = op.last_result + further >= op.left + op.last;
  const auto mab_of = [&](int64_t slot, int64_t column) {
    const int64_t place = column * op.lines.places - slot % op.lines.line_slots() * kSlotPlaces;
    return std::clamp<int64_t>(place * (mabs / kSlotPlaces), 0, mabs);
  };
  TileLoweringContext::Inside inside;
  bool is_all = true;
  for (int64_t c = 0; c < kCyclesPerStep; ++c) {
    auto& [first, last] = inside.at(static_cast<size_t>(c));
    first = left ? mab_of(vector.slot + c, op.left - further) : 0;
    last = last_lane * mabs + (right ? mab_of(vector.slot + c, op.left + op.last - further) : mabs) - 1;
    is_all = is_all && first == 0 && last + 1 == (last_lane + 1) * mabs;
    // Behind the last slot nothing is.
    if (c >= vector.count) first = (last_lane + 1) * mabs;
  }
  if (is_all) return std::nullopt;
  return inside;
}

int64_t slots_of(const LoadLines& op) {
  return op.parts * (op.order.chunks / op.width()) * op.lines.line_slots();
}

class LinesLoader {
 public:
  LinesLoader(TileLoweringContext& context, const LoadLines& op)
      : context_(context),
        builder_(context.builder),
        op_(op),
        buffer_(context.buffer_values[static_cast<size_t>(op.buffer)]),
        part_lines_(op.order.chunks / op.width()),
        slots_(slots_of(op)),
        origin_("load " + context.program.streams[static_cast<size_t>(op.stream)].name) {}

  void run() {
    // Behind a row, what its last step brings too much.
    const int64_t pitch = isa::round_up(slots_, kCyclesPerStep) * kUnitLw + kUnitLw;
    const int64_t room = std::max<int64_t>(1, rows_staging(builder_.chip()).windows_lw / pitch);
    for (int64_t row = 0; row < op_.rows; ++row) {
      const int64_t staged = row % room * pitch;
      for (int64_t part = 0; part < op_.parts; ++part) {
        for (int64_t line = 0; line < part_lines_; ++line)
          fetch(part, row, line, staged + (part * part_lines_ + line) * op_.lines.line_lw());
      }
      for (int64_t column = 0; column < op_.kernel; ++column) take(row, column, staged);
    }
  }

 private:
  /// Columns [begin, end) of a line to L1BM, where `l2bm(column)` has the first unit. Steps are in the order
  /// of L1BM's addresses: what one brings too much, the next one overwrites.
  template <typename Unit>
  void fetch_columns(int64_t begin, int64_t end, int64_t line_at, Unit&& l2bm) {
    const int64_t width = op_.width();
    const bool is_dense = width == op_.lines.places && width == op_.order.width() && op_.spacing == 1;
    const int64_t together = is_dense ? kCyclesPerStep / width : 1;
    for (int64_t column = begin; column < end; column += together)
      move_units(builder_, l2bm(column),
                 line_at + (op_.before + column * op_.spacing) * op_.lines.places * kPlaceLw, true, origin_);
  }

  void fetch(int64_t part, int64_t row, int64_t line, int64_t line_at) {
    const RowOrder& order = op_.order;
    const int64_t from = op_.l2bm + part * op_.part_lw + row * order.lw();
    const auto unit = [&](int64_t column) { return from + order.at(line * op_.width(), column); };
    fetch_columns(-op_.before, 0, line_at,
                  [&](int64_t column) { return unit(column + order.groups) - kColumnLw; });
    fetch_columns(0, order.groups, line_at, unit);
    fetch_columns(order.groups, order.groups + op_.right, line_at,
                  [&](int64_t column) { return unit(column - order.groups) + kColumnLw; });
  }

  /// What windows have at a column of the kernel.
  void take(int64_t row, int64_t kernel_column, int64_t staged) {
    const int64_t further = kernel_column * op_.dilation;
    const int64_t from = staged + (op_.before - op_.left + further) * op_.lines.places * kPlaceLw;
    const int64_t to = ((op_.first_row + row) * op_.kernel + kernel_column) * op_.lines.row_lw() +
                       op_.first_line * op_.lines.line_slots();
    for (const Vector& vector : vectors_of(slots_)) {
      Operand target = in_buffer(buffer_, to + vector.slot);
      if (const auto inside = inside_of(op_, vector, further, builder_.chip())) {
        target = masked(target, lane_mask(context_, *inside));
      } else if (vector.count < kCyclesPerStep) {
        target.mask = first_cycles(vector.count);
      }
      builder_.emit(Opcode::kL1bmd, Precision::kNone,
                    {space_operand(isa::Space::kL1bm, from + vector.slot * kUnitLw)}, {target}, origin_);
    }
  }

  TileLoweringContext& context_;
  MachineBuilder& builder_;
  const LoadLines& op_;
  int buffer_;
  int64_t part_lines_, slots_;
  std::string origin_;
};

class LinesReduction {
 public:
  LinesReduction(TileLoweringContext& context, const ReduceLines& op)
      : context_(context),
        builder_(context.builder),
        op_(op),
        staged_(rows_staging(context.builder.chip()).results + op.slot * op.lines.staged_lw()),
        numbers_(op.numbers, op.kernel[0] * op.kernel[1], op.op, op.expr, number_input(op)),
        fold_(context.builder, op.op, op.expr) {
    for (size_t line = 0; line < op.lines.chunks.size(); ++line) {
      for (int64_t side = 0; side < op.lines.chunks[line]; ++side)
        chunk_at_.push_back(static_cast<int64_t>(line) * op.lines.line_lw() + side * kPlaceLw);
    }
  }

  void run() {
    for (int64_t row = 0; row < op_.rows; ++row) {
      for (const Vector& vector : vectors_of(op_.lines.row_lw())) {
        for (int64_t down = 0; down < op_.numbers.phases[0]; ++down) {
          for (int64_t along = 0; along < op_.numbers.phases[1]; ++along)
            reduce(row, vector.slot, {down, along});
        }
      }
      for (int64_t down = 0; down < op_.numbers.phases[0]; ++down) store(row * op_.numbers.phases[0] + down);
    }
  }

 private:
  /// Values of channels for the vector from a slot on, at a position of the kernel.
  Operand values(int buffer, int64_t position, int64_t slot) const {
    const int64_t copies = op_.lines.value_copies(), slots = op_.lines.line_slots();
    const int64_t first = position * op_.lines.lines() * copies;
    const int value = context_.buffer_values[static_cast<size_t>(buffer)];
    return copies == slots ? in_buffer(value, first + slot) : in_buffer(value, first + slot / slots, 0);
  }

  /// Where a row of results is staged: all of its phases one after the other.
  int64_t staged_row(int64_t row, int64_t along) const {
    return staged_ + (row * op_.numbers.phases[1] + along) * op_.lines.staged_lw();
  }

  void reduce(int64_t row, int64_t slot, const std::array<int64_t, 2>& phase) {
    const int64_t row_lw = op_.lines.row_lw();
    const int64_t first_row = op_.first_row + row;
    std::vector<Operand> inputs;
    for (const RowsInput& input : op_.inputs) {
      inputs.push_back(input.of_rows ? in_buffer(context_.buffer_values[static_cast<size_t>(input.buffer)],
                                                 input.at + first_row * row_lw + slot)
                                     : values(input.buffer, 0, slot));
    }
    for (int64_t kh = 0; kh < op_.kernel[0]; ++kh) {
      for (int64_t kw = 0; kw < op_.kernel[1]; ++kw) {
        const int64_t position = kh * op_.kernel[1] + kw;
        if (numbers_.is_passed(phase, position)) continue;
        const int64_t window = (first_row * op_.stride[0] + kh * op_.dilation) * op_.kernel[1] + kw;
        const auto element_of = [&](int buffer) {
          return in_buffer(context_.buffer_values[static_cast<size_t>(buffer)], window * row_lw + slot);
        };
        std::vector<Operand> element = {element_of(op_.windows)};
        for (const int other : op_.others) element.push_back(element_of(other));
        if (op_.weights >= 0) element.push_back(values(op_.weights, position, slot));
        numbers_.add_to(element, builder_, phase, position);
        element.insert(element.end(), inputs.begin(), inputs.end());
        fold_.take(std::move(element));
      }
    }
    inputs.insert(inputs.begin(), fold_.total());
    const Operand result =
        op_.epilogue == ScalarExpr::identity() ? inputs[0] : lower_scalar(builder_, op_.epilogue, inputs);
    const int64_t at = staged_row(row * op_.numbers.phases[0] + phase[0], phase[1]) + slot * kUnitLw;
    builder_.emit(Opcode::kL1bmd, Precision::kNone, {result}, {space_operand(isa::Space::kL1bm, at)},
                  "result");
  }

  /// A row's results to L2BM, in the order of addresses: what a step brings too much, the next one
  /// overwrites.
  void store(int64_t row) {
    const RowOrder order = op_.made();
    const int64_t width = order.width(), phases = op_.numbers.phases[1];
    const int64_t step = op_.stride[1] * op_.lines.places * kPlaceLw;
    for (int64_t chunk = 0; chunk < order.chunks; chunk += width) {
      const int64_t units = order.groups * width;
      const auto l1bm = [&](int64_t unit) {
        const int64_t group = unit / width;
        return staged_row(row, group % phases) + chunk_at_[static_cast<size_t>(chunk + unit % width)] +
               group / phases * step;
      };
      for (int64_t unit = 0; unit < units;) {
        int64_t together = 1;
        while (together < kCyclesPerStep && unit + together < units &&
               l1bm(unit + together) == l1bm(unit) + together * kPlaceLw)
          ++together;
        move_units(builder_, op_.l2bm + row * order.lw() + order.at(chunk, 0) + unit * kUnitLw, l1bm(unit),
                   false, "result");
        unit += together;
      }
    }
  }

  TileLoweringContext& context_;
  MachineBuilder& builder_;
  const ReduceLines& op_;
  int64_t staged_;
  WindowNumbers numbers_;
  WindowFold fold_;
  std::vector<int64_t> chunk_at_;  ///< where an image's chunks begin in a row of lines
};

}  // namespace

void add_lane_masks(std::set<TileLoweringContext::Inside>& masks, const LoadLines& op,
                    const isa::Chip& chip) {
  for (int64_t column = 0; column < op.kernel; ++column) {
    for (const Vector& vector : vectors_of(slots_of(op))) {
      if (const auto inside = inside_of(op, vector, column * op.dilation, chip)) masks.insert(*inside);
    }
  }
}

void lower_load_lines(TileLoweringContext& context, const LoadLines& op) {
  emit_rows_transfers(context, op.stream, true,
                      "load " + context.program.streams[static_cast<size_t>(op.stream)].name, op.transfers);
  LinesLoader(context, op).run();
}

void lower_reduce_lines(TileLoweringContext& context, const ReduceLines& op) {
  LinesReduction(context, op).run();
}

}  // namespace kodama::compiler
