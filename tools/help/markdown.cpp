#include "tools/help/markdown.h"

#include <cmark-gfm-core-extensions.h>
#include <cmark-gfm.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>

namespace kodama::tools {
namespace {

/// Characters of a text in UTF-8.
size_t length(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

using Node = std::unique_ptr<cmark_node, decltype(&cmark_node_free)>;

Node parse(std::string_view markdown) {
  cmark_gfm_core_extensions_ensure_registered();
  const std::unique_ptr<cmark_parser, decltype(&cmark_parser_free)> parser(
      cmark_parser_new(CMARK_OPT_DEFAULT), cmark_parser_free);
  cmark_parser_attach_syntax_extension(parser.get(), cmark_find_syntax_extension("table"));
  cmark_parser_feed(parser.get(), markdown.data(), markdown.size());
  return {cmark_parser_finish(parser.get()), cmark_node_free};
}

std::string taken(char* text) {
  const std::unique_ptr<char, decltype(&std::free)> owned(text, std::free);
  return owned.get();
}

/// The words of a cell, in a line.
std::string cell_text(cmark_node* cell) {
  const Node paragraph(cmark_node_new(CMARK_NODE_PARAGRAPH), cmark_node_free);
  while (cmark_node* child = cmark_node_first_child(cell)) cmark_node_append_child(paragraph.get(), child);
  std::string text = taken(cmark_render_plaintext(paragraph.get(), CMARK_OPT_NOBREAKS, 0));
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

using Rows = std::vector<std::vector<std::string>>;

/// Widths of the columns so that a row fits: those that are widest give way, but not below `kLeast`.
std::vector<size_t> fitting_widths(const Rows& rows, size_t width) {
  constexpr size_t kLeast = 8;
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 1);
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], length(row[c]));
  }
  const auto total = [&] {
    return std::accumulate(widths.begin(), widths.end(), size_t{0}) + 2 * (widths.size() - 1);
  };
  while (!widths.empty() && total() > width) {
    const auto widest = std::ranges::max_element(widths);
    if (*widest <= kLeast) break;
    --*widest;
  }
  return widths;
}

/// A table with columns of even width, cells in several lines where they have to.
std::string table_text(const Rows& rows, size_t width) {
  const std::vector<size_t> widths = fitting_widths(rows, width);
  bool any_cut = false;
  std::vector<std::vector<std::string>> shown;  // the lines of a row
  for (const auto& row : rows) {
    std::vector<std::string> lines;
    for (size_t c = 0, left = 0; c < row.size(); left += widths[c] + 2, ++c) {
      const std::vector<std::string> cell = wrapped(row[c], widths[c]);
      lines.resize(std::max(lines.size(), cell.size()));
      for (size_t k = 0; k < cell.size(); ++k) {
        if (cell[k].empty()) continue;
        lines[k].append(left - std::min(left, length(lines[k])), ' ');
        if (left > 0 && !lines[k].ends_with(' ')) lines[k] += ' ';  // behind a word that was too long
        lines[k] += cell[k];
      }
    }
    any_cut |= lines.size() > 1;
    shown.push_back(std::move(lines));
  }
  const bool has_header = std::ranges::any_of(shown.front(), [](const auto& line) { return !line.empty(); });
  const std::string rule(std::accumulate(widths.begin(), widths.end(), 2 * (widths.size() - 1)), '-');
  std::string text;
  for (size_t r = has_header ? 0 : 1; r < shown.size(); ++r) {
    for (const std::string& line : shown[r]) text += line + "\n";
    if (r == 0) text += rule + "\n";
    // Rows of several lines are told apart by an empty one.
    if (r > 0 && any_cut && r + 1 < shown.size()) text += "\n";
  }
  return text;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

bool is_type(cmark_node* node, std::string_view name) {
  return node != nullptr && cmark_node_get_type_string(node) == name;
}

/// The tables become blocks of code; what was code is indented by four.
void lay_out_blocks(cmark_node* parent, size_t width) {
  for (cmark_node* node = cmark_node_first_child(parent); node != nullptr;) {
    cmark_node* next = cmark_node_next(node);
    if (is_type(node, "table")) {
      Rows rows;
      for (cmark_node* row = cmark_node_first_child(node); row != nullptr; row = cmark_node_next(row)) {
        rows.emplace_back();
        for (cmark_node* cell = cmark_node_first_child(row); cell != nullptr; cell = cmark_node_next(cell))
          rows.back().push_back(cell_text(cell));
      }
      cmark_node* block = cmark_node_new(CMARK_NODE_CODE_BLOCK);
      cmark_node_set_literal(block, table_text(rows, width).c_str());
      cmark_node_replace(node, block);
      cmark_node_free(node);
    } else if (cmark_node_get_type(node) == CMARK_NODE_CODE_BLOCK) {
      std::string indented;
      const std::string_view code = cmark_node_get_literal(node);
      for (size_t at = 0; at < code.size();) {
        const size_t end = std::min(code.find('\n', at), code.size());
        if (end > at) indented += "    ";
        indented.append(code.substr(at, end - at)).append("\n");
        at = end + 1;
      }
      cmark_node_set_literal(node, indented.c_str());
    } else {
      lay_out_blocks(node, width);
    }
    node = next;
  }
}

}  // namespace

std::vector<std::string> wrapped(std::string_view text, size_t width) {
  std::vector<std::string> lines(1);
  for (size_t at = 0; at < text.size();) {
    const size_t begin = text.find_first_not_of(' ', at);
    if (begin == std::string_view::npos) break;
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    if (!lines.back().empty() && length(lines.back()) + 1 + length(word) > width) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
    at = end;
  }
  return lines;
}

std::string markdown_text(std::string_view markdown, size_t width) {
  const Node document = parse(markdown);
  lay_out_blocks(document.get(), width);
  return taken(cmark_render_plaintext(document.get(), CMARK_OPT_DEFAULT, static_cast<int>(width)));
}

std::string markdown_man(std::string_view markdown) {
  constexpr size_t kWidth = 64;  // of 80 columns, man leaves these
  const Node document = parse(markdown);
  cmark_node* first = cmark_node_first_child(document.get());
  if (is_type(first, "heading") && cmark_node_get_heading_level(first) == 1) cmark_node_free(first);
  for (cmark_node* node = cmark_node_first_child(document.get()); node != nullptr;
       node = cmark_node_next(node)) {
    if (is_type(node, "heading"))
      cmark_node_set_heading_level(node, std::max(1, cmark_node_get_heading_level(node) - 1));
  }
  lay_out_blocks(document.get(), kWidth);
  std::string man = taken(cmark_render_man(document.get(), CMARK_OPT_DEFAULT, 0));
  // The font for code has another name everywhere; bold is known. A section needs no paragraph of its own.
  replace_all(man, "\n\\f[C]\n", "\n");
  replace_all(man, "\n\\f[]\n", "\n");
  replace_all(man, "\\f[C]", "\\fB");
  replace_all(man, "\\f[]", "\\fR");
  for (size_t at = man.find(".SH\n"); at != std::string::npos; at = man.find(".SH\n", at + 1)) {
    const size_t end = man.find('\n', at + 4);
    if (end != std::string::npos && man.compare(end, 5, "\n.PP\n") == 0) man.erase(end, 4);
  }
  if (man.starts_with(".PP\n")) man.insert(0, ".SH DESCRIPTION\n").erase(16, 4);
  return man;
}

}  // namespace kodama::tools
