#include "layout/search/solution_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "isa/arithmetic.h"
#include "isa/error.h"
#include "isa/file.h"

namespace kodama::layout {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "kodama solution 1\n";

/// A second hash of the same text, for names of 128 bits.
constexpr uint64_t kOtherStart = 0x9e3779b97f4a7c15ULL;

uint64_t checksum(std::string_view key, std::string_view value) {
  return isa::hash(value, isa::hash(key));
}

std::string header_text(std::string_view key, std::string_view value) {
  return fmt::format("{}{} {} {:016x}\n", kMagic, key.size(), value.size(), checksum(key, value));
}

}  // namespace

SolutionCache::SolutionCache(std::string directory, int64_t most_bytes)
    : directory_(std::move(directory)), most_bytes_(most_bytes) {}

std::optional<std::string> SolutionCache::default_directory() {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  if (const std::string own = variable("KODAMA_CACHE"); !own.empty()) {
    if (own == "off") return std::nullopt;
    return own;
  }
  if (const std::string xdg = variable("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/kodama";
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.cache/kodama";
  return std::nullopt;
}

std::string SolutionCache::path_of(std::string_view key) const {
  return fmt::format("{}/{:016x}{:016x}", directory_, isa::hash(key), isa::hash(key, kOtherStart));
}

std::optional<std::string> SolutionCache::find(std::string_view key) const {
  const std::string path = path_of(key);
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return std::nullopt;
  std::string text;
  try {
    text = isa::read_file(path);
  } catch (const isa::Error&) {
    return std::nullopt;
  }
  // Where the value is follows from the key and from what is left; then everything must be as it was written.
  const size_t header_end = text.find('\n', kMagic.size());
  if (text.starts_with(kMagic) && header_end != std::string::npos &&
      text.size() - header_end - 1 >= key.size()) {
    const std::string_view value = std::string_view(text).substr(header_end + 1 + key.size());
    if (std::string_view(text).substr(0, header_end + 1) == header_text(key, value) &&
        std::string_view(text).substr(header_end + 1, key.size()) == key) {
      fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
      text.erase(0, text.size() - value.size());
      return text;
    }
  }
  fs::remove(path, ignored);
  return std::nullopt;
}

void SolutionCache::store(std::string_view key, std::string_view value) {
  try {
    std::error_code error;
    fs::create_directories(directory_, error);
    const std::string header = header_text(key, value);
    isa::write_file_atomically(path_of(key), [&](const isa::Output& output) {
      for (const std::string_view piece : {std::string_view(header), key, value}) output(piece);
    });
    unchecked_bytes_ -= static_cast<int64_t>(header.size() + key.size() + value.size());
    if (unchecked_bytes_ < 0) make_room();
  } catch (const isa::Error&) {
    // A full or read-only disk: then there is no cache.
  }
}

void SolutionCache::make_room() {
  struct Entry {
    fs::file_time_type used;
    int64_t bytes = 0;
    fs::path path;
  };
  std::vector<Entry> entries;
  int64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator at(directory_, error), end; !error && at != end; at.increment(error)) {
    // Another process may remove it meanwhile.
    std::error_code gone;
    Entry entry{at->last_write_time(gone), 0, at->path()};
    if (!gone) entry.bytes = static_cast<int64_t>(at->file_size(gone));
    if (gone) continue;
    bytes += entry.bytes;
    entries.push_back(std::move(entry));
  }
  std::ranges::sort(entries, {}, &Entry::used);
  // With some room to spare: looking through the directory takes a while.
  const int64_t wanted = most_bytes_ / 4 * 3;
  if (bytes > most_bytes_) {
    for (const Entry& entry : entries) {
      if (bytes <= wanted) break;
      fs::remove(entry.path, error);
      bytes -= entry.bytes;
    }
  }
  unchecked_bytes_ = std::max<int64_t>((most_bytes_ - bytes) / 2, 0);
}

}  // namespace kodama::layout
