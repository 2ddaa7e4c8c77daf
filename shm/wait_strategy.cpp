#include "shm/wait_strategy.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace croupier::shm {

void WaitStrategy::pause() {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

bool WaitStrategy::within_patience() {
    const auto now = std::chrono::steady_clock::now();
    if (!idle_since_) idle_since_ = now;
    return now - *idle_since_ < settings_.spin;
}

}  // namespace croupier::shm
