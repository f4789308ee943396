#include "compiler/compile/keep_results.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "compiler/compile/local_memory.h"
#include "compiler/kernels/rows_division.h"
#include "compiler/tile/buffer_use.h"
#include "isa/arithmetic.h"

namespace kodama::compiler {

using isa::kCyclesPerStep;
using isa::Space;

namespace {

/// Of LM0, what results may take: the rest is for constants that come early.
constexpr int64_t kShareOfLocal = 4;
/// Alignment of what has words of its own, as values of a program have.
constexpr int64_t kAlignmentLw = 2;

/// Inputs of an operation that knows what stays, or null.
std::vector<RowsInput>* inputs_of(TileNode& node) {
  return std::visit(
      [](auto& op) -> std::vector<RowsInput>* {
        if constexpr (requires { op.kept; }) {
          return &op.inputs;
        } else {
          return nullptr;
        }
      },
      node.kind);
}
void set_kept(TileNode& node, const KeptRows& kept) {
  std::visit(
      [&](auto& op) {
        if constexpr (requires { op.kept; }) op.kept = kept;
      },
      node.kind);
}

/// Rows of a buffer.
struct RowRange {
  int64_t first = 0, count = 1, all = 1;
};
RowRange rows_of(const TileNode& node) {
  return std::visit(
      [](const auto& op) -> RowRange {
        if constexpr (requires { op.buffer_rows; }) {
          return {op.first_row, op.rows, op.buffer_rows};
        } else {
          return {};  // lanes: all that there is
        }
      },
      node.kind);
}

/// Transfers of rows that begin at `l2bm`.
std::vector<RowsTransfer> from(std::vector<RowsTransfer> transfers, int64_t l2bm) {
  for (RowsTransfer& transfer : transfers) transfer.l2bm -= l2bm;
  return transfers;
}

/// Results that operations make one after the other, and what takes them away together.
struct Made {
  std::vector<size_t> nodes;  ///< FinishRows, FinishLanes, or a NormalizeRows
  size_t store = 0;           ///< a StoreRows
  int64_t place = 0;          ///< of those of the program: others' rows may be in the same one
};

/// Whether a load brings to the PEs what the operations have there, each the same.
class Inverse {
 public:
  Inverse(const TileProgram& maker, const Made& made)
      : last_(maker.body[made.nodes.back()]), store_(std::get<StoreRows>(maker.body[made.store].kind)) {}

  bool is(const LoadPlaces& load) const {
    const auto* finish = std::get_if<FinishLanes>(&last_.kind);
    return finish != nullptr && finish->places == load.places && finish->l2bm == store_.l2bm &&
           moves_the_same(load);
  }
  bool is(const LoadRows& load) const {
    if (const auto* finish = std::get_if<FinishRows>(&last_.kind)) return is(load, *finish, finish->rows);
    if (const auto* normalize = std::get_if<NormalizeRows>(&last_.kind))
      return is(load, *normalize, normalize->staged_rows());
    return false;
  }

 private:
  template <typename Load>
  bool moves_the_same(const Load& load) const {
    return from(load.transfers, load.l2bm) == from(store_.transfers, store_.l2bm);
  }
  template <typename Finish>
  bool is(const LoadRows& load, const Finish& finish, int64_t staged_rows) const {
    const int64_t columns = finish.order.groups * kCyclesPerStep;
    const RowsForm form = finish.spread ? RowsForm::kSpread : RowsForm::kVectors;
    StoreRows back;
    set_segments(back, load.order, load.chunks);
    if (finish.spread) set_spread_segments(back, load.chunks, staged_rows);
    const auto segments = [](const StoreRows& store) {
      return std::tuple(store.segments, store.segment_lw, store.chunk_lw, store.l1b_row_lw,
                        store.l1b_segment_lw);
    };
    return !load.normalize && load.form == form && load.parts == 1 && load.first_chunk == 0 &&
           load.first_column == 0 && load.columns == columns && load.pitch == columns &&
           load.order.groups == finish.order.groups && load.chunks == finish.order.chunks &&
           load.rows == finish.rows && load.rows == store_.rows && load.first_row == finish.first_row &&
           load.buffer_rows == finish.buffer_rows && load.l1b_at == store_.l1b_at &&
           load.order.lw() == store_.row_lw && segments(back) == segments(store_) && moves_the_same(load);
  }

  const TileNode& last_;
  const StoreRows& store_;
};

/// What a program makes in the PEs, in the order of its operations.
class Maker {
 public:
  explicit Maker(const TileProgram& program) {
    std::vector<size_t> nodes;
    std::set<int64_t> rows_taken;
    for (size_t k = 0; k < program.body.size(); ++k) {
      const TileNode& node = program.body[k];
      if (makes_results(node)) nodes.push_back(k);
      if (std::holds_alternative<SumRows>(node.kind) || std::holds_alternative<SumL2bs>(node.kind) ||
          std::holds_alternative<TileLoop>(node.kind))
        nodes.clear();
      const auto* store = std::get_if<StoreRows>(&node.kind);
      if (store == nullptr) continue;
      // What only goes to L2BM are parts of sums.
      if (!store->transfers.empty() && is_whole(program, nodes))
        add(program, {std::exchange(nodes, {}), k}, rows_taken);
      nodes.clear();
    }
  }
  const std::vector<Made>& list() const { return list_; }
  /// LW of the PEs for all of them.
  int64_t lw() const { return places_ * place_lw_; }
  /// Where its place begins.
  int64_t at(const Made& made) const { return made.place * place_lw_; }

 private:
  static bool makes_results(const TileNode& node) {
    return std::holds_alternative<FinishRows>(node.kind) || std::holds_alternative<FinishLanes>(node.kind) ||
           std::holds_alternative<NormalizeRows>(node.kind);
  }
  /// Whether operations make every chunk of the same rows once.
  static bool is_whole(const TileProgram& program, const std::vector<size_t>& nodes) {
    if (nodes.empty()) return false;
    std::set<int64_t> chunks;
    int64_t all = 0;
    const TileNode& first = program.body[nodes[0]];
    for (const size_t k : nodes) {
      const TileNode& node = program.body[k];
      if (node.kind.index() != first.kind.index()) return false;
      if (const auto* rows = std::get_if<FinishRows>(&node.kind)) {
        const auto& other = std::get<FinishRows>(first.kind);
        all = rows->order.chunks;
        chunks.insert(rows->chunk);
        if (!(rows->order == other.order) || rows->rows != other.rows || rows->first_row != other.first_row ||
            rows->buffer_rows != other.buffer_rows || rows->spread != other.spread)
          return false;
      } else if (const auto* lanes = std::get_if<FinishLanes>(&node.kind)) {
        const auto& other = std::get<FinishLanes>(first.kind);
        // Sums that nothing is done with pass the PEs by.
        if (lanes->epilogue == ScalarExpr::identity()) return false;
        all = lanes->places.sets();
        chunks.insert(lanes->set);
        if (!(lanes->places == other.places) || lanes->l2bm != other.l2bm) return false;
      } else {
        all = 1;
        chunks.insert(std::ssize(chunks));
      }
    }
    return std::ssize(chunks) == all && std::ssize(nodes) == all;
  }
  static int64_t lw_of(const TileNode& node) {
    return std::visit(
        [](const auto& op) -> int64_t {
          using Op = std::decay_t<decltype(op)>;
          if constexpr (std::is_same_v<Op, FinishLanes>) {
            return op.places.sets() * op.places.spread_lw();
          } else if constexpr (std::is_same_v<Op, FinishRows> || std::is_same_v<Op, NormalizeRows>) {
            return op.spread ? spread_buffer_lw(op.buffer_rows, op.order.chunks)
                             : op.order.chunks * op.buffer_rows * op.order.groups * kCyclesPerStep;
          } else {
            return 0;
          }
        },
        node.kind);
  }
  /// Where rows are there already, another place begins.
  void add(const TileProgram& program, Made made, std::set<int64_t>& rows_taken) {
    const TileNode& node = program.body[made.nodes.back()];
    const RowRange rows = rows_of(node);
    bool is_new = places_ == 0 || rows.count == rows.all;
    for (int64_t row = rows.first; row < rows.first + rows.count; ++row)
      is_new = is_new || rows_taken.contains(row);
    if (is_new) {
      rows_taken.clear();
      ++places_;
    }
    for (int64_t row = rows.first; row < rows.first + rows.count; ++row) rows_taken.insert(row);
    place_lw_ = std::max(place_lw_, isa::round_up(lw_of(node), kCyclesPerStep));
    made.place = places_ - 1;
    list_.push_back(std::move(made));
  }

  std::vector<Made> list_;
  int64_t places_ = 0, place_lw_ = 0;
};

/// Which of what was made a buffer of another stage is filled with, and who reads it.
struct Use {
  size_t stage = 0;
  int buffer = -1;
  std::vector<size_t> loads;
  std::vector<std::pair<size_t, int64_t>> readers;  ///< operations, and where in all of it their rows begin
};

/// How buffer `number` of a stage could do without its loads; nothing where it can't.
std::optional<Use> use_of(const ResultStage& stage, int number, const TileProgram& maker, const Maker& made,
                          int image) {
  Use use;
  use.buffer = number;
  std::vector<int64_t> rows_at;  // in all that was made, by row of the buffer
  const auto is_inverse = [&](const TileNode& node, const Made& each) {
    const Inverse inverse(maker, each);
    if (const auto* rows = std::get_if<LoadRows>(&node.kind)) return inverse.is(*rows);
    return inverse.is(std::get<LoadPlaces>(node.kind));
  };
  for (size_t k = 0; k < stage.tiles->body.size(); ++k) {
    const TileNode& node = stage.tiles->body[k];
    const auto [reads, writes] = buffers_of(node);
    if (std::ranges::find(writes, number) != writes.end()) {
      int stream = -1;
      if (const auto* rows = std::get_if<LoadRows>(&node.kind)) stream = rows->stream;
      if (const auto* places = std::get_if<LoadPlaces>(&node.kind)) stream = places->stream;
      if (stream < 0 || static_cast<size_t>(stream) >= stage.images.size() ||
          stage.images[static_cast<size_t>(stream)] != image)
        return std::nullopt;
      const auto same =
          std::ranges::find_if(made.list(), [&](const Made& each) { return is_inverse(node, each); });
      if (same == made.list().end()) return std::nullopt;
      const RowRange rows = rows_of(node);
      rows_at.resize(static_cast<size_t>(rows.all), -1);
      std::fill_n(rows_at.begin() + rows.first, rows.count, made.at(*same));
      use.loads.push_back(k);
    }
    const auto count = std::ranges::count(reads, number);
    if (count == 0) continue;
    TileNode copy = node;
    const std::vector<RowsInput>* inputs = inputs_of(copy);
    if (inputs == nullptr || use.loads.empty()) return std::nullopt;
    if (std::ranges::count_if(*inputs, [&](const RowsInput& input) {
          return input.buffer == number && input.of_rows;
        }) != count)
      return std::nullopt;
    // Not across two places.
    const RowRange rows = rows_of(node);
    if (rows.all != std::ssize(rows_at)) return std::nullopt;
    const int64_t at = rows_at[static_cast<size_t>(rows.first)];
    for (int64_t row = rows.first; row < rows.first + rows.count; ++row) {
      if (at < 0 || rows_at[static_cast<size_t>(row)] != at) return std::nullopt;
    }
    use.readers.emplace_back(k, at);
  }
  return use.readers.empty() ? std::nullopt : std::optional(use);
}

class ResultKeeper {
 public:
  ResultKeeper(const std::vector<ResultStage>& stages, const isa::Chip& chip)
      : stages_(stages),
        chip_(chip),
        capacity_(chip.memory.lm_words / isa::kWordsPerLong),
        kept_(stages.size()),
        dropped_(stages.size()),
        erased_(stages.size()) {}

  std::vector<bool> run() {
    for (size_t k = 0; k < stages_.size(); ++k) {
      if (stages_[k].tiles != nullptr) keep(k);
    }
    std::vector<bool> changed(stages_.size(), false);
    for (size_t k = 0; k < stages_.size(); ++k) {
      changed[k] = !kept_[k].empty();
      if (stages_[k].tiles == nullptr) continue;
      TileProgram& program = *stages_[k].tiles;
      program.kept.insert(program.kept.end(), kept_[k].begin(), kept_[k].end());
      for (auto node = erased_[k].rbegin(); node != erased_[k].rend(); ++node)
        program.body.erase(program.body.begin() + static_cast<ptrdiff_t>(*node));
    }
    return changed;
  }

 private:
  /// What a stage makes, for those behind it that it has room for.
  void keep(size_t stage) {
    TileProgram& program = *stages_[stage].tiles;
    const Maker made(program);
    if (made.list().empty() || made.lw() > capacity_ / kShareOfLocal) return;
    const auto& store = std::get<StoreRows>(program.body[made.list()[0].store].kind);
    const std::vector<int>& images = stages_[stage].images;
    const int image =
        static_cast<size_t>(store.stream) < images.size() ? images[static_cast<size_t>(store.stream)] : -1;
    if (image < 0) return;
    std::vector<Use> uses;
    for (size_t k = stage + 1; k < stages_.size(); ++k) {
      if (!stages_[k].may_keep) break;
      if (stages_[k].tiles == nullptr ||
          std::ranges::find(stages_[k].images, image) == stages_[k].images.end())
        continue;
      const TileProgram& reader = *stages_[k].tiles;
      for (size_t b = 0; b < reader.buffers.size(); ++b) {
        const TileBuffer& buffer = reader.buffers[b];
        if (buffer.address_lw >= 0 || (buffer.homes & isa::space_bit(Space::kLm0)) == 0) continue;
        if (auto use = use_of(stages_[k], static_cast<int>(b), program, made, image)) {
          use->stage = k;
          uses.push_back(std::move(*use));
        }
      }
    }
    if (!stages_[stage].may_keep) return;
    for (; !uses.empty(); uses.pop_back()) {
      if (const auto address = address_for(stage, uses, made.lw())) {
        rewrite(stage, made, uses, *address);
        return;
      }
    }
  }

  /// The last room of LM0 that all stages leave, and leave enough of to each other's buffers: before that of
  /// constants that stay, so that what is left is in one piece.
  std::optional<int64_t> address_for(size_t first, const std::vector<Use>& uses, int64_t lw) const {
    const size_t last = uses.back().stage;
    std::vector<bool> taken(static_cast<size_t>(capacity_), false);
    const auto take = [&](const TileProgram::Kept& each) {
      if (each.memory == Space::kLm0) std::fill_n(taken.begin() + each.begin_lw, each.size_lw, true);
    };
    for (size_t k = first; k <= last; ++k) {
      int64_t sum = lw;
      const auto take_all = [&](const std::vector<TileProgram::Kept>& list) {
        for (const TileProgram::Kept& each : list) {
          take(each);
          if (each.memory == Space::kLm0) sum += each.size_lw;
        }
      };
      take_all(kept_[k]);
      if (sum > capacity_ / kShareOfLocal) return std::nullopt;
      if (stages_[k].tiles == nullptr) {
        take_all(stages_[k].taken);
        continue;
      }
      take_all(stages_[k].tiles->kept);
      std::set<int> without = dropped_[k];
      for (const Use& use : uses) {
        if (use.stage == k) without.insert(use.buffer);
      }
      if (sum + own_local_memory_lw(*stages_[k].tiles, Space::kLm0, without, chip_) > capacity_)
        return std::nullopt;
    }
    const auto is_free = [&](int64_t at) {
      return std::find(taken.begin() + at, taken.begin() + at + lw, true) == taken.begin() + at + lw;
    };
    for (int64_t at = (capacity_ - lw) / kAlignmentLw * kAlignmentLw; at >= 0; at -= kAlignmentLw) {
      if (is_free(at)) return at;
    }
    return std::nullopt;
  }

  void rewrite(size_t first, const Maker& made, const std::vector<Use>& uses, int64_t address) {
    const auto add_buffer = [&](TileProgram& program, const std::string& name) {
      TileBuffer buffer;
      buffer.name = name;
      buffer.size_lw = made.lw();
      buffer.homes = isa::space_bit(Space::kLm0);
      buffer.address_lw = address;
      program.buffers.push_back(std::move(buffer));
      return static_cast<int>(program.buffers.size()) - 1;
    };
    TileProgram& maker = *stages_[first].tiles;
    const int results = add_buffer(maker, "results that stay");
    for (const Made& each : made.list()) {
      for (const size_t node : each.nodes) set_kept(maker.body[node], {results, made.at(each)});
    }
    for (const Use& use : uses) {
      TileProgram& program = *stages_[use.stage].tiles;
      const int there = add_buffer(program, "results of " + maker.name);
      for (const auto& [node, at] : use.readers) {
        for (RowsInput& input : *inputs_of(program.body[node])) {
          if (input.buffer != use.buffer || !input.of_rows) continue;
          input.buffer = there;
          input.at = at;
        }
      }
      dropped_[use.stage].insert(use.buffer);
      erased_[use.stage].insert(use.loads.begin(), use.loads.end());
    }
    for (size_t k = first; k <= uses.back().stage; ++k) kept_[k].push_back({address, made.lw(), Space::kLm0});
  }

  const std::vector<ResultStage>& stages_;
  const isa::Chip& chip_;
  int64_t capacity_;  ///< LW of LM0
  std::vector<std::vector<TileProgram::Kept>> kept_;
  std::vector<std::set<int>> dropped_;    ///< buffers that nobody fills any more
  std::vector<std::set<size_t>> erased_;  ///< their loads
};

}  // namespace

std::vector<bool> keep_results(const std::vector<ResultStage>& stages, const isa::Chip& chip) {
  return ResultKeeper(stages, chip).run();
}

}  // namespace kodama::compiler
