#include "tools/command_line.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ostream.h>
#include <kodama/kodama.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <new>

#include "compiler/driver/session.h"
#include "compiler/report/table.h"
#include "isa/output.h"
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
        add_schedule_commands, add_list_commands})
    add_group(line);
  compiler::fit_tables(isa::terminal_width().value_or(0));
  return line.run(with_joined_forms({argv + 1, argv + argc}));
}

}  // namespace

int run_command_line(int argc, char** argv) {
  // A file that is opened in the place of a closed standard stream would receive what is printed there.
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) < 0)
      ::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
  const isa::PrintableStream out(std::cout);
  const isa::PrintableStream errors(std::cerr);
  try {
    isa::remove_temporaries_on_signals();
    const int code = run(argc, argv);
    isa::flush_standard_output();
    return code;
  } catch (const isa::UserErrors& all) {
    for (const std::string& error : all.messages()) std::cerr << "kodama: error: " << error << '\n';
    return compiler::kExitUserError;
  } catch (const isa::UserError& error) {
    std::cerr << "kodama: error: " << error.what() << '\n';
    return compiler::kExitUserError;
  } catch (const isa::UnsupportedError& error) {
    std::cerr << "kodama: not supported: " << error.what() << '\n';
    return compiler::kExitUnsupported;
  } catch (const isa::PassError& error) {
    std::cerr << "kodama: " << error.what() << '\n';
    return compiler::kExitInternalError;
  } catch (const std::filesystem::filesystem_error& error) {
    // Whatever we ask the file system, the answer is the user's: no permission, say.
    fmt::print(std::cerr, "kodama: error: {}: {}\n", error.path1().string(), error.code().message());
    return compiler::kExitUserError;
  } catch (const std::bad_alloc&) {
    std::cerr << "kodama: not supported: this needs more memory than the process may have\n";
    return compiler::kExitUnsupported;
  } catch (const std::exception& error) {
    std::string command;
    for (int k = 0; k < argc; ++k) command += std::string(k > 0 ? " " : "") + argv[k];
    std::cerr << "kodama: " << error.what() << "\nThis is a bug in kodama; it is reproduced by: " << command
              << '\n';
    return compiler::kExitInternalError;
  }
}

}  // namespace kodama::tools
