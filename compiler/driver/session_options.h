#pragma once

#include <span>
#include <string>

#include "compiler/driver/session.h"

/// Options of the compiler whose values are words, by name: the command line's (`--NAME`) and the library's.
namespace kodama::compiler {

struct WordOption {
  const char* name;
  const char* description;
  std::string& (*value)(SessionOptions&);
  bool of_plan;  ///< matters to the plan, not only to programs
};
std::span<const WordOption> word_options();

/// Sets an option by its name: one of word_options(), "cache" (a directory; empty: none), "fuse" or
/// "check-layers" (yes, no); any other name is taken for an option of a pass, which are checked when their
/// passes are chosen. UserError for a value that can't be.
void set_option(SessionOptions& options, const std::string& name, const std::string& value);

}  // namespace kodama::compiler
