#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "isa/chip.h"
#include "isa/costs.h"
#include "isa/program.h"
#include "scheduler/machine_program.h"

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
      for (int c = 0; c < 4; ++c) {
        const auto read = [&](const Operand& operand) -> uint64_t {
          switch (operand.space) {
            case Space::kImmediate:
              return static_cast<uint64_t>(operand.base) << 32 | static_cast<uint64_t>(operand.base);
            case Space::kAluf:
              return forward_[c];
            case Space::kL1bm:
              return memory_[{operand.space, isa::resolved_base(operand, counters) + 64 * c}];
            default:
              return memory_[{operand.space, isa::resolved_base(operand, counters) + operand.stride * c}];
          }
        };
        uint64_t result = read(instruction->sources[0]);
        if (instruction->opcode == Opcode::kAdd) result += read(instruction->sources[1]);
        if (isa::issue_group(*instruction) == isa::IssueGroup::kAlu) next_forward_[c] = result;
        for (const Operand& operand : instruction->destinations) {
          if (operand.space == Space::kNoWrite) continue;
          if (operand.mask.kind == isa::Mask::Kind::kPattern && (operand.mask.value & (8 >> c)) == 0)
            continue;
          const int64_t base = isa::resolved_base(operand, counters);
          writes.push_back({operand.space,
                            operand.space == Space::kL1bm ? base + 64 * c : base + operand.stride * c,
                            result});
        }
      }
    }
    for (const Write& write : writes) memory_[{write.space, write.address}] = write.data;
    forward_ = next_forward_;
  }
  uint64_t l1bm(int64_t address) { return memory_[{Space::kL1bm, address}]; }
  void set_l1bm(int64_t address, uint64_t data) { memory_[{Space::kL1bm, address}] = data; }

 private:
  std::map<std::pair<Space, int64_t>, uint64_t> memory_;
  std::array<uint64_t, 4> forward_{}, next_forward_{};
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
inline std::vector<uint64_t> run_virtual(const MachineProgram& program) {
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
  return l1bm_of(machine);
}

inline std::vector<uint64_t> run_schedule(const isa::Program& program) {
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
