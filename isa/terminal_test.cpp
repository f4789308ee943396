#include "isa/terminal.h"

#include <gtest/gtest.h>

#include <sstream>

#include "isa/style.h"

namespace kodama::isa {
namespace {

TEST(Terminal, TextCommandsNothing) {
  EXPECT_EQ(printable("a\tb\nc é € 𝄞"), "a\tb\nc é € 𝄞");
  EXPECT_EQ(printable("\x1b[31mred\x1b]0;title\x07"), "\\u001b[31mred\\u001b]0;title\\u0007");
  EXPECT_EQ(printable("a\rb\x7f\b"), "a\\u000db\\u007f\\u0008");
  EXPECT_EQ(printable("\xc2\x9b"
                      "1m"),
            "\\u009b1m");
  EXPECT_EQ(printable("\xe2\x80\xaetxt"), "\\u202etxt");
  // No UTF-8: alone, cut, longer than needed, half of a pair.
  EXPECT_EQ(printable("\x9b \xc3 \xc0\x9b \xed\xa0\x80"), "\\x9b \\xc3 \\xc0\\x9b \\xed\\xa0\\x80");
}

TEST(Terminal, StreamsKeepCharactersThatComeInPieces) {
  std::ostringstream out;
  {
    PrintableStream printable(out);
    out << '\xe2' << '\x82';
    out << "\xac";
    out << "\x1b[0m" << 'x' << 12;
    out << '\xe2';
  }
  EXPECT_EQ(out.str(), "€\\u001b[0mx12\\xe2");
  out << '\x1b';
  EXPECT_EQ(out.str().back(), '\x1b');
}

TEST(Terminal, StylesPassWhereTheyAreAllowed) {
  std::stringbuf buffer;
  std::ostream out(&buffer);
  const auto print = [&] {
    const PrintableStream printable(out);
    {
      const Styled style(out, Style::kBad);
      out << "red\033[32m";
    }
    out << " plain";
  };
  print();
  EXPECT_EQ(buffer.str(), "red\\u001b[32m plain");
  buffer.str("");
  allow_styles(out);
  print();
  EXPECT_EQ(buffer.str(), "\033[1;31mred\\u001b[32m\033[0m plain");
}

}  // namespace
}  // namespace kodama::isa
