#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "isa/chip.h"
#include "isa/costs.h"
#include "isa/instruction.h"
#include "passes/pass_options.h"
#include "scheduler/optimizer/operation_flow.h"
#include "scheduler/optimizer/optimize.h"
#include "scheduler/optimizer/program_stream.h"
#include "scheduler/optimizer/stream_operation.h"

/// What may be changed about the operations of a program, for the optimizer, and the kinds of changes there
/// are. Which changes pay, together with which others, is found by trying.
namespace kodama::scheduler {

/// One change that may be made. It must be right by itself, with the operations in the order of the program:
/// what anybody reads afterwards is as it was before.
struct StreamChange {
  /// An operation becomes another. `make` gets it as other changes, moves first, have left it.
  struct Edit {
    int operation = 0;  ///< of the stream
    std::function<void(isa::Instruction&)> make;
  };
  std::vector<Edit> edits;
  /// Readers of forwarding registers that the change makes, with who writes these.
  std::vector<ForwardLink> links = {};
  /// The definition (operation_flow.h) that `unread` and `moved_to` are about.
  int definition = -1;
  /// Uses of it that read something else then. Nobody writes what has no uses left.
  std::vector<Definition::Use> unread = {};
  /// The memory that the definition, and all its uses with it, moves to.
  std::optional<isa::HazardResource> moved_to = {};
  /// A definition that has more uses then than operation_flow.h knows: it stays, where it is.
  int also_reads = -1;
  int64_t count = 1;       ///< what the report counts it as
  size_t kind = SIZE_MAX;  ///< index of change_kinds(); filled by find_changes
};

/// The program as every kind of change sees it.
struct ChangeContext {
  const ProgramStream& stream;
  const OperationFlow& flow;
  const OptimizeOptions& options;
  const isa::Chip& chip;
  /// By operation: its four cycles compute the same.
  std::vector<bool> is_invariant = {};
  /// By operation: the lower LW of what it forwards makes a difference to somebody.
  std::vector<bool> forwards_low = {};
};

/// Adds the changes that operation `operation` of a segment allows; it is not dead, and the segment has no
/// block mask.
using ChangeFinder =
    std::function<void(int operation, const ProgramSegment& segment, std::vector<StreamChange>& changes)>;

/// A kind of change. `run` looks at a program once, and returns what finds the changes; none: there are none.
/// Changes that make what is no instruction, or one that can't issue, are left out, so that finders needn't
/// ask. The context lives as long as the finder.
struct ChangeKind {
  std::string name;
  std::string description;
  std::vector<passes::PassOptionInfo> options;
  std::function<ChangeFinder(const ChangeContext&)> run;
  std::string plugin = {};  ///< the file it came from; empty: Kodama's own. Filled by register_pass
};

/// Registry: "forward", "rename", "narrow", and those of plugins. All of them are tried.
const std::vector<ChangeKind>& change_kinds();
void register_pass(ChangeKind kind);

/// By segment of the stream, in program order. PassError when a plugin's kind names operations that aren't of
/// the segment, or throws.
std::vector<std::vector<StreamChange>> find_changes(const ProgramStream& stream, const OperationFlow& flow,
                                                    const OptimizeOptions& options, const isa::Chip& chip);

}  // namespace kodama::scheduler
