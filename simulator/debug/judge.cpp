#include "simulator/debug/judge.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>

#include "assembler/assembler.h"
#include "isa/error.h"
#include "isa/file.h"
#include "isa/number_formats.h"
#include "simulator/debug_text.h"

namespace kodama::simulator {
namespace {

namespace fs = std::filesystem;
using isa::UserError;

constexpr std::string_view kMarker = "YOUR VSM WILL BE INSERTED HERE";

// ---------------------------------------------------------------------------------------------------
// Element types.

enum class Kind : uint8_t { kSigned, kUnsigned, kFloat };
struct ElementType {
  std::string_view name;
  int bits;
  Kind kind;
  isa::FloatFormat format = isa::kDoubleFormat;  ///< kFloat
};
constexpr std::array<ElementType, 9> kTypes{{{"Int", 32, Kind::kSigned},
                                             {"UInt", 32, Kind::kUnsigned},
                                             {"Long", 64, Kind::kSigned},
                                             {"ULong", 64, Kind::kUnsigned},
                                             {"Short", 16, Kind::kSigned},
                                             {"UShort", 16, Kind::kUnsigned},
                                             {"Float", 32, Kind::kFloat, isa::kFloatFormat},
                                             {"Half", 16, Kind::kFloat, isa::kHalfFormat},
                                             {"Double", 64, Kind::kFloat, isa::kDoubleFormat}}};

/// A number of either kind: integers as 64-bit patterns sign-extended from the lane, others as double.
struct Number {
  uint64_t integer = 0;
  double real = 0;
};

double as_double(const Number& number, const ElementType& type) {
  switch (type.kind) {
    case Kind::kSigned:
      return static_cast<double>(static_cast<int64_t>(number.integer));
    case Kind::kUnsigned:
      return static_cast<double>(number.integer);
    default:
      return number.real;
  }
}

Number decode_lane(uint64_t lw, int lane, const ElementType& type) {
  const uint64_t bits = lw << (lane * type.bits) >> (64 - type.bits);
  if (type.kind == Kind::kFloat) return {0, isa::to_double(bits, type.format)};
  if (type.kind == Kind::kUnsigned) return {bits, 0};
  const int unused = 64 - type.bits;
  return {static_cast<uint64_t>(static_cast<int64_t>(bits << unused) >> unused), 0};
}

std::string lane_text(const Number& number, const ElementType& type) {
  switch (type.kind) {
    case Kind::kSigned:
      return fmt::format("{}", static_cast<int64_t>(number.integer));
    case Kind::kUnsigned:
      return fmt::format("{} (0x{:x})", number.integer, number.integer);
    default:
      return fmt::format("{}", number.real);
  }
}

/// The number in `text`; empty when it is none of this type.
std::optional<Number> parse_number(std::string_view text, const ElementType& type) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  const char* begin = text.data();
  const char* end = begin + text.size();
  if (type.kind == Kind::kFloat) {
    double value = 0;
    if (text == "inf" || text == "Infinity") {
      value = std::numeric_limits<double>::infinity();
    } else {
      if (!(text[0] >= '0' && text[0] <= '9') && text[0] != '.') return std::nullopt;
      const auto [stop, error] = std::from_chars(begin, end, value);
      // Beyond the range of double is an infinity or a zero; from_chars leaves the value alone.
      if (stop != end || error != std::errc()) return std::nullopt;
    }
    return Number{0, negative ? -value : value};
  }
  int radix = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) radix = 16;
  if (text.starts_with("0b") || text.starts_with("0B")) radix = 2;
  if (radix != 10) begin += 2;
  uint64_t magnitude = 0;
  const auto [stop, error] = std::from_chars(begin, end, magnitude, radix);
  if (begin == end || stop != end || error != std::errc()) return std::nullopt;
  const uint64_t top = uint64_t{1} << (type.bits - 1);
  const uint64_t largest = type.bits == 64 ? ~uint64_t{0} : (uint64_t{1} << type.bits) - 1;
  if (negative) {
    if (magnitude > top) return std::nullopt;
    const uint64_t value = 0 - magnitude;
    return Number{type.kind == Kind::kUnsigned ? value & largest : value, 0};
  }
  // A pattern of the lane's width may stand for a negative number when it is written as one.
  if (magnitude > (type.kind == Kind::kSigned && radix == 10 ? top - 1 : largest)) return std::nullopt;
  return decode_lane(magnitude << (64 - type.bits), 0, type);
}

bool is_close(const Number& expected, const Number& found, const ElementType& type, double atol,
              double rtol) {
  if (type.kind != Kind::kFloat && expected.integer == found.integer) return true;
  if (type.kind == Kind::kFloat && expected.real == found.real) return true;
  if (atol == 0 && rtol == 0) return false;
  const double e = as_double(expected, type);
  const double difference = std::abs(as_double(found, type) - e);
  if (!std::isfinite(difference)) return false;
  return difference <= atol || difference <= rtol * std::abs(e);
}

// ---------------------------------------------------------------------------------------------------
// Expectations.

struct Expectation {
  const ElementType* type = nullptr;
  std::vector<std::optional<Number>> values;  ///< empty = anything
  std::vector<std::string> words;             ///< as written
  std::vector<std::string> labels;            ///< of `@`
  double atol = 0;
  double rtol = 0;

  size_t lanes() const { return 64 / static_cast<size_t>(type->bits); }
  size_t long_words() const { return (values.size() + lanes() - 1) / lanes(); }
};

class ExpectationParser {
 public:
  ExpectationParser(std::string_view line, size_t at, isa::SourceLocation where)
      : line_(line), at_(at), where_(std::move(where)) {}

  /// From behind "expect=" on.
  Expectation parse() {
    Expectation result;
    const size_t list = at_;
    expect('[', "'[' and a list of values");
    std::vector<size_t> columns;
    skip_blanks();
    if (!accept(']')) {
      do {
        skip_blanks();
        columns.push_back(at_);
        result.words.emplace_back(word());
        if (result.words.back().empty()) fail(at_, "a value");
        skip_blanks();
      } while (accept(','));
      expect(']', "',' or ']'");
    }
    if (result.words.empty()) fail(list, "at least one value");
    skip_blanks();
    expect('/', "'/' and a type");
    skip_blanks();
    const size_t type_at = at_;
    const std::string_view name = word();
    const auto type = std::ranges::find(kTypes, name, &ElementType::name);
    if (type == kTypes.end()) {
      fail(type_at, "a type: Int, UInt, Long, ULong, Short, UShort, Half, Float or Double");
    }
    result.type = &*type;
    for (size_t i = 0; i < result.words.size(); ++i) {
      if (result.words[i] == "_") {
        result.values.emplace_back();
        continue;
      }
      result.values.push_back(parse_number(result.words[i], *type));
      if (!result.values.back()) fail(columns[i], fmt::format("a number of type {}", name));
    }
    for (skip_blanks(); at_ < line_.size(); skip_blanks()) parse_option(result);
    return result;
  }

 private:
  void parse_option(Expectation& result) {
    if (accept('@')) {
      do {
        skip_blanks();
        const size_t begin = at_;
        expect('[', "'[' and an index");
        while (at_ < line_.size() && line_[at_] != ']') ++at_;
        expect(']', "']'");
        result.labels.emplace_back(line_.substr(begin, at_ - begin));
        skip_blanks();
      } while (accept(','));
      return;
    }
    const size_t begin = at_;
    const std::string_view name = word();
    if ((name != "atol" && name != "rtol") || !accept('=')) {
      fail(begin, "'@[index],…', 'atol=' or 'rtol='");
    }
    const size_t value_at = at_;
    const auto value = parse_number(word(), kTypes.back());
    if (!value || !(value->real >= 0)) fail(value_at, "a number that is not negative");
    (name == "atol" ? result.atol : result.rtol) = value->real;
  }

  void skip_blanks() {
    while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r')) ++at_;
  }
  bool accept(char c) {
    if (at_ >= line_.size() || line_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c, const std::string& what) {
    if (!accept(c)) fail(at_, what);
  }
  std::string_view word() {
    const size_t begin = at_;
    while (at_ < line_.size() && std::string_view(" \t\r,]/=@[").find(line_[at_]) == std::string_view::npos)
      ++at_;
    return line_.substr(begin, at_ - begin);
  }
  [[noreturn]] void fail(size_t at, const std::string& allowed) const {
    isa::SourceLocation where = where_;
    where.column = static_cast<int>(at) + 1;
    throw UserError(where, fmt::format("in 'expect': allowed here is {}", allowed));
  }

  std::string_view line_;
  size_t at_;
  isa::SourceLocation where_;
};

// ---------------------------------------------------------------------------------------------------
// Files.

struct TestCase {
  std::string before;  ///< VSM in front of the marker
  std::string after;  ///< VSM behind it, with as many empty lines in front as keep the numbers of lines right
  std::vector<std::pair<int, Expectation>> expectations;  ///< by line
  std::string chip;                                       ///< empty = not named
};

TestCase parse_test_case(std::string_view text, const std::string& name) {
  TestCase result;
  bool behind = false;
  int number = 0;
  while (!text.empty()) {
    const size_t length = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    ++number;
    const size_t comment = line.find('#');
    const std::string_view comment_text = comment == std::string_view::npos ? "" : line.substr(comment);
    if (comment_text.find(kMarker) != std::string_view::npos) {
      if (behind) throw UserError({name, number, 1}, "a second marker for the answer; allowed is one");
      behind = true;
      result.after.assign(static_cast<size_t>(number - 1), '\n');
    }
    std::string& part = behind ? result.after : result.before;
    part.append(line).append("\n");
    if (!behind) {
      const size_t chip = comment_text.find("chip=");
      if (chip == std::string_view::npos || comment_text.find_first_not_of("# \t") != chip) continue;
      std::string_view value = comment_text.substr(chip + 5);
      value = value.substr(0, value.find_first_of(" \t\r"));
      // A test case comes from somebody else, who has no business with the files of this machine.
      if (value.find('/') != std::string_view::npos || value.ends_with(".yaml")) {
        throw UserError({name, number, static_cast<int>(comment + chip) + 1},
                        fmt::format("'chip=' takes the name of a chip, not a file; allowed: {}",
                                    fmt::join(isa::chip_names(), ", ")));
      }
      result.chip = value;
      continue;
    }
    constexpr std::string_view kExpect = "expect=";
    const size_t expect = comment_text.find(kExpect);
    if (expect == std::string_view::npos || comment_text.find_first_not_of("# \t") != expect) continue;
    ExpectationParser parser(line, comment + expect + kExpect.size(), {name, number, 0});
    result.expectations.emplace_back(number, parser.parse());
  }
  if (!behind) {
    throw UserError(
        {name, 0, 0},
        fmt::format("the marker for the answer is missing: a line '# ======= {} ======='", kMarker));
  }
  if (result.expectations.empty()) {
    throw UserError({name, 0, 0}, "nothing is expected: no 'd get' line has a comment '# expect=[…] / TYPE'");
  }
  return result;
}

std::string without_comments(std::string_view answer) {
  std::string result;
  bool comment = false;
  for (const char c : answer) {
    if (c == '\n') comment = false;
    if (c == '#' || c == '!') comment = true;
    if (!comment) result += c;
  }
  return result;
}

/// What counts of an answer.
isa::Program without_debug_statements(isa::Program program, int64_t& dropped) {
  dropped = static_cast<int64_t>(std::erase_if(program.statements, [](const isa::Statement& statement) {
    return std::holds_alternative<isa::DebugGet>(statement.kind) ||
           std::holds_alternative<isa::DebugSet>(statement.kind) ||
           std::holds_alternative<isa::DramPreload>(statement.kind);
  }));
  return program;
}

/// The long words that one `d get` prints, and how it calls their places.
struct Printed {
  size_t total = 0;
  std::vector<uint64_t> values;     ///< the first of them
  std::vector<std::string> places;  ///< of those
};
/// Keeps `wanted` long words: a statement can print a whole DRAM.
Printed printed_by(const isa::DebugGet& get, size_t wanted, const Machine& machine) {
  Printed result;
  debug_get(
      get, machine.chip(),
      [&](isa::Space space, const Place& place, int64_t address) {
        const uint64_t value = machine.read(space, place, address);
        ++result.total;
        if (result.values.size() < wanted) result.values.push_back(value);
        return value;
      },
      [&](const std::string& line) {
        if (result.places.size() == result.values.size()) return;
        // "DEBUG-LM0(n0c0b0m0p0,4):…"
        constexpr size_t kPrefix = std::string_view("DEBUG-").size();
        result.places.push_back(line.substr(kPrefix, line.find("):") + 1 - kPrefix));
      });
  return result;
}

/// What an answer may take.
class Limits {
 public:
  Limits(const JudgeOptions& options, std::string name) : options_(options), name_(std::move(name)) {}

  void check_steps(int64_t found, const char* what) const {
    if (options_.most_steps > 0 && found > options_.most_steps)
      throw UserError(fmt::format("{}: {} {}; the limit is {}", name_, found, what, options_.most_steps));
  }
  void check_time() const {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start_;
    if (options_.most_seconds > 0 && taken.count() > options_.most_seconds)
      throw UserError(fmt::format("{}: runs for more than {:g} s, the limit", name_, options_.most_seconds));
  }

 private:
  const JudgeOptions& options_;
  std::string name_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void compare(const Expectation& expectation, const Printed& printed, int line, const std::string& name,
             Verdict& verdict) {
  const ElementType& type = *expectation.type;
  const size_t lanes = expectation.lanes();
  if (expectation.values.size() > printed.total * lanes) {
    throw UserError({name, line, 0},
                    fmt::format("{} values are expected, but the statement prints {} of type {}",
                                expectation.values.size(), printed.total * lanes, type.name));
  }
  for (size_t i = 0; i < expectation.values.size(); ++i) {
    if (!expectation.values[i]) continue;
    ++verdict.values;
    const Number found = decode_lane(printed.values[i / lanes], static_cast<int>(i % lanes), type);
    if (is_close(*expectation.values[i], found, type, expectation.atol, expectation.rtol)) continue;
    std::string place = printed.places[i / lanes];
    if (lanes > 1) place += fmt::format(" lane {}", i % lanes);
    if (i < expectation.labels.size()) place += " " + expectation.labels[i];
    verdict.differences.push_back({line, std::move(place), expectation.words[i], lane_text(found, type)});
  }
}

}  // namespace

Verdict judge(std::string_view test_case, const std::string& test_name, std::string_view answer,
              const std::string& answer_name, const JudgeOptions& options) {
  const TestCase test = parse_test_case(test_case, test_name);
  const isa::Chip chip = isa::find_chip(test.chip.empty() ? options.chip : test.chip);
  const std::string code = without_comments(answer);
  const Limits limits(options, answer_name);
  // A statement takes a line at least; what has more lines need not be read.
  limits.check_steps(std::ranges::count(code, '\n'), "lines");

  Verdict verdict;
  verdict.bytes = static_cast<int64_t>(code.size());
  const isa::Program before = assembler::assemble(test.before, test_name, chip);
  const isa::Program solution =
      without_debug_statements(assembler::assemble(code, answer_name, chip), verdict.dropped);
  isa::Program after = assembler::assemble(test.after, test_name, chip);
  const isa::ProgramCounts counts = isa::count(solution);
  verdict.steps = counts.steps;
  verdict.transfers = counts.mvs;
  limits.check_steps(verdict.lines(), "steps and transfers");

  MachineOptions machine_options = options.machine;
  machine_options.most_dram_bytes = options.most_bytes;
  Machine machine(chip, machine_options);
  RunOptions untimed;
  untimed.timing = false;
  machine.run(before, untimed);
  RunOptions of_answer = untimed;
  of_answer.hazards = options.hazards;
  of_answer.timing = options.hazards == Hazards::kStall;
  of_answer.progress = [&](int64_t) { limits.check_time(); };
  machine.run(solution, of_answer);
  // Statements between two `d get` run together; a block mask, of which there is one at a time, goes on.
  std::set<int> answered;
  isa::Program stretch;
  stretch.source_name = after.source_name;
  std::optional<isa::Statement> mask;
  const auto run_stretch = [&] {
    if (stretch.statements.empty()) return;
    machine.run(stretch, untimed);
    stretch.statements.clear();
  };
  for (isa::Statement& statement : after.statements) {
    if (const auto* get = std::get_if<isa::DebugGet>(&statement.kind)) {
      run_stretch();
      const auto expectation =
          std::ranges::find(test.expectations, statement.line, &std::pair<int, Expectation>::first);
      if (expectation == test.expectations.end()) continue;
      answered.insert(statement.line);
      const Printed printed = printed_by(*get, expectation->second.long_words(), machine);
      compare(expectation->second, printed, statement.line, test_name, verdict);
      continue;
    }
    if (std::holds_alternative<isa::MaskControl>(statement.kind)) {
      mask = statement;
    } else if (stretch.statements.empty() && mask) {
      stretch.statements.push_back(*mask);
    }
    stretch.statements.push_back(std::move(statement));
  }
  run_stretch();
  for (const auto& [line, expectation] : test.expectations) {
    if (!answered.contains(line)) {
      throw UserError({test_name, line, 0}, "'expect' belongs to a 'd get' statement on its line");
    }
  }
  verdict.accepted = verdict.differences.empty();
  return verdict;
}

Verdict judge_files(const std::string& test_case, const std::string& answer, const JudgeOptions& options) {
  return judge(isa::read_file(test_case), test_case, isa::read_file(answer), answer, options);
}

std::string verdict_text(const Verdict& verdict, size_t max_differences) {
  std::string text;
  for (size_t i = 0; i < std::min(verdict.differences.size(), max_differences); ++i) {
    const JudgeDifference& difference = verdict.differences[i];
    text += fmt::format("line {}: {}: expected {}, found {}\n", difference.line, difference.place,
                        difference.expected, difference.found);
  }
  if (verdict.differences.size() > max_differences) {
    text += fmt::format("… and {} more differences\n", verdict.differences.size() - max_differences);
  }
  text += verdict.accepted ? fmt::format("ACCEPTED: {} values\n", verdict.values)
                           : fmt::format("WRONG ANSWER: {} of {} values differ\n", verdict.differences.size(),
                                         verdict.values);
  text += fmt::format("lines: {} ({} steps, {} transfers), {} bytes\n", verdict.lines(), verdict.steps,
                      verdict.transfers, verdict.bytes);
  if (verdict.dropped > 0)
    text += fmt::format("{} debug statements of the answer were dropped\n", verdict.dropped);
  return text;
}

std::vector<ProblemResult> judge_tree(const std::string& directory, const JudgeOptions& options) {
  std::error_code error;
  std::set<fs::path> problems;
  for (fs::recursive_directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename() == "answer.vsm") problems.insert(it->path().parent_path());
  }
  if (error) throw UserError(fmt::format("{}: can't be read: {}", directory, error.message()));
  if (problems.empty())
    throw UserError(directory + ": holds no problem, which is a directory with an answer.vsm");

  std::vector<ProblemResult> results;
  for (const fs::path& problem : problems) {
    ProblemResult result;
    result.name = problem.lexically_relative(directory).string();
    const auto start = std::chrono::steady_clock::now();
    std::set<fs::path> tests;
    for (const auto& entry : fs::directory_iterator(problem)) {
      if (entry.path().extension() == ".vsm" && entry.path().filename() != "answer.vsm")
        tests.insert(entry.path());
    }
    if (tests.empty()) {
      result.error = true;
      result.message = problem.string() + ": has no test case";
    }
    for (const fs::path& test : tests) {
      ++result.tests;
      try {
        const Verdict verdict = judge_files(test.string(), (problem / "answer.vsm").string(), options);
        result.lines = verdict.lines();
        if (verdict.accepted) {
          ++result.passed;
        } else {
          result.message += fmt::format("{}: {}", test.string(), verdict_text(verdict, 3));
        }
      } catch (const isa::InternalError&) {
        throw;
      } catch (const isa::Error& problem_error) {
        result.error = true;
        result.message += fmt::format("{}\n", problem_error.what());
      }
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    result.seconds = seconds.count();
    results.push_back(std::move(result));
  }
  return results;
}

std::string judge_table(const std::vector<ProblemResult>& results) {
  size_t width = std::string_view("problem").size();
  for (const ProblemResult& result : results) width = std::max(width, result.name.size());
  std::string text = fmt::format("{:<{}}  {:<8} {:>7} {:>8} {:>8}\n", "problem", width, "verdict", "tests",
                                 "lines", "seconds");
  int passed = 0;
  int failed = 0;
  int errors = 0;
  double seconds = 0;
  for (const ProblemResult& result : results) {
    const bool ok = !result.error && result.passed == result.tests;
    (ok ? passed : result.error ? errors : failed) += 1;
    seconds += result.seconds;
    text += fmt::format("{:<{}}  {:<8} {:>3}/{:<3} {:>8} {:>8.2f}\n", result.name, width,
                        ok             ? "passed"
                        : result.error ? "error"
                                       : "failed",
                        result.passed, result.tests, result.lines, result.seconds);
    if (!ok) text += "  " + result.message + (result.message.ends_with('\n') ? "" : "\n");
  }
  text += fmt::format("{} problems: {} passed, {} failed, {} errors, {:.2f} s\n", results.size(), passed,
                      failed, errors, seconds);
  return text;
}

}  // namespace kodama::simulator
