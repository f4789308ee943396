#pragma once

#include <functional>
#include <string>

/// Loads passes from shared libraries (passes/plugin.h). The program that does it must export what the
/// public headers declare, as `kodama` does (tools/CMakeLists.txt).
namespace kodama::passes {

/// Loads the library and lets it register its passes, or the file in Python,
/// if this process can (load_python_plugins_with). `file` is a path, never a name to look for in the
/// system's directories. UserError naming the file when it doesn't exist, is no shared library or no plugin,
/// was built against other headers, or registers a name that is taken.
void load_plugin(const std::string& file);

/// From now on files in Python (`.py`) are plugins, too: `load` runs one, which registers its passes. What it
/// throws is what load_plugin throws.
void load_python_plugins_with(std::function<void(const std::string& file)> load);

}  // namespace kodama::passes
