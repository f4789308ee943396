#include <algorithm>
#include <clocale>
#include <cwctype>
#include <set>

#include "compiler/reference/kernels/kernel.h"

/// StringNormalizer, TfIdfVectorizer.
namespace kodama::compiler::reference {

namespace {

// --------------------------------------------------------------------------------- StringNormalizer

/// Upper and lower case of all of Unicode, by the C library's table for UTF-8 in the locale C, which doesn't
/// depend on the machine's settings.
class CaseTable {
 public:
  CaseTable() : locale_(newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)) {}
  CaseTable(const CaseTable&) = delete;
  CaseTable& operator=(const CaseTable&) = delete;
  ~CaseTable() {
    if (locale_ != nullptr) freelocale(locale_);
  }

  char32_t lower(char32_t c) const {
    return locale_ == nullptr ? c : static_cast<char32_t>(towlower_l(static_cast<wint_t>(c), locale_));
  }
  char32_t upper(char32_t c) const {
    return locale_ == nullptr ? c : static_cast<char32_t>(towupper_l(static_cast<wint_t>(c), locale_));
  }

 private:
  locale_t locale_;
};

/// Code points of UTF-8; a byte that begins no valid sequence stands for itself, as 0x110000 + byte.
constexpr char32_t kInvalidByte = 0x110000;

std::vector<char32_t> decode(const std::string& text) {
  std::vector<char32_t> result;
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<uint8_t>(text[i]);
    const size_t length = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 0;
    char32_t point = length <= 1 ? first : first & (0x7fu >> length);
    bool is_valid = length > 0 && first < 0xf8 && i + length <= text.size();
    for (size_t k = 1; is_valid && k < length; ++k) {
      const auto next = static_cast<uint8_t>(text[i + k]);
      is_valid = (next & 0xc0) == 0x80;
      point = point << 6 | (next & 0x3fu);
    }
    is_valid = is_valid && point < kInvalidByte;
    result.push_back(is_valid ? point : kInvalidByte + first);
    i += is_valid ? length : 1;
  }
  return result;
}

std::string encode(const std::vector<char32_t>& points) {
  std::string text;
  for (const char32_t point : points) {
    if (point >= kInvalidByte || point < 0x80) {
      text += static_cast<char>(point >= kInvalidByte ? point - kInvalidByte : point);
      continue;
    }
    const int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    text += static_cast<char>((0xf00u >> (more + 1) & 0xf0u) | point >> (6 * more));
    for (int k = more - 1; k >= 0; --k) text += static_cast<char>(0x80u | (point >> (6 * k) & 0x3fu));
  }
  return text;
}

enum class CaseChange { kNone, kLower, kUpper };

std::string with_case(const std::string& text, CaseChange change) {
  static const CaseTable table;
  if (change == CaseChange::kNone) return text;
  std::vector<char32_t> points = decode(text);
  for (char32_t& point : points) {
    if (point < kInvalidByte) point = change == CaseChange::kLower ? table.lower(point) : table.upper(point);
  }
  return encode(points);
}

std::vector<Tensor> run_string_normalizer(const NodeContext& context) {
  const Tensor& x = context.input(0);
  context.require(x.rank() == 1 || (x.rank() == 2 && x.shape()[0] == 1),
                  "X has shape {}; allowed are [C] and [1, C]", shape_to_string(x.shape()));
  const std::string action = context.string_attribute("case_change_action");
  context.require(action == "NONE" || action == "LOWER" || action == "UPPER",
                  "case_change_action is '{}'; allowed are NONE, LOWER and UPPER", action);
  const CaseChange change = action == "NONE"    ? CaseChange::kNone
                            : action == "LOWER" ? CaseChange::kLower
                                                : CaseChange::kUpper;
  if (context.has_attribute("locale")) {
    const std::string locale = context.string_attribute("locale");
    for (const char* language : {"tr", "az", "lt"}) {
      if (change == CaseChange::kNone || !locale.starts_with(language)) continue;
      throw isa::UnsupportedError(
          context.where() + ": locale " + locale +
          " has rules of its own for upper and lower case; only Unicode's common ones are there");
    }
  }
  const bool is_case_sensitive = context.int_attribute("is_case_sensitive") != 0;
  const auto compared = [&](const std::string& text) {
    return with_case(text, is_case_sensitive ? CaseChange::kNone : CaseChange::kLower);
  };
  std::set<std::string> stopwords;
  if (context.has_attribute("stopwords")) {
    for (const std::string& word : context.strings_attribute("stopwords")) stopwords.insert(compared(word));
  }
  std::vector<std::string> kept;
  for (const std::string& text : x.strings()) {
    if (!stopwords.contains(compared(text))) kept.push_back(with_case(text, change));
  }
  if (kept.empty()) kept.emplace_back();
  Tensor result(DataType::kString, x.rank() == 1 ? Shape{std::ssize(kept)} : Shape{1, std::ssize(kept)});
  result.strings() = kept;
  return {result};
}

// ---------------------------------------------------------------------------------- TfIdfVectorizer

/// The n-grams to look for: by their items the number in the pool.
template <typename Item>
using Pool = std::map<std::vector<Item>, size_t>;

/// pool_strings or pool_int64s, which begin with all 1-grams; ngram_counts says where those of each length
/// begin.
template <typename Item>
Pool<Item> pool_of(const NodeContext& context, const std::vector<Item>& items, size_t columns) {
  const std::vector<int64_t> starts = context.ints_attribute("ngram_counts");
  Pool<Item> pool;
  size_t number = 0;
  for (size_t k = 0; k < starts.size(); ++k) {
    const int64_t end = k + 1 < starts.size() ? starts[k + 1] : std::ssize(items);
    const auto length = static_cast<int64_t>(k + 1);
    context.require(
        starts[k] >= 0 && starts[k] <= end && end <= std::ssize(items) && (end - starts[k]) % length == 0,
        "ngram_counts is {} for a pool of {} items; {}-grams from {} to {} can't be", shape_to_string(starts),
        items.size(), length, starts[k], end);
    for (int64_t i = starts[k]; i < end; i += length) {
      pool.emplace(std::vector<Item>(items.begin() + i, items.begin() + i + length), number++);
    }
  }
  context.require(number <= columns, "the pool has {} n-grams, ngram_indexes {}", number, columns);
  return pool;
}

std::vector<Tensor> run_tf_idf_vectorizer(const NodeContext& context) {
  const Tensor& x = context.input(0);
  context.require(x.rank() == 1 || x.rank() == 2, "X has shape {}; allowed are [C] and [N, C]",
                  shape_to_string(x.shape()));
  const int64_t shortest = context.int_attribute("min_gram_length");
  const int64_t longest = context.int_attribute("max_gram_length");
  const int64_t most_skipped = context.int_attribute("max_skip_count");
  context.require(shortest >= 1 && longest >= shortest, "n-grams of {} to {} items", shortest, longest);
  context.require(most_skipped >= 0, "max_skip_count is {}; 0 or more is allowed", most_skipped);
  const std::string mode = context.string_attribute("mode");
  context.require(mode == "TF" || mode == "IDF" || mode == "TFIDF",
                  "mode is '{}'; allowed are TF, IDF and TFIDF", mode);
  const std::vector<int64_t> columns = context.ints_attribute("ngram_indexes");
  int64_t width = 0;
  for (const int64_t column : columns) {
    context.require(column >= 0 && column < int64_t{1} << 31, "ngram_indexes holds {}", column);
    width = std::max(width, column + 1);
  }
  std::vector<float> weights(columns.size(), 1.0f);
  if (context.has_attribute("weights")) weights = context.floats_attribute("weights");
  context.require(weights.size() == columns.size(), "weights has {} values, ngram_indexes {}", weights.size(),
                  columns.size());
  const int64_t length = x.shape().back();
  const int64_t rows = x.rank() == 2 ? x.shape()[0] : 1;
  Tensor result(DataType::kFloat32, x.rank() == 2 ? Shape{rows, width} : Shape{width});
  const auto to = result.data<float>();

  const auto count_all = [&](const auto& items, const auto& pool) {
    using Item = std::decay_t<decltype(items[0])>;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t n = shortest; n <= std::min(longest, length); ++n) {
        // Of one item there is nothing to skip.
        for (int64_t skipped = 0; skipped <= (n == 1 ? 0 : std::min(most_skipped, length)); ++skipped) {
          const int64_t reach = (n - 1) * (skipped + 1);
          for (int64_t first = 0; first + reach < length; ++first) {
            std::vector<Item> gram;
            for (int64_t k = 0; k < n; ++k) {
              gram.push_back(items[static_cast<size_t>(row * length + first + k * (skipped + 1))]);
            }
            const auto found = pool.find(gram);
            if (found == pool.end()) continue;
            float& value = to[static_cast<size_t>(row * width + columns[found->second])];
            const float weight = mode == "TF" ? 1.0f : weights[found->second];
            value = mode == "IDF" ? weight : value + weight;
          }
        }
      }
    }
  };
  if (x.type() == DataType::kString) {
    context.require(context.has_attribute("pool_strings"), "X has strings, but there is no pool_strings");
    count_all(x.strings(), pool_of(context, context.strings_attribute("pool_strings"), columns.size()));
  } else {
    context.require(context.has_attribute("pool_int64s"), "X has integers, but there is no pool_int64s");
    std::vector<int64_t> items;
    for_integer_type(context, x.type(), [&](auto tag) {
      const auto from = x.data<typename decltype(tag)::Type>();
      items.assign(from.begin(), from.end());
    });
    count_all(items, pool_of(context, context.ints_attribute("pool_int64s"), columns.size()));
  }
  return {result};
}

}  // namespace

void register_text(KernelRegistry& registry) {
  registry.add("StringNormalizer", run_string_normalizer);
  registry.add("TfIdfVectorizer", run_tf_idf_vectorizer);
}

}  // namespace kodama::compiler::reference
