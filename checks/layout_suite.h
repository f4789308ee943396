#pragma once

#include <string>
#include <vector>

#include "isa/chip.h"
#include "layout/search/conversion.h"

/// The suite of conversions, `kodama layout bench`.
///
/// A line of the suite's file is `kind | what | from | to | shape | type`; `#` starts a comment.
namespace kodama::checks {

struct LayoutSuiteEntry {
  std::string kind;
  std::string what;
  layout::ConversionProblem problem;
  std::string type;
};
/// UserError with file and line.
std::vector<LayoutSuiteEntry> read_layout_suite(const std::string& file);

struct LayoutBenchOptions {
  std::string suite;
  std::string kind;       ///< only entries of this kind; empty = all
  bool check = false;     ///< run on the simulator and check every element
  bool markdown = false;  ///< a table for docs
};
struct LayoutBenchResult {
  std::string table;
  int64_t failures = 0;  ///< conversions that there is no program for, or whose program is wrong
};
LayoutBenchResult run_layout_bench(const LayoutBenchOptions& options, const isa::Chip& chip);

}  // namespace kodama::checks
