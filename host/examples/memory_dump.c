/* Looks into every memory of the chip. */
#include <inttypes.h>
#include <mnc2.h>
#include <stdio.h>

static int wrong;

static void check(mnc2_device_t dev, const char* name, int memory, mnc2_loc_t loc, int addr,
                  uint64_t expected) {
  uint64_t value = ~UINT64_C(0);
  if (mnc2_debug_read(dev, memory, &loc, addr, 1, &value) == MNC2_SUCCESS && value == expected) return;
  printf("%s %d.%d.%d.%d.%d, %d: %" PRIx64 ", expected %" PRIx64 "\n", name, loc.chip, loc.l2b, loc.l1b,
         loc.mab, loc.pe, addr, value, expected);
  wrong = 1;
}

int main(void) {
  mnc2_device_t dev = mnc2_open(0);
  mnc2_kernel_t kernel = mnc2_load_kernel(dev, "memory_dump.idma.dat");
  if (kernel == NULL) return 1;
  wrong = mnc2_exec_kernel(kernel) != MNC2_SUCCESS || mnc2_wait_idma_idle(dev) != MNC2_SUCCESS;
  mnc2_loc_t loc = MNC2_LOC_INIT;
  for (loc.chip = 0; loc.chip < 4; ++loc.chip) {
    for (loc.l2b = 0; loc.l2b < 2; ++loc.l2b) {
      loc.l1b = 3;
      for (loc.mab = 0; loc.mab < 16; ++loc.mab) {
        for (loc.pe = 0; loc.pe < 4; ++loc.pe) {
          const uint64_t pe = (uint64_t)(4 * loc.mab + loc.pe);
          check(dev, "LM0", MNC2_MEM_LM0, loc, 0, pe);
          check(dev, "LM1", MNC2_MEM_LM1, loc, 0, 2 * pe);
          check(dev, "GRF0", MNC2_MEM_GRF0, loc, 0, (uint64_t)loc.mab);
          check(dev, "GRF1", MNC2_MEM_GRF1, loc, 0, (uint64_t)(2 * loc.chip + loc.l2b));
          check(dev, "GRF0", MNC2_MEM_GRF0, loc, 4, 3);
        }
      }
      check(dev, "L1BM", MNC2_MEM_L1BM, loc, 255, 3);
      for (int b = 0; b < 8; ++b) check(dev, "L2BM", MNC2_MEM_L2BM, loc, 64 + 8 * b + 7, (uint64_t)b);
    }
  }
  mnc2_loc_t group0 = MNC2_LOC_INIT;
  for (int b = 0; b < 8; ++b) check(dev, "DRAM", MNC2_MEM_DRAM, group0, 8 * b, (uint64_t)b);
  /* And writes. */
  const uint64_t values[2] = {UINT64_C(0x123456789abcdef0), 1};
  mnc2_loc_t group2 = MNC2_LOC_INIT;
  group2.chip = 2;
  wrong |= mnc2_debug_write(dev, MNC2_MEM_PDM, &group2, 77, 2, values) != MNC2_SUCCESS;
  check(dev, "PDM", MNC2_MEM_PDM, group2, 77, values[0]);
  check(dev, "PDM", MNC2_MEM_PDM, group2, 78, 1);
  check(dev, "PDM", MNC2_MEM_PDM, group0, 77, 0);
  mnc2_free_kernel(kernel);
  mnc2_close(dev);
  puts(wrong ? "wrong" : "memory_dump: all is as expected");
  return wrong;
}
