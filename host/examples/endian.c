/* The five ways in which bytes of the host become long words, and back, with a kernel between. */
#include <inttypes.h>
#include <mnc2.h>
#include <stdio.h>
#include <string.h>

enum { BYTES = 512 };

int main(void) {
  mnc2_device_t dev = mnc2_open(0);
  mnc2_kernel_t kernel = mnc2_load_kernel(dev, "copy.idma.dat");
  if (kernel == NULL) return 1;
  static const uint64_t first_lw[5] = {UINT64_C(0x3f3e3d3c3b3a3938), UINT64_C(0x0001020304050607),
                                       UINT64_C(0x0100030205040706), UINT64_C(0x0302010007060504),
                                       UINT64_C(0x0706050403020100)};
  unsigned char bytes[BYTES], back[BYTES];
  for (int i = 0; i < BYTES; ++i) bytes[i] = (unsigned char)i;
  int wrong = mnc2_get_endian_ctrl(dev) != 4;
  for (int control = 0; control < 5; ++control) {
    uint64_t lw = 0;
    wrong |= mnc2_set_endian_ctrl(dev, control) != MNC2_SUCCESS;
    wrong |= mnc2_send(dev, bytes, 0, BYTES, 0) != MNC2_SUCCESS;
    wrong |= mnc2_exec_kernel(kernel) != MNC2_SUCCESS;
    memset(back, 0, BYTES);
    wrong |= mnc2_recv(dev, back, BYTES, BYTES, 0) != MNC2_SUCCESS;
    wrong |= mnc2_debug_read(dev, MNC2_MEM_PDM, NULL, 64, 1, &lw) != MNC2_SUCCESS;
    printf("endian: control %d: bytes 00 01 02 ... are the long word %016" PRIx64 "\n", control, lw);
    wrong |= lw != first_lw[control] || memcmp(bytes, back, BYTES) != 0;
  }
  mnc2_free_kernel(kernel);
  mnc2_close(dev);
  return wrong;
}
