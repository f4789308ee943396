#pragma once

#include <string_view>
#include <vector>

/// The pages of docs/, which the program has in it.
namespace kodama::tools {

struct Page {
  std::string_view name;  ///< of its file in docs/, without .md
  std::string_view text;  ///< Markdown

  /// Its first heading.
  std::string_view title() const {
    const std::string_view line = text.substr(0, text.find('\n'));
    return line.starts_with("# ") ? line.substr(2) : line;
  }
};

/// By name.
const std::vector<Page>& pages();

/// Null if there is none of that name.
inline const Page* find_page(std::string_view name) {
  for (const Page& page : pages()) {
    if (page.name == name) return &page;
  }
  return nullptr;
}

}  // namespace kodama::tools
