#include "host/endian.h"

#include <algorithm>

namespace kodama::host {
namespace {

constexpr size_t kBlock = 64;

/// Where byte `at` of `size` goes: all controls change pairs of places.
size_t partner(size_t at, size_t size, int control) {
  if (control == 0) {
    const size_t begin = at / kBlock * kBlock;
    return begin + std::min(kBlock, size - begin) - 1 - (at - begin);
  }
  const size_t value_bytes = size_t{1} << (control - 1);
  return at ^ (value_bytes - 1);
}

/// The chip's byte `at` is in LW at / 8, most significant first.
int shift_of(size_t at) {
  return static_cast<int>(56 - 8 * (at % 8));
}

}  // namespace

void to_long_words(const std::byte* bytes, int control, std::span<uint64_t> words) {
  const size_t size = words.size() * 8;
  for (size_t w = 0; w < words.size(); ++w) {
    uint64_t value = 0;
    for (size_t at = 8 * w; at < 8 * w + 8; ++at) {
      value |= std::to_integer<uint64_t>(bytes[partner(at, size, control)]) << shift_of(at);
    }
    words[w] = value;
  }
}

void to_bytes(std::span<const uint64_t> words, int control, std::byte* bytes) {
  const size_t size = words.size() * 8;
  for (size_t at = 0; at < size; ++at) {
    bytes[partner(at, size, control)] = static_cast<std::byte>(words[at / 8] >> shift_of(at));
  }
}

}  // namespace kodama::host
