/* Calls in any order with any arguments: handles that are good, freed, of another kind or invented, sizes and
 * places inside and outside. Nothing crashes, every result is one of the API's, and the device works
 * afterwards. */
#include <stdint.h>

#include "test.h"

enum { CALLS = 4000, KEPT = 6 };

static uint64_t state = 12345;
static uint64_t any(void) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return state >> 33;
}
/* A number near a border of something, or any. */
static uint64_t number(void) {
  static const uint64_t borders[] = {
      0, 1, 4, 5, 7, 8, 63, 64, 256, 4096, 4u << 20, 1u << 31, UINT64_C(1) << 32, UINT64_MAX / 2};
  const uint64_t border = borders[any() % (sizeof(borders) / sizeof(*borders))];
  switch (any() % 4) {
    case 0:
      return border;
    case 1:
      return border - any() % 10;
    case 2:
      return border + any() % 10;
    default:
      return any() % 64 * 8;
  }
}

static uint64_t buffer[4096], out[4096];
static mnc2_device_t devices[KEPT];
static mnc2_kernel_t kernels[KEPT];
static mnc2_dma_handle_t handles[KEPT];

static void check(int result) {
  if (result < MNC2_ERROR_BUSY) {
    printf("a call returned %d\n", result);
    ++test_faults;
  }
}
/* A size that the buffers have, or one that is refused. */
static size_t size(void) {
  const uint64_t value = number();
  return value > sizeof(buffer) && value <= (4u << 20) ? sizeof(buffer) : (size_t)value;
}

int main(void) {
  static const char* const texts[] = {
      "nop\n", "nop; wait i05\n", "nop; wait i05\nnop/3\nnop; wait i05\nlinc $lr0 $lr0\n",
      "mvp/n64i05 $p0@0 $p64@0\n", "mvp/n64i06 $p0@0 $d0@0\nnop; wait i06\nnop; wait i06\n"};
  for (int k = 0; k < 2; ++k) devices[k] = test_device();
  devices[5] = (mnc2_device_t)(void*)buffer;
  for (int call = 0; call < CALLS; ++call) {
    mnc2_device_t dev = devices[any() % 8 ? any() % 2 : any() % KEPT];
    mnc2_kernel_t* kernel = &kernels[any() % KEPT];
    mnc2_dma_handle_t* handle = &handles[any() % KEPT];
    int a = 0, b = 0;
    uint8_t tags[128];
    mnc2_capture_t capture;
    mnc2_ddma_stat_t ddma;
    mnc2_idma_stat_t idma;
    const mnc2_loc_t loc = {(int)number(), (int)(any() % 3), (int)(any() % 9), (int)(any() % 17),
                            (int)(any() % 5)};
    mnc2_set_idma_complete_max(dev, 2);
    mnc2_set_ddma_complete_max(dev, 2);
    switch (any() % 36) {
      case 0:
        mnc2_close(any() % 16 ? NULL : dev);
        break;
      case 1: {
        mnc2_device_t* slot = &devices[any() % 2]; /* the others stay closed, invented, NULL */
        if (strcmp(mnc2_get_backend_name(*slot), "unknown") == 0) *slot = mnc2_open((int)number());
      } break;
      case 2:
        check(mnc2_reset(dev));
        break;
      case 3:
        check(mnc2_send(dev, any() % 8 ? buffer : NULL, number(), size(), (unsigned)number()));
        break;
      case 4:
        check(mnc2_recv(dev, any() % 8 ? out : NULL, number(), size(), (unsigned)number()));
        break;
      case 5:
        *handle = mnc2_async_send(dev, any() % 8 ? buffer : NULL, number(), size(), (unsigned)number());
        break;
      case 6:
        *handle = mnc2_async_recv(dev, any() % 8 ? out : NULL, number(), size(), (unsigned)number());
        break;
      case 7:
        check(mnc2_async_poll(*handle, any() % 8 ? &a : NULL));
        break;
      case 8:
        check(mnc2_async_wait(*handle));
        break;
      case 9:
        check(mnc2_async_release(*handle));
        break;
      case 10:
        check(mnc2_async_wait((mnc2_dma_handle_t)(void*)dev));
        break;
      case 11:
        check(mnc2_set_endian_ctrl(dev, (int)(any() % 8) - 1));
        break;
      case 12:
        check(mnc2_wait_ddma_idle(dev));
        break;
      case 13:
        check(mnc2_wait_idma_idle(dev));
        break;
      case 14: {
        const char* text = texts[any() % (sizeof(texts) / sizeof(*texts))];
        *kernel = mnc2_load_kernel(dev, test_write("random.vsm", text, strlen(text) - (any() % 8 == 0)));
        break;
      }
      case 15:
      case 16:
      case 17:
        check(mnc2_exec_kernel(*kernel));
        break;
      case 18:
        mnc2_free_kernel(*kernel);
        break;
      case 19:
        check(
            mnc2_kernel_get_dma_tags(*kernel, tags, tags + 64, (int)(any() % 64), &a, any() % 8 ? &b : NULL));
        break;
      case 20:
        check(mnc2_debug_read(dev, (int)number(), any() % 2 ? &loc : NULL, (int)number(), (int)(any() % 4096),
                              out));
        break;
      case 21:
        check(mnc2_debug_write(dev, (int)(any() % 9), any() % 2 ? &loc : NULL, (int)number(),
                               (int)(any() % 4096), buffer));
        break;
      case 22:
        mnc2_set_idma_kick_verify_max(dev, (int)number());
        break;
      case 23:
        check(mnc2_get_ddma_stat(dev, any() % 8 ? &ddma : NULL));
        break;
      case 24:
        check(mnc2_get_idma_stat(dev, any() % 8 ? &idma : NULL));
        break;
      case 25:
        check(mnc2_tag_free(dev, mnc2_tag_alloc(dev)));
        break;
      case 26:
        check(mnc2_tag_set_size(dev, (int)number(), number()));
        break;
      case 27:
        check(mnc2_tag_check_done(dev, (int)number(), any() % 8 ? &a : NULL));
        break;
      case 28:
        check(mnc2_tag_wait(dev, (int)number()));
        break;
      case 29:
        check(mnc2_wd_wait(dev, (int)number()));
        break;
      case 30:
        check(mnc2_clear_wdbit(dev, (int)number()));
        break;
      case 31:
        check(mnc2_regset_free(dev, (int)number()));
        break;
      case 32:
        check(mnc2_capture_set_trigger(dev, (int)(any() % 6) - 1, number()));
        break;
      case 33:
        check(mnc2_capture_read(dev, (int)(any() % 6) - 1, any() % 8 ? &capture : NULL));
        break;
      case 34:
        mnc2_free_host_buffer(dev, any() % 2 ? (void*)buffer : mnc2_alloc_host_buffer(dev, size()), size());
        break;
      default:
        check(mnc2_write_pio(dev, number(), 0));
        break;
    }
  }
  mnc2_device_t dev = test_device();
  buffer[0] = 99;
  EXPECT_EQ(mnc2_send(dev, buffer, 0, 8, 0), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_recv(dev, out, 0, 8, 0), MNC2_SUCCESS);
  EXPECT_EQ(out[0], 99);
  for (int k = 0; k < KEPT; ++k) mnc2_close(devices[k]);
  mnc2_close(dev);
  return test_end();
}
