/// Runs a package on zeros, with nothing of the compiler, and says what came out.
#include <kodama/runtime.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s PACKAGE\n", argv[0]);
    return 2;
  }
  try {
    const kodama::Package package = kodama::Package::load(argv[1]);
    kodama::PackageSession session(package);
    kodama::Tensors inputs;
    for (const kodama::ValueInfo& input : package.inputs())
      inputs.emplace(input.name, kodama::Tensor(*input.type, input.shape));
    const kodama::Outcome outcome = session.run(std::move(inputs));
    for (const auto& [name, tensor] : outcome.outputs)
      std::printf("%s: %zu bytes\n", name.c_str(), tensor.bytes().size());
    std::printf("%lld cycles, %.3g s of chip %s\n", static_cast<long long>(outcome.cycles), outcome.seconds,
                package.chip().c_str());
  } catch (const kodama::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
