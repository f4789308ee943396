#include "simulator/timing/modules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "isa/arithmetic.h"
#include "isa/error.h"

namespace kodama::simulator::timing {
namespace {

constexpr auto kTicksPerCycle = static_cast<double>(isa::kTicksPerCycle);
constexpr int kTags = 64;

}  // namespace

sc_core::sc_time at_least(double cycles) {
  return sc_core::sc_time::from_value(static_cast<sc_dt::uint64>(std::floor(cycles * kTicksPerCycle)) + 1);
}
sc_core::sc_time exactly(int64_t cycles) {
  return sc_core::sc_time::from_value(static_cast<sc_dt::uint64>(cycles) *
                                      static_cast<sc_dt::uint64>(kTicksPerCycle));
}
double cycles_of(const sc_core::sc_time& time) {
  return static_cast<double>(time.value()) / kTicksPerCycle;
}

sc_core::sc_time of_ticks(int64_t ticks) {
  return sc_core::sc_time::from_value(static_cast<sc_dt::uint64>(ticks));
}
int64_t ticks_of(const sc_core::sc_time& time) {
  return static_cast<int64_t>(time.value());
}

// ---- host link -------------------------------------------------------------------------------------------

HostLink::HostLink(sc_core::sc_module_name name, const isa::Chip& chip, const Clock& clock)
    : sc_module(name), chip_(chip), clock_(clock), feed_(chip) {
  instructions.register_b_transport(this, &HostLink::fetch);
  data.register_b_transport(this, &HostLink::move_data);
}

void HostLink::fetch(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
  const int64_t wanted = static_cast<int64_t>(cycles_of(clock_.now() + delay));
  const int64_t last = feed_.take_steps(wanted, payload.get_extension<LinkExtension>()->amount);
  delay += exactly(last - wanted);
  payload.set_response_status(tlm::TLM_OK_RESPONSE);
}

void HostLink::move_data(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
  const int64_t bytes = payload.get_extension<LinkExtension>()->amount;
  delay += of_ticks(isa::link_ticks(bytes, chip_));
  feed_.occupy_until(isa::ceil_div(ticks_of(clock_.now() + delay), isa::kTicksPerCycle));
  payload.set_response_status(tlm::TLM_OK_RESPONSE);
}

// ---- ports -----------------------------------------------------------------------------------------------

RatePort::RatePort(sc_core::sc_module_name name, double lw_per_cycle)
    : sc_module(name), lw_per_cycle_(lw_per_cycle) {
  socket.register_b_transport(this, &RatePort::occupy);
}

void RatePort::occupy(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
  const double cycles = isa::port_cycles(payload.get_data_length() / 8, lw_per_cycle_);
  delay += of_ticks(std::llround(cycles * kTicksPerCycle));
  payload.set_response_status(tlm::TLM_OK_RESPONSE);
}

Dram::Dram(sc_core::sc_module_name name, const isa::Chip& chip, const Clock& clock)
    : sc_module(name), chip_(chip), clock_(clock) {
  reset();
  socket_.register_b_transport(this, &Dram::serve);
}

void Dram::serve(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
  const int64_t now = ticks_of(clock_.now());
  request_.time = now + ticks_of(delay);
  request_.write = payload.is_write();
  auto* const gather = payload.get_extension<GatherExtension>();
  if (gather != nullptr) {
    request_.pieces.assign(gather->pieces->begin() + static_cast<int64_t>(gather->first),
                           gather->pieces->end());
    gather->taken = request_.pieces.size();
  } else {
    request_.pieces = {{static_cast<int64_t>(payload.get_address()), payload.get_data_length()}};
  }
  delay = of_ticks(model_->serve(request_) - now);
  payload.set_response_status(tlm::TLM_OK_RESPONSE);
}

DramInitiator::DramInitiator(std::string model, std::string plugin)
    : model_(std::move(model)), plugin_(std::move(plugin)), data_(DramTarget::kMostBytes) {}

DramInitiator::~DramInitiator() {
  payload_.clear_extension(&gather_);  // a payload frees what it carries
}

void DramInitiator::blame(const std::string& fault) const {
  const std::string what =
      fmt::format("DRAM model '{}'{}", model_, plugin_.empty() ? "" : " of plugin " + plugin_);
  throw isa::PassError(fmt::format("{} is at fault: {}", what, fault));
}

int64_t DramInitiator::send(tlm::tlm_fw_transport_if<>& target, const isa::DramRequest& request,
                            int64_t now) {
  int64_t time = request.time;
  for (size_t first = 0; first < request.pieces.size();) {
    const isa::DramPiece& piece = request.pieces[first];
    isa::check_internal(time >= now && piece.bytes <= DramTarget::kMostBytes, "DRAM request",
                        "{} bytes at tick {}, now is {}", piece.bytes, time, now);
    payload_.set_command(request.write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND);
    payload_.set_address(static_cast<sc_dt::uint64>(piece.address));
    payload_.set_data_ptr(data_.data());
    payload_.set_data_length(static_cast<unsigned>(piece.bytes));
    payload_.set_streaming_width(static_cast<unsigned>(piece.bytes));
    payload_.set_byte_enable_ptr(nullptr);
    payload_.set_dmi_allowed(false);
    payload_.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
    const size_t left = request.pieces.size() - first;
    gather_.pieces = &request.pieces;
    gather_.first = first;
    gather_.taken = 1;
    if (left > 1) payload_.set_extension(&gather_);
    sc_core::sc_time delay = of_ticks(time - now);
    try {
      target.b_transport(payload_, delay);
    } catch (const isa::PassError&) {
      throw;
    } catch (const isa::InternalError&) {
      throw;
    } catch (const std::exception& error) {
      blame(fmt::format("it throws: {}", error.what()));
    }
    if (left > 1) payload_.clear_extension(&gather_);
    if (!payload_.is_response_ok())
      blame(fmt::format("it answers {} to {} bytes at address {}", payload_.get_response_string(),
                        piece.bytes, piece.address));
    if (ticks_of(delay) < time - now)
      blame(fmt::format("it answers a delay of {} ps to a transaction sent after {}", ticks_of(delay),
                        time - now));
    if (gather_.taken < 1 || gather_.taken > left)
      blame(fmt::format("it takes {} of {} pieces", gather_.taken, left));
    time = now + ticks_of(delay);
    first += gather_.taken;
  }
  return time;
}

// ---- transfer engine -------------------------------------------------------------------------------------

TransferEngine::TransferEngine(sc_core::sc_module_name name, const isa::Chip& chip, const Clock& clock)
    : sc_module(name),
      ports("ports", static_cast<size_t>(2 * chip.groups + chip.l2b_count() + 1)),
      chip_(chip),
      clock_(clock),
      timeline_(chip, [this](const isa::TransferChunk& chunk) { return ask_port(chunk); }),
      data_(static_cast<size_t>(isa::TransferTimeline::kChunkLw * 8)),
      drams_(chip.transfer.dram_model, isa::find_dram_model(chip.transfer.dram_model).plugin) {
  commands.register_nb_transport_fw(this, &TransferEngine::receive);
  reset();
  SC_HAS_PROCESS(TransferEngine);
  SC_METHOD(handle_events);
  sensitive << wake_;
  dont_initialize();
}

void TransferEngine::reset() {
  timeline_ =
      isa::TransferTimeline(chip_, [this](const isa::TransferChunk& chunk) { return ask_port(chunk); });
  timeline_.on_done = [this](const isa::TransferRecord& record) { transfer_done(record); };
  on_transfer = {};
  dram_ports_.assign(static_cast<size_t>(chip_.groups), isa::DramPort(chip_));
}

double TransferEngine::ask_port(const isa::TransferChunk& chunk) {
  const isa::TransferPart& part = *chunk.part;
  auto& socket = ports[socket_of(part)];
  if (part.port == isa::TransferPort::kDram) {
    return dram_ports_[static_cast<size_t>(part.index)].occupy(chunk, [&](const isa::DramRequest& request) {
      return drams_.send(*socket.operator->(), request, ticks_of(clock_.now()));
    });
  }
  const bool write = part.port == isa::TransferPort::kPdmWrite || part.port == isa::TransferPort::kL2bmWrite;
  chunk_payload_.set_command(write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND);
  chunk_payload_.set_address(static_cast<sc_dt::uint64>(part.address + chunk.offset) * 8);
  chunk_payload_.set_data_ptr(data_.data());
  chunk_payload_.set_data_length(static_cast<unsigned>(chunk.lw * 8));
  chunk_payload_.set_streaming_width(static_cast<unsigned>(chunk.lw * 8));
  sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
  socket->b_transport(chunk_payload_, delay);
  return cycles_of(delay);
}

size_t TransferEngine::socket_of(const isa::TransferPart& part) const {
  switch (part.port) {
    case isa::TransferPort::kDram:
      return static_cast<size_t>(part.index);
    case isa::TransferPort::kPdmRead:
    case isa::TransferPort::kPdmWrite:
      return static_cast<size_t>(chip_.groups + part.index);
    case isa::TransferPort::kL2bmRead:
    case isa::TransferPort::kL2bmWrite:
      return static_cast<size_t>(2 * chip_.groups + part.index);
    case isa::TransferPort::kGroupPath:
      break;
  }
  return ports.size() - 1;
}

void TransferEngine::take(tlm::tlm_generic_payload& payload, int64_t cycle) {
  auto* mv = payload.get_extension<MvExtension>();
  const int64_t id = timeline_.issue(mv->request, mv->parts, cycle);
  under_way_[id] = &payload;
  notify();
}

tlm::tlm_sync_enum TransferEngine::receive(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                           sc_core::sc_time& delay) {
  isa::check_internal(phase == tlm::BEGIN_REQ && held_ == nullptr, "TransferEngine", "unexpected phase");
  const auto cycle = static_cast<int64_t>(cycles_of(clock_.now() + delay));
  if (!timeline_.has_slot(payload.get_extension<MvExtension>()->parts)) {
    held_ = &payload;
    held_cycle_ = cycle;
    return tlm::TLM_ACCEPTED;
  }
  take(payload, cycle);
  phase = tlm::END_REQ;
  return tlm::TLM_UPDATED;
}

void TransferEngine::notify() {
  const double next = timeline_.next_event();
  if (next == isa::TransferTimeline::kNever) return;
  const sc_core::sc_time time = at_least(next);
  const sc_core::sc_time now = clock_.now();
  wake_.cancel();
  wake_.notify(time > now ? time - now : sc_core::SC_ZERO_TIME);
}

void TransferEngine::rethrow_fault() {
  if (fault_) std::rethrow_exception(std::exchange(fault_, nullptr));
}

void TransferEngine::handle_events() {
  try {
    advance();
  } catch (...) {
    fault_ = std::current_exception();
    sc_core::sc_pause();
  }
}

void TransferEngine::advance() {
  timeline_.advance(cycles_of(clock_.now()));
  if (held_ != nullptr && timeline_.has_slot(held_->get_extension<MvExtension>()->parts)) {
    tlm::tlm_generic_payload& payload = *held_;
    held_ = nullptr;
    const int64_t cycle = std::max(held_cycle_, timeline_.last_done(-1));
    take(payload, cycle);
    tlm::tlm_phase phase = tlm::END_REQ;
    sc_core::sc_time delay =
        exactly(cycle) > clock_.now() ? exactly(cycle) - clock_.now() : sc_core::SC_ZERO_TIME;
    payload.get_extension<MvExtension>()->done = cycle;
    commands->nb_transport_bw(payload, phase, delay);
  }
  notify();
}

void TransferEngine::transfer_done(const isa::TransferRecord& record) {
  const auto found = under_way_.find(record.id);
  tlm::tlm_generic_payload& payload = *found->second;
  under_way_.erase(found);
  payload.get_extension<MvExtension>()->done = record.done;
  tlm::tlm_phase phase = tlm::BEGIN_RESP;
  sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
  if (on_transfer) on_transfer(record);
  commands->nb_transport_bw(payload, phase, delay);
}

// ---- PE array --------------------------------------------------------------------------------------------

PeArray::PeArray(sc_core::sc_module_name name, const isa::Chip& chip, const Clock& clock)
    : sc_module(name), chip_(chip), clock_(clock), in_flight_(kTags), last_done_(kTags) {
  commands.register_nb_transport_bw(this, &PeArray::answer);
  link_payload_.set_extension(&link_extension_);
}

void PeArray::reset() {
  isa::check_internal(all_in_flight_ == 0, "PeArray", "{} transfers left from the last run", all_in_flight_);
  std::fill(last_done_.begin(), last_done_.end(), 0);
  any_last_done_ = 0;
  kernel_starts_ = 0;
}

PeArray::~PeArray() {
  link_payload_.clear_extension(&link_extension_);
}

sc_core::sc_time PeArray::local_time(int64_t cycle) const {
  // Far beyond any program that someone waits for, and far below what SystemC's 64-bit time holds.
  constexpr int64_t kLastCycle = int64_t{1} << 53;
  if (cycle > kLastCycle) {
    throw isa::UnsupportedError(
        fmt::format("a program of more than {} cycles can't be timed; run it without timing", kLastCycle));
  }
  // The kernel may be a fraction of a cycle ahead of the step that it let go.
  const sc_core::sc_time now = clock_.now();
  const sc_core::sc_time time = exactly(cycle);
  return time > now ? time - now : sc_core::SC_ZERO_TIME;
}

int64_t PeArray::take_words(int64_t cycle, int64_t count) {
  local_time(cycle + isa::kCyclesPerStep * count);  // refuses what is too long
  link_extension_.amount = count;
  sc_core::sc_time delay = local_time(cycle);
  link_payload_.set_command(tlm::TLM_READ_COMMAND);
  words->b_transport(link_payload_, delay);
  return static_cast<int64_t>(cycles_of(clock_.now() + delay));
}

int64_t PeArray::link_data(int64_t bytes, bool to_chip, int64_t tick) {
  local_time(tick / isa::kTicksPerCycle);  // refuses what is too long
  link_extension_.amount = bytes;
  // The link doesn't mind being asked for a time before that of the kernel.
  const int64_t now = ticks_of(clock_.now());
  sc_core::sc_time delay = of_ticks(std::max<int64_t>(tick - now, 0));
  const int64_t sent = now + ticks_of(delay);
  link_payload_.set_command(to_chip ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND);
  data->b_transport(link_payload_, delay);
  return tick + now + ticks_of(delay) - sent;
}

tlm::tlm_generic_payload& PeArray::new_payload() {
  if (free_payloads_.empty()) {
    payloads_.push_back(
        std::make_unique<tlm::tlm_generic_payload>(static_cast<tlm::tlm_mm_interface*>(this)));
    payloads_.back()->set_extension(new MvExtension);
    free_payloads_.push_back(payloads_.back().get());
  }
  tlm::tlm_generic_payload* payload = free_payloads_.back();
  free_payloads_.pop_back();
  payload->acquire();
  return *payload;
}

void PeArray::free(tlm::tlm_generic_payload* payload) {
  free_payloads_.push_back(payload);
}

int64_t PeArray::in_flight(int tag) const {
  return tag < 0 ? all_in_flight_ : in_flight_[static_cast<size_t>(tag)];
}

void PeArray::run_kernel() {
  ++kernel_starts_;
  sc_core::sc_start();
  after_kernel();
}

void PeArray::run_kernel_until(int64_t cycle) {
  const sc_core::sc_time ahead = local_time(cycle);
  if (ahead == sc_core::SC_ZERO_TIME) return;
  ++kernel_starts_;
  sc_core::sc_start(ahead, sc_core::SC_RUN_TO_TIME);
  after_kernel();
}

int64_t PeArray::issue(isa::TransferRequest request, int64_t cycle) {
  // Before it can be full, nobody needs to know how far the others are.
  if (all_in_flight_ >= chip_.transfer.max_in_flight) run_kernel_until(cycle);
  tlm::tlm_generic_payload& payload = new_payload();
  auto* mv = payload.get_extension<MvExtension>();
  mv->parts = isa::transfer_parts(request.mv, chip_);
  mv->request = std::move(request);
  const auto tag = static_cast<size_t>(mv->request.mv.tag);
  ++in_flight_[tag];
  ++all_in_flight_;
  tlm::tlm_phase phase = tlm::BEGIN_REQ;
  sc_core::sc_time delay = local_time(cycle);
  if (commands->nb_transport_fw(payload, phase, delay) == tlm::TLM_UPDATED) return cycle;
  awaiting_ = Awaiting::kRoom;
  accepted_ = false;
  while (!accepted_) run_kernel();
  awaiting_ = Awaiting::kNothing;
  return std::max(cycle, accepted_cycle_);
}

int64_t PeArray::wait(int tag, int64_t cycle) {
  awaiting_ = Awaiting::kTag;
  awaited_tag_ = tag;
  while (in_flight(tag) > 0) run_kernel();
  awaiting_ = Awaiting::kNothing;
  return std::max(cycle, tag < 0 ? any_last_done_ : last_done_[static_cast<size_t>(tag)]);
}

int64_t PeArray::in_flight(int tag, int64_t cycle) {
  if (in_flight(tag) > 0) run_kernel_until(cycle);
  return in_flight(tag);
}

tlm::tlm_sync_enum PeArray::answer(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                   sc_core::sc_time& /*delay*/) {
  const auto* mv = payload.get_extension<MvExtension>();
  if (phase == tlm::END_REQ) {
    accepted_ = true;
    accepted_cycle_ = mv->done;
    sc_core::sc_pause();
    return tlm::TLM_ACCEPTED;
  }
  const auto tag = static_cast<size_t>(mv->request.mv.tag);
  --in_flight_[tag];
  --all_in_flight_;
  last_done_[tag] = std::max(last_done_[tag], mv->done);
  any_last_done_ = std::max(any_last_done_, mv->done);
  payload.release();
  if (awaiting_ == Awaiting::kTag && in_flight(awaited_tag_) == 0) sc_core::sc_pause();
  return tlm::TLM_COMPLETED;
}

}  // namespace kodama::simulator::timing
