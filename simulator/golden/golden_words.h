#pragma once

#include <array>
#include <cstdint>
#include <vector>

/// The words of the golden model: what units pass on, and addresses that wrap.
namespace kodama::simulator::golden {

/// The 2LW that every unit sees: h is the upper (MSB) LW.
struct Quad {
  uint64_t h = 0;
  uint64_t l = 0;
};

inline int64_t modulo(int64_t value, int64_t size) {
  return ((value % size) + size) % size;
}

inline uint64_t& at_wrapped(std::vector<uint64_t>& memory, int64_t address) {
  return memory[static_cast<size_t>(modulo(address, static_cast<int64_t>(memory.size())))];
}

/// Word w of {h, l}, most significant first.
inline uint32_t word_of(Quad value, int w) {
  return static_cast<uint32_t>((w < 2 ? value.h : value.l) >> (w % 2 == 0 ? 32 : 0));
}

inline Quad quad_of_words(const std::array<uint64_t, 4>& words) {
  return {words[0] << 32 | words[1], words[2] << 32 | words[3]};
}

}  // namespace kodama::simulator::golden
