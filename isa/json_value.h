#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "isa/error.h"

/// Reading JSON files that anybody may have written: every value is checked, and every error says where it
/// is.
namespace kodama::isa {

using Json = nlohmann::ordered_json;

/// Files are a few levels deep; what is made of a text goes through its levels by recursion.
inline constexpr int kMostJsonLevels = 32;
/// Sums of two integers of a file don't overflow.
inline constexpr int64_t kLargestJsonInteger = (int64_t{1} << 62) - 1;

/// Parses a file. UserError when it is no JSON (with line and column), is nested too deeply, or has a member
/// twice, of which one would be ignored.
Json parse_json(std::string_view text, const std::string& source);

/// A value of a file, and where it is there. All errors are UserErrors "FILE: operations[0].uses: found ...,
/// allowed: ...". The JSON must outlive this.
class JsonValue {
 public:
  /// The whole file.
  JsonValue(const Json& json, std::string source) : json_(json), source_(std::move(source)) {}

  /// "FILE: operations[0].uses".
  std::string where() const { return path_.empty() ? source_ : source_ + ": " + path_; }
  [[noreturn]] void fail(const std::string& wanted) const;

  /// Of an object: whether it has the member, and that member.
  bool has(std::string_view name) const { return json_.is_object() && json_.contains(name); }
  JsonValue at(std::string_view name) const;
  /// This is an object that has no other members.
  void allow(std::initializer_list<std::string_view> names) const;
  /// visit(name, value) for the members of an object.
  template <typename Visit>
  void for_each_member(Visit&& visit) const {
    if (!json_.is_object()) fail("an object");
    for (const auto& [name, member] : json_.items()) visit(name, at(name));
  }

  /// The elements of a list.
  std::vector<JsonValue> list() const;
  template <typename Read>
  auto list_of(Read&& read) const {
    std::vector<std::decay_t<decltype(read(*this))>> values;
    for (const JsonValue& value : list()) values.push_back(read(value));
    return values;
  }
  /// The elements of a member that is a list; an absent list is empty.
  template <typename Visit>
  void for_each(std::string_view name, Visit&& visit) const {
    if (!json_.is_object()) fail("an object");
    if (!has(name)) return;
    for (const JsonValue& value : at(name).list()) visit(value);
  }

  int64_t integer(int64_t low = -kLargestJsonInteger - 1, int64_t high = kLargestJsonInteger) const;
  int small_integer() const;
  bool is_text() const { return json_.is_string(); }
  std::string text() const;
  /// What `parse` makes of a text. Its errors don't know where that is from.
  template <typename Parse>
  auto parsed(Parse&& parse) const {
    try {
      return parse(text());
    } catch (const UserError& error) {
      throw UserError(fmt::format("{}: {}", where(), error.what()));
    }
  }
  bool flag() const;
  /// A number, or the text "inf" or "-inf": JSON has no infinities.
  double number() const;
  template <typename Enum, size_t N>
  Enum one_of(const std::array<const char*, N>& names) const {
    for (size_t k = 0; k < N; ++k) {
      if (json_ == names[k]) return static_cast<Enum>(k);
    }
    fail(fmt::format("\"{}\"", fmt::join(names, "\", \"")));
  }
  std::vector<int64_t> integers() const {
    return list_of([](const JsonValue& value) { return value.integer(); });
  }
  std::vector<int> small_integers() const {
    return list_of([](const JsonValue& value) { return value.small_integer(); });
  }
  std::vector<std::string> texts() const {
    return list_of([](const JsonValue& value) { return value.text(); });
  }

 private:
  JsonValue(const Json& json, std::string source, std::string path)
      : json_(json), source_(std::move(source)), path_(std::move(path)) {}

  const Json& json_;
  std::string source_;
  std::string path_;  ///< empty: the whole file
};

}  // namespace kodama::isa
