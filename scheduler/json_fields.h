#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "isa/error.h"

/// Reading and writing problems and their solutions as JSON. Internal to scheduler/.
namespace kodama::scheduler {

using Json = nlohmann::ordered_json;

/// A line per member, and per element of its lists.
inline std::string text_of(const Json& json) {
  const auto line = [](const Json& each) {
    return each.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  std::string text = "{";
  const char* between = "\n";
  for (const auto& [name, member] : json.items()) {
    text += fmt::format("{}{}: ", std::exchange(between, ",\n"), line(name));
    const bool is_list = member.is_array() && !member.empty() && member[0].is_object();
    if (!is_list) {
      text += line(member);
      continue;
    }
    for (size_t k = 0; k < member.size(); ++k) text += (k == 0 ? "[\n " : ",\n ") + line(member[k]);
    text += "]";
  }
  return text + "\n}\n";
}

/// Problems are a few levels deep; what is made of a text goes through its levels by recursion.
inline constexpr int kMostLevels = 32;
/// Parses a file. UserError when it is no JSON, is nested too deeply, or has a member twice, of which one
/// would be ignored.
inline Json parsed(std::string_view text, const std::string& source) {
  std::vector<std::set<std::string>> members;  // of the objects that are open, the innermost last
  const auto visit = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > kMostLevels)
      throw isa::UserError(fmt::format("{}: found more than {} levels of lists and objects, allowed: as many",
                                       source, kMostLevels));
    if (event == Json::parse_event_t::object_start) members.emplace_back();
    if (event == Json::parse_event_t::object_end) members.pop_back();
    if (event == Json::parse_event_t::key && !members.back().insert(value.get<std::string>()).second)
      throw isa::UserError(
          fmt::format("{}: found '{}' twice in one object, allowed: once", source, value.get<std::string>()));
    return true;
  };
  try {
    return Json::parse(text, visit);
  } catch (const Json::parse_error& error) {
    isa::SourceLocation where{source, 1, 1};
    for (const char c : text.substr(0, error.byte > 0 ? error.byte - 1 : 0)) {
      where.column = c == '\n' ? 1 : where.column + 1;
      where.line += c == '\n' ? 1 : 0;
    }
    throw isa::UserError(where, "found no valid JSON here");
  }
}
/// Whether a JSON integer is a number of this type.
template <typename Number>
bool is_number_of(const auto& json) {
  if (!json.is_number_integer()) return false;
  return json.is_number_unsigned() ? std::in_range<Number>(json.template get<uint64_t>())
                                   : std::in_range<Number>(json.template get<int64_t>());
}

/// Reads fields; an error says where in the file.
class Fields {
 public:
  Fields(const Json& json, std::string source, std::string path)
      : json_(json), source_(std::move(source)), path_(std::move(path)) {
    if (!json.is_object()) fail("", "an object", json);
  }

  /// UserError when there is a member that isn't one of these.
  void allow(std::initializer_list<std::string_view> names) const {
    for (const auto& [name, value] : json_.items()) {
      if (std::ranges::find(names, name) != names.end()) continue;
      throw isa::UserError(fmt::format("{}: {}: found '{}', allowed: {}", source_,
                                       path_.empty() ? "the file" : path_, name, fmt::join(names, ", ")));
    }
  }
  /// Others name an element of a list by its place, so an "id", if there is one, must be it.
  void check_id(size_t place) const {
    if (json_.contains("id") && json_["id"] != place)
      fail("id", fmt::format("{}, its place in the list", place).c_str(), json_["id"]);
  }

  template <typename Value>
  Value get(const char* name, Value otherwise) const {
    const auto found = json_.find(name);
    if (found == json_.end()) return otherwise;
    return convert<Value>(name, *found);
  }
  template <typename Value>
  Value get(const char* name) const {
    const auto found = json_.find(name);
    if (found == json_.end()) {
      throw isa::UserError(
          fmt::format("{}: {} has no '{}'", source_, path_.empty() ? "the file" : path_, name));
    }
    return convert<Value>(name, *found);
  }
  /// The objects of a list, each with its fields; an absent list is empty.
  template <typename Visit>
  void for_each(const char* name, Visit&& visit) const {
    const auto found = json_.find(name);
    if (found == json_.end()) return;
    if (!found->is_array()) fail(name, "a list", *found);
    for (size_t k = 0; k < found->size(); ++k)
      visit(Fields((*found)[k], source_, fmt::format("{}{}[{}]", path_.empty() ? "" : path_ + ".", name, k)));
  }
  [[noreturn]] void fail(const char* name, const char* wanted, const Json& found) const {
    std::string shown = found.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (shown.size() > 60) shown = shown.substr(0, 60) + "...";
    throw isa::UserError(fmt::format("{}: {}{}{}: found {}, allowed: {}", source_, path_,
                                     path_.empty() || *name == 0 ? "" : ".", name, shown, wanted));
  }

 private:
  template <typename Value>
  Value convert(const char* name, const Json& json) const {
    if constexpr (std::is_same_v<Value, bool>) {
      if (!json.is_boolean()) fail(name, "true or false", json);
    } else if constexpr (std::is_integral_v<Value>) {
      if (!is_number_of<int32_t>(json)) fail(name, "an integer of 32 bits", json);
    } else if constexpr (std::is_same_v<Value, std::string>) {
      if (!json.is_string()) fail(name, "a text", json);
    } else {
      if (!json.is_array()) fail(name, "a list", json);
      for (const Json& each : json) {
        if constexpr (std::is_same_v<typename Value::value_type, std::string>) {
          if (!each.is_string()) fail(name, "a list of texts", json);
        } else if (!is_number_of<int32_t>(each)) {
          fail(name, "a list of integers of 32 bits", json);
        }
      }
    }
    return json.get<Value>();
  }

  const Json& json_;
  std::string source_;
  std::string path_;
};

}  // namespace kodama::scheduler
