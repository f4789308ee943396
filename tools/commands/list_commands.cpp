#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <iostream>

#include "compiler/driver/session.h"
#include "compiler/graph/passes.h"
#include "compiler/report/table.h"
#include "isa/chip.h"
#include "isa/dram_model.h"
#include "isa/output.h"
#include "isa/reference.h"
#include "layout/plan/planner.h"
#include "layout/primitives/move_primitives.h"
#include "scheduler/machine/passes.h"
#include "scheduler/optimizer/stream_changes.h"
#include "scheduler/packing/packing.h"
#include "scheduler/recompute/recompute.h"
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
    return isa::kExitOk;
  }

 private:
  std::string directory_ = "docs/isa";
};

/// A line per pass and option.
template <typename Passes>
void print_all(const std::string& title, const Passes& passes) {
  fmt::print(std::cout, "{}:\n", title);
  for (const auto& pass : passes) {
    std::string what = pass.description;
    if constexpr (requires { pass.kind; }) what = compiler::layer_kind_name(pass.kind) + ": " + what;
    if constexpr (requires { pass.after; }) {
      if (!pass.plugin.empty())
        what += pass.after.empty() ? ", at the end" : fmt::format(", after {}", pass.after);
    }
    if (!pass.plugin.empty()) what += fmt::format(" (plugin {})", pass.plugin);
    fmt::print(std::cout, "  {:<24} {}\n", pass.name, what);
    if constexpr (requires { pass.options; }) {
      for (const auto& option : pass.options)
        fmt::print(std::cout, "    {}={}  {}\n", option.name, option.default_value, option.description);
    }
  }
}

void print_passes() {
  const auto print_choices = [](const std::string& title, const auto& passes) {
    print_all(title + " (the first is the default)", passes);
  };
  print_all(fmt::format("graph passes, in the order of the pipeline ({})",
                        fmt::join(compiler::graph_pipeline(), ", ")),
            compiler::graph_passes());
  print_choices("coalescers, --coalescer", scheduler::coalescers());
  print_choices("home assigners, --home-assigner", scheduler::home_assigners());
  print_choices("spillers, --spiller", scheduler::spillers());
  print_choices("allocators, --allocator", scheduler::allocators());
  print_choices("instruction schedulers, --scheduler (blocks) and --loop-scheduler (loops)",
                scheduler::block_schedulers());
  print_choices("transfer schedulers, --transfers", scheduler::transfer_schedulers());
  print_choices("address packers, kodama pack --packer", scheduler::packers());
  print_choices("recomputers, --recompute", scheduler::recomputers());
  print_choices("layout planners, --planner", layout::planners());
  fmt::print(std::cout, "  {:<24} {}\n", compiler::kHostPlanner,
             "the fastest candidate of each layer; all layouts are left to the host");
  print_choices("DRAM models, transfer.dram_model of the chip", isa::dram_models());
  print_all("kernels", compiler::kernels());
  print_all("changes that kodama opt tries", scheduler::change_kinds());
  print_all("move primitives, kodama layout convert", layout::move_primitives());
  fmt::print(std::cout, "names for --dump-after: all, {}\n", fmt::join(compiler::dump_points(), ", "));
}

class PassesCommand : public Command {
 public:
  void declare(CLI::App& app) override { add_plugin_option(app, plugins_); }
  int run(const CLI::App& /*app*/) override {
    load_plugins(plugins_);
    print_passes();
    return isa::kExitOk;
  }

 private:
  std::vector<std::string> plugins_;
};

class ChipsCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_flag("--keys", keys_,
                 "list the keys of chip files: unit, what is allowed, meaning (docs/chips.md)");
  }
  int run(const CLI::App& /*app*/) override {
    if (keys_) {
      compiler::Table table({"key", "unit", "allowed", "meaning"});
      for (const isa::ChipKey& key : isa::describe_chip_keys())
        table.add({key.path, key.unit, key.allowed, key.meaning});
      table.leave_out_first({"unit", "allowed"});
      table.print(std::cout, 4);
      return isa::kExitOk;
    }
    for (const std::string& name : isa::chip_names()) {
      const isa::Chip chip = isa::find_chip(name);
      fmt::print(std::cout, "{:<10} {} groups x {} L2B x {} L1B x {} MAB x {} PE = {} PEs, {:.0f} MHz: {}\n",
                 name, chip.groups, chip.l2b_per_group, chip.l1b_per_l2b, chip.mab_per_l1b, isa::kPePerMab,
                 chip.pe_count(), chip.clock_hz / 1e6, chip.description);
    }
    return isa::kExitOk;
  }

 private:
  bool keys_ = false;
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
