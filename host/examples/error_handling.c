/* What goes wrong has a result of its own, and the device is good for more afterwards. */
#include <mnc2.h>
#include <stdio.h>

static int faults;

static void expect(const char* what, int result, int expected) {
  if (result == expected) return;
  printf("%s: %d, expected %d\n", what, result, expected);
  ++faults;
}

int main(void) {
  uint64_t data[64] = {1, 2, 3};
  expect("send without a device", mnc2_send(NULL, data, 0, 8, 0), MNC2_ERROR_PARAM);
  mnc2_device_t dev = mnc2_open(0);
  if (dev == NULL) return 1;
  expect("odd size", mnc2_send(dev, data, 0, 12, 0), MNC2_ERROR_PARAM);
  expect("behind the end", mnc2_recv(dev, data, 4u << 20, 8, 0), MNC2_ERROR_PARAM);
  expect("registers", mnc2_write_pio(dev, 0, 1), MNC2_ERROR_DEVICE);
  expect("no kernel", mnc2_load_kernel(dev, "there_is_none.idma.dat") != NULL, 0);
  expect("no program", mnc2_load_kernel(dev, "error_handling.c") != NULL, 0);

  mnc2_kernel_t kernel = mnc2_load_kernel(dev, "waits_for_nobody.idma.dat");
  expect("a kernel whose tag nobody sends", mnc2_exec_kernel(kernel), MNC2_SUCCESS);
  mnc2_set_idma_complete_max(dev, 50);
  expect("waiting for it", mnc2_wait_idma_idle(dev), MNC2_ERROR_TIMEOUT);
  expect("reset", mnc2_reset(dev), MNC2_SUCCESS);
  expect("nothing to wait for", mnc2_wait_idma_idle(dev), MNC2_SUCCESS);
  expect("another try, with the tag", mnc2_exec_kernel(kernel), MNC2_SUCCESS);
  expect("which comes now", mnc2_send(dev, data, 0, sizeof(data), 0x3f), MNC2_SUCCESS);
  expect("waiting for it", mnc2_wait_idma_idle(dev), MNC2_SUCCESS);
  mnc2_free_kernel(kernel);
  expect("a kernel that is no more", mnc2_exec_kernel(kernel), MNC2_ERROR_PARAM);
  mnc2_close(dev);
  expect("a device that is no more", mnc2_reset(dev), MNC2_ERROR_PARAM);
  if (faults == 0) puts("error_handling: all results are as expected");
  return faults != 0;
}
