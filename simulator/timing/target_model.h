#pragma once

#include <memory>
#include <string>

#include "isa/dram_model.h"
#include "simulator/timing/dram_target.h"

namespace kodama::simulator::timing {

/// A plugin's target, in the current SystemC context. PassError when the plugin makes none.
std::unique_ptr<DramTarget> make_target(const DramTargetKind& kind, const std::string& module,
                                        const isa::Chip& chip);

}  // namespace kodama::simulator::timing
