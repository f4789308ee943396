#include <algorithm>

#include "compiler/kernels/lowering.h"
#include "compiler/kernels/predict.h"
#include "isa/error.h"

namespace kodama::compiler {
namespace {

constexpr int64_t kLwPerVector = 4;  ///< one step computes 4 LW per PE
constexpr int64_t kWordsPerVector = 8;

/// Vectors computed side by side, so that one fills the distances of the others. Long expressions have
/// enough independent operations of their own and need the registers.
int64_t unroll_factor(const ScalarExpr& expr) {
  const int64_t work = machine_operations(expr);
  if (work <= 4) return 8;
  return work <= 16 ? 4 : 2;
}

/// Calls body(offset in words, strides of loops opened here) so that all `vectors` are covered.
template <typename Body>
void for_each_vector(MachineBuilder& builder, int64_t vectors, int64_t unroll, Body&& body) {
  const int64_t rounds = vectors / unroll;
  if (rounds == 1) {
    body(int64_t{0}, unroll, std::vector<int64_t>{});
  } else if (rounds > 1) {
    builder.begin_loop(rounds);
    body(int64_t{0}, unroll, std::vector<int64_t>{unroll * kWordsPerVector});
    builder.end_loop();
  }
  if (const int64_t rest = vectors - rounds * unroll; rest > 0) {
    body(rounds * unroll * kWordsPerVector, rest, std::vector<int64_t>{});
  }
}

void check_count(const char* name, int64_t count) {
  isa::check_internal(count > 0 && count % kLwPerVector == 0, name, "{} LW is not a positive multiple of 4",
                      count);
}

}  // namespace

ScalarOp combining_op(ReduceLayer::Op op) {
  switch (op) {
    case ReduceLayer::Op::kSum:
      return ScalarOp::kAdd;
    case ReduceLayer::Op::kMax:
      return ScalarOp::kMax;
    case ReduceLayer::Op::kMin:
      return ScalarOp::kMin;
    case ReduceLayer::Op::kProd:
      return ScalarOp::kMul;
    case ReduceLayer::Op::kIntSum:
      return ScalarOp::kIntAdd;
    case ReduceLayer::Op::kIntMax:
      return ScalarOp::kIntMax;
    case ReduceLayer::Op::kIntMin:
      return ScalarOp::kIntMin;
  }
  throw isa::InternalError("internal error in map lowering: unknown reduction");
}

void lower_map(TileLoweringContext& context, const MapTile& op) {
  check_count("lower_map", op.count);
  MachineBuilder& builder = context.builder;
  const int out = context.buffer_values[static_cast<size_t>(op.out)];
  bool in_place = false;
  for (const MapTile::Input& input : op.inputs) in_place |= input.buffer == op.out;

  const int64_t all = op.count / kLwPerVector;
  const bool is_short_copy = op.expr == ScalarExpr::identity() && all <= kStraightOperations;
  for_each_vector(
      builder, all, is_short_copy ? all : unroll_factor(op.expr),
      [&](int64_t offset, int64_t vectors, const std::vector<int64_t>& strides) {
        for (int64_t v = 0; v < vectors; ++v) {
          const int64_t at = offset + v * kWordsPerVector;
          std::vector<isa::Operand> inputs;
          for (const MapTile::Input& input : op.inputs) {
            const int buffer = context.buffer_values[static_cast<size_t>(input.buffer)];
            const std::vector<int64_t> held(strides.size(), 0);
            inputs.push_back(input.is_single
                                 ? builder.operand_at(buffer, input.at, 0, 0, isa::Width::kLong, held)
                                 : builder.operand_at(buffer, input.at, at, 2, isa::Width::kLong, strides));
          }
          const isa::Operand target = builder.operand_at(out, op.out_at, at, 2, isa::Width::kLong, strides);
          if (in_place) {
            // A recipe may write its destination before it has read all inputs for the last time.
            const isa::Operand result = lower_scalar(builder, op.expr, inputs);
            builder.emit(isa::Opcode::kPassa, isa::Precision::kLong, {result}, {target}, "map");
          } else {
            lower_scalar(builder, op.expr, inputs, target);
          }
        }
      });
}

void lower_reduce(TileLoweringContext& context, const ReduceTile& op) {
  check_count("lower_reduce", op.count);
  MachineBuilder& builder = context.builder;
  const int accumulator = context.buffer_values[static_cast<size_t>(op.accumulator)];

  // combined(inputs…, accumulator) = op(accumulator, expr(inputs)): a sum of products becomes multiply-adds.
  // Of doubles the accumulator is two words, the upper one first.
  const bool of_doubles = op.low_accumulator >= 0;
  ScalarExpr combined = op.expr;
  const int value = combined.result();
  int old = combined.input(static_cast<int>(op.inputs.size()));
  if (of_doubles)
    old = combined.apply(ScalarOp::kPair, old, combined.input(static_cast<int>(op.inputs.size()) + 1));
  combined.set_result(combined.apply(combining_op(op.op), old, value));

  for_each_vector(
      builder, op.count / kLwPerVector, unroll_factor(combined),
      [&](int64_t offset, int64_t vectors, const std::vector<int64_t>& strides) {
        const auto stored = [&](int64_t v, bool low) {
          const int buffer =
              low ? context.buffer_values[static_cast<size_t>(op.low_accumulator)] : accumulator;
          return builder.operand_at(buffer, op.accumulator_at, offset + v * kWordsPerVector, 2,
                                    isa::Width::kLong, strides);
        };
        // The running values stay in registers over the inner loop.
        std::vector<isa::Operand> running, running_low;
        const auto start = [&](std::vector<isa::Operand>& values, int64_t v, bool low) {
          const int id = builder.value("running", kWordsPerVector,
                                       isa::space_bit(isa::Space::kGrf0) | isa::space_bit(isa::Space::kGrf1));
          values.push_back(MachineBuilder::operand(id));
          builder.emit(isa::Opcode::kPassa, isa::Precision::kLong, {stored(v, low)}, {values.back()},
                       "reduce");
        };
        for (int64_t v = 0; v < vectors; ++v) {
          start(running, v, false);
          if (of_doubles) start(running_low, v, true);
        }
        std::vector<int64_t> inner = strides;
        inner.push_back(op.count * isa::kWordsPerLong);
        std::vector<int64_t> held = strides, shared(strides.size(), 0);
        held.push_back(0);
        shared.push_back(isa::kWordsPerLong);
        builder.begin_loop(op.repeats);
        for (int64_t v = 0; v < vectors; ++v) {
          std::vector<isa::Operand> inputs;
          for (const ReduceTile::Input& input : op.inputs) {
            const int buffer = context.buffer_values[static_cast<size_t>(input.buffer)];
            const int64_t vector = offset + v * kWordsPerVector;
            switch (input.order) {
              case ReduceTile::Order::kEach:
                inputs.push_back(builder.operand_at(buffer, input.at, vector, 2, isa::Width::kLong, inner));
                break;
              case ReduceTile::Order::kHeld:
                inputs.push_back(builder.operand_at(buffer, input.at, vector, 2, isa::Width::kLong, held));
                break;
              case ReduceTile::Order::kShared:
                inputs.push_back(builder.operand_at(buffer, input.at, 0, 0, isa::Width::kLong, shared));
                break;
            }
          }
          const isa::Operand& value_of_vector = running[static_cast<size_t>(v)];
          inputs.push_back(value_of_vector);
          if (of_doubles) {
            inputs.push_back(running_low[static_cast<size_t>(v)]);
            lower_double(builder, combined, inputs, value_of_vector, running_low[static_cast<size_t>(v)]);
          } else {
            lower_scalar(builder, combined, inputs, value_of_vector);
          }
        }
        builder.end_loop();
        for (int64_t v = 0; v < vectors; ++v) {
          builder.emit(isa::Opcode::kPassa, isa::Precision::kLong, {running[static_cast<size_t>(v)]},
                       {stored(v, false)}, "reduce");
          if (of_doubles)
            builder.emit(isa::Opcode::kPassa, isa::Precision::kLong, {running_low[static_cast<size_t>(v)]},
                         {stored(v, true)}, "reduce");
        }
      });
}

}  // namespace kodama::compiler
