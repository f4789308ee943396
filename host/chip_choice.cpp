#include "host/chip_choice.h"

#include <cstdlib>
#include <string>

#include "isa/error.h"

namespace kodama::host {

/// configs/mncore2.yaml, put in by CMakeLists.txt: a library that was copied somewhere finds no other file.
extern const char* const kDefaultChipText;

namespace {

constexpr const char* kDefaultChip = "mncore2";

}  // namespace

isa::Chip chosen_chip() {
  const char* choice = std::getenv("KODAMA_CHIP");
  const std::string wanted = choice == nullptr || *choice == 0 ? kDefaultChip : choice;
  try {
    return isa::find_chip(wanted);
  } catch (const isa::UserError&) {
    if (wanted != kDefaultChip) throw;
    return isa::parse_chip(kDefaultChipText, "mncore2.yaml");
  }
}

}  // namespace kodama::host
