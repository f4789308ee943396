#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "compiler/package/compiled_model.h"
#include "compiler/runtime/comparison.h"

/// How near the kernels come to what their problems need: `kodama bench kernels`, the tables of
/// docs/kernels.md.
namespace kodama::compiler {

/// A model of one layer. Where `kernel` is 0 a product [batch, rows, in] x [in, out] (without the axis
/// `batch` if that is 1); else a convolution [batch, in, rows, columns] -> out channels, with a square kernel
/// and as much padding as keeps the picture's size at stride 1.
struct KernelShape {
  int64_t batch = 1, in = 1, rows = 1, columns = 1, out = 1;
  int64_t kernel = 0, stride = 1, dilation = 1, groups = 1;
  /// The second operand of a product is an input: [in, out], or [batch, in, out].
  bool both_inputs = false;

  std::string name() const;
  onnx::ModelProto model() const;
};
/// What the command measures.
const std::vector<KernelShape>& kernel_shapes();

struct KernelResult {
  std::string name;
  std::vector<std::string> kernels;  ///< that make the result; "host" for a layer of the host
  int64_t cycles = 0;                ///< of the chip, in the steady state
  int64_t relayout_cycles = 0;       ///< of these in relayouts
  double bound = 0;                  ///< of the problem
  double of_peak = 0;                ///< of the matrix unit: 0 to 1
  bool is_run = false;               ///< else predicted: values are not known
  Comparison comparison;             ///< with the CPU reference, if run
  std::string problem;               ///< why the compiler doesn't take it; then nothing else is set
  double ratio() const { return static_cast<double>(cycles) / bound; }
};

struct KernelBenchRequest {
  std::string chip = "mncore2";
  std::string precision = "gfloat";
  std::string filter;  ///< regular expression on the name; empty = all
  /// Shapes with more multiply-adds aren't run: their cycles are predicted, which gives what a run does.
  double most_products = 0x1p28;
  int threads = 0;
  std::string json_file;
};
/// Compiles a shape with default options, and runs it or predicts its time. Of one that is not supported the
/// result says why.
KernelResult measure_kernel(const KernelShape& shape, const KernelBenchRequest& request);
/// Prints the table (for people and for Markdown). Returns an exit code (tolerance). UserError if no shape
/// has such a name.
int bench_kernels(const KernelBenchRequest& request, std::ostream& out);

}  // namespace kodama::compiler
