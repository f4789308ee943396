#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "passes/plugin_abi.h"

/// A plugin is a shared library with passes in it; `--plugin FILE` loads it before passes are chosen.
///
/// It has one function, which registers the passes, written with KODAMA_PLUGIN. A pass that is registered is
/// chosen by name as one of Kodama's own:
///
///     kodama::scheduler::Schedule mine(const kodama::scheduler::ScheduleProblem& problem,
///                                      const kodama::passes::PassOptions& options);
///
///     KODAMA_PLUGIN() {
///       kodama::scheduler::register_pass(
///           kodama::scheduler::BlockScheduler{.name = "mine", .description = "...", .run = mine});
///     }
///
/// A name that is taken is a UserError, and so is a plugin that was built against other headers. Plugins stay
/// loaded until the process ends. docs/write-a-pass.md has a whole one.
namespace kodama::passes {

/// The same headers can be laid out differently (_GLIBCXX_DEBUG, another standard library): the sizes of what
/// they are made of, in one number.
constexpr int plugin_layout() {
  uint32_t hash = 2166136261U;
  for (const size_t size :
       {sizeof(std::string), sizeof(std::vector<int>), sizeof(std::map<int, int>), sizeof(std::set<int>),
        sizeof(std::optional<int64_t>), sizeof(std::function<void()>), sizeof(std::shared_ptr<int>)}) {
    hash = (hash ^ static_cast<uint32_t>(size)) * 16777619U;
  }
  return static_cast<int>(hash >> 1);
}

}  // namespace kodama::passes

/// Begins the function that registers the passes of a plugin; once in every plugin.
// clang-format off
#define KODAMA_PLUGIN()                                                    \
  extern "C" {                                                             \
  [[gnu::visibility("default")]] extern const int kodama_plugin_abi;       \
  [[gnu::visibility("default")]] extern const int kodama_plugin_layout;    \
  [[gnu::visibility("default")]] void kodama_register_passes();            \
  const int kodama_plugin_abi = kodama::passes::kPluginAbi;             \
  const int kodama_plugin_layout = kodama::passes::plugin_layout();     \
  }                                                                        \
  void kodama_register_passes()
// clang-format on
