#include "scheduler/packing/packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "isa/error.h"
#include "scheduler/packing/packing_generator.h"
#include "scheduler/packing/packing_suite.h"

namespace kodama::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kFive = R"(id,lower,upper,size
b1,0,3,4
b2,3,9,4
b3,0,9,4
b4,9,21,4
b5,0,21,4
)";

PackingProblem five() {
  return read_packing_csv(kFive, "five.csv", 12);
}

std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const isa::UserError& error) {
    return error.what();
  }
  return "no error";
}

std::string csv_error(const std::string& text) {
  return error_of([&] { read_packing_csv(text, "f.csv", 100); });
}

/// All combinations of offsets below `limit`; the least height, or limit + 1.
int64_t brute_force(const PackingProblem& problem, int64_t limit) {
  PackingSolution trial;
  trial.status = PackingStatus::kGaveUp;
  int64_t best = limit + 1;
  const std::function<void(size_t)> place = [&](size_t i) {
    if (i == problem.buffers.size()) {
      best = std::min(best, trial.height);
      return;
    }
    PackingProblem part = problem;
    part.buffers.resize(i + 1);
    const int64_t before = trial.height;
    for (int64_t offset = 0; offset + problem.buffers[i].size < best; ++offset) {
      trial.offsets.push_back(offset);
      trial.height = std::max(before, offset + problem.buffers[i].size);
      if (packing_violations(part, trial).empty()) place(i + 1);
      trial.height = before;
      trial.offsets.pop_back();
    }
  };
  place(0);
  return best;
}

PackingProblem small_problem(uint64_t seed, bool special) {
  std::mt19937_64 random(seed);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  PackingProblem problem;
  problem.name = "small";
  const int n = 2 + static_cast<int>(below(5));
  for (int i = 0; i < n; ++i) {
    PackingBuffer b;
    b.name = "b" + std::to_string(i);
    b.lower = below(5);
    b.upper = b.lower + 1 + below(4);
    b.size = 1 + below(4);
    if (special && below(3) == 0) b.alignment = 1 + below(3);
    if (special && below(6) == 0) b.fixed_offset = b.alignment * below(3);
    if (special && b.upper - b.lower >= 3 && below(2) == 0) b.gaps = {{b.lower + 1, b.lower + 2}};
    problem.buffers.push_back(b);
  }
  return problem;
}

TEST(Packing, ExampleOfTheHeader) {
  const PackingProblem problem = five();
  EXPECT_EQ(packing_lower_bound(problem), 12);
  const PackingSolution solution = pack(problem, "exact");
  EXPECT_EQ(solution.status, PackingStatus::kSolved);
  EXPECT_EQ(solution.height, 12);
  PackingProblem less = problem;
  less.capacity = 11;
  const PackingSolution none = pack(less);
  EXPECT_EQ(none.status, PackingStatus::kInfeasible);
  EXPECT_EQ(none.height, 12);
}

TEST(Packing, CsvRoundTrip) {
  const PackingProblem problem = five();
  EXPECT_EQ(packing_csv(problem), kFive);
  PackingProblem rich = problem;
  rich.buffers[1].alignment = 4;
  rich.buffers[1].hint = 8;
  rich.buffers[2].fixed_offset = 4;
  rich.buffers[4].gaps = {{3, 5, false, 0, 0}, {7, 9, true, 1, 3}};
  const std::string text = packing_csv(rich);
  EXPECT_THAT(text, HasSubstr("id,lower,upper,size,alignment,hint,gaps,offset\n"));
  EXPECT_THAT(text, HasSubstr("b5,0,21,4,1,,3-5 7-9@1:3,\n"));
  PackingProblem again = read_packing_csv(text, "five.csv", 12);
  EXPECT_EQ(again, rich);
  EXPECT_EQ(read_packing_csv(packing_csv(rich, nullptr, true), "five.csv", 12), rich);
  EXPECT_EQ(read_packing_csv("buffer,start,end,size\r\n a , 0,2,4\r\n\r\n", "x.csv", 9).buffers[0].upper, 3);

  const PackingSolution solution = pack(problem);
  PackingProblem answer = read_packing_csv(packing_csv(problem, &solution), "five.csv", 12);
  EXPECT_EQ(take_solution(answer).offsets, solution.offsets);
  EXPECT_EQ(answer, problem);
}

TEST(Packing, CsvErrorsSayWhere) {
  EXPECT_THAT(csv_error(""), HasSubstr("f.csv:1:1: found no header line"));
  EXPECT_THAT(csv_error("id,lower,upper,bytes\n"), HasSubstr("f.csv:1:16: found column 'bytes'"));
  EXPECT_THAT(csv_error("id,lower,upper\n"), HasSubstr("f.csv:1:1: found no column 'size'"));
  EXPECT_THAT(csv_error("id,lower,start,upper,size\n"), HasSubstr("f.csv:1:10: found column 'lower' twice"));
  EXPECT_THAT(csv_error("id,lower,upper,size\na,0,x,4\n"), HasSubstr("f.csv:2:5: found upper 'x'"));
  EXPECT_THAT(csv_error("id,lower,upper,size\na,0,1\n"), HasSubstr("f.csv:2:5: found 3 fields, allowed: 4"));
  EXPECT_THAT(csv_error("id,lower,upper,size\na,0,1,4\na,0,1,4\n"),
              HasSubstr("f.csv:3:1: found id 'a' twice"));
  EXPECT_THAT(csv_error("id,lower,upper,size\na,3,3,4\n"),
              HasSubstr("f.csv:2:1: buffer 'a': found lifetime [3, 3)"));
  EXPECT_THAT(csv_error("id,lower,upper,size\na,0,3,0\n"), HasSubstr("found size 0"));
  EXPECT_THAT(csv_error("id,lower,upper,size,gaps\na,0,9,1,2-3 5\n"), HasSubstr("f.csv:2:13: found gap '5'"));
  EXPECT_THAT(csv_error("id,lower,upper,size,gaps\na,0,9,1,2-3@0:x\n"),
              HasSubstr("f.csv:2:15: found gap 'x'"));
  EXPECT_THAT(csv_error("id,lower,upper,size,gaps\na,0,9,1,8-12\n"), HasSubstr("found gap [8, 12)"));
}

TEST(Packing, JsonRoundTripAndErrors) {
  PackingProblem rich = five();
  rich.buffers[1].alignment = 4;
  rich.buffers[1].hint = 8;
  rich.buffers[2].fixed_offset = 4;
  rich.buffers[4].gaps = {{3, 5, false, 0, 0}, {7, 9, true, 1, 3}};
  EXPECT_EQ(read_packing_json(packing_json(rich).dump(), "five.json"), rich);
  const PackingSolution solution = pack(rich);
  const PackingSolution again =
      read_packing_solution_json(packing_json(rich, solution).dump(), "s.json", rich);
  EXPECT_EQ(again.offsets, solution.offsets);
  EXPECT_EQ(again.status, solution.status);
  EXPECT_EQ(again.lower_bound, solution.lower_bound);
  const auto error = [](const std::string& text) {
    return error_of([&] { read_packing_json(text, "f.json"); });
  };
  EXPECT_THAT(error("{\n \"name\": }"), HasSubstr("f.json:2:10"));
  EXPECT_THAT(error("[]"), HasSubstr("f.json: found [], allowed: an object"));
  EXPECT_THAT(error(R"({"capacity": 1, "buffers": [{"name": 1}]})"), HasSubstr("f.json: buffers[0].name"));
  EXPECT_THAT(error(R"({"capacity": 1, "buffers": [], "x": 1})"),
              HasSubstr("f.json: the file: found 'x', allowed: "));
}

TEST(Packing, CheckerFindsEachKindOfDamage) {
  PackingProblem problem = five();
  problem.buffers[3].alignment = 4;
  problem.buffers[4].fixed_offset = 0;
  const PackingSolution good = pack(problem);
  ASSERT_THAT(packing_violations(problem, good), IsEmpty());
  const auto damaged = [&](const std::function<void(PackingSolution&)>& damage) {
    PackingSolution solution = good;
    damage(solution);
    std::string all;
    for (const std::string& text : packing_violations(problem, solution)) all += text + "\n";
    return all;
  };
  EXPECT_THAT(damaged([](auto& s) {
                s.offsets = {8, 8, 4, 4, 2};
              }),
              HasSubstr("buffer 'b5' must be at offset 0, it is at 2"));
  EXPECT_THAT(damaged([](auto& s) {
                s.offsets = {8, 8, 4, 6, 0};
              }),
              HasSubstr("the offset 6 of buffer 'b4' is no multiple of 4"));
  EXPECT_THAT(damaged([](auto& s) {
                s.offsets = {8, 6, 4, 4, 0};
              }),
              HasSubstr("buffers 'b3' [4, 8) and 'b2' [6, 10) overlap at moment 3"));
  EXPECT_THAT(damaged([](auto& s) { s.offsets = {8, -4, 4, 4, 0}; }), HasSubstr("negative offset -4"));
  EXPECT_THAT(damaged([](auto& s) {
                s.offsets = {8, 9, 4, 4, 0};
              }),
              HasSubstr("buffer 'b2' [9, 13) exceeds the capacity 12"));
  EXPECT_THAT(damaged([](auto& s) { s.offsets.pop_back(); }), HasSubstr("4 offsets for 5 buffers"));
  EXPECT_THAT(damaged([](auto& s) { s.height = 11; }), HasSubstr("the height is 12, not 11"));
  EXPECT_THAT(damaged([](auto& s) { s.lower_bound = 13; }), HasSubstr("the lower bound 13 exceeds"));
  EXPECT_THAT(damaged([](auto& s) { s.status = PackingStatus::kInfeasible; }),
              HasSubstr("called infeasible"));
  PackingSolution wrong = good;
  wrong.offsets[0] = 0;
  EXPECT_THROW(verify_packing(problem, wrong), isa::InternalError);
}

TEST(Packing, GapsAreUsed) {
  // b lives in a's gap; c in the half of a that a doesn't need at moment 5.
  PackingProblem problem =
      read_packing_csv("id,lower,upper,size,gaps\na,0,9,8,2-4 5-6@0:4\nb,2,4,8,\nc,5,6,4,\n", "gaps.csv", 8);
  EXPECT_EQ(packing_lower_bound(problem), 8);
  for (const Packer& packer : packers()) {
    EXPECT_EQ(pack(problem, packer.name).status, PackingStatus::kSolved) << packer.name;
  }
}

TEST(Packing, ExactAgreesWithBruteForce) {
  int infeasible = 0;
  int solved = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    PackingProblem problem = small_problem(seed, seed % 2 == 1);
    problem.capacity = 40;
    if (pack(problem).offsets.empty()) continue;  // fixed offsets contradict each other
    const int64_t least = brute_force(problem, 14);
    if (least > 14) continue;
    for (const int64_t capacity : {least - 1, least}) {
      problem.capacity = capacity;
      const PackingSolution solution = pack(problem);
      EXPECT_EQ(solution.status, capacity < least ? PackingStatus::kInfeasible : PackingStatus::kSolved)
          << packing_csv(problem);
      ++(capacity < least ? infeasible : solved);
    }
    const PackingSolution lowest = pack_lowest(problem);
    EXPECT_EQ(lowest.status, PackingStatus::kSolved);
    EXPECT_EQ(lowest.height, least) << packing_csv(problem);
    EXPECT_EQ(lowest.lower_bound, least);
  }
  EXPECT_GT(solved, 60);
  EXPECT_GT(infeasible, 60);
}

TEST(Packing, InfeasibleBySearchAlone) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    PackingProblem problem = small_problem(seed, false);
    problem.capacity = packing_lower_bound(problem);
    const PackingSolution solution = pack(problem);
    if (solution.status != PackingStatus::kInfeasible) continue;
    EXPECT_EQ(solution.message, "searched exhaustively");
    EXPECT_GT(solution.height, problem.capacity);
  }
  PackingProblem fixed = read_packing_csv("id,lower,upper,size,offset\na,0,2,2,1\nb,1,3,2,\n", "f.csv", 4);
  const PackingSolution solution = pack(fixed);
  EXPECT_EQ(solution.status, PackingStatus::kInfeasible);
  EXPECT_EQ(solution.message, "searched exhaustively");
  fixed.buffers[1].fixed_offset = 2;
  EXPECT_THAT(pack(fixed).offsets, IsEmpty());
  EXPECT_EQ(pack(fixed).status, PackingStatus::kInfeasible);
}

TEST(Packing, AlignmentRaisesTheBound) {
  const PackingProblem problem =
      read_packing_csv("id,lower,upper,size,alignment\na,0,2,3,4\nb,0,2,3,4\nc,1,3,2,4\n", "a.csv", 10);
  EXPECT_EQ(packing_load(problem), 8);
  EXPECT_EQ(packing_lower_bound(problem), 10);
  EXPECT_EQ(pack_lowest(problem).height, 10);
}

TEST(Packing, GeneratedProblems) {
  PackingRequest request;
  request.buffers = 250;
  int first_fit = 0;
  for (request.seed = 1; request.seed <= 10; ++request.seed) {
    const GeneratedPacking generated = generate_packing(request);
    EXPECT_EQ(generated.problem.buffers.size(), 250u);
    EXPECT_THAT(packing_violations(generated.problem, generated.known), IsEmpty());
    EXPECT_LE(generated.known.height, generated.problem.capacity);
    EXPECT_GE(generated.load, 0.95);
    EXPECT_LE(generated.load, 1.0);
    EXPECT_EQ(generate_packing(request).problem, generated.problem);
    first_fit += pack(generated.problem, "first-fit").status == PackingStatus::kSolved ? 1 : 0;
  }
  EXPECT_LE(first_fit, 3);
  request.buffers = 0;
  EXPECT_THROW(generate_packing(request), isa::UserError);
}

TEST(Packing, EveryPackerOnGeneratedProblems) {
  PackingBenchRequest request;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const PackingProblem problem = bench_packing(request, seed).problem;
    for (const Packer& packer : packers()) {
      passes::PassOptions options;
      if (packer.name == "improve") options["steps"] = "20";
      const PackingSolution solution = pack(problem, packer.name, options);  // verifies
      EXPECT_EQ(solution.offsets.size(), problem.buffers.size()) << packer.name;
      EXPECT_NE(solution.status, PackingStatus::kInfeasible) << packer.name;
    }
  }
}

TEST(Packing, ExactSolvesGeneratedProblems) {
  PackingBenchRequest request;
  request.count = 8;
  std::ostringstream out;
  const PackingBenchResult result = run_packing_bench(request, out);
  EXPECT_EQ(result.solved, 8) << out.str();
  EXPECT_THAT(out.str(), HasSubstr("8 of 8 solved, 0 infeasible"));
}

TEST(Packing, GivesUpWithItsBest) {
  PackingBenchRequest request;
  const PackingProblem problem = bench_packing(request, 1).problem;
  const PackingSolution solution = pack(problem, "exact", {{"nodes", "10"}, {"improve", "5"}});
  EXPECT_EQ(solution.status, PackingStatus::kGaveUp);
  EXPECT_GT(solution.height, problem.capacity);
  EXPECT_EQ(solution.offsets.size(), problem.buffers.size());
  EXPECT_EQ(solution.message, "node limit");
}

TEST(Packing, RegistryAndOptions) {
  EXPECT_EQ(packers().front().name, "exact");
  EXPECT_THAT(error_of([] { pack(five(), "magic"); }),
              HasSubstr("found packer 'magic', allowed: exact, first-fit, best-fit, skyline, improve"));
  EXPECT_THAT(error_of([] { pack(five(), "first-fit", {{"x", "1"}}); }), HasSubstr("allowed: order"));
  EXPECT_THAT(error_of([] {
                pack(five(), "first-fit", {{"order", "colour"}});
              }),
              HasSubstr("allowed: size, area"));
  EXPECT_THAT(error_of([] {
                pack(five(), "exact", {{"nodes", "many"}});
              }),
              HasSubstr("a whole number from 0"));
  EXPECT_THROW(register_pass(packers().front()), isa::InternalError);
}

TEST(Packing, PacksFiles) {
  const std::filesystem::path dir = std::filesystem::path(::testing::TempDir()) / "kodama_packing";
  std::filesystem::create_directories(dir);
  const std::string file = (dir / "five.12.csv").string();
  std::ofstream(file) << kFive;
  PackFileRequest request;
  request.file = file;
  request.output = (dir / "out.12.csv").string();
  std::ostringstream out;
  EXPECT_EQ(pack_file(request, out), 0);
  EXPECT_THAT(out.str(), HasSubstr("5 buffers, solved"));
  PackingProblem answer = load_packing(request.output);
  const PackingSolution solution = take_solution(answer);
  EXPECT_EQ(solution.status, PackingStatus::kSolved);
  EXPECT_THAT(packing_violations(answer, solution), IsEmpty());

  request.capacity = 11;
  request.output = (dir / "out.json").string();
  EXPECT_EQ(pack_file(request, out), 1);
  std::ifstream in(request.output);
  EXPECT_EQ(nlohmann::json::parse(in)["status"], "infeasible");
  request.lowest = true;
  EXPECT_EQ(pack_file(request, out), 0);
  EXPECT_THAT(error_of([&] { load_packing((dir / "none.csv").string()); }), HasSubstr("can't be read"));
  std::ofstream((dir / "five.csv").string()) << kFive;
  EXPECT_THAT(error_of([&] { load_packing((dir / "five.csv").string()); }), HasSubstr("found no capacity"));
  PackingBenchRequest bench;
  bench.files = {file};
  EXPECT_EQ(run_packing_bench(bench, out).solved, 1);
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace kodama::scheduler
