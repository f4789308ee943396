/// A move primitive, and with -DWRONG=1 to 4 one that is wrong in one way.
#include <algorithm>
#include <array>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "layout/moves/move_emission.h"
#include "layout/moves/move_proposals.h"
#include "layout/primitives/move_primitives.h"
#include "passes/plugin.h"

#ifndef WRONG
#define WRONG 0
#endif

using namespace kodama::layout;
using kodama::isa::Operand;

namespace {

/// The word bit and the address bit that belongs there change places.
void propose(MoveProposals& here) {
  if (here.shape.word != 1) return;
  const int bit = here.incoming(0, 1)[0];
  if (bit < 0) return;
  SlotState after = here.with(0, {bit});
  if (WRONG == 3) after[1] = static_cast<int8_t>(bit);
  here.add(after, 0);
}

class WordByWord : public MoveEmission {
 public:
  using MoveEmission::MoveEmission;

  void write() {
    if (WRONG == 2) throw std::out_of_range("a bug of the plugin");
    if (WRONG == 4) return;
    const int in = move_.after[0];
    const int out = std::max<int>(move_.before[0], -1);
    std::vector<std::pair<int64_t, int64_t>> pairs;
    for (const BitMask value : view_.values(before_bits() | mask_of(out))) {
      const int64_t source = address(at_.before, value & before_bits());
      const int64_t target = address(at_.after, value & view_.address_bits(move_.after));
      const bool from_lower = (value & mask_of(out)) != 0;
      const bool to_lower = (value & mask_of(in)) != 0 && WRONG != 1;
      pairs.emplace_back(2 * target + (to_lower ? 1 : 0), 2 * source + (from_lower ? 1 : 0));
    }
    std::ranges::sort(pairs);
    for (size_t k = 0; k < pairs.size(); k += 4) {
      std::array<int64_t, 4> targets{};
      std::array<int64_t, 4> sources{};
      for (size_t c = 0; c < 4; ++c)
        std::tie(targets[c], sources[c]) = pairs[std::min(k + c, pairs.size() - 1)];
      code_.add(make_instruction(kodama::isa::Opcode::kPassa, kodama::isa::Precision::kInt,
                                 words(at_.before.memory, sources), words(at_.after.memory, targets)));
    }
  }

 private:
  static Operand words(Memory memory, const std::array<int64_t, 4>& addresses) {
    Operand result;
    result.space = pe_space(memory);
    result.width = kodama::isa::Width::kWord;
    result.flat = true;
    for (size_t c = 0; c < 4; ++c) result.flat_addresses[c] = static_cast<int32_t>(addresses[c]);
    return result;
  }
};

}  // namespace

KODAMA_PLUGIN() {
  register_pass(MovePrimitive{.name = "word-by-word",
                              .description = "the word bit <-> an address bit, word by word",
                              .precondition = "elements of 32 bits; two different memories",
                              .cost = "n/2",
                              .overlap = {.uses_t = false},
                              .propose = propose,
                              .needs = needs_other_memory,
                              .emit = emit_with<WordByWord>});
}
