/* Sums 16384 integers: over MABs, L1Bs and L2Bs on the chip, the last 16 on the host. */
#include <inttypes.h>
#include <mnc2.h>
#include <stdio.h>

enum { COUNT = 16384, BYTES = COUNT * 8, PARTS = 16 };

static uint64_t values[COUNT];

int main(void) {
  mnc2_device_t dev = mnc2_open(0);
  mnc2_kernel_t kernel = mnc2_load_kernel(dev, "reduction.idma.dat");
  if (kernel == NULL) return 1;
  uint64_t expected = 0;
  for (uint64_t i = 0; i < COUNT; ++i) {
    values[i] = i * i + 7;
    expected += values[i];
  }
  uint64_t parts[PARTS];
  int wrong = mnc2_send(dev, values, 0, BYTES, 0) != MNC2_SUCCESS;
  wrong |= mnc2_exec_kernel(kernel) != MNC2_SUCCESS;
  wrong |= mnc2_recv(dev, parts, BYTES, sizeof(parts), 0) != MNC2_SUCCESS;
  uint64_t sum = 0;
  for (int i = 0; i < PARTS; ++i) sum += parts[i];
  wrong |= sum != expected;
  printf("reduction: %" PRIu64 ", expected %" PRIu64 "\n", sum, expected);
  mnc2_free_kernel(kernel);
  mnc2_close(dev);
  return wrong;
}
