#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "compiler/compile/plan_slices.h"
#include "compiler/driver/session_options.h"
#include "compiler/dynamic/stored_programs.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/package/package.h"
#include "compiler/proto/tensor_file.h"
#include "compiler/proto/tensor_proto.h"
#include "isa/file.h"
#include "library/states.h"
#include "passes/plugin_loading.h"

namespace kodama {

using compiler::CompiledModel;
using library::describe;
using library::ProgramState;
using library::TensorAccess;
using library::to_counts;

namespace library {

compiler::MatrixPrecision ProgramState::precision() const {
  return compiled ? compiled->precision : compiler::parse_matrix_precision(options.precision);
}

CompiledModel compile_static(onnx::ModelProto model, const compiler::SessionOptions& options,
                             const Progress& progress, onnx::ModelProto* prepared) {
  compiler::CompileOptions compile =
      compiler::compile_options(options, compiler::dump_points(&options.passes), options.planner);
  const isa::Chip chip = isa::find_chip(options.chip);
  layout::SolutionCache cache(options.cache);
  if (!options.cache.empty()) compile.cache = &cache;
  compile.progress = to_counts(progress);
  std::optional<compiler::StoredPrograms> stored =
      compiler::stored_programs(options.cache, options.dump_after);
  return compiler::compile_or_find(std::move(model), chip, compile, stored ? &*stored : nullptr, prepared);
}

}  // namespace library

namespace {

void set_compiled(ProgramState& state, CompiledModel compiled) {
  state.name = compiled.name;
  state.chip = compiled.chip;
  state.inputs = describe(compiled, compiled.inputs);
  state.outputs = describe(compiled, compiled.outputs);
  state.compiled = std::move(compiled);
}

/// The model's graph; moved out if nobody else has it.
onnx::ModelProto take(std::shared_ptr<const library::ModelState> model) {
  // States are not made const.
  if (model.use_count() == 1) return std::move(const_cast<library::ModelState&>(*model).imported.model);
  return model->imported.model;
}

/// `where` begins the message, as of errors about the model.
[[noreturn]] void throw_not_given(const onnx::ValueInfoProto& input, const std::string& where) {
  std::string flags;
  if (input.type().has_tensor_type()) {
    const auto& dims = input.type().tensor_type().shape().dim();
    for (int axis = 0; axis < dims.size(); ++axis) {
      const std::string& name = dims.Get(axis).dim_param();
      if (!dims.Get(axis).has_dim_value())
        flags += " --dim " + (name.empty() ? fmt::format("{}:{}", input.name(), axis) : name) + "=4";
    }
  }
  throw UserError(
      fmt::format("{}: input '{}' is {}: give it with --input {}=FILE{}", where, input.name(),
                  compiler::type_to_string(input.type()), input.name(),
                  flags.empty() ? "" : fmt::format(", or the size of a random one, for example:{}", flags)));
}

}  // namespace

Program Program::compile(Model model, const CompileSettings& settings) {
  auto state = std::make_shared<ProgramState>();
  compiler::SessionOptions& options = state->options;
  options.chip = settings.chip;
  options.precision = settings.precision;
  for (const auto& [name, value] : settings.options) compiler::set_option(options, name, value);
  options.dump_after = settings.dump_after;
  options.dump_directory = settings.dump_directory;
  state->open_reason = model.open_reason();
  Program program;
  if (!state->open_reason.empty()) {
    compiler::check_slices_of_parts(options, state->open_reason);
    compiler::compile_options(options, compiler::dump_points(&options.passes), options.planner);
    for (const std::string& bucket : settings.buckets)
      state->buckets.push_back(compiler::parse_bucket(bucket));
    if (settings.cache_limit < 1)
      throw UserError(fmt::format("cache_limit {}: allowed from 1 on", settings.cache_limit));
    state->cache_limit = settings.cache_limit;
    state->chip = isa::find_chip(options.chip);
    state->name = model.name();
    state->inputs = model.inputs();
    state->outputs = model.outputs();
    state->model = std::move(model.state_);
  } else {
    if (!settings.buckets.empty())
      throw UserError(fmt::format("--bucket {}: all shapes of this model are known before it runs",
                                  settings.buckets.front()));
    if (settings.keeps_reference) state->model = model.state_;
    set_compiled(*state,
                 library::compile_static(take(std::move(model.state_)), options, settings.progress,
                                         settings.keeps_reference ? &state->prepared.emplace() : nullptr));
  }
  program.state_ = std::move(state);
  return program;
}

Program Program::load(const std::string& directory, const std::string& chip, const Progress& progress) {
  auto state = std::make_shared<ProgramState>();
  set_compiled(*state, compiler::load_package(directory, chip, to_counts(progress)));
  Program program;
  program.state_ = std::move(state);
  return program;
}

void Program::check_directory(const std::string& directory) {
  compiler::check_package_directory(directory);
}

void Program::save(const std::string& directory, const Progress& progress) const {
  if (!state_->compiled)
    throw UnsupportedError(
        fmt::format("model '{}' is compiled while it runs ({}): it has no package; fix its "
                    "shapes (ImportSettings::dims), or keep programs in a cache",
                    state_->name, state_->open_reason));
  compiler::check_package_directory(directory);
  compiler::save_package(*state_->compiled, directory, to_counts(progress));
}

const std::string& Program::name() const {
  return state_->name;
}
const std::string& Program::chip() const {
  return state_->chip.name;
}
std::string Program::precision() const {
  return compiler::matrix_precision_name(state_->precision());
}
double Program::default_tolerance() const {
  return compiler::default_tolerance(state_->precision());
}
std::vector<ValueInfo> Program::inputs() const {
  return state_->inputs;
}
std::vector<ValueInfo> Program::outputs() const {
  return state_->outputs;
}
const std::string& Program::open_reason() const {
  return state_->open_reason;
}

std::string Program::summary() const {
  if (!state_->compiled) return fmt::format("compiled in parts while it runs: {}\n", state_->open_reason);
  const CompiledModel& model = *state_->compiled;
  int64_t steps = 0;
  int64_t mvs = 0;
  for (const compiler::Segment& segment : model.segments) {
    const isa::ProgramCounts counts = isa::count(segment.parts.program);
    steps += counts.steps * model.slices;
    mvs += counts.mvs * model.slices;
  }
  std::ostringstream text;
  text << fmt::format("{} stages, {} steps, {} MV transfers, for chip {} at {} precision\n",
                      model.stages.size(), steps, mvs, model.chip.name,
                      compiler::matrix_precision_name(model.precision));
  compiler::print_slices(model, text);
  compiler::print_schedules_given_up(model, text);
  compiler::print_host_layers(model, text);
  return std::move(text).str();
}

Values Program::complete_inputs(Values given, uint64_t seed) const {
  const auto add = [&](const std::string& name, auto type, const std::vector<int64_t>& shape) {
    given.emplace(name, TensorAccess::wrap(compiler::random_input(name, static_cast<compiler::DataType>(type),
                                                                  shape, seed)));
  };
  if (state_->compiled) {
    for (const ValueInfo& input : state_->inputs) {
      if (!given.contains(input.name)) add(input.name, *input.type, input.shape);
    }
    return given;
  }
  for (const auto& input : state_->model->imported.model.graph().input()) {
    if (given.contains(input.name())) continue;
    const auto shape = compiler::static_shape(input.type());
    if (!shape) throw_not_given(input, state_->model->where);
    add(input.name(), input.type().tensor_type().elem_type(), *shape);
  }
  return given;
}

Value Program::read_input(const std::string& name, const std::string& file, const std::string& member) const {
  const auto input = std::ranges::find(state_->inputs, name, &ValueInfo::name);
  // Of a wrong name the run says so.
  if (input == state_->inputs.end() || input->type)
    return TensorAccess::wrap(compiler::read_tensor_file(file, member));
  const auto& declared = state_->model->imported.model.graph().input();
  const auto own = std::ranges::find_if(declared, [&](const auto& each) { return each.name() == name; });
  return library::ValueAccess::wrap(compiler::value_from_bytes(isa::read_file(file), own->type(), file));
}

void load_plugin(const std::string& file) {
  passes::load_plugin(file);
}

}  // namespace kodama
