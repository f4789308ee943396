#pragma once

#include <cstdint>
#include <functional>
#include <string>

/// Work in processes of its own, which may crash or never end.
namespace kodama::compiler {

struct ChildResult {
  std::string text;   ///< what the work returned; empty when it died
  std::string death;  ///< empty, or "signal 11 (Segmentation fault)", "more than 60 s of processor time", …
};

/// Calls work(0), …, work(count - 1), `jobs` of them at a time, each in a forked process that may use
/// `seconds` of processor time; `done` receives the results here, in their order. Nothing may have started
/// threads in this process. UserError if there are no more processes.
void run_in_children(int64_t count, int jobs, int seconds, const std::function<std::string(int64_t)>& work,
                     const std::function<void(int64_t, const ChildResult&)>& done);

}  // namespace kodama::compiler
