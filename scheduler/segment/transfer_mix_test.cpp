/// Schedules whose spans go different ways (TransferScheduler::mix).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

#include "assembler/assembler.h"
#include "isa/program.h"
#include "isa/sequencer.h"
#include "scheduler/problem/transfer_problem.h"
#include "scheduler/segment/transfer_scheduling.h"
#include "scheduler/verify/verify.h"

namespace kodama::scheduler {
namespace {

/// Tasks of 100 cycles, each with a load of 60 LW that keeps the port for 80, and room for three of them.
TransferProblem loads_one_by_one(int tasks) {
  TransferProblem problem;
  problem.capacity = 180;
  problem.ports = {"DRAM"};
  problem.task_cycles.assign(static_cast<size_t>(tasks), 100);
  for (int task = 0; task < tasks; ++task) {
    problem.buffers.push_back({fmt::format("{}", task), 60, 1, 0, {}, task, task});
    problem.transfers.push_back({fmt::format("load {}", task), task, true, 0, task, 0, {{0, 80}}, {}});
  }
  return problem;
}

TEST(TransferMix, EverySpanGoesTheWayThatTookLeast) {
  const TransferProblem problem = loads_one_by_one(12);
  for (const char* name : {"keep", "prefetch"}) {
    const TransferScheduler& scheduler = find_transfer_scheduler(name);
    // Those of a problem this small may be alike; that they aren't is what the times say.
    std::vector<TransferSchedule> schedules = scheduler.run(problem, {});
    ASSERT_FALSE(schedules.empty());
    schedules.resize(2, schedules[0]);
    schedules[0].ways = {0};
    schedules[1].ways = {2};
    const TransferTimes times{{4, 8, 12}, {{9000, 5000, 9000}, {5000, 9000, 8900}}};
    const auto mixed = scheduler.mix(problem, {}, schedules, times);
    ASSERT_FALSE(mixed.empty());
    std::vector<std::vector<int>> ways;
    for (const TransferSchedule& schedule : mixed) {
      EXPECT_EQ(schedule_fault(problem, schedule), "");
      ways.push_back(schedule.ways);
    }
    // It isn't worth while to change for 100 cycles.
    EXPECT_THAT(ways, testing::ElementsAre(std::vector<int>{2, 0, 0}));
    // Nothing is made twice.
    schedules.push_back(mixed[0]);
    TransferTimes again = times;
    again.cycles.push_back({5000, 5000, 9000});
    EXPECT_TRUE(scheduler.mix(problem, {}, schedules, again).empty());
    // Nor without another way, or another span.
    EXPECT_TRUE(scheduler.mix(problem, {}, {schedules[0]}, {{4, 8, 12}, {{1, 1, 1}}}).empty());
    EXPECT_TRUE(scheduler.mix(problem, {}, {schedules[0], schedules[1]}, {{12}, {{1}, {2}}}).empty());
  }
}

/// Of a segment, the scheduler gets what every part was predicted to take, and what it makes of that is used
/// where it is faster.
TEST(TransferMix, SegmentsAreMixedByWhatPartsTake) {
  const isa::Chip chip = isa::find_chip("mncore2");
  std::vector<ProgramPart> parts;
  for (int k = 0; k < 3; ++k) {
    parts.push_back({fmt::format("part {}", k),
                     assembler::assemble(fmt::format("mvp/n2048i01 $d{} $lc0@.0\nnop; wait i01\nl2bmd $lc0 "
                                                     "$lb0\nnop/200\n",
                                                     4096 * k),
                                         "test", chip)});
  }
  static std::vector<TransferTimes> asked;
  static bool gives_better = false;
  asked.clear();
  register_pass(TransferScheduler{"mixing",
                                  "everything on demand, until it is asked again",
                                  {},
                                  false,
                                  [](const TransferProblem& problem, const passes::PassOptions&) {
                                    return find_transfer_scheduler("on-demand").run(problem, {});
                                  },
                                  [](const TransferProblem& problem, const passes::PassOptions&,
                                     const std::vector<TransferSchedule>&, const TransferTimes& times) {
                                    asked.push_back(times);
                                    if (!gives_better) return std::vector<TransferSchedule>{};
                                    return find_transfer_scheduler("prefetch").run(problem, {});
                                  }});
  const auto cycles = [&] {
    const ScheduledParts scheduled = schedule_transfers(parts, chip, {"mixing", {}, {}});
    verify::verify_segment(parts, scheduled, chip);
    return isa::predict_cycles(scheduled.program, chip).total();
  };
  const int64_t on_demand = cycles();
  ASSERT_EQ(asked.size(), 1U);
  ASSERT_EQ(asked[0].ends.size(), parts.size());
  ASSERT_EQ(asked[0].cycles.size(), 1U);
  ASSERT_EQ(asked[0].cycles[0].size(), parts.size());
  const std::vector<int64_t>& of_parts = asked[0].cycles[0];
  EXPECT_EQ(std::accumulate(of_parts.begin(), of_parts.end(), int64_t{0}), on_demand);
  for (const int64_t part : of_parts) EXPECT_GT(part, 800 + 128);
  gives_better = true;
  EXPECT_LT(cycles(), on_demand);
}

/// Copies of a program share the instructions of its steps; what they mean in L2BM is their own.
TEST(TransferMix, CopiesOfAProgramHaveBuffersOfTheirOwn) {
  const isa::Chip chip = isa::find_chip("mncore2");
  const auto assembled = [&] {
    return assembler::assemble("mvp/n2048i01 $d0 $lc0@.0\nnop; wait i01\nl2bmd $lc0 $lb0\nnop/200\n", "test",
                               chip);
  };
  const auto text_of = [&](const std::vector<ProgramPart>& parts) {
    const ScheduledParts scheduled = schedule_transfers(parts, chip, {"prefetch", {}, {}});
    verify::verify_segment(parts, scheduled, chip);
    return assembler::print(scheduled.program);
  };
  const isa::Program program = assembled();
  const std::vector<ProgramPart> copies = {{"a", program}, {"b", program}};
  EXPECT_EQ(text_of(copies), text_of({{"a", assembled()}, {"b", assembled()}}));
  EXPECT_EQ(copies[0].program, assembled()) << "the parts stay as they are";
  EXPECT_EQ(copies[1].program, assembled());
}

TEST(TransferMix, APredictorSaysHowFarItIs) {
  const isa::Chip chip = isa::find_chip("mncore2");
  const isa::Program program = assembler::assemble("nop/10\nnop/5\n", "test", chip);
  isa::CyclePredictor predictor(chip);
  const std::span<const isa::Statement> statements = program.statements;
  predictor.run(statements.first(1));
  EXPECT_EQ(predictor.now(), 40);
  predictor.run(statements.subspan(1));
  EXPECT_EQ(predictor.now(), 60);
  EXPECT_EQ(predictor.finish().total(), isa::predict_cycles(program, chip).total());
}

}  // namespace
}  // namespace kodama::scheduler
