#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "isa/error.h"
#include "layout/moves/move_emission.h"

namespace kodama::layout {
namespace {

using isa::FixedConstant;
using isa::Instruction;
using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::Space;
using isa::Width;

/// Primitives in which nothing leaves the MAB.
class InPe : public MoveEmission {
 public:
  using MoveEmission::MoveEmission;

  void copy() {
    std::vector<std::pair<int64_t, int64_t>> pairs;
    for (const BitMask value : view_.values(before_bits()))
      pairs.emplace_back(address(at_.after, value), address(at_.before, value));
    code_.copies(std::move(pairs), at_.before.memory, at_.after.memory);
  }

  void matrix() {
    const bool with_words = move_.kind == MoveKind::kMatrixWords;
    const int word_bits = with_words ? shape_.word : 0;
    const int first = with_words ? 0 : shape_.first(Level::kPe);
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

  void select() {
    std::vector<Code::Field> fields;
    BitMask chosen = 0;
    for (int slot = 0; slot < shape_.count(); ++slot) {
      const int bit = move_.after[static_cast<size_t>(slot)];
      if (bit < 0 || move_.before[static_cast<size_t>(slot)] != kEverywhere) continue;
      chosen |= mask_of(bit);
      const int64_t words = 2 * at_.before.stride[static_cast<size_t>(bit)];
      const int shift = std::countr_zero(static_cast<uint64_t>(words));
      const Level level = shape_.level(slot);
      const FixedConstant constant = level == Level::kL1b   ? FixedConstant::kL1bid
                                     : level == Level::kL2b ? FixedConstant::kL2bid
                                                            : FixedConstant::kPeid;
      const int low = shape_.power(slot) + (level == Level::kMab ? SlotShape::kPeBits : 0);
      if (!fields.empty() && fields.back().constant == constant &&
          fields.back().low + fields.back().count == low &&
          fields.back().shift + fields.back().count == shift) {
        ++fields.back().count;
      } else {
        fields.push_back({constant, low, 1, shift});
      }
    }
    code_.field_sum_to(fields, Code::t());
    std::vector<int64_t> offsets;
    for (const BitMask value : view_.values(chosen))
      offsets.push_back(address(at_.before, value) - at_.before.base);
    code_.t_holds(std::move(offsets));
    std::vector<std::pair<int64_t, int64_t>> pairs;
    for (const BitMask value : view_.values(before_bits() & ~chosen))
      pairs.emplace_back(address(at_.after, value), address(at_.before, value));
    code_.copies(std::move(pairs), at_.before.memory, at_.after.memory, true);
  }
};

}  // namespace

const EmitMove emit_copy = emit_with<InPe, &InPe::copy>;
const EmitMove emit_matrix = emit_with<InPe, &InPe::matrix>;
const EmitMove emit_select = emit_with<InPe, &InPe::select>;

}  // namespace kodama::layout
