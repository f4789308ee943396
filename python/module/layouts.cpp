#include <pybind11/stl.h>

#include <nlohmann/json.hpp>

#include "assembler/assembler.h"
#include "checks/layout_check.h"
#include "isa/chip.h"
#include "layout/algebra/algebra.h"
#include "layout/algebra/drawing.h"
#include "layout/bound/bound.h"
#include "layout/search/conversion.h"
#include "python/module/calls.h"
#include "python/module/parts.h"

/// kodama.Layout and kodama.convert.
namespace kodama::python {
namespace {

using layout::Layout;
using layout::Lengths;

std::vector<std::vector<std::array<int64_t, 3>>> axes_of(const Layout& layout) {
  std::vector<std::vector<std::array<int64_t, 3>>> axes;
  for (const auto& axis : layout.axes()) {
    auto& factors = axes.emplace_back();
    for (const layout::Factor& factor : axis)
      factors.push_back({factor.size, static_cast<int64_t>(factor.level), factor.stride});
  }
  return axes;
}
py::dict place_dict(const layout::Coordinates& place) {
  py::dict result;
  for (const auto& [level, name] :
       {std::pair(layout::Level::kL2b, "l2b"), std::pair(layout::Level::kL1b, "l1b"),
        std::pair(layout::Level::kMab, "mab"), std::pair(layout::Level::kPe, "pe"),
        std::pair(layout::Level::kAddress, "address"), std::pair(layout::Level::kWord, "word")})
    result[name] = place[level];
  return result;
}
layout::Coordinates place_of(const std::array<int64_t, layout::kLevelCount>& at) {
  layout::Coordinates place;
  place.at = at;
  return place;
}
/// Places of an element: of all its replicas. UserError for an index outside.
std::vector<py::dict> places_of(const Layout& layout, const std::vector<int64_t>& index) {
  const auto axes = layout.axes().size();
  bool is_inside = index.size() == axes;
  std::string extents;
  for (size_t axis = 0; axis < axes; ++axis) {
    is_inside = is_inside && index[axis] >= 0 && index[axis] < layout.extent(axis);
    extents += fmt::format("{}{}", axis == 0 ? "" : ", ", layout.extent(axis));
  }
  if (!is_inside)
    throw isa::UserError(fmt::format("index ({}) of layout {}: allowed are {} numbers from 0 on below ({})",
                                     fmt::join(index, ", "), layout.to_string(), axes, extents));
  std::vector<py::dict> places;
  const layout::Coordinates first = layout.place(index);
  for (const layout::Coordinates& offset : layout.replica_offsets())
    places.push_back(place_dict(first + offset));
  return places;
}

py::dict convert(const Layout& from, const Layout& to, const Lengths& lengths, int bits,
                 const std::string& chip_name, bool simulate) {
  layout::Conversion conversion;
  std::string difference;
  run_long([&] {
    const isa::Chip chip = isa::find_chip(chip_name);
    const layout::ConversionProblem problem{from, to, lengths, bits};
    const std::optional<std::string> directory = layout::SolutionCache::default_directory();
    layout::SolutionCache cache(directory.value_or(""));
    conversion = layout::convert(problem, chip, directory ? &cache : nullptr);
    if (simulate || !conversion.from_plugins.empty())
      difference = checks::conversion_difference(problem, conversion, chip, 1);
  });
  if (!difference.empty())
    throw isa::InternalError(fmt::format("internal error in layout conversion: {}", difference));
  py::dict result;
  result["path"] = conversion.path;
  result["steps"] = conversion.steps;
  result["cycles"] = conversion.cycles;
  result["bound"] = conversion.bound.cycles();
  result["bound_by"] = conversion.bound.name();
  result["proven"] = conversion.proven;
  result["program"] = assembler::print(conversion.program);
  return result;
}

}  // namespace

void define_layouts(py::module_& module) {
  py::class_<Layout>(module, "Layout")
      .def(py::init([](const std::string& text) { return Layout::parse(text); }))
      .def("__str__", &Layout::to_string)
      .def("__eq__", [](const Layout& a, const Layout& b) { return a == b; })
      .def("axes", &axes_of)
      .def("extents",
           [](const Layout& self) {
             Lengths extents;
             for (size_t axis = 0; axis < self.axes().size(); ++axis) extents.push_back(self.extent(axis));
             return extents;
           })
      .def("memory", [](const Layout& self) { return std::string(layout::memory_name(self.memory())); })
      .def("padding", [](const Layout& self) { return std::string(layout::padding_name(self.padding())); })
      .def("places", &places_of)
      .def("element",
           [](const Layout& self, const std::array<int64_t, layout::kLevelCount>& at) {
             return self.element(place_of(at));
           })
      .def("validate", [](const Layout& self, const std::string& chip,
                          int bits) { self.validate(isa::find_chip(chip), bits); })
      .def("equivalent", &Layout::equivalent)
      .def("normalized", &Layout::normalized)
      .def("draw",
           [](const Layout& self, const Lengths& lengths, int bits, int64_t instances, int64_t long_words) {
             return layout::draw(self, lengths, bits, {instances, long_words});
           })
      .def("svg",
           [](const Layout& self, const Lengths& lengths, int bits, int64_t instances, int64_t long_words) {
             return layout::draw_svg(self, lengths, bits, {instances, long_words});
           })
      .def("places_json", [](const Layout& self, const Lengths& lengths,
                             int bits) { return layout::places_json(self, lengths, bits).dump(); })
      .def("transposed", &layout::transposed)
      .def("reshaped", &layout::reshaped);
  module.def("why_incompatible", &layout::why_incompatible);
  module.def("convert_layout", &convert);
  module.def("conversion_bound", [](const Layout& from, const Layout& to, const Lengths& lengths, int bits,
                                    const std::string& chip) {
    std::pair<double, std::string> result;
    run_long([&] {
      const auto bound = layout::conversion_bound(from, to, lengths, bits, isa::find_chip(chip));
      result = {bound.cycles(), bound.name()};
    });
    return result;
  });
}

}  // namespace kodama::python
