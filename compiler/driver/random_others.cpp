#include <cmath>

#include "compiler/driver/random_rows.h"

namespace kodama::compiler {
namespace {

// ---- quantization

void add_quantize(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = nodes.want_for(op, {.low = -1e4, .high = 1e4});
  const DataType type = nodes.pick_type(RandomNodes::types(op, 2));
  const bool per_axis = x.rank() > 0 && nodes.chance(40);
  const int64_t axis = per_axis ? nodes.number(0, x.rank() - 1) : 0;
  const Shape shape = per_axis ? Shape{x.shape()[static_cast<size_t>(axis)]} : Shape{};
  // Powers of two, so that no quotient rounds.
  Tensor scale(DataType::kFloat32, shape);
  for (float& each : scale.data<float>())
    each = static_cast<float>(std::ldexp(1, static_cast<int>(nodes.number(-4, 1))));
  std::vector<std::string> inputs{x.name, nodes.add_constant(scale)};
  if (nodes.chance(70)) inputs.push_back(nodes.add_constant(nodes.random_tensor(type, shape, 0, 9)));
  nodes.add(op, inputs, per_axis ? Attributes().set("axis", nodes.either(axis, x.rank())) : Attributes());
}

void add_dequantize(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = nodes.want_for(op, {.low = -1e6, .high = 1e6});
  const bool per_axis = x.rank() > 0 && nodes.chance(40);
  const int64_t axis = per_axis ? nodes.number(0, x.rank() - 1) : 0;
  const Shape shape = per_axis ? Shape{x.shape()[static_cast<size_t>(axis)]} : Shape{};
  std::vector<std::string> inputs{x.name, nodes.constant(shape, 0.5, 0.01)};
  if (x.type() != DataType::kInt32 && nodes.chance(60))
    inputs.push_back(nodes.add_constant(nodes.random_tensor(x.type(), shape, 0, 9)));
  nodes.add(op, inputs, per_axis ? Attributes().set("axis", nodes.either(axis, x.rank())) : Attributes());
}

/// Of numbers whose range makes a scale that is a power of two: quotients don't round.
void add_dynamic_quantize(RandomNodes& nodes, const std::string& op) {
  Tensor x(DataType::kFloat32, {nodes.number(2, 4), nodes.extent(9)});
  const auto data = x.data<float>();
  for (float& each : data) each = static_cast<float>(nodes.number(-60, 120)) / 4;
  data[0] = -63.75F / 2;
  data[1] = 63.75F / 2;
  nodes.add(op, {nodes.add_input(x).name});
}

// ---- random numbers, which are the same in every run

Attributes seed_of(RandomNodes& nodes) {
  return Attributes().set("seed", static_cast<double>(nodes.number(0, 99)));
}

void add_bernoulli(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = nodes.want_for(op, {.low = 0, .high = 1});
  std::string probability = x.name;
  // What is nearly 0 or 1 may be outside on the chip, by its rounding, and is refused there.
  if (!x.is_input && (x.low < 1e-3 || x.high > 1 - 1e-3)) {
    probability = nodes.step("Clip", {x.name, nodes.scalar(0, x.type()), nodes.scalar(1, x.type())});
  }
  Attributes attributes = seed_of(nodes);
  if (nodes.chance(40))
    attributes.set("dtype",
                   nodes.pick(std::vector<DataType>{DataType::kBool, DataType::kInt32, DataType::kFloat64}));
  nodes.add(op, {probability}, attributes);
}

void add_multinomial(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = nodes.want_for(op, {.least_rank = 2, .most_rank = 2, .low = -8, .high = 8});
  Attributes attributes = seed_of(nodes).set("sample_size", nodes.number(1, 5));
  if (nodes.chance(50))
    attributes.set("dtype", nodes.pick(std::vector<DataType>{DataType::kInt32, DataType::kInt64}));
  nodes.add(op, {x.name}, attributes);
}

void add_random(RandomNodes& nodes, const std::string& op) {
  const bool is_like = op.find("Like") != std::string::npos;
  Attributes attributes = seed_of(nodes);
  if (op.find("Normal") != std::string::npos) {
    attributes.set("mean", nodes.real(-1, 1)).set("scale", nodes.real(0.5, 2));
  } else {
    attributes.set("low", nodes.real(-2, 0)).set("high", nodes.real(0.5, 2));
  }
  const DataType type = nodes.pick_type({DataType::kFloat32, DataType::kFloat64, DataType::kFloat16});
  if (!is_like) attributes.set("shape", std::vector<int64_t>{nodes.number(1, 3), nodes.extent(9)});
  std::vector<std::string> inputs;
  bool has_type = nodes.chance(50);
  if (is_like) {
    const RandomValue x = nodes.want_for(op);
    inputs.push_back(x.name);
    has_type |= !is_float_type(x.type()) || x.type() == DataType::kBfloat16;
  }
  if (has_type) attributes.set("dtype", type);
  nodes.add(op, inputs, attributes);
}

// ---- text

void add_string_normalizer(RandomNodes& nodes, const std::string& op) {
  const Shape shape = nodes.chance(50) ? Shape{nodes.number(2, 6)} : Shape{1, nodes.number(2, 6)};
  Tensor text = nodes.random_tensor(DataType::kString, shape, 0, 0);
  text.strings()[0] = "kept";
  Attributes attributes;
  if (nodes.chance(60)) attributes.set("case_change_action", nodes.word({"LOWER", "UPPER", "NONE"}));
  if (nodes.chance(60)) attributes.set("stopwords", std::vector<std::string>{"the", "is"});
  if (nodes.chance(50)) attributes.set("is_case_sensitive", nodes.number(0, 1));
  nodes.add(op, {nodes.add_input(text).name}, attributes);
}

void add_tf_idf(RandomNodes& nodes, const std::string& op) {
  const bool is_text = nodes.chance(30);
  const RandomValue x = is_text ? nodes.fresh(DataType::kString, {nodes.number(4, 9)})
                                : nodes.want({.types = {DataType::kInt32, DataType::kInt64},
                                              .least_rank = 1,
                                              .most_rank = 2,
                                              .low = -20,
                                              .high = 20});
  Attributes attributes = Attributes()
                              .set("mode", nodes.word({"TF", "IDF", "TFIDF"}))
                              .set("min_gram_length", 1)
                              .set("max_gram_length", 2)
                              .set("max_skip_count", nodes.number(0, 2))
                              .set("ngram_counts", std::vector<int64_t>{0, 3})
                              .set("ngram_indexes", std::vector<int64_t>{0, 1, 2, 3, 4});
  if (is_text) {
    attributes.set("pool_strings", std::vector<std::string>{"a", "B", "7", "a", "B", "the", "Cat"});
  } else {
    attributes.set("pool_int64s", std::vector<int64_t>{1, 2, 3, 1, 2, 4, 5});
  }
  if (nodes.chance(60)) attributes.set("weights", std::vector<double>{1, 0.5, 2, 1.5, 3});
  nodes.add(op, {x.name}, attributes);
}

// ---- optimizers

void add_optimizer(RandomNodes& nodes, const std::string& op) {
  const std::string domain = op.substr(0, op.rfind('.'));
  const std::string name = op.substr(op.rfind('.') + 1);
  const DataType type = nodes.chance(70) ? DataType::kFloat32 : DataType::kFloat64;
  const RandomValue x = nodes.want({.types = {type}, .low = -100, .high = 100});
  const RandomValue gradient = nodes.want({.types = {type}, .low = -100, .high = 100, .shape = x.shape()});
  std::vector<std::string> inputs{nodes.scalar(0.125, type), nodes.integer(nodes.number(0, 5)), x.name,
                                  gradient.name};
  // Moments, and sums of squares, which are positive.
  if (name != "Adagrad") inputs.push_back(nodes.constant(x.shape(), 1, std::nullopt, type));
  if (name != "Momentum") inputs.push_back(nodes.constant(x.shape(), 4, 0.5, type));
  Attributes attributes;
  if (name == "Adagrad") {
    attributes.set("epsilon", 0.01)
        .set("decay_factor", nodes.real(0, 0.5))
        .set("norm_coefficient", nodes.real(0, 0.1));
  } else if (name == "Adam") {
    attributes.set("alpha", nodes.real(0.8, 0.95)).set("beta", nodes.real(0.8, 0.99)).set("epsilon", 0.01);
    attributes.set("norm_coefficient", nodes.real(0, 0.1)).set("norm_coefficient_post", nodes.real(0, 0.1));
  } else {
    attributes.set("alpha", nodes.real(0.5, 0.95))
        .set("beta", nodes.real(0.5, 1))
        .set("norm_coefficient", nodes.real(0, 0.1));
    attributes.set("mode", nodes.word({"standard", "nesterov"}));
  }
  nodes.add(name, inputs, attributes, name == "Adam" ? 3 : 2, domain);
}

}  // namespace

std::vector<RandomRow> other_rows() {
  const auto exact = RowErrors::kNone;
  return {
      {"Bernoulli", add_bernoulli, exact, true},
      {"DequantizeLinear", add_dequantize},
      {"DynamicQuantizeLinear", add_dynamic_quantize, RowErrors::kRounds, true},
      {"Multinomial", add_multinomial, exact, true},
      {"QuantizeLinear", add_quantize, exact, true},
      {"RandomNormal", add_random},
      {"RandomNormalLike", add_random},
      {"RandomUniform", add_random},
      {"RandomUniformLike", add_random},
      {"StringNormalizer", add_string_normalizer, exact, false, true},
      {"TfIdfVectorizer", add_tf_idf, exact},
      {"ai.onnx.preview.training.Adagrad", add_optimizer},
      {"ai.onnx.preview.training.Adam", add_optimizer},
      {"ai.onnx.preview.training.Momentum", add_optimizer},
  };
}

}  // namespace kodama::compiler
