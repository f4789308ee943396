/* Counters and snapshots. */
#include <stdint.h>

#include "test.h"

int main(void) {
  mnc2_device_t dev = test_device();
  mnc2_kernel_t kernel = test_kernel(dev, "steps.vsm", "nop/6\nzero $lr0\nlinc $lr0 $lr0\nnop/2\n");
  mnc2_capture_t capture;
  uint64_t steps = 1;
  EXPECT_EQ(mnc2_capture_get_inst(dev, &steps), MNC2_SUCCESS);
  EXPECT_EQ(steps, 0);
  EXPECT_EQ(mnc2_capture_set_trigger(dev, 1, 14), MNC2_SUCCESS); /* in the second run */
  EXPECT_EQ(mnc2_capture_set_trigger(dev, 2, 0), MNC2_SUCCESS);  /* at once */
  EXPECT_EQ(mnc2_capture_set_trigger(dev, 3, 7), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_exec_kernel(kernel), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_capture_read(dev, 1, &capture), MNC2_ERROR_BUSY);
  EXPECT_EQ(mnc2_exec_kernel(kernel), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_wait_idma_idle(dev), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_capture_get_inst(dev, &steps), MNC2_SUCCESS);
  EXPECT_EQ(steps, 20);
  EXPECT_EQ(mnc2_capture_read(dev, 0, &capture), MNC2_SUCCESS); /* no trigger: now */
  EXPECT_EQ(capture.all_nop, 16);
  EXPECT_EQ(capture.power_nop, 0);
  EXPECT_EQ(capture.tag[255], 0);
  EXPECT_EQ(mnc2_capture_read(dev, 1, &capture), MNC2_SUCCESS);
  EXPECT_EQ(capture.all_nop, 8 + 4);
  EXPECT_EQ(mnc2_capture_read(dev, 2, &capture), MNC2_SUCCESS);
  EXPECT_EQ(capture.all_nop, 0);
  EXPECT_EQ(mnc2_capture_read(dev, 3, &capture), MNC2_SUCCESS);
  EXPECT_EQ(capture.all_nop, 6);
  EXPECT_EQ(mnc2_capture_set_trigger(dev, 3, UINT64_MAX), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_capture_read(dev, 3, &capture), MNC2_ERROR_BUSY);

  const int wrong[] = {-1, 4, INT32_MAX, INT32_MIN};
  for (int k = 0; k < 4; ++k) {
    EXPECT_EQ(mnc2_capture_set_trigger(dev, wrong[k], 0), MNC2_ERROR_PARAM);
    EXPECT_EQ(mnc2_capture_read(dev, wrong[k], &capture), MNC2_ERROR_PARAM);
  }
  EXPECT_EQ(mnc2_capture_get_inst(NULL, &steps), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_capture_get_inst(dev, NULL), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_capture_set_trigger(NULL, 0, 0), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_capture_read(NULL, 0, &capture), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_capture_read(dev, 0, NULL), MNC2_ERROR_PARAM);
  mnc2_close(dev);
  EXPECT_EQ(mnc2_capture_get_inst(dev, &steps), MNC2_ERROR_PARAM);
  return test_end();
}
