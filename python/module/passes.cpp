#include "compiler/graph/passes.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "compiler/graph/import.h"
#include "compiler/graph/onnx_model.h"
#include "isa/file.h"
#include "layout/plan/planner.h"
#include "passes/plugin_loading.h"
#include "passes/registry.h"
#include "python/module/calls.h"
#include "python/module/parts.h"
#include "scheduler/packing/packing.h"
#include "scheduler/problem/schedule_problem.h"
#include "scheduler/problem/schedule_suite.h"
#include "scheduler/problem/transfer_problem.h"
#include "scheduler/recompute/recompute.h"
#include "tools/command_line.h"

/// Passes in Python, and problems that are solved without the compiler. Problems pass the border as the JSON
/// of their files; what comes back are plain lists, of which python/kodama/passes.py knows how they are
/// meant.
namespace kodama::python {
namespace {

using passes::PassOptionInfo;
using passes::PassOptions;

/// A function of Python's that is never given back: registries live longer than the interpreter.
class Function {
 public:
  explicit Function(const py::function& function) : function_(function.inc_ref().ptr()) {}
  template <typename... Arguments>
  py::object operator()(Arguments&&... arguments) const {
    return py::reinterpret_borrow<py::function>(function_)(std::forward<Arguments>(arguments)...);
  }

 private:
  PyObject* function_;
};

/// What every kind of pass has: (name, description, file, options as (name, default, description)).
struct Declaration {
  std::string name;
  std::string description;
  std::string file;
  std::vector<std::array<std::string, 3>> options;

  std::vector<PassOptionInfo> infos() const {
    std::vector<PassOptionInfo> all;
    for (const auto& [option, value, text] : options) all.push_back({option, value, text});
    return all;
  }
};

template <typename Pass>
void add(const Declaration& declaration, Pass pass) {
  pass.name = declaration.name;
  pass.description = declaration.description;
  pass.options = declaration.infos();
  register_alone([&] {
    // A cell of a notebook that runs again registers its pass again.
    std::optional<passes::RegisteringPlugin> registering;
    if (passes::RegisteringPlugin::file().empty()) registering.emplace(declaration.file, true);
    register_pass(std::move(pass));
  });
}

void add_scheduler(const Declaration& declaration, const py::function& function, bool for_blocks,
                   bool for_loops, bool overlaps) {
  scheduler::BlockScheduler pass;
  pass.for_blocks = for_blocks;
  pass.for_loops = for_loops;
  pass.overlaps = overlaps;
  pass.run = [call = Function(function)](const scheduler::ScheduleProblem& problem,
                                         const PassOptions& options) {
    const std::string text = to_json(problem);
    return call_python([&] {
      const auto [issue, interval, optimal] =
          call(text, options).cast<std::tuple<std::vector<int64_t>, int64_t, bool>>();
      // What is larger is no answer, and sums of it overflow.
      const int64_t longest = scheduler::kMostSteps * (std::ssize(problem.operations) + 1);
      for (const int64_t step : issue) {
        if (step > longest)
          throw std::runtime_error(fmt::format("range: found step {}, allowed: 0 to {}", step, longest));
      }
      if (interval > longest)
        throw std::runtime_error(
            fmt::format("range: found interval {}, allowed: 1 to {}", interval, longest));
      return scheduler::Schedule{.issue = issue, .interval = interval, .is_optimal = optimal};
    });
  };
  add(declaration, std::move(pass));
}

void add_transfer_scheduler(const Declaration& declaration, const py::function& function) {
  scheduler::TransferScheduler pass;
  pass.run = [call = Function(function)](const scheduler::TransferProblem& problem,
                                         const PassOptions& options) {
    const std::string text = to_json(problem);
    return call_python([&] {
      std::vector<scheduler::TransferSchedule> schedules;
      for (const py::handle each : call(text, options)) {
        const auto [issue, copied, address, kept] = each.cast<
            std::tuple<std::vector<int64_t>, std::vector<bool>, std::vector<int64_t>, std::vector<bool>>>();
        schedules.push_back({issue, copied, address, kept});
        const auto check = [](const char* what, size_t found, size_t wanted) {
          if (found != wanted)
            throw std::runtime_error(
                fmt::format("found '{}' with {} entries, allowed: {}", what, found, wanted));
        };
        check("issue", issue.size(), problem.transfers.size());
        check("copied", copied.size(), problem.transfers.size());
        check("address", address.size(), problem.buffers.size());
        check("kept", kept.size(), problem.keeps.size());
      }
      return schedules;
    });
  };
  add(declaration, std::move(pass));
}

void add_packer(const Declaration& declaration, const py::function& function) {
  scheduler::Packer pass;
  pass.run = [call = Function(function)](const scheduler::PackingProblem& problem,
                                         const PassOptions& options) {
    const std::string text = packing_json(problem).dump();
    scheduler::PackingSolution solution;
    solution.offsets = call_python([&] { return call(text, options).cast<std::vector<int64_t>>(); });
    if (solution.offsets.size() != problem.buffers.size()) {
      if (solution.offsets.empty()) return solution;
      throw std::runtime_error(fmt::format("found {} offsets, allowed: one for each of {} buffers",
                                           solution.offsets.size(), problem.buffers.size()));
    }
    for (size_t k = 0; k < problem.buffers.size(); ++k) {
      // verify_packing says what is wrong with an offset; here it must not overflow.
      const int64_t offset = std::clamp<int64_t>(solution.offsets[k], 0, int64_t{1} << 60);
      solution.height = std::max(solution.height, offset + problem.buffers[k].size);
    }
    solution.lower_bound = std::min(packing_lower_bound(problem), solution.height);
    if (solution.height <= problem.capacity) solution.status = scheduler::PackingStatus::kSolved;
    return solution;
  };
  add(declaration, std::move(pass));
}

void add_recomputer(const Declaration& declaration, const py::function& function) {
  scheduler::Recomputer pass;
  pass.run = [call = Function(function)](const scheduler::RecomputeProblem& problem,
                                         const PassOptions& options) {
    const std::string text = to_json(problem);
    scheduler::RecomputeSchedule schedule;
    schedule.steps = call_python([&] { return call(text, options).cast<std::vector<int>>(); });
    for (const int step : schedule.steps) {
      if (step < 0 || step >= std::ssize(problem.operations))
        throw std::runtime_error(
            fmt::format("found step {}, allowed: 0 to {}", step, std::ssize(problem.operations) - 1));
      schedule.cycles += problem.operations[static_cast<size_t>(step)].cycles;
    }
    if (schedule.steps.empty()) return schedule;
    schedule.peak = std::ranges::max(alive_bytes(problem, schedule.steps));
    if (schedule.peak <= problem.limit) schedule.status = scheduler::RecomputeStatus::kSolved;
    return schedule;
  };
  add(declaration, std::move(pass));
}

/// What a planner in Python sees of its problem; afterwards nothing.
class PlanView {
 public:
  explicit PlanView(const layout::PlanProblem& problem) : problem_(&problem) {}
  void end() { problem_ = nullptr; }

  /// Of each node: its name and its candidates as (name, cost, layouts).
  auto nodes() const {
    std::vector<std::pair<std::string, std::vector<std::tuple<std::string, double, std::vector<int>>>>> all;
    for (const auto& node : problem().nodes) {
      auto& [name, candidates] = all.emplace_back();
      name = node.name;
      for (const auto& each : node.candidates) candidates.emplace_back(each.name, each.cost, each.layouts);
    }
    return all;
  }
  /// Of each tensor: its name, and (node, operand) of its maker and of its readers.
  auto tensors() const {
    using Use = std::pair<int, int>;
    std::vector<std::tuple<std::string, Use, std::vector<Use>>> all;
    for (const auto& tensor : problem().tensors) {
      std::vector<Use> readers;
      for (const auto& use : tensor.readers) readers.emplace_back(use.node, use.operand);
      all.emplace_back(tensor.name, Use(tensor.maker.node, tensor.maker.operand), std::move(readers));
    }
    return all;
  }
  double conversion(int tensor, int from, int to) const {
    const auto& each = tensor_at(tensor);
    const py::gil_scoped_release unlocked;
    return each.conversion(from, to);
  }
  double at_least(int tensor, int from, int to) const {
    const auto& each = tensor_at(tensor);
    const py::gil_scoped_release unlocked;
    return each.at_least ? each.at_least(from, to) : each.conversion(from, to);
  }
  double cost(const std::vector<int>& choice) const {
    const layout::PlanProblem& all = problem();
    check_choice(all, choice);
    const py::gil_scoped_release unlocked;
    return evaluate(all, choice).cost;
  }
  static void check_choice(const layout::PlanProblem& problem, const std::vector<int>& choice) {
    if (choice.size() != problem.nodes.size())
      throw std::runtime_error(fmt::format("found a choice for {} nodes, allowed: one for each of {}",
                                           choice.size(), problem.nodes.size()));
    for (size_t node = 0; node < choice.size(); ++node) {
      const auto count = std::ssize(problem.nodes[node].candidates);
      if (choice[node] < 0 || choice[node] >= count)
        throw std::runtime_error(fmt::format("found candidate {} of node '{}', allowed: 0 to {}",
                                             choice[node], problem.nodes[node].name, count - 1));
    }
  }

 private:
  const layout::PlanProblem& problem() const {
    if (problem_ == nullptr) throw isa::UserError("a plan problem is used after its planner has ended");
    return *problem_;
  }
  const layout::PlanProblem::Tensor& tensor_at(int tensor) const {
    const auto& all = problem().tensors;
    if (tensor < 0 || tensor >= std::ssize(all))
      throw isa::UserError(fmt::format("found tensor {}, allowed: 0 to {}", tensor, std::ssize(all) - 1));
    return all[static_cast<size_t>(tensor)];
  }

  const layout::PlanProblem* problem_;
};

void add_planner(const Declaration& declaration, const py::function& function) {
  layout::Planner pass;
  pass.run = [call = Function(function)](const layout::PlanProblem& problem,
                                         const layout::PlanOptions& options) {
    const std::vector<int> choice = call_python([&] {
      const auto view = std::make_shared<PlanView>(problem);
      const std::unique_ptr<PlanView, void (*)(PlanView*)> end(view.get(),
                                                               [](PlanView* each) { each->end(); });
      return call(view, options.given).cast<std::vector<int>>();
    });
    PlanView::check_choice(problem, choice);
    return evaluate(problem, choice);
  };
  add(declaration, std::move(pass));
}

void add_graph_pass(const Declaration& declaration, const py::function& function, const std::string& after) {
  compiler::GraphPass pass;
  pass.after = after;
  pass.run = [call = Function(function), name = declaration.name](onnx::ModelProto& model,
                                                                  const compiler::GraphPassOptions& options) {
    const std::string before = compiler::serialize_model(model, name);
    const std::string behind = call_python(
        [&] { return call(py::bytes(before), options.given).cast<py::bytes>().operator std::string(); });
    model = compiler::parse_model(behind, name);
  };
  add(declaration, std::move(pass));
}

/// (schedule as JSON, steps or interval, bound, whether none is shorter, as far as that is shown by the
/// bound)
std::tuple<std::string, int64_t, int64_t> schedule(const std::string& text, const std::string& source,
                                                   const std::string& name, const PassOptions& options) {
  std::tuple<std::string, int64_t, int64_t> result;
  run_long([&] {
    const scheduler::ScheduleProblem problem = scheduler::problem_from_json(text, source);
    const scheduler::BlockScheduler& chosen = scheduler::find_block_scheduler(name, problem.is_loop);
    passes::check_options(options, {&chosen.options});
    const scheduler::Schedule found = checked_schedule(problem, chosen, options);
    result = {to_json(problem, found), problem.is_loop ? found.interval : schedule_steps(problem, found),
              problem.is_loop ? interval_bound(problem).interval() : block_bound(problem).steps()};
  });
  return result;
}

std::string schedule_fault_of(const std::string& text, const std::string& source,
                              const std::vector<int64_t>& issue, int64_t interval) {
  const scheduler::ScheduleProblem problem = scheduler::problem_from_json(text, source);
  return schedule_fault(problem, scheduler::Schedule{.issue = issue, .interval = interval});
}

}  // namespace

void define_passes(py::module_& module) {
  py::class_<Declaration>(module, "Declaration")
      .def(py::init([](std::string name, std::string description, std::string file,
                       std::vector<std::array<std::string, 3>> options) {
        return Declaration{std::move(name), std::move(description), std::move(file), std::move(options)};
      }));
  module.def("add_scheduler", &add_scheduler);
  module.def("add_transfer_scheduler", &add_transfer_scheduler);
  module.def("add_packer", &add_packer);
  module.def("add_recomputer", &add_recomputer);
  module.def("add_planner", &add_planner);
  module.def("add_graph_pass", &add_graph_pass);
  py::class_<PlanView, std::shared_ptr<PlanView>>(module, "PlanView")
      .def("nodes", &PlanView::nodes)
      .def("tensors", &PlanView::tensors)
      .def("conversion", &PlanView::conversion)
      .def("at_least", &PlanView::at_least)
      .def("cost", &PlanView::cost);

  module.def("read_text", &isa::read_file);
  module.def("write_text", [](const std::string& path, const std::string& text) {
    isa::write_file_atomically(path, text);
  });
  module.def("check_schedule_problem", [](const std::string& text, const std::string& source) {
    return to_json(scheduler::problem_from_json(text, source));
  });
  module.def("schedule", &schedule);
  module.def("schedule_fault", &schedule_fault_of);
  module.def("bench_schedules", [](const std::string& directory, int random,
                                   const std::vector<std::string>& schedulers, const PassOptions& options,
                                   bool details) {
    std::ostringstream out;
    run_long([&] {
      const std::string folder = directory == "default" ? isa::source_path("testsuite/schedule") : directory;
      scheduler::bench_schedules({folder, random, schedulers, options, details}, out);
    });
    return std::move(out).str();
  });
  module.def("pack", [](const std::string& text, const std::string& source, const std::string& packer,
                        const PassOptions& options) {
    std::string result;
    run_long([&] {
      const scheduler::PackingProblem problem = scheduler::read_packing_json(text, source);
      result = packing_json(problem, scheduler::pack(problem, packer, options)).dump();
    });
    return result;
  });
  module.def("load_plugin",
             [](const std::string& file) { register_alone([&] { passes::load_plugin(file); }); });
  module.def("load_python_plugins_with", [](const py::function& load) {
    passes::load_python_plugins_with([call = Function(load)](const std::string& file) {
      call_python([&] {
        call(file);
        return 0;
      });
    });
  });
  module.def("run_command_line", [](std::vector<std::string> arguments) {
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    const py::gil_scoped_release unlocked;
    return tools::run_command_line(static_cast<int>(arguments.size()), pointers.data());
  });
}

}  // namespace kodama::python
