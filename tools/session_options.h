#pragma once

#include <iosfwd>

#include "compiler/driver/session.h"
#include "tools/common_options.h"

/// Options of models for commands that are functions of compiler/driver.
namespace kodama::tools {

/// Loads the plugins, and fills in what the options say.
void finish_options(const ModelOptions& options, compiler::SessionOptions& session);
/// report_stream for all that such a command writes.
std::ostream& session_stream(const compiler::SessionOptions& session);

}  // namespace kodama::tools
