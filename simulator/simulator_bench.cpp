#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "isa/chip.h"
#include "isa/program.h"
#include "simulator/machine.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/// Steps per second of the engine on the whole mncore2 chip. The argument is the number of threads.
namespace kodama::simulator {
namespace {

using isa::Instruction;
using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::Space;
using isa::Width;

Operand memory(Space space, Width width, int64_t base, std::vector<int64_t> strides = {}) {
  Operand operand;
  operand.space = space;
  operand.width = width;
  operand.base = base;
  operand.stride = isa::words(width);
  operand.loop_strides = std::move(strides);
  return operand;
}

Instruction instruction(Opcode opcode, Precision precision, std::vector<Operand> sources,
                        std::vector<Operand> destinations) {
  Instruction result;
  result.opcode = opcode;
  result.precision = precision;
  result.sources = std::move(sources);
  result.destinations = std::move(destinations);
  return result;
}

isa::Statement step(std::vector<Instruction> instructions) {
  return {isa::Step{std::move(instructions)}, 0};
}

constexpr int64_t kSteps = 512;

isa::Program looped(std::vector<Instruction> instructions) {
  isa::Program program;
  isa::Loop loop;
  loop.count = kSteps;
  loop.body.push_back(step(std::move(instructions)));
  program.statements.push_back({std::move(loop), 0});
  return program;
}

/// Fills LM0, LM1 and the register files with ordinary numbers and block floats of `precision`.
void prepare(Machine& machine, Precision precision) {
  const isa::Chip& chip = machine.chip();
  uint64_t state = 1;
  auto number = [&](int bits) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    const uint64_t random = state >> 20;
    if (bits == 16) return (random & 0x81ff) | 31ull << 9;
    return (random & 0x807fffff) | 127ull << 23;
  };
  auto set = [&](Space space, int64_t words, int bits) {
    isa::Program program;
    for (int64_t address = 0; address < words; address += 2) {
      isa::DebugSet statement;
      statement.space = space;
      statement.address = address;
      statement.payload.push_back(bits == 16
                                      ? number(16) << 48 | number(16) << 32 | number(16) << 16 | number(16)
                                      : number(32) << 32 | number(32));
      program.statements.push_back({statement, 0});
    }
    machine.run(program);
  };
  const int bits = precision == Precision::kHalf ? 16 : 32;
  set(Space::kLm0, 1024, bits);
  set(Space::kLm1, 1024, bits);
  set(Space::kGrf0, chip.memory.grf_words, 32);
  set(Space::kGrf1, chip.memory.grf_words, bits);
  // Normalize LM0 in place, then fill the matrix register.
  if (precision == Precision::kNone) return;
  isa::Program program;
  isa::Loop loop;
  loop.count = 128;
  const Operand block = memory(Space::kLm0, Width::kLong, 0, {8});
  loop.body.push_back(step({instruction(Opcode::kBfn, precision, {block}, {block})}));
  program.statements.push_back({std::move(loop), 0});
  for (int64_t row = 0; row < 16; row += 4) {
    if (row == 8 && precision != Precision::kHalf) break;
    Operand matrix;
    matrix.space = Space::kMatX;
    matrix.base = row;
    program.statements.push_back(step(
        {instruction(Opcode::kMwrite, precision, {memory(Space::kLm0, Width::kLong, 2 * row)}, {matrix})}));
  }
  machine.run(program);
}

void measure(benchmark::State& state, Precision prepared, const isa::Program& program) {
  MachineOptions options;
  options.threads = static_cast<int>(state.range(0));
  Machine machine(isa::find_chip("mncore2"), options);
  prepare(machine, prepared);
  machine.run(program);
  int64_t steps = 0;
  for (auto _ : state) steps += machine.run(program).steps;
  state.counters["steps/s"] = benchmark::Counter(static_cast<double>(steps), benchmark::Counter::kIsRate);
}

void dense_matrix(benchmark::State& state, Precision precision) {
  Operand matrix;
  matrix.space = Space::kMatX;
  const Width out = precision == Precision::kHalf ? Width::kDoubleLong : Width::kLong;
  Operand accumulator = memory(Space::kGrf0, out, 0);
  measure(
      state, precision,
      looped({instruction(Opcode::kMfma, precision,
                          {matrix, memory(Space::kLm0, Width::kLong, 0, {2}), accumulator}, {accumulator})}));
}
void gmfma(benchmark::State& state) {
  dense_matrix(state, Precision::kGFloat);
}
void hmfma(benchmark::State& state) {
  dense_matrix(state, Precision::kHalf);
}
void fmfma(benchmark::State& state) {
  dense_matrix(state, Precision::kFloat);
}

void fvfma(benchmark::State& state) {
  const Operand accumulator = memory(Space::kGrf0, Width::kLong, 0);
  measure(state, Precision::kNone,
          looped({instruction(Opcode::kVfma, Precision::kFloat,
                              {memory(Space::kLm0, Width::kLong, 0, {2}),
                               memory(Space::kLm1, Width::kLong, 0, {2}), accumulator},
                              {accumulator})}));
}

void alu_and_l1bm(benchmark::State& state) {
  Operand source;
  source.space = Space::kL1bm;
  source.loop_strides = {8};
  measure(
      state, Precision::kNone,
      looped({instruction(Opcode::kAdd, Precision::kInt,
                          {memory(Space::kLm0, Width::kLong, 0, {2}), memory(Space::kGrf0, Width::kLong, 8)},
                          {memory(Space::kGrf1, Width::kLong, 0)}),
              instruction(Opcode::kL1bmd, Precision::kNone, {source},
                          {memory(Space::kLm1, Width::kLong, 0, {2})})}));
}

void nop(benchmark::State& state) {
  isa::Program program;
  for (int64_t i = 0; i < kSteps; ++i) program.statements.push_back({isa::Nop{}, 0});
  measure(state, Precision::kNone, program);
}

// ---- what timing costs

/// Runs the program without and with timing, in turns; the counters are medians over the pairs.
void timing_cost(benchmark::State& state, Precision prepared, const isa::Program& program) {
  MachineOptions options;
  options.threads = 2;
  Machine machine(isa::find_chip("mncore2"), options);
  prepare(machine, prepared);
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
  Operand matrix;
  matrix.space = Space::kMatX;
  const Operand accumulator = memory(Space::kGrf0, Width::kLong, 0);
  timing_cost(
      state, Precision::kGFloat,
      looped({instruction(Opcode::kMfma, Precision::kGFloat,
                          {matrix, memory(Space::kLm0, Width::kLong, 0, {2}), accumulator}, {accumulator})}));
}

/// DRAM to all L2BMs in two buffers, one transfer under way while the other one is waited for.
void timing_of_transfers(benchmark::State& state) {
  isa::Loop loop;
  loop.count = 64;
  for (int8_t tag = 1; tag <= 2; ++tag) {
    isa::Nop wait;
    wait.wait_tag = tag;
    loop.body.push_back({wait, 0});
    Instruction transfer;
    transfer.opcode = Opcode::kMvb2;
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
  timing_cost(state, Precision::kNone, program);
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
BENCHMARK(gmfma)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK(hmfma)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK(fmfma)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK(fvfma)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK(alu_and_l1bm)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK(nop)->Arg(1)->UseRealTime();
BENCHMARK(timing_of_compute)->UseRealTime();
BENCHMARK(timing_of_transfers)->UseRealTime();
BENCHMARK(hundred_million_nops)->UseRealTime()->Iterations(1);

}  // namespace
}  // namespace kodama::simulator

BENCHMARK_MAIN();
