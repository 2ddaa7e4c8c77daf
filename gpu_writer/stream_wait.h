// Makes a stream wait for a word in memory that a CPU or another stream stores: what the driver has and the
// runtime has not.
#pragma once

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "shm/error.h"

namespace croupier::gpu_writer {

class StreamWait {
  public:
    static shm::Result<StreamWait> find();

    // What follows in the stream runs once the word at `address`, the device's, is `value` or beyond.
    shm::Result<bool> until(cudaStream_t stream, std::uint64_t address, std::uint64_t value) const;

  private:
    explicit StreamWait(PFN_cuStreamWaitValue64_v11070 wait_value) : wait_value_(wait_value) {}

    PFN_cuStreamWaitValue64_v11070 wait_value_;
};

}  // namespace croupier::gpu_writer
