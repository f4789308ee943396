/// Any files as a package, with right checksums: lines `=NAME`, each before what file NAME holds. A package
/// that is accepted has no number that leads out of it.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "compiler/package/package.h"
#include "testsuite/fuzz/fuzz_target.h"

namespace kodama::fuzz {
namespace {

namespace fs = std::filesystem;

/// Only names that stay in the folder, so that inputs write nowhere else.
bool is_safe(std::string_view name) {
  return name == "manifest.json" || name == "host.onnx" ||
         ((name.starts_with("images/") || name.starts_with("programs/") || name.starts_with("constants/")) &&
          name.size() < 100 && name.find("..") == name.npos && name.find('\0') == name.npos &&
          name.back() != '/');
}

void write_files(std::string_view input, const fs::path& folder) {
  fs::remove_all(folder);
  for (const char* each : {"images", "programs", "constants"}) fs::create_directories(folder / each);
  while (input.starts_with('=')) {
    const size_t line = std::min(input.find('\n'), input.size());
    const std::string_view name = input.substr(1, line - 1);
    input.remove_prefix(std::min(line + 1, input.size()));
    const size_t end = input.starts_with('=') ? 0 : std::min(input.find("\n="), input.size());
    if (is_safe(name)) std::ofstream(folder / name, std::ios::binary) << input.substr(0, end);
    input.remove_prefix(end);
    if (input.starts_with('\n')) input.remove_prefix(1);
  }
}

}  // namespace

void fuzz_one(std::string_view input) {
  static const fs::path folder =
      fs::temp_directory_path() / fmt::format("kodama_fuzz_package_{}", ::getpid());
  struct Remover {
    ~Remover() { fs::remove_all(folder); }
  } remover;
  write_files(input, folder);
  compiler::write_checksums(folder.string());
  const compiler::CompiledModel model = compiler::load_package(folder.string(), "tiny");
  for (const compiler::Segment& segment : model.segments)
    require(segment.end_stage() <= static_cast<int>(model.stages.size()), "segments end with the stages");
}

}  // namespace kodama::fuzz
