#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace kodama::compiler {

/// A progress bar on standard error: only on a terminal, and only for what takes longer than a second.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(int64_t done, int64_t total, const std::string& what);
  /// Removes the bar.
  void finish();

 private:
  std::string label_;
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace kodama::compiler
