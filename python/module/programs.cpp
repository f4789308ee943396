#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "assembler/assembler.h"
#include "assembler/program_file.h"
#include "isa/chip.h"
#include "isa/hazards.h"
#include "isa/output.h"
#include "python/module/calls.h"
#include "python/module/parts.h"
#include "simulator/debug_text.h"
#include "simulator/hazard_modes.h"
#include "simulator/machine.h"
#include "simulator/memory_contents.h"
#include "simulator/run_report.h"
#include "simulator/statistics.h"

/// kodama.asm, kodama.simulate, kodama.Machine.
namespace kodama::python {
namespace {

/// A program and the chip that it was checked for.
struct VsmProgram {
  isa::Program program;
  isa::Chip chip;
};

VsmProgram assemble_text(const std::string& text, const std::string& chip, const std::string& file) {
  VsmProgram result;
  run_long([&] {
    result.chip = isa::find_chip(chip);
    result.program = assembler::assemble(text, file, result.chip);
  });
  return result;
}
VsmProgram read_file(const std::string& path, const std::string& chip) {
  VsmProgram result;
  run_long([&] {
    result.chip = isa::find_chip(chip);
    result.program = assembler::read_program(path, result.chip);
  });
  return result;
}
assembler::ProgramForm form_of(const std::string& name) {
  if (name == "text") return assembler::ProgramForm::kText;
  if (name == "words") return assembler::ProgramForm::kWords;
  if (name == "binary") return assembler::ProgramForm::kBinary;
  throw isa::UserError(fmt::format("form of a program: found '{}', allowed: text, words, binary", name));
}
py::bytes bytes_of(const VsmProgram& program, const std::string& form) {
  std::string bytes;
  run_long([&] {
    assembler::write_program(program.program, form_of(form), program.chip, {},
                             [&](std::string_view piece) { bytes += piece; });
  });
  return bytes;
}
py::list hazards_of(const VsmProgram& program) {
  std::vector<std::string> texts;
  run_long([&] {
    for (const isa::HazardViolation& each : isa::find_hazards(program.program, program.chip))
      texts.push_back(fmt::format("line {}: {}", each.second_line, each.text));
  });
  return strings_of(texts);
}

/// A memory by the name that `d get` prints, in any case.
isa::Space space_of(const std::string& name) {
  std::string names;
  for (const isa::Space space : simulator::kAllMemories) {
    std::string own = simulator::dump_name(space);
    if (std::ranges::equal(own, name, [](char a, char b) { return std::tolower(a) == std::tolower(b); }))
      return space;
    names += (names.empty() ? "" : ", ") + own;
  }
  throw isa::UserError(fmt::format("memory: found '{}', allowed: {}", name, names));
}

struct RunSettings {
  bool timing = true;
  std::string hazards = "ignore";
  std::string trace;
  std::string vcd;
};
/// What a run returns: the numbers, the lines of `d get`, and the statistics as JSON if they were asked for.
struct RunResult {
  simulator::RunStats stats;
  std::vector<std::string> dump;
  std::string causes;
  std::string statistics;
};

class PyMachine {
 public:
  PyMachine(const std::string& chip, int threads, const std::string& memory, uint64_t seed) {
    simulator::MachineOptions options;
    options.threads = threads;
    options.seed = seed;
    if (memory != "zero" && memory != "dirty")
      throw isa::UserError(fmt::format("memory: found '{}', allowed: zero, dirty", memory));
    if (memory == "dirty") options.memory = simulator::MachineOptions::Memory::kDirty;
    run_long([&] { machine_.emplace(isa::find_chip(chip), options); });
  }

  const isa::Chip& chip() const { return machine_->chip(); }

  RunResult run(const VsmProgram& program, const RunSettings& settings, bool with_statistics) {
    if (program.chip.hash != chip().hash)
      throw isa::UserError(fmt::format("a program for chip {}; allowed: one for this machine's, {}",
                                       program.chip.name, chip().name));
    RunResult result;
    simulator::RunOptions options;
    options.timing = settings.timing;
    options.hazards = simulator::parse_hazards(settings.hazards);
    options.dump = [&](const std::string& line) { result.dump.push_back(line); };
    simulator::ReportOptions wanted;
    wanted.trace_file = settings.trace;
    wanted.vcd_file = settings.vcd;
    const bool has_report = with_statistics || wanted.any();
    if (has_report && !settings.timing)
      throw isa::UserError("statistics, trace and vcd: allowed only with timing, which they show");
    const Turn turn(*this);
    run_long([&] {
      simulator::RunReport report(chip(), wanted);
      if (wanted.any()) report.attach("", options);
      simulator::Profile profile;
      if (with_statistics && options.profile == nullptr) options.profile = &profile;
      result.stats = machine_->run(program.program, options);
      if (with_statistics)
        result.statistics =
            simulator::statistics_json(simulator::statistics(*options.profile, chip())).dump();
      std::ostream nowhere(nullptr);
      report.finish(nowhere);
    });
    result.causes = simulator::causes_json(result.stats.causes).dump();
    return result;
  }

  py::array_t<uint64_t> read(const std::string& memory, int64_t address, int64_t count,
                             const std::array<int, 5>& at) {
    if (count < 0) throw isa::UserError(fmt::format("count {}: allowed from 0 on", count));
    const isa::Space space = space_of(memory);
    simulator::check_range(space, place_of(at), address, static_cast<size_t>(count), chip());
    py::array_t<uint64_t> data(count);
    const Turn turn(*this);
    machine_->read(space, place_of(at), address, std::span(data.mutable_data(), static_cast<size_t>(count)));
    return data;
  }
  void write(const std::string& memory, int64_t address,
             const py::array_t<uint64_t, py::array::c_style>& data, const std::array<int, 5>& at) {
    const isa::Space space = space_of(memory);
    const auto count = static_cast<size_t>(data.size());
    simulator::check_range(space, place_of(at), address, count, chip());
    const Turn turn(*this);
    machine_->write(space, place_of(at), address, std::span(data.data(), count));
  }
  int64_t size(const std::string& memory) const { return simulator::space_size(space_of(memory), chip()); }

 private:
  /// A machine does one thing at a time.
  class Turn {
   public:
    explicit Turn(PyMachine& machine) : machine_(machine) {
      if (machine_.is_busy_)
        throw isa::UserError("this machine runs a program in another thread; allowed: one thing at a time");
      machine_.is_busy_ = true;
    }
    ~Turn() { machine_.is_busy_ = false; }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    PyMachine& machine_;
  };
  static simulator::Place place_of(const std::array<int, 5>& at) {
    return {at[0], at[1], at[2], at[3], at[4]};
  }

  std::optional<simulator::Machine> machine_;
  bool is_busy_ = false;  ///< under the interpreter's lock
};

}  // namespace

void define_programs(py::module_& module) {
  py::class_<VsmProgram>(module, "VsmProgram")
      .def_property_readonly("chip", [](const VsmProgram& self) { return self.chip.name; })
      .def("counts",
           [](const VsmProgram& self) {
             const isa::ProgramCounts counts = isa::count(self.program);
             return std::array{counts.steps, counts.nops, counts.mvs, counts.statements};
           })
      .def("bytes", &bytes_of)
      .def("hazards", &hazards_of);
  module.def("assemble", &assemble_text);
  module.def("read_program", &read_file);

  py::class_<RunResult>(module, "RunResult")
      .def_property_readonly("cycles", [](const RunResult& self) { return self.stats.cycles(); })
      .def_property_readonly("steps", [](const RunResult& self) { return self.stats.steps; })
      .def_property_readonly("nops", [](const RunResult& self) { return self.stats.nops; })
      .def_property_readonly("mvs", [](const RunResult& self) { return self.stats.mvs; })
      .def_property_readonly("dump", [](const RunResult& self) { return strings_of(self.dump); })
      .def_readonly("causes", &RunResult::causes)
      .def_readonly("statistics", &RunResult::statistics);
  py::class_<PyMachine>(module, "Machine")
      .def(py::init<const std::string&, int, const std::string&, uint64_t>())
      .def_property_readonly("chip", [](const PyMachine& self) { return self.chip().name; })
      .def("run",
           [](PyMachine& self, const VsmProgram& program, bool timing, const std::string& hazards,
              const std::string& trace, const std::string& vcd, bool statistics) {
             return self.run(program, {timing, hazards, trace, vcd}, statistics);
           })
      .def("read", &PyMachine::read)
      .def("write", &PyMachine::write)
      .def("size", &PyMachine::size);

  module.def("chip_names", &isa::chip_names);
  module.def("chip_keys", [] {
    std::vector<std::string> paths;
    for (const isa::ChipKey& key : isa::describe_chip_keys()) paths.push_back(key.path);
    return paths;
  });
  module.def("chip", [](const std::string& name) {
    const isa::Chip chip = isa::find_chip(name);
    py::dict facts;
    facts["name"] = chip.name;
    facts["description"] = chip.description;
    facts["source_file"] = chip.source_file;
    facts["groups"] = chip.groups;
    facts["l2b_per_group"] = chip.l2b_per_group;
    facts["l1b_per_l2b"] = chip.l1b_per_l2b;
    facts["mab_per_l1b"] = chip.mab_per_l1b;
    facts["pe_per_mab"] = isa::kPePerMab;
    facts["clock_hz"] = chip.clock_hz;
    facts["dram_lw"] = chip.memory.dram_lw;
    facts["pdm_lw"] = chip.memory.pdm_lw;
    facts["l2bm_lw"] = chip.memory.l2bm_lw;
    facts["l1bm_lw"] = chip.memory.l1bm_lw;
    facts["lm_words"] = chip.memory.lm_words;
    facts["grf_words"] = chip.memory.grf_words;
    return facts;
  });
}

}  // namespace kodama::python
