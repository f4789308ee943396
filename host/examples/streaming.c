/* Ten blocks of data through the chip. There are two buffers each way: while a kernel computes in one, the
 * next block comes into the other, and the one before goes. A block's tag tells the kernel of its buffer that
 * it is there. */
#include <mnc2.h>
#include <stdio.h>

enum { BLOCKS = 10, COUNT = 16384, BYTES = COUNT * 8 };

static uint64_t input[BLOCKS][COUNT], output[BLOCKS][COUNT];

int main(void) {
  mnc2_device_t dev = mnc2_open(0);
  mnc2_kernel_t kernels[2] = {mnc2_load_kernel(dev, "stream_even.idma.dat"),
                              mnc2_load_kernel(dev, "stream_odd.idma.dat")};
  if (kernels[0] == NULL || kernels[1] == NULL) return 1;
  int wrong = 0;
  mnc2_dma_handle_t sent[BLOCKS], received[BLOCKS];
  for (int block = 0; block < BLOCKS; ++block) {
    const int half = block % 2;
    for (int i = 0; i < COUNT; ++i) input[block][i] = (uint64_t)block * 1000000 + (uint64_t)i;
    /* The kernel is started first; it waits for the block. */
    wrong |= mnc2_exec_kernel(kernels[half]) != MNC2_SUCCESS;
    sent[block] = mnc2_async_send(dev, input[block], (uint64_t)half * BYTES, BYTES, 11 + (unsigned)half);
    received[block] = mnc2_async_recv(dev, output[block], (uint64_t)(2 + half) * BYTES, BYTES, 0);
    wrong |= sent[block] == NULL || received[block] == NULL;
    /* Before a buffer is used again, what was in it must have gone. */
    if (block > 0) wrong |= mnc2_async_wait(received[block - 1]) != MNC2_SUCCESS;
  }
  wrong |= mnc2_wait_ddma_idle(dev) != MNC2_SUCCESS;
  for (int block = 0; block < BLOCKS; ++block) {
    int done = 0;
    wrong |= mnc2_async_poll(received[block], &done) != MNC2_SUCCESS || !done;
    wrong |= mnc2_async_release(sent[block]) != MNC2_SUCCESS;
    wrong |= mnc2_async_release(received[block]) != MNC2_SUCCESS;
    for (int i = 0; i < COUNT; ++i) wrong |= output[block][i] != 2 * input[block][i] + 1;
  }
  mnc2_free_kernel(kernels[0]);
  mnc2_free_kernel(kernels[1]);
  mnc2_close(dev);
  puts(wrong ? "wrong" : "streaming: ten blocks are right");
  return wrong;
}
