#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace kodama::isa {

/// Shows what takes long, on standard error: the phase, how far it is, and the time left. Only on a terminal,
/// and only a phase that takes longer than a second; none with --quiet. With --verbose a phase that ends
/// leaves a line with its time, on a terminal or not.
///
/// A thread draws, so that a phase which tells nothing of its progress is seen, too.
class ProgressBar {
 public:
  /// Begins a phase.
  explicit ProgressBar(std::string label);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Ends the phase, and begins another.
  void phase(std::string label);
  /// How far it is; `total` 0: nobody knows.
  void update(int64_t done, int64_t total, const std::string& what);
  /// Ends the phase, and removes the bar.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  void begin(std::string label);
  void draw_until_over();

  bool is_on_ = false;
  Clock::time_point start_;
  std::thread drawer_;
  std::mutex mutex_;  ///< of everything below
  std::condition_variable changed_;
  bool is_over_ = false;
  std::string label_;
  std::string what_;
  int64_t done_ = 0, total_ = 0;
  int64_t first_done_ = 0;  ///< of the first update
  Clock::time_point first_update_;
};

/// The text of a bar, in at most `width` characters: "compiling [####....] 12/40, 8 s left: conv1".
/// `elapsed` seconds of the phase; the time left follows from `rate`, seconds for one of `total`, 0: unknown.
std::string progress_line(const std::string& label, int64_t done, int64_t total, const std::string& what,
                          double elapsed, double rate, size_t width);

}  // namespace kodama::isa
