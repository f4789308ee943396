/// Compiles a model for a chip, runs it on inputs at random, and says what came out and how far that is from
/// what the CPU reference computes.
#include <kodama/kodama.h>

#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s MODEL.onnx CHIP\n", argv[0]);
    return 2;
  }
  try {
    const kodama::Model model = kodama::Model::from_file(argv[1]);
    const kodama::Program program =
        kodama::Program::compile(model, {.chip = argv[2], .keeps_reference = true});
    kodama::Session session(program);
    const kodama::Result result = session.run(model.random_inputs(), {.compare = true});
    for (const auto& [name, tensor] : result.outputs)
      std::printf("%s: %zu bytes\n", name.c_str(), tensor.bytes().size());
    for (const kodama::Comparison& each : result.comparisons)
      std::printf("%s: %s\n", each.name.c_str(), each.text().c_str());
    std::printf("%lld cycles, %.3g s of chip %s\n", static_cast<long long>(result.cycles), result.seconds,
                program.chip().c_str());
    return result.ok ? 0 : 1;
  } catch (const kodama::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
