#include "python/module/calls.h"
#include "python/module/parts.h"

/// The module `kodama._kodama`, on which the package `kodama` (python/kodama) is built.
PYBIND11_MODULE(_kodama, module) {
  using namespace kodama::python;
  register_errors();
  define_programs(module);
  define_layouts(module);
  define_passes(module);
  define_models(module);
  define_training(module);
}
