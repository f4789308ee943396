#pragma once

#include <algorithm>
#include <vector>

#include "isa/instruction.h"

/// Sets of operand kinds that rows of the table and the rules about operands have in common.
namespace kodama::isa {

template <typename... Spaces>
constexpr SpaceSet set_of(Spaces... spaces) {
  return (space_bit(spaces) | ...);
}
inline constexpr SpaceSet kPeMemories = set_of(Space::kLm0, Space::kLm1, Space::kGrf0, Space::kGrf1);
inline constexpr SpaceSet kPeSource =
    kPeMemories | set_of(Space::kT, Space::kAluf, Space::kMauf, Space::kLbf);
/// The matrix-read forwarding register and the constants reach only the first ALU input.
inline constexpr SpaceSet kFirstAlu = kPeSource | set_of(Space::kMreadf, Space::kConstant);
inline constexpr SpaceSet kPeResult =
    kPeMemories | set_of(Space::kT, Space::kBar0, Space::kBar1, Space::kNoWrite);
/// Only ALU and MAU calculations make flags.
inline constexpr SpaceSet kFlagResult = kPeResult | set_of(Space::kOmr);
inline constexpr SpaceSet kMatrix = set_of(Space::kMatX, Space::kMatY);
inline constexpr SpaceSet kL1bmSide = set_of(Space::kL1bm, Space::kTurnaround);
inline constexpr SpaceSet kDramSide = set_of(Space::kDram, Space::kDramIndirect);
inline constexpr SpaceSet kMvSide = kDramSide | set_of(Space::kPdm, Space::kL2bm);

inline bool any_operand(const std::vector<Operand>& operands, SpaceSet spaces) {
  return std::any_of(operands.begin(), operands.end(),
                     [&](const Operand& operand) { return (space_bit(operand.space) & spaces) != 0; });
}

/// A value that has no place yet fits wherever a PE memory does.
inline bool fits(const Operand& operand, SpaceSet allowed) {
  if (operand.space == Space::kVirtual) return (allowed & kPeMemories) != 0;
  return (allowed & space_bit(operand.space)) != 0;
}

}  // namespace kodama::isa
