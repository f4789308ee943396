#include "simulator/engine/run_clock.h"

#include <algorithm>
#include <string>
#include <utility>

#include "isa/move_places.h"

namespace kodama::simulator {
namespace {

using isa::Space;

/// Loops have no entries of their own.
const Node& first_statement(std::span<const Node> nodes) {
  const Node* first = &nodes.front();
  while (first->kind == Node::Kind::kLoop && !first->body.empty()) first = &first->body.front();
  return *first;
}

}  // namespace

void RunClock::begin(const Decoded& decoded, const RunOptions& options) {
  options_ = &options;
  stalls_ = options.hazards == Hazards::kStall ? std::make_unique<isa::HazardChecker>(memories_->chip, true)
                                               : nullptr;
  if (!timing_) timing_ = std::make_unique<ChipTiming>(memories_->chip);
  timing_->begin();
  running_ = true;
  const ChipTiming::Turn turn(*timing_);
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
  if (!options_->host.empty()) {
    sequencer().host_begin(options_->host);
    show_stall("launch and host data to the chip", 0, sequencer().now());
  }
}

void RunClock::finish(RunStats& stats) {
  const ChipTiming::Turn turn(*timing_);
  const int64_t drain = sequencer().finish();
  show_stall("last transfers", 0, drain);
  if (!options_->host.empty()) {
    const int64_t before = sequencer().now();
    sequencer().host_end(options_->host);
    show_stall("host data", 0, sequencer().now() - before);
  }
  stats.causes = sequencer().causes();
  stats.host = sequencer().host_times();
  if (timeline_ != nullptr) timeline_->end_program(sequencer().now());
  if (profile_ != nullptr) {
    profile_->cycles = stats.causes;
    const int ports = isa::TransferPorts(memories_->chip).count();
    for (int port = 0; port < ports; ++port)
      profile_->ports.push_back({timing_->busy_cycles(port), timing_->moved_lw(port)});
    for (int g = 0; g < memories_->chip.groups; ++g) {
      profile_->host_dram_cycles += timing_->busy_cycles_for_host(g);  // DRAMs are the first ports
      const isa::DramCounts counts = timing_->dram_counts(g);
      profile_->dram_row_hits += std::max<int64_t>(counts.row_hits, 0);
      profile_->dram_row_misses += std::max<int64_t>(counts.row_misses, 0);
      profile_->dram_turnarounds += std::max<int64_t>(counts.turnarounds, 0);
    }
    profile_->host_input_bytes = 8 * isa::link_lw(options_->host.input);
    if (stats.host.next_there >= 0) profile_->host_input_bytes += 8 * isa::link_lw(options_->host.next);
    profile_->host_output_bytes = 8 * isa::link_lw(options_->host.output);
    std::erase_if(profile_->entries, [](const Profile::Entry& entry) { return entry.count == 0; });
  }
  forget_run();
}

void RunClock::abandon() {
  if (!running_) return;
  timing_.reset();  // in the middle of transfers
  forget_run();
}

void RunClock::forget_run() {
  running_ = false;
  options_ = nullptr;
  profile_ = nullptr;
  timeline_ = nullptr;
  stalls_.reset();
}

Profile::Entry& RunClock::entry_of(const Node& node) {
  Profile::Entry& entry = profile_->entries[static_cast<size_t>(node.id)];
  entry.statement = node.statement;
  entry.region = node.region;
  return entry;
}

void RunClock::show_stall(const char* cause, int32_t line, int64_t cycles) {
  if (timeline_ != nullptr && cycles > 0)
    timeline_->stall(cause, line, sequencer().now() - cycles, sequencer().now());
}

void RunClock::count_steps(const std::vector<Node>& nodes, int64_t times) {
  for (const Node& node : nodes) count_steps(node, times);
}
void RunClock::count_steps(const Node& node, int64_t times) {
  if (node.kind == Node::Kind::kLoop) {
    count_steps(node.body, times * node.count);
    return;
  }
  Profile::Entry& entry = entry_of(node);
  entry.count += times;
  entry.cycles.steps += node.stats.steps * times * isa::kCyclesPerStep;
}

void RunClock::stretch(std::span<const Node> nodes, int64_t steps, int depth, const Counters& counters) {
  const ChipTiming::Turn turn(*timing_);
  if (stalls_ || (timeline_ != nullptr && !timeline_->is_over(sequencer().now()))) {
    std::vector<int64_t> inner(counters.begin(), counters.begin() + depth);
    for (const Node& node : nodes) statement(node, inner);
  } else {
    const int64_t stall = sequencer().steps(steps);
    if (profile_ != nullptr && stall > 0) entry_of(first_statement(nodes)).cycles.host_link += stall;
  }
  if (profile_ != nullptr) {
    for (const Node& node : nodes) count_steps(node, 1);
  }
}

void RunClock::statement(const Node& node, std::vector<int64_t>& counters) {
  if (node.kind == Node::Kind::kLoop) {
    counters.push_back(0);
    for (counters.back() = 0; counters.back() < node.count; ++counters.back()) {
      for (const Node& inner : node.body) statement(inner, counters);
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

void RunClock::hold_for_hazards(const Node& node, const std::vector<int64_t>& counters) {
  if (!stalls_) return;
  const int64_t steps = stalls_->statement(*node.statement, counters);
  if (steps == 0) return;
  if (timeline_ != nullptr) timeline_->enter(node.region, sequencer().now());
  const int64_t stall = sequencer().hold(steps);
  show_stall("hazard", node.line, stall);
  if (profile_ != nullptr) entry_of(node).cycles.hazard += stall;
}

void RunClock::wait(const Node& node) {
  const ChipTiming::Turn turn(*timing_);
  if (timeline_ != nullptr) timeline_->enter(node.region, sequencer().now());
  const int64_t stall = sequencer().wait(node.wait_tag);
  show_stall("wait", node.line, stall);
  if (profile_ != nullptr) entry_of(node).cycles.wait += stall;
}

void RunClock::mv(const Node& node, int depth, const Counters& counters) {
  const ChipTiming::Turn turn(*timing_);
  hold_for_hazards(node, {counters.begin(), counters.begin() + depth});
  isa::TransferRequest request{.mv = *node.mv, .line = node.line, .region = node.region, .blocks = {}};
  if (!node.mv->sources.empty()) {
    isa::Operand& source = request.mv.sources[0];
    isa::Operand& destination = request.mv.destinations[0];
    for (const auto& [operand, side] :
         {std::pair(&source, &node.mv_source), std::pair(&destination, &node.mv_destination)}) {
      operand->base = side->resolve(counters);
      operand->loop_strides.clear();
      if (side->space != Space::kDramIndirect) continue;
      const int64_t n = std::max(node.mv->indirect_n, 1);
      for (int g = 0; g < memories_->chip.groups; ++g) {
        std::vector<int64_t>& blocks = request.blocks[g];
        for (int64_t block = 0; block * n * isa::kSpreadUnit < node.mv->size_lw; ++block)
          blocks.push_back(
              isa::kSpreadUnit *
              memories_->dar[g][wrap(operand->base + block, memories_->chip.memory.dar_entries)]);
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

}  // namespace kodama::simulator
