#include "compiler/graph/external_data.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include "compiler/graph/onnx_model.h"
#include "compiler/graph/walk.h"

namespace kodama::compiler {

namespace {

namespace fs = std::filesystem;

/// A file of data, open as long as tensors are read: most models have hundreds of tensors in one file.
struct DataFile {
  std::ifstream stream;
  int64_t size = 0;
};

class ExternalDataLoader {
 public:
  ExternalDataLoader(const std::string& directory, const std::string& where)
      : directory_(directory.empty() ? "." : directory), where_(where) {}

  void load(onnx::TensorProto& tensor, const std::string& what) {
    if (tensor.data_location() != onnx::TensorProto_DataLocation_EXTERNAL) {
      tensor.clear_external_data();  // says nothing
      return;
    }
    what_ = what;
    std::string location;
    int64_t offset = 0;
    std::optional<int64_t> length;
    for (const auto& entry : tensor.external_data()) {
      if (entry.key() == "location") location = entry.value();
      if (entry.key() == "offset") offset = number(entry.key(), entry.value());
      if (entry.key() == "length") length = number(entry.key(), entry.value());
    }
    if (location.empty()) fail("its data are external, but no location says in which file");
    const int64_t needed = byte_count(tensor);
    if (length && *length != needed) {
      fail("the length of its data in '{}' is given as {} bytes; its type and shape ({}) need {}", location,
           *length, type_of(tensor), needed);
    }
    DataFile& file = open(location);
    if (offset > file.size || needed > file.size - offset) {
      fail(
          "its data are too short: file '{}' has {} bytes, of which {} from offset {}; its type and shape "
          "({}) need {}",
          location, file.size, std::max<int64_t>(file.size - offset, 0), offset, type_of(tensor), needed);
    }
    std::string& data = *tensor.mutable_raw_data();
    data.resize(static_cast<size_t>(needed));
    file.stream.seekg(offset);
    file.stream.read(data.data(), needed);
    if (file.stream.gcount() != needed) {
      fail("file '{}' can't be read: {} bytes came, {} are needed", location, file.stream.gcount(), needed);
    }
    tensor.clear_external_data();
    tensor.clear_data_location();
  }

 private:
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw isa::UserError(
        fmt::format("{}: {}: {}", where_, what_, fmt::format(format, std::forward<Args>(args)...)));
  }

  int64_t number(const std::string& key, const std::string& text) const {
    int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stop != end || value < 0) {
      fail("the {} of its external data is '{}'; a number of bytes is needed", key, text);
    }
    return value;
  }

  static std::string type_of(const onnx::TensorProto& tensor) {
    return type_to_string(make_tensor_type(static_cast<DataType>(tensor.data_type()),
                                           Shape(tensor.dims().begin(), tensor.dims().end())));
  }

  int64_t byte_count(const onnx::TensorProto& tensor) const {
    const auto type = static_cast<DataType>(tensor.data_type());
    const auto size = is_data_type(tensor.data_type()) ? static_cast<int64_t>(element_size(type)) : 0;
    if (size == 0) {
      fail("external data of type {} can't be read; types whose elements are whole bytes can",
           data_type_name(type));
    }
    int64_t bytes = size;
    for (int64_t extent : tensor.dims()) {
      if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes))
        fail("its shape {} is no shape of a tensor",
             shape_to_string(Shape(tensor.dims().begin(), tensor.dims().end())));
    }
    return bytes;
  }

  DataFile& open(const std::string& location) {
    const auto [it, is_new] = files_.try_emplace(location);
    DataFile& file = it->second;
    if (!is_new) return file;
    const fs::path path(location);
    const auto leads_out = [&] {
      return path.is_absolute() || std::ranges::find(path, fs::path("..")) != path.end();
    };
    if (leads_out()) {
      fail("its data are in '{}'; a path inside the model's folder is allowed", location);
    }
    const fs::path full = directory_ / path;
    std::error_code error;
    const fs::path resolved = fs::canonical(full, error);
    if (error) fail("its data are in '{}', which can't be found: {}", full.string(), error.message());
    const fs::path root = fs::canonical(directory_, error);
    if (std::mismatch(root.begin(), root.end(), resolved.begin(), resolved.end()).first != root.end()) {
      fail("its data are in '{}', a symbolic link that leads out of the model's folder to '{}'",
           full.string(), resolved.string());
    }
    if (!fs::is_regular_file(resolved, error)) {
      fail("its data are in '{}', which is no regular file", full.string());
    }
    file.stream.open(resolved, std::ios::binary);
    file.size = static_cast<int64_t>(fs::file_size(resolved, error));
    if (!file.stream || error) fail("its data are in '{}', which can't be opened", full.string());
    return file;
  }

  const fs::path directory_;
  const std::string& where_;
  std::string what_;  ///< the tensor that is being read
  std::map<std::string, DataFile> files_;
};

}  // namespace

void load_external_data(onnx::ModelProto& model, const std::string& directory, const std::string& where) {
  ExternalDataLoader loader(directory, where);
  for_each_tensor(model,
                  [&](onnx::TensorProto& tensor, const std::string& what) { loader.load(tensor, what); });
}

}  // namespace kodama::compiler
