#include <algorithm>
#include <array>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "layout/moves/move_emission.h"
#include "layout/moves/move_proposals.h"
#include "layout/primitives/primitive_list.h"

namespace kodama::layout {
namespace {

using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::Width;

void propose_words(MoveProposals& here) {
  if (here.shape.word != 1) return;
  const std::vector<int> in = here.incoming(0, 1);
  if (in[0] >= 0) here.add(here.with(0, in), here.larger(here.with(0, in)) / 2);
}

class Words : public MoveEmission {
 public:
  using MoveEmission::MoveEmission;

  /// 32-bit words one by one: the word bit and an address bit change places.
  void write() {
    const int in = move_.after[0];
    const int out = std::max<int>(move_.before[0], -1);
    std::vector<std::pair<int64_t, int64_t>> pairs;
    for (const BitMask value : view_.values(before_bits() | mask_of(out))) {
      const bool word_before = out >= 0 && (value >> out & 1) != 0;
      const bool word_after = in >= 0 && (value >> in & 1) != 0;
      const int64_t source = address(at_.before, value & before_bits());
      const int64_t target = address(at_.after, value & view_.address_bits(move_.after));
      pairs.emplace_back(2 * target + (word_after ? 1 : 0), 2 * source + (word_before ? 1 : 0));
    }
    std::ranges::sort(pairs);
    const auto operand = [&](Memory memory, const std::array<int64_t, 4>& at) {
      Operand result;
      result.space = pe_space(memory);
      result.width = Width::kWord;
      result.flat = true;
      for (size_t c = 0; c < 4; ++c) result.flat_addresses[c] = static_cast<int32_t>(at[c]);
      return result;
    };
    for (size_t k = 0; k < pairs.size(); k += isa::kCyclesPerStep) {
      std::array<int64_t, 4> targets{};
      std::array<int64_t, 4> sources{};
      for (size_t c = 0; c < 4; ++c)
        std::tie(targets[c], sources[c]) = pairs[std::min(k + c, pairs.size() - 1)];
      code_.add(make_instruction(Opcode::kPassa, Precision::kInt, operand(at_.before.memory, sources),
                                 operand(at_.after.memory, targets)));
    }
  }
};

}  // namespace

MovePrimitive words_primitive() {
  return {.name = "words",
          .description = "the word bit <-> an address bit, word by word",
          .precondition = "elements of 32 bits; two different memories",
          .cost = "n/2",
          .overlap = {.uses_t = false},
          .propose = propose_words,
          .needs = needs_other_memory,
          .emit = emit_with<Words>};
}

}  // namespace kodama::layout
