#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <set>

#include "isa/costs.h"
#include "isa/error.h"
#include "scheduler/machine_program.h"
#include "scheduler/passes.h"
#include "scheduler/program_scheduling.h"

namespace kodama::scheduler {
namespace {

using isa::Instruction;
using isa::Opcode;
using isa::Operand;
using isa::Space;
using isa::space_bit;
using isa::Width;
using ::testing::HasSubstr;

constexpr HomeSet kGrfs = space_bit(Space::kGrf0) | space_bit(Space::kGrf1);
constexpr HomeSet kLms = space_bit(Space::kLm0) | space_bit(Space::kLm1);
constexpr HomeSet kAnywhere = kGrfs | kLms;

isa::Chip test_chip() {
  isa::Chip chip;
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
  chip.hazard.pe_write_complete_cycles = 6;
  chip.hazard.pe_to_l1bm_read = 2;
  chip.hazard.pe_to_l1bm_l2bm = 2;
  chip.hazard.l2bm_to_l1bm_pe = 1;
  chip.hazard.l2bm_to_l1bm_l2bm = 1;
  chip.hazard.l1bm_to_l2bm_read = 3;
  chip.hazard.l1bm_to_l2bm_mv = 1;
  return chip;
}

Operand real(Space space, int64_t base = 0, int stride = 0, Width width = Width::kLong) {
  Operand operand;
  operand.space = space;
  operand.base = base;
  operand.stride = stride;
  operand.width = width;
  return operand;
}
Operand virt(int value, int64_t base = 0, int stride = 2, std::vector<int64_t> loops = {}) {
  Operand operand = real(Space::kVirtual, base, stride);
  operand.value = value;
  operand.loop_strides = std::move(loops);
  return operand;
}
Operation op(Opcode opcode, isa::Precision precision, std::vector<Operand> sources,
             std::vector<Operand> destinations) {
  Operation operation;
  operation.instruction.opcode = opcode;
  operation.instruction.precision = precision;
  operation.instruction.sources = std::move(sources);
  operation.instruction.destinations = std::move(destinations);
  return operation;
}
Operation add(Operand x, Operand y, Operand to) {
  return op(Opcode::kAdd, isa::Precision::kLong, {x, y}, {to});
}
Operation copy(Operand x, Operand to) {
  return op(Opcode::kPassa, isa::Precision::kLong, {x}, {to});
}
Operation imm(int64_t payload, Operand to) {
  return op(Opcode::kImm, isa::Precision::kNone, {real(Space::kImmediate, payload)}, {to});
}
Operation fma(Operand x, Operand y, Operand z, Operand to) {
  return op(Opcode::kVfma, isa::Precision::kFloat, {x, y, z}, {to});
}
Operation load(int64_t l1bm, Operand to, std::vector<int64_t> loops = {}) {
  Operand from = real(Space::kL1bm, l1bm);
  from.loop_strides = std::move(loops);
  return op(Opcode::kL1bmd, isa::Precision::kNone, {from}, {to});
}
Operation store(Operand from, int64_t l1bm, std::vector<int64_t> loops = {}) {
  Operand to = real(Space::kL1bm, l1bm);
  to.loop_strides = std::move(loops);
  return op(Opcode::kL1bmd, isa::Precision::kNone, {from}, {to});
}
Operation mv(Operand from, Operand to, int64_t size, int tag) {
  Operation operation = op(Opcode::kMvp, isa::Precision::kNone, {from}, {to});
  operation.instruction.size_lw = size;
  operation.instruction.tag = static_cast<int8_t>(tag);
  return operation;
}
Operation wait(int tag) {
  Operation operation = op(Opcode::kWait, isa::Precision::kNone, {}, {});
  operation.instruction.tag = static_cast<int8_t>(tag);
  return operation;
}

Node block(std::vector<Operation> operations) {
  return {Block{std::move(operations)}};
}
Node loop(int64_t count, std::vector<Node> body) {
  return {CountedLoop{count, std::move(body)}};
}
Value value(std::string name, int64_t size, HomeSet homes) {
  Value v;
  v.name = std::move(name);
  v.size_words = size;
  v.homes = homes;
  return v;
}

const isa::Step& step_at(const isa::Program& program, size_t k) {
  return std::get<isa::Step>(program.statements.at(k).kind);
}
int64_t steps(const isa::Program& program) {
  return isa::count(program).steps;
}

// ---- unit tests ------------------------------------------------------------------------------------------

TEST(HomeAssignment, SpreadsTheOperandsOfOneOperation) {
  MachineProgram program;
  for (const char* name : {"x", "y", "z", "w"}) program.values.push_back(value(name, 8, kAnywhere));
  program.body = {block({fma(virt(0), virt(1), virt(2), virt(3))})};
  home_assigners().front().run(program, test_chip(), {});
  EXPECT_NO_THROW(verify_homes(program, test_chip()));
  EXPECT_EQ(std::get<Block>(program.body[0].kind).operations.size(), 1u) << to_string(program);
}

TEST(HomeAssignment, CopiesWhatIsForcedIntoOneMemory) {
  for (const Space bank : {Space::kGrf0, Space::kGrf1, Space::kLm0, Space::kLm1}) {
    MachineProgram program;
    for (const char* name : {"x", "y", "z", "w"}) program.values.push_back(value(name, 8, space_bit(bank)));
    program.body = {
        block({fma(virt(0), virt(1), virt(2), virt(3)), imm(5, virt(3)),
               op(Opcode::kAdd, isa::Precision::kLong, {virt(0), virt(0, 0, 0)}, {virt(1), virt(2)})})};
    EXPECT_THROW(
        {
          MachineProgram forced = program;
          for (Value& v : forced.values) v.home = bank;
          verify_homes(forced, test_chip());
        },
        isa::InternalError);
    home_assigners().front().run(program, test_chip(), {});
    EXPECT_NO_THROW(verify_homes(program, test_chip())) << to_string(program);
  }
}

TEST(HomeAssignment, CopiesKeepTheForwardedValue) {
  MachineProgram program;
  for (const char* name : {"x", "y", "z"}) program.values.push_back(value(name, 8, space_bit(Space::kGrf0)));
  // The fma reads the sum from $aluf, and two values that must be copied apart before it.
  program.body = {block({add(real(Space::kConstant, 0), real(Space::kT), real(Space::kNoWrite)),
                         fma(real(Space::kAluf), virt(0), virt(1), virt(2))})};
  home_assigners().front().run(program, test_chip(), {});
  verify_homes(program, test_chip());
  const auto& operations = std::get<Block>(program.body[0].kind).operations;
  ASSERT_EQ(operations.size(), 5u) << to_string(program);
  EXPECT_EQ(operations[1].instruction.sources[0].space, Space::kAluf);
  EXPECT_EQ(operations[3].instruction.destinations[0].space, Space::kNoWrite);
  EXPECT_EQ(operations[4].instruction.sources[0].space, Space::kAluf);
}

TEST(Allocation, SharesWordsOfValuesThatDoNotMeet) {
  MachineProgram program;
  std::vector<Operation> operations;
  // 20 buffers of 256 words through 512 words of GRF0, each dead before the next but one is born.
  for (int v = 0; v < 20; ++v) {
    program.values.push_back(value("b" + std::to_string(v), 256, space_bit(Space::kGrf0)));
    operations.push_back(load(0, virt(v)));
    if (v > 0) operations.push_back(store(virt(v - 1), 1024));
  }
  program.body = {block(operations)};
  for (const Allocator& allocator : allocators()) {
    MachineProgram copy = program;
    home_assigners().front().run(copy, test_chip(), {});
    allocator.run(copy, test_chip(), {});
    EXPECT_NO_THROW(verify_allocation(copy, test_chip())) << to_string(copy);
  }
}

TEST(Allocation, CarriedValuesLiveForTheWholeLoop) {
  MachineProgram program;
  program.values = {value("sum", 256, space_bit(Space::kGrf0)), value("a", 256, space_bit(Space::kGrf0)),
                    value("b", 128, space_bit(Space::kGrf0)), value("c", 128, space_bit(Space::kGrf0))};
  // a is dead when b is defined inside the loop; sum is carried around.
  const auto body = [&](bool overflow) {
    std::vector<Operation> list = {load(0, virt(1)), store(virt(1), 512), load(64, virt(2)),
                                   store(virt(2), 768), add(virt(0), real(Space::kT), virt(0))};
    if (overflow) list.insert(list.begin(), store(virt(3), 256));
    if (overflow) list.push_back(load(0, virt(3)));
    return list;
  };
  program.body = {block({imm(0, virt(0))}), loop(4, {block(body(false))}), block({store(virt(0), 0)})};
  MachineProgram fits = program;
  home_assigners().front().run(fits, test_chip(), {});
  allocators().front().run(fits, test_chip(), {});
  EXPECT_NO_THROW(verify_allocation(fits, test_chip()));
  EXPECT_NE(fits.values[0].address, fits.values[1].address);

  // The verifier sees a carried value lose its words.
  fits.values[2].address = fits.values[0].address;
  EXPECT_THROW(verify_allocation(fits, test_chip()), isa::InternalError);

  program.body[1] = loop(4, {block(body(true))});
  home_assigners().front().run(program, test_chip(), {});
  try {
    allocators().front().run(program, test_chip(), {});
    FAIL() << to_string(program);
  } catch (const isa::UnsupportedError& error) {
    EXPECT_THAT(error.what(), HasSubstr("GRF0 needs 640 words at once, it has 512"));
  }
}

TEST(Scheduling, PacksIndependentUnitsAndKeepsDistances) {
  MachineProgram program;
  program.values = {value("x", 8, space_bit(Space::kGrf0)), value("y", 8, space_bit(Space::kLm1)),
                    value("z", 8, space_bit(Space::kGrf1)), value("w", 8, space_bit(Space::kLm0))};
  // Two chains: load -> fma and imm -> add, on different units.
  program.body = {block({load(0, virt(0)), imm(7, virt(2)),
                         op(Opcode::kVadd, isa::Precision::kFloat, {virt(0), virt(0)}, {virt(1)}),
                         copy(virt(2), virt(3))})};
  const isa::Chip chip = test_chip();
  const isa::Program list = build_program(program, chip);
  const isa::Program sequential = build_program(program, chip, {.scheduler = "sequential"});
  EXPECT_EQ(steps(list), 3);
  EXPECT_EQ(step_at(list, 0).instructions.size(), 2u);
  EXPECT_EQ(steps(sequential), 4);
}

TEST(Scheduling, LoopsAreDroppedFlattenedAndDrained) {
  MachineProgram program;
  program.values = {value("sum", 8, space_bit(Space::kGrf0))};
  const Node body = block({add(real(Space::kConstant, 0), virt(0), virt(0))});
  program.body = {block({imm(0, virt(0))}), loop(0, {body}), loop(1, {body}), loop(5, {body})};
  const isa::Chip chip = test_chip();
  const isa::Program schedule = build_program(program, chip);
  // imm, nop, add, nop, loop { add, nop }: a GRF word is readable after one step.
  ASSERT_EQ(schedule.statements.size(), 5u);
  EXPECT_EQ(std::get<isa::Loop>(schedule.statements[4].kind).count, 5);
  EXPECT_EQ(steps(schedule), 4 + 10);
}

TEST(Scheduling, TransfersAreWaitedFor) {
  MachineProgram program;
  program.values = {value("x", 8, kGrfs)};
  Operation down =
      op(Opcode::kL2bmd, isa::Precision::kNone, {real(Space::kL2bm, 0)}, {real(Space::kL1bm, 0)});
  program.body = {block({mv(real(Space::kDram, 0), real(Space::kL2bm, 0), 128, 1), imm(1, virt(0)),
                         store(virt(0), 512), wait(1), down})};
  const isa::Chip chip = test_chip();
  for (const char* scheduler : {"list", "sequential"}) {
    const isa::Program schedule = build_program(program, chip, {.scheduler = scheduler});
    EXPECT_TRUE(std::holds_alternative<isa::Mv>(schedule.statements[0].kind));
  }
  // The same without the wait is a mistake of the kernel.
  auto& operations = std::get<Block>(program.body[0].kind).operations;
  operations.erase(operations.begin() + 3);
  EXPECT_THROW(build_program(program, chip), isa::InternalError);
}

TEST(Verification, FindsBrokenSchedules) {
  MachineProgram program;
  program.values = {value("x", 8, space_bit(Space::kGrf0)), value("y", 8, space_bit(Space::kGrf1))};
  program.body = {block({imm(1, virt(0)), copy(virt(0), virt(1)), store(virt(1), 0)})};
  const isa::Chip chip = test_chip();
  MachineProgram ready = program;
  home_assigners().front().run(ready, chip, {});
  allocators().front().run(ready, chip, {});
  const isa::Program good = schedule_program(ready, chip);
  EXPECT_NO_THROW(verify_schedule(ready, good, chip));
  isa::Program missing = good;
  missing.statements.pop_back();
  EXPECT_THROW(verify_schedule(ready, missing, chip), isa::InternalError);
  isa::Program close = good;
  std::erase_if(close.statements,
                [](const isa::Statement& s) { return std::holds_alternative<isa::Nop>(s.kind); });
  EXPECT_THROW(verify_schedule(ready, close, chip), isa::InternalError);
  isa::Program swapped = good;
  std::swap(swapped.statements.front(), swapped.statements.back());
  EXPECT_THROW(verify_schedule(ready, swapped, chip), isa::InternalError);
}

TEST(Passes, NamesAndOptionsAreChecked) {
  const isa::Chip chip = test_chip();
  EXPECT_THROW(build_program({}, chip, {.scheduler = "best"}), isa::UserError);
  EXPECT_THROW(build_program({}, chip, {.options = {{"speed", "max"}}}), isa::UserError);
  MachineProgram one;
  one.values = {value("x", 8, space_bit(Space::kGrf0))};
  one.body = {block({imm(1, virt(0))})};
  EXPECT_NO_THROW(build_program(one, chip, {.options = {{"list-priority", "source"}}}));
  EXPECT_THROW(build_program(one, chip, {.options = {{"list-priority", "fastest"}}}), isa::UserError);
  EXPECT_THROW(build_program(one, chip, {.loop_scheduler = "list"}), isa::UserError);
  EXPECT_THROW(
      register_pass(BlockScheduler{"list", "", {}, true, false, false, block_schedulers().front().run}),
      isa::InternalError);
}

// ---- property test: every pipeline keeps the meaning -----------------------------------------------------

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

constexpr int64_t kL1bmWords = 4096;

MiniMachine initial_machine() {
  MiniMachine machine;
  for (int64_t a = 0; a < kL1bmWords; ++a) machine.set_l1bm(a, 0x9e3779b97f4a7c15ULL * (a + 1));
  return machine;
}

std::vector<uint64_t> l1bm_of(MiniMachine& machine) {
  std::vector<uint64_t> result;
  for (int64_t a = 0; a < kL1bmWords; ++a) result.push_back(machine.l1bm(a));
  return result;
}

/// The machine program in its own order, every value in a memory of its own.
std::vector<uint64_t> run_virtual(const MachineProgram& program) {
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

std::vector<uint64_t> run_schedule(const isa::Program& program) {
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

/// Every (W, R) pair within reach of the longest distance in the fully unrolled schedule.
void check_unrolled(const isa::Program& program, const isa::Chip& chip) {
  struct Past {
    int64_t time;
    std::vector<isa::Access> accesses;
  };
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
                           EXPECT_EQ(isa::issue_conflict(concrete, chip), "");
                           while (!past.empty() && past.front().time < time - 8) past.pop_front();
                           for (const Past& p : past) {
                             for (const isa::Access& a : p.accesses) {
                               for (const isa::Access& b : now) {
                                 if (isa::required_gap(a, b, chip) > time - p.time - 1)
                                   ADD_FAILURE() << "too close at step " << time;
                               }
                             }
                           }
                           past.push_back({time, now});
                           ++time;
                           return true;
                         });
}

class RandomProgram {
 public:
  explicit RandomProgram(uint32_t seed) : random_(seed) {}

  MachineProgram make() {
    program_.name = "random";
    const int values = pick(3, 14);
    for (int v = 0; v < values; ++v) {
      const HomeSet sets[] = {
          kAnywhere, kAnywhere, kGrfs, kLms, space_bit(Space::kLm0), space_bit(Space::kGrf1)};
      program_.values.push_back(value("v" + std::to_string(v), 8 * pick(1, 4), sets[pick(0, 5)]));
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
  MachineProgram program_;
  std::vector<int64_t> counts_;
};

// ---- loops that overlap ----------------------------------------------------------------------------------

const isa::Loop* first_loop(const isa::Program& program) {
  for (const isa::Statement& statement : program.statements) {
    if (const auto* found = std::get_if<isa::Loop>(&statement.kind)) return found;
  }
  return nullptr;
}

/// A product of matrices as one would write it down: load the matrix, stream the vectors, accumulate.
MachineProgram plain_product(isa::Precision precision, int64_t blocks, int vectors) {
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

TEST(Loops, APlainProductKeepsTheMauBusy) {
  for (const isa::Precision precision : {isa::Precision::kGFloat, isa::Precision::kHalf}) {
    for (const int vectors : {4, 6, 8}) {
      SCOPED_TRACE(vectors);
      const isa::Program schedule = build_program(plain_product(precision, 32, vectors), test_chip());
      const isa::Loop* steady = first_loop(schedule);
      ASSERT_NE(steady, nullptr);
      int64_t busy = 0;
      for (const isa::Statement& statement : steady->body) {
        const auto* step = std::get_if<isa::Step>(&statement.kind);
        if (step == nullptr) continue;
        for (const Instruction& instruction : step->instructions)
          busy += instruction.opcode == Opcode::kMfma ? 1 : 0;
      }
      EXPECT_GE(static_cast<double>(busy), 0.95 * static_cast<double>(steps({"", steady->body})));
      // Before and behind the loop, one iteration each at most.
      EXPECT_LE(steps(schedule), (32 + 2) * vectors + 8);
    }
  }
}

TEST(Property, EveryPipelineKeepsTheMeaning) {
  isa::Chip chip = test_chip();
  chip.mab_per_l1b = 16;  // l1bmd addresses of the interpreter: 64 LW per cycle
  using Pair = std::pair<std::string, std::string>;
  std::vector<Pair> schedulers;
  for (const BlockScheduler& blocks : block_schedulers()) {
    // The exact one would need long for a few of these blocks; it has tests of its own.
    if (!blocks.for_blocks || blocks.name == "exact") continue;
    for (const BlockScheduler& loops : block_schedulers()) {
      if (loops.for_loops) schedulers.emplace_back(blocks.name, loops.name);
    }
  }
  std::map<Pair, int64_t> all_steps;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const MachineProgram program = RandomProgram(seed).make();
    const std::vector<uint64_t> expected = run_virtual(program);
    {
      const char* allocator = seed % 2 == 0 ? "linear-scan" : "first-fit";
      for (const auto& [scheduler, loop_scheduler] : schedulers) {
        isa::Program schedule;
        ASSERT_NO_THROW(schedule = build_program(program, chip,
                                                 {.allocator = allocator,
                                                  .scheduler = scheduler,
                                                  .loop_scheduler = loop_scheduler,
                                                  .options = {}}));
        ASSERT_EQ(run_schedule(schedule), expected)
            << allocator << " " << scheduler << " " << loop_scheduler << "\n"
            << to_string(program);
        check_unrolled(schedule, chip);
        ASSERT_FALSE(testing::Test::HasFailure());
        all_steps[{scheduler, loop_scheduler}] += steps(schedule);
      }
    }
  }
  const Pair list{"list", "acyclic"};
  EXPECT_LT(all_steps[list], (all_steps[{"sequential", "acyclic"}]));
  EXPECT_LT((all_steps[{"list", "modulo"}]), all_steps[list]);
}

TEST(Property, LargeBlocksAreScheduledQuickly) {
  const isa::Chip chip = test_chip();
  MachineProgram program;
  for (int v = 0; v < 200; ++v) program.values.push_back(value("v" + std::to_string(v), 8, kAnywhere));
  std::mt19937 random(7);
  const auto any = [&] { return virt(static_cast<int>(random() % 200)); };
  std::vector<Operation> operations;
  for (int k = 0; k < 3000; ++k) {
    operations.push_back(k % 3 == 0   ? fma(any(), any(), any(), any())
                         : k % 3 == 1 ? add(any(), any(), any())
                                      : load(0, any()));
  }
  program.body = {loop(10, {block(operations)})};
  EXPECT_GT(steps(build_program(program, chip)), 0);
}

}  // namespace
}  // namespace kodama::scheduler
