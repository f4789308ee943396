/* Calls from several threads: one waits for what another brings; many at once; a device that is closed
 * meanwhile. */
#include <pthread.h>
#include <stdint.h>

#include "test.h"

enum { THREADS = 4, ROUNDS = 50 };

static mnc2_device_t dev;
static mnc2_kernel_t kernel;

static void sleep_ms(long ms) {
  const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&time, NULL);
}

static void* send_later(void* unused) {
  uint64_t value = 5;
  for (int i = 0; i < 3; ++i) {
    sleep_ms(30);
    if (mnc2_send(dev, &value, 0, 8, 10) != MNC2_SUCCESS) ++test_faults;
    ++value;
  }
  return unused;
}

static void* transfer(void* argument) {
  const uint64_t number = (uint64_t)(uintptr_t)argument;
  uint64_t data[16], back[16];
  long faults = 0;
  for (uint64_t round = 0; round < ROUNDS; ++round) {
    for (uint64_t i = 0; i < 16; ++i) data[i] = number << 32 | round << 8 | i;
    mnc2_dma_handle_t send = mnc2_async_send(dev, data, 4096 + number * 128, 128, 0);
    faults += mnc2_async_wait(send) != MNC2_SUCCESS;
    faults += mnc2_exec_kernel(kernel) != MNC2_SUCCESS;
    faults += mnc2_recv(dev, back, 4096 + number * 128, 128, 0) != MNC2_SUCCESS;
    faults += memcmp(data, back, sizeof(data)) != 0;
    faults += mnc2_async_release(send) != MNC2_SUCCESS;
  }
  return (void*)(uintptr_t)faults;
}

static void* wait_for_nothing(void* unused) {
  (void)unused;
  return (void*)(uintptr_t)(mnc2_wd_wait(dev, 63) == MNC2_ERROR_DEVICE ? 0 : 1);
}

int main(void) {
  dev = test_device();
  /* Each run wants a send of its own, although the tag's bit is set from the first on. */
  mnc2_kernel_t waiting =
      test_kernel(dev, "waiting.vsm", "nop; wait i0a\nmvp/n64i01 $p0@0 $p64@0\nnop; wait i01\n");
  pthread_t sender;
  EXPECT_EQ(pthread_create(&sender, NULL, send_later, NULL), 0);
  for (uint64_t i = 0; i < 3; ++i) {
    uint64_t value = 0;
    EXPECT_EQ(mnc2_exec_kernel(waiting), MNC2_SUCCESS);
    EXPECT_EQ(mnc2_wait_idma_idle(dev), MNC2_SUCCESS);
    EXPECT_EQ(mnc2_recv(dev, &value, 512, 8, 0), MNC2_SUCCESS);
    EXPECT_EQ(value, 5 + i);
  }
  EXPECT_EQ(pthread_join(sender, NULL), 0);

  kernel = test_kernel(dev, "nop.vsm", "nop\n");
  pthread_t threads[THREADS];
  for (uintptr_t k = 0; k < THREADS; ++k) EXPECT_EQ(pthread_create(&threads[k], NULL, transfer, (void*)k), 0);
  for (int k = 0; k < THREADS; ++k) {
    void* faults = NULL;
    EXPECT_EQ(pthread_join(threads[k], &faults), 0);
    EXPECT_EQ((uintptr_t)faults, 0);
  }
  uint64_t steps = 0;
  EXPECT_EQ(mnc2_capture_get_inst(dev, &steps), MNC2_SUCCESS);
  EXPECT_EQ(steps, 3 * 2 + THREADS * ROUNDS);

  mnc2_set_ddma_complete_max(dev, 1000000);
  pthread_t waiter;
  void* fault = NULL;
  EXPECT_EQ(pthread_create(&waiter, NULL, wait_for_nothing, NULL), 0);
  sleep_ms(50);
  mnc2_close(dev);
  EXPECT_EQ(pthread_join(waiter, &fault), 0);
  EXPECT_EQ((uintptr_t)fault, 0);
  return test_end();
}
