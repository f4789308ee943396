#include <gmock/gmock.h>

#include "compiler/reference/reference_test_util.h"

namespace kodama::compiler {
namespace {

using namespace testing;  // NOLINT
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(StringNormalizer, CaseOfAllOfUnicode) {
  const Tensor x = strings({3}, {"Größe", "ЖУК", "naïve \xff\xc3"});
  EXPECT_EQ(run_one("y = StringNormalizer<case_change_action=\"UPPER\">(x)", {x}),
            strings({3}, {"GRÖßE", "ЖУК", "NAÏVE \xff\xc3"}));
  EXPECT_EQ(run_one("y = StringNormalizer<case_change_action=\"LOWER\", stopwords=[\"жук\"]>(x)", {x}),
            strings({2}, {"größe", "naïve \xff\xc3"}));
  EXPECT_EQ(run_one("y = StringNormalizer<is_case_sensitive=1, stopwords=[\"жук\"]>(x)", {x}), x);
  EXPECT_EQ(run_one("y = StringNormalizer<stopwords=[\"a\"]>(x)", {strings({1, 2}, {"a", "A"})}),
            strings({1, 1}, {""}));
  EXPECT_THROW(run_one("y = StringNormalizer<case_change_action=\"LOWER\", locale=\"tr_TR\">(x)", {x}),
               isa::UnsupportedError);
  EXPECT_THAT(
      [] {
        run_one("y = StringNormalizer(x)", {strings({2, 1}, {"a", "b"})});
      },
      ThrowsMessage<isa::UserError>(HasSubstr("[2, 1]")));
}

TEST(TfIdfVectorizer, WeightsAndStrings) {
  const char* const node =
      "y = TfIdfVectorizer<mode=\"{}\", min_gram_length=1, max_gram_length=2, max_skip_count=1, "
      "ngram_counts=[0, 2], "
      "ngram_indexes=[1, 0, 3], pool_strings=[\"a\", \"b\", \"a\", \"b\"], weights=[0.5, 2.0, 3.0]>(x)";
  // "a" twice; "b" twice; "a b" twice side by side, and once with one skipped.
  const Tensor x = strings({2, 4}, {"a", "b", "a", "b", "c", "c", "c", "b"});
  const auto run = [&](const char* mode) { return run_one(fmt::format(fmt::runtime(node), mode), {x}); };
  EXPECT_EQ(run("TF"), floats({2, 4}, {2, 2, 0, 2, 1, 0, 0, 0}));
  EXPECT_EQ(run("IDF"), floats({2, 4}, {2, 0.5, 0, 3, 2, 0, 0, 0}));
  EXPECT_EQ(run("TFIDF"), floats({2, 4}, {4, 1, 0, 6, 2, 0, 0, 0}));
  const auto fails = [](const std::string& attributes, const char* text) {
    EXPECT_THAT(
        [&] {
          run_one(
              "y = TfIdfVectorizer<mode=\"TF\", min_gram_length=1, max_gram_length=2, max_skip_count=1, " +
                  attributes + ">(x)",
              {ints({2}, {1, 2})});
        },
        ThrowsMessage<isa::UserError>(HasSubstr(text)));
  };
  fails("ngram_counts=[0, 2], ngram_indexes=[0, 1], pool_int64s=[1, 2, 1]", "2-grams");
  fails("ngram_counts=[0, 9], ngram_indexes=[0, 1], pool_int64s=[1, 2]", "ngram_counts");
  fails("ngram_counts=[0], ngram_indexes=[0], pool_int64s=[1, 2, 2]", "3 n-grams");
  fails("ngram_counts=[0], ngram_indexes=[-1], pool_int64s=[1]", "holds -1");
  fails("ngram_counts=[0], ngram_indexes=[0], pool_strings=[\"a\"]", "pool_int64s");
}

}  // namespace
}  // namespace kodama::compiler
