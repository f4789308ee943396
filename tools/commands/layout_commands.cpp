#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>

#include "assembler/assembler.h"
#include "checks/layout_check.h"
#include "checks/layout_suite.h"
#include "compiler/driver/session.h"
#include "isa/chip.h"
#include "isa/error.h"
#include "isa/file.h"
#include "isa/output.h"
#include "layout/algebra/drawing.h"
#include "layout/bound/bound.h"
#include "layout/primitives/move_primitives.h"
#include "layout/search/conversion.h"
#include "layout/search/random_problem.h"
#include "tools/command_groups.h"
#include "tools/common_options.h"
#include "tools/options.h"

namespace kodama::tools {
namespace {

/// A layout, or the two of a conversion.
struct LayoutRequest {
  std::string layout;
  std::string to;
  std::string shape;
  std::string type = "float";
  std::string chip = kDefaultChip;
  layout::DrawingLimits limits;
  bool json = false;
  std::string svg;
  std::string emit;
  bool run = true;
  uint64_t seed = 1;
};
/// "4,6" or "4x6".
layout::Lengths parse_shape(const std::string& text) {
  layout::Lengths lengths;
  std::string number;
  for (const char c : text + ",") {
    if (c != ',' && c != 'x') {
      number += c;
      continue;
    }
    const auto length = parse_number<int64_t>(number, 1, std::numeric_limits<int64_t>::max());
    if (!length) {
      throw isa::UserError(
          fmt::format("--shape {}: found '{}', allowed: positive lengths, as 4,6", text, number));
    }
    lengths.push_back(*length);
    number.clear();
  }
  return lengths;
}
int bits_of(const LayoutRequest& request) {
  if (request.type == "half" || request.type == "short") return 16;
  return request.type == "double" || request.type == "long" ? 64 : 32;
}
void show_layout(const LayoutRequest& request) {
  const layout::Layout layout = layout::Layout::parse(request.layout);
  const int bits = bits_of(request);
  layout.validate(isa::find_chip(request.chip), bits);
  layout::Lengths lengths;
  if (request.shape.empty()) {
    for (size_t axis = 0; axis < layout.axes().size(); ++axis) lengths.push_back(layout.extent(axis));
  } else {
    lengths = parse_shape(request.shape);
  }
  if (!request.svg.empty()) {
    isa::write_output(request.svg, layout::draw_svg(layout, lengths, bits, request.limits));
  } else if (request.json) {
    std::cout << layout::places_json(layout, lengths, bits).dump(1) << '\n';
  } else {
    std::cout << layout::draw(layout, lengths, bits, request.limits);
  }
}

void print_bound(const layout::ConversionBound& bound, std::ostream& out) {
  for (const layout::LevelBound& level : bound.levels) {
    const std::string traffic = level.bytes == 0
                                    ? ""
                                    : fmt::format("{:.0f} B at {:6.1f} B/cycle, {:3.0f} on the way",
                                                  level.bytes, level.bytes_per_cycle, level.way);
    fmt::print(out, "{:<20}{:>48} {:>10.1f} cycles{}\n", level.name, traffic, level.cycles(),
               level.name == bound.name() ? "  <- the bound" : "");
  }
  if (bound.levels.empty()) fmt::print(out, "nothing has to move\n");
}
void print_conversion_bound(const LayoutRequest& request) {
  print_bound(
      layout::conversion_bound(layout::Layout::parse(request.layout), layout::Layout::parse(request.to),
                               parse_shape(request.shape), bits_of(request), isa::find_chip(request.chip)),
      std::cout);
}

int convert_layout(const LayoutRequest& request) {
  std::ostream& out = report_stream({request.emit});
  const isa::Chip chip = isa::find_chip(request.chip);
  const layout::ConversionProblem problem{layout::Layout::parse(request.layout),
                                          layout::Layout::parse(request.to), parse_shape(request.shape),
                                          bits_of(request)};
  const std::optional<std::string> directory = layout::SolutionCache::default_directory();
  layout::SolutionCache cache(directory.value_or(""));
  const layout::Conversion conversion = layout::convert(problem, chip, directory ? &cache : nullptr);
  fmt::print(
      out, "{}\n",
      conversion.path.empty() ? "nothing to do" : fmt::format("path: {}", fmt::join(conversion.path, ", ")));
  if (!conversion.why_by_elements.empty())
    fmt::print(out, "element by element: {}\n", conversion.why_by_elements);
  fmt::print(out, "{} steps, {} cycles\n", conversion.steps, conversion.cycles);
  print_bound(conversion.bound, out);
  if (conversion.bound.cycles() > 0) {
    fmt::print(out, "{:.2f} times the bound\n",
               static_cast<double>(conversion.cycles) / conversion.bound.cycles());
  }
  if (conversion.states > 0) {
    fmt::print(out, "search: {} states, {}; {}\n", conversion.states,
               conversion.proven ? "no sequence of primitives is cheaper by estimate"
                                 : "not all that could be cheaper",
               conversion.compared == 1 ? "one program"
                                        : fmt::format("the fastest of {} programs", conversion.compared));
  }
  for (const layout::ScratchRange& range : conversion.scratch) {
    fmt::print(out, "scratch: {} long words {} to {}\n", layout::memory_name(range.memory), range.begin,
               range.end - 1);
  }
  if (!request.emit.empty()) isa::write_output(request.emit, assembler::print(conversion.program));
  if (!request.run && conversion.from_plugins.empty()) return isa::kExitOk;
  const std::string difference = checks::conversion_difference(problem, conversion, chip, request.seed);
  fmt::print(out, "simulated: {}\n",
             difference.empty() ? "every element is in its place, nothing else has changed" : difference);
  return difference.empty() ? isa::kExitOk : isa::kExitInternalError;
}

void add_element_type(CLI::App& app, LayoutRequest& request) {
  app.add_option("--type", request.type, "of the elements")
      ->check(one_of({"half", "short", "float", "int", "double", "long"}))
      ->capture_default_str();
}

class ShowCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("layout", request_.layout, "for example '((4_PE:1), (6:1))@LM0'")->required();
    app.add_option("--shape", request_.shape, "lengths of the axes, as 4,6; default: the layout's extents");
    add_element_type(app, request_);
    app.add_option("--chip", request_.chip, "chip that the layout must fit")->capture_default_str();
    add_number(app, "--instances", request_.limits.instances, "largest number of memories drawn per level", 1)
        ->capture_default_str();
    add_number(app, "--long-words", request_.limits.long_words, "largest number of long words drawn", 1)
        ->capture_default_str();
    CLI::Option* json = app.add_flag("--json", request_.json, "every place with its element, as JSON");
    app.add_option("--svg", request_.svg, "write the picture as SVG")->excludes(json);
  }
  int run(const CLI::App& app) override {
    if (request_.json) check_mode(app, "with --json", {"layout", "--shape", "--type", "--chip", "--json"});
    report_stream({request_.svg});
    show_layout(request_);
    return isa::kExitOk;
  }

 private:
  LayoutRequest request_;
};

/// What commands about two layouts have.
class ConversionCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("from", request_.layout, "layout")->required();
    app.add_option("to", request_.to, "layout")->required();
    app.add_option("--shape", request_.shape, "lengths of the axes, as 4,6")->required();
    add_element_type(app, request_);
    app.add_option("--chip", request_.chip, "chip")->capture_default_str();
  }

 protected:
  LayoutRequest request_;
};

class BoundCommand : public ConversionCommand {
 public:
  int run(const CLI::App& /*app*/) override {
    print_conversion_bound(request_);
    return isa::kExitOk;
  }
};

class ConvertCommand : public ConversionCommand {
 public:
  void declare(CLI::App& app) override {
    ConversionCommand::declare(app);
    app.add_option("--emit", request_.emit, "write the program as VSM");
    add_seed(app, request_.seed, "of the elements and of what is in memory before");
    app.add_flag("!--no-run", request_.run, "don't simulate it");
    add_plugin_option(app, plugins_);
  }
  int run(const CLI::App& app) override {
    load_plugins(plugins_);
    if (!request_.run && is_given(app, "--seed")) throw isa::UserError("--seed: no effect with --no-run");
    return convert_layout(request_);
  }

 private:
  std::vector<std::string> plugins_;
};

class PrimitivesCommand : public Command {
 public:
  void declare(CLI::App& app) override { add_plugin_option(app, plugins_); }
  int run(const CLI::App& /*app*/) override {
    load_plugins(plugins_);
    fmt::print(
        std::cout,
        "| primitive | effect | asks for | steps; n = long words per PE |\n| --- | --- | --- | --- |\n");
    for (const layout::MovePrimitive& each : layout::move_primitives())
      fmt::print(std::cout, "| `{}` | {} | {} | {} |\n", each.name, each.description, each.precondition,
                 each.cost);
    return isa::kExitOk;
  }

 private:
  std::vector<std::string> plugins_;
};

struct LayoutFuzzRequest {
  std::string chip = "tiny";
  uint64_t seed = 1;
  int64_t count = 1000;
  int64_t elements = 512;
};
/// Random conversions, run and checked.
int fuzz_layouts(const LayoutFuzzRequest& request) {
  const isa::Chip chip = isa::find_chip(request.chip);
  int64_t by_elements = 0;
  int64_t no_room = 0;
  for (int64_t k = 0; k < request.count; ++k) {
    const uint64_t seed = request.seed + static_cast<uint64_t>(k);
    const layout::ConversionProblem problem = layout::random_problem(seed, chip, request.elements);
    std::string difference;
    try {
      const layout::Conversion conversion = layout::convert(problem, chip);
      by_elements += std::ranges::find(conversion.path, "elements") != conversion.path.end() ? 1 : 0;
      difference = checks::conversion_difference(problem, conversion, chip, seed);
    } catch (const isa::UnsupportedError&) {
      ++no_room;
    } catch (const isa::InternalError& error) {
      difference = error.what();
    }
    if (difference.empty()) continue;
    fmt::print(std::cout, "seed {}: {}\nkodama layout convert '{}' '{}' --shape {} --type {} --chip {}\n",
               seed, difference, problem.from.to_string(), problem.to.to_string(),
               fmt::join(problem.lengths, ","),
               problem.element_bits == 64   ? "double"
               : problem.element_bits == 32 ? "float"
                                            : "half",
               request.chip);
    return isa::kExitInternalError;
  }
  fmt::print(std::cout,
             "{} random conversions on {}, seeds {} to {}: every element is right; {} element by element, {} "
             "refused for want of room\n",
             request.count, chip.name, request.seed, request.seed + static_cast<uint64_t>(request.count) - 1,
             by_elements, no_room);
  return isa::kExitOk;
}

class LayoutFuzzCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("--chip", request_.chip, "chip")->capture_default_str();
    add_seed(app, request_.seed, "of the first one");
    add_number(app, "--count", request_.count, "how many", 1)->capture_default_str();
    add_number(app, "--elements", request_.elements, "of a tensor, at most", 1, 1 << 20)
        ->capture_default_str();
    add_plugin_option(app, plugins_);
  }
  int run(const CLI::App& /*app*/) override {
    load_plugins(plugins_);
    return fuzz_layouts(request_);
  }

 private:
  std::vector<std::string> plugins_;
  LayoutFuzzRequest request_;
};

class LayoutBenchCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    options_.suite = isa::source_path("testsuite/layout/suite.txt");
    app.add_option("--suite", options_.suite, "its file")->capture_default_str();
    app.add_option("--kind", options_.kind, "only conversions of this kind");
    app.add_option("--chip", chip_, "chip")->capture_default_str();
    app.add_flag("--check", options_.check, "simulate each one and check every element");
    app.add_flag("--markdown", options_.markdown, "print the table of docs/layouts.md");
    add_plugin_option(app, plugins_);
  }
  int run(const CLI::App& /*app*/) override {
    load_plugins(plugins_);
    const auto result = checks::run_layout_bench(options_, isa::find_chip(chip_));
    std::cout << result.table;
    return result.failures > 0 ? isa::kExitInternalError : isa::kExitOk;
  }

 private:
  checks::LayoutBenchOptions options_;
  std::string chip_ = kDefaultChip;
  std::vector<std::string> plugins_;
};

}  // namespace

void add_layout_commands(CommandLine& line) {
  CLI::App* layout = line.add_family("layout", "where the elements of a tensor live");
  line.add<ShowCommand>("show", "draw a layout: the memories and the elements in them", layout);
  line.add<BoundCommand>(
      "bound", "the least cycles that a conversion between two layouts can take, level by level", layout);
  line.add<ConvertCommand>(
      "convert",
      "make a program that brings a tensor from one layout into another, run it and check every element",
      layout);
  line.add<PrimitivesCommand>("primitives",
                              "what the hardware can do to a layout: effect, precondition, cost", layout);
  line.add<LayoutFuzzCommand>(
      "fuzz", "random conversions, run and checked; a failure is printed with its command", layout);
  line.add<LayoutBenchCommand>("bench", "the suite of conversions: path, cycles, bound, and their ratio",
                               layout);
}

}  // namespace kodama::tools
