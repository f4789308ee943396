#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include "compiler/reference/kernels/kernel.h"

/// Cast and CastLike.
namespace kodama::compiler::reference {

namespace {

/// As to_element(); anything but zero is true.
template <typename To, typename From>
To convert(From from) {
  if constexpr (std::is_same_v<To, From>) {
    return from;
  } else if constexpr (std::is_same_v<To, bool>) {
    return static_cast<Compute<From>>(from) != 0;
  } else if constexpr (kIsFloat<From> && std::is_integral_v<To>) {
    return to_element<To>(static_cast<double>(from));
  } else if constexpr (kIsSmallFloat<To>) {
    return to_element<To>(static_cast<double>(from));
  } else {
    return static_cast<To>(static_cast<Compute<From>>(from));
  }
}

/// Plain and scientific notation, INF, NaN.
template <typename To>
To parse(const NodeContext& context, const std::string& text) {
  const char* const end = text.data() + text.size();
  if constexpr (std::is_integral_v<To> && !std::is_same_v<To, bool>) {
    To value = 0;
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && stop == end) return value;
  }
  char* stop = nullptr;
  const double value = std::strtod(text.c_str(), &stop);
  context.require(!text.empty() && stop == end, "'{}' is not a number", text);
  return convert<To>(value);
}

/// As many digits as tell the value from its neighbours.
template <typename From>
std::string print(From value) {
  if constexpr (kIsFloat<From>) {
    const auto number = static_cast<Compute<From>>(value);
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number > 0 ? "INF" : "-INF";
    return fmt::format("{}", number);
  } else if constexpr (std::is_same_v<From, bool>) {
    return value ? "1" : "0";
  } else {
    return fmt::format("{}", value);
  }
}

Tensor cast(const NodeContext& context, const Tensor& x, DataType type) {
  if (x.type() == type) return x;
  Tensor result(type, x.shape());
  const auto count = static_cast<size_t>(x.size());
  if (x.type() == DataType::kString) {
    for_number_or_bool_type(context, type, [&](auto tag) {
      using To = typename decltype(tag)::Type;
      const auto to = result.data<To>();
      for (size_t i = 0; i < count; ++i) to[i] = parse<To>(context, x.strings()[i]);
    });
    return result;
  }
  for_number_or_bool_type(context, x.type(), [&](auto from_tag) {
    using From = typename decltype(from_tag)::Type;
    const auto from = x.data<From>();
    if (type == DataType::kString) {
      for (size_t i = 0; i < count; ++i) result.strings()[i] = print(from[i]);
      return;
    }
    for_number_or_bool_type(context, type, [&](auto to_tag) {
      using To = typename decltype(to_tag)::Type;
      const auto to = result.data<To>();
      for (size_t i = 0; i < count; ++i) to[i] = convert<To>(from[i]);
    });
  });
  return result;
}

/// "FLOAT", "INT64"; kUndefined for others.
DataType type_of_upper_name(const std::string& name) {
  for (int number = DataType::kUndefined + 1; is_data_type(number); ++number) {
    std::string upper = onnx_type_name(static_cast<DataType>(number));
    std::ranges::transform(upper, upper.begin(),
                           [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    if (upper == name) return static_cast<DataType>(number);
  }
  return DataType::kUndefined;
}

std::vector<Tensor> run_cast(const NodeContext& context) {
  DataType type = DataType::kUndefined;
  if (context.since_version() < 6) {  // then it was the type's name
    const std::string& name = context.string_attribute("to");
    type = type_of_upper_name(name);
    context.require(type != DataType::kUndefined, "to is '{}', which is no element type", name);
  } else {
    const int64_t number = context.int_attribute("to");
    context.require(is_data_type(number), "to is {}, which is no element type", number);
    type = static_cast<DataType>(number);
  }
  context.require(type == DataType::kString || element_size(type) > 0, "to is {}, which is no element type",
                  data_type_name(type));
  return {cast(context, context.input(0), type)};
}

}  // namespace

void register_cast(KernelRegistry& registry) {
  registry.add("Cast", run_cast);
  registry.add("CastLike", [](const NodeContext& context) -> std::vector<Tensor> {
    return {cast(context, context.input(0), context.input(1).type())};
  });
}

}  // namespace kodama::compiler::reference
