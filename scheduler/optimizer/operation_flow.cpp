#include "scheduler/optimizer/operation_flow.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <unordered_map>

#include "isa/error.h"

namespace kodama::scheduler {
namespace {

using isa::Access;
using isa::HazardResource;
using isa::Instruction;
using isa::IssueGroup;
using isa::Operand;
using isa::Space;

/// Memories so large, or so seldom of interest, that all that is written to them counts as read.
bool always_read(HazardResource resource) {
  return resource == HazardResource::kDram || resource == HazardResource::kPdm ||
         resource == HazardResource::kDar;
}

/// The walk over the program. Knows for every word which writes it may hold.
class FlowWalk {
 public:
  FlowWalk(const std::vector<StreamOperation>& operations, const std::vector<bool>& dead,
           const isa::Chip& chip)
      : operations_(operations), dead_(dead), chip_(chip) {
    flow_.source_definition.resize(operations.size());
    flow_.defines.resize(operations.size());
    for (size_t k = 0; k < operations.size(); ++k) {
      flow_.source_definition[k].assign(operations[k].instruction.sources.size(), -1);
      for (const Access& access : operations[k].accesses) {
        if (!access.write) continue;
        if (access.resource == HazardResource::kBar0) bar_moves_[0] = true;
        if (access.resource == HazardResource::kBar1) bar_moves_[1] = true;
      }
    }
  }

  OperationFlow run(const std::vector<FlowEvent>& events, const std::optional<std::vector<LiveOut>>& live) {
    for (const FlowEvent& event : events) {
      if (event.reads) {
        // By physical address, past the BARs: all of the memory.
        if (const auto resource = isa::hazard_resource(event.reads->space)) escape(*resource, 0, INT64_MAX);
        continue;
      }
      for (const int k : event.step) {
        if (!dead_[static_cast<size_t>(k)]) read(k);
      }
      for (const int k : event.step) {
        if (!dead_[static_cast<size_t>(k)]) write(k);
      }
    }
    if (live) {
      for (const LiveOut& range : *live) escape(range.memory, range.begin, range.end);
    } else {
      for (int r = 0; r < isa::kHazardResourceCount; ++r)
        escape(static_cast<HazardResource>(r), 0, INT64_MAX);
    }
    for (Definition& definition : flow_.definitions) {
      definition.escapes = definition.escapes || always_read(definition.resource);
      std::sort(definition.uses.begin(), definition.uses.end());
      definition.uses.erase(std::unique(definition.uses.begin(), definition.uses.end()),
                            definition.uses.end());
    }
    return std::move(flow_);
  }

 private:
  struct Memory {
    std::unordered_map<int64_t, std::vector<int>> words;  ///< definitions that a word may hold
    std::vector<int> anywhere;                            ///< that may be in any word
  };

  bool is_whole(const Access& access) const {
    return access.whole || (access.resource == HazardResource::kLm0 && bar_moves_[0]) ||
           (access.resource == HazardResource::kLm1 && bar_moves_[1]);
  }
  template <typename Visit>
  void for_each_word(const Access& access, Visit&& visit) const {
    const int64_t size = isa::wrap_size(access.resource, chip_);
    for (int c = 0; c < access.cycles; ++c) {
      if (access.cycles > 1 && (access.active_cycles >> c & 1) == 0) continue;
      for (int64_t w = 0; w < access.length; ++w) {
        const int64_t word = access.begin[static_cast<size_t>(c)] + w;
        visit(size > 0 ? (word % size + size) % size : word);
      }
    }
  }
  Memory& memory(HazardResource resource) { return memories_[static_cast<size_t>(resource)]; }

  void read(int k) {
    const StreamOperation& operation = operations_[static_cast<size_t>(k)];
    // Memories that the operation reads by operands alone, each with a definition of its own.
    std::array<bool, isa::kHazardResourceCount> explained{};
    explained.fill(true);
    for (size_t s = 0; s < operation.instruction.sources.size(); ++s) {
      const Operand& operand = operation.instruction.sources[s];
      const auto resource = isa::hazard_resource(operand.space);
      if (resource && !read_operand(k, s)) explained[static_cast<size_t>(*resource)] = false;
      if (operand.t_indirect) explained[static_cast<size_t>(HazardResource::kT)] = false;
    }
    for (const Operand& operand : operation.instruction.destinations) {
      if (operand.t_indirect) explained[static_cast<size_t>(HazardResource::kT)] = false;
    }
    for (const Access& access : operation.accesses) {
      if (access.write || always_read(access.resource)) continue;
      const bool by_operand = is_operand_memory(access.resource);
      if (by_operand && explained[static_cast<size_t>(access.resource)]) continue;
      Memory& at = memory(access.resource);
      const auto use = [&](int definition) {
        flow_.definitions[static_cast<size_t>(definition)].uses.push_back({k, -1});
      };
      for (const int d : at.anywhere) use(d);
      if (is_whole(access)) {
        for (const auto& [word, definitions] : at.words) {
          for (const int d : definitions) use(d);
        }
      } else {
        for_each_word(access, [&](int64_t word) {
          const auto found = at.words.find(word);
          if (found == at.words.end()) return;
          for (const int d : found->second) use(d);
        });
      }
    }
  }
  static bool is_operand_memory(HazardResource resource) {
    return resource == HazardResource::kLm0 || resource == HazardResource::kLm1 ||
           resource == HazardResource::kGrf0 || resource == HazardResource::kGrf1 ||
           resource == HazardResource::kT;
  }

  /// Whether every word that the operand reads has one and the same definition, of which it becomes a use.
  bool read_operand(int k, size_t s) {
    const Operand& operand = operations_[static_cast<size_t>(k)].instruction.sources[s];
    const bool is_t = operand.space == Space::kT;
    if ((!isa::is_pe_memory(operand.space) && !is_t) || operand.t_indirect || operand.j >= 0) return false;
    const auto resource = isa::hazard_resource(operand.space);
    if (!resource) return false;
    if ((operand.space == Space::kLm0 && bar_moves_[0]) || (operand.space == Space::kLm1 && bar_moves_[1]))
      return false;
    const Memory& at = memory(*resource);
    if (!at.anywhere.empty()) return false;
    const int64_t size = isa::wrap_size(*resource, chip_);
    const int width = is_t ? 1 : isa::words(operand.width);
    int only = -1;
    for (int c = 0; c < isa::kCyclesPerStep; ++c) {
      const int64_t address = is_t ? c : operand.address(c);
      const int64_t begin = address - (address % width + width) % width;
      for (int64_t w = begin; w < begin + width; ++w) {
        const auto found = at.words.find(size > 0 ? (w % size + size) % size : w);
        if (found == at.words.end() || found->second.size() != 1) return false;
        if (only >= 0 && only != found->second[0]) return false;
        only = found->second[0];
      }
    }
    if (only < 0) return false;
    flow_.source_definition[static_cast<size_t>(k)][s] = only;
    flow_.definitions[static_cast<size_t>(only)].uses.push_back({k, static_cast<int>(s)});
    return true;
  }

  void write(int k) {
    const StreamOperation& operation = operations_[static_cast<size_t>(k)];
    std::map<HazardResource, int> of_resource;
    for (const Access& access : operation.accesses) {
      if (!access.write) continue;
      const auto [entry, is_new] =
          of_resource.try_emplace(access.resource, static_cast<int>(flow_.definitions.size()));
      if (is_new) {
        flow_.definitions.push_back({k, access.resource, always_read(access.resource), {}});
        flow_.defines[static_cast<size_t>(k)].push_back(entry->second);
      }
      if (always_read(access.resource)) continue;
      const int definition = entry->second;
      Memory& at = memory(access.resource);
      if (is_whole(access)) {
        if (std::ranges::find(at.anywhere, definition) == at.anywhere.end())
          at.anywhere.push_back(definition);
        continue;
      }
      const bool replaces = !access.may_not_write && access.place < 0 && !goes_beside(operation, access);
      for_each_word(access, [&](int64_t word) {
        std::vector<int>& held = at.words[word];
        if (replaces) held.clear();
        // What is not replaced may be what was there before the program: then nobody knows what a word holds.
        if (!replaces && held.empty()) held.push_back(unknown(access.resource));
        if (std::ranges::find(held, definition) == held.end()) held.push_back(definition);
      });
    }
  }

  /// Writes with `j`, of which each PE does a part, masks that don't cover what they write, and the
  /// turnaround register, where a smaller transfer leaves a part of a larger one.
  static bool goes_beside(const StreamOperation& operation, const Access& access) {
    return operation.is_masked || access.resource == HazardResource::kTurnaround ||
           std::ranges::any_of(operation.instruction.destinations, [&](const Operand& destination) {
             return isa::hazard_resource(destination.space) == access.resource && destination.j >= 0;
           });
  }
  /// Stands for what was in a memory before.
  int unknown(HazardResource resource) {
    flow_.definitions.push_back({-1, resource, true, {}});
    return static_cast<int>(flow_.definitions.size()) - 1;
  }

  void escape(HazardResource resource, int64_t begin, int64_t end) {
    Memory& at = memory(resource);
    const auto mark = [&](int d) { flow_.definitions[static_cast<size_t>(d)].escapes = true; };
    for (const int d : at.anywhere) mark(d);
    for (const auto& [word, definitions] : at.words) {
      if (word < begin || word >= end) continue;
      for (const int d : definitions) mark(d);
    }
  }

  const std::vector<StreamOperation>& operations_;
  const std::vector<bool>& dead_;
  const isa::Chip& chip_;
  std::array<bool, 2> bar_moves_{};
  std::array<Memory, isa::kHazardResourceCount> memories_;
  OperationFlow flow_;
};

}  // namespace

OperationFlow analyze_flow(const std::vector<StreamOperation>& operations, const std::vector<bool>& dead,
                           const std::vector<FlowEvent>& events,
                           const std::optional<std::vector<LiveOut>>& live_outs, const isa::Chip& chip) {
  return FlowWalk(operations, dead, chip).run(events, live_outs);
}

bool is_cycle_invariant(const Instruction& instruction, bool same_forward) {
  const IssueGroup group = isa::issue_group(instruction);
  if (group != IssueGroup::kAlu && group != IssueGroup::kMauCalc) return false;
  if (instruction.zero_flush.kind != isa::Mask::Kind::kNone) return false;
  return std::ranges::all_of(instruction.sources, [&](const Operand& source) {
    switch (source.space) {
      case Space::kConstant:
      case Space::kImmediate:
      case Space::kMatX:
      case Space::kMatY:
        return true;
      case Space::kAluf:
      case Space::kMauf:
        return same_forward;
      case Space::kLm0:
      case Space::kLm1:
      case Space::kGrf0:
      case Space::kGrf1:
        for (int c = 1; c < isa::kCyclesPerStep; ++c) {
          if (source.address(c) != source.address(0)) return false;
        }
        return !source.t_indirect;
      default:
        return false;
    }
  });
}

bool lower_matters(const Instruction& instruction, size_t source, bool forward_low) {
  const Operand& operand = instruction.sources[source];
  if (operand.reduce) return true;
  switch (isa::issue_group(instruction)) {
    case IssueGroup::kAlu:
      // Lanes are those of the upper LW; the lower LW of x becomes that of the result.
      if (source > 0) return false;
      return forward_low || std::ranges::any_of(instruction.destinations, [](const Operand& destination) {
               return destination.width == isa::Width::kDoubleLong || destination.space == Space::kT;
             });
    case IssueGroup::kMauCalc:
      // The addend of half precision is four floats.
      return instruction.precision == isa::Precision::kHalf && !operand.extend &&
             static_cast<int>(source) == isa::info(instruction.opcode).mau.addend;
    case IssueGroup::kMauMwrite:
      return instruction.precision == isa::Precision::kHalf &&
             instruction.destinations[0].width == isa::Width::kDoubleLong;
    case IssueGroup::kL1bm:
      return isa::movement(instruction).rule == isa::Movement::Rule::kHalfSum ||
             instruction.destinations[0].width == isa::Width::kDoubleLong;
    default:
      return true;
  }
}

Space forwarding_register(const Instruction& instruction) {
  switch (isa::issue_group(instruction)) {
    case IssueGroup::kAlu:
      return Space::kAluf;
    case IssueGroup::kMauCalc:
      return Space::kMauf;
    case IssueGroup::kMauMread:
      return Space::kMreadf;
    case IssueGroup::kL1bm:
    case IssueGroup::kL1bmTurnaround:
      return isa::is_l1bm_to_pe(instruction) ? Space::kLbf : Space::kNone;
    default:
      return Space::kNone;
  }
}

}  // namespace kodama::scheduler
