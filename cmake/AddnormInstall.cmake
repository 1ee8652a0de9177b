# `cmake --install`: headers, one library per folder, the program, and the package that
# find_package(addnorm) reads.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/addnorm)
set(targets addnorm)
foreach(layer IN LISTS ADDNORM_LAYERS)
  set_target_properties(addnorm_${layer} PROPERTIES EXPORT_NAME ${layer})
  list(APPEND targets addnorm_${layer})
endforeach()
add_custom_target(addnorm_all)
add_dependencies(addnorm_all ${targets} addnorm_cli)

install(TARGETS ${targets} EXPORT addnormTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/addnorm)
install(TARGETS addnorm_cli DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/addnorm DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

install(EXPORT addnormTargets NAMESPACE addnorm:: DESTINATION ${package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/addnormConfig.cmake.in
  ${PROJECT_BINARY_DIR}/addnormConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/addnormConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/addnormConfig.cmake
  ${PROJECT_BINARY_DIR}/addnormConfigVersion.cmake DESTINATION ${package_dir})
