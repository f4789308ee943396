#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "assembler/assembler.h"
#include "assembler/random_program.h"
#include "isa/chip.h"
#include "isa/costs.h"
#include "isa/rounds_test_util.h"

/// The issue rules exist twice: as messages for people (isa::issue_conflict) and as resources for schedulers
/// (isa::step_uses). Both must say the same.
namespace kodama::scheduler {
namespace {

using isa::Instruction;

/// Resources wanted by more than their capacity; none when the instructions fit.
std::vector<std::string> crowded_resources(const std::vector<Instruction>& step) {
  const std::vector<isa::StepResource>& resources = isa::step_resources();
  std::vector<std::set<std::string>> shared(resources.size());
  std::vector<int64_t> users(resources.size(), 0);
  for (const Instruction& instruction : step) {
    for (const isa::StepUse& use : isa::step_uses(instruction)) {
      const auto r = static_cast<size_t>(use.resource);
      if (use.key.empty() || shared[r].insert(use.key).second) ++users[r];
    }
  }
  std::vector<std::string> crowded;
  for (size_t r = 0; r < resources.size(); ++r) {
    if (users[r] > resources[r].capacity) crowded.push_back(resources[r].name);
  }
  return crowded;
}

/// Some operands with strides in loops, which parts of a step then share or don't.
void add_strides(Instruction& instruction, std::mt19937_64& random) {
  for (auto* operands : {&instruction.sources, &instruction.destinations}) {
    for (isa::Operand& operand : *operands) {
      if (!isa::is_pe_memory(operand.space) || operand.t_indirect || random() % 8 != 0) continue;
      operand.loop_strides = {static_cast<int64_t>(8 * (random() % 3))};
      if (random() % 2 == 0) operand.loop_strides.push_back(0);
    }
  }
}

class StepRules : public ::testing::TestWithParam<bool> {};

TEST_P(StepRules, MessagesAndResourcesAgree) {
  const bool with_strides = GetParam();
  const isa::Chip chip = isa::find_chip("mncore2");
  const int draws = isa::random_cases(200, 60, 400);  // for a seed
  int64_t legal = 0;
  std::map<std::string, int64_t> crowded;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    assembler::RandomOptions options;
    options.address_window = 8;
    // Rules about the MAU's parts need several of them.
    if (seed % 3 == 0) {
      options.accept = [](const Instruction& instruction) {
        const isa::IssueGroup group = isa::issue_group(instruction);
        return group == isa::IssueGroup::kMauCalc || group == isa::IssueGroup::kMauMwrite ||
               group == isa::IssueGroup::kMauMread;
      };
    }
    assembler::RandomProgram program(chip, seed, options);
    std::mt19937_64 random(seed);
    std::vector<Instruction> recent;
    for (int k = 0; k < draws; ++k) {
      // Instructions of one step share operands; steps that follow each other meet at few addresses.
      isa::Step drawn = program.step();
      for (Instruction& instruction : drawn.instructions.own()) {
        if (with_strides) add_strides(instruction, random);
        // Each must be legal alone; `wait` never is, and is asked about beside others.
        if (isa::issue_group(instruction) == isa::IssueGroup::kWait ||
            isa::issue_conflict({instruction}, chip).empty())
          recent.push_back(std::move(instruction));
      }
      if (recent.size() > 8) recent.erase(recent.begin(), recent.end() - 8);
      for (int sets = 0; sets < 4 && !recent.empty(); ++sets) {
        std::vector<Instruction> step;
        for (uint64_t i = 0, n = 2 + random() % 2; i < n; ++i)
          step.push_back(recent[random() % recent.size()]);
        const std::string conflict = isa::issue_conflict(step, chip);
        const std::vector<std::string> resources = crowded_resources(step);
        ASSERT_EQ(conflict.empty(), resources.empty())
            << "seed " << seed << "\n"
            << "conflict: " << conflict << "\nresource: " << (resources.empty() ? "" : resources[0]) << "\n"
            << assembler::print(isa::Program{"", {isa::Statement{isa::Step{step}}}});
        for (const std::string& resource : resources) ++crowded[resource];
        legal += resources.empty() ? 1 : 0;
      }
    }
  }
  // Both answers are frequent enough to mean something, and no rule goes unasked.
  EXPECT_GT(legal, 5 * draws / 2);
  for (const isa::StepResource& resource : isa::step_resources())
    EXPECT_GT(crowded[resource.name], 0) << resource.name;
}

INSTANTIATE_TEST_SUITE_P(Operands, StepRules, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "WithStrides" : "Plain"; });

}  // namespace
}  // namespace kodama::scheduler
