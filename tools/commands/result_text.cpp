#include "tools/commands/result_text.h"

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>
#include <string_view>

#include "isa/style.h"
#include "isa/verbosity.h"

namespace kodama::tools {
namespace {

bool has_numbers(const Tensor& tensor) {
  return tensor.type() != ElementType::kString && tensor.type() != ElementType::kComplex64 &&
         tensor.type() != ElementType::kComplex128;
}

std::string element_text(const Tensor& tensor, int64_t index) {
  const auto k = static_cast<size_t>(index);
  if (tensor.type() == ElementType::kString) return fmt::format("\"{}\"", tensor.strings()[k]);
  const auto complex = [&](const auto* parts) {
    return fmt::format("{:.6g}{:+.6g}i", parts[2 * k], parts[2 * k + 1]);
  };
  const std::byte* bytes = tensor.bytes().data();
  if (tensor.type() == ElementType::kComplex64) return complex(reinterpret_cast<const float*>(bytes));
  if (tensor.type() == ElementType::kComplex128) return complex(reinterpret_cast<const double*>(bytes));
  return fmt::format("{:.6g}", tensor.number(index));
}

/// The first elements, or all of a small tensor.
void print_tensor(const std::string& name, const Tensor& tensor, std::ostream& out) {
  constexpr int64_t kMostElements = 10;
  fmt::print(out, "{} {} [{}]:", name, element_type_name(tensor.type()), fmt::join(tensor.shape(), ", "));
  const int64_t count = std::min(kMostElements, tensor.size());
  for (int64_t k = 0; k < count; ++k) fmt::print(out, " {}", element_text(tensor, k));
  fmt::print(out, "{}\n", count < tensor.size() ? " ..." : "");
}

/// A picture of a [1, 1, H, W], [1, H, W] or [H, W] tensor, dark to light as characters.
void print_text_art(const std::string& name, const Tensor& tensor, std::ostream& out) {
  const std::vector<int64_t>& shape = tensor.shape();
  if (shape.size() < 2 || shape.size() > 4 || !has_numbers(tensor)) return;
  const int64_t height = shape[shape.size() - 2];
  const int64_t width = shape[shape.size() - 1];
  // One picture, large enough to be one and small enough for a terminal.
  if (height < 8 || width < 8 || height > 64 || width > 64 || height * width != tensor.size()) return;
  constexpr std::string_view kShades = " .:-=+*#%@";
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (int64_t k = 0; k < tensor.size(); ++k) {
    low = std::min(low, tensor.number(k));
    high = std::max(high, tensor.number(k));
  }
  fmt::print(out, "{} [{}]:\n", name, fmt::join(shape, ", "));
  for (int64_t row = 0; row < height; ++row) {
    std::string line;
    for (int64_t column = 0; column < width; ++column) {
      const double value = tensor.number(row * width + column);
      const double share = high > low && std::isfinite(value) ? (value - low) / (high - low) : 0;
      const char shade =
          kShades[static_cast<size_t>(std::lround(share * static_cast<double>(kShades.size() - 1)))];
      line.append(2, shade);  // characters are about twice as high as wide
    }
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print(out, "{}\n", line);
  }
}

void print_comparisons(const std::vector<Comparison>& comparisons, const char* against, std::ostream& out) {
  for (const Comparison& each : comparisons)
    print_verdict(fmt::format("{} against {}: {}", each.name, against, each.text()), each.ok, out);
}

void print_on_operands(const OperandsComparison& comparison, std::ostream& out) {
  fmt::print(
      out,
      "run once more with what operators read that choose, compare or round to integers as outputs: {}\n",
      comparison.operands.size());
  for (const std::string& name : comparison.changed)
    print_verdict(name + " has other bits than in the run before, of which this shows nothing: FAILED", false,
                  out);
  for (const Comparison& each : comparison.operands) {
    if (!each.ok)
      print_verdict(fmt::format("operand {} against the CPU reference: {}", each.name, each.text()), false,
                    out);
  }
  fmt::print(out, "operands against the CPU reference, each on those before it: {}\n",
             comparison.worst.text());
  print_comparisons(comparison.outputs, "the CPU reference on the chip's operands", out);
}

/// Where a wrong result begins, and what to try.
void print_first_wrong_layer(const Result& result, const Program& program, std::ostream& out) {
  const auto first = std::ranges::find(result.layers, false, &LayerComparison::ok);
  if (first == result.layers.end()) {
    fmt::print(out, "no layer that was compared is out of tolerance; --check-layers compares all\n");
  } else {
    fmt::print(out, "first layer out of tolerance: '{}' ({}): {}\n", first->layer,
               fmt::join(first->operators, "+"), first->text());
  }
  if (program.precision() != "float")
    fmt::print(out, "what products lose at {} may be the reason: try --precision float\n",
               program.precision());
}

}  // namespace

void print_result(const Result& result, const Program& program, const Values& inputs, int64_t repeat,
                  const ResultView& view, std::ostream& out) {
  if (!result.data_set.empty()) fmt::print(out, "=== {} ===\n", result.data_set);
  for (const auto& [name, value] : inputs) {
    if (view.images && value.is_tensor()) print_text_art(name, value.tensor(), out);
  }
  result.print(out);
  Values outputs = result.others;
  outputs.insert(result.outputs.begin(), result.outputs.end());
  print_outputs(outputs, view.classes, out);
  for (const std::string& difference : result.differences) print_verdict(difference + ": FAILED", false, out);
  if (repeat > 1 && result.differences.empty())
    fmt::print(out, "outputs of all {} runs: the same bits\n", repeat);
  print_comparisons(result.comparisons, "the CPU reference", out);
  if (result.on_operands) print_on_operands(*result.on_operands, out);
  if (program.open_reason().empty()) {
    const bool is_right = std::ranges::all_of(result.comparisons, &Comparison::ok) ||
                          (result.on_operands && result.on_operands->ok);
    if (!is_right) print_first_wrong_layer(result, program, isa::failure_stream(out));
    for (const LayerComparison& layer : result.layers) {
      if (!layer.ok && !layer.plugin.empty())
        fmt::print(out, "'{}' of layer '{}', by kernel '{}' of plugin {}: {}\n", layer.name, layer.layer,
                   layer.kernel, layer.plugin, layer.text());
    }
  }
  print_comparisons(result.recorded, "the recorded output", out);
}

void print_outputs(const Values& outputs, bool classes, std::ostream& out) {
  for (const auto& [name, value] : outputs) {
    if (!value.is_tensor()) fmt::print(out, "{}: {}\n", name, value.describe());
    if (value.is_sequence()) {
      size_t k = 0;
      for (const Tensor& element : value.elements())
        print_tensor(fmt::format("{}[{}]", name, k++), element, out);
    }
    if (!value.is_tensor()) continue;
    print_tensor(name, value.tensor(), out);
    if (classes && has_numbers(value.tensor()))
      fmt::print(out, "class found: {}\n", fmt::join(value.tensor().largest_per_row(), " "));
  }
}

void print_verdict(const std::string& sentence, bool is_right, std::ostream& out) {
  std::ostream& to = is_right ? out : isa::failure_stream(out);
  const isa::Styled style(to, is_right ? isa::Style::kGood : isa::Style::kBad);
  fmt::print(to, "{}\n", sentence);
}

}  // namespace kodama::tools
