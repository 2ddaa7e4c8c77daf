# Warnings are errors where Croupier is developed (CMakePresets.json), not where it is packaged; every target
# of ours links croupier_options.
option(CROUPIER_WERROR "Warnings are errors" OFF)
add_library(croupier_options INTERFACE)
set(cxx_options
    -Wall
    -Wextra
    -Wpedantic
    -Wshadow
    -Wconversion
    -Wsign-conversion
    -Wnon-virtual-dtor
    $<$<BOOL:${CROUPIER_WERROR}>:-Werror>
    # Tokens must not depend on whether a compiler fused a multiply and an add.
    -ffp-contract=off)
set(cuda_options
    $<$<BOOL:${CROUPIER_WERROR}>:--Werror=all-warnings>
    # Kernels call the constexpr functions that the CPU calls.
    --expt-relaxed-constexpr
    -Xcompiler=-Wall,-Wextra,-Wshadow$<$<BOOL:${CROUPIER_WERROR}>:,-Werror>)
target_compile_options(
    croupier_options
    INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${cxx_options}>"
              # GCC 12 sees overlaps in std::string's operator+ that are not there (GCC bug 105651).
              $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>
              "$<$<COMPILE_LANGUAGE:CUDA>:${cuda_options}>"
)
target_include_directories(croupier_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
# What flatc generates does not keep to our warnings.
target_include_directories(croupier_options SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/generated)
target_compile_definitions(croupier_options INTERFACE CROUPIER_VERSION="${PROJECT_VERSION}")

set(CROUPIER_SANITIZE "" CACHE STRING "Sanitizers for every target: empty, address,undefined or thread")
if(CROUPIER_SANITIZE)
    add_compile_options(-fsanitize=${CROUPIER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${CROUPIER_SANITIZE})
    if(CROUPIER_SANITIZE MATCHES "address")
        # AddressSanitizer does not see an index past a span that lies within a larger array, and UBSan sees it with clang only.
        add_compile_definitions(_GLIBCXX_ASSERTIONS)
    endif()
    if(CROUPIER_SANITIZE STREQUAL "thread")
        # It does not know fences, of which GCC warns. What they order here are atomics, which it takes as they are.
        add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-tsan>)
    endif()
endif()

find_program(CROUPIER_CCACHE ccache)
if(CROUPIER_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CROUPIER_CCACHE})
endif()
