#include "gpu_writer/step_writer.h"

namespace croupier::gpu_writer {

shm::Result<bool> StepWriter::begin(std::uint64_t step) {
    if (begun() - finished() >= host_.geometry().slots) return false;
    auto begun_step = steps_.begin(step);
    if (!begun_step) return begun_step.error();
    if (!begun_step.value()) return false;
    queue(*begun_step.value());
    return true;
}

shm::Result<bool> StepWriter::abandon() {
    forget_after(finished());
    steps_.abandon(finished());
    return true;
}

}  // namespace croupier::gpu_writer
