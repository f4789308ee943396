#pragma once

#include <CLI/CLI.hpp>
#include <string>

/// Man pages of the commands.
namespace kodama::tools {

/// "kodama-bench-schedule": what the page of a command is called, section 1.
std::string man_name(const CLI::App& command);

/// The page of a command, in the macros of man(7): its options as --help has them. `version` stands below
/// each page; `more` are sections of Markdown for the program's own page.
std::string man_page(const CLI::App& command, const std::string& version, const std::string& more);

}  // namespace kodama::tools
