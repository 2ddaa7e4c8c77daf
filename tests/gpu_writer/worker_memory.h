// A worker's side of a device: memory for logits and a stream, on a GPU or, for the host's writer, neither.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tests/gpu_writer/naive_slice.h"

namespace croupier::testing {

class CapturedGraph {
  public:
    virtual ~CapturedGraph() = default;
    virtual void replay() = 0;
};

class WorkerMemory {
  public:
    virtual ~WorkerMemory() = default;
    virtual void* stream() = 0;
    // Behind what the stream holds already.
    virtual const void* put(const Bytes& bytes) = 0;
    // Room for tokens, where put() puts its rows; and what came there, behind what the stream holds already.
    virtual std::int32_t* token_room() = 0;
    virtual std::vector<std::int32_t> tokens(std::size_t count) = 0;
    virtual void synchronise() = 0;
    // What the stream gets from here on waits for resume().
    virtual void stall() = 0;
    virtual void resume() = 0;
    virtual std::unique_ptr<CapturedGraph> capture(const std::function<void()>& work) = 0;
};

bool has_cuda_device();
std::uint32_t cuda_devices();
// Of CUDA device 0.
std::size_t free_gpu_bytes();
// With all that runs there, whoever began it.
void synchronise_gpu();
std::unique_ptr<WorkerMemory> make_gpu_memory(std::size_t bytes);
std::unique_ptr<WorkerMemory> make_host_memory();

}  // namespace croupier::testing
