#include <algorithm>
#include <array>
#include <boost/icl/interval_map.hpp>
#include <boost/icl/interval_set.hpp>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>

#include "isa/costs.h"
#include "isa/error.h"
#include "scheduler/loop_expansion.h"
#include "scheduler/passes.h"
#include "scheduler/program_scheduling.h"

/// Verifiers. They read only the public structures and the ISA's tables; nothing of the passes is used.
namespace kodama::scheduler {
namespace {

using isa::Access;
using isa::HazardResource;
using isa::Instruction;
using isa::Operand;
using isa::Space;

[[noreturn]] void fail(std::string_view verifier, const std::string& what) {
  throw isa::InternalError(fmt::format("internal error found by {}: {}", verifier, what));
}

std::string describe(const Instruction& instruction, const std::string& origin) {
  return fmt::format("{}{}", isa::mnemonic(instruction), origin.empty() ? "" : " (" + origin + ")");
}

/// Calls `visit` for all operands that name values: sources and masks as reads, destinations as writes.
void for_each_named_value(const Instruction& instruction,
                          const std::function<void(const Operand&, bool written)>& visit) {
  const auto visit_mask = [&](const isa::Mask& mask) {
    if (mask.kind != isa::Mask::Kind::kVirtual) return;
    Operand entry;
    entry.space = Space::kVirtual;
    entry.value = mask.virtual_value;
    entry.width = isa::Width::kWord;
    visit(entry, false);
  };
  visit_mask(instruction.zero_flush);
  for (const Operand& operand : instruction.sources) {
    if (operand.space == Space::kVirtual) visit(operand, false);
  }
  for (const Operand& operand : instruction.destinations) visit_mask(operand.mask);
  for (const Operand& operand : instruction.destinations) {
    if (operand.space == Space::kVirtual) visit(operand, true);
  }
}

/// Visits every operation with the trip counts of the loops around it.
void for_each_operation(const std::vector<Node>& nodes, std::vector<int64_t>& counts,
                        const std::function<void(const Operation&, const std::vector<int64_t>&)>& visit) {
  for (const Node& node : nodes) {
    if (const auto* block = std::get_if<Block>(&node.kind)) {
      for (const Operation& operation : block->operations) visit(operation, counts);
    } else if (const auto* region = std::get_if<RegionNode>(&node.kind)) {
      for_each_operation(region->body, counts, visit);
    } else {
      const auto& loop = std::get<CountedLoop>(node.kind);
      counts.push_back(loop.count);
      for_each_operation(loop.body, counts, visit);
      counts.pop_back();
    }
  }
}

/// Smallest and largest + 1 word that an operand names over all iterations.
std::pair<int64_t, int64_t> operand_range(const Operand& operand, const std::vector<int64_t>& counts) {
  int64_t low = operand.address(0);
  int64_t high = low;
  for (int cycle = 1; cycle < isa::kCyclesPerStep; ++cycle) {
    low = std::min(low, operand.address(cycle));
    high = std::max(high, operand.address(cycle));
  }
  for (size_t d = 0; d < std::min(counts.size(), operand.loop_strides.size()); ++d) {
    const int64_t reach = operand.loop_strides[d] * std::max<int64_t>(counts[d] - 1, 0);
    low += std::min<int64_t>(reach, 0);
    high += std::max<int64_t>(reach, 0);
  }
  return {low, high + words(operand.width) * (operand.j >= 0 ? 2 : 1)};
}

bool equal_strides(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  for (size_t d = 0; d < std::max(a.size(), b.size()); ++d) {
    if ((d < a.size() ? a[d] : 0) != (d < b.size() ? b[d] : 0)) return false;
  }
  return true;
}

bool names_same_words(const Operand& a, const Operand& b) {
  bool same = a.space == b.space && a.value == b.value && a.width == b.width && a.j == b.j &&
              a.t_indirect == b.t_indirect && equal_strides(a.loop_strides, b.loop_strides);
  for (int cycle = 0; cycle < isa::kCyclesPerStep; ++cycle)
    same = same && a.address(cycle) == b.address(cycle);
  return same;
}

}  // namespace

// ---- homes
// -------------------------------------------------------------------------------------------------

void verify_homes(const MachineProgram& program, const isa::Chip&) {
  constexpr std::string_view kVerifier = "verify_homes";
  for (const Value& value : program.values) {
    const bool is_home =
        isa::is_pe_memory(value.home) || value.home == Space::kT || value.home == Space::kOmr;
    if (!is_home || (value.homes & isa::space_bit(value.home)) == 0) {
      fail(kVerifier, fmt::format("value %{} has no home, or one that it does not allow", value.name));
    }
  }
  std::vector<int64_t> counts;
  for_each_operation(
      program.body, counts, [&](const Operation& operation, const std::vector<int64_t>& trips) {
        const Instruction& instruction = operation.instruction;
        const auto report = [&](const std::string& rule) {
          fail(kVerifier, fmt::format("{}: {}", describe(instruction, operation.origin), rule));
        };
        const auto& row = isa::info(instruction.opcode);
        const auto home = [&](const Operand& operand) {
          if (operand.space != Space::kVirtual) return operand.space;
          if (operand.value < 0 || operand.value >= static_cast<int32_t>(program.values.size())) {
            report(fmt::format("operand names value {}, there are {}", operand.value, program.values.size()));
          }
          const Value& value = program.values[operand.value];
          const auto [low, high] = operand_range(operand, trips);
          if (low < 0 || high > value.size_words) {
            report(fmt::format("operand reaches words {} to {} of value %{}, which has {}", low, high - 1,
                               value.name, value.size_words));
          }
          if (operand.t_indirect && value.home != Space::kLm0) {
            report(fmt::format("T-indirect operand in value %{}, which is not in LM0", value.name));
          }
          return value.home;
        };
        const auto check_mask = [&](const isa::Mask& mask) {
          if (mask.kind != isa::Mask::Kind::kVirtual) return;
          if (mask.virtual_value < 0 || mask.virtual_value >= static_cast<int32_t>(program.values.size()))
            report(
                fmt::format("mask names value {}, there are {}", mask.virtual_value, program.values.size()));
          const Value& value = program.values[mask.virtual_value];
          if (value.home != Space::kOmr) report(fmt::format("mask %{} is no mask register", value.name));
        };
        check_mask(instruction.zero_flush);
        for (const Operand& operand : instruction.destinations) check_mask(operand.mask);
        struct Use {
          Space space;
          const Operand* operand;
          bool write;
        };
        std::vector<Use> uses;
        for (size_t k = 0; k < instruction.sources.size(); ++k) {
          uses.push_back({home(instruction.sources[k]), &instruction.sources[k], false});
          if ((row.sources[std::min<size_t>(k, 2)] & isa::space_bit(uses.back().space)) == 0) {
            report(fmt::format("source {} can't come from {}", k, isa::space_name(uses.back().space)));
          }
        }
        for (const Operand& operand : instruction.destinations) {
          uses.push_back({home(operand), &operand, true});
          if ((row.destinations & isa::space_bit(uses.back().space)) == 0) {
            report(fmt::format("the result can't go to {}", isa::space_name(uses.back().space)));
          }
        }
        if (row.group == isa::IssueGroup::kMv) return;
        for (size_t a = 0; a < uses.size(); ++a) {
          const Space space = uses[a].space;
          if (instruction.opcode == isa::Opcode::kImm && space == Space::kLm0)
            report("imm beside an access to LM0");
          if (!isa::is_pe_memory(space) && space != Space::kT) continue;
          for (size_t b = a + 1; b < uses.size(); ++b) {
            if (uses[b].space != space) continue;
            if (uses[a].write && uses[b].write)
              report(fmt::format("two writes of {}", isa::space_name(space)));
            if (space == Space::kT || names_same_words(*uses[a].operand, *uses[b].operand)) continue;
            if (uses[a].write == uses[b].write) {
              report(fmt::format("reads of {} with different addresses", isa::space_name(space)));
            } else if (space == Space::kLm0 || space == Space::kLm1) {
              report(fmt::format("read and write of {} with different addresses", isa::space_name(space)));
            }
          }
        }
      });
}

// ---- allocation
// --------------------------------------------------------------------------------------------

namespace {

/// Iterations of a loop that stand for all of them: a value that is lost on the way round is missed by the
/// second.
constexpr int64_t kIterations = 2;

/// Runs a machine program with every word marked by the value that was written to it last. A write to a value
/// claims all its words; a read must find every word it has ever written still in its own hands.
class OwnershipRun {
 public:
  OwnershipRun(const MachineProgram& program, const isa::Chip& chip) : program_(program), chip_(chip) {
    values_.resize(program.values.size());
  }

  void run() {
    check_places();
    run_nodes(program_.body);
  }

 private:
  static constexpr std::string_view kVerifier = "verify_allocation";
  static constexpr int32_t kNobody = -1;

  struct ValueRecord {
    std::vector<bool> ever;    ///< words written at any time
    std::vector<bool> intact;  ///< words written since the value last lost a word
  };

  int64_t size_of(Space home) const {
    switch (home) {
      case Space::kLm0:
      case Space::kLm1:
        return chip_.memory.lm_words;
      case Space::kGrf0:
      case Space::kGrf1:
        return chip_.memory.grf_words;
      default:
        return 16;  // T: 2LW in each of 4 cycles; mask registers: 0 to 15
    }
  }

  void check_places() {
    std::map<Space, std::vector<bool>> direct;
    std::vector<int64_t> counts;
    std::vector<bool> used(program_.values.size(), false);
    const auto take_mask = [&](int64_t entry) {
      std::vector<bool>& taken = direct[Space::kOmr];
      taken.resize(size_of(Space::kOmr));
      if (entry < size_of(Space::kOmr)) taken[entry] = true;
    };
    take_mask(0);  // all ones
    const auto check = [&](const Operation& operation, const Operand& operand,
                           const std::vector<int64_t>& trips) {
      if (operand.mask.kind == isa::Mask::Kind::kRegister) take_mask(operand.mask.value);
      if (operand.space == Space::kOmr) take_mask(operand.base);
      if (operand.space == Space::kVirtual) {
        const Value& value = program_.values.at(operand.value);
        if (value.home == Space::kT) return;
        if ((value.address + operand.address(0)) % words(operand.width) != 0 ||
            value.address % std::max<int64_t>(value.alignment_words, 1) != 0) {
          fail(kVerifier, fmt::format("{}: value %{} at address {} of {} is not aligned",
                                      describe(operation.instruction, operation.origin), value.name,
                                      value.address, isa::space_name(value.home)));
        }
        return;
      }
      if (!isa::is_pe_memory(operand.space) && operand.space != Space::kT) return;
      std::vector<bool>& taken = direct[operand.space];
      const int64_t size = size_of(operand.space);
      taken.resize(size);
      if (operand.space == Space::kT || operand.t_indirect) {
        taken.assign(size, true);
        return;
      }
      const auto [low, high] = operand_range(operand, trips);
      for (int64_t word = low; word < std::min(high, low + size); ++word)
        taken[(word % size + size) % size] = true;
    };
    for_each_operation(
        program_.body, counts, [&](const Operation& operation, const std::vector<int64_t>& trips) {
          const isa::Mask& flush = operation.instruction.zero_flush;
          if (flush.kind == isa::Mask::Kind::kRegister) take_mask(flush.value);
          for_each_named_value(operation.instruction,
                               [&](const Operand& operand, bool) { used.at(operand.value) = true; });
          for (const Operand& operand : operation.instruction.sources) check(operation, operand, trips);
          for (const Operand& operand : operation.instruction.destinations) check(operation, operand, trips);
        });
    for (size_t v = 0; v < program_.values.size(); ++v) {
      const Value& value = program_.values[v];
      if (!used[v]) continue;
      const int64_t size = size_of(value.home);
      const int64_t end = value.address + value.size_words;
      if (value.address < 0 || end > size) {
        fail(kVerifier, fmt::format("value %{} has words {} to {} of {}, which has {}", value.name,
                                    value.address, end - 1, isa::space_name(value.home), size));
      }
      const auto found = direct.find(value.home);
      if (found == direct.end()) continue;
      for (int64_t word = value.address; word < end; ++word) {
        if (found->second[word]) {
          fail(kVerifier, fmt::format("value %{} lies on word {} of {}, which operations name directly",
                                      value.name, word, isa::space_name(value.home)));
        }
      }
    }
  }

  void run_nodes(const std::vector<Node>& nodes) {
    for (const Node& node : nodes) {
      if (const auto* block = std::get_if<Block>(&node.kind)) {
        for (const Operation& operation : block->operations) step(operation);
      } else if (const auto* region = std::get_if<RegionNode>(&node.kind)) {
        run_nodes(region->body);
      } else {
        const auto& loop = std::get<CountedLoop>(node.kind);
        counters_.push_back(0);
        for (int64_t i = 0; i < std::min(loop.count, kIterations); ++i) {
          counters_.back() = i;
          run_nodes(loop.body);
        }
        counters_.pop_back();
      }
    }
  }

  template <typename Visit>
  void for_each_word(const Operand& operand, Visit&& visit) {
    const Value& value = program_.values[operand.value];
    if (operand.t_indirect) {
      for (int64_t word = 0; word < value.size_words; ++word) visit(word);
      return;
    }
    int64_t shift = 0;
    for (size_t d = 0; d < std::min(counters_.size(), operand.loop_strides.size()); ++d) {
      shift += operand.loop_strides[d] * counters_[d];
    }
    for (int cycle = 0; cycle < isa::kCyclesPerStep; ++cycle) {
      if (operand.mask.kind == isa::Mask::Kind::kPattern && (operand.mask.value & (8 >> cycle)) == 0)
        continue;
      const int width = words(operand.width) * (operand.j >= 0 ? 2 : 1);
      for (int w = 0; w < width; ++w) {
        const int64_t word = operand.address(cycle) + shift + w;
        if (word >= 0 && word < value.size_words) visit(word);
      }
    }
  }

  ValueRecord& record(int32_t value) {
    ValueRecord& entry = values_[value];
    if (entry.ever.empty()) {
      entry.ever.resize(program_.values[value].size_words);
      entry.intact.resize(program_.values[value].size_words);
    }
    return entry;
  }

  /// Words of the memory that the value occupies.
  std::pair<int64_t, int64_t> place(int32_t value) const {
    const Value& v = program_.values[value];
    if (v.home == Space::kT) return {0, size_of(Space::kT)};
    return {v.address, v.address + v.size_words};
  }

  std::vector<int32_t>& owners(Space home) {
    std::vector<int32_t>& list = owners_[home];
    if (list.empty()) list.assign(size_of(home), kNobody);
    return list;
  }

  /// Forgets what a value held if somebody else has taken some of its words.
  void settle(int32_t value) {
    const auto [begin, end] = place(value);
    std::vector<int32_t>& list = owners(program_.values[value].home);
    ValueRecord& entry = record(value);
    const bool whole =
        std::all_of(list.begin() + begin, list.begin() + end, [&](int32_t o) { return o == value; });
    if (!whole) entry.intact.assign(entry.intact.size(), false);
  }

  void check_read(const Operation& operation, const Operand& operand) {
    settle(operand.value);
    const ValueRecord& entry = record(operand.value);
    for_each_word(operand, [&](int64_t word) {
      if (!entry.ever[word] || entry.intact[word]) return;
      const Value& value = program_.values[operand.value];
      const int32_t thief = owners(value.home)[value.home == Space::kT ? 0 : value.address + word];
      fail(kVerifier, fmt::format("{} reads word {} of value %{}, which was overwritten{} in {}",
                                  describe(operation.instruction, operation.origin), word, value.name,
                                  thief >= 0 ? " by value %" + program_.values[thief].name : "",
                                  isa::space_name(value.home)));
    });
  }

  void step(const Operation& operation) {
    for_each_named_value(operation.instruction, [&](const Operand& operand, bool written) {
      if (!written) check_read(operation, operand);
    });
    for (const Operand& operand : operation.instruction.destinations) {
      if (operand.space != Space::kVirtual) continue;
      // What a run-time mask keeps is read again later, so it must still be there.
      if (operand.mask.kind == isa::Mask::Kind::kRegister || operand.mask.kind == isa::Mask::Kind::kVirtual)
        check_read(operation, operand);
      settle(operand.value);
      const auto [begin, end] = place(operand.value);
      std::vector<int32_t>& list = owners(program_.values[operand.value].home);
      std::fill(list.begin() + begin, list.begin() + end, operand.value);
      ValueRecord& entry = record(operand.value);
      for_each_word(operand, [&](int64_t word) { entry.ever[word] = entry.intact[word] = true; });
    }
  }

  const MachineProgram& program_;
  const isa::Chip& chip_;
  std::vector<ValueRecord> values_;
  std::map<Space, std::vector<int32_t>> owners_;
  std::vector<int64_t> counters_;
};

}  // namespace

void verify_allocation(const MachineProgram& program, const isa::Chip& chip) {
  OwnershipRun(program, chip).run();
}

// ---- schedule
// ----------------------------------------------------------------------------------------------

namespace {

constexpr std::string_view kScheduleVerifier = "verify_schedule";

uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9e3779b97f4a7c15ULL + b + 0x7f4a7c15ULL;
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 32;
  return x;
}

/// Which iterations of a long loop a run executes. Both runs are made: the first ones are what follows the
/// code before the loop, the last ones what precedes the code behind it.
enum class Sample : uint8_t { kFirst, kLast };

/// `whole`: of a loop without loops inside, whose iterations the schedule may have made to overlap. Of those,
/// all are run.
std::vector<int64_t> sampled_iterations(int64_t count, Sample sample, bool whole) {
  std::vector<int64_t> result;
  if (whole && count <= kMostPipelinedIterations) {
    for (int64_t i = 0; i < count; ++i) result.push_back(i);
    return result;
  }
  const int64_t begin = sample == Sample::kFirst ? 0 : std::max<int64_t>(count - kIterations, 0);
  for (int64_t i = begin; i < std::min(count, begin + kIterations); ++i) result.push_back(i);
  return result;
}

/// An instruction with what is needed again and again about it.
struct Prepared {
  Instruction instruction;
  std::string origin;
  std::vector<Access> accesses;
  uint64_t shape = 0;  ///< hash of all but memory addresses
};

/// What a mask register holds counts, not which one it is.
uint64_t mask_shape(const isa::Mask& mask) {
  using Kind = isa::Mask::Kind;
  const bool is_register = mask.kind == Kind::kVirtual || (mask.kind == Kind::kRegister && mask.value > 0 &&
                                                           mask.value < isa::kMaskRegisters);
  const uint64_t kind = static_cast<uint64_t>(is_register ? Kind::kRegister : mask.kind);
  return mix(mix(kind, is_register ? 0 : mask.value), static_cast<uint64_t>(mask.double_long));
}

uint64_t operand_shape(const Operand& operand) {
  // Copies of a loop's body take turns with the matrix registers: what counts is what a register holds.
  const Space space = operand.space == Space::kMatY ? Space::kMatX : operand.space;
  uint64_t hash = mask_shape(operand.mask);
  hash = mix(hash, static_cast<uint64_t>(space));
  hash = mix(hash, space == Space::kOmr ? 0 : static_cast<uint64_t>(words(operand.width)));
  for (const int64_t part :
       {int64_t{operand.t_indirect}, int64_t{operand.negate}, int64_t{operand.extend},
        int64_t{operand.reduce}, int64_t{operand.j}, int64_t{operand.group}, int64_t{operand.unit}}) {
    hash = mix(hash, static_cast<uint64_t>(part));
  }
  const bool is_literal = operand.space == Space::kConstant || operand.space == Space::kImmediate;
  return is_literal ? mix(hash, static_cast<uint64_t>(operand.base)) : hash;
}

Prepared prepare(Instruction instruction, std::string origin, const isa::Chip& chip) {
  Prepared prepared;
  prepared.accesses = isa::accesses(instruction, chip);
  uint64_t hash = static_cast<uint64_t>(instruction.opcode);
  for (const int64_t part :
       {int64_t{static_cast<int>(instruction.precision)}, int64_t{instruction.unsigned_op},
        int64_t{instruction.round_output}, int64_t{instruction.half_select}, int64_t{instruction.block_bits},
        static_cast<int64_t>(mask_shape(instruction.zero_flush)),
        int64_t{static_cast<int>(instruction.reduce_op)}, int64_t{instruction.unit},
        int64_t{instruction.rotation}, int64_t{static_cast<int>(instruction.l1b_set.kind)},
        int64_t{instruction.l1b_set.k}, int64_t{instruction.l1b_set.ignore_mask},
        int64_t{instruction.l1b_set.list}, instruction.size_lw, int64_t{instruction.indirect_n}}) {
    hash = mix(hash, static_cast<uint64_t>(part));
  }
  for (const Operand& operand : instruction.sources) hash = mix(hash, operand_shape(operand));
  for (const Operand& operand : instruction.destinations) hash = mix(hash, operand_shape(operand) + 1);
  prepared.shape = hash;
  prepared.instruction = std::move(instruction);
  prepared.origin = std::move(origin);
  return prepared;
}

Access at_counters(Access access, const std::vector<int64_t>& counters) {
  int64_t shift = 0;
  for (size_t d = 0; d < std::min(access.loop_strides.size(), counters.size()); ++d) {
    shift += access.loop_strides[d] * counters[d];
  }
  for (int64_t& begin : access.begin) begin += shift;
  access.loop_strides.clear();
  return access;
}

std::vector<Access> at_counters(const Prepared& prepared, const std::vector<int64_t>& counters) {
  std::vector<Access> result;
  result.reserve(prepared.accesses.size());
  for (const Access& access : prepared.accesses) result.push_back(at_counters(access, counters));
  return result;
}

/// The memories of the chip with, instead of data, hashes of how each unit came about. Two orders of the same
/// instructions give equal hashes exactly when every instruction sees the same inputs in both.
class SymbolicMemory {
 public:
  struct Content {
    uint64_t hash = 0;
    int64_t base = 0;  ///< the unit at address a is number a - base of what was written
    bool operator==(const Content&) const = default;
  };
  /// What a range holds, part by part; addresses and bases are relative to its begin.
  struct Part {
    int64_t begin = 0;
    int64_t end = 0;
    Content content;
  };
  using Image = std::vector<Part>;

  uint64_t read(const Access& access) const {
    uint64_t hash = 1;
    if (access.whole) {
      for (const auto& [key, map] : spaces_) {
        if (!same_resource(key, access)) continue;
        for (const auto& [interval, content] : map) hash = mix(hash, summary(interval, content, 0));
      }
      return hash;
    }
    for_each_range(
        access, [&](int64_t begin, int64_t end) { hash = mix(hash, contents(access, begin, end, false)); });
    return hash;
  }

  void write(const Access& access, uint64_t value) {
    const std::pair<HazardResource, int32_t> own{access.resource, access.place};
    if (access.whole) {
      // Anything may have changed, nothing has surely been replaced.
      const uint64_t before = read(access);
      spaces_[own].set({Interval::right_open(-1, kEnd), Content{mix(before, value), 0}});
      return;
    }
    int64_t number = 0;
    for_each_range(access, [&](int64_t begin, int64_t end) {
      uint64_t content = mix(value, static_cast<uint64_t>(++number));
      // Part of the old data may stay. What is kept by place (one group's DRAM) and what is kept for all
      // places together do not replace each other, so their order goes into the contents.
      content = mix(content, contents(access, begin, end, !access.may_not_write));
      spaces_[own].set({Interval::right_open(begin, end), Content{content, begin}});
    });
  }

  /// For copies, which leave data as they are. What nobody has written is its address.
  Image image(HazardResource resource, int64_t begin, int64_t end) const {
    Image result;
    const uint64_t unwritten = mix(kUnwritten, static_cast<uint64_t>(resource));
    int64_t from = begin;
    const auto found = spaces_.find({resource, -1});
    if (found != spaces_.end()) {
      const auto window = Interval::right_open(begin, end);
      for (auto it = found->second.lower_bound(window); it != found->second.end() && it->first.lower() < end;
           ++it) {
        const auto part = it->first & window;
        if (from < part.lower()) result.push_back({from - begin, part.lower() - begin, {unwritten, -begin}});
        result.push_back(
            {part.lower() - begin, part.upper() - begin, {it->second.hash, it->second.base - begin}});
        from = part.upper();
      }
    }
    if (from < end) result.push_back({from - begin, end - begin, {unwritten, -begin}});
    return result;
  }
  void put(HazardResource resource, int64_t begin, const Image& image) {
    Map& map = spaces_[{resource, -1}];
    for (const Part& part : image) {
      map.set({Interval::right_open(begin + part.begin, begin + part.end),
               Content{part.content.hash, begin + part.content.base}});
    }
  }
  void forget(HazardResource resource, int64_t begin, int64_t end) {
    const auto found = spaces_.find({resource, -1});
    if (found == spaces_.end()) return;
    found->second.erase(Interval::right_open(begin, end));
    if (found->second.empty()) spaces_.erase(found);
  }
  /// Data have another form in another kind of memory: `key` there is `image` here.
  void remember(uint64_t key, Image image) { images_.insert_or_assign(key, std::move(image)); }
  const Image* remembered(uint64_t key) const {
    const auto found = images_.find(key);
    return found == images_.end() ? nullptr : &found->second;
  }
  static constexpr int64_t kEnd = int64_t{1} << 40;

  /// A place where both differ, or nothing.
  std::optional<std::string> difference(const SymbolicMemory& other) const {
    for (const auto* side : {this, &other}) {
      for (const auto& [key, map] : side->spaces_) {
        // Forwarding registers that nobody reads any more may end with any result.
        if (key.first >= HazardResource::kAluForward) continue;
        const auto mine = spaces_.find(key);
        const auto theirs = other.spaces_.find(key);
        if (mine != spaces_.end() && theirs != other.spaces_.end() && mine->second == theirs->second)
          continue;
        if (mine == spaces_.end() || theirs == other.spaces_.end()) {
          return fmt::format("resource {}", static_cast<int>(key.first));
        }
        auto a = mine->second.begin();
        auto b = theirs->second.begin();
        while (a != mine->second.end() && b != theirs->second.end() && *a == *b) {
          ++a;
          ++b;
        }
        const int64_t at = a == mine->second.end()     ? b->first.lower()
                           : b == theirs->second.end() ? a->first.lower()
                                                       : std::min(a->first.lower(), b->first.lower());
        return fmt::format("{} address {}", resource_text(key.first), at);
      }
    }
    return std::nullopt;
  }

  static std::string resource_text(HazardResource resource) {
    constexpr std::array<std::string_view, 20> kNames = {
        "LM0",      "LM1",        "GRF0",       "GRF1",  "T",          "mask register", "matrix x",
        "matrix y", "BAR of LM0", "BAR of LM1", "L1BM",  "turnaround", "L2BM",          "DAR",
        "DRAM",     "PDM",        "$aluf",      "$mauf", "$lbf",       "$mreadf"};
    return std::string(kNames.at(static_cast<size_t>(resource)));
  }

 private:
  using Map = boost::icl::interval_map<int64_t, Content, boost::icl::partial_enricher>;
  using Interval = boost::icl::discrete_interval<int64_t>;
  static constexpr uint64_t kUnwritten = 3;

  static bool same_resource(const std::pair<HazardResource, int32_t>& key, const Access& access) {
    return key.first == access.resource && (key.second < 0 || access.place < 0 || key.second == access.place);
  }

  template <typename RangeOf>
  static uint64_t summary(const RangeOf& interval, const Content& content, int64_t origin) {
    const int64_t low = boost::icl::first(interval);
    uint64_t hash = mix(content.hash, static_cast<uint64_t>(low - content.base));
    hash = mix(hash, static_cast<uint64_t>(boost::icl::last(interval) - low));
    return mix(hash, static_cast<uint64_t>(low - origin));
  }

  /// Hash of what a range holds; with `foreign` only of what is kept under another place than the access'.
  /// What nobody has written yet is something else at every address.
  uint64_t contents(const Access& access, int64_t begin, int64_t end, bool foreign) const {
    uint64_t hash = 2;
    const auto window = Interval::right_open(begin, end);
    boost::icl::interval_set<int64_t> written;
    for (auto entry = spaces_.lower_bound({access.resource, -1});
         entry != spaces_.end() && entry->first.first == access.resource; ++entry) {
      const auto& [key, map] = *entry;
      if (!same_resource(key, access) || (foreign && key.second == access.place)) continue;
      for (auto it = map.lower_bound(window); it != map.end() && it->first.lower() < end; ++it) {
        const auto part = it->first & window;
        hash = mix(hash, summary(part, it->second, begin));
        if (!foreign) written.add(part);
      }
    }
    if (foreign) return hash;
    int64_t from = begin;
    const auto unwritten_to = [&](int64_t to) {
      if (from < to) hash = mix(mix(hash, static_cast<uint64_t>(from)), static_cast<uint64_t>(to));
    };
    for (const auto& part : written) {
      unwritten_to(part.lower());
      from = part.upper();
    }
    unwritten_to(end);
    return hash;
  }

  template <typename Visit>
  static void for_each_range(const Access& access, Visit&& visit) {
    for (int cycle = 0; cycle < access.cycles; ++cycle) {
      if (access.cycles > 1 && (access.active_cycles >> cycle & 1) == 0) continue;
      visit(access.begin[cycle], access.begin[cycle] + access.length);
    }
  }

  std::map<std::pair<HazardResource, int32_t>, Map> spaces_;
  std::unordered_map<uint64_t, Image> images_;
};

/// Transfers that may still be running.
class InFlight {
 public:
  void check(const std::vector<Access>& accesses, const Prepared& prepared, bool of_schedule) const {
    for (const Transfer& transfer : transfers_) {
      for (const Access& a : transfer.accesses) {
        for (const Access& b : accesses) {
          if (!meet(a, b)) continue;
          fail(kScheduleVerifier,
               fmt::format(
                   "in the {}, '{}' touches {} of transfer '{}' (tag {:#x}) before a wait for its tag",
                   of_schedule ? "schedule" : "machine program",
                   describe(prepared.instruction, prepared.origin), SymbolicMemory::resource_text(a.resource),
                   describe(transfer.prepared->instruction, transfer.prepared->origin),
                   transfer.prepared->instruction.tag));
        }
      }
    }
  }
  void start(const Prepared& prepared, std::vector<Access> accesses) {
    // The same transfer again, from the next iteration: one record is enough.
    if (transfers_.size() > kLimit) transfers_.pop_front();
    transfers_.push_back({&prepared, std::move(accesses)});
  }
  void wait(int tag) {
    std::erase_if(transfers_, [&](const Transfer& t) { return t.prepared->instruction.tag == tag; });
  }

 private:
  static constexpr size_t kLimit = 256;
  struct Transfer {
    const Prepared* prepared;
    std::vector<Access> accesses;
  };
  static bool meet(const Access& a, const Access& b) {
    if (a.resource != b.resource || (!a.write && !b.write)) return false;
    if (a.place >= 0 && b.place >= 0 && a.place != b.place) return false;
    return a.whole || b.whole || (a.begin[0] < b.begin[0] + b.length && b.begin[0] < a.begin[0] + a.length);
  }
  std::deque<Transfer> transfers_;
};

/// Executes one step: all reads, then all writes.
void execute(SymbolicMemory& memory,
             const std::vector<std::pair<const Prepared*, std::vector<Access>>>& step) {
  std::vector<uint64_t> results;
  for (const auto& [prepared, accesses] : step) {
    uint64_t hash = prepared->shape;
    for (const Access& access : accesses) {
      if (!access.write) hash = mix(hash, memory.read(access));
    }
    results.push_back(hash);
  }
  for (size_t k = 0; k < step.size(); ++k) {
    uint64_t number = 0;
    for (const Access& access : step[k].second) {
      if (access.write) memory.write(access, mix(results[k], ++number));
    }
  }
}

/// Executes operations that only copy as copies of data, not as operations whose results are new: unmasked
/// `lpassa` of long words, and `l1bmd`. Data in L1BM and in $aluf have another form, from which they come
/// back as they were.
class CopyExecution {
 public:
  explicit CopyExecution(SymbolicMemory& memory) : memory_(memory) {}

  /// False, and nothing done, when it is no copy.
  bool execute(const Prepared& prepared, const std::vector<Access>& accesses) {
    const Instruction& instruction = prepared.instruction;
    const bool is_passa =
        instruction.opcode == isa::Opcode::kPassa && instruction.precision == isa::Precision::kLong;
    const bool is_transfer = instruction.opcode == isa::Opcode::kL1bmd && instruction.rotation == 0;
    if ((!is_passa && !is_transfer) || instruction.sources.size() != 1 ||
        instruction.destinations.size() != 1 || instruction.zero_flush.kind != isa::Mask::Kind::kNone)
      return false;
    const Operand& from = instruction.sources[0];
    const Operand& to = instruction.destinations[0];
    const Access* const source = access_of(accesses, from, false);
    const Access* const target = access_of(accesses, to, true);
    if (!is_plain(from) || !is_plain(to) || source == nullptr) return false;
    const uint64_t data = mix(kCopied, memory_.read(*source));
    const bool is_wide = from.width == isa::Width::kDoubleLong;
    if (is_passa && is_pe_memory(from) && is_pe_memory(to)) {
      if (from.width != to.width || from.width == isa::Width::kWord) return false;
      std::array<SymbolicMemory::Image, isa::kCyclesPerStep> images;
      for (size_t c = 0; c < images.size(); ++c)
        images[c] = memory_.image(source->resource, source->begin[c], source->begin[c] + source->length);
      for (size_t c = 0; c < images.size(); ++c) memory_.put(target->resource, target->begin[c], images[c]);
      set_register(accesses, data);
    } else if (is_passa && from.space == Space::kAluf && is_pe_memory(to)) {
      if (!is_wide || to.width != from.width) return false;
      const SymbolicMemory::Image saved = memory_.image(source->resource, 0, 1);
      for (size_t c = 0; c < isa::kCyclesPerStep; ++c)
        memory_.put(target->resource, target->begin[c], whole(target->length, mix(data, c)));
      memory_.remember(mix(kCopied, memory_.read(*target)), saved);
    } else if (is_passa && is_pe_memory(from) && to.space == Space::kNoWrite) {
      const SymbolicMemory::Image* const saved = is_wide ? memory_.remembered(data) : nullptr;
      if (saved != nullptr) {
        memory_.put(HazardResource::kAluForward, 0, SymbolicMemory::Image(*saved));
      } else {
        set_register(accesses, data);
      }
    } else if (is_transfer && is_pe_memory(from) && to.space == Space::kL1bm) {
      if (from.width != isa::Width::kLong) return false;
      const int64_t row = target->length / isa::kCyclesPerStep;
      for (int64_t c = 0; c < isa::kCyclesPerStep; ++c) {
        const int64_t begin = source->begin[static_cast<size_t>(c)];
        put_row(memory_, target->begin[0] + c * row, row,
                memory_.image(source->resource, begin, begin + source->length));
      }
      set_register(accesses, data);
    } else if (is_transfer && from.space == Space::kL1bm && is_pe_memory(to)) {
      if (to.width != isa::Width::kLong) return false;
      const int64_t row = source->length / isa::kCyclesPerStep;
      for (int64_t c = 0; c < isa::kCyclesPerStep; ++c) {
        const int64_t begin = source->begin[0] + c * row;
        const SymbolicMemory::Image image = memory_.image(HazardResource::kL1bm, begin, begin + row);
        const bool is_row = image.size() == 1 && image[0].content.base == 0;
        const SymbolicMemory::Image* const known =
            is_row ? memory_.remembered(image[0].content.hash) : nullptr;
        memory_.put(target->resource, target->begin[static_cast<size_t>(c)],
                    known != nullptr ? SymbolicMemory::Image(*known) : whole(target->length, hash_of(image)));
      }
      set_register(accesses, data);
    } else {
      return false;
    }
    return true;
  }

  /// The form that an LW of a PE memory has in `row` LWs of L1BM, one for each PE.
  static void put_row(SymbolicMemory& memory, int64_t begin, int64_t row,
                      const SymbolicMemory::Image& image) {
    const uint64_t key = mix(kRow, hash_of(image));
    memory.remember(key, image);
    memory.put(HazardResource::kL1bm, begin, whole(row, key));
  }
  static SymbolicMemory::Image whole(int64_t length, uint64_t hash) { return {{0, length, {hash, 0}}}; }

 private:
  static constexpr uint64_t kCopied = 5;
  static constexpr uint64_t kRow = 7;

  static bool is_pe_memory(const Operand& operand) { return isa::is_pe_memory(operand.space); }
  static bool is_plain(const Operand& operand) {
    return !operand.negate && !operand.extend && !operand.reduce && !operand.t_indirect && operand.j < 0 &&
           operand.mask.kind == isa::Mask::Kind::kNone;
  }
  static const Access* access_of(const std::vector<Access>& accesses, const Operand& operand, bool write) {
    const auto resource = isa::hazard_resource(operand.space);
    const auto found = std::ranges::find_if(
        accesses, [&](const Access& access) { return access.write == write && access.resource == resource; });
    return found == accesses.end() || found->whole ? nullptr : &*found;
  }
  static uint64_t hash_of(const SymbolicMemory::Image& image) {
    uint64_t hash = kRow;
    for (const SymbolicMemory::Part& part : image) {
      for (const int64_t word : {part.begin, part.end, part.content.base})
        hash = mix(hash, static_cast<uint64_t>(word));
      hash = mix(hash, part.content.hash);
    }
    return hash;
  }
  /// The register that the result passes through: forwarding, or turnaround.
  void set_register(const std::vector<Access>& accesses, uint64_t data) {
    for (const Access& access : accesses) {
      if (access.write &&
          (isa::is_forwarding_register(access.resource) || access.resource == HazardResource::kTurnaround))
        memory_.put(access.resource, 0, whole(1, data));
    }
  }

  SymbolicMemory& memory_;
};

/// Whether there is anything that runs more than once.
bool has_loop(const std::vector<isa::Statement>& statements) {
  return std::ranges::any_of(statements, [](const isa::Statement& statement) {
    return std::holds_alternative<isa::Loop>(statement.kind);
  });
}
bool has_operations(const std::vector<Node>& nodes) {
  return std::ranges::any_of(nodes, [](const Node& node) {
    if (const auto* block = std::get_if<Block>(&node.kind)) return !block->operations.empty();
    if (const auto* region = std::get_if<RegionNode>(&node.kind)) return has_operations(region->body);
    const auto& loop = std::get<CountedLoop>(node.kind);
    return loop.count > 0 && has_operations(loop.body);
  });
}
bool has_loop(const std::vector<Node>& nodes) {
  return std::ranges::any_of(nodes, [](const Node& node) {
    if (const auto* region = std::get_if<RegionNode>(&node.kind)) return has_loop(region->body);
    const auto* loop = std::get_if<CountedLoop>(&node.kind);
    if (loop == nullptr || loop->count <= 0) return false;
    return (loop->count > 1 && has_operations(loop->body)) || has_loop(loop->body);
  });
}

/// The machine program in its own order.
class SequentialRun {
 public:
  /// `follow_copies`: what only copies is no operation, it leaves the data that were there before.
  SequentialRun(const MachineProgram& program, const isa::Chip& chip, bool follow_copies = false)
      : program_(program), chip_(chip), follow_copies_(follow_copies) {}

  SymbolicMemory run(Sample sample, SymbolicMemory initial = {}) {
    memory_ = std::move(initial);
    in_flight_ = {};
    sample_ = sample;
    run_nodes(program_.body);
    return std::move(memory_);
  }

 private:
  void run_nodes(const std::vector<Node>& nodes) {
    for (const Node& node : nodes) {
      if (const auto* block = std::get_if<Block>(&node.kind)) {
        for (const Operation& operation : block->operations) step(operation);
      } else if (const auto* region = std::get_if<RegionNode>(&node.kind)) {
        run_nodes(region->body);
      } else {
        const auto& loop = std::get<CountedLoop>(node.kind);
        counters_.push_back(0);
        for (const int64_t i : sampled_iterations(loop.count, sample_, !has_loop(loop.body))) {
          counters_.back() = i;
          run_nodes(loop.body);
        }
        counters_.pop_back();
      }
    }
  }

  const Prepared& prepared(const Operation& operation) {
    const auto found = prepared_.find(&operation);
    if (found != prepared_.end()) return found->second;
    Instruction real = operation.instruction;
    const auto place = [&](Operand& operand) {
      if (operand.space != Space::kVirtual) return;
      const Value& value = program_.values.at(operand.value);
      operand.space = value.home;
      operand.value = -1;
      if (value.home != Space::kT) operand.base += value.address;
    };
    std::for_each(real.sources.begin(), real.sources.end(), place);
    std::for_each(real.destinations.begin(), real.destinations.end(), place);
    Prepared result = prepare(std::move(real), operation.origin, chip_);
    for (Access& access : result.accesses) {
      if (access.value < 0) continue;  // all but masks that are values
      const Value& mask = program_.values.at(access.value);
      access.resource = *isa::hazard_resource(mask.home);
      access.begin[0] += mask.address;
      access.value = -1;
    }
    return prepared_.emplace(&operation, std::move(result)).first->second;
  }

  void step(const Operation& operation) {
    const Prepared& p = prepared(operation);
    const std::vector<Access> accesses = at_counters(p, counters_);
    const isa::IssueGroup group = isa::issue_group(p.instruction);
    if (group == isa::IssueGroup::kWait) {
      in_flight_.wait(p.instruction.tag);
      return;
    }
    in_flight_.check(accesses, p, false);
    if (!follow_copies_ || !CopyExecution(memory_).execute(p, accesses)) execute(memory_, {{&p, accesses}});
    if (group == isa::IssueGroup::kMv) in_flight_.start(p, accesses);
  }

  const MachineProgram& program_;
  const isa::Chip& chip_;
  bool follow_copies_;
  Sample sample_ = Sample::kFirst;
  std::unordered_map<const Operation*, Prepared> prepared_;
  std::vector<int64_t> counters_;
  SymbolicMemory memory_;
  InFlight in_flight_;
};

/// The schedule, with distances and issue rules checked on the way.
class ScheduledRun {
 public:
  ScheduledRun(const isa::Program& program, const isa::Chip& chip)
      : program_(program), chip_(chip), window_(isa::longest_gap(chip) + 1) {}

  SymbolicMemory run(Sample sample) {
    memory_ = {};
    in_flight_ = {};
    recent_.clear();
    time_ = 0;
    sample_ = sample;
    run_statements(program_.statements);
    return std::move(memory_);
  }

 private:
  struct Recent {
    int64_t time = 0;
    bool is_mv = false;
    const Prepared* prepared = nullptr;
    std::vector<Access> accesses;
  };

  void run_statements(const std::vector<isa::Statement>& statements) {
    for (const isa::Statement& statement : statements) {
      if (const auto* loop = std::get_if<isa::Loop>(&statement.kind)) {
        const bool whole = !has_loop(loop->body) && loop->count <= kMostPipelinedIterations;
        const bool cut = !whole && loop->count > kIterations;
        counters_.push_back(0);
        // Between code and iterations that do not follow each other really, distances mean nothing.
        if (cut && sample_ == Sample::kLast) recent_.clear();
        for (const int64_t i : sampled_iterations(loop->count, sample_, whole)) {
          counters_.back() = i;
          run_statements(loop->body);
        }
        if (cut && sample_ == Sample::kFirst) recent_.clear();
        counters_.pop_back();
      } else if (const auto* nop = std::get_if<isa::Nop>(&statement.kind)) {
        if (nop->wait_tag > 0) in_flight_.wait(nop->wait_tag);
        time_ += nop->count;
      } else if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
        run_step(*step);
      } else if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) {
        const Prepared& p = prepared(mv->instruction);
        std::vector<Access> accesses = at_counters(p, counters_);
        in_flight_.check(accesses, p, true);
        check_distances(accesses, p);
        execute(memory_, {{&p, accesses}});
        in_flight_.start(p, accesses);
        recent_.push_back({time_, true, &p, std::move(accesses)});
      } else if (!std::holds_alternative<isa::RegionMark>(statement.kind)) {
        fail(kScheduleVerifier, "a schedule consists of steps, nops, MVs, loops and region marks only");
      }
    }
  }

  const Prepared& prepared(const Instruction& instruction) {
    const auto found = prepared_.find(&instruction);
    if (found != prepared_.end()) return found->second;
    return prepared_.emplace(&instruction, prepare(instruction, "", chip_)).first->second;
  }

  void run_step(const isa::Step& step) {
    std::vector<std::pair<const Prepared*, std::vector<Access>>> issued;
    for (const Instruction& instruction : step.instructions) {
      if (isa::issue_group(instruction) == isa::IssueGroup::kWait) {
        // What stands beside the wait is taken to issue before the transfer is known to be complete.
        continue;
      }
      const Prepared& p = prepared(instruction);
      issued.emplace_back(&p, at_counters(p, counters_));
    }
    check_issue_rules(step);
    for (const auto& [p, accesses] : issued) {
      in_flight_.check(accesses, *p, true);
      check_distances(accesses, *p);
    }
    execute(memory_, issued);
    for (auto& [p, accesses] : issued) recent_.push_back({time_, false, p, std::move(accesses)});
    for (const Instruction& instruction : step.instructions) {
      if (isa::issue_group(instruction) == isa::IssueGroup::kWait) in_flight_.wait(instruction.tag);
    }
    ++time_;
    while (!recent_.empty() && recent_.front().time < time_ - window_) recent_.pop_front();
  }

  void check_issue_rules(const isa::Step& step) {
    int& visits = visits_[&step];
    if (visits++ >= kIssueRuleVisits) return;
    std::vector<Instruction> concrete = step.instructions;
    for (Instruction& instruction : concrete) {
      const auto fix = [&](Operand& operand) {
        operand.base = isa::resolved_base(operand, counters_);
        operand.loop_strides.clear();
      };
      std::for_each(instruction.sources.begin(), instruction.sources.end(), fix);
      std::for_each(instruction.destinations.begin(), instruction.destinations.end(), fix);
    }
    const std::string conflict = isa::issue_conflict(concrete, chip_);
    if (!conflict.empty()) fail(kScheduleVerifier, fmt::format("step {}: {}", time_, conflict));
  }

  void check_distances(const std::vector<Access>& accesses, const Prepared& p) const {
    for (const Recent& first : recent_) {
      const int64_t between = time_ - first.time - (first.is_mv ? 0 : 1);
      for (const Access& a : first.accesses) {
        for (const Access& b : accesses) {
          if (a.resource != b.resource) continue;
          const int64_t gap = isa::required_gap(a, b, chip_);
          if (gap > between) {
            fail(kScheduleVerifier, fmt::format("{} after '{}' needs {} other steps before '{}', found {}",
                                                SymbolicMemory::resource_text(a.resource),
                                                describe(first.prepared->instruction, first.prepared->origin),
                                                gap, describe(p.instruction, p.origin), between));
          }
        }
      }
    }
  }

  /// First iterations of two nested loops.
  static constexpr int kIssueRuleVisits = 4;
  const isa::Program& program_;
  const isa::Chip& chip_;
  int64_t window_;
  Sample sample_ = Sample::kFirst;
  std::unordered_map<const Instruction*, Prepared> prepared_;
  std::unordered_map<const isa::Step*, int> visits_;
  std::vector<int64_t> counters_;
  std::deque<Recent> recent_;
  int64_t time_ = 0;
  SymbolicMemory memory_;
  InFlight in_flight_;
};

}  // namespace

void verify_schedule(const MachineProgram& program, const isa::Program& schedule, const isa::Chip& chip) {
  SequentialRun sequential(program, chip);
  ScheduledRun scheduled(schedule, chip);
  for (const Sample sample : {Sample::kFirst, Sample::kLast}) {
    const SymbolicMemory expected = sequential.run(sample);
    const SymbolicMemory found = scheduled.run(sample);
    if (const auto place = expected.difference(found)) {
      fail(kScheduleVerifier,
           fmt::format("program '{}': {} ends with data of other origin than in sequential order",
                       program.name, *place));
    }
  }
}

namespace {

/// Values that are touched in one loop without loops inside and nowhere else: nobody sees them afterwards.
class HiddenValues {
 public:
  explicit HiddenValues(const MachineProgram& program) : loop_of_(program.values.size(), kNowhere) {
    visit(program.body, kOutside);
  }
  bool is_hidden(size_t value) const { return loop_of_[value] >= 0; }

 private:
  static constexpr int kNowhere = -1;
  static constexpr int kOutside = -2;
  static constexpr int kSeveral = -3;

  void visit(const std::vector<Node>& nodes, int loop) {
    for (const Node& node : nodes) {
      if (const auto* region = std::get_if<RegionNode>(&node.kind)) visit(region->body, loop);
      if (const auto* counted = std::get_if<CountedLoop>(&node.kind))
        visit(counted->body, has_loop(counted->body) ? kOutside : next_loop_++);
      const auto* block = std::get_if<Block>(&node.kind);
      if (block == nullptr) continue;
      for (const Operation& operation : block->operations) {
        for_each_named_value(operation.instruction, [&](const Operand& operand, bool) {
          int& known = loop_of_.at(static_cast<size_t>(operand.value));
          known = known == kNowhere || known == loop ? loop : kSeveral;
        });
      }
    }
  }

  std::vector<int> loop_of_;
  int next_loop_ = 0;
};

}  // namespace

Operand zero_of_wipe() {
  Operand zero;
  zero.space = Space::kConstant;
  zero.width = isa::Width::kLong;
  return zero;
}

void verify_expansion(const MachineProgram& before, const MachineProgram& after, const isa::Chip& chip) {
  if (after.values.size() < before.values.size()) fail("verify_expansion", "values are missing");
  const HiddenValues hidden(before);
  // Every value at a place of its own, and what is hidden wiped at the end.
  const auto prepared = [&](MachineProgram program) {
    program.values = after.values;
    int64_t address = 0;
    Block wipe;
    for (size_t v = 0; v < program.values.size(); ++v) {
      Value& value = program.values[v];
      // T finds its words in LM0.
      value.home = value.homes == isa::space_bit(Space::kLm0) ? Space::kLm0 : Space::kGrf1;
      value.address = address;
      if (v >= before.values.size() || hidden.is_hidden(v)) {
        for (int64_t word = 0; word < value.size_words; word += 2) {
          Operand target;
          target.space = Space::kVirtual;
          target.value = static_cast<int32_t>(v);
          target.base = word;
          target.width = isa::Width::kLong;
          Operation wiping;
          wiping.instruction.opcode = isa::Opcode::kImm;
          wiping.instruction.destinations = {target};
          wipe.operations.push_back(std::move(wiping));
        }
      }
      address += (value.size_words + 3) / 4 * 4;
    }
    // Nor does anybody see the matrix registers.
    for (const Space matrix : {Space::kMatX, Space::kMatY}) {
      for (int64_t row = 0; row < isa::kMatrixRows; row += isa::kCyclesPerStep) {
        Operand target;
        target.space = matrix;
        target.base = row;
        target.width = isa::Width::kLong;
        Operation wiping;
        wiping.instruction.opcode = isa::Opcode::kMwrite;
        wiping.instruction.precision = isa::Precision::kGFloat;
        wiping.instruction.sources = {zero_of_wipe()};
        wiping.instruction.destinations = {target};
        wipe.operations.push_back(std::move(wiping));
      }
    }
    program.body.push_back({std::move(wipe)});
    return program;
  };
  const MachineProgram left = prepared(before);
  const MachineProgram right = prepared(after);
  for (const Sample sample : {Sample::kFirst, Sample::kLast}) {
    const SymbolicMemory expected = SequentialRun(left, chip).run(sample);
    if (const auto place = expected.difference(SequentialRun(right, chip).run(sample)))
      fail("verify_expansion",
           fmt::format("program '{}': {} ends with data of other origin", before.name, *place));
  }
}

// ---- copies
// ------------------------------------------------------------------------------------------------

namespace {

/// Words of L1BM that a program touches, over all iterations.
boost::icl::interval_set<int64_t> touched_l1bm(const MachineProgram& program, const isa::Chip& chip) {
  using Interval = boost::icl::discrete_interval<int64_t>;
  boost::icl::interval_set<int64_t> touched;
  std::vector<int64_t> counts;
  for_each_operation(program.body, counts,
                     [&](const Operation& operation, const std::vector<int64_t>& trips) {
                       for (const Access& access : isa::accesses(operation.instruction, chip)) {
                         if (access.resource != HazardResource::kL1bm) continue;
                         int64_t low = access.begin[0];
                         int64_t high = low + access.length;
                         for (size_t d = 0; d < std::min(trips.size(), access.loop_strides.size()); ++d) {
                           const int64_t reach = access.loop_strides[d] * std::max<int64_t>(trips[d] - 1, 0);
                           (reach < 0 ? low : high) += reach;
                         }
                         const bool is_inside = !access.whole && low >= 0 && high <= chip.memory.l1bm_lw;
                         touched.add(is_inside ? Interval::right_open(low, high)
                                               : Interval::right_open(0, chip.memory.l1bm_lw));
                       }
                     });
  return touched;
}

}  // namespace

void verify_copies(const MachineProgram& before, const MachineProgram& after, const isa::Chip& chip) {
  constexpr std::string_view kVerifier = "verify_copies";
  if (after.values.size() < before.values.size()) fail(kVerifier, "values are missing");
  // Every value at a place of its own, beyond what operations name directly; T finds its words in LM0.
  constexpr int64_t kValues = int64_t{1} << 24;
  std::vector<bool> is_indirect(after.values.size(), false);
  for (const MachineProgram* program : {&before, &after}) {
    std::vector<int64_t> counts;
    for_each_operation(program->body, counts, [&](const Operation& operation, const std::vector<int64_t>&) {
      for (const auto* operands : {&operation.instruction.sources, &operation.instruction.destinations}) {
        for (const Operand& operand : *operands) {
          if (operand.space == Space::kVirtual && operand.t_indirect)
            is_indirect.at(static_cast<size_t>(operand.value)) = true;
        }
      }
    });
  }
  MachineProgram left = before;
  MachineProgram right = after;
  SymbolicMemory initial;
  // What nobody has written is the same everywhere, so that copies of it do no harm.
  const SymbolicMemory::Image fresh = CopyExecution::whole(isa::kWordsPerLong, mix(0, 0));
  int64_t address = kValues;
  for (size_t v = 0; v < after.values.size(); ++v) {
    if (v < before.values.size() && before.values[v].size_words != after.values[v].size_words)
      fail(kVerifier, fmt::format("value %{} has another size", before.values[v].name));
    for (MachineProgram* program : {&left, &right}) {
      if (v >= program->values.size()) continue;
      program->values[v].home = is_indirect[v] ? Space::kLm0 : Space::kGrf1;
      program->values[v].address = address;
    }
    const int64_t end = address + (after.values[v].size_words + 3) / 4 * 4;
    for (; address < end; address += isa::kWordsPerLong)
      initial.put(is_indirect[v] ? HazardResource::kLm0 : HazardResource::kGrf1, address, fresh);
  }
  const boost::icl::interval_set<int64_t> touched = touched_l1bm(before, chip);
  boost::icl::interval_set<int64_t> untouched;
  untouched.add(boost::icl::discrete_interval<int64_t>::right_open(0, chip.memory.l1bm_lw));
  untouched -= touched;
  const int64_t row = chip.pe_per_l1b();
  for (int64_t begin = 0; begin + row <= chip.memory.l1bm_lw; begin += row) {
    if (boost::icl::contains(untouched,
                             boost::icl::discrete_interval<int64_t>::right_open(begin, begin + row)))
      CopyExecution::put_row(initial, begin, row, fresh);
  }
  const auto result = [&](const MachineProgram& program, Sample sample) {
    SymbolicMemory memory = SequentialRun(program, chip, true).run(sample, initial);
    memory.forget(HazardResource::kGrf1, kValues, SymbolicMemory::kEnd);
    memory.forget(HazardResource::kLm0, kValues, SymbolicMemory::kEnd);
    memory.forget(HazardResource::kTurnaround, 0, SymbolicMemory::kEnd);
    for (const auto& part : untouched) memory.forget(HazardResource::kL1bm, part.lower(), part.upper());
    return memory;
  };
  for (const Sample sample : {Sample::kFirst, Sample::kLast}) {
    if (const auto place = result(left, sample).difference(result(right, sample)))
      fail(kVerifier, fmt::format("program '{}': {} ends with data of other origin", before.name, *place));
  }
}

}  // namespace kodama::scheduler
