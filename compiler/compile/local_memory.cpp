#include "compiler/compile/local_memory.h"

#include <algorithm>
#include <array>
#include <utility>

#include "compiler/tile/buffer_use.h"
#include "isa/arithmetic.h"
#include "isa/costs.h"

namespace kodama::compiler {

using isa::Space;

namespace {

/// For constants and temporaries that a kernel doesn't declare as buffers: a few vectors, as nearly all are
/// in register files. A stage that needs more is found out when its program is made, and gets it then.
constexpr int64_t kTemporariesLw = 12;

bool may_be_in(const TileBuffer& buffer, Space space) {
  return (buffer.homes & isa::space_bit(space)) != 0;
}

}  // namespace

std::vector<TileProgram::Kept> written_local_memory(const isa::Program& program, const isa::Chip& chip) {
  const int64_t size = chip.memory.lm_words / isa::kWordsPerLong;
  const std::array<std::pair<Space, isa::HazardResource>, 2> memories{
      {{Space::kLm0, isa::HazardResource::kLm0}, {Space::kLm1, isa::HazardResource::kLm1}}};
  std::array<std::vector<bool>, 2> taken;
  taken.fill(std::vector<bool>(static_cast<size_t>(size), false));
  std::vector<int64_t> counts;
  const auto take = [&](const isa::Instruction& instruction) {
    for (const isa::Access& access : isa::accesses(instruction, chip)) {
      const auto memory =
          std::ranges::find(memories, access.resource, &std::pair<Space, isa::HazardResource>::second);
      if (memory == memories.end() || !access.write) continue;
      int64_t low = *std::ranges::min_element(access.begin);
      int64_t high = *std::ranges::max_element(access.begin) + access.length;
      for (size_t d = 0; d < std::min(counts.size(), access.loop_strides.size()); ++d) {
        const int64_t reach = access.loop_strides[d] * std::max<int64_t>(counts[d] - 1, 0);
        (reach < 0 ? low : high) += reach;
      }
      if (access.whole || low < 0 || high > size * isa::kWordsPerLong) {
        low = 0;
        high = size * isa::kWordsPerLong;
      }
      std::vector<bool>& words = taken.at(static_cast<size_t>(memory - memories.begin()));
      for (int64_t lw = low / isa::kWordsPerLong; lw < isa::ceil_div(high, isa::kWordsPerLong); ++lw)
        words[static_cast<size_t>(lw)] = true;
    }
  };
  const auto visit = [&](const auto& self, const std::vector<isa::Statement>& statements) -> void {
    for (const isa::Statement& statement : statements) {
      if (const auto* loop = std::get_if<isa::Loop>(&statement.kind)) {
        counts.push_back(loop->count);
        self(self, loop->body);
        counts.pop_back();
      } else if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
        for (const isa::Instruction& instruction : step->instructions) take(instruction);
      }
    }
  };
  visit(visit, program.statements);
  std::vector<TileProgram::Kept> ranges;
  for (size_t k = 0; k < memories.size(); ++k) {
    int64_t end = -1;
    for (int64_t lw = 0; lw < size; ++lw) {
      if (!taken.at(k)[static_cast<size_t>(lw)]) continue;
      if (lw != end) ranges.push_back({lw, 0, memories.at(k).first});
      ++ranges.back().size_lw;
      end = lw + 1;
    }
  }
  return ranges;
}

int64_t own_local_memory_lw(const TileProgram& program, Space memory, const std::set<int>& without,
                            const isa::Chip& chip) {
  const int64_t capacity = chip.memory.lm_words / isa::kWordsPerLong;
  std::vector<bool> used(program.buffers.size(), false);
  for (const TileNode& node : program.body) {
    const BufferUse use = buffers_of(node);
    for (const std::vector<int>& list : {use.reads, use.writes}) {
      for (const int buffer : list) used[static_cast<size_t>(buffer)] = true;
    }
  }
  int64_t here = 0, there = 0, either = 0;  // LM0, LM1
  for (size_t k = 0; k < program.buffers.size(); ++k) {
    const TileBuffer& buffer = program.buffers[k];
    if (!used[k] || buffer.address_lw >= 0 || without.contains(static_cast<int>(k))) continue;
    const bool other_homes = (buffer.homes & ~isa::space_bit(Space::kLm0)) != 0;
    if (may_be_in(buffer, Space::kLm0) && !other_homes) here += buffer.size_lw;
    if (may_be_in(buffer, Space::kLm0) && other_homes) either += buffer.size_lw;
    if (!may_be_in(buffer, Space::kLm0) && may_be_in(buffer, Space::kLm1)) there += buffer.size_lw;
  }
  const int64_t room_there = std::max<int64_t>(0, capacity - there - kTemporariesLw);
  return std::min(capacity, memory == Space::kLm0
                                ? here + kTemporariesLw + std::max<int64_t>(0, either - room_there)
                                : there + kTemporariesLw + std::min(either, room_there));
}

}  // namespace kodama::compiler
