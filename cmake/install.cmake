# What programs outside of the tree build against (docs/library.md): `cmake --install BUILD --component C --prefix P` puts
# libkodama-runtime.so (C = runtime), libkodama.so (library), headers, package files for CMake and pkg-config,
# and the man pages into P; `cpack` makes a Debian package of that, the command, host/ and python/.
if(KODAMA_SANITIZE)
  return()
endif()
get_property(kodama_parts GLOBAL PROPERTY kodama_libraries)
list(REMOVE_ITEM kodama_parts kodama_host kodama_checks)  # libmnc2's, and tests'
# What runs packages, which knows nothing of ONNX and of the compiler's passes: libkodama-runtime, on which libkodama is built.
set(kodama_runtime_parts kodama_isa kodama_passes kodama_assembler kodama_simulator kodama_layout_algebra kodama_compiler_tensor
    kodama_compiler_reference_kernels kodama_compiler_layers kodama_compiler_streams kodama_compiler_package kodama_compiler_runtime
    kodama_library_runtime)
list(REMOVE_ITEM kodama_parts ${kodama_runtime_parts})
function(kodama_shared_library target name)
  set(objects ${ARGN})
  list(TRANSFORM objects REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
  add_library(${target} SHARED ${objects})
  target_link_options(${target} PRIVATE -Wl,-z,defs -Wl,--as-needed)
  target_include_directories(${target} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
                             $<INSTALL_INTERFACE:${kodama_include_dir}>)
  target_compile_features(${target} INTERFACE cxx_std_20)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} VERSION ${PROJECT_VERSION} SOVERSION 0)
endfunction()
# Of their parts, what these link themselves: archives of parts would be in both.
kodama_shared_library(kodama_runtime_shared kodama-runtime ${kodama_runtime_parts})
target_link_libraries(kodama_runtime_shared PRIVATE kodama_options nlohmann_json::nlohmann_json yaml-cpp ${CMAKE_DL_LIBS} hwy::hwy
                      Threads::Threads Boost::headers PkgConfig::systemc PkgConfig::libzip ZLIB::ZLIB DNNL::dnnl PUBLIC fmt::fmt)
set_target_properties(kodama_runtime_shared PROPERTIES EXPORT_NAME runtime)
kodama_shared_library(kodama_shared kodama ${kodama_parts})
target_link_libraries(kodama_shared PRIVATE kodama_options onnx onnx_proto PkgConfig::graphviz PkgConfig::libzip ZLIB::ZLIB
                      nlohmann_json::nlohmann_json ${CMAKE_DL_LIBS} Threads::Threads PUBLIC kodama_runtime_shared fmt::fmt)
if(MPI_CXX_FOUND)
  target_link_libraries(kodama_shared PRIVATE MPI::MPI_CXX)
endif()
set_target_properties(kodama_shared PROPERTIES EXPORT_NAME kodama INSTALL_RPATH "$ORIGIN")  # libkodama-runtime is beside it
set(installed kodama_shared)
# Parts by name, whose headers are "FOLDER/..."; those of the compiler see ONNX.
foreach(part isa assembler simulator layout scheduler compiler builder)
  add_library(kodama_part_${part} INTERFACE)
  target_link_libraries(kodama_part_${part} INTERFACE kodama_shared)
  set_target_properties(kodama_part_${part} PROPERTIES EXPORT_NAME ${part})
  list(APPEND installed kodama_part_${part})
endforeach()
foreach(part compiler builder)
  target_compile_definitions(kodama_part_${part} INTERFACE ONNX_ML=1 ONNX_NAMESPACE=onnx)
endforeach()
install(TARGETS ${installed} EXPORT kodama-library-targets COMPONENT library
        LIBRARY COMPONENT library NAMELINK_COMPONENT library)
# Component runtime is enough to run packages; component library needs it.
install(TARGETS kodama_runtime_shared EXPORT kodama-runtime-targets COMPONENT runtime
        LIBRARY COMPONENT runtime NAMELINK_COMPONENT runtime)
install(EXPORT kodama-runtime-targets NAMESPACE kodama:: DESTINATION ${kodama_package_dir} COMPONENT runtime)
install(FILES ${CMAKE_BINARY_DIR}/kodama-config.cmake ${CMAKE_BINARY_DIR}/kodama-config-version.cmake
        DESTINATION ${kodama_package_dir} COMPONENT runtime)
install(FILES library/include/kodama/runtime.h library/include/kodama/c_runtime.h DESTINATION ${kodama_include_dir} COMPONENT runtime)
install(FILES isa/error.h DESTINATION ${kodama_include_dir}/isa COMPONENT runtime)
install(DIRECTORY configs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/kodama/configs COMPONENT runtime)
install(EXPORT kodama-library-targets NAMESPACE kodama:: DESTINATION ${kodama_package_dir} COMPONENT library)
foreach(folder isa passes assembler simulator layout scheduler compiler builder)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION ${kodama_include_dir} COMPONENT library
          FILES_MATCHING PATTERN "*.h" PATTERN "*.def" PATTERN "*test_util.h" EXCLUDE PATTERN "test_models.h" EXCLUDE)
endforeach()
install(DIRECTORY ${PROJECT_BINARY_DIR}/generated/ DESTINATION ${kodama_include_dir} COMPONENT library FILES_MATCHING PATTERN "*.h")
foreach(header kodama pipeline simulate)
  install(FILES ${PROJECT_SOURCE_DIR}/library/include/kodama/${header}.h DESTINATION ${kodama_include_dir} COMPONENT library)
endforeach()
file(RELATIVE_PATH up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
foreach(component runtime library)
  set(package kodama-${component})
  string(REPLACE kodama-library kodama package ${package})
  configure_file(${PROJECT_SOURCE_DIR}/library/${package}.pc.in ${package}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT ${component})
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME kodama)
set(CPACK_PACKAGE_CONTACT "The Kodama developers <kodama@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS gnuplot-nox)  # plots of sweeps
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR} ${CMAKE_BINARY_DIR}/host)
include(CPack)

# As users build: with pkg-config and CMake, from a prefix that was moved.
add_test(NAME library.installed COMMAND ${PROJECT_SOURCE_DIR}/library/installed.sh ${CMAKE_COMMAND} ${PROJECT_BINARY_DIR}
         ${PROJECT_SOURCE_DIR}/library/example ${CMAKE_CXX_COMPILER} ${CMAKE_C_COMPILER}
         ${PROJECT_SOURCE_DIR}/testsuite/models/mnist8/model.onnx ${PROJECT_SOURCE_DIR}/testsuite/golden/models/host.onnx)
