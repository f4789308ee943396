#include "scheduler/passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <type_traits>

#include "isa/error.h"
#include "scheduler/builtin_passes.h"
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
const HomeAssigner& find_home_assigner(const std::string& name) {
  return find_pass(home_assigners(), name, "home assigner");
}
const Coalescer& find_coalescer(const std::string& name) {
  return find_pass(coalescers(), name, "coalescer");
}
const Spiller& find_spiller(const std::string& name) {
  return find_pass(spillers(), name, "spiller");
}
const Allocator& find_allocator(const std::string& name) {
  return find_pass(allocators(), name, "allocator");
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

}  // namespace kodama::scheduler
