#include "compiler/driver/chips.h"

#include <cstring>

#include "isa/arithmetic.h"
#include "isa/error.h"

namespace kodama::compiler {

namespace {

template <typename T>
void add_elements(const T* from, T* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

void add_tensor(const Tensor& from, Tensor& to) {
  isa::check_internal(from.type() == to.type() && from.shape() == to.shape(), "SumOfShares",
                      "shares have tensors of other shapes");
  if (to.type() == DataType::kFloat64) {
    add_elements(from.data<double>().data(), to.data<double>().data(), to.size());
  } else {
    add_elements(from.data<float>().data(), to.data<float>().data(), to.size());
  }
}

/// The sum over all chips of the elements of one type.
template <typename T>
void sum_elements(Chips& chips, DataType type, std::vector<Tensor>& tensors) {
  int64_t count = 0;
  for (const Tensor& tensor : tensors) count += tensor.type() == type ? tensor.size() : 0;
  if (count == 0) return;
  const auto parties = static_cast<int64_t>(chips.count());
  const int64_t part = isa::ceil_div(count, parties);
  std::vector<std::byte> bytes(static_cast<size_t>(part * parties) * sizeof(T));
  size_t at = 0;
  for (const Tensor& tensor : tensors) {
    if (tensor.type() != type || tensor.size() == 0) continue;
    std::memcpy(bytes.data() + at, tensor.bytes().data(), tensor.byte_size());
    at += tensor.byte_size();
  }
  bytes = chips.exchange(bytes);
  SumOfShares sum;
  const size_t size = static_cast<size_t>(part) * sizeof(T);
  for (int64_t chip = 0; chip < parties; ++chip) {
    Tensor share(type, {part});
    std::memcpy(share.bytes().data(), bytes.data() + static_cast<size_t>(chip) * size, size);
    sum.add({std::move(share)});
  }
  const Tensor own = std::move(sum.take().front());
  bytes.resize(size);
  std::memcpy(bytes.data(), own.bytes().data(), size);
  bytes = chips.gather(bytes);
  at = 0;
  for (Tensor& tensor : tensors) {
    if (tensor.type() != type || tensor.size() == 0) continue;
    std::memcpy(tensor.bytes().data(), bytes.data() + at, tensor.byte_size());
    at += tensor.byte_size();
  }
}

}  // namespace

double Interconnect::seconds(int count, int64_t bytes) const {
  const double rounds = 2.0 * (count - 1);
  return rounds * (latency + static_cast<double>(bytes) / count / bandwidth);
}

void SumOfShares::merge_last() {
  const std::vector<Tensor>& from = parts_.back().second;
  auto& [count, to] = parts_[parts_.size() - 2];
  isa::check_internal(from.size() == to.size(), "SumOfShares", "shares have other tensors");
  for (size_t k = 0; k < from.size(); ++k) add_tensor(from[k], to[k]);
  count += parts_.back().first;
  parts_.pop_back();
}

void SumOfShares::add(std::vector<Tensor> share) {
  parts_.emplace_back(1, std::move(share));
  while (parts_.size() > 1 && parts_.back().first == parts_[parts_.size() - 2].first) merge_last();
}

int64_t SumOfShares::count() const {
  int64_t count = 0;
  for (const auto& part : parts_) count += part.first;
  return count;
}

std::vector<Tensor> SumOfShares::take() {
  while (parts_.size() > 1) merge_last();
  std::vector<Tensor> sum = std::move(parts_.at(0).second);
  parts_.clear();
  return sum;
}

std::vector<Tensor> sum_over_chips(Chips& chips, std::vector<Tensor> own) {
  sum_elements<float>(chips, DataType::kFloat32, own);
  sum_elements<double>(chips, DataType::kFloat64, own);
  return own;
}

int64_t bytes_of(const std::vector<Tensor>& tensors) {
  int64_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += static_cast<int64_t>(tensor.byte_size());
  return bytes;
}

}  // namespace kodama::compiler
