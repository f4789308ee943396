#pragma once

#include <cstdint>
#include <vector>

#include "isa/costs.h"
#include "isa/instruction.h"

/// What the optimizer takes a program apart into.
namespace kodama::scheduler {

/// An operation of the program to optimize.
struct StreamOperation {
  isa::Instruction instruction;
  int64_t time = 0;  ///< step of the segment in which it issued in the input
  int32_t line = 0;
  bool is_mv = false;
  bool is_wait = false;
  /// In the input, it and the others of its step share a step in which a mask statement doesn't apply because
  /// one of them has a mask of its own. They stay together.
  bool shares_masks = false;
  bool is_masked = false;             ///< some destination, by its own mask or a mask statement
  std::vector<isa::Access> accesses;  ///< under the block mask; without forwarding registers
};
/// `consumer` reads the forwarding register that `producer` writes: by index of the operations.
struct ForwardLink {
  int producer = 0;
  int consumer = 0;
  bool operator==(const ForwardLink&) const = default;
};

}  // namespace kodama::scheduler
