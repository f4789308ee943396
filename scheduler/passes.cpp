#include "scheduler/passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>

#include "isa/error.h"
#include "scheduler/builtin_passes.h"
#include "scheduler/loop_expansion.h"
#include "scheduler/program_scheduling.h"
#include "scheduler/transfer_problem.h"

namespace kodama::scheduler {
namespace {

/// Function-local statics, so that a pass may register itself during static initialization of any file.
std::vector<HomeAssigner>& home_assigner_list() {
  static std::vector<HomeAssigner> list = {bank_coloring_pass()};
  return list;
}
std::vector<Coalescer>& coalescer_list() {
  static std::vector<Coalescer> list = {copy_coalescing_pass(), idle_pass<Coalescer>("keep-copies")};
  return list;
}
std::vector<Spiller>& spiller_list() {
  static std::vector<Spiller> list = {furthest_use_pass(), idle_pass<Spiller>("none")};
  return list;
}
std::vector<Allocator>& allocator_list() {
  static std::vector<Allocator> list = {linear_scan_pass(), first_fit_pass(), packed_pass()};
  return list;
}
std::vector<BlockScheduler>& scheduler_list() {
  static std::vector<BlockScheduler> list = {list_scheduler(), sequential_scheduler(), exact_scheduler(),
                                             modulo_scheduler(), acyclic_scheduler()};
  return list;
}
std::vector<TransferScheduler>& transfer_scheduler_list() {
  static std::vector<TransferScheduler> list = {keep_transfers(), prefetch_transfers(),
                                                on_demand_transfers()};
  return list;
}

/// The plugin that registers passes now; empty = none.
std::string& plugin_now() {
  static std::string file;
  return file;
}
int passes_of_plugin = 0;

template <typename Pass>
void add_plugin_pass(std::vector<Pass>& list, Pass pass, std::string_view kind) {
  const auto refuse = [&](const std::string& found, const std::string& allowed) {
    throw isa::UserError(fmt::format("--plugin {}: found {}; allowed: {}", plugin_now(), found, allowed));
  };
  if (pass.name.empty()) refuse(fmt::format("a {} without a name", kind), "every pass has one");
  if (pass.run == nullptr) refuse(fmt::format("{} '{}' without a function", kind, pass.name), "`run` is set");
  if constexpr (std::is_same_v<Pass, BlockScheduler>) {
    if (!pass.for_blocks && !pass.for_loops)
      refuse(fmt::format("scheduler '{}' for neither blocks nor loops", pass.name), "one of them, or both");
  }
  for (const Pass& other : list) {
    if (other.name != pass.name) continue;
    refuse(fmt::format("a second {} '{}' (the first is {})", kind, pass.name,
                       other.plugin.empty() ? "Kodama's own" : "of plugin " + other.plugin),
           "a name that is not taken ('kodama passes' lists those that are), and a plugin given once");
  }
  pass.plugin = plugin_now();
  list.push_back(std::move(pass));
  ++passes_of_plugin;
}

template <typename Pass>
void add_pass(std::vector<Pass>& list, Pass pass, std::string_view kind) {
  if (!plugin_now().empty()) return add_plugin_pass(list, std::move(pass), kind);
  pass.plugin.clear();
  isa::check_internal(!pass.name.empty() && pass.run != nullptr, "pass registry",
                      "a {} without name or function", kind);
  const bool taken =
      std::any_of(list.begin(), list.end(), [&](const Pass& p) { return p.name == pass.name; });
  isa::check_internal(!taken, "pass registry", "{} '{}' is registered twice", kind, pass.name);
  list.push_back(std::move(pass));
}

template <typename Pass>
const Pass& find_pass(const std::vector<Pass>& list, const std::string& name, std::string_view kind) {
  if (name.empty()) return list.front();
  std::string names;
  for (const Pass& pass : list) {
    if (pass.name == name) return pass;
    names += (names.empty() ? "" : ", ") + pass.name;
  }
  throw isa::UserError(fmt::format("found {} '{}', allowed: {}", kind, name, names));
}

std::string describe(const isa::Program& schedule) {
  const isa::ProgramCounts counts = isa::count(schedule);
  return fmt::format("{} steps, {} of them nops, {} MVs, {} instructions\n", counts.steps, counts.nops,
                     counts.mvs, counts.instructions);
}

}  // namespace

RegisteringPlugin::RegisteringPlugin(std::string file) {
  plugin_now() = std::move(file);
  passes_of_plugin = 0;
}
RegisteringPlugin::~RegisteringPlugin() {
  plugin_now().clear();
}
int RegisteringPlugin::passes() const {
  return passes_of_plugin;
}

const std::vector<HomeAssigner>& home_assigners() {
  return home_assigner_list();
}
const std::vector<Coalescer>& coalescers() {
  return coalescer_list();
}
const std::vector<Spiller>& spillers() {
  return spiller_list();
}
const std::vector<Allocator>& allocators() {
  return allocator_list();
}
const std::vector<BlockScheduler>& block_schedulers() {
  return scheduler_list();
}
void register_pass(HomeAssigner pass) {
  add_pass(home_assigner_list(), std::move(pass), "home assigner");
}
void register_pass(Coalescer pass) {
  add_pass(coalescer_list(), std::move(pass), "coalescer");
}
void register_pass(Spiller pass) {
  add_pass(spiller_list(), std::move(pass), "spiller");
}
void register_pass(Allocator pass) {
  add_pass(allocator_list(), std::move(pass), "allocator");
}
const std::vector<TransferScheduler>& transfer_schedulers() {
  return transfer_scheduler_list();
}
void register_pass(TransferScheduler pass) {
  add_pass(transfer_scheduler_list(), std::move(pass), "transfer scheduler");
}
const TransferScheduler& find_transfer_scheduler(const std::string& name) {
  return find_pass(transfer_schedulers(), name, "transfer scheduler");
}
void register_pass(BlockScheduler pass) {
  add_pass(scheduler_list(), std::move(pass), "scheduler");
}

const BlockScheduler& find_block_scheduler(std::string_view name, bool for_loop) {
  std::string names;
  for (const BlockScheduler& pass : scheduler_list()) {
    if (!(for_loop ? pass.for_loops : pass.for_blocks)) continue;
    if (name.empty() || pass.name == name) return pass;
    names += (names.empty() ? "" : ", ") + pass.name;
  }
  throw isa::UserError(
      fmt::format("found {}scheduler '{}', allowed: {}", for_loop ? "loop " : "", name, names));
}

void check_options(const PassOptions& options, const std::vector<const std::vector<PassOptionInfo>*>& known) {
  std::set<std::string> names;
  for (const auto* list : known) {
    for (const PassOptionInfo& info : *list) names.insert(info.name);
  }
  for (const auto& [name, value] : options) {
    if (names.count(name) == 0) {
      throw isa::UserError(fmt::format("found pass option '{}', allowed for the chosen passes: {}", name,
                                       names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
    }
  }
}

const PassOptionInfo kLoopCopies{
    "loop-copies", "4", "copies of a loop's body, with values of their own, where iterations overlap"};

void check_options(const PipelineChoice& choice) {
  static const std::vector<PassOptionInfo> own_options{kLoopCopies};
  check_options(choice.options, {&find_pass(coalescers(), choice.coalescer, "coalescer").options,
                                 &find_pass(home_assigners(), choice.home_assigner, "home assigner").options,
                                 &find_pass(spillers(), choice.spiller, "spiller").options,
                                 &find_pass(allocators(), choice.allocator, "allocator").options,
                                 &find_block_scheduler(choice.scheduler, false).options,
                                 &find_block_scheduler(choice.loop_scheduler, true).options,
                                 &find_transfer_scheduler(choice.transfers).options, &own_options});
}

namespace {

/// The passes of a choice, one after the other.
class Pipeline {
 public:
  Pipeline(const isa::Chip& chip, const PipelineChoice& choice, const PassDump& dump)
      : chip_(chip),
        choice_(choice),
        dump_(dump),
        coalescer_(find_pass(coalescers(), choice.coalescer, "coalescer")),
        homes_(find_pass(home_assigners(), choice.home_assigner, "home assigner")),
        spiller_(find_pass(spillers(), choice.spiller, "spiller")),
        allocator_(find_pass(allocators(), choice.allocator, "allocator")),
        scheduler_(find_block_scheduler(choice.scheduler, false)),
        loop_scheduler_(find_block_scheduler(choice.loop_scheduler, true)) {}

  isa::Program run(MachineProgram program) const {
    run_mover("coalescer", coalescer_, program, [] {});
    // Copies of loop bodies are for iterations that overlap.
    if (loop_scheduler_.overlaps) {
      MachineProgram expanded = program;
      if (expand_loops(expanded, chip_, positive_option(choice_.options, kLoopCopies))) {
        if (wanted(kExpansionDump)) dump_.write(kExpansionDump, "txt", to_string(expanded));
        verify_expansion(program, expanded, chip_);
        try {
          // Copies that don't fit are worth less than one body that does.
          return placed_and_scheduled(std::move(expanded), false);
        } catch (const isa::UnsupportedError&) {
          // No room for the copies: then without.
        }
      }
    }
    return placed_and_scheduled(std::move(program), true);
  }

 private:
  bool wanted(const std::string& point) const { return dump_.wants && dump_.wants(point); }

  /// A pass that only moves data, and the check that it did no more.
  template <typename Pass, typename Check>
  void run_mover(std::string_view kind, const Pass& pass, MachineProgram& program, const Check& check) const {
    const MachineProgram before = program;
    run_blaming(kind, pass, [&] { pass.run(program, chip_, choice_.options); });
    if (wanted(pass.name)) dump_.write(pass.name, "txt", to_string(program));
    if (program == before) return;
    run_blaming(kind, pass, [&] {
      check();
      verify_copies(before, program, chip_);
    });
  }
  /// A pass that fills something in, and its verifier.
  template <typename Pass, typename Verify>
  void run_placer(std::string_view kind, const Pass& pass, MachineProgram& program,
                  const Verify& verify) const {
    run_blaming(kind, pass, [&] { pass.run(program, chip_, choice_.options); });
    if (wanted(pass.name)) dump_.write(pass.name, "txt", to_string(program));
    run_blaming(kind, pass, [&] { verify(program, chip_); });
  }

  isa::Program placed_and_scheduled(MachineProgram program, bool spills) const {
    run_placer("home assigner", homes_, program, verify_homes);
    if (spills) run_mover("spiller", spiller_, program, [&] { verify_homes(program, chip_); });
    if (wanted(kAllocationDump)) {
      for (const PackingProblem& problem : allocation_problems(program, chip_))
        dump_.write(kAllocationDump, "json", packing_json(problem).dump(1) + "\n");
    }
    run_placer("allocator", allocator_, program, verify_allocation);

    SchedulerChoice schedulers{scheduler_.name, loop_scheduler_.name, choice_.options, {}};
    if (wanted(kProblemDump)) {
      schedulers.observe = [&](const ScheduleProblem& problem) {
        dump_.write(kProblemDump, "json", to_json(problem));
      };
    }
    isa::Program schedule = schedule_program(program, chip_, schedulers);
    if (wanted(scheduler_.name)) dump_.write(scheduler_.name, "txt", describe(schedule));
    verify_schedule(program, schedule, chip_);
    return schedule;
  }

  const isa::Chip& chip_;
  const PipelineChoice& choice_;
  const PassDump& dump_;
  const Coalescer& coalescer_;
  const HomeAssigner& homes_;
  const Spiller& spiller_;
  const Allocator& allocator_;
  const BlockScheduler& scheduler_;
  const BlockScheduler& loop_scheduler_;
};

}  // namespace

isa::Program build_program(MachineProgram program, const isa::Chip& chip, const PipelineChoice& choice,
                           const PassDump& dump) {
  check_options(choice);
  return Pipeline(chip, choice, dump).run(std::move(program));
}

}  // namespace kodama::scheduler
