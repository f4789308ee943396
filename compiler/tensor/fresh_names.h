#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>

namespace kodama::compiler {

/// Gives names that nobody else has: to nodes, values, layers, tensors, regions of programs.
class FreshNames {
 public:
  /// `name` is in use.
  void reserve(const std::string& name) { used_.insert(name); }
  /// `name` isn't in use any more.
  void release(const std::string& name) {
    used_.erase(name);
    next_suffix_.clear();
  }
  /// `wish` if it is free and not empty, else `wish`_1, `wish`_2, …; the result is in use from then on.
  std::string make_unique(const std::string& wish);

 private:
  std::unordered_set<std::string> used_;
  std::unordered_map<std::string, int> next_suffix_;  ///< so that many equal wishes don't begin at 1 each
};

}  // namespace kodama::compiler
