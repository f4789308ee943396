#include "scheduler/optimizer/program_problems.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "assembler/assembler.h"
#include "assembler/random_program.h"
#include "isa/error.h"
#include "isa/hazards.h"
#include "scheduler/optimizer/optimize.h"

namespace kodama::scheduler {
namespace {

const isa::Chip& mncore2() {
  static const isa::Chip kChip = isa::find_chip("tiny");
  return kChip;
}
ProgramProblems problems(const std::string& text) {
  return program_problems(assembler::assemble(text, "test.vsm", mncore2()), "test", mncore2());
}
int64_t distance(const ScheduleProblem& problem, int from, int to) {
  int64_t result = -1;
  for (const auto& dependence : problem.dependences) {
    if (dependence.from == from && dependence.to == to) result = std::max(result, dependence.distance);
  }
  return result;
}
int64_t least_steps(const ScheduleProblem& problem) {
  return schedule_steps(problem, find_block_scheduler("exact", false).run(problem, {}));
}

TEST(ProgramProblems, TheExampleOfTheHeader) {
  const ProgramProblems found = problems("ladd $lm0v $ln0v $lr0v\nnop\nladd $lr0v $ls0v $lr8v\n");
  ASSERT_EQ(found.problems.size(), 1u);
  EXPECT_EQ(found.skipped, 0);
  const ScheduleProblem& problem = found.problems[0];
  EXPECT_EQ(problem.name, "test 1");
  ASSERT_EQ(problem.operations.size(), 2u);
  EXPECT_EQ(problem.operations[0].text, "ladd $lm[0]v $ln[0]v -> $lr[0]v");
  EXPECT_EQ(distance(problem, 0, 1), 2);
  EXPECT_EQ(least_steps(problem), 3);
}

TEST(ProgramProblems, SegmentsAndWhatIssuedBefore) {
  const ProgramProblems found =
      problems("linc $lr0v $lr0v\nd get $lr64n0c0b0m0p0 1\nnop\nfvadd $lr0v $lr0v $ln0v\nlinc $ls0v $ls0v\n");
  ASSERT_EQ(found.problems.size(), 2u);
  const auto& operations = found.problems[1].operations;
  EXPECT_EQ(operations[0].earliest, 1);
  EXPECT_EQ(operations[1].earliest, 0);
}

TEST(ProgramProblems, OperationsOfOneStepReadWhatWasThere) {
  // The second of them reads the old GRF0, and the ALU's result before.
  const ProgramProblems found = problems("linc $ls0v $ls0v\nlinc $lr0v $lr0v; fvadd $lr0v $aluf $ln0v\n");
  ASSERT_EQ(found.problems.size(), 1u);
  const auto& operations = found.problems[0].operations;
  ASSERT_EQ(operations.size(), 3u);
  EXPECT_EQ(operations[1].text.substr(0, 5), "fvadd");
  EXPECT_EQ(distance(found.problems[0], 0, 1), 1);
  EXPECT_EQ(distance(found.problems[0], 1, 2), 0);
  EXPECT_EQ(least_steps(found.problems[0]), 2);
  // Two operations that swap have no order.
  EXPECT_EQ(problems("linc $lr0v $ls0v; fvadd $ls0v $ls0v $lr0v\n").skipped, 1);
}

TEST(ProgramProblems, SkipsWhatDependencesDoNotSay) {
  EXPECT_EQ(problems("linc $lr0v $lr0v; noforward\n").skipped, 1);
  EXPECT_EQ(problems("linc $lr0v $lr0v\nd get $lr64n0c0b0m0p0 1\nlinc $aluf $ls0v\n").skipped, 2);
  const ProgramProblems masked = problems("linc $lr0v $lr0v\nmaskn 21\nlinc $lr8v $ln0v\n");
  EXPECT_EQ(masked.problems.size(), 1u);
  EXPECT_EQ(masked.skipped, 1);
  EXPECT_THROW(problems("linc $lr0v $lr0v\nlinc $lr0v $lr0v\n"), isa::UserError);
}

/// What the problems demand is not more than what the program does: its own steps are a schedule.
TEST(ProgramProblems, TheProgramItselfIsASchedule) {
  size_t found = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    assembler::RandomOptions options;
    options.address_window = 16;
    options.transfers = false;
    options.mask_statements = false;
    options.debug_statements = false;
    options.accept = [](const isa::Instruction& instruction) {
      return isa::issue_group(instruction) != isa::IssueGroup::kNoForward &&
             std::ranges::none_of(instruction.sources, [](const isa::Operand& source) {
               const auto resource = isa::hazard_resource(source.space);
               return resource && isa::is_forwarding_register(*resource);
             });
    };
    assembler::RandomProgram random(mncore2(), seed, options);
    isa::Program program;
    while (program.statements.size() < 24) {
      isa::Step step = random.step();
      std::erase_if(step.instructions.own(), [](const isa::Instruction& instruction) {
        return isa::issue_group(instruction) == isa::IssueGroup::kWait;
      });
      program.statements.push_back({step});
      // Far enough apart for everything.
      program.statements.push_back({isa::Nop{isa::longest_gap(mncore2()), 0}});
    }
    if (!isa::find_hazards(program, mncore2()).empty()) continue;  // a turnaround buffer that nobody wrote
    const isa::Program plain = plain_form(program, mncore2());
    for (const ScheduleProblem& problem : program_problems(plain, "random", mncore2()).problems) {
      Schedule schedule;
      // Steps in the order of the operations; those of one step follow each other.
      std::vector<int64_t> times;
      int64_t now = 0;
      for (const isa::Statement& statement : plain.statements) {
        if (const auto* nop = std::get_if<isa::Nop>(&statement.kind)) now += nop->count;
        const auto* step = std::get_if<isa::Step>(&statement.kind);
        if (step == nullptr) continue;
        times.insert(times.end(), step->instructions.size(), now++);
      }
      if (times.size() != problem.operations.size()) continue;  // not all of the program
      schedule.issue = times;
      EXPECT_EQ(schedule_fault(problem, schedule), "") << seed;
      ++found;
    }
  }
  EXPECT_GT(found, 20u);
}

}  // namespace
}  // namespace kodama::scheduler
