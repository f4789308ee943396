#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kodama::passes {

/// Options given as NAME=VALUE on the command line; a pass declares what it knows.
using PassOptions = std::map<std::string, std::string>;
struct PassOptionInfo {
  std::string name;
  std::string default_value;
  std::string description;
};

/// UserError when an option is given that none of these lists has.
void check_options(const PassOptions& options, const std::vector<const std::vector<PassOptionInfo>*>& known);

/// The option of this name; InternalError when the pass doesn't declare it.
const PassOptionInfo& declared_option(const std::vector<PassOptionInfo>& declared, std::string_view name);

/// The value of an option that is a whole number >= `least`, or its default. UserError for anything else.
int64_t integer_option(const PassOptions& options, const PassOptionInfo& info, int64_t least);
/// The value of an option that is one of `allowed`, or its default. UserError for anything else.
const std::string& choice_option(const PassOptions& options, const PassOptionInfo& info,
                                 const std::vector<std::string>& allowed);
/// The value of an option that is a positive integer, or its default. UserError for anything else.
int64_t positive_option(const PassOptions& options, const PassOptionInfo& info);

}  // namespace kodama::passes
