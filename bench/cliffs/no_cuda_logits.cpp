#include <stdexcept>

#include "bench/cliffs/step_logits.h"

namespace croupier::bench {

std::unique_ptr<StepLogits> cuda_logits(const std::string& /*segment_path*/,
                                        const measurement::LaidRows& /*rows*/, std::uint32_t /*columns*/) {
    throw std::runtime_error("--writer cuda: this build has no CUDA writer; rebuild with nvcc installed");
}

}  // namespace croupier::bench
