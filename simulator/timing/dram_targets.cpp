#include "passes/registry.h"
#include "simulator/timing/chip_timing.h"
#include "simulator/timing/dram_target.h"

namespace kodama::simulator {
namespace {

passes::Registry<DramTargetKind>& registry() {
  static passes::Registry<DramTargetKind> all(
      "DRAM model", {}, [](const DramTargetKind& kind) -> std::pair<std::string, std::string> {
        for (const isa::DramModelKind& model : isa::dram_models()) {
          if (model.name == kind.name && model.plugin.empty())
            return {"that Kodama has itself", "a name that 'kodama passes' doesn't list"};
        }
        return {};
      });
  return all;
}

}  // namespace

const std::vector<DramTargetKind>& dram_targets() {
  return registry().all();
}

void register_pass(DramTargetKind kind) {
  registry().add(std::move(kind));
  const DramTargetKind& added = registry().all().back();
  isa::DramModelKind model;
  model.name = added.name;
  model.description = added.description;
  model.plugin = added.plugin;
  model.run = [added](const isa::Chip& chip) { return timing::target_model(added, chip); };
  isa::add_dram_model(std::move(model));
}

}  // namespace kodama::simulator
