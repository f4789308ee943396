#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "compiler/kernels/lowering.h"
#include "compiler/kernels/rows.h"
#include "compiler/kernels/rows_lowering.h"

/// What a MAB takes of columns of images of rows: its block of a stack of chunks, as block floats.
namespace kodama::compiler {

using isa::kCyclesPerStep;
using isa::kWordsPerLong;
using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::Space;
using isa::Width;

namespace {

constexpr isa::SpaceSet kBlockRegisters = isa::space_bit(Space::kGrf0) | isa::space_bit(Space::kGrf1);
/// No MAB's number modulo the blocks of a chunk.
constexpr int64_t kNobody = kBlocksPerChunk;
/// MABs of a quad that take the same chunk of a stack of two.
constexpr int64_t kStackMabs = 2;

Operand four_lw(MachineBuilder& builder, const char* name) {
  return MachineBuilder::operand(builder.value(name, kCyclesPerStep * kWordsPerLong, kBlockRegisters));
}

/// block_mask for the first `channels` of a chunk alone, whose blocks come in the order of cycles.
int channel_mask(TileLoweringContext& context, int64_t channels, const BlocksOfCycles& of_cycles) {
  if (channels == kChunkChannels) return block_mask(context, of_cycles);
  const auto [known, is_new] = context.channel_masks.try_emplace({channels, of_cycles}, -1);
  if (!is_new) return known->second;
  const int blocks = block_mask(context, of_cycles);
  MachineBuilder& builder = context.builder;
  const std::string origin = "channels there are";
  // The number of a channel in its block, twice that of the PE and the word's; the flag of a difference is
  // that it isn't negative.
  const Operand subpe = space_operand(Space::kConstant, static_cast<int64_t>(isa::FixedConstant::kSubpeid));
  const int words = builder.value("words", kWordsPerLong, kBlockRegisters);
  builder.emit(integer_immediate(0, MachineBuilder::operand(words, 0, 0)), origin);
  builder.emit(integer_immediate(1, MachineBuilder::operand(words, 1, 0, Width::kWord)), origin);
  const Operand once = four_lw(builder, "channel"), twice = four_lw(builder, "channel");
  builder.emit(Opcode::kAdd, Precision::kInt, {subpe, MachineBuilder::operand(words, 0, 0)}, {once}, origin);
  builder.emit(Opcode::kAdd, Precision::kInt, {subpe, once}, {twice}, origin);
  const int limits = builder.value("limits", kCyclesPerStep * kWordsPerLong, kBlockRegisters);
  const int64_t block = kChunkChannels / kBlocksPerChunk;
  for (int64_t c = 0; c < kCyclesPerStep; ++c)
    builder.emit(integer_immediate(static_cast<uint32_t>(channels - 1 - c * block),
                                   MachineBuilder::operand(limits, c * kWordsPerLong, 0)),
                 origin);
  const int mask = builder.value("channels", 1, isa::space_bit(Space::kOmr), 1);
  builder.emit(Opcode::kSub, Precision::kInt, {MachineBuilder::operand(limits), twice},
               {masked(MachineBuilder::operand(mask, 0, 0, Width::kWord), blocks)}, origin);
  return context.channel_masks[{channels, of_cycles}] = mask;
}

/// Whether a MAB takes two LW of a column.
bool takes_two_lw(MatrixPrecision precision, int64_t stack) {
  return stack > 1 || matrix_form(precision).stream_lw > 1;
}

/// Blocks of two LW that cycles bring of two columns of a chunk side by side, and of its column alone: of the
/// MABs that take chunk `chunk` of a stack of two.
BlocksOfCycles two_columns(int64_t chunk) {
  const int64_t first = chunk * kStackMabs;
  return {first, first + 1, first, first + 1};
}
BlocksOfCycles one_column(int64_t chunk) {
  return chunk == 0 ? BlocksOfCycles{0, 1, kNobody, kNobody} : BlocksOfCycles{kNobody, kNobody, 2, 3};
}

/// The same where a cycle brings one block: the first or the second of those that a MAB takes.
BlocksOfCycles one_lw(int64_t chunk, int64_t lw) {
  BlocksOfCycles blocks = {kNobody, kNobody, kNobody, kNobody};
  for (int64_t mab = 0; mab < kStackMabs; ++mab)
    blocks.at(static_cast<size_t>(2 * mab + lw)) = chunk * kStackMabs + mab;
  return blocks;
}

/// A step that brings two blocks of eight channels in every cycle, from `l1bm` on.
void two_blocks(TileLoweringContext& context, int64_t l1bm, Operand to, const BlocksOfCycles& blocks,
                const std::string& origin) {
  to.width = Width::kDoubleLong;
  to = masked(std::move(to), block_mask(context, blocks));
  to.mask.double_long = true;
  Operand from = space_operand(Space::kL1bm, l1bm);
  from.width = Width::kDoubleLong;
  context.builder.emit(Opcode::kL1bmm, Precision::kNone, {std::move(from)}, {std::move(to)}, origin);
}

/// The floats of a stack of two chunks, 2LW a column: the value that has them.
int take_stack(TileLoweringContext& context, const BlockColumns& from, const std::string& origin) {
  MachineBuilder& builder = context.builder;
  constexpr int64_t kColumnWords = 2 * kWordsPerLong;
  const int raw = builder.value("raw", kCyclesPerStep * kColumnWords, kBlockRegisters, kColumnWords);
  const Operand all = MachineBuilder::operand(raw, 0, kColumnWords, Width::kDoubleLong);
  const bool is_partial = from.channels < kChunkChannels;
  if (from.columns < kCyclesPerStep || from.chunks == 1 || is_partial)
    builder.emit(Opcode::kZero, Precision::kNone, {}, {all}, origin);
  const auto column_at = [&](int64_t column) {
    return MachineBuilder::operand(raw, column * kColumnWords, 0);
  };
  int64_t column = 0;
  // Where both chunks stand side by side, a step brings a column of both.
  for (; from.chunks == 2 && !is_partial && column < from.columns &&
         from.at(1, column) == from.at(0, column) + kColumnLw;
       ++column)
    two_blocks(context, from.at(0, column), column_at(column), kBlockOfCycle, origin);
  for (int64_t chunk = 0; chunk < from.chunks; ++chunk) {
    if (is_partial && chunk + 1 == from.chunks) {
      // Masks tell channels of one LW alone.
      for (int64_t k = 0; k < 2 * from.columns; ++k)
        builder.emit(Opcode::kL1bmm, Precision::kNone, {space_operand(Space::kL1bm, from.at(chunk, k / 2))},
                     {masked(MachineBuilder::operand(raw, k * kWordsPerLong, 0),
                             channel_mask(context, from.channels, one_lw(chunk, k % 2)))},
                     origin);
      break;
    }
    for (int64_t k = column; k < from.columns; ++k) {
      const int64_t at = from.at(chunk, k);
      if (k + 1 < from.columns && from.at(chunk, k + 1) == at + kColumnLw) {
        Operand to = column_at(k++);
        to.flat = true;
        to.flat_addresses = {0, 0, kColumnWords, kColumnWords};
        two_blocks(context, at, std::move(to), two_columns(chunk), origin);
      } else {
        // Of the second chunk cycles 2 and 3 have the column.
        two_blocks(context, at - chunk * kColumnLw, column_at(k), one_column(chunk), origin);
      }
    }
  }
  return raw;
}

}  // namespace

int block_mask(TileLoweringContext& context, const BlocksOfCycles& blocks) {
  const auto [known, is_new] = context.block_masks.try_emplace(blocks, -1);
  if (!is_new) return known->second;
  MachineBuilder& builder = context.builder;
  const std::string origin = "blocks of MABs";
  const int cycles = builder.value("cycles", kCyclesPerStep * kWordsPerLong, kBlockRegisters);
  for (int64_t c = 0; c < kCyclesPerStep; ++c)
    builder.emit(integer_immediate(static_cast<uint32_t>(blocks.at(static_cast<size_t>(c))),
                                   MachineBuilder::operand(cycles, c * kWordsPerLong, 0)),
                 origin);
  const Operand block = four_lw(builder, "block");
  builder.emit(Opcode::kAnd, Precision::kInt,
               {space_operand(Space::kConstant, static_cast<int64_t>(isa::FixedConstant::kMabid)),
                MachineBuilder::operand(builder.constant_bits(kBlocksPerChunk - 1), 0, 0)},
               {block}, origin);
  const int mask = builder.value("own block", 1, isa::space_bit(Space::kOmr), 1);
  builder.emit(Opcode::kXor, Precision::kInt, {block, MachineBuilder::operand(cycles)},
               {MachineBuilder::operand(mask, 0, 0, Width::kWord)}, origin);
  return context.block_masks[blocks] = mask;
}

void make_block_masks(TileLoweringContext& context, MatrixPrecision precision, int64_t stack, int64_t chunks,
                      int64_t channels) {
  if (!takes_two_lw(precision, stack)) {
    block_mask(context, kBlockOfCycle);
    channel_mask(context, channels, kBlockOfCycle);
    return;
  }
  for (int64_t chunk = 0; chunk < chunks; ++chunk) block_mask(context, two_columns(chunk));
}

std::vector<Operand> take_blocks(TileLoweringContext& context, const BlockColumns& from,
                                 const std::string& origin) {
  if (takes_two_lw(from.precision, from.stack)) {
    const int stacked = take_stack(context, from, origin);
    const int64_t places = stack_places(from.precision, from.stack);
    std::vector<Operand> list;
    for (int64_t place = 0; place < places; ++place)
      list.push_back(MachineBuilder::operand(stacked, place * kWordsPerLong, kMostStacked * kWordsPerLong,
                                             places == 1 ? Width::kDoubleLong : Width::kLong));
    return list;
  }
  MachineBuilder& builder = context.builder;
  const int raw = builder.value("raw", kCyclesPerStep * kWordsPerLong, kBlockRegisters);
  if (from.columns < kCyclesPerStep || from.channels < kChunkChannels)
    builder.emit(Opcode::kZero, Precision::kNone, {}, {MachineBuilder::operand(raw)}, origin);
  const int mask = channel_mask(context, from.channels, kBlockOfCycle);
  for (int64_t column = 0; column < from.columns; ++column) {
    builder.emit(Opcode::kL1bmm, Precision::kNone, {space_operand(Space::kL1bm, from.at(0, column))},
                 {masked(MachineBuilder::operand(raw, column * kWordsPerLong, 0), mask)}, origin);
  }
  return {MachineBuilder::operand(raw)};
}

}  // namespace kodama::compiler
