#include "compiler/tensor/largest.h"

namespace kodama::compiler {

std::vector<int64_t> largest_per_row(const Tensor& tensor) {
  const int64_t columns = tensor.rank() == 0 ? 1 : tensor.shape().back();
  std::vector<int64_t> result;
  if (columns == 0) return result;
  for (int64_t row = 0; row < tensor.size() / columns; ++row) {
    int64_t best = 0;
    for (int64_t c = 1; c < columns; ++c) {
      if (element_as_double(tensor, row * columns + c) > element_as_double(tensor, row * columns + best))
        best = c;
    }
    result.push_back(best);
  }
  return result;
}

}  // namespace kodama::compiler
