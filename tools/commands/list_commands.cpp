#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <iostream>

#include "compiler/driver/session.h"
#include "compiler/graph/passes.h"
#include "isa/chip.h"
#include "isa/output.h"
#include "isa/reference.h"
#include "layout/primitives/move_primitives.h"
#include "scheduler/machine/passes.h"
#include "scheduler/packing/packing.h"
#include "tools/command_groups.h"
#include "tools/common_options.h"

namespace kodama::tools {
namespace {

class IsaCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("-o,--output", directory_, "directory to write")->capture_default_str();
  }
  int run(const CLI::App& /*app*/) override {
    isa::check_output_directory(directory_);
    std::filesystem::create_directories(directory_);
    for (const auto& [name, text] : isa::reference_pages(isa::find_chip("mncore2")))
      isa::write_output(fmt::format("{}/{}", directory_, name), text);
    return compiler::kExitOk;
  }

 private:
  std::string directory_ = "docs/isa";
};

void print_passes() {
  fmt::print(std::cout, "graph passes, in the order of the pipeline ({}):\n",
             fmt::join(compiler::graph_pipeline(), ", "));
  for (const auto& pass : compiler::graph_passes())
    fmt::print(std::cout, "  {:<24} {}\n", pass.name, pass.description);
  const auto print_all = [](const char* title, const auto& passes) {
    fmt::print(std::cout, "{} (the first is the default):\n", title);
    for (const auto& pass : passes) {
      std::string from;
      if constexpr (requires { pass.plugin; }) {
        if (!pass.plugin.empty()) from = fmt::format(" (plugin {})", pass.plugin);
      }
      fmt::print(std::cout, "  {:<24} {}{}\n", pass.name, pass.description, from);
      for (const auto& option : pass.options) {
        fmt::print(std::cout, "    {}={}  {}\n", option.name, option.default_value, option.description);
      }
    }
  };
  print_all("coalescers, --coalescer", scheduler::coalescers());
  print_all("home assigners, --home-assigner", scheduler::home_assigners());
  print_all("spillers, --spiller", scheduler::spillers());
  print_all("allocators, --allocator", scheduler::allocators());
  print_all("instruction schedulers, --scheduler (blocks) and --loop-scheduler (loops)",
            scheduler::block_schedulers());
  print_all("transfer schedulers, --transfers", scheduler::transfer_schedulers());
  print_all("address packers, kodama pack --packer", scheduler::packers());
  fmt::print(std::cout, "planners, --planner (the first is the default): {}\n",
             fmt::join(compiler::ModelPlanner::planner_names(), ", "));
  fmt::print(std::cout, "kernels:\n");
  for (const auto& kernel : compiler::kernels()) {
    fmt::print(std::cout, "  {:<24} {}: {}\n", kernel.name, compiler::layer_kind_name(kernel.kind),
               kernel.description);
  }
  fmt::print(std::cout, "move primitives, kodama layout convert:\n");
  for (const layout::MovePrimitive& each : layout::move_primitives())
    fmt::print(std::cout, "  {:<24} {}{}\n", each.name, each.description,
               each.plugin.empty() ? "" : fmt::format(" (plugin {})", each.plugin));
  fmt::print(std::cout, "names for --dump-after: all, {}\n", fmt::join(compiler::dump_points(), ", "));
}

class PassesCommand : public Command {
 public:
  void declare(CLI::App& app) override { add_plugin_option(app, plugins_); }
  int run(const CLI::App& /*app*/) override {
    load_plugins(plugins_);
    print_passes();
    return compiler::kExitOk;
  }

 private:
  std::vector<std::string> plugins_;
};

class ChipsCommand : public Command {
 public:
  void declare(CLI::App& /*app*/) override {}
  int run(const CLI::App& /*app*/) override {
    for (const std::string& name : isa::chip_names()) {
      const isa::Chip chip = isa::find_chip(name);
      fmt::print(std::cout, "{:<10} {} groups x {} L2B x {} L1B x {} MAB x {} PE = {} PEs, {:.0f} MHz: {}\n",
                 name, chip.groups, chip.l2b_per_group, chip.l1b_per_l2b, chip.mab_per_l1b, isa::kPePerMab,
                 chip.pe_count(), chip.clock_hz / 1e6, chip.description);
    }
    return compiler::kExitOk;
  }
};

}  // namespace

void add_reference_commands(CommandLine& line) {
  line.add<IsaCommand>("isa", "write the reference of the instruction set as Markdown pages");
}

void add_list_commands(CommandLine& line) {
  line.add<PassesCommand>("passes", "list passes, kernels and dump points");
  line.add<ChipsCommand>("chips", "list the known chips");
}

}  // namespace kodama::tools
