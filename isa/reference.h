#pragma once

#include <map>
#include <string>

#include "isa/chip.h"

/// The reference of the instruction set, made from the instruction table and the cost tables: Markdown pages
/// by file name. `index.md` lists the instructions by issue group, `hazards.md` the distances between steps,
/// and every row of the table has a page: syntax, operands, effect, precisions, flags, rates, what it
/// touches, source and certainty.
namespace kodama::isa {

/// Rates and distances are those of `chip`.
std::map<std::string, std::string> reference_pages(const Chip& chip);

}  // namespace kodama::isa
