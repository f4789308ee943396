#include "compiler/package/package.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "assembler/assembler.h"
#include "compiler/package/file_names.h"
#include "compiler/package/node_json.h"
#include "compiler/package/package_check.h"
#include "isa/file.h"
#include "isa/json_value.h"
#include "isa/output.h"
#include "isa/temporary.h"

namespace kodama::compiler {
namespace {

namespace fs = std::filesystem;
using isa::JsonValue;
using nlohmann::json;
using nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little, "images are written as the host has them");

// --- JSON of the parts ----------------------------------------------------------------------------------

/// JSON has no infinities.
ordered_json number_to_json(double value) {
  if (value == std::numeric_limits<double>::infinity()) return "inf";
  if (value == -std::numeric_limits<double>::infinity()) return "-inf";
  return value;
}

ordered_json map_to_json(const AffineMap& map, size_t dims) {
  ordered_json j = ordered_json::array();
  for (size_t axis = 0; axis < map.axes(); ++axis) {
    ordered_json row = ordered_json::array({map.offset(axis)});
    for (size_t d = 0; d < dims; ++d) row.push_back(map.coefficient(axis, d));
    j.push_back(row);
  }
  return j;
}

ordered_json work_to_json(const ProblemWork& work) {
  return {{"products", work.products},
          {"mau_operations", work.mau_operations},
          {"alu_operations", work.alu_operations},
          {"dram_bytes", work.dram_bytes}};
}
ProblemWork read_work(const JsonValue& j) {
  j.allow({"products", "mau_operations", "alu_operations", "dram_bytes"});
  const auto count = [&](const char* key) {
    const double value = j.at(key).number();
    if (!(value >= 0 && std::isfinite(value))) j.at(key).fail("a finite number, 0 or more");
    return value;
  };
  return {count("products"), count("mau_operations"), count("alu_operations"), count("dram_bytes")};
}

AffineMap read_map(const JsonValue& j, size_t dims) {
  const std::vector<JsonValue> rows = j.list();
  AffineMap map(rows.size(), dims);
  for (size_t axis = 0; axis < rows.size(); ++axis) {
    const std::vector<int64_t> numbers = rows[axis].integers();
    if (numbers.size() != dims + 1) rows[axis].fail(fmt::format("{} numbers", dims + 1));
    map.set_offset(axis, numbers[0]);
    for (size_t d = 0; d < dims; ++d) map.set(axis, d, numbers[d + 1]);
  }
  return map;
}

ordered_json access_to_json(const TensorAccess& access, size_t dims) {
  return {{"tensor", access.tensor},
          {"map", map_to_json(access.map, dims)},
          {"fill", number_to_json(access.fill)}};
}
TensorAccess read_access(const JsonValue& j, size_t dims) {
  j.allow({"tensor", "map", "fill"});
  return {j.at("tensor").small_integer(), read_map(j.at("map"), dims), j.at("fill").number()};
}

/// Enumerations are written as their numbers' names in this order.
constexpr std::array<const char*, 3> kL1bModes = {"distribute", "broadcast", "parity"};
constexpr std::array<const char*, 3> kMabModes = {"distribute", "broadcast MABs", "broadcast PEs"};
constexpr std::array<const char*, 5> kPaddings = {"undefined", "zero", "-inf", "+inf", "one"};
constexpr std::array<const char*, 3> kOrigins = {"preloaded", "sent", "on chip"};

ordered_json placement_to_json(const StreamPlacement& placement) {
  return {{"name", placement.name},
          {"access", access_to_json(placement.access, placement.extents.size())},
          {"extents", placement.extents},
          {"axes", placement.axis_dims},
          {"layout", placement.layout.to_string()},
          {"padding", kPaddings[static_cast<size_t>(placement.layout.padding())]},
          {"l2b", layout::kL2bModeNames[static_cast<size_t>(placement.transport.l2b_mode())]},
          {"l1b", kL1bModes[static_cast<size_t>(placement.transport.l1b_mode())]},
          {"mab", kMabModes[static_cast<size_t>(placement.transport.mab_mode())]},
          {"length_lw", placement.length_lw},
          {"element", kStreamElementNames.at(static_cast<size_t>(placement.element))}};
}
StreamPlacement read_placement(const JsonValue& j, const isa::Chip& chip, bool is_output) {
  StreamPlacement placement;
  placement.name = j.at("name").text();
  placement.is_output = is_output;
  placement.extents = j.at("extents").integers();
  placement.access = read_access(j.at("access"), placement.extents.size());
  placement.axis_dims = j.at("axes").list_of([](const JsonValue& axis) { return axis.small_integers(); });
  placement.layout =
      j.at("layout").parsed([](const std::string& text) { return layout::Layout::parse(text); });
  placement.layout.set_padding(j.at("padding").one_of<layout::Padding>(kPaddings));
  placement.transport = layout::Transport(chip, j.at("l2b").one_of<layout::L2bMode>(layout::kL2bModeNames),
                                          j.at("l1b").one_of<layout::L1bMode>(kL1bModes),
                                          j.at("mab").one_of<layout::MabMode>(kMabModes));
  placement.length_lw = j.at("length_lw").integer();
  placement.element = j.at("element").one_of<StreamElement>(kStreamElementNames);
  return placement;
}

ordered_json rearrange_to_json(const RearrangeLayer& rearrange) {
  ordered_json pieces = ordered_json::array();
  for (const RearrangeLayer::Piece& piece : rearrange.pieces) {
    pieces.push_back({{"input", access_to_json(piece.input, rearrange.extents.size())},
                      {"begin", piece.begin},
                      {"end", piece.end}});
  }
  return {{"extents", rearrange.extents}, {"fill", number_to_json(rearrange.fill)}, {"pieces", pieces}};
}
RearrangeLayer read_rearrange(const JsonValue& j) {
  j.allow({"extents", "fill", "pieces"});
  RearrangeLayer rearrange;
  rearrange.extents = j.at("extents").integers();
  rearrange.fill = j.at("fill").number();
  rearrange.pieces = j.at("pieces").list_of([&](const JsonValue& piece) -> RearrangeLayer::Piece {
    piece.allow({"input", "begin", "end"});
    return {read_access(piece.at("input"), rearrange.extents.size()), piece.at("begin").integers(),
            piece.at("end").integers()};
  });
  return rearrange;
}

// --- files ----------------------------------------------------------------------------------------------

constexpr const char* kManifest = "manifest.json";
constexpr const char* kChecksums = "checksums";

/// Where the files of a package are, by their names in it.
class PackageFiles {
 public:
  using Contents = std::function<void(const isa::Output&)>;

  PackageFiles() = default;
  PackageFiles(const PackageFiles&) = delete;
  PackageFiles& operator=(const PackageFiles&) = delete;
  virtual ~PackageFiles() = default;

  /// What messages call a file.
  virtual std::string path(const std::string& name) const = 0;
  virtual bool has(const std::string& name) const = 0;
  /// UserError when it can't be read.
  virtual std::string read(const std::string& name) const = 0;
  virtual void write(const std::string& name, const Contents& contents) = 0;
  void write(const std::string& name, const std::string& text) {
    write(name, [&](const isa::Output& output) { output(text); });
  }
};

class FilesInDirectory : public PackageFiles {
 public:
  using PackageFiles::write;

  explicit FilesInDirectory(fs::path directory) : directory_(std::move(directory)) {}

  std::string path(const std::string& name) const override { return (directory_ / name).string(); }
  bool has(const std::string& name) const override {
    std::error_code error;
    return fs::status(directory_ / name, error).type() != fs::file_type::not_found;
  }
  std::string read(const std::string& name) const override { return isa::read_file(path(name)); }
  void write(const std::string& name, const Contents& contents) override {
    isa::write_file_atomically(path(name), contents);
  }

 private:
  fs::path directory_;
};

class FilesInMemory : public PackageFiles {
 public:
  using PackageFiles::write;

  /// `where` begins the messages.
  explicit FilesInMemory(std::string where) : where_(std::move(where)) {}

  std::string path(const std::string& name) const override { return where_ + ": " + name; }
  bool has(const std::string& name) const override { return files_.contains(name); }
  std::string read(const std::string& name) const override {
    const auto found = files_.find(name);
    if (found == files_.end()) throw isa::UserError(path(name) + ": is missing");
    return found->second;
  }
  void write(const std::string& name, const Contents& contents) override {
    std::string& text = files_[name];
    text.clear();
    contents([&](std::string_view piece) { text += piece; });
  }
  std::map<std::string, std::string>& all() { return files_; }

 private:
  std::string where_;
  std::map<std::string, std::string> files_;
};

// --- checksums ------------------------------------------------------------------------------------------

/// Names of files in a package, and the CRC-32 and the size of each.
struct FileSum {
  uint32_t crc = 0;
  size_t bytes = 0;
  bool operator==(const FileSum&) const = default;
};
using FileSums = std::map<std::string, FileSum>;

FileSum sum_of(const std::string& contents) {
  return {static_cast<uint32_t>(
              ::crc32_z(0, reinterpret_cast<const unsigned char*>(contents.data()), contents.size())),
          contents.size()};
}

std::string to_string(const FileSums& sums) {
  std::string text;
  for (const auto& [name, sum] : sums) text += fmt::format("{:08x} {} {}\n", sum.crc, sum.bytes, name);
  return text;
}

/// The files that a package has by its own account. UserError unless that is as it was written, to the byte.
FileSums read_sums(const PackageFiles& files) {
  const std::string path = files.path(kChecksums);
  if (!files.has(kChecksums))
    throw isa::UserError(fmt::format("{}: is missing; the package is of another version or damaged", path));
  const std::string text = files.read(kChecksums);
  FileSums sums;
  std::istringstream lines(text);
  lines.imbue(std::locale::classic());
  FileSum sum;
  std::string name;
  while (lines >> std::hex >> sum.crc >> std::dec >> sum.bytes && lines.get() == ' ' &&
         std::getline(lines, name)) {
    const fs::path file = name;
    if (file.is_absolute() || std::find(file.begin(), file.end(), "..") != file.end())
      throw isa::UserError(fmt::format("{}: file name \"{}\" leads out of the package", path, name));
    sums[name] = sum;
  }
  if (to_string(sums) != text)
    throw isa::UserError(fmt::format(
        "{}: found something else than lines of checksum, size and file; the package is damaged", path));
  return sums;
}

void check_sums(const PackageFiles& files, const FileSums& sums) {
  for (const auto& [name, sum] : sums) {
    const std::string path = files.path(name);
    const FileSum found = sum_of(files.read(name));
    if (found != sum)
      throw isa::UserError(fmt::format(
          "{}: the package is damaged: found {} bytes with checksum {:08x}, written were {} with {:08x}",
          path, found.bytes, found.crc, sum.bytes, sum.crc));
  }
}

constexpr std::array<const char*, 3> kFolders = {"programs", "images", "constants"};

// --- saving ---------------------------------------------------------------------------------------------

class PackageWriter {
 public:
  PackageWriter(const CompiledModel& model, PackageFiles& files) : model_(model), files_(files) {}

  /// All files but the checksums.
  void write(const std::function<void(int64_t, int64_t, const std::string&)>& progress) {
    ordered_json manifest;
    manifest["format"] = "kodama package";
    manifest["version"] = kPackageVersion;
    manifest["model"] = model_.name;
    manifest["chip"] = {{"name", model_.chip.name}, {"hash", model_.chip.hash}};
    manifest["precision"] = matrix_precision_name(model_.precision);
    manifest["inputs"] = model_.inputs;
    manifest["outputs"] = model_.outputs;
    manifest["checks"] = ordered_json::array();
    for (const Check& check : model_.checks)
      manifest["checks"].push_back({{"tensor", check.tensor},
                                    {"message", check.message},
                                    {"lowest", check.lowest},
                                    {"highest", check.highest}});
    manifest["work"] = work_to_json(model_.work);
    manifest["slices"] = model_.slices;
    manifest["keeps_inputs"] = model_.keeps_inputs;
    manifest["ties"] = ordered_json::array();
    for (const Tie& tie : model_.ties)
      manifest["ties"].push_back({{"output", tie.output}, {"input", tie.input}, {"fetch", tie.fetch}});
    manifest["tensors"] = tensors();
    manifest["images"] = images();
    ordered_json stages = ordered_json::array();
    const auto count = static_cast<int64_t>(model_.stages.size());
    for (int64_t index = 0; index < count; ++index) {
      const Stage& stage = model_.stages[static_cast<size_t>(index)];
      if (progress) progress(index, count, stage.name);
      stages.push_back(stage_to_json(stage));
    }
    manifest["stages"] = stages;
    manifest["segments"] = segments();
    if (!model_.preparation.statements.empty()) {
      const std::string file = "programs/preparation.vsm";
      write_program(file, model_.preparation);
      manifest["preparation"] = file;
    }
    if (progress) progress(count, count, "");
    files_.write(kManifest, manifest.dump(1) + "\n");
  }

 private:
  ordered_json tensors() {
    ordered_json list = ordered_json::array();
    for (size_t id = 0; id < model_.tensors.size(); ++id) {
      const LayerTensor& tensor = model_.tensors[id];
      ordered_json j = {{"name", tensor.name},
                        {"type", data_type_name(tensor.type)},
                        {"type_code", static_cast<int>(tensor.type)},
                        {"shape", tensor.shape},
                        {"alias_of", tensor.alias_of},
                        {"slice_axis", model_.slice_axes[id]}};
      if (tensor.constant) {
        j["constant"] = write_tensor(tensor_bytes(*tensor.constant));
      }
      list.push_back(j);
    }
    return list;
  }

  ordered_json images() {
    ordered_json list = ordered_json::array();
    int number = 0;
    for (const CompiledModel::Preload& preload : model_.preloads) {
      const std::string file = fmt::format("images/{:04}_{}.bin", number++, file_stem(preload.name));
      std::vector<int64_t> sizes;
      files_.write(file, [&](const isa::Output& output) {
        for (const auto& group : preload.image.groups) {
          sizes.push_back(static_cast<int64_t>(group.size()));
          output({reinterpret_cast<const char*>(group.data()), group.size() * sizeof(uint64_t)});
        }
      });
      list.push_back({{"name", preload.name},
                      {"dram_address", preload.dram_address},
                      {"lw_per_group", sizes},
                      {"file", file}});
    }
    return list;
  }

  ordered_json stage_to_json(const Stage& stage) {
    ordered_json j = {
        {"name", stage.name},         {"kind", layer_kind_name(stage.kind)}, {"operation", stage.operation},
        {"onnx_ops", stage.onnx_ops}, {"onnx_nodes", stage.onnx_nodes},      {"inputs", stage.inputs},
        {"outputs", stage.outputs}};
    if (const auto* chip = std::get_if<ChipStage>(&stage.body)) {
      j["kernel"] = chip->kernel;
      j["description"] = chip->description;
      j["predicted_cycles"] = chip->predicted_cycles;
      j["operands"] = ordered_json::array();
      for (const StreamBinding& operand : chip->operands) j["operands"].push_back(binding_to_json(operand));
      j["result"] = binding_to_json(chip->result);
      j["dram_cycles"] = chip->dram_cycles;
      j["fetch"] = chip->fetch;
      j["stored"] = chip->stored;
      j["work"] = work_to_json(chip->work);
    } else if (const auto* rearrange = std::get_if<RearrangeStage>(&stage.body)) {
      j["rearrange"] = rearrange_to_json(rearrange->rearrange);
    } else {
      const auto& host = std::get<HostStage>(stage.body);
      j["reason"] = host.reason;
      j["node"] =
          node_to_json(host.node, [&](const std::string& contents) { return write_tensor(contents); });
    }
    return j;
  }

  std::string write_tensor(const std::string& contents) {
    std::string file = fmt::format("constants/{:04}.bin", tensors_++);
    files_.write(file, contents);
    return file;
  }

  void write_program(const std::string& file, const isa::Program& program) {
    files_.write(file, [&](const isa::Output& output) {
      assembler::print(program, [&](std::string_view piece) { output(piece); });
    });
  }

  ordered_json segments() {
    ordered_json list = ordered_json::array();
    for (const Segment& segment : model_.segments) {
      const Stage& first = model_.stages[static_cast<size_t>(segment.first_stage)];
      const std::string file =
          fmt::format("programs/{:04}_{}.vsm", segment.first_stage, file_stem(first.name));
      write_program(file, segment.parts.program);
      list.push_back(
          {{"first_stage", segment.first_stage}, {"stages", segment.stage_count()}, {"program", file}});
    }
    return list;
  }

  static ordered_json binding_to_json(const StreamBinding& binding) {
    ordered_json j = placement_to_json(binding.placement);
    j["dram_address"] = binding.dram_address;
    j["origin"] = kOrigins[static_cast<size_t>(binding.origin)];
    j["host_relayout"] = binding.host_relayout;
    return j;
  }

  const CompiledModel& model_;
  PackageFiles& files_;
  int tensors_ = 0;  ///< files
};

// --- loading --------------------------------------------------------------------------------------------

class PackageReader {
 public:
  PackageReader(const PackageFiles& files, CompiledModel& model) : files_(files), model_(model) {}

  /// `chip`: that it must be for; nothing: the one that the manifest names.
  void read(const std::optional<isa::Chip>& chip,
            const std::function<void(int64_t, int64_t, const std::string&)>& progress) {
    const std::string file_name = files_.path(kManifest);
    sums_ = read_sums(files_);
    check_sums(files_, sums_);
    if (!sums_.contains(kManifest))
      throw isa::UserError(fmt::format("{}: has no checksum in '{}'", file_name, kChecksums));
    const std::string text = files_.read(kManifest);
    const ordered_json json = isa::parse_json(text, file_name);
    const JsonValue manifest(json, file_name);
    if (!manifest.has("format") || json["format"] != "kodama package")
      throw isa::UserError(file_name + ": this is not of a kodama package");
    if (!manifest.has("version") || json["version"] != kPackageVersion) {
      throw isa::UserError(fmt::format("{}: found package version {}, allowed is {}; compile the model again",
                                       file_name, json.value("version", ordered_json()).dump(),
                                       kPackageVersion));
    }
    manifest.allow({"format", "version", "model", "chip", "precision", "inputs", "outputs", "checks", "work",
                    "slices", "keeps_inputs", "ties", "tensors", "images", "stages", "segments",
                    "preparation"});
    model_.name = manifest.at("model").text();
    read_chip(manifest.at("chip"), chip);
    model_.precision = manifest.at("precision").parsed(parse_matrix_precision);
    model_.inputs = manifest.at("inputs").small_integers();
    model_.outputs = manifest.at("outputs").small_integers();
    model_.checks = manifest.at("checks").list_of([](const JsonValue& j) {
      j.allow({"tensor", "message", "lowest", "highest"});
      return Check{j.at("tensor").small_integer(), j.at("message").text(), j.at("lowest").integer(),
                   j.at("highest").integer()};
    });
    model_.work = read_work(manifest.at("work"));
    model_.slices = manifest.at("slices").integer();
    model_.keeps_inputs = manifest.at("keeps_inputs").flag();
    model_.ties = manifest.at("ties").list_of([](const JsonValue& j) {
      j.allow({"output", "input", "fetch"});
      Tie tie;
      tie.output = j.at("output").small_integer();
      tie.input = j.at("input").small_integer();
      tie.fetch = j.at("fetch").flag();
      return tie;
    });
    model_.slice_axes =
        manifest.at("tensors").list_of([](const JsonValue& j) { return j.at("slice_axis").small_integer(); });
    model_.tensors = manifest.at("tensors").list_of([&](const JsonValue& j) { return tensor(j); });
    model_.preloads = manifest.at("images").list_of([&](const JsonValue& j) { return image(j); });
    const std::vector<JsonValue> stages = manifest.at("stages").list();
    for (size_t k = 0; k < stages.size(); ++k) {
      model_.stages.push_back(stage(stages[k]));
      if (progress)
        progress(static_cast<int64_t>(k), static_cast<int64_t>(stages.size()), model_.stages.back().name);
    }
    model_.segments = manifest.at("segments").list_of([&](const JsonValue& j) { return segment(j); });
    if (manifest.has("preparation")) model_.preparation = program(manifest.at("preparation"));
    try {
      check_package_model(model_);
    } catch (const isa::UserError& error) {
      throw isa::UserError(fmt::format("{}: {}", file_name, error.what()));
    }
    if (progress) progress(static_cast<int64_t>(stages.size()), static_cast<int64_t>(stages.size()), "");
  }

 private:
  void read_chip(const JsonValue& j, const std::optional<isa::Chip>& chip) {
    j.allow({"name", "hash"});
    const std::string name = j.at("name").text();
    const std::string hash = j.at("hash").text();
    model_.chip = chip ? *chip : j.at("name").parsed(isa::find_chip);
    if (hash != model_.chip.hash) {
      throw isa::UserError(
          fmt::format("{}: compiled for chip '{}' with hash {}, but {} has hash {}; compile the model again",
                      files_.path(kManifest), name, hash, model_.chip.source_file, model_.chip.hash));
    }
  }

  /// The name of a file of the package: its checksum has been checked.
  std::string file(const JsonValue& j) const {
    std::string name = j.text();
    if (!sums_.contains(name)) j.fail(fmt::format("files of the package, which are in '{}'", kChecksums));
    return name;
  }
  isa::Program program(const JsonValue& j) const {
    const std::string name = file(j);
    return assembler::assemble(files_.read(name), files_.path(name), model_.chip);
  }

  LayerTensor tensor(const JsonValue& j) const {
    j.allow({"name", "type", "type_code", "shape", "alias_of", "slice_axis", "constant"});
    LayerTensor tensor;
    tensor.name = j.at("name").text();
    const int code = j.at("type_code").small_integer();
    if (!is_data_type(code)) j.at("type_code").fail("an element type of ONNX");
    tensor.type = static_cast<DataType>(code);
    if (j.at("type").text() != data_type_name(tensor.type))
      j.at("type").fail(fmt::format("{}, as type_code says", data_type_name(tensor.type)));
    tensor.shape = j.at("shape").integers();
    tensor.alias_of = j.at("alias_of").small_integer();
    if (j.has("constant")) {
      const std::string name = file(j.at("constant"));
      tensor.constant = tensor_of_bytes(tensor.type, tensor.shape, files_.read(name), files_.path(name));
    }
    return tensor;
  }

  CompiledModel::Preload image(const JsonValue& j) const {
    j.allow({"name", "dram_address", "lw_per_group", "file"});
    CompiledModel::Preload preload;
    preload.name = j.at("name").text();
    preload.dram_address = j.at("dram_address").integer();
    const std::string path = file(j.at("file"));
    const std::string bytes = files_.read(path);
    size_t at = 0;
    for (const JsonValue& size : j.at("lw_per_group").list()) {
      const auto left = static_cast<int64_t>((bytes.size() - at) / sizeof(uint64_t));
      const auto lw = static_cast<size_t>(size.integer(0, left));
      std::vector<uint64_t> group(lw);
      if (lw > 0) std::memcpy(group.data(), bytes.data() + at, lw * sizeof(uint64_t));
      at += lw * sizeof(uint64_t);
      preload.image.groups.push_back(std::move(group));
    }
    if (at != bytes.size())
      j.at("lw_per_group").fail(fmt::format("{} bytes in all, as {} has", bytes.size(), path));
    return preload;
  }

  StreamBinding binding(const JsonValue& j, bool is_output) const {
    j.allow({"name", "access", "extents", "axes", "layout", "padding", "l2b", "l1b", "mab", "length_lw",
             "element", "dram_address", "origin", "host_relayout"});
    StreamBinding binding;
    binding.placement = read_placement(j, model_.chip, is_output);
    binding.dram_address = j.at("dram_address").integer();
    binding.origin = j.at("origin").one_of<StreamBinding::Origin>(kOrigins);
    binding.host_relayout = j.at("host_relayout").flag();
    return binding;
  }

  Stage stage(const JsonValue& j) const {
    Stage stage;
    stage.name = j.at("name").text();
    stage.kind = j.at("kind").one_of<LayerKind>(kLayerKindNames);
    stage.operation = j.at("operation").text();
    stage.onnx_ops = j.at("onnx_ops").texts();
    stage.onnx_nodes = j.at("onnx_nodes").texts();
    stage.inputs = j.at("inputs").small_integers();
    stage.outputs = j.at("outputs").small_integers();
    if (j.has("kernel")) {
      stage.body = chip_stage(j);
    } else if (j.has("rearrange")) {
      j.allow({"name", "kind", "operation", "onnx_ops", "onnx_nodes", "inputs", "outputs", "rearrange"});
      stage.body = RearrangeStage{read_rearrange(j.at("rearrange"))};
    } else {
      stage.body = host_stage(j);
    }
    return stage;
  }
  ChipStage chip_stage(const JsonValue& j) const {
    j.allow({"name", "kind", "operation", "onnx_ops", "onnx_nodes", "inputs", "outputs", "kernel",
             "description", "predicted_cycles", "operands", "result", "dram_cycles", "fetch", "stored",
             "work"});
    constexpr int64_t kMostCycles = int64_t{1} << 53;
    ChipStage chip;
    chip.kernel = j.at("kernel").text();
    chip.description = j.at("description").text();
    chip.predicted_cycles = j.at("predicted_cycles").integer(0, kMostCycles);
    chip.operands =
        j.at("operands").list_of([&](const JsonValue& operand) { return binding(operand, false); });
    chip.result = binding(j.at("result"), true);
    chip.dram_cycles = j.at("dram_cycles").integer(0, kMostCycles);
    chip.fetch = j.at("fetch").flag();
    chip.stored = j.at("stored").flag();
    chip.work = read_work(j.at("work"));
    return chip;
  }
  HostStage host_stage(const JsonValue& j) const {
    j.allow({"name", "kind", "operation", "onnx_ops", "onnx_nodes", "inputs", "outputs", "reason", "node"});
    return {read_node(j.at("node"), [&](const JsonValue& name) { return files_.read(file(name)); }),
            j.at("reason").text()};
  }

  /// Each stage is a region of the program.
  Segment segment(const JsonValue& j) const {
    j.allow({"first_stage", "stages", "program"});
    Segment segment;
    segment.first_stage = j.at("first_stage").small_integer();
    const std::string path = files_.path(file(j.at("program")));
    isa::Program& program = segment.parts.program;
    program = this->program(j.at("program"));
    std::set<std::string> names;
    int depth = 0;
    for (size_t k = 0; k < program.statements.size(); ++k) {
      const auto* mark = std::get_if<isa::RegionMark>(&program.statements[k].kind);
      if (depth == 0) {
        if (mark == nullptr || !mark->begin)
          throw isa::UserError(fmt::format("{}:{}: found a statement outside of all regions", path,
                                           program.statements[k].line));
        if (!names.insert(mark->name).second)
          throw isa::UserError(fmt::format("{}: found region '{}' twice", path, mark->name));
        segment.parts.begin.push_back(k);
      }
      if (mark != nullptr) depth += mark->begin ? 1 : -1;
    }
    if (depth != 0) throw isa::UserError(fmt::format("{}: the last region doesn't end", path));
    const auto found = static_cast<int64_t>(segment.parts.begin.size());
    if (found == 0 || found != j.at("stages").integer())
      throw isa::UserError(fmt::format("{}: found {} regions, allowed: those of {} stages", path, found,
                                       j.at("stages").integer()));
    segment.parts.begin.push_back(program.statements.size());
    return segment;
  }

  const PackageFiles& files_;
  CompiledModel& model_;
  FileSums sums_;
};

/// Where a package goes: a symbolic link to a directory stays one.
fs::path package_path(const std::string& directory) {
  const fs::path path = fs::weakly_canonical(fs::absolute(directory));
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

bool is_package(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error) && fs::exists(fs::path(path) / kManifest, error);
}

void write_checksums(const std::string& directory) {
  FileSums sums;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    const std::string name = entry.path().lexically_relative(directory).generic_string();
    if (entry.is_regular_file() && name != kChecksums)
      sums[name] = sum_of(isa::read_file(entry.path().string()));
  }
  isa::write_file_atomically((fs::path(directory) / kChecksums).string(), to_string(sums));
}

void check_package_directory(const std::string& directory) {
  const fs::path target = package_path(directory);
  isa::check_output_directory(target.parent_path().string());
  if (!fs::exists(target)) return;
  if (!fs::is_directory(target))
    throw isa::UserError(directory + ": exists and is not a directory; choose another name");
  if (fs::is_empty(target)) return;
  if (!is_package(target.string()))
    throw isa::UserError(directory + ": exists and is not a kodama package; choose another directory");
  const FileSums own = read_sums(FilesInDirectory(target));
  for (const auto& entry : fs::recursive_directory_iterator(target)) {
    const std::string name = entry.path().lexically_relative(target).generic_string();
    const bool is_own = entry.is_directory() && !entry.is_symlink()
                            ? std::ranges::find(kFolders, name) != std::end(kFolders)
                            : name == kChecksums || own.contains(name);
    if (!is_own)
      throw isa::UserError(fmt::format(
          "{}: holds '{}', which is not of the package there; move it, or choose another directory",
          directory, name));
  }
}

void save_package(const CompiledModel& model, const std::string& directory,
                  const std::function<void(int64_t, int64_t, const std::string&)>& progress) {
  const auto refuse = [&](const std::error_code& error) {
    throw isa::UserError(directory + ": can't be written: " + error.message());
  };
  try {
    check_package_directory(directory);
    const fs::path target = package_path(directory);
    fs::create_directories(target.parent_path());
    std::error_code error;
    const auto temporary = isa::Temporary::make(isa::Temporary::Kind::kFolder, target.parent_path(), error);
    if (!temporary) refuse(error);
    if (fs::exists(target)) fs::permissions(temporary->path(), fs::status(target).permissions());
    {
      const auto hold = isa::hold_temporaries();
      for (const char* folder : kFolders) fs::create_directories(temporary->path() / folder);
    }
    FilesInDirectory files(temporary->path());
    PackageWriter(model, files).write(progress);
    write_checksums(temporary->path().string());
    check_package_directory(directory);  // what happened meanwhile
    error = fs::exists(target) ? temporary->exchange_with(target) : temporary->move_to(target);
    if (error) refuse(error);
  } catch (const fs::filesystem_error& error) {
    refuse(error.code());
  }
}

CompiledModel load_package(const std::string& directory, const std::string& chip_name,
                           const std::function<void(int64_t, int64_t, const std::string&)>& progress) {
  if (!is_package(directory))
    throw isa::UserError(directory + ": is not a kodama package (no manifest.json)");
  CompiledModel model;
  const FilesInDirectory files(directory);
  PackageReader(files, model)
      .read(chip_name.empty() ? std::nullopt : std::optional(isa::find_chip(chip_name)), progress);
  return model;
}

std::string package_to_bytes(const CompiledModel& model, std::string_view title) {
  FilesInMemory files(model.name);
  PackageWriter(model, files).write({});
  FileSums sums;
  for (const auto& [name, text] : files.all()) sums[name] = sum_of(text);
  files.write(kChecksums, to_string(sums));
  // Constants may be much of the memory there is: none of them is there three times.
  size_t size = title.size();
  constexpr size_t kLineOfNumber = 22;
  for (const auto& [name, text] : files.all()) size += kLineOfNumber + name.size() + text.size();
  std::string bytes;
  bytes.reserve(size);
  bytes += title;
  for (auto& [name, text] : files.all()) {
    bytes += fmt::format("{} {}\n", text.size(), name);
    bytes += text;
    text = std::string();
  }
  return bytes;
}

CompiledModel package_from_bytes(std::string_view bytes, const isa::Chip& chip, const std::string& where) {
  FilesInMemory files(where);
  for (size_t at = 0; at < bytes.size();) {
    const size_t line_end = bytes.find('\n', at);
    size_t size = 0;
    const auto [name, error] = line_end == std::string_view::npos
                                   ? std::from_chars_result{nullptr, std::errc::invalid_argument}
                                   : std::from_chars(&bytes[at], &bytes[line_end], size);
    if (error != std::errc() || *name != ' ' || size > bytes.size() - line_end - 1)
      throw isa::UserError(fmt::format("{}: byte {} doesn't begin a file of a package", where, at));
    files.write(std::string(name + 1, &bytes[line_end]), std::string(bytes.substr(line_end + 1, size)));
    at = line_end + 1 + size;
  }
  CompiledModel model;
  PackageReader(files, model).read(chip, {});
  return model;
}

}  // namespace kodama::compiler
