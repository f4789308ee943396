#include "tools/help/formatter.h"

#include <algorithm>
#include <utility>

#include "isa/terminal.h"
#include "tools/help/markdown.h"

namespace kodama::tools {

std::string whole_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? "kodama" : whole_name(*parent) + " " + command.get_name();
}

size_t text_width() {
  constexpr size_t kMost = 120;
  return std::min(isa::terminal_width().value_or(80), kMost);
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
  // Between groups of options CLI11 leaves two lines.
  for (size_t at = text.find("\n\n\n"); at != std::string::npos; at = text.find("\n\n\n")) text.erase(at, 1);
  return text;
}

std::string HelpFormatter::make_usage(const CLI::App* app, std::string /*name*/) const {
  return CLI::Formatter::make_usage(app, whole_name(*app));
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  return row(make_option_name(option, is_positional) + make_option_opts(option), make_option_desc(option));
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return row(command->get_name(), command->get_description());
}

std::string HelpFormatter::row(const std::string& name, const std::string& description) const {
  constexpr size_t kLeast = 20;  // of a description
  std::string text = "  " + name;
  bool begins_line = text.size() >= column_width_;
  if (begins_line) text += '\n';
  for (const std::string& line :
       wrapped(description, std::max(width_, column_width_ + kLeast) - column_width_)) {
    text.append(begins_line ? column_width_ : column_width_ - text.size(), ' ').append(line).append("\n");
    begins_line = true;
  }
  return text;
}

}  // namespace kodama::tools
