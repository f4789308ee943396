#include "scheduler/optimize.h"

#include <algorithm>
#include <array>
#include <boost/algorithm/string.hpp>
#include <charconv>
#include <map>
#include <set>

#include "isa/error.h"
#include "isa/hazards.h"
#include "scheduler/cluster_scheduling.h"
#include "scheduler/operation_flow.h"
#include "scheduler/passes.h"
#include "scheduler/program_scheduling.h"

/// From the program to segments, from them to operations with dependences (cluster_scheduling.h), and back.
/// What may be changed about the operations (forwarding, narrower writes) is found once (operation_flow.h);
/// which of it pays is found by trying.
namespace kodama::scheduler {
namespace {

using isa::Access;
using isa::HazardResource;
using isa::Instruction;
using isa::IssueGroup;
using isa::Opcode;
using isa::Operand;
using isa::Space;

/// Operations of a segment; longer ones are cut.
constexpr size_t kLongestSegment = 600;
/// Statements after unrolling.
constexpr int64_t kLargestProgram = 4'000'000;

// ---- the program as operations -------------------------------------------------------------------------

struct Segment {
  int begin = 0;  ///< operations
  int end = 0;
  std::vector<isa::Statement> original;  ///< steps, nops and MVs
  int64_t length = 0;                    ///< steps of the original
  isa::MaskControl mask;
  bool untouchable = false;
  std::optional<isa::Statement> barrier;  ///< behind it

  bool has_block_mask() const { return mask.spaces != 0 && mask.entry != 0; }
};

/// LMs whose base address the program changes. An address is cut to its width after the base is added, so
/// then accesses of different widths meet where the addresses as written don't.
using MovingBases = std::array<bool, 2>;

struct Stream {
  MovingBases moving{};
  std::vector<StreamOperation> operations;
  std::vector<ForwardLink> links;
  std::vector<Segment> segments;
  std::vector<FlowEvent> events;
};

bool has_destination_mask(const Instruction& instruction) {
  return std::ranges::any_of(instruction.destinations, [](const Operand& destination) {
    return destination.mask.kind != isa::Mask::Kind::kNone;
  });
}

/// Fills in what the operation touches.
void refresh(StreamOperation& operation, const isa::MaskControl& mask, const MovingBases& moving,
             const isa::Chip& chip) {
  Instruction effective = operation.instruction;
  if (mask.spaces != 0 && mask.entry != 0 && !has_destination_mask(effective) && !operation.shares_masks) {
    for (Operand& destination : effective.destinations) {
      const int bit = isa::mask_statement_bit(destination.space);
      if (bit < 0 || (mask.spaces >> bit & 1) == 0) continue;
      destination.mask = {isa::Mask::Kind::kRegister, mask.entry, mask.double_long, 0};
    }
  }
  operation.is_masked = has_destination_mask(effective);
  operation.accesses.clear();
  for (Access& access : isa::accesses(effective, chip)) {
    if (isa::is_forwarding_register(access.resource)) continue;
    if (access.resource == HazardResource::kLm0 && moving[0]) access.whole = true;
    if (access.resource == HazardResource::kLm1 && moving[1]) access.whole = true;
    operation.accesses.push_back(std::move(access));
  }
}

constexpr std::array<Space, 4> kForwardingRegisters = {Space::kAluf, Space::kMauf, Space::kLbf,
                                                       Space::kMreadf};

class Splitter {
 public:
  explicit Splitter(const isa::Chip& chip) : chip_(chip) { writers_.fill(-1); }

  Stream run(const isa::Program& program) {
    stream_.segments.emplace_back();
    std::vector<int64_t> counters;
    isa::for_each_executed(program.statements, counters, [&](const isa::Statement& statement, const auto&) {
      const auto* step = std::get_if<isa::Step>(&statement.kind);
      if (step == nullptr) return true;
      for (const Instruction& instruction : step->instructions) {
        for (const Operand& destination : instruction.destinations) {
          if (destination.space == Space::kBar0) stream_.moving[0] = true;
          if (destination.space == Space::kBar1) stream_.moving[1] = true;
        }
      }
      return true;
    });
    isa::for_each_executed(program.statements, counters,
                           [&](const isa::Statement& statement, const auto& at) {
                             isa::Statement one = isa::resolved(statement, at);
                             const bool is_end = std::holds_alternative<isa::Quit>(one.kind);
                             add(std::move(one));
                             return !is_end;
                           });
    close(std::nullopt);
    freeze_transfers_by_table();
    return std::move(stream_);
  }

 private:
  Segment& segment() { return stream_.segments.back(); }

  void add(isa::Statement statement) {
    if (auto* step = std::get_if<isa::Step>(&statement.kind)) {
      if (segment().end - segment().begin >= static_cast<int>(kLongestSegment) && !reads_forward(*step))
        cut(std::nullopt);
      add_step(*step, statement.line);
      segment().original.push_back(std::move(statement));
      ++segment().length;
    } else if (auto* nop = std::get_if<isa::Nop>(&statement.kind)) {
      if (nop->wait_tag > 0) {
        Instruction wait;
        wait.opcode = Opcode::kWait;
        wait.tag = nop->wait_tag;
        stream_.events.push_back({{add_operation(wait, statement.line)}, std::nullopt});
      }
      segment().length += nop->count;
      segment().original.push_back(std::move(statement));
    } else if (auto* mv = std::get_if<isa::Mv>(&statement.kind)) {
      stream_.events.push_back({{add_operation(mv->instruction, statement.line)}, std::nullopt});
      segment().original.push_back(std::move(statement));
    } else {
      if (const auto* mask = std::get_if<isa::MaskControl>(&statement.kind)) mask_ = *mask;
      if (const auto* get = std::get_if<isa::DebugGet>(&statement.kind)) stream_.events.push_back({{}, *get});
      cut(std::move(statement));
    }
  }

  void close(std::optional<isa::Statement> barrier) {
    segment().barrier = std::move(barrier);
    segment().end = static_cast<int>(stream_.operations.size());
  }
  void cut(std::optional<isa::Statement> barrier) {
    close(std::move(barrier));
    Segment next;
    next.begin = static_cast<int>(stream_.operations.size());
    next.end = next.begin;
    next.mask = mask_;
    stream_.segments.push_back(std::move(next));
  }

  static bool reads(const Instruction& instruction, Space space) {
    return std::ranges::any_of(instruction.sources,
                               [&](const Operand& source) { return source.space == space; });
  }
  static bool reads_forward(const isa::Step& step) {
    return std::ranges::any_of(step.instructions, [](const Instruction& instruction) {
      return std::ranges::any_of(kForwardingRegisters,
                                 [&](Space space) { return reads(instruction, space); });
    });
  }

  int add_operation(const Instruction& instruction, int32_t line) {
    StreamOperation operation;
    operation.instruction = instruction;
    operation.time = segment().length;
    operation.line = line;
    const IssueGroup group = isa::issue_group(instruction);
    operation.is_mv = group == IssueGroup::kMv;
    operation.is_wait = group == IssueGroup::kWait;
    refresh(operation, mask_, stream_.moving, chip_);
    stream_.operations.push_back(std::move(operation));
    segment().end = static_cast<int>(stream_.operations.size());
    return segment().end - 1;
  }

  void add_step(const isa::Step& step, int32_t line) {
    const int first = static_cast<int>(stream_.operations.size());
    FlowEvent event;
    for (const Instruction& instruction : step.instructions)
      event.step.push_back(add_operation(instruction, line));
    // A mask statement doesn't apply in a step with a mask of its own.
    size_t with_mask = 0;
    bool no_forward = false;
    for (const Instruction& instruction : step.instructions) {
      with_mask += has_destination_mask(instruction) ? 1 : 0;
      no_forward = no_forward || instruction.opcode == Opcode::kNoForward;
    }
    if (segment().has_block_mask() && with_mask > 0 && step.instructions.size() > 1) {
      for (const int k : event.step) {
        StreamOperation& operation = stream_.operations[static_cast<size_t>(k)];
        if (operation.is_wait) continue;
        operation.shares_masks = true;
        refresh(operation, mask_, stream_.moving, chip_);
      }
    }
    for (const int k : event.step) {
      for (size_t f = 0; f < kForwardingRegisters.size(); ++f) {
        if (!reads(stream_.operations[static_cast<size_t>(k)].instruction, kForwardingRegisters[f])) continue;
        const int writer = writers_[f];
        if (writer < segment().begin) {
          // Over a statement: both ends stay as they are.
          segment().untouchable = true;
          for (Segment& other : stream_.segments) {
            if (other.begin <= writer && writer < other.end) other.untouchable = true;
          }
        } else {
          stream_.links.push_back({writer, k});
        }
      }
    }
    if (no_forward) {
      segment().untouchable = true;
    } else {
      for (int k = first; k < first + static_cast<int>(step.instructions.size()); ++k) {
        const Space written = forwarding_register(stream_.operations[static_cast<size_t>(k)].instruction);
        const auto* f = std::ranges::find(kForwardingRegisters, written);
        if (f != kForwardingRegisters.end())
          writers_[static_cast<size_t>(f - kForwardingRegisters.begin())] = k;
      }
    }
    stream_.events.push_back(std::move(event));
  }

  /// Nobody knows the distances that the DAR needs. Inside a segment those of the input are kept; over a
  /// statement nothing between its first and its last use may change.
  void freeze_transfers_by_table() {
    const auto uses_table = [&](const Segment& segment) {
      for (int k = segment.begin; k < segment.end; ++k) {
        for (const Access& access : stream_.operations[static_cast<size_t>(k)].accesses) {
          if (access.resource == HazardResource::kDar) return true;
        }
      }
      return false;
    };
    auto& segments = stream_.segments;
    size_t first = segments.size();
    size_t last = 0;
    for (size_t s = 0; s < segments.size(); ++s) {
      if (!uses_table(segments[s])) continue;
      first = std::min(first, s);
      last = s;
    }
    for (size_t s = first; first < last && s <= last; ++s) segments[s].untouchable = true;
  }

  const isa::Chip& chip_;
  Stream stream_;
  isa::MaskControl mask_;
  std::array<int, 4> writers_{};
};

// ---- operations that nobody needs ----------------------------------------------------------------------

bool may_vanish(const StreamOperation& operation) {
  switch (isa::issue_group(operation.instruction)) {
    case IssueGroup::kAlu:
    case IssueGroup::kMauCalc:
    case IssueGroup::kMauMwrite:
    case IssueGroup::kMauMread:
    case IssueGroup::kL1bm:
    case IssueGroup::kL1bmTurnaround:
      return true;
    case IssueGroup::kL2bm:
      return operation.instruction.opcode != Opcode::kL2bmdars;
    default:
      return false;
  }
}

/// Takes out the destinations in `memory`; false when the instruction would be illegal without them.
bool drop_destinations(Instruction& instruction, HazardResource memory) {
  Instruction shorter = instruction;
  const auto removed = std::erase_if(shorter.destinations, [&](const Operand& destination) {
    // A transfer is what its destination makes it.
    return destination.space != Space::kL1bm && isa::hazard_resource(destination.space) == memory;
  });
  if (removed == 0) return false;
  if (shorter.destinations.empty()) {
    Operand nowhere;
    nowhere.space = Space::kNoWrite;
    shorter.destinations.push_back(nowhere);
  }
  if (!isa::operand_error(shorter).empty()) return false;
  instruction = std::move(shorter);
  return true;
}

class Pruner {
 public:
  Pruner(Stream& stream, const OptimizeOptions& options, const isa::Chip& chip)
      : stream_(stream), options_(options), chip_(chip), dead_(stream.operations.size(), false) {}

  /// Returns what is dead; destinations that nobody reads are gone.
  std::vector<bool> run(int64_t& removed) {
    for (bool changed = true; changed;) {
      changed = false;
      const OperationFlow flow =
          analyze_flow(stream_.operations, dead_, stream_.events, options_.live_outs, chip_);
      for (const Segment& segment : stream_.segments) {
        if (segment.untouchable || segment.has_block_mask()) continue;
        for (int k = segment.end; k-- > segment.begin;) {
          if (!dead_[static_cast<size_t>(k)] && prune(k, flow, segment)) changed = true;
        }
      }
    }
    removed += std::ranges::count(dead_, true);
    return std::move(dead_);
  }

 private:
  bool prune(int k, const OperationFlow& flow, const Segment& segment) {
    StreamOperation& operation = stream_.operations[static_cast<size_t>(k)];
    if (!may_vanish(operation)) return false;
    bool all = true;
    bool changed = false;
    for (const int d : flow.defines[static_cast<size_t>(k)]) {
      const Definition& definition = flow.definitions[static_cast<size_t>(d)];
      const bool is_dead = !definition.escapes && definition.uses.empty();
      if (is_dead) {
        changed = drop_destinations(operation.instruction, definition.resource) || changed;
      } else {
        all = false;
      }
    }
    const bool is_forwarded = std::ranges::any_of(stream_.links, [&](const ForwardLink& link) {
      return link.producer == k && !dead_[static_cast<size_t>(link.consumer)];
    });
    if (all && !is_forwarded) {
      dead_[static_cast<size_t>(k)] = true;
      return true;
    }
    if (changed) refresh(operation, segment.mask, stream_.moving, chip_);
    return changed;
  }

  Stream& stream_;
  const OptimizeOptions& options_;
  const isa::Chip& chip_;
  std::vector<bool> dead_;
};

// ---- what may be changed -------------------------------------------------------------------------------

struct Change {
  enum class Kind : uint8_t {
    kForward,  ///< sources of `consumer` read the forwarding register of `producer`
    kNarrow,   ///< `producer` writes in one cycle only what all four cycles write the same
    kRename,   ///< what `producer` writes, and all that read it, goes to another place
  };
  Kind kind = Kind::kForward;
  int producer = 0;
  int consumer = -1;
  int definition = -1;
  std::vector<size_t> sources = {};
  // kRename
  Space from = Space::kNone;
  Space to = Space::kNone;
  int64_t shift = 0;
};

/// Words of GRFs that hold nothing of use for a while.
class FreeRegisters {
 public:
  FreeRegisters(const Stream& stream, const std::vector<bool>& dead,
                const std::optional<std::vector<LiveOut>>& live_outs, const isa::Chip& chip)
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
          if (dead[static_cast<size_t>(k)]) continue;
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
  ChangeFinder(const Stream& stream, const std::vector<bool>& dead, const OperationFlow& flow,
               const OptimizeOptions& options, const isa::Chip& chip)
      : stream_(stream), dead_(dead), flow_(flow), chip_(chip) {
    if (options.allow_rename) registers_.emplace(stream, dead, options.live_outs, chip);
    const size_t n = stream.operations.size();
    producers_.resize(n);
    consumers_.resize(n);
    for (const ForwardLink& link : stream.links) {
      if (dead[static_cast<size_t>(link.consumer)]) continue;
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

  std::vector<Change> find(const Segment& segment) {
    std::vector<Change> changes;
    if (segment.untouchable || segment.has_block_mask()) return changes;
    for (int k = segment.begin; k < segment.end; ++k) {
      if (dead_[static_cast<size_t>(k)]) continue;
      find_forwarding(k, segment, changes);
      if (registers_) find_renaming(k, segment, changes);
      if (can_narrow(k)) changes.push_back({.kind = Change::Kind::kNarrow, .producer = k});
    }
    return changes;
  }

 private:
  void find_forwarding(int k, const Segment& segment, std::vector<Change>& changes) const {
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
      const Change change{.producer = p, .consumer = k, .definition = d, .sources = sources};
      Instruction changed = consumer.instruction;
      forward(changed, producer, sources);
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

  void find_renaming(int k, const Segment& segment, std::vector<Change>& changes) {
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
        Change change{.kind = Change::Kind::kRename, .producer = k, .definition = d};
        change.from = written->space;
        change.to = to;
        Instruction trial = producer;
        rename(trial.destinations[static_cast<size_t>(written - producer.destinations.begin())], change);
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

 public:
  static void forward(Instruction& consumer, const Instruction& producer,
                      const std::vector<size_t>& sources) {
    for (const size_t s : sources) {
      Operand operand;
      operand.space = forwarding_register(producer);
      operand.negate = consumer.sources[s].negate;
      operand.extend = consumer.sources[s].extend;
      operand.reduce = consumer.sources[s].reduce;
      consumer.sources[s] = operand;
    }
  }
  static void rename(Operand& operand, const Change& change) {
    operand.space = change.to;
    if (operand.flat) {
      for (int32_t& address : operand.flat_addresses) address += static_cast<int32_t>(change.shift);
    } else {
      operand.base += change.shift;
    }
  }
  static void narrow(Instruction& producer) {
    bool wide = false;
    for (const Operand& destination : producer.destinations)
      wide = wide || destination.width == isa::Width::kDoubleLong;
    for (Operand& destination : producer.destinations) {
      if (destination.space != Space::kNoWrite)
        destination.mask = {isa::Mask::Kind::kPattern, 0b1000, wide, 0};
    }
  }

 private:
  const Stream& stream_;
  const std::vector<bool>& dead_;
  const OperationFlow& flow_;
  const isa::Chip& chip_;
  std::vector<std::vector<int>> producers_;
  std::vector<std::vector<int>> consumers_;
  std::vector<bool> invariant_;
  std::vector<bool> forward_low_;
  std::optional<FreeRegisters> registers_;
};

// ---- the search over a segment -------------------------------------------------------------------------

struct Solution {
  StreamSegment segment;
  ClusterScheduler::Times times;
  int64_t length = INT64_MAX;
  int64_t critical_path = INT64_MAX;
  StepBounds bounds;
  std::vector<bool> enabled;

  bool better_than(const Solution& other) const {
    return std::pair(length, critical_path) < std::pair(other.length, other.critical_path);
  }
};

class SegmentSearch {
 public:
  SegmentSearch(const Stream& stream, const std::vector<bool>& dead, const OperationFlow& flow,
                const Segment& segment, std::vector<Change> changes,
                const std::vector<RecentOperation>& before, const OptimizeOptions& options,
                const isa::Chip& chip)
      : stream_(stream),
        flow_(flow),
        segment_(segment),
        changes_(std::move(changes)),
        before_(before),
        options_(options),
        chip_(chip) {
    local_.assign(static_cast<size_t>(segment.end - segment.begin), -1);
    for (int k = segment.begin; k < segment.end; ++k) {
      if (dead[static_cast<size_t>(k)]) continue;
      local_[static_cast<size_t>(k - segment.begin)] = static_cast<int>(alive_.size());
      alive_.push_back(k);
    }
  }

  /// The best schedule found; its length is INT64_MAX when there is none.
  Solution run() {
    const int n = static_cast<int>(alive_.size());
    const auto cost = static_cast<int64_t>(n) * n + 50;
    // Evaluations and schedules per evaluation: about the same work whatever the size.
    budget_ = std::clamp<int64_t>(options_.effort * 40'000 / cost, 4, 20 * options_.effort);
    const int quick = n <= 200 ? 8 : 2;
    Solution best = evaluate(std::vector<bool>(changes_.size(), false), quick);
    if (options_.eager) {
      Solution all = evaluate(as_many_as_help(), quick);
      return all.length != INT64_MAX ? all : best;
    }
    if (!changes_.empty() && !is_optimal(best)) {
      Solution all = evaluate(as_many_as_help(), quick);
      if (all.better_than(best)) best = std::move(all);
      bool progress = true;
      while (progress && !is_optimal(best)) {
        progress = false;
        for (size_t c = 0; c < changes_.size() && budget_ > 0; ++c) {
          std::vector<bool> enabled = best.enabled;
          enabled[c] = !enabled[c];
          Solution other = evaluate(enabled, quick);
          if (!other.better_than(best)) continue;
          best = std::move(other);
          progress = true;
        }
      }
    }
    if (best.length != INT64_MAX && !is_optimal(best)) {
      Solution last = evaluate(best.enabled, n <= 200 ? static_cast<int>(4 * options_.effort) : 8);
      if (last.better_than(best)) best = std::move(last);
    }
    // What the schedule doesn't need stays as it was written.
    for (size_t c = changes_.size(); c-- > 0;) {
      if (best.length == INT64_MAX || !best.enabled[c]) continue;
      std::vector<bool> enabled = best.enabled;
      enabled[c] = false;
      Solution without = evaluate(enabled, quick);
      if (without.length <= best.length) best = std::move(without);
    }
    return best;
  }

  /// Operands that the changes turn into reads of forwarding registers.
  int64_t forwarded(const std::vector<bool>& enabled) const {
    int64_t count = 0;
    for (size_t c = 0; c < changes_.size(); ++c) {
      if (enabled[c] && changes_[c].kind == Change::Kind::kForward)
        count += static_cast<int64_t>(changes_[c].sources.size());
    }
    return count;
  }

  int64_t renamed(const std::vector<bool>& enabled) const {
    int64_t count = 0;
    for (size_t c = 0; c < changes_.size(); ++c)
      count += enabled[c] && changes_[c].kind == Change::Kind::kRename ? 1 : 0;
    return count;
  }

  /// The operations with these changes; nothing where they don't go together.
  std::optional<StreamSegment> build(const std::vector<bool>& enabled) const {
    StreamSegment result;
    result.has_block_mask = segment_.has_block_mask();
    for (const int k : alive_) result.operations.push_back(stream_.operations[static_cast<size_t>(k)]);
    for (const ForwardLink& link : stream_.links) {
      if (link.producer < segment_.begin || link.producer >= segment_.end) continue;
      const ForwardLink here{local(link.producer), local(link.consumer)};
      if (here.consumer >= 0) result.links.push_back(here);
    }
    std::set<int> changed;
    std::map<int, std::set<Definition::Use>> covered;
    std::map<int, HazardResource> renamed;  // by definition
    for (size_t c = 0; c < changes_.size(); ++c) {
      const Change& change = changes_[c];
      if (!enabled[c] || change.kind != Change::Kind::kRename) continue;
      if (!renamed.emplace(change.definition, *isa::hazard_resource(change.to)).second) return std::nullopt;
      const int p = local(change.producer);
      for (Operand& destination : result.operations[static_cast<size_t>(p)].instruction.destinations) {
        if (destination.space != change.from) continue;
        ChangeFinder::rename(destination, change);
        break;
      }
      changed.insert(p);
      for (const Definition::Use& use : flow_.definitions[static_cast<size_t>(change.definition)].uses) {
        const int k = local(use.operation);
        ChangeFinder::rename(
            result.operations[static_cast<size_t>(k)].instruction.sources[static_cast<size_t>(use.source)],
            change);
        changed.insert(k);
      }
    }
    for (size_t c = 0; c < changes_.size(); ++c) {
      if (!enabled[c]) continue;
      const Change& change = changes_[c];
      const int p = local(change.producer);
      if (change.kind == Change::Kind::kRename) continue;
      if (change.kind == Change::Kind::kNarrow) {
        ChangeFinder::narrow(result.operations[static_cast<size_t>(p)].instruction);
        changed.insert(p);
        continue;
      }
      const int k = local(change.consumer);
      ChangeFinder::forward(result.operations[static_cast<size_t>(k)].instruction,
                            stream_.operations[static_cast<size_t>(change.producer)].instruction,
                            change.sources);
      changed.insert(k);
      result.links.push_back({p, k});
      for (const size_t s : change.sources)
        covered[change.definition].insert({change.consumer, static_cast<int>(s)});
    }
    for (const auto& [d, uses] : covered) {
      const Definition& definition = flow_.definitions[static_cast<size_t>(d)];
      if (definition.escapes || uses.size() != definition.uses.size()) continue;
      const int p = local(definition.operation);
      const auto elsewhere = renamed.find(d);
      if (drop_destinations(result.operations[static_cast<size_t>(p)].instruction,
                            elsewhere == renamed.end() ? definition.resource : elsewhere->second))
        changed.insert(p);
    }
    for (const int k : changed)
      refresh(result.operations[static_cast<size_t>(k)], segment_.mask, stream_.moving, chip_);
    return result;
  }

 private:
  int local(int k) const { return local_[static_cast<size_t>(k - segment_.begin)]; }
  static bool is_optimal(const Solution& solution) {
    return solution.length <= std::max(solution.bounds.unit, solution.bounds.port);
  }

  Solution evaluate(const std::vector<bool>& enabled, int tries) {
    --budget_;
    Solution result;
    result.enabled = enabled;
    auto segment = build(enabled);
    if (!segment) return result;
    result.segment = std::move(*segment);
    for (const bool keep_distances : {false, true}) {
      const ClusterScheduler scheduler(result.segment, before_, chip_, keep_distances);
      if (!scheduler.is_consistent()) continue;
      result.critical_path = scheduler.critical_path();
      result.bounds = scheduler.bounds();
      int64_t limit = 2 * segment_.length + 64;
      for (int variant = 0; variant < tries; ++variant) {
        auto times = scheduler.list(variant, limit);
        if (!times) continue;
        const int64_t length = scheduler.length(*times);
        if (length >= result.length) continue;
        result.length = length;
        result.times = std::move(*times);
        limit = length - 1;
        if (length <= result.bounds.steps) break;
      }
      if (result.length != INT64_MAX) break;
    }
    return result;
  }

  /// Takes every change that doesn't make the longest path longer, in program order.
  std::vector<bool> as_many_as_help() {
    std::vector<bool> enabled(changes_.size(), false);
    int64_t path = INT64_MAX;
    const auto path_with = [&]() -> int64_t {
      const auto segment = build(enabled);
      if (!segment) return INT64_MAX;
      const ClusterScheduler scheduler(*segment, before_, chip_, false);
      return scheduler.is_consistent() ? scheduler.critical_path() : INT64_MAX;
    };
    path = path_with();
    for (size_t c = 0; c < changes_.size() && (budget_ > 0 || options_.eager); ++c) {
      --budget_;
      enabled[c] = true;
      const int64_t with = path_with();
      if (with < INT64_MAX && (with <= path || options_.eager)) {
        path = with;
      } else {
        enabled[c] = false;
      }
    }
    return enabled;
  }

  const Stream& stream_;
  const OperationFlow& flow_;
  const Segment& segment_;
  std::vector<Change> changes_;
  const std::vector<RecentOperation>& before_;
  const OptimizeOptions& options_;
  const isa::Chip& chip_;
  std::vector<int> local_;
  std::vector<int> alive_;
  int64_t budget_ = 0;
};

// ---- back to statements --------------------------------------------------------------------------------

class Emitter {
 public:
  explicit Emitter(const isa::Program& program, const isa::Chip& chip)
      : chip_(chip), reach_(isa::longest_gap(chip) + 2) {
    result_.source_name = program.source_name;
  }

  /// What the next segment must keep its distance from.
  const std::vector<RecentOperation>& recent() const { return recent_; }

  void scheduled(const StreamSegment& segment, const ClusterScheduler::Times& times) {
    int64_t length = 0;
    for (size_t k = 0; k < times.size(); ++k)
      length = std::max(length, times[k] + (segment.operations[k].is_mv ? 0 : 1));
    std::vector<std::vector<size_t>> at(static_cast<size_t>(length) + 1);
    for (size_t k = 0; k < times.size(); ++k) at[static_cast<size_t>(times[k])].push_back(k);
    for (int64_t t = 0; t <= length; ++t) {
      isa::Step step;
      int32_t line = 0;
      for (const size_t k : at[static_cast<size_t>(t)]) {
        const StreamOperation& operation = segment.operations[k];
        if (operation.is_mv) {
          result_.statements.push_back({isa::Mv{operation.instruction}, operation.line});
          continue;
        }
        step.instructions.push_back(operation.instruction);
        line = line == 0 ? operation.line : std::min(line, operation.line);
      }
      if (t == length) break;
      if (step.instructions.empty()) {
        nops(1);
      } else if (step.instructions.size() == 1 && step.instructions[0].opcode == Opcode::kWait) {
        result_.statements.push_back({isa::Nop{1, step.instructions[0].tag}, line});
      } else {
        result_.statements.push_back({std::move(step), line});
      }
    }
    std::vector<RecentOperation> issued;
    for (size_t k = 0; k < times.size(); ++k)
      issued.push_back({times[k], segment.operations[k].is_mv, segment.operations[k].accesses});
    pass(std::move(issued), length);
  }

  /// As in the input, with nops in front as far as what comes before needs them.
  void verbatim(const Stream& stream, const Segment& segment, const std::vector<isa::Statement>& statements) {
    int64_t delay = 0;
    std::vector<RecentOperation> issued;
    for (int k = segment.begin; k < segment.end; ++k) {
      const StreamOperation& operation = stream.operations[static_cast<size_t>(k)];
      for (const RecentOperation& recent : recent_) {
        const int64_t difference =
            least_time_difference(recent.accesses, recent.is_mv, operation.accesses, operation.is_mv, chip_);
        if (difference >= 0) delay = std::max(delay, recent.time + difference - operation.time);
      }
      issued.push_back({operation.time, operation.is_mv, operation.accesses});
    }
    if (delay > 0) nops(delay);
    for (RecentOperation& recent : recent_) recent.time -= delay;
    result_.statements.insert(result_.statements.end(), statements.begin(), statements.end());
    pass(std::move(issued), segment.length);
  }

  void statement(const isa::Statement& statement) { result_.statements.push_back(statement); }

  isa::Program finish() {
    // Nobody waits for nops at the end.
    while (!result_.statements.empty()) {
      const auto* nop = std::get_if<isa::Nop>(&result_.statements.back().kind);
      if (nop == nullptr || nop->wait_tag > 0) break;
      result_.statements.pop_back();
    }
    return std::move(result_);
  }

 private:
  void nops(int64_t count) {
    if (!result_.statements.empty()) {
      if (auto* nop = std::get_if<isa::Nop>(&result_.statements.back().kind);
          nop != nullptr && nop->wait_tag == 0) {
        nop->count += count;
        return;
      }
    }
    result_.statements.push_back({isa::Nop{count, 0}, 0});
  }
  void pass(std::vector<RecentOperation> issued, int64_t length) {
    std::ranges::move(issued, std::back_inserter(recent_));
    for (RecentOperation& recent : recent_) recent.time -= length;
    std::erase_if(recent_, [&](const RecentOperation& recent) { return recent.time < -reach_; });
  }

  const isa::Chip& chip_;
  int64_t reach_;  ///< of hazards, in steps
  isa::Program result_;
  std::vector<RecentOperation> recent_;
};

/// When the operations of the segment issue in statements made of them.
ClusterScheduler::Times times_in(const std::vector<isa::Statement>& statements,
                                 const StreamSegment& segment) {
  ClusterScheduler::Times times(segment.operations.size(), -1);
  int64_t now = 0;
  const auto place = [&](const Instruction& instruction) {
    for (size_t k = 0; k < times.size(); ++k) {
      if (times[k] >= 0 || !(segment.operations[k].instruction == instruction)) continue;
      times[k] = now;
      return;
    }
    throw isa::InternalError("internal error in optimizer: the scheduler made up an operation");
  };
  for (const isa::Statement& statement : statements) {
    if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) place(mv->instruction);
    if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
      for (const Instruction& instruction : step->instructions) place(instruction);
      ++now;
    }
    if (const auto* nop = std::get_if<isa::Nop>(&statement.kind)) {
      if (nop->wait_tag > 0) {
        Instruction wait;
        wait.opcode = Opcode::kWait;
        wait.tag = nop->wait_tag;
        place(wait);
      }
      now += nop->count;
    }
  }
  isa::check_internal(std::ranges::find(times, -1) == times.end(), "optimizer",
                      "the scheduler lost an operation");
  return times;
}

/// The segment by one of the compiler's instruction schedulers; nothing where it can't be asked.
std::optional<ClusterScheduler::Times> schedule_by_name(const std::string& name, const StreamSegment& segment,
                                                        const std::vector<RecentOperation>& before,
                                                        const isa::Chip& chip) {
  if (!segment.links.empty() || segment.has_block_mask) return std::nullopt;
  const ClusterScheduler order(segment, {}, chip, false);
  if (!order.is_consistent()) return std::nullopt;
  const auto times = order.plain();
  if (!times) return std::nullopt;
  std::map<int64_t, std::vector<size_t>> sequence;
  for (size_t k = 0; k < times->size(); ++k) {
    const bool is_mv = segment.operations[k].is_mv;
    auto& same = sequence[2 * (*times)[k] + (is_mv ? 0 : 1)];
    if (!is_mv && !same.empty()) return std::nullopt;  // must stay together
    same.push_back(k);
  }
  Block block;
  for (const auto& [time, operations] : sequence) {
    for (const size_t k : operations) {
      for (const Access& access : segment.operations[k].accesses) {
        if (access.resource == HazardResource::kDar) return std::nullopt;
      }
      block.operations.push_back({segment.operations[k].instruction, ""});
    }
  }
  MachineProgram program;
  program.body.push_back({std::move(block)});
  const isa::Program scheduled = schedule_program(program, chip, {name, {}, {}, {}});
  ClusterScheduler::Times result = times_in(scheduled.statements, segment);
  int64_t delay = 0;
  for (size_t k = 0; k < result.size(); ++k) {
    const StreamOperation& operation = segment.operations[k];
    for (const RecentOperation& recent : before) {
      const int64_t difference =
          least_time_difference(recent.accesses, recent.is_mv, operation.accesses, operation.is_mv, chip);
      if (difference >= 0) delay = std::max(delay, recent.time + difference - result[k]);
    }
  }
  for (int64_t& time : result) time += delay;
  return result;
}

void check_scheduler(const std::string& name) {
  if (name.empty()) return;
  std::string known;
  for (const BlockScheduler& scheduler : block_schedulers()) {
    if (!scheduler.for_blocks) continue;
    if (scheduler.name == name) return;
    known += (known.empty() ? "" : ", ") + scheduler.name;
  }
  throw isa::UserError(fmt::format("--scheduler {}: there is no such scheduler; allowed: {}", name, known));
}

void refuse_hazards(const isa::Program& program, const isa::Chip& chip) {
  const auto found = isa::find_hazards(program, chip);
  if (found.empty()) return;
  std::string text = fmt::format("the program has hazards; it can't be optimized before they are gone");
  constexpr size_t kShown = 10;
  for (size_t k = 0; k < std::min(found.size(), kShown); ++k) {
    text +=
        fmt::format("\n{}: {}", isa::SourceLocation{program.source_name, found[k].second_line, 0}.to_string(),
                    found[k].text);
  }
  if (found.size() > kShown)
    text += fmt::format("\n… and {} more; 'kodama check' lists them", found.size() - kShown);
  throw isa::UserError(isa::SourceLocation{program.source_name, found[0].second_line, 0}, text);
}

Stream split(const isa::Program& program, const isa::Chip& chip) {
  if (isa::count(program).statements > kLargestProgram) {
    throw isa::UnsupportedError(
        fmt::format("a program of {} statements (loops unrolled); the optimizer takes up to {}",
                    isa::count(program).statements, kLargestProgram));
  }
  refuse_hazards(program, chip);
  return Splitter(chip).run(program);
}

void check_result(const isa::Program& result, const isa::Chip& chip) {
  const auto found = isa::find_hazards(result, chip);
  isa::check_internal(found.empty(), "optimizer", "the result has hazards: {}",
                      found.empty() ? "" : found[0].text);
}

}  // namespace

std::vector<LiveOut> parse_live_outs(std::string_view text) {
  static const std::map<std::string_view, HazardResource> kNames = {
      {"lm0", HazardResource::kLm0},   {"lm1", HazardResource::kLm1},
      {"grf0", HazardResource::kGrf0}, {"grf1", HazardResource::kGrf1},
      {"t", HazardResource::kT},       {"masks", HazardResource::kMask},
      {"bar0", HazardResource::kBar0}, {"bar1", HazardResource::kBar1},
      {"matx", HazardResource::kMatX}, {"maty", HazardResource::kMatY},
      {"l1bm", HazardResource::kL1bm}, {"turnaround", HazardResource::kTurnaround},
      {"l2bm", HazardResource::kL2bm}, {"dar", HazardResource::kDar},
      {"dram", HazardResource::kDram}, {"pdm", HazardResource::kPdm}};
  std::vector<LiveOut> result;
  const auto fail = [&](std::string_view item) {
    std::string names;
    for (const auto& [name, memory] : kNames) names += (names.empty() ? "" : " ") + std::string(name);
    throw isa::UserError(fmt::format(
        "--live-out: found '{}', allowed: NAME or NAME:FROM-TO, separated by commas, with NAME one of {}",
        item, names));
  };
  const auto number = [&](std::string_view digits, std::string_view item) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() || value < 0)
      fail(item);
    return value;
  };
  std::vector<std::string> items;
  boost::split(items, text, boost::is_any_of(","));
  for (const std::string& item : items) {
    std::vector<std::string> parts;
    boost::split(parts, item, boost::is_any_of(":"));
    const auto name = kNames.find(parts[0]);
    if (name == kNames.end() || parts.size() > 2) fail(item);
    LiveOut live{.memory = name->second};
    if (parts.size() == 2) {
      std::vector<std::string> ends;
      boost::split(ends, parts[1], boost::is_any_of("-"));
      if (ends.size() > 2) fail(item);
      live.begin = number(ends.front(), item);
      live.end = number(ends.back(), item) + 1;
      if (live.end <= live.begin) fail(item);
    }
    result.push_back(live);
  }
  return result;
}

Optimized optimize(const isa::Program& program, const isa::Chip& chip, const OptimizeOptions& options) {
  check_scheduler(options.scheduler);
  Stream stream = split(program, chip);
  Optimized result;
  const std::vector<bool> dead = Pruner(stream, options, chip).run(result.removed);
  const OperationFlow flow = analyze_flow(stream.operations, dead, stream.events, options.live_outs, chip);
  ChangeFinder finder(stream, dead, flow, options, chip);

  Emitter emitter(program, chip);
  std::map<std::string, int64_t> units;
  std::map<std::string, int64_t> ports;
  for (const Segment& segment : stream.segments) {
    if (segment.untouchable) {
      ++result.untouched;
      result.bounds.steps += segment.length;
      emitter.verbatim(stream, segment, segment.original);
    } else if (segment.begin < segment.end) {
      const bool by_name = !options.scheduler.empty();
      SegmentSearch search(stream, dead, flow, segment,
                           by_name ? std::vector<Change>() : finder.find(segment), emitter.recent(), options,
                           chip);
      Solution solution = search.run();
      if (by_name && solution.length != INT64_MAX) {
        if (auto times = schedule_by_name(options.scheduler, solution.segment, emitter.recent(), chip))
          solution.times = std::move(*times);
      }
      if (solution.length == INT64_MAX) {
        ++result.untouched;
        result.bounds.steps += segment.length;
        emitter.verbatim(stream, segment, segment.original);
      } else {
        result.forwarded += search.forwarded(solution.enabled);
        result.renamed += search.renamed(solution.enabled);
        const StepBounds& bounds = solution.bounds;
        result.bounds.critical_path += bounds.critical_path;
        result.bounds.steps += bounds.steps;
        units[bounds.unit_name] += bounds.unit;
        ports[bounds.port_name] += bounds.port;
        emitter.scheduled(solution.segment, solution.times);
      }
    }
    if (segment.barrier) emitter.statement(*segment.barrier);
  }
  for (const auto& [name, uses] : units) {
    if (uses > result.bounds.unit)
      std::tie(result.bounds.unit, result.bounds.unit_name) = std::tie(uses, name);
  }
  for (const auto& [name, uses] : ports) {
    if (uses > result.bounds.port)
      std::tie(result.bounds.port, result.bounds.port_name) = std::tie(uses, name);
  }
  result.program = emitter.finish();
  check_result(result.program, chip);
  result.steps_before = isa::count(program).steps;
  result.steps_after = isa::count(result.program).steps;
  result.is_shorter = result.steps_after < result.steps_before;
  if (!result.is_shorter && !options.eager) {
    result.program = program;
    result.steps_after = result.steps_before;
    result.removed = result.forwarded = result.renamed = 0;
  }
  return result;
}

isa::Program plain_form(const isa::Program& program, const isa::Chip& chip) {
  const Stream stream = split(program, chip);
  Emitter emitter(program, chip);
  for (const Segment& segment : stream.segments) {
    bool is_done = segment.begin == segment.end;
    if (!segment.untouchable && !is_done) {
      StreamSegment all;
      all.has_block_mask = segment.has_block_mask();
      all.operations.assign(stream.operations.begin() + segment.begin,
                            stream.operations.begin() + segment.end);
      for (const ForwardLink& link : stream.links) {
        if (link.producer >= segment.begin && link.producer < segment.end)
          all.links.push_back({link.producer - segment.begin, link.consumer - segment.begin});
      }
      for (const bool keep_distances : {false, true}) {
        const ClusterScheduler scheduler(all, emitter.recent(), chip, keep_distances);
        if (!scheduler.is_consistent()) continue;
        const auto times = scheduler.plain();
        if (!times) continue;
        emitter.scheduled(all, *times);
        is_done = true;
        break;
      }
    }
    if (!is_done) emitter.verbatim(stream, segment, segment.original);
    if (segment.barrier) emitter.statement(*segment.barrier);
  }
  isa::Program result = emitter.finish();
  check_result(result, chip);
  return result;
}

}  // namespace kodama::scheduler
