#include "tools/command_line.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <kodama/kodama.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <new>

#include "compiler/driver/session.h"
#include "compiler/report/table.h"
#include "isa/output.h"
#include "isa/style.h"
#include "isa/temporary.h"
#include "isa/terminal.h"
#include "isa/user_errors.h"
#include "tools/command_groups.h"
#include "tools/common_options.h"

/// What stands around every command. The commands are in tools/commands.
namespace kodama::tools {
namespace {

int run(int argc, char** argv) {
  CommandLine line("Kodama: simulator, assembler and compiler for MN-Core-like chips", "kodama " + version());
  for (const auto add_group :
       {add_model_commands, add_training_commands, add_program_commands, add_test_commands,
        add_optimizer_commands, add_fuzz_commands, add_reference_commands, add_layout_commands,
        add_schedule_commands, add_list_commands, add_help_commands})
    add_group(line);
  compiler::table_view().width = isa::terminal_width().value_or(0);
  return line.run(with_joined_forms({argv + 1, argv + argc}));
}

void print_error(const char* kind, const std::string& message) {
  {
    const isa::Styled style(std::cerr, isa::Style::kBad);
    std::cerr << "kodama: " << kind;
  }
  std::cerr << message << '\n';
}

}  // namespace

int run_command_line(int argc, char** argv) {
  // A file that is opened in the place of a closed standard stream would receive what is printed there.
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) < 0)
      ::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
  if (isa::has_colours(STDOUT_FILENO)) isa::allow_styles(std::cout);
  if (isa::has_colours(STDERR_FILENO)) isa::allow_styles(std::cerr);
  const isa::PrintableStream out(std::cout);
  const isa::PrintableStream errors(std::cerr);
  try {
    isa::remove_temporaries_on_signals();
    const int code = run(argc, argv);
    isa::flush_standard_output();
    return code;
  } catch (const isa::UserErrors& all) {
    for (const std::string& error : all.messages()) print_error("error: ", error);
    return isa::kExitUserError;
  } catch (const isa::UserError& error) {
    print_error("error: ", error.what());
    return isa::kExitUserError;
  } catch (const isa::UnsupportedError& error) {
    print_error("not supported: ", error.what());
    return isa::kExitUnsupported;
  } catch (const isa::PassError& error) {
    print_error("", error.what());
    return isa::kExitInternalError;
  } catch (const std::filesystem::filesystem_error& error) {
    // Whatever we ask the file system, the answer is the user's: no permission, say.
    print_error("error: ", error.path1().string() + ": " + error.code().message());
    return isa::kExitUserError;
  } catch (const std::bad_alloc&) {
    print_error("not supported: ", "this needs more memory than the process may have");
    return isa::kExitUnsupported;
  } catch (const std::exception& error) {
    std::string command;
    for (int k = 0; k < argc; ++k) command += std::string(k > 0 ? " " : "") + argv[k];
    print_error("",
                fmt::format("{}\nThis is a bug in kodama; it is reproduced by: {}", error.what(), command));
    return isa::kExitInternalError;
  }
}

}  // namespace kodama::tools
