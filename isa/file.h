#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace kodama::isa {

/// Where a file of the source tree was when Kodama was built: suites, tests, chips that aren't installed.
std::string source_path(const std::string& name);

/// All bytes of a file. UserError when it can't be read.
std::string read_file(const std::string& path);

/// Writes a file so that `path` is never half written: what was there stays until all contents are, also when
/// writing fails (UserError) or `write` throws. Links are followed; an existing file keeps its owner, mode
/// and other names.
/// `-` and what is no regular file (a pipe, a device) receive the contents as they come.
void write_file_atomically(const std::string& path, std::span<const std::byte> bytes);
void write_file_atomically(const std::string& path, const std::string& text);
/// `write` is called once, with a function to give the contents to, piece by piece.
using Output = std::function<void(std::string_view)>;
void write_file_atomically(const std::string& path, const std::function<void(const Output&)>& write);

}  // namespace kodama::isa
