/// Runs a fuzz target on the files of the folders given, for builds without libFuzzer.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>

#include "assembler/assembler.h"
#include "isa/file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  std::set<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) files.insert(entry.path());
  }
  for (const auto& file : files) {
    fmt::print("{}\n", file.string());
    std::fflush(stdout);  // the last name printed is the one that broke something
    const std::string bytes = kodama::isa::read_file(file.string());
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
  fmt::print("{} seeds\n", files.size());
  return files.empty() ? 1 : 0;
}
