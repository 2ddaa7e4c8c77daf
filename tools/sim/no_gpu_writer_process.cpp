#include <stdexcept>

#include "tools/sim/writer_process.h"

namespace croupier::tools::sim {

void run_gpu_writer(const World& /*world*/, std::uint32_t /*rank*/) {
    throw std::runtime_error("--writer cuda: this build has no CUDA writer; build where nvcc and cuBLAS are");
}

}  // namespace croupier::tools::sim
