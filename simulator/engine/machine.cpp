#include "simulator/machine.h"

#include <algorithm>
#include <thread>

#include "isa/error.h"
#include "isa/hazards.h"
#include "simulator/debug_text.h"
#include "simulator/engine/chip_memories.h"
#include "simulator/engine/decode.h"
#include "simulator/engine/l1b.h"
#include "simulator/engine/l2b_moves.h"
#include "simulator/engine/run_clock.h"
#include "simulator/engine/transfers.h"
#include "simulator/thread_pool.h"

/// A run of a program: who executes which statement, and on how many threads.
namespace kodama::simulator {
namespace {

using isa::Space;

}  // namespace

void RunStats::add_moved(int64_t lw) {
  if (__builtin_add_overflow(mv_lw, lw, &mv_lw)) mv_lw = INT64_MAX;
}

RunStats& RunStats::operator+=(const RunStats& other) {
  steps += other.steps;
  nops += other.nops;
  mvs += other.mvs;
  add_moved(other.mv_lw);
  causes += other.causes;
  alu_ops += other.alu_ops;
  mau_ops += other.mau_ops;
  l1bm_ops += other.l1bm_ops;
  l2bm_ops += other.l2bm_ops;
  return *this;
}

class Machine::Impl {
 public:
  Impl(const isa::Chip& chip, const MachineOptions& options)
      : kernels_(&best_kernels()),
        memories_(chip, *kernels_),
        clock_(memories_),
        transfers_(memories_, options.most_dram_bytes),
        pool_(options.threads > 0 ? options.threads
                                  : std::max(1, static_cast<int>(std::thread::hardware_concurrency()))) {
    for (int i = 0; i < pool_.threads(); ++i) scratch_.emplace_back(L1b::row_shape(chip), chip.mab_per_l1b);
    if (options.memory == MachineOptions::Memory::kDirty) memories_.fill_pseudo_random(options.seed, pool_);
  }

  ChipMemories& memories() { return memories_; }
  const ChipMemories& memories() const { return memories_; }

  RunStats run(const isa::Program& program, const RunOptions& options) {
    isa::check_internal(options.timing || (options.profile == nullptr && options.timeline == nullptr),
                        "simulator", "a profile or timeline needs timing");
    isa::check_internal(
        !options.before_statement || (options.profile == nullptr && options.timeline == nullptr), "simulator",
        "a profile or timeline of statements run one at a time");
    const Decoded decoded = decode(program, memories_.chip, *kernels_);  // refuses what can't run
    transfers_.begin(program.source_name);
    options_ = &options;
    stats_ = {};
    for (L1b& l1b : memories_.l1bs) l1b.clear_block_mask();
    const std::unique_ptr<Impl, void (*)(Impl*)> end_of_run(this, [](Impl* self) {
      self->clock_.abandon();  // if the run didn't come to its end
      self->stopped_ = false;
      if (self->memories_.late) self->memories_.show_stale(false);
    });
    isa::check_internal(options.hazards != Hazards::kStall || (options.timing && !options.before_statement),
                        "simulator", "stalls for hazards need timing, and statements that run together");
    if (options.hazards == Hazards::kError) refuse_hazards(program);
    if (options.hazards == Hazards::kStale) memories_.show_stale(true);
    if (options.timing) clock_.begin(decoded, options);
    Counters counters{};
    if (options.before_statement) {
      run_one_by_one(program);
    } else {
      run_global(decoded.nodes, 0, counters);
    }
    if (clock_.running()) stats_.causes = clock_.finish();
    return stats_;
  }

  void run_one_by_one(const isa::Program& program) {
    isa::Program one;
    one.source_name = program.source_name;
    std::vector<int64_t> loop_counters;
    isa::for_each_executed(program.statements, loop_counters,
                           [&](const isa::Statement& next, const auto& at) {
                             one.statements = {isa::resolved(next, at)};
                             if (!options_->before_statement(one.statements[0])) return false;
                             Counters counters{};
                             run_global(decode(one, memories_.chip, *kernels_).nodes, 0, counters);
                             return !std::holds_alternative<isa::Quit>(next.kind);
                           });
  }

 private:
  // -------------------------------------------------------------------------------------------------
  // Execution. Consecutive nodes that reach no further than an L2B form a stretch, which runs L2B by L2B
  // (or L1B by L1B) on all threads, so that the memories of an L1B stay in the cache of one core.

  void run_global(const std::vector<Node>& nodes, int depth, Counters& counters) {
    size_t i = 0;
    while (i < nodes.size() && !stopped_) {
      size_t end = i;
      Reach reach = Reach::kL1b;
      RunStats stretch;
      while (end < nodes.size() && nodes[end].reach != Reach::kGlobal) {
        reach = std::max(reach, nodes[end].reach);
        stretch += nodes[end].stats;
        ++end;
      }
      if (end > i) {
        run_stretch({nodes.data() + i, end - i}, reach, stretch, depth, counters);
        i = end;
        continue;
      }
      run_global_node(nodes[i], depth, counters);
      if (options_->progress) options_->progress(stats_.steps);
      ++i;
    }
    if (depth == 0) stopped_ = false;
  }

  void run_stretch(std::span<const Node> nodes, Reach reach, const RunStats& stretch, int depth,
                   const Counters& counters) {
    stats_ += stretch;
    if (clock_.running()) clock_.stretch(nodes, stretch.steps, depth, counters);
    // In pieces, so that who watches the progress of a long program can end it.
    constexpr size_t kPiece = 4096;
    for (size_t at = 0; at < nodes.size(); at += kPiece) {
      run_piece(nodes.subspan(at, std::min(kPiece, nodes.size() - at)), reach, stretch, depth, counters);
      if (options_->progress) options_->progress(stats_.steps);
    }
  }
  void run_piece(std::span<const Node> nodes, Reach reach, const RunStats& stretch, int depth,
                 const Counters& counters) {
    const bool has_work =
        std::any_of(nodes.begin(), nodes.end(), [](const Node& node) { return !node.idle; });
    if (has_work || memories_.late) {
      // A thread hand-over costs as much as a few steps of an L1B.
      constexpr int64_t kWorthThreads = 16;
      const bool by_l1b = stays_in_l1bs(reach);
      const int units = by_l1b ? static_cast<int>(memories_.l1bs.size()) : memories_.chip.l2b_count();
      auto task = [&](int unit, int thread) {
        Counters own = counters;
        if (by_l1b) {
          run_in_l1b(nodes, unit, depth, own, scratch_[thread]);
        } else {
          run_in_l2b(nodes, unit, depth, own, scratch_[thread]);
        }
      };
      if ((stretch.steps - stretch.nops) * static_cast<int64_t>(memories_.l1bs.size()) < kWorthThreads) {
        for (int unit = 0; unit < units; ++unit) task(unit, 0);
      } else {
        pool_.run(units, task);
      }
    }
  }

  /// Whether each L1B can run such nodes by itself. Who keeps what was in an L2BM looks at all of them.
  bool stays_in_l1bs(Reach reach) const {
    return reach == Reach::kL1b || (reach == Reach::kFetch && !memories_.late);
  }

  void run_in_l1b(std::span<const Node> nodes, int number, int depth, Counters& counters, Scratch& scratch) {
    L1b& l1b = memories_.l1bs[static_cast<size_t>(number)];
    for (const Node& node : nodes) {
      switch (node.kind) {
        case Node::Kind::kStep:
          l1b.run_step(node, counters, scratch);
          for (const MicroOp& op : node.l2b_ops) fetch_from_l2bm(op, number, counters, memories_);
          if (l1b.stale() != nullptr) l1b.stale()->end_steps(1);
          break;
        case Node::Kind::kNop:
          if (l1b.stale() != nullptr) l1b.stale()->end_steps(node.count);
          break;
        case Node::Kind::kLoop:
          for (int64_t k = 0; k < node.count; ++k) {
            counters[depth] = k;
            run_in_l1b(node.body, number, depth + 1, counters, scratch);
          }
          break;
        case Node::Kind::kMask:
          l1b.set_block_mask(*node.mask);
          break;
        default:
          break;
      }
    }
  }

  void run_in_l2b(std::span<const Node> nodes, int l2b, int depth, Counters& counters, Scratch& scratch) {
    const int l1bs = memories_.chip.l1b_per_l2b;
    size_t i = 0;
    while (i < nodes.size()) {
      size_t end = i;
      while (end < nodes.size() && stays_in_l1bs(nodes[end].reach)) ++end;
      if (end > i) {
        for (int b = 0; b < l1bs; ++b)
          run_in_l1b(nodes.subspan(i, end - i), l2b * l1bs + b, depth, counters, scratch);
        i = end;
        continue;
      }
      const Node& node = nodes[i++];
      if (node.kind == Node::Kind::kLoop) {
        for (int64_t k = 0; k < node.count; ++k) {
          counters[depth] = k;
          run_in_l2b(node.body, l2b, depth + 1, counters, scratch);
        }
      } else {
        run_step_in_l2b(node, l2b, counters, memories_, scratch);
      }
    }
  }

  void refuse_hazards(const isa::Program& program) const {
    constexpr size_t kShown = 20;
    const std::vector<isa::HazardViolation> found = isa::find_hazards(program, memories_.chip);
    if (found.empty()) return;
    std::string text =
        fmt::format("{} hazard{}; 'kodama check' lists them", found.size(), found.size() == 1 ? "" : "s");
    const std::string name = program.source_name.empty() ? "program" : program.source_name;
    for (size_t k = 0; k < std::min(kShown, found.size()); ++k) {
      text += fmt::format("\n{}: {}", isa::SourceLocation{name, found[k].second_line, 0}.to_string(),
                          found[k].text);
    }
    throw isa::UserError(text);
  }

  void run_global_node(const Node& node, int depth, Counters& counters) {
    switch (node.kind) {
      case Node::Kind::kLoop:
        for (int64_t k = 0; k < node.count && !stopped_; ++k) {
          counters[depth] = k;
          run_global(node.body, depth + 1, counters);
        }
        break;
      case Node::Kind::kStep:
        if (node.wait_tag > 0) wait(node);
        run_dar_operations(node, counters, memories_);
        run_stretch_of_one(node, depth, counters);
        break;
      case Node::Kind::kWait:
        wait(node);
        if (clock_.running()) clock_.stretch({&node, 1}, 1, depth, counters);
        memories_.end_step();
        stats_ += node.stats;
        break;
      case Node::Kind::kMv:
        run_mv(node, depth, counters);
        break;
      case Node::Kind::kGet:
        if (options_->dump) {
          debug_get(
              *node.get, memories_.chip,
              [this](Space space, const Place& place, int64_t address) {
                return memories_.read(space, place, address);
              },
              options_->dump);
        }
        break;
      case Node::Kind::kSet:
        debug_set(*node.set, memories_.chip,
                  [this](Space space, const Place& place, int64_t address, uint64_t value) {
                    memories_.write(space, place, address, value);
                  });
        break;
      case Node::Kind::kPreload: {
        const isa::DramPreload& preload = *node.preload;
        std::copy(preload.payload.begin(), preload.payload.end(),
                  memories_.host_range(Space::kDram, preload.group, preload.address, preload.payload.size()));
        break;
      }
      case Node::Kind::kQuit:
        stopped_ = true;
        break;
      default:
        break;
    }
  }

  void run_stretch_of_one(const Node& node, int depth, const Counters& counters) {
    run_stretch({&node, 1}, Reach::kL2b, node.stats, depth, counters);
  }

  void wait(const Node& node) {
    if (clock_.running()) clock_.wait(node);
    if (memories_.late) memories_.late->finish_transfers(node.wait_tag);
  }

  void run_mv(const Node& node, int depth, const Counters& counters) {
    ++stats_.mvs;
    stats_.add_moved(node.mv->size_lw);
    const bool moves = !node.mv->sources.empty();
    // A refused transfer leaves all memories and the clock as they were.
    if (moves) transfers_.check(node, counters);
    if (clock_.running()) clock_.mv(node, depth, counters);
    if (moves) transfers_.run(node, counters);
  }

  const KernelTable* kernels_;
  ChipMemories memories_;
  RunClock clock_;
  Transfers transfers_;
  ThreadPool pool_;
  std::vector<Scratch> scratch_;  ///< per thread
  // Of the present run.
  const RunOptions* options_ = nullptr;
  RunStats stats_;
  bool stopped_ = false;  ///< by quit
};

Machine::Machine(const isa::Chip& chip, const MachineOptions& options)
    : impl_(std::make_unique<Impl>(chip, options)) {}
Machine::~Machine() = default;
Machine::Machine(Machine&&) noexcept = default;
Machine& Machine::operator=(Machine&&) noexcept = default;

const isa::Chip& Machine::chip() const {
  return impl_->memories().chip;
}

int64_t Machine::operand_address(const isa::Operand& operand, const Place& place, int cycle) const {
  return impl_->memories().operand_address(operand, place, cycle);
}

RunStats Machine::run(const isa::Program& program, const RunOptions& options) {
  return impl_->run(program, options);
}

void Machine::write_dram(int group, int64_t address, std::span<const uint64_t> data) {
  std::copy(data.begin(), data.end(),
            impl_->memories().host_range(Space::kDram, group, address, data.size()));
}
void Machine::read_dram(int group, int64_t address, std::span<uint64_t> data) const {
  const uint64_t* from = impl_->memories().host_range(Space::kDram, group, address, data.size());
  std::copy(from, from + data.size(), data.begin());
}
void Machine::write_pdm(int group, int64_t address, std::span<const uint64_t> data) {
  std::copy(data.begin(), data.end(), impl_->memories().host_range(Space::kPdm, group, address, data.size()));
}
void Machine::read_pdm(int group, int64_t address, std::span<uint64_t> data) const {
  const uint64_t* from = impl_->memories().host_range(Space::kPdm, group, address, data.size());
  std::copy(from, from + data.size(), data.begin());
}

uint64_t Machine::read(isa::Space space, const Place& place, int64_t address) const {
  return impl_->memories().read(space, place, address);
}
void Machine::write(isa::Space space, const Place& place, int64_t address, uint64_t value) {
  impl_->memories().write(space, place, address, value);
}
void Machine::read(isa::Space space, const Place& place, int64_t address, std::span<uint64_t> data) const {
  impl_->memories().read(space, place, address, data);
}
void Machine::write(isa::Space space, const Place& place, int64_t address, std::span<const uint64_t> data) {
  impl_->memories().write(space, place, address, data);
}

}  // namespace kodama::simulator
