#pragma once

#include <cstdint>

#include "compiler/package/compiled_model.h"

/// The part of the DRAM that a compiled model uses, and moving it elsewhere.
namespace kodama::compiler {

/// LW of every group's DRAM, [begin, end).
struct DramRegion {
  int64_t begin = 0;
  int64_t end = 0;
  /// Some MVs take addresses from DAR: they are part of the model's constants, or computed.
  bool indirect = false;
  bool overlaps(const DramRegion& other) const { return begin < other.end && other.begin < end; }
};
/// All images and all that its programs read and write.
DramRegion dram_region(const CompiledModel& model);

/// Adds `lw` to all addresses in DRAM. `lw` must be a multiple of kRegionUnitLw, so that rows and banks, and
/// with them all times, stay what they were. InternalError for a model with indirect MVs.
void move_in_dram(CompiledModel& model, int64_t lw);

/// 16 MiB.
inline constexpr int64_t kRegionUnitLw = 1 << 21;

}  // namespace kodama::compiler
