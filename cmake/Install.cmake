# What an engine's author compiles against: headers in include/croupier, CMake targets and pkg-config files.
# Nothing but the C ABI crosses from one build into another.
include(CMakePackageConfigHelpers)

# A prefix may be moved: its pkg-config files say where it is from where they lie.
file(RELATIVE_PATH prefix_from_module /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)

# croupier_public_library(<target> <CMake component> <pkg-config name> <description>)
function(croupier_public_library target component module description)
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${component})
    target_include_directories(${target} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    install(
        TARGETS ${target}
        EXPORT croupier-targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development)
    get_target_property(library ${target} OUTPUT_NAME)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/croupier.pc.in ${PROJECT_BINARY_DIR}/${module}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${module}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
endfunction()

croupier_public_library(croupier_client_shared client croupier "what an engine's scheduler links")
croupier_public_library(croupier_writer_shared writer croupier-writer "what a worker links that has logits")
croupier_public_library(croupier_decide_shared decide croupier-decide "decisions without a daemon")
croupier_public_library(croupier_fan_out_shared fan_out croupier-fan-out "records between hosts")

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/croupier DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/croupier)
install(EXPORT croupier-targets NAMESPACE croupier:: DESTINATION ${package} COMPONENT development)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/croupier-config.cmake.in
                              ${PROJECT_BINARY_DIR}/croupier-config.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/croupier-config-version.cmake
                                 COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/croupier-config.cmake ${PROJECT_BINARY_DIR}/croupier-config-version.cmake
        DESTINATION ${package} COMPONENT development)
