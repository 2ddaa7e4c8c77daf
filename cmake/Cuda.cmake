# CUDA is optional: without it everything but the CUDA writer is built, and one line says so.
option(CROUPIER_CUDA "Build the CUDA writer where nvcc is found" ON)
set(CROUPIER_CUDA_ARCHITECTURES "80;90;100" CACHE STRING "GPUs that the CUDA writer is compiled for")

set(CROUPIER_HAS_CUDA OFF)
set(CROUPIER_HAS_NCCL OFF)
if(NOT CROUPIER_CUDA)
    message(STATUS "CUDA writer: off (CROUPIER_CUDA is OFF)")
    return()
endif()
if(CROUPIER_SANITIZE)
    message(STATUS "CUDA writer: off (nvcc does not know the sanitizers)")
    return()
endif()
find_program(CMAKE_CUDA_COMPILER nvcc HINTS $ENV{CUDA_HOME}/bin PATHS /usr/local/cuda/bin)
if(NOT CMAKE_CUDA_COMPILER)
    message(STATUS "CUDA writer: off (no nvcc)")
    return()
endif()

# Set before the language is: the compiler check would take an architecture that CUDA 13 has dropped.
set(CMAKE_CUDA_ARCHITECTURES ${CROUPIER_CUDA_ARCHITECTURES})
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
# CMake 3.25 does not know that nvcc has C++20.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA_STANDARD 20)
if(CROUPIER_CCACHE)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CROUPIER_CCACHE})
endif()
set(CROUPIER_HAS_CUDA ON)
# For kernels that race: the race's bits are the CPU's, so every operation is rounded by itself, to nearest,
# subnormals too. nvcc's defaults but for the first, and said all the same: tokens depend on each.
set(CROUPIER_RACE_OPTIONS "--fmad=false;--prec-div=true;--ftz=false")
# The header is all that a build needs: the library is looked for when it is used.
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
if(NCCL_INCLUDE_DIR)
    set(CROUPIER_HAS_NCCL ON)
else()
    message(STATUS "NCCL fan-out: off (no nccl.h)")
endif()
message(STATUS "CUDA writer: on (nvcc ${CMAKE_CUDA_COMPILER_VERSION} for ${CROUPIER_CUDA_ARCHITECTURES})")
