#include "simulator/memory_contents.h"

namespace kodama::simulator {

/// SplitMix64 (Steele, Lea, Flood 2014): filling all memories of a chip takes many numbers.
uint64_t EdgeValues::random() {
  uint64_t z = state_ += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

namespace {
int mantissa_bits(int width) {
  return width == 64 ? 52 : width == 32 ? 23 : 9;
}
uint64_t largest_exponent(int width) {
  return width == 64 ? 2047 : width == 32 ? 255 : 63;
}
}  // namespace

uint64_t EdgeValues::next_block(int width, uint64_t exponent) {
  const int mantissa = mantissa_bits(width);
  const uint64_t signed_mantissa = (uint64_t{1} << (width - 1)) | ((uint64_t{1} << mantissa) - 1);
  uint64_t value = 0;
  for (int i = 0; i < 64 / width; ++i) {
    const bool is_zero = random() % 16 == 0;
    const uint64_t number = (lane(width) & signed_mantissa) | exponent << mantissa;
    value = (width == 64 ? 0 : value << width) | (is_zero ? 0 : number);
  }
  return value;
}

uint64_t EdgeValues::block_exponent(int width) {
  const uint64_t largest = largest_exponent(width);
  return random() % 8 == 0 ? 1 + random() % (largest - 1) : largest / 2 - 3 + random() % 7;
}

uint64_t EdgeValues::lane(int width) {
  const int mantissa = mantissa_bits(width);
  const uint64_t max_exponent = largest_exponent(width);
  const uint64_t bias = max_exponent / 2;
  const uint64_t mask = (uint64_t{1} << mantissa) - 1;
  // Fields of one number decide: which kind of exponent and of mantissa, the sign, an exponent.
  const uint64_t choice = random();
  const uint64_t wanted = choice >> 32;
  uint64_t exponent = bias - 4 + wanted % 8;
  switch (choice % 8) {
    case 0:
      exponent = 0;
      break;
    case 1:
      exponent = max_exponent;
      break;
    case 2:
      exponent = std::array<uint64_t, 4>{1, 2, max_exponent - 1, max_exponent - 2}[wanted % 4];
      break;
    case 3:
      exponent = wanted & max_exponent;
      break;
    default:
      break;
  }
  uint64_t bits = random() & mask;
  switch (choice >> 3 & 7) {
    case 0:
      bits = 0;
      break;
    case 1:
      bits = mask;
      break;
    case 2:
      bits = uint64_t{1} << ((choice >> 8 & 0xff) % static_cast<uint64_t>(mantissa));
      break;
    case 3:
      bits = mask ^ (choice >> 8 & 7);
      break;
    default:
      break;
  }
  return (choice >> 6 & 1) << (width - 1) | exponent << mantissa | bits;
}

}  // namespace kodama::simulator
