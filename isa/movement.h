#pragma once

#include <array>
#include <cstdint>

/// What an L1BM, L2BM or MV instruction moves: one descriptor, beside each form of its row in the table of
/// instructions (isa/instruction_rows.def). Costs, checks, random programs, reference, statistics, encoder
/// and engine read it; only the golden model has words of its own.
///
/// L1BM and L2BM instructions move between units and the memory above them: MABs and L1BM, L1Bs and L2BM. In
/// a cycle a unit moves `lw_per_cycle`; neighbouring units, `shared_by` of them, have the same LW of the
/// memory above:
///
///                          units of 1       of some            of all
///     towards the units    distribution     both               broadcast
///     towards the memory   joined           one of each, or    one of them, or
///                                           reduced            reduced
///
/// MVs move between two sides, each one memory or several. What is where: isa/move_places.h.
namespace kodama::isa {

/// Of `Movement::shared_by`: all MABs of the L1B, all L1Bs of the L2B.
inline constexpr int kAllUnits = 0;

/// One side of an MV: what each value means stands in the table.
enum class MoveSide : uint8_t {
#define MOVE_SIDE(side) side,
#include "isa/instruction_rows.def"
};

struct Movement {
  enum class Way : uint8_t {
    kNone,
    kL1bmToPe,
    kPeToL1bm,
    kL2bmToL1bm,
    kL1bmToL2bm,
    kL1bmToL1bm,      ///< of other L1Bs
    kL2bmToDarStage,  ///< of the group; the operand names the L2B
    kDarStageToDar,
    kTransfer,  ///< MV
  };
  /// What becomes of units or memories that share a place on the side that is written; see the table.
  enum class Rule : uint8_t {
#define MOVEMENT_RULE(rule) rule,
#include "isa/instruction_rows.def"
  };
  /// What `@` may name of L2BM instructions.
  enum class Set : uint8_t {
    kNone,
    kAllowed,  ///< the L1Bs that take part
    kSources,  ///< those that others copy from: needed, and not all
  };

  Way way = Way::kNone;
  int lw_per_cycle = 0;  ///< of a MAB or an L1B; 1 LW of a MAB is for all its PEs
  int shared_by = 1;     ///< units; a power of two, or kAllUnits
  Rule rule = Rule::kCopy;
  bool double_long = false;  ///< L1BM: $llb moves both LW of an operand, in blocks of four LW
  Set set = Set::kNone;
  std::array<MoveSide, 2> sides{};  ///< MV: source and destination
};

}  // namespace kodama::isa
