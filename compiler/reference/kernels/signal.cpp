#include <cmath>
#include <complex>
#include <numbers>

#include "compiler/reference/kernels/doubles.h"
#include "compiler/reference/kernels/strided.h"

/// DFT, STFT, MelWeightMatrix. Complex numbers are a last axis of two; transforms are computed in double.
namespace kodama::compiler::reference {

namespace {

using Complex = std::complex<double>;

/// X[k] = Σ x[n] e^(∓2πi kn/N). An even N is split into two transforms of half the length.
std::vector<Complex> transform(const std::vector<Complex>& x, bool inverse) {
  const size_t count = x.size();
  const auto root = [&](size_t power) {
    const double turn =
        2 * std::numbers::pi * static_cast<double>(power % count) / static_cast<double>(count);
    return std::polar(1.0, inverse ? turn : -turn);
  };
  std::vector<Complex> result(count);
  if (count > 1 && count % 2 == 0) {
    std::vector<Complex> even;
    std::vector<Complex> odd;
    for (size_t n = 0; n < count; n += 2) {
      even.push_back(x[n]);
      odd.push_back(x[n + 1]);
    }
    even = transform(even, inverse);
    odd = transform(odd, inverse);
    for (size_t k = 0; k < count; ++k) result[k] = even[k % (count / 2)] + root(k) * odd[k % (count / 2)];
    return result;
  }
  std::vector<Complex> roots;
  for (size_t k = 0; k < count; ++k) roots.push_back(root(k));
  for (size_t k = 0; k < count; ++k) {
    for (size_t n = 0; n < count; ++n) result[k] += x[n] * roots[k * n % count];
  }
  return result;
}

/// A tensor whose last axis is one real or two parts of a complex number.
std::vector<Complex> complex_values(const NodeContext& context, const Tensor& tensor) {
  const auto parts = static_cast<size_t>(tensor.shape().back());
  const std::vector<double> from = as_doubles(context, tensor);
  std::vector<Complex> values;
  for (size_t i = 0; i < from.size(); i += parts) values.emplace_back(from[i], parts == 2 ? from[i + 1] : 0);
  return values;
}

Tensor complex_tensor(const NodeContext& context, DataType type, Shape shape,
                      const std::vector<Complex>& values) {
  shape.push_back(2);
  std::vector<double> parts;
  for (const Complex& value : values) {
    parts.push_back(value.real());
    parts.push_back(value.imag());
  }
  return from_doubles(context, type, shape, parts);
}

/// A number of elements that is an operand.
int64_t length_operand(const NodeContext& context, size_t input, const char* name) {
  const int64_t length = context.integer_scalar(input);
  context.require(length >= 1 && length < int64_t{1} << 31, "{} is {}; 1 to 2^31-1 is allowed", name, length);
  return length;
}

std::vector<Tensor> run_dft(const NodeContext& context) {
  const Tensor& x = context.input(0);
  context.require(x.rank() >= 2 && (x.shape().back() == 1 || x.shape().back() == 2),
                  "input has shape {}; allowed is [batch, signal..., 1 or 2]", shape_to_string(x.shape()));
  const bool inverse = context.int_attribute("inverse") != 0;
  const bool onesided = context.int_attribute("onesided") != 0;
  context.require(!onesided || (!inverse && x.shape().back() == 1),
                  "onesided is for the transform of real numbers, not for {}",
                  inverse ? "its inverse" : "complex ones");
  const size_t axis = context.axis(context.int_attribute("axis"), x.rank());
  context.require(static_cast<int64_t>(axis) < x.rank() - 1,
                  "axis is {}: the last axis holds parts of numbers", axis);
  const int64_t length = context.has_input(1) ? length_operand(context, 1, "dft_length") : x.shape()[axis];
  const std::vector<Complex> values = complex_values(context, x);
  const int64_t extent = x.shape()[axis];
  Shape shape(x.shape().begin(), x.shape().end() - 1);
  shape[axis] = onesided ? length / 2 + 1 : length;
  const int64_t inner = count_between(shape, axis + 1, shape.size());
  const int64_t outer = count_between(shape, 0, axis);
  std::vector<Complex> result(static_cast<size_t>(element_count(shape)));
  for (int64_t i = 0; i < outer; ++i) {
    for (int64_t j = 0; j < inner; ++j) {
      std::vector<Complex> line(static_cast<size_t>(length));  // shortened, or continued by zeros
      for (int64_t k = 0; k < std::min(extent, length); ++k) {
        line[static_cast<size_t>(k)] = values[static_cast<size_t>((i * extent + k) * inner + j)];
      }
      line = transform(line, inverse);
      for (int64_t k = 0; k < shape[axis]; ++k) {
        const Complex value = line[static_cast<size_t>(k)];
        result[static_cast<size_t>((i * shape[axis] + k) * inner + j)] =
            inverse ? value / static_cast<double>(length) : value;
      }
    }
  }
  return {complex_tensor(context, x.type(), shape, result)};
}

/// Frames of the signal, frame_step apart, each times the window and transformed.
std::vector<Tensor> run_stft(const NodeContext& context) {
  const Tensor& signal = context.input(0);
  context.require(signal.rank() == 3 && (signal.shape()[2] == 1 || signal.shape()[2] == 2),
                  "signal has shape {}; allowed is [batch, length, 1 or 2]", shape_to_string(signal.shape()));
  const int64_t step = length_operand(context, 1, "frame_step");
  const bool is_complex = signal.shape()[2] == 2;
  const bool onesided = context.int_attribute("onesided") != 0 && !is_complex;
  std::vector<double> window;
  if (context.has_input(2)) {
    const Tensor& given = context.input(2);
    context.require(given.rank() == 1, "window has shape {}; allowed is a list",
                    shape_to_string(given.shape()));
    window = as_doubles(context, given);
  }
  context.require(context.has_input(2) || context.has_input(3), "neither window nor frame_length is given");
  const int64_t length =
      context.has_input(3) ? length_operand(context, 3, "frame_length") : std::ssize(window);
  if (!context.has_input(2)) window.assign(static_cast<size_t>(length), 1.0);
  const int64_t batch = signal.shape()[0];
  const int64_t samples = signal.shape()[1];
  context.require(std::ssize(window) == length, "the window has {} elements, frame_length is {}",
                  window.size(), length);
  context.require(length >= 1 && length <= samples,
                  "a frame of {} elements; 1 to {}, the length of the signal, is allowed", length, samples);
  const int64_t frames = (samples - length) / step + 1;
  const int64_t bins = onesided ? length / 2 + 1 : length;
  const std::vector<Complex> values = complex_values(context, signal);
  std::vector<Complex> result;
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t frame = 0; frame < frames; ++frame) {
      std::vector<Complex> line;
      for (int64_t k = 0; k < length; ++k) {
        line.push_back(values[static_cast<size_t>(n * samples + frame * step + k)] *
                       window[static_cast<size_t>(k)]);
      }
      line = transform(line, false);
      result.insert(result.end(), line.begin(), line.begin() + bins);
    }
  }
  return {complex_tensor(context, signal.type(), {batch, frames, bins}, result)};
}

/// Triangles of height 1 over the bins of a spectrum, with corners that are equally far apart in mel.
std::vector<Tensor> run_mel_weight_matrix(const NodeContext& context) {
  const int64_t bands = length_operand(context, 0, "num_mel_bins");
  const int64_t dft_length = length_operand(context, 1, "dft_length");
  const auto sample_rate = static_cast<double>(length_operand(context, 2, "sample_rate"));
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = mel(context.scalar(3));
  const double high = mel(context.scalar(4));
  context.require(std::isfinite(low) && std::isfinite(high),
                  "from {} to {} Hz; frequencies of 0 and more are allowed", context.scalar(3),
                  context.scalar(4));
  const int64_t bins = dft_length / 2 + 1;
  Tensor result(static_cast<DataType>(context.int_attribute("output_datatype")), {bins, bands});
  // As in ONNX's test data the step is that of bands + 2 intervals, though bands + 2 corners have one less.
  const double step = (high - low) / static_cast<double>(bands + 2);
  std::vector<int64_t> corners;
  for (int64_t k = 0; k < bands + 2; ++k) {
    const double hertz = 700 * (std::pow(10, (low + static_cast<double>(k) * step) / 2595) - 1);
    const double bin = std::floor(static_cast<double>(dft_length + 1) * hertz / sample_rate);
    // The last corner of a triangle is outside it.
    context.require(bin >= 0 && bin < static_cast<double>(bins) + (k == bands + 1 ? 1 : 0),
                    "a band at {:.0f} Hz is in bin {} of a spectrum of {} bins", hertz, bin, bins);
    corners.push_back(static_cast<int64_t>(bin));
  }
  for_number_type(context, result.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto to = result.data<T>();
    for (size_t band = 0; band < static_cast<size_t>(bands); ++band) {
      const int64_t left = corners[band];
      const int64_t center = corners[band + 1];
      const int64_t right = corners[band + 2];
      const auto set = [&](int64_t bin, double value) {
        to[static_cast<size_t>(bin * bands) + band] = to_element<T>(value);
      };
      for (int64_t bin = left; bin < center; ++bin) {
        set(bin, static_cast<double>(bin - left) / static_cast<double>(center - left));
      }
      set(center, 1);
      for (int64_t bin = center + 1; bin < right; ++bin) {
        set(bin, static_cast<double>(right - bin) / static_cast<double>(right - center));
      }
    }
  });
  return {result};
}

}  // namespace

void register_signal(KernelRegistry& registry) {
  registry.add("DFT", run_dft);
  registry.add("STFT", run_stft);
  registry.add("MelWeightMatrix", run_mel_weight_matrix);
}

}  // namespace kodama::compiler::reference
