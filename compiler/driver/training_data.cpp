#include "compiler/driver/training_data.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>

#include "compiler/proto/tensor_file.h"
#include "isa/error.h"

namespace kodama::compiler {

namespace {

constexpr DataType kFloat = DataType::kFloat32;
constexpr DataType kInt64 = DataType::kInt64;
constexpr const char* kMnist = "mnist:";

/// All bytes of a file, decompressed if it is one of gzip.
std::string read_maybe_compressed(const std::string& path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (file == nullptr) throw isa::UserError(fmt::format("{}: {}", path, std::strerror(errno)));
  std::string text;
  std::string block(size_t{1} << 20, '\0');
  for (;;) {
    const int count = gzread(file.get(), block.data(), static_cast<unsigned>(block.size()));
    if (count < 0) throw isa::UserError(fmt::format("{}: the file is damaged", path));
    if (count == 0) return text;
    text.append(block, 0, static_cast<size_t>(count));
  }
}

/// An idx file: a magic number whose last byte is the number of axes, their extents, bytes.
struct Idx {
  Shape shape;
  std::string bytes;
};
Idx read_idx(const std::string& path, size_t axes) {
  const std::string text = read_maybe_compressed(path);
  const auto word = [&](size_t at) {
    int64_t value = 0;
    for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(text[4 * at + i]);
    return value;
  };
  constexpr int64_t kBytes = 0x800;
  const size_t header = 4 * (axes + 1);
  if (text.size() < header || word(0) != kBytes + static_cast<int64_t>(axes))
    throw isa::UserError(fmt::format("{}: not an idx file of bytes with {} axes", path, axes));
  Idx idx;
  for (size_t axis = 0; axis < axes; ++axis) idx.shape.push_back(word(axis + 1));
  idx.bytes = text.substr(header);
  if (element_count(idx.shape) != static_cast<int64_t>(idx.bytes.size()))
    throw isa::UserError(fmt::format("{}: {} bytes of data; shape {} needs {}", path, idx.bytes.size(),
                                     shape_to_string(idx.shape), element_count(idx.shape)));
  return idx;
}

std::string find_idx(const std::string& directory, const std::string& what) {
  for (const char* set : {"train", "t10k"}) {
    for (const char* end : {"", ".gz"}) {
      const std::string path = fmt::format("{}/{}-{}-ubyte{}", directory, set, what, end);
      if (std::filesystem::exists(path)) return path;
    }
  }
  throw isa::UserError(
      fmt::format("{}: no train-{}-ubyte or t10k-{}-ubyte there, nor their .gz", directory, what, what));
}

}  // namespace

TrainingData::TrainingData(const std::vector<std::string>& sources) {
  for (const std::string& source : sources) {
    if (!source.starts_with(kMnist)) {
      tensors_.push_back({source, read_tensor_file(source)});
      continue;
    }
    const std::string directory = source.substr(std::strlen(kMnist));
    const std::string pictures_file = find_idx(directory, "images-idx3");
    const std::string labels_file = find_idx(directory, "labels-idx1");
    const Idx pictures = read_idx(pictures_file, 3);
    const Idx labels = read_idx(labels_file, 1);
    Tensor images(kFloat, {pictures.shape[0], 1, pictures.shape[1], pictures.shape[2]});
    std::ranges::transform(pictures.bytes, images.data<float>().begin(),
                           [](char byte) { return static_cast<float>(static_cast<uint8_t>(byte)) / 255.0F; });
    Tensor classes(kInt64, labels.shape);
    std::ranges::transform(labels.bytes, classes.data<int64_t>().begin(),
                           [](char byte) { return static_cast<uint8_t>(byte); });
    tensors_.push_back({pictures_file, std::move(images)});
    tensors_.push_back({labels_file, std::move(classes)});
  }
  for (const Source& source : tensors_) {
    const Shape& shape = source.tensor.shape();
    if (shape.empty() || shape[0] == 0)
      throw isa::UserError(
          fmt::format("{}: shape {}; the first axis counts examples, of which there is one at "
                      "least",
                      source.name, shape_to_string(shape)));
    if (&source == &tensors_.front()) count_ = shape[0];
    if (shape[0] != count_)
      throw isa::UserError(fmt::format("{}: {} examples, but {} has {}", source.name, shape[0],
                                       tensors_.front().name, count_));
  }
}

void TrainingData::fit(size_t number, const std::string& input, DataType type, const Shape& shape) {
  Source& source = tensors_.at(number);
  Tensor& tensor = source.tensor;
  if (type == kInt64 && tensor.type() != kInt64) {
    std::optional<Tensor> wide;
    const auto widen = [&](auto element) {
      wide.emplace(kInt64, tensor.shape());
      std::ranges::copy(tensor.data<decltype(element)>(), wide->data<int64_t>().begin());
    };
    if (tensor.type() == DataType::kInt32) widen(int32_t{});
    if (tensor.type() == DataType::kUint8) widen(uint8_t{});
    if (tensor.type() == DataType::kInt8) widen(int8_t{});
    if (wide) tensor = std::move(*wide);
  }
  Shape wanted = shape;
  if (!wanted.empty()) wanted[0] = count_;
  if (tensor.type() != type || tensor.shape() != wanted || shape.empty())
    throw isa::UserError(
        fmt::format("{}: {} {}; input '{}' wants {} {}, where the first axis counts examples", source.name,
                    data_type_name(tensor.type()), shape_to_string(tensor.shape()), input,
                    data_type_name(type), shape_to_string(wanted)));
  if (tensor.type() != kFloat && tensor.type() != DataType::kFloat64) return;
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const double value = element_as_double(tensor, i);
    if (!std::isfinite(value))
      throw isa::UserError(fmt::format("{}: element {} of example {} is {}; training needs numbers",
                                       source.name, i % (tensor.size() / count_),
                                       i / (tensor.size() / count_), value));
  }
}

void TrainingData::check_labels(size_t number, int64_t classes) const {
  const Source& source = tensors_.at(number);
  for (int64_t i = 0; i < source.tensor.size(); ++i) {
    const double label = element_as_double(source.tensor, i);
    if (label < 0 || label >= static_cast<double>(classes))
      throw isa::UserError(fmt::format("{}: the label of example {} is {}; 0 to {} is allowed", source.name,
                                       i / (source.tensor.size() / count_), label, classes - 1));
  }
}

Tensor TrainingData::batch(size_t number, const std::vector<int64_t>& examples) const {
  const Tensor& all = tensors_.at(number).tensor;
  Shape shape = all.shape();
  shape[0] = static_cast<int64_t>(examples.size());
  Tensor batch(all.type(), shape);
  const size_t row = all.byte_size() / static_cast<size_t>(count_);
  for (size_t i = 0; i < examples.size(); ++i)
    std::memcpy(batch.bytes().data() + i * row, all.bytes().data() + static_cast<size_t>(examples[i]) * row,
                row);
  return batch;
}

std::vector<int64_t> shuffled(int64_t count, uint64_t seed, int64_t epoch) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  // SplitMix64 and Fisher-Yates, so that a few lines of any language repeat it.
  uint64_t state = seed * 0x100000001b3 + static_cast<uint64_t>(epoch);
  const auto next = [&] {
    uint64_t bits = state += 0x9e3779b97f4a7c15;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
    return bits ^ bits >> 31;
  };
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[next() % i]);
  return order;
}

}  // namespace kodama::compiler
