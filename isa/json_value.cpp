#include "isa/json_value.h"

#include <limits>
#include <set>
#include <utility>

namespace kodama::isa {

Json parse_json(std::string_view text, const std::string& source) {
  std::vector<std::set<std::string>> members;  // of the objects that are open, the innermost last
  const auto visit = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > kMostJsonLevels)
      throw UserError(fmt::format("{}: found more than {} levels of lists and objects, allowed: as many",
                                  source, kMostJsonLevels));
    if (event == Json::parse_event_t::object_start) members.emplace_back();
    if (event == Json::parse_event_t::object_end) members.pop_back();
    if (event == Json::parse_event_t::key && !members.back().insert(value.get<std::string>()).second)
      throw UserError(
          fmt::format("{}: found '{}' twice in one object, allowed: once", source, value.get<std::string>()));
    return true;
  };
  try {
    return Json::parse(text, visit);
  } catch (const Json::parse_error& error) {
    SourceLocation where{source, 1, 1};
    for (const char c : text.substr(0, error.byte > 0 ? error.byte - 1 : 0)) {
      where.column = c == '\n' ? 1 : where.column + 1;
      where.line += c == '\n' ? 1 : 0;
    }
    throw UserError(where, "found no valid JSON here");
  }
}

void JsonValue::fail(const std::string& wanted) const {
  std::string found = json_.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (found.size() > 60) found = found.substr(0, 60) + "...";
  throw UserError(fmt::format("{}: found {}, allowed: {}", where(), found, wanted));
}

JsonValue JsonValue::at(std::string_view name) const {
  if (!json_.is_object()) fail("an object");
  const auto found = json_.find(name);
  if (found == json_.end()) {
    throw UserError(
        fmt::format("{}: {} has no '{}'", source_, path_.empty() ? "the file" : path_.c_str(), name));
  }
  return {*found, source_, fmt::format("{}{}{}", path_, path_.empty() ? "" : ".", name)};
}

void JsonValue::allow(std::initializer_list<std::string_view> names) const {
  if (!json_.is_object()) fail("an object");
  for (const auto& [name, member] : json_.items()) {
    if (std::ranges::find(names, name) != names.end()) continue;
    throw UserError(fmt::format("{}: {}: found '{}', allowed: {}", source_,
                                path_.empty() ? "the file" : path_.c_str(), name, fmt::join(names, ", ")));
  }
}

std::vector<JsonValue> JsonValue::list() const {
  if (!json_.is_array()) fail("a list");
  std::vector<JsonValue> values;
  for (size_t k = 0; k < json_.size(); ++k)
    values.push_back({json_[k], source_, fmt::format("{}[{}]", path_, k)});
  return values;
}

int64_t JsonValue::integer(int64_t low, int64_t high) const {
  const bool fits = json_.is_number_integer() &&
                    (!json_.is_number_unsigned() || std::in_range<int64_t>(json_.get<uint64_t>()));
  const int64_t value = fits ? json_.get<int64_t>() : 0;
  if (fits && value >= low && value <= high) return value;
  for (const int bits : {32, 63}) {
    const int64_t most = (int64_t{1} << (bits - 1)) - 1;
    if (low == -most - 1 && high == most) fail(fmt::format("an integer of {} bits", bits));
  }
  fail(fmt::format("an integer from {} to {}", low, high));
}

int JsonValue::small_integer() const {
  return static_cast<int>(integer(std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()));
}

std::string JsonValue::text() const {
  if (!json_.is_string()) fail("a text");
  return json_.get<std::string>();
}

bool JsonValue::flag() const {
  if (!json_.is_boolean()) fail("true or false");
  return json_.get<bool>();
}

double JsonValue::number() const {
  if (json_ == "inf") return std::numeric_limits<double>::infinity();
  if (json_ == "-inf") return -std::numeric_limits<double>::infinity();
  if (!json_.is_number()) fail("a number, \"inf\" or \"-inf\"");
  return json_.get<double>();
}

}  // namespace kodama::isa
