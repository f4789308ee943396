#include "checks/optimizer_suite.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>
#include <set>

#include "assembler/assembler.h"
#include "assembler/random_program.h"
#include "isa/costs.h"
#include "isa/error.h"
#include "isa/file.h"
#include "isa/hazards.h"
#include "isa/output.h"
#include "passes/registry.h"
#include "scheduler/optimizer/program_problems.h"
#include "scheduler/optimizer/stream_changes.h"
#include "scheduler/problem/schedule_problem.h"
#include "simulator/debug/equivalence.h"
#include "simulator/debug/judge.h"

namespace kodama::checks {
namespace {

namespace fs = std::filesystem;
using isa::HazardResource;
using isa::Space;

/// A place as the simulator counts it, in the terms of live-outs.
std::pair<HazardResource, int64_t> live_place(Space space, int64_t address) {
  switch (space) {
    case Space::kLm0:
      return {HazardResource::kLm0, address};
    case Space::kLm1:
      return {HazardResource::kLm1, address};
    case Space::kGrf0:
      return {HazardResource::kGrf0, address};
    case Space::kGrf1:
      return {HazardResource::kGrf1, address};
    case Space::kT:
      return {HazardResource::kT, address % isa::kCyclesPerStep};
    case Space::kOmr:
      return {HazardResource::kMask, address / isa::kCyclesPerStep};
    case Space::kBar0:
      return {HazardResource::kBar0, address};
    case Space::kBar1:
      return {HazardResource::kBar1, address};
    case Space::kMatX:
      return {HazardResource::kMatX, address / isa::kPePerMab};
    case Space::kMatY:
      return {HazardResource::kMatY, address / isa::kPePerMab};
    case Space::kL1bm:
      return {HazardResource::kL1bm, address};
    case Space::kL2bm:
      return {HazardResource::kL2bm, address};
    case Space::kDar:
      return {HazardResource::kDar, address};
    case Space::kPdm:
      return {HazardResource::kPdm, address};
    default:
      return {HazardResource::kDram, address};
  }
}

simulator::EquivalenceOptions comparison(const scheduler::OptimizeOptions& options, int seeds) {
  simulator::EquivalenceOptions result;
  result.seeds = seeds;
  if (!options.live_outs) return result;
  result.zero_bases = std::ranges::any_of(*options.live_outs, [](const scheduler::LiveOut& live) {
    const bool lm = live.memory == HazardResource::kLm0 || live.memory == HazardResource::kLm1;
    return lm && (live.begin > 0 || live.end < INT64_MAX);
  });
  result.counts = [live = *options.live_outs](Space space, int64_t address) {
    const std::pair<HazardResource, int64_t> place = live_place(space, address);
    if (place.first == HazardResource::kDram || place.first == HazardResource::kPdm ||
        place.first == HazardResource::kDar)
      return true;
    // A long word counts when all of it does.
    const int64_t end = place.second + (isa::is_pe_memory(space) ? isa::kWordsPerLong : 1);
    return std::ranges::any_of(live, [&](const scheduler::LiveOut& range) {
      return range.memory == place.first && range.begin <= place.second && end <= range.end;
    });
  };
  return result;
}

/// What a program must be besides equal.
void check_form(const isa::Program& program, const isa::Chip& chip) {
  try {
    assembler::assemble(assembler::print(program), "the optimized program", chip);
  } catch (const isa::UserError& error) {
    throw isa::InternalError(
        fmt::format("internal error in optimizer: {}, in\n{}", error.what(), assembler::print(program)));
  }
}

int64_t changes_made(const scheduler::Optimized& result, const std::string& kind) {
  const auto found = result.changes.find(kind);
  return found == result.changes.end() ? 0 : found->second;
}

/// PassError when the result is wrong, right without the changes of plugins, and wrong with those of one.
void blame_plugins(const isa::Program& program, const isa::Chip& chip,
                   const scheduler::OptimizeOptions& options, const scheduler::Optimized& result,
                   const simulator::EquivalenceOptions& equal) {
  std::vector<const scheduler::ChangeKind*> foreign;
  for (const scheduler::ChangeKind& kind : scheduler::change_kinds()) {
    if (!kind.plugin.empty() && changes_made(result, kind.name) > 0) foreign.push_back(&kind);
  }
  const auto fault_of = [&](const isa::Program& after) -> std::string {
    try {
      check_form(after, chip);
    } catch (const isa::InternalError& error) {
      return error.what();
    }
    return simulator::compare_programs(program, after, chip, equal).difference;
  };
  if (foreign.empty() || fault_of(result.program).empty()) return;
  const auto fault_with = [&](const scheduler::ChangeKind* only) {
    scheduler::OptimizeOptions fewer = options;
    for (const scheduler::ChangeKind* kind : foreign) {
      if (kind != only) fewer.left_out.insert(kind->name);
    }
    return fault_of(scheduler::optimize(program, chip, fewer).program);
  };
  if (!fault_with(nullptr).empty()) return;
  for (const scheduler::ChangeKind* kind : foreign) {
    const std::string fault = fault_with(kind);
    if (!fault.empty())
      passes::blame("opt change", *kind, fmt::format("the program does something else with it: {}", fault));
  }
}

void check_equal(const isa::Program& before, const isa::Program& after, const isa::Chip& chip,
                 const simulator::EquivalenceOptions& options, const std::string& reproduce) {
  check_form(after, chip);
  const simulator::EquivalenceResult result = simulator::compare_programs(before, after, chip, options);
  if (!result.difference.empty()) {
    throw isa::InternalError(
        fmt::format("internal error in optimizer: the result does something else: {}; nothing is written. "
                    "Reproduced by: {}",
                    result.difference, reproduce));
  }
  if (result.compared == 0) {
    throw isa::UserError(
        fmt::format("the program can't be run to its end, so nothing can be compared: {}", result.refused));
  }
}

}  // namespace

scheduler::Optimized optimize_checked(const isa::Program& program, const isa::Chip& chip,
                                      const scheduler::OptimizeOptions& options, const std::string& reproduce,
                                      int seeds) {
  scheduler::Optimized result = scheduler::optimize(program, chip, options);
  if (!result.is_better) return result;
  const simulator::EquivalenceOptions equal = comparison(options, seeds);
  blame_plugins(program, chip, options, result, equal);
  check_equal(program, result.program, chip, equal, reproduce);
  return result;
}

isa::Program plain_checked(const isa::Program& program, const isa::Chip& chip, const std::string& reproduce,
                           int seeds) {
  isa::Program result = scheduler::plain_form(program, chip);
  check_equal(program, result, chip, comparison({}, seeds), reproduce);
  return result;
}

std::string write_plain_problems(const isa::Program& program, const std::string& file,
                                 const std::string& directory, const isa::Chip& chip) {
  const isa::Program plain = plain_checked(program, chip, "kodama opt --plain " + file);
  const std::string name = fs::path(file).stem().string();
  const scheduler::ProgramProblems found = scheduler::program_problems(plain, name, chip);
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) throw isa::UserError(fmt::format("{}: can't be made: {}", directory, error.message()));
  size_t operations = 0;
  for (const scheduler::ScheduleProblem& problem : found.problems) {
    const std::string number = problem.name.substr(name.size() + 1);
    isa::write_output((fs::path(directory) / fmt::format("{}_{}.json", name, number)).string(),
                      scheduler::to_json(problem));
    operations += problem.operations.size();
  }
  return fmt::format("{} problems of {} operations in {}, {} segments skipped\n", found.problems.size(),
                     operations, directory, found.skipped);
}

std::string optimizer_report(const scheduler::Optimized& result) {
  const auto ratio = [](int64_t a, int64_t b) {
    return b > 0 ? static_cast<double>(a) / static_cast<double>(b) : 1.0;
  };
  const scheduler::StepBounds& bounds = result.bounds;
  std::string text = fmt::format("{} steps before, {} after: {:.2f} times fewer\n", result.steps_before,
                                 result.steps_after, ratio(result.steps_before, result.steps_after));
  text += fmt::format("{} cycles before, {} after: {:.2f} times fewer\n", result.cycles_before,
                      result.cycles_after, ratio(result.cycles_before, result.cycles_after));
  text += fmt::format("bounds: longest path {}", bounds.critical_path);
  if (bounds.unit > 0) text += fmt::format(", busiest unit {} ({})", bounds.unit, bounds.unit_name);
  if (bounds.port > 0) text += fmt::format(", busiest port {} ({})", bounds.port, bounds.port_name);
  const int64_t steps = result.steps_after - result.untouched_steps;
  text += fmt::format("; {} steps are {:.2f} times the bound of {}\n", steps, ratio(steps, bounds.steps),
                      bounds.steps);
  if (result.is_better) {
    text += fmt::format("{} reads forwarded, {} operations removed, {} values renamed",
                        changes_made(result, "forward"), result.removed, changes_made(result, "rename"));
    for (const scheduler::ChangeKind& kind : scheduler::change_kinds()) {
      const int64_t count = changes_made(result, kind.name);
      if (!kind.plugin.empty() && count > 0) text += fmt::format(", {} by '{}'", count, kind.name);
    }
    text += "\n";
  } else {
    text += "nothing better was found: the program is left as it is\n";
  }
  if (result.untouched > 0) {
    text += fmt::format("outside the bound: {} segments of {} steps were left as they are\n",
                        result.untouched, result.untouched_steps);
  }
  return text;
}

OptimizerSuiteResult optimize_judge_tree(const std::string& directory, const std::string& chip_name,
                                         const scheduler::OptimizeOptions& given) {
  scheduler::OptimizeOptions options = given;
  options.objective = scheduler::Objective::kSteps;  // which is what judges count
  std::set<fs::path> problems;
  std::error_code error;
  for (fs::recursive_directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename() == "answer.vsm") problems.insert(it->path().parent_path());
  }
  if (error) throw isa::UserError(fmt::format("{}: can't be read: {}", directory, error.message()));
  if (problems.empty())
    throw isa::UserError(directory + ": holds no problem, which is a directory with an answer.vsm");

  const isa::Chip chip = isa::find_chip(chip_name);
  OptimizerSuiteResult result;
  size_t width = std::string_view("problem").size();
  for (const fs::path& problem : problems)
    width = std::max(width, problem.lexically_relative(directory).string().size());
  result.table = fmt::format("{:<{}} {:>6} {:>6} {:>6} {:>9} {:>6}  {}\n", "problem", width, "answer",
                             "plain", "bound", "optimized", "ratio", "verdict");
  double logarithms = 0;
  double bound_logarithms = 0;
  for (const fs::path& problem : problems) {
    const std::string file = (problem / "answer.vsm").string();
    const isa::Program answer = assembler::assemble_file(file, chip);
    const isa::Program plain = plain_checked(answer, chip, "kodama opt --plain " + file, 2);
    const scheduler::Optimized optimized = optimize_checked(plain, chip, options, "kodama opt " + file, 2);
    const int64_t steps = isa::count(plain).steps;
    std::string verdict;
    for (const auto& entry : fs::directory_iterator(problem)) {
      if (entry.path().extension() != ".vsm" || entry.path().filename() == "answer.vsm") continue;
      simulator::JudgeOptions judge;
      judge.chip = chip_name;
      const std::string test = entry.path().string();
      const auto found =
          simulator::judge(isa::read_file(test), test, assembler::print(optimized.program), file, judge);
      if (!found.accepted) verdict = "WRONG ANSWER";
    }
    if (verdict.empty() && optimized.steps_after > steps) verdict = "longer";
    if (!verdict.empty()) ++result.failures;
    const auto ratio_to = [&](int64_t after) {
      return static_cast<double>(std::max<int64_t>(steps, 1)) /
             static_cast<double>(std::max<int64_t>(after, 1));
    };
    logarithms += std::log(ratio_to(optimized.steps_after));
    // What is left as it is might be shorter; the bound of it is not known.
    const int64_t bound = optimized.bounds.steps + optimized.untouched_steps;
    bound_logarithms += std::log(ratio_to(bound));
    result.table += fmt::format("{:<{}} {:>6} {:>6} {:>6} {:>9} {:>6.2f}  {}\n",
                                problem.lexically_relative(directory).string(), width,
                                isa::count(answer).steps, steps, bound, optimized.steps_after,
                                ratio_to(optimized.steps_after), verdict.empty() ? "ACCEPTED" : verdict);
  }
  const auto count = static_cast<double>(problems.size());
  result.geometric_mean = std::exp(logarithms / count);
  result.table += fmt::format(
      "{} problems, geometric mean of the ratios {:.3f} (at the bounds it would be {:.3f}), {} failures\n",
      problems.size(), result.geometric_mean, std::exp(bound_logarithms / count), result.failures);
  return result;
}

// ---- fuzzing --------------------------------------------------------------------------------------------

namespace {

/// A random program, statement by statement: what would be a hazard is put off by nops, waited for or left
/// out.
class SoundProgram {
 public:
  SoundProgram(const isa::Chip& chip, uint64_t seed)
      : chip_(chip), random_(chip, seed, options(seed)), engine_(seed ^ 0x9e3779b97f4a7c15) {
    program_.source_name = "random";
  }

  isa::Program run(int statements) {
    for (int k = 0; k < statements; ++k) {
      isa::Statement next = random_.statement();
      if (std::holds_alternative<isa::Nop>(next.kind)) next.kind = isa::Nop{1 + below(3), 0};
      if (auto* step = std::get_if<isa::Step>(&next.kind)) {
        std::erase_if(step->instructions.own(), [](const isa::Instruction& instruction) {
          return instruction.opcode == isa::Opcode::kWait;
        });
        connect(*step);
      }
      if (auto* mv = std::get_if<isa::Mv>(&next.kind)) {
        for (int tries = 0; tries < 100 && !is_inside(mv->instruction); ++tries)
          mv->instruction = random_.instruction(true);
        if (!is_inside(mv->instruction)) continue;
        if (mv->instruction.size_lw > 0) mv->instruction.tag = static_cast<int8_t>(1 + below(8));
      }
      add(std::move(next));
    }
    for (const int tag : std::set<int>(open_)) add_wait(tag);
    return std::move(program_);
  }

 private:
  static assembler::RandomOptions options(uint64_t seed) {
    assembler::RandomOptions options;
    options.address_window = 16;
    if (seed % 4 < 2) return options;
    // Plain arithmetic, in which results are read again; otherwise masks and far memories leave little to
    // change.
    options.transfers = seed % 4 == 2;
    options.mask_statements = false;
    options.accept = [](const isa::Instruction& instruction) {
      const isa::IssueGroup group = isa::issue_group(instruction);
      if (group == isa::IssueGroup::kMv) return true;
      if (group == isa::IssueGroup::kNoForward || group == isa::IssueGroup::kL2bm ||
          group == isa::IssueGroup::kL2bmDarw)
        return false;
      const auto is_plain = [](const isa::Operand& operand) {
        if (operand.mask.kind != isa::Mask::Kind::kNone || operand.t_indirect || operand.j >= 0) return false;
        if (operand.space == Space::kBar0 || operand.space == Space::kBar1) return false;
        return !isa::is_pe_memory(operand.space) || operand.width != isa::Width::kWord;
      };
      return std::ranges::all_of(instruction.sources, is_plain) &&
             std::ranges::all_of(instruction.destinations, is_plain);
    };
    return options;
  }
  int64_t below(int64_t limit) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(limit)); }

  /// Whether a transfer stays inside its memories, which shows at run time only.
  bool is_inside(const isa::Instruction& mv) const {
    return std::ranges::all_of(isa::transfer_parts(mv, chip_), [&](const isa::TransferPart& part) {
      switch (part.port) {
        case isa::TransferPort::kDram:
          return part.indirect || part.address + part.lw <= chip_.memory.dram_lw;
        case isa::TransferPort::kPdmRead:
        case isa::TransferPort::kPdmWrite:
          return part.address + part.lw <= chip_.memory.pdm_lw;
        case isa::TransferPort::kL2bmRead:
        case isa::TransferPort::kL2bmWrite:
          return part.address + part.lw <= chip_.memory.l2bm_lw;
        case isa::TransferPort::kGroupPath:
          return true;
      }
      return true;
    });
  }
  /// Lets sources read what a recent step has written, or the forwarding registers.
  void connect(isa::Step& step) {
    for (isa::Instruction& instruction : step.instructions.own()) {
      for (isa::Operand& source : instruction.sources) {
        if (!isa::is_pe_memory(source.space) || below(3) != 0) continue;
        isa::Instruction changed = instruction;
        isa::Operand& target = changed.sources[static_cast<size_t>(&source - instruction.sources.data())];
        if (below(3) == 0) {
          const Space registers[] = {Space::kAluf, Space::kMauf, Space::kLbf, Space::kMreadf};
          isa::Operand forward;
          forward.space = registers[below(4)];
          forward.negate = source.negate;
          target = forward;
        } else if (!written_.empty()) {
          const isa::Operand& recent = written_[written_.size() - 1 -
                                                static_cast<size_t>(below(std::min<int64_t>(
                                                    3, static_cast<int64_t>(written_.size()))))];
          const bool negate = source.negate;
          target = recent;
          target.mask = {};
          target.negate = negate;
        }
        isa::Step whole = step;
        whole.instructions.own()[static_cast<size_t>(&instruction - step.instructions.data())] = changed;
        if (is_legal({isa::Statement{whole}})) instruction = changed;
      }
    }
  }
  bool is_legal(const isa::Statement& statement) const {
    try {
      assembler::check_statement(statement, chip_, {});
      return true;
    } catch (const isa::UserError&) {
      return false;
    }
  }

  bool is_sound() const { return isa::find_hazards(program_, chip_).empty(); }
  void add_wait(int tag) {
    program_.statements.push_back({isa::Nop{1, static_cast<int8_t>(tag)}, line()});
    open_.erase(tag);
  }
  int32_t line() const { return static_cast<int32_t>(program_.statements.size()) + 1; }

  void add(isa::Statement next) {
    const isa::Program before = program_;
    const std::set<int> open = open_;
    // Transfers are waited for now and then, or when something needs it.
    if (const auto* mv = std::get_if<isa::Mv>(&next.kind);
        mv != nullptr && open_.contains(mv->instruction.tag))
      add_wait(mv->instruction.tag);
    for (const bool wait : {false, true}) {
      if (wait) {
        for (const int tag : std::set<int>(open_)) add_wait(tag);
      }
      for (int nops = 0; nops <= 6; ++nops) {
        program_.statements.push_back({next.kind, line()});
        if (is_sound()) {
          remember(next);
          return;
        }
        program_.statements.back() = {isa::Nop{1, 0}, line() - 1};
      }
    }
    program_ = before;
    open_ = open;
  }
  void remember(const isa::Statement& statement) {
    if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) {
      if (mv->instruction.tag > 0) open_.insert(mv->instruction.tag);
    }
    const auto* step = std::get_if<isa::Step>(&statement.kind);
    if (step == nullptr) return;
    for (const isa::Instruction& instruction : step->instructions) {
      for (const isa::Operand& destination : instruction.destinations) {
        if (isa::is_pe_memory(destination.space) || destination.space == Space::kT)
          written_.push_back(destination);
      }
    }
  }

  const isa::Chip& chip_;
  assembler::RandomProgram random_;
  std::mt19937_64 engine_;
  isa::Program program_;
  std::set<int> open_;  ///< tags of transfers that nobody has waited for
  std::vector<isa::Operand> written_;
};

}  // namespace

isa::Program random_sound_program(const isa::Chip& chip, uint64_t seed, int statements) {
  return SoundProgram(chip, seed).run(statements);
}

OptimizerFuzzResult fuzz_optimizer(const OptimizerFuzzOptions& options) {
  OptimizerFuzzResult result;
  for (int64_t k = 0; k < options.programs; ++k) {
    const uint64_t seed = options.seed + static_cast<uint64_t>(k);
    const isa::Program program =
        random_sound_program(options.chip, seed, 8 + static_cast<int>(seed * 7 % 25));
    scheduler::OptimizeOptions choice;
    choice.effort = 4;
    choice.allow_rename = seed % 2 == 0;
    choice.eager = seed / 4 % 2 == 0;
    std::string live = "none";
    if (seed % 3 == 0) {
      const char* lists[] = {"lm0,lm1", "grf0:0-7,t,masks", "dram,pdm", "lm1:0-15,l1bm,l2bm,matx"};
      live = lists[seed / 3 % 4];
      choice.live_outs = scheduler::parse_live_outs(live);
    }
    try {
      const std::string form = assembler::print(program);
      const isa::Program plain = scheduler::plain_form(program, options.chip);
      check_form(plain, options.chip);
      const auto of_plain = simulator::compare_programs(program, plain, options.chip, comparison({}, 1));
      if (!of_plain.difference.empty()) {
        throw isa::InternalError(
            fmt::format("the plain form: {}\n{}", of_plain.difference, assembler::print(plain)));
      }
      const scheduler::Optimized optimized = scheduler::optimize(program, options.chip, choice);
      auto equal = comparison(choice, 2);
      equal.first_seed = seed;
      blame_plugins(program, options.chip, choice, optimized, equal);
      check_form(optimized.program, options.chip);
      const auto compared = simulator::compare_programs(program, optimized.program, options.chip, equal);
      if (!compared.difference.empty()) {
        throw isa::InternalError(fmt::format("live-outs {}: {}\n{}\nbecame\n{}", live, compared.difference,
                                             form, assembler::print(optimized.program)));
      }
      if (compared.compared == 0) ++result.refused;
      if (optimized.cycles_after > optimized.cycles_before && !choice.eager)
        throw isa::InternalError("more cycles than before:\n" + form);
      result.steps_before += optimized.steps_before;
      result.steps_after += optimized.steps_after;
      result.forwarded += changes_made(optimized, "forward");
      result.removed += optimized.removed;
      result.renamed += changes_made(optimized, "rename");
    } catch (const isa::Error& error) {
      result.failed_seed = seed;
      result.failure = fmt::format("{}\nof the program\n{}", error.what(), assembler::print(program));
      return result;
    }
    ++result.programs;
    if (options.progress) options.progress(k + 1);
  }
  return result;
}

}  // namespace kodama::checks
