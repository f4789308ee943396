#include <algorithm>
#include <array>
#include <bit>
#include <utility>
#include <vector>

#include "compiler/kernels/lowering.h"
#include "isa/arithmetic.h"

/// Products whose operands come piece by piece while earlier pieces are multiplied.
///
/// A local memory has one address per step, and can't be read soon after a write. So nothing is written to
/// the one whose vectors are multiplied: the next vectors go to the other. A register file has one address
/// that is read per step: what goes to the matrix registers and the other local memory is in the one that has
/// no sums of the products at that time. A matrix is used once, and stays nowhere.
///
/// A *use* is what is done with one share of A: the products of a part with a piece. Uses are numbered, and
/// so are shares of B, in the order in which they come to the PEs: one in every use, for products so many
/// uses later as there are shares before the first.
namespace kodama::compiler {

using isa::ceil_div;
using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::Space;
using isa::Width;
using layout::L1bMode;
using layout::L2bMode;
using layout::MabMode;
using layout::Transport;

namespace {

constexpr const char* kStreamOrigin = "product";
constexpr int kFirstStreamTag = 9;  // behind those of loads and stores of tiles
constexpr size_t kHalves = 2;       ///< local memories, register files
constexpr int64_t kSlots = StreamProduct::kSharesInL2bm;
/// Matrices in L1BM. A round has a multiple of them.
constexpr int64_t kMatrixPortions = 4, kFewMatrixPortions = 2;
/// Portions of vectors there, where two shares have no room.
constexpr int64_t kFewPortions = 8;
/// Vectors, and matrices, on their way in a register file.
constexpr int64_t kRawSlots = 4;
constexpr int64_t kMatrixSlots = 2;

class StreamProductLowering {
 public:
  StreamProductLowering(TileLoweringContext& context, const StreamProduct& op)
      : builder_(context.builder),
        chip_(context.builder.chip()),
        op_(op),
        form_(matrix_form(op.precision)),
        precision_(matrix_instruction_precision(op.precision)),
        raw_lw_(isa::kCyclesPerStep *
                std::max(form_.stream_lw_of(op.a.element), form_.stream_lw_of(op.b.element))) {
    const auto value = [&](int buffer) {
      return buffer < 0 ? -1 : context.buffer_values[static_cast<size_t>(buffer)];
    };
    for (size_t k = 0; k < kHalves; ++k) {
      sums_.at(k) = value(op.c.at(k));
      parked_.at(k) = value(op.parked.at(k));
      result_.at(k) = value(op.result.at(k));
      if (op.store) stored_.at(k) = value(op.store->buffers.at(k));
      vectors_.at(k) = value(op.b_buffers.at(k));
      const isa::SpaceSet home = isa::space_bit(k == 0 ? Space::kGrf0 : Space::kGrf1);
      const int64_t alignment = isa::words(Width::kDoubleLong);
      raw_.at(k) = builder_.value("raw", kRawSlots * raw_lw_ * isa::kWordsPerLong, home, alignment);
      matrices_.at(k) =
          builder_.value("matrix", kMatrixSlots * form_.rows * isa::kWordsPerLong, home, alignment);
    }
    int tag = kFirstStreamTag;
    for (const auto& [source, lw, side] :
         {std::tuple(&op.a, op.a_lw(), &sides_[0]), std::tuple(&op.b, op.b_lw(), &sides_[1])}) {
      side->stream = &context.program.streams[static_cast<size_t>(source->stream)];
      side->source = source;
      side->numbers = lw;
      side->stream_lw = form_.stream_lw_of(source->element);
      side->group = side->stream_lw * isa::kCyclesPerStep;
      const Transport& transport = side->stream->transport;
      side->part_lw = transport.part_lw(side->stream->length_lw);
      side->l2bm_lw = source->pitch * transport.l2bm_lw_per_number();
      // As much as a step brings to L1BM, or as one takes from there.
      side->portion = std::max(side->group * transport.l1bm_lw_per_number(), l2bm_step_lw(transport)) /
                      transport.l1bm_lw_per_number();
      side->l1bm = side == sides_.data() ? 0 : chip_.memory.l1bm_lw / 2;
      side->l2bm = l2bm_share_;
      l2bm_share_ += side->l2bm_lw;
      side->mvs = static_cast<int>(
          mv_instructions(transport, true, 0, space_operand(Space::kDram, 0), 0, 0, 1, chip_).size());
      side->tag = tag;
      side->phases = transport.l2b_mode() == L2bMode::kExchanged ? exchange_phases(chip_) : 0;
      tag += (side->phases > 0 ? side->phases + 1 : static_cast<int>(kSlots)) * side->mvs;
    }
    store_tag_ = tag;
    // Vectors of two shares, if there is room; else they don't come to L1BM ahead.
    const int64_t matrix_lw = matrix_numbers() * sides_[0].stream->transport.l1bm_lw_per_number();
    sides_[0].slots =
        kMatrixPortions * matrix_lw <= chip_.memory.l1bm_lw / 2 ? kMatrixPortions : kFewMatrixPortions;
    const int64_t two_shares = 2 * portions(sides_[1]);
    vectors_ahead_ = two_shares * sides_[1].portion * sides_[1].stream->transport.l1bm_lw_per_number() <=
                     chip_.memory.l1bm_lw / 4;
    sides_[1].slots = vectors_ahead_ ? two_shares : kFewPortions;
    if (op.store) {
      store_stream_ = &context.program.streams[static_cast<size_t>(op.store->stream)];
    }
  }

  void run() {
    const int64_t uses = op_.shares();
    const int64_t before = op_.first_shares();
    const auto begin = [&](const Side& side, int64_t share) {
      begin_phase(side, share - 1, 0);
      fetch(side, share);
      exchange(side, share);
    };
    for (int64_t share = 0; share < kSlots; ++share) {
      begin(sides_[1], share);
      if (share + 1 < kSlots) begin(sides_[0], share);
    }
    for (int64_t share = 0; share < std::min(before, uses); ++share) {
      for (int64_t portion = 0; portion < portions(sides_[1]); ++portion) {
        vectors_to_l1bm(portion, share);
        vectors_to_pes(portion, share);
      }
      if (share + 1 < before) begin(sides_[1], share + kSlots);
    }
    if (phase_at() < blocks()) {
      begin_phase(sides_[0], kSlots - 2, 0);
      begin_phase(sides_[1], before + kSlots - 2, 0);
    }
    matrix_to_l1bm(0);
    matrix_to_register(0);
    to_l1bm({0, 0});
    // The first round begins sums, the last one ends them; those between are alike.
    const int64_t round = StreamProduct::kRound * op_.parts;
    const int64_t rounds = StreamProduct::store_rounds(op_.pieces, op_.parts);
    const int64_t stores = op_.store ? op_.store->rounds() : 0;
    int64_t use = 0;
    if (rounds > 0) rounds_of(0, 1, stores > 0);
    if (stores > 1) rounds_of(1, stores - 1, true);
    const int64_t behind = std::max<int64_t>(stores, 1);
    if (rounds > behind) rounds_of(behind, rounds - behind, false);
    use = rounds * round;
    for (; use < uses; ++use) multiply(use, false);
    if (stores > 0) wait_for_store();
  }

 private:
  struct Side {
    const TileStream* stream = nullptr;
    const StreamProduct::Source* source = nullptr;
    int64_t numbers = 0;               ///< of a share
    int64_t stream_lw = 0, group = 0;  ///< stream numbers that become an operand LW, and four of them
    int64_t part_lw = 0, l2bm_lw = 0, l2bm = 0, l1bm = 0;
    int64_t portion = 0;  ///< numbers that go through L1BM at a time
    int64_t slots = 0;    ///< portions that L1BM has at a time
    int mvs = 0, tag = 0;
    int phases = 0;  ///< of an exchange
  };
  static int64_t portions(const Side& side) { return ceil_div(side.numbers, side.portion); }

  /// What a use is.
  struct Use {
    int64_t piece = 0, part = 0;
    bool begins = false, ends = false;       ///< a turn of the part, where there are several
    bool is_first = false, is_last = false;  ///< of the part
  };
  Use use_of(int64_t number) const {
    if (op_.parts == 1) return {number, 0, false, false, number == 0, number + 1 == op_.pieces};
    // Share of B number 0 is as if it came in a turn before the first.
    const int64_t turn = (number + 2 * op_.parts) / (2 * op_.parts) - 1;
    const int64_t in_turn = number - turn * 2 * op_.parts;
    const bool is_second = in_turn % 2 == 1;
    const bool takes_lm1 = is_second != ((turn + in_turn / 2) % 2 != 0);
    return {
        2 * turn + (takes_lm1 ? 1 : 0),         in_turn / 2, !is_second, is_second, turn == 0 && !is_second,
        is_second && 2 * turn + 2 == op_.pieces};
  }
  /// Of a share of B: its piece, and which of the piece's it is.
  std::pair<int64_t, int64_t> vectors_of(int64_t share) const {
    if (op_.parts == 1) return {share, 0};
    const Use use = use_of(share - op_.first_shares());
    return {use.piece + (use.piece % 2 == 0 ? 3 : 1), use.part};
  }
  int64_t share_number(const Side& side, int64_t number) const {
    if (&side == sides_.data()) {
      const Use use = use_of(number);
      return use.piece * op_.parts + use.part;
    }
    const auto [piece, part] = vectors_of(number);
    return piece * op_.parts + part;
  }

  /// `count` rounds from number `first` on; with `stores`, each stores chunks, in their order.
  void rounds_of(int64_t first, int64_t count, bool stores) {
    const int64_t round = StreamProduct::kRound * op_.parts;
    looped_ = count > 1;
    if (looped_) builder_.begin_loop(count);
    for (int64_t use = first * round; use < (first + 1) * round; ++use) multiply(use, stores);
    if (looped_) builder_.end_loop();
    looped_ = false;
  }
  /// Strides of the loop of rounds, if it is open.
  std::vector<int64_t> per_round(int64_t stride) const {
    return looped_ ? std::vector<int64_t>{stride} : std::vector<int64_t>{};
  }

  /// A share of an operand to L2BM. Where L2Bs exchange shares, those before come to all of them meanwhile, a
  /// phase of each, until exchange() of the same number: in phase p, L2Bs at places that differ in bit p send
  /// each other what they have, which is twice as much after every phase.
  void fetch(const Side& side, int64_t number) {
    if (exists(number)) load(side, number);
  }
  /// The share that has been through all phases is there, and the next phases begin.
  void exchange(const Side& side, int64_t number) {
    if (side.phases == 0) return;
    if (exists(number - side.phases)) {
      for (int l2b = 0; l2b < chip_.l2b_count(); ++l2b) wait_for_phase(side, side.phases, l2b);
    }
    for (int phase = side.phases - 1; phase > 0; --phase) begin_phase(side, number - phase, phase);
  }
  void begin_phase(const Side& side, int64_t share, int phase) {
    if (side.phases == 0 || !exists(share)) return;
    for (int l2b = 0; l2b < chip_.l2b_count(); ++l2b) send(side, share, phase, l2b);
  }
  bool exists(int64_t share) const { return share >= 0 && (looped_ || share < op_.shares()); }
  /// Of a phase of an exchange, what an L2B sends; L2Bs are numbered as the MVs of a load.
  void send(const Side& side, int64_t number, int phase, int l2b) {
    wait_for_phase(side, phase, l2b);
    const Transport& transport = side.stream->transport;
    const int group = l2b % chip_.groups;
    const int unit = l2b / chip_.groups;
    const int place = transport.share_place(group, unit);
    const int other = transport.share_place(place ^ 1 << phase, unit);
    const int64_t share_lw = side.l2bm_lw / chip_.groups;
    isa::Instruction mv;
    mv.opcode = Opcode::kMvp;
    mv.size_lw = share_lw << phase;
    mv.tag = static_cast<int8_t>(phase_tag(side, phase + 1, l2b - group + other));
    Operand operand = space_operand(
        Space::kL2bm, number % kSlots * l2bm_share_ + side.l2bm + (place >> phase << phase) * share_lw);
    operand.unit = static_cast<int8_t>(unit);
    operand.group = static_cast<int8_t>(group);
    mv.sources = {operand};
    operand.group = static_cast<int8_t>(other);
    mv.destinations = {operand};
    builder_.emit(std::move(mv), origin(side));
  }
  /// Of what an L2B has after so many phases, or of its load.
  int phase_tag(const Side& side, int phases, int l2b) const { return side.tag + phases * side.mvs + l2b; }
  void wait_for_phase(const Side& side, int phases, int l2b) {
    builder_.emit_wait(phase_tag(side, phases, l2b), origin(side), true);
  }
  void load(const Side& side, int64_t number) {
    const int64_t slot = number % kSlots;
    const int tag = side.phases > 0 ? phase_tag(side, 0, 0) : side.tag + static_cast<int>(slot) * side.mvs;
    const Transport& transport = side.stream->transport;
    TileIndex from = side.source->from;
    from.base = transport.part_offset(from.base + share_number(side, number) * side.source->pitch);
    for (int64_t& stride : from.strides) stride = transport.part_offset(stride);
    const int64_t round = transport.part_offset(StreamProduct::kRound * op_.parts * side.source->pitch);
    const Operand dram = space_operand(Space::kDram, side.stream->dram_address + from.base,
                                       builder_.loop_strides(from, 1, per_round(round)));
    for (isa::Instruction& mv : mv_instructions(transport, true, side.l2bm_lw, dram, side.part_lw,
                                                slot * l2bm_share_ + side.l2bm, tag, chip_)) {
      builder_.emit(std::move(mv), origin(side));
    }
  }
  void wait(const Side& side, int64_t number) {
    if (side.phases > 0) return;  // exchange() has
    for (int k = 0; k < side.mvs; ++k)
      builder_.emit_wait(side.tag + static_cast<int>(number % kSlots) * side.mvs + k, origin(side), true);
  }
  static std::string origin(const Side& side) { return "load " + side.stream->name; }

  /// Where in L1BM `numbers` numbers of a side are, the `index`-th such portion.
  static int64_t l1bm_of(const Side& side, int64_t numbers, int64_t index) {
    return side.l1bm + index % side.slots * numbers * side.stream->transport.l1bm_lw_per_number();
  }
  /// `numbers` numbers of a share from `first` on to L1BM.
  void portion_to_l1bm(const Side& side, int64_t share, int64_t first, int64_t numbers, int64_t l1bm) {
    const Transport& transport = side.stream->transport;
    const int64_t fan_in = transport.l1bm_lw_per_number();
    const int64_t l2bm = share % kSlots * l2bm_share_ + side.l2bm;
    const int64_t from = first * transport.l2bm_lw_per_number();
    const int64_t step = l2bm_step_lw(transport);
    const int64_t widen = transport.l2bm_lw_per_number() / fan_in;
    for (int64_t at = 0; at < numbers * fan_in; at += step) {
      isa::Instruction move;
      move.opcode = transport.l1b_mode() == L1bMode::kDistribute ? Opcode::kL2bmd : Opcode::kL2bmb;
      move.sources = {
          space_operand(Space::kL2bm, l2bm + transport.l2bm_place(from + at * widen, side.l2bm_lw))};
      move.destinations = {space_operand(Space::kL1bm, l1bm + at)};
      builder_.emit(std::move(move), origin(side));
    }
  }
  /// Numbers from L1BM, as block floats in four LW.
  void to_pes(const Side& side, int64_t l1bm, const Operand& to) {
    const Transport& transport = side.stream->transport;
    const int64_t raw = raw_number_++ % kRawSlots * raw_lw_;
    for (int64_t at = 0; at < side.group; at += isa::kCyclesPerStep) {
      builder_.emit(transport.mab_mode() == MabMode::kDistribute ? Opcode::kL1bmd : Opcode::kL1bmm,
                    Precision::kNone,
                    {space_operand(Space::kL1bm, l1bm + at * transport.l1bm_lw_per_number())},
                    {MachineBuilder::operand(raw_.at(free_), (raw + at) * isa::kWordsPerLong)}, origin(side));
    }
    emit_normalize(builder_, op_.precision, side.source->element,
                   MachineBuilder::operand(raw_.at(free_), raw * isa::kWordsPerLong), to, origin(side));
  }

  /// Where a piece's vectors are: the local memory and, where both of a turn and the next two are there,
  /// which half of the buffer.
  Operand vectors_at(int64_t piece, int64_t lw) const {
    const int64_t half = op_.parts == 1 ? 0 : piece / 2 % 2;
    return MachineBuilder::operand(vectors_.at(static_cast<size_t>(piece % 2)),
                                   (half * op_.inner_lw * op_.columns + lw) * isa::kWordsPerLong);
  }
  // A portion of a share of the vectors.
  void vectors_to_l1bm(int64_t portion, int64_t share) {
    const Side& side = sides_[1];
    if (portion == 0) wait(side, share);
    portion_to_l1bm(side, share, portion * side.portion, side.portion,
                    l1bm_of(side, side.portion, share * portions(side) + portion));
  }
  void vectors_to_pes(int64_t portion, int64_t share) {
    const Side& side = sides_[1];
    const auto [piece, part] = vectors_of(share);
    const int64_t first = portion * side.portion;
    const int64_t l1bm = l1bm_of(side, side.portion, share * portions(side) + portion);
    for (int64_t at = 0; at < std::min(side.portion, side.numbers - first); at += side.group) {
      to_pes(side, l1bm + at * side.stream->transport.l1bm_lw_per_number(),
             vectors_at(piece, (part * side.numbers + first + at) / side.stream_lw));
    }
  }

  // Matrices are numbered over all uses. Those of a use are in the order inner LW, row blocks, so that a sum
  // isn't needed again at once.
  int64_t blocks() const { return op_.inner_lw * op_.row_blocks; }
  int64_t row_block(int64_t block) const { return block % op_.row_blocks; }
  int64_t inner(int64_t block) const { return block / op_.row_blocks; }
  bool is_first(int64_t block) const { return row_block(block) < op_.first_blocks(); }
  int64_t matrix_numbers() const { return form_.rows * sides_[0].stream_lw; }
  static Operand register_of(int64_t number, int64_t row, Width width = Width::kLong) {
    Operand operand = space_operand(number % 2 == 0 ? Space::kMatX : Space::kMatY, row);
    operand.width = width;
    return operand;
  }
  void matrix_to_l1bm(int64_t number) {
    const Side& side = sides_[0];
    const int64_t use = number / blocks();
    const int64_t block = number % blocks();
    if (block == 0) wait(side, use);
    portion_to_l1bm(side, use, (row_block(block) * op_.inner_lw + inner(block)) * matrix_numbers(),
                    matrix_numbers(), l1bm_of(side, matrix_numbers(), number));
  }
  void matrix_to_register(int64_t number) {
    const Side& side = sides_[0];
    const int64_t l1bm = l1bm_of(side, matrix_numbers(), number);
    const int64_t slot = number % kMatrixSlots * form_.rows;
    const int64_t rows = form_.rows / form_.write_steps;
    const Width width = rows == 2 * isa::kCyclesPerStep ? Width::kDoubleLong : Width::kLong;
    for (int64_t row = 0; row < form_.rows; row += isa::kCyclesPerStep) {
      to_pes(side, l1bm + row * side.stream_lw * side.stream->transport.l1bm_lw_per_number(),
             MachineBuilder::operand(matrices_.at(free_), (slot + row) * isa::kWordsPerLong));
    }
    for (int64_t step = 0; step < form_.write_steps; ++step) {
      builder_.emit(Opcode::kMwrite, precision_,
                    {MachineBuilder::operand(matrices_.at(free_), (slot + step * rows) * isa::kWordsPerLong,
                                             static_cast<int32_t>(isa::words(width)), width)},
                    {register_of(number, step * rows, width)}, kStreamOrigin);
    }
  }

  /// The products with one matrix.
  struct Moment {
    int64_t use = 0, block = 0;
  };
  /// What comes to the PEs beside these products: the next matrix, and portions from .first to .second of a
  /// share of the vectors.
  std::pair<int64_t, int64_t> portions_beside(const Moment& moment) const {
    if (!looped_ && moment.use + op_.first_shares() >= op_.shares()) return {0, 0};
    // Where sums come from the local memory that vectors go to, and where they go there, there's no room.
    const Use use = use_of(moment.use);
    const int64_t begin = use.begins ? op_.row_blocks : 0;
    const int64_t end = use.ends ? blocks() - op_.row_blocks : blocks();
    const auto until = [&](int64_t block) {
      return std::clamp<int64_t>(block - begin, 0, end - begin) * portions(sides_[1]) / (end - begin);
    };
    return {until(moment.block), until(moment.block + 1)};
  }
  bool has_next_matrix(const Moment& moment) const {
    return looped_ || moment.use + 1 < op_.shares() || moment.block + 1 < blocks();
  }
  void to_l1bm(const Moment& moment) {
    if (has_next_matrix(moment)) matrix_to_l1bm(moment.use * blocks() + moment.block + 1);
    const auto [begin, end] = portions_beside(moment);
    for (int64_t portion = begin; portion < end && vectors_ahead_; ++portion)
      vectors_to_l1bm(portion, moment.use + op_.first_shares());
  }
  void to_pes_beside(const Moment& moment) {
    if (has_next_matrix(moment)) matrix_to_register(moment.use * blocks() + moment.block + 1);
    const auto [begin, end] = portions_beside(moment);
    for (int64_t portion = begin; portion < end; ++portion) {
      if (!vectors_ahead_) vectors_to_l1bm(portion, moment.use + op_.first_shares());
      vectors_to_pes(portion, moment.use + op_.first_shares());
    }
  }

  // Phases of an exchange take time, and a transfer starts after the other: so they are spread over a use, or
  // this and the next: here are the blocks. That before the last takes of the next share.
  int64_t exchange_at() const { return std::max<int64_t>(blocks() - 2, 0); }
  int64_t phase_at() const { return exchange_at() + blocks() / 4; }
  int64_t fetch_at() const {
    return sides_[0].phases + sides_[1].phases > 0 ? std::max(exchange_at() + blocks() / 2, blocks())
                                                   : blocks();
  }

  /// Products of a use, and beside them what brings the next ones nearer: to the PEs what is in L1BM since
  /// the products before, to L1BM what comes to the PEs beside the next. Products come first: where somebody
  /// else wants the same port, it is their turn.
  void multiply(int64_t number, bool stores) {
    const Use use = use_of(number);
    // Vectors that came in the use before are in the PEs, and so are the matrices of that use.
    const std::array<int64_t, 2> shares = {number + kSlots - 1, number + op_.first_shares() + kSlots - 1};
    for (int64_t block = 0; block < blocks(); ++block) {
      for (size_t k = 0; k < sides_.size(); ++k) {
        if (block + blocks() == phase_at()) begin_phase(sides_[k], shares.at(k) - 1, 0);
        if (block + blocks() == fetch_at()) fetch(sides_[k], shares.at(k));
        if (block == exchange_at()) exchange(sides_[k], shares.at(k));
        if (block == phase_at()) begin_phase(sides_[k], shares.at(k), 0);
      }
      if (block == 0 && stores) store(number, use);
      free_ = is_first(block) ? 1 : 0;
      products(block, number * blocks() + block, use);
      to_pes_beside({number, block});
      const Moment next = block + 1 < blocks() ? Moment{number, block + 1} : Moment{number + 1, 0};
      if (looped_ || next.use < op_.shares()) to_l1bm(next);
    }
  }

  void products(int64_t block, int64_t matrix, const Use& use) {
    const int64_t in_file = row_block(block) - (is_first(block) ? 0 : op_.first_blocks());
    const int64_t in_all = use.part * op_.row_blocks + row_block(block);
    const int64_t in_result = use.part / 2 * op_.row_blocks + row_block(block);
    const bool begins = inner(block) == 0;
    const bool ends = inner(block) + 1 == op_.inner_lw;
    const int parked = parked_.at(static_cast<size_t>(1 - use.piece % 2));
    const Width width = form_.result_lw == 2 ? Width::kDoubleLong : Width::kLong;
    for (int64_t column = 0; column < op_.columns; column += isa::kCyclesPerStep) {
      const auto at = [&](int value, int64_t row) {
        return MachineBuilder::operand(value, (row * op_.columns + column) * isa::words(width),
                                       static_cast<int32_t>(isa::words(width)), width);
      };
      const Operand vector = vectors_at(use.piece, inner(block) * op_.columns + column);
      const Operand sum = at(sums_.at(is_first(block) ? 0 : 1), in_file);
      const int result = result_.at(static_cast<size_t>(use.part % 2));
      const Operand to = ends && use.is_last && result >= 0 ? at(result, in_result)
                         : ends && use.ends                 ? at(parked, in_all)
                                                            : sum;
      if (begins && use.is_first) {
        builder_.emit(Opcode::kMmul, precision_, {register_of(matrix, 0), vector}, {to}, kStreamOrigin);
      } else {
        builder_.emit(Opcode::kMfma, precision_,
                      {register_of(matrix, 0), vector, begins && use.begins ? at(parked, in_all) : sum}, {to},
                      kStreamOrigin);
      }
    }
  }

  /// A chunk of an earlier product's results, if this is a use that has one.
  void store(int64_t number, const Use& use) {
    const int64_t round = StreamProduct::kRound * op_.parts;
    const auto buffer_of = [&](int64_t piece) {
      size_t k = 0;
      for (; k < kHalves; ++k) {
        const Space memory = StreamProduct::result_memory(op_.pieces, op_.parts, static_cast<int>(k));
        if (stored_.at(k) >= 0 && memory != (piece % 2 == 0 ? Space::kLm0 : Space::kLm1)) break;
      }
      return k;
    };
    const size_t buffer = buffer_of(use.piece);
    if (buffer == kHalves) return;
    int64_t in_round = 0;
    for (int64_t earlier = number / round * round; earlier < number; ++earlier)
      in_round += buffer_of(use_of(earlier).piece) == buffer ? 1 : 0;
    // As evenly as can be, and not both buffers at once.
    const int64_t most = StreamProduct::most_chunks(op_.parts);
    const int64_t chunks = op_.store->chunks_per_round;
    if ((in_round + static_cast<int64_t>(buffer)) * chunks % most >= chunks) return;
    in_round = in_round * chunks / most;
    const StreamProduct::Results& results = *op_.store;
    const Transport& transport = store_stream_->transport;
    const int64_t fan_in = transport.l1bm_lw_per_number();
    const int64_t unit = transport.l2bm_lw_per_number();
    const std::string origin = "store " + store_stream_->name;
    const int64_t stride = results.chunks_per_round * results.chunk;
    const int64_t chunk = number / round * stride + in_round * results.chunk;
    const int64_t l1bm = chip_.memory.l1bm_lw - results.chunk * fan_in;
    const int64_t l2bm = kSlots * l2bm_share_;
    if (std::exchange(has_stored_, true)) wait_for_store();
    for (int64_t at = 0; at < results.chunk; at += isa::kCyclesPerStep) {
      builder_.emit(
          Opcode::kL1bmd, Precision::kNone,
          {builder_.operand_at(stored_.at(buffer), {}, (chunk + at) * isa::kWordsPerLong, isa::kWordsPerLong,
                               Width::kLong, per_round(stride * isa::kWordsPerLong))},
          {space_operand(Space::kL1bm, l1bm + at * fan_in)}, origin);
    }
    const int64_t step = l2bm_step_lw(transport);
    for (int64_t at = 0; at < results.chunk * fan_in; at += step) {
      isa::Instruction move;
      move.opcode = transport.l1b_mode() == L1bMode::kDistribute ? Opcode::kL2bmd : Opcode::kL2bm;
      if (move.opcode == Opcode::kL2bm) move.unit = 0;
      move.sources = {space_operand(Space::kL1bm, l1bm + at)};
      move.destinations = {space_operand(Space::kL2bm, l2bm + at * (unit / fan_in))};
      builder_.emit(std::move(move), origin);
    }
    const Operand dram =
        space_operand(Space::kDram,
                      store_stream_->dram_address +
                          (results.to.base + static_cast<int64_t>(buffer) * results.count + chunk) * unit,
                      builder_.loop_strides(results.to, unit, per_round(stride * unit)));
    for (isa::Instruction& mv :
         mv_instructions(transport, false, results.chunk * unit, dram,
                         transport.part_lw(store_stream_->length_lw), l2bm, store_tag_, chip_)) {
      builder_.emit(std::move(mv), origin);
    }
  }
  void wait_for_store() {
    for (int k = 0; k < chip_.l2b_per_group; ++k)
      builder_.emit_wait(store_tag_ + k, "store " + store_stream_->name, true);
  }

  MachineBuilder& builder_;
  const isa::Chip& chip_;
  const StreamProduct& op_;
  const MatrixForm& form_;
  Precision precision_;
  int64_t raw_lw_;  ///< LW that become four operand LW
  std::array<int, kHalves> sums_{}, parked_{};
  std::array<int, kHalves> vectors_{};
  std::array<int, kHalves> raw_{}, matrices_{};   ///< in either register file
  std::array<int, kHalves> result_{}, stored_{};  ///< results of this and of an earlier product
  std::array<Side, 2> sides_;                     ///< a, b
  size_t free_ = 1;                               ///< the register file without sums that are in use
  int64_t raw_number_ = 0;
  int64_t l2bm_share_ = 0;
  const TileStream* store_stream_ = nullptr;
  int store_tag_ = 0;
  bool vectors_ahead_ = false;
  bool looped_ = false, has_stored_ = false;
};

}  // namespace

int exchange_phases(const isa::Chip& chip) {
  if (chip.groups == 1 || chip.l2b_per_group == 1 || !std::has_single_bit(static_cast<uint64_t>(chip.groups)))
    return 0;
  const int phases = std::countr_zero(static_cast<uint64_t>(chip.groups));
  if (phases > kSlots - 2) return 0;  // behind its load, a share has so many uses until it is taken
  const int tags = (phases + 1) * chip.l2b_count() + static_cast<int>(kSlots) + chip.l2b_per_group;
  return kFirstStreamTag + tags <= isa::kMaxTransferTag + 1 ? phases : 0;
}

void lower_stream_product(TileLoweringContext& context, const StreamProduct& op) {
  StreamProductLowering(context, op).run();
}

}  // namespace kodama::compiler
