#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "isa/chip.h"
#include "isa/costs.h"
#include "isa/program.h"
#include "scheduler/machine/machine_program.h"

/// For tests of this folder: a small chip, short ways to write machine programs, and an interpreter of them
/// and of their schedules.
namespace kodama::scheduler::test_programs {

using isa::Instruction;
using isa::Opcode;
using isa::Operand;
using isa::Space;
using isa::space_bit;
using isa::Width;

inline constexpr HomeSet kGrfs = space_bit(Space::kGrf0) | space_bit(Space::kGrf1);
inline constexpr HomeSet kLms = space_bit(Space::kLm0) | space_bit(Space::kLm1);
inline constexpr HomeSet kAnywhere = kGrfs | kLms;

/// mncore2 with few instances and small memories.
inline isa::Chip test_chip() {
  isa::Chip chip = isa::find_chip("mncore2");
  chip.name = "test";
  chip.groups = 1;
  chip.l2b_per_group = 2;
  chip.l1b_per_l2b = 2;
  chip.mab_per_l1b = 4;
  chip.memory = {.dram_lw = 1 << 20,
                 .pdm_lw = 1 << 16,
                 .dar_entries = 1024,
                 .l2bm_lw = 1 << 14,
                 .l1bm_lw = 1 << 12,
                 .lm_words = 4096,
                 .grf_words = 512,
                 .mask_entries = 16};
  return chip;
}

/// With L1BM addresses as the interpreter has them: 64 LW per cycle of l1bmd.
inline isa::Chip interpreted_chip() {
  isa::Chip chip = test_chip();
  chip.mab_per_l1b = 16;
  return chip;
}

inline Operand real(Space space, int64_t base = 0, int stride = 0, Width width = Width::kLong) {
  Operand operand;
  operand.space = space;
  operand.base = base;
  operand.stride = stride;
  operand.width = width;
  return operand;
}
inline Operand virt(int value, int64_t base = 0, int stride = 2, std::vector<int64_t> loops = {}) {
  Operand operand = real(Space::kVirtual, base, stride);
  operand.value = value;
  operand.loop_strides = std::move(loops);
  return operand;
}
inline Operation op(Opcode opcode, isa::Precision precision, std::vector<Operand> sources,
                    std::vector<Operand> destinations) {
  Operation operation;
  operation.instruction.opcode = opcode;
  operation.instruction.precision = precision;
  operation.instruction.sources = std::move(sources);
  operation.instruction.destinations = std::move(destinations);
  return operation;
}
inline Operation add(Operand x, Operand y, Operand to) {
  return op(Opcode::kAdd, isa::Precision::kLong, {x, y}, {to});
}
inline Operation copy(Operand x, Operand to) {
  return op(Opcode::kPassa, isa::Precision::kLong, {x}, {to});
}
inline Operation imm(int64_t payload, Operand to) {
  return op(Opcode::kImm, isa::Precision::kNone, {real(Space::kImmediate, payload)}, {to});
}
inline Operation fma(Operand x, Operand y, Operand z, Operand to) {
  return op(Opcode::kVfma, isa::Precision::kFloat, {x, y, z}, {to});
}
inline Operation load(int64_t l1bm, Operand to, std::vector<int64_t> loops = {}) {
  Operand from = real(Space::kL1bm, l1bm);
  from.loop_strides = std::move(loops);
  return op(Opcode::kL1bmd, isa::Precision::kNone, {from}, {to});
}
inline Operation store(Operand from, int64_t l1bm, std::vector<int64_t> loops = {}) {
  Operand to = real(Space::kL1bm, l1bm);
  to.loop_strides = std::move(loops);
  return op(Opcode::kL1bmd, isa::Precision::kNone, {from}, {to});
}
inline Operation mv(Operand from, Operand to, int64_t size, int tag) {
  Operation operation = op(Opcode::kMvp, isa::Precision::kNone, {from}, {to});
  operation.instruction.size_lw = size;
  operation.instruction.tag = static_cast<int8_t>(tag);
  return operation;
}
inline Operation wait(int tag) {
  Operation operation = op(Opcode::kWait, isa::Precision::kNone, {}, {});
  operation.instruction.tag = static_cast<int8_t>(tag);
  return operation;
}

inline Node block(std::vector<Operation> operations) {
  return {Block{std::move(operations)}};
}
inline Node loop(int64_t count, std::vector<Node> body) {
  return {CountedLoop{count, std::move(body)}};
}
inline Value value(std::string name, int64_t size, HomeSet homes) {
  Value v;
  v.name = std::move(name);
  v.size_words = size;
  v.homes = homes;
  return v;
}

/// Interpreter of one PE (and its L1BM as seen by it) for imm, passa, add and l1bmd: all operands of a step
/// are read before anything is written. L1BM holds one LW of this PE per cycle: cycle c of l1bmd at address a
/// is a + 64c.
class MiniMachine {
 public:
  void run_steps(const std::vector<const Instruction*>& step, const std::vector<int64_t>& counters) {
    struct Write {
      Space space;
      int64_t address;
      uint64_t data;
    };
    std::vector<Write> writes;
    for (const Instruction* instruction : step) {
      const bool is_wide = std::ranges::any_of(
          instruction->sources, [](const Operand& operand) { return operand.width == Width::kDoubleLong; });
      for (int c = 0; c < 4; ++c) {
        for (int half = 0; half < (is_wide ? 2 : 1); ++half) {
          const auto address = [&](const Operand& operand) {
            const int64_t base = isa::resolved_base(operand, counters);
            return operand.space == Space::kL1bm ? base + 64 * c : base + operand.stride * c + 2 * half;
          };
          const auto read = [&](const Operand& operand) -> uint64_t {
            if (operand.space == Space::kImmediate)
              return static_cast<uint64_t>(operand.base) << 32 | static_cast<uint64_t>(operand.base);
            if (operand.space == Space::kAluf) return forward_[c][half];
            return memory_[{operand.space, address(operand)}];
          };
          uint64_t result = read(instruction->sources[0]);
          if (instruction->opcode == Opcode::kAdd) result += read(instruction->sources[1]);
          if (isa::issue_group(*instruction) == isa::IssueGroup::kAlu) next_forward_[c][half] = result;
          for (const Operand& operand : instruction->destinations) {
            if (operand.space == Space::kNoWrite) continue;
            if (operand.mask.kind == isa::Mask::Kind::kPattern && (operand.mask.value & (8 >> c)) == 0)
              continue;
            writes.push_back({operand.space, address(operand), result});
          }
        }
      }
    }
    for (const Write& write : writes) {
      memory_[{write.space, write.address}] = write.data;
      if (write.space == Space::kL1bm) stored_.insert(write.address);
    }
    forward_ = next_forward_;
  }
  uint64_t l1bm(int64_t address) { return memory_[{Space::kL1bm, address}]; }
  void set_l1bm(int64_t address, uint64_t data) { memory_[{Space::kL1bm, address}] = data; }
  /// Words of L1BM that have been written.
  const std::set<int64_t>& stored() const { return stored_; }

 private:
  std::map<std::pair<Space, int64_t>, uint64_t> memory_;
  std::set<int64_t> stored_;
  std::array<std::array<uint64_t, 2>, 4> forward_{}, next_forward_{};
};

inline constexpr int64_t kL1bmWords = 4096;

inline MiniMachine initial_machine() {
  MiniMachine machine;
  for (int64_t a = 0; a < kL1bmWords; ++a) machine.set_l1bm(a, 0x9e3779b97f4a7c15ULL * (a + 1));
  return machine;
}

inline std::vector<uint64_t> l1bm_of(MiniMachine& machine) {
  std::vector<uint64_t> result;
  for (int64_t a = 0; a < kL1bmWords; ++a) result.push_back(machine.l1bm(a));
  return result;
}

/// The machine program in its own order, every value in a memory of its own.
inline MiniMachine machine_after(const MachineProgram& program) {
  MiniMachine machine = initial_machine();
  std::vector<int64_t> counters;
  const auto run = [&](auto&& self, const std::vector<Node>& nodes) -> void {
    for (const Node& node : nodes) {
      if (const auto* b = std::get_if<Block>(&node.kind)) {
        for (const Operation& operation : b->operations) {
          Instruction instruction = operation.instruction;
          const auto spread = [](Operand& operand) {
            if (operand.space == Space::kVirtual) operand.base += int64_t{operand.value} << 20;
          };
          std::for_each(instruction.sources.begin(), instruction.sources.end(), spread);
          std::for_each(instruction.destinations.begin(), instruction.destinations.end(), spread);
          machine.run_steps({&instruction}, counters);
        }
      } else if (const auto* region = std::get_if<RegionNode>(&node.kind)) {
        self(self, region->body);
      } else {
        const auto& l = std::get<CountedLoop>(node.kind);
        counters.push_back(0);
        for (int64_t i = 0; i < l.count; ++i) {
          counters.back() = i;
          self(self, l.body);
        }
        counters.pop_back();
      }
    }
  };
  run(run, program.body);
  return machine;
}
inline std::vector<uint64_t> run_virtual(const MachineProgram& program) {
  MiniMachine machine = machine_after(program);
  return l1bm_of(machine);
}

inline MiniMachine machine_after(const isa::Program& program) {
  MiniMachine machine = initial_machine();
  std::vector<int64_t> counters;
  isa::for_each_executed(program.statements, counters,
                         [&](const isa::Statement& statement, const std::vector<int64_t>& at) {
                           if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
                             std::vector<const Instruction*> list;
                             for (const Instruction& instruction : step->instructions)
                               list.push_back(&instruction);
                             machine.run_steps(list, at);
                           }
                           return true;
                         });
  return machine;
}
inline std::vector<uint64_t> run_schedule(const isa::Program& program) {
  MiniMachine machine = machine_after(program);
  return l1bm_of(machine);
}

/// Issue rules, and every pair of accesses within reach of the longest distance in the fully unrolled
/// schedule. Empty when all is well.
inline std::string unrolled_fault(const isa::Program& program, const isa::Chip& chip) {
  struct Past {
    int64_t time;
    std::vector<isa::Access> accesses;
  };
  std::string fault;
  std::deque<Past> past;
  int64_t time = 0;
  std::vector<int64_t> counters;
  isa::for_each_executed(program.statements, counters,
                         [&](const isa::Statement& statement, const std::vector<int64_t>& at) {
                           if (const auto* nop = std::get_if<isa::Nop>(&statement.kind)) time += nop->count;
                           const auto* step = std::get_if<isa::Step>(&statement.kind);
                           if (step == nullptr) return true;
                           std::vector<isa::Access> now;
                           std::vector<Instruction> concrete = step->instructions;
                           for (Instruction& instruction : concrete) {
                             for (auto* list : {&instruction.sources, &instruction.destinations}) {
                               for (Operand& operand : *list) {
                                 operand.base = isa::resolved_base(operand, at);
                                 operand.loop_strides.clear();
                               }
                             }
                             for (isa::Access& access : isa::accesses(instruction, chip))
                               now.push_back(access);
                           }
                           if (fault.empty()) fault = isa::issue_conflict(concrete, chip);
                           while (!past.empty() && past.front().time < time - 8) past.pop_front();
                           for (const Past& p : past) {
                             for (const isa::Access& a : p.accesses) {
                               for (const isa::Access& b : now) {
                                 if (isa::required_gap(a, b, chip) > time - p.time - 1)
                                   fault = "too close at step " + std::to_string(time);
                               }
                             }
                           }
                           past.push_back({time, now});
                           ++time;
                           return fault.empty();
                         });
  return fault;
}

inline const isa::Loop* first_loop(const isa::Program& program) {
  for (const isa::Statement& statement : program.statements) {
    if (const auto* found = std::get_if<isa::Loop>(&statement.kind)) return found;
  }
  return nullptr;
}

/// Blocks and loops of imm, lpassa, ladd and l1bmd on values of up to 32 words. All values are written before
/// and stored behind everything else.
class RandomProgram {
 public:
  /// `groups`: the largest value has so many groups of 8 words.
  explicit RandomProgram(uint32_t seed, int groups = 4) : random_(seed), most_groups_(groups) {}

  MachineProgram make() {
    program_.name = "random";
    const int values = pick(3, 14);
    for (int v = 0; v < values; ++v) {
      const HomeSet sets[] = {
          kAnywhere, kAnywhere, kGrfs, kLms, space_bit(Space::kLm0), space_bit(Space::kGrf1)};
      program_.values.push_back(value("v" + std::to_string(v), 8 * pick(1, most_groups_), sets[pick(0, 5)]));
    }
    // Reads of values nobody has written yet would show what the allocator put there before.
    std::vector<Operation> init;
    for (int v = 0; v < values; ++v) {
      for (int64_t at = 0; at < program_.values[v].size_words; at += 8)
        init.push_back(imm(17 * v + at, virt(v, at)));
    }
    program_.body.push_back(block(init));
    make_nodes(program_.body, pick(2, 4));
    std::vector<Operation> result;
    for (int v = 0; v < values; ++v) {
      for (int64_t at = 0; at < program_.values[v].size_words; at += 8)
        result.push_back(store(virt(v, at), 16 * pick(0, 200)));
    }
    program_.body.push_back(block(result));
    return program_;
  }

 private:
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  void make_nodes(std::vector<Node>& nodes, int count) {
    for (int k = 0; k < count; ++k) {
      const int kind = pick(0, 9);
      if (kind < 4 && counts_.size() < 3) {
        counts_.push_back(pick(0, 4) == 4 ? pick(5, 12) : pick(0, 4));
        CountedLoop inner{counts_.back(), {}};
        make_nodes(inner.body, pick(1, 2));
        counts_.pop_back();
        nodes.push_back({inner});
      } else if (kind == 4) {
        RegionNode region{"r", {}};
        make_nodes(region.body, 1);
        nodes.push_back({region});
      } else {
        Block b;
        const int size = pick(1, 14);
        for (int i = 0; i < size; ++i) b.operations.push_back(random_operation(i > 0));
        nodes.push_back({b});
      }
    }
  }

  Operand operand(bool written) {
    const int v = pick(0, static_cast<int>(program_.values.size()) - 1);
    const auto groups = static_cast<int>(program_.values[v].size_words / 8);
    Operand result = virt(v, 8 * pick(0, groups - 1), written || pick(0, 3) > 0 ? 2 : 0);
    // A stride in one loop, if the value is large enough for all its iterations.
    if (!counts_.empty() && pick(0, 1) == 0) {
      const auto depth = static_cast<size_t>(pick(0, static_cast<int>(counts_.size()) - 1));
      if (counts_[depth] <= groups) {
        result.loop_strides.assign(depth + 1, 0);
        result.loop_strides[depth] = 8;
        result.base = 0;
      }
    }
    if (written && pick(0, 5) == 0) {
      result.mask.kind = isa::Mask::Kind::kPattern;
      result.mask.value = static_cast<uint8_t>(pick(1, 15));
    }
    return result;
  }

  Operation random_operation(bool may_forward) {
    const auto loops = [&] {
      return counts_.empty() ? std::vector<int64_t>{} : std::vector<int64_t>(counts_.size(), 16 * pick(0, 2));
    };
    switch (pick(0, 7)) {
      case 0:
        return imm(pick(0, 1000), operand(true));
      case 1:
        return load(16 * pick(0, 100), operand(true), loops());
      case 2:
        return store(operand(false), 16 * pick(0, 100), loops());
      case 3:
        return copy(operand(false), operand(true));
      case 4: {
        Operation both = op(Opcode::kAdd, isa::Precision::kLong, {operand(false), operand(false)},
                            {operand(true), operand(true)});
        both.instruction.destinations[1].mask = both.instruction.destinations[0].mask;  // one mask per step
        return both;
      }
      case 5:
        if (may_forward) return add(real(Space::kAluf), operand(false), operand(true));
        [[fallthrough]];
      default:
        return add(operand(false), operand(false), operand(true));
    }
  }

  std::mt19937 random_;
  int most_groups_;
  MachineProgram program_;
  std::vector<int64_t> counts_;
};

/// A product of matrices as one would write it down: load the matrix, stream the vectors, accumulate.
inline MachineProgram plain_product(isa::Precision precision, int64_t blocks, int vectors) {
  const bool half = precision == isa::Precision::kHalf;
  const int64_t matrix_words = 16;  // of a block, per PE
  const Width matrix_width = half ? Width::kDoubleLong : Width::kLong;
  const Width sum_width = half ? Width::kDoubleLong : Width::kLong;
  const int64_t sum_words = half ? 16 : 8;
  MachineProgram program;
  program.name = "product";
  program.values = {value("matrices", matrix_words * (half ? 2 : 1) * blocks, space_bit(Space::kLm0)),
                    value("vectors", 8 * vectors * blocks, space_bit(Space::kLm1)),
                    value("sums", sum_words * vectors, space_bit(Space::kGrf0))};
  std::vector<Operation> body;
  for (int step = 0; step < 2; ++step) {
    const int64_t words = half ? 16 : 8;
    Operand rows = virt(0, words * step, half ? 4 : 2, {2 * words});
    rows.width = matrix_width;
    body.push_back(
        op(Opcode::kMwrite, precision, {rows}, {real(Space::kMatX, step * (half ? 8 : 4), 0, matrix_width)}));
  }
  for (int v = 0; v < vectors; ++v) {
    Operand sum = virt(2, sum_words * v, half ? 4 : 2);
    sum.width = sum_width;
    body.push_back(
        op(Opcode::kMfma, precision, {real(Space::kMatX), virt(1, 8 * v, 2, {8 * vectors}), sum}, {sum}));
  }
  program.body = {loop(blocks, {block(body)})};
  return program;
}

}  // namespace kodama::scheduler::test_programs
