/// Any text, or any bits, to the disassembler. What it reads it can write again, bit for bit.
#include "assembler/assembler.h"
#include "assembler/machine_words.h"
#include "testsuite/fuzz/fuzz_target.h"

namespace kodama::fuzz {
namespace {

/// Each 37 bytes as a line of 292 digits, so that the fuzzer need not find lines of that length. The first
/// bits stand for what differs from a nop, which most bits of most words don't.
std::string lines_of_bits(std::string_view input) {
  constexpr size_t kBytes = isa::kInstructionBytes;
  std::string text;
  for (; input.size() >= kBytes; input.remove_prefix(kBytes)) {
    assembler::MachineWord word = assembler::encode_nop();
    for (size_t i = 0; i < assembler::kWordBits; ++i) {
      if ((static_cast<uint8_t>(input[i / 8]) >> (7 - i % 8) & 1) != 0) word.flip(i);
    }
    text += "i ";
    for (size_t i = 0; i < assembler::kWordBits; ++i) text += word[i] ? '1' : '0';
    text += '\n';
  }
  return text;
}

}  // namespace

void fuzz_one(std::string_view input) {
  // A first byte of 0 begins packed words.
  const bool packed = input.starts_with('\0');
  const std::string text = packed ? lines_of_bits(input.substr(1)) : std::string(input);
  const isa::Program program = assembler::from_words(text, "input", chip());

  const assembler::WordOptions options{.allow_inferred = true};
  const std::string words = assembler::to_words(program, options);
  if (packed) require(words == text, "words(from_words(w)) == w", text);
  require(assembler::from_words(words, "words", chip()) == program, "from_words(words(p)) == p", text);
  const std::string printed = assembler::print(program);
  require(assembler::assemble(printed, "printed", chip()) == program, "assemble(print(p)) == p", printed);
}

}  // namespace kodama::fuzz
