#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "isa/instruction.h"

/// The vector kernels of the engine. They work on *rows*: a row holds one 32-bit word of every PE of an
/// L1B, ordered PE number first, MAB second, so that the MABs of one PE number are neighbours and neither
/// lane arithmetic nor matrix products need shuffles. A row has `4 * stride` words; `stride` is the number
/// of MABs rounded up to kRowGranule, so every row is a whole number of vectors on every target. What the
/// padding holds is never visible.
///
/// The kernels are compiled for each Highway target; all targets give identical bits, because every
/// floating-point operation in them is either exact or a single correctly rounded one.
namespace kodama::simulator {

inline constexpr int kRowGranule = 16;
/// Words of the longest row: an L1B has at most 16 MABs.
inline constexpr int kMostRowWords = 64;
/// Sums of more aligned significands may not fit 32 bits.
inline constexpr int kMostSummedRows = 8;

struct RowShape {
  int stride = 0;  ///< words per PE number
  int words() const { return 4 * stride; }
  /// Of half a row, that of two PE numbers, for kernels to which PE numbers mean nothing.
  RowShape half() const { return {stride / 2}; }
};

/// The words {h, l} of one operand in one cycle, most significant first. Not set unless `Rows{}`.
struct Rows {
  std::array<const uint32_t*, 4> word;
};

/// Where a kernel leaves its result. `flags`: one byte per PE, four flag bits in the low end; null when
/// nobody asks. Kernels of the ALU write words 0 and 1 unless their description says otherwise.
struct Results {
  std::array<uint32_t*, 4> word{};
  uint8_t* flags = nullptr;
};

/// One ALU instruction in one cycle. `parameter` is b of bfn/bfe.
using AluKernel = void (*)(const RowShape&, const Rows& x, const Rows& y, const Results& out, int parameter);

/// x*y + z on the lanes of a row; absent operands (null first word) are y = 1 and z = 0. The kernels of
/// floats and doubles write words 0 and 1, those of halves 0..3; rounding to the next lower precision writes
/// word 0, or words 0 and 1 (half).
using VectorMauKernel = void (*)(const RowShape&, const Rows& x, const Rows& y, const Rows& z,
                                 const Results& out);

/// What the fast matrix kernels must know of a matrix row or a vector.
enum BlockKind : uint32_t {
  kBlockUniform = 0,
  kBlockExtended = 1,   ///< half elements with the extended exponent
  kBlockIrregular = 2,  ///< exponents differ inside a block, or infinity: exact scalar arithmetic
};

/// Turns one row of a matrix register (two rows of words: `raw`, `raw + words()`) into the kernel's own
/// form, at `decoded` (the start of the whole matrix). Returns the OR of BlockKinds over the MABs.
using MatrixDecodeKernel = uint32_t (*)(const RowShape&, const uint32_t* raw, int row, void* decoded);

/// y = A*v (+ z) in the four cycles of a step, so that what is read of the matrix serves all of them. `z` is
/// null where nothing is added; word w of cycle c goes to row 4 c + w of `out`. Returns the cycles, by bits,
/// whose vector is irregular: what is written of them is anything. `matrix_kind` is kBlockUniform or
/// kBlockExtended.
using MatrixKernel = uint32_t (*)(const RowShape&, const void* decoded, uint32_t matrix_kind, const Rows* v,
                                  const Rows* z, uint32_t* out);
/// Bytes that they need for a matrix, for each word of RowShape::stride.
inline constexpr size_t kDecodedBytes = 1600;

/// The outputs `first` and `first` + 1 of y = A*v (+ z) in one cycle, at the PEs of the same numbers; only
/// these two rows of A need be decoded. Returns kBlockIrregular when the exact scalar arithmetic has to
/// replace what was written, also because of z.
using DoubleMatrixKernel = uint32_t (*)(const RowShape&, const void* decoded, int first, const Rows& v,
                                        const Rows& z, const Results& out);

/// The word address that every lane has of its own in a memory of PEs: base + bar + t modulo a power of two,
/// down to a multiple of the width.
struct LaneAddresses {
  int32_t base = 0;
  uint32_t mask = 0;              ///< words of the memory - 1
  int32_t width = 1;              ///< words
  const uint32_t* bar = nullptr;  ///< a row; null: none
  const uint32_t* t = nullptr;    ///< a row whose low 12 bits count; null: none
  int32_t further_before = 0;     ///< lanes before this one go a width further
};

struct KernelTable {
  const char* target = "";
  /// [opcode][precision][unsigned]; null where the ISA has no such instruction.
  AluKernel alu[isa::kOpcodeCount][isa::kPrecisionCount][2] = {};
  VectorMauKernel vector_float[2] = {};  ///< [rounded to half]
  VectorMauKernel vector_half[2] = {};
  VectorMauKernel vector_double[2] = {};  ///< [rounded to float]
  MatrixDecodeKernel decode_float = nullptr;
  MatrixDecodeKernel decode_gfloat = nullptr;
  MatrixDecodeKernel decode_half = nullptr;
  MatrixDecodeKernel decode_double = nullptr;
  MatrixKernel matrix_float[2] = {};  ///< [rounded to half]
  MatrixKernel matrix_gfloat[2] = {};
  MatrixKernel matrix_half[2] = {};
  DoubleMatrixKernel matrix_double[2] = {};  ///< [rounded to float]
  /// Flags of a MAU result of `lanes` lanes: 1 (words 0-1), 2 (words 0, 1), 4 (words 0..3) or -4 (four
  /// halves in words 0, 1), -2 (two halves in word 0).
  void (*sign_flags)(const RowShape&, const Rows& result, int lanes, uint8_t* flags) = nullptr;
  /// out = in ^ pattern.
  void (*flip)(const RowShape&, const uint32_t* in, uint32_t pattern, uint32_t* out) = nullptr;
  /// Halves of `in` (upper half first) to floats.
  void (*widen_half)(const RowShape&, const uint32_t* in, uint32_t* upper, uint32_t* lower) = nullptr;
  /// Floats to doubles.
  void (*widen_float)(const RowShape&, const uint32_t* in, uint32_t* upper, uint32_t* lower) = nullptr;
  /// Two rows of floats to one row of halves.
  void (*narrow_float)(const RowShape&, const uint32_t* upper, const uint32_t* lower,
                       uint32_t* out) = nullptr;
  /// out[k] = the sum of in[4 k ..], as the reducing transfers add floats; [rounded to half], in the low 16
  /// bits then. `count`, of `in`: a multiple of 4 * kRowGranule.
  void (*sum_fours[2])(const uint32_t* in, int count, uint32_t* out) = {};
  /// out[i] = such a sum of in[0][i], in[1][i], …: of kMostSummedRows at most. `count`: a multiple of
  /// kRowGranule.
  void (*sum_rows)(const uint32_t* const* in, int rows, int count, uint32_t* out) = nullptr;
  /// Of the LW [MAB][PE] at `from`, as many MABs as a row has, the upper and the lower words, [PE][MAB].
  void (*deal_longs)(const RowShape&, const uint64_t* from, uint32_t* upper, uint32_t* lower) = nullptr;
  /// The other way.
  void (*collect_longs)(const RowShape&, const uint32_t* upper, const uint32_t* lower,
                        uint64_t* to) = nullptr;
  /// Word w of row w of `out`: what each lane has at its address plus w. `memory`: rows, at most 2^31 words.
  void (*gather)(const RowShape&, const uint32_t* memory, const LaneAddresses& addresses,
                 uint32_t* out) = nullptr;
  /// Copies whole rows.
  void (*copy_rows)(const RowShape&, const uint32_t* from, int rows, uint32_t* to) = nullptr;
  /// Of PE number p and block b of `count` MABs, a multiple of four or the whole row, the words of the LW at
  /// from[p * pe_step + b * block_step].
  void (*spread_longs)(const RowShape&, const uint64_t* from, int64_t pe_step, int64_t block_step, int count,
                       uint32_t* upper, uint32_t* lower) = nullptr;
  /// Copies the half words that the mask allows: bit `high` of a PE's four mask bits governs the upper
  /// half word, bit `low` the lower one. `flush`: writes zero where the mask forbids.
  void (*masked_copy)(const RowShape&, const uint32_t* in, const uint8_t* mask, int high, int low, bool flush,
                      uint32_t* out) = nullptr;
};

/// The table of the best target that the host supports (and that hwy::SetSupportedTargetsForTest allows).
const KernelTable& best_kernels();
/// Targets that there are kernels for and that the host supports, by name, the best one first.
std::vector<std::string> kernel_targets();
/// Makes the best one that of this name from now on, for tests; empty: as it was. UserError naming all.
void choose_kernels(const std::string& target);

}  // namespace kodama::simulator
