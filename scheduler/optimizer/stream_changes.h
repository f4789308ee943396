#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "isa/chip.h"
#include "isa/instruction.h"
#include "scheduler/optimizer/operation_flow.h"
#include "scheduler/optimizer/optimize.h"
#include "scheduler/optimizer/program_stream.h"

/// What may be changed about the operations of a program, for the optimizer: which of it pays is found by
/// trying (segment_search.h). Internal to scheduler/.
namespace kodama::scheduler {

struct StreamChange {
  enum class Kind : uint8_t {
    kForward,  ///< sources of `consumer` read the forwarding register of `producer`
    kNarrow,   ///< `producer` writes in one cycle only what all four cycles write the same
    kRename,   ///< what `producer` writes, and all that read it, goes to another place
  };
  Kind kind = Kind::kForward;
  int producer = 0;
  int consumer = -1;
  int definition = -1;
  std::vector<size_t> sources = {};
  // kRename
  isa::Space from = isa::Space::kNone;
  isa::Space to = isa::Space::kNone;
  int64_t shift = 0;
};

/// By segment of the stream. Each change is right by itself; which go together is for segment_search.h.
std::vector<std::vector<StreamChange>> find_changes(const ProgramStream& stream, const OperationFlow& flow,
                                                    const OptimizeOptions& options, const isa::Chip& chip);

/// The changes, made.
void forward_sources(isa::Instruction& consumer, const isa::Instruction& producer,
                     const std::vector<size_t>& sources);
void rename_operand(isa::Operand& operand, const StreamChange& change);
void narrow_writes(isa::Instruction& producer);

}  // namespace kodama::scheduler
