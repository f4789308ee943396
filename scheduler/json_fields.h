#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

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
/// Throws the parser's error, or UserError when a text is nested too deeply.
template <typename Value>
Value parse_shallow(std::string_view text, const std::string& source) {
  return Value::parse(text, [&](int depth, typename Value::parse_event_t, Value&) {
    if (depth <= kMostLevels) return true;
    throw isa::UserError(fmt::format("{}: found more than {} levels of lists and objects, allowed: as many",
                                     source, kMostLevels));
  });
}
inline Json parsed(const std::string& text, const std::string& source) {
  try {
    return parse_shallow<Json>(text, source);
  } catch (const Json::parse_error& error) {
    throw isa::UserError(fmt::format("{}: no JSON at byte {}: {}", source, error.byte, error.what()));
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
      if (!json.is_number_integer()) fail(name, "an integer", json);
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
