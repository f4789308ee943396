/// Any bytes to the loader of program files. What it accepts is a program that comes back from every form.
#include "assembler/assembler.h"
#include "assembler/program_file.h"
#include "testsuite/fuzz/fuzz_target.h"

namespace kodama::fuzz {

void fuzz_one(std::string_view input) {
  // The fuzzer can't guess checksums, so the one it wrote is replaced by the right one.
  const std::string bytes = assembler::sealed_program(input);
  const isa::Program program = assembler::load_program(bytes, "input", chip());
  require(assembler::save_program(program, chip()) == bytes, "save(load(b)) == b");

  // Loops of a few thousand statements are enough to see what printing does.
  const isa::ProgramCounts counts = isa::count(program);
  if (counts.statements > 5000) return;
  const std::string text = assembler::print(program);
  const isa::Program unrolled = assembler::assemble(text, "text", chip());
  require(assembler::print(unrolled) == text, "print(assemble(print(p))) == print(p)", text);
}

}  // namespace kodama::fuzz
