#include "tools/help/man_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/help/formatter.h"
#include "tools/help/markdown.h"

namespace kodama::tools {
namespace {

/// Text that man prints as it is.
std::string plain(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else if (c == '\n') {
      result += ' ';
    } else {
      if (result.empty() && (c == '.' || c == '\'')) result += "\\&";
      result += c;
    }
  }
  return result;
}

std::string entry(const std::string& name, const std::string& description) {
  return fmt::format(".TP\n\\fB{}\\fR\n{}\n", plain(name), plain(description));
}

std::string option_entry(const CLI::Option& option, bool is_positional) {
  const CLI::Formatter words;
  return fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", plain(words.make_option_name(&option, is_positional)),
                     plain(words.make_option_opts(&option)), plain(option.get_description()));
}

}  // namespace

std::string man_name(const CLI::App& command) {
  std::string name = whole_name(command);
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::string man_page(const CLI::App& command, const std::string& version, const std::string& more) {
  const std::string name = man_name(command);
  const auto is_command = [](const CLI::App* each) { return !each->get_name().empty(); };
  const auto is_positional = [](const CLI::Option* each) { return each->get_positional(); };
  const auto is_option = [](const CLI::Option* each) { return each->nonpositional(); };
  std::string page =
      fmt::format(".TH {} 1 \"\" \"{}\" \"Kodama\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.B {}\n", plain(name),
                  version, plain(name), plain(command.get_description()), plain(whole_name(command)));
  page += "[\\fIOPTIONS\\fR]";
  for (const CLI::Option* option : command.get_options(is_positional))
    page += fmt::format(" \\fI{}\\fR", plain(CLI::Formatter().make_option_usage(option)));
  const auto parts = command.get_subcommands(is_command);
  page += parts.empty() ? "\n" : " \\fICOMMAND\\fR\n";
  if (const auto options = command.get_options(is_positional); !options.empty()) {
    page += ".SH ARGUMENTS\n";
    for (const CLI::Option* option : options) page += option_entry(*option, true);
  }
  if (const auto options = command.get_options(is_option); !options.empty()) {
    page += ".SH OPTIONS\n";
    for (const CLI::Option* option : options) page += option_entry(*option, false);
  }
  if (!parts.empty()) {
    page += ".SH COMMANDS\n";
    for (const CLI::App* part : parts)
      page += entry(whole_name(*part), part->get_description() + fmt::format("; {}(1)", man_name(*part)));
  }
  if (command.get_parent() == nullptr) return page + markdown_man(more);
  return page + fmt::format(".SH SEE ALSO\n.BR {} (1)\n", plain(man_name(*command.get_parent())));
}

}  // namespace kodama::tools
