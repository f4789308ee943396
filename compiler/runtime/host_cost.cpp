#include "compiler/runtime/host_cost.h"

#include <algorithm>
#include <string>

namespace kodama::compiler {

int64_t host_operations(const std::string& op_type, const std::vector<const Tensor*>& inputs,
                        const std::vector<Tensor>& outputs) {
  int64_t elements = 0;
  for (const Tensor& tensor : outputs) elements += tensor.size();
  const int64_t results = outputs.empty() ? 0 : outputs[0].size();
  for (const Tensor* tensor : inputs) elements += tensor == nullptr ? 0 : tensor->size();
  const auto input = [&](size_t k) { return k < inputs.size() ? inputs[k] : nullptr; };
  // Of a tensor per index of its first axis.
  const auto per_first = [](const Tensor& tensor) {
    return tensor.rank() == 0 ? 1 : tensor.size() / std::max<int64_t>(tensor.shape()[0], 1);
  };
  const Tensor* const x = input(0);
  if (x == nullptr) return elements;
  if (op_type == "MatMul" || op_type == "MatMulInteger" || op_type == "QLinearMatMul")
    return results * (x->rank() == 0 ? 1 : x->shape().back());
  if (op_type == "Gemm" && !outputs.empty() && outputs[0].rank() == 2)
    return results * x->size() / std::max<int64_t>(outputs[0].shape()[0], 1);
  if (op_type == "Conv" || op_type == "ConvInteger" || op_type == "ConvTranspose" ||
      op_type == "QLinearConv") {
    const Tensor* const weights = input(op_type == "QLinearConv" ? 3 : 1);
    if (weights == nullptr) return elements;
    return (op_type == "ConvTranspose" ? x->size() : results) * per_first(*weights);
  }
  if ((op_type == "RNN" || op_type == "GRU" || op_type == "LSTM") && input(1) != nullptr &&
      input(2) != nullptr && x->rank() == 3)
    return x->shape()[0] * x->shape()[1] * (input(1)->size() + input(2)->size());
  return elements;
}

}  // namespace kodama::compiler
