#include "compiler/graph/gradient/choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "isa/error.h"

namespace kodama::compiler {

std::string choices_to_string(const std::vector<ChoiceRow>& rows) {
  std::vector<std::string> names;
  for (const ChoiceRow& row : rows) {
    std::vector<std::string> keys;
    for (const ChoiceKey& key : row.keys) keys.push_back(fmt::format("{}={}", key.name, key.default_value));
    names.push_back(keys.empty() ? row.name : fmt::format("{}:{}", row.name, fmt::join(keys, ",")));
  }
  return fmt::format("{}", fmt::join(names, " | "));
}

Choice parse_choice(const std::string& option, const std::string& text, const std::vector<ChoiceRow>& rows) {
  const size_t colon = text.find(':');
  Choice choice;
  choice.name = text.substr(0, colon);
  const auto row = std::ranges::find(rows, choice.name, &ChoiceRow::name);
  if (row == rows.end())
    throw isa::UserError(
        fmt::format("{}: '{}' is none of: {}", option, choice.name, choices_to_string(rows)));
  for (const ChoiceKey& key : row->keys) choice.numbers[key.name] = key.default_value;
  for (size_t begin = colon; begin != std::string::npos && begin + 1 <= text.size();) {
    const size_t end = text.find(',', begin + 1);
    const std::string item = text.substr(begin + 1, end == std::string::npos ? end : end - begin - 1);
    const size_t equals = item.find('=');
    const std::string key = item.substr(0, equals);
    double value = 0;
    const char* const first = equals == std::string::npos ? nullptr : item.data() + equals + 1;
    const char* const last = item.data() + item.size();
    if (!choice.numbers.contains(key) || first == nullptr || first == last ||
        std::from_chars(first, last, value).ptr != last)
      throw isa::UserError(
          fmt::format("{}: '{}' isn't KEY=NUMBER with a key of {}", option, item, choices_to_string({*row})));
    choice.numbers[key] = value;
    begin = end;
  }
  return choice;
}

}  // namespace kodama::compiler
