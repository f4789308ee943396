#include <algorithm>
#include <numeric>

#include "compiler/kernels/lowering.h"
#include "compiler/kernels/predict.h"
#include "isa/arithmetic.h"
#include "isa/costs.h"
#include "isa/error.h"

/// Loads and stores: a tile's stream numbers go through L2BM and L1BM in chunks. The transfer of one chunk
/// runs while the PEs take the one before, so that there are two chunks of L2BM for either direction.
namespace kodama::compiler {

using isa::Opcode;
using isa::Operand;
using isa::round_up;
using isa::Space;
using isa::Width;
using layout::L1bMode;
using layout::L2bMode;
using layout::MabMode;
using layout::Transport;

int64_t l2bm_step_lw(const Transport& transport) {
  return transport.l1b_mode() == L1bMode::kDistribute ? isa::kL2bmdPerL1bLw : isa::kL2bmBlockLw;
}

std::vector<isa::Instruction> mv_instructions(const Transport& transport, bool to_chip, int64_t lw,
                                              const Operand& dram, int64_t part_lw, int64_t l2bm_address,
                                              int first_tag, const isa::Chip& chip) {
  std::vector<isa::Instruction> list;
  const bool is_exchanged = transport.l2b_mode() == L2bMode::kExchanged;
  const int64_t size_lw = is_exchanged ? lw / transport.dealt_over() : lw;
  const auto add = [&](Opcode opcode, int l2b, int64_t part, int dram_group, int l2bm_group) {
    isa::Instruction mv;
    mv.opcode = opcode;
    mv.size_lw = size_lw;
    mv.tag = static_cast<int8_t>(first_tag + static_cast<int>(list.size()));
    Operand memory = dram;
    memory.base += part * part_lw;
    memory.group = static_cast<int8_t>(dram_group);
    Operand buffer = space_operand(Space::kL2bm, l2bm_address);
    if (is_exchanged) buffer.base += transport.share_place(l2bm_group, l2b) * size_lw;
    buffer.group = static_cast<int8_t>(l2bm_group);
    buffer.unit = static_cast<int8_t>(l2b);
    mv.sources = {to_chip ? memory : buffer};
    mv.destinations = {to_chip ? buffer : memory};
    list.push_back(std::move(mv));
  };
  switch (transport.l2b_mode()) {
    case L2bMode::kDistribute:
      for (int l = 0; l < chip.l2b_per_group; ++l) add(Opcode::kMvp, l, l, -1, -1);
      break;
    case L2bMode::kBroadcastInGroup:
      if (!to_chip) {
        add(Opcode::kMvp, 0, 0, -1, -1);
      } else if (chip.l2b_per_group == 2) {
        add(Opcode::kMvb2, -1, 0, -1, -1);
      } else {
        for (int l = 0; l < chip.l2b_per_group; ++l) add(Opcode::kMvp, l, 0, -1, -1);
      }
      break;
    case L2bMode::kBroadcastDealt:
      isa::check_internal(to_chip, "transfer lowering", "a store to all groups by turns");
      add(Opcode::kMvb4, -1, 0, -1, -1);
      break;
    case L2bMode::kExchanged:
      isa::check_internal(to_chip, "transfer lowering", "a store of shares that are exchanged");
      for (int l = 0; l < chip.l2b_per_group; ++l) {
        for (int g = 0; g < chip.groups; ++g) add(Opcode::kMvp, l, l, g, g);
      }
      break;
    case L2bMode::kBroadcast:
      if (to_chip) {
        add(Opcode::kMvb, -1, 0, 0, -1);
      } else {
        add(Opcode::kMvp, 0, 0, 0, 0);
      }
      break;
  }
  return list;
}

namespace {

constexpr const char* kTransferLoweringPart = "transfer lowering";
/// Transfers at least this long hide their start-up well enough that cutting them into several chunks pays.
constexpr int64_t kMinimumOverlapLw = 2048;
/// A chunk takes so much of L2BM at most, a quarter where there would be more than kUnrolledPairs pairs.
/// Where layers leave little of L2BM, large ones would have room for one at a time, and its transfer and its
/// steps would take turns.
constexpr int64_t kL2bmParts = 16;
/// Chunks of either direction that are in L2BM at a time.
constexpr int64_t kChunksAtATime = 2;
/// Operations of one portion, the unit of a chunk's inner loop: enough to fill the distances between the
/// levels with each other's steps.
constexpr int64_t kPortionOperations = 48;
/// Up to so many pairs of chunks, each has its transfer in the program, and the transfer scheduler chooses
/// time and place of each; with more they are a loop, whose transfers stay where they are.
constexpr int64_t kUnrolledPairs = 32;

/// How a tile of `count` numbers is cut, the same for both directions.
struct Cutting {
  int64_t chunk = 0;      ///< numbers of a whole chunk
  int64_t portion = 0;    ///< numbers of one iteration inside a chunk
  int64_t whole = 0;      ///< whole chunks
  int64_t rest = 0;       ///< numbers after them
  int64_t l2bm_part = 0;  ///< LW that a chunk has
  int64_t l2bm_most = 0;  ///< that one may have: there are two for either direction
  int64_t l1bm_half = 0;
};

Cutting cut(const Transport& transport, int64_t count, int64_t numbers_per_group, const isa::Chip& chip) {
  Cutting cutting;
  cutting.l1bm_half = chip.memory.l1bm_lw / 2 / isa::kL2bmBlockLw * isa::kL2bmBlockLw;
  const int64_t unit = std::lcm(transport.granule(), numbers_per_group);
  const auto blocks = [&](int64_t parts) {
    return chip.memory.l2bm_lw / parts / isa::kL2bmBlockLw * isa::kL2bmBlockLw;
  };
  cutting.l2bm_most = blocks(4);
  const int64_t part = blocks(kL2bmParts);
  const bool are_many = count * transport.l2bm_lw_per_number() > 2 * kUnrolledPairs * part;
  cutting.l2bm_part =
      are_many ? cutting.l2bm_most
               : std::min(cutting.l2bm_most,
                          std::max(part, round_up(unit * transport.l2bm_lw_per_number(), isa::kL2bmBlockLw)));
  const int64_t fits = std::min(cutting.l2bm_part / transport.l2bm_lw_per_number(),
                                cutting.l1bm_half / transport.l1bm_lw_per_number()) /
                       unit * unit;
  if (fits == 0) {
    throw isa::UnsupportedError(
        fmt::format("chip {}: a transfer of {} numbers ({}) doesn't fit a quarter of L2BM ({} LW) and half "
                    "of L1BM ({} LW)",
                    chip.name, unit, transport.to_string(), cutting.l2bm_most, cutting.l1bm_half));
  }
  const int64_t worth =
      std::max(round_up((count + 3) / 4, unit),
               round_up(std::max<int64_t>(kMinimumOverlapLw / transport.l2bm_lw_per_number(), 1), unit));
  cutting.chunk = std::min(fits, worth);
  cutting.whole = count / cutting.chunk;
  cutting.rest = count % cutting.chunk;

  const int64_t step = l2bm_step_lw(transport);
  int64_t portion = std::lcm(numbers_per_group, step / std::gcd(step, transport.l1bm_lw_per_number()));
  const int64_t operations = portion * transport.l1bm_lw_per_number() / step + portion / isa::kCyclesPerStep;
  portion *= std::max<int64_t>(1, kPortionOperations / operations);
  cutting.portion = std::min(portion, cutting.chunk);
  return cutting;
}

/// Tags: loads and stores, two chunks each, one tag per MV of a chunk.
int tag_of(bool to_chip, int64_t half, const isa::Chip& chip) {
  const int first = 1 + ((to_chip ? 0 : 2) + static_cast<int>(half)) * chip.l2b_per_group;
  isa::check_internal(first + chip.l2b_per_group <= isa::kMaxTransferTag + 1, kTransferLoweringPart,
                      "{} L2B per group need more than {} tags", chip.l2b_per_group, isa::kMaxTransferTag);
  return first;
}

/// Lowers one load or store (no `load`).
class Mover {
 public:
  Mover(TileLoweringContext& context, bool to_chip, int stream, const TileIndex& stream_at, int buffer,
        const TileIndex& buffer_at, int64_t count, const LoadTile* load, std::string origin)
      : builder_(context.builder),
        chip_(context.builder.chip()),
        stream_(context.program.streams[static_cast<size_t>(stream)]),
        transport_(stream_.transport),
        stream_at_(stream_at),
        buffer_(context.buffer_values[static_cast<size_t>(buffer)]),
        buffer_at_(buffer_at),
        to_chip_(to_chip),
        normalize_(load != nullptr ? load->normalize : std::nullopt),
        element_(load != nullptr ? load->element : StreamElement::kFloat),
        shrink_(load != nullptr ? load->stream_lw() : 1),
        group_(shrink_ * isa::kCyclesPerStep),
        beside_at_(load != nullptr ? load->beside_at : std::nullopt),
        cutting_(cut(transport_, count, group_, chip_)),
        origin_(std::move(origin)) {
    if (beside_at_) {
      cutting_.chunk = cutting_.portion = count;
      cutting_.whole = 1;
      cutting_.rest = 0;
    }
    part_lw_ = transport_.part_lw(stream_.length_lw);
    mvs_per_chunk_ = static_cast<int>(
        mv_instructions(transport_, to_chip_, 0, space_operand(Space::kDram, 0), 0, 0, 1, chip_).size());
    if (transport_.mab_mode() == MabMode::kBroadcastPe && !to_chip) {
      throw isa::InternalError("internal error in transfer lowering: a store from a stream of one PE");
    }
  }

  void run() {
    // Loads: the MV of chunk k + 1 is issued before chunk k is taken; stores: the MV of chunk k runs while
    // chunk k + 1 is brought to L2BM. Two chunks per iteration, so that the L2BM halves alternate.
    const int64_t total = cutting_.whole + (cutting_.rest > 0 ? 1 : 0);
    const int64_t pairs = (cutting_.whole - 1) / 2;
    const bool looped = pairs > kUnrolledPairs;
    int64_t next = 0;
    if (to_chip_) mv(0, 0);
    if (looped) {
      builder_.begin_loop(pairs);
      loops_.push_back(2 * cutting_.chunk);
      chunk_step(0, 1, true);
      chunk_step(1, 2, true);
      loops_.pop_back();
      builder_.end_loop();
      next = 2 * pairs;
    }
    for (; next < total; ++next) chunk_step(next, next + 1, next + 1 < total);
    if (!to_chip_) {
      for (int64_t half = 0; half < std::min<int64_t>(total, 2); ++half) wait(half);
    }
  }

 private:
  /// Takes or brings chunk k; `following` is the next one.
  void chunk_step(int64_t k, int64_t following, bool has_following) {
    if (to_chip_) {
      wait(k % 2);
      if (has_following) mv(following, following % 2);
      descend(k);
    } else {
      // The L2BM half is free once its transfer of two chunks ago is done; a tag that no MV carries yet
      // doesn't wait.
      if (k >= 2 || !loops_.empty()) wait(k % 2);
      ascend(k);
      mv(k, k % 2);
    }
  }

  int64_t numbers_of(int64_t chunk) const { return chunk < cutting_.whole ? cutting_.chunk : cutting_.rest; }
  int64_t staged(int64_t numbers) const { return round_up(numbers, transport_.granule()); }
  int64_t l2bm_base(int64_t half) const {
    return beside_at_.value_or(((to_chip_ ? 0 : kChunksAtATime) + half) * cutting_.l2bm_part);
  }
  /// Others take what they load from L1BM's begin on.
  int64_t l1bm_base() const {
    if (beside_at_) return cutting_.l1bm_half - staged(cutting_.chunk) * transport_.l1bm_lw_per_number();
    return to_chip_ ? 0 : cutting_.l1bm_half;
  }

  void mv(int64_t chunk, int64_t half) {
    const int64_t unit = transport_.l2bm_lw_per_number();
    TileIndex from = stream_at_;
    from.base = transport_.part_offset(from.base + chunk * cutting_.chunk);
    for (int64_t& stride : from.strides) stride = transport_.part_offset(stride);
    std::vector<int64_t> chunks = loops_;
    for (int64_t& stride : chunks) stride = transport_.part_offset(stride);
    const Operand dram = space_operand(Space::kDram, stream_.dram_address + from.base,
                                       builder_.loop_strides(from, 1, std::move(chunks)));
    for (isa::Instruction& instruction :
         mv_instructions(transport_, to_chip_, staged(numbers_of(chunk)) * unit, dram, part_lw_,
                         l2bm_base(half), tag_of(to_chip_, half, chip_), chip_)) {
      builder_.emit(std::move(instruction), origin_);
    }
  }

  void wait(int64_t half) {
    for (int k = 0; k < mvs_per_chunk_; ++k) {
      builder_.emit_wait(tag_of(to_chip_, half, chip_) + k, origin_, to_chip_);
    }
  }

  /// Calls `step(first, numbers)` for the portions of `numbers` numbers, in a loop where there are several;
  /// `loops_` has the loop's stride meanwhile. The last call may have fewer numbers.
  template <typename Step>
  void portions(int64_t numbers, Step&& step) {
    const int64_t whole = numbers / cutting_.portion;
    if (whole > 1) {
      builder_.begin_loop(whole);
      loops_.push_back(cutting_.portion);
      portion_open_ = true;
      step(0, cutting_.portion);
      portion_open_ = false;
      loops_.pop_back();
      builder_.end_loop();
    } else if (whole == 1) {
      step(0, cutting_.portion);
    }
    if (numbers % cutting_.portion != 0) step(whole * cutting_.portion, numbers % cutting_.portion);
  }

  /// Strides of on-chip addresses (`unit` per number): they advance with the portion, not with the chunk.
  std::vector<int64_t> staging_strides(int64_t unit) const {
    if (!portion_open_) return {};
    std::vector<int64_t> strides(static_cast<size_t>(builder_.depth()), 0);
    strides.back() = cutting_.portion * unit;
    return strides;
  }

  /// l2bmd, l2bmb or l2bm@0 over `numbers` numbers from number `first` of the chunk in L2BM half `half`.
  void l2bm_steps(int64_t first, int64_t numbers, int64_t half) {
    const bool distribute = transport_.l1b_mode() == L1bMode::kDistribute;
    const int64_t step = l2bm_step_lw(transport_);
    const int64_t l1bm_unit = transport_.l1bm_lw_per_number();
    const int64_t l2bm_unit = transport_.l2bm_lw_per_number();
    const int64_t widen = l2bm_unit / l1bm_unit;
    isa::check_internal(numbers * l1bm_unit % step == 0, kTransferLoweringPart,
                        "{} numbers of {} LW in steps of {}", numbers, l1bm_unit, step);
    for (int64_t at = 0; at < numbers * l1bm_unit; at += step) {
      const Operand l2bm = space_operand(Space::kL2bm, l2bm_base(half) + first * l2bm_unit + at * widen,
                                         staging_strides(l2bm_unit));
      const Operand l1bm =
          space_operand(Space::kL1bm, l1bm_base() + first * l1bm_unit + at, staging_strides(l1bm_unit));
      isa::Instruction move;
      if (transport_.l1b_mode() == L1bMode::kParity) {
        isa::check_internal(to_chip_, kTransferLoweringPart, "a store from L1Bs by parity");
        for (int parity = 0; parity < 2; ++parity) {
          move.opcode = Opcode::kL2bmb;
          move.l1b_set = {isa::L1bSet::Kind::kList};
          for (int b = parity; b < chip_.l1b_per_l2b; b += 2) move.l1b_set.list |= uint32_t{1} << b;
          move.sources = {l2bm};
          move.sources[0].base += parity * step;
          move.destinations = {l1bm};
          builder_.emit(isa::Instruction(move), origin_);
        }
        continue;
      }
      move.opcode = distribute ? Opcode::kL2bmd : to_chip_ ? Opcode::kL2bmb : Opcode::kL2bm;
      if (move.opcode == Opcode::kL2bm) move.unit = 0;
      move.sources = {to_chip_ ? l2bm : l1bm};
      move.destinations = {to_chip_ ? l1bm : l2bm};
      builder_.emit(std::move(move), origin_);
    }
  }

  Operand buffer_operand(int64_t tile_number, int32_t stride, Width width) const {
    return builder_.operand_at(buffer_, buffer_at_, tile_number / shrink_ * isa::kWordsPerLong, stride, width,
                               inner_buffer_strides());
  }
  std::vector<int64_t> inner_buffer_strides() const {
    std::vector<int64_t> strides(loops_);
    for (int64_t& stride : strides) stride = stride / shrink_ * isa::kWordsPerLong;
    return strides;
  }

  void l1bm_step(const Operand& pe, int64_t l1bm_address) {
    isa::Instruction move;
    switch (transport_.mab_mode()) {
      case MabMode::kDistribute:
        move.opcode = Opcode::kL1bmd;
        break;
      case MabMode::kBroadcastMab:
        move.opcode = Opcode::kL1bmm;
        if (!to_chip_) move.unit = 0;
        break;
      case MabMode::kBroadcastPe:
        move.opcode = Opcode::kL1bmp;
        break;
    }
    Operand l1bm =
        space_operand(Space::kL1bm, l1bm_address, staging_strides(transport_.l1bm_lw_per_number()));
    l1bm.width = pe.width;
    move.sources = {to_chip_ ? l1bm : pe};
    move.destinations = {to_chip_ ? pe : l1bm};
    builder_.emit(std::move(move), origin_);
  }

  /// L1BM <-> PE for `numbers` numbers from `first` of chunk `chunk`.
  void l1bm_steps(int64_t chunk, int64_t first, int64_t numbers) {
    const int64_t unit = transport_.l1bm_lw_per_number();
    // l1bmm has a form that moves two consecutive numbers per cycle and PE.
    const bool has_double = transport_.mab_mode() == MabMode::kBroadcastMab && to_chip_ && aligned_double() &&
                            (!normalize_ || shrink_ == 2);
    for (int64_t at = 0; at < numbers;) {
      const int64_t number = first + at;
      const int64_t tile_number = chunk * cutting_.chunk + number;
      const int64_t address = l1bm_base() + number * unit;
      if (!normalize_) {
        const bool wide = has_double && numbers - at >= 2 * isa::kCyclesPerStep;
        l1bm_step(wide ? buffer_operand(tile_number, 4, Width::kDoubleLong)
                       : buffer_operand(tile_number, 2, Width::kLong),
                  address);
        at += wide ? 2 * isa::kCyclesPerStep : isa::kCyclesPerStep;
        continue;
      }
      const int raw = builder_.value("raw", group_ * isa::kWordsPerLong,
                                     isa::space_bit(Space::kGrf0) | isa::space_bit(Space::kGrf1),
                                     isa::words(Width::kDoubleLong));
      if (has_double) {
        l1bm_step(MachineBuilder::operand(raw, 0, 4, Width::kDoubleLong), address);
      } else {
        for (int64_t k = 0; k < shrink_; ++k) {
          l1bm_step(MachineBuilder::operand(raw, k * 8), address + k * isa::kCyclesPerStep * unit);
        }
      }
      emit_normalize(builder_, *normalize_, element_, MachineBuilder::operand(raw),
                     buffer_operand(tile_number, 2, Width::kLong), origin_);
      at += group_;
    }
  }

  /// Whether the buffer's positions are 2LW aligned in every iteration.
  bool aligned_double() const {
    bool even = buffer_at_.base % 2 == 0;
    for (int64_t stride : buffer_at_.strides) even = even && stride % 2 == 0;
    return even;
  }

  /// L2BM -> PE.
  void descend(int64_t chunk) {
    const int64_t numbers = numbers_of(chunk);
    portions(numbers, [&](int64_t first, int64_t count) {
      const bool last = !portion_open_ && first + count == numbers;
      l2bm_steps(first, last ? staged(numbers) - first : count, chunk % 2);
      l1bm_steps(chunk, first, count);
    });
  }

  /// PE -> L2BM.
  void ascend(int64_t chunk) {
    const int64_t numbers = numbers_of(chunk);
    portions(numbers, [&](int64_t first, int64_t count) {
      const bool last = !portion_open_ && first + count == numbers;
      l1bm_steps(chunk, first, count);
      l2bm_steps(first, last ? staged(numbers) - first : count, chunk % 2);
    });
  }

  MachineBuilder& builder_;
  const isa::Chip& chip_;
  const TileStream& stream_;
  const Transport& transport_;
  const TileIndex& stream_at_;
  int buffer_;
  const TileIndex& buffer_at_;
  bool to_chip_;
  std::optional<MatrixPrecision> normalize_;
  StreamElement element_;
  int64_t shrink_;  ///< stream numbers per LW of the buffer
  int64_t group_;   ///< stream numbers that one group of PE operations takes
  std::optional<int64_t> beside_at_;
  Cutting cutting_;
  std::string origin_;
  int64_t part_lw_ = 0;
  std::vector<int64_t> loops_;  ///< numbers per iteration of the loops opened here
  bool portion_open_ = false;
  int mvs_per_chunk_ = 0;
};

/// Of the transfers of constants, what isn't beside other layers (compiler/compile/fetch_ahead.h), or gone
/// because they stay. Measured: with 0.1 or 0.7 ResNet-50 takes 7 to 13 % longer.
constexpr double kExposedShare = 0.4;
/// The same where none of them stay: then DRAM has little time left.
constexpr double kExposedShareOfAll = 1;

/// Cycles of moving `numbers` numbers one way: the larger of the transfers and the steps, plus the first
/// chunk's share of the other, which nothing hides. With less than all of the transfers `exposed`: the steps,
/// and so much of the transfers.
int64_t move_cycles(const Transport& transport, int64_t numbers, bool to_chip, bool normalize,
                    const isa::Chip& chip, double exposed = 1) {
  if (numbers == 0) return 0;
  const Cutting cutting = cut(transport, numbers, isa::kCyclesPerStep, chip);
  const int64_t all_numbers = round_up(numbers, transport.granule());
  const int64_t l2bm_lw = all_numbers * transport.l2bm_lw_per_number();
  const int64_t l1bm_lw = all_numbers * transport.l1bm_lw_per_number();
  int64_t transfer = 0;
  for (const isa::Instruction& mv :
       mv_instructions(transport, to_chip, l2bm_lw, space_operand(Space::kDram, 0), 0, 0, 1, chip)) {
    // The start-up of the second transfer runs beside the first.
    transfer += isa::transfer_cycles(mv, chip) - (transfer > 0 ? chip.transfer.startup_cycles : 0);
  }
  // l1bmm takes two numbers per cycle, where they needn't be normalized.
  const bool twofold = to_chip && !normalize && transport.mab_mode() == MabMode::kBroadcastMab;
  // One half of the L1Bs after the other.
  const int64_t turns = transport.l1b_mode() == L1bMode::kParity ? 2 : 1;
  const int64_t step_cycles =
      isa::kCyclesPerStep * std::max(turns * l1bm_lw / l2bm_step_lw(transport),
                                     isa::ceil_div(numbers, isa::kCyclesPerStep * (twofold ? 2 : 1)));
  constexpr int64_t kPipelineFill = 6 * isa::kCyclesPerStep;
  // The start-up of all chunks but the first runs beside the one before.
  if (exposed < 1)
    return step_cycles + static_cast<int64_t>(exposed * static_cast<double>(transfer)) + kPipelineFill;
  // Transfers and steps beside each other, as if in as large chunks as there may be.
  const int64_t chunks = isa::ceil_div(l2bm_lw, cutting.l2bm_most);
  const int64_t all = transfer + (chunks - 1) * chip.transfer.startup_cycles;
  return std::max(all + step_cycles / chunks, step_cycles + all / chunks) + kPipelineFill;
}

}  // namespace

void lower_load(TileLoweringContext& context, const LoadTile& op) {
  Mover(context, true, op.stream, op.from, op.buffer, op.at, op.count, &op,
        "load " + context.program.streams[static_cast<size_t>(op.stream)].name)
      .run();
}

void lower_store(TileLoweringContext& context, const StoreTile& op) {
  Mover(context, false, op.stream, op.to, op.buffer, op.at, op.count, nullptr,
        "store " + context.program.streams[static_cast<size_t>(op.stream)].name)
      .run();
}

int64_t load_cycles(const Transport& transport, int64_t numbers, const isa::Chip& chip, bool normalize) {
  return move_cycles(transport, numbers, true, normalize, chip);
}

int64_t ahead_cycles(const Transport& transport, int64_t numbers, const isa::Chip& chip, bool others_stay) {
  return move_cycles(transport, numbers, true, true, chip, others_stay ? kExposedShare : kExposedShareOfAll);
}

int64_t store_cycles(const Transport& transport, int64_t numbers, const isa::Chip& chip) {
  return move_cycles(transport, numbers, false, false, chip);
}

int64_t load_l2bm_lw(const Transport& transport, int64_t numbers, const isa::Chip& chip) {
  return kChunksAtATime * cut(transport, numbers, isa::kCyclesPerStep, chip).l2bm_part;
}

}  // namespace kodama::compiler
