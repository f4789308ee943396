#include "compiler/reference/kernels/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>

/// Random operators; random.h says what they draw.
namespace kodama::compiler::reference {

namespace {

ThreefryWords halves(uint64_t value) {
  return {static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32)};
}

uint64_t fnv1a(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return hash;
}

/// The attribute dtype, else `otherwise`.
DataType type_attribute(const NodeContext& context, DataType otherwise) {
  const int64_t type = context.int_attribute("dtype", otherwise);
  context.require(type == static_cast<int>(type) && is_data_type(static_cast<int>(type)),
                  "dtype is {}, which is no element type", type);
  return static_cast<DataType>(type);
}

/// RandomNormalLike and RandomUniformLike take the input's type unless dtype says another.
Tensor result_of(const NodeContext& context) {
  if (context.input_count() == 0) {
    return {type_attribute(context, DataType::kFloat32), context.ints_attribute("shape")};
  }
  const Tensor& like = context.input(0);
  return {type_attribute(context, like.type()), like.shape()};
}

/// In [low, high); high itself may come out where it is the nearest number of the type.
std::vector<Tensor> run_random_uniform(const NodeContext& context) {
  Tensor result = result_of(context);
  const RandomStream random(context);
  const float low = context.float_attribute("low");
  const float high = context.float_attribute("high");
  for_float_type(context, result.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto to = result.data<T>();
    for (size_t i = 0; i < to.size(); ++i) {
      if constexpr (std::is_same_v<T, double>) {
        to[i] = low + random.uniform_double(i) * (static_cast<double>(high) - low);
      } else {
        to[i] = to_element<T>(low + random.uniform(i) * (high - low));
      }
    }
  });
  return {result};
}

std::vector<Tensor> run_random_normal(const NodeContext& context) {
  Tensor result = result_of(context);
  const RandomStream random(context);
  const double mean = context.float_attribute("mean");
  const double scale = context.float_attribute("scale");
  for_float_type(context, result.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto to = result.data<T>();
    for (size_t i = 0; i < to.size(); ++i) to[i] = to_element<T>(mean + scale * random.normal(i));
  });
  return {result};
}

/// 1 with the probability that the input says. (ONNX's function body of the operator, which compares the
/// other way round, contradicts its text.)
std::vector<Tensor> run_bernoulli(const NodeContext& context) {
  const Tensor& probability = context.input(0);
  const RandomStream random(context);
  Tensor result(type_attribute(context, probability.type()), probability.shape());
  for_float_type(context, probability.type(), [&](auto from_tag) {
    const auto from = probability.data<typename decltype(from_tag)::Type>();
    for_number_or_bool_type(context, result.type(), [&](auto to_tag) {
      using To = typename decltype(to_tag)::Type;
      const auto to = result.data<To>();
      for (size_t i = 0; i < to.size(); ++i) {
        const auto p = static_cast<double>(from[i]);
        context.require(p >= 0 && p <= 1, "a probability is {}; 0 to 1 is allowed", p);
        to[i] = to_element<To>(random.uniform(i) < p ? 1.0f : 0.0f);
      }
    });
  });
  return {result};
}

/// Rows of unnormalized log-probabilities; for each, sample_size classes.
std::vector<Tensor> run_multinomial(const NodeContext& context) {
  const Tensor& x = context.input(0);
  context.require(x.rank() == 2, "input has shape {}; allowed is [batch, classes]",
                  shape_to_string(x.shape()));
  const int64_t samples = context.int_attribute("sample_size");
  context.require(samples >= 0, "sample_size is {}; 0 or more is allowed", samples);
  const auto classes = static_cast<size_t>(x.shape()[1]);
  context.require(classes > 0 || x.shape()[0] == 0, "input has shape {}: there is no class to choose",
                  shape_to_string(x.shape()));
  const RandomStream random(context);
  Tensor result(type_attribute(context, DataType::kInt32), {x.shape()[0], samples});
  std::vector<double> sums(classes);  // of probabilities up to each class, not normalized
  for_float_type(context, x.type(), [&](auto from_tag) {
    const auto from = x.data<typename decltype(from_tag)::Type>();
    const bool is_integer = visit_type_among<int32_t, int64_t>(result.type(), [&](auto to_tag) {
      using To = typename decltype(to_tag)::Type;
      const auto to = result.data<To>();
      for (size_t row = 0; row < static_cast<size_t>(x.shape()[0]); ++row) {
        double highest = -std::numeric_limits<double>::infinity();
        for (size_t k = 0; k < classes; ++k) highest = std::max<double>(highest, from[row * classes + k]);
        double sum = 0;
        for (size_t k = 0; k < classes; ++k) {
          sum += std::exp(static_cast<double>(from[row * classes + k]) - highest);
          sums[k] = sum;
        }
        context.require(std::isfinite(sum), "row {} of the input holds no finite log-probabilities", row);
        for (size_t i = row * static_cast<size_t>(samples); i < (row + 1) * static_cast<size_t>(samples);
             ++i) {
          const auto chosen = std::upper_bound(sums.begin(), sums.end() - 1, random.uniform_double(i) * sum);
          to[i] = static_cast<To>(chosen - sums.begin());
        }
      }
    });
    if (!is_integer) context.fail_unsupported_type(result.type());
  });
  return {result};
}

/// Zeroes elements with the probability `ratio` and scales the others, so that the mean stays.
std::vector<Tensor> run_dropout(const NodeContext& context) {
  const Tensor& x = context.input(0);
  const int version = context.since_version();
  const bool training = version >= 12  ? context.has_input(2) && context.scalar(2) != 0
                        : version >= 7 ? false
                                       : context.int_attribute("is_test") == 0;
  double ratio = 0;
  if (training) {
    ratio = version >= 12 ? context.has_input(1) ? context.scalar(1) : 0.5 : context.float_attribute("ratio");
    context.require(ratio >= 0 && ratio < 1, "ratio is {}; 0 to less than 1 is allowed", ratio);
  }
  const RandomStream random(context);
  Tensor result = x;
  Tensor mask(version >= 10 ? DataType::kBool : x.type(), x.shape());
  const auto keeps = [&](size_t i) { return ratio == 0 || random.uniform(i) >= ratio; };
  visit_number_or_bool_type(mask.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto to = mask.data<T>();
    for (size_t i = 0; i < to.size(); ++i) to[i] = to_element<T>(keeps(i) ? 1.0f : 0.0f);
  });
  if (ratio == 0) return {result, mask};
  for_float_type(context, x.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto scale = static_cast<Compute<T>>(1 / (1 - ratio));
    for (size_t i = 0; i < static_cast<size_t>(x.size()); ++i) {
      auto& value = result.data<T>()[i];
      value = keeps(i) ? to_element<T>(value * scale) : to_element<T>(0.0f);
    }
  });
  return {result, mask};
}

}  // namespace

ThreefryWords random_key(const Node& node) {
  const auto seed = node.attributes.find("seed");
  if (seed != node.attributes.end()) {
    if (const auto* const number = std::get_if<int64_t>(&seed->second))
      return halves(static_cast<uint64_t>(*number));
    if (const auto* const number = std::get_if<float>(&seed->second))
      return {std::bit_cast<uint32_t>(*number), 0};
  }
  std::string name = node.name;
  for (const std::string& output : node.outputs) {
    if (name.empty()) name = output;
  }
  return halves(fnv1a(name));
}

RandomStream::RandomStream(const NodeContext& context) : key_(random_key(context.node())) {}

ThreefryWords RandomStream::words(size_t element) const {
  return threefry(key_, halves(element));
}

float RandomStream::uniform(size_t element) const {
  return static_cast<float>(words(element)[0] >> 8) * 0x1p-24f;
}

double RandomStream::uniform_double(size_t element) const {
  const auto [first, second] = words(element);
  return static_cast<double>((uint64_t{first} << 32 | second) >> 11) * 0x1p-53;
}

double RandomStream::normal(size_t element) const {
  const auto [first, second] = words(element);
  const double u = (static_cast<double>(first) + 1) * 0x1p-32;
  const double v = static_cast<double>(second) * 0x1p-32;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

void register_random(KernelRegistry& registry) {
  registry.add("RandomUniform", run_random_uniform);
  registry.add("RandomUniformLike", run_random_uniform);
  registry.add("RandomNormal", run_random_normal);
  registry.add("RandomNormalLike", run_random_normal);
  registry.add("Bernoulli", run_bernoulli);
  registry.add("Multinomial", run_multinomial);
  registry.add("Dropout", run_dropout);
}

}  // namespace kodama::compiler::reference
