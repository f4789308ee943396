#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "isa/chip.h"
#include "isa/costs.h"
#include "isa/program.h"
#include "scheduler/optimizer/optimize.h"
#include "scheduler/optimizer/stream_operation.h"

/// Who reads what an operation writes, over a whole program: for the optimizer.
namespace kodama::scheduler {

/// Something a program does, in order: operations by index, or a statement that reads memories.
struct FlowEvent {
  std::vector<int> step;               ///< operations of one step: all read before any writes
  std::optional<isa::DebugGet> reads;  ///< instead of a step
};

/// What one write access of an operation means to others.
struct Definition {
  int operation = 0;
  isa::HazardResource resource = isa::HazardResource::kLm0;
  /// Read by somebody who can't be changed (d get, the end of the program, an address known at run time).
  bool escapes = false;
  struct Use {
    int operation = 0;
    int source = -1;  ///< which operand; -1 = in another way (mask, BAR, matrix register)
    auto operator<=>(const Use&) const = default;
  };
  std::vector<Use> uses;
};

struct OperationFlow {
  std::vector<Definition> definitions;
  /// By operation and source operand: the one definition that all its words in all cycles come from, else -1.
  std::vector<std::vector<int>> source_definition;
  /// By operation: its definitions.
  std::vector<std::vector<int>> defines;
};

/// `dead`: operations to leave out.
OperationFlow analyze_flow(const std::vector<StreamOperation>& operations, const std::vector<bool>& dead,
                           const std::vector<FlowEvent>& events,
                           const std::optional<std::vector<LiveOut>>& live_outs, const isa::Chip& chip);

/// Whether the four cycles of an operation compute the same. `same_forward`: what it reads from forwarding
/// registers is the same in all cycles.
bool is_cycle_invariant(const isa::Instruction& instruction, bool same_forward);
/// Whether the lower LW of a source operand can make a difference to what the instruction writes or forwards;
/// `forward_low`: to who reads its result through forwarding, the lower LW matters.
bool lower_matters(const isa::Instruction& instruction, size_t source, bool forward_low);
/// The forwarding register that holds the result of the instruction; kNone: it has none.
isa::Space forwarding_register(const isa::Instruction& instruction);

}  // namespace kodama::scheduler
