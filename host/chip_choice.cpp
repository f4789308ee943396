#include "host/chip_choice.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "isa/error.h"

namespace kodama::host {

/// configs/mncore2.yaml, put in by CMakeLists.txt: a library that was copied somewhere finds no other file.
extern const char* const kDefaultChipText;

namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultChip = "mncore2";

/// The file of a chip in the share folder of the prefix that this library was installed to; empty if there is
/// none.
std::string file_beside_library(const std::string& name) {
  Dl_info info{};
  if (dladdr(&kDefaultChipText, &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code error;
  fs::path folder = fs::canonical(info.dli_fname, error).parent_path();
  for (int up = 0; up < 3 && folder.has_relative_path(); ++up) {  // PREFIX/lib/ARCHITECTURE
    const fs::path file = folder / "share/kodama/configs" / (name + ".yaml");
    if (fs::exists(file, error)) return file.string();
    folder = folder.parent_path();
  }
  return {};
}

}  // namespace

isa::Chip chosen_chip() {
  const char* choice = std::getenv("KODAMA_CHIP");
  const std::string wanted = choice == nullptr || *choice == 0 ? kDefaultChip : choice;
  const char* folder = std::getenv("KODAMA_CONFIG_DIR");
  if (wanted.find('/') == std::string::npos && (folder == nullptr || *folder == 0)) {
    const size_t end = std::min(wanted.find(','), wanted.size());
    const std::string file = file_beside_library(wanted.substr(0, end));
    if (!file.empty()) return isa::find_chip(file + wanted.substr(end));
  }
  try {
    return isa::find_chip(wanted);
  } catch (const isa::UserError&) {
    if (wanted != kDefaultChip) throw;
    return isa::parse_chip(kDefaultChipText, "mncore2.yaml");
  }
}

}  // namespace kodama::host
