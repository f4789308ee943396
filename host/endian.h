#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

/// Bytes of the host and long words of the chip (mnc2_set_endian_ctrl).
namespace kodama::host {

inline constexpr int kEndianControls = 5;
inline constexpr int kDefaultEndianControl = 4;

/// `bytes` holds 8 per long word. Each way is the other's inverse.
void to_long_words(const std::byte* bytes, int control, std::span<uint64_t> words);
void to_bytes(std::span<const uint64_t> words, int control, std::byte* bytes);

}  // namespace kodama::host
