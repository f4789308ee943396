#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <vector>

#include "assembler/assembler.h"
#include "assembler/checks.h"
#include "assembler/lexer.h"
#include "isa/error.h"
#include "isa/file.h"
#include "isa/terminal.h"
#include "isa/user_errors.h"

namespace kodama::assembler {

using isa::Instruction;
using isa::InstructionInfo;
using isa::IssueGroup;
using isa::Opcode;
using isa::Operand;
using isa::Space;
using isa::Width;

namespace {

/// Operands that are a fixed word. Widths that a space has no use for stay at the default.
struct NamedOperand {
  std::string_view name;
  Space space;
  Width width = Width::kLong;
  int64_t base = 0;
};
constexpr NamedOperand kNamedOperands[] = {
    {"t", Space::kT, Width::kWord},
    {"lt", Space::kT, Width::kLong},
    {"llt", Space::kT, Width::kDoubleLong},
    {"aluf", Space::kAluf},
    {"mauf", Space::kMauf},
    {"lbf", Space::kLbf},
    {"mreadf", Space::kMreadf},
    {"nowrite", Space::kNoWrite},
    {"mb", Space::kBar0, Width::kWord},
    {"lmb", Space::kBar0, Width::kLong},
    {"nb", Space::kBar1, Width::kWord},
    {"lnb", Space::kBar1, Width::kLong},
    {"lbi", Space::kTurnaround, Width::kLong},
    {"llbi", Space::kTurnaround, Width::kDoubleLong},
};

const NamedOperand* find_named(std::string_view name) {
  for (const NamedOperand& entry : kNamedOperands) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

/// Number of edits that turn one word into the other, at least `limit` when it is not below it.
size_t edit_distance(std::string_view a, std::string_view b, size_t limit) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) >= limit) return limit;
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

/// "; did you mean 'x'?" for a word close to a mnemonic, else empty. Among equally close ones the one with
/// the longest common beginning is meant.
std::string suggestion(std::string_view word) {
  constexpr size_t kLongestWord = 24;
  constexpr size_t kFarthest = 2;
  if (word.size() > kLongestWord) return {};
  std::string best;
  std::pair<size_t, size_t> best_score{kFarthest + 1, 0};
  for (const Instruction& candidate : isa::all_mnemonics()) {
    const std::string name = isa::mnemonic(candidate);
    const size_t distance = edit_distance(word, name, best_score.first + 1);
    const auto common =
        std::mismatch(word.begin(), word.end(), name.begin(), name.end()).first - word.begin();
    const std::pair<size_t, size_t> score{distance, word.size() - static_cast<size_t>(common)};
    if (distance < name.size() && distance <= kFarthest && score < best_score) {
      best_score = score;
      best = name;
    }
  }
  return best.empty() ? std::string() : fmt::format("; did you mean '{}'?", best);
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& file_name, const isa::Chip& chip,
         const AssembleOptions& options)
      : text_(text),
        file_name_(file_name),
        chip_(chip),
        options_(options),
        line_(options.first_line - 1),
        recent_(std::clamp(text.size() / kBytesPerRecent, size_t{1}, kRecentLines)) {}

  isa::Program run() {
    isa::Program program;
    program.source_name = file_name_;
    const size_t lines = static_cast<size_t>(std::count(text_.begin(), text_.end(), '\n')) + 1;
    program.statements.reserve(std::min(lines, text_.size() / kBytesPerStatement + 1));
    size_t begin = 0;
    while (begin < text_.size()) {
      size_t end = text_.find('\n', begin);
      if (end == std::string_view::npos) end = text_.size();
      std::string_view line = text_.substr(begin, end - begin);
      begin = end + 1;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line_ == std::numeric_limits<int32_t>::max()) {
        throw isa::UserError(fmt::format("{}: more than {} lines", file_name_, line_));
      }
      ++line_;
      if (!goes_on_after(line, program.statements)) break;
    }
    if (errors_.size() > 1) throw isa::UserErrors(std::move(errors_));
    if (!errors_.empty()) throw isa::UserError(errors_.front());
    return program;
  }

 private:
  /// Long programs repeat lines, most often within the last few thousand; each slot remembers where the
  /// statement of a line already stands, checked.
  static constexpr size_t kRecentLines = size_t{1} << 14;
  /// Short texts get a short table.
  static constexpr size_t kBytesPerRecent = 16;
  /// Room is made in advance for one statement per line, but not for lines shorter than this.
  static constexpr size_t kBytesPerStatement = 16;
  static constexpr size_t kMostErrors = 1000;
  struct Recent {
    std::string_view line;
    size_t statement = 0;
  };

  struct Places {
    const char* word = nullptr;
    size_t first_operand = 0;
  };

  [[noreturn]] void fail(const char* at, const std::string& message) const {
    throw isa::UserError(isa::SourceLocation{file_name_, line_, static_cast<int>(at - line_begin_) + 1},
                         message);
  }

  /// A line can be wrong without making others wrong, so all errors of a text are found. False after `quit`
  /// and after too many errors.
  bool goes_on_after(std::string_view line, std::vector<isa::Statement>& statements) {
    try {
      return parse_line(line, statements);
    } catch (const isa::UserError& error) {
      errors_.emplace_back(error.what());
    } catch (const isa::UnsupportedError&) {
      if (errors_.empty()) throw;
    }
    if (errors_.size() < kMostErrors) return true;
    errors_.push_back(
        fmt::format("{}: {} errors; what follows line {} is not read", file_name_, kMostErrors, line_));
    return false;
  }

  /// False after `quit`.
  bool parse_line(std::string_view line, std::vector<isa::Statement>& statements) {
    line_begin_ = line.data();
    Cursor in{line.data(), line.data() + line.size()};
    in.skip_blanks();
    if (in.at_end()) return true;
    if (in.peek() == '#') {
      parse_comment(in, statements);
      return true;
    }
    Recent& recent = recent_[std::hash<std::string_view>{}(line) % recent_.size()];
    if (recent.line == line && recent.line.data() != nullptr) {
      isa::Statement copy = statements[recent.statement];
      copy.line = line_;
      statements.push_back(std::move(copy));
      return true;
    }
    if (const size_t comment = in.rest().find('#'); comment != std::string_view::npos) {
      in.end = in.position + comment;
    }
    while (in.end > in.position && is_blank(in.end[-1])) --in.end;

    const std::string_view word = peek_word(in);
    // Lines for the host program of a test case.
    if (word == "c" && (in.rest().size() == 1 || is_blank(in.peek(1)))) return true;
    places_.clear();
    operand_places_.clear();
    isa::Statement statement;
    statement.line = line_;
    const char* begin = in.position;
    if (word == "quit") {
      in.position += word.size();
      expect_end(in);
      statement.kind = isa::Quit{};
    } else if (word == "d") {
      begin = parse_debug(in, statement);
    } else if (word == "r") {
      parse_preload(in, statement);
    } else if (word.starts_with("mask")) {
      parse_mask_control(in, statement);
    } else {
      parse_instructions(in, statement);
    }
    if (options_.check) {
      if (auto violation = find_violation(statement, chip_))
        fail(place_of(*violation, begin), violation->message);
    }
    const bool quit = std::holds_alternative<isa::Quit>(statement.kind);
    recent = {line, statements.size()};
    statements.push_back(std::move(statement));
    return !quit;
  }

  const char* place_of(const Violation& violation, const char* statement_begin) const {
    if (violation.instruction < 0 || static_cast<size_t>(violation.instruction) >= places_.size()) {
      return statement_begin;
    }
    const Places& places = places_[violation.instruction];
    const size_t operand = places.first_operand + std::max(violation.operand, 0);
    return violation.operand < 0 || operand >= operand_places_.size() ? places.word
                                                                      : operand_places_[operand];
  }

  static std::string_view peek_word(const Cursor& in) {
    Cursor end = in;
    while (!end.at_boundary()) ++end.position;
    return end.since(in.position);
  }

  void expect_end(Cursor& in) const {
    in.skip_blanks();
    if (!in.at_end())
      fail(in.position, fmt::format("unexpected '{}' after the statement", excerpt(in.rest())));
  }

  // ---- numbers ------------------------------------------------------------------------------------------

  int64_t number(Cursor& in, std::string_view what, int64_t largest = std::numeric_limits<int64_t>::max(),
                 Radix radix = Radix::kAny) const {
    const char* begin = in.position;
    int64_t value = 0;
    const NumberStatus status = read_number(in, value, radix);
    if (status == NumberStatus::kMissing) {
      fail(begin, fmt::format("expected {}, found {}", what, found(in)));
    }
    if (status == NumberStatus::kOverflow && largest == std::numeric_limits<int64_t>::max()) {
      fail(begin, fmt::format("the number {} is too large", excerpt(in.since(begin))));
    }
    if (status == NumberStatus::kOverflow || value > largest) {
      what.remove_prefix(what.find(' ') + 1);  // the article
      fail(begin,
           fmt::format("{} {} is too large; allowed: at most {}", what, excerpt(in.since(begin)), largest));
    }
    return value;
  }

  int64_t address(Cursor& in, std::string_view what,
                  int64_t largest = std::numeric_limits<int64_t>::max()) const {
    return number(in, what, largest, Radix::kDecimalOrHex);
  }

  static std::string found(const Cursor& in) {
    if (in.at_end()) return "the end of the line";
    if (is_blank(in.peek())) return "a blank";
    const std::string_view word = peek_word(in);
    return fmt::format("'{}'", excerpt(word.empty() ? in.rest().substr(0, 1) : word));
  }

  int8_t tag(Cursor& in) const {
    const char* begin = in.position;
    int value = 0;
    while (hex_digit(in.peek()) >= 0 && in.position - begin < 3)
      value = value * 16 + hex_digit(*in.position++);
    if (in.position == begin || value < 1 || value > isa::kMaxTransferTag) {
      fail(begin, fmt::format("'{}' is no tag; allowed: 01 to 3f (hexadecimal)",
                              excerpt(in.position == begin ? peek_word(in) : in.since(begin))));
    }
    return static_cast<int8_t>(value);
  }

  // ---- comments, mask, debug and preload ----------------------------------------------------------------

  void parse_comment(Cursor in, std::vector<isa::Statement>& statements) const {
    in.accept('#');
    in.skip_blanks();
    std::string_view rest = in.rest();
    while (!rest.empty() && is_blank(rest.back())) rest.remove_suffix(1);
    if (rest == "endregion" || rest.starts_with("endregion ")) {
      statements.push_back({isa::RegionMark{false, {}}, line_});
    } else if (rest.starts_with("region ")) {
      rest.remove_prefix(7);
      while (!rest.empty() && is_blank(rest.front())) rest.remove_prefix(1);
      // Names with control characters belong on no terminal; such a comment is just a comment.
      if (!rest.empty() && isa::printable(rest) == rest) {
        statements.push_back({isa::RegionMark{true, std::string(rest)}, line_});
      }
    }
  }

  void parse_mask_control(Cursor& in, isa::Statement& statement) const {
    const char* begin = in.position;
    in.accept("mask");
    isa::MaskControl control;
    if (in.accept('l')) {
      control.explicit_length = true;
      control.double_long = in.accept('l');
    }
    constexpr std::string_view kLetters = "rstmnk";
    while (!in.at_boundary()) {
      const size_t index = kLetters.find(in.peek());
      if (index == std::string_view::npos) {
        fail(in.position, fmt::format("unknown statement '{}'; a mask statement is mask[l|ll] and any of the "
                                      "spaces r s t m n k, then an entry",
                                      excerpt(peek_word({begin, in.end}))));
      }
      const uint8_t bit = static_cast<uint8_t>(1 << index);
      if (control.spaces & bit) fail(in.position, fmt::format("space {} is named twice", in.peek()));
      control.spaces |= bit;
      ++in.position;
    }
    in.skip_blanks();
    control.entry = static_cast<uint8_t>(number(in, "a mask entry", UINT8_MAX));
    expect_end(in);
    statement.kind = control;
  }

  struct DebugPlace {
    Space space = Space::kNone;
    int64_t address = 0;
    std::array<int16_t, 5> place{-1, -1, -1, -1, -1};
  };

  /// `d get` takes words, too, and shows the long words that they lie in.
  DebugPlace parse_debug_place(Cursor& in, bool takes_words) const {
    struct Name {
      std::string_view text;
      Space space;
      bool is_word = false;
    };
    // `$lt` before `$l…`, longer names before their beginnings.
    static constexpr Name kNames[] = {
        {"$omr", Space::kOmr},     {"$lm", Space::kLm0},       {"$ln", Space::kLm1},
        {"$lr", Space::kGrf0},     {"$ls", Space::kGrf1},      {"$lt", Space::kT},
        {"$t", Space::kT},         {"$lb", Space::kL1bm},      {"$lc", Space::kL2bm},
        {"$d", Space::kDram},      {"$p", Space::kPdm},        {"$m", Space::kLm0, true},
        {"$n", Space::kLm1, true}, {"$r", Space::kGrf0, true}, {"$s", Space::kGrf1, true},
    };
    DebugPlace result;
    bool is_word = false;
    const char* begin = in.position;
    for (const Name& name : kNames) {
      if (name.is_word && !takes_words) continue;
      if (in.accept(name.text)) {
        result.space = name.space;
        is_word = name.is_word;
        break;
      }
    }
    if (result.space == Space::kNone) {
      fail(begin,
           fmt::format("expected a place, found {}; allowed: $lm $ln $lr $ls $lt $lb $lc $d $p, for d get "
                       "also $omr $m $n $r $s, with an address and any of n c b m p",
                       found(in)));
    }
    // No 0x or 0b here: `$lm0b1` is address 0 of L1B 1.
    if (result.space != Space::kT || is_digit(in.peek())) {
      result.address = number(in, "an address", std::numeric_limits<int64_t>::max(), Radix::kDecimal);
    }
    if (is_word) result.address -= result.address % isa::kWordsPerLong;
    constexpr std::string_view kLetters = "ncbmp";
    while (!in.at_boundary()) {
      const char* letter = in.position;
      const size_t level = kLetters.find(in.peek());
      if (level == std::string_view::npos) {
        fail(letter, fmt::format("unexpected '{}' in a place; allowed: n c b m p, each with a number",
                                 excerpt(peek_word(in))));
      }
      ++in.position;
      if (result.place[level] >= 0) fail(letter, fmt::format("level {} is given twice", kLetters[level]));
      result.place[level] = static_cast<int16_t>(number(in, "an index", INT16_MAX, Radix::kDecimal));
    }
    return result;
  }

  /// `count` words of 16 hex digits, blanks and a letter l between them allowed.
  std::vector<uint64_t> parse_payload_words(Cursor& in, int64_t count, const char* count_place) const {
    std::vector<uint64_t> payload;
    in.skip_blanks();
    while (!in.at_end()) {
      in.accept('l');
      const char* begin = in.position;
      uint64_t value = 0;
      for (int i = 0; i < 16; ++i, ++in.position) {
        const int digit = hex_digit(in.peek());
        if (digit < 0) fail(begin, "a long word is 16 hexadecimal digits");
        value = value << 4 | static_cast<uint64_t>(digit);
      }
      payload.push_back(value);
      in.skip_blanks();
    }
    if (static_cast<uint64_t>(count) != payload.size()) {
      fail(count_place, fmt::format("the count is {}, but {} LW follow", count, payload.size()));
    }
    return payload;
  }

  /// Returns where the place stands, for messages about it.
  const char* parse_debug(Cursor& in, isa::Statement& statement) const {
    in.accept('d');
    in.skip_blanks();
    const char* begin = in.position;
    const std::string_view verb = peek_word(in);
    if (verb.empty()) fail(begin, fmt::format("expected get or set after d, found {}", found(in)));
    in.position += verb.size();
    in.skip_blanks();
    const char* place_begin = in.position;
    if (verb == "set") {
      isa::DebugSet set;
      const DebugPlace place = parse_debug_place(in, false);
      set.space = place.space;
      set.address = place.address;
      set.place = place.place;
      in.skip_blanks();
      const char* count_place = in.position;
      const int64_t count = number(in, "a number of LW");
      if (!in.at_boundary())
        fail(in.position, fmt::format("unexpected '{}' after the count", excerpt(in.rest())));
      set.payload = parse_payload_words(in, count, count_place);
      statement.kind = std::move(set);
      return place_begin;
    }
    constexpr std::string_view kTypes[] = {"get", "getd", "getf", "geth", "getbd", "getbf", "getbg", "getbh"};
    constexpr char kTypeLetters[] = {0, 'd', 'f', 'h', 'D', 'F', 'G', 'H'};
    const auto* type = std::find(std::begin(kTypes), std::end(kTypes), verb);
    if (type == std::end(kTypes)) {
      fail(begin, fmt::format("unknown debug statement 'd {}'; allowed: d set, d {}", excerpt(verb),
                              fmt::join(kTypes, ", d ")));
    }
    isa::DebugGet get;
    get.type = kTypeLetters[type - std::begin(kTypes)];
    const DebugPlace place = parse_debug_place(in, true);
    std::string_view place_text = in.since(place_begin);
    get.space = place.space;
    get.address = place.address;
    get.place = place.place;
    in.skip_blanks();
    get.count = number(in, "a number of LW");
    expect_end(in);
    // The dump repeats the statement, with $t as $lt.
    const bool short_t = place_text.starts_with("$t");
    if (short_t) place_text.remove_prefix(2);
    get.text = fmt::format("d {} {}{} {}", verb, short_t ? "$lt" : "", place_text, get.count);
    statement.kind = std::move(get);
    return place_begin;
  }

  int64_t hex_number(Cursor& in, std::string_view what, int max_digits) const {
    const char* begin = in.position;
    int64_t value = 0;
    while (hex_digit(in.peek()) >= 0 && in.position - begin < max_digits) {
      value = value << 4 | hex_digit(*in.position++);
    }
    if (in.position == begin || !(in.at_end() || is_blank(in.peek()))) {
      fail(begin, fmt::format("expected {} of up to {} hexadecimal digits, found '{}'", what, max_digits,
                              excerpt(peek_word({begin, in.end}))));
    }
    in.skip_blanks();
    return value;
  }

  void parse_preload(Cursor& in, isa::Statement& statement) const {
    in.accept('r');
    in.skip_blanks();
    isa::DramPreload preload;
    preload.group = static_cast<int>(number(in, "a group", INT16_MAX));
    if (!is_blank(in.peek())) fail(in.position, fmt::format("expected a blank, found {}", found(in)));
    in.skip_blanks();
    preload.address = hex_number(in, "an address", 9);
    const char* count_place = in.position;
    const int64_t count = hex_number(in, "a count", 3);
    preload.payload = parse_payload_words(in, count, count_place);
    statement.kind = std::move(preload);
  }

  // ---- instructions -------------------------------------------------------------------------------------

  void parse_instructions(Cursor& in, isa::Statement& statement) {
    std::vector<isa::Instruction> instructions;
    instructions.reserve(1 + static_cast<size_t>(std::count(in.position, in.end, ';')));
    int64_t nop_count = 0;
    const char* nop_place = nullptr;
    const char* begin = in.position;
    while (true) {
      const char* place = in.position;
      if (peek_word(in) == "nop") {
        if (nop_place != nullptr) fail(place, "nop is given twice; write nop/N for N steps");
        nop_place = place;
        in.position += 3;
        nop_count = 1;
        if (in.accept('/')) {
          nop_count = number(in, "a number of steps");
          if (nop_count == 0) fail(place, "nop/0: a number of steps is at least 1");
        }
        in.skip_blanks();
      } else {
        places_.push_back({place, operand_places_.size()});
        parse_instruction(in, instructions.emplace_back());
      }
      if (in.at_end()) break;
      if (!in.accept(';')) fail(in.position, fmt::format("expected ';' or the end, found {}", found(in)));
      in.skip_blanks();
      if (in.at_end()) break;
    }
    if (nop_place == nullptr) {
      const bool transfer = isa::info(instructions[0].opcode).group == IssueGroup::kMv;
      if (transfer && instructions.size() == 1) {
        statement.kind = isa::Mv{std::move(instructions[0])};
      } else {
        for (size_t i = 0; i < instructions.size(); ++i) {
          if (isa::info(instructions[i].opcode).group == IssueGroup::kMv) {
            fail(places_[i].word, "a transfer is a statement of its own; write it on a line by itself");
          }
        }
        statement.kind = isa::Step{std::move(instructions)};
      }
      return;
    }
    isa::Nop nop{nop_count, 0};
    for (size_t i = 0; i < instructions.size(); ++i) {
      if (instructions[i].opcode != Opcode::kWait) {
        fail(places_[i].word,
             fmt::format("only wait may stand beside nop, not {}", isa::mnemonic(instructions[i])));
      }
      if (i > 0) fail(places_[i].word, "wait is given twice; one tag per step");
      nop.wait_tag = instructions[i].tag;
      if (nop_count != 1) {
        fail(begin, fmt::format("wait stands beside a single nop, not beside nop/{}", nop_count));
      }
    }
    statement.kind = nop;
  }

  void parse_instruction(Cursor& in, Instruction& instruction) {
    const char* begin = in.position;
    const std::string_view word = peek_word(in);
    if (word.empty()) fail(begin, fmt::format("expected an instruction, found {}", found(in)));
    std::optional<Instruction> parsed = isa::parse_mnemonic(word);
    if (!parsed) {
      fail(begin, fmt::format("unknown instruction '{}'{}", excerpt(word), suggestion(word)));
    }
    instruction = std::move(*parsed);
    const InstructionInfo& row = isa::info(instruction.opcode);
    in.position += word.size();
    if (row.group == IssueGroup::kWait) {
      in.skip_blanks();
      if (!in.accept('i'))
        fail(in.position, fmt::format("expected a tag, e.g. wait i01, found {}", found(in)));
      instruction.tag = tag(in);
    } else if (row.group == IssueGroup::kMv) {
      parse_transfer_suffix(in, instruction);
    } else {
      parse_suffixes(in, instruction, row);
    }
    if (!in.at_end() && !is_blank(in.peek()) && in.peek() != ';') {
      fail(in.position, fmt::format("unexpected {} after {}", found(in), isa::mnemonic(instruction)));
    }
    in.skip_blanks();
    instruction.sources.reserve(row.source_count);
    while (!in.at_end() && in.peek() != ';') {
      operand_places_.push_back(in.position);
      const size_t index = instruction.sources.size();
      if (index < row.source_count) {
        Operand& operand = instruction.sources.emplace_back();
        if (row.sources[index] & isa::space_bit(Space::kImmediate)) {
          parse_immediate(in, instruction, operand);
        } else {
          parse_operand(in, operand, row.group);
        }
      } else {
        parse_operand(in, instruction.destinations.emplace_back(), row.group);
      }
      if (!in.at_end() && !is_blank(in.peek()) && in.peek() != ';') {
        fail(in.position, fmt::format("unexpected {} after the operand {}", found(in),
                                      excerpt(in.since(operand_places_.back()))));
      }
      in.skip_blanks();
    }
  }

  void parse_suffixes(Cursor& in, Instruction& instruction, const InstructionInfo& row) const {
    if (in.accept('@')) {
      const bool names_unit = std::ranges::any_of(row.forms, [](const isa::OperandForm& form) {
        return form.movement.rule == isa::Movement::Rule::kOneOf;
      });
      if (row.group == IssueGroup::kL1bm || names_unit) {
        instruction.unit = static_cast<int8_t>(number(in, "a number after @", INT8_MAX));
      } else if (row.group == IssueGroup::kL2bm) {
        parse_set(in, instruction.l1b_set);
      } else {
        fail(in.position - 1, fmt::format("{} takes no @", isa::mnemonic(instruction)));
      }
    }
    if (!row.block_bits.empty() && in.peek() == '/' && is_digit(in.peek(1)) && in.at_boundary(2)) {
      instruction.block_bits = static_cast<int8_t>(in.peek(1) - '0');
      in.position += 2;
    }
    if (in.accept('/')) parse_mask(in, instruction.zero_flush);
  }

  void parse_set(Cursor& in, isa::L1bSet& set) const {
    using Kind = isa::L1bSet::Kind;
    if (in.accept('[')) {
      set.kind = Kind::kList;
      do {
        in.skip_blanks();
        const char* place = in.position;
        const int64_t b = number(in, "an L1B", 31);
        const uint32_t bit = uint32_t{1} << b;
        if (set.list & bit) fail(place, fmt::format("L1B {} is listed twice", b));
        set.list |= bit;
        in.skip_blanks();
      } while (in.accept(','));
      if (!in.accept(']')) fail(in.position, fmt::format("expected ',' or ']', found {}", found(in)));
      return;
    }
    set.kind = Kind::kOne;
    set.k = static_cast<uint8_t>(number(in, "an L1B or a list [..]", UINT8_MAX));
    if (in.accept('/')) {
      set.kind = Kind::kMasked;
      set.ignore_mask = static_cast<uint8_t>(number(in, "a don't-care mask", UINT8_MAX));
    }
  }

  void parse_transfer_suffix(Cursor& in, Instruction& instruction) const {
    if (!in.accept('/')) {
      if (isa::info(instruction.opcode).source_count == 0) return;
      fail(in.position, fmt::format("{0} needs a size in LW, e.g. {0}/n64", isa::mnemonic(instruction)));
    }
    // The options stand in any order, each at most once.
    std::string given;
    const char* begin = in.position;
    while (!in.at_boundary()) {
      const char* place = in.position;
      const auto option = [&](std::string_view letters) {
        if (!in.accept(letters)) return false;
        const char mark = letters == "nd" ? 'd' : letters[0];
        if (given.find(mark) != std::string::npos)
          fail(place, fmt::format("{} is given twice after {}/", letters, isa::mnemonic(instruction)));
        given += mark;
        return true;
      };
      if (option("nd")) {
        instruction.indirect_n = static_cast<int32_t>(number(in, "a number after nd", INT32_MAX));
      } else if (option("n")) {
        instruction.size_lw = number(in, "a size");
      } else if (option("i")) {
        instruction.tag = tag(in);
      } else if (option("p")) {
        instruction.priority = static_cast<int8_t>(number(in, "a priority", 3));
      } else if (given.find('n') == std::string::npos) {
        break;
      } else {
        fail(place, fmt::format("expected n, i, nd or p with its number, e.g. {}/n64i01, found {}",
                                isa::mnemonic(instruction), found(in)));
      }
    }
    if (given.find('n') == std::string::npos) {
      fail(begin, fmt::format("expected the size, e.g. {}/n64, found {}", isa::mnemonic(instruction),
                              found({begin, in.end})));
    }
  }

  void parse_mask(Cursor& in, isa::Mask& mask) const {
    const char* begin = in.position;
    using Kind = isa::Mask::Kind;
    if (in.accept('$')) {
      mask.kind = Kind::kRegister;
      mask.double_long = in.accept("ll");
      if (!mask.double_long) in.accept('l');
      if (!in.accept("imr")) {
        fail(begin, fmt::format("'{}' is no mask; allowed: /1000, /ll1000, /$imr<k>, /$llimr<k>",
                                excerpt(peek_word({begin, in.end}))));
      }
      mask.value = static_cast<uint8_t>(number(in, "a mask entry", UINT8_MAX));
    } else {
      mask.kind = Kind::kPattern;
      mask.double_long = in.accept("ll");
      if (!mask.double_long) in.accept('l');
      for (int cycle = 0; cycle < isa::kCyclesPerStep; ++cycle, ++in.position) {
        if (in.peek() != '0' && in.peek() != '1') {
          fail(begin,
               fmt::format("'{}' is no mask; allowed: four digits 0 or 1, one per cycle (/1000, /ll1000), or "
                           "/$imr<k>, /$llimr<k>",
                           excerpt(peek_word({begin, in.end}))));
        }
        mask.value = static_cast<uint8_t>(mask.value << 1 | (in.peek() - '0'));
      }
    }
    if ((in.peek() == 't' || in.peek() == 'p') && in.at_boundary(1)) mask.length_check = *in.position++;
  }

  void parse_immediate(Cursor& in, Instruction& instruction, Operand& operand) const {
    const char* begin = in.position;
    while (is_lower(in.peek())) ++in.position;
    const std::string_view kind = in.since(begin);
    if (kind.empty() || !in.accept('"')) {
      fail(begin,
           fmt::format("expected a payload, e.g. i\"5\", ui\"0xff\", s\"8\", f\"1.5\" or h\"2.0\", found {}",
                       found({begin, in.end})));
    }
    const size_t length = in.rest().find('"');
    if (length == std::string_view::npos) fail(begin, "the payload has no closing '\"'");
    const std::string_view text = in.rest().substr(0, length);
    in.position += length + 1;
    operand.space = Space::kImmediate;
    std::string error;
    if (!parse_payload(kind, text, instruction, operand.base, error)) fail(begin, error);
  }

  // ---- operands -----------------------------------------------------------------------------------------

  void parse_operand(Cursor& in, Operand& operand, IssueGroup group) const {
    const char* begin = in.position;
    operand.negate = in.accept('-');
    if (!in.accept('$')) {
      fail(begin, fmt::format("expected an operand such as $lm0v, found {}", found({begin, in.end})));
    }
    if (!parse_addressed(in, operand, group)) parse_named(in, operand, begin);
    if ((in.peek() == 'e' || in.peek() == 'r') && in.at_boundary(1)) {
      (in.peek() == 'e' ? operand.extend : operand.reduce) = true;
      ++in.position;
    }
    if (in.peek() == '@') parse_group(in, operand);
    if (in.accept('/')) parse_mask(in, operand.mask);
  }

  /// Operands that are letters and an address. False, with nothing consumed, for any other.
  bool parse_addressed(Cursor& in, Operand& operand, IssueGroup group) const {
    int prefix = 0;
    while (prefix < 2 && in.peek(prefix) == 'l') ++prefix;
    const Width width = prefix == 0 ? Width::kWord : prefix == 1 ? Width::kLong : Width::kDoubleLong;
    const char bank = in.peek(prefix);
    const char next = in.peek(prefix + 1);
    if (bank == 'm' && next == 't') {
      const char after = in.peek(prefix + 2);
      const bool converted = (after == 'e' || after == 'r') && in.at_boundary(prefix + 3);
      if (!is_digit(after) && after != '[' && !converted && !in.at_boundary(prefix + 2)) return false;
      operand.space = Space::kLm0;
      operand.width = width;
      operand.t_indirect = true;
      in.position += prefix + 2;
      if (is_digit(after) || after == '[') parse_per_cycle_address(in, operand);
      return true;
    }
    const bool has_address = is_digit(next) || next == '[';
    auto simple = [&](Space space, std::ptrdiff_t letters, std::string_view what) {
      operand.space = space;
      in.position += letters;
      operand.base = address(in, what);
      return true;
    };
    auto pe_memory = [&](Space space) {
      operand.space = space;
      operand.width = width;
      in.position += prefix + 1;
      parse_per_cycle_address(in, operand);
      return true;
    };
    if ((bank == 'x' || bank == 'y') && prefix > 0 && (has_address || in.at_boundary(prefix + 1))) {
      operand.space = bank == 'x' ? Space::kMatX : Space::kMatY;
      operand.width = width;
      in.position += prefix + 1;
      if (has_address) {
        operand.base = address(in, "a row or column");
      } else if (group == IssueGroup::kMauMwrite || group == IssueGroup::kMauMread) {
        fail(in.position - 1 - prefix - 1, fmt::format("${0}{1} needs a row or column here, e.g. ${0}{1}0",
                                                       prefix == 1 ? "l" : "ll", bank));
      }
      return true;
    }
    if (!has_address) {
      const std::string_view rest = in.rest();
      if (rest.starts_with("omr") && is_digit(in.peek(3))) return simple(Space::kOmr, 3, "a mask entry");
      if (rest.starts_with("dar") && is_digit(in.peek(3))) return simple(Space::kDar, 3, "an entry");
      if (rest.starts_with("di") && is_digit(in.peek(2))) return simple(Space::kDramIndirect, 2, "an entry");
      return false;
    }
    switch (bank) {
      case 'm':
        return pe_memory(Space::kLm0);
      case 'n':
        return pe_memory(Space::kLm1);
      case 'r':
        return pe_memory(Space::kGrf0);
      case 's':
        return pe_memory(Space::kGrf1);
      case 'b':
        if (prefix == 0) return false;
        operand.width = width;
        return simple(Space::kL1bm, prefix + 1, "an address");
      case 'c':
        return prefix == 1 && simple(Space::kL2bm, 2, "an address");
      case 'd':
        return prefix == 0 && simple(Space::kDram, 1, "an address");
      case 'p':
        return prefix == 0 && simple(Space::kPdm, 1, "an address");
      default:
        return false;
    }
  }

  void parse_per_cycle_address(Cursor& in, Operand& operand) const {
    if (in.accept('[')) {
      operand.flat = true;
      for (int cycle = 0; cycle < isa::kCyclesPerStep; ++cycle) {
        in.skip_blanks();
        operand.flat_addresses[cycle] = static_cast<int32_t>(address(in, "an address", INT32_MAX));
        in.skip_blanks();
        const char separator = cycle + 1 < isa::kCyclesPerStep ? ',' : ']';
        if (!in.accept(separator)) {
          fail(in.position, fmt::format("expected '{}', found {}; a list has {} addresses, one per cycle",
                                        separator, found(in), isa::kCyclesPerStep));
        }
      }
    } else {
      operand.base = address(in, "an address");
      if (in.accept('v')) {
        operand.stride = is_digit(in.peek()) ? static_cast<int32_t>(address(in, "a stride", INT32_MAX))
                                             : isa::words(operand.width);
      }
    }
    if (in.accept('j')) operand.j = static_cast<int8_t>(number(in, "a PE after j", INT8_MAX));
  }

  void parse_named(Cursor& in, Operand& operand, const char* begin) const {
    const char* name_begin = in.position;
    while (is_lower(in.peek()) || is_digit(in.peek())) ++in.position;
    auto accept = [&](std::string_view name) {
      if (const NamedOperand* named = find_named(name)) {
        operand.space = named->space;
        operand.width = named->width;
        return true;
      }
      for (int i = 0; i < isa::kFixedConstantCount; ++i) {
        if (name == isa::fixed_constant_name(static_cast<isa::FixedConstant>(i))) {
          operand.space = Space::kConstant;
          operand.base = i;
          return true;
        }
      }
      return false;
    };
    const std::string_view name = in.since(name_begin);
    if (accept(name)) return;
    if ((name.ends_with('e') || name.ends_with('r')) && accept(name.substr(0, name.size() - 1))) {
      --in.position;
      return;
    }
    in.position = begin;
    fail(begin,
         fmt::format("unknown operand '{}'; e.g. $lm0v, $r3, $ls[0,2,4,6], $lmt, $t, $aluf, $lb0, $lc0@0.0, "
                     "$d0@0, $peid, $omr1",
                     excerpt(peek_word(in))));
  }

  void parse_group(Cursor& in, Operand& operand) const {
    const char* begin = in.position;
    in.accept('@');
    const bool l2bm = operand.space == Space::kL2bm;
    const bool grouped = operand.space == Space::kPdm || operand.space == Space::kDram ||
                         operand.space == Space::kDramIndirect;
    if (!l2bm && !grouped) fail(begin, "only $lc, $p, $d and $di take an @");
    if (!l2bm || in.peek() != '.') {
      operand.group = static_cast<int8_t>(number(in, "a group", INT8_MAX));
    }
    if (l2bm) {
      if (!in.accept('.')) {
        fail(begin, "an L2BM place is $lc<a>@<group>.<l2b>, or $lc<a>@.<l2b> for every group");
      }
      operand.unit = static_cast<int8_t>(number(in, "an L2B", INT8_MAX));
    }
  }

  std::string_view text_;
  const std::string& file_name_;
  const isa::Chip& chip_;
  const AssembleOptions& options_;
  int32_t line_;
  const char* line_begin_ = nullptr;
  std::vector<Recent> recent_;
  std::vector<std::string> errors_;
  /// Of the current line, for messages.
  std::vector<Places> places_;
  std::vector<const char*> operand_places_;
};

}  // namespace

isa::Program assemble(std::string_view text, const std::string& file_name, const isa::Chip& chip,
                      const AssembleOptions& options) {
  return Parser(text, file_name, chip, options).run();
}

isa::Program assemble_file(const std::string& path, const isa::Chip& chip, const AssembleOptions& options) {
  return assemble(isa::read_file(path), path, chip, options);
}

}  // namespace kodama::assembler
