#include "layout/search/random_problem.h"

#include <algorithm>
#include <array>
#include <random>

#include "isa/error.h"

namespace kodama::layout {
namespace {

class ProblemGenerator {
 public:
  ProblemGenerator(uint64_t seed, const isa::Chip& chip, int64_t most)
      : random_(seed), chip_(chip), most_(most) {}

  ConversionProblem run() {
    for (;;) {
      ConversionProblem problem;
      problem.element_bits = 16 << pick(0, 2);
      int64_t size = 1;
      for (int64_t axis = pick(1, 3); axis > 0; --axis) {
        // Powers of two, products, anything.
        const int64_t length = pick(0, 2) == 0   ? int64_t{1} << pick(0, 6)
                               : pick(0, 1) == 0 ? pick(1, 4) * pick(1, 4)
                                                 : pick(1, 20);
        if (size * length > most_) continue;
        problem.lengths.push_back(length);
        size *= length;
      }
      if (problem.lengths.empty()) continue;
      problem.from = layout(problem);
      problem.to = layout(problem);
      try {
        problem.from.validate(chip_, problem.element_bits);
        problem.to.validate(chip_, problem.element_bits);
        check_lengths(problem.from, problem.lengths);
        check_lengths(problem.to, problem.lengths);
      } catch (const isa::UserError&) {
        continue;
      }
      return problem;
    }
  }

 private:
  int64_t pick(int64_t low, int64_t high) {
    // std::uniform_int_distribution differs between libraries.
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }

  Layout layout(const ConversionProblem& problem) {
    // PE memories are half of all.
    const auto memory = static_cast<Memory>(pick(0, 1) == 0 ? pick(0, 3) : pick(0, 7));
    std::array<int64_t, kLevelCount> room{};
    room[static_cast<size_t>(Level::kL2b)] = chip_.l2b_count();
    room[static_cast<size_t>(Level::kL1b)] = memory <= Memory::kL1bm ? chip_.l1b_per_l2b : 1;
    room[static_cast<size_t>(Level::kMab)] = memory <= Memory::kGrf1 ? chip_.mab_per_l1b : 1;
    room[static_cast<size_t>(Level::kPe)] = memory <= Memory::kGrf1 ? isa::kPePerMab : 1;
    room[static_cast<size_t>(Level::kAddress)] = memory <= Memory::kGrf1 ? 128 : 2048;
    room[static_cast<size_t>(Level::kWord)] = 64 / problem.element_bits;
    std::array<int64_t, kLevelCount> stride;
    stride.fill(1);
    if (memory == Memory::kPdm || memory == Memory::kDram) {
      // Digits over the groups.
      stride[static_cast<size_t>(Level::kL2b)] = chip_.l2b_per_group;
      room[static_cast<size_t>(Level::kL2b)] /= chip_.l2b_per_group;
    }
    std::vector<std::vector<Factor>> axes;
    for (const int64_t length : problem.lengths) {
      std::vector<Factor> factors;
      int64_t left = length;
      while (left > 1) {
        int64_t size = pick(2, 8);
        // Mostly digits that divide what is left.
        if (pick(0, 5) != 0) {
          while (left % size != 0) size = size == 2 ? left : size - 1;
        }
        size = std::min(size, left);
        factors.push_back({size, Level::kAddress, 1});
        left = (left + size - 1) / size;
      }
      if (factors.empty() || pick(0, 5) == 0) factors.push_back({pick(1, 2), Level::kAddress, 1});
      axes.push_back(std::move(factors));
    }
    std::vector<Factor*> all;
    for (auto& axis : axes) {
      for (Factor& factor : axis) all.push_back(&factor);
    }
    for (size_t k = all.size(); k > 1; --k) std::swap(all[k - 1], all[static_cast<size_t>(random_() % k)]);
    const auto take = [&](Factor& factor) {
      const auto level = static_cast<size_t>(factor.level);
      if (factor.size > room[level]) return false;
      factor.stride = stride[level];
      stride[level] *= factor.size;
      room[level] /= factor.size;
      // A gap now and then.
      if (factor.level == Level::kAddress && pick(0, 7) == 0 && room[level] > 1) {
        stride[level] *= 2;
        room[level] /= 2;
      }
      return true;
    };
    for (Factor* factor : all) {
      factor->level = static_cast<Level>(pick(0, kLevelCount - 1));
      if (take(*factor)) continue;
      factor->level = Level::kAddress;
      if (!take(*factor)) factor->size = int64_t{1} << 40;  // doesn't fit: validate says so
    }
    std::vector<Factor> replication;
    for (const Level level : {Level::kL2b, Level::kL1b, Level::kMab, Level::kPe}) {
      if (pick(0, 4) != 0) continue;
      Factor factor{pick(2, 4), level, 1};
      if (take(factor)) replication.push_back(factor);
    }
    return Layout(std::move(axes), memory, std::move(replication), static_cast<Padding>(pick(0, 4)));
  }

  std::mt19937_64 random_;
  const isa::Chip& chip_;
  int64_t most_;
};

}  // namespace

ConversionProblem random_problem(uint64_t seed, const isa::Chip& chip, int64_t most_elements) {
  return ProblemGenerator(seed, chip, most_elements).run();
}

}  // namespace kodama::layout
