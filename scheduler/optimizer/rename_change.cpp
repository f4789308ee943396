/// `rename`: what an operation writes, and all that read it, goes to a free place in a register file.
#include <algorithm>
#include <array>
#include <optional>

#include "isa/costs.h"
#include "scheduler/optimizer/builtin_changes.h"

namespace kodama::scheduler {
namespace {

using isa::Access;
using isa::HazardResource;
using isa::Instruction;
using isa::Operand;
using isa::Space;

/// Words of GRFs that hold nothing of use for a while.
class FreeRegisters {
 public:
  FreeRegisters(const ProgramStream& stream, const std::optional<std::vector<LiveOut>>& live_outs,
                const isa::Chip& chip)
      : size_(chip.memory.grf_words) {
    for (auto& words : words_) words.resize(static_cast<size_t>(size_));
    if (live_outs) {
      for (size_t bank = 0; bank < 2; ++bank) {
        for (Word& word : words_[bank]) word.is_live_at_end = false;
      }
      for (const LiveOut& live : *live_outs) {
        const int bank = bank_of(live.memory);
        for (int64_t w = live.begin; bank >= 0 && w < std::min(live.end, size_); ++w)
          words_[static_cast<size_t>(bank)][static_cast<size_t>(w)].is_live_at_end = true;
      }
    }
    // In the order in which a step reads, then writes.
    event_of_.assign(stream.operations.size(), 0);
    int now = 0;
    for (const FlowEvent& event : stream.events) {
      ++now;
      for (const int k : event.step) event_of_[static_cast<size_t>(k)] = now;
      if (event.reads) {
        const bool grf = event.reads->space == Space::kGrf0 || event.reads->space == Space::kGrf1;
        if (!grf) continue;
        for (Word& word : words_[event.reads->space == Space::kGrf0 ? 0 : 1])
          word.uses.push_back({now, false});
      }
      for (const bool writes : {false, true}) {
        for (const int k : event.step) {
          if (stream.dead[static_cast<size_t>(k)]) continue;
          const StreamOperation& operation = stream.operations[static_cast<size_t>(k)];
          for (const Access& access : operation.accesses) {
            const int bank = bank_of(access.resource);
            if (bank < 0 || access.write != writes) continue;
            const bool replaces = writes && !operation.is_masked && !access.may_not_write && !access.whole;
            for (int c = 0; c < access.cycles; ++c) {
              for (int64_t w = 0; w < access.length; ++w) {
                const int64_t word = access.begin[static_cast<size_t>(c)] + w;
                words_[static_cast<size_t>(bank)][static_cast<size_t>((word % size_ + size_) % size_)]
                    .uses.push_back({now, replaces});
              }
            }
          }
        }
      }
    }
  }

  /// `length` words that nobody uses from the step of operation `first` to that of `last`, and that are
  /// replaced before they are read again. They are taken for good.
  std::optional<int64_t> take(Space space, int64_t length, int first, int last) {
    auto& words = words_[space == Space::kGrf0 ? 0 : 1];
    constexpr int64_t kAlignment = isa::words(isa::Width::kDoubleLong);
    for (int64_t begin = 0; begin + length <= size_; begin += kAlignment) {
      bool is_free = true;
      for (int64_t w = begin; w < begin + length && is_free; ++w)
        is_free = words[static_cast<size_t>(w)].is_free(event_of_[static_cast<size_t>(first)],
                                                        event_of_[static_cast<size_t>(last)]);
      if (!is_free) continue;
      for (int64_t w = begin; w < begin + length; ++w) words[static_cast<size_t>(w)].is_taken = true;
      return begin;
    }
    return std::nullopt;
  }

 private:
  struct Use {
    int event = 0;
    bool replaces = false;
  };
  struct Word {
    std::vector<Use> uses;
    bool is_live_at_end = true;
    bool is_taken = false;

    bool is_free(int first, int last) const {
      if (is_taken) return false;
      for (const Use& use : uses) {
        if (use.event < first) continue;
        if (use.event <= last) return false;
        return use.replaces;
      }
      return !is_live_at_end;
    }
  };
  static int bank_of(HazardResource resource) {
    if (resource == HazardResource::kGrf0) return 0;
    return resource == HazardResource::kGrf1 ? 1 : -1;
  }

  int64_t size_;
  std::vector<int> event_of_;  ///< by operation
  std::array<std::vector<Word>, 2> words_;
};

void move_operand(Operand& operand, Space to, int64_t shift) {
  operand.space = to;
  if (operand.flat) {
    for (int32_t& address : operand.flat_addresses) address += static_cast<int32_t>(shift);
  } else {
    operand.base += shift;
  }
}

class Renaming {
 public:
  explicit Renaming(const ChangeContext& context)
      : context_(context), registers_(context.stream, context.options.live_outs, context.chip) {}

  void find(int k, const ProgramSegment& segment, std::vector<StreamChange>& changes) {
    const Instruction& producer = context_.stream.operations[static_cast<size_t>(k)].instruction;
    if (context_.stream.operations[static_cast<size_t>(k)].is_masked) return;
    for (const int d : context_.flow.defines[static_cast<size_t>(k)]) {
      const Definition& definition = context_.flow.definitions[static_cast<size_t>(d)];
      if (definition.escapes || definition.uses.empty()) continue;
      const auto written = std::ranges::find_if(producer.destinations, [&](const Operand& destination) {
        return isa::is_pe_memory(destination.space) &&
               isa::hazard_resource(destination.space) == definition.resource;
      });
      if (written == producer.destinations.end() || written->t_indirect || written->j >= 0) continue;
      int last = k;
      bool known = true;
      for (const Definition::Use& use : definition.uses) {
        known = known && use.source >= 0 && use.operation >= segment.begin && use.operation < segment.end;
        last = std::max(last, use.operation);
      }
      if (!known) continue;
      int64_t low = INT64_MAX;
      int64_t high = 0;
      for (int c = 0; c < isa::kCyclesPerStep; ++c) {
        low = std::min(low, written->address(c));
        high = std::max(high, written->address(c) + isa::words(written->width));
      }
      const bool lm = written->space == Space::kLm0 || written->space == Space::kLm1;
      if (low < 0 || high > (lm ? context_.chip.memory.lm_words : context_.chip.memory.grf_words)) continue;
      constexpr int64_t kAlignment = isa::words(isa::Width::kDoubleLong);
      low -= low % kAlignment;
      for (const Space to : {Space::kGrf0, Space::kGrf1}) {
        Instruction trial = producer;
        trial.destinations[static_cast<size_t>(written - producer.destinations.begin())].space = to;
        if (!isa::operand_error(trial).empty() || !isa::issue_conflict({trial}, context_.chip).empty())
          continue;
        const auto begin = registers_.take(to, high - low, k, last);
        if (!begin) continue;
        changes.push_back(moved(k, d, written->space, to, *begin - low));
      }
    }
  }

 private:
  /// What operation `k` writes to `from` as definition `d`, elsewhere.
  StreamChange moved(int k, int d, Space from, Space to, int64_t shift) const {
    StreamChange change;
    change.definition = d;
    change.moved_to = isa::hazard_resource(to);
    change.edits.push_back({k, [=](Instruction& instruction) {
                              const auto written =
                                  std::ranges::find(instruction.destinations, from, &Operand::space);
                              if (written != instruction.destinations.end())
                                move_operand(*written, to, shift);
                            }});
    for (const Definition::Use& use : context_.flow.definitions[static_cast<size_t>(d)].uses) {
      change.edits.push_back(
          {use.operation, [=, source = static_cast<size_t>(use.source)](Instruction& instruction) {
             move_operand(instruction.sources[source], to, shift);
           }});
    }
    return change;
  }

  const ChangeContext& context_;
  FreeRegisters registers_;
};

}  // namespace

ChangeKind rename_change() {
  return {"rename",
          "values go through other registers than those written, with --allow-rename",
          {},
          [](const ChangeContext& context) -> ChangeFinder {
            if (!context.options.allow_rename) return {};
            return [finder = Renaming(context)](int k, const ProgramSegment& segment,
                                                std::vector<StreamChange>& changes) mutable {
              finder.find(k, segment, changes);
            };
          }};
}

}  // namespace kodama::scheduler
