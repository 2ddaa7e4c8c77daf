#include "shm/mapping.h"

#include <signal.h>
#include <sys/mman.h>

#include <array>
#include <cstdint>

namespace croupier::shm {

namespace detail {

struct MappedRange {
    std::atomic<std::uintptr_t> begin{0};  // 0: free; 1: being filled
    std::atomic<std::size_t> bytes{0};
    std::atomic<bool> lost{false};
};

}  // namespace detail

namespace {

using detail::MappedRange;

constexpr std::uintptr_t kBeingFilled = 1;

// A signal handler may neither lock nor allocate: a fixed table of plain words. 64 sessions in the
// supervisor's own hands and in those of each of its threads leave it mostly empty.
std::array<MappedRange, 1024>& ranges() {
    static std::array<MappedRange, 1024> all;
    return all;
}

MappedRange* enter(std::uintptr_t begin, std::size_t bytes) {
    for (MappedRange& range : ranges()) {
        std::uintptr_t free = 0;
        if (!range.begin.compare_exchange_strong(free, kBeingFilled, std::memory_order_acquire)) continue;
        range.lost.store(false, std::memory_order_relaxed);
        range.bytes.store(bytes, std::memory_order_relaxed);
        // SYNC: release; pairs with the handler's acquire: who sees where it begins sees where it ends.
        range.begin.store(begin, std::memory_order_release);
        return &range;
    }
    return nullptr;
}

MappedRange* range_of(std::uintptr_t address) {
    for (MappedRange& range : ranges()) {
        const std::uintptr_t begin = range.begin.load(std::memory_order_acquire);
        if (begin <= kBeingFilled || address < begin) continue;
        if (address - begin < range.bytes.load(std::memory_order_relaxed)) return &range;
    }
    return nullptr;
}

// Zeros take the place of the whole mapping, and the instruction is repeated. Two threads that come here at
// once do it twice, which changes nothing.
void replace_lost_pages(int signal, siginfo_t* info, void* /*context*/) {
    MappedRange* range = range_of(reinterpret_cast<std::uintptr_t>(info->si_addr));
    if (range != nullptr) {
        // NOLINTNEXTLINE(performance-no-int-to-ptr)
        void* begin = reinterpret_cast<void*>(range->begin.load(std::memory_order_relaxed));
        void* put = ::mmap(begin, range->bytes.load(std::memory_order_relaxed), PROT_READ | PROT_WRITE,
                           MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        range->lost.store(true, std::memory_order_release);
        if (put != MAP_FAILED) return;
    }
    // Not ours: it ends this process as it would have without us, at the same instruction.
    ::signal(signal, SIG_DFL);
}

}  // namespace

Mapping::Mapping(void* address, std::size_t bytes)
    : address_(address), bytes_(bytes), range_(enter(reinterpret_cast<std::uintptr_t>(address), bytes)) {
    ::madvise(address, bytes, MADV_DONTFORK);
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    std::swap(range_, other.range_);
    std::swap(home_, other.home_);
    return *this;
}

Mapping::~Mapping() {
    // In a forked child the addresses may be another mapping's by now.
    if (!home_.is_here()) return;
    // Left first: once unmapped, the addresses may be somebody else's.
    if (range_ != nullptr) range_->begin.store(0, std::memory_order_release);
    if (address_ != nullptr) ::munmap(address_, bytes_);
}

bool Mapping::lost() const {
    return range_ != nullptr && range_->lost.load(std::memory_order_acquire);
}

void survive_lost_pages() {
    ranges();
    struct sigaction action {};
    action.sa_sigaction = replace_lost_pages;
    action.sa_flags = SA_SIGINFO;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace croupier::shm
