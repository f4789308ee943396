#pragma once

#include <string>
#include <vector>

#include "compiler/driver/session.h"

/// Files that options name.
namespace kodama::compiler {

/// NAME=FILE[:MEMBER] apart. UserError for others.
struct NamedFile {
  std::string name;
  std::string file;
  std::string member;
};
NamedFile parse_named_file(const char* option, const std::string& specification);
/// The tensors that NAME=FILE[:MEMBER] each name. UserError, with the option that has them, for others.
TensorMap read_named_tensors(const char* option, const std::vector<std::string>& specifications);

}  // namespace kodama::compiler
