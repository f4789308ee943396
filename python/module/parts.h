#pragma once

#include <pybind11/pybind11.h>

/// The parts of the module, one for each file of this folder. python/kodama wraps what they define: names
/// here are plain functions and classes without documentation, which is there.
namespace kodama::python {

void define_programs(pybind11::module_& module);
void define_layouts(pybind11::module_& module);
void define_passes(pybind11::module_& module);
void define_models(pybind11::module_& module);
void define_training(pybind11::module_& module);

}  // namespace kodama::python
