#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// Markdown (CommonMark with tables) for those who read no browser.
namespace kodama::tools {

/// As text whose lines have at most `width` characters, as far as words and code let them. Links are their
/// words alone.
std::string markdown_text(std::string_view markdown, size_t width);
/// As the sections of a man page, in man's own macros; the title (a first heading of level 1) is left out.
std::string markdown_man(std::string_view markdown);

/// Words in lines of at most `width` characters, a longer word in a line of its own.
std::vector<std::string> wrapped(std::string_view text, size_t width);

}  // namespace kodama::tools
