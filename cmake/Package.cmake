# Debian's packages, by `./dev package`: the host's programs, the libraries that engines load, what engines compile against, and the
# simulated engine with the benchmarks, which no server needs.
set(CPACK_GENERATOR DEB)
# Whatever the umask of who builds them.
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
                                                WORLD_EXECUTE)
set(CPACK_PACKAGE_CONTACT "The Croupier project <croupier@localhost>")
# The configuration goes to /etc, outside of the prefix.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL library development)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
# Whoever was linked with a release runs with the later ones of its major version.
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libcroupier${CROUPIER_ABI_MAJOR})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "token selection on CPUs: the libraries that engines load
 An engine adds sequences, its workers write logits into shared memory,
 and tokens come back.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libcroupier-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libcroupier${CROUPIER_ABI_MAJOR} (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "token selection on CPUs: headers, CMake package, pkg-config files
 What the author of an inference engine compiles against.")

# Debian gives these libraries' packages another name with each of its releases. The programs bring their own copies, so that
# the packages of one build install on the later releases too.
set(private_libraries ${PROJECT_BINARY_DIR}/private_libraries)
set(shlibdeps dpkg-shlibdeps)
# bring_library(<imported target>): a copy under the name by which programs look for it, and no dependency on its package.
function(bring_library library)
    get_target_property(kind ${library} TYPE)
    if(NOT kind STREQUAL SHARED_LIBRARY)
        return()
    endif()
    get_target_property(type ${library} IMPORTED_CONFIGURATIONS)
    get_target_property(file ${library} IMPORTED_LOCATION_${type})
    get_target_property(soname ${library} IMPORTED_SONAME_${type})
    configure_file(${file} ${private_libraries}/${soname} COPYONLY)
    execute_process(COMMAND dpkg-query --search ${file} OUTPUT_VARIABLE package ERROR_QUIET)
    string(REGEX MATCH "^[^: ]+" package "${package}")
    set(shlibdeps "${shlibdeps};-x${package}" PARENT_SCOPE)
endfunction()
function(search_private_libraries)
    set_target_properties(${ARGV} PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN/../lib/croupier")
endfunction()

if(CROUPIER_DAEMON)
    list(APPEND CPACK_COMPONENTS_ALL daemon)
    set(CPACK_DEBIAN_DAEMON_PACKAGE_NAME croupier)
    set(CPACK_DEBIAN_DAEMON_PACKAGE_SECTION net)
    # The package's scripts make its user by systemd's means; a container has the small program alone. The unit reloads with
    # kill(1), of procps.
    string(JOIN ", " CPACK_DEBIAN_DAEMON_PACKAGE_DEPENDS "systemd (>= 252) | systemd-standalone-sysusers" procps)
    set(CPACK_DEBIAN_DAEMON_PACKAGE_CONTROL_EXTRA
        ${PROJECT_SOURCE_DIR}/deploy/debian/postinst ${PROJECT_SOURCE_DIR}/deploy/debian/prerm
        ${PROJECT_SOURCE_DIR}/deploy/debian/postrm ${PROJECT_SOURCE_DIR}/deploy/debian/conffiles)
    set(CPACK_COMPONENT_DAEMON_DESCRIPTION "token selection on CPUs, from logits in shared memory
 A daemon on the inference host whose samplers choose the next tokens on CPUs.")
    bring_library(fmt::fmt)
    bring_library(spdlog::spdlog)
    bring_library(yaml-cpp)
    install(DIRECTORY ${private_libraries}/ DESTINATION lib/croupier COMPONENT daemon)
    set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_BINARY_DIR}/shlibdeps.cmake)
    file(WRITE ${CPACK_PROJECT_CONFIG_FILE} "set(SHLIBDEPS_EXECUTABLE ${shlibdeps})\n")
    search_private_libraries(croupierd)
endif()
if(CROUPIER_TOOLS)
    list(APPEND CPACK_COMPONENTS_ALL bench)
    search_private_libraries(croupier croupier-bench)
    set(CPACK_DEBIAN_BENCH_PACKAGE_NAME croupier-bench)
    set(CPACK_DEBIAN_BENCH_PACKAGE_SECTION net)
    set(CPACK_DEBIAN_BENCH_PACKAGE_DEPENDS "croupier (= ${PROJECT_VERSION})")
    set(CPACK_COMPONENT_BENCH_DESCRIPTION "token selection on CPUs: simulated engine and benchmarks
 What croupier sim, croupier bench and croupier plan run.")
endif()
# Each package's licence, where Debian looks for it.
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
    string(TOUPPER ${component} upper)
    install(FILES ${PROJECT_SOURCE_DIR}/deploy/debian/copyright
            DESTINATION share/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME} COMPONENT ${component})
endforeach()
include(CPack)
