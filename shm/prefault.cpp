#include "shm/prefault.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

namespace croupier::shm {
namespace {

// Between two looks at whether it is still wanted: about a millisecond.
constexpr std::size_t kPiece = std::size_t{16} * 1024 * 1024;

void touch(const std::byte* begin, std::size_t bytes, std::size_t page) {
    for (std::size_t at = 0; at < bytes; at += page) {
        static_cast<void>(*static_cast<const volatile std::byte*>(begin + at));
    }
}

void fill(const std::stop_token& stop, std::byte* begin, std::size_t bytes) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    for (std::size_t at = 0; at < bytes && !stop.stop_requested(); at += kPiece) {
        const std::size_t piece = std::min(kPiece, bytes - at);
        if (::madvise(begin + at, piece, MADV_POPULATE_WRITE) == 0) continue;
        // Kernels before 5.14 do not know it. What else fails would be the death of a process that touches
        // it.
        if (errno != EINVAL) return;
        touch(begin + at, piece, page);
    }
}

}  // namespace

Prefault::Prefault(const Mapping& mapping, std::uint64_t bytes)
    : thread_([begin = static_cast<std::byte*>(mapping.get_address()), bytes](const std::stop_token& stop) {
          fill(stop, begin, bytes);
      }) {}

}  // namespace croupier::shm
