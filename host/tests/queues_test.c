/* Kernels after kernels, and kernels that wait for the host. */
#include <stdint.h>

#include "test.h"

/* Adds one to PDM 0 to 63 of group 0 (by way of L1BM and the PEs). */
static const char count_vsm[] =
    "mvp/n64i01 $p0@0 $lc0@0.0\nnop; wait i01\nl2bmb $lc0 $lb0\nnop/2\nl1bmm $lb0 $lr0v\nnop/2\nlinc $lr0v "
    "$lr0v\n"
    "nop/2\nl1bmm@0 $lr0v $lb0\nnop/3\nl2bm@0 $lb0 $lc0\nnop/2\nmvp/n64i01 $lc0@0.0 $p0@0\nnop; wait i01\n";
/* The same when tag 10 has come. */
static char waiting_vsm[sizeof(count_vsm) + 32];

static uint64_t first_lw(mnc2_device_t dev) {
  uint64_t value = ~UINT64_C(0);
  EXPECT_EQ(mnc2_recv(dev, &value, 0, 8, 0), MNC2_SUCCESS);
  return value;
}
static void send_first(mnc2_device_t dev, uint64_t value, unsigned tag) {
  EXPECT_EQ(mnc2_send(dev, &value, 0, 8, tag), MNC2_SUCCESS);
}

static void test_in_a_row(mnc2_device_t dev) {
  mnc2_kernel_t count = test_kernel(dev, "count.vsm", count_vsm);
  send_first(dev, 100, 0);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(mnc2_exec_kernel(count), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_wait_idma_idle(dev), MNC2_SUCCESS);
  EXPECT_EQ(first_lw(dev), 140);
  mnc2_free_kernel(count);
  mnc2_free_kernel(count);
  mnc2_free_kernel(NULL);
  EXPECT_EQ(mnc2_exec_kernel(count), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_exec_kernel(NULL), MNC2_ERROR_PARAM);
}

/* Each run takes an arrival; runs queue up, and later ones of other kernels behind them. */
static void test_tag_after_exec(mnc2_device_t dev) {
  mnc2_kernel_t waiting = test_kernel(dev, "waiting.vsm", waiting_vsm);
  mnc2_kernel_t count = test_kernel(dev, "count.vsm", count_vsm);
  send_first(dev, 0, 0);
  EXPECT_EQ(mnc2_exec_kernel(waiting), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_exec_kernel(count), MNC2_SUCCESS);
  uint64_t value = 9;
  static uint64_t later;
  EXPECT_EQ(mnc2_set_endian_ctrl(dev, 1), MNC2_SUCCESS);
  mnc2_dma_handle_t recv = mnc2_async_recv(dev, &later, 0, 8, 0);
  EXPECT_EQ(mnc2_set_endian_ctrl(dev, 4), MNC2_SUCCESS); /* does not change what was started */
  EXPECT_EQ(mnc2_exec_kernel(waiting), MNC2_SUCCESS);
  int done = 1;
  EXPECT_EQ(mnc2_async_poll(recv, &done), MNC2_SUCCESS);
  EXPECT_EQ(done, 0);
  mnc2_idma_stat_t idma;
  mnc2_ddma_stat_t ddma;
  EXPECT_EQ(mnc2_get_idma_stat(dev, &idma), MNC2_SUCCESS);
  EXPECT_EQ(idma.n_dma, 3);
  EXPECT(idma.inst_in_ibuf > 5);
  EXPECT_EQ(mnc2_get_ddma_stat(dev, &ddma), MNC2_SUCCESS);
  EXPECT_EQ(ddma.pdm_to_host[0].n_dma + ddma.pdm_to_host[1].n_dma, 1);
  EXPECT_EQ(ddma.pdm_to_host[0].active + ddma.pdm_to_host[1].active, 1);
  EXPECT_EQ(mnc2_debug_read(dev, MNC2_MEM_PDM, NULL, 0, 1, &value), MNC2_SUCCESS);
  EXPECT_EQ(value, 0); /* nothing has run */

  send_first(dev, 1000, 10);
  EXPECT_EQ(mnc2_async_wait(recv), MNC2_SUCCESS);
  EXPECT_EQ(later, UINT64_C(1002) << 48 >> 56 << 48 | UINT64_C(1002) << 56);
  EXPECT_EQ(mnc2_async_release(recv), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_get_idma_stat(dev, &idma), MNC2_SUCCESS);
  EXPECT_EQ(idma.n_dma, 1); /* the arrival was taken */
  send_first(dev, 2000, 10);
  EXPECT_EQ(first_lw(dev), 2001);
  /* Before the kernel is as good. */
  send_first(dev, 3000, 10);
  EXPECT_EQ(mnc2_exec_kernel(waiting), MNC2_SUCCESS);
  EXPECT_EQ(first_lw(dev), 3001);
  /* A tag that came once serves the next run, too, when the host needs it and nothing else comes … */
  EXPECT_EQ(mnc2_exec_kernel(waiting), MNC2_SUCCESS);
  EXPECT_EQ(first_lw(dev), 3002);
  /* … unless it was cleared. */
  EXPECT_EQ(mnc2_clear_wdbit(dev, 10), MNC2_SUCCESS);
  mnc2_set_idma_complete_max(dev, 20);
  mnc2_set_ddma_complete_max(dev, 20);
  EXPECT_EQ(mnc2_exec_kernel(waiting), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_recv(dev, &value, 0, 8, 0), MNC2_ERROR_TIMEOUT);
  EXPECT_EQ(mnc2_wait_idma_idle(dev), MNC2_ERROR_TIMEOUT);
  EXPECT_EQ(mnc2_wait_ddma_idle(dev), MNC2_SUCCESS); /* no transfer is under way */
  send_first(dev, 5, 10);
  EXPECT_EQ(mnc2_wait_idma_idle(dev), MNC2_SUCCESS);
  EXPECT_EQ(first_lw(dev), 6);
  mnc2_free_kernel(waiting);
  mnc2_free_kernel(count);
}

/* 31 kernels and 62 transfers wait; reset cuts all off. */
static void test_full_queues(mnc2_device_t dev) {
  mnc2_kernel_t waiting = test_kernel(dev, "waiting.vsm", waiting_vsm);
  mnc2_reset(dev);
  for (int i = 0; i < 31; ++i) EXPECT_EQ(mnc2_exec_kernel(waiting), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_exec_kernel(waiting), MNC2_ERROR_BUSY);
  mnc2_idma_stat_t idma;
  EXPECT_EQ(mnc2_get_idma_stat(dev, &idma), MNC2_SUCCESS);
  EXPECT_EQ(idma.n_dma, 31);
  EXPECT_EQ(idma.overflow, 1);
  static uint64_t words[62];
  mnc2_dma_handle_t handles[62];
  for (int i = 0; i < 62; ++i) EXPECT((handles[i] = mnc2_async_recv(dev, &words[i], 0, 8, 0)) != NULL);
  EXPECT(mnc2_async_recv(dev, words, 0, 8, 0) == NULL);
  mnc2_ddma_stat_t ddma;
  EXPECT_EQ(mnc2_get_ddma_stat(dev, &ddma), MNC2_SUCCESS);
  EXPECT_EQ(ddma.pdm_to_host[0].n_dma, 31);
  EXPECT_EQ(ddma.pdm_to_host[1].n_dma, 31);
  EXPECT_EQ(ddma.pdm_to_host[0].overflow + ddma.pdm_to_host[1].overflow, 1);
  mnc2_set_ddma_complete_max(dev, 10);
  EXPECT_EQ(mnc2_async_wait(handles[3]), MNC2_ERROR_TIMEOUT);
  EXPECT_EQ(mnc2_async_release(handles[4]), MNC2_ERROR_TIMEOUT); /* out of the queue */
  EXPECT_EQ(mnc2_wait_ddma_idle(dev), MNC2_ERROR_TIMEOUT);
  EXPECT_EQ(mnc2_reset(dev), MNC2_SUCCESS);
  int done = 0;
  EXPECT_EQ(mnc2_async_poll(handles[3], &done), MNC2_ERROR_DMA);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(mnc2_async_wait(handles[3]), MNC2_ERROR_DMA);
  EXPECT_EQ(mnc2_async_release(handles[3]), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_get_idma_stat(dev, &idma), MNC2_SUCCESS);
  EXPECT_EQ(idma.n_dma | idma.overflow, 0);
  EXPECT_EQ(mnc2_wait_idma_idle(dev), MNC2_SUCCESS);
  /* A poll that would never end does. */
  EXPECT_EQ(mnc2_exec_kernel(waiting), MNC2_SUCCESS);
  mnc2_dma_handle_t recv = mnc2_async_recv(dev, words, 0, 8, 0);
  int result = MNC2_SUCCESS;
  for (done = 0; !done && result == MNC2_SUCCESS;) result = mnc2_async_poll(recv, &done);
  EXPECT_EQ(result, MNC2_ERROR_TIMEOUT);
  mnc2_set_idma_complete_max(dev, 20);
  mnc2_free_kernel(waiting); /* can't be waited for, is dropped */
  EXPECT_EQ(mnc2_async_wait(recv), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_wait_idma_idle(dev), MNC2_SUCCESS);
}

/* A kernel that waits twice for one tag goes on in parts, and a block mask holds over the cut. */
static void test_parts(mnc2_device_t dev) {
  mnc2_reset(dev);
  mnc2_kernel_t parts =
      test_kernel(dev, "parts.vsm",
                  "zero $lm0v\nnop/2\nmaskm 24\nnop; wait i0a\nlinc $lm0v $lm0v\nnop; wait i0a\n"
                  "nop/2\nlinc $lm0v $lm0v\nmask 0\nnop; wait i0b\nnop\nlinc $lm0v $lm0v\n");
  uint64_t lm[4] = {9, 9, 9, 9};
  EXPECT_EQ(mnc2_exec_kernel(parts), MNC2_SUCCESS);
  send_first(dev, 0, 10);
  EXPECT_EQ(mnc2_debug_read(dev, MNC2_MEM_LM0, NULL, 0, 4, lm), MNC2_SUCCESS);
  EXPECT_EQ(lm[0] * 1000 + lm[1] * 100 + lm[2] * 10 + lm[3], 1000); /* mask 24 is 1000 */
  send_first(dev, 0, 10);
  EXPECT_EQ(mnc2_debug_read(dev, MNC2_MEM_LM0, NULL, 0, 4, lm), MNC2_SUCCESS);
  EXPECT_EQ(lm[0] * 1000 + lm[1] * 100 + lm[2] * 10 + lm[3], 2000);
  send_first(dev, 0, 11);
  EXPECT_EQ(mnc2_wait_idma_idle(dev), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_debug_read(dev, MNC2_MEM_LM0, NULL, 0, 4, lm), MNC2_SUCCESS);
  EXPECT_EQ(lm[0] * 1000 + lm[1] * 100 + lm[2] * 10 + lm[3], 3111);
  mnc2_free_kernel(parts);
}

/* A kernel's own tags need no host, nor one that a kernel before it has brought. */
static void test_tags_of_kernels(mnc2_device_t dev) {
  mnc2_reset(dev);
  mnc2_kernel_t brings = test_kernel(dev, "brings.vsm", "mvp/n64i21 $p0@0 $p64@0\n");
  mnc2_kernel_t takes = test_kernel(dev, "takes.vsm", "nop; wait i21\nlinc $lr0 $lr0\n");
  mnc2_idma_stat_t idma;
  EXPECT_EQ(mnc2_exec_kernel(takes), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_get_idma_stat(dev, &idma), MNC2_SUCCESS);
  EXPECT_EQ(idma.n_dma, 1);
  EXPECT_EQ(mnc2_reset(dev), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_exec_kernel(brings), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_exec_kernel(takes), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_get_idma_stat(dev, &idma), MNC2_SUCCESS);
  EXPECT_EQ(idma.n_dma, 0);
  EXPECT_EQ(mnc2_tag_wait(dev, 0x21), MNC2_SUCCESS);
  /* Two waits for one transfer of its own are no wait for the host. */
  mnc2_kernel_t twice =
      test_kernel(dev, "twice.vsm", "mvp/n64i22 $p0@0 $p64@0\nnop; wait i22\nnop; wait i22\n");
  EXPECT_EQ(mnc2_exec_kernel(twice), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_get_idma_stat(dev, &idma), MNC2_SUCCESS);
  EXPECT_EQ(idma.n_dma, 0);
  mnc2_free_kernel(twice);
  mnc2_free_kernel(brings);
  mnc2_free_kernel(takes);
}

/* The chip refuses some kernels only when they run. */
static void test_refused(mnc2_device_t dev) {
  mnc2_reset(dev);
  mnc2_kernel_t bad = test_kernel(dev, "bad.vsm", "nop; wait i0a\nmvp/n64 $d536870900@0 $p0@0\n");
  uint64_t value = 0;
  if (bad == NULL) return;
  send_first(dev, 0, 10);
  EXPECT_EQ(mnc2_exec_kernel(bad), MNC2_ERROR_KERNEL);
  EXPECT_EQ(mnc2_wait_idma_idle(dev), MNC2_SUCCESS); /* was reported */
  mnc2_clear_wdbit(dev, 10);
  EXPECT_EQ(mnc2_exec_kernel(bad), MNC2_SUCCESS);
  send_first(dev, 77, 10);
  EXPECT_EQ(mnc2_wait_idma_idle(dev), MNC2_ERROR_KERNEL);
  EXPECT_EQ(mnc2_wait_idma_idle(dev), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_recv(dev, &value, 0, 8, 0), MNC2_SUCCESS);
  EXPECT_EQ(value, 77);
  mnc2_free_kernel(bad);
}

int main(void) {
  snprintf(waiting_vsm, sizeof(waiting_vsm), "nop; wait i0a\n%s", count_vsm);
  mnc2_device_t dev = test_device();
  test_in_a_row(dev);
  test_tag_after_exec(dev);
  test_full_queues(dev);
  test_parts(dev);
  test_tags_of_kernels(dev);
  test_refused(dev);
  /* A device may be closed with all that hangs on it. */
  mnc2_kernel_t waiting = test_kernel(dev, "waiting.vsm", waiting_vsm);
  EXPECT_EQ(mnc2_reset(dev), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_exec_kernel(waiting), MNC2_SUCCESS);
  mnc2_close(dev);
  mnc2_free_kernel(waiting);
  EXPECT_EQ(mnc2_exec_kernel(waiting), MNC2_ERROR_PARAM);
  return test_end();
}
