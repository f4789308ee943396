#include "compiler/report/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "isa/terminal.h"

namespace kodama::compiler {

ProgressBar::ProgressBar(std::string label)
    : label_(std::move(label)),
      terminal_(::isatty(STDERR_FILENO) != 0),
      start_(std::chrono::steady_clock::now()),
      last_(start_) {}

ProgressBar::~ProgressBar() {
  finish();
}

void ProgressBar::update(int64_t done, int64_t total, const std::string& what) {
  using namespace std::chrono_literals;
  if (!terminal_ || total <= 0) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - start_ < 1s || (shown_ && now - last_ < 100ms)) return;
  last_ = now;
  shown_ = true;
  constexpr int64_t kWidth = 30;
  const int64_t filled = std::clamp<int64_t>(done * kWidth / total, 0, kWidth);
  fmt::print(stderr, "\r\033[K{} [{}{}] {}/{} {}", label_, std::string(static_cast<size_t>(filled), '#'),
             std::string(static_cast<size_t>(kWidth - filled), '.'), done, total,
             isa::printable(what.substr(0, 30)));
  std::fflush(stderr);
}

void ProgressBar::finish() {
  if (!shown_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace kodama::compiler
