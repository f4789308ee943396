#pragma once

#include <string>
#include <vector>

/// Names of files that are made of names in models, which may hold anything.
namespace kodama::compiler {

/// Of a layer's or tensor's name what is safe in a file name, and not long. Other names may give the same.
std::string file_stem(const std::string& name);

/// A different one for each different name. Names that are safe as they are keep themselves; others that
/// would be the same have a number behind them. At most 200 bytes.
std::vector<std::string> distinct_file_stems(const std::vector<std::string>& names);

}  // namespace kodama::compiler
