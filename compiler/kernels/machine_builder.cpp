#include <bit>
#include <utility>

#include "compiler/kernels/lowering.h"
#include "isa/error.h"

namespace kodama::compiler {

using isa::check_internal;

namespace {
constexpr const char* kMachineBuilderPart = "machine builder";
}  // namespace

isa::Instruction integer_immediate(uint32_t payload, isa::Operand to) {
  isa::Instruction imm;
  imm.opcode = isa::Opcode::kImm;
  imm.immediate_kind = isa::ImmediateKind::kInt;
  imm.sources = {space_operand(isa::Space::kImmediate, payload)};
  imm.destinations = {std::move(to)};
  return imm;
}

isa::Operand space_operand(isa::Space space, int64_t base, std::vector<int64_t> loop_strides) {
  isa::Operand operand;
  operand.space = space;
  operand.base = base;
  operand.loop_strides = std::move(loop_strides);
  return operand;
}

MachineBuilder::MachineBuilder(const isa::Chip& chip, std::string name) : chip_(chip) {
  program_.name = std::move(name);
  open_.push_back(&program_.body);
}

int MachineBuilder::value(std::string name, int64_t size_words, scheduler::HomeSet homes,
                          int64_t alignment_words) {
  check_internal(size_words > 0 && homes != 0, kMachineBuilderPart, "value '{}' has {} words and homes {:#x}",
                 name, size_words, homes);
  scheduler::Value value;
  value.name = std::move(name);
  value.size_words = size_words;
  value.alignment_words = alignment_words;
  value.homes = homes;
  program_.values.push_back(std::move(value));
  return static_cast<int>(program_.values.size()) - 1;
}

isa::Operand MachineBuilder::operand(int value, int64_t base_words, int32_t stride_words, isa::Width width,
                                     std::vector<int64_t> loop_strides) {
  isa::Operand operand;
  operand.space = isa::Space::kVirtual;
  operand.value = value;
  operand.width = width;
  operand.base = base_words;
  operand.stride = stride_words;
  operand.loop_strides = std::move(loop_strides);
  return operand;
}

std::vector<int64_t> MachineBuilder::loop_strides(const TileIndex& at, int64_t unit,
                                                  const std::vector<int64_t>& inner_strides) const {
  const size_t outer = static_cast<size_t>(depth_) - inner_strides.size();
  check_internal(inner_strides.size() <= static_cast<size_t>(depth_) && at.strides.size() <= outer,
                 kMachineBuilderPart, "{} index strides and {} inner strides in {} loops", at.strides.size(),
                 inner_strides.size(), depth_);
  std::vector<int64_t> strides(static_cast<size_t>(depth_), 0);
  for (size_t d = 0; d < at.strides.size(); ++d) strides[d] = at.strides[d] * unit;
  for (size_t d = 0; d < inner_strides.size(); ++d) strides[outer + d] = inner_strides[d];
  while (!strides.empty() && strides.back() == 0) strides.pop_back();
  return strides;
}

isa::Operand MachineBuilder::operand_at(int value, const TileIndex& at, int64_t extra_words,
                                        int32_t stride_words, isa::Width width,
                                        const std::vector<int64_t>& inner_strides) const {
  return operand(value, at.base * isa::kWordsPerLong + extra_words, stride_words, width,
                 loop_strides(at, isa::kWordsPerLong, inner_strides));
}

void MachineBuilder::emit(isa::Instruction instruction, std::string origin) {
  open_block().operations.push_back({std::move(instruction), std::move(origin)});
}

void MachineBuilder::emit_wait(int tag, std::string origin, bool is_early) {
  isa::Instruction wait;
  wait.opcode = isa::Opcode::kWait;
  wait.tag = static_cast<int8_t>(tag);
  open_block().operations.push_back({std::move(wait), std::move(origin), is_early});
}

void MachineBuilder::emit(isa::Opcode opcode, isa::Precision precision, std::vector<isa::Operand> sources,
                          std::vector<isa::Operand> destinations, std::string origin) {
  isa::Instruction instruction;
  instruction.opcode = opcode;
  instruction.precision = precision;
  instruction.sources = std::move(sources);
  instruction.destinations = std::move(destinations);
  emit(std::move(instruction), std::move(origin));
}

int MachineBuilder::constant_float(float constant) {
  return constant_bits(std::bit_cast<uint32_t>(constant));
}

int MachineBuilder::constant_bits(uint32_t payload) {
  return constant_of(constants_, payload, "constant_{:08x}");
}

int MachineBuilder::constant_long(uint64_t payload) {
  return constant_of(long_constants_, payload, "constant_{:016x}");
}

template <typename Payload>
int MachineBuilder::constant_of(std::vector<std::pair<Payload, int>>& constants, Payload payload,
                                fmt::format_string<Payload&> name) {
  for (const auto& [bits, value] : constants) {
    if (bits == payload) return value;
  }
  const int id = value(fmt::format(name, payload), isa::kWordsPerLong,
                       isa::space_bit(isa::Space::kGrf0) | isa::space_bit(isa::Space::kGrf1) |
                           isa::space_bit(isa::Space::kLm0) | isa::space_bit(isa::Space::kLm1));
  constants.emplace_back(payload, id);
  return id;
}

void MachineBuilder::begin_loop(int64_t count) {
  check_internal(count > 0, kMachineBuilderPart, "loop of {} iterations in {}", count, program_.name);
  check_internal(depth_ < isa::kMaxLoopDepth, kMachineBuilderPart, "{} needs more than {} nested loops",
                 program_.name, isa::kMaxLoopDepth);
  scheduler::CountedLoop loop;
  loop.count = count;
  open_body().push_back({std::move(loop)});
  open_.push_back(&std::get<scheduler::CountedLoop>(open_body().back().kind).body);
  ++depth_;
}

void MachineBuilder::end_loop() {
  check_internal(depth_ > 0 && open_.size() > 1, kMachineBuilderPart, "end_loop without a loop in {}",
                 program_.name);
  open_.pop_back();
  --depth_;
}

void MachineBuilder::begin_region(const std::string& name) {
  scheduler::RegionNode region;
  region.name = name;
  open_body().push_back({std::move(region)});
  open_.push_back(&std::get<scheduler::RegionNode>(open_body().back().kind).body);
}

void MachineBuilder::end_region() {
  check_internal(open_.size() > 1, kMachineBuilderPart, "end_region without a region in {}", program_.name);
  open_.pop_back();
}

void MachineBuilder::add_long_constant(scheduler::Block& block, uint64_t payload, int to) {
  constexpr int kWordBits = 32;
  const auto upper = static_cast<uint32_t>(payload >> kWordBits), lower = static_cast<uint32_t>(payload);
  const auto part = [&] {
    return operand(value("constant_part", isa::kWordsPerLong,
                         isa::space_bit(isa::Space::kGrf0) | isa::space_bit(isa::Space::kGrf1)),
                   0, 0);
  };
  const auto add = [&](isa::Instruction instruction) {
    block.operations.push_back({std::move(instruction), "constant"});
  };
  const auto combine = [&](isa::Opcode opcode, const isa::Operand& a, const isa::Operand& b,
                           const isa::Operand& result) {
    isa::Instruction instruction;
    instruction.opcode = opcode;
    instruction.precision = isa::Precision::kLong;
    instruction.unsigned_op = opcode == isa::Opcode::kLsr;
    instruction.sources = {a, b};
    instruction.destinations = {result};
    add(std::move(instruction));
  };
  // imm puts a payload into both words; with u, into the upper one, and 0 into the other.
  const auto in_upper = [&](uint32_t word, const isa::Operand& result) {
    isa::Instruction imm = integer_immediate(word, result);
    imm.unsigned_op = true;
    add(std::move(imm));
  };
  const isa::Operand result = operand(to, 0, 0);
  if (upper == lower) return add(integer_immediate(upper, result));
  if (lower == 0) return in_upper(upper, result);
  const isa::Operand low = part(), shift = part(), shifted = upper == 0 ? result : part();
  in_upper(lower, low);
  add(integer_immediate(kWordBits, shift));
  combine(isa::Opcode::kLsr, low, shift, shifted);
  if (upper == 0) return;
  const isa::Operand high = part();
  in_upper(upper, high);
  combine(isa::Opcode::kOr, high, shifted, result);
}

scheduler::MachineProgram MachineBuilder::finish() {
  check_internal(open_.size() == 1, kMachineBuilderPart, "{} ends inside {} loops or regions", program_.name,
                 open_.size() - 1);
  if (!constants_.empty() || !long_constants_.empty()) {
    scheduler::Block prologue;
    for (const auto& [bits, value] : long_constants_) add_long_constant(prologue, bits, value);
    for (const auto& [bits, value] : constants_) {
      prologue.operations.push_back({integer_immediate(bits, operand(value, 0, 0)), "constant"});
    }
    // Inside the region, so that the constants count for the layer that needs them.
    std::vector<scheduler::Node>* body = &program_.body;
    if (!body->empty()) {
      if (auto* region = std::get_if<scheduler::RegionNode>(&body->front().kind)) body = &region->body;
    }
    body->insert(body->begin(), {std::move(prologue)});
  }
  open_.clear();
  return std::move(program_);
}

std::vector<scheduler::Node>& MachineBuilder::open_body() {
  check_internal(!open_.empty(), kMachineBuilderPart, "builder of {} used after finish", program_.name);
  return *open_.back();
}

scheduler::Block& MachineBuilder::open_block() {
  std::vector<scheduler::Node>& body = open_body();
  if (body.empty() || !std::holds_alternative<scheduler::Block>(body.back().kind)) {
    body.push_back({scheduler::Block{}});
  }
  return std::get<scheduler::Block>(body.back().kind);
}

}  // namespace kodama::compiler
