#pragma once

#include <iosfwd>
#include <nlohmann/json.hpp>

#include "compiler/dynamic/dynamic_executor.h"

namespace kodama::compiler {

/// A row per region and per node on the host, then totals, then why which part is on the host.
void print_dynamic_report(const DynamicOutcome& outcome, std::ostream& out);
/// With the timeline of the run's report also every program that ran, each as run_to_json has it: what
/// html_report makes a page of.
nlohmann::ordered_json dynamic_to_json(const DynamicOutcome& outcome,
                                       const simulator::Timeline* timeline = nullptr);

}  // namespace kodama::compiler
