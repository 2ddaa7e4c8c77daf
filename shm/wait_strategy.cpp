#include "shm/wait_strategy.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace croupier::shm {

namespace {

void pause_once() {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace

// A long one is about a microsecond.
void WaitStrategy::pause(bool long_one) {
    constexpr int kLong = 16;
    for (int i = 0; i < (long_one ? kLong : 1); ++i) pause_once();
}

bool WaitStrategy::within_patience() {
    const auto now = std::chrono::steady_clock::now();
    if (!idle_since_) idle_since_ = now;
    return now - *idle_since_ < settings_.spin;
}

}  // namespace croupier::shm
