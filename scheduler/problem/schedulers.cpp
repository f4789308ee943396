#include "passes/registry.h"
#include "scheduler/problem/builtin_schedulers.h"

namespace kodama::scheduler {
namespace {

passes::Registry<BlockScheduler>& blocks() {
  static passes::Registry<BlockScheduler> all(
      "scheduler",
      {list_scheduler(), sequential_scheduler(), exact_scheduler(), modulo_scheduler(), acyclic_scheduler()},
      [](const BlockScheduler& pass) -> std::pair<std::string, std::string> {
        if (pass.for_blocks || pass.for_loops) return {};
        return {"for neither blocks nor loops", "one of them, or both"};
      });
  return all;
}
passes::Registry<TransferScheduler>& transfers() {
  static passes::Registry<TransferScheduler> all(
      "transfer scheduler", {keep_transfers(), prefetch_transfers(), on_demand_transfers()});
  return all;
}

}  // namespace

const std::vector<BlockScheduler>& block_schedulers() {
  return blocks().all();
}
void register_pass(BlockScheduler scheduler) {
  blocks().add(std::move(scheduler));
}
const BlockScheduler& find_block_scheduler(std::string_view name, bool for_loop) {
  return blocks().find(name, for_loop ? "loop scheduler" : "scheduler", [&](const BlockScheduler& pass) {
    return for_loop ? pass.for_loops : pass.for_blocks;
  });
}
const std::vector<TransferScheduler>& transfer_schedulers() {
  return transfers().all();
}
void register_pass(TransferScheduler scheduler) {
  transfers().add(std::move(scheduler));
}
const TransferScheduler& find_transfer_scheduler(const std::string& name) {
  return transfers().find(name);
}

}  // namespace kodama::scheduler
