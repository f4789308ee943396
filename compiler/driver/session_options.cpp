#include "compiler/driver/session_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "isa/error.h"

namespace kodama::compiler {
namespace {

constexpr std::array<WordOption, 11> kWordOptions{{
    {"precision", "of matrix products: gfloat, float or half",
     [](SessionOptions& options) -> std::string& { return options.precision; }, true},
    {"planner",
     "chooses kernels and layouts: pbqp (least in all), greedy, first, or a plugin's; host: all "
     "relayouts by the host",
     [](SessionOptions& options) -> std::string& { return options.planner; }, true},
    {"slices",
     "parts of the batch that run one after the other: a number, auto (as many as it takes for "
     "tensors to stay on the chip), or off (the batch at once)",
     [](SessionOptions& options) -> std::string& { return options.slices; }, true},
    {"weights",
     "constants between runs: stream (in DRAM), resident (in the PEs, as many as fit) or auto (as is "
     "predicted to be faster)",
     [](SessionOptions& options) -> std::string& { return options.weights; }, false},
    {"scheduler", "instruction scheduler of blocks",
     [](SessionOptions& options) -> std::string& { return options.passes.scheduler; }, false},
    {"loop-scheduler", "instruction scheduler of loops",
     [](SessionOptions& options) -> std::string& { return options.passes.loop_scheduler; }, false},
    {"coalescer", "pass that makes one value of two",
     [](SessionOptions& options) -> std::string& { return options.passes.coalescer; }, false},
    {"spiller", "pass that makes room where memories overflow",
     [](SessionOptions& options) -> std::string& { return options.passes.spiller; }, false},
    {"allocator", "address allocator",
     [](SessionOptions& options) -> std::string& { return options.passes.allocator; }, false},
    {"transfers", "transfer scheduler: when data is fetched, and what stays on chip",
     [](SessionOptions& options) -> std::string& { return options.passes.transfers; }, false},
    {"home-assigner", "pass that chooses memories for values",
     [](SessionOptions& options) -> std::string& { return options.passes.home_assigner; }, false},
}};

bool parse_yes(const std::string& name, const std::string& value) {
  if (value == "yes" || value == "no") return value == "yes";
  throw isa::UserError(fmt::format("{}: found '{}', allowed: yes, no", name, value));
}

}  // namespace

std::span<const WordOption> word_options() {
  return kWordOptions;
}

void set_option(SessionOptions& options, const std::string& name, const std::string& value) {
  const auto word = std::ranges::find(kWordOptions, name, &WordOption::name);
  if (word != kWordOptions.end()) {
    word->value(options) = value;
  } else if (name == "cache") {
    options.cache = value;
  } else if (name == "fuse") {
    options.fuse = parse_yes(name, value);
  } else if (name == "check-layers") {
    options.check_layers = parse_yes(name, value);
  } else {
    options.passes.options[name] = value;
  }
}

}  // namespace kodama::compiler
