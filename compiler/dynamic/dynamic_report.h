#pragma once

#include <iosfwd>
#include <nlohmann/json.hpp>

#include "compiler/dynamic/dynamic_executor.h"

namespace kodama::compiler {

/// A row per region and per node on the host, then totals, then why which part is on the host.
void print_dynamic_report(const DynamicOutcome& outcome, std::ostream& out);
nlohmann::ordered_json dynamic_to_json(const DynamicOutcome& outcome);

}  // namespace kodama::compiler
