#include <cmath>
#include <numbers>
#include <numeric>

#include "compiler/graph/gradient/gradient_rules.h"

/// Fourier transforms, as products with their matrices.
namespace kodama::compiler::gradient {

namespace {

/// x [..., extent, 1 or 2] transformed along its last axis but one: [..., bins, 2].
Term transform(const Term& x, int64_t length, int64_t bins, bool is_inverse) {
  const int64_t extent = std::min(x.extent(-2), length);
  const Term taken = slice(x, x.rank() - 2, 0, extent);
  std::vector<double> cosines, sines;
  const double scale = is_inverse ? 1.0 / static_cast<double>(length) : 1.0;
  for (int64_t i = 0; i < extent; ++i) {
    for (int64_t k = 0; k < bins; ++k) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(i * k % length) /
                           static_cast<double>(length) * (is_inverse ? 1 : -1);
      cosines.push_back(std::cos(angle) * scale);
      sines.push_back(std::sin(angle) * scale);
    }
  }
  TermGraph& g = *x.graph;
  const Term real_matrix = g.constant(tensor_of(x.type, {extent, bins}, cosines));
  const Term imaginary_matrix = g.constant(tensor_of(x.type, {extent, bins}, sines));
  Shape rows = taken.shape;
  rows.pop_back();
  if (rows.size() == 1) rows.insert(rows.begin(), 1);
  const auto part = [&](int64_t number) {
    return reshape(slice(taken, taken.rank() - 1, number, number + 1), rows);
  };
  const Term real = part(0);
  Term result_real = matmul(real, real_matrix);
  Term result_imaginary = matmul(real, imaginary_matrix);
  if (x.extent(-1) == 2) {
    const Term imaginary = part(1);
    result_real = result_real - matmul(imaginary, imaginary_matrix);
    result_imaginary = result_imaginary + matmul(imaginary, real_matrix);
  }
  const int64_t rank = result_real.rank();
  return concat({unsqueeze(result_real, {rank}), unsqueeze(result_imaginary, {rank})}, rank);
}

void dft(NodeParts& n) {
  const Term x = n.x();
  const int64_t axis = n.axis();
  const int64_t length = n.has(1) ? n.integers(1).front() : x.extent(axis);
  const int64_t bins = n.integer("onesided") != 0 ? length / 2 + 1 : length;
  Ints order(x.shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(axis)], order[order.size() - 2]);
  const Term result = transform(transpose(x, order), length, bins, n.integer("inverse") != 0);
  n.finish(0, reshape(transpose(result, order), n.output_shape()));
}

void stft(NodeParts& n) {
  const Term signal = n.x(0);
  const int64_t step = n.integers(1).front();
  const int64_t length = n.has(3) ? n.integers(3).front() : n.x(2).size();
  const int64_t frames = n.output_extent(0, 1);
  const int64_t bins = n.output_extent(0, 2);
  Ints places;
  for (int64_t frame = 0; frame < frames; ++frame) {
    for (int64_t k = 0; k < length; ++k) places.push_back(frame * step + k);
  }
  const int64_t parts = signal.extent(2);
  const Term index = reshape(n.graph().integers(places), {frames, length});
  Term taken =
      n.graph().add("Gather", {signal, index}, signal.type, {signal.extent(0), frames, length, parts},
                    {onnx::MakeAttribute("axis", int64_t{1})});
  if (n.has(2)) taken = taken * reshape(n.x(2), {length, 1});
  n.finish(0, transform(taken, length, bins, false));
}

}  // namespace

std::vector<GradientRow> signal_gradients() {
  return {
      {"DFT", nullptr, dft},
      {"STFT", nullptr, stft},
  };
}

}  // namespace kodama::compiler::gradient
