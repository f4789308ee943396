#include "compiler/driver/kernel_suite.h"

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>
#include <regex>

#include "compiler/driver/session.h"
#include "compiler/graph/import.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/plan/problem_bound.h"
#include "compiler/proto/tensor_proto.h"
#include "compiler/reference/executor.h"
#include "compiler/runtime/runner.h"
#include "isa/error.h"
#include "isa/output.h"

namespace kodama::compiler {
namespace {

constexpr auto kFloat = DataType::kFloat32;

void set_type(onnx::ValueInfoProto& info, const std::string& name, const Shape& shape) {
  info.set_name(name);
  auto& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(kFloat);
  for (const int64_t extent : shape) type.mutable_shape()->add_dim()->set_dim_value(extent);
}

void set_ints(onnx::NodeProto& node, const char* name, const std::vector<int64_t>& values) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto_AttributeType_INTS);
  for (const int64_t value : values) attribute.add_ints(value);
}

/// The cycles of all stages.
std::vector<int64_t> run(const CompiledModel& model, const onnx::ModelProto& imported, int threads,
                         Comparison& comparison) {
  const TensorMap inputs = random_inputs(model, 1);
  RunnerOptions options;
  options.machine.threads = threads;
  ModelRunner runner(model, options);
  const RunOutcome outcome = runner.run(inputs);
  const TensorMap expected = run_graph(imported, inputs);
  comparison = compare_tensors(outcome.outputs.begin()->second, expected.begin()->second);
  std::vector<int64_t> cycles;
  for (const StageStats& stage : outcome.stages) cycles.push_back(stage.chip_cycles());
  return cycles;
}

}  // namespace

std::string KernelShape::name() const {
  const std::string first = batch > 1 ? fmt::format("{} x ", batch) : "";
  if (kernel == 0)
    return fmt::format("{}{} x {} x {}{}", first, rows, in, out, both_inputs ? "" : ", constant");
  std::string text =
      fmt::format("{}{} x {} x {} -> {}, {} x {}", first, in, rows, columns, out, kernel, kernel);
  if (stride > 1) text += fmt::format(", stride {}", stride);
  if (dilation > 1) text += fmt::format(", dilation {}", dilation);
  if (groups > 1) text += groups == in ? ", depthwise" : fmt::format(", {} groups", groups);
  return text;
}

onnx::ModelProto KernelShape::model() const {
  onnx::ModelProto model;
  model.set_ir_version(kIrVersion);
  model.add_opset_import()->set_version(kOpsetVersion);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name(name());
  onnx::NodeProto& node = *graph.add_node();
  for (const char* input : {"x", "w"}) node.add_input(input);
  node.add_output("y");
  Shape weights{out, in / groups, kernel, kernel};
  if (kernel == 0) {
    node.set_op_type("MatMul");
    const auto with_batch = [this](const Shape& shape) {
      Shape whole = shape;
      if (batch > 1) whole.insert(whole.begin(), batch);
      return whole;
    };
    set_type(*graph.add_input(), "x", with_batch({rows, in}));
    weights = both_inputs ? with_batch({in, out}) : Shape{in, out};
    set_type(*graph.add_output(), "y", with_batch({rows, out}));
  } else {
    node.set_op_type("Conv");
    const int64_t padding = dilation * (kernel - 1) / 2;
    const auto results = [&](int64_t extent) {
      return (extent + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
    };
    set_ints(node, "kernel_shape", {kernel, kernel});
    set_ints(node, "pads", {padding, padding, padding, padding});
    set_ints(node, "strides", {stride, stride});
    set_ints(node, "dilations", {dilation, dilation});
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name("group");
    attribute.set_type(onnx::AttributeProto_AttributeType_INT);
    attribute.set_i(groups);
    set_type(*graph.add_input(), "x", {batch, in, rows, columns});
    set_type(*graph.add_output(), "y", {batch, out, results(rows), results(columns)});
  }
  if (both_inputs) {
    set_type(*graph.add_input(), "w", weights);
  } else {
    *graph.add_initializer() = tensor_to_proto(random_input("w", kFloat, weights, 1), "w");
  }
  return model;
}

const std::vector<KernelShape>& kernel_shapes() {
  static const std::vector<KernelShape> shapes = {
      // Products of two inputs.
      {.in = 64, .rows = 64, .out = 64, .both_inputs = true},
      {.in = 256, .rows = 256, .out = 256, .both_inputs = true},
      {.in = 512, .rows = 512, .out = 512, .both_inputs = true},
      {.in = 1000, .rows = 1000, .out = 1000, .both_inputs = true},
      {.in = 1024, .rows = 1024, .out = 1024, .both_inputs = true},
      {.in = 2048, .rows = 2048, .out = 2048, .both_inputs = true},
      {.in = 4096, .rows = 4096, .out = 4096, .both_inputs = true},
      {.in = 4096, .rows = 128, .out = 1024, .both_inputs = true},
      {.in = 333, .rows = 777, .out = 555, .both_inputs = true},
      {.batch = 12, .in = 64, .rows = 197, .out = 197, .both_inputs = true},
      {.batch = 16, .in = 256, .rows = 128, .out = 128, .both_inputs = true},
      // Products with a constant.
      {.in = 2048, .rows = 1, .out = 1000},
      {.in = 512, .rows = 32, .out = 1000},
      {.in = 768, .rows = 197, .out = 3072},
      {.in = 1024, .rows = 1024, .out = 1024},
      {.in = 2048, .rows = 2048, .out = 2048},
      {.in = 100, .rows = 77, .out = 50},
      // Convolutions, 3 x 3.
      {.in = 64, .rows = 56, .columns = 56, .out = 64, .kernel = 3},
      {.in = 128, .rows = 28, .columns = 28, .out = 128, .kernel = 3},
      {.in = 256, .rows = 14, .columns = 14, .out = 256, .kernel = 3},
      {.in = 512, .rows = 7, .columns = 7, .out = 512, .kernel = 3},
      {.batch = 32, .in = 64, .rows = 56, .columns = 56, .out = 64, .kernel = 3},
      {.in = 128, .rows = 56, .columns = 56, .out = 256, .kernel = 3, .stride = 2},
      {.in = 64, .rows = 56, .columns = 56, .out = 64, .kernel = 3, .dilation = 2},
      {.in = 3, .rows = 224, .columns = 224, .out = 64, .kernel = 3},
      {.batch = 4, .in = 50, .rows = 27, .columns = 35, .out = 70, .kernel = 3},
      {.in = 512, .rows = 3, .columns = 3, .out = 512, .kernel = 3},
      // 1 x 1.
      {.in = 256, .rows = 56, .columns = 56, .out = 64, .kernel = 1},
      {.in = 1024, .rows = 14, .columns = 14, .out = 2048, .kernel = 1, .stride = 2},
      {.in = 64, .rows = 112, .columns = 112, .out = 128, .kernel = 1},
      {.batch = 8, .in = 512, .rows = 28, .columns = 28, .out = 128, .kernel = 1},
      // Larger kernels.
      {.in = 32, .rows = 28, .columns = 28, .out = 96, .kernel = 5},
      {.batch = 8, .in = 48, .rows = 27, .columns = 27, .out = 128, .kernel = 5},
      {.in = 3, .rows = 224, .columns = 224, .out = 64, .kernel = 7, .stride = 2},
      {.in = 64, .rows = 32, .columns = 32, .out = 64, .kernel = 7},
      // Groups.
      {.in = 96, .rows = 56, .columns = 56, .out = 96, .kernel = 3, .groups = 96},
      {.in = 144, .rows = 56, .columns = 56, .out = 144, .kernel = 3, .stride = 2, .groups = 144},
      {.in = 240, .rows = 14, .columns = 14, .out = 240, .kernel = 5, .groups = 240},
      {.batch = 8, .in = 512, .rows = 14, .columns = 14, .out = 512, .kernel = 3, .groups = 512},
      {.in = 128, .rows = 56, .columns = 56, .out = 128, .kernel = 3, .groups = 32},
      {.in = 256, .rows = 28, .columns = 28, .out = 256, .kernel = 3, .groups = 2},
  };
  return shapes;
}

KernelResult measure_kernel(const KernelShape& shape, const KernelBenchRequest& request) {
  const isa::Chip chip = isa::find_chip(request.chip);
  const onnx::ModelProto imported = import_model(shape.model(), {}, shape.name());
  CompileOptions options;
  options.precision = parse_matrix_precision(request.precision);
  options.weights = Weights::kAuto;
  KernelResult result;
  result.name = shape.name();
  CompiledModel model;
  try {
    model = compile_model(imported, chip, options);
  } catch (const isa::UnsupportedError& error) {
    result.problem = error.what();
    return result;
  }
  result.is_run = model.work.products <= request.most_products;
  const std::vector<int64_t> cycles =
      result.is_run ? run(model, imported, request.threads, result.comparison) : predict_stages(model);
  for (size_t k = 0; k < model.stages.size(); ++k) {
    result.cycles += cycles[k];
    if (model.stages[k].kind == LayerKind::kRearrange) {
      result.relayout_cycles += cycles[k];
      continue;
    }
    const auto* on_chip = std::get_if<ChipStage>(&model.stages[k].body);
    result.kernels.push_back(on_chip != nullptr ? on_chip->kernel : "host");
  }
  result.bound = problem_bound(model.work, chip, options.precision).cycles();
  result.of_peak = share_of_peak(model.work, static_cast<double>(result.cycles), chip, options.precision);
  return result;
}

int bench_kernels(const KernelBenchRequest& request, std::ostream& out) {
  const double tolerance = default_tolerance(parse_matrix_precision(request.precision));
  std::vector<KernelShape> shapes;
  try {
    const std::regex filter(request.filter);
    std::ranges::copy_if(kernel_shapes(), std::back_inserter(shapes),
                         [&](const KernelShape& shape) { return std::regex_search(shape.name(), filter); });
  } catch (const std::regex_error&) {
    throw isa::UserError(fmt::format("--filter {}: allowed is a regular expression", request.filter));
  }
  if (shapes.empty())
    throw isa::UserError(fmt::format("--filter {}: no shape has such a name", request.filter));
  fmt::print(out,
             "| shape | cycles | bound | ratio | of peak | relayouts | kernel | error |\n"
             "| --- | --: | --: | --: | --: | --: | --- | --: |\n");
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  bool passed = true;
  double logarithms = 0;
  std::vector<KernelResult> measured;
  std::vector<KernelResult> refused;
  for (const KernelShape& shape : shapes) {
    const KernelResult result = measure_kernel(shape, request);
    nlohmann::ordered_json& row = rows.emplace_back();
    row["name"] = result.name;
    if (!result.problem.empty()) {
      fmt::print(out, "| {} | - | - | - | - | - | not supported | - |\n", result.name);
      row["problem"] = result.problem;
      refused.push_back(result);
      continue;
    }
    const bool is_right = !result.is_run || within(result.comparison, tolerance);
    passed &= is_right;
    logarithms += std::log(result.ratio());
    fmt::print(out, "| {} | {} | {:.0f} | {:.2f} | {:.1f} % | {} | {} | {} |\n", result.name, result.cycles,
               std::ceil(result.bound), result.ratio(), 100 * result.of_peak, result.relayout_cycles,
               fmt::join(result.kernels, ", "),
               !result.is_run ? "-"
               : is_right     ? fmt::format("{:.1e}", result.comparison.max_relative)
                              : "FAILED");
    out.flush();
    row["kernels"] = result.kernels;
    row["cycles"] = result.cycles;
    row["bound"] = result.bound;
    row["ratio"] = result.ratio();
    row["of_peak"] = result.of_peak;
    row["relayout_cycles"] = result.relayout_cycles;
    row["run"] = result.is_run;
    if (result.is_run) row["error"] = result.comparison.max_relative;
    measured.push_back(result);
  }
  nlohmann::ordered_json json = {{"chip", request.chip}, {"precision", request.precision}, {"shapes", rows}};
  fmt::print(out, "\n{} shapes, chip {}, {} precision", shapes.size(), request.chip, request.precision);
  if (!refused.empty()) fmt::print(out, ", {} not supported", refused.size());
  if (!measured.empty()) {
    const double mean = std::exp(logarithms / static_cast<double>(measured.size()));
    const KernelResult& worst = *std::ranges::max_element(measured, {}, &KernelResult::ratio);
    fmt::print(out, ": geometric mean of cycles over the bound {:.2f}, worst {:.2f} ({})", mean,
               worst.ratio(), worst.name);
    json["geometric_mean"] = mean;
    json["worst"] = worst.ratio();
  }
  fmt::print(out, "\n");
  for (const KernelResult& result : refused)
    fmt::print(out, "{}: not supported: {}\n", result.name, result.problem);
  if (!request.json_file.empty()) isa::write_output(request.json_file, json.dump(1) + "\n");
  return passed ? isa::kExitOk : isa::kExitOutOfTolerance;
}

}  // namespace kodama::compiler
