#include "tools/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "compiler/report/table.h"
#include "isa/error.h"
#include "isa/verbosity.h"
#include "tools/help/formatter.h"

namespace kodama::tools {

CommandLine::CommandLine(const std::string& description, const std::string& version) : app_(description) {
  app_.require_subcommand(1);
  app_.formatter(std::make_shared<HelpFormatter>(text_width()));  // of all commands that are added
  app_.set_version_flag("--version", version);
  add_verbosity(app_);
}

void CommandLine::add_verbosity(CLI::App& app) {
  CLI::Option* quiet = app.add_flag_callback(
      "--quiet", [] { isa::set_verbosity(isa::Verbosity::kQuiet); },
      "say nothing but errors, and what was asked for");
  CLI::Option* verbose = app.add_flag_callback(
      "--verbose",
      [] {
        isa::set_verbosity(isa::Verbosity::kVerbose);
        compiler::table_view().legend = compiler::table_view().moves = true;
      },
      "say all: every table, legends, the time of each phase");
  quiet->group(kEveryCommand)->excludes(verbose);
  verbose->group(kEveryCommand);
}

CLI::App* CommandLine::add_family(const std::string& name, const std::string& description) {
  CLI::App* family = app_.add_subcommand(name, description);
  family->require_subcommand(1);
  return family;
}

void CommandLine::add(std::unique_ptr<Command> command, const std::string& name,
                      const std::string& description, CLI::App* family) {
  CLI::App* app = (family != nullptr ? family : &app_)->add_subcommand(name, description);
  command->declare(*app);
  add_verbosity(*app);
  app->callback([this, app, each = command.get()] { exit_code_ = each->run(*app); });
  commands_.push_back(std::move(command));
}

int CommandLine::run(std::vector<std::string> arguments) {
  std::ranges::reverse(arguments);  // as CLI11 wants them
  try {
    app_.parse(arguments);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app_.exit(error, std::cout, std::cerr);  // --help, --version
    throw isa::UserError(fmt::format("{}\nRun with --help for more information.", error.what()));
  }
  return exit_code_;
}

}  // namespace kodama::tools
