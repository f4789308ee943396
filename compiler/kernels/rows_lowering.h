#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/kernels/lowering.h"
#include "compiler/kernels/rows.h"
#include "compiler/tile/tile_program.h"
#include "isa/instruction.h"

/// What operations on images of rows are made of (rows_lowering.cpp).
namespace kodama::compiler {

/// MVs of all transfers, and a wait for each.
void emit_rows_transfers(TileLoweringContext& context, int stream, bool to_chip, const std::string& origin,
                         const std::vector<RowsTransfer>& list);

/// The MABs of every quad that take what a cycle brings: those of this number among the quad's.
using BlocksOfCycles = std::array<int64_t, isa::kCyclesPerStep>;
/// Each the block of its number.
inline constexpr BlocksOfCycles kBlockOfCycle = {0, 1, 2, 3};
/// A mask register in which these cycles are set.
int block_mask(TileLoweringContext& context, const BlocksOfCycles& blocks);
/// Up to four columns of the chunks of a stack: `at(chunk, column)` is where L1BM has one.
struct BlockColumns {
  MatrixPrecision precision = MatrixPrecision::kGFloat;
  int64_t stack = 1;  ///< chunks that there may be in one
  int64_t chunks = 1, columns = isa::kCyclesPerStep;
  int64_t channels = kChunkChannels;  ///< of the last chunk; the others become 0
  std::function<int64_t(int64_t chunk, int64_t column)> at = {};
};
/// The floats of them that every MAB has to normalize (emit_normalize), for each place of the stack: 0 where
/// it has no chunk, and behind the last column.
std::vector<isa::Operand> take_blocks(TileLoweringContext& context, const BlockColumns& from,
                                      const std::string& origin);
/// The masks that this takes where four columns of each of up to `chunks` chunks stand side by side, to be
/// made outside of loops.
void make_block_masks(TileLoweringContext& context, MatrixPrecision precision, int64_t stack, int64_t chunks,
                      int64_t channels);
/// What l1bmr4 adds up of a vector's sums.
isa::Operand sums_of_vector(int sums, const StackedSums& of, int64_t vector);
/// A mask of the MABs whose number, of the bits `bits`, has those of `value`.
int mab_mask(TileLoweringContext& context, int64_t bits, int64_t value);
/// A mask in which cycle c is set in the L1Bs from inside[c].first to inside[c].second; only where the mask
/// `under` is, if there is one.
int l1b_mask(TileLoweringContext& context, const TileLoweringContext::Inside& inside, int under = -1);
/// The same for MABs: that of number m has 16 * lane + m.
int lane_mask(TileLoweringContext& context, const TileLoweringContext::Inside& inside);
/// Those that lower_load_lines takes for a load; they stay for others that take the same.
void add_lane_masks(std::set<TileLoweringContext::Inside>& masks, const LoadLines& op, const isa::Chip& chip);
/// Combines a window's elements, in two halves that don't wait for each other.
class WindowFold {
 public:
  /// `expr` of an element and its weight.
  WindowFold(MachineBuilder& builder, ReduceLayer::Op op, const ScalarExpr& expr);
  void take(std::vector<isa::Operand> element);
  /// What all came to, of none what changes nothing; the next window begins.
  isa::Operand total();
  /// op(a, b).
  isa::Operand combine(const isa::Operand& a, const isa::Operand& b);

 private:
  MachineBuilder& builder_;
  ReduceLayer::Op op_;
  ScalarExpr expr_, combine_, step_;
  std::vector<isa::Operand> halves_;
  size_t number_ = 0;
};

/// The numbers of a window's positions (PositionNumbers).
class WindowNumbers {
 public:
  /// `op` and `expr` of a reduction; `input`: that of `expr` which is the number.
  WindowNumbers(const PositionNumbers& numbers, int64_t positions, ReduceLayer::Op op, const ScalarExpr& expr,
                int input);
  /// Whether a position changes nothing, whatever the elements are.
  bool is_passed(const std::array<int64_t, 2>& phase, int64_t position) const {
    return !is_passed_.empty() && is_passed_[at(phase, position)];
  }
  /// Positions of all phases that are not passed.
  int64_t count() const;
  /// Adds the number to an element's values, if there are any.
  void add_to(std::vector<isa::Operand>& element, MachineBuilder& builder,
              const std::array<int64_t, 2>& phase, int64_t position) const;

 private:
  size_t at(const std::array<int64_t, 2>& phase, int64_t position) const {
    return static_cast<size_t>((phase[0] * numbers_.phases[1] + phase[1]) * positions_ + position);
  }
  PositionNumbers numbers_;
  int64_t positions_;
  std::vector<bool> is_passed_;
};

/// The input of a reduction's expression that is a number: behind windows and weights.
template <typename Op>
int number_input(const Op& op) {
  return 1 + static_cast<int>(op.others.size()) + (op.weights >= 0 ? 1 : 0);
}

/// The first `count` cycles of a step.
isa::Mask first_cycles(int64_t count);
/// Written where a mask register has a mask's cycle.
isa::Operand masked(isa::Operand operand, int mask);
/// Writes a result to where it stays (KeptRows), too.
void keep(MachineBuilder& builder, const isa::Operand& result, const isa::Operand& place);

}  // namespace kodama::compiler
