#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

/// What the options of all commands share: numbers with ranges, names out of a list, and modes in which only
/// some options mean something.
namespace kodama::tools {

/// The decimal number that is all of `text`, from `least` to `most`. Nothing for other text: no sign without
/// digits, no blanks, no hexadecimal, no nan.
template <typename Number>
std::optional<Number> parse_number(std::string_view text, Number least, Number most) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if constexpr (std::is_floating_point_v<Number>) {
    if (!std::isfinite(value)) return std::nullopt;
  }
  if (value < least || value > most) return std::nullopt;
  return value;
}

/// What an option's target holds: a number, or the number in an optional or a vector.
template <typename Target, typename = void>
struct NumberOf {
  using Type = Target;
};
template <typename Target>
struct NumberOf<Target, std::void_t<typename Target::value_type>> {
  using Type = typename Target::value_type;
};

/// An option that is a number from `least` to `most`, which is the only way to declare one: CLI11 alone cuts
/// numbers that are too long, takes -1 for the largest unsigned one, and has nothing against nan.
template <typename Target, typename Number = typename NumberOf<Target>::Type>
CLI::Option* add_number(CLI::App& app, const std::string& name, Target& target,
                        const std::string& description, std::type_identity_t<Number> least,
                        std::type_identity_t<Number> most = std::numeric_limits<Number>::max()) {
  const auto check = [least, most](std::string& text) -> std::string {
    const std::optional<Number> value = parse_number<Number>(text, least, most);
    if (!value) {
      return fmt::format("found '{}', allowed: a {}number from {} to {}", text,
                         std::is_integral_v<Number> ? "whole " : "", least, most);
    }
    text = fmt::format("{}", *value);  // no leading zeros, which CLI11 takes for octal
    return {};
  };
  return app.add_option(name, target, description)->transform(CLI::Validator(check, ""));
}

/// The check of an option whose value is one of these names.
CLI::Validator one_of(const std::vector<std::string>& names);

/// NAME=VALUE, cut at the last '='. UserError when there is no name; `allowed` ends its message.
struct Assignment {
  std::string name;
  std::string value;
};
Assignment parse_assignment(const std::string& option, const std::string& text, const std::string& allowed);

/// UserError when an option or argument of the command is given that is not among `used`, those that have an
/// effect in this mode. `mode` completes "no effect": "with --dir".
void check_mode(const CLI::App& command, std::string_view mode, const std::set<std::string>& used);

/// Whether this option is on the command line.
bool is_given(const CLI::App& command, const std::string& option);

}  // namespace kodama::tools
