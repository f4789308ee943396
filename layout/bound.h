#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "isa/chip.h"
#include "layout/algebra.h"
#include "layout/layout.h"

/// The least time that a conversion between two layouts of one tensor can take on the chip: `kodama layout
/// bound`.
///
/// Data that is wanted somewhere and not there must come in, through every port on its way, and data that is
/// wanted elsewhere must go out once. For each level of the tree: the bytes that must pass its ports, over
/// the bytes that the ports pass per cycle. Levels work at a time, so the largest of these times is the
/// bound, not their sum. What a bound doesn't know: the alignment of addresses, the orders in which the
/// instructions deal data out, start-up.
///
/// Example (mncore2): a (64, 64) tensor of doubles from rows over the L1Bs, ((8_L2B:1, 8_L1B:1), (16_MAB:1,
/// 4_PE:1))@LM0, to columns over them, the axes exchanged. An element stays in its L2B when row / 8 = column
/// / 8: 448 of the 512 that an L2B is to hold come from elsewhere, 3584 bytes at 128 per cycle, 28 cycles. An
/// L1B takes in 63 of its 64 elements, 504 bytes at 128 per cycle, 4 cycles. A PE writes one element. So no
/// program does it in less than 28 cycles.
namespace kodama::layout {

struct LevelBound {
  std::string name;  ///< "into the L2Bs", …
  double bytes = 0;  ///< at the instance that has most
  double bytes_per_cycle = 0;
  double cycles() const { return bytes / bytes_per_cycle; }
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
