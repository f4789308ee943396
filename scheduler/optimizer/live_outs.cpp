#include <boost/algorithm/string.hpp>
#include <charconv>
#include <map>

#include "isa/error.h"
#include "scheduler/optimizer/optimize.h"

namespace kodama::scheduler {
using isa::HazardResource;

std::vector<LiveOut> parse_live_outs(std::string_view text) {
  static const std::map<std::string_view, HazardResource> kNames = {
      {"lm0", HazardResource::kLm0},   {"lm1", HazardResource::kLm1},
      {"grf0", HazardResource::kGrf0}, {"grf1", HazardResource::kGrf1},
      {"t", HazardResource::kT},       {"masks", HazardResource::kMask},
      {"bar0", HazardResource::kBar0}, {"bar1", HazardResource::kBar1},
      {"matx", HazardResource::kMatX}, {"maty", HazardResource::kMatY},
      {"l1bm", HazardResource::kL1bm}, {"turnaround", HazardResource::kTurnaround},
      {"l2bm", HazardResource::kL2bm}, {"dar", HazardResource::kDar},
      {"dram", HazardResource::kDram}, {"pdm", HazardResource::kPdm}};
  std::vector<LiveOut> result;
  const auto fail = [&](std::string_view item) {
    std::string names;
    for (const auto& [name, memory] : kNames) names += (names.empty() ? "" : " ") + std::string(name);
    throw isa::UserError(fmt::format(
        "--live-out: found '{}', allowed: NAME or NAME:FROM-TO, separated by commas, with NAME one of {}",
        item, names));
  };
  const auto number = [&](std::string_view digits, std::string_view item) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() || value < 0)
      fail(item);
    return value;
  };
  std::vector<std::string> items;
  boost::split(items, text, boost::is_any_of(","));
  for (const std::string& item : items) {
    std::vector<std::string> parts;
    boost::split(parts, item, boost::is_any_of(":"));
    const auto name = kNames.find(parts[0]);
    if (name == kNames.end() || parts.size() > 2) fail(item);
    LiveOut live{.memory = name->second};
    if (parts.size() == 2) {
      std::vector<std::string> ends;
      boost::split(ends, parts[1], boost::is_any_of("-"));
      if (ends.size() > 2) fail(item);
      live.begin = number(ends.front(), item);
      live.end = number(ends.back(), item) + 1;
      if (live.end <= live.begin) fail(item);
    }
    result.push_back(live);
  }
  return result;
}

}  // namespace kodama::scheduler
