#include "compiler/tensor/fresh_names.h"

#include <fmt/format.h>

namespace kodama::compiler {

std::string FreshNames::make_unique(const std::string& wish) {
  std::string name = wish;
  if (name.empty() || used_.contains(name)) {
    int& suffix = next_suffix_[wish];
    do {
      name = fmt::format("{}_{}", wish, ++suffix);
    } while (used_.contains(name));
  }
  used_.insert(name);
  return name;
}

}  // namespace kodama::compiler
