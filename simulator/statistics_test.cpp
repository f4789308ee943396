#include "simulator/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assembler/assembler.h"
#include "simulator/bandwidth.h"
#include "simulator/machine.h"
#include "simulator/timeline.h"

namespace kodama::simulator {
namespace {

struct Run {
  isa::Program program;
  Profile profile;
  RunStats stats;
};
std::unique_ptr<Run> run(const std::string& text, const isa::Chip& chip, Timeline* timeline = nullptr) {
  auto result = std::make_unique<Run>();
  result->program = assembler::assemble(text, "test.vsm", chip);
  MachineOptions machine_options;
  machine_options.threads = 1;
  Machine machine(chip, machine_options);
  RunOptions options;
  options.profile = &result->profile;
  options.timeline = timeline;
  result->stats = machine.run(result->program, options);
  return result;
}

const isa::Chip& chip() {
  static const isa::Chip tiny = isa::find_chip("tiny");
  return tiny;
}

TEST(Statistics, SlotsAndBytesOfEachLevel) {
  // 2 groups of 2 L2Bs of 2 L1Bs of 4 MABs: 128 PEs, 8 L1Bs, 4 L2Bs.
  const auto done =
      run("lpassa $lm0v $ln0v $lr0v/1000; l1bmd $lb0 $ls0v\n"  // L1BM: 4 cycles * 16 LW of each
          "l2bmb $lc0 $lb0\n"                                  // 64 LW of each L2BM to two L1BMs
          "fvfma $lr0v $ls0v $lr0v $nowrite\n"                 // GRF0 is read once
          "nop/7\n",
          chip());
  const Usage usage = statistics(done->profile, chip()).total;
  EXPECT_EQ(usage.steps, 10);
  EXPECT_EQ(usage.alu, 1);
  EXPECT_EQ(usage.l1bm, 1);
  EXPECT_EQ(usage.l2bm, 1);
  EXPECT_EQ(usage.mau, 1);
  EXPECT_EQ(usage.empty, 7);
  const auto read = [&](Level level) { return usage.read_bytes[static_cast<size_t>(level)]; };
  const auto written = [&](Level level) { return usage.written_bytes[static_cast<size_t>(level)]; };
  EXPECT_EQ(read(Level::kLm), 128 * 4 * 8);
  EXPECT_EQ(written(Level::kLm), 128 * 4 * 8);
  EXPECT_EQ(written(Level::kGrf), 128 * (1 + 4) * 8);
  EXPECT_EQ(read(Level::kGrf), 128 * (4 + 4) * 8);
  EXPECT_EQ(read(Level::kL1bm), 8 * 64 * 8);
  EXPECT_EQ(read(Level::kL2bm), 4 * 64 * 8);
  EXPECT_EQ(written(Level::kL1bmL2bm), 8 * 64 * 8);
  EXPECT_EQ(usage.calculations.at("float vector").multiply_adds, 32 * 8 * 4);
  EXPECT_EQ(usage.cycles.total(), 40);
  EXPECT_DOUBLE_EQ(usage.mau_cycles(), 4);
}

TEST(Statistics, RegionsNestAndLinesAddUp) {
  const auto done = run(
      "# region a\nnop/3\n# region b\nmvp/n64i01 $p0@0 $d0@0\nnop; wait i01\n# endregion\nnop\n# endregion\n"
      "nop/2\n# region a\nnop/4\n# endregion\n",
      chip());
  const Statistics all = statistics(done->profile, chip());
  ASSERT_EQ(all.regions.size(), 2U);
  EXPECT_EQ(all.regions[0].path, "a");
  EXPECT_EQ(all.regions[0].usage.steps, 3 + 1 + 1 + 4);
  EXPECT_EQ(all.regions[1].path, "a/b");
  EXPECT_EQ(all.regions[1].usage.steps, 1);
  EXPECT_GT(all.regions[1].usage.cycles.wait, 0);
  EXPECT_EQ(all.regions[1].usage.cycles.wait, all.total.cycles.wait);
  isa::CycleCauses sum;
  for (const auto& line : all.lines) sum += line.cycles;
  EXPECT_EQ(sum.total(), all.total.cycles.total());
  EXPECT_EQ(all.total.cycles.total(), done->stats.cycles());

  const auto both = statistics({{"first", &done->profile}, {"second", &done->profile}}, chip());
  EXPECT_EQ(both.total.cycles.total(), 2 * all.total.cycles.total());
  ASSERT_EQ(both.regions.size(), 6U);
  EXPECT_EQ(both.regions[0].path, "first");
  EXPECT_EQ(both.regions[0].usage.cycles.total(), all.total.cycles.total());
  EXPECT_EQ(both.regions[2].path, "first/a/b");
}

TEST(Statistics, LoopsCountEveryIteration) {
  isa::Program program = assembler::assemble("lpassa $lm0v $ln0v\nnop\n", "loop.vsm", chip());
  isa::Program looped;
  looped.statements = {{isa::Loop{5, {{isa::Loop{7, program.statements}, 0}}}, 0}};
  Machine machine(chip());
  Profile profile;
  RunOptions options;
  options.profile = &profile;
  machine.run(looped, options);
  const Usage usage = statistics(profile, chip()).total;
  EXPECT_EQ(usage.steps, 70);
  EXPECT_EQ(usage.alu, 35);
  EXPECT_EQ(usage.cycles.steps, 280);
}

TEST(Statistics, WaitingForInstructionsBelongsToStatements) {
  // The link is slower than the steps. Loops have no cycles of their own.
  isa::Chip slow = chip();
  slow.host_link.bytes_per_second = 0.9e9;
  slow.host_link.instruction_buffer_steps = 7;
  isa::Program program =
      assembler::assemble("nop/40\nmvp/n64i01 $p0@0 $d0@0\nnop; wait i01\n", "t.vsm", slow);
  const isa::Program body = assembler::assemble("nop/3\nlpassa $lm0v $ln0v\n", "t.vsm", slow);
  for (const bool behind_mv : {true, false}) {
    isa::Program looped = program;
    const isa::Loop nested{5, {{isa::Loop{6, body.statements}, 0}}};
    looped.statements.insert(looped.statements.begin() + (behind_mv ? 2 : 1), {nested, 0});
    Machine machine(slow);
    Profile profile;
    RunOptions options;
    options.profile = &profile;
    const isa::CycleCauses causes = machine.run(looped, options).causes;
    EXPECT_GT(causes.host_link, 0);
    EXPECT_EQ(statistics(profile, slow).total.cycles.host_link, causes.host_link);
  }
}

TEST(Statistics, FormsSayTheSame) {
  const auto done =
      run("# region \"x\"\nfvfma $lm0v $lm0v $lm0v $ln0v\n# endregion\nmvp/n64 $p0@0 $d0@0\n", chip());
  const Statistics all = statistics(done->profile, chip());
  const auto json = statistics_json(all);
  EXPECT_EQ(json["total"]["cycles"], done->stats.cycles());
  EXPECT_EQ(json["total"]["cycles_by_cause"]["drain"], done->stats.causes.drain);
  EXPECT_EQ(json["regions"][0]["name"], "\"x\"");
  EXPECT_EQ(json["lines"].size(), 2U);
  const std::string csv = statistics_csv(all);
  EXPECT_THAT(csv, testing::HasSubstr("\nregion,\"\"\"x\"\"\",4,"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 1 + 1 + 2);
  EXPECT_THAT(statistics_text(all), testing::HasSubstr("last transfers"));
}

TEST(Statistics, TheBoundIsWhatIsBusiest) {
  std::string text;
  for (int k = 0; k < 8; ++k) text += "mvp/n4096 $p0@0 $d0@0\n";
  EXPECT_THAT(statistics(run(text, chip())->profile, chip()).bound,
              testing::StartsWith("PDM of group 0, read port"));
  EXPECT_THAT(statistics(run("nop/100\n", chip())->profile, chip()).bound, testing::StartsWith("PE steps"));
}

TEST(Bandwidth, EveryTransferReachesTheConfiguredRate) {
  for (const char* name : {"tiny", "mncore2"}) {
    for (const Bandwidth& each : measure_bandwidths(isa::find_chip(name)))
      EXPECT_NEAR(each.ratio(), 1, 0.01) << name << ": " << each.name << ", " << each.program;
  }
}

// ---- timelines

nlohmann::json events(const Timeline& timeline) {
  nlohmann::json spans = nlohmann::json::array();
  const auto json = nlohmann::json::parse(timeline.chrome_json());
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] == "X") spans.push_back(event);
  }
  return spans;
}

TEST(Timeline, ShowsSlotsStallsTransfersAndRegions) {
  Timeline timeline(chip(), {});
  run("# region r\nmvp/n64i0a $p0@0 $d0@0\nlpassa $lm0v $ln0v; l1bmd $lb0 $ls0v\nnop; wait i0a\n# "
      "endregion\n",
      chip(), &timeline);
  std::map<std::string, std::pair<int64_t, int64_t>> found;
  for (const auto& event : events(timeline)) {
    found[event["cat"].get<std::string>() + ": " + event["name"].get<std::string>()] = {event["ts"],
                                                                                        event["dur"]};
  }
  using Span = std::pair<int64_t, int64_t>;
  EXPECT_EQ(found.at("transfers of group 0, lane 0: mvp/n64i0a"), (Span{0, 68}));
  EXPECT_EQ(found.at("ALU: lpassa"), (Span{2, 4}));
  EXPECT_EQ(found.at("L1BM: l1bmd"), (Span{2, 4}));
  EXPECT_EQ(found.at("stalls: instructions from the host"), (Span{0, 2}));
  EXPECT_EQ(found.at("stalls: wait"), (Span{6, 62}));
  EXPECT_EQ(found.at("regions: r"), (Span{0, 72}));
  EXPECT_EQ(found.size(), 6U);
  const std::string vcd = timeline.vcd();
  EXPECT_THAT(vcd, testing::HasSubstr("$enddefinitions $end\n#0\n"));
  EXPECT_THAT(vcd, testing::HasSubstr("slpassa "));
}

TEST(Timeline, TransfersAtATimeAreInLanesOfTheirOwn) {
  Timeline timeline(chip(), {});
  run("mvp/n1024i01 $p0@0 $d0@0\nmvp/n64i02 $p2048@0 $lc0@0.0\nmvb/n64i03 $p0@1 $lc64\n", chip(), &timeline);
  std::set<std::string> tracks;
  for (const auto& event : events(timeline)) {
    if (event["name"].get<std::string>().starts_with("mv")) tracks.insert(event["cat"]);
  }
  EXPECT_EQ(tracks, (std::set<std::string>{"transfers of group 0, lane 0", "transfers of group 0, lane 1",
                                           "transfers of group 0, lane 2", "transfers of group 1, lane 0"}));
}

TEST(Timeline, WindowAndLimitBoundTheSize) {
  std::string text;
  for (int k = 0; k < 100; ++k) text += "lpassa $lm0v $ln0v\n";
  Timeline window(chip(), {.from = 40, .to = 80});
  run(text, chip(), &window);
  EXPECT_EQ(events(window).size(), 10U);
  EXPECT_FALSE(window.truncated());
  Timeline limited(chip(), {.limit = 30});
  const auto done = run(text, chip(), &limited);
  EXPECT_EQ(events(limited).size(), 30U);
  EXPECT_TRUE(limited.truncated());
  EXPECT_EQ(done->stats.cycles(), 400);
}

TEST(Timeline, ProgramsFollowEachOther) {
  Timeline timeline(chip(), {});
  const isa::Program program = assembler::assemble("nop/5\n", "test.vsm", chip());
  Machine machine(chip());
  for (const char* name : {"one", "two"}) {
    RunOptions options;
    options.timeline = &timeline;
    options.name = name;
    machine.run(program, options);
  }
  const auto spans = events(timeline);
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0]["name"], "one");
  EXPECT_EQ(spans[1]["ts"], 20);
  EXPECT_EQ(spans[1]["dur"], 20);
}

}  // namespace
}  // namespace kodama::simulator
