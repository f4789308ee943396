#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compiler/kernels/lowering.h"
#include "compiler/tile/tile_program.h"
#include "isa/instruction.h"

/// What operations on images of rows are made of (rows_lowering.cpp).
namespace kodama::compiler {

/// MVs of all transfers, and a wait for each.
void emit_rows_transfers(TileLoweringContext& context, int stream, bool to_chip, const std::string& origin,
                         const std::vector<RowsTransfer>& list);

/// A mask register in which cycle c of MAB m is set where c is m modulo the blocks of a chunk.
int block_mask(TileLoweringContext& context);
/// The same for the first `channels` of a chunk alone.
int channel_mask(TileLoweringContext& context, int64_t channels);
/// A mask of the MABs whose number, of the bits `bits`, has those of `value`.
int mab_mask(TileLoweringContext& context, int64_t bits, int64_t value);
/// A mask in which cycle c is set in the L1Bs from inside[c].first to inside[c].second; only where the mask
/// `under` is, if there is one.
int l1b_mask(TileLoweringContext& context, const TileLoweringContext::Inside& inside, int under = -1);
/// The same for MABs: that of number m has 16 * lane + m.
int lane_mask(TileLoweringContext& context, const TileLoweringContext::Inside& inside);
/// Combines a window's elements, in two halves that don't wait for each other.
class WindowFold {
 public:
  /// `expr` of an element and its weight.
  WindowFold(MachineBuilder& builder, ReduceLayer::Op op, const ScalarExpr& expr);
  void take(std::vector<isa::Operand> element);
  /// What all came to; the next window begins.
  isa::Operand total();
  /// op(a, b).
  isa::Operand combine(const isa::Operand& a, const isa::Operand& b);

 private:
  MachineBuilder& builder_;
  ScalarExpr expr_, combine_, step_;
  std::vector<isa::Operand> halves_;
  size_t number_ = 0;
};

/// The first `count` cycles of a step.
isa::Mask first_cycles(int64_t count);
/// Written where a mask register has a mask's cycle.
isa::Operand masked(isa::Operand operand, int mask);

}  // namespace kodama::compiler
