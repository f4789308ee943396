#include "simulator/debug/debugger.h"

#include <algorithm>
#include <charconv>
#include <istream>
#include <ostream>
#include <set>
#include <sstream>

#include "assembler/assembler.h"
#include "isa/error.h"
#include "simulator/debug_text.h"

namespace kodama::simulator {
namespace {

using isa::Space;
using isa::UserError;

/// Places that `d get` doesn't know.
constexpr std::pair<std::string_view, Space> kOtherSpaces[] = {
    {"$aluf", Space::kAluf},      {"$mauf", Space::kMauf}, {"$lbf", Space::kLbf}, {"$mreadf", Space::kMreadf},
    {"$lbi", Space::kTurnaround}, {"$mb", Space::kBar0},   {"$nb", Space::kBar1}, {"$lx", Space::kMatX},
    {"$ly", Space::kMatY},        {"$dar", Space::kDar}};

/// One of them with its address and place: "$lx4n0c0b0m3", "$aluf", … (an omitted index means all).
std::optional<isa::DebugGet> parse_other_space(std::string_view text, const isa::Chip& chip) {
  const auto row = std::ranges::find_if(kOtherSpaces, [&](const auto& other) {
    return text.starts_with(other.first) &&
           (text.size() == other.first.size() ||
            !std::isalpha(static_cast<unsigned char>(text[other.first.size()])) ||
            std::string_view("ncbmp").find(text[other.first.size()]) != std::string_view::npos);
  });
  if (row == std::end(kOtherSpaces)) return std::nullopt;
  isa::DebugGet get;
  get.text = std::string(text);
  get.space = row->second;
  size_t at = row->first.size();
  const auto number = [&](int64_t limit) {
    int64_t value = 0;
    if (at >= text.size() || std::isdigit(static_cast<unsigned char>(text[at])) == 0)
      throw UserError(fmt::format("{}: a number is missing at character {}", text, at + 1));
    for (; at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0; ++at) {
      value = value * 10 + (text[at] - '0');
      if (value >= limit)
        throw UserError(fmt::format("{}: a number is too large; allowed are 0 to {}", text, limit - 1));
    }
    return value;
  };
  if (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0)
    get.address = number(space_size(get.space, chip));
  constexpr std::string_view kLevels = "ncbmp";
  while (at < text.size()) {
    const size_t level = kLevels.find(text[at]);
    if (level == std::string_view::npos || level >= static_cast<size_t>(space_levels(get.space)))
      throw UserError(fmt::format("{}: unexpected '{}'", text, text[at]));
    ++at;
    get.place[level] = static_cast<int16_t>(number(4096));
  }
  return get;
}

class Session {
 public:
  Session(const isa::Program& program, const isa::Chip& chip, const DebuggerOptions& options,
          std::istream& in, std::ostream& out)
      : program_(program), options_(options), in_(in), out_(out), machine_(chip, options.machine) {
    std::istringstream source(options.source);
    for (std::string line; std::getline(source, line);) source_.push_back(line);
    find_lines(program.statements);
    for (int line : options.breakpoints) add_breakpoint(line);
    for (const std::string& place : options.watches) add_watch(place);
    if (options.stop_at_start) remaining_ = 0;
  }

  void run() {
    RunOptions run;
    run.dump = [&](const std::string& line) { out_ << line << '\n'; };
    run.before_statement = [&](const isa::Statement& statement) { return before(statement); };
    RunStats stats;
    try {
      stats = machine_.run(program_, run);
    } catch (const UserError& error) {
      out_ << "error: " << error.what() << '\n';
      ended_ = true;
    }
    if (quit_) return;
    current_ = nullptr;
    report_watches();
    if (!ended_)
      out_ << fmt::format("the program has ended: {} steps, {} cycles\n", stats.steps, stats.cycles());
    ended_ = true;
    read_commands();
  }

 private:
  struct Command {
    const char* name;
    const char* abbreviation;
    const char* arguments;
    const char* help;
    /// True: the program goes on.
    bool (Session::*run)(std::istringstream& arguments);
  };
  static const std::vector<Command>& commands();

  bool before(const isa::Statement& statement) {
    current_ = &statement;
    const bool changed = report_watches();
    const bool at_breakpoint = statement.line != 0 && breakpoints_.contains(statement.line) && !resuming_;
    resuming_ = false;
    if (changed || at_breakpoint || remaining_ == 0) {
      if (at_breakpoint) out_ << fmt::format("breakpoint at line {}\n", statement.line);
      show_current();
      read_commands();
      if (quit_) return false;
    }
    if (remaining_ > 0) --remaining_;
    count(statement);
    return true;
  }

  void count(const isa::Statement& statement) {
    if (std::holds_alternative<isa::Step>(statement.kind)) ++steps_;
    if (const auto* nop = std::get_if<isa::Nop>(&statement.kind)) steps_ += nop->count;
  }

  void show_current() {
    out_ << fmt::format("{}: {}\n", current_->line, assembler::print_statement(*current_));
  }

  void read_commands() {
    for (;;) {
      if (options_.prompt) out_ << "> " << std::flush;
      std::string line;
      if (!std::getline(in_, line)) {
        quit_ = true;
        return;
      }
      std::istringstream words(line);
      std::string name;
      if (!(words >> name) || name[0] == '#') continue;
      const auto command = std::ranges::find_if(commands(), [&](const Command& candidate) {
        return name == candidate.name || name == candidate.abbreviation;
      });
      try {
        if (command == commands().end())
          throw UserError(fmt::format("no command '{}'; 'help' lists them", name));
        if ((this->*command->run)(words)) return;
      } catch (const UserError& error) {
        out_ << "error: " << error.what() << '\n';
      } catch (const isa::UnsupportedError& error) {
        out_ << "not supported: " << error.what() << '\n';
      }
      if (quit_) return;
    }
  }

  // --- places -----------------------------------------------------------------------------------------

  isa::DebugGet parse_get(const std::string& place, const std::string& type, int64_t count) const {
    if (auto other = parse_other_space(place, machine_.chip())) {
      const int64_t size = space_size(other->space, machine_.chip());
      if (count > size - other->address)
        throw UserError(fmt::format("{}: {} of it end at {}", place, count, size));
      other->count = count;
      if (type.size() > 1 ||
          (type.size() == 1 && std::string_view("dfh").find(type[0]) == std::string_view::npos))
        throw UserError(fmt::format("type '{}'; allowed are d, f, h", type));
      if (!type.empty()) other->type = type[0];
      return *other;
    }
    // Statements of the language: the assembler knows them.
    const isa::Program program =
        assembler::assemble(fmt::format("d get{} {} {}\n", type, place, count), "place", machine_.chip());
    if (program.statements.size() != 1 || !std::holds_alternative<isa::DebugGet>(program.statements[0].kind))
      throw UserError(fmt::format("'{}' is no place; allowed is for example $lm0n0c0b0m0p0", place));
    return std::get<isa::DebugGet>(program.statements[0].kind);
  }
  /// Calls visit(line without the statement's text, value) for each long word.
  template <typename Visit>
  void for_each_value(const isa::DebugGet& get, Visit&& visit) const {
    uint64_t value = 0;
    debug_get(
        get, machine_.chip(),
        [&](Space space, const Place& place, int64_t address) {
          return value = machine_.read(space, place, address);
        },
        [&](const std::string& line) { visit(line.substr(6, line.rfind(" #") - 6), value); });
  }

  void add_breakpoint(int line) {
    if (lines_.empty()) throw UserError("the program has no statements to stop at");
    const auto next = lines_.lower_bound(line);
    if (next == lines_.end() || *next != line) {
      throw UserError(fmt::format("line {} has no statement to stop at; the {} one is in line {}", line,
                                  next == lines_.end() ? "last" : "next",
                                  next == lines_.end() ? *lines_.rbegin() : *next));
    }
    breakpoints_.insert(line);
  }
  void find_lines(const std::vector<isa::Statement>& statements) {
    for (const isa::Statement& statement : statements) {
      if (statement.line > 0) lines_.insert(statement.line);
      if (const auto* loop = std::get_if<isa::Loop>(&statement.kind)) find_lines(loop->body);
    }
  }
  void add_watch(const std::string& place) {
    Watch watch{place, parse_get(place, "", 1), {}};
    watch.values = values_of(watch.get);
    watches_.push_back(std::move(watch));
  }
  std::vector<std::pair<std::string, uint64_t>> values_of(const isa::DebugGet& get) const {
    std::vector<std::pair<std::string, uint64_t>> values;
    for_each_value(get, [&](const std::string& text, uint64_t value) { values.emplace_back(text, value); });
    return values;
  }
  /// Prints what has changed; returns whether something has.
  bool report_watches() {
    bool changed = false;
    for (Watch& watch : watches_) {
      auto now = values_of(watch.get);
      for (size_t i = 0; i < now.size(); ++i) {
        if (now[i].second == watch.values[i].second) continue;
        changed = true;
        out_ << fmt::format("changed: {}\n    was: {}\n", now[i].first, watch.values[i].first);
      }
      watch.values = std::move(now);
    }
    return changed;
  }

  // --- commands ---------------------------------------------------------------------------------------

  int64_t number(std::istringstream& arguments, int64_t absent) const {
    std::string text;
    if (!(arguments >> text)) return absent;
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || stop != text.data() + text.size() || value < 1)
      throw UserError(fmt::format("'{}'; allowed is a number from 1 on", text));
    return value;
  }
  void require_running() const {
    if (ended_) throw UserError("the program has ended");
  }
  static std::string word(std::istringstream& arguments, const char* what) {
    std::string text;
    if (!(arguments >> text)) throw UserError(fmt::format("{} is missing", what));
    return text;
  }

  bool step(std::istringstream& arguments) {
    const int64_t count = number(arguments, 1);
    require_running();
    remaining_ = count;
    resuming_ = true;
    return true;
  }
  bool go_on(std::istringstream&) {
    require_running();
    remaining_ = -1;
    resuming_ = false;
    return true;
  }
  bool set_breakpoint(std::istringstream& arguments) {
    add_breakpoint(static_cast<int>(std::min<int64_t>(number(arguments, 0), 1 << 30)));
    return false;
  }
  bool delete_breakpoint(std::istringstream& arguments) {
    const int64_t line = number(arguments, 0);
    if (breakpoints_.erase(static_cast<int>(std::min<int64_t>(line, 1 << 30))) == 0)
      throw UserError(fmt::format("there is no breakpoint at line {}", line));
    return false;
  }
  bool set_watch(std::istringstream& arguments) {
    add_watch(word(arguments, "the place"));
    return false;
  }
  bool delete_watch(std::istringstream& arguments) {
    const std::string place = word(arguments, "the place");
    if (std::erase_if(watches_, [&](const Watch& watch) { return watch.place == place; }) == 0)
      throw UserError(fmt::format("'{}' is not watched", place));
    return false;
  }
  bool print(std::istringstream& arguments) {
    const std::string place = word(arguments, "the place");
    std::string type;
    int64_t count = 1;
    std::string next;
    if (arguments >> next && std::isdigit(static_cast<unsigned char>(next[0])) == 0) {
      type = next;
      next.clear();
      arguments >> next;
    }
    if (!next.empty()) {
      std::istringstream rest(next);
      count = number(rest, 1);
    }
    for_each_value(parse_get(place, type, count),
                   [&](const std::string& text, uint64_t) { out_ << text << '\n'; });
    return false;
  }
  bool set(std::istringstream& arguments) {
    const std::string place = word(arguments, "the place");
    const std::string digits = word(arguments, "the value");
    const size_t count = std::max<size_t>(1, (digits.size() + 15) / 16);
    const std::string padded = std::string(count * 16 - digits.size(), '0') + digits;
    const isa::Program program =
        assembler::assemble(fmt::format("d set {} {} {}\n", place, count, padded), "place", machine_.chip());
    if (program.statements.size() != 1 || !std::holds_alternative<isa::DebugSet>(program.statements[0].kind))
      throw UserError(fmt::format("'{}' is no place; allowed is for example $lm0n0c0b0m0p0", place));
    debug_set(std::get<isa::DebugSet>(program.statements[0].kind), machine_.chip(),
              [&](Space space, const Place& at, int64_t address, uint64_t value) {
                machine_.write(space, at, address, value);
              });
    // What the user does is no news.
    for (Watch& watch : watches_) watch.values = values_of(watch.get);
    return false;
  }
  bool list(std::istringstream& arguments) {
    const int64_t line = number(arguments, current_ != nullptr && current_->line > 0 ? current_->line : 1);
    if (source_.empty()) throw UserError("the program's text is not known");
    constexpr int64_t kAround = 5;
    for (int64_t i = std::max<int64_t>(1, line - kAround);
         i <= std::min<int64_t>(static_cast<int64_t>(source_.size()), line + kAround); ++i) {
      const bool here = current_ != nullptr && current_->line == i;
      const bool stops = breakpoints_.contains(static_cast<int>(i));
      out_ << fmt::format("{}{}{:>5}  {}\n", here ? '>' : ' ', stops ? '*' : ' ', i,
                          source_[static_cast<size_t>(i - 1)]);
    }
    return false;
  }
  bool info(std::istringstream&) {
    out_ << fmt::format("steps so far: {}\nbreakpoints: {}\n", steps_,
                        breakpoints_.empty() ? "none" : fmt::format("{}", fmt::join(breakpoints_, ", ")));
    for (const Watch& watch : watches_) {
      for (const auto& [text, value] : watch.values) out_ << fmt::format("watched: {}\n", text);
    }
    return false;
  }
  bool where(std::istringstream&) {
    require_running();
    show_current();
    return false;
  }
  bool help(std::istringstream&) {
    for (const Command& command : commands()) {
      out_ << fmt::format("{:<9} {:<2} {:<20} {}\n", command.name, command.abbreviation, command.arguments,
                          command.help);
    }
    return false;
  }
  bool quit(std::istringstream&) {
    quit_ = true;
    return true;
  }

  struct Watch {
    std::string place;
    isa::DebugGet get;
    std::vector<std::pair<std::string, uint64_t>> values;  ///< as text and as bits
  };

  const isa::Program& program_;
  const DebuggerOptions& options_;
  std::istream& in_;
  std::ostream& out_;
  Machine machine_;
  std::vector<std::string> source_;
  std::set<int> lines_;  ///< of statements
  std::set<int> breakpoints_;
  std::vector<Watch> watches_;
  const isa::Statement* current_ = nullptr;
  int64_t remaining_ = -1;  ///< statements to run before the next stop; -1 = no stop
  bool resuming_ = false;   ///< the stop was before this statement already
  int64_t steps_ = 0;
  bool ended_ = false;
  bool quit_ = false;
};

const std::vector<Session::Command>& Session::commands() {
  static const std::vector<Command> commands = {
      {"step", "s", "[N]", "run N statements (1)", &Session::step},
      {"continue", "c", "", "run to the next stop", &Session::go_on},
      {"break", "b", "LINE", "stop before this line", &Session::set_breakpoint},
      {"delete", "d", "LINE", "remove a breakpoint", &Session::delete_breakpoint},
      {"watch", "w", "PLACE", "stop when a long word changes", &Session::set_watch},
      {"unwatch", "", "PLACE", "watch it no longer", &Session::delete_watch},
      {"print", "p", "PLACE [TYPE] [COUNT]",
       "long words, as 'd get' prints them; TYPE: d, f, h, bd, bf, bg, bh; also $aluf "
       "$mauf $lbf $mreadf $lbi $mb $nb $lx $ly $dar",
       &Session::print},
      {"set", "", "PLACE HEX", "write long words", &Session::set},
      {"list", "l", "[LINE]", "the source around a line (the current one)", &Session::list},
      {"info", "i", "", "steps so far, breakpoints, watches", &Session::info},
      {"where", "", "", "the next statement", &Session::where},
      {"help", "h", "", "this list", &Session::help},
      {"quit", "q", "", "end the session", &Session::quit},
  };
  return commands;
}

}  // namespace

void debug_program(const isa::Program& program, const isa::Chip& chip, const DebuggerOptions& options,
                   std::istream& in, std::ostream& out) {
  Session(program, chip, options, in, out).run();
}

}  // namespace kodama::simulator
