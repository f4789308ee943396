#pragma once

#include <string_view>
#include <utility>

#include "isa/chip.h"
#include "isa/error.h"

/// Fuzz targets: one file NAME_target.cpp per target, which defines fuzz_one(), and a folder seeds/NAME.
/// CMake finds both. With KODAMA_FUZZ a target becomes a libFuzzer program; in every other build a program
/// that runs the seeds, so that inputs which once broke something stay tested.
namespace kodama::fuzz {

/// Feeds `input` to the part under test. A UserError or UnsupportedError that leaves it is a fine answer;
/// everything else that leaves it, an InternalError included, ends the process.
void fuzz_one(std::string_view input);

/// `tiny`, the chip that all targets use.
const isa::Chip& chip();

/// Ends the process with `what` and `details` unless `holds`: a property that every input must have.
void require(bool holds, std::string_view what, std::string_view details = {});

/// What stands before and behind the first line `=`; the second is empty when there is none.
std::pair<std::string_view, std::string_view> halves(std::string_view input);

/// Whether `action` comes to its end rather than to a UserError or UnsupportedError.
template <typename Action>
bool succeeds(Action&& action) {
  try {
    action();
    return true;
  } catch (const isa::UserError&) {
    return false;
  } catch (const isa::UnsupportedError&) {
    return false;
  }
}

}  // namespace kodama::fuzz
