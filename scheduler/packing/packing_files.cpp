#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "isa/error.h"
#include "isa/file.h"
#include "scheduler/packing/packing.h"
#include "scheduler/problem/json_fields.h"

namespace kodama::scheduler {
namespace {

struct Field {
  std::string_view text;
  int column = 1;
};

std::vector<Field> fields_of(std::string_view line) {
  std::vector<Field> fields;
  size_t from = 0;
  while (true) {
    const size_t end = std::min(line.find(',', from), line.size());
    size_t first = from, last = end;
    while (first < last && (line[first] == ' ' || line[first] == '\t')) ++first;
    while (first < last && (line[last - 1] == ' ' || line[last - 1] == '\t')) --last;
    fields.push_back({line.substr(first, last - first), static_cast<int>(first) + 1});
    if (end == line.size()) return fields;
    from = end + 1;
  }
}

/// One CSV file; `where` is for messages.
class CsvReader {
 public:
  CsvReader(std::string_view text, std::string file) : text_(text), where_{std::move(file), 0, 0} {}

  PackingProblem read(int64_t capacity) {
    PackingProblem problem;
    problem.name = std::filesystem::path(where_.file).stem().string();
    problem.capacity = capacity;
    while (!text_.empty()) {
      ++where_.line;
      const size_t end = std::min(text_.find('\n'), text_.size());
      std::string_view line = text_.substr(0, end);
      text_.remove_prefix(std::min(end + 1, text_.size()));
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
      if (columns_ == 0) {
        read_header(line);
      } else {
        problem.buffers.push_back(read_buffer(line));
      }
    }
    if (columns_ == 0) {
      ++where_.line;
      fail({"", 1}, "found no header line, allowed: id,lower,upper,size and optional columns");
    }
    return problem;
  }

 private:
  [[noreturn]] void fail(const Field& field, const std::string& message) {
    where_.column = field.column;
    throw isa::UserError(where_, message);
  }

  void read_header(std::string_view line) {
    static const std::map<std::string_view, std::string_view> known = {
        {"id", "id"},        {"buffer", "id"},   {"buffer_id", "id"}, {"lower", "lower"},
        {"start", "lower"},  {"begin", "lower"}, {"upper", "upper"},  {"end", "upper"},
        {"size", "size"},    {"hint", "hint"},   {"gaps", "gaps"},    {"alignment", "alignment"},
        {"offset", "offset"}};
    const std::vector<Field> fields = fields_of(line);
    for (const Field& field : fields) {
      const auto it = known.find(field.text);
      if (it == known.end()) {
        fail(field,
             fmt::format("found column '{}', allowed: id (buffer, buffer_id), lower (start, begin), upper or "
                         "end, size, alignment, hint, gaps, offset",
                         field.text));
      }
      if (!column_.emplace(it->second, columns_++).second) {
        fail(field, fmt::format("found column '{}' twice, allowed: once", it->second));
      }
      if (field.text == "end") inclusive_ = 1;
    }
    for (const std::string_view name : {"id", "lower", "upper", "size"}) {
      if (column_.count(name) == 0) {
        fail(fields.front(),
             fmt::format("found no column '{}', allowed: with id, lower, upper (or end), size", name));
      }
    }
  }

  int64_t number(const Field& field, std::string_view text, int at, std::string_view what) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      fail({text, field.column + at}, fmt::format("found {} '{}', allowed: a whole number", what, text));
    }
    return value;
  }

  PackingBuffer read_buffer(std::string_view line) {
    const std::vector<Field> fields = fields_of(line);
    if (fields.size() != column_.size()) {
      fail(fields.back(),
           fmt::format("found {} fields, allowed: {}, as in the header", fields.size(), column_.size()));
    }
    const auto field = [&](std::string_view name) { return fields[column_.at(name)]; };
    const auto required = [&](std::string_view name) {
      return number(field(name), field(name).text, 0, name);
    };
    const auto optional = [&](std::string_view name) -> std::optional<int64_t> {
      if (column_.count(name) == 0 || field(name).text.empty()) return std::nullopt;
      return required(name);
    };
    PackingBuffer buffer;
    buffer.name = std::string(field("id").text);
    if (buffer.name.empty()) fail(field("id"), "found an empty id, allowed: a name");
    if (!names_.insert(buffer.name).second) {
      fail(field("id"), fmt::format("found id '{}' twice, allowed: once", buffer.name));
    }
    buffer.lower = required("lower");
    buffer.upper = required("upper") + inclusive_;
    buffer.size = required("size");
    buffer.alignment = optional("alignment").value_or(1);
    buffer.hint = optional("hint");
    buffer.fixed_offset = optional("offset");
    if (column_.count("gaps") != 0) buffer.gaps = read_gaps(field("gaps"));
    try {
      check_packing_problem({where_.file, 0, {buffer}});
    } catch (const isa::UserError& error) {
      where_.column = 1;
      std::string message = error.what();
      throw isa::UserError(where_, message.substr(where_.file.size() + 2));
    }
    return buffer;
  }

  std::vector<PackingGap> read_gaps(const Field& field) {
    std::vector<PackingGap> gaps;
    size_t at = 0;
    while (at < field.text.size()) {
      const size_t end = std::min(field.text.find(' ', at), field.text.size());
      if (end > at) gaps.push_back(read_gap(field, field.text.substr(at, end - at), static_cast<int>(at)));
      at = end + 1;
    }
    return gaps;
  }

  PackingGap read_gap(const Field& field, std::string_view text, int at) {
    const size_t window = text.find('@');
    const std::string_view period = text.substr(0, window);
    const size_t dash = period.find('-', 1);
    const size_t colon = window == text.npos ? 0 : text.find(':', window);
    if (dash == text.npos || colon == text.npos) {
      fail({text, field.column + at},
           fmt::format("found gap '{}', allowed: LOWER-UPPER or LOWER-UPPER@FIRST:LAST", text));
    }
    const auto part = [&](size_t from, size_t to) {
      return number(field, text.substr(from, to - from), at + static_cast<int>(from), "gap");
    };
    PackingGap gap;
    gap.lower = part(0, dash);
    gap.upper = part(dash + 1, period.size()) + inclusive_;
    if (window != text.npos) {
      gap.has_window = true;
      gap.window_lower = part(window + 1, colon);
      gap.window_upper = part(colon + 1, text.size());
    }
    return gap;
  }

  std::string_view text_;
  isa::SourceLocation where_;
  int columns_ = 0;
  std::map<std::string_view, int> column_;
  std::set<std::string> names_;
  int64_t inclusive_ = 0;
};

}  // namespace

PackingProblem read_packing_csv(std::string_view text, const std::string& file, int64_t capacity) {
  return CsvReader(text, file).read(capacity);
}

std::string packing_csv(const PackingProblem& problem, const PackingSolution* solution, bool inclusive_end) {
  const auto any = [&](const std::function<bool(const PackingBuffer&)>& has) {
    return std::any_of(problem.buffers.begin(), problem.buffers.end(), has);
  };
  const bool alignment = any([](const PackingBuffer& b) { return b.alignment != 1; });
  const bool hint = any([](const PackingBuffer& b) { return b.hint.has_value(); });
  const bool gaps = any([](const PackingBuffer& b) { return !b.gaps.empty(); });
  const bool fixed = any([](const PackingBuffer& b) { return b.fixed_offset.has_value(); });
  const bool solved = solution != nullptr && !solution->offsets.empty();
  const int64_t less = inclusive_end ? 1 : 0;
  std::string out = fmt::format("id,lower,{},size{}{}{}{}\n", inclusive_end ? "end" : "upper",
                                alignment ? ",alignment" : "", hint ? ",hint" : "", gaps ? ",gaps" : "",
                                solved || fixed ? ",offset" : "");
  const auto optional = [](const std::optional<int64_t>& value) {
    return value ? fmt::format(",{}", *value) : std::string(",");
  };
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const PackingBuffer& b = problem.buffers[i];
    if (b.name.find_first_of(",\r\n") != std::string::npos) {
      throw isa::UserError(fmt::format(
          "{}: found the buffer name '{}', allowed in CSV: no comma, no line break", problem.name, b.name));
    }
    out += fmt::format("{},{},{},{}", b.name, b.lower, b.upper - less, b.size);
    if (alignment) out += fmt::format(",{}", b.alignment);
    if (hint) out += optional(b.hint);
    if (gaps) {
      std::vector<std::string> texts;
      for (const PackingGap& gap : b.gaps) {
        texts.push_back(fmt::format("{}-{}", gap.lower, gap.upper - less));
        if (gap.has_window) texts.back() += fmt::format("@{}:{}", gap.window_lower, gap.window_upper);
      }
      out += fmt::format(",{}", fmt::join(texts, " "));
    }
    if (solved) {
      out += fmt::format(",{}", solution->offsets[i]);
    } else if (fixed) {
      out += optional(b.fixed_offset);
    }
    out += '\n';
  }
  return out;
}

Json packing_json(const PackingProblem& problem) {
  Json out;
  out["name"] = problem.name;
  out["capacity"] = problem.capacity;
  out["buffers"] = Json::array();
  for (const PackingBuffer& b : problem.buffers) {
    Json item = {{"name", b.name}, {"lower", b.lower}, {"upper", b.upper}, {"size", b.size}};
    if (b.alignment != 1) item["alignment"] = b.alignment;
    if (b.fixed_offset) item["offset"] = *b.fixed_offset;
    if (b.hint) item["hint"] = *b.hint;
    for (const PackingGap& gap : b.gaps) {
      Json period = {{"lower", gap.lower}, {"upper", gap.upper}};
      if (gap.has_window) period["window"] = {gap.window_lower, gap.window_upper};
      item["gaps"].push_back(period);
    }
    out["buffers"].push_back(item);
  }
  return out;
}

Json packing_json(const PackingProblem& problem, const PackingSolution& solution) {
  Json out = {{"problem", problem.name},
              {"status", std::string(to_string(solution.status))},
              {"height", solution.height},
              {"capacity", problem.capacity},
              {"lower_bound", solution.lower_bound},
              {"nodes", solution.nodes},
              {"message", solution.message},
              {"offsets", Json::object()}};
  for (size_t i = 0; i < solution.offsets.size(); ++i)
    out["offsets"][problem.buffers[i].name] = solution.offsets[i];
  return out;
}

PackingProblem read_packing_json(std::string_view text, const std::string& file) {
  const Json json = isa::parse_json(text, file);
  const JsonValue root(json, file);
  root.allow({"name", "capacity", "buffers"});
  PackingProblem problem;
  problem.name = root.has("name") ? root.at("name").text() : std::filesystem::path(file).stem().string();
  problem.capacity = root.at("capacity").integer();
  for (const JsonValue& item : root.at("buffers").list()) {
    item.allow({"name", "lower", "upper", "size", "alignment", "offset", "hint", "gaps"});
    PackingBuffer b;
    b.name = item.at("name").text();
    b.lower = item.at("lower").integer();
    b.upper = item.at("upper").integer();
    b.size = item.at("size").integer();
    if (item.has("alignment")) b.alignment = item.at("alignment").integer();
    if (item.has("offset")) b.fixed_offset = item.at("offset").integer();
    if (item.has("hint")) b.hint = item.at("hint").integer();
    item.for_each("gaps", [&](const JsonValue& period) {
      period.allow({"lower", "upper", "window"});
      PackingGap gap;
      gap.lower = period.at("lower").integer();
      gap.upper = period.at("upper").integer();
      if (period.has("window")) {
        const auto window = period.at("window").integers();
        if (window.size() != 2) period.at("window").fail("[first, last] in bytes");
        gap.has_window = true;
        gap.window_lower = window[0];
        gap.window_upper = window[1];
      }
      b.gaps.push_back(gap);
    });
    problem.buffers.push_back(std::move(b));
  }
  PackingProblem named = problem;
  named.name = file;
  check_packing_problem(named);
  return problem;
}

PackingSolution read_packing_solution_json(std::string_view text, const std::string& file,
                                           const PackingProblem& problem) {
  const Json json = isa::parse_json(text, file);
  const JsonValue root(json, file);
  root.allow({"problem", "status", "height", "capacity", "lower_bound", "nodes", "message", "offsets"});
  PackingSolution solution;
  const std::string status = root.at("status").text();
  bool known = false;
  for (const PackingStatus s : {PackingStatus::kSolved, PackingStatus::kInfeasible, PackingStatus::kGaveUp}) {
    if (status != to_string(s)) continue;
    known = true;
    solution.status = s;
  }
  if (!known) root.at("status").fail("solved, infeasible, gave up");
  solution.height = root.at("height").integer();
  solution.lower_bound = root.at("lower_bound").integer();
  if (root.has("nodes")) solution.nodes = root.at("nodes").integer();
  if (root.has("message")) solution.message = root.at("message").text();
  const JsonValue offsets = root.at("offsets");
  std::set<std::string> names;
  for (const PackingBuffer& b : problem.buffers) names.insert(b.name);
  bool any = false;
  offsets.for_each_member([&](const std::string& name, const JsonValue& value) {
    any = true;
    if (!names.contains(name)) {
      throw isa::UserError(
          fmt::format("{}: found no buffer of this name in {}", value.where(), problem.name));
    }
  });
  if (!any && solution.status != PackingStatus::kSolved) return solution;
  for (const PackingBuffer& b : problem.buffers) solution.offsets.push_back(offsets.at(b.name).integer());
  return solution;
}

PackingProblem load_packing(const std::string& path, std::optional<int64_t> capacity) {
  const std::string text = isa::read_file(path);
  const std::filesystem::path name(path);
  if (name.extension() == ".json") {
    PackingProblem problem = read_packing_json(text, path);
    if (capacity) problem.capacity = *capacity;
    return problem;
  }
  if (name.extension() != ".csv") {
    throw isa::UserError(
        fmt::format("{}: found ending '{}', allowed: .csv, .json", path, name.extension().string()));
  }
  if (!capacity) {
    std::string digits = name.stem().extension().string();
    if (!digits.empty()) digits.erase(0, 1);
    int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) {
      throw isa::UserError(fmt::format(
          "{}: found no capacity, allowed: a name like NAME.1048576.csv, or the capacity beside it", path));
    }
    capacity = value;
  }
  return read_packing_csv(text, path, *capacity);
}

}  // namespace kodama::scheduler
