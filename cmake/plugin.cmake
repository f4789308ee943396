# What users build plugins (passes/plugin.h) with: `cmake --install BUILD --prefix P --component plugin` puts the
# public headers and a package file into P. Headers that aren't listed here aren't public.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(kodama_public_headers
    isa/arithmetic.h isa/chip.h isa/costs.h isa/dram_model.h isa/error.h isa/hazards.h isa/instruction.h isa/instruction_rows.def
    isa/movement.h isa/number_formats.h isa/program.h
    simulator/timing/dram_target.h
    passes/pass_options.h passes/plugin.h
    layout/algebra/algebra.h layout/algebra/bits.h layout/algebra/layout.h layout/algebra/transport.h
    layout/moves/move_code.h layout/moves/move_emission.h layout/moves/move_primitive.h layout/moves/move_proposals.h
    layout/moves/step_packer.h layout/plan/planner.h layout/primitives/move_primitives.h
    scheduler/machine/machine_program.h scheduler/machine/passes.h scheduler/packing/packing.h
    scheduler/recompute/recompute.h
    scheduler/problem/schedule_problem.h scheduler/problem/transfer_problem.h
    scheduler/optimizer/operation_flow.h scheduler/optimizer/optimize.h scheduler/optimizer/program_stream.h
    scheduler/optimizer/stream_changes.h scheduler/optimizer/stream_operation.h
    compiler/tensor/fresh_names.h compiler/tensor/tensor.h compiler/tensor/value.h compiler/reference/kernels/node.h
    compiler/graph/fold_constants.h compiler/graph/graph_view.h
    compiler/graph/onnx_model.h compiler/graph/passes.h
    compiler/layers/affine_map.h compiler/layers/layer_graph.h compiler/layers/scalar_expr.h
    compiler/streams/element_forms.h compiler/streams/stream_placement.h compiler/tile/tile_program.h
    compiler/kernels/kernel.h compiler/kernels/predict.h compiler/kernels/spread.h)
# Plugins carry the hash of these headers, and Kodama loads those that carry its own.
set(kodama_public_header_files ${kodama_public_headers})
list(TRANSFORM kodama_public_header_files PREPEND ${PROJECT_SOURCE_DIR}/)
set(kodama_plugin_abi ${PROJECT_BINARY_DIR}/generated/passes/plugin_abi.h)
add_custom_command(OUTPUT ${kodama_plugin_abi}
    COMMAND ${CMAKE_COMMAND} "-DFILES=${kodama_public_header_files}" -DOUTPUT=${kodama_plugin_abi}
            -DTEMPLATE=${PROJECT_SOURCE_DIR}/passes/plugin_abi.h.in -P ${PROJECT_SOURCE_DIR}/cmake/hash_of_files.cmake
    DEPENDS ${kodama_public_header_files} ${PROJECT_SOURCE_DIR}/passes/plugin_abi.h.in
            ${PROJECT_SOURCE_DIR}/cmake/hash_of_files.cmake VERBATIM)
add_custom_target(kodama_plugin_abi DEPENDS ${kodama_plugin_abi})
add_dependencies(kodama_passes kodama_plugin_abi)
install(FILES ${kodama_plugin_abi} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kodama/passes COMPONENT plugin)
set(kodama_include_dir ${CMAKE_INSTALL_INCLUDEDIR}/kodama)
set(kodama_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/kodama)

foreach(header ${kodama_public_headers})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION ${kodama_include_dir}/${folder} COMPONENT plugin)
endforeach()

add_library(kodama_plugin INTERFACE)
target_compile_features(kodama_plugin INTERFACE cxx_std_20)
target_compile_definitions(kodama_plugin INTERFACE ONNX_ML=1 ONNX_NAMESPACE=onnx)
target_include_directories(kodama_plugin INTERFACE $<INSTALL_INTERFACE:${kodama_include_dir}>)
target_link_libraries(kodama_plugin INTERFACE fmt::fmt)
set_target_properties(kodama_plugin PROPERTIES EXPORT_NAME plugin)
install(TARGETS kodama_plugin EXPORT kodama-targets COMPONENT plugin)
install(EXPORT kodama-targets NAMESPACE kodama:: DESTINATION ${kodama_package_dir} COMPONENT plugin)
file(WRITE ${CMAKE_BINARY_DIR}/kodama-config.cmake
"include(CMakeFindDependencyMacro)
find_dependency(fmt)
foreach(part kodama-targets kodama-runtime-targets kodama-library-targets)  # of components plugin, runtime and library
  include(\${CMAKE_CURRENT_LIST_DIR}/\${part}.cmake OPTIONAL)
endforeach()
")
write_basic_package_version_file(${CMAKE_BINARY_DIR}/kodama-config-version.cmake COMPATIBILITY ExactVersion)
install(FILES ${CMAKE_BINARY_DIR}/kodama-config.cmake ${CMAKE_BINARY_DIR}/kodama-config-version.cmake
        DESTINATION ${kodama_package_dir} COMPONENT plugin)

# Plugins find what their headers declare in the program, or Python module, itself: all of these libraries is in it,
# used or not (as LINK_LIBRARY_OVERRIDE).
set(kodama_whole_libraries
    WHOLE_ARCHIVE,kodama_isa,kodama_passes,kodama_scheduler_problem,kodama_scheduler_packing,kodama_scheduler_machine,kodama_scheduler_segment,kodama_scheduler_optimizer,kodama_layout_algebra,kodama_layout_moves,kodama_layout_primitives,kodama_layout_plan,kodama_compiler_tensor,kodama_compiler_reference_kernels,kodama_compiler_graph,kodama_compiler_layers,kodama_compiler_streams,kodama_compiler_tile,kodama_compiler_kernels)
