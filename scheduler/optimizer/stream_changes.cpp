#include "scheduler/optimizer/stream_changes.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "isa/costs.h"

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

class ChangeFinder {
 public:
  ChangeFinder(const ProgramStream& stream, const OperationFlow& flow, const OptimizeOptions& options,
               const isa::Chip& chip)
      : stream_(stream), flow_(flow), chip_(chip) {
    if (options.allow_rename) registers_.emplace(stream, options.live_outs, chip);
    const size_t n = stream.operations.size();
    producers_.resize(n);
    consumers_.resize(n);
    for (const ForwardLink& link : stream.links) {
      if (stream.dead[static_cast<size_t>(link.consumer)]) continue;
      producers_[static_cast<size_t>(link.consumer)].push_back(link.producer);
      consumers_[static_cast<size_t>(link.producer)].push_back(link.consumer);
    }
    invariant_.assign(n, false);
    for (size_t k = 0; k < n; ++k) {
      const bool same_forward = std::ranges::all_of(
          producers_[k], [&](int p) { return static_cast<bool>(invariant_[static_cast<size_t>(p)]); });
      invariant_[k] = is_cycle_invariant(stream.operations[k].instruction, same_forward);
    }
    forward_low_.assign(n, false);
    for (size_t k = n; k-- > 0;) {
      const Space space = forwarding_register(stream.operations[k].instruction);
      for (const int c : consumers_[k]) {
        const Instruction& consumer = stream.operations[static_cast<size_t>(c)].instruction;
        for (size_t s = 0; s < consumer.sources.size(); ++s) {
          if (consumer.sources[s].space == space &&
              lower_matters(consumer, s, forward_low_[static_cast<size_t>(c)]))
            forward_low_[k] = true;
        }
      }
    }
  }

  std::vector<StreamChange> find(const ProgramSegment& segment) {
    std::vector<StreamChange> changes;
    if (segment.untouchable || segment.has_block_mask()) return changes;
    for (int k = segment.begin; k < segment.end; ++k) {
      if (stream_.dead[static_cast<size_t>(k)]) continue;
      find_forwarding(k, segment, changes);
      if (registers_) find_renaming(k, segment, changes);
      if (can_narrow(k)) changes.push_back({.kind = StreamChange::Kind::kNarrow, .producer = k});
    }
    return changes;
  }

 private:
  void find_forwarding(int k, const ProgramSegment& segment, std::vector<StreamChange>& changes) const {
    const StreamOperation& consumer = stream_.operations[static_cast<size_t>(k)];
    std::map<int, std::vector<size_t>> by_definition;
    for (size_t s = 0; s < consumer.instruction.sources.size(); ++s) {
      const int d = flow_.source_definition[static_cast<size_t>(k)][s];
      if (d >= 0) by_definition[d].push_back(s);
    }
    for (const auto& [d, sources] : by_definition) {
      const int p = flow_.definitions[static_cast<size_t>(d)].operation;
      if (p < segment.begin || p >= segment.end) continue;
      const Instruction& producer = stream_.operations[static_cast<size_t>(p)].instruction;
      if (forwarding_register(producer) == Space::kNone) continue;
      const Space memory = consumer.instruction.sources[sources[0]].space;
      const auto written = std::ranges::find(producer.destinations, memory, &Operand::space);
      if (written == producer.destinations.end() || written->mask.kind != isa::Mask::Kind::kNone ||
          written->t_indirect || written->j >= 0) {
        continue;
      }
      const bool same = std::ranges::all_of(sources, [&](size_t s) {
        return delivers(p, *written, k, s) && consumer.instruction.sources[s].space == memory;
      });
      if (!same) continue;
      const StreamChange change{.producer = p, .consumer = k, .definition = d, .sources = sources};
      Instruction changed = consumer.instruction;
      forward_sources(changed, producer, sources);
      if (isa::operand_error(changed).empty() && isa::issue_conflict({changed}, chip_).empty())
        changes.push_back(change);
    }
  }

  /// Whether the forwarding register holds in every cycle the very bits that the operand reads, as far as
  /// they make a difference.
  bool delivers(int p, const Operand& written, int k, size_t s) const {
    const Instruction& consumer = stream_.operations[static_cast<size_t>(k)].instruction;
    const Operand& read = consumer.sources[s];
    if (read.space == Space::kT) return true;  // always 2LW, cycle by cycle
    if (read.width != written.width || read.width == isa::Width::kWord) return false;
    if (read.width == isa::Width::kLong && lower_matters(consumer, s, forward_low_[static_cast<size_t>(k)]))
      return false;
    const bool lm = read.space == Space::kLm0 || read.space == Space::kLm1;
    const int64_t size = lm ? chip_.memory.lm_words : chip_.memory.grf_words;
    const int width = isa::words(read.width);
    const auto place = [&](const Operand& operand, int cycle) {
      const int64_t address = (operand.address(cycle) % size + size) % size;
      return address - address % width;
    };
    for (int c = 0; c < isa::kCyclesPerStep; ++c) {
      int from = -1;  // the cycle whose write stays
      for (int w = 0; w < isa::kCyclesPerStep; ++w) {
        if (place(written, w) == place(read, c)) from = w;
      }
      if (from < 0 || (from != c && !invariant_[static_cast<size_t>(p)])) return false;
    }
    return true;
  }

  void find_renaming(int k, const ProgramSegment& segment, std::vector<StreamChange>& changes) {
    const Instruction& producer = stream_.operations[static_cast<size_t>(k)].instruction;
    if (stream_.operations[static_cast<size_t>(k)].is_masked) return;
    for (const int d : flow_.defines[static_cast<size_t>(k)]) {
      const Definition& definition = flow_.definitions[static_cast<size_t>(d)];
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
      if (low < 0 || high > (lm ? chip_.memory.lm_words : chip_.memory.grf_words)) continue;
      constexpr int64_t kAlignment = isa::words(isa::Width::kDoubleLong);
      low -= low % kAlignment;
      for (const Space to : {Space::kGrf0, Space::kGrf1}) {
        StreamChange change{.kind = StreamChange::Kind::kRename, .producer = k, .definition = d};
        change.from = written->space;
        change.to = to;
        Instruction trial = producer;
        rename_operand(trial.destinations[static_cast<size_t>(written - producer.destinations.begin())],
                       change);
        if (!isa::operand_error(trial).empty() || !isa::issue_conflict({trial}, chip_).empty()) continue;
        const auto begin = registers_->take(to, high - low, k, last);
        if (!begin) continue;
        change.shift = *begin - low;
        changes.push_back(change);
      }
    }
  }

  bool can_narrow(int k) const {
    const StreamOperation& operation = stream_.operations[static_cast<size_t>(k)];
    if (!invariant_[static_cast<size_t>(k)] || operation.is_masked) return false;
    bool writes = false;
    for (const Operand& destination : operation.instruction.destinations) {
      if (destination.space == Space::kNoWrite) continue;
      if (!isa::is_pe_memory(destination.space) || destination.t_indirect) return false;
      for (int c = 1; c < isa::kCyclesPerStep; ++c) {
        if (destination.address(c) != destination.address(0)) return false;
      }
      writes = true;
    }
    return writes;
  }

 private:
  const ProgramStream& stream_;
  const OperationFlow& flow_;
  const isa::Chip& chip_;
  std::vector<std::vector<int>> producers_;
  std::vector<std::vector<int>> consumers_;
  std::vector<bool> invariant_;
  std::vector<bool> forward_low_;
  std::optional<FreeRegisters> registers_;
};

}  // namespace

std::vector<std::vector<StreamChange>> find_changes(const ProgramStream& stream, const OperationFlow& flow,
                                                    const OptimizeOptions& options, const isa::Chip& chip) {
  ChangeFinder finder(stream, flow, options, chip);
  std::vector<std::vector<StreamChange>> result;
  for (const ProgramSegment& segment : stream.segments) result.push_back(finder.find(segment));
  return result;
}

void forward_sources(Instruction& consumer, const Instruction& producer, const std::vector<size_t>& sources) {
  for (const size_t s : sources) {
    Operand operand;
    operand.space = forwarding_register(producer);
    operand.negate = consumer.sources[s].negate;
    operand.extend = consumer.sources[s].extend;
    operand.reduce = consumer.sources[s].reduce;
    consumer.sources[s] = operand;
  }
}

void rename_operand(Operand& operand, const StreamChange& change) {
  operand.space = change.to;
  if (operand.flat) {
    for (int32_t& address : operand.flat_addresses) address += static_cast<int32_t>(change.shift);
  } else {
    operand.base += change.shift;
  }
}

void narrow_writes(Instruction& producer) {
  bool wide = false;
  for (const Operand& destination : producer.destinations)
    wide = wide || destination.width == isa::Width::kDoubleLong;
  for (Operand& destination : producer.destinations) {
    if (destination.space != Space::kNoWrite) destination.mask = {isa::Mask::Kind::kPattern, 0b1000, wide, 0};
  }
}

}  // namespace kodama::scheduler
