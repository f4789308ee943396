#include "compiler/runtime/device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <random>
#include <thread>

#include "compiler/compile/compile_model.h"
#include "compiler/graph/import.h"
#include "compiler/graph/test_models.h"
#include "compiler/runtime/dram_region.h"
#include "isa/transfer_walk.h"

namespace kodama::compiler {
namespace {

isa::Chip tiny() {
  return isa::find_chip("tiny");
}

CompiledModel compiled(onnx::ModelProto source, const isa::Chip& chip = tiny(),
                       Weights weights = Weights::kStream) {
  CompileOptions options;
  options.weights = weights;
  return compile_model(import_model(std::move(source), {}, "test"), chip, options);
}

/// y = Relu(x w), with a layer more for a program that is longer.
CompiledModel product(const std::string& name, uint64_t seed, bool longer = false,
                      Weights weights = Weights::kStream) {
  onnx::ModelProto source = testing::parse_model(
      name + (longer
                  ? " (float[16,32] x) => (float[16,32] y) { a = MatMul (x, w) b = Relu (a) c = MatMul (b, w)"
                    " d = Sigmoid (c) e = MatMul (d, w) y = Tanh (e) }"
                  : " (float[16,32] x) => (float[16,32] y) { a = MatMul (x, w) y = Relu (a) }"));
  testing::add_initializer(source, "w", testing::random_tensor(DataType::kFloat32, {32, 32}, seed));
  return compiled(std::move(source), tiny(), weights);
}

Tensor input(uint64_t seed, const Shape& shape = {16, 32}) {
  return random_input("x", DataType::kFloat32, shape, seed);
}

/// As one by one on a chip of its own.
Tensor expected(const CompiledModel& model, uint64_t seed) {
  return ModelRunner(model, {}).run({{"x", input(seed)}}).outputs.at("y");
}

Result infer(Stream& stream, const Package& package, uint64_t seed) {
  stream.send(package, "x", input(seed));
  stream.launch(package);
  return stream.fetch(package, "y");
}

TEST(Device, OneInferenceIsARunOfItsOwn) {
  const CompiledModel model = product("g", 1);
  const RunOutcome alone = ModelRunner(model, {}).run({{"x", input(3)}});
  Device device(tiny());
  const Package package = device.load(model);
  const int64_t loaded = device.synchronize();
  EXPECT_EQ(loaded, alone.preload_link_cycles);
  Stream stream = device.stream();
  const Result result = infer(stream, package, 3);
  EXPECT_TRUE(result.get() == alone.outputs.at("y"));
  EXPECT_EQ(result.times().handed_in, loaded);
  EXPECT_EQ(result.times().began, loaded);
  EXPECT_EQ(result.times().over, loaded + alone.total.chip.cycles());
  EXPECT_EQ(result.cycle(), result.times().over);
  EXPECT_EQ(result.stats().chip.causes, alone.total.chip.causes);
}

/// Of `count` inferences so many in flight: the results in their order.
std::vector<LaunchTimes> row(int in_flight, int count, const CompiledModel& model) {
  Device device(tiny());
  const Package package = device.load(model);
  std::vector<Stream> streams;
  for (int k = 0; k < in_flight; ++k) streams.push_back(device.stream());
  std::vector<Result> results;
  std::vector<LaunchTimes> times;
  for (int k = 0; k < count; ++k) {
    if (k >= in_flight) results[static_cast<size_t>(k - in_flight)].wait();
    results.push_back(infer(streams[static_cast<size_t>(k % in_flight)], package, static_cast<uint64_t>(k)));
  }
  for (int k = 0; k < count; ++k) {
    EXPECT_TRUE(results[static_cast<size_t>(k)].get() == expected(model, static_cast<uint64_t>(k))) << k;
    times.push_back(results[static_cast<size_t>(k)].times());
  }
  return times;
}

TEST(Device, InferencesInFlightOverlap) {
  const CompiledModel model = product("g", 1, true);
  const auto interval = [&](int in_flight) {
    const std::vector<LaunchTimes> times = row(in_flight, 8, model);
    for (size_t k = 1; k < times.size(); ++k) {
      EXPECT_GE(times[k].began, times[k - 1].over);
      EXPECT_GE(times[k].began, times[k].handed_in);
      EXPECT_GT(times[k].results_there, times[k - 1].results_there);
    }
    return (times[7].results_there - times[3].results_there) / 4;
  };
  const int64_t one = interval(1);
  const int64_t two = interval(2);
  EXPECT_LT(two, one * 4 / 5);
  EXPECT_LE(interval(4), two);
  // The same calls, the same cycles.
  EXPECT_EQ(interval(2), two);
}

TEST(Device, PackagesTakeTurnsInDramOfTheirOwn) {
  const CompiledModel one = product("one", 1);
  const CompiledModel two = product("two", 2, true);
  Device device(tiny());
  const Package a = device.load(one);
  const Package b = device.load(two);
  const Package c = device.load(one);
  EXPECT_FALSE(dram_region(a.model()).overlaps(dram_region(b.model())));
  EXPECT_FALSE(dram_region(a.model()).overlaps(dram_region(c.model())));
  EXPECT_FALSE(dram_region(b.model()).overlaps(dram_region(c.model())));
  Stream streams[] = {device.stream(), device.stream()};
  std::vector<Result> results;
  std::vector<Tensor> wanted;
  for (uint64_t k = 0; k < 9; ++k) {
    const Package& package = k % 3 == 0 ? a : k % 3 == 1 ? b : c;
    results.push_back(infer(streams[k % 2], package, k));
    wanted.push_back(expected(k % 3 == 1 ? two : one, k));
  }
  for (size_t k = 0; k < 9; ++k) EXPECT_TRUE(results[k].get() == wanted[k]) << k;
  // Elsewhere in DRAM a program takes the same time.
  Stream alone = device.stream();
  std::vector<int64_t> cycles;
  for (const Package* package : {&a, &c}) {
    const Result result = infer(alone, *package, 1);
    cycles.push_back(result.stats().chip_cycles());
  }
  EXPECT_EQ(cycles[0], cycles[1]);
}

/// Between two programs of an inference the host computes; the chip has no other's then.
TEST(Device, LayersOnTheHostStayInTheirInference) {
  onnx::ModelProto source = testing::parse_model(
      "g (float[16,32] x) => (float[16,32] y) { a = MatMul (x, w) b = Cast <to = 8> (a) c = Cast <to = 1> (b)"
      " y = MatMul (c, w) }");
  testing::add_initializer(source, "w", testing::random_tensor(DataType::kFloat32, {32, 32}, 3));
  const CompiledModel model = compiled(std::move(source));
  ASSERT_EQ(model.segments.size(), 2U);
  const std::vector<LaunchTimes> one = row(1, 4, model);
  const std::vector<LaunchTimes> two = row(2, 4, model);
  for (size_t k = 1; k < 4; ++k) EXPECT_GE(two[k].began, two[k - 1].over);
  EXPECT_LT(two[3].results_there, one[3].results_there);
  // From serial hosts nothing comes early.
  DeviceOptions options;
  options.runner.host_overlaps = false;
  Device device(tiny(), options);
  const Package package = device.load(model);
  Stream streams[] = {device.stream(), device.stream()};
  const Result first = infer(streams[0], package, 0);
  const Result second = infer(streams[1], package, 1);
  EXPECT_TRUE(second.get() == expected(model, 1));
  EXPECT_EQ(second.times().began, first.times().over);
  EXPECT_EQ(second.times().over - second.times().began, first.times().over - first.times().began);
}

TEST(Device, EventsOrderStreams) {
  const CompiledModel model = product("g", 1, true);
  const auto run = [&](bool waits) {
    Device device(tiny());
    const Package package = device.load(model);
    Stream first = device.stream();
    Stream second = device.stream();
    const Result a = infer(first, package, 1);
    const Event event = first.record();
    if (waits) second.wait(event);
    const Result b = infer(second, package, 2);
    EXPECT_TRUE(b.get() == expected(model, 2));
    EXPECT_EQ(event.cycle(), a.cycle());
    return std::pair(a.times(), b.times());
  };
  const auto [a, b] = run(true);
  EXPECT_EQ(b.handed_in, a.results_there);
  EXPECT_GE(b.began, a.results_there);
  const auto [c, d] = run(false);
  EXPECT_LT(d.handed_in, c.results_there);
  EXPECT_EQ(d.began, c.over);
  EXPECT_LT(d.results_there, b.results_there);
}

/// In any order of the calls, that streams and events allow, the values are the same; the same order gives
/// the same cycles.
TEST(Device, AnyOrderGivesTheSameBits) {
  const CompiledModel one = product("one", 1);
  const CompiledModel two = product("two", 2, true);
  std::map<std::pair<bool, uint64_t>, Tensor> wanted;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    wanted[{false, seed}] = expected(one, seed);
    wanted[{true, seed}] = expected(two, seed);
  }
  const auto run = [&](uint32_t order) {
    std::mt19937 random(order);
    const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
    Device device(tiny());
    const Package packages[] = {device.load(one), device.load(two)};
    std::vector<Stream> streams;
    for (int k = 0; k < 3; ++k) streams.push_back(device.stream());
    std::vector<Event> events;
    struct Handed {
      bool second;
      uint64_t seed;
      Result result;
    };
    std::vector<Handed> handed;
    std::map<std::pair<size_t, bool>, uint64_t> sent;
    for (int k = 0; k < 60; ++k) {
      const size_t at = below(3);
      Stream& stream = streams[at];
      const bool second = below(2) == 1;
      const Package& package = packages[second ? 1 : 0];
      switch (below(8)) {
        case 0:
          events.push_back(stream.record());
          break;
        case 1:
          if (!events.empty()) stream.wait(events[below(events.size())]);
          break;
        case 2:
          if (!handed.empty()) handed[below(handed.size())].result.wait();
          break;
        case 3:
        case 4:
          sent[{at, second}] = below(4);
          stream.send(package, "x", input(sent[{at, second}]));
          break;
        default:
          if (!sent.contains({at, second})) break;
          stream.launch(package);
          handed.push_back({second, sent[{at, second}], stream.fetch(package, "y")});
          sent.erase({at, second});
      }
    }
    std::vector<int64_t> cycles;
    for (const Handed& each : handed) {
      EXPECT_TRUE(each.result.get() == (wanted.at({each.second, each.seed})));
      cycles.push_back(each.result.cycle());
    }
    cycles.push_back(device.synchronize());
    return cycles;
  };
  for (uint32_t order = 0; order < 8; ++order) EXPECT_EQ(run(order), run(order)) << order;
}

TEST(Device, WrongCallsAreRefusedAtOnce) {
  Device device(tiny());
  const Package package = device.load(product("g", 1));
  Stream stream = device.stream();
  EXPECT_THROW(stream.fetch(package, "y"), isa::UserError);
  EXPECT_THROW(stream.launch(package), isa::UserError);
  EXPECT_THROW(stream.send(package, "z", input(1)), isa::UserError);
  EXPECT_THROW(stream.send(package, "x", input(1, {16, 31})), isa::UserError);
  const Result first = infer(stream, package, 1);
  EXPECT_THROW(stream.launch(package), isa::UserError);  // nothing was sent since
  EXPECT_THROW(stream.fetch(package, "z"), isa::UserError);
  Device other(tiny());
  Stream foreign = other.stream();
  EXPECT_THROW(foreign.send(package, "x", input(1)), isa::UserError);
  EXPECT_THROW(foreign.launch(package), isa::UserError);
  EXPECT_THROW(foreign.wait(stream.record()), isa::UserError);
  EXPECT_THROW(other.load(compiled(testing::parse_model("h (float[4] x) => (float[4] y) { y = Relu (x) }"),
                                   isa::find_chip("mncore2"))),
               isa::UserError);
  // None of it has harmed the stream.
  EXPECT_TRUE(first.get() == expected(product("g", 1), 1));
  stream.synchronize();
}

TEST(Device, PackagesThatDontFitTogetherAreRefused) {
  const CompiledModel stream = product("g", 1);
  const CompiledModel resident = product("r", 1, false, Weights::kResident);
  ASSERT_FALSE(resident.preparation.statements.empty());
  {
    Device device(tiny());
    device.load(stream);
    EXPECT_THROW(device.load(resident), isa::UnsupportedError);
    device.load(stream);
  }
  {
    Device device(tiny());
    const Package package = device.load(resident);
    EXPECT_THROW(device.load(stream), isa::UnsupportedError);
    Stream one = device.stream();
    EXPECT_TRUE(infer(one, package, 4).get() == expected(resident, 4));
  }
  // Eight places of 16 MiB are in 128 MiB.
  Device device(tiny());
  std::vector<Package> packages;
  for (int k = 0; k < 8; ++k) packages.push_back(device.load(stream));
  try {
    device.load(stream);
    FAIL();
  } catch (const isa::UnsupportedError& error) {
    EXPECT_NE(std::string(error.what()).find("DRAM"), std::string::npos) << error.what();
  }
  Stream one = device.stream();
  for (const Package& package : packages) EXPECT_TRUE(infer(one, package, 4).get() == expected(stream, 4));
}

/// An index that is out of range shows when the model runs.
TEST(Device, ErrorsReachWhoWaits) {
  const CompiledModel gather = compiled(testing::parse_model(
      "g (float[3,4] d, int64[2] i) => (float[2,4] y) { y = Gather <axis = 0> (d, i) }"));
  ASSERT_FALSE(gather.checks.empty());
  Device device(tiny());
  const Package package = device.load(gather);
  const Package other = device.load(product("h", 1));
  Stream stream = device.stream();
  Stream behind = device.stream();
  Stream apart = device.stream();
  const auto gathered = [&](int64_t index) {
    stream.send(package, "d", random_input("d", DataType::kFloat32, {3, 4}, 1));
    Tensor indices(DataType::kInt64, {2});
    indices.data<int64_t>()[0] = index;
    stream.send(package, "i", std::move(indices));
    stream.launch(package);
    return stream.fetch(package, "y");
  };
  const Result good = gathered(2);
  const Result bad = gathered(7);
  const Result after = gathered(1);
  behind.wait(stream.record());
  const Result dependent = infer(behind, other, 5);
  const Result independent = infer(apart, other, 5);
  EXPECT_NO_THROW(good.wait());
  for (const Result& result : {bad, after, dependent}) {
    try {
      result.wait();
      FAIL();
    } catch (const isa::UserError& error) {
      EXPECT_NE(std::string(error.what()).find("out of range"), std::string::npos) << error.what();
    }
    EXPECT_THROW(result.get(), isa::UserError);  // each time
  }
  EXPECT_TRUE(independent.get() == expected(product("h", 1), 5));
  EXPECT_THROW(stream.synchronize(), isa::UserError);
  EXPECT_NO_THROW(stream.synchronize());
  EXPECT_NO_THROW(gathered(0).get());
  EXPECT_THROW(behind.synchronize(), isa::UserError);
  EXPECT_TRUE(infer(behind, other, 6).get() == expected(product("h", 1), 6));
}

TEST(Device, IsDestroyedWithWorkPending) {
  const CompiledModel model = product("g", 1);
  std::vector<Result> results;
  std::optional<Stream> left;
  {
    Device device(tiny());
    const Package package = device.load(model);
    left = device.stream();
    for (uint64_t k = 0; k < 50; ++k) results.push_back(infer(*left, package, k));
  }
  // Some were done; who waits for the others learns it.
  int dropped = 0;
  for (size_t k = 0; k < results.size(); ++k) {
    try {
      EXPECT_TRUE(results[k].get() == expected(model, k));
      EXPECT_EQ(dropped, 0);
    } catch (const isa::UserError&) {
      ++dropped;
    }
  }
  EXPECT_GT(dropped, 0);  // at least the last: nobody said that nothing comes beside it
  EXPECT_THROW(left->record(), isa::UserError);
}

TEST(Device, CallsComeFromManyThreads) {
  const CompiledModel model = product("g", 1);
  std::vector<Tensor> wanted;
  for (uint64_t k = 0; k < 4; ++k) wanted.push_back(expected(model, k));
  Device device(tiny());
  const Package package = device.load(model);
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Stream stream = device.stream();
      std::deque<Result> results;
      for (int k = 0; k < 10; ++k) {
        results.push_back(infer(stream, package, t));
        if (k % 3 == 2) stream.synchronize();
        if (k % 4 == 1) results.front().wait();
      }
      for (const Result& result : results) right += result.get() == wanted[t];
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 40);
  device.synchronize();
}

/// What the host overwrites beside a program, the program doesn't read any more: garbage there, as soon as it
/// may come, changes nothing.
TEST(Device, NextInputsOverwriteNothingThatIsRead) {
  const CompiledModel model = product("g", 1, true);
  ASSERT_EQ(model.segments.size(), 1U);
  const isa::Program& program = model.segments[0].parts.program;
  auto chip = std::make_shared<ChipInUse>(model.chip);
  ModelRunner runner(model, {}, chip);
  std::vector<isa::HostTransfer> next = runner.first_input();
  ASSERT_FALSE(next.empty());
  isa::plan_places(next, program, {}, model.chip);
  const Tensor right = runner.run({{"x", input(1)}}).outputs.at("y");
  const auto& stage = std::get<ChipStage>(model.stages.back().body);
  const auto result = [&] {
    StreamImage image = empty_stream(stage.result.placement, model.chip);
    for (size_t group = 0; group < image.groups.size(); ++group) {
      if (!image.groups[group].empty())
        chip->machine.read_dram(static_cast<int>(group), stage.result.dram_address, image.groups[group]);
    }
    return image.groups;
  };
  const auto wanted = result();
  // The inputs are in DRAM still, if they may come again only when the program has read them.
  int64_t waits = 0;
  int garbage = 0;
  const auto spoil = [&](const isa::HostTransfer& transfer) {
    for (size_t group = 0; group < transfer.group_lw.size(); ++group) {
      const std::vector<uint64_t> words(static_cast<size_t>(transfer.group_lw[group]), 0x7ff8dead7ff8deadU);
      if (!words.empty()) chip->machine.write_dram(static_cast<int>(group), transfer.dram_address, words);
    }
    ++garbage;
  };
  simulator::RunOptions options;
  options.timing = false;
  options.before_statement = [&](const isa::Statement& statement) {
    for (isa::HostTransfer& transfer : next) {
      EXPECT_GT(transfer.free_after, 0);
      if (waits < transfer.free_after || transfer.free_after == 0) continue;
      spoil(transfer);
      transfer.free_after = isa::HostTransfer::kAtTheEnd;
    }
    isa::Program one;
    one.statements = {statement};
    isa::TransferWalk walk;
    walk.wait = [&](int) { ++waits; };
    walk.walk(one);
    return true;
  };
  chip->machine.run(program, options);
  EXPECT_EQ(garbage, static_cast<int>(next.size()));
  EXPECT_TRUE(result() == wanted);
  EXPECT_TRUE(runner.run({{"x", input(1)}}).outputs.at("y") == right);
}

}  // namespace
}  // namespace kodama::compiler
