#include "simulator/machine.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <thread>

#include "isa/arithmetic.h"
#include "isa/error.h"
#include "isa/hazards.h"
#include "simulator/debug_text.h"
#include "simulator/decode.h"
#include "simulator/l1b.h"
#include "simulator/mapped_memory.h"
#include "simulator/thread_pool.h"
#include "simulator/timing/chip_timing.h"

namespace kodama::simulator {
namespace {

using isa::Opcode;
using isa::Space;

/// Unit in which MV instructions distribute LWs over L2Bs and groups.
constexpr int64_t kMvUnit = 16;
constexpr int kDarStageEntries = 128;

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
      : chip_(chip),
        kernels_(&best_kernels()),
        pool_(options.threads > 0 ? options.threads
                                  : std::max(1, static_cast<int>(std::thread::hardware_concurrency()))) {
    if (chip_.mab_per_l1b > 64 || chip_.l1b_per_l2b > 64 || chip_.l2b_count() > 64) {
      throw isa::UnsupportedError(fmt::format(
          "the simulator handles up to 64 MABs per L1B, L1Bs per L2B and L2Bs; chip '{}' has {}, {} and {}",
          chip_.name, chip_.mab_per_l1b, chip_.l1b_per_l2b, chip_.l2b_count()));
    }
    for (int g = 0; g < chip_.groups; ++g) {
      dram_.emplace_back(static_cast<size_t>(chip_.memory.dram_lw) * 8);
      pdm_.emplace_back(static_cast<size_t>(chip_.memory.pdm_lw) * 8);
      dar_.emplace_back(static_cast<size_t>(chip_.memory.dar_entries));
      dar_stage_.emplace_back();
    }
    for (int l2b = 0; l2b < chip_.l2b_count(); ++l2b) {
      l2bm_.emplace_back(static_cast<size_t>(chip_.memory.l2bm_lw) * 8);
      for (int l1b = 0; l1b < chip_.l1b_per_l2b; ++l1b) l1bs_.emplace_back(chip_, *kernels_, l2b, l1b);
    }
    for (int i = 0; i < pool_.threads(); ++i) scratch_.emplace_back(L1b::row_shape(chip_), chip_.mab_per_l1b);
    limited_.most_blocks = isa::ceil_div(options.most_dram_bytes, kDramBlockLw * 8);
    limited_.written.resize(static_cast<size_t>(chip_.groups));
    if (options.memory == MachineOptions::Memory::kDirty) fill_pseudo_random(options.seed);
  }

  const isa::Chip& chip() const { return chip_; }

  RunStats run(const isa::Program& program, const RunOptions& options) {
    isa::check_internal(options.timing || (options.profile == nullptr && options.timeline == nullptr),
                        "simulator", "a profile or timeline needs timing");
    isa::check_internal(
        !options.before_statement || (options.profile == nullptr && options.timeline == nullptr), "simulator",
        "a profile or timeline of statements run one at a time");
    const Decoded decoded = decode(program, chip_, *kernels_);  // refuses what can't run
    program_ = &program;
    options_ = &options;
    stats_ = {};
    for (L1b& l1b : l1bs_) l1b.clear_block_mask();
    // SystemC's context must be given back whatever happens.
    const std::unique_ptr<Impl, void (*)(Impl*)> end_of_run(this, [](Impl* self) {
      if (self->timing_) self->timing_model_.reset();  // the run didn't come to its end
      self->timing_ = nullptr;
      self->profile_ = nullptr;
      self->timeline_ = nullptr;
      self->stopped_ = false;
      if (self->stale_) self->end_stale();
    });
    isa::check_internal(options.hazards != Hazards::kStall || (options.timing && !options.before_statement),
                        "simulator", "stalls for hazards need timing, and statements that run together");
    stalls_.reset();
    if (options.hazards == Hazards::kStall) stalls_ = std::make_unique<isa::HazardChecker>(chip_, true);
    if (options.hazards == Hazards::kError) refuse_hazards(program);
    if (options.hazards == Hazards::kStale) start_stale();
    if (options.timing) start_timing(decoded);
    Counters counters{};
    if (options.before_statement) {
      run_one_by_one(program);
    } else {
      run_global(decoded.nodes, 0, counters);
    }
    if (timing_ != nullptr) finish_timing();
    return stats_;
  }

  void run_one_by_one(const isa::Program& program) {
    isa::Program one;
    one.source_name = program.source_name;
    program_ = &one;
    std::vector<int64_t> loop_counters;
    isa::for_each_executed(program.statements, loop_counters,
                           [&](const isa::Statement& next, const auto& at) {
                             one.statements = {isa::resolved(next, at)};
                             if (!options_->before_statement(one.statements[0])) return false;
                             Counters counters{};
                             run_global(decode(one, chip_, *kernels_).nodes, 0, counters);
                             return !std::holds_alternative<isa::Quit>(next.kind);
                           });
    program_ = &program;
  }

  uint64_t read(Space space, const Place& place, int64_t address) const {
    check_place(space, place, address, chip_);
    return long_at(space, place, address);
  }
  void write(Space space, const Place& place, int64_t address, uint64_t value) {
    check_place(space, place, address, chip_);
    set_long(space, place, address, value);
  }
  void read(Space space, const Place& place, int64_t address, std::span<uint64_t> data) const {
    check_range(space, place, address, data.size(), chip_);
    const int step = address_step(space);
    for (uint64_t& value : data) {
      value = long_at(space, place, address);
      address += step;
    }
  }
  void write(Space space, const Place& place, int64_t address, std::span<const uint64_t> data) {
    check_range(space, place, address, data.size(), chip_);
    const int step = address_step(space);
    for (const uint64_t value : data) {
      set_long(space, place, address, value);
      address += step;
    }
  }

  /// The place exists.
  uint64_t long_at(Space space, const Place& place, int64_t address) const {
    switch (space) {
      case Space::kDram:
        return dram_[place.group].longs()[address];
      case Space::kPdm:
        return pdm_[place.group].longs()[address];
      case Space::kDar:
        return dar_[place.group][address];
      case Space::kL2bm:
        return l2bm_[l2b_number(place)].longs()[address];
      default:
        return l1bs_[l2b_number(place) * chip_.l1b_per_l2b + place.l1b].read(space, place.mab, place.pe,
                                                                             address);
    }
  }

  int64_t operand_address(const isa::Operand& operand, const Place& place, int cycle) const {
    return l1bs_[l2b_number(place) * chip_.l1b_per_l2b + place.l1b].operand_address(operand, place.mab,
                                                                                    place.pe, cycle);
  }

  void set_long(Space space, const Place& place, int64_t address, uint64_t value) {
    switch (space) {
      case Space::kDram:
        dram_[place.group].longs()[address] = value;
        break;
      case Space::kPdm:
        pdm_[place.group].longs()[address] = value;
        break;
      case Space::kDar:
        dar_[place.group][address] = static_cast<uint32_t>(value);
        break;
      case Space::kL2bm:
        l2bm_[l2b_number(place)].longs()[address] = value;
        break;
      default:
        l1bs_[l2b_number(place) * chip_.l1b_per_l2b + place.l1b].write(space, place.mab, place.pe, address,
                                                                       value);
    }
  }

  uint64_t* host_range(Space space, int group, int64_t address, size_t count) const {
    const int64_t size = space_size(space, chip_);
    const char* name = space == Space::kDram ? "DRAM" : "PDM";
    if (group < 0 || group >= chip_.groups) {
      throw isa::UserError(fmt::format("{} of group {}; allowed are 0 to {}", name, group, chip_.groups - 1));
    }
    if (address < 0 || address > size || static_cast<int64_t>(count) > size - address) {
      throw isa::UserError(fmt::format("{} addresses {} to {}; allowed are 0 to {}", name, address,
                                       address + static_cast<int64_t>(count) - 1, size - 1));
    }
    return (space == Space::kDram ? dram_ : pdm_)[group].longs() + address;
  }

 private:
  int l2b_number(const Place& place) const { return place.group * chip_.l2b_per_group + place.l2b; }

  std::string place_of(const Node& node) const {
    return isa::SourceLocation{program_->source_name.empty() ? "program" : program_->source_name, node.line,
                               0}
        .to_string();
  }

  void fill_pseudo_random(uint64_t seed) {
    pool_.run(static_cast<int>(l1bs_.size()), [&](int i, int) { l1bs_[i].fill_pseudo_random(seed); });
    uint64_t state = seed;
    auto fill = [&state](const MappedMemory& memory) {
      for (size_t i = 0; i < memory.bytes() / 8; ++i) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        memory.longs()[i] = state ^ (state >> 29);
      }
    };
    for (const MappedMemory& memory : l2bm_) fill(memory);
    for (const MappedMemory& memory : pdm_) fill(memory);
    // DRAM is too large to be written; it shows one pattern again and again.
    PatternFile pattern(size_t{1} << 24);
    fill(pattern.memory());
    for (MappedMemory& memory : dram_) memory.show(pattern);
    for (std::vector<uint32_t>& entries : dar_) {
      for (uint32_t& entry : entries) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        entry = static_cast<uint32_t>(state >> 32);
      }
    }
  }

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
    if (timing_) time_stretch(nodes, stretch.steps, depth, counters);
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
    if (has_work || stale_) {
      // A thread hand-over costs as much as a few steps of an L1B.
      constexpr int64_t kWorthThreads = 16;
      const int units = reach == Reach::kL1b ? static_cast<int>(l1bs_.size()) : chip_.l2b_count();
      auto task = [&](int unit, int thread) {
        Counters own = counters;
        if (reach == Reach::kL1b) {
          run_in_l1b(nodes, l1bs_[unit], depth, own, scratch_[thread]);
        } else {
          run_in_l2b(nodes, unit, depth, own, scratch_[thread]);
        }
      };
      if ((stretch.steps - stretch.nops) * static_cast<int64_t>(l1bs_.size()) < kWorthThreads) {
        for (int unit = 0; unit < units; ++unit) task(unit, 0);
      } else {
        pool_.run(units, task);
      }
    }
  }

  static void run_in_l1b(std::span<const Node> nodes, L1b& l1b, int depth, Counters& counters,
                         Scratch& scratch) {
    for (const Node& node : nodes) {
      switch (node.kind) {
        case Node::Kind::kStep:
          l1b.run_step(node, counters, scratch);
          if (l1b.stale() != nullptr) l1b.stale()->end_steps(1);
          break;
        case Node::Kind::kNop:
          if (l1b.stale() != nullptr) l1b.stale()->end_steps(node.count);
          break;
        case Node::Kind::kLoop:
          for (int64_t k = 0; k < node.count; ++k) {
            counters[depth] = k;
            run_in_l1b(node.body, l1b, depth + 1, counters, scratch);
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
    const std::span<L1b> l1bs(l1bs_.data() + static_cast<ptrdiff_t>(l2b) * chip_.l1b_per_l2b,
                              static_cast<size_t>(chip_.l1b_per_l2b));
    size_t i = 0;
    while (i < nodes.size()) {
      size_t end = i;
      while (end < nodes.size() && nodes[end].reach == Reach::kL1b) ++end;
      if (end > i) {
        for (L1b& l1b : l1bs) run_in_l1b(nodes.subspan(i, end - i), l1b, depth, counters, scratch);
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
        run_step_in_l2b(node, l2b, l1bs, counters, scratch);
      }
    }
  }

  /// What an L2BM instruction read, waiting for the rest of the step.
  struct L2bWrite {
    L1b* l1b;  ///< whose L1BM it is; null = the L2BM
    uint64_t* memory;
    int64_t size;
    int64_t address;
    std::vector<uint64_t> data;
  };

  void run_step_in_l2b(const Node& node, int l2b, std::span<L1b> l1bs, const Counters& counters,
                       Scratch& scratch) {
    std::vector<L2bWrite> writes;
    for (const MicroOp& op : node.l2b_ops) read_l2b_operation(op, l2b, l1bs, counters, writes);
    for (L1b& l1b : l1bs) l1b.run_step(node, counters, scratch);
    for (const L2bWrite& write : writes) {
      if (stale_) keep_old(write, l2b, l1bs[0].stale()->step());
      for (size_t i = 0; i < write.data.size(); ++i) {
        write.memory[wrap(write.address + static_cast<int64_t>(i), write.size)] = write.data[i];
      }
    }
    if (!stale_) return;
    for (L1b& l1b : l1bs) l1b.stale()->end_steps(1);
    std::deque<OldL2bm>& old = old_l2bm_[static_cast<size_t>(l2b)];
    const int64_t window = 1 + std::max(chip_.hazard.l1bm_to_l2bm_read, chip_.hazard.l1bm_to_l2bm_mv);
    while (!old.empty() && l1bs[0].stale()->step() - old.front().step > window) old.pop_front();
  }

  // -------------------------------------------------------------------------------------------------
  // Stale data.

  struct OldL2bm {
    int64_t step;
    int64_t base;
    std::vector<uint64_t> words;
  };
  /// 16 LW that a transfer will write.
  struct LateWrite {
    int tag;
    uint64_t* target;
    std::array<uint64_t, kMvUnit> data;
  };

  void start_stale() {
    stale_ = true;
    for (L1b& l1b : l1bs_) l1b.show_stale(true);
    old_l2bm_.assign(l2bm_.size(), {});
  }
  void end_stale() {
    for (L1b& l1b : l1bs_) l1b.show_stale(false);
    finish_transfers(-1);
    old_l2bm_.clear();
    stale_ = false;
  }
  void finish_transfers(int tag) {
    for (const LateWrite& write : late_writes_) {
      if (tag < 0 || write.tag == tag) std::copy(write.data.begin(), write.data.end(), write.target);
    }
    std::erase_if(late_writes_, [tag](const LateWrite& write) { return tag < 0 || write.tag == tag; });
  }
  void keep_old(const L2bWrite& write, int l2b, int64_t step) {
    std::vector<uint64_t> old(write.data.size());
    for (size_t i = 0; i < old.size(); ++i)
      old[i] = write.memory[wrap(write.address + static_cast<int64_t>(i), write.size)];
    if (write.l1b != nullptr) {
      write.l1b->stale()->before_l1bm_write(isa::Agent::kL2bmToL1bm, write.address, std::move(old));
    } else {
      old_l2bm_[static_cast<size_t>(l2b)].push_back({step, write.address, std::move(old)});
    }
  }
  /// What a reader of an L2BM sees that needs `gap` steps after a write from below.
  uint64_t l2bm_seen(int l2b, int64_t address, int64_t gap) const {
    const int64_t size = chip_.memory.l2bm_lw;
    address = wrap(address, size);
    uint64_t value = l2bm_[l2b].longs()[address];
    if (!stale_) return value;
    const int64_t step = l1bs_[static_cast<size_t>(l2b * chip_.l1b_per_l2b)].stale()->step();
    const std::deque<OldL2bm>& old = old_l2bm_[static_cast<size_t>(l2b)];
    for (auto write = old.rbegin(); write != old.rend(); ++write) {
      if (step - write->step > gap) break;
      const int64_t offset = wrap(address - write->base, size);
      if (offset < static_cast<int64_t>(write->words.size()))
        value = write->words[static_cast<size_t>(offset)];
    }
    return value;
  }

  void refuse_hazards(const isa::Program& program) const {
    constexpr size_t kShown = 20;
    const std::vector<isa::HazardViolation> found = isa::find_hazards(program, chip_);
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

  void read_l2b_operation(const MicroOp& op, int l2b, std::span<L1b> l1bs, const Counters& counters,
                          std::vector<L2bWrite>& writes) const {
    if (op.opcode == Opcode::kL2bmdars || op.opcode == Opcode::kL2bmdarw) return;
    const int count = chip_.l1b_per_l2b;
    const int64_t stride = chip_.l2bmd_lw_per_cycle();  // of a cycle in the L2BM, where L1Bs differ
    const int64_t from = op.sources[0].resolve(counters);
    const int64_t to = op.destinations[0].resolve(counters);
    uint64_t* l2bm = l2bm_[l2b].longs();
    auto l2bm_at = [&](int64_t address) {
      return stale_ ? l2bm_seen(l2b, address, chip_.hazard.l1bm_to_l2bm_read)
                    : l2bm[wrap(address, chip_.memory.l2bm_lw)];
    };
    auto l1bm_at = [&](int b, int64_t address) {
      address = wrap(address, chip_.memory.l1bm_lw);
      const uint64_t value = l1bs[b].l1bm()[address];
      return stale_ ? l1bs[b].stale()->look_l1bm(isa::Agent::kL1bmToL2bm, address, value) : value;
    };
    auto write_l1bm = [&](int b, int64_t address, std::vector<uint64_t> data) {
      writes.push_back({&l1bs[b], l1bs[b].l1bm(), chip_.memory.l1bm_lw, address, std::move(data)});
    };
    auto write_l2bm = [&](int64_t address, std::vector<uint64_t> data) {
      writes.push_back({nullptr, l2bm, chip_.memory.l2bm_lw, address, std::move(data)});
    };
    switch (op.opcode) {
      case Opcode::kL2bmb:
      case Opcode::kL2bmb2:
        for (int b = 0; b < count; ++b) {
          if (!op.l1b_set.contains(b, count)) continue;
          std::vector<uint64_t> data(64);
          for (int64_t i = 0; i < 64; ++i) {
            const int64_t offset =
                op.opcode == Opcode::kL2bmb ? i : stride * (i / 16) + 16 * (b >> 1) + i % 16;
            data[i] = l2bm_at(from + offset);
          }
          write_l1bm(b, to, std::move(data));
        }
        break;
      case Opcode::kL2bmd:
        if (op.sources[0].space == Space::kL2bm) {
          for (int b = 0; b < count; ++b) {
            if (!op.l1b_set.contains(b, count)) continue;
            std::vector<uint64_t> data(32);
            for (int64_t i = 0; i < 32; ++i) data[i] = l2bm_at(from + stride * (i / 8) + 8 * b + i % 8);
            write_l1bm(b, to, std::move(data));
          }
        } else {
          std::vector<uint64_t> data(4 * stride);
          for (int64_t c = 0; c < 4; ++c) {
            for (int b = 0; b < count; ++b) {
              for (int64_t i = 0; i < 8; ++i) data[stride * c + 8 * b + i] = l1bm_at(b, from + 8 * c + i);
            }
          }
          write_l2bm(to, std::move(data));
        }
        break;
      case Opcode::kL2bm: {
        std::vector<uint64_t> data(64);
        for (int64_t i = 0; i < 64; ++i) data[i] = l1bm_at(op.unit_number, from + i);
        write_l2bm(to, std::move(data));
        break;
      }
      case Opcode::kL2bmr: {
        std::vector<uint64_t> data(64);
        std::array<uint64_t, 64> values;
        for (int64_t i = 0; i < 64; ++i) {
          size_t used = 0;
          for (int b = 0; b < count; ++b) {
            if (op.l1b_set.contains(b, count)) values[used++] = l1bm_at(b, from + i);
          }
          if (used > 0) data[i] = reduce_long({values.data(), used}, op.reduce_op, op.precision);
        }
        write_l2bm(to, std::move(data));
        break;
      }
      case Opcode::kL2bmr2:
        for (int64_t c = 0; c < 4; ++c) {
          std::vector<uint64_t> data(16 * (count / 2));
          for (int q = 0; q < count / 2; ++q) {
            for (int64_t i = 0; i < 16; ++i) {
              const std::array<uint64_t, 2> pair{l1bm_at(2 * q, from + 16 * c + i),
                                                 l1bm_at(2 * q + 1, from + 16 * c + i)};
              data[16 * q + i] = reduce_long(pair, op.reduce_op, op.precision);
            }
          }
          write_l2bm(to + stride * c, std::move(data));
        }
        break;
      case Opcode::kL2bmi: {
        const int ignore = op.l1b_set.ignore_mask;
        for (int s = 0; s < count; ++s) {
          if (!op.l1b_set.contains(s, count)) continue;
          std::vector<uint64_t> data(64);
          for (int64_t i = 0; i < 64; ++i) data[i] = l1bm_at(s, from + i);
          for (int d = 0; d < count; ++d) {
            if ((d & ignore) == (s & ignore)) write_l1bm(d, to, data);
          }
        }
        break;
      }
      default:
        throw isa::InternalError("internal error in simulator: not an L2BM instruction");
    }
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
        run_dar_operations(node, counters);
        run_stretch_of_one(node, depth, counters);
        break;
      case Node::Kind::kWait:
        wait(node);
        if (timing_) time_stretch({&node, 1}, 1, depth, counters);
        if (stale_) {
          for (L1b& l1b : l1bs_) l1b.stale()->end_steps(1);
        }
        stats_ += node.stats;
        break;
      case Node::Kind::kMv:
        run_mv(node, depth, counters);
        break;
      case Node::Kind::kGet:
        if (options_->dump) {
          debug_get(
              *node.get, chip_,
              [this](Space space, const Place& place, int64_t address) {
                return read(space, place, address);
              },
              options_->dump);
        }
        break;
      case Node::Kind::kSet:
        debug_set(*node.set, chip_, [this](Space space, const Place& place, int64_t address, uint64_t value) {
          write(space, place, address, value);
        });
        break;
      case Node::Kind::kPreload: {
        const isa::DramPreload& preload = *node.preload;
        std::copy(preload.payload.begin(), preload.payload.end(),
                  host_range(Space::kDram, preload.group, preload.address, preload.payload.size()));
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

  // -------------------------------------------------------------------------------------------------
  // DAR.

  struct DarStage {
    std::array<uint32_t, kDarStageEntries> entries{};
    int64_t destination = 0;
    int position = kDarStageEntries;  ///< of the next entry to write
  };

  void run_dar_operations(const Node& node, const Counters& counters) {
    // The writer sees the stage as it was before this step.
    for (const MicroOp& op : node.l2b_ops) {
      if (op.opcode != Opcode::kL2bmdarw) continue;
      for (int g = 0; g < chip_.groups; ++g) {
        DarStage& stage = dar_stage_[g];
        for (int c = 0; c < isa::kCyclesPerStep && stage.position < kDarStageEntries; ++c, ++stage.position) {
          dar_[g][wrap(stage.destination + stage.position, chip_.memory.dar_entries)] =
              stage.entries[stage.position];
        }
      }
    }
    for (const MicroOp& op : node.l2b_ops) {
      if (op.opcode != Opcode::kL2bmdars) continue;
      const int64_t from = op.sources[0].resolve(counters);
      const int l = std::max<int>(op.sources[0].unit, 0);
      for (int g = 0; g < chip_.groups; ++g) {
        const uint64_t* l2bm = l2bm_[g * chip_.l2b_per_group + l].longs();
        DarStage& stage = dar_stage_[g];
        for (int i = 0; i < kDarStageEntries / 2; ++i) {
          const uint64_t value =
              stale_ ? l2bm_seen(g * chip_.l2b_per_group + l, from + i, chip_.hazard.l1bm_to_l2bm_read)
                     : l2bm[wrap(from + i, chip_.memory.l2bm_lw)];
          stage.entries[2 * i] = static_cast<uint32_t>(value >> 32);
          stage.entries[2 * i + 1] = static_cast<uint32_t>(value);
        }
        stage.destination = op.destinations[0].resolve(counters);
        stage.position = 0;
      }
    }
  }

  // -------------------------------------------------------------------------------------------------
  // Time.

  void start_timing(const Decoded& decoded) {
    if (!timing_model_) timing_model_ = std::make_unique<ChipTiming>(chip_);
    timing_model_->begin();
    timing_ = timing_model_.get();
    profile_ = options_->profile;
    timeline_ = options_->timeline;
    if (profile_ != nullptr) {
      *profile_ = {};
      profile_->regions = decoded.regions;
      profile_->entries.resize(static_cast<size_t>(decoded.node_count));
    }
    if (timeline_ != nullptr) {
      timeline_->begin_program(options_->name, decoded.regions);
      timing_->on_transfer([this](const isa::TransferRecord& record) { timeline_->transfer(record); });
    }
    for (const int64_t bytes : options_->host_input) {
      const int64_t cycles = sequencer().host_data(bytes, true);
      show_stall("host data to the chip", 0, cycles);
    }
  }

  void finish_timing() {
    const int64_t drain = sequencer().finish();
    show_stall("last transfers", 0, drain);
    for (const int64_t bytes : options_->host_output) {
      const int64_t cycles = sequencer().host_data(bytes, false);
      show_stall("host data from the chip", 0, cycles);
    }
    stats_.causes = sequencer().causes();
    if (timeline_ != nullptr) timeline_->end_program(sequencer().now());
    if (profile_ != nullptr) {
      profile_->cycles = stats_.causes;
      const int ports = isa::TransferPorts(chip_).count();
      for (int port = 0; port < ports; ++port)
        profile_->ports.push_back({timing_->busy_cycles(port), timing_->moved_lw(port)});
      for (int g = 0; g < chip_.groups; ++g) {
        profile_->dram_row_hits += timing_->dram(g).row_hits();
        profile_->dram_row_misses += timing_->dram(g).row_misses();
        profile_->dram_turnarounds += timing_->dram(g).turnarounds();
      }
      for (const int64_t bytes : options_->host_input) profile_->host_input_bytes += bytes;
      for (const int64_t bytes : options_->host_output) profile_->host_output_bytes += bytes;
      std::erase_if(profile_->entries, [](const Profile::Entry& entry) { return entry.count == 0; });
    }
    timing_->end();
    timing_ = nullptr;
  }

  isa::Sequencer& sequencer() { return timing_->sequencer(); }

  Profile::Entry& entry_of(const Node& node) {
    Profile::Entry& entry = profile_->entries[static_cast<size_t>(node.id)];
    entry.statement = node.statement;
    entry.region = node.region;
    return entry;
  }

  /// A stall that ends now.
  void show_stall(const char* cause, int32_t line, int64_t cycles) {
    if (timeline_ != nullptr && cycles > 0)
      timeline_->stall(cause, line, sequencer().now() - cycles, sequencer().now());
  }

  void count_steps(const std::vector<Node>& nodes, int64_t times) {
    for (const Node& node : nodes) count_steps(node, times);
  }
  void count_steps(const Node& node, int64_t times) {
    if (node.kind == Node::Kind::kLoop) {
      count_steps(node.body, times * node.count);
      return;
    }
    Profile::Entry& entry = entry_of(node);
    entry.count += times;
    entry.cycles.steps += node.stats.steps * times * isa::kCyclesPerStep;
  }

  /// Loops have no entries of their own.
  static const Node& first_statement(std::span<const Node> nodes) {
    const Node* first = &nodes.front();
    while (first->kind == Node::Kind::kLoop && !first->body.empty()) first = &first->body.front();
    return *first;
  }

  /// The steps of a stretch, in bulk, or, while each one matters, one by one.
  void time_stretch(std::span<const Node> nodes, int64_t steps, int depth, const Counters& counters) {
    if (stalls_ || (timeline_ != nullptr && !timeline_->is_over(sequencer().now()))) {
      std::vector<int64_t> inner(counters.begin(), counters.begin() + depth);
      for (const Node& node : nodes) time_one(node, inner);
    } else {
      const int64_t stall = sequencer().steps(steps);
      if (profile_ != nullptr && stall > 0) entry_of(first_statement(nodes)).cycles.host_link += stall;
    }
    if (profile_ != nullptr) {
      for (const Node& node : nodes) count_steps(node, 1);
    }
  }

  void time_one(const Node& node, std::vector<int64_t>& counters) {
    if (node.kind == Node::Kind::kLoop) {
      counters.push_back(0);
      for (counters.back() = 0; counters.back() < node.count; ++counters.back()) {
        for (const Node& inner : node.body) time_one(inner, counters);
      }
      counters.pop_back();
      return;
    }
    hold_for_hazards(node, counters);
    if (node.stats.steps == 0) return;
    if (timeline_ != nullptr) timeline_->enter(node.region, sequencer().now());
    const int64_t stall = sequencer().steps(node.stats.steps);
    const int64_t begin = sequencer().now() - node.stats.steps * isa::kCyclesPerStep;
    if (profile_ != nullptr) entry_of(node).cycles.host_link += stall;
    if (timeline_ == nullptr) return;
    if (stall > 0) timeline_->stall("instructions from the host", node.line, begin - stall, begin);
    timeline_->step(*node.statement, begin, sequencer().now());
  }

  void hold_for_hazards(const Node& node, const std::vector<int64_t>& counters) {
    if (!stalls_) return;
    const int64_t steps = stalls_->statement(*node.statement, counters);
    if (steps == 0) return;
    if (timeline_ != nullptr) timeline_->enter(node.region, sequencer().now());
    const int64_t stall = sequencer().hold(steps);
    show_stall("hazard", node.line, stall);
    if (profile_ != nullptr) entry_of(node).cycles.hazard += stall;
  }

  void wait(const Node& node) {
    if (timing_) time_wait(node);
    if (stale_) finish_transfers(node.wait_tag);
  }

  void time_wait(const Node& node) {
    if (timeline_ != nullptr) timeline_->enter(node.region, sequencer().now());
    const int64_t stall = sequencer().wait(node.wait_tag);
    show_stall("wait", node.line, stall);
    if (profile_ != nullptr) entry_of(node).cycles.wait += stall;
  }

  void time_mv(const Node& node, int depth, const Counters& counters) {
    hold_for_hazards(node, {counters.begin(), counters.begin() + depth});
    isa::TransferRequest request{.mv = *node.mv, .line = node.line, .region = node.region, .blocks = {}};
    if (node.mv->opcode != Opcode::kMvnop) {
      isa::Operand& source = request.mv.sources[0];
      isa::Operand& destination = request.mv.destinations[0];
      for (const auto& [operand, side] :
           {std::pair(&source, &node.mv_source), std::pair(&destination, &node.mv_destination)}) {
        operand->base = side->resolve(counters);
        operand->loop_strides.clear();
        if (side->space != Space::kDramIndirect) continue;
        const int64_t n = std::max(node.mv->indirect_n, 1);
        for (int g = 0; g < chip_.groups; ++g) {
          std::vector<int64_t>& blocks = request.blocks[g];
          for (int64_t block = 0; block * n * kMvUnit < node.mv->size_lw; ++block)
            blocks.push_back(kMvUnit * dar_[g][wrap(operand->base + block, chip_.memory.dar_entries)]);
        }
      }
    }
    if (timeline_ != nullptr) timeline_->enter(node.region, sequencer().now());
    const isa::CycleCauses before = sequencer().causes();
    const int64_t stall = sequencer().mv(std::move(request));
    show_stall("room for a transfer", node.line, stall);
    if (profile_ == nullptr) return;
    Profile::Entry& entry = entry_of(node);
    ++entry.count;
    entry.cycles.mv_queue += sequencer().causes().mv_queue - before.mv_queue;
    entry.cycles.host_link += sequencer().causes().host_link - before.host_link;
  }

  // -------------------------------------------------------------------------------------------------
  // MV.

  /// One side of a transfer: 16 LW of memory at the i-th LW of the side.
  uint64_t* mv_chunk(const Node& node, const MicroOperand& side, int group, int l2b, int64_t base,
                     int64_t i) const {
    const MappedMemory* memory = nullptr;
    int64_t size = 0;
    int64_t address = base + i;
    switch (side.space) {
      case Space::kPdm:
        memory = &pdm_[group];
        size = chip_.memory.pdm_lw;
        break;
      case Space::kL2bm:
        memory = &l2bm_[group * chip_.l2b_per_group + l2b];
        size = chip_.memory.l2bm_lw;
        break;
      case Space::kDramIndirect: {
        const int64_t n = std::max(node.mv->indirect_n, 1);
        const int64_t block = i / kMvUnit;
        const int64_t entry = dar_[group][wrap(base + block / n, chip_.memory.dar_entries)];
        address = kMvUnit * entry + (block % n) * kMvUnit + i % kMvUnit;
        memory = &dram_[group];
        size = chip_.memory.dram_lw;
        break;
      }
      case Space::kDram:
        memory = &dram_[group];
        size = chip_.memory.dram_lw;
        break;
      default:
        throw isa::InternalError("internal error in simulator: not a side of an MV");
    }
    if (address < 0 || address + kMvUnit > size) {
      throw isa::UserError(fmt::format("{}: '{}' touches LW {} to {} of {} of group {}; allowed are 0 to {}",
                                       place_of(node), isa::mnemonic(*node.mv), address,
                                       address + kMvUnit - 1,
                                       side.space == Space::kPdm    ? "the PDM"
                                       : side.space == Space::kL2bm ? "an L2BM"
                                                                    : "the DRAM",
                                       group, size - 1));
    }
    return memory->longs() + address;
  }

  void run_mv(const Node& node, int depth, const Counters& counters) {
    const isa::Instruction& mv = *node.mv;
    ++stats_.mvs;
    stats_.add_moved(mv.size_lw);
    if (mv.opcode == Opcode::kMvnop) {
      if (timing_) time_mv(node, depth, counters);
      return;
    }
    if (mv.size_lw > chip_.longest_transfer_lw()) {
      throw isa::UserError(fmt::format("{}: '{}' of {} LW; the DRAM of the chip has {}", place_of(node),
                                       isa::mnemonic(mv), mv.size_lw, chip_.longest_transfer_lw()));
    }
    if (limited_.most_blocks > 0) {
      // What is kept of a transfer whose addresses are in no order, or that nobody has waited for.
      const auto late = static_cast<int64_t>(late_writes_.size() * sizeof(LateWrite) / 8);
      const bool keeps = stale_ || node.mv_source.space == Space::kDramIndirect ||
                         node.mv_destination.space == Space::kDramIndirect;
      const int64_t most = limited_.most_blocks * kDramBlockLw;
      if (keeps && late + mv.size_lw > most) refuse_memory(node);
    }
    if (mv.size_lw <= 0 || mv.size_lw % kMvUnit != 0) {
      throw isa::UserError(fmt::format("{}: '{}' of {} LW; allowed are multiples of 64", place_of(node),
                                       isa::mnemonic(mv), mv.size_lw));
    }
    // The first pass only finds every address, so that a refused transfer leaves all memories as they were.
    transfer(node, counters, true);
    if (timing_) time_mv(node, depth, counters);
    transfer(node, counters, false);
  }

  /// Counts the blocks of DRAM that hold something since a transfer wrote them.
  void limit_dram(const Node& node, Space space, int group, const uint64_t* chunk) {
    if (space != Space::kDram && space != Space::kDramIndirect) return;
    const auto block = static_cast<size_t>(chunk - dram_[group].longs()) / kDramBlockLw;
    std::vector<bool>& written = limited_.written[static_cast<size_t>(group)];
    if (written.size() <= block) written.resize(block + 1, false);
    if (written[block]) return;
    written[block] = true;
    if (++limited_.blocks > limited_.most_blocks) refuse_memory(node);
  }
  [[noreturn]] void refuse_memory(const Node& node) const {
    throw isa::UserError(fmt::format("{}: '{}' takes more memory than {} MB, the limit", place_of(node),
                                     isa::mnemonic(*node.mv),
                                     limited_.most_blocks * kDramBlockLw * 8 / 1'000'000));
  }

  void transfer(const Node& node, const Counters& counters, bool check_only) {
    const isa::Instruction& mv = *node.mv;
    const MicroOperand& source = node.mv_source;
    const MicroOperand& destination = node.mv_destination;
    const int64_t from = source.resolve(counters);
    const int64_t to = destination.resolve(counters);
    const int64_t n = mv.size_lw;
    const int groups = chip_.groups;
    const int per_group = chip_.l2b_per_group;
    const int l2bs = chip_.l2b_count();
    const int source_group = std::max<int>(source.group, 0);
    const int destination_group = std::max<int>(destination.group, 0);
    const int source_l2b = std::max<int>(source.unit, 0);
    const int destination_l2b = std::max<int>(destination.unit, 0);
    std::deque<std::array<uint64_t, kMvUnit>> seen;  // of stale L2BMs
    auto in = [&](int group, int l2b, int64_t i) -> const uint64_t* {
      const uint64_t* chunk = mv_chunk(node, source, group, l2b, from, i);
      if (!stale_ || check_only || source.space != Space::kL2bm) return chunk;
      std::array<uint64_t, kMvUnit>& copy = seen.emplace_back();
      for (int64_t k = 0; k < kMvUnit; ++k)
        copy[static_cast<size_t>(k)] =
            l2bm_seen(group * per_group + l2b, from + i + k, chip_.hazard.l1bm_to_l2bm_mv);
      return copy.data();
    };
    auto out = [&](int group, int l2b, int64_t i) {
      uint64_t* const chunk = mv_chunk(node, destination, group, l2b, to, i);
      if (check_only && limited_.most_blocks > 0) limit_dram(node, destination.space, group, chunk);
      return chunk;
    };
    auto late = [&](uint64_t* target) {
      return late_writes_.emplace_back(LateWrite{mv.tag, target, {}}).data.data();
    };
    auto copy = [&](uint64_t* target, const uint64_t* data) {
      if (!check_only) std::memmove(stale_ ? late(target) : target, data, kMvUnit * 8);
    };
    auto reduce = [&](const std::vector<const uint64_t*>& values, int stage, uint64_t* target) {
      if (!check_only) reduce_chunk(mv, values, stage, stale_ ? late(target) : target);
    };

    switch (mv.opcode) {
      case Opcode::kMvp: {
        const bool everywhere = source.group < 0 && destination.group < 0;
        // Source and destination may overlap: what is read must not be written before. Addresses out of the
        // DAR are in no order: there, all is read first.
        const bool in_order =
            source.space != Space::kDramIndirect && destination.space != Space::kDramIndirect;
        const bool backwards = in_order && from < to && !check_only;
        std::vector<uint64_t> data;
        for (int g = 0; g < (everywhere ? groups : 1); ++g) {
          const int into = everywhere ? g : destination_group;
          if (!check_only && !in_order) {
            data.resize(static_cast<size_t>(n));
            for (int64_t i = 0; i < n; i += kMvUnit)
              std::memcpy(data.data() + i, in(everywhere ? g : source_group, source_l2b, i), kMvUnit * 8);
          }
          for (int64_t k = 0; k < n; k += kMvUnit) {
            const int64_t i = backwards ? n - kMvUnit - k : k;
            const uint64_t* chunk =
                data.empty() ? in(everywhere ? g : source_group, source_l2b, i) : &data[i];
            copy(out(into, destination_l2b, i), chunk);
          }
        }
        break;
      }
      case Opcode::kMvb:
        for (int64_t i = 0; i < n; i += kMvUnit) {
          const uint64_t* data = in(source_group, 0, i);
          for (int q = 0; q < l2bs; ++q) copy(out(q / per_group, q % per_group, i), data);
        }
        break;
      case Opcode::kMvb2:
        for (int64_t i = 0; i < n; i += kMvUnit) {
          for (int q = 0; q < l2bs; ++q) copy(out(q / per_group, q % per_group, i), in(q / per_group, 0, i));
        }
        break;
      case Opcode::kMvb4:
        for (int64_t i = 0; i < n; i += kMvUnit) {
          const int64_t unit = i / kMvUnit;
          const uint64_t* data = in(static_cast<int>(unit % groups), 0, unit / groups * kMvUnit);
          for (int q = 0; q < l2bs; ++q) copy(out(q / per_group, q % per_group, i), data);
        }
        break;
      case Opcode::kMvd: {
        // The PDM side is linear; units go round over the groups (DRAM) or the L2Bs.
        const bool gathers = destination.space == Space::kPdm;
        const bool over_l2bs = (gathers ? source : destination).space == Space::kL2bm;
        const int parts = over_l2bs ? l2bs : groups;
        for (int64_t i = 0; i < n; i += kMvUnit) {
          const int64_t unit = i / kMvUnit;
          const int part = static_cast<int>(unit % parts);
          const int group = over_l2bs ? part / per_group : part;
          const int l2b = over_l2bs ? part % per_group : 0;
          const int64_t narrow = unit / parts * kMvUnit;
          if (gathers) {
            copy(out(destination_group, 0, i), in(group, l2b, narrow));
          } else {
            copy(out(group, l2b, narrow), in(source_group, 0, i));
          }
        }
        break;
      }
      case Opcode::kMvr:
        for (int64_t i = 0; i < n; i += kMvUnit) {
          std::vector<const uint64_t*> values;
          for (int q = 0; q < l2bs; ++q) values.push_back(in(q / per_group, q % per_group, i));
          reduce(values, per_group, out(destination_group, 0, i));
        }
        break;
      case Opcode::kMvr2:
        for (int g = 0; g < groups; ++g) {
          for (int64_t i = 0; i < n; i += kMvUnit) {
            std::vector<const uint64_t*> values;
            for (int l = 0; l < per_group; ++l) values.push_back(in(g, l, i));
            reduce(values, per_group, out(g, 0, i));
          }
        }
        break;
      case Opcode::kMvr4:
        for (int64_t i = 0; i < n; i += kMvUnit) {
          const int64_t unit = i / kMvUnit;
          std::vector<const uint64_t*> values;
          for (int g = 0; g < groups; ++g) values.push_back(in(g, 0, i));
          reduce(values, groups, out(static_cast<int>(unit % groups), 0, unit / groups * kMvUnit));
        }
        break;
      default:
        throw isa::InternalError("internal error in simulator: not an MV");
    }
  }

  /// Reduces `per_group` neighbours first, then the results.
  static void reduce_chunk(const isa::Instruction& mv, const std::vector<const uint64_t*>& values,
                           int per_group, uint64_t* out) {
    std::array<uint64_t, 64> stage;
    std::array<uint64_t, 64> members;
    std::array<uint64_t, kMvUnit> result;
    for (int64_t i = 0; i < kMvUnit; ++i) {
      size_t count = 0;
      for (size_t first = 0; first < values.size(); first += static_cast<size_t>(per_group)) {
        for (int k = 0; k < per_group; ++k) members[k] = values[first + k][i];
        stage[count++] =
            reduce_long({members.data(), static_cast<size_t>(per_group)}, mv.reduce_op, mv.precision);
      }
      result[i] = count == 1 ? stage[0] : reduce_long({stage.data(), count}, mv.reduce_op, mv.precision);
    }
    std::copy(result.begin(), result.end(), out);
  }

  isa::Chip chip_;
  const KernelTable* kernels_;
  std::unique_ptr<ChipTiming> timing_model_;  ///< made for the first timed run
  ThreadPool pool_;
  std::vector<MappedMemory> dram_;  ///< per group
  std::vector<MappedMemory> pdm_;
  std::vector<std::vector<uint32_t>> dar_;
  std::vector<DarStage> dar_stage_;
  std::vector<MappedMemory> l2bm_;  ///< per L2B
  std::vector<L1b> l1bs_;           ///< L2B by L2B
  std::vector<Scratch> scratch_;    ///< per thread
  static constexpr int64_t kDramBlockLw = (1 << 20) / 8;
  struct LimitedDram {
    int64_t most_blocks = 0;  ///< 0 = any number
    int64_t blocks = 0;
    std::vector<std::vector<bool>> written;  ///< per group and block
  };
  LimitedDram limited_;
  // Of the present run.
  const isa::Program* program_ = nullptr;
  const RunOptions* options_ = nullptr;
  RunStats stats_;
  ChipTiming* timing_ = nullptr;  ///< null without timing
  std::unique_ptr<isa::HazardChecker> stalls_;
  Profile* profile_ = nullptr;
  Timeline* timeline_ = nullptr;
  bool stopped_ = false;  ///< by quit
  // With Hazards::kStale.
  bool stale_ = false;
  std::vector<std::deque<OldL2bm>> old_l2bm_;  ///< by L2B: what writes of the last steps replaced
  std::vector<LateWrite> late_writes_;
};

Machine::Machine(const isa::Chip& chip, const MachineOptions& options)
    : impl_(std::make_unique<Impl>(chip, options)) {}
Machine::~Machine() = default;
Machine::Machine(Machine&&) noexcept = default;
Machine& Machine::operator=(Machine&&) noexcept = default;

const isa::Chip& Machine::chip() const {
  return impl_->chip();
}

int64_t Machine::operand_address(const isa::Operand& operand, const Place& place, int cycle) const {
  return impl_->operand_address(operand, place, cycle);
}

RunStats Machine::run(const isa::Program& program, const RunOptions& options) {
  return impl_->run(program, options);
}

void Machine::write_dram(int group, int64_t address, std::span<const uint64_t> data) {
  std::copy(data.begin(), data.end(), impl_->host_range(Space::kDram, group, address, data.size()));
}
void Machine::read_dram(int group, int64_t address, std::span<uint64_t> data) const {
  const uint64_t* from = impl_->host_range(Space::kDram, group, address, data.size());
  std::copy(from, from + data.size(), data.begin());
}
void Machine::write_pdm(int group, int64_t address, std::span<const uint64_t> data) {
  std::copy(data.begin(), data.end(), impl_->host_range(Space::kPdm, group, address, data.size()));
}
void Machine::read_pdm(int group, int64_t address, std::span<uint64_t> data) const {
  const uint64_t* from = impl_->host_range(Space::kPdm, group, address, data.size());
  std::copy(from, from + data.size(), data.begin());
}

uint64_t Machine::read(isa::Space space, const Place& place, int64_t address) const {
  return impl_->read(space, place, address);
}
void Machine::write(isa::Space space, const Place& place, int64_t address, uint64_t value) {
  impl_->write(space, place, address, value);
}
void Machine::read(isa::Space space, const Place& place, int64_t address, std::span<uint64_t> data) const {
  impl_->read(space, place, address, data);
}
void Machine::write(isa::Space space, const Place& place, int64_t address, std::span<const uint64_t> data) {
  impl_->write(space, place, address, data);
}

}  // namespace kodama::simulator
