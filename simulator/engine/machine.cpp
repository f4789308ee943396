#include "simulator/machine.h"

#include <algorithm>
#include <thread>

#include "isa/cancellation.h"
#include "isa/error.h"
#include "isa/hazards.h"
#include "isa/move_places.h"
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

/// Steps of a program that is taken to write most of what is on the chip.
constexpr int64_t kLargeProgram = 512;

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
    if (isa::count(program).steps >= kLargeProgram) memories_.prefer_large_pages();
    options_ = &options;
    stats_ = {};
    stretch_ = {};
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
    if (clock_.running()) clock_.finish(stats_);
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
  // Execution. Nodes that reach no further than an L2B form a stretch, which runs L2B by L2B (or L1B by L1B)
  // on all threads, so that the memories of an L1B stay in the cache of one core. Time is counted when a node
  // is met; what the stretch does to data happens when somebody must see it. Waits move no data, so a stretch
  // goes on over them, and over a transfer that may as well come before it.

  struct Stretch {
    std::vector<std::span<const Node>> parts;
    Reach reach = Reach::kL1b;
    RunStats stats;
    size_t nodes = 0;
    /// LW [first, second) of L2BMs that it reads and writes, if that is known.
    std::vector<std::pair<int64_t, int64_t>> l2bm_reads, l2bm_writes;
    bool l2bm_unknown = false;
  };

  void run_global(const std::vector<Node>& nodes, int depth, Counters& counters) {
    size_t i = 0;
    while (i < nodes.size() && !stopped_) {
      size_t end = i;
      while (end < nodes.size() && nodes[end].reach != Reach::kGlobal) ++end;
      if (end > i) {
        add_to_stretch({nodes.data() + i, end - i}, depth, counters);
        i = end;
        continue;
      }
      const Node& node = nodes[i++];
      if (!memories_.late && goes_on_over(node, depth, counters)) continue;
      run_stretch(depth, counters);
      run_global_node(node, depth, counters);
      if (options_->progress) options_->progress(stats_.steps);
      isa::stop_if_cancelled();
    }
    run_stretch(depth, counters);
    if (depth == 0) stopped_ = false;
  }

  /// Does a global node that the stretch need not end for; false: it must.
  bool goes_on_over(const Node& node, int depth, const Counters& counters) {
    switch (node.kind) {
      case Node::Kind::kWait:
        wait(node);
        if (clock_.running()) clock_.stretch({&node, 1}, 1, depth, counters);
        stats_ += node.stats;
        return true;
      case Node::Kind::kStep:
        if (node.data_reach == Reach::kGlobal) return false;
        wait(node);
        add_to_stretch({&node, 1}, depth, counters);
        return true;
      case Node::Kind::kMv:
        if (!may_come_first(node, counters)) return false;
        try {
          check_transfer(node, counters);
        } catch (...) {
          run_stretch(depth, counters);  // what stands before it happens before it is refused
          throw;
        }
        make_transfer(node, depth, counters);
        return true;
      default:
        return false;
    }
  }

  void add_to_stretch(std::span<const Node> nodes, int depth, const Counters& counters) {
    RunStats stats;
    for (const Node& node : nodes) {
      stats += node.stats;
      stretch_.reach = std::max(stretch_.reach, node.data_reach);
      if (node.kind == Node::Kind::kLoop) {
        stretch_.l2bm_unknown |= node.data_reach != Reach::kL1b;
        continue;
      }
      for (const MicroOp& op : node.l2b_ops) {
        const bool writes = op.movement->way == isa::Movement::Way::kL1bmToL2bm;
        if (!writes && op.movement->way != isa::Movement::Way::kL2bmToL1bm) continue;
        const MicroOperand& side = writes ? op.destinations[0] : op.sources[0];
        const int64_t begin = side.resolve(counters);
        (writes ? stretch_.l2bm_writes : stretch_.l2bm_reads)
            .emplace_back(begin, begin + isa::l2bm_layout(*op.movement, memories_.chip).l2bm_lw());
      }
    }
    stats_ += stats;
    if (clock_.running()) clock_.stretch(nodes, stats.steps, depth, counters);
    stretch_.stats += stats;
    stretch_.parts.push_back(nodes);
    stretch_.nodes += nodes.size();
    // So that who watches the progress of a long program can end it.
    constexpr size_t kMost = 4096;
    if (stretch_.nodes >= kMost) run_stretch(depth, counters);
  }

  /// Whether a transfer may move its data before the stretch does what it does: they have nothing in common.
  bool may_come_first(const Node& node, const Counters& counters) const {
    if (stretch_.parts.empty() || node.mv->sources.empty()) return true;
    if (stretch_.l2bm_unknown) return false;
    const int64_t size = memories_.chip.memory.l2bm_lw;
    const auto meets = [&](const MicroOperand& side, const std::vector<std::pair<int64_t, int64_t>>& ranges) {
      if (side.space != Space::kL2bm) return false;
      const int64_t begin = side.resolve(counters), end = begin + node.mv->size_lw;
      if (begin < 0 || end > size) return true;
      return std::ranges::any_of(ranges, [&](const auto& range) {
        return range.first < 0 || range.second > size || (range.first < end && begin < range.second);
      });
    };
    return !meets(node.mv_destination, stretch_.l2bm_reads) &&
           !meets(node.mv_destination, stretch_.l2bm_writes) && !meets(node.mv_source, stretch_.l2bm_writes);
  }

  void run_stretch(int depth, const Counters& counters) {
    if (stretch_.parts.empty()) return;
    const Stretch stretch = std::exchange(stretch_, {});
    const bool has_work = std::ranges::any_of(stretch.parts, [](std::span<const Node> nodes) {
      return std::ranges::any_of(nodes, [](const Node& node) { return !node.idle; });
    });
    if (has_work || memories_.late) {
      // A thread hand-over costs as much as a few steps of an L1B.
      constexpr int64_t kWorthThreads = 16;
      const bool by_l1b = stays_in_l1bs(stretch.reach);
      const int units = by_l1b ? static_cast<int>(memories_.l1bs.size()) : memories_.chip.l2b_count();
      auto task = [&](int unit, int thread) {
        Counters own = counters;
        for (const std::span<const Node> nodes : stretch.parts) {
          if (by_l1b) {
            run_in_l1b(nodes, unit, depth, own, scratch_[thread]);
          } else {
            run_in_l2b(nodes, unit, depth, own, scratch_[thread]);
          }
        }
      };
      if ((stretch.stats.steps - stretch.stats.nops) * static_cast<int64_t>(memories_.l1bs.size()) <
          kWorthThreads) {
        for (int unit = 0; unit < units; ++unit) task(unit, 0);
      } else {
        pool_.run(units, task);
      }
    }
    if (options_->progress) options_->progress(stats_.steps);
  }

  /// Whether each L1B can run such nodes by itself. Who keeps what was in an L2BM looks at all of them.
  bool stays_in_l1bs(Reach reach) const {
    return reach == Reach::kL1b || (reach == Reach::kFetch && !memories_.late);
  }

  void run_in_l1b(std::span<const Node> nodes, int number, int depth, Counters& counters, Scratch& scratch) {
    L1b& l1b = memories_.l1bs[static_cast<size_t>(number)];
    for (const Node& node : nodes) {
      isa::stop_if_cancelled();
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
      while (end < nodes.size() && stays_in_l1bs(nodes[end].data_reach)) ++end;
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
        add_to_stretch({&node, 1}, depth, counters);
        run_stretch(depth, counters);
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

  void wait(const Node& node) {
    if (clock_.running()) clock_.wait(node);
    if (memories_.late) memories_.late->finish_transfers(node.wait_tag);
  }

  void run_mv(const Node& node, int depth, const Counters& counters) {
    check_transfer(node, counters);
    make_transfer(node, depth, counters);
  }
  /// A refused transfer leaves all memories and the clock as they were.
  void check_transfer(const Node& node, const Counters& counters) {
    if (!node.mv->sources.empty()) transfers_.check(node, counters);
  }
  /// One that was checked.
  void make_transfer(const Node& node, int depth, const Counters& counters) {
    ++stats_.mvs;
    stats_.add_moved(node.mv->size_lw);
    if (clock_.running()) clock_.mv(node, depth, counters);
    if (!node.mv->sources.empty()) transfers_.run(node, counters);
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
  Stretch stretch_;
  bool stopped_ = false;  ///< by quit
};

Machine::Machine(const isa::Chip& chip, const MachineOptions& options)
    : impl_(std::make_unique<Impl>(chip, options)) {}
Machine::~Machine() = default;
Machine::Machine(Machine&&) noexcept = default;
Machine& Machine::operator=(Machine&&) noexcept = default;

void choose_vector_target(const std::string& name) {
  choose_kernels(name);
}

const isa::Chip& Machine::chip() const {
  return impl_->memories().chip;
}

int64_t Machine::operand_address(const isa::Operand& operand, const Place& place, int cycle) const {
  return impl_->memories().operand_address(operand, place, cycle);
}

RunStats Machine::run(const isa::Program& program, const RunOptions& options) {
  return impl_->run(program, options);
}

void Machine::expect_dram(int group, int64_t address, int64_t count) {
  ChipMemories& memories = impl_->memories();
  memories.host_range(Space::kDram, group, address, static_cast<size_t>(count));
  memories.dram[static_cast<size_t>(group)].prefer_large_pages(static_cast<size_t>(address) * 8,
                                                               static_cast<size_t>(count) * 8);
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
