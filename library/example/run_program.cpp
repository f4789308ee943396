/// Runs a VSM program, and prints what its `d get` statements have read, its cycles and what it does wrong.
#include <kodama/simulate.h>

#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s PROGRAM.vsm CHIP\n", argv[0]);
    return 2;
  }
  try {
    const kodama::VsmProgram program = kodama::VsmProgram::read(argv[1], argv[2]);
    const kodama::Simulation run = kodama::simulate(program, {.check_uninitialized = true});
    for (const std::string& line : run.dump) std::puts(line.c_str());
    std::puts(run.summary().c_str());
    for (const std::string& report : run.uninitialized) std::puts(report.c_str());
    for (const std::string& hazard : program.hazards()) std::puts(hazard.c_str());
  } catch (const kodama::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
