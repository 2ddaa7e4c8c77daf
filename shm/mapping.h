// Memory that a file stands behind, which whoever may write to the file can also cut off.
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

#include "shm/home_process.h"

namespace croupier::shm {

namespace detail {
struct MappedRange;
}

// Unmapped at its end, and not inherited by forked children. In a process that survives lost pages, a read of
// what was cut off reads zeros from then on.
class Mapping {
  public:
    Mapping() = default;
    Mapping(void* address, std::size_t bytes);
    Mapping(Mapping&& other) noexcept
        : address_(std::exchange(other.address_, nullptr)),
          bytes_(std::exchange(other.bytes_, 0)),
          range_(std::exchange(other.range_, nullptr)),
          home_(other.home_) {}
    Mapping& operator=(Mapping&& other) noexcept;
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    ~Mapping();

    void* get_address() const { return address_; }
    std::size_t get_size() const { return bytes_; }
    // Its pages were gone when this process touched them: what stands there now is nobody's but ours.
    bool lost() const;

  private:
    void* address_ = nullptr;
    std::size_t bytes_ = 0;
    detail::MappedRange* range_ = nullptr;
    HomeProcess home_;
};

// From now on a mapping whose pages are gone costs this process that mapping (its lost() says so) instead of
// its life. For the daemon's processes: an engine's own are not ours to handle signals in.
void survive_lost_pages();

}  // namespace croupier::shm
