#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "layout/moves/move_emission.h"
#include "layout/moves/move_proposals.h"
#include "layout/primitives/before_transpose.h"
#include "layout/primitives/primitive_list.h"

namespace kodama::layout {
namespace {

using isa::Instruction;
using isa::Opcode;
using isa::Precision;

/// Long words per PE up to which it is worth preparing for.
constexpr double kMostTransposed = 16;

/// How transpose-l2b numbers what it moves. `up`: the bits of the L2BM address behind l2bmd, of which the
/// uppermost choose the L2B that a long word goes to. An mvd brings what is for a group into its PDM, 16 LW
/// of L2B after L2B, so that `down`, the address in the L2BM that it comes to, has the number of the L2B that
/// it comes from as bits 4 and up.
struct TransposeBits {
  std::vector<int> up;
  std::vector<int> down;
  std::vector<int> lines_down;  ///< bits of `down` that are the line's number
};
TransposeBits transpose_bits(const SlotShape& shape, const SlotState& before, const std::vector<int>& order) {
  constexpr int kDealt = 3;      // l2bmd gives 8 LW to an L1B
  constexpr int kCollected = 4;  // mvd takes 16 LW from an L2B
  const std::vector<int> lanes = contents(before, shape.first(Level::kPe), shape.lane_bits());
  const std::vector<int> l1b = contents(before, shape.first(Level::kL1b), shape.l1b);
  const std::vector<int> l2b = contents(before, shape.first(Level::kL2b), shape.l2b);
  TransposeBits bits;
  bits.up.assign(lanes.begin(), lanes.begin() + kDealt);
  bits.up.insert(bits.up.end(), l1b.begin(), l1b.end());
  bits.up.insert(bits.up.end(), lanes.begin() + kDealt, lanes.end());
  bits.up.insert(bits.up.end(), order.begin(), order.end());
  bits.down.assign(bits.up.begin(), bits.up.begin() + kCollected);
  bits.down.insert(bits.down.end(), l2b.begin(), l2b.end());
  bits.down.insert(bits.down.end(), bits.up.begin() + kCollected, bits.up.end() - shape.l2b);
  bits.lines_down.assign(bits.down.begin() + shape.lane_bits() + shape.l1b, bits.down.end());
  return bits;
}

/// Through the PDMs: few transfers, which take long for many long words.
void propose_transpose_l2b(MoveProposals& here) {
  constexpr int kMostBits = 13;
  const int first = here.shape.first(Level::kL2b);
  const int line_bits = std::popcount(here.lines);
  const int all = here.shape.lane_bits() + here.shape.l1b + line_bits;
  const int l2b = here.shape.l2b;
  if (l2b == 0 || here.shape.lane_bits() < 3 || all > kMostBits || all - l2b < 4) return;
  if (line_bits < l2b && line_bits + here.shape.lane_bits() - 3 < l2b) return;
  // The uppermost lines choose the L2B.
  const int chosen = std::min(l2b, line_bits);
  std::vector<int> upper(static_cast<size_t>(chosen), -1);
  BitMask used = 0;
  for (int k = 0; k < chosen; ++k) {
    const int bit = here.goal[static_cast<size_t>(first + l2b - chosen + k)];
    if (!here.is_line(bit)) continue;
    upper[static_cast<size_t>(k)] = bit;
    used |= mask_of(bit);
  }
  const std::vector<int> fill = here.fillers(used);
  size_t next = 0;
  for (int& bit : upper) {
    if (bit < 0 && next < fill.size()) bit = fill[next++];
  }
  std::vector<int> order = bits_of(here.lines & ~mask_of(upper));
  order.insert(order.end(), upper.begin(), upper.end());
  const TransposeBits bits = transpose_bits(here.shape, here.state, order);
  SlotState after = here.state;
  const auto set = [&](int slot, int bit) {
    after[static_cast<size_t>(slot)] = static_cast<int8_t>(bit >= 0 ? bit : kNothing);
  };
  for (int k = 0; k < l2b; ++k) set(first + k, bits.up[bits.up.size() - static_cast<size_t>(l2b - k)]);
  for (int k = 0; k < 3; ++k) set(here.shape.first(Level::kPe) + k, bits.down[static_cast<size_t>(k)]);
  for (int k = 0; k < here.shape.l1b; ++k)
    set(here.shape.first(Level::kL1b) + k, bits.down[static_cast<size_t>(3 + k)]);
  for (int k = 3; k < here.shape.lane_bits(); ++k)
    set(here.shape.first(Level::kPe) + k, bits.down[static_cast<size_t>(here.shape.l1b + k)]);
  const double groups = std::exp2(here.view.transfer.group_bits);
  const double per_group = here.l2bs / groups;
  const double through_pdm = std::exp2(all) * per_group / here.view.transfer.lw_per_step;
  here.add(after,
           here.n / 4 + here.values(after) / 4 + 2 * here.lanes * here.larger(after) / kDealLw +
               2 * through_pdm + 2 * here.view.transfer.start +
               here.view.transfer.issue * (groups + per_group - 2),
           0, 0, order);
}

/// Move::order: the address bits from the lowest line up.
class TransposeL2b : public MoveEmission {
 public:
  using MoveEmission::MoveEmission;

  /// Up to L2BM, where the L2B that a long word goes to is the highest part of the address. For each group an
  /// mvd collects what is for it in its PDM; then all groups copy from PDM to L2BM inside themselves, one
  /// L2B after the other.
  void write() {
    const TransposeBits bits = transpose_bits(shape_, move_.before, move_.order);
    const int64_t lines = int64_t{1} << move_.order.size();
    const int64_t size = int64_t{1} << bits.up.size();
    const auto buffers = take_chunk_buffers(1, {.up_lines = lines,
                                                .down_lines = lines,
                                                .up_l2_lw = std::max(size, l2bmd_lw(chip_)),
                                                .down_l2_lw = std::max(size, l2bmd_lw(chip_)),
                                                .pdm_lw = size * chip_.l2b_per_group});
    const ChunkBuffer& own = buffers[0];
    std::vector<LineCopy> up;
    for (const BitMask value : view_.values(before_bits()))
      up.push_back({extract_bits(value, move_.order), address(at_.before, value)});
    code_.lines_up(up, at_.before.memory, own.up.base);
    code_.deal_up(up, own.up.base, own.up_l2.base);
    // Those that have the longest way first.
    std::vector<int64_t> groups(static_cast<size_t>(chip_.groups));
    std::iota(groups.begin(), groups.end(), 0);
    std::ranges::stable_sort(groups, std::greater<>{},
                             [&](int64_t group) { return std::max(group, chip_.groups - 1 - group); });
    const int64_t part = size / chip_.groups;
    std::vector<int8_t> tags;
    for (const int64_t group : groups) {
      Instruction mv =
          make_instruction(Opcode::kMvd, Precision::kNone, Code::l2bm(own.up_l2.base + group * part),
                           Code::outside(Memory::kPdm, own.pdm.base, group));
      mv.size_lw = part * chip_.l2b_count();
      tags.push_back(code_.transfer(std::move(mv)));
    }
    for (const int8_t tag : tags) code_.wait(tag);
    tags.clear();
    for (int unit = 0; unit < chip_.l2b_per_group; ++unit) {
      tags.push_back(
          code_.transfer(make_mvp(size, Code::outside(Memory::kPdm, own.pdm.base + unit * size, -1),
                                  Code::l2bm(own.down_l2.base, -1, unit))));
    }
    for (const int8_t tag : tags) code_.wait(tag);
    std::vector<LineCopy> down;
    for (const BitMask value : view_.values(view_.address_bits(move_.after)))
      down.push_back({extract_bits(value, bits.lines_down), address(at_.after, value)});
    code_.deal_down(down, own.down_l2.base, own.down.base);
    code_.lines_down(std::move(down), at_.after.memory, own.down.base);
    give_back(buffers);
  }
};

}  // namespace

std::vector<int> before_transpose(const MoveProposals& here, int first, int count) {
  const int k = here.shape.lane_bits();
  if (here.shape.l2b == 0 || here.shape.l2b > k - 3 || here.n > kMostTransposed) return {};
  std::vector<int> ahead(static_cast<size_t>(count), -1);
  bool any = false;
  for (int j = 0; j < here.shape.l2b; ++j) {
    const int bit = here.goal[static_cast<size_t>(here.shape.first(Level::kL2b) + j)];
    const int slot = here.shape.first(Level::kPe) + k - here.shape.l2b + j;
    if (!here.is_line(bit) || slot < first || slot >= first + count) continue;
    ahead[static_cast<size_t>(slot - first)] = bit;
    any = true;
  }
  return any ? ahead : std::vector<int>{};
}

MovePrimitive transpose_l2b_primitive() {
  return {
      .name = "transpose-l2b",
      .description =
          "all L2B bits <-> upper lane and address bits, L1B bits and lanes between them, through the PDMs",
      .precondition = "few long words; two transfers one after the other",
      .cost = "n/2 + lanes * n / 16 of l2bmd, and the transfers",
      .overlap = {.uses_t = false},
      .propose = propose_transpose_l2b,
      .emit = emit_with<TransposeL2b>};
}

}  // namespace kodama::layout
