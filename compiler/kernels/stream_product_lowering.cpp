#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "compiler/kernels/lowering.h"
#include "isa/arithmetic.h"

/// Products whose operands come piece by piece while earlier pieces are multiplied.
///
/// A local memory has one address per step, and can't be read soon after a write. So nothing is written to
/// the one whose vectors are multiplied: the next piece's go to the other. A register file has one address
/// that is read per step: what goes to the matrix registers and the other local memory is in the one that has
/// no sums of the products at that time. A matrix is used once, and stays nowhere.
namespace kodama::compiler {

using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::Space;
using isa::Width;
using layout::L1bMode;
using layout::MabMode;
using layout::Transport;

namespace {

constexpr const char* kStreamOrigin = "product";
constexpr int kFirstStreamTag = 9;  // behind those of loads and stores of tiles
/// Pieces in the PEs: one that is used, one that is filled.
constexpr size_t kHalves = 2;
/// Pieces in L2BM, as many as an iteration has.
constexpr int64_t kRing = StreamProduct::kPiecesInL2bm;
/// How many pieces ahead of those whose products are made transfers are issued, of matrices and of vectors.
constexpr int64_t kMatricesAhead = 2;
constexpr int64_t kVectorsAhead = 3;
/// Portions of an operand in L1BM.
constexpr int64_t kPortionSlots = 8;
/// Vectors, and matrices, on their way in a register file.
constexpr int64_t kRawSlots = 4;
constexpr int64_t kMatrixSlots = 2;

class StreamProductLowering {
 public:
  StreamProductLowering(TileLoweringContext& context, const StreamProduct& op)
      : builder_(context.builder),
        chip_(context.builder.chip()),
        op_(op),
        form_(matrix_form(op.precision)),
        precision_(matrix_instruction_precision(op.precision)),
        sums_{context.buffer_values[static_cast<size_t>(op.c[0])],
              op.c[1] < 0 ? -1 : context.buffer_values[static_cast<size_t>(op.c[1])]} {
    for (size_t k = 0; k < kHalves; ++k) {
      vectors_.at(k) = context.buffer_values[static_cast<size_t>(op.b_buffers.at(k))];
      const isa::SpaceSet home = isa::space_bit(k == 0 ? Space::kGrf0 : Space::kGrf1);
      raw_.at(k) = builder_.value("raw", kRawSlots * isa::kCyclesPerStep * isa::kWordsPerLong, home);
      matrices_.at(k) = builder_.value("matrix", kMatrixSlots * form_.rows * isa::kWordsPerLong, home);
    }
    int64_t l2bm = 0;
    int tag = kFirstStreamTag;
    for (const auto& [source, lw, side] :
         {std::tuple(&op.a, op.a_lw(), &sides_[0]), std::tuple(&op.b, op.b_lw(), &sides_[1])}) {
      side->stream = &context.program.streams[static_cast<size_t>(source->stream)];
      side->source = source;
      side->numbers = lw;
      const Transport& transport = side->stream->transport;
      side->part_lw = transport.part_lw(side->stream->length_lw);
      side->l2bm_lw = source->pitch * transport.l2bm_lw_per_number();
      // As much as a step brings to L1BM, or as one takes from there.
      side->portion =
          std::max(isa::kCyclesPerStep * transport.l1bm_lw_per_number(), l2bm_step_lw(transport)) /
          transport.l1bm_lw_per_number();
      side->l1bm = side == sides_.data() ? 0 : chip_.memory.l1bm_lw / 2;
      side->l2bm = l2bm;
      l2bm += side->l2bm_lw;
      side->mvs = static_cast<int>(
          mv_instructions(transport, true, 0, space_operand(Space::kDram, 0), 0, 0, 1, chip_).size());
      side->tag = tag;
      tag += static_cast<int>(kRing) * side->mvs;
    }
    l2bm_piece_ = l2bm;
  }

  void run() {
    for (int64_t piece = 0; piece < kVectorsAhead; ++piece) {
      if (piece < kMatricesAhead && piece < op_.pieces) fetch(sides_[0], piece);
      if (piece < op_.pieces) fetch(sides_[1], piece);
    }
    wait(sides_[1], 0);
    for (int64_t portion = 0; portion < portions(sides_[1]); ++portion) vector_portion(portion, 0);
    wait(sides_[0], 0);
    matrix(0, 0);
    const int64_t loops = (op_.pieces - kVectorsAhead) / kRing;
    int64_t piece = 0;
    if (loops > 1) {
      // What an iteration begins with is what the next does: matrix registers take turns.
      builder_.begin_loop(loops);
      looped_ = true;
      for (; piece < kRing; ++piece) multiply(piece);
      looped_ = false;
      builder_.end_loop();
      piece = loops * kRing;
    }
    for (; piece < op_.pieces; ++piece) multiply(piece);
  }

 private:
  static constexpr auto kTwo = static_cast<int64_t>(kHalves);
  struct Side {
    const TileStream* stream = nullptr;
    const StreamProduct::Source* source = nullptr;
    int64_t numbers = 0;  ///< of a piece
    int64_t part_lw = 0, l2bm_lw = 0, l2bm = 0, l1bm = 0;
    int64_t portion = 0;  ///< numbers that go through L1BM at a time
    int mvs = 0, tag = 0;
  };
  static int64_t portions(const Side& side) { return isa::ceil_div(side.numbers, side.portion); }

  /// Piece `piece` of an operand to L2BM.
  void fetch(const Side& side, int64_t piece) {
    const int64_t slot = piece % kRing;
    const Transport& transport = side.stream->transport;
    const int64_t unit = transport.l2bm_lw_per_number();
    std::vector<int64_t> strides;
    if (looped_) strides.push_back(kRing * side.source->pitch * unit);
    const Operand dram = space_operand(
        Space::kDram,
        side.stream->dram_address + (side.source->from.base + piece * side.source->pitch) * unit,
        builder_.loop_strides(side.source->from, unit, strides));
    for (isa::Instruction& mv :
         mv_instructions(transport, true, side.l2bm_lw, dram, side.part_lw, slot * l2bm_piece_ + side.l2bm,
                         side.tag + static_cast<int>(slot) * side.mvs, chip_)) {
      builder_.emit(std::move(mv), origin(side));
    }
  }
  void wait(const Side& side, int64_t piece) {
    for (int k = 0; k < side.mvs; ++k)
      builder_.emit_wait(side.tag + static_cast<int>(piece % kRing) * side.mvs + k, origin(side), true);
  }
  static std::string origin(const Side& side) { return "load " + side.stream->name; }

  /// `numbers` numbers of a side from `first` on, of piece `piece`, to L1BM; where they are there.
  int64_t to_l1bm(const Side& side, int64_t first, int64_t numbers, int64_t slot, int64_t piece) {
    const Transport& transport = side.stream->transport;
    const int64_t fan_in = transport.l1bm_lw_per_number();
    const int64_t l2bm = piece % kRing * l2bm_piece_ + side.l2bm + first * transport.l2bm_lw_per_number();
    const int64_t l1bm = side.l1bm + slot % kPortionSlots * numbers * fan_in;
    const int64_t step = l2bm_step_lw(transport);
    const int64_t widen = transport.l2bm_lw_per_number() / fan_in;
    for (int64_t at = 0; at < numbers * fan_in; at += step) {
      isa::Instruction move;
      move.opcode = transport.l1b_mode() == L1bMode::kDistribute ? Opcode::kL2bmd : Opcode::kL2bmb;
      move.sources = {space_operand(Space::kL2bm, l2bm + at * widen)};
      move.destinations = {space_operand(Space::kL1bm, l1bm + at)};
      builder_.emit(std::move(move), origin(side));
    }
    return l1bm;
  }
  /// Four numbers from L1BM, as block floats.
  void to_pes(const Side& side, int64_t l1bm, const Operand& to) {
    const Operand raw = MachineBuilder::operand(
        raw_.at(free_), raw_number_++ % kRawSlots * isa::kCyclesPerStep * isa::kWordsPerLong);
    builder_.emit(side.stream->transport.mab_mode() == MabMode::kDistribute ? Opcode::kL1bmd : Opcode::kL1bmm,
                  Precision::kNone, {space_operand(Space::kL1bm, l1bm)}, {raw}, origin(side));
    emit_normalize(builder_, op_.precision, raw, to, origin(side));
  }

  /// A portion of piece `piece` of the vectors.
  void vector_portion(int64_t portion, int64_t piece) {
    const Side& side = sides_[1];
    const int64_t first = portion * side.portion;
    const int64_t l1bm = to_l1bm(side, first, side.portion, portion, piece);
    for (int64_t at = 0; at < std::min(side.portion, side.numbers - first); at += isa::kCyclesPerStep) {
      to_pes(side, l1bm + at * side.stream->transport.l1bm_lw_per_number(),
             MachineBuilder::operand(vectors_.at(static_cast<size_t>(piece % kTwo)),
                                     (first + at) * isa::kWordsPerLong));
    }
  }
  /// Matrix `block` of piece `piece` to its register. Those of a piece are in the order inner LW, row blocks,
  /// so that a sum isn't needed again at once.
  void matrix(int64_t block, int64_t piece) {
    const Side& side = sides_[0];
    const int64_t first = (row_block(block) * op_.inner_lw + inner(block)) * form_.rows;
    const int64_t l1bm = to_l1bm(side, first, form_.rows, matrix_number_, piece);
    const int64_t slot = matrix_number_ % kMatrixSlots * form_.rows;
    const int64_t rows = form_.rows / form_.write_steps;
    for (int64_t row = 0; row < form_.rows; row += isa::kCyclesPerStep) {
      to_pes(side, l1bm + row * side.stream->transport.l1bm_lw_per_number(),
             MachineBuilder::operand(matrices_.at(free_), (slot + row) * isa::kWordsPerLong));
    }
    for (int64_t step = 0; step < form_.write_steps; ++step) {
      builder_.emit(Opcode::kMwrite, precision_,
                    {MachineBuilder::operand(matrices_.at(free_), (slot + step * rows) * isa::kWordsPerLong)},
                    {register_of(matrix_number_, step * rows)}, kStreamOrigin);
    }
    ++matrix_number_;
  }

  /// Products of a piece, and beside them what brings the next two nearer.
  void multiply(int64_t piece) {
    const bool has_next = looped_ || piece + 1 < op_.pieces;
    if (has_next) wait(sides_[1], piece + 1);
    // Vectors of this piece are in the PEs, and so are the matrices of the one before.
    if (looped_ || piece + kMatricesAhead < op_.pieces) fetch(sides_[0], piece + kMatricesAhead);
    if (looped_ || piece + kVectorsAhead < op_.pieces) fetch(sides_[1], piece + kVectorsAhead);
    const int64_t blocks = op_.inner_lw * op_.row_blocks;
    const int64_t next = has_next ? portions(sides_[1]) : 0;
    int64_t sent = 0;
    for (int64_t block = 0; block < blocks; ++block) {
      free_ = is_first(block) ? 1 : 0;
      const int64_t number = matrix_number_ - 1;
      if (block + 1 < blocks) {
        matrix(block + 1, piece);
      } else if (has_next) {
        wait(sides_[0], piece + 1);
        matrix(0, piece + 1);
      }
      products(block, number, piece);
      const int64_t share = (block + 1) * next / blocks;
      for (; sent < share; ++sent) vector_portion(sent, piece + 1);
    }
  }

  int64_t row_block(int64_t block) const { return block % op_.row_blocks; }
  int64_t inner(int64_t block) const { return block / op_.row_blocks; }
  bool is_first(int64_t block) const { return row_block(block) < op_.first_blocks(); }
  static Operand register_of(int64_t number, int64_t row) {
    Operand operand = space_operand(number % 2 == 0 ? Space::kMatX : Space::kMatY, row);
    operand.width = Width::kLong;
    return operand;
  }

  void products(int64_t block, int64_t number, int64_t piece) {
    const int64_t sums = (row_block(block) - (is_first(block) ? 0 : op_.first_blocks())) * op_.columns;
    for (int64_t column = 0; column < op_.columns; column += isa::kCyclesPerStep) {
      const Operand vector =
          MachineBuilder::operand(vectors_.at(static_cast<size_t>(piece % kTwo)),
                                  (inner(block) * op_.columns + column) * isa::kWordsPerLong);
      const Operand sum =
          MachineBuilder::operand(sums_.at(is_first(block) ? 0 : 1), (sums + column) * isa::kWordsPerLong);
      builder_.emit(Opcode::kMfma, precision_, {register_of(number, 0), vector, sum}, {sum}, kStreamOrigin);
    }
  }

  MachineBuilder& builder_;
  const isa::Chip& chip_;
  const StreamProduct& op_;
  const MatrixForm& form_;
  Precision precision_;
  std::array<int, kHalves> sums_;
  std::array<int, kHalves> vectors_{};           ///< of a piece
  std::array<int, kHalves> raw_{}, matrices_{};  ///< in either register file
  std::array<Side, 2> sides_;                    ///< a, b
  size_t free_ = 1;                              ///< the register file without sums that are in use
  int64_t raw_number_ = 0, matrix_number_ = 0;
  int64_t l2bm_piece_ = 0;
  bool looped_ = false;
};

}  // namespace

void lower_stream_product(TileLoweringContext& context, const StreamProduct& op) {
  StreamProductLowering(context, op).run();
}

}  // namespace kodama::compiler
