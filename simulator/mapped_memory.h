#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "isa/error.h"

namespace kodama::simulator {

/// Zero pages of the operating system: address space of any size, memory only where it was written.
class MappedMemory {
 public:
  MappedMemory() = default;
  explicit MappedMemory(size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data_ == MAP_FAILED) {
      data_ = nullptr;
      throw isa::UserError(
          fmt::format("the host can't provide {} bytes of address space for the chip's memory", bytes));
    }
  }
  ~MappedMemory() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  MappedMemory(MappedMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  MappedMemory& operator=(MappedMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  void* data() const { return data_; }
  uint64_t* longs() const { return static_cast<uint64_t*>(data_); }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace kodama::simulator
