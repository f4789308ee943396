/* Transfers: data, endian control, asynchronous ones, wrong arguments. */
#include <stdint.h>

#include "test.h"

enum { PDM_BYTES = 4 << 20 };

static const uint64_t wrong_offsets[] = {
    1, 4, 7, PDM_BYTES, PDM_BYTES - 8, UINT64_MAX - 7, UINT64_MAX, UINT64_C(1) << 63};
static const size_t wrong_sizes[] = {0, 1, 12, PDM_BYTES + 8, SIZE_MAX, SIZE_MAX - 7, (size_t)1 << 63};

static void test_wrong_arguments(mnc2_device_t dev) {
  static unsigned char buffer[64];
  mnc2_device_t devices[2] = {dev, NULL};
  for (int d = 0; d < 2; ++d) {
    for (size_t k = 0; k < sizeof(wrong_offsets) / sizeof(*wrong_offsets); ++k) {
      EXPECT_EQ(mnc2_send(devices[d], buffer, wrong_offsets[k], 16, 0), MNC2_ERROR_PARAM);
      EXPECT_EQ(mnc2_recv(devices[d], buffer, wrong_offsets[k], 16, 0), MNC2_ERROR_PARAM);
      EXPECT(mnc2_async_send(devices[d], buffer, wrong_offsets[k], 16, 0) == NULL);
      EXPECT(mnc2_async_recv(devices[d], buffer, wrong_offsets[k], 16, 0) == NULL);
    }
    for (size_t k = 0; k < sizeof(wrong_sizes) / sizeof(*wrong_sizes); ++k) {
      EXPECT_EQ(mnc2_send(devices[d], buffer, 8, wrong_sizes[k], 0), MNC2_ERROR_PARAM);
      EXPECT_EQ(mnc2_recv(devices[d], buffer, 8, wrong_sizes[k], 0), MNC2_ERROR_PARAM);
      EXPECT(mnc2_async_send(devices[d], buffer, 8, wrong_sizes[k], 0) == NULL);
      EXPECT(mnc2_async_recv(devices[d], buffer, 8, wrong_sizes[k], 0) == NULL);
    }
  }
  EXPECT_EQ(mnc2_send(NULL, buffer, 0, 8, 0), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_send(dev, NULL, 0, 8, 0), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_recv(dev, NULL, 0, 8, 0), MNC2_ERROR_PARAM);
  EXPECT(mnc2_async_send(dev, NULL, 0, 8, 0) == NULL);
  EXPECT(mnc2_async_recv(dev, NULL, 0, 8, 0) == NULL);
  EXPECT_EQ(mnc2_send(dev, buffer, 0, 8, 64), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_recv(dev, buffer, 0, 8, 64), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_send(dev, buffer, 0, 8, UINT32_MAX), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_send(dev, buffer, 0, 8, 63), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_recv(dev, buffer, 0, 8, 63), MNC2_SUCCESS);

  int done = 0;
  EXPECT_EQ(mnc2_async_poll(NULL, &done), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_async_wait(NULL), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_async_release(NULL), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_async_wait((mnc2_dma_handle_t)(void*)dev), MNC2_ERROR_PARAM);

  EXPECT_EQ(mnc2_set_endian_ctrl(dev, -1), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_set_endian_ctrl(dev, 5), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_set_endian_ctrl(NULL, 1), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_get_endian_ctrl(NULL), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_get_endian_ctrl(dev), 4);
}

/* All of PDM, and its last long word. */
static void test_whole(mnc2_device_t dev) {
  uint64_t* out = (uint64_t*)malloc(PDM_BYTES);
  uint64_t* back = (uint64_t*)malloc(PDM_BYTES);
  for (uint64_t i = 0; i < PDM_BYTES / 8; ++i) out[i] = i * UINT64_C(0x9e3779b97f4a7c15);
  EXPECT_EQ(mnc2_send(dev, out, 0, PDM_BYTES, 0), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_recv(dev, back, 0, PDM_BYTES, 0), MNC2_SUCCESS);
  EXPECT(memcmp(out, back, PDM_BYTES) == 0);
  uint64_t last = 0;
  EXPECT_EQ(mnc2_recv(dev, &last, PDM_BYTES - 8, 8, 0), MNC2_SUCCESS);
  EXPECT(last == out[PDM_BYTES / 8 - 1]);
  EXPECT_EQ(mnc2_debug_read(dev, MNC2_MEM_PDM, NULL, PDM_BYTES / 8 - 1, 1, &last), MNC2_SUCCESS);
  EXPECT(last == out[PDM_BYTES / 8 - 1]);
  free(out);
  free(back);
}

/* What the chip has, of bytes 0, 1, 2, … and by each control what comes back. */
static void test_endian(mnc2_device_t dev) {
  unsigned char bytes[136], back[136];
  for (int i = 0; i < 136; ++i) bytes[i] = (unsigned char)i;
  for (int control = 0; control < 5; ++control) {
    uint64_t lw[17];
    EXPECT_EQ(mnc2_set_endian_ctrl(dev, control), MNC2_SUCCESS);
    EXPECT_EQ(mnc2_get_endian_ctrl(dev), control);
    EXPECT_EQ(mnc2_send(dev, bytes, 64, 136, 0), MNC2_SUCCESS);
    EXPECT_EQ(mnc2_debug_read(dev, MNC2_MEM_PDM, NULL, 8, 17, lw), MNC2_SUCCESS);
    for (int i = 0; i < 136; ++i) {
      /* byte i of the chip, most significant first; the last 8 are a block of their own */
      const int width = 1 << (control - 1 < 0 ? 0 : control - 1);
      const int expected = control == 0 ? (i < 128 ? i / 64 * 64 + 63 - i % 64 : 128 + 135 - i)
                                        : i / width * width + width - 1 - i % width;
      EXPECT_EQ(lw[i / 8] >> (56 - 8 * (i % 8)) & 0xff, expected);
    }
    memset(back, 0, sizeof(back));
    EXPECT_EQ(mnc2_recv(dev, back, 64, 136, 0), MNC2_SUCCESS);
    EXPECT(memcmp(bytes, back, 136) == 0);
  }
  /* Halves, words and long words keep their values; a lower address is more significant. */
  const uint16_t halves[4] = {0x1111, 0x2222, 0x3333, 0x4444};
  const uint32_t words[2] = {0x11112222, 0x33334444};
  uint64_t lw = 0;
  mnc2_set_endian_ctrl(dev, 2);
  EXPECT_EQ(mnc2_send(dev, halves, 0, 8, 0), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_debug_read(dev, MNC2_MEM_PDM, NULL, 0, 1, &lw), MNC2_SUCCESS);
  EXPECT_EQ(lw, 0x1111222233334444);
  mnc2_set_endian_ctrl(dev, 3);
  EXPECT_EQ(mnc2_send(dev, words, 8, 8, 0), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_debug_read(dev, MNC2_MEM_PDM, NULL, 1, 1, &lw), MNC2_SUCCESS);
  EXPECT_EQ(lw, 0x1111222233334444);
  mnc2_set_endian_ctrl(dev, 4);
  EXPECT_EQ(mnc2_recv(dev, &lw, 8, 8, 0), MNC2_SUCCESS);
  EXPECT_EQ(lw, 0x1111222233334444);
}

static void test_async(mnc2_device_t dev) {
  static uint64_t out[128], back[128];
  for (uint64_t i = 0; i < 128; ++i) out[i] = i + 5;
  mnc2_dma_handle_t send = mnc2_async_send(dev, out, 1024, sizeof(out), 0);
  EXPECT(send != NULL);
  EXPECT_EQ(mnc2_async_wait(send), MNC2_SUCCESS);
  mnc2_dma_handle_t recv = mnc2_async_recv(dev, back, 1024, sizeof(back), 0);
  int done = 0;
  for (int tries = 0; tries < 1000 && !done; ++tries) EXPECT_EQ(mnc2_async_poll(recv, &done), MNC2_SUCCESS);
  EXPECT_EQ(done, 1);
  EXPECT(memcmp(out, back, sizeof(out)) == 0);
  EXPECT_EQ(mnc2_async_wait(recv), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_async_poll(recv, NULL), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_async_release(send), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_async_release(send), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_async_poll(send, &done), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_async_wait(send), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_wait_ddma_idle(dev), MNC2_SUCCESS);
  /* recv stays: the device's end is its end. */
}

int main(void) {
  mnc2_device_t dev = test_device();
  test_wrong_arguments(dev);
  test_whole(dev);
  test_endian(dev);
  test_async(dev);
  uint64_t word = 0;
  mnc2_dma_handle_t handle = mnc2_async_recv(dev, &word, 0, 8, 0);
  mnc2_close(dev);
  EXPECT_EQ(mnc2_async_wait(handle), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_async_release(handle), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_send(dev, &word, 0, 8, 0), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_recv(dev, &word, 0, 8, 0), MNC2_ERROR_PARAM);
  return test_end();
}
