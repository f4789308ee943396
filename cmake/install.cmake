# What programs outside of the tree build against (docs/library.md): `cmake --install BUILD --component library --prefix P` puts libkodama.so,
# all headers, package files for CMake and pkg-config, and the man pages into P; `cpack` makes a Debian package of that, the command, host/ and python/.
if(KODAMA_SANITIZE)
  return()
endif()
get_property(kodama_parts GLOBAL PROPERTY kodama_libraries)
list(REMOVE_ITEM kodama_parts kodama_host kodama_checks)  # libmnc2's, and tests'
set(objects ${kodama_parts})
list(TRANSFORM objects REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
add_library(kodama_shared SHARED ${objects})
target_link_libraries(kodama_shared PRIVATE kodama_options ${kodama_parts} PUBLIC fmt::fmt)  # for what they link
target_include_directories(kodama_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
                           $<INSTALL_INTERFACE:${kodama_include_dir}>)
target_compile_features(kodama_shared INTERFACE cxx_std_20)
set_target_properties(kodama_shared PROPERTIES OUTPUT_NAME kodama EXPORT_NAME kodama VERSION ${PROJECT_VERSION} SOVERSION 0)
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
install(EXPORT kodama-library-targets NAMESPACE kodama:: DESTINATION ${kodama_package_dir} COMPONENT library)
install(FILES ${CMAKE_BINARY_DIR}/kodama-config.cmake ${CMAKE_BINARY_DIR}/kodama-config-version.cmake
        DESTINATION ${kodama_package_dir} COMPONENT library)
foreach(folder isa passes assembler simulator layout scheduler compiler builder)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION ${kodama_include_dir} COMPONENT library
          FILES_MATCHING PATTERN "*.h" PATTERN "*.def" PATTERN "*test_util.h" EXCLUDE PATTERN "test_models.h" EXCLUDE)
endforeach()
install(DIRECTORY ${PROJECT_BINARY_DIR}/generated/ DESTINATION ${kodama_include_dir} COMPONENT library FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/library/include/kodama/kodama.h DESTINATION ${kodama_include_dir} COMPONENT library)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/kodama/configs COMPONENT library)
file(RELATIVE_PATH up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(${PROJECT_SOURCE_DIR}/library/kodama.pc.in kodama.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/kodama.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)

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
         ${PROJECT_SOURCE_DIR}/library/example ${CMAKE_CXX_COMPILER} ${PROJECT_SOURCE_DIR}/testsuite/models/mnist8/model.onnx)
