#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "isa/json_value.h"

/// Writing problems and their solutions as JSON, and fields that may be left out. Internal to scheduler/.
namespace kodama::scheduler {

using isa::Json;
using isa::JsonValue;

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

/// The member `name`, or what stands for one that is left out.
inline int integer_or(const JsonValue& object, const char* name, int otherwise) {
  return object.has(name) ? object.at(name).small_integer() : otherwise;
}
inline bool flag_or(const JsonValue& object, const char* name, bool otherwise) {
  return object.has(name) ? object.at(name).flag() : otherwise;
}
inline std::string text_or_empty(const JsonValue& object, const char* name) {
  return object.has(name) ? object.at(name).text() : std::string();
}
inline std::vector<int> integers_or_none(const JsonValue& object, const char* name) {
  return object.has(name) ? object.at(name).small_integers() : std::vector<int>();
}
inline std::vector<std::string> texts_or_none(const JsonValue& object, const char* name) {
  return object.has(name) ? object.at(name).texts() : std::vector<std::string>();
}

/// Others name an element of a list by its place, so an "id", if there is one, must be it.
inline void check_id(const JsonValue& element, size_t place) {
  if (!element.has("id")) return;
  const JsonValue id = element.at("id");
  if (std::cmp_not_equal(id.integer(), place)) id.fail(fmt::format("{}, its place in the list", place));
}

}  // namespace kodama::scheduler
