#include "tools/session_options.h"

#include "compiler/driver/session_options.h"
#include "isa/output.h"

namespace kodama::tools {

void finish_options(const ModelOptions& options, compiler::SessionOptions& session) {
  load_plugins(options.plugins);
  session.chip = options.chip;
  for (const auto& [name, value] : options.words) compiler::set_option(session, name, value);
  session.dims = parse_dims(options.dims);
  session.bind = options.bind;
  session.dump_after.insert(options.dump_after.begin(), options.dump_after.end());
  session.dump_directory = options.dump_directory;
  if (options.cache) session.cache = *options.cache;
  session.fuse = options.fuse;
  session.passes.options = parse_pass_options(options.pass_options);
}

std::ostream& session_stream(const compiler::SessionOptions& session) {
  if (!session.dump_after.empty()) isa::check_output_directory(session.dump_directory);
  return report_stream({session.json_file});
}

}  // namespace kodama::tools
