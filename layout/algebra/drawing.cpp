#include "layout/algebra/drawing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "isa/error.h"

namespace kodama::layout {
namespace {

constexpr int64_t kMostPlaces = 1000000;  ///< of a picture, or as JSON
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
    for (const Level level : kTree) {
      if (layout_.coordinates(level).size() > 1) shown_.push_back(level);
    }
    add_rows(0, Coordinates{});
  }

  std::string text() const {
    std::vector<std::vector<std::string>> table{{""}};
    for (int64_t address = 0; address < columns_; ++address)
      table[0].push_back(address == 0 ? "LW 0" : std::to_string(address));
    for (const Row& row : rows_) {
      table.push_back({std::string(2 * row.depth, ' ') + row.name});
      if (!row.place) continue;
      for (int64_t address = 0; address < columns_; ++address) {
        std::string cell;
        for (int64_t word = 0; word < words_; ++word)
          cell += (word > 0 ? "|" : "") + element_text(*row.place, address, word);
        table.back().push_back(std::move(cell));
      }
    }
    // Columns as wide as what is in them.
    std::vector<size_t> widths(static_cast<size_t>(columns_) + 1);
    for (const auto& row : table) {
      for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
    }
    std::string out;
    for (const auto& row : table) {
      std::string line = fmt::format("{:<{}}", row[0], widths[0]);
      for (size_t c = 1; c < row.size(); ++c) line += fmt::format("  {:<{}}", row[c], widths[c]);
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
    if (columns_ < size_.long_words)
      out += fmt::format("and {} more long words\n", size_.long_words - columns_);
    return out;
  }

  std::string svg(const std::string& title) const {
    constexpr int64_t kHeight = 20, kMargin = 6, kLetter = 7, kIndent = 14;
    const auto memories = std::ranges::count_if(rows_, [](const Row& row) { return row.place.has_value(); });
    if (memories > kMostPlaces / std::max<int64_t>(columns_ * words_, 1)) {
      throw isa::UserError(fmt::format(
          "layout {}: a picture of {} memories with {} long words each; allowed: up to {} places, which "
          "--instances and --long-words choose",
          title, memories, columns_, kMostPlaces));
    }
    size_t letters = 4;
    int64_t left = kMargin;
    for (const Row& row : rows_) {
      left = std::max(left, kMargin + static_cast<int64_t>(row.name.size()) * kLetter +
                                static_cast<int64_t>(row.depth) * kIndent + kMargin);
      for (int64_t k = 0; row.place && k < columns_ * words_; ++k)
        letters = std::max(letters, element_text(*row.place, k / words_, k % words_).size());
    }
    const int64_t width = static_cast<int64_t>(letters) * kLetter + kMargin;
    const auto x = [&](int64_t address, int64_t word) { return left + (address * words_ + word) * width; };
    std::string body;
    const auto add_text = [&](int64_t at_x, int64_t at_y, const std::string& text) {
      body += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", at_x, at_y, text);
    };
    for (int64_t address = 0; address < columns_; ++address)
      add_text(x(address, 0) + kMargin / 2, kHeight - kMargin, fmt::format("LW {}", address));
    int64_t top = kHeight;
    for (const Row& row : rows_) {
      add_text(kMargin + static_cast<int64_t>(row.depth) * kIndent, top + kHeight - kMargin, row.name);
      for (int64_t k = 0; row.place && k < columns_ * words_; ++k) {
        const int64_t at = x(k / words_, k % words_);
        body +=
            fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" stroke=\"#888\"/>\n",
                        at, top, width - 2, kHeight - 2, colour(*row.place, k / words_, k % words_));
        add_text(at + kMargin / 2, top + kHeight - kMargin, element_text(*row.place, k / words_, k % words_));
      }
      top += kHeight;
    }
    if (columns_ < size_.long_words) {
      add_text(kMargin, top + kHeight - kMargin,
               fmt::format("and {} more long words", size_.long_words - columns_));
      top += kHeight;
    }
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{0}\" height=\"{1}\" "
        "font-family=\"sans-serif\" font-size=\"11\">\n<title>{2}</title>\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n{3}</svg>\n",
        std::max<int64_t>(x(columns_, 0) + kMargin, 260), top + kMargin, title, body);
  }

 private:
  /// A memory, or a level of the tree above some.
  struct Row {
    std::string name;
    size_t depth = 0;
    std::optional<Coordinates> place;
  };

  void add_rows(size_t depth, Coordinates at) {
    if (depth == shown_.size()) {
      if (shown_.empty()) rows_.push_back({"", 0, at});
      return;
    }
    const Level level = shown_[depth];
    const std::set<int64_t> used = layout_.coordinates(level);
    int64_t done = 0;
    for (const int64_t coordinate : used) {
      if (done == limits_.instances) {
        rows_.push_back(
            {fmt::format("... {} more", static_cast<int64_t>(used.size()) - done), depth, std::nullopt});
        break;
      }
      ++done;
      at[level] = coordinate;
      const bool is_memory = depth + 1 == shown_.size();
      rows_.push_back({fmt::format("{} {}", level_name(level), coordinate), depth,
                       is_memory ? std::optional(at) : std::nullopt});
      if (!is_memory) add_rows(depth + 1, at);
    }
  }

  std::optional<std::vector<int64_t>> element(Coordinates place, int64_t address, int64_t word) const {
    place[Level::kAddress] = address;
    place[Level::kWord] = word;
    return layout_.element(place);
  }
  bool is_padding(const std::vector<int64_t>& index) const {
    for (size_t axis = 0; axis < index.size(); ++axis) {
      if (index[axis] >= lengths_[axis]) return true;
    }
    return false;
  }
  std::string element_text(const Coordinates& place, int64_t address, int64_t word) const {
    const auto index = element(place, address, word);
    if (!index) return "-";
    if (is_padding(*index)) return ".";
    return index->empty() ? "()" : fmt::format("{}", fmt::join(*index, ","));
  }
  std::string colour(const Coordinates& place, int64_t address, int64_t word) const {
    const auto index = element(place, address, word);
    if (!index || is_padding(*index)) return "none";
    const int64_t first = index->empty() ? 0 : index->front();
    const int64_t length = lengths_.empty() ? 1 : std::max<int64_t>(lengths_.front(), 1);
    return fmt::format("hsl({}, 60%, 85%)", first * 360 / length);
  }

  const Layout& layout_;
  const Lengths& lengths_;
  DrawingLimits limits_;
  int64_t words_;
  Footprint size_;
  int64_t columns_ = 0;
  std::vector<Level> shown_;
  std::vector<Row> rows_;
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

std::string draw_svg(const Layout& layout, const Lengths& lengths, int element_bits,
                     const DrawingLimits& limits) {
  check(layout, lengths, element_bits);
  return Drawing(layout, lengths, element_bits, limits).svg(layout.to_string());
}

nlohmann::ordered_json places_json(const Layout& layout, const Lengths& lengths, int element_bits) {
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
