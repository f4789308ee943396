#include <gmock/gmock.h>

#include "compiler/reference/reference_test_util.h"

/// Text, Unique and the training optimizers: what ONNX's node tests leave out.
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

TEST(Unique, OfAnyTypeAndAlongAxes) {
  EXPECT_EQ(run_one("y = Unique(x)", {strings({2, 2}, {"b", "a", "b", "c"})}), strings({3}, {"a", "b", "c"}));
  const Tensor x = floats({5}, {NAN, 2, -1, NAN, 2});
  const auto out = run_all("y, i, n, c = Unique(x)", {&x});
  EXPECT_EQ(out[1], ints({3}, {2, 1, 0}));  // NaN last, and once
  EXPECT_EQ(out[2], ints({5}, {2, 1, 0, 2, 1}));
  EXPECT_EQ(out[3], ints({3}, {1, 2, 2}));
  EXPECT_EQ(run_one("y = Unique<sorted=0, axis=1>(x)", {ints({2, 4}, {3, 1, 3, 1, 0, 2, 0, 5})}),
            ints({2, 3}, {3, 1, 1, 0, 2, 5}));
  EXPECT_EQ(run_one("y = Unique(x)", {ints({0}, {})}), ints({0}, {}));
}

TEST(TrainingOptimizers, AdamOfSeveralTensors) {
  // ONNX's test_adam_multiple with the epsilon that its numbers were made with.
  const OperatorSets operators(std::map<std::string, int64_t>{{"", 17}, {"ai.onnx.preview.training", 1}});
  onnx::NodeProto node = parse_node(
      "a, b, va, vb, ha, hb = Adam<norm_coefficient=0.001, alpha=0.95, beta=0.85, epsilon=0.01>(r, t, x1, "
      "x2, g1, g2, "
      "v1, v2, h1, h2)");
  node.set_domain("ai.onnx.preview.training");
  const std::vector<Tensor> inputs = {floats({}, {0.1}),   ints({}, {0}),       floats({1}, {1}),
                                      floats({2}, {1, 2}), floats({1}, {-1}),   floats({2}, {-1, -3}),
                                      floats({1}, {2}),    floats({2}, {4, 1}), floats({1}, {0.5}),
                                      floats({2}, {1, 10})};
  std::vector<const Tensor*> pointers;
  for (const Tensor& input : inputs) pointers.push_back(&input);
  const auto out = run_node(node, pointers, operators);
  expect_near(out[0], {0.7591362595558167});
  expect_near(out[1], {0.6286528, 1.974585});
  pointers.pop_back();
  EXPECT_THAT(
      [&] {
        onnx::NodeProto shorter = node;
        shorter.mutable_input()->RemoveLast();
        run_node(shorter, pointers, operators);
      },
      ThrowsMessage<isa::UserError>(HasSubstr("a multiple of 4")));
}

}  // namespace
}  // namespace kodama::compiler
