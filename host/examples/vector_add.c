/* Adds two vectors of 16384 integers of 64 bits, four of each per PE. */
#include <inttypes.h>
#include <mnc2.h>
#include <stdio.h>

enum { COUNT = 16384, BYTES = COUNT * 8 };

int main(void) {
  mnc2_device_t dev = mnc2_open(0);
  if (dev == NULL) return 1;
  mnc2_kernel_t kernel = mnc2_load_kernel(dev, "vector_add.idma.dat");
  uint64_t* a = (uint64_t*)mnc2_alloc_host_buffer(dev, BYTES);
  uint64_t* b = (uint64_t*)mnc2_alloc_host_buffer(dev, BYTES);
  uint64_t* sum = (uint64_t*)mnc2_alloc_host_buffer(dev, BYTES);
  int wrong = kernel == NULL || a == NULL || b == NULL || sum == NULL;
  if (!wrong) {
    for (uint64_t i = 0; i < COUNT; ++i) {
      a[i] = i * 3;
      b[i] = UINT64_C(1) << (i % 64);
    }
    wrong |= mnc2_send(dev, a, 0, BYTES, 0) != MNC2_SUCCESS;
    wrong |= mnc2_send(dev, b, BYTES, BYTES, 0) != MNC2_SUCCESS;
    wrong |= mnc2_exec_kernel(kernel) != MNC2_SUCCESS;
    wrong |= mnc2_recv(dev, sum, 2 * BYTES, BYTES, 0) != MNC2_SUCCESS;
    for (uint64_t i = 0; i < COUNT && !wrong; ++i) {
      if (sum[i] == a[i] + b[i]) continue;
      printf("sum %" PRIu64 " is %" PRIu64 ", expected %" PRIu64 "\n", i, sum[i], a[i] + b[i]);
      wrong = 1;
    }
  }
  mnc2_free_host_buffer(dev, a, BYTES);
  mnc2_free_host_buffer(dev, b, BYTES);
  mnc2_free_host_buffer(dev, sum, BYTES);
  mnc2_free_kernel(kernel);
  mnc2_close(dev);
  puts(wrong ? "wrong" : "vector_add: all sums are right");
  return wrong;
}
