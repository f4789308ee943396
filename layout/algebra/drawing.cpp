#include "layout/algebra/drawing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "isa/error.h"

namespace kodama::layout {
namespace {

constexpr std::array<Level, 4> kTree{Level::kL2b, Level::kL1b, Level::kMab, Level::kPe};

class Drawing {
 public:
  Drawing(const Layout& layout, const Lengths& lengths, int element_bits, const DrawingLimits& limits)
      : layout_(layout),
        lengths_(lengths),
        limits_(limits),
        words_(64 / element_bits),
        size_(footprint(layout, element_bits)) {
    // Words that no factor reaches are left out.
    words_ = std::min<int64_t>(words_, layout.level_extent(Level::kWord));
    columns_ = std::min(size_.long_words, limits.long_words);
  }

  std::string text() {
    std::string fixed;
    for (const Level level : kTree) {
      const std::set<int64_t> used = layout_.coordinates(level);
      if (used.size() > 1) shown_.push_back(level);
    }
    rows(0, Coordinates{}, 0);
    // Columns as wide as what is in them.
    std::vector<size_t> widths(static_cast<size_t>(columns_) + 1);
    for (const auto& row : table_) {
      for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
    }
    std::string out;
    for (const auto& row : table_) {
      std::string line = fmt::format("{:<{}}", row[0], widths[0]);
      for (size_t c = 1; c < row.size(); ++c) line += fmt::format("  {:<{}}", row[c], widths[c]);
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
    if (columns_ < size_.long_words)
      out += fmt::format("and {} more long words\n", size_.long_words - columns_);
    return out;
  }

 private:
  void rows(size_t depth, Coordinates at, int indent) {
    if (depth == 0) {
      std::vector<std::string> header{""};
      for (int64_t address = 0; address < columns_; ++address)
        header.push_back(address == 0 ? "LW 0" : std::to_string(address));
      table_.push_back(std::move(header));
    }
    const std::string blanks(static_cast<size_t>(2 * indent), ' ');
    if (depth == shown_.size()) {
      if (shown_.empty()) table_.push_back(row_of("", at));
      return;
    }
    const Level level = shown_[depth];
    const std::set<int64_t> used = layout_.coordinates(level);
    int64_t done = 0;
    for (const int64_t coordinate : used) {
      if (done == limits_.instances) {
        table_.push_back({blanks + fmt::format("... {} more", static_cast<int64_t>(used.size()) - done)});
        break;
      }
      ++done;
      at[level] = coordinate;
      const std::string name = blanks + fmt::format("{} {}", level_name(level), coordinate);
      if (depth + 1 == shown_.size()) {
        table_.push_back(row_of(name, at));
      } else {
        table_.push_back({name});
        rows(depth + 1, at, indent + 1);
      }
    }
  }

  std::vector<std::string> row_of(const std::string& name, Coordinates at) const {
    std::vector<std::string> row{name};
    for (int64_t address = 0; address < columns_; ++address) {
      at[Level::kAddress] = address;
      std::string cell;
      for (int64_t word = 0; word < words_; ++word) {
        at[Level::kWord] = word;
        if (word > 0) cell += '|';
        cell += element_text(at);
      }
      row.push_back(std::move(cell));
    }
    return row;
  }

  std::string element_text(const Coordinates& place) const {
    const auto index = layout_.element(place);
    if (!index) return "-";
    for (size_t axis = 0; axis < index->size(); ++axis) {
      if ((*index)[axis] >= lengths_[axis]) return ".";
    }
    return index->empty() ? "()" : fmt::format("{}", fmt::join(*index, ","));
  }

  const Layout& layout_;
  const Lengths& lengths_;
  DrawingLimits limits_;
  int64_t words_;
  Footprint size_;
  int64_t columns_ = 0;
  std::vector<Level> shown_;
  std::vector<std::vector<std::string>> table_;
};

void check(const Layout& layout, const Lengths& lengths, int element_bits) {
  check_lengths(layout, lengths);
  if (element_bits < 1 || 64 % element_bits != 0)
    throw isa::UserError(fmt::format("elements of {} bits, allowed: 16, 32 or 64", element_bits));
  if (layout.level_extent(Level::kWord) > 64 / element_bits) {
    throw isa::UserError(fmt::format(
        "layout {}: word coordinates up to {}, allowed: 0 to {} for elements of {} bits", layout.to_string(),
        layout.level_extent(Level::kWord) - 1, 64 / element_bits - 1, element_bits));
  }
}

}  // namespace

std::string draw(const Layout& layout, const Lengths& lengths, int element_bits,
                 const DrawingLimits& limits) {
  check(layout, lengths, element_bits);
  const Footprint size = footprint(layout, element_bits);
  std::string text =
      fmt::format("{}, shape ({}), {} bits\n", layout.to_string(), fmt::join(lengths, ", "), element_bits);
  std::string where;
  for (const auto& [count, name] : {std::pair(size.l2bs, "L2B"), std::pair(size.l1bs, "L1B"),
                                    std::pair(size.mabs, "MAB"), std::pair(size.pes, "PE")}) {
    if (count > 1) where += fmt::format("{}{} {}s", where.empty() ? "" : " x ", count, name);
  }
  text += fmt::format("{} places, {} long word{} of {}{}, {:.0f} % full\n", size.elements, size.long_words,
                      size.long_words == 1 ? "" : "s", memory_name(layout.memory()),
                      where.empty() ? "" : " in each of " + where, 100 * size.density);
  return text + Drawing(layout, lengths, element_bits, limits).text();
}

nlohmann::ordered_json places_json(const Layout& layout, const Lengths& lengths, int element_bits) {
  constexpr int64_t kMostPlaces = 1000000;
  check(layout, lengths, element_bits);
  const Footprint size = footprint(layout, element_bits);
  if (size.elements > kMostPlaces) {
    throw isa::UserError(fmt::format("layout {} has {} places, allowed: up to {}", layout.to_string(),
                                     size.elements, kMostPlaces));
  }
  using nlohmann::ordered_json;
  ordered_json places = ordered_json::array();
  const std::vector<Coordinates> replicas = layout.replica_offsets();
  std::vector<int64_t> index(layout.axes().size(), 0);
  for (;;) {
    bool padding = false;
    for (size_t axis = 0; axis < index.size(); ++axis) padding = padding || index[axis] >= lengths[axis];
    const Coordinates first = layout.place(index);
    for (const Coordinates& offset : replicas) {
      ordered_json place;
      for (const auto& [level, name] :
           {std::pair(Level::kL2b, "l2b"), std::pair(Level::kL1b, "l1b"), std::pair(Level::kMab, "mab"),
            std::pair(Level::kPe, "pe"), std::pair(Level::kAddress, "address"),
            std::pair(Level::kWord, "word")})
        place[name] = first[level] + offset[level];
      place["element"] = padding ? ordered_json(nullptr) : ordered_json(index);
      places.push_back(std::move(place));
    }
    size_t axis = index.size();
    while (axis > 0 && ++index[axis - 1] == layout.extent(axis - 1)) index[--axis] = 0;
    if (axis == 0) break;
  }
  return {{"layout", layout.to_string()},
          {"shape", lengths},
          {"element_bits", element_bits},
          {"memory", memory_name(layout.memory())},
          {"long_words", size.long_words},
          {"instances", {{"l2b", size.l2bs}, {"l1b", size.l1bs}, {"mab", size.mabs}, {"pe", size.pes}}},
          {"density", size.density},
          {"places", places}};
}

}  // namespace kodama::layout
