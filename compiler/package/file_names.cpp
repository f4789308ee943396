#include "compiler/package/file_names.h"

#include <fmt/format.h>

#include <cctype>
#include <map>
#include <set>

namespace kodama::compiler {
namespace {

/// File systems allow 255 bytes; endings and numbers come behind.
constexpr size_t kLongestStem = 190;

std::string safe(const std::string& name, size_t longest) {
  std::string stem;
  for (const char c : name.substr(0, longest))
    stem += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' ? c : '_';
  return stem;
}

}  // namespace

std::string file_stem(const std::string& name) {
  return safe(name, 60);
}

std::vector<std::string> distinct_file_stems(const std::vector<std::string>& names) {
  std::map<std::string, std::string> stems;
  std::set<std::string> taken;
  for (const std::string& name : names) {
    if (safe(name, kLongestStem) != name) continue;
    stems[name] = name;
    taken.insert(name);
  }
  for (const std::string& name : names) {
    if (stems.contains(name)) continue;
    const std::string first = safe(name, kLongestStem);
    std::string stem = first;
    for (int number = 2; !taken.insert(stem).second; ++number) stem = fmt::format("{}.{}", first, number);
    stems[name] = stem;
  }
  std::vector<std::string> all;
  for (const std::string& name : names) all.push_back(stems.at(name));
  return all;
}

}  // namespace kodama::compiler
