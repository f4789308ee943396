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

struct Use {
  int64_t position = 0;
  bool written = false;
};

class Coalescing {
 public:
  explicit Coalescing(MachineProgram& program) : program_(program), forward_(program) {}

  void run() {
    count();
    int64_t position = 0;
    visit(program_.body, position);
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

  void count() {
    index_ = index_program(program_);
    lifetimes_ = compute_lifetimes(program_, index_);
    uses_.assign(program_.values.size(), {});
    indirect_.assign(program_.values.size(), false);
    for (size_t p = 0; p < index_.sites.size(); ++p) {
      for_each_value_use(index_.sites[p].operation->instruction, [&](const Operand& operand, bool written) {
        const auto v = static_cast<size_t>(operand.value);
        uses_.at(v).push_back({static_cast<int64_t>(p), written});
        if (operand.t_indirect) indirect_[v] = true;
      });
    }
  }

  void visit(std::vector<Node>& nodes, int64_t& position) {
    for (Node& node : nodes) {
      if (auto* region = std::get_if<RegionNode>(&node.kind)) visit(region->body, position);
      if (auto* loop = std::get_if<CountedLoop>(&node.kind)) visit(loop->body, position);
      auto* block = std::get_if<Block>(&node.kind);
      if (block == nullptr) continue;
      const int64_t begin = position;
      for (size_t k = 0; k < block->operations.size();) {
        const auto end = begin + static_cast<int64_t>(block->operations.size());
        const std::optional<Pair> pair = copied(block->operations[k].instruction);
        if (!pair || forward_.within(*block)[k + 1] ||
            !may_merge(*pair, begin + static_cast<int64_t>(k), begin, end)) {
          ++k;
          continue;
        }
        block->operations.erase(block->operations.begin() + static_cast<std::ptrdiff_t>(k));
        merge(*pair);
        count();
      }
      position = begin + static_cast<int64_t>(block->operations.size());
    }
  }

  /// The copy is at `position`, its block from `begin` to `end`.
  bool may_merge(const Pair& pair, int64_t position, int64_t begin, int64_t end) const {
    const auto from = static_cast<size_t>(pair.first);
    const auto to = static_cast<size_t>(pair.second);
    if ((program_.values[from].homes & program_.values[to].homes) == 0 || indirect_[from] || indirect_[to])
      return false;
    if (!lifetimes_[from].overlaps(lifetimes_[to])) return true;
    const auto in_block = [&](size_t v) {
      return lifetimes_[v].begin > 2 * begin && lifetimes_[v].end <= 2 * end &&
             std::ranges::all_of(uses_[v],
                                 [&](const Use& u) { return u.position >= begin && u.position < end; });
    };
    if (in_block(from) && uses_[from].back().position == position) {
      const int64_t born = uses_[from].front().position;
      return is_surely_written(pair.first, born, position) &&
             std::ranges::none_of(uses_[to], [&](const Use& use) {
               return (use.position > born && use.position < position) ||
                      (use.position == born && use.written);
             });
    }
    if (in_block(to) && uses_[to].front().position == position &&
        std::ranges::count(uses_[to], true, &Use::written) == 1) {
      const int64_t last = uses_[to].back().position;
      return std::ranges::none_of(uses_[from], [&](const Use& use) {
        return use.written && use.position > position && use.position < last;
      });
    }
    return false;
  }

  /// By operations of one block, [begin, end): what they leave would be the other value's words.
  bool is_surely_written(int32_t value, int64_t begin, int64_t end) const {
    std::vector<bool> written(static_cast<size_t>(program_.values[static_cast<size_t>(value)].size_words),
                              false);
    for (int64_t p = begin; p < end; ++p) {
      for (const Operand& operand :
           index_.sites[static_cast<size_t>(p)].operation->instruction.destinations) {
        if (operand.space != Space::kVirtual || operand.value != value || operand.j >= 0 ||
            operand.mask.kind != isa::Mask::Kind::kNone || !trimmed(operand.loop_strides).empty())
          continue;
        for (int cycle = 0; cycle < isa::kCyclesPerStep; ++cycle)
          std::fill_n(written.begin() + operand.address(cycle), words(operand.width), true);
      }
    }
    return std::ranges::find(written, false) == written.end();
  }

  void merge(const Pair& pair) {
    Value& kept = program_.values[static_cast<size_t>(pair.first)];
    const Value& gone = program_.values[static_cast<size_t>(pair.second)];
    kept.homes &= gone.homes;
    kept.alignment_words = std::max(kept.alignment_words, gone.alignment_words);
    rename(program_.body, pair);
  }
  static void rename(std::vector<Node>& nodes, const Pair& pair) {
    for (Node& node : nodes) {
      if (auto* region = std::get_if<RegionNode>(&node.kind)) rename(region->body, pair);
      if (auto* loop = std::get_if<CountedLoop>(&node.kind)) rename(loop->body, pair);
      auto* block = std::get_if<Block>(&node.kind);
      if (block == nullptr) continue;
      for (Operation& operation : block->operations) {
        for (auto* operands : {&operation.instruction.sources, &operation.instruction.destinations}) {
          for (Operand& operand : *operands) {
            if (operand.space == Space::kVirtual && operand.value == pair.second) operand.value = pair.first;
          }
        }
      }
    }
  }

  MachineProgram& program_;
  ForwardNeeds forward_;
  ProgramIndex index_;
  std::vector<Lifetime> lifetimes_;
  std::vector<std::vector<Use>> uses_;  ///< by value
  std::vector<bool> indirect_;
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
