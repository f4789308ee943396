#pragma once

#include <functional>
#include <string>

#include "compiler/driver/compiled_model.h"

/// A compiled model as a directory that runs alone:
///
/// - `manifest.json`: chip (name and hash), tensors, stages, layouts, files;
/// - `programs/NNNN_NAME.vsm`: VSM of each segment, from its first stage on, loops unrolled. Stages are
///   regions, and the program runs alone once its operands are in DRAM;
/// - `images/NNNN_NAME.bin`: constant operands: LW, little endian, group after group;
/// - `constants/NNNN.pb`: constants that Host and Move stages read;
/// - `host.onnx`: the nodes of Host stages.
///
/// The directory is written under a temporary name and renamed.
namespace kodama::compiler {

/// Version of the format; a package of another version is refused.
inline constexpr int kPackageVersion = 4;

/// Writes `model` to `directory`, which must not exist, be empty, or hold an earlier package (UserError).
void save_package(const CompiledModel& model, const std::string& directory,
                  const std::function<void(int64_t, int64_t, const std::string&)>& progress = {});

/// Reads a package; UserError naming file and place for anything missing, truncated or inconsistent, or if
/// the chip file `chip_name` (empty: the one named in the manifest) is not the chip it was compiled for.
CompiledModel load_package(const std::string& directory, const std::string& chip_name = "",
                           const std::function<void(int64_t, int64_t, const std::string&)>& progress = {});

/// Of a layer's or tensor's name what is safe in a file name.
std::string file_stem(const std::string& name);

/// Whether `path` is a directory with a manifest.
bool is_package(const std::string& path);

}  // namespace kodama::compiler
