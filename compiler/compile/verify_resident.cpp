#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compiler/compile/resident.h"
#include "compiler/tile/buffer_use.h"
#include "isa/error.h"

namespace kodama::compiler {

namespace {

/// base + sum(strides * counters), as many strides as both need.
TileIndex scaled(TileIndex index, int64_t factor, const TileIndex& more) {
  index.base = index.base * factor + more.base;
  for (int64_t& stride : index.strides) stride *= factor;
  if (index.strides.size() < more.strides.size()) index.strides.resize(more.strides.size(), 0);
  for (size_t d = 0; d < more.strides.size(); ++d) index.strides[d] += more.strides[d];
  while (!index.strides.empty() && index.strides.back() == 0) index.strides.pop_back();
  return index;
}

bool is_zero(const TileIndex& index) {
  return scaled(index, 1, {}) == TileIndex{};
}

class ResidentVerifier {
 public:
  explicit ResidentVerifier(const TileProgram& preparation) : preparation_(preparation) {
    for (const TileNode& node : preparation.body) {
      const auto* load = std::get_if<LoadTile>(&node.kind);
      require(load != nullptr && is_zero(load->at) && load->from.strides.empty(), preparation,
              "something else than a load");
      const TileBuffer& buffer = preparation.buffers[static_cast<size_t>(load->buffer)];
      const int64_t size = load->count / load->stream_lw();
      require(size <= buffer.size_lw && is_kept(preparation, buffer.memory, buffer.address_lw, size),
              preparation, fmt::format("buffer '{}' is not among what is kept", buffer.name));
      std::map<int64_t, const LoadTile*>& loads = loads_[buffer.memory];
      const auto [place, is_new] = loads.emplace(buffer.address_lw, load);
      const auto next = std::next(place);
      require(is_new && (next == loads.end() || buffer.address_lw + size <= next->first) &&
                  (place == loads.begin() || end_of(*std::prev(place)->second) <= buffer.address_lw),
              preparation, fmt::format("buffer '{}' is where another one is", buffer.name));
    }
  }

  void stage(const TileProgram& before, const TileProgram& after) {
    before_ = &before;
    after_ = &after;
    for (const TileProgram::Kept& kept : preparation_.kept)
      require(is_kept(after, kept.memory, kept.begin_lw, kept.size_lw), after,
              "words that stay are not kept");
    walk(before.body, after.body, {});
  }
  void relayout(const std::vector<TileProgram::Kept>& written) const {
    for (const TileProgram::Kept& kept : preparation_.kept) {
      for (const TileProgram::Kept& each : written) {
        require(
            !each.meets(kept.memory, kept.begin_lw, kept.size_lw), preparation_,
            fmt::format("{} LW of {} stay from {} on, where a relayout writes {} from {} on", kept.size_lw,
                        isa::space_name(kept.memory), kept.begin_lw, each.size_lw, each.begin_lw));
      }
    }
  }

 private:
  /// The last load to a buffer of `before`.
  struct Last {
    const LoadTile* load = nullptr;
    bool is_gone = false;
  };
  using Contents = std::map<int, Last>;

  static void require(bool condition, const TileProgram& program, const std::string& what) {
    isa::check_internal(condition, "verify_resident", "{}: {}", program.name, what);
  }
  static bool is_kept(const TileProgram& program, isa::Space memory, int64_t begin, int64_t size) {
    return std::ranges::any_of(program.kept,
                               [&](const TileProgram::Kept& kept) { return kept.has(memory, begin, size); });
  }
  int64_t end_of(const LoadTile& load) const {
    return preparation_.buffers[static_cast<size_t>(load.buffer)].address_lw + load.count / load.stream_lw();
  }

  void walk(const std::vector<TileNode>& before, const std::vector<TileNode>& after, Contents contents) {
    auto now = after.begin();
    for (const TileNode& node : before) {
      for (const int buffer : buffers_of(node).writes) {
        if (!std::holds_alternative<LoadTile>(node.kind)) contents.erase(buffer);
      }
      const auto* load = std::get_if<LoadTile>(&node.kind);
      if (load != nullptr) {
        const auto* same = now != after.end() ? std::get_if<LoadTile>(&now->kind) : nullptr;
        const bool stays = (same != nullptr && *same == *load) || is_copy(*load, now, after.end());
        contents[load->buffer] = {load, !stays};
        if (stays) ++now;
        continue;
      }
      if (const auto* loop = std::get_if<TileLoop>(&node.kind)) {
        const auto* other = now != after.end() ? std::get_if<TileLoop>(&now->kind) : nullptr;
        if (other != nullptr && other->name == loop->name && other->count == loop->count) {
          walk(loop->body, other->body, contents);
          ++now;
        } else {
          walk(loop->body, {}, contents);  // only loads
        }
        continue;
      }
      require(now != after.end(), *after_, "an operation is gone");
      operation(node, *now++, contents);
    }
    require(now == after.end(), *after_, "an operation came from nowhere");
  }

  /// Whether what comes next brings a load's numbers to its buffer from where they stay.
  bool is_copy(const LoadTile& load, std::vector<TileNode>::const_iterator now,
               std::vector<TileNode>::const_iterator end) const {
    const auto* copy = now != end ? std::get_if<MapTile>(&now->kind) : nullptr;
    if (copy == nullptr || copy->out != load.buffer || !(copy->expr == ScalarExpr::identity()) ||
        copy->inputs.size() != 1 || copy->inputs[0].buffer < static_cast<int>(before_->buffers.size()) ||
        !(copy->out_at == load.at) || copy->count != load.count / load.stream_lw())
      return false;
    check_numbers(load, TileIndex{}, copy->inputs[0].buffer, copy->inputs[0].at);
    return true;
  }

  void operation(TileNode was, TileNode is, const Contents& contents) const {
    const std::vector<BufferRead> old_reads = reads_of(was);
    const std::vector<BufferRead> new_reads = reads_of(is);
    require(was.kind.index() == is.kind.index() && old_reads.size() == new_reads.size(), *after_,
            "another operation");
    for (size_t k = 0; k < old_reads.size(); ++k) {
      const auto found = contents.find(*old_reads[k].buffer);
      const Last last = found != contents.end() ? found->second : Last{};
      if (*old_reads[k].buffer == *new_reads[k].buffer) {
        require(!last.is_gone, *after_,
                fmt::format("nobody fills buffer '{}'",
                            before_->buffers[static_cast<size_t>(*old_reads[k].buffer)].name));
        continue;
      }
      require(last.is_gone, *after_, "a read of something else than a load has brought");
      check_words(*last.load, old_reads[k], new_reads[k]);
      *new_reads[k].buffer = *old_reads[k].buffer;
      if (new_reads[k].at != nullptr) *new_reads[k].at = *old_reads[k].at;
    }
    const bool same = std::visit(
        [&](const auto& op) {
          using Op = std::decay_t<decltype(op)>;
          if constexpr (std::is_same_v<Op, TileLoop>) {
            return false;
          } else {
            return op == std::get<Op>(is.kind);
          }
        },
        was.kind);
    require(same, *after_, "another operation");
    for (const int buffer : buffers_of(is).writes)
      require(after_->buffers[static_cast<size_t>(buffer)].address_lw < 0, *after_,
              "a write to a buffer that stays");
  }

  /// A read of what a load brought is one of what stays.
  void check_words(const LoadTile& load, const BufferRead& was, const BufferRead& is) const {
    const TileBuffer& buffer = after_->buffers[static_cast<size_t>(*is.buffer)];
    require((before_->buffers[static_cast<size_t>(*was.buffer)].homes & isa::space_bit(buffer.memory)) != 0,
            *after_,
            fmt::format("buffer '{}' may not be in {}", buffer.name, isa::space_name(buffer.memory)));
    require(is_zero(load.at), *after_, fmt::format("buffer '{}' has a part of its load", buffer.name));
    check_numbers(load, was.at != nullptr ? *was.at : TileIndex{}, *is.buffer,
                  is.at != nullptr ? *is.at : TileIndex{});
  }
  /// Number `was` of what a load brings is LW `is` of a buffer that stays.
  void check_numbers(const LoadTile& load, const TileIndex& was, int number, const TileIndex& is) const {
    const TileBuffer& buffer = after_->buffers[static_cast<size_t>(number)];
    const auto loads = loads_.find(buffer.memory);
    require(loads != loads_.end(), *after_, fmt::format("nobody fills buffer '{}'", buffer.name));
    auto place = loads->second.upper_bound(buffer.address_lw);
    require(place != loads->second.begin(), *after_, fmt::format("nobody fills buffer '{}'", buffer.name));
    const auto& [address, filled] = *--place;
    require(buffer.address_lw + buffer.size_lw <= end_of(*filled), *after_,
            fmt::format("buffer '{}' is filled in part", buffer.name));
    const TileStream& wanted = before_->streams[static_cast<size_t>(load.stream)];
    const TileStream& brought = preparation_.streams[static_cast<size_t>(filled->stream)];
    require(wanted.dram_address == brought.dram_address && wanted.transport == brought.transport &&
                wanted.length_lw == brought.length_lw && load.normalize == filled->normalize,
            *after_, fmt::format("buffer '{}' has numbers of another stream", buffer.name));
    const int64_t lw = load.stream_lw();
    const TileIndex first{filled->from.base + (buffer.address_lw - address) * lw, {}};
    const TileIndex old_number = scaled(was, lw, load.from);
    const TileIndex new_number = scaled(is, lw, first);
    require(old_number == new_number, *after_,
            fmt::format("buffer '{}' has other numbers of its stream", buffer.name));
  }

  const TileProgram& preparation_;
  std::map<isa::Space, std::map<int64_t, const LoadTile*>> loads_;  ///< of the preparation, by address
  const TileProgram* before_ = nullptr;
  const TileProgram* after_ = nullptr;
};

}  // namespace

void verify_resident(const std::vector<const TileProgram*>& before,
                     const std::vector<const TileProgram*>& after, const TileProgram& preparation,
                     const std::vector<ResidentStage>& stages) {
  ResidentVerifier verifier(preparation);
  for (size_t k = 0; k < after.size(); ++k) {
    if (after[k] != nullptr) {
      verifier.stage(*before[k], *after[k]);
    } else {
      verifier.relayout(stages[k].taken);
    }
  }
}

}  // namespace kodama::compiler
