#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "testsuite/fuzz/fuzz_target.h"

namespace kodama::fuzz {

const isa::Chip& chip() {
  static const isa::Chip tiny = isa::find_chip("tiny");
  return tiny;
}

void require(bool holds, std::string_view what, std::string_view details) {
  if (holds) return;
  fmt::print(stderr, "property broken: {}\n{}\n", what, details);
  std::fflush(stderr);
  std::abort();
}

std::pair<std::string_view, std::string_view> halves(std::string_view input) {
  constexpr std::string_view kBetween = "\n=\n";
  const size_t at = input.find(kBetween);
  if (at == std::string_view::npos) return {input, {}};
  return {input.substr(0, at + 1), input.substr(at + kBetween.size())};
}

}  // namespace kodama::fuzz

/// What libFuzzer calls, and the program that runs seeds.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kodama::fuzz::succeeds(
      [&] { kodama::fuzz::fuzz_one(std::string_view(reinterpret_cast<const char*>(data), size)); });
  return 0;
}
