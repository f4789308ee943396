#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

/// Tables as text.
namespace kodama::compiler {

/// Columns as wide as their widest cell; numbers, which stand between `left_columns` and `numbers_end`, are
/// right aligned. The header is bold on a terminal with colours.
///
/// A table that is printed on a terminal fits its width: columns that don't matter most are left out, and
/// named below (TableView). Elsewhere a table has all of its columns.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  void rule() { rules_.push_back(rows_.size()); }
  /// Names of columns, in the order in which they are left out. Others never are.
  void leave_out_first(std::vector<std::string> columns) { least_first_ = std::move(columns); }
  /// What columns say, by name, for the legend.
  void explain(std::vector<std::pair<std::string, std::string>> columns) { legend_ = std::move(columns); }

  void print(std::ostream& out, size_t left_columns, size_t numbers_end = SIZE_MAX) const;
  /// The same in `width` characters, as far as leaving out columns does it.
  void print_within(size_t width, std::ostream& out, size_t left_columns, size_t numbers_end) const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> rules_;
  std::vector<std::string> least_first_;
  std::vector<std::pair<std::string, std::string>> legend_;
};

/// What the tables of this process show; the command line says it before anything is printed.
struct TableView {
  size_t width = 0;     ///< of tables on standard output; 0: as wide as they are
  bool legend = false;  ///< below a table what its columns say
  bool brief = false;   ///< totals instead of the tables of layers and regions
  bool moves = false;   ///< the table of the relayouts between layers
};
TableView& table_view();

/// "512 B", "12.5 kB", "3.0 MB".
std::string bytes_text(int64_t bytes);

}  // namespace kodama::compiler
