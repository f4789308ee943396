#pragma once

#include <CLI/CLI.hpp>
#include <string>

/// What --help prints.
namespace kodama::tools {

/// CLI11's help with the whole name of the command, in lines of at most `width` characters.
class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(size_t width) : width_(width) {}

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;

 private:
  std::string row(const std::string& name, const std::string& description) const;

  size_t width_;
};

/// Of texts: the terminal's, but lines that are much longer can't be read; without a terminal 80.
size_t text_width();

/// "kodama bench schedule": with the names of the families it is in, and the program's.
std::string whole_name(const CLI::App& command);

}  // namespace kodama::tools
