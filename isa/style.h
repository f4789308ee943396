#pragma once

#include <ostream>

/// Colours on a terminal. What they say, the words say, too.
namespace kodama::isa {

enum class Style { kPlain, kHeading, kGood, kBad };

/// Whether a descriptor is a terminal that shows colours, and nobody has asked for none (NO_COLOR).
bool has_colours(int descriptor);
/// From now on Styled has an effect on the stream, whose present buffer takes the terminal's codes. Called
/// before a PrintableStream (isa/terminal.h), which lets no codes through.
void allow_styles(std::ostream& out);

/// While it lives, text on the stream has this style.
class Styled {
 public:
  Styled(std::ostream& out, Style style);
  ~Styled();
  Styled(const Styled&) = delete;
  Styled& operator=(const Styled&) = delete;

 private:
  std::ostream& out_;
};

}  // namespace kodama::isa
