#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "isa/error.h"

namespace kodama::simulator {

class PatternFile;

/// Zero pages of the operating system: address space of any size, memory only where it was written.
class MappedMemory {
 public:
  MappedMemory() = default;
  explicit MappedMemory(size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data_ == MAP_FAILED) {
      data_ = nullptr;
      throw isa::UnsupportedError(
          fmt::format("the host can't provide {} bytes of address space for the chip's memory; raise the "
                      "process's limit, or "
                      "take a chip with less DRAM (dram_lw)",
                      bytes));
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

  /// From now on memory is taken in pages of 2 MiB where the host has them, for what will be written nearly
  /// everywhere: a fault costs the host much, whatever the size of the page.
  void prefer_large_pages() { prefer_large_pages(0, bytes_); }
  /// In the part [first, first + bytes).
  void prefer_large_pages(size_t first, size_t bytes) {
    const size_t begin = (first + kLargePage - 1) / kLargePage * kLargePage;
    const size_t end = (first + bytes) / kLargePage * kLargePage;
    if (data_ == nullptr || begin >= end) return;
    // A kernel without them refuses, and all stays as it was.
    madvise(static_cast<char*>(data_) + begin, end - begin, MADV_HUGEPAGE);
  }

  /// Makes the contents those of the pattern, repeated, beginning with its page `first` (any number); memory
  /// is still taken only where something is written.
  inline void show(const PatternFile& pattern, uint64_t first);

  void* data() const { return data_; }
  uint64_t* longs() const { return static_cast<uint64_t*>(data_); }
  size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kLargePage = size_t{1} << 21;

  void* data_ = nullptr;
  size_t bytes_ = 0;
};

/// Contents that many memories can show without holding them.
class PatternFile {
 public:
  /// A power of two, of a page at least.
  explicit PatternFile(size_t bytes) : bytes_(bytes), file_(memfd_create("kodama", MFD_CLOEXEC)) {
    if (file_ < 0 || ftruncate(file_, static_cast<off_t>(bytes)) != 0) fail();
    memory_ = MappedMemory(bytes);
    if (mmap(memory_.data(), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_, 0) == MAP_FAILED)
      fail();
  }
  ~PatternFile() {
    if (file_ >= 0) close(file_);
  }
  PatternFile(const PatternFile&) = delete;
  PatternFile& operator=(const PatternFile&) = delete;

  const MappedMemory& memory() const { return memory_; }
  size_t bytes() const { return bytes_; }
  int file() const { return file_; }
  [[noreturn]] static void fail() {
    throw isa::UserError("the host can't provide pseudo-random memory contents");
  }

 private:
  size_t bytes_;
  int file_;
  MappedMemory memory_;
};

void MappedMemory::show(const PatternFile& pattern, uint64_t first) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  size_t offset = first % (pattern.bytes() / page) * page;
  for (size_t at = 0, length = 0; at < bytes_; at += length, offset = 0) {
    length = std::min(pattern.bytes() - offset, bytes_ - at);
    void* where = static_cast<char*>(data_) + at;
    if (mmap(where, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, pattern.file(),
             static_cast<off_t>(offset)) == MAP_FAILED) {
      PatternFile::fail();
    }
  }
}

}  // namespace kodama::simulator
