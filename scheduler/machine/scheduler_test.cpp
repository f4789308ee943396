#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "isa/costs.h"
#include "isa/error.h"
#include "isa/rounds_test_util.h"
#include "scheduler/machine/machine_program.h"
#include "scheduler/machine/passes.h"
#include "scheduler/machine/program_scheduling.h"
#include "scheduler/machine/test_programs.h"
#include "scheduler/pipeline/pipeline.h"
#include "scheduler/verify/verify.h"

namespace kodama::scheduler {
namespace {

using namespace test_programs;
using ::testing::HasSubstr;

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
  EXPECT_NO_THROW(verify::verify_homes(program, test_chip()));
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
          verify::verify_homes(forced, test_chip());
        },
        isa::InternalError);
    home_assigners().front().run(program, test_chip(), {});
    EXPECT_NO_THROW(verify::verify_homes(program, test_chip())) << to_string(program);
  }
}

TEST(HomeAssignment, CopiesKeepTheForwardedValue) {
  MachineProgram program;
  for (const char* name : {"x", "y", "z"}) program.values.push_back(value(name, 8, space_bit(Space::kGrf0)));
  // The fma reads the sum from $aluf, and two values that must be copied apart before it.
  program.body = {block({add(real(Space::kConstant, 0), real(Space::kT), real(Space::kNoWrite)),
                         fma(real(Space::kAluf), virt(0), virt(1), virt(2))})};
  home_assigners().front().run(program, test_chip(), {});
  verify::verify_homes(program, test_chip());
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
    EXPECT_NO_THROW(verify::verify_allocation(copy, test_chip())) << to_string(copy);
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
  EXPECT_NO_THROW(verify::verify_allocation(fits, test_chip()));
  EXPECT_NE(fits.values[0].address, fits.values[1].address);

  // The verifier sees a carried value lose its words.
  fits.values[2].address = fits.values[0].address;
  EXPECT_THROW(verify::verify_allocation(fits, test_chip()), isa::InternalError);

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

TEST(Scheduling, SaysWhatIsKnownOfItsSchedules) {
  const auto proofs_by = [&](const MachineProgram& program, const PipelineChoice& choice) {
    std::vector<ScheduleProofs> found;
    PassDump dump;
    dump.conclude = [&](const ScheduleProofs& proofs) { found.push_back(proofs); };
    build_program(program, test_chip(), choice, dump);
    EXPECT_EQ(found.size(), 1U);
    return found.at(0);
  };
  const PipelineChoice few_nodes{.scheduler = "exact", .options = {{"exact-nodes", "1"}}};
  ScheduleProofs all;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const MachineProgram program = RandomProgram(seed).make();
    const ScheduleProofs exact = proofs_by(program, few_nodes);
    EXPECT_LE(exact.proven + exact.gave_up, exact.schedules);
    EXPECT_EQ(exact.gave_up_bound<exact.gave_up_steps, exact.gave_up> 0);
    all += exact;
    const ScheduleProofs listed = proofs_by(program, {});
    EXPECT_GT(listed.schedules, 0);
    EXPECT_EQ(listed.gave_up, 0);
    // These show nothing.
    EXPECT_EQ(proofs_by(program, {.scheduler = "sequential", .loop_scheduler = "acyclic"}).proven, 0);
  }
  EXPECT_GT(all.gave_up, 0);
  EXPECT_GE(all.gave_up_bound, all.gave_up);
  // A loop whose iterations overlap is one schedule: its body as a block counts no more.
  const MachineProgram product = plain_product(isa::Precision::kFloat, 32, 4);
  EXPECT_EQ(proofs_by(product, {}).schedules, 1);
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
  EXPECT_NO_THROW(verify::verify_schedule(ready, good, chip));
  isa::Program missing = good;
  missing.statements.pop_back();
  EXPECT_THROW(verify::verify_schedule(ready, missing, chip), isa::InternalError);
  isa::Program close = good;
  std::erase_if(close.statements,
                [](const isa::Statement& s) { return std::holds_alternative<isa::Nop>(s.kind); });
  EXPECT_THROW(verify::verify_schedule(ready, close, chip), isa::InternalError);
  isa::Program swapped = good;
  std::swap(swapped.statements.front(), swapped.statements.back());
  EXPECT_THROW(verify::verify_schedule(ready, swapped, chip), isa::InternalError);
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

// ---- loops that overlap ----------------------------------------------------------------------------------

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

// ---- property test: every pipeline keeps the meaning -----------------------------------------------------

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
  const uint32_t count = isa::rounds(10, 60);
  for (uint32_t seed = 0; seed < count; ++seed) {
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
        ASSERT_EQ(unrolled_fault(schedule, chip), "");
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
