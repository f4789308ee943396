/* What tests of the host API share. They are plain C, as host programs are. */
#ifndef KODAMA_HOST_TEST_H
#define KODAMA_HOST_TEST_H

#include <mnc2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int test_faults;

#define EXPECT(condition)                                             \
  do {                                                                \
    if (!(condition)) {                                               \
      printf("%s:%d: %s is false\n", __FILE__, __LINE__, #condition); \
      ++test_faults;                                                  \
    }                                                                 \
  } while (0)

#define EXPECT_EQ(found, expected)                                                                 \
  do {                                                                                             \
    const long long found_ = (long long)(found), expected_ = (long long)(expected);                \
    if (found_ != expected_) {                                                                     \
      printf("%s:%d: %s is %lld, expected %lld\n", __FILE__, __LINE__, #found, found_, expected_); \
      ++test_faults;                                                                               \
    }                                                                                              \
  } while (0)

/* A folder of this process for files, which test_end() removes. */
static char test_folder[64];

static inline const char* test_path(const char* name) {
  static char paths[4][128];
  static int next;
  if (test_folder[0] == 0) {
    strcpy(test_folder, "/tmp/kodama_host_test_XXXXXX");
    if (mkdtemp(test_folder) == NULL) exit(1);
  }
  char* path = paths[next++ % 4];
  snprintf(path, sizeof(paths[0]), "%s/%s", test_folder, name);
  return path;
}

static inline const char* test_write(const char* name, const void* bytes, size_t size) {
  const char* path = test_path(name);
  FILE* file = fopen(path, "wb");
  if (file == NULL || fwrite(bytes, 1, size, file) != size || fclose(file) != 0) {
    printf("can't write %s\n", path);
    exit(1);
  }
  return path;
}

static inline mnc2_kernel_t test_kernel(mnc2_device_t dev, const char* name, const char* vsm) {
  mnc2_kernel_t kernel = mnc2_load_kernel(dev, test_write(name, vsm, strlen(vsm)));
  if (kernel == NULL) {
    printf("kernel %s can't be loaded\n", name);
    ++test_faults;
  }
  return kernel;
}

static inline mnc2_device_t test_device(void) {
  mnc2_device_t dev = mnc2_open(0);
  if (dev == NULL) {
    puts("no device");
    exit(1);
  }
  return dev;
}

static inline int test_end(void) {
  if (test_folder[0] != 0) {
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", test_folder);
    if (system(command) != 0) ++test_faults;
  }
  puts(test_faults == 0 ? "all is as expected" : "FAILED");
  return test_faults != 0;
}

#endif
