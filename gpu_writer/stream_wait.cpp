#include "gpu_writer/stream_wait.h"

#include <string>

#include "gpu_writer/cuda_memory.h"

namespace croupier::gpu_writer {

using shm::Errc;

shm::Result<StreamWait> StreamWait::find() {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found{};
    CROUPIER_TRY(cuda_done(
        cudaGetDriverEntryPointByVersion("cuStreamWaitValue64", &entry, 11070, cudaEnableDefault, &found),
        "cannot look for cuStreamWaitValue64 in the driver"));
    if (found != cudaDriverEntryPointSuccess || entry == nullptr) {
        return shm::fail(Errc::system_error,
                         "the driver has no cuStreamWaitValue64, by which a stream waits for a word: wait "
                         "with croupier_writer_wait_tokens(), in a session of the transport `rows`");
    }
    return StreamWait(reinterpret_cast<PFN_cuStreamWaitValue64_v11070>(entry));
}

shm::Result<bool> StreamWait::until(cudaStream_t stream, std::uint64_t address, std::uint64_t value) const {
    const CUresult waits = wait_value_(stream, address, value, CU_STREAM_WAIT_VALUE_GEQ);
    if (waits == CUDA_SUCCESS) return true;
    return shm::fail(Errc::system_error,
                     "cuStreamWaitValue64 failed with CUDA driver error " +
                         std::to_string(static_cast<int>(waits)) +
                         ": wait with croupier_writer_wait_tokens(), in a session of the transport `rows`");
}

}  // namespace croupier::gpu_writer
