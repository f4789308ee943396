/* Devices, buffers, limits, pools, registers: results and wrong arguments. */
#include <stdint.h>

#include "test.h"

static void test_open(void) {
  unsetenv("MNC2_EMU_CONFIG");
  EXPECT(mnc2_open(0) == NULL);
  EXPECT(mnc2_open(0) == NULL); /* said once */
  setenv("MNC2_EMU_CONFIG", "", 1);
  mnc2_device_t dev = mnc2_open(0);
  EXPECT(dev != NULL);
  mnc2_close(dev);
  mnc2_close(dev);
  mnc2_close(NULL);
  EXPECT(mnc2_open(-1) == NULL);
  EXPECT(mnc2_open(INT32_MAX) == NULL);
  setenv("KODAMA_CHIP", "there_is_none", 1);
  EXPECT(mnc2_open(0) == NULL);
  setenv("KODAMA_CHIP", "tiny", 1);
  dev = mnc2_open(1);
  EXPECT(dev != NULL);
  unsetenv("KODAMA_CHIP");
  mnc2_device_t other = mnc2_open(1);
  EXPECT(other != NULL && other != dev);
  uint64_t one = 1, back = 7;
  EXPECT_EQ(mnc2_send(dev, &one, 0, 8, 0), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_recv(other, &back, 0, 8, 0), MNC2_SUCCESS);
  EXPECT_EQ(back, 0); /* a chip of its own, zero at first */
  mnc2_close(dev);
  mnc2_close(other);
}

static void test_back_end(mnc2_device_t dev) {
  EXPECT_EQ(mnc2_get_backend(), MNC2_BACKEND_EMU_LIB);
  EXPECT(strcmp(mnc2_get_backend_name(dev), "emu:lib") == 0);
  EXPECT(strcmp(mnc2_get_backend_name(NULL), "unknown") == 0);
  EXPECT(strcmp(mnc2_get_backend_name((mnc2_device_t)&test_faults), "unknown") == 0);
  uint32_t value = 0;
  EXPECT_EQ(mnc2_read_pio(dev, 0, &value), MNC2_ERROR_DEVICE);
  EXPECT_EQ(mnc2_write_pio(dev, 0, 1), MNC2_ERROR_DEVICE);
  EXPECT_EQ(mnc2_read_pio(NULL, 0, NULL), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_write_pio(NULL, 0, 1), MNC2_ERROR_PARAM);
}

static void test_buffers(mnc2_device_t dev) {
  unsigned char* buffer = (unsigned char*)mnc2_alloc_host_buffer(dev, 100000);
  EXPECT(buffer != NULL && (uintptr_t)buffer % 4096 == 0 && buffer[0] == 0 && buffer[99999] == 0);
  memset(buffer, 1, 100000);
  int on_stack = 0;
  mnc2_free_host_buffer(dev, &on_stack, sizeof(on_stack));
  mnc2_free_host_buffer(NULL, buffer, 3);
  mnc2_free_host_buffer(dev, buffer, 100000);
  mnc2_free_host_buffer(dev, NULL, 8);
  EXPECT(mnc2_alloc_host_buffer(NULL, 8) == NULL);
  EXPECT(mnc2_alloc_host_buffer(dev, 0) == NULL);
  EXPECT(mnc2_alloc_host_buffer(dev, SIZE_MAX) == NULL);
  EXPECT(mnc2_alloc_host_buffer(dev, SIZE_MAX / 2) == NULL);
}

static void test_limits(mnc2_device_t dev) {
  int (*const get[4])(mnc2_device_t) = {mnc2_get_ddma_kick_verify_max, mnc2_get_ddma_complete_max,
                                        mnc2_get_idma_kick_verify_max, mnc2_get_idma_complete_max};
  int (*const set[4])(mnc2_device_t, int) = {mnc2_set_ddma_kick_verify_max, mnc2_set_ddma_complete_max,
                                             mnc2_set_idma_kick_verify_max, mnc2_set_idma_complete_max};
  const int at_first[4] = {100, 2000, 100, 5000};
  for (int k = 0; k < 4; ++k) {
    EXPECT_EQ(get[k](dev), at_first[k]);
    EXPECT_EQ(set[k](dev, 7 + k), at_first[k]);
    EXPECT_EQ(get[k](dev), 7 + k);
    EXPECT_EQ(set[k](dev, -2), MNC2_ERROR_PARAM);
    EXPECT_EQ(set[k](dev, at_first[k]), 7 + k);
    EXPECT_EQ(get[k](NULL), -1);
    EXPECT_EQ(set[k](NULL, 1), -1);
  }
}

static void test_pool(mnc2_device_t dev, int first, int (*alloc)(mnc2_device_t),
                      int (*free_one)(mnc2_device_t, int)) {
  for (int k = first; k < 64; ++k) EXPECT_EQ(alloc(dev), k);
  EXPECT_EQ(alloc(dev), MNC2_ERROR_BUSY);
  EXPECT_EQ(free_one(dev, 17), MNC2_SUCCESS);
  EXPECT_EQ(free_one(dev, 17), MNC2_ERROR_PARAM);
  EXPECT_EQ(alloc(dev), 17);
  EXPECT_EQ(free_one(dev, first - 1), MNC2_ERROR_PARAM);
  EXPECT_EQ(free_one(dev, -1), MNC2_ERROR_PARAM);
  EXPECT_EQ(free_one(dev, 64), MNC2_ERROR_PARAM);
  EXPECT_EQ(free_one(dev, INT32_MIN), MNC2_ERROR_PARAM);
  for (int k = first; k < 64; ++k) EXPECT_EQ(free_one(dev, k), MNC2_SUCCESS);
  EXPECT_EQ(alloc(NULL), MNC2_ERROR_PARAM);
  EXPECT_EQ(free_one(NULL, 1), MNC2_ERROR_PARAM);
}

static void test_state(mnc2_device_t dev) {
  mnc2_ddma_stat_t ddma;
  memset(&ddma, 1, sizeof(ddma));
  EXPECT_EQ(mnc2_get_ddma_stat(dev, &ddma), MNC2_SUCCESS);
  for (int k = 0; k < 2; ++k) {
    EXPECT_EQ(ddma.host_to_pdm[k].active | ddma.host_to_pdm[k].n_dma | ddma.host_to_pdm[k].overflow, 0);
    EXPECT_EQ(ddma.pdm_to_host[k].active | ddma.pdm_to_host[k].n_dma | ddma.pdm_to_host[k].overflow, 0);
    EXPECT_EQ(ddma.host_to_pdm[k].regset | ddma.pdm_to_host[k].regset, 0);
  }
  mnc2_idma_stat_t idma = {9, 9, 9};
  EXPECT_EQ(mnc2_get_idma_stat(dev, &idma), MNC2_SUCCESS);
  EXPECT_EQ(idma.n_dma | idma.inst_in_ibuf | idma.overflow, 0);
  EXPECT_EQ(mnc2_get_ddma_stat(NULL, &ddma), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_get_ddma_stat(dev, NULL), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_get_idma_stat(NULL, &idma), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_get_idma_stat(dev, NULL), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_wait_ddma_idle(dev), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_wait_idma_idle(dev), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_wait_ddma_idle(NULL), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_wait_idma_idle(NULL), MNC2_ERROR_PARAM);
}

/* A reset leaves PDM and what was set. */
static void test_reset(mnc2_device_t dev) {
  uint64_t value = 42, back = 0, bits = 0;
  EXPECT_EQ(mnc2_set_endian_ctrl(dev, 3), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_send(dev, &value, 800, 8, 9), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_get_wdbit_status(dev, &bits), MNC2_SUCCESS);
  EXPECT_EQ(bits, 1 << 9);
  EXPECT_EQ(mnc2_reset(dev), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_get_wdbit_status(dev, &bits), MNC2_SUCCESS);
  EXPECT_EQ(bits, 0);
  EXPECT_EQ(mnc2_get_endian_ctrl(dev), 3);
  EXPECT_EQ(mnc2_recv(dev, &back, 800, 8, 0), MNC2_SUCCESS);
  EXPECT_EQ(back, value);
  EXPECT_EQ(mnc2_set_endian_ctrl(dev, 4), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_reset(NULL), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_reset((mnc2_device_t)&value), MNC2_ERROR_PARAM);
}

static void test_tags(mnc2_device_t dev) {
  uint64_t data[16] = {0};
  int done = 9;
  mnc2_set_ddma_complete_max(dev, 5);
  EXPECT_EQ(mnc2_tag_check_done(dev, 20, &done), MNC2_SUCCESS);
  EXPECT_EQ(done, 0);
  EXPECT_EQ(mnc2_tag_wait(dev, 20), MNC2_ERROR_TIMEOUT);
  EXPECT_EQ(mnc2_tag_set_size(dev, 20, 256), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_send(dev, data, 0, 128, 20), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_tag_check_done(dev, 20, &done), MNC2_SUCCESS);
  EXPECT_EQ(done, 0);
  EXPECT_EQ(mnc2_send(dev, data, 128, 128, 20), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_tag_check_done(dev, 20, &done), MNC2_SUCCESS);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(mnc2_tag_wait(dev, 20), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_tag_clear(dev, 20), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_tag_wait(dev, 20), MNC2_ERROR_TIMEOUT);

  EXPECT_EQ(mnc2_wd_wait(dev, 20), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_wd_clear(dev, 20), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_wd_wait(dev, 20), MNC2_ERROR_TIMEOUT);
  EXPECT_EQ(mnc2_send(dev, data, 128, 128, 20), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_wd_wait(dev, 20), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_clear_wdbit(dev, 20), MNC2_SUCCESS);
  uint64_t bits = 1;
  EXPECT_EQ(mnc2_get_wdbit_status(dev, &bits), MNC2_SUCCESS);
  EXPECT_EQ(bits, 0);
  mnc2_set_ddma_complete_max(dev, 2000);

  const int wrong[] = {0, -1, 64, INT32_MAX, INT32_MIN};
  for (int k = 0; k < 5; ++k) {
    EXPECT_EQ(mnc2_tag_set_size(dev, wrong[k], 8), MNC2_ERROR_PARAM);
    EXPECT_EQ(mnc2_tag_check_done(dev, wrong[k], &done), MNC2_ERROR_PARAM);
    EXPECT_EQ(mnc2_tag_wait(dev, wrong[k]), MNC2_ERROR_PARAM);
    EXPECT_EQ(mnc2_tag_clear(dev, wrong[k]), MNC2_ERROR_PARAM);
    EXPECT_EQ(mnc2_wd_wait(dev, wrong[k]), MNC2_ERROR_PARAM);
    EXPECT_EQ(mnc2_wd_clear(dev, wrong[k]), MNC2_ERROR_PARAM);
    EXPECT_EQ(mnc2_clear_wdbit(dev, wrong[k]), MNC2_ERROR_PARAM);
  }
  EXPECT_EQ(mnc2_tag_check_done(dev, 1, NULL), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_get_wdbit_status(dev, NULL), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_tag_set_size(NULL, 1, 8), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_tag_check_done(NULL, 1, &done), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_tag_wait(NULL, 1), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_tag_clear(NULL, 1), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_wd_wait(NULL, 1), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_wd_clear(NULL, 1), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_clear_wdbit(NULL, 1), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_get_wdbit_status(NULL, &bits), MNC2_ERROR_PARAM);
}

int main(void) {
  test_open();
  mnc2_device_t dev = test_device();
  test_back_end(dev);
  test_buffers(dev);
  test_limits(dev);
  test_pool(dev, 1, mnc2_tag_alloc, mnc2_tag_free);
  test_pool(dev, 1, mnc2_wd_alloc, mnc2_wd_free);
  test_pool(dev, 0, mnc2_regset_alloc, mnc2_regset_free);
  test_state(dev);
  test_reset(dev);
  test_tags(dev);
  void* buffer = mnc2_alloc_host_buffer(dev, 8);
  mnc2_close(dev);
  memset(buffer, 1, 8); /* stays */
  mnc2_free_host_buffer(dev, buffer, 8);
  mnc2_free_host_buffer(dev, buffer, 8);
  return test_end();
}
