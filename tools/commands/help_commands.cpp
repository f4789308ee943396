#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>
#include <kodama/kodama.h>

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "compiler/driver/session.h"
#include "isa/error.h"
#include "isa/output.h"
#include "tools/command_groups.h"
#include "tools/common_options.h"
#include "tools/help/formatter.h"
#include "tools/help/man_page.h"
#include "tools/help/markdown.h"
#include "tools/help/pages.h"
#include "tools/options.h"

namespace kodama::tools {
namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& family) {
  return family.get_subcommands([](const CLI::App* each) { return !each->get_name().empty(); });
}

/// The command of these words, null if there is none.
const CLI::App* find_command(const CLI::App& program, const std::vector<std::string>& words) {
  const CLI::App* found = &program;
  for (const std::string& word : words) {
    const auto parts = commands_of(*found);
    const auto part = std::ranges::find(parts, word, &CLI::App::get_name);
    if (part == parts.end()) return nullptr;
    found = *part;
  }
  return found;
}

std::vector<std::string> topics(const CLI::App& program) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands_of(program)) names.push_back(command->get_name());
  for (const Page& page : pages()) {
    if (std::ranges::find(names, page.name) == names.end()) names.emplace_back(page.name);
  }
  return names;
}

void write_man_pages(const CLI::App& command, const std::string& directory) {
  isa::write_output(fmt::format("{}/{}.1", directory, man_name(command)),
                    man_page(command, "kodama " + version(), std::string(find_page("command-line")->text)));
  for (const CLI::App* part : commands_of(command)) write_man_pages(*part, directory);
}

class HelpCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("topic", topic_, "a command (bench schedule), or a page; without one, the list of pages");
    app.add_option("--man", man_directory_, "write the man pages of all commands into this directory");
  }

  int run(const CLI::App& app) override {
    const CLI::App& program = *app.get_parent();
    if (is_given(app, "--man")) {
      if (man_directory_.empty()) throw isa::UserError("--man: name a directory");
      check_mode(app, "with --man", {"--man"});
      isa::check_output_directory(man_directory_);
      std::filesystem::create_directories(man_directory_);
      write_man_pages(program, man_directory_);
      return isa::kExitOk;
    }
    if (topic_.empty()) {
      print_topics(program);
      return isa::kExitOk;
    }
    const CLI::App* command = find_command(program, topic_);
    const Page* page = topic_.size() == 1 ? find_page(topic_.front()) : nullptr;
    if (command == nullptr && page == nullptr) {
      throw isa::UserError(fmt::format("help: there is no topic '{}'; allowed: {}", fmt::join(topic_, " "),
                                       fmt::join(topics(program), ", ")));
    }
    // Of some names there is both.
    if (command != nullptr) std::cout << command->help() << std::flush;
    if (page != nullptr) std::cout << markdown_text(page->text, text_width());
    return isa::kExitOk;
  }

 private:
  static void print_topics(const CLI::App& program) {
    // CLI11's own help() of a program is that of the command that was chosen.
    std::cout << program.get_formatter()->make_help(&program, "", CLI::AppFormatMode::Normal);
    fmt::print(std::cout, "Pages, which 'kodama help PAGE' prints:\n");
    for (const Page& page : pages()) fmt::print(std::cout, "  {:<27} {}\n", page.name, page.title());
  }

  std::vector<std::string> topic_;
  std::string man_directory_;
};

/// Words that may stand behind a command: its options, the commands of a family, the topics of help.
std::vector<std::string> completions_of(const CLI::App& command) {
  std::vector<std::string> words;
  if (command.get_name() == "help") words = topics(*command.get_parent());
  for (const CLI::App* part : commands_of(command)) words.push_back(part->get_name());
  for (const CLI::Option* option : command.get_options({})) {
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  }
  return words;
}

/// A case of the script for a command, and those of a family's commands before it.
void print_completions(const CLI::App& command, const std::string& path, std::ostream& out) {
  for (const CLI::App* part : commands_of(command))
    print_completions(*part, path + " " + part->get_name(), out);
  // Of a family the second word is a command, of others anything.
  const bool is_of_family = path.find(' ') != std::string::npos;
  fmt::print(out, "    '{}'{}) words='{}' ;;\n", path, is_of_family ? "" : "\\ *",
             fmt::join(completions_of(command), " "));
}

class CompletionCommand : public Command {
 public:
  void declare(CLI::App& /*app*/) override {}
  int run(const CLI::App& app) override {
    const CLI::App& program = *app.get_parent();
    fmt::print(std::cout,
               "# Completion of kodama's commands and options in bash:  source <(kodama completion)\n"
               "_kodama() {{\n"
               "  local words\n"
               "  case \"${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}}\" in\n");
    for (const CLI::App* command : commands_of(program))
      print_completions(*command, command->get_name(), std::cout);
    fmt::print(std::cout,
               "  esac\n"
               "  [ \"$COMP_CWORD\" -gt 1 ] || words='{}'\n"
               "  COMPREPLY=($(compgen -W \"$words\" -- \"${{COMP_WORDS[COMP_CWORD]}}\"))\n"
               "}}\n"
               "complete -o default -F _kodama kodama\n",
               fmt::join(completions_of(program), " "));
    return isa::kExitOk;
  }
};

}  // namespace

void add_help_commands(CommandLine& line) {
  line.add<HelpCommand>("help", "print the options of a command, or a page of the guides");
  line.add<CompletionCommand>("completion", "print what lets bash complete commands and options");
}

}  // namespace kodama::tools
