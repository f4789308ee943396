#include "compiler/compile/fetch_ahead.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "compiler/compile/local_memory.h"
#include "compiler/kernels/lowering.h"
#include "compiler/tile/buffer_use.h"
#include "isa/arithmetic.h"
#include "isa/costs.h"
#include "isa/error.h"
#include "scheduler/packing/packing.h"

namespace kodama::compiler {

using isa::ceil_div;
using isa::round_up;
using isa::Space;

namespace {

/// LW of L2BM that a piece takes at most: long enough to hide the transfer's start, short enough that several
/// are under way.
constexpr int64_t kPieceLw = 2048;
/// Loads that take DRAM less time aren't worth words of LM0 for several stages.
constexpr int64_t kShortestCycles = 128;
/// A stage takes about so many times the steps of its busiest issue group: distances, and rows that it waits
/// for.
constexpr int64_t kCyclesOfStep = 2;
/// Pieces for which L2BM must have room beside a stage's own rows.
constexpr int64_t kPiecesUnderWay = 4;
/// In eighths: as little of the time that DRAM has left is used as brings nearly all pieces that all of it
/// would, so that they are spread over many stages.
constexpr int64_t kSlackParts = 8;

bool is_local(scheduler::HomeSet homes, Space space) {
  return (homes & isa::space_bit(space)) != 0;
}

/// Cycles in which a group's DRAM is busy with a program's transfers.
class DramTime {
 public:
  DramTime(const TileProgram& program, const isa::Chip& chip) : program_(program), chip_(chip) {
    add(program.body, 1);
  }
  int64_t cycles() const {
    return static_cast<int64_t>(static_cast<double>(lw_) / chip_.transfer.dram_lw_per_cycle);
  }

 private:
  void add(const std::vector<TileNode>& nodes, int64_t times) {
    for (const TileNode& node : nodes) std::visit([&](const auto& op) { add(op, times); }, node.kind);
  }
  void add(const TileLoop& loop, int64_t times) { add(loop.body, times * loop.count); }
  void add(const LoadTile& op, int64_t times) { add_tile(op.stream, op.count, times); }
  void add(const StoreTile& op, int64_t times) { add_tile(op.stream, op.count, times); }
  void add(const StreamProduct& op, int64_t times) {
    add_tile(op.a.stream, op.shares() * op.a_lw(), times);
    add_tile(op.b.stream, op.shares() * op.b_lw(), times);
    if (op.store) add_tile(op.store->stream, op.store->count * (op.store->buffers[1] < 0 ? 1 : 2), times);
  }
  void add(const LoadRows& op, int64_t times) { add_rows(op.stream, op.transfers, times); }
  void add(const LoadLanes& op, int64_t times) { add_rows(op.stream, op.transfers, times); }
  void add(const LoadPlaces& op, int64_t times) { add_rows(op.stream, op.transfers, times); }
  void add(const LoadLines& op, int64_t times) { add_rows(op.stream, op.transfers, times); }
  void add(const StoreRows& op, int64_t times) { add_rows(op.stream, op.transfers, times); }
  void add(const SumL2bs& op, int64_t times) { add_rows(op.stream, op.transfers, times); }
  template <typename Op>
  void add(const Op&, int64_t) {}

  void add_tile(int stream, int64_t count, int64_t times) {
    const layout::Transport& transport = program_.streams[static_cast<size_t>(stream)].transport;
    lw_ += times * transport.part_offset(count) * transport.parts_per_group();
  }
  /// Transfers of single L2Bs are spread over the groups.
  void add_rows(int stream, const std::vector<RowsTransfer>& transfers, int64_t times) {
    for (const RowsTransfer& transfer : transfers) {
      if (stays_in_l2bm(transfer.stream < 0 ? stream : transfer.stream)) continue;
      lw_ += times * (transfer.l2b < 0 ? transfer.count * chip_.l2b_per_group
                                       : ceil_div(transfer.count, chip_.groups));
    }
  }
  /// About what the schedule of transfers finds room for from one layer to the next.
  static constexpr double kStayingShare = 0.4;  ///< of L2BM
  bool stays_in_l2bm(int stream) const {
    const TileStream& each = program_.streams[static_cast<size_t>(stream)];
    return static_cast<double>(each.transport.part_lw(each.length_lw)) <=
           kStayingShare * static_cast<double>(chip_.memory.l2bm_lw);
  }

  const TileProgram& program_;
  const isa::Chip& chip_;
  int64_t lw_ = 0;
};

/// Cycles that a program takes at least when nothing has to wait: those of the busiest issue group.
class StepTime {
 public:
  StepTime(const TileProgram& program, const isa::Chip& chip) {
    count(lower_tile_program(program, chip).body, 1);
  }
  int64_t cycles() const { return isa::kCyclesPerStep * *std::ranges::max_element(operations_); }

 private:
  void count(const std::vector<scheduler::Node>& nodes, int64_t times) {
    for (const scheduler::Node& node : nodes) {
      if (const auto* loop = std::get_if<scheduler::CountedLoop>(&node.kind)) {
        count(loop->body, times * loop->count);
      } else if (const auto* region = std::get_if<scheduler::RegionNode>(&node.kind)) {
        count(region->body, times);
      } else {
        for (const scheduler::Operation& operation : std::get<scheduler::Block>(node.kind).operations) {
          const isa::Instruction& instruction = operation.instruction;
          const isa::IssueGroup group = isa::issue_group(instruction);
          if (group == isa::IssueGroup::kMv || group == isa::IssueGroup::kWait) continue;
          operations_.at(static_cast<size_t>(group)) += times;
        }
      }
    }
  }

  std::array<int64_t, static_cast<size_t>(isa::IssueGroup::kMv)> operations_{};
};

/// Where a piece may go through L2BM without touching what a program has there between two operations;
/// nothing where there is no such place.
std::optional<int64_t> free_l2bm(const TileProgram& program, const isa::Chip& chip) {
  int64_t used = 0;
  bool stays = false;  // between operations
  // Halos are beside the rows, and steps take four units.
  const auto use_lanes = [&](int64_t first, int64_t rows, const RowOrder& order) {
    used = std::max(used, first + rows * order.lw() + isa::kCyclesPerStep * kUnitLw);
  };
  const auto use_transfers = [&](const std::vector<RowsTransfer>& transfers) {
    for (const RowsTransfer& transfer : transfers) used = std::max(used, transfer.l2bm + transfer.count);
  };
  for_each_node(program.body, [&](const TileNode& node) {
    if (const auto* load = std::get_if<LoadRows>(&node.kind)) {
      use_transfers(load->transfers);
      int64_t farthest = 0;
      for (const int64_t at : load->l1b_at) farthest = std::max(farthest, at);
      used = std::max(used, load->l2bm + (load->parts - 1) * load->part_lw + farthest +
                                (load->rows - 1) * load->order.lw() +
                                round_up(load->order.lw(), isa::kL2bmBlockLw));
    } else if (const auto* lanes = std::get_if<LoadLanes>(&node.kind)) {
      use_lanes(lanes->l2bm + (lanes->parts - 1) * lanes->part_lw, lanes->rows, lanes->order);
    } else if (const auto* places = std::get_if<LoadPlaces>(&node.kind)) {
      use_lanes(places->l2bm, places->places.rows, places->places.order);
    } else if (const auto* finish = std::get_if<FinishLanes>(&node.kind)) {
      stays = true;
      use_lanes(finish->l2bm, finish->places.rows, finish->places.order);
    } else if (const auto* lines = std::get_if<LoadLines>(&node.kind)) {
      use_lanes(lines->l2bm + (lines->parts - 1) * lines->part_lw, lines->rows, lines->order);
    } else if (const auto* reduce = std::get_if<ReduceLines>(&node.kind)) {
      stays = true;
      use_lanes(reduce->l2bm, reduce->rows, reduce->order);
    } else if (const auto* sum = std::get_if<SumRows>(&node.kind)) {
      stays = true;
      used = std::max(used, sum->l2bm + sum->rows * sum->row_lw + isa::kL2bmBlockLw);
    } else if (const auto* sums = std::get_if<SumL2bs>(&node.kind)) {
      use_transfers(sums->transfers);
    } else if (const auto* store = std::get_if<StoreRows>(&node.kind)) {
      use_transfers(store->transfers);
    }  // What others have there is over when they are.
  });
  const int64_t at = (chip.memory.l2bm_lw - kPieceLw) / isa::kL2bmBlockLw * isa::kL2bmBlockLw;
  if (at < 0 || (stays && used > at) || used + kPiecesUnderWay * kPieceLw > chip.memory.l2bm_lw)
    return std::nullopt;
  return at;
}

/// A load that could stand elsewhere.
struct Movable {
  int stage = 0;
  size_t node = 0;  ///< of the stage's program
  LoadTile load;
  int64_t size_lw = 0;              ///< of the buffer
  int64_t piece = 0;                ///< numbers
  int64_t pieces = 0;               ///< of the load
  int64_t piece_cycles = 0;         ///< of DRAM
  std::vector<int64_t> ahead = {};  ///< pieces by stage
  int first_stage() const {
    return static_cast<int>(std::ranges::find_if(ahead, [](int64_t n) { return n > 0; }) - ahead.begin());
  }
  bool moves() const {
    return std::ranges::any_of(ahead, [](int64_t n) { return n > 0; });
  }
};

class Planner {
 public:
  Planner(std::vector<AheadStage>& stages, const isa::Chip& chip)
      : stages_(stages), chip_(chip), capacity_(chip.memory.lm_words / isa::kWordsPerLong) {
    for (size_t k = 0; k < stages.size(); ++k) {
      find_movables(static_cast<int>(k));
      own_.push_back(own_lw(stages[k]));
      slack_.push_back(stages[k].tiles != nullptr ? slack_cycles(static_cast<int>(k)) : 0);
      l2bm_.push_back(stages[k].tiles != nullptr ? free_l2bm(*stages[k].tiles, chip) : std::nullopt);
    }
  }

  void run() {
    // Where addresses are not found, less has to be kept.
    for (int64_t part = 8; part >= 4; --part) {
      choose(capacity_ * part / 8);
      if (const auto addresses = place()) {
        rewrite(*addresses);
        return;
      }
    }
  }

 private:
  void find_movables(int stage) {
    const AheadStage& each = stages_[static_cast<size_t>(stage)];
    if (each.tiles == nullptr) return;
    const TileProgram& program = *each.tiles;
    std::vector<int> writers(program.buffers.size(), 0);
    for (const TileNode& node : program.body) {
      for (const int buffer : buffers_of(node).writes) ++writers[static_cast<size_t>(buffer)];
    }
    for (size_t k = 0; k < program.body.size(); ++k) {
      const auto* load = std::get_if<LoadTile>(&program.body[k].kind);
      if (load == nullptr || !each.constant_streams[static_cast<size_t>(load->stream)]) continue;
      const TileBuffer& buffer = program.buffers[static_cast<size_t>(load->buffer)];
      if (writers[static_cast<size_t>(load->buffer)] != 1 || !is_local(buffer.homes, Space::kLm0)) continue;
      const layout::Transport& transport = program.streams[static_cast<size_t>(load->stream)].transport;
      const int64_t shrink = load->stream_lw();
      const int64_t unit = std::lcm(transport.granule(), shrink * isa::kCyclesPerStep);
      Movable movable{.stage = stage, .node = k, .load = *load, .size_lw = buffer.size_lw};
      movable.piece = std::min(kPieceLw / transport.l2bm_lw_per_number(),
                               chip_.memory.l1bm_lw / 2 / transport.l1bm_lw_per_number()) /
                      unit * unit;
      if (movable.piece == 0) continue;
      movable.piece = std::min(movable.piece, round_up(load->count, unit));
      movable.pieces = ceil_div(load->count, movable.piece);
      movable.piece_cycles = static_cast<int64_t>(
          static_cast<double>(transport.part_offset(movable.piece) * transport.parts_per_group()) /
          chip_.transfer.dram_lw_per_cycle);
      if (movable.piece_cycles * movable.pieces < kShortestCycles) continue;
      movables_.push_back(std::move(movable));
    }
  }

  /// Cycles that DRAM has left in a stage. What is predicted for it has what it waits for today, its own
  /// constants among that.
  int64_t slack_cycles(int stage) const {
    const AheadStage& each = stages_[static_cast<size_t>(stage)];
    const int64_t busy = DramTime(*each.tiles, chip_).cycles();
    int64_t own = 0;
    for (const Movable& movable : movables_) {
      if (movable.stage == stage) own += movable.pieces * movable.piece_cycles;
    }
    const int64_t lasts = kCyclesOfStep * StepTime(*each.tiles, chip_).cycles();
    return std::max<int64_t>(0, std::min(each.cycles - busy, lasts - std::max<int64_t>(0, busy - own)));
  }

  /// LW of LM0 that a stage needs for itself, without what could be loaded ahead.
  int64_t own_lw(const AheadStage& stage) const {
    if (stage.is_alone) return capacity_ - taken_lw(stage);
    if (stage.tiles == nullptr) return 0;
    std::set<int> movable_buffers;
    for (const Movable& movable : movables_) {
      if (&stage == &stages_[static_cast<size_t>(movable.stage)]) movable_buffers.insert(movable.load.buffer);
    }
    return own_local_memory_lw(*stage.tiles, Space::kLm0, movable_buffers, chip_);
  }
  int64_t taken_lw(const AheadStage& stage) const {
    int64_t lw = 0;
    for (const TileProgram::Kept& taken : stage.taken) lw += taken.memory == Space::kLm0 ? taken.size_lw : 0;
    return lw;
  }

  /// Backwards, so that what is needed last is loaded last.
  void choose(int64_t capacity) {
    int64_t most = 0;
    for (int64_t part = kSlackParts; part >= 1; --part) {
      const int64_t moved = choose(capacity, part);
      if (part == kSlackParts) most = moved;
      constexpr int64_t kNearly = 16;
      if (moved * kNearly < most * (kNearly - 1)) {
        choose(capacity, part + 1);
        return;
      }
    }
  }
  /// Pieces' cycles that are loaded ahead.
  int64_t choose(int64_t capacity, int64_t part) {
    int64_t moved = 0;
    std::vector<int64_t> free;
    for (size_t k = 0; k < stages_.size(); ++k) free.push_back(capacity - own_[k] - taken_lw(stages_[k]));
    for (const Movable& movable : movables_) free[static_cast<size_t>(movable.stage)] -= movable.size_lw;
    std::vector<int64_t> slack = slack_;
    for (int64_t& cycles : slack) cycles = cycles * part / kSlackParts;
    for (auto movable = movables_.rbegin(); movable != movables_.rend(); ++movable) {
      movable->ahead.assign(stages_.size(), 0);
      int64_t left = movable->pieces;
      if (free[static_cast<size_t>(movable->stage)] < 0) continue;
      for (int stage = movable->stage - 1, held = movable->stage; stage >= 0 && left > 0; --stage) {
        const auto k = static_cast<size_t>(stage);
        if (free[k] < movable->size_lw) break;
        const int64_t taken =
            l2bm_[k] ? std::min(left, slack[k] / std::max<int64_t>(1, movable->piece_cycles)) : 0;
        if (taken == 0) continue;
        movable->ahead[k] = taken;
        slack[k] -= taken * movable->piece_cycles;
        left -= taken;
        moved += taken * movable->piece_cycles;
        for (; held > stage; --held) free[static_cast<size_t>(held - 1)] -= movable->size_lw;
      }
    }
    return moved;
  }

  /// Addresses of the buffers that are loaded ahead.
  std::optional<std::vector<int64_t>> place() const {
    scheduler::PackingProblem problem;
    problem.name = "constants";
    problem.capacity = capacity_;
    const auto add = [&](std::string name, int64_t first, int64_t last, int64_t size) {
      scheduler::PackingBuffer& buffer = problem.buffers.emplace_back();
      buffer.name = std::move(name);
      buffer.lower = first;
      buffer.upper = last + 1;
      buffer.size = size;
      buffer.alignment = 2;
      return &buffer;
    };
    for (size_t k = 0; k < movables_.size(); ++k) {
      const Movable& movable = movables_[k];
      // Those that stay are the stage's own.
      add(fmt::format("load {}", k), movable.moves() ? movable.first_stage() : movable.stage, movable.stage,
          round_up(movable.size_lw, 2));
    }
    for (size_t k = 0; k < stages_.size(); ++k) {
      const auto stage = static_cast<int64_t>(k);
      if (own_[k] > 0) add(fmt::format("own {}", k), stage, stage, own_[k]);
      for (const TileProgram::Kept& taken : stages_[k].taken) {
        if (taken.memory != Space::kLm0) continue;
        scheduler::PackingBuffer* buffer =
            add(fmt::format("taken {} {}", k, taken.begin_lw), stage, stage, taken.size_lw);
        buffer->alignment = 1;
        buffer->fixed_offset = taken.begin_lw;
      }
    }
    if (problem.buffers.empty()) return std::nullopt;
    const scheduler::PackingSolution found = scheduler::pack(problem, "improve");
    if (found.status != scheduler::PackingStatus::kSolved) return std::nullopt;
    return std::vector<int64_t>(found.offsets.begin(),
                                found.offsets.begin() + static_cast<ptrdiff_t>(movables_.size()));
  }

  void rewrite(const std::vector<int64_t>& addresses) {
    std::vector<std::vector<std::pair<const Movable*, LoadTile>>> pieces(stages_.size());
    for (size_t m = 0; m < movables_.size(); ++m) {
      const Movable& movable = movables_[m];
      if (!movable.moves()) continue;
      const auto needed = static_cast<size_t>(movable.stage);
      TileProgram& own = *stages_[needed].tiles;
      own.buffers[static_cast<size_t>(movable.load.buffer)].address_lw = addresses[m];
      const auto first = static_cast<size_t>(movable.first_stage());
      for (size_t k = first; k <= needed; ++k) {
        if (stages_[k].tiles != nullptr)
          stages_[k].tiles->kept.push_back({addresses[m], round_up(movable.size_lw, 2)});
      }
      const int64_t shrink = movable.load.stream_lw();
      const TileStream stream = own.streams[static_cast<size_t>(movable.load.stream)];
      const TileBuffer buffer = own.buffers[static_cast<size_t>(movable.load.buffer)];
      int64_t done = 0;
      for (size_t k = first; k < needed; ++k) {
        if (movable.ahead[k] == 0) continue;
        TileProgram& program = *stages_[k].tiles;
        LoadTile piece = movable.load;
        piece.stream = static_cast<int>(program.streams.size());
        piece.buffer = static_cast<int>(program.buffers.size());
        piece.beside_at = l2bm_[k];
        program.streams.push_back(stream);
        program.streams.back().name = fmt::format("{} of {}", stream.name, own.name);
        program.buffers.push_back(buffer);
        program.buffers.back().name = fmt::format("{} of {}", buffer.name, own.name);
        for (int64_t n = 0; n < movable.ahead[k] && done < movable.load.count; ++n) {
          piece.from.base = movable.load.from.base + done;
          piece.at.base = movable.load.at.base + done / shrink;
          piece.count = std::min(movable.piece, movable.load.count - done);
          done += piece.count;
          pieces[k].emplace_back(&movable, piece);
        }
      }
      auto& rest = std::get<LoadTile>(own.body[movable.node].kind);
      rest.from.base += done;
      rest.at.base += done / shrink;
      rest.count -= done;
    }
    for (size_t k = 0; k < stages_.size(); ++k) {
      if (stages_[k].tiles != nullptr) insert(*stages_[k].tiles, pieces[k]);
    }
  }

  /// Spreads pieces over the time of a program, the first needed first.
  void insert(TileProgram& program, std::vector<std::pair<const Movable*, LoadTile>>& pieces) const {
    std::ranges::stable_sort(pieces, {}, [](const auto& piece) { return piece.first->stage; });
    std::vector<TileNode> nodes = std::move(program.body);
    std::erase_if(nodes, [](const TileNode& node) {
      const auto* load = std::get_if<LoadTile>(&node.kind);
      return load != nullptr && load->count == 0;
    });
    std::vector<int64_t> begin;
    int64_t all = 0;
    for (const TileNode& node : nodes) {
      begin.push_back(all);
      program.body = {node};
      all += StepTime(program, chip_).cycles();
    }
    program.body.clear();
    const auto count = static_cast<int64_t>(pieces.size());
    size_t next = 0;
    for (size_t k = 0; k < nodes.size(); ++k) {
      for (; next < pieces.size() && static_cast<int64_t>(next) * all <= count * begin[k]; ++next)
        program.body.push_back({pieces[next].second});
      program.body.push_back(std::move(nodes[k]));
    }
    for (; next < pieces.size(); ++next) program.body.push_back({pieces[next].second});
  }

  std::vector<AheadStage>& stages_;
  const isa::Chip& chip_;
  int64_t capacity_;  ///< LW of LM0
  std::vector<Movable> movables_;
  std::vector<int64_t> own_;
  std::vector<int64_t> slack_;                ///< cycles of DRAM
  std::vector<std::optional<int64_t>> l2bm_;  ///< for pieces
};

}  // namespace

void fetch_ahead(std::vector<AheadStage>& stages, const isa::Chip& chip) {
  Planner(stages, chip).run();
}

}  // namespace kodama::compiler
