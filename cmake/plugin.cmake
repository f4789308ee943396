# What users build plugins (scheduler/plugin.h) with: `cmake --install BUILD --prefix P --component plugin` puts the
# public headers and a package file into P. Headers that aren't listed here aren't public.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(kodama_public_headers
    isa/arithmetic.h isa/chip.h isa/costs.h isa/error.h isa/hazards.h isa/instruction.h isa/number_formats.h
    isa/program.h
    scheduler/machine_program.h scheduler/pass_options.h scheduler/passes.h scheduler/plugin.h
    scheduler/schedule_problem.h scheduler/transfer_problem.h)
set(kodama_include_dir ${CMAKE_INSTALL_INCLUDEDIR}/kodama)
set(kodama_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/kodama)

foreach(header ${kodama_public_headers})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION ${kodama_include_dir}/${folder} COMPONENT plugin)
endforeach()

add_library(kodama_plugin INTERFACE)
target_compile_features(kodama_plugin INTERFACE cxx_std_20)
target_include_directories(kodama_plugin INTERFACE $<INSTALL_INTERFACE:${kodama_include_dir}>)
target_link_libraries(kodama_plugin INTERFACE fmt::fmt)
set_target_properties(kodama_plugin PROPERTIES EXPORT_NAME plugin)
install(TARGETS kodama_plugin EXPORT kodama-targets COMPONENT plugin)
install(EXPORT kodama-targets NAMESPACE kodama:: DESTINATION ${kodama_package_dir} COMPONENT plugin)
file(WRITE ${CMAKE_BINARY_DIR}/kodama-config.cmake
"include(CMakeFindDependencyMacro)
find_dependency(fmt)
include(\${CMAKE_CURRENT_LIST_DIR}/kodama-targets.cmake)
")
write_basic_package_version_file(${CMAKE_BINARY_DIR}/kodama-config-version.cmake COMPATIBILITY ExactVersion)
install(FILES ${CMAKE_BINARY_DIR}/kodama-config.cmake ${CMAKE_BINARY_DIR}/kodama-config-version.cmake
        DESTINATION ${kodama_package_dir} COMPONENT plugin)
