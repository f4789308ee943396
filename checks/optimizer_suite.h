#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "isa/chip.h"
#include "isa/program.h"
#include "scheduler/optimizer/optimize.h"

/// `kodama opt`: the optimizer (scheduler/optimizer/optimize.h) with the simulator beside it, which runs what
/// it makes against what it was made from.
namespace kodama::checks {

/// Optimizes and checks: the assembler's rules, hazards, and equality of all live-outs on random contents.
/// InternalError naming the difference, and how to see it again, when something is wrong; PassError when it
/// is a plugin's change that makes it wrong.
scheduler::Optimized optimize_checked(const isa::Program& program, const isa::Chip& chip,
                                      const scheduler::OptimizeOptions& options, const std::string& reproduce,
                                      int seeds = 4);
/// The plain form, checked in the same way.
isa::Program plain_checked(const isa::Program& program, const isa::Chip& chip, const std::string& reproduce,
                           int seeds = 4);
/// Writes the scheduling problems of the plain form (scheduler/optimizer/program_problems.h) into a
/// directory, which is made if need be: NAME_1.json, … with the name of the program's file. Returns what
/// there is to say about it.
std::string write_plain_problems(const isa::Program& program, const std::string& file,
                                 const std::string& directory, const isa::Chip& chip);
/// "steps 27 -> 18 …" and the bounds.
std::string optimizer_report(const scheduler::Optimized& result);

struct OptimizerSuiteResult {
  std::string table;
  int failures = 0;  ///< answers that are not accepted any more, or longer
  double geometric_mean = 0;
};
/// The answers of a tree of judge problems: the plain form of each, optimized and judged.
OptimizerSuiteResult optimize_judge_tree(const std::string& directory, const std::string& chip_name,
                                         const scheduler::OptimizeOptions& options);

struct OptimizerFuzzOptions {
  isa::Chip chip;  ///< with small memories
  uint64_t seed = 1;
  int64_t programs = 500;
  std::function<void(int64_t)> progress;
};
struct OptimizerFuzzResult {
  int64_t programs = 0;
  int64_t steps_before = 0;
  int64_t steps_after = 0;
  int64_t forwarded = 0;
  int64_t removed = 0;
  int64_t renamed = 0;
  int64_t refused = 0;  ///< programs that the machine refuses at run time, which nothing is learned from
  uint64_t failed_seed = 0;
  std::string failure;  ///< empty = none; with the program
};
/// Random programs without hazards, plain and optimized, with renaming and live-outs now and then. Program k
/// depends on seed + k alone.
OptimizerFuzzResult fuzz_optimizer(const OptimizerFuzzOptions& options);
/// A random program that keeps the distances, and often reads what it has just written.
isa::Program random_sound_program(const isa::Chip& chip, uint64_t seed, int statements);

}  // namespace kodama::checks
