#include "isa/costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "isa/error.h"

namespace kodama::isa {
namespace {

using ::testing::HasSubstr;

const Chip& chip() {
  static const Chip two = find_chip("mncore2");
  return two;
}

Operand at(Space space, int64_t base = 0, int32_t stride = 0, Width width = Width::kLong) {
  Operand operand;
  operand.space = space;
  operand.base = base;
  operand.stride = stride;
  operand.width = width;
  return operand;
}
Operand pattern(Operand operand, int bits) {
  operand.mask = {Mask::Kind::kPattern, static_cast<uint8_t>(bits), false, 0};
  return operand;
}
Operand under(Operand operand, int entry) {
  operand.mask = {Mask::Kind::kRegister, static_cast<uint8_t>(entry), false, 0};
  return operand;
}
Operand looped(Operand operand, std::vector<int64_t> strides) {
  operand.loop_strides = std::move(strides);
  return operand;
}
Operand in_group(Operand operand, int group, int unit = -1) {
  operand.group = static_cast<int8_t>(group);
  operand.unit = static_cast<int8_t>(unit);
  return operand;
}

Instruction make(std::string_view text, std::vector<Operand> sources, std::vector<Operand> destinations) {
  Instruction instruction = parse_mnemonic(text).value();
  instruction.sources = std::move(sources);
  instruction.destinations = std::move(destinations);
  return instruction;
}
Instruction mv(std::string_view text, int64_t n, const Operand& source, const Operand& destination) {
  Instruction instruction = make(text, {source}, {destination});
  instruction.size_lw = n;
  return instruction;
}
Instruction l1bmm(int unit, const Operand& source, const Operand& destination) {
  Instruction instruction = make("l1bmm", {source}, {destination});
  instruction.unit = static_cast<int8_t>(unit);
  return instruction;
}

/// Largest distance over all pairs of accesses.
int64_t gap(const Instruction& first, const Instruction& second, const Chip& on = chip()) {
  int64_t largest = kNoConstraint;
  for (const Access& a : accesses(first, on)) {
    for (const Access& b : accesses(second, on)) largest = std::max(largest, required_gap(a, b, on));
  }
  return largest;
}
/// The same for one resource.
int64_t gap_of(HazardResource resource, const Instruction& first, const Instruction& second) {
  int64_t largest = kNoConstraint;
  for (const Access& a : accesses(first, chip())) {
    for (const Access& b : accesses(second, chip())) {
      if (a.resource == resource && b.resource == resource)
        largest = std::max(largest, required_gap(a, b, chip()));
    }
  }
  return largest;
}

Instruction alu(const Operand& source, const Operand& destination) {
  return make("lpassa", {source}, {destination});
}
Instruction mau(const Operand& source, const Operand& destination) {
  return make("fvpassa", {source}, {destination});
}

constexpr auto kLm0 = Space::kLm0;
constexpr auto kLm1 = Space::kLm1;
constexpr auto kGrf0 = Space::kGrf0;
constexpr auto kGrf1 = Space::kGrf1;
constexpr auto kT = Space::kT;

TEST(Hazards, GrfNeedsOneStepPerCycleAddress) {
  const auto write = alu(at(kT), at(kGrf0, 0, 2));
  EXPECT_EQ(gap(write, mau(at(kGrf0, 0, 2), at(kGrf1))), 1);
  EXPECT_EQ(gap(write, mau(at(kGrf0, 8, 2), at(kGrf1))), kNoConstraint);
  EXPECT_EQ(gap(write, mau(at(kGrf1, 0, 2), at(kLm0))), kNoConstraint);
  // The last cycle's write is read by the first cycle.
  EXPECT_EQ(gap(alu(at(kT), at(kGrf0)), mau(at(kGrf0), at(kGrf1))), 2);
  // Worked cases of section 9.
  EXPECT_EQ(gap(alu(at(kT), pattern(at(kGrf0), 0b1000)), mau(at(kGrf0), at(kGrf1))), 1);
  EXPECT_EQ(gap(alu(at(kT), pattern(at(kGrf0), 0b0100)), mau(at(kGrf0), at(kGrf1))), 1);
  EXPECT_EQ(gap(alu(at(kT), pattern(at(kGrf0), 0b0010)), mau(at(kGrf0), at(kGrf1))), 2);
  EXPECT_EQ(gap(alu(at(kT), pattern(at(kGrf0), 0)), mau(at(kGrf0), at(kGrf1))), kNoConstraint);
  // Addresses wrap at 512 words; LW accesses are truncated to even words.
  EXPECT_EQ(gap(alu(at(kT), at(kGrf0, 512, 2)), mau(at(kGrf0, 0, 2), at(kGrf1))), 1);
  EXPECT_EQ(gap(alu(at(kT), at(kGrf0, 1, 2)), mau(at(kGrf0, 0, 2), at(kGrf1))), 1);
}

TEST(Hazards, GrfOverwrites) {
  EXPECT_EQ(gap(mau(at(kGrf0, 0, 2), at(kLm0)), alu(at(kT), at(kGrf0, 4, 2))), kSameStep);
  EXPECT_EQ(gap(mau(at(kGrf0, 0, 2), at(kLm0)), alu(at(kT), at(kGrf0, 8, 2))), kNoConstraint);
  EXPECT_EQ(gap(mau(at(kT), at(kGrf0, 0, 2)), alu(at(kT), at(kGrf0, 6))), 0);
}

TEST(Hazards, LmConflictsAtItsPort) {
  EXPECT_EQ(gap(alu(at(kT), at(kLm0, 0, 2)), mau(at(kLm0, 100, 2), at(kGrf1))), 2);
  EXPECT_EQ(gap(alu(at(kT), pattern(at(kLm0, 0, 2), 0b1000)), mau(at(kLm0, 100, 2), at(kGrf1))), 1);
  EXPECT_EQ(gap(alu(at(kT), at(kLm1, 0, 2)), mau(at(kLm1, 0, 2), at(kGrf1))), 2);
  EXPECT_EQ(gap(alu(at(kT), at(kLm1, 0, 2)), mau(at(kLm0, 0, 2), at(kGrf1))), kNoConstraint);
  EXPECT_EQ(gap(mau(at(kLm0, 0, 2), at(kGrf1)), alu(at(kT), at(kLm0, 0, 2))), kSameStep);
  EXPECT_EQ(gap(mau(at(kLm0, 0, 2), at(kGrf1)), alu(at(kT), at(kLm0, 100, 2))), 0);
  EXPECT_EQ(gap(mau(at(kT), at(kLm0, 0, 2)), alu(at(kT), at(kLm0, 100, 2))), kNoConstraint);
  EXPECT_EQ(gap(mau(at(kT), at(kLm0, 0, 2)), alu(at(kT), at(kLm0, 6, 2))), 0);
}

TEST(Hazards, TAndIndirectAddresses) {
  EXPECT_EQ(gap(alu(at(kGrf0), at(kT)), mau(at(kT), at(kGrf1))), 1);
  Operand gather = at(kLm0);
  gather.t_indirect = true;
  EXPECT_EQ(gap(alu(at(kGrf0), at(kT)), mau(gather, at(kGrf1))), 1);
  EXPECT_EQ(gap(alu(at(kGrf0), at(kLm0, 2000)), mau(gather, at(kGrf1))), 2);
  EXPECT_EQ(gap(mau(at(kT), at(kGrf1)), alu(at(kGrf0), at(kT))), kSameStep);
}

TEST(Hazards, MasksBarsForwarding) {
  const auto writes_mask = alu(at(kGrf0), at(Space::kOmr, 3));
  EXPECT_EQ(gap(writes_mask, mau(at(kGrf1), under(at(kLm0), 3))), 0);
  EXPECT_EQ(gap(writes_mask, mau(at(kGrf1), under(at(kLm0), 4))), kNoConstraint);
  EXPECT_EQ(gap(mau(at(kGrf1), under(at(kLm0), 3)), writes_mask), kSameStep);
  Instruction flushed = mau(at(kGrf1), at(kLm0));
  flushed.zero_flush = {Mask::Kind::kRegister, 3, false, 0};
  EXPECT_EQ(gap(writes_mask, flushed), 0);
  EXPECT_EQ(gap(alu(at(kGrf0), at(Space::kBar0)), mau(at(kGrf1), at(kLm0))), chip().hazard.bar_write_use);
  EXPECT_EQ(gap(mau(at(kLm0), at(kGrf1)), alu(at(kGrf0), at(Space::kBar0))), 0);
  EXPECT_EQ(gap(mau(at(kGrf0), at(Space::kNoWrite)), alu(at(Space::kMauf), at(kT))), 0);
  EXPECT_EQ(gap(make("l1bmp", {at(Space::kL1bm)}, {at(Space::kNoWrite)}), alu(at(Space::kLbf), at(kT))), 0);
  EXPECT_EQ(gap(alu(at(Space::kMauf), at(kT)), mau(at(kGrf0), at(Space::kNoWrite))), kSameStep);
  const auto masked = accesses(mau(at(kGrf1), under(at(kLm0), 3)), chip());
  EXPECT_TRUE(
      std::any_of(masked.begin(), masked.end(), [](const Access& a) { return a.write && a.may_not_write; }));
}

TEST(Hazards, MatrixRegisters) {
  const auto write0 = make("gmwrite", {at(kGrf0)}, {at(Space::kMatX, 0)});
  const auto write4 = make("gmwrite", {at(kGrf0)}, {at(Space::kMatX, 4)});
  const auto product = make("gmmul", {at(Space::kMatX), at(kGrf1)}, {at(kT)});
  EXPECT_EQ(gap(write0, product), chip().hazard.matrix_write_read);
  EXPECT_EQ(gap(product, write0), 0);
  EXPECT_EQ(gap(write0, write4), kNoConstraint);
  EXPECT_EQ(gap(write0, write0), 0);
  const auto wide =
      make("hmwrite", {at(kGrf0, 0, 4, Width::kDoubleLong)}, {at(Space::kMatX, 0, 0, Width::kDoubleLong)});
  EXPECT_EQ(gap(wide, write4), 0);
}

TEST(Hazards, BetweenLevels) {
  const auto out = l1bmm(0, at(kGrf0), at(Space::kL1bm, 0));
  const auto in = l1bmm(-1, at(Space::kL1bm, 8), at(kLm1));
  const auto far = l1bmm(-1, at(Space::kL1bm, 16), at(kLm1));
  const auto turned = l1bmm(-1, at(Space::kTurnaround), at(kLm1));
  EXPECT_EQ(gap(out, in), 2);
  EXPECT_EQ(gap(out, far), kNoConstraint);
  EXPECT_EQ(gap(out, turned), 0);
  EXPECT_EQ(gap(turned, out), kSameStep);
  EXPECT_EQ(gap(in, out), chip().hazard.l1bm_read_overwrite);
  const auto up = make("l2bmd", {at(Space::kL1bm)}, {at(Space::kL2bm)});
  const auto down = make("l2bmb", {at(Space::kL2bm, 128)}, {at(Space::kL1bm)});
  EXPECT_EQ(gap(out, up), 2);
  EXPECT_EQ(gap(down, in), 1);
  EXPECT_EQ(gap(up, down), 3);  // l2bmd covers 256 LW of L2BM
  EXPECT_EQ(gap(up, make("l2bmb", {at(Space::kL2bm, 256)}, {at(Space::kL1bm, 512)})), kNoConstraint);
  const auto exchange = make("l2bmi", {at(Space::kL1bm)}, {at(Space::kL1bm, 256)});
  EXPECT_EQ(gap(out, exchange), 2);
  EXPECT_EQ(gap(exchange, l1bmm(-1, at(Space::kL1bm, 256), at(kLm1))), 1);
  EXPECT_EQ(gap(up, mv("mvp", 64, at(Space::kL2bm), at(Space::kDram))), 1);
  EXPECT_EQ(gap_of(HazardResource::kL1bm, make("l1bmd", {at(kLm0)}, {at(Space::kL1bm)}),
                   make("l1bmp", {at(Space::kL1bm, 255)}, {at(kGrf0)})),
            2);
  EXPECT_EQ(gap_of(HazardResource::kL1bm, make("l1bmd", {at(kLm0)}, {at(Space::kL1bm)}),
                   make("l1bmp", {at(Space::kL1bm, 256)}, {at(kGrf0)})),
            kNoConstraint);
}

TEST(Hazards, TransfersKnowTheirPlaces) {
  const auto load0 = mv("mvp", 64, in_group(at(Space::kDram, 0), 0), in_group(at(Space::kL2bm, 0), 0, 1));
  const auto load1 = mv("mvp", 64, in_group(at(Space::kDram, 0), 1), in_group(at(Space::kL2bm, 0), 1, 1));
  EXPECT_EQ(gap(load0, load1), kNoConstraint);
  EXPECT_EQ(gap(load0, load0), 0);
  const auto store = mv("mvp", 64, in_group(at(Space::kL2bm, 0), 0, 1), in_group(at(Space::kDram, 32), 0));
  EXPECT_EQ(gap(load0, store), 0);
  EXPECT_EQ(gap(load0, make("l2bmb", {at(Space::kL2bm, 0)}, {at(Space::kL1bm)})), 0);
  EXPECT_EQ(gap(load0, make("l2bmb", {at(Space::kL2bm, 64)}, {at(Space::kL1bm)})), kNoConstraint);
}

TEST(Hazards, LoopStrides) {
  const auto write = alu(at(kT), looped(at(kGrf0, 0, 2), {8}));
  EXPECT_EQ(gap(write, mau(looped(at(kGrf0, 8, 2), {8}), at(kGrf1))), kNoConstraint);
  EXPECT_EQ(gap(write, mau(looped(at(kGrf0, 8, 2), {8, 0}), at(kGrf1))), kNoConstraint);
  EXPECT_EQ(gap(write, mau(looped(at(kGrf0, 8, 2), {16}), at(kGrf1))), 2);
  EXPECT_EQ(gap(write, mau(at(kGrf0, 8, 2), at(kGrf1))), 2);
  EXPECT_EQ(gap(write, mau(looped(at(kGrf1, 8, 2), {16}), at(kLm0))), kNoConstraint);
}

TEST(Hazards, VirtualValues) {
  Operand a = at(Space::kVirtual, 0, 2);
  a.value = 1;
  Operand b = at(Space::kVirtual, 0, 2);
  b.value = 2;
  EXPECT_EQ(gap(alu(at(kT), a), mau(b, at(kGrf1))), kNoConstraint);
  EXPECT_EQ(gap(alu(at(kT), a), mau(at(kLm0), at(kGrf1))), kNoConstraint);
  EXPECT_EQ(gap(alu(at(kT), a), mau(a, at(kGrf1))), 1);
  const auto listed = accesses(alu(at(kT), a), chip());
  EXPECT_TRUE(
      std::any_of(listed.begin(), listed.end(), [](const Access& x) { return x.value == 1 && x.write; }));
}

TEST(Issue, LegalSteps) {
  const auto is_legal = [](const std::vector<Instruction>& step) { return issue_conflict(step, chip()); };
  EXPECT_EQ(
      is_legal({mau(at(kGrf0), at(kLm0)), alu(at(kGrf1), at(kT)), l1bmm(-1, at(Space::kL1bm), at(kLm1))}),
      "");
  EXPECT_EQ(is_legal({make("l1bmrliadd", {at(kGrf0)}, {at(Space::kTurnaround)}),
                      l1bmm(-1, at(Space::kTurnaround), at(kLm1))}),
            "");
  EXPECT_EQ(is_legal({make("gmread", {at(Space::kMatX)}, {at(Space::kNoWrite)}),
                      make("gmwrite", {at(kGrf0)}, {at(Space::kMatY)}), alu(at(Space::kMreadf), at(kT))}),
            "");
  EXPECT_EQ(is_legal({make("linc", {at(kGrf0)}, {at(kGrf0, 8)})}), "");
  EXPECT_EQ(is_legal({make("linc", {at(kLm0, 2)}, {at(kLm0, 2)})}), "");
  EXPECT_EQ(is_legal({make("fvmul", {at(kGrf0), at(kGrf1)}, {at(kT)}),
                      make("fmwrite", {at(kGrf1)}, {at(Space::kMatX)})}),
            "");
  EXPECT_EQ(is_legal({}), "");
}

TEST(Issue, EveryRuleHasAMessage) {
  const auto conflict = [](const std::vector<Instruction>& step) { return issue_conflict(step, chip()); };
  EXPECT_THAT(conflict({alu(at(kGrf0), at(kT)), make("linc", {at(kGrf0)}, {at(kLm0)})}),
              HasSubstr("'lpassa' and 'linc' both belong to the group alu"));
  EXPECT_THAT(conflict({make("wait", {}, {})}), HasSubstr("'wait' can't stand alone"));
  EXPECT_THAT(conflict({mv("mvp", 64, at(Space::kDram), at(Space::kPdm))}), HasSubstr("'mvp' is an MV"));
  EXPECT_THAT(
      conflict({make("fvpassa", {at(kGrf0)}, {at(kT)}), make("fmwrite", {at(kGrf0)}, {at(Space::kMatX)}),
                make("fmread", {at(Space::kMatY)}, {at(kLm0)})}),
      HasSubstr("at most two"));
  EXPECT_THAT(
      conflict({make("fvpassa", {at(kGrf0)}, {at(kT)}), make("gmwrite", {at(kGrf0)}, {at(Space::kMatX)})}),
      HasSubstr("'fvpassa' and 'gmwrite' have different precisions"));
  EXPECT_THAT(conflict({make("fvmul", {at(kGrf0), at(kGrf1)}, {at(kT)}),
                        make("fmwrite", {at(kGrf0)}, {at(Space::kMatX)})}),
              HasSubstr("the second input of 'fvmul' must be the source of 'fmwrite'"));
  Operand wide_t = at(kT);
  wide_t.width = Width::kDoubleLong;
  EXPECT_EQ(
      conflict({make("fvmul", {at(kGrf0), at(kT)}, {at(kT)}), make("fmwrite", {wide_t}, {at(Space::kMatX)})}),
      "");
  EXPECT_THAT(conflict({make("gmmul", {at(Space::kMatX), at(kGrf0)}, {at(kT)}),
                        make("gmwrite", {at(kGrf0)}, {at(Space::kMatX)})}),
              HasSubstr("same matrix register $lx"));
  EXPECT_THAT(conflict({mau(at(kGrf0), at(kT)), alu(at(kGrf1), at(kT))}),
              HasSubstr("two writes to $t by 'fvpassa' and 'lpassa'"));
  EXPECT_THAT(conflict({make("lpassa", {at(kGrf0)}, {at(kLm0), at(kLm0, 4)})}),
              HasSubstr("two writes to $m (LM0)"));
  EXPECT_THAT(conflict({mau(at(kGrf0), at(kT)), alu(at(kGrf0, 2), at(kLm0))}),
              HasSubstr("two reads of $r (GRF0) with different addresses"));
  EXPECT_THAT(conflict({make("ladd", {at(kGrf0), at(kGrf0, 0, 2)}, {at(kT)})}), HasSubstr("two reads of $r"));
  EXPECT_THAT(conflict({make("linc", {at(kLm0)}, {at(kLm0, 2)})}),
              HasSubstr("'linc' read and write $m (LM0)"));
  Operand payload = at(Space::kImmediate, 5);
  EXPECT_THAT(conflict({make("imm", {payload}, {at(kT)}), mau(at(kLm0), at(kGrf0))}),
              HasSubstr("'imm' can't be in a step that accesses $m (LM0), here by 'fvpassa'"));
  EXPECT_THAT(conflict({mau(at(kGrf0), under(at(kT), 1)), alu(at(kGrf1), under(at(kLm0), 2))}),
              HasSubstr("different masks in 'fvpassa' and 'lpassa'"));
  Operand wide = under(at(kLm0), 1);
  wide.mask.double_long = true;
  EXPECT_THAT(conflict({mau(at(kGrf0), under(at(kT), 1)), alu(at(kGrf1), wide)}),
              HasSubstr("different lengths"));
}

TEST(Transfers, Times) {
  const auto& t = chip().transfer;
  const auto dram = [](int g) { return in_group(at(Space::kDram), g); };
  const auto pdm = [](int g) { return in_group(at(Space::kPdm), g); };
  const auto l2bm = at(Space::kL2bm);
  EXPECT_EQ(transfer_cycles(mv("mvp", 1600, pdm(0), in_group(l2bm, 0, 0)), chip()), t.startup_cycles + 100);
  EXPECT_EQ(transfer_cycles(mv("mvp", 1600, pdm(0), in_group(l2bm, 3, 0)), chip()),
            t.startup_cycles + 3 * t.group_hop_cycles + 100);
  EXPECT_EQ(transfer_cycles(mv("mvp", 64, at(Space::kPdm), l2bm), chip()), t.startup_cycles + 4);
  EXPECT_EQ(transfer_cycles(mv("mvb", 6400, pdm(1), l2bm), chip()),
            t.startup_cycles + 2 * t.group_hop_cycles + 400);
  EXPECT_EQ(transfer_cycles(mv("mvb2", 6400, at(Space::kDram), l2bm), chip()), t.startup_cycles + 400);
  EXPECT_EQ(transfer_cycles(mv("mvd", 6400, pdm(0), l2bm), chip()),
            t.startup_cycles + 3 * t.group_hop_cycles + 400);
  EXPECT_EQ(transfer_cycles(mv("mvrdfadd", 6400, l2bm, pdm(0)), chip()),
            t.startup_cycles + 3 * t.group_hop_cycles + 400);
  // A copy inside one DRAM passes its interface twice: 2 * 1024 LW at 17.07 LW per cycle.
  EXPECT_EQ(transfer_cycles(mv("mvp", 1024, dram(0), dram(0)), chip()), t.startup_cycles + 120);
  EXPECT_EQ(transfer_cycles(make("mvnop", {}, {}), chip()), t.startup_cycles);
  EXPECT_THROW(transfer_cycles(make("lpassa", {at(kT)}, {at(kT)}), chip()), InternalError);
}

TEST(Transfers, LoadsAddUp) {
  const TransferLoad load =
      transfer_load(mv("mvd", 16 * 9, in_group(at(Space::kPdm), 2), at(Space::kL2bm)), chip());
  EXPECT_EQ(load.group_hops, 2);
  int64_t written = 0;
  int64_t over_paths = 0;
  for (const TransferUse& use : load.uses) {
    if (use.port == TransferPort::kL2bmWrite) written += use.lw;
    if (use.port == TransferPort::kGroupPath) over_paths += use.lw;
    if (use.port == TransferPort::kL2bmWrite && use.index == 0) {
      EXPECT_EQ(use.lw, 32);  // unit 0 and, after one round, unit 8
    }
    if (use.port == TransferPort::kPdmRead) {
      EXPECT_EQ(use.lw, 16 * 9);
    }
  }
  EXPECT_EQ(written, 16 * 9);
  EXPECT_EQ(over_paths, 16 * 7);  // two L2Bs are in the group of the PDM
  const TransferLoad four = transfer_load(mv("mvb4", 64, at(Space::kDram), at(Space::kL2bm)), chip());
  for (const TransferUse& use : four.uses) {
    EXPECT_EQ(use.lw, use.port == TransferPort::kL2bmWrite ? 64 : 16);
  }
}

TEST(Times, HostLinkAndPeaks) {
  EXPECT_EQ(host_link_cycles(0, chip()), 750);
  EXPECT_EQ(host_link_cycles(25'000'000'000, chip()), 750 + 750'000'000);
  EXPECT_EQ(peak_macs_per_cycle(Precision::kDouble, true, chip()) * 2, 16384);
  EXPECT_EQ(peak_macs_per_cycle(Precision::kHalf, true, chip()), 256 * 1024);
  EXPECT_EQ(peak_macs_per_cycle(Precision::kFloat, false, chip()), 8 * 1024);
  EXPECT_EQ(peak_macs_per_cycle(Precision::kGFloat, false, chip()), 0);
  EXPECT_EQ(peak_macs_per_cycle(Precision::kHalf, true, find_chip("tiny")), 256 * 32);
}

/// Every row must have accesses and, for MVs, a time on every chip.
TEST(Coverage, AllMnemonicsWithAllForms) {
  for (const std::string& name : chip_names()) {
    const Chip on = find_chip(name);
    for (Instruction instruction : all_mnemonics()) {
      for (const OperandForm& form : info(instruction.opcode).forms) {
        instruction.sources.clear();
        instruction.destinations.clear();
        const auto first = [](SpaceSet set) {
          int space = 0;
          while ((set >> space & 1) == 0) ++space;
          return at(static_cast<Space>(space));
        };
        for (const SpaceSet set : form.sources) {
          if (set != 0) instruction.sources.push_back(first(set));
        }
        if (form.destinations != 0) instruction.destinations.push_back(first(form.destinations));
        instruction.size_lw = 64;
        const auto list = accesses(instruction, on);
        for (const Access& access : list) {
          EXPECT_GT(access.length, 0) << mnemonic(instruction);
          EXPECT_EQ(required_gap(access, access, on), access.write ? 0 : kNoConstraint)
              << mnemonic(instruction);
        }
        if (info(instruction.opcode).group == IssueGroup::kMv) {
          EXPECT_GE(transfer_cycles(instruction, on), on.transfer.startup_cycles) << mnemonic(instruction);
        }
      }
    }
  }
}

TEST(Distances, OfInstructions) {
  const auto write = make("lpassa", {at(kT)}, {at(Space::kLm0, 0, 2)});
  const auto read = make("lpassa", {at(Space::kLm0, 0, 2)}, {at(Space::kGrf0, 0, 2)});
  EXPECT_EQ(required_gap(write, read, chip()), 2);
  EXPECT_EQ(required_gap(read, write, chip()), kSameStep);
  EXPECT_EQ(required_gap(make("lpassa", {at(Space::kGrf0)}, {at(Space::kGrf1)}), write, chip()),
            kNoConstraint);
}

}  // namespace
}  // namespace kodama::isa
