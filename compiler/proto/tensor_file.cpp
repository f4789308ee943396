#include "compiler/proto/tensor_file.h"

#include <fmt/format.h>

#include <filesystem>

#include "compiler/proto/tensor_proto.h"
#include "compiler/tensor/numpy_file.h"
#include "isa/file.h"

namespace kodama::compiler {

using isa::UserError;

Tensor read_tensor_file(const std::string& path, const std::string& member) {
  const std::string extension = std::filesystem::path(path).extension().string();
  if (extension == ".pb") return tensor_from_bytes(isa::read_file(path), path);
  if (extension == ".npy" || extension == ".npz") return read_numpy_file(path, member);
  throw UserError(
      fmt::format("{}: unknown kind of tensor file '{}'; allowed are .pb, .npy and .npz", path, extension));
}

void write_tensor_file(const std::string& path, const Tensor& tensor, const std::string& name) {
  const std::string extension = std::filesystem::path(path).extension().string();
  if (extension == ".pb") {
    isa::write_file_atomically(path, tensor_to_proto(tensor, name).SerializeAsString());
  } else if (extension == ".npy") {
    write_numpy_file(path, tensor);
  } else {
    throw UserError(
        fmt::format("{}: unknown kind of tensor file '{}'; allowed are .pb and .npy", path, extension));
  }
}

}  // namespace kodama::compiler
