#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "isa/chip.h"
#include "isa/program.h"
#include "scheduler/optimizer/operation_flow.h"
#include "scheduler/optimizer/stream_operation.h"

/// A finished program as operations in segments, for the optimizer.
namespace kodama::scheduler {

/// Operations between two statements that keep their places.
struct ProgramSegment {
  int begin = 0;  ///< operations of the stream
  int end = 0;
  std::vector<isa::Statement> original;  ///< steps, nops and MVs
  int64_t length = 0;                    ///< steps of the original
  isa::MaskControl mask;
  bool untouchable = false;
  std::optional<isa::Statement> barrier;  ///< behind it

  bool has_block_mask() const { return mask.spaces != 0 && mask.entry != 0; }
};

/// LMs whose base address the program changes. An address is cut to its width after the base is added, so
/// then accesses of different widths meet where the addresses as written don't.
using MovingBases = std::array<bool, 2>;

struct ProgramStream {
  MovingBases moving{};
  std::vector<StreamOperation> operations;
  std::vector<bool> dead;  ///< by operation: nobody needs it (stream_pruning.h)
  std::vector<ForwardLink> links;
  std::vector<ProgramSegment> segments;
  std::vector<FlowEvent> events;
};

/// Fills in what the operation touches.
void refresh(StreamOperation& operation, const isa::MaskControl& mask, const MovingBases& moving,
             const isa::Chip& chip);

/// Loops are unrolled. UserError when the program has hazards, UnsupportedError when it is too long.
ProgramStream split_program(const isa::Program& program, const isa::Chip& chip);

}  // namespace kodama::scheduler
