#include "isa/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "isa/cancellation.h"

namespace kodama::isa {
namespace {

/// Processors without a thread of this process.
std::atomic<int>& idle_processors() {
  static std::atomic<int> idle = static_cast<int>(std::thread::hardware_concurrency()) - 1;
  return idle;
}
bool take_processor() {
  int idle = idle_processors();
  while (idle > 0) {
    if (idle_processors().compare_exchange_weak(idle, idle - 1)) return true;
  }
  return false;
}

class ParallelLoop {
 public:
  ParallelLoop(size_t count, const std::function<void(size_t)>& work)
      : count_(count), work_(work), failed_(count) {}

  void run() {
    const Cancellation cancellation = Cancellation::current();
    std::vector<std::thread> helpers;
    while (helpers.size() + 1 < count_ && take_processor()) {
      try {
        helpers.emplace_back([this, &cancellation] {
          const CancellationScope scope(cancellation);
          take();
          ++idle_processors();
        });
      } catch (const std::system_error&) {
        ++idle_processors();
        break;
      }
    }
    take();
    for (std::thread& helper : helpers) helper.join();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void take() {
    while (true) {
      const size_t k = next_++;
      if (k >= count_) return;
      try {
        stop_if_cancelled();
        work_(k);
      } catch (...) {
        // Those before it have all begun; one of them may still fail.
        next_ = count_;
        const std::lock_guard lock(mutex_);
        if (k >= failed_) continue;
        failed_ = k;
        error_ = std::current_exception();
      }
    }
  }

  const size_t count_;
  const std::function<void(size_t)>& work_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  size_t failed_;
  std::exception_ptr error_;
};

}  // namespace

void for_each_in_parallel(size_t count, const std::function<void(size_t)>& work) {
  ParallelLoop(count, work).run();
}

}  // namespace kodama::isa
