#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "layout/moves/move_emission.h"
#include "layout/moves/move_proposals.h"
#include "layout/primitives/primitive_list.h"

namespace kodama::layout {
namespace {

using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::Space;
using isa::Width;

/// Both fill the slots from `first` on; `factor`: steps per long word.
void propose_matrix(MoveProposals& here, int first, int count, double factor) {
  for (const bool empty : {false, true}) {
    if (empty && !here.must_empty(first, count)) continue;
    const std::vector<int> in = here.incoming(first, count, {}, empty);
    // Blocks are read and written whole.
    const double blocks = static_cast<double>(here.view.value_count(here.lines & ~mask_of(in)));
    here.add(here.with(first, in),
             std::max(std::exp2(count) * blocks, here.larger(here.with(first, in))) * factor);
  }
}

void propose_matrix_pe(MoveProposals& here) {
  propose_matrix(here, here.shape.first(Level::kPe), SlotShape::kPeBits, 1.0 / 4);
}

/// Halves are read two columns at a time, at half the rate.
void propose_matrix_words(MoveProposals& here) {
  if (here.shape.word == 0) return;
  propose_matrix(here, 0, here.shape.word + SlotShape::kPeBits, here.shape.word == 2 ? 3.0 / 8 : 1.0 / 4);
}

template <bool kWithWords>
class MatrixBlocks : public MoveEmission {
 public:
  using MoveEmission::MoveEmission;

  void write() {
    const int word_bits = kWithWords ? shape_.word : 0;
    const int first = kWithWords ? 0 : shape_.first(Level::kPe);
    const int count = word_bits + SlotShape::kPeBits;
    const std::vector<int> out = contents(move_.before, first, count);
    const std::vector<int> in = contents(move_.after, first, count);
    const int rows = 1 << count;
    const Precision precision = word_bits == 0   ? Precision::kDouble
                                : word_bits == 1 ? Precision::kFloat
                                                 : Precision::kHalf;
    bool use_y = false;
    for (const BitMask outer : values_at_pace(before_bits() & ~mask_of(in))) {
      Operand matrix_register;
      matrix_register.space = use_y ? Space::kMatY : Space::kMatX;
      use_y = !use_y;
      for (int row = 0; row < rows; row += isa::kCyclesPerStep) {
        std::array<int64_t, 4> addresses{};
        for (int c = 0; c < isa::kCyclesPerStep; ++c) {
          // A row that holds nothing can be any.
          const BitMask value = spread_bits(row + c, in).value_or(0);
          addresses[static_cast<size_t>(c)] = address(at_.before, outer | value);
        }
        matrix_register.base = row;
        code_.add(make_instruction(Opcode::kMwrite, precision,
                                   Code::pe(at_.before.memory, addresses, Width::kLong, chip_),
                                   matrix_register));
      }
      // Halves are read two columns at a time.
      const int columns = word_bits == 2 ? 2 * isa::kCyclesPerStep : isa::kCyclesPerStep;
      for (int column = 0; column < rows; column += columns) {
        std::array<int64_t, 4> addresses{};
        uint8_t cycles = 0;
        for (int c = 0; c < isa::kCyclesPerStep; ++c) {
          const auto value = spread_bits(column + c * (columns / isa::kCyclesPerStep), out);
          if (!value || !is_valid(outer | *value, (before_bits() & ~mask_of(in)) | mask_of(out))) continue;
          addresses[static_cast<size_t>(c)] = address(at_.after, outer | *value);
          cycles |= static_cast<uint8_t>(8 >> c);
        }
        if (cycles == 0) continue;
        matrix_register.base = column;
        matrix_register.width = word_bits == 2 ? Width::kDoubleLong : Width::kLong;
        code_.add(make_instruction(Opcode::kMread, precision, matrix_register,
                                   written(at_.after.memory, addresses, cycles,
                                           word_bits == 2 ? Width::kDoubleLong : Width::kLong)));
        matrix_register.width = Width::kLong;
      }
    }
  }
};

MoveNeeds matrix_words_needs(const BitView& view, const Move& move) {
  MoveNeeds needs = needs_other_memory(view, move);
  if (view.shape.word == 2) {
    needs.target_has_one = needs.target_one_required = true;
    needs.target_one = std::max<int>(move.before[0], -1);
  }
  return needs;
}

}  // namespace

MovePrimitive matrix_primitive() {
  return {.name = "matrix",
          .description = "PE bits <-> two address bits, through the matrix registers",
          .precondition = "",
          .cost = "n/4",
          .overlap = {.uses_t = false},
          .propose = propose_matrix_pe,
          .needs = needs_other_memory,
          .emit = emit_with<MatrixBlocks<false>>};
}

MovePrimitive matrix_words_primitive() {
  return {.name = "matrix-words",
          .description = "word and PE bits <-> as many address bits",
          .precondition = "elements of 16 or 32 bits",
          .cost = "n/4 (16 bits: 3n/8)",
          .overlap = {.uses_t = false},
          .propose = propose_matrix_words,
          .needs = matrix_words_needs,
          .emit = emit_with<MatrixBlocks<true>>};
}

}  // namespace kodama::layout
