#pragma once

#include <cstddef>
#include <optional>
#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>

/// Text from files on a terminal. Names in models and programs are anybody's; a terminal obeys what is
/// between the letters.
namespace kodama::isa {

/// The text with every control character but line ends and tabs, and every character that changes the
/// direction of writing, as \u001b, and every byte that is no UTF-8 as \x9b.
std::string printable(std::string_view text);

/// Columns of the terminal that standard output is; nothing if it is none, or one that doesn't say.
std::optional<size_t> terminal_width();

/// While it lives, all that goes to the stream gets there as printable() text.
class PrintableStream : public std::streambuf {
 public:
  explicit PrintableStream(std::ostream& out) : out_(out), buffer_(out.rdbuf(this)) {}
  ~PrintableStream() override;
  PrintableStream(const PrintableStream&) = delete;
  PrintableStream& operator=(const PrintableStream&) = delete;

  /// The errno of the first write that failed, 0 if none did. Others may have set errno since.
  int error() const { return error_; }

 protected:
  int_type overflow(int_type character) override;
  std::streamsize xsputn(const char* text, std::streamsize count) override;
  int sync() override;

 private:
  bool write(std::string_view text);
  bool put(std::string_view text);
  /// Remembers the error unless `done`, which it returns.
  bool note(bool done);

  std::ostream& out_;
  std::streambuf* buffer_;
  std::string rest_;  ///< the beginning of a character
  int error_ = 0;
};

}  // namespace kodama::isa
