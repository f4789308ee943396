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

/// Writes a file under a temporary name beside `path` and renames it, so that `path` is never half written:
/// not when writing fails (UserError), and not when `write` throws.
void write_file_atomically(const std::string& path, std::span<const std::byte> bytes);
void write_file_atomically(const std::string& path, const std::string& text);
/// `write` is called once, with a function to give the contents to, piece by piece.
using Output = std::function<void(std::string_view)>;
void write_file_atomically(const std::string& path, const std::function<void(const Output&)>& write);

}  // namespace kodama::isa
