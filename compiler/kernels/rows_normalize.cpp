#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/kernels/lowering.h"
#include "compiler/kernels/predict.h"
#include "compiler/kernels/rows.h"
#include "compiler/kernels/rows_lowering.h"
#include "isa/arithmetic.h"
#include "isa/error.h"

/// Columns of an image of rows, normalized over their channels (NormalizeRows).
///
/// Every quad has eight channels of a chunk, its four MABs the same. A reduction combines a PE's channels
/// first, chunk by chunk; then the MABs of an L1B meet in l1bmr, and every PE takes what the four PEs of a
/// MAB came to, and combines these and the two words of each.
///
///     PE         t = op over chunks of expr                  4 columns in 4 cycles
///     l1bmr      B[4 c + p] = op over the MABs of t          a sum has every channel four times
///     l1bmp      u[4 c + p] = B[4 c + p], in all PEs
///     PE         op over p of u, op over the words           the value of column c, in both words
///
/// Where rows are spread, every quad has a column, its MABs a block of eight channels each, and a vector is
/// that column of four rows. Words and PEs meet in the PEs (msl turns a MAB's), then the MABs of a quad in
/// l1bmr4; l1bmm4 brings all of them the value.
namespace kodama::compiler {

using isa::Instruction;
using isa::kCyclesPerStep;
using isa::kWordsPerLong;
using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::Space;
using isa::Width;

namespace {

/// Operations without a loop over rows.
constexpr int64_t kUnrolledOperations = 1200;
constexpr isa::SpaceSet kNormalizeLocal = isa::space_bit(Space::kLm0) | isa::space_bit(Space::kLm1);
constexpr isa::SpaceSet kNormalizeHomes =
    isa::space_bit(Space::kGrf0) | isa::space_bit(Space::kGrf1) | kNormalizeLocal;
constexpr int64_t kVectorWords = kCyclesPerStep * kWordsPerLong;

isa::ReduceOp hardware_op(ReduceLayer::Op op) {
  switch (op) {
    case ReduceLayer::Op::kSum:
      return isa::ReduceOp::kFadd;
    case ReduceLayer::Op::kMax:
      return isa::ReduceOp::kMax;
    case ReduceLayer::Op::kMin:
      return isa::ReduceOp::kMin;
    default:
      throw isa::InternalError(
          fmt::format("internal error in normalize rows: {} over channels", reduce_op_name(op)));
  }
}

class RowsNormalization {
 public:
  RowsNormalization(TileLoweringContext& context, const NormalizeRows& op)
      : context_(context),
        builder_(context.builder),
        op_(op),
        of_rows_(steps_of_rows(op.steps, op.inputs.size())),
        staging_(rows_staging(context.builder.chip())) {}

  void run() {
    const int64_t rest = op_.channels % kChunkChannels;
    if (rest != 0) sign_ = last_chunk_sign(rest);
    const int64_t operations =
        normalize_operations(op_.steps, op_.inputs.size(), op_.order.chunks) * op_.order.groups;
    const int64_t at_once = op_.spread ? kCyclesPerStep : 1;
    const int64_t turns = isa::ceil_div(op_.rows, at_once);
    const int64_t together = std::clamp<int64_t>(kUnrolledOperations / operations, 1, turns);
    const int64_t iterations = turns / together;
    if (iterations > 1) {
      builder_.begin_loop(iterations);
      by_loop_ = together * at_once;
      for (int64_t turn = 0; turn < together; ++turn) all_groups(turn * at_once);
      builder_.end_loop();
      by_loop_ = 0;
    }
    for (int64_t turn = iterations > 1 ? iterations * together : 0; turn < turns; ++turn)
      all_groups(turn * at_once);
  }

 private:
  /// Strides of the loop over rows.
  std::vector<int64_t> by_row(int64_t unit) const {
    if (by_loop_ == 0) return {};
    std::vector<int64_t> strides(static_cast<size_t>(builder_.depth()), 0);
    strides.back() = by_loop_ * unit;
    return strides;
  }

  /// A vector: in channels of the last chunk that there are, 1, in the others -1.
  Operand last_chunk_sign(int64_t rest) {
    const std::string origin = "channels of the last chunk";
    const auto temporary = [&](const char* name) {
      return builder_.value(name, kVectorWords, kNormalizeHomes);
    };
    const auto constant = [](isa::FixedConstant which) {
      return space_operand(Space::kConstant, static_cast<int64_t>(which));
    };
    const auto bits = [&](uint32_t payload) {
      return MachineBuilder::operand(builder_.constant_bits(payload), 0, 0);
    };
    const auto integer = [&](Opcode opcode, const Operand& a, const Operand& b, int to) {
      builder_.emit(opcode, Precision::kInt, {a, b}, {MachineBuilder::operand(to)}, origin);
      return MachineBuilder::operand(to);
    };
    // Channel 8 (m >> 2) + 2 p + word, or 8 (m & 3) + 2 p + word, of which rest - 1 is the last.
    Operand block = integer(Opcode::kAnd, constant(isa::FixedConstant::kMabid), bits(op_.spread ? 3 : 12),
                            temporary("block"));
    for (int doubled = 0; doubled < (op_.spread ? 3 : 1); ++doubled)
      block = integer(Opcode::kAdd, block, block, temporary("block"));
    const int pe = temporary("PE");
    builder_.emit(Opcode::kPassa, Precision::kInt, {constant(isa::FixedConstant::kSubpeid)},
                  {MachineBuilder::operand(pe)}, origin);
    Operand channel =
        integer(Opcode::kAdd, MachineBuilder::operand(pe), MachineBuilder::operand(pe), temporary("channel"));
    channel = integer(Opcode::kAdd, channel, block, temporary("channel"));
    const int left = temporary("channels left");
    for (int word = 0; word < kWordsPerLong; ++word) {
      const auto of_word = [&](Operand operand) {
        operand.base += word;
        operand.width = Width::kWord;
        return operand;
      };
      builder_.emit(Opcode::kSub, Precision::kInt,
                    {of_word(bits(static_cast<uint32_t>(rest - 1 - word))), of_word(channel)},
                    {of_word(MachineBuilder::operand(left))}, origin);
    }
    Operand sign = integer(Opcode::kAnd, MachineBuilder::operand(left), bits(0x80000000), temporary("sign"));
    return integer(Opcode::kOr, sign, bits(0x3f800000), temporary("sign"));
  }

  void all_groups(int64_t row) {
    for (int64_t group = 0; group < op_.order.groups; ++group) columns(row, group);
  }

  /// Four columns of a row: that one of every lane; spread, of four rows.
  void columns(int64_t row, int64_t group) {
    values_.clear();
    for (size_t k = 0; k < op_.steps.size(); ++k) {
      const auto& [op, expr] = op_.steps[k];
      if (op) {
        values_.push_back(over_channels(*op, expr, row, group));
      } else if (of_rows_[k] && k + 1 < op_.steps.size()) {
        values_.push_back(lower_scalar(builder_, expr, operands(0, row, group)));
      } else if (k + 1 < op_.steps.size()) {
        const int value = builder_.value("elements", op_.order.chunks * kVectorWords, kNormalizeLocal);
        for (int64_t chunk = 0; chunk < op_.order.chunks; ++chunk) {
          lower_scalar(builder_, expr, operands(chunk, row, group),
                       MachineBuilder::operand(value, chunk * kVectorWords));
        }
        values_.push_back(MachineBuilder::operand(value));
      } else {
        for (int64_t chunk = 0; chunk < op_.order.chunks; ++chunk) stage(expr, chunk, row, group);
      }
    }
  }

  /// Four columns of a chunk in a buffer of rows that begin at `at`; spread, of four rows.
  Operand of_row(int buffer, int64_t at, int64_t chunk, int64_t row, int64_t group) const {
    if (op_.spread) {
      const int64_t row_lw = isa::round_up(op_.order.chunks, kCyclesPerStep);
      return MachineBuilder::operand(buffer, (at + (op_.first_row + row) * row_lw + chunk) * kWordsPerLong,
                                     static_cast<int32_t>(row_lw * kWordsPerLong), Width::kLong,
                                     by_row(row_lw * kWordsPerLong));
    }
    const int64_t row_lw = op_.order.groups * kCyclesPerStep;
    const int64_t place = (chunk * op_.buffer_rows + op_.first_row + row) * row_lw + group;
    return MachineBuilder::operand(buffer, (at + place) * kWordsPerLong,
                                   static_cast<int32_t>(op_.order.groups * kWordsPerLong), Width::kLong,
                                   by_row(row_lw * kWordsPerLong));
  }

  /// Inputs and values of steps for four columns of a chunk.
  std::vector<Operand> operands(int64_t chunk, int64_t row, int64_t group) const {
    std::vector<Operand> list;
    for (const RowsInput& input : op_.inputs) {
      const int buffer = context_.buffer_values[static_cast<size_t>(input.buffer)];
      list.push_back(input.of_rows ? of_row(buffer, input.at, chunk, row, group)
                                   : MachineBuilder::operand(buffer, chunk * kWordsPerLong, 0));
    }
    for (size_t k = 0; k < values_.size(); ++k) {
      Operand value = values_[k];
      if (!of_rows_[k]) value.base += chunk * kVectorWords;
      list.push_back(value);
    }
    return list;
  }

  /// `expr` in a chunk; in channels that only fill it up, `otherwise`.
  Operand element(const ScalarExpr& expr, int64_t chunk, int64_t row, int64_t group, double otherwise) {
    std::vector<Operand> inputs = operands(chunk, row, group);
    if (!sign_ || chunk + 1 < op_.order.chunks) return lower_scalar(builder_, expr, inputs);
    ScalarExpr guarded = expr;
    const int value = guarded.result();
    const int sign = guarded.input(static_cast<int>(inputs.size()));
    guarded.set_result(guarded.apply(ScalarOp::kSelectNotNegative, sign, value, guarded.constant(otherwise)));
    inputs.push_back(*sign_);
    return lower_scalar(builder_, guarded, inputs);
  }

  void stage(const ScalarExpr& expr, int64_t chunk, int64_t row, int64_t group) {
    const Operand result = element(expr, chunk, row, group, 0);
    if (op_.kept.buffer >= 0) {
      const int buffer = context_.buffer_values[static_cast<size_t>(op_.kept.buffer)];
      keep(builder_, result, of_row(buffer, op_.kept.at, chunk, row, group));
    }
    if (op_.spread) {
      const int64_t at = staging_.results + (chunk * op_.staged_rows() + row) * kUnitLw;
      builder_.emit(Opcode::kL1bmd, Precision::kNone, {result},
                    {space_operand(Space::kL1bm, at, by_row(kUnitLw))}, "result");
      return;
    }
    Instruction up;
    up.opcode = Opcode::kL1bmm4;
    up.unit = 0;
    up.sources = {result};
    up.destinations = {space_operand(Space::kL1bm,
                                     staging_.results + row * op_.order.lw() + op_.order.at(chunk, group),
                                     by_row(op_.order.lw()))};
    builder_.emit(std::move(up), "result");
  }

  Operand over_channels(ReduceLayer::Op op, const ScalarExpr& expr, int64_t row, int64_t group) {
    ScalarExpr combine;
    combine.apply(combining_op(op), combine.input(0), combine.input(1));
    // In two halves, which don't wait for each other.
    std::vector<Operand> halves;
    for (int64_t chunk = 0; chunk < op_.order.chunks; ++chunk) {
      const Operand next = element(expr, chunk, row, group, identity_of(op));
      if (halves.size() < 2) {
        halves.push_back(next);
      } else {
        Operand& half = halves[static_cast<size_t>(chunk) % 2];
        half = lower_scalar(builder_, combine, {half, next});
      }
    }
    Operand total = halves.size() == 2 ? lower_scalar(builder_, combine, halves) : halves[0];
    return op_.spread ? over_quad(op, combine, total) : over_lanes(op, combine, total);
  }

  /// op over the words of a PE, in both.
  Operand over_words(const ScalarExpr& combine, int both) {
    const int result = builder_.value("of rows", kVectorWords, kNormalizeHomes);
    for (int64_t word = 0; word < kWordsPerLong; ++word) {
      const auto word_of = [&](int value, int64_t number) {
        return MachineBuilder::operand(value, number, kWordsPerLong, Width::kWord);
      };
      lower_scalar(builder_, combine, {word_of(both, 0), word_of(both, 1)}, word_of(result, word));
    }
    return MachineBuilder::operand(result);
  }

  Operand over_quad(ReduceLayer::Op op, const ScalarExpr& combine, const Operand& total) {
    const std::string origin = "over channels";
    const auto turned = [&](const Operand& value, int64_t times) {
      Operand from = value;
      for (int64_t k = 0; k < times; ++k) {
        const Operand to = MachineBuilder::operand(builder_.value("turned", kVectorWords, kNormalizeHomes));
        builder_.emit(Opcode::kMsl, Precision::kNone, {from}, {to}, origin);
        from = to;
      }
      return from;
    };
    const Operand pairs = lower_scalar(builder_, combine, {total, turned(total, 1)});
    const int both = builder_.value("words", kVectorWords, kNormalizeHomes);
    lower_scalar(builder_, combine, {pairs, turned(pairs, 2)}, MachineBuilder::operand(both));
    const int64_t slot = staging_.sums + number_++ % staging_.sum_slots * kUnitLw;
    Instruction reduce;
    reduce.opcode = Opcode::kL1bmr4;
    reduce.precision = Precision::kFloat;
    reduce.reduce_op = hardware_op(op);
    reduce.sources = {over_words(combine, both)};
    reduce.destinations = {space_operand(Space::kL1bm, slot)};
    builder_.emit(std::move(reduce), origin);
    const Operand result = MachineBuilder::operand(builder_.value("of rows", kVectorWords, kNormalizeHomes));
    builder_.emit(Opcode::kL1bmm4, Precision::kNone, {space_operand(Space::kL1bm, slot)}, {result}, origin);
    return result;
  }

  Operand over_lanes(ReduceLayer::Op op, const ScalarExpr& combine, const Operand& total) {
    const std::string origin = "over channels";
    const int64_t slot = staging_.sums + number_++ % staging_.sum_slots * kUnitLw;
    Instruction reduce;
    reduce.opcode = Opcode::kL1bmr;
    reduce.precision = Precision::kFloat;
    reduce.reduce_op = hardware_op(op);
    reduce.sources = {total};
    reduce.destinations = {space_operand(Space::kL1bm, slot)};
    builder_.emit(std::move(reduce), origin);
    const int lanes = builder_.value("lanes", kCyclesPerStep * kVectorWords, kNormalizeHomes);
    for (int64_t column = 0; column < kCyclesPerStep; ++column) {
      builder_.emit(Opcode::kL1bmp, Precision::kNone,
                    {space_operand(Space::kL1bm, slot + column * isa::kPePerMab)},
                    {MachineBuilder::operand(lanes, column * kVectorWords)}, origin);
    }
    const auto of_pe = [&](int64_t pe) {
      return MachineBuilder::operand(lanes, pe * kWordsPerLong, kVectorWords);
    };
    const Operand low = lower_scalar(builder_, combine, {of_pe(0), of_pe(1)});
    const Operand high = lower_scalar(builder_, combine, {of_pe(2), of_pe(3)});
    // The words are read one by one: where a value is, not what an operation passes on.
    const int both = builder_.value("words", kVectorWords, kNormalizeHomes);
    lower_scalar(builder_, combine, {low, high}, MachineBuilder::operand(both));
    const Operand result = over_words(combine, both);
    if (op != ReduceLayer::Op::kSum) return result;
    // The MABs of a quad have the same channels.
    ScalarExpr share;
    share.apply(ScalarOp::kMul, share.input(0), share.constant(1.0 / kBlocksPerChunk));
    return lower_scalar(builder_, share, {result});
  }

  TileLoweringContext& context_;
  MachineBuilder& builder_;
  const NormalizeRows& op_;
  std::vector<bool> of_rows_;
  RowsStaging staging_;
  std::optional<Operand> sign_;
  int64_t by_loop_ = 0;  ///< rows per iteration of the loop around, or 0
  std::vector<Operand> values_;
  int64_t number_ = 0;
};

}  // namespace

int64_t normalize_operations(const std::vector<NormalizeLayer::Step>& steps, size_t inputs, int64_t chunks) {
  constexpr int64_t kOverLanes = 11;
  const std::vector<bool> of_rows = steps_of_rows(steps, inputs);
  int64_t operations = 0;
  for (size_t k = 0; k < steps.size(); ++k) {
    int64_t each = 1;
    each += machine_operations(steps[k].expr);
    operations += each * (of_rows[k] && !steps[k].op ? 1 : chunks) + (steps[k].op ? kOverLanes : 0);
  }
  return operations;
}

void lower_normalize_rows(TileLoweringContext& context, const NormalizeRows& op) {
  RowsNormalization(context, op).run();
}

}  // namespace kodama::compiler
