#include "simulator/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <set>

#include "assembler/assembler.h"
#include "isa/costs.h"

namespace kodama::simulator {
namespace {

using isa::Instruction;
using isa::Space;

constexpr double kLwBytes = 8;
/// Bytes that a port of a PE memory passes per cycle: 2LW.
constexpr double kPePortBytes = 16;

struct Cause {
  const char* name;
  const char* text;
  int64_t isa::CycleCauses::*cycles;
};
constexpr std::array<Cause, 10> kCauses{{
    {"steps", "steps", &isa::CycleCauses::steps},
    {"wait", "waiting for transfers", &isa::CycleCauses::wait},
    {"mv_queue", "no room for a transfer", &isa::CycleCauses::mv_queue},
    {"host_link", "instructions not there yet", &isa::CycleCauses::host_link},
    {"hazard", "stalled for hazards", &isa::CycleCauses::hazard},
    {"drain", "last transfers", &isa::CycleCauses::drain},
    {"host_input", "data from the host", &isa::CycleCauses::host_input},
    {"host_output", "data to the host", &isa::CycleCauses::host_output},
    {"launch", "launches by the host", &isa::CycleCauses::launch},
    {"host_compute", "layers on the host", &isa::CycleCauses::host_compute},
}};

std::string_view precision_name(isa::Precision precision) {
  switch (precision) {
    case isa::Precision::kDouble:
      return "double";
    case isa::Precision::kFloat:
      return "float";
    case isa::Precision::kGFloat:
      return "gfloat";
    case isa::Precision::kHalf:
      return "half";
    default:
      return "other";
  }
}

/// Adds up what one statement does, `count` times.
class Counter {
 public:
  Counter(const isa::Chip& chip, int64_t count, Usage& usage) : chip_(chip), count_(count), usage_(usage) {}

  void add(const isa::Statement& statement) {
    if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
      add_step(*step);
    } else if (const auto* nop = std::get_if<isa::Nop>(&statement.kind)) {
      usage_.steps += count_ * nop->count;
      usage_.empty += count_ * nop->count;
      words(nop->count);
    } else if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) {
      add_mv(mv->instruction);
    }
  }

 private:
  void words(int64_t steps) {
    usage_.host_bytes += static_cast<double>(count_) * static_cast<double>(steps) * isa::kInstructionBytes;
  }
  void bytes(Level level, bool write, double amount) {
    (write ? usage_.written_bytes : usage_.read_bytes)[static_cast<size_t>(level)] +=
        amount * static_cast<double>(count_);
  }

  void add_step(const isa::Step& step) {
    usage_.steps += count_;
    words(1);
    bool l2bm = false;
    bool l1bm = false;
    bool mau = false;
    bool alu = false;
    std::set<Space> read;  // reads of one space share the port
    for (const Instruction& instruction : step.instructions) {
      switch (isa::issue_group(instruction)) {
        case isa::IssueGroup::kL2bm:
        case isa::IssueGroup::kL2bmDarw:
          l2bm = true;
          break;
        case isa::IssueGroup::kL1bm:
        case isa::IssueGroup::kL1bmTurnaround:
          l1bm = true;
          break;
        case isa::IssueGroup::kMauCalc:
          calculation(instruction);
          mau = true;
          break;
        case isa::IssueGroup::kMauMwrite:
        case isa::IssueGroup::kMauMread:
          mau = true;
          break;
        case isa::IssueGroup::kAlu:
          alu = true;
          break;
        default:
          break;
      }
      for (const isa::Operand& source : instruction.sources) {
        if (isa::is_pe_memory(source.space) && read.insert(source.space).second)
          pe_memory(source, isa::kCyclesPerStep, false);
      }
      for (const isa::Operand& destination : instruction.destinations) {
        if (isa::is_pe_memory(destination.space))
          pe_memory(destination, written_cycles(destination.mask), true);
      }
      shared_memories(instruction);
    }
    usage_.l2bm += l2bm ? count_ : 0;
    usage_.l1bm += l1bm ? count_ : 0;
    usage_.mau += mau ? count_ : 0;
    usage_.alu += alu ? count_ : 0;
    usage_.empty += l2bm || l1bm || mau || alu ? 0 : count_;
  }

  static int written_cycles(const isa::Mask& mask) {
    return mask.kind == isa::Mask::Kind::kPattern ? std::popcount(mask.value) : isa::kCyclesPerStep;
  }

  void pe_memory(const isa::Operand& operand, int cycles, bool write) {
    const Level level =
        operand.space == Space::kLm0 || operand.space == Space::kLm1 ? Level::kLm : Level::kGrf;
    bytes(level, write, 4.0 * isa::words(operand.width) * cycles * chip_.pe_count());
  }

  void calculation(const Instruction& instruction) {
    const bool matrix = isa::info(instruction.opcode).mau.matrix;
    const double peak = isa::peak_macs_per_cycle(instruction.precision, matrix, chip_);
    Usage::Calculation& calculation = usage_.calculations[fmt::format(
        "{} {}", precision_name(instruction.precision), matrix ? "matrix" : "vector")];
    calculation.steps += count_;
    calculation.multiply_adds += peak * isa::kCyclesPerStep * static_cast<double>(count_);
    calculation.peak = peak;
  }

  void shared_memories(const Instruction& instruction) {
    for (const isa::Access& access : isa::accesses(instruction, chip_)) {
      const double lw = static_cast<double>(access.length);
      if (access.resource == isa::HazardResource::kL1bm) {
        const bool pe_side = access.agent == isa::Agent::kPeToL1bm || access.agent == isa::Agent::kL1bmToPe;
        const int l1bs = pe_side ? chip_.l1b_count() : chip_.l2b_count() * l1bs_in_set(instruction, access);
        bytes(pe_side ? Level::kL1bm : Level::kL1bmL2bm, access.write, kLwBytes * lw * l1bs);
      } else if (access.resource == isa::HazardResource::kL2bm) {
        bytes(Level::kL2bm, access.write, kLwBytes * lw * chip_.l2b_count());
      }
    }
  }

  /// L1Bs of an L2B whose L1BM an L2BM instruction touches.
  int l1bs_in_set(const Instruction& instruction, const isa::Access& access) const {
    int count = 0;
    for (int b = 0; b < chip_.l1b_per_l2b; ++b) count += isa::is_in_l1b(access, instruction, b, chip_);
    return count;
  }

  void add_mv(const Instruction& mv) {
    usage_.mvs += count_;
    words(1);
    for (const isa::TransferPart& part : isa::transfer_parts(mv, chip_)) {
      const double amount = kLwBytes * static_cast<double>(part.lw);
      switch (part.port) {
        case isa::TransferPort::kDram:
          bytes(Level::kDram, part.write, amount);
          break;
        case isa::TransferPort::kPdmRead:
        case isa::TransferPort::kPdmWrite:
          bytes(Level::kPdm, part.port == isa::TransferPort::kPdmWrite, amount);
          break;
        case isa::TransferPort::kL2bmRead:
        case isa::TransferPort::kL2bmWrite:
          bytes(Level::kL2bmMv, part.port == isa::TransferPort::kL2bmWrite, amount);
          break;
        case isa::TransferPort::kGroupPath:
          break;
      }
    }
  }

  const isa::Chip& chip_;
  int64_t count_;
  Usage& usage_;
};

std::string port_name(const isa::TransferPart& part, const isa::Chip& chip) {
  switch (part.port) {
    case isa::TransferPort::kDram:
      return fmt::format("DRAM of group {}", part.index);
    case isa::TransferPort::kPdmRead:
      return fmt::format("PDM of group {}, read port", part.index);
    case isa::TransferPort::kPdmWrite:
      return fmt::format("PDM of group {}, write port", part.index);
    case isa::TransferPort::kL2bmRead:
    case isa::TransferPort::kL2bmWrite:
      return fmt::format("L2BM {} of group {}, MV {} port", part.index % chip.l2b_per_group,
                         part.index / chip.l2b_per_group,
                         part.port == isa::TransferPort::kL2bmRead ? "read" : "write");
    case isa::TransferPort::kGroupPath:
      return fmt::format("path from group {} to {}", part.index, part.to);
  }
  return "";
}

double percent(double part, double whole) {
  return whole > 0 ? 100 * part / whole : 0;
}

/// The resource that was busy for the largest share of the time.
std::string bound_of(const Statistics& statistics) {
  const auto cycles = static_cast<double>(statistics.total.cycles.total());
  if (cycles == 0) return "nothing ran";
  const double link = (statistics.total.host_bytes + statistics.host_data_bytes) /
                      statistics.chip.host_link.bytes_per_second * statistics.chip.clock_hz;
  std::string name = "PE steps";
  auto busy = static_cast<double>(statistics.total.cycles.steps);
  const auto consider = [&](const std::string& other, double other_busy) {
    if (other_busy > busy) {
      busy = other_busy;
      name = other;
    }
  };
  consider("host link", link);
  for (const Statistics::PortUsage& port : statistics.ports) consider(port.name, port.busy_cycles);
  std::string text = fmt::format("{}, busy {:.1f} % of all cycles", name, percent(busy, cycles));
  if (busy < 0.5 * cycles) {
    text += "; nothing is busy half of the time: steps and transfers wait for each other";
  }
  return text;
}

}  // namespace

nlohmann::ordered_json causes_json(const isa::CycleCauses& cycles) {
  nlohmann::ordered_json causes;
  for (const Cause& cause : kCauses) causes[cause.name] = cycles.*cause.cycles;
  return causes;
}

std::string_view level_name(Level level) {
  constexpr std::array<std::string_view, kLevelCount> kNames{
      "DRAM", "PDM", "L2BM, MV side", "L2BM, L1B side", "L1BM, L2B side", "L1BM, PE side", "LM", "GRF"};
  return kNames[static_cast<size_t>(level)];
}

double peak_bytes_per_cycle(Level level, const isa::Chip& chip) {
  switch (level) {
    case Level::kDram:
      return kLwBytes * chip.transfer.dram_lw_per_cycle * chip.groups;
    case Level::kPdm:
      return 2 * kLwBytes * chip.transfer.pdm_lw_per_cycle * chip.groups;
    case Level::kL2bmMv:
      return 2 * kLwBytes * chip.transfer.l2bm_mv_lw_per_cycle * chip.l2b_count();
    case Level::kL2bm:
      return kLwBytes * chip.l2bmd_lw_per_cycle() * chip.l2b_count();
    case Level::kL1bmL2bm:
      return kLwBytes * 16 * chip.l1b_count();  // a broadcast
    case Level::kL1bm:
      return kLwBytes * chip.l1bmd_lw_per_cycle() * chip.l1b_count();
    case Level::kLm:
      return 2 * kPePortBytes * chip.pe_count();
    case Level::kGrf:
      return 2 * 2 * kPePortBytes * chip.pe_count();
  }
  return 0;
}

Usage& Usage::operator+=(const Usage& other) {
  cycles += other.cycles;
  steps += other.steps;
  mvs += other.mvs;
  l2bm += other.l2bm;
  l1bm += other.l1bm;
  mau += other.mau;
  alu += other.alu;
  empty += other.empty;
  for (const auto& [name, calculation] : other.calculations) {
    Calculation& own = calculations[name];
    own.steps += calculation.steps;
    own.multiply_adds += calculation.multiply_adds;
    own.peak = calculation.peak;
  }
  for (size_t level = 0; level < kLevelCount; ++level) {
    read_bytes[level] += other.read_bytes[level];
    written_bytes[level] += other.written_bytes[level];
  }
  host_bytes += other.host_bytes;
  return *this;
}

double Usage::mau_cycles() const {
  double sum = 0;
  for (const auto& [name, calculation] : calculations) {
    if (calculation.peak > 0) sum += calculation.multiply_adds / calculation.peak;
  }
  return sum;
}

Usage usage_of(const isa::Statement& statement, int64_t count, const isa::Chip& chip) {
  Usage usage;
  Counter(chip, count, usage).add(statement);
  return usage;
}

Roofline roofline(const Usage& usage, const isa::Chip& chip) {
  Roofline result{usage.mau_cycles(), "MAU"};
  for (int level = 0; level < kLevelCount; ++level) {
    const auto each = static_cast<Level>(level);
    const double cycles = usage.bytes(each) / peak_bytes_per_cycle(each, chip);
    if (cycles > result.cycles) result = {cycles, std::string(level_name(each))};
  }
  if (result.cycles == 0) result.resource = "";
  return result;
}

Statistics statistics(const Profile& profile, const isa::Chip& chip) {
  return statistics({{"", &profile}}, chip);
}

Statistics statistics(const std::vector<std::pair<std::string, const Profile*>>& runs,
                      const isa::Chip& chip) {
  Statistics result;
  result.chip = chip;
  std::map<std::string, size_t> regions;
  std::map<int32_t, Statistics::LineUsage> lines;
  const auto region_usage = [&](const std::string& path) -> Usage& {
    const auto [known, is_new] = regions.emplace(path, result.regions.size());
    if (is_new) result.regions.push_back({path, {}});
    return result.regions[known->second].usage;
  };
  const isa::TransferPorts numbers(chip);
  std::vector<Profile::PortUse> ports(static_cast<size_t>(numbers.count()));
  for (const auto& [name, profile] : runs) {
    std::vector<std::string> paths;  // of the run's regions; a parent comes before its children
    for (const Region& region : profile->regions) {
      const std::string& outer = region.parent < 0 ? name : paths[static_cast<size_t>(region.parent)];
      // The compiler names the program's region as its layer, and so the run: they are one.
      const bool is_run = region.parent < 0 && region.name == name;
      paths.push_back(outer.empty() || is_run ? region.name : outer + "/" + region.name);
    }
    Usage run;
    if (!name.empty()) region_usage(name);  // before those inside it
    for (const Profile::Entry& entry : profile->entries) {
      Usage usage = usage_of(*entry.statement, entry.count, chip);
      usage.cycles = entry.cycles;
      run += usage;
      std::vector<int32_t> around;  // the innermost region first
      for (int32_t region = entry.region; region >= 0;
           region = profile->regions[static_cast<size_t>(region)].parent) {
        around.push_back(region);
      }
      for (auto region = around.rbegin(); region != around.rend(); ++region) {
        const std::string& path = paths[static_cast<size_t>(*region)];
        if (path != name) region_usage(path) += usage;
      }
      if (entry.statement->line > 0) {
        Statistics::LineUsage& line = lines[entry.statement->line];
        line.statement = entry.statement;
        line.count += entry.count;
        line.cycles += entry.cycles;
      }
    }
    run.cycles = profile->cycles;
    if (!name.empty()) region_usage(name) += run;
    result.total += run;
    for (size_t port = 0; port < profile->ports.size(); ++port) {
      ports[port].busy_cycles += profile->ports[port].busy_cycles;
      ports[port].lw += profile->ports[port].lw;
    }
    result.dram_row_hits += profile->dram_row_hits;
    result.dram_row_misses += profile->dram_row_misses;
    result.dram_turnarounds += profile->dram_turnarounds;
    result.host_dram_cycles += profile->host_dram_cycles;
    result.host_data_bytes += static_cast<double>(profile->host_input_bytes + profile->host_output_bytes);
  }
  // Lines of different programs have nothing in common.
  if (runs.size() == 1) {
    for (const auto& [number, line] : lines) result.lines.push_back(line);
  }
  for (size_t port = 0; port < ports.size(); ++port) {
    if (ports[port].lw == 0) continue;
    const isa::TransferPart part = numbers.part(static_cast<int>(port));
    result.ports.push_back({port_name(part, chip), ports[port].busy_cycles,
                            kLwBytes * static_cast<double>(ports[port].lw),
                            kLwBytes * isa::transfer_rate(part.port, chip)});
  }
  result.bound = bound_of(result);
  return result;
}

std::string Statistics::LineUsage::text() const {
  return assembler::print_statement(*statement);
}

Usage Statistics::LineUsage::usage(const isa::Chip& chip) const {
  Usage usage = usage_of(*statement, count, chip);
  usage.cycles = cycles;
  return usage;
}

// ---- printing --------------------------------------------------------------------------------------------

namespace {

std::string bytes_text(double bytes) {
  if (bytes < 1e4) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1e7) return fmt::format("{:.1f} kB", bytes / 1e3);
  if (bytes < 1e10) return fmt::format("{:.1f} MB", bytes / 1e6);
  return fmt::format("{:.1f} GB", bytes / 1e9);
}

std::string stalls_text(const isa::CycleCauses& cycles) {
  std::string text;
  for (const Cause& cause : kCauses) {
    if (cause.cycles == &isa::CycleCauses::steps || cycles.*cause.cycles == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", cycles.*cause.cycles, cause.text);
  }
  return text.empty() ? "-" : text;
}

/// The lines with most cycles, in that order.
std::vector<const Statistics::LineUsage*> by_cycles(const Statistics& statistics, size_t most) {
  std::vector<const Statistics::LineUsage*> order;
  for (const Statistics::LineUsage& line : statistics.lines) order.push_back(&line);
  std::ranges::stable_sort(
      order, [](const auto* a, const auto* b) { return a->cycles.total() > b->cycles.total(); });
  order.resize(std::min(most, order.size()));
  return order;
}
/// Those that are reported, in the order of the program.
std::vector<const Statistics::LineUsage*> reported_lines(const Statistics& statistics) {
  std::vector<const Statistics::LineUsage*> lines = by_cycles(statistics, kReportedLines);
  std::ranges::sort(lines, [](const auto* a, const auto* b) { return a->line() < b->line(); });
  return lines;
}

nlohmann::ordered_json usage_json(const Usage& usage, const isa::Chip& chip) {
  using nlohmann::ordered_json;
  const auto cycles = static_cast<double>(usage.cycles.total());
  ordered_json calculations = ordered_json::array();
  for (const auto& [name, each] : usage.calculations) {
    calculations.push_back({{"precision", name},
                            {"steps", each.steps},
                            {"multiply_adds", each.multiply_adds},
                            {"peak_multiply_adds_per_cycle", each.peak},
                            {"utilization", cycles > 0 ? each.multiply_adds / each.peak / cycles : 0}});
  }
  ordered_json levels;
  for (int level = 0; level < kLevelCount; ++level) {
    const auto each = static_cast<Level>(level);
    const double peak = peak_bytes_per_cycle(each, chip);
    levels[std::string(level_name(each))] = {
        {"read_bytes", usage.read_bytes[static_cast<size_t>(level)]},
        {"written_bytes", usage.written_bytes[static_cast<size_t>(level)]},
        {"peak_bytes_per_cycle", peak},
        {"utilization", cycles > 0 ? usage.bytes(each) / peak / cycles : 0}};
  }
  const Roofline bound = roofline(usage, chip);
  return {{"cycles", usage.cycles.total()},
          {"cycles_by_cause", causes_json(usage.cycles)},
          {"steps", usage.steps},
          {"transfers", usage.mvs},
          {"steps_by_slot",
           {{"l2bm", usage.l2bm},
            {"l1bm", usage.l1bm},
            {"mau", usage.mau},
            {"alu", usage.alu},
            {"empty", usage.empty}}},
          {"mau_utilization", cycles > 0 ? usage.mau_cycles() / cycles : 0},
          {"calculations", calculations},
          {"memories", levels},
          {"roofline_cycles", bound.cycles},
          {"roofline_resource", bound.resource}};
}

}  // namespace

std::string statistics_text(const Statistics& statistics, size_t lines) {
  const Usage& total = statistics.total;
  const auto cycles = static_cast<double>(total.cycles.total());
  std::string text = fmt::format("{} cycles, {:.3f} ms on {} at {:.0f} MHz\n", total.cycles.total(),
                                 cycles / statistics.chip.clock_hz * 1e3, statistics.chip.name,
                                 statistics.chip.clock_hz / 1e6);
  for (const Cause& cause : kCauses) {
    if (total.cycles.*cause.cycles == 0) continue;
    text += fmt::format("  {:<28}{:>14}  {:5.1f} %\n", cause.text, total.cycles.*cause.cycles,
                        percent(static_cast<double>(total.cycles.*cause.cycles), cycles));
  }
  text += fmt::format("{} steps by slot, {} transfers\n", total.steps, total.mvs);
  for (const auto& [name, steps] :
       {std::pair("L2BM", total.l2bm), std::pair("L1BM", total.l1bm), std::pair("MAU", total.mau),
        std::pair("ALU", total.alu), std::pair("empty", total.empty)}) {
    text += fmt::format("  {:<28}{:>14}  {:5.1f} %\n", name, steps,
                        percent(static_cast<double>(steps), static_cast<double>(total.steps)));
  }
  text += fmt::format("MAU at {:.1f} % of peak\n", percent(total.mau_cycles(), cycles));
  for (const auto& [name, each] : total.calculations) {
    text += fmt::format("  {:<28}{:>14} steps  {:.4g} multiply-adds, {:.1f} % of peak\n", name, each.steps,
                        each.multiply_adds, percent(each.multiply_adds / each.peak, cycles));
  }
  text += "memory                        read        written     of peak\n";
  for (int level = 0; level < kLevelCount; ++level) {
    const auto each = static_cast<Level>(level);
    text += fmt::format("  {:<18}{:>14} {:>14}     {:5.1f} %\n", level_name(each),
                        bytes_text(total.read_bytes[static_cast<size_t>(level)]),
                        bytes_text(total.written_bytes[static_cast<size_t>(level)]),
                        percent(total.bytes(each) / peak_bytes_per_cycle(each, statistics.chip), cycles));
  }
  text += fmt::format("  {:<18}{:>14}                    {:5.1f} %\n", "host link",
                      bytes_text(total.host_bytes + statistics.host_data_bytes),
                      percent((total.host_bytes + statistics.host_data_bytes) /
                                  statistics.chip.host_link.bytes_per_second * statistics.chip.clock_hz,
                              cycles));
  if (!statistics.ports.empty()) {
    text += "transfer ports                                     moved     busy\n";
    for (const Statistics::PortUsage& port : statistics.ports) {
      text += fmt::format("  {:<36}{:>14}  {:5.1f} %\n", port.name, bytes_text(port.bytes),
                          percent(port.busy_cycles, cycles));
    }
  }
  if (statistics.dram_row_hits + statistics.dram_row_misses > 0) {
    text += fmt::format("DRAM rows: {} hits, {} misses, {} turn-arounds\n", statistics.dram_row_hits,
                        statistics.dram_row_misses, statistics.dram_turnarounds);
  }
  const Roofline least = roofline(total, statistics.chip);
  text += fmt::format("bound: {}\n", statistics.bound);
  if (least.cycles > 0)
    text += fmt::format(
        "roofline: {:.2f} times the bound of {:.0f} cycles ({}: work over peak, host link left out)\n",
        cycles / least.cycles, least.cycles, least.resource);
  if (!statistics.regions.empty()) {
    text += "region                              steps        cycles  share  MAU    stalls\n";
    for (const Statistics::RegionUsage& region : statistics.regions) {
      const auto own = static_cast<double>(region.usage.cycles.total());
      text += fmt::format("  {:<28}{:>12}{:>14}  {:4.1f} %  {:4.1f} %  {}\n", region.path, region.usage.steps,
                          region.usage.cycles.total(), percent(own, cycles),
                          percent(region.usage.mau_cycles(), own), stalls_text(region.usage.cycles));
    }
  }
  if (!statistics.lines.empty() && lines > 0) {
    const std::vector<const Statistics::LineUsage*> order = by_cycles(statistics, lines);
    text += fmt::format("line        cycles  share  the {} lines of {} with most cycles\n", order.size(),
                        statistics.lines.size());
    for (const Statistics::LineUsage* line : order) {
      const auto own = static_cast<double>(line->cycles.total());
      std::string source = line->text();
      if (source.size() > 60) source = source.substr(0, 58) + "..";
      text += fmt::format("{:>6}{:>12}  {:4.1f} %  {}", line->line(), line->cycles.total(),
                          percent(own, cycles), source);
      if (const std::string stalls = stalls_text(line->cycles); stalls != "-")
        text += fmt::format("  ({})", stalls);
      text += '\n';
    }
  }
  return text;
}

nlohmann::ordered_json statistics_json(const Statistics& statistics) {
  using nlohmann::ordered_json;
  ordered_json result = {{"chip", statistics.chip.name},
                         {"chip_hash", statistics.chip.hash},
                         {"clock_hz", statistics.chip.clock_hz},
                         {"total", usage_json(statistics.total, statistics.chip)},
                         {"bound", statistics.bound},
                         {"dram",
                          {{"row_hits", statistics.dram_row_hits},
                           {"row_misses", statistics.dram_row_misses},
                           {"turnarounds", statistics.dram_turnarounds}}},
                         {"host_link",
                          {{"instruction_bytes", statistics.total.host_bytes},
                           {"data_bytes", statistics.host_data_bytes},
                           {"dram_cycles", statistics.host_dram_cycles}}}};
  ordered_json ports = ordered_json::array();
  for (const Statistics::PortUsage& port : statistics.ports) {
    ports.push_back({{"name", port.name},
                     {"busy_cycles", port.busy_cycles},
                     {"bytes", port.bytes},
                     {"peak_bytes_per_cycle", port.peak_bytes_per_cycle}});
  }
  result["ports"] = ports;
  ordered_json regions = ordered_json::array();
  for (const Statistics::RegionUsage& region : statistics.regions) {
    ordered_json each = usage_json(region.usage, statistics.chip);
    each["name"] = region.path;
    regions.push_back(std::move(each));
  }
  result["regions"] = regions;
  ordered_json lines = ordered_json::array();
  for (const Statistics::LineUsage* line : reported_lines(statistics)) {
    const Usage usage = line->usage(statistics.chip);
    lines.push_back({{"line", line->line()},
                     {"text", line->text()},
                     {"count", line->count},
                     {"cycles", line->cycles.total()},
                     {"cycles_by_cause", causes_json(line->cycles)},
                     {"steps", usage.steps},
                     {"transfers", usage.mvs}});
  }
  result["lines_left_out"] = statistics.lines.size() - lines.size();
  result["lines"] = lines;
  return result;
}

std::string statistics_csv(const Statistics& statistics) {
  std::string text = "scope,name,cycles";
  for (const Cause& cause : kCauses) text += fmt::format(",cycles_{}", cause.name);
  text += ",steps,transfers,l2bm_steps,l1bm_steps,mau_steps,alu_steps,empty_steps,mau_utilization";
  for (const char* name : {"dram", "pdm", "l2bm_mv", "l2bm", "l1bm_l2bm", "l1bm", "lm", "grf"})
    text += fmt::format(",{0}_read_bytes,{0}_written_bytes", name);
  text += ",roofline_cycles,roofline_resource\n";
  const auto quoted = [](const std::string& cell) {
    std::string result = "\"";
    for (const char c : cell) result += c == '"' ? std::string("\"\"") : std::string(1, c);
    return result + "\"";
  };
  const auto row = [&](const char* scope, const std::string& name, const Usage& usage) {
    text += fmt::format("{},{},{}", scope, quoted(name), usage.cycles.total());
    for (const Cause& cause : kCauses) text += fmt::format(",{}", usage.cycles.*cause.cycles);
    const auto cycles = static_cast<double>(usage.cycles.total());
    text += fmt::format(",{},{},{},{},{},{},{},{:.6g}", usage.steps, usage.mvs, usage.l2bm, usage.l1bm,
                        usage.mau, usage.alu, usage.empty, cycles > 0 ? usage.mau_cycles() / cycles : 0);
    for (size_t level = 0; level < kLevelCount; ++level)
      text += fmt::format(",{:.0f},{:.0f}", usage.read_bytes[level], usage.written_bytes[level]);
    const Roofline least = roofline(usage, statistics.chip);
    text += fmt::format(",{:.1f},{}\n", least.cycles, quoted(least.resource));
  };
  row("total", "", statistics.total);
  for (const Statistics::RegionUsage& region : statistics.regions) row("region", region.path, region.usage);
  for (const Statistics::LineUsage* line : reported_lines(statistics))
    row("line", fmt::format("{}: {}", line->line(), line->text()), line->usage(statistics.chip));
  return text;
}

}  // namespace kodama::simulator
