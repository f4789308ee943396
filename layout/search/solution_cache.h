#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// Solved conversions, and programs (compiler/dynamic/stored_programs.h), kept on disk between runs.
///
/// An entry is a key and a value, both text. The key says everything the solution depends on (the chip's
/// hash, layouts, shapes, solver_version()), so an entry never gets old; it can only be forgotten.
/// Each entry is a file of its own in one directory:
///
///     kodama solution 1
///     <bytes of key> <bytes of value> <checksum of both, 16 hex digits>
///     <key><value>
///
/// Several processes may use a directory: files are written under another name and renamed, and one that
/// disappears, or isn't what it should be, counts as not there (and is removed). The directory is kept below
/// a size; what was not used for longest goes first. Nothing that goes wrong with the cache is an error:
/// without it, everything is solved again.
namespace kodama::layout {

class SolutionCache {
 public:
  static constexpr int64_t kMostBytes = 64 << 20;

  /// The directory is made when the first entry is stored.
  explicit SolutionCache(std::string directory, int64_t most_bytes = kMostBytes);
  /// KODAMA_CACHE, or else kodama in XDG_CACHE_HOME or ~/.cache. Nothing when there is none of them, or
  /// KODAMA_CACHE is `off`.
  static std::optional<std::string> default_directory();

  std::optional<std::string> find(std::string_view key) const;
  void store(std::string_view key, std::string_view value);

 private:
  std::string path_of(std::string_view key) const;
  void make_room();

  std::string directory_;
  int64_t most_bytes_;
  /// That may be stored before the directory's size is looked at again.
  int64_t unchecked_bytes_ = 0;
};

/// Of the sources that solve and that say what is cheap: a hash of their texts, made by the build.
std::string_view solver_version();

}  // namespace kodama::layout
