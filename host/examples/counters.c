/* Counters of the sequencer: steps, steps without work, stalls by tag; and a snapshot in the middle. */
#include <inttypes.h>
#include <mnc2.h>
#include <stdio.h>

int main(void) {
  mnc2_device_t dev = mnc2_open(0);
  mnc2_kernel_t kernel = mnc2_load_kernel(dev, "counters.idma.dat");
  if (kernel == NULL) return 1;
  uint64_t steps = 1;
  mnc2_capture_t half, end;
  int wrong = mnc2_capture_get_inst(dev, &steps) != MNC2_SUCCESS || steps != 0;
  wrong |= mnc2_capture_set_trigger(dev, 0, 5) != MNC2_SUCCESS;
  wrong |= mnc2_capture_read(dev, 0, &half) != MNC2_ERROR_BUSY; /* not there yet */
  wrong |= mnc2_exec_kernel(kernel) != MNC2_SUCCESS || mnc2_wait_idma_idle(dev) != MNC2_SUCCESS;
  wrong |= mnc2_capture_get_inst(dev, &steps) != MNC2_SUCCESS || steps != 14;
  wrong |=
      mnc2_capture_read(dev, 0, &half) != MNC2_SUCCESS || mnc2_capture_read(dev, 1, &end) != MNC2_SUCCESS;
  printf("counters: %" PRIu64 " steps; after 5 of them %" PRIu64 " without work, at the end %" PRIu64
         ", of these %" PRIu64 " in wait i07\n",
         steps, half.all_nop, end.all_nop, end.tag[7]);
  wrong |= half.all_nop != 5 || half.tag[7] != 0;
  /* A transfer of 4096 LW takes 320 cycles; ten steps of nop and the wait's own are no work. */
  wrong |= end.tag[7] < 60 || end.tag[7] > 80 || end.all_nop < 11 + end.tag[7];
  mnc2_free_kernel(kernel);
  mnc2_close(dev);
  return wrong;
}
