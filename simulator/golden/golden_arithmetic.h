#pragma once

#include <array>
#include <boost/multiprecision/cpp_int.hpp>
#include <cstdint>
#include <span>
#include <vector>

#include "isa/instruction.h"
#include "isa/number_formats.h"

/// Arithmetic of the golden model: exact numbers of any size, one lane at a time, in the words of sections
/// 7 and 8 of the ISA page. Shares nothing with the engine but the number formats of isa/.
namespace kodama::simulator::golden {

/// integer * 2^exponent.
struct Exact {
  boost::multiprecision::cpp_int integer = 0;
  int exponent = 0;
};
Exact operator+(const Exact& a, const Exact& b);

/// 8.6: a number with its hidden bit; infinity is a number with the top exponent.
Exact number(uint64_t bits, isa::FloatFormat format);
/// 8.6: the product of two significands whose low `k` bits don't meet, times the exponents.
Exact truncated_product(const Exact& a, const Exact& b, int k);
/// 8.1: nearest even, then infinity and zero.
uint64_t round(const Exact& value, isa::FloatFormat format);

/// 8.4: y_i + z_i of one row and vector of block floats.
uint64_t matrix_row(std::span<const uint64_t> row, std::span<const uint64_t> vector, isa::Precision precision,
                    uint64_t z, isa::FloatFormat z_format, isa::FloatFormat format);

/// 7: one lane of an ALU instruction.
struct AluResult {
  uint64_t value = 0;
  bool flag = false;
};
AluResult alu_lane(const isa::Instruction& instruction, uint64_t x, uint64_t y);

/// 8.7: one stage of a reduction of LWs, and the stages of the L1BM.
uint64_t reduce(const std::vector<uint64_t>& values, isa::ReduceOp op, isa::Precision precision);
uint64_t reduce_l1bm(const std::vector<uint64_t>& values, isa::ReduceOp op, isa::Precision precision);
/// One stage of an addition, rounded to another format than that of the values.
uint64_t add_stage(const std::vector<uint64_t>& values, isa::FloatFormat format, isa::FloatFormat output);

/// Lane `index` of a long word cut in lanes of `width` bits, lane 0 on top.
uint64_t lane(uint64_t value, int width, int index);
uint64_t set_lane(uint64_t value, int width, int index, uint64_t bits);

}  // namespace kodama::simulator::golden
