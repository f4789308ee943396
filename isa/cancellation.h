#pragma once

#include <atomic>
#include <memory>
#include <utility>

/// Work that takes long and can be told to end.
///
/// Who starts it keeps a Cancellation and lets the work run under it; who does it asks now and then:
///
///     Cancellation cancellation;
///     std::thread worker([&] {
///       const CancellationScope scope(cancellation);
///       compile();                     // in its loops: stop_if_cancelled()
///     });
///     cancellation.cancel();           // compile() ends with Cancelled
///
/// What is done in parallel (isa/parallel.h, simulator/thread_pool.h) is under the Cancellation of whoever
/// has it done.
namespace kodama::isa {

/// Thrown by work that was told to end. It is no error and no std::exception: nobody handles it on the way.
struct Cancelled {};

class Cancellation {
 public:
  Cancellation() : flag_(std::make_shared<std::atomic<bool>>(false)) {}
  /// The one that the calling thread's work is under; if there is none, one that nobody else has.
  static Cancellation current();

  /// From any thread.
  void cancel() {
    if (flag_) *flag_ = true;
  }

 private:
  friend class CancellationScope;
  using Flag = std::shared_ptr<std::atomic<bool>>;
  explicit Cancellation(Flag flag) : flag_(std::move(flag)) {}

  Flag flag_;  ///< null: nobody will set it
};

/// While it lives, the calling thread's work is under `cancellation`.
class CancellationScope {
 public:
  explicit CancellationScope(Cancellation cancellation);
  ~CancellationScope();
  CancellationScope(const CancellationScope&) = delete;
  CancellationScope& operator=(const CancellationScope&) = delete;

 private:
  const Cancellation cancellation_;
  const Cancellation::Flag* const before_;
};

/// Throws Cancelled if the calling thread's work was told to end. Costs a look at a variable of the thread
/// and at what it refers to: loops may ask every time, if a pass takes a microsecond or more.
void stop_if_cancelled();

}  // namespace kodama::isa
