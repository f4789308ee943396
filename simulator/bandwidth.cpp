#include "simulator/bandwidth.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "assembler/assembler.h"
#include "isa/costs.h"
#include "isa/error.h"
#include "isa/transfer_timeline.h"
#include "simulator/machine.h"
#include "simulator/statistics.h"

namespace kodama::simulator {
namespace {

/// Share of the time in which a DRAM is not being refreshed; 0 for a model of which the chip file doesn't say
/// it in one number.
double dram_share(const isa::Chip& chip) {
  if (chip.transfer.dram_model != isa::kRowsDram) return 0;
  return 1 - chip.transfer.dram_refresh_ns / chip.transfer.dram_refresh_interval_ns;
}

/// LW of the wide side per cycle that the ports allow one transfer of a kind, repeated.
double configured_rate(const isa::Instruction& mv, const isa::Chip& chip) {
  double busiest = 0;
  bool dram = false;
  for (const isa::TransferUse& use : isa::transfer_load(mv, chip).uses) {
    busiest = std::max(busiest, static_cast<double>(use.lw) / isa::transfer_rate(use.port, chip));
    dram |= use.port == isa::TransferPort::kDram;
  }
  return static_cast<double>(mv.size_lw) / busiest * (dram ? dram_share(chip) : 1);
}

class Measurement {
 public:
  explicit Measurement(const isa::Chip& chip) : chip_(chip), machine_(chip) {}

  std::vector<Bandwidth> run() {
    transfers();
    if (chip_.transfer.dram_model == isa::kRowsDram) random_access();  // rows where that model has them
    steps();
    return std::move(results_);
  }

  /// UnsupportedError for a chip whose memories are too small for the transfers that are timed.
  static void check(const isa::Chip& chip) {
    const isa::MemorySizes& memory = chip.memory;
    if (memory.dram_lw < kFarLw + kTransferLw || std::min(memory.pdm_lw, memory.l2bm_lw) < kTransferLw) {
      throw isa::UnsupportedError(fmt::format(
          "the rates of a chip with {} LW of DRAM, {} of PDM and {} of L2BM; at least {}, {} and {} are "
          "needed, so measure a chip with larger memories and the same transfer section",
          memory.dram_lw, memory.pdm_lw, memory.l2bm_lw, kFarLw + kTransferLw, kTransferLw, kTransferLw));
    }
  }

 private:
  static constexpr int64_t kFarLw = 1048576;  ///< where other transfers write
  static constexpr int64_t kTransferLw = 16384;
  static constexpr int kTransfers = 32;
  static constexpr int kSteps = 1000;

  isa::Program assemble(const std::string& text) const {
    return assembler::assemble(text, "bandwidth", chip_);
  }

  void add(const std::string& name, const std::string& program, double lw, int64_t cycles,
           double configured) {
    const auto taken = static_cast<double>(cycles);
    results_.push_back({name, program, lw, taken, lw / taken, configured});
  }

  void transfer(const std::string& name, const std::string& operands, const std::string& mode = "mvp") {
    const std::string line = fmt::format("{}/n{} {}", mode, kTransferLw, operands);
    std::string text;
    for (int k = 0; k < kTransfers; ++k) text += line + "\n";
    const isa::Program program = assemble(text);
    const isa::Instruction& mv = std::get<isa::Mv>(program.statements[0].kind).instruction;
    add(name, line, static_cast<double>(kTransfers * kTransferLw), machine_.run(program).cycles(),
        configured_rate(mv, chip_));
  }

  /// Inside one DRAM: chunks are read and written by turns.
  void dram_copy() {
    constexpr double kChunk = isa::TransferTimeline::kChunkLw;
    const double turnaround = chip_.transfer.dram_turnaround_ns * 1e-9 * chip_.clock_hz;
    const double chunk_cycles = 2 * (kChunk / chip_.transfer.dram_lw_per_cycle + turnaround);
    transfer("DRAM to DRAM of the group", "$d0@0 $d1048576@0");
    results_.back().configured = kChunk / chunk_cycles * dram_share(chip_);
  }

  /// Two streams that only the DRAM is too slow for.
  void two_streams() {
    const std::string first = fmt::format("mvp/n{} $d0@0 $p0@0", kTransferLw);
    const std::string second = fmt::format("mvp/n{} $d1048576@0 $lc0@0.0", kTransferLw);
    std::string text;
    for (int k = 0; k < kTransfers; ++k) text += first + "\n" + second + "\n";
    add("DRAM to PDM and L2BM together", first + "`, `" + second, 2.0 * kTransfers * kTransferLw,
        machine_.run(assemble(text)).cycles(),
        std::min(chip_.transfer.dram_lw_per_cycle,
                 chip_.transfer.pdm_lw_per_cycle + chip_.transfer.l2bm_mv_lw_per_cycle) *
            dram_share(chip_));
  }

  void transfers() {
    dram_copy();
    two_streams();
    transfer("PDM to PDM of the next group", "$p0@0 $p0@1");
    transfer("PDM to DRAM", "$p0@0 $d0@0");
    transfer("DRAM to PDM", "$d0@0 $p0@0");
    transfer("PDM to L2BM", "$p0@0 $lc0@0.0");
    transfer("L2BM to PDM", "$lc0@0.0 $p0@0");
    transfer("DRAM to L2BM", "$d0@0 $lc0@0.0");
    transfer("L2BM to DRAM", "$lc0@0.0 $d0@0");
    transfer("L2BM to L2BM of a group", "$lc0@0.0 $lc0@0.1");
    transfer("DRAM to PDM, every group", "$d0 $p0");
    transfer("PDM to DRAM of the next group", "$p0@0 $d0@1");
    transfer("L2BM to L2BM of the next group", "$lc0@1.0 $lc0@0.0");
    transfer("PDM to all L2BMs", "$p0@0 $lc0", "mvb");
    transfer("DRAM to all L2BMs", "$d0@0 $lc0", "mvb");
    transfer("DRAM to the L2BMs of each group", "$d0 $lc0", "mvb2");
    transfer("DRAMs by turns to all L2BMs", "$d0 $lc0", "mvb4");
    transfer("PDM dealt out to DRAMs", "$p0@0 $d0", "mvd");
    transfer("DRAMs collected in PDM", "$d0 $p0@0", "mvd");
    transfer("PDM dealt out to L2BMs", "$p0@0 $lc0", "mvd");
    transfer("L2BMs collected in PDM", "$lc0 $p0@0", "mvd");
    transfer("all L2BMs reduced to PDM", "$lc0 $p0@0", "mvrdfadd");
    transfer("all L2BMs reduced to DRAM", "$lc0 $d0@0", "mvrdfadd");
    transfer("L2BMs of each group reduced to DRAM", "$lc0 $d0", "mvr2dfadd");
    transfer("L2BMs of all groups reduced to DRAMs", "$lc0 $d0", "mvr4dfadd");
  }

  /// DRAM in blocks of 16 LW through the DAR.
  void random_access() {
    const int64_t row_lw = chip_.transfer.dram_row_bytes / 8;
    const int64_t banks = chip_.transfer.dram_banks * chip_.transfer.dram_channels;
    const int64_t blocks = std::min<int64_t>(1024, chip_.memory.dar_entries);
    const int64_t rows = std::min<int64_t>(4096, chip_.memory.dram_lw / row_lw);
    // One block after the other, so that only one channel has data.
    const double data =
        16 * static_cast<double>(chip_.transfer.dram_channels) / chip_.transfer.dram_lw_per_cycle;
    const double miss = chip_.transfer.dram_row_miss_ns * 1e-9 * chip_.clock_hz;
    std::mt19937 random(1);
    const auto measure = [&](const std::string& name, auto row_of, double cycles_per_block) {
      for (int64_t k = 0; k < blocks; ++k)
        machine_.write(isa::Space::kDar, {}, k, static_cast<uint64_t>(row_of(k) * row_lw / 16));
      const std::string line = fmt::format("mvp/n{} $di0@0 $p0@0", 16 * blocks);
      std::string text;
      for (int k = 0; k < 8; ++k) text += line + "\n";
      add(name, line, static_cast<double>(8 * 16 * blocks), machine_.run(assemble(text)).cycles(),
          16 / cycles_per_block * dram_share(chip_));
    };
    measure(
        "DRAM, a new row of one bank per 16 LW", [&](int64_t k) { return k % (rows / banks) * banks; },
        data + miss);
    // Banks by turns hide the misses as long as a round of all banks takes longer than one.
    measure(
        "DRAM, a new row of the next bank per 16 LW", [&](int64_t k) { return k * (banks + 1) % rows; },
        std::max({data, 16 / chip_.transfer.pdm_lw_per_cycle, (miss + data) / static_cast<double>(banks)}));
  }

  void step(const std::string& line, Level level, int ports, double configured) {
    std::string text;
    for (int k = 0; k < kSteps; ++k) text += line + "\n";
    const isa::Program program = assemble(text);
    Profile profile;
    RunOptions options;
    options.profile = &profile;
    machine_.run(program, options);
    const Statistics all = statistics(profile, chip_);
    add(fmt::format("{}, LW of one memory", level_name(level)), line, all.total.bytes(level) / 8 / ports,
        all.total.cycles.total(), configured);
  }

  void steps() {
    const int l1bs = chip_.l1b_count();
    const int l2bs = chip_.l2b_count();
    const double mabs = chip_.mab_per_l1b;
    const double half = 16 * chip_.l1b_per_l2b / 2.0;
    const double deal = chip_.l2bmd_lw_per_cycle();
    // Section 6.1 of the ISA page: LW of L1BM per cycle.
    for (const auto& [line, rate] :
         std::vector<std::pair<std::string, double>>{{"l1bmp $lb0 $lm0v", 1},
                                                     {"l1bmp $llb0 $llm0v", 2},
                                                     {"l1bmm $lb0 $lm0v", 4},
                                                     {"l1bmm $llb0 $llm0v", 8},
                                                     {"l1bmm@0 $lm0v $lb0", 4},
                                                     {"l1bmm@0 $llm0v $llb0", 8},
                                                     {"l1bmrdfadd $lm0v $lb0", 4},
                                                     {"l1bmrdfadd $llm0v $llb0", 8},
                                                     {"l1bmm4 $lb0 $lm0v", mabs},
                                                     {"l1bmm4 $llb0 $llm0v", 2 * mabs},
                                                     {"l1bmm4@0 $lm0v $lb0", mabs},
                                                     {"l1bmm4@0 $llm0v $llb0", 2 * mabs},
                                                     {"l1bmr4dfadd $lm0v $lb0", mabs},
                                                     {"l1bmd $lb0 $lm0v", 4 * mabs},
                                                     {"l1bmd $lm0v $lb0", 4 * mabs}}) {
      step(line, Level::kL1bm, l1bs, rate);
    }
    // Section 6.2: LW of L2BM and of each L1BM per cycle.
    for (const auto& [line, upper, lower] :
         std::vector<std::tuple<std::string, double, double>>{{"l2bmb $lc0 $lb0", 16, 16},
                                                              {"l2bmb2 $lc0 $lb0", half, 16},
                                                              {"l2bmd $lc0 $lb0", deal, 8},
                                                              {"l2bmd $lb0 $lc0", deal, 8},
                                                              {"l2bmrdfadd $lb0 $lc0", 16, 16},
                                                              {"l2bmr2dfadd $lb0 $lc0", half, 16}}) {
      step(line, Level::kL2bm, l2bs, upper);
      step(line, Level::kL1bmL2bm, l1bs, lower);
    }
    step("l2bm@0 $lb0 $lc0", Level::kL2bm, l2bs, 16);
  }

  isa::Chip chip_;
  Machine machine_;
  std::vector<Bandwidth> results_;
};

}  // namespace

std::vector<Bandwidth> measure_bandwidths(const isa::Chip& chip) {
  Measurement::check(chip);
  return Measurement(chip).run();
}

std::string bandwidth_table(const std::vector<Bandwidth>& results) {
  std::string text =
      "| transfer | statement | LW | cycles | LW/cycle | configured | reached |\n"
      "| --- | --- | --: | --: | --: | --: | --: |\n";
  for (const Bandwidth& each : results) {
    text += fmt::format("| {} | `{}` | {:.0f} | {:.0f} | {:.3f} | ", each.name, each.program, each.lw,
                        each.cycles, each.lw_per_cycle);
    text += each.configured == 0 ? "- | - |\n"
                                 : fmt::format("{:.3f} | {:.2f} % |\n", each.configured, 100 * each.ratio());
  }
  return text;
}

}  // namespace kodama::simulator
