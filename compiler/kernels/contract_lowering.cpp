#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "compiler/kernels/lowering.h"
#include "isa/error.h"

/// Matrix products, and what prepares their operands and accumulators.
namespace kodama::compiler {

using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::Space;
using isa::Width;

namespace {

constexpr const char* kContractLoweringPart = "contract lowering";
/// Operations that one iteration of a fill has, where it takes more than kStraightOperations.
constexpr int64_t kFillUnroll = 4;
/// Column groups (matrix operations on one block) of one iteration at most, and matrix operations that an
/// iteration should have at least, so that its ends cost little.
constexpr int64_t kMaxColumnGroups = 16;
constexpr int64_t kMinMatrixOperations = 16;

/// Runs `step(first)` for 0 <= first < count in units of `unroll`: a machine loop where there are several
/// units, the rest after it. `step` receives the index relative to the iteration and the number of items;
/// `loops` holds the item strides of the open machine loops meanwhile.
template <typename Step>
void unrolled(MachineBuilder& builder, int64_t count, int64_t unroll, std::vector<int64_t>& loops,
              Step&& step) {
  const int64_t whole = count / unroll;
  if (whole > 1) {
    builder.begin_loop(whole);
    loops.push_back(unroll);
    step(0, unroll);
    loops.pop_back();
    builder.end_loop();
  } else if (whole == 1) {
    step(0, unroll);
  }
  if (count % unroll != 0) step(whole * unroll, count % unroll);
}

}  // namespace

Precision matrix_instruction_precision(MatrixPrecision precision) {
  switch (precision) {
    case MatrixPrecision::kGFloat:
      return Precision::kGFloat;
    case MatrixPrecision::kFloat:
      return Precision::kFloat;
    case MatrixPrecision::kHalf:
      return Precision::kHalf;
  }
  throw isa::InternalError("internal error in contract lowering: unknown matrix precision");
}

void emit_normalize(MachineBuilder& builder, MatrixPrecision precision, StreamElement element, Operand from,
                    Operand to, const std::string& origin) {
  if (precision == MatrixPrecision::kHalf && element == StreamElement::kFloat) {
    from.width = Width::kDoubleLong;
    from.stride = isa::words(Width::kDoubleLong);
    from.reduce = true;
  }
  builder.emit(Opcode::kBfn, matrix_instruction_precision(precision), {std::move(from)}, {std::move(to)},
               origin);
}

void lower_fill(TileLoweringContext& context, const FillTile& op) {
  MachineBuilder& builder = context.builder;
  const int buffer = context.buffer_values[static_cast<size_t>(op.buffer)];
  // imm writes its payload to every word of a 2LW, so positions that are 2LW aligned take half the steps.
  bool even = op.at.base % 2 == 0 && op.count % 8 == 0;
  for (int64_t stride : op.at.strides) even = even && stride % 2 == 0;
  const Width width = even ? Width::kDoubleLong : Width::kLong;
  const int64_t words_per_step = isa::kCyclesPerStep * isa::words(width);

  std::vector<int64_t> loops;
  const int64_t steps = op.count * isa::kWordsPerLong / words_per_step;
  unrolled(builder, steps, steps <= kStraightOperations ? steps : kFillUnroll, loops,
           [&](int64_t first, int64_t count) {
             std::vector<int64_t> inner(loops);
             for (int64_t& stride : inner) stride *= words_per_step;
             for (int64_t k = first; k < first + count; ++k) {
               Operand payload;
               payload.space = Space::kImmediate;
               payload.base = op.bits;
               isa::Instruction imm;
               imm.opcode = Opcode::kImm;
               imm.immediate_kind = isa::ImmediateKind::kFloat;
               imm.sources = {payload};
               imm.destinations = {
                   builder.operand_at(buffer, op.at, k * words_per_step, isa::words(width), width, inner)};
               builder.emit(std::move(imm), "fill");
             }
           });
}

namespace {

/// How far something advances per row block, per LW of the inner dimension and per column group: words of an
/// operand, or counts of them in one iteration of a machine loop.
struct Advance {
  int64_t row_block = 0;
  int64_t inner_lw = 0;
  int64_t column_group = 0;
};

/// Emits one ProductTile. Matrix blocks go to the x and y registers in turn, so that the write of the next
/// block shares its steps with the products of this one.
class ProductLowering {
 public:
  ProductLowering(TileLoweringContext& context, const ProductTile& op)
      : builder_(context.builder),
        op_(op),
        form_(matrix_form(op.precision)),
        precision_(matrix_instruction_precision(op.precision)),
        a_(context.buffer_values[static_cast<size_t>(op.a)]),
        b_(context.buffer_values[static_cast<size_t>(op.b)]),
        c_(context.buffer_values[static_cast<size_t>(op.c)]) {
    const int64_t a_block = form_.rows * isa::kWordsPerLong;
    const int64_t result = form_.result_lw * isa::kWordsPerLong;
    a_by_ = {.row_block = op.inner_lw * a_block, .inner_lw = a_block, .column_group = 0};
    b_by_ = {.row_block = 0,
             .inner_lw = op.columns * isa::kWordsPerLong,
             .column_group = isa::kCyclesPerStep * isa::kWordsPerLong};
    c_by_ = {.row_block = op.columns * result, .inner_lw = 0, .column_group = isa::kCyclesPerStep * result};
  }

  void run() {
    // The longer of the two block dimensions is the one that runs through the registers without a break.
    along_inner_ = op_.inner_lw * form_.products >= op_.row_blocks;
    const int64_t groups = op_.columns / isa::kCyclesPerStep;
    const int64_t per_chunk = std::min(groups, kMaxColumnGroups);
    columns(0, per_chunk, groups / per_chunk);
    if (groups % per_chunk != 0) columns(groups - groups % per_chunk, groups % per_chunk, 1);
  }

 private:
  /// `chunks` times `groups` column groups from group `first` on.
  void columns(int64_t first, int64_t groups, int64_t chunks) {
    first_group_ = first;
    groups_ = groups;
    open_loop(chunks, {.row_block = 0, .inner_lw = 0, .column_group = groups});
    if (along_inner_) {
      open_loop(op_.row_blocks, {.row_block = 1, .inner_lw = 0, .column_group = 0});
      sequence(op_.inner_lw * form_.products);
      close_loop();
    } else {
      open_loop(op_.inner_lw, {.row_block = 0, .inner_lw = 1, .column_group = 0});
      for (word_ = 0; word_ < form_.products; ++word_) sequence(op_.row_blocks);
      word_ = 0;
      close_loop();
    }
    close_loop();
  }

  /// A loop of count 1 is none; it is remembered all the same, for close_loop.
  void open_loop(int64_t count, const Advance& step) {
    const bool real = count > 1;
    if (real) {
      builder_.begin_loop(count);
      steps_.push_back(step);
    }
    real_.push_back(real);
  }
  void close_loop() {
    if (real_.back()) {
      builder_.end_loop();
      steps_.pop_back();
    }
    real_.pop_back();
  }

  /// `count` blocks one after the other: pairs of x and y in a loop, then the last one or two.
  void sequence(int64_t count) {
    const int64_t pairs = (count - 1) / 2;
    const int64_t unroll = std::clamp<int64_t>((kMinMatrixOperations + 2 * groups_ - 1) / (2 * groups_), 1,
                                               std::max<int64_t>(pairs, 1));
    write(0);
    const int64_t iterations = pairs / unroll;
    if (iterations > 0) {
      open_loop(iterations, step_of_blocks(2 * unroll));
      for (int64_t pair = 0; pair < unroll; ++pair) emit_pair(2 * pair);
      close_loop();
    }
    for (int64_t pair = iterations * unroll; pair < pairs; ++pair) emit_pair(2 * pair);
    const int64_t last = 2 * pairs;
    if (last + 1 < count) write(last + 1);
    multiply(last);
    if (last + 1 < count) multiply(last + 1);
  }
  void emit_pair(int64_t block) {
    write(block + 1);
    multiply(block);
    write(block + 2);
    multiply(block + 1);
  }
  /// What `blocks` (even) blocks of the sequence are in row blocks or inner LW.
  Advance step_of_blocks(int64_t blocks) const {
    if (along_inner_) return {.row_block = 0, .inner_lw = blocks / form_.products, .column_group = 0};
    return {.row_block = blocks, .inner_lw = 0, .column_group = 0};
  }

  /// Words of an operand at block `block` of the sequence and column group `group`.
  int64_t offset(const Advance& by, int64_t block, int64_t group) const {
    const int64_t inner = along_inner_ ? block / form_.products : 0;
    const int64_t row = along_inner_ ? 0 : block;
    return by.row_block * row + by.inner_lw * inner + by.column_group * (first_group_ + group);
  }
  /// The word of the LW that holds the block's inner values.
  int64_t word(int64_t block) const { return along_inner_ ? block % form_.products : word_; }
  std::vector<int64_t> inner_strides(const Advance& by) const {
    std::vector<int64_t> strides;
    for (const Advance& step : steps_) {
      strides.push_back(by.row_block * step.row_block + by.inner_lw * step.inner_lw +
                        by.column_group * step.column_group);
    }
    return strides;
  }
  static Operand matrix(int64_t block, int64_t row, Width width) {
    Operand operand;
    operand.space = block % 2 == 0 ? Space::kMatX : Space::kMatY;
    operand.base = row;
    operand.width = width;
    return operand;
  }

  void write(int64_t block) {
    // One mwrite takes 4 rows, in half precision 8.
    const int64_t rows = form_.rows / form_.write_steps;
    const int64_t lw_per_cycle = rows / isa::kCyclesPerStep;
    const Width matrix_width = lw_per_cycle == 2 ? Width::kDoubleLong : Width::kLong;
    const Width width = form_.products == 2 ? Width::kWord : matrix_width;
    for (int64_t step = 0; step < form_.write_steps; ++step) {
      const Operand source = builder_.operand_at(
          a_, op_.a_at, offset(a_by_, block, 0) + step * rows * isa::kWordsPerLong + word(block),
          static_cast<int32_t>(lw_per_cycle * isa::kWordsPerLong), width, inner_strides(a_by_));
      builder_.emit(Opcode::kMwrite, precision_, {source}, {matrix(block, step * rows, matrix_width)},
                    "product");
    }
  }

  void multiply(int64_t block) {
    const Width vector_width = form_.products == 2 ? Width::kWord : Width::kLong;
    const Width result_width = form_.result_lw == 2 ? Width::kDoubleLong : Width::kLong;
    for (int64_t group = 0; group < groups_; ++group) {
      const Operand vector = builder_.operand_at(b_, op_.b_at, offset(b_by_, block, group) + word(block),
                                                 isa::kWordsPerLong, vector_width, inner_strides(b_by_));
      const Operand sum = builder_.operand_at(c_, op_.c_at, offset(c_by_, block, group),
                                              isa::words(result_width), result_width, inner_strides(c_by_));
      builder_.emit(Opcode::kMfma, precision_, {matrix(block, 0, Width::kLong), vector, sum}, {sum},
                    "product");
    }
  }

  MachineBuilder& builder_;
  const ProductTile& op_;
  const MatrixForm& form_;
  Precision precision_;
  int a_, b_, c_;
  Advance a_by_, b_by_, c_by_;
  bool along_inner_ = true;
  int64_t first_group_ = 0;
  int64_t groups_ = 0;
  int64_t word_ = 0;
  std::vector<Advance> steps_;  ///< of the machine loops open here
  std::vector<bool> real_;
};

}  // namespace

void lower_product(TileLoweringContext& context, const ProductTile& op) {
  isa::check_internal(op.columns % isa::kCyclesPerStep == 0 && op.row_blocks > 0 && op.inner_lw > 0,
                      kContractLoweringPart, "product of {} row blocks, {} inner LW, {} columns",
                      op.row_blocks, op.inner_lw, op.columns);
  ProductLowering(context, op).run();
}

}  // namespace kodama::compiler
