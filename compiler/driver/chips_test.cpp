#include "compiler/driver/chips.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>

namespace kodama::compiler {
namespace {

constexpr DataType kFloat = DataType::kFloat32;
constexpr DataType kDouble = DataType::kFloat64;

/// Chips as threads of this process.
class Meeting {
 public:
  explicit Meeting(int count) : count_(count), given_(static_cast<size_t>(count)) {}
  int count() const { return count_; }
  /// What all have given, once they have.
  std::vector<std::vector<std::byte>> meet(int number, std::vector<std::byte> given) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return leaving_ == 0; });
    given_[static_cast<size_t>(number)] = std::move(given);
    if (++arrived_ == count_) leaving_ = std::exchange(arrived_, 0);
    changed_.notify_all();
    changed_.wait(lock, [&] { return leaving_ > 0; });
    auto all = given_;
    --leaving_;
    changed_.notify_all();
    return all;
  }

 private:
  const int count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<std::byte>> given_;
  int arrived_ = 0;
  int leaving_ = 0;
};

class ThreadChip : public Chips {
 public:
  ThreadChip(Meeting& meeting, int number) : meeting_(meeting), number_(number) {}
  int number() const override { return number_; }
  int count() const override { return meeting_.count(); }
  int count_here() const override { return meeting_.count(); }
  std::vector<std::byte> exchange(const std::vector<std::byte>& sent) override {
    const auto size = static_cast<ptrdiff_t>(sent.size()) / count();
    std::vector<std::byte> received;
    for (const auto& of_chip : meeting_.meet(number_, sent)) {
      const auto block = of_chip.begin() + number_ * size;
      received.insert(received.end(), block, block + size);
    }
    return received;
  }
  std::vector<std::byte> gather(const std::vector<std::byte>& given) override {
    std::vector<std::byte> all;
    for (const auto& of_chip : meeting_.meet(number_, given))
      all.insert(all.end(), of_chip.begin(), of_chip.end());
    return all;
  }
  bool any(bool own) override { return own; }

 private:
  Meeting& meeting_;
  const int number_;
};

std::vector<Tensor> random_share(std::mt19937& generator) {
  std::normal_distribution<float> normal(0, 1);
  std::vector<Tensor> share = {Tensor(kFloat, {3, 5}), Tensor(kDouble, {4}), Tensor(kFloat, {}),
                               Tensor(kFloat, {0, 2})};
  for (Tensor& tensor : share) {
    if (tensor.type() == kFloat) {
      for (float& value : tensor.data<float>()) value = std::exp(4 * normal(generator));
    } else {
      for (double& value : tensor.data<double>()) value = std::exp(4 * normal(generator));
    }
  }
  return share;
}

TEST(SumOfShares, IsATreeOfPowersOfTwo) {
  const auto number = [](float value) {
    return std::vector{Tensor::from_values<float>(kFloat, {}, {value})};
  };
  const std::vector<float> values = {1.0F, 1e-8F, 3e7F, -3e7F, 0.3F, 0.7F, 1e-3F};
  SumOfShares sum;
  for (const float value : values) sum.add(number(value));
  EXPECT_EQ(sum.count(), 7);
  const float first = (values[0] + values[1]) + (values[2] + values[3]);
  const float expected = first + ((values[4] + values[5]) + values[6]);
  EXPECT_EQ(sum.take().at(0).data<float>()[0], expected);
  EXPECT_EQ(sum.count(), 0);
  sum.add(number(5));
  EXPECT_EQ(sum.take().at(0).data<float>()[0], 5);
}

TEST(SumOverChips, IsThatOfAllSharesOfOneChip) {
  for (const int chips : {1, 2, 3, 5, 8}) {
    for (const int shares : {1, 2, 4}) {
      const unsigned seed = static_cast<unsigned>(10 * chips + shares);
      SCOPED_TRACE(fmt::format("{} chips, {} shares, seed {}", chips, shares, seed));
      std::mt19937 generator(seed);
      std::vector<std::vector<Tensor>> all;
      for (int k = 0; k < chips * shares; ++k) all.push_back(random_share(generator));
      SumOfShares alone;
      for (const auto& share : all) alone.add(share);
      const std::vector<Tensor> expected = alone.take();

      Meeting meeting(chips);
      std::vector<std::vector<Tensor>> sums(static_cast<size_t>(chips));
      std::vector<std::thread> threads;
      for (int number = 0; number < chips; ++number) {
        threads.emplace_back([&, number] {
          ThreadChip chip(meeting, number);
          SumOfShares own;
          for (int k = 0; k < shares; ++k) own.add(all[static_cast<size_t>(number * shares + k)]);
          sums[static_cast<size_t>(number)] = sum_over_chips(chip, own.take());
        });
      }
      for (std::thread& thread : threads) thread.join();
      for (const auto& sum : sums) EXPECT_EQ(sum, expected);
    }
  }
}

TEST(Interconnect, TakesTheTimeOfARing) {
  const Interconnect ring = {1e9, 1e-6};
  EXPECT_EQ(ring.seconds(1, 1000), 0);
  EXPECT_DOUBLE_EQ(ring.seconds(2, 1000), 2 * (1e-6 + 500 / 1e9));
  EXPECT_DOUBLE_EQ(ring.seconds(4, 4'000'000), 6 * (1e-6 + 1e-3));
}

}  // namespace
}  // namespace kodama::compiler
