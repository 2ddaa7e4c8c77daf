# croupier_shared_library(<target> <name> <symbol map>): one C ABI, whose map keeps the C++ behind it to itself; the SOVERSION is what
# the headers say.
function(croupier_shared_library target name map)
    add_library(${target} SHARED)
    target_link_options(${target} PRIVATE -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/${map} -Wl,--no-undefined)
    set_target_properties(
        ${target} PROPERTIES OUTPUT_NAME ${name} SOVERSION ${CROUPIER_ABI_MAJOR} VERSION ${PROJECT_VERSION}
                             LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${map})
endfunction()
