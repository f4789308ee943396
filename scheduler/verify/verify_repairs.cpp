#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "scheduler/verify/findings.h"
#include "scheduler/verify/verify.h"

namespace kodama::verify {

using isa::Opcode;
using isa::Precision;
using isa::Width;
using scheduler::Block;
using scheduler::CountedLoop;
using scheduler::Node;
using scheduler::RegionNode;

namespace {

constexpr std::string_view kVerifyRepairs = "verify_repairs";

bool reads_aluf(const Instruction& instruction) {
  return std::ranges::any_of(instruction.sources,
                             [](const Operand& source) { return source.space == Space::kAluf; });
}
bool writes_aluf(const Instruction& instruction) {
  return isa::issue_group(instruction) == isa::IssueGroup::kAlu;
}

/// Operations of `after` beside one of `before`.
struct Copies {
  std::vector<const Operation*> list;
  bool keeps_aluf = false;  ///< the first saves it, the last brings it back
};

class RepairMatch {
 public:
  RepairMatch(const MachineProgram& before, const MachineProgram& after) : before_(before), after_(after) {}

  void run() {
    if (after_.values.size() < before_.values.size()) fail("values are missing");
    for (size_t v = 0; v < before_.values.size(); ++v) {
      scheduler::Value value = after_.values[v];
      value.home = before_.values[v].home;
      if (value != before_.values[v]) fail(fmt::format("value %{} has changed", before_.values[v].name));
    }
    aluf_crosses_blocks_ = some_block_begins_with_aluf(before_.body);
    match(before_.body, after_.body);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    verify::fail(kVerifyRepairs, fmt::format("program '{}': {}", before_.name, what));
  }
  [[noreturn]] void fail(const Operation& operation, const std::string& what) const {
    fail(fmt::format("{}: {}", describe(operation.instruction, operation.origin), what));
  }

  static bool some_block_begins_with_aluf(const std::vector<Node>& nodes) {
    return std::ranges::any_of(nodes, [](const Node& node) {
      if (const auto* loop = std::get_if<CountedLoop>(&node.kind))
        return some_block_begins_with_aluf(loop->body);
      if (const auto* region = std::get_if<RegionNode>(&node.kind))
        return some_block_begins_with_aluf(region->body);
      for (const Operation& operation : std::get<Block>(node.kind).operations) {
        if (reads_aluf(operation.instruction)) return true;
        if (writes_aluf(operation.instruction)) return false;
      }
      return false;
    });
  }

  void match(const std::vector<Node>& before, const std::vector<Node>& after) {
    if (before.size() != after.size()) fail("blocks, loops or regions have changed");
    for (size_t k = 0; k < before.size(); ++k) {
      if (before[k].kind.index() != after[k].kind.index()) fail("blocks, loops or regions have changed");
      if (const auto* loop = std::get_if<CountedLoop>(&before[k].kind)) {
        const auto& other = std::get<CountedLoop>(after[k].kind);
        if (loop->count != other.count) fail("the count of a loop has changed");
        match(loop->body, other.body);
      } else if (const auto* region = std::get_if<RegionNode>(&before[k].kind)) {
        const auto& other = std::get<RegionNode>(after[k].kind);
        if (region->name != other.name) fail("the name of a region has changed");
        match(region->body, other.body);
      } else {
        match(std::get<Block>(before[k].kind).operations, std::get<Block>(after[k].kind).operations);
      }
    }
  }

  void match(const std::vector<Operation>& before, const std::vector<Operation>& after) {
    // Whether somebody still reads $aluf as it is before operation k.
    std::vector<bool> is_read(before.size() + 1, aluf_crosses_blocks_);
    for (size_t k = before.size(); k-- > 0;) {
      const Instruction& instruction = before[k].instruction;
      is_read[k] = reads_aluf(instruction) || (is_read[k + 1] && !writes_aluf(instruction));
    }
    size_t at = 0;
    for (size_t k = 0; k < before.size(); ++k) {
      sources_.clear();
      Copies in_front = take(after, at, [&](const Instruction& copy) { return fills_temporary(copy); });
      if (at == after.size()) fail(before[k], "it is missing");
      const Operation& operation = after[at++];
      Instruction restored = operation.instruction;
      for (Operand& source : restored.sources) restore_source(source);
      if (!sources_.empty()) fail(before[k], "a copy in front of it is for nobody");
      std::map<int32_t, Operand*> results;
      for (Operand& destination : restored.destinations) {
        if (is_temporary(destination)) results[destination.value] = &destination;
      }
      const size_t moved = results.size();
      const Copies behind = take(after, at, [&](const Instruction& copy) { return empties(copy, results); });
      if (!results.empty()) fail(before[k], "its result stays in a temporary");
      if (restored != before[k].instruction) fail(before[k], "it has changed by more than copies explain");
      if (moved > 0) check_masks(before[k]);
      if ((!in_front.list.empty() && is_read[k] && !in_front.keeps_aluf) ||
          (!behind.list.empty() && is_read[k + 1] && !behind.keeps_aluf))
        fail(before[k], "copies beside it overwrite $aluf, which is read later");
    }
    if (at != after.size()) fail(after[at], "it is one too many");
  }

  /// The longest row of copies from `at` on, perhaps with $aluf saved around them.
  template <typename IsCopy>
  Copies take(const std::vector<Operation>& operations, size_t& at, const IsCopy& is_copy) {
    Copies copies;
    std::optional<int32_t> saved;
    if (at < operations.size()) saved = saves_aluf(operations[at].instruction);
    if (saved) ++at;
    for (; at < operations.size() && is_copy(operations[at].instruction); ++at)
      copies.list.push_back(&operations[at]);
    if (saved && copies.list.empty()) {
      --at;  // it belongs to the operation behind
      return copies;
    }
    if (saved) {
      if (at == operations.size() || !brings_back(operations[at].instruction, *saved))
        fail("$aluf is saved, but not brought back behind the copies");
      ++at;
      copies.keeps_aluf = true;
    }
    return copies;
  }

  bool is_temporary(const Operand& operand) const {
    return operand.space == Space::kVirtual && operand.value >= static_cast<int32_t>(before_.values.size());
  }
  /// All words of a temporary, which is as large as one step of `width`; nothing else is written before.
  bool is_whole_temporary(const Operand& operand) const {
    if (!is_temporary(operand)) return false;
    Operand whole;
    whole.space = Space::kVirtual;
    whole.value = operand.value;
    whole.width = operand.width;
    whole.stride = words(operand.width);
    return operand == whole && after_.values.at(static_cast<size_t>(operand.value)).size_words >=
                                   int64_t{isa::kCyclesPerStep} * words(operand.width);
  }
  static bool is_passa(const Instruction& instruction, Precision precision) {
    Instruction plain;
    plain.opcode = Opcode::kPassa;
    plain.precision = precision;
    plain.sources = instruction.sources;
    plain.destinations = instruction.destinations;
    return instruction == plain && instruction.sources.size() == 1 && instruction.destinations.size() == 1;
  }
  static Operand aluf() {
    Operand operand;
    operand.space = Space::kAluf;
    operand.width = Width::kDoubleLong;
    return operand;
  }

  std::optional<int32_t> saves_aluf(const Instruction& copy) const {
    if (!is_passa(copy, Precision::kLong) || copy.sources[0] != aluf() ||
        !is_whole_temporary(copy.destinations[0]) || copy.destinations[0].width != Width::kDoubleLong)
      return std::nullopt;
    return copy.destinations[0].value;
  }
  bool brings_back(const Instruction& copy, int32_t saved) const {
    return is_passa(copy, Precision::kLong) && is_whole_temporary(copy.sources[0]) &&
           copy.sources[0].value == saved && copy.sources[0].width == Width::kDoubleLong &&
           copy.destinations[0].space == Space::kNoWrite;
  }

  /// A copy in front of an operation; remembers what it brings.
  bool fills_temporary(const Instruction& copy) {
    if (copy.sources.size() != 1 || copy.destinations.size() != 1 || copy.opcode != Opcode::kPassa ||
        is_temporary(copy.sources[0]) || !is_whole_temporary(copy.destinations[0]))
      return false;
    const Operand& from = copy.sources[0];
    const bool is_constant = from.space == Space::kConstant;
    if (!is_passa(copy, is_constant ? copy.precision : Precision::kLong)) return false;
    if (from.negate || from.extend || from.reduce) return false;
    const int32_t temporary = copy.destinations[0].value;
    if (!used_.insert(temporary).second) return false;
    sources_[temporary] = {from, copy.destinations[0].width, copy.precision};
    return true;
  }
  void restore_source(Operand& source) {
    if (!is_temporary(source)) return;
    const auto copied = sources_.find(source.value);
    Operand plain = source;
    plain.negate = plain.extend = plain.reduce = false;
    if (copied == sources_.end() || !is_whole_temporary(plain) || source.width != copied->second.width)
      fail(fmt::format("temporary %{} is read where nothing has been copied to it",
                       after_.values[static_cast<size_t>(source.value)].name));
    Operand original = copied->second.operand;
    original.negate = source.negate;
    original.extend = source.extend;
    original.reduce = source.reduce;
    source = original;
    sources_.erase(copied);
  }

  /// A copy behind an operation, of one of the results that are still in temporaries.
  bool empties(const Instruction& copy, std::map<int32_t, Operand*>& results) {
    if (!is_passa(copy, Precision::kLong) || !is_whole_temporary(copy.sources[0])) return false;
    const auto result = results.find(copy.sources[0].value);
    if (result == results.end() || !is_whole_temporary(*result->second) ||
        result->second->width != copy.sources[0].width || !used_.insert(result->first).second)
      return false;
    *result->second = copy.destinations[0];
    results.erase(result);
    return true;
  }
  /// A mask that a copy applies must not be overwritten by the operation itself.
  void check_masks(const Operation& operation) const {
    for (const Operand& destination : operation.instruction.destinations) {
      const isa::Mask& mask = destination.mask;
      for (const Operand& other : operation.instruction.destinations) {
        const bool is_register =
            mask.kind == isa::Mask::Kind::kRegister && other.space == Space::kOmr && other.base == mask.value;
        const bool is_value = mask.kind == isa::Mask::Kind::kVirtual && other.space == Space::kVirtual &&
                              other.value == mask.virtual_value;
        if (is_register || is_value) fail(operation, "it overwrites the mask that a copy behind it needs");
      }
    }
  }

  struct Copied {
    Operand operand;
    Width width = Width::kLong;
    Precision precision = Precision::kLong;
  };

  const MachineProgram& before_;
  const MachineProgram& after_;
  bool aluf_crosses_blocks_ = false;
  std::map<int32_t, Copied> sources_;  ///< by temporary: what the copies in front of an operation bring
  std::set<int32_t> used_;             ///< temporaries that have been filled
};

}  // namespace

void verify_repairs(const MachineProgram& before, const MachineProgram& after) {
  RepairMatch(before, after).run();
}

}  // namespace kodama::verify
