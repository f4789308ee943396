#include "simulator/thread_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>

namespace kodama::simulator {
namespace {

TEST(ThreadPool, WorksWithTheThreadsThatTheSystemGives) {
  // Threads with such stacks can't be made.
  pthread_attr_t before;
  pthread_attr_t huge;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  ASSERT_EQ(pthread_attr_init(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 46), 0);
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  ThreadPool pool(8);
  ASSERT_EQ(pthread_setattr_default_np(&before), 0);
  EXPECT_EQ(pool.threads(), 1);
  int sum = 0;
  pool.run(10, [&](int i, int) { sum += i; });
  EXPECT_EQ(sum, 45);
}

}  // namespace
}  // namespace kodama::simulator
