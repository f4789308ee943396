# Everything comes from Debian 12; the README's first command installs the packages.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Boost REQUIRED)
find_package(ZLIB REQUIRED)
find_package(hwy CONFIG QUIET)
find_package(Protobuf REQUIRED)  # must precede ONNX, whose targets refer to it
find_package(ONNX REQUIRED)
# oneDNN's own package file insists on OpenCL's development files, which only its GPU half needs.
find_path(DNNL_INCLUDE_DIR dnnl.hpp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(DNNL::dnnl UNKNOWN IMPORTED GLOBAL)
set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION ${DNNL_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE_DIR})
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PkgConfig REQUIRED)
if(NOT TARGET hwy::hwy)
  pkg_check_modules(hwy REQUIRED IMPORTED_TARGET GLOBAL libhwy)
  add_library(hwy::hwy ALIAS PkgConfig::hwy)
endif()
pkg_check_modules(libzip REQUIRED IMPORTED_TARGET GLOBAL libzip)  # .npz
pkg_check_modules(jemalloc REQUIRED IMPORTED_TARGET GLOBAL jemalloc)  # cmake/targets.cmake: kodama_allocator
pkg_check_modules(systemc REQUIRED IMPORTED_TARGET GLOBAL systemc)
pkg_check_modules(graphviz REQUIRED IMPORTED_TARGET GLOBAL libgvc libcgraph)  # the report's graph
pkg_check_modules(cmark REQUIRED IMPORTED_TARGET GLOBAL libcmark-gfm)  # pages on the terminal
find_library(CMARK_EXTENSIONS cmark-gfm-extensions REQUIRED)
find_file(D3_SCRIPT d3.min.js PATHS /usr/share/nodejs/d3/dist NO_DEFAULT_PATH REQUIRED)  # the report's plots
# Not needed: training on several chips (compiler/driver/chips.h).
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI COMPONENTS CXX QUIET)
# Not needed: the Python package (python/). Debian's Python, whatever else is in PATH.
if(NOT Python3_EXECUTABLE AND EXISTS /usr/bin/python3)
  set(Python3_EXECUTABLE /usr/bin/python3)
endif()
find_package(Python3 COMPONENTS Interpreter Development.Module)
find_package(pybind11 CONFIG QUIET)
