#include <benchmark/benchmark.h>

#include "assembler/assembler.h"
#include "assembler/random_program.h"
#include "isa/chip.h"

/// Lines per second of assembler and printer, on lines that hardly repeat.
namespace kodama::assembler {
namespace {

constexpr int kLines = 1000000;

const std::string& text() {
  static const std::string result = [] {
    const isa::Chip chip = isa::find_chip("mncore2");
    RandomOptions options;
    options.debug_statements = false;
    options.other_statements = false;
    return print(RandomProgram(chip, 1, options).program(kLines));
  }();
  return result;
}

void assemble_lines(benchmark::State& state) {
  const isa::Chip chip = isa::find_chip("mncore2");
  const std::string& program = text();
  for (auto _ : state) benchmark::DoNotOptimize(assemble(program, "bench.vsm", chip));
  state.counters["lines/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * kLines, benchmark::Counter::kIsRate);
}

void print_lines(benchmark::State& state) {
  const isa::Chip chip = isa::find_chip("mncore2");
  const isa::Program program = assemble(text(), "bench.vsm", chip);
  for (auto _ : state) benchmark::DoNotOptimize(print(program));
  state.counters["lines/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * kLines, benchmark::Counter::kIsRate);
}

BENCHMARK(assemble_lines)->Unit(benchmark::kMillisecond);
BENCHMARK(print_lines)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kodama::assembler

BENCHMARK_MAIN();
