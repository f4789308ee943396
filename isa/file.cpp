#include "isa/file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "isa/error.h"

namespace kodama::isa {
namespace {

/// A file that is gone unless it was renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string name) : name_(std::move(name)) {}
  ~TemporaryFile() {
    std::error_code ignored;
    if (!name_.empty()) std::filesystem::remove(name_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& name() const { return name_; }
  std::error_code rename_to(const std::string& path) {
    std::error_code error;
    std::filesystem::rename(name_, path, error);
    if (!error) name_.clear();
    return error;
  }

 private:
  std::string name_;
};

}  // namespace

std::string source_path(const std::string& name) {
  return std::string(KODAMA_SOURCE_DIR "/") + name;
}

void write_file_atomically(const std::string& path, const std::function<void(const Output&)>& write) {
  const auto refuse = [&](const std::string& reason) {
    throw UserError(fmt::format("{}: can't be written ({})", path, reason));
  };
  TemporaryFile temporary(fmt::format("{}.{}.tmp", path, getpid()));
  std::ofstream stream(temporary.name(), std::ios::binary | std::ios::trunc);
  if (!stream) refuse(std::strerror(errno));
  write([&](std::string_view piece) {
    // Not only at the end: there may be much more to come.
    if (!stream.write(piece.data(), static_cast<std::streamsize>(piece.size()))) refuse(std::strerror(errno));
  });
  stream.close();
  if (!stream) refuse(std::strerror(errno));
  if (const std::error_code error = temporary.rename_to(path)) refuse(error.message());
}

std::string read_file(const std::string& path) {
  std::string text;
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::vector<char> piece(size_t{1} << 16);
  while (file && (file.read(piece.data(), static_cast<std::streamsize>(piece.size())) || file.gcount() > 0)) {
    text.append(piece.data(), static_cast<size_t>(file.gcount()));
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
