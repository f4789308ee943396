#include "checks/layout_suite.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <set>

#include "checks/layout_check.h"
#include "isa/error.h"

namespace kodama::checks {
namespace {

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\r") - first + 1));
}

int bits_of_type(const std::string& type) {
  if (type == "double") return 64;
  if (type == "float") return 32;
  if (type == "half") return 16;
  throw isa::UserError(fmt::format("type '{}', allowed: double, float, half", type));
}

layout::Lengths lengths_of(const std::string& text) {
  layout::Lengths lengths;
  size_t at = 0;
  while (at <= text.size()) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string number = trimmed(std::string_view(text).substr(at, end - at));
    int64_t length = 0;
    const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), length);
    if (error != std::errc() || stop != number.data() + number.size())
      throw isa::UserError(fmt::format("length '{}', allowed: numbers, as 4,6", number));
    lengths.push_back(length);
    at = end + 1;
  }
  return lengths;
}

}  // namespace

std::vector<LayoutSuiteEntry> read_layout_suite(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw isa::UserError(fmt::format("{}: can't be read", file));
  std::vector<LayoutSuiteEntry> entries;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const std::string text = trimmed(line.substr(0, line.find('#')));
    if (text.empty()) continue;
    std::vector<std::string> fields;
    size_t at = 0;
    while (at <= text.size()) {
      const size_t end = std::min(text.find('|', at), text.size());
      fields.push_back(trimmed(std::string_view(text).substr(at, end - at)));
      at = end + 1;
    }
    try {
      if (fields.size() != 6)
        throw isa::UserError(
            fmt::format("{} fields, allowed: kind | what | from | to | shape | type", fields.size()));
      LayoutSuiteEntry entry;
      entry.kind = fields[0];
      entry.what = fields[1];
      entry.problem = {layout::Layout::parse(fields[2]), layout::Layout::parse(fields[3]),
                       lengths_of(fields[4]), bits_of_type(fields[5])};
      entry.type = fields[5];
      entries.push_back(std::move(entry));
    } catch (const isa::UserError& error) {
      throw isa::UserError(isa::SourceLocation{file, number, 0}, error.what());
    }
  }
  return entries;
}

LayoutBenchResult run_layout_bench(const LayoutBenchOptions& options, const isa::Chip& chip) {
  LayoutBenchResult result;
  double log_sum = 0;
  double worst = 0;
  double longest = 0;
  int64_t count = 0;
  int64_t cycles = 0;
  double bounds = 0;
  std::string worst_name;
  if (options.markdown) {
    result.table += "| kind | what | shape | bits | path | cycles | bound | ratio |\n";
    result.table += "| --- | --- | --- | --- | --- | --- | --- | --- |\n";
  }
  const std::vector<LayoutSuiteEntry> suite = read_layout_suite(options.suite);
  if (suite.empty()) throw isa::UserError(fmt::format("{}: holds no conversions", options.suite));
  std::set<std::string> kinds;
  for (const LayoutSuiteEntry& entry : suite) kinds.insert(entry.kind);
  if (!options.kind.empty() && !kinds.contains(options.kind))
    throw isa::UserError(fmt::format("found kind '{}', allowed: {}", options.kind, fmt::join(kinds, ", ")));
  for (const LayoutSuiteEntry& entry : suite) {
    if (!options.kind.empty() && entry.kind != options.kind) continue;
    const std::string shape = fmt::format("{}", fmt::join(entry.problem.lengths, "x"));
    std::string failure;
    layout::Conversion conversion;
    try {
      conversion = layout::convert(entry.problem, chip);
      longest = std::max(longest, conversion.search_seconds);
      if (options.check || !conversion.from_plugins.empty())
        failure = conversion_difference(entry.problem, conversion, chip, 1);
    } catch (const isa::Error& error) {
      failure = error.what();
    }
    if (!failure.empty()) {
      ++result.failures;
      result.table += fmt::format("{}, {} ({}): {}\n", entry.kind, entry.what, shape, failure);
      continue;
    }
    const double ratio = conversion.ratio();
    ++count;
    log_sum += std::log(ratio);
    cycles += conversion.cycles;
    bounds += conversion.bound.cycles();
    if (ratio > worst) {
      worst = ratio;
      worst_name = fmt::format("{}, {} ({})", entry.kind, entry.what, shape);
    }
    result.table += fmt::format(
        fmt::runtime(options.markdown ? "| {} | {} | {} | {} | {} | {} | {:.0f} | {:.2f} |\n"
                                      : "{:<7} {:<44} {:<14} {:>2}  {:<60} {:>8} {:>9.0f} {:>6.2f}\n"),
        entry.kind, entry.what, shape, entry.problem.element_bits,
        conversion.path.empty() ? "nothing to do" : fmt::format("{}", fmt::join(conversion.path, ", ")),
        conversion.cycles, conversion.bound.cycles(), ratio);
  }
  if (count > 0) {
    result.table += fmt::format(
        "{}{} conversions, {} cycles, {:.0f} bound; cycles over bound: geometric mean {:.2f}, worst {:.2f} "
        "({})\n",
        options.markdown ? "\n" : "", count, cycles, bounds, std::exp(log_sum / static_cast<double>(count)),
        worst, worst_name);
    if (!options.markdown) result.table += fmt::format("longest search: {:.2f} s\n", longest);
  }
  if (result.failures > 0) result.table += fmt::format("{} failed\n", result.failures);
  return result;
}

}  // namespace kodama::checks
