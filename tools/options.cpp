#include "tools/options.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "isa/error.h"
#include "tools/command.h"

namespace kodama::tools {

CLI::Validator one_of(const std::vector<std::string>& names) {
  const auto check = [names](std::string& text) -> std::string {
    if (std::ranges::find(names, text) != names.end()) return {};
    return fmt::format("found '{}', allowed: {}", text, fmt::join(names, ", "));
  };
  return {check, fmt::format("{{{}}}", fmt::join(names, ","))};
}

Assignment parse_assignment(const std::string& option, const std::string& text, const std::string& allowed) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0)
    throw isa::UserError(fmt::format("{} {}: allowed is {}", option, text, allowed));
  return {text.substr(0, equals), text.substr(equals + 1)};
}

void check_mode(const CLI::App& command, std::string_view mode, const std::set<std::string>& used) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || used.contains(name) || option->get_group() == kEveryCommand) continue;
    throw isa::UserError(fmt::format(
        "{} {}: no effect {}; {}", command.get_name(), name, mode,
        used.empty() ? "no option has one" : fmt::format("what has one: {}", fmt::join(used, ", "))));
  }
}

bool is_given(const CLI::App& command, const std::string& option) {
  return command.get_option(option)->count() > 0;
}

}  // namespace kodama::tools
