#include "compiler/plan/problem_bound.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/kernels/lowering.h"
#include "isa/costs.h"

namespace kodama::compiler {
namespace {

double points_of(const Shape& extents) {
  double points = 1;
  for (const int64_t extent : extents) points *= static_cast<double>(extent);
  return points;
}

/// Adds an expression at each of `points`.
void add_expression(const ScalarExpr& expr, double all_points, ProblemWork& work) {
  const std::vector<ScalarNode>& nodes = expr.nodes();
  const auto node = [&](int k) -> const ScalarNode& { return nodes[static_cast<size_t>(k)]; };
  std::vector<int> readers(nodes.size(), 0);
  for (const ScalarNode& each : nodes) {
    for (int k = 0; k < scalar_op_arity(each.op); ++k)
      ++readers[static_cast<size_t>(each.args[static_cast<size_t>(k)])];
  }
  for (size_t number = 0; number < nodes.size(); ++number) {
    const ScalarNode& each = nodes[number];
    // A long word has two floats, or one double.
    const bool is_double = expr.is_double(static_cast<int>(number));
    const double points = is_double ? 2 * all_points : all_points;
    switch (each.op) {
      case ScalarOp::kInput:
      case ScalarOp::kConstant:
      case ScalarOp::kNeg:
      case ScalarOp::kIntConstant:
      case ScalarOp::kFloatBits:
      case ScalarOp::kFromBits:
      case ScalarOp::kDoubleConstant:
      case ScalarOp::kDoubleInput:
      case ScalarOp::kPair:
      case ScalarOp::kHighWord:
      case ScalarOp::kLowWord:
        break;
      case ScalarOp::kAdd:
      case ScalarOp::kSub: {
        work.mau_operations += points;
        const auto joins = [&](int arg) {
          return node(arg).op == ScalarOp::kMul && readers[static_cast<size_t>(arg)] == 1;
        };
        if (joins(each.args[0]) || joins(each.args[1])) work.mau_operations -= points;
        break;
      }
      case ScalarOp::kMul:
      case ScalarOp::kDiv:
      case ScalarOp::kReciprocal:
      case ScalarOp::kSqrt:
      case ScalarOp::kExp:
      case ScalarOp::kLog:
      case ScalarOp::kTanh:
      case ScalarOp::kSigmoid:
      case ScalarOp::kErf:
      case ScalarOp::kPow:
      case ScalarOp::kWiden:
      case ScalarOp::kNarrow:
        work.mau_operations += points;
        break;
      case ScalarOp::kAbs:
      case ScalarOp::kMax:
      case ScalarOp::kMin:
      case ScalarOp::kRelu:
      case ScalarOp::kFloor:
      case ScalarOp::kSelectNotNegative:
      case ScalarOp::kEqual:
      case ScalarOp::kLess:
      case ScalarOp::kIntAdd:
      case ScalarOp::kIntSub:
      case ScalarOp::kIntMax:
      case ScalarOp::kIntMin:
      case ScalarOp::kUnsignedMax:
      case ScalarOp::kAnd:
      case ScalarOp::kOr:
      case ScalarOp::kXor:
      case ScalarOp::kShiftLeft:
      case ScalarOp::kShiftRight:
      case ScalarOp::kShiftRightSigned:
      case ScalarOp::kIsZero:
      case ScalarOp::kSelect:
      case ScalarOp::kToInt:
      case ScalarOp::kToLong:
        work.alu_operations += points;
        break;
    }
  }
}

/// The share of a constant's elements that aren't on an index of an axis where all others are zeros, too. Of
/// nothing but zeros, all.
double share_in_use(const LayerTensor& tensor) {
  if (!tensor.constant || tensor.constant->type() != DataType::kFloat32) return 1;
  const std::span<const float> values = tensor.constant->data<float>();
  double share = 1;
  size_t inner = values.size();
  for (const int64_t extent : tensor.constant->shape()) {
    if (extent == 0) return 1;
    const auto count = static_cast<size_t>(extent);
    inner /= count;
    const auto has_others = [&](size_t index) {
      for (size_t at = index * inner; at < values.size(); at += count * inner) {
        const auto slice = values.subspan(at, inner);
        if (std::ranges::any_of(slice, [](float value) { return value != 0; })) return true;
      }
      return false;
    };
    size_t used = 0;
    for (size_t index = 0; index < count; ++index) used += has_others(index) ? 1 : 0;
    share *= static_cast<double>(used) / static_cast<double>(count);
  }
  return share > 0 ? share : 1;
}

/// All but DRAM bytes.
ProblemWork operations_of(const Layer& layer, const LayerGraph& graph) {
  ProblemWork work;
  if (const auto* map = std::get_if<MapLayer>(&layer.body)) {
    add_expression(map->expr, points_of(map->extents), work);
  } else if (const auto* reduce = std::get_if<ReduceLayer>(&layer.body)) {
    const double outputs = points_of(reduce->output_extents);
    const double elements = points_of(reduce->reduction_extents);
    add_expression(reduce->expr, outputs * elements, work);
    add_expression(reduce->epilogue, outputs, work);
    const bool compares = reduce->op != ReduceLayer::Op::kSum && reduce->op != ReduceLayer::Op::kProd;
    // The first element of each needs none.
    const double points = reduced_kind(*reduce) == ScalarKind::kDouble ? 2 * outputs : outputs;
    (compares ? work.alu_operations : work.mau_operations) += points * std::max(elements - 1, 0.0);
  } else if (const auto* normalize = std::get_if<NormalizeLayer>(&layer.body)) {
    const double elements = points_of(normalize->extents);
    double rows = 1;
    for (size_t axis = 0; axis < normalize->extents.size(); ++axis)
      rows *= normalize->reduced[axis] ? 1.0 : static_cast<double>(normalize->extents[axis]);
    const std::vector<bool> of_rows = steps_of_rows(normalize->steps, normalize->inputs.size());
    for (size_t k = 0; k < normalize->steps.size(); ++k) {
      const auto& [op, expr] = normalize->steps[k];
      add_expression(expr, of_rows[k] && !op ? rows : elements, work);
      const bool compares = op != ReduceLayer::Op::kSum && op != ReduceLayer::Op::kProd;
      if (op) (compares ? work.alu_operations : work.mau_operations) += elements - rows;
    }
  } else if (const auto* gather = std::get_if<GatherLayer>(&layer.body)) {
    add_expression(gather->epilogue, points_of(gather->extents), work);
  } else if (const auto* contract = std::get_if<ContractLayer>(&layer.body)) {
    work.products = points_of(contract_extents(*contract));
    for (const TensorAccess* operand : {&contract->a, &contract->b})
      work.products *= share_in_use(graph.tensors[static_cast<size_t>(graph.storage(operand->tensor))]);
    add_expression(contract->epilogue, points_of(contract->output_shape), work);
  }
  return work;
}

/// How many elements of each tensor (its storage) a layer reads, at most: no more than the tensor has, and no
/// more than it has points that read another one.
std::map<TensorId, double> elements_read(const Layer& layer, const LayerGraph& graph) {
  std::map<TensorId, double> read;
  const std::vector<const TensorAccess*> accesses = layer_accesses(layer);
  const std::vector<AccessBox> boxes = layer_access_boxes(layer);
  for (size_t k = 0; k < accesses.size(); ++k) {
    const TensorAccess& access = *accesses[k];
    double points = 1;
    for (size_t dim = 0; dim < access.map.dims(); ++dim) {
      const auto extent = static_cast<double>(boxes[k].end[dim] - boxes[k].begin[dim]);
      bool moves = extent <= 0;
      for (size_t axis = 0; axis < access.map.axes(); ++axis)
        moves = moves || access.map.coefficient(axis, dim) != 0;
      if (moves) points *= extent;
    }
    // Of a table, what results there are.
    if (const auto* gather = std::get_if<GatherLayer>(&layer.body))
      points = std::min(points, points_of(gather->extents));
    const TensorId storage = graph.storage(access.tensor);
    const LayerTensor& tensor = graph.tensors[static_cast<size_t>(storage)];
    double& most = read[storage];
    most = std::max(most, std::min(points, points_of(tensor.shape)) * share_in_use(tensor));
  }
  return read;
}

/// Rearranges of types that the chip doesn't have are permutations of the host's.
bool is_on_chip(const Layer& layer, const LayerGraph& graph) {
  if (layer.kind() == LayerKind::kHost) return false;
  return layer.kind() != LayerKind::kRearrange ||
         is_exact_word(graph.tensors[static_cast<size_t>(layer.outputs[0])].type);
}

class Traffic {
 public:
  Traffic(const LayerGraph& graph, const isa::Chip& chip, MatrixPrecision precision)
      : graph_(graph),
        word_bytes_(precision == MatrixPrecision::kHalf ? 2 : 4),
        on_chip_bytes_(2.0 * 4.0 * static_cast<double>(chip.memory.lm_words * chip.pe_count())) {}

  const LayerTensor& tensor(TensorId id) const { return graph_.tensors[static_cast<size_t>(id)]; }
  double bytes(TensorId id, double elements) const {
    // Indices and the like have 32 bits on the chip.
    const size_t most = word_kind(tensor(id).type) ? word_bytes_ : 4;
    return elements * static_cast<double>(std::min(element_size(tensor(id).type), most));
  }
  double bytes(TensorId id) const { return bytes(id, points_of(tensor(id).shape)); }
  bool fits(TensorId id) const { return bytes(id) <= on_chip_bytes_; }

 private:
  const LayerGraph& graph_;
  size_t word_bytes_;
  double on_chip_bytes_;
};

double loaded_share(const ResidentShares& resident, TensorId id) {
  const auto found = resident.find(id);
  return found == resident.end() ? 1 : 1 - found->second;
}

}  // namespace

ProblemWork problem_work(const Layer& layer, const LayerGraph& graph, const isa::Chip& chip,
                         MatrixPrecision precision, const ResidentShares& resident) {
  if (!is_on_chip(layer, graph)) return {};
  const Traffic traffic(graph, chip, precision);
  ProblemWork work = operations_of(layer, graph);
  for (const auto& [id, elements] : elements_read(layer, graph)) {
    if (traffic.tensor(id).constant || !traffic.fits(id))
      work.dram_bytes += traffic.bytes(id, elements * loaded_share(resident, id));
  }
  const TensorId result = graph.storage(layer.outputs[0]);
  if (!traffic.fits(result) && layer.kind() != LayerKind::kRearrange)
    work.dram_bytes += traffic.bytes(result);
  return work;
}

ProblemWork problem_work(const LayerGraph& graph, const isa::Chip& chip, MatrixPrecision precision,
                         const ResidentShares& resident) {
  const Traffic traffic(graph, chip, precision);
  ProblemWork work;
  std::map<TensorId, double> read;  // elements, by storage
  std::set<TensorId> made;
  std::set<TensorId> rearranged;
  std::set<TensorId> fetched;
  for (const TensorId id : graph.outputs) fetched.insert(graph.storage(id));
  for (const Layer& layer : graph.layers) {
    if (!is_on_chip(layer, graph)) {
      for (const TensorId id : layer_inputs(layer)) {
        if (id >= 0) fetched.insert(graph.storage(id));
      }
      continue;
    }
    const ProblemWork own = operations_of(layer, graph);
    work.products += own.products;
    work.mau_operations += own.mau_operations;
    work.alu_operations += own.alu_operations;
    for (const auto& [id, elements] : elements_read(layer, graph)) read[id] = std::max(read[id], elements);
    const TensorId result = graph.storage(layer.outputs[0]);
    made.insert(result);
    if (layer.kind() == LayerKind::kRearrange) rearranged.insert(result);
  }
  for (const auto& [id, elements] : read) {
    const bool comes_from_dram = !made.contains(id) || (!traffic.fits(id) && !rearranged.contains(id));
    if (comes_from_dram) work.dram_bytes += traffic.bytes(id, elements * loaded_share(resident, id));
  }
  for (const TensorId id : made) {
    const bool goes_to_dram =
        fetched.contains(id) || (read.contains(id) && !traffic.fits(id) && !rearranged.contains(id));
    if (goes_to_dram) work.dram_bytes += traffic.bytes(id);
  }
  return work;
}

double ProblemBound::cycles() const {
  return std::max({product_cycles, vector_cycles, dram_cycles});
}

std::string ProblemBound::resource() const {
  if (cycles() <= 0) return "";
  return product_cycles == cycles() ? "MAU" : vector_cycles == cycles() ? "vector" : "DRAM";
}

ProblemBound problem_bound(const ProblemWork& work, const isa::Chip& chip, MatrixPrecision precision) {
  // Block floats are of the matrix unit only: vectors are of floats there.
  const isa::Precision vectors =
      precision == MatrixPrecision::kHalf ? isa::Precision::kHalf : isa::Precision::kFloat;
  const double dram_bytes_per_cycle = static_cast<double>(sizeof(uint64_t)) * chip.groups *
                                      isa::transfer_rate(isa::TransferPort::kDram, chip);
  return {.product_cycles =
              work.products / isa::peak_macs_per_cycle(matrix_instruction_precision(precision), true, chip),
          .vector_cycles = std::max(work.mau_operations, work.alu_operations) /
                           isa::peak_macs_per_cycle(vectors, false, chip),
          .dram_cycles = work.dram_bytes / dram_bytes_per_cycle};
}

double share_of_peak(const ProblemWork& work, double cycles, const isa::Chip& chip,
                     MatrixPrecision precision) {
  return cycles > 0 ? problem_bound(work, chip, precision).product_cycles / cycles : 0;
}

}  // namespace kodama::compiler
