#include "isa/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <utility>

#include "isa/status_line.h"
#include "isa/terminal.h"
#include "isa/verbosity.h"

namespace kodama::isa {
namespace {

using namespace std::chrono_literals;

std::string duration_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::ceil(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace

std::string progress_line(const std::string& label, int64_t done, int64_t total, const std::string& what,
                          double elapsed, double rate, size_t width) {
  constexpr int64_t kBar = 20;
  std::string line = label;
  if (total > 0) {
    const int64_t filled = std::clamp<int64_t>(done * kBar / total, 0, kBar);
    line += fmt::format(" [{}{}] {}/{}", std::string(static_cast<size_t>(filled), '#'),
                        std::string(static_cast<size_t>(kBar - filled), '.'), done, total);
    if (rate > 0 && done < total)
      line += fmt::format(", {} left", duration_text(rate * static_cast<double>(total - done)));
  } else {
    line += fmt::format(" for {}", duration_text(std::floor(elapsed)));
  }
  if (!what.empty()) line += ": " + isa::printable(what);
  if (line.size() > width) {
    size_t end = width;
    while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0) == 0x80) --end;  // no half characters
    line.resize(end);
  }
  return line;
}

ProgressBar::ProgressBar(std::string label) {
  begin(std::move(label));
}

ProgressBar::~ProgressBar() {
  finish();
}

void ProgressBar::begin(std::string label) {
  is_on_ = true;
  start_ = Clock::now();
  is_over_ = false;
  label_ = std::move(label);
  what_.clear();
  done_ = total_ = 0;
  if (isa::verbosity() != isa::Verbosity::kQuiet && ::isatty(STDERR_FILENO) != 0)
    drawer_ = std::thread([this] { draw_until_over(); });
}

void ProgressBar::phase(std::string label) {
  finish();
  begin(std::move(label));
}

void ProgressBar::update(int64_t done, int64_t total, const std::string& what) {
  if (!drawer_.joinable()) return;
  const std::lock_guard lock(mutex_);
  if (total_ != total) {
    first_done_ = done;
    first_update_ = Clock::now();
  }
  done_ = done;
  total_ = total;
  what_ = what;
}

void ProgressBar::finish() {
  if (!std::exchange(is_on_, false)) return;
  if (drawer_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_one();
    drawer_.join();
  }
  if (isa::verbosity() == isa::Verbosity::kVerbose)
    std::cerr << fmt::format("{}: {:.2f} s\n", label_,
                             std::chrono::duration<double>(Clock::now() - start_).count());
}

void ProgressBar::draw_until_over() {
  std::unique_lock lock(mutex_);
  bool is_drawn = false;
  for (Clock::time_point next = start_ + 1s; !changed_.wait_until(lock, next, [&] { return is_over_; });
       next = Clock::now() + 200ms) {
    const auto seconds = [](Clock::duration time) { return std::chrono::duration<double>(time).count(); };
    const double rate = done_ > first_done_
                            ? seconds(Clock::now() - first_update_) / static_cast<double>(done_ - first_done_)
                            : 0;
    const size_t width = isa::terminal_width().value_or(80) - 1;
    isa::draw_status(
        progress_line(label_, done_, total_, what_, seconds(Clock::now() - start_), rate, width));
    is_drawn = true;
  }
  if (is_drawn) isa::erase_status();
}

}  // namespace kodama::isa
