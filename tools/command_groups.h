#pragma once

#include "tools/command.h"

/// The groups of commands, one file of tools/commands each.
namespace kodama::tools {

void add_model_commands(CommandLine& line);      ///< run, compile, plan
void add_training_commands(CommandLine& line);   ///< grad, train-step, train
void add_program_commands(CommandLine& line);    ///< sim, check, asm, dis
void add_test_commands(CommandLine& line);       ///< onnx-tests, judge
void add_optimizer_commands(CommandLine& line);  ///< opt
void add_fuzz_commands(CommandLine& line);       ///< fuzz
void add_reference_commands(CommandLine& line);  ///< isa (in list_commands.cpp)
void add_layout_commands(CommandLine& line);     ///< layout show, bound, convert, primitives, fuzz, bench
void add_schedule_commands(CommandLine& line);   ///< bench ..., pack, recompute, schedule
void add_list_commands(CommandLine& line);       ///< passes, chips
void add_help_commands(CommandLine& line);       ///< help, completion

// Of these, the commands that use nothing but the library (kodama/kodama.h), one file each.
void add_run_command(CommandLine& line);
void add_compile_command(CommandLine& line);
void add_sim_command(CommandLine& line);

}  // namespace kodama::tools
