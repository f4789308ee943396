#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

/// Tables as text.
namespace kodama::compiler {

/// Columns as wide as their widest cell; numbers, which stand between `left_columns` and `numbers_end`, are
/// right aligned.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  void rule() { rules_.push_back(rows_.size()); }

  void print(std::ostream& out, size_t left_columns, size_t numbers_end = SIZE_MAX) const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> rules_;
};

/// "512 B", "12.5 kB", "3.0 MB".
std::string bytes_text(int64_t bytes);

}  // namespace kodama::compiler
