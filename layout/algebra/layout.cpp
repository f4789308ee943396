#include "layout/algebra/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <utility>

#include "isa/error.h"

namespace kodama::layout {
namespace {

using isa::UserError;

struct LevelRow {
  Level level;
  std::string_view name;
};
constexpr LevelRow kLevels[kLevelCount] = {{Level::kL2b, "L2B"}, {Level::kL1b, "L1B"},  {Level::kMab, "MAB"},
                                           {Level::kPe, "PE"},   {Level::kAddress, ""}, {Level::kWord, "W"}};

constexpr std::string_view kMemories[] = {"LM0", "LM1", "GRF0", "GRF1", "L1BM", "L2BM", "PDM", "DRAM"};
constexpr std::string_view kPaddings[] = {"undefined", "zero", "-inf", "+inf", "one"};

template <typename Enum, size_t n>
std::optional<Enum> find_name(const std::string_view (&names)[n], std::string_view text) {
  const auto found = std::find(std::begin(names), std::end(names), text);
  if (found == std::end(names)) return std::nullopt;
  return static_cast<Enum>(found - std::begin(names));
}

template <size_t n>
std::string list_names(const std::string_view (&names)[n]) {
  return fmt::format("{}", fmt::join(std::begin(names), std::end(names), ", "));
}

/// No coordinate may come near an overflow: the largest memory has 2^29 LW, so 2^48 leaves room for every
/// intermediate product of digits and strides.
constexpr int64_t kLargestNumber = int64_t{1} << 48;

std::string factors_text(const std::vector<Factor>& factors) {
  std::string text;
  for (const Factor& factor : factors) text += (text.empty() ? "" : ", ") + factor.to_string();
  return text;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Layout run() {
    std::vector<std::vector<Factor>> axes;
    expect('(', "the list of axes");
    if (!accept(')')) {
      do {
        axes.push_back(factor_list('(', ')', true));
      } while (accept(','));
      expect(')', "the end of the list of axes");
    }
    std::vector<Factor> replication;
    if (accept('x')) replication = factor_list('[', ']', false);
    expect('@', "the memory");
    const size_t memory_at = position_;
    const std::string_view memory_text = word();
    const auto memory = find_name<Memory>(kMemories, memory_text);
    if (!memory) {
      fail(memory_at, fmt::format("found memory '{}', allowed: {}", memory_text, list_names(kMemories)));
    }
    Padding padding = Padding::kZero;
    skip_blanks();
    if (position_ < text_.size()) {
      const size_t pad_at = position_;
      if (word() != "pad") fail(pad_at, fmt::format("found '{}', allowed: 'pad' or the end", rest(pad_at)));
      skip_blanks();
      const size_t value_at = position_;
      while (position_ < text_.size() && text_[position_] != ' ') ++position_;
      const std::string_view value = text_.substr(value_at, position_ - value_at);
      const auto found = find_name<Padding>(kPaddings, value);
      if (!found)
        fail(value_at, fmt::format("found padding '{}', allowed: {}", value, list_names(kPaddings)));
      padding = *found;
      skip_blanks();
      if (position_ < text_.size()) {
        fail(position_, fmt::format("found '{}' after the layout", rest(position_)));
      }
    }
    return Layout(std::move(axes), *memory, std::move(replication), padding);
  }

 private:
  [[noreturn]] void fail(size_t at, const std::string& what) const {
    throw UserError(fmt::format("layout '{}', column {}: {}", text_, at + 1, what));
  }
  std::string_view rest(size_t at) const { return text_.substr(at, 12); }

  void skip_blanks() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\t')) ++position_;
  }
  bool accept(char wanted) {
    skip_blanks();
    if (position_ >= text_.size() || text_[position_] != wanted) return false;
    ++position_;
    return true;
  }
  void expect(char wanted, std::string_view what) {
    if (accept(wanted)) return;
    fail(position_, fmt::format("found {}, expected '{}' ({})",
                                position_ < text_.size() ? fmt::format("'{}'", text_[position_]) : "the end",
                                wanted, what));
  }
  std::string_view word() {
    skip_blanks();
    const size_t begin = position_;
    while (position_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[position_])) != 0)) {
      ++position_;
    }
    return text_.substr(begin, position_ - begin);
  }

  /// The factor being read, for messages.
  std::string factor_context() const { return fmt::format("factor {} of {}", factor_, place_); }

  int64_t number(std::string_view what) {
    skip_blanks();
    const size_t begin = position_;
    int64_t value = 0;
    const char* first = text_.data() + position_;
    const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), value);
    if (error == std::errc::invalid_argument) {
      fail(begin, fmt::format("{}: found {}, expected the {} (a positive integer)", factor_context(),
                              begin < text_.size() ? fmt::format("'{}'", text_[begin]) : "the end", what));
    }
    position_ += end - first;
    if (error != std::errc() || value < 1 || value > kLargestNumber) {
      fail(begin, fmt::format("{}: found {} {}, allowed: 1 to {}", factor_context(), what,
                              text_.substr(begin, position_ - begin), kLargestNumber));
    }
    return value;
  }

  std::vector<Factor> factor_list(char open, char close, bool is_axis) {
    place_ = is_axis ? fmt::format("axis {}", axis_++) : "the replication";
    factor_ = 0;
    expect(open, place_);
    std::vector<Factor> factors;
    if (accept(close)) return factors;
    int64_t extent = 1;
    do {
      Factor factor;
      skip_blanks();
      const size_t begin = position_;
      factor.size = number("size");
      if (position_ < text_.size() && text_[position_] == '_') {
        const size_t level_at = ++position_;
        const std::string_view name = word();
        const auto* row = std::find_if(std::begin(kLevels), std::end(kLevels),
                                       [&](const LevelRow& r) { return !r.name.empty() && r.name == name; });
        if (row == std::end(kLevels)) {
          fail(level_at,
               fmt::format("{}: found level '{}', allowed: L2B, L1B, MAB, PE, W, or no level for the "
                           "address",
                           factor_context(), name));
        }
        factor.level = row->level;
      }
      if (accept(':')) {
        factor.stride = number("stride");
      } else if (is_axis) {
        fail(position_,
             fmt::format("{}: found {}, expected ':' and the stride", factor_context(),
                         position_ < text_.size() ? fmt::format("'{}'", text_[position_]) : "the end"));
      }
      if (extent > kLargestNumber / factor.size || factor.size > kLargestNumber / factor.stride) {
        fail(begin, fmt::format("{}: the product of the sizes or size times stride is above {}",
                                factor_context(), kLargestNumber));
      }
      extent *= factor.size;
      factors.push_back(factor);
      ++factor_;
    } while (accept(','));
    expect(close, place_);
    return factors;
  }

  std::string_view text_;
  size_t position_ = 0;
  int axis_ = 0;
  int factor_ = 0;
  std::string place_;
};

/// Merges a factor list whose order is from most to least significant. The result is a canonical form: the
/// innermost factor's size is the first index at which the mapping stops being a multiple of its step, and
/// so on outward.
std::vector<Factor> merge_factors(const std::vector<Factor>& factors) {
  std::vector<Factor> merged;
  for (const Factor& factor : factors) {
    if (factor.size == 1) continue;
    if (!merged.empty() && merged.back().level == factor.level &&
        merged.back().stride == factor.size * factor.stride) {
      merged.back() = {merged.back().size * factor.size, factor.level, factor.stride};
    } else {
      merged.push_back(factor);
    }
  }
  return merged;
}

/// Finds digits d_k < size_k with sum d_k * stride_k = `rest`, strides in descending order from position k;
/// `reach[k]` is the largest sum of the factors from k on.
bool solve_digits(const std::vector<const Factor*>& factors, const std::vector<int64_t>& reach, size_t k,
                  int64_t rest, std::vector<int64_t>& digits) {
  if (k == factors.size()) return rest == 0;
  if (rest > reach[k]) return false;
  const Factor& factor = *factors[k];
  for (int64_t digit = std::min(factor.size - 1, rest / factor.stride); digit >= 0; --digit) {
    const int64_t left = rest - digit * factor.stride;
    if (left > reach[k + 1]) return false;
    digits[k] = digit;
    if (solve_digits(factors, reach, k + 1, left, digits)) return true;
  }
  return false;
}

/// Whether the digits of these factors (all of one level) give different sums. Returns a sum that two digit
/// combinations share, or nothing.
std::optional<int64_t> shared_sum(std::vector<Factor> factors) {
  std::erase_if(factors, [](const Factor& factor) { return factor.size == 1; });
  std::sort(factors.begin(), factors.end(),
            [](const Factor& a, const Factor& b) { return a.stride < b.stride; });
  // A factor whose stride exceeds the reach of all smaller ones can't collide; only the rest is enumerated.
  int64_t total_reach = 0;
  size_t needed = 0;
  for (size_t k = 0; k < factors.size(); ++k) {
    if (factors[k].stride <= total_reach) needed = k + 1;
    total_reach += (factors[k].size - 1) * factors[k].stride;
  }
  factors.resize(needed);
  if (factors.empty()) return std::nullopt;
  int64_t reach = 0;
  for (const Factor& factor : factors) reach += (factor.size - 1) * factor.stride;
  std::vector<bool> taken(reach + 1);
  std::vector<int64_t> digits(factors.size(), 0);
  int64_t sum = 0;
  for (;;) {
    if (taken[sum]) return sum;
    taken[sum] = true;
    size_t k = 0;
    while (k < factors.size() && ++digits[k] == factors[k].size) {
      sum -= (factors[k].size - 1) * factors[k].stride;
      digits[k++] = 0;
    }
    if (k == factors.size()) return std::nullopt;
    sum += factors[k].stride;
  }
}

/// Number of units of `level` in which `memory` has copies of its own.
int64_t level_size(Level level, Memory memory, const isa::Chip& chip, int element_bits) {
  const bool in_pe = is_pe_memory(memory);
  switch (level) {
    case Level::kL2b:
      return chip.l2b_count();
    case Level::kL1b:
      return in_pe || memory == Memory::kL1bm ? chip.l1b_per_l2b : 1;
    case Level::kMab:
      return in_pe ? chip.mab_per_l1b : 1;
    case Level::kPe:
      return in_pe ? isa::kPePerMab : 1;
    case Level::kAddress:
      return memory_size_lw(memory, chip);
    case Level::kWord:
      return 64 / element_bits;
  }
  return 0;
}

}  // namespace

std::string Factor::to_string() const {
  const std::string_view name = level_name(level);
  return fmt::format("{}{}{}:{}", size, name.empty() ? "" : "_", name, stride);
}

std::set<int64_t> digit_sums(const std::vector<Factor>& factors, Level level) {
  std::set<int64_t> values{0};
  for (const Factor& factor : factors) {
    if (factor.level != level) continue;
    std::set<int64_t> next;
    for (const int64_t value : values) {
      for (int64_t digit = 0; digit < factor.size; ++digit) next.insert(value + digit * factor.stride);
    }
    values = std::move(next);
  }
  return values;
}

std::string_view level_name(Level level) {
  return kLevels[static_cast<int>(level)].name;
}

std::string_view memory_name(Memory memory) {
  return kMemories[static_cast<int>(memory)];
}

std::string_view padding_name(Padding padding) {
  return kPaddings[static_cast<int>(padding)];
}

Layout::Layout(std::vector<std::vector<Factor>> axes, Memory memory, std::vector<Factor> replication,
               Padding padding)
    : axes_(std::move(axes)), replication_(std::move(replication)), memory_(memory), padding_(padding) {}

Layout Layout::parse(std::string_view text) {
  return Parser(text).run();
}

std::string Layout::to_string() const {
  std::string text = "(";
  for (size_t axis = 0; axis < axes_.size(); ++axis) {
    text += (axis == 0 ? "(" : ", (") + factors_text(axes_[axis]) + ")";
  }
  text += ")";
  if (!replication_.empty()) text += " x [" + factors_text(replication_) + "]";
  text += fmt::format("@{}", memory_name(memory_));
  if (padding_ != Padding::kZero) text += fmt::format(" pad {}", padding_name(padding_));
  return text;
}

int64_t Layout::extent(size_t axis) const {
  int64_t extent = 1;
  for (const Factor& factor : axes_.at(axis)) extent *= factor.size;
  return extent;
}

Coordinates operator+(Coordinates a, const Coordinates& b) {
  for (size_t level = 0; level < kLevelCount; ++level) a.at[level] += b.at[level];
  return a;
}

int64_t memory_size_lw(Memory memory, const isa::Chip& chip) {
  switch (memory) {
    case Memory::kLm0:
    case Memory::kLm1:
      return chip.memory.lm_words / isa::kWordsPerLong;
    case Memory::kGrf0:
    case Memory::kGrf1:
      return chip.memory.grf_words / isa::kWordsPerLong;
    case Memory::kL1bm:
      return chip.memory.l1bm_lw;
    case Memory::kL2bm:
      return chip.memory.l2bm_lw;
    case Memory::kPdm:
      return chip.memory.pdm_lw;
    case Memory::kDram:
      return chip.memory.dram_lw;
  }
  return 0;
}

Coordinates Layout::contribution(size_t axis, int64_t index) const {
  if (index < 0 || index >= extent(axis))
    isa::check_internal(false, "layout", "index {} on axis {} of {}", index, axis, to_string());
  Coordinates place;
  const std::vector<Factor>& factors = axes_[axis];
  for (auto factor = factors.rbegin(); factor != factors.rend(); ++factor) {
    place[factor->level] += index % factor->size * factor->stride;
    index /= factor->size;
  }
  return place;
}

Coordinates Layout::place(const std::vector<int64_t>& index) const {
  if (index.size() != axes_.size())
    isa::check_internal(false, "layout", "{} indices for the axes of {}", index.size(), to_string());
  Coordinates place;
  for (size_t axis = 0; axis < axes_.size(); ++axis) place = place + contribution(axis, index[axis]);
  return place;
}

std::vector<Coordinates> Layout::replica_offsets() const {
  std::vector<Coordinates> offsets(1);
  for (const Factor& factor : replication_) {
    std::vector<Coordinates> next;
    next.reserve(offsets.size() * factor.size);
    for (const Coordinates& offset : offsets) {
      for (int64_t digit = 0; digit < factor.size; ++digit) {
        next.push_back(offset);
        next.back()[factor.level] += digit * factor.stride;
      }
    }
    offsets = std::move(next);
  }
  return offsets;
}

std::optional<std::vector<int64_t>> Layout::element(const Coordinates& place) const {
  std::vector<std::vector<int64_t>> digit_of(axes_.size());
  for (size_t axis = 0; axis < axes_.size(); ++axis) digit_of[axis].resize(axes_[axis].size());
  // Digits of different levels are independent, so each level is solved alone.
  for (int level = 0; level < kLevelCount; ++level) {
    std::vector<const Factor*> factors;
    std::vector<int64_t*> target;
    for (size_t axis = 0; axis < axes_.size(); ++axis) {
      for (size_t k = 0; k < axes_[axis].size(); ++k) {
        if (axes_[axis][k].level != static_cast<Level>(level)) continue;
        factors.push_back(&axes_[axis][k]);
        target.push_back(&digit_of[axis][k]);
      }
    }
    for (const Factor& factor : replication_) {
      if (factor.level != static_cast<Level>(level)) continue;
      factors.push_back(&factor);
      target.push_back(nullptr);
    }
    std::vector<size_t> order(factors.size());
    for (size_t k = 0; k < order.size(); ++k) order[k] = k;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return factors[a]->stride > factors[b]->stride; });
    std::vector<const Factor*> sorted;
    for (const size_t k : order) sorted.push_back(factors[k]);
    std::vector<int64_t> reach(sorted.size() + 1, 0);
    for (size_t k = sorted.size(); k-- > 0;) {
      reach[k] = reach[k + 1] + (sorted[k]->size - 1) * sorted[k]->stride;
    }
    std::vector<int64_t> digits(sorted.size(), 0);
    const int64_t wanted = place.at[level];
    if (wanted < 0 || !solve_digits(sorted, reach, 0, wanted, digits)) return std::nullopt;
    for (size_t k = 0; k < order.size(); ++k) {
      if (target[order[k]] != nullptr) *target[order[k]] = digits[k];
    }
  }
  std::vector<int64_t> index(axes_.size(), 0);
  for (size_t axis = 0; axis < axes_.size(); ++axis) {
    for (size_t k = 0; k < axes_[axis].size(); ++k) {
      index[axis] = index[axis] * axes_[axis][k].size + digit_of[axis][k];
    }
  }
  return index;
}

std::set<int64_t> Layout::coordinates(Level level) const {
  std::vector<Factor> all = replication_;
  for (const auto& factors : axes_) all.insert(all.end(), factors.begin(), factors.end());
  return digit_sums(all, level);
}

int64_t Layout::level_extent(Level level) const {
  int64_t largest = 0;
  const auto add = [&](const std::vector<Factor>& factors) {
    for (const Factor& factor : factors) {
      if (factor.level == level) largest += (factor.size - 1) * factor.stride;
    }
  };
  for (const auto& factors : axes_) add(factors);
  add(replication_);
  return largest + 1;
}

void Layout::validate(const isa::Chip& chip, int element_bits) const {
  const auto fail = [&](const std::string& what) {
    throw UserError(fmt::format("layout {} on chip {}: {}", to_string(), chip.name, what));
  };
  if (element_bits < 1 || element_bits > 64 || 64 % element_bits != 0) {
    fail(fmt::format("found elements of {} bits, allowed: divisors of 64", element_bits));
  }
  std::array<std::vector<Factor>, kLevelCount> of_level;
  const auto add = [&](const std::vector<Factor>& factors, const std::string& where) {
    for (const Factor& factor : factors) {
      if (factor.size < 1 || factor.stride < 1) {
        fail(fmt::format("factor {} of {}: size and stride must be positive", factor.to_string(), where));
      }
      of_level[static_cast<int>(factor.level)].push_back(factor);
    }
  };
  for (size_t axis = 0; axis < axes_.size(); ++axis) add(axes_[axis], fmt::format("axis {}", axis));
  add(replication_, "the replication");
  for (int k = 0; k < kLevelCount; ++k) {
    const Level level = static_cast<Level>(k);
    const int64_t allowed = level_size(level, memory_, chip, element_bits);
    const int64_t needed = level_extent(level);
    const std::string_view name = level == Level::kAddress ? "address" : level_name(level);
    if (needed > allowed) {
      fail(fmt::format("found {} coordinates up to {}, allowed: 0 to {} for {} elements of {} bits", name,
                       needed - 1, allowed - 1, memory_name(memory_), element_bits));
    }
    if (const auto sum = shared_sum(of_level[k])) {
      fail(fmt::format("two elements share {} coordinate {} (factors {})", name, *sum,
                       factors_text(of_level[k])));
    }
  }
}

Layout Layout::normalized() const {
  Layout result(*this);
  for (auto& factors : result.axes_) factors = merge_factors(factors);
  // Replicas have no order, so their factors may be sorted before merging.
  std::stable_sort(result.replication_.begin(), result.replication_.end(),
                   [](const Factor& a, const Factor& b) {
                     return std::pair(a.level, -a.stride) < std::pair(b.level, -b.stride);
                   });
  result.replication_ = merge_factors(result.replication_);
  return result;
}

bool Layout::equivalent(const Layout& other) const {
  if (memory_ != other.memory_ || padding_ != other.padding_) return false;
  const Layout a = normalized();
  const Layout b = other.normalized();
  if (a.axes_ != b.axes_) return false;
  if (a.replication_ == b.replication_) return true;
  // The normal form of an unordered list of factors is not unique (2:1, 3:4 and others can overlap), so the
  // replicas' sums are compared level by level.
  for (int level = 0; level < kLevelCount; ++level) {
    const auto sums = [&](const Layout& layout) {
      std::vector<int64_t> values(1, 0);
      for (const Factor& factor : layout.replication_) {
        if (factor.level != static_cast<Level>(level)) continue;
        std::vector<int64_t> next;
        for (const int64_t value : values) {
          for (int64_t digit = 0; digit < factor.size; ++digit) next.push_back(value + digit * factor.stride);
        }
        values = std::move(next);
      }
      std::sort(values.begin(), values.end());
      return values;
    };
    if (sums(a) != sums(b)) return false;
  }
  return true;
}

}  // namespace kodama::layout
