/// Any bytes to the loader of program files. What it accepts is a program that comes back from every form.
#include "assembler/assembler.h"
#include "assembler/program_file.h"
#include "testsuite/fuzz/fuzz_target.h"

namespace kodama::fuzz {
namespace {

/// The input is a file, or its statements, which get the beginning of a file for this chip. The fuzzer can't
/// guess checksums, so the file gets the right one.
std::string file_of(std::string_view input) {
  constexpr size_t kSumBytes = 4;
  if (assembler::looks_like_program_file(input)) return assembler::sealed_program(input);
  std::string file = assembler::save_program({}, chip());
  file.resize(file.size() - kSumBytes - 1);  // the checksum, and the number of statements
  return assembler::sealed_program(file.append(input).append(kSumBytes, '\0'));
}

}  // namespace

void fuzz_one(std::string_view input) {
  const isa::Program program = assembler::load_program(file_of(input), "input", chip());
  const std::string bytes = assembler::save_program(program, chip());
  const isa::Program again = assembler::load_program(bytes, "bytes", chip());
  require(again == program && again.source_name == program.source_name, "load(save(p)) == p");
  require(assembler::save_program(again, chip()) == bytes, "saving is stable");

  // Loops of a few thousand statements are enough to see what printing does.
  if (isa::count(program).statements > 5000) return;
  const std::string text = assembler::print(program);
  const isa::Program unrolled = assembler::assemble(text, "text", chip());
  require(assembler::print(unrolled) == text, "print(assemble(print(p))) == print(p)", text);
}

}  // namespace kodama::fuzz
