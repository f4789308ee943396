#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <span>

#include "assembler/assembler.h"
#include "assembler/machine_words.h"
#include "assembler/program_file.h"
#include "compiler/package/compiled_model.h"
#include "compiler/package/package.h"
#include "isa/chip.h"
#include "isa/error.h"
#include "isa/hazards.h"
#include "isa/output.h"
#include "tools/command_groups.h"
#include "tools/common_options.h"
#include "tools/options.h"

namespace kodama::tools {
namespace {

// ---- check

/// Prints the hazards of one program; whether there are any.
bool print_hazards(const isa::Program& program, const std::string& name, const isa::Chip& chip) {
  constexpr size_t kMostPrinted = 100;
  const std::vector<isa::HazardViolation> found = isa::find_hazards(program, chip);
  for (const isa::HazardViolation& each : std::span(found).first(std::min(found.size(), kMostPrinted))) {
    fmt::print(std::cout, "{}: {}{}\n", isa::SourceLocation{name, each.second_line, 0}.to_string(), each.text,
               each.count > 1 ? fmt::format(" ({} times)", each.count) : "");
  }
  if (found.size() > kMostPrinted)
    fmt::print(std::cout, "{}: ... and {} more\n", name, found.size() - kMostPrinted);
  return !found.empty();
}
int check_program(const std::string& path, const std::string& chip_name) {
  size_t programs = 1;
  size_t bad = 0;
  if (compiler::is_package(path)) {
    const compiler::CompiledModel model = compiler::load_package(path, chip_name);
    programs = 0;
    if (!model.preparation.statements.empty()) {
      ++programs;
      bad += print_hazards(model.preparation, path + "/preparation", model.chip) ? 1 : 0;
    }
    for (const compiler::Segment& segment : model.segments) {
      ++programs;
      const std::string& first = model.stages[static_cast<size_t>(segment.first_stage)].name;
      bad += print_hazards(segment.parts.program, path + "/" + first, model.chip) ? 1 : 0;
    }
  } else {
    const isa::Chip chip = isa::find_chip(chip_name.empty() ? kDefaultChip : chip_name);
    bad = print_hazards(assembler::read_program(path, chip), path, chip) ? 1 : 0;
  }
  if (programs > 1) fmt::print(std::cout, "{} of {} programs have hazards\n", bad, programs);
  if (bad == 0) fmt::print(std::cout, "{}: no hazards\n", path);
  return bad == 0 ? isa::kExitOk : isa::kExitOutOfTolerance;
}

class CheckCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("program", path_, "program.vsm, or directory of 'kodama compile'")->required();
    app.add_option("--chip", chip_, "chip; default: the manifest's, mncore2 for a program");
    add_plugin_option(app, plugins_);
  }
  int run(const CLI::App& /*app*/) override {
    load_plugins(plugins_);
    return check_program(path_, chip_);
  }

 private:
  std::string path_;
  std::vector<std::string> plugins_;
  std::string chip_;
};

// ---- asm and dis

/// What both have.
class RewriteCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("-o,--output", output_, "file to write (default: standard output)");
    add_chip(app, chip_);
  }

 protected:
  /// Writes the program that `read` (assembler::read_program, or of the same form) makes of the file.
  template <typename Read>
  int rewrite(const Read& read) const {
    report_stream({output_});
    const isa::Chip chip = isa::find_chip(chip_);
    const isa::Program program = read(file_, chip);
    isa::write_output(output_, [&](const isa::Output& output) {
      assembler::write_program(program, form_, chip, words_, output);
    });
    return isa::kExitOk;
  }

  std::string file_;
  std::string output_ = "-";
  std::string chip_ = kDefaultChip;
  assembler::ProgramForm form_ = assembler::ProgramForm::kText;
  assembler::WordOptions words_;
};

class AsmCommand : public RewriteCommand {
 public:
  void declare(CLI::App& app) override {
    static const std::map<std::string, assembler::ProgramForm> kForms{
        {"text", assembler::ProgramForm::kText},
        {"words", assembler::ProgramForm::kWords},
        {"binary", assembler::ProgramForm::kBinary}};
    app.add_option("program", file_, "program.vsm")->required();
    RewriteCommand::declare(app);
    app.add_option_function<std::string>(
           "--format", [this](const std::string& form) { form_ = kForms.at(form); },
           "text (normal form), words (the vendor's 'i' lines) or binary (a complete program file)")
        ->check(one_of({"text", "words", "binary"}))
        ->default_str("text");
    app.add_flag("--allow-inferred", words_.allow_inferred,
                 "words: also fields whose meaning is inferred, not seen");
  }
  int run(const CLI::App& /*app*/) override {
    if (form_ == assembler::ProgramForm::kText && words_.allow_inferred)
      throw isa::UserError("--allow-inferred: no effect with --format text");
    return rewrite([](const auto& file, const auto& chip) { return assembler::read_program(file, chip); });
  }
};

class DisCommand : public RewriteCommand {
 public:
  void declare(CLI::App& app) override {
    app.add_option("program", file_, "program file")->required();
    RewriteCommand::declare(app);
  }
  int run(const CLI::App& /*app*/) override {
    return rewrite([](const auto& file, const auto& chip) { return assembler::read_assembled(file, chip); });
  }
};

}  // namespace

void add_program_commands(CommandLine& line) {
  add_sim_command(line);
  line.add<CheckCommand>(
      "check", "find hazards: reads too soon after a write, transfers that nobody waits for, wrong tags");
  line.add<AsmCommand>("asm", "check a VSM program and write it in another form");
  line.add<DisCommand>("dis", "print a program of machine words or a binary program file as VSM");
}

}  // namespace kodama::tools
