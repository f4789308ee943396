#include "scheduler/optimizer/program_stream.h"

#include <algorithm>

#include "isa/error.h"
#include "isa/hazards.h"

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

bool has_destination_mask(const Instruction& instruction) {
  return std::ranges::any_of(instruction.destinations, [](const Operand& destination) {
    return destination.mask.kind != isa::Mask::Kind::kNone;
  });
}

constexpr std::array<Space, 4> kForwardingRegisters = {Space::kAluf, Space::kMauf, Space::kLbf,
                                                       Space::kMreadf};

class Splitter {
 public:
  explicit Splitter(const isa::Chip& chip) : chip_(chip) { writers_.fill(-1); }

  ProgramStream run(const isa::Program& program) {
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
    stream_.dead.assign(stream_.operations.size(), false);
    return std::move(stream_);
  }

 private:
  ProgramSegment& segment() { return stream_.segments.back(); }

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
    ProgramSegment next;
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
          for (ProgramSegment& other : stream_.segments) {
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
    const auto uses_table = [&](const ProgramSegment& segment) {
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
  ProgramStream stream_;
  isa::MaskControl mask_;
  std::array<int, 4> writers_{};
};

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

}  // namespace

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

ProgramStream split_program(const isa::Program& program, const isa::Chip& chip) {
  if (isa::count(program).statements > kLargestProgram) {
    throw isa::UnsupportedError(
        fmt::format("a program of {} statements (loops unrolled); the optimizer takes up to {}",
                    isa::count(program).statements, kLargestProgram));
  }
  refuse_hazards(program, chip);
  return Splitter(chip).run(program);
}

}  // namespace kodama::scheduler
