/* Memories keep their contents from kernel to kernel: one clears, one counts, a hundred times, one brings the
 * result to the host. */
#include <inttypes.h>
#include <mnc2.h>
#include <stdio.h>

enum { STEPS = 100, COUNT = 64 };

int main(void) {
  mnc2_device_t dev = mnc2_open(0);
  mnc2_kernel_t start = mnc2_load_kernel(dev, "row_start.idma.dat");
  mnc2_kernel_t step = mnc2_load_kernel(dev, "row_step.vsm");
  mnc2_kernel_t end = mnc2_load_kernel(dev, "row_end");
  if (start == NULL || step == NULL || end == NULL) return 1;
  int wrong = mnc2_exec_kernel(start) != MNC2_SUCCESS;
  for (int i = 0; i < STEPS; ++i) {
    int result = mnc2_exec_kernel(step);
    if (result == MNC2_ERROR_BUSY) { /* 31 are queued */
      wrong |= mnc2_wait_idma_idle(dev) != MNC2_SUCCESS;
      result = mnc2_exec_kernel(step);
    }
    wrong |= result != MNC2_SUCCESS;
  }
  wrong |= mnc2_exec_kernel(end) != MNC2_SUCCESS;
  uint64_t counts[COUNT] = {0};
  wrong |= mnc2_recv(dev, counts, 0, sizeof(counts), 0) != MNC2_SUCCESS;
  for (int i = 0; i < COUNT; ++i) wrong |= counts[i] != STEPS;
  printf("kernels_in_a_row: counted %" PRIu64 "\n", counts[0]);
  mnc2_free_kernel(start);
  mnc2_free_kernel(step);
  mnc2_free_kernel(end);
  mnc2_close(dev);
  return wrong;
}
