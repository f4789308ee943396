#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "isa/cancellation.h"

namespace kodama::simulator {

/// Threads that share the tasks of one parallel loop at a time; the calling thread is one of them.
class ThreadPool {
 public:
  /// `threads` >= 1, the caller included. There may be fewer, down to the caller alone, when the system can't
  /// give so many; see threads().
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls task(i, thread) for 0 <= i < count, each once, in any order; returns when all are done. Throws
  /// the first exception that a task threw. All tasks are under the caller's Cancellation.
  void run(int count, const std::function<void(int i, int thread)>& task);

 private:
  void work(int thread);
  void take_tasks(int thread);

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  const std::function<void(int, int)>* task_ = nullptr;
  isa::Cancellation cancellation_ = isa::Cancellation::current();  ///< of those who called run()
  int count_ = 0;
  std::atomic<int> next_{0};
  std::atomic<uint64_t> generation_{0};
  std::atomic<int> busy_{0};
  bool stop_ = false;
  std::exception_ptr error_;
};

}  // namespace kodama::simulator
