#include <utility>
#include <vector>

#include "layout/moves/move_emission.h"
#include "layout/moves/move_proposals.h"
#include "layout/primitives/primitive_list.h"

namespace kodama::layout {
namespace {

class Copy : public MoveEmission {
 public:
  using MoveEmission::MoveEmission;

  void write() {
    std::vector<std::pair<int64_t, int64_t>> pairs;
    for (const BitMask value : view_.values(before_bits()))
      pairs.emplace_back(address(at_.after, value), address(at_.before, value));
    code_.copies(std::move(pairs), at_.before.memory, at_.after.memory);
  }
};

/// Not for the search: where the next move wants the tensor elsewhere in the PE, it is copied there.
void propose_copy(MoveProposals& /*here*/) {}

}  // namespace

MovePrimitive copy_primitive() {
  return {.name = "copy",
          .description = "addresses in any order; LM0, LM1, GRF0, GRF1",
          .precondition = "two different memories",
          .cost = "n/4; n/8 where neighbours stay neighbours",
          .overlap = {.uses_t = false},
          .propose = propose_copy,
          .needs = needs_other_memory,
          .emit = emit_with<Copy>};
}

}  // namespace kodama::layout
