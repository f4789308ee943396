/* A kernel and the host take turns by tags: the kernel waits for tag 5, copies, says so with tag 0x14, waits
 * for tag 6, copies again. */
#include <mnc2.h>
#include <stdio.h>

enum { COUNT = 64, BYTES = COUNT * 8 };

int main(void) {
  mnc2_device_t dev = mnc2_open(0);
  mnc2_kernel_t kernel = mnc2_load_kernel(dev, "tags.idma.dat");
  if (kernel == NULL) return 1;
  uint8_t wd[8], mv[8];
  int n_wd = 0, n_mv = 0, done = 1;
  int wrong = mnc2_kernel_get_dma_tags(kernel, wd, mv, 8, &n_wd, &n_mv) != MNC2_SUCCESS;
  wrong |= n_wd != 4 || wd[0] != 1 || wd[1] != 2 || wd[2] != 5 || wd[3] != 6;
  wrong |= n_mv != 3 || mv[0] != 1 || mv[1] != 2 || mv[2] != 0x14;

  uint64_t first[COUNT], second[COUNT], back[2 * COUNT];
  for (int i = 0; i < COUNT; ++i) {
    first[i] = 100 + (uint64_t)i;
    second[i] = 200 + (uint64_t)i;
  }
  wrong |= mnc2_exec_kernel(kernel) != MNC2_SUCCESS; /* waits for tag 5 */
  wrong |= mnc2_tag_set_size(dev, 0x14, BYTES) != MNC2_SUCCESS;
  wrong |= mnc2_tag_check_done(dev, 0x14, &done) != MNC2_SUCCESS || done;
  wrong |= mnc2_send(dev, first, 0, BYTES, 5) != MNC2_SUCCESS;
  wrong |= mnc2_tag_wait(dev, 0x14) != MNC2_SUCCESS; /* the kernel has copied, and waits for tag 6 */
  wrong |= mnc2_send(dev, second, 0, BYTES, 6) != MNC2_SUCCESS;
  wrong |= mnc2_recv(dev, back, BYTES, 2 * BYTES, 0) != MNC2_SUCCESS;
  for (int i = 0; i < COUNT; ++i) wrong |= back[i] != first[i] || back[COUNT + i] != second[i];
  mnc2_free_kernel(kernel);
  mnc2_close(dev);
  puts(wrong ? "wrong" : "tags: both copies are right");
  return wrong;
}
