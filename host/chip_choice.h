#pragma once

#include "isa/chip.h"

namespace kodama::host {

/// The chip that KODAMA_CHIP names, or mncore2: a file, or a name, looked for in KODAMA_CONFIG_DIR, the share
/// folder beside the library, and where isa::find_chip looks; mncore2 is there always. UserError as
/// find_chip.
isa::Chip chosen_chip();

}  // namespace kodama::host
