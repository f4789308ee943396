#include <algorithm>
#include <optional>

#include "scheduler/machine/builtin_passes.h"
#include "scheduler/machine/operand_copies.h"
#include "scheduler/machine/program_analysis.h"

/// "copies". A copy of all words of a value (`lpassa`, no mask) goes away and both values become one, with
/// the memories that both allow, where the two never have to hold different data at one time:
///
///   - the source dies at the copy, and the target is born there: their lives don't meet;
///   - or the source is written whole and dies in the block of the copy, and the target is not touched in
///     between. What it held then is lost at the copy: `t = s + x; s = t` in a loop;
///   - or the target lives in the block of the copy only and is never written otherwise, and the source is
///     not written before its last use.
///
/// $aluf holds the data after a copy; where somebody reads it there, the copy stays.
namespace kodama::scheduler {
namespace {

using isa::Operand;
using isa::Space;

class Coalescing {
 public:
  explicit Coalescing(MachineProgram& program)
      : program_(program),
        forward_(program),
        index_(index_program(program)),
        uses_(value_uses(program, index_)) {
    for (size_t v = 0; v < uses_.size(); ++v)
      lifetimes_.push_back(lifetime_of(uses_[v], program.values[v].size_words, index_));
    list_operations(program_.body);
  }

  void run() {
    int64_t position = 0;
    visit(program_.body, position);
    position = 0;
    erase_merged(program_.body, position);
  }

 private:
  /// A copy of whole values, from the first to the second.
  using Pair = std::pair<int32_t, int32_t>;

  std::optional<Pair> copied(const isa::Instruction& instruction) const {
    if (instruction.opcode != isa::Opcode::kPassa || instruction.precision != isa::Precision::kLong ||
        instruction.unsigned_op || instruction.zero_flush.kind != isa::Mask::Kind::kNone ||
        instruction.destinations.size() != 1)
      return std::nullopt;
    const Operand& from = instruction.sources[0];
    const Operand& to = instruction.destinations[0];
    if (!is_whole_value(from) || !is_whole_value(to) || from.width != to.width || from.value == to.value ||
        size_of(from) != size_of(to))
      return std::nullopt;
    return Pair{from.value, to.value};
  }
  int64_t size_of(const Operand& operand) const {
    return program_.values[static_cast<size_t>(operand.value)].size_words;
  }
  bool is_whole_value(const Operand& operand) const {
    if (operand.space != Space::kVirtual || operand.flat || operand.t_indirect || operand.negate ||
        operand.extend || operand.reduce || operand.j >= 0 || operand.mask.kind != isa::Mask::Kind::kNone ||
        operand.base != 0 || !trimmed(operand.loop_strides).empty() || operand.width == isa::Width::kWord)
      return false;
    const int width = words(operand.width);
    return size_of(operand) == (operand.stride == width ? isa::kCyclesPerStep * width : width) &&
           (operand.stride == width || operand.stride == 0);
  }

  void list_operations(std::vector<Node>& nodes) {
    for (Node& node : nodes) {
      if (auto* region = std::get_if<RegionNode>(&node.kind)) list_operations(region->body);
      if (auto* loop = std::get_if<CountedLoop>(&node.kind)) list_operations(loop->body);
      if (auto* block = std::get_if<Block>(&node.kind)) {
        for (Operation& operation : block->operations) operations_.push_back({&operation, false});
      }
    }
  }

  void visit(std::vector<Node>& nodes, int64_t& position) {
    for (Node& node : nodes) {
      if (auto* region = std::get_if<RegionNode>(&node.kind)) visit(region->body, position);
      if (auto* loop = std::get_if<CountedLoop>(&node.kind)) visit(loop->body, position);
      auto* block = std::get_if<Block>(&node.kind);
      if (block == nullptr) continue;
      const int64_t begin = position;
      const int64_t end = begin + static_cast<int64_t>(block->operations.size());
      const std::vector<bool> needed = forward_.within(*block);
      for (; position < end; ++position) {
        const auto k = static_cast<size_t>(position - begin);
        const std::optional<Pair> pair = copied(block->operations[k].instruction);
        if (pair && !needed[k + 1] && may_merge(*pair, position, begin, end)) merge(*pair, position);
      }
    }
  }

  /// Copies stay where they are until all are known: positions count them, and uses point to operations.
  void erase_merged(std::vector<Node>& nodes, int64_t& position) {
    for (Node& node : nodes) {
      if (auto* region = std::get_if<RegionNode>(&node.kind)) erase_merged(region->body, position);
      if (auto* loop = std::get_if<CountedLoop>(&node.kind)) erase_merged(loop->body, position);
      if (auto* block = std::get_if<Block>(&node.kind))
        std::erase_if(block->operations, [&](const Operation&) {
          return operations_[static_cast<size_t>(position++)].is_merged;
        });
    }
  }

  /// The copy is at `position`, its block from `begin` to `end`.
  bool may_merge(const Pair& pair, int64_t position, int64_t begin, int64_t end) const {
    const auto from = static_cast<size_t>(pair.first);
    const auto to = static_cast<size_t>(pair.second);
    const auto is_indirect = [](const ValueUse& use) { return use.operand->t_indirect; };
    if ((program_.values[from].homes & program_.values[to].homes) == 0 ||
        std::ranges::any_of(uses_[from], is_indirect) || std::ranges::any_of(uses_[to], is_indirect))
      return false;
    if (!lifetimes_[from].overlaps(lifetimes_[to])) return true;
    const auto in_block = [&](size_t v) {
      return lifetimes_[v].begin > 2 * begin && lifetimes_[v].end <= 2 * end &&
             std::ranges::all_of(
                 uses_[v], [&](const ValueUse& use) { return use.position >= begin && use.position < end; });
    };
    if (in_block(from) && uses_[from].back().position == position) {
      const int64_t born = uses_[from].front().position;
      return is_surely_written(pair.first, born, position) &&
             std::ranges::none_of(uses_[to], [&](const ValueUse& use) {
               return (use.position > born && use.position < position) ||
                      (use.position == born && use.written);
             });
    }
    if (in_block(to) && uses_[to].front().position == position &&
        std::ranges::count(uses_[to], true, &ValueUse::written) == 1) {
      const int64_t last = uses_[to].back().position;
      return std::ranges::none_of(uses_[from], [&](const ValueUse& use) {
        return use.written && use.position > position && use.position < last;
      });
    }
    return false;
  }

  /// By operations of one block, [begin, end): what they leave would be the other value's words.
  bool is_surely_written(int32_t value, int64_t begin, int64_t end) const {
    std::vector<bool> written(static_cast<size_t>(program_.values[static_cast<size_t>(value)].size_words),
                              false);
    for (const ValueUse& use : uses_[static_cast<size_t>(value)]) {
      const Operand& operand = *use.operand;
      if (!use.written || use.position < begin || use.position >= end || operand.j >= 0 ||
          operand.mask.kind != isa::Mask::Kind::kNone || !trimmed(operand.loop_strides).empty())
        continue;
      for (int cycle = 0; cycle < isa::kCyclesPerStep; ++cycle)
        std::fill_n(written.begin() + operand.address(cycle), words(operand.width), true);
    }
    return std::ranges::find(written, false) == written.end();
  }

  void merge(const Pair& pair, int64_t position) {
    Value& kept = program_.values[static_cast<size_t>(pair.first)];
    const Value& gone = program_.values[static_cast<size_t>(pair.second)];
    kept.homes &= gone.homes;
    kept.alignment_words = std::max(kept.alignment_words, gone.alignment_words);
    std::vector<ValueUse>& uses = uses_[static_cast<size_t>(pair.first)];
    std::vector<ValueUse>& others = uses_[static_cast<size_t>(pair.second)];
    operations_[static_cast<size_t>(position)].is_merged = true;
    for (std::vector<ValueUse>* list : {&uses, &others})
      std::erase_if(*list, [&](const ValueUse& use) { return use.position == position; });
    for (const ValueUse& use : others)
      rename(*operations_[static_cast<size_t>(use.position)].operation, pair);
    const auto middle = uses.insert(uses.end(), others.begin(), others.end());
    std::ranges::inplace_merge(uses, middle, {},
                               [](const ValueUse& use) { return std::pair(use.position, use.written); });
    others.clear();
    lifetimes_[static_cast<size_t>(pair.first)] = lifetime_of(uses, kept.size_words, index_);
    lifetimes_[static_cast<size_t>(pair.second)] = {};
  }
  static void rename(Operation& operation, const Pair& pair) {
    for (auto* operands : {&operation.instruction.sources, &operation.instruction.destinations}) {
      for (Operand& operand : *operands) {
        if (operand.space == Space::kVirtual && operand.value == pair.second) operand.value = pair.first;
      }
    }
  }

  MachineProgram& program_;
  ForwardNeeds forward_;
  struct Listed {
    Operation* operation = nullptr;
    bool is_merged = false;  ///< a copy that goes away
  };

  ProgramIndex index_;
  std::vector<std::vector<ValueUse>> uses_;  ///< by value
  std::vector<Lifetime> lifetimes_;
  std::vector<Listed> operations_;  ///< by position
};

}  // namespace

Coalescer copy_coalescing_pass() {
  return {"copies",
          "where a value is a copy of another, both become one",
          {},
          [](MachineProgram& program, const isa::Chip&, const passes::PassOptions&) {
            Coalescing(program).run();
          }};
}

}  // namespace kodama::scheduler
