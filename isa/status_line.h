#pragma once

#include <string>

/// A line of the terminal that says what goes on. It is on standard error; text that is printed meanwhile
/// (isa/terminal.h) takes its place.
namespace kodama::isa {

/// In place of the line that is drawn.
void draw_status(const std::string& text);
void erase_status();

}  // namespace kodama::isa
