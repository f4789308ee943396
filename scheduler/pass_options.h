#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kodama::scheduler {

/// Options given as NAME=VALUE on the command line; a pass declares what it knows.
using PassOptions = std::map<std::string, std::string>;
struct PassOptionInfo {
  std::string name;
  std::string default_value;
  std::string description;
};

/// UserError when an option is given that none of these lists has.
void check_options(const PassOptions& options, const std::vector<const std::vector<PassOptionInfo>*>& known);

/// The value of an option that is a positive integer, or its default. UserError for anything else.
int64_t positive_option(const PassOptions& options, const PassOptionInfo& info);

}  // namespace kodama::scheduler
