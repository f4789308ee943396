/* Kernel files in all forms and under all names, their tags, and debug access to all memories. */
#include <stdint.h>
#include <sys/stat.h>

#include "test.h"

static const char nop_vsm[] = "# does nothing\nnop\n";

static void expect_loads(mnc2_device_t dev, const char* name, int loads) {
  mnc2_kernel_t kernel = mnc2_load_kernel(dev, test_path(name));
  if ((kernel != NULL) != loads) {
    printf("%s: %s\n", name, loads ? "can't be loaded" : "can be loaded");
    ++test_faults;
  }
  if (kernel != NULL) EXPECT_EQ(mnc2_exec_kernel(kernel), MNC2_SUCCESS);
  mnc2_free_kernel(kernel);
}

static void test_names(mnc2_device_t dev) {
  test_write("a.vsm", nop_vsm, strlen(nop_vsm));
  test_write("b.asm", nop_vsm, strlen(nop_vsm)); /* told by content */
  test_write("c.idma.asm", nop_vsm, strlen(nop_vsm));
  test_write("d.idma.dat", nop_vsm, strlen(nop_vsm));
  test_write("d.vsm", "no program", 10); /* the other is there */
  test_write("e.bin.vsm", nop_vsm, strlen(nop_vsm));
  test_write("f.idma.dat.vsm", nop_vsm, strlen(nop_vsm));
  expect_loads(dev, "a.idma.dat", 1);
  expect_loads(dev, "a.idma", 1);
  expect_loads(dev, "a.dat", 1);
  expect_loads(dev, "a", 1);
  expect_loads(dev, "b.idma.dat", 1);
  expect_loads(dev, "b.vsm", 1);
  expect_loads(dev, "c.idma.dat", 1);
  expect_loads(dev, "d.idma.dat", 1);
  expect_loads(dev, "e.bin", 1);
  expect_loads(dev, "f.idma.dat", 1);
  expect_loads(dev, "d.vsm", 0);
  expect_loads(dev, "g.idma.dat", 0);
  expect_loads(dev, "", 0); /* the folder itself */
}

static void test_no_programs(mnc2_device_t dev) {
  char bytes[4096];
  for (size_t i = 0; i < sizeof(bytes); ++i) bytes[i] = (char)(i * 37 + i / 7);
  EXPECT(mnc2_load_kernel(dev, test_write("empty.vsm", bytes, 0)) == NULL);
  EXPECT(mnc2_load_kernel(dev, test_write("garbage.vsm", bytes, sizeof(bytes))) == NULL);
  EXPECT(mnc2_load_kernel(dev, test_write("cut.bin", "KODAMAP\n\1\0\0\0", 12)) == NULL);
  EXPECT(mnc2_load_kernel(dev, test_write("magic.bin", "KODAMAP\n", 8)) == NULL);
  EXPECT(mnc2_load_kernel(dev, test_write("short.asm", "i 0101\n", 7)) == NULL);
  EXPECT(mnc2_load_kernel(dev, test_write("bad.vsm", "lpassa $lr1 $lr0\n", 17)) == NULL);
  EXPECT(mnc2_load_kernel(dev, "/dev/zero") == NULL);
  EXPECT(mnc2_load_kernel(dev, "/") == NULL);
  EXPECT(mnc2_load_kernel(dev, "") == NULL);
  EXPECT(mnc2_load_kernel(dev, NULL) == NULL);
  EXPECT(mnc2_load_kernel(NULL, test_write("ok.vsm", nop_vsm, strlen(nop_vsm))) == NULL);
  char* long_name = (char*)malloc(100000);
  memset(long_name, 'x', 99999);
  long_name[99999] = 0;
  EXPECT(mnc2_load_kernel(dev, long_name) == NULL);
  free(long_name);
}

/* Machine words: a nop is all idle values; `lpassa $lr0 $lr2` reads GRF0 and writes it. */
static void test_words(mnc2_device_t dev) {
  if (system("true") != 0) return;
  char word[300];
  memset(word, '0', sizeof(word));
  word[0] = 'i';
  word[1] = ' ';
  /* idle values, shared/isa/encoding.md: lengths of GRF addresses, selectors, precision of the ALU */
  const int ones[] = {46,  65,  87,  190, 191, 192, 193, 194, 195, 196, 197, 198,
                      199, 200, 209, 213, 214, 215, 241, 242, 243, 276, 277};
  for (size_t k = 0; k < sizeof(ones) / sizeof(*ones); ++k) word[2 + ones[k]] = '1';
  word[294] = '\n';
  mnc2_kernel_t kernel = mnc2_load_kernel(dev, test_write("words.asm", word, 295));
  EXPECT(kernel != NULL);
  uint64_t before = 0, after = 0;
  EXPECT_EQ(mnc2_capture_get_inst(dev, &before), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_exec_kernel(kernel), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_capture_get_inst(dev, &after), MNC2_SUCCESS);
  EXPECT_EQ(after - before, 1);
}

static void test_tags(mnc2_device_t dev) {
  mnc2_kernel_t kernel =
      test_kernel(dev, "tags.vsm",
                  "nop; wait i3f\nmvp/n64i02 $p0@0 $p64@0\nmvp/n64i01 $p0@0 $p64@0\nmvp/n64 $p0@0 $p64@0\n"
                  "nop; wait i02\nnop; wait i01\nquit\nnop; wait i05\n");
  uint8_t wd[4] = {9, 9, 9, 9}, mv[4] = {9, 9, 9, 9};
  int n_wd = 0, n_mv = 0;
  EXPECT_EQ(mnc2_kernel_get_dma_tags(kernel, wd, mv, 4, &n_wd, &n_mv), MNC2_SUCCESS);
  EXPECT_EQ(n_wd, 3);
  EXPECT_EQ(n_mv, 2);
  EXPECT(wd[0] == 1 && wd[1] == 2 && wd[2] == 63 && wd[3] == 9);
  EXPECT(mv[0] == 1 && mv[1] == 2 && mv[2] == 9);
  memset(wd, 9, 4);
  EXPECT_EQ(mnc2_kernel_get_dma_tags(kernel, wd, NULL, 1, &n_wd, &n_mv), MNC2_SUCCESS);
  EXPECT(n_wd == 3 && n_mv == 2 && wd[0] == 1 && wd[1] == 9);
  EXPECT_EQ(mnc2_kernel_get_dma_tags(kernel, NULL, NULL, 0, &n_wd, &n_mv), MNC2_SUCCESS);
  EXPECT_EQ(mnc2_kernel_get_dma_tags(kernel, wd, mv, -1, &n_wd, &n_mv), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_kernel_get_dma_tags(kernel, wd, mv, 4, NULL, &n_mv), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_kernel_get_dma_tags(kernel, wd, mv, 4, &n_wd, NULL), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_kernel_get_dma_tags(NULL, wd, mv, 4, &n_wd, &n_mv), MNC2_ERROR_PARAM);
  mnc2_free_kernel(kernel);
}

static void test_debug(mnc2_device_t dev) {
  /* LW of each memory, and how many numbers of its place count. */
  const struct {
    int memory;
    int size;
    int levels;
  } memories[] = {{MNC2_MEM_PDM, 524288, 1}, {MNC2_MEM_DRAM, 536870912, 1}, {MNC2_MEM_L2BM, 32768, 2},
                  {MNC2_MEM_L1BM, 8192, 3},  {MNC2_MEM_LM0, 2048, 5},       {MNC2_MEM_LM1, 2048, 5},
                  {MNC2_MEM_GRF0, 256, 5},   {MNC2_MEM_GRF1, 256, 5}};
  const int counts[5] = {4, 2, 8, 16, 4};
  for (int k = 0; k < 8; ++k) {
    const int m = memories[k].memory, size = memories[k].size;
    uint64_t values[3] = {UINT64_C(0x0123456789abcdef) + (uint64_t)k, 2, 3}, back[3] = {0};
    mnc2_loc_t loc = {3, 1, 7, 15, 3};
    EXPECT_EQ(mnc2_debug_write(dev, m, &loc, size - 3, 3, values), MNC2_SUCCESS);
    EXPECT_EQ(mnc2_debug_read(dev, m, &loc, size - 3, 3, back), MNC2_SUCCESS);
    EXPECT(memcmp(values, back, sizeof(back)) == 0);
    EXPECT_EQ(mnc2_debug_read(dev, m, NULL, size - 3, 3, back), MNC2_SUCCESS);
    EXPECT(back[0] == 0 && back[1] == 0 && back[2] == 0);
    EXPECT_EQ(mnc2_debug_read(dev, m, &loc, size - 2, 3, back), MNC2_ERROR_PARAM);
    EXPECT_EQ(mnc2_debug_read(dev, m, &loc, -1, 1, back), MNC2_ERROR_PARAM);
    EXPECT_EQ(mnc2_debug_read(dev, m, &loc, INT32_MAX, 1, back), MNC2_ERROR_PARAM);
    EXPECT_EQ(mnc2_debug_read(dev, m, &loc, INT32_MIN, INT32_MAX, back), MNC2_ERROR_PARAM);
    EXPECT_EQ(mnc2_debug_read(dev, m, &loc, 0, 0, back), MNC2_ERROR_PARAM);
    EXPECT_EQ(mnc2_debug_read(dev, m, &loc, 0, -5, back), MNC2_ERROR_PARAM);
    EXPECT_EQ(mnc2_debug_read(dev, m, &loc, 0, INT32_MAX, back), MNC2_ERROR_PARAM);
    EXPECT_EQ(mnc2_debug_write(dev, m, &loc, 1, INT32_MAX, values), MNC2_ERROR_PARAM);
    EXPECT_EQ(mnc2_debug_read(dev, m, &loc, 0, 1, NULL), MNC2_ERROR_PARAM);
    EXPECT_EQ(mnc2_debug_write(dev, m, &loc, 0, 1, NULL), MNC2_ERROR_PARAM);
    for (int level = 0; level < memories[k].levels; ++level) {
      for (int sign = 0; sign < 2; ++sign) {
        int place[5] = {0};
        place[level] = sign ? -1 : counts[level];
        const mnc2_loc_t wrong = {place[0], place[1], place[2], place[3], place[4]};
        EXPECT_EQ(mnc2_debug_read(dev, m, &wrong, 0, 1, back), MNC2_ERROR_PARAM);
        EXPECT_EQ(mnc2_debug_write(dev, m, &wrong, 0, 1, values), MNC2_ERROR_PARAM);
      }
    }
  }
  uint64_t value = 0;
  const int wrong[] = {-1, 8, INT32_MAX, INT32_MIN};
  for (int k = 0; k < 4; ++k) {
    EXPECT_EQ(mnc2_debug_read(dev, wrong[k], NULL, 0, 1, &value), MNC2_ERROR_PARAM);
    EXPECT_EQ(mnc2_debug_write(dev, wrong[k], NULL, 0, 1, &value), MNC2_ERROR_PARAM);
  }
  EXPECT_EQ(mnc2_debug_read(NULL, MNC2_MEM_PDM, NULL, 0, 1, &value), MNC2_ERROR_PARAM);
  EXPECT_EQ(mnc2_debug_write(NULL, MNC2_MEM_PDM, NULL, 0, 1, &value), MNC2_ERROR_PARAM);
}

int main(void) {
  mnc2_device_t dev = test_device();
  test_names(dev);
  test_no_programs(dev);
  test_words(dev);
  test_tags(dev);
  test_debug(dev);
  mnc2_close(dev);
  uint64_t value = 0;
  EXPECT_EQ(mnc2_debug_read(dev, MNC2_MEM_PDM, NULL, 0, 1, &value), MNC2_ERROR_PARAM);
  EXPECT(mnc2_load_kernel(dev, test_path("a.vsm")) == NULL);
  return test_end();
}
