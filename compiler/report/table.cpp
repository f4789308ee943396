#include "compiler/report/table.h"

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>

#include "isa/style.h"

namespace kodama::compiler {

TableView& table_view() {
  static TableView view;
  return view;
}

void Table::print(std::ostream& out, size_t left_columns, size_t numbers_end) const {
  const size_t width = table_view().width;
  print_within(width > 0 && &out == &std::cout ? width : SIZE_MAX, out, left_columns, numbers_end);
}

void Table::print_within(size_t width, std::ostream& out, size_t left_columns, size_t numbers_end) const {
  std::vector<size_t> widths(rows_[0].size(), 0);
  for (const auto& row : rows_) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::vector<bool> is_shown(widths.size(), true);
  const auto total = [&] {
    size_t sum = 0;
    for (size_t c = 0; c < widths.size(); ++c) sum += is_shown[c] ? widths[c] + 2 : 0;
    return sum - 2;
  };
  std::vector<std::string> left_out;
  for (const std::string& name : least_first_) {
    if (total() <= width) break;
    const auto column = std::ranges::find(rows_[0], name);
    if (column == rows_[0].end()) continue;
    is_shown[static_cast<size_t>(column - rows_[0].begin())] = false;
    left_out.push_back(name);
  }
  const std::string line(total(), '-');
  for (size_t r = 0; r < rows_.size(); ++r) {
    if (r == 1 || std::find(rules_.begin(), rules_.end(), r) != rules_.end()) fmt::print(out, "{}\n", line);
    std::string text;
    for (size_t c = 0; c < rows_[r].size(); ++c) {
      if (!is_shown[c]) continue;
      if (!text.empty()) text += "  ";
      text += c < left_columns || c >= numbers_end ? fmt::format("{:<{}}", rows_[r][c], widths[c])
                                                   : fmt::format("{:>{}}", rows_[r][c], widths[c]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    const isa::Styled style(out, r == 0 ? isa::Style::kHeading : isa::Style::kPlain);
    fmt::print(out, "{}\n", text);
  }
  if (!left_out.empty())
    fmt::print(out, "left out, for {} columns: {} (--wide)\n", width, fmt::join(left_out, ", "));
  if (!table_view().legend) return;
  for (size_t c = 0; c < widths.size(); ++c) {
    const auto said = std::ranges::find(legend_, rows_[0][c], &std::pair<std::string, std::string>::first);
    if (is_shown[c] && said != legend_.end()) fmt::print(out, "  {:<20} {}\n", said->first, said->second);
  }
}

std::string bytes_text(int64_t bytes) {
  if (bytes < 10'000) return fmt::format("{} B", bytes);
  if (bytes < 10'000'000) return fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3);
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

}  // namespace kodama::compiler
