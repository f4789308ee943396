#pragma once

#include <vector>

#include "layout/moves/move_proposals.h"

namespace kodama::layout {

/// What the lanes of a range could hold so that transpose-l2b sends it to the right L2Bs: as much of it as
/// is in the address. Nothing to do: empty.
std::vector<int> before_transpose(const MoveProposals& here, int first, int count);

}  // namespace kodama::layout
