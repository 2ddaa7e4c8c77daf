#include <stdexcept>

#include "sim/writer_process.h"

namespace croupier::sim {

void run_gpu_writer(const World& /*world*/, std::uint32_t /*rank*/) {
    throw std::runtime_error(
        "--writer cuda: this build has no CUDA writer; rebuild with nvcc and cuBLAS installed");
}

}  // namespace croupier::sim
