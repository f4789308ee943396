#pragma once

#include <bitset>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isa/chip.h"
#include "isa/error.h"
#include "isa/program.h"

/// Machine words: one step as the 292 bits that the chip's sequencer takes.
///
/// What is known of the word was inferred from public pairs of source and assembled text, so every fact has a
/// grade. The field table below says where each field is, what it holds when nobody uses it, and how
/// certain that is; encoding and decoding are written against it.
///
///     std::string text = to_words(program);         // the vendor's `i …` lines
///     isa::Program again = from_words(text, "a.asm", chip);
///
/// What counts as certain is decided value by value:
///
///  * A field graded certain, of which values were seen that its meaning doesn't cover as a whole
///  (increments,
///    lengths, opcodes, mask entries), lists them in WordField::seen; any other value is inferred. For the
///    rest (addresses, enables, negation) every value is certain, as the grade of the field says.
///  * Some values are certain for some instructions only, e.g. mauc.half = 1 for matrix products but not for
///    dvmul and dvfma; the encoder says so where it sets them.
///  * The idle value needs no grade, for that is what all other words hold.
///
/// A statement that needs a field, or a value of a field, which nobody has seen is refused by name
/// (UnsupportedError), unless WordOptions::allow_inferred admits what follows from symmetry; what is unknown
/// is never guessed. One word may set a field once: two instructions that want different values clash, which
/// is where the rules of parallel issue come from. Words that would lose their meaning are refused too: a
/// matrix read is enabled by no field, and some words are the same with and without one.
///
/// Text form: one line per step (`i ` and 292 digits, the first is bit 0), nop/N as N lines, `d get` and `d
/// set` statements as they are, `r` lines as they are; regions and comments vanish, and what follows `quit`
/// does. `c` lines are for the host's program and are skipped when read.
namespace kodama::assembler {

inline constexpr int kWordBits = 292;
/// Bit i is the i-th character of the text form.
using MachineWord = std::bitset<kWordBits>;

enum class Grade : uint8_t {
  kCertain,   ///< seen, and all that is seen agrees
  kInferred,  ///< follows from symmetry, a field's width or a neighbour's values
  kUnknown,
};

/// One field: bits [first, first + width), most significant first.
struct WordField {
  std::string_view name;  ///< group and name: "mauc.src0"
  int first = 0;
  int width = 1;
  int idle = 0;  ///< what it holds when no instruction uses it
  Grade grade = Grade::kUnknown;
  uint32_t seen = 0;  ///< bit v: value v was seen in use; 0 = all values are as certain as the field
};
/// All fields, in the order of their bits, without gaps.
std::vector<WordField> word_fields();

struct WordOptions {
  bool allow_inferred = false;  ///< fields and values of grade kInferred, too
};

/// The word of a step. UnsupportedError naming the instruction and the field, at `where`, for what the grades
/// forbid, and naming both instructions for a clash. Operands must have no loop strides.
MachineWord encode_step(const isa::Step& step, const isa::SourceLocation& where,
                        const WordOptions& options = {});
MachineWord encode_nop();
/// The statement (a step or nop) of a word. UserError at `where` for a word with a field that no instruction
/// explains.
isa::Statement decode_word(const MachineWord& word, const isa::SourceLocation& where);

/// Longest program, in steps and in statements, that is written as words: 5 GB of text.
inline constexpr int64_t kMaxWordLines = int64_t{1} << 24;

/// The whole program, loops unrolled, piece by piece. UnsupportedError for statements without a known form
/// (MV, mask statements, what encode_step refuses) and for programs beyond kMaxWordLines.
void to_words(const isa::Program& program, const std::function<void(std::string_view)>& output,
              const WordOptions& options = {});
std::string to_words(const isa::Program& program, const WordOptions& options = {});
/// Reads the text form; UserError with file, line and column for anything else. The result passes the static
/// checks.
isa::Program from_words(std::string_view text, const std::string& file_name, const isa::Chip& chip);
/// Whether a text looks like the text form (its first line with something on it is an `i ` line, or one that
/// only assembled programs have).
bool looks_like_words(std::string_view text);

}  // namespace kodama::assembler
