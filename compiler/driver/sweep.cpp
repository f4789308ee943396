#include "compiler/driver/sweep.h"

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "compiler/driver/child_process.h"
#include "compiler/driver/session_options.h"
#include "compiler/driver/session_parts.h"
#include "compiler/driver/sweep_plot.h"
#include "compiler/graph/gradient/gradient_nodes.h"
#include "compiler/plan/problem_bound.h"
#include "compiler/report/table.h"
#include "isa/output.h"
#include "isa/progress.h"

namespace kodama::compiler {
namespace {

/// Nobody waits for a combination longer than a day.
constexpr int kMostSeconds = 86400;
constexpr int64_t kMostCombinations = 100'000;
constexpr double kBarWidth = 30;

using Values = std::vector<std::string>;  ///< one of each axis

std::vector<Values> combinations(const std::vector<SweepAxis>& axes) {
  int64_t count = 1;
  for (const SweepAxis& axis : axes) {
    count *= std::ssize(axis.values);
    if (count > kMostCombinations)
      throw isa::UserError(
          fmt::format("--set: more than {} combinations; allowed: fewer", kMostCombinations));
  }
  std::vector<Values> all(static_cast<size_t>(count));
  for (int64_t k = 0; k < count; ++k) {
    int64_t rest = k;
    Values& values = all[static_cast<size_t>(k)];
    values.resize(axes.size());
    for (size_t axis = axes.size(); axis-- > 0;) {
      const auto& own = axes[axis].values;
      values[axis] = own[static_cast<size_t>(rest % std::ssize(own))];
      rest /= std::ssize(own);
    }
  }
  return all;
}

bool is_chip_key(const std::string& name) {
  return std::ranges::any_of(isa::describe_chip_keys(), [&](const auto& key) { return key.path == name; });
}

/// UserError for a key that neither chips nor the compiler have. Options of passes are checked where the
/// passes are known.
void check_axes(const SweepRequest& request) {
  for (size_t k = 0; k < request.axes.size(); ++k) {
    const SweepAxis& axis = request.axes[k];
    const auto is_same = [&](const SweepAxis& other) { return other.key == axis.key; };
    if (std::any_of(request.axes.begin(), request.axes.begin() + static_cast<std::ptrdiff_t>(k), is_same))
      throw isa::UserError(fmt::format("--set {}: given twice; allowed: once, with all values", axis.key));
    if (is_chip_key(axis.key)) continue;
    if (axis.key.find('.') != std::string::npos)
      throw isa::UserError(
          fmt::format("--set {}: no key of a chip file; allowed: SECTION.KEY as in configs/*.yaml, and "
                      "options of the compiler",
                      axis.key));
    SessionOptions options = request.common;
    set_option(options, axis.key, axis.values.front());
    compile_options(options, dump_points(&options.passes), options.planner);
  }
}

SessionOptions with_values(const SweepRequest& request, const Values& values) {
  SessionOptions options = request.common;
  for (size_t k = 0; k < values.size(); ++k) {
    const std::string& key = request.axes[k].key;
    if (is_chip_key(key)) {
      options.chip += fmt::format(",{}={}", key, values[k]);
    } else {
      set_option(options, key, values[k]);
    }
  }
  return options;
}

/// Of one combination; `problem` if it can't be.
struct SweepRow {
  int64_t cycles = 0, chip_cycles = 0, first_cycles = 0;
  double bound = 0, share_of_peak = 0, seconds = 0;
  std::string problem;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SweepRow, cycles, chip_cycles, first_cycles, bound, share_of_peak, seconds,
                                   problem)

SweepRow measure(const SessionOptions& options, const onnx::ModelProto& model) {
  SweepRow row;
  CompileOptions compile = compile_options(options, dump_points(&options.passes), options.planner);
  layout::SolutionCache cache(options.cache);
  if (!options.cache.empty()) compile.cache = &cache;
  const CompiledModel compiled = compile_model(model, isa::find_chip(options.chip), compile);
  const RunOutcome outcome =
      ModelRunner(compiled, runner_options(options)).run(random_inputs(compiled, options.seed));
  row.cycles = outcome.total.chip.cycles();
  row.chip_cycles = outcome.total.chip_cycles();
  row.first_cycles = outcome.first_cycles();
  row.bound = problem_bound(compiled.work, compiled.chip, compiled.precision).cycles();
  row.share_of_peak =
      share_of_peak(compiled.work, static_cast<double>(row.chip_cycles), compiled.chip, compiled.precision);
  row.seconds = static_cast<double>(row.cycles) / compiled.chip.clock_hz;
  return row;
}

SweepRow measure_or_reason(const SessionOptions& options, const onnx::ModelProto& model) {
  SweepRow row;
  try {
    return measure(options, model);
  } catch (const isa::UserError& error) {
    row.problem = error.what();
  } catch (const isa::UnsupportedError& error) {
    row.problem = fmt::format("not supported: {}", error.what());
  } catch (const std::exception& error) {
    row.problem = fmt::format("a bug of Kodama: {}", error.what());
  }
  return row;
}

/// A cell of a CSV file.
std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char character : text) quoted += character == '"' ? "\"\"" : std::string(1, character);
  return quoted + "\"";
}

std::string to_csv(const SweepRequest& request, const std::vector<Values>& all,
                   const std::vector<SweepRow>& rows) {
  std::string text;
  for (const SweepAxis& axis : request.axes) text += csv_cell(axis.key) + ",";
  text += "cycles,chip_cycles,first_cycles,bound_cycles,share_of_peak,seconds,problem\n";
  for (size_t k = 0; k < all.size(); ++k) {
    for (const std::string& value : all[k]) text += csv_cell(value) + ",";
    const SweepRow& row = rows[k];
    text += fmt::format("{},{},{},{},{},{},{}\n", row.cycles, row.chip_cycles, row.first_cycles, row.bound,
                        row.share_of_peak, row.seconds, csv_cell(row.problem));
  }
  return text;
}

void print_sweep(const SweepRequest& request, const std::vector<Values>& all,
                 const std::vector<SweepRow>& rows, std::ostream& out) {
  std::vector<std::string> header;
  for (const SweepAxis& axis : request.axes) header.push_back(axis.key);
  for (const char* name : {"cycles", "chip cycles", "ms", "bound", "of peak", "cycles of the most"})
    header.emplace_back(name);
  Table table(header);
  int64_t most = 1;
  for (const SweepRow& row : rows) most = std::max(most, row.cycles);
  for (size_t k = 0; k < all.size(); ++k) {
    const SweepRow& row = rows[k];
    std::vector<std::string> cells = all[k];
    if (!row.problem.empty()) {
      cells.insert(cells.end(), {"-", "-", "-", "-", "-", row.problem});
    } else {
      const double share = static_cast<double>(row.cycles) / static_cast<double>(most);
      cells.insert(cells.end(),
                   {std::to_string(row.cycles), std::to_string(row.chip_cycles),
                    fmt::format("{:.3f}", row.seconds * 1e3), fmt::format("{:.0f}", std::ceil(row.bound)),
                    fmt::format("{:.1f} %", 100 * row.share_of_peak),
                    std::string(static_cast<size_t>(std::max(1.0, share * kBarWidth)), '#')});
    }
    table.add(std::move(cells));
  }
  table.leave_out_first({"bound", "ms", "chip cycles", "of peak"});
  table.explain({{"cycles", "of a run, the host link included, constants on the chip"},
                 {"chip cycles", "of them the programs'"},
                 {"ms", "of a run, at the chip's clock"},
                 {"bound", "cycles that the problem takes at the peaks of this chip, whatever the plan"},
                 {"of peak", "products over what the matrix unit could do in the chip cycles"}});
  table.print(out, request.axes.size(), request.axes.size() + 5);
  const auto best = std::ranges::min_element(rows, {}, [](const SweepRow& row) {
    return row.problem.empty() ? row.cycles : std::numeric_limits<int64_t>::max();
  });
  if (best == rows.end() || !best->problem.empty()) return;
  std::vector<std::string> words;
  for (size_t axis = 0; axis < request.axes.size(); ++axis)
    words.push_back(
        fmt::format("{}={}", request.axes[axis].key, all[static_cast<size_t>(best - rows.begin())][axis]));
  fmt::print(out, "fewest cycles: {}, with {}\n", best->cycles, fmt::join(words, ", "));
}

/// `all` is in the order of combinations(): what belongs to one value of the first axis is together.
SweepPlot plot_of(const SweepRequest& request, const std::vector<Values>& all,
                  const std::vector<SweepRow>& rows) {
  const SweepAxis& first = request.axes.front();
  SweepPlot plot{request.model_file, first.key, first.values, {}};
  const size_t lines = all.size() / first.values.size();
  for (size_t line = 0; line < lines; ++line) {
    std::vector<std::string> words;
    for (size_t axis = 1; axis < request.axes.size(); ++axis)
      words.push_back(fmt::format("{}={}", request.axes[axis].key, all[line][axis]));
    SweepPlot::Line& drawn = plot.lines.emplace_back();
    drawn.name = words.empty() ? "cycles of a run" : fmt::format("{}", fmt::join(words, ", "));
    for (size_t value = 0; value < first.values.size(); ++value) {
      const SweepRow& row = rows[value * lines + line];
      drawn.cycles.push_back(row.problem.empty() ? std::optional(row.cycles) : std::nullopt);
    }
  }
  return plot;
}

}  // namespace

int sweep_command(const SweepRequest& request, std::ostream& out) {
  const SessionOptions& options = request.common;
  check_axes(request);
  if (!request.plot_file.empty()) check_gnuplot();
  const std::vector<Values> all = combinations(request.axes);
  onnx::ModelProto model =
      import_model(request.model_file, {options.dims, read_named_tensors("--bind", options.bind)});
  expand_gradient_nodes(model, request.model_file);
  std::vector<SweepRow> rows(all.size());
  isa::ProgressBar bar("sweep");
  const auto work = [&](int64_t k) {
    return nlohmann::json(measure_or_reason(with_values(request, all[static_cast<size_t>(k)]), model)).dump();
  };
  run_in_children(
      std::ssize(all), request.jobs, kMostSeconds, work, [&](int64_t k, const ChildResult& result) {
        SweepRow& row = rows[static_cast<size_t>(k)];
        if (result.death.empty()) {
          row = nlohmann::json::parse(result.text).get<SweepRow>();
        } else {
          row.problem = fmt::format("its process ended: {}", result.death);
        }
        bar.update(k + 1, std::ssize(all), fmt::format("{}", fmt::join(all[static_cast<size_t>(k)], ", ")));
      });
  bar.finish();
  print_sweep(request, all, rows, out);
  if (!request.csv_file.empty()) isa::write_output(request.csv_file, to_csv(request, all, rows));
  if (!request.plot_file.empty()) isa::write_output(request.plot_file, plot_svg(plot_of(request, all, rows)));
  const bool any = std::ranges::any_of(rows, [](const SweepRow& row) { return row.problem.empty(); });
  return any ? isa::kExitOk : isa::kExitUnsupported;
}

}  // namespace kodama::compiler
