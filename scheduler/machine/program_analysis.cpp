#include "scheduler/machine/program_analysis.h"

#include <algorithm>

#include "isa/error.h"

namespace kodama::scheduler {
namespace {

using isa::Operand;
using isa::Space;

void index_nodes(const std::vector<Node>& nodes, int loop, double weight, ProgramIndex& index) {
  for (const Node& node : nodes) {
    if (const auto* block = std::get_if<Block>(&node.kind)) {
      for (const Operation& operation : block->operations) index.sites.push_back({&operation, loop, weight});
    } else if (const auto* region = std::get_if<RegionNode>(&node.kind)) {
      index_nodes(region->body, loop, weight, index);
    } else {
      const auto& counted = std::get<CountedLoop>(node.kind);
      const int self = static_cast<int>(index.loops.size());
      const int depth = loop < 0 ? 0 : index.loops[loop].depth + 1;
      const auto begin = static_cast<int64_t>(index.sites.size());
      index.loops.push_back({counted.count, loop, depth, begin, begin});
      index_nodes(counted.body, self, weight * static_cast<double>(counted.count), index);
      index.loops[self].end = static_cast<int64_t>(index.sites.size());
    }
  }
}

/// Runs the accesses of one value over one iteration of a loop and finds out whether some word is read
/// before it is surely written.
class ExposureCheck {
 public:
  ExposureCheck(const ProgramIndex& index, const std::vector<ValueUse>& uses, int64_t size)
      : index_(index), uses_(uses), written_(size) {}

  bool exposed(int loop) {
    const size_t outer_depth = loop < 0 ? 0 : index_.loops[loop].depth + 1;
    for (const ValueUse& use : uses_) {
      // An address that moves with the loop itself names different words in every iteration.
      const auto& strides = use.operand->loop_strides;
      for (size_t d = 0; d < std::min(outer_depth, strides.size()); ++d) {
        if (strides[d] != 0) return true;
      }
    }
    return !run(0, uses_.size(), loop);
  }

 private:
  /// False when a word is exposed or the work gets out of hand.
  bool run(size_t begin, size_t end, int loop) {
    for (size_t k = begin; k < end;) {
      const int child = child_loop(index_, uses_[k].position, loop);
      if (child == loop) {
        if (!step(uses_[k])) return false;
        ++k;
        continue;
      }
      size_t next = k;
      bool varies = false;
      const LoopSite& site = index_.loops[child];
      const size_t depth = site.depth;
      while (next < end && uses_[next].position < site.end) {
        const auto& strides = uses_[next].operand->loop_strides;
        varies |= depth < strides.size() && strides[depth] != 0;
        ++next;
      }
      if (counters_.size() <= depth) counters_.resize(depth + 1);
      // Iterations that touch the same words again can only find more of them written.
      const int64_t iterations = varies ? site.count : std::min<int64_t>(site.count, 1);
      for (int64_t i = 0; i < iterations; ++i) {
        counters_[depth] = i;
        if (!run(k, next, child)) return false;
      }
      counters_[depth] = 0;
      k = next;
    }
    return true;
  }

  bool step(const ValueUse& use) {
    if (++work_ > kWorkLimit) return false;
    const Operand& operand = *use.operand;
    if (operand.t_indirect) return use.written || all_written();
    const isa::Mask& mask = operand.mask;
    const bool at_run_time =
        mask.kind == isa::Mask::Kind::kRegister || mask.kind == isa::Mask::Kind::kVirtual;
    if (use.written && (operand.j >= 0 || at_run_time)) return true;
    int64_t shift = 0;
    for (size_t d = 0; d < std::min(operand.loop_strides.size(), counters_.size()); ++d) {
      shift += operand.loop_strides[d] * counters_[d];
    }
    const int width = words(operand.width) * (operand.j >= 0 ? 2 : 1);
    for (int cycle = 0; cycle < isa::kCyclesPerStep; ++cycle) {
      if (mask.kind == isa::Mask::Kind::kPattern && (mask.value >> (3 - cycle) & 1) == 0) continue;
      for (int w = 0; w < width; ++w) {
        const int64_t word = operand.address(cycle) + shift + w;
        if (word < 0 || word >= static_cast<int64_t>(written_.size())) continue;
        if (use.written) {
          if (!written_[word]) ++written_count_;
          written_[word] = true;
        } else if (!written_[word]) {
          return false;
        }
      }
    }
    return true;
  }
  bool all_written() const { return written_count_ == written_.size(); }

  static constexpr int64_t kWorkLimit = 1 << 15;
  const ProgramIndex& index_;
  const std::vector<ValueUse>& uses_;
  std::vector<bool> written_;
  size_t written_count_ = 0;
  std::vector<int64_t> counters_;
  int64_t work_ = 0;
};

/// Innermost loop that holds both.
int common_loop(const ProgramIndex& index, int a, int b) {
  const auto depth = [&](int loop) { return loop < 0 ? -1 : index.loops[loop].depth; };
  while (a != b) {
    if (depth(a) >= depth(b)) {
      a = index.loops[a].parent;
    } else {
      b = index.loops[b].parent;
    }
  }
  return a;
}

}  // namespace

ProgramIndex index_program(const MachineProgram& program) {
  ProgramIndex index;
  index_nodes(program.body, -1, 1.0, index);
  index.kept = program.kept;
  return index;
}

int child_loop(const ProgramIndex& index, int64_t position, int loop) {
  int child = index.sites[position].loop;
  while (child != loop && index.loops[child].parent != loop) child = index.loops[child].parent;
  return child;
}

std::vector<std::vector<ValueUse>> value_uses(const MachineProgram& program, const ProgramIndex& index) {
  static const Operand kMask = [] {
    Operand operand;
    operand.width = isa::Width::kWord;
    return operand;
  }();
  std::vector<std::vector<ValueUse>> uses(program.values.size());
  for (size_t p = 0; p < index.sites.size(); ++p) {
    const isa::Instruction& instruction = index.sites[p].operation->instruction;
    for_each_value_use(instruction, [&](const Operand& operand, bool written) {
      const auto has = [&](const std::vector<Operand>& operands) {
        return std::ranges::any_of(operands, [&](const Operand& each) { return &each == &operand; });
      };
      const bool is_mask = !has(instruction.sources) && !has(instruction.destinations);
      uses.at(operand.value).push_back({static_cast<int64_t>(p), is_mask ? &kMask : &operand, written});
    });
  }
  return uses;
}

Lifetime lifetime_of(const std::vector<ValueUse>& uses, int64_t size_words, const ProgramIndex& index) {
  if (uses.empty()) return {};
  Lifetime life;
  life.begin = 2 * uses.front().position + (uses.front().written ? 1 : 0);
  life.end = 2 * uses.back().position + (uses.back().written ? 2 : 1);
  int common = index.sites[uses.front().position].loop;
  for (const ValueUse& use : uses) common = common_loop(index, common, index.sites[use.position].loop);
  const auto cover = [&](int loop) {
    life.begin = std::min(life.begin, 2 * index.loops[loop].begin);
    life.end = std::max(life.end, 2 * index.loops[loop].end);
  };
  for (const ValueUse& use : uses) {
    for (int loop = index.sites[use.position].loop; loop != common; loop = index.loops[loop].parent)
      cover(loop);
  }
  if (common >= 0 && ExposureCheck(index, uses, size_words).exposed(common)) {
    for (int loop = common; loop >= 0; loop = index.loops[loop].parent) cover(loop);
  }
  return life;
}

std::vector<Lifetime> compute_lifetimes(const MachineProgram& program, const ProgramIndex& index) {
  const std::vector<std::vector<ValueUse>> uses = value_uses(program, index);
  std::vector<Lifetime> lifetimes;
  for (size_t v = 0; v < uses.size(); ++v)
    lifetimes.push_back(lifetime_of(uses[v], program.values[v].size_words, index));
  return lifetimes;
}

std::vector<int64_t> compute_alignments(const MachineProgram& program, const ProgramIndex& index) {
  std::vector<int64_t> alignments;
  for (const Value& value : program.values) alignments.push_back(std::max<int64_t>(value.alignment_words, 1));
  for (const OperationSite& site : index.sites) {
    const auto add = [&](const Operand& operand) {
      if (operand.space != Space::kVirtual) return;
      alignments.at(operand.value) = std::max<int64_t>(alignments.at(operand.value), words(operand.width));
    };
    for (const Operand& operand : site.operation->instruction.sources) add(operand);
    for (const Operand& operand : site.operation->instruction.destinations) add(operand);
  }
  return alignments;
}

std::vector<bool> reserved_words(const ProgramIndex& index, Space space, int64_t size) {
  std::vector<bool> reserved(size, false);
  if (space == Space::kOmr) {
    const auto reserve = [&](int64_t entry) {
      if (entry < size) reserved[static_cast<size_t>(entry)] = true;
    };
    const auto reserve_mask = [&](const isa::Mask& mask) {
      if (mask.kind == isa::Mask::Kind::kRegister) reserve(mask.value);
    };
    reserve(0);  // all ones
    for (const OperationSite& site : index.sites) {
      reserve_mask(site.operation->instruction.zero_flush);
      for (const Operand& operand : site.operation->instruction.destinations) {
        if (operand.space == Space::kOmr) reserve(operand.base);
        reserve_mask(operand.mask);
      }
    }
    return reserved;
  }
  for (const KeptWords& kept : index.kept) {
    if (kept.space == space) std::fill(reserved.begin() + kept.begin, reserved.begin() + kept.end, true);
  }
  for (const OperationSite& site : index.sites) {
    const auto add = [&](const Operand& operand) {
      if (operand.space != space) return;
      // Where T points from words that are kept, it is to others of these.
      const auto is_kept = [&](const KeptWords& kept) {
        return kept.space == space && kept.begin <= operand.base && operand.base < kept.end;
      };
      if (operand.t_indirect && std::ranges::any_of(index.kept, is_kept)) return;
      if (space == Space::kT || operand.t_indirect) {
        reserved.assign(size, true);
        return;
      }
      // Every word between the extremes over all loop counters: cheap, and exact for dense buffers.
      int64_t low = operand.address(0);
      int64_t high = low;
      for (int cycle = 1; cycle < isa::kCyclesPerStep; ++cycle) {
        low = std::min(low, operand.address(cycle));
        high = std::max(high, operand.address(cycle));
      }
      high += words(operand.width) * (operand.j >= 0 ? 2 : 1);
      for (int loop = site.loop; loop >= 0; loop = index.loops[loop].parent) {
        const LoopSite& loop_site = index.loops[loop];
        if (static_cast<size_t>(loop_site.depth) >= operand.loop_strides.size()) continue;
        const int64_t reach =
            operand.loop_strides[loop_site.depth] * std::max<int64_t>(loop_site.count - 1, 0);
        (reach < 0 ? low : high) += reach;
      }
      for (int64_t word = low; word < high && word - low < size; ++word) {
        reserved[((word % size) + size) % size] = true;
      }
    };
    for (const Operand& operand : site.operation->instruction.sources) add(operand);
    for (const Operand& operand : site.operation->instruction.destinations) add(operand);
  }
  return reserved;
}

int64_t home_size(Space space, const isa::Chip& chip) {
  switch (space) {
    case Space::kLm0:
    case Space::kLm1:
      return chip.memory.lm_words;
    case Space::kGrf0:
    case Space::kGrf1:
      return chip.memory.grf_words;
    case Space::kT:
      return int64_t{isa::kCyclesPerStep} * words(isa::Width::kDoubleLong);
    case Space::kOmr:
      return std::min<int64_t>(chip.memory.mask_entries, isa::kMaskRegisters);
    default:
      return 0;
  }
}

std::string_view home_name(Space space) {
  switch (space) {
    case Space::kLm0:
      return "LM0";
    case Space::kLm1:
      return "LM1";
    case Space::kGrf0:
      return "GRF0";
    case Space::kGrf1:
      return "GRF1";
    case Space::kT:
      return "T";
    case Space::kOmr:
      return "mask registers";
    default:
      return "none";
  }
}

std::vector<int64_t> trimmed(std::vector<int64_t> strides) {
  while (!strides.empty() && strides.back() == 0) strides.pop_back();
  return strides;
}

namespace {

isa::Mask resolve(const isa::Mask& mask, const MachineProgram& program) {
  if (mask.kind != isa::Mask::Kind::kVirtual) return mask;
  const Value& value = program.values.at(mask.virtual_value);
  isa::check_internal(value.home == Space::kOmr && value.address > 0, "scheduler",
                      "mask %{} is no mask register yet", value.name);
  isa::Mask real = mask;
  real.kind = isa::Mask::Kind::kRegister;
  real.value = static_cast<uint8_t>(value.address);
  real.virtual_value = -1;
  return real;
}

}  // namespace

isa::Operand resolve(Operand real, const MachineProgram& program) {
  real.mask = resolve(real.mask, program);
  if (real.space != Space::kVirtual) return real;
  const Value& value = program.values.at(real.value);
  isa::check_internal(value.home != Space::kNone && value.address >= 0, "scheduler",
                      "value %{} has no {} yet", value.name, value.home == Space::kNone ? "home" : "address");
  real.space = value.home;
  real.value = -1;
  if (value.home == Space::kOmr) real.width = isa::Width::kLong;  // as the assembler has it
  if (value.home == Space::kT) {
    // T has no addresses: cycle c reads and writes its own 2LW.
    real.base = real.stride = 0;
    real.flat = false;
    real.flat_addresses = {};
    real.loop_strides.clear();
  } else {
    real.base += value.address;
  }
  return real;
}

isa::Instruction resolve(isa::Instruction real, const MachineProgram& program) {
  real.zero_flush = resolve(real.zero_flush, program);
  for (Operand& operand : real.sources) operand = resolve(std::move(operand), program);
  for (Operand& operand : real.destinations) operand = resolve(std::move(operand), program);
  return real;
}

}  // namespace kodama::scheduler
