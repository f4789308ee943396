#include <kodama/kodama.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "compiler/graph/import.h"
#include "python/module/calls.h"
#include "python/module/parts.h"

/// kodama.compile and what it returns, on the library's interface alone.
namespace kodama::python {
namespace {

struct Format {
  ElementType type;
  const char* code;  ///< of the buffer protocol
  ssize_t bytes;
};
/// Elements of bfloat16 are seen as their patterns: the protocol has no such type.
constexpr std::array<Format, 15> kFormats{{{ElementType::kFloat32, "f", 4},
                                           {ElementType::kUint8, "B", 1},
                                           {ElementType::kInt8, "b", 1},
                                           {ElementType::kUint16, "H", 2},
                                           {ElementType::kInt16, "h", 2},
                                           {ElementType::kInt32, "i", 4},
                                           {ElementType::kInt64, "l", 8},
                                           {ElementType::kBool, "?", 1},
                                           {ElementType::kFloat16, "e", 2},
                                           {ElementType::kFloat64, "d", 8},
                                           {ElementType::kUint32, "I", 4},
                                           {ElementType::kUint64, "L", 8},
                                           {ElementType::kComplex64, "Zf", 8},
                                           {ElementType::kComplex128, "Zd", 16},
                                           {ElementType::kBfloat16, "H", 2}}};

/// The tensor's own memory.
py::buffer_info buffer_of(Tensor& tensor) {
  const auto format = std::ranges::find(kFormats, tensor.type(), &Format::type);
  if (format == kFormats.end())
    throw UserError(
        fmt::format("a tensor of {}: has no memory that NumPy could see", element_type_name(tensor.type())));
  std::vector<ssize_t> shape(tensor.shape().begin(), tensor.shape().end());
  std::vector<ssize_t> strides(shape.size());
  ssize_t stride = format->bytes;
  for (size_t k = shape.size(); k-- > 0; stride *= std::max<ssize_t>(shape[k], 1)) strides[k] = stride;
  return {tensor.bytes().data(), format->bytes,    format->code,
          std::ssize(shape),     std::move(shape), std::move(strides)};
}

/// (name, type or None, shape)
using Described = std::tuple<std::string, std::optional<std::string>, std::vector<int64_t>>;
std::vector<Described> describe(const std::vector<ValueInfo>& values) {
  std::vector<Described> all;
  for (const ValueInfo& value : values) {
    std::optional<std::string> type;
    if (value.type) type = element_type_name(*value.type);
    all.emplace_back(value.name, type, value.shape);
  }
  return all;
}

/// Tensors of a dict. Those of `given_away` are nobody else's: their memory goes along, without a copy.
Tensors take_tensors(const py::dict& tensors, const std::set<std::string>& given_away) {
  Tensors all;
  for (const auto& [key, value] : tensors) {
    const auto name = key.cast<std::string>();
    auto& tensor = value.cast<Tensor&>();
    if (given_away.contains(name)) {
      all.emplace(name, std::move(tensor));
    } else {
      all.emplace(name, tensor);
    }
  }
  return all;
}

/// A session of its program.
class PySession {
 public:
  PySession(const Program& program, int threads, bool timing, const std::string& hazards,
            bool host_overlaps) {
    run_long([&] {
      SessionSettings settings;
      settings.threads = threads;
      settings.timing = timing;
      settings.hazards = hazards;
      settings.host_overlaps = host_overlaps;
      session_.emplace(program, settings);
    });
  }

  Result run(const py::dict& inputs, const std::set<std::string>& given_away, const std::string& trace,
             const std::string& vcd, const std::string& statistics, const std::string& report) {
    if (is_busy_)
      throw UserError(
          "this session runs in another thread; allowed: one run at a time, or a session for each");
    Tensors tensors = take_tensors(inputs, given_away);
    is_busy_ = true;
    const std::unique_ptr<bool, void (*)(bool*)> end(&is_busy_, [](bool* busy) { *busy = false; });
    std::optional<Result> result;
    RunSettings settings;
    settings.files.trace = trace;
    settings.files.vcd = vcd;
    settings.files.statistics = statistics;
    settings.files.report = report;
    run_long([&] { result = session_->run(std::move(tensors), settings); });
    return std::move(*result);
  }

 private:
  std::optional<Session> session_;
  bool is_busy_ = false;  ///< under the interpreter's lock
};

/// Inputs of a model as it is in its file: names, and extents or their names where they are open.
using OpenShape = std::vector<std::variant<int64_t, std::string>>;
std::vector<std::pair<std::string, OpenShape>> open_inputs(const onnx::ModelProto& model) {
  std::set<std::string> constants;
  for (const auto& tensor : model.graph().initializer()) constants.insert(tensor.name());
  std::vector<std::pair<std::string, OpenShape>> all;
  for (const auto& input : model.graph().input()) {
    if (constants.contains(input.name()) || !input.type().has_tensor_type()) continue;
    auto& [name, shape] = all.emplace_back(input.name(), OpenShape());
    for (const auto& dim : input.type().tensor_type().shape().dim()) {
      if (dim.has_dim_value()) {
        shape.emplace_back(dim.dim_value());
      } else {
        shape.emplace_back(dim.dim_param());
      }
    }
  }
  return all;
}

template <typename Make>
auto made(const Make& make) {
  std::optional<decltype(make())> result;
  run_long([&] { result = make(); });
  return std::move(*result);
}

}  // namespace

void define_models(py::module_& module) {
  py::class_<Tensor>(module, "Tensor", py::buffer_protocol())
      .def(py::init([](const std::string& type, std::vector<int64_t> shape) {
        return Tensor(parse_element_type(type), std::move(shape));
      }))
      .def_static("of_strings", &Tensor::of_strings)
      .def_property_readonly("type", [](const Tensor& self) { return element_type_name(self.type()); })
      .def_property_readonly("shape", &Tensor::shape)
      .def("strings",
           [](const Tensor& self) {
             const auto strings = self.strings();
             py::list all;
             for (const std::string& each : strings) all.append(py::bytes(each));
             return all;
           })
      .def("address",
           [](const Tensor& self) { return reinterpret_cast<uintptr_t>(std::as_const(self).bytes().data()); })
      .def_buffer(&buffer_of);

  py::class_<Model>(module, "Model")
      .def_static(
          "from_file",
          [](const std::string& file, const std::map<std::string, int64_t>& dims, const py::dict& bind) {
            const ImportSettings settings{dims, take_tensors(bind, {})};
            return made([&] { return Model::from_file(file, settings); });
          })
      .def_static("from_bytes",
                  [](const py::bytes& bytes, const std::map<std::string, int64_t>& dims, const py::dict& bind,
                     const std::string& name) {
                    const ImportSettings settings{dims, take_tensors(bind, {})};
                    const auto view = bytes.operator std::string_view();
                    return made([&] { return Model::from_bytes(view, settings, name); });
                  })
      .def_property_readonly("name", &Model::name)
      .def_property_readonly("open_reason", &Model::open_reason)
      .def("inputs", [](const Model& self) { return describe(self.inputs()); })
      .def("outputs", [](const Model& self) { return describe(self.outputs()); })
      .def("random_inputs", [](const Model& self, uint64_t seed) { return self.random_inputs(seed); })
      .def("reference", [](const Model& self, const py::dict& inputs) {
        const Tensors tensors = take_tensors(inputs, {});
        return made([&] { return self.reference(tensors); });
      });

  py::class_<Program>(module, "Program")
      .def_static("compile",
                  [](const Model& model, const std::string& chip, const std::string& precision,
                     const std::map<std::string, std::string>& options, const py::object& progress) {
                    CompileSettings settings{.chip = chip, .precision = precision, .options = options};
                    if (!progress.is_none())
                      settings.progress = [&](double part, const std::string& what) {
                        call_python([&] {
                          progress(part, what);
                          return 0;
                        });
                      };
                    return made([&] { return Program::compile(model, settings); });
                  })
      .def_static("load",
                  [](const std::string& directory, const std::string& chip) {
                    return made([&] { return Program::load(directory, chip); });
                  })
      .def("save",
           [](const Program& self, const std::string& directory) { run_long([&] { self.save(directory); }); })
      .def_property_readonly("name", &Program::name)
      .def_property_readonly("chip", &Program::chip)
      .def("inputs", [](const Program& self) { return describe(self.inputs()); })
      .def("outputs", [](const Program& self) { return describe(self.outputs()); });

  py::class_<Result>(module, "Result")
      .def_readonly("outputs", &Result::outputs)
      .def_readonly("cycles", &Result::cycles)
      .def_readonly("first_cycles", &Result::first_cycles)
      .def_readonly("seconds", &Result::seconds)
      .def_property_readonly("json", &Result::json)
      .def_property_readonly("table", &Result::table);
  py::class_<PySession>(module, "Session")
      .def(py::init<const Program&, int, bool, const std::string&, bool>())
      .def("run", &PySession::run);
  module.def("open_inputs", [](const py::bytes& bytes) {
    const auto text = bytes.operator std::string();
    return made([&] { return open_inputs(compiler::parse_model(text, "model")); });
  });
  module.def("open_inputs", [](const std::string& file) {
    return made([&] { return open_inputs(compiler::read_model(file)); });
  });
  module.def("version", &version);
}

}  // namespace kodama::python
