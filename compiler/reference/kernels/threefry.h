#pragma once

#include <array>
#include <cstdint>

/// The random numbers of all random operators: Threefry-2x32-20 (Salmon, Moraes, Dror and Shaw, "Parallel
/// random numbers: as easy as 1, 2, 3", 2011). It is counter-based: a bijection of 64-bit counters that a
/// 64-bit key selects, so element i of a tensor is a function of key and i alone, in whatever order and on
/// however many PEs the elements are made. It consists of 32-bit additions, rotations and exclusive ors.
namespace kodama::compiler::reference {

using ThreefryWords = std::array<uint32_t, 2>;

/// The two random words of `counter` under `key`.
constexpr ThreefryWords threefry(ThreefryWords key, ThreefryWords counter) {
  constexpr int kRounds = 20;
  constexpr int kRoundsPerKey = 4;
  constexpr std::array<int, 8> kRotations = {13, 15, 26, 6, 17, 29, 16, 24};
  const std::array<uint32_t, 3> keys = {key[0], key[1], 0x1BD11BDAu ^ key[0] ^ key[1]};
  uint32_t a = counter[0] + keys[0];
  uint32_t b = counter[1] + keys[1];
  for (uint32_t round = 0; round < kRounds; ++round) {
    const int rotation = kRotations[round % kRotations.size()];
    a += b;
    b = (b << rotation) | (b >> (32 - rotation));
    b ^= a;
    if ((round + 1) % kRoundsPerKey != 0) continue;
    const uint32_t injection = (round + 1) / kRoundsPerKey;
    a += keys[injection % 3];
    b += keys[(injection + 1) % 3] + injection;
  }
  return {a, b};
}

}  // namespace kodama::compiler::reference
