#include <fmt/format.h>
#include <fmt/ostream.h>

#include <iostream>

#include "compiler/driver/session.h"
#include "isa/chip.h"
#include "isa/progress.h"
#include "simulator/golden/differential.h"
#include "simulator/machine.h"
#include "tools/command_groups.h"
#include "tools/common_options.h"
#include "tools/options.h"

namespace kodama::tools {
namespace {

int fuzz_simulator(const std::string& chip, simulator::golden::FuzzOptions options) {
  options.chip = simulator::golden::small_memories(isa::find_chip(chip));
  isa::ProgressBar bar("fuzzing");
  options.progress = [&](int64_t steps) { bar.update(steps, options.steps, ""); };
  const simulator::golden::FuzzResult result = simulator::golden::fuzz(options);
  bar.finish();
  for (const auto& failure : result.failures) {
    fmt::print(std::cout, "{}reproduced by: kodama fuzz --chip {} --seed {} --steps 1\n\n", failure.text,
               chip, failure.seed);
  }
  fmt::print(std::cout, "{} steps on {} from seed {}: {} differences\n", result.steps, chip, options.seed,
             result.failures.size());
  return result.failures.empty() ? isa::kExitOk : isa::kExitInternalError;
}

class FuzzCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("--chip", chip_, "chip whose tree is used, with small memories")->capture_default_str();
    add_seed(app, options_.seed, "of the first round");
    add_number(app, "--steps", options_.steps, "steps and transfers to run", 1)->capture_default_str();
    add_number(app, "--seconds", options_.seconds, "stop after this time; 0 = no limit", 0, 1e9)
        ->capture_default_str();
    add_thread_count(app, "--jobs", options_.threads, "rounds at a time", 1);
    app.add_option("--target", target_,
                   "vector target of the engine, such as AVX2; default: the host's best");
  }
  int run(const CLI::App& /*app*/) override {
    simulator::choose_vector_target(target_);
    return fuzz_simulator(chip_, options_);
  }

 private:
  std::string chip_ = "tiny";
  std::string target_;
  simulator::golden::FuzzOptions options_;
};

}  // namespace

void add_fuzz_commands(CommandLine& line) {
  line.add<FuzzCommand>(
      "fuzz", "run random programs on the simulator's engine and on its golden model, compare all memories");
}

}  // namespace kodama::tools
