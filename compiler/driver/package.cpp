#include "compiler/driver/package.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "assembler/assembler.h"
#include "compiler/graph/import.h"

namespace kodama::compiler {
namespace {

namespace fs = std::filesystem;
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
double number_from_json(const ordered_json& j) {
  if (j.is_string()) {
    if (j == "inf") return std::numeric_limits<double>::infinity();
    if (j == "-inf") return -std::numeric_limits<double>::infinity();
    throw isa::UserError("a number, \"inf\" or \"-inf\" is allowed, found \"" + j.get<std::string>() + "\"");
  }
  return j.get<double>();
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
AffineMap map_from_json(const ordered_json& j, size_t dims) {
  AffineMap map(j.size(), dims);
  for (size_t axis = 0; axis < j.size(); ++axis) {
    if (j[axis].size() != dims + 1)
      throw isa::UserError(fmt::format("an affine map needs {} numbers per axis", dims + 1));
    map.set_offset(axis, j[axis][0].get<int64_t>());
    for (size_t d = 0; d < dims; ++d) map.set(axis, d, j[axis][d + 1].get<int64_t>());
  }
  return map;
}

ordered_json access_to_json(const TensorAccess& access, size_t dims) {
  return {{"tensor", access.tensor},
          {"map", map_to_json(access.map, dims)},
          {"fill", number_to_json(access.fill)}};
}
TensorAccess access_from_json(const ordered_json& j, size_t dims) {
  return {j.at("tensor").get<int>(), map_from_json(j.at("map"), dims), number_from_json(j.at("fill"))};
}

/// Enumerations are written as their numbers' names in this order.
constexpr std::array<const char*, 3> kL2bModes = {"distribute", "broadcast in group", "broadcast"};
constexpr std::array<const char*, 2> kL1bModes = {"distribute", "broadcast"};
constexpr std::array<const char*, 3> kMabModes = {"distribute", "broadcast MABs", "broadcast PEs"};
constexpr std::array<const char*, 5> kPaddings = {"undefined", "zero", "-inf", "+inf", "one"};
constexpr std::array<const char*, 3> kOrigins = {"preloaded", "sent", "on chip"};
constexpr std::array<const char*, 5> kKinds = {"Map", "Reduce", "Contract", "Move", "Host"};

template <typename Enum, size_t N>
Enum enum_from_json(const ordered_json& j, const std::array<const char*, N>& names) {
  const auto text = j.get<std::string>();
  for (size_t k = 0; k < N; ++k) {
    if (text == names[k]) return static_cast<Enum>(k);
  }
  throw isa::UserError("unknown name \"" + text + "\"");
}

ordered_json placement_to_json(const StreamPlacement& placement) {
  return {{"name", placement.name},
          {"access", access_to_json(placement.access, placement.extents.size())},
          {"extents", placement.extents},
          {"axes", placement.axis_dims},
          {"layout", placement.layout.to_string()},
          {"padding", kPaddings[static_cast<size_t>(placement.layout.padding())]},
          {"l2b", kL2bModes[static_cast<size_t>(placement.transport.l2b_mode())]},
          {"l1b", kL1bModes[static_cast<size_t>(placement.transport.l1b_mode())]},
          {"mab", kMabModes[static_cast<size_t>(placement.transport.mab_mode())]},
          {"length_lw", placement.length_lw},
          {"round_to_odd", placement.round_to_odd}};
}
StreamPlacement placement_from_json(const ordered_json& j, const isa::Chip& chip, bool is_output) {
  StreamPlacement placement;
  placement.name = j.at("name").get<std::string>();
  placement.is_output = is_output;
  placement.extents = j.at("extents").get<Shape>();
  placement.access = access_from_json(j.at("access"), placement.extents.size());
  placement.axis_dims = j.at("axes").get<std::vector<std::vector<int>>>();
  placement.layout = layout::Layout::parse(j.at("layout").get<std::string>());
  placement.layout.set_padding(enum_from_json<layout::Padding>(j.at("padding"), kPaddings));
  placement.transport = layout::Transport(chip, enum_from_json<layout::L2bMode>(j.at("l2b"), kL2bModes),
                                          enum_from_json<layout::L1bMode>(j.at("l1b"), kL1bModes),
                                          enum_from_json<layout::MabMode>(j.at("mab"), kMabModes));
  placement.length_lw = j.at("length_lw").get<int64_t>();
  placement.round_to_odd = j.at("round_to_odd").get<bool>();
  return placement;
}

ordered_json move_to_json(const MoveLayer& move) {
  ordered_json pieces = ordered_json::array();
  for (const MoveLayer::Piece& piece : move.pieces) {
    pieces.push_back({{"input", access_to_json(piece.input, move.extents.size())},
                      {"begin", piece.begin},
                      {"end", piece.end}});
  }
  return {{"extents", move.extents}, {"fill", number_to_json(move.fill)}, {"pieces", pieces}};
}
MoveLayer move_from_json(const ordered_json& j) {
  MoveLayer move;
  move.extents = j.at("extents").get<Shape>();
  move.fill = number_from_json(j.at("fill"));
  for (const ordered_json& piece : j.at("pieces")) {
    move.pieces.push_back({access_from_json(piece.at("input"), move.extents.size()),
                           piece.at("begin").get<std::vector<int64_t>>(),
                           piece.at("end").get<std::vector<int64_t>>()});
  }
  return move;
}

std::vector<std::byte> read_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw isa::UserError(path.string() + ": the package's file is missing or can't be read");
  file.seekg(0, std::ios::end);
  std::vector<std::byte> bytes(static_cast<size_t>(file.tellg()));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw isa::UserError(path.string() + ": the package's file can't be read");
  return bytes;
}

void write_program(const isa::Program& program, const fs::path& path) {
  std::ofstream file(path, std::ios::binary);
  assembler::print(program, [&](std::string_view text) {
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
  });
  file.flush();
  if (!file) throw isa::UserError(path.string() + ": can't be written (disk full?)");
}

// --- saving ---------------------------------------------------------------------------------------------

class PackageWriter {
 public:
  PackageWriter(const CompiledModel& model, fs::path directory)
      : model_(model), directory_(std::move(directory)) {}

  void write(const std::function<void(int64_t, int64_t, const std::string&)>& progress) {
    for (const char* folder : {"programs", "images", "constants"})
      fs::create_directories(directory_ / folder);
    ordered_json manifest;
    manifest["format"] = "kodama package";
    manifest["version"] = kPackageVersion;
    manifest["model"] = model_.name;
    manifest["chip"] = {{"name", model_.chip.name}, {"hash", model_.chip.hash}};
    manifest["precision"] = matrix_precision_name(model_.precision);
    manifest["opset"] = model_.opset;
    manifest["inputs"] = model_.inputs;
    manifest["outputs"] = model_.outputs;
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
    if (progress) progress(count, count, "");
    write_host_model();
    write_file_atomically((directory_ / "manifest.json").string(), manifest.dump(1) + "\n");
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
                        {"alias_of", tensor.alias_of}};
      if (tensor.constant) {
        const std::string file = fmt::format("constants/{:04}.pb", id);
        write_tensor_file((directory_ / file).string(), *tensor.constant, tensor.name);
        j["constant"] = file;
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
      std::ofstream out(directory_ / file, std::ios::binary);
      for (const auto& group : preload.image.groups) {
        sizes.push_back(static_cast<int64_t>(group.size()));
        out.write(reinterpret_cast<const char*>(group.data()),
                  static_cast<std::streamsize>(group.size() * sizeof(uint64_t)));
      }
      out.flush();
      if (!out) throw isa::UserError((directory_ / file).string() + ": can't be written (disk full?)");
      list.push_back({{"name", preload.name},
                      {"dram_address", preload.dram_address},
                      {"lw_per_group", sizes},
                      {"file", file}});
    }
    return list;
  }

  ordered_json stage_to_json(const Stage& stage) {
    ordered_json j = {{"name", stage.name},
                      {"kind", kKinds[static_cast<size_t>(stage.kind)]},
                      {"operation", stage.operation},
                      {"onnx_ops", stage.onnx_ops},
                      {"onnx_nodes", stage.onnx_nodes},
                      {"inputs", stage.inputs},
                      {"outputs", stage.outputs}};
    if (const auto* chip = std::get_if<ChipStage>(&stage.body)) {
      j["kernel"] = chip->kernel;
      j["description"] = chip->description;
      j["predicted_cycles"] = chip->predicted_cycles;
      j["operands"] = ordered_json::array();
      for (const StreamBinding& operand : chip->operands) j["operands"].push_back(binding_to_json(operand));
      j["result"] = binding_to_json(chip->result);
      j["bound_cycles"] = chip->bound_cycles;
      j["fetch"] = chip->fetch;
    } else if (const auto* move = std::get_if<MoveStage>(&stage.body)) {
      j["move"] = move_to_json(move->move);
    } else {
      const auto& host = std::get<HostStage>(stage.body);
      j["reason"] = host.reason;
      j["first_node"] = host_model_.graph().node_size();
      j["node_count"] = host.nodes.size();
      for (const onnx::NodeProto& node : host.nodes) *host_model_.mutable_graph()->add_node() = node;
    }
    return j;
  }

  ordered_json segments() const {
    ordered_json list = ordered_json::array();
    for (const Segment& segment : model_.segments) {
      const Stage& first = model_.stages[static_cast<size_t>(segment.first_stage)];
      const std::string file =
          fmt::format("programs/{:04}_{}.vsm", segment.first_stage, file_stem(first.name));
      write_program(segment.parts.program, directory_ / file);
      list.push_back(
          {{"first_stage", segment.first_stage}, {"stages", segment.stage_count()}, {"program", file}});
    }
    return list;
  }

  static ordered_json binding_to_json(const StreamBinding& binding) {
    ordered_json j = placement_to_json(binding.placement);
    j["dram_address"] = binding.dram_address;
    j["origin"] = kOrigins[static_cast<size_t>(binding.origin)];
    j["host_move"] = binding.host_move;
    return j;
  }

  void write_host_model() {
    if (host_model_.graph().node_size() == 0) return;
    host_model_.set_ir_version(8);
    host_model_.mutable_graph()->set_name("host layers");
    for (const auto& [domain, version] : model_.opset) {
      auto* opset = host_model_.add_opset_import();
      opset->set_domain(domain);
      opset->set_version(version);
    }
    write_file_atomically((directory_ / "host.onnx").string(), host_model_.SerializeAsString());
  }

  const CompiledModel& model_;
  fs::path directory_;
  onnx::ModelProto host_model_;
};

// --- loading --------------------------------------------------------------------------------------------

class PackageReader {
 public:
  PackageReader(fs::path directory, CompiledModel& model) : directory_(std::move(directory)), model_(model) {}

  void read(const std::string& chip_name,
            const std::function<void(int64_t, int64_t, const std::string&)>& progress) {
    const ordered_json manifest = ordered_json::parse(std::ifstream(directory_ / "manifest.json"));
    if (manifest.at("format") != "kodama package") throw isa::UserError("this is not a kodama package");
    if (manifest.at("version") != kPackageVersion) {
      throw isa::UserError(fmt::format("found package version {}, allowed is {}; compile the model again",
                                       manifest.at("version").dump(), kPackageVersion));
    }
    model_.name = manifest.at("model").get<std::string>();
    const ordered_json& chip = manifest.at("chip");
    model_.chip = isa::find_chip(chip_name.empty() ? chip.at("name").get<std::string>() : chip_name);
    if (chip.at("hash") != model_.chip.hash) {
      throw isa::UserError(
          fmt::format("compiled for chip '{}' with hash {}, but {} has hash {}; compile the model again",
                      chip.at("name").get<std::string>(), chip.at("hash").get<std::string>(),
                      model_.chip.source_file, model_.chip.hash));
    }
    model_.precision = parse_matrix_precision(manifest.at("precision").get<std::string>());
    model_.opset = manifest.at("opset").get<std::map<std::string, int64_t>>();
    model_.inputs = manifest.at("inputs").get<std::vector<TensorId>>();
    model_.outputs = manifest.at("outputs").get<std::vector<TensorId>>();
    for (const ordered_json& j : manifest.at("tensors")) model_.tensors.push_back(tensor(j));
    for (size_t id = 0; id < model_.tensors.size(); ++id) check_alias(static_cast<TensorId>(id));
    for (TensorId id : model_.inputs) check_id(id);
    for (TensorId id : model_.outputs) check_id(id);
    for (const ordered_json& j : manifest.at("images")) model_.preloads.push_back(image(j));
    if (fs::exists(directory_ / "host.onnx")) host_model_ = read_model((directory_ / "host.onnx").string());
    const auto count = static_cast<int64_t>(manifest.at("stages").size());
    int64_t index = 0;
    for (const ordered_json& j : manifest.at("stages")) {
      if (progress) progress(index++, count, j.at("name").get<std::string>());
      model_.stages.push_back(stage(j));
    }
    for (const ordered_json& j : manifest.at("segments")) model_.segments.push_back(segment(j));
    check_segments();
    if (progress) progress(count, count, "");
  }

 private:
  /// A file of the package; names can't lead out of it.
  fs::path file(const ordered_json& j) const {
    const fs::path name = j.get<std::string>();
    if (name.is_absolute() || std::find(name.begin(), name.end(), "..") != name.end()) {
      throw isa::UserError("file name \"" + name.string() + "\" leads out of the package");
    }
    return directory_ / name;
  }
  TensorId check_id(TensorId id) const {
    if (id < 0 || static_cast<size_t>(id) >= model_.tensors.size()) {
      throw isa::UserError(fmt::format("tensor number {} of {}", id, model_.tensors.size()));
    }
    return id;
  }
  void check_alias(TensorId id) const {
    const TensorId target = model_.tensors[static_cast<size_t>(id)].alias_of;
    // Aliases name an earlier or later tensor, but never in a circle.
    TensorId at = target;
    for (size_t hops = 0; at >= 0; ++hops) {
      check_id(at);
      if (hops > model_.tensors.size())
        throw isa::UserError(fmt::format("tensor {} is an alias of itself", id));
      at = model_.tensors[static_cast<size_t>(at)].alias_of;
    }
  }

  LayerTensor tensor(const ordered_json& j) const {
    LayerTensor tensor;
    tensor.name = j.at("name").get<std::string>();
    const int code = j.at("type_code").get<int>();
    if (!onnx::TensorProto_DataType_IsValid(code))
      throw isa::UserError(fmt::format("unknown element type {}", code));
    tensor.type = static_cast<DataType>(code);
    tensor.shape = j.at("shape").get<Shape>();
    tensor.alias_of = j.at("alias_of").get<int>();
    if (j.contains("constant")) tensor.constant = read_tensor_file(file(j.at("constant")).string());
    return tensor;
  }

  CompiledModel::Preload image(const ordered_json& j) const {
    CompiledModel::Preload preload;
    preload.name = j.at("name").get<std::string>();
    preload.dram_address = j.at("dram_address").get<int64_t>();
    const fs::path path = file(j.at("file"));
    const std::vector<std::byte> bytes = read_bytes(path);
    size_t at = 0;
    for (const ordered_json& size : j.at("lw_per_group")) {
      const auto lw = size.get<uint64_t>();
      if (lw > (bytes.size() - at) / sizeof(uint64_t)) {
        throw isa::UserError(fmt::format("{}: found {} bytes, the manifest says more (truncated?)",
                                         path.string(), bytes.size()));
      }
      std::vector<uint64_t> group(lw);
      if (lw > 0) std::memcpy(group.data(), bytes.data() + at, lw * sizeof(uint64_t));
      at += lw * sizeof(uint64_t);
      preload.image.groups.push_back(std::move(group));
    }
    if (at != bytes.size()) {
      throw isa::UserError(
          fmt::format("{}: found {} bytes, the manifest says {}", path.string(), bytes.size(), at));
    }
    return preload;
  }

  StreamBinding binding(const ordered_json& j, bool is_output) const {
    StreamBinding binding;
    binding.placement = placement_from_json(j, model_.chip, is_output);
    check_id(binding.placement.access.tensor);
    binding.dram_address = j.at("dram_address").get<int64_t>();
    binding.origin = enum_from_json<StreamBinding::Origin>(j.at("origin"), kOrigins);
    binding.host_move = j.at("host_move").get<bool>();
    return binding;
  }

  Stage stage(const ordered_json& j) {
    Stage stage;
    stage.name = j.at("name").get<std::string>();
    stage.kind = enum_from_json<LayerKind>(j.at("kind"), kKinds);
    stage.operation = j.at("operation").get<std::string>();
    stage.onnx_ops = j.at("onnx_ops").get<std::vector<std::string>>();
    stage.onnx_nodes = j.at("onnx_nodes").get<std::vector<std::string>>();
    stage.inputs = j.at("inputs").get<std::vector<TensorId>>();
    stage.outputs = j.at("outputs").get<std::vector<TensorId>>();
    for (TensorId id : stage.inputs) {
      if (id != -1) check_id(id);
    }
    for (TensorId id : stage.outputs) {
      if (id != -1) check_id(id);
    }
    const bool needs_output =
        stage.kind != LayerKind::kMove || !j.contains("kernel") || j.value("fetch", false);
    if (needs_output && stage.outputs.empty())
      throw isa::UserError("stage '" + stage.name + "' has no output");
    if (j.contains("kernel")) {
      ChipStage chip;
      chip.kernel = j.at("kernel").get<std::string>();
      chip.description = j.at("description").get<std::string>();
      chip.predicted_cycles = j.at("predicted_cycles").get<int64_t>();
      for (const ordered_json& operand : j.at("operands")) chip.operands.push_back(binding(operand, false));
      chip.result = binding(j.at("result"), true);
      chip.bound_cycles = j.at("bound_cycles").get<int64_t>();
      chip.fetch = j.at("fetch").get<bool>();
      stage.body = std::move(chip);
    } else if (j.contains("move")) {
      stage.body = MoveStage{move_from_json(j.at("move"))};
    } else {
      HostStage host;
      host.reason = j.at("reason").get<std::string>();
      const auto first = j.at("first_node").get<int>();
      const auto count = j.at("node_count").get<int>();
      if (first < 0 || count < 0 || first > host_model_.graph().node_size() - count) {
        throw isa::UserError("host.onnx has fewer nodes than the manifest says");
      }
      for (int k = 0; k < count; ++k) host.nodes.push_back(host_model_.graph().node(first + k));
      stage.body = std::move(host);
    }
    return stage;
  }

  /// Each stage is a region of the program.
  Segment segment(const ordered_json& j) const {
    Segment segment;
    segment.first_stage = j.at("first_stage").get<int>();
    const std::string path = file(j.at("program")).string();
    isa::Program& program = segment.parts.program;
    program = assembler::assemble_file(path, model_.chip);
    int depth = 0;
    for (size_t k = 0; k < program.statements.size(); ++k) {
      const auto* mark = std::get_if<isa::RegionMark>(&program.statements[k].kind);
      if (mark == nullptr) continue;
      if (mark->begin && depth == 0) segment.parts.begin.push_back(k);
      depth += mark->begin ? 1 : -1;
    }
    const auto found = segment.parts.begin.size();
    if (found == 0 || found != j.at("stages").get<size_t>() || segment.parts.begin.front() != 0)
      throw isa::UserError(
          fmt::format("{}: found {} regions, allowed are those of {} stages, the first in the "
                      "first line",
                      path, found, j.at("stages").dump()));
    segment.parts.begin.push_back(program.statements.size());
    return segment;
  }
  /// Chip stages, and no others, are in segments, which are in order.
  void check_segments() const {
    const auto count = static_cast<int>(model_.stages.size());
    std::vector<bool> covered(model_.stages.size(), false);
    int next = 0;
    for (const Segment& segment : model_.segments) {
      if (segment.first_stage < next || segment.end_stage() > count)
        throw isa::UserError(fmt::format("found a segment of stages {} to {}, allowed are {} to {}",
                                         segment.first_stage, segment.end_stage() - 1, next, count - 1));
      next = segment.end_stage();
      std::fill(covered.begin() + segment.first_stage, covered.begin() + next, true);
    }
    for (size_t k = 0; k < covered.size(); ++k) {
      if (covered[k] != model_.stages[k].on_chip())
        throw isa::UserError(fmt::format("stage '{}' runs on the {}, but is in {} segment",
                                         model_.stages[k].name, covered[k] ? "host" : "chip",
                                         covered[k] ? "a" : "no"));
    }
  }

  fs::path directory_;
  CompiledModel& model_;
  onnx::ModelProto host_model_;
};

}  // namespace

std::string file_stem(const std::string& name) {
  std::string stem;
  for (char c : name) stem += std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' ? c : '_';
  return stem.substr(0, 60);
}

bool is_package(const std::string& path) {
  return fs::is_directory(path) && fs::exists(fs::path(path) / "manifest.json");
}

void save_package(const CompiledModel& model, const std::string& directory,
                  const std::function<void(int64_t, int64_t, const std::string&)>& progress) {
  fs::path target = fs::absolute(directory).lexically_normal();
  if (!target.has_filename()) target = target.parent_path();
  if (fs::exists(target) && !is_package(target.string()) &&
      !(fs::is_directory(target) && fs::is_empty(target))) {
    throw isa::UserError(directory + ": exists and is not a kodama package; choose another directory");
  }
  const fs::path temporary =
      target.parent_path() / fmt::format(".{}.{}.tmp", target.filename().string(), ::getpid());
  const fs::path old =
      target.parent_path() / fmt::format(".{}.{}.old", target.filename().string(), ::getpid());
  try {
    fs::create_directories(temporary);
    PackageWriter(model, temporary).write(progress);
    if (fs::exists(target)) fs::rename(target, old);
    fs::rename(temporary, target);
    fs::remove_all(old);
  } catch (const fs::filesystem_error& error) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw isa::UserError(directory + ": can't be written: " + error.code().message());
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw;
  }
}

CompiledModel load_package(const std::string& directory, const std::string& chip_name,
                           const std::function<void(int64_t, int64_t, const std::string&)>& progress) {
  if (!is_package(directory))
    throw isa::UserError(directory + ": is not a kodama package (no manifest.json)");
  CompiledModel model;
  try {
    PackageReader(directory, model).read(chip_name, progress);
  } catch (const nlohmann::json::exception& error) {
    throw isa::UserError((fs::path(directory) / "manifest.json").string() + ": " + error.what());
  } catch (const isa::UserError& error) {
    throw isa::UserError(directory + ": " + error.what());
  }
  return model;
}

}  // namespace kodama::compiler
