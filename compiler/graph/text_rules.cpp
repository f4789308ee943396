#include <algorithm>

#include "compiler/graph/onnx_model.h"
#include "compiler/graph/operator_checks.h"

namespace kodama::compiler::rules {

namespace {

void check_string_normalizer(const NodeOperands& o) {
  rank_between(0, 1, 2)(o);
  if (o.rank(0) == 2) extent_is(0, 0, 1, "since only [C] and [1, C] are normalized")(o);
  one_of("case_change_action", {"NONE", "LOWER", "UPPER"})(o);
  flag("is_case_sensitive")(o);
}

/// How many strings remain depends on them, unless there are no stop words.
std::map<int, Shape> infer_string_normalizer(const NodeOperands& o) {
  const auto shape = o.shape(0);
  const auto* stopwords = find_attribute(o.node(), "stopwords");
  if (!shape || (stopwords != nullptr && stopwords->strings_size() > 0)) return {};
  Shape result = *shape;
  result.back() = std::max<int64_t>(result.back(), 1);
  return {{0, result}};
}

int64_t ngram_columns(const NodeOperands& o) {
  int64_t columns = 0;
  const auto indexes = o.integers("ngram_indexes").value_or(Shape());
  for (const int64_t index : indexes) columns = std::max(columns, index + 1);
  return columns;
}

void check_tf_idf_vectorizer(const NodeOperands& o) {
  rank_between(0, 1, 2)(o);
  one_of("mode", {"TF", "IDF", "TFIDF"})(o);
  positive("min_gram_length")(o);
  positive("max_gram_length")(o);
  integer_between("max_skip_count", 0, kLargestParameter - 1)(o);
  o.require(o.integer("min_gram_length") <= o.integer("max_gram_length"),
            "attribute min_gram_length is larger than max_gram_length");
  const Shape indexes = o.integers("ngram_indexes").value_or(Shape());
  check_extents(o, indexes, 0, "attribute ngram_indexes");
  const char* const pool = o.type(0) == DataType::kString ? "pool_strings" : "pool_int64s";
  o.require(!o.type(0) || o.has_attribute(pool), "attribute {} is missing; {} is looked up in it", pool,
            o.describe(0));
  const auto* weights = find_attribute(o.node(), "weights");
  o.require(weights == nullptr || weights->floats_size() == std::ssize(indexes),
            "attribute weights has {} values, ngram_indexes {}",
            weights == nullptr ? 0 : weights->floats_size(), indexes.size());
}

std::map<int, Shape> infer_tf_idf_vectorizer(const NodeOperands& o) {
  auto shape = o.shape(0);
  if (!shape) return {};
  shape->back() = ngram_columns(o);
  return {{0, *shape}};
}

}  // namespace

void add_text_rules(RuleTable& rules) {
  rules["StringNormalizer"] = {{check_string_normalizer}, {0}, infer_string_normalizer};
  rules["TfIdfVectorizer"] = {{check_tf_idf_vectorizer}, {}, infer_tf_idf_vectorizer};
}

}  // namespace kodama::compiler::rules
