/// Any text to the assembler. A program that it accepts keeps its meaning through every form it is written
/// in.
#include "assembler/assembler.h"
#include "assembler/machine_words.h"
#include "assembler/program_file.h"
#include "testsuite/fuzz/fuzz_target.h"

namespace kodama::fuzz {

void fuzz_one(std::string_view input) {
  const isa::Program program = assembler::assemble(input, "input", chip());

  const std::string text = assembler::print(program);
  require(assembler::assemble(text, "text", chip()) == program, "assemble(print(p)) == p", text);
  require(assembler::print(assembler::assemble(text, "text", chip())) == text, "printing is stable", text);

  const std::string bytes = assembler::save_program(program, chip());
  const isa::Program loaded = assembler::load_program(bytes, "bytes", chip());
  require(loaded == program, "load(save(p)) == p", text);
  require(assembler::save_program(loaded, chip()) == bytes, "saving is stable", text);

  const assembler::WordOptions options{.allow_inferred = true};
  // Long runs of nop are many words; the disassembler's target covers files of any length.
  if (isa::count(program).steps > 1000) return;
  std::string words;
  if (!succeeds([&] { words = assembler::to_words(program, options); })) return;
  const isa::Program again = assembler::from_words(words, "words", chip());
  require(assembler::to_words(again, options) == words, "words(from_words(w)) == w", text);
  const isa::Program reassembled = assembler::assemble(assembler::print(again), "again", chip());
  require(reassembled == again, "assemble(disassemble(w)) == disassemble(w)", text);
}

}  // namespace kodama::fuzz
