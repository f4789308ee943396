#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "compiler/kernels/kernel.h"
#include "compiler/kernels/lowering.h"
#include "compiler/kernels/rows_problem.h"
#include "compiler/kernels/rows_windows.h"
#include "compiler/streams/stream_image.h"
#include "isa/error.h"
#include "isa/rounds_test_util.h"
#include "scheduler/pipeline/pipeline.h"
#include "simulator/machine.h"

namespace kodama::compiler {
namespace {

using Role = ContractLayer::Role;

const isa::Chip& tiny() {
  static const isa::Chip chip = isa::find_chip("tiny");
  return chip;
}

Tensor random_tensor(const Shape& shape, std::mt19937& random) {
  Tensor tensor(DataType::kFloat32, shape);
  std::normal_distribution<float> normal;
  for (float& value : tensor.data<float>()) value = normal(random);
  return tensor;
}

/// A graph of one Contract layer; tensors 0 and 1 are a and b, then the epilogue's inputs, then the output.
struct Case {
  LayerGraph graph;
  ContractLayer& contract() { return std::get<ContractLayer>(graph.layers[0].body); }
  const ContractLayer& contract() const { return std::get<ContractLayer>(graph.layers[0].body); }
};

Case make_case(ContractLayer contract, const Shape& a, const Shape& b,
               const std::vector<Shape>& others = {}) {
  Case result;
  const auto add = [&](const std::string& name, const Shape& shape) {
    LayerTensor tensor;
    tensor.name = name;
    tensor.shape = shape;
    result.graph.tensors.push_back(tensor);
    return static_cast<TensorId>(result.graph.tensors.size()) - 1;
  };
  contract.a.tensor = add("a", a);
  contract.b.tensor = add("b", b);
  for (size_t k = 0; k < others.size(); ++k) {
    contract.epilogue_inputs[k].tensor = add("x" + std::to_string(k), others[k]);
  }
  if (contract.epilogue.nodes().empty()) contract.epilogue = ScalarExpr::identity();
  Layer layer;
  layer.name = "contract";
  layer.outputs = {add("y", contract.output_shape)};
  layer.body = std::move(contract);
  result.graph.layers.push_back(std::move(layer));
  return result;
}

/// y[b, m, n] = sum over k of a[b, m, k] * w[b, k, n]; batch 0 = no batch dim.
Case matmul(int64_t batch, int64_t m, int64_t k, int64_t n) {
  ContractLayer contract;
  const size_t first = batch > 0 ? 1 : 0;
  if (batch > 0) contract.dims.push_back({"b", batch, Role::kBatch});
  contract.dims.push_back({"m", m, Role::kM});
  contract.dims.push_back({"n", n, Role::kN});
  contract.dims.push_back({"k", k, Role::kK});
  const size_t dims = contract.dims.size();
  contract.a.map = AffineMap(first + 2, dims);
  contract.b.map = AffineMap(first + 2, dims);
  contract.output = AffineMap(first + 2, dims);
  Shape a, b;
  if (batch > 0) {
    contract.a.map.set(0, 0, 1);
    contract.b.map.set(0, 0, 1);
    contract.output.set(0, 0, 1);
    a = b = contract.output_shape = {batch};
  }
  contract.a.map.set(first, first, 1).set(first + 1, first + 2, 1);
  contract.b.map.set(first, first + 2, 1).set(first + 1, first + 1, 1);
  contract.output.set(first, first, 1).set(first + 1, first + 1, 1);
  a.insert(a.end(), {m, k});
  b.insert(b.end(), {k, n});
  contract.output_shape.insert(contract.output_shape.end(), {m, n});
  return make_case(std::move(contract), a, b);
}

struct ConvSizes {
  int64_t batch, group, in, out, height, width, kernel, stride, dilation, pad;
};

/// Grouped two-dimensional convolution, relu(conv + bias).
Case conv(const ConvSizes& s) {
  const auto extent = [&](int64_t size) {
    return (size + 2 * s.pad - s.dilation * (s.kernel - 1) - 1) / s.stride + 1;
  };
  const int64_t oh = extent(s.height);
  const int64_t ow = extent(s.width);
  ContractLayer contract;
  enum Dim : uint8_t { kG, kOc, kB, kOh, kOw, kIc, kKh, kKw, kDims };
  contract.dims = {{"g", s.group, Role::kBatch}, {"oc", s.out, Role::kM},   {"b", s.batch, Role::kN},
                   {"oh", oh, Role::kN},         {"ow", ow, Role::kN},      {"ic", s.in, Role::kK},
                   {"kh", s.kernel, Role::kK},   {"kw", s.kernel, Role::kK}};
  contract.a.map = AffineMap(4, kDims);
  contract.a.map.set(0, kG, s.out).set(0, kOc, 1).set(1, kIc, 1).set(2, kKh, 1).set(3, kKw, 1);
  contract.b.map = AffineMap(4, kDims);
  contract.b.map.set(0, kB, 1).set(1, kG, s.in).set(1, kIc, 1);
  contract.b.map.set(2, kOh, s.stride).set(2, kKh, s.dilation).set_offset(2, -s.pad);
  contract.b.map.set(3, kOw, s.stride).set(3, kKw, s.dilation).set_offset(3, -s.pad);
  contract.output = AffineMap(4, kDims);
  contract.output.set(0, kB, 1).set(1, kG, s.out).set(1, kOc, 1).set(2, kOh, 1).set(3, kOw, 1);
  contract.output_shape = {s.batch, s.group * s.out, oh, ow};
  TensorAccess bias;
  bias.map = AffineMap(1, kDims);
  bias.map.set(0, kG, s.out).set(0, kOc, 1);
  contract.epilogue_inputs = {bias};
  const int sum =
      contract.epilogue.apply(ScalarOp::kAdd, contract.epilogue.input(0), contract.epilogue.input(1));
  contract.epilogue.apply(ScalarOp::kRelu, sum);
  return make_case(std::move(contract), {s.group * s.out, s.in, s.kernel, s.kernel},
                   {s.batch, s.group * s.in, s.height, s.width}, {{s.group * s.out}});
}

/// The elements of a tensor that an affine map names on a line of iterations along a dimension, from a point
/// on: number `at + k * step` at iteration k of those from `begin` to `end`, outside of the tensor elsewhere.
/// The tests' own code isn't optimized, and applies a map once for a line.
struct Line {
  Line(const AffineMap& map, std::vector<int64_t> point, size_t dim, const Shape& shape) {
    const std::vector<int64_t> index = map.apply(point);
    ++point[dim];
    const std::vector<int64_t> next = map.apply(point);
    for (size_t a = 0; a < index.size(); ++a) {
      const int64_t extent = shape[a];
      const int64_t by = next[a] - index[a];
      at = at * extent + index[a];
      step = step * extent + by;
      if (by == 0 && (index[a] < 0 || index[a] >= extent)) end = 0;
      if (by == 0) continue;
      // The iterations whose index is the lowest, and the highest, of the tensor's.
      const int64_t low = by > 0 ? -index[a] : extent - 1 - index[a];
      const int64_t high = by > 0 ? extent - 1 - index[a] : -index[a];
      begin = std::max(begin,
                       static_cast<int64_t>(std::ceil(static_cast<double>(low) / static_cast<double>(by))));
      end = std::min(
          end, static_cast<int64_t>(std::floor(static_cast<double>(high) / static_cast<double>(by))) + 1);
    }
  }

  int64_t at = 0, step = 0;
  int64_t begin = 0, end = std::numeric_limits<int64_t>::max();
};

/// The elements an access reads along a line, in double.
class Operand {
 public:
  Operand(const TensorAccess& access, const Tensor& tensor, const std::vector<int64_t>& point, size_t dim)
      : line_(access.map, point, dim, tensor.shape()),
        values_(tensor.data<float>().data()),
        fill_(access.fill) {}
  double value(int64_t k) const {
    return k < line_.begin || k >= line_.end ? fill_ : values_[line_.at + k * line_.step];
  }

 private:
  Line line_;
  const float* values_;
  double fill_;
};

/// Value and error bound of every output element, by a plain loop over the iteration space.
struct Expected {
  std::vector<double> sum, bound, value;
};
Expected expected(const Case& layer, const std::vector<Tensor>& tensors, MatrixPrecision precision) {
  const ContractLayer& contract = layer.contract();
  const double epsilon = precision == MatrixPrecision::kGFloat  ? std::ldexp(1.0, -17)
                         : precision == MatrixPrecision::kFloat ? std::ldexp(1.0, -21)
                                                                : std::ldexp(1.0, -8);
  // A block float is as exact as the largest value of its block, so the bound is against the largest.
  double largest_a = 0;
  double largest_b = 0;
  for (float value : tensors[0].data<float>()) largest_a = std::max<double>(largest_a, std::abs(value));
  for (float value : tensors[1].data<float>()) largest_b = std::max<double>(largest_b, std::abs(value));
  const auto size = static_cast<size_t>(element_count(contract.output_shape));
  Expected result{std::vector<double>(size), std::vector<double>(size), std::vector<double>(size)};
  std::vector<std::vector<double>> others(size);
  std::vector<int64_t> point(contract.dims.size(), 0);
  const auto longest = static_cast<size_t>(
      std::ranges::max_element(contract.dims, {}, &ContractLayer::Dim::extent) - contract.dims.begin());
  const auto next_line = [&] {
    for (size_t d = point.size(); d-- > 0;) {
      if (d == longest) continue;
      if (++point[d] < contract.dims[d].extent) return true;
      point[d] = 0;
    }
    return false;
  };
  do {
    const Operand a(contract.a, tensors[0], point, longest);
    const Operand b(contract.b, tensors[1], point, longest);
    const Line output(contract.output, point, longest, contract.output_shape);
    double* sum = result.sum.data() + output.at;
    double* bound = result.bound.data() + output.at;
    const int64_t extent = contract.dims[longest].extent;
    for (int64_t k = 0; k < extent; ++k) {
      const double x = a.value(k);
      const double y = b.value(k);
      *sum += x * y;
      *bound += epsilon * (std::abs(x) * largest_b + largest_a * std::abs(y));
      sum += output.step;
      bound += output.step;
    }
    for (size_t input = 0; input < contract.epilogue_inputs.size(); ++input) {
      const Operand other(contract.epilogue_inputs[input], tensors[2 + input], point, longest);
      for (int64_t k = 0; k < extent; ++k) {
        std::vector<double>& values = others[static_cast<size_t>(output.at + k * output.step)];
        values.resize(contract.epilogue_inputs.size());
        values[input] = other.value(k);
      }
    }
  } while (next_line());
  for (size_t i = 0; i < size; ++i) {
    std::vector<double> inputs = {result.sum[i]};
    inputs.insert(inputs.end(), others[i].begin(), others[i].end());
    result.value[i] = contract.epilogue.evaluate(inputs);
    // bias and relu don't enlarge an absolute error, but round.
    result.bound[i] += std::ldexp(std::abs(result.value[i]) + 1e-30, -20);
  }
  return result;
}

/// Runs one candidate on the simulator and returns its output.
Tensor run_candidate(const Candidate& candidate, const Case& layer, const std::vector<Tensor>& tensors,
                     simulator::Machine& machine, simulator::RunStats* stats = nullptr) {
  const isa::Chip& chip = machine.chip();
  std::vector<int64_t> addresses;
  int64_t next = 64;
  for (const StreamPlacement& placement : candidate.placements) {
    addresses.push_back(next);
    next += stream_group_lw(placement) + 64;
  }
  for (size_t k = 0; k < candidate.placements.size(); ++k) {
    const StreamPlacement& placement = candidate.placements[k];
    if (placement.is_output) continue;
    const StreamImage image =
        pack_stream(placement, tensors[static_cast<size_t>(placement.access.tensor)], chip);
    for (int g = 0; g < chip.groups; ++g) {
      const std::vector<uint64_t>& group = image.groups[static_cast<size_t>(g)];
      if (!group.empty()) machine.write_dram(g, addresses[k], group);
    }
  }
  // What an earlier candidate stored there must not pass for this one's result.
  const StreamPlacement& output = candidate.placements.back();
  StreamImage image = empty_stream(output, chip);
  for (int g = 0; g < chip.groups; ++g) {
    std::vector<uint64_t>& group = image.groups[static_cast<size_t>(g)];
    std::ranges::fill(group, ~uint64_t{0});
    if (!group.empty()) machine.write_dram(g, addresses.back(), group);
  }
  const TileProgram tile = candidate.emit(addresses);
  SCOPED_TRACE(to_string(tile));
  const isa::Program program = scheduler::build_program(lower_tile_program(tile, chip), chip);
  const simulator::RunStats run = machine.run(program);
  if (stats != nullptr) *stats = run;

  for (int g = 0; g < chip.groups; ++g) {
    std::vector<uint64_t>& group = image.groups[static_cast<size_t>(g)];
    if (!group.empty()) machine.read_dram(g, addresses.back(), group);
  }
  Tensor result(DataType::kFloat32, layer.contract().output_shape);
  unpack_stream(output, image, result, chip);
  return result;
}

/// The layer with operands that are inputs, and so packed as halves: no operand, b, or both.
std::vector<Case> with_inputs(Case layer, MatrixPrecision precision) {
  std::vector<Case> cases = {layer};
  if (precision != MatrixPrecision::kHalf) return cases;
  for (const TensorId operand : {layer.contract().b.tensor, layer.contract().a.tensor}) {
    layer.graph.inputs.push_back(operand);
    cases.push_back(layer);
  }
  return cases;
}
/// All candidates of a layer in a precision against the plain loop.
void check_operands(const Case& layer, MatrixPrecision precision, uint32_t seed, size_t most_candidates) {
  std::mt19937 random(seed);
  std::vector<Tensor> tensors;
  for (const LayerTensor& tensor : layer.graph.tensors)
    tensors.push_back(random_tensor(tensor.shape, random));
  const Expected want = expected(layer, tensors, precision);
  KernelOptions options;
  options.precision = precision;
  const std::vector<Candidate> candidates =
      layer_candidates(layer.graph.layers[0], layer.graph, tiny(), options);
  ASSERT_FALSE(candidates.empty());
  simulator::MachineOptions machine_options;
  machine_options.memory = simulator::MachineOptions::Memory::kDirty;
  machine_options.seed = seed;
  simulator::Machine machine(tiny(), machine_options);
  for (size_t k = 0; k < std::min(most_candidates, candidates.size()); ++k) {
    SCOPED_TRACE(candidates[k].description);
    const Tensor got = run_candidate(candidates[k], layer, tensors, machine);
    const auto values = got.data<float>();
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(values[i], want.value[i], want.bound[i])
          << "element " << i << " of " << shape_to_string(got.shape());
    }
  }
}

void check(const Case& layer, MatrixPrecision precision, uint32_t seed, size_t most_candidates = 2) {
  for (const Case& each : with_inputs(layer, precision))
    check_operands(each, precision, seed, most_candidates);
}

/// tiny with MABs as many as the kernel of rows needs.
const isa::Chip& with_quads() {
  static const isa::Chip chip = [] {
    isa::Chip result = tiny();
    result.mab_per_l1b = 16;
    return result;
  }();
  return chip;
}

/// A Rearrange layer that makes a tensor of parts along axis 1, and their values, `tensors` having its own.
void concatenate(TensorId whole, const std::vector<int64_t>& channels, LayerGraph& graph,
                 std::vector<Tensor>& tensors) {
  RearrangeLayer concat;
  concat.extents = graph.tensors[static_cast<size_t>(whole)].shape;
  const auto images = static_cast<size_t>(concat.extents[0]);
  const auto all = static_cast<size_t>(concat.extents[1]);
  const size_t size = static_cast<size_t>(element_count(concat.extents)) / images / all;
  std::vector<int64_t> begin(concat.extents.size(), 0);
  for (const int64_t count : channels) {
    LayerTensor part;
    part.name = "part" + std::to_string(begin[1]);
    part.shape = concat.extents;
    part.shape[1] = count;
    RearrangeLayer::Piece piece;
    piece.input.tensor = static_cast<TensorId>(graph.tensors.size());
    piece.input.map = AffineMap::identity(begin.size());
    piece.input.map.set_offset(1, -begin[1]);
    piece.begin = begin;
    piece.end = concat.extents;
    piece.end[1] = begin[1] + count;
    Tensor values(DataType::kFloat32, part.shape);
    const auto from = tensors[static_cast<size_t>(whole)].data<float>();
    for (size_t image = 0; image < images; ++image) {
      const auto part_size = static_cast<size_t>(count) * size;
      std::copy_n(from.begin() + static_cast<ptrdiff_t>((image * all + static_cast<size_t>(begin[1])) * size),
                  part_size, values.data<float>().begin() + static_cast<ptrdiff_t>(image * part_size));
    }
    begin[1] = piece.end[1];
    concat.pieces.push_back(std::move(piece));
    graph.tensors.push_back(std::move(part));
    tensors.push_back(std::move(values));
  }
  Layer layer;
  layer.name = "concat";
  layer.outputs = {whole};
  layer.body = std::move(concat);
  graph.layers.push_back(std::move(layer));
}

const std::string kLinesOfLanes = "L1B lanes";
const std::string kSumsOfL2bs = "L2B input channels";

/// Candidates of a kernel of rows, of three one by default, others for another seed; tensor `constant` is the
/// matrix, -1: none is. There are at least `least`. With `parts`, the operand is concatenated of tensors with
/// so many channels, and only those that read them run. With `wanted`, L2Bs have eight L1Bs, and those run
/// whose description has it: of lanes also what others are cheaper than.
void check_rows(Case layer, TensorId constant, uint32_t seed, size_t least = 1,
                const std::vector<int64_t>& parts = {}, const char* kernel = "contract-rows",
                MatrixPrecision precision = MatrixPrecision::kGFloat, const std::string& wanted = "") {
  isa::Chip chip = with_quads();
  if (!wanted.empty()) chip.l1b_per_l2b = 8;
  std::mt19937 random(seed);
  std::vector<Tensor> tensors;
  for (const LayerTensor& tensor : layer.graph.tensors)
    tensors.push_back(random_tensor(tensor.shape, random));
  if (constant >= 0)
    layer.graph.tensors[static_cast<size_t>(constant)].constant = tensors[static_cast<size_t>(constant)];
  const Expected want = expected(layer, tensors, precision);
  if (!parts.empty()) concatenate(1 - constant, parts, layer.graph, tensors);
  std::vector<Candidate> candidates;
  if (wanted == kLinesOfLanes) {
    auto problem = depthwise_problem(layer.contract(), layer.graph.layers[0].outputs[0], layer.graph);
    ASSERT_TRUE(problem);
    if (!parts.empty()) problem->in = concatenated_picture(problem->in, layer.graph).value();
    for (RowsOption& option : window_lanes_options(*problem, chip, "lanes"))
      candidates.push_back(std::move(option.candidate));
  } else if (wanted.starts_with("lanes")) {
    const auto problem = rows_problem(layer.contract(), layer.graph.layers[0].outputs[0], layer.graph, 0);
    ASSERT_TRUE(problem);
    for (RowsOption& option : lanes_options(*problem, chip, precision, "lanes"))
      candidates.push_back(std::move(option.candidate));
  } else if (wanted == kSumsOfL2bs) {
    const auto problem = rows_problem(layer.contract(), layer.graph.layers[0].outputs[0], layer.graph, 0);
    ASSERT_TRUE(problem);
    for (RowsOption& option : rows_options(*problem, chip, precision, "sums"))
      candidates.push_back(std::move(option.candidate));
  } else {
    KernelOptions options;
    options.precision = precision;
    candidates = find_kernel(kernel).run(layer.graph.layers[0], layer.graph, chip, options);
  }
  std::erase_if(candidates, [&](const Candidate& candidate) {
    return candidate.description.find(wanted) == std::string::npos;
  });
  std::erase_if(candidates, [&](const Candidate& candidate) {
    return candidate.placements.size() !=
           layer.contract().epilogue_inputs.size() + std::max<size_t>(1, parts.size()) + 2;
  });
  ASSERT_GE(candidates.size(), least);
  simulator::MachineOptions machine_options;
  machine_options.memory = simulator::MachineOptions::Memory::kDirty;
  machine_options.seed = seed;
  simulator::Machine machine(chip, machine_options);
  for (size_t number = 0; number < candidates.size(); ++number) {
    if (number > 0 && !isa::one_of(5, number + seed)) continue;
    const Candidate& candidate = candidates[number];
    SCOPED_TRACE(candidate.description);
    // Layouts of streams name PE memory, which has room for short ones only.
    const auto is_short = [&](const StreamPlacement& stream) {
      return stream.length_lw <= layout::memory_size_lw(layout::Memory::kLm1, chip);
    };
    if (std::ranges::all_of(candidate.placements, is_short))
      verify_candidate(candidate, layer.graph.layers[0], layer.graph, chip);
    const Tensor got = run_candidate(candidate, layer, tensors, machine);
    const auto values = got.data<float>();
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(values[i], want.value[i], want.bound[i])
          << "element " << i << " of " << shape_to_string(got.shape());
    }
    if (!candidate.emit_backwards) continue;
    Candidate backwards = candidate;
    backwards.emit = candidate.emit_backwards;
    EXPECT_TRUE(run_candidate(backwards, layer, tensors, machine) == got) << "backwards, other bits";
  }
}

/// relu(conv + bias + x), x shaped like the result.
Case conv_and_add(const ConvSizes& sizes) {
  Case plain = conv(sizes);
  ContractLayer contract = plain.contract();
  TensorAccess beside;
  beside.map = contract.output;
  contract.epilogue_inputs.push_back(beside);
  ScalarExpr sum;
  const int biased = sum.apply(ScalarOp::kAdd, sum.input(0), sum.input(1));
  sum.apply(ScalarOp::kRelu, sum.apply(ScalarOp::kAdd, biased, sum.input(2)));
  contract.epilogue = sum;
  const auto& tensors = plain.graph.tensors;
  const Shape result = contract.output_shape;
  return make_case(std::move(contract), tensors[0].shape, tensors[1].shape, {tensors[2].shape, result});
}

TEST(Rows, Convolution) {
  check_rows(conv({1, 1, 64, 64, 8, 8, 3, 1, 1, 1}), 0, 1, 4);
}
TEST(Rows, ChannelsAndColumnsThatFillNothing) {
  check_rows(conv({1, 1, 19, 37, 9, 7, 3, 1, 1, 1}), 0, 2);
}
TEST(Rows, StrideDilationAndPads) {
  check_rows(conv({1, 1, 33, 32, 21, 18, 3, 2, 2, 2}), 0, 3);
}
TEST(Rows, MoreRowsOutsideThanInside) {
  check_rows(conv({1, 1, 8, 8, 5, 5, 5, 1, 1, 4}), 0, 4);
}
TEST(Rows, MatricesThatComeSetBySet) {
  check_rows(conv({1, 1, 512, 1088, 1, 8, 1, 1, 1, 0}), 0, 40, 1, {}, "", MatrixPrecision::kGFloat, "lanes");
}
TEST(Rows, Images) {
  check_rows(conv_and_add({3, 1, 32, 64, 6, 5, 3, 1, 1, 1}), 0, 5);
}
TEST(Rows, Residual) {
  check_rows(conv_and_add({1, 1, 64, 32, 11, 7, 3, 1, 1, 1}), 0, 6);
}
TEST(Rows, ManyInputChannels) {
  check_rows(conv_and_add({2, 1, 64, 32, 9, 7, 3, 1, 1, 1}), 0, 10);
  check_rows(conv({1, 1, 128, 32, 9, 8, 3, 2, 1, 1}), 0, 11);
}
TEST(Rows, OnePosition) {
  check_rows(conv({1, 1, 64, 96, 9, 9, 1, 2, 1, 0}), 0, 7);
}
TEST(Rows, FewColumns) {
  check_rows(conv({1, 1, 40, 32, 8, 3, 1, 1, 1, 0}), 0, 16);
  check_rows(conv({1, 1, 40, 32, 9, 5, 3, 2, 1, 0}), 0, 17);
  check_rows(conv({1, 1, 3, 32, 9, 5, 3, 2, 1, 0}), 0, 18);
  check_rows(conv({1, 1, 928, 64, 8, 8, 1, 1, 1, 0}), 0, 41, 1, {}, "", MatrixPrecision::kGFloat, "lanes");
}
TEST(Rows, Lanes) {
  uint32_t seed = 60;
  const auto check_lanes = [&](const Case& layer, size_t least) {
    check_rows(layer, 0, seed++, least, {}, "", MatrixPrecision::kGFloat, "lanes");
  };
  check_lanes(conv({1, 1, 64, 64, 6, 16, 3, 1, 1, 1}), 2);
  check_lanes(conv_and_add({1, 1, 40, 128, 5, 14, 1, 1, 1, 0}), 2);
  // One, or three, chunks of results; an odd number of columns to a lane.
  check_lanes(conv_and_add({1, 1, 40, 32, 4, 28, 3, 1, 1, 1}), 1);
  check_lanes(conv_and_add({1, 1, 32, 90, 3, 28, 1, 1, 1, 0}), 1);
  // Several rows to an L2B, of 7 units of a chunk each.
  check_lanes(conv_and_add({1, 1, 32, 90, 20, 28, 1, 1, 1, 0}), 1);
  check_lanes(conv({2, 1, 33, 96, 4, 18, 3, 1, 1, 1}), 1);
  // Strides, dilations, padding that differs from half of the kernel.
  check_lanes(conv({1, 1, 64, 64, 8, 32, 3, 2, 1, 1}), 1);
  check_lanes(conv({1, 1, 32, 32, 9, 24, 1, 2, 1, 0}), 1);
  check_lanes(conv_and_add({1, 1, 20, 64, 7, 20, 3, 1, 2, 2}), 1);
  // Lanes of results aren't over those of the operand, or there are none.
  check_lanes(conv({1, 1, 32, 64, 8, 28, 3, 2, 1, 1}), 0);
  check_lanes(conv({1, 1, 32, 64, 8, 5, 3, 1, 1, 1}), 0);
}
/// Few channels: overlapping windows of a line, over one chunk or two, of two to eight channels.
TEST(Rows, PackedLanes) {
  uint32_t seed = 90;
  for (const ConvSizes& sizes :
       {ConvSizes{1, 1, 3, 64, 12, 28, 5, 2, 1, 2}, ConvSizes{1, 1, 2, 32, 9, 16, 3, 1, 1, 1},
        ConvSizes{1, 1, 3, 40, 11, 28, 7, 2, 1, 3}, ConvSizes{1, 1, 8, 16, 8, 13, 5, 1, 1, 2},
        ConvSizes{1, 1, 3, 32, 27, 64, 11, 4, 1, 2}})
    check_rows(conv_and_add(sizes), 0, seed++, 1, {}, "", MatrixPrecision::kGFloat, "lanes, packed");
}
/// Stacks of chunks: whole ones, single chunks, some that are not full. Of `share` layers one.
void check_precisions(uint32_t share) {
  uint32_t seed = 160;
  for (const auto precision : {MatrixPrecision::kHalf, MatrixPrecision::kFloat, MatrixPrecision::kGFloat}) {
    const auto check = [&](const Case& layer, const char* wanted, size_t least = 1,
                           const std::vector<int64_t>& parts = {}) {
      SCOPED_TRACE(wanted);
      if (++seed % share == 0) check_rows(layer, 0, seed, least, parts, "contract-rows", precision, wanted);
    };
    check(conv_and_add({1, 1, 64, 64, 8, 8, 3, 1, 1, 1}), "L1B rows");
    check(conv({1, 1, 96, 96, 9, 7, 1, 1, 1, 0}), "L1B rows");
    check(conv_and_add({1, 1, 37, 160, 1, 4, 1, 1, 1, 0}), "L1B channels");
    check(conv_and_add({2, 1, 128, 32, 9, 7, 3, 1, 1, 1}), "L1B input channels");
    check(conv({1, 1, 220, 64, 5, 14, 1, 1, 1, 0}), "");
    check(conv({1, 1, 512, 96, 3, 4, 3, 1, 1, 1}), "L1B input channels");
    check(conv_and_add({1, 1, 64, 128, 5, 14, 3, 1, 1, 1}), "lanes");
    check(conv_and_add({1, 1, 40, 128, 5, 14, 1, 1, 1, 0}), "lanes");
    check(conv_and_add({1, 1, 96, 90, 4, 28, 3, 1, 1, 1}), "lanes");
    check(conv({1, 1, 96, 64, 8, 32, 3, 2, 1, 1}), "lanes");
    check(conv_and_add({1, 1, 3, 64, 12, 28, 5, 2, 1, 2}), "lanes, packed");
    check(conv_and_add({1, 1, 8, 16, 8, 13, 5, 1, 1, 2}), "lanes, packed");
    check(conv({1, 1, 128, 40, 8, 8, 3, 1, 1, 1}), "", 1, {32, 32, 64});
    check(conv({1, 1, 133, 32, 9, 7, 3, 2, 1, 1}), "", 1, {64, 64, 5});
  }
}
TEST(Rows, Precisions) {
  check_precisions(3);
}
TEST(Rows, NightlyPrecisions) {
  check_precisions(1);
}
/// L1Bs that have channels of results, or of the operand, needn't all have some.
TEST(Rows, SomeL1bsHaveChannels) {
  const auto check = [](const Case& layer, uint32_t seed, const char* wanted) {
    check_rows(layer, 0, seed, 1, {}, "contract-rows", MatrixPrecision::kGFloat, wanted);
  };
  check(conv_and_add({1, 1, 32, 90, 1, 4, 1, 1, 1, 0}), 80, "L1B channels");
  check(conv({1, 1, 96, 32, 2, 4, 3, 1, 1, 1}), 81, "L1B input channels");
  check(conv({1, 1, 480, 32, 2, 14, 1, 1, 1, 0}), 83, "L1B input channels");
  // Channels of both an L2B and an L1B.
  check(conv_and_add({1, 1, 32, 192, 1, 4, 1, 1, 1, 0}), 82, "L2B channels, L1B channels");
}
/// Where L1Bs have input channels, what all of them make is added up: those that have none must not multiply
/// what L1BM was left with, which may be infinite. (Matrices that are loaded would leave zeros there,
/// matrices that stay don't.)
TEST(Rows, L1bsWithoutChannelsTakeRows) {
  isa::Chip chip = with_quads();
  chip.l1b_per_l2b = 8;
  const Case layer = conv({1, 1, 96, 32, 2, 4, 3, 1, 1, 1});
  LayerGraph graph = layer.graph;
  std::mt19937 random(84);
  graph.tensors[0].constant = random_tensor(graph.tensors[0].shape, random);
  size_t loads = 0;
  for (const Candidate& candidate : find_kernel("contract-rows").run(graph.layers[0], graph, chip, {})) {
    if (candidate.description.find("L1B input channels") == std::string::npos) continue;
    const TileProgram program = candidate.emit(std::vector<int64_t>(candidate.placements.size(), 0));
    for (const TileNode& node : program.body) {
      const auto* load = std::get_if<LoadRows>(&node.kind);
      if (load == nullptr || !load->normalize) continue;
      ++loads;
      EXPECT_EQ(std::ssize(load->l1b_at), chip.l1b_per_l2b);
    }
  }
  EXPECT_GT(loads, 0U);
}
/// Groups: sections of whole chunks, of several groups or of one; where there are none, all is one. L2Bs need
/// not have as many. Of `share` layers one.
void check_groups(uint32_t share) {
  uint32_t seed = 150;
  auto precision = MatrixPrecision::kGFloat;
  const auto check = [&](const Case& layer, const char* wanted, size_t least = 1) {
    SCOPED_TRACE(seed);
    if (++seed % share == 0) check_rows(layer, 0, seed, least, {}, "contract-rows", precision, wanted);
  };
  check(conv_and_add({1, 8, 12, 8, 6, 9, 3, 2, 1, 1}), "L1B rows");  // 3 chunks make 2
  check(conv({1, 5, 24, 24, 5, 8, 1, 1, 1, 0}), "L1B rows");         // no whole sections
  check(conv_and_add({1, 4, 32, 64, 1, 6, 3, 1, 1, 1}), "L1B sections");
  check(conv({2, 24, 8, 16, 3, 7, 3, 1, 1, 1}), "L1B sections");
  check(conv_and_add({1, 16, 8, 8, 7, 14, 3, 1, 1, 1}), "lanes", 4);  // two sections side by side
  check(conv({1, 4, 64, 32, 6, 16, 3, 2, 1, 1}), "lanes", 2);
  check(conv_and_add({1, 2, 64, 64, 5, 12, 3, 1, 1, 1}), "lanes", 2);
  check(conv_and_add({1, 6, 16, 16, 6, 16, 1, 1, 1, 0}), "lanes");  // an odd number of chunks
  check(conv({1, 4, 24, 24, 6, 12, 3, 1, 1, 1}), "lanes");
  precision = MatrixPrecision::kHalf;  // no stacks
  check(conv_and_add({1, 4, 32, 64, 1, 6, 3, 1, 1, 1}), "L1B sections");
  check(conv_and_add({1, 16, 8, 8, 7, 14, 3, 1, 1, 1}), "lanes", 4);
  check(conv_and_add({1, 2, 64, 64, 5, 12, 3, 1, 1, 1}), "lanes", 2);
}
TEST(Rows, Groups) {
  check_groups(2);
  check_rows(conv_and_add({1, 7, 32, 32, 3, 8, 3, 1, 1, 1}), 0, 170, 1, {}, "contract-rows", {}, "L2B chan");
  check_rows(conv({1, 3, 32, 64, 4, 8, 3, 1, 1, 1}), 0, 171, 3, {}, "contract-rows", {}, "lanes");
  check_rows(conv({1, 28, 16, 24, 3, 8, 1, 1, 1, 0}), 0, 172, 0, {}, "contract-rows", {}, "lanes");
}
TEST(Rows, NightlyGroups) {
  check_groups(1);
}
/// Lines of lanes: of one chunk or two side by side, alone in a pair's place, over all kinds of edges.
TEST(Rows, DepthwiseLanes) {
  uint32_t seed = 120;
  const auto check_lanes = [&](const Case& layer, size_t least, const std::vector<int64_t>& parts = {}) {
    check_rows(layer, 0, seed++, least, parts, "depthwise-rows", MatrixPrecision::kFloat, kLinesOfLanes);
  };
  check_lanes(conv({1, 64, 1, 1, 8, 16, 3, 1, 1, 1}), 2);
  check_lanes(conv_and_add({1, 128, 1, 1, 7, 14, 3, 1, 1, 1}), 2);
  check_lanes(conv({1, 96, 1, 1, 11, 32, 3, 2, 1, 1}), 1);  // single lines, every second column
  check_lanes(conv({1, 37, 1, 1, 9, 16, 3, 2, 1, 1}), 1);
  check_lanes(conv_and_add({2, 96, 1, 1, 7, 7, 5, 1, 1, 1}), 0);   // lanes of results are others
  check_lanes(conv_and_add({2, 96, 1, 1, 5, 28, 5, 1, 1, 2}), 1);  // odd groups: alone
  check_lanes(conv({1, 32, 1, 1, 15, 48, 3, 3, 1, 1}), 1);         // every third column: alone
  check_lanes(conv({1, 64, 1, 1, 15, 48, 3, 3, 2, 2}), 1);
  check_lanes(conv_and_add({1, 40, 1, 1, 6, 24, 7, 1, 1, 3}), 1);
  check_lanes(conv_and_add({1, 160, 1, 1, 9, 11, 3, 1, 2, 2}), 1);
  check_lanes(conv({1, 64, 1, 1, 12, 16, 1, 2, 1, 0}), 1);          // columns that nobody reads
  check_lanes(conv({1, 96, 1, 1, 6, 7, 3, 1, 1, 1}), 0, {32, 64});  // values of uneven lines
  check_lanes(conv_and_add({1, 128, 1, 1, 6, 12, 3, 1, 1, 1}), 0, {64, 64});
  check_lanes(conv({1, 128, 1, 1, 6, 12, 3, 1, 1, 1}), 1, {64, 64});
}
TEST(Rows, Depthwise) {
  uint32_t seed = 20;
  const auto check_depthwise = [&](const Case& layer, const std::vector<int64_t>& parts = {}) {
    check_rows(layer, 0, seed++, 1, parts, "depthwise-rows", MatrixPrecision::kFloat);
  };
  check_depthwise(conv({1, 64, 1, 1, 8, 8, 3, 1, 1, 1}));
  check_depthwise(conv({1, 37, 1, 1, 11, 9, 3, 2, 1, 1}));
  check_depthwise(conv_and_add({2, 96, 1, 1, 7, 7, 5, 1, 1, 2}));
  check_depthwise(conv_and_add({1, 33, 1, 1, 15, 13, 3, 3, 2, 3}));
  check_depthwise(conv_and_add({1, 40, 1, 1, 6, 24, 3, 1, 1, 1}));
  // Too few columns to share them.
  check_depthwise(conv_and_add({1, 40, 1, 1, 9, 4, 3, 1, 1, 1}));
  check_depthwise(conv({1, 37, 1, 1, 11, 8, 3, 2, 1, 1}));
  check_depthwise(conv({1, 96, 1, 1, 6, 7, 3, 1, 1, 1}), {32, 64});
  check_depthwise(conv({1, 96, 1, 1, 6, 27, 3, 2, 1, 1}), {32, 64});
}
TEST(Rows, WindowsLeaveRoomForConstants) {
  const isa::Chip chip = isa::find_chip("mncore2");
  Case layer = conv({1, 1, 3, 64, 224, 224, 7, 2, 1, 3});
  layer.graph.tensors[0].constant = Tensor(DataType::kFloat32, layer.graph.tensors[0].shape);
  // LW of the windows of the fastest candidate.
  const auto windows = [&](bool constants_stay) {
    KernelOptions options;
    options.constants_stay = constants_stay;
    const auto candidates =
        find_kernel("contract-rows").run(layer.graph.layers[0], layer.graph, chip, options);
    const auto best = std::ranges::min_element(candidates, {}, &Candidate::predicted_cycles);
    const TileProgram program = best->emit(std::vector<int64_t>(best->placements.size(), 0));
    return std::ranges::find(program.buffers, "windows", &TileBuffer::name)->size_lw;
  };
  const int64_t third = chip.memory.lm_words / isa::kWordsPerLong / 3;
  EXPECT_GT(windows(false), third);
  EXPECT_LE(windows(true), third);
}
TEST(Rows, ConcatenatedOperands) {
  check_rows(conv({1, 1, 64, 40, 8, 8, 3, 1, 1, 1}), 0, 12, 1, {32, 32});
  check_rows(conv_and_add({2, 1, 133, 32, 9, 7, 3, 2, 1, 1}), 0, 13, 1, {32, 32, 64, 5});
  check_rows(conv({1, 1, 128, 32, 6, 7, 1, 1, 1, 0}), 0, 14, 1, {64, 64});
  // A chunk would have channels of two parts.
  check_rows(conv({1, 1, 64, 32, 8, 8, 1, 1, 1, 0}), 0, 15, 0, {16, 48});
}
TEST(Rows, Matrices) {
  check_rows(matmul(0, 37, 64, 96), 1, 8);
  check_rows(matmul(0, 5, 45, 33), 1, 9);
}
/// matmul with b[n, b, k] and its result scaled, plus x[m, n] of all batch entries.
Case attention(int64_t batch, int64_t m, int64_t k, int64_t n) {
  Case plain = matmul(batch, m, k, n);
  ContractLayer contract = plain.contract();
  contract.b.map = AffineMap(3, 4);
  contract.b.map.set(0, 2, 1).set(1, 0, 1).set(2, 3, 1);
  TensorAccess mask;
  mask.map = AffineMap(2, 4);
  mask.map.set(0, 1, 1).set(1, 2, 1);
  contract.epilogue_inputs = {mask};
  ScalarExpr scaled;
  const int product = scaled.apply(ScalarOp::kMul, scaled.input(0), scaled.constant(0.25));
  scaled.apply(ScalarOp::kAdd, product, scaled.input(1));
  contract.epilogue = scaled;
  const Shape a = plain.graph.tensors[0].shape;
  return make_case(std::move(contract), a, {n, batch, k}, {{m, n}});
}
/// L2Bs have input channels: L1Bs lanes, output channels, or input channels.
TEST(Rows, SumsOfL2bs) {
  uint32_t seed = 160;
  const auto check_sums = [&](const Case& layer, size_t least, MatrixPrecision precision,
                              TensorId constant = 0) {
    check_rows(layer, constant, seed++, least, {}, "", precision, kSumsOfL2bs);
  };
  const auto gfloat = MatrixPrecision::kGFloat;
  check_sums(conv({1, 1, 128, 64, 8, 16, 1, 1, 1, 0}), 2, gfloat);
  check_sums(conv_and_add({1, 1, 128, 64, 7, 14, 3, 1, 1, 1}), 2, gfloat);
  // Odd chunks; L2Bs that have a chunk less, rows that nobody has; images.
  check_sums(conv({1, 1, 96, 96, 5, 7, 1, 1, 1, 0}), 2, gfloat);
  // An L2B without channels; more images than rows; strides.
  check_sums(conv_and_add({1, 1, 180, 96, 6, 13, 3, 1, 1, 1}), 1, gfloat);
  check_sums(conv_and_add({5, 1, 1024, 40, 3, 4, 1, 1, 1, 0}), 1, gfloat);
  check_sums(conv({1, 1, 128, 256, 17, 30, 1, 2, 1, 0}), 1, gfloat);
  check_sums(conv_and_add({3, 1, 210, 32, 9, 9, 1, 1, 1, 0}), 1, gfloat);
  check_sums(conv({2, 1, 256, 256, 4, 8, 3, 2, 1, 1}), 2, gfloat);
  check_sums(conv({1, 1, 512, 32, 2, 5, 1, 1, 1, 0}), 1, gfloat);
  // Of tokens.
  check_sums(matmul(0, 37, 256, 96), 2, gfloat, 1);
  check_sums(attention(1, 37, 256, 64), 2, gfloat, 1);
  for (const auto precision : {MatrixPrecision::kHalf, MatrixPrecision::kFloat})
    check_sums(conv_and_add({1, 1, 128, 40, 8, 12, 3, 1, 1, 1}), 2, precision);
}
/// Of tokens [b, m, h, k] and [b, n, h, k], with a result [b, h, m, n].
Case heads(int64_t batch, int64_t heads, int64_t m, int64_t k, int64_t n) {
  ContractLayer contract;
  contract.dims = {{"b", batch, Role::kBatch},
                   {"h", heads, Role::kBatch},
                   {"m", m, Role::kM},
                   {"n", n, Role::kN},
                   {"k", k, Role::kK}};
  contract.a.map = AffineMap(4, 5);
  contract.a.map.set(0, 0, 1).set(1, 2, 1).set(2, 1, 1).set(3, 4, 1);
  contract.b.map = AffineMap(4, 5);
  contract.b.map.set(0, 0, 1).set(1, 3, 1).set(2, 1, 1).set(3, 4, 1);
  contract.output = AffineMap(4, 5);
  contract.output.set(0, 0, 1).set(1, 1, 1).set(2, 2, 1).set(3, 3, 1);
  contract.output_shape = {batch, heads, m, n};
  return make_case(std::move(contract), {batch, m, heads, k}, {batch, n, heads, k});
}
void check_matmul(const Case& layer, uint32_t seed, size_t least = 2) {
  check_rows(layer, -1, seed, least, {}, "matmul-rows");
}
TEST(Rows, MatmulOfTwoTensors) {
  check_matmul(matmul(0, 64, 64, 64), 20);
  check_matmul(matmul(4, 32, 32, 64), 21);
  check_matmul(matmul(3, 37, 45, 33), 22);
  check_matmul(matmul(5, 1, 70, 100), 23);
  check_matmul(matmul(2, 12, 1100, 30), 24);
}
TEST(Rows, Attention) {
  check_matmul(attention(4, 64, 32, 64), 25);
  check_matmul(attention(3, 49, 40, 77), 26);
  // Rows and columns, images or heads first.
  check_matmul(heads(2, 4, 16, 32, 24), 27, 2);
  check_matmul(heads(3, 2, 9, 40, 35), 28, 2);
  // L2Bs have several heads, in rows of their own or inside rows.
  check_matmul(heads(1, 12, 13, 64, 21), 29, 4);
  check_matmul(heads(1, 10, 21, 40, 70), 30, 4);
  check_matmul(heads(2, 6, 1, 32, 33), 31, 4);
  // Images dealt to groups.
  check_matmul(heads(2, 4, 14, 40, 33), 32, 8);
}
TEST(Rows, WeightsThatTheHostSends) {
  Case layer = conv({2, 1, 40, 70, 9, 11, 3, 1, 1, 1});
  layer.graph.inputs = {0};
  check_rows(layer, -1, 40);
}
TEST(Rows, RandomConvolutions) {
  std::mt19937 random(7);
  const auto between = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (uint32_t round = 0; round < 2; ++round) {
    SCOPED_TRACE(round);
    const int64_t kernel = between(1, 4);
    const int64_t stride = between(1, 3);
    const int64_t dilation = between(1, 2);
    check_rows(conv_and_add({between(1, 3), 1, between(1, 80), between(1, 80), between(12, 20),
                             between(12, 20), kernel, stride, dilation, between(0, 3)}),
               0, round, 0);
  }
}
TEST(Rows, WhatItDoesNotDo) {
  const auto none = [](const Case& layer) {
    return find_kernel("contract-rows").run(layer.graph.layers[0], layer.graph, with_quads(), {}).empty();
  };
  Case layer = conv({1, 1, 32, 32, 8, 3, 3, 1, 1, 1});  // windows over rows shorter than a vector
  layer.graph.tensors[0].constant = Tensor(DataType::kFloat32, layer.graph.tensors[0].shape);
  EXPECT_TRUE(none(layer));
  EXPECT_TRUE(none(matmul(0, 8, 32, 32)));  // two operands that layers make
  EXPECT_TRUE(find_kernel("contract-rows")
                  .run(matmul(0, 8, 32, 32).graph.layers[0], layer.graph, tiny(), {})
                  .empty());
}

class Contract : public testing::TestWithParam<MatrixPrecision> {};
INSTANTIATE_TEST_SUITE_P(Precisions, Contract,
                         testing::Values(MatrixPrecision::kGFloat, MatrixPrecision::kFloat,
                                         MatrixPrecision::kHalf),
                         [](const auto& info) { return matrix_precision_name(info.param); });

TEST_P(Contract, SmallestMatmul) {
  check(matmul(0, 1, 1, 1), GetParam(), 1);
}
TEST_P(Contract, OneBlock) {
  check(matmul(0, 8, 8, 4), GetParam(), 2);
}
TEST_P(Contract, Matmul) {
  check(matmul(0, 37, 53, 29), GetParam(), 3);
}
TEST_P(Contract, LargerMatmul) {
  check(matmul(0, 130, 300, 210), GetParam(), 4);
}
TEST_P(Contract, LongInner) {
  check(matmul(0, 3, 20000, 2), GetParam(), 5);
}
TEST_P(Contract, VectorTimesMatrix) {
  check(matmul(0, 1, 200, 1000), GetParam(), 6);
}
TEST_P(Contract, BatchedMatmul) {
  check(matmul(13, 17, 5, 9), GetParam(), 7);
}
TEST_P(Contract, Convolution) {
  check(conv({2, 1, 3, 10, 9, 11, 3, 2, 1, 1}), GetParam(), 8);
}
TEST_P(Contract, GroupedDilatedConvolution) {
  check(conv({1, 3, 2, 5, 12, 8, 3, 1, 2, 2}), GetParam(), 9);
}
TEST_P(Contract, RandomLayers) {
  std::mt19937 random(99);
  const auto between = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (uint32_t round = 0; round < 6; ++round) {
    SCOPED_TRACE(round);
    if (round % 2 == 0) {
      check(matmul(between(0, 4), between(1, 70), between(1, 70), between(1, 70)), GetParam(), round, 4);
    } else {
      check(conv({between(1, 2), between(1, 3), between(1, 4), between(1, 9), between(5, 9), between(5, 9),
                  between(1, 3), between(1, 2), between(1, 2), between(0, 2)}),
            GetParam(), round, 4);
    }
  }
}

/// Candidates that stream, and those of them with parts, and with L2Bs that exchange an operand.
struct Streamed {
  int all = 0, with_parts = 0, exchanged = 0;
};
/// Runs and counts those of a layer.
void check_streamed(const Case& layer, const isa::Chip& chip, Streamed& checked,
                    MatrixPrecision precision = MatrixPrecision::kGFloat) {
  std::mt19937 random(30);
  std::vector<Tensor> tensors;
  for (const LayerTensor& tensor : layer.graph.tensors)
    tensors.push_back(random_tensor(tensor.shape, random));
  const Expected want = expected(layer, tensors, precision);
  simulator::MachineOptions machine_options;
  machine_options.memory = simulator::MachineOptions::Memory::kDirty;
  simulator::Machine machine(chip, machine_options);
  for (const Candidate& candidate :
       find_kernel("contract-mau").run(layer.graph.layers[0], layer.graph, chip, {precision})) {
    if (candidate.description.find("streamed") == std::string::npos) continue;
    SCOPED_TRACE(candidate.description);
    ++checked.all;
    checked.with_parts += candidate.description.find("parts") != std::string::npos ? 1 : 0;
    checked.exchanged += std::ranges::any_of(candidate.placements, [](const StreamPlacement& each) {
      return each.transport.l2b_mode() == layout::L2bMode::kExchanged;
    });
    verify_candidate(candidate, layer.graph.layers[0], layer.graph, chip);
    const Tensor got = run_candidate(candidate, layer, tensors, machine);
    const auto values = got.data<float>();
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(values[i], want.value[i], want.bound[i]) << "element " << i;
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(Contract, StreamedProducts) {
  // Sums in one register file and in two; several tiles; pieces in a loop, and few of them.
  Streamed checked;
  for (const Case& layer : {matmul(0, 160, 90, 416), matmul(0, 100, 21, 60), matmul(2, 70, 130, 40),
                            conv({1, 1, 32, 96, 16, 16, 1, 1, 1, 0})})
    check_streamed(layer, tiny(), checked);
  EXPECT_GE(checked.all, 4);
  // Few registers: sums are parked in the local memories.
  isa::Chip small = tiny();
  small.memory.grf_words = 160;
  checked = {};
  for (const Case& layer : {matmul(0, 128, 120, 128), matmul(0, 256, 40, 60)})
    check_streamed(layer, small, checked);
  EXPECT_GE(checked.with_parts, 2);
  small.memory.grf_words = 256;
  checked = {};
  for (const Case& layer : with_inputs(matmul(0, 160, 150, 160), MatrixPrecision::kHalf))
    check_streamed(layer, small, checked, MatrixPrecision::kHalf);
  EXPECT_GE(checked.with_parts, 3);
}
TEST(Contract, StreamedProductsWithExchanges) {
  for (const int groups : {2, 4}) {
    isa::Chip chip = tiny();
    chip.groups = groups;
    Streamed checked;
    for (const Case& layer : {matmul(0, 64, 470, 120), matmul(0, 250, 128, 160)})
      check_streamed(layer, chip, checked);
    EXPECT_GE(checked.exchanged, 2) << groups << " groups";
  }
}
TEST(Contract, PredictionIsNearTheSimulatedTime) {
  const Case layer = matmul(0, 128, 256, 192);
  std::mt19937 random(3);
  std::vector<Tensor> tensors;
  for (const LayerTensor& tensor : layer.graph.tensors)
    tensors.push_back(random_tensor(tensor.shape, random));
  for (const Candidate& candidate : layer_candidates(layer.graph.layers[0], layer.graph, tiny(), {})) {
    SCOPED_TRACE(candidate.description);
    verify_candidate(candidate, layer.graph.layers[0], layer.graph, tiny());
    simulator::Machine machine(tiny());
    simulator::RunStats stats;
    run_candidate(candidate, layer, tensors, machine, &stats);
    RecordProperty("predicted", static_cast<int>(candidate.predicted_cycles));
    RecordProperty("simulated", static_cast<int>(stats.cycles()));
    EXPECT_LT(stats.cycles(), 2 * candidate.predicted_cycles) << stats.steps << " steps";
    EXPECT_GT(stats.cycles(), candidate.predicted_cycles / 2) << stats.steps << " steps";
  }
}

TEST(StreamImage, EveryElementIsWhereTheTransportSays) {
  std::mt19937 random(5);
  const Case layer = conv({2, 1, 3, 10, 9, 11, 3, 2, 1, 1});
  for (const Candidate& candidate : layer_candidates(layer.graph.layers[0], layer.graph, tiny(), {})) {
    for (const StreamPlacement& placement : candidate.placements) {
      if (placement.is_output) continue;
      const Tensor tensor =
          random_tensor(layer.graph.tensors[static_cast<size_t>(placement.access.tensor)].shape, random);
      const StreamImage image = pack_stream(placement, tensor, tiny());
      std::vector<int64_t> point(placement.extents.size(), 0);
      for (;;) {
        std::vector<int64_t> index;
        for (const std::vector<int>& dims : placement.axis_dims) {
          int64_t flat = 0;
          for (int dim : dims)
            flat = flat * placement.extents[static_cast<size_t>(dim)] + point[static_cast<size_t>(dim)];
          index.push_back(flat);
        }
        const layout::Coordinates first = placement.layout.place(index);
        for (const layout::Coordinates& offset : placement.layout.replica_offsets()) {
          layout::Coordinates at = first;
          for (size_t level = 0; level < layout::kLevelCount; ++level) at.at[level] += offset.at[level];
          const auto place = placement.transport.dram_place(at, placement.length_lw);
          const uint64_t lw =
              image.groups[static_cast<size_t>(place.group)][static_cast<size_t>(place.address)];
          const auto bits = static_cast<uint32_t>(at[layout::Level::kWord] == 0 ? lw >> 32 : lw);
          ASSERT_EQ(std::bit_cast<float>(bits),
                    static_cast<float>(Operand(placement.access, tensor, point, 0).value(0)))
              << placement.name << " " << placement.layout.to_string();
        }
        size_t d = point.size();
        while (d > 0 && ++point[d - 1] == placement.extents[d - 1]) point[--d] = 0;
        if (d == 0) break;
      }
    }
  }
}

TEST(TileProgram, VerifyNamesTheRange) {
  const Case layer = matmul(0, 8, 8, 8);
  const std::vector<Candidate> candidates = layer_candidates(layer.graph.layers[0], layer.graph, tiny(), {});
  ASSERT_FALSE(candidates.empty());
  TileProgram program = candidates[0].emit({0, 4096, 8192});
  EXPECT_NO_THROW(verify_tile_program(program, tiny()));
  program.buffers[0].size_lw = 4;
  try {
    verify_tile_program(program, tiny());
    FAIL();
  } catch (const isa::InternalError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("leaves buffer 'a'"));
  }
}

}  // namespace
}  // namespace kodama::compiler
