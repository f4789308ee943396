#include "passes/pass_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "isa/error.h"

namespace kodama::passes {
namespace {

const std::string& option_text(const PassOptions& options, const PassOptionInfo& info) {
  const auto given = options.find(info.name);
  return given == options.end() ? info.default_value : given->second;
}

}  // namespace

void check_options(const PassOptions& options, const std::vector<const std::vector<PassOptionInfo>*>& known) {
  std::set<std::string> names;
  for (const auto* list : known) {
    for (const PassOptionInfo& info : *list) names.insert(info.name);
  }
  for (const auto& [name, value] : options) {
    if (names.count(name) == 0) {
      throw isa::UserError(fmt::format("found pass option '{}', allowed for the chosen passes: {}", name,
                                       names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
    }
  }
}

const PassOptionInfo& declared_option(const std::vector<PassOptionInfo>& declared, std::string_view name) {
  const auto found = std::ranges::find(declared, name, &PassOptionInfo::name);
  isa::check_internal(found != declared.end(), "pass options", "option '{}' is not declared", name);
  return *found;
}

int64_t integer_option(const PassOptions& options, const PassOptionInfo& info, int64_t least) {
  const std::string& text = option_text(options, info);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least) {
    throw isa::UserError(
        fmt::format("option {}: found '{}', allowed: a whole number from {}", info.name, text, least));
  }
  return value;
}

int64_t positive_option(const PassOptions& options, const PassOptionInfo& info) {
  return integer_option(options, info, 1);
}

const std::string& choice_option(const PassOptions& options, const PassOptionInfo& info,
                                 const std::vector<std::string>& allowed) {
  const std::string& text = option_text(options, info);
  if (std::ranges::find(allowed, text) == allowed.end()) {
    throw isa::UserError(
        fmt::format("option {}: found '{}', allowed: {}", info.name, text, fmt::join(allowed, ", ")));
  }
  return text;
}

}  // namespace kodama::passes
