#pragma once

#include <functional>
#include <string>

#include "compiler/package/compiled_model.h"

/// A compiled model as a directory that runs alone:
///
/// - `manifest.json`: chip (name and hash), tensors, stages, nodes of the host, layouts, files, how many
/// slices of the batch run;
/// - `programs/NNNN_NAME.vsm`: VSM of each segment, from its first stage on, loops unrolled. Stages are
///   regions, and the program runs alone once its operands are in DRAM, and the preparation has run. Of a
///   batch in slices it is that of one, which all of them run;
/// - `programs/preparation.vsm`, if constants stay in the PEs: brings them there, once, from the images;
/// - `images/NNNN_NAME.bin`: constant operands: LW, little endian, group after group;
/// - `constants/NNNN.bin`: constants that Host and Rearrange stages read: elements as they are in memory;
/// - `checksums`: CRC-32, size and name of every other file, a line each.
///
/// The directory is written under a temporary name, and then changes names with what was there, in one step.
namespace kodama::compiler {

/// Version of the format; a package of another version is refused.
inline constexpr int kPackageVersion = 13;

/// Whether save_package can write there: `directory` must not exist, be empty, or hold an earlier package and
/// no other file. UserError that names what is in the way.
void check_package_directory(const std::string& directory);

/// Writes `model` to `directory`, which check_package_directory must accept.
void save_package(const CompiledModel& model, const std::string& directory,
                  const std::function<void(int64_t, int64_t, const std::string&)>& progress = {});

/// Reads a package; UserError naming file and place for anything missing, truncated or inconsistent, or if
/// the chip file `chip_name` (empty: the one named in the manifest) is not the chip it was compiled for.
CompiledModel load_package(const std::string& directory, const std::string& chip_name = "",
                           const std::function<void(int64_t, int64_t, const std::string&)>& progress = {});

/// A package's files as one text behind `title`, and back without it; errors are those of load_package, and
/// begin with `where`.
std::string package_to_bytes(const CompiledModel& model, std::string_view title = {});
CompiledModel package_from_bytes(std::string_view bytes, const isa::Chip& chip, const std::string& where);

/// Writes `checksums` anew for the files that are there: for tests that damage packages on purpose.
void write_checksums(const std::string& directory);

/// Whether `path` is a directory with a manifest.
bool is_package(const std::string& path);

}  // namespace kodama::compiler
