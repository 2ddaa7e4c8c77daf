#include <stdexcept>

#include "tests/gpu_writer/lean_side.h"
#include "tests/gpu_writer/worker_memory.h"

namespace croupier::testing {

std::uint32_t cuda_devices() {
    return 0;
}

bool has_cuda_device() {
    return false;
}

void synchronise_gpu() {}

std::size_t free_gpu_bytes() {
    return 0;
}

std::unique_ptr<WorkerMemory> make_gpu_memory(std::size_t /*bytes*/) {
    throw std::logic_error("this build has no CUDA");
}

std::unique_ptr<LeanSide> make_gpu_lean() {
    throw std::logic_error("this build has no CUDA");
}

}  // namespace croupier::testing
