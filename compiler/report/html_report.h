#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

/// A run as a page: one file of HTML that works without a network.
///
/// The page is a view of what run_to_json makes. It carries that JSON, and shows no number that isn't in it:
/// each stands in a `data` element with the path to it, so that a test can compare them all. What the page is
/// made of is in the folder page/, and becomes a part of the program when it is built. Its policy (CSP) lets
/// nothing but its own script run, and nothing be asked for. Names in the JSON are nobody's: they are shown
/// as text and never read as HTML.
namespace kodama::compiler {

struct ReportSource {
  std::string name;  ///< of the file, or of the run
  /// What run_to_json makes, or dynamic_to_json of a run with a timeline (then `model`, `chip`, `precision`,
  /// `open_reason`, `milliseconds` and `comparisons` are beside it), or an array of it.
  nlohmann::ordered_json runs;
};

/// One run, or two to be compared, layer by layer. UserError, with the place in the JSON, if a source isn't
/// what `kodama run --json` writes.
std::string html_report(const std::vector<ReportSource>& sources);

/// What differs between two runs, layers matched by their names:
///
///     total     a, b, difference (b - a), ratio (b / a) of the cycles
///     layers    the same with name, and the numbers of the stages in both; null where one hasn't the layer
nlohmann::ordered_json compare_runs(const nlohmann::ordered_json& a, const nlohmann::ordered_json& b);

}  // namespace kodama::compiler
