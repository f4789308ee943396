/* 1024 products of 4 x 4 matrices of doubles, one in every MAB. Small integers make all of them exact. */
#include <mnc2.h>
#include <stdio.h>

enum { MATRICES = 1024, COUNT = MATRICES * 16, BYTES = COUNT * 8 };

static double a[COUNT], b[COUNT], product[COUNT];

/* Where PDM has what goes to the PE of a column, in the cycle of a row, of matrix (L2B, L1B, MAB). */
static int place(int matrix, int row, int column) {
  const int l2b = matrix / 128, l1b = matrix / 16 % 8, mab = matrix % 16;
  const int in_l1bm = 64 * row + 4 * mab + column;
  const int in_step = in_l1bm % 32;
  const int in_l2bm = 256 * (in_l1bm / 32) + 64 * (in_step / 8) + 8 * l1b + in_step % 8;
  return 128 * (in_l2bm / 16) + 16 * l2b + in_l2bm % 16;
}

int main(void) {
  mnc2_device_t dev = mnc2_open(0);
  mnc2_kernel_t kernel = mnc2_load_kernel(dev, "matrix_product.idma.dat");
  if (kernel == NULL) return 1;
  for (int i = 0; i < COUNT; ++i) {
    a[i] = (i * 7) % 31 - 15;
    b[i] = (i * 5) % 29 - 14;
  }
  int wrong = mnc2_send(dev, a, 0, BYTES, 0) != MNC2_SUCCESS;
  wrong |= mnc2_send(dev, b, BYTES, BYTES, 0) != MNC2_SUCCESS;
  wrong |= mnc2_exec_kernel(kernel) != MNC2_SUCCESS;
  wrong |= mnc2_recv(dev, product, 2 * BYTES, BYTES, 0) != MNC2_SUCCESS;
  int faults = 0;
  for (int matrix = 0; matrix < MATRICES; ++matrix) {
    for (int row = 0; row < 4; ++row) {
      for (int column = 0; column < 4; ++column) {
        double expected = 0;
        for (int k = 0; k < 4; ++k) expected += b[place(matrix, row, k)] * a[place(matrix, column, k)];
        faults += product[place(matrix, row, column)] != expected;
      }
    }
  }
  printf("matrix_product: %d elements of %d are wrong\n", faults, COUNT);
  mnc2_free_kernel(kernel);
  mnc2_close(dev);
  return wrong || faults != 0;
}
