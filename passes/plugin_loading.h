#pragma once

#include <string>

/// Loads passes from shared libraries (passes/plugin.h). The program that does it must export what the
/// public headers declare, as `kodama` does (tools/CMakeLists.txt).
namespace kodama::passes {

/// Loads the library and lets it register its passes. `file` is a path, never a name to look for in the
/// system's directories. UserError naming the file when it doesn't exist, is no shared library or no plugin,
/// was built against other headers, or registers a name that is taken.
void load_plugin(const std::string& file);

}  // namespace kodama::passes
