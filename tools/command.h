#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "isa/exit_codes.h"

/// What a command of `kodama` is, and how its group's file makes it known.
namespace kodama::tools {

/// The group of options that every command has, in every mode.
inline constexpr const char* kEveryCommand = "Options of every command";

/// A subcommand. Its options and arguments are its members, its function is `run`.
class Command {
 public:
  virtual ~Command() = default;
  /// Declares options and arguments; reading the command line writes the members.
  virtual void declare(CLI::App& app) = 0;
  /// Called once the command line has been read. Returns the exit code (isa::ExitCode); errors are
  /// exceptions of isa/error.h.
  virtual int run(const CLI::App& app) = 0;
};

/// All commands, and the reading of the command line.
class CommandLine {
 public:
  CommandLine(const std::string& description, const std::string& version);

  /// Adds a command, in `family` if one is given. Help lists commands in the order in which they are added.
  template <typename Each>
  void add(const std::string& name, const std::string& description, CLI::App* family = nullptr) {
    add(std::make_unique<Each>(), name, description, family);
  }
  /// A name that has commands of its own: `kodama bench schedule`.
  CLI::App* add_family(const std::string& name, const std::string& description);

  /// Runs the command that the arguments (without the program's name) ask for; help and version are printed
  /// here. Returns the exit code. UserError for a command line that says nothing.
  int run(std::vector<std::string> arguments);

 private:
  static void add_verbosity(CLI::App& app);
  void add(std::unique_ptr<Command> command, const std::string& name, const std::string& description,
           CLI::App* family);

  CLI::App app_;
  std::vector<std::unique_ptr<Command>> commands_;
  int exit_code_ = 0;
};

}  // namespace kodama::tools
