// What a rank's GPU reaches of a session's segment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gpu_writer/cuda_memory.h"
#include "shm/segment.h"

namespace croupier::gpu_writer {

class RegisteredRings {
  public:
    shm::Result<bool> add_all(const shm::Segment& segment, std::uint32_t rank);
    // What lean steps have beside that.
    shm::Result<bool> add_lean(const shm::Segment& segment, std::uint32_t rank);
    // As the GPU sees it; 0 of what is not registered.
    std::uint64_t address(const void* host) const;
    void clear() { parts_.clear(); }

  private:
    // One distance between the two for each part.
    struct Part {
        const std::byte* begin = nullptr;
        std::size_t bytes = 0;
        std::byte* device = nullptr;
        RegisteredMemory registered;
    };

    shm::Result<bool> add(void* begin, std::size_t bytes, const std::string& what);

    std::vector<Part> parts_;
};

}  // namespace croupier::gpu_writer
