#include "isa/chip.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <variant>

#include "isa/dram_model.h"
#include "isa/error.h"
#include "isa/file.h"

namespace kodama::isa {
namespace {

namespace fs = std::filesystem;

// ---- the keys ------------------------------------------------------------------------------------------

using TextMember = std::string& (*)(Chip&);
using IntMember = int& (*)(Chip&);
using LongMember = int64_t& (*)(Chip&);
using NumberMember = double& (*)(Chip&);
using Member = std::variant<TextMember, IntMember, LongMember, NumberMember>;

struct Key {
  std::string_view path;  ///< section.key, or a key of the top level
  Member member;
  std::string_view unit;
  double minimum = 0;  ///< of a number; unused for text
  double maximum = 0;
  enum class Rule { kAny, kPowerOfTwo, kMultipleOf64 } rule = Rule::kAny;
  std::string_view meaning;
  /// Whether a chip file may leave it out: never, alone (then Chip has its value), or with its whole section.
  enum class Left { kNever, kAlone, kWithSection } left_out = Left::kNever;
  bool of_host = false;  ///< no program depends on it

  bool is_dram_part() const { return path.starts_with("dram."); }

  bool is_text() const { return std::holds_alternative<TextMember>(member); }
  bool is_number() const { return std::holds_alternative<NumberMember>(member); }
  std::string_view type() const { return is_text() ? "text" : is_number() ? "number" : "integer"; }
  std::string allowed() const;
};

std::string Key::allowed() const {
  if (is_text()) return "text that isn't empty";
  const auto range = is_number() ? fmt::format("from {} to {}", minimum, maximum)
                                 : fmt::format("from {} to {}", static_cast<int64_t>(minimum),
                                               static_cast<int64_t>(maximum));
  if (minimum == maximum) return fmt::format("exactly {}", static_cast<int64_t>(minimum));
  switch (rule) {
    case Rule::kPowerOfTwo:
      return "a power of two " + range;
    case Rule::kMultipleOf64:
      return "a multiple of 64 " + range;
    case Rule::kAny:
      break;
  }
  return fmt::format("{} {}", is_number() ? "a number" : "an integer", range);
}

// The only place that knows the keys of a chip file. Upper limits of counts and sizes are what the fields of
// instructions can address; other limits keep figures physically sensible.
const std::vector<Key>& keys() {
  using enum Key::Rule;
  using enum Key::Left;
  constexpr double kMaxSteps = 64;
  static const std::vector<Key> table = {
      {"name", TextMember([](Chip& c) -> std::string& { return c.name; }), "", 0, 0, kAny,
       "name of the chip in reports"},
      {"description", TextMember([](Chip& c) -> std::string& { return c.description; }), "", 0, 0, kAny,
       "one line for people"},
      {"counts.groups", IntMember([](Chip& c) -> int& { return c.groups; }), "groups", 1, 16, kPowerOfTwo,
       "number of groups of the chip"},
      {"counts.l2b_per_group", IntMember([](Chip& c) -> int& { return c.l2b_per_group; }), "L2Bs per group",
       1, 8, kPowerOfTwo, "number of L2Bs in a group"},
      {"counts.l1b_per_l2b", IntMember([](Chip& c) -> int& { return c.l1b_per_l2b; }), "L1Bs per L2B", 2, 8,
       kPowerOfTwo, "number of L1Bs in an L2B; instructions name an L1B in 3 bits and work on pairs"},
      {"counts.mab_per_l1b", IntMember([](Chip& c) -> int& { return c.mab_per_l1b; }), "MABs per L1B", 4, 16,
       kPowerOfTwo, "number of MABs in an L1B; instructions name a MAB in 4 bits and work on quads"},
      {"clock_hz", NumberMember([](Chip& c) -> double& { return c.clock_hz; }), "Hz", 1e6, 1e11, kAny,
       "clock"},

      {"memory.dram_lw", LongMember([](Chip& c) -> int64_t& { return c.memory.dram_lw; }), "LW per group",
       4096, 68719476736.0, kMultipleOf64, "size of the DRAM"},
      {"memory.pdm_lw", LongMember([](Chip& c) -> int64_t& { return c.memory.pdm_lw; }), "LW per group", 1024,
       16777216, kMultipleOf64, "size of the PDM"},
      {"memory.dar_entries", LongMember([](Chip& c) -> int64_t& { return c.memory.dar_entries; }),
       "entries per group", 128, 65536, kPowerOfTwo, "number of DRAM address registers"},
      {"memory.l2bm_lw", LongMember([](Chip& c) -> int64_t& { return c.memory.l2bm_lw; }), "LW per L2B", 256,
       1048576, kPowerOfTwo, "size of an L2BM"},
      {"memory.l1bm_lw", LongMember([](Chip& c) -> int64_t& { return c.memory.l1bm_lw; }), "LW per L1B", 64,
       8192, kPowerOfTwo, "size of an L1BM, addressed in 13 bits"},
      {"memory.lm_words", LongMember([](Chip& c) -> int64_t& { return c.memory.lm_words; }), "words per PE",
       64, 4096, kPowerOfTwo, "size of LM0 and of LM1, addressed in 12 bits"},
      {"memory.grf_words", LongMember([](Chip& c) -> int64_t& { return c.memory.grf_words; }), "words per PE",
       16, 512, kPowerOfTwo, "size of GRF0 and of GRF1, addressed in 9 bits"},
      {"memory.mask_entries", LongMember([](Chip& c) -> int64_t& { return c.memory.mask_entries; }),
       "entries per PE", 32, 32, kAny, "number of mask registers: 0 all ones, 1-15 variable, 16-31 constant"},

      {"transfer.dram_lw_per_cycle",
       NumberMember([](Chip& c) -> double& { return c.transfer.dram_lw_per_cycle; }), "LW per cycle", 1e-3,
       1e6, kAny, "peak rate of the DRAM of a group"},
      {"transfer.pdm_lw_per_cycle",
       NumberMember([](Chip& c) -> double& { return c.transfer.pdm_lw_per_cycle; }), "LW per cycle", 1e-3,
       1e6, kAny, "rate of the read port and of the write port of a PDM, each"},
      {"transfer.l2bm_mv_lw_per_cycle",
       NumberMember([](Chip& c) -> double& { return c.transfer.l2bm_mv_lw_per_cycle; }), "LW per cycle", 1e-3,
       1e6, kAny, "rate of the MV port of an L2BM, each direction"},
      {"transfer.group_link_lw_per_cycle",
       NumberMember([](Chip& c) -> double& { return c.transfer.group_link_lw_per_cycle; }), "LW per cycle",
       1e-3, 1e6, kAny, "rate of the path from one group to another"},
      {"transfer.startup_cycles", LongMember([](Chip& c) -> int64_t& { return c.transfer.startup_cycles; }),
       "cycles", 0, 1e6, kAny, "start-up time of every MV"},
      {"transfer.group_hop_cycles",
       LongMember([](Chip& c) -> int64_t& { return c.transfer.group_hop_cycles; }), "cycles", 0, 1e6, kAny,
       "added per group crossed"},
      {"transfer.issue_interval_steps",
       LongMember([](Chip& c) -> int64_t& { return c.transfer.issue_interval_steps; }), "steps", 1, 1024,
       kAny, "one MV may start per this many steps"},
      {"transfer.max_in_flight", LongMember([](Chip& c) -> int64_t& { return c.transfer.max_in_flight; }),
       "MVs per group", 1, kMaxTransferTag, kAny, "MVs that can run at a time, no more than there are tags"},
      {"transfer.dram_channels", LongMember([](Chip& c) -> int64_t& { return c.transfer.dram_channels; }),
       "channels per group", 1, 64, kPowerOfTwo, "number of DRAM channels, which share the rate"},
      {"transfer.dram_banks", LongMember([](Chip& c) -> int64_t& { return c.transfer.dram_banks; }),
       "banks per channel", 1, 1024, kPowerOfTwo, "number of DRAM banks"},
      {"transfer.dram_row_bytes", LongMember([](Chip& c) -> int64_t& { return c.transfer.dram_row_bytes; }),
       "bytes", 128, 65536, kPowerOfTwo, "size of a DRAM row"},
      {"transfer.dram_row_miss_ns",
       NumberMember([](Chip& c) -> double& { return c.transfer.dram_row_miss_ns; }), "ns", 0, 1e6, kAny,
       "time to open another row"},
      {"transfer.dram_refresh_interval_ns",
       NumberMember([](Chip& c) -> double& { return c.transfer.dram_refresh_interval_ns; }), "ns", 1, 1e9,
       kAny, "time between refreshes"},
      {"transfer.dram_refresh_ns",
       NumberMember([](Chip& c) -> double& { return c.transfer.dram_refresh_ns; }), "ns", 0, 1e9, kAny,
       "time of a refresh"},
      {"transfer.dram_turnaround_ns",
       NumberMember([](Chip& c) -> double& { return c.transfer.dram_turnaround_ns; }), "ns", 0, 1e6, kAny,
       "time between a read and a write"},
      {"transfer.dram_model", TextMember([](Chip& c) -> std::string& { return c.transfer.dram_model; }), "",
       0, 0, kAny, "model of the DRAM's time: rows, banks (section dram), or one of a plugin", kAlone},

      {"dram.channels", LongMember([](Chip& c) -> int64_t& { return c.dram.channels; }), "channels per group",
       1, 64, kPowerOfTwo, "number of channels, each with a controller", kWithSection},
      {"dram.bank_groups", LongMember([](Chip& c) -> int64_t& { return c.dram.bank_groups; }),
       "bank groups per channel", 1, 16, kPowerOfTwo, "number of bank groups", kWithSection},
      {"dram.banks_per_group", LongMember([](Chip& c) -> int64_t& { return c.dram.banks_per_group; }),
       "banks per bank group", 1, 4, kPowerOfTwo, "number of banks of a group", kWithSection},
      {"dram.row_bytes", LongMember([](Chip& c) -> int64_t& { return c.dram.row_bytes; }), "bytes", 128,
       65536, kPowerOfTwo, "size of a row (page) of a bank", kWithSection},
      {"dram.burst_bytes", LongMember([](Chip& c) -> int64_t& { return c.dram.burst_bytes; }), "bytes", 8,
       128, kPowerOfTwo, "bytes that one read or write command moves", kWithSection},
      {"dram.interleave_bytes", LongMember([](Chip& c) -> int64_t& { return c.dram.interleave_bytes; }),
       "bytes", 8, 65536, kPowerOfTwo,
       "bytes that lie together in one row before the next channel has its turn", kWithSection},
      {"dram.queue_bursts", LongMember([](Chip& c) -> int64_t& { return c.dram.queue_bursts; }),
       "bursts per channel", 1, 4096, kAny, "bursts among which a controller chooses", kWithSection},
      {"dram.burst_ns", NumberMember([](Chip& c) -> double& { return c.dram.burst_ns; }), "ns", 1e-3, 1e6,
       kAny, "time of a burst, and between bursts of two bank groups (tCCDS)", kWithSection},
      {"dram.tccdl_ns", NumberMember([](Chip& c) -> double& { return c.dram.tccdl_ns; }), "ns", 0, 1e6, kAny,
       "between bursts of one bank group", kWithSection},
      {"dram.trl_ns", NumberMember([](Chip& c) -> double& { return c.dram.trl_ns; }), "ns", 0, 1e6, kAny,
       "from a read command to its data", kWithSection},
      {"dram.twl_ns", NumberMember([](Chip& c) -> double& { return c.dram.twl_ns; }), "ns", 0, 1e6, kAny,
       "from a write command to its data", kWithSection},
      {"dram.trcdrd_ns", NumberMember([](Chip& c) -> double& { return c.dram.trcdrd_ns; }), "ns", 0, 1e6,
       kAny, "from activate to read", kWithSection},
      {"dram.trcdwr_ns", NumberMember([](Chip& c) -> double& { return c.dram.trcdwr_ns; }), "ns", 0, 1e6,
       kAny, "from activate to write", kWithSection},
      {"dram.trp_ns", NumberMember([](Chip& c) -> double& { return c.dram.trp_ns; }), "ns", 0, 1e6, kAny,
       "from precharge to activate", kWithSection},
      {"dram.tras_ns", NumberMember([](Chip& c) -> double& { return c.dram.tras_ns; }), "ns", 0, 1e6, kAny,
       "from activate to precharge", kWithSection},
      {"dram.trrd_ns", NumberMember([](Chip& c) -> double& { return c.dram.trrd_ns; }), "ns", 0, 1e6, kAny,
       "from activate to activate of another bank", kWithSection},
      {"dram.tfaw_ns", NumberMember([](Chip& c) -> double& { return c.dram.tfaw_ns; }), "ns", 0, 1e6, kAny,
       "in which there are at most four activates", kWithSection},
      {"dram.trtp_ns", NumberMember([](Chip& c) -> double& { return c.dram.trtp_ns; }), "ns", 0, 1e6, kAny,
       "from read to precharge", kWithSection},
      {"dram.twr_ns", NumberMember([](Chip& c) -> double& { return c.dram.twr_ns; }), "ns", 0, 1e6, kAny,
       "from the end of written data to precharge", kWithSection},
      {"dram.twtr_ns", NumberMember([](Chip& c) -> double& { return c.dram.twtr_ns; }), "ns", 0, 1e6, kAny,
       "from the end of written data to a read", kWithSection},
      {"dram.trefi_ns", NumberMember([](Chip& c) -> double& { return c.dram.trefi_ns; }), "ns", 1, 1e9, kAny,
       "between refreshes of all banks", kWithSection},
      {"dram.trfc_ns", NumberMember([](Chip& c) -> double& { return c.dram.trfc_ns; }), "ns", 0, 1e9, kAny,
       "of a refresh of all banks", kWithSection},

      {"host_link.bytes_per_second",
       NumberMember([](Chip& c) -> double& { return c.host_link.bytes_per_second; }), "bytes per second", 1e3,
       1e15, kAny, "rate of the host link, each way"},
      {"host_link.latency_seconds",
       NumberMember([](Chip& c) -> double& { return c.host_link.latency_seconds; }), "seconds", 0, 1, kAny,
       "latency of a data transfer"},
      {"host_link.instruction_buffer_steps",
       LongMember([](Chip& c) -> int64_t& { return c.host_link.instruction_buffer_steps; }), "steps", 1, 1e12,
       kAny, "instructions that wait on the chip"},
      {"host_link.way", TextMember([](Chip& c) -> std::string& { return c.host_link.way; }), "", 0, 0, kAny,
       "pdm: data of the host pass the PDM of group 0 and MVs; direct: the host reaches all DRAMs", kAlone,
       true},
      {"host_link.launch_seconds",
       NumberMember([](Chip& c) -> double& { return c.host_link.launch_seconds; }), "seconds", 0, 1, kAny,
       "from the host's call to the first step of a program", kAlone, true},

      {"host.bytes_per_second", NumberMember([](Chip& c) -> double& { return c.host.bytes_per_second; }),
       "bytes per second", 1e3, 1e15, kAny, "that layers on the host read and write", kAlone, true},
      {"host.operations_per_second",
       NumberMember([](Chip& c) -> double& { return c.host.operations_per_second; }), "operations per second",
       1e3, 1e18, kAny, "of layers on the host", kAlone, true},

      {"hazard.pe_write_complete_cycles",
       LongMember([](Chip& c) -> int64_t& { return c.hazard.pe_write_complete_cycles; }), "cycles", 0,
       kMaxSteps, kAny, "cycles between a write to LM, GRF or T and a read of it"},
      {"hazard.mask_write_use", LongMember([](Chip& c) -> int64_t& { return c.hazard.mask_write_use; }),
       "steps", 0, kMaxSteps, kAny, "between the write of a mask register and its use"},
      {"hazard.bar_write_use", LongMember([](Chip& c) -> int64_t& { return c.hazard.bar_write_use; }),
       "steps", 0, kMaxSteps, kAny, "between the write of a base register and a use of its LM"},
      {"hazard.forward", LongMember([](Chip& c) -> int64_t& { return c.hazard.forward; }), "steps", 0,
       kMaxSteps, kAny, "between a result and its use through a forwarding register"},
      {"hazard.matrix_write_read", LongMember([](Chip& c) -> int64_t& { return c.hazard.matrix_write_read; }),
       "steps", 0, kMaxSteps, kAny, "between mwrite and a use of the matrix register"},
      {"hazard.pe_to_l1bm_read", LongMember([](Chip& c) -> int64_t& { return c.hazard.pe_to_l1bm_read; }),
       "steps", 0, kMaxSteps, kAny, "between PE -> L1BM and L1BM -> PE"},
      {"hazard.turnaround", LongMember([](Chip& c) -> int64_t& { return c.hazard.turnaround; }), "steps", 0,
       kMaxSteps, kAny, "between PE -> L1BM and a use of the turnaround register"},
      {"hazard.pe_to_l1bm_l2bm", LongMember([](Chip& c) -> int64_t& { return c.hazard.pe_to_l1bm_l2bm; }),
       "steps", 0, kMaxSteps, kAny, "between PE -> L1BM and L1BM -> L2BM or l2bmi"},
      {"hazard.l2bm_to_l1bm_pe", LongMember([](Chip& c) -> int64_t& { return c.hazard.l2bm_to_l1bm_pe; }),
       "steps", 0, kMaxSteps, kAny, "between L2BM -> L1BM or l2bmi and L1BM -> PE"},
      {"hazard.l2bm_to_l1bm_l2bm", LongMember([](Chip& c) -> int64_t& { return c.hazard.l2bm_to_l1bm_l2bm; }),
       "steps", 0, kMaxSteps, kAny, "between L2BM -> L1BM or l2bmi and L1BM -> L2BM or l2bmi"},
      {"hazard.l1bm_to_l2bm_read", LongMember([](Chip& c) -> int64_t& { return c.hazard.l1bm_to_l2bm_read; }),
       "steps", 0, kMaxSteps, kAny, "between L1BM -> L2BM and L2BM -> L1BM"},
      {"hazard.l1bm_to_l2bm_mv", LongMember([](Chip& c) -> int64_t& { return c.hazard.l1bm_to_l2bm_mv; }),
       "steps", 0, kMaxSteps, kAny, "between L1BM -> L2BM and an MV that reads L2BM"},
      {"hazard.l1bm_read_overwrite",
       LongMember([](Chip& c) -> int64_t& { return c.hazard.l1bm_read_overwrite; }), "steps", 0, kMaxSteps,
       kAny, "between a read of L1BM and a write of the same words"},
  };
  return table;
}

// ---- reading -------------------------------------------------------------------------------------------

/// Whether it is the name of a file, not of a chip.
bool is_chip_file(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".yaml");
}
/// The file of a chip by name, or the name itself where it is a file's. UserError if there is none.
std::string path_of_chip(const std::string& name_or_file);
std::string text_of_chip_file(const std::string& path);

/// Files that are each one's base, at most.
constexpr int kMostBases = 16;

/// Reads one chip file: walks the YAML tree along the key table.
class ChipReader {
 public:
  /// `bases`: files that it is the base of, one of the next.
  explicit ChipReader(std::string file, int bases = 0) : file_(std::move(file)), bases_(bases) {}

  /// `changes` are keys and the values that stand for those of the file.
  Chip read(std::string_view yaml, const std::vector<std::pair<std::string, std::string>>& changes = {}) {
    std::vector<YAML::Node> documents;
    try {
      documents = YAML::LoadAll(std::string(yaml));
    } catch (const YAML::Exception& e) {
      throw UserError(location(e.mark), fmt::format("not valid YAML: {}", e.msg));
    }
    if (documents.size() > 1) {
      throw UserError(location(documents[1].Mark()), "found a second YAML document; a chip file holds one");
    }
    if (documents.empty()) documents.emplace_back(YAML::NodeType::Null);
    marks_[""] = documents[0].Mark();
    if (documents[0].IsMap() && documents[0]["base"]) read_base(documents[0]["base"]);
    read_section(documents[0], "");
    for (const auto& [path, value] : changes) change(path, value);
    check_consistency();
    chip_.name += changes_;
    chip_.source_file = file_;
    chip_.hash = hash();
    return chip_;
  }

 private:
  SourceLocation location(const YAML::Mark& mark) const {
    if (mark.is_null() && !changes_.empty()) return {file_ + changes_};
    if (mark.is_null()) return {file_, 1, 1};
    return {file_, mark.line + 1, mark.column + 1};
  }

  static std::string describe(const YAML::Node& node) {
    switch (node.Type()) {
      case YAML::NodeType::Scalar:
        return node.Tag() == "!" ? fmt::format("the quoted text \"{}\"", node.Scalar())
                                 : fmt::format("'{}'", node.Scalar());
      case YAML::NodeType::Sequence:
        return "a list";
      case YAML::NodeType::Map:
        return "a section";
      default:
        return "nothing";
    }
  }

  /// Names directly below a section, in table order.
  static std::vector<std::string> names_in(std::string_view section) {
    std::vector<std::string> names;
    for (const Key& key : keys()) {
      std::string_view rest = key.path;
      if (!section.empty()) {
        if (!rest.starts_with(section) || rest.size() <= section.size() || rest[section.size()] != '.')
          continue;
        rest.remove_prefix(section.size() + 1);
      }
      const std::string name(rest.substr(0, rest.find('.')));
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    return names;
  }

  /// Takes over what another chip has; what is wrong with it together with the file's own keys is said of the
  /// line that names it.
  void read_base(const YAML::Node& node) {
    const YAML::Mark mark = node.Mark();
    if (!node.IsScalar() || node.Scalar().empty())
      throw UserError(
          location(mark),
          fmt::format("'base' is {}; allowed: a chip's name, or a chip file (*.yaml)", describe(node)));
    if (bases_ >= kMostBases)
      throw UserError(location(mark),
                      fmt::format("'base' is '{}', behind {} others; allowed: chips that end at "
                                  "one without a base",
                                  node.Scalar(), bases_));
    std::string name = node.Scalar();
    const fs::path folder = fs::path(file_).parent_path();
    if (is_chip_file(name) && fs::path(name).is_relative()) name = (folder / name).string();
    std::string path;
    try {
      path = path_of_chip(name);
    } catch (const UserError& error) {
      throw UserError(location(mark), error.what());
    }
    ChipReader base(path, bases_ + 1);
    chip_ = base.read(text_of_chip_file(path));
    for (const auto& each : base.marks_) marks_[each.first] = mark;
    marks_.erase("name");
  }

  void read_section(const YAML::Node& node, const std::string& section) {
    std::vector<std::string> names = names_in(section);
    if (section.empty()) names.emplace_back("base");
    const std::string where = section.empty() ? "a chip file" : fmt::format("section '{}'", section);
    if (!node.IsMap()) {
      throw UserError(location(marks_[section]), fmt::format("found {}, but {} is a section with the keys {}",
                                                             describe(node), where, fmt::join(names, ", ")));
    }
    std::map<std::string, int> first_line;
    for (const auto& entry : node) {
      const YAML::Mark mark = entry.first.Mark();
      if (!entry.first.IsScalar()) {
        throw UserError(location(mark), fmt::format("found {} as a key of {}; a key is one of {}",
                                                    describe(entry.first), where, fmt::join(names, ", ")));
      }
      const std::string& name = entry.first.Scalar();
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        throw UserError(location(mark), fmt::format("unknown key '{}' in {}; allowed: {}", name, where,
                                                    fmt::join(names, ", ")));
      }
      const auto [earlier, is_new] = first_line.emplace(name, mark.line + 1);
      if (!is_new) {
        throw UserError(location(mark), fmt::format("duplicate key '{}' in {}; first given in line {}", name,
                                                    where, earlier->second));
      }
      if (section.empty() && name == "base") continue;
      const std::string path = section.empty() ? name : section + "." + name;
      // An empty value has the mark of whatever follows it.
      marks_[path] = entry.second.IsNull() ? mark : entry.second.Mark();
      const auto key =
          std::find_if(keys().begin(), keys().end(), [&](const Key& k) { return k.path == path; });
      if (key == keys().end()) {
        read_section(entry.second, path);
      } else {
        read_value(entry.second, *key);
      }
    }
    for (const std::string& name : names) {
      if (first_line.contains(name)) continue;
      const std::string path = section.empty() ? name : section + "." + name;
      if (path == "base" || marks_.contains(path)) continue;
      const auto key =
          std::find_if(keys().begin(), keys().end(), [&](const Key& k) { return k.path == path; });
      if (may_miss(path, key == keys().end())) continue;
      throw UserError(
          location(marks_[section]),
          key == keys().end()
              ? fmt::format("missing section '{}' with the keys {}", name, fmt::join(names_in(path), ", "))
              : fmt::format("missing key '{}' in {}: {}{}{}; allowed: {}", name, where, key->meaning,
                            key->unit.empty() ? "" : ", in ", key->unit, key->allowed()));
    }
  }

  /// Whether a chip file may go without a key or section.
  static bool may_miss(const std::string& path, bool is_section) {
    return std::ranges::all_of(keys(), [&](const Key& key) {
      if (is_section ? !key.path.starts_with(path + ".") : key.path != path) return true;
      return key.left_out == Key::Left::kAlone || (is_section && key.left_out == Key::Left::kWithSection);
    });
  }

  [[noreturn]] void fail(const Key& key, std::string_view found) const {
    throw UserError(location(marks_.at(std::string(key.path))),
                    fmt::format("'{}' is {}; allowed: {}{}{}", key.path, found, key.allowed(),
                                key.unit.empty() ? "" : ", in ", key.unit));
  }

  template <typename T>
  T parse_number(const YAML::Node& node, const Key& key) const {
    if (!node.IsScalar() || node.Tag() == "!") fail(key, describe(node));
    const std::string& text = node.Scalar();
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc::result_out_of_range) fail(key, fmt::format("{}, out of range", text));
    if (error != std::errc{} || end != text.data() + text.size()) fail(key, describe(node));
    if constexpr (std::is_floating_point_v<T>) {
      if (!std::isfinite(value)) fail(key, describe(node));
    }
    if (static_cast<double>(value) < key.minimum || static_cast<double>(value) > key.maximum) {
      fail(key, text);
    }
    if constexpr (std::is_integral_v<T>) {
      const bool wrong =
          (key.rule == Key::Rule::kPowerOfTwo && !std::has_single_bit(static_cast<uint64_t>(value))) ||
          (key.rule == Key::Rule::kMultipleOf64 && value % 64 != 0);
      if (wrong) fail(key, text);
    }
    return value;
  }

  void change(const std::string& path, const std::string& value) {
    const auto key = std::ranges::find(keys(), path, &Key::path);
    if (key == keys().end() || path == "name" || path == "description") {
      throw UserError(
          fmt::format("chip '{}': found '{}', which is no key of a chip file that can be changed; "
                      "allowed: KEY=VALUE with SECTION.KEY as in configs/*.yaml",
                      file_, path));
    }
    const std::string section = path.substr(0, path.find('.'));
    if (key->left_out == Key::Left::kWithSection && !marks_.contains(section)) {
      throw UserError(
          fmt::format("chip '{}': found '{}', but the chip has no section '{}'; allowed: keys of "
                      "sections that it has",
                      file_, path, section));
    }
    marks_[path] = YAML::Mark::null_mark();
    changes_ += fmt::format(",{}={}", path, value);
    read_value(YAML::Node(value), *key);
  }

  void read_value(const YAML::Node& node, const Key& key) {
    if (const auto* text = std::get_if<TextMember>(&key.member)) {
      if (!node.IsScalar() || node.Scalar().empty()) fail(key, describe(node));
      (*text)(chip_) = node.Scalar();
    } else if (const auto* small = std::get_if<IntMember>(&key.member)) {
      (*small)(chip_) = parse_number<int>(node, key);
    } else if (const auto* large = std::get_if<LongMember>(&key.member)) {
      (*large)(chip_) = parse_number<int64_t>(node, key);
    } else {
      std::get<NumberMember>(key.member)(chip_) = parse_number<double>(node, key);
    }
  }

  void require(bool condition, const std::string& path, const std::string& message) const {
    if (!condition) throw UserError(location(marks_.at(path)), message);
  }

  /// What no single key shows: a memory must hold the largest transfer that one instruction makes with it.
  void check_consistency() {
    const Chip& c = chip_;
    const int64_t l1bm_unit = std::max<int64_t>({64, int64_t{kCyclesPerStep} * c.l1bmd_lw_per_cycle()});
    require(
        c.memory.l1bm_lw >= l1bm_unit, "memory.l1bm_lw",
        fmt::format(
            "'memory.l1bm_lw' is {}, but with {} MABs per L1B one l1bmd moves {} LW; allowed: at least {}",
            c.memory.l1bm_lw, c.mab_per_l1b, l1bm_unit, l1bm_unit));
    const int64_t l2bm_unit =
        std::max<int64_t>({64, int64_t{kCyclesPerStep} * c.l2bmd_lw_per_cycle(), int64_t{16} * c.groups});
    require(c.memory.l2bm_lw >= l2bm_unit, "memory.l2bm_lw",
            fmt::format("'memory.l2bm_lw' is {}, but one instruction moves {} LW of it; allowed: at least {}",
                        c.memory.l2bm_lw, l2bm_unit, l2bm_unit));
    const int64_t pdm_unit = int64_t{16} * c.l2b_count();
    require(
        c.memory.pdm_lw % pdm_unit == 0, "memory.pdm_lw",
        fmt::format(
            "'memory.pdm_lw' is {}, but mvd spreads it over {} L2Bs in units of 16 LW; allowed: a multiple "
            "of {}",
            c.memory.pdm_lw, c.l2b_count(), pdm_unit));
    const int64_t row_set = c.transfer.dram_row_bytes / 8 * c.transfer.dram_banks * c.transfer.dram_channels;
    require(c.memory.dram_lw % row_set == 0, "memory.dram_lw",
            fmt::format("'memory.dram_lw' is {}, but {} channels of {} banks with rows of {} bytes make {} "
                        "LW; allowed: a "
                        "multiple of that",
                        c.memory.dram_lw, c.transfer.dram_channels, c.transfer.dram_banks,
                        c.transfer.dram_row_bytes, row_set));
    require(c.transfer.dram_refresh_ns < c.transfer.dram_refresh_interval_ns, "transfer.dram_refresh_ns",
            fmt::format(
                "'transfer.dram_refresh_ns' is {}; allowed: less than 'transfer.dram_refresh_interval_ns', "
                "which is {}",
                c.transfer.dram_refresh_ns, c.transfer.dram_refresh_interval_ns));
    check_dram();
    require(c.host_link.way == "pdm" || c.host_link.way == "direct", "host_link.way",
            fmt::format("'host_link.way' is {}; allowed: pdm, direct", c.host_link.way));
  }

  void check_dram() {
    const TransferTiming& t = chip_.transfer;
    std::vector<std::string> models;
    for (const DramModelKind& kind : dram_models()) models.push_back(kind.name);
    require(
        std::ranges::find(models, t.dram_model) != models.end(), "transfer.dram_model",
        fmt::format("'transfer.dram_model' is {}; allowed: {}, or one of a plugin that is loaded (--plugin)",
                    t.dram_model, fmt::join(models, ", ")));
    const DramPart& d = chip_.dram;
    if (d.channels == 0) {
      require(t.dram_model != kBanksDram, "transfer.dram_model",
              fmt::format("'transfer.dram_model' is banks, but the chip has no section 'dram' with the part; "
                          "allowed: rows, or a chip file with the keys {}",
                          fmt::join(names_in("dram"), ", ")));
      return;
    }
    require(d.burst_bytes <= d.interleave_bytes && d.interleave_bytes <= d.row_bytes, "dram.interleave_bytes",
            fmt::format("'dram.interleave_bytes' is {}; allowed: from 'dram.burst_bytes', which is {}, to "
                        "'dram.row_bytes', which is {}",
                        d.interleave_bytes, d.burst_bytes, d.row_bytes));
    const int64_t rows = d.row_bytes * d.bank_groups * d.banks_per_group * d.channels;
    require(chip_.memory.dram_lw * 8 % rows == 0, "dram.row_bytes",
            fmt::format("one row of each bank is {} bytes; allowed: what divides 'memory.dram_lw', which is "
                        "{} bytes",
                        rows, chip_.memory.dram_lw * 8));
    // Else a bank could wait for longer than its row stays open.
    const double all = d.burst_ns + d.tccdl_ns + d.trl_ns + d.twl_ns + d.trcdrd_ns + d.trcdwr_ns + d.trp_ns +
                       d.tras_ns + d.trrd_ns + d.tfaw_ns + d.trtp_ns + d.twr_ns + d.twtr_ns + d.trfc_ns;
    require(all < d.trefi_ns, "dram.trefi_ns",
            fmt::format(
                "'dram.trefi_ns' is {}; allowed: more than the other times of the section together, which "
                "are {}",
                d.trefi_ns, all));
    if (t.dram_model != kBanksDram) return;
    // What compiler and reports take for the peak must be the part's.
    const double part = static_cast<double>(d.channels * d.burst_bytes) / d.burst_ns * 1e9;
    const double rate = t.dram_lw_per_cycle * 8 * chip_.clock_hz;
    require(std::abs(part - rate) <= 0.01 * rate, "dram.burst_ns",
            fmt::format(
                "{} channels with {} bytes in 'dram.burst_ns' = {} move {:.4g} bytes per second; allowed: "
                "what 'transfer.dram_lw_per_cycle' says, {:.4g}, within 1 %",
                d.channels, d.burst_bytes, d.burst_ns, part, rate));
  }

  /// FNV-1a over all values that describe hardware; name and description don't, nor does a part whose model
  /// isn't chosen.
  std::string hash() {
    uint64_t state = 0xcbf29ce484222325;
    for (const Key& key : keys()) {
      if (key.path == "name" || key.path == "description") continue;
      if (chip_.transfer.dram_model == kRowsDram && key.path == "transfer.dram_model") continue;
      if (key.of_host || (chip_.transfer.dram_model != kBanksDram && key.is_dram_part())) continue;
      std::string text = fmt::format("{}=", key.path);
      if (const auto* word = std::get_if<TextMember>(&key.member))
        text += fmt::format("{}\n", (*word)(chip_));
      if (const auto* small = std::get_if<IntMember>(&key.member))
        text += fmt::format("{}\n", (*small)(chip_));
      if (const auto* large = std::get_if<LongMember>(&key.member))
        text += fmt::format("{}\n", (*large)(chip_));
      if (const auto* number = std::get_if<NumberMember>(&key.member))
        text += fmt::format("{}\n", (*number)(chip_));
      for (const char character : text) {
        state = (state ^ static_cast<unsigned char>(character)) * 0x100000001b3;
      }
    }
    return fmt::format("{:016x}", state);
  }

  std::string file_;
  int bases_;
  std::string changes_;  ///< of the chip, as they stand behind its name
  Chip chip_;
  std::map<std::string, YAML::Mark> marks_;  ///< of values and sections, for messages about them
};

/// The share folders of the prefix that this code was installed to, wherever that is now: beside the program,
/// or the shared library, that has it.
std::vector<fs::path> folders_beside_this() {
  std::vector<fs::path> files;
  Dl_info info{};
  static const char here = 0;
  if (::dladdr(&here, &info) != 0 && info.dli_fname != nullptr) files.emplace_back(info.dli_fname);
  files.emplace_back("/proc/self/exe");  // a program's own name need not say where it is
  std::vector<fs::path> folders;
  for (const fs::path& file : files) {
    std::error_code error;
    fs::path folder = fs::canonical(file, error).parent_path();
    for (int up = 0; up < 3 && !error && folder.has_relative_path(); ++up) {  // PREFIX/lib/ARCHITECTURE
      folders.push_back(folder / "share/kodama/configs");
      folder = folder.parent_path();
    }
  }
  return folders;
}

/// Folders with chip files, first one first.
std::vector<fs::path> config_folders() {
  std::vector<fs::path> folders;
  if (const char* folder = std::getenv("KODAMA_CONFIG_DIR"); folder != nullptr && *folder != 0) {
    folders.emplace_back(folder);
  }
  const std::vector<fs::path> beside = folders_beside_this();
  folders.insert(folders.end(), beside.begin(), beside.end());
#ifdef KODAMA_INSTALL_CONFIG_DIR
  folders.emplace_back(KODAMA_INSTALL_CONFIG_DIR);
#endif
  folders.emplace_back(source_path("configs"));
  return folders;
}

std::string path_of_chip(const std::string& name_or_file) {
  if (is_chip_file(name_or_file)) return name_or_file;
  std::error_code error;
  for (const fs::path& folder : config_folders()) {
    const fs::path file = folder / (name_or_file + ".yaml");
    if (!name_or_file.empty() && fs::exists(file, error)) return file.string();
  }
  throw UserError(fmt::format("no chip is named '{}'; allowed: {}, or the path of a chip file (*.yaml)",
                              name_or_file, fmt::join(chip_names(), ", ")));
}

std::string text_of_chip_file(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) throw UserError({path}, "found a folder; expected a chip file (YAML)");
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw UserError({path}, fmt::format("can't read the chip file: {}", std::strerror(errno)));
  std::ostringstream text;
  text << stream.rdbuf();
  if (stream.bad()) throw UserError({path}, "can't read the chip file: reading failed");
  return text.str();
}

}  // namespace

Chip parse_chip(std::string_view yaml, const std::string& file_name) {
  return ChipReader(file_name).read(yaml);
}

namespace {

using Changes = std::vector<std::pair<std::string, std::string>>;

Chip load_changed(const std::string& path, const Changes& changes) {
  return ChipReader(path).read(text_of_chip_file(path), changes);
}

/// Cuts `NAME,KEY=VALUE,…` at the first comma that a key and '=' follow; files may have commas in their
/// names.
Changes split_changes(std::string& name) {
  Changes changes;
  for (size_t comma = name.find(','); comma != std::string::npos; comma = name.find(',', comma + 1)) {
    if (name.find('=', comma) == std::string::npos) break;
    std::error_code error;
    if (fs::exists(name, error)) return {};
    std::string rest = name.substr(comma + 1);
    name.resize(comma);
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(','), rest.size());
      const std::string change = rest.substr(0, end);
      const size_t equals = change.find('=');
      if (equals == std::string::npos || equals == 0) {
        throw UserError(fmt::format(
            "chip '{}': found '{}' behind the chip; allowed: KEY=VALUE, with commas between", name, change));
      }
      changes.emplace_back(change.substr(0, equals), change.substr(equals + 1));
      rest.erase(0, end + 1);
    }
  }
  return changes;
}

}  // namespace

Chip load_chip_file(const std::string& path) {
  return load_changed(path, {});
}

Chip find_chip(const std::string& name_or_file) {
  std::string name = name_or_file;
  const Changes changes = split_changes(name);
  return load_changed(path_of_chip(name), changes);
}

std::vector<std::string> chip_names() {
  std::set<std::string> names;
  std::error_code error;
  for (const fs::path& folder : config_folders()) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
      if (entry.path().extension() == ".yaml") names.insert(entry.path().stem().string());
    }
  }
  return {names.begin(), names.end()};
}

std::vector<ChipKey> describe_chip_keys() {
  std::vector<ChipKey> described;
  for (const Key& key : keys()) {
    described.push_back({std::string(key.path), std::string(key.type()), std::string(key.unit), key.allowed(),
                         std::string(key.meaning)});
  }
  return described;
}

}  // namespace kodama::isa
