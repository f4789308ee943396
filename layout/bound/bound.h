#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "isa/chip.h"
#include "layout/algebra/algebra.h"
#include "layout/algebra/layout.h"

/// The least time that a conversion between two layouts of one tensor can take on the chip: `kodama layout
/// bound`.
///
/// Data that is wanted somewhere and not there must come in, through every port on its way, and data that is
/// wanted elsewhere must go out. For each port of the tree: the bytes that must pass it at the instance that
/// has most, over the bytes that it passes per cycle; before the first byte can pass, the way from the source
/// to the port takes its time, and after the last one the way to the target (distances of the hazard tables,
/// start-up of transfers, groups that they cross). Ports work at a time, so the largest of these times is the
/// bound, not their sum.
///
/// Bytes. Ports that steps drive pass what they pass in whole steps. The MV port of an L2BM, in and out; a
/// transfer has 64 LW at least. The port between L2BM and its L1Bs, which moves what goes up, what comes
/// down, and what l2bmi passes from one L1B to another; see "Hops" below. The port between L1BM and its PEs,
/// which moves what goes up and what comes down; only what goes to the next MAB can be read in the step in
/// which something else is written (l1bmd+1 and l1bmd-1 of the turnaround register) and counts once. The
/// MABs. The PEs' memories: a PE reads one double long word per cycle of a memory, whatever instructions want
/// it, and writes one, so double long words count that hold something that moves. DRAM and PDM.
///
/// Ways. Each is a chain of instructions of which every one needs what the one before it made:
///   - in a MAB: the turns that msl and msr don't do in one step take two;
///   - to another MAB: up, and down by the turnaround register in the next step, which keeps the PE's number
///     in its MAB (but for a rounding reduction of halves); to another PE one step more;
///   - to another L1B: up, the distance, l2bmi, the distance, down;
///   - to another L2B: up, up, a transfer, down, down. A transfer moves nothing before its start-up, which is
///     longer the more groups it crosses; groups in a row, so two transfers cross as many as one.
/// What is nearer may pass a port first. So there is a bound for each distance, of what goes at least as far;
/// a level names the largest.
///
/// Pairs of L2Bs. A transfer from L2BM to L2BM without a stop serves one pair, or in all groups the same pair
/// inside the group; one may start per issue interval. What stops on its way needs two transfers, the second
/// started when the first is over. Of the pairs that are at least so many groups apart either every one has a
/// transfer of its own, and the last starts (pairs - 1) intervals after the first, or one has two start-ups.
///
/// Hops. What stays in an L2B and goes to an L1B whose number differs in more than one bit counts twice. Say
/// that an element still has to go 0, if it is where it is wanted, 1 from L2BM, from another L2B or from an
/// L1B whose number differs in one bit, and 2 from the others; of its copies the nearest counts. With N L1Bs
/// no step takes more than 32 N LW off the sum of what is left of all LW. l2bmd and the reductions write 32 N
/// LW of L2BM and take 1 off each, as l2bmd and l2bmb2 read as many; l2bmb and l2bm do this for 64. l2bmi has
/// N / 2^k sources, of 64 LW each, where the L1Bs that take them differ in k bits: with k = 1 each LW is 1
/// nearer, with k = 2 half as many are 2 nearer, and with more still fewer. So N = 8 L1Bs that exchange all
/// they have pass 3 + 2 * 3 + 2 eighths of it, not 7. This is for numbers of L1Bs that are powers of two, and
/// for elements that go as they are: sums of elements that are taken apart again at the target are left out.
///
/// Steps. Whatever moves takes one. In one step the ALU alone moves data from PE to PE, or from one address
/// of a memory to another, and all PEs by the same turn. Addresses that differ from PE to PE need T written,
/// its distance, and a step that uses it (a base register takes longer); until then each step accesses four
/// double long words of a memory, and their neighbours, in all PEs.
///
/// What a bound doesn't know: the alignment of addresses, and the orders in which the instructions deal data
/// out.
///
/// Example (mncore2): a (64, 64) tensor of doubles from rows over the L1Bs, ((8_L2B:1, 8_L1B:1), (16_MAB:1,
/// 4_PE:1))@LM0, to columns over them, the axes exchanged. An element stays in its L2B when row / 8 = column
/// / 8: 448 of the 512 that an L2B is to hold come from elsewhere, 3584 bytes at 128 per cycle, 28 cycles.
/// Before, a step to L1BM, two steps of distance, a step to L2BM, one step of distance, and 64 cycles until a
/// transfer has started; after, a step to L1BM, a step of distance and a step to the PEs: 124 cycles. The 128
/// elements that come three groups far to an L2B of group 0 take 96 cycles longer on their way and 8 for
/// themselves: 200. And there are 8 pairs of L2Bs three groups apart: two start-ups, or the eighth transfer
/// after 7 * 16 cycles: 264.
namespace kodama::layout {

struct LevelBound {
  std::string name;  ///< "into the L2Bs", …
  double bytes = 0;  ///< at the instance that has most, of what goes as far as the way is long
  double bytes_per_cycle = 0;
  double way = 0;            ///< cycles before the first byte and after the last one
  bool whole_steps = false;  ///< only in steps, each with up to four cycles' bytes
  double cycles() const;
};

struct ConversionBound {
  std::vector<LevelBound> levels;  ///< those that something must pass
  double cycles() const;
  /// Of the level that decides; empty when nothing has to move.
  std::string name() const;
};

/// UserError when the shape doesn't fit both layouts, or when there are more than 2^26 places to look at.
ConversionBound conversion_bound(const Layout& from, const Layout& to, const Lengths& lengths,
                                 int element_bits, const isa::Chip& chip);

}  // namespace kodama::layout
