#pragma once

#include <functional>
#include <span>
#include <string>

#include "isa/file.h"

/// Files that the user names for results.
namespace kodama::isa {

/// write_file_atomically, but `-` is standard output, and standard error says "wrote PATH".
void write_output(const std::string& path, const std::string& text);
void write_output(const std::string& path, const std::function<void(const Output&)>& write);
/// Says it of a file that was written otherwise, and what is in it unless `what` is empty.
void say_wrote(const std::string& path, const std::string& what = "");

/// Before the work whose results go to these files starts: UserError when one can't be written, or when two
/// are the same. Empty names are skipped. Returns whether one of them is standard output.
bool check_outputs(std::span<const std::string> paths);
/// Likewise for a directory that is made if it isn't there. An empty name is skipped.
void check_output_directory(const std::string& path);

/// Hands what was printed to the system; UserError if it couldn't be written (a full disk).
void flush_standard_output();

}  // namespace kodama::isa
