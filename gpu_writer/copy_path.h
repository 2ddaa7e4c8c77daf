// The way by HBM: a slice is tiled there on the worker's stream, and the copy engine sends it chunk by chunk
// on a stream of the writer's own. The ready words that publish the chunks have another stream: a word
// between two copies of one stream would keep the engine waiting for its fence.
#pragma once

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>

#include "gpu_writer/cuda_memory.h"
#include "gpu_writer/slice_kernels.h"
#include "proto/logits_slot.h"

namespace croupier::gpu_writer {

// Where a slice goes: memory by its host address, words by the GPU's.
struct CopyTarget {
    void* elements = nullptr;
    float* maxima = nullptr;
    std::uint64_t ready = 0;
    proto::ReadyWord word;
    std::uint64_t finished = 0;
    std::uint64_t ticket = 0;
    std::uint32_t columns = 0;
};

// Of GPU memory, for the largest step; 0: not needed.
struct CopyRoom {
    std::uint64_t elements = 0;
    std::uint64_t maxima = 0;
};

class CopyPath {
  public:
    static shm::Result<CopyPath> make(const CopyRoom& room);

    shm::Result<bool> send(const SliceRows& rows, const CopyTarget& target, std::uint64_t* next,
                           cudaStream_t worker);
    // Waits until what was sent has landed.
    shm::Result<bool> settle();

  private:
    // Two, so that the next step is tiled while this one is sent.
    struct Stage {
        DeviceMemory<std::byte> elements;
        DeviceMemory<float> maxima;
        Event first_tiled;
        Event tiled;
        // The copies so far. A wait is for the copies before the record that precedes it in this program,
        // whatever is recorded after (cudaEventRecord's contract): one event does for all chunks.
        Event sent;
    };

    static shm::Result<Stage> make_stage(const CopyRoom& room);
    shm::Result<bool> tile(const SliceRows& rows, const Stage& stage, const CopyTarget& target,
                           std::uint32_t first_chunk, std::uint64_t* next, cudaStream_t worker);
    shm::Result<bool> send_maxima(const SliceRows& rows, const Stage& stage, const CopyTarget& target);
    shm::Result<bool> send_chunk(const Stage& stage, const CopyTarget& target, TileRange tiles,
                                 std::uint64_t tile_row_bytes);
    shm::Result<bool> send_rest(const Stage& stage, const CopyTarget& target, TileRange tiles,
                                std::uint64_t tile_row_bytes);
    shm::Result<bool> wait_for(const Event& event, cudaStream_t waiting);
    shm::Result<bool> publish(std::uint64_t address, std::uint64_t value);

    PFN_cuStreamWriteValue64_v11070 write_value_ = nullptr;
    Stream copying_;
    Stream publishing_;
    std::array<Stage, 2> stages_;
    std::uint64_t sent_ = 0;
};

}  // namespace croupier::gpu_writer
