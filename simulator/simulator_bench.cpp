#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "assembler/assembler.h"
#include "isa/chip.h"
#include "isa/program.h"
#include "simulator/machine.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/// Steps per second of the engine on the whole mncore2 chip. The argument is the number of threads.
namespace kodama::simulator {
namespace {

using isa::Space;

constexpr int64_t kSteps = 512;

/// What is in the memories before: numbers of one exponent of the precision, so that blocks are normalized.
struct StepBenchmark {
  const char* name;
  const char* line;  ///< VSM
  int bits = 32;     ///< of a number
};
constexpr StepBenchmark kStepBenchmarks[] = {
    {"gmfma", "gmfma $lx $lm0v $lr0v $lr0v"},
    {"hmfma", "hmfma $lx $lm0v $llr0v $llr0v", 16},
    {"fmfma", "fmfma $lx $lm0v $lr0v $lr0v"},
    {"dmfma", "dmfmau $lx $lm0v $ls0v $llr0v", 64},
    {"fvfma", "fvfma $lm0v $ln0v $lr0v $lr0v"},
    {"hvfma", "hvfma $lm0v $ln0v $lls0v $llr0v", 16},
    {"dvfma", "dvfmau $lm0v $ln0v $ls0v $llr0v", 64},
    {"fvadd", "fvadd $lm0v $ln0v $lr0v"},
    {"iadd", "iadd $lm0v $lr0v $ln0v"},
    {"imin", "imin $lm0v $lr0v $ln0v"},
    {"smin", "smin $lm0v $lr0v $ln0v"},
    {"land", "land $lm0v $lr0v $ln0v"},
    {"ilsl", "ilsl $lm0v $lr0v $ln0v"},
    {"lpassa", "lpassa $lm0v $ln0v"},
    {"masked_iadd", "iadd $lm0v $lr0v $ln0v/1000"},
    {"fmax", "fmax $lm0v $ln0v $lr0v"},
    {"gbfn", "gbfn $lm0v $ln0v"},
    {"frsqrt", "frsqrt $lm0v $ln0v"},
    {"t_indirect", "lpassa $lmt0 $ln0v"},
    {"l1bmd_to_pes", "l1bmd $lb0 $lm0v"},
    {"l1bmd_to_l1bm", "l1bmd $lm0v $lb0"},
    {"l1bmm_to_pes", "l1bmm $lb0 $lm0v"},
    {"l1bmm4_to_pes", "l1bmm4 $lb0 $lm0v"},
    {"l1bmp", "l1bmp $lb0 $lm0v"},
    {"l1bmm_to_l1bm", "l1bmm@0 $lm0v $lb0"},
    {"l1bmm4_to_l1bm", "l1bmm4@0 $lm0v $lb0"},
    {"l1bmrffadd", "l1bmrffadd $lm0v $lb0"},
    {"l1bmr4ffadd", "l1bmr4ffadd $lm0v $lb0"},
    {"l1bmrliadd", "l1bmrliadd $lm0v $lb0"},
    {"l2bmb", "l2bmb $lc0 $lb0"},
    {"l2bmd", "l2bmd $lc0 $lb0"},
    {"l2bmd_to_l2bm", "l2bmd $lb0 $lc0"},
    {"l2bmb2", "l2bmb2 $lc0 $lb0"},
};

isa::Program looped(isa::Program program) {
  isa::Loop loop;
  loop.count = kSteps;
  loop.body = std::move(program.statements);
  isa::Program result;
  result.statements.push_back({std::move(loop), 0});
  return result;
}

/// Fills LM0, LM1 and the register files with numbers near one, and T with an address for each MAB.
void prepare(Machine& machine, int bits) {
  const isa::Chip& chip = machine.chip();
  uint64_t state = 1;
  const auto number = [&] {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return bits == 16   ? ((state & 0x81ff81ff81ff81ff) | 0x3e003e003e003e00)
           : bits == 32 ? ((state & 0x807fffff807fffff) | 0x3f8000003f800000)
                        : ((state & 0x800fffffffffffff) | 0x3ff0000000000000);
  };
  isa::Program program;
  for (const Space space : {Space::kLm0, Space::kLm1, Space::kGrf0, Space::kGrf1}) {
    const int64_t words = space == Space::kLm0 || space == Space::kLm1 ? 1024 : chip.memory.grf_words;
    for (int64_t address = 0; address < words; address += isa::kWordsPerLong) {
      isa::DebugSet statement;
      statement.space = space;
      statement.address = address;
      statement.payload.push_back(number());
      program.statements.push_back({statement, 0});
    }
  }
  machine.run(program);
  const char* kind = bits == 16 ? "h" : bits == 32 ? "g" : "d";
  std::string text = fmt::format("{}mwrite $lm0v $lx0\nnop/2\n", kind);
  if (bits < 64) text += fmt::format("{}mwrite $lm8v $lx4\nnop/2\n", kind);
  text += "lpassa $mabid $lr0v\nnop/2\nladd $lr0v $lr0v $t\nnop/4\n";
  machine.run(assembler::assemble(text, "preparation", chip));
}

void measure(benchmark::State& state, Machine& machine, const isa::Program& program) {
  machine.run(program);
  int64_t steps = 0;
  for (auto _ : state) steps += machine.run(program).steps;
  state.counters["steps/s"] = benchmark::Counter(static_cast<double>(steps), benchmark::Counter::kIsRate);
}

void one_step(benchmark::State& state, const StepBenchmark& step) {
  MachineOptions options;
  options.threads = static_cast<int>(state.range(0));
  const isa::Chip& chip = isa::find_chip("mncore2");
  Machine machine(chip, options);
  prepare(machine, step.bits);
  measure(state, machine, looped(assembler::assemble(std::string(step.line) + "\n", step.name, chip)));
}

void nop(benchmark::State& state) {
  isa::Program program;
  for (int64_t i = 0; i < kSteps; ++i) program.statements.push_back({isa::Nop{}, 0});
  Machine machine(isa::find_chip("mncore2"));
  measure(state, machine, program);
}

// ---- what timing costs

/// Runs the program without and with timing, in turns; the counters are medians over the pairs.
void timing_cost(benchmark::State& state, const isa::Program& program) {
  MachineOptions options;
  options.threads = 2;
  Machine machine(isa::find_chip("mncore2"), options);
  prepare(machine, 32);
  RunOptions timed;
  RunOptions untimed;
  untimed.timing = false;
  const auto seconds = [&](const RunOptions& run) {
    const auto start = std::chrono::steady_clock::now();
    machine.run(program, run);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  seconds(timed);
  std::vector<double> ratios;
  for (auto _ : state) {
    // Whoever comes second has the warmer cache.
    const bool timed_first = ratios.size() % 2 == 0;
    const double first = seconds(timed_first ? timed : untimed);
    const double second = seconds(timed_first ? untimed : timed);
    ratios.push_back(timed_first ? first / second : second / first);
  }
  const auto middle = ratios.begin() + static_cast<ptrdiff_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), middle, ratios.end());
  state.counters["timed/untimed"] = *middle;
}

void timing_of_compute(benchmark::State& state) {
  timing_cost(state, looped(assembler::assemble("gmfma $lx $lm0v $lr0v $lr0v\n", "gmfma",
                                                isa::find_chip("mncore2"))));
}

/// DRAM to all L2BMs in two buffers, one transfer under way while the other one is waited for.
void timing_of_transfers(benchmark::State& state) {
  isa::Loop loop;
  loop.count = 64;
  for (int8_t tag = 1; tag <= 2; ++tag) {
    isa::Nop wait;
    wait.wait_tag = tag;
    loop.body.push_back({wait, 0});
    isa::Instruction transfer;
    transfer.opcode = isa::Opcode::kMvb2;
    transfer.size_lw = 2048;
    transfer.tag = tag;
    transfer.sources.resize(1);
    transfer.sources[0].space = Space::kDram;
    transfer.sources[0].base = tag * 2048;
    transfer.sources[0].loop_strides = {4096};
    transfer.destinations.resize(1);
    transfer.destinations[0].space = Space::kL2bm;
    transfer.destinations[0].base = tag * 2048;
    loop.body.push_back({isa::Mv{transfer}, 0});
  }
  isa::Program program;
  program.statements.push_back({std::move(loop), 0});
  timing_cost(state, program);
}

/// 10^8 steps, a `nop` each, in statements of a thousand lines.
void hundred_million_nops(benchmark::State& state) {
  isa::Program program;
  isa::Loop loop;
  loop.count = 100000;
  for (int k = 0; k < 1000; ++k) loop.body.push_back({isa::Nop{}, 0});
  program.statements.push_back({std::move(loop), 0});
  Machine machine(isa::find_chip("mncore2"));
  int64_t steps = 0;
  for (auto _ : state) steps += machine.run(program).steps;
  state.counters["steps/s"] = benchmark::Counter(static_cast<double>(steps), benchmark::Counter::kIsRate);
}

// ---- what the host does at best: fused multiply-adds of floats in registers, one thread

/// Independent sums, enough to hide the latency of an addition; each a variable, so that all stay in
/// registers.
constexpr int kNativeSums = 8;
constexpr int kNativeLanes = 8;
constexpr int kNativeRounds = 1024;
constexpr int kNativeCount = kNativeSums * kNativeLanes * kNativeRounds;
#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void multiply_add_avx2(const float* x, const float* y, float* z) {
  const __m256 a = _mm256_loadu_ps(x);
  const __m256 b = _mm256_loadu_ps(y);
  __m256 s0 = _mm256_loadu_ps(z), s1 = _mm256_loadu_ps(z + 8), s2 = _mm256_loadu_ps(z + 16);
  __m256 s3 = _mm256_loadu_ps(z + 24), s4 = _mm256_loadu_ps(z + 32), s5 = _mm256_loadu_ps(z + 40);
  __m256 s6 = _mm256_loadu_ps(z + 48), s7 = _mm256_loadu_ps(z + 56);
  for (int round = 0; round < kNativeRounds; ++round) {
    s0 = _mm256_fmadd_ps(a, b, s0);
    s1 = _mm256_fmadd_ps(a, b, s1);
    s2 = _mm256_fmadd_ps(a, b, s2);
    s3 = _mm256_fmadd_ps(a, b, s3);
    s4 = _mm256_fmadd_ps(a, b, s4);
    s5 = _mm256_fmadd_ps(a, b, s5);
    s6 = _mm256_fmadd_ps(a, b, s6);
    s7 = _mm256_fmadd_ps(a, b, s7);
  }
  _mm256_storeu_ps(z + 0, s0);
  _mm256_storeu_ps(z + 8, s1);
  _mm256_storeu_ps(z + 16, s2);
  _mm256_storeu_ps(z + 24, s3);
  _mm256_storeu_ps(z + 32, s4);
  _mm256_storeu_ps(z + 40, s5);
  _mm256_storeu_ps(z + 48, s6);
  _mm256_storeu_ps(z + 56, s7);
}
#endif
void multiply_add(const float* x, const float* y, float* z) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return multiply_add_avx2(x, y, z);
#endif
  for (int round = 0; round < kNativeRounds; ++round) {
    for (int i = 0; i < kNativeSums * kNativeLanes; ++i)
      z[i] = __builtin_fmaf(x[i % kNativeLanes], y[i % kNativeLanes], z[i]);
  }
}

void native_float_fma(benchmark::State& state) {
  std::vector<float> x(kNativeLanes, 0.5F), y(kNativeLanes, 0.25F), z(kNativeSums * kNativeLanes, 0.125F);
  for (auto _ : state) {
    multiply_add(x.data(), y.data(), z.data());
    benchmark::DoNotOptimize(z.data());
    benchmark::ClobberMemory();
  }
  state.counters["fma/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * kNativeCount, benchmark::Counter::kIsRate);
}

BENCHMARK(native_float_fma);
BENCHMARK(nop)->UseRealTime();
BENCHMARK(timing_of_compute)->UseRealTime();
BENCHMARK(timing_of_transfers)->UseRealTime();
BENCHMARK(hundred_million_nops)->UseRealTime()->Iterations(1);

}  // namespace
}  // namespace kodama::simulator

int main(int argc, char** argv) {
  for (const auto& step : kodama::simulator::kStepBenchmarks) {
    benchmark::RegisterBenchmark(
        step.name, [&step](benchmark::State& state) { kodama::simulator::one_step(state, step); })
        ->Arg(1)
        ->Arg(2)
        ->UseRealTime();
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
