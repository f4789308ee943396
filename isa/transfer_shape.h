#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "isa/chip.h"
#include "isa/instruction.h"

/// Where an MV reads and writes: what its accesses and its costs are made of.
namespace kodama::isa {

/// LW in which MVs spread data.
inline constexpr int64_t kSpreadUnit = 16;

/// One end of an MV: `length` LW from `begin` in one DRAM, PDM or L2BM.
struct Endpoint {
  Space space;
  int place;  ///< group, or L2B over the chip
  int64_t begin;
  int64_t length;
  bool write;
  bool indirect = false;
};

struct TransferShape {
  std::vector<Endpoint> endpoints;
  std::map<std::pair<int, int>, int64_t> paths;  ///< LW from group to group
};
/// InternalError for an instruction that isn't an MV.
TransferShape transfer_shape(const Instruction& mv, const Chip& chip);

}  // namespace kodama::isa
