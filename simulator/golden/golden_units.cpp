#include "isa/number_formats.h"
#include "simulator/golden/golden_arithmetic.h"
#include "simulator/golden/golden_machine.h"
#include "simulator/golden/golden_names.h"

/// The units of PEs and MABs: ALU (section 7), MAU and matrix registers (section 8).
namespace kodama::simulator::golden {
namespace {

using isa::FloatFormat;

/// Bits of the flags of `lanes` lanes.
int flag_bits(const std::vector<bool>& flags) {
  int bits = 0;
  for (int i = 0; i < 4; ++i) bits |= flags[static_cast<size_t>(i) * flags.size() / 4] ? 8 >> i : 0;
  return bits;
}

FloatFormat next_lower(FloatFormat format) {
  return format.mantissa_bits == isa::kDoubleFormat.mantissa_bits ? isa::kFloatFormat : isa::kHalfFormat;
}

}  // namespace

Quad GoldenMachine::alu(const Instruction& instruction, const At& at, int cycle, StepContext& context,
                        int& flags) {
  flags = 0;
  if (instruction.opcode == Opcode::kZero) return {};
  if (instruction.opcode == Opcode::kImm) {
    const auto payload = static_cast<uint64_t>(
        static_cast<uint32_t>(isa::resolved_base(instruction.sources[0], context.counters)));
    const uint64_t other = instruction.unsigned_op ? 0 : payload;
    return quad_of_words({payload, other, payload, other});
  }
  const Precision precision = instruction.precision;
  const Quad x = converted_source(instruction.sources[0], precision, false, at, cycle, context);
  if (instruction.opcode == Opcode::kMsl || instruction.opcode == Opcode::kMsr) {
    At from = at;
    from.pe_number = (at.pe_number + (instruction.opcode == Opcode::kMsl ? 3 : 1)) & 3;
    from.pe = &at.mab->pes[from.pe_number];
    return {converted_source(instruction.sources[0], precision, false, from, cycle, context).h, x.l};
  }
  Quad y;
  if (instruction.sources.size() > 1)
    y = converted_source(instruction.sources[1], precision, false, at, cycle, context);
  const int lanes = isa::lanes(precision);
  const int width = 64 / lanes;
  Quad result{0, x.l};
  std::vector<bool> lane_flags;
  for (int i = 0; i < lanes; ++i) {
    const AluResult r = alu_lane(instruction, lane(x.h, width, i), lane(y.h, width, i));
    result.h = set_lane(result.h, width, i, r.value);
    lane_flags.push_back(r.flag);
  }
  const isa::FlagRule rule = isa::info(instruction.opcode).flags;
  flags = rule == isa::FlagRule::kNone ? 0 : flag_bits(lane_flags);
  return result;
}

/// 8.5: blocks over the MAB.
std::array<Quad, 4> GoldenMachine::block_float(const Instruction& instruction, const At& at, int cycle,
                                               StepContext& context) {
  const int lanes = isa::lanes(instruction.precision);
  const int width = 64 / lanes;
  const int cut = instruction.block_bits < 0 ? 0 : 9 - instruction.block_bits;
  const bool extended = instruction.opcode == Opcode::kBfe;
  std::array<Quad, 4> value;
  for (int p = 0; p < 4; ++p) {
    At pe = at;
    pe.pe_number = p;
    pe.pe = &at.mab->pes[p];
    value[p] = converted_source(instruction.sources[0], instruction.precision, false, pe, cycle, context);
  }
  // A block is every `step`-th lane from `first` on, of one LW of all PEs.
  auto normalize = [&](bool of_l, int first, int step) {
    std::vector<uint64_t> block;
    for (const Quad& quad : value) {
      for (int i = first; i < lanes; i += step) block.push_back(lane(of_l ? quad.l : quad.h, width, i));
    }
    isa::block_normalize(block, isa::format_of(instruction.precision), cut, extended);
    size_t next = 0;
    for (Quad& quad : value) {
      uint64_t& target = of_l ? quad.l : quad.h;
      for (int i = first; i < lanes; i += step) target = set_lane(target, width, i, block[next++]);
    }
  };
  switch (instruction.precision) {
    case Precision::kFloat:
      normalize(false, 0, 2);
      normalize(false, 1, 2);
      break;
    case Precision::kHalf:
      normalize(false, 0, 1);
      normalize(true, 0, 1);
      break;
    default:
      normalize(false, 0, 1);
      break;
  }
  return value;
}

Quad GoldenMachine::vector_mau(const Instruction& instruction, const At& at, int cycle, StepContext& context,
                               int& flags) {
  const Precision precision = instruction.precision;
  const FloatFormat format = isa::format_of(precision);
  const FloatFormat z_format = precision == Precision::kHalf ? isa::kFloatFormat : format;
  const FloatFormat out_format = instruction.round_output ? next_lower(z_format) : z_format;
  const bool multiplies = instruction.opcode == Opcode::kVfma || instruction.opcode == Opcode::kVmul;
  const bool adds = instruction.opcode == Opcode::kVfma || instruction.opcode == Opcode::kVadd;
  const Quad x = converted_source(instruction.sources[0], precision, false, at, cycle, context);
  Quad y;
  Quad z;
  if (multiplies) y = converted_source(instruction.sources[1], precision, false, at, cycle, context);
  if (adds) z = converted_source(instruction.sources.back(), precision, true, at, cycle, context);
  const int lanes = isa::lanes(precision);
  const int k = precision == Precision::kDouble ? 16 : precision == Precision::kFloat ? 5 : 0;
  const bool product_here = precision != Precision::kDouble || !multiplies ||
                            (instruction.half_select == 'u' ? at.pe_number < 2 : at.pe_number >= 2);
  std::vector<uint64_t> results;
  for (int i = 0; i < lanes; ++i) {
    Exact sum;
    if (product_here) {
      sum = number(lane(x.h, format.width(), i), format);
      if (multiplies) sum = truncated_product(sum, number(lane(y.h, format.width(), i), format), k);
    }
    if (adds) {
      const uint64_t addend = precision == Precision::kHalf ? word_of(z, i) : lane(z.h, format.width(), i);
      sum = sum + number(addend, z_format);
    }
    results.push_back(round(sum, out_format));
  }
  std::vector<bool> lane_flags;
  for (const uint64_t result : results) lane_flags.push_back((result & out_format.sign_bit()) == 0);
  flags = flag_bits(lane_flags);
  // The results side by side, repeated until 2LW are full.
  Quad value;
  const int per_long = 64 / out_format.width();
  for (int i = 0; i < 2 * per_long; ++i) {
    uint64_t& target = i < per_long ? value.h : value.l;
    target =
        set_lane(target, out_format.width(), i % per_long, results[static_cast<size_t>(i) % results.size()]);
  }
  return value;
}

std::array<Quad, 4> GoldenMachine::matrix_mau(const Instruction& instruction, const At& at, int cycle,
                                              StepContext& context, std::array<int, 4>& flags) {
  const Precision precision = instruction.precision;
  const int lanes = isa::lanes(precision);
  const int width = 64 / lanes;
  const auto& matrix = at.mab->matrix[instruction.sources[0].space == Space::kMatY];
  const bool adds = instruction.opcode == Opcode::kMfma;
  const FloatFormat z_format = precision == Precision::kDouble ? isa::kDoubleFormat : isa::kFloatFormat;
  const FloatFormat out_format = instruction.round_output ? next_lower(z_format) : z_format;
  // Element j of the vector and of row i; f has only the upper words.
  std::vector<uint64_t> vector;
  std::array<Quad, 4> z;
  for (int p = 0; p < 4; ++p) {
    At pe = at;
    pe.pe_number = p;
    pe.pe = &at.mab->pes[p];
    const Quad v = converted_source(instruction.sources[1], precision, false, pe, cycle, context);
    if (adds) z[p] = converted_source(instruction.sources[2], precision, true, pe, cycle, context);
    for (int i = 0; i < (precision == Precision::kFloat ? 1 : lanes); ++i)
      vector.push_back(lane(v.h, width, i));
  }
  std::array<Quad, 4> results;
  for (int p = 0; p < 4; ++p) {
    std::vector<uint64_t> outputs;
    for (int i = 0; i < lanes; ++i) {
      std::vector<uint64_t> row;
      for (int q = 0; q < 4; ++q) {
        for (int j = 0; j < (precision == Precision::kFloat ? 1 : lanes); ++j) {
          row.push_back(lane(matrix[lanes * p + i][q], width, j));
        }
      }
      const bool here = precision != Precision::kDouble || (instruction.half_select == 'u' ? p < 2 : p >= 2);
      if (!here) std::fill(row.begin(), row.end(), 0);
      std::vector<uint64_t> factor = vector;
      if (!here) std::fill(factor.begin(), factor.end(), 0);
      const uint64_t addend = precision == Precision::kHalf ? word_of(z[p], i) : lane(z[p].h, width, i);
      outputs.push_back(matrix_row(row, factor, precision, addend, z_format, out_format));
    }
    std::vector<bool> lane_flags;
    for (const uint64_t output : outputs) lane_flags.push_back((output & out_format.sign_bit()) == 0);
    flags[p] = flag_bits(lane_flags);
    const int per_long = 64 / out_format.width();
    for (int i = 0; i < 2 * per_long; ++i) {
      uint64_t& target = i < per_long ? results[p].h : results[p].l;
      target = set_lane(target, out_format.width(), i % per_long,
                        outputs[static_cast<size_t>(i) % outputs.size()]);
    }
  }
  return results;
}

void GoldenMachine::matrix_write(const Instruction& instruction, const At& at, int cycle,
                                 StepContext& context) {
  const Operand& destination = instruction.destinations[0];
  const bool wide = instruction.precision == Precision::kHalf && destination.width == Width::kDoubleLong;
  const int64_t base = isa::resolved_base(destination, context.counters);
  auto& matrix = at.mab->matrix[destination.space == Space::kMatY];
  for (int p = 0; p < 4; ++p) {
    At pe = at;
    pe.pe_number = p;
    pe.pe = &at.mab->pes[p];
    const Quad value =
        converted_source(instruction.sources[0], instruction.precision, false, pe, cycle, context);
    const int64_t row = modulo(base + (wide ? 2 * cycle : cycle), 16);
    const int64_t second = modulo(row + 1, 16);
    context.writes.push_back([&matrix, row, second, p, value, wide] {
      matrix[row][p] = value.h;
      if (wide) matrix[second][p] = value.l;
    });
  }
}

Quad GoldenMachine::matrix_read(const Instruction& instruction, const At& at, int cycle,
                                const StepContext& context) const {
  const Operand& operand = instruction.sources[0];
  const bool wide = instruction.precision == Precision::kHalf && operand.width == Width::kDoubleLong;
  const int lanes = isa::lanes(instruction.precision);
  const int width = 64 / lanes;
  const auto& matrix = at.mab->matrix[operand.space == Space::kMatY];
  const int64_t base = isa::resolved_base(operand, context.counters);
  auto column = [&](int64_t index) {
    const auto j = static_cast<int>(modulo(index, 4 * lanes));
    uint64_t value = 0;
    for (int i = 0; i < lanes; ++i) {
      value = set_lane(value, width, i, lane(matrix[lanes * at.pe_number + i][j / lanes], width, j % lanes));
    }
    return value;
  };
  if (wide) return {column(base + 2 * cycle), column(base + 2 * cycle + 1)};
  return {column(base + cycle), column(base + cycle)};
}

}  // namespace kodama::simulator::golden
