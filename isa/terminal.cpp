#include "isa/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "isa/status_line.h"
#include "isa/style.h"

namespace kodama::isa {
namespace {

struct Character {
  uint32_t code = 0;
  size_t size = 1;
  bool valid = false;
  bool cut = false;  ///< the text ends inside of it
};

Character first_character(std::string_view text) {
  const auto byte = [&](size_t k) { return static_cast<uint8_t>(text[k]); };
  Character found;
  found.code = byte(0);
  if (found.code < 0x80) return {found.code, 1, true, false};
  const size_t size = found.code >= 0xf0 ? 4 : found.code >= 0xe0 ? 3 : 2;
  if (found.code < 0xc2 || found.code > 0xf4) return found;
  uint32_t code = found.code & (0xffU >> (size + 1));
  for (size_t k = 1; k < size; ++k) {
    if (k == text.size()) return {found.code, 1, false, true};
    if ((byte(k) & 0xc0) != 0x80) return found;
    code = code << 6 | (byte(k) & 0x3fU);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code < 0xe000;
  if (code < kSmallest[size] || is_surrogate || code > 0x10ffff) return found;
  return {code, size, true, false};
}

bool is_control(uint32_t code) {
  if (code == '\n' || code == '\t') return false;
  const bool turns = code == 0x61c || (code >= 0x200e && code <= 0x200f) ||
                     (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || turns;
}

void append_printable(std::string& out, std::string_view text) {
  while (!text.empty()) {
    const Character next = first_character(text);
    if (!next.valid) {
      out += fmt::format("\\x{:02x}", next.code);
    } else if (is_control(next.code)) {
      out += fmt::format("\\u{:04x}", next.code);
    } else {
      out += text.substr(0, next.size);
    }
    text.remove_prefix(next.size);
  }
}

}  // namespace

std::optional<size_t> terminal_width() {
  struct winsize size = {};
  if (::isatty(STDOUT_FILENO) == 0 || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return std::nullopt;
  return size.ws_col;
}

bool has_colours(int descriptor) {
  const char* none = std::getenv("NO_COLOR");  // https://no-color.org
  const char* terminal = std::getenv("TERM");
  return ::isatty(descriptor) != 0 && (none == nullptr || *none == '\0') && terminal != nullptr &&
         std::string_view(terminal) != "dumb";
}

namespace {

struct Status {
  std::atomic<bool> was_drawn = false;  ///< once, in this process
  bool is_drawn = false;
  std::timed_mutex mutex;  ///< of the terminal's lines, if anything was drawn
};
Status status;

/// Of a process that was forked while another thread drew, nobody opens the lock: it goes on without.
std::unique_lock<std::timed_mutex> lock_terminal() {
  using namespace std::chrono_literals;
  return {status.mutex, 100ms};
}

/// Empty: nothing. One write, past all streams.
void write_status(const std::string& text) {
  if (text.empty() && !status.is_drawn) return;
  const std::string all = "\r\033[K" + text;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, all.data(), all.size());
  status.is_drawn = !text.empty();
  status.was_drawn = true;
}

/// Where a stream keeps the buffer that takes codes.
int style_slot() {
  static const int slot = std::ios_base::xalloc();
  return slot;
}

void set_style(std::ostream& out, Style style) {
  auto* buffer = static_cast<std::streambuf*>(out.pword(style_slot()));
  if (buffer == nullptr) return;
  constexpr std::string_view kCodes[] = {"\033[0m", "\033[1m", "\033[32m", "\033[1;31m"};
  const std::string_view code = kCodes[static_cast<size_t>(style)];
  out.flush();
  buffer->sputn(code.data(), static_cast<std::streamsize>(code.size()));
}

}  // namespace

void draw_status(const std::string& text) {
  const auto lock = lock_terminal();
  write_status(text);
}

void erase_status() {
  const auto lock = lock_terminal();
  write_status("");
}

void allow_styles(std::ostream& out) {
  out.pword(style_slot()) = out.rdbuf();
}

Styled::Styled(std::ostream& out, Style style) : out_(out) {
  set_style(out_, style);
}

Styled::~Styled() {
  set_style(out_, Style::kPlain);
}

std::string printable(std::string_view text) {
  std::string out;
  append_printable(out, text);
  return out;
}

PrintableStream::~PrintableStream() {
  sync();
  out_.rdbuf(buffer_);
}

PrintableStream::int_type PrintableStream::overflow(int_type character) {
  if (traits_type::eq_int_type(character, traits_type::eof())) return traits_type::not_eof(character);
  const char one = traits_type::to_char_type(character);
  return write({&one, 1}) ? character : traits_type::eof();
}

std::streamsize PrintableStream::xsputn(const char* text, std::streamsize count) {
  return write({text, static_cast<size_t>(count)}) ? count : 0;
}

int PrintableStream::sync() {
  std::string text;
  append_printable(text, std::exchange(rest_, {}));
  return put(text) && note(buffer_->pubsync() == 0) ? 0 : -1;
}

bool PrintableStream::note(bool done) {
  if (!done && error_ == 0) error_ = errno;
  return done;
}

bool PrintableStream::put(std::string_view text) {
  std::unique_lock<std::timed_mutex> lock;
  if (status.was_drawn) {
    lock = lock_terminal();
    write_status("");
  }
  const auto size = static_cast<std::streamsize>(text.size());
  return note(buffer_->sputn(text.data(), size) == size);
}

bool PrintableStream::write(std::string_view text) {
  const bool is_plain =
      std::ranges::all_of(text, [](char c) { return (c >= 0x20 && c < 0x7f) || c == '\n' || c == '\t'; });
  if (rest_.empty() && is_plain) return put(text);
  std::string all = std::exchange(rest_, {});
  all += text;
  // A character may come in two pieces.
  size_t end = all.size();
  for (size_t back = 1; back <= std::min<size_t>(3, all.size()); ++back) {
    if ((static_cast<uint8_t>(all[all.size() - back]) & 0xc0) == 0x80) continue;
    if (first_character(std::string_view(all).substr(all.size() - back)).cut) end = all.size() - back;
    break;
  }
  rest_ = all.substr(end);
  all.resize(end);
  std::string shown;
  append_printable(shown, all);
  return put(shown);
}

}  // namespace kodama::isa
