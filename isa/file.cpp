#include "isa/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>
#include <streambuf>
#include <system_error>
#include <utility>
#include <vector>

#include "isa/error.h"
#include "isa/output.h"
#include "isa/temporary.h"
#include "isa/terminal.h"
#include "isa/verbosity.h"

namespace kodama::isa {
namespace {

namespace fs = std::filesystem;

Verbosity chosen_verbosity = Verbosity::kNormal;

/// Takes what is written, and keeps nothing.
class NowhereBuffer : public std::streambuf {
  int_type overflow(int_type character) override { return traits_type::not_eof(character); }
  std::streamsize xsputn(const char* /*text*/, std::streamsize count) override { return count; }
};

[[noreturn]] void refuse(const std::string& path, int error) {
  throw UserError(fmt::format("{}: can't be written ({})", path, std::strerror(error)));
}

bool is_same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/// Where the contents of an output go.
struct Destination {
  enum class Kind {
    kStandardOutput,  ///< `-`, or the file that standard output was redirected to, under whatever name
    kThrough,         ///< no regular file
    kExisting,
    kNew,
  };
  Kind kind = Kind::kNew;
  fs::path path;     ///< links followed
  struct stat info;  ///< but for kNew
};

/// What the links of a path lead to, whether it is there or not.
fs::path follow_links(const std::string& name) {
  fs::path path = name;
  for (int links = 0; links < 40; ++links) {
    std::error_code error;
    const fs::path next = fs::read_symlink(path, error);
    if (error) return path;
    path = path.parent_path() / next;
  }
  refuse(name, ELOOP);
}

fs::path directory_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

/// UserError when it can't be written.
Destination find_destination(const std::string& name) {
  using Kind = Destination::Kind;
  Destination found{};
  if (name == "-") {
    found.kind = Kind::kStandardOutput;
    return found;
  }
  found.path = name;
  if (::stat(name.c_str(), &found.info) == 0) {
    if (S_ISDIR(found.info.st_mode)) refuse(name, EISDIR);
    if (S_ISSOCK(found.info.st_mode)) refuse(name, ENXIO);
    if (::faccessat(AT_FDCWD, name.c_str(), W_OK, AT_EACCESS) != 0) refuse(name, errno);
    struct stat out {};
    if (!S_ISCHR(found.info.st_mode) && ::fstat(STDOUT_FILENO, &out) == 0 && is_same_file(found.info, out)) {
      found.kind = Kind::kStandardOutput;
      return found;
    }
    found.kind = S_ISREG(found.info.st_mode) ? Kind::kExisting : Kind::kThrough;
    if (found.kind == Kind::kExisting) {
      const fs::path path = follow_links(name);
      struct stat info {};
      // Links of /proc may lead to files that have no name.
      if (::lstat(path.c_str(), &info) == 0 && is_same_file(info, found.info)) found.path = path;
    }
    return found;
  }
  if (errno != ENOENT) refuse(name, errno);
  found.path = follow_links(name);
  if (!found.path.has_filename()) refuse(name, name.empty() ? ENOENT : EISDIR);
  const fs::path directory = directory_of(found.path);
  if (::faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) != 0) refuse(name, errno);
  return found;
}

/// Of what is read from devices and FIFOs, in bytes.
constexpr size_t kLongestStream = size_t{1} << 28;

using FileHandle = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

/// Writes all pieces that `write` has.
void write_pieces(std::FILE* file, const std::string& name, const std::function<void(const Output&)>& write) {
  write([&](std::string_view piece) {
    // Not only at the end: there may be much more to come.
    if (std::fwrite(piece.data(), 1, piece.size(), file) != piece.size()) refuse(name, errno);
  });
  if (std::fflush(file) != 0) refuse(name, errno);
}

void write_whole(const std::string& name, const fs::path& path, int flags,
                 const std::function<void(const Output&)>& write) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | flags);
  if (descriptor < 0) refuse(name, errno);
  FileHandle file(::fdopen(descriptor, "wb"), std::fclose);
  write_pieces(file.get(), name, write);
  if (std::fclose(file.release()) != 0) refuse(name, errno);
}

/// Replaces a file, or makes a new one. False, and nothing happened, if an existing file can't be replaced by
/// one that has its owner and mode.
bool replace(const std::string& name, const Destination& to,
             const std::function<void(const Output&)>& write) {
  const bool exists = to.kind == Destination::Kind::kExisting;
  if (exists && to.info.st_nlink > 1) return false;
  std::error_code error;
  const auto temporary = Temporary::make(Temporary::Kind::kFile, directory_of(to.path), error);
  if (!temporary) {
    if (exists) return false;
    refuse(name, error.value());
  }
  if (exists && (::fchown(temporary->descriptor(), to.info.st_uid, to.info.st_gid) != 0 ||
                 ::fchmod(temporary->descriptor(), to.info.st_mode & 07777) != 0))
    return false;
  FileHandle file(::fdopen(::dup(temporary->descriptor()), "wb"), std::fclose);
  if (!file) refuse(name, errno);
  write_pieces(file.get(), name, write);
  if (std::fclose(file.release()) != 0) refuse(name, errno);
  if (const std::error_code failed = temporary->move_to(to.path)) refuse(name, failed.value());
  return true;
}

/// Collects the contents first, so that the file keeps what it has until all of them are there.
void overwrite(const std::string& name, const Destination& to,
               const std::function<void(const Output&)>& write) {
  const FileHandle collected(std::tmpfile(), std::fclose);
  if (!collected) refuse(name, errno);
  write_pieces(collected.get(), name, write);
  std::rewind(collected.get());
  write_whole(name, to.path, O_TRUNC, [&](const Output& output) {
    std::vector<char> piece(size_t{1} << 16);
    while (const size_t size = std::fread(piece.data(), 1, piece.size(), collected.get()))
      output({piece.data(), size});
  });
}

}  // namespace

std::string source_path(const std::string& name) {
  return std::string(KODAMA_SOURCE_DIR "/") + name;
}

void write_file_atomically(const std::string& path, const std::function<void(const Output&)>& write) {
  const Destination to = find_destination(path);
  switch (to.kind) {
    case Destination::Kind::kStandardOutput:
      std::cout.flush();
      write_pieces(stdout, path == "-" ? "standard output" : path, write);
      return;
    case Destination::Kind::kThrough:
      write_whole(path, to.path, 0, write);
      return;
    case Destination::Kind::kExisting:
    case Destination::Kind::kNew:
      if (!replace(path, to, write)) overwrite(path, to, write);
  }
}

void write_output(const std::string& path, const std::function<void(const Output&)>& write) {
  write_file_atomically(path, write);
  if (path != "-") say_wrote(path);
}

void write_output(const std::string& path, const std::string& text) {
  write_output(path, [&](const Output& output) { output(text); });
}

void set_verbosity(Verbosity verbosity) {
  chosen_verbosity = verbosity;
}

Verbosity verbosity() {
  return chosen_verbosity;
}

std::ostream& unless_quiet(std::ostream& out) {
  static NowhereBuffer buffer;
  static std::ostream nowhere(&buffer);
  return chosen_verbosity == Verbosity::kQuiet ? nowhere : out;
}

std::ostream& failure_stream(std::ostream& out) {
  return chosen_verbosity == Verbosity::kQuiet ? std::cerr : out;
}

void say_wrote(const std::string& path, const std::string& what) {
  unless_quiet(std::cerr) << fmt::format("wrote {}{}\n", path,
                                         what.empty() ? "" : fmt::format(" ({})", what));
}

bool check_outputs(std::span<const std::string> paths) {
  bool any_standard = false;
  std::set<std::pair<dev_t, ino_t>> existing;
  std::set<fs::path> made;
  for (const std::string& path : paths) {
    if (path.empty()) continue;
    const Destination to = find_destination(path);
    bool is_first = true;
    switch (to.kind) {
      case Destination::Kind::kStandardOutput:
        is_first = !std::exchange(any_standard, true);
        break;
      case Destination::Kind::kThrough:
        break;
      case Destination::Kind::kExisting:
        is_first = existing.insert({to.info.st_dev, to.info.st_ino}).second;
        break;
      case Destination::Kind::kNew:
        is_first = made.insert(fs::canonical(directory_of(to.path)) / to.path.filename()).second;
        break;
    }
    if (!is_first)
      throw UserError(fmt::format("{}: two outputs would go there; each needs a file of its own",
                                  path == "-" ? "standard output" : path));
  }
  return any_standard;
}

void check_output_directory(const std::string& path) {
  if (path.empty()) return;
  fs::path at = path;
  struct stat info {};
  while (::stat(at.c_str(), &info) != 0) {
    if (errno != ENOENT || at == directory_of(at)) refuse(path, errno);
    at = directory_of(at);
  }
  if (!S_ISDIR(info.st_mode)) refuse(path, ENOTDIR);
  if (::faccessat(AT_FDCWD, at.c_str(), W_OK | X_OK, AT_EACCESS) != 0) refuse(path, errno);
}

void flush_standard_output() {
  errno = 0;
  std::cout.flush();
  const bool failed = std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout;
  if (!failed) return;
  // It may have failed earlier, when what goes to standard error flushed it.
  const auto* stream = dynamic_cast<const PrintableStream*>(std::cout.rdbuf());
  const int error = stream != nullptr && stream->error() != 0 ? stream->error() : errno;
  refuse("standard output", error != 0 ? error : EIO);
}

std::string read_file(const std::string& path) {
  std::string text;
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::vector<char> piece(size_t{1} << 16);
  // A file that grows is read to its end, too.
  std::error_code unknown;
  const uintmax_t size = fs::is_regular_file(path, unknown) ? fs::file_size(path, unknown) : 0;
  if (!unknown) text.reserve(size);
  while (file && (file.read(piece.data(), static_cast<std::streamsize>(piece.size())) || file.gcount() > 0)) {
    text.append(piece.data(), static_cast<size_t>(file.gcount()));
    // Devices such as /dev/zero have no end.
    std::error_code error;
    if (text.size() > kLongestStream && !fs::is_regular_file(path, error))
      throw UserError(
          fmt::format("{}: found more than {} bytes in what is no regular file", path, kLongestStream));
  }
  if (!file.is_open() || file.bad()) {
    throw UserError(
        fmt::format("{}: can't be read: {}", path, errno != 0 ? std::strerror(errno) : "input error"));
  }
  return text;
}

void write_file_atomically(const std::string& path, std::span<const std::byte> bytes) {
  write_file_atomically(path, [&](const Output& output) {
    output({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  });
}

void write_file_atomically(const std::string& path, const std::string& text) {
  write_file_atomically(path, [&](const Output& output) { output(text); });
}

}  // namespace kodama::isa
