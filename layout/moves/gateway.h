#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "layout/algebra/bits.h"
#include "layout/moves/move_code.h"

/// The ways between the PEs and the memories above them.
///
/// A tensor in L1BM, L2BM, PDM or DRAM enters the PEs before the search and leaves them after it. What the
/// way down makes of an address is fixed by the instructions: l1bmd deals the lowest address bits of L1BM to
/// the PEs of an L1B, l2bmd those above the third of L2BM to the L1Bs, and a transfer can bring any run of
/// 64 LW to any L2B. So the address bits of the layout choose the slots, and the search does the rest.
///
/// Example, 65536 doubles in order in the DRAM of group 0 of mncore2, wanted in blocks over the L2Bs: index
/// bits 0 to 2 arrive in PE 0, PE 1 and MAB 0, bits 3 to 5 in the L1B, bits 6 to 8 in MABs 1 to 3, bits 13 to
/// 15 in the L2B, and bits 9 to 12 are the address.
namespace kodama::layout {

/// How a layout above the PEs lies in them on its way.
struct Gateway {
  Placement upper;            ///< as given
  SlotState slots;            ///< in the PEs
  std::vector<int> l2b_bits;  ///< address bits that the L2Bs share out, by L2B slot; -1 = none
  /// Address bits that are no slot, and what they add to the number of the line: in L1BM a line is one LW
  /// per PE of an L1B, above that one per PE of an L2B. In L1BM strides are LW, and may be any on the way in.
  std::vector<std::pair<int, int64_t>> lines;
};

/// Nothing, and why, when the address bits don't lie as the instructions need them. `others` is the state at
/// the other end: address bits of DRAM and PDM go to the L2Bs where they are there, if they can.
std::optional<Gateway> gateway(const BitView& view, const Placement& upper, const SlotState& others,
                               const isa::Chip& chip, bool is_exit, std::string* why = nullptr);

/// From the upper memory to `pe`, whose slots are gateway.slots.
void emit_entry(const BitView& view, const Gateway& gateway, const Placement& pe, Code& code);
/// The inverse. Besides the tensor's places, whole lines (and in DRAM and PDM whole runs of 64 LW) between
/// address 0 and `upper_end` are written.
void emit_exit(const BitView& view, const Gateway& gateway, const Placement& pe, Code& code);
/// The first address that an exit leaves alone.
int64_t upper_end(const BitView& view, const Gateway& gateway, const isa::Chip& chip);

}  // namespace kodama::layout
