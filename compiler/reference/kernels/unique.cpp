#include <algorithm>
#include <complex>
#include <functional>
#include <numeric>

#include "compiler/reference/kernels/kernel.h"
#include "compiler/reference/kernels/strided.h"

/// Unique.
namespace kodama::compiler::reference {

namespace {

/// Less, equal or greater, as numpy sorts: NaN is last and equals itself.
template <typename T>
int compare(const T& a, const T& b) {
  if (is_nan(a) || is_nan(b)) return static_cast<int>(is_nan(a)) - static_cast<int>(is_nan(b));
  return a < b ? -1 : static_cast<int>(b < a);
}
template <typename T>
int compare(const std::complex<T>& a, const std::complex<T>& b) {
  const int real = compare(a.real(), b.real());
  return real != 0 ? real : compare(a.imag(), b.imag());
}

/// Compares two elements of a tensor by their offsets, of any type.
std::function<int(int64_t, int64_t)> comparison(const NodeContext& context, const Tensor& x) {
  std::function<int(int64_t, int64_t)> result;
  const auto by_elements = [&](const auto& elements) {
    result = [elements](int64_t a, int64_t b) {
      return compare(elements[static_cast<size_t>(a)], elements[static_cast<size_t>(b)]);
    };
  };
  if (x.type() == DataType::kString) {
    by_elements(std::span(x.strings()));
  } else if (x.type() == DataType::kComplex64) {
    by_elements(x.data<std::complex<float>>());
  } else if (x.type() == DataType::kComplex128) {
    by_elements(x.data<std::complex<double>>());
  } else {
    for_number_or_bool_type(context, x.type(),
                            [&](auto tag) { by_elements(x.data<typename decltype(tag)::Type>()); });
  }
  return result;
}

/// Slices along an axis, or elements: their first occurrences, where they are among the unique ones, how
/// often each occurs.
std::vector<Tensor> run_unique(const NodeContext& context) {
  const bool has_axis = context.has_attribute("axis");
  const Tensor x = has_axis ? context.input(0) : context.input(0).reshaped({context.input(0).size()});
  const size_t axis = has_axis ? context.axis(context.int_attribute("axis"), x.rank()) : 0;
  const int64_t count = x.shape()[axis];
  const int64_t inner = count_between(x.shape(), axis + 1, x.shape().size());
  const int64_t outer = count_between(x.shape(), 0, axis);
  const auto compare_elements = comparison(context, x);
  const auto compare_slices = [&](int64_t a, int64_t b) {
    for (int64_t i = 0; i < outer; ++i) {
      for (int64_t j = 0; j < inner; ++j) {
        const int order = compare_elements((i * count + a) * inner + j, (i * count + b) * inner + j);
        if (order != 0) return order;
      }
    }
    return 0;
  };
  std::vector<int64_t> sorted(static_cast<size_t>(count));
  std::iota(sorted.begin(), sorted.end(), 0);
  std::ranges::stable_sort(sorted, [&](int64_t a, int64_t b) { return compare_slices(a, b) < 0; });
  std::vector<int64_t> first;  // of each group of equals, its first member
  std::vector<int64_t> first_of_slice(static_cast<size_t>(count));
  for (size_t k = 0; k < sorted.size(); ++k) {
    if (k == 0 || compare_slices(sorted[k - 1], sorted[k]) != 0) first.push_back(sorted[k]);
    first_of_slice[static_cast<size_t>(sorted[k])] = first.back();
  }
  if (context.int_attribute("sorted") == 0) std::ranges::sort(first);  // in the order of first occurrences
  std::vector<int64_t> number(static_cast<size_t>(count));             // of the unique slice, by first member
  for (size_t k = 0; k < first.size(); ++k) number[static_cast<size_t>(first[k])] = static_cast<int64_t>(k);
  std::vector<int64_t> inverse;
  std::vector<int64_t> counts(first.size(), 0);
  for (const int64_t member : first_of_slice) {
    inverse.push_back(number[static_cast<size_t>(member)]);
    ++counts[static_cast<size_t>(inverse.back())];
  }
  std::vector<std::vector<int64_t>> maps;
  for (const int64_t extent : x.shape()) {
    maps.emplace_back(static_cast<size_t>(extent));
    std::iota(maps.back().begin(), maps.back().end(), 0);
  }
  maps[axis] = first;
  const auto list = [](const std::vector<int64_t>& values) {
    return Tensor::from_values<int64_t>(DataType::kInt64, {std::ssize(values)}, values);
  };
  return {take_by_axes(x, maps), list(first), list(inverse), list(counts)};
}

}  // namespace

void register_unique(KernelRegistry& registry) {
  registry.add("Unique", run_unique);
}

}  // namespace kodama::compiler::reference
