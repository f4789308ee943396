#include "compiler/driver/chips.h"
#include "isa/error.h"

/// What there is of chips.h without MPI.
namespace kodama::compiler {

namespace {

[[noreturn]] void throw_absent() {
  throw isa::UnsupportedError(
      "--chips: this Kodama was built without MPI; install the Debian packages mpich and libmpich-dev, and "
      "build it again. --accumulate N trains with the same shares of a batch on one chip");
}

}  // namespace

std::unique_ptr<Chips> make_chips(int /*count*/) {
  throw_absent();
}
std::optional<int> started_as_one_of() {
  return std::nullopt;
}
int start_on_chips(int /*count*/, const std::vector<std::string>& /*command*/) {
  throw_absent();
}

}  // namespace kodama::compiler
