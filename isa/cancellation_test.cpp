#include "isa/cancellation.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "isa/parallel.h"

namespace kodama::isa {
namespace {

TEST(Cancellation, WorkUnderNoneGoesOn) {
  EXPECT_NO_THROW(stop_if_cancelled());
  Cancellation::current().cancel();  // nobody's
  EXPECT_NO_THROW(stop_if_cancelled());
}

TEST(Cancellation, EndsTheWorkUnderItAndNoOther) {
  Cancellation cancellation;
  {
    const CancellationScope scope(cancellation);
    EXPECT_NO_THROW(stop_if_cancelled());
    cancellation.cancel();
    EXPECT_THROW(stop_if_cancelled(), Cancelled);
    {
      const CancellationScope inner{Cancellation()};
      EXPECT_NO_THROW(stop_if_cancelled());
    }
    EXPECT_THROW(stop_if_cancelled(), Cancelled);
  }
  EXPECT_NO_THROW(stop_if_cancelled());
}

TEST(Cancellation, ReachesAnotherThread) {
  Cancellation cancellation;
  std::atomic<bool> begun = false;
  bool ended = false;
  std::thread worker([&] {
    const CancellationScope scope(cancellation);
    try {
      while (true) {
        begun = true;
        stop_if_cancelled();
      }
    } catch (const Cancelled&) {
      ended = true;
    }
  });
  while (!begun) std::this_thread::yield();
  cancellation.cancel();
  worker.join();
  EXPECT_TRUE(ended);
}

TEST(Cancellation, ReachesWorkInParallel) {
  Cancellation cancellation;
  const CancellationScope scope(cancellation);
  std::atomic<int> done = 0;
  EXPECT_THROW(for_each_in_parallel(100,
                                    [&](size_t) {
                                      if (++done == 10) cancellation.cancel();
                                      stop_if_cancelled();
                                    }),
               Cancelled);
  EXPECT_LT(done, 100);
}

}  // namespace
}  // namespace kodama::isa
