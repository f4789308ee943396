/// Words of tables in LM0 by indices that are data: through T, which has an address for every cycle.
///
/// An index becomes an address in one step, with whatever is no place made the place behind the last by an
/// unsigned minimum; T reads the lower word of what it is set to, so the upper word of a LW is shifted down
/// for its turn. Example, words by the index LW {7, 2} (in every PE, for every cycle its own):
///
///     umin index, places -> value, T      T = 2
///     passa LM0[T] -> lower word          of place 2
///     lsr value, 32 -> T                  T = 7
///     passa LM0[T] -> upper word          of place 7
#include "compiler/kernels/lowering.h"
#include "isa/error.h"

namespace kodama::compiler {
namespace {

using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::Width;

/// Vectors in a loop's body, so that one fills the distances of the others.
constexpr int64_t kVectorsAtOnce = 4;
constexpr int64_t kVectorWords = int64_t{isa::kCyclesPerStep} * isa::kWordsPerLong;
constexpr uint32_t kWordBits = 32;

class GatherLowering {
 public:
  GatherLowering(TileLoweringContext& context, const GatherTile& op)
      : builder_(context.builder),
        op_(op),
        table_(context.buffer_values[static_cast<size_t>(op.table)]),
        index_(context.buffer_values[static_cast<size_t>(op.index)]),
        out_(context.buffer_values[static_cast<size_t>(op.out)]) {}

  void run() {
    const int64_t vectors = op_.count / isa::kCyclesPerStep;
    const int64_t rounds = vectors / kVectorsAtOnce;
    if (rounds > 1) {
      builder_.begin_loop(rounds);
      strides_ = {kVectorsAtOnce * kVectorWords};
      for (int64_t v = 0; v < kVectorsAtOnce; ++v) vector(v);
      builder_.end_loop();
      strides_.clear();
    }
    for (int64_t v = rounds > 1 ? rounds * kVectorsAtOnce : 0; v < vectors; ++v) vector(v);
  }

 private:
  static Operand t() { return space_operand(isa::Space::kT, 0); }
  static Operand constant(int value) { return MachineBuilder::operand(value, 0, 0); }

  /// `opcode` of x and y into all of `to`, words without a sign.
  void integer(Opcode opcode, Precision precision, Operand x, Operand y, std::vector<Operand> to) {
    isa::Instruction instruction;
    instruction.opcode = opcode;
    instruction.precision = precision;
    instruction.unsigned_op = opcode != Opcode::kAdd;
    instruction.sources = {std::move(x), std::move(y)};
    instruction.destinations = std::move(to);
    builder_.emit(std::move(instruction), "gather");
  }

  void vector(int64_t number) {
    const auto new_value = [&] {
      return MachineBuilder::operand(builder_.value(
          "address", kVectorWords, isa::space_bit(isa::Space::kGrf0) | isa::space_bit(isa::Space::kGrf1)));
    };
    const int64_t words = number * kVectorWords;
    const Operand index =
        builder_.operand_at(index_, op_.index_at, words, isa::kWordsPerLong, Width::kLong, strides_);
    const Operand most = constant(builder_.constant_bits(static_cast<uint32_t>(op_.places)));
    Operand address = new_value();
    if (op_.form == GatherTile::Form::kWords) {
      integer(Opcode::kMin, Precision::kInt, index, most, {address, t()});
    } else {
      const Operand place = new_value();
      integer(Opcode::kMin, Precision::kInt, index, most, {place});
      integer(Opcode::kAdd, Precision::kInt, place, place, {address, t()});
    }
    if (op_.form == GatherTile::Form::kPairs) {
      read(words, Width::kLong, Precision::kLong, 0, 0);
      return;
    }
    // Places of a LW have their lower word one further on.
    read(words, Width::kWord, Precision::kInt, op_.form == GatherTile::Form::kOwn ? 1 : 0, 1);
    integer(Opcode::kLsr, Precision::kLong, address, constant(builder_.constant_bits(kWordBits)), {t()});
    read(words, Width::kWord, Precision::kInt, 0, 0);
  }

  /// Of all tables, where T points, `offset` words further on, to the results of a vector.
  void read(int64_t words, Width width, Precision precision, int64_t offset, int64_t word) {
    for (int64_t table = 0; table < op_.tables; ++table) {
      // An inner stride of 0: tables are the same for all vectors.
      const std::vector<int64_t> still(strides_.size(), 0);
      Operand from = builder_.operand_at(table_, op_.table_at,
                                         table * op_.table_lw * isa::kWordsPerLong + offset, 0, width, still);
      from.t_indirect = true;
      const Operand to =
          builder_.operand_at(out_, op_.out_at, table * op_.count * isa::kWordsPerLong + words + word,
                              isa::kWordsPerLong, width, strides_);
      builder_.emit(Opcode::kPassa, precision, {from}, {to}, "gather");
    }
  }

  MachineBuilder& builder_;
  const GatherTile& op_;
  int table_, index_, out_;
  std::vector<int64_t> strides_;
};

}  // namespace

void lower_gather(TileLoweringContext& context, const GatherTile& op) {
  GatherLowering(context, op).run();
}

}  // namespace kodama::compiler
