#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "compiler/compile/keep_results.h"
#include "compiler/tile/buffer_use.h"
#include "isa/arithmetic.h"
#include "isa/error.h"

/// Follows LW by LW what loads bring to the PEs of every L1B, and what operations leave there.
namespace kodama::compiler {

namespace {

using isa::kCyclesPerStep;
using isa::Space;

constexpr int64_t kHalfLw = kColumnLw / 2;
/// L1BM's pieces of half a column that an l1bmd brings to the MABs in a cycle.
constexpr size_t kPieces = kUnitLw / kHalfLw;

/// What a LW of an L1B's PEs has: of an image that stage `version` has made, the units at these places of an
/// L2B's part, and in which form.
struct Words {
  int image = -1;
  size_t version = 0;
  int form = 0;
  int64_t lane = 0;
  std::array<int64_t, kPieces> dram{};
  bool operator==(const Words&) const = default;
};
/// By L1B and LW.
using WordsByPlace = std::map<std::pair<size_t, int64_t>, Words>;

/// Whether every L2B moves rows of its own.
bool are_own(const std::vector<RowsTransfer>& transfers) {
  return std::ranges::all_of(transfers, [](const RowsTransfer& transfer) {
    return transfer.stream < 0 && transfer.group < 0 && transfer.l2b < 0 && !transfer.to_all;
  });
}
/// The place of a LW of L2BM in an L2B's part of DRAM; -1: nobody brings it.
int64_t dram_of(const std::vector<RowsTransfer>& transfers, int64_t l2bm) {
  for (const RowsTransfer& transfer : transfers) {
    if (transfer.l2bm <= l2bm && l2bm < transfer.l2bm + transfer.count)
      return transfer.dram + l2bm - transfer.l2bm;
  }
  return -1;
}

class KeptResultsVerifier {
 public:
  KeptResultsVerifier(const std::vector<ResultStage>& stages, const std::vector<const TileProgram*>& after,
                      const isa::Chip& chip)
      : stages_(stages), after_(after), l1bs_(static_cast<size_t>(chip.l1b_per_l2b)) {}

  void run() {
    for (number_ = 0; number_ < after_.size(); ++number_) {
      if (after_[number_] == nullptr) {
        forget([&](int64_t lw) {
          return std::ranges::any_of(stages_[number_].taken, [&](const TileProgram::Kept& each) {
            return each.meets(Space::kLm0, lw, 1);
          });
        });
        continue;
      }
      const TileProgram& program = *after_[number_];
      const auto has = [&](int64_t lw) {
        return std::ranges::any_of(
            program.kept, [&](const TileProgram::Kept& each) { return each.has(Space::kLm0, lw, 1); });
      };
      forget([&](int64_t lw) { return !has(lw); });
      stage(*stages_[number_].tiles, program);
    }
  }

 private:
  void require(bool condition, const std::string& what) const {
    isa::check_internal(condition, "verify_keep_results", "{}: {}", after_[number_]->name, what);
  }
  template <typename IsGone>
  void forget(IsGone&& is_gone) {
    std::erase_if(memory_, [&](const auto& each) { return is_gone(each.first.second); });
  }

  void stage(const TileProgram& before, const TileProgram& after) {
    require(after.buffers.size() >= before.buffers.size() && after.streams.size() == before.streams.size(),
            "other buffers or streams");
    for (size_t b = before.buffers.size(); b < after.buffers.size(); ++b) {
      const TileBuffer& buffer = after.buffers[b];
      require(buffer.memory == Space::kLm0 && buffer.address_lw >= 0, "a buffer that is nowhere");
      for (const TileProgram::Kept& other : before.kept)
        require(!other.meets(Space::kLm0, buffer.address_lw, buffer.size_lw),
                fmt::format("buffer '{}' is where something else stays", buffer.name));
    }
    gone_.clear();
    staged_.clear();
    auto now = after.body.begin();
    for (const TileNode& node : before.body) {
      const bool is_load =
          std::holds_alternative<LoadRows>(node.kind) || std::holds_alternative<LoadPlaces>(node.kind);
      const bool is_there = now != after.body.end() && is_same(node, *now);
      require(is_there || is_load, "an operation is gone, or another one");
      if (!is_there) {
        load(node);
        continue;
      }
      for (const int buffer : buffers_of(node).writes) gone_.erase(buffer);
      read(node, *now);
      if (const auto* store = std::get_if<StoreRows>(&node.kind)) take_away(*store);
      make(*now);
      ++now;
    }
    require(now == after.body.end(), "an operation came from nowhere");
  }

  /// But for what is kept, and inputs that are; nothing of that is in loops.
  static bool is_same(const TileNode& was, const TileNode& is, bool in_loop = false) {
    if (was.kind.index() != is.kind.index()) return false;
    return std::visit(
        [&](const auto& old) {
          using Op = std::decay_t<decltype(old)>;
          Op op = std::get<Op>(is.kind);
          if constexpr (std::is_same_v<Op, TileLoop>) {
            const auto same = [](const TileNode& a, const TileNode& b) { return is_same(a, b, true); };
            return old.name == op.name && old.count == op.count &&
                   std::ranges::equal(old.body, op.body, same);
          } else {
            if constexpr (requires { op.kept; }) {
              if (!in_loop) op.kept = old.kept;
              for (size_t k = 0; k < std::min(op.inputs.size(), old.inputs.size()); ++k) {
                if (in_loop || !op.inputs[k].of_rows) continue;
                op.inputs[k].buffer = old.inputs[k].buffer;
                op.inputs[k].at = old.inputs[k].at;
              }
            }
            return op == old;
          }
        },
        was.kind);
  }

  int image_of(int stream) const {
    const std::vector<int>& images = stages_[number_].images;
    return static_cast<size_t>(stream) < images.size() ? images[static_cast<size_t>(stream)] : -1;
  }

  void load(const TileNode& node) {
    WordsByPlace contents;
    int buffer = -1;
    if (const auto* rows = std::get_if<LoadRows>(&node.kind)) {
      buffer = rows->buffer;
      const bool is_plain = !rows->normalize && rows->parts == 1 && rows->first_chunk == 0 &&
                            rows->first_column == 0 && rows->columns == rows->pitch &&
                            rows->pitch == rows->order.groups * kCyclesPerStep;
      require(is_plain && are_own(rows->transfers), "a load of something else than own rows is gone");
      const Words of{image_of(rows->stream), versions_[image_of(rows->stream)],
                     rows->form == RowsForm::kSpread ? 1 : 0};
      for (size_t b = 0; b < l1bs_; ++b) {
        const int64_t from = rows->l1b_at.empty() ? 0 : b < rows->l1b_at.size() ? rows->l1b_at[b] : -1;
        for (int64_t row = 0; from >= 0 && row < rows->rows; ++row) {
          for (int64_t chunk = 0; chunk < rows->chunks; ++chunk) {
            for (int64_t group = 0; group < rows->order.groups; ++group) {
              const int64_t l2bm = rows->l2bm + from + row * rows->order.lw() + rows->order.at(chunk, group);
              unit(contents, of, b, {rows->order.groups, rows->chunks}, rows->buffer_rows,
                   rows->first_row + row, chunk, group, dram_of(rows->transfers, l2bm));
            }
          }
        }
      }
    } else if (const auto* places = std::get_if<LoadPlaces>(&node.kind)) {
      buffer = places->buffer;
      require(are_own(places->transfers), "a load of something else than own rows is gone");
      const Words of{image_of(places->stream), versions_[image_of(places->stream)], 2};
      contents = lanes(places->places, of,
                       [&](int64_t l2bm) { return dram_of(places->transfers, places->l2bm + l2bm); });
    }
    WordsByPlace& gone = gone_[buffer];
    // Lanes fill all of it; of rows that nobody brings there is nothing.
    if (std::holds_alternative<LoadPlaces>(node.kind)) gone.clear();
    for (const auto& [place, words] : contents) {
      if (is_nothing(words)) {
        gone.erase(place);
      } else {
        gone[place] = words;
      }
    }
  }

  static bool is_nothing(const Words& words) {
    return std::ranges::all_of(words.dram, [](int64_t dram) { return dram < 0; });
  }
  /// A unit of a chunk: four LW of a PE, a lane each, or one where it is spread.
  static void unit(WordsByPlace& contents, Words words, size_t l1b, const RowOrder& order,
                   int64_t buffer_rows, int64_t row, int64_t chunk, int64_t group, int64_t dram) {
    words.dram.fill(dram);
    if (words.form == 1) {
      contents[{l1b, row * isa::round_up(order.chunks, kCyclesPerStep) + chunk}] = words;
      return;
    }
    for (words.lane = 0; words.lane < kCyclesPerStep; ++words.lane) {
      const int64_t column = words.lane * order.groups + group;
      contents[{l1b, (chunk * buffer_rows + row) * order.groups * kCyclesPerStep + column}] = words;
    }
  }

  /// What an L1B has of its lane's places: half of every unit.
  template <typename DramOf>
  WordsByPlace lanes(const LanePlaces& places, Words words, DramOf&& dram) const {
    WordsByPlace contents;
    const int64_t width = places.order.width();
    for (int64_t set = 0; set < places.sets(); ++set) {
      std::map<int64_t, std::array<int64_t, kPieces>> by_lw;
      for (int64_t row = 0; row < places.rows; ++row) {
        for (int64_t u = 0; u < places.order.groups * width; ++u) {
          const int64_t from = row * places.order.lw() + places.order.at(set * width, 0) + u * kUnitLw;
          const int64_t piece = row * places.row_places * width + u;
          const auto [lw, is_new] = by_lw.try_emplace(piece / static_cast<int64_t>(kPieces));
          if (is_new) lw->second.fill(-1);
          lw->second.at(static_cast<size_t>(piece) % kPieces) = dram(from);
        }
      }
      for (const auto& [lw, pieces] : by_lw) {
        words.dram = pieces;
        for (size_t b = 0; b < l1bs_; ++b) contents[{b, set * places.spread_lw() + lw}] = words;
      }
    }
    return contents;
  }

  void read(const TileNode& was, const TileNode& is) const {
    const std::vector<RowsInput> old_inputs = inputs_of(was), new_inputs = inputs_of(is);
    for (const int buffer : buffers_of(is).reads) require(!gone_.contains(buffer), "nobody fills a buffer");
    for (size_t k = 0; k < old_inputs.size(); ++k) {
      if (old_inputs[k] == new_inputs[k]) continue;
      const auto gone = gone_.find(old_inputs[k].buffer);
      require(gone != gone_.end() && !gone->second.empty() && old_inputs[k].at == 0,
              "a read of something else than rows that were loaded");
      const TileBuffer& buffer = after_[number_]->buffers[static_cast<size_t>(new_inputs[k].buffer)];
      require(buffer.address_lw >= 0 && buffer.memory == Space::kLm0, "a read of what doesn't stay");
      for (const auto& [place, words] : gone->second) {
        const auto found = memory_.find({place.first, buffer.address_lw + new_inputs[k].at + place.second});
        require(found != memory_.end() && found->second == words && words.image >= 0,
                fmt::format("LW {} of buffer '{}' isn't what its own load brings to L1B {}",
                            new_inputs[k].at + place.second, buffer.name, place.first));
      }
    }
  }
  static std::vector<RowsInput> inputs_of(const TileNode& node) {
    return std::visit(
        [](const auto& op) -> std::vector<RowsInput> {
          if constexpr (requires { op.kept; }) {
            return op.inputs;
          } else {
            return {};
          }
        },
        node.kind);
  }

  /// What an operation leaves in the PEs: of which image is known when it is taken away.
  void make(const TileNode& node) {
    if (std::holds_alternative<SumRows>(node.kind) || std::holds_alternative<SumL2bs>(node.kind) ||
        std::holds_alternative<TileLoop>(node.kind))
      staged_.clear();
    std::visit(
        [&](const auto& op) {
          if constexpr (requires { op.kept; }) staged_.push_back(&node);
        },
        node.kind);
  }

  void take_away(const StoreRows& store) {
    const int image = are_own(store.transfers) ? image_of(store.stream) : -1;
    if (image >= 0) versions_[image] = number_;
    for (const TileNode* node : std::exchange(staged_, {})) {
      if (const auto* rows = std::get_if<FinishRows>(&node->kind)) {
        make_rows(store, image, *rows, rows->rows, rows->chunk, rows->chunk + 1);
      } else if (const auto* normalize = std::get_if<NormalizeRows>(&node->kind)) {
        make_rows(store, image, *normalize, normalize->staged_rows(), 0, normalize->order.chunks);
      } else if (const auto* finish = std::get_if<FinishLanes>(&node->kind)) {
        if (finish->kept.buffer < 0) continue;
        const WordsByPlace all = lanes(finish->places, {image, number_, 2}, [&](int64_t l2bm) {
          return dram_of(store.transfers, finish->l2bm + l2bm);
        });
        const int64_t set_lw = finish->places.spread_lw();
        for (const auto& [place, words] : all) {
          if (place.second / set_lw == finish->set) put(finish->kept, place, words);
        }
      }
    }
  }
  /// Chunks [first, last) of an operation's rows.
  template <typename Op>
  void make_rows(const StoreRows& store, int image, const Op& op, int64_t staged_rows, int64_t first,
                 int64_t last) {
    if (op.kept.buffer < 0) return;
    WordsByPlace all;
    const Words words{image, number_, op.spread ? 1 : 0};
    for (size_t b = 0; b < store.l1b_at.size(); ++b) {
      for (int64_t row = 0; row < op.rows; ++row) {
        for (int64_t chunk = first; chunk < last; ++chunk) {
          for (int64_t group = 0; group < op.order.groups; ++group) {
            const int64_t l1bm = op.spread ? (chunk * staged_rows + row) * kUnitLw
                                           : row * op.order.lw() + op.order.at(chunk, group);
            unit(all, words, b, op.order, op.buffer_rows, op.first_row + row, chunk, group,
                 dram_of(store.transfers, l2bm_of(store, b, l1bm)));
          }
        }
      }
    }
    for (const auto& [place, each] : all) {
      if (!is_nothing(each)) put(op.kept, place, each);
    }
  }
  /// Where a store brings a LW of an L1B's results; -1: nowhere.
  static int64_t l2bm_of(const StoreRows& store, size_t l1b, int64_t l1bm) {
    const int64_t pitch = store.l1b_segment_lw > 0 ? store.l1b_segment_lw : store.segment_lw;
    for (int64_t row = 0; row < store.rows; ++row) {
      for (int64_t k = 0; k < store.segments; ++k) {
        const int64_t at = l1bm - row * store.l1b_row_lw - k * pitch;
        if (0 <= at && at < store.segment_lw)
          return store.l2bm + store.l1b_at[l1b] + row * store.row_lw + k * store.chunk_lw + at;
      }
    }
    return -1;
  }
  void put(const KeptRows& kept, std::pair<size_t, int64_t> place, const Words& words) {
    const TileBuffer& buffer = after_[number_]->buffers[static_cast<size_t>(kept.buffer)];
    memory_[{place.first, buffer.address_lw + kept.at + place.second}] = words;
  }

  const std::vector<ResultStage>& stages_;
  const std::vector<const TileProgram*>& after_;
  size_t l1bs_;
  size_t number_ = 0;                    ///< of the stage
  WordsByPlace memory_;                  ///< LM0
  std::map<int, size_t> versions_;       ///< of images: who made what is there
  std::map<int, WordsByPlace> gone_;     ///< what loads that are gone would have brought, by buffer
  std::vector<const TileNode*> staged_;  ///< operations whose results nobody has taken yet
};

}  // namespace

void verify_keep_results(const std::vector<ResultStage>& stages, const std::vector<const TileProgram*>& after,
                         const isa::Chip& chip) {
  KeptResultsVerifier(stages, after, chip).run();
}

}  // namespace kodama::compiler
