#include "gpu_writer/step_writer.h"

namespace croupier::gpu_writer {

shm::Result<std::unique_ptr<StepWriter>> attach_cuda_writer(const WriterOptions& options) {
    return shm::fail(shm::Errc::bad_argument, "device is " + std::to_string(options.device) +
                                                  ", but this library was built without CUDA: allowed is -1, "
                                                  "the host");
}

}  // namespace croupier::gpu_writer
