#include <fmt/format.h>
#include <kodama/simulate.h>

#include <optional>
#include <sstream>

#include "assembler/assembler.h"
#include "assembler/program_file.h"
#include "isa/file.h"
#include "isa/hazards.h"
#include "library/states.h"
#include "simulator/debug/debugger.h"
#include "simulator/debug/uninitialized.h"
#include "simulator/hazard_modes.h"
#include "simulator/machine.h"
#include "simulator/thread_pool.h"

namespace kodama {

struct library::VsmState {
  std::string name;
  isa::Chip chip;
  isa::Program program;
  isa::ProgramCounts counts;
  std::optional<std::string> text;  ///< none: it is in the file

  static const VsmState& of(const VsmProgram& program) { return *program.state_; }
};

using library::VsmState;

namespace {

simulator::MachineOptions machine_options(int threads, const std::string& memory, uint64_t seed) {
  if (memory != "zero" && memory != "dirty")
    throw UserError(fmt::format("memory: found '{}', allowed: zero, dirty", memory));
  simulator::MachineOptions options;
  options.threads = threads;
  options.memory = memory == "dirty" ? simulator::MachineOptions::Memory::kDirty
                                     : simulator::MachineOptions::Memory::kZero;
  options.seed = seed;
  return options;
}

/// UserError for what can't be together.
simulator::ReportOptions checked(const SimulationSettings& settings) {
  const simulator::ReportOptions report = library::report_options(settings.files, settings.statistics);
  for (const std::string& file : {settings.files.report, settings.files.json, settings.files.outputs}) {
    if (!file.empty())
      throw UserError(
          fmt::format("SimulationSettings::files: found '{}', allowed are trace, vcd, statistics", file));
  }
  const bool stalls = simulator::parse_hazards(settings.hazards) == simulator::Hazards::kStall;
  if (stalls && settings.check_uninitialized)
    throw UserError("--hazards=stall: allowed only without --check-uninitialized");
  if (settings.check_uninitialized && report.any())
    throw UserError("--check-uninitialized: allowed only without --stats, --trace and --vcd");
  if (!settings.timing && stalls)
    throw UserError("hazards stall: allowed only with timing, in which they show");
  if (!settings.timing && report.any())
    throw UserError("statistics, trace and VCD: allowed only with timing, which they show");
  return report;
}

}  // namespace

VsmProgram VsmProgram::read(const std::string& file, const std::string& chip) {
  auto state = std::make_shared<VsmState>();
  state->name = file;
  state->chip = isa::find_chip(chip);
  state->program = assembler::read_program(file, state->chip);
  state->counts = isa::count(state->program);
  VsmProgram program;
  program.state_ = std::move(state);
  return program;
}

VsmProgram VsmProgram::from_text(const std::string& text, const std::string& chip, const std::string& name) {
  auto state = std::make_shared<VsmState>();
  state->name = name;
  state->chip = isa::find_chip(chip);
  state->program = assembler::assemble(text, name, state->chip);
  state->counts = isa::count(state->program);
  state->text = text;
  VsmProgram program;
  program.state_ = std::move(state);
  return program;
}

const std::string& VsmProgram::name() const {
  return state_->name;
}
const std::string& VsmProgram::chip() const {
  return state_->chip.name;
}
int64_t VsmProgram::steps() const {
  return state_->counts.steps;
}
int64_t VsmProgram::transfers() const {
  return state_->counts.mvs;
}
std::vector<std::string> VsmProgram::hazards() const {
  std::vector<std::string> texts;
  for (const isa::HazardViolation& each : isa::find_hazards(state_->program, state_->chip))
    texts.push_back(fmt::format("line {}: {}", each.second_line, each.text));
  return texts;
}

std::string Simulation::summary() const {
  return fmt::format("{} steps ({} nop), {} MV transfers{}", steps, nops, transfers,
                     is_timed ? fmt::format(", {} cycles ({} waiting)", cycles, waiting) : "");
}

Simulation simulate(const VsmProgram& program, const SimulationSettings& settings,
                    const std::function<void(const Simulation&)>& ready) {
  const VsmState& state = VsmState::of(program);
  const simulator::ReportOptions wanted = checked(settings);
  simulator::Machine machine(state.chip, machine_options(settings.threads, settings.memory, settings.seed));
  simulator::RunOptions options;
  options.timing = settings.timing;
  options.hazards = simulator::parse_hazards(settings.hazards);
  simulator::RunReport report(state.chip, wanted);
  if (wanted.any()) report.attach("", options);
  Simulation result;
  options.dump =
      settings.dump ? settings.dump : [&](const std::string& line) { result.dump.push_back(line); };
  if (settings.progress) {
    options.progress = [&](int64_t steps) {
      settings.progress(
          static_cast<double>(steps) / static_cast<double>(std::max<int64_t>(state.counts.steps, 1)), "");
    };
  }
  std::optional<simulator::InitializationTracker> tracker;
  if (settings.check_uninitialized) {
    tracker.emplace(machine);
    options.before_statement = [&](const isa::Statement& statement) {
      tracker->before(statement);
      return true;
    };
  }
  const simulator::RunStats stats = machine.run(state.program, options);
  result.steps = stats.steps;
  result.nops = stats.nops;
  result.transfers = stats.mvs;
  result.is_timed = settings.timing;
  result.cycles = stats.causes.total();
  result.waiting = stats.causes.wait + stats.causes.mv_queue + stats.causes.drain;
  if (tracker) result.uninitialized = tracker->reports();
  if (ready) ready(result);
  std::ostringstream statistics;
  report.finish(statistics);
  result.statistics = std::move(statistics).str();
  return result;
}

std::vector<SimulationOfMany> simulate_many(const std::vector<std::string>& files, const std::string& chip,
                                            int jobs, const SimulationSettings& settings) {
  if (checked(settings).any() || settings.dump)
    throw UserError("simulate_many: allowed only without files, statistics and a function for dumps");
  if (jobs < 1) throw UserError(fmt::format("jobs {}: allowed from 1 on", jobs));
  isa::find_chip(chip);
  std::vector<SimulationOfMany> all(files.size());
  simulator::ThreadPool pool(jobs);
  pool.run(static_cast<int>(files.size()), [&](int k, int) {
    SimulationOfMany& each = all[static_cast<size_t>(k)];
    each.file = files[static_cast<size_t>(k)];
    SimulationSettings own = settings;
    // What was dumped before an error stays.
    own.dump = [&each](const std::string& line) { each.simulation.dump.push_back(line); };
    try {
      Simulation done = simulate(VsmProgram::read(each.file, chip), own);
      done.dump = std::move(each.simulation.dump);
      each.simulation = std::move(done);
    } catch (...) {
      each.error = std::current_exception();
    }
  });
  return all;
}

void debug(const VsmProgram& program, std::istream& in, std::ostream& out, const DebugSettings& settings) {
  const VsmState& state = VsmState::of(program);
  simulator::DebuggerOptions options;
  options.stop_at_start = settings.stop_at_start;
  options.breakpoints = settings.breakpoints;
  options.watches = settings.watches;
  options.prompt = settings.prompt;
  options.source = state.text ? *state.text : isa::read_file(state.name);
  options.machine = machine_options(settings.threads, settings.memory, settings.seed);
  simulator::debug_program(state.program, state.chip, options, in, out);
}

}  // namespace kodama
