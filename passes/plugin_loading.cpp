#include "passes/plugin_loading.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "isa/error.h"
#include "passes/plugin.h"
#include "passes/registry.h"

namespace kodama::passes {
namespace {

constexpr const char* kAllowed =
    "allowed: a plugin built against this Kodama's headers (docs/write-a-pass.md)";

[[noreturn]] void refuse(const std::string& file, const std::string& found) {
  throw isa::UserError(fmt::format("--plugin {}: {}; {}", file, found, kAllowed));
}

void check_is_file(const std::string& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) refuse(file, "found no such file");
  if (!std::filesystem::is_regular_file(file, error)) refuse(file, "found something that is no file");
}

/// The loader maps the segments of a library that was cut off and dies at the first touch, so the length is
/// checked here: the table of sections is at the end of the file.
void check_is_library(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) refuse(file, "found a file that can't be read");
  Elf64_Ehdr header{};
  stream.read(reinterpret_cast<char*>(&header), sizeof header);
  if (stream.gcount() != sizeof header || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64)
    refuse(file, "found a file that is no 64-bit shared library");
  if (header.e_type != ET_DYN) refuse(file, "found an object file or program, no shared library");
  const uint64_t size = std::filesystem::file_size(file);
  const uint64_t sections = uint64_t{header.e_shnum} * header.e_shentsize;
  if (header.e_shoff > size || sections > size - header.e_shoff)
    refuse(file, fmt::format("found a shared library that is cut off after {} bytes", size));
}

/// The loader's message, with the name of an undefined symbol readable.
std::string loader_message() {
  const char* const found = dlerror();
  std::string message = found == nullptr ? "the loader doesn't say why" : found;
  constexpr std::string_view kUndefined = "undefined symbol: ";
  const size_t at = message.find(kUndefined);
  if (at == std::string::npos) return message;
  const size_t begin = at + kUndefined.size();
  const std::string symbol = message.substr(begin, message.find_first_of(" ,\t(", begin) - begin);
  const std::unique_ptr<char, decltype(&std::free)> readable(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, nullptr), &std::free);
  return readable ? fmt::format("it needs '{}', which Kodama doesn't have", readable.get()) : message;
}

void check_number(void* library, const std::string& file, const char* name, int expected, const char* what) {
  const auto* const number = static_cast<const int*>(dlsym(library, name));
  if (number == nullptr) refuse(file, fmt::format("found a library without the constant {}", name));
  if (*number != expected)
    refuse(file, fmt::format("found a plugin with {} {}, this Kodama has {}", what, *number, expected));
}

/// Plugins find Kodama's functions in the program. If it has them from a shared library (the Python module),
/// that must be one whose names everybody sees.
void publish_kodama() {
  Dl_info self{};
  if (dladdr(reinterpret_cast<void*>(&load_plugin), &self) != 0 && self.dli_fname != nullptr)
    dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

void load_library(const std::string& file) {
  check_is_library(file);
  publish_kodama();
  const std::string path = file.find('/') == std::string::npos ? "./" + file : file;
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) refuse(file, "found a library that can't be loaded: " + loader_message());
  check_number(library, file, "kodama_plugin_abi", kPluginAbi, "ABI");
  check_number(library, file, "kodama_plugin_layout", plugin_layout(), "data layout");
  auto* const register_passes = reinterpret_cast<void (*)()>(dlsym(library, "kodama_register_passes"));
  if (register_passes == nullptr) refuse(file, "found a library without the function kodama_register_passes");
  register_passes();
}

/// Empty: none.
std::function<void(const std::string&)>& python_loader() {
  static std::function<void(const std::string&)> loader;
  return loader;
}

}  // namespace

void load_python_plugins_with(std::function<void(const std::string&)> load) {
  python_loader() = std::move(load);
}

void load_plugin(const std::string& file) {
  check_is_file(file);
  const bool is_python = file.ends_with(".py");
  if (is_python && !python_loader())
    throw isa::UserError(
        fmt::format("--plugin {0}: found a file in Python, which this program can't load; allowed: the same "
                    "command by Python, 'python3 -m kodama ... --plugin {0}'",
                    file));
  const RegisteringPlugin registering(file);
  const std::string what = is_python ? "it" : "kodama_register_passes";
  try {
    (is_python ? python_loader() : load_library)(file);
  } catch (const isa::UserError&) {
    throw;
  } catch (const isa::Cancelled&) {
    throw;
  } catch (const std::exception& error) {
    refuse(file, fmt::format("{} failed: {}", what, error.what()));
  } catch (...) {
    refuse(file, fmt::format("{} failed with something that is no std::exception", what));
  }
  if (registering.passes() == 0) refuse(file, "found a plugin that registers no pass");
}

}  // namespace kodama::passes
