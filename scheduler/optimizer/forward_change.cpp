/// `forward`: sources of an operation read the forwarding register of who wrote what they read.
#include <algorithm>
#include <map>

#include "scheduler/optimizer/builtin_changes.h"

namespace kodama::scheduler {
namespace {

using isa::Instruction;
using isa::Operand;
using isa::Space;

void read_forwarded(Instruction& consumer, Space from, const std::vector<size_t>& sources) {
  for (const size_t s : sources) {
    Operand operand;
    operand.space = from;
    operand.negate = consumer.sources[s].negate;
    operand.extend = consumer.sources[s].extend;
    operand.reduce = consumer.sources[s].reduce;
    consumer.sources[s] = operand;
  }
}

class Forwarding {
 public:
  explicit Forwarding(const ChangeContext& context) : context_(context) {}

  void find(int k, const ProgramSegment& segment, std::vector<StreamChange>& changes) const {
    const StreamOperation& consumer = context_.stream.operations[static_cast<size_t>(k)];
    std::map<int, std::vector<size_t>> by_definition;
    for (size_t s = 0; s < consumer.instruction.sources.size(); ++s) {
      const int d = context_.flow.source_definition[static_cast<size_t>(k)][s];
      if (d >= 0) by_definition[d].push_back(s);
    }
    for (const auto& [d, sources] : by_definition) {
      const int p = context_.flow.definitions[static_cast<size_t>(d)].operation;
      if (p < segment.begin || p >= segment.end) continue;
      const Instruction& producer = context_.stream.operations[static_cast<size_t>(p)].instruction;
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
      StreamChange change;
      change.edits = {{k, [from = forwarding_register(producer), sources = sources](
                              Instruction& instruction) { read_forwarded(instruction, from, sources); }}};
      change.links = {{p, k}};
      change.definition = d;
      for (const size_t s : sources) change.unread.push_back({k, static_cast<int>(s)});
      change.count = static_cast<int64_t>(sources.size());
      changes.push_back(std::move(change));
    }
  }

 private:
  /// Whether the forwarding register holds in every cycle the very bits that the operand reads, as far as
  /// they make a difference.
  bool delivers(int p, const Operand& written, int k, size_t s) const {
    const Instruction& consumer = context_.stream.operations[static_cast<size_t>(k)].instruction;
    const Operand& read = consumer.sources[s];
    if (read.space == Space::kT) return true;  // always 2LW, cycle by cycle
    if (read.width != written.width || read.width == isa::Width::kWord) return false;
    if (read.width == isa::Width::kLong &&
        lower_matters(consumer, s, context_.forwards_low[static_cast<size_t>(k)]))
      return false;
    const bool lm = read.space == Space::kLm0 || read.space == Space::kLm1;
    const int64_t size = lm ? context_.chip.memory.lm_words : context_.chip.memory.grf_words;
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
      if (from < 0 || (from != c && !context_.is_invariant[static_cast<size_t>(p)])) return false;
    }
    return true;
  }

  const ChangeContext& context_;
};

}  // namespace

ChangeKind forward_change() {
  return {"forward",
          "reads of what an operation has just written become reads of its unit's forwarding register",
          {},
          [](const ChangeContext& context) -> ChangeFinder {
            return [finder = Forwarding(context)](int k, const ProgramSegment& segment,
                                                  std::vector<StreamChange>& changes) {
              finder.find(k, segment, changes);
            };
          }};
}

}  // namespace kodama::scheduler
