#include "compiler/report/table.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>

namespace kodama::compiler {

void Table::print(std::ostream& out, size_t left_columns, size_t numbers_end) const {
  std::vector<size_t> widths(rows_[0].size(), 0);
  for (const auto& row : rows_) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  size_t total = 0;
  for (size_t width : widths) total += width + 2;
  const std::string line(total - 2, '-');
  for (size_t r = 0; r < rows_.size(); ++r) {
    if (r == 1 || std::find(rules_.begin(), rules_.end(), r) != rules_.end()) fmt::print(out, "{}\n", line);
    std::string text;
    for (size_t c = 0; c < rows_[r].size(); ++c) {
      if (c > 0) text += "  ";
      text += c < left_columns || c >= numbers_end ? fmt::format("{:<{}}", rows_[r][c], widths[c])
                                                   : fmt::format("{:>{}}", rows_[r][c], widths[c]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    fmt::print(out, "{}\n", text);
  }
}

std::string bytes_text(int64_t bytes) {
  if (bytes < 10'000) return fmt::format("{} B", bytes);
  if (bytes < 10'000'000) return fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3);
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

}  // namespace kodama::compiler
